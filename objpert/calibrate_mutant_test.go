package objpert

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
	sample "github.com/privopt/privopt/noise"
)

// The tests of this file pin down constants and branches of the calibrations by
// computing them a second time. Each takes milliseconds.

// TestSafeConstants: what is rounded up is not below its exact value.
func TestSafeConstants(t *testing.T) {
	for _, q := range []int{1, 2, 9, 23} {
		exact := new(big.Float).SetPrec(200).SetInt64(int64(q * (q - 1)))
		exact.Sqrt(exact).Add(exact, big.NewFloat(float64(q))) // Q + √(Q(Q−1))
		exact.Mul(exact, big.NewFloat(2))
		got := new(big.Float).SetFloat64(radialShift(false, 3, q, 2, math.Inf(1)))
		require.GreaterOrEqual(t, got.Cmp(exact), 0, q)
	}
	require.Greater(t, radialShift(true, 7, 7, 2, math.Inf(1)), 7.)
	require.Greater(t, radialShift(true, 7, 7, 2, 0.1), 0.7)
	require.Equal(t, 2., swing(dp.Replace))
	require.Equal(t, 1., swing(dp.AddRemove))
	for _, eps := range []float64{0.1, 0.3, 0.7, 1.1, 3} {
		p, err := (&OPDisc{}).Calibrate(Public{Space: Lattice(5), Dim: 4, Range: 1, Budget: dp.Budget{Epsilon: eps}})
		require.NoError(t, err)
		product := new(big.Float).SetPrec(200).Mul(big.NewFloat(p.Scale).SetPrec(200), big.NewFloat(eps))
		require.GreaterOrEqual(t, product.Cmp(big.NewFloat(p.Shift)), 0, "scale·ε ≥ Δ")
		require.InEpsilon(t, p.Shift/eps, p.Scale, 1e-14)
	}
}

// TestGammaTail: P(Gamma(k) > r) < 2⁻²⁰⁰, by the law itself, and not far below.
func TestGammaTail(t *testing.T) {
	for _, k := range []int{1, 2, 7, 50, 1000} {
		r := gammaTail(k)
		log := specfun.Chi2LogSF(2*r, 2*float64(k))
		require.Less(t, log, -200*math.Ln2)
		require.Greater(t, log, -270*math.Ln2) // Laurent and Massart's bound loses bits for many variables
		require.InEpsilon(t, float64(k)+math.Sqrt(278*float64(k))+139, r, 1e-14)
	}
}

// TestChernoffForm: l1LogDelta is the least of the bounds over t, by a plain
// search.
func TestChernoffForm(t *testing.T) {
	for _, c := range []struct {
		eps, a float64
		m      int
	}{{1, 0.05, 23}, {0.3, 0.01, 5}, {5, 0.2, 46}, {1, 0.02, 1}, {1, 0.9, 1}, {10, 0.03, 400}, {1, 0.1, 9}, {0.785, 0.1, 9}, {0.2, 0.3, 1}} {
		n := float64(c.m)
		x0 := c.eps/c.a - n*c.a/2
		bound := func(t float64) float64 {
			return n*(math.Ln2+specfun.LogPhi(t)+t*t/2) - t*x0 + math.Log(c.a/(c.a+t))
		}
		best, at := bound(0), 0.0
		for lo, hi, cells := 0.0, x0/n+60, 2000; hi-lo > 1e-9; {
			step := (hi - lo) / float64(cells)
			for i := range cells + 1 {
				if v := bound(lo + float64(i)*step); v < best {
					best, at = v, lo+float64(i)*step
				}
			}
			lo, hi, cells = math.Max(at-step, 0), at+step, 20
		}
		got := l1LogDelta(c.eps, c.a, c.m)
		require.InDelta(t, math.Min(best, 0), got, 1e-9*(1+math.Abs(best)), "%+v", c)
	}
	require.Zero(t, l1LogDelta(1, 1, 2)) // x₀ = 0
	require.Zero(t, l1LogDelta(1, 2, 23))
	require.Zero(t, l1LogDelta(1, math.NaN(), 23))
	require.Equal(t, math.Inf(-1), l1LogDelta(1, 0.99e-100, 1))
	require.False(t, math.IsInf(l1LogDelta(1, 1.02e-100, 1), -1))
}

// TestChiEnds: log δ where x₀ is 0 or beyond every budget.
func TestChiEnds(t *testing.T) {
	// a²/2 = ε: δ = E(1 − e^{−aR}), for one degree of freedom 1 − 2e^{a²/2}Φ(−a).
	for _, a := range []float64{0.1, 1, 3} {
		want := 1 - 2*math.Exp(a*a/2)*math.Exp(specfun.LogPhi(-a))
		require.InDelta(t, math.Log(want), chiLogDelta(a*a/2, a, 1), 1e-11)
	}
	require.Equal(t, math.Inf(-1), chiLogDelta(1, 0.99e-100, 1))
	require.False(t, math.IsInf(chiLogDelta(1, 1.02e-100, 1), -1))
	// Two degrees of freedom, P(R > x) = e^{−x²/2}: for x₀ ≥ 0
	// δ = a e^{ax₀ + a²/2} √(2π) Φ(−x₀−a).
	for _, c := range []struct{ eps, a float64 }{{1, 0.3}, {0.5, 1}, {3, 0.1}, {2, 0.02}, {7, 0.016}} {
		x0 := c.eps/c.a - c.a/2
		want := math.Log(c.a) + c.a*x0 + c.a*c.a/2 + math.Log(2*math.Pi)/2 + specfun.LogPhi(-x0-c.a)
		require.InDelta(t, want, chiLogDelta(c.eps, c.a, 2), 1e-11*(1+math.Abs(want)), "%+v", c)
	}
	// Far beyond every budget the bound P(R > x₀) alone: −x₀²/2 to within its log.
	got := chiLogDelta(1, 1/500., 2)
	require.InEpsilon(t, -math.Pow(500-1/1000., 2)/2, got, 1e-12)
	got = chiLogDelta(1, 1/440., 2) // −x₀²/2 > −1e5: with the factor a/(a + x₀)
	x0 := 440 - 1/880.
	require.InDelta(t, -x0*x0/2+math.Log((1/440.)/(1/440.+x0)), got, 1e-4)
}

// TestLeastSigma: the least σ from above to 1e-8, from guesses of any size, in
// few evaluations.
func TestLeastSigma(t *testing.T) {
	b := dp.Budget{Epsilon: 0.7, Delta: 1e-6}
	for _, root := range []float64{1e-200, 0.03, 1, 7e5, 1e250} {
		for _, far := range []float64{1e-9, 0.5, 1, 1.4, 1e6} {
			evals := 0
			got := leastSigma(func(eps, a float64) float64 {
				evals++
				require.Equal(t, 0.7, eps)
				return math.Log(1e-6) * math.Pow(3/a/root, 0.3) // meets log δ at σ = root
			}, b, 3, far*root)
			require.GreaterOrEqual(t, got, root*(1+1e-12))
			require.LessOrEqual(t, got, root*(1+2e-9))
			require.LessOrEqual(t, evals, 36+int(math.Abs(math.Log(far))/math.Log(1.5)), "%v %v", root, far)
		}
	}
	// The margin of the target is on the safe side: what misses it by half of it
	// is not enough.
	step := func(_, a float64) float64 {
		switch sigma := 1 / a; {
		case sigma < 2:
			return 0
		case sigma < 3:
			return math.Log(1e-6) * (1 + 5e-13)
		}
		return math.Inf(-1)
	}
	require.InEpsilon(t, 3, leastSigma(step, b, 1, 10), 2e-9)
	require.True(t, math.IsInf(leastSigma(func(_, _ float64) float64 { return math.NaN() }, b, 1, 1), 1))
	require.Positive(t, leastSigma(func(_, _ float64) float64 { return -1e9 }, b, 1, 1))
	// Scales that float64 holds with room to spare.
	require.False(t, math.IsInf(leastSigma(func(_, a float64) float64 { return -20 / a * 0x1p-898 }, b, 1, 1), 1))
	require.True(t, math.IsInf(leastSigma(func(_, a float64) float64 { return -20 / a * 0x1p-902 }, b, 1, 1), 1))
}

// TestProvedEpsilon: the least ε from above to 1e-8 over the whole range.
func TestProvedEpsilon(t *testing.T) {
	for _, root := range []float64{1e-8, 0.02, 1, 700, 9e5} {
		if root <= dp.MinEpsilon || root >= dp.MaxEpsilon {
			continue
		}
		evals := 0
		got := provedEpsilon(func(eps, a float64) float64 {
			evals++
			require.Equal(t, 0.25, a)
			return math.Log(1e-6) * math.Pow(eps/root, 0.3)
		}, 0.25, 1e-6)
		require.GreaterOrEqual(t, got, root*(1+1e-12))
		require.LessOrEqual(t, got, root*(1+2e-9))
		require.LessOrEqual(t, evals, 60)
	}
	step := func(eps, _ float64) float64 {
		switch {
		case eps < 2:
			return 0
		case eps < 3:
			return math.Log(1e-6) * (1 + 5e-13)
		}
		return math.Inf(-1)
	}
	require.InEpsilon(t, 3, provedEpsilon(step, 1, 1e-6), 2e-9)
	last := func(eps, _ float64) float64 { // at the largest ε only
		if eps < dp.MaxEpsilon {
			return 0
		}
		return math.Inf(-1)
	}
	require.Equal(t, float64(dp.MaxEpsilon), provedEpsilon(last, 1, 1e-6))
}

// TestGuesses: the tail form of σ, and the published scale.
func TestGuesses(t *testing.T) {
	b := dp.Budget{Epsilon: 0.7, Delta: 1e-6}
	for _, k := range []int{1, 5, 100} {
		a := 3 / chiSigmaGuess(b, 3, k) // P(aR + a²/2 > ε) = δ
		x := (0.7 - a*a/2) / a
		require.InDelta(t, math.Log(1e-6), specfun.Chi2LogSF(x*x, float64(k)), 1e-8)
	}
	require.InEpsilon(t, 7*3*math.Sqrt(6*math.Ln10)/0.7, paperSigma(b, 3), 1e-14)
}

// TestGridFormula: bits and scale of the grid, their ends, and the range.
func TestGridFormula(t *testing.T) {
	for _, c := range []struct {
		shift, eps float64
		weight     int
		bits       int
	}{
		{2, 1, 3, 20}, {2, 2, 3, 21}, {2, 2.1, 3, 22}, {2, 1.9, 1, 21}, {1, 511, 7, 30}, {1, 1e5, 7, 30}, {0x1p21, 1, 1, 0}, {0x1p22, 0.5, 1, 0}, {3, 0x1p-20, 1, 0},
	} {
		g, err := newGrid(c.shift, c.weight, c.eps)
		require.NoError(t, err)
		require.Equal(t, c.bits, g.bits, "%+v", c)
		require.Equal(t, math.Pow(2, -float64(c.bits)), g.unit())
		want := float64(c.weight) * c.shift / c.eps / g.unit()
		require.GreaterOrEqual(t, float64(g.t), want-1e-6)
		require.Less(t, float64(g.t), want+1+1e-6)
	}
	require.Equal(t, int64(3), ceil(big.NewRat(5, 2)).Int64())
	require.Equal(t, int64(2), ceil(big.NewRat(4, 2)).Int64())
	// t up to 2⁴⁰ is drawn exactly, the next integer is refused.
	g, err := newGrid(0x1p20, 1, 0x1p-20)
	require.NoError(t, err)
	require.Equal(t, uint64(1)<<40, g.t)
	_, err = newGrid(0x1p20, 1, math.Nextafter(0x1p-20, 0))
	require.ErrorIs(t, err, dp.ErrCondition)
	_, err = newGrid(0x1p100, 1, 1)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// TestDiscFormulas: scale, bound and reach of OPDisc.
func TestDiscFormulas(t *testing.T) {
	budget := dp.Budget{Epsilon: 0.8, Delta: 1e-6}
	for _, c := range []struct {
		space  Space
		m      int
		shift  float64 // at R = 3
		factor float64
	}{{Lattice(6), 5, 6 * (6 + math.Sqrt(30)), 18}, {cube(), 4, 12, 3}} {
		q := Public{Space: c.space, Dim: 4, Range: 3, Budget: budget}
		p, err := (&OPDisc{}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, c.m, p.Noises)
		require.InEpsilon(t, c.shift, p.Shift, 1e-12)
		require.InEpsilon(t, c.shift/0.8, p.Scale, 1e-12)
		require.InEpsilon(t, 2*p.Scale*float64(c.m), p.ExcessBound, 1e-14)
		g, err := (&OPDisc{Law: Gaussian}).Calibrate(q)
		require.NoError(t, err)
		require.LessOrEqual(t, chiLogDelta(0.8, p.Shift/g.Scale, c.m), math.Log(1e-6))
		require.Greater(t, chiLogDelta(0.8, p.Shift/g.Scale*(1+1e-7), c.m), math.Log(1e-6))
		mean := math.Sqrt2 * math.Gamma(float64(c.m+1)/2) / math.Gamma(float64(c.m)/2)
		require.InEpsilon(t, 2*g.Scale*mean, g.ExcessBound, 1e-12)
		paper, err := (&OPDisc{Law: PaperSigma}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, paperSigma(budget, c.factor), paper.Scale, 1e-14)
		require.LessOrEqual(t, chiLogDelta(paper.Proved.Epsilon, p.Shift/paper.Scale, c.m), math.Log(1e-6))
		require.Greater(t, chiLogDelta(paper.Proved.Epsilon*(1-1e-7), p.Shift/paper.Scale, c.m), math.Log(1e-6))
		stated, err := (&OPDisc{Law: Gaussian, Sigma: 0.9 * g.Scale}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, 0.9*g.Scale, stated.Scale)
		require.Greater(t, stated.Proved.Epsilon, 0.8)
		// Σ max|T_j| + max|z| ≤ √m r + r
		require.InEpsilon(t, 7*(math.Sqrt(float64(c.m))+1), p.reach(7), 1e-14)
	}
	q := Public{Space: Lattice(6), Dim: 4, Range: 3, Budget: budget}
	for _, c := range []struct {
		m  OPDisc
		ok bool
	}{
		{OPDisc{Law: Gaussian, Sigma: 0x1p50}, false}, {OPDisc{Law: Gaussian, Sigma: 0.5}, true},
		{OPDisc{Law: Gaussian, Sigma: 40}, true}, {OPDisc{Sigma: 0.5}, false}, {OPDisc{Sigma: -0.5}, false},
		{OPDisc{Law: PaperSigma, Sigma: 40}, false}, {OPDisc{Law: KNorm}, false}, {OPDisc{Law: Laplace}, false},
		{OPDisc{Law: Gaussian, Sigma: 40, Failure: 1e-9}, false}, {OPDisc{Law: Gaussian, Failure: 1e-9}, true},
	} {
		_, err := c.m.Calibrate(q)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c.m, err)
	}
	_, err := (&OPDisc{Law: Gaussian, Sigma: math.Nextafter(0x1p50, 0)}).Calibrate(q)
	require.NotErrorIs(t, err, ErrMechanism) // the range of searches decides
	q.Budget.Delta = 0
	_, err = (&OPDisc{Law: Gaussian}).Calibrate(q)
	require.ErrorIs(t, err, dp.ErrBudget)
	require.Equal(t, []bool{true, false, false, false}, []bool{isCube(&Space{Values: []int{-1, 1}}, 2), isCube(&Space{Values: []int{-1, 0, 1}}, 2),
		isCube(&Space{Values: []int{1, 2}}, 2), isCube(&Space{Values: []int{-2, 1}}, 2)})
}

// TestReachEnds: each law is refused where its noise may leave what a search
// holds, and not before.
func TestReachEnds(t *testing.T) {
	q := Public{Space: Lattice(6), Dim: 4, Range: 1, Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}}
	base, err := (&OPDisc{}).Calibrate(q)
	require.NoError(t, err)
	reach := base.Scale * (5 + math.Sqrt(278*5) + 139) * (math.Sqrt(5) + 1)
	for _, f := range []float64{1 - 1e-9, 1 + 1e-9} {
		r := q
		r.Range = base.holds() / reach * f
		_, err := (&OPDisc{}).Calibrate(r)
		require.Equal(t, f < 1, err == nil, "%v", err)
	}
	g, err := (&OPDisc{Law: Gaussian}).Calibrate(q)
	require.NoError(t, err)
	reach = g.Scale * math.Sqrt(2*(3+math.Sqrt(278*3)+139)) * (math.Sqrt(5) + 1) // χ²₅ ≤ χ²₆ = 2 Gamma(3)
	for _, f := range []float64{1 - 1e-6, 1 + 1e-6} {
		r := q
		r.Range = base.holds() / reach * f
		_, err := (&OPDisc{Law: Gaussian}).Calibrate(r)
		require.Equal(t, f < 1, err == nil, "%v", err)
	}
	q.Space = cube()
	rs, err := (&RSPM{Law: Gaussian}).Calibrate(q)
	require.NoError(t, err)
	reach = rs.Scale * (4 + math.Sqrt(278*4))
	for _, f := range []float64{1 - 1e-6, 1 + 1e-6} {
		r := q
		r.Range = base.holds() / reach * f
		_, err := (&RSPM{Law: Gaussian}).Calibrate(r)
		require.Equal(t, f < 1, err == nil, "%v", err)
	}
	// On a grid the range is 2⁵² steps.
	rs, err = (&RSPM{}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, math.Ldexp(1, 52-rs.grid.bits), rs.holds())
}

// TestSeparatorFormulas: shifts, scales and bounds of RSPM for every separator.
func TestSeparatorFormulas(t *testing.T) {
	fixed := Space{Values: []int{-2, 0, 1, 3}, NormSq: -1, Allowed: [][]bool{
		{false, false, true, false}, {true, true, true, true}, {true, false, true, false},
	}}
	for _, c := range []struct {
		space Space
		dim   int
		m     int
		sep   Separator
	}{{cube(), 3, 3, UnitVectors}, {ternary(), 3, 6, SignedUnitVectors}, {fixed, 3, 4, Thresholds}} {
		q := Public{Space: c.space, Dim: c.dim, Range: 3, Budget: dp.Budget{Epsilon: 0.8, Delta: 1e-6}}
		p, err := (&RSPM{}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, c.sep, p.separator)
		require.Equal(t, c.m, p.Noises)
		require.Equal(t, 6., p.Shift)
		m := float64(c.m)
		require.GreaterOrEqual(t, p.Scale, m*6/0.8)
		require.InEpsilon(t, m*6/0.8, p.Scale, 1e-6)
		require.InEpsilon(t, (p.Scale+p.Grid)*m, p.ExcessBound, 1e-14)
		g, err := (&RSPM{Law: Gaussian}).Calibrate(q)
		require.NoError(t, err)
		require.LessOrEqual(t, l1LogDelta(0.8, 6/g.Scale, c.m), math.Log(1e-6))
		require.Greater(t, l1LogDelta(0.8, 6/g.Scale*(1+1e-7), c.m), math.Log(1e-6))
		require.InEpsilon(t, g.Scale*m*math.Sqrt(2/math.Pi), g.ExcessBound, 1e-14)
		half, err := (&RSPM{Relation: dp.AddRemove}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, 3., half.Shift)
	}
	_, err := (&RSPM{Law: Gaussian}).Calibrate(Public{Space: cube(), Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1}})
	require.ErrorIs(t, err, dp.ErrBudget)
	for _, space := range []Space{{Values: []int{-2, 0, 1}, NormSq: -1}, {Values: []int{-1, 0, 2}, NormSq: -1}} {
		_, err := (&RSPM{}).Calibrate(Public{Space: space, Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "separates subsets")
	}
	for d, ok := range map[int]bool{maxNoises / 2: true, maxNoises/2 + 1: false} { // two a coordinate
		_, err := (&RSPM{}).Calibrate(Public{Space: ternary(), Dim: d, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.Equal(t, ok, err == nil, "%v", err)
	}
}

// TestProductFormulas: weights, scales and bounds of Product on choices 1, 2, 4.
func TestProductFormulas(t *testing.T) {
	space := Space{Values: []int{-2, 0, 1, 3}, NormSq: -1, Allowed: [][]bool{
		{false, false, true, false}, {true, true, true, true}, {true, false, true, false},
	}}
	q := Public{Space: space, Dim: 3, Range: 3, Budget: dp.Budget{Epsilon: 0.8}}
	p, err := (&Product{}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 4, p.Noises)
	require.Equal(t, 6., p.Shift)
	require.GreaterOrEqual(t, p.Scale, 6/0.8)
	require.InEpsilon(t, 6/0.8, p.Scale, 1e-6)
	h2, h4 := 1.5, 25./12
	spread := h2/2 - 0.25 + h4/4 - 1./16
	require.InEpsilon(t, p.Scale*5*spread+4*p.Grid, p.ExcessBound, 1e-13)
	o, err := (&Product{Law: OneSided}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 6, o.Noises)
	require.GreaterOrEqual(t, o.Scale, 2*6/0.8) // two coordinates have a choice
	require.InEpsilon(t, 2*6/0.8, o.Scale, 1e-6)
	require.InEpsilon(t, o.Scale*(h2-0.5+h4-0.25)+4*o.Grid, o.ExcessBound, 1e-13)
	require.InEpsilon(t, 137./60, harmonic(5), 1e-15)
	half, err := (&Product{Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 3., half.Shift)
	for d, ok := range map[int]bool{maxNoises / 2: true, maxNoises/2 + 1: false} {
		_, err := (&Product{}).Calibrate(Public{Space: ternary(), Dim: d, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.Equal(t, ok, err == nil, "%v", err)
	}
	// The range ends where the noise of all coordinates with a choice may leave 2⁵²
	// steps; on a grid of step 1 and at ε = 1 a shift is as many.
	choices := make([]int, 101)
	for j := range choices {
		choices[j] = 4
	}
	choices[100] = 1
	for law, most := range map[Law]float64{
		KNorm:    0x1p52 / (301 + math.Sqrt(278*301) + 139) / 100,
		OneSided: 0x1p52 / (1 + math.Sqrt(278) + 139 + math.Log(401)) / 100 / 100,
	} {
		for _, f := range []float64{1 - 1e-6, 1 + 1e-6} {
			pl := Plan{Public: q, Law: law, Shift: math.Floor(most * f)}
			_, err := pl.product(choices, 1)
			require.Zero(t, pl.grid.bits)
			require.Equal(t, f < 1, err == nil, "%v: %v", law, err)
		}
	}
}

// TestProductEnds: one coordinate with a choice, and the number of variables.
func TestProductEnds(t *testing.T) {
	q := Public{Space: ternary(), Dim: 1, Range: 1, Budget: dp.Budget{Epsilon: 1}}
	reach := float64(maxNoises) + math.Sqrt(278*maxNoises) + 139
	for _, f := range []float64{1 - 1e-6, 1 + 1e-6} {
		pl := Plan{Public: q, Law: KNorm, Shift: math.Floor(0x1p52 / reach * f)}
		_, err := pl.product([]int{maxNoises, 1}, 1)
		require.Equal(t, f < 1, err == nil, "%v", err)
	}
	for choices, ok := range map[int]bool{maxNoises + 1: true, maxNoises + 2: false} { // one variable less
		pl := Plan{Public: q, Law: OneSided, Shift: 2}
		_, err := pl.product([]int{choices}, 1)
		require.Equal(t, ok, err == nil, "%v", err)
	}
	for free := range 3 {
		pl := Plan{Public: q, Law: OneSided, Shift: 2}
		_, err := pl.product([]int{3, 3, 3}[:free], 1)
		require.NoError(t, err)
		require.InEpsilon(t, 2*math.Max(1, float64(free)), pl.Scale, 1e-6)
	}
	p := &Problem{Space: ternary(), Dim: 2}
	pl, err := (&Product{Range: 3}).Plan(p, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	require.Zero(t, pl.Lipschitz)
	// Every value of a coordinate with a choice has noise, a single one has none.
	sums := []int64{0, 0, 0, 0, 0, 0}
	src := sample.Reproducible(4)
	for range 100 {
		i := 0
		for _, row := range oneSided([]int{2, 1, 3}, 5, src) {
			for _, v := range row {
				sums[i] += v
				i++
			}
		}
	}
	require.Zero(t, sums[2])
	for _, i := range []int{0, 1, 3, 4, 5} {
		require.Positive(t, sums[i])
	}
}

// TestIntegersEnds: the largest denominators, their multiples and scores that
// are taken, and the next ones that are not.
func TestIntegersEnds(t *testing.T) {
	unit := func(den int64) Feature { return Feature{Lo: 0, Hi: 1, Den: den, Round: true} }
	for _, c := range []struct {
		features []Feature
		b        int
		ok       bool
	}{
		{[]Feature{unit(1)}, 1, true}, {[]Feature{unit(1)}, maxValue, true}, {[]Feature{unit(1)}, maxValue + 1, false}, {[]Feature{unit(1)}, 0, false},
		{[]Feature{unit(1 << 53)}, 1, true}, {[]Feature{unit(1<<53 + 1)}, 1, false}, {[]Feature{unit(0)}, 1, false},
		{[]Feature{unit(1 << 31), unit(1<<31 - 1)}, 1, false}, // scores up to 2⁶³
		{[]Feature{{Hi: 1e-9, Den: 1 << 31, Round: true}, {Hi: 1e-9, Den: 1<<31 - 1, Round: true}}, 1, true},
		{[]Feature{{Hi: 1e-9, Den: 1 << 31, Round: true}, {Hi: 1e-9, Den: 1<<31 + 1, Round: true}}, 1, false}, // the multiple is over 2⁶²
		{[]Feature{{Lo: -0x1.8p61, Hi: 0x1p61, Den: 1}}, 1, true}, {[]Feature{{Lo: -0x1.8p61, Hi: 0x1p61, Den: 1}}, 2, false},
		{[]Feature{{Hi: 0x1.fp61, Den: 1}}, 1, true}, {[]Feature{{Hi: 0x1.fp61, Den: 1}, {Hi: 0x1p61, Den: 1}}, 1, false}, {[]Feature{{Hi: 0x1p62, Den: 1}}, 1, false},
		{[]Feature{{Lo: 2, Hi: 2, Den: 1}}, 1, true}, {[]Feature{{Lo: 2, Hi: 1, Den: 1}}, 1, false}, {[]Feature{{Lo: math.Inf(-1), Hi: 1, Den: 1}}, 1, false}, {[]Feature{{Lo: 1, Hi: math.Inf(1), Den: 1}}, 1, false},
	} {
		_, err := Integers(nil, c.features, c.b)
		require.Equal(t, c.ok, err == nil, "%+v, b = %d: %v", c.features, c.b, err)
	}
	require.Equal(t, []int64{12, 35, 7, 1 << 62, -1}, []int64{lcm(4, 6), lcm(5, 7), lcm(7, 7), lcm(1<<31, 1<<62), lcm(1<<62, 3)})
	rows, err := Integers([][]float64{{0.26, 0.26}}, []Feature{{Hi: 1, Den: 4, Round: true}, {Hi: 1, Den: 6, Round: true}}, 1)
	require.NoError(t, err)
	require.Equal(t, [][]int64{{3, 4}}, rows) // 1/4 and 2/6 in twelfths
}

// TestSampFormulas: calls, noise and bounds of OPSamp.
func TestSampFormulas(t *testing.T) {
	q := SampPublic{Dim: 3, Diameter: 2, Lipschitz: 0.5, Records: 5000, Convex: true, Gap: 0.01, Budget: dp.Budget{Epsilon: 0.8, Delta: 1e-6}}
	for rel, kappa := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		for _, slack := range []float64{0, 0.3, 5} {
			for _, rate := range []float64{0, 1e-3} {
				p, err := (&OPSamp{Relation: rel, Slack: slack, Rate: rate}).Calibrate(q)
				require.NoError(t, err)
				s := slack
				if s == 0 {
					s = 1
				}
				// S at the factor of the plan, from the formula.
				c := kappa * 0.5 * 3 * p.Factor
				e := math.Exp(-p.Rate * c)
				stable := math.Min(6, ((1-e)*6+3*0.01*3*e/c)/(1-e/p.Factor))
				require.InEpsilon(t, stable, p.Stability, 1e-8)
				require.GreaterOrEqual(t, p.Stability, stable*(1-1e-12))
				require.InEpsilon(t, (1+s)*p.Stability, p.Lambda, 2e-9)
				require.Greater(t, p.Lambda, (1+s)*p.Stability)
				require.InEpsilon(t, p.Lambda/0.8, p.Scale, 1e-14)
				h := (1+s)*math.Log(1+s) - s
				calls := 6 / p.Stability * 6 * math.Ln10 / h
				require.GreaterOrEqual(t, float64(p.Calls), calls)
				require.Less(t, float64(p.Calls), calls*(1+1e-8)+1)
				require.InEpsilon(t, 6/p.Rate+0.01+5000*0.5*3*(1+s)*p.Stability/0.8, p.ExcessBound, 1e-8)
				require.InEpsilon(t, 5000*0.5*3*2., p.TrivialBound, 1e-14)
				if rate > 0 {
					require.Equal(t, rate, p.Rate)
					continue
				}
				for _, f := range []float64{0.5, 0.9, 1.1, 2, 50, 1. / 50} { // no rate is better
					other, err := (&OPSamp{Relation: rel, Slack: slack, Rate: f * p.Rate}).Calibrate(q)
					require.NoError(t, err)
					require.GreaterOrEqual(t, other.ExcessBound, p.ExcessBound*(1-1e-6))
				}
			}
		}
	}
	for _, c := range []struct {
		m  OPSamp
		ok bool
	}{
		{OPSamp{Slack: 1e-6 * (1 - 1e-9)}, false}, {OPSamp{Slack: 1e6}, true}, {OPSamp{Slack: 1e6 * (1 + 1e-9)}, false}, {OPSamp{Slack: 0.01}, true},
		{OPSamp{Rate: 0x1p-301}, false}, {OPSamp{Rate: 0x1p301}, false}, {OPSamp{Rate: 0x1p299}, true}, {OPSamp{Rate: -1}, false},
	} {
		_, err := c.m.Calibrate(q)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c.m, err)
	}
	for i, edit := range []func(q *SampPublic){
		func(q *SampPublic) { q.Dim = 0 }, func(q *SampPublic) { q.Dim = maxDim + 1 }, func(q *SampPublic) { q.Diameter = 0x1p-101 }, func(q *SampPublic) { q.Diameter = 0x1p101 },
		func(q *SampPublic) { q.Lipschitz = 0x1p-101 }, func(q *SampPublic) { q.Gap = -1e-9 }, func(q *SampPublic) { q.Gap = 0x1p101 }, func(q *SampPublic) { q.Records = -1 },
		func(q *SampPublic) { q.Records = 0 }, func(q *SampPublic) { q.Budget.Delta = 0 },
	} {
		r := q
		edit(&r)
		_, err := (&OPSamp{}).Calibrate(r)
		require.Error(t, err, i)
	}
	for i, edit := range []func(q *SampPublic){
		func(q *SampPublic) { q.Dim = 1 }, func(q *SampPublic) { q.Diameter = 0x1p-100 }, func(q *SampPublic) { q.Lipschitz = 0x1p100 },
		func(q *SampPublic) { q.Gap = 0 }, func(q *SampPublic) { q.Gap = 0.5 }, func(q *SampPublic) { q.Records = 1 },
	} {
		r := q
		edit(&r)
		require.NoError(t, r.check(), i)
	}
	r := q
	r.Records = 0
	p, err := (&OPSamp{Rate: 1}).Calibrate(r)
	require.NoError(t, err)
	require.True(t, math.IsInf(p.ExcessBound, 1))
}

// TestLeastPoint: the least point of functions with several dips, to 1e-6.
func TestLeastPoint(t *testing.T) {
	for _, at := range []float64{-20, -3.3, 0, 17.2, 60} {
		evals := 0
		got := leastPoint(func(x float64) float64 { evals++; return math.Abs(x - at) }, -20, 60)
		require.InDelta(t, at, got, 1.1e-6)
		require.LessOrEqual(t, evals, 161+70)
	}
	two := func(x float64) float64 { return math.Min(math.Abs(x-1), math.Abs(x-8)-0.5) }
	require.InDelta(t, 8, leastPoint(two, 0, 10), 1e-5)
	spike := func(x float64) float64 { // one good point of the grid alone
		if x == 5 {
			return 0
		}
		return 1
	}
	require.Equal(t, 5., leastPoint(spike, 0, 10))
}
