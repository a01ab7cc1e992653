package erm

import (
	"math"

	blasgonum "gonum.org/v1/gonum/blas/gonum"
)

// MaxRounded is the largest norm, in units of the grid, of a gradient that SumRounded takes.
const MaxRounded = 1 << 51

const badRounded = "erm: SumRounded needs 1 ≤ norm ≤ 2⁵¹ and |exponent| ≤ 900"

// exactIntegers is how far on either side of 0 float64 holds every integer.
const exactIntegers = 1 << 53

// SumRounded stores the sum of rounded gradients in dst, without the perturbation:
//
//	k = Σ_{i∈idx} kᵢ,   kᵢ = round(∇ℓ(x;aᵢ,bᵢ)/g),   g = 2^exponent
//
// Every gradient must have norm at most norm·g: the loss has to be one that clips. The bits of kᵢ
// are a function of x and record i alone, whatever is in the batch beside it, and wherever the
// record is stored; no registered BLAS takes part. Sums of integers are exact, modulo 2⁶⁴, in any
// order. It does not allocate. It panics unless 1 ≤ norm ≤ MaxRounded and |exponent| ≤ 900.
func (o *Objective) SumRounded(dst []int64, x []float64, idx []int, exponent int, norm int64) {
	s := o.s()
	r := s.data
	if len(x) != r.d || len(dst) != r.d {
		panic(badLen)
	}
	if norm < 1 || norm > MaxRounded || exponent < -900 || exponent > 900 {
		panic(badRounded)
	}
	clear(dst)
	sum, g, row := s.get(), s.get(), s.get()
	shift, scale := math.Ldexp(1.5, 52+exponent), math.Ldexp(1, -exponent) // (v + shift) − shift is v to the nearest multiple of g
	for len(idx) > 0 {
		clear(*sum)
		part := idx[:min(len(idx), int(exactIntegers/norm))] // whose sum float64 holds exactly
		for _, i := range part {
			if s.glm != nil {
				slab, k := r.at(i) // once: the slope is clipped for the row of the same read
				col, a := r.in(slab, k)
				addRounded(*sum, s.slope(slab, k, dotLocal(col, a, x)), col, a, shift)
				continue
			}
			s.loss.Grad(*g, x, r.row(i, *row), r.label(i))
			addRounded(*sum, 1, nil, *g, shift)
		}
		for j, v := range *sum {
			dst[j] += int64(v * scale)
		}
		idx = idx[len(part):]
	}
	s.put(sum, g, row)
}

// dotLocal returns ⟨a,x⟩ with bits that depend on a and x alone.
func dotLocal(col []int32, a, x []float64) float64 {
	if col != nil {
		return dotSparse(col, a, x)
	}
	return blasgonum.Implementation{}.Ddot(len(a), a, 1, x, 1)
}

// addRounded adds w·a, rounded to multiples of g, to dst.
func addRounded(dst []float64, w float64, col []int32, a []float64, shift float64) {
	if col != nil {
		for k, j := range col {
			dst[j] += (float64(w*a[k]) + shift) - shift
		}
		return
	}
	dst = dst[:len(a)]
	for j, v := range a {
		dst[j] += (float64(w*v) + shift) - shift
	}
}
