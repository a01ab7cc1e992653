// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// convex is the common part of settings of linear and quadratic perturbation: two neighboring data
// sets of a problem.
type convex struct {
	loss   loss.Loss
	clip   float64 // of gradients, 0 for none
	bounds loss.Bounds
	budget dp.Budget
	kinks  kinks
	data   [2][]record
	crowd  *crowd

	pair
	records [2][]record  // as the fit must use them
	weights [2][]float64 // of the records; nil means 1
}

// dim returns d.
func (c *convex) dim() int { return len(c.data[0][0].a) }

// ready prepares c to release by the mechanism that mech returns for a hook of traces. use maps a
// record to the record that the fit must use. It returns the plan for the first data set.
func ready[L plan[*erm.Problem]](
	ctx context.Context, e *env, c *convex, use func(record) record,
	mech func(trace func(erm.Trace)) planner[*erm.Problem, L],
) (first L, err error) {
	c.records, c.weights = [2][]record{}, [2][]float64{}
	var problems [2]*erm.Problem
	for i, list := range c.data {
		if c.crowd != nil {
			problems[i], err = c.crowd.problem(ctx, i, list, c.bounds, c.loss, c.kinks)
		} else {
			problems[i], err = problem(list, c.bounds, c.loss, c.kinks)
		}
		if err != nil {
			return first, err
		}
		if c.crowd == nil {
			problems[i].Records = len(c.data[0])
		} else {
			problems[i].Records = problems[0].Records
		}
		for _, r := range list {
			c.records[i] = append(c.records[i], use(r))
		}
		if c.crowd != nil {
			c.records[i], c.weights[i], _ = c.crowd.counted(i, c.records[i])
		}
	}
	if first, err = open(&c.pair, mech(func(t erm.Trace) { c.trace = t }), problems, c.budget); err != nil {
		return first, err
	}
	return first, c.claim(ctx, e, c.budget, relationOf(c.data))
}

// slope returns ∇F(θ) on data set i and stores ∇²F(θ), d×d, in hess unless that is nil.
func (c *convex) slope(theta []float64, i int, hess []float64) []float64 {
	d := len(theta)
	g := make([]float64, d)
	clear(hess)
	for k, r := range c.records[i] {
		if l, ok := c.loss.(round); ok { // ∇ = ‖a‖²(θ−θ̃), ∇² = ‖a‖²I
			w := floats.Dot(r.a, r.a)
			for j := range g {
				g[j] += w * (theta[j] - l.center[j])
				hess[j*d+j] += w
			}
			continue
		}
		weight := 1.0
		if c.weights[i] != nil {
			weight = c.weights[i][k]
		}
		if l, ok := c.loss.(loss.Multinomial); ok { // without ∇²
			addSoftmax(g, l.Classes, weight, r, theta)
			continue
		}
		slope, curve := derivatives(c.loss.(loss.Linear), floats.Dot(r.a, theta), r.b, floats.Norm(r.a, 2), c.clip)
		floats.AddScaled(g, weight*slope, r.a)
		if hess != nil {
			for j, v := range r.a {
				floats.AddScaled(hess[j*d:(j+1)*d], weight*curve*v, r.a)
			}
		}
	}
	return g
}

// addSoftmax adds the weighted gradient (π_j − 1[j = b])x of block j, π = softmax(⟨θ_j,x⟩), to dst.
// x has the first of the numbers of the row.
func addSoftmax(dst []float64, classes int, weight float64, r record, theta []float64) {
	p := len(theta) / classes
	x, odds := r.a[:p], make([]float64, classes)
	for j := range odds {
		odds[j] = math.Exp(floats.Dot(x, theta[j*p:(j+1)*p]))
	}
	for j, v := range odds {
		slope := v / floats.Sum(odds)
		if j == int(max(r.b, 0)) {
			slope--
		}
		floats.AddScaled(dst[j*p:(j+1)*p], weight*slope, x)
	}
}

// tooSmall returns the reason why noise cannot hide the distance of two points, or "". Every
// theorem needs that, in every dimension.
func tooSmall(b dp.Budget, distance, sigma, rate float64) string {
	if sigma > 0 && sigma < gaussianScale(b, distance)*(1-1e-6) || rate > b.Epsilon/distance*(1+1e-6) {
		return fmt.Sprintf("Gaussian noise of scale %.6g or radial noise of rate %.6g does not hide a distance of %.6g",
			sigma, rate, distance)
	}
	return ""
}

// steps returns the integer that the output noise added on the grid: the released integer minus the
// rounded certified point.
func steps(released, point, grid float64) int64 {
	return int64(released/grid) - int64(math.RoundToEven(point/grid))
}

// addedTo returns the noise between the certified point and the released one. It replaces each
// integer by a uniform point of its cell, which is a millionth of the scale of the noise.
func addedTo(point, released []float64, grid float64, src rand.Source) []float64 {
	nu := make([]float64, len(released))
	for j, x := range released {
		nu[j] = grid * (float64(steps(x, point[j], grid)) + uniform(src) - 0.5)
	}
	return nu
}

// added recovers the output noise of N(0, σ²) or of the rate.
func (c *convex) added(ctx context.Context, e *env, grid, sigma, rate float64) (Finding, error) {
	aux := e.source("cells")
	return c.scores(ctx, e, e.rows(c.dim()), func(_ int, rel *dp.Release) ([]float64, error) {
		return standard(addedTo(c.trace.Theta, rel.Theta, grid, aux), sigma, rate), nil
	})
}

// within bounds the distance of the certified points from their minimizers, which may not exceed
// cover, by ‖∇F(θ̂) + v + s‖/μ for the best s ∈ ∂(r + ι_C)(θ̂). pull returns the gradient v and
// the modulus μ of the drawn perturbation.
func (c *convex) within(
	ctx context.Context, e *env, cover float64, pull func(theta []float64) (v []float64, mu float64),
) (Finding, error) {
	f := Claimed(c.cert)
	f.Runs = max(100, e.runs(WhiteBox)/10)
	hess := make([]float64, c.dim()*c.dim())
	worst, src := 0.0, e.source("cover")
	for range f.Runs {
		i, _, err := c.turn(ctx, src)
		if err != nil {
			return f, err
		}
		v, mu := pull(c.trace.Theta)
		floats.Add(v, c.slope(c.trace.Theta, i, hess))
		for j, x := range c.trace.Theta {
			lo, hi := c.kinks.subgradients(x)
			v[j] += math.Min(math.Max(-v[j], lo), hi) // 0 ∈ v + [lo, hi]
		}
		worst = math.Max(worst, floats.Norm(v, 2)/mu)
	}
	if !(worst <= cover*(1+1e-6)) {
		f.Reason = fmt.Sprintf("a point was released %.3g from its minimizer, the claim is %.3g", worst, cover)
	}
	return f, nil
}

// black distinguishes releases on the two data sets. For d = 1 the likelihood ratio of the exact
// laws at place(x) is a score.
func (c *convex) black(
	ctx context.Context, e *env, laws func() (p, q law, err error), place func(x float64) float64,
) (Finding, error) {
	if c.dim() > 1 {
		return distinguish(ctx, e, c.cert, e.runs(BlackBox), math.NaN(), c.theta)
	}
	p, q, err := laws()
	d, err := known(p, q, err)
	if err != nil {
		return Finding{}, err
	}
	return distinguish(ctx, e, c.cert, e.runs(BlackBox), epsilonAt(d.max, c.cert.Delta), c.theta,
		func(x []float64) float64 { return ratio(p, q, place(x[0])) })
}

// common returns the part that all convex settings have.
func (c *convex) common() *convex { return c }

// searched is an exact layer on random data: it draws neighbors on the line, integrates the setting
// on each pair and returns the finding with the largest exact ε, or the first violation.
func searched[T any, S interface {
	*T
	preparer
	common() *convex
	exact(ctx context.Context, e *env) (Finding, error)
}](s S, ctx context.Context, e *env) (Finding, error) {
	c := s.common()
	src := e.source("search")
	var found Finding
	most := math.Inf(-1)
	for range map[Tier]int{Quick: 5, CI: 100, Long: 5000}[e.tier] {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		copied := *s
		random := S(&copied)
		random.common().data = neighbors(relationOf(c.data), c.bounds, src)
		if err := random.prepare(ctx, e); err != nil {
			return Finding{}, err
		}
		f, err := random.exact(ctx, e)
		if err != nil || f.Verdict() != Holds {
			return f, err
		}
		if f.Exact > most {
			most, found = f.Exact, f
		}
	}
	return found, nil
}
