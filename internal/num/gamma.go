// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// maxShape is the largest shape for which sums of about √a terms are useful.
const maxShape = 0x1p50

// GammaLogP returns log P(a, x) = log( γ(a, x)/Γ(a) ) for a shape 0 < a ≤ 2⁵⁰, NaN for others. The
// absolute error is near the largest of 1e-13, √a·2⁻⁵³ and a few units in the last place of the
// result. The cost grows as √a.
func GammaLogP(a, x float64) float64 {
	l, ofQ := gammaLog(a, x)
	if ofQ {
		return Log1mExp(l)
	}
	return l
}

// GammaLogQ returns log Q(a, x) = log( Γ(a, x)/Γ(a) ), with the domain, error and cost of
// GammaLogP.
func GammaLogQ(a, x float64) float64 {
	l, ofQ := gammaLog(a, x)
	if ofQ {
		return l
	}
	return Log1mExp(l)
}

// gammaLog returns the logarithm of Q or of P, whichever is accurate.
func gammaLog(a, x float64) (l float64, ofQ bool) {
	switch {
	case !(a > 0 && a <= maxShape) || math.IsNaN(x):
		return math.NaN(), false
	case x <= 0:
		return math.Inf(-1), false
	case math.IsInf(x, 1):
		return math.Inf(-1), true
	case upper(a, x):
		return logFraction(a, x), true
	case a < 1:
		if q := logSmallShape(a, x); q < -math.Ln2 { // P near 1 because a is near 0
			return q, true
		}
	}
	return logSeries(a, x), false
}

// upper reports whether the continued fraction of Q(a, x) converges fast. If not, 1 - P loses at
// most one digit.
func upper(a, x float64) bool { return x > 1 && x > a+1.3*math.Sqrt(a) }

// logPoisson returns log( xᵃ e⁻ˣ/Γ(a+1) ), the factor of every expansion. For large a the three
// terms cancel, so they are arranged around the saddle point [Loa00]:
//
//	-½ log(2πa) - stirling(a) - (a log(a/x) + x - a)
func logPoisson(a, x float64) float64 {
	if a < 16 {
		return a*Log(x) - x - lgamma1p(a)
	}
	return -0.5*Log(2*math.Pi*a) - stirling(a) - deviance(a, x)
}

// stirling returns log Γ(a+1) - ½ log(2πa) - a log a + a for a ≥ 16
// [DLMF 5.11.1]; the first term left out is below 2e-19.
func stirling(a float64) float64 {
	q := 1 / (a * a)
	return (1./12 - q*(1./360-q*(1./1260-q*(1./1680-q*(1./1188-q*691./360360))))) / a
}

// deviance returns a log(a/x) + x - a ≥ 0 without cancellation near x = a
// [Loa00]: with v = (a-x)/(a+x), log(a/x) = 2 atanh v.
func deviance(a, x float64) float64 {
	if math.Abs(a-x) >= 0.1*(a+x) {
		return a*Log(a/x) + x - a
	}
	v := (a - x) / (a + x)
	s, e := (a-x)*v, 2*a*v
	for j := 3.0; ; j += 2 {
		e *= v * v
		next := s + e/j
		if next == s {
			return s
		}
		s = next
	}
}

// LogGamma returns log Γ(x) for x > 0.
func LogGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// lgamma1p returns log Γ(1+a), a > 0. Near 0 it sums the Taylor series
//
//	-γa + Σ_{k≥2} ζ(k)(-a)ᵏ/k                           [DLMF 5.7.3]
//
// because 1+a loses the digits of a.
func lgamma1p(a float64) float64 {
	if a > 0.25 {
		return LogGamma(1 + a)
	}
	const euler = 0.57721566490153286060651209008240243
	sum, p := -euler*a, -a
	for k := 2.0; ; k++ {
		p *= -a
		next := sum + mathext.Zeta(k, 1)*p/k
		if next == sum {
			return sum
		}
		sum = next
	}
}

// logSeries returns log P from the series of positive terms
//
//	P(a, x) = xᵃe⁻ˣ/Γ(a+1)·Σ_k xᵏ/((a+1)…(a+k))         [DLMF 8.7.1]
func logSeries(a, x float64) float64 {
	sum, term := 1.0, 1.0
	for k := a + 1; ; k++ {
		term *= x / k
		sum += term
		// The rest is below term·x/(k-x), a geometric series.
		if x < k && term*x < 0x1p-55*sum*(k-x) {
			return math.Min(0, logPoisson(a, x)+Log(sum))
		}
	}
}

// logFraction returns log Q from Legendre's continued fraction
//
//	Γ(a, x) = xᵃe⁻ˣ / (x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - …   [DLMF 8.9.2]
//
// by Lentz's algorithm.
func logFraction(a, x float64) float64 {
	b := x + 1 - a
	c, d := math.Inf(1), 1/b
	h := d
	for i := 1.0; i < 1e6; i++ { // all denominators are positive for x > a
		n := -i * (i - a)
		b += 2
		d = 1 / (b + n*d)
		c = b + n/c
		h *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return math.Min(0, logPoisson(a, x)+Log(a)+Log(h))
}

// logSmallShape returns log Q for a < 1 and small x; Q is small where the shape is small:
//
//	Q = 1 - xᵃ/Γ(a+1)·(1 + a Σ_{k≥1} (-x)ᵏ/(k!(a+k)))   [DLMF 8.7.3]
func logSmallShape(a, x float64) float64 {
	l := a*Log(x) - lgamma1p(a)
	sum, p := 0.0, 1.0
	for k := 1.0; ; k++ {
		p *= -x / k
		next := sum + p/(a+k)
		if next == sum {
			break
		}
		sum = next
	}
	return Log(-math.Expm1(l) - math.Exp(l)*a*sum)
}

// GammaInvLogP returns the x ≥ 0 with log P(a, x) = logp ≤ 0, shape 0 < a ≤ 2⁵⁰: 0 at -Inf and
// where x would underflow, +Inf at 0. The relative error is near 1e-13.
func GammaInvLogP(a, logp float64) float64 { return gammaInv(a, logp, Log1mExp(logp)) }

// GammaInvLogQ returns the x ≥ 0 with log Q(a, x) = logq ≤ 0, shape 0 < a ≤ 2⁵⁰: +Inf at -Inf, 0 at
// 0.
func GammaInvLogQ(a, logq float64) float64 { return gammaInv(a, Log1mExp(logq), logq) }

// gammaInv finds u = log x from the smaller of the two tails by Newton's method inside a bracket.
// The law of log x has a log-concave density: log P and log Q are concave in u, and Newton's method
// is monotone after one step.
func gammaInv(a, logp, logq float64) float64 {
	switch {
	case !(a > 0 && a <= maxShape) || math.IsNaN(logp) || math.IsNaN(logq):
		return math.NaN()
	case math.IsInf(logp, -1):
		return 0
	case math.IsInf(logq, -1):
		return math.Inf(1)
	}
	lower := logp < logq
	// P ≤ xᵃ/Γ(a+1) bounds x from below.
	lo, hi := (logp+lgamma1p(a))/a, Log(math.MaxFloat64)
	if lo < -745 {
		return 0
	}
	u := lo
	if a > 0.5 { // the cube root of a gamma variable is nearly normal [WH31]
		z := NormalQuantile(math.Exp(math.Min(logp, logq)))
		if !lower {
			z = -z
		}
		s := 1 / (3 * math.Sqrt(a))
		if r := 1 - s*s + z*s; r > 0.05 && !math.IsInf(z, 0) {
			u = math.Max(lo, Log(a)+3*Log(r))
		}
	}
	for range 200 {
		x := math.Exp(u)
		// f increases in u in both cases; f' = ± x·density/tail.
		var f, tail float64
		if lower {
			tail = GammaLogP(a, x)
			f = tail - logp
		} else {
			tail = GammaLogQ(a, x)
			f = logq - tail
		}
		if f < 0 {
			lo = u
		} else {
			hi = u
		}
		next := u - f*math.Exp(tail-logPoisson(a, x))/a
		if !(next > lo && next < hi) {
			if math.Abs(next-u) <= 0x1p-52*math.Max(1, math.Abs(u)) {
				return x
			}
			next = lo + (hi-lo)/2
		}
		if math.Abs(next-u) <= 0x1p-52*math.Max(1, math.Abs(u)) {
			return math.Exp(next)
		}
		u = next
	}
	return math.Exp(u)
}

// Chi2LogPDF returns the log density at x of the χ² law with ν = nu > 0 degrees of freedom,
//
//	(ν/2-1) log(x/2) - x/2 - log Γ(ν/2) - log 2
func Chi2LogPDF(x, nu float64) float64 {
	switch {
	case !(nu > 0) || math.IsInf(nu, 1) || math.IsNaN(x):
		return math.NaN()
	case x < 0 || math.IsInf(x, 1):
		return math.Inf(-1)
	case x/2 == 0 && nu == 2: // x/2 may underflow
		return -math.Ln2
	case x/2 == 0:
		return math.Inf(int(math.Copysign(1, 2-nu)))
	}
	return logPoisson(nu/2, x/2) + Log(nu/2) - Log(x)
}

// Chi2LogCDF returns the log probability that a χ² variable is at most x.
func Chi2LogCDF(x, nu float64) float64 { return GammaLogP(nu/2, x/2) }

// Chi2LogSF returns the log probability that a χ² variable exceeds x.
func Chi2LogSF(x, nu float64) float64 { return GammaLogQ(nu/2, x/2) }

// Chi2CDF returns the probability that a χ² variable is at most x.
func Chi2CDF(x, nu float64) float64 { return math.Exp(Chi2LogCDF(x, nu)) }

// Chi2SF returns the probability that a χ² variable exceeds x.
func Chi2SF(x, nu float64) float64 { return math.Exp(Chi2LogSF(x, nu)) }

// Chi2Quantile returns the x with Chi2LogCDF(x, nu) = logp ≤ 0.
func Chi2Quantile(logp, nu float64) float64 { return 2 * GammaInvLogP(nu/2, logp) }

// Chi2UpperQuantile returns the x with Chi2LogSF(x, nu) = logp ≤ 0.
func Chi2UpperQuantile(logp, nu float64) float64 { return 2 * GammaInvLogQ(nu/2, logp) }

// GammaStep returns s ≥ 0 with P(a, x+s) − P(a, x) = e^logp to full relative accuracy, without
// taking the difference; +Inf if the tail beyond x is too light.
func GammaStep(a, x, logp float64) float64 {
	if logp >= GammaLogQ(a, x) {
		return math.Inf(1)
	}
	logMass := func(s float64) float64 { // log ∫_x^{x+s} of the gamma density, in r = √y
		shift := gammaLogDensity(a, math.Min(math.Max(a-1, x), x+s))
		lo := math.Sqrt(x)
		length := math.Min(s/(math.Sqrt(x+s)+lo), 60) // √(x+s) − √x; beyond 60 lies nothing
		n := math.Ceil(length / 0.3)                  // panels of half a standard deviation
		sum := 0.0
		for i := range int(n) {
			sum += Panel(0, length/n, func(v float64) float64 {
				r := lo + float64(i)*length/n + v
				return 2 * r * math.Exp(gammaLogDensity(a, r*r)-shift)
			})
		}
		return Log(sum) + shift
	}
	guess := math.Exp(logp - gammaLogDensity(a, x))
	if !(guess > 0) || math.IsInf(guess, 1) {
		guess = x
	}
	return Largest(logMass, logp, math.Min(guess, 1e3*(x+a)), 1e-13)
}

func gammaLogDensity(a, y float64) float64 { return Chi2LogPDF(2*y, 2*a) + math.Ln2 }
