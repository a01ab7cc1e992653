package lop

import (
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/release"
)

// provesRest reports whether the parts of a plan certainly add up to its budget b. The
// objective has a proof for its part, with shift o of the output noise if that is in the same
// curve; the rest is
//
//	two steps  ε₁ + ε₂ ≤ ε, δ_G(ε₂; S′/σ_out) ≤ δ₂ or S′a_out ≤ ε₂
//	one step   S′ ≤ oσ_out
//	δ > 0      (1+e^ε)P(‖b‖ > B) + δ₁ + δ₂ ≤ δ, as P(‖b‖ > σ(√d+t)) ≤ e^{−t²/2}
//	δ = 0      x − d − d ln(x/d) ≥ ln(2⁶⁴N(e^ε+1)/(e^ε−1)), x = aB > d, N = (2K+1)^d
//	           points of the grid, see release.MostRadial
//
// B is B_max less what rounding can add to ‖b‖ before draw compares it: LinearError, and less
// than d + 8 roundings of a float64 norm.
func (pl *Plan) provesRest(b, objective, output dp.Budget, o float64) bool {
	p, out, d := pl.params, pl.output, float64(pl.params.Dim)
	type interval = enclose.Interval
	if o > 0 {
		output = dp.Budget{}
		if !enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
			return c.Of(out.Sensitivity), c.Mul(c.Of(o), c.Of(out.Sigma))
		}) {
			return false
		}
	} else if !out.Proves(output) {
		return false
	}
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
		return c.Add(c.Of(objective.Epsilon), c.Of(output.Epsilon)), c.Of(b.Epsilon)
	}, func(c enclose.Arithmetic) (less, more interval) {
		one, e := c.Of(1), c.Exp(c.Of(b.Epsilon))
		most := c.Mul(c.Of(pl.per.Linear), c.Sub(one, c.Of((d+8)*0x1p-52)))
		most = c.Sub(most, c.Of(pl.per.LinearError))
		if b.Delta == 0 {
			// At x = d the left side is 0; below it Chernoff's bound says nothing.
			x, log2 := c.Most(c.Of(d), c.Mul(c.Of(p.Rate), most)), c.Log(c.Of(2))
			points := c.Mul(c.Of(d), c.Log(c.Of(release.Points)))
			odds := c.Log(c.Quo(c.Add(e, one), c.Sub(e, one)))
			need := c.Add(c.Add(points, c.Mul(c.Of(64), log2)), odds)
			return need, c.Sub(c.Sub(x, c.Of(d)), c.Mul(c.Of(d), c.Log(c.Quo(x, c.Of(d)))))
		}
		tail := release.Failure(c, p.Dim, b.Epsilon, c.Quo(most, c.Of(p.Sigma)))
		return c.Add(tail, c.Add(c.Of(objective.Delta), c.Of(output.Delta))), c.Of(b.Delta)
	})
}
