// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/fault"
)

// NewPoint returns the grid and the least noise for points of [−reach, reach]ᵈ that are at most
// apart from one another on neighboring data sets, in the ℓ₂ norm or, where taxicab says so, in the
// ℓ₁ norm, which serves a pure budget only: see docs/theory/release.md#additive.point/1. The error
// wraps dp.ErrCondition where a number leaves the range of float64, and dp.ErrBudget.
func NewPoint(dim int, apart, reach float64, taxicab bool, b dp.Budget) (Output, error) {
	if !(dim > 0 && apart > 1/largest && apart < largest && reach > 1/largest && reach < largest) {
		return Output{}, fmt.Errorf("%w: a sensitivity of %v and points within %v in %d dimensions leave the range of "+
			"float64, want at least one dimension and numbers in [%.3g, %.3g]: rescale the points", dp.ErrCondition,
			apart, reach, dim, 1/largest, largest)
	}
	if err := b.Check(); err != nil {
		return Output{}, err
	}
	if !taxicab {
		return gridOf(dim, math.Sqrt(float64(dim)), apart, reach).For(b)
	}
	if b.Delta > 0 {
		return Output{}, fmt.Errorf("%w: Delta = %v, but noise for an ℓ₁ sensitivity is pure, want 0", dp.ErrBudget,
			b.Delta)
	}
	o := gridOf(dim, float64(dim), apart, reach)
	o.Laplace = o.Sensitivity / b.Epsilon * SafeScale
	return o, nil
}

// ProvesLaplace reports whether S′/Laplace ≤ ε is certain.
func (o Output) ProvesLaplace(b dp.Budget) bool {
	return o.Laplace > 0 && enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Quo(c.Of(o.Sensitivity), c.Of(o.Laplace)), c.Of(b.Epsilon)
	})
}

// Release releases a point of the reach of the grid: g·(round(x/g) + round(ν/g)). It overwrites x.
// The error is about src.
func (o Output) Release(ctx context.Context, x []float64, cert dp.Certificate, src rand.Source) (*dp.Release, error) {
	source, cert := Open(src, cert.With())
	o.add(fault.From(ctx), x, false, source)
	if err := source.Err(); err != nil {
		return nil, err
	}
	for i, v := range x {
		x[i] = v + 0 // no −0
	}
	return &dp.Release{Theta: x, Certificate: cert}, nil
}
