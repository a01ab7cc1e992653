package perturb

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/bigref"
)

// The tests of this file pin down constants and branches that package
// internal/mutate changes and other quick tests do not notice.

// dimensions of 60-digit references, with both parities and all closed forms.
var dimensions = []int{1, 2, 3, 4, 5, 8, 12}

// TestChiCurveInSixtyDigits: the curve, on both sides of r₀ = 0.
func TestChiCurveInSixtyDigits(t *testing.T) {
	n := bigref.New
	for _, q := range dimensions {
		for _, s := range []float64{1e-4, 0.02, 0.3, 1, 4} {
			for _, r0 := range []float64{-3, -0.4, 0, 0.2, 1, 1.64, 1.66, 3, 8, 25} {
				want := bigref.ChiStick(n(r0), n(s), q)
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
	n := bigref.New
	for _, q := range dimensions {
		for _, s := range []float64{1e-4, 0.02, 0.3, 1, 4} {
			for _, alpha := range []float64{1 + 1e-9, 1 + 1e-7, 1 + 1e-4, 1.5, 3, 20} {
				x := bigref.Mul(bigref.Sub(n(alpha), n(1)), n(s))
				if f, _ := x.Float64(); f > 30 {
					continue
				}
				mgf := bigref.Quo(bigref.Log(bigref.ChiMGF(x, q)), bigref.Sub(n(alpha), n(1)))
				x64, _ := x.Float64()
				for _, c := range []float64{0, 0.1} {
					want, _ := bigref.Add(mgf, n(c+s*s/2)).Float64()
					got := Curve{C: c, S: s, Q: q}.RDP(alpha)
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
			require.InEpsilon(t, Curve{C: 0.1, S: s, Q: q}.RDP(1+1e-3*s), Curve{C: 0.1, S: s, Q: q}.RDP(1), 2e-3)
		}
	}
}

// TestMonotoneCurve: below ε = 0 it is 1 − e^{e₁}(1 − δ_G(0, s)), and c shifts
// both curves alike.
func TestMonotoneCurve(t *testing.T) {
	for _, s := range []float64{0.1, 1, 3} {
		for _, e1 := range []float64{-4, -0.3, -1e-3} {
			require.InEpsilon(t, 1-math.Exp(e1)*(1-dp.GaussianDelta(0, s)), math.Exp(LogMonotone(e1, s)), 1e-12)
		}
		k := Curve{C: 0.4, S: s, Q: 1, Monotone: true}
		for _, eps := range []float64{-1, 0.1, 0.5, 3} {
			require.Equal(t, LogMonotone(eps-0.4, s), k.LogProfile(eps))
			require.Equal(t, LogMonotone(eps-0.4, s), k.LogDelta(eps))
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
				got := Least(f, target, root*enough)
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
	n := bigref.New
	for _, q := range []int{3, 4, 9} {
		for _, s := range []float64{0.3, 2} {
			for _, r0 := range []float64{40, 200, 435, 440, 446, 449, 600, 3000} {
				want, _ := bigref.Log(bigref.ChiStick(n(r0), n(s), q)).Float64()
				tail, _ := bigref.Log(bigref.Chi2SF(n(r0*r0), q)).Float64()
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
			k := Curve{S: s, Q: q}
			for _, half := range []float64{460, 1e4} {
				tail, _ := bigref.Log(bigref.Chi2SF(n(half*half), q)).Float64()
				require.InEpsilon(t, tail, k.LogJoint(2*half*s+s*s/2, 0.01), 1e-12)
				if s*half < 1e4 {
					wide, _ := bigref.Log(bigref.GaussianDelta(n(half*s), n(s))).Float64()
					require.InEpsilon(t, math.Max(wide, tail), k.LogJoint(2*half*s+s*s/2, s), 1e-5)
				}
			}
			tail, _ := bigref.Log(bigref.Chi2SF(n(880*880), q)).Float64()
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
		require.Zero(t, LogMGF(0, q))
	}
	for _, x := range []float64{50, 1e3, 9.5e5, 1e6} {
		require.InEpsilon(t, x*x/2+math.Log(2*(1+x*x)), LogMGF(x, 3), 1e-13)
		require.InEpsilon(t, x*x/2+math.Log(math.Sqrt(2*math.Pi)*x), LogMGF(x, 2), 1e-13)
	}
	for _, x := range []float64{1.0001e6, 3e7} {
		require.Equal(t, x*x/2+x*math.Sqrt(3), LogMGF(x, 3))
		require.Greater(t, LogMGF(x, 3), x*x/2+math.Log(2*(1+x*x)))
	}
	// Next to order 1 the Rényi curve takes 1 for the variance of χ₃, 3 − 8/π.
	mean := 2 * math.Sqrt(2/math.Pi)
	require.InEpsilon(t, 0.5+mean+0.97e-6/2, Curve{S: 1, Q: 3}.RDP(1+0.97e-6), 1e-9)
	require.InEpsilon(t, 0.5+mean+1.03e-6*(3-8/math.Pi)/2, Curve{S: 1, Q: 3}.RDP(1+1.03e-6), 2e-9)
	require.InEpsilon(t, 2*(1+1)*0.8413447460685429*math.Exp(0.5)+math.Sqrt(2/math.Pi), math.Exp(LogMGF(1, 3)), 1e-13)
}

// TestLeastWithoutEnough: where no noise is enough the answer is infinite, and
// where every noise is, next to nothing.
func TestLeastWithoutEnough(t *testing.T) {
	always := func(l float64) func(float64) float64 { return func(float64) float64 { return l } }
	require.Equal(t, math.Inf(1), Least(always(0), -1, 1))
	require.Equal(t, math.Inf(1), Least(always(math.NaN()), -1, 1))
	require.Equal(t, math.Inf(1), Least(always(-0.99), -1, 1e300))
	require.LessOrEqual(t, Least(always(-1.01), -1, 1), 1e-323)
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
		got := peakOf(func(x float64) float64 { return -math.Abs(x - at) }, 17)
		require.InDelta(t, at, got, 17*math.Pow(0.6, 60)+4e-15)
	}
}

// TestEnough: the noise where the search starts satisfies its equation, and the
// curve with it is below δ.
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
