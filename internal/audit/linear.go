package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// linear is a setting of linear perturbation: a mechanism and two neighboring
// data sets.
type linear struct {
	mech   lop.Mechanism
	loss   loss.Linear
	bounds loss.Bounds
	budget dp.Budget
	kinks  kinks
	data   [2][]record
}

// unit are the bounds of rows and labels that most settings declare.
var unit = loss.Bounds{Row: 1, Label: 1}

// usual is the budget of most settings: at δ = 0.01 the noise is the least, and
// the black box sees the most.
var usual = dp.Budget{Epsilon: 1, Delta: 0.01}

// dim returns d.
func (c *linear) dim() int { return len(c.data[0][0].a) }

// relation returns the relation of the mechanism.
func (c *linear) relation() dp.Relation {
	if c.mech.Relation == 0 {
		return dp.Replace
	}
	return c.mech.Relation
}

// share returns the share of the budget that goes to the output noise.
func (c *linear) share() float64 {
	if c.mech.Share == 0 {
		return 0.01
	}
	return c.mech.Share
}

// constants returns L and β that the claim rests on.
func (c *linear) constants() (lipschitz, smoothness float64) {
	radius := math.Inf(1)
	if !math.IsInf(c.kinks.hi, 1) {
		radius = math.Sqrt(float64(c.dim())) * math.Max(math.Abs(c.kinks.lo), math.Abs(c.kinks.hi))
	}
	k := c.loss.Constants(c.bounds, radius)
	if c.mech.Clip > 0 {
		k.Lipschitz = math.Min(k.Lipschitz, c.mech.Clip)
	}
	return k.Lipschitz, k.Smoothness
}

// scale returns what the claim asks of b: σ, or the rate a for a pure claim.
//
//	sharp      σ = G/s                                  sharpScale
//	monotone   σ = G/s, s of normalStick
//	joint      σ = G/s or the sharp one                   jointScale
//	Kifer      σ = G√(8 ln(2/δ)+4ε)/ε,  a = ε/(2G)
//	pure       a = (ε−c)/G, c = log1p(β/Δ); CMS11 c = 2 log1p(β/Δ)
func (c *linear) scale() (sigma, rate float64) {
	l, beta := c.constants()
	g := sensitivity(c.relation(), l)
	b, _ := split(c.budget, c.share())
	cost := math.Log1p(beta / c.mech.Delta)
	kifer := c.mech.Calibration == lop.Kifer
	switch {
	case b.Delta == 0 && kifer:
		return 0, b.Epsilon / (2 * g)
	case b.Delta == 0 && c.mech.Calibration == lop.CMS11:
		return 0, (b.Epsilon - 2*cost) / g
	case b.Delta == 0:
		return 0, (b.Epsilon - cost) / g
	case kifer:
		return g * math.Sqrt(8*math.Log(2/b.Delta)+4*b.Epsilon) / b.Epsilon, 0
	case c.mech.Monotone:
		return g / largestUnder(b.Delta, func(s float64) float64 { return normalStick(b.Epsilon-cost, s) }), 0
	}
	sigma = sharpScale(b, cost, g, c.dim(), c.relation())
	if c.mech.Joint {
		q := 1
		if c.relation() == dp.Replace && c.dim() > 1 {
			q = 2
		}
		_, output := split(c.budget, c.share())
		sigma = jointScale(c.budget, output, cost, g, q, sigma)
	}
	return sigma, 0
}

// run is a setting that is ready to release from either data set.
type run struct {
	*linear
	fit         [2]Fit
	trace       lop.Trace // of the last release
	forced      [2][]record
	sigma, rate float64
	drawn       int // coordinates of noise that recovered has drawn
}

// prepare plans for both data sets.
func (c *linear) prepare(ctx context.Context) (*run, error) {
	r := &run{linear: c}
	mech := c.mech
	mech.Trace = func(t lop.Trace) { r.trace = t }
	reg, set := c.kinks.parts()
	for i, list := range c.data {
		p, err := problem(list, c.bounds, c.loss, reg, set)
		if err != nil {
			return nil, err
		}
		r.fit[i], err = Planned(ctx, func() (Fit, error) {
			plan, err := mech.Plan(p, c.budget)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
		}, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
			return mech.Fit(ctx, p, c.budget, src)
		})
		if err != nil {
			return nil, err
		}
		for _, rec := range list {
			r.forced[i] = append(r.forced[i], rec.forced(c.bounds))
		}
	}
	return r, nil
}

// certificate returns what one release claims.
func (r *run) certificate(ctx context.Context, e *Env) (dp.Certificate, error) {
	rel, err := r.fit[0](ctx, e.Source("claim"))
	if err != nil {
		return dp.Certificate{}, err
	}
	return rel.Certificate, asFor(rel.Certificate, r.budget, r.relation())
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
	b := gradient(theta, r.forced[i], r.loss, r.mech.Clip, nil)
	for j, x := range theta {
		lo, hi := r.kinks.subgradients(x)
		b[j] = -(b[j] + r.mech.Delta*x)
		if lo == hi {
			b[j] -= lo
			continue
		}
		b[j] = truncated(b[j]-hi, b[j]-lo, r.sigma, src)
		r.drawn++
	}
	return b
}

// standard maps noise to scores in place: b/σ, or for the density ∝ exp(−a‖b‖)
// a vector of the same direction whose squared norm has the χ²_d probability that
// a‖b‖ has for the Gamma(d) law.
func (r *run) standard(b []float64) []float64 {
	if r.rate == 0 {
		floats.Scale(1/r.sigma, b)
		return b
	}
	d, norm := float64(len(b)), floats.Norm(b, 2)
	x := 2 * r.rate * norm
	square := 0.0
	if p, q := specfun.Chi2LogCDF(x, 2*d), specfun.Chi2LogSF(x, 2*d); p < q {
		square = specfun.Chi2Quantile(p, d)
	} else {
		square = specfun.Chi2UpperQuantile(q, d)
	}
	floats.Scale(math.Sqrt(square)/norm, b)
	return b
}

// rows returns how many releases give the scores that the tier asks for, k each.
func (e *Env) rows(k int) int { return max(e.Runs(WhiteBox)/min(k, 5), 20_000/k) }

// white recovers the noise of the objective from releases on both data sets in
// turn. Where no kink and no face is near, it looks at the released point, which
// lies within a millionth of σ of the minimizer; else at the one before output
// noise, which alone tells the coordinates that are held.
func (c *linear) white(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	r.sigma, r.rate = c.scale()
	i, aux := 0, e.Source("held")
	f, err := Recover(ctx, e, cert, e.Rows(c.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		i = 1 - i
		rel, err := r.fit[i](ctx, src)
		if err != nil {
			return nil, err
		}
		theta := rel.Theta
		if c.kinks != free {
			theta = r.trace.Theta
		}
		return r.standard(r.recovered(theta, i, aux)), nil
	})
	if err == nil && r.drawn > 0 { // what was drawn here says nothing of the release
		f.Power = dptest.ScalePower(max(1, f.Runs*c.dim()-r.drawn), 0.05, dptest.FalseReject/float64(len(f.Tests)))
	}
	return f, err
}

// twice recovers the noise of two releases from one stream, as one row.
func (c *linear) twice(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	r.sigma, r.rate = c.scale()
	return Recover(ctx, e, cert, e.Rows(2*c.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		var row []float64
		for i := range 2 {
			rel, err := r.fit[i](ctx, src)
			if err != nil {
				return nil, err
			}
			row = append(row, r.standard(r.recovered(rel.Theta, i, nil))...)
		}
		return row, nil
	})
}

// output recovers the output noise, released minus certified point.
func (c *linear) output(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	_, out := split(c.budget, c.share())
	r.sigma, r.rate = 0, out.Epsilon/(2*c.mech.Cover)
	if out.Delta > 0 {
		r.sigma, r.rate = gaussianScale(out, 2*c.mech.Cover), 0
	}
	i := 0
	return Recover(ctx, e, cert, e.Rows(c.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		i = 1 - i
		rel, err := r.fit[i](ctx, src)
		if err != nil {
			return nil, err
		}
		nu := make([]float64, len(rel.Theta))
		return r.standard(floats.SubTo(nu, rel.Theta, r.trace.Theta)), nil
	})
}

// covered draws the noise of each release again, from an equal source, and
// measures how far from the minimizer that it implies the certified point lies:
// at most ‖∇F(θ̂) + Δθ̂ + b + s‖/μ for the best s, which may not exceed Cover.
func (c *linear) covered(ctx context.Context, e *Env) (Finding, error) {
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(cert)
	f.Runs = max(100, e.Runs(WhiteBox)/10)
	r.sigma, _ = c.scale()
	b, worst := make([]float64, c.dim()), 0.0
	for run := range f.Runs {
		i, label := run%2, fmt.Sprint("cover ", run)
		if _, err := r.fit[i](ctx, e.Source(label)); err != nil {
			return f, err
		}
		noise.Normal(b, r.sigma, e.Source(label))
		g := gradient(r.trace.Theta, r.forced[i], c.loss, c.mech.Clip, nil)
		square := 0.0
		for j, x := range r.trace.Theta {
			lo, hi := c.kinks.subgradients(x)
			v := g[j] + c.mech.Delta*x + b[j] // 0 ∈ v + [lo, hi]
			v += math.Min(math.Max(-v, lo), hi)
			square += v * v
		}
		worst = math.Max(worst, math.Sqrt(square)/c.mech.Delta)
	}
	if worst > c.mech.Cover*(1+1e-6) {
		f.Reason = fmt.Sprintf("a point was released %.3g from its minimizer, the claim is %.3g", worst, c.mech.Cover)
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
			r, err := set.prepare(ctx)
			if err != nil {
				return f, err
			}
			rel, err := r.fit[run%2](ctx, e.Source("order", fmt.Sprint(run)))
			if err != nil {
				return f, err
			}
			if run == 0 && i == 0 {
				f = Claimed(rel.Certificate)
			}
			f.Runs++
			point[i] = r.trace.Theta
		}
		worst = math.Max(worst, floats.Distance(point[0], point[1], 2))
	}
	if worst > 2*c.mech.Cover {
		f.Reason = fmt.Sprintf("another order of the records moves the point by %.3g, the claim is at most %.3g", worst, 2*c.mech.Cover)
	}
	return f, nil
}
