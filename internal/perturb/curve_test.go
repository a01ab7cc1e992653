package perturb

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

// safeScale is what mechanisms multiply noise scales by.
const safeScale = 1 + 1e-9

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
		require.InDelta(t, float64(c.Log), LogChi(c.E1, c.S, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.MGF {
		require.InDelta(t, float64(c.Log), LogMGF(c.T, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.Joint {
		k := Curve{C: 0.1, S: c.S, Q: c.Q}
		// ε = e₁ + c rounds, which moves log δ by up to r₀/s·2e-16·few.
		require.InDelta(t, float64(c.Log), k.LogJoint(c.E1+0.1, c.O), 1e-10+1e-13*math.Abs(float64(c.Log)), "%+v", c)
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
		got := Curve{Q: c.Q}.LeastNoise(c.E1, c.Delta) * safeScale
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
}

func TestCurveGolden(t *testing.T) {
	var g golden
	loadJSON(t, "golden.json", &g)
	const tol = 1e-10
	require.NotEmpty(t, g.Curve.Values)
	for _, v := range g.Curve.Values {
		relative(t, v.General, math.Exp(LogChi(v.Eps-v.C, v.S, 1)), tol, v)
		relative(t, v.Rayleigh, math.Exp(LogChi(v.Eps-v.C, v.S, 2)), tol, v)
		if v.Monotone != nil {
			relative(t, *v.Monotone, math.Exp(LogMonotone(v.Eps-v.C, v.S)), tol, v)
		}
	}
	require.NotEmpty(t, g.Chi.Values)
	for _, v := range g.Chi.Values {
		relative(t, v.Delta, math.Exp(LogChi(v.Eps-v.C, v.S, v.R)), tol, v)
	}
	require.NotEmpty(t, g.RDP.Values)
	for _, v := range g.RDP.Values {
		relative(t, v.RDP, Curve{C: v.C, S: v.S, Q: 1}.RDP(v.Alpha), tol, v)
		relative(t, v.RDP, Curve{C: v.C, S: v.S, Q: 2, Paired: true}.RDP(v.Alpha), tol, v)
	}
	require.NotEmpty(t, g.Joint.Values)
	for _, v := range g.Joint.Values {
		relative(t, v.General, math.Exp(Curve{C: v.C, S: v.S, Q: 1}.LogJoint(v.Eps, v.O)), tol, v)
		relative(t, v.Rayleigh, math.Exp(Curve{C: v.C, S: v.S, Q: 2}.LogJoint(v.Eps, v.O)), tol, v)
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
		one := Curve{Q: 1}.LeastNoise(e1, v.Delta)
		relative(t, v.TightAdd, one*safeScale, tol, v)
		require.GreaterOrEqual(t, one*safeScale, v.TightAdd)
		paired := Curve{Q: 2, Paired: true}
		relative(t, v.TightReplace, 2*paired.LeastNoise(e1, v.Delta)*safeScale, tol, v)
		relative(t, v.Rayleigh, 2*Curve{Q: 2}.LeastNoise(e1, v.Delta)*safeScale, tol, v)
		relative(t, v.Monotone, Curve{Q: 1, Monotone: true}.LeastNoise(e1, v.Delta)*safeScale, tol, v)
		paired.C, paired.S = v.C, 2/v.TightReplace
		relative(t, v.R0, paired.r0(v.Eps), 1e-9, v)
	}
}

// Under Replace the q = 1 formula is used at an ε only where r₀ ≥ 1.65.
func TestPairedRuleIsTakenAtEveryEpsilon(t *testing.T) {
	k := Curve{C: 0.1, S: 0.3, Q: 2, Paired: true}
	at := func(r0 float64) float64 { return k.C + k.S*(r0+k.S/2) } // ε with this r₀
	for _, r0 := range []float64{-1, 0, 1, 1.64} {
		require.Equal(t, LogChi(at(r0)-k.C, k.S, 2), k.LogDelta(at(r0)))
	}
	for _, r0 := range []float64{1.66, 2, 5} {
		require.Equal(t, LogChi(at(r0)-k.C, k.S, 1), k.LogDelta(at(r0)))
		require.Equal(t, LogChi(at(r0)-k.C, k.S, 2), k.LogProfile(at(r0)))
		require.Less(t, k.LogDelta(at(r0)), k.LogProfile(at(r0)))
	}
	// A large δ calibrates to r₀ < 1.65, with q = 2; a smaller one to q = 1;
	// between them r₀ = 1.65 itself is the least noise.
	least := func(delta float64) (paired, one, two float64) {
		return Curve{Q: 2, Paired: true}.LeastNoise(1, delta), Curve{Q: 1}.LeastNoise(1, delta), Curve{Q: 2}.LeastNoise(1, delta)
	}
	paired, _, two := least(0.2)
	require.Equal(t, two, paired)
	paired, one, _ := least(1e-3)
	require.Equal(t, one, paired)
	paired, one, two = least(0.03)
	require.True(t, one < paired && paired < two, "%v %v %v", one, paired, two)
	at1 := Curve{S: 1 / paired, Q: 2, Paired: true}
	require.InDelta(t, PairedR0, at1.r0(1), 1e-10)
	require.GreaterOrEqual(t, at1.r0(1), PairedR0)
}

// Every curve is a privacy profile: in [0, 1], not increasing in ε, convex in
// e^ε, and not decreasing in s, c and q.
func TestCurvesAreProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Curve{
			C: rapid.Float64Range(0, 3).Draw(t, "c"),
			S: math.Exp(rapid.Float64Range(-5, 1.5).Draw(t, "log s")),
			Q: rapid.SampledFrom([]int{1, 2, 3, 8, 50}).Draw(t, "q"),
		}
		k.Monotone = k.Q == 1 && rapid.Bool().Draw(t, "monotone")
		o := math.Exp(rapid.Float64Range(-6, 0).Draw(t, "log o"))
		eps := rapid.Float64Range(-1, 6).Draw(t, "eps")
		const h = 0.05
		for _, f := range []func(eps float64) float64{
			func(e float64) float64 { return math.Exp(k.LogProfile(e)) },
			func(e float64) float64 { return math.Exp(k.LogJoint(e, o)) },
		} {
			a, b, c := f(eps-h), f(eps), f(eps+h)
			require.True(t, c >= 0 && a <= 1+1e-12, "%v %v", c, a)
			require.True(t, a >= b*(1-1e-10) && b >= c*(1-1e-10), "%v %v %v", a, b, c)
			w := math.Expm1(h) / (math.Exp(h) - math.Exp(-h)) // e^ε between its neighbors
			require.LessOrEqual(t, b, (w*a+(1-w)*c)*(1+1e-9)+1e-15)
		}
		worse := k
		worse.S *= 1.1
		require.GreaterOrEqual(t, worse.LogProfile(eps), k.LogProfile(eps)-1e-10)
		worse = k
		worse.C += 0.1
		require.GreaterOrEqual(t, worse.LogProfile(eps), k.LogProfile(eps)-1e-10)
		worse = k
		worse.Q++
		worse.Monotone = false
		require.GreaterOrEqual(t, worse.LogProfile(eps), k.LogProfile(eps)-1e-10)
		// The joint curve costs at least what the minimizer alone does, and no
		// more than the two parts by basic composition.
		require.GreaterOrEqual(t, k.LogJoint(eps, o)+1e-9, LogChi(eps-k.C, k.S, k.Q))
		out := rapid.Float64Range(0, 1).Draw(t, "eps out")
		require.LessOrEqual(t, math.Exp(k.LogJoint(eps, o)),
			(math.Exp(LogChi(eps-out-k.C, k.S, k.Q))+dp.GaussianDelta(out, o))*(1+1e-9))
	})
}

// RDP of the curve implies a profile that is above the curve's.
func TestRDPIsAboveTheCurve(t *testing.T) {
	for _, q := range []int{1, 2, 3, 20} {
		k := Curve{C: 0.2, S: 0.3, Q: q}
		profile := dp.RDP(k.RDP).Curve()
		for _, eps := range []float64{0.5, 1, 2, 4} {
			require.LessOrEqual(t, math.Exp(k.LogProfile(eps)), profile(eps), "q = %d, ε = %v", q, eps)
		}
		// α → 1 is a limit: log E e^{tχ}/t has slope Var χ/2 ≤ 1/2 at 0.
		require.InDelta(t, k.RDP(1), k.RDP(1+1e-6), 1e-6, "q = %d", q)
	}
}

func BenchmarkLeastNoise(b *testing.B) {
	for _, q := range []int{1, 2, 20, 200, 1000} {
		b.Run(fmt.Sprintf("q=%d", q), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Curve{Q: q}.LeastNoise(0.9, 1e-6)
			}
		})
	}
}
