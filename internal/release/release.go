// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package release is the one way by which a minimizer of a perturbed risk leaves the trust
// boundary. The mechanisms of packages lop, qop and sco calibrate. The other steps are the same for
// all of them and stand here, in [Job.Run]:
//
//	draw      b or W, secret, by the mechanism
//	minimize  θ̂ with ‖θ̂ − θ*‖ ≤ R for the minimizer θ* of the perturbed risk J
//	round     k = round(θ̂/g) ∈ ℤᵈ, g = 2ᵉ public
//	add       k + round(ν/g), integers that have exactly the law of a rounded real ν
//	project   θ = P_C(g·(k + round(ν/g)))
//
// # Why the release is private
//
// The integers k + round(ν/g) are a function of the real sum gk + ν, and ‖gk − θ*‖ ≤ R + g√d/2 on
// every data set: all rounding of θ̂ ends in the integer k. So the release costs the privacy of θ*
// and of real noise that hides 2R + g√d (docs/theory/release.md#release.grid,
// docs/theory/release.md#release.cover). Nothing is assumed about the float64 arithmetic in
// between, only that ‖θ̂ − θ*‖ ≤ R always holds, for the real b or W of which the program knows the
// first digits (docs/theory/release.md#release.coupling). The solver ends within R whatever the
// records, and R is no less than erm.Public.Floor. Hence no release is withheld.
//
// # Events of the noise
//
// Floor needs bounds on b and W. If the noise exceeds them, the release is noise around P_C(0): an
// event of public probability p, the same for all data sets, that costs (1+e^ε)p of δ
// (dp.Profile.Failure, docs/theory/release.md#release.events). A pure guarantee has no δ. There the
// release lies in a finite set, and the coin of package draw, tossed first, makes it a uniform
// point of that set, which pays for the event (docs/theory/release.md#release.coin).
//
// # Notation
//
// That of docs/theory/release.md, and
//
//	ℓ, γ       a Lipschitz constant of ∇f; the step size 1/ℓ
//	x + low    a point as a pair, of about twice the digits of float64
//	S, S′      how far apart θ̂ may be on neighbors, and Output.Sensitivity = S + g√d
package release

import (
	"context"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
)

// Steps that an audit may replace.
var (
	// Drawn is the perturbation that is minimized.
	Drawn = fault.NewStep[erm.Perturbation]("drawn perturbation")
	// Rounded is k = round(θ̂/g).
	Rounded = fault.NewStep[[]int64]("rounded point")
	// OutputNoise is round(ν/g).
	OutputNoise = fault.NewStep[[]int64]("output noise")
	// Data is the problem as the mechanism changed it, clipped or relabelled.
	Data = fault.NewStep[*erm.Problem]("problem")
)

// Job is one release of a calibrated plan.
type Job struct {
	Certificate dp.Certificate // of a release from the secure source
	Output      Output
	// Draw draws the perturbation; ok reports that it lies within the bounds that
	// Output.Cover was fixed for. The strong convexity of the perturbed risk is the
	// caller's to declare in it. Nil means none.
	Draw  func(src rand.Source) (q erm.Perturbation, ok bool)
	Reach float64 // ρ ≥ ‖θ*‖ on every data set, erm.Public.Reach
	// Start is where the solver begins, nil for the origin.
	Start []float64
	// Methods are tried before those of this package.
	Methods []Method
	Trace   func(erm.Trace)
}

// Run draws, minimizes, rounds, adds noise and projects. p has the constants that the plan was made
// for, or better ones, and no more than MaxRecords records: the caller checked that.
//
// src feeds the noise; nil means a secure one, anything else adds the assumption
// dp.CallerSource. The error is ctx.Err(), or about the source or the form of the
// problem: it does not depend on the records. It wraps erm.ErrSource where records that are not in
// memory could not be read: that is outside of the model, like time. What was drawn is spent.
func (j *Job) Run(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	f := fault.From(ctx)
	source, cert := Open(src, j.Certificate.With())
	p = fault.At(f, Data, p)
	uniform := j.Output.coin(source)
	var per erm.Perturbation
	ok := true
	if j.Draw != nil {
		per, ok = j.Draw(source)
		per = fault.At(f, Drawn, per)
	}
	defer clear(per.Linear)
	theta := make([]float64, j.Output.Dim) // a point of C that no record moves
	copy(theta, j.Start)
	if p.Set != nil {
		p.Set.Prox(theta, theta, 1)
	}
	if ok {
		var err error
		if theta, err = j.minimize(ctx, p, per, theta); err != nil {
			return nil, err
		}
	}
	j.Output.add(f, theta, uniform || !ok, source)
	if err := source.Err(); err != nil {
		return nil, err
	}
	if p.Set != nil {
		p.Set.Prox(theta, theta, 1) // post-processing
	}
	for i, v := range theta {
		theta[i] = v + 0 // no −0
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}

// minimize returns a point within R of the minimizer of the perturbed risk.
func (j *Job) minimize(ctx context.Context, p *erm.Problem, per erm.Perturbation, start []float64) ([]float64, error) {
	obj := p.PerturbContext(ctx, per)
	t := target{Modulus: obj.Modulus(), Cover: j.Output.Cover, Reach: j.Reach}
	if sample, ok := obj.Sample(); ok {
		start = fromSample(ctx, p, sample, start)
	}
	theta, trace, err := minimize(ctx, p, obj, start, t, j.Methods...)
	if err == nil && j.Trace != nil {
		trace.Objective = obj.Func(theta)
		if p.Reg != nil {
			trace.Objective += p.Reg.Func(theta)
		}
		j.Trace(trace)
		err = obj.Err()
	}
	return theta, err
}
