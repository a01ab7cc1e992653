// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/splitting"
)

// penalized returns the minimizer of ½(θ−θ̂)′Q(θ−θ̂) plus the penalty over the set, where Q is the
// estimated Σaa′. For squares that is the penalized problem itself, with θ̂ in the place of the
// solution without penalty. It is a function of outputs.
func (f *gradientFit) penalized(p *erm.Problem, theta []float64) ([]float64, error) {
	if p.Reg == nil && p.Set == nil {
		return theta, nil
	}
	unit := f.n * f.row * f.row
	q, lin := mat.NewSymDense(f.d, nil), mat.NewVecDense(f.d, nil)
	mean := make([]float64, f.d) // of a row
	j := 0
	for c := range mean {
		if mean[c] = f.entry; c != f.icept {
			mean[c] = f.k[j]
			i := 0
			for e := range c + 1 {
				if e != f.icept {
					q.SetSym(e, c, unit*f.moments.At(i, j))
					i++
				}
			}
			j++
		}
	}
	q.SymRankOne(q, unit, mat.NewVecDense(f.d, mean))
	least := 1e-9 * mat.Trace(q) / float64(f.d)
	for c := range mean {
		q.SetSym(c, c, q.At(c, c)+least)
	}
	lin.MulVec(q, mat.NewVecDense(f.d, theta))
	quadratic, err := splitting.NewQuadratic(q, lin.RawVector().Data, 0)
	if err != nil {
		return nil, err
	}
	problem := splitting.Problem{F: quadratic, G: p.Reg}
	start := append([]float64{}, theta...)
	if p.Set != nil {
		problem.H = p.Set
		p.Set.Prox(start, theta, 1)
	}
	out, err := splitting.Minimize(f.ctx, problem, start, nil)
	if err != nil {
		return nil, prefix.Errorf("the penalized problem: %w", err)
	}
	if p.Set != nil { // rounding may have left it
		p.Set.Prox(out.X, out.X, 1)
	}
	return out.X, nil
}

// secondMoments sets the estimated second moments of the centered rows.
func (f *gradientFit) secondMoments(s *spectrum, radius float64) {
	f.moments = mat.NewSymDense(f.p, nil)
	v := make([]float64, f.p)
	for k, m := range s.mean {
		mat.Col(v, k, &s.vectors)
		floats.Div(v, f.factors)
		f.moments.SymRankOne(f.moments, m*radius*radius, mat.NewVecDense(f.p, v))
	}
}
