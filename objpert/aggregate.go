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
//	o_b = what the heuristic finds on block b, if anything
//	c_jk = number of blocks with o_b,j = k
//	w_j = argmax over k ∈ V_j of c_jk + η_jk,   η as for Product with R = 1
//
// It is private whatever the heuristic does (docs/theory/discrete.md#objpert.aggregate/2). Accuracy
// is lower than Product's: blocks are small, and coordinates are voted on separately, so that
// NormSq may be exceeded.
type SampleAndAggregate struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Law of η: KNorm (the default) or OneSided.
	Law Law
	// Blocks is K.
	Blocks int
	// Heuristic looks for a good point for the records of one block; it must not
	// depend on anything else, nor change the block. An error, a panic and a point
	// outside V₁ × … × V_d are no vote, and so is what comes after BlockLimit, when
	// ctx ends: a heuristic that goes on is waited for. A block without records has
	// no vote. nil means GenericSearch with BlockSteps nodes and no limit of time.
	Heuristic func(ctx context.Context, block *Problem) ([]int, error)
	// BlockLimit is the time that Heuristic has for a block, public and the same for
	// each; 0 means ten seconds.
	BlockLimit time.Duration
	// BlockSteps is what GenericSearch has in the place of Heuristic; 0 means 10⁵.
	BlockSteps int64
	// Trace, if not nil, receives the votes before the release. Not private.
	Trace func(Trace)
}

// maxBlocks keeps votes and noise exact on a grid of 2⁻³⁰.
const maxBlocks = 1 << 20

// HeuristicByBlock is what SampleAndAggregate asks of its heuristic.
const HeuristicByBlock dp.Assumption = "the run of the heuristic on a block depends on the records of that block only"

// Fit releases the vote on p under the budget b. src is as in Plan.Fit. The
// error wraps what Plan's or Plan.Fit's does; dp.ErrWithheld if ctx ended.
func (m *SampleAndAggregate) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p: it reads its dimension and space, and no record. The
// ExcessBound of the plan counts votes, not records. Errors wrap dp.ErrBudget,
// dp.ErrRelation, dp.ErrCondition, ErrMechanism or ErrProblem.
func (m *SampleAndAggregate) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(SampleAndAggregate))
	switch {
	case m.Blocks < 1 || m.Blocks > maxBlocks:
		return nil, fmt.Errorf("%w: Blocks = %d, want a number in [1, %d]", ErrMechanism, m.Blocks, maxBlocks)
	case m.BlockLimit < 0 || m.BlockSteps < 0:
		return nil, fmt.Errorf("%w: BlockLimit = %v and BlockSteps = %d, want positive numbers, or 0 for the defaults",
			ErrMechanism, m.BlockLimit, m.BlockSteps)
	case m.Heuristic == nil && p != nil && p.OracleLoss:
		return nil, fmt.Errorf("%w: Heuristic is nil, but only the caller's code knows the loss", ErrMechanism)
	}
	q, err := public(p, b, 1, 0)
	if err != nil {
		return nil, err
	}
	pl, b, err := common{relation: m.Relation, law: m.Law, trace: m.Trace}.startProduct(q)
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
	votes := grid[int](q.Dim, len(q.Values))
	box := q.box()
	for _, block := range pl.blocks(p, src) {
		if block != nil {
			if w := pl.vote.ask(ctx, block); box.Contains(w) {
				for j, v := range w {
					k, _ := slices.BinarySearch(q.Values, v)
					votes[j][k]++
				}
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("objpert: %w: %w", dp.ErrWithheld, interrupted(ctx))
		}
	}
	if pl.trace != nil {
		pl.trace(Trace{Votes: votes, Released: true})
	}
	w := make([]int, q.Dim)
	for j, row := range eta.table {
		best, most := -1, int64(0)
		for k := range row {
			// votes are below 2⁵⁰ steps; ties go to the first value
			if v := int64(votes[j][k])<<eta.shift + row[k]; q.allowed(j, k) && (best < 0 || v > most) {
				best, most = k, v
			}
		}
		w[j] = q.Values[best]
	}
	return w, nil
}

// ask returns what the heuristic finds for a block within its limit, or nil. What
// becomes of one block changes nothing for another: each has a limit of its own,
// from the moment it begins.
func (m *SampleAndAggregate) ask(ctx context.Context, block *Problem) (w []int) {
	if m.Heuristic == nil {
		sol, _ := GenericSearch{Workers: 1, Nodes: m.BlockSteps}.Solve(ctx, block)
		if sol == nil || !sol.Proven {
			return nil
		}
		return sol.W
	}
	ctx, cancel := context.WithTimeout(ctx, m.BlockLimit)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { // so that runtime.Goexit ends no more than the block
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

// box is V₁ × … × V_d, without records.
func (q *Params) box() *Problem {
	return &Problem{Space: Space{Values: q.Values, NormSq: -1, Allowed: q.Allowed}, Dim: q.Dim}
}

// blocks sends every record to a uniformly drawn block, independently: a record
// more, less or different changes one block and no other. Empty blocks are nil.
func (pl *Plan) blocks(p *Problem, src rand.Source) []*Problem {
	out := make([]*Problem, pl.params.Blocks)
	for g, row := range p.X {
		for i := range p.Pos[g] + p.Neg[g] {
			at := &out[noise.Below(uint64(len(out)), src)]
			if *at == nil {
				*at = &Problem{Space: pl.params.Space, Dim: pl.params.Dim}
			}
			b := *at
			last := len(b.X) - 1
			if last < 0 || &b.X[last][0] != &row[0] {
				b.X, b.Pos, b.Neg = append(b.X, row), append(b.Pos, 0), append(b.Neg, 0)
				last++
			}
			if i < p.Pos[g] {
				b.Pos[last]++
			} else {
				b.Neg[last]++
			}
		}
	}
	return out
}
