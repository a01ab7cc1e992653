// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/objpert"
)

// discreteMechanism is Exponential, OPDisc, Product, RSPM or SampleAndAggregate.
type discreteMechanism = planner[*objpert.Problem, *objpert.Plan]

// discrete is a setting of a mechanism over a finite set. The oracle, which the caller may supply,
// gets the noise: the white box is an oracle that records it.
type discrete struct {
	mech   func(o objpert.Oracle) discreteMechanism
	oracle objpert.Oracle // nil for that of the mechanism
	space  objpert.Space
	dim    int
	budget dp.Budget
	// score maps the noise of one release to k independent N(0,1).
	score func(b dp.Budget, table [][]float64, norm []float64) []float64
	k     int
	data  [2]halfspaces
	// probs returns the probability of each output on data set i, for the exact and the black box.
	probs func(b dp.Budget, i int) map[string]float64
	laws  [2]map[string]float64 // the values of probs, once computed

	pair
	plan *objpert.Plan
}

// halfspaces are records (x, y) with integer features.
type halfspaces []struct {
	x []int64
	y int
}

// flipped is one record that separates −1 from +1, with either label. tied (A12) is two records
// that disagree, so that both points have equal losses, or agree.
var (
	flipped = [2]halfspaces{{{[]int64{1}, 1}}, {{[]int64{1}, -1}}}
	tied    = [2]halfspaces{{{[]int64{1}, 1}, {[]int64{1}, -1}}, {{[]int64{1}, 1}, {[]int64{1}, 1}}}
)

func (h halfspaces) problem(space objpert.Space, dim int) (*objpert.Problem, error) {
	rows, labels := make([][]int64, len(h)), make([]int, len(h))
	for i, r := range h {
		rows[i], labels[i] = make([]int64, dim), r.y
		for j := range rows[i] {
			rows[i][j] = r.x[j%len(r.x)]
		}
	}
	return objpert.NewProblem(rows, labels, nil, space)
}

// spy is an oracle that records the noise and returns the point w.
type spy struct {
	w     []int
	table [][]float64
	norm  []float64
}

func (s *spy) Solve(_ context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	table, norm, exponent := p.Noise()
	reals := func(steps []int64) []float64 {
		x := make([]float64, len(steps))
		for k, v := range steps {
			x[k] = math.Ldexp(float64(v), exponent)
		}
		return x
	}
	s.table = s.table[:0]
	for _, row := range table {
		s.table = append(s.table, reals(row))
	}
	s.norm = reals(norm)
	return &objpert.Solution{W: s.w, Proven: true}, nil
}

// plans plans for both data sets, with an oracle.
func (c *discrete) plans(o objpert.Oracle) (err error) {
	var problems [2]*objpert.Problem
	for i := range problems {
		if problems[i], err = c.data[i].problem(c.space, c.dim); err != nil {
			return err
		}
	}
	c.plan, err = open(&c.pair, c.mech(o), problems, c.budget)
	return err
}

func (c *discrete) prepare(ctx context.Context, e *env) error {
	if err := c.plans(c.oracle); err != nil {
		return err
	}
	pure := dp.Budget{Epsilon: c.budget.Epsilon} // a pure law claims no δ
	return c.claim(ctx, e, pure, c.plan.Certificate().Relation)
}

// white tests the noise that a spy records.
func (c *discrete) white(ctx context.Context, e *env) (Finding, error) {
	s := &spy{w: slices.Repeat([]int{c.space.Values[len(c.space.Values)/2]}, c.dim)}
	if err := c.plans(s); err != nil {
		return Finding{}, err
	}
	return c.scores(ctx, e, e.rows(c.k), func(int, *dp.Release) ([]float64, error) {
		return c.score(c.budget, s.table, s.norm), nil
	})
}

// stick is the larger divergence of the two laws of outputs.
func (c *discrete) stick(eps float64) float64 {
	if c.laws[0] == nil {
		c.laws = [2]map[string]float64{c.probs(c.budget, 0), c.probs(c.budget, 1)}
	}
	p, q := c.laws[0], c.laws[1]
	var there, back float64
	for w := range p {
		there += math.Max(0, p[w]-math.Exp(eps)*q[w])
		back += math.Max(0, q[w]-math.Exp(eps)*p[w])
	}
	return math.Max(there, back)
}

// black distinguishes the pair by its releases and compares the bound with the exact ε.
func (c *discrete) black(ctx context.Context, e *env) (Finding, error) {
	f, err := distinguish(ctx, e, c.cert, e.runs(BlackBox), epsilonAt(c.stick, c.cert.Delta), c.theta)
	f.Least = 0.5
	return f, err
}

// exact compares the probabilities of all outputs with the claim.
func (c *discrete) exact(context.Context, *env) (Finding, error) {
	return integrate(c.cert, c.plan.Profile().Delta, c.stick), nil
}

// gap is an oracle that proves nothing and whose point reveals the data set.
type gap struct{}

func (gap) Solve(_ context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	w := []int{-1}
	if _, _, neg := p.Rows(); neg[0] > 0 {
		w[0] = 1
	}
	return &objpert.Solution{W: w, Objective: p.Objective(w), Lower: p.Objective(w) - 0.5}, nil
}

// withheld looks for releases of unproved points, which must be withheld.
func (c *discrete) withheld(ctx context.Context, e *env) (Finding, error) {
	if err := c.plans(gap{}); err != nil {
		return Finding{}, err
	}
	return apartIfReleased(ctx, e, c.cert, c.dim, c.theta)
}

// apartIfReleased distinguishes releases, with 0 for withheld ones.
func apartIfReleased(
	ctx context.Context, e *env, cert dp.Certificate, dim int,
	release func(context.Context, int, rand.Source) ([]float64, error),
) (Finding, error) {
	orZero := func(ctx context.Context, i int, src rand.Source) ([]float64, error) {
		x, err := release(ctx, i, src)
		if errors.Is(err, dp.ErrWithheld) {
			return make([]float64, dim), nil
		}
		return x, err
	}
	f, err := distinguish(ctx, e, cert, 1000, math.NaN(), orZero)
	f.Power = 1
	return f, err
}

// signs returns the probabilities of −1 and +1 under noise of density e^{−|x|/θ}/2θ, θ = 2/ε, if
// the loss of +1 minus the loss of −1 is advantage.
func signs(b dp.Budget, advantage float64) map[string]float64 {
	p := math.Exp(-math.Abs(advantage)*b.Epsilon/2) / 2
	if advantage < 0 {
		p = 1 - p
	}
	return map[string]float64{"+1": p, "-1": 1 - p}
}

// circle returns the probabilities of −1, 0 and +1 for OPDisc with one parameter and Q = 1, where Δ
// = 2. Along each direction of η ∈ ℝ² the minimizer is a step function of the radius, Gamma(2)·2/ε.
func circle(b dp.Budget, i int) map[string]float64 {
	const angles = 20_000
	scale := 2 / b.Epsilon
	phi := [3][2]float64{{-1, 0}, {0, 1}, {1, 0}}
	loss := [2][3]float64{{1, 1, 0}, {0, 0, 1}}[i] // of −1, 0, +1 at x = 1, sgn(0) = −1
	out := map[string]float64{}
	below := func(r float64) float64 {
		if math.IsInf(r, 1) {
			return 1
		}
		return 1 - (1+r/scale)*math.Exp(-r/scale)
	}
	for a := range angles {
		s, c := math.Sincos(2 * math.Pi * (float64(a) + 0.5) / angles)
		for w, f := range phi {
			lo, hi := 0.0, math.Inf(1)
			for v, g := range phi {
				gain, need := c*(f[0]-g[0])+s*(f[1]-g[1]), loss[w]-loss[v]
				switch {
				case v == w:
				case gain > 0:
					lo = math.Max(lo, need/gain)
				case gain < 0:
					hi = math.Min(hi, need/gain)
				case need > 0:
					hi = -1
				}
			}
			if lo < hi {
				out[fmt.Sprint(w-1)] += (below(hi) - below(lo)) / angles
			}
		}
	}
	return out
}

// parity returns the probabilities of an even and an odd number of +1 in {−1,+1}ᵈ under the
// published σ, if the loss of a record is 1 for one parity and 0 for the other: q/2 and 1 − q/2 for
// s = σ/√d, q = P(|N| > 1/2s)ᵈ.
func parity(b dp.Budget, d int) (low, high float64) {
	sigma := 7 * float64(d) / 4 * math.Sqrt(-math.Log(b.Delta)) / b.Epsilon
	s := sigma / math.Sqrt(float64(d))
	q := math.Exp(float64(d) * (math.Ln2 + num.LogQ(1/(2*s))))
	return q / 2, 1 - q/2
}

// sold compares the claim of a release under the published σ with the probabilities of parity.
func sold(ctx context.Context, e *env) (Finding, error) {
	const d = 200
	low, high := parity(usual6, d)
	c := cubeCase(d, func(o objpert.Oracle) discreteMechanism {
		return &objpert.OPDisc{Law: objpert.PaperSigma, Oracle: o}
	})
	c.budget, c.oracle = usual6, &spy{w: slices.Repeat([]int{1}, d)}
	if err := c.prepare(ctx, e); err != nil {
		return Finding{}, err
	}
	return integrate(c.cert, c.cert.Budget.Profile().Delta, func(eps float64) float64 {
		return math.Max(0, high-math.Exp(eps)*low)
	}), nil
}

var usual6 = dp.Budget{Epsilon: 1, Delta: 1e-6}

// exponentialScores standardizes independent exponential variables of mean theta.
func exponentialScores(theta float64, x ...float64) []float64 {
	for i, v := range x {
		x[i] = normalScore(-math.Expm1(-v/theta), math.Exp(-v/theta))
	}
	return x
}

// laplaceScores standardizes independent Laplace variables of scale theta.
func laplaceScores(theta float64, x ...float64) []float64 {
	for i, v := range x {
		tail := math.Exp(-math.Abs(v)/theta) / 2
		x[i] = math.Copysign(normalScore(1-tail, tail), v)
	}
	return x
}

// gammaScore returns the normal quantile of the probability of x under the Gamma law of shape k and
// scale theta: a standard normal variable if x has that law.
func gammaScore(k, theta, x float64) float64 {
	return normalScore(math.Exp(num.GammaLogP(k, x/theta)), math.Exp(num.GammaLogQ(k, x/theta)))
}

// ballScores standardizes the noise of Lattice(4), where √Q = 2 is a value: T_j[2]
// = η_j and z[0] = η_{d+1}.
func ballScores(sigma, rate float64, table [][]float64, norm []float64) []float64 {
	eta := make([]float64, 0, len(table)+1)
	for _, row := range table {
		eta = append(eta, row[len(row)-1])
	}
	eta = append(eta, norm[0])
	return standard(eta, sigma, rate)
}

// ballShift is Δ of Lattice(4) for a replaced record: 2Q + 2√(Q(Q−1)).
var ballShift = 8 + 2*math.Sqrt(12)

// gaussianBall is the least σ with E(1 − exp(ε − ΔR/σ − Δ²/2σ²))₊ ≤ δ, R ~ χ_m.
func gaussianBall(b dp.Budget, m float64) float64 {
	return 1 / largestUnder(b.Delta, func(x float64) float64 { // x = 1/σ
		a, end := ballShift*x, math.Sqrt(m)+9
		return quad.Fixed(func(r float64) float64 {
			return 2 * r * math.Exp(num.Chi2LogPDF(r*r, m)) * -math.Expm1(b.Epsilon-a*r-a*a/2)
		}, min(max(0, b.Epsilon/a-a/2), end), end, 64, nil, 0)
	})
}

// signs and ternary values: {−1,+1}ᵈ and {−1,0,1}ᵈ.
var (
	signSpace    = objpert.Space{Values: []int{-1, 1}, NormSq: -1}
	ternarySpace = objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}
)

// cubeCase is a setting on {−1,+1}ᵈ with the pair flipped.
func cubeCase(d int, mech func(o objpert.Oracle) discreteMechanism) *discrete {
	return &discrete{mech: mech, space: signSpace, dim: d, budget: dp.Budget{Epsilon: 2}, data: flipped}
}
