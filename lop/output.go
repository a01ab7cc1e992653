package lop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
)

// Output is output perturbation, the baseline: it minimizes without noise and
// hides the minimizer,
//
//	θ̂ ≈ argmin F(θ) + (Δ/2)‖θ‖² + r(θ) over C,   release P_C(θ̂ + ν)
//	‖θ̂ − θ̂′‖ ≤ G/μ + 2R on neighbors,            μ = Δ + μ_r     [CMS11]
//
// with ν Gaussian by the analytic calibration [BW18], or of density
// ∝ exp(−a‖ν‖), a = ε/(G/μ+2R), for δ = 0. It needs a bound on the gradients
// and nothing else: no smoothness, no structure, for C or for all ℝᵈ.
//
// The fields are those of Mechanism.
type Output struct {
	Relation dp.Relation
	// Delta is Δ; 0 means the one with the least Plan.ExcessBound.
	Delta  float64
	Radius float64
	Clip   float64
	Cover  float64
	// Records is the public number n₀ that automatic Δ is tuned for under
	// AddRemove, where n is private; under Replace 0 means n.
	Records int
	// Trace, if not nil, is called at the end of every solve. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)
}

// Fit releases an approximate minimizer of p under the budget b, as
// Mechanism.Fit does.
func (m *Output) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(fault.From(ctx), p, b)
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p as Mechanism.Plan does.
func (m *Output) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) { return m.plan(nil, p, b) }

func (m *Output) plan(f *fault.Set, p *erm.Problem, b dp.Budget) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	p, err := clipped(p, m.Clip)
	if err != nil {
		return nil, err
	}
	q := public(p, relation(m.Relation), m.Radius, b, true)
	return m.calibrate(f, q)
}

// Calibrate returns the noise for a problem with the public quantities q.
// Constants need only hold on the constraint set, and Smoothness, Rank and
// Structure are not used by the theorem. The ExcessBound is
//
//	E Σℓ(θ) + r(θ*) − F(θ₀) ≤ nL·(E‖ν‖ + R) + ΔB²/2
//
// for the release θ and the exact minimizer θ* of J, with n = Records; r(θ) may
// differ from r(θ*) by what the noise does to r. It is +Inf unless
// Radius and Records are stated. Errors are those of Mechanism.Calibrate.
func (m *Output) Calibrate(q Public) (*Plan, error) { return m.calibrate(nil, q) }

func (m *Output) calibrate(f *fault.Set, q Public) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	if relation(m.Relation) == dp.AddRemove {
		q.Records = 0 // private
	}
	if m.Records > 0 {
		q.Records = m.Records
	}
	if err := q.check(false); err != nil {
		return nil, err
	}
	rel := relation(m.Relation)
	g := sensitivity(fault.At(f, fault.Relation, rel), fault.At(f, fault.Lipschitz, q.Constants.Lipschitz))
	nl := float64(q.Records) * q.Constants.Lipschitz
	unit := unitNoise(q.Budget, q.Dim) // E‖ν‖ at sensitivity 1

	p := &Plan{
		Public:      q,
		Relation:    rel,
		Theorem:     TheoremOutput,
		Delta:       m.Delta,
		Output:      q.Budget,
		ExcessBound: math.Inf(1),
		Trace:       m.Trace,
		clip:        m.Clip,
	}
	if p.Delta == 0 {
		switch {
		case q.Radius == 0:
			return nil, errRadius
		case q.Records == 0:
			return nil, fmt.Errorf("%w: automatic Delta weighs noise against n: set Records to a public guess, or set Delta", ErrMechanism)
		}
		// nL·unit·G/μ + ΔB²/2 is least at Δ + μ_r = √(2nL·unit·G)/B.
		best := math.Sqrt(2*nl*unit*g) / q.Radius
		p.Delta = max(best-q.Ridge, 1e-6*best)
	}
	mu := p.Delta + q.Ridge
	radius := q.Radius
	if radius == 0 {
		radius = g / mu
	}
	floor := roundingFloor(q, p.Delta*radius) / mu
	var err error
	if p.Cover, err = coverRadius(m.Cover, radius, floor); err != nil {
		return nil, err
	}
	sens := g/mu + 2*p.Cover
	if q.Budget.Delta == 0 {
		p.Theorem = TheoremOutputPure
		p.OutputRate = q.Budget.Epsilon / sens / safeScale
	} else {
		if p.OutputSigma, err = gaussianSigma(q.Budget, sens*safeScale); err != nil {
			return nil, err
		}
		p.S = sens / p.OutputSigma
	}
	if q.Radius > 0 && q.Records > 0 {
		p.ExcessBound = nl*(unit*sens*safeScale+p.Cover) + p.Delta*q.Radius*q.Radius/2
	}
	if err := p.valid(); err != nil {
		return nil, err
	}
	return p, nil
}

// unitNoise returns an upper bound on E‖ν‖ for sensitivity 1 and a budget that
// passed its check: σ√d ≥ E‖ν‖, or d/ε for the pure law.
func unitNoise(b dp.Budget, dim int) float64 {
	if b.Delta == 0 {
		return float64(dim) / b.Epsilon
	}
	sigma, _ := dp.GaussianSigma(b, 1) // refuses only what Check does
	return sigma * math.Sqrt(float64(dim))
}

// check refuses fields that make no sense by themselves.
func (m *Output) check() error {
	if m.Records < 0 {
		return fmt.Errorf("%w: Records = %d, want a public number of records, or 0", ErrMechanism, m.Records)
	}
	return checkFields(m.Relation, m.Delta, m.Radius, m.Clip, m.Cover)
}
