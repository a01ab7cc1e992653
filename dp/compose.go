// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp/internal/pld"
)

// Compose returns the certificate of publishing one release of each plan, with
// independent noise: the least ε found at delta. All plans must be fixed beforehand:
// a plan chosen with knowledge of an earlier release composes by Basic, or by a filter
// of package dp/ledger. The data of one release may depend on earlier outputs.
//
// It composes the profiles of the plans by their loss distributions, in both orders apart, and adds
// the probabilities of failure. Gaussian profiles alone compose to a Gaussian profile. The sum of
// the Rényi curves takes their place where it gives less, and below δ = 1e-12, which loss
// distributions do not resolve. The result is never more than that of Basic, which alone serves
// delta = 0.
//
// The theorem is "dp.compose/2" (docs/theory/composition.md#dp.compose/2) with those of the parts
// in parentheses; the assumptions are the union of theirs, DeclaredPlan if a plan is of a type of
// the caller, and LossArithmetic. The error wraps ErrCondition for an empty list, a plan without a
// certificate, or where no ε is known at delta, ErrRelation for a mix of relations or of
// persons and records, and ErrBudget
// for a delta out of range.
func Compose(delta float64, plans ...Plan) (Certificate, error) {
	parts := make([]Certificate, len(plans))
	for i, p := range plans {
		if p == nil {
			return Certificate{}, fmt.Errorf("%w: plan %d of %d is nil, want one that a calibration made", ErrCondition, i,
				len(plans))
		}
		if parts[i] = p.Certificate(); parts[i].Theorem == "" {
			return Certificate{}, fmt.Errorf("%w: plan %d of %d has no certificate, want one that a calibration made",
				ErrCondition, i, len(plans))
		}
	}
	sum, err := add("dp.compose/2", parts)
	if err != nil {
		return Certificate{}, err
	}
	if err := (Budget{1, delta}).Check(); err != nil {
		return Certificate{}, err
	}
	eps := math.Inf(1)
	if sum.Delta <= delta {
		eps = sum.Epsilon
	}
	if delta > 0 {
		eps = min(eps, composed(delta, plans))
	}
	sum.Budget = Budget{max(eps, MinEpsilon), delta}
	if err := sum.Budget.Check(); err != nil {
		return Certificate{}, fmt.Errorf("%w: no ε up to %g is known for the %d plans at Delta = %v, whose sum is %v; "+
			"want a larger Delta", ErrCondition, float64(MaxEpsilon), len(plans), delta, sum.Delta)
	}
	for _, p := range plans {
		sum.Assumptions = union(sum.Assumptions, Declared(p)...)
	}
	sum.Assumptions = union(sum.Assumptions, LossArithmetic)
	return sum, nil
}

// composed returns an ε at delta > 0 from the profiles of the plans, +Inf where none is known.
func composed(delta float64, plans []Plan) float64 {
	if len(plans) == 1 {
		return plans[0].Profile().Epsilon(delta)
	}
	if curve, failure, ok := gaussians(plans); ok {
		return pld.WithFailure(delta, failure, curve.Epsilon)
	}
	var failure float64
	var rdp []RDP              // of different plans
	times := map[int]float64{} // how often the plan of rdp[k] occurs
	nth := make([]int, len(plans))
	var parts []pld.Part
	tol := 1e-5 * delta / float64(len(plans))
	for i, plan := range plans {
		p := plan.Profile()
		failure += p.Failure * (1 + 0x1p-50)
		j := slices.IndexFunc(plans[:i], func(q Plan) bool {
			return reflect.TypeOf(q).Kind() == reflect.Pointer && q == plan
		})
		if j >= 0 {
			nth[i] = nth[j]
		} else {
			nth[i], rdp = len(rdp), append(rdp, p.RDP)
		}
		times[nth[i]]++
		if delta < pld.MinDelta {
			continue
		}
		if j >= 0 {
			parts = append(parts, pld.Part{Pair: parts[j].Pair, Times: 1}) // the same curve
			continue
		}
		pair := pld.Symmetric(p.Remove)
		if plan.Certificate().Relation == AddRemove {
			pair = pld.Pair{Up: p.Remove, Down: p.Add}
		}
		parts = append(parts, pld.Part{Pair: pld.Tabulate(pair, tol), Times: 1})
	}
	epsilon := func(float64) float64 { return math.Inf(1) }
	if delta >= pld.MinDelta {
		epsilon = pld.New(parts).Epsilon
	}
	if !slices.ContainsFunc(rdp, func(r RDP) bool { return r == nil }) {
		profiles := epsilon
		epsilon = func(delta float64) float64 {
			eps, _ := RDP(func(alpha float64) (sum float64) { // [Mir17, Proposition 1]
				for k, r := range rdp {
					sum += times[k] * r(alpha)
				}
				return sum * (1 + 0x1p-50*float64(len(plans)))
			}).Epsilon(delta)
			return min(eps, profiles(delta))
		}
	}
	return pld.WithFailure(delta, failure, epsilon)
}

// gaussians returns the curve of the composition if all plans have Gaussian profiles, and the sum
// of their failure probabilities.
func gaussians(plans []Plan) (c Curve, failure float64, ok bool) {
	sum := 0.0
	for _, plan := range plans {
		p := plan.Profile()
		s, ok := p.gaussian()
		if !ok {
			return nil, 0, false
		}
		sum = math.Hypot(sum, s)
		failure += p.Failure * (1 + 0x1p-50)
	}
	// Each root loses at most two units in the last place.
	return GaussianCurve(sum * (1 + float64(len(plans)+1)*0x1p-51)), failure, true
}

// Plan is a calibrated mechanism. It fixes the cost of one release from public quantities, before
// any record is read, and cannot be edited after that.
type Plan interface {
	// Certificate states the cost of one release. A plan that no calibration made returns the zero
	// Certificate, which fails its Check.
	Certificate() Certificate
	// Profile returns δ(ε) of one release, that of the budget where nothing sharper is proved.
	Profile() Profile
	// String describes the plan in prose that may be published.
	String() string
}

// DeclaredPlan is assumed where a plan of a type of the caller is composed or charged to a ledger.
const DeclaredPlan Assumption = "the certificate and the profile that the caller's own plan states " +
	"are true of its releases"

// Declared returns the assumptions that a statement about p rests on: DeclaredPlan if the type of p
// is not of this module, even if it is a struct that embeds a plan of this module, else none.
func Declared(p Plan) []Assumption {
	t := reflect.TypeOf(p)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	module := strings.TrimSuffix(reflect.TypeFor[Budget]().PkgPath(), "dp")
	if t == nil || !strings.HasPrefix(t.PkgPath(), module) {
		return []Assumption{DeclaredPlan}
	}
	return nil
}
