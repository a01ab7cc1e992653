// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"gonum.org/v1/gonum/floats"
)

// absBall is g(x) = s(x) + ι{‖x‖₁ ≤ r}, where s has the orthant form of radial.
//
// prox_{γg} = P_ball∘prox_{γs} [Yu13, Thm. 1], as in docs/theory/numerics.md#numerics.sphere: the
// projection moves coordinates toward 0 and never across, so ∂s(y) ⊆ ∂s(P(y)). The projection is
// soft thresholding at the root τ of Σ(|y_i|−τ)₊ = r [DSSC08].
//
// As in radial, results have ‖p‖₁ ≤ r in real arithmetic, and a point near the sphere ‖x‖₁ = r
// stands for x′ = (r/‖x‖₁)x on the sphere, with the same signs and zeros.
type absBall struct {
	s separable // l1, lo, hi; its l2 is 0
	r float64
}

func (g absBall) Func(x []float64) float64 {
	if outside(sumAbs(x), g.r) {
		return inf
	}
	return g.s.Func(x)
}

func (g absBall) Prox(dst, x []float64, gamma float64) {
	g.s.Prox(dst, x, gamma)
	n := sumAbs(dst)
	if n <= g.r*(1-6*ulp) {
		return
	}
	if g.r == 0 {
		floats.Scale(0, dst) // a NaN stays NaN
		return
	}
	tau := waterline(dst, 0, g.r, true)
	for i, yi := range dst {
		dst[i] = yi - min(max(yi, -tau), tau) // S_τ(y)
	}
	// In real arithmetic Σ|p_i| = r. Scaling makes the rounded sum at most r.
	floats.Scale(g.r/sumAbs(dst)*(1-16*ulp), dst)
}

// Dist: on the sphere ∂g(x′) is the union over t ≥ l1 of ∂(t‖·‖₁)(x′) + N_K(x′), so the distance is
// the least over t of Σ gap_t(x_i, v_i)². With w_i = v_i·sgn x_i and c_i the pull of −v_i on a zero
// coordinate, the derivative in t is
//
//	ψ(t) = Σ_{x_i≠0} (w_i+t) − Σ_{x_i=0} (c_i−t)₊,
//
// see rise. Every t ≥ l1 gives an element of ∂g(x′), so an early stop could only over-report.
func (g absBall) Dist(x, v []float64) float64 {
	sameLen(x, v)
	n := sumAbs(x)
	switch {
	case outside(n, g.r):
		return inf
	case g.r == 0 && g.s.Func(x) == 0:
		return 0
	case !onSphere(n, g.r):
		return g.s.Dist(x, v)
	}
	s := g.s
	s.l1 = rise(s.l1, inf, func(t float64) (psi, k float64) {
		s.l1 = t
		for i, xi := range x {
			switch {
			case xi > 0:
				psi += v[i] + t
				k++
			case xi < 0:
				psi += -v[i] + t
				k++
			default:
				if e := s.gap(xi, v[i]); e > 0 { // (c_i−t)₊
					psi -= e
					k++
				}
			}
		}
		return psi, k
	})
	return s.Dist(x, v)
}

// shift returns |‖x‖₁−r| ≥ ‖x′−x‖₂ plus the rounding of the norm for a point near the sphere, and 0
// inside.
func (g absBall) shift(x []float64) float64 { return shiftToSphere(sumAbs(x), g.r) }

func (g absBall) check(dim int) error {
	if err := g.s.check(dim); err != nil {
		return err
	}
	return radius("radius", g.r)
}

// L1Ball is the set {x : ‖x‖₁ ≤ R}. Projections satisfy ‖x‖₁ ≤ R in real arithmetic.
type L1Ball struct{ R float64 }

func (g L1Ball) asAbsBall() absBall { return absBall{s: whole(), r: g.R} }

// Func returns 0 where ‖x‖₁ ≤ R(1+2⁻⁴⁸) and +Inf elsewhere, with the allowance of Dist.
func (g L1Ball) Func(x []float64) float64 { return g.asAbsBall().Func(x) }

// Prox projects: soft thresholding at the root τ of Σ(|x_i|−τ)₊ = R where ‖x‖₁ > R. [DSSC08]
func (g L1Ball) Prox(dst, x []float64, gamma float64) { g.asAbsBall().Prox(dst, x, gamma) }

// Dist returns ‖v‖₂ inside, and min_{t≥0} dist(−v, t·∂‖x′‖₁) at the point
// x′ = (R/‖x‖₁)x for x with ‖x‖₁ within R(1±2⁻⁴⁸).
func (g L1Ball) Dist(x, v []float64) float64 { return g.asAbsBall().Dist(x, v) }

// shift returns the distance to the point x′ of Dist, rounded up.
func (g L1Ball) shift(x []float64) float64 { return g.asAbsBall().shift(x) }

// Radius returns R, and +Inf for an invalid one.
func (g L1Ball) Radius(dim int) float64 { return validRadius(g, dim, g.R) }

func (g L1Ball) check(int) error { return radius("L1Ball.R", g.R) }
