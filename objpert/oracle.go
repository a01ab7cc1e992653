package objpert

import (
	"context"
	"fmt"
)

// Solution brackets the optimum: Lower ≤ min ≤ Objective, and Proven says they
// met. Not private: every field is a function of the records.
type Solution struct {
	W                []int
	Loss             int     // Problem.Loss(W)
	Objective, Lower float64 // Problem.Objective(W); a proven lower bound
	Proven           bool    // W is the first of the minimizers in lexicographic order
	Nodes            int64   // search effort
}

// Oracle minimizes a Problem exactly. Solve returns
//
//	Proven solution, nil error   the minimizer, ties broken by the least w in lexicographic order
//	solution, nil error          the bracket is as narrow as the oracle was asked to make it
//	solution, error              stopped early: ErrInterrupted or ErrLimit; the bracket is valid
//	nil, error                   the problem was refused, or nothing is known yet
//
// A mechanism whose privacy rests on the exact minimizer must refuse all but
// the first. The answer is a function of the problem: neither the order of the
// records nor scheduling changes it.
type Oracle interface {
	Solve(ctx context.Context, p *Problem) (*Solution, error)
}

// interrupted wraps the reason why ctx ended.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}
