// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"io"
	"math"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/table"
)

// dataSet is one data set in both forms. in is nil unless the published procedure needs it; anchor
// is nil if there is none.
type dataSet struct {
	data   *erm.Data
	in     *lasso.Instance
	anchor []float64
	error  float64 // ‖anchor − θ_true‖₂ where the truth is known
}

// dataSource gives the data of a cell, one file or generated data by size, and what cells share.
type dataSource struct {
	c           *scalingConfig
	file        *dataSet
	made        sweep.Memo[sweep.Sizes, *dataSet]
	plans       sweep.Memo[planKey, *qop.Plan]
	tilts       sweep.Memo[tiltKey, *qop.Plan]
	minima      sweep.Memo[cellKey, []float64]
	experiments sweep.Memo[publishedKey, *lasso.Experiment]
}

// planKey, tiltKey and cellKey name what calibrations of qop and the minimizer at x = κ depend on.
type planKey struct {
	n, d         int
	epsilon, eta float64
}

type tiltKey struct {
	n, d          int
	epsilon, clip float64
}

type cellKey struct {
	n, d     int
	x, noise float64
}

// publishedKey names what the published constants depend on.
type publishedKey struct {
	in      *lasso.Instance
	epsilon float64
}

// open prepares the data and completes the parameters that identify it.
func (c *scalingConfig) open() (*dataSource, error) {
	s := &dataSource{c: c}
	if c.data == "" {
		return s, nil
	}
	bounds := loss.Bounds{Row: c.BoundRow, Label: c.BoundLabel}
	if c.Mode == paper {
		// The published procedure has no bounds: these force nothing inside, and claim nothing.
		const unbounded = 1e150
		if bounds.Row > 0 {
			c.Xi = bounds.Row
		} else {
			bounds.Row = unbounded
		}
		if bounds.Label == 0 {
			bounds.Label = unbounded
		}
	} else {
		c.Xi = 0
	}
	format := table.Numeric{Bounds: bounds, Label: c.LabelColumn}
	data, info, err := sweep.ReadFile("data", c.data, func(r io.Reader) (*erm.Data, error) { return format.ReadCSV(r) })
	if err != nil {
		return nil, err
	}
	c.File = info
	c.N, c.D = data.Dims()
	s.file, c.Reads = &dataSet{data: data}, []string{c.data, c.anchor}
	if c.anchor != "" {
		vector := func(r io.Reader) ([]float64, error) { return lasso.ReadVector(r, c.D) }
		if s.file.anchor, c.Anchor, err = sweep.ReadFile("anchor", c.anchor, vector); err != nil {
			return nil, err
		}
	}
	if c.Mode == paper {
		s.file.in = instance(data, s.file.anchor, c.Xi)
	}
	return s, nil
}

// instance copies data into the form of the published procedure. Without an anchor it gets zero,
// which only qop would use.
func instance(data *erm.Data, anchor []float64, xi float64) *lasso.Instance {
	n, d := data.Dims()
	in := &lasso.Instance{X: mat.NewDense(n, d, nil), Y: make([]float64, n), Anchor: anchor, Xi: xi}
	for i := range n {
		in.X.SetRow(i, data.Row(i))
		in.Y[i] = data.Label(i)
	}
	if anchor == nil {
		in.Anchor = make([]float64, d)
	}
	return in
}

// at returns the data of the cells with parameters p.
func (s *dataSource) at(p scalingParams) (*dataSet, error) {
	if s.file != nil {
		return s.file, nil
	}
	size := sweep.Sizes{N: p.N, D: p.D, LabelNoise: p.LabelNoise}
	return s.made.Get(size, func() (*dataSet, error) { return generated(p, s.c.Seed) })
}

// generated draws data of the published form. They are synthetic and need no secrecy: without a
// seed they are those of seed 0, with which a resumed run goes on. The stream of the rows does not
// depend on n: a larger data set continues a smaller one, with the same planted parameter and
// anchor.
//
// An anchor with an error above S(√d+3), fewer than one in ten thousand, is drawn again, so that
// this bound holds for all. Outside of -mode paper the planted parameter is a common minimizer of
// all records: a row whose label would be clamped to the declared bound 5ξ is shortened.
func generated(p scalingParams, seed *uint64) (*dataSet, error) {
	var key uint64
	if seed != nil {
		key = *seed
	}
	spec := lasso.Spec{N: 1, D: p.D, Xi: p.Xi, AnchorNoise: p.AnchorNoise}
	stream := []string{"scaling", "planted", strconv.Itoa(p.D)}
	planted, err := lasso.Generate(spec, noise.Reproducible(key, stream...))
	for err == nil && floats.Distance(planted.Anchor, planted.Truth, 2) > p.generatedEta() {
		stream = append(stream, "again")
		planted, err = lasso.Generate(spec, noise.Reproducible(key, stream...))
	}
	if err != nil {
		return nil, err
	}
	spec.N = p.N
	in, err := lasso.Generate(spec, noise.Reproducible(key, "scaling", "rows", strconv.Itoa(p.D)))
	if err != nil {
		return nil, err
	}
	in.Truth, in.Anchor = planted.Truth, planted.Anchor
	bound := 5 * p.Xi
	extra := make([]float64, len(in.Y)) // the same draws for every size of the noise
	noise.Normal(extra, p.LabelNoise, noise.Reproducible(key, "scaling", "labels", strconv.Itoa(p.D)))
	for i := range in.Y {
		row := in.X.RawRowView(i)
		if in.Y[i] = floats.Dot(row, in.Truth); p.Mode != paper {
			in.Y[i] = shorten(row, in.Y[i], bound)
		}
		in.Y[i] += extra[i]
	}
	data, err := in.Data(bound)
	if err != nil {
		return nil, err
	}
	return &dataSet{data: data, in: in, anchor: in.Anchor, error: floats.Distance(in.Anchor, in.Truth, 2)}, nil
}

// shorten scales a row, and returns its label with it, so that the label is within the bound and
// the same parameter still predicts it.
func shorten(row []float64, label, bound float64) float64 {
	if size := math.Abs(label); size > bound {
		floats.Scale(bound/size, row)
		return math.Copysign(bound, label)
	}
	return label
}
