package noise

import (
	"math"
	"math/rand/v2"
)

const errRate = "noise: rate must lie between 2^-900 and 2^900"

// Sphere fills dst with a uniform draw from the unit sphere of ℝᵈ, d = len(dst):
// independent normal draws over their norm.
func Sphere(dst []float64, src rand.Source) {
	sphere(dst, 1, src)
}

// GammaNorm fills dst with a draw from the law on ℝᵈ with density proportional
// to exp(-rate ‖b‖₂): a uniform direction times a Gamma(d)/rate radius. It panics
// unless 2⁻⁹⁰⁰ ≤ rate ≤ 2⁹⁰⁰.
func GammaNorm(dst []float64, rate float64, src rand.Source) {
	if !(rate >= 0x1p-900 && rate <= 0x1p900) {
		panic(errRate)
	}
	if len(dst) == 0 {
		return
	}
	sphere(dst, gamma(float64(len(dst)), src)/rate, src)
}

// sphere fills dst with a uniform point of the sphere of the given radius. For
// d = 1 the direction is a sign and the radius is not rounded again.
func sphere(dst []float64, radius float64, src rand.Source) {
	Normal(dst, 1, src)
	if len(dst) == 1 {
		dst[0] = math.Copysign(radius, dst[0])
		return
	}
	var top float64 // positive: no normal draw is 0
	for _, v := range dst {
		top = max(top, math.Abs(v))
	}
	var ss float64
	for i := range dst {
		dst[i] /= top
		ss += dst[i] * dst[i]
	}
	c := radius / math.Sqrt(ss)
	for i := range dst {
		dst[i] *= c
	}
}
