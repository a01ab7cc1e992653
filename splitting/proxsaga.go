package splitting

import (
	"math/rand/v2"

	"github.com/privopt/privopt/prox"
)

// ProxSVRG and ProxSAGA are the proximal stochastic gradient method for
// f + ψ, ψ = G + H with the proximal map of prox.Sum, with variance-reduced
// estimates v of ∇f [XZ14, KHR20; DBL14]:
//
//	x ← prox_{γψ}(x − γv)
//
// For convex terms, L = n·maxᵢ L_fᵢ, γ in (0, 1/(2L)) and σ² as at VarianceReducedTOS,
// E‖x_k − x*‖² is summable if f is μ-strongly convex, as there. For γ < 1/(3L) it
// shrinks linearly,
//
//	E V_{k+1} ≤ (1 − min{2γμ(1−3γL), 1/(2n)})·V_k,   V = ‖x−x*‖² + 4nγ²σ²,
//
// at the default γ = 1/(4L) by 1 − min{μ/(8L), 1/(2n)}: about n + L/μ terms a digit,
// where ForwardBackward needs n√(L_f/μ). Proof: the proximal map is nonexpansive, so
// ‖x₊−x*‖² ≤ ‖x−x* − γ(v−∇f(x*))‖², and the bounds there, with the weight 4nγ² on σ².
//
// The residual is computed where the estimator has ∇f(x), as in ForwardBackward
// with γ = 1/L_f; X is the point of the least residual so far, and the iterate
// before the first.
type ProxSVRG struct {
	// StepSize γ in (0, 1/(2L)); 0 means 1/(4L).
	StepSize float64
	proxSampled
}

// ProxSAGA is ProxSVRG with the other estimator; see there.
type ProxSAGA struct {
	// StepSize γ in (0, 1/(2L)); 0 means 1/(4L).
	StepSize float64
	proxSampled
}

var (
	_ Method   = (*ProxSVRG)(nil)
	_ Statuser = (*ProxSVRG)(nil)
	_ Method   = (*ProxSAGA)(nil)
	_ Statuser = (*ProxSAGA)(nil)
)

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// no closed form of prox_{G+H} is known.
func (m *ProxSVRG) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	return m.proxSampled.init("ProxSVRG", SVRG, m.StepSize, p, x0, rnd)
}

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// no closed form of prox_{G+H} is known.
func (m *ProxSAGA) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	return m.proxSampled.init("ProxSAGA", SAGA, m.StepSize, p, x0, rnd)
}

// proxSampled is x ← prox_{γψ}(x − γv).
type proxSampled struct {
	psi     prox.Operator
	gamma   float64
	x, v, w []float64
	estimate
	certificate
}

func (m *proxSampled) init(method string, kind Estimator, step float64, p Problem, x0 []float64, rnd *rand.Rand) error {
	var err error
	if m.psi, err = p.closedForm(method); err != nil {
		return err
	}
	if m.gamma, err = m.estimate.init(method, kind, step, p, x0, rnd); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(Problem{F: p.F, H: m.psi}, n)
	m.x, m.v, m.w = resize(m.x, n), resize(m.v, n), resize(m.w, n)
	copy(m.x, x0)
	return nil
}

// Step implements Method.
func (m *proxSampled) Step(loc *Location, stats *Stats) {
	x, v, w := m.x, m.v, m.w
	m.estimate.at(v, x, stats)
	if grad, due := m.exact(x, stats); due {
		m.proveAt(loc, stats, m.a, x, x, grad, m.gamma, w)
	}
	for i := range w {
		w[i] = x[i] - m.gamma*v[i]
	}
	m.psi.Prox(w, w, m.gamma)
	stats.Proxes++
	m.x, m.w = w, x // x ← prox_{γψ}(x − γv)
	m.locate(loc, m.x)
}
