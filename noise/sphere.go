package noise

import (
	"math"
	"math/rand/v2"
)

const errRate = "noise: rate must lie between 2^-900 and 2^900"

// Sphere fills dst with a uniform draw from the unit sphere of ℝᵈ, d = len(dst):
// independent normal draws over their norm.
func Sphere(dst []float64, src rand.Source) {
	sphere(dst, 1, 0, src)
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
	hi, lo := gamma(float64(len(dst)), src)
	hi, lo = over(hi, lo, rate)
	sphere(dst, hi, lo, src)
}

// sphere fills dst with a uniform point of the sphere of radius hi + lo. Each
// coordinate is c·zᵢ, c = radius/‖z‖, rounded once from a normal zᵢ of more than
// 53 bits. For d = 1 the direction is a sign.
func sphere(dst []float64, hi, lo float64, src rand.Source) {
	if len(dst) == 1 {
		if src.Uint64()>>63 == 1 {
			hi, lo = -hi, -lo
		}
		dst[0] = hi + lo
		return
	}
	low := make([]float64, len(dst))
	var top float64 // positive: no normal draw is 0
	for i := range dst {
		dst[i], low[i] = normal(src)
		top = max(top, math.Abs(dst[i]))
	}
	var ss float64
	for _, v := range dst {
		ss += (v / top) * (v / top)
	}
	c := hi / (top * math.Sqrt(ss))
	for i, v := range dst {
		dst[i] = scaled(c, v, low[i])
	}
	clear(low)
}
