// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/privopt/privopt/dp"
)

// spent is the sum over all entries.
type spent struct {
	eps, delta *big.Rat  // exact sums of the decimal numbers; nil is 0
	rdp        []float64 // of each order, rounded up
	failure    float64   // the probability that some release does not satisfy its curve, rounded up
}

// decimal returns the number that v is written as.
func decimal(v float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return r
}

// plus returns s with the entry e.
func (s spent) plus(t Terms, e Entry) spent {
	add := func(a *big.Rat, v float64) *big.Rat {
		if a == nil {
			return decimal(v)
		}
		return new(big.Rat).Add(a, decimal(v))
	}
	out := spent{eps: add(s.eps, e.Epsilon), delta: add(s.delta, e.Delta), rdp: make([]float64, len(t.Orders))}
	if out.failure = s.failure; e.failure() > 0 {
		out.failure = math.Nextafter(s.failure+e.failure(), math.Inf(1))
	}
	for i := range out.rdp {
		out.rdp[i] = math.Inf(1)
		if e.RDP == nil {
			continue
		}
		sum := e.RDP[i]
		if s.rdp != nil {
			sum += s.rdp[i]
		}
		out.rdp[i] = math.Nextafter(sum, math.Inf(1))
	}
	return out
}

// failure returns Failure, or for an entry of version 0.1.0, which has no nonce and none, a bound
// that all plans of that version keep.
func (e Entry) failure() float64 {
	if e.Nonce == "" && e.RDP != nil {
		return max(e.Failure, 0x1p-57*e.Delta)
	}
	return e.Failure
}

// admits returns an error wrapping ErrOverspent unless a filter admits e.
func (s spent) admits(t Terms, e Entry) error {
	sum := s.plus(t, e)
	share := new(big.Rat).Mul(decimal(t.Total.Delta), big.NewRat(1, int64(1+len(t.Orders))))
	if sum.eps.Cmp(decimal(t.Total.Epsilon)) <= 0 && sum.delta.Cmp(share) <= 0 {
		return nil
	}
	best := sum.renyi(t)
	if best <= t.Total.Epsilon {
		return nil
	}
	var renyi string
	if best < math.Inf(1) {
		renyi = fmt.Sprintf(", by the best Rényi filter to ε = %.6g", best)
	}
	shared, _ := share.Float64()
	left := s.budget()
	return fmt.Errorf("%w: %v of the plan and %v spent add up to %v%s, want at most ε = %g and δ = %g, declared; plan "+
		"with a smaller budget, at most ε = %.6g", ErrOverspent, dp.Budget{Epsilon: e.Epsilon,
		Delta: e.Delta}, left, sum.budget(), renyi, t.Total.Epsilon, shared, max(0, t.Total.Epsilon-left.Epsilon))
}

// failureShare of the δ of every Rényi filter pays for failures, whether there are any or not: a
// split that depended on the plans could cost almost 2δ (docs/theory/composition.md#ledger.order).
const failureShare = 0x1p-10

// renyi returns the least ε that a Rényi filter of the terms gives, +Inf without one.
func (s spent) renyi(t Terms) float64 {
	// One rounding of the quotient and one of the product that undoes it.
	delta := t.Total.Delta / float64(1+len(t.Orders)) * (1 - 0x1p-51)
	eps := math.Inf(1)
	if s.failure > 0 && (1+math.Exp(t.Total.Epsilon))*s.failure*(1+0x1p-40) > failureShare*delta {
		return eps
	}
	delta *= 1 - failureShare
	for i, alpha := range t.Orders {
		e, _ := dp.RDP(func(float64) float64 { return s.rdp[i] }).Epsilon(delta, alpha)
		eps = min(eps, e)
	}
	return eps
}

// budget returns Σ εᵢ and Σ δᵢ, rounded up.
func (s spent) budget() dp.Budget { return dp.Budget{Epsilon: up(s.eps), Delta: up(s.delta)} }

// up returns the shortest decimal that is the sum, or a float64 above it.
func up(r *big.Rat) float64 {
	if r == nil {
		return 0
	}
	v, _ := r.Float64()
	if decimal(v).Cmp(r) < 0 {
		v = math.Nextafter(v, math.Inf(1))
	}
	return v
}

// curve returns the Rényi curve of an entry at the orders, rounded up: that of the plan, or else
// the one that its pure budget implies.
func curve(orders []float64, r dp.RDP, b dp.Budget) []float64 {
	if r == nil && b.Delta == 0 {
		r = dp.PureRDP(b.Epsilon)
	}
	if r == nil || len(orders) == 0 {
		return nil
	}
	values := make([]float64, len(orders))
	for i, a := range orders {
		v := r(a) * (1 + 0x1p-40) // the rounding of the curve itself
		if !(v >= 0 && v < math.MaxFloat64) {
			v = math.MaxFloat64 // JSON has no infinity; no total admits it
		}
		values[i] = v
	}
	return values
}
