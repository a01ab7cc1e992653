// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// sequences are the fits of package model that consist of several releases.
func sequences(rel dp.Relation) []mechanism {
	var list []mechanism
	for _, c := range []struct {
		name string
		o    model.Options
	}{
		{"model.squares", model.Options{Loss: model.Loss{Name: model.Squares}, Penalty: model.Penalty{Ridge: 1e-6}}},
		{"model.squares with a lasso", model.Options{Loss: model.Loss{Name: model.Squares},
			Penalty: model.Penalty{Lasso: 1e-4}}},
		{"model.squares with intervals", model.Options{Loss: model.Loss{Name: model.Squares}, Clip: 0.5,
			Intervals: &model.Intervals{}}},
		{"model.logistic with intervals", model.Options{Loss: model.Loss{Name: model.Logistic},
			Intervals: &model.Intervals{}}},
		{"model.squares by gradients", model.Options{Loss: model.Loss{Name: model.Squares}}},
		{"model.logistic by gradients", model.Options{Loss: model.Loss{Name: model.Logistic}}},
	} {
		c.o.Relation = rel
		list = append(list, mechanism{fmt.Sprintf("%s, %v", c.name, rel), rel, false, false, false,
			func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
				return fitted(p, b, c.o)
			}})
	}
	return list
}

// fitted opens model.Fit on the data of p and 2,000 public records of zeros, of which small tables
// have too few. Its plan is that for a schema of as many columns.
func fitted(p *erm.Problem, b dp.Budget, o model.Options) (any, release, error) {
	n, d := p.Data.Dims()
	o.Records = n + 2000
	lo, hi := -1.0, 1.0
	s := &table.Schema{Version: 1, Records: o.Records, Label: table.Label{Column: "y", Min: &lo, Max: &hi}}
	if o.Loss.Name == model.Logistic {
		s.Label = table.Label{Column: "y", Positive: []string{"1"}, Negative: []string{"-1"}}
	}
	for j := range d {
		s.Columns = append(s.Columns, table.Column{Name: fmt.Sprint("x", j), Min: &lo, Max: &hi})
	}
	if persons, ok := p.Data.Persons(); ok {
		s.Person, s.Rows, o.Records = "who", persons.Rows, n
	}
	plan, err := model.NewPlan(s, b, &o)
	if err != nil {
		return nil, nil, err
	}
	return plan, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
		data, err := p.Data, error(nil)
		if _, ok := data.Persons(); !ok {
			if data, err = padded(data, o.Records); err != nil {
				return nil, err
			}
		}
		o := o
		o.Source = src
		m, err := model.Fit(ctx, &table.Data{Records: data}, b, &o)
		if err != nil {
			return nil, err
		}
		return &dp.Release{Theta: m.Theta(), Certificate: m.Certificate()}, nil
	}, nil
}

// padded returns data of n records, of which the last ones are zeros.
func padded(data *erm.Data, n int) (*erm.Data, error) {
	_, d := data.Dims()
	rows, labels := make([][]float64, 0, n), make([]float64, n)
	err := data.Each(func(a []float64, label float64) {
		labels[len(rows)] = label
		rows = append(rows, slices.Clone(a))
	})
	for len(rows) < n {
		rows = append(rows, make([]float64, d))
	}
	if err != nil {
		return nil, err
	}
	return erm.NewData(rows, labels, data.Bounds())
}
