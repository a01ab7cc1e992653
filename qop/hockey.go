// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// The hockey-sticks of Theorem A for losses that are functions of χ²_k, and of the 2×2 Wishart
// block of a replaced least-squares record. All are integrals of nonnegative functions and not
// differences of distribution functions, so that δ = 1e-100 keeps its relative accuracy of about
// 1e-12.

// panel is the number of Gauss–Legendre nodes per panel of the laws below.
const panel = 12

// chi returns the widths of panels for an integrand similar to the density of a χ variable with k
// degrees of freedom. The panel that ends at s has width min(1, s/2, 8/max(|k/s − s|, 8)): s/2
// keeps it away from the branch point of s^{k−1} at 0, and the last term shortens it in the tails,
// where the density has the logarithmic slope k/s − s.
func chi(k float64) func(s float64) float64 {
	return func(s float64) float64 { return math.Min(s/2, math.Min(1, 8/math.Max(math.Abs(k/s-s), 8))) }
}

// beyond returns ∫_t^top f_k(y) (1 − e^{−excess(y, y−t)}) dy, f_k the density of χ²_k. With y = t +
// s² half-integer powers of y − t become smooth.
func beyond(t, top, k float64, excess func(y, rest float64) float64) float64 {
	return num.PanelsDown(math.Sqrt(top-t), math.Sqrt(math.Max(k-2-t, 1)), chi(k), func(s float64) float64 {
		y := t + s*s
		return 2 * s * math.Exp(num.Chi2LogPDF(y, k)) * -math.Expm1(-excess(y, s*s))
	})
}

// stickAdd returns E[(1 − e^{ε−l(y)})₊], y ~ χ²_k, for the loss of an added record l(y) = −p·log(1
// − t/y) − t/2, +∞ for y ≤ t. This is A(ε) of least squares for p = N = k/2 − 1, and D_a(ε) of a
// generalized linear loss for p = k/2:
//
//	Q(t) + ∫_t^{y*} f_k(y) (1 − e^{ε+t/2} (1 − t/y)^p) dy,   y* = t/(1 − e^{−(ε+t/2)/p})
func stickAdd(eps, t, k, p float64) float64 {
	sure := num.Chi2CDF(t, k) // the minimizer can leave the support
	if p <= 0 {
		return sure
	}
	top := t / -math.Expm1(-(eps+t/2)/p)
	return sure + beyond(t, top, k, func(_, rest float64) float64 { return p*math.Log1p(t/rest) - (eps + t/2) })
}

// stickRemove returns R(ε) of least squares, E[(1 − e^{ε−l(y)})₊] for the loss of a removed record
// l(y) = t/2 − N·log(1 + t/y), y ~ χ²_k, N = k/2 − 1:
//
//	∫_{y₁}^∞ f_k(y) (1 − e^{ε−t/2} (1 + t/y)^N) dy,   y₁ = t/(e^{(t/2−ε)/N} − 1),   0 if ε ≥ t/2
func stickRemove(eps, t, k float64) float64 {
	n := k/2 - 1
	switch {
	case eps >= t/2:
		return 0
	case n <= 0:
		return -math.Expm1(eps - t/2)
	}
	return removeTail(eps, t, k, t/math.Expm1((t/2-eps)/n))
}

// removeTail returns ∫_from^∞ f_k(y) (1 − e^{ε−t/2} (1 + t/y)^N) dy.
func removeTail(eps, t, k, from float64) float64 {
	n := k/2 - 1
	if least := 1e-6 * k; from < least { // δ is close to 1: the whole mass below counts
		return num.Chi2CDF(least, k) + removeTail(eps, t, k, least)
	}
	return num.PanelsUp(math.Sqrt(from), math.Sqrt(math.Max(k, from)), chi(k), func(s float64) float64 {
		y := s * s
		return 2 * s * math.Exp(num.Chi2LogPDF(y, k)) * -math.Expm1(eps-t/2+n*math.Log1p(t/y))
	})
}

// stickRemoveGLM returns D_r(ε) of a generalized linear loss, for which the loss of a removed
// record is l(y) = max(log(1 + t/y), t/2 − N·log(1 + t/y)), y ~ χ²_k:
//
//	∫_0^{y₁} f_k(y) (1 − e^ε/(1 + t/y)) dy + ∫_{y₂}^∞ f_k(y) (1 − e^{ε−t/2} (1 + t/y)^N) dy
//
// with y₁ = t/(e^{max(ε, t/k)} − 1); the branches of the maximum cross at y = t/(e^{t/k} − 1). The
// second term is 0 for ε ≥ t/2; y₂ = t/(e^{(t/2−ε)/N} − 1) if ε ≥ t/k, else y₁.
func stickRemoveGLM(eps, t, k float64) float64 {
	n := k/2 - 1
	y1 := t / math.Expm1(math.Max(eps, t/k))
	sum := num.PanelsDown(math.Sqrt(y1), math.Sqrt(math.Min(y1, k-1)), chi(k), func(s float64) float64 {
		y := s * s
		return 2 * s * math.Exp(num.Chi2LogPDF(y, k)) * -math.Expm1(eps-math.Log1p(t/y))
	})
	if eps >= t/2 {
		return sum
	}
	switch y2 := t / math.Expm1((t/2-eps)/n); {
	case eps < t/k:
		sum += removeTail(eps, t, k, y1)
	case n > 0:
		sum += removeTail(eps, t, k, y2)
	}
	return sum
}

// replaceStick computes B(ε) of least squares for one ε and k: the hockey-stick of Y ~ W₂(κ), κ = k
// + 1, against Y + diag(t, −t). With independent X₁, X₂ ~ χ²_κ, docs/theory/quadratic.md#qop.lsq/2
// reduces it to
//
//	B(ε) = E_g K(t/g),   K(h) = ∫ c ((1−x²)^N − e^ε (1−(x+h)²)₊^N)₊ dx,   N = (κ−3)/2,   g = √(X₁X₂)
type replaceStick struct {
	eps, k   float64
	n        float64 // N
	norm     float64 // c
	unit     float64 // panel width in the angle
	ith, cth float64 // e^{−ε/N}, 1 − e^{−ε/N}

	rough        bool
	lower, upper []meanPanel // of E_g if k > edgeDof
}

// meanPanel holds nodes g and weights of one panel of E_g.
type meanPanel struct{ g, w [panel]float64 }

// edgeDof is the largest k for which E_g gets a panel that ends at g = t/2. K(t/g) is 1 below t/2
// and has only k bounded derivatives there, which matters for small k.
const edgeDof = 12

// newReplaceStick prepares B(ε). rough replaces E_g by five Gauss–Hermite nodes, which suffice to
// compare one k with another.
func newReplaceStick(eps, k float64, rough bool) *replaceStick {
	b := &replaceStick{eps: eps, k: k, n: k/2 - 1, rough: rough}
	b.norm = math.Exp(num.LogGamma(b.n+1.5)-num.LogGamma(b.n+1)) / math.SqrtPi
	b.unit = 1.4 / math.Sqrt(2*b.n+2)
	b.ith, b.cth = math.Exp(-eps/b.n), -math.Expm1(-eps/b.n) // 0 and 1 for N = 0
	if k > edgeDof && !rough {
		b.lower, b.upper = b.panels(0)
	}
	return b
}

// panels returns nodes and weights of the density of g, from its mode down to 0 and from its mode
// up. No panel contains the point s = edge in its interior, s = √g. The density in s,
//
//	2s · g^{κ−1} K₀(g) / (2^{κ−2} Γ(κ/2)²),
//
// has its mode near √κ and a standard deviation of about 0.5.
func (b *replaceStick) panels(edge float64) (lower, upper []meanPanel) {
	kappa := b.k + 1
	logc := 2*num.LogGamma(kappa/2) + (kappa-2)*math.Ln2
	x, w := num.GaussLegendre(panel)
	at := func(lo, hi float64) (m meanPanel, mass float64) {
		for i := range x {
			s := (lo+hi)/2 + (hi-lo)/2*x[i]
			g := s * s
			m.g[i] = g
			m.w[i] = (hi - lo) * w[i] * s * math.Exp((kappa-1)*num.Log(g)+logBesselK0(g)-logc)
			mass += m.w[i]
		}
		return m, mass
	}
	side := func(next func(s float64) float64) (side []meanPanel) {
		for s, mass := math.Sqrt(kappa), 1.0; mass > minTail; {
			end := next(s)
			if lo, hi := min(s, end), max(s, end); lo < edge && edge < hi {
				end = edge
			}
			var m meanPanel
			m, mass = at(min(s, end), max(s, end))
			side = append(side, m)
			s = end
		}
		return side
	}
	return side(func(s float64) float64 { return s - math.Min(0.8, s/2) }),
		side(func(s float64) float64 { return s + 0.8 })
}

// minTail is the probability at which panels end, far below the least δ of a Budget.
const minTail = 1e-120

// at returns B(ε) for the shift t.
func (b *replaceStick) at(t float64) float64 { return b.mean(t, b.kernel) }

// mean returns E_g kernel(t/g) for a kernel that does not decrease and is at most 1.
func (b *replaceStick) mean(t float64, kernel func(h float64) float64) float64 {
	if b.rough {
		mid, sum := math.Sqrt(b.k+1), 0.0
		for _, q := range [][2]float64{{0, 8. / 15}, {1.3556262, 0.2220759}, {-1.3556262, 0.2220759},
			{2.8569700, 0.0112574}, {-2.8569700, 0.0112574}} {
			s := math.Max(mid+q[0]/2, 0.1)
			sum += q[1] * kernel(t/(s*s))
		}
		return sum
	}
	lower, upper := b.lower, b.upper
	if b.k <= edgeDof {
		lower, upper = b.panels(math.Sqrt(t / 2))
	}
	sum := 0.0
	for _, side := range [][]meanPanel{lower, upper} {
		last := 0.0
		for i := range side {
			part := 0.0
			for j, g := range side[i].g {
				part += side[i].w[j] * kernel(t/g)
			}
			sum += part
			if part <= last && part <= num.Negligible*sum { // past the mode the integrand only falls
				break
			}
			last = part
		}
	}
	return math.Min(sum, 1)
}

// width returns the width of a panel with its upper end at angle.
func (b *replaceStick) width(angle float64) float64 { return math.Min(b.unit, angle/2) }

// kernel returns K(h). The integrand is positive for x > x*, where e^{ε/N} (1 − (x*+h)²) = 1 − x*²;
// for x > 1−h the subtracted term is 0. With x = cos θ there and x + h = cos ψ below, the powers
// are smooth at both ends.
func (b *replaceStick) kernel(h float64) float64 {
	if h >= 2 {
		return 1
	}
	low := (b.cth - h*h) / (math.Sqrt(b.ith*h*h+b.cth*b.cth) + h) // x*
	sum := 0.0
	if b.n > 0 {
		sum = num.PanelsDown(math.Acos(math.Min(low+h, 1)), math.Pi/2, b.width, func(psi float64) float64 {
			sin, cos := math.Sincos(psi)
			moved := 2*h*cos - h*h // 1 − x² = sin²ψ + moved
			return sin * math.Exp(b.n*num.Log(sin*sin+moved)) * -math.Expm1(b.eps-b.n*math.Log1p(moved/(sin*sin)))
		})
	}
	top, p := math.Acos(1-h), 2*b.n+1
	if bound := top * math.Pow(math.Sin(top), p); top < math.Pi/2 && bound <= num.Negligible*sum {
		return b.norm * (sum + bound)
	}
	sum += num.PanelsDown(top, math.Pi/2, b.width, func(theta float64) float64 {
		return math.Pow(math.Sin(theta), p)
	})
	return b.norm * sum
}

// logBesselK0 returns log K₀(z), z > 0, K₀(z) = ∫_0^∞ e^{−z cosh u} du, to about 1e-14 relative: by
// the trapezoidal rule, which converges geometrically, and for large z by its asymptotic series.
func logBesselK0(z float64) float64 {
	if z > 40 {
		// √(π/2z) e^{−z} Σ_j Π_{i≤j} −(2i−1)²/(8iz); terms fall to 1e-17 first.
		sum, term := 1.0, 1.0
		for i := 1.0; i < 40 && math.Abs(term) > 1e-17; i++ {
			term *= -(2*i - 1) * (2*i - 1) / (8 * i * z)
			sum += term
		}
		return -z + num.Log(math.Pi/(2*z))/2 + num.Log(sum)
	}
	// e^{z} K₀(z): width of the integrand 1/√z for large z, log(1/z) for small.
	step := 0.15 / math.Sqrt(1+z)
	sum := 0.5
	for u := step; ; u += step {
		s := math.Sinh(u / 2)
		term := math.Exp(-2 * z * s * s) // e^{−z(cosh u − 1)}
		sum += term
		if term < 1e-17*sum {
			break
		}
	}
	return -z + num.Log(step*sum)
}
