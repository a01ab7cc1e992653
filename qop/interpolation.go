// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// Interpolation is the rule that makes every record's gradient vanish at the anchor: [Tilt],
// [Relabel], [Drop] or [Trust]. A rule changes each record independently of the others, so
// neighboring data stay neighboring.
type Interpolation interface{ rule() rule }

// rule is an Interpolation.
type rule struct {
	name      string
	trust     bool    // records are not changed
	tolerance float64 // the largest change of a label of a record that is kept
	clip      float64 // of the slopes that Tilt releases, else 0
}

func (r Tilt) rule() rule  { return rule{name: "Tilt", clip: r.Clip} }
func (Relabel) rule() rule { return rule{name: "Relabel", tolerance: math.Inf(1)} }
func (r Drop) rule() rule  { return rule{name: "Drop", tolerance: r.Tolerance} }
func (Trust) rule() rule   { return rule{name: "Trust", trust: true} }

var errInterpolation = errors.New("Interpolation is nil, but privacy holds only if every record's gradient vanishes " +
	"at the anchor; want Tilt{Clip} (the slopes at the anchor are released with noise), " +
	"Relabel{} (each record gets the label that the anchor predicts), Drop{Tolerance} (records that " +
	"the anchor does not fit become zero records), or Trust{} (the certificate lists the unchecked assumption)")

// AnchorExact and AnchorWithin are the assumptions that [Trust] adds to a certificate, for Eta = 0
// and Eta > 0.
const (
	AnchorExact  dp.Assumption = "the gradient of every record that could occur vanishes at the anchor, which is public"
	AnchorWithin dp.Assumption = "the gradients of all records that could occur vanish at one point within Eta of the " +
		"anchor, both public"
)

// Tilt needs no interpolation: quadratic perturbation with an exact anchor for records that the
// anchor does not fit (docs/theory/quadratic.md#qop.tilted/1). From each record's loss its tangent
// at x₀ is taken, so that its slope vanishes there, and the sum of the slopes, clipped, comes back
// with Gaussian noise as a public linear term:
//
//	c̃ = Σᵢ clip_g(∇ℓ(x₀;aᵢ,bᵢ)) + N(0, τ²I)
//	J(θ) = Σᵢ ( ℓ(θ;aᵢ,bᵢ) − ⟨∇ℓ(x₀;aᵢ,bᵢ), θ⟩ ) + ⟨c̃,θ⟩ + r(θ) + (σ²/2)(θ−x₀)'W(θ−x₀)
//
// One curve accounts for c̃, the minimizer and its output noise. x₀ is the projection of
// Mechanism.Center on the Set of the problem. Slopes longer than Clip leave a bias that more
// records do not remove; those of the loss away from x₀ need no bound. The loss must be a
// [loss.Linear]. The slopes are summed in this process, also those of an [erm.Remote], whose
// workers do not see them: that pass is not covered by the fingerprint of the source.
//
// Around the same anchor lop.Mechanism with Center and Clip has less excess risk where the
// anchor's error, not the misfit of the model, makes the slopes: by the square of 1 +
// (1+√2)βD/(2g) for many records, D the error. Tilt is for losses that are not to be clipped away
// from x₀, and for many fits of least squares at the price of one ([Plan.Path]).
type Tilt struct {
	// Clip is g > 0, a public bound at which the norm of a record's slope at x₀ is clipped; two
	// standard deviations of it are a good choice.
	Clip float64
}

// Relabel gives each record the label b′ nearest to its own for which the anchor is optimal,
// φ′(⟨a,θ̃⟩;b′) = 0. For strictly convex φ the fit no longer depends on the labels. A record
// without such a label inside the declared bounds becomes the zero record; bounds with Label ≥
// Row·‖Center‖ keep all records of a regression. The loss must be a [loss.Linear] and a
// [loss.Interpolator].
type Relabel struct{}

// Drop relabels like [Relabel], but replaces a record by the zero record (row 0, label 0, gradient
// 0) if its label is farther than Tolerance from the new one. n does not change.
type Drop struct {
	// Tolerance is a public distance of labels ≥ 0. At 0 only records that the anchor fits to the last
	// bit are kept.
	Tolerance float64
}

// Trust does not change records: the caller vouches that every record that could occur, not only
// those of the data set, is minimized at one public point within Mechanism.Eta of the anchor. The
// certificate lists this assumption. Losses with [loss.Constants].NoMinimizer, such as
// [loss.Logistic], are refused.
type Trust struct{}

// check refuses a tolerance outside its range, and Eta > 0 with a rule that makes the anchor exact.
func (r rule) check(eta float64) error {
	switch {
	case r.name == "Tilt" && !(r.clip > 1/extreme && r.clip < extreme):
		return fmt.Errorf("%w: Tilt.Clip = %v, want a positive finite bound on the norm of slopes at the anchor",
			ErrMechanism, r.clip)
	case r.name == "Drop" && !(r.tolerance >= 0 && r.tolerance < math.Inf(1)):
		return fmt.Errorf("%w: Drop.Tolerance = %v, want a finite number ≥ 0", ErrMechanism, r.tolerance)
	case eta != 0 && !r.trust:
		return fmt.Errorf("%w: Eta = %v with %s, which makes the anchor exact; want 0, or Trust{}", ErrMechanism, eta, r.name)
	}
	return nil
}

// admits refuses a loss without labels for given predictions, and for Trust a loss whose gradient
// never vanishes.
func (r rule) admits(l loss.Loss) error {
	_, linear := l.(loss.Linear)
	_, ok := l.(loss.Interpolator)
	if r.clip > 0 {
		ok = linear
	}
	switch {
	case r.clip > 0 && !linear:
		return fmt.Errorf("qop: %w: Tilt needs a loss of ⟨a,θ⟩ (loss.Linear), whose slopes can be clipped, got %T",
			dp.ErrCondition, l)
	case r.trust && l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).NoMinimizer:
		return fmt.Errorf("qop: %w: no θ makes the gradient of a record of %T vanish, so there is nothing to trust; use "+
			"loss.SmoothedHinge, or linear perturbation (package lop)", dp.ErrCondition, l)
	case !r.trust && !(linear && ok):
		return fmt.Errorf("qop: %w: %s needs a loss with a label that makes a given prediction optimal (loss.Linear and "+
			"loss.Interpolator: Interpolate(u, b float64) (label float64, ok bool)), %T has none; use for "+
			"example loss.Squared, or Trust{}", dp.ErrCondition, r.name, l)
	}
	return nil
}

// apply makes the anchor optimal for each record. A record whose new label is beyond the declared
// bound becomes the zero record: with a clamped label it would not interpolate.
func (r rule) apply(d *erm.Data, l loss.Loss, center []float64) *erm.Data {
	if r.trust || r.clip > 0 {
		return d
	}
	phi, labels := l.(loss.Linear), l.(loss.Interpolator)
	bound := d.Bounds().Label
	return d.Map(func(a []float64, b float64) (label float64, keep bool) {
		u := floats.Dot(a, center)
		label, ok := labels.Interpolate(u, b)
		if !ok || !(math.Abs(label) <= bound && math.Abs(label-b) <= r.tolerance) {
			return 0, false
		}
		_, dphi, _ := phi.Scalar(u, label, norm(a)) // checked, because privacy rests on it
		return label, dphi == 0
	})
}

// assumptions are those that the rule adds to a certificate.
func (r rule) assumptions(eta float64) []dp.Assumption {
	switch {
	case !r.trust: // also of Tilt
		return nil
	case eta > 0:
		return []dp.Assumption{AnchorWithin}
	}
	return []dp.Assumption{AnchorExact}
}

// norm returns ‖x‖₂ without overflow.
func norm(x []float64) float64 { return blas64.Nrm2(blas64.Vector{N: len(x), Data: x, Inc: 1}) }
