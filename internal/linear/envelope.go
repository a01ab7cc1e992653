// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// scalar bounds the privacy loss of the exact minimizer for losses of ⟨a,θ⟩, whose records have one
// scalar derivative. It counts the gradient and the curvature of a record together: a record with a
// gradient of norm pL at the minimizer, 0 ≤ p ≤ 1, has curvature at most h(p), the envelope of the
// loss. With s = L/σ and κ(p) = log1p(h(p)/μ),
//
//	removing a record   sup_p δ_G(ε−κ(p), √(s²p²+o²))
//	adding a record     E δ_G(ε − max(0, sN+s²/2), o)   the sign of φ′ is fixed
//	                    E δ_G(ε − s|N| − s²/2, o)       any convex φ
//
// Proof: docs/theory/linear.md#lop.envelope/1.
type scalar struct {
	l, mu    float64                      // L, μ
	beta     float64                      // β
	c        float64                      // log1p(β/μ) ≥ κ, rounded up
	envelope func(lo, hi float64) float64 // sup of h over gradient norms in [lo, hi]; nil: β
	monotone bool
	persons  int       // the most eigenvalues of a person's Hessian; 0: a unit is one record
	grid     []float64 // values of p, from 0 to 1
	kappas   []float64 // κ there
	steepest bool      // κ is largest at p = 1: so is the cost of removing a record
	exact    bool      // under is a proof, if mu is a lower bound
}

// newScalar prepares the curve for a modulus: for records, or for persons of whose Hessians at most
// so many eigenvalues are positive. For these κ is h/μ, as several rows may exceed log1p(h/μ).
func newScalar(l, mu, beta float64, envelope func(lo, hi float64) float64, monotone bool, persons int) *scalar {
	c := math.Log1p(beta / mu)
	if persons > 0 {
		c = beta / mu
	}
	k := &scalar{l: l, mu: mu, beta: beta, c: c * SafeC, envelope: envelope, monotone: monotone, persons: persons}
	k.steepest = k.kappa(1, 1) == k.c
	if k.envelope == nil {
		k.grid, k.kappas = []float64{1}, []float64{k.c}
		return k
	}
	for i := range 32 {
		k.grid = append(k.grid, float64(i)/32)
	}
	for j := 6; j <= 20; j++ {
		k.grid = append(k.grid, 1-math.Ldexp(1, -j))
	}
	k.grid = append(k.grid, 1)
	for _, p := range k.grid {
		k.kappas = append(k.kappas, k.kappa(p, p))
	}
	return k
}

// ratio returns the supremum of h/μ over [p, q], rounded up if k is exact.
func (k *scalar) ratio(p, q float64) float64 {
	lo, hi := k.l*p, k.l*q
	if !k.exact {
		return k.envelope(lo, hi) / k.mu
	}
	const down, up, tiny = 1 - 0x1p-52, 1 + 0x1p-52, 0x1p-1074 // at least one rounding
	h := k.beta
	if k.envelope != nil {
		h = min(h, k.envelope(lo*down, min(hi*up, k.l)))
	}
	return h/k.mu*up + tiny
}

// kappa returns the supremum of κ over [p, q], nearly.
func (k *scalar) kappa(p, q float64) float64 {
	switch {
	case k.envelope == nil:
		return k.c
	case k.persons > 0:
		return min(k.c, k.ratio(p, q)*SafeC)
	}
	return min(k.c, math.Log1p(k.ratio(p, q))*SafeC)
}

// under reports whether κ ≤ f on [p, q], which is certain if k is exact.
func (k *scalar) under(p, q, f float64) bool {
	switch {
	case !k.exact && k.c <= f:
		return true
	case !(f >= 0) || !k.exact && k.envelope == nil:
		return false
	case k.persons > 0:
		return k.ratio(p, q) <= f
	}
	return enclose.ExceedsExpm1(f, k.ratio(p, q))
}

// at returns log δ_G(ε−κ(p), √(s²p²+o²)) for κ = kappa, and for persons κ/2 + s²p²/8 more.
func (k *scalar) at(eps, s, o, p, kappa float64) float64 {
	log := dp.GaussianLogDelta(eps-kappa, math.Hypot(s*p, o))
	if k.persons > 0 {
		log += kappa/2 + s*s*p*p/8
	}
	return log
}

// logRemove returns the logarithm of the largest value over p that a search finds, and its p. It is
// at most about 1e-10 below the logarithm of the supremum.
func (k *scalar) logRemove(eps, s, o float64) (log, p float64) {
	if k.steepest {
		return k.at(eps, s, o, 1, k.c), 1
	}
	return k.largest(func(p, kappa float64) float64 { return k.at(eps, s, o, p, kappa) }, 3e-5, 0)
}

// largest returns the largest f(p, κ(p)) that a search finds, and its p: that of refine from the
// best point of the grid.
func (k *scalar) largest(f func(p, kappa float64) float64, share, tol float64) (value, p float64) {
	best := 0
	value = math.Inf(-1)
	for i, p := range k.grid {
		if v := f(p, k.kappas[i]); v > value {
			value, best = v, i
		}
	}
	return k.refine(f, best, value, share, tol)
}

// refine searches for the largest f(p, κ(p)) between the neighbors of point number best of the
// grid, with a given value, to a share of their distance plus tol.
func (k *scalar) refine(f func(p, kappa float64) float64, best int, value, share, tol float64) (most, p float64) {
	p = k.grid[best]
	if k.envelope == nil || math.IsInf(value, -1) {
		return value, p
	}
	lo, hi := k.grid[max(best-1, 0)], k.grid[min(best+1, len(k.grid)-1)]
	tol += share * (hi - lo)
	g := func(p float64) float64 { return -f(p, k.kappa(p, p)) }
	if p == hi && g(hi-tol) >= -value { // the end is best
		return value, p
	}
	x, v := num.Valley(g, lo, hi, 0, tol)
	if -v > value {
		return -v, x
	}
	return value, p
}

// logAdd returns the logarithm of a bound on adding a record. Without output noise it is the
// formula of type scalar. With it, for X = sN + s²/2 and E δ_G(ε−X, o) = δ_G(ε, √(s²+o²)),
//
//	max(0, X)   ≤ δ_G(ε, √(s²+o²)) + Φ(−s/2) δ_G(ε, o)
//	s²/2 + s|N| ≤ 2δ_G(ε, √(s²+o²))
//
// which is nearly exact where ε is many o above 0.
func (k *scalar) logAdd(eps, s, o float64) float64 {
	switch {
	case k.persons > 0:
		return k.logAddPerson(eps, s, o)
	case o == 0 && k.monotone:
		return logMonotone(eps, s)
	case o == 0:
		return LogChi(eps, s, 1)
	case k.monotone:
		return min(0, num.LogSumExp(dp.GaussianLogDelta(eps, math.Hypot(s, o)), num.LogPhi(-s/2)+dp.GaussianLogDelta(eps, o)))
	}
	return min(0, math.Ln2+dp.GaussianLogDelta(eps, math.Hypot(s, o)))
}

// boundRemove returns a certified upper bound on the supremum over p: above logRemove by 1e-6, or
// for persons 2e-7, if few cells prove that. It is at most the bound with the largest κ for every
// p, and at most that of renyi.
func (k *scalar) boundRemove(eps, s, o float64) float64 {
	apart := min(k.at(eps, s, o, 1, k.c), k.renyi(eps, s, o))
	found, _ := k.logRemove(eps, s, o)
	slack := 1e-6
	if k.persons > 0 {
		slack = 2e-7
	}
	for ; k.envelope != nil && found > nothing && found+slack < apart; slack *= 10 {
		if k.removes(eps, s, o, found+slack, patient) {
			return found + slack
		}
	}
	return apart
}

// removes reports whether the supremum over p is certainly at most e^{log}:
//
//	κ(p) ≤ ε − E(√(s²p²+o²)) for all p,   E(S) the ε with δ_G(ε, S) = e^{log}
//
// for persons κ(p) ≤ X*(p), see scalar.reach. ε − E is concave in p and does not increase:
// docs/theory/linear.md#linear.chord.
func (k *scalar) removes(eps, s, o, log float64, work int) bool {
	if !(log < 0) {
		return log == 0
	}
	log -= 1e-9 // more than the rounding of everything here
	guess := eps
	return k.below(func(p float64) float64 {
		guess = k.reach(eps, s, o, p, log, guess, 4e-12)
		return eps - guess
	}, work)
}

// epsilonAt returns an ε with log δ_G(ε, S) ≤ log < 0, hardly above the least one; +Inf if it finds
// none. It uses Newton's method from a guess. log δ_G is concave in ε, so that from the second step
// on the iterates are on the safe side. The search stops within the relative distance near of the
// root. Its last step goes 1e-12 to the safe side, so a near below 2e-12 may make it oscillate.
func epsilonAt(shift, log, guess, near float64) float64 { return tiltedAt(shift, log, guess, near, 0) }

// tiltedAt is epsilonAt for log δ_G(ε, S) − tilt·ε, of tilt 0 or ½.
func tiltedAt(shift, log, guess, near, tilt float64) float64 {
	if shift == 0 { // δ_G(ε, 0) = 1 − e^ε
		if tilt > 0 { // 2 sinh(−ε/2) = e^{log}
			return math.Nextafter(-2*math.Asinh(math.Exp(log)/2)*(1-0x1p-50), math.Inf(1))
		}
		return math.Nextafter(num.Log1mExp(log), math.Inf(1))
	}
	eps := guess
	for range 100 {
		delta := dp.GaussianLogDelta(eps, shift)
		v := delta - tilt*eps
		if math.IsInf(v, -1) { // too far out for a slope
			eps /= 2
			continue
		}
		// ∂δ/∂ε = −e^ε Φ(−ε/S − S/2)
		slope := math.Exp(min(700, eps+num.LogPhi(-eps/shift-shift/2)-delta)) + tilt
		step := (v - log) / slope
		if v <= log && -step <= near*(math.Abs(eps)+shift) {
			return eps
		}
		eps += step
		if v > log && step <= 1e-12*(math.Abs(eps)+shift) { // at the root up to rounding
			eps += 1e-12 * (math.Abs(eps) + shift)
		}
	}
	for range 100 {
		if dp.GaussianLogDelta(eps, shift)-tilt*eps <= log {
			return eps
		}
		eps += 1e-6 * (math.Abs(eps) + shift)
	}
	return math.Inf(1)
}

// Limits on the cells of one certificate. quick is for first attempts, which often fail.
const (
	quick   = 1 << 12
	patient = 1 << 18
)

// below reports whether κ(p) ≤ f(p) certainly holds for all p in [0, 1], for a concave f that does
// not increase and whose values are rounded down. Chords of f are below f, so that few values of f
// are needed. On a cell [p, q] of a chord, the supremum of κ is compared with the chord at q; a
// comparison at points alone would prove nothing. below returns false if it would need more than
// work cells.
func (k *scalar) below(f func(p float64) float64, work int) bool {
	if k.envelope == nil { // κ = c
		return k.under(1, 1, f(1))
	}
	cells := 0
	var chord func(p, fp, q, fq float64, depth int) bool
	chord = func(p, fp, q, fq float64, depth int) bool {
		cells++
		if k.under(p, q, fq) {
			return true
		}
		mid := p + (q-p)/2
		fm := fp + (fq-fp)/2 - 0x1p-51*(math.Abs(fp)+math.Abs(fq)) // rounded down
		if depth == 0 || cells > work || mid == p || mid == q {
			return false
		}
		return chord(mid, fm, q, fq, depth-1) && chord(p, fp, mid, fm, depth-1)
	}
	var cell func(p, fp, q, fq float64) bool
	cell = func(p, fp, q, fq float64) bool {
		cells++
		if k.under(p, q, fq) {
			return true
		}
		mid := p + (q-p)/2
		if cells > work || mid == p || mid == q {
			return false
		}
		fm, at := f(mid), k.kappa(mid, mid)
		if at > fm {
			return false
		}
		if fm-(fp+(fq-fp)/2) <= (fm-at)/4 { // the chords are near f, compared with f − κ
			if chord(mid, fm, q, fq, 16) && chord(p, fp, mid, fm, 16) {
				return true
			}
		}
		return cell(mid, fm, q, fq) && cell(p, fp, mid, fm)
	}
	f1 := f(1)
	return cell(0, f(0), 1, f1)
}

// slacks are relative amounts by which leastNoise raises a noise scale until it is certified, each
// with its limit on the work. The first suffices where the supremum is at p = 1, the usual case if
// curvature costs nothing.
var slacks = [...]struct {
	up   float64
	work int
}{{2e-9, quick}, {2e-7, patient}, {5e-7, patient}, {1e-6, patient}, {1e-5, patient}, {1e-4, patient}, {1e-3,
	patient}, {1e-2, patient}}

// leastNoise returns a certified u = σ/L at which removing and adding a record, or replacing one,
// cost at most (ε, e^{target}) with output noise of shift o; +Inf if it finds none below most, the
// u of another bound. It stores the leg in from. byRenyi reports that u is proved by the method
// renyi.
func (k *scalar) leastNoise(eps, o, target, most float64, from *guess, replace bool) (u float64, byRenyi bool) {
	u = math.Inf(1)
	from.u = most
	if found := k.searchNoise(eps, o, target, most, from, replace, exactly); !math.IsInf(found, 1) {
		for _, slack := range slacks {
			if v := found * (1 + slack.up); k.meets(from.leg, eps, 1/v, o, target, slack.work) {
				u = v
				break
			}
		}
	}
	if v := k.renyiNoise(eps, o, target, min(u, most), replace); v < u {
		return v, true
	}
	return u, false
}

// guess warm-starts a search with the result at a nearby ridge.
type guess struct {
	u      float64
	leg    *leg
	record root    // of the bound for records
	chi    [2]root // of Chi in one dimension and in more
}

// exactly is the relative error of a search for the noise of a plan.
const exactly = 1e-11

// searchNoise returns the u = σ/L that a search finds, not certified, and stores it in from. It is
// +Inf if most is not enough noise.
func (k *scalar) searchNoise(eps, o, target, most float64, from *guess, replace bool, tol float64) float64 {
	log := func(s float64) float64 {
		if replace {
			v, g := k.logReplace(eps, s, o, from.leg)
			from.leg = &g
			return v
		}
		v, _ := k.logRemove(eps, s, o)
		return max(v, k.logAdd(eps, s, o))
	}
	if !(most > 0 && most < math.MaxFloat64) { // no finite noise to improve on
		return math.Inf(1)
	}
	if from.record.u > 0 && tol > exactly && k.persons == 0 {
		from.u = from.record.least(log, target, most)
		return from.u
	}
	start := min(from.u, most)
	first := log(1 / start)
	if !(first <= target) && (start == most || !(log(1/most) <= target)) {
		return math.Inf(1)
	}
	from.u = least(func(s float64) float64 {
		if s == 1/start {
			return first
		}
		return log(s)
	}, target, start, tol)
	// The other leg may be the better one at less noise. For records, where that is rare, the search
	// for Δ does without.
	if replace && (k.persons > 0 || tol <= exactly) {
		if v, g := k.logReplace(eps, 1/from.u, o, nil); v < target && g.removeFirst != from.leg.removeFirst {
			from.leg = &g
			from.u = least(log, target, from.u, tol)
		}
	}
	from.record = root{from.u / most, from.u / most / math.Sqrt(-2*target)}
	return from.u
}

// meets reports whether s = L/σ with output noise of shift o certainly costs at most δ = e^{log} at
// ε: for replacing a record by the leg g, or for removing and adding one if g is nil.
func (k *scalar) meets(g *leg, eps, s, o, log float64, work int) bool {
	if g != nil {
		return k.replaces(*g, eps, s, o, log, work)
	}
	return k.logAdd(eps, s, o)+1e-9 <= log && k.removes(eps, s, o, log, work)
}

// rate returns aL of pure noise of density ∝ exp(−a‖b‖), rounded down:
//
//	min_p (ε−κ(p))/p,  replacing  min_p (ε−κ(p))/(1+p)
//
// Proof: docs/theory/linear.md#lop.envelope-pure/1.
func (k *scalar) rate(eps float64, replace, certified bool) float64 {
	base := 0.0
	if replace {
		base = 1
	}
	best, _ := k.largest(func(p, kappa float64) float64 { return (kappa - eps) / (base + p) }, 0, 1e-9)
	best = -best
	if !certified {
		return best
	}
	for _, slack := range slacks {
		a := best / (1 + slack.up)
		if k.below(func(p float64) float64 { return eps - a*(base+p) }, slack.work) {
			return a
		}
	}
	return 0
}

// scalar returns the bounds for losses of ⟨a,θ⟩, nil for others.
func (k *Calibrator) scalar(mu float64) *scalar {
	if k.fixed != 1 {
		return nil
	}
	q := k.p.Constants
	rank := 0
	if k.persons() {
		rank = min(k.p.Rows, k.p.Dim)
	}
	return newScalar(q.Lipschitz, mu, q.Smoothness, k.p.Envelope, k.p.Monotone, rank)
}

// alone is the bound of scalar at a modulus, for a record or a person alone.
type alone struct {
	*Calibrator
	*scalar
}

func (k alone) least(w *want) (sigma float64, theorem string) {
	replace := k.p.Relation == dp.Replace
	if w.from != nil {
		if w.from.u == 0 {
			w.from.u = w.below / k.l
		}
		return k.l * k.searchNoise(w.eps, w.o, w.log, w.below/k.l, w.from, replace, 1e-8), ""
	}
	from := new(guess)
	u, byRenyi := k.leastNoise(w.eps, w.o, w.log, w.most/k.l, from, replace)
	w.leg = from.leg
	switch {
	case byRenyi:
		theorem = TheoremRenyi
	case w.o > 0:
		theorem = TheoremJoint
	case replace:
		theorem = TheoremEnvelopeReplace
	default:
		theorem = TheoremEnvelope
	}
	return k.l * u, theorem
}

func (k alone) logs(sigma, o float64) (remove, add func(eps float64) float64) {
	s := k.l / sigma
	if k.p.Relation == dp.Replace {
		both := func(eps float64) float64 { return k.boundReplace(eps, s, o) }
		return both, both
	}
	return func(eps float64) float64 { return k.boundRemove(eps, s, o) },
		func(eps float64) float64 { return k.logAdd(eps, s, o) }
}

// renyi has the bounds of scalar.rdp and, for replacing, of docs/theory/linear.md#linear.renyi.
func (k alone) renyi(alpha, sigma float64) float64 {
	s := k.l / sigma
	remove, add, replace := k.rdp(alpha, s)
	if k.p.Relation != dp.Replace {
		return max(remove, add)
	}
	removeLess, addLess, _ := k.rdp(2*alpha-1, s)
	removeMore, addMore, _ := k.rdp(2*alpha, s)
	twice := 2 * alpha / (2*alpha - 1)
	return min(replace, twice*addLess+removeMore, twice*removeLess+addMore)
}

// rdp returns the least bounds for removing, adding and replacing a record in one step.
func (k *scalar) rdp(alpha, s float64) (remove, add, replace float64) {
	remove, add, replace = k.rdpRenyi(alpha, s)
	return min(remove, k.rdpRemoving(alpha, s)), min(add, k.rdpAdding(alpha, s)), replace
}

// rdpRemoving returns sup_p [κ(p) + α s²p²/2], certified.
func (k *scalar) rdpRemoving(alpha, s float64) float64 {
	f := func(p, kappa float64) float64 { return kappa + alpha*s*s*p*p/2 }
	if k.envelope == nil {
		return f(1, k.c)
	}
	best, _ := k.largest(f, 0, 1e-9)
	for slack := 1e-7; slack < 1; slack *= 10 {
		top := best * (1 + slack)
		if k.below(func(p float64) float64 { return top - alpha*s*s*p*p/2 }, patient) {
			return top
		}
	}
	return k.c + alpha*s*s/2
}

// rdpAdding returns the bound for adding a record of Curve.RDP. Near order 1 the logarithm is of a
// number near 1 and loses its digits: there the value at order 1.001 is taken if it is less.
func (k *scalar) rdpAdding(alpha, s float64) float64 {
	if !k.monotone {
		return Chi{S: s, Q: 1}.RDP(alpha)
	}
	at := func(alpha float64) float64 {
		if alpha == 1 {
			return math.Inf(1)
		}
		x := num.LogSumExp(num.LogPhi(-s/2), alpha*(alpha-1)*s*s/2+num.LogPhi((alpha-0.5)*s))
		return (x + 1e-15) / (alpha - 1)
	}
	return min(at(alpha), at(max(alpha, 1+1e-3)))
}
