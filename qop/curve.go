// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"sort"
	"sync"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// Profile returns the curve δ(ε) of one release, which the theorem of the plan has at every ε, and
// not only at that of the budget; under dp.AddRemove the two orders of neighbors apart. So several
// releases compose for less than their budgets would. It is what the budget implies for Eta > 0,
// and for the theorems qop.paper/2 and qop.fixed/2. The first call of one of its functions takes as
// long as a calibration. Proof: docs/theory/quadratic.md#quadratic.profile
func (pl *Plan) Profile() dp.Profile {
	if !pl.made() {
		return dp.Unknown()
	}
	b := pl.params.Budget
	if pl.curves == nil {
		return b.Profile()
	}
	implied := dp.Budget{Epsilon: b.Epsilon, Delta: b.Delta * (1 - eventShare)}.Profile().Remove
	order := func(i int) dp.Curve {
		return func(eps float64) float64 {
			both := pl.curves()
			return math.Min(implied(eps), both[i].at(eps, &both[1-i]))
		}
	}
	return dp.Profile{Remove: order(0), Add: order(1), Failure: pl.failure}
}

// curve holds bounds on δ at increasing ε, from 0 on, which do not increase.
type curve struct{ eps, delta []float64 }

// at bounds δ at every real ε: between nodes by a chord, since δ is convex in e^ε, and for ε < 0 by
// the curve of the other order.
func (c *curve) at(eps float64, other *curve) float64 {
	switch {
	case math.IsNaN(eps):
		return 1
	case eps < 0:
		return math.Max(c.delta[0], -math.Expm1(eps)+math.Exp(eps)*other.at(-eps, c))
	}
	i := sort.SearchFloat64s(c.eps, eps)
	switch {
	case i == len(c.eps):
		return c.delta[i-1]
	case c.eps[i] == eps:
		return c.delta[i]
	}
	share := math.Expm1(eps-c.eps[i-1]) / math.Expm1(c.eps[i]-c.eps[i-1])
	return c.delta[i-1] + (c.delta[i]-c.delta[i-1])*share*(1-0x1p-40)
}

// trace evaluates δ from 0 on, at steps within which it falls by about a third, the first of which
// is given, up to last or to a δ of least. f may use the δ of the node before.
func trace(f func(eps, before float64) float64, step, last, least float64) (c curve) {
	shortest := step * 0x1p-8
	at, before := 0.0, 1.0
	for {
		delta := math.Min(before, f(at, before)*math.Exp(safeLogDelta))
		falls := math.Log(before / math.Max(delta, least))
		if at > 0 && falls > 1 && step > shortest { // once more, nearer
			at -= step / 2
			step /= 2
			continue
		}
		c.eps, c.delta = append(c.eps, at), append(c.delta, delta)
		if at >= last || delta <= least {
			return c
		}
		if at > 0 {
			step *= math.Min(2, math.Max(0.5, 0.4/falls))
		}
		step = math.Min(step, last-at)
		at, before = at+step, delta
	}
}

// tabulate sets curves, the δ of removing and of adding a record, or of replacing one twice, where
// the theorem of pl has a form for every ε.
func (pl *Plan) tabulate(s setting) {
	p := pl.params
	if p.Eta > 0 || p.Theorem == theoremPaper || p.Theorem == theoremFixed {
		return
	}
	pl.curves = sync.OnceValue(func() (both [2]curve) {
		f, last := s.minimizers(p), math.Inf(1)
		if p.Clip > 0 {
			f, last = s.together(p)
		}
		last = math.Min(last, mostEpsilon)
		for i, side := range []side{removing, adding} {
			if p.Relation == dp.Replace {
				side = replacing
			}
			if i == 1 && side == replacing {
				both[1] = both[0]
				break
			}
			both[i] = trace(func(eps, before float64) float64 { return f(side, eps, before) }, p.Budget.Epsilon/16, last,
				p.Budget.Delta*0x1p-12)
		}
		return both
	})
}

// together returns δ of c̃ and the release of a tilted plan, and the largest ε at which it is
// computed.
func (s setting) together(p Params) (f func(row side, eps, _ float64) float64, last float64) {
	single := p.SlopeSensitivity / p.SlopeSigma * (1 + 0x1p-50)
	if p.Relation == dp.Replace {
		single /= 2
	}
	output := p.Sensitivity / p.OutputSigma * math.Sqrt(float64(p.Releases)) * (1 + 0x1p-50)
	law := newTilted(s, p.Degrees, single, output, false)
	nu := math.Hypot(single, output) // the least shift of an integral
	switch {
	case p.Relation == dp.Replace && s.structure == loss.GLM:
		nu = math.Hypot(single, output/2)
	case p.Relation == dp.Replace:
		nu = math.Hypot(math.Sqrt2*single, output)
	}
	return func(row side, eps, _ float64) float64 {
		law.eps = eps
		if law.b != nil {
			law.b.eps = eps
		}
		switch {
		case row == replacing:
			return law.delta(p.Ratio)
		case row == removing && s.structure == loss.GLM:
			return law.removeGLM(eps, p.Ratio, nu)
		case row == removing:
			return law.remove(p.Ratio, nu)
		case s.structure == loss.GLM:
			return law.addGLM(eps, p.Ratio, nu)
		}
		return law.add(p.Ratio, nu)
	}, mostOrders * nu * (1 - 1e-9)
}

// minimizers returns δ of a plan whose minimizer and output noise are two releases: B(ε − e₂) +
// δ_G(e₂) with B of Theorem A, for an e₂ at which the second term adds little.
func (s setting) minimizers(p Params) func(row side, eps, before float64) float64 {
	noise := dp.GaussianCurve(p.Sensitivity / p.OutputSigma * (1 + 0x1p-50))
	k, logDelta := p.Degrees-float64(s.dim)+1, num.Log(p.Objective.Delta)
	var law *table
	if p.Theorem == theoremGeneral || p.Theorem == theoremTilt {
		q, dof := s.dim, p.Degrees
		if p.Theorem == theoremTilt {
			q, dof = s.tiltedLaw(p.Degrees)
		}
		law = newTable(q, dof, logDelta)
	}
	minimizer := func(row side, eps float64) float64 {
		at := s
		at.eps = eps
		switch {
		case p.Theorem == theoremTilt:
			return math.Exp(newTilt(at, p.Degrees, logDelta, law, false).search(row, p.Ratio))
		case p.Theorem == theoremGeneral:
			return math.Exp((&general{eps: eps, rho: s.rank, k: k, law: law}).logDelta(p.Ratio))
		case row == replacing && s.structure == loss.LSQ:
			return math.Exp(newLSQ(at, p.Degrees, false).logDelta(p.Ratio))
		case row == replacing:
			return math.Exp((&glm{eps: eps, k: k, relation: dp.Replace}).logDelta(p.Ratio))
		case row == removing && s.structure == loss.LSQ:
			return stickRemove(eps, p.Ratio, k)
		case row == removing:
			return stickRemoveGLM(eps, p.Ratio, k)
		case s.structure == loss.LSQ:
			return stickAdd(eps, p.Ratio, k, k/2-1)
		}
		return stickAdd(eps, p.Ratio, k, k/2)
	}
	return func(row side, eps, before float64) float64 {
		e2 := math.Min(eps, noise.Epsilon(before*0x1p-8))
		return minimizer(row, eps-e2) + noise(e2)
	}
}
