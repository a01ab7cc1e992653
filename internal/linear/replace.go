// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
)

// A leg is one way to replace a record in two steps, each of which removes or adds one record:
// through the data set with both records, or through the one with neither. For every real e₁
//
//	add first      δ_add(e₁) + e^{e₁} δ_remove(ε−e₁)
//	remove first   δ_remove(e₁) + e^{e₁} δ_add(ε−e₁)
//
// is a bound. Each step hides R of the output noise, not 2R, and so has the shift o/2:
// docs/theory/linear.md#lop.envelope-replace/1.
type leg struct {
	removeFirst bool
	e1          float64
}

// parts returns the ε of removing and of adding, and the logarithms of the factors of their δ.
func (g leg) parts(eps float64) (remove, add, logRemove, logAdd float64) {
	if g.removeFirst {
		return g.e1, eps - g.e1, 0, g.e1
	}
	return eps - g.e1, g.e1, g.e1, 0
}

// log returns the logarithm of the bound at ε, from those of removing and of adding a record.
func (g leg) log(eps float64, remove, add func(eps float64) float64) float64 {
	er, ea, lr, la := g.parts(eps)
	return num.LogSumExp(lr+remove(er), la+add(ea))
}

// epsilons and factors are parts in intervals.
func (g leg) epsilons(c enclose.Arithmetic, eps float64) (remove, add enclose.Interval) {
	e1, rest := c.Of(g.e1), c.Sub(c.Of(eps), c.Of(g.e1))
	if g.removeFirst {
		return e1, rest
	}
	return rest, e1
}

func (g leg) factors(c enclose.Arithmetic) (remove, add enclose.Interval) {
	if g.removeFirst {
		return c.Of(1), c.Exp(c.Of(g.e1))
	}
	return c.Exp(c.Of(g.e1)), c.Of(1)
}

// within reports that both steps have an ε ≥ 0, which intervals need.
func (g leg) within(eps float64) bool { return g.e1 >= 0 && g.e1 <= eps }

// bestLeg searches for the e₁ ∈ [lo, hi] of every leg, as num.Valley does, and returns the best
// leg and its bound.
func bestLeg(
	legs []leg, eps, lo, hi float64, steps int, tol float64, remove, add func(eps float64) float64,
) (best leg, log float64) {
	log = math.Inf(1)
	for _, g := range legs {
		e1, v := num.Valley(func(e1 float64) float64 { return leg{g.removeFirst, e1}.log(eps, remove, add) }, lo, hi,
			steps, tol/8)
		if v < log {
			best, log = leg{g.removeFirst, e1}, v
		}
	}
	return best, log
}

// bothLegs are the legs without their e₁.
var bothLegs = []leg{{removeFirst: false}, {removeFirst: true}}

// reflected returns log δ at ε < 0 from log δ(−ε), for a bound that holds for both orders of the
// pair: δ(ε) = 1 − e^ε + e^ε δ(−ε).
func reflected(eps, log float64) float64 { return num.LogSumExp(num.Log1mExp(eps), eps+log) }

// logReplace returns log δ(ε) of replacing a record, ε ≥ 0, as a search over both legs and e₁ ∈ [0,
// ε] finds it, and the leg. The supremum over p in it is a lower bound. If near is not nil, the
// search is for e₁ near that leg only.
//
// At a fixed leg only a few p matter: the search minimizes the largest of their values over e₁, and
// adds the worst p at the result until no new one appears.
func (k *scalar) logReplace(eps, s, o float64, near *leg) (log float64, best leg) {
	legs, width := []leg{{false, eps / 2}, {true, eps / 2}}, eps/2
	steps := 12
	if near != nil {
		legs, width = []leg{*near}, eps/16
		steps = 0
	}
	half := o / 2
	add := func(eps float64) float64 { return k.logAdd(eps, s, half) }
	if near != nil && k.steepest { // one p, whose best e₁ is a root
		remove := func(er float64) float64 { return k.at(er, s, half, 1, k.c) }
		if g := (leg{near.removeFirst, k.bestE1(*near, eps, s, half, 1)}); g.e1 > 0 && g.e1 < eps {
			return min(g.log(eps, remove, add), 0), g
		}
	}
	ps, kappas := []float64{1}, []float64{k.kappa(1, 1)}
	log = math.Inf(1)
	for _, g := range legs {
		found := math.Inf(-1) // the least value for these p, found inside of the interval
		for range 20 {
			var p float64
			all := g.log(eps, func(er float64) (r float64) { r, p = k.logRemove(er, s, half); return r }, add)
			if all < log {
				log, best = all, g
			}
			if all <= found+1e-9 { // no p is worse than these
				break
			}
			if !slices.Contains(ps, p) {
				ps, kappas = append(ps, p), append(kappas, k.kappa(p, p))
			}
			lo, hi := max(0, g.e1-width), min(eps, g.e1+width)
			kappa := k.kappa(p, p)
			alone := func(er float64) float64 { return k.at(er, s, half, p, kappa) }
			few := func(er float64) float64 {
				v := math.Inf(-1)
				for i, p := range ps {
					v = max(v, k.at(er, s, half, p, kappas[i]))
				}
				return v
			}
			at := func(e1 float64) float64 { return leg{g.removeFirst, e1}.log(eps, few, add) }
			next := leg{g.removeFirst, k.bestE1(g, eps, s, half, p)}
			v := at(next.e1)
			switch e1 := next.e1; {
			case (steps > 0 || lo > 0 && hi < eps) && lo < e1 && e1 < hi && v <= next.log(eps, alone, add)+1e-10:
			case steps == 0 && (lo == 0 || hi == eps): // Valley may stop short of an end
				next.e1, v = num.Minimize(at, lo, hi, 0, 1e-4*min(eps, s))
			default:
				next.e1, v = num.Valley(at, lo, hi, steps, 2e-5*min(eps, s))
			}
			if v >= all-1e-9 { // no e₁ is better, even for these p alone
				break
			}
			steps, found = 0, v
			if far := math.Abs(next.e1 - g.e1); far < width/4 {
				width /= 4
			} else if far > 0.9*width { // the end of the interval
				width *= 2
				found = math.Inf(-1)
			}
			g = next
		}
		width, steps = eps/2, 12
	}
	return min(log, 0), best
}

// bestE1 returns the best e₁ for the leg g and one p alone; o is that of a step. It is NaN where
// the bound on adding is no sum of terms.
func (k *scalar) bestE1(g leg, eps, s, o, p float64) float64 {
	kappa, whole := k.kappa(p, p), math.Hypot(s, o)
	remove, add := terms{{c: kappa, s: math.Hypot(s*p, o)}}, terms{{s: whole}}
	switch {
	case remove[0].s == 0:
		return math.NaN()
	case !k.monotone:
		add[0].log = math.Ln2
	case k.persons > 0 && o > 0:
		add = append(add, term{log: -math.Ln2, s: o})
	case o > 0:
		add = append(add, term{log: num.LogPhi(-s / 2), s: o})
	}
	if k.persons > 0 {
		remove[0].log = kappa/2 + s*s*p*p/8
		add[0].log += s * s / 8
	}
	if g.removeFirst {
		remove, add = add, remove
	}
	e1 := leastE1(add, remove, eps, g.e1)
	if _, ea, _, _ := (leg{g.removeFirst, e1}).parts(eps); !k.monotone && k.persons == 0 && o == 0 && ea < s*s/2 {
		return math.NaN() // LogChi has another formula there
	}
	return e1
}

// replaces reports whether the leg certainly gives at most δ = e^{log} at ε.
func (k *scalar) replaces(g leg, eps, s, o, log float64, work int) bool {
	er, ea, lr, la := g.parts(eps)
	add := la + k.logAdd(ea, s, o/2) + 1e-9
	return add < log && k.removes(er, s, o/2, num.LogDiffExp(log-1e-9, add)-lr, work)
}

// boundReplace returns a certified upper bound on the least of logReplace, at every real ε.
func (k *scalar) boundReplace(eps, s, o float64) float64 {
	if eps < 0 {
		return reflected(eps, k.boundReplace(-eps, s, o))
	}
	_, g := k.logReplace(eps, s, o, nil)
	log := g.log(eps, func(eps float64) float64 { return k.boundRemove(eps, s, o/2) },
		func(eps float64) float64 { return k.logAdd(eps, s, o/2) })
	if k.envelope == nil {
		renyi, _ := k.renyiReplace(eps, s, o, nil)
		log = min(log, renyi)
	}
	return log
}
