package qop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/randmat"
)

// Fit makes the records of p interpolate, draws the noise of the plan, solves,
// certifies the solution and releases it:
//
//	W ~ W_d(m)
//	θ̂ ≈ argmin F(θ) + (σ²/2)(θ−θ̃)'W(θ−θ̃) + r(θ) over C,   ‖θ̂ − argmin‖ ≤ R_s certified
//	θ = P_C(θ̂ + N(0, σ̃²I))
//
// The plan must come from Mechanism.Plan, which knows the anchor. p must have
// its dimension, and a loss and bounds whose constants are no worse.
//
// src feeds the noise; nil means noise.Secure(), anything else adds the
// assumption dp.CallerSource. Fit may be called concurrently. Each call spends
// the budget once, whether it releases or not.
//
// The error wraps ErrMechanism or erm.ErrProblem if p does not fit,
// dp.ErrWithheld if no method could be certified to Cover, or is ctx.Err() if
// ctx was cancelled. Fit panics if ctx is nil.
func (pl *Plan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	f := fault.From(ctx)
	p, err := pl.admit(f, p)
	if err != nil {
		return nil, err
	}
	assumptions := append([]dp.Assumption{dp.RealArithmetic}, pl.rule.assumptions(pl.Eta)...)
	if src == nil {
		src = noise.Secure()
	} else {
		assumptions = append(assumptions, dp.CallerSource)
	}

	w := take(pl.Dim)
	defer give(w)
	if err := randmat.Wishart(w, fault.At(f, fault.Degrees, pl.M), src); err != nil {
		return nil, fmt.Errorf("qop: %w", err)
	}
	w = fault.At(f, fault.Wishart, w)
	theta, err := pl.minimize(ctx, p, w)
	if err != nil {
		return nil, err
	}
	nu := make([]float64, pl.Dim)
	defer clear(nu)
	fault.At(f, fault.Sampler, noise.Normal)(nu, fault.At(f, fault.OutputScale, pl.OutputSigma), src)
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

// admit refuses a problem that the plan was not made for, and returns p with
// records that interpolate.
func (pl *Plan) admit(f *fault.Set, p *erm.Problem) (*erm.Problem, error) {
	if pl == nil || pl.rule == nil || len(pl.center) != pl.Dim || !(pl.Sigma2 > 0) || !(pl.OutputSigma > 0) || !(pl.Cover > 0) {
		return nil, fmt.Errorf("%w: the plan was not made by Mechanism.Plan, so it has no anchor or no noise", ErrMechanism)
	}
	if err := p.Certifiable(); err != nil {
		return nil, fmt.Errorf("qop: %w", err)
	}
	if err := pl.rule.admits(p.Loss); err != nil {
		return nil, err
	}
	_, d := p.Data.Dims()
	has := p.Loss.Constants(p.Data.Bounds(), math.Inf(1))
	switch {
	case d != pl.Dim:
		return nil, fmt.Errorf("%w: the problem has %d parameters, the plan is for %d", ErrMechanism, d, pl.Dim)
	case !(has.Smoothness > 0 && has.Smoothness <= pl.Constants.Smoothness):
		return nil, fmt.Errorf("%w: the problem has Smoothness = %v, the plan is for at most %v", ErrMechanism, has.Smoothness, pl.Constants.Smoothness)
	case d > 1 && (has.Structure < loss.LSQ || has.Structure > pl.Structure):
		return nil, fmt.Errorf("%w: the loss is %v, the plan is for %v", ErrMechanism, has.Structure, pl.Structure)
	case d == 1 && has.Structure != loss.LSQ && pl.Structure == loss.LSQ:
		return nil, fmt.Errorf("%w: the loss is %v, the plan is for %v", ErrMechanism, has.Structure, pl.Structure)
	case has.Structure >= loss.FixedRange && pl.Structure >= loss.FixedRange && (has.Rank < 1 || min(has.Rank, d) > pl.Constants.Rank):
		return nil, fmt.Errorf("%w: the loss has Rank = %d, the plan is for at most %d", ErrMechanism, has.Rank, pl.Constants.Rank)
	}
	q := *p
	if fault.At(f, fault.Interpolated, true) {
		q.Data = pl.rule.apply(p.Data, p.Loss, pl.center)
	}
	return &q, nil
}

// minimize returns a point of C that is certified to lie within R_s of
// argmin J. If the first method does not get there, others go on from its
// point: the noise is not drawn again and R_s not loosened.
func (pl *Plan) minimize(ctx context.Context, p *erm.Problem, w *mat.SymDense) ([]float64, error) {
	f := fault.From(ctx)
	quad := take(pl.Dim)
	defer give(quad)
	quad.ScaleSym(fault.At(f, fault.Curvature, pl.Sigma2), w)
	mu := randmat.MinEigAbove(quad, pl.Sigma2*usualEig(pl.Dim, pl.M)) // proved, of the matrix that is used
	perturbation := erm.Perturbation{Center: pl.center, Quad: quad, MinEig: math.Max(mu, 0)}
	if pl.Structure != loss.LSQ {
		perturbation.MaxEig = randmat.MaxEig(quad)
	}
	obj := p.Perturb(perturbation)
	best := release.Result{X: pl.start(p), Residual: math.Inf(1)}
	if mu > 0 {
		var err error
		best, err = release.Certify(ctx, p, obj, best.X, mu*pl.Cover, release.Methods...)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("qop: %w", err)
		}
	}
	if pl.Trace != nil {
		t := Trace{Theta: best.X, Residual: best.Residual, Iterations: best.Iterations, Released: best.Proved}
		pl.Trace(t.complete(p, obj, mu))
	}
	if !best.Proved {
		return nil, fmt.Errorf("qop: %w: no method was certified to Cover = %v; the budget is spent", dp.ErrWithheld, pl.Cover)
	}
	return best.X, nil
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

// give wipes s and keeps its memory.
func give(s *mat.SymDense) {
	clear(s.RawSymmetric().Data)
	squares.Put(s)
}

// usualEig returns what λ_min(W_d(m)) exceeds almost always, by its approximate
// law: there one factorization proves a modulus within a small factor of the
// best. Nothing depends on its accuracy.
func usualEig(d int, m float64) float64 {
	law := newRoughLaw(float64(d), m)
	return math.Exp(law.nu - 2*law.tau) // λ_min ≈ exp(ν − τTW₁), P(TW₁ > 2) ≈ 1 %
}

// start returns the anchor, projected on C: where the output lies if the
// records say nothing.
func (pl *Plan) start(p *erm.Problem) []float64 {
	x := slices.Clone(pl.center)
	if p.Set != nil {
		p.Set.Prox(x, x, 1)
	}
	return x
}

// complete returns t with what follows from its point, which it copies.
func (t Trace) complete(p *erm.Problem, obj *erm.Objective, mu float64) Trace {
	t.Theta = slices.Clone(t.Theta)
	t.Distance, t.Gap = math.Inf(1), math.Inf(1)
	if mu > 0 {
		t.Distance = t.Residual / mu
		t.Gap = t.Residual * t.Distance / 2
	}
	t.Objective = obj.Func(t.Theta)
	if p.Reg != nil {
		t.Objective += p.Reg.Func(t.Theta)
	}
	return t
}
