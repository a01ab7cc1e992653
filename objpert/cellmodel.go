// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// cellModel is a Problem whose rows are 0/1 in most columns, up to one scale per row: x_gj ∈ {0,
// s_g} for the columns j of cat. Rows with the same active columns, those with x_gj ≠ 0, form a
// cell c. Once the weights of the other ("dense") columns are fixed, the loss of a cell is a
// function F_c of the weight T = Σ_{j active} w_j.
//
// The search fixes cat[0], cat[1], … in this order. Cells whose unfixed active columns agree form
// one class, whose table is the sum of their tables, shifted by the fixed weights. The classes of
// depth t do not depend on the fixed values: the search runs a program that is compiled once, and
// allocates nothing.
type cellModel struct {
	alphabet
	cat, dense []int // columns of the problem

	rows  []cellRow // by cell
	x     []int64   // len(dense) per row
	start []int     // rows of cell c are rows[start[c]:start[c+1]]

	cells   [][]int    // cells[a]: the cells in which column cat[a] is active
	windows []window   // by the number of columns of a class
	classes []class    // the cells first, then the results of folds
	sums    []sumTable // sums over classes that share their first column and size
	folds   [][]fold   // folds[t] fixes cat[t]
	adds    [][]add    // adds[t]: the new sums of depth t
	live    [][]int    // live[t]: the sums that bound nodes of depth t
	present [][]int    // present[t]: the classes of depth t
	tables  int        // entries of all class tables
	entries int        // entries of all charge tables
	sumSize int        // entries of all sum tables
	exact   []bool     // exact[t]: no class of depth t has two columns
	extra   int64      // bytes of everything else, about
}

type cellRow struct {
	scale    int64
	pos, neg int32
}

// window holds the possible sums of m coordinates: with squared norm b they lie in the interval
// lo[i]..hi[i], i = level[b]. The intervals grow with i.
type window struct {
	level  []int
	lo, hi []int
}

func (w *window) width() int { return w.hi[len(w.hi)-1] - w.lo[len(w.lo)-1] + 1 }
func (w *window) base() int  { return -w.lo[len(w.lo)-1] } // index of T = 0

type class struct {
	size   int   // m, the number of columns that are not fixed
	cols   []int // their positions in cat, increasing
	table  int   // offset of F[T], windows[m].width() entries
	charge int   // offset of C[i][k], levels of windows[m-1] × values
}

// fold computes class dst of depth t+1: class keep, if any, plus class from shifted by w_t.
type fold struct{ dst, keep, from int }

// sumTable holds H[i][k] = Σ C over the classes with first column a and size m.
type sumTable struct{ a, size, offset int }

// add computes sum dst from sum keep, if any, and the changes of classes.
type add struct {
	dst, keep int
	classes   [][2]int // new class, and the class that it replaces or −1
}

const maxCells = 1 << 20

// newCellModel returns the cell model of p. The error wraps ErrLimit if no column is 0/1, or if the
// tables are too large.
func newCellModel(p *Problem, memory int64) (*cellModel, error) {
	m := &cellModel{alphabet: newAlphabet(p)}
	scale := m.classify(p)
	if len(m.cat) == 0 {
		return nil, fmt.Errorf("%w: no column is 0/1 up to a scale of each row", ErrLimit)
	}
	m.order(p)
	if err := m.setCells(p, scale); err != nil {
		return nil, err
	}
	largest := 0
	for _, c := range m.classes {
		largest = max(largest, c.size)
	}
	// levels of the windows, knapsacks and a few numbers per cell
	m.extra = 8 * int64(largest+len(m.cat)+4) * int64(m.top+1)
	if err := m.fits(memory); err != nil {
		return nil, err
	}
	m.setWindows(largest)
	if err := m.compile(memory); err != nil {
		return nil, err
	}
	return m, nil
}

// classify chooses cat. It starts from the columns without negative entries and, while a row has
// two different positive entries, drops the column that most often differs from the most frequent
// entry of its row. It returns the positive entry of each row.
func (m *cellModel) classify(p *Problem) []int64 {
	in := make([]bool, p.dim)
	for j := range in {
		in[j] = !slices.ContainsFunc(p.x, func(x []int64) bool { return x[j] < 0 })
	}
	scale := make([]int64, len(p.x))
	count := make(map[int64]int)
	differs := make([]int, p.dim)
	for {
		clear(differs)
		for g, x := range p.x {
			clear(count)
			best, tie := int64(1), true
			for j, v := range x {
				if !in[j] || v == 0 {
					continue
				}
				count[v]++
				switch {
				case v == best:
					tie = false
				case count[v] > count[best]:
					best, tie = v, false
				case count[v] == count[best]:
					tie = true
				}
			}
			scale[g] = best
			if len(count) < 2 {
				continue
			}
			for j, v := range x {
				if in[j] && v != 0 && (v != best || tie) {
					differs[j]++
				}
			}
		}
		worst := 0
		for j := range differs {
			if differs[j] > differs[worst] {
				worst = j
			}
		}
		if differs[worst] == 0 {
			break
		}
		in[worst] = false
	}
	for j, ok := range in {
		if ok {
			m.cat = append(m.cat, j)
		} else {
			m.dense = append(m.dense, j)
		}
	}
	return scale
}

// order sorts cat by decreasing mass Σ_g |pos_g − neg_g| over the rows with x_gj ≠ 0.
func (m *cellModel) order(p *Problem) {
	mass := make([]int, p.dim)
	for g, x := range p.x {
		for _, j := range m.cat {
			if x[j] != 0 {
				mass[j] += max(p.pos[g]-p.neg[g], p.neg[g]-p.pos[g])
			}
		}
	}
	slices.SortStableFunc(m.cat, func(a, b int) int { return mass[b] - mass[a] })
}

// setCells groups the rows by their active columns. Rows without active columns come first.
func (m *cellModel) setCells(p *Problem, scale []int64) error {
	active := make([][]int, len(p.x))
	order := make([]int, len(p.x))
	for g, x := range p.x {
		order[g] = g
		for t, j := range m.cat {
			if x[j] != 0 {
				active[g] = append(active[g], t)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(active[a], active[b]) })
	for i, g := range order {
		if i == 0 || !slices.Equal(active[g], active[order[i-1]]) {
			m.start = append(m.start, i)
			m.classes = append(m.classes, class{size: len(active[g]), cols: active[g]})
		}
		m.rows = append(m.rows, cellRow{scale: scale[g], pos: int32(p.pos[g]), neg: int32(p.neg[g])})
		for _, j := range m.dense {
			m.x = append(m.x, p.x[g][j])
		}
	}
	m.start = append(m.start, len(m.rows))
	m.cells = make([][]int, len(m.cat))
	for c := range m.classes {
		for _, a := range m.classes[c].cols {
			m.cells[a] = append(m.cells[a], c)
		}
	}
	if len(m.classes) > maxCells {
		return fmt.Errorf("%w: more than %d cells of 0/1 columns", ErrLimit, maxCells)
	}
	return nil
}

// setWindows computes the windows of 0, …, largest coordinates.
func (m *cellModel) setWindows(largest int) {
	const none = math.MaxInt32
	hi := make([]int, m.top+1) // greatest sum of n coordinates with squared norm ≤ b
	lo := make([]int, m.top+1)
	for n := 0; n <= largest; n++ {
		var w window
		w.level = make([]int, m.top+1)
		for b := range m.top + 1 {
			switch last := len(w.lo) - 1; {
			case hi[b] == -none: // no n coordinates fit in b
				w.level[b] = -1
			case last >= 0 && w.lo[last] == lo[b] && w.hi[last] == hi[b]:
				w.level[b] = last
			default:
				w.lo, w.hi = append(w.lo, lo[b]), append(w.hi, hi[b])
				w.level[b] = last + 1
			}
		}
		m.windows = append(m.windows, w)
		nextLo, nextHi := make([]int, m.top+1), make([]int, m.top+1)
		for b := range m.top + 1 {
			nextLo[b], nextHi[b] = none, -none
			for k, v := range m.values {
				if rest := b - m.sq[k]; rest >= 0 && hi[rest] != -none {
					nextLo[b] = min(nextLo[b], lo[rest]+v)
					nextHi[b] = max(nextHi[b], hi[rest]+v)
				}
			}
		}
		lo, hi = nextLo, nextHi
	}
}

// fits returns an error if the model takes more than memory bytes.
func (m *cellModel) fits(memory int64) error {
	if 4*int64(m.tables+m.entries+m.sumSize)+m.extra > memory {
		return fmt.Errorf("%w: tables of the cells need more than %d bytes per worker; raise Memory", ErrLimit, memory)
	}
	return nil
}

// compile lays out the classes and sums of every depth.
func (m *cellModel) compile(memory int64) error {
	key := func(cols []int) string {
		b := make([]byte, 0, 2*len(cols))
		for _, c := range cols {
			b = append(b, byte(c), byte(c>>8))
		}
		return string(b)
	}
	at := make(map[string]int)                  // columns → current class
	byFirst := make([]map[int]bool, len(m.cat)) // current classes by first column
	for t := range byFirst {
		byFirst[t] = make(map[int]bool)
	}
	sums := make(map[[2]int]int) // (a, size) → current sum
	var groups []add             // of the current depth
	open := make(map[[2]int]int) // (a, size) → index in groups

	layOut := func(id int) {
		c := &m.classes[id]
		m.extra += 256 + 2*int64(c.size) // its entries in classes, folds, adds and the maps below
		c.table = m.tables
		m.tables += m.windows[c.size].width()
		if c.size > 0 {
			c.charge = m.entries
			m.entries += len(m.windows[c.size-1].lo) * len(m.values)
		}
	}
	// join adds to its sum that class id replaces class old (or −1).
	join := func(id, old int) {
		c := m.classes[id]
		k := [2]int{c.cols[0], c.size}
		g, ok := open[k]
		if !ok {
			g = len(groups)
			groups = append(groups, add{dst: len(m.sums), keep: index(sums, k)})
			open[k], sums[k] = g, len(m.sums)
			m.sums = append(m.sums, sumTable{a: c.cols[0], size: c.size, offset: m.sumSize})
			m.sumSize += len(m.windows[c.size-1].lo) * len(m.values)
		}
		groups[g].classes = append(groups[g].classes, [2]int{id, old})
	}
	finish := func(t int) {
		m.adds = append(m.adds, groups)
		groups = nil
		clear(open)
		var live, present []int
		exact := true
		for a := t; a < len(m.cat); a++ {
			for size := range m.windows {
				if s, ok := sums[[2]int{a, size}]; ok {
					live = append(live, s)
				}
			}
			for _, id := range slices.Sorted(maps.Keys(byFirst[a])) {
				present = append(present, id)
				exact = exact && m.classes[id].size == 1
			}
		}
		m.live, m.present = append(m.live, live), append(m.present, present)
		m.exact = append(m.exact, exact)
	}

	for id := range m.classes {
		layOut(id)
		if c := m.classes[id]; c.size > 0 {
			at[key(c.cols)] = id
			byFirst[c.cols[0]][id] = true
			join(id, -1)
		}
		if err := m.fits(memory); err != nil {
			return err
		}
	}
	finish(0)
	for t := range m.cat {
		var folds []fold
		for size := range m.windows {
			delete(sums, [2]int{t, size})
		}
		for _, f := range slices.Sorted(maps.Keys(byFirst[t])) {
			cols := m.classes[f].cols[1:]
			if len(cols) == 0 {
				folds = append(folds, fold{dst: -1, keep: -1, from: f})
				continue
			}
			k := key(cols)
			keep := index(at, k)
			id := len(m.classes)
			m.classes = append(m.classes, class{size: len(cols), cols: cols})
			layOut(id)
			delete(byFirst[cols[0]], keep)
			at[k] = id
			byFirst[cols[0]][id] = true
			folds = append(folds, fold{dst: id, keep: keep, from: f})
			join(id, keep)
			if err := m.fits(memory); err != nil {
				return err
			}
		}
		m.folds = append(m.folds, folds)
		finish(t + 1)
	}
	return nil
}

// index returns m[k], −1 if m has no such key.
func index[K comparable](m map[K]int, k K) int {
	if i, ok := m[k]; ok {
		return i
	}
	return -1
}
