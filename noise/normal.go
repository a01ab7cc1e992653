package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// layers is the number of layers of the ziggurat.
const layers = 256

// edgeX[i] is xᵢ, edgeF[i] is f(xᵢ), with x₂₅₆ = 0. f(x₀) is not used.
var edgeX, edgeF = func() (x, f [layers + 1]float64) {
	for i, e := range edge {
		x[i] = float64(int64(e)) * 0x1p-61
		f[i] = math.Exp(-x[i] * x[i] / 2)
	}
	f[layers] = 1
	return x, f
}()

// Normal fills dst with independent draws from N(0, σ²). A zero sigma gives
// zeros. It panics unless 0 ≤ sigma ≤ 2¹⁰⁰⁰.
//
// The method is the ziggurat [MT00a] with 256 layers whose abscissa is a
// full-range uniform times the layer's edge, from bits that choose neither the
// layer nor the sign. Accuracy: layer i, of area v, is chosen with probability
// 1/256 and holds x uniformly below its edge xᵢ, accepted surely below xᵢ₊₁ and
// else with probability (f(x) - f(xᵢ))/(f(xᵢ₊₁) - f(xᵢ)). For xᵢ₊₁ ≤ x < xᵢ the
// density is thus
//
//	1/(256 v) [ f(r)(1+e₀) + Σ_{0<j<i} (f(xⱼ₊₁) - f(xⱼ))(1+eⱼ) + (f(x) - f(xᵢ))(1+eᵢ) ]
//
// where eⱼ is the relative error of the area of layer j, below 2⁻⁴⁴, so the
// density is f(x)/(256 v) up to a relative error 2⁻⁴⁴ at every x; tails beyond
// r follow [Mar64] with full-range exponentials. The draw carries at least 58
// bits to the product with σ and is rounded there, once.
func Normal(dst []float64, sigma float64, src rand.Source) {
	checkScale(sigma)
	for i := range dst {
		hi, lo := normal(src)
		dst[i] = scaled(sigma, hi, lo)
	}
}

// normal draws from N(0,1) as hi + lo.
func normal(src rand.Source) (hi, lo float64) {
	for range maxTries {
		s, k, spare := fullRange(src)
		i := spare & 0xff
		h, _ := bits.Mul64(s, edge[i]) // U xᵢ = h 2⁻⁶¹⁻ᵏ
		f := float64(int64(h))
		p := math.Float64frombits(uint64(1023-61-k)<<52 | spare>>8<<63) // ± 2⁻⁶¹⁻ᵏ
		hi, lo = f*p, float64(int64(h)-int64(f))*p
		x := math.Abs(hi)
		if x < edgeX[i+1] { // under the curve
			return hi, lo
		}
		if i == 0 {
			hi, lo = tail(edgeX[1], src)
			if p < 0 {
				hi, lo = -hi, -lo
			}
			return hi, lo
		}
		y := edgeF[i] + Uniform(src)*(edgeF[i+1]-edgeF[i])
		if y < math.Exp(-x*x/2) {
			return hi, lo
		}
	}
	panic(errStuck)
}

// tail draws from N(0,1) given that it exceeds r > 0 [Mar64]: r + a with
// a = E₁/r, accepted if 2E₂ > a².
func tail(r float64, src rand.Source) (hi, lo float64) {
	for range maxTries {
		e, omega := exponential(src)
		a, alo := over(e, omega, r)
		if b := Exponential(src); 2*b > a*a {
			return sum(r, a, alo)
		}
	}
	panic(errStuck)
}
