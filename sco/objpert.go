// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/splitting"
)

// ObjPert is objective perturbation for the population: it releases
//
//	ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w−w₀‖² + ⟨b,w⟩/n,   b ~ N(0, σ²I),   Δ = 2nλ
//
// within R of the minimizer, plus output noise that hides 2R, projected on W. It is the mechanism
// of package lop, with Δ for the population (docs/theory/population.md#population.stability):
//
//	E F(ŵ) − F(w*) ≤ (1/λ)( E‖b‖²/(4n²) + L²/n ) + λM²
//
// Params.ExcessBound of its plan bounds the expected excess population loss over every w ∈ W with
// ‖w − w₀‖ ≤ M, in mean form, output noise included. A Reg r of the problem counts in F as r/n.
// Under dp.AddRemove the declared Problem.Records stands for n. The zero value needs only a bounded
// Set or a Radius.
type ObjPert struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Center is w₀, a public point: the ridge is λ‖w−w₀‖². nil means the origin. See
	// [lop.Mechanism].
	Center []float64
	// Radius is M ≥ ‖w* − w₀‖, a public guess; 0 means the radius of the Set, plus ‖w₀‖.
	Radius float64
	// Ridge is Δ = 2nλ; 0 means the best.
	Ridge float64
	// Cover is R; 0 means the default of package lop.
	Cover float64
	// Share of ε and δ spent on the output noise, in (0, 1); 0 means the default.
	Share float64
	// SVRG finds the minimizer by SVRG [XZ14], in O((n + κ) log(1/R)) gradients of single records,
	// κ = 1 + β/(2λ): for many records, and for dimensions in which a Hessian is too large. Where
	// SVRG does not reach the certificate, other methods go on.
	SVRG bool
	// Trace, if not nil, is called at the end of every solve. Not private: its argument
	// depends on the records.
	Trace func(erm.Trace)
}

func (m *ObjPert) settings() engine.Settings {
	m = cmp.Or(m, new(ObjPert))
	s := engine.Settings{
		Package: "sco", Population: true,
		Relation: m.Relation, Ridge: m.Ridge, Center: m.Center, Radius: m.Radius, Cover: m.Cover, Share: m.Share,
		Trace: m.Trace,
	}
	if m.SVRG {
		s.Method = bySVRG
	}
	return s
}

func asPlan(pl *engine.Plan, err error) (*lop.Plan, error) { return (*lop.Plan)(pl), err }

// Fit releases an approximate minimizer of p under the budget b: it plans, draws b, solves, adds
// the output noise and projects on W. src feeds the noise; nil means a secure source, anything else
// adds the assumption dp.CallerSource. The errors are those of Plan and of [lop.Plan.Fit].
func (m *ObjPert) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return m.settings().Fit(ctx, p, b, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss and set, and no record. Errors
// are those of [lop.Mechanism.Plan].
func (m *ObjPert) Plan(p *erm.Problem, b dp.Budget) (*lop.Plan, error) {
	return asPlan(m.settings().Plan(p, b))
}

// Calibrate is Plan for a problem of which only public quantities are known.
func (m *ObjPert) Calibrate(q erm.Public, b dp.Budget) (*lop.Plan, error) {
	return asPlan(m.settings().Calibrate(q, b))
}

// Output is output perturbation for the population: it releases
//
//	P_W( ŵ + ν ),   ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w‖²,   Δ = 2nλ
//
// with ν that hides L/(λn) + 2R under dp.Replace, half the first term under
// dp.AddRemove. With the stability L²/(λn) of the minimizer
//
//	E F − F(w*) ≤ L²/(λn) + λM² + L(R + E‖ν‖)
//
// It needs a bound on gradients and a loss without kinks; no structure. Its fields are those of
// [ObjPert].
type Output struct {
	Relation dp.Relation
	Radius   float64
	Ridge    float64
	Cover    float64
	Trace    func(erm.Trace)
}

func (m *Output) settings() engine.Settings {
	m = cmp.Or(m, new(Output))
	s := (&ObjPert{Relation: m.Relation, Radius: m.Radius, Ridge: m.Ridge, Cover: m.Cover, Trace: m.Trace}).settings()
	s.Output = true
	return s
}

// Fit releases the noisy minimizer of p under the budget b, as [ObjPert.Fit] does.
func (m *Output) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return m.settings().Fit(ctx, p, b, src)
}

// Plan calibrates for p as [ObjPert.Plan] does.
func (m *Output) Plan(p *erm.Problem, b dp.Budget) (*lop.Plan, error) {
	return asPlan(m.settings().Plan(p, b))
}

// Calibrate is Plan for a problem of which only public quantities are known.
func (m *Output) Calibrate(q erm.Public, b dp.Budget) (*lop.Plan, error) {
	return asPlan(m.settings().Calibrate(q, b))
}

// bySVRG returns SVRG that takes a full gradient in some 100κ steps, as often as [XZ14], but in no
// more than n.
func bySVRG(p engine.Params) release.Method {
	n := float64(p.Records)
	steps := math.Ceil(math.Max(1, math.Min(n, 100*(1+n*p.Smoothness/p.Ridge))))
	return func(splitting.Problem, int) splitting.Method {
		return &epochs{StochasticTOS: splitting.StochasticTOS{SVRG: true, Refresh: 1 / steps}, steps: int(steps), left: 200}
	}
}

// epochs is a method whose Step is several steps, up to a number of them.
type epochs struct {
	splitting.StochasticTOS
	steps, left int
}

// Step implements splitting.Method.
func (m *epochs) Step(loc *splitting.Location, stats *splitting.Stats) {
	for range m.steps {
		m.StochasticTOS.Step(loc, stats)
	}
	m.left--
}

// Status implements splitting.Statuser.
func (m *epochs) Status() (splitting.Status, error) {
	if m.left == 0 {
		return splitting.Stalled, nil
	}
	return m.StochasticTOS.Status()
}
