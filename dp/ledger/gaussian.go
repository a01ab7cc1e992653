// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"fmt"
	"math"
	"math/big"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Gaussian holds the totals of a Gaussian filter, which adds up the dp.Steps of releases. They are
// fixed when the ledger is made: δ is computed from totals, never from what was used of them. See
// docs/theory/composition.md#ledger.gaussian.
type Gaussian struct {
	Square    float64 `json:"square"`    // V, of squared shifts
	Curvature float64 `json:"curvature"` // C, of curvature and of the ε that counts to Other
	Other     float64 `json:"other"`     // C₀ ≤ C, of the ε of releases without steps
	Doublings float64 `json:"doublings"` // k, where a record is added
	Delta     float64 `json:"delta"`     // D, of the δ of releases without steps
	Failure   float64 `json:"failure"`   // F, of the failures of releases with steps
}

// totals returns the totals in the order of charges.
func (g Gaussian) totals() [6]float64 {
	return [6]float64{g.Square, g.Curvature, g.Other, g.Doublings, g.Delta, g.Failure}
}

// totalNames are the names of totals that a ledger shows.
var totalNames = [6]string{"squared shifts", "curvature and other ε", "other ε", "doublings", "other δ", "failures"}

// check returns an error unless the totals cost at most δ at ε.
func (g Gaussian) check(b dp.Budget, relation dp.Relation) error {
	for i, v := range g.totals() {
		if !(v >= 0 && v <= math.MaxFloat64) {
			return fmt.Errorf("%w: Gaussian: %v of %s, want a finite number ≥ 0", ErrTerms, v, totalNames[i])
		}
	}
	switch {
	case g.Other > g.Curvature:
		return fmt.Errorf("%w: Gaussian.Other = %v, want at most Curvature = %v", ErrTerms, g.Other, g.Curvature)
	case g.Curvature > b.Epsilon:
		return fmt.Errorf("%w: Gaussian.Curvature = %v, want at most the total ε = %v", ErrTerms, g.Curvature, b.Epsilon)
	}
	if cost := g.cost(b.Epsilon, relation); !(cost <= b.Delta) {
		return fmt.Errorf("%w: the totals of Gaussian cost δ = %v, want at most its share %v: lower them, Square first",
			ErrTerms, cost, b.Delta)
	}
	return nil
}

// safeCost covers the rounding of cost: every δ_G is exact to 1e-12.
const safeCost = 1 + 1e-9

// cost returns the δ at ε ≥ 0 of everything that the filter admits: with h = √V, under add-remove
// the larger of
//
//	removing  D + δ_G(ε−C; h)         adding  D + 2^k δ_G(ε−C₀; h)
//
// and under replace the least over e₁ ∈ [0, ε] of both orders of the two steps
//
//	2^k δ_G(e₁; h/2) + e^{e₁}(D + δ_G(ε−e₁−C; h/2))
//	δ_G(e₁−C; h/2) + e^{e₁}(D + 2^k δ_G(ε−e₁−C₀; h/2))
//
// and (1+e^ε)F in any case.
func (g Gaussian) cost(eps float64, relation dp.Relation) float64 {
	// other is C₀, or 0 in the first leg, where only minimizers cost anything.
	remove := func(e, _, h float64) float64 { return dp.GaussianLogDelta(e-g.Curvature, h) }
	add := func(e, other, h float64) float64 { return g.Doublings*math.Ln2 + dp.GaussianLogDelta(e-other, h) }
	h, logD := math.Sqrt(g.Square), num.Log(g.Delta)
	log := num.LogSumExp(logD, max(remove(eps, g.Other, h), add(eps, g.Other, h)))
	if relation == dp.Replace {
		legs := func(first, second func(e, other, h float64) float64) float64 {
			_, v := num.Minimize(func(e1 float64) float64 {
				return num.LogSumExp(first(e1, 0, h/2), e1+num.LogSumExp(logD, second(eps-e1, g.Other, h/2)))
			}, 0, eps, 32, 1e-6*eps)
			return v
		}
		log = min(legs(add, remove), legs(remove, add))
	}
	if g.Failure > 0 {
		log = num.LogSumExp(log, num.LogSumExp(0, eps)+num.Log(g.Failure))
	}
	return min(1, math.Exp(log)*safeCost)
}

// Shares of a Gaussian filter that NewTerms makes: of its δ, and C/ε.
const (
	otherShare     = 0x1p-3
	curvatureShare = 0.545
)

// newGaussian returns the filter with the share of ε for curvature, half of it for other releases,
// and the most of doublings and of squared shifts, in this order of steps, that cost at most b.
func newGaussian(b dp.Budget, relation dp.Relation) Gaussian {
	g := Gaussian{Curvature: curvatureShare * b.Epsilon, Delta: otherShare * b.Delta}
	g.Other = g.Curvature / 2
	if relation == dp.Replace {
		g.Delta *= math.Exp(-b.Epsilon) // a leg multiplies it by e^{e₁} at most
	}
	g.Failure = failureShare * b.Delta / (1 + math.Exp(b.Epsilon))
	fits := func(g Gaussian) bool { return g.cost(b.Epsilon, relation) <= b.Delta }
	square := func(g Gaussian) float64 {
		v, _ := num.Bisect(func(v float64) bool { g.Square = v; return fits(g) }, 0, 1e6)
		return v
	}
	// Under add-remove, doublings cost nothing as long as removing costs more. Under replace both
	// steps share ε, and doublings take a part of V.
	keep := 1 - 1e-6
	if relation == dp.Replace {
		keep = 0.75
	}
	g.Square = square(g) * keep
	k, _ := num.Bisect(func(k float64) bool { g.Doublings = k; return fits(g) }, 0, 1000)
	g.Doublings = math.Floor(k)
	return g
}

// bestOrder returns the order α at which a Rényi filter admits the largest sum of squared shifts:
// the largest B(α)/α with the B of Terms.divergence.
func bestOrder(b dp.Budget) float64 {
	u, _ := num.Minimize(func(u float64) float64 {
		alpha := 1 + math.Exp(u)
		return -(b.Epsilon - math.Log1p(-1/alpha) + (num.Log(b.Delta)+math.Log(alpha))/(alpha-1)) / alpha
	}, math.Log(1e-3), math.Log(9e5), 64, 1e-6)
	return math.Round((1+math.Exp(u))*1e4) / 1e4
}

// charges returns what an entry counts to the totals. A release with steps counts with them; any
// other with its (ε, δ), or if it is pure with the square of the shift
//
//	t = 2Φ⁻¹(e^ε/(1+e^ε))
//
// of a Gaussian release that dominates it, whichever is the smaller part of its total.
func (g Gaussian) charges(e Entry) [6]float64 {
	if s := e.Steps; s != nil {
		return [6]float64{s.Square, s.Curvature, 0, s.Doublings, 0, e.Failure}
	}
	if e.Delta == 0 {
		t := -2*num.NormalQuantile(1/(1+math.Exp(e.Epsilon)))*(1+1e-12) + 1e-15
		if square := t * t; square*g.Other < e.Epsilon*g.Square {
			return [6]float64{0: square}
		}
	}
	return [6]float64{1: e.Epsilon, 2: e.Epsilon, 4: e.Delta}
}

// within reports whether sums of charges are within the totals.
func (g Gaussian) within(sums [6]*big.Rat) bool {
	for i, total := range g.totals() {
		if sums[i].Cmp(decimal(total)) > 0 {
			return false
		}
	}
	return true
}
