// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// Noise that leaves what tables hold, and the coin, release a point that no record
// has a part in.
func TestPointWithoutRecords(t *testing.T) {
	space := Space{
		Values:  []int{-1, 0, 1},
		NormSq:  2,
		Allowed: [][]bool{{true, true, true}, {false, true, true}, {true, true, true}},
	}
	var data [2]*Problem
	for i, y := range []int{-1, 1} {
		p, err := NewProblem([][]int64{{1, 2, 3}}, []int{y}, []int{1000}, space)
		require.NoError(t, err)
		data[i] = p
	}
	for _, m := range []interface {
		Plan(*Problem, dp.Budget) (*Plan, error)
	}{&OPDisc{}, &OPDisc{Law: Gaussian}, &Product{}, &RSPM{}, &SampleAndAggregate{Blocks: 1, Heuristic: exactly}} {
		for name, change := range map[string]func(q *Params){
			"coin":  func(q *Params) { q.CoinBits = 1 },
			"limit": func(q *Params) { q.Limit = 1 },
		} {
			var seen [2]map[string]int
			for i, p := range data {
				pl, err := m.Plan(p, dp.Budget{Epsilon: 5, Delta: 1e-6})
				require.NoError(t, err)
				change(&pl.params)
				seen[i] = map[string]int{}
				for s := range 200 {
					if name == "coin" && sample.Reproducible(uint64(s)).Uint64()>>63 == 1 {
						continue // not this time
					}
					rel, err := pl.Fit(bg, p, sample.Reproducible(uint64(s)))
					require.NoError(t, err)
					w := []int{int(rel.Theta[0]), int(rel.Theta[1]), int(rel.Theta[2])}
					if pl.vote == nil {
						require.True(t, p.Contains(w))
					}
					seen[i][fmt.Sprint(w)]++
				}
			}
			require.Equal(t, seen[0], seen[1])
			require.Greater(t, len(seen[0]), 10, "%s %T", name, m)
		}
	}
}

// truncated returns the exact probabilities of the outputs of Product with one
// coordinate of two values when noise beyond limit steps, and a coin of probability
// gamma, release a point of the space.
func truncated(t testing.TB, p *Problem, scale float64, limit int64, gamma float64) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	inside, z := 0.0, 0.0
	for h := int64(0); h < int64(60*scale); h++ {
		w := math.Exp(-float64(h) / scale)
		for _, row := range [][]int64{{h, 0}, {0, h}} {
			if h == 0 && row[1] == 0 && out["seen 0"] > 0 {
				continue // one table, not two
			}
			z += w
			if h == 0 {
				out["seen 0"] = 1
			}
			if h > limit {
				continue
			}
			q, err := p.Perturb([][]int64{row}, nil, 0)
			require.NoError(t, err)
			sol, err := everywhere.Solve(bg, q)
			require.NoError(t, err)
			out[fmt.Sprint(sol.W)] += w
			inside += w
		}
	}
	delete(out, "seen 0")
	for _, key := range []string{"[-1]", "[1]"} {
		out[key] = (1-gamma)*(out[key]/z+(1-inside/z)/2) + gamma/2
	}
	return out
}

// Values that no point of the space has, beyond its norm or not allowed, widen no table: noise
// leaves what tables hold as rarely as without them, which is what the coin pays for.
func TestUnreachableValues(t *testing.T) {
	forbidden := Space{Values: []int{-1, 1, maxValue}, NormSq: -1}
	for range 3 {
		forbidden.Allowed = append(forbidden.Allowed, []bool{true, true, false})
	}
	for _, s := range []Space{{Values: []int{-1, 0, 1, maxValue}, NormSq: 1}, forbidden} {
		for _, oracle := range []bool{false, true} {
			for _, eps := range []float64{1e-2, 1e-6} {
				plan, err := calibrate(&OPDisc{}, public{
					Space: s, Dim: 3, Range: 1, OracleLoss: oracle, Budget: dp.Budget{Epsilon: eps},
				})
				require.NoError(t, err)
				for seed := range uint64(200) {
					n := plan.draw(fault.From(context.Background()), sample.Reproducible(seed))
					require.NotNil(t, n, "drawn without looking at a record")
					for _, row := range n.table {
						require.Zero(t, row[len(row)-1])
						require.NotZero(t, row[0])
					}
				}
			}
		}
	}
}

// All outputs at one parameter with noise that is cut off at a few steps: with the
// coin of the proof the ratios of neighbors stay below e^ε, without it they do not,
// and a coin of half the size is too small where the cut is as near as it allows.
func TestCoinExactly(t *testing.T) {
	const eps, scale = 1.0, 2.0
	var data []*Problem
	for _, n := range []int{0, 1, 2, 3} { // as many records of label +1 of three
		p, err := NewProblem([][]int64{{1}, {1}}, []int{1, -1}, []int{n, 3 - n}, cube())
		require.NoError(t, err)
		data = append(data, p)
	}
	worst := func(limit int64, gamma float64) float64 {
		w := 0.0
		for i := range len(data) - 1 {
			w = math.Max(w, worstRatio([]map[string]float64{
				truncated(t, data[i], scale, limit, gamma), truncated(t, data[i+1], scale, limit, gamma)}))
		}
		return w
	}
	require.LessOrEqual(t, worst(1000, 0), eps+1e-9)
	for _, limit := range []int64{3, 4, 6, 10} {
		// p = P(|h| > limit) and N = 2: η(1−γ) ≤ (e^ε − 1)γ/N
		eta := (1 + math.Exp(eps)) * tail(scale, limit)
		gamma := eta / (eta + (math.Exp(eps)-1)/2)
		require.LessOrEqual(t, worst(limit, gamma), eps, "limit %d", limit)
	}
	// The control: where noise beyond the limit releases nothing, as it did once, an
	// output that a neighbor has with probability above 1/100 is never seen.
	p := func(i int) float64 { return truncated(t, data[i], scale, 2, 0)["[1]"] - tail(scale, 2)/2 }
	require.Less(t, p(0), 1e-12)
	require.Greater(t, p(1), 0.01)
}

// tail is P(|h| > limit) of the discrete Laplace law.
func tail(scale float64, limit int64) float64 {
	return 2 * math.Exp(-float64(limit+1)/scale) / (1 + math.Exp(-1/scale))
}

// Searches for a scale or an ε end where there is none.
func TestHopelessCalibrations(t *testing.T) {
	never := func(float64, float64) float64 { return 0 }
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	require.Equal(t, math.Inf(1), sigmaFor(never, b, 1))
	require.Equal(t, math.Inf(1), provedEpsilon(never, 1, 1e-6))
	always := func(float64, float64) float64 { return math.Inf(-1) }
	require.Equal(t, dp.MinEpsilon, provedEpsilon(always, 1, 1e-6))
	require.Positive(t, sigmaFor(always, b, 1))

	_, err := calibrate(
		&RSPM{Law: PaperSigma},
		public{Space: cube(), Dim: 8000, Range: 1, Budget: dp.Budget{Epsilon: 1e5, Delta: 0.999}},
	)
	require.ErrorIs(t, err, dp.ErrCondition)
	for _, m := range []any{&Product{}, &RSPM{}} {
		_, err = calibrate(m, public{Space: ternary(), Dim: 5000, Range: 1, Budget: b})
		require.ErrorIs(t, err, ErrMechanism)
		_, err = calibrate(m, public{Space: ternary(), Dim: 1})
		require.ErrorIs(t, err, dp.ErrBudget)
	}
	_, err = (&Product{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&RSPM{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = calibrate(&RSPM{}, public{Space: ternary(), Dim: 4000, Range: 0x1p60, Budget: b})
	require.ErrorIs(t, err, dp.ErrCondition)
}

// Noise that leaves the tables costs (1 + e^ε′) of its probability. Where the ε′ that is proved for
// a stated scale is far beyond the ε that was asked for, tables reach farther.
func TestRareNoiseOfStatedScales(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range []any{
		&OPDisc{Law: Gaussian, Sigma: 5}, &OPDisc{Law: Gaussian, Sigma: 1}, &OPDisc{Law: Gaussian, Sigma: 0.3},
		&RSPM{Law: PaperSigma},
	} {
		for _, size := range []float64{1, 1e3} { // of the loss of one record
			pl, err := calibrate(m, public{Space: cube(), Dim: 20, OracleLoss: true, Range: size, Budget: b})
			if err != nil { // ε′ beyond dp.MaxEpsilon
				require.ErrorIs(t, err, dp.ErrCondition)
				continue
			}
			q := pl.Params()
			n, unit := float64(q.Noises), math.Ldexp(1, q.unit())
			// ‖g‖ ≤ √n + √(2x) and ‖g‖₁ ≤ √n·‖g‖ but with probability e^−x: the x up to which tables hold σg
			x := math.Pow((float64(q.Limit)*unit/q.Scale/math.Sqrt(n)-math.Sqrt(n))*0.9, 2) / 2
			require.Less(t, q.Proved.Epsilon-x, math.Log(rareShare*b.Delta/2), "%+v", q)
			require.LessOrEqual(t, pl.Profile().Delta(q.Proved.Epsilon), b.Delta*(1+1e-6), "%+v", q)
		}
	}
	// No profile is NaN, however large ε is.
	pl, err := calibrate(
		&OPDisc{Law: Gaussian},
		public{Space: Lattice(4), Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 2000, Delta: 1e-6}},
	)
	require.NoError(t, err)
	require.InEpsilon(t, 1e-6, pl.Profile().Delta(2000), 1e-5)
}

// refusing is an oracle that finds fault with the problem.
type refusing struct{}

func (refusing) Solve(context.Context, *Problem) (*Solution, error) {
	return nil, fmt.Errorf("%w: not for me", ErrProblem)
}

func TestOracleRefuses(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 2}}, []int{1}, nil, ternary())
	require.NoError(t, err)
	_, err = (&Product{Oracle: refusing{}}).Fit(bg, p, dp.Budget{Epsilon: 1}, nil)
	require.ErrorIs(t, err, ErrProblem)
	require.NotErrorIs(t, err, dp.ErrWithheld)

	pl, err := (&SampleAndAggregate{Blocks: 1, Heuristic: exactly}).Plan(p, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	_, err = pl.Fit(bg, &Problem{}, nil)
	require.ErrorIs(t, err, ErrProblem)
}

// Laws print.
func TestStrings(t *testing.T) {
	for l := Law(0); l <= Laplace; l++ {
		require.NotContains(t, l.String(), "invalid")
	}
	require.Contains(t, Law(-1).String(), "invalid")
	require.Contains(t, Law(99).String(), "invalid")
}

// public holds what a plan may know of a problem.
type public struct {
	Space
	Dim              int
	OracleLoss       bool
	Range, Lipschitz float64
	Budget           dp.Budget
}

// calibrate returns the plan of a copy of m for a problem without records.
func calibrate(m any, q public) (*Plan, error) {
	open := Empty
	if q.OracleLoss {
		open = Custom
	}
	p, err := open(q.Dim, q.Space)
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *OPDisc:
		c := *m
		c.Range, c.Lipschitz = q.Range, q.Lipschitz
		return c.Plan(p, q.Budget)
	case *Product:
		c := *m
		c.Range = q.Range
		return c.Plan(p, q.Budget)
	case *RSPM:
		c := *m
		c.Range = q.Range
		return c.Plan(p, q.Budget)
	}
	panic("another mechanism")
}

// problemOver returns the problem without records, or with a loss that only an oracle knows.
func problemOver(t testing.TB, dim int, s Space, custom bool) *Problem {
	t.Helper()
	open := Empty
	if custom {
		open = Custom
	}
	p, err := open(dim, s)
	require.NoError(t, err)
	return p
}

// halves are the records of one feature that tell all of {−1,0,1} apart: each is
// a neighbor of each under Replace.
func halves(t testing.TB, space Space) (out []*Problem) {
	for _, x := range []int64{-1, 1} {
		for _, y := range []int{-1, 1} {
			p, err := NewProblem([][]int64{{x}}, []int{y}, nil, space)
			require.NoError(t, err)
			out = append(out, p)
		}
	}
	return out
}

// worstRatio returns the largest log ratio of the probabilities of one output.
func worstRatio(probs []map[string]float64) float64 {
	worst := 0.0
	for _, a := range probs {
		for _, b := range probs {
			for w, p := range a {
				worst = math.Max(worst, math.Log(p/b[w]))
			}
		}
	}
	return worst
}

// All outputs of the integer mechanisms with one parameter, with their exact
// probabilities: all noise up to a tail of e^{−40}, ties included, on grids so
// coarse that ties abound. The log ratios of neighbors stay below ε, and reach 0.4
// of it, so that half the noise would be seen.
func TestExactIntegerPrivacy(t *testing.T) {
	const eps = 2
	for _, c := range []struct {
		name  string
		space Space
		law   Law
	}{
		{"signs", cube(), KNorm}, {"ternary", ternary(), KNorm},
		{"signs", cube(), OneSided}, {"ternary", ternary(), OneSided},
		{"signs", cube(), Laplace}, {"ternary", ternary(), Laplace},
	} {
		for _, bits := range testkit.Every(2, []int{0, 2}) {
			pl := &Plan{params: Params{Space: c.space, Dim: 1, Law: c.law}}
			weight := 1
			if c.law == Laplace {
				sep, m, err := separate(&pl.params.Space, 1)
				require.NoError(t, err)
				pl.separator, weight = sep, m
			}
			step := math.Ldexp(1, -bits)
			scale := float64(weight) * 2 / eps // in real units: t = weight·s/ε
			reach := int64(20 * scale / step)
			if c.law == KNorm || c.law == OneSided && len(c.space.Values) == 2 {
				reach = int64(40 * scale / step)
			}
			data := halves(t, c.space)
			probs := make([]map[string]float64, len(data))
			for i := range probs {
				probs[i] = map[string]float64{}
			}
			visit := func(row []float64, p float64) {
				for i, problem := range data {
					q, err := problem.perturbReal([][]float64{row}, nil)
					require.NoError(t, err)
					sol, err := everywhere.Solve(bg, q)
					require.NoError(t, err)
					probs[i][fmt.Sprint(sol.W)] += p
				}
			}
			// The minimizer depends on differences of the row only: one of the
			// independent entries is summed in closed form where there are three.
			switch c.law {
			case KNorm:
				quotient(pl.params.choices(1), reach, func(eta [][]int64, gauge int64) {
					row := make([]float64, len(eta[0]))
					for k, v := range eta[0] {
						row[k] = float64(v) * step
					}
					visit(row, math.Exp(-float64(gauge)*step/scale))
				})
			case OneSided:
				// Rows with minimum 0: P(row) ∝ e^{−Σ/t}, times the common part.
				quotient(pl.params.choices(1), reach, func(eta [][]int64, gauge int64) {
					row, sum := make([]float64, len(eta[0])), int64(0)
					for k, v := range eta[0] {
						row[k] = float64(v) * step
						sum += v
					}
					visit(row, math.Exp(-float64(sum)*step/scale))
				})
			case Laplace:
				lattice := make([]int64, weight)
				var walk func(i int)
				walk = func(i int) {
					if i < weight {
						for v := -reach; v <= reach; v++ {
							lattice[i] = v
							walk(i + 1)
						}
						return
					}
					row, size := make([]float64, len(pl.params.Values)), int64(0)
					for i, v := range lattice {
						size += max(v, -v)
						for k, x := range pl.params.Values {
							if separatorsOf(pl, 0)[i](x) {
								row[k] -= float64(v) * step
							}
						}
					}
					visit(row, math.Exp(-float64(size)*step/scale))
				}
				walk(0)
			}
			for i := range probs { // normalize
				sum := 0.0
				for _, p := range probs[i] {
					sum += p
				}
				for w := range probs[i] {
					probs[i][w] /= sum
				}
				require.Len(t, probs[i], len(c.space.Values))
			}
			worst := worstRatio(probs)
			require.LessOrEqual(t, worst, eps+1e-6, "%s %v bits=%d", c.name, c.law, bits) // 1e-6: the tail
			require.Greater(t, worst, 0.4*eps, "%s %v", c.name, c.law)
		}
	}
}

// radialOutputs integrates the radial law on ℝ² over the directions: given one,
// the minimizer is a step function of the radius, whose law is Gamma(2)·scale.
func radialOutputs(p *Problem, scale float64) map[string]float64 {
	const angles = 20_000
	phi := [][2]float64{{-1, 0}, {0, 1}, {1, 0}} // π(−1), π(0), π(1) for Q = 1
	out := map[string]float64{}
	for a := range angles {
		s, c := math.Sincos(2 * math.Pi * (float64(a) + 0.5) / angles)
		for i := range phi {
			lo, hi := 0.0, math.Inf(1) // radii where point i wins
			for k := range phi {
				gain := c*(phi[i][0]-phi[k][0]) + s*(phi[i][1]-phi[k][1]) // per radius
				need := float64(p.Loss([]int{i - 1}) - p.Loss([]int{k - 1}))
				switch {
				case k == i:
				case gain > 0:
					lo = math.Max(lo, need/gain)
				case gain < 0:
					hi = math.Min(hi, need/gain)
				case need > 0:
					hi = -1
				}
			}
			if lo < hi {
				cdf := func(r float64) float64 { return 1 - (1+r/scale)*math.Exp(-r/scale) }
				top := 1.0
				if !math.IsInf(hi, 1) {
					top = cdf(hi)
				}
				out[fmt.Sprint([]int{i - 1})] += (top - cdf(lo)) / angles
			}
		}
	}
	return out
}

// OPDisc with one parameter: exact probabilities by quadrature over directions
// agree with releases, and their ratios stay below ε.
func TestRadialExact(t *testing.T) {
	b := dp.Budget{Epsilon: 2}
	data := halves(t, Lattice(1))
	probs := make([]map[string]float64, len(data))
	for i, p := range data {
		pl, err := (&OPDisc{}).Plan(p, b)
		require.NoError(t, err)
		require.InEpsilon(t, 2., pl.params.Shift, 5e-4) // 2Q + 2√(Q(Q−1)) at Q = 1
		probs[i] = radialOutputs(p, 2/b.Epsilon)
		src := sample.Reproducible(8, fmt.Sprint(i))
		counts, want := make([]int, 3), make([]float64, 3)
		const runs = 8_000
		for range runs {
			rel, err := pl.Fit(bg, p, src)
			require.NoError(t, err)
			counts[int(rel.Theta[0])+1]++
		}
		for k := range want {
			want[k] = probs[i][fmt.Sprint([]int{k - 1})]
		}
		require.InDelta(t, 1, want[0]+want[1]+want[2], 1e-3)
		_, pv := testkit.ChiSquare(counts, want)
		require.Greater(t, pv, testkit.FalseReject)
	}
	worst := worstRatio(probs)
	require.LessOrEqual(t, worst, b.Epsilon)
	require.Greater(t, worst, 0.4*b.Epsilon)
	t.Logf("largest log ratio at ε = 2: %.3f", worst)
}

// Releases of every law on small spaces with two parameters: no output is more
// than e^ε times as likely on a neighbor, at confidence 1 − 1e-6 in all.
func TestSampledPrivacy(t *testing.T) {
	runs := testkit.Of(4_000, 10_000)
	b := dp.Budget{Epsilon: 2, Delta: 1e-3}
	type fitter interface {
		Plan(*Problem, dp.Budget) (*Plan, error)
	}
	for _, c := range []struct {
		name  string
		m     fitter
		space Space
	}{
		{"radial", &OPDisc{}, Lattice(2)},
		{"gaussian", &OPDisc{Law: Gaussian}, Lattice(2)},
		{"k-norm signs", &Product{}, cube()},
		{"k-norm ternary", &Product{}, ternary()},
		{"one-sided", &Product{Law: OneSided}, ternary()},
		{"rspm", &RSPM{}, ternary()},
		{"rspm gaussian", &RSPM{Law: Gaussian}, cube()},
		{"votes", &SampleAndAggregate{Blocks: 1, Heuristic: exactly}, cube()},
	} {
		var counts [2]map[string]int
		for i, y := range []int{-1, 1} {
			p, err := NewProblem([][]int64{{1, 1}}, []int{y}, nil, c.space)
			require.NoError(t, err)
			pl, err := c.m.Plan(p, b)
			require.NoError(t, err)
			counts[i] = map[string]int{}
			src := sample.Reproducible(9, c.name, fmt.Sprint(y))
			for range runs {
				rel, err := pl.Fit(bg, p, src)
				require.NoError(t, err)
				counts[i][fmt.Sprint(rel.Theta)]++
			}
		}
		worst := 0.0
		for dir := range 2 {
			for w, k := range counts[dir] {
				alpha := testkit.FalseReject / float64(4*len(counts[dir]))
				lo, _ := testkit.ClopperPearson(k, runs, alpha)
				_, hi := testkit.ClopperPearson(counts[1-dir][w], runs, alpha)
				require.LessOrEqual(t, math.Log((lo-b.Delta)/hi), b.Epsilon, "%s %v", c.name, w)
				if k > 100 && counts[1-dir][w] > 0 {
					worst = math.Max(worst, math.Log(float64(k)/float64(counts[1-dir][w])))
				}
			}
		}
		require.Greater(t, worst, 0.3, "%s: the pair tells nothing", c.name)
		t.Logf("%s: largest sampled log ratio %.2f at ε = 2", c.name, worst)
	}
}

// exactly is a heuristic that is right.
func exactly(ctx context.Context, p *Problem) ([]int, error) {
	sol, err := everywhere.Solve(ctx, p)
	if err != nil {
		return nil, err
	}
	return sol.W, nil
}

var (
	_ dp.Plan = (*Plan)(nil)
	_ dp.Plan = (*SampPlan)(nil)
)
