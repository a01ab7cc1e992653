// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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
	switch err := s.Check(); {
	case err != nil:
		return nil, err
	case !(noise >= minNoise && noise <= maxNoise):
		return nil, fmt.Errorf("%w: noise = %v, want a number in [%.3g, %.3g], the standard deviation over the clipping norm",
			ErrSampler, noise, minNoise, maxNoise)
	case steps < 1 || steps > MaxSteps:
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
		return 0, fmt.Errorf("%w: no noise in [%.3g, %.3g] gives %v after %d steps of %v; below δ = %g samplers without "+
			"a Rényi bound need a larger δ", ErrCondition, minNoise, maxNoise, b, steps, s, pld.MinDelta)
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

// startNoise guesses z. The guess is q√T times the noise of a Gaussian mechanism over all records.
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

// noisySum is one noisy sum over a batch.
type noisySum struct {
	pair  pld.Pair
	rdp   RDP
	gauss float64 // s if the sum is exactly δ_G(ε, s) both ways, else 0
}

// one returns the sum with noise z. Its profiles are those of
// docs/theory/population.md#population.step, with t = log1p((e^ε−1)/q).
func (s Sampler) one(z float64) noisySum {
	q, rel := s.Fraction(), s.Neighbors()
	switch {
	case s.Repeats: // without a Rényi bound
		return noisySum{pair: pld.Symmetric(drawn(s.Size, s.Records, z)), rdp: func(float64) float64 { return math.Inf(1) }}
	case q == 1:
		r := reach(rel) / z
		return noisySum{pld.Symmetric(func(eps float64) float64 { return gaussDelta(eps, r) }), GaussianRDP(r), r}
	case s.Size > 0:
		return noisySum{pair: pld.Symmetric(present(q, 2/z)), rdp: rdpReplace(q, z)}
	case rel == Replace:
		return noisySum{pair: pld.Symmetric(poissonReplace(q, z)), rdp: rdpReplace(q, z)}
	}
	return noisySum{pair: pld.Pair{Up: present(q, 1/z), Down: poissonAdd(q, z)}, rdp: rdpPoisson(q, z)}
}

// reach returns the distance, in units of L, by which one record that is in the batch for certain
// can move the sum.
func reach(r Relation) float64 {
	if r == Replace {
		return 2
	}
	return 1
}

// gaussDelta returns δ_G(ε, s) for ε ≥ 0 with relative error below 1e-11.
//
// With a = ε/s − s/2, b = a + s the difference Φ(−a) − e^ε Φ(−b) loses a factor of about (1+a)/s on
// the error a²·2⁻⁵³ of erfc, which is affordable for s ≥ ¼ and a ≤ 20 (6e-12 there, against 60
// digits); [GaussianDelta] loses nothing and takes ten times as long.
func gaussDelta(eps, s float64) float64 {
	if s < 0.25 || eps/s-s/2 > 20 {
		return GaussianDelta(eps, s)
	}
	return gaussAt(eps, math.Exp(eps), s)
}

// gaussAt is the difference itself, α = e^ε.
func gaussAt(eps, alpha, s float64) float64 {
	a, b := eps/s-s/2, eps/s+s/2
	return max(0, (math.Erfc(a/math.Sqrt2)-alpha*math.Erfc(b/math.Sqrt2))/2)
}

// inner returns t = log1p((e^ε−1)/q), the ε that the part with the record has to meet for the
// mixture to meet ε.
func inner(eps, q float64) float64 { return math.Log1p(math.Expm1(eps) / q) }

// present returns q δ_G(t, s): the profile of P = (1−q)N(0,1)+qN(s,1) against Q = N(0,1). Poisson
// batches have s = 1/z; in a batch of a fixed size without the record another one has its place, so
// that all differences are up to 2L, and s = 2/z.
func present(q, s float64) func(eps float64) float64 {
	return func(eps float64) float64 { return q * gaussDelta(inner(eps, q), s) }
}

// poissonAdd returns the profile of Q against P. With y = 1 − (1−e^{−ε})/q, 1−(1−q)e^ε = q e^ε y
// and
//
//	q e^ε y δ_G(−log y, 1/z) for y > 0, else 0.
//
// It increases with y, so y is raised by more than its rounding.
func poissonAdd(q, z float64) func(eps float64) float64 {
	end := -math.Log1p(-q) * (1 + 0x1p-50)
	return func(eps float64) float64 {
		if eps >= end {
			return 0
		}
		y := min(1, 1+math.Expm1(-eps)/q+0x1p-51)
		if y <= 0 {
			return 0
		}
		return q * math.Exp(eps) * y * gaussDelta(-num.Log(y), 1/z)
	}
}

// poissonReplace returns q[(1−v) δ_G(t, 1/z) + v δ_G(t, 2/z)], v = e^{ε−t}: a record that is not in
// the batch changes the sum by L, one that is replaced by 2L.
func poissonReplace(q, z float64) func(eps float64) float64 {
	return func(eps float64) float64 {
		t := inner(eps, q)
		if math.IsInf(t, 1) {
			return 0
		}
		v := math.Exp(eps - t)
		one := -math.Expm1(eps - t) // 1 − v
		return q * (max(0, one)*gaussDelta(t, 1/z) + v*gaussDelta(t, 2/z))
	}
}

// negligible is a mass so small that even MaxSteps of them are not felt.
const negligible = 1e-30

// drawn returns Σ_{k≥1} Binom(m, 1/n)(k) δ_G(t, 2k/z). The terms from where their weights fall
// below negligible on are replaced by those weights.
func drawn(m, n int, z float64) func(eps float64) float64 {
	p := 1 / float64(n)
	if n == 1 {
		s := 2 * float64(m) / z
		return func(eps float64) float64 { return gaussDelta(eps, s) }
	}
	logit := num.Log(p) - math.Log1p(-p)
	lw := float64(m) * math.Log1p(-p) // log Binom(m, p)(0)
	q := -math.Expm1(lw)
	var weights []float64
	rest := 0.0
	for k := 1; k <= m; k++ {
		lw += num.Log(float64(m-k+1)) - num.Log(float64(k)) + logit
		// Beyond twice the mean the weights fall by half at least.
		w := math.Exp(lw)
		if w < negligible && float64(k) > 2*float64(m)*p {
			rest = 2 * negligible
			break
		}
		// The roundings of the summands of lw, which are below 150 as the mean
		// is at most mostCopies, add up to less than k·2⁻⁴⁴.
		weights = append(weights, w*(1+float64(k)*0x1p-44))
	}
	return func(eps float64) float64 {
		t := inner(eps, q)
		if math.IsInf(t, 1) {
			return min(rest, 1)
		}
		sum, x := rest, 1+math.Expm1(eps)/q // e^t
		for i, w := range weights {
			s := 2 * float64(i+1) / z
			switch a := t/s - s/2; {
			case a > 38: // δ_G ≤ Φ(−a) < 1e-300
				sum += w * 1e-300
			case s < 0.25 || a > 20:
				sum += w * GaussianDelta(t, s)
			default:
				sum += w * gaussAt(t, x, s)
			}
		}
		return min(1, sum)
	}
}
