package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// expX[i] is xᵢ and expF[i] is f(xᵢ) = exp(-xᵢ), with x₂₅₆ = 0.
var expX, expF = func() (x, f [layers + 1]float64) {
	for i, e := range expEdge {
		x[i] = float64(int64(e)) * 0x1p-59
		f[i] = math.Exp(-x[i])
	}
	f[layers] = 1
	return x, f
}()

// exponential draws from the law with density e⁻ˣ as hi + lo, by the ziggurat of
// Normal. The tail beyond r is the law itself, shifted by r.
func exponential(src rand.Source) (hi, lo float64) {
	var shift float64
	for range maxTries {
		s, k, spare := fullRange(src)
		i := spare & 0xff
		h, _ := bits.Mul64(s, expEdge[i]) // U xᵢ = h 2⁻⁵⁹⁻ᵏ
		hi, lo := split(h, -59-k)
		if hi < expX[i+1] { // under the curve
			return sum(shift, hi, lo)
		}
		if i == 0 {
			shift += expX[1]
			continue
		}
		y := expF[i] + Uniform(src)*(expF[i+1]-expF[i])
		if y < math.Exp(-hi) {
			return sum(shift, hi, lo)
		}
	}
	panic(errStuck)
}

// Exponential draws from the law with density e⁻ˣ on x > 0.
func Exponential(src rand.Source) float64 {
	hi, lo := exponential(src)
	return hi + lo
}

// Laplace draws from the law with density exp(-|x|/scale)/(2 scale). A zero
// scale gives 0. It panics unless 0 ≤ scale ≤ 2¹⁰⁰⁰.
func Laplace(scale float64, src rand.Source) float64 {
	checkScale(scale)
	hi, lo := exponential(src)
	x := scaled(scale, hi, lo)
	if src.Uint64()>>63 == 1 {
		return -x
	}
	return x
}
