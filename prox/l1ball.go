package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

// absBall is g(x) = s(x) + ι{‖x‖₁ ≤ r}, where s has the form
// l1·‖x‖₁ + ι_K(x) and every lo is 0 or −∞ and every hi is 0 or +∞.
//
// prox_{γg} = P_ball∘prox_{γs} [Yu13, Thm. 1], as in docs/theory/numerics.md#numerics.sphere:
// the projection moves coordinates toward 0 and never across, so
// ∂s(y) ⊆ ∂s(P(y)). The projection itself is soft thresholding at the root τ
// of Σ(|y_i|−τ)₊ = r [DSSC08].
//
// The sphere ‖x‖₁ = r is treated as radial does the Euclidean one: results
// have ‖p‖₁ ≤ r in real arithmetic, and a point near the sphere stands for
// x′ = (r/‖x‖₁)x on it, with the same signs and zeros.
type absBall struct {
	s separable // l1, lo, hi; its l2 is 0
	r float64
}

var (
	_ Rounded = absBall{}
	_ Checker = absBall{}
)

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
	// In real arithmetic Σ|p_i| = r. Make it so up to rounding, from below.
	floats.Scale(g.r/sumAbs(dst)*(1-16*ulp), dst)
}

// waterline returns the root τ ≥ start of h(τ) = Σ(y_i−τ)₊ − total, with |y_i|
// for y_i if abs, where h(start) ≥ 0. h is convex, decreasing and piecewise
// linear, so Newton's method rises to the root and each step but the last
// drops a term from the sum. The root is kept below the largest y_i, where
// total is beyond the last digit of it.
func waterline(y []float64, start, total float64, abs bool) float64 {
	top := math.Inf(-1)
	for _, yi := range y {
		if abs {
			yi = math.Abs(yi)
		}
		top = max(top, yi)
	}
	top = math.Nextafter(top, math.Inf(-1))
	tau := min(start, top)
	for {
		h, low, n := -total, 0.0, 0.0 // h + low in twice the precision, see Accuracy
		for _, yi := range y {
			if abs {
				yi = math.Abs(yi)
			}
			if yi > tau {
				var e float64
				h, e = num.TwoSum(h, yi-tau)
				low += e
				n++
			}
		}
		next := min(tau+(h+low)/n, top)
		if !(next > tau) {
			return tau
		}
		tau = next
	}
}

// Dist: on the sphere ∂g(x′) is the union over t ≥ l1 of ∂(t‖·‖₁)(x′) + N_K(x′),
// so the distance is the least over t of Σ gap_t(x_i, v_i)². With
// w_i = v_i·sgn x_i and c_i the pull of −v_i on a zero coordinate, the
// derivative in t,
//
//	ψ(t) = Σ_{x_i≠0} (w_i+t) − Σ_{x_i=0} (c_i−t)₊,
//
// is increasing, concave and piecewise linear: Newton's method from l1 rises
// to its root. Any t ≥ l1 gives an element of ∂g(x′), so an early stop could
// only over-report.
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
	for {
		psi, k := 0.0, 0.0
		for i, xi := range x {
			switch {
			case xi > 0:
				psi += v[i] + s.l1
				k++
			case xi < 0:
				psi += -v[i] + s.l1
				k++
			default:
				if e := s.gap(xi, v[i]); e > 0 { // (c_i−t)₊
					psi -= e
					k++
				}
			}
		}
		next := s.l1 - psi/k
		if !(next > s.l1) {
			return s.Dist(x, v)
		}
		s.l1 = next
	}
}

// Shift returns |‖x‖₁−r| ≥ ‖x′−x‖₂ plus the rounding of the norm for a point
// that stands for one on the sphere, and 0 inside.
func (g absBall) Shift(x []float64) float64 {
	return shiftToSphere(sumAbs(x), g.r)
}

func (g absBall) Check(dim int) error {
	if err := g.s.Check(dim); err != nil {
		return err
	}
	return radius("radius", g.r)
}

// L1Ball is the set {x : ‖x‖₁ ≤ R}. Projections satisfy ‖x‖₁ ≤ R in real
// arithmetic.
type L1Ball struct{ R float64 }

var (
	_ Rounded = L1Ball{}
	_ Set     = L1Ball{}
)

func (g L1Ball) asAbsBall() absBall { return absBall{s: whole(), r: g.R} }

// Func returns 0 where ‖x‖₁ ≤ R(1+2⁻⁴⁸) and +Inf elsewhere; the allowance is
// that of Dist.
func (g L1Ball) Func(x []float64) float64 { return g.asAbsBall().Func(x) }

// Prox projects: soft thresholding at the root τ of Σ(|x_i|−τ)₊ = R where
// ‖x‖₁ > R. [DSSC08]
func (g L1Ball) Prox(dst, x []float64, gamma float64) { g.asAbsBall().Prox(dst, x, gamma) }

// Dist returns ‖v‖₂ inside, and min_{t≥0} dist(−v, t·∂‖x′‖₁) at the point
// x′ = (R/‖x‖₁)x for x with ‖x‖₁ within R(1±2⁻⁴⁸).
func (g L1Ball) Dist(x, v []float64) float64 { return g.asAbsBall().Dist(x, v) }

// Shift returns the distance to the point x′ of Dist, rounded up.
func (g L1Ball) Shift(x []float64) float64 { return g.asAbsBall().Shift(x) }

// Radius returns R, and +Inf for an invalid one.
func (g L1Ball) Radius(dim int) float64 { return validRadius(g, dim, g.R) }

// Check wants R = 0 or R ≥ 2⁻⁹⁰⁰.
func (g L1Ball) Check(int) error { return radius("L1Ball.R", g.R) }
