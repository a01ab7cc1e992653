// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// rough takes the place of the minimizers of a simulation: with many parameters, each would take as
// long as the fit that it is to foresee.
type rough struct {
	solution []float64
	hessian  *mat.SymDense
	lossOnly bool // leave out the sums for standard errors
}

func (r *rough) plain() bool { return r != nil && r.lossOnly }

// newRough solves the problem of made-up rows without noise.
func newRough(data *table.Data, p Params) *rough {
	l, _ := p.Loss.of(data.Records.Bounds(), 2).(loss.Linear)
	r := &rough{solution: make([]float64, p.Dim)}
	steps := roughSteps
	if p.Loss.Name == Squares {
		steps = 1
	}
	for range steps {
		r.hessian = mat.NewSymDense(p.Dim, nil)
		slope := make([]float64, p.Dim)
		data.Records.Each(func(a []float64, b float64) { // of records in memory: no error
			_, d1, d2 := l.Scalar(floats.Dot(a, r.solution), b, 0)
			floats.AddScaled(slope, d1, a)
			r.hessian.SymRankOne(r.hessian, d2, mat.NewVecDense(p.Dim, a))
		})
		r.step(slope, 1e-6*mat.Trace(r.hessian))
	}
	return r
}

// step subtracts (H + ΔI)⁻¹v from the solution.
func (r *rough) step(v []float64, ridge float64) {
	h := mat.NewSymDense(len(v), nil)
	h.CopySym(r.hessian)
	for j := range v {
		h.SetSym(j, j, h.At(j, j)+ridge)
	}
	var c mat.Cholesky
	if x := mat.NewVecDense(len(v), nil); c.Factorize(h) && c.SolveVecTo(x, mat.NewVecDense(len(v), v)) == nil {
		floats.Sub(r.solution, x.RawVector().Data)
	}
}

// minimize releases the minimizer of a plan, or in a simulation one Newton step from the solution:
//
//	θ − (H + ΔI)⁻¹(Δθ + b) + noise
func (pl *Plan) minimize(
	ctx context.Context, plan *engine.Plan, p *erm.Problem, src rand.Source,
) (*dp.Release, error) {
	if pl.rough == nil {
		return plan.Fit(ctx, p, src)
	}
	q := plan.Params()
	r := rough{solution: slices.Clone(pl.rough.solution), hessian: pl.rough.hessian}
	v := make([]float64, len(r.solution))
	noise.Normal(v, q.Sigma, src)
	floats.AddScaled(v, q.Ridge, r.solution)
	r.step(v, q.Ridge)
	noise.Normal(v, q.OutputSigma, src)
	floats.Add(r.solution, v)
	return &dp.Release{Theta: r.solution}, nil
}
