// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// Params are the numbers of a Plan, a copy. They are public. Together with the records and the
// random bits they determine a release.
type Params struct {
	Theorem     string         `json:"theorem"` // identifier, tabled in the package comment
	Relation    dp.Relation    `json:"relation"`
	Budget      dp.Budget      `json:"budget"` // of the whole release
	Calibration Calibration    `json:"-"`
	Structure   loss.Structure `json:"-"` // case of Theorem A, the loss's or a weaker one
	Dim         int            `json:"dim"`
	Records     int            `json:"records,omitempty"` // n under Replace, else the declared number
	MaxRecords  int64          `json:"maxRecords"`        // the most records of a data set
	Constants   loss.Constants `json:"-"`                 // of one record's loss on ℝᵈ
	Radius      float64        `json:"radius,omitempty"`  // D of ExcessBound

	// The perturbation (σ²/2)(θ−θ̃)'W(θ−θ̃), W ~ W_d(m).
	Degrees   float64 `json:"m"`                   // m, degrees of freedom
	Ratio     float64 `json:"t"`                   // t = L/σ²
	Sigma2    float64 `json:"sigma2"`              // σ²
	Curvature float64 `json:"curvature"`           // σ²m, the mean curvature added per direction
	Threshold float64 `json:"threshold,omitempty"` // a, where the closed form is used, else 0

	// The release: θ̂ within Cover of the minimizer, rounded to multiples of Grid, plus integer noise.
	Objective   dp.Budget `json:"objective"`   // (ε₁, δ₁)
	Output      dp.Budget `json:"output"`      // (ε₂, δ₂)
	Cover       float64   `json:"cover"`       // R_s
	Reach       float64   `json:"reach"`       // R = R_s + η√(b/α), R_s if η = 0
	Grid        float64   `json:"grid"`        // g, a power of two
	Sensitivity float64   `json:"sensitivity"` // 2R + g√d
	OutputSigma float64   `json:"outputSigma"` // σ̃, standard deviation of the output noise

	// The anchor's error, all 0 if η = 0.
	Eta         float64 `json:"eta,omitempty"`   // η
	Alpha       float64 `json:"alpha,omitempty"` // α of Theorem B
	MaxEig      float64 `json:"upper,omitempty"` // b of Theorem B
	MinEigDelta float64 `json:"low,omitempty"`   // the shares of δ of both;
	MaxEigDelta float64 `json:"high,omitempty"`  // δ₁ + δ₂ + MinEigDelta + MaxEigDelta ≤ δ

	// ExcessBound bounds the expected excess empirical risk, a sum over the records, over the best θ₀
	// with ‖θ₀−θ*‖₂ ≤ Radius by σ²m(D+η)²/2 + nLdσ̃²/2. A G-Lipschitz regularizer adds at most G√d·σ̃.
	// The term with n is missing if Records is 0. +Inf without a Radius.
	ExcessBound float64 `json:"-"`

	// The sum of slopes of Tilt, all 0 for other rules.
	Clip             float64 `json:"clip,omitempty"`             // g
	SlopeGrid        float64 `json:"slopeGrid,omitempty"`        // γ: slopes are rounded to multiples of it
	SlopeSensitivity float64 `json:"slopeSensitivity,omitempty"` // g + γ√d/2, twice that under Replace
	SlopeSigma       float64 `json:"slopeSigma,omitempty"`       // τ, standard deviation of the noise of c̃
	Releases         int     `json:"releases,omitempty"`         // K of a path
}

// Plan is a calibrated Mechanism: the curvature and its cost. It has no exported field, contains
// only public quantities and may be published. It serves any number of fits, also concurrent ones,
// each of which spends its budget once.
type Plan struct {
	params Params
	public erm.Public
	per    erm.PublicPerturbation
	output release.Output
	cert   dp.Certificate
	center []float64
	rule   Interpolation
	trace  func(erm.Trace)

	failure float64         // probability of the matrices outside of per
	curves  func() [2]curve // of removing and adding a record; nil where the budget alone is known
}

// stepParams lets an audit replace the numbers that the noise of a fit is drawn with.
var stepParams = fault.NewStep[Params](fault.QuadraticParams)

// made reports whether a calibration made pl.
func (pl *Plan) made() bool { return pl != nil && pl.cert.Theorem != "" }

// Params returns a copy of the numbers of the plan.
func (pl *Plan) Params() Params { return cmp.Or(pl, new(Plan)).params }

// Traced returns a copy of the plan whose fits call trace at the end of every solve. Not private:
// the argument of trace is a function of the records.
func (pl *Plan) Traced(trace func(erm.Trace)) *Plan {
	if !pl.made() {
		return pl
	}
	traced := *pl
	traced.trace = trace
	return &traced
}

// Certificate returns the cost of one release from the secure source.
func (pl *Plan) Certificate() dp.Certificate { return cmp.Or(pl, new(Plan)).cert.With() }

// String describes the plan in prose that may be published.
func (pl *Plan) String() string {
	if !pl.made() {
		return "an empty plan"
	}
	p := pl.params
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differential privacy for %v neighbors by %s. ", p.Budget, p.Relation, p.Theorem)
	fmt.Fprintf(&b, "The risk is minimized with a random curvature around a public anchor: %.4g times a Wishart "+
		"matrix of %v degrees of freedom, %.4g in the mean; ", p.Sigma2, p.Degrees, p.Curvature)
	fmt.Fprintf(&b, "the minimizer gets noise of standard deviation %.4g a coordinate, in steps of %.3g.",
		p.OutputSigma, p.Grid)
	if !math.IsInf(p.ExcessBound, 1) {
		fmt.Fprintf(&b, " The expected excess risk is at most %.4g against any solution within %.4g of the anchor.",
			p.ExcessBound, p.Radius)
	}
	return b.String()
}

// Fit applies the interpolation rule to the records of p, draws W, and releases the minimizer:
//
//	W ~ W_d(m)
//	θ̂ ≈ argmin F(θ) + (σ²/2)(θ−θ̃)'W(θ−θ̃) + r(θ) over C,   ‖θ̂ − argmin‖ ≤ R_s
//	θ = P_C(g·(round(θ̂/g) + round(ν/g))),  ν ~ N(0, σ̃²I)
//
// The plan must come from a Mechanism with an anchor. p must have the dimension of the plan, a
// loss, bounds, regularizer and set whose constants are no worse, and at most MaxRecords records.
// src is that of [Mechanism.Fit]. Each call spends the budget once. The error is about public
// facts, or is ctx.Err(): no event that depends on records withholds a release.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if !pl.made() || pl.rule == nil {
		return nil, fmt.Errorf("%w: the plan was not made by Mechanism.Plan, so it has no anchor or no noise", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, err
	}
	q, err := publicOf(p, pl.params.Relation)
	if err != nil {
		return nil, err
	}
	reach, err := pl.admit(p, q)
	if err != nil {
		return nil, err
	}
	return pl.run(ctx, p, reach, src)
}

// run is Fit for a problem that was admitted, with its minimizer within reach of the origin.
func (pl *Plan) run(ctx context.Context, p *erm.Problem, reach float64, src rand.Source) (*dp.Release, error) {
	list, err := pl.runs(ctx, []*erm.Problem{p}, []float64{reach}, src)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// draw draws Q = σ²W and reports whether the spectrum lies within the bounds that Cover was fixed
// for.
func (pl *Plan) draw(quad *mat.SymDense, src rand.Source) (erm.Perturbation, bool) {
	p := pl.params
	if err := randmat.Wishart(quad, p.Degrees, src); err != nil {
		panic(err) // the calibration checked Dim and Degrees
	}
	trace := mat.Trace(quad)
	raw := quad.RawSymmetric()
	for i := range raw.N {
		floats.Scale(p.Sigma2, raw.Data[i*raw.Stride+i:i*raw.Stride+raw.N])
	}
	q := erm.Perturbation{
		Center: pl.center, Quad: quad, LinearError: pl.per.LinearError,
		QuadError: p.Sigma2 * randmat.WishartError(p.Dim, trace),
		MinEig: randmat.MinEigAbove(quad, math.Max(p.Sigma2*usualEig(p.Dim, p.Degrees),
			pl.per.MinEig*(1+0x1p-7)+pl.per.QuadError*2)),
	}
	if p.Structure != loss.LSQ {
		q.MaxEig = randmat.MaxEig(quad)
	}
	return q, q.MinEig-q.QuadError >= pl.per.MinEig && p.Sigma2*trace <= pl.per.MaxEig
}

// admit refuses a problem that the plan was not made for, and returns a bound on the norm of its
// minimizer.
func (pl *Plan) admit(p *erm.Problem, q erm.Public) (reach float64, err error) {
	if err := pl.rule.rule().admits(p.Loss); err != nil {
		return 0, err
	}
	refuse := func(format string, args ...any) (float64, error) {
		return 0, fmt.Errorf("%w: %s", ErrMechanism, fmt.Sprintf(format, args...))
	}
	has, want := q.Constants, pl.params
	d := q.Dim
	switch {
	case d != want.Dim:
		return refuse("the problem has %d parameters, the plan is for %d", d, want.Dim)
	case q.MaxRecords > want.MaxRecords:
		return refuse("the problem is for at most %d records, the plan for %d", q.MaxRecords, want.MaxRecords)
	case !(has.Smoothness > 0 && has.Smoothness <= want.Constants.Smoothness):
		return refuse("the problem has Smoothness = %v, the plan is for at most %v", has.Smoothness,
			want.Constants.Smoothness)
	case d > 1 && (has.Structure < loss.LSQ || has.Structure > want.Structure):
		return refuse("the loss is %v, want %v, that of the plan", has.Structure, want.Structure)
	case d == 1 && has.Structure != loss.LSQ && want.Structure == loss.LSQ:
		return refuse("the loss is %v, want %v, that of the plan", has.Structure, want.Structure)
	case has.Structure >= loss.FixedRange && want.Structure >= loss.FixedRange &&
		(has.Rank < 1 || min(has.Rank, d) > want.Constants.Rank):
		return refuse("the loss has Rank = %d, the plan is for at most %d", has.Rank, want.Constants.Rank)
	}
	if pl.params.Clip == 0 {
		q = interpolated(q, pl.per.Center, want.Eta)
	}
	per := pl.per
	if pl.params.Clip > 0 {
		per.LinearError = 0
		if per = q.Tilted(per); !(per.LinearError <= pl.per.LinearError) {
			return refuse("the bounds of the problem let the slopes at the anchor have an error of %v, want at most %v, that "+
				"of the plan", per.LinearError, pl.per.LinearError)
		}
	}
	per.CenterSlope = pl.slope(q)
	if floor := q.Floor(per); !(floor <= want.Cover) {
		return refuse("float64 is sure to reach the minimizer of the problem within %v only, the plan needs Cover = %v",
			floor, want.Cover)
	}
	for _, a := range q.Assumptions {
		if !slices.Contains(pl.cert.Assumptions, a) {
			return refuse("the problem rests on an assumption that the certificate of the plan does not list: %s", a)
		}
	}
	return q.Reach(per), nil
}

// squares holds matrices of zeros.
var squares sync.Pool

// take returns a d×d matrix of zeros.
func take(d int) *mat.SymDense {
	if s, ok := squares.Get().(*mat.SymDense); ok && s.SymmetricDim() == d {
		return s
	}
	return mat.NewSymDense(d, nil)
}

// give overwrites s with zeros and keeps its memory for the next fit.
func give(s *mat.SymDense) {
	clear(s.RawSymmetric().Data)
	squares.Put(s)
}

// usualEig returns a bound that λ_min(W_d(m)) exceeds almost always, by its approximate law. One
// factorization proves the bound, which is within a small factor of λ_min. Nothing depends on its
// accuracy.
func usualEig(d int, m float64) float64 {
	law := newRoughLaw(float64(d), m)
	return math.Exp(law.nu - 2*law.tau) // λ_min ≈ exp(ν − τTW₁), P(TW₁ > 2) ≈ 1 %
}
