package prox

import "cmp"

// fused is s(x) + TotalVariation(x), where s is the same convex function φ of
// every coordinate: with φ = l1|·| the fused lasso.
//
// prox_{γ(s+TV)} = prox_{γs}∘prox_{γTV} [FHHT07, Yu13]. For y = prox_{γTV}(x) and p = prox_{γs}(y),
// x−y ∈ γ∂TV(y) and y−p ∈ γ∂s(p). p is a nondecreasing function of y, the same for every
// coordinate, so each jump p_{i+1}−p_i has the sign of y_{i+1}−y_i or is 0; ∂TV depends on these
// signs only and grows where one becomes 0: ∂TV(y) ⊆ ∂TV(p), and x−p ∈ γ∂TV(p) + γ∂s(p).
type fused struct {
	s  separable
	tv TotalVariation
}

func (g fused) Func(x []float64) float64 {
	return number(g.s.Func(x) + g.tv.Func(x))
}

func (g fused) Prox(dst, x []float64, gamma float64) {
	g.tv.Prox(dst, x, gamma)
	g.s.Prox(dst, dst, gamma)
}

// Dist: in a run of equal coordinates ∂φ is one interval [a, b], so with y = −v
// less the pull of the jumps at the ends of the run
//
//	min_{|w_i|≤Weight, u_i∈[a,b]} ‖y − Dᵀw − u‖ = ‖prox_{σ+TV}(y)‖
//
// by Moreau's identity, where σ(t) = Σmax(at_i, bt_i) is the support function of [a,b]: a sum as
// above, whose proximal map takes t to its distance from [a,b], signed, after that of TV.
func (g fused) Dist(x, v []float64) float64 {
	sameLen(x, v)
	for _, xi := range x {
		if !g.s.inside(xi) {
			return inf
		}
	}
	var d ssq
	if !g.tv.runs(x, v, func(xi, yi float64) { d.add(g.s.gap(xi, -yi)) }) {
		return inf
	}
	return d.norm()
}

func (g fused) check(dim int) error { return cmp.Or(g.s.check(dim), g.tv.check(dim)) }

func (g TotalVariation) asFused() fused { return fused{whole(), g} }
