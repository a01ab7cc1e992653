package splitting

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/prox"
)

// DavisYin is three-operator splitting [DY17, Algorithm 1]:
//
//	y = prox_{γg}(z)
//	x = prox_{γh}(2y − z − γ∇f(y))
//	z ← z + λ(x − y)
//
// y and x meet at the minimizer. What it proves at X depends on g and h:
//
//	one of G, H is nil     X = y (or x), and e = (y−x)/γ, or its bound ‖y−x‖/γ
//	                       as in ForwardBackward, is in ∂J(X)
//	prox.Sum(G, H) known   X = prox_{γ(g+h)}(y − γ∇f(y)), the residual is
//	                       ‖y−X‖/γ as in ForwardBackward: one more proximal map
//	F strongly convex and  the duality gap of X = x or y below
//	X in both domains
//	otherwise              nothing: X = x, the residual is +Inf
//
// The gap: u = (z−y)/γ ∈ ∂g(y), v = (2y−z−γ∇f(y)−x)/γ ∈ ∂h(x) and
// δ = (x−y)/γ = −∇f(y)−u−v give, by μ-strong convexity of f at y and convexity
// of g at y and of h at x, for every w
//
//	J(w) ≥ f(y) + g(y) + h(x) + ⟨v,y−x⟩ − ⟨δ,w−y⟩ + (μ/2)‖w−y‖²
//	     ≥ f(y) + g(y) + h(x) + ⟨v,y−x⟩ − ‖δ‖²/(2μ) =: J_low,
//
// so that J(X) − J* ≤ J(X) − J_low =: Γ and (μ/2)‖X−x*‖² ≤ Γ. The residual
// reported is √(2μΓ), of which Residual/μ and Residual²/(2μ) are these two
// bounds; it is computed whenever ‖δ‖ has halved, and X is then the point of the
// least bound so far. An allowance for rounding keeps Γ above 1e-14·|J|, so the
// residual gets no smaller than some 1e-7·√(μ|J|).
//
// In the last two cases the solve ends as Stalled once ‖δ‖ is at rounding.
type DavisYin struct {
	// StepSize γ in (0, 2/L_f); 0 means 1/L_f.
	StepSize float64
	// Relaxation λ in (0, 2 − γL_f/2); 0 means 1.
	Relaxation float64

	f             Smooth
	g, h          prox.Operator
	sum           prox.Operator // nil if unknown
	smoothG       bool          // g = 0
	smoothH       bool          // h = 0
	gamma, lambda float64
	mu            float64
	terms         int
	x, y, z, w    []float64

	shown []float64 // the point of the least gap
	gap   float64   // its bound, +Inf before the first
	delta float64   // ‖δ‖ when the gap was last computed
	stagnation
}

var (
	_ Method   = (*DavisYin)(nil)
	_ Statuser = (*DavisYin)(nil)
)

// Init implements Method.
func (m *DavisYin) Init(p Problem, x0 []float64, _ *rand.Rand) error {
	m.f, m.g, m.h = smooth(p.F), operator(p.G), operator(p.H)
	var lip float64
	var err error
	if m.gamma, lip, err = stepSize("DavisYin.StepSize", m.StepSize, 1, m.f); err != nil {
		return err
	}
	if m.lambda, err = relaxation("DavisYin.Relaxation", m.Relaxation, 2-m.gamma*lip/2); err != nil {
		return err
	}
	m.smoothG, m.smoothH = p.G == nil, p.H == nil
	m.sum = nil
	if sum, ok := p.sum(); ok {
		m.sum = sum
	}
	m.mu, m.terms = convexity(p.F), terms(p.F)
	n := len(x0)
	m.x, m.y, m.z, m.w, m.shown = resize(m.x, n), resize(m.y, n), resize(m.z, n), resize(m.w, n), resize(m.shown, n)
	copy(m.z, x0)
	m.gap, m.delta = math.Inf(1), math.Inf(1)
	m.stagnation.init(n, lip)
	return nil
}

// Step implements Method.
func (m *DavisYin) Step(loc *Location, stats *Stats) {
	x, y, z, w := m.x, m.y, m.z, m.w
	m.g.Prox(y, z, m.gamma) // y = prox_{γg}(z)
	m.f.Grad(w, y)
	m.norm(w)
	for i := range w {
		x[i] = 2*y[i] - z[i] - m.gamma*w[i] // x = 2y − z − γ∇f(y)
	}
	if m.sum == nil {
		copy(loc.X, x) // kept for v
	}
	m.h.Prox(x, x, m.gamma) // x = prox_{γh}(x)
	stats.GradTerms += m.terms
	stats.Proxes += 2
	m.certify(loc, stats)
	for i := range z {
		z[i] += m.lambda * (x[i] - y[i]) // z ← z + λ(x − y)
	}
}

// certify sets the location; loc.X holds 2y − z − γ∇f(y) if no sum is known.
func (m *DavisYin) certify(loc *Location, stats *Stats) {
	x, y, w := m.x, m.y, m.w
	delta := separation(x, y) / m.gamma // ‖δ‖
	switch {
	case m.smoothH:
		copy(loc.X, y)
		loc.Residual = delta // δ = −(∇f(y) + u)
	case m.smoothG:
		copy(loc.X, x)
		loc.Residual = delta
	case m.sum != nil:
		for i := range w {
			w[i] = y[i] - m.gamma*w[i]
		}
		m.sum.Prox(loc.X, w, m.gamma)
		stats.Proxes++
		loc.Residual = separation(y, loc.X) / m.gamma
	default:
		m.dual(loc, delta)
		m.stalled = delta <= 1e-14*(m.grad+m.lip*norm(x))
		return
	}
	m.watch(loc)
}

// dual sets the location to the point of the least gap, x while there is none.
func (m *DavisYin) dual(loc *Location, delta float64) {
	x, y, pre := m.x, m.y, loc.X
	if m.mu > 0 && delta <= 0.5*m.delta {
		m.delta = delta
		var cross float64
		for i := range x {
			cross += (pre[i] - x[i]) / m.gamma * (y[i] - x[i]) // ⟨v, y − x⟩
		}
		fy, gy, hx := m.f.Func(y), m.g.Func(y), m.h.Func(x)
		low := fy + gy + hx + cross - delta*delta/(2*m.mu)
		// Γ is a difference of these numbers: 64 units in the last place of
		// each are added for their rounding.
		slack := 0x1p-46 * (math.Abs(fy) + math.Abs(gy) + math.Abs(hx) + math.Abs(cross))
		if gap := m.f.Func(x) + m.g.Func(x) + hx - low; m.better(gap + slack) {
			copy(m.shown, x)
		}
		if gap := fy + gy + m.h.Func(y) - low; m.better(gap + slack) {
			copy(m.shown, y)
		}
	}
	loc.Residual = m.gap
	if math.IsInf(m.gap, 1) {
		copy(loc.X, x)
	} else {
		copy(loc.X, m.shown)
	}
}

// better notes √(2μΓ) if it is the least so far. A Γ that is negative beyond
// rounding proves nothing.
func (m *DavisYin) better(gap float64) bool {
	r := math.Sqrt(2 * m.mu * gap)
	if !(gap > 0) || !(r < m.gap) {
		return false
	}
	m.gap = r
	return true
}
