// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"math"
	"slices"
)

// genericModel is a Problem by columns, for a branch and bound on any data. Columns are fixed in
// the order of their mass Σ_g |pos_g − neg_g| |x_gj|, times the spread of their noise where all
// masses are alike. A node keeps the open rows, whose sign is not decided; the other rows add the
// same loss to every point below the node. With the columns x_rest that are not fixed and squared
// norm b left for their weights, |⟨x_rest, w_rest⟩| ≤ min(√b ‖x_rest‖₂, B ‖x_rest‖₁). A node is
// bounded by its decided loss, Σ min(pos, neg) over the open rows, and the exact maximum of the
// noise that is left.
type genericModel struct {
	alphabet
	order    []int
	x        [][]int64   // x[t][g]: column order[t]
	euclid   [][]float64 // euclid[t][g] ≥ ‖x_rest‖₂ over the columns order[t:]; taxi if there is no norm
	taxi     [][]float64 // taxi[t][g] ≥ B ‖x_rest‖₁
	root     []float64   // root[b] ≥ √b; 1 if there is no norm
	pos, neg []int32
}

// above returns v ≥ 0 with a margin for the rounding of the few operations, each of relative error
// 2⁻⁵³, that computed v.
func above(v float64) float64 { return v * (1 + 0x1p-40) }

func newGenericModel(p *Problem, n *perturbation) *genericModel {
	d, rows := p.dim, len(p.x)
	m := &genericModel{
		alphabet: newAlphabet(p), x: grid[int64](d, rows), euclid: grid[float64](d+1, rows), taxi: grid[float64](d+1, rows),
	}
	mass := make([]float64, d)
	for g, x := range p.x {
		w := math.Abs(float64(p.pos[g] - p.neg[g]))
		for j, v := range x {
			mass[j] += w * math.Abs(float64(v))
		}
		m.pos, m.neg = append(m.pos, int32(p.pos[g])), append(m.neg, int32(p.neg[g]))
	}
	if most := slices.Max(mass); most < 4*slices.Min(mass) {
		for j := range mass { // the columns differ in their noise only
			mass[j] *= 1 + n.spread(p, j)
		}
	}
	for j := range d {
		m.order = append(m.order, j)
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(mass[b], mass[a]) })
	for b := range m.top + 1 {
		m.root = append(m.root, above(math.Sqrt(float64(b))))
	}
	bound := float64(p.space.bound())
	for t := d - 1; t >= 0; t-- {
		for g, x := range p.x {
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

// spread is the difference between the largest and the least noise of coordinate j.
func (n *perturbation) spread(p *Problem, j int) float64 {
	lo, hi := infeasible, -infeasible
	for k, t := range n.table[j] {
		if p.space.allowed(j, k) {
			lo, hi = min(lo, t), max(hi, t)
		}
	}
	return n.float(hi - lo)
}

// alphabet lists the values that a coordinate can have.
type alphabet struct {
	values []int
	source []int // their indices in Problem.Values
	sq     []int // their squares; 0 where the norm does not matter
	top    int   // Q; 0 where the norm does not matter
	weigh  bool  // whether the norm matters
}

func newAlphabet(p *Problem) alphabet {
	var a alphabet
	most := 0
	q := p.space.NormSq
	for k, v := range p.space.Values {
		if q < 0 || v*v <= q {
			a.values, a.source = append(a.values, v), append(a.source, k)
			most = max(most, v*v)
		}
	}
	a.weigh = q > 0 && (p.weighsNorm() || q < p.dim*most)
	a.sq = make([]int, len(a.values))
	if a.weigh {
		a.top = q
		for k, v := range a.values {
			a.sq[k] = v * v
		}
	}
	return a
}

// columns returns for each of the given columns the noise of every value, and the indices of the
// values that the column may take within domain (nil: all).
func (a *alphabet) columns(r *run, cols []int, domain [][]bool) (noise [][]fixed, free [][]int) {
	for _, j := range cols {
		row := make([]fixed, len(a.values))
		var ks []int
		for k, src := range a.source {
			row[k] = r.n.table[j][src]
			if r.p.space.allowed(j, src) && (domain == nil || domain[j][src]) {
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
	gain  [][]fixed // gain[t][b]: the most noise of order[t:] and of the norm with squared norm b left
	open  [][]int32 // open[t]: the open rows at depth t
	score [][]int64 // their scores
	child [][]fixed // child[t][k]: bound of the child that fixes value index k
	loss  [][]int64 // loss[t][k]: its loss so far
	point []int

	rows   rowBlock
	active []int   // buffer of value indices
	enough []int64 // by value index: more loss than this cuts the child off
}

func (m *genericModel) worker(domain [][]bool, inc *incumbent, r *run) *genericWorker {
	d, rows := r.p.dim, len(r.p.x)
	w := &genericWorker{
		searcher: searcher{inc: inc, run: r, left: unreached, order: m.order, values: m.values},
		m:        m, n: r.n, point: make([]int, d),
		active: make([]int, 0, len(m.values)), enough: make([]int64, len(m.values)),
	}
	w.table, w.free = m.columns(r, m.order, domain)
	w.gain = grid[fixed](d+1, m.top+1)
	if r.n.norm != nil {
		for b := range m.top + 1 {
			w.gain[d][b] = r.n.norm[m.top-b]
		}
	}
	for t := d - 1; t >= 0; t-- {
		for b := range m.top + 1 {
			w.gain[t][b] = -infeasible
			for _, k := range w.free[t] {
				if m.sq[k] <= b && w.gain[t+1][b-m.sq[k]] > -feasible {
					w.gain[t][b] = max(w.gain[t][b], w.table[t][k]+w.gain[t+1][b-m.sq[k]])
				}
			}
		}
	}
	w.open, w.score = grid[int32](d+1, rows), grid[int64](d+1, rows)
	w.child, w.loss = grid[fixed](d, len(m.values)), grid[int64](d, len(m.values))
	return w
}

// search is an engine.
func (m *genericModel) search(domain [][]bool, inc *incumbent, r *run) fixed {
	ws := make([]*genericWorker, r.workers)
	for i := range ws {
		ws[i] = m.worker(domain, inc, r)
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
	b, loss := w.m.top, int64(0)
	noise := fixed(0)
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

// fix sets column t to value index k, which leaves squared norm b. Of the rows open at depth t it
// keeps those still open, and returns their number and the loss of the others.
func (w *genericWorker) fix(t, k, b, rows int) (open int, decided int64) {
	m := w.m
	v := int64(m.values[k])
	w.point[m.order[t]] = m.values[k]
	x, next := m.x[t], w.open[t+1]
	score := w.score[t+1]
	taxi, euclid := m.taxi[t+1], m.euclid[t+1]
	root := m.root[b]
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

// node explores the points below a node of depth t with the given number of open rows, whose fixed
// columns leave squared norm b and have the given loss and noise.
func (w *genericWorker) node(t, b, rows int, loss int64, noise, bound fixed) {
	if w.run.step(1) {
		w.left = min(w.left, bound)
		return
	}
	m := w.m
	if t == len(m.order) { // all columns are fixed
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

const block = 256 // rows in a rowBlock

// rowBlock holds some rows in the layout of the inner loop of bounds.
type rowBlock struct {
	x                [block]int64
	taxi, euclid     [block]float64
	pos, neg, either [block]int64 // the last is min(pos, neg)
}

// bounds computes child[t][k], the bound of every child of a node, in one pass over the open rows.
// It stops adding to a child once its loss shows that it cannot beat the incumbent.
func (w *genericWorker) bounds(t, b, rows int, loss int64, noise fixed) {
	m, child := w.m, w.child[t]
	lost := w.loss[t]
	incumbent := min(w.inc.value.Load(), feasible)
	alive := w.active[:0]
	for _, k := range w.free[t] {
		child[k] = infeasible
		if m.sq[k] > b || w.gain[t+1][b-m.sq[k]] < -feasible {
			continue
		}
		child[k] = -noise - w.table[t][k] - w.gain[t+1][b-m.sq[k]]
		w.enough[k] = (incumbent-child[k])>>w.n.shift + 1
		lost[k] = loss
		alive = append(alive, k)
	}
	idx, score := w.open[t][:rows], w.score[t][:rows]
	at := &w.rows
	for len(idx) > 0 && len(alive) > 0 {
		n := min(block, len(idx))
		for i, g := range idx[:n] {
			at.x[i], at.taxi[i] = m.x[t][g], m.taxi[t+1][g]
			at.euclid[i] = m.euclid[t+1][g]
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

// lose returns a lower bound on the loss of a block of rows where the column has value v and leaves
// squared norm root² to the columns after it.
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
