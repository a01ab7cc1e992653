package audit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// quadratic is a setting of quadratic perturbation: a mechanism, whose M and
// Cover are stated, and two neighboring data sets.
type quadratic struct {
	convex
	mech qop.Mechanism

	qop.Params         // of a plan that no fault reached
	sigma2     float64 // σ² of a fit in the context of the case
}

func (c *quadratic) prepare(ctx context.Context, e *Env) error {
	plan, err := ready(ctx, e, &c.convex, func(trace func(erm.Trace)) planner[*erm.Problem, *qop.Plan] {
		c.mech.Trace = trace
		return &c.mech
	}, c.interpolated)
	if err != nil {
		return err
	}
	c.Params, c.repeats = plan.Params(), true
	c.sigma2 = c.Sigma2
	return nil
}

// k returns m − d + 1.
func (c *quadratic) k() float64 { return c.mech.Degrees - float64(c.dim()) + 1 }

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

// round is the loss (‖a‖²/2)‖θ − center‖² of full rank, the same in all directions.
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

// white recovers the matrix from releases on both data sets in turn.
func (c *quadratic) white(ctx context.Context, e *Env) (Finding, error) {
	// A curvature that is wrong by 5 % moves the mean of the score of W along a release by
	// 0.05·√(m/2). The frame is fixed, so that only the part cos² of it is seen, on the average about
	// (m−d+2)/(m+1): off the frame a release has a t distribution. Nine standard errors of a mean are
	// seen with probability 0.99 at a false alarm of 1e-8; beyond what that needs, a tier takes a
	// twentieth of its releases where V has to be drawn: each gives d(d+1)/2 scores and is as slow as
	// d solutions on the line.
	d := c.dim()
	shift := 0.05 * math.Sqrt(c.mech.Degrees/2) * (c.k() + 1) / (c.mech.Degrees + 1)
	runs := e.Runs(WhiteBox)
	if e.Tier == Quick {
		runs = 0
	} else if d > 1 {
		runs /= 20
	}
	if runs = max(runs, int(81/(shift*shift))); e.runs > 0 {
		runs = e.runs
	}
	aux, frame, k := e.Source("held"), c.frame(), d*(d+1)/2
	f, err := c.scores(ctx, e, runs, func(i int, rel *dp.Release) ([]float64, error) {
		theta := rel.Theta
		if c.kinks.lo > math.Inf(-1) || d > 1 || c.mech.Eta > 0 || slices.Equal(c.trace.Theta, []float64{0}) {
			theta = c.trace.Theta // at the kink 0 the output noise hides it
		}
		z, err := c.explained(theta, i, frame, aux)
		if errors.Is(err, errImpossible) { // no test accepts this
			z, err = make([]float64, k), nil
			floats.AddConst(math.NaN(), z)
		}
		return z, err
	})
	f.Power = meanPower(runs, shift, testkit.FalseReject/float64(max(1, len(f.Tests)*k)))
	return f, err
}

// explained returns the scores of the matrix that has its minimizer at theta on data set i.
func (c *quadratic) explained(theta []float64, i int, frame *mat.Dense, src rand.Source) ([]float64, error) {
	w, err := c.matrix(theta, i, src)
	if err != nil {
		return nil, err
	}
	return bartlett(w, frame, c.mech.Degrees)
}

// frame returns an orthogonal matrix whose first column is the direction from
// the anchor in which the releases lie when W is its mean.
func (c *quadratic) frame() *mat.Dense {
	d := c.dim()
	hess := make([]float64, d*d)
	c.slope(c.mech.Center, 0, hess)
	s := mat.NewVecDense(d, nil)
	for j, x := range c.mech.Center {
		hess[j*d+j] += c.sigma2 * c.mech.Degrees
		lo, _ := c.kinks.subgradients(x)
		s.SetVec(j, -math.Max(lo, -c.kinks.weight))
	}
	var x mat.VecDense
	if err := x.SolveVec(mat.NewDense(d, d, hess), s); err != nil {
		panic(err) // ∇²F + σ²mI is positive definite
	}
	return around(x.RawVector().Data)
}

// around returns the Householder matrix that swaps the first axis with v/‖v‖ up
// to sign: its first column is ±v/‖v‖, the others span the complement.
func around(v []float64) *mat.Dense {
	w := mat.NewVecDense(len(v), slices.Clone(v))
	w.ScaleVec(1/mat.Norm(w, 2), w)
	w.SetVec(0, w.AtVec(0)+math.Copysign(1, v[0]))
	var h mat.Dense
	h.Outer(-2/mat.Dot(w, w), w, w)
	for i := range v {
		h.Set(i, i, h.At(i, i)+1)
	}
	return &h
}

// bartlett maps a draw of W_d(m), seen in the frame, to d(d+1)/2 scores: with W = TT', T lower
// triangular, T_ii² ~ χ²_{m−i+1} and T_ij ~ N(0,1) for i > j, all independent.
func bartlett(w *mat.SymDense, frame *mat.Dense, m float64) ([]float64, error) {
	d := w.SymmetricDim()
	var turned mat.Dense
	turned.Product(frame.T(), w, frame)
	var chol mat.Cholesky
	if !chol.Factorize(mat.NewSymDense(d, turned.RawMatrix().Data)) {
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
		z = append(z, Normal(num.Chi2CDF(x, nu), num.Chi2SF(x, nu)))
	}
	return z, nil
}

// output recovers the output noise.
func (c *quadratic) output(ctx context.Context, e *Env) (Finding, error) {
	f, err := c.added(ctx, e, c.Grid, c.OutputSigma, 0)
	f.Reason = tooSmall(c.Output, 2*c.Reach+c.Grid*math.Sqrt(float64(c.dim())), c.OutputSigma, 0)
	return f, err
}

// covered sees W of each release, for the minimizer that it implies.
func (c *quadratic) covered(ctx context.Context, e *Env) (Finding, error) {
	d := c.dim()
	quad := mat.NewSymDense(d, nil)
	ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		quad.CopySym(q.Quad)
		return q
	})
	return c.within(ctx, e, c.Cover, func(theta []float64) ([]float64, float64) {
		var eig mat.EigenSym
		eig.Factorize(quad, false)
		v := mat.NewVecDense(d, floats.SubTo(make([]float64, d), theta, c.mech.Center))
		v.MulVec(quad, v)
		return v.RawVector().Data, eig.Values(nil)[0]
	})
}

// on returns the setting on other data.
func (c *quadratic) on(data [2][]record) exactly {
	other := *c
	other.data = data
	return &other
}
