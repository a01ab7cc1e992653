package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	perturb "github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// linear is a setting of linear or output perturbation, of package lop or sco: a
// mechanism and two neighboring data sets. Params.Cover and Ridge are stated.
type linear struct {
	mech   func(trace func(erm.Trace)) planner[*erm.Problem, *lop.Plan]
	rel    dp.Relation
	clip   float64
	loss   loss.Linear
	bounds loss.Bounds
	budget dp.Budget
	kinks  kinks
	data   [2][]record
}

// dim returns d.
func (c *linear) dim() int { return len(c.data[0][0].a) }

// run is a setting that is ready to release from either data set.
type run struct {
	*linear
	*pair
	lop.Params            // of a plan that no fault reached
	used       lop.Params // of a fit in the context of the case
	plan       *lop.Plan
	cert       dp.Certificate
	trace      erm.Trace // of the last release
	forced     [2][]record
	drawn      int // coordinates of noise that recovered has drawn
}

// prepare plans for both data sets and releases once.
func (c *linear) prepare(ctx context.Context, e *Env) (*run, error) {
	r := &run{linear: c}
	var problems [2]*erm.Problem
	for i, list := range c.data {
		p, err := problem(list, c.bounds, c.loss, c.kinks)
		if err != nil {
			return nil, err
		}
		problems[i] = p
		problems[i].Records = len(c.data[0])
		for _, rec := range list {
			r.forced[i] = append(r.forced[i], rec.forced(c.bounds))
		}
	}
	var err error
	if r.pair, r.plan, err = open(c.mech(func(t erm.Trace) { r.trace = t }), problems, c.budget); err != nil {
		return nil, err
	}
	r.Params = r.plan.Params()
	r.used = fault.At(fault.From(ctx), perturb.Calibrated, r.Params)
	r.cert, err = r.claim(ctx, e, c.budget, c.rel)
	return r, err
}

// shift returns G, how far a neighbor moves the gradient.
func (r *run) shift() float64 { return sensitivity(r.rel, r.Lipschitz) }

// tooSmall says why noise cannot hide the distance of two points, which is necessary for
// every theorem in every dimension, or "".
func tooSmall(b dp.Budget, distance, sigma, rate float64) string {
	if sigma > 0 && sigma < gaussianScale(b, distance)*(1-1e-6) || rate > b.Epsilon/distance*(1+1e-6) {
		return fmt.Sprintf("Gaussian noise of scale %.6g or radial noise of rate %.6g does not hide a distance of %.6g", sigma, rate, distance)
	}
	return ""
}

// recovered returns the noise of the objective that has its minimizer at theta
// on data set i:
//
//	b = −(∇F(θ) + Δθ + s),  s ∈ ∂(r + ι_C)(θ)
//
// At a kink or on a face s is not known. Given everything else, b_j is then
// N(0, σ²) on the interval that keeps θ_j there: in the coordinates (θ_j free, s_j
// not free) the density of b is the product of its marginals times a
// determinant of the free block alone. So such a b_j is drawn from that law, and
// b is N(0, σ²I) again, exactly and without conditions.
func (r *run) recovered(theta []float64, i int, src rand.Source) []float64 {
	b := gradient(theta, r.forced[i], r.loss, r.clip, nil)
	for j, x := range theta {
		lo, hi := r.kinks.subgradients(x)
		b[j] = -(b[j] + r.Ridge*x)
		if lo == hi {
			b[j] -= lo
			continue
		}
		b[j] = truncated(b[j]-hi, b[j]-lo, r.Sigma, src)
		r.drawn++
	}
	return b
}

// white recovers b from the released point if there are no kinks, as that lies within
// a millionth of σ of the minimizer; else from the one before output noise, which alone
// tells the coordinates that are held. Both data sets release in turn, as often as rows
// says for one row.
func (c *linear) white(ctx context.Context, e *Env, releases int) (Finding, error) {
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	aux := e.Source("held")
	f, err := Recover(ctx, e, r.cert, e.Rows(c.dim()*releases), func(ctx context.Context, src rand.Source) ([]float64, error) {
		var row []float64
		for range releases {
			i, rel, err := r.turn(ctx, src)
			if err != nil {
				return nil, err
			}
			theta := rel.Theta
			if c.kinks != free {
				theta = r.trace.Theta
			}
			row = append(row, standard(r.recovered(theta, i, aux), r.Sigma, r.Rate)...)
		}
		return row, nil
	})
	if err == nil && r.drawn > 0 { // what was drawn here says nothing of the release
		f.Power = dptest.ScalePower(max(1, f.Runs*c.dim()-r.drawn), 0.05, dptest.FalseReject/float64(len(f.Tests)))
	}
	f.Reason = tooSmall(c.budget, r.shift(), r.Sigma, r.Rate)
	return f, err
}

// steps returns the integer that the output noise added on the grid: what was released
// less what the certified point is rounded to.
func steps(released, point, grid float64) int64 {
	return int64(released/grid) - int64(math.RoundToEven(point/grid))
}

// added returns the output noise, each integer as a real number drawn uniformly from
// its cell: cells are a millionth of the scale of the noise.
func added(released, point []float64, grid float64, src rand.Source) []float64 {
	nu := make([]float64, len(released))
	for j := range nu {
		nu[j] = grid * (float64(steps(released[j], point[j], grid)) + noise.Uniform(src) - 0.5)
	}
	return nu
}

// output recovers the output noise.
func (r *run) output(ctx context.Context, e *Env) (Finding, error) {
	aux := e.Source("cells")
	f, err := Recover(ctx, e, r.cert, e.Rows(r.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		_, rel, err := r.turn(ctx, src)
		if err != nil {
			return nil, err
		}
		return standard(added(rel.Theta, r.trace.Theta, r.Grid, aux), r.OutputSigma, r.OutputRate), nil
	})
	hidden := 2*r.Cover + r.Grid*math.Sqrt(float64(r.dim()))
	if r.Sigma+r.Rate == 0 {
		hidden += r.shift() / (r.Ridge + r.Modulus)
		f.Reason = tooSmall(r.budget, hidden, r.OutputSigma, r.OutputRate)
	}
	if !(r.Sensitivity >= hidden) {
		f.Reason = fmt.Sprintf("the output noise is calibrated to hide %.9g, the points are %.9g apart", r.Sensitivity, hidden)
	}
	return f, err
}

// coarse makes the output noise as small as half a step of the grid and tests each cell of
// the integers, where what rounds the noise is all that there is: z is exactly
// N(0,1) for round(ν/g) of a real ν ~ N(0, σ²), whatever it is added to.
func (c *linear) coarse(ctx context.Context, e *Env) (Finding, error) {
	const ratio = 0.5 // σ/g
	ctx = fault.With(ctx, perturb.Calibrated, func(p lop.Params) lop.Params {
		p.OutputSigma = ratio * p.Grid
		return p
	})
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	aux := e.Source("cells")
	return Recover(ctx, e, r.cert, e.Rows(1), func(ctx context.Context, src rand.Source) ([]float64, error) {
		_, rel, err := r.turn(ctx, src)
		if err != nil {
			return nil, err
		}
		// Both signs of the point, odd and even: the law does not depend on where it lies.
		return []float64{placedNormal(steps(rel.Theta[0], r.trace.Theta[0], r.Grid), ratio, aux)}, nil
	})
}

// residues tests that the integers that are released have uniform residues modulo 8.
func (r *run) residues(ctx context.Context, e *Env) (Finding, error) {
	aux := e.Source("cells")
	return Recover(ctx, e, r.cert, e.Rows(r.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		_, rel, err := r.turn(ctx, src)
		if err != nil {
			return nil, err
		}
		z := make([]float64, r.dim())
		for j, x := range rel.Theta {
			u := (float64(int64(x/r.Grid)&7) + noise.Uniform(aux)) / 8
			z[j] = Normal(u, 1-u)
		}
		return z, nil
	})
}

// covered sees the noise of each release and measures how far from the minimizer that it
// implies the certified point lies: at most ‖∇F(θ̂) + Δθ̂ + b + s‖/μ for the best s,
// which may not exceed Cover.
func (c *linear) covered(ctx context.Context, e *Env) (Finding, error) {
	b := make([]float64, c.dim())
	ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		copy(b, q.Linear) // not of output perturbation
		return q
	})
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(r.cert)
	f.Runs = max(100, e.Runs(WhiteBox)/10)
	worst, src := 0.0, e.Source("cover")
	for range f.Runs {
		i, _, err := r.turn(ctx, src)
		if err != nil {
			return f, err
		}
		g := gradient(r.trace.Theta, r.forced[i], c.loss, c.clip, nil)
		square := 0.0
		for j, x := range r.trace.Theta {
			lo, hi := c.kinks.subgradients(x)
			v := g[j] + r.Ridge*x + b[j] // 0 ∈ v + [lo, hi]
			v += math.Min(math.Max(-v, lo), hi)
			square += v * v
		}
		worst = math.Max(worst, math.Sqrt(square)/r.Ridge)
	}
	if worst > r.Cover*(1+1e-6) {
		f.Reason = fmt.Sprintf("a point was released %.3g from its minimizer, the claim is %.3g", worst, r.Cover)
	}
	return f, nil
}

// permuted releases from the records in other orders with the noise kept: the
// certified points lie within 2R of one another.
func (c *linear) permuted(ctx context.Context, e *Env) (Finding, error) {
	shuffled := *c
	rnd := rand.New(e.Source("order"))
	f, worst := Finding{}, 0.0
	for run := range 20 * int(e.Tier) {
		for i := range shuffled.data {
			shuffled.data[i] = append([]record(nil), c.data[i]...)
			rnd.Shuffle(len(shuffled.data[i]), func(j, k int) {
				shuffled.data[i][j], shuffled.data[i][k] = shuffled.data[i][k], shuffled.data[i][j]
			})
		}
		var point [2][]float64
		for i, set := range []*linear{c, &shuffled} {
			r, err := set.prepare(ctx, e)
			if err != nil {
				return f, err
			}
			if _, err := r.fit[run%2](ctx, e.Source("order", fmt.Sprint(run))); err != nil {
				return f, err
			}
			if run == 0 && i == 0 {
				f = Claimed(r.cert)
			}
			f.Runs++
			point[i] = r.trace.Theta
		}
		worst = math.Max(worst, floats.Distance(point[0], point[1], 2))
		if 2*cover < worst {
			f.Reason = fmt.Sprintf("another order of the records moves the point by %.3g, the claim is at most %.3g", worst, 2*cover)
		}
	}
	return f, nil
}

// exact integrates the density of the release under the noise of a fit against the
// profile that the plan claims.
func (r *run) exact(ctx context.Context, e *Env) (Finding, error) {
	d, err := divergence(r.law1(0), r.law1(1))
	if err != nil {
		return Finding{}, err
	}
	return Integrate(r.cert, r.plan.Profile().Delta, d.Max), nil
}

// searched is the exact layer for random neighboring data.
func (c *linear) searched(ctx context.Context, e *Env) (Finding, error) {
	return searched(ctx, e, c.rel, c.bounds.Row, c.bounds.Label, func(data [2][]record) (Finding, error) {
		random := *c
		random.data = data
		return ready[*linear]((*run).exact)(&random, ctx, e)
	})
}

// black tells releases on the two data sets apart, with the likelihood ratio of
// the exact law as a score where d = 1.
func (r *run) black(ctx context.Context, e *Env) (Finding, error) {
	exact := math.NaN()
	var scores []func([]float64) float64
	if r.dim() == 1 {
		r.used = r.Params // what an attacker knows
		p, q := r.law1(0), r.law1(1)
		d, err := divergence(p, q)
		if err != nil {
			return Finding{}, err
		}
		exact = EpsilonAt(d.Max, math.Max(r.cert.Delta, pureDelta))
		scores = append(scores, ratio(p, q))
	}
	return Distinguish(ctx, e, r.cert, e.Runs(BlackBox), exact, r.theta, scores...)
}

// named is the attack on the values of the sampler: whoever knows all records
// but one computes, for each candidate data set, the noise b that a released
// minimizer implies. If the sampler has few values, the noise of the true data
// set is one of them and that of the other is not [Mir12].
//
// The output noise is switched off and the cover is the least that can be certified, so
// that the sampler alone is tested. The noise that ours implies is never a value of the
// ziggurat in all coordinates; against the ziggurat the attack names the data.
func (c *linear) named(ctx context.Context, e *Env) (Finding, error) {
	ctx = fault.With(ctx, release.OutputNoise, func(k []int64) []int64 { return make([]int64, len(k)) })
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(r.cert)
	f.Runs = 400
	const tol = 4e-13 // ten coordinates of a real number pass with probability below 1e-9
	fits := func(theta []float64, i int) bool {
		for _, b := range r.recovered(theta, i, nil) {
			if z := b / r.Sigma; math.Abs(z) < lattice.edge[1] && !lattice.has(z, tol) {
				return false
			}
		}
		return true
	}
	named, src := 0, e.Source("lattice")
	for range f.Runs {
		i, rel, err := r.turn(ctx, src)
		if err != nil {
			return f, err
		}
		if fits(rel.Theta, i) && !fits(rel.Theta, 1-i) {
			named++
		}
	}
	if named > 0 {
		f.Reason = fmt.Sprintf("the noise of %d of %d releases names the data set", named, f.Runs)
	}
	return f, nil
}

// ridged returns a Break that multiplies Δ in the objective.
func ridged(c float64) func(context.Context) context.Context {
	return one(release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		var scaled mat.SymDense
		scaled.ScaleSym(c, q.Quad)
		q.Quad = &scaled
		return q
	})
}
