// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
)

// intervals is a fit of package model with standard errors on a pair of persons. It recovers the
// noise of both sums, of curvatures and of gradients that belong to one person.
type intervals struct{ pair *linear }

// sums returns the two sums at θ by their definitions, as upper triangles with entries off the
// diagonal times √2.
func (c intervals) sums(i int, theta []float64) (out []float64) {
	d := len(theta)
	curvature, scores := make([]float64, d*d), make([]float64, d*d)
	outer := func(dst []float64, w float64, a []float64) {
		for j := range d {
			floats.AddScaled(dst[j*d:(j+1)*d], w*a[j], a)
		}
	}
	kept, weights, owners := c.pair.crowd.counted(i, c.pair.data[i])
	gradients := map[string][]float64{} // of persons
	for k, r := range kept {
		g, ok := gradients[owners[k]]
		if !ok {
			g = make([]float64, d)
			gradients[owners[k]] = g
		}
		p := 1 / (1 + math.Exp(r.b*floats.Dot(r.a, theta)))
		floats.AddScaled(g, -weights[k]*r.b*p, r.a)
		outer(curvature, weights[k]*p*(1-p), r.a)
	}
	for _, g := range gradients {
		outer(scores, 1, g)
	}
	for _, full := range [][]float64{curvature, scores} {
		for j := range d {
			for k := j; k < d; k++ {
				out = append(out, full[j*d+k]*scaleOf(j, k))
			}
		}
	}
	return out
}

func scaleOf(j, k int) float64 {
	if j == k {
		return 1
	}
	return math.Sqrt2
}

func (c intervals) white(ctx context.Context, e *env) (Finding, error) {
	var data [2]*erm.Data
	for i := range data {
		p, err := c.pair.crowd.problem(ctx, i, c.pair.data[i], unit, loss.Logistic{}, free)
		if err != nil {
			return Finding{}, err
		}
		data[i] = p.Data
	}
	s := &sequence{data: data, budget: c.pair.budget, options: model.Options{
		Loss: model.Loss{Name: model.Logistic}, Intervals: &model.Intervals{}, Relation: relationOf(c.pair.data), Records: 13,
	}}
	if err := s.claim(ctx, e); err != nil {
		return Finding{}, err
	}
	if s.cert.Rows != c.pair.crowd.Rows {
		return Finding{}, &falseClaim{s.cert, c.pair.budget}
	}
	runs := e.few(30)
	if s.two > 1 { // plans for a replaced person take 20 ms
		runs = min(runs, 1000)
	}
	return recovered(ctx, e, s.cert, runs, func(ctx context.Context, src rand.Source) ([]float64, error) {
		m, err := s.fit(ctx, src)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := m.Save(&text); err != nil {
			return nil, err
		}
		var file struct {
			Moments struct{ Hessian, Scores []float64 }
		}
		if err := json.Unmarshal(text.Bytes(), &file); err != nil {
			return nil, err
		}
		theta := m.Theta()
		z := append(file.Moments.Hessian, file.Moments.Scores...)
		// β = ¼, L² = 1
		tau := [2]float64{s.pair / 4 / (math.Sqrt(s.Shares.Hessian) * s.Mu), s.pair / (math.Sqrt(s.Shares.Scores) * s.Mu)}
		exact, at := c.sums(s.side, theta), 0
		for b := range tau {
			for j := range theta {
				for k := j; k < len(theta); k++ {
					z[at] = (z[at]*scaleOf(j, k) - exact[at]) / tau[b]
					at++
				}
			}
		}
		return z, nil
	})
}

func intervalMechanisms() []mechanism {
	first, opposite := opposed(4)
	of := func(other []record) intervals { // at a large budget errors of the sums exceed the noise
		return intervals{withBudget(persons(erm.Persons{Rows: 4}, 3, first, other), 8, 0.1)}
	}
	return []mechanism{{
		name: "model-intervals",
		cases: []Case{
			{Name: "A14/person missing", Pair: "A14", Layer: WhiteBox, run: of(nil).white},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, Least: CI, run: of(opposite).white},
		},
		controls: []Control{{"person-norm", "gradients of a person added up, each clamped by itself",
			"model-intervals/A14/person missing", 300, func(ctx context.Context) context.Context {
				ctx = one(fault.LineWeight, always(1.0))(ctx)
				return one(fault.PersonNorm, func(v [2]float64) [2]float64 { return [2]float64{v[1], v[1]} })(ctx)
			}}},
	}}
}
