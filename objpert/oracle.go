package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/privopt/privopt/internal/release"
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

// Auto chooses the oracle: Enumerate up to 10⁴ points over few rows, CellSearch
// where the columns are 0/1 up to a few, and GenericSearch otherwise.
type Auto struct {
	Workers int     // as in CellSearch
	Gap     float64 // as in CellSearch
	Nodes   int64   // as in CellSearch
}

var _ Oracle = Auto{}

// autoWork is the most points × rows that Auto enumerates: about the time that
// a search needs to begin.
const autoWork = 1e6

// autoCombos is the most combinations of dense weights that Auto gives to
// CellSearch, each of which costs a pass over the rows.
const autoCombos = 1e5

// Solve implements Oracle.
func (a Auto) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := release.CheckContext(ErrProblem, ctx); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	many := len(p.Values) > math.MaxInt8 // too many for a search
	switch points := p.pointsUpTo(1e4); {
	case points <= 1e4 && (many || points*float64(len(p.X)) <= autoWork):
		return Enumerate{}.Solve(ctx, p)
	case many:
		return nil, fmt.Errorf("%w: more than 10⁴ points, and searches take at most %d values, got %d",
			ErrLimit, math.MaxInt8, len(p.Values))
	}
	c := CellSearch{Workers: a.Workers, Gap: a.Gap, Nodes: a.Nodes, Combos: autoCombos}
	if m, err := p.cells(c.memory()); err == nil && len(m.cat) > 0 {
		s, err := c.Solve(ctx, p)
		if s != nil || !errors.Is(err, ErrLimit) {
			return s, err
		}
	}
	return GenericSearch(a).Solve(ctx, p)
}

// cache holds what oracles derive from the records and the space alone, so
// that a Problem perturbed many times derives it once.
type cache struct {
	mu     sync.Mutex
	models map[cellKey]*cellModel
}

type cellKey struct {
	norm   bool // the norm has a table
	memory int64
}

// cells returns the cell model of p. A literal, or a copy with other fields, derives it
// every time.
func (p *Problem) cells(memory int64) (*cellModel, error) {
	if !p.passed() {
		return newCellModel(p, memory)
	}
	c := p.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cellKey{p.weighsNorm(), memory}
	if m, ok := c.models[key]; ok {
		return m, nil
	}
	m, err := newCellModel(p, memory)
	if err != nil {
		return nil, err
	}
	c.models[key] = m
	return m, nil
}
