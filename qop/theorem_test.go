package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

func TestLosses(t *testing.T) {
	require.InDelta(t, 3*math.Log(1.25)-2.5*math.Log(0.75), generalLoss(3, 5, 0.5, 2), 1e-14)
	remove, add := fixedLosses(3, 5, 0.5, 2)
	require.InDelta(t, 2*math.Log(1.25)+0.25, remove, 1e-14)
	require.InDelta(t, -2.5*math.Log(0.75)-0.25, add, 1e-14)
	remove, add = fixedLosses(1, 2, 3, 4) // log 1.75 < 1.5 and −log(1/4) < 1.5
	require.InDelta(t, 1.5, remove, 1e-14)
	require.Zero(t, add)
	remove, _ = fixedLosses(2, 2, 0.5, 0.6) // log(1 + t/y) is more than t/2
	require.InDelta(t, 2*math.Log1p(0.5/0.6), remove, 1e-14)
	require.InDelta(t, 0.7, largestBelow(2, 0.49, func(x float64) float64 { return x * x }), 1e-12)
}

// exponential is the law F(x) = 1 − e^{−rate·x}, known on [lo, hi].
type exponential struct{ rate, lo, hi float64 }

func (l exponential) logCDF(x float64) float64 {
	if x > l.hi {
		return 0
	}
	return math.Log(-math.Expm1(-l.rate * math.Max(x, l.lo)))
}

func (l exponential) ends() (lo, hi float64) { return l.lo, l.hi }

// TestGeneralStick: the hockey-stick of the general case by Simpson's rule over
// the density of λ_min, and by parts where the law is known on an interval.
func TestGeneralStick(t *testing.T) {
	for _, c := range []struct{ eps, rho, k, t, rate float64 }{
		{1, 1, 2, 0.3, 0.5}, {1, 3, 2, 0.3, 0.5}, {0.3, 2, 5, 0.05, 1}, {4, 1, 8, 2, 0.1}, {0.5, 2, 12, 1e-3, 2}, {2, 2, 30, 0.5, 0.05},
	} {
		privacyLoss := func(x float64) float64 { return c.rho*math.Log1p(c.t/x) - c.k/2*math.Log1p(-c.t/x) }
		top, _ := num.Bisect(func(x float64) bool { return privacyLoss(x) <= c.eps }, 1e9, c.t*(1+1e-15))
		rest := func(x float64) float64 { return math.Exp(c.eps - privacyLoss(x)) } // e^{ε−l}, 0 at t
		want := -math.Expm1(-c.rate*c.t) + simpson(0, math.Sqrt(top-c.t), 20_000, func(v float64) float64 {
			x := c.t + v*v
			left := 1.
			if v > 0 {
				left = 1 - rest(x)
			}
			return 2 * v * left * c.rate * math.Exp(-c.rate*x)
		})
		p := &general{eps: c.eps, rho: c.rho, k: c.k, law: exponential{c.rate, 0, math.Inf(1)}}
		require.InEpsilon(t, want, math.Exp(p.logDelta(c.t)), 1e-7, "%+v", c)

		slope := func(x float64) float64 { return c.rho*c.t/(x*(x+c.t)) + c.k/2*c.t/(x*(x-c.t)) }
		lo := c.t + (top-c.t)/3
		for _, hi := range []float64{c.t + (top-c.t)/2, 2 * top} {
			law := exponential{c.rate, lo, hi}
			f := func(x float64) float64 { return -math.Expm1(-c.rate * x) }
			want := f(lo)*rest(lo) + simpson(lo, math.Min(top, hi), 5_000, func(x float64) float64 { return f(x) * rest(x) * slope(x) })
			if top > hi {
				want += 1 - rest(hi)
			}
			p := &general{eps: c.eps, rho: c.rho, k: c.k, law: law}
			require.InEpsilon(t, want, math.Exp(p.logDelta(c.t)), 1e-7, "%+v on [%v, %v]", c, lo, hi)
		}
	}
	// Where F counts as 1 all the way, so does δ; where it ends below t, as 0.
	require.Zero(t, (&general{eps: 1e-3, rho: 1, k: 4, law: exponential{1, 1e-9, 1e-8}}).logDelta(1))
}

// TestGLMStick: the split of ε is the best of a fine grid, and add/remove
// neighbors need no split.
func TestGLMStick(t *testing.T) {
	for _, c := range []struct{ eps, k, t float64 }{{1, 4, 0.4}, {0.5, 10, 0.3}, {3, 6, 3}, {1, 30, 4}, {0.2, 3, 0.6}} {
		want := math.Inf(1)
		for i := range 2001 {
			er := c.eps * float64(i) / 2000
			ea := c.eps - er
			r, a := stickRemoveGLM(er, c.t, c.k), stickAdd(ea, c.t, c.k, c.k/2)
			want = math.Min(want, math.Min(r+math.Exp(er)*a, a+math.Exp(ea)*r))
		}
		want = math.Log(math.Min(want, 1))
		exact := &glm{eps: c.eps, k: c.k, relation: dp.Replace}
		got := exact.logDelta(c.t)
		require.InDelta(t, want, got, 2e-6, "%+v", c)
		require.InDelta(t, got, exact.logDelta(c.t), 1e-6, "from the last share, %+v", c)
		require.InDelta(t, want, (&glm{eps: c.eps, k: c.k, relation: dp.Replace, rough: true}).logDelta(c.t), 0.05, "%+v", c)
		want = math.Log(math.Max(stickAdd(c.eps, c.t, c.k, c.k/2), stickRemoveGLM(c.eps, c.t, c.k)))
		require.Equal(t, want, (&glm{eps: c.eps, k: c.k, relation: dp.AddRemove}).logDelta(c.t))
	}
	require.Zero(t, (&glm{eps: 1e-3, k: 3, relation: dp.Replace}).logDelta(1e3), "δ is at most 1")
}

// TestPaperSettingSharp: d = 100, m = 2d, ε = 0.5, δ = 0.01.
func TestPaperSettingSharp(t *testing.T) {
	g := golden(t)
	s := setting{dim: 100, rank: 1, eps: 0.5, relation: dp.Replace}
	for p, want := range map[profile]number{newLSQ(s, 200, false): g.Figure2.Sharp.LSQ,
		&glm{eps: 0.5, k: 101, relation: dp.Replace}: g.Figure2.Sharp.GLM} {
		close(t, want, 1/largest(p.logDelta, math.Log(0.01)-safeLogDelta, 2, fineT), 2e-5)
	}
}
