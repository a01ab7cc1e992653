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

// Interpolation is the rule that makes every record's gradient vanish at the anchor: [Relabel],
// [Drop] or [Trust]. A rule changes each record independently of the others, so neighboring data
// stay neighboring.
type Interpolation interface {
	check(m *Mechanism) error
	admits(l loss.Loss) error
	apply(d *erm.Data, l loss.Loss, center []float64) *erm.Data
	assumptions(eta float64) []dp.Assumption
}

var errInterpolation = errors.New("Interpolation is nil, but privacy holds only if every record's gradient vanishes " +
	"at the anchor; want Relabel{} (each record gets the label that the anchor predicts), Drop{Tolerance} (records that " +
	"the anchor does not fit become zero records), or Trust{} (the certificate lists the unchecked assumption)")

// AnchorExact and AnchorWithin are the assumptions that [Trust] adds to a certificate, for Eta = 0
// and Eta > 0.
const (
	AnchorExact  dp.Assumption = "the gradient of every record that could occur vanishes at the anchor, which is public"
	AnchorWithin dp.Assumption = "the gradients of all records that could occur vanish at one point " +
		"within Eta of the anchor, both public"
)

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

func (Relabel) check(m *Mechanism) error { return exactAnchor("Relabel", m) }

func (r Drop) check(m *Mechanism) error {
	if !(r.Tolerance >= 0) || math.IsInf(r.Tolerance, 1) {
		return fmt.Errorf("%w: Drop.Tolerance = %v, want a finite number ≥ 0", ErrMechanism, r.Tolerance)
	}
	return exactAnchor("Drop", m)
}

func exactAnchor(rule string, m *Mechanism) error {
	if m.Eta != 0 {
		return fmt.Errorf("%w: Eta = %v with %s, which makes the anchor exact; want 0, or Trust{}", ErrMechanism, m.Eta, rule)
	}
	return nil
}

func (Trust) check(*Mechanism) error { return nil }

func (Relabel) admits(l loss.Loss) error { return interpolates("Relabel", l) }
func (Drop) admits(l loss.Loss) error    { return interpolates("Drop", l) }

// admits refuses a loss whose gradient never vanishes.
func (Trust) admits(l loss.Loss) error {
	if l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).NoMinimizer {
		return fmt.Errorf("qop: %w: no θ makes the gradient of a record of %T vanish, so there is nothing to trust; "+
			"use loss.SmoothedHinge, or linear perturbation (package lop)", dp.ErrCondition, l)
	}
	return nil
}

func interpolates(rule string, l loss.Loss) error {
	_, linear := l.(loss.Linear)
	_, ok := l.(loss.Interpolator)
	if !linear || !ok {
		return fmt.Errorf("qop: %w: %s needs a loss with a label that makes a given prediction optimal (loss.Linear and "+
			"loss.Interpolator), %T has none; use for example loss.Squared, or Trust{}", dp.ErrCondition, rule, l)
	}
	return nil
}

func (Relabel) apply(d *erm.Data, l loss.Loss, center []float64) *erm.Data {
	return relabel(d, l, center, math.Inf(1))
}

func (r Drop) apply(d *erm.Data, l loss.Loss, center []float64) *erm.Data {
	return relabel(d, l, center, r.Tolerance)
}

func (Trust) apply(d *erm.Data, _ loss.Loss, _ []float64) *erm.Data { return d }

// relabel makes the anchor optimal for each record. It drops a label beyond the declared bound,
// because clamping it would end the interpolation.
func relabel(d *erm.Data, l loss.Loss, center []float64, tolerance float64) *erm.Data {
	phi, rule, bound := l.(loss.Linear), l.(loss.Interpolator), d.Bounds().Label
	return d.Map(func(a []float64, b float64) (label float64, keep bool) {
		u := floats.Dot(a, center)
		label, ok := rule.Interpolate(u, b)
		if !ok || !(math.Abs(label) <= bound && math.Abs(label-b) <= tolerance) {
			return 0, false
		}
		_, dphi, _ := phi.Scalar(u, label, norm(a)) // checked, because privacy rests on it
		return label, dphi == 0
	})
}

func (Relabel) assumptions(float64) []dp.Assumption { return nil }
func (Drop) assumptions(float64) []dp.Assumption    { return nil }

func (Trust) assumptions(eta float64) []dp.Assumption {
	if eta > 0 {
		return []dp.Assumption{AnchorWithin}
	}
	return []dp.Assumption{AnchorExact}
}

// norm returns ‖x‖₂ without overflow.
func norm(x []float64) float64 { return blas64.Nrm2(blas64.Vector{N: len(x), Data: x, Inc: 1}) }
