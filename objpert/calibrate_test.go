// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/num"
)

// constants is testdata/calibration.json; see its field "about".
type constants struct {
	OPDisc []struct {
		Eps, Delta float64
		Q, D       int
		ShiftAll   float64 `json:"replacement_shift_general"`
		Shift      float64 `json:"replacement_shift_lattice"`
		Alg1       float64 `json:"sigma_alg1_unproven"`
		Proved92   float64 `json:"sigma_gaussian_proved_shift92"`
		Proved     float64 `json:"sigma_gaussian_proved_lattice"`
		Radial     float64 `json:"radial_scale_pure"`
		MeanNorm   float64 `json:"radial_mean_norm_pure"`
	} `json:"calibration_opdisc"`
	More []struct {
		Eps, Delta float64
		Q, D       int
		Shift      float64 `json:"shift_lattice"`
		Proved     float64 `json:"sigma_gaussian_proved"`
		Radial     float64 `json:"radial_scale_pure"`
	} `json:"calibration_opdisc_more"`
	Parity []struct {
		D             int
		Eps, Delta    float64
		Variant       string
		Sigma         float64
		High          float64 `json:"p_high"`
		Low           float64 `json:"p_low"`
		DeltaRequired float64 `json:"delta_required"`
	} `json:"counterexample_parity_signcube"`
	RSPM []struct {
		M          int
		Eps, Delta float64
		Paper      float64 `json:"sigma_paper"`
		Tail       float64 `json:"sigma_gaussian_proved_tail"`
		Laplace    float64 `json:"laplace_scale_pure"`
	} `json:"calibration_rspm"`
	OPSamp []struct {
		N, D       int
		Eps, Delta float64
		G          float64
		DInf       float64 `json:"D_inf"`
		Rate       float64 `json:"eta_rate"`
		S          float64 `json:"stability_S"`
		M          int
		Scale      float64 `json:"laplace_scale"`
		Excess     float64 `json:"excess_mean_bound"`
		Trivial    float64 `json:"trivial_bound"`
	}
}

func readConstants(t testing.TB) (c constants) {
	raw, err := os.ReadFile("testdata/calibration.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &c))
	return c
}

// ternary is {-1,0,1}ᵈ and cube is {-1,+1}ᵈ.
func ternary() Space { return Space{Values: []int{-1, 0, 1}, NormSq: -1} }
func cube() Space    { return Space{Values: []int{-1, 1}, NormSq: -1} }

// The hockey-stick integral against plain quadrature of its definition.
func TestChiLogDelta(t *testing.T) {
	nodes, weights := num.GaussLegendre(40)
	for _, k := range []int{1, 2, 3, 24, 200, 1000} {
		for _, a := range []float64{0.003, 0.05, 0.3, 1, 4} {
			for _, eps := range []float64{1e-3, 0.1, 1, 5, 20} {
				nu := float64(k)
				x0 := eps/a - a/2
				lo := math.Max(0, x0)
				mode := math.Sqrt(nu)
				hi := math.Max(lo, mode) + 12
				if lo > mode+30 {
					continue // beyond any budget: the sum below would be 0
				}
				lo = math.Max(lo, mode-40)
				sum, panels := 0.0, 400
				for i := range panels {
					h := (hi - lo) / float64(panels)
					for j, u := range nodes {
						x := lo + h*(float64(i)+(u+1)/2)
						f := math.Exp(math.Ln2 + math.Log(x) + num.Chi2LogPDF(x*x, nu)) // density of χ_k
						sum += weights[j] * h / 2 * f * -math.Expm1(eps-a*x-a*a/2)
					}
				}
				got := linear.LogChi(eps, a, k)
				if sum < 1e-290 {
					continue
				}
				// The panels resolve a kink at most, and density errors of 1e-12.
				require.InDelta(t, math.Log(sum), got, 1e-9, "k=%d a=%v ε=%v", k, a, eps)
			}
		}
	}
	require.Less(t, linear.LogChi(1, 1e-200, 3), -1e100)
	require.Less(t, linear.LogChi(1, 1e-4, 3), -1e5)
}

// Δ is the largest 2(swing)/‖π(w) − π(v)‖² over pairs: equal on whole lattices,
// never less on parts of them.
func TestRadialShiftBruteForce(t *testing.T) {
	feature := func(w []int, q int) []float64 {
		out, sq := make([]float64, 0, len(w)+1), 0
		for _, v := range w {
			out = append(out, float64(v)/math.Sqrt(float64(q)))
			sq += v * v
		}
		return append(out, math.Sqrt(float64(q-sq)/float64(q)))
	}
	for _, q := range []int{1, 2, 3, 4, 5, 7, 9, 10, 16, 23} {
		for d := 1; d <= 3; d++ {
			var points [][]float64
			p := problemOver(t, d, Lattice(q), false)
			walkSpace(p, func(w []int) { points = append(points, feature(w, q)) })
			worst := 0.0
			for i, a := range points {
				for _, b := range points[:i] {
					sq := 0.0
					for j := range a {
						sq += (a[j] - b[j]) * (a[j] - b[j])
					}
					worst = math.Max(worst, 2*2/sq)
				}
			}
			require.InEpsilon(t, worst, radialShift(false, d, q, 2, math.Inf(1)), 1e-9, "Q=%d d=%d", q, d)
		}
	}
	require.InEpsilon(t, 7., radialShift(true, 7, 7, 2, math.Inf(1)), 1e-12) // Δ = d on the cube
	require.InEpsilon(t, 4*0.1*9, radialShift(false, 3, 9, 2, 2*0.1), 1e-12) // 4GQ
	require.InEpsilon(t, 2*0.1*7, radialShift(true, 7, 7, 2, 2*0.1), 1e-12)  // ‖w−v‖ ≥ 2: 2Gd
}

// walkSpace calls visit for every point; visit must not keep w.
func walkSpace(p *Problem, visit func(w []int)) {
	w := make([]int, p.dim)
	var rec func(j, sq int)
	rec = func(j, sq int) {
		if j == p.dim {
			visit(w)
			return
		}
		for k, v := range p.space.Values {
			if p.space.allowed(j, k) && (p.space.NormSq < 0 || sq+v*v <= p.space.NormSq) {
				w[j] = v
				rec(j+1, sq+v*v)
			}
		}
	}
	rec(0, 0)
}

// RSPM: the published tail form holds in the sharper one, with less noise.
func TestRSPMGolden(t *testing.T) {
	c := readConstants(t)
	for _, g := range c.RSPM {
		// The Chernoff tail alone gives σ of the table.
		tail := func(eps, a float64) float64 {
			n := float64(g.M)
			x0 := eps/a - n*a/2
			best := 0.0
			for t := 0.001; t < 20; t += 0.001 {
				best = math.Min(best, n*(math.Ln2+num.LogPhi(t)+t*t/2)-t*x0)
			}
			return best
		}
		require.InDelta(t, math.Log(g.Delta), tail(g.Eps, 2/g.Tail), 2e-4*math.Abs(math.Log(g.Delta)))
		b := dp.Budget{Epsilon: g.Eps, Delta: g.Delta}
		sigma := sigmaFor(func(e, a float64) float64 { return l1LogDelta(e, a, g.M) }, b, 2)
		require.Less(t, sigma, g.Tail)
		require.Greater(t, sigma, 0.8*g.Tail) // what the factor a/(a+t) is worth

		q := public{Space: cube(), Dim: g.M, Range: 1, Budget: b}
		if g.M == 46 {
			q.Space, q.Dim = ternary(), 23
		}
		p, err := calibrate(&RSPM{}, q)
		require.NoError(t, err)
		require.Equal(t, g.M, p.params.Noises)
		require.InEpsilon(t, g.Laplace, p.params.Scale, 1e-6)
		require.GreaterOrEqual(t, p.params.Scale, g.Laplace)
		p, err = calibrate(&RSPM{Law: Gaussian}, q)
		require.NoError(t, err)
		require.InEpsilon(t, sigma, p.params.Scale, 1e-8)
		p, err = calibrate(&RSPM{Law: PaperSigma}, q)
		require.NoError(t, err)
		require.InEpsilon(t, g.Paper, p.params.Scale, 1e-12)
		require.Equal(t, g.Paper >= sigma, p.params.Proved.Epsilon <= g.Eps, "proved at the budget iff σ suffices")
	}
}

// The published RSPM σ stops to be enough between m = 202 and a larger m: the
// sharper bound moves the end, and far beyond it the certificate says so.
func TestRSPMPaperSigmaEnds(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 4.0662783197376776e-09}
	at := func(m int) float64 {
		p, err := calibrate(&RSPM{Law: PaperSigma}, public{Space: cube(), Dim: m, Range: 1, Budget: b})
		require.NoError(t, err)
		return p.params.Proved.Epsilon
	}
	require.LessOrEqual(t, at(202), 1.)
	require.Greater(t, at(400), 1.)
}

// l1LogDelta is an upper bound on a simulated and on an exact case (m = 1, where
// δ = 2·analytic Gaussian of half the mass is known through the normal tail).
func TestL1LogDeltaIsABound(t *testing.T) {
	for _, a := range []float64{0.1, 0.5, 1} {
		for _, eps := range []float64{0.5, 1, 3} {
			x0 := eps/a - a/2
			if x0 <= 0 {
				require.Zero(t, l1LogDelta(eps, a, 1))
				continue
			}
			// exact: 2 E(1 − e^{−a(g−x₀)})₊ = 2 δ_G
			exact := math.Ln2 + dp.GaussianLogDelta(eps, a)
			got := l1LogDelta(eps, a, 1)
			require.GreaterOrEqual(t, got, exact-1e-12)
			require.Less(t, got, exact+2+math.Log(1+x0), "Chernoff's bound is off by a factor near x₀√2π")
		}
	}
	require.Equal(t, math.Inf(-1), l1LogDelta(1, 1e-200, 3))
}

// Grids satisfy e^{−s/t} ≥ e^{−ε/weight} as rationals.
func TestGridIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := math.Ldexp(rapid.Float64Range(1, 2).Draw(t, "shift"), rapid.IntRange(-5, 5).Draw(t, "exponent"))
		eps := math.Exp(rapid.Float64Range(-12, 9).Draw(t, "log ε"))
		weight := rapid.IntRange(1, 200).Draw(t, "weight")
		q, err := onGrid(shift, weight, eps)
		require.NoError(t, err)
		// t·unit·ε ≥ weight·shift
		lhs := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(q.Time)), exact(math.Ldexp(1, q.Exponent)))
		lhs.Mul(lhs, exact(eps))
		rhs := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(weight)), exact(shift))
		require.GreaterOrEqual(t, lhs.Cmp(rhs), 0)
		if eps < 500*shift && shift == math.Trunc(shift) {
			f, _ := new(big.Rat).Quo(lhs, rhs).Float64()
			require.LessOrEqual(t, f, 1+1e-6)
		}
	})
	_, err := onGrid(2, 1, dp.MinEpsilon)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// Less ε, a larger Q, more parameters or Replace: more noise.
func TestCalibrationIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := public{Space: Lattice(rapid.IntRange(1, 30).Draw(t, "Q")), Dim: rapid.IntRange(1, 40).Draw(t, "d"), Range: 1}
		q.Budget = dp.Budget{Epsilon: math.Exp(rapid.Float64Range(-4, 3).Draw(t, "log ε")),
			Delta: math.Exp(rapid.Float64Range(-40, -3).Draw(t, "log δ"))}
		law := rapid.SampledFrom([]Law{Radial, Gaussian}).Draw(t, "law")
		scale := func(q public, rel dp.Relation) float64 {
			p, err := calibrate(&OPDisc{Law: law, Relation: rel}, q)
			require.NoError(t, err)
			return p.params.Scale
		}
		base := scale(q, 0)
		less := q
		less.Budget.Epsilon /= 2
		require.Greater(t, scale(less, 0), base)
		wide := q
		wide.Space = Lattice(q.NormSq + 1)
		require.Greater(t, scale(wide, 0), base)
		loud := q
		loud.Range = 2
		require.InEpsilon(t, 2*base, scale(loud, 0), 1e-3)
		require.InEpsilon(t, base/2, scale(q, dp.AddRemove), 1e-3)
	})
}

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
}

// TestGammaTail: P(Gamma(k) > r) < 2⁻²⁰⁰, by the law itself, and not far below.
func TestGammaTail(t *testing.T) {
	for _, k := range []int{1, 2, 7, 50, 1000} {
		r := gammaTail(k, 139)
		log := num.Chi2LogSF(2*r, 2*float64(k))
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
	}{{1, 0.05, 23}, {0.3, 0.01, 5}, {5, 0.2, 46}, {1, 0.02, 1}, {1, 0.9, 1}, {10, 0.03, 400}, {1, 0.1, 9},
		{0.785, 0.1, 9}, {0.2, 0.3, 1}} {
		n := float64(c.m)
		x0 := c.eps/c.a - n*c.a/2
		bound := func(t float64) float64 {
			return n*(math.Ln2+num.LogPhi(t)+t*t/2) - t*x0 + math.Log(c.a/(c.a+t))
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
		want := 1 - 2*math.Exp(a*a/2)*math.Exp(num.LogPhi(-a))
		require.InDelta(t, math.Log(want), linear.LogChi(a*a/2, a, 1), 1e-11)
	}
	require.Less(t, linear.LogChi(1, 0.99e-100, 1), -1e100)
	require.False(t, math.IsInf(linear.LogChi(1, 1.02e-100, 1), -1))
	// Two degrees of freedom, P(R > x) = e^{−x²/2}: for x₀ ≥ 0
	// δ = a e^{ax₀ + a²/2} √(2π) Φ(−x₀−a).
	for _, c := range []struct{ eps, a float64 }{{1, 0.3}, {0.5, 1}, {3, 0.1}, {2, 0.02}, {7, 0.016}} {
		x0 := c.eps/c.a - c.a/2
		want := math.Log(c.a) + c.a*x0 + c.a*c.a/2 + math.Log(2*math.Pi)/2 + num.LogPhi(-x0-c.a)
		require.InDelta(t, want, linear.LogChi(c.eps, c.a, 2), 1e-11*(1+math.Abs(want)), "%+v", c)
	}
	got := linear.LogChi(1, 1/440., 2) // far in the tail: −x₀²/2 and the factor a/(a + x₀)
	x0 := 440 - 1/880.
	require.InDelta(t, -x0*x0/2+math.Log((1/440.)/(1/440.+x0)), got, 1e-4)
}

// TestLeastSigma: the least σ from above to 1e-8, of any size, in few evaluations.
func TestLeastSigma(t *testing.T) {
	b := dp.Budget{Epsilon: 0.7, Delta: 1e-6}
	for _, root := range []float64{1e-200, 0.03, 1, 7e5, 1e250} {
		evals := 0
		got := sigmaFor(func(eps, a float64) float64 {
			evals++
			require.Equal(t, 0.7, eps)
			return math.Log(1e-6) * math.Pow(3/a/root, 0.3) // meets log δ at σ = root
		}, b, 3)
		require.GreaterOrEqual(t, got, root*(1+1e-12))
		require.LessOrEqual(t, got, root*(1+2e-9))
		require.LessOrEqual(t, evals, 65, "%v", root)
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
	require.InEpsilon(t, 3, sigmaFor(step, b, 1), 2e-9)
	require.True(t, math.IsInf(sigmaFor(func(_, _ float64) float64 { return math.NaN() }, b, 1), 1))
	require.Positive(t, sigmaFor(func(_, _ float64) float64 { return -1e9 }, b, 1))
	// Scales that float64 holds with room to spare.
	require.False(t, math.IsInf(sigmaFor(func(_, a float64) float64 { return -20 / a * 0x1p-898 }, b, 1), 1))
	require.True(t, math.IsInf(sigmaFor(func(_, a float64) float64 { return -20 / a * 0x1p-902 }, b, 1), 1))
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
		require.LessOrEqual(t, evals, 75)
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

func TestPaperSigma(t *testing.T) {
	b := dp.Budget{Epsilon: 0.7, Delta: 1e-6}
	require.InEpsilon(t, 7*3*math.Sqrt(6*math.Ln10)/0.7, paperSigma(b, 3), 1e-14)
}

// onGrid returns the grid for a shift.
func onGrid(shift float64, weight int, eps float64) (Params, error) {
	p := &Plan{params: Params{Shift: shift}}
	err := p.setGrid(weight, eps)
	return p.params, err
}

// TestGridFormula: bits and scale of the grid, their ends, and the range.
func TestGridFormula(t *testing.T) {
	for _, c := range []struct {
		shift, eps float64
		weight     int
		bits       int
	}{
		{2, 1, 3, 20}, {2, 2, 3, 21}, {2, 2.1, 3, 22}, {2, 1.9, 1, 21}, {1, 511, 7, 30}, {1, 1e5, 7, 30},
		{0x1p21, 1, 1, 0}, {0x1p22, 0.5, 1, 0},
		{3, 0x1p-20, 1, 0},
	} {
		q, err := onGrid(c.shift, c.weight, c.eps)
		require.NoError(t, err)
		require.Equal(t, -c.bits, q.Exponent, "%+v", c)
		want := float64(c.weight) * c.shift / c.eps * math.Pow(2, float64(c.bits))
		require.GreaterOrEqual(t, float64(q.Time), want-1e-6)
		require.Less(t, float64(q.Time), want+1+1e-6)
	}
	require.Equal(t, int64(3), ceil(big.NewRat(5, 2)).Int64())
	require.Equal(t, int64(2), ceil(big.NewRat(4, 2)).Int64())
	// t up to 2⁴⁰ is drawn exactly, the next integer is refused.
	q, err := onGrid(0x1p20, 1, 0x1p-20)
	require.NoError(t, err)
	require.Equal(t, uint64(1)<<40, q.Time)
	_, err = onGrid(0x1p20, 1, math.Nextafter(0x1p-20, 0))
	require.ErrorIs(t, err, dp.ErrCondition)
	_, err = onGrid(0x1p100, 1, 1)
	require.ErrorIs(t, err, dp.ErrCondition)
}

func exact(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// A declared slope lowers Δ where it is the better bound.
func TestLipschitz(t *testing.T) {
	at := func(g float64) float64 {
		p, err := calibrate(&OPDisc{}, public{Space: Lattice(9), Dim: 4, OracleLoss: true, Range: 1, Lipschitz: g,
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
			plan, err := calibrate(
				&OPDisc{},
				public{Space: c.space, Dim: 2, OracleLoss: true, Range: 1, Lipschitz: g, Budget: b},
			)
			require.NoError(t, err) // a loss that only an oracle knows
			_, err = plan.Fit(bg, p, nil)
			require.ErrorIs(t, err, ErrMechanism)
			_, err = calibrate(&OPDisc{}, public{Space: c.space, Dim: 2, Range: 1, Lipschitz: g, Budget: b})
			require.ErrorIs(t, err, ErrMechanism)
		}
		for _, g := range []float64{0, c.least, 5} {
			_, err = (&OPDisc{Lipschitz: g}).Fit(bg, p, b, nil)
			require.NoError(t, err)
		}
		other := problemOver(t, 2, c.space, true)
		_, err = (&OPDisc{Range: 1, Lipschitz: 1e-6}).Plan(other, b)
		require.NoError(t, err)
	}
}
