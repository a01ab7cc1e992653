package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// A spectrum bounds the eigenvalues of the Hessian of one record, of any rank: each is
// at most λμ, and their sum at most kλμ. By docs/theory/renyi.md#lop.renyi/1 the minimizer's
// Rényi divergence of order α = κ+1 < 1 + 1/λ is at most
//
//	αs²/2 + Ψ₋/κ                     s = L/σ, adding and removing
//	αs²/2 + (Ψ₊+Ψ₋)/κ                s = 2L/σ, replacing
//	Ψ = ⌊k⌋ψ(λ) + ψ((k−⌊k⌋)λ)        Ψ₋ in the place of Ψ₊ where αλ² > 1
//
// in which no dimension of the gradients counts.
type spectrum struct {
	lambda  float64 // β/μ, rounded up
	k       float64 // k ≥ 1, rounded up
	replace bool
}

// spectrum returns that of a record at a modulus; nil for one scalar derivative, for which
// there are better bounds. The trace is at most β times the rank, and for the multinomial
// logistic loss (1−1/K)X² = 2(1−1/K)β.
func (k *Calibrator) spectrum(mu float64) *spectrum {
	if k.fixed == 1 || k.p.Calibration != Sharp || k.p.Budget.Delta == 0 {
		return nil
	}
	count := k.rank
	if n := float64(k.p.Classes); n > 0 {
		count = min(count, 2*(1-1/n)*safeC)
	}
	return &spectrum{k.p.Constants.Smoothness / mu * safeC, count, k.p.Relation == dp.Replace}
}

// cost returns what the curvature adds to κD_α; +Inf where α is too large.
func (m *spectrum) cost(kappa float64) float64 {
	whole := math.Floor(m.k)
	sum := func(psi func(c, kappa float64) float64) float64 {
		return whole*psi(math.Log1p(m.lambda), kappa) + psi(math.Log1p((m.k-whole)*m.lambda), kappa)
	}
	minus := sum(psiMinus)
	switch {
	case !m.replace:
		return minus
	case (kappa+1)*m.lambda*m.lambda > 1:
		return 2 * minus
	}
	return minus + sum(psiPlus)
}

// order returns the κ at which f, of log κ, is least among those that λ admits; 0 if there are none.
func (m *spectrum) order(f func(kappa float64) float64) float64 {
	hi := min(math.Log((1-0x1p-20)/m.lambda), math.Log(1e6))
	if !(hi > -3) {
		return 0
	}
	x, _ := num.Minimize(func(x float64) float64 { return f(math.Exp(x)) }, -3, hi-1e-9, 24, 1e-5)
	return math.Exp(x)
}

// at returns log δ(ε) at one κ.
func (m *spectrum) at(eps, s, o, kappa float64) float64 {
	moment, cost := kappa*(kappa+1)*(s*s+o*o)/2, m.cost(kappa)
	odds, last := kappa*math.Log1p(1/kappa), math.Log1p(kappa)
	size := moment + kappa*math.Abs(eps) + cost + odds + last
	return moment - kappa*eps + cost*(1+1e-9) - odds - last + 0x1p-48*size // ψ₋ is right to 3e-13
}

// logDelta returns log of the least bound on δ(ε) that it finds, at every real ε.
func (m *spectrum) logDelta(eps, s, o float64) float64 {
	kappa := m.order(func(kappa float64) float64 { return m.at(eps, s, o, kappa) })
	if v := m.at(eps, s, o, kappa); kappa > 0 && v < 0 {
		return v
	}
	return 0
}

// leastNoise returns u = σ/G for (ε, e^{target}) with output noise o, G = L or 2L: at each κ
//
//	s² = 2(κε + target + log α − κ log(κ/α) − Ψ)/(κα) − o²
//
// and +Inf where none is enough.
func (m *spectrum) leastNoise(eps, target, o float64) float64 {
	square := func(kappa float64) float64 {
		return -2*m.at(eps, 0, o, kappa)/(kappa*(kappa+1)) + 2*target/(kappa*(kappa+1))
	}
	kappa := m.order(func(kappa float64) float64 { return -square(kappa) })
	if v := square(kappa); kappa > 0 && v > 0 {
		return 1 / math.Sqrt(v) * safeScale
	}
	return math.Inf(1)
}

// rdp returns D_α.
func (m *spectrum) rdp(alpha, s float64) float64 {
	kappa := max(alpha-1, 1e-9)
	return (kappa+1)*s*s/2 + m.cost(kappa)/kappa
}

// provesSpectrum proves a claim by one κ.
func (k *Calibrator) provesSpectrum(q claim) bool {
	m := k.spectrum(q.ridge + k.p.Modulus)
	if m == nil {
		return false
	}
	order := m.order(func(kappa float64) float64 { return m.at(q.eps, k.g/q.sigma, q.o, kappa) })
	return order > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		one, kappa := c.Of(1), c.Of(order)
		alpha := c.Add(one, kappa)
		square := c.Add(c.Square(c.Quo(c.Of(k.g), c.Of(q.sigma))), c.Square(c.Of(q.o)))
		exponent := c.Mul(kappa, c.Sub(c.Quo(c.Mul(alpha, square), c.Of(2)), c.Of(q.eps)))
		exponent = c.Add(exponent, c.Sub(c.Mul(kappa, c.Log(c.Quo(kappa, alpha))), c.Log(alpha)))
		lambda, whole := c.Quo(c.Of(k.p.Constants.Smoothness), k.modulus(c, q)), math.Floor(m.k)
		convex := c.Mul(alpha, c.Square(lambda)).Hi.Cmp(one.Lo) <= 0
		for _, part := range []struct{ times, share float64 }{{whole, 1}, {1, m.k - whole}} {
			x := c.Mul(lambda, c.Of(part.share))
			minus := c.Sub(c.Of(0), c.Add(c.Mul(kappa, c.Log1p(x)), c.Log(c.Sub(one, c.Mul(kappa, x)))))
			cost := minus
			switch {
			case m.replace && convex:
				cost = c.Add(cost, c.Sub(c.Mul(alpha, c.Log1p(x)), c.Log1p(c.Mul(alpha, x))))
			case m.replace:
				cost = c.Add(cost, minus)
			}
			exponent = c.Add(exponent, c.Mul(c.Of(part.times), cost))
		}
		return c.Exp(exponent), c.Of(q.delta)
	})
}
