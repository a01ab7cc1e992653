package erm

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

const badPair = "erm: pairs need a loss.Linear and an r + ι_C that is a sum over coordinates"

// ResidualPair is Residual at the point x + low, |lowⱼ| ≤ u|xⱼ|(1+u), of twice the precision of
// float64: where ∇²f is large, the nearest float64 point to a minimizer is not near enough for
// its residual to be small. It stores ∇f(x+low) as hi + lo in grad and gradLow, which are no part
// of its arguments. It panics unless Public.Split and Public.Linear hold. Not private.
//
// Added to the allowance is 2⁻¹⁰⁰‖∇f‖ for prox.Steepest.
func (o *Objective) ResidualPair(grad, gradLow, x, low []float64) float64 {
	s := o.s()
	g, ok := total(s.reg, s.set)
	c, separable := prox.Separable(g)
	if !ok || !separable || s.glm == nil {
		panic(badPair)
	}
	if len(x) != s.data.d || len(low) != len(x) || len(grad) != len(x) || len(gradLow) != len(x) {
		panic(badLen)
	}
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || v+low[j] != v {
			return math.Inf(1)
		}
	}
	hi, lo, allowance := s.pairGrad(x, low)
	w := make([]float64, len(x))
	for j := range x {
		hi[j], lo[j] = twoSum(hi[j], lo[j])
		w[j], _ = prox.Steepest(c, j, prox.Pair{Hi: x[j], Lo: low[j]}, prox.Pair{Hi: hi[j], Lo: lo[j]})
	}
	r := (floats.Norm(w, 2) + allowance + 0x1p-100*floats.Norm(hi, 2)) * (1 + float64(len(x)+16)*0x1p-52)
	copy(grad, hi)
	copy(gradLow, lo)
	if !(r >= 0) {
		return math.Inf(1)
	}
	return r
}

// AccurateGrad stores ∇f(x), computed in twice the precision and rounded, in dst, and returns a bound
// on its error before that rounding: the gradient of Residual. Not private.
func (o *Objective) AccurateGrad(dst, x []float64) (allowance float64) {
	s := o.s()
	if len(x) != s.data.d || len(dst) != len(x) {
		panic(badLen)
	}
	grad, allowance := s.accurateGrad(x)
	copy(dst, grad)
	return allowance
}

// Steepness returns n·sup λ_max(∇²ℓ) + λ_max(Q), an upper bound on the Lipschitz constant of ∇f
// from declared bounds and n alone, rounded up; +Inf if the loss states none.
func (o *Objective) Steepness() float64 {
	s := o.s()
	return (float64(s.data.n)*known(s.consts.Smoothness) + s.most()) * (1 + 0x1p-40)
}
