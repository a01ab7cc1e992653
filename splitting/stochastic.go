package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/privopt/privopt/prox"
)

// StochasticTOS is stochastic three-operator splitting [CC26, Algorithm G.2]
// for a FiniteSum f = Σᵢ fᵢ of n terms. Step k = 0, 1, …:
//
//	i uniform in {0, …, n−1}
//	θ = prox_{ωg}(x)
//	z = prox_{ωh}(2θ − x − ωn∇fᵢ(θ))
//	x ← x + λ_k(z − θ),   λ_k = (k+1)^−p
//
// X is the θ of the last step, which lies in the domain of g and perhaps not in
// that of h.
//
// It never certifies: the residual stays +Inf, and only Settings.Iterations, Runtime and the
// context end it. With a constant ω and a constraint h the limit is
// biased, because the sampling noise sits inside the projection. Use it to
// rerun the paper; Minimize is faster and exact.
type StochasticTOS struct {
	// StepSize ω > 0; 0 means 1/L_f.
	StepSize float64
	// Relaxation is the exponent p in (0, 1] of λ_k; 0 means 0.502.
	Relaxation float64

	f       FiniteSum
	g, h    prox.Operator
	gu, hu  uniform // g and h where gok and hok
	gok     bool
	hok     bool
	rnd     *rand.Rand
	omega   float64
	p       float64
	k       int
	n       int
	idx     []int
	lambdas []float64
	x, z, w []float64
}

var _ Method = (*StochasticTOS)(nil)

const defaultRelaxation = 0.502

// Init implements Method. The error wraps ErrProblem if F is no FiniteSum or
// has no terms.
func (m *StochasticTOS) Init(p Problem, x0 []float64, rnd *rand.Rand) error {
	if err := p.plain("StochasticTOS"); err != nil {
		return err
	}
	var ok bool
	if m.f, ok = p.F.(FiniteSum); !ok {
		return fmt.Errorf("%w: StochasticTOS: F is no FiniteSum, want a sum of terms to sample", ErrProblem)
	}
	if m.n = m.f.Len(); m.n < 1 {
		return fmt.Errorf("%w: StochasticTOS: F has no terms, want at least one to sample", ErrProblem)
	}
	m.omega = m.StepSize
	if m.StepSize == 0 {
		if m.omega = 1 / m.f.Smoothness(); m.omega == 0 || math.IsNaN(m.omega) || m.omega < 0 {
			return fmt.Errorf("%w: StochasticTOS: F.Smoothness() is not a finite number ≥ 0, want it or a StepSize", ErrProblem)
		}
		if math.IsInf(m.omega, 1) {
			m.omega = 1
		}
	}
	if !(m.omega > 0) || math.IsInf(m.omega, 1) {
		return fmt.Errorf("%w: StochasticTOS.StepSize = %v, want a positive finite number, or 0 for 1/L_f", ErrSettings, m.StepSize)
	}
	if !(m.Relaxation >= 0) || m.Relaxation > 1 {
		return fmt.Errorf("%w: StochasticTOS.Relaxation = %v, want an exponent in (0, 1], or 0 for %v", ErrSettings, m.Relaxation, defaultRelaxation)
	}
	if m.p = m.Relaxation; m.p == 0 {
		m.p = defaultRelaxation
	}
	m.g, m.h, m.rnd, m.k, m.lambdas = operator(p.G), operator(p.H), rnd, 0, lambdas()
	n := len(x0)
	m.gu, m.gok = uniformly(m.g, n, m.omega)
	m.hu, m.hok = uniformly(m.h, n, m.omega)
	m.idx = resize(m.idx, 1)
	m.x, m.z, m.w = resize(m.x, n), resize(m.z, n), resize(m.w, n)
	copy(m.x, x0)
	return nil
}

// Step implements Method.
func (m *StochasticTOS) Step(loc *Location, stats *Stats) {
	x := m.x
	theta, z, w := loc.X[:len(x)], m.z[:len(x)], m.w[:len(x)]
	lambda := m.lambda()
	step := m.omega * float64(m.n)
	m.idx[0] = m.rnd.IntN(m.n)
	if m.gok {
		copy(theta, x)
		m.gu.prox(theta)
	} else {
		m.g.Prox(theta, x, m.omega) // θ = prox_{ωg}(x)
	}
	m.f.GradTerms(w, theta, m.idx)
	for i := range w {
		z[i] = 2*theta[i] - x[i] - step*w[i] // z = 2θ − x − ωn∇fᵢ(θ)
	}
	if m.hok {
		m.hu.prox(z)
	} else {
		m.h.Prox(z, z, m.omega) // z = prox_{ωh}(z)
	}
	for i := range x {
		x[i] += lambda * (z[i] - theta[i]) // x ← x + λ(z − θ)
	}
	m.k++
	stats.GradTerms++
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

// uniform is a coordinatewise proximal map that is the same for every
// coordinate, u ↦ clip(scale·soft(u, tau), lo, hi): no call per coordinate, and
// no work for the parts that do nothing.
type uniform struct {
	tau, scale, lo, hi float64
	shrinks, clips     bool // tau > 0 or scale < 1; lo or hi is finite
}

// uniformly returns prox_{γg} as a uniform, if it is one.
func uniformly(g prox.Operator, n int, gamma float64) (uniform, bool) {
	c, ok := g.(coordinatewise)
	if !ok {
		return uniform{}, false
	}
	l1, l2, lo, hi := c.Coordinate(0)
	for i := 1; i < n; i++ {
		if a, b, c, d := c.Coordinate(i); a != l1 || b != l2 || c != lo || d != hi {
			return uniform{}, false
		}
	}
	return uniform{gamma * l1, 1 / (1 + gamma*l2), lo, hi,
		l1 > 0 || l2 > 0, !math.IsInf(lo, -1) || !math.IsInf(hi, 1)}, true
}

// prox replaces x by the map of x.
func (u *uniform) prox(x []float64) {
	if u.shrinks {
		scale, tau := u.scale, newClip(-u.tau, u.tau)
		for i, v := range x {
			x[i] = scale * (v - tau.at(v)) // soft(v, τ) = v − clip(v, −τ, τ)
		}
	}
	if u.clips {
		box := newClip(u.lo, u.hi)
		for i, v := range x {
			x[i] = box.at(v)
		}
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
