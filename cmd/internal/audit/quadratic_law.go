package audit

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// law1 returns the exact law of u = log|θ−θ̃| for d = 1 on data set i, by the change of variables
//
//	w(θ) = −(F′(θ) + s)/(σ²(θ−θ̃)),   density f_m(w)·(F″(θ) + σ²w)/σ²
//
// of u, f_m that of χ²_m, and the probability that w lies where s may at a kink
// or a face. The release lies on the side of the anchor to which the subgradient
// at the anchor pulls; the logarithm resolves the law near the anchor.
func (r *quadratic) law1(i int) (law, error) {
	center := r.mech.Center[0]
	lo, hi := r.kinks.subgradients(center)
	if lo != hi {
		return law{}, fmt.Errorf("audit: the anchor is at a kink")
	}
	side := -sign(lo) // of θ−θ̃
	if side == 0 {
		return law{}, fmt.Errorf("audit: nothing pulls the release from the anchor")
	}
	hess := make([]float64, 1)
	at := func(x, s float64) (w, curve float64) {
		g := r.slope([]float64{x}, i, hess)
		return -(g[0] + s) / (r.sigma2 * (x - center)), hess[0]
	}
	l := law{logDensity: func(u float64) float64 {
		x := center + side*math.Exp(u)
		if x <= r.kinks.lo || x >= r.kinks.hi {
			return math.Inf(-1)
		}
		s, _ := r.kinks.subgradients(x)
		w, curve := at(x, s)
		if !(w > 0) {
			return math.Inf(-1)
		}
		return num.Chi2LogPDF(w, r.mech.Degrees) + math.Log((curve+r.sigma2*w)/r.sigma2)
	}}
	// |θ−θ̃| ≤ |s|/(σ²w), and w lies within [m·10⁻⁹, m+120√m] but for a negligible part.
	m := r.mech.Degrees
	most := math.Abs(lo) + 1
	l.lo = math.Log(math.Abs(lo)/(r.sigma2*(m+120*math.Sqrt(m))+r.most(i))) - 1
	l.hi = math.Log(most / (r.sigma2 * 1e-6))
	for _, x := range r.kinks.places() {
		if side*(x-center) <= 0 {
			continue
		}
		u := math.Log(math.Abs(x - center))
		lo, hi := r.kinks.subgradients(x)
		a, _ := at(x, lo)
		b, _ := at(x, hi)
		l.at = append(l.at, u)
		l.mass = append(l.mass, math.Abs(num.Chi2CDF(b, m)-num.Chi2CDF(a, m)))
		l.breaks = append(l.breaks, u)
	}
	if h, ok := r.loss.(loss.Huber); ok { // φ″ jumps where |a(θ−θ̃)| = Delta
		for _, rec := range r.records[i] {
			if a := math.Abs(rec.a[0]); a > 0 {
				l.breaks = append(l.breaks, math.Log(h.Delta/a))
			}
		}
	}
	return l, nil
}

// most returns a bound on F″.
func (r *quadratic) most(i int) float64 {
	return float64(len(r.records[i])) * r.loss.Constants(r.bounds, math.Inf(1)).Smoothness
}

// exact integrates the density of the minimizer for d = 1 or 2 under the curvature of the plan. A
// plan has no profile beside its budget, so the minimizer is compared with the part of the budget
// that the objective may spend. If η > 0, the output noise protects the minimizer as well, so the
// release with its output noise is compared with the whole budget.
func (r *quadratic) exact(ctx context.Context, e *Env) (Finding, error) {
	r.sigma2 = fault.At(fault.From(ctx), quadraticParams, r.Params).Sigma2
	cert := r.cert
	if r.mech.Eta == 0 {
		cert.Budget = r.Objective
	}
	stick, tol, err := r.divergence()
	if err != nil {
		return Finding{}, err
	}
	f := Integrate(cert, cert.Budget.Profile().Delta, stick)
	f.Tolerance = tol
	return f, nil
}

// divergence returns the larger hockey-stick divergence of the minimizers on
// the two data sets and its relative accuracy.
func (r *quadratic) divergence() (stick func(eps float64) float64, tol float64, err error) {
	if r.dim() == 2 {
		stick, err = r.plane()
		return stick, planeTolerance, err
	}
	d, err := divergence(r.laws())
	if err != nil {
		return nil, 0, err
	}
	return d.Max, tolerance, nil
}

// laws returns the laws on both data sets for d = 1.
func (r *quadratic) laws() (p, q law, err error) {
	if r.mech.Eta > 0 {
		return r.blurred(0), r.blurred(1), nil
	}
	if p, err = r.law1(0); err == nil {
		q, err = r.law1(1)
	}
	return p, q, err
}

func (r *quadratic) outside(ctx context.Context, e *Env) (Finding, error) {
	return r.black(ctx, e, r.laws, func(x float64) float64 { return math.Log(math.Abs(x - r.mech.Center[0])) })
}

// planeTolerance is the relative error of a divergence in the plane: the
// midpoint rule across the border of the positive part.
const planeTolerance = 2e-3

// plane returns the larger hockey-stick divergence for d = 2, C = ℝ² and
// r = λ‖·‖₁ around an anchor whose quadrant the releases do not leave, so that
// r(θ) = ⟨c,θ⟩ there. With v = θ−θ̃, q = Wv = −(∇F + c)/σ² the density of θ is
//
//	∫ f(q)·w(V)·det(∇²F + σ²W) dV / ‖v‖² over the plane,   W = qq'/(v'q) + VPP',   V ~ χ²_{m−1}
//
// with f(q) = (v'q)^{(m−3)/2} exp(−‖q‖²/(2v'q)) normalized; the determinant is linear
// in V, so the integral is its value at E V = m − 1.
func (r *quadratic) plane() (stick func(eps float64) float64, err error) {
	const rings, rays = 420, 240
	m, s2 := r.mech.Degrees, r.sigma2
	c := make([]float64, 2)
	for j, x := range r.mech.Center {
		c[j], _ = r.kinks.subgradients(x)
	}
	// f(q)dq/‖v‖² = χ²_m(a)·N(b; 0, a) da db, a = v'q/‖v‖², b² = ‖q‖²/‖v‖² − a².
	density := func(i int, x, y float64) float64 {
		hess := make([]float64, 4)
		theta := []float64{r.mech.Center[0] + x, r.mech.Center[1] + y}
		if theta[0]*r.mech.Center[0] <= 0 || theta[1]*r.mech.Center[1] <= 0 {
			return 0 // beyond the quadrant
		}
		g := r.slope(theta, i, hess)
		qx, qy := -(g[0]+c[0])/s2, -(g[1]+c[1])/s2
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
	size := math.Hypot(c[0], c[1])
	lo := math.Log(size/(s2*(m+40*math.Sqrt(m))+r.most(0)+r.most(1))) - 1
	hi := math.Log(math.Hypot(r.mech.Center[0], r.mech.Center[1])) + 0.5
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
		e, one, two := math.Exp(eps), 0.0, 0.0
		for i := range p {
			one += math.Max(0, p[i]-e*q[i])
			two += math.Max(0, q[i]-e*p[i])
		}
		return math.Max(one, two)
	}, nil
}

// blurred returns the law of a release on data set i for d = 1 where the output
// noise is not small, a mixture over w ~ χ²_m:
//
//	p(x) = E φ((x − θ̂(w))/σ̃)/σ̃,   F′(θ̂) + s + σ²w(θ̂−θ̃) = 0
func (r *quadratic) blurred(i int) law {
	const n = 160 // nodes in √w; θ̂ varies by a part of σ̃
	end := math.Sqrt(r.mech.Degrees) + 9
	sigma := r.OutputSigma
	logWeight, point := make([]float64, 0, n), make([]float64, 0, n)
	l := law{lo: math.Inf(1), hi: math.Inf(-1)}
	for k := range n {
		u := end * (float64(k) + 0.5) / n // the midpoint rule, for a function that vanishes with its derivatives at the ends
		logWeight = append(logWeight, math.Log(2*u*end/n)+num.Chi2LogPDF(u*u, r.mech.Degrees)-math.Log(sigma)-math.Log(2*math.Pi)/2)
		x := r.minimizer(i, u*u)
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
func (r *quadratic) minimizer(i int, w float64) float64 {
	center, hess := r.mech.Center[0], make([]float64, 1)
	x, _ := num.Bisect(func(x float64) bool {
		s, _ := r.kinks.subgradients(x)
		return r.slope([]float64{x}, i, hess)[0]+s+r.sigma2*w*(x-center) <= 0
	}, -10, 10)
	return x
}
