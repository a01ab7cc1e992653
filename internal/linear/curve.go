// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// A Chi bounds the privacy loss of the exact minimizer by the sum of a bound on the change of the
// gradient and a bound c on the change of curvature. The loss is dominated by
//
//	c + s²/2 + s·χ_q                                        [RKW23, extended]
//
// Proof: docs/theory/linear.md#lop.curve/2.
type Chi struct {
	C, S float64
	Q    int // dimension of the subspace that holds the change of the gradient

	// Paired says that two scalar derivatives change (Replace, losses of ⟨a,θ⟩). Then q = 2, and
	// the formula with q = 1 holds as well at every ε where r₀ ≥ pairedR0.
	Paired bool
	// Monotone says that the loss is dominated by c + max(0, s²/2 + sN), N standard normal.
	Monotone bool
}

// pairedR0 is the least r₀ at which the formula with q = 1 is proved for two scalar derivatives.
const pairedR0 = 1.65

// r0 returns r₀ = (ε − c − s²/2)/s, the point of χ_q from which the loss exceeds ε.
func (k Chi) r0(eps float64) float64 { return (eps-k.C)/k.S - k.S/2 }

// LogDelta returns log δ(ε), the tightest bound proved at this ε. With Paired it need not be convex
// in e^ε.
func (k Chi) LogDelta(eps float64) float64 {
	e1 := eps - k.C
	switch {
	case k.Monotone:
		return logMonotone(e1, k.S)
	case k.Paired && k.r0(eps) >= pairedR0:
		return LogChi(e1, k.S, 1)
	}
	return LogChi(e1, k.S, k.Q)
}

// RDP returns the Rényi divergence bound of order α ≥ 1,
//
//	c + s²/2 + log E exp((α−1)s·χ_q) / (α−1),    q = 1:  log(2Φ(t)) + t²/2, t = (α−1)s
//
// For two scalar derivatives the formula with q = 1 holds at every order, because the exponential
// is convex and (|N₁|+|N₂|)/2 averages two copies of |N|.
func (k Chi) RDP(alpha float64) float64 {
	q := k.Q
	if k.Paired {
		q = 1
	}
	base := k.C + k.S*k.S/2
	if t := (alpha - 1) * k.S; t < 1e-6 {
		// The quotient below would lose the digits of t. E χ_q = √2 Γ((q+1)/2)/Γ(q/2), and
		// log E e^{tχ} ≤ t E χ + t²/2 because the norm is 1-Lipschitz.
		mean := math.Sqrt2 * math.Exp(num.LogGamma(float64(q+1)/2)-num.LogGamma(float64(q)/2))
		return base + k.S*(mean+t/2)
	}
	return base + logMGF((alpha-1)*k.S, q)/(alpha-1)
}

// logMonotone returns log E[(1 − e^{e₁ − max(0, s²/2+sN)})₊]: the analytic
// Gaussian at e₁ ≥ 0 and 1 − e^{e₁}(1 − δ_G(0,s)) below.
func logMonotone(e1, s float64) float64 {
	if e1 >= 0 {
		return dp.GaussianLogDelta(e1, s)
	}
	return num.Log(-math.Expm1(e1 + math.Log1p(-dp.GaussianDelta(0, s))))
}

// LogChi returns log E[(1 − e^{e₁ − s²/2 − sχ_q})₊]. With r₀ = e₁/s − s/2 ≥ 0,
//
//	q = 1:  2 δ_G(e₁, s)
//	q = 2:  s exp(−r₀²/2) R(r₀+s),   R the Mills ratio
//	else:   ∫_{r₀}^∞ s e^{−s(x−r₀)} P(χ_q > x) dx = 2^{1−q/2}/Γ(q/2) e^{−r₀²/2} (J(0) − J(−s))
//
// with J of function moments, n = q−1,
// and 1 − e^{s r₀} E e^{−sχ_q} for r₀ < 0.
func LogChi(e1, s float64, q int) float64 {
	r0 := e1/s - s/2
	if r0 < 0 {
		return num.Log(-math.Expm1(s*r0 + logMGF(-s, q)))
	}
	switch q {
	case 1:
		return math.Ln2 + dp.GaussianLogDelta(e1, s)
	case 2:
		return num.Log(s) - r0*r0/2 + num.Log(num.Mills(r0+s))
	}
	r0 = math.Min(r0, farthest)
	if tail := num.Chi2LogSF(r0*r0, float64(q)); tail < nothing { // δ ≤ P(χ_q > r₀)
		return tail
	}
	if q > 1000 || s*math.Sqrt(float64(q)) > 2 || r0 > 1e3 { // moments would lose digits, or time
		return math.Min(0, logChiTail(r0, s, q))
	}
	apart, _, scale := moments(r0, -s/2, s, q-1)
	return math.Min(0, (1-float64(q)/2)*math.Ln2-num.LogGamma(float64(q)/2)-r0*r0/2+scale+num.Log(apart))
}

// moments returns the difference and the sum of Jₙ(t+s/2) and Jₙ(t−s/2), divided by e^{scale}, for
//
//	Jₙ(t) = ∫_{r₀}^∞ xⁿ e^{t(x−r₀)−(x²−r₀²)/2} dx = r₀^{n−1} + (n−1)Jₙ₋₂(t) + tJₙ₋₁(t)
//	J₀(t) = R(r₀−t)
//
// Without t both are sums of positive terms; a t < 0 may raise the rounding error by e^{4|t|√n}.
func moments(r0, t, s float64, n int) (apart, sum, scale float64) {
	half, power := s/2, 2.0
	a := r0 - t - half
	apart = math.Exp(dp.GaussianLogDelta(s*(a+half), s)+a*a/2) * math.Sqrt(2*math.Pi) // R(a) − R(a+s)
	sum = apart + 2*num.Mills(a+s)
	apart0, sum0 := 0.0, 0.0
	for j := range n {
		apart0, apart, sum0, sum = apart, float64(j)*apart0+t*apart+half*sum, sum, float64(j)*sum0+t*sum+half*apart+power
		power *= r0
		if sum > 0x1p500 {
			apart0, apart = apart0*0x1p-500, apart*0x1p-500
			sum0, sum = sum0*0x1p-500, sum*0x1p-500
			power = power * 0x1p-500
			scale += 500 * math.Ln2
		}
	}
	return apart, sum, scale
}

const (
	// nothing is a log δ below every budget and every float64 δ. Where log δ is below it, a bound
	// takes the place of the integral, for which no width of panels is suitable.
	nothing = -1e5
	// farthest replaces larger r₀, whose squares may overflow. A smaller r₀ only raises δ.
	farthest = 1e100
)

// logChiTail returns log ∫_{r₀}^∞ s e^{−s(x−r₀)} T(x) dx, T(x) = P(χ_q > x), by Gauss–Legendre
// panels. Over each panel the integrand falls by less than e¹⁵, so that the 16-point rule has a
// relative error below 1e-14. A bound on the remainder from the last hazard rate, which only grows,
// is added.
func logChiTail(r0, s float64, q int) float64 {
	nu := float64(q)
	logT := func(x float64) float64 { return num.Chi2LogSF(x*x, nu) }
	hazard := func(x, logTx float64) float64 { // −T′(x)/T(x), 0 at 0
		return 2 * x * math.Exp(num.Chi2LogPDF(x*x, nu)-logTx)
	}
	var head float64 // where T = 1 to double precision: P(χ_q ≤ √q − 9) < e^{−40}
	x := r0
	if flat := math.Sqrt(nu) - 9; flat > x {
		head, x = -math.Expm1(-s*(flat-x)), flat
	}
	top := -s*(x-r0) + logT(x)
	nodes, weights := num.GaussLegendre(16)
	var sum, comp float64 // in units of e^{top}
	for {
		at := -s*(x-r0) + logT(x) - top
		rate := s + hazard(x, logT(x))
		if at < -40 { // the remainder is below e^{−40} of the whole
			sum += s * math.Exp(at) / rate
			break
		}
		h := math.Min(0.75, 8/rate)
		for i, t := range nodes {
			y := x + h*(t+1)/2
			term := weights[i]*h/2*s*math.Exp(-s*(y-r0)+logT(y)-top) - comp
			next := sum + term
			comp = (next - sum) - term
			sum = next
		}
		x += h
	}
	if head > 0 {
		return num.Log(head + math.Exp(top)*sum)
	}
	return top + num.Log(sum)
}

// logMGF returns log E e^{tχ_q} for real t, in closed form or by quadrature around the mode of the
// log-concave integrand x^{q−1} e^{tx−x²/2}.
func logMGF(t float64, q int) float64 {
	switch {
	case t == 0:
		return 0
	case q == 1: // 2Φ(t) e^{t²/2}
		return math.Ln2 + num.LogPhi(t) + t*t/2
	case q == 2 && t < 0: // 1 + t R(−t)
		return math.Log1p(t * num.Mills(-t))
	case t > 1e6: // a bound, as the norm is 1-Lipschitz and E χ_q ≤ √q
		return t*t/2 + t*math.Sqrt(float64(q))
	}
	n := float64(q - 1)
	mode := mgfMode(t, n)
	h := 2 / math.Sqrt(1+n/(mode*mode)) // two standard deviations of the peak
	top, sum, _ := integral(func(x float64) float64 { return n*num.Log(x) + t*x - x*x/2 }, mode,
		func(float64) float64 { return h })
	// E e^{tχ} = 2^{1−q/2}/Γ(q/2) ∫ x^{q−1} e^{tx−x²/2} dx
	return (1-float64(q)/2)*math.Ln2 - num.LogGamma(float64(q)/2) + top + num.Log(sum)
}

// integral returns ∫₀^∞ e^{logf} as sum·e^{top} for a log-concave integrand, by the 16-point rule
// on panels from the peak outward, up to the points where the integrand is e⁻⁴⁵ of its peak. width
// returns the width of a panel from its end closer to the peak. ok is false if more than mostPanels
// are needed.
func integral(logf func(x float64) float64, peak float64, width func(x float64) float64) (top, sum float64, ok bool) {
	const mostPanels = 1000 // usually there are less than a hundred
	nodes, weights := num.GaussLegendre(16)
	top = logf(peak)
	panel := func(lo, hi float64) {
		part := 0.0
		for i, z := range nodes {
			x := lo + (hi-lo)*(z+1)/2
			part += weights[i] * (hi - lo) / 2 * math.Exp(logf(x)-top)
		}
		sum += part
	}
	panels := 0
	for x := peak; panels < mostPanels; panels++ {
		h := width(x)
		panel(x, x+h)
		if x += h; logf(x)-top < -45 {
			break
		}
	}
	for x := peak; x > 0 && panels < mostPanels; panels++ {
		h := math.Min(x, width(x))
		panel(x-h, x)
		if x -= h; x > 0 && logf(x)-top < -45 {
			break
		}
	}
	return top, sum, panels < mostPanels
}

// mgfMode returns the mode (t + √(t²+4n))/2 of xⁿ e^{tx−x²/2}, n > 0, without cancellation.
func mgfMode(t, n float64) float64 {
	root := math.Sqrt(t*t + 4*n)
	if t > 0 {
		return (t + root) / 2
	}
	return 2 * n / (root - t)
}

// LogJoint returns log δ(ε) of the minimizer and its Gaussian output noise of shift o = 2R/σ_out in
// one step, at every real ε,
//
//	δ(ε) = E δ_G(ε − c − s²/2 − sχ_q; o)
//
// Proof: docs/theory/linear.md#lop.joint/2.
func (k Chi) LogJoint(eps, o float64) float64 {
	nu := float64(k.Q)
	r0 := math.Min(k.r0(eps), farthest)
	if half := r0 / 2; half > 0 { // δ ≤ P(χ_q > r₀/2) + δ_G(s r₀/2; o)
		if bound := num.LogSumExp(num.Chi2LogSF(half*half, nu), dp.GaussianLogDelta(k.S*half, o)); bound < nothing {
			return bound
		}
	}
	// The logarithm of the integrand, f_χ(x) δ_G(s(r₀−x); o).
	logf := func(x float64) float64 {
		return math.Ln2 + num.Log(x) + num.Chi2LogPDF(x*x, nu) + dp.GaussianLogDelta(k.S*(r0-x), o)
	}
	// δ_G(y; o) changes on the scale o of y, hence o/s of x. Far from r₀ only the density of χ_q
	// changes, on the scale 1.
	w := math.Min(0.25, o/k.S)
	far := math.Max(r0, math.Sqrt(nu)) + 12
	if r0 > 0 {
		// At the peak (q−1)/x − x + s·h = 0 for h = −∂log δ_G/∂y = R(b)/(R(b−o)−R(b)), y = s(r₀−x), b =
		// y/o + o/2, which increases with y ≤ s r₀. R is convex and 1/R(b) − b ≥ 1/(b+2): h ≤ (b+2)/o.
		far = math.Min(far, math.Sqrt(nu)+k.S/o*(k.S*r0/o+o/2+2))
	}
	// The width of a panel at x: two scales of δ_G up to r₀, where δ_G falls like a Gaussian tail, and
	// a growing width beyond, where δ_G is close to 1 − e^y.
	width := func(x float64) float64 {
		if x < r0 {
			return math.Min(0.5, 2*w)
		}
		return math.Min(0.5, math.Max(w, (x-r0)/4))
	}
	top, sum, ok := integral(logf, peakOf(logf, far, 60), width)
	if log := top + num.Log(sum); ok && !math.IsNaN(log) && !math.IsInf(log, 0) {
		return math.Min(0, log)
	}
	// The quadrature failed; in two steps, δ_curve(ε−12o) + δ_G(12o; o).
	return math.Min(0, num.LogSumExp(k.LogDelta(eps-12*o), dp.GaussianLogDelta(12*o, o)))
}

// peakOf returns a point near the maximizer of a log-concave function on [0, hi],
// by ternary search in so many steps, each of which leaves 0.6 of the interval.
func peakOf(logf func(x float64) float64, hi float64, steps int) float64 {
	lo := 0.0
	for range steps {
		a, b := lo+(hi-lo)*0.4, lo+(hi-lo)*0.6
		if logf(a) < logf(b) {
			lo = a
		} else {
			hi = b
		}
	}
	return (lo + hi) / 2
}

// LeastNoise returns the least u = 1/s = σ/G, rounded up, at which the curve with c = ε − e₁ is at
// most δ; e₁ > 0 and 0 < δ < 1. For two scalar derivatives it is the least for either formula: q =
// 1 with r₀ ≥ pairedR0, or q = 2.
func (k Chi) LeastNoise(e1, delta float64) float64 { return k.leastNoise(e1, delta, nil) }

// leastNoise is LeastNoise, or with a guess nearly that, for the search for Δ only.
func (k Chi) leastNoise(e1, delta float64, from *guess) float64 {
	at := func(logCurve func(e1, s float64) float64, q int) float64 {
		f := func(s float64) float64 { return logCurve(e1, s) }
		if from != nil {
			return from.chi[min(q, 2)-1].least(f, num.Log(delta), enough(e1, delta, q))
		}
		return least(f, num.Log(delta), enough(e1, delta, q), 1e-12)
	}
	chi := func(q int) float64 {
		return at(func(e1, s float64) float64 { return LogChi(e1, s, q) }, q)
	}
	switch {
	case k.Monotone:
		return at(logMonotone, 1)
	case k.Paired:
		// r₀ = e₁u − 1/(2u) ≥ pairedR0 for u ≥ floor.
		floor := (pairedR0 + math.Sqrt(pairedR0*pairedR0+2*e1)) / (2 * e1) * (1 + 1e-12)
		u := chi(1)
		if u >= floor {
			return u
		}
		return min(floor, chi(k.Q))
	}
	return chi(k.Q)
}

// enough returns a u = 1/s at which the curve is at most δ: the solution of s²/2 + s r = e₁ for
// r = √q + √(2 ln(1/δ)), which χ_q exceeds with probability at most δ.
func enough(e1, delta float64, q int) float64 {
	r := math.Sqrt(float64(q)) + math.Sqrt(-2*num.Log(delta))
	return (r + math.Sqrt(r*r+2*e1)) / (2 * e1)
}

// least returns the least u with logDelta(1/u) ≤ target < 0, rounded up by a relative tol at most.
// The search starts at enough, which need not satisfy the inequality. logDelta does not decrease
// with s, and √(−2 log δ) is nearly linear in u.
func least(logDelta func(s float64) float64, target, enough, tol float64) float64 {
	goal := math.Sqrt(-2 * target)
	return num.LeastRoot(func(u float64) float64 {
		return math.Sqrt(-2*min(0, logDelta(1/u))) - goal
	}, enough, tol)
}

// A root warm-starts the search for u with the result at another Δ: u and du/d√(−2 log δ) in units
// of a guess, which changes nearly as they do.
type root struct{ u, slope float64 }

// nearly is the relative length of the last step of a search for the noise at one Δ of many.
const nearly = 1e-6

// least is the function least to about the square of nearly, by secant steps from the root that was
// found last, and to nearly where they fail.
func (r *root) least(logDelta func(s float64) float64, target, enough float64) float64 {
	goal := math.Sqrt(-2 * target)
	if start := r.u * enough; start > 0 {
		u, slope, ok := num.Secant(func(u float64) float64 {
			if !(u > start/2 && u < 2*start) {
				return math.NaN()
			}
			return math.Sqrt(-2*min(0, logDelta(1/u))) - goal
		}, start, r.slope*enough, nearly*start)
		if ok {
			*r = root{u / enough, slope / enough}
			return u
		}
	}
	u := least(logDelta, target, enough, nearly)
	*r = root{u / enough, u / enough / goal} // √(−2 log δ) is about ε/s far out
	return u
}

// chiStick encloses an upper bound on E δ_G(s(r₀ − χ_q); o), s r₀ = e₁ − s²/2 ≥ 0, that is exact
// for o = 0, by the recursions for U_n and V_n. Proof: docs/theory/stick.md#linear.stick.
func chiStick(c enclose.Arithmetic, e1, s, o enclose.Interval, q int) enclose.Interval {
	of := func(n int) enclose.Interval { return c.Of(float64(n)) }
	two, half := of(2), c.Quo(c.Square(s), of(2))
	whole := c.Hypot(s, o)
	far, mid := c.Quo(e1, whole), c.Quo(whole, two)
	ratio := c.Square(c.Quo(o, s))
	spread := c.Add(of(1), ratio)
	// φ_{1+v}(m) = φ(m/√(1+v))/√(1+v)
	m := c.Sub(c.Quo(c.Sub(e1, half), s), c.Quo(c.Square(o), c.Mul(two, s)))
	root := c.Sqrt(spread)
	peak := c.Mul(s, c.Quo(c.Density(c.Quo(m, root)), root))
	mean, variance := c.Quo(m, spread), c.Quo(ratio, spread)

	u0, u := of(0), c.GaussianDelta(e1, whole)                                            // U_{n−1}, U_n
	v0, v := of(0), c.Mul(s, c.Mul(c.Density(c.Sub(far, mid)), c.Mills(c.Add(far, mid)))) // V_{n−1}, V_n
	y0, y := of(0), of(1)                                                                 // M_{n−1}, M_n
	factor := two                                                                         // √(2π)/(2^{q/2−1}Γ(q/2))
	if q%2 == 0 {
		factor = c.Sqrt(c.Mul(two, c.Pi()))
	}
	for n := 1; n < q; n++ {
		u0, u = u, c.Add(c.Mul(of(n-1), u0), v)
		v0, v = v, c.Add(c.Sub(c.Mul(of(n-1), v0), c.Mul(s, v)), c.Mul(peak, y))
		y0, y = y, c.Add(c.Mul(mean, y), c.Mul(c.Mul(of(n-1), variance), y0))
		if n > 1 && n%2 == q%2 {
			factor = c.Quo(factor, of(n))
		}
	}
	return c.Add(c.Mul(factor, u), c.GaussianDelta(c.Sub(e1, half), o))
}

// apart is the bound of Chi, which counts gradient and curvature apart.
type apart struct {
	*Calibrator
	chi Chi // without S
}

func (k *Calibrator) apart(mu float64) apart {
	chi := k.chi
	chi.C = k.curvature(mu)
	return apart{k, chi}
}

// at returns the curve at σ, and whether it has a profile: for persons with several rows and losses
// of ⟨a,θ⟩ it bounds Rényi divergences only.
func (k apart) at(sigma float64) (chi Chi, profile bool) {
	chi = k.chi
	chi.S = k.g / sigma
	return chi, !(k.persons() && k.fixed == 1)
}

// least searches with output noise only: without it, every search starts at the noise of Chi.
func (k apart) least(w *want) (sigma float64, theorem string) {
	chi, profile := k.at(w.most)
	joint := func(s float64) float64 {
		chi.S = s
		return chi.LogJoint(w.eps, w.o)
	}
	// If joint(G/σ) > log δ, the start is the smaller one, and the search may not end.
	if !profile || w.o == 0 || !(joint(k.g/w.most) <= w.log) {
		return math.Inf(1), ""
	}
	return k.g * SafeScale * least(joint, w.log, w.most/k.g, 1e-12), TheoremJoint
}

func (k apart) logs(sigma, o float64) (remove, add func(eps float64) float64) {
	chi, profile := k.at(sigma)
	if !profile {
		return nil, nil
	}
	both := chi.LogDelta
	if o > 0 {
		both = func(eps float64) float64 { return chi.LogJoint(eps, o) }
	}
	return both, both
}

func (k apart) renyi(alpha, sigma float64) float64 {
	chi, _ := k.at(sigma)
	return chi.RDP(alpha)
}

// mostStick is the largest q of chiStick. Its products of q float64 numbers stay within the
// exponents of big.Float, ±2³¹, beyond which rounding would not be outward.
const mostStick = 1 << 20

// proves proves Chi.LogDelta ≤ log δ, or with output noise Chi.LogJoint ≤ log δ, and of a pure
// claim that c + aG ≤ ε.
func (k apart) proves(q claim) bool {
	if q.delta == 0 {
		return q.rate > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.Add(k.cost(c, q), c.Mul(c.Of(q.rate), c.Of(k.g))), c.Of(q.eps)
		})
	}
	_, profile := k.at(q.sigma)
	return profile && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		e1, s := c.Sub(c.Of(q.eps), k.cost(c, q)), c.Quo(c.Of(k.g), c.Of(q.sigma))
		o := c.Of(q.o)
		r0 := c.Sub(c.Quo(e1, s), c.Quo(s, c.Of(2)))
		v, one := c.Of(1), c.Of(1)
		if k.chi.Monotone && q.o == 0 && e1.Lo.Sign() >= 0 {
			v = c.Least(v, c.GaussianDelta(e1, s))
		}
		if q.o == 0 && (k.chi.Q == 1 || k.chi.Paired && r0.Lo.Cmp(c.Of(pairedR0).Hi) >= 0) {
			v = c.Least(v, folded(c, e1, s))
		}
		switch {
		case r0.Lo.Sign() >= 0 && k.chi.Q <= mostStick:
			v = c.Least(v, chiStick(c, e1, s, o, k.chi.Q))
		case r0.Hi.Sign() <= 0 && k.chi.Q == 2 && q.o == 0: // 1 − e^{s r₀}(1 − sR(s))
			v = c.Least(v, c.Sub(one, c.Mul(c.Exp(c.Mul(s, r0)), c.Sub(one, c.Mul(s, c.Mills(s))))))
		}
		return v, c.Of(q.delta)
	})
}

// folded encloses a bound on E(1 − e^{ε − s²/2 − s|N|})₊: 2δ_G(ε, s), or, if the loss is never
// below ε,
//
//	1 − e^ε E e^{−s²/2−s|N|} = 1 − 2e^ε Φ(−s)
func folded(c enclose.Arithmetic, eps, s enclose.Interval) enclose.Interval {
	v := c.Mul(c.Of(2), c.GaussianDelta(eps, s))
	if eps.Hi.Cmp(c.Quo(c.Square(s), c.Of(2)).Lo) <= 0 {
		v = c.Least(v, c.Sub(c.Of(1), c.Mul(c.Mul(c.Of(2), c.Exp(eps)), c.NormalTail(s))))
	}
	return v
}
