package lasso

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/specfun"
)

// Formula holds the arguments of the published constants of quadratic
// objective perturbation [CC26, main theorem]. They are kept to rerun and
// audit the paper; qop calibrates.
type Formula struct {
	D    int     // d ≥ 1
	M    float64 // degrees of freedom m > d−1
	Rho  float64 // ρ ≥ 0
	L    float64 // > 0
	Eps1 float64 // ε₁ > 0
	// δ₁, δ₃ in (0, 1): the privacy of the exact minimizer and the
	// probability of a smallest eigenvalue below α.
	Delta1, Delta3 float64

	// The inexact release, σ~: τ bounds the gap of the solver, η the error of
	// the anchor. With Tau = 0 the other four are not looked at, except that
	// Delta4 > 0 makes β defined.
	Tau, Eta, Eps2, Delta2, Delta4 float64
}

// Constants are the published constants at some Formula, and what they become
// when the argument of the incomplete gamma function is repaired.
type Constants struct {
	LogD  float64 // ln D, D the constant of the eigenvalue bound
	Alpha float64 // α: λ_min(W) ≥ α with probability 1 − δ₃
	F2    float64 // f₂ = k/α + 1
	Beta  float64 // β: λ_max(W) ≤ β with probability 1 − δ₄; 0 without δ₄

	Published, Repaired struct {
		// Alpha1 is α₁, +Inf where the equation has no solution.
		Alpha1 float64
		// Sigma2 is σ². Where no α₁ exists its second term is dropped, as the
		// published program does.
		Sigma2 float64
		// SigmaTilde is σ~, 0 if τ = 0, even with η > 0 [as published].
		SigmaTilde float64
	}
}

// Constants evaluates
//
//	ln D = ln d + lnΓ(3/2) + lnΓ((m+1)/2) − lnΓ(d/2+1) − lnΓ(k/2) − lnΓ((k+1)/2)
//	p₃ = δ₃/(D Γ(k/2)),   p₁ = δ₁(1−δ₃)/(D Γ(k/2))
//	α:  P(k/2, α/2) = p₃
//	α₁: P(k/2, α+α₁) = P(k/2, α) + p₁            as published, where α/2 is meant
//	α₁: P(k/2, (α+α₁)/2) = P(k/2, α/2) + p₁      repaired
//	f₂ = k/α + 1
//	σ² = max{(2L/ε₁)(f₂ + 2(2ρ+2)/α), 2L/α₁}
//	β  = (√(2 ln(2/(δ₄(1−δ₃)))) + √m + √d)²
//	σ~ = (√(2τ/(ασ²)) + βη/α)·(2/ε₂)·√(2 ln(1.25/δ₂)),   0 if τ = 0
//
// in logarithms and without the difference of two values of P: α₁ is accurate
// to 10⁻¹⁰ even where it is 10⁻¹⁴ of α. The error wraps ErrParameter.
func (f Formula) Constants() (Constants, error) {
	if err := f.check(); err != nil {
		return Constants{}, err
	}
	var c Constants
	d, m := float64(f.D), f.M
	k := m - d + 1
	a := k / 2
	c.LogD = math.Log(d) + lgamma(1.5) + lgamma((m+1)/2) - lgamma(d/2+1) - lgamma(a) - lgamma(a+0.5)
	logScale := c.LogD + lgamma(a) // ln(D Γ(k/2)) ≥ 0, so that p₃ ≤ δ₃
	logP3 := math.Log(f.Delta3) - logScale
	logP1 := math.Log(f.Delta1) + math.Log1p(-f.Delta3) - logScale
	half := specfun.GammaInvLogP(a, logP3)
	c.Alpha = 2 * half
	c.F2 = k/c.Alpha + 1
	if f.Delta4 > 0 {
		root := math.Sqrt(2*math.Log(2/(f.Delta4*(1-f.Delta3)))) + math.Sqrt(m) + math.Sqrt(d)
		c.Beta = root * root
	}

	c.Published.Alpha1 = increment(a, c.Alpha, logP1)
	c.Repaired.Alpha1 = 2 * increment(a, half, logP1)
	density := 2 * f.L / f.Eps1 * (c.F2 + 2*(2*f.Rho+2)/c.Alpha)
	c.Published.Sigma2 = max(density, 2*f.L/c.Published.Alpha1)
	c.Repaired.Sigma2 = max(density, 2*f.L/c.Repaired.Alpha1)
	if f.Tau > 0 {
		gauss := 2 / f.Eps2 * math.Sqrt(2*math.Log(1.25/f.Delta2))
		tilde := func(sigma2 float64) float64 {
			return (math.Sqrt(2*f.Tau/(c.Alpha*sigma2)) + c.Beta*f.Eta/c.Alpha) * gauss
		}
		c.Published.SigmaTilde = tilde(c.Published.Sigma2)
		c.Repaired.SigmaTilde = tilde(c.Repaired.Sigma2)
	}
	for _, v := range []float64{c.Alpha, c.F2, c.Beta, c.Published.Sigma2, c.Published.SigmaTilde, c.Repaired.Sigma2, c.Repaired.SigmaTilde} {
		if math.IsNaN(v) {
			return Constants{}, fmt.Errorf("%w: the constants leave the range of float64 for %+v: rescale the problem", ErrParameter, f)
		}
	}
	return c, nil
}

// mostDegrees is the largest m: beyond it lnΓ loses its digits.
const mostDegrees = 1e8

func (f Formula) check() error {
	probability := func(name string, p float64) error {
		if !(p > 0 && p < 1) {
			return fmt.Errorf("%w: %s = %v, want a number in (0, 1)", ErrParameter, name, p)
		}
		return nil
	}
	positive := func(name string, v float64) error {
		if !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%w: %s = %v, want a positive finite number", ErrParameter, name, v)
		}
		return nil
	}
	switch {
	case f.D < 1:
		return fmt.Errorf("%w: D = %d, want at least 1", ErrParameter, f.D)
	case !(f.M > float64(f.D)-1 && f.M <= mostDegrees):
		return fmt.Errorf("%w: M = %v, want a number above d − 1 = %d and at most %g", ErrParameter, f.M, f.D-1, float64(mostDegrees))
	case !(f.Rho >= 0) || math.IsInf(f.Rho, 1):
		return fmt.Errorf("%w: Rho = %v, want a finite number ≥ 0", ErrParameter, f.Rho)
	case !(f.Tau >= 0) || math.IsInf(f.Tau, 1):
		return fmt.Errorf("%w: Tau = %v, want a finite number ≥ 0", ErrParameter, f.Tau)
	case !(f.Eta >= 0) || math.IsInf(f.Eta, 1):
		return fmt.Errorf("%w: Eta = %v, want a finite number ≥ 0", ErrParameter, f.Eta)
	}
	errs := []error{positive("L", f.L), positive("Eps1", f.Eps1), probability("Delta1", f.Delta1), probability("Delta3", f.Delta3)}
	if f.Tau > 0 {
		errs = append(errs, positive("Eps2", f.Eps2), probability("Delta2", f.Delta2))
		if f.Eta > 0 {
			errs = append(errs, probability("Delta4", f.Delta4))
		}
	}
	if f.Delta4 != 0 {
		errs = append(errs, probability("Delta4", f.Delta4))
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// increment returns the h > 0 with P(a, x+h) − P(a, x) = p, p given by its
// logarithm, and +Inf if P(a, x) + p ≥ 1.
//
// With t = x eᵘ the left side is (1/Γ(a)) ∫₀ˢ exp(a(ln x + u) − x eᵘ) du and
// h = x(eˢ−1): no difference of nearly equal numbers.
func increment(a, x, logP float64) float64 {
	if logP >= specfun.GammaLogQ(a, x) {
		return math.Inf(1)
	}
	lx, lg := math.Log(x), lgamma(a)
	mass := func(s float64) float64 { // logarithm of the left side
		return logIntegral(func(u float64) float64 { return a*(lx+u) - x*math.Exp(u) - lg }, s, math.Sqrt(max(a, x*math.Exp(s))))
	}
	hi := math.Log1p((a + 1) / x)
	for mass(hi) < logP && hi < 800 {
		hi *= 1.5
	}
	lo := hi
	for mass(lo) >= logP && lo > 1e-300 {
		lo *= 1e-3
	}
	s, _ := specfun.Bisect(func(s float64) bool { return mass(s) < logP }, lo, hi)
	return x * math.Expm1(s)
}

// logIntegral returns ln ∫₀ˢ exp(f(u)) du by Gauss–Legendre panels, f smooth
// on the scale 1/rate.
func logIntegral(f func(u float64) float64, s, rate float64) float64 {
	x, w := specfun.GaussLegendre(20)
	panels := int(min(math.Ceil(s*rate), 2000)) + 1
	width := s / float64(panels)
	values := make([]float64, 0, panels*len(x))
	for p := range panels {
		mid := (float64(p) + 0.5) * width
		for i := range x {
			values = append(values, f(mid+x[i]*width/2)+math.Log(w[i]*width/2))
		}
	}
	top := math.Inf(-1)
	for _, v := range values {
		top = max(top, v)
	}
	if math.IsInf(top, -1) {
		return top
	}
	sum := 0.0
	for _, v := range values {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
