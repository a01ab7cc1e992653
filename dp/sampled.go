package dp

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp/internal/pld"
	"github.com/privopt/privopt/internal/num"
)

// Least and largest noise z. Beyond them a profile is 1 or 0 to float64.
const (
	minNoise = 0x1p-20
	maxNoise = 0x1p40
)

// noisySums is the release of noisy sums, each chosen with knowledge of those before it. One sum
// and sums over all records have closed forms; otherwise loss distributions compose.
type noisySums struct {
	steps int
	gauss float64 // s if the sums are exactly δ_G(ε, s) both ways, else 0
	law   *pld.Composition
	rdp   RDP
}

// sums checks its arguments.
func (s Sampler) sums(noise float64, steps int) (*noisySums, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if !(noise >= minNoise && noise <= maxNoise) {
		return nil, fmt.Errorf("%w: noise = %v, want a number in [%.3g, %.3g], the standard deviation over the clipping norm", ErrSampler, noise,
			minNoise, maxNoise)
	}
	if steps < 1 || steps > MaxSteps {
		return nil, fmt.Errorf("%w: steps = %d, want a number in [1, %d]", ErrSampler, steps, MaxSteps)
	}
	one := s.one(noise)
	t := float64(steps)
	c := &noisySums{steps: steps, law: pld.New([]pld.Part{{Pair: one.pair, Times: steps}})}
	c.gauss = math.Sqrt(t*one.gauss*one.gauss) * (1 + 9*0x1p-53) // more than its roundings
	c.rdp = func(alpha float64) float64 {
		if !(alpha > 1) {
			return math.Inf(1)
		}
		return t * one.rdp(alpha)
	}
	return c, nil
}

// Profile returns the privacy profile of the given number of noisy sums over batches of s, each
// chosen with knowledge of those before it. The sums at ε > 0 cost a few FFTs. The error wraps
// ErrSampler or ErrRelation.
func (s Sampler) Profile(noise float64, steps int) (Profile, error) {
	c, err := s.sums(noise, steps)
	if err != nil {
		return Unknown(), err
	}
	return c.profile(), nil
}

// Epsilon returns the least ε that is known for the given number of noisy sums over batches of s at
// delta, up to 1e-9 relative and the errors that the profile allows for; +Inf where none is known.
// Below delta = 1e-12 it rests on Rényi curves. The error wraps ErrSampler, ErrRelation or
// ErrBudget.
func (s Sampler) Epsilon(noise float64, steps int, delta float64) (float64, error) {
	if err := (Budget{1, delta}).checkGaussian(); err != nil {
		return math.Inf(1), err
	}
	c, err := s.sums(noise, steps)
	if err != nil {
		return math.Inf(1), err
	}
	return c.epsilon(delta), nil
}

// Noise returns the least noise z, rounded up by less than 1e-6 relative, with which the given
// number of noisy sums over batches of s is (ε, δ)-differentially private:
//
//	z = min{ z : δ_{s,z,steps}(ε) ≤ δ }
//
// The inequality was checked for the z that is returned. Below δ = 1e-12 it rests on Rényi curves.
// The error wraps ErrSampler, ErrRelation, ErrBudget (also for δ = 0, which Gaussian noise does not
// give), or ErrCondition where no z serves.
func (s Sampler) Noise(steps int, b Budget) (z float64, err error) {
	if err := b.checkGaussian(); err != nil {
		return 0, err
	}
	if _, err := s.sums(1, steps); err != nil {
		return 0, err
	}
	// √(−2 log δ) is nearly linear in z; log δ = −∞ counts as very private.
	g := func(coarse float64) func(z float64) float64 {
		return func(z float64) float64 {
			d := s.deltaAt(z, steps, b, coarse)
			return math.Sqrt(-2*num.Log(max(min(d, 1), math.SmallestNonzeroFloat64))) - math.Sqrt(-2*num.Log(b.Delta))
		}
	}
	// A grid four times as coarse gives z to a percent at a tenth of the cost.
	z, ok := leastNoise(g(4), s.startNoise(steps, b), 1.2, 1e-3)
	if ok {
		z, ok = leastNoise(g(1), z*0.999, 1.003, 5e-7)
	}
	if !ok {
		return 0, fmt.Errorf("%w: no noise in [%.3g, %.3g] gives %v after %d steps of %v; below δ = %g samplers without a Rényi "+
			"bound need a larger δ", ErrCondition, minNoise, maxNoise, b, steps, s, pld.MinDelta)
	}
	return z, nil
}

// delta returns a bound on δ(ε) of both orders.
func (c *noisySums) delta(eps float64) float64 {
	p := c.profile()
	if c.law.Symmetric() { // once is enough
		p.Add = func(float64) float64 { return 0 }
	}
	return p.Delta(eps)
}

func (c *noisySums) profile() Profile {
	p := Symmetric(func(eps float64) float64 { return c.order(pld.Up, eps) }, c.rdp)
	if !c.law.Symmetric() {
		p.Add = func(eps float64) float64 { return c.order(pld.Down, eps) }
	}
	return p
}

// order returns a bound on δ(ε) of one order.
func (c *noisySums) order(o pld.Order, eps float64) float64 {
	if c.gauss > 0 {
		return min(1, GaussianDelta(eps, c.gauss)*(1+1e-11))
	}
	d := c.law.Delta(o, eps)
	if d < pld.MinDelta && c.steps > 1 && !math.IsInf(eps, 1) {
		d = min(d, c.rdp.Curve(orders()...)(eps))
	}
	return d
}

func (c *noisySums) epsilon(delta float64) float64 {
	switch {
	case c.gauss > 0, c.steps == 1:
		return c.profile().Epsilon(delta)
	case delta < pld.MinDelta:
		eps, _ := c.rdp.Epsilon(delta, orders()...)
		return eps
	}
	return c.law.Epsilon(delta)
}

// deltaAt returns a bound on δ(ε) of steps sums with noise z, 1 where z is out of range.
func (s Sampler) deltaAt(z float64, steps int, b Budget, coarse float64) float64 {
	c, err := s.sums(z, steps)
	if err != nil {
		return 1
	}
	c.law.Coarse = coarse
	if b.Delta < pld.MinDelta && c.gauss == 0 && steps > 1 {
		return c.rdp.Curve(orders()...)(b.Epsilon)
	}
	return c.delta(b.Epsilon)
}

// startNoise guesses z: that of a Gaussian mechanism on the average share of a record, q√T of the
// noise for everything at once.
func (s Sampler) startNoise(steps int, b Budget) float64 {
	unit, err := GaussianSigma(b, reach(s.Neighbors()))
	if err != nil {
		return 1
	}
	z := unit * s.Fraction() * math.Sqrt(float64(steps))
	return min(max(z, 0.3), maxNoise/2)
}

// leastNoise returns a z with g(z) ≥ 0 that is the least up to the relative tol, for a g that does
// not decrease. It looks for a bracket by a factor that squares from step to step.
func leastNoise(g func(z float64) float64, guess, factor, tol float64) (z float64, ok bool) {
	lo, hi := guess, guess
	ghi := g(hi)
	glo := ghi
	for f := factor; !(ghi >= 0); f *= f {
		if hi >= maxNoise {
			return 0, false
		}
		lo, glo = hi, ghi
		hi = min(hi*f, maxNoise)
		ghi = g(hi)
	}
	for f := factor; glo >= 0; f *= f {
		hi, ghi = lo, glo
		if hi <= minNoise {
			return hi, true
		}
		lo = max(lo/f, minNoise)
		glo = g(lo)
	}
	return num.Narrow(g, lo, glo, hi, ghi, tol), true
}
