// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// scored scores a public model on the records of a problem, as two classes by the sign of the
// label, and on 2000 more that are always there, as noise alone would hide the few of these tests.
// If twice is true, every record is the two lines of a person. If the problem is by person already,
// there are no more persons, and nothing but right predictions is counted.
func scored(p *erm.Problem, b dp.Budget, rel dp.Relation, twice bool) (any, release, error) {
	persons, given := p.Data.Persons()
	n, d := p.Data.Dims()
	n += 2000
	if given {
		n = p.Records
	}
	public, err := erm.NewData(slices.Repeat([][]float64{make([]float64, d)}, 10), make([]float64, 10), p.Data.Bounds())
	if given {
		public, err = doubled(public, persons)
	} else if twice {
		public, err = doubled(public, erm.Persons{Rows: 3})
	}
	if err != nil {
		return nil, nil, err
	}
	m, err := model.Fit(context.Background(), &table.Data{Records: public}, dp.Budget{Epsilon: 1, Delta: 1e-6},
		&model.Options{Loss: model.Loss{Name: model.Logistic}, Source: noise.Reproducible(1)})
	if err != nil {
		return nil, nil, err
	}
	o := score.Options{Relation: rel, AccuracyOnly: given}
	if rel == dp.Replace {
		o.Records = n
	}
	plan, err := score.NewPlan(m, b, &o)
	if err != nil {
		return nil, nil, err
	}
	return plan, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
		all, err := p.Data, error(nil)
		if !given {
			all, err = padded(p.Data, n)
		}
		if err == nil && twice {
			all, err = doubled(all, erm.Persons{Rows: 3})
		}
		if err != nil {
			return nil, err
		}
		set, err := score.Read(ctx, m, &table.Data{Records: all}, nil)
		if err != nil {
			return nil, err
		}
		o := o
		o.Source = src
		plan, err := score.NewPlan(m, b, &o)
		if err != nil {
			return nil, err
		}
		s, err := plan.Score(ctx, set)
		if err != nil {
			return nil, err
		}
		rel := &dp.Release{Certificate: s.Certificate}
		for _, k := range s.Blocks {
			rel.Theta = append(rel.Theta, k.Values...)
		}
		return rel, nil
	}, nil
}

// doubled makes every record the two lines of a person, of which the second has the other label.
func doubled(data *erm.Data, p erm.Persons) (*erm.Data, error) {
	n, d := data.Dims()
	b, err := erm.NewBuilder(d, true, data.Bounds())
	if err != nil {
		return nil, err
	}
	for i := range n {
		for _, sign := range []float64{1, -1} {
			b.Add(data.Row(i), sign*data.Label(i))
			b.ID(fmt.Sprint(i))
		}
	}
	return b.ByPerson(context.Background(), p)
}
