package accounting

import (
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/pld"
)

// Composition is the release of all outputs of a list of steps, each chosen with
// knowledge of those before it.
//
// Its profile comes from the loss distributions of the steps (package internal/pld);
// under add-remove the two orders are composed apart. Compositions of one step, and
// of Full steps only, are evaluated in closed form. A Composition is immutable and
// safe for concurrent use.
type Composition struct {
	steps []Step
	rel   dp.Relation
	total int
	gauss float64 // s of a composition of Gaussian mechanisms, else 0
	law   *pld.Composition
}

// Compose returns the composition of steps. The error wraps ErrSampler or,
// for a mix of relations, dp.ErrRelation.
func Compose(steps ...Step) (*Composition, error) {
	if len(steps) == 0 {
		return nil, fmt.Errorf("%w: no steps to compose, want at least one", ErrSampler)
	}
	c := &Composition{rel: steps[0].rel, steps: slices.Clone(steps)}
	var s2 float64
	for i, s := range steps {
		switch {
		case s.rel == 0:
			return nil, fmt.Errorf("%w: step %d is empty, want one made by Gaussian", ErrSampler, i)
		case s.count < 1 || c.total > MaxSteps-s.count:
			return nil, fmt.Errorf("%w: step %d is repeated fewer than 1 or more than %d times", ErrSampler, i, MaxSteps)
		case s.rel != c.rel:
			return nil, fmt.Errorf("accounting: %w: step %d is about %v neighbors and step 0 about %v, want one relation", dp.ErrRelation, i, s.rel,
				c.rel)
		}
		c.total += s.count
		s2 += float64(s.count) * s.gauss * s.gauss
		if s.gauss == 0 {
			s2 = math.Inf(1)
		}
	}
	if !math.IsInf(s2, 1) {
		c.gauss = math.Sqrt(s2) * (1 + float64(len(steps)+8)*0x1p-53) // a rounding a step
	}
	var parts []pld.Part
	for _, s := range steps {
		parts = append(parts, pld.Part{Pair: s.pair, Times: s.count})
	}
	c.law = pld.New(parts)
	return c, nil
}

// Delta returns an upper bound on the least δ for which the composition is
// (ε, δ)-differentially private, for any real ε: the larger one of the two orders
// of Profile. It costs a few FFTs. Where it is below pld.MinDelta the Rényi curve of
// the steps bounds it as well.
func (c *Composition) Delta(eps float64) float64 {
	p := c.Profile()
	if c.law.Symmetric() { // once is enough
		p.Add = func(float64) float64 { return 0 }
	}
	return p.Delta(eps)
}

// Profile returns the curves of both orders and RDP: Remove takes the law with the record
// first. The two curves are the same one where they are equal for every step.
func (c *Composition) Profile() dp.Profile {
	p := dp.Symmetric(func(eps float64) float64 { return c.delta(pld.Up, eps) }, c.RDP())
	if !c.law.Symmetric() {
		p.Add = func(eps float64) float64 { return c.delta(pld.Down, eps) }
	}
	return p
}

// delta returns a bound on δ(ε) of one order.
func (c *Composition) delta(o pld.Order, eps float64) float64 {
	if c.gauss > 0 {
		return min(1, dp.GaussianDelta(eps, c.gauss)*(1+1e-11))
	}
	d := c.law.Delta(o, eps)
	if d < pld.MinDelta && c.total > 1 && !math.IsInf(eps, 1) {
		d = min(d, c.RDP().Curve(orders()...)(eps))
	}
	return d
}

// Epsilon returns an ε ≥ 0 for which the composition is (ε, delta)-
// differentially private, least up to 1e-9 relative and the errors that Delta
// allows for; +Inf if none is known. Below pld.MinDelta it
// rests on the Rényi curve of the steps alone, unless the composition has a closed
// form.
func (c *Composition) Epsilon(delta float64) float64 {
	switch {
	case !(delta > 0 && delta < 1):
		return math.Inf(1)
	case c.gauss > 0, c.total == 1:
		return c.Profile().Epsilon(delta)
	case delta < pld.MinDelta:
		eps, _ := c.RDP().Epsilon(delta, orders()...)
		return eps
	}
	return c.law.Epsilon(delta)
}
