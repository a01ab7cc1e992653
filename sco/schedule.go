package sco

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// A schedule is noisy SGD up to its step size: T steps over batches of m
// expected records with noise σ per coordinate of the mean gradient.
type schedule struct {
	q        setting
	l        float64 // L, the clipping norm
	steps, m float64
	sigma    float64
	scheme   Scheme
	envelope bool
}

// variance returns V with which the bound is M²/(2ηT) + ηV/2:
//
//	V = L² + (1−q)L²/(qn)·[Poisson] + dσ² + 2L²T/n + sL²·[envelope]
//
// s = 1 for Poisson batches and ½ for others; see docs/theory/population.md#population.excess
func (s schedule) variance() float64 {
	l2 := s.l * s.l
	v := l2 + s.sigma*s.sigma*s.q.d() + 2*l2*s.steps/s.q.n()
	if s.scheme == Poisson {
		v += max(0, 1-s.m/s.q.n()) * l2 / s.m
	}
	if s.envelope {
		v += l2 / s.contraction()
	}
	return v
}

// contraction returns the largest ηβ that the scheme uses. The mean gradient of a batch of exactly
// m records is β-smooth, so that steps with η ≤ 2/β do not expand. A Poisson batch has |B|/(qn)
// times that smoothness: with η ≤ 1/β it does not expand unless |B| > 2qn.
func (s schedule) contraction() float64 {
	if s.scheme == Poisson {
		return 1
	}
	return 2
}

// step returns the step size with the least bound, at most that of contraction; smoothness is that
// of the loss, ignored for an envelope, which follows η.
func (s schedule) step(smoothness float64) float64 {
	eta := s.q.m / math.Sqrt(s.steps*s.variance())
	if !s.envelope && smoothness > 0 && !math.IsInf(smoothness, 1) {
		eta = min(eta, s.contraction()/smoothness)
	}
	return eta
}

// bound returns the bound on the excess population loss for step size η and smoothness β of the
// sampled functions, e = 2⁻²⁵L for clipping to a grid:
//
//	M²/(2ηT) + η(V − s L²)/2 + L²/(2β)·[envelope] + 2LM·P + e(M + 3ηLT + η√(TV)),
//	P(a Poisson batch expands) ≤ P = T exp(−qn(r log r − r + 1)),  r = 2/(ηβ)
//
// It is +Inf where steps expand or smoothness is unknown. Proof, and the conditions of the term of
// P: docs/theory/population.md#population.excess
func (s schedule) bound(eta, smoothness float64) float64 {
	ratio := eta * smoothness
	if !(ratio > 0 && ratio <= s.contraction()*(1+1e-12)) {
		return math.Inf(1)
	}
	m := s.q.m
	sum := m*m/(2*eta*s.steps) + eta*s.variance()/2
	if s.envelope {
		sum += s.l * s.l * (1/smoothness - eta/s.contraction()) / 2
	}
	if s.scheme == Poisson && s.m < s.q.n() {
		r := 2 / ratio
		sum += 2 * s.l * m * min(1, s.steps*math.Exp(-s.m*(r*num.Log(r)-r+1)))
	}
	return sum + gradientError*s.l*(m+eta*(3*s.l*s.steps+math.Sqrt(s.steps*s.variance())))
}
