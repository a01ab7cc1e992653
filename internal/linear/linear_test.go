// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// glm are the constants of a loss of ⟨a,θ⟩.
func glm(lipschitz, smoothness float64) loss.Constants {
	return loss.Constants{Lipschitz: lipschitz, Smoothness: smoothness, Rank: 1, Structure: loss.GLM}
}

func calibrator(t testing.TB, p Problem) *Calibrator {
	t.Helper()
	k, err := New(p)
	require.NoError(t, err)
	return k
}

func at(t testing.TB, p Problem, ridge float64) Noise {
	t.Helper()
	b, err := calibrator(t, p).At(ridge)
	require.NoError(t, err)
	return b
}

func TestNewRefuses(t *testing.T) {
	good := Problem{Dim: 5, Constants: glm(1, 1), Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	_, err := New(good)
	require.NoError(t, err)
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		change func(p *Problem)
		is     error
		text   string
	}{
		"modulus":      {func(p *Problem) { p.Modulus = -1 }, ErrProblem, "Modulus = -1"},
		"NaN modulus":  {func(p *Problem) { p.Modulus = nan }, ErrProblem, "Modulus = NaN"},
		"huge modulus": {func(p *Problem) { p.Modulus = inf }, ErrProblem, "Modulus = +Inf"},
		"calibration":  {func(p *Problem) { p.Calibration = 3 }, ErrProblem, "Calibration = 3"},
		"budget":       {func(p *Problem) { p.Budget.Epsilon = 0 }, dp.ErrBudget, "Epsilon = 0"},
		"Lipschitz":    {func(p *Problem) { p.Constants.Lipschitz = 0 }, dp.ErrCondition, "Lipschitz = 0"},
		"infinite L":   {func(p *Problem) { p.Constants.Lipschitz = inf }, dp.ErrCondition, "Lipschitz = +Inf"},
		"NaN L":        {func(p *Problem) { p.Constants.Lipschitz = nan }, dp.ErrCondition, "Lipschitz = NaN"},
		"Smoothness":   {func(p *Problem) { p.Constants.Smoothness = inf }, dp.ErrCondition, "Smoothness = +Inf"},
		"structure": {func(p *Problem) { p.Constants.Structure = 0 }, dp.ErrCondition,
			"want LSQ, GLM, FixedRange or General"},
		"rank": {func(p *Problem) { p.Constants.Structure, p.Constants.Rank = loss.General, 0 }, dp.ErrCondition,
			"Rank = 0"},
		"CMS11 with δ": {func(p *Problem) { p.Calibration = CMS11 }, dp.ErrCondition, "want Budget.Delta = 0"},
		"CMS11 of rank 2": {func(p *Problem) { p.Calibration, p.Budget.Delta, p.Constants = CMS11, 0, ranked(2) },
			dp.ErrCondition, "Rank 1"},
		"Kifer in 3": {func(p *Problem) { p.Calibration, p.Constants = Kifer, ranked(3) }, dp.ErrCondition,
			"at most 2 dimensions, here 3"},
		"Monotone": {func(p *Problem) { p.Monotone, p.Constants = true, ranked(2) }, dp.ErrCondition,
			"Monotone and Envelope need a loss of ⟨a,θ⟩"},
		"Envelope": {func(p *Problem) { p.Envelope, p.Constants = func(lo, hi float64) float64 { return 1 }, ranked(2) },
			dp.ErrCondition,
			"Monotone and Envelope need a loss of ⟨a,θ⟩"},
	} {
		p := good
		c.change(&p)
		_, err := New(p)
		require.ErrorIs(t, err, c.is, name)
		require.ErrorContains(t, err, c.text, name)
	}
}

func ranked(rank int) loss.Constants {
	return loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: rank, Structure: loss.FixedRange}
}

func TestAtRefuses(t *testing.T) {
	p := Problem{Dim: 5, Constants: glm(1, 1), Modulus: 0.1, Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1,
		Delta: 1e-5}}
	k := calibrator(t, p)
	for _, ridge := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := k.At(ridge)
		require.ErrorIs(t, err, ErrProblem)
	}
	// c = log1p(1/(Δ+0.1)) < 1 from Δ = 1/(e−1) − 0.1 on.
	least := 1/math.Expm1(1) - 0.1
	require.InEpsilon(t, least, k.LeastRidge(1), 1e-12)
	_, err := k.At(least * (1 - 1e-12))
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "want Ridge > 0.48")
	_, err = k.At(least * (1 + 1e-9))
	require.NoError(t, err)

	p.Calibration = Kifer
	k = calibrator(t, p)
	_, err = k.At(1.8)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "= 1.9")
	_, err = k.At(1.9)
	require.NoError(t, err)
}

// The published constants and the pure ones are closed forms.
func TestClosedForms(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		g := 3.0
		if rel == dp.Replace {
			g = 6
		}
		p := Problem{Dim: 4, Constants: glm(3, 0.5), Modulus: 1, Relation: rel, Budget: dp.Budget{Epsilon: 0.8}}
		for calibration, rate := range map[Calibration]float64{
			Sharp: (0.8 - math.Log1p(0.1)) / g,
			Kifer: 0.4 / g,
			CMS11: (0.8 - 2*math.Log1p(0.1)) / g,
		} {
			p.Calibration = calibration
			b := at(t, p, 4)
			relative(t, rate, b.Rate, 2e-9)
			require.Less(t, b.Rate, rate)
			relative(t, 20/(rate*rate), b.Square(), 4e-9)
			require.Zero(t, b.Sigma+b.S)
		}
		p.Calibration, p.Budget.Delta = Kifer, 1e-6
		b := at(t, p, 4)
		relative(t, g*math.Sqrt(8*math.Log(2e6)+3.2)/0.8, b.Sigma, 2e-9)
		relative(t, g/b.Sigma, b.S, 1e-14)
		relative(t, 4*b.Sigma*b.Sigma, b.Square(), 1e-14)
		require.Equal(t, TheoremKifer, b.Theorem)
	}
}

// A world is J₀, a strongly convex function of one variable that both data sets share:
// J₀″ is slopes[i] left of knots[i] and slopes[len(knots)] right of all, J₀′(0) = offset.
// It may be the data, a regularizer, or a set that bends the path of the minimizer.
type world struct {
	knots, slopes []float64
	offset        float64
}

// grad returns J₀′ and J₀″ at θ.
func (w world) grad(theta float64) (g, h float64) {
	from, to, sign := 0.0, theta, 1.0
	if theta < 0 {
		from, to, sign = theta, 0, -1
	}
	g, h = w.offset, w.slopes[len(w.knots)]
	left := math.Inf(-1)
	for i, slope := range w.slopes {
		right := math.Inf(1)
		if i < len(w.knots) {
			right = w.knots[i]
		}
		if overlap := min(right, to) - max(left, from); overlap > 0 {
			g += sign * slope * overlap
		}
		if left < theta && theta <= right {
			h = slope
		}
		left = right
	}
	return g, h
}

// record is φ′ and φ″ of one record with row 1.
type record func(theta float64) (g, h float64)

// delta returns the exact δ(ε) of the minimizer with the records of D against that
// with those of D′, b ~ N(0, σ²): Gauss–Legendre panels in the noise of D, which
// end where a density has a kink and where the loss is ε.
func (w world) delta(eps, sigma float64, d, d2 []record) float64 {
	sum := func(theta float64, rs []record) (g, h float64) {
		g, h = w.grad(theta)
		for _, r := range rs {
			a, b := r(theta)
			g, h = g+a, h+b
		}
		return g, h
	}
	excess := func(u float64) float64 { // loss − ε at u = b/σ = −J_D′(θ)/σ, which falls with θ
		theta, _ := num.Bisect(func(x float64) bool { g, _ := sum(x, d); return -g/sigma >= u }, -1e6, 1e6)
		_, h := sum(theta, d)
		g2, h2 := sum(theta, d2)
		return math.Log(h/h2) + (g2/sigma-u)*(g2/sigma+u)/2 - eps
	}
	const reach, panels = 9.0, 12
	ends := []float64{-reach, reach}
	for _, k := range w.knots {
		g, _ := sum(k, d)
		if u := -g / sigma; math.Abs(u) < reach {
			ends = append(ends, u)
		}
	}
	slices.Sort(ends)
	x, weights := num.GaussLegendre(12)
	total := 0.0
	panel := func(lo, hi float64) {
		for n := range x {
			u := lo + (hi-lo)*(x[n]+1)/2
			if l := excess(u); l > 0 {
				total += weights[n] * (hi - lo) / 2 * math.Exp(-u*u/2) / math.Sqrt(2*math.Pi) * -math.Expm1(-l)
			}
		}
	}
	for i := 1; i < len(ends); i++ {
		for j := range panels {
			width := (ends[i] - ends[i-1]) / panels
			lo, hi := ends[i-1]+width*float64(j), ends[i-1]+width*float64(j+1)
			inner := 1e-9 * width // the limits from inside
			if (excess(lo+inner) > 0) != (excess(hi-inner) > 0) {
				cut, _ := num.Bisect(func(u float64) bool { return (excess(u) > 0) == (excess(lo+inner) > 0) }, lo, hi)
				panel(lo, cut)
				lo = cut
			}
			panel(lo, hi)
		}
	}
	return total
}

// of is a record of the loss with label b.
func of(l loss.Linear, b float64) record {
	return func(theta float64) (g, h float64) {
		_, g, h = l.Scalar(theta, b, 1)
		return g, h
	}
}

// adversary is a world that bends the path: a window of slope Δ between walls, a wall
// between two windows, or a straight one, anywhere around the record.
func adversary(rnd *rand.Rand, ridge, reach float64) world {
	const wall = 1e5
	a := (2*rnd.Float64() - 1) * reach
	b := a + math.Exp(6*rnd.Float64()-4)
	offset := (2*rnd.Float64() - 1) * 10
	switch rnd.IntN(3) {
	case 0:
		w := world{[]float64{a, b}, []float64{wall, ridge, wall}, 0}
		g, _ := w.grad((a + b) / 2)
		w.offset = offset/10*ridge*(b-a) - g // the minimizer is near the window
		return w
	case 1:
		w := world{[]float64{a, b}, []float64{ridge, wall, ridge}, 0}
		g, _ := w.grad((a + b) / 2)
		w.offset = offset/10*wall*(b-a) - g
		return w
	}
	return world{nil, []float64{ridge}, offset}
}

// Exact densities in one dimension, adversarial neighbors: never above the claim, in
// both directions and for replacement.
func TestExactDensitiesStayBelow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 7))
	for name, l := range map[string]loss.Linear{
		"logistic": loss.Logistic{}, "logcosh": loss.LogCosh{Delta: 1}, "pseudohuber": loss.PseudoHuber{Delta: 1},
		"pshinge": loss.RootHinge{Width: 1},
	} {
		best := map[string]float64{}
		for _, c := range []struct{ eps, ridge, sigma float64 }{{1, 2, 2}, {1, 0.9, 3.7306}, {0.5, 1.5, 3}, {2, 0.4, 1.5}} {
			p := problem(name, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})
			k := newScalar(p.Constants.Lipschitz, c.ridge, p.Constants.Smoothness, p.Envelope, p.Monotone, 0)
			claims := map[string]float64{
				"removing": k.boundRemove(c.eps, 1/c.sigma, 0), "adding": k.logAdd(c.eps, 1/c.sigma, 0),
				"replacing": k.boundReplace(c.eps, 1/c.sigma, 0),
			}
			for range 10 {
				w := adversary(rnd, c.ridge, 6)
				z, z2 := of(l, 1), of(l, -1)
				for direction, pair := range map[string][2][]record{"removing": {{z}, nil}, "adding": {nil, {z}},
					"replacing": {{z}, {z2}}} {
					ratio := w.delta(c.eps, c.sigma, pair[0], pair[1]) / math.Exp(claims[direction])
					require.LessOrEqual(t, ratio, 1+1e-6, "%s, %s %+v %+v", direction, name, c, w)
					best[direction] = max(best[direction], ratio)
				}
			}
		}
		require.Greater(t, min(best["removing"], best["adding"]), 0.1, "the worlds of %s are no adversaries", name)
	}
}

// Where curvature is free the claims are attained: removal and addition of a logistic
// record whose slope stays near 1; addition of a general record whose slope has the
// sign of the noise, with the factor 2.
func TestExactDensitiesAttain(t *testing.T) {
	const eps, sigma = 1, 3.0
	plain := dp.GaussianDelta(eps, 1/sigma)
	k := tiedOf(t, "logistic", 1.5)
	z := of(loss.Logistic{}, 1)
	far := world{nil, []float64{1.5}, 1.5 * 500} // the minimizer is near −500
	for _, c := range []struct {
		claim float64
		d, d2 []record
	}{
		{k.boundRemove(eps, 1/sigma, 0), []record{z}, nil},
		{k.logAdd(eps, 1/sigma, 0), nil, []record{z}},
	} {
		require.InEpsilon(t, plain, math.Exp(c.claim), 1e-5)
		require.InEpsilon(t, math.Exp(c.claim), far.delta(eps, sigma, c.d, c.d2), 1e-5)
	}
	l := loss.PseudoHuber{Delta: 1}
	general := tiedOf(t, "pseudohuber", 1e-4)
	steep := world{nil, []float64{1e-4}, 0} // θ = −b/Δ is far out at once
	claim := math.Exp(general.logAdd(eps, 1/sigma, 0))
	got := steep.delta(eps, sigma, nil, []record{of(l, 0)})
	require.GreaterOrEqual(t, got, 0.999*claim)
	require.LessOrEqual(t, got, claim*(1+1e-6))
	require.InEpsilon(t, 2*plain, claim, 1e-9)
}

// plane is the logistic problem in two dimensions with J₀ = (Δ/2)‖θ‖² + ⟨v,θ⟩ and one
// record, a row of the positive class.
type plane struct {
	ridge float64
	v, a  [2]float64
}

// at returns ∇J and det ∇²J, and the weight p(1−p) of the record in the Hessian.
func (w plane) at(theta [2]float64) (g [2]float64, det, weight float64) {
	_, d, h := loss.Logistic{}.Scalar(w.a[0]*theta[0]+w.a[1]*theta[1], 1, 1)
	for i := range g {
		g[i] = w.ridge*theta[i] + w.v[i] + d*w.a[i]
	}
	norm := w.a[0]*w.a[0] + w.a[1]*w.a[1]
	return g, w.ridge * (w.ridge + h*norm), h
}

// minimizer returns the θ with ∇J = −b, by Newton's method with the inverse of a
// multiple of the identity plus one row.
func (w plane) minimizer(b [2]float64) (theta [2]float64) {
	for i := range theta {
		theta[i] = -(b[i] + w.v[i]) / w.ridge
	}
	for range 40 {
		g, _, h := w.at(theta)
		g[0], g[1] = g[0]+b[0], g[1]+b[1]
		norm := w.a[0]*w.a[0] + w.a[1]*w.a[1]
		along := (w.a[0]*g[0] + w.a[1]*g[1]) * h / (w.ridge + h*norm)
		for i := range theta {
			theta[i] -= (g[i] - along*w.a[i]) / w.ridge
		}
	}
	return theta
}

// delta returns δ(ε) of w against w2 on a grid of the noise, to about 1e-3.
func (w plane) delta(eps, sigma float64, w2 plane) float64 {
	const step, reach = 0.1, 7.0
	total := 0.0
	for x := -reach; x <= reach; x += step {
		for y := -reach; y <= reach; y += step {
			b := [2]float64{sigma * x, sigma * y}
			theta := w.minimizer(b)
			_, det, _ := w.at(theta)
			b2, det2, _ := w2.at(theta)
			l := (b2[0]*b2[0]+b2[1]*b2[1]-b[0]*b[0]-b[1]*b[1])/(2*sigma*sigma) + math.Log(det/det2)
			if l > eps {
				total += step * step * math.Exp(-(x*x+y*y)/2) / (2 * math.Pi) * -math.Expm1(eps-l)
			}
		}
	}
	return total
}

// Replacing a record in two dimensions: nearly opposite rows, both with a slope near
// 1, attain the claim where curvature is free; no angle and no position beats it.
func TestExactReplacementInThePlane(t *testing.T) {
	const eps, ridge, sigma = 1, 2.0, 3.0
	k := tiedOf(t, "logistic", ridge)
	claim := math.Exp(k.boundReplace(eps, 1/sigma, 0))
	at := func(angle, distance float64) float64 {
		sin, cos := math.Sincos(angle)
		v := [2]float64{0, ridge * distance} // the minimizer is near (0, −distance)
		return plane{ridge, v, [2]float64{cos, sin}}.delta(eps, sigma, plane{ridge, v, [2]float64{-cos, sin}}) / claim
	}
	require.Greater(t, at(0.02, 2000), 0.995)
	require.Less(t, at(0.02, 2000), 1.003)
	rnd := rand.New(rand.NewPCG(3, 8))
	for range 6 {
		require.Less(t, at(1.5*rnd.Float64(), math.Exp(6*rnd.Float64())), 1.003)
	}
}
