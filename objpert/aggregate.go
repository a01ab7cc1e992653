// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// SampleAndAggregate releases a vote of heuristics that certify nothing:
//
//	each record joins one of K blocks, at random and by itself
//	o_b = the point that the heuristic finds on block b, if any
//	c_jk = number of blocks with o_b,j = k
//	w_j = argmax over k ∈ V_j of c_jk + η_jk,   η as for Product with R = 1
//
// It is private whatever the heuristic does: docs/theory/discrete.md#objpert.aggregate/2. It is
// less accurate than [Product], because blocks are small and coordinates are voted on separately;
// the result may exceed NormSq.
type SampleAndAggregate struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Law of η: KNorm (the default) or OneSided.
	Law Law
	// Blocks is K.
	Blocks int
	// Heuristic looks for a good point for the records of one block. It must depend on nothing else,
	// and must not change the block. An error, a panic, a point outside V₁ × … × V_d and a point
	// that comes after BlockLimit, when ctx ends, are no vote. Fit waits for a heuristic that goes
	// on. A block without records has no vote. nil means a branch and bound of BlockSteps nodes
	// without a limit of time.
	Heuristic func(ctx context.Context, block *Problem) ([]int, error)
	// BlockLimit is the time of Heuristic for each block; 0 means ten seconds.
	BlockLimit time.Duration
	// BlockSteps is the most nodes that branch and bound visits for each block of records. It matters
	// if Heuristic is nil; 0 means 10⁵.
	BlockSteps int64
}

const maxBlocks = 1 << 20 // votes stay exact on a grid of 2⁻³⁰

// HeuristicByBlock is an assumption of [SampleAndAggregate].
const HeuristicByBlock dp.Assumption = "the run of the heuristic on a block depends on the records of that block only"

// Fit releases the vote on p under the budget b. src is as in [Plan.Fit]. The error wraps an error
// of [SampleAndAggregate.Plan] or [Plan.Fit], or [dp.ErrWithheld] if ctx ended.
func (m *SampleAndAggregate) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan returns the noise for p under the budget b. It reads the dimension and the space of p, and
// no record. ExcessBound counts votes, not records. Errors are as in [OPDisc.Plan].
func (m *SampleAndAggregate) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(SampleAndAggregate))
	switch {
	case m.Blocks < 1 || m.Blocks > maxBlocks:
		return nil, fmt.Errorf("%w: Blocks = %d, want a number in [1, %d]", ErrMechanism, m.Blocks, maxBlocks)
	case m.BlockLimit < 0 || m.BlockSteps < 0:
		return nil, fmt.Errorf("%w: BlockLimit = %v and BlockSteps = %d, want positive numbers, or 0 for the defaults",
			ErrMechanism, m.BlockLimit, m.BlockSteps)
	case m.Heuristic == nil && p != nil && p.custom:
		return nil, fmt.Errorf("%w: Heuristic is nil, but only the caller's code knows the loss", ErrMechanism)
	}
	settings := Product{Relation: m.Relation, Law: m.Law, Range: 1}
	pl, b, err := start(p, b, settings, 0, "KNorm or OneSided", KNorm, OneSided)
	if err != nil {
		return nil, err
	}
	vote := *m
	vote.BlockLimit = cmp.Or(vote.BlockLimit, 10*time.Second)
	vote.BlockSteps = cmp.Or(vote.BlockSteps, 1e5)
	pl.vote = &vote
	pl.params.Blocks = m.Blocks
	pl.params.Shift = 2
	return pl.product(b, theoremAggregate, theoremAggregate)
}

// aggregate returns the vote on p with the noise eta.
func (pl *Plan) aggregate(ctx context.Context, p *Problem, eta *perturbation, src rand.Source) ([]int, error) {
	q := &pl.params
	votes := pl.tally(ctx, p, src)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("objpert: %w: %w", dp.ErrWithheld, interrupted(ctx))
	}
	w := make([]int, q.Dim)
	for j, row := range eta.table {
		best, most := -1, int64(0)
		for k := range row {
			// Votes are below 2⁵¹ steps. Ties go to the first value.
			if v := int64(votes[j][k])<<eta.shift + row[k]; q.allowed(j, k) && (best < 0 || v > most) {
				best, most = k, v
			}
		}
		w[j] = q.Values[best]
	}
	return w, nil
}

// tally returns the number of votes for each value of each coordinate, until ctx ends.
func (pl *Plan) tally(ctx context.Context, p *Problem, src rand.Source) [][]int {
	q := &pl.params
	votes := grid[int](q.Dim, len(q.Values))
	box := Problem{space: *q.box(), dim: q.Dim}
	for _, block := range pl.blocks(p, src) {
		if block == nil || ctx.Err() != nil {
			continue
		}
		if w := pl.vote.ask(ctx, block); box.Contains(w) {
			for j, v := range w {
				k, _ := slices.BinarySearch(q.Values, v)
				votes[j][k]++
			}
		}
	}
	return votes
}

// withTimeout is another function in tests, which read no clock.
var withTimeout = context.WithTimeout

// ask returns the point that the heuristic finds for a block within its limit, or nil. The limit of
// a block starts when its heuristic does, so that no block affects another.
func (m *SampleAndAggregate) ask(ctx context.Context, block *Problem) (w []int) {
	if m.Heuristic == nil {
		sol, _ := Search{Nodes: m.BlockSteps, Points: -1, Combos: -1}.Solve(ctx, block)
		if sol == nil || !sol.Proven {
			return nil
		}
		return sol.W
	}
	ctx, cancel := withTimeout(ctx, m.BlockLimit)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { // in a goroutine of its own, which runtime.Goexit may end
		defer func() {
			if recover() != nil {
				w = nil
			}
		}()
		found, err := m.Heuristic(ctx, block)
		if err == nil && ctx.Err() == nil {
			w = found
		}
	})
	group.Wait()
	return w
}

// box is V₁ × … × V_d.
func (s *Space) box() *Space { return &Space{Values: s.Values, NormSq: -1, Allowed: s.Allowed} }

// blocks sends every record to a uniformly drawn block, independently, so that the change of one
// record changes one block. Empty blocks are nil.
func (pl *Plan) blocks(p *Problem, src rand.Source) []*Problem {
	out := make([]*Problem, pl.params.Blocks)
	for g, row := range p.x {
		for i := range p.pos[g] + p.neg[g] {
			at := &out[noise.Below(uint64(len(out)), src)]
			if *at == nil {
				*at = &Problem{space: pl.params.Space, dim: pl.params.Dim}
			}
			b := *at
			last := len(b.x) - 1
			if last < 0 || &b.x[last][0] != &row[0] {
				b.x, b.pos = append(b.x, row), append(b.pos, 0)
				b.neg = append(b.neg, 0)
				last++
			}
			if i < p.pos[g] {
				b.pos[last]++
			} else {
				b.neg[last]++
			}
		}
	}
	return out
}
