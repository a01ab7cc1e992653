package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/sco"
)

// stochastic is a setting of noisy SGD. All its parameters are stated, so that the
// claim need not guess them.
type stochastic struct {
	mech     planner[*erm.Problem, *sco.SGDPlan]
	loss     loss.Linear
	bounds   loss.Bounds
	budget   dp.Budget
	clip     float64 // L
	steps    int     // T
	batches  batches
	step     float64 // η
	momentum float64
	beta     float64 // of the envelope, 0 without one
	last     bool
	data     [2][]record
	// pair has the laws of the sum of one step, over L, on a line where every
	// gradient has norm L or 0; nil elsewhere.
	pair func(z float64) (p, q mixture)
}

// followed is a setting of stochastic gradients that is ready to release from either
// data set.
type followed struct {
	*pair
	trail  trail
	forced [2][]record
	budget dp.Budget
	rel    dp.Relation
}

// followPair plans for two data sets.
func followPair[L plan[*erm.Problem]](
	mech planner[*erm.Problem, L], data [2][]record, bounds loss.Bounds, l, declared loss.Linear, b dp.Budget,
) (r *followed, first L, err error) {
	r = &followed{budget: b, rel: relationOf(data)}
	var problems [2]*erm.Problem
	for i, list := range data {
		if problems[i], r.forced[i], err = follow(list, bounds, l, declared, &r.trail); err != nil {
			return nil, first, err
		}
	}
	r.pair, first, err = open(mech, problems, b)
	return r, first, err
}

// release releases from data set i and keeps the trail of it.
func (r *followed) release(ctx context.Context, i int, src rand.Source) (*dp.Release, error) {
	r.trail.reset()
	r.side = i
	rel, err := r.fit[i](ctx, src)
	if err == nil {
		err = asFor(rel.Certificate, r.budget, r.rel)
	}
	return rel, err
}

// follow makes problems whose records are known by their tags.
func follow(list []record, bounds loss.Bounds, l, declared loss.Linear, t *trail) (*erm.Problem, []record, error) {
	inner := &tagged{Linear: l, declared: declared, bounds: bounds, trail: t}
	var forced []record
	numbered := make([]record, len(list))
	for i, rec := range list {
		forced = append(forced, rec.forced(bounds))
		inner.labels = append(inner.labels, forced[i].b)
		numbered[i] = record{rec.a, float64(i + 1)}
	}
	var outer loss.Loss = inner
	if _, ok := l.(loss.Hinge); ok {
		outer = taggedHinge{inner}
	}
	p, err := problem(numbered, loss.Bounds{Row: bounds.Row, Label: float64(len(list) + 1)}, outer, free)
	if err == nil {
		p.Records, p.Set = size, t
	}
	return p, forced, err
}

// walk is a setting of noisy SGD that is ready to release.
type walk struct {
	*stochastic
	*followed
	plan *sco.SGDPlan
	z    float64
	cert dp.Certificate
}

// prepare plans for both data sets and releases once.
func (c *stochastic) prepare(ctx context.Context, e *Env) (*walk, error) {
	r := &walk{stochastic: c, z: c.batches.noise(c.budget, c.steps)}
	var err error
	if r.followed, r.plan, err = followPair(c.mech, c.data, c.bounds, c.loss, c.loss, c.budget); err != nil {
		return nil, err
	}
	rel, err := r.release(ctx, 0, e.Source("claim"))
	if err != nil {
		return nil, err
	}
	r.cert = rel.Certificate
	return r, nil
}

// release releases from data set i with as many steps as there should be.
func (r *walk) release(ctx context.Context, i int, src rand.Source) (*dp.Release, error) {
	rel, err := r.followed.release(ctx, i, src)
	if err == nil && len(r.trail.points) != r.steps+1 {
		err = fmt.Errorf("audit: %d iterates, want %d", len(r.trail.points)-1, r.steps)
	}
	return rel, err
}

// gradient returns Σ_{j∈batch} of the clipped gradients at w.
func (r *walk) gradient(w []float64, i int, batch []int) []float64 {
	g := make([]float64, len(w))
	for _, j := range batch {
		rec := r.forced[i][j]
		norm := floats.Norm(rec.a, 2)
		if norm == 0 {
			continue
		}
		u := floats.Dot(rec.a, w)
		_, slope, _ := r.loss.Scalar(u, rec.b, norm)
		if r.beta > 0 { // of the envelope of the hinge: −y·clip((1−yu)/κ, 0, 1)
			slope = -rec.b * math.Min(math.Max((1-rec.b*u)*r.beta/(norm*norm), 0), 1)
		}
		if math.Abs(slope)*norm > r.clip {
			slope = math.Copysign(r.clip/norm, slope)
		}
		floats.AddScaled(g, slope, rec.a)
	}
	return g
}

// recovered returns the noise of every step over zL, from the iterates,
//
//	v_t = (w_{t−1} − w_t)/η,  ν_t = m(v_t − μv_{t−1}) − Σ_{i∈B_t} clip ∇ℓ(w_{t−1}; zᵢ)
//
// with the public m, and how far the released point is from the average of the
// iterates, or from the last.
func (r *walk) recovered(rel *dp.Release, i int) (z []float64, off float64) {
	d := len(rel.Theta)
	w, before := r.trail.points, make([]float64, d)
	mean := make([]float64, d)
	for _, x := range w {
		floats.AddScaled(mean, 1/float64(len(w)), x)
	}
	if r.last {
		mean = w[len(w)-1]
	}
	off = floats.Distance(rel.Theta, mean, 2) / (1 + floats.Norm(mean, 2))
	for t := 1; t < len(w); t++ {
		v := floats.SubTo(make([]float64, d), w[t-1], w[t])
		floats.Scale(1/r.step, v)
		g := r.gradient(w[t-1], i, r.trail.batches[t])
		for j := range v {
			z = append(z, ((v[j]-r.momentum*before[j])*float64(r.batches.m)-g[j])/(r.z*r.clip))
		}
		before = v
	}
	return z, off
}

// few returns how many releases of k scores each: as many scores as Runs, and
// 1000 releases at least.
func (e *Env) few(k int) int {
	if e.runs > 0 {
		return e.runs
	}
	return max(e.Runs(WhiteBox)/k, 1000)
}

// noisy recovers the noise of all steps from releases on both data sets in turn,
// so many at once from one stream.
func (c *stochastic) noisy(ctx context.Context, e *Env, releases int) (Finding, error) {
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	worst := 0.0
	k := len(c.data[0][0].a) * c.steps * releases
	f, err := Recover(ctx, e, r.cert, e.few(k), func(ctx context.Context, src rand.Source) ([]float64, error) {
		var row []float64
		for range releases {
			i := 1 - r.side
			rel, err := r.release(ctx, i, src)
			if err != nil {
				return nil, err
			}
			z, off := r.recovered(rel, i)
			row, worst = append(row, z...), math.Max(worst, off)
		}
		return row, nil
	})
	if worst > 1e-12 { // rounding of an average of a few points
		f.Reason = fmt.Sprintf("the released point is %.3g away from what the steps make it", worst)
	}
	return f, err
}

func (c *stochastic) white(ctx context.Context, e *Env) (Finding, error) { return c.noisy(ctx, e, 1) }
func (c *stochastic) twice(ctx context.Context, e *Env) (Finding, error) { return c.noisy(ctx, e, 2) }

// sampled tests the law of the batches: their sizes and how often each record is
// in them, on the larger data set.
func (r *walk) sampled(ctx context.Context, e *Env) (Finding, error) {
	aux, n := e.Source("placed"), len(r.data[0])
	return Recover(ctx, e, r.cert, e.few(r.steps*(n+1)), func(ctx context.Context, src rand.Source) ([]float64, error) {
		if _, err := r.release(ctx, 0, src); err != nil {
			return nil, err
		}
		var row []float64
		for _, batch := range r.trail.batches[1:] {
			row = append(row, r.batches.scores(batch, n, aux)...)
		}
		return row, nil
	})
}

// exact is the profile that the accountant claims for the noise of the plan
// against that of the worst pair, T independent sums.
func (r *walk) exact(ctx context.Context, e *Env) (Finding, error) {
	f := Integrate(r.cert, r.plan.Profile().Delta, r.stick(fault.At(fault.From(ctx), sgdParams, r.plan.Params()).Noise))
	if r.steps > 1 {
		f.Tolerance = 1e-3 // of the grid of composed
	}
	return f, nil
}

// stick returns the larger divergence of T sums of the pair.
func (c *stochastic) stick(z float64) func(eps float64) float64 {
	p, q := c.pair(z)
	up, down := p.sticks(q)
	up, down = composed(up, c.steps), composed(down, c.steps)
	return func(eps float64) float64 { return math.Max(up(eps), down(eps)) }
}

// black distinguishes the pair by the released point, for one step: the released
// point is half of −η(sum + noise)/m.
func (r *walk) black(ctx context.Context, e *Env) (Finding, error) {
	p, q := r.stochastic.pair(r.z)
	score := func(x []float64) float64 {
		y := 2 * x[0] * float64(r.batches.m) / (r.step * r.clip) // of the largest canary
		return p.logDensity(y) - q.logDensity(y)
	}
	return Distinguish(ctx, e, r.cert, e.Runs(BlackBox), EpsilonAt(r.stick(r.z), r.stochastic.budget.Delta), r.theta, score)
}
