// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// Multinomial is the logistic loss of Classes = K classes, the cross entropy of the softmax. θ
// holds K blocks θ_k of p = d/K coordinates, and the row a the features x in its first p
// coordinates; the other coordinates are not used (leave them 0, which costs nothing in sparse
// rows). With scores s_k = ⟨θ_k,x⟩ and π = softmax(s),
//
//	ℓ = log Σ_k e^{s_k} − s_y,   y = round(b) clamped to 0, …, K−1
//	∂ℓ/∂θ_k = (π_k − 1[k = y])·x
//	L = √2·Row     since ‖π − e_y‖₂ ≤ √2
//	β = Row²/2     since λ_max(diag π − ππ') ≤ ½
//
// The structure is FixedRange and the rank K: the gradients of one record stay in ℝᴷ⊗x for every θ.
// The loss depends on K predictions, so it is neither [Linear] nor can it be in a [Moreau]. [KST12]
type Multinomial struct{ Classes int }

// class returns y.
func (l Multinomial) class(b float64) int {
	y := math.RoundToEven(b)
	if !(y > 0) {
		return 0
	}
	return int(min(y, float64(l.Classes-1)))
}

// Func returns log Σ e^{s_k} − s_y without overflow.
func (l Multinomial) Func(theta, a []float64, b float64) float64 {
	p, x := l.features(theta, a)
	top, own := math.Inf(-1), 0.0
	y := l.class(b)
	for k := range l.Classes {
		s := floats.Dot(theta[k*p:(k+1)*p], x)
		if k == y {
			own = s
		}
		top = max(top, s)
	}
	sum := 0.0
	for k := range l.Classes {
		sum += math.Exp(floats.Dot(theta[k*p:(k+1)*p], x) - top)
	}
	return num.Log(sum) + (top - own)
}

// Grad stores (π_k − 1[k = y])·x in block k of dst, and 0 after the last block.
func (l Multinomial) Grad(dst, theta, a []float64, b float64) {
	if len(dst) != len(theta) {
		panic(badLen)
	}
	p, x := l.features(theta, a)
	clear(dst)
	if p == 0 {
		return
	}
	y := l.class(b)
	top := math.Inf(-1)
	for k := range l.Classes { // the first entry of block k holds s_k, then e^{s_k−top}
		dst[k*p] = floats.Dot(theta[k*p:(k+1)*p], x)
		top = max(top, dst[k*p])
	}
	sum := 0.0
	for k := range l.Classes {
		dst[k*p] = math.Exp(dst[k*p] - top)
		sum += dst[k*p]
	}
	for k := range l.Classes {
		w := dst[k*p] / sum // π_k
		if k == y {
			w = -(sum - dst[k*p]) / sum // π_k − 1
		}
		floats.ScaleTo(dst[k*p:(k+1)*p], w, x)
	}
}

// features returns p and the features of a row.
func (l Multinomial) features(theta, a []float64) (p int, x []float64) {
	if len(theta) != len(a) {
		panic(badLen)
	}
	p = len(a) / max(l.Classes, 1)
	return p, a[:p]
}

// Constants returns L and β as above, rank K, FixedRange, NoMinimizer. Range is
//
//	ln K + √2·Row·radius ≥ ln K + max_k(s_k−s_y) ≥ log Σ_k e^{s_k−s_y},   since |s_k−s_y| ≤ √2‖θ‖‖x‖
func (l Multinomial) Constants(bounds Bounds, radius float64) Constants {
	c := Constants{
		Lipschitz: math.Sqrt2 * bounds.Row, Smoothness: bounds.Row * bounds.Row / 2,
		Rank: l.Classes, Structure: FixedRange, NoMinimizer: true,
	}
	log := math.Log1p(float64(l.Classes - 1))
	if enclose.ExceedsExpm1(log*(1+0x1p-44), float64(l.Classes-1)) { // rounding up covers 2⁻⁴⁴
		c.Range = log + math.Sqrt2*bounds.Row*radius
	}
	return rounded(l, bounds, radius, c)
}

// CheckData wants a dim that is a multiple of K, so that no feature is left out, and a label bound
// of at least K−1, so that no class is clamped into another.
func (l Multinomial) CheckData(dim int, bounds Bounds) error {
	if l.Classes > 0 && dim%l.Classes != 0 {
		return fmt.Errorf("%w: %d features for Multinomial.Classes = %d, want a multiple of it: p features of a record "+
			"take the first p of p·Classes columns, the others are 0", ErrParameter, dim, l.Classes)
	}
	if !(bounds.Label >= float64(l.Classes-1)) {
		return fmt.Errorf("%w: Bounds.Label = %v clamps the labels 0, …, %d of Multinomial.Classes = %d; want at least %d",
			ErrParameter, bounds.Label, l.Classes-1, l.Classes, l.Classes-1)
	}
	return nil
}

// Check wants at least 2 Classes.
func (l Multinomial) Check() error {
	if l.Classes < 2 {
		return fmt.Errorf("%w: Multinomial.Classes = %d, want at least 2", ErrParameter, l.Classes)
	}
	return nil
}
