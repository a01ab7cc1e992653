// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/prox"
)

// Params are the numbers of a calibrated [Plan]. All are public.
type Params struct {
	Theorem    string      `json:"theorem"`
	Budget     dp.Budget   `json:"budget"` // asked for
	Relation   dp.Relation `json:"relation"`
	Dim        int         `json:"dim"`        // d
	Records    int         `json:"records"`    // n, or under dp.AddRemove the declared n₀
	Radius     float64     `json:"radius"`     // M
	Smoothness float64     `json:"smoothness"` // β of the loss; 0 if unknown, null as JSON if +Inf
	Clip       float64     `json:"clip"`       // L, to which every gradient is clipped
	Batch      float64     `json:"batch"`      // qn, the expected size of a batch, by which sums are divided
	// ExcessBound is on the expected excess population loss over every w ∈ W with ‖w − w₀‖ ≤ M, in
	// mean form; +Inf where nothing is proved, null as JSON.
	ExcessBound float64 `json:"excessBound"`

	Sampler  dp.Sampler `json:"sampler,omitzero"`
	Steps    int        `json:"steps,omitzero"`    // T
	StepSize float64    `json:"stepSize,omitzero"` // η
	Noise    float64    `json:"noise,omitzero"`    // z
	Sigma    float64    `json:"sigma,omitzero"`    // zL/(qn), noise on a mean gradient, per coordinate
	// Grid is g: rounded gradients and their noise are multiples of it. Threshold is the norm to
	// which a gradient is clipped before it is rounded, so that its norm is at most L afterwards.
	Grid      float64 `json:"grid,omitzero"`
	Threshold float64 `json:"threshold,omitzero"`
	Smoothing float64 `json:"smoothing,omitzero"` // β of the envelope, 0 without one
	Momentum  float64 `json:"momentum,omitzero"`
	Last      bool    `json:"last,omitzero"` // the release is the last iterate, not the average
}

// newParams returns the numbers that do not depend on batches and steps.
func newParams(theorem string, q setting, clip float64) Params {
	smoothness := q.OnSet.Smoothness
	if math.IsNaN(smoothness) {
		smoothness = 0
	}
	return Params{
		Theorem: theorem, Budget: q.budget, Relation: q.rel, Dim: q.Dim, Records: q.Records, Radius: q.m,
		Smoothness: smoothness, Clip: clip, Batch: 1, ExcessBound: math.Inf(1),
	}
}

// MarshalJSON writes the numbers under stable names.
func (p Params) MarshalJSON() ([]byte, error) {
	type plain Params // without methods
	finite := func(v float64) *float64 {
		if math.IsInf(v, 1) {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		plain
		Smoothness  *float64 `json:"smoothness"`
		ExcessBound *float64 `json:"excessBound"`
	}{plain(p), finite(p.Smoothness), finite(p.ExcessBound)})
}

// Plan is a calibrated mechanism. It is immutable and safe for concurrent use.
type Plan struct {
	params  Params
	cert    dp.Certificate
	profile dp.Profile
	trace   func(erm.Trace)
}

var _ dp.Plan = (*Plan)(nil)

func (pl *Plan) empty() bool { return pl == nil || pl.params.Theorem == "" }

// Params returns a copy of the numbers of the plan, the zero value for an empty one.
func (pl *Plan) Params() Params { return cmp.Or(pl, new(Plan)).params }

// Certificate returns the cost of one release, the zero value for an empty plan.
func (pl *Plan) Certificate() dp.Certificate { return cmp.Or(pl, new(Plan)).cert.With() }

// Profile returns δ(ε) of one release: that of all noisy sums, by the accountant.
func (pl *Plan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	return pl.profile
}

// String describes the plan in prose.
func (pl *Plan) String() string {
	if pl.empty() {
		return "an empty plan of stochastic gradients"
	}
	p := pl.params
	what, end := "every record's gradient", "the average of the iterates"
	if p.Smoothing > 0 {
		what = fmt.Sprintf("the gradient of every record's Moreau envelope of smoothness %.6g", p.Smoothing)
	}
	if p.Last {
		end = "the last iterate"
	}
	return fmt.Sprintf("Noisy SGD: %d steps of length %.6g with momentum %.3g over %v; %s is clipped to norm %.6g and "+
		"rounded to multiples of %.6g; the sum of a batch gets Gaussian noise of standard deviation %.6g in each of %d "+
		"coordinates and is divided by %.6g; the release is %s.\n%v",
		p.Steps, p.StepSize, p.Momentum, p.Sampler, what, p.Clip, p.Grid, p.scale(), p.Dim, p.Batch, end, pl.cert)
}

// numbers are the parameters of a fit, which an audit may replace.
var numbers = fault.NewStep[Params](fault.StochasticParams)

// Fit runs the plan on p and releases the average of the iterates or the last one. Its memory does
// not grow with the number of steps.
//
// p must have the dimension of the plan and, under dp.Replace, its number of records. Gradients are
// clipped to Clip, so that any loss and set give the guarantee.
//
// src feeds sampling and noise; nil means a secure source, anything else adds the assumption
// dp.CallerSource. Fit may be called concurrently. Each call spends the budget once. The error
// wraps ErrMechanism or erm.ErrProblem if p does not fit, is ctx.Err() if ctx was cancelled, or
// wraps dp.ErrSource if src repeats itself.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if pl.empty() {
		return nil, refuse(ErrMechanism, "the plan is empty, want one made by Plan or Calibrate")
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	w, op, own, err := pl.admit(p)
	if err != nil {
		return nil, err
	}
	source, cert := release.Open(src, pl.cert.With(own...))
	par := fault.At(fault.From(ctx), numbers, pl.Params())
	f := &fit{Params: par, ctx: ctx, f: fault.From(ctx), src: source, set: p.Set, op: op, w: w}
	f.obj = (&erm.Problem{Data: p.Data, Loss: par.perRecord(p.Loss)}).Perturb(erm.Perturbation{})
	if err := f.batches(); err != nil {
		return nil, err
	}
	if err := source.Err(); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	if err := f.obj.Err(); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	if pl.trace != nil {
		t := erm.NewTrace(f.w, math.NaN(), math.NaN(), 1) // no minimizer is certified
		t.Iterations, t.GradTerms = f.steps, f.evaluations
		pl.trace(t)
	}
	return &dp.Release{Theta: f.w, Certificate: cert}, nil
}

// admit refuses a problem that the plan was not made for. It returns w₀, r + ι_W, and the
// assumptions about the parts of p.
func (pl *Plan) admit(p *erm.Problem) (w []float64, op prox.Operator, own []dp.Assumption, err error) {
	if err := p.Check(); err != nil {
		return nil, nil, nil, fmt.Errorf("sco: %w", err)
	}
	persons, _ := p.Data.Persons()
	if err := release.CheckUnits(pl.params.Theorem, persons.Rows); err != nil {
		return nil, nil, nil, fmt.Errorf("sco: %w", err)
	}
	q := pl.params
	n, d := p.Data.Dims()
	switch {
	case d != q.Dim:
		return nil, nil, nil, refuse(ErrMechanism, "the problem has %d parameters, the plan is for %d", d, q.Dim)
	case q.Relation == dp.Replace && n != q.Records:
		return nil, nil, nil, refuse(ErrMechanism, "the problem has %d records, the plan is for %d", n, q.Records)
	}
	op, err = joint(p)
	return start(p.Set, d), op, locality(p), err
}

// fit is one run of a plan.
type fit struct {
	Params
	ctx context.Context
	f   *fault.Set
	src rand.Source
	set prox.Set
	op  prox.Operator // r + ι_W, nil if there is neither
	obj *erm.Objective

	w                  []float64 // the iterate, at the end the release
	steps, evaluations int
}
