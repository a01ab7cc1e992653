// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"slices"
	"sync/atomic"
)

// climber improves a point by changes of one or two columns: a good incumbent early saves more
// nodes than the climb costs.
type climber struct {
	// cost returns the change of the objective, without the noise of the norm, when column t moves
	// from value index was to k, and ok = false where the change is not known.
	cost func(t, was, k int) (v fixed, ok bool)
	// move makes the change.
	move func(t, was, k int)

	k    []int                // value index per column, in the order of fixing
	free [][]int              // value indices a column may take
	sq   []int                // squared norm by value index
	norm func(left int) fixed // noise of the norm, by the squared norm left
	left int                  // squared norm left; may be negative between the two changes of a pair
	stop *atomic.Bool
}

// climb moves until no change of two columns helps, and returns the decrease of the objective.
func (c *climber) climb() (gain fixed) {
	for !c.stop.Load() {
		change := c.single()
		if change >= 0 {
			change = c.pair()
		}
		if change >= 0 {
			break
		}
		gain -= change
	}
	return gain
}

// after is the squared norm left after column t moves to value index k.
func (c *climber) after(t, k int) int { return c.left + c.sq[c.k[t]] - c.sq[k] }

// set moves column t to value index k.
func (c *climber) set(t, k int) {
	c.move(t, c.k[t], k)
	c.left, c.k[t] = c.after(t, k), k
}

// single makes the best change of one column, if one helps, and returns the change of the
// objective.
func (c *climber) single() fixed {
	best, at := fixed(0), -1
	to := 0
	for t, was := range c.k {
		if c.stop.Load() {
			return 0
		}
		for _, k := range c.free[t] {
			left := c.after(t, k)
			if k == was || left < 0 {
				continue
			}
			if v, ok := c.cost(t, was, k); ok && v+c.norm(c.left)-c.norm(left) < best {
				best, at = v+c.norm(c.left)-c.norm(left), t
				to = k
			}
		}
	}
	if at >= 0 {
		c.set(at, to)
	}
	return best
}

// pair makes the first change of two columns by one value each that helps, and returns the change
// of the objective.
func (c *climber) pair() fixed {
	before := c.norm(c.left)
	for t, was := range c.k {
		if c.stop.Load() {
			return 0
		}
		for _, k := range c.free[t] {
			if abs(k-was) != 1 {
				continue
			}
			first, ok := c.cost(t, was, k)
			if !ok {
				continue
			}
			c.set(t, k)
			for u, old := range c.k[:t] {
				for _, l := range c.free[u] {
					left := c.after(u, l)
					if abs(l-old) != 1 || left < 0 {
						continue
					}
					second, ok := c.cost(u, old, l)
					if v := first + second + before; ok && v < c.norm(left) {
						c.set(u, l)
						return v - c.norm(left)
					}
				}
			}
			c.set(t, was)
		}
	}
	return 0
}

func abs(v int) int { return max(v, -v) }

// start climbs from the point that maximizes the noise and from the point of least norm, and offers
// both results.
func (w *genericWorker) start() {
	m := w.m
	d := len(m.order)
	score, loss := make([]int64, len(m.pos)), int64(0) // ⟨x, w⟩ per row, and the loss of the point
	// lose returns the loss after the weight of column t grows by step.
	lose := func(t int, step int64) (loss int64) {
		x := m.x[t]
		for g, s := range score {
			wrong := m.pos[g]
			if s+step*x[g] > 0 {
				wrong = m.neg[g]
			}
			loss += int64(wrong)
		}
		return loss
	}
	step := func(was, k int) int64 { return int64(m.values[k] - m.values[was]) }
	c := &climber{
		cost: func(t, was, k int) (fixed, bool) {
			change := lose(t, step(was, k)) - loss
			return change<<w.n.shift + w.table[t][was] - w.table[t][k], true
		},
		move: func(t, was, k int) {
			by := step(was, k)
			loss = lose(t, by)
			for g, x := range m.x[t] {
				score[g] += by * x
			}
		},
		k: make([]int, d), free: w.free, sq: m.sq,
		norm: func(left int) fixed { return w.gain[d][left] }, stop: &w.run.stop,
	}
	for _, noisy := range []bool{true, false} {
		c.left = m.top
		clear(score)
		noise := fixed(0)
		for t := range c.k {
			b, pick := c.left, -1
			for _, k := range w.free[t] {
				switch fits := m.sq[k] <= b && w.gain[t+1][b-m.sq[k]] > -feasible; {
				case !fits:
				case noisy && w.table[t][k]+w.gain[t+1][b-m.sq[k]] == w.gain[t][b],
					!noisy && (pick < 0 || abs(m.values[k]) < abs(m.values[pick])):
					pick = k
				}
			}
			if pick < 0 {
				return // the domain has no point
			}
			c.k[t] = pick
			c.left -= m.sq[pick]
			noise += w.table[t][pick]
			for g, x := range m.x[t] {
				score[g] += int64(m.values[pick]) * x
			}
		}
		loss = lose(0, 0)
		value := loss<<w.n.shift - noise - c.norm(c.left)
		value -= c.climb()
		for t, k := range c.k {
			w.point[m.order[t]] = m.values[k]
		}
		w.inc.offer(value, w.point)
	}
}

// polisher climbs from the points of a cell search over the 0/1 columns, with the dense columns
// loaded in its cellState.
type polisher struct {
	climber
	s   *cellState
	sum []int // Σ w_j of every cell, as an index in its table
}

func newPolisher(s *cellState, stop *atomic.Bool) *polisher {
	m := s.m
	p := &polisher{s: s, sum: make([]int, len(m.start)-1)}
	p.climber = climber{
		cost: p.change, move: p.shift, k: make([]int, len(m.cat)), free: s.free, sq: m.sq,
		norm: func(left int) fixed { return s.z[m.top-left] }, stop: stop,
	}
	return p
}

func (p *polisher) shift(t, was, k int) {
	step := p.s.m.values[k] - p.s.m.values[was]
	for _, c := range p.s.m.cells[t] {
		p.sum[c] += step
	}
}

// change is not known where the sum of a cell leaves its table.
func (p *polisher) change(t, was, k int) (v fixed, ok bool) {
	s, m := p.s, p.s.m
	step := m.values[k] - m.values[was]
	loss := int64(0)
	for _, c := range m.cells[t] {
		cl := &m.classes[c]
		end := cl.table + m.windows[cl.size].width()
		from := p.sum[c]
		to := from + step
		if min(from, to) < cl.table || max(from, to) >= end {
			return 0, false
		}
		loss += int64(s.table[to] - s.table[from])
	}
	return loss<<s.shift + s.noise[t][was] - s.noise[t][k], true
}

// improve climbs from the point in s.w, where the dense columns leave squared norm b. It writes the
// improved point to s.point and returns the decrease of the objective.
func (p *polisher) improve(b int) (gain fixed) {
	s, m := p.s, p.s.m
	p.left = b
	for a, v := range s.w {
		p.k[a], _ = slices.BinarySearch(m.values, v)
		p.left -= m.sq[p.k[a]]
	}
	for c := range p.sum {
		cl := &m.classes[c]
		p.sum[c] = cl.table + m.windows[cl.size].base()
		for _, a := range cl.cols {
			p.sum[c] += s.w[a]
		}
	}
	gain = p.climb()
	for i, j := range m.dense {
		s.point[j] = s.combo[i]
	}
	for a, j := range m.cat {
		s.point[j] = m.values[p.k[a]]
	}
	return gain
}
