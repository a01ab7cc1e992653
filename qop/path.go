// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// slopeBits: the grid of slopes is 2⁻³⁰ of the noise of their sum, and so large that the sum over
// MaxRecords stays below 2⁶⁰ steps and one slope below 2⁵⁰.
const slopeBits = 30

// Steps of a tilt that an audit may replace: the sum of clipped slopes in steps of SlopeGrid, its
// noise, and the sum of slopes that is taken from the risk.
var (
	stepSlopes     = fault.NewStep[[]int64](fault.TiltSlopes)
	stepSlopeNoise = fault.NewStep[[]int64](fault.TiltNoise)
	stepTaken      = fault.NewStep[[]float64](fault.TiltTaken)
)

// tilted calibrates Tilt: one curve for c̃, the minimizer and K output noises. It searches the
// share of c̃ and m for the least expected excess risk of records whose curvature is the same in
// all directions, with approximate laws, and then computes t with the exact ones. Every choice is
// private; a poor one costs utility.
func (c *calibrator) tilted() error {
	p, d := c.plan, float64(c.s.dim)
	g := c.asked.clip()
	if c.s.structure > loss.GLM {
		return fmt.Errorf("qop: %w: Tilt has a proof for losses of ⟨a,θ⟩ (LSQ, GLM), the structure is %v", dp.ErrCondition,
			c.s.structure)
	}
	s := c.s
	s.eps = math.Min(p.Budget.Epsilon, mostEpsilon)
	whole := dp.Budget{Epsilon: s.eps, Delta: p.Budget.Delta}
	total, err := dp.Calibrate(dp.GaussianCurve, whole)
	if err != nil {
		return fmt.Errorf("qop: %w", err)
	}
	p.Objective, p.Clip = whole, g
	p.Releases = max(c.asked.Releases, 1)
	output := total * math.Sqrt(cmp.Or(c.asked.Share, defaultJointShare))
	c.shift = output / math.Sqrt(float64(p.Releases)) / safeScale
	distance := c.asked.Radius
	if distance == 0 {
		distance = g * math.Sqrt(d) / (2 * p.Constants.Smoothness)
	}
	p.Radius = distance
	// With w = σ²λ, λ an eigenvalue of W, and the curvature h of all records in its direction, the
	// excess is ½h(D²/d·(w/(h+w))² + τ²/(h+w)²), summed over directions.
	n, logDelta := float64(cmp.Or(p.Records, 100*p.Dim)), num.Log(whole.Delta)
	h := n * p.Constants.Smoothness / d
	sensitivity := g
	if p.Relation == dp.Replace {
		sensitivity *= 2
	}
	at := func(x []float64) (slope, m float64) {
		share := 0.002 + 0.996/(1+math.Exp(-x[0]))
		slope = total * math.Sqrt(share*(1-cmp.Or(c.asked.Share, defaultJointShare)))
		if p.Relation == dp.Replace {
			slope /= 2 // of one record
		}
		least := leastDegrees(s.dim)
		if len(x) == 1 {
			return slope, c.asked.Degrees
		}
		m = math.Round(least + (2*d+2)*math.Exp(math.Max(-6, math.Min(4, x[1]))))
		return slope, math.Min(m, s.most())
	}
	guess := s.eps
	cost := func(x []float64) float64 {
		slope, m := at(x)
		t := num.Largest(newTilted(s, m, slope, output, true).logDelta, logDelta, guess, 10*coarseT)
		if !(t > 0) {
			return math.Inf(1)
		}
		guess = t
		tau := g / slope
		sum, weight := 0.0, 0.0
		for i := 1.0; i < 32; i++ { // the law of Marchenko and Pastur
			sin, cos := math.Sincos(math.Pi * i / 32)
			lambda := 1 + d/m + 2*math.Sqrt(d/m)*cos
			w := p.Constants.Smoothness / t * m * lambda
			f := sin * sin / lambda
			weight += f
			sum += f * (distance*distance/d*(w/(h+w))*(w/(h+w)) + tau*tau/((h+w)*(h+w)))
		}
		return num.Log(sum / weight)
	}
	start := []float64{0, -1}
	if c.asked.Degrees != 0 {
		start = start[:1]
	}
	x, _ := simplex(cost, start, 30*len(start))
	slope, m := at(x)
	p.SlopeSigma = sensitivity / slope
	if p.Relation == dp.Replace {
		p.SlopeSigma /= 2
	}
	c.slopes(sensitivity)
	single := p.SlopeSensitivity / p.SlopeSigma * (1 + 0x1p-50)
	if p.Relation == dp.Replace {
		single /= 2
	}
	law := newTilted(s, m, single, output, false)
	guess = num.Largest(newTilted(s, m, single, output, true).logDelta, logDelta, guess, coarseT)
	p.Degrees, p.Theorem = m, theoremTilted
	p.Ratio = num.Largest(law.logDelta, logDelta-safeLogDelta, guess, 1e-4)
	if !(p.Ratio > 0) {
		return fmt.Errorf("qop: %w: no σ² was found for %v with Degrees = %v and Tilt.Clip = %v; a larger Delta or Degrees "+
			"needs less", dp.ErrCondition, whole, m, g)
	}
	p.Cover, err = c.coverOf(p.Ratio, p.Degrees, false)
	p.Reach = p.Cover
	return err
}

// slopes fixes the grid of slopes and what is known of c̃ before a record is read.
func (c *calibrator) slopes(sensitivity float64) {
	p, d := c.plan, float64(c.s.dim)
	n := float64(p.MaxRecords)
	e := math.Ilogb(p.SlopeSigma) - slopeBits
	e = max(e, math.Ilogb(p.Clip*n)+1-59, math.Ilogb(p.Clip)+1-49, -900)
	p.SlopeGrid = math.Ldexp(1, e)
	round := p.SlopeGrid * math.Sqrt(d/2) // γ√d/2 is enough but for the tied shifts of two records
	p.SlopeSensitivity = sensitivity / p.Clip * (p.Clip*(1+0x1p-40) + round) * safeScale
	tail, _ := release.MostNormal(p.Dim, p.Budget, p.SlopeSigma)
	c.per.Linear = (n*(p.Clip*(1+0x1p-40)+round) + tail) * safeScale // c̃ is projected on this ball
	c.per = c.public.Tilted(c.per)
}

// Path releases the minimizers of several problems from one draw of c̃ and W, all of them together
// at the price of the plan: for least squares with [Tilt] every minimizer is a function of c̃ and
// of Σcaa' + σ²W, for any regularizer and set. The problems have the records of p and its loss; the
// regularizer and the set of each are those of a Penalty. There are at most Mechanism.Releases of
// them. x₀ is the projection on the Set of the problem that was planned for.
//
// The releases share one certificate, that of the plan: a ledger is charged once for all of them.
// Errors are those of [Plan.Fit].
func (pl *Plan) Path(ctx context.Context, p *erm.Problem, list []Penalty, src rand.Source) ([]*dp.Release, error) {
	if !pl.made() || pl.rule == nil || pl.params.Clip == 0 || pl.params.Structure != loss.LSQ {
		return nil, fmt.Errorf("%w: a path needs a plan of least squares with Tilt, made by Mechanism.Plan", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	if len(list) < 1 || len(list) > pl.params.Releases {
		return nil, fmt.Errorf("%w: a path of %d problems, want 1 to Releases = %d, those of the plan", ErrMechanism,
			len(list), pl.params.Releases)
	}
	if p == nil {
		return nil, fmt.Errorf("qop: %w: the problem is nil, want one with data and a loss", erm.ErrProblem)
	}
	var problems []*erm.Problem
	var reaches []float64
	for i, penalty := range list {
		at := *p
		at.Reg, at.Set = penalty.Reg, penalty.Set
		q, err := publicOf(&at, pl.params.Relation)
		if err != nil {
			return nil, fmt.Errorf("qop: penalty %d: %w", i, err)
		}
		reach, err := pl.admit(&at, q)
		if err != nil {
			return nil, fmt.Errorf("qop: penalty %d: %w", i, err)
		}
		problems, reaches = append(problems, &at), append(reaches, reach)
	}
	return pl.runs(ctx, problems, reaches, src)
}

// runs releases the minimizers of problems with the same records, which were admitted, from one
// draw.
func (pl *Plan) runs(
	ctx context.Context, problems []*erm.Problem, reaches []float64, src rand.Source,
) ([]*dp.Release, error) {
	first := problems[0]
	if err := pl.public.Admit(first); err != nil {
		return nil, fmt.Errorf("qop: %w", err)
	}
	used := *pl
	used.params = fault.At(fault.From(ctx), stepParams, pl.params)
	used.output.Sigma = used.params.OutputSigma
	var sum []int64
	var taken []float64
	if pl.params.Clip > 0 {
		var err error
		if sum, taken, err = used.sums(ctx, first); err != nil {
			return nil, err
		}
	}
	data := pl.rule.rule().apply(first.Data, first.Loss, pl.center)
	quad := take(pl.params.Dim)
	defer give(quad)
	defer clear(taken)
	var drawn erm.Perturbation
	var ok bool
	var list []*dp.Release
	for i, problem := range problems {
		job := release.Job{
			Certificate: pl.cert, Output: used.output, Reach: reaches[i], Start: pl.center, Trace: pl.trace,
			Draw: func(src rand.Source) (erm.Perturbation, bool) {
				if i == 0 {
					linear := used.tangent(ctx, sum, taken, src)
					drawn, ok = used.draw(quad, src)
					drawn.Linear = linear
				}
				q := drawn
				q.Linear = slices.Clone(drawn.Linear) // a job clears what it is given
				return q, ok
			},
		}
		q := *problem
		q.Data = data
		rel, err := job.Run(ctx, &q, src)
		if err != nil {
			if ctx.Err() == nil {
				err = fmt.Errorf("qop: %w", err)
			}
			return nil, err
		}
		list = append(list, rel)
	}
	clear(drawn.Linear)
	return list, nil
}

// sums returns Σ round(clip(∇ℓ(x₀))/γ) and Σ∇ℓ(x₀), the second without a clip: it is taken from the
// risk, whose records then have slope 0 at x₀ whatever their slopes were.
func (pl *Plan) sums(ctx context.Context, p *erm.Problem) (clipped []int64, whole []float64, err error) {
	f := fault.From(ctx)
	l, err := loss.NewClipped(p.Loss, pl.params.Clip)
	if err != nil {
		return nil, nil, fmt.Errorf("qop: %w: Tilt.Clip: %w", dp.ErrCondition, err)
	}
	short := *p
	short.Loss = l
	n, d := p.Data.Dims()
	clipped, whole = make([]int64, d), make([]float64, d)
	obj := short.PerturbContext(ctx, erm.Perturbation{})
	norm := int64(math.Ceil(pl.params.Clip / pl.params.SlopeGrid * (1 + 0x1p-40)))
	part, idx := make([]int64, d), make([]int, 0, 4096)
	for i := 0; i < n; i += len(idx) {
		idx = idx[:0]
		for j := i; j < min(i+cap(idx), n); j++ {
			idx = append(idx, j)
		}
		obj.SumRounded(part, pl.center, idx, math.Ilogb(pl.params.SlopeGrid), max(norm, 1))
		for j, v := range part {
			clipped[j] += v
		}
	}
	full := p.PerturbContext(ctx, erm.Perturbation{})
	full.AccurateGrad(whole, pl.center)
	for _, o := range []*erm.Objective{obj, full} {
		if err := o.Err(); err != nil {
			return nil, nil, fmt.Errorf("qop: %w", err)
		}
	}
	return fault.At(f, stepSlopes, clipped), fault.At(f, stepTaken, whole), ctx.Err()
}

// tangent draws c̃ = γ(sum + round(N(0, τ²I)/γ)), projects it on the ball that Cover was fixed for,
// and returns it less what is taken from the risk; nil without a sum.
func (pl *Plan) tangent(ctx context.Context, sum []int64, taken []float64, src rand.Source) []float64 {
	if sum == nil {
		return nil
	}
	law := release.Noise{Exponent: math.Ilogb(pl.params.SlopeGrid), Sigma: pl.params.SlopeSigma}
	nu, c := make([]int64, len(sum)), make([]float64, len(sum))
	defer clear(nu)
	law.Fill(nu, src)
	law.Add(c, sum, fault.At(fault.From(ctx), stepSlopeNoise, nu))
	if most, norm := pl.per.Linear/(1+0x1p-30), norm(c); norm > most {
		floats.Scale(most/norm, c)
	}
	floats.Sub(c, taken)
	return c
}

// Penalty is the public part of a problem of a [Plan.Path]: its regularizer and its set, nil for
// none.
type Penalty struct {
	Reg prox.Operator
	Set prox.Set
}
