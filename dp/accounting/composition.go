package accounting

import (
	"fmt"
	"math"
	"sync"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
)

// Composition is the release of all outputs of a list of steps, each chosen
// with knowledge of those before it.
//
// Each step is replaced by a discrete pair of laws that dominates it (grid.go)
// and the losses of the pairs, which add up, are convolved by FFT (tail.go).
// Domination of the steps gives domination of their composition, also when they
// are chosen adaptively [ZDW22, Theorem 10]. On top of this come the mass cut off
// at the ends (1e-15 over all steps), the mass outside the window of the FFT
// and a bound on the rounding of the FFT, all added to δ. Under add-remove
// both orders are computed.
//
// Compositions of one step, and of Full steps only, are evaluated in closed
// form. A Composition is immutable and safe for concurrent use.
type Composition struct {
	steps []Step
	rel   dp.Relation
	total int
	gauss float64 // s of a composition of Gaussian mechanisms, else 0

	grid   float64 // step of the grid; 0 means automatic
	coarse float64 // multiplies the automatic grid; 0 means 1
	whole  bool    // the grid holds every step to its end, however coarse it gets

	chosen sync.Once
	start  float64      // step of the automatic grid, before it is made to fit
	end    float64      // a loss beyond it, if steps go on well beyond it, else 0
	wide   *Composition // on a whole grid, where end > 0
	built  sync.Once
	laws   []law // one per order
}

// Compose returns the composition of steps. The error wraps ErrSampler or,
// for a mix of relations, dp.ErrRelation.
func Compose(steps ...Step) (*Composition, error) {
	if len(steps) == 0 {
		return nil, fmt.Errorf("%w: no steps to compose, want at least one", ErrSampler)
	}
	c := &Composition{rel: steps[0].rel}
	var s2 float64
	for i, s := range steps {
		switch {
		case s.rel == 0:
			return nil, fmt.Errorf("%w: step %d is empty, want one made by Gaussian or General", ErrSampler, i)
		case s.count < 1 || c.total > MaxSteps-s.count:
			return nil, fmt.Errorf("%w: step %d is repeated fewer than 1 or more than %d times", ErrSampler, i, MaxSteps)
		case s.rel != c.rel:
			return nil, fmt.Errorf("accounting: %w: step %d is about %v neighbors and step 0 about %v, want one relation", dp.ErrRelation, i, s.rel, c.rel)
		}
		c.total += s.count
		s2 += float64(s.count) * s.gauss * s.gauss
		if s.gauss == 0 {
			s2 = math.Inf(1)
		}
		c.steps = append(c.steps, s)
	}
	if !math.IsInf(s2, 1) {
		c.gauss = math.Sqrt(s2) * (1 + float64(len(steps)+8)*0x1p-53) // a rounding a step
	}
	return c, nil
}

// Relation returns the neighbors that the steps are about.
func (c *Composition) Relation() dp.Relation { return c.rel }

// Steps returns the number of steps, repetitions counted.
func (c *Composition) Steps() int { return c.total }

// Delta returns an upper bound on the least δ for which the composition is
// (ε, δ)-differentially private, for any real ε: the larger one of the two orders
// of Profile. It costs a few FFTs. Where it is below MinDelta the Rényi curve of
// the steps bounds it as well.
func (c *Composition) Delta(eps float64) float64 {
	d := c.delta(up, eps)
	if !c.symmetric() {
		d = max(d, c.delta(down, eps))
	}
	return d
}

// Profile returns the curves of both orders, and RDP: Remove takes the law with the
// record first. Where no step tells them apart they are the same curve.
func (c *Composition) Profile() dp.Profile {
	p := dp.Symmetric(func(eps float64) float64 { return c.delta(up, eps) }, c.RDP())
	if !c.symmetric() {
		p.Add = func(eps float64) float64 { return c.delta(down, eps) }
	}
	return p
}

// order says which law of a pair comes first.
type order int

const (
	up   order = iota // P, the one with the record
	down              // Q
)

// symmetric tells whether both orders have one curve.
func (c *Composition) symmetric() bool {
	for _, s := range c.steps {
		if !s.pair.symmetric {
			return false
		}
	}
	return true
}

// delta returns a bound on δ(ε) of one order.
func (c *Composition) delta(o order, eps float64) float64 {
	switch {
	case math.IsNaN(eps), math.IsInf(eps, -1):
		return 1
	case math.IsInf(eps, 1):
		return 0
	case c.gauss > 0:
		return min(1, dp.GaussianDelta(eps, c.gauss)*(1+1e-11))
	case c.total == 1:
		if o == down {
			return c.steps[0].pair.swapped().at(eps)
		}
		return c.steps[0].pair.at(eps)
	}
	least := 1.0
	if wide := c.wider(); wide != nil {
		least = wide.onGrid(o, eps)
	}
	if c.beyond() < least {
		least = min(least, c.onGrid(o, eps))
	}
	if least < MinDelta {
		least = min(least, c.RDP().Curve(orders()...)(eps))
	}
	if !(least <= 1) { // NaN: a profile that no pair of laws has, such as 0 everywhere
		return 1
	}
	return least
}

// onGrid returns the bound on δ(ε) of one order from the grid.
func (c *Composition) onGrid(o order, eps float64) float64 {
	laws := c.build()
	if len(laws) == 0 {
		return 1
	}
	if eps < 0 { // 1 − e^ε + e^ε δ_exchanged(−ε)
		return min(1, -math.Expm1(eps)+math.Exp(eps)*laws[int(1-o)%len(laws)].delta(-eps))
	}
	return laws[int(o)%len(laws)].delta(eps)
}

// delta returns a bound on δ(ε) of the law, ε ≥ 0.
func (l *law) delta(eps float64) float64 {
	if t, ok := l.tail(eps); ok {
		return t.delta(eps)
	}
	return l.chernoff(eps)
}

// Epsilon returns an ε ≥ 0 for which the composition is (ε, delta)-
// differentially private, least up to 1e-9 relative and the errors that Delta
// allows for; +Inf if none is known. Below MinDelta it rests on the Rényi
// curve of the steps alone, unless the composition has a closed form.
func (c *Composition) Epsilon(delta float64) float64 {
	switch {
	case !(delta > 0 && delta < 1):
		return math.Inf(1)
	case c.gauss > 0, c.total == 1:
		return c.Profile().Epsilon(delta)
	case delta < MinDelta:
		eps, _ := c.RDP().Epsilon(delta, orders()...)
		return eps
	}
	eps := math.Inf(1)
	for _, c := range []*Composition{c, c.wider()} {
		if c == nil || len(c.build()) == 0 {
			continue
		}
		var worst float64
		for i := range c.laws {
			worst = max(worst, c.laws[i].epsilon(delta))
		}
		eps = min(eps, worst)
	}
	return eps
}

// epsilon returns ε ≥ 0 with δ(ε) ≤ delta, rounded up.
func (l *law) epsilon(delta float64) float64 {
	// ε₀ by the Chernoff bound, minimized over λ on a grid; the true one is
	// less by a few 1/λ.
	rest := 0.999 * (delta - l.inf())
	if rest <= 0 {
		return math.Inf(1)
	}
	eps0 := math.Inf(1)
	for lambda := 1e-3; lambda < 600/l.largest(); lambda *= 1.3 {
		k, _, _ := l.cumulant(lambda)
		eps0 = min(eps0, (chernoff(k, lambda, 0)-specfun.Log(rest))/lambda)
	}
	eps0 = max(eps0, 0)
	t, ok := l.tail(eps0)
	if !ok {
		if l.chernoff(eps0) <= delta {
			return eps0
		}
		return math.Inf(1)
	}
	eps := t.epsilon(eps0, delta)
	if eps0-eps > 4/t.lambda { // the slack of a tail grows away from its ε₀
		if t, ok := l.tail(eps); ok {
			eps = min(eps, t.epsilon(eps, delta))
		}
	}
	return eps
}

// epsilon returns ε ≥ 0 with δ(ε) ≤ delta at most eps0, +Inf if that has more.
func (t *tail) epsilon(eps0, delta float64) float64 {
	if !(t.delta(eps0) <= delta) {
		return math.Inf(1)
	}
	if t.delta(0) <= delta {
		return 0
	}
	lo, hi := max(0, eps0-(span-3)/t.lambda), eps0 // δ(lo) > delta ≥ δ(hi)
	for hi-lo > 1e-9*hi {
		if mid := (lo + hi) / 2; t.delta(mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

const (
	// cutMass is what the ends of all grid laws together leave to +∞.
	cutMass = 1e-15
	// The automatic grid is at most widest, and a finest-th of the standard
	// deviation of a step, or up to a coarsest-th where it would have more than
	// fewPoints. The error of δ falls with the square of the grid: on the rows of the
	// tests z is too large by at most 1e-4, or 3e-4 on a coarsest grid.
	widest    = 2e-3
	finest    = 30
	coarsest  = 12
	fewPoints = 1 << 15
	// maxPoints of one grid law on either side of 0.
	maxPoints = 1 << 18
)

// build discretizes the steps, once.
func (c *Composition) build() []law {
	c.choose()
	c.built.Do(func() {
		h := c.start
		for range 40 { // coarser until it fits; laws that never do leave δ = 1
			laws, coarser := c.discretize(h)
			if coarser == 1 || c.grid > 0 {
				c.laws = laws
				break
			}
			h *= coarser
		}
	})
	return c.laws
}

// choose sets the step of the grid before it is made to fit, once.
func (c *Composition) choose() {
	points := func(h float64) (most int) {
		for _, s := range c.steps {
			most = max(most, extent(s.pair, h, c.cutEach(), maxPoints))
		}
		return most
	}
	c.chosen.Do(func() {
		if c.grid > 0 {
			c.start = c.grid
			return
		}
		if c.whole {
			c.start = widest * float64(points(widest)) / fewPoints * max(1, c.coarse)
			return
		}
		h := widest
		for _, s := range c.steps {
			// The total variation δ(0) of a Gaussian is 0.4 sd.
			if sd := 2.5 * s.pair.up(0); sd > 0 {
				h = min(h, sd/finest)
			}
		}
		h = max(h, 1e-9)
		most := points(h)
		c.start = h * min(max(1, float64(most)/fewPoints), float64(finest)/coarsest) * max(1, c.coarse)
		if most == maxPoints {
			for range 40 { // as discretize will
				if _, coarser := c.points(c.start); coarser == 1 {
					break
				}
				c.start *= 2
			}
			c.end = 4 * maxPoints * c.start // that it fits an FFT may take some more
			c.wide = &Composition{steps: c.steps, rel: c.rel, total: c.total, coarse: c.coarse, whole: true}
		}
	})
}

// wider returns the composition on a grid that holds every step to its end, nil
// if the automatic grid does. A record that is rare and shows when it is there has
// losses on two scales: most are as small as its rate and some as large as without
// sampling. Either grid gives a bound, and the lesser counts.
func (c *Composition) wider() *Composition {
	c.choose()
	return c.wide
}

// beyond returns about the mass that the automatic grid leaves to +∞ when it is
// made to fit, which tells whether its bound can be the lesser one.
func (c *Composition) beyond() float64 {
	c.choose()
	if c.end == 0 {
		return 0
	}
	var log float64
	for _, s := range c.steps {
		log += float64(s.count) * math.Log1p(-min(1, s.pair.up(c.end)))
	}
	return -math.Expm1(log)
}

// points returns how many points on either side of 0 each step takes on a grid
// of step h, and 2 if a coarser grid serves a step better.
func (c *Composition) points(h float64) (points []int, coarser float64) {
	for _, s := range c.steps {
		n := extent(s.pair, h, c.cutEach(), maxPoints)
		end := float64(n) * h
		if n == maxPoints && (s.pair.up(2*end) < s.pair.up(end)/2 || c.whole) {
			return nil, 2
		}
		points = append(points, n)
	}
	return points, 1
}

// cutEach is the mass that one step leaves to +∞.
func (c *Composition) cutEach() float64 { return cutMass / float64(c.total) }

// discretize returns the laws of both orders on a grid of step h, and the factor
// by which it is too fine to hold them, 1 if it is not.
func (c *Composition) discretize(h float64) (laws []law, coarser float64) {
	points, coarser := c.points(h)
	if coarser > 1 {
		return nil, coarser
	}
	one := law{h: h}
	sym := true
	for i, s := range c.steps {
		one.parts = append(one.parts, connect(s.pair, h, points[i]))
		one.times = append(one.times, float64(s.count))
		sym = sym && s.pair.symmetric
	}
	laws = []law{one}
	if !sym {
		two := law{h: h, times: one.times}
		for i, s := range c.steps {
			points := (len(one.parts[i].p) - 1) / 2
			two.parts = append(two.parts, connect(s.pair.swapped(), h, points))
		}
		laws = append(laws, two)
	}
	for i := range laws { // the window at the mean tells the length of the FFT
		k, mean, variance := laws[i].cumulant(1e-3)
		if lo, hi := laws[i].window(1e-3, k, mean, variance); !(hi-lo < maxBins*h) {
			coarser = max(coarser, min(max(1.1*(hi-lo)/(maxBins*h), 1.5), 4))
		}
	}
	return laws, max(coarser, 1)
}
