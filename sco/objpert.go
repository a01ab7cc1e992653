package sco

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
)

// ObjPert is objective perturbation for the population: it releases
//
//	ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w‖² + ⟨b,w⟩/n,   b ~ N(0, σ²I)
//
// certified to lie within R of the minimizer, plus Gaussian noise that hides
// 2R, projected on W. With σ from the curve of the linear perturbation at
// c = ρ log1p(β/(2nλ)) the release is private as one of package lop, whose
// Mechanism weighs λ for the empirical risk; here it is weighed for
//
//	E F(ŵ) − F(w*) ≤ (1/λ)( dσ²/(4n²) + L²/n ) + λM²
//
// by the uniform stability L²/(λn) of minimizers, in which the noise cancels. A
// Reg r of the problem counts in F as r/n.
//
// The zero value means the documented defaults and asks for nothing but a
// bounded Set or a Radius.
type ObjPert struct {
	// Relation of neighboring data sets; 0 means dp.Replace. dp.AddRemove needs
	// Records.
	Relation dp.Relation
	// Calibration is Accounted for the sharp curve and the λ with the least bound,
	// or Paper for λ = (2L/M)√(2/n + 4d ln(1/δ)/(ε²n²)) and twice the published
	// σ = √(10 L² ln(1/δ))/ε: no proof covers the published one under dp.Replace.
	Calibration Calibration
	// Records is a public number in place of n under dp.AddRemove.
	Records int
	// Radius is M ≥ ‖w*‖, a public guess; 0 means what the Set gives.
	Radius float64
	// Lambda is λ; 0 means the best.
	Lambda float64
	// Cover is R; 0 means 1e-8·M, or what rounding in a sum over n records needs.
	Cover float64
	// Share of ε and δ spent on the output noise, in (0, 1); 0 means 0.01.
	Share float64
	// Trace, if not nil, is called at the end of every solve. Not private: what it
	// receives is a function of the records.
	Trace func(Trace)
}

// ObjPertSVRG is ObjPert with its minimizer found by SVRG [XZ14], in
// O((n + κ) log(1/R)) gradients of single records, κ = 1 + β/(2λ): for many
// records, and for dimensions in which a Hessian is too large. Privacy rests on
// the certificate; where SVRG does not reach it, other methods go on.
type ObjPertSVRG struct{ ObjPert }

// Output is output perturbation for the population: it releases
//
//	P_W( ŵ + ν ),   ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w‖²
//
// with Gaussian ν that hides L/(λn) + 2R under dp.Replace, half the first term under
// dp.AddRemove. With σ of ν and the stability L²/(λn) of the minimizer
//
//	E F − F(w*) ≤ L²/(λn) + λM² + L(R + σ√d)
//
// It needs a bound on gradients and a loss that can be minimized; no structure.
//
// The fields are those of ObjPert.
type Output struct {
	Relation dp.Relation
	Records  int
	Radius   float64
	Lambda   float64
	Cover    float64
	Trace    func(Trace)
}

// ObjPlan is a calibrated ObjPert, ObjPertSVRG or Output. Its exported fields
// are public.
type ObjPlan struct {
	Public
	Relation dp.Relation
	Theorem  string
	Lambda   float64 // λ
	Delta    float64 // Δ = 2nλ, the weight of ½‖w‖² in the sum form
	Sigma    float64 // σ of b; 0 for Output
	C, S     float64 // c and G/σ
	// Objective and Output are the parts of the budget.
	Objective, Output dp.Budget
	Cover             float64 // R
	OutputSigma       float64 // σ of the output noise
	// Bound is on the expected excess population loss against every w ∈ W with
	// ‖w‖ ≤ M, in mean form, output noise included.
	Bound float64
	// PaperSigma and PaperBound are as published, for Calibration Paper.
	PaperSigma, PaperBound float64
	// SVRG is the schedule of ObjPertSVRG, nil else.
	SVRG *SVRGSchedule

	// Trace, if not nil, is called at the end of every solve. Not private.
	Trace func(Trace)
}

// Fit releases an approximate minimizer of p under the budget b: it plans,
// draws b, solves, certifies, adds the output noise and projects on W. src
// feeds the noise; nil means noise.Secure(), anything else adds the assumption
// dp.CallerSource. The error wraps what Plan's or ObjPlan.Fit's does.
func (m *ObjPert) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b, fault.From(ctx))
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss and set,
// and no record. Errors are those of Calibrate or wrap erm.ErrProblem.
func (m *ObjPert) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) { return m.plan(p, b, nil) }

func (m *ObjPert) plan(p *erm.Problem, b dp.Budget, f *fault.Set) (*ObjPlan, error) {
	q, err := certifiable(p, m.Relation, m.Records, m.Radius, b, false)
	if err != nil {
		return nil, err
	}
	q.faults = f
	return m.Calibrate(q)
}

// certifiable is public for mechanisms that certify a minimizer. onSet tells that
// constants on W are enough; else those of losses that are not of ⟨a,w⟩ must
// hold on all of ℝᵈ.
func certifiable(p *erm.Problem, rel dp.Relation, records int, radius float64, b dp.Budget, onSet bool) (Public, error) {
	if err := p.Certifiable(); err != nil {
		return Public{}, fmt.Errorf("sco: %w", err)
	}
	q, err := public(p, orReplace(rel), records, radius, b)
	if err == nil && !onSet && !linearPredictor(q.Constants) {
		q.Constants = p.Loss.Constants(p.Data.Bounds(), math.Inf(1))
	}
	return q, err
}

// Fit is ObjPert.Fit by SVRG.
func (m *ObjPertSVRG) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b, fault.From(ctx))
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan is ObjPert.Plan with a schedule for SVRG.
func (m *ObjPertSVRG) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) { return m.plan(p, b, nil) }

func (m *ObjPertSVRG) plan(p *erm.Problem, b dp.Budget, f *fault.Set) (*ObjPlan, error) {
	plan, err := m.ObjPert.plan(p, b, f)
	if err != nil {
		return nil, err
	}
	return plan, plan.schedule(p.Set != nil || p.Reg != nil)
}

// Calibrate is ObjPert.Calibrate with the schedule for problems with a set.
func (m *ObjPertSVRG) Calibrate(q Public) (*ObjPlan, error) {
	plan, err := m.ObjPert.Calibrate(q)
	if err != nil {
		return nil, err
	}
	return plan, plan.schedule(true)
}

// schedule sets SVRG: from the gap that a start at 0 has at most, for ‖b‖ ≤
// σ√d + 6σ, 2LM + 2M‖b‖/n + λM², to μR²/2.
func (pl *ObjPlan) schedule(composite bool) error {
	b := pl.Sigma * (math.Sqrt(pl.d()) + 6)
	m := pl.Radius
	gap := 2*pl.Constants.Lipschitz*m + 2*m*b/pl.n() + pl.Lambda*m*m
	s, err := NewSVRGSchedule(pl.Records, pl.Constants.Smoothness, pl.Lambda, gap, pl.Lambda*pl.Cover*pl.Cover, composite)
	if err != nil {
		return err
	}
	pl.SVRG = &s
	return nil
}

// Fit releases the noisy minimizer of p under the budget b, as ObjPert.Fit does.
func (m *Output) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b, fault.From(ctx))
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p as ObjPert.Plan does.
func (m *Output) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) { return m.plan(p, b, nil) }

func (m *Output) plan(p *erm.Problem, b dp.Budget, f *fault.Set) (*ObjPlan, error) {
	q, err := certifiable(p, m.Relation, m.Records, m.Radius, b, true)
	if err != nil {
		return nil, err
	}
	if math.IsInf(q.Constants.Smoothness, 1) {
		return nil, fmt.Errorf("sco: %w: Smoothness = +Inf, and no solver here minimizes a loss with kinks to a certificate: use loss.Moreau of it, or ProxGD", dp.ErrCondition)
	}
	q.faults = f
	return m.Calibrate(q)
}
