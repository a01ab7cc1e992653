package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
)

// TestHockeySticks holds the four scalar hockey-sticks to 1e-9, and the joint
// one to the accuracy of the reference: 1e-6 for k ≤ 5, 1e-5 for k = 2, else 1e-9.
func TestHockeySticks(t *testing.T) {
	for _, c := range golden(t).HockeyStick {
		eps, s, n := float64(c.Eps), float64(c.T), c.K/2-1
		close(t, c.Add, stickAdd(eps, s, c.K, n), 1e-9, "A", c)
		close(t, c.Remove, stickRemove(eps, s, c.K), 1e-9, "R", c)
		close(t, c.GLMAdd, stickAdd(eps, s, c.K, c.K/2), 1e-9, "D_a", c)
		close(t, c.GLMRemove, stickRemoveGLM(eps, s, c.K), 1e-9, "D_r", c)
		accuracy := 1e-9
		if c.K <= 5 {
			accuracy = 1e-5
		}
		close(t, c.Joint, newReplaceStick(eps, c.K, false).at(s), accuracy, "B", c)
	}
}

// TestSticksExact: hard points of the sticks, real k next to 2 and tails down to 1e-244, against 40 digits.
func TestSticksExact(t *testing.T) {
	for _, c := range exact(t).Sticks {
		eps, s, k := float64(c.Eps), float64(c.T), float64(c.K)
		require.InEpsilon(t, float64(c.Add), stickAdd(eps, s, k, k/2-1), 1e-12, "A %+v", c)
		require.InEpsilon(t, float64(c.GLMAdd), stickAdd(eps, s, k, k/2), 1e-12, "D_a %+v", c)
		if eps >= s/2 {
			require.InEpsilon(t, float64(c.GLMRemove), stickRemoveGLM(eps, s, k), 1e-12, "D_r %+v", c)
		}
	}
}

// simpson returns ∫_a^b f with n panels.
func simpson(a, b float64, n int, f func(x float64) float64) float64 {
	h := (b - a) / float64(2*n)
	sum := f(a) + f(b)
	for i := 1; i < 2*n; i++ {
		w := 2.
		if i%2 == 1 {
			w = 4
		}
		sum += w * f(a+float64(i)*h)
	}
	return sum * h / 3
}

// TestSticks: the one-dimensional hockey-sticks by Simpson's rule over χ²_k.
func TestSticks(t *testing.T) {
	for _, eps := range []float64{0.05, 0.5, 1.2, 2} {
		for _, k := range []float64{2, 3, 4.5, 12, 40} {
			for _, shift := range []float64{0.02, 0.4, 3} {
				n := k/2 - 1
				over := func(privacyLoss func(y float64) float64) float64 {
					return simpson(0, math.Sqrt(k)+12, 8_000, func(s float64) float64 {
						y := s * s
						if y == 0 {
							return 0
						}
						return 2 * s * math.Exp(num.Chi2LogPDF(y, k)) * math.Max(0, 1-math.Exp(eps-privacyLoss(y)))
					})
				}
				add := func(p float64) func(y float64) float64 {
					return func(y float64) float64 {
						if y <= shift {
							return math.Inf(1)
						}
						return -p*math.Log1p(-shift/y) - shift/2
					}
				}
				remove := func(y float64) float64 { return shift/2 - n*math.Log1p(shift/y) }
				glmRemove := func(y float64) float64 { return math.Max(math.Log1p(shift/y), remove(y)) }
				tol := 1e-4
				if n == 0 {
					tol = 1e-3
				}
				// Kinks cost Simpson's rule a square of its step, the root of k = 3 more,
				// and the jump of k = 2 a step.
				require.InDelta(t, over(add(n)), stickAdd(eps, shift, k, n), tol, "A ε=%v k=%v t=%v", eps, k, shift)
				require.InDelta(t, over(add(k/2)), stickAdd(eps, shift, k, k/2), 2e-5, "D_a ε=%v k=%v t=%v", eps, k, shift)
				require.InDelta(t, over(remove), stickRemove(eps, shift, k), 2e-5, "R ε=%v k=%v t=%v", eps, k, shift)
				require.InDelta(t, over(glmRemove), stickRemoveGLM(eps, shift, k), 2e-5, "D_r ε=%v k=%v t=%v", eps, k, shift)
			}
		}
	}
}

// TestClosedForms: the sticks of least squares are differences of distribution
// functions of χ²_k and of shifted ones. Where k is not an integer the nodes meet
// a fractional power, which overstates δ by at most 2e-6 and understates it by
// less than safeLogDelta.
func TestClosedForms(t *testing.T) {
	cdf := func(x, k float64) float64 { return num.Chi2CDF(x, k) }
	sf := func(x, k float64) float64 { return math.Exp(num.Chi2LogSF(x, k)) }
	for _, k := range []float64{2.5, 3, 3.3, 4, 4.2, 7, 30} {
		n := k/2 - 1
		low, high := 1e-9, 1e-9
		if k != math.Trunc(k) {
			low, high = 0.3*safeLogDelta, 2e-6
		}
		for _, x := range []float64{0.1, 0.9, 3, 12} {
			for _, eps := range []float64{0.02, 0.3, 1} {
				top := x / (1 - math.Exp(-(eps+x/2)/n))
				want := cdf(top, k) - math.Exp(eps)*cdf(top-x, k)
				got := stickAdd(eps, x, k, n)
				require.GreaterOrEqual(t, got, want*(1-low)-1e-13, "A k=%v t=%v ε=%v", k, x, eps)
				require.LessOrEqual(t, got, want*(1+high)+1e-13, "A k=%v t=%v ε=%v", k, x, eps)
				if eps >= x/2 {
					require.Zero(t, stickRemove(eps, x, k))
					continue
				}
				from := x / math.Expm1((x/2-eps)/n)
				want = sf(from, k) - math.Exp(eps)*sf(from+x, k)
				got = stickRemove(eps, x, k)
				require.GreaterOrEqual(t, got, want*(1-low)-1e-12, "R k=%v t=%v ε=%v", k, x, eps)
				require.LessOrEqual(t, got, want*(1+high)+1e-12, "R k=%v t=%v ε=%v", k, x, eps)
			}
			require.Zero(t, stickRemove(0.505*x, x, k)) // t/2 < ε: the loss is never so large
		}
	}
	require.InEpsilon(t, -math.Expm1(0.3-1), stickRemove(0.3, 2, 2), 1e-14) // k = 2: the loss is t/2
	require.Equal(t, num.Chi2CDF(0.7, 2), stickAdd(0.3, 0.7, 2, 0))
	// K₀ by its integral, on both sides of its asymptotic series.
	for _, z := range []float64{0.01, 1, 30, 39.9, 40.1, 80} {
		want := simpson(0, math.Acosh(1+60/z), 4000, func(u float64) float64 { return math.Exp(-z * (math.Cosh(u) - 1)) })
		require.InDelta(t, math.Log(want)-z, logBesselK0(z), 1e-11*(1+z))
	}
}
