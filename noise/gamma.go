package noise

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/internal/specfun"
)

const (
	errShape  = "noise: shape must lie between 2^-900 and 2^900"
	errLength = "noise: length mismatch"
)

// checkShape panics unless 2⁻⁹⁰⁰ ≤ a ≤ 2⁹⁰⁰.
func checkShape(a float64) {
	if !(a >= 0x1p-900 && a <= 0x1p900) {
		panic(errShape)
	}
}

// Gamma draws from the law with density xᵃ⁻¹ e⁻ˣ/Γ(a) on x > 0, a = shape, by
// the method of [MT00b]; for a < 1 as G U^{1/a} with G of shape a+1. Draws below
// the smallest positive float64 are rounded up to it. It panics unless
// 2⁻⁹⁰⁰ ≤ shape ≤ 2⁹⁰⁰.
func Gamma(shape float64, src rand.Source) float64 {
	checkShape(shape)
	if shape >= 1 {
		hi, lo := gamma(shape, src)
		return hi + lo
	}
	hi, lo := gamma(shape+1, src)
	return max(scaled(math.Exp(-Exponential(src)/shape), hi, lo), math.SmallestNonzeroFloat64)
}

// logGamma draws the logarithm of a Gamma(a) variable: for small a most of the
// law of the variable itself lies below the range of float64.
func logGamma(a float64, src rand.Source) float64 {
	if a >= 1 {
		hi, _ := gamma(a, src)
		return specfun.Log(hi)
	}
	hi, _ := gamma(a+1, src)
	return specfun.Log(hi) - Exponential(src)/a
}

// gamma draws from Gamma(a), a ≥ 1, as hi + lo: d v with d = a - 1/3, v = (1 + y)³,
// y = x/(3√d), x normal, accepted if [MT00b]
//
//	log U < x²/2 + d (1 - v + log v) = d (3 (log1p y - y + y²/2) - y³),
//
// where the right-hand form does not cancel for large d. The acceptance is 0.95
// at a = 1 and grows with a. The cube is taken in twice the precision: rounded
// products of 53 bits would leave holes of a few units in the last place.
func gamma(a float64, src rand.Source) (hi, lo float64) {
	d := a - 1./3
	c := 1 / (3 * math.Sqrt(d))
	for range maxTries {
		x, xlo := normal(src)
		y := c * x
		ylo := math.FMA(c, x, -y) + c*xlo
		t, tlo := sum(1, y, ylo)
		if t <= 0 {
			continue
		}
		u := Uniform(src)
		x2 := x * x
		if u < 1-0.0331*x2*x2 || specfun.Log(u) < d*(3*(math.Log1p(y)-y+y*y/2)-y*y*y) {
			t2, t2lo := times(t, tlo, t, tlo)
			v, vlo := times(t2, t2lo, t, tlo)
			return times(d, 0, v, vlo)
		}
	}
	panic(errStuck)
}

// ChiSquared draws from the χ² law with nu degrees of freedom, which need not
// be an integer: twice a Gamma(nu/2) variable. It panics unless
// 2⁻⁸⁹⁹ ≤ nu ≤ 2⁹⁰¹.
func ChiSquared(nu float64, src rand.Source) float64 {
	return 2 * Gamma(nu/2, src)
}

// Dirichlet fills dst with a draw from the Dirichlet law with density
// proportional to Π xᵢ^{αᵢ-1} on the simplex Σ xᵢ = 1: Gamma(αᵢ) variables over
// their sum, in logarithms, so that small αᵢ do not give 0/0. Coordinates below
// the range of float64 are 0. It panics if the lengths differ or an entry of
// alpha lies outside [2⁻⁹⁰⁰, 2⁹⁰⁰]; alpha may be dst.
func Dirichlet(dst, alpha []float64, src rand.Source) {
	if len(dst) != len(alpha) {
		panic(errLength)
	}
	for _, a := range alpha {
		checkShape(a)
	}
	top := math.Inf(-1)
	for i, a := range alpha {
		dst[i] = logGamma(a, src)
		top = max(top, dst[i])
	}
	var sum float64
	for i, l := range dst {
		dst[i] = math.Exp(l - top)
		sum += dst[i]
	}
	for i := range dst {
		dst[i] /= sum
	}
}
