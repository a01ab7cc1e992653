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
	"github.com/privopt/privopt/internal/specfun"
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

// The scales of the table agree, and lie on the safe side by at most 1e-6.
func TestOPDiscGolden(t *testing.T) {
	c := readConstants(t)
	safe := func(want, got float64) {
		t.Helper()
		require.GreaterOrEqual(t, got, want*(1-1e-11))
		require.LessOrEqual(t, got, want*(1+1e-6))
	}
	for _, g := range c.OPDisc {
		q := Public{Space: Lattice(g.Q), Dim: g.D, Range: 1, Budget: dp.Budget{Epsilon: g.Eps, Delta: g.Delta}}
		p, err := (&OPDisc{}).Calibrate(q)
		require.NoError(t, err)
		safe(g.Shift, p.Shift)
		safe(g.Radial, p.Scale)
		safe(2*g.MeanNorm, p.ExcessBound)
		require.Equal(t, dp.Budget{Epsilon: g.Eps}, p.Proved, "pure: no δ")
		require.Equal(t, g.D+1, p.Noises)
		p, err = (&OPDisc{Law: Gaussian}).Calibrate(q)
		require.NoError(t, err)
		safe(g.Proved, p.Scale)
		require.Equal(t, q.Budget, p.Proved)
		p, err = (&OPDisc{Law: PaperSigma}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, g.Alg1, p.Scale, 1e-12)
		require.Greater(t, p.Proved.Epsilon, g.Eps, "not sold at the claimed ε")
		require.Contains(t, p.String(), "not proved at the budget")
		// The proved Gaussian at the shift of a set that is only separated.
		b := q.Budget
		safe(g.Proved92, leastSigma(func(e, a float64) float64 { return chiLogDelta(e, a, g.D+1) }, b, g.ShiftAll, 1))
	}
	for _, g := range c.More {
		q := Public{Space: Lattice(g.Q), Dim: g.D, Range: 1, Budget: dp.Budget{Epsilon: g.Eps, Delta: g.Delta}}
		p, err := (&OPDisc{}).Calibrate(q)
		require.NoError(t, err)
		safe(g.Shift, p.Shift)
		safe(g.Radial, p.Scale)
		p, err = (&OPDisc{Law: Gaussian}).Calibrate(q)
		require.NoError(t, err)
		safe(g.Proved, p.Scale)
	}
	// The ε proved for the published σ at Q = d = 23, to the digits of the table.
	for eps, want := range map[float64]string{0.1: "0.108", 0.3: "0.331", 0.5: "0.558", 0.7: "0.787", 1: "1.134"} {
		q := Public{Space: Lattice(23), Dim: 23, Range: 1, Budget: dp.Budget{Epsilon: eps, Delta: c.OPDisc[0].Delta}}
		p, err := (&OPDisc{Law: PaperSigma}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, want, big.NewFloat(p.Proved.Epsilon).Text('f', 3))
		// Half of it, as in the published code, through a stated Sigma.
		half := map[float64]string{0.1: "0.219", 0.3: "0.672", 0.5: "1.134", 0.7: "1.601", 1: "2.310"}[eps]
		q.Budget.Epsilon = 1 // a stated scale does not depend on it
		p, err = (&OPDisc{Law: Gaussian, Sigma: p.Scale / 2}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, TheoremSigma, p.Theorem)
		require.Equal(t, half, big.NewFloat(p.Proved.Epsilon).Text('f', 3))
	}
}

// The hockey-stick integral against plain quadrature of its definition.
func TestChiLogDelta(t *testing.T) {
	nodes, weights := specfun.GaussLegendre(40)
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
						f := math.Exp(math.Ln2 + math.Log(x) + specfun.Chi2LogPDF(x*x, nu)) // density of χ_k
						sum += weights[j] * h / 2 * f * -math.Expm1(eps-a*x-a*a/2)
					}
				}
				got := chiLogDelta(eps, a, k)
				if sum < 1e-290 {
					continue
				}
				// The panels resolve a kink at most, and density errors of 1e-12.
				require.InDelta(t, math.Log(sum), got, 1e-9, "k=%d a=%v ε=%v", k, a, eps)
			}
		}
	}
	require.Equal(t, math.Inf(-1), chiLogDelta(1, 1e-200, 3))
	require.Less(t, chiLogDelta(1, 1e-4, 3), -1e5)
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
			p := &Problem{Space: Lattice(q), Dim: d}
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
	w := make([]int, p.Dim)
	var rec func(j, sq int)
	rec = func(j, sq int) {
		if j == p.Dim {
			visit(w)
			return
		}
		for k, v := range p.Values {
			if p.allowed(j, k) && (p.NormSq < 0 || sq+v*v <= p.NormSq) {
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
				best = math.Min(best, n*(math.Ln2+specfun.LogPhi(t)+t*t/2)-t*x0)
			}
			return best
		}
		require.InDelta(t, math.Log(g.Delta), tail(g.Eps, 2/g.Tail), 2e-4*math.Abs(math.Log(g.Delta)))
		b := dp.Budget{Epsilon: g.Eps, Delta: g.Delta}
		sigma := leastSigma(func(e, a float64) float64 { return l1LogDelta(e, a, g.M) }, b, 2, 1)
		require.Less(t, sigma, g.Tail)
		require.Greater(t, sigma, 0.8*g.Tail) // what the factor a/(a+t) is worth

		q := Public{Space: cube(), Dim: g.M, Range: 1, Budget: b}
		if g.M == 46 {
			q.Space, q.Dim = ternary(), 23
		}
		p, err := (&RSPM{}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, g.M, p.Noises)
		require.InEpsilon(t, g.Laplace, p.Scale, 1e-6)
		require.GreaterOrEqual(t, p.Scale, g.Laplace)
		p, err = (&RSPM{Law: Gaussian}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, sigma, p.Scale, 1e-8)
		p, err = (&RSPM{Law: PaperSigma}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, g.Paper, p.Scale, 1e-12)
		require.Equal(t, g.Paper >= sigma, p.Proved.Epsilon <= g.Eps, "proved at the budget iff σ suffices")
	}
}

// The published RSPM σ stops to be enough between m = 202 and a larger m: the
// sharper bound moves the end, and far beyond it the certificate says so.
func TestRSPMPaperSigmaEnds(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 4.0662783197376776e-09}
	at := func(m int) float64 {
		p, err := (&RSPM{Law: PaperSigma}).Calibrate(Public{Space: cube(), Dim: m, Range: 1, Budget: b})
		require.NoError(t, err)
		return p.Proved.Epsilon
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
		g, err := newGrid(shift, weight, eps)
		require.NoError(t, err)
		// t·unit·ε ≥ weight·shift
		lhs := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(g.t)), exact(g.unit()))
		lhs.Mul(lhs, exact(eps))
		rhs := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(weight)), exact(shift))
		require.GreaterOrEqual(t, lhs.Cmp(rhs), 0)
		if eps < 500*shift && shift == math.Trunc(shift) {
			f, _ := new(big.Rat).Quo(lhs, rhs).Float64()
			require.LessOrEqual(t, f, 1+1e-6)
		}
	})
	_, err := newGrid(2, 1, dp.MinEpsilon)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// Less ε, a larger Q, more parameters or Replace: more noise.
func TestCalibrationIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Public{Space: Lattice(rapid.IntRange(1, 30).Draw(t, "Q")), Dim: rapid.IntRange(1, 40).Draw(t, "d"), Range: 1}
		q.Budget = dp.Budget{Epsilon: math.Exp(rapid.Float64Range(-4, 3).Draw(t, "log ε")), Delta: math.Exp(rapid.Float64Range(-40, -3).Draw(t, "log δ"))}
		law := rapid.SampledFrom([]Law{Radial, Gaussian}).Draw(t, "law")
		scale := func(q Public, rel dp.Relation) float64 {
			p, err := (&OPDisc{Law: law, Relation: rel}).Calibrate(q)
			require.NoError(t, err)
			return p.Scale
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
		require.InEpsilon(t, 2*base, scale(loud, 0), 1e-7)
		require.InEpsilon(t, base/2, scale(q, dp.AddRemove), 1e-7)
	})
}
