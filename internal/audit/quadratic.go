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
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// quadratic is a setting of quadratic perturbation: a mechanism, whose M and
// Cover are stated, and two neighboring data sets.
type quadratic struct {
	mech   qop.Mechanism
	loss   loss.Loss
	bounds loss.Bounds
	budget dp.Budget
	kinks  kinks
	data   [2][]record
}

// dim returns d.
func (c *quadratic) dim() int { return len(c.mech.Center) }

// k returns m − d + 1.
func (c *quadratic) k() float64 { return c.mech.M - float64(c.dim()) + 1 }

func (c *quadratic) relation() dp.Relation {
	if c.mech.Relation == 0 {
		return dp.Replace
	}
	return c.mech.Relation
}

// interpolated returns the record that the fit must use: forced into bounds,
// and by the rule relabelled so that the anchor is optimal, or the zero record
// where no label within the bounds and the tolerance does that.
func (c *quadratic) interpolated(r record) record {
	r = r.forced(c.bounds)
	tolerance := math.Inf(1)
	switch rule := c.mech.Interpolation.(type) {
	case qop.Trust:
		return r
	case qop.Drop:
		tolerance = rule.Tolerance
	}
	u := floats.Dot(r.a, c.mech.Center)
	label := u // of losses of u − b
	if _, ok := c.loss.(loss.SmoothedHinge); ok {
		switch { // the class with a margin of 1 or more, if there is one
		case u >= 1:
			label = math.Max(r.b, 0)
		case u <= -1:
			label = math.Min(r.b, -math.SmallestNonzeroFloat64)
		default:
			label = math.Inf(1)
		}
	}
	if !(math.Abs(label) <= c.bounds.Label && math.Abs(label-r.b) <= tolerance) {
		return record{make([]float64, len(r.a)), 0}
	}
	return record{r.a, label}
}

// slope returns ∇F(θ) and stores ∇²F(θ) in hess, d×d.
func (c *quadratic) slope(theta []float64, list []record, hess []float64) []float64 {
	clear(hess)
	if l, ok := c.loss.(loss.Linear); ok {
		return gradient(theta, list, l, 0, hess)
	}
	// The one other loss is round, see below: ∇ = ‖a‖²(θ−θ̃), ∇² = ‖a‖²I.
	d := len(theta)
	g := make([]float64, d)
	for _, r := range list {
		w := floats.Dot(r.a, r.a)
		for j := range g {
			g[j] += w * (theta[j] - c.mech.Center[j])
			hess[j*d+j] += w
		}
	}
	return g
}

// round is the loss (‖a‖²/2)‖θ − center‖² of full rank, the same in all
// directions.
type round struct{ center []float64 }

// Func returns (‖a‖²/2)‖θ − center‖².
func (l round) Func(theta, a []float64, _ float64) float64 {
	d := floats.Distance(theta, l.center, 2)
	return floats.Dot(a, a) / 2 * d * d
}

// Grad stores ‖a‖²(θ − center) in dst.
func (l round) Grad(dst, theta, a []float64, _ float64) {
	floats.SubTo(dst, theta, l.center)
	floats.Scale(floats.Dot(a, a), dst)
}

// Constants returns β = Row², rank d.
func (l round) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Constants{
		Lipschitz:  b.Row * b.Row * (radius + floats.Norm(l.center, 2)),
		Smoothness: b.Row * b.Row * (1 + 1e-12),
		Rank:       len(l.center), Structure: loss.General,
	}
}

// quadRun is a setting that is ready to release from either data set.
type quadRun struct {
	*quadratic
	*pair
	qop.Params         // of a plan that no fault reached
	sigma2     float64 // σ² of a fit in the context of the case
	cert       dp.Certificate
	trace      erm.Trace
	records    [2][]record // as the fit must use them
}

// prepare plans for both data sets and releases once.
func (c *quadratic) prepare(ctx context.Context, e *Env) (*quadRun, error) {
	r := &quadRun{quadratic: c}
	mech := c.mech
	mech.Trace = func(t erm.Trace) { r.trace = t }
	var problems [2]*erm.Problem
	for i, list := range c.data {
		p, err := problem(list, c.bounds, c.loss, c.kinks)
		if err != nil {
			return nil, err
		}
		problems[i] = p
		problems[i].Records = len(c.data[0])
		for _, rec := range list {
			r.records[i] = append(r.records[i], c.interpolated(rec))
		}
	}
	pair, plan, err := open(&mech, problems, c.budget)
	if err != nil {
		return nil, err
	}
	r.pair, r.Params = pair, plan.Params()
	r.sigma2 = r.Sigma2
	r.cert, err = r.claim(ctx, e, c.budget, c.relation())
	return r, err
}

// turn is that of pair, and releases again after an event of W that the release does
// not depend on: its probability is public, at most 2⁻⁹δ, and paid for. Two in a row
// are no accident.
func (r *quadRun) turn(ctx context.Context, src rand.Source) (int, *dp.Release, error) {
	r.trace = erm.Trace{}
	i, rel, err := r.pair.turn(ctx, src)
	if err == nil && len(r.trace.Theta) == 0 {
		i, rel, err = r.pair.turn(ctx, src)
	}
	return i, rel, err
}

// white recovers the matrix from releases on both data sets in turn.
func (r *quadRun) white(ctx context.Context, e *Env) (Finding, error) {
	// A curvature that is wrong by 5 % moves the mean of the score of W along a
	// release by 0.05·√(m/2). The frame is fixed, so that only the part cos² of it
	// is seen, on the average about (m−d+2)/(m+1): off the frame a release
	// has a t distribution. Nine standard errors of a mean are seen with
	// probability 0.99 at a false alarm of 1e-8; beyond what that needs, a tier
	// takes a twentieth of its releases where V has to be drawn: each gives
	// d(d+1)/2 scores and is as slow as d solutions on the line.
	d := r.dim()
	shift := 0.05 * math.Sqrt(r.mech.M/2) * (r.k() + 1) / (r.mech.M + 1)
	runs := e.Runs(WhiteBox)
	if e.Tier == Quick {
		runs = 0
	} else if d > 1 {
		runs /= 20
	}
	if runs = max(runs, int(81/(shift*shift))); e.runs > 0 {
		runs = e.runs
	}
	aux, frame := e.Source("held"), r.frame()
	f, err := Recover(ctx, e, r.cert, runs, func(ctx context.Context, src rand.Source) ([]float64, error) {
		i, rel, err := r.turn(ctx, src)
		if err != nil {
			return nil, err
		}
		theta := rel.Theta
		if r.kinks.lo > math.Inf(-1) || d > 1 || r.mech.Eta > 0 {
			theta = r.trace.Theta
		} else if r.trace.Theta[0] == 0 {
			theta = r.trace.Theta // at the kink: the output noise hides it
		}
		if len(theta) == 0 { // an event of the noise that has almost no probability
			return impossible(d*(d+1)/2, errImpossible)
		}
		w, err := r.matrix(theta, i, aux)
		if err != nil {
			return impossible(d*(d+1)/2, err)
		}
		z, err := bartlett(w, frame, r.mech.M)
		if err != nil {
			return impossible(d*(d+1)/2, err)
		}
		return z, nil
	})
	f.Power = dptest.MeanPower(runs, shift, dptest.FalseReject/float64(max(1, len(f.Tests)*d*(d+1)/2)))
	return f, err
}

// frame returns an orthogonal matrix whose first column is the direction from
// the anchor in which the releases lie when W is its mean.
func (r *quadRun) frame() *mat.Dense {
	d := r.dim()
	hess := make([]float64, d*d)
	r.slope(r.mech.Center, r.records[0], hess)
	s := make([]float64, d)
	for j, x := range r.mech.Center {
		hess[j*d+j] += r.sigma2 * r.mech.M
		lo, _ := r.kinks.subgradients(x)
		s[j] = -math.Max(lo, -r.kinks.weight)
	}
	return around(solve(hess, s))
}

// around returns the Householder matrix that swaps the first axis with v/‖v‖ up
// to sign: its first column is ±v/‖v‖, the others span the complement.
func around(v []float64) *mat.Dense {
	d := len(v)
	w := append([]float64(nil), v...)
	floats.Scale(1/floats.Norm(v, 2), w)
	w[0] += math.Copysign(1, w[0])
	n := floats.Dot(w, w)
	h := mat.NewDense(d, d, nil)
	for i := range d {
		for j := range d {
			h.Set(i, j, -2*w[i]*w[j]/n)
		}
		h.Set(i, i, h.At(i, i)+1)
	}
	return h
}

// bartlett maps a draw of W_d(m), seen in the frame, to d(d+1)/2 scores: with
// W = TT', T lower triangular, T_ii² ~ χ²_{m−i+1} and T_ij ~ N(0,1) for i > j, all
// independent.
func bartlett(w *mat.SymDense, frame *mat.Dense, m float64) ([]float64, error) {
	d := w.SymmetricDim()
	var turned mat.Dense
	turned.Product(frame.T(), w, frame)
	sym := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			sym.SetSym(i, j, (turned.At(i, j)+turned.At(j, i))/2)
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sym) {
		return nil, errImpossible
	}
	var t mat.TriDense
	chol.LTo(&t)
	var z []float64
	for i := range d {
		for j := range i {
			z = append(z, t.At(i, j))
		}
		x, nu := t.At(i, i)*t.At(i, i), m-float64(i)
		z = append(z, Normal(specfun.Chi2CDF(x, nu), specfun.Chi2SF(x, nu)))
	}
	return z, nil
}

// output recovers the output noise.
func (r *quadRun) output(ctx context.Context, e *Env) (Finding, error) {
	aux := e.Source("cells")
	f, err := Recover(ctx, e, r.cert, e.Rows(r.dim()), func(ctx context.Context, src rand.Source) ([]float64, error) {
		_, rel, err := r.turn(ctx, src)
		if err != nil {
			return nil, err
		}
		return standard(added(rel.Theta, r.trace.Theta, r.Grid, aux), r.OutputSigma, 0), nil
	})
	if hidden := 2*r.Reach + r.Grid*math.Sqrt(float64(r.dim())); err == nil && f.Reason == "" {
		f.Reason = tooSmall(r.Output, hidden, r.OutputSigma, 0)
	}
	return f, err
}

// covered sees W of each release and measures how far from the minimizer that it
// implies the certified point lies.
func (c *quadratic) covered(ctx context.Context, e *Env) (Finding, error) {
	d := c.dim()
	quad := mat.NewSymDense(d, nil)
	ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		quad.CopySym(q.Quad)
		return q
	})
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(r.cert)
	f.Runs = max(100, e.Runs(WhiteBox)/10)
	hess, worst, src := make([]float64, d*d), 0.0, e.Source("cover")
	for range f.Runs {
		i, _, err := r.turn(ctx, src)
		if err != nil {
			return f, err
		}
		var eig mat.EigenSym
		eig.Factorize(quad, false)
		v := mat.NewVecDense(d, floats.SubTo(make([]float64, d), r.trace.Theta, c.mech.Center))
		var qv mat.VecDense
		qv.MulVec(quad, v)
		g := r.slope(r.trace.Theta, r.records[i], hess)
		square := 0.0
		for j, x := range r.trace.Theta {
			lo, hi := c.kinks.subgradients(x)
			x := g[j] + qv.AtVec(j) // 0 ∈ x + [lo, hi]
			x += math.Min(math.Max(-x, lo), hi)
			square += x * x
		}
		worst = math.Max(worst, math.Sqrt(square)/eig.Values(nil)[0])
	}
	if worst > r.Cover*(1+1e-6) {
		f.Reason = fmt.Sprintf("a point was released %.3g from its minimizer, the claim is %.3g", worst, r.Cover)
	}
	return f, nil
}

// searched is the exact layer for random neighboring data.
func (c *quadratic) searched(ctx context.Context, e *Env) (Finding, error) {
	return searched(ctx, e, c.relation(), c.bounds.Row, c.bounds.Label, func(data [2][]record) (Finding, error) {
		random := *c
		random.data = data
		return ready[*quadratic]((*quadRun).exact)(&random, ctx, e)
	})
}
