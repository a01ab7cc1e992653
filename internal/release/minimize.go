package release

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// Target says how near to θ* a point has to be.
type Target struct {
	Modulus float64 // μ > 0, of J with the perturbation that was drawn
	Cover   float64 // R ≥ erm.Public.Floor
	Reach   float64 // ρ ≥ ‖θ*‖₂, erm.Public.Reach
}

// Minimize returns a point within t.Cover of argmin J, whatever the records, from start, which it
// does not change. The noise is not drawn again and the target not loosened.
//
//  1. the methods in turn, until a certificate: ‖x − θ*‖ ≤ residual/μ ≤ R
//  2. Newton's method with gradients and points of twice the precision, until a certificate
//  3. proximal gradient descent from a point of proved distance, until a certificate or until
//     its contraction proves the distance, see descend
//
// The third exists so that the first two need no proof that they end; it is not expected to run.
//
// The error is ctx.Err() or obj.Err(). Minimize panics if the loss has no finite Smoothness or r +
// ι_C no subdifferential, which erm.Problem.Public and erm.Public.Smooth tell in advance.
func Minimize(
	ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, t Target, methods ...Method,
) ([]float64, erm.Trace, error) {
	s := newSolver(ctx, p, obj, start, t)
	first := fault.At(s.f, fault.Stage, 0)
	var stages []func() error
	switch {
	case first == 0 && len(methods) > 0:
		for _, m := range methods {
			stages = append(stages, func() error { return s.try(m) }, s.refine)
		}
	case first <= 1:
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

// solver is one call of Minimize.
type solver struct {
	Target
	ctx   context.Context
	f     *fault.Set
	p     *erm.Problem
	obj   *erm.Objective
	g     prox.Operator       // r + ι_C
	pairs prox.Coordinatewise // g where points may have twice the precision, else nil
	start []float64

	best              point
	done              bool // best is certified
	iterations, terms int
}

func newSolver(ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, t Target) *solver {
	s := &solver{Target: t, ctx: ctx, f: fault.From(ctx), p: p, obj: obj, start: start}
	s.g, _ = prox.Sum(p.Reg, p.Set)
	if obj.HasHessian() {
		s.pairs, _ = prox.Separable(s.g)
	}
	s.best = point{x: start, low: make([]float64, len(start)), residual: math.Inf(1)}
	return s
}

// try goes on from the best point by a method.
func (s *solver) try(m Method) error {
	res, _ := Certify(s.ctx, s.p, s.obj, s.best.x, s.Modulus*s.Cover, m) // a method that does not apply changes nothing
	if err := s.ended(); err != nil {
		return err
	}
	s.iterations += res.Iterations
	s.terms += res.GradTerms
	if s.done = res.Proved; s.done || res.Residual < s.best.residual {
		s.best = point{res.X, make([]float64, len(res.X)), res.Residual}
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

// improve keeps q if it is better, and reports whether best is certified: x within R, of which low
// takes its part.
func (s *solver) improve(q point) bool {
	if q.residual < s.best.residual {
		s.best = q
	}
	within := s.best.residual+s.Modulus*floats.Norm(s.best.low, 2)*(1+0x1p-40) <= s.Modulus*s.Cover
	s.done = fault.At(s.f, fault.Certified, within)
	return s.done
}

// fromSample returns a point near the minimizer of a sample of the records, at which a solver over
// all of them does well to begin. The gradient of the sample there is a sixteenth of what the
// sample may be off by, about the norm at start over the root of its size: to go nearer gains
// nothing.
func fromSample(ctx context.Context, p *erm.Problem, sample *erm.Objective, start []float64) []float64 {
	grad := make([]float64, len(start))
	sample.Grad(grad, start)
	target := floats.Norm(grad, 2) / math.Sqrt(float64(sample.Len())) / 16
	best, err := Certify(ctx, p, sample, start, target, Methods[0])
	if err != nil || best.X == nil {
		return start
	}
	return best.X
}

// Result is the best point that was found. Not private.
type Result struct {
	X          []float64
	Residual   float64 // erm.Objective.ResidualWithin target at X, an upper bound on dist(0, ∂J(X))
	Iterations int     // of all methods that ran
	GradTerms  int     // gradients of single records they evaluated
	Proved     bool    // Residual ≤ target, so that ‖X − argmin J‖ ≤ R
}

// Method returns a method for a problem in dim dimensions.
type Method func(p splitting.Problem, dim int) splitting.Method

// Methods are tried in turn, each from the best point of the others: the
// fastest that applies, and two that always converge.
var Methods = []Method{
	splitting.Auto,
	func(splitting.Problem, int) splitting.Method { return &splitting.ForwardBackward{} },
	func(splitting.Problem, int) splitting.Method { return &splitting.DavisYin{} },
}

// Certify looks for a point with residual at most target, from start, which
// it does not change. The noise is not drawn again and the target not loosened.
//
// The error is ctx.Err(), or that of the last method if none applies to the
// problem: a public fact, as methods are chosen by the form of a problem.
// Whether the point is Proved depends on the records.
func Certify(ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, target float64, methods ...Method) (Result, error) {
	f := fault.From(ctx)
	problem := splitting.Problem{F: obj, G: p.Reg, H: p.Set}
	best := Result{X: start, Residual: math.Inf(1)}
	var unfit error
	tol := max(target/4, obj.Attainable()) // leaves room for the rounding allowance of the certificate
	for _, method := range methods {
		m := reused(method(problem, len(start)))
		res, err := splitting.Solve(ctx, problem, best.X, &splitting.Settings{
			Tolerance:  tol,
			Iterations: fault.At(f, fault.Iterations, 0),
			Src:        noise.Reproducible(1), // sampling for speed: equal problems give equal points
		}, m)
		reuse(m)
		switch {
		case ctx.Err() != nil:
			return best, ctx.Err()
		case res == nil:
			unfit = err
			continue
		}
		best.Iterations += res.Iterations
		best.GradTerms += res.GradTerms
		if r := obj.ResidualWithin(res.X, target); r < best.Residual {
			best.X, best.Residual = res.X, r
		}
		if best.Proved = fault.At(f, fault.Certified, best.Residual <= target); best.Proved {
			break
		}
		tol /= 16
	}
	if best.Iterations == 0 && unfit != nil {
		return best, unfit
	}
	return best, nil
}

// newtons and descents hold methods whose memory, of order d², the next solve takes over. What they
// hold are functions of the records and of the noise, and references to them, until a solve of the
// same kind begins or the garbage collector has run twice. Nothing erases it: memory is inside the
// trust boundary.
var newtons, descents sync.Pool

// reused returns a method that does what m does, in memory that may have been
// used: Init forgets all else.
func reused(m splitting.Method) splitting.Method {
	switch m.(type) {
	case *splitting.ProxNewton:
		if old, ok := newtons.Get().(*splitting.ProxNewton); ok {
			return old
		}
	case *splitting.CoordinateDescent:
		if old, ok := descents.Get().(*splitting.CoordinateDescent); ok {
			return old
		}
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
