package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/prox"
)

// StochasticBackwardForward is BackwardForward with an estimate v of the
// gradient of a FiniteSum:
//
//	y = prox_{γψ}(z),   ψ = G + H
//	z ← z + λ_k(y − γv − z),   v of an Estimator at y
//
// The noise is added outside the proximal map and y is always in its domain, so
// unlike ForwardBackward's the iterates average it out. The rules:
//
//	SVRG, SAGA  λ = 1, γ in (0, 1/(2L)): converges as VarianceReducedTOS does,
//	            of which it is the case h = 0
//	Sampled     λ_k = (k+1)^−p, γ in (0, 1/L]: the stochastic Krasnosel'skiĭ–Mann
//	            iteration of the operator of BackwardForward, which is averaged;
//	            for p in (½, 1] E‖z − Tz‖² → 0 along a subsequence with variance at the
//	            solution only [CC26b]
//
// L = n·maxᵢ L_fᵢ. Residual and X are those of VarianceReducedTOS; with Sampled X = y
// and nothing is proved.
type StochasticBackwardForward struct {
	// Estimator is SVRG, SAGA or Sampled.
	Estimator Estimator
	// StepSize γ; 0 means 1/(4L).
	StepSize float64
	// Relaxation is the exponent p in (0, 1] of λ_k for Sampled; 0 means 0.502.
	Relaxation float64

	psi   prox.Operator
	gamma float64
	p     float64
	k     int
	y, z  []float64
	v, x  []float64
	q     []float64
	estimate
	certificate
}

var (
	_ Method   = (*StochasticBackwardForward)(nil)
	_ Statuser = (*StochasticBackwardForward)(nil)
)

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// no closed form of prox_{G+H} is known.
func (m *StochasticBackwardForward) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	const name = "StochasticBackwardForward"
	psi, f, lip, err := p.composite(name)
	if err != nil {
		return err
	}
	m.psi = psi
	limit := 0.5
	if m.Estimator == Sampled {
		limit = math.Nextafter(1, 2)
	}
	if m.gamma, err = sampledStep(name, m.StepSize, limit, lip); err != nil {
		return err
	}
	if m.p, err = exponent(name+".Relaxation", m.Relaxation); err != nil {
		return err
	}
	if err := m.estimate.init(m.Estimator, f, x0, rnd); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(Problem{F: p.F, G: m.psi}, n)
	m.y, m.z, m.v, m.x, m.q, m.k = resize(m.y, n), resize(m.z, n), resize(m.v, n), resize(m.x, n), resize(m.q, n), 0
	copy(m.z, x0)
	return nil
}

// Step implements Method.
func (m *StochasticBackwardForward) Step(loc *Location, stats *Stats) {
	y, z, v := m.y, m.z, m.v
	m.psi.Prox(y, z, m.gamma) // y = prox_{γψ}(z)
	stats.Proxes++
	m.estimate.at(v, y, stats)
	if grad, due := m.exact(y, stats); due {
		m.proveAt(loc, stats, m.x, y, z, grad, m.gamma, m.q)
	}
	lambda := 1.0
	if m.Estimator == Sampled {
		lambda = math.Pow(float64(m.k+1), -m.p)
	}
	m.k++
	for i := range z {
		z[i] += lambda * (y[i] - m.gamma*v[i] - z[i]) // z ← z + λ(y − γv − z)
	}
	m.locate(loc, y)
}

// exponent returns p, or the default if it is 0.
func exponent(field string, p float64) (float64, error) {
	if !(p >= 0) || p > 1 {
		return 0, fmt.Errorf("%w: %s = %v, want an exponent in (0, 1], or 0 for %v", ErrSettings, field, p, defaultRelaxation)
	}
	if p == 0 {
		return defaultRelaxation, nil
	}
	return p, nil
}
