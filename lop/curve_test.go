package lop

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
)

// number is a decimal string of more digits than a float64 has.
type number float64

func (n *number) UnmarshalText(b []byte) error {
	v, err := strconv.ParseFloat(string(b), 64)
	*n = number(v)
	return err
}

func loadJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

// relative requires |got − want| ≤ tol·|want|.
func relative(t testing.TB, want, got, tol float64, msg ...any) {
	t.Helper()
	require.LessOrEqual(t, math.Abs(got-want), tol*math.Abs(want), "want %v, got %v: %s", want, got, fmt.Sprint(msg...))
}

// The references integrate the definition with 50 digits: testdata/curve.py.
func TestCurvesAgainstHighPrecision(t *testing.T) {
	var ref struct {
		Curve []struct {
			E1, S float64
			Q     int
			Log   number `json:"log_delta"`
		}
		MGF []struct {
			T   float64
			Q   int
			Log number
		}
		Joint []struct {
			E1, S, O float64
			Q        int
			Log      number `json:"log_delta"`
		}
	}
	loadJSON(t, "curve.json", &ref)
	require.Len(t, ref.Curve, 77)
	require.Len(t, ref.Joint, 42)
	// An error of 1e-11 in log δ moves s by less than 1e-11, a hundredth of
	// what safeScale covers; rounding of r₀ alone costs |log δ| 2e-16.
	tol := func(want number) float64 { return 1e-11 + 4e-15*math.Abs(float64(want)) }
	for _, c := range ref.Curve {
		require.InDelta(t, float64(c.Log), logChi(c.E1, c.S, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.MGF {
		require.InDelta(t, float64(c.Log), logMGF(c.T, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.Joint {
		k := curve{c: 0.1, s: c.S, q: c.Q}
		// ε = e₁ + c rounds, which moves log δ by up to r₀/s·2e-16·few.
		require.InDelta(t, float64(c.Log), k.logJoint(c.E1+0.1, c.O), 1e-10+1e-13*math.Abs(float64(c.Log)), "%+v", c)
	}
}

// The calibrated noise is at least the exact one and at most 1e-8 above it.
func TestNoiseIsRoundedToTheSafeSide(t *testing.T) {
	var ref struct {
		Sigma []struct {
			E1, Delta float64
			Q         int
			Sigma     number
		}
	}
	loadJSON(t, "curve.json", &ref)
	require.Len(t, ref.Sigma, 70)
	for _, c := range ref.Sigma {
		got := curve{q: c.Q}.leastNoise(c.E1, c.Delta) * safeScale
		require.GreaterOrEqual(t, got, float64(c.Sigma), "%+v", c)
		relative(t, float64(c.Sigma), got, 1e-8, c)
	}
}

type golden struct {
	Curve struct {
		Values []struct {
			Eps, S, C float64
			General   float64  `json:"delta_general"`
			Rayleigh  float64  `json:"delta_rayleigh"`
			Monotone  *float64 `json:"delta_monotone"`
		}
	} `json:"objpert_curve"`
	Calibration struct {
		Values []struct {
			Eps, Delta, C float64
			KiferAdd      float64 `json:"kst_sigma_add_remove"`
			KiferReplace  float64 `json:"kst_sigma_replacement_2x"`
			TightAdd      float64 `json:"tight_sigma_add_remove"`
			TightReplace  float64 `json:"tight_sigma_replacement"`
			R0            float64 `json:"replacement_x0"`
			Rayleigh      float64 `json:"rayleigh_sigma_replacement"`
			Monotone      float64 `json:"monotone_sigma_add_remove"`
		}
	} `json:"objpert_calibration_L1"`
	Chi struct {
		Values []struct {
			Eps, S, C float64
			R         int
			Delta     float64
		}
	} `json:"objpert_chi_curve"`
	RDP struct {
		Values []struct{ Alpha, S, C, RDP float64 }
	} `json:"objpert_rdp"`
	Joint struct {
		Values []struct {
			Eps, S, C, O float64
			General      float64 `json:"delta_joint_general"`
			Rayleigh     float64 `json:"delta_joint_rayleigh"`
		}
	} `json:"amp_joint_curve"`
	Auto struct {
		Values []struct {
			Eps, L, Beta, B float64
			Delta           float64 `json:"delta"`
			DeltaReg        float64 `json:"Delta"`
			D               int
			Relation        string
			C, Sigma        float64
			Bound           float64 `json:"excess_sum_bound"`
			KiferDelta      float64 `json:"kst_style_Delta"`
			KiferSigma      float64 `json:"kst_style_sigma"`
			KiferBound      float64 `json:"kst_style_bound"`
		}
	} `json:"lop_auto_delta"`
	Solutions struct {
		X          [][]float64
		YClass     []float64 `json:"y_class"`
		YReg       []float64 `json:"y_reg"`
		Delta      float64
		B          []float64 `json:"b"`
		Logistic   []float64
		Squared    []float64 `json:"least_squares_half"`
		Huberized  []float64 `json:"huberised_least_squares_C_0.5"`
		Ball       []float64 `json:"logistic_ball_radius_0.5"`
		SquaredL1  []float64 `json:"least_squares_half_l1_0.3"`
		Provenance string    `json:"how_computed"`
	} `json:"perturbed_objective_solutions"`
	AMP struct {
		Input struct {
			L, Beta, Eps1, Eps2, Eps3, Delta1, Delta2, Gamma float64
			N, R                                             int
		}
		Lambda, Sigma1 float64
		Sigma2         float64 `json:"sigma2_paper"`
		Radius         float64 `json:"radius_R"`
		Corrected      float64 `json:"sigma2_corrected"`
	} `json:"amp_paper"`
	CMS struct {
		Values []struct {
			Eps, Lambda, Curvature float64
			N                      int
			Prime                  float64 `json:"eps_prime"`
			Extra                  float64 `json:"Delta_extra"`
			Rate                   float64 `json:"rate_a_replacement_L1"`
			OneSided               float64 `json:"eps_prime_one_sided"`
		}
	} `json:"cms11_pure"`
}

func TestCurveGolden(t *testing.T) {
	var g golden
	loadJSON(t, "golden.json", &g)
	const tol = 1e-10
	require.NotEmpty(t, g.Curve.Values)
	for _, v := range g.Curve.Values {
		relative(t, v.General, math.Exp(logChi(v.Eps-v.C, v.S, 1)), tol, v)
		relative(t, v.Rayleigh, math.Exp(logChi(v.Eps-v.C, v.S, 2)), tol, v)
		if v.Monotone != nil {
			relative(t, *v.Monotone, math.Exp(logMonotone(v.Eps-v.C, v.S)), tol, v)
		}
	}
	require.NotEmpty(t, g.Chi.Values)
	for _, v := range g.Chi.Values {
		relative(t, v.Delta, math.Exp(logChi(v.Eps-v.C, v.S, v.R)), tol, v)
	}
	require.NotEmpty(t, g.RDP.Values)
	for _, v := range g.RDP.Values {
		relative(t, v.RDP, curve{c: v.C, s: v.S, q: 1}.rdp(v.Alpha), tol, v)
		relative(t, v.RDP, curve{c: v.C, s: v.S, q: 2, paired: true}.rdp(v.Alpha), tol, v)
	}
	require.NotEmpty(t, g.Joint.Values)
	for _, v := range g.Joint.Values {
		relative(t, v.General, math.Exp(curve{c: v.C, s: v.S, q: 1}.logJoint(v.Eps, v.O)), tol, v)
		relative(t, v.Rayleigh, math.Exp(curve{c: v.C, s: v.S, q: 2}.logJoint(v.Eps, v.O)), tol, v)
	}
}

func TestCalibrationGolden(t *testing.T) {
	var g golden
	loadJSON(t, "golden.json", &g)
	require.NotEmpty(t, g.Calibration.Values)
	// safeScale is 1e-9 of the noise.
	const tol = 2e-9
	for _, v := range g.Calibration.Values {
		e1 := v.Eps - v.C
		one := curve{q: 1}.leastNoise(e1, v.Delta)
		relative(t, v.TightAdd, one*safeScale, tol, v)
		require.GreaterOrEqual(t, one*safeScale, v.TightAdd)
		paired := curve{q: 2, paired: true}
		relative(t, v.TightReplace, 2*paired.leastNoise(e1, v.Delta)*safeScale, tol, v)
		relative(t, v.Rayleigh, 2*curve{q: 2}.leastNoise(e1, v.Delta)*safeScale, tol, v)
		relative(t, v.Monotone, curve{q: 1, monotone: true}.leastNoise(e1, v.Delta)*safeScale, tol, v)
		paired.c, paired.s = v.C, 2/v.TightReplace
		relative(t, v.R0, paired.r0(v.Eps), 1e-9, v)
	}
}

// Under Replace the q = 1 formula is used at an ε only where r₀ ≥ 1.65.
func TestPairedRuleIsTakenAtEveryEpsilon(t *testing.T) {
	k := curve{c: 0.1, s: 0.3, q: 2, paired: true}
	at := func(r0 float64) float64 { return k.c + k.s*(r0+k.s/2) } // ε with this r₀
	for _, r0 := range []float64{-1, 0, 1, 1.64} {
		require.Equal(t, logChi(at(r0)-k.c, k.s, 2), k.logDelta(at(r0)))
	}
	for _, r0 := range []float64{1.66, 2, 5} {
		require.Equal(t, logChi(at(r0)-k.c, k.s, 1), k.logDelta(at(r0)))
		require.Equal(t, logChi(at(r0)-k.c, k.s, 2), k.logProfile(at(r0)))
		require.Less(t, k.logDelta(at(r0)), k.logProfile(at(r0)))
	}
	// A large δ calibrates to r₀ < 1.65, with q = 2; a smaller one to q = 1;
	// between them r₀ = 1.65 itself is the least noise.
	least := func(delta float64) (paired, one, two float64) {
		return curve{q: 2, paired: true}.leastNoise(1, delta), curve{q: 1}.leastNoise(1, delta), curve{q: 2}.leastNoise(1, delta)
	}
	paired, _, two := least(0.2)
	require.Equal(t, two, paired)
	paired, one, _ := least(1e-3)
	require.Equal(t, one, paired)
	paired, one, two = least(0.03)
	require.True(t, one < paired && paired < two, "%v %v %v", one, paired, two)
	at1 := curve{s: 1 / paired, q: 2, paired: true}
	require.InDelta(t, pairedR0, at1.r0(1), 1e-10)
	require.GreaterOrEqual(t, at1.r0(1), pairedR0)
}

// Every curve is a privacy profile: in [0, 1], not increasing in ε, convex in
// e^ε, and not decreasing in s, c and q.
func TestCurvesAreProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := curve{
			c: rapid.Float64Range(0, 3).Draw(t, "c"),
			s: math.Exp(rapid.Float64Range(-5, 1.5).Draw(t, "log s")),
			q: rapid.SampledFrom([]int{1, 2, 3, 8, 50}).Draw(t, "q"),
		}
		k.monotone = k.q == 1 && rapid.Bool().Draw(t, "monotone")
		o := math.Exp(rapid.Float64Range(-6, 0).Draw(t, "log o"))
		eps := rapid.Float64Range(-1, 6).Draw(t, "eps")
		const h = 0.05
		for _, f := range []func(eps float64) float64{
			func(e float64) float64 { return math.Exp(k.logProfile(e)) },
			func(e float64) float64 { return math.Exp(k.logJoint(e, o)) },
		} {
			a, b, c := f(eps-h), f(eps), f(eps+h)
			require.True(t, c >= 0 && a <= 1+1e-12, "%v %v", c, a)
			require.True(t, a >= b*(1-1e-10) && b >= c*(1-1e-10), "%v %v %v", a, b, c)
			w := math.Expm1(h) / (math.Exp(h) - math.Exp(-h)) // e^ε between its neighbors
			require.LessOrEqual(t, b, (w*a+(1-w)*c)*(1+1e-9)+1e-15)
		}
		worse := k
		worse.s *= 1.1
		require.GreaterOrEqual(t, worse.logProfile(eps), k.logProfile(eps)-1e-10)
		worse = k
		worse.c += 0.1
		require.GreaterOrEqual(t, worse.logProfile(eps), k.logProfile(eps)-1e-10)
		worse = k
		worse.q++
		worse.monotone = false
		require.GreaterOrEqual(t, worse.logProfile(eps), k.logProfile(eps)-1e-10)
		// The joint curve costs at least what the minimizer alone does, and no
		// more than the two parts by basic composition.
		require.GreaterOrEqual(t, k.logJoint(eps, o)+1e-9, logChi(eps-k.c, k.s, k.q))
		out := rapid.Float64Range(0, 1).Draw(t, "eps out")
		require.LessOrEqual(t, math.Exp(k.logJoint(eps, o)),
			(math.Exp(logChi(eps-out-k.c, k.s, k.q))+dp.GaussianDelta(out, o))*(1+1e-9))
	})
}

// RDP of the curve implies a profile that is above the curve's.
func TestRDPIsAboveTheCurve(t *testing.T) {
	for _, q := range []int{1, 2, 3, 20} {
		k := curve{c: 0.2, s: 0.3, q: q}
		profile := dp.RDP(k.rdp).Profile()
		for _, eps := range []float64{0.5, 1, 2, 4} {
			require.LessOrEqual(t, math.Exp(k.logProfile(eps)), profile(eps), "q = %d, ε = %v", q, eps)
		}
		// α → 1 is a limit: log E e^{tχ}/t has slope Var χ/2 ≤ 1/2 at 0.
		require.InDelta(t, k.rdp(1), k.rdp(1+1e-6), 1e-6, "q = %d", q)
	}
}

func BenchmarkLeastNoise(b *testing.B) {
	for _, q := range []int{1, 2, 20, 200, 1000} {
		b.Run(fmt.Sprintf("q=%d", q), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				curve{q: q}.leastNoise(0.9, 1e-6)
			}
		})
	}
}
