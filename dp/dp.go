// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package dp states the cost of releases: budgets, certificates, composition, the analytic Gaussian
// mechanism and the accounting that all mechanisms share.
//
//	// Gaussian noise that hides a distance of 2, and the noise of 1000 steps of DP-SGD.
//	sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-6}, 2)
//	z, err := dp.Sampler{Rate: 0.01}.Noise(1000, budget)
//	// The total of two releases, one after the other, and of two plans fixed beforehand.
//	total, err := dp.Basic(first.Certificate, second.Certificate)
//	whole, err := dp.Compose(1e-6, planA, planB)
//	fmt.Println(total) // claim, theorem, assumptions
//
// A mechanism is (ε, δ)-differentially private if for all neighboring data sets D, D′ and all sets
// S of releases P(S|D) ≤ e^ε P(S|D′) + δ. A [Relation] says which data sets are neighbors. A
// privacy profile δ(ε) states the guarantee for all ε at once, see [Curve] and [Profile]. Proofs
// and references are in docs/theory/composition.md#composition.dominate and
// docs/theory/population.md#population.step.
package dp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/prefix"
)

// Errors that the mechanisms of this module wrap. Test with errors.Is.
var (
	// ErrBudget reports a budget outside the range that Budget.Check accepts.
	ErrBudget = prefix.New("dp: invalid budget")

	// ErrCondition reports that a public condition of a theorem is not met, whatever the noise.
	ErrCondition = prefix.New("dp: privacy condition not met")

	// ErrWithheld reports that nothing is released because a condition on the private records failed,
	// such as a search of package objpert that ended without a proof. The event is a function of the
	// records: one more output, which the certificate covers only if it says so.
	ErrWithheld = prefix.New("dp: release withheld")

	// ErrRelation reports an unset or unknown Relation, or a mix of two.
	ErrRelation = prefix.New("dp: invalid relation")
)

// Least and largest ε that Budget.Check accepts. Below MinEpsilon rounding exceeds the privacy;
// above MaxEpsilon the guarantee says nothing.
const (
	MinEpsilon = 0x1p-50
	MaxEpsilon = 1e5
	// MinDelta is the least positive δ: smaller tails lose relative accuracy in float64.
	MinDelta = 1e-300
)

// Budget is a privacy budget (ε, δ). The zero value is invalid.
type Budget struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// Check returns an error that wraps ErrBudget unless MinEpsilon ≤ ε ≤ MaxEpsilon and δ is 0 or in
// [MinDelta, 1).
func (b Budget) Check() error {
	switch {
	case !(b.Epsilon >= MinEpsilon && b.Epsilon <= MaxEpsilon): // also NaN
		return fmt.Errorf("%w: Epsilon = %v, want a number in [%.3g, %g], for example 1", ErrBudget, b.Epsilon, MinEpsilon,
			MaxEpsilon)
	case !(b.Delta >= 0 && b.Delta < 1):
		return fmt.Errorf("%w: Delta = %v, want 0 or a number in [%g, 1), for example 1e-6", ErrBudget, b.Delta, MinDelta)
	case b.Delta > 0 && b.Delta < MinDelta:
		return fmt.Errorf("%w: Delta = %v is too small to compute with, want 0 or a number in [%g, 1)", ErrBudget, b.Delta,
			MinDelta)
	}
	return nil
}

// String formats b as (ε, δ).
func (b Budget) String() string { return fmt.Sprintf("(ε = %g, δ = %g)", b.Epsilon, b.Delta) }

// Split divides b into the share that a release spends on its output noise, 0 < share < 1, and the
// rest. The two add up to at most b.
func (b Budget) Split(share float64) (objective, output Budget) {
	output = Budget{Epsilon: share * b.Epsilon, Delta: share * b.Delta}
	objective = Budget{
		Epsilon: math.Nextafter(b.Epsilon-output.Epsilon, 0),
		Delta:   math.Nextafter(b.Delta-output.Delta, 0),
	}
	return objective, output
}

// Relation says which data sets are neighbors. The zero value is invalid; mechanisms read an unset
// field as Replace.
type Relation int

const (
	// Replace: the same public number of records, one of them changed.
	Replace Relation = iota + 1
	// AddRemove: one record added or deleted; the number of records is private.
	AddRemove
)

var relations = [...]string{Replace: "replace", AddRemove: "add-remove"}

// Check returns an error that wraps ErrRelation unless r is Replace or AddRemove.
func (r Relation) Check() error {
	if r != Replace && r != AddRemove {
		return fmt.Errorf("%w: %d, want Replace or AddRemove", ErrRelation, int(r))
	}
	return nil
}

// MarshalText writes String, or fails if r is invalid.
func (r Relation) MarshalText() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads "replace" or "add-remove".
func (r *Relation) UnmarshalText(b []byte) error {
	if i := slices.Index(relations[:], string(b)); i > 0 {
		*r = Relation(i)
		return nil
	}
	return fmt.Errorf("%w: %.40q, want \"replace\" or \"add-remove\"", ErrRelation, b)
}

// String returns "replace", "add-remove" or a marker of an invalid value.
func (r Relation) String() string {
	if r.Check() != nil {
		return fmt.Sprintf("invalid relation %d", int(r))
	}
	return relations[r]
}

// Seeded returns the source of randomness that a seed and labels name, for experiments and tests:
// equal arguments give equal streams, different ones independent streams. It is not private:
// whoever guesses the seed can subtract the noise. A release takes nil as its source instead, which
// stands for a fresh one that only the operating system knows.
func Seeded(seed uint64, label ...string) rand.Source { return noise.Reproducible(seed, label...) }

// ErrSource reports a source of randomness that repeats itself. Test with errors.Is.
var ErrSource = noise.ErrSource
