// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"math"
	"slices"
)

// Objectives of points, and their bounds, lie within ±feasible steps of the noise; a larger value
// stands for "no point".
const (
	feasible   fixed = 1 << 60
	infeasible fixed = 1<<61 + 1<<60
)

// cellState is a node of the search and the buffers of all its ancestors, laid out by
// cellModel.compile. One worker owns it.
type cellState struct {
	m     *cellModel
	shift int
	noise [][]fixed // T[t][k] of cat[t]
	dense [][]fixed // T[i][k] of dense[i]
	z     []fixed   // noise of the norm, by squared norm
	free  [][]int   // free[t]: value indices that column cat[t] may take
	given [][]int   // given[i]: those of column dense[i]

	table  []int32 // F of the classes
	charge []int32 // C of the classes
	sum    []int32 // H of the sums

	combo []int     // values of the dense columns
	w     []int     // values of cat; those before the depth of the node are fixed
	h     [][]fixed // h[t][k] of the last bound computed
	best  [][]fixed // best[t][b]: min Σ_{s ≥ t} h_s with squared norm b
	child [][]fixed // child[t][k]: bound of the node that fixes w_t at depth t
	point []int     // a point in the order of the problem's columns
	loss  []int64
	least []fixed // min of h over the values of one squared norm
	sqs   []int   // distinct squared norms
	ofSq  []int   // value index → index in sqs
}

func newCellState(m *cellModel, r *run, domain [][]bool) *cellState {
	s := &cellState{
		m: m, shift: r.n.shift, z: make([]fixed, m.top+1),
		table: make([]int32, m.tables), charge: make([]int32, m.entries), sum: make([]int32, m.sumSize),
		combo: make([]int, len(m.dense)), w: make([]int, len(m.cat)), point: make([]int, r.p.dim),
		loss: make([]int64, len(m.values)), ofSq: make([]int, len(m.values)),
	}
	copy(s.z, r.n.norm)
	s.noise, s.free = m.columns(r, m.cat, domain)
	s.dense, s.given = m.columns(r, m.dense, domain)
	for k, q := range m.sq {
		i := slices.Index(s.sqs, q)
		if i < 0 {
			i = len(s.sqs)
			s.sqs = append(s.sqs, q)
		}
		s.ofSq[k] = i
	}
	s.least = make([]fixed, len(s.sqs))
	s.h, s.child = grid[fixed](len(m.cat), len(m.values)), grid[fixed](len(m.cat), len(m.values))
	s.best = grid[fixed](len(m.cat)+1, m.top+1)
	fill(s.best[len(m.cat)][1:], infeasible)
	return s
}

func fill(dst []fixed, v fixed) {
	for i := range dst {
		dst[i] = v
	}
}

// load fixes the dense columns at the value indices combo, which leave squared norm b, and fills
// the tables of the cells. It returns the decided part of the objective.
func (s *cellState) load(combo []int8, b int) fixed {
	m := s.m
	decided := fixed(0)
	for i, k := range combo {
		s.combo[i] = m.values[k]
		decided -= s.dense[i][k]
	}
	for c := range len(m.start) - 1 {
		cl := &m.classes[c]
		w := &m.windows[cl.size]
		base, width := w.base(), w.width()
		f := s.table[cl.table : cl.table+width]
		clear(f)
		positive := int32(0)
		for r := m.start[c]; r < m.start[c+1]; r++ {
			row := &m.rows[r]
			var offset int64 // ⟨x, w⟩ of the dense columns
			for i, x := range m.x[r*len(m.dense) : (r+1)*len(m.dense)] {
				offset += x * int64(s.combo[i])
			}
			// offset + s T > 0 ⇔ T ≥ ⌊-offset/s⌋ + 1
			positive += row.pos
			if at := floorDiv(-offset, row.scale) + 1 + int64(base); at < int64(width) {
				f[max(at, 0)] += row.neg - row.pos
			}
		}
		for t, change := range f {
			positive += change
			f[t] = positive
		}
		if cl.size > 0 {
			s.chargeClass(c, b)
		} else {
			decided += fixed(f[base]) << s.shift
		}
	}
	s.addSums(0, b)
	return decided
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 { // b > 0
		q--
	}
	return q
}

// chargeClass computes C[i][k] = min { F[v_k + r] : r in interval i of the window of the other
// columns }.
func (s *cellState) chargeClass(id, b int) {
	m := s.m
	cl := &m.classes[id]
	w, rest := &m.windows[cl.size], &m.windows[cl.size-1]
	f := s.table[cl.table : cl.table+w.width()]
	nv := len(m.values)
	c := s.charge[cl.charge : cl.charge+len(rest.lo)*nv]
	for k, v := range m.values {
		left := b - m.sq[k]
		if left < 0 || rest.level[left] < 0 {
			continue
		}
		at := w.base() + v
		if cl.size == 1 { // no other column
			c[k] = f[at]
			continue
		}
		from, to := at+rest.lo[0], at+rest.hi[0]
		least := slices.Min(f[from : to+1])
		c[k] = least
		los, his := rest.lo[1:rest.level[left]+1], rest.hi[1:rest.level[left]+1]
		out := k
		for i, lo := range los {
			for from > at+lo {
				from--
				least = min(least, f[from])
			}
			for to < at+his[i] {
				to++
				least = min(least, f[to])
			}
			out += nv
			c[out] = least
		}
	}
}

// addSums computes the new sums of depth t for squared norm b.
func (s *cellState) addSums(t, b int) {
	m := s.m
	nv := len(m.values)
	for i := range m.adds[t] {
		a := &m.adds[t][i]
		size := m.sums[a.dst].size
		levels := m.windows[size-1].level[b] + 1 // enough for every k
		n := levels * nv
		if n <= 0 {
			continue
		}
		dst := s.sum[m.sums[a.dst].offset:][:n]
		if a.keep >= 0 {
			copy(dst, s.sum[m.sums[a.keep].offset:][:n])
		} else {
			clear(dst)
		}
		for _, change := range a.classes {
			c := s.charge[m.classes[change[0]].charge:][:n]
			if change[1] < 0 {
				for j, v := range c {
					dst[j] += v
				}
				continue
			}
			old := s.charge[m.classes[change[1]].charge:][:n]
			for j, v := range c {
				dst[j] += v - old[j]
			}
		}
	}
}

// fix sets column cat[t] to value index k, which leaves squared norm b, and returns the change of
// the decided part of the objective.
func (s *cellState) fix(t, k, b int) fixed {
	m := s.m
	v := m.values[k]
	s.w[t] = v
	decided := -s.noise[t][k]
	for _, f := range m.folds[t] {
		from := &m.classes[f.from]
		src := from.table + m.windows[from.size].base() + v
		if f.dst < 0 {
			decided += fixed(s.table[src]) << s.shift
			continue
		}
		dst := &m.classes[f.dst]
		w := &m.windows[dst.size]
		level := w.level[b]
		if level < 0 {
			continue // there is no point below, which bound will find
		}
		lo, hi := w.lo[level], w.hi[level]
		zero := dst.table + w.base()
		out, in := s.table[zero+lo:zero+hi+1], s.table[src+lo:src+hi+1]
		if f.keep >= 0 {
			kept := m.classes[f.keep].table + w.base()
			keep := s.table[kept+lo : kept+hi+1]
			for i := range out {
				out[i] = in[i] + keep[i]
			}
		} else {
			copy(out, in)
		}
		s.chargeClass(f.dst, b)
	}
	s.addSums(t+1, b)
	return decided
}

// bound computes h and best for the columns from t on, with squared norm b left, and the bound of
// every child in child[t]; decided is the decided part of the objective. It returns the least bound
// and its value index, or −1.
//
//	h_a[k] = Σ over classes with first column a of C[i(b - v_k²)][k] - T_a[k]
//	bound  = decided + min_q { min-plus knapsack of the h at q - z[Q - b + q] }
func (s *cellState) bound(t, b int, decided fixed) (fixed, int) {
	m := s.m
	nv := len(m.values)
	live := m.live[t]
	first := len(live)
	for a := len(m.cat) - 1; a >= t; a-- {
		loss := s.loss
		clear(loss)
		for first > 0 && m.sums[live[first-1]].a == a {
			first--
			sum := &m.sums[live[first]]
			level := m.windows[sum.size-1].level
			for k := range loss {
				if m.sq[k] > b {
					continue
				}
				if i := level[b-m.sq[k]]; i >= 0 {
					loss[k] += int64(s.sum[sum.offset+i*nv+k])
				} else {
					loss[k] = math.MinInt64 / 2
				}
			}
		}
		h := s.h[a]
		fill(s.least, infeasible)
		fill(h, infeasible)
		for _, k := range s.free[a] {
			if m.sq[k] > b || loss[k] < 0 {
				continue
			}
			h[k] = loss[k]<<s.shift - s.noise[a][k]
			s.least[s.ofSq[k]] = min(s.least[s.ofSq[k]], h[k])
		}
		if a == t {
			break
		}
		s.knapsack(s.best[a][:b+1], s.best[a+1][:b+1])
	}
	return s.children(t, b, decided)
}

// knapsack is dst[q] = min_e from[q - sqs[e]] + least[e].
func (s *cellState) knapsack(dst, from []fixed) {
	fill(dst, infeasible)
	for e, sq := range s.sqs {
		h := s.least[e]
		if h == infeasible || sq >= len(dst) {
			continue
		}
		out := dst[sq:]
		for q, v := range from[:len(out)] {
			out[q] = min(out[q], v+h)
		}
	}
}

// children computes child[t] from the knapsack over the columns after t.
func (s *cellState) children(t, b int, decided fixed) (fixed, int) {
	least, at := infeasible, -1
	fill(s.child[t], infeasible)
	for _, k := range s.free[t] {
		h := s.h[t][k]
		if h == infeasible {
			continue
		}
		v := decided + h + s.rest(t+1, b-s.m.sq[k])
		if v > feasible {
			continue
		}
		s.child[t][k] = v
		if v < least {
			least, at = v, k
		}
	}
	return least, at
}

// rest returns the least cost of the columns from t on and of the norm, with the given squared norm
// left.
func (s *cellState) rest(t, left int) fixed {
	least := infeasible
	z := s.z[s.m.top-left:]
	for q, v := range s.best[t][:left+1] {
		least = min(least, v-z[q])
	}
	return least
}

// descend sets the columns from t on to a minimizer of the relaxation that bound solved, with value
// index k in column t.
func (s *cellState) descend(t, k, b int) {
	m := s.m
	s.w[t] = m.values[k]
	b -= m.sq[k]
	q, least := 0, infeasible
	z := s.z[m.top-b:]
	for i, v := range s.best[t+1][:b+1] {
		if v-z[i] < least {
			q, least = i, v-z[i]
		}
	}
	for a := t + 1; a < len(m.cat); a++ {
		for _, k := range s.free[a] {
			if m.sq[k] <= q && s.h[a][k] < infeasible && s.best[a+1][q-m.sq[k]]+s.h[a][k] == s.best[a][q] {
				s.w[a] = m.values[k]
				q -= m.sq[k]
				break
			}
		}
	}
}

// objective returns the objective of the point in w below the node of depth t.
func (s *cellState) objective(t int, decided fixed) fixed {
	m := s.m
	loss := int64(0)
	for _, id := range m.present[t] {
		cl := &m.classes[id]
		sum := m.windows[cl.size].base() // Σ w_j, centered
		for _, a := range cl.cols {
			sum += s.w[a]
		}
		loss += int64(s.table[cl.table+sum])
	}
	v := decided + fixed(loss)<<s.shift
	for a := t; a < len(m.cat); a++ {
		k, _ := slices.BinarySearch(m.values, s.w[a])
		v -= s.noise[a][k]
	}
	if !m.weigh {
		return v - s.z[0]
	}
	sq := 0
	for _, x := range s.combo {
		sq += x * x
	}
	for _, x := range s.w {
		sq += x * x
	}
	return v - s.z[sq]
}

// full returns the point in w in the order of the columns of the problem.
func (s *cellState) full() []int {
	for i, j := range s.m.dense {
		s.point[j] = s.combo[i]
	}
	for t, j := range s.m.cat {
		s.point[j] = s.w[t]
	}
	return s.point
}
