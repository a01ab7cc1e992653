package linear

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// tied bounds what the exact minimizer tells where a record has one scalar derivative, counting its
// gradient and its curvature together: at the minimizer its gradient has the norm pL, 0 ≤ p ≤ 1, and
// its curvature is then at most h(p), the envelope of the loss. With s = L/σ and κ(p) =
// log1p(h(p)/(Δ+μ_r)),
//
//	removing a record   sup_p δ_G(ε−κ(p), √(s²p²+o²))
//	adding a record     E δ_G(ε − max(0, sN+s²/2), o)   the sign of φ′ is fixed
//	                    E δ_G(ε − s|N| − s²/2, o)       any convex φ
//
// Proof, with short rows and weights below 1: docs/theory/linear.md#lop.envelope/1.
type tied struct {
	l, mu    float64                      // L, Δ + μ_r
	beta     float64                      // β
	c        float64                      // log1p(β/μ) ≥ κ, rounded up
	envelope func(lo, hi float64) float64 // sup of h over gradient norms in [lo, hi]; nil: β
	monotone bool
	grid     []float64 // values of p, from 0 to 1
	kappas   []float64 // κ there
	exact    bool      // κ is rounded up by proof, see rigorous
}

// newTied prepares the curve for a modulus.
func newTied(l, mu, beta float64, envelope func(lo, hi float64) float64, monotone bool) *tied {
	k := &tied{l: l, mu: mu, beta: beta, c: math.Log1p(beta/mu) * safeC, envelope: envelope, monotone: monotone}
	if envelope == nil {
		k.grid, k.kappas = []float64{1}, []float64{k.c}
		return k
	}
	const steps = 32
	for i := range steps {
		k.grid = append(k.grid, float64(i)/steps)
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

// kappa returns the supremum of κ over [p, q], rounded up.
func (k *tied) kappa(p, q float64) float64 {
	if k.envelope == nil {
		return k.c
	}
	lo, hi := k.l*p, k.l*q
	if k.exact {
		lo, hi = math.Nextafter(lo, 0), min(math.Nextafter(hi, math.Inf(1)), k.l)
		return min(k.c, enclose.Log1pAbove(math.Nextafter(k.envelope(lo, hi)/k.mu, math.Inf(1))))
	}
	return min(k.c, math.Log1p(k.envelope(lo, hi)/k.mu)*safeC)
}

// at returns log δ_G(ε−κ(p), √(s²p²+o²)) for κ = kappa.
func (k *tied) at(eps, s, o, p, kappa float64) float64 {
	return dp.GaussianLogDelta(eps-kappa, math.Hypot(s*p, o))
}

// logRemove returns log of the supremum over p as a search finds it, a lower bound
// that is right to about 1e-10, and the p of the largest value found.
func (k *tied) logRemove(eps, s, o float64) (log, p float64) {
	return k.largest(func(p, kappa float64) float64 { return k.at(eps, s, o, p, kappa) }, 3e-5, 0)
}

// largest returns the largest f(p, κ(p)) that a search finds, and its p: on the grid, and between the neighbors of
// the best point there to within a share of their distance plus tol.
func (k *tied) largest(f func(p, kappa float64) float64, share, tol float64) (value, p float64) {
	best := 0
	value = math.Inf(-1)
	for i, p := range k.grid {
		if v := f(p, k.kappas[i]); v > value {
			value, best = v, i
		}
	}
	p = k.grid[best]
	if k.envelope == nil || math.IsInf(value, -1) {
		return value, p
	}
	lo, hi := k.grid[max(best-1, 0)], k.grid[min(best+1, len(k.grid)-1)]
	x, v := num.Minimize(func(p float64) float64 { return -f(p, k.kappa(p, p)) }, lo, hi, 0, share*(hi-lo)+tol)
	if -v > value {
		return -v, x
	}
	return value, p
}

// logAdd returns log of a bound on adding a record: exactly the formula without
// output noise. With it, X = sN + s²/2, E δ_G(ε−X, o) = δ_G(ε, √(s²+o²)) and
//
//	max(0, X)   ≤ δ_G(ε, √(s²+o²)) + Φ(−s/2) δ_G(ε, o)
//	s²/2 + s|N| ≤ 2δ_G(ε, √(s²+o²))
//
// which is all but exact where ε is many o above 0.
func (k *tied) logAdd(eps, s, o float64) float64 {
	switch {
	case o == 0 && k.monotone:
		return LogMonotone(eps, s)
	case o == 0:
		return LogChi(eps, s, 1)
	case k.monotone:
		return min(0, num.LogSumExp(dp.GaussianLogDelta(eps, math.Hypot(s, o)), num.LogPhi(-s/2)+dp.GaussianLogDelta(eps, o)))
	}
	return min(0, math.Ln2+dp.GaussianLogDelta(eps, math.Hypot(s, o)))
}

// removes reports whether the supremum over p is certainly at most e^{log}:
//
//	κ(p) ≤ ε − E(√(s²p²+o²)) for all p,   E(S) the ε with δ_G(ε, S) = e^{log}
//
// ε − E is concave in p and does not increase: docs/theory/linear.md#linear.chord.
func (k *tied) removes(eps, s, o, log float64, work int) bool {
	if !(log < 0) {
		return log == 0
	}
	log -= 1e-9 // more than the rounding of everything here
	guess := eps
	return k.below(func(p float64) float64 {
		guess = epsilonAt(math.Hypot(s*p, o), log, guess)
		return eps - guess
	}, work)
}

// epsilonAt returns an ε, hardly above the least one, with log δ_G(ε, S) ≤ log < 0,
// by Newton's method from a guess: log δ_G is concave in ε, so that from the second
// step on the iterates are on the safe side. It is +Inf where none is found.
func epsilonAt(shift, log, guess float64) float64 { return epsilonWithin(shift, log, guess, 1e-12) }

// epsilonWithin is epsilonAt with the relative distance to the root at which it stops. As it steps
// 1e-12 to the safe side of the root, less than 2e-12 may send it back and forth.
func epsilonWithin(shift, log, guess, near float64) float64 {
	if shift == 0 { // δ_G(ε, 0) = 1 − e^ε
		return math.Nextafter(num.Log1mExp(log), math.Inf(1))
	}
	eps := guess
	for range 100 {
		v := dp.GaussianLogDelta(eps, shift)
		if math.IsInf(v, -1) { // too far out for a slope
			eps /= 2
			continue
		}
		// ∂δ/∂ε = −e^ε Φ(−ε/S − S/2)
		slope := math.Exp(min(700, eps+num.LogPhi(-eps/shift-shift/2)-v))
		step := (v - log) / slope
		if v <= log && -step <= near*(math.Abs(eps)+shift) {
			return eps
		}
		eps += step
		if v > log && step <= 1e-12*(math.Abs(eps)+shift) { // at the root but for rounding
			eps += 1e-12 * (math.Abs(eps) + shift)
		}
	}
	for range 100 {
		if dp.GaussianLogDelta(eps, shift) <= log {
			return eps
		}
		eps += 1e-6 * (math.Abs(eps) + shift)
	}
	return math.Inf(1)
}

// Work of one certificate, in cells: quick for a scale that may be hopelessly near
// the supremum, patient otherwise.
const (
	quick   = 1 << 12
	patient = 1 << 18
)

// below reports whether κ(p) ≤ f(p) certainly holds for all p in [0, 1], for a
// concave f that does not increase and whose values are rounded down. Chords of f lie
// below it, so that few values of f are needed; on a cell [p, q] of a chord, the
// supremum of κ is compared with the chord at q. A grid of points alone would prove
// nothing. More than the given number of cells is no proof either.
func (k *tied) below(f func(p float64) float64, work int) bool {
	if k.envelope == nil { // κ = c
		return k.c <= f(1)
	}
	cells := 0
	var chord func(p, fp, q, fq float64, depth int) bool
	chord = func(p, fp, q, fq float64, depth int) bool {
		cells++
		if k.kappa(p, q) <= fq {
			return true
		}
		mid := p + (q-p)/2
		fm := fp + (fq-fp)/2 - 0x1p-51*(math.Abs(fp)+math.Abs(fq)) // rounded down
		if depth == 0 || cells > work || mid == p || mid == q || k.kappa(mid, mid) > fm {
			return false
		}
		return chord(mid, fm, q, fq, depth-1) && chord(p, fp, mid, fm, depth-1)
	}
	var cell func(p, fp, q, fq float64) bool
	cell = func(p, fp, q, fq float64) bool {
		cells++
		if k.kappa(p, q) <= fq {
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
		if fm-(fp+(fq-fp)/2) <= (fm-at)/4 { // the chords are near f, compared with what is left
			if chord(mid, fm, q, fq, 16) && chord(p, fp, mid, fm, 16) {
				return true
			}
		}
		return cell(mid, fm, q, fq) && cell(p, fp, mid, fm)
	}
	f1 := f(1)
	return cell(0, f(0), 1, f1)
}
