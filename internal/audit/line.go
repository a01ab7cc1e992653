package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/lop"
)

// law is the law of a release on the line: a density with jumps at breaks, and
// atoms. Both laws of a pair have the same atoms, possibly of probability 0.
type law struct {
	logDensity func(x float64) float64 // −∞ where there is none
	lo, hi     float64                 // outside lies a negligible part
	breaks     []float64
	at         []float64 // places of the atoms
	mass       []float64 // their probabilities
}

// divergence returns the divergences of two laws, whose masses must be 1: else
// the quadrature has missed a part of one.
func divergence(p, q law) (*dptest.Divergence, error) {
	d := dptest.NewDivergence(p.logDensity, q.logDensity, math.Min(p.lo, q.lo), math.Max(p.hi, q.hi), append(append([]float64(nil), p.breaks...), q.breaks...)...)
	d.Atoms(p.mass, q.mass)
	const none = -1e300 // δ(−∞) is the mass
	for _, mass := range []float64{d.At(none), d.Reverse(none)} {
		if !(math.Abs(mass-1) < tolerance) {
			return nil, fmt.Errorf("audit: the law of the release has mass %v, want 1", mass)
		}
	}
	return d, nil
}

// ratio is the score that an attacker who knows both laws thresholds,
// log p(x) − log q(x), at an atom that of the probabilities.
func ratio(p, q law) func(x []float64) float64 {
	return func(x []float64) float64 {
		for i, at := range p.at {
			if x[0] == at {
				return math.Log(p.mass[i]) - math.Log(q.mass[i])
			}
		}
		a, b := p.logDensity(x[0]), q.logDensity(x[0])
		if math.IsInf(a, -1) && math.IsInf(b, -1) { // beyond the support of both
			return 0
		}
		return a - b
	}
}

// law1 returns the exact law of the minimizer for d = 1 on data set i under
// noise of the given scale, by the change of variables
//
//	b(θ) = −(F′(θ) + Δθ + s),   density ν(b(θ))·(F″(θ) + Δ),   ν the density of b
//
// off the kinks, and at a kink or a face the probability that b lies where s may.
func (r *run) law1(i int) law {
	at := func(x float64) (b, slope float64) {
		hess := []float64{r.mech.Delta}
		g := gradient([]float64{x}, r.forced[i], r.loss, r.mech.Clip, hess)
		return -(g[0] + r.mech.Delta*x), hess[0]
	}
	logNoise := func(b float64) float64 {
		if r.rate > 0 {
			return math.Log(r.rate/2) - r.rate*math.Abs(b)
		}
		return -b*b/(2*r.sigma*r.sigma) - math.Log(r.sigma) - math.Log(2*math.Pi)/2
	}
	between := func(lo, hi float64) float64 { // P(lo ≤ b ≤ hi)
		cdf := func(b float64) float64 { return specfun.NormalCDF(b / r.sigma) }
		if r.rate > 0 {
			cdf = func(b float64) float64 {
				if b < 0 {
					return math.Exp(r.rate*b) / 2
				}
				return 1 - math.Exp(-r.rate*b)/2
			}
		}
		return cdf(hi) - cdf(lo)
	}
	l := law{logDensity: func(x float64) float64 {
		if x <= r.kinks.lo || x >= r.kinks.hi {
			return math.Inf(-1)
		}
		b, slope := at(x)
		return logNoise(b-r.kinks.weight*sign(x)) + math.Log(slope)
	}}
	width := 12 * r.sigma
	if r.rate > 0 {
		width = 40 / r.rate
	}
	total := 0.0
	for _, rec := range r.forced[i] {
		lip, _ := r.constants()
		total += lip
		// Jumps of φ″ of Huber's loss and of clipped ones lie at u = b ± k.
		for _, k := range r.jumps(rec) {
			if a := rec.a[0]; a != 0 {
				l.breaks = append(l.breaks, k/a)
			}
		}
	}
	reach := (width + total + r.kinks.weight) / r.mech.Delta
	l.lo, l.hi = math.Max(-reach, r.kinks.lo), math.Min(reach, r.kinks.hi)
	if r.rate > 0 { // the density of b has a kink at b = 0
		x := largestUnder(0, func(s float64) float64 { b, _ := at(s - reach); return -b }) - reach
		l.breaks = append(l.breaks, x)
	}
	atom := func(x float64) {
		b, _ := at(x)
		lo, hi := r.kinks.subgradients(x)
		l.at, l.mass = append(l.at, x), append(l.mass, between(b-hi, b-lo))
		l.breaks = append(l.breaks, x)
	}
	if r.kinks.weight > 0 {
		atom(0)
	}
	if !math.IsInf(r.kinks.hi, 1) {
		atom(r.kinks.lo)
		atom(r.kinks.hi)
	}
	slices.Sort(l.breaks)
	return l
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// jumps returns the predictions at which φ″ of a record jumps.
func (r *run) jumps(rec record) []float64 {
	norm := math.Abs(rec.a[0])
	var at []float64
	near := func(lo, hi float64) { // a sign change of φ″ between, found by bisection
		curve := func(u float64) bool { _, _, c := r.clippedScalar(u, rec.b, norm); return c > 0 }
		if curve(lo) == curve(hi) {
			return
		}
		inside := curve(lo)
		x, _ := specfun.Bisect(func(u float64) bool { return curve(u) == inside }, lo, hi)
		at = append(at, x)
	}
	const span, n = 60.0, 600
	for i := range n {
		near(rec.b-span+2*span*float64(i)/n, rec.b-span+2*span*float64(i+1)/n)
	}
	return at
}

// clippedScalar is φ with its gradient clipped as the mechanism does.
func (r *run) clippedScalar(u, b, norm float64) (phi, slope, curve float64) {
	phi, slope, curve = r.loss.Scalar(u, b, norm)
	if clip := r.mech.Clip; clip > 0 && math.Abs(slope)*norm > clip {
		slope, curve = math.Copysign(clip/norm, slope), 0
	}
	return phi, slope, curve
}

// exact integrates the density of the minimizer under the noise of the plan
// against the profile that the plan claims.
func (c *linear) exact(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	plan, err := c.plan()
	if err != nil {
		return Finding{}, err
	}
	r.sigma, r.rate = plan.Sigma, plan.Rate
	d, err := divergence(r.law1(0), r.law1(1))
	if err != nil {
		return Finding{}, err
	}
	return Integrate(cert, plan.DeltaAt, d.Max), nil
}

// plan returns the plan for the first data set.
func (c *linear) plan() (*lop.Plan, error) {
	reg, set := c.kinks.parts()
	p, err := problem(c.data[0], c.bounds, c.loss, reg, set)
	if err != nil {
		return nil, err
	}
	mech := c.mech
	return mech.Plan(p, c.budget)
}

// black tells releases on the two data sets apart, with the likelihood ratio of
// the exact law as a score where d = 1.
func (c *linear) black(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	r.sigma, r.rate = c.scale()
	exact := math.NaN()
	var scores []func([]float64) float64
	if c.dim() == 1 {
		p, q := r.law1(0), r.law1(1)
		d, err := divergence(p, q)
		if err != nil {
			return Finding{}, err
		}
		exact = EpsilonAt(d.Max, math.Max(cert.Delta, pureDelta))
		scores = append(scores, ratio(p, q))
	}
	return Distinguish(ctx, e, cert, e.Runs(BlackBox), exact, func(ctx context.Context, i int, src rand.Source) ([]float64, error) {
		rel, err := r.fit[i](ctx, src)
		if err != nil {
			return nil, err
		}
		return rel.Theta, nil
	}, scores...)
}

// baseline is output perturbation: the noise of the release around the exact
// minimizer of F + (Δ/2)‖·‖².
type baseline struct {
	mech   lop.Output
	linear // loss, bounds, budget, data; its mech holds Delta, Relation and Cover
}

// white recovers the noise around the minimizer, which Newton's method finds
// to rounding.
func (c *baseline) white(ctx context.Context, e *Env) (Finding, error) {
	c.linear.mech = lop.Mechanism{Relation: c.mech.Relation, Delta: c.mech.Delta, Cover: c.mech.Cover, Clip: c.mech.Clip}
	r := &run{linear: &c.linear}
	var center [2][]float64
	for i, list := range c.data {
		p, err := problem(list, c.bounds, c.loss, nil, nil)
		if err != nil {
			return Finding{}, err
		}
		r.fit[i], err = Planned(ctx, func() (Fit, error) {
			plan, err := c.mech.Plan(p, c.budget)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
		}, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
			return c.mech.Fit(ctx, p, c.budget, src)
		})
		if err != nil {
			return Finding{}, err
		}
		for _, rec := range list {
			r.forced[i] = append(r.forced[i], rec.forced(c.bounds))
		}
		center[i] = minimizer(c.dim(), c.mech.Delta, func(theta, hess []float64) []float64 {
			return gradient(theta, r.forced[i], c.loss, c.mech.Clip, hess)
		})
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	l, _ := c.constants()
	reach := sensitivity(c.relation(), l)/c.mech.Delta + 2*c.mech.Cover
	if r.rate = c.budget.Epsilon / reach; c.budget.Delta > 0 {
		r.rate, r.sigma = 0, gaussianScale(c.budget, reach)
	}
	i := 0
	return Recover(ctx, e, cert, e.Rows(c.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		i = 1 - i
		rel, err := r.fit[i](ctx, src)
		if err != nil {
			return nil, err
		}
		return r.standard(floats.SubTo(make([]float64, c.dim()), rel.Theta, center[i])), nil
	})
}

// minimizer returns argmin F(θ) + (Δ/2)‖θ‖² by Newton's method with halved
// steps; grad returns ∇F and adds ∇²F to hess.
func minimizer(d int, delta float64, grad func(theta, hess []float64) []float64) []float64 {
	theta := make([]float64, d)
	size := math.Inf(1)
	for range 200 {
		hess := make([]float64, d*d)
		g := grad(theta, hess)
		floats.AddScaled(g, delta, theta)
		for j := range d {
			hess[j*d+j] += delta
		}
		norm := floats.Norm(g, 2)
		if !(norm < size) {
			break // rounding is all that is left
		}
		size = norm
		step := solve(hess, g)
		next := make([]float64, d)
		for t := 1.0; t > 1e-6; t /= 2 {
			floats.AddScaledTo(next, theta, -t, step)
			after := grad(next, make([]float64, d*d))
			floats.AddScaled(after, delta, next)
			if floats.Norm(after, 2) < norm {
				break
			}
		}
		copy(theta, next)
	}
	return theta
}

// solve returns the solution of the positive definite system hess·x = g.
func solve(hess, g []float64) []float64 {
	d := len(g)
	a, x := append([]float64(nil), hess...), append([]float64(nil), g...)
	for k := range d {
		for i := k + 1; i < d; i++ {
			f := a[i*d+k] / a[k*d+k]
			floats.AddScaled(a[i*d+k:i*d+d], -f, a[k*d+k:k*d+d])
			x[i] -= f * x[k]
		}
	}
	for k := d - 1; k >= 0; k-- {
		x[k] = (x[k] - floats.Dot(a[k*d+k+1:k*d+d], x[k+1:])) / a[k*d+k]
	}
	return x
}
