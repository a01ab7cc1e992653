package splitting

import (
	"math"
	"math/rand/v2"
)

// BackwardForward does the steps of ForwardBackward in the other order [APR18]:
//
//	y = prox_{γψ}(z),   ψ = G + H
//	z ← z + λ(y − γ∇f(y) − z)
//
// It is DavisYin for G = ψ without H, whose certificate at X = y is e = ∇f(y) + (z − y)/γ ∈ ∂J(y).
type BackwardForward struct {
	// StepSize γ in (0, 2/L_f); 0 means 1/L_f.
	StepSize float64
	// Relaxation λ in (0, 2 − γL_f/2); 0 means 1.
	Relaxation float64

	steps DavisYin
}

var (
	_ Method   = (*BackwardForward)(nil)
	_ Statuser = (*BackwardForward)(nil)
	_ Method   = (*StochasticBackwardForward)(nil)
	_ Statuser = (*StochasticBackwardForward)(nil)
)

// Init implements Method. The error wraps ErrProblem if no closed form of
// prox_{G+H} is known.
func (m *BackwardForward) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	psi, err := p.closedForm("BackwardForward")
	if err != nil {
		return err
	}
	gamma, lip, err := stepSize("BackwardForward.StepSize", m.StepSize, 1, smooth(p.F))
	if err != nil {
		return err
	}
	if _, err := relaxation("BackwardForward.Relaxation", m.Relaxation, 2-gamma*lip/2); err != nil {
		return err
	}
	m.steps = DavisYin{StepSize: m.StepSize, Relaxation: m.Relaxation}
	return m.steps.Init(Problem{F: p.F, G: psi}, x0, rnd)
}

// Step implements Method.
func (m *BackwardForward) Step(loc *Location, stats *Stats) { m.steps.Step(loc, stats) }

// Status implements Statuser.
func (m *BackwardForward) Status() (Status, error) { return m.steps.Status() }

// StochasticBackwardForward is BackwardForward with an estimate v of the
// gradient of a FiniteSum:
//
//	y = prox_{γψ}(z),   ψ = G + H
//	z ← z + λ_k(y − γv − z),   v of an Estimator at y
//
// The noise is added outside the proximal map and y is always in its domain, so
// unlike ForwardBackward's the iterates average it out. The rules:
//
//	SVRG, SAGA  VarianceReducedTOS for G = ψ without H: λ = 1, γ in (0, 1/(2L)); it converges
//	Sampled     StochasticTOS for G = ψ without H: λ_k = (k+1)^−p, γ in (0, 1/L]; the map is
//	            averaged, and for p in (½, 1] E‖z − Tz‖² → 0 along a subsequence, with
//	            variance at the solution only [CC26b]; it proves nothing
//
// L = n·maxᵢ L_fᵢ.
type StochasticBackwardForward struct {
	// Estimator is SVRG, SAGA or Sampled.
	Estimator Estimator
	// StepSize γ; 0 means 1/(4L).
	StepSize float64
	// Relaxation is the exponent p in (0, 1] of λ_k for Sampled, which 0 is 0.502 for; others want 0.
	Relaxation float64

	steps Method
}

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// no closed form of prox_{G+H} is known.
func (m *StochasticBackwardForward) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	const name = "StochasticBackwardForward"
	psi, err := p.closedForm(name)
	if err != nil {
		return err
	}
	_, lip, err := p.sampled(name)
	if err != nil {
		return err
	}
	limit := 0.5
	if m.Estimator == Sampled {
		limit = math.Nextafter(1, 2)
	}
	gamma, err := sampledStep(name, m.StepSize, limit, lip)
	if err != nil {
		return err
	}
	if _, err := exponent(name+".Relaxation", m.Relaxation); err != nil {
		return err
	}
	m.steps = &VarianceReducedTOS{Estimator: m.Estimator, StepSize: gamma}
	if m.Estimator == Sampled {
		m.steps = &StochasticTOS{StepSize: gamma, Relaxation: m.Relaxation}
	}
	return m.steps.Init(Problem{F: p.F, G: psi}, x0, rnd)
}

// Step implements Method.
func (m *StochasticBackwardForward) Step(loc *Location, stats *Stats) { m.steps.Step(loc, stats) }

// Status implements Statuser.
func (m *StochasticBackwardForward) Status() (Status, error) {
	if s, ok := m.steps.(Statuser); ok {
		return s.Status()
	}
	return NotTerminated, nil
}
