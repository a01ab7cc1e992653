package splitting

import (
	"context"
	"fmt"
)

// Path solves problems in turn, each from the minimizer of the problem before it: a sequence of
// weights from large to small, or of boxes from small to large, where neighbors have neighboring
// minimizers. The first problem starts at x0. A nil m means a new method from [Auto] for each
// problem; otherwise m solves all of them, and DavisYin and PrimalDual keep their dual variable.
//
// s applies to each problem separately. Path stops at the first error of [Solve], which it returns
// with the index of the problem, and with the results so far. A problem that ends early without an
// error (IterationLimit, RuntimeLimit, Stalled) does not end the path.
func Path(ctx context.Context, problems []Problem, x0 []float64, s *Settings, m Method) ([]*Result, error) {
	results := make([]*Result, 0, len(problems))
	if d, ok := m.(dual); ok {
		defer d.drop()
	}
	for k, p := range problems {
		method, err := m, p.check(x0) // Auto asks F for its Hessian
		if method == nil && err == nil {
			method = Auto(p, len(x0))
		}
		var res *Result
		if err == nil {
			if res, err = Solve(ctx, p, x0, s, method); res != nil {
				results = append(results, res)
			}
		}
		if err != nil {
			return results, fmt.Errorf("splitting: problem %d of the path: %w", k, err)
		}
		x0 = res.X
		if d, ok := method.(dual); ok {
			d.keep()
		}
	}
	return results, nil
}

// dual is a method with a dual variable: keep saves the variable for the next Init of the same
// dimensions, and drop forgets it.
type dual interface {
	keep()
	drop()
}

// saved is a dual variable between two solves.
type saved struct{ v []float64 }

func (s *saved) save(v []float64) { s.v = append(s.v[:0], v...) }
func (s *saved) drop()            { s.v = s.v[:0] }

// take returns the saved variable if it has length n, and forgets it.
func (s *saved) take(n int) ([]float64, bool) {
	v := s.v
	s.v = s.v[:0]
	return v, n > 0 && len(v) == n
}
