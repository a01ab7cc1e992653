package audit

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// The scales that claims ask for, from their definitions: an integral and a bisection where the
// mechanisms have sharper numerics. They hold to 1e-9 for δ ≥ 1e-4, which is all that an audit
// needs: a relative error of 1e-4 of a scale is far below what a million scores see.

// simpson returns ∫_a^b f by Simpson's rule on n panels.
func simpson(a, b float64, n int, f func(x float64) float64) float64 {
	h := (b - a) / float64(n)
	sum := f(a) + f(b)
	for i := range n {
		x := a + h*float64(i)
		sum += 4 * f(x+h/2)
		if i > 0 {
			sum += 2 * f(x)
		}
	}
	return sum * h / 6
}

// largestUnder returns the largest s with f(s) ≤ bound for an increasing f, to 1e-9.
func largestUnder(bound float64, f func(s float64) float64) float64 {
	lo, hi := 0.0, 1.0
	for f(hi) <= bound {
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1e-9*hi {
		if mid := (lo + hi) / 2; f(mid) <= bound {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// normalStick returns E(1 − e^{e₁ − (s²/2 + sN)})₊ = Φ(s/2 − e₁/s) − e^{e₁}Φ(−s/2 − e₁/s).
func normalStick(e1, s float64) float64 {
	return num.NormalCDF(s/2-e1/s) - math.Exp(e1)*num.NormalCDF(-s/2-e1/s)
}

// gaussianScale returns σ for a vector of the given sensitivity.
func gaussianScale(b dp.Budget, sensitivity float64) float64 {
	return sensitivity / largestUnder(b.Delta, func(s float64) float64 { return normalStick(b.Epsilon, s) })
}

// renyiScale returns σ for a vector of the given sensitivity by its Rényi divergence of
// orders κ+1: δ = e^{κ((κ+1)s²/2−ε)} (κ/(κ+1))^κ/(κ+1).
func renyiScale(b dp.Budget, sensitivity float64) float64 {
	return sensitivity / largestUnder(math.Log(b.Delta), func(s float64) float64 {
		least := 0.0
		for kappa := 0.5; kappa < 1e3; kappa *= 1.01 {
			least = min(least, kappa*((kappa+1)*s*s/2-b.Epsilon)-kappa*math.Log1p(1/kappa)-math.Log1p(kappa))
		}
		return least
	})
}

// sensitivity returns how far a neighbor moves a sum of vectors of norm l.
func sensitivity(rel dp.Relation, l float64) float64 {
	if rel == dp.Replace {
		return 2 * l
	}
	return l
}

// standard maps noise to scores in place: b/σ, or for the density ∝ exp(−a‖b‖) a vector of the same
// direction whose squared norm has the χ²_d probability that a‖b‖ has for the Gamma(d) law.
func standard(b []float64, sigma, rate float64) []float64 {
	if rate == 0 {
		floats.Scale(1/sigma, b)
		return b
	}
	d, norm := float64(len(b)), floats.Norm(b, 2)
	x := 2 * rate * norm
	square := 0.0
	if p, q := num.Chi2LogCDF(x, 2*d), num.Chi2LogSF(x, 2*d); p < q {
		square = num.Chi2Quantile(p, d)
	} else {
		square = num.Chi2UpperQuantile(q, d)
	}
	floats.Scale(math.Sqrt(square)/norm, b)
	return b
}

// placedNormal returns a standard score of round(X), X ~ N(0, s²): a point of the cell of
// k, drawn uniformly in probability.
func placedNormal(k int64, s float64, src rand.Source) float64 {
	if k > 0 {
		return -placedNormal(-k, s, src)
	}
	lo, hi := num.NormalCDF((float64(k)-0.5)/s), num.NormalCDF((float64(k)+0.5)/s)
	p := lo + uniform(src)*(hi-lo)
	return Normal(p, 1-p)
}
