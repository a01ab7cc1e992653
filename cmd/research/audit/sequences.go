// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// sequence fits models to two neighboring data sets in turn.
type sequence struct {
	data    [2]*erm.Data
	budget  dp.Budget
	options model.Options
	side    int // the data set of the last fit

	cert            dp.Certificate
	*model.Sequence // behind the certificate
	// The distances by which a neighbor moves a sum of nonnegative terms and of any vectors of norm 1.
	pair, two float64
}

func (c *sequence) fit(ctx context.Context, src rand.Source) (*model.Model, error) {
	c.side = 1 - c.side
	o := c.options
	o.Source = src
	return model.Fit(ctx, &table.Data{Records: c.data[c.side]}, c.budget, &o)
}

// claim fits once. The certificate must claim the budget, and the shares divide no more than μ²,
// which one Gaussian release could have.
func (c *sequence) claim(ctx context.Context, e *env) error {
	m, err := c.fit(ctx, e.source("claim"))
	if err != nil {
		return err
	}
	c.cert, c.Sequence = m.Certificate(), m.Params().Sequence
	if c.Sequence == nil {
		return fmt.Errorf("audit: %s: the plan has one release, want a sequence", e.name)
	}
	if c.pair, c.two = 1, 1; c.options.Relation == dp.Replace {
		c.pair, c.two = math.Sqrt2, 2
	}
	w := c.Shares
	total := w.Labels + w.First + w.Residuals + w.Last + w.Hessian + w.Scores + w.Output + w.Gram + w.Norms + w.Gradients
	if c.TwoStep {
		total += w.Output
	}
	if total > 1+1e-12 || c.Mu*gaussianScale(c.budget, 1) > 1 {
		return &falseClaim{c.cert, c.budget}
	}
	return asFor(c.cert, c.budget, c.options.Relation)
}

// leastSquares is a regression on a pair, by a plan that the size and the budget of the pair
// select.
type leastSquares struct {
	data   [2][]record
	budget dp.Budget
	ridge  float64 // of the user
	clip   float64 // stated, or 0
	class  bool    // logistic regression in its place
	crowd  *crowd
}

// sequence returns the fits of c, which have claimed.
func (c leastSquares) sequence(ctx context.Context, e *env) (*sequence, error) {
	n := len(c.data[0])
	s := &sequence{budget: c.budget, options: model.Options{
		Loss: model.Loss{Name: model.Squares}, Relation: relationOf(c.data), Records: n, Clip: c.clip,
		Penalty: model.Penalty{Ridge: c.ridge / float64(n)},
	}}
	if c.class {
		s.options.Loss.Name = model.Logistic
	}
	for i, list := range c.data {
		p, err := problem(list, unit, loss.Squared{}, free)
		if c.crowd != nil {
			p, err = c.crowd.problem(ctx, i, list, unit, loss.Squared{}, free)
		}
		if err != nil {
			return nil, err
		}
		s.data[i] = p.Data
	}
	return s, s.claim(ctx, e)
}

// spent fits both data sets with the same outputs: at every release the second fit gets the sum of
// the first. So all releases of a run are known but for their noise, and the exact ε of the pair,
// given these outputs, is that of one Gaussian release with the shift √Σ(distance of the sums/σ)².
// It must be within the claim in every run.
func (c leastSquares) spent(ctx context.Context, e *env) (Finding, error) {
	s, err := c.sequence(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	if s.Shares.Gradients == 0 {
		return Finding{}, fmt.Errorf("audit: %s: the plan is not that of noisy gradients", e.name)
	}
	f := Claimed(s.cert)
	f.Runs, f.Least = min(e.scarce(len(c.data[0][0].a)), 40), 0.85
	if c.class { // at a probability of ½ a slope is half of its bound
		f.Least = 0.2
	}
	outer, most := fault.From(ctx), 0.0
	for run := range f.Runs {
		var sums []fault.Sum
		total, at := 0.0, 0
		steps := [2]func(v fault.Sum) fault.Sum{func(v fault.Sum) fault.Sum {
			v = fault.At(outer, fault.Release, v)
			sums = append(sums, fault.Sum{Terms: slices.Clone(v.Terms), Exponent: v.Exponent, Sigma: v.Sigma})
			return v
		}, func(v fault.Sum) fault.Sum {
			v = fault.At(outer, fault.Release, v)
			first := sums[at]
			at++
			for j, k := range v.Terms {
				total += math.Pow(math.Ldexp(float64(k-first.Terms[j]), v.Exponent)/min(v.Sigma, first.Sigma), 2)
			}
			return first
		}}
		for i, step := range steps {
			s.side = 1 - i // fit takes the other one
			if _, err := s.fit(fault.With(ctx, fault.Release, step), e.source("white", fmt.Sprint(run))); err != nil {
				return f, err
			}
		}
		most = max(most, total)
	}
	f.Exact = dp.Curve(dp.GaussianCurve(math.Sqrt(most))).Epsilon(c.budget.Delta)
	f.Power = f.Exact / c.budget.Epsilon
	return f, nil
}

// mapped recovers the noise of the Gram matrix and of the minimizer of mapped rows. Probes, short
// rows along the axes that no map shrinks, are known by their labels. They show the map
//
//	M = (X/R)diag(u)V′,  and with it the noisy matrix Ĥ = (X/R)²(M′M)⁻¹
//
// R is a power of 2^¼ times a public number, so that the trace of Ĥ tells which.
func (c leastSquares) mapped(ctx context.Context, e *env) (Finding, error) {
	s, err := c.sequence(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	if s.Map != "full" {
		return Finding{}, fmt.Errorf("audit: %s: the plan maps no rows", e.name)
	}
	d := len(c.data[0][0].a)
	by := mat.NewDense(d, d, nil)
	ctx = fault.With(ctx, release.Data, func(p *erm.Problem) *erm.Problem {
		failed := p.Data.Each(func(a []float64, b float64) {
			if j, ok := probed(b); ok {
				by.SetCol(j, floats.ScaleTo(make([]float64, d), 1/probe, a))
			}
		})
		err = errors.Join(err, failed)
		return p
	})
	runs := e.scarce(d * (d + 3) / 2)
	if s.two > 1 { // plans for a replaced record take 0.15 s
		runs = min(runs, 200)
	}
	f, failed := recovered(ctx, e, s.cert, runs, func(ctx context.Context, src rand.Source) ([]float64, error) {
		m, err := s.fit(ctx, src)
		if err != nil {
			return nil, err
		}
		choice := *m.Choice()
		if !(choice.Ridge*math.Expm1(s.C) >= 1-1e-9) {
			return nil, &falseClaim{s.cert, c.budget} // curvature costs more than c
		}
		var square, inverse mat.Dense
		var theta mat.VecDense // θ = M′θ′
		square.Mul(by.T(), by)
		err = errors.Join(inverse.Inverse(&square), theta.SolveVec(by.T(), mat.NewVecDense(d, m.Theta())))
		if err != nil {
			return nil, err
		}
		z := c.gram(s.side, &inverse)
		floats.Scale(math.Sqrt(s.Shares.Gram)*s.Mu/s.pair, z)
		b := c.pull(s.side, by, theta.RawVector().Data, choice)
		floats.Scale(-math.Sqrt(s.Shares.Last)*s.Mu/(s.two*choice.Clip), b)
		turned := make([]float64, d) // Vb is in coordinates that no noise has chosen
		for j, v := range b {
			axis := by.RawRowView(j)
			floats.AddScaled(turned, v/floats.Norm(axis, 2), axis)
		}
		return append(z, turned...), nil
	})
	return f, errors.Join(failed, err)
}

// probe is the length of the rows along the axes.
const probe = 0.01

// probed returns the axis of the row with a label.
func probed(label float64) (axis int, ok bool) {
	j := math.Round(label/probe*100) - 100
	return int(j), j >= 0 && j < 100 && math.Abs(label-probe*(1+j/100)) < 1e-9
}

// gram returns the noise of Σaa′ on data set i, given Ĥ but for its scale: the upper triangle, off
// the diagonal times √2.
func (c leastSquares) gram(i int, noisy *mat.Dense) (z []float64) {
	d, _ := noisy.Dims()
	exact := mat.NewDense(d, d, nil)
	for _, r := range c.data[i] {
		row := mat.NewVecDense(d, r.a)
		exact.RankOne(exact, 1, row, row)
	}
	base := float64(len(c.data[0])) / float64(d)
	k := math.Round(2 * math.Log2(mat.Trace(exact)/(mat.Trace(noisy)*base)))
	noisy.Scale(base*math.Exp2(k/2), noisy)
	for j := range d {
		for k := j; k < d; k++ {
			z = append(z, (noisy.At(j, k)-exact.At(j, k))*scaleOf(j, k))
		}
	}
	return z
}

// pull returns the slope of the perturbed objective but for its noise at the point θ′, on records
// mapped by M that have the weight ω = min(1, 1/‖Ma‖²).
func (c leastSquares) pull(i int, by *mat.Dense, theta []float64, choice model.Choice) []float64 {
	var at, back mat.VecDense
	x := mat.NewVecDense(len(theta), theta)
	at.MulVec(by.T(), x)
	back.MulVec(by, &at) // of the ridge of the user, ½λ‖M′θ′‖²
	g := back.RawVector().Data
	floats.Scale(c.ridge, g)
	floats.AddScaled(g, choice.Ridge, theta)
	for _, r := range c.data[i] {
		var row mat.VecDense
		row.MulVec(by, mat.NewVecDense(len(theta), r.a))
		root := min(1, 1/mat.Norm(&row, 2))
		row.ScaleVec(root, &row)
		slope, _ := derivatives(loss.Squared{}, mat.Dot(&row, x), root*r.b, mat.Norm(&row, 2), choice.Clip)
		floats.AddScaled(g, slope, row.RawVector().Data)
	}
	return g
}

// far is a pair whose last record is as far as its bounds allow from what the others, short rows
// with small labels, suggest: its term has the largest norm in most of the releases of an
// automatic fit.
func far(rel dp.Relation) leastSquares {
	const n, d = 300, 4
	list := sample(n, d, "far")
	for k := range list {
		floats.Scale(0.3, list[k].a)
		list[k].b = 0.3 * list[k].a[0]
	}
	return leastSquares{data: ended(rel, list, axis(d, 1, 1), axis(d, 1, -1)), budget: dp.Budget{Epsilon: 1, Delta: 0.05}}
}

// spanned is a pair for a map: 2440 records whose labels are their first feature before they
// are scaled by 0.7, 60 with long rows and labels that are not, and probes.
func spanned(rel dp.Relation) leastSquares {
	const n, d = 2500, 10
	list := sample(n, d, "spanned")
	for k := range list {
		r := &list[k]
		if r.b = r.a[0]; k < 60 {
			floats.Scale(1/floats.Norm(r.a, 2), r.a)
			r.b = r.a[0] - 0.4*sign(r.a[0])
			continue
		}
		floats.Scale(0.7, r.a)
	}
	for j := range d {
		r := record{make([]float64, d), probe * (1 + float64(j)/100)}
		r.a[j] = probe
		list = append(list, r)
	}
	return leastSquares{data: ended(rel, list, axis(d, 1, 1), axis(d, 1, -1)), budget: dp.Budget{Epsilon: 1, Delta: 0.1},
		ridge: 2, clip: 1}
}

// classes and crowded are far with logistic regression, and with two persons for whom the last
// record
// is one of three lines, all of them alike, in the place of two records.
func classes(rel dp.Relation) leastSquares {
	c := far(rel)
	c.class = true
	return c
}

func crowded() leastSquares {
	c := far(dp.Replace)
	c.crowd = &crowd{Persons: erm.Persons{Rows: 3}}
	for i, list := range c.data {
		last := list[len(list)-1]
		c.data[i] = with(list, last, last)
		for k := range c.data[i] {
			c.crowd.ids[i] = append(c.crowd.ids[i], fmt.Sprint(min(k, len(list)-1)))
		}
	}
	return c
}

// ofLength edits the releases of n sums.
func ofLength(n int, change func(s *fault.Sum)) sabotage {
	return edit(fault.Release, func(s *fault.Sum) {
		if len(s.Terms) == n {
			change(s)
		}
	})
}

func sequenceMechanisms() []mechanism {
	missing := spanned(dp.AddRemove)
	return []mechanism{{
		name: "model-gradients",
		cases: []Case{
			{Name: "A1/squares", Pair: "A1", Layer: WhiteBox, run: far(dp.Replace).spent},
			{Name: "A2/squares", Pair: "A2", Layer: WhiteBox, run: far(dp.AddRemove).spent},
			{Name: "A1/classes", Pair: "A1", Layer: WhiteBox, run: classes(dp.Replace).spent},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, run: crowded().spent},
		},
		controls: []Control{
			{"gradients-relation", "√2 in place of 2 for opposite vectors", "model-gradients/A1/squares", 0,
				one(fault.Release, func(s fault.Sum) fault.Sum { s.Sigma /= math.Sqrt2; return s })},
			{"gradients-clip", "terms of twice the bound", "model-gradients/A2/squares", 0,
				one(fault.Release, func(s fault.Sum) fault.Sum { s.Terms = scaled(s.Terms, 2); return s })},
			{"gradients-shares", "releases whose shares add up to more than all", "model-gradients/A2/squares", 0,
				one(fault.Release, func(s fault.Sum) fault.Sum { s.Sigma *= 0.8; return s })},
			{"gradients-gram", "the Gram matrix of rows without a clip", "model-gradients/A2/squares", 0,
				ofLength(10, func(s *fault.Sum) { s.Terms = scaled(s.Terms, 4) })},
			{"gradients-add-remove", "the noise of add-remove for a replaced record", "model-gradients/A1/classes", 0,
				one(fault.Release, func(s fault.Sum) fault.Sum { s.Sigma /= 2; return s })},
			{"gradients-persons", "lines of a person that weigh 1 each", "model-gradients/A14/persons", 0,
				func(ctx context.Context) context.Context {
					ctx = one(fault.LineWeight, always(1.0))(ctx)
					return one(fault.PersonNorm, func(v [2]float64) [2]float64 { return [2]float64{v[1], v[1]} })(ctx)
				}},
		},
	}, {
		name: "model-mapped",
		cases: []Case{
			{Name: "A1/squares", Pair: "A1", Layer: WhiteBox, Least: CI, run: spanned(dp.Replace).mapped},
			{Name: "A2/squares", Pair: "A2", Layer: WhiteBox, run: missing.mapped},
		},
		controls: []Control{
			{"mapped-gram", "noise of 0.9 times its scale in the Gram matrix", "model-mapped/A2/squares", 0,
				one(fault.SumSigma, func(sigma float64) float64 { return 0.9 * sigma })},
			{"mapped-modulus", "the ridge of the user subtracted as if rows were not mapped", "model-mapped/A2/squares", 0,
				planned(func(p *engine.Params) { p.Ridge -= missing.ridge })},
			{"mapped-clamp", "rows clamped before the map gives them weights, not after", "model-mapped/A2/squares", 0,
				one(release.Data, unclamped)},
		},
	}}
}

// unclamped returns the problem with rows at their bound twice as long, as for the weight 1.
func unclamped(p *erm.Problem) *erm.Problem {
	q := *p
	var rows [][]float64
	var labels []float64
	err := p.Data.Each(func(a []float64, b float64) {
		by := 1.0
		if floats.Norm(a, 2) > 1-1e-9 {
			by = 2
		}
		row := make([]float64, len(a))
		floats.ScaleTo(row, by, a)
		rows, labels = append(rows, row), append(labels, by*b)
	})
	if err == nil {
		q.Data, err = erm.NewData(rows, labels, loss.Bounds{Row: 2, Label: 2})
	}
	if err != nil {
		panic(err)
	}
	return &q
}
