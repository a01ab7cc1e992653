// Package certify minimizes a strongly convex perturbed risk until the point is
// proved to be near the minimizer, for mechanisms whose output noise hides
// that distance.
//
// # Notation
//
//	J, μ       the objective with its regularizer and set, its strong convexity
//	R          the distance to argmin J that must be proved
//	μR         target, what the residual must not exceed
package certify

import (
	"context"
	"math"
	"sync"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/splitting"
)

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

// Minimize looks for a point with residual at most target, from start, which
// it does not change. The noise is not drawn again and the target not loosened.
//
// The error is ctx.Err(), or that of the last method if none applies to the
// problem: a public fact, as methods are chosen by the form of a problem.
// Whether the point is Proved depends on the records.
func Minimize(ctx context.Context, p *erm.Problem, obj *erm.Objective, start []float64, target float64, methods ...Method) (Result, error) {
	f := fault.From(ctx)
	problem := splitting.Problem{F: obj, G: p.Reg}
	if p.Set != nil { // not a nil Set inside a non-nil Operator
		problem.H = p.Set
	}
	best := Result{X: start, Residual: math.Inf(1)}
	var unfit error
	tol := target / 4 // leaves room for the rounding allowance of the certificate
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

// newtons and descents hold methods whose memory, of order d², the next solve
// takes over. What they hold are functions of the records and of the noise, and
// references to them, until a solve of the same kind begins or the garbage
// collector has run twice. Nothing erases it: memory is inside the trust
// boundary.
var newtons, descents sync.Pool

// reused returns a method that does what m does, in memory that may have been
// used: Init forgets all else.
func reused(m splitting.Method) splitting.Method {
	var old any
	switch m := m.(type) {
	case *splitting.ProxNewton:
		old = newtons.Get()
	case *splitting.CoordinateDescent:
		if old = descents.Get(); old != nil {
			old.(*splitting.CoordinateDescent).Route = m.Route
		}
	}
	if old == nil {
		return m
	}
	return old.(splitting.Method)
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
