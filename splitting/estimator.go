package splitting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
)

// Estimator names an unbiased estimate v of ∇f(y), f = Σᵢ fᵢ, that evaluates one
// or two terms a step, i uniform in {0, …, n−1}.
type Estimator int

const (
	// SVRG keeps an anchor w and ∇f(w): v = n(∇fᵢ(y) − ∇fᵢ(w)) + ∇f(w), and with
	// probability 1/n sets w ← y afterwards [JZ13, KHR20]. Two terms a step and a
	// full gradient every n steps; 3d numbers of memory.
	SVRG Estimator = iota
	// SAGA keeps the last gradient of each term: v = n(∇fᵢ(y) − tᵢ) + Σⱼtⱼ, then
	// tᵢ ← ∇fᵢ(y) [DBL14]. One term a step, n·d numbers of memory, and a full
	// gradient every 2n steps for the certificate.
	SAGA
	// Sampled is v = n∇fᵢ(y), of StochasticBackwardForward only. Its variance stays, and it
	// proves nothing.
	Sampled
)

// String returns the name of the constant.
func (e Estimator) String() string {
	if names := [...]string{"SVRG", "SAGA", "Sampled"}; e >= 0 && int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("invalid estimator %d", int(e))
}

// TermSmoother is the optional ability of a FiniteSum to bound the curvature
// of its terms. Without it they are taken to be as curved as f, which convex
// terms are not, and steps are up to n times too short.
type TermSmoother interface {
	// TermSmoothness returns an upper bound on the Lipschitz constants of ∇fᵢ.
	TermSmoothness() float64
}

// sampled returns F as a FiniteSum with terms and L = n·maxᵢ L_fᵢ, the Lipschitz
// constant of n∇fᵢ, +Inf if unknown.
func (p Problem) sampled(method string) (f FiniteSum, lip float64, err error) {
	f, ok := p.F.(FiniteSum)
	if !ok {
		return nil, 0, fmt.Errorf("%w: %s: F is no FiniteSum, want a sum of terms to sample", ErrProblem, method)
	}
	n := f.Len()
	if n < 1 {
		return nil, 0, fmt.Errorf("%w: %s: F has no terms, want at least one to sample", ErrProblem, method)
	}
	lip = f.Smoothness()
	if t, ok := f.(TermSmoother); ok {
		lip = math.Min(lip, t.TermSmoothness())
	}
	if math.IsNaN(lip) || lip < 0 {
		return nil, 0, fmt.Errorf("%w: %s: F.Smoothness() = %v, want a number ≥ 0", ErrProblem, method, lip)
	}
	return f, float64(n) * lip, nil
}

// sampledStep returns step, or 1/(4L) if it is 0, and refuses those outside
// (0, limit/L).
func sampledStep(method string, step, limit, lip float64) (float64, error) {
	switch {
	case !(step >= 0) || math.IsInf(step, 1) || step*lip >= limit:
		return 0, fmt.Errorf("%w: %s.StepSize = %v, want a number in (0, %v/L), L = n·maxᵢ L_fᵢ = %v; a FiniteSum that is a TermSmoother has a "+
			"smaller L", ErrSettings, method, step, limit, lip)
	case step > 0:
		return step, nil
	case math.IsInf(lip, 1):
		return 0, fmt.Errorf("%w: %s: neither F.Smoothness() nor F.TermSmoothness() is finite, want one of them", ErrProblem, method)
	case lip == 0:
		return 1, nil
	}
	return 1 / (4 * lip), nil
}

// estimate is the state of an Estimator.
type estimate struct {
	sum    FiniteSum
	kind   Estimator
	rnd    *rand.Rand
	n      int
	idx    []int     // the term of this step
	table  []float64 // tᵢ by rows
	mean   []float64 // Σⱼtⱼ, or ∇f(w)
	anchor []float64 // w
	full   []float64 // ∇f(y) for the certificate of SAGA
	a      []float64
	since  int // steps since the last certificate
	owed   int // terms evaluated before the first step
}

// init prepares the estimates for a method of that name, and returns its step size.
func (e *estimate) init(method string, kind Estimator, step float64, p Problem, x0 []float64, rnd *rand.Rand) (gamma float64, err error) {
	sum, lip, err := p.sampled(method)
	if err != nil {
		return 0, err
	}
	if gamma, err = sampledStep(method, step, 0.5, lip); err != nil {
		return 0, err
	}
	if kind != SVRG && kind != SAGA {
		return 0, fmt.Errorf("%w: %s.Estimator = %v, want SVRG or SAGA", ErrSettings, method, kind)
	}
	d := len(x0)
	e.kind, e.sum, e.rnd, e.n = kind, sum, rnd, sum.Len()
	e.idx, e.mean, e.a, e.since, e.owed = resize(e.idx, 1), resize(e.mean, d), resize(e.a, d), 0, e.n
	if kind == SVRG {
		e.anchor = resize(e.anchor, d)
		copy(e.anchor, x0)
		sum.Grad(e.mean, x0)
		return gamma, nil
	}
	e.table, e.full = resize(e.table, e.n*d), resize(e.full, d)
	for i := range e.n {
		e.idx[0] = i
		sum.GradTerms(e.row(i), x0, e.idx)
	}
	e.total()
	return gamma, nil
}

// row returns tᵢ.
func (e *estimate) row(i int) []float64 {
	d := len(e.mean)
	return e.table[i*d : (i+1)*d : (i+1)*d]
}

// total sets mean to Σⱼtⱼ: kept current by updates, it would drift by rounding.
func (e *estimate) total() {
	clear(e.mean)
	for i := range e.n {
		floats.Add(e.mean, e.row(i))
	}
}

// at stores the estimate v of ∇f(y).
func (e *estimate) at(v, y []float64, stats *Stats) {
	e.idx[0] = e.rnd.IntN(e.n)
	stats.GradTerms += 1 + e.owed
	e.owed = 0
	n := float64(e.n)
	e.sum.GradTerms(v, y, e.idx) // ∇fᵢ(y)
	if e.kind == SVRG {
		e.sum.GradTerms(e.a, e.anchor, e.idx)
		stats.GradTerms++
		for j := range v {
			v[j] = n*(v[j]-e.a[j]) + e.mean[j]
		}
	} else {
		t := e.row(e.idx[0])
		for j, g := range v {
			change := g - t[j]
			t[j] = g
			v[j] = n*change + e.mean[j]
			e.mean[j] += change
		}
	}
	e.since++
}

// exact returns ∇f(y) where a full gradient is due: at a new anchor, or for
// SAGA every 2n steps.
func (e *estimate) exact(y []float64, stats *Stats) (grad []float64, due bool) {
	switch {
	case e.kind == SVRG && e.rnd.IntN(e.n) == 0:
		copy(e.anchor, y)
		grad = e.mean
	case e.kind == SAGA && e.since >= 2*e.n:
		e.total()
		grad = e.full
	default:
		return nil, false
	}
	e.since = 0
	e.sum.Grad(grad, y)
	stats.GradTerms += e.n
	return grad, true
}

// locate shows the best certified point, or y before the first certificate.
func (c *certificate) locate(loc *Location, y []float64) {
	if math.IsInf(c.bestRes, 1) {
		c.leastGap(loc, y)
		return
	}
	copy(loc.X, c.best)
	loc.Residual = c.bestRes
}
