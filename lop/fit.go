package lop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/noise"
)

// Fit draws the noise of the plan, solves p, certifies the solution and
// releases it:
//
//	b ~ the plan's law
//	θ̂ ≈ argmin F(θ) + (Δ/2)‖θ‖² + ⟨b,θ⟩ + r(θ) over C,   ‖θ̂ − argmin‖ ≤ R certified
//	θ = P_C(θ̂ + ν)
//
// p must have the dimension of the plan, and a loss, bounds, regularizer and
// set whose constants are no worse. A plan made by Mechanism with Clip clips
// the loss of p.
//
// src feeds the noise; nil means noise.Secure(), anything else adds the
// assumption dp.CallerSource. Fit may be called concurrently. Each call spends
// the budget once, whether it releases or not.
//
// The error wraps ErrMechanism or erm.ErrProblem if p does not fit,
// dp.ErrWithheld if no method could be certified to R, or is ctx.Err() if ctx
// was cancelled. Fit panics if ctx is nil.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	f := fault.From(ctx)
	p, err := pl.admit(f, p)
	if err != nil {
		return nil, err
	}
	assumptions := []dp.Assumption{dp.RealArithmetic}
	if src == nil {
		src = noise.Secure()
	} else {
		assumptions = append(assumptions, dp.CallerSource)
	}

	b := draw(f, pl.Dim, fault.At(f, fault.Scale, pl.Sigma), fault.At(f, fault.Rate, pl.Rate), src)
	b = fault.At(f, fault.Noise, b)
	defer clear(b)
	theta, err := pl.minimize(ctx, p, b)
	if err != nil {
		return nil, err
	}
	nu := draw(f, pl.Dim, fault.At(f, fault.OutputScale, pl.OutputSigma), fault.At(f, fault.OutputRate, pl.OutputRate), src)
	defer clear(nu)
	for i, v := range nu {
		theta[i] += v
	}
	if p.Set != nil {
		p.Set.Prox(theta, theta, 1) // post-processing
	}
	return &dp.Release{
		Theta: theta,
		Certificate: dp.Certificate{
			Budget:      pl.Budget,
			Relation:    pl.Relation,
			Theorem:     pl.Theorem,
			Assumptions: assumptions,
		},
	}, nil
}

// admit refuses a problem that the plan was not made for.
func (pl *Plan) admit(f *fault.Set, p *erm.Problem) (*erm.Problem, error) {
	if err := pl.valid(); err != nil {
		return nil, err
	}
	unclipped := p
	p, err := clipped(unclipped, pl.clip)
	if err != nil {
		return nil, err
	}
	if pl.curve.Monotone {
		if err := monotone(p.Loss); err != nil {
			return nil, err
		}
	}
	output := pl.Theorem == TheoremOutput || pl.Theorem == TheoremOutputPure
	q := public(p, pl.Relation, pl.Radius, pl.Budget, output)
	has, want := q.Constants, pl.Constants
	switch {
	case q.Dim != pl.Dim:
		return nil, fmt.Errorf("%w: the problem has %d parameters, the plan is for %d", ErrMechanism, q.Dim, pl.Dim)
	case !(has.Lipschitz > 0 && has.Lipschitz <= want.Lipschitz): // 0 means unknown
		return nil, fmt.Errorf("%w: the problem has Lipschitz = %v, the plan is for a known one of at most %v", ErrMechanism, has.Lipschitz, want.Lipschitz)
	case !(q.Ridge >= pl.Ridge):
		return nil, fmt.Errorf("%w: the regularizer has Ridge = %v, the plan needs at least %v", ErrMechanism, q.Ridge, pl.Ridge)
	case output:
	case !(has.Smoothness > 0 && has.Smoothness <= want.Smoothness):
		return nil, fmt.Errorf("%w: the problem has Smoothness = %v, the plan is for a known one of at most %v", ErrMechanism, has.Smoothness, want.Smoothness)
	case has.Structure != want.Structure || has.Rank != want.Rank:
		return nil, fmt.Errorf("%w: the loss is %v of rank %d, the plan is for %v of rank %d", ErrMechanism, has.Structure, has.Rank, want.Structure, want.Rank)
	}
	return clipped(unclipped, fault.At(f, fault.Clip, pl.clip))
}

// draw returns noise with standard deviation sigma, or with density
// ∝ exp(−rate‖·‖) if rate is positive, or nil where both are 0.
func draw(f *fault.Set, dim int, sigma, rate float64, src rand.Source) []float64 {
	if sigma == 0 && rate == 0 {
		return nil
	}
	b := make([]float64, dim)
	if rate > 0 {
		noise.GammaNorm(b, rate, src)
	} else {
		fault.At(f, fault.Sampler, noise.Normal)(b, sigma, src)
	}
	return b
}

// minimize returns a point of C that is certified to lie within R of
// argmin J. If the first method does not get there, others go on from its
// point: the noise is not drawn again and R not loosened.
func (pl *Plan) minimize(ctx context.Context, p *erm.Problem, b []float64) ([]float64, error) {
	f := fault.From(ctx)
	obj := p.Perturb(erm.Perturbation{Linear: b, Quad: scalar(pl.Dim, fault.At(f, fault.Ridge, pl.Delta)), MinEig: pl.Delta, MaxEig: pl.Delta})
	mu := pl.Delta + pl.Ridge
	res, err := release.Certify(ctx, p, obj, make([]float64, pl.Dim), mu*pl.Cover, methods...)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("lop: %w", err)
	case pl.Trace != nil:
		t := Trace{Theta: res.X, Residual: res.Residual, Iterations: res.Iterations, Released: res.Proved}
		pl.Trace(t.complete(p, obj, mu))
	}
	if !res.Proved {
		return nil, fmt.Errorf("lop: %w: no method was certified to Cover = %v; the budget is spent", dp.ErrWithheld, pl.Cover)
	}
	return res.X, nil
}

// methods are tried in turn, each from the best point of the others.
var methods = release.Methods

// complete returns t with what follows from its point, which it copies.
func (t Trace) complete(p *erm.Problem, obj *erm.Objective, mu float64) Trace {
	t.Theta = slices.Clone(t.Theta)
	t.Distance = t.Residual / mu
	t.Gap = t.Residual * t.Distance / 2
	t.Objective = obj.Func(t.Theta)
	if p.Reg != nil {
		t.Objective += p.Reg.Func(t.Theta)
	}
	return t
}

// scalar returns v times the identity of ℝᵈ.
func scalar(dim int, v float64) *mat.DiagDense {
	diag := make([]float64, dim)
	for i := range diag {
		diag[i] = v
	}
	return mat.NewDiagDense(dim, diag)
}
