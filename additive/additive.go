// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package additive releases a point that the caller computed from private records: a sum, a count,
// a mean, the outcome of an own algorithm. The caller declares by how much the point can change
// between neighboring data sets; the package adds the noise that hides this change, exactly.
//
//	m := &additive.Mechanism{Relation: dp.AddRemove, Dim: 2, Radius: 1e6, L1: 51}
//	plan, err := m.Plan(dp.Budget{Epsilon: 1})                // before a record is read
//	rel, err := plan.Release(ctx, []float64{sum, count}, nil) // may be published, and certified
//
// Start with [Mechanism], then [Mechanism.Plan] and [Plan.Release].
//
// # What the caller has to prove
//
// A plan is as private as its declared sensitivity is true. Package additive sees the point and not
// the records, so that it cannot check the declaration; every certificate lists
// [DeclaredSensitivity]. The sensitivity is about the float64 numbers that the caller's program
// computes, rounding included. Sums of integers below 2⁵³, of multiples of a power of two, or of
// numbers that were rounded to such a grid record by record, have no rounding. For another sum of n
// numbers in [−c, c] add n²c·2⁻⁵¹ to the sensitivity of its coordinate, with the largest n that can
// occur.
//
// The number of coordinates, the Radius and the sensitivity must not be computed from the records.
//
// # What a release is
//
// The point is clamped to [−Radius, Radius] in every coordinate (NaN counts as 0), rounded to
// multiples of a public power of two, and gets integer noise of an exactly known law. The noise
// hides the rounding as well: that adds less than a part in a million to a sensitivity above
// 2⁻³⁷·Radius·d. The bits of a release say nothing beyond its certificate, in contrast to sums of
// floating-point noise [Mir12]. The released point is not clamped, so that its noise has mean 0: it
// may lie outside of the range.
//
//	law of the noise           declared   budget
//	N(0, σ²I)                  L2 or L1   δ > 0
//	density ∝ exp(−‖ν‖₁/c)     L1         δ = 0
//	density ∝ exp(−a‖ν‖₂)      L2         δ = 0
//
// The theorem is additive.point/1 (docs/theory/release.md#additive.point/1).
//
//	[Mir12]  Mironov. On Significance of the Least Significant Bits for
//	         Differential Privacy. CCS 2012.
package additive

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
)

// ErrMechanism reports a field of a [Mechanism] or a point that a plan does not fit. Test with
// errors.Is.
var ErrMechanism = prefix.New("additive: invalid mechanism")

// DeclaredSensitivity is an assumption of every certificate of this package.
const DeclaredSensitivity dp.Assumption = "the sensitivity that the caller declared is true: as computed in float64, " +
	"with NaN read as 0 and coordinates clamped to the declared radius, the points of neighboring data sets differ by " +
	"no more"

// theorem is the identifier of docs/theory/release.md#additive.point/1.
const theorem = "additive.point/1"

// maxDim is the largest dimension of a point.
const maxDim = 1 << 30

// Mechanism adds noise to points. Its fields are public numbers. One of L1 and L2 is set.
type Mechanism struct {
	Relation dp.Relation // 0 means Replace
	Rows     int         // 0: neighbors differ in one record; else in one person with at most Rows lines that count
	Person   string      // the name of the column of ids of persons, "" for none
	Dim      int         // coordinates of a point
	Radius   float64     // every coordinate is clamped to [−Radius, Radius]
	L1       float64     // most Σ|x_j − x′_j| for the points x, x′ of neighbors
	L2       float64     // most √Σ(x_j − x′_j)² for the points x, x′ of neighbors
}

// Plan calibrates the least noise for b that hides the declared sensitivity and the rounding to the
// grid:
//
//	g = max{ 2^(⌊log₂(S/√d)⌋ − 20), 2^(⌊log₂ Radius⌋ − 58) },   S′ = S + g√d
//	δ_G(ε; S′/σ) = δ,  or a = ε/S′,  or c = ε/S′ with d in the place of √d
//
// where S is L2 or L1. The error wraps [ErrMechanism], dp.ErrRelation, dp.ErrBudget or
// dp.ErrCondition.
func (m *Mechanism) Plan(b dp.Budget) (*Plan, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: Mechanism is nil, want Dim, Radius and L1 or L2", ErrMechanism)
	}
	rel := cmp.Or(m.Relation, dp.Replace)
	if err := rel.Check(); err != nil {
		return nil, err
	}
	switch declared := m.L1 + m.L2; {
	case m.Dim < 1 || m.Dim > maxDim:
		return nil, fmt.Errorf("%w: Dim = %d, want the number of coordinates of a point, 1 to %d", ErrMechanism, m.Dim,
			maxDim)
	case m.Rows < 0:
		return nil, fmt.Errorf("%w: Rows = %d, want the most lines of a person that count, or 0 if neighbors differ in one "+
			"record", ErrMechanism, m.Rows)
	case m.Person != "" && m.Rows == 0:
		return nil, fmt.Errorf("%w: Person = %.40q with Rows = 0, want the most lines of a person that count, or no Person",
			ErrMechanism, m.Person)
	case !(m.Radius > 0) || math.IsInf(m.Radius, 1):
		return nil, fmt.Errorf("%w: Radius = %v, want a positive number that bounds the coordinates of most points; others "+
			"are clamped", ErrMechanism, m.Radius)
	case !(m.L1 >= 0 && m.L2 >= 0 && (m.L1 == 0 || m.L2 == 0) && declared > 0) || math.IsInf(declared, 1):
		return nil, fmt.Errorf("%w: L1 = %v, L2 = %v, want one positive number, a bound on the ℓ₁ or the ℓ₂ distance "+
			"between the points of neighbors, and 0 for the other", ErrMechanism, m.L1, m.L2)
	}
	out, err := release.NewPoint(m.Dim, m.L1+m.L2, m.Radius, m.L1 > 0 && b.Delta == 0, b)
	if err != nil {
		return nil, err
	}
	cert := dp.Certificate{Budget: b, Relation: rel, Rows: m.Rows, Person: m.Person, Theorem: theorem}
	cert = cert.With(DeclaredSensitivity)
	if m.Rows > 0 {
		cert = cert.With(erm.OneID)
	}
	if !out.Proves(b) && !out.ProvesLaplace(b) {
		cert = cert.With(dp.CalibrationArithmetic)
	}
	return &Plan{*m, out, cert}, nil
}
