package splitting

import "math/rand/v2"

// VarianceReducedTOS is three-operator splitting with a variance-reduced
// estimate v of the gradient of a FiniteSum [PFC19; SCMR22]:
//
//	y = prox_{γg}(z)
//	x = prox_{γh}(2y − z − γv),   v of an Estimator at y
//	z ← z + x − y
//
// Where StochasticTOS hovers around the minimizer, because the sampling noise sits
// inside prox_h, this converges to it with a constant step, because the noise
// vanishes there. For convex terms, L = n·maxᵢ L_fᵢ and γ in (0, 1/(2L)), with
// z* = x* + γu* and σ² = nΣᵢ‖tᵢ − ∇fᵢ(x*)‖² of the gradients tᵢ that the estimator
// remembers,
//
//	E V_{k+1} ≤ V_k − 2γ(1 − 2γL)·⟨y−x*, ∇f(y)−∇f(x*)⟩,   V = ‖z−z*‖² + 2nγ²σ²,
//
// so with a μ-strongly convex f
//
//	Σ_k E‖y_k − x*‖² ≤ V_0 / (2γμ(1 − 2γL)).
//
// Proof: in The inequality of the package comment E v = ∇f(y), and E‖v−∇f(x*)‖² ≤ 2A + 2σ² with
// A = nΣᵢ‖∇fᵢ(y)−∇fᵢ(x*)‖² ≤ L⟨y−x*, ∇f(y)−∇f(x*)⟩ by cocoercivity of each term;
// and E σ²₊ = (1−1/n)σ² + A/n.
//
// The residual is computed where the estimator has ∇f(y), with γ = 1/L_f in place
// of γ, see Certificates in the package comment; X is the point of the least residual so far, and y
// before the first.
type VarianceReducedTOS struct {
	// Estimator is SVRG or SAGA.
	Estimator Estimator
	// StepSize γ in (0, 1/(2L)); 0 means 1/(4L).
	StepSize float64

	gamma      float64
	x, y, z, v []float64
	p          []float64
	estimate
	certificate
}

var (
	_ Method   = (*VarianceReducedTOS)(nil)
	_ Statuser = (*VarianceReducedTOS)(nil)
)

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum.
func (m *VarianceReducedTOS) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	if err := p.plain("VarianceReducedTOS"); err != nil {
		return err
	}
	var err error
	if m.gamma, err = m.estimate.init("VarianceReducedTOS", m.Estimator, m.StepSize, p, x0, rnd); err != nil {
		return err
	}
	n := len(x0)
	m.certificate.init(p, n)
	m.x, m.y, m.z, m.v, m.p = resize(m.x, n), resize(m.y, n), resize(m.z, n), resize(m.v, n), resize(m.p, n)
	copy(m.z, x0)
	return nil
}

// Step implements Method.
func (m *VarianceReducedTOS) Step(loc *Location, stats *Stats) {
	x, y, z, v := m.x, m.y, m.z, m.v
	m.g.Prox(y, z, m.gamma) // y = prox_{γg}(z)
	m.estimate.at(v, y, stats)
	if grad, due := m.exact(y, stats); due {
		m.proveAt(loc, stats, x, y, z, grad, m.gamma, m.p)
	}
	for i := range x {
		x[i] = 2*y[i] - z[i] - m.gamma*v[i]
	}
	m.h.Prox(x, x, m.gamma) // x = prox_{γh}(2y − z − γv)
	for i := range z {
		z[i] += x[i] - y[i] // z ← z + x − y
	}
	stats.Proxes += 2
	m.locate(loc, y)
}

// proveAt proves what a deterministic step of length c = 1/L_f from y and
// u = (z−y)/γ knows; x and p are scratch.
func (m *certificate) proveAt(loc *Location, stats *Stats, x, y, z, grad []float64, gamma float64, p []float64) {
	c := gamma
	if m.lip > 0 && gamma*m.lip <= 1 {
		c = 1 / m.lip
	}
	for i := range p {
		p[i] = y[i] - c*((z[i]-y[i])/gamma+grad[i])
	}
	m.h.Prox(x, p, c)
	stats.Proxes++
	if c != gamma {
		m.earlier = m.hidden(y, z, gamma)
	}
	m.prove(loc, stats, x, y, p, grad, c)
}
