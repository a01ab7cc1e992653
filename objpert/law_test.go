package objpert

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

var bg = context.Background()

// shifted adds the shift of w to the noise of a plan: what makes w win on any
// neighbor of the data where it won.
func shifted(pl *Plan, n *perturbation, w []int) *perturbation {
	q := &pl.params
	out := newPerturbation(q.Dim, len(q.Values))
	out.shift = n.shift
	steps := int64(math.Ldexp(q.Shift, -q.Exponent)) // of Product and RSPM
	var lambda float64
	var last []float64
	if pl.separator == 0 && q.Time == 0 {
		k := swing(q.Relation)
		lambda, last = pl.integerShift(radialShift(pl.cube, q.Dim, q.NormSq, k*q.Range, k*q.slope()) / (pl.norm() * pl.norm()))
	}
	sq := 0
	for _, v := range w {
		sq += v * v
	}
	for j, row := range n.table {
		copy(out.table[j], row)
		for k, v := range q.Values {
			switch {
			case q.Law == KNorm || q.Law == OneSided:
				if v == w[j] {
					out.table[j][k] += steps
				}
			case pl.separator == 0: // ⟨s_w, φ(v)⟩
				out.table[j][k] += int64(lambda) * int64(w[j]*v) << q.FeatureBits
			default: // −Σ s(1 − 2bᵢ(w)) bᵢ(v) over the separators of j
				for _, fires := range separatorsOf(pl, j) {
					if fires(v) {
						if fires(w[j]) {
							out.table[j][k] += steps
						} else {
							out.table[j][k] -= steps
						}
					}
				}
			}
		}
	}
	for k, v := range n.norm {
		out.norm = append(out.norm, v+int64(last[sq])*pl.last[k])
	}
	return out
}

// separatorsOf returns the predictions on the examples that concern coordinate
// j, by their definition as halfspaces over (w_j, 1).
func separatorsOf(pl *Plan, j int) (b []func(v int) bool) {
	at := func(x, t int) func(int) bool { return func(v int) bool { return x*v-t > 0 } }
	switch pl.separator {
	case UnitVectors:
		return []func(int) bool{at(1, 0)}
	case SignedUnitVectors:
		return []func(int) bool{at(1, 0), at(-1, 0)}
	}
	last := 0
	for k, v := range pl.params.Values {
		if pl.params.allowed(j, k) {
			last = v
		}
	}
	for k, v := range pl.params.Values {
		if pl.params.allowed(j, k) && v != last {
			b = append(b, at(1, v))
		}
	}
	return b
}

// The heart of every proof here: where noise h makes w the minimizer on D, the
// noise h + s_w makes it the minimizer on D′, ties included. The oracles solve
// both sides.
func TestShiftLemma(t *testing.T) {
	for range 20 {
		rapid.Check(t, shiftLemma)
	}
}

func shiftLemma(t *rapid.T) {
	type mechanism interface{ Calibrate(Public) (*Plan, error) }
	d := rapid.IntRange(1, 3).Draw(t, "d")
	b := dp.Budget{Epsilon: 1, Delta: 1e-3}
	c := rapid.SampledFrom([]struct {
		name  string
		m     mechanism
		space Space
	}{
		{"radial", &OPDisc{}, Lattice(5)},
		{"cube", &OPDisc{}, cube()},
		{"product", &Product{}, Space{Values: []int{-2, 0, 1}, NormSq: -1}},
		{"product in a ball", &Product{Law: OneSided}, Lattice(3)},
		{"signs", &RSPM{}, cube()},
		{"ternary", &RSPM{}, ternary()},
		{"intercept", &RSPM{}, withIntercept(d, 2)},
		{"gaussian signs", &RSPM{Law: Gaussian}, cube()},
		{"gaussian", &OPDisc{Law: Gaussian}, Lattice(2)},
	}).Draw(t, "mechanism")
	rel := rapid.SampledFrom([]dp.Relation{dp.Replace, dp.AddRemove}).Draw(t, "relation")
	var m mechanism
	switch v := c.m.(type) {
	case *OPDisc:
		m = &OPDisc{Law: v.Law, Relation: rel}
	case *Product:
		m = &Product{Law: v.Law, Relation: rel}
	case *RSPM:
		m = &RSPM{Law: v.Law, Relation: rel}
	}
	pl, err := m.Calibrate(Public{Space: c.space, Dim: d, Range: 1, Budget: b})
	require.NoError(t, err)

	n := rapid.IntRange(1, 5).Draw(t, "n")
	rows, labels := make([][]int64, n+1), make([]int, n+1)
	for i := range rows {
		rows[i] = make([]int64, d)
		for j := range rows[i] {
			rows[i][j] = rapid.Int64Range(-2, 2).Draw(t, "x")
		}
		labels[i] = 2*rapid.IntRange(0, 1).Draw(t, "y") - 1
	}
	// D has records 0..n−1; D′ has record n in the place of record 0, or n+1 records.
	first := 1
	if rel == dp.AddRemove {
		first = 0
	}
	p, err := NewProblem(rows[:n], labels[:n], nil, c.space)
	require.NoError(t, err)
	p1, err := NewProblem(rows[first:], labels[first:], nil, c.space)
	require.NoError(t, err)
	if rapid.Bool().Draw(t, "swap") {
		p, p1 = p1, p
	}

	// Noise with many ties on the grid: small multiples of a record, or drawn.
	noise := pl.draw(nil, sample.Reproducible(rapid.Uint64().Draw(t, "seed")))
	one := int64(1) << noise.shift
	if pl.params.Time > 0 && rapid.Bool().Draw(t, "ties") {
		for _, row := range noise.table {
			for k := range row {
				row[k] = one * int64(rapid.IntRange(-2, 2).Draw(t, "noise"))
			}
		}
		if pl.separator != 0 {
			for j, row := range noise.table { // the tables that separators can make
				for k := range row {
					row[k] = 0
					for i, fires := range separatorsOf(pl, j) {
						if fires(pl.params.Values[k]) {
							row[k] += one * int64((i*7+j*3+n)%5-2)
						}
					}
				}
			}
		}
	}
	oracle := rapid.SampledFrom([]Oracle{Enumerate{}, GenericSearch{}, Auto{}}).Draw(t, "oracle")
	solve := func(p *Problem, n *perturbation) []int {
		q, err := p.Perturb(n.table, n.norm, -n.shift)
		require.NoError(t, err)
		sol, err := oracle.Solve(bg, q)
		require.NoError(t, err)
		return sol.W
	}
	w := solve(p, noise)
	require.Equal(t, w, solve(p1, shifted(pl, noise, w)))
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
			pl := &Plan{params: Params{Public: Public{Space: c.space, Dim: 1}, Law: c.law}}
			weight := 1
			if c.law == Laplace {
				sep, m, err := separate(AutoSeparator, &pl.params.Public)
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
					sol, err := Enumerate{}.Solve(bg, q)
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
	sol, err := Enumerate{}.Solve(ctx, p)
	if err != nil {
		return nil, err
	}
	return sol.W, nil
}
