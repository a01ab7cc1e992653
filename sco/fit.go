package sco

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// Fit runs the T steps of the plan on p and releases the average of the
// iterates, or the last one. Its memory does not grow with T.
//
// p must have the dimension of the plan and, under dp.Replace, its number of
// records. Gradients are clipped to Clip whatever the loss promises, so that any
// loss and set give the guarantee. src feeds sampling and noise; nil means
// noise.Secure(), anything else adds the assumption dp.CallerSource. Fit may be
// called concurrently. Each call spends the budget once.
//
// The error wraps ErrMechanism or erm.ErrProblem if p does not fit, or is
// ctx.Err() if ctx was cancelled. Fit panics if ctx is nil.
func (pl *SGDPlan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if err := pl.admit(p); err != nil {
		return nil, err
	}
	op, err := joint(p)
	if err != nil {
		return nil, err
	}
	src, assumptions := source(src)
	d, f := pl.Dim, fault.From(ctx)
	obj := erm.NewUnperturbed(&erm.Problem{Data: p.Data, Loss: pl.perRecord(p.Loss, fault.At(f, fault.Clip, pl.Clip))})
	batches := fault.At(f, sampling, pl.Sampler).Batches(obj.Len(), src)

	w := start(p.Set, d)
	avg, g, nu, v := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
	defer clear(nu)
	floats.AddScaled(avg, 1/float64(pl.Steps+1), w)
	t := Trace{Steps: pl.Steps, Released: true}
	scale := fault.At(f, fault.Scale, pl.Noise*pl.Clip) // zL
	normal := fault.At(f, fault.Sampler, noise.Normal)
	for range pl.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch := fault.At(f, fault.Batch, batches.Next())
		t.Evaluations += len(batch)
		if len(batch) == 0 {
			t.Empty++
		}
		obj.GradTerms(g, w, batch) // g = Σ_{i∈B} clip_L ∇ℓ(w; zᵢ)
		normal(nu, scale, src)     // ν ~ N(0, z²L²I)
		sum, nu := fault.At(f, fault.Sum, g), fault.At(f, fault.Noise, nu)
		divisor := fault.At(f, fault.Divisor, pl.Divisor) // qn
		for j := range v {
			v[j] = pl.Momentum*v[j] + (sum[j]+nu[j])/divisor
			w[j] -= pl.StepSize * v[j]
		}
		if op != nil {
			op.Prox(w, w, pl.StepSize/pl.n()) // P_W, with (η/n)r
		}
		floats.AddScaled(avg, 1/float64(pl.Steps+1), w)
	}
	if pl.Last {
		avg = w
	}
	if pl.Trace != nil {
		pl.Trace(t)
	}
	return &dp.Release{Theta: avg, Certificate: dp.Certificate{
		Budget:      pl.Certified,
		Relation:    pl.Relation,
		Theorem:     pl.Theorem,
		Assumptions: assumptions,
	}}, nil
}

// Steps that an audit may replace: the sampler that batches are drawn from, and
// the one that the noise is accounted for.
var (
	sampling  = fault.NewStep[accounting.Sampler]("sampling")
	accounted = fault.NewCalibrationStep[accounting.Sampler]("accounted")
)

// source returns the source of a release and what is assumed of it.
func source(src rand.Source) (rand.Source, []dp.Assumption) {
	if src == nil {
		return noise.Secure(), []dp.Assumption{dp.RealArithmetic}
	}
	return src, []dp.Assumption{dp.RealArithmetic, dp.CallerSource}
}

// joint returns r + ι_W, nil if there is neither.
func joint(p *erm.Problem) (prox.Operator, error) {
	if p.Set == nil && p.Reg == nil {
		return nil, nil
	}
	var set prox.Operator
	if p.Set != nil { // not a nil Set inside a non-nil Operator
		set = p.Set
	}
	op, ok := prox.Sum(p.Reg, set)
	if !ok {
		return nil, fmt.Errorf("%w: Reg %T and Set %T have no joint proximal map in closed form, want a pair that prox.Sum knows", ErrMechanism, p.Reg, p.Set)
	}
	return op, nil
}

// admit refuses a problem that the plan was not made for.
func (pl *SGDPlan) admit(p *erm.Problem) error {
	if err := pl.valid(); err != nil {
		return err
	}
	return admit(p, pl.Dim, pl.Records, pl.Relation)
}

func admit(p *erm.Problem, dim, records int, rel dp.Relation) error {
	if err := p.Check(); err != nil {
		return fmt.Errorf("sco: %w", err)
	}
	n, d := p.Data.Dims()
	switch {
	case d != dim:
		return fmt.Errorf("%w: the problem has %d parameters, the plan is for %d", ErrMechanism, d, dim)
	case rel == dp.Replace && n != records:
		return fmt.Errorf("%w: the problem has %d records, the plan is for %d", ErrMechanism, n, records)
	}
	return nil
}

// perRecord returns a loss whose gradients are those of l, or of its envelope,
// clipped to norm limit. Only its gradients are used.
func (pl *SGDPlan) perRecord(l loss.Loss, limit float64) loss.Loss {
	lin, ok := l.(loss.Linear)
	if ok && pl.Smoothing > 0 {
		lin = loss.Moreau{Loss: lin, Beta: pl.Smoothing}
	}
	switch {
	case ok:
		return clippedSlope{lin, limit}
	case pl.Smoothing > 0:
		return clippedGrad{envelope{l, pl.Smoothing, pl.Constants.Smoothness, pl.Clip / (10 * pl.n())}, limit}
	}
	return clippedGrad{l, limit}
}
