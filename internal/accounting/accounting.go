// Package accounting bounds what many noisy sums over random batches cost
// together: the privacy of stochastic gradient descent.
//
// A Sampler is a way to draw batches and, in the same value, the privacy
// profile of one noisy sum over such a batch. A program that draws from a
// Sampler cannot account for another one.
//
// # One step
//
// A step draws a batch, clips every record's vector to norm L, and releases the
// sum plus N(0, z²L²I). With α = e^ε, t = log1p((α−1)/q), the Gaussian profile
// δ_G of package dp and ε ≥ 0:
//
//	Poisson(q), add-remove    removing: q δ_G(t, 1/z)
//	                          adding:   (1−(1−q)α) δ_G(−log((1/α−1+q)/q), 1/z), 0 for α ≥ 1/(1−q)
//	                          [ZDW22, Theorem 11]; exact
//	Poisson(q), replace       q[(1−v) δ_G(t, 1/z) + v δ_G(t, 2/z)],  v = αe^{−t}
//	                          [BBG18, Theorem 2]: a record that is not in the batch
//	                          changes the sum by L, a replaced one by 2L
//	m of n without            q δ_G(t, 2/z),  q = m/n   [BBG18, Theorem 9]; exact
//	replacement, replace
//	m draws with              Σ_{k≥1} Binom(m, 1/n)(k) δ_G(t, 2k/z),  q = 1−(1−1/n)^m
//	replacement, replace      [BBG18, Theorem 10]
//	all records               δ_G(ε, 2/z) for replace, δ_G(ε, 1/z) for add-remove
//
// At ε < 0 a profile follows from the one with the two data sets exchanged,
// δ(ε) = 1 − e^ε + e^ε δ_exchanged(−ε).
//
// # Many steps
//
// Composition computes the loss distribution of adaptive composition from a
// discrete pair of laws that dominates each step. Every approximation raises δ.
//
// # Notation
//
//	z            noise: standard deviation of the noise on the sum, over L
//	L            clipping norm of one record's vector
//	q            probability that a record is in the batch
//	m, n         size of the batch, number of records
//	ε, δ(ε)      dp.Budget; dp.Curve
//	δ_G(ε, s)    dp.GaussianDelta
//	T            number of steps
//
// # References
//
//	[BBG18]  Balle, Barthe, Gaboardi. Privacy Amplification by Subsampling:
//	         Tight Analyses via Couplings and Divergences. NeurIPS 2018.
//	[MTZ19]  Mironov, Talwar, Zhang. Rényi Differential Privacy of the Sampled
//	         Gaussian Mechanism. 2019.
//	[WBK19]  Wang, Balle, Kasiviswanathan. Subsampled Rényi Differential
//	         Privacy and Analytical Moments Accountant. AISTATS 2019.
//	[ZDW22]  Zhu, Dong, Wang. Optimal Accounting of Differential Privacy via
//	         Characteristic Function. AISTATS 2022.
package accounting

import (
	"errors"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/pld"
)

// ErrSampler reports a sampler, a noise or a number of steps outside its
// range. Test with errors.Is.
var ErrSampler = errors.New("accounting: invalid parameter")

// Least and largest noise z. Beyond them a profile is 1 or 0 to float64.
const (
	minNoise = 0x1p-20
	maxNoise = 0x1p40
)

// MaxSteps is the largest number of steps of a Composition.
const MaxSteps = 1 << 40

// A Step is one noisy sum over a batch, made by [Gaussian]; the zero value is invalid.
type Step struct {
	rel   dp.Relation
	pair  pld.Pair
	rdp   dp.RDP
	gauss float64 // s if the step is exactly δ_G(ε, s) both ways, else 0
	count int
}

// Gaussian returns the step that adds N(0, z²L²I) to the sum of vectors of
// norm at most L over a batch of s. The error wraps ErrSampler or
// dp.ErrRelation.
func Gaussian(s Sampler, z float64) (Step, error) {
	if s == nil {
		return Step{}, fmt.Errorf("%w: the Sampler is nil, want for example Poisson{Rate: 0.01}", ErrSampler)
	}
	if err := s.Check(); err != nil {
		return Step{}, err
	}
	if !(z >= minNoise && z <= maxNoise) {
		return Step{}, fmt.Errorf("%w: noise z = %v, want a number in [%.3g, %.3g], the standard deviation over the clipping norm", ErrSampler, z,
			minNoise, maxNoise)
	}
	return s.step(z), nil
}

// Times returns count repetitions of s, each chosen with knowledge of the
// outputs before it and with fresh batches and noise. Compose refuses a count
// below 1.
func (s Step) Times(count int) Step {
	if s.count > 0 && count > MaxSteps/s.count {
		count = 0 // refused by Compose, as every overflow
	}
	s.count *= max(count, 0)
	return s
}
