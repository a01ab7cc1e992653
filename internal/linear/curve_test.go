// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

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
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/testkit"
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
	// what SafeScale covers; rounding of r₀ alone costs |log δ| 2e-16.
	tol := func(want number) float64 { return 1e-11 + 4e-15*math.Abs(float64(want)) }
	for _, c := range ref.Curve {
		require.InDelta(t, float64(c.Log), LogChi(c.E1, c.S, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.MGF {
		require.InDelta(t, float64(c.Log), logMGF(c.T, c.Q), tol(c.Log), "%+v", c)
	}
	for _, c := range ref.Joint {
		k := Chi{C: 0.1, S: c.S, Q: c.Q}
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
		got := Chi{Q: c.Q}.LeastNoise(c.E1, c.Delta) * SafeScale
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
			relative(t, *v.Monotone, math.Exp(logMonotone(v.Eps-v.C, v.S)), tol, v)
		}
	}
	require.NotEmpty(t, g.Chi.Values)
	for _, v := range g.Chi.Values {
		relative(t, v.Delta, math.Exp(LogChi(v.Eps-v.C, v.S, v.R)), tol, v)
	}
	require.NotEmpty(t, g.RDP.Values)
	for _, v := range g.RDP.Values {
		relative(t, v.RDP, Chi{C: v.C, S: v.S, Q: 1}.RDP(v.Alpha), tol, v)
		relative(t, v.RDP, Chi{C: v.C, S: v.S, Q: 2, Paired: true}.RDP(v.Alpha), tol, v)
	}
	require.NotEmpty(t, g.Joint.Values)
	for _, v := range g.Joint.Values {
		relative(t, v.General, math.Exp(Chi{C: v.C, S: v.S, Q: 1}.LogJoint(v.Eps, v.O)), tol, v)
		relative(t, v.Rayleigh, math.Exp(Chi{C: v.C, S: v.S, Q: 2}.LogJoint(v.Eps, v.O)), tol, v)
	}
}

func TestCalibrationGolden(t *testing.T) {
	var g golden
	loadJSON(t, "golden.json", &g)
	require.NotEmpty(t, g.Calibration.Values)
	// SafeScale is 1e-9 of the noise.
	const tol = 2e-9
	for _, v := range g.Calibration.Values {
		e1 := v.Eps - v.C
		one := Chi{Q: 1}.LeastNoise(e1, v.Delta)
		relative(t, v.TightAdd, one*SafeScale, tol, v)
		require.GreaterOrEqual(t, one*SafeScale, v.TightAdd)
		paired := Chi{Q: 2, Paired: true}
		relative(t, v.TightReplace, 2*paired.LeastNoise(e1, v.Delta)*SafeScale, tol, v)
		relative(t, v.Rayleigh, 2*Chi{Q: 2}.LeastNoise(e1, v.Delta)*SafeScale, tol, v)
		relative(t, v.Monotone, Chi{Q: 1, Monotone: true}.LeastNoise(e1, v.Delta)*SafeScale, tol, v)
		paired.C, paired.S = v.C, 2/v.TightReplace
		relative(t, v.R0, paired.r0(v.Eps), 1e-9, v)
	}
}

// Under Replace the q = 1 formula is used at an ε only where r₀ ≥ 1.65.
func TestPairedRuleIsTakenAtEveryEpsilon(t *testing.T) {
	k := Chi{C: 0.1, S: 0.3, Q: 2, Paired: true}
	at := func(r0 float64) float64 { return k.C + k.S*(r0+k.S/2) } // ε with this r₀
	for _, r0 := range []float64{-1, 0, 1, 1.64} {
		require.Equal(t, LogChi(at(r0)-k.C, k.S, 2), k.LogDelta(at(r0)))
	}
	for _, r0 := range []float64{1.66, 2, 5} {
		require.Equal(t, LogChi(at(r0)-k.C, k.S, 1), k.LogDelta(at(r0)))
		require.Less(t, k.LogDelta(at(r0)), LogChi(at(r0)-k.C, k.S, 2))
	}
	// A large δ calibrates to r₀ < 1.65, with q = 2; a smaller one to q = 1;
	// between them r₀ = 1.65 itself is the least noise.
	least := func(delta float64) (paired, one, two float64) {
		return Chi{Q: 2, Paired: true}.LeastNoise(1, delta), Chi{Q: 1}.LeastNoise(1, delta), Chi{Q: 2}.LeastNoise(1, delta)
	}
	paired, _, two := least(0.2)
	require.Equal(t, two, paired)
	paired, one, _ := least(1e-3)
	require.Equal(t, one, paired)
	paired, one, two = least(0.03)
	require.True(t, one < paired && paired < two, "%v %v %v", one, paired, two)
	at1 := Chi{S: 1 / paired, Q: 2, Paired: true}
	require.InDelta(t, pairedR0, at1.r0(1), 1e-10)
	require.GreaterOrEqual(t, at1.r0(1), pairedR0)
}

// Every curve is a privacy profile: in [0, 1], not increasing in ε, convex in
// e^ε, and not decreasing in s, c and q.
func TestCurvesAreProfiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Chi{
			C: rapid.Float64Range(0, 3).Draw(t, "c"),
			S: math.Exp(rapid.Float64Range(-5, 1.5).Draw(t, "log s")),
			Q: rapid.SampledFrom([]int{1, 2, 3, 8, 50}).Draw(t, "q"),
		}
		k.Monotone = k.Q == 1 && rapid.Bool().Draw(t, "monotone")
		o := math.Exp(rapid.Float64Range(-6, 0).Draw(t, "log o"))
		eps := rapid.Float64Range(-1, 6).Draw(t, "eps")
		const h = 0.05
		for _, f := range []func(eps float64) float64{
			func(e float64) float64 { return math.Exp(k.LogDelta(e)) },
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
		require.GreaterOrEqual(t, worse.LogDelta(eps), k.LogDelta(eps)-1e-10)
		worse = k
		worse.C += 0.1
		require.GreaterOrEqual(t, worse.LogDelta(eps), k.LogDelta(eps)-1e-10)
		worse = k
		worse.Q++
		worse.Monotone = false
		require.GreaterOrEqual(t, worse.LogDelta(eps), k.LogDelta(eps)-1e-10)
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
		k := Chi{C: 0.2, S: 0.3, Q: q}
		profile := dp.RDP(k.RDP).Curve()
		for _, eps := range []float64{0.5, 1, 2, 4} {
			require.LessOrEqual(t, math.Exp(k.LogDelta(eps)), profile(eps), "q = %d, ε = %v", q, eps)
		}
		// α → 1 is a limit: log E e^{tχ}/t has slope Var χ/2 ≤ 1/2 at 0.
		require.InDelta(t, k.RDP(1), k.RDP(1+1e-6), 1e-6, "q = %d", q)
	}
}

// dimensions of 60-digit references, with both parities and all closed forms.
var dimensions = []int{1, 2, 3, 4, 5, 8, 12}

// TestChiCurveInSixtyDigits: the curve, on both sides of r₀ = 0.
func TestChiCurveInSixtyDigits(t *testing.T) {
	n := testkit.New
	for _, q := range dimensions {
		for _, s := range []float64{1e-4, 0.02, 0.3, 1, 4} {
			for _, r0 := range []float64{-3, -0.4, 0, 0.2, 1, 1.64, 1.66, 3, 8, 25} {
				want := exactStick(n(r0), n(s), q)
				e1 := s*r0 + s*s/2
				w, _ := want.Float64()
				got := math.Exp(LogChi(e1, s, q))
				// e₁ is rounded: δ moves by r₀ + s standard deviations of that.
				require.InEpsilon(t, w, got, 1e-10+1e-14*(math.Abs(r0)+s)*(math.Abs(r0)+s)/s, "q = %d, s = %v, r₀ = %v", q, s, r0)
			}
		}
	}
}

// TestRenyiCurveInSixtyDigits: the moment generating function behind the Rényi
// curve, down to orders next to 1.
func TestRenyiCurveInSixtyDigits(t *testing.T) {
	n := testkit.New
	for _, q := range dimensions {
		for _, s := range []float64{1e-4, 0.02, 0.3, 1, 4} {
			for _, alpha := range []float64{1 + 1e-9, 1 + 1e-7, 1 + 1e-4, 1.5, 3, 20} {
				x := testkit.Mul(testkit.Sub(n(alpha), n(1)), n(s))
				if f, _ := x.Float64(); f > 30 {
					continue
				}
				mgf := testkit.Quo(testkit.Log(exactMGF(x, q)), testkit.Sub(n(alpha), n(1)))
				x64, _ := x.Float64()
				for _, c := range []float64{0, 0.1} {
					want, _ := testkit.Add(mgf, n(c+s*s/2)).Float64()
					got := Chi{C: c, S: s, Q: q}.RDP(alpha)
					// Below t = (α−1)s = 1e-6 the bound t²/2 takes the variance for 1;
					// above, the logarithm of 1 + tEχ + … has an error of 1e-15/t.
					excess := 1e-12
					if x64 < 1e-6 {
						excess += x64
					} else {
						excess += 3e-15 / x64
					}
					require.InEpsilon(t, want, got, excess, "q = %d, s = %v, α = %v", q, s, alpha)
					require.GreaterOrEqual(t, got, want*(1-1e-12-3e-15/max(x64, 1e-6)))
				}
			}
			require.InEpsilon(t, Chi{C: 0.1, S: s, Q: q}.RDP(1+1e-3*s), Chi{C: 0.1, S: s, Q: q}.RDP(1), 2e-3)
		}
	}
}

// TestMonotoneCurve: below ε = 0 it is 1 − e^{e₁}(1 − δ_G(0, s)), and c shifts
// both curves alike.
func TestMonotoneCurve(t *testing.T) {
	for _, s := range []float64{0.1, 1, 3} {
		for _, e1 := range []float64{-4, -0.3, -1e-3} {
			require.InEpsilon(t, 1-math.Exp(e1)*(1-dp.GaussianDelta(0, s)), math.Exp(logMonotone(e1, s)), 1e-12)
		}
		k := Chi{C: 0.4, S: s, Q: 1, Monotone: true}
		for _, eps := range []float64{-1, 0.1, 0.5, 3} {
			require.Equal(t, logMonotone(eps-0.4, s), k.LogDelta(eps))
		}
	}
}

// TestLeastTakesFewSteps: the weights of the search show in its evaluations only;
// these are as many as the sound search needs.
func TestLeastTakesFewSteps(t *testing.T) {
	total := 0
	for _, root := range []float64{0.3, 1, 40} {
		for _, enough := range []float64{0.5, 0.9, 1, 1.1, 3, 50} {
			for _, target := range []float64{-1, -14, -600} {
				f := func(s float64) float64 { // √(−2f) is nearly linear in u = 1/s
					total++
					u := 1 / s / root
					return target * (u*u + 0.3*u) / 1.3
				}
				got := least(f, target, root*enough, 1e-12)
				require.InEpsilon(t, root, got, 1e-9)
				require.LessOrEqual(t, f(1/got), target)
			}
		}
	}
	require.LessOrEqual(t, total, 561, "evaluations for 54 roots")
}

// TestFarTail: where δ is far below every float64 its logarithm still is that of
// 60 digits, until P(χ_q > r₀) is taken for it, which is more.
func TestFarTail(t *testing.T) {
	n := testkit.New
	for _, q := range []int{3, 4, 9} {
		for _, s := range []float64{0.3, 2} {
			for _, r0 := range []float64{40, 200, 435, 440, 446, 449, 600, 3000} {
				want, _ := testkit.Log(exactStick(n(r0), n(s), q)).Float64()
				tail, _ := testkit.Log(testkit.Chi2SF(n(r0*r0), q)).Float64()
				if tail < nothing {
					want = tail
				}
				require.InEpsilon(t, want, LogChi(s*r0+s*s/2, s, q), 1e-12, "q = %d, s = %v, r₀ = %v", q, s, r0)
			}
			// Far beyond, δ does not grow again.
			require.LessOrEqual(t, LogChi(1e101*s, s, q), LogChi(1e90*s, s, q))
			require.LessOrEqual(t, LogChi(math.MaxFloat64, s, q), -1e198)
			// The joint curve is P(χ_q > r₀/2) + δ_G(s r₀/2; o) where that is below
			// e^{nothing}, and about P(χ_q > r₀), its fourth power, just above.
			k := Chi{S: s, Q: q}
			for _, half := range []float64{460, 1e4} {
				tail, _ := testkit.Log(testkit.Chi2SF(n(half*half), q)).Float64()
				require.InEpsilon(t, tail, k.LogJoint(2*half*s+s*s/2, 0.01), 1e-12)
				if s*half < 1e4 {
					wide, _ := testkit.Log(testkit.GaussianDelta(n(half*s), n(s))).Float64()
					require.InEpsilon(t, math.Max(wide, tail), k.LogJoint(2*half*s+s*s/2, s), 1e-5)
				}
			}
			tail, _ := testkit.Log(testkit.Chi2SF(n(880*880), q)).Float64()
			ratio := s * s / 1e-4 // x²/2 + s²(r₀−x)²/(2o²) is least at r₀²/2 · ratio/(1+ratio)
			require.InEpsilon(t, tail*ratio/(1+ratio), k.LogJoint(880*s+s*s/2, 0.01), 1e-4)
			require.GreaterOrEqual(t, k.LogJoint(math.MaxFloat64, 0.01), LogChi(math.MaxFloat64, s, q))
		}
	}
}

// TestMGFEnds: E e^{tχ₃} is √(2/π)t + 2(1+t²)Φ(t)e^{t²/2}, E e^{tχ₂} is
// 1 + √(2π)tΦ(t)e^{t²/2}; at large t that is a closed form of the logarithm. Beyond
// t = 1e6 it is t²/2 + t√q, which is more.
func TestMGFEnds(t *testing.T) {
	for q := 1; q <= 5; q++ {
		require.Zero(t, logMGF(0, q))
	}
	for _, x := range []float64{50, 1e3, 9.5e5, 1e6} {
		require.InEpsilon(t, x*x/2+math.Log(2*(1+x*x)), logMGF(x, 3), 1e-13)
		require.InEpsilon(t, x*x/2+math.Log(math.Sqrt(2*math.Pi)*x), logMGF(x, 2), 1e-13)
	}
	for _, x := range []float64{1.0001e6, 3e7} {
		require.Equal(t, x*x/2+x*math.Sqrt(3), logMGF(x, 3))
		require.Greater(t, logMGF(x, 3), x*x/2+math.Log(2*(1+x*x)))
	}
	// Next to order 1 the Rényi curve takes 1 for the variance of χ₃, 3 − 8/π.
	mean := 2 * math.Sqrt(2/math.Pi)
	require.InEpsilon(t, 0.5+mean+0.97e-6/2, Chi{S: 1, Q: 3}.RDP(1+0.97e-6), 1e-9)
	require.InEpsilon(t, 0.5+mean+1.03e-6*(3-8/math.Pi)/2, Chi{S: 1, Q: 3}.RDP(1+1.03e-6), 2e-9)
	require.InEpsilon(t, 2*(1+1)*0.8413447460685429*math.Exp(0.5)+math.Sqrt(2/math.Pi), math.Exp(logMGF(1, 3)), 1e-13)
}

// TestLeastWithoutEnough: where no noise is enough the answer is infinite, and
// where every noise is, next to nothing.
func TestLeastWithoutEnough(t *testing.T) {
	always := func(l float64) func(float64) float64 { return func(float64) float64 { return l } }
	require.Equal(t, math.Inf(1), least(always(0), -1, 1, 1e-12))
	require.Equal(t, math.Inf(1), least(always(math.NaN()), -1, 1, 1e-12))
	require.Equal(t, math.Inf(1), least(always(-0.99), -1, 1e300, 1e-12))
	require.LessOrEqual(t, least(always(-1.01), -1, 1, 1e-12), 1e-323)
}

// TestMGFMode: the derivative of n log x + tx − x²/2 vanishes at the mode to a few
// roundings of its terms.
func TestMGFMode(t *testing.T) {
	for _, n := range []float64{1, 2, 7, 999} {
		for _, x := range []float64{-1e6, -300, -2, -0.1, 0, 0.1, 2, 300, 1e6} {
			m := mgfMode(x, n)
			require.Positive(t, m)
			require.InDelta(t, 0, n/m+x-m, 4e-16*(n/m+math.Abs(x)+m), "t = %v, n = %v", x, n)
		}
	}
}

// TestPeak: to 0.6⁶⁰ of the interval, or to where f is flat in float64.
func TestPeak(t *testing.T) {
	for _, at := range []float64{0, 0.01, 0.9, 7, 16.9, 17} {
		got := peakOf(func(x float64) float64 { return -math.Abs(x - at) }, 17, 60)
		require.InDelta(t, at, got, 17*math.Pow(0.6, 60)+4e-15)
	}
}

// TestEnough: the noise where the search starts satisfies its equation, and the
// curve with it is below δ.
// Where the scales of an integral are too far apart for float64, a bound in two steps
// stands for it, above the curve without output noise.
func TestJointWithoutScale(t *testing.T) {
	for _, k := range []Chi{{C: 0.5, S: 0.1, Q: 3}, {C: 0.9, S: 2, Q: 40}, {S: 1e-20, Q: 3}, {S: 1e-5, Q: 1000}} {
		for _, o := range []float64{1e-300, 1e-30, 1e-17, 1e-12, 1e-6, 1e-3} {
			for _, eps := range []float64{k.C + 1e-12, 1, 3} {
				joint, bare := k.LogJoint(eps, o), k.LogDelta(eps)
				require.True(t, joint <= 0 && joint >= bare-1e-8*max(1, -bare) || joint < nothing,
					"%v ≥ %v of %+v, o = %v, ε = %v", joint, bare, k, o,
					eps)
			}
		}
	}
}

func TestEnough(t *testing.T) {
	for _, q := range []int{1, 2, 3, 40} {
		for _, e1 := range []float64{1e-6, 0.3, 2, 50} {
			for _, delta := range []float64{1e-30, 1e-5, 0.2, 0.9} {
				s := 1 / enough(e1, delta, q)
				require.InEpsilon(t, e1, s*s/2+s*(math.Sqrt(float64(q))+math.Sqrt(2*math.Log(1/delta))), 1e-12)
				require.LessOrEqual(t, LogChi(e1, s, q), math.Log(delta))
			}
		}
	}
}

// The enclosure of the law of χ_q holds the integral in 60 digits where there is no output
// noise, and is above the quadrature where there is, by no more than its error.
func TestChiStick(t *testing.T) {
	for _, q := range testkit.Every(3, []int{1, 2, 3, 4, 7, 20, 51, 200}) {
		for _, s := range []float64{0.01, 0.15, 0.8, 3} {
			for _, r0 := range []float64{0.1, 1.7, 4.5, 17} {
				e1 := s * (r0 + s/2)
				r0 = e1/s - s/2
				c := enclose.New(512, nil)
				at := func(o float64) enclose.Interval { return chiStick(c, c.Of(e1), c.Of(s), c.Of(o), q) }
				if q <= 51 && r0 > 1 {
					n := testkit.New
					v, want := at(0), exactStick(testkit.Sub(testkit.Quo(n(e1), n(s)), testkit.Quo(n(s), n(2))), n(s), q)
					lo, _ := v.Lo.Float64()
					hi, _ := v.Hi.Float64()
					x, _ := want.Float64()
					require.InEpsilon(t, x, lo, 1e-12, "q = %d, s = %v, r₀ = %v", q, s, r0)
					require.InEpsilon(t, x, hi, 1e-12, "q = %d, s = %v, r₀ = %v", q, s, r0)
					require.InEpsilon(t, x, math.Exp(LogChi(e1, s, q)), 1e-10)
				}
				for _, o := range []float64{0.001, 0.03, 0.3} {
					hi, _ := at(o).Hi.Float64()
					want := Chi{S: s, Q: q}.LogJoint(e1, o)
					if o*20 > s*r0 { // the part below 0 is no longer nothing, and less than it without the bound for it if q is even
						require.GreaterOrEqual(t, hi, math.Exp(want)*(1-1e-9), "q = %d, s = %v, r₀ = %v, o = %v", q, s, r0, o)
						require.LessOrEqual(t, hi, (math.Exp(want)+2*dp.GaussianDelta(s*r0, o))*(1+1e-9))
						continue
					}
					if want < -600 {
						continue
					}
					require.InEpsilon(t, math.Exp(want), hi, 1e-9, "q = %d, s = %v, r₀ = %v, o = %v", q, s, r0, o)
				}
			}
		}
	}
}

// What a search finds is proved as it is, for any rank and with output noise; a little less
// noise is not.
func TestChiIsProved(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, rank := range []int{2, 3, 9, 40} {
			const ridge = 100
			p := Problem{Dim: 60, Constants: ranked(rank), Relation: rel, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
			k := calibrator(t, p)
			chi := k.chi
			chi.C = k.curvature(ridge)
			for _, o := range []float64{0, 0.0085} {
				u := chi.LeastNoise(1-chi.C, 1e-5)
				if o > 0 {
					u = least(func(s float64) float64 { chi.S = s; return chi.LogJoint(1, o) }, math.Log(1e-5), u, 1e-12)
				}
				q := claim{ridge: ridge, sigma: k.g * u * SafeScale, eps: 1, delta: 1e-5, o: o}
				require.True(t, k.apart(ridge).proves(q), "rank %d, %v, o = %v", rank, rel, o)
				q.sigma *= 1 - 1e-5
				require.False(t, k.apart(ridge).proves(q), "rank %d, %v, o = %v", rank, rel, o)
			}
		}
	}
}

func BenchmarkLeastNoise(b *testing.B) {
	for _, q := range []int{1, 2, 20, 200, 1000} {
		b.Run(fmt.Sprintf("q=%d", q), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Chi{Q: q}.LeastNoise(0.9, 1e-6)
			}
		})
	}
}

// The sums of moments are the integral of the tail.
func TestMoments(t *testing.T) {
	for _, q := range []int{3, 4, 5, 10, 40, 100, 1000} {
		for s := 1e-4; s*math.Sqrt(float64(q)) < 2; s *= 3 {
			for r0 := 0.; r0 < 60; r0 += 1.7 {
				if want := logChiTail(r0, s, q); want > -1000 {
					got := LogChi(s*r0+s*s/2, s, q)
					require.InDelta(t, want, got, 2e-11*max(1, math.Abs(want)), "q = %v, s = %v, r₀ = %v", q, s, r0)
				}
			}
		}
	}
}
