package splitting

import (
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/prox"
)

// BackwardForward does the steps of ForwardBackward in the other order
// [APR18]; it is what DavisYin becomes without h:
//
//	y = prox_{γψ}(z),   ψ = G + H
//	z ← z + λ(y − γ∇f(y) − z)
//
// The residual is the norm of e = ∇f(y) + (z − y)/γ ∈ ∂J(y), at X = y.
type BackwardForward struct {
	// StepSize γ in (0, 2/L_f); 0 means 1/L_f.
	StepSize float64
	// Relaxation λ in (0, 2 − γL_f/2); 0 means 1.
	Relaxation float64

	f             Smooth
	psi           prox.Operator
	gamma, lambda float64
	terms         int
	y, z, w       []float64
	stagnation
}

var (
	_ Method   = (*BackwardForward)(nil)
	_ Statuser = (*BackwardForward)(nil)
)

// Init implements Method. The error wraps ErrProblem if no closed form of
// prox_{G+H} is known.
func (m *BackwardForward) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	if err := p.plain("BackwardForward"); err != nil {
		return err
	}
	var ok bool
	if m.psi, ok = p.sum(); !ok {
		return fmt.Errorf("%w: BackwardForward: no closed form of prox of G + H is known; DavisYin needs none", ErrProblem)
	}
	m.f = smooth(p.F)
	var lip float64
	var err error
	if m.gamma, lip, err = stepSize("BackwardForward.StepSize", m.StepSize, 1, m.f); err != nil {
		return err
	}
	if m.lambda, err = relaxation("BackwardForward.Relaxation", m.Relaxation, 2-m.gamma*lip/2); err != nil {
		return err
	}
	m.terms = terms(p.F)
	n := len(x0)
	m.y, m.z, m.w = resize(m.y, n), resize(m.z, n), resize(m.w, n)
	copy(m.z, x0)
	m.stagnation.init(n, lip)
	return nil
}

// Step implements Method.
func (m *BackwardForward) Step(loc *Location, stats *Stats) {
	y, z, w := m.y, m.z, m.w
	m.psi.Prox(y, z, m.gamma) // y = prox_{γψ}(z)
	m.f.Grad(w, y)
	m.norm(w)
	hidden := m.hidden(y, z, m.gamma)
	for i := range z {
		e := w[i] + (z[i]-y[i])/m.gamma // e = ∇f(y) + (z − y)/γ
		z[i] -= m.lambda * m.gamma * e  // z ← z + λ(y − γ∇f(y) − z)
		w[i] = e
	}
	copy(loc.X, y)
	loc.Residual = norm(w) + hidden
	m.watch(loc)
	stats.GradTerms += m.terms
	stats.Proxes++
}
