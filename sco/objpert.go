package sco

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/perturb"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/splitting"
)

// ObjPlan is a calibrated ObjPert, ObjPertSVRG or Output: the plan of package lop,
// and private by its theorems. Params.ExcessBound is on the expected excess
// population loss against every w ∈ W with ‖w‖ ≤ M, in mean form, output noise
// included.
type ObjPlan = lop.Plan

func asPlan(pl *perturb.Plan, err error) (*ObjPlan, error) { return (*ObjPlan)(pl), err }

// ObjPert is objective perturbation for the population: it releases
//
//	ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w‖² + ⟨b,w⟩/n,   b ~ N(0, σ²I),   Δ = 2nλ
//
// within R of the minimizer, plus output noise that hides 2R, projected on W. It is the mechanism
// of package lop, with Δ for the population (docs/theory/population.md#population.stability):
//
//	E F(ŵ) − F(w*) ≤ (1/λ)( E‖b‖²/(4n²) + L²/n ) + λM²
//
// A Reg r of the problem counts in F as r/n. Under dp.AddRemove the declared Problem.Records stands
// for n. The zero value needs only a bounded Set or a Radius.
type ObjPert struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Calibration is Accounted for the sharp curve and the Δ with the least bound,
	// or Paper for λ = (2L/M)√(2/n + 4d ln(1/δ)/(ε²n²)) and twice the published
	// σ = √(10 L² ln(1/δ))/ε: no proof covers the published one under dp.Replace.
	Calibration Calibration
	// Radius is M ≥ ‖w*‖, a public guess; 0 means the radius of the Set.
	Radius float64
	// Ridge is Δ = 2nλ; 0 means the best.
	Ridge float64
	// Cover is R; 0 means the default of package lop.
	Cover float64
	// Share of ε and δ spent on the output noise, in (0, 1); 0 means the default.
	Share float64
	// Trace, if not nil, is called at the end of every solve. Not private: its argument
	// depends on the records.
	Trace func(erm.Trace)
}

// ObjPertSVRG is ObjPert with its minimizer found by SVRG [XZ14], in
// O((n + κ) log(1/R)) gradients of single records, κ = 1 + β/(2λ): for many
// records, and for dimensions in which a Hessian is too large. Where SVRG does not
// reach the certificate, other methods go on.
type ObjPertSVRG struct{ ObjPert }

// Output is output perturbation for the population: it releases
//
//	P_W( ŵ + ν ),   ŵ ≈ argmin_W (1/n)Σ ℓ(w; zᵢ) + λ‖w‖²,   Δ = 2nλ
//
// with ν that hides L/(λn) + 2R under dp.Replace, half the first term under
// dp.AddRemove. With the stability L²/(λn) of the minimizer
//
//	E F − F(w*) ≤ L²/(λn) + λM² + L(R + E‖ν‖)
//
// It needs a bound on gradients and a loss without kinks; no structure.
//
// The fields are those of ObjPert.
type Output struct {
	Relation dp.Relation
	Radius   float64
	Ridge    float64
	Cover    float64
	Trace    func(erm.Trace)
}

// settings returns the settings for a problem with the public quantities q; only Paper uses q.
func (m *ObjPert) settings(q erm.Public, b dp.Budget) (perturb.Settings, error) {
	m = cmp.Or(m, new(ObjPert))
	s := perturb.Settings{
		Package: "sco", Population: true,
		Relation: m.Relation, Ridge: m.Ridge, Radius: m.Radius, Cover: m.Cover, Share: m.Share, Trace: m.Trace,
	}
	switch m.Calibration {
	case Accounted:
		return s, nil
	case Paper:
		p, err := m.published(q, b)
		s.Ridge, s.LeastSigma = p.ridge, 2*p.sigma
		return s, err
	}
	return s, fmt.Errorf("sco: %w: Calibration = %v, want Accounted or Paper", ErrMechanism, m.Calibration)
}

// Fit releases an approximate minimizer of p under the budget b: it plans, draws
// b, solves, adds the output noise and projects on W. src feeds the noise; nil means
// a secure source, anything else adds the assumption dp.CallerSource. The errors are
// those of Plan and of [ObjPlan].Fit.
func (m *ObjPert) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	s, err := m.forProblem(p, b)
	if err != nil {
		return nil, err
	}
	return s.Fit(ctx, p, b, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss and set, and no
// record. Errors are those of lop.Mechanism.Plan.
func (m *ObjPert) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) {
	s, err := m.forProblem(p, b)
	if err != nil {
		return nil, err
	}
	return asPlan(s.Plan(p, b))
}

func (m *ObjPert) forProblem(p *erm.Problem, b dp.Budget) (perturb.Settings, error) {
	m = cmp.Or(m, new(ObjPert))
	var q erm.Public
	if m.Calibration == Paper {
		var err error
		if q, err = p.Public(cmp.Or(m.Relation, dp.Replace)); err != nil {
			return perturb.Settings{}, fmt.Errorf("sco: %w", err)
		}
	}
	return m.settings(q, b)
}

// Calibrate is Plan for a problem of which only public quantities are known.
func (m *ObjPert) Calibrate(q erm.Public, b dp.Budget) (*ObjPlan, error) {
	s, err := m.settings(q, b)
	if err != nil {
		return nil, err
	}
	return asPlan(s.Calibrate(q, b))
}

// Fit is ObjPert.Fit by SVRG.
func (m *ObjPertSVRG) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	m = cmp.Or(m, new(ObjPertSVRG))
	s, err := m.forProblem(p, b)
	if err != nil {
		return nil, err
	}
	s.Method = bySVRG
	return s.Fit(ctx, p, b, src)
}

// Plan is ObjPert.Plan with SVRG as the first method of its fits.
func (m *ObjPertSVRG) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) {
	m = cmp.Or(m, new(ObjPertSVRG))
	s, err := m.forProblem(p, b)
	if err != nil {
		return nil, err
	}
	s.Method = bySVRG
	return asPlan(s.Plan(p, b))
}

// Calibrate is ObjPert.Calibrate with SVRG as the first method of its fits.
func (m *ObjPertSVRG) Calibrate(q erm.Public, b dp.Budget) (*ObjPlan, error) {
	m = cmp.Or(m, new(ObjPertSVRG))
	s, err := m.settings(q, b)
	if err != nil {
		return nil, err
	}
	s.Method = bySVRG
	return asPlan(s.Calibrate(q, b))
}

// bySVRG returns SVRG with the schedule for a plan, or nil where it would take more
// than 2⁵³ gradients.
func bySVRG(p perturb.Params) release.Method {
	schedule, err := svrgFor(p)
	if err != nil {
		return nil
	}
	return func(splitting.Problem, int) splitting.Method { return &svrg{schedule: schedule} }
}

// svrgFor returns the schedule for a plan of ObjPert: from 2LM + 2M‖b‖/n + λM², a bound on the gap
// at 0 for ‖b‖ ≤ σ√d + 6σ, to λR².
func svrgFor(p perturb.Params) (svrgSchedule, error) {
	n, m := float64(p.Records), p.Radius
	lambda := p.Ridge / (2 * n)
	b := p.Sigma * (math.Sqrt(float64(p.Dim)) + 6)
	gap := 2*p.Lipschitz*m + 2*m*b/n + lambda*m*m
	return newSVRGSchedule(p.Records, p.Smoothness, lambda, gap, lambda*p.Cover*p.Cover)
}

// publishedObjPert are the parameters of [BFTT19, Algorithm 4].
type publishedObjPert struct {
	ridge float64 // 2nλ, λ = (2L/M)√(2/n + 4d ln(1/δ)/(ε²n²))
	sigma float64 // √(10L² ln(1/δ))/ε, for adding or removing a record
	bound float64 // 4ML√(2/n + 4d ln(1/δ)/(ε²n²)), on the excess population loss
}

// published returns the published parameters, which Calibration Paper starts from. The
// error wraps dp.ErrCondition where the theorem is not stated: ε ≤ 1, δ ≤ 1/n², losses of
// ⟨a,w⟩ with β ≤ εnλ, and replacement.
func (m *ObjPert) published(q erm.Public, b dp.Budget) (publishedObjPert, error) {
	m = cmp.Or(m, new(ObjPert))
	rel := cmp.Or(m.Relation, dp.Replace)
	q, err := q.Complete(rel)
	if err != nil {
		return publishedObjPert{}, fmt.Errorf("sco: %w", err)
	}
	if err := b.Check(); err != nil {
		return publishedObjPert{}, fmt.Errorf("sco: %w", err)
	}
	radius := cmp.Or(m.Radius, q.Radius)
	k, n, eps := q.Constants, float64(q.Records), b.Epsilon
	refuse := func(format string, args ...any) (publishedObjPert, error) {
		return publishedObjPert{}, fmt.Errorf("sco: %w: %s; use Accounted", dp.ErrCondition, fmt.Sprintf(format, args...))
	}
	switch {
	case rel != dp.Replace:
		return refuse("Calibration %v is about %v neighbors, Relation = %v", m.Calibration, dp.Replace, m.Relation)
	case m.Ridge > 0:
		return refuse("Ridge = %v, but Calibration %v has its own", m.Ridge, m.Calibration)
	case n < 1 || !(radius > 0) || math.IsInf(radius, 1):
		return refuse("Records = %v and Radius = %v, Calibration Paper needs both", n, radius)
	case eps > 1:
		return refuse("Epsilon = %v, Calibration Paper is stated for ε ≤ 1", eps)
	case b.Delta > 1/(n*n) || b.Delta == 0:
		return refuse("Delta = %v, Calibration Paper is stated for 0 < δ ≤ 1/n² = %v", b.Delta, 1/(n*n))
	case !(k.Lipschitz > 0 && k.Smoothness > 0):
		return refuse("Lipschitz = %v and Smoothness = %v, Calibration Paper wants known ones", k.Lipschitz, k.Smoothness)
	case k.Structure != loss.LSQ && k.Structure != loss.GLM:
		return refuse("the loss is %v, Calibration Paper needs one of ⟨a,w⟩", k.Structure)
	}
	log := -num.Log(b.Delta)
	root := math.Sqrt(2/n + 4*float64(q.Dim)*log/(eps*eps*n*n))
	lambda := 2 * k.Lipschitz / radius * root
	if k.Smoothness > eps*n*lambda {
		return refuse("Smoothness = %v, Calibration Paper needs at most εnλ = %v", k.Smoothness, eps*n*lambda)
	}
	return publishedObjPert{ridge: 2 * n * lambda, sigma: math.Sqrt(10*log) * k.Lipschitz / eps, bound: 4 * radius * k.Lipschitz * root}, nil
}

func (m *Output) settings() perturb.Settings {
	m = cmp.Or(m, new(Output))
	return perturb.Settings{
		Package: "sco", Population: true, Output: true,
		Relation: m.Relation, Ridge: m.Ridge, Radius: m.Radius, Cover: m.Cover, Trace: m.Trace,
	}
}

// Fit releases the noisy minimizer of p under the budget b, as ObjPert.Fit does.
func (m *Output) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return m.settings().Fit(ctx, p, b, src)
}

// Plan calibrates for p as ObjPert.Plan does.
func (m *Output) Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error) {
	return asPlan(m.settings().Plan(p, b))
}

// Calibrate is Plan for a problem of which only public quantities are known.
func (m *Output) Calibrate(q erm.Public, b dp.Budget) (*ObjPlan, error) {
	return asPlan(m.settings().Calibrate(q, b))
}
