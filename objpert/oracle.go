// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/release"
)

// Solution brackets the optimum: Lower ≤ min ≤ Objective. Not private: every field is a function of
// the records.
type Solution struct {
	W                []int
	Loss             int     // Problem.Loss(W)
	Objective, Lower float64 // Problem.Objective(W); a proved lower bound
	Proven           bool    // W is the first of the minimizers in lexicographic order
	Nodes            int64   // search effort
}

// Oracle minimizes a [Problem] exactly. Solve returns
//
//	Proven solution, nil error   the minimizer, ties broken by the least w in lexicographic order
//	solution, nil error          a bracket that the oracle finds narrow enough
//	solution, error              stopped early: ErrInterrupted or ErrLimit; the bracket is valid
//	nil, error                   the problem was refused, or nothing is known yet
//
// A mechanism whose privacy rests on the exact minimizer must refuse all but the first. The answer
// is a function of the problem: neither the order of the records nor scheduling changes it.
type Oracle interface {
	Solve(ctx context.Context, p *Problem) (*Solution, error)
}

// Search is the [Oracle] of this package. It enumerates small sets; on other sets it runs a branch
// and bound for data whose columns are 0/1 up to a few, such as one-hot categories, where that
// applies, and a branch and bound for any data otherwise. The zero value means the defaults.
type Search struct {
	// Workers is the number of goroutines; 0 means one per processor. With Nodes it is 1, so that
	// the answer does not depend on scheduling.
	Workers int
	// Nodes limits Solution.Nodes; 0 means no limit.
	Nodes int64
	// Points is the largest |W| to enumerate, a negative number for none; 0 means 10⁴, and
	// 10⁶ for |W| times the number of distinct rows.
	Points int
	// Combos is the largest number of combinations of the weights of columns that are not 0/1 for
	// which the search for 0/1 columns is run, a negative number for none; 0 means 10⁵.
	Combos int
	// Memory limits the bytes of the tables of the search for 0/1 columns, per worker; 0 means 2²⁸.
	Memory int64
	// Trace, if not nil, receives the result of every search. Not private.
	Trace func(*Solution, error)
}

// Solve implements [Oracle]. The error wraps [ErrProblem], [ErrInterrupted] or [ErrLimit].
func (s Search) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	sol, err := s.solve(ctx, p)
	if s.Trace != nil {
		s.Trace(sol, err)
	}
	return sol, err
}

func (s Search) solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := release.CheckContext(ErrProblem, ctx); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	limit, values := min(cmp.Or(s.Points, 1e4), 1<<40), len(p.space.Values)
	many := values > math.MaxInt8
	points := p.space.pointsUpTo(p.dim, limit)
	if points <= limit && (many || s.Points > 0 || points*len(p.x) <= 1e6) {
		return enumerate(ctx, p)
	}
	if many {
		return nil, fmt.Errorf("%w: more than %d points, and searches take at most %d values, got %d",
			ErrLimit, limit, math.MaxInt8, values)
	}
	if s.Combos >= 0 {
		if sol, err := s.cells(ctx, p); sol != nil || !errors.Is(err, ErrLimit) {
			return sol, err
		}
	}
	r := s.newRun(p)
	return r.settle(ctx, newGenericModel(p, r.n).search)
}

// interrupted wraps the reason why ctx ended.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}

// enumerate looks at every point of W, see scan.
func enumerate(ctx context.Context, p *Problem) (*Solution, error) {
	n, at := p.perturbation(), newScan(p, true)
	s := &Solution{Proven: true}
	var best fixed
	at.all(func(sq int) bool {
		v := fixed(at.loss) << n.shift
		for j, x := range at.w {
			k, _ := slices.BinarySearch(p.space.Values, x)
			v -= n.table[j][k]
		}
		if n.norm != nil {
			v -= n.norm[sq]
		}
		if s.W == nil || better(v, at.w, best, s.W) {
			s.W, s.Loss = slices.Clone(at.w), int(at.loss)
			best = v
		}
		s.Nodes++
		s.Proven = s.Nodes&0xfff != 0 || ctx.Err() == nil
		return s.Proven
	})
	if !s.Proven {
		return nil, interrupted(ctx)
	}
	s.Objective = n.float(best)
	s.Lower = s.Objective
	return s, nil
}

type cellKey struct {
	norm   bool // the norm has a table
	memory int64
}

// cells returns the cell model of p, which a Problem that is perturbed many times derives once.
func (p *Problem) cells(memory int64) (*cellModel, error) {
	key := cellKey{p.weighsNorm(), memory}
	if p.models != nil {
		if m, ok := p.models.Load(key); ok {
			return m.(*cellModel), nil
		}
	}
	m, err := newCellModel(p, memory)
	if err == nil && p.models != nil {
		p.models.Store(key, m)
	}
	return m, err
}
