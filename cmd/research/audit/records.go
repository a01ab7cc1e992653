// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// record is one row and its label, before they are forced into bounds.
type record struct {
	a []float64
	b float64
}

// forced returns the record that a mechanism must use: a longer row scaled to
// norm Row, a larger label clamped.
func (r record) forced(bounds loss.Bounds) record {
	a := slices.Clone(r.a)
	if top := floats.Norm(a, math.Inf(1)); top > 0 {
		unit := make([]float64, len(a))
		for i, v := range a {
			unit[i] = v / top
		}
		if norm := floats.Norm(unit, 2); norm > bounds.Row/top {
			for i, v := range unit {
				a[i] = v / norm * bounds.Row
			}
		}
	}
	return record{a, math.Min(math.Max(r.b, -bounds.Label), bounds.Label)}
}

// sample returns the n records of a label, in dim dimensions with rows of norm at most 1 and
// labels ±1.
func sample(n, dim int, label string) []record {
	src := noise.Reproducible(4, "audit records", label)
	list := make([]record, n)
	for i := range list {
		a := make([]float64, dim)
		sphere(a, src)
		floats.Scale(0.2+0.8*uniform(src), a)
		list[i] = record{a, math.Copysign(1, uniform(src)-0.5)}
	}
	return list
}

// uniform draws from the uniform law on (0,1), rounded down to 53 significant bits, to 2⁻⁶⁴ at the
// least.
func uniform(src rand.Source) float64 {
	for {
		if u := src.Uint64(); u != 0 {
			k := bits.LeadingZeros64(u)
			return math.Ldexp(float64(u<<k>>11), -53-k)
		}
	}
}

// sphere fills dst with a uniform draw from the unit sphere, up to rounding.
func sphere(dst []float64, src rand.Source) {
	noise.Normal(dst, 1, src)
	s := floats.Dot(dst, dst)
	for i := range dst {
		dst[i] /= math.Sqrt(s)
	}
}

// axis returns the record whose row is length·e₀.
func axis(dim int, length, label float64) record {
	a := make([]float64, dim)
	a[0] = length
	return record{a, label}
}

// with returns base followed by r.
func with(base []record, r ...record) []record { return slices.Concat(base, r) }

// ended returns list followed by a, and list followed by b, or list alone under add/remove.
func ended(rel dp.Relation, list []record, a, b record) [2][]record {
	if rel == dp.AddRemove {
		return [2][]record{with(list, a), list}
	}
	return [2][]record{with(list, a), with(list, b)}
}

// relationOf returns the relation of a pair: Replace if both data sets have one size.
func relationOf(data [2][]record) dp.Relation {
	if len(data[0]) == len(data[1]) {
		return dp.Replace
	}
	return dp.AddRemove
}

// problem makes the records a problem of the library.
func problem(list []record, bounds loss.Bounds, l loss.Loss, k kinks) (*erm.Problem, error) {
	rows, labels := make([][]float64, len(list)), make([]float64, len(list))
	for i, r := range list {
		rows[i], labels[i] = r.a, r.b
	}
	data, err := erm.NewData(rows, labels, bounds)
	if err != nil {
		return nil, err
	}
	reg, set := k.parts()
	return &erm.Problem{Data: data, Loss: l, Reg: reg, Set: set}, nil
}

// derivatives returns φ′ and φ″ at the prediction u for a row of the given norm. A positive
// clip bounds the norm of the gradient φ′a, beyond which φ″ is 0.
func derivatives(l loss.Linear, u, b, norm, clip float64) (slope, curve float64) {
	_, slope, curve = l.Scalar(u, b, norm)
	if clip > 0 && math.Abs(slope)*norm > clip {
		return math.Copysign(clip/norm, slope), 0
	}
	return slope, curve
}

// kinks is λ‖θ‖₁ over the box [lo, hi]ᵈ.
type kinks struct{ weight, lo, hi float64 }

// free is no regularizer and no set.
var free = kinks{0, math.Inf(-1), math.Inf(1)}

// parts returns the operators of the library for the norm and the box.
func (k kinks) parts() (reg prox.Operator, set prox.Set) {
	if k.weight > 0 {
		reg = prox.L1{Weight: k.weight}
	}
	if !math.IsInf(k.hi, 1) {
		set = prox.Box{Lo: k.lo, Hi: k.hi}
	}
	return reg, set
}

// places returns the points at which subgradients are intervals, in one coordinate.
func (k kinks) places() (x []float64) {
	if k.weight > 0 {
		x = append(x, 0)
	}
	if !math.IsInf(k.hi, 1) {
		x = append(x, k.lo, k.hi)
	}
	return x
}

// subgradients returns the interval ∂(λ|·| + ι)(x), which is a point off kinks and faces.
func (k kinks) subgradients(x float64) (lo, hi float64) {
	lo, hi = math.Copysign(k.weight, x), math.Copysign(k.weight, x)
	if x == 0 {
		lo, hi = -k.weight, k.weight
	}
	if x <= k.lo {
		lo = math.Inf(-1)
	}
	if x >= k.hi {
		hi = math.Inf(1)
	}
	return lo, hi
}

// truncated draws from N(0, sigma²) conditioned on [lo, hi], by inverting the distribution function
// on the side of the thin tail.
func truncated(lo, hi, sigma float64, src rand.Source) float64 {
	if lo > 0 {
		return -truncated(-hi, -lo, sigma, src)
	}
	p, q := num.NormalCDF(lo/sigma), num.NormalCDF(hi/sigma)
	x := sigma * num.NormalQuantile(p+uniform(src)*(q-p))
	return math.Min(math.Max(x, lo), hi)
}

// neighbors draws a pair of neighboring data sets on the line: up to five common records and one
// that differs. Half of the rows and labels are at their bounds.
func neighbors(rel dp.Relation, bounds loss.Bounds, src rand.Source) [2][]record {
	rnd := rand.New(src)
	draw := func(bound float64) float64 {
		x := bound * (2*uniform(src) - 1)
		return []float64{bound, -bound, x, x}[rnd.IntN(4)]
	}
	one := func() record { return record{[]float64{draw(bounds.Row)}, draw(bounds.Label)} }
	var base []record
	for range 1 + rnd.IntN(5) {
		base = append(base, one())
	}
	return ended(rel, base, one(), one())
}
