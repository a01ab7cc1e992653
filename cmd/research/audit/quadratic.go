// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"errors"
	"fmt"
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

// quadratic is a setting of quadratic perturbation: a mechanism, which states Degrees and Cover,
// and two neighboring data sets.
type quadratic struct {
	convex
	mech qop.Mechanism

	qop.Params         // of a plan without faults
	sigma2     float64 // σ² of a fit in the context of the case
	// With Tilt: the linear term that is added to each risk, c̃ less the sum of its slopes at the
	// anchor, and both sums of slopes, as they are and clipped.
	linear           [2][]float64
	tangent, clipped [2][]float64
}

func (c *quadratic) prepare(ctx context.Context, e *env) error {
	plan, err := ready(ctx, e, &c.convex, c.interpolated, func(trace func(erm.Trace)) planner[*erm.Problem, *qop.Plan] {
		c.mech.Trace = trace
		return &c.mech
	})
	if err != nil {
		return err
	}
	c.Params, c.repeats = plan.Params(), true
	c.sigma2 = c.Sigma2
	if c.Clip > 0 {
		short := c.convex
		short.clip = c.Clip
		for i := range c.tangent {
			c.tangent[i], c.clipped[i] = c.slope(c.mech.Center, i, nil), short.slope(c.mech.Center, i, nil)
		}
	}
	return nil
}

// gradient is slope with the linear term of Tilt.
func (c *quadratic) gradient(theta []float64, i int, hess []float64) []float64 {
	g := c.slope(theta, i, hess)
	if c.linear[i] != nil {
		floats.Add(g, c.linear[i])
	}
	return g
}

// k returns m − d + 1.
func (c *quadratic) k() float64 { return c.mech.Degrees - float64(c.dim()) + 1 }

// interpolated returns the record that the fit must use: forced into bounds and relabelled by the
// rule so that the anchor is optimal, or the zero record if no label within the bounds and the
// tolerance makes it optimal.
func (c *quadratic) interpolated(r record) record {
	r = r.forced(c.bounds)
	tolerance := math.Inf(1)
	switch rule := c.mech.Interpolation.(type) {
	case qop.Trust, qop.Tilt:
		return r
	case qop.Drop:
		tolerance = rule.Tolerance
	}
	u := floats.Dot(r.a, c.mech.Center)
	label := u // for a loss of u − b
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
func (c *quadratic) white(ctx context.Context, e *env) (Finding, error) {
	// A curvature that is wrong by 5 % moves the mean of the score of W along a release by
	// 0.05·√(m/2). The frame is fixed and a release has a t distribution around it, so that a share
	// cos² of that remains, on average (m−d+2)/(m+1). A shift of nine standard errors is seen with
	// probability 0.99 at a false alarm of 1e-8. For d > 1 a release takes longer, and gives more
	// scores.
	d := c.dim()
	shift := 0.05 * math.Sqrt(c.mech.Degrees/2) * (c.k() + 1) / (c.mech.Degrees + 1)
	runs := e.runs(WhiteBox)
	if e.tier == Quick {
		runs = 0
	} else if d > 1 {
		runs /= 20
	}
	if runs = max(runs, int(81/(shift*shift))); e.releases > 0 {
		runs = e.releases
	}
	aux, frame := e.source("held"), c.frame()
	k := d * (d + 1) / 2
	if c.Clip > 0 {
		ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
			c.linear[0] = slices.Clone(q.Linear)
			c.linear[1] = c.linear[0]
			return q
		})
	}
	f, err := c.scores(ctx, e, runs, func(i int, rel *dp.Release) ([]float64, error) {
		theta := rel.Theta
		if c.kinks.lo > math.Inf(-1) || d > 1 || c.mech.Eta > 0 || c.Clip > 0 || slices.Equal(c.trace.Theta, []float64{0}) {
			theta = c.trace.Theta // output noise hides the kink 0
		}
		z, err := c.explained(theta, i, frame, aux)
		if errors.Is(err, errImpossible) { // NaN, which no test accepts
			z, err = make([]float64, k), nil
			floats.AddConst(math.NaN(), z)
		}
		if c.Clip > 0 { // the noise of c̃
			noise := floats.SubTo(make([]float64, d), floats.AddTo(make([]float64, d), c.linear[i], c.tangent[i]), c.clipped[i])
			floats.Scale(1/c.SlopeSigma, noise)
			z = append(z, noise...)
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

// frame returns an orthogonal matrix whose first column is the direction from the anchor to the
// release for W = E W.
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

// around returns a Householder matrix whose first column is ±v/‖v‖. The others span the complement.
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
		z = append(z, normalScore(num.Chi2CDF(x, nu), num.Chi2SF(x, nu)))
	}
	return z, nil
}

// output recovers the output noise.
func (c *quadratic) output(ctx context.Context, e *env) (Finding, error) {
	f, err := c.added(ctx, e, c.Grid, c.OutputSigma, 0)
	f.Reason = tooSmall(c.Output, 2*c.Reach+c.Grid*math.Sqrt(float64(c.dim())), c.OutputSigma, 0)
	return f, err
}

// covered tests the cover radius with the matrix of each release.
func (c *quadratic) covered(ctx context.Context, e *env) (Finding, error) {
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

// law1 returns the exact law of u = log|θ−θ̃| for d = 1 on data set i, by the change of variables
//
//	w(θ) = −(F′(θ) + s)/(σ²(θ−θ̃)),   density f_m(w)·(F″(θ) + σ²w)/σ²
//
// of u, where f_m is the density of χ²_m. A kink or a face has the probability of the values of w
// for its subgradients. The subgradient at the anchor decides the side of the release; the
// logarithm resolves the law near the anchor.
func (c *quadratic) law1(i int) (law, error) {
	center := c.mech.Center[0]
	lo, hi := c.kinks.subgradients(center)
	if lo != hi {
		return law{}, fmt.Errorf("audit: the anchor is at a kink")
	}
	if c.linear[i] != nil {
		lo += c.gradient(c.mech.Center, i, nil)[0]
	}
	side := -sign(lo) // of θ−θ̃
	if side == 0 {
		return law{}, fmt.Errorf("audit: nothing pulls the release from the anchor")
	}
	hess := make([]float64, 1)
	at := func(x, s float64) (w, curve float64) {
		g := c.gradient([]float64{x}, i, hess)
		return -(g[0] + s) / (c.sigma2 * (x - center)), hess[0]
	}
	l := law{logDensity: func(u float64) float64 {
		x := center + side*math.Exp(u)
		if x <= c.kinks.lo || x >= c.kinks.hi {
			return math.Inf(-1)
		}
		s, _ := c.kinks.subgradients(x)
		w, curve := at(x, s)
		if !(w > 0) {
			return math.Inf(-1)
		}
		return num.Chi2LogPDF(w, c.mech.Degrees) + math.Log((curve+c.sigma2*w)/c.sigma2)
	}}
	// |θ−θ̃| ≤ |s|/(σ²w); w leaves [10⁻⁶, m+120√m] with negligible probability.
	m := c.mech.Degrees
	most := math.Abs(lo) + 1
	l.lo = math.Log(math.Abs(lo)/(c.sigma2*(m+120*math.Sqrt(m))+c.most(i))) - 1
	l.hi = math.Log(most / (c.sigma2 * 1e-6))
	for _, x := range c.kinks.places() {
		if side*(x-center) <= 0 {
			continue
		}
		u := math.Log(math.Abs(x - center))
		lo, hi := c.kinks.subgradients(x)
		a, _ := at(x, lo)
		b, _ := at(x, hi)
		l.at = append(l.at, u)
		l.mass = append(l.mass, math.Abs(num.Chi2CDF(b, m)-num.Chi2CDF(a, m)))
		l.breaks = append(l.breaks, u)
	}
	if h, ok := c.loss.(loss.Huber); ok { // φ″ jumps where |a(θ−θ̃)| = Delta
		for _, rec := range c.records[i] {
			if a := math.Abs(rec.a[0]); a > 0 {
				l.breaks = append(l.breaks, math.Log(h.Delta/a))
			}
		}
	}
	return l, nil
}

// most returns a bound on F″.
func (c *quadratic) most(i int) float64 {
	return float64(len(c.records[i])) * c.loss.Constants(c.bounds, math.Inf(1)).Smoothness
}

// exact integrates the density of the minimizer for d = 1 or 2 and compares it with the share of
// the budget for the objective. If η > 0, the output noise protects the minimizer as well, and the
// release is compared with the whole budget.
func (c *quadratic) exact(ctx context.Context, e *env) (Finding, error) {
	used := fault.At(fault.From(ctx), quadraticParams, c.Params)
	c.sigma2, c.SlopeSigma = used.Sigma2, used.SlopeSigma
	cert := c.cert
	if c.mech.Eta == 0 {
		cert.Budget = c.Objective
	}
	stick, tol, err := c.divergence()
	if err != nil {
		return Finding{}, err
	}
	f := integrate(cert, cert.Budget.Profile().Delta, stick)
	f.Tolerance = tol
	return f, nil
}

// divergence returns the larger hockey-stick divergence of the minimizers on
// the two data sets and its relative accuracy.
func (c *quadratic) divergence() (stick func(eps float64) float64, tol float64, err error) {
	if c.Clip > 0 {
		stick, err = c.together()
		return stick, planeTolerance, err
	}
	if c.dim() == 2 {
		stick, err = c.plane()
		return stick, planeTolerance, err
	}
	p, q, err := c.laws()
	d, err := known(p, q, err)
	if err != nil {
		return nil, 0, err
	}
	return d.max, tolerance, nil
}

// together returns the larger hockey-stick divergence of c̃ and the minimizer for d = 1:
//
//	H_ε = ∫ p(c) H_{ε−l(c)}(θ | c) dc,   l = log p − log q
//
// with the laws p, q of c̃, normal around the sums of clipped slopes.
func (c *quadratic) together() (stick func(eps float64) float64, err error) {
	const panels, reach = 3, 6.5
	type given struct {
		weight, one, two float64 // of the node; log p, log q
		*divergence
	}
	var list []given
	tau := c.SlopeSigma
	at, w := num.GaussLegendre(nodes)
	lo := math.Min(c.clipped[0][0], c.clipped[1][0]) - reach*tau
	width := (math.Max(c.clipped[0][0], c.clipped[1][0]) + reach*tau - lo) / panels
	for k := range panels {
		for j, u := range at {
			x := lo + width*(float64(k)+(1+u)/2)
			g := given{weight: w[j] * width / 2}
			for i, log := range []*float64{&g.one, &g.two} {
				c.linear[i] = []float64{x - c.tangent[i][0]}
				z := (x - c.clipped[i][0]) / tau
				*log = -z*z/2 - math.Log(tau*math.Sqrt(2*math.Pi))
			}
			p, q, err := c.laws()
			if g.divergence, err = known(p, q, err); err != nil {
				return nil, err
			}
			list = append(list, g)
		}
	}
	return func(eps float64) float64 {
		one, two := 0.0, 0.0
		for _, g := range list {
			l := g.one - g.two
			one += g.weight * math.Exp(g.one) * g.at(eps-l)
			two += g.weight * math.Exp(g.two) * g.reverse(eps+l)
		}
		return math.Max(one, two)
	}, nil
}

// laws returns the laws on both data sets for d = 1.
func (c *quadratic) laws() (p, q law, err error) {
	if c.mech.Eta > 0 {
		return c.blurred(0), c.blurred(1), nil
	}
	if p, err = c.law1(0); err == nil {
		q, err = c.law1(1)
	}
	return p, q, err
}

func (c *quadratic) outside(ctx context.Context, e *env) (Finding, error) {
	return c.black(ctx, e, c.laws, func(x float64) float64 { return math.Log(math.Abs(x - c.mech.Center[0])) })
}

// planeTolerance is the relative error of a divergence in the plane: that of the midpoint rule at
// the border of the positive part.
const planeTolerance = 2e-3

// plane returns the larger hockey-stick divergence for d = 2, C = ℝ² and r = λ‖·‖₁. The releases
// stay in the quadrant of the anchor, where r(θ) = ⟨c,θ⟩. With v = θ−θ̃, q = Wv = −(∇F + c)/σ² the
// density of θ is
//
//	∫ f(q)·w(V)·det(∇²F + σ²W) dV / ‖v‖² over the plane,   W = qq'/(v'q) + VPP',   V ~ χ²_{m−1}
//
// with f(q) = (v'q)^{(m−3)/2} exp(−‖q‖²/(2v'q)) normalized. The determinant is linear in V, so that
// the integral is its value at E V = m − 1.
func (c *quadratic) plane() (stick func(eps float64) float64, err error) {
	const rings, rays = 420, 240
	m, s2 := c.mech.Degrees, c.sigma2
	k := make([]float64, 2)
	for j, x := range c.mech.Center {
		k[j], _ = c.kinks.subgradients(x)
	}
	// f(q)dq/‖v‖² = χ²_m(a)·N(b; 0, a) da db, a = v'q/‖v‖², b² = ‖q‖²/‖v‖² − a².
	density := func(i int, x, y float64) float64 {
		hess := make([]float64, 4)
		theta := []float64{c.mech.Center[0] + x, c.mech.Center[1] + y}
		if theta[0]*c.mech.Center[0] <= 0 || theta[1]*c.mech.Center[1] <= 0 {
			return 0 // beyond the quadrant
		}
		g := c.slope(theta, i, hess)
		qx, qy := -(g[0]+k[0])/s2, -(g[1]+k[1])/s2
		vv := x*x + y*y
		a := (x*qx + y*qy) / vv
		if !(a > 0) {
			return 0
		}
		b2 := math.Max((qx*qx+qy*qy)/vv-a*a, 0)
		log := num.Chi2LogPDF(a, m) - b2/(2*a) - math.Log(2*math.Pi*a)/2
		// det(∇²F + σ²W) with V = m−1 along p = (−y, x)/‖v‖
		v := s2 * (m - 1) / vv
		vq := x*qx + y*qy
		xx := hess[0] + s2*qx*qx/vq + v*y*y
		xy := hess[1] + s2*qx*qy/vq - v*x*y
		yy := hess[3] + s2*qy*qy/vq + v*x*x
		return math.Exp(log) * (xx*yy - xy*xy) / (s2 * s2 * vv)
	}
	size := math.Hypot(k[0], k[1])
	lo := math.Log(size/(s2*(m+40*math.Sqrt(m))+c.most(0)+c.most(1))) - 1
	hi := math.Log(math.Hypot(c.mech.Center[0], c.mech.Center[1])) + 0.5
	h := (hi - lo) / rings
	p, q := make([]float64, 0, rings*rays), make([]float64, 0, rings*rays)
	for i := range rings {
		rad := math.Exp(lo + (float64(i)+0.5)*h)
		for j := range rays {
			sin, cos := math.Sincos((float64(j) + 0.5) * 2 * math.Pi / rays)
			area := rad * rad * h * 2 * math.Pi / rays
			p = append(p, area*density(0, rad*cos, rad*sin))
			q = append(q, area*density(1, rad*cos, rad*sin))
		}
	}
	for _, mass := range []float64{floats.Sum(p), floats.Sum(q)} {
		if !(math.Abs(mass-1) < planeTolerance) {
			return nil, fmt.Errorf("audit: the law of the release has mass %v in the plane, want 1", mass)
		}
	}
	return func(eps float64) float64 {
		e, one := math.Exp(eps), 0.0
		two := 0.0
		for i := range p {
			one += math.Max(0, p[i]-e*q[i])
			two += math.Max(0, q[i]-e*p[i])
		}
		return math.Max(one, two)
	}, nil
}

// blurred returns the law of a release with its output noise on data set i for d = 1, a mixture
// over w ~ χ²_m:
//
//	p(x) = E φ((x − θ̂(w))/σ̃)/σ̃,   F′(θ̂) + s + σ²w(θ̂−θ̃) = 0
func (c *quadratic) blurred(i int) law {
	const n = 160 // nodes in √w; θ̂ varies by a part of σ̃
	end := math.Sqrt(c.mech.Degrees) + 9
	sigma := c.OutputSigma
	logWeight, point := make([]float64, 0, n), make([]float64, 0, n)
	l := law{lo: math.Inf(1), hi: math.Inf(-1)}
	for k := range n {
		u := end * (float64(k) + 0.5) / n // the midpoint rule: the integrand vanishes smoothly at both ends
		logWeight = append(logWeight, math.Log(2*u*end/n)+num.Chi2LogPDF(u*u, c.mech.Degrees)-
			math.Log(sigma)-math.Log(2*math.Pi)/2)
		x := c.minimizer(i, u*u)
		point = append(point, x)
		l.lo, l.hi = math.Min(l.lo, x-9*sigma), math.Max(l.hi, x+9*sigma)
	}
	terms := make([]float64, n)
	l.logDensity = func(x float64) float64 {
		for k, p := range point {
			z := (x - p) / sigma
			terms[k] = logWeight[k] - z*z/2
		}
		return floats.LogSumExp(terms)
	}
	return l
}

// minimizer returns θ̂(w) for d = 1 by bisection of the subdifferential.
func (c *quadratic) minimizer(i int, w float64) float64 {
	center, hess := c.mech.Center[0], make([]float64, 1)
	x, _ := num.Bisect(func(x float64) bool {
		s, _ := c.kinks.subgradients(x)
		return c.slope([]float64{x}, i, hess)[0]+s+c.sigma2*w*(x-center) <= 0
	}, -10, 10)
	return x
}
