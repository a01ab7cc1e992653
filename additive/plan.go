// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package additive

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/release"
)

// Plan is calibrated noise for points and its guarantee. It follows from public quantities alone,
// may be published, and cannot be changed. It serves any number of releases, also concurrent ones;
// each of them spends the budget once. Make one by [Mechanism.Plan].
type Plan struct {
	m    Mechanism
	out  release.Output
	cert dp.Certificate
}

var _ dp.Plan = (*Plan)(nil)

// made reports whether a calibration made the plan.
func (pl *Plan) made() bool { return pl != nil && pl.cert.Theorem != "" }

// Release adds noise to the point x, clamped to the Radius:
//
//	θ = g·(round(x/g) + round(ν/g))
//
// src feeds the noise; nil means a secure source, anything else adds the assumption
// dp.CallerSource. Equal sources give equal results. Each call spends the budget once. The error is
// about the length of x or about src, or it is ctx.Err(): no value of x is an error. x is not
// changed.
func (pl *Plan) Release(ctx context.Context, x []float64, src rand.Source) (*dp.Release, error) {
	if !pl.made() {
		return nil, fmt.Errorf("%w: this plan is nil or empty, want one from Mechanism.Plan", ErrMechanism)
	}
	if len(x) != pl.m.Dim {
		return nil, fmt.Errorf("%w: the point has %d coordinates, want Dim = %d", ErrMechanism, len(x), pl.m.Dim)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	point := make([]float64, len(x))
	for i, v := range x {
		if v == v { // NaN becomes 0
			point[i] = min(max(v, -pl.m.Radius), pl.m.Radius)
		}
	}
	return pl.out.Release(ctx, point, pl.cert, src)
}

// Certificate returns the certificate of one release from the secure source.
func (pl *Plan) Certificate() dp.Certificate { return cmp.Or(pl, new(Plan)).cert.With() }

// Profile returns the privacy profile of one release: that of Gaussian noise, or of a pure budget.
func (pl *Plan) Profile() dp.Profile {
	switch {
	case !pl.made():
		return dp.Unknown()
	case pl.cert.Delta == 0:
		return pl.cert.Budget.Profile()
	}
	return dp.GaussianProfile(pl.out.Shift())
}

// Params returns a copy of the numbers of the plan.
func (pl *Plan) Params() Params {
	if !pl.made() {
		return Params{}
	}
	o := pl.out
	return Params{
		Theorem: pl.cert.Theorem, Relation: pl.cert.Relation, Budget: pl.cert.Budget,
		Rows: pl.m.Rows, Dim: pl.m.Dim, Radius: pl.m.Radius, L1: pl.m.L1, L2: pl.m.L2,
		Grid: o.Grid(), Sensitivity: o.Sensitivity, OutputSigma: o.Sigma, OutputRate: o.Rate, OutputLaplace: o.Laplace,
	}
}

// Params are the numbers of a plan. They are public.
type Params struct {
	Theorem  string      `json:"theorem"`
	Relation dp.Relation `json:"relation"`
	Budget   dp.Budget   `json:"budget"`
	Rows     int         `json:"rows,omitempty"` // the most lines of a person; 0 if a unit is one record
	Dim      int         `json:"dim"`
	Radius   float64     `json:"radius"`       // of the coordinates
	L1       float64     `json:"l1,omitempty"` // as declared
	L2       float64     `json:"l2,omitempty"` // as declared

	Grid          float64 `json:"grid"`                    // g, a power of two
	Sensitivity   float64 `json:"sensitivity"`             // S′, with the rounding to the grid
	OutputSigma   float64 `json:"outputSigma,omitempty"`   // standard deviation of a coordinate; 0 unless Gaussian
	OutputRate    float64 `json:"outputRate,omitempty"`    // a in the density ∝ exp(−a‖ν‖₂); 0 for other noise
	OutputLaplace float64 `json:"outputLaplace,omitempty"` // c in the density ∝ exp(−‖ν‖₁/c); 0 for other noise
}

// String describes the plan in prose that may be published.
func (pl *Plan) String() string {
	if !pl.made() {
		return "additive: no plan: make one by Mechanism.Plan"
	}
	p := pl.Params()
	var law string
	switch {
	case p.OutputLaplace > 0:
		law = fmt.Sprintf("noise of density exp(-|v|/%.4g)", p.OutputLaplace)
	case p.OutputRate > 0:
		law = fmt.Sprintf("noise of density exp(-%.4g |v|), v the vector of them,", p.OutputRate)
	default:
		law = fmt.Sprintf("Gaussian noise of standard deviation %.4g", p.OutputSigma)
	}
	kind, most := "L1", p.L1
	if p.L2 > 0 {
		kind, most = "L2", p.L2
	}
	return fmt.Sprintf("Points with %d coordinates within %.4g, of which those of neighbors differ by at most %.4g in "+
		"the %s norm, get %s in every coordinate.\n%v", p.Dim, p.Radius, most, kind, law, pl.cert)
}
