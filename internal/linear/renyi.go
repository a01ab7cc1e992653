package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// renyi returns log of a bound on δ(ε) of removing a record, at any real ε, for a loss
// without an envelope; 0 for the others. With S² = s²+o² and c = log1p(β/μ) the Rényi
// divergence of order α = κ+1 is at most αS²/2 + ψ₊/κ, where curvature counts in second
// order, so that at every κ > 0
//
//	log δ ≤ κ(αS²/2 − ε) + ψ₊ + κ log(κ/α) − log α
//
// Proof: docs/theory/renyi.md#lop.renyi/1.
func (k *tied) renyi(eps, s, o float64) float64 {
	if k.envelope != nil {
		return 0
	}
	square := s*s + o*o
	kappa := order(eps, square, k.c)
	moment, curvature := kappa*(kappa+1)*square/2, psiPlus(k.c, kappa)
	odds, last := kappa*math.Log1p(1/kappa), math.Log1p(kappa)
	size := moment + kappa*(math.Abs(eps)+k.c) + curvature + odds + last
	log := moment - kappa*eps + curvature - odds - last + 0x1p-48*size // more than the rounding of two dozen operations
	if !(log < 0) {                                                    // also NaN, where no order is of use
		return 0
	}
	return log
}

// order returns the κ at which the bound of renyi is least, to about 1e-6. Its derivative
//
//	(2κ+1)S²/2 − ε + c − t/(1+κt) + log(κ/α),   t = 1 − e^{−c}
//
// increases and is concave in κ, so that Newton's method goes up to the root from
// any point to the left of it. There it is below 1.5 S² − ε + c + log κ up to κ = 1, and
// below (2κ+1)S²/2 − ε + c.
func order(eps, square, c float64) float64 {
	t := -math.Expm1(-c)
	kappa := max(math.Exp(min(0, eps-c-1.5*square))/2, min((eps-c)/square-0.5, 1e15))
	for range 100 {
		tilt := t / (1 + kappa*t)
		slope := (2*kappa+1)*square/2 - eps + c - tilt - math.Log1p(1/kappa)
		step := -slope / (square + tilt*tilt + 1/(kappa*(kappa+1)))
		if !(step > 1e-6*kappa) || kappa > 1e15 {
			break
		}
		kappa += step
	}
	return kappa
}

// psiPlus returns ψ₊ = α log(1+x) − log(1+αx) for c = log1p(x) and α = κ+1, as a sum of
// terms ≥ 0, which keeps the digits of a small one:
//
//	κ(c − t) + (κt − log1p(κt)),   t = x/(1+x) = 1 − e^{−c}
func psiPlus(c, kappa float64) float64 {
	t := -math.Expm1(-c)
	gap := c - t
	if t < 0.4 {
		gap = logGap(-t)
	}
	return kappa*gap + logGap(kappa*t)
}

// psiMinus returns ψ₋ = −κ log(1+x) − log(1−κx) in the same way, +Inf from where κx is
// next to 1.
func psiMinus(c, kappa float64) float64 {
	x := math.Expm1(c)
	if !(kappa*x <= 1-0x1p-20) {
		return math.Inf(1)
	}
	return kappa*logGap(x) + logGap(-kappa*x)
}

// logGap returns y − log(1+y) ≥ 0. Near 0 it is a series in r = y/(2+y), |r| ≤ 1/4,
// of which 16 terms are enough for float64:
//
//	r(y − 2r²(1/3 + r²/5 + r⁴/7 + …))
func logGap(y float64) float64 {
	if !(y >= -0.4 && y <= 0.5) {
		return y - math.Log1p(y)
	}
	r := y / (2 + y)
	sum := 0.0
	for j := 33.; j >= 3; j -= 2 {
		sum = sum*r*r + 1/j
	}
	return r * (y - 2*r*r*sum)
}

// renyiReplace returns log δ(ε) of replacing a record in two steps, with renyi for the one
// that removes, and the best leg found; ε ≥ 0. Every leg is valid. It looks near a leg only,
// unless that is nil.
func (k *tied) renyiReplace(eps, s, o float64, near *leg) (log float64, best leg) {
	legs, lo, hi, steps := []leg{{removeFirst: false}, {removeFirst: true}}, 0.0, eps, 8
	if near != nil {
		legs, lo, hi, steps = []leg{*near}, max(0, near.e1-eps/16), min(eps, near.e1+eps/16), 0
	}
	// No term changes by more than a factor of e over 1/κ.
	tol := min(1e-6*eps, 1e-5/order(eps, s*s+o*o/4, k.c))
	for _, g := range legs {
		e1, v := num.Minimize(func(e1 float64) float64 {
			er, ea, lr, la := leg{g.removeFirst, e1}.parts(eps)
			return num.LogSumExp(lr+k.renyi(er, s, o/2), la+k.logAdd(ea, s, o/2))
		}, lo, hi, steps, tol)
		if v < log {
			log, best = v, leg{g.removeFirst, e1}
		}
	}
	return log, best
}

// mayGain reports whether renyi is less than e times the other bound on removal at the best
// leg of that: else no leg of renyi is better.
func (k *tied) mayGain(g leg, eps, s, o float64) bool {
	er, _, _, _ := g.parts(eps)
	return k.envelope == nil && k.renyi(er, s, o/2) < k.at(er, s, o/2, 1, k.c)+1
}

// renyiNoise returns u = σ/L at which a record is within (ε, e^{target}) with output noise
// o, by renyi for removing it; +Inf unless that is below most by more than a millionth: a
// smaller gain is not worth another theorem.
func (k *tied) renyiNoise(eps, o, target, most float64, replace bool) float64 {
	if k.envelope != nil || !(most > 0 && most < math.MaxFloat64) {
		return math.Inf(1)
	}
	var near *leg
	log := func(s float64) float64 {
		if !replace {
			return max(k.renyi(eps, s, o), k.logAdd(eps, s, o))
		}
		v, g := k.renyiReplace(eps, s, o, near)
		near = &g
		return v
	}
	if most *= 1 - 1e-6; !replace && k.renyi(eps, 1/most, o) > target || !(log(1/most) <= target) {
		return math.Inf(1)
	}
	return least(log, target-1e-9, most, 1e-10) * safeScale
}

// rdpRenyi returns the Rényi divergence of order α ≥ 1 of removing, adding and replacing
// a record,
//
//	sup_p [αs²p²/2 + ψ₊/κ],   sup_p [αs²p²/2 + ψ₋/κ],   2αs² + (ψ₊+ψ₋)/κ
//
// ψ at the largest curvature for p, in the last at that for all p. Next to α = 1 the values of a
// larger order are taken.
func (k *tied) rdpRenyi(alpha, s float64) (remove, add, replace float64) {
	kappa := max(alpha-1, 1e-9)
	plus := func(c float64) float64 { return psiPlus(c, kappa) / kappa }
	minus := func(c float64) float64 { return psiMinus(c, kappa) / kappa }
	remove, add = k.second(plus).rdpTied(kappa+1, s), math.Inf(1)
	if !math.IsInf(minus(k.c), 1) {
		add = k.second(minus).rdpTied(kappa+1, s)
	}
	return remove, add, 2*(kappa+1)*s*s + plus(k.c) + minus(k.c)
}

// second returns k with psi(κ) in the place of κ, for an increasing psi.
func (k *tied) second(psi func(c float64) float64) *tied {
	h := *k
	h.c, h.exact = psi(k.c)*safeC, false
	h.kappas = make([]float64, len(k.grid))
	if k.envelope != nil {
		h.l, h.mu = 1, 1
		h.envelope = func(p, q float64) float64 { return math.Expm1(psi(k.kappa(p, q))) * safeC }
	}
	for i, p := range h.grid {
		h.kappas[i] = h.kappa(p, p)
	}
	return &h
}

// provesRenyi proves a claim by renyi, for removing or in a leg.
func (k *Calibrator) provesRenyi(q claim) bool {
	t := k.tied(q.ridge + k.p.Modulus)
	s := t.l / q.sigma
	if k.p.Relation != dp.Replace {
		return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.Most(k.removing(c, t, c.Of(q.eps), order(q.eps, s*s+q.o*q.o, t.c), q.o, q),
				t.adding(c, func(c enclose.Arithmetic) enclose.Interval { return c.Of(q.eps) }, q.o, q)), c.Of(q.delta)
		})
	}
	_, g := t.renyiReplace(q.eps, s, q.o, nil)
	if !(g.e1 >= 0 && g.e1 <= q.eps) {
		return false
	}
	er, _, _, _ := g.parts(q.eps)
	kappa := order(er, s*s+q.o*q.o/4, t.c)
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		e1, rest, half := c.Of(g.e1), c.Sub(c.Of(q.eps), c.Of(g.e1)), q.o/2
		add := func(eps enclose.Interval) enclose.Interval {
			return t.adding(c, func(enclose.Arithmetic) enclose.Interval { return eps }, half, q)
		}
		if g.removeFirst {
			return c.Add(k.removing(c, t, e1, kappa, half, q), c.Mul(c.Exp(e1), add(rest))), c.Of(q.delta)
		}
		return c.Add(add(e1), c.Mul(c.Exp(e1), k.removing(c, t, rest, kappa, half, q))), c.Of(q.delta)
	})
}

// removing encloses the bound of renyi for one κ > 0: all are valid.
func (k *Calibrator) removing(c enclose.Arithmetic, t *tied, eps enclose.Interval, order, o float64, q claim) enclose.Interval {
	one, kappa, x := c.Of(1), c.Of(order), c.Quo(c.Of(k.p.Constants.Smoothness), k.modulus(c, q))
	alpha := c.Add(one, kappa)
	square := c.Add(c.Square(c.Quo(c.Of(t.l), c.Of(q.sigma))), c.Square(c.Of(o)))
	moment := c.Mul(kappa, c.Sub(c.Quo(c.Mul(alpha, square), c.Of(2)), eps))
	plus := c.Sub(c.Mul(alpha, c.Log1p(x)), c.Log1p(c.Mul(alpha, x)))
	odds := c.Sub(c.Mul(kappa, c.Log(c.Quo(kappa, alpha))), c.Log(alpha))
	return c.Exp(c.Add(moment, c.Add(plus, odds)))
}
