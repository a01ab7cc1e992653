package accounting

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/pld"
)

// Noise returns the least noise z, rounded up by less than 1e-6 relative, with
// which steps noisy sums over batches of s are (ε, δ)-differentially private:
// the standard deviation of the noise on the sum is then zL.
//
//	z = min{ z : δ_{s,z,steps}(ε) ≤ δ }
//
// For δ < pld.MinDelta it rests on the Rényi curves. The returned z is one for which the
// inequality was checked. The error wraps dp.ErrBudget (also for δ = 0, which
// Gaussian noise does not give), ErrSampler, or dp.ErrCondition where no z
// serves.
func Noise(s Sampler, steps int, b dp.Budget) (z float64, err error) {
	if err := b.Check(); err != nil {
		return 0, fmt.Errorf("accounting: %w", err)
	}
	if b.Delta == 0 {
		return 0, fmt.Errorf("accounting: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), for example 1e-6",
			dp.ErrBudget, dp.MinDelta)
	}
	if steps < 1 || steps > MaxSteps {
		return 0, fmt.Errorf("%w: %d steps, want a number in [1, %d]", ErrSampler, steps, MaxSteps)
	}
	if _, err := Gaussian(s, 1); err != nil {
		return 0, err
	}
	// √(−2 log δ) is nearly linear in z; log δ = −∞ counts as very private.
	g := func(coarse float64) func(z float64) float64 {
		return func(z float64) float64 {
			d := deltaAt(s, z, steps, b, coarse)
			return math.Sqrt(-2*num.Log(max(min(d, 1), math.SmallestNonzeroFloat64))) - math.Sqrt(-2*num.Log(b.Delta))
		}
	}
	// A grid four times as coarse gives z to a percent at a tenth of the cost.
	z, ok := leastNoise(g(4), startNoise(s, steps, b), 1.2, 1e-3)
	if ok {
		z, ok = leastNoise(g(1), z*0.999, 1.003, 5e-7)
	}
	if !ok {
		return 0, fmt.Errorf("accounting: %w: no noise in [%.3g, %.3g] gives %v after %d steps of %v; below δ = %g samplers without a Rényi "+
			"bound need a larger δ", dp.ErrCondition, minNoise, maxNoise, b, steps, s, pld.MinDelta)
	}
	return z, nil
}

// deltaAt returns a bound on δ(ε) of steps steps at noise z.
func deltaAt(s Sampler, z float64, steps int, b dp.Budget, coarse float64) float64 {
	step, err := Gaussian(s, z)
	if err != nil {
		return 1
	}
	c, err := Compose(step.Times(steps))
	if err != nil {
		return 1
	}
	c.law.Coarse = coarse
	if b.Delta < pld.MinDelta && c.gauss == 0 && c.total > 1 {
		return c.RDP().Curve(orders()...)(b.Epsilon)
	}
	return c.Delta(b.Epsilon)
}

// startNoise guesses z: that of a Gaussian mechanism on the average share of a
// record, q√T of the noise for everything at once.
func startNoise(s Sampler, steps int, b dp.Budget) float64 {
	unit, err := dp.GaussianSigma(b, reach(s.Neighbors()))
	if err != nil {
		return 1
	}
	q := s.Fraction()
	z := unit * q * math.Sqrt(float64(steps))
	return min(max(z, 0.3), maxNoise/2)
}

// leastNoise returns a z with g(z) ≥ 0 that is the least up to the relative
// tol, for a g that does not decrease (num.Narrow). It looks
// for a bracket by a factor that squares from step to step.
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
