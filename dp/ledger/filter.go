// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// spent is the sum over all entries.
type spent struct {
	eps, delta *big.Rat  // exact sums of the decimal numbers; nil is 0
	rdp        []float64 // of each order, rounded up
	failure    float64   // the probability that some release does not satisfy its curve, rounded up
	alone      bool      // see Entry.Alone
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
	out.alone = s.alone || e.Alone
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
	share := t.share()
	if sum.alone {
		share = decimal(t.Total.Delta)
	}
	switch {
	case sum.eps.Cmp(decimal(t.Total.Epsilon)) <= 0 && sum.delta.Cmp(share) <= 0,
		!sum.alone && sum.renyi(t) <= t.Total.Epsilon:
		return nil
	}
	if t.filters() > 1 && !sum.alone {
		return fmt.Errorf("%w: (ε = %.4g, δ = %.3g) of the plan is more than is left of ε = %g and δ = %g, declared; "+
			"plan with a smaller budget, at most about ε = %.2g by this theorem", ErrOverspent, e.Epsilon, e.Delta,
			t.Total.Epsilon, t.Total.Delta, e.Epsilon*s.room(t, sum))
	}
	shared, _ := share.Float64()
	left := s.budget()
	return fmt.Errorf("%w: %v of the plan and %v spent add up to %v, want at most ε = %g and δ = %g, declared; plan with "+
		"a smaller budget, at most ε = %.6g", ErrOverspent, dp.Budget{Epsilon: e.Epsilon, Delta: e.Delta}, left,
		sum.budget(), t.Total.Epsilon, shared, max(0, t.Total.Epsilon-left.Epsilon))
}

// room returns about the share of the plan's ε that the filter with the most room has left.
func (s spent) room(t Terms, sum spent) (most float64) {
	now, rooms := s.uses(t), map[string]float64{}
	for i, u := range sum.uses(t) {
		share := 1.0
		if needed, left := u.Used-now[i].Used, max(0, u.Total-now[i].Used); needed > left {
			share = left / needed
			switch u.Sum {
			case "Rényi divergence": // it grows as the square of ε
				share = math.Sqrt(share)
			case "δ", "failures":
				share = 0
			}
		}
		if room, ok := rooms[u.Filter]; ok {
			share = min(share, room)
		}
		rooms[u.Filter] = share
	}
	for _, room := range rooms {
		most = max(most, room)
	}
	return most
}

// share returns the δ of each filter.
func (t Terms) share() *big.Rat {
	return new(big.Rat).Mul(decimal(t.Total.Delta), big.NewRat(1, int64(t.filters())))
}

// filters returns the number of filters.
func (t Terms) filters() int { return 1 + len(t.Orders) }

// bestOrder returns the order α at which a Rényi filter admits the largest sum of squared shifts:
// the largest B(α)/α with the B of Terms.divergence.
func bestOrder(b dp.Budget) float64 {
	u, _ := num.Minimize(func(u float64) float64 {
		alpha := 1 + math.Exp(u)
		return -(b.Epsilon - math.Log1p(-1/alpha) + (num.Log(b.Delta)+math.Log(alpha))/(alpha-1)) / alpha
	}, math.Log(1e-3), math.Log(9e5), 64, 1e-6)
	return math.Round((1+math.Exp(u))*1e4) / 1e4
}

// Use is what the entries have used of one total of a filter. The numbers guarantee nothing by
// themselves: a filter costs its total, whatever is used of it.
type Use struct {
	Filter string  `json:"filter"` // "basic" or "order 8"
	Sum    string  `json:"sum"`    // the name of the total
	Used   float64 `json:"used"`   // the largest float64 for more than that
	Last   float64 `json:"last"`   // part of Used that the last entry added
	Total  float64 `json:"total"`
}

const basicFilter = "basic"

// uses returns what was used of all totals.
func (s spent) uses(t Terms) []Use {
	b, share := s.budget(), t.Total.Delta/float64(t.filters())
	if s.alone {
		return []Use{{basicFilter, "ε", b.Epsilon, 0, t.Total.Epsilon}, {basicFilter, "δ", b.Delta, 0, t.Total.Delta}}
	}
	list := []Use{{basicFilter, "ε", b.Epsilon, 0, t.Total.Epsilon}, {basicFilter, "δ", b.Delta, 0, share}}
	for i, alpha := range t.Orders {
		used := 0.0
		if s.rdp != nil {
			used = min(s.rdp[i], math.MaxFloat64)
		}
		filter := fmt.Sprintf("order %g", alpha)
		list = append(list, Use{filter, "Rényi divergence", used, 0, t.divergence(alpha)},
			Use{filter, "failures", s.failure, 0, t.failures()})
	}
	return list
}

// divergence returns B(α), the most that the Rényi filter of order α admits, rounded down.
func (t Terms) divergence(alpha float64) float64 {
	_, delta := t.renyiDelta()
	v, _ := num.Bisect(func(v float64) bool {
		eps, _ := dp.RDP(func(float64) float64 { return v }).Epsilon(delta, alpha)
		return eps <= t.Total.Epsilon
	}, 0, t.Total.Epsilon+40)
	return v
}

// failures returns the most that the failures of a Rényi filter may add up to.
func (t Terms) failures() float64 {
	failure, _ := t.renyiDelta()
	return failure / (1 + math.Exp(t.Total.Epsilon)) * (1 - 0x1p-40)
}

// failureShare of the δ of every Rényi filter pays for failures, whether there are any or not: a
// split that depended on the plans could cost almost 2δ (docs/theory/composition.md#ledger.order).
const failureShare = 0x1p-10

// renyiDelta returns the δ that a Rényi filter has for failures and that for its curve.
func (t Terms) renyiDelta() (failure, curve float64) {
	// One rounding of the quotient and one of the product that undoes it.
	delta := t.Total.Delta / float64(t.filters()) * (1 - 0x1p-51)
	return failureShare * delta, delta * (1 - failureShare)
}

// renyi returns the least ε that a Rényi filter of the terms gives, +Inf without one.
func (s spent) renyi(t Terms) float64 {
	failure, delta := t.renyiDelta()
	eps := math.Inf(1)
	if s.failure > 0 && (1+math.Exp(t.Total.Epsilon))*s.failure*(1+0x1p-40) > failure {
		return eps
	}
	for i, alpha := range t.Orders {
		e, _ := dp.RDP(func(float64) float64 { return s.rdp[i] }).Epsilon(delta, alpha)
		eps = min(eps, e)
	}
	return eps
}

// budget returns Σ εᵢ and Σ δᵢ, rounded up.
func (s spent) budget() dp.Budget { return dp.Budget{Epsilon: up(s.eps), Delta: up(s.delta)} }

// up returns the shortest decimal that is the sum, or a float64 above it; the largest one for more.
func up(r *big.Rat) float64 {
	if r == nil {
		return 0
	}
	v, _ := r.Float64()
	if math.IsInf(v, 1) {
		return math.MaxFloat64
	}
	if decimal(v).Cmp(r) < 0 && v < math.MaxFloat64 {
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
