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
func (o *Objective) ResidualPair(grad, gradLow, x, low []float64) float64 {
	s := o.s()
	g, ok := prox.Sum(s.reg, s.set)
	_, separable := prox.Separable(g)
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
	return o.residual(x, low, func(x []float64) ([]float64, []float64, float64) {
		hi, lo, allowance := s.pairGrad(x, low)
		copy(grad, hi)
		copy(gradLow, lo)
		return hi, lo, allowance
	})
}

// AccurateGrad stores ∇f(x), computed in twice the precision and rounded, in dst, and returns a bound
// on its error before that rounding: the gradient of Residual. Not private.
func (o *Objective) AccurateGrad(dst, x []float64) (allowance float64) {
	s := o.s()
	if len(x) != s.data.d || len(dst) != len(x) {
		panic(badLen)
	}
	hi, lo, allowance := s.accurateGrad(x)
	floats.AddTo(dst, hi, lo)
	return allowance
}

// Attainable returns about the size of ∇f that rounding leaves in Grad, where a pass over the records is so
// expensive that a solver should not spend one on finding out: 0 where HessianIsFree does not
// hold. It is no bound: the rounding is at most (512+8+32)u times Σ‖∇ℓᵢ‖, and seldom a thousandth of that.
func (o *Objective) Attainable() float64 {
	s := o.s()
	if !s.whole || math.IsInf(known(s.consts.Lipschitz), 1) {
		return 0
	}
	return 0x1p-10 * (grain + 40) * unit * float64(s.data.n) * s.consts.Lipschitz
}

// Steepness returns n·sup λ_max(∇²ℓ) + λ_max(Q), an upper bound on the Lipschitz constant of ∇f
// from declared bounds and n alone, rounded up; +Inf if the loss states none.
func (o *Objective) Steepness() float64 {
	s := o.s()
	return (float64(s.data.n)*known(s.consts.Smoothness) + s.most()) * (1 + 0x1p-40)
}
