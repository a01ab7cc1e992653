package objpert

import "slices"

// polisher improves points by changing one or two 0/1 columns, the dense
// columns as loaded in its cellState. It starts from the points that relaxations
// suggest; a good incumbent early is worth more than its cost.
type polisher struct {
	s    *cellState
	k    []int // value index per column of cat
	sum  []int // Σ w_j of every cell, centered in its table
	left int   // squared norm left, negative between the two changes of a pair
}

func newPolisher(s *cellState) *polisher {
	return &polisher{s: s, k: make([]int, len(s.m.cat)), sum: make([]int, len(s.m.start)-1)}
}

// improve moves from the point in s.w, where b is the squared norm that the
// dense columns leave, until no change of two columns helps. It leaves s.w as
// it was, with the improvement in s.point, and returns what it gained.
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
	for {
		change := p.single()
		if change >= 0 {
			change = p.pair()
		}
		if change >= 0 {
			break
		}
		gain -= change
	}
	for i, j := range m.dense {
		s.point[j] = s.combo[i]
	}
	for a, j := range m.cat {
		s.point[j] = m.values[p.k[a]]
	}
	return gain
}

// single makes the best change of one column and returns what it costs, or 0.
func (p *polisher) single() fixed {
	m := p.s.m
	best, at, to := fixed(0), -1, 0
	for a := range p.k {
		for _, k := range p.s.free[a] {
			left := p.left + m.sq[p.k[a]] - m.sq[k]
			v, ok := p.cost(a, k)
			if !ok || left < 0 {
				continue
			}
			if v += p.s.z[m.top-p.left] - p.s.z[m.top-left]; v < best {
				best, at, to = v, a, k
			}
		}
	}
	if at >= 0 {
		p.move(at, to)
	}
	return best
}

// pair makes the first change of two columns by one step each that helps.
func (p *polisher) pair() fixed {
	m := p.s.m
	before := p.left
	for a := range p.k {
		was := p.k[a]
		for _, k := range p.s.free[a] {
			if k != was-1 && k != was+1 {
				continue
			}
			first, ok := p.cost(a, k)
			if !ok {
				continue
			}
			p.move(a, k)
			for c := range a {
				for _, l := range p.s.free[c] {
					if l != p.k[c]-1 && l != p.k[c]+1 {
						continue
					}
					left := p.left + m.sq[p.k[c]] - m.sq[l]
					second, ok := p.cost(c, l)
					if !ok || left < 0 {
						continue
					}
					if v := first + second + p.s.z[m.top-before] - p.s.z[m.top-left]; v < 0 {
						p.move(c, l)
						return v
					}
				}
			}
			p.move(a, was)
		}
	}
	return 0
}

// move sets column a to value index k.
func (p *polisher) move(a, k int) {
	m := p.s.m
	step := m.values[k] - m.values[p.k[a]]
	for _, c := range m.cells[a] {
		p.sum[c] += step
	}
	p.left += m.sq[p.k[a]] - m.sq[k]
	p.k[a] = k
}

// cost is the change of the objective, but for the norm, when column a moves to
// value index k; ok is false where it does not move, or a table does not reach
// that far.
func (p *polisher) cost(a, k int) (v fixed, ok bool) {
	s, m := p.s, p.s.m
	if k == p.k[a] {
		return 0, false
	}
	step := m.values[k] - m.values[p.k[a]]
	loss := int64(0)
	for _, c := range m.cells[a] {
		cl := &m.classes[c]
		end := cl.table + m.windows[cl.size].width()
		from := p.sum[c]
		to := from + step
		if min(from, to) < cl.table || max(from, to) >= end {
			return 0, false
		}
		loss += int64(s.table[to] - s.table[from])
	}
	return fixed(loss)<<s.shift + s.noise[a][p.k[a]] - s.noise[a][k], true
}
