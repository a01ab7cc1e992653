package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/perturb"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/sco"
)

// The settings of linear perturbation. Δ is stated, and Cover, whose default depends on a radius.
const (
	ridge = 8.0
	cover = 1e-8
)

// unit are the bounds of rows and labels that most settings declare.
var unit = loss.Bounds{Row: 1, Label: 1}

// usual is the budget of most settings: at δ = 0.01 the noise is the least, and
// the black box sees the most.
var usual = dp.Budget{Epsilon: 1, Delta: 0.01}

// base are three records that both data sets of a pair on the line share.
func base() []record {
	return []record{{[]float64{0.7}, 1}, {[]float64{-0.5}, -1}, {[]float64{0.4}, 1}}
}

// opposite is A1 on the line: the last record has the gradient +ζ or −ζ at 0.
func opposite() [2][]record {
	return ended(dp.Replace, base(), axis(1, 1, 1), axis(1, 1, -1))
}

// present is A2 on the line: the last record is there or not.
func present() [2][]record { return ended(dp.AddRemove, base(), axis(1, 1, 1), record{}) }

// space are A1 and A2 in five dimensions.
func space(n int, rel dp.Relation) [2][]record {
	return ended(rel, sample(n, 5, "space"), axis(5, 1, 1), axis(5, 1, -1))
}

// logistic is the setting that most others vary: logistic regression by a mechanism of package lop.
func logistic(m lop.Mechanism, data [2][]record) *linear {
	m.Relation = relationOf(data)
	if m.Ridge == 0 {
		m.Ridge = ridge
	}
	if m.Cover == 0 {
		m.Cover = cover
	}
	return &linear{
		mech: func(trace func(erm.Trace)) planner[*erm.Problem, *lop.Plan] {
			m := m
			m.Trace = trace
			return &m
		},
		convex: convex{clip: m.Clip, loss: loss.Logistic{}, bounds: unit, budget: usual, kinks: free, data: data},
	}
}

// withMechanism returns c with its mechanism replaced.
func withMechanism[M planner[*erm.Problem, *lop.Plan]](c *linear, mech func(trace func(erm.Trace)) M) *linear {
	c.mech = func(trace func(erm.Trace)) planner[*erm.Problem, *lop.Plan] { return mech(trace) }
	return c
}

// outputs is output perturbation of package lop.
func outputs(data [2][]record) *linear {
	rel := relationOf(data)
	return withMechanism(logistic(lop.Mechanism{}, data), func(trace func(erm.Trace)) *lop.Output {
		return &lop.Output{Relation: rel, Ridge: ridge, Cover: cover, Trace: trace}
	})
}

// population is logistic regression by a mechanism of package sco.
func population[M planner[*erm.Problem, *lop.Plan]](cover float64, data [2][]record, mech func(o sco.ObjPert) M) *linear {
	rel := relationOf(data)
	return withMechanism(logistic(lop.Mechanism{}, data), func(trace func(erm.Trace)) M {
		return mech(sco.ObjPert{Relation: rel, Radius: 1, Ridge: ridge, Cover: cover, Trace: trace})
	})
}

// withBudget returns c with its budget replaced.
func withBudget(c *linear, eps, delta float64) *linear {
	c.budget = dp.Budget{Epsilon: eps, Delta: delta}
	return c
}

// curved is A3: Huber records of the largest curvature at 0, or flat ones; or, with
// labels far away, A1.
func curved(far bool) *linear {
	c := logistic(lop.Mechanism{}, ended(dp.Replace, base(), axis(1, 1, 0), axis(1, 0, 0)))
	c.loss = loss.Huber{Delta: 0.5}
	if far {
		c.bounds.Label = 50
		c.data = ended(dp.Replace, base(), axis(1, 1, 50), axis(1, 1, -50))
	}
	return c
}

// tail is A3 for removing a record where theorem R calibrates the noise: the others pull the
// minimizer so far that only noise of three standard deviations brings it to where the
// record is curved, with a gradient along that noise.
func tail() *linear {
	pull := slices.Repeat([]record{axis(1, 1, 50)}, 8)
	c := withBudget(logistic(lop.Mechanism{Ridge: 0.7}, ended(dp.AddRemove, pull, axis(1, 1, 0), record{})), 1, 1e-3)
	c.loss, c.bounds.Label = loss.Huber{Delta: 0.5}, 50
	return c
}

// held is A7: least squares in a box with an ℓ1 norm, the last record pulling
// the minimizer to a face on one side and off it on the other.
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

// clipped is LOP-Clip on least squares, whose gradients have no bound: records
// with labels far from their predictions meet the threshold 0.5.
func clipped(dim int) *linear {
	list := sample(6, dim, "clipped")
	for i := range list {
		list[i].b *= 5
	}
	c := logistic(lop.Mechanism{Clip: 0.5}, ended(dp.Replace, list, axis(dim, 1, 50), axis(dim, 1, -50)))
	c.loss, c.bounds = loss.Squared{}, loss.Bounds{Row: 1, Label: 50}
	return c
}

// equal is A8: all records but one are equal.
func equal() *linear {
	list := slices.Repeat([]record{{[]float64{0.6, 0, 0, 0.8, 0}, 1}}, 29)
	return logistic(lop.Mechanism{}, ended(dp.Replace, list, axis(5, 1, 1), axis(5, 1, -1)))
}

// unnamed is the setting of the attack on the values of the sampler: 200 records that
// differ in one label, d = 10.
func unnamed() *linear {
	list := sample(199, 10, "lattice")
	return logistic(lop.Mechanism{Ridge: 5, Cover: 2e-12, Radius: 1}, ended(dp.Replace, list, axis(10, 0.5, 1), axis(10, 0.5, -1)))
}

var linearKinds = map[string]kind[*linear]{
	"white":    {"", WhiteBox, (*linear).white},
	"exactly":  {" exactly", Exact, (*linear).exact},
	"searched": {" searched", Exact, searched[*linear]},
	"outside":  {" from outside", BlackBox, (*linear).outside},
	"output":   {" output noise", WhiteBox, (*linear).output},
	"coarse":   {" coarse output noise", WhiteBox, (*linear).coarse},
	"residues": {" residues", WhiteBox, (*linear).residues},
	"cover":    {" cover", WhiteBox, (*linear).covered},
	"permuted": {" order", WhiteBox, (*linear).permuted},
	"named":    {"", BlackBox, (*linear).named},
}

func init() {
	type settings = []setting[*linear]
	sharp := func(data func() [2][]record) func() *linear {
		return func() *linear { return logistic(lop.Mechanism{}, data()) }
	}
	five := func(rel dp.Relation) func() [2][]record { return func() [2][]record { return space(20, rel) } }
	published := func(c lop.Calibration, data func() [2][]record, delta float64) func() *linear {
		return func() *linear { return withBudget(logistic(lop.Mechanism{Calibration: c}, data()), 1, delta) }
	}
	fifth := func(data func() [2][]record) func() *linear {
		return func() *linear { return logistic(lop.Mechanism{Share: 0.2}, data()) }
	}
	Register(Mechanism{Name: "lop", Controls: linearControls, Cases: cases(linearKinds, settings{
		{"logistic", "A1", "white exactly outside output coarse residues cover searched* twice", sharp(opposite)},
		{"logistic", "A2", "white exactly outside* searched*", sharp(present)},
		{"kifer", "A1", "white exactly output", published(lop.Kifer, opposite, 0.01)},
		{"kifer", "A2", "white exactly", published(lop.Kifer, present, 0.01)},
		{"a fifth for the output", "A1", "white exactly output", fifth(opposite)},
		{"a fifth for the output, d = 5", "A2", "white* output*", fifth(five(dp.AddRemove))},
		{"pure", "A1", "white exactly outside output searched*", published(lop.Sharp, opposite, 0)},
		{"pure", "A2", "white exactly searched*", published(lop.Sharp, present, 0)},
		{"pure kifer", "A1", "white exactly", published(lop.Kifer, opposite, 0)},
		{"pure cms11", "A1", "white exactly", published(lop.CMS11, opposite, 0)},
		{"pure, d = 5", "A1", "white output", published(lop.Sharp, five(dp.Replace), 0)},
		{"huber", "A3", "white exactly outside*", func() *linear { return curved(false) }},
		{"huber", "A1", "white exactly outside searched*", func() *linear { return curved(true) }},
		{"huber in the tail", "A3", "white exactly searched*", tail},
		{"one record, ε = 8, δ = 0.3", "A4", "white exactly", func() *linear {
			return withBudget(logistic(lop.Mechanism{}, [2][]record{{axis(1, 1, 1)}, {axis(1, 1, -1)}}), 8, 0.3)
		}},
		{"logistic, d = 5", "A1", "white outside* output residues cover permuted twice", sharp(five(dp.Replace))},
		{"logistic, d = 5", "A2", "white cover", sharp(five(dp.AddRemove))},
		{"ℓ1 in a box", "A7", "white exactly outside cover searched*", func() *linear { return held(1, dp.Replace) }},
		{"ℓ1 in a box, d = 5", "A7", "white outside* cover", func() *linear { return held(5, dp.Replace) }},
		{"ℓ1 in a box, d = 8", "A7", "white cover", func() *linear { return held(8, dp.AddRemove) }},
		{"equal records", "A8", "white cover", equal},
		{"rows of 1e±150", "A9", "white cover", extreme},
		{"lattice", "A1", "named", unnamed},
	})})
	Register(Mechanism{Name: "lop-clip", Cases: cases(linearKinds, settings{
		{"least squares, d = 1", "A1", "white exactly outside cover", func() *linear { return clipped(1) }},
		{"least squares, d = 5", "A1", "white outside cover", func() *linear { return clipped(5) }},
	})})
	Register(Mechanism{Name: "lop-output", Cases: cases(linearKinds, settings{
		{"logistic", "A1", "output exactly coarse residues cover", func() *linear { return outputs(opposite()) }},
		{"logistic", "A2", "output exactly outside", func() *linear { return outputs(present()) }},
		{"pure", "A1", "output exactly outside", func() *linear { return withBudget(outputs(opposite()), 1, 0) }},
		{"logistic, d = 5", "A1", "output cover", func() *linear { return outputs(space(20, dp.Replace)) }},
		{"pure, d = 5", "A2", "output residues", func() *linear { return withBudget(outputs(space(20, dp.AddRemove)), 1, 0) }},
	})})

	objective := func(o sco.ObjPert) *sco.ObjPert { return &o }
	svrg := func(o sco.ObjPert) *sco.ObjPert { o.SVRG = true; return &o }
	output := func(o sco.ObjPert) *sco.Output {
		return &sco.Output{Relation: o.Relation, Radius: o.Radius, Ridge: o.Ridge, Cover: o.Cover, Trace: o.Trace}
	}
	Register(Mechanism{Name: "sco-objective", Controls: populationControls, Cases: cases(linearKinds, settings{
		{"logistic", "A1", "white exactly twice", func() *linear { return population(cover, opposite(), objective) }},
		{"logistic", "A2", "white exactly", func() *linear { return population(cover, present(), objective) }},
		{"logistic, d = 5", "A1", "white output cover", func() *linear { return population(cover, space(20, dp.Replace), objective) }},
		{"svrg, d = 5", "A1", "white", func() *linear { return population(1e-6, space(4, dp.Replace), svrg) }},
		{"output", "A1", "output exactly cover", func() *linear { return population(cover, opposite(), output) }},
		{"output, d = 5", "A2", "output cover", func() *linear { return population(cover, space(20, dp.AddRemove), output) }},
	})})
}

// louder returns a Break that multiplies the linear noise.
func louder(c float64) func(context.Context) context.Context {
	return one(release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		q.Linear = append([]float64(nil), q.Linear...)
		for i := range q.Linear {
			q.Linear[i] *= c
		}
		return q
	})
}

// planned returns a Break that replaces numbers of the plan by which a fit draws.
func planned(change func(p *perturb.Params)) func(context.Context) context.Context {
	return one(perturb.Calibrated, func(p perturb.Params) perturb.Params { change(&p); return p })
}

// instead draws the noise of the plan that c would have.
func instead(c func() *linear) func(context.Context) context.Context {
	other := sync.OnceValue(func() *linear {
		r := c()
		if err := r.prepare(context.Background(), &Env{Tier: Quick, name: "instead"}); err != nil {
			panic(err)
		}
		return r
	})
	return planned(func(p *perturb.Params) {
		r := other()
		p.Sigma, p.Rate, p.OutputSigma, p.OutputRate = r.Sigma, r.Rate, r.OutputSigma, r.OutputRate
	})
}

// released replaces the sum of the rounded point k and the noise nu on the grid.
func released(sum func(k, nu int64) int64) func(context.Context) context.Context {
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
func redrawn(draw func(src rand.Source) int64) func(context.Context) context.Context {
	src := noise.Reproducible(9, "redrawn")
	return one(release.OutputNoise, func(k []int64) []int64 {
		for j := range k {
			k[j] = draw(src)
		}
		return k
	})
}

// gaussian draws N(0, sigma²).
func gaussian(sigma float64, src rand.Source) float64 {
	x := make([]float64, 1)
	noise.Normal(x, sigma, src)
	return x[0]
}

// linearControls are the sabotages of linear perturbation.
var linearControls = []Control{
	{"noise-0.9", "noise of 0.9 times its scale", "lop/A1/logistic", 0, louder(0.9)},
	{"noise-0.95", "noise of 0.95 times its scale", "lop/A1/logistic", 0, louder(0.95)},
	{"noise-0.5", "noise of half its scale", "lop/A1/logistic, d = 5", 0, louder(0.5)},
	{"noise-0.9-held", "noise of 0.9 times its scale, seen through kinks and faces", "lop/A7/ℓ1 in a box, d = 5", 0, louder(0.9)},
	{"noise-0.9-pure", "noise of 0.9 times its scale under a pure claim", "lop/A1/pure, d = 5", 0, louder(0.9)},
	{"noise-0.125", "noise of an eighth of its scale, seen from outside", "lop/A1/logistic from outside", 0, louder(0.125)},
	{"variance", "the variance used as a standard deviation", "lop/A1/logistic", 0, planned(func(p *perturb.Params) { p.Sigma *= p.Sigma })},
	{"delta-split", "δ used where the formula has δ/2", "lop/A1/kifer", 0, instead(func() *linear {
		return withBudget(logistic(lop.Mechanism{Calibration: lop.Kifer}, opposite()), 1, 0.02)
	})},
	{"output-split", "the whole budget spent again on the output noise", "lop/A1/a fifth for the output", 10_000, instead(func() *linear {
		return logistic(lop.Mechanism{Share: 1e-3}, opposite())
	})},
	{"data-max", "noise scaled by the largest gradient of the records, not by the bound", "lop/A1/huber", 3000,
		planned(func(p *perturb.Params) { p.Sigma *= 0.6 })},
	{"relation", "the constant of add/remove used for replace", "lop/A1/logistic", 3000,
		instead(func() *linear { return logistic(lop.Mechanism{}, present()) })},
	{"relation-exactly", "the same, seen by the density", "lop/A1/huber exactly", 0, instead(func() *linear {
		c := curved(true)
		m := lop.Mechanism{Relation: dp.AddRemove, Ridge: ridge, Cover: cover}
		c.data[1] = base()
		return withMechanism(c, func(func(erm.Trace)) *lop.Mechanism { return &m })
	})},
	{"relation-output", "the same in output perturbation", "lop-output/A1/logistic output noise", 2000,
		instead(func() *linear { return outputs(present()) })},
	{"curvature-term", "what the curvature costs dropped from a pure calibration", "lop/A3/huber exactly", 0,
		planned(func(p *perturb.Params) { p.Sigma = gaussianScale(usual, 2*p.Lipschitz) / 2 })},
	{"curvature-renyi", "the curvature dropped from theorem R", "lop/A3/huber in the tail exactly", 0,
		planned(func(p *perturb.Params) { p.Sigma = renyiScale(tail().budget, p.Lipschitz) })},
	{"no-ridge", "Δ = 0 in the objective", "lop/A7/ℓ1 in a box", 0, ridged(1e-3)},
	{"no-clip", "gradients not clipped", "lop-clip/A1/least squares, d = 1", 0, one(release.Data, unclipped(0))},
	{"clip-1", "gradients clipped at 1 instead of the bound", "lop-clip/A1/least squares, d = 5", 0, one(release.Data, unclipped(1))},
	{"cached", "noise drawn once and used again", "lop/A13/logistic", 0, cached(release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		q.Linear = append([]float64(nil), q.Linear...)
		return q
	})},
	{"three-steps", "the solver stopped after 3 steps and its certificate ignored", "lop/A1/logistic, d = 5 cover", 0,
		both(one(fault.Iterations, always(3)), one(fault.Certified, always(true)))},
	{"no-output", "output noise left out", "lop/A1/logistic output noise", 0, redrawn(func(rand.Source) int64 { return 0 })},
	{"no-output-pure", "output noise left out under a pure claim", "lop/A1/pure output noise", 0,
		redrawn(func(rand.Source) int64 { return 0 })},
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
	{"grid-of-data", "the grid chosen from the size of the point", "lop/A1/logistic residues", 0, released(func(k, nu int64) int64 {
		for g := int64(1); g <= 4; g *= 2 { // coarser by the digits of the sum
			if k+nu > 1<<44 || k+nu < -1<<44 {
				nu += -(k + nu) & g
			}
		}
		return k + nu
	})},
	{"ziggurat", "the normal generator of math/rand", "lop/A1/lattice", 0, func(ctx context.Context) context.Context {
		src, sigma := noise.Reproducible(9, "ziggurat"), 0.0
		ctx = planned(func(p *perturb.Params) { sigma = p.Sigma })(ctx)
		return fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
			q.Linear = make([]float64, len(q.Linear))
			for i := range q.Linear {
				q.Linear[i] = sigma * lattice.draw(src)
			}
			return q
		})
	}},
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
var populationControls = []Control{
	{"population-noise-0.9", "noise of 0.9 times its scale", "sco-objective/A1/logistic", 0, louder(0.9)},
	{"population-noise-0.5", "noise of half its scale", "sco-objective/A1/svrg, d = 5", 1000, louder(0.5)},
	{"population-ridge", "half of λ in the objective", "sco-objective/A1/logistic, d = 5 cover", 0, ridged(0.5)},
	{"population-relation", "the constant of add/remove used for replace", "sco-objective/A1/logistic", 3000, instead(func() *linear {
		return population(cover, present(), func(o sco.ObjPert) *sco.ObjPert { return &o })
	})},
	{"population-no-output", "output noise left out", "sco-objective/A1/logistic, d = 5 output noise", 500,
		redrawn(func(rand.Source) int64 { return 0 })},
	{"population-output-0.9", "output perturbation with noise of 0.9 times its scale", "sco-objective/A1/output output noise", 0,
		planned(func(p *perturb.Params) { p.OutputSigma *= 0.9 })},
	{"population-output-relation", "output perturbation for an added record where it is replaced", "sco-objective/A1/output output noise",
		2000, instead(func() *linear { return outputs(present()) })},
}
