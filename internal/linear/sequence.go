// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// A Sequence is a fixed number of exact minimizers of linearly perturbed objectives with losses of
// ⟨a,θ⟩, and of releases with Gaussian noise, in any order. Each may depend on the results of
// earlier ones; the numbers here may not. With
//
//	sᵢ = G/σᵢ, cᵢ    of minimizer i
//	t                root of the sum of (sensitivity/noise)² of the Gaussian releases
//	μ² = Σsᵢ² + t²,  c = Σcᵢ
//
// removing a record costs δ_G(ε−c, μ); adding one costs
//
//	A(ε, μ) = Σ over subsets I of the minimizers of δ_G(ε, √(Σ_I sᵢ² + t²))   sign of φ′ fixed
//	A(ε, μ) = 2^k δ_G(ε, μ)                                                 any convex φ
//
// and replacing one the least over both legs, with half of every sᵢ and of t in each step, and at
// most 4^k δ_G(ε−c, μ). Proof: docs/theory/composition.md#composition.sequence. For persons with
// several rows each term has a factor, see Persons.
type Sequence struct {
	Relation dp.Relation
	C, S     []float64 // cᵢ and sᵢ of the minimizers
	T        float64   // t, 0 without Gaussian releases
	// Monotone says that the sign of φ′ is fixed for each record of every loss.
	Monotone bool
	// Persons says that a unit is a person with several rows. Then cᵢ ≥ β/μ, and with h the share of
	// every shift in a step, 1 or ½, docs/theory/persons.md#persons.sequence gives the factors
	//
	//	removing   exp(Σ(cᵢ/2 + h²sᵢ²/8))
	//	adding     2^{|I|−k} exp(h²Σ_I sᵢ²/8) of each subset I, or exp(h²Σsᵢ²/8)
	//
	// and (3/2)^k exp(Σ(cᵢ/2+sᵢ²/8)) for 4^k. T counts the rounding of every row of a person.
	Persons bool
}

// Check returns an error wrapping ErrProblem or dp.ErrRelation unless C and S have one
// length, at most 16, and all numbers are finite and not negative.
func (q Sequence) Check() error {
	if err := q.Relation.Check(); err != nil {
		return fmt.Errorf("field Relation: %w", err)
	}
	if len(q.C) != len(q.S) || len(q.S) > 16 {
		return fmt.Errorf("%w: %d values of C and %d of S, want one of each for every minimizer, at most 16", ErrProblem,
			len(q.C), len(q.S))
	}
	for _, v := range slices.Concat([]float64{q.T}, q.C, q.S) {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%w: %v in C, S or T, want finite numbers ≥ 0", ErrProblem, v)
		}
	}
	return nil
}

// Profile returns δ(ε) for removing and for adding a record; under Replace the two functions are
// the same. A sequence that fails Check gives 1.
func (q Sequence) Profile() (remove, add func(eps float64) float64) {
	if q.Check() != nil {
		one := func(float64) float64 { return 1 }
		return one, one
	}
	of := func(log func(eps float64) float64) func(eps float64) float64 {
		return everywhere(func(eps float64) float64 { return math.Exp(log(eps)) })
	}
	if q.Relation == dp.Replace {
		both := of(q.logReplace)
		return both, both
	}
	if remove, add = q.logs(1); q.Persons {
		remove, add = exchanged(remove, add)
	}
	return of(remove), of(add)
}

// RDP returns a bound on the Rényi divergences of order α > 1, also for steps that are chosen with
// knowledge of earlier outputs. With V = Σsᵢ² + t² and T = t², it is the larger of
//
//	removing  Σcᵢ + αV/2
//	adding    αV/2 + Σ log(2Φ((α−1)sᵢ))/(α−1)                                   any convex φ
//	          αT/2 + Σ log(Φ(−sᵢ/2) + e^{α(α−1)sᵢ²/2}Φ((α−½)sᵢ))/(α−1)   sign of φ′ fixed
//
// and for replacing the least of both legs, with half of every sᵢ and of t in each, and of the sum
// of Σcᵢ and the second line. It is +Inf for other α and where Check
// fails: docs/theory/composition.md#composition.sequence-renyi.
func (q Sequence) RDP(alpha float64) float64 {
	if !(alpha > 1) || math.IsInf(alpha, 1) || q.Check() != nil {
		return math.Inf(1)
	}
	if q.Relation == dp.AddRemove {
		return max(q.rdpRemove(alpha, 1), q.rdpAdd(alpha, 1)) * safeDelta
	}
	first, second := 2*alpha-1, 2*alpha
	twice, direct := second/first, q.c()+alpha*q.T*q.T/2
	for _, s := range q.S {
		if s > 0 {
			direct += Chi{S: s, Q: 1}.RDP(alpha)
		}
	}
	return min(direct, twice*q.rdpAdd(first, 0.5)+q.rdpRemove(second, 0.5),
		twice*q.rdpRemove(first, 0.5)+q.rdpAdd(second, 0.5)) * safeDelta
}

// rdpRemove and rdpAdd are the lines of RDP with all shifts times scale.
func (q Sequence) rdpRemove(alpha, scale float64) float64 {
	mu := q.shift(q.all(), scale)
	return q.c() + alpha*mu*mu/2
}

func (q Sequence) rdpAdd(alpha, scale float64) float64 {
	one := &scalar{monotone: q.Monotone}
	t := q.T * scale
	sum := alpha * t * t / 2
	for _, s := range q.S {
		if s > 0 {
			sum += one.rdpAdding(alpha, s*scale)
		}
	}
	return sum
}

// LargestShift returns the largest μ at which the sequence at(μ) meets the budget, up to a relative
// error of tolerance (0 means the precision of float64, at which that was checked). The sequences
// may differ in S and T only, which grow with μ; only the sequence at μ = 1 is checked.
func LargestShift(b dp.Budget, tolerance float64, at func(mu float64) Sequence) (float64, error) {
	if err := errors.Join(b.Check(), at(1).Check()); err != nil {
		return 0, err
	}
	within := func(mu float64) bool {
		remove, add := at(mu).Profile()
		return max(remove(b.Epsilon), add(b.Epsilon)) <= b.Delta
	}
	const lo, hi = 0x1p-80, 0x1p80 // as in dp.Calibrate
	switch {
	case !within(lo):
		return 0, fmt.Errorf("%w: no noise level gives %v", dp.ErrCondition, b)
	case within(hi):
		return hi, nil
	}
	mu, _ := num.BisectTo(within, lo, hi, tolerance)
	return mu, nil
}

// squares returns start + Σ_I sᵢ² for the minimizers in the set of bits.
func (q Sequence) squares(start float64, bits int) float64 {
	for i, s := range q.S {
		if bits>>i&1 == 1 {
			start += s * s
		}
	}
	return start
}

// shift returns scale·√(Σ_I sᵢ² + t²) for the minimizers in the set of bits.
func (q Sequence) shift(bits int, scale float64) float64 {
	return scale * math.Sqrt(q.squares(q.T*q.T, bits))
}

// all is the set of all minimizers.
func (q Sequence) all() int { return 1<<len(q.S) - 1 }

// c returns Σcᵢ, rounded up.
func (q Sequence) c() float64 {
	sum := 0.0
	for _, c := range q.C {
		sum += c
	}
	return sum * SafeC
}

// tilt returns h²Σ_I sᵢ²/8 for persons, rounded up, and 0 for records.
func (q Sequence) tilt(set int, scale float64) float64 {
	if !q.Persons {
		return 0
	}
	return scale * scale * q.squares(0, set) / 8 * SafeC
}

// share returns the factor 2^{|I|−k} of the subset I for persons, and 1 for records.
func (q Sequence) share(set int) float64 {
	if !q.Persons {
		return 1
	}
	return math.Ldexp(1, bits.OnesCount(uint(set))-len(q.S))
}

// direct returns the factor of replacing in one step, 4 for every minimizer, or 3/2 for persons.
func (q Sequence) direct() float64 {
	factor := 1.0
	for range q.S {
		if q.Persons {
			factor *= 1.5 // exact, as k ≤ 16
		} else {
			factor *= 4
		}
	}
	return factor
}

// logs returns log δ_G(ε−c, scale·μ) of removing and log A(ε, scale·μ) ≤ 0 of adding.
func (q Sequence) logs(scale float64) (remove, add func(eps float64) float64) {
	leaves, comes := q.terms(scale)
	return leaves.log, func(eps float64) float64 { return min(0, comes.log(eps)) }
}

// logReplace returns the least bound found over both legs.
func (q Sequence) logReplace(eps float64) float64 {
	if eps < 0 {
		return reflected(eps, q.logReplace(-eps))
	}
	_, best := q.bestLeg(eps)
	remove, _ := q.logs(1)
	return min(0, best, math.Log2(q.direct())*math.Ln2+remove(eps))
}

// bestLeg returns the leg with the least bound at ε ≥ 0, and its logarithm.
func (q Sequence) bestLeg(eps float64) (g leg, best float64) {
	remove, add := q.logs(0.5)
	return bestLeg(bothLegs, eps, 0, eps, 16, 1e-5*eps, remove, add)
}

// Proves reports whether the sequence certainly costs at most δ at ε, by intervals.
func (q Sequence) Proves(b dp.Budget) bool {
	if q.Check() != nil {
		return false
	}
	remove := func(c enclose.Arithmetic, eps enclose.Interval, scale float64) enclose.Interval {
		for _, cost := range q.C {
			eps = c.Sub(eps, c.Of(cost))
		}
		v := c.GaussianDelta(eps, q.enclosedShift(c, q.all(), scale))
		if q.Persons {
			half := c.Of(0)
			for _, cost := range q.C {
				half = c.Add(half, c.Of(cost/2))
			}
			v = c.Mul(v, c.Mul(c.Exp(half), q.enclosedTilt(c, q.all(), scale)))
		}
		return v
	}
	add := func(c enclose.Arithmetic, eps enclose.Interval, scale float64) enclose.Interval {
		if !q.Monotone {
			return c.Mul(c.Mul(c.Of(math.Ldexp(1, len(q.S))), q.enclosedTilt(c, q.all(), scale)),
				c.GaussianDelta(eps, q.enclosedShift(c, q.all(), scale)))
		}
		sum := c.Of(0)
		for set := range q.all() + 1 {
			factor := c.Mul(c.Of(q.share(set)), q.enclosedTilt(c, set, scale))
			sum = c.Add(sum, c.Mul(factor, c.GaussianDelta(eps, q.enclosedShift(c, set, scale))))
		}
		return sum
	}
	if q.Relation == dp.AddRemove {
		return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.Most(remove(c, c.Of(b.Epsilon), 1), add(c, c.Of(b.Epsilon), 1)), c.Of(b.Delta)
		})
	}
	g, _ := q.bestLeg(b.Epsilon)
	return g.within(b.Epsilon) && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		er, ea := g.epsilons(c, b.Epsilon)
		r, a := g.factors(c)
		return c.Add(c.Mul(r, remove(c, er, 0.5)), c.Mul(a, add(c, ea, 0.5))), c.Of(b.Delta)
	}) || enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Mul(c.Of(q.direct()), remove(c, c.Of(b.Epsilon), 1)), c.Of(b.Delta)
	})
}

// enclosedSquares, enclosedShift and enclosedTilt are squares, shift and e^{tilt} in intervals.
func (q Sequence) enclosedSquares(c enclose.Arithmetic, sum enclose.Interval, bits int) enclose.Interval {
	for i, s := range q.S {
		if bits>>i&1 == 1 {
			sum = c.Add(sum, c.Square(c.Of(s)))
		}
	}
	return sum
}

func (q Sequence) enclosedShift(c enclose.Arithmetic, bits int, scale float64) enclose.Interval {
	return c.Mul(c.Of(scale), c.Sqrt(q.enclosedSquares(c, c.Square(c.Of(q.T)), bits)))
}

func (q Sequence) enclosedTilt(c enclose.Arithmetic, set int, scale float64) enclose.Interval {
	if !q.Persons {
		return c.Of(1)
	}
	return c.Exp(c.Mul(c.Of(scale*scale/8), q.enclosedSquares(c, c.Of(0), set)))
}

// A Step is one minimizer of a Sequence. C, S and Output are fixed numbers of the sequence. Ridge
// and the clipping of the loss may depend on earlier releases.
type Step struct {
	C      float64 // cᵢ ≥ log1p(β/(Δ+μ_r)), for persons ≥ β/(Δ+μ_r)
	S      float64 // sᵢ = G/σ
	Output float64 // S′/σ_out of the output noise, one of the Gaussian releases
	Ridge  float64 // Δ
}

// LeastRidge returns the least Δ ≥ 0 with log1p(β/(Δ+μ_r)) ≤ c, rounded up.
func LeastRidge(beta, modulus, c float64) float64 {
	return max(0, beta/math.Expm1(c)*(1+1e-12)-modulus)
}

// LeastRidge is the function LeastRidge, for persons the least Δ ≥ 0 with β/(Δ+μ_r) ≤ c.
func (q Sequence) LeastRidge(beta, modulus, c float64) float64 {
	if !q.Persons {
		return LeastRidge(beta, modulus, c)
	}
	return max(0, beta/c*(1+1e-12)-modulus)
}
