package linear

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
)

// A leg is one way to replace a record in two steps, each of which removes or adds
// one: through the data set with both records, or through the one with neither.
// For every real e₁
//
//	add first      δ_add(e₁) + e^{e₁} δ_remove(ε−e₁)
//	remove first   δ_remove(e₁) + e^{e₁} δ_add(ε−e₁)
//
// is a bound, whatever the angle between the records; each step hides R of the output noise, not 2R,
// hence o/2: docs/theory/linear.md#lop.envelope-replace/1.
type leg struct {
	removeFirst bool
	e1          float64
}

// parts returns the ε of removing and of adding, and the factors of their δ as
// logarithms.
func (g leg) parts(eps float64) (remove, add, logRemove, logAdd float64) {
	if g.removeFirst {
		return g.e1, eps - g.e1, 0, g.e1
	}
	return eps - g.e1, g.e1, g.e1, 0
}

// logReplace returns log δ(ε) of replacing a record as a search over both legs and
// e₁ ∈ [0, ε] finds it, and the leg; ε ≥ 0. The supremum over p is a lower bound
// of it. It looks near a leg only, unless that is nil.
//
// At a fixed leg only a few p matter: the search minimizes the largest of their
// values over e₁, and adds the worst p at the result until there is none.
func (k *tied) logReplace(eps, s, o float64, near *leg) (log float64, best leg) {
	legs, width, steps := []leg{{false, eps / 2}, {true, eps / 2}}, eps/2, 12
	if near != nil {
		legs, width, steps = []leg{*near}, eps/16, 0
	}
	half := o / 2
	sum := func(g leg, remove func(eps float64) float64) float64 {
		er, ea, lr, la := g.parts(eps)
		return num.LogSumExp(lr+remove(er), la+k.logAdd(ea, s, half))
	}
	ps, kappas := []float64{1}, []float64{k.kappa(1, 1)}
	log = math.Inf(1)
	for _, g := range legs {
		for range 20 {
			var p float64
			all := sum(g, func(er float64) (r float64) { r, p = k.logRemove(er, s, half); return r })
			if all < log {
				log, best = all, g
			}
			if !slices.Contains(ps, p) {
				ps, kappas = append(ps, p), append(kappas, k.kappa(p, p))
			}
			lo, hi := max(0, g.e1-width), min(eps, g.e1+width)
			e1, v := num.Minimize(func(e1 float64) float64 {
				return sum(leg{g.removeFirst, e1}, func(er float64) float64 {
					v := math.Inf(-1)
					for i, p := range ps {
						v = max(v, k.at(er, s, half, p, kappas[i]))
					}
					return v
				})
			}, lo, hi, steps, min(1e-4*eps, 1e-4*s))
			if v >= all-1e-9 { // no e₁ is better, even against these p alone
				break
			}
			steps = 0
			if far := math.Abs(e1 - g.e1); far < width/4 {
				width /= 4
			} else if far > 0.9*width { // the end of the interval
				width *= 2
			}
			g.e1 = e1
		}
		width, steps = eps/2, 12
	}
	return min(log, 0), best
}

// replaces reports whether the leg certainly gives at most δ = e^{log} at ε.
func (k *tied) replaces(g leg, eps, s, o, log float64, work int) bool {
	er, ea, lr, la := g.parts(eps)
	add := la + k.logAdd(ea, s, o/2) + 1e-9
	return add < log && k.removes(er, s, o/2, num.LogDiffExp(log-1e-9, add)-lr, work)
}

// slacks are what a noise scale found by search is raised by until it is certified:
// little where the supremum is at p = 1, as it is where curvature costs nothing.
var slacks = [...]struct {
	up   float64
	work int
}{{2e-9, quick}, {2e-7, patient}, {5e-7, patient}, {1e-6, patient}, {1e-5, patient}, {1e-4, patient}, {1e-3, patient}, {1e-2, patient}}

// leastNoise returns u = σ/L at which removing and adding a record, or replacing one,
// are within (ε, δ) with output noise o, certified; +Inf where none below most, the u
// of another bound, is found. target is log δ. renyi says that this u rests on the bound
// of that name.
func (k *tied) leastNoise(eps, o, target, most float64, replace bool) (u float64, renyi bool) {
	u = math.Inf(1)
	from := &guess{u: most}
	if found := k.searchNoise(eps, o, target, most, from, replace, 1e-11); !math.IsInf(found, 1) {
		for _, slack := range slacks {
			if v := found * (1 + slack.up); k.meets(eps, 1/v, o, target, replace, slack.work) {
				u = v
				break
			}
		}
	}
	if most = min(u, most); from.leg != nil && !k.mayGain(*from.leg, eps, 1/most, o) {
		return u, false
	}
	if v := k.renyiNoise(eps, o, target, most, replace); v < u {
		return v, true
	}
	return u, false
}

// A guess is where a search starts: the result of a search at another ridge.
type guess struct {
	u   float64
	leg *leg
}

// searchNoise returns u = σ/L as a search finds it, and leaves it in from; +Inf where
// most is not enough.
func (k *tied) searchNoise(eps, o, target, most float64, from *guess, replace bool, tol float64) float64 {
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
	return from.u
}

// meets reports whether one release at s = L/σ with output noise o is certainly
// within δ = e^{log} at ε.
func (k *tied) meets(eps, s, o, log float64, replace bool, work int) bool {
	if replace {
		_, g := k.logReplace(eps, s, o, nil)
		return k.replaces(g, eps, s, o, log, work)
	}
	return k.logAdd(eps, s, o)+1e-9 <= log && k.removes(eps, s, o, log, work)
}

// rate returns aL of pure noise of density ∝ exp(−a‖b‖), rounded down:
//
//	min_p (ε−κ(p))/p,  replacing  min_p (ε−κ(p))/(1+p)
//
// because the loss is at most κ(p) + aLp for the record that P has and aLp for the
// one that Q has, by the triangle inequality; no monotone path is needed.
func (k *tied) rate(eps float64, replace, certified bool) float64 {
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
