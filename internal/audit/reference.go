package audit

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
)

// The scales that claims ask for, from their definitions: an integral and a
// bisection where the mechanisms have sharper numerics. They hold to 1e-9 for
// δ ≥ 1e-4, which is all that an audit needs: a relative error of 1e-4 of a
// scale is far below what a million scores see.

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

// largestUnder returns the largest s with f(s) ≤ bound for an increasing f, to
// 1e-9.
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

// chiStick returns E(1 − e^{e₁ − s²/2 − sχ_q})₊, the divergence of a privacy loss
// that is at most c + s²/2 + sχ_q, where e₁ = ε − c.
func chiStick(e1, s float64, q int) float64 {
	from := math.Max(0, e1/s-s/2)
	nu := float64(q)
	return simpson(from, from+14+math.Sqrt(nu), 600, func(x float64) float64 {
		density := 0.0 // of χ_q
		switch {
		case x > 0:
			density = 2 * x * math.Exp(specfun.Chi2LogPDF(x*x, nu))
		case q == 1:
			density = math.Sqrt(2 / math.Pi)
		}
		return density * -math.Expm1(math.Min(0, e1-s*s/2-s*x))
	})
}

// normalStick returns E(1 − e^{e₁ − (s²/2 + sN)})₊ = Φ(s/2 − e₁/s) − e^{e₁}Φ(−s/2 − e₁/s).
func normalStick(e1, s float64) float64 {
	return specfun.NormalCDF(s/2-e1/s) - math.Exp(e1)*specfun.NormalCDF(-s/2-e1/s)
}

// gaussianScale returns σ for a vector of the given sensitivity.
func gaussianScale(b dp.Budget, sensitivity float64) float64 {
	return sensitivity / largestUnder(b.Delta, func(s float64) float64 { return normalStick(b.Epsilon, s) })
}

// sharpScale returns the sharp σ of linear perturbation for a loss of ⟨a,θ⟩:
// G/s with the largest s for which chiStick ≤ δ. Under Replace in more than one
// dimension two scalars change: the law with q = 1 counts where
// (e₁ − s²/2)/s ≥ 1.65, else that with q = 2; the better of the two is taken.
func sharpScale(b dp.Budget, c, g float64, dim int, rel dp.Relation) float64 {
	e1 := b.Epsilon - c
	s := largestUnder(b.Delta, func(s float64) float64 { return chiStick(e1, s, 1) })
	if rel == dp.Replace && dim > 1 {
		const r0 = 1.65
		s = math.Min(s, math.Sqrt(r0*r0+2*e1)-r0) // s with r₀ = e₁/s − s/2
		s = math.Max(s, largestUnder(b.Delta, func(s float64) float64 { return chiStick(e1, s, 2) }))
	}
	return g / s
}

// jointScale returns the σ of linear perturbation at which minimizer and output
// noise together keep the whole budget, if that is less than sharp: G/s with the
// largest s for which
//
//	E δ_G(ε − c − s²/2 − sχ_q; o) ≤ δ,   o the ratio of 2R to the scale of the output noise
func jointScale(b, output dp.Budget, c, g float64, q int, sharp float64) float64 {
	o := 1 / gaussianScale(output, 1)
	nu := float64(q)
	s := largestUnder(b.Delta, func(s float64) float64 {
		return simpson(0, 14+math.Sqrt(nu), 2000, func(x float64) float64 {
			density := math.Sqrt(2 / math.Pi) // of χ_q at 0, q = 1
			if x > 0 {
				density = 2 * x * math.Exp(specfun.Chi2LogPDF(x*x, nu))
			} else if q > 1 {
				return 0
			}
			return density * normalStick(b.Epsilon-c-s*s/2-s*x, o)
		})
	})
	return math.Min(sharp, g/s)
}

// split returns the parts of a budget, share of both going to the output noise.
func split(b dp.Budget, share float64) (objective, output dp.Budget) {
	output = dp.Budget{Epsilon: share * b.Epsilon, Delta: share * b.Delta}
	return dp.Budget{Epsilon: b.Epsilon - output.Epsilon, Delta: b.Delta - output.Delta}, output
}

// sensitivity returns how far a neighbor moves a sum of vectors of norm l.
func sensitivity(rel dp.Relation, l float64) float64 {
	if rel == dp.Replace {
		return 2 * l
	}
	return l
}
