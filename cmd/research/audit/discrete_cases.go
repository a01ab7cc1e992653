// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/objpert"
)

// opdiscBall is OPDisc on Lattice(4) with three parameters.
func opdiscBall(law objpert.Law) *discrete {
	c := &discrete{
		mech:  func(o objpert.Oracle) discreteMechanism { return &objpert.OPDisc{Law: law, Oracle: o} },
		space: objpert.Lattice(4), dim: 3, k: 4, budget: dp.Budget{Epsilon: 1, Delta: 1e-2}, data: flipped,
	}
	sigma, rate := 0.0, c.budget.Epsilon/ballShift
	if law == objpert.Gaussian {
		sigma, rate = gaussianBall(c.budget, 4), 0
	}
	c.score = func(_ dp.Budget, table [][]float64, norm []float64) []float64 {
		return ballScores(sigma, rate, table, norm)
	}
	return c
}

// opdiscCircle is OPDisc with one parameter, for which circle returns the law of the output.
func opdiscCircle() *discrete {
	return &discrete{
		mech:  func(o objpert.Oracle) discreteMechanism { return &objpert.OPDisc{Oracle: o} },
		space: objpert.Lattice(1), dim: 1, budget: dp.Budget{Epsilon: 2}, data: flipped, probs: circle,
	}
}

// kNormSigns is the K-norm law on {−1,+1}³: the differences x_j of the rows have density
// ∝ exp(−max|x_j|/θ), θ = 2/ε. Their maximum is Gamma(3)·θ and the other two are uniform below it.
func kNormSigns() *discrete {
	c := cubeCase(3, func(o objpert.Oracle) discreteMechanism { return &objpert.Product{Oracle: o} })
	c.k = 3
	c.score = func(b dp.Budget, table [][]float64, _ []float64) []float64 {
		top, at := 0.0, 0
		for j, row := range table {
			if x := math.Abs(row[1] - row[0]); x > top {
				top, at = x, j
			}
		}
		z := []float64{gammaScore(3, 2/b.Epsilon, top)}
		for j, row := range table {
			if j != at {
				u := ((row[1]-row[0])/top + 1) / 2
				z = append(z, normalScore(u, 1-u))
			}
		}
		return z
	}
	return c
}

// kNormTernary is the K-norm law on {−1,0,1}: Σ_k (η_k − min η) is Gamma(2)·θ, and the entry that
// follows the least one in cyclic order is uniform below that sum.
func kNormTernary() *discrete {
	c := cubeCase(1, func(o objpert.Oracle) discreteMechanism { return &objpert.Product{Oracle: o} })
	c.space, c.k = ternarySpace, 2
	c.score = func(b dp.Budget, table [][]float64, _ []float64) []float64 {
		row := slices.Clone(table[0])
		at, least := slices.Index(row, slices.Min(row)), slices.Min(row)
		sum := row[0] + row[1] + row[2] - 3*least
		u := (row[(at+1)%3] - least) / sum
		return []float64{gammaScore(2, 2/b.Epsilon, sum), normalScore(u, 1-u)}
	}
	return c
}

// oneSidedTernary has entries that are exponential of mean 2d/ε.
func oneSidedTernary() *discrete {
	c := cubeCase(2, func(o objpert.Oracle) discreteMechanism {
		return &objpert.Product{Law: objpert.OneSided, Oracle: o}
	})
	c.space, c.k = ternarySpace, 6
	c.score = func(b dp.Budget, table [][]float64, _ []float64) []float64 {
		return exponentialScores(4/b.Epsilon, slices.Concat(table...)...)
	}
	return c
}

// rspmTernary has entries −T_j[1] and −T_j[−1] that are Laplace of scale 2m/ε, m = 2d = 4.
func rspmTernary() *discrete {
	c := cubeCase(2, func(o objpert.Oracle) discreteMechanism { return &objpert.RSPM{Oracle: o} })
	c.space, c.k = ternarySpace, 4
	c.score = func(b dp.Budget, table [][]float64, _ []float64) []float64 {
		return laplaceScores(8/b.Epsilon, table[0][0], table[0][2], table[1][0], table[1][2])
	}
	return c
}

// productLine, rspmLine and votes decide between −1 and +1, with the law of signs.
func productLine(data [2]halfspaces, advantage [2]float64) *discrete {
	c := cubeCase(1, func(o objpert.Oracle) discreteMechanism { return &objpert.Product{Oracle: o} })
	c.data = data
	c.probs = func(b dp.Budget, i int) map[string]float64 { return signs(b, advantage[i]) }
	return c
}

func rspmLine() *discrete {
	c := productLine(flipped, [2]float64{-1, 1})
	c.mech = func(o objpert.Oracle) discreteMechanism { return &objpert.RSPM{Oracle: o} }
	return c
}

// gibbsLine draws −1 or +1 with probability ∝ e^{−Lε/2}, which attains the profile at ε = 0.
func gibbsLine() *discrete {
	c := cubeCase(1, func(objpert.Oracle) discreteMechanism { return &objpert.Exponential{} })
	c.probs = func(b dp.Budget, i int) map[string]float64 {
		p := 1 / (1 + math.Exp(float64(2*i-1)*b.Epsilon/2))
		return map[string]float64{"+1": p, "-1": 1 - p}
	}
	return c
}

func votes() *discrete {
	c := productLine(flipped, [2]float64{-1, 1})
	c.mech = func(objpert.Oracle) discreteMechanism {
		vote := func(ctx context.Context, p *objpert.Problem) ([]int, error) {
			s, err := objpert.Search{}.Solve(ctx, p)
			if err != nil {
				return nil, err
			}
			return s.W, nil
		}
		return &objpert.SampleAndAggregate{Blocks: 1, Heuristic: vote}
	}
	return c
}

// The setting of OPSamp. It states η, so that S follows without a search over η.
const (
	sampRate = 1e-3
	sampDim  = 2
)

var (
	opsamp     = objpert.OPSamp{Rate: sampRate, Dim: sampDim, Diameter: 1, Lipschitz: 1}
	sampBudget = dp.Budget{Epsilon: 1, Delta: 1e-2}
)

// sampScale is λ/ε = 2S/ε with the least S = (1 − e^{−ηc}) d D_∞/(1 − e^{−ηc}/P), c = 2GdP.
func sampScale() float64 {
	least := math.Inf(1)
	for p := 1.01; p < 100; p += 0.01 {
		tail := -math.Expm1(-sampRate * 2 * sampDim * p)
		least = math.Min(least, tail*sampDim/(1-(1-tail)/p))
	}
	return 2 * least / sampBudget.Epsilon
}

// recording is a minimizer that returns 0 and keeps the first tilt.
type recording struct{ sigma []float64 }

func (t *recording) Minimize(_ context.Context, w, sigma []float64) (float64, error) {
	if t.sigma == nil {
		t.sigma = slices.Clone(sigma)
	}
	clear(w)
	return 0, nil
}

// sampPlan returns a plan of OPSamp and the certificate of a release.
func sampPlan(ctx context.Context, e *env) (*objpert.SampPlan, dp.Certificate, error) {
	plan, err := opsamp.Plan(sampBudget)
	if err != nil {
		return nil, dp.Certificate{}, err
	}
	rel, err := plan.Fit(ctx, &recording{}, e.source("claim"))
	if err != nil {
		return nil, dp.Certificate{}, err
	}
	return plan, rel.Certificate, nil
}

// sampled recovers the output noise and the first tilt of OPSamp.
func sampled(ctx context.Context, e *env) (Finding, error) {
	plan, cert, err := sampPlan(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	scale := sampScale()
	return recovered(ctx, e, cert, e.rows(2*sampDim), func(ctx context.Context, src rand.Source) ([]float64, error) {
		t := &recording{}
		rel, err := plan.Fit(ctx, t, src)
		if err != nil {
			return nil, err
		}
		return append(laplaceScores(scale, rel.Theta...), exponentialScores(1/sampRate, t.sigma...)...), nil
	})
}

// leaky is a minimizer whose gap is too wide and whose point reveals the data set.
type leaky struct{ at float64 }

func (a leaky) Minimize(_ context.Context, w, _ []float64) (float64, error) {
	for j := range w {
		w[j] = a.at
	}
	return 0.5, nil
}

// sampledGap looks for releases of averages of points beyond the gap.
func sampledGap(ctx context.Context, e *env) (Finding, error) {
	plan, cert, err := sampPlan(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	return apartIfReleased(ctx, e, cert, sampDim, func(ctx context.Context, i int, src rand.Source) ([]float64, error) {
		rel, err := plan.Fit(ctx, leaky{float64(i)}, src)
		if err != nil {
			return nil, err
		}
		return rel.Theta, nil
	})
}

var discreteKinds = map[string]kind[*discrete]{
	"white":   {"", WhiteBox, (*discrete).white},
	"exactly": {", exactly", Exact, (*discrete).exact},
	"outside": {", from outside", BlackBox, (*discrete).black},
	"gap":     {"", BlackBox, (*discrete).withheld},
}

func discreteMechanisms() []mechanism {
	type settings = []setting[discrete]
	flip, tie := productLine(flipped, [2]float64{-1, 1}), productLine(tied, [2]float64{0, -2})

	params := fault.NewStep[objpert.Params](fault.DiscreteParams)
	samp := fault.NewStep[objpert.SampParams](fault.SampParams)
	drawn, uncertified := fault.DiscreteNoise, one(fault.Certified, always(true))
	scaled := func(f float64) sabotage {
		return edit(params, func(q *objpert.Params) { q.Scale *= f; q.Time = uint64(float64(q.Time) * f) })
	}
	// dropped draws noise for keep variables and leaves the others without noise.
	dropped := func(keep func(noises int) int) sabotage {
		return func(ctx context.Context) context.Context {
			missing := 0
			ctx = edit(params, func(q *objpert.Params) { missing = q.Noises - keep(q.Noises); q.Noises -= missing })(ctx)
			return one(drawn, func(eta []int64) []int64 { return append(eta, make([]int64, missing)...) })(ctx)
		}
	}
	return []mechanism{{
		name: "opdisc",
		cases: append(cases(discreteKinds, settings{
			{"radial", "A1", "white twice", opdiscBall(objpert.Radial)},
			{"gaussian", "A1", "white", opdiscBall(objpert.Gaussian)},
			{"radial, d = 1", "A1", "exactly outside", opdiscCircle()},
			{"gap", "A12", "gap", opdiscCircle()},
		}), Case{Name: "A1/parity under the published σ", Pair: "A1", Layer: Exact, run: sold}),
		controls: []Control{
			{"opdisc-noise-0.9", "radial noise of 0.9 times its scale", "opdisc/A1/radial", 0, scaled(0.9)},
			{"opdisc-noise-0.5", "Gaussian noise of half its scale", "opdisc/A1/gaussian", 0, scaled(0.5)},
			{"opdisc-noise-0.125", "radial noise of an eighth of its scale, seen from outside",
				"opdisc/A1/radial, d = 1, from outside", 0,
				scaled(0.125)},
			{"opdisc-dimension", "d noise variables in the place of d+1", "opdisc/A1/radial", 0,
				dropped(func(n int) int { return n - 1 })},
			{"opdisc-relation", "the shift of an added record for a replaced one", "opdisc/A1/radial", 0, scaled(0.5)},
			{"opdisc-paper-sigma", "the published σ sold at the ε it claims", "opdisc/A1/parity under the published σ", 0,
				edit(params, func(q *objpert.Params) { q.Proved.Epsilon = 1 })},
			{"opdisc-uncertified", "a point within a gap of the minimum released", "opdisc/A12/gap", 0, uncertified},
			{"opdisc-cached", "one draw of η for all releases", "opdisc/A13/radial", 0, cached(drawn, slices.Clone[[]int64])},
		},
	}, {
		name: "product",
		cases: cases(discreteKinds, settings{
			{"k-norm, signs", "A1", "white twice", kNormSigns()},
			{"k-norm, ternary", "A1", "white", kNormTernary()},
			{"one-sided", "A1", "white", oneSidedTernary()},
			{"k-norm, d = 1", "A1", "exactly outside", flip},
			{"tie", "A12", "exactly outside", tie},
			{"gap", "A12", "gap", flip},
		}),
		controls: []Control{
			{"product-noise-0.9", "K-norm noise of 0.9 times its scale", "product/A1/k-norm, signs", 0, scaled(0.9)},
			{"product-onesided-0.5", "one-sided noise of half its scale", "product/A1/one-sided", 0, scaled(0.5)},
			{"product-tie-0.5", "K-norm noise of half its scale, seen from outside on two tied points",
				"product/A12/tie, from outside", 0,
				scaled(0.5)},
			{"product-relation", "the shift of an added record for a replaced one", "product/A1/k-norm, ternary", 0,
				scaled(0.5)},
			{"product-uncertified", "a point within a gap of the minimum released", "product/A12/gap", 0, uncertified},
		},
	}, {
		name: "rspm",
		cases: cases(discreteKinds, settings{
			{"laplace, ternary", "A1", "white twice", rspmTernary()},
			{"laplace, d = 1", "A1", "exactly outside", rspmLine()},
		}),
		controls: []Control{
			{"rspm-dimension", "d noise variables in the place of 2d separators", "rspm/A1/laplace, ternary", 0,
				dropped(func(n int) int { return n / 2 })},
			{"rspm-noise-0.9", "Laplace noise of 0.9 times its scale", "rspm/A1/laplace, ternary", 0, scaled(0.9)},
			{"rspm-noise-0.5", "Laplace noise of half its scale, seen from outside", "rspm/A1/laplace, d = 1, from outside", 0,
				scaled(0.5)},
			{"rspm-cached", "one draw of η for all releases", "rspm/A13/laplace, ternary", 0,
				cached(drawn, slices.Clone[[]int64])},
		},
	}, {
		name:  "exponential",
		cases: cases(discreteKinds, settings{{"Gibbs", "A1", "exactly outside", gibbsLine()}}),
		controls: []Control{
			{"exponential-scale-0.25", "a point drawn by four times its loss", "exponential/A1/Gibbs, from outside", 0,
				scaled(0.25)},
			{"exponential-minimizer", "minimizers alone accepted", "exponential/A1/Gibbs, from outside", 0,
				one(fault.LossGap, always(int64(0)))},
		},
	}, {
		name:  "aggregate",
		cases: cases(discreteKinds, settings{{"votes", "A1", "exactly outside", votes()}}),
		controls: []Control{
			{"aggregate-noise-0.5", "noise for one vote in the place of two, seen from outside",
				"aggregate/A1/votes, from outside", 0,
				scaled(0.5)},
		},
	}, {
		name: "opsamp",
		cases: []Case{
			{Name: "noise", Layer: WhiteBox, run: sampled},
			{Name: "A12/gap", Pair: "A12", Layer: BlackBox, run: sampledGap},
		},
		controls: []Control{
			{"opsamp-output-0.8", "output noise of 0.8 times its scale", "opsamp/noise", 0,
				edit(samp, func(q *objpert.SampParams) { q.Scale *= 0.8 })},
			{"opsamp-rate", "tilts of twice their rate", "opsamp/noise", 0,
				edit(samp, func(q *objpert.SampParams) { q.Rate *= 2 })},
			{"opsamp-uncertified", "minimizers beyond the gap averaged", "opsamp/A12/gap", 0, uncertified},
		},
	}}
}
