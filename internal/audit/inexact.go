package audit

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// off is a setting whose anchor lies η from the point at which the records
// interpolate.
func off(m qop.Mechanism) *quadratic {
	m.Interpolation, m.Eta, m.Share = qop.Trust{}, 0.03, 0.3
	c := squares(m, claimLSQ)
	c.mech.Center[0] += c.mech.Eta
	return c
}

// parts are how a setting spends its budget.
type parts struct {
	objective, output dp.Budget
	reach             float64 // R, which the output noise hides
}

// parts returns the split by the share of the output noise, or with η > 0 what
// the plan chose, every choice being valid that adds up to no more than the
// budget. R is computed here for it, for d = 1:
//
//	R = R_s + η√(b/α)
//	α = max{ F⁻¹(low) − t, F⁻¹(low/(1+e^{ε₁})) }                  F of χ²_m
//	b = min{ F̄⁻¹(high) + t, F̄⁻¹(high/(1+e^{ε₁})) }                F̄ = 1 − F
func (c *quadratic) parts(p *erm.Problem) (s parts, err error) {
	if c.mech.Eta == 0 {
		s.objective, s.output = split(c.budget, c.share())
		s.reach = c.mech.Cover
		return s, nil
	}
	mech := c.mech
	plan, err := mech.Plan(p, c.budget)
	if err != nil {
		return s, err
	}
	s.objective, s.output = plan.Objective, plan.Output
	low, high := plan.Low, plan.High
	eps, delta := s.objective.Epsilon+s.output.Epsilon, s.objective.Delta+s.output.Delta+low+high
	if !(eps <= c.budget.Epsilon && delta <= c.budget.Delta && math.Min(low, high) > 0) {
		return s, fmt.Errorf("audit: the parts of the budget come to ε = %v and δ = %v of %v", eps, delta, c.budget)
	}
	t, twice := c.claim(c, s.objective), math.Log1p(math.Exp(s.objective.Epsilon))
	m := c.mech.M
	alpha := math.Max(specfun.Chi2Quantile(math.Log(low), m)-t, specfun.Chi2Quantile(math.Log(low)-twice, m))
	b := math.Min(specfun.Chi2UpperQuantile(math.Log(high), m)+t, specfun.Chi2UpperQuantile(math.Log(high)-twice, m))
	s.reach = c.mech.Cover + c.mech.Eta*math.Sqrt(b/alpha)
	return s, nil
}

// blurred returns the law of a release on data set i for d = 1 where the output
// noise is not small, a mixture over w ~ χ²_m:
//
//	p(x) = E φ((x − θ̂(w))/σ̃)/σ̃,   F′(θ̂) + s + σ²w(θ̂−θ̃) = 0
func (r *quadRun) blurred(i int) law {
	const n = 160 // nodes in √w; θ̂ varies by a part of σ̃
	end := math.Sqrt(r.mech.M) + 9
	sigma := gaussianScale(r.budgets.output, 2*r.budgets.reach)
	logWeight, point := make([]float64, 0, n), make([]float64, 0, n)
	l := law{lo: math.Inf(1), hi: math.Inf(-1)}
	for k := range n {
		u := end * (float64(k) + 0.5) / n // the midpoint rule, for a function that vanishes with its derivatives at the ends
		logWeight = append(logWeight, math.Log(2*u*end/n)+specfun.Chi2LogPDF(u*u, r.mech.M)-math.Log(sigma)-math.Log(2*math.Pi)/2)
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
		return logSum(terms)
	}
	return l
}

// logSum returns log Σ e^x.
func logSum(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// minimizer returns θ̂(w) for d = 1 by bisection of the subdifferential.
func (r *quadRun) minimizer(i int, w float64) float64 {
	center, hess := r.mech.Center[0], make([]float64, 1)
	lo, hi := -10.0, 10.0
	for range 60 {
		x := (lo + hi) / 2
		s, _ := r.kinks.subgradients(x)
		if r.slope([]float64{x}, r.records[i], hess)[0]+s+r.sigma2*w*(x-center) > 0 {
			hi = x
		} else {
			lo = x
		}
	}
	return (lo + hi) / 2
}

// rank returns ρ of the loss.
func (c *quadratic) rank() float64 {
	if _, ok := c.loss.(loss.Linear); ok {
		return 1
	}
	return float64(c.dim())
}

// claimGeneral is a Hessian of rank ρ, for d = 2: the privacy loss
//
//	l(x) = ρ·log(1+t/x) − (k/2)·log(1−t/x),   +∞ for x ≤ t,   of x = λ_min(W)
//
// whose density in the plane is, from that of both eigenvalues,
//
//	f(x) ∝ x^{(m−3)/2} e^{−x/2} ∫_x^∞ (y−x) y^{(m−3)/2} e^{−y/2} dy
//	     ∝ x^{(m−3)/2} e^{−x/2} ( (m−1)F̄_{m+1}(x) − xF̄_{m−1}(x) ),   F̄_ν that of χ²_ν
func claimGeneral(c *quadratic, b dp.Budget) float64 {
	m, k, rho := c.mech.M, c.k(), c.rank()
	end := math.Sqrt(m) + 9
	integral := func(from, to float64, h func(x float64) float64) float64 {
		return simpson(math.Sqrt(from), math.Sqrt(to), 400, func(u float64) float64 {
			x := u * u
			if x == 0 {
				return 0
			}
			f := math.Exp((m-3)/2*math.Log(x)-x/2) * ((m-1)*specfun.Chi2SF(x, m+1) - x*specfun.Chi2SF(x, m-1))
			return 2 * u * f * h(x)
		})
	}
	one := func(float64) float64 { return 1 }
	total := integral(0, end*end, one)
	return largestUnder(b.Delta, func(t float64) float64 {
		l := func(x float64) float64 { return rho*math.Log1p(t/x) - k/2*math.Log1p(-t/x) }
		top := crossing(l, b.Epsilon, t, 1e6)
		sum := integral(0, t, one) + integral(t, math.Min(top, end*end), func(x float64) float64 {
			if x <= t {
				return 1
			}
			return -math.Expm1(math.Min(0, b.Epsilon-l(x)))
		})
		return sum / total
	})
}
