// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
)

// cells solves a Problem whose columns are mostly 0/1. It enumerates the weights of the dense
// columns (see cellModel) and branches on the 0/1 columns. A node is bounded by charging each
// undecided cell to its next column a,
//
//	h_a[k] = Σ_c min { F_c(fixed part + k + t) : t reachable by its other columns } − T_a[k],
//
// and by the exact minimum of Σ_j h_j[w_j] − z[‖w‖²], a knapsack over squared norms. Cells with the
// same unfixed columns are added before the minimum is taken, which can only raise the bound. The
// bound is the minimum where each cell has one unfixed column.
func (s Search) cells(ctx context.Context, p *Problem) (*Solution, error) {
	m, err := p.cells(cmp.Or(max(s.Memory, 0), 1<<28))
	if err != nil {
		return nil, err
	}
	combos, err := m.combine(p, cmp.Or(max(s.Combos, 0), 1e5))
	if err != nil {
		return nil, err
	}
	return s.newRun(p).settle(ctx, m.engine(combos))
}

// combine lists the combinations of the weights of the dense columns, as value indices.
func (m *cellModel) combine(p *Problem, limit int) (combos [][]int8, err error) {
	rest := 0 // least squared norm of the columns that are not fixed
	if m.weigh {
		rest = p.space.least(p.dim)[0]
	}
	combos = [][]int8{nil}
	for _, j := range m.dense {
		if m.weigh {
			rest -= p.space.leastSquare(j)
		}
		var next [][]int8
		for _, combo := range combos {
			for k, sq := range m.sq {
				if p.space.allowed(j, m.source[k]) && sq+rest <= m.left(combo) {
					next = append(next, append(slices.Clip(combo), int8(k)))
				}
			}
			if len(next) > limit {
				return nil, fmt.Errorf("%w: more than %d combinations of the %d columns that are not 0/1; raise Combos",
					ErrLimit, limit, len(m.dense))
			}
		}
		combos = next
	}
	return combos, nil
}

// left returns the squared norm that a combination leaves to the 0/1 columns.
func (m *cellModel) left(combo []int8) int {
	b := m.top
	for _, k := range combo {
		b -= m.sq[k]
	}
	return b
}

// engine searches below the given combinations.
func (m *cellModel) engine(combos [][]int8) engine {
	return func(domain [][]bool, inc *incumbent, r *run) fixed {
		ws := make([]*cellWorker, r.workers)
		order := slices.Concat(m.dense, m.cat)
		for i := range ws {
			ws[i] = &cellWorker{
				searcher: searcher{inc: inc, run: r, left: unreached, order: order, values: m.values},
				m:        m, s: newCellState(m, r, domain),
			}
		}
		// Bound the root of every combination, the most promising noise first.
		tasks := ws[0].s.noiseBounds(combos)
		var at atomic.Int64
		together(ws, func(w *cellWorker) fixed {
			for {
				i := len(tasks) - int(at.Add(1))
				if i < 0 {
					return unreached
				}
				t := &tasks[i]
				if w.prune(t.bound, t.choices) {
					t.bound = unreached
				} else {
					t.bound = max(t.bound, w.root(t.choices))
				}
			}
		})
		return explore(ws, slices.DeleteFunc(tasks, func(t task) bool { return t.bound > feasible }))
	}
}

// noiseBounds returns the combinations as sorted tasks, bounded by Σ_g min(pos_g, neg_g) minus the
// largest noise.
func (s *cellState) noiseBounds(combos [][]int8) (order []task) {
	m := s.m
	floor := fixed(0)
	for _, r := range m.rows {
		floor += fixed(min(r.pos, r.neg))
	}
	floor <<= s.shift
	for a := len(m.cat) - 1; a >= 0; a-- {
		fill(s.least, infeasible)
		for _, k := range s.free[a] {
			s.least[s.ofSq[k]] = min(s.least[s.ofSq[k]], -s.noise[a][k])
		}
		s.knapsack(s.best[a], s.best[a+1])
	}
next:
	for _, combo := range combos {
		v := floor
		for j, k := range combo {
			if !slices.Contains(s.given[j], int(k)) {
				continue next
			}
			v -= s.dense[j][k]
		}
		order = append(order, task{bound: v + s.rest(0, m.left(combo)), choices: combo})
	}
	slices.SortFunc(order, task.compare)
	return order
}

type cellWorker struct {
	searcher
	m *cellModel
	s *cellState
}

// root bounds a combination and offers the minimizer of its relaxation.
func (w *cellWorker) root(combo []int8) fixed {
	s := w.s
	b := w.m.left(combo)
	decided := s.load(combo, b)
	w.run.step(1)
	bound, k := s.bound(0, b, decided)
	if k >= 0 {
		s.descend(0, k, b)
		w.inc.offer(s.objective(0, decided), s.full())
	}
	return bound
}

// take explores the subtree of a task.
func (w *cellWorker) take(t task) {
	if w.prune(t.bound, t.choices) {
		return
	}
	m := w.m
	nd := len(m.dense)
	w.path = append(w.path[:0], t.choices...)
	b := m.left(t.choices[:nd])
	decided := w.s.load(t.choices[:nd], b)
	for i, k := range t.choices[nd:] {
		b -= m.sq[k]
		decided += w.s.fix(i, int(k), b)
	}
	w.node(len(t.choices)-nd, b, decided, t.bound)
}

// node explores the points below a node of depth t whose fixed columns have the objective decided
// and leave squared norm b.
func (w *cellWorker) node(t, b int, decided, bound fixed) {
	s, m := w.s, w.m
	if w.run.step(1) {
		w.left = min(w.left, bound)
		return
	}
	best, k := s.bound(t, b, decided)
	if k < 0 || w.prune(best, w.path) {
		return
	}
	if m.exact[t] {
		w.minimizers(t, b, decided, best)
		return
	}
	s.descend(t, k, b)
	w.inc.offer(s.objective(t, decided), s.full())
	for {
		k, least := w.next(len(m.dense)+t, s.free[t], s.child[t], len(m.cat)-t > 4)
		if k < 0 {
			return
		}
		left := b - m.sq[k]
		w.node(t+1, left, decided+s.fix(t, k, left), least)
	}
}

// minimizers offers two minimizers of an exact relaxation of value best, or the only one.
func (w *cellWorker) minimizers(t, b int, decided, best fixed) {
	s, m := w.s, w.m
	found := 0
	// walk completes the columns from a on with squared norm q at cost best[a][q].
	var walk func(a, q int)
	walk = func(a, q int) {
		if a == len(m.cat) {
			found++
			w.inc.offer(best, s.full())
			return
		}
		for _, k := range s.free[a] {
			if m.sq[k] <= q && s.h[a][k] < infeasible && s.best[a+1][q-m.sq[k]]+s.h[a][k] == s.best[a][q] && found < 2 {
				s.w[a] = m.values[k]
				walk(a+1, q-m.sq[k])
			}
		}
	}
	for _, k := range s.free[t] {
		if s.child[t][k] != best {
			continue
		}
		s.w[t] = m.values[k]
		left := b - m.sq[k]
		for q, v := range s.best[t+1][:left+1] {
			if decided+s.h[t][k]+v-s.z[m.top-left+q] == best && found < 2 {
				walk(t+1, q)
			}
		}
	}
}
