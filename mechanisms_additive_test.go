// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
)

// points are the mechanisms of package additive, for the sum of the rows of a problem: Gaussian
// noise, and both kinds of pure noise.
func points(rel dp.Relation) (list []mechanism) {
	for _, c := range []struct {
		name      string
		pure, one bool
	}{{"additive", false, false}, {"additive, pure", true, false}, {"additive of L1, pure", true, true}} {
		list = append(list, mechanism{fmt.Sprintf("%s, %v", c.name, rel), rel, c.pure, true, true,
			func(p *erm.Problem, b dp.Budget, trace tracing) (any, release, error) {
				if c.pure {
					b.Delta = 0
				}
				return summed(p, b, rel, c.one, trace)
			}})
	}
	return list
}

// summed releases the sum of the rows of a problem, those of a person with their weights.
func summed(p *erm.Problem, b dp.Budget, rel dp.Relation, one bool, trace tracing) (any, release, error) {
	const most = 2100 // records that occur in these tests
	_, d := p.Data.Dims()
	bound := p.Data.Bounds().Row
	// 2·bound is what replacing needs. Under add-remove TestReachable wants noise above the sums.
	far := 2 * bound
	far += most * most * bound * math.Sqrt(float64(d)) * 0x1p-51 // the rounding of the sum
	m := additive.Mechanism{Relation: rel, Dim: d, Radius: most * bound, L2: far}
	if one {
		m.L1, m.L2 = far*math.Sqrt(float64(d)), 0
	}
	if people, ok := p.Data.Persons(); ok {
		m.Rows, m.Person = people.Rows, people.Column
	}
	plan, err := m.Plan(b)
	if err != nil {
		return nil, nil, err
	}
	return plan, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
		sum := make([]float64, d)
		add := func(dst []float64, w float64, a []float64, _ float64) { floats.AddScaled(dst, w, a) }
		err := p.Data.EachPerson(ctx, d, bound, add, func(v []float64) { floats.Add(sum, v) })
		if err != nil {
			return nil, err
		}
		if trace != nil {
			trace(erm.Trace{Theta: sum})
		}
		return plan.Release(ctx, sum, src)
	}, nil
}
