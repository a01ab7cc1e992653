package objpert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	sample "github.com/privopt/privopt/noise"
)

// SampleAndAggregate releases a vote of heuristics that certify nothing:
//
//	each record joins one of K blocks, at random and by itself
//	o_b = what the heuristic finds on block b, if anything
//	c_jk = number of blocks with o_b,j = k
//	w_j = argmax over k ∈ V_j of c_jk + η_jk,   η as for Product with R = 1
//
// It is private whatever the heuristic does: fail, be wrong, or depend on its
// block in any way. One record is in one block, so each c_jk changes by at most
// 1, and the loss Σ_j (K − c_{j,w_j}) of w changes its advantage over v by at
// most 2 for each coordinate where they differ, under Replace and under
// AddRemove alike. Accuracy is lower than Product's: blocks are small, and
// coordinates are voted on separately, so that NormSq may be exceeded.
type SampleAndAggregate struct {
	// Relation of neighboring data sets; 0 means dp.Replace.
	Relation dp.Relation
	// Law of η: KNorm (the default) or OneSided.
	Law Law
	// Blocks is K.
	Blocks int
	// Heuristic looks for a good point for the records of one block; it must not
	// depend on anything else, nor change the block. An error, and a point outside
	// V₁ × … × V_d, is no vote. A block without records has no vote.
	Heuristic func(ctx context.Context, block *Problem) ([]int, error)
	// Trace, if not nil, receives c, rows of len(Values), before the release. Not
	// private.
	Trace func(votes [][]int)
}

// maxBlocks keeps votes and noise exact on a grid of 2⁻³⁰.
const maxBlocks = 1 << 20

// HeuristicByBlock is what SampleAndAggregate asks of its heuristic.
const HeuristicByBlock dp.Assumption = "the run of the heuristic on a block depends on the records of that block only"

// Fit releases the vote on p under the budget b. src is as in Plan.Fit. The
// error wraps what Plan's or Plan.Fit's does; dp.ErrWithheld if ctx ended. Fit
// panics if ctx is nil.
func (m *SampleAndAggregate) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b)
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p: it reads its dimension and space, and no record. The
// ExcessBound of the plan counts votes, not records. Errors wrap dp.ErrBudget,
// dp.ErrRelation, dp.ErrCondition, ErrMechanism or ErrProblem.
func (m *SampleAndAggregate) Plan(p *Problem, b dp.Budget) (*Plan, error) { return m.plan(p, b) }

func (m *SampleAndAggregate) plan(p *Problem, b dp.Budget) (*Plan, error) {
	law := m.Law
	if law == DefaultLaw {
		law = KNorm
	}
	switch {
	case law != KNorm && law != OneSided:
		return nil, fmt.Errorf("%w: Law = %v, want KNorm or OneSided", ErrMechanism, law)
	case m.Heuristic == nil:
		return nil, fmt.Errorf("%w: Heuristic is nil", ErrMechanism)
	case m.Blocks < 1 || m.Blocks > maxBlocks:
		return nil, fmt.Errorf("%w: Blocks = %d, want a number in [1, %d]", ErrMechanism, m.Blocks, maxBlocks)
	}
	q, err := public(p, b, 1, 0)
	if err != nil {
		return nil, err
	}
	pl, b, err := common{relation: m.Relation, law: law}.start(q)
	if err != nil {
		return nil, err
	}
	pl.vote = &SampleAndAggregate{Blocks: m.Blocks, Heuristic: m.Heuristic, Trace: m.Trace}
	pl.Shift = 2
	pl.pure()
	if pl, err = pl.product(q.choices(), b.Epsilon); err != nil {
		return nil, err
	}
	pl.Theorem = TheoremAggregate
	return pl, nil
}

// aggregate is Plan.Fit for a plan of SampleAndAggregate.
func (pl *Plan) aggregate(ctx context.Context, p *Problem, src rand.Source) (*dp.Release, error) {
	cert := dp.Certificate{
		Budget: pl.Proved, Relation: pl.Relation, Theorem: pl.Theorem,
		Assumptions: []dp.Assumption{HeuristicByBlock},
	}
	if src == nil {
		src = sample.Secure()
	} else {
		cert.Assumptions = append(cert.Assumptions, dp.CallerSource)
	}
	f := fault.From(ctx)
	eta := pl.drawProduct(f, src)
	defer wipe(eta, nil)
	if !pl.held(eta, nil) {
		return nil, errRange
	}
	votes := make([][]int, pl.Dim)
	for j := range votes {
		votes[j] = make([]int, len(pl.Values))
	}
	for _, block := range pl.blocks(p, src) {
		if block == nil {
			continue
		}
		w, err := pl.vote.Heuristic(ctx, block)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("objpert: %w: %w", dp.ErrWithheld, interrupted(ctx))
		}
		if err != nil {
			continue
		}
		pl.count(votes, w)
	}
	if pl.vote.Trace != nil {
		pl.vote.Trace(votes)
	}
	theta := make([]float64, pl.Dim)
	for j, row := range eta {
		best := -1
		for k := range row {
			// c + η: multiples of the grid below 2⁵³ steps, so exact; ties go to the first value
			if pl.allowed(j, k) && (best < 0 || float64(votes[j][k])+row[k] > float64(votes[j][best])+row[best]) {
				best = k
			}
		}
		theta[j] = float64(pl.Values[best])
	}
	return &dp.Release{Theta: theta, Certificate: cert}, nil
}

// count adds the vote for w, if it is in the product of the V_j.
func (pl *Plan) count(votes [][]int, w []int) {
	if len(w) != pl.Dim {
		return
	}
	at := make([]int, pl.Dim)
	for j, v := range w {
		k, ok := slices.BinarySearch(pl.Values, v)
		if !ok || !pl.allowed(j, k) {
			return
		}
		at[j] = k
	}
	for j, k := range at {
		votes[j][k]++
	}
}

// blocks sends every record to a uniformly drawn block, independently: a record
// more, less or different changes one block and no other. Empty blocks are nil.
func (pl *Plan) blocks(p *Problem, src rand.Source) []*Problem {
	out := make([]*Problem, pl.vote.Blocks)
	add := func(g int, label func(b *Problem) []int, n int) {
		for range n {
			i := sample.Below(uint64(len(out)), src)
			if out[i] == nil {
				out[i] = &Problem{Space: pl.Space, Dim: pl.Dim, shared: new(cache)}
			}
			b := out[i]
			if last := len(b.X) - 1; last < 0 || &b.X[last][0] != &p.X[g][0] {
				b.X, b.Pos, b.Neg = append(b.X, p.X[g]), append(b.Pos, 0), append(b.Neg, 0)
			}
			label(b)[len(b.X)-1]++
		}
	}
	for g := range p.X {
		add(g, func(b *Problem) []int { return b.Pos }, p.Pos[g])
		add(g, func(b *Problem) []int { return b.Neg }, p.Neg[g])
	}
	return out
}
