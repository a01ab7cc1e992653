package splitting

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// StochasticTOS is stochastic three-operator splitting for a FiniteSum
// f = Σᵢ fᵢ of n terms. Step k = 0, 1, …:
//
//	i uniform in {0, …, n−1}
//	θ = prox_{ωg}(x)
//	z = prox_{ωh}(2θ − x − ωn∇fᵢ(θ))
//	x ← x + λ_k(z − θ)
//
//	rule                ω, λ and what is shown                        what is proved
//	FixedStep           ω, λ_k = (k+1)^−p, X = θ                      x → a fixed point of the expected
//	                    [CC26, Algorithm G.2]                         map, biased if h acts [CC26b]
//	StronglyConvexStep  ω_k of DavisYin's rule with η = ½, λ = 1,     E‖θ_k−x*‖² = O(1/k) for a strongly
//	                    x − θ scaled with ω, X = θ [YVC16]            convex F
//	RootStep            ω_k = ω/√(k+1), λ = 1, X = mean of the θ      the means' E gap is O(log k/√k)
//	                    [YGS21, §3]                                   where the ∇fᵢ are bounded on G
//	AdaptiveStep        ω_k = ω/√(‖∇f(x₀)‖² + Σ_{j<k}‖n∇f_{i_j}‖²),    the same without knowing L_f, for
//	                    λ = 1, X = mean of the θ [YGS21, §4]          sets G and H; ω is a length
//
// The gap of the means is f(θ̄) + g(θ̄) + h(z̄) − J*, at two points that are ‖x_0−x_k‖/k apart.
//
// X lies in the domain of g and perhaps not in that of h.
//
// Proof of the second: with L = n·maxᵢ L_fᵢ, ω ≤ 1/(2L) and
// σ² = nΣᵢ‖∇fᵢ(x*)−∇f(x*)/n‖², The inequality of the package comment gives for S_k = ‖θ−x*‖²/ω² + ‖u−u*‖²
// that E S_{k+1} ≤ E S_k + 2σ², while 1/ω_k ≥ μk/2; so E‖θ_k−x*‖² ≤ ω_k²(S_1 + 2kσ²) ≤
// (8σ² + o(1))/(μ²k).
//
// Proof of the third: v = n∇fᵢ(θ), and the optimality of θ and z, give for a minimizer x*
//
//	2ω(g(θ) + h(z) − g(x*) − h(x*) + ⟨v,θ−x*⟩) ≤ ‖x−x*‖² − ‖x₊−x*‖² − ‖z−θ‖² − 2ω⟨v,z−θ⟩,
//
// whose last two terms are at most ω²‖v‖². The expected left side is at least
// −2ω‖v*‖‖z−θ‖, v* ∈ ∂h(x*), so E‖x_k−x*‖² ≤ ‖x_0−x*‖² + O(Σω²) = O(log k); dividing by
// 2ω_k and summing bounds the gap of the means by that over k·ω_k plus Σω_k/k.
//
// It never certifies: the residual stays +Inf, and only Settings.Iterations, Runtime and the
// context end it. With a constant ω and a constraint h the limit is
// biased, because the sampling noise sits inside the projection:
// VarianceReducedTOS converges there. Use it to rerun the papers; Minimize is faster
// and exact.
type StochasticTOS struct {
	// StepSize ω > 0, or the first ω. 0 means 1/L_f for FixedStep and RootStep,
	// 1/(2L) for StronglyConvexStep, of which it is the largest allowed, and
	// 1 for AdaptiveStep.
	StepSize float64
	// Relaxation is the exponent p in (0, 1] of λ_k; 0 means 0.502. Other rules
	// than FixedStep want 0.
	Relaxation float64
	// Rule is FixedStep, StronglyConvexStep, RootStep or AdaptiveStep.
	Rule StepRule

	f       FiniteSum
	g, h    prox.Operator
	rows    RowSum // f where rowStep applies, else nil
	rnd     *rand.Rand
	omega   float64
	mu      float64
	p       float64
	squares float64 // Σ‖n∇fᵢ‖²
	k       int
	n       int
	owed    int // terms evaluated before the first step
	idx     []int
	lambdas []float64
	x, z, w []float64
	mean    []float64 // of the θ
}

var _ Method = (*StochasticTOS)(nil)

const defaultRelaxation = 0.502

// exponent returns p, or the default if it is 0.
func exponent(field string, p float64) (float64, error) {
	if p = cmp.Or(p, defaultRelaxation); !(p > 0) || p > 1 {
		return 0, fmt.Errorf("%w: %s = %v, want an exponent in (0, 1], or 0 for %v", ErrSettings, field, p, defaultRelaxation)
	}
	return p, nil
}

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// has no terms.
func (m *StochasticTOS) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	if err := p.plain("StochasticTOS"); err != nil {
		return err
	}
	if err := rule("StochasticTOS.Rule", m.Rule, FixedStep, StronglyConvexStep, RootStep, AdaptiveStep); err != nil {
		return err
	}
	var lip float64
	var err error
	if m.f, lip, err = p.sampled("StochasticTOS"); err != nil {
		return err
	}
	if m.p, err = exponent("StochasticTOS.Relaxation", m.Relaxation); err != nil {
		return err
	}
	if m.Rule != FixedStep && m.Relaxation != 0 {
		return fmt.Errorf("%w: StochasticTOS.Relaxation = %v with %v, want 0", ErrSettings, m.Relaxation, m.Rule)
	}
	if m.mu = convexity(p.F); m.Rule == StronglyConvexStep && m.mu == 0 {
		return fmt.Errorf("%w: StochasticTOS: StronglyConvexStep needs F.Convexity() > 0; FixedStep and RootStep do not", ErrProblem)
	}
	if err := m.step(lip); err != nil {
		return err
	}
	m.g, m.h, m.rnd, m.k, m.lambdas, m.n = operator(p.G), operator(p.H), rnd, 0, lambdas(), m.f.Len()
	n := len(x0)
	if m.rows = nil; m.Rule == FixedStep {
		m.g, m.h = uniformly(m.g, n, m.omega), uniformly(m.h, n, m.omega)
		m.rows = rowSum(m.f, m.g, m.h)
	}
	m.idx = resize(m.idx, 1)
	m.x, m.z, m.w, m.mean = resize(m.x, n), resize(m.z, n), resize(m.w, n), resize(m.mean, n)
	copy(m.x, x0)
	m.owed = 0
	if m.Rule == AdaptiveStep {
		m.owed = m.n
		m.f.Grad(m.w, x0)
		if m.squares = floats.Dot(m.w, m.w); !(m.squares > 0) {
			m.squares = 1 // any positive number
		}
	}
	return nil
}

// step sets the first ω; lip is L.
func (m *StochasticTOS) step(lip float64) error {
	first, whole := 0.0, m.f.Smoothness()
	switch m.Rule {
	case StronglyConvexStep:
		if math.IsInf(lip, 1) {
			return fmt.Errorf("%w: StochasticTOS: neither F.Smoothness() nor F.TermSmoothness() is finite, want one of them for StronglyConvexStep",
				ErrProblem)
		}
		if m.StepSize*lip > 0.5 {
			return fmt.Errorf("%w: StochasticTOS.StepSize = %v, want at most 1/(2L), L = n·maxᵢ L_fᵢ = %v, for StronglyConvexStep", ErrSettings,
				m.StepSize, lip)
		}
		first = 1 / (2 * lip)
	case AdaptiveStep:
		first = 1
	default:
		if first = 1 / whole; m.StepSize == 0 && !(first > 0) {
			return fmt.Errorf("%w: StochasticTOS: F.Smoothness() = %v, want a finite number ≥ 0, or a StepSize", ErrProblem, whole)
		}
	}
	if math.IsInf(first, 1) {
		first = 1
	}
	if m.omega = cmp.Or(m.StepSize, first); !(m.omega > 0) || math.IsInf(m.omega, 1) {
		return fmt.Errorf("%w: StochasticTOS.StepSize = %v, want a positive finite number, or 0 for 1/L_f", ErrSettings, m.StepSize)
	}
	return nil
}

// Step implements Method.
func (m *StochasticTOS) Step(loc *Location, stats *Stats) {
	if m.Rule != FixedStep {
		m.variable(loc, stats)
		return
	}
	if m.rows != nil {
		m.rowStep(loc, stats)
		return
	}
	x := m.x
	theta, z, w := loc.X[:len(x)], m.z[:len(x)], m.w[:len(x)]
	lambda := m.lambda()
	step := m.omega * float64(m.n)
	m.idx[0] = m.rnd.IntN(m.n)
	m.g.Prox(theta, x, m.omega) // θ = prox_{ωg}(x)
	m.f.GradTerms(w, theta, m.idx)
	for i := range w {
		z[i] = 2*theta[i] - x[i] - step*w[i] // z = 2θ − x − ωn∇fᵢ(θ)
	}
	m.h.Prox(z, z, m.omega) // z = prox_{ωh}(z)
	for i := range x {
		x[i] += lambda * (z[i] - theta[i]) // x ← x + λ(z − θ)
	}
	m.k++
	stats.GradTerms++
	stats.Proxes += 2
}

// variable is a step of the rules whose ω_k varies; λ = 1.
func (m *StochasticTOS) variable(loc *Location, stats *Stats) {
	x, z, w, theta := m.x, m.z, m.w, loc.X
	omega := m.omega
	switch m.Rule {
	case RootStep:
		omega = m.omega / math.Sqrt(float64(m.k+1))
	case AdaptiveStep:
		omega = m.omega / math.Sqrt(m.squares)
	}
	m.idx[0] = m.rnd.IntN(m.n)
	m.g.Prox(theta, x, omega)
	m.f.GradTerms(w, theta, m.idx)
	if m.Rule == StronglyConvexStep {
		t := m.mu * m.omega / 2 // ημω
		next := m.omega / (t + math.Sqrt(t*t+1))
		for i, v := range theta { // u = (x−θ)/ω is kept
			x[i] = v + next/m.omega*(x[i]-v)
		}
		m.omega, omega = next, next
	}
	step := omega * float64(m.n)
	for i := range w {
		z[i] = 2*theta[i] - x[i] - step*w[i]
	}
	m.h.Prox(z, z, omega)
	for i := range x {
		x[i] += z[i] - theta[i]
	}
	if m.Rule != StronglyConvexStep {
		m.squares += float64(m.n) * float64(m.n) * floats.Dot(w, w)
		if m.k == 0 {
			copy(m.mean, theta)
		}
		for i := range theta {
			m.mean[i] += (theta[i] - m.mean[i]) / float64(m.k+1)
		}
		copy(theta, m.mean)
	}
	m.k++
	stats.GradTerms += 1 + m.owed
	m.owed = 0
	stats.Proxes += 2
}

// lambda returns λ_k = (k+1)^−p.
func (m *StochasticTOS) lambda() float64 {
	if m.p == defaultRelaxation && m.k < len(m.lambdas) {
		return m.lambdas[m.k]
	}
	return math.Pow(float64(m.k+1), -m.p)
}

// lambdas holds the first λ_k of the default exponent: a power costs a quarter
// of a step.
var lambdas = sync.OnceValue(func() []float64 {
	table := make([]float64, 4096)
	for k := range table {
		table[k] = math.Pow(float64(k+1), -defaultRelaxation)
	}
	return table
})

// uniform is an operator whose proximal map, for one γ, is the same for every
// coordinate, u ↦ clip(scale·soft(u, tau), lo, hi): no call per coordinate, and
// no work for the parts that do nothing.
type uniform struct {
	prox.Operator
	tau, scale, lo, hi float64
	shrinks, clips     bool // tau > 0 or scale < 1; lo or hi is finite
}

// uniformly returns g as a uniform for γ where it is one, else g.
func uniformly(g prox.Operator, n int, gamma float64) prox.Operator {
	c, ok := g.(coordinatewise)
	if !ok {
		return g
	}
	l1, l2, lo, hi := c.Coordinate(0)
	for i := 1; i < n; i++ {
		if a, b, c, d := c.Coordinate(i); a != l1 || b != l2 || c != lo || d != hi {
			return g
		}
	}
	return &uniform{g, gamma * l1, 1 / (1 + gamma*l2), lo, hi,
		l1 > 0 || l2 > 0, !math.IsInf(lo, -1) || !math.IsInf(hi, 1)}
}

// Prox stores the map of x in dst, for the γ it was made for.
func (u *uniform) Prox(dst, x []float64, _ float64) {
	dst = dst[:len(x)]
	if u.shrinks {
		scale, tau := u.scale, newClip(-u.tau, u.tau)
		for i, v := range x {
			dst[i] = scale * (v - tau.at(v)) // soft(v, τ) = v − clip(v, −τ, τ)
		}
		x = dst
	}
	if u.clips {
		box := newClip(u.lo, u.hi)
		for i, v := range x {
			dst[i] = box.at(v)
		}
	} else if !u.shrinks {
		copy(dst, x)
	}
}

// clip is clamp without branches: the compiler selects between integers by
// conditional moves, between floats by jumps, and sampling noise makes jumps
// unpredictable, which costs five times as much.
type clip struct {
	lo, hi   float64
	lob, hib uint64
}

func newClip(lo, hi float64) clip {
	return clip{lo, hi, math.Float64bits(lo), math.Float64bits(hi)}
}

// at returns the point of [lo, hi] nearest to v; NaN stays NaN.
func (c clip) at(v float64) float64 {
	b := math.Float64bits(v)
	if v < c.lo {
		b = c.lob
	}
	if v > c.hi {
		b = c.hib
	}
	return math.Float64frombits(b)
}
