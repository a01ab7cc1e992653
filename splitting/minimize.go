// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/prox"
)

// Minimize solves p by the method that [Auto] picks, exactly as [Solve] would.
//
//	first that applies                                        picks
//	K a matrix, a quadratic program, d ≤ 2000                 InteriorPoint
//	K is not nil                                              PrimalDual
//	F quadratic, G+H coordinatewise (ℓ1, ℓ2², box)            CoordinateDescent
//	F with a Hessian, G+H coordinatewise, d ≤ 2000            ProxNewton
//	G+H nothing or a squared norm, d > 2000                   LBFGS
//	prox of G+H known in closed form                          ForwardBackward
//	otherwise                                                 DavisYin
//
// CoordinateDescent and ProxNewton end with the accuracy of a direct solver in tens of steps,
// whatever the conditioning, and need at most 1.5 d² numbers of memory. ForwardBackward needs about
// √(L_f/μ) gradients a digit. DavisYin is for pairs such as a group norm and a simplex.
// BenchmarkAuto compares the pick of every row with the methods below it.
func Minimize(ctx context.Context, p Problem, x0 []float64, s *Settings) (*Result, error) {
	if err := p.check(x0); err != nil { // Auto asks F for its Hessian
		return nil, err
	}
	return Solve(ctx, p, x0, s, Auto(p, len(x0)))
}

// newtonDim is the dimension above which ProxNewton is not picked: a step takes d² numbers and d³
// operations.
const newtonDim = 2000

// Auto returns a new method for p in dim dimensions, by the table of [Minimize].
func Auto(p Problem, dim int) Method {
	if p.program(dim) {
		return &InteriorPoint{}
	}
	if p.K != nil {
		return &PrimalDual{Rule: p.primalRule()}
	}
	_, separable := p.coordinatewise()
	if separable {
		if _, _, ok := quadratic(p.F, dim); ok {
			return &CoordinateDescent{}
		}
	}
	if _, ok := hessian(p.F); ok && separable && dim <= newtonDim {
		return &ProxNewton{}
	}
	if _, ok := p.bends(); ok && dim > newtonDim {
		return &LBFGS{}
	}
	if _, ok := p.sum(); ok {
		return &ForwardBackward{}
	}
	return &DavisYin{}
}

// primalRule returns StronglyConvexStep where F is known to be strongly convex and G and H are no
// sets. Constraints converge faster with FixedStep.
func (p Problem) primalRule() StepRule {
	_, g := p.G.(prox.Set)
	_, h := p.H.(prox.Set)
	if g || h || costlyModulus(p.F) || convexity(p.F) == 0 {
		return FixedStep
	}
	return StronglyConvexStep
}

// interiorFlops is the most work of a step of an InteriorPoint that Auto picks.
const interiorFlops = 1e11

// program reports whether p is for InteriorPoint: K has entries, the terms are known, and a step
// takes at most a minute.
func (p Problem) program(dim int) bool {
	switch p.K.(type) {
	case *dense, *incidence:
	default:
		return false
	}
	rows, _ := p.K.Dims()
	if d := float64(dim); dim > interiorDim || d*d*(d+float64(rows)) > interiorFlops {
		return false
	}
	_, g := prox.Pieces(p.G, dim)
	_, h := prox.Pieces(p.H, rows)
	_, _, ok := quadratic(p.F, dim)
	return g && h && (ok || p.F == nil)
}

// Path solves problems in turn, each from the minimizer of the problem before it: a sequence of
// weights from large to small, or of boxes from small to large, where neighbors have neighboring
// minimizers. The first problem starts at x0. A nil m means a new method from [Auto] for each
// problem; otherwise m solves all of them. DavisYin and PrimalDual start from the
// multipliers of H, too.
//
// s applies to each problem separately. Path stops at the first error of [Solve], which it returns
// with the index of the problem, and with the results so far. A problem that ends early without an
// error (IterationLimit, RuntimeLimit, Stalled) does not end the path.
func Path(ctx context.Context, problems []Problem, x0 []float64, s *Settings, m Method) ([]*Result, error) {
	results := make([]*Result, 0, len(problems))
	var last *CoordinateDescent // its memory serves all problems
	var own Settings
	if s != nil {
		own = *s
	}
	for k, p := range problems {
		method, err := m, p.check(x0) // Auto asks F for its Hessian
		if method == nil && err == nil {
			method = Auto(p, len(x0))
			if next, ok := method.(*CoordinateDescent); ok && last != nil {
				method = last
			} else if ok {
				last = next
			}
		}
		var res *Result
		if err == nil {
			if res, err = Solve(ctx, p, x0, &own, method); res != nil {
				results = append(results, res)
			}
		}
		if err != nil {
			return results, fmt.Errorf("splitting: problem %d of the path: %w", k, err)
		}
		x0, own.Dual = res.X, nil
		if k+1 < len(problems) && problems[k+1].rows(len(x0)) == len(res.Dual.H) {
			own.Dual = res.Dual.H
		}
	}
	return results, nil
}

// warmed is the multiplier of H that a solve starts from.
type warmed struct{ first []float64 }

func (w *warmed) begin(dual []float64) { w.first = dual }

// take returns the first multiplier if there is one, and forgets it.
func (w *warmed) take() (v []float64, ok bool) {
	v, w.first = w.first, nil
	return v, v != nil
}
