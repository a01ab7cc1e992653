package objpert

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/release"
)

// GenericSearch is a branch and bound for any data. It fixes coordinates in the
// order of their mass Σ_g |Pos_g - Neg_g| |x_gj|, times the spread of their noise
// where all masses are alike, and keeps the rows whose sign is open: the others
// add the same loss to every point below a node. With the remaining columns of x
// of norm ‖x_rest‖₂ and squared norm b left for their weights,
// |⟨x_rest, w_rest⟩| ≤ min(√b ‖x_rest‖₂, B ‖x_rest‖₁). A node is
// bounded by its decided loss, Σ min(Pos, Neg) over the open rows, and the exact
// maximum of the noise that is left.
type GenericSearch struct {
	Workers int     // goroutines; 0 means one per processor. 1 with Gap or Nodes, so that the answer does not depend on scheduling
	Gap     float64 // stop when Objective - Lower ≤ Gap
	Nodes   int64   // limit on Solution.Nodes; 0 means none
}

var _ Oracle = GenericSearch{}

// Solve implements Oracle.
func (s GenericSearch) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := release.CheckContext(ErrProblem, ctx); err != nil {
		return nil, err
	}
	r, err := newRun("GenericSearch", p, s.Workers, s.Gap, s.Nodes)
	if err != nil {
		return nil, err
	}
	return r.settle(ctx, newGenericModel(p, r.n))
}

// genericModel is a Problem by columns, in the order in which they are fixed.
type genericModel struct {
	alphabet
	order    []int
	x        [][]int64   // x[t][g]: column order[t]
	euclid   [][]float64 // euclid[t][g] ≥ ‖x_rest‖₂ over the columns order[t:]; taxi without a norm
	taxi     [][]float64 // taxi[t][g] ≥ B ‖x_rest‖₁
	root     []float64   // root[b] ≥ √b; 1 without a norm
	pos, neg []int32
}

// above is a little more than v ≥ 0: it covers the rounding of the few
// operations, each of relative error 2⁻⁵³, that made v.
func above(v float64) float64 { return v * (1 + 0x1p-40) }

func newGenericModel(p *Problem, n *perturbation) *genericModel {
	rows := len(p.X)
	m := &genericModel{
		alphabet: newAlphabet(p), x: grid[int64](p.Dim, rows), euclid: grid[float64](p.Dim+1, rows), taxi: grid[float64](p.Dim+1, rows),
	}
	mass := make([]float64, p.Dim)
	for g, x := range p.X {
		w := math.Abs(float64(p.Pos[g] - p.Neg[g]))
		for j, v := range x {
			mass[j] += w * math.Abs(float64(v))
		}
		m.pos, m.neg = append(m.pos, int32(p.Pos[g])), append(m.neg, int32(p.Neg[g]))
	}
	if most := slices.Max(mass); most < 4*slices.Min(mass) {
		for j := range mass { // columns alike but for the noise
			mass[j] *= 1 + n.spread(p, j)
		}
	}
	for j := range p.Dim {
		m.order = append(m.order, j)
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(mass[b], mass[a]) })
	for b := range m.top + 1 {
		m.root = append(m.root, above(math.Sqrt(float64(b))))
	}
	bound := float64(p.bound())
	for t := p.Dim - 1; t >= 0; t-- {
		for g, x := range p.X {
			m.x[t][g] = x[m.order[t]]
			v := math.Abs(float64(m.x[t][g]))
			m.euclid[t][g] = above(math.Hypot(m.euclid[t+1][g], v))
			m.taxi[t][g] = above(m.taxi[t+1][g] + bound*v)
		}
	}
	if !m.weigh {
		m.root[0], m.euclid = 1, m.taxi
	}
	return m
}

// spread is how much of the objective the noise of coordinate j decides.
func (n *perturbation) spread(p *Problem, j int) float64 {
	lo, hi := infeasible, -infeasible
	for k, t := range n.table[j] {
		if p.allowed(j, k) {
			lo, hi = min(lo, t), max(hi, t)
		}
	}
	return n.float(hi - lo)
}

// alphabet is the values that a coordinate can have.
type alphabet struct {
	values []int
	source []int // their indices in Problem.Values
	sq     []int // v², their cost in the norm budget; 0 where the norm does not matter
	top    int   // Q, that budget; 0 where the norm does not matter
	weigh  bool  // whether the norm matters
}

func newAlphabet(p *Problem) alphabet {
	var a alphabet
	most := 0
	for k, v := range p.Values {
		if p.NormSq < 0 || v*v <= p.NormSq {
			a.values, a.source = append(a.values, v), append(a.source, k)
			most = max(most, v*v)
		}
	}
	a.weigh = p.NormSq > 0 && (p.weighsNorm() || p.NormSq < p.Dim*most)
	a.sq = make([]int, len(a.values))
	if a.weigh {
		a.top = p.NormSq
		for k, v := range a.values {
			a.sq[k] = v * v
		}
	}
	return a
}

// columns returns for each of the columns cols the noise of every value, and the
// indices of the values that it may take within domain (nil: all).
func (a *alphabet) columns(r *run, cols []int, domain [][]bool) (noise [][]fixed, free [][]int) {
	for _, j := range cols {
		row := make([]fixed, len(a.values))
		var ks []int
		for k, src := range a.source {
			row[k] = r.n.table[j][src]
			if r.p.allowed(j, src) && (domain == nil || domain[j][src]) {
				ks = append(ks, k)
			}
		}
		noise, free = append(noise, row), append(free, ks)
	}
	return noise, free
}

// genericWorker is a node of the search and the buffers of its ancestors.
type genericWorker struct {
	searcher
	m     *genericModel
	n     *perturbation
	table [][]fixed // T[t][k] of order[t]
	free  [][]int   // free[t]: value indices that order[t] may take
	gain  [][]fixed // gain[t][b]: the most noise of order[t:] with squared norm b left, z included
	open  [][]int32 // open[t]: rows undecided at depth t
	score [][]int64 // their scores
	child [][]fixed // bounds
	loss  [][]int64 // decided loss
	point []int

	rows   rowBlock
	active []int   // value indices whose bound is being computed
	enough []int64 // by value index: more loss than this cuts the child off
}

func (m *genericModel) worker(domain [][]bool, inc *incumbent, r *run) *genericWorker {
	p := r.p
	w := &genericWorker{
		searcher: searcher{inc: inc, run: r, left: unreached, order: m.order, values: m.values},
		m:        m, n: r.n, point: make([]int, p.Dim), active: make([]int, 0, len(m.values)), enough: make([]int64, len(m.values)),
	}
	w.table, w.free = m.columns(r, m.order, domain)
	w.gain = grid[fixed](p.Dim+1, m.top+1)
	if r.n.norm != nil {
		for b := range m.top + 1 {
			w.gain[p.Dim][b] = r.n.norm[m.top-b]
		}
	}
	for t := p.Dim - 1; t >= 0; t-- {
		for b := range m.top + 1 {
			w.gain[t][b] = -infeasible
			for _, k := range w.free[t] {
				if m.sq[k] <= b && w.gain[t+1][b-m.sq[k]] > -feasible {
					w.gain[t][b] = max(w.gain[t][b], w.table[t][k]+w.gain[t+1][b-m.sq[k]])
				}
			}
		}
	}
	w.open, w.score = grid[int32](p.Dim+1, len(p.X)), grid[int64](p.Dim+1, len(p.X))
	w.child, w.loss = grid[fixed](p.Dim, len(m.values)), grid[int64](p.Dim, len(m.values))
	return w
}

// search implements engine.
func (m *genericModel) search(domain [][]bool, inc *incumbent, r *run) fixed {
	ws := make([]*genericWorker, r.workers)
	for i := range ws {
		ws[i] = m.worker(domain, inc, r)
	}
	if !inc.first {
		ws[0].start()
	}
	return explore(ws, []task{{bound: -infeasible}})
}

// take explores the subtree of a task.
func (w *genericWorker) take(t task) {
	if w.prune(t.bound, t.choices) {
		return
	}
	rows := len(w.m.pos)
	for g := range rows {
		w.open[0][g], w.score[0][g] = int32(g), 0
	}
	b, loss, noise := w.m.top, int64(0), fixed(0)
	w.path = append(w.path[:0], t.choices...)
	for i, k := range t.choices {
		b -= w.m.sq[k]
		var decided int64
		rows, decided = w.fix(i, int(k), b, rows)
		loss += decided
		noise += w.table[i][k]
	}
	w.node(len(t.choices), b, rows, loss, noise, t.bound)
}

// fix sets column t to value index k, which leaves squared norm b. It keeps the
// open ones of the rows open at depth t and returns how many they are and what
// the others lose.
func (w *genericWorker) fix(t, k, b, rows int) (open int, decided int64) {
	m := w.m
	v := int64(m.values[k])
	w.point[m.order[t]] = m.values[k]
	x, next, score := m.x[t], w.open[t+1], w.score[t+1]
	taxi, euclid, root := m.taxi[t+1], m.euclid[t+1], m.root[b]
	for i, g := range w.open[t][:rows] {
		s := w.score[t][i] + v*x[g]
		r := euclid[g] * root // ≥ |⟨x_rest, w_rest⟩|
		if taxi[g] < r {
			r = taxi[g]
		}
		switch f := float64(s); {
		case f > r:
			decided += int64(m.neg[g])
		case f <= -r:
			decided += int64(m.pos[g])
		default:
			next[open], score[open] = g, s
			open++
		}
	}
	return open, decided
}

// node explores the points below a node of depth t with the given rows open,
// whose fixed columns leave squared norm b, lose loss and gain noise.
func (w *genericWorker) node(t, b, rows int, loss int64, noise, bound fixed) {
	if w.run.step(1) {
		w.left = min(w.left, bound)
		return
	}
	m := w.m
	if t == len(m.order) { // every row is decided: no score can change
		w.inc.offer(fixed(loss)<<w.n.shift-noise-w.gain[t][b], w.point)
		return
	}
	w.bounds(t, b, rows, loss, noise)
	for {
		k, least := w.next(t, w.free[t], w.child[t], len(m.order)-t > 2)
		if k < 0 {
			return
		}
		left := b - m.sq[k]
		open, decided := w.fix(t, k, left, rows)
		w.node(t+1, left, open, loss+decided, noise+w.table[t][k], least)
	}
}

// room returns a loss from which on a region, whose noise gains at most gain, cannot beat the incumbent.
func (w *genericWorker) room(gain fixed) int64 {
	best := w.inc.value.Load()
	if best > feasible {
		return math.MaxInt64 / 2
	}
	return (best+gain)>>w.n.shift + 1
}

// block is the number of rows that bounds copies into one rowBlock at a time.
const block = 256

// rowBlock holds what bounds needs of a block of rows.
type rowBlock struct {
	x                [block]int64
	taxi, euclid     [block]float64
	pos, neg, either [block]int64 // the last is min(pos, neg)
}

// bounds computes the bound of every child of a node at once, child[t][k]. It
// gives up a child as soon as its loss cuts it off.
func (w *genericWorker) bounds(t, b, rows int, loss int64, noise fixed) {
	m, child, lost := w.m, w.child[t], w.loss[t]
	alive := w.active[:0]
	for _, k := range w.free[t] {
		child[k] = infeasible
		if m.sq[k] > b || w.gain[t+1][b-m.sq[k]] < -feasible {
			continue
		}
		child[k] = -noise - w.table[t][k] - w.gain[t+1][b-m.sq[k]]
		w.enough[k] = w.room(-child[k])
		lost[k] = loss
		alive = append(alive, k)
	}
	idx, score, at := w.open[t][:rows], w.score[t][:rows], &w.rows
	for len(idx) > 0 && len(alive) > 0 {
		n := min(block, len(idx))
		for i, g := range idx[:n] {
			at.x[i], at.taxi[i], at.euclid[i] = m.x[t][g], m.taxi[t+1][g], m.euclid[t+1][g]
			at.pos[i], at.neg[i] = int64(m.pos[g]), int64(m.neg[g])
			at.either[i] = min(at.pos[i], at.neg[i])
		}
		kept := 0
		for _, k := range alive {
			lost[k] += at.lose(score[:n], int64(m.values[k]), m.root[b-m.sq[k]])
			if lost[k] > w.enough[k] {
				child[k] += fixed(lost[k]) << w.n.shift
				continue
			}
			alive[kept] = k
			kept++
		}
		alive = alive[:kept]
		idx, score = idx[n:], score[n:]
	}
	for _, k := range alive {
		child[k] += fixed(lost[k]) << w.n.shift
	}
}

// lose is what a block of rows loses at least when the column has value v and
// the columns after it have squared norm root² left.
func (r *rowBlock) lose(score []int64, v int64, root float64) int64 {
	total := int64(0)
	for i, s := range score[:min(len(score), block)] {
		f := float64(s + v*r.x[i])
		reach := r.euclid[i] * root
		if r.taxi[i] < reach {
			reach = r.taxi[i]
		}
		loss := r.either[i]
		if f > reach {
			loss = r.neg[i]
		}
		if f <= -reach {
			loss = r.pos[i]
		}
		total += loss
	}
	return total
}
