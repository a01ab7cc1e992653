package objpert

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/privopt/privopt/internal/release"
)

// Enumerate looks at every point of W. It is meant for small spaces and as the
// reference that the searches are tested against.
type Enumerate struct {
	// Points is the largest |W| to enumerate; 0 means 10⁷.
	Points int
}

var _ Oracle = Enumerate{}

// Solve implements Oracle. A space of more than e.Points points is refused
// with an error wrapping ErrLimit. Time O(|W| rows), memory O(d rows).
func (e Enumerate) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := release.CheckContext(ErrProblem, ctx); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	limit := cmp.Or(max(e.Points, 0), 1e7)
	if size := p.pointsUpTo(float64(limit)); size > float64(limit) {
		return nil, fmt.Errorf("%w: the space has more than %d points; use CellSearch or GenericSearch", ErrLimit, limit)
	}
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	s := &enumeration{p: p, n: p.perturbation(), w: make([]int, p.Dim), least: p.least(), ctx: ctx, scores: grid[int64](p.Dim+1, len(p.X))}
	s.walk(0, 0, 0)
	if s.err != nil {
		return nil, s.err
	}
	v := s.n.float(s.bestValue)
	return &Solution{W: s.best, Loss: s.bestLoss, Objective: v, Lower: v, Proven: true, Nodes: s.points}, nil
}

type enumeration struct {
	ctx       context.Context
	p         *Problem
	n         *perturbation
	w         []int
	least     []int     // least squared norm of the coordinates j..
	scores    [][]int64 // scores[t][g] = Σ_{j<t} x_gj w_j
	best      []int
	bestValue fixed
	bestLoss  int
	points    int64
	err       error
}

// walk fixes coordinate t in every way; sq = Σ_{j<t} w_j², fixedNoise = Σ_{j<t} T_j[w_j].
func (s *enumeration) walk(t, sq int, fixedNoise fixed) {
	p := s.p
	if t == p.Dim {
		s.leaf(sq, fixedNoise)
		return
	}
	from, to := s.scores[t], s.scores[t+1]
	for k, v := range p.Values {
		if !p.allowed(t, k) || p.NormSq > 0 && sq+v*v+s.least[t+1] > p.NormSq || s.err != nil {
			continue
		}
		s.w[t] = v
		for g, row := range p.X {
			to[g] = from[g] + int64(v)*row[t]
		}
		s.walk(t+1, sq+v*v, fixedNoise+s.n.table[t][k])
	}
}

func (s *enumeration) leaf(sq int, fixedNoise fixed) {
	if s.points++; s.points&0xfff == 0 && s.ctx.Err() != nil {
		s.err = interrupted(s.ctx)
		return
	}
	loss := 0
	for g, score := range s.scores[s.p.Dim] {
		if score > 0 {
			loss += s.p.Neg[g]
		} else {
			loss += s.p.Pos[g]
		}
	}
	v := fixed(loss)<<s.n.shift - fixedNoise
	if s.n.norm != nil {
		v -= s.n.norm[sq]
	}
	if s.best == nil || better(v, s.w, s.bestValue, s.best) {
		s.best, s.bestValue, s.bestLoss = slices.Clone(s.w), v, loss
	}
}
