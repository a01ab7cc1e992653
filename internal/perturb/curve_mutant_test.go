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

// TestChiCurveInSixtyDigits: the curve at every q, on both sides of r₀ = 0, and
// the moment generating function behind the Rényi curve.
func TestChiCurveInSixtyDigits(t *testing.T) {
	n := bigref.New
	for q := 1; q <= 12; q++ {
		for _, s := range []float64{1e-4, 0.02, 0.3, 1, 4} {
			for _, r0 := range []float64{-3, -0.4, 0, 0.2, 1, 1.64, 1.66, 3, 8, 25} {
				want := bigref.ChiStick(n(r0), n(s), q)
				e1 := s*r0 + s*s/2
				w, _ := want.Float64()
				got := math.Exp(LogChi(e1, s, q))
				// e₁ is rounded: δ moves by r₀ + s standard deviations of that.
				require.InEpsilon(t, w, got, 1e-10+1e-14*(math.Abs(r0)+s)*(math.Abs(r0)+s)/s, "q = %d, s = %v, r₀ = %v", q, s, r0)
			}
			for _, alpha := range []float64{1 + 1e-9, 1 + 1e-4, 1.5, 3, 20} {
				x := bigref.Mul(bigref.Sub(n(alpha), n(1)), n(s))
				if f, _ := x.Float64(); f > 30 {
					continue
				}
				mgf := bigref.Quo(bigref.Log(bigref.ChiMGF(x, q)), bigref.Sub(n(alpha), n(1)))
				want, _ := bigref.Add(mgf, n(0.1+s*s/2)).Float64()
				require.InEpsilon(t, want, Curve{C: 0.1, S: s, Q: q}.RDP(alpha), 1e-6, "q = %d, s = %v, α = %v", q, s, alpha)
			}
			f, _ := n(0).Float64()
			require.InEpsilon(t, Curve{C: 0.1, S: s, Q: q}.RDP(1+1e-3*s), Curve{C: 0.1, S: s, Q: q}.RDP(1+f), 2e-3)
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
