// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/sco"
)

// followed is a setting of stochastic gradients. Its releases leave a trail.
type followed struct {
	loss   loss.Linear
	bounds loss.Bounds
	budget dp.Budget
	clip   float64 // L
	data   [2][]record

	pair
	trail  trail
	forced [2][]record
}

// follow prepares c to release by mech. The loss declares the constants of the loss declared. It
// returns the plan for the first data set.
func follow[L plan[*erm.Problem]](
	ctx context.Context, e *env, c *followed, mech planner[*erm.Problem, L], declared loss.Linear,
) (first L, err error) {
	var problems [2]*erm.Problem
	for i, list := range c.data {
		inner := &tagged{Linear: c.loss, declared: declared, bounds: c.bounds, trail: &c.trail}
		numbered := make([]record, len(list))
		for j, rec := range list {
			c.forced[i] = append(c.forced[i], rec.forced(c.bounds))
			inner.labels = append(inner.labels, c.forced[i][j].b)
			numbered[j] = record{rec.a, float64(j + 1)}
		}
		var outer loss.Loss = inner
		if _, ok := c.loss.(loss.Hinge); ok {
			outer = taggedHinge{inner}
		}
		p, err := problem(numbered, loss.Bounds{Row: c.bounds.Row, Label: float64(len(list) + 1)}, outer, free)
		if err != nil {
			return first, err
		}
		p.Records, p.Set = size, &c.trail
		problems[i] = p
	}
	if first, err = open(&c.pair, mech, problems, c.budget); err != nil {
		return first, err
	}
	for i, fit := range c.fit {
		c.fit[i] = func(ctx context.Context, src rand.Source) (*dp.Release, error) {
			c.trail = trail{}
			return fit(ctx, src)
		}
	}
	return first, c.claim(ctx, e, c.budget, relationOf(c.data))
}

// stochastic is a setting of noisy SGD that states all its parameters.
type stochastic struct {
	followed
	mech     planner[*erm.Problem, *sco.Plan]
	steps    int // T
	batches  batches
	step     float64 // η
	momentum float64
	beta     float64 // of the envelope, 0 without one
	last     bool
	// mixtures returns the laws of the sum of one step, over L, on a line where every gradient has
	// norm L or 0. It is nil in other settings.
	mixtures func(z float64) (p, q mixture)

	plan *sco.Plan
	z    float64
}

func (c *stochastic) prepare(ctx context.Context, e *env) (err error) {
	c.z = c.batches.noise(c.budget, c.steps)
	c.plan, err = follow(ctx, e, &c.followed, c.mech, c.loss)
	return err
}

// gradient returns Σ_{j∈batch} of the clipped gradients at w.
func (c *stochastic) gradient(w []float64, i int, batch []int) []float64 {
	g := make([]float64, len(w))
	for _, j := range batch {
		rec := c.forced[i][j]
		norm, u := floats.Norm(rec.a, 2), floats.Dot(rec.a, w)
		slope, _ := derivatives(c.loss, u, rec.b, norm, c.clip)
		if c.beta > 0 && norm > 0 { // of the envelope of the hinge: −y·clip((1−yu)/κ, 0, 1)
			slope = -rec.b * math.Min(math.Max((1-rec.b*u)*c.beta/(norm*norm), 0), 1)
		}
		floats.AddScaled(g, slope, rec.a)
	}
	return g
}

// recovered returns the noise of every step over zL, from the iterates,
//
//	v_t = (w_{t−1} − w_t)/η,  ν_t = m(v_t − μv_{t−1}) − Σ_{i∈B_t} clip ∇ℓ(w_{t−1}; zᵢ)
//
// with the public m. off is the distance of the released point from the average of the iterates, or
// from the last one.
func (c *stochastic) recovered(rel *dp.Release, i int) (z []float64, off float64) {
	d := len(rel.Theta)
	w, before := c.trail.points, make([]float64, d)
	mean := make([]float64, d)
	for _, x := range w {
		floats.AddScaled(mean, 1/float64(len(w)), x)
	}
	if c.last {
		mean = w[len(w)-1]
	}
	off = floats.Distance(rel.Theta, mean, 2) / (1 + floats.Norm(mean, 2))
	for t := 1; t < len(w); t++ {
		v := floats.SubTo(make([]float64, d), w[t-1], w[t])
		floats.Scale(1/c.step, v)
		g := c.gradient(w[t-1], i, c.trail.batches[t])
		for j := range v {
			z = append(z, ((v[j]-c.momentum*before[j])*float64(c.batches.m)-g[j])/(c.z*c.clip))
		}
		before = v
	}
	return z, off
}

// complete returns an error unless the last release took as many steps as it should.
func (c *stochastic) complete() error {
	if len(c.trail.points) != c.steps+1 {
		return fmt.Errorf("audit: %d iterates, want %d", len(c.trail.points)-1, c.steps)
	}
	return nil
}

// white recovers the noise of all steps.
func (c *stochastic) white(ctx context.Context, e *env) (Finding, error) {
	worst := 0.0
	f, err := c.scores(ctx, e, e.few(len(c.data[0][0].a)*c.steps), func(i int, rel *dp.Release) ([]float64, error) {
		if err := c.complete(); err != nil {
			return nil, err
		}
		z, off := c.recovered(rel, i)
		worst = math.Max(worst, off)
		return z, nil
	})
	if worst > 1e-12 { // the rounding errors of an average of a few points
		f.Reason = fmt.Sprintf("the released point is %.3g away from the result of the steps", worst)
	}
	return f, err
}

// sampled tests the law of the batches on the larger data set: their sizes, and the number of times
// that each record is in them.
func (c *stochastic) sampled(ctx context.Context, e *env) (Finding, error) {
	aux, n := e.source("placed"), len(c.data[0])
	return recovered(ctx, e, c.cert, e.few(c.steps*(n+1)), func(ctx context.Context, src rand.Source) ([]float64, error) {
		if _, err := c.fit[0](ctx, src); err != nil {
			return nil, err
		}
		if err := c.complete(); err != nil {
			return nil, err
		}
		var row []float64
		for _, batch := range c.trail.batches[1:] {
			row = append(row, c.batches.scores(batch, n, aux)...)
		}
		return row, nil
	})
}

// exact compares the divergence of T independent sums on the worst pair, under the noise of the
// plan, with the profile that the plan claims.
func (c *stochastic) exact(ctx context.Context, _ *env) (Finding, error) {
	used := fault.At(fault.From(ctx), stochasticParams, c.plan.Params())
	f := integrate(c.cert, c.plan.Profile().Delta, c.stick(used.Noise))
	if c.steps > 1 {
		f.Tolerance = 1e-3 // of the grid of composed
	}
	return f, nil
}

// stick returns the larger divergence of T sums of the pair.
func (c *stochastic) stick(z float64) func(eps float64) float64 {
	p, q := c.mixtures(z)
	up, down := p.sticks(q)
	up, down = composed(up, c.steps), composed(down, c.steps)
	return func(eps float64) float64 { return math.Max(up(eps), down(eps)) }
}

// black distinguishes the pair by the point released after one step: half of −η(sum + noise)/m.
func (c *stochastic) black(ctx context.Context, e *env) (Finding, error) {
	p, q := c.mixtures(c.z)
	score := func(x []float64) float64 {
		y := 2 * x[0] * float64(c.batches.m) / (c.step * c.clip) // of the largest canary
		return p.logDensity(y) - q.logDensity(y)
	}
	return distinguish(ctx, e, c.cert, e.runs(BlackBox), epsilonAt(c.stick(c.z), c.budget.Delta), c.theta, score)
}

// trail follows stochastic gradients through the public interfaces of a problem. It is the set of
// the problem, all of ℝᵈ, and records every iterate; the tagged losses record every evaluated
// record, which they identify by its label, one more than its place.
type trail struct {
	points  [][]float64 // arguments of Prox, first the start
	batches [][]int     // records evaluated before each of the points
	open    []int
}

// Func returns 0.
func (t *trail) Func([]float64) float64 { return 0 }

// Prox is the identity.
func (t *trail) Prox(dst, x []float64, _ float64) {
	copy(dst, x)
	t.points = append(t.points, slices.Clone(x))
	t.batches = append(t.batches, t.open)
	t.open = nil
}

// Radius returns +Inf.
func (t *trail) Radius(int) float64 { return math.Inf(1) }

// tagged is a loss that identifies records by their labels. It declares the constants of another
// loss, and lies if the other one has smaller constants.
type tagged struct {
	loss.Linear
	declared loss.Linear
	bounds   loss.Bounds // of the labels behind the tags
	labels   []float64
	trail    *trail
}

// label returns the label of the record with tag b, 0 for none.
func (l *tagged) label(b float64) float64 {
	if i := int(b) - 1; i >= 0 && i < len(l.labels) {
		return l.labels[i]
	}
	return 0
}

// saw notes the record with tag b.
func (l *tagged) saw(b float64) {
	if b >= 1 {
		l.trail.open = append(l.trail.open, int(b)-1)
	}
}

func (l *tagged) Func(theta, a []float64, b float64) float64 {
	return l.Linear.Func(theta, a, l.label(b))
}

func (l *tagged) Grad(dst, theta, a []float64, b float64) {
	l.saw(b)
	l.Linear.Grad(dst, theta, a, l.label(b))
}

func (l *tagged) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	l.saw(b)
	return l.Linear.Scalar(u, l.label(b), norm)
}

func (l *tagged) Constants(_ loss.Bounds, radius float64) loss.Constants {
	return l.declared.Constants(l.bounds, radius)
}

// taggedHinge is a tagged loss with an envelope in closed form, which is evaluated instead of it.
type taggedHinge struct{ *tagged }

func (l taggedHinge) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	return l.Linear.Scalar(u, l.label(b), norm)
}

func (l taggedHinge) ProxSlope(u, b, kappa float64) (g, dg float64) {
	l.saw(b)
	return loss.Hinge{}.ProxSlope(u, l.label(b), kappa)
}

var (
	_ loss.Linear     = (*tagged)(nil)
	_ loss.Proximable = taggedHinge{}
)
