// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/sco"
)

// Δ and Cover of most settings of linear perturbation.
const (
	ridge = 8.0
	cover = 1e-8
)

// unit are the bounds of rows and labels that most settings declare.
var unit = loss.Bounds{Row: 1, Label: 1}

// usual is the budget of most settings. The large δ makes the noise small, which helps the black
// box.
var usual = dp.Budget{Epsilon: 1, Delta: 0.01}

// base are the three common records of most pairs on the line.
var base = []record{{[]float64{0.7}, 1}, {[]float64{-0.5}, -1}, {[]float64{0.4}, 1}}

// opposite is A1 on the line: the last record has the gradient +ζ or −ζ at 0. present is A2: the
// last record is there or not.
func opposite() [2][]record { return ended(dp.Replace, base, axis(1, 1, 1), axis(1, 1, -1)) }
func present() [2][]record  { return ended(dp.AddRemove, base, axis(1, 1, 1), record{}) }

// space are A1 and A2 in five dimensions.
func space(n int, rel dp.Relation) [2][]record {
	return ended(rel, sample(n, 5, "space"), axis(5, 1, 1), axis(5, 1, -1))
}

// linearPlanner plans linear or output perturbation.
type linearPlanner = planner[*erm.Problem, *lop.Plan]

// logistic is the base of most settings: logistic regression by a mechanism of package lop.
func logistic(m lop.Mechanism, data [2][]record) *linear {
	m.Relation, m.Ridge, m.Cover = relationOf(data), cmp.Or(m.Ridge, ridge), cmp.Or(m.Cover, cover)
	return &linear{
		mech: func(trace func(erm.Trace)) linearPlanner {
			m := m
			m.Trace = trace
			return &m
		},
		convex: convex{clip: m.Clip, loss: loss.Logistic{}, bounds: unit, budget: usual, kinks: free, data: data},
	}
}

// outputs is output perturbation of package lop.
func outputs(data [2][]record) *linear {
	c := logistic(lop.Mechanism{}, data)
	c.mech = func(trace func(erm.Trace)) linearPlanner {
		return &lop.Output{Relation: relationOf(data), Ridge: ridge, Cover: cover, Trace: trace}
	}
	return c
}

// population is logistic regression by a mechanism of package sco.
func population(cover float64, data [2][]record, mech func(o sco.ObjPert) linearPlanner) *linear {
	c := logistic(lop.Mechanism{}, data)
	c.mech = func(trace func(erm.Trace)) linearPlanner {
		return mech(sco.ObjPert{Relation: relationOf(data), Radius: 1, Ridge: ridge, Cover: cover, Trace: trace})
	}
	return c
}

// The mechanisms of package sco.
func objective(o sco.ObjPert) linearPlanner { return &o }
func svrg(o sco.ObjPert) linearPlanner      { o.SVRG = true; return &o }
func outputOf(o sco.ObjPert) linearPlanner {
	return &sco.Output{Relation: o.Relation, Radius: o.Radius, Ridge: o.Ridge, Cover: o.Cover, Trace: o.Trace}
}

// published is logistic regression with a calibration, and a δ beside ε = 1.
func published(cal lop.Calibration, delta float64, data [2][]record) *linear {
	return withBudget(logistic(lop.Mechanism{Calibration: cal}, data), 1, delta)
}

// withBudget returns c with its budget replaced.
func withBudget(c *linear, eps, delta float64) *linear {
	c.budget = dp.Budget{Epsilon: eps, Delta: delta}
	return c
}

// curved is A3: a Huber record of the largest curvature at 0, or none. With far labels it is A1.
func curved(far bool) *linear {
	c := logistic(lop.Mechanism{}, ended(dp.Replace, base, axis(1, 1, 0), axis(1, 0, 0)))
	c.loss = loss.Huber{Delta: 0.5}
	if far {
		c.bounds.Label = 50
		c.data = ended(dp.Replace, base, axis(1, 1, 50), axis(1, 1, -50))
	}
	return c
}

// tail is A3 for theorem R: the last record is removed, and the others pull the minimizer so far
// away that only noise of three standard deviations brings it to the curved part of that record,
// where the gradient of the record points along the noise.
func tail() *linear {
	pull := slices.Repeat([]record{axis(1, 1, 50)}, 8)
	c := withBudget(logistic(lop.Mechanism{Ridge: 0.7}, ended(dp.AddRemove, pull, axis(1, 1, 0), record{})), 1, 1e-3)
	c.loss, c.bounds.Label = loss.Huber{Delta: 0.5}, 50
	return c
}

// held is A7: least squares in a box with an ℓ1 norm. The last record pulls the minimizer to a face
// in one data set and off it in the other.
func held(dim int, rel dp.Relation) *linear {
	c := logistic(lop.Mechanism{Ridge: 30}, ended(rel, sample(12, dim, "held"), axis(dim, 1, 1), axis(dim, 1, -1)))
	c.loss, c.kinks = loss.Squared{}, kinks{1.5, -0.25, 0.3}
	return c
}

// extreme is A9: rows and labels far outside their bounds and far inside.
func extreme() *linear {
	list := []record{
		{[]float64{1e150, -2e150, 1e150, 0, 3e149}, 1e300}, {[]float64{1e-150, 2e-150, 0, 0, 1e-150}, 1},
		{[]float64{0, 3, 4, 0, 0}, -7}, {[]float64{0.1, 0.2, 0.1, 0, 0.3}, -1},
	}
	c := logistic(lop.Mechanism{}, ended(dp.Replace, list, axis(5, 1e150, 1), axis(5, 1e150, -1)))
	c.loss = loss.Huber{Delta: 0.5}
	return c
}

// clipped is least squares, whose gradients have no bound, with clipping: labels far from their
// predictions reach the threshold 0.5.
func clipped(dim int) *linear {
	list := sample(6, dim, "clipped")
	for i := range list {
		list[i].b *= 5
	}
	c := logistic(lop.Mechanism{Clip: 0.5}, ended(dp.Replace, list, axis(dim, 1, 50), axis(dim, 1, -50)))
	c.loss, c.bounds = loss.Squared{}, loss.Bounds{Row: 1, Label: 50}
	return c
}

// centered is clipped with the ridge around a public point.
func centered(dim int) *linear {
	c := clipped(dim)
	c.center = axis(dim, 1.5, 0).a
	c.mech = logistic(lop.Mechanism{Clip: 0.5, Center: c.center}, c.data).mech
	return c
}

// fitted moves the center of the ridge with the last label, as an anchor that was fitted
// to the records would be.
func fitted() sabotage {
	return func(ctx context.Context) context.Context {
		var last float64
		ctx = fault.With(ctx, release.Data, func(p *erm.Problem) *erm.Problem {
			n, _ := p.Data.Dims()
			last = p.Data.Label(n - 1)
			return p
		})
		return fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
			q.Center = slices.Clone(q.Center)
			q.Center[0] += last / 20
			return q
		})
	}
}

// equal is A8: all records but one are equal.
func equal() *linear {
	list := slices.Repeat([]record{{[]float64{0.6, 0, 0, 0.8, 0}, 1}}, 29)
	return logistic(lop.Mechanism{}, ended(dp.Replace, list, axis(5, 1, 1), axis(5, 1, -1)))
}

// unnamed is the setting of the attack on the values of the sampler: 200 records, one label
// differs.
func unnamed() *linear {
	list := sample(199, 10, "lattice")
	data := ended(dp.Replace, list, axis(10, 0.5, 1), axis(10, 0.5, -1))
	return logistic(lop.Mechanism{Ridge: 5, Cover: 2e-12, Radius: 1}, data)
}

var linearKinds = map[string]kind[*linear]{
	"white":    {"", WhiteBox, (*linear).white},
	"exactly":  {" exactly", Exact, (*linear).exact},
	"searched": {" searched", Exact, searched[linear]},
	"outside":  {" from outside", BlackBox, (*linear).outside},
	"output":   {" output noise", WhiteBox, (*linear).output},
	"coarse":   {" coarse output noise", WhiteBox, (*linear).coarse},
	"residues": {" residues", WhiteBox, func(c *linear, ctx context.Context, e *env) (Finding, error) {
		return c.residues(ctx, e, c.dim(), c.Grid)
	}},
	"cover":    {" cover", WhiteBox, (*linear).covered},
	"permuted": {" order", WhiteBox, (*linear).permuted},
	"named":    {"", BlackBox, (*linear).named},
}

func linearMechanisms() []mechanism {
	type settings = []setting[linear]
	plain := lop.Mechanism{}
	fifth := lop.Mechanism{Share: 0.2}
	space5, added5 := space(20, dp.Replace), space(20, dp.AddRemove)
	alone := [2][]record{{axis(1, 1, 1)}, {axis(1, 1, -1)}}
	return []mechanism{{"lop", cases(linearKinds, append(settings{
		{"logistic", "A1", "white exactly outside output coarse residues cover searched* twice", logistic(plain, opposite())},
		{"logistic", "A2", "white exactly outside* searched*", logistic(plain, present())},
		{"kifer", "A1", "white exactly output", published(lop.Kifer, 0.01, opposite())},
		{"kifer", "A2", "white exactly", published(lop.Kifer, 0.01, present())},
		{"a fifth for the output", "A1", "white exactly output", logistic(fifth, opposite())},
		{"a fifth for the output, d = 5", "A2", "white* output*", logistic(fifth, added5)},
		{"pure", "A1", "white exactly outside output searched*", published(lop.Sharp, 0, opposite())},
		{"pure", "A2", "white exactly searched*", published(lop.Sharp, 0, present())},
		{"pure kifer", "A1", "white exactly", published(lop.Kifer, 0, opposite())},
		{"pure cms11", "A1", "white exactly", published(lop.CMS11, 0, opposite())},
		{"pure, d = 5", "A1", "white output", published(lop.Sharp, 0, space5)},
		{"huber", "A3", "white exactly outside*", curved(false)},
		{"huber", "A1", "white exactly outside searched*", curved(true)},
		{"huber in the tail", "A3", "white exactly searched*", tail()},
		{"one record, ε = 8, δ = 0.3", "A4", "white exactly", withBudget(logistic(plain, alone), 8, 0.3)},
		{"logistic, d = 5", "A1", "white outside* output residues cover permuted twice", logistic(plain, space5)},
		{"logistic, d = 5", "A2", "white cover", logistic(plain, added5)},
		{"ℓ1 in a box", "A7", "white exactly outside cover searched*", held(1, dp.Replace)},
		{"ℓ1 in a box, d = 5", "A7", "white outside* cover", held(5, dp.Replace)},
		{"ℓ1 in a box, d = 8", "A7", "white cover", held(8, dp.AddRemove)},
		{"equal records", "A8", "white cover", equal()},
		{"rows of 1e±150", "A9", "white cover", extreme()},
		{"lattice", "A1", "named", unnamed()},
	}, personSettings()...)), append(linearControls(), personControls()...)}, {"lop-clip", cases(linearKinds, settings{
		{"least squares, d = 1", "A1", "white exactly outside cover", clipped(1)},
		{"least squares, d = 5", "A1", "white outside cover", clipped(5)},
		{"least squares around a center, d = 1", "A1", "white exactly outside cover", centered(1)},
		{"least squares around a center, d = 5", "A1", "white output cover", centered(5)},
	}), []Control{
		{"center-fitted", "the center of the ridge fitted to the records",
			"lop-clip/A1/least squares around a center, d = 5", 0, fitted()},
	}}, {"lop-output", cases(linearKinds, settings{
		{"logistic", "A1", "output exactly coarse residues cover", outputs(opposite())},
		{"logistic", "A2", "output exactly outside", outputs(present())},
		{"pure", "A1", "output exactly outside", withBudget(outputs(opposite()), 1, 0)},
		{"logistic, d = 5", "A1", "output cover", outputs(space5)},
		{"pure, d = 5", "A2", "output residues", withBudget(outputs(added5), 1, 0)},
	}), nil}, {"sco-objective", cases(linearKinds, settings{
		{"logistic", "A1", "white exactly twice", population(cover, opposite(), objective)},
		{"logistic", "A2", "white exactly", population(cover, present(), objective)},
		{"logistic, d = 5", "A1", "white output cover", population(cover, space5, objective)},
		{"svrg, d = 5", "A1", "white", population(1e-6, space(4, dp.Replace), svrg)},
		{"output", "A1", "output exactly cover", population(cover, opposite(), outputOf)},
		{"output, d = 5", "A2", "output cover", population(cover, added5, outputOf)},
	}), populationControls()}}
}

// louder multiplies the linear noise.
func louder(c float64) sabotage {
	return edit(release.Drawn, func(q *erm.Perturbation) {
		q.Linear = slices.Clone(q.Linear) // nil for quadratic perturbation
		floats.Scale(c, q.Linear)
	})
}

// planned edits the numbers of the plan of a fit.
func planned(change func(p *engine.Params)) sabotage { return edit(engine.Calibrated, change) }

// instead draws the noise of the plan of another setting.
func instead(other *linear) sabotage {
	return borrowed(engine.Calibrated, other, func(p *engine.Params, other *linear) {
		p.Sigma, p.Rate = other.Sigma, other.Rate
		p.OutputSigma, p.OutputRate = other.OutputSigma, other.OutputRate
	})
}

// ridged multiplies Δ in the objective.
func ridged(c float64) sabotage {
	return edit(release.Drawn, func(q *erm.Perturbation) {
		var scaled mat.SymDense
		scaled.ScaleSym(c, q.Quad)
		q.Quad = &scaled
	})
}

// released replaces the sum of the rounded point k and the noise nu on the grid.
func released(sum func(k, nu int64) int64) sabotage {
	return func(ctx context.Context) context.Context {
		var nu []int64
		ctx = fault.With(ctx, release.OutputNoise, func(v []int64) []int64 { nu = v; return v })
		return fault.With(ctx, release.Rounded, func(k []int64) []int64 {
			out := make([]int64, len(k))
			for j := range k {
				out[j] = sum(k[j], nu[j]) - nu[j]
			}
			return out
		})
	}
}

// redrawn replaces the output noise on the coarse grid by integers drawn one by one.
func redrawn(draw func(src rand.Source) int64) sabotage {
	src := noise.Reproducible(9, "redrawn")
	return one(release.OutputNoise, func(k []int64) []int64 {
		for j := range k {
			k[j] = draw(src)
		}
		return k
	})
}

// noOutput leaves out the output noise.
func noOutput(ctx context.Context) context.Context {
	return fault.With(ctx, release.OutputNoise, func(k []int64) []int64 { return make([]int64, len(k)) })
}

// gaussian draws N(0, sigma²).
func gaussian(sigma float64, src rand.Source) float64 {
	x := make([]float64, 1)
	noise.Normal(x, sigma, src)
	return x[0]
}

// linearControls are the sabotages of linear perturbation.
func linearControls() []Control {
	added := curved(true)
	added.data[1] = base
	added.mech = func(func(erm.Trace)) linearPlanner {
		return &lop.Mechanism{Relation: dp.AddRemove, Ridge: ridge, Cover: cover}
	}
	return []Control{
		{"noise-0.9", "noise of 0.9 times its scale", "lop/A1/logistic", 0, louder(0.9)},
		{"noise-0.95", "noise of 0.95 times its scale", "lop/A1/logistic", 0, louder(0.95)},
		{"noise-0.5", "noise of half its scale", "lop/A1/logistic, d = 5", 0, louder(0.5)},
		{"noise-0.9-held", "noise of 0.9 times its scale, seen through kinks and faces", "lop/A7/ℓ1 in a box, d = 5", 0,
			louder(0.9)},
		{"noise-0.9-pure", "noise of 0.9 times its scale under a pure claim", "lop/A1/pure, d = 5", 0, louder(0.9)},
		{"noise-0.125", "noise of an eighth of its scale, seen from outside", "lop/A1/logistic from outside", 0,
			louder(0.125)},
		{"variance", "the variance used as a standard deviation", "lop/A1/logistic", 0,
			planned(func(p *engine.Params) { p.Sigma *= p.Sigma })},
		{"delta-split", "δ used where the formula has δ/2", "lop/A1/kifer", 0,
			instead(published(lop.Kifer, 0.02, opposite()))},
		{"output-split", "the whole budget spent again on the output noise", "lop/A1/a fifth for the output", 10_000,
			instead(logistic(lop.Mechanism{Share: 1e-3}, opposite()))},
		{"data-max", "noise scaled by the largest gradient of the records, not by the bound", "lop/A1/huber", 3000,
			planned(func(p *engine.Params) { p.Sigma *= 0.6 })},
		{"relation", "the constant of add/remove used for replace", "lop/A1/logistic", 3000,
			instead(logistic(lop.Mechanism{}, present()))},
		{"relation-exactly", "the constant of add/remove used for replace, seen by the density", "lop/A1/huber exactly", 0,
			instead(added)},
		{"relation-output", "the constant of add/remove used for replace in output perturbation",
			"lop-output/A1/logistic output noise", 2000,
			instead(outputs(present()))},
		{"curvature-term", "what the curvature costs dropped from a pure calibration", "lop/A3/huber exactly", 0,
			planned(func(p *engine.Params) { p.Sigma = gaussianScale(usual, 2*p.Lipschitz) / 2 })},
		{"curvature-renyi", "the curvature dropped from theorem R", "lop/A3/huber in the tail exactly", 0,
			planned(func(p *engine.Params) { p.Sigma = renyiScale(tail().budget, p.Lipschitz) })},
		{"no-ridge", "Δ = 0 in the objective", "lop/A7/ℓ1 in a box", 0, ridged(1e-3)},
		{"no-clip", "gradients not clipped", "lop-clip/A1/least squares, d = 1", 0, one(release.Data, unclipped(0))},
		{"clip-1", "gradients clipped at 1 instead of the bound", "lop-clip/A1/least squares, d = 5", 0,
			one(release.Data, unclipped(1))},
		{"cached", "noise drawn once and used again", "lop/A13/logistic", 0,
			cached(release.Drawn, func(q erm.Perturbation) erm.Perturbation {
				q.Linear = append([]float64(nil), q.Linear...)
				return q
			})},
		{"three-steps", "the solver stopped after 3 steps and its certificate ignored", "lop/A1/logistic, d = 5 cover", 0,
			threeSteps},
		{"no-output", "output noise left out", "lop/A1/logistic output noise", 0, noOutput},
		{"no-output-pure", "output noise left out under a pure claim", "lop/A1/pure output noise", 0, noOutput},
		{"output-ties", "the sum of the point and the noise rounded to even", "lop/A1/logistic coarse output noise", 0,
			func(ctx context.Context) context.Context {
				src := noise.Reproducible(9, "ties")
				return released(func(k, _ int64) int64 {
					half := math.Round(gaussian(1, src)) / 2 // a sampler of few values
					return k&^63 + int64(math.RoundToEven(float64(k&63)+half))
				})(ctx)
			}},
		{"output-discrete", "discrete Gaussian noise for the curve of a real one", "lop/A1/logistic coarse output noise", 0,
			redrawn(func(src rand.Source) int64 {
				for { // P(k) ∝ exp(−2k²), of the same parameter σ = ½
					k := int64(noise.Below(7, src)) - 3
					if uniform(src) < math.Exp(-2*float64(k*k)) {
						return k
					}
				}
			})},
		{"output-truncated", "noise rounded toward 0", "lop-output/A1/logistic coarse output noise", 0,
			redrawn(func(src rand.Source) int64 { return int64(gaussian(0.5, src)) })},
		{"output-floor", "⌊x⌋ without the half", "lop/A1/logistic coarse output noise", 0,
			redrawn(func(src rand.Source) int64 { return int64(math.Floor(gaussian(0.5, src))) })},
		{"grid-of-data", "the grid chosen from the size of the point", "lop/A1/logistic residues", 0,
			released(func(k, nu int64) int64 {
				for g := int64(1); g <= 4; g *= 2 { // coarser by the digits of the sum
					if k+nu > 1<<44 || k+nu < -1<<44 {
						nu += -(k + nu) & g
					}
				}
				return k + nu
			})},
		{"ziggurat", "the normal generator of math/rand", "lop/A1/lattice", 0, func(ctx context.Context) context.Context {
			rnd, sigma := rand.New(noise.Reproducible(9, "ziggurat")), 0.0
			ctx = planned(func(p *engine.Params) { sigma = p.Sigma })(ctx)
			return fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
				q.Linear = make([]float64, len(q.Linear))
				for i := range q.Linear {
					q.Linear[i] = sigma * rnd.NormFloat64()
				}
				return q
			})
		}},
	}
}

// unclipped returns the problem with another threshold of its clipped loss, 0 for none.
func unclipped(threshold float64) func(*erm.Problem) *erm.Problem {
	return func(p *erm.Problem) *erm.Problem {
		q := *p
		c := p.Loss.(loss.Clipped)
		if q.Loss = c.Loss; threshold > 0 {
			q.Loss = loss.Clipped{Loss: c.Loss, Threshold: threshold}
		}
		return &q
	}
}

// populationControls are the sabotages of perturbation for the population.
func populationControls() []Control {
	return []Control{
		{"population-noise-0.9", "noise of 0.9 times its scale", "sco-objective/A1/logistic", 0, louder(0.9)},
		{"population-noise-0.5", "noise of half its scale", "sco-objective/A1/svrg, d = 5", 1000, louder(0.5)},
		{"population-ridge", "half of λ in the objective", "sco-objective/A1/logistic, d = 5 cover", 0, ridged(0.5)},
		{"population-relation", "the constant of add/remove used for replace", "sco-objective/A1/logistic", 3000,
			instead(population(cover, present(), objective))},
		{"population-no-output", "output noise left out", "sco-objective/A1/logistic, d = 5 output noise", 500, noOutput},
		{"population-output-0.9", "output perturbation with noise of 0.9 times its scale",
			"sco-objective/A1/output output noise", 0,
			planned(func(p *engine.Params) { p.OutputSigma *= 0.9 })},
		{"population-output-relation", "output perturbation for an added record where it is replaced",
			"sco-objective/A1/output output noise",
			2000, instead(outputs(present()))},
	}
}
