package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
)

// The tests of this file pin down constants and branches that package
// internal/mutate changes and other quick tests do not notice.

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
		top, _ := specfun.Bisect(func(x float64) bool { return privacyLoss(x) <= c.eps }, 1e9, c.t*(1+1e-15))
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
						return 2 * s * math.Exp(specfun.Chi2LogPDF(y, k)) * math.Max(0, 1-math.Exp(eps-privacyLoss(y)))
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

// TestLargest: the root from below to the width asked for, from near and far,
// in few evaluations, and the ends.
func TestLargest(t *testing.T) {
	for _, root := range []float64{1e-200, 1e-3, 1, 7e5, 1e100} {
		for _, far := range []float64{1e-8, 0.3, 1, 1.001, 20, 1e6} {
			for _, tol := range []float64{1e-3, 1e-7} {
				evals := 0
				f := func(x float64) float64 {
					evals++
					u := math.Log(x / root)
					return 3*u + 0.3*math.Sin(u) - 4
				}
				got := largest(f, -4, root*far, tol)
				require.LessOrEqual(t, got, root*(1+1e-12))
				require.GreaterOrEqual(t, got, root*(1-1.01*tol))
				require.LessOrEqual(t, evals, 24, "root %v, guess %v", root, root*far)
			}
		}
	}
	require.Zero(t, largest(func(float64) float64 { return 0 }, -1, 1, 1e-6))
	require.Zero(t, largest(func(float64) float64 { return math.NaN() }, -1, 1, 1e-6))
	require.Greater(t, largest(func(float64) float64 { return -2 }, -1, 1, 1e-6), 1e200)
	step := func(x float64) float64 { // no slope to follow
		if x <= 3 {
			return math.Inf(-1)
		}
		return 0
	}
	require.InEpsilon(t, 3, largest(step, -1, 1, 1e-9), 2e-9)
}

// TestLeastRatio: the integer next to the minimum of flat unimodal costs.
func TestLeastRatio(t *testing.T) {
	for _, least := range []float64{2, 13, 101} {
		for _, best := range []float64{0, 1, 5, 40, 900} {
			at := least + best
			calls := 0
			cost := func(m float64) float64 {
				calls++
				require.Equal(t, math.Round(m), m)
				require.GreaterOrEqual(t, m, least)
				u := math.Log((m - least + 2) / (best + 2))
				return 1 + u*u
			}
			for _, start := range []float64{least, 2 * least, least + 300} {
				calls = 0
				got := leastRatio(cost, least, start, 1e9)
				u := math.Log((got - least + 2) / (best + 2))
				require.Less(t, math.Abs(u), 0.1+0.5/(best+2), "least %v, best %v, start %v: %v", least, at, start, got)
				require.Less(t, calls, 60)
			}
		}
	}
}

// TestSimplex: the minimum of a quadratic and of one with a wall.
func TestSimplex(t *testing.T) {
	f := func(x []float64) float64 { return (x[0]-1)*(x[0]-1) + 10*(x[1]+2)*(x[1]+2) + x[0]*x[1] }
	x, v := simplex(f, []float64{0, 0}, 200)
	require.InDelta(t, f(x), v, 0)
	require.InDelta(t, 80./39, x[0], 1e-4) // 2(x−1) + y = 0 and 20(y+2) + x = 0
	require.InDelta(t, -82./39, x[1], 1e-4)
	wall := func(x []float64) float64 {
		if x[0] < 0.5 {
			return math.NaN()
		}
		return x[0]
	}
	evals := 0
	x, v = simplex(func(x []float64) float64 { evals++; return wall(x) }, []float64{3}, 80)
	require.InDelta(t, 0.5, v, 1e-3)
	require.InDelta(t, 0.5, x[0], 1e-3)
	require.LessOrEqual(t, evals, 84)
}

// TestEnds: the ranges of Mechanism, Public and Published, one step inside and
// one outside.
func TestEnds(t *testing.T) {
	q := Public{Dim: 3, Constants: loss.Constants{Smoothness: 2, Rank: 2, Structure: loss.LSQ}, Radius: 2, Budget: dp.Budget{Epsilon: 1, Delta: 1e-3}}
	for _, m := range []float64{4, 100} {
		p, err := (&Mechanism{M: m}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, m, p.M)
		require.InEpsilon(t, p.Curvature/2*4, p.ExcessBound, 1e-12)
		q2 := q
		q2.Records = 50
		p, err = (&Mechanism{M: m, Cover: 1e-3}).Calibrate(q2)
		require.NoError(t, err)
		require.InEpsilon(t, p.Curvature/2*4+50*2*3./2*p.OutputSigma*p.OutputSigma, p.ExcessBound, 1e-12)
	}
	for _, m := range []float64{3.9, 2e8} {
		_, err := (&Mechanism{M: m}).Calibrate(q)
		require.Error(t, err)
	}
	for _, c := range []float64{2.01e-14, 1.99e-14} {
		_, err := (&Mechanism{M: 9, Cover: c}).Calibrate(q)
		require.Equal(t, c < 2e-14, err != nil)
	}
	for _, d := range []float64{1.01e-90, 0.99e-90} {
		q2 := q
		q2.Budget.Delta = d
		_, err := (&Mechanism{M: 9}).Calibrate(q2)
		require.Equal(t, d < 1e-90, err != nil, "%v", err)
	}
	good := Published{Dim: 2, M: 3, Rank: 1, Smoothness: 1, Epsilon1: 1, Delta1: 0.97, Delta3: 0.01}
	_, err := good.Constants(false)
	require.NoError(t, err)
	for _, bad := range []func(*Published){
		func(p *Published) { p.M = 2.9 }, func(p *Published) { p.Rank = 0 }, func(p *Published) { p.Dim = 0 }, func(p *Published) { p.Delta1 = 1 },
		func(p *Published) { p.Delta3 = 0 }, func(p *Published) { p.Delta4 = 1 }, func(p *Published) { p.Tau = 1 }, func(p *Published) { p.Tau, p.Epsilon2, p.Delta2, p.Eta = 1, 1, 0.1, 1 },
	} {
		p := good
		bad(&p)
		_, err := p.Constants(false)
		require.ErrorIs(t, err, ErrMechanism)
	}
	p := good
	p.Tau, p.Epsilon2, p.Delta2, p.Eta, p.Delta4 = 0.3, 0.7, 0.97, 0.2, 0.97
	c, err := p.Constants(false)
	require.NoError(t, err)
	require.InEpsilon(t, math.Pow(math.Sqrt(2*math.Log(2/(0.97*0.99)))+math.Sqrt(3)+math.Sqrt(2), 2), c.Beta, 1e-12)
	require.InEpsilon(t, (math.Sqrt(2*0.3/(c.Alpha*c.Sigma2))+c.Beta*0.2/c.Alpha)*2/0.7*math.Sqrt(2*math.Log(1.25/0.97)), c.OutputSigma, 1e-12)
}
