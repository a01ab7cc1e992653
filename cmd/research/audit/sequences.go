// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
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
	total := w.Labels + w.First + w.Residuals + w.Last + w.Hessian + w.Scores + w.Output + w.Gradients
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
	clip   float64 // stated, or 0
	class  bool    // logistic regression in its place
	chosen bool    // with intervals, by minimizers whose clip histograms choose
	crowd  *crowd
}

// sequence returns the fits of c, which have claimed.
func (c leastSquares) sequence(ctx context.Context, e *env) (*sequence, error) {
	n := len(c.data[0])
	s := &sequence{budget: c.budget, options: model.Options{
		Loss: model.Loss{Name: model.Squares}, Relation: relationOf(c.data), Records: n, Clip: c.clip,
	}}
	if c.class {
		s.options.Loss.Name = model.Logistic
	}
	if c.chosen {
		s.options.Intervals = &model.Intervals{}
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
	most := 0.0
	for run := range f.Runs {
		var sums []fault.Sum
		total, at := 0.0, 0
		steps := [2]func(v fault.Sum) fault.Sum{func(v fault.Sum) fault.Sum {
			sums = append(sums, fault.Sum{Terms: slices.Clone(v.Terms), Exponent: v.Exponent, Sigma: v.Sigma})
			return v
		}, func(v fault.Sum) fault.Sum {
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

// counted compares both histograms of a plan that chooses a clip by them on both data sets. Their
// noise must be what their share of μ² allows: the exact ε is that of one Gaussian release with the
// shift √(Σ(distance of the counts/σ)²/share).
func (c leastSquares) counted(ctx context.Context, e *env) (Finding, error) {
	s, err := c.sequence(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(s.cert)
	f.Runs, f.Least = min(e.scarce(len(c.data[0][0].a)), 20), 0.99
	most := 0.0
	for run := range f.Runs {
		var sums [2][]fault.Sum
		for i := range sums {
			s.side = 1 - i
			keep := func(v fault.Sum) fault.Sum {
				sums[i] = append(sums[i], fault.Sum{Terms: slices.Clone(v.Terms), Exponent: v.Exponent, Sigma: v.Sigma})
				return v
			}
			if _, err := s.fit(fault.With(ctx, fault.Release, keep), e.source("white", fmt.Sprint(run))); err != nil {
				return f, err
			}
			if len(sums[i]) != 2 {
				return f, fmt.Errorf("audit: %s: %d histograms, want 2", e.name, len(sums[i]))
			}
		}
		total := 0.0
		for h, one := range sums[0] {
			for j, k := range one.Terms {
				distance := math.Ldexp(float64(k-sums[1][h].Terms[j]), one.Exponent)
				total += math.Pow(distance/min(one.Sigma, sums[1][h].Sigma), 2)
			}
		}
		most = max(most, total)
	}
	shift := math.Sqrt(most / (s.Shares.Labels + s.Shares.Residuals))
	f.Exact, f.Power = dp.Curve(dp.GaussianCurve(shift)).Epsilon(c.budget.Delta), min(shift/s.Mu, 1)
	if shift > s.Mu {
		f.Reason = fmt.Sprintf("both histograms are as private as μ = %.4g, and their share is that of %.4g", shift, s.Mu)
	}
	return f, nil
}

// histograms is a pair of rows that are 0, whose residuals are in the first bin whatever the model,
// and a last record that is in another bin, or not.
func histograms(rel dp.Relation) leastSquares {
	const n, d = 400, 3
	list := make([]record, n)
	for k := range list {
		list[k] = axis(d, 0, 0)
	}
	return leastSquares{data: ended(rel, list, axis(d, 1, 1), axis(d, 0, 0)), budget: dp.Budget{Epsilon: 2, Delta: 0.05},
		chosen: true}
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

// classes is far with logistic regression. crowded makes the records of a pair persons of one line,
// and the last record one of three lines of a person, all of them alike.
func classes(rel dp.Relation) leastSquares {
	c := far(rel)
	c.class = true
	return c
}

func crowded(c leastSquares) leastSquares {
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
	return []mechanism{{
		name: "model-histograms",
		cases: []Case{
			{Name: "A1/counts", Pair: "A1", Layer: WhiteBox, run: histograms(dp.Replace).counted},
			{Name: "A2/counts", Pair: "A2", Layer: WhiteBox, run: histograms(dp.AddRemove).counted},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, run: crowded(histograms(dp.Replace)).counted},
		},
		controls: []Control{
			{"histograms-noise", "half the noise of the histograms that choose a clip", "model-histograms/A2/counts", 0,
				edit(fault.Release, func(s *fault.Sum) { s.Sigma /= 2 })},
			{"histograms-relation", "the noise of add-remove for a replaced record", "model-histograms/A1/counts", 0,
				edit(fault.Release, func(s *fault.Sum) { s.Sigma /= math.Sqrt2 })},
			{"histograms-persons", "lines of a person that weigh 1 each", "model-histograms/A14/persons", 0,
				func(ctx context.Context) context.Context {
					ctx = one(fault.LineWeight, always(1.0))(ctx)
					return one(fault.PersonNorm, func(v [2]float64) [2]float64 { return [2]float64{v[1], v[1]} })(ctx)
				}},
		},
	}, {
		name: "model-gradients",
		cases: []Case{
			{Name: "A1/squares", Pair: "A1", Layer: WhiteBox, run: far(dp.Replace).spent},
			{Name: "A2/squares", Pair: "A2", Layer: WhiteBox, run: far(dp.AddRemove).spent},
			{Name: "A1/classes", Pair: "A1", Layer: WhiteBox, run: classes(dp.Replace).spent},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, run: crowded(far(dp.Replace)).spent},
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
			{"gradients-add-remove", "the noise of add-remove for a replaced record", "model-gradients/A1/squares", 0,
				one(fault.Release, func(s fault.Sum) fault.Sum { s.Sigma /= 2; return s })},
			{"gradients-persons", "lines of a person that weigh 1 each", "model-gradients/A14/persons", 0,
				func(ctx context.Context) context.Context {
					ctx = one(fault.LineWeight, always(1.0))(ctx)
					return one(fault.PersonNorm, func(v [2]float64) [2]float64 { return [2]float64{v[1], v[1]} })(ctx)
				}},
		},
	}}
}
