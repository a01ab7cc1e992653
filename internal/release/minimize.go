// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"context"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// target is a distance from θ* within which a point has to be.
type target struct {
	Modulus float64 // μ > 0, of J with the perturbation that was drawn
	Cover   float64 // R ≥ erm.Public.Floor
	Reach   float64 // ρ ≥ ‖θ*‖₂, erm.Public.Reach
}

// Method returns a method for a problem in dim dimensions.
type Method func(p splitting.Problem, dim int) splitting.Method

// methods are the fastest method that applies, and two that always converge.
var methods = []Method{
	splitting.Auto,
	func(splitting.Problem, int) splitting.Method { return &splitting.ForwardBackward{} },
	func(splitting.Problem, int) splitting.Method { return &splitting.DavisYin{} },
}

// minimize returns a point within t.Cover of argmin J, whatever the records, from start, which it
// does not change. The noise is not drawn again, and the target is not loosened.
//
//  1. the methods own, then those of this package, until a certificate: ‖x − θ*‖ ≤ residual/μ ≤ R
//  2. after each of them Newton's method with gradients and points in pairs, until a certificate
//  3. proximal gradient descent from a point of proved distance, until a certificate or until
//     its contraction proves the distance, see descend
//
// The third exists so that the first two need no proof that they end; it is not expected to run.
// The error is ctx.Err() or obj.Err(). A loss without a finite Smoothness and an r + ι_C without a
// subdifferential, which erm.Problem.Public refuses, make it panic.
func minimize(
	ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, t target, own ...Method,
) ([]float64, erm.Trace, error) {
	s := newSolver(ctx, p, obj, start, t)
	var stages []func() error
	switch fault.At(s.f, fault.Stage, 0) {
	case 0:
		for _, m := range slices.Concat(own, methods) {
			stages = append(stages, func() error { return s.try(m) }, s.refine)
		}
	case 1:
		stages = append(stages, s.refine)
	}
	for _, run := range append(stages, s.descend) {
		err := run()
		if err == nil {
			err = obj.Err()
		}
		if err != nil {
			return nil, erm.Trace{}, err
		}
		if s.done {
			break
		}
	}
	trace := erm.NewTrace(s.best.x, s.best.residual, floats.Norm(s.best.low, 2), t.Modulus)
	trace.Iterations, trace.GradTerms = s.iterations, s.terms
	if trace.Certified = s.done; !s.done {
		trace.Distance = t.Cover
	}
	return s.best.x, trace, nil
}

// point is x + low with an upper bound on dist(0, ∂J) there.
type point struct {
	x, low   []float64
	residual float64
}

// solver is one call of minimize.
type solver struct {
	target
	ctx   context.Context
	f     *fault.Set
	p     *erm.Problem
	obj   *erm.Objective
	g     prox.Operator       // r + ι_C
	pairs prox.Coordinatewise // g if points may be pairs, else nil
	start []float64

	best              point
	done              bool // best is certified
	iterations, terms int  // of all methods that ran: steps, gradients of single records
}

func newSolver(ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, t target) *solver {
	s := &solver{target: t, ctx: ctx, f: fault.From(ctx), p: p, obj: obj, start: start}
	s.g, _ = prox.Sum(p.Reg, p.Set)
	if obj.HasHessian() {
		s.pairs, _ = prox.Separable(s.g)
	}
	s.best = point{x: start, low: make([]float64, len(start)), residual: math.Inf(1)}
	return s
}

// try runs a method from the best point. A method that does not apply changes nothing.
func (s *solver) try(m Method) error {
	goal := s.Modulus * s.Cover
	res := solve(s.ctx, s.p, s.obj, s.best.x, goal, m)
	if err := s.ended(); err != nil || res == nil {
		return err
	}
	s.iterations += res.Iterations
	s.terms += res.GradTerms
	residual := s.obj.ResidualWithin(res.X, goal)
	s.done = fault.At(s.f, fault.Certified, residual <= goal)
	if s.done || residual < s.best.residual {
		s.best = point{res.X, make([]float64, len(res.X)), residual}
	}
	return nil
}

// ended returns why nothing more can be computed.
func (s *solver) ended() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	return s.obj.Err()
}

// improve keeps q if it is better, and reports whether best is certified: x within R, with what low
// adds to the distance.
func (s *solver) improve(q point) bool {
	if q.residual < s.best.residual {
		s.best = q
	}
	within := s.best.residual+s.Modulus*floats.Norm(s.best.low, 2)*(1+0x1p-40) <= s.Modulus*s.Cover
	s.done = fault.At(s.f, fault.Certified, within)
	return s.done
}

// fromSample returns a point near the minimizer of a sample of the records, where a solver over all
// of them starts well. The sampling error of the gradient is about the norm at start over the root
// of the size of the sample. A point with a sixteenth of that is near enough: a nearer one gains
// nothing.
func fromSample(ctx context.Context, p *erm.Problem, sample *erm.Objective, start []float64) []float64 {
	grad := make([]float64, len(start))
	sample.Grad(grad, start)
	goal := floats.Norm(grad, 2) / math.Sqrt(float64(sample.Len())) / 16
	res := solve(ctx, p, sample, start, goal, methods[0])
	if res == nil || !(sample.ResidualWithin(res.X, goal) < math.Inf(1)) {
		return start
	}
	return res.X
}

// solve runs a method from start, which it does not change, to a residual of at most goal. It
// returns nil if the method does not apply or ctx has ended.
func solve(
	ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, goal float64, method Method,
) *splitting.Result {
	problem := splitting.Problem{F: obj, G: p.Reg, H: p.Set}
	m := reused(method(problem, len(start)))
	defer reuse(m)
	res, _ := splitting.Solve(ctx, problem, start, &splitting.Settings{
		Tolerance:  max(goal/4, obj.Attainable()), // leaves room for the rounding allowance of the certificate
		Iterations: fault.At(fault.From(ctx), fault.Iterations, 0),
		Src:        noise.Reproducible(1), // sampling for speed: equal problems give equal points
	}, m)
	if ctx.Err() != nil {
		return nil
	}
	return res
}

// newtons and descents hold methods whose memory, of order d², the next solve takes over. Their
// contents depend on the records and on the noise and stay until a solve of the same kind begins or
// the garbage collector has run twice. Nothing erases them: memory is inside the trust boundary.
var newtons, descents sync.Pool

// reused returns a method that does the same as m, in memory that may have been used: Init forgets
// the rest.
func reused(m splitting.Method) splitting.Method {
	var old any
	switch m.(type) {
	case *splitting.ProxNewton:
		old = newtons.Get()
	case *splitting.CoordinateDescent:
		old = descents.Get()
	}
	if old, ok := old.(splitting.Method); ok {
		return old
	}
	return m
}

// reuse keeps the memory of m for the next solve.
func reuse(m splitting.Method) {
	switch m.(type) {
	case *splitting.ProxNewton:
		newtons.Put(m)
	case *splitting.CoordinateDescent:
		descents.Put(m)
	}
}
