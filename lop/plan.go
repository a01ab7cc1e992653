// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"context"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	engine "github.com/privopt/privopt/internal/lop"
)

// Plan is a calibrated linear or output perturbation: its noise and its guarantee. It follows from
// public quantities alone, may be published, and cannot be changed. It serves any number of fits,
// also concurrent ones; each fit spends the budget once. Make one by [Mechanism.Plan] or
// [Mechanism.Calibrate].
type Plan engine.Plan

var _ dp.Plan = (*Plan)(nil)

func planned(pl *engine.Plan, err error) (*Plan, error) { return (*Plan)(pl), err }

func (pl *Plan) plan() *engine.Plan { return (*engine.Plan)(pl) }

// Fit draws the noise of the plan, solves p and releases its minimizer:
//
//	b ~ the plan's law
//	θ̂ ≈ argmin F(θ) + (Δ/2)‖θ−x₀‖² + ⟨b,θ⟩ + r(θ) over C,   ‖θ̂ − argmin‖ ≤ R
//	θ = P_C(g·(round(θ̂/g) + round(ν/g)))
//
// p must have the dimension of the plan, a loss, bounds, regularizer and set whose constants are no
// worse, and at most MaxRecords records. A plan that clips clips the loss of p.
//
// src feeds the noise; nil means a secure source, anything else adds the assumption
// dp.CallerSource. Equal sources give equal results. Each call spends the budget once. The error is
// about public facts, or is ctx.Err(): no release is withheld for a reason that depends on records.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	return pl.plan().Fit(ctx, p, src)
}

// Params returns a copy of the numbers of the plan.
func (pl *Plan) Params() Params { return Params(pl.plan().Params()) }

// Certificate returns the certificate of one release from the secure source.
func (pl *Plan) Certificate() dp.Certificate { return pl.plan().Certificate() }

// Profile returns the privacy profile of one release, output noise included, for
// composition with others: at each ε the least δ that is proved there.
func (pl *Plan) Profile() dp.Profile { return pl.plan().Profile() }

// String describes the plan in prose that may be published.
func (pl *Plan) String() string { return pl.plan().String() }

// Params are the numbers of a calibrated plan. They are public. With the random bits and the
// records, they determine a release.
type Params struct {
	Theorem    string      `json:"theorem"`
	Relation   dp.Relation `json:"relation"`
	Budget     dp.Budget   `json:"budget"` // of the whole release
	Dim        int         `json:"dim"`
	Records    int         `json:"records,omitempty"` // n under Replace, else the declared number
	Rows       int         `json:"rows,omitempty"`    // the most lines of a person; 0 if a unit is one record
	MaxRecords int64       `json:"maxRecords"`        // the most records, or persons, of a data set
	Lipschitz  float64     `json:"lipschitz"`         // L of one record's loss
	Smoothness float64     `json:"smoothness"`        // β of one record's loss
	Modulus    float64     `json:"modulus"`           // μ_r of the regularizer
	Radius     float64     `json:"radius,omitempty"`  // B, for which the automatic Ridge is best
	Clip       float64     `json:"clip,omitempty"`    // threshold of the gradients of one record

	// The perturbation ⟨b,θ⟩ + (Δ/2)‖θ‖².
	Ridge     float64 `json:"ridge"`           // Δ
	Sigma     float64 `json:"sigma,omitempty"` // standard deviation σ of every coordinate of b; 0 unless Gaussian
	Rate      float64 `json:"rate,omitempty"`  // a in the density ∝ exp(−a‖b‖₂) of b; 0 unless pure
	Curvature float64 `json:"c,omitempty"`     // c, the most that curvature costs of ε
	Shift     float64 `json:"s,omitempty"`     // s = G/σ; Sensitivity/OutputSigma for [Output]; 0 unless Gaussian

	// The covered release: θ̂ within Cover of the minimizer, rounded to multiples of
	// Grid, plus integer noise.
	Cover       float64 `json:"cover"`                 // R
	Grid        float64 `json:"grid"`                  // g, a power of two
	Sensitivity float64 `json:"sensitivity"`           // upper bound on the differences that the output noise hides
	OutputSigma float64 `json:"outputSigma,omitempty"` // standard deviation of the output noise; 0 if pure
	OutputRate  float64 `json:"outputRate,omitempty"`  // rate of the output noise; 0 unless pure

	// ExcessBound is a bound on the expected excess risk against the best θ₀ with ‖θ₀ − x₀‖₂ ≤
	// Radius, see [Mechanism.Plan] and [Output.Plan]. It is +Inf where Radius is not known.
	ExcessBound float64 `json:"-"`
}
