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
)

// Noise that leaves what tables hold, and the coin, release a point that no record
// has a part in.
func TestPointWithoutRecords(t *testing.T) {
	space := Space{Values: []int{-1, 0, 1}, NormSq: 2, Allowed: [][]bool{{true, true, true}, {false, true, true}, {true, true, true}}}
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
			sol, err := Enumerate{}.Solve(bg, q)
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
				plan, err := (&OPDisc{}).Calibrate(Public{
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
	require.Equal(t, math.Inf(1), leastSigma(never, b, 1, 1))
	require.Equal(t, math.Inf(1), provedEpsilon(never, 1, 1e-6))
	always := func(float64, float64) float64 { return math.Inf(-1) }
	require.Equal(t, dp.MinEpsilon, provedEpsilon(always, 1, 1e-6))
	require.Positive(t, leastSigma(always, b, 1, 1))

	_, err := (&RSPM{Law: PaperSigma}).Calibrate(Public{Space: cube(), Dim: 8000, Range: 1, Budget: dp.Budget{Epsilon: 1e5, Delta: 0.999}})
	require.ErrorIs(t, err, dp.ErrCondition)
	for _, m := range []interface{ Calibrate(Public) (*Plan, error) }{&Product{}, &RSPM{}} {
		_, err = m.Calibrate(Public{Space: ternary(), Dim: 5000, Range: 1, Budget: b})
		require.ErrorIs(t, err, ErrMechanism)
		_, err = m.Calibrate(Public{})
		require.ErrorIs(t, err, dp.ErrBudget)
	}
	_, err = (&Product{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&RSPM{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&OPSamp{}).Plan(&Problem{Dim: 1, X: [][]int64{{1}}, Pos: []int{1}, Neg: []int{0}}, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&RSPM{}).Calibrate(Public{Space: ternary(), Dim: 4000, Range: 0x1p60, Budget: b})
	require.ErrorIs(t, err, dp.ErrCondition)
}

// Noise that leaves the tables costs (1 + e^ε′) of its probability. Where the ε′ that is proved for a stated scale is
// far beyond the ε that was asked for, tables reach farther.
func TestRareNoiseOfStatedScales(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range []interface{ Calibrate(Public) (*Plan, error) }{
		&OPDisc{Law: Gaussian, Sigma: 5}, &OPDisc{Law: Gaussian, Sigma: 1}, &OPDisc{Law: Gaussian, Sigma: 0.3}, &RSPM{Law: PaperSigma},
	} {
		for _, size := range []float64{1, 1e3} { // of the loss of one record
			pl, err := m.Calibrate(Public{Space: cube(), Dim: 20, OracleLoss: true, Range: size, Budget: b})
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
	pl, err := (&OPDisc{Law: Gaussian}).Calibrate(Public{Space: Lattice(4), Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 2000, Delta: 1e-6}})
	require.NoError(t, err)
	require.InEpsilon(t, 1e-6, pl.Profile().Delta(2000), 1e-5)
}

// A declared slope lowers Δ where it is the better bound.
func TestLipschitz(t *testing.T) {
	at := func(g float64) float64 {
		p, err := (&OPDisc{}).Calibrate(Public{Space: Lattice(9), Dim: 4, OracleLoss: true, Range: 1, Lipschitz: g,
			Budget: dp.Budget{Epsilon: 1}})
		require.NoError(t, err)
		return p.params.Shift
	}
	require.Equal(t, at(0), at(10))
	require.InEpsilon(t, 4*0.1*9, at(0.1), 1e-3)
}

// The 0/1 loss of halfspaces jumps by 1: no smaller slope is believed, wherever
// it is declared.
func TestLipschitzOfHalfspaces(t *testing.T) {
	b := dp.Budget{Epsilon: 1}
	rows, labels := [][]int64{{1, 0}, {0, 1}}, []int{1, -1}
	for _, c := range []struct {
		space Space
		least float64
	}{
		{Lattice(2), 1},
		{Space{Values: []int{-1, 1}, NormSq: -1}, 0.5},
		{Space{Values: []int{-3, 0, 3, 7}, NormSq: 60}, 1. / 3},
	} {
		p, err := NewProblem(rows, labels, nil, c.space)
		require.NoError(t, err)
		for _, g := range []float64{1e-6, 0.99 * c.least} {
			_, err = (&OPDisc{Lipschitz: g}).Fit(bg, p, b, nil)
			require.ErrorIs(t, err, ErrMechanism)
			require.ErrorContains(t, err, "Lipschitz")
			plan, err := (&OPDisc{}).Calibrate(Public{Space: c.space, Dim: 2, OracleLoss: true, Range: 1, Lipschitz: g, Budget: b})
			require.NoError(t, err) // a loss that only an oracle knows
			_, err = plan.Fit(bg, p, nil)
			require.ErrorIs(t, err, ErrMechanism)
			_, err = (&OPDisc{}).Calibrate(Public{Space: c.space, Dim: 2, Range: 1, Lipschitz: g, Budget: b})
			require.ErrorIs(t, err, ErrMechanism)
		}
		for _, g := range []float64{0, c.least, 5} {
			_, err = (&OPDisc{Lipschitz: g}).Fit(bg, p, b, nil)
			require.NoError(t, err)
		}
		other := &Problem{Space: c.space, Dim: 2, OracleLoss: true}
		_, err = (&OPDisc{Range: 1, Lipschitz: 1e-6}).Plan(other, b)
		require.NoError(t, err)
	}
}

// Plans compare what spaces admit, not how they say it.
func TestSameSpace(t *testing.T) {
	all := [][]bool{{true, true, true}, {true, true, true}}
	some := [][]bool{{true, true, true}, {true, false, true}}
	base := Space{Values: []int{-1, 0, 1}, NormSq: 2}
	for _, c := range []struct {
		other Space
		same  bool
	}{
		{base, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: all}, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: some}, false},
		{Space{Values: base.Values, NormSq: 3}, false},
		{Space{Values: []int{-1, 0, 2}, NormSq: 2}, false},
		{Space{Values: []int{-1, 0}, NormSq: 2}, false},
	} {
		require.Equal(t, c.same, sameSpace(&base, &c.other, 2), fmt.Sprint(c.other))
		require.Equal(t, c.same, sameSpace(&c.other, &base, 2), fmt.Sprint(c.other))
	}
	require.True(t, own(Enumerate{}))
	require.True(t, own(&Enumerate{}))
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
	bad := &Problem{Space: ternary(), Dim: 2, X: [][]int64{{1}}, Pos: []int{1}, Neg: []int{0}}
	_, err = pl.Fit(bg, bad, nil)
	require.ErrorIs(t, err, ErrProblem)
}

// Laws and separators print.
func TestStrings(t *testing.T) {
	for l := DefaultLaw; l <= Laplace; l++ {
		require.NotContains(t, l.String(), "invalid")
	}
	require.Contains(t, Law(-1).String(), "invalid")
	require.Contains(t, Law(99).String(), "invalid")
	require.Equal(t, "thresholds", Thresholds.String())
	require.Contains(t, Separator(9).String(), "invalid")
}
