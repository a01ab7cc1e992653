// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/privopt/privopt/internal/num"
)

// noiseChance bounds the probability, for a column, that noise alone makes a range or a level of
// what no record holds: docs/theory/discovery.md#discovery.ranges.
const noiseChance = 1e-6

// kindCounts holds the released counts of the fields of a column.
type kindCounts struct{ Missing, Whole, Other, Text float64 }

// verdict is what a column holds.
type verdict int

// The verdicts on a column.
const (
	holdsNothing verdict = iota
	holdsText
	holdsNumber
)

// decide decides from counts with noise of standard deviation sigma. Whole says that numbers with
// a fraction are too few to count, missing that missing fields deserve a level.
func (k kindCounts) decide(sigma float64) (v verdict, whole, missing bool) {
	whole = k.Other <= max(4*sigma, 0.02*k.Whole)
	numbers := k.Whole + max(k.Other, 0)
	switch {
	case k.Text > 3*sigma && k.Text > max(numbers, 0)/4:
		v = holdsText
	case numbers > 3*sigma:
		v = holdsNumber
	}
	return v, whole, k.Missing-0.5 > -sigma*num.NormalQuantile(noiseChance) // noise is rounded
}

// liveCell is a cell with its estimated mass.
type liveCell struct {
	lo, hi, mass float64
	cell         decimalCell
	fixed        bool // never split
}

// sketch estimates the law of a column of numbers, round by round. Its input are estimates of
// prefix sums, with the standard deviation of one.
type sketch struct {
	whole     bool
	total, sd float64
	zero      float64 // upper end of the cell of zero, NaN if there is none
	cells     []liveCell
	split     []int // cells of the round that is being counted
	level     int   // that of the cells to split
	least     float64
}

// Limits of the rounds.
const (
	mostSplit  = 40      // cells of a round
	splitShare = 1. / 20 // of the mass, from which on a cell is split
)

// newSketch starts from the prefix sums of the cells of the first round. It returns nil if they
// show nothing.
func newSketch(prefix []float64, sd float64, whole bool) *sketch {
	k := &sketch{whole: whole, total: prefix[len(prefix)-1], sd: sd, zero: math.NaN(), least: sd}
	lo, hi := endsOf(prefix, sd, noiseChance)
	if !(k.total > 4*sd) || lo > hi {
		return nil
	}
	f := increasing(prefix, k.total)
	a := min(max(0.004*k.total, 2*sd), 0.2*k.total)
	lo = max(reachIn(f, a), lo)
	hi = min(reachIn(f, k.total-a), hi)
	for i := lo; i <= hi; i++ {
		c, _ := firstIn(i)
		l := liveCell{mass: max(f[i]-f[i-1], 0), cell: c}
		if c.Digits == 0 {
			l.lo, l.hi, l.fixed = 0, decimal(1, leastDecade), true
			k.zero = l.hi
		} else {
			l.lo, l.hi = c.ends()
		}
		k.cells = append(k.cells, l)
	}
	if len(k.cells) == 0 {
		return nil
	}
	k.joinTiny()
	return k
}

// farApart holds, for each cell of the first round, the deviation of the count of numbers up to it
// and of that from it on, over the deviation of a prefix sum. The two outermost cells are not
// counted.
var farApart = sync.OnceValue(func() (out [2][numCells]float64) {
	r := make([]float64, numCells) // of (1−x)^{−1/2}
	norm := 0.0
	for k := range r {
		r[k] = 1
		if k > 0 {
			r[k] = r[k-1] * float64(2*k-1) / float64(2*k)
		}
		norm += r[k] * r[k]
	}
	between := func(i, j int) float64 { // of the cells after i, up to j
		sum := 0.0
		for m := range j - i {
			sum += r[m] * r[m]
		}
		for m := range i + 1 {
			sum += (r[m] - r[m+j-i]) * (r[m] - r[m+j-i])
		}
		return math.Sqrt(sum / norm)
	}
	for i := 1; i < numCells-1; i++ {
		out[0][i], out[1][i] = between(0, i), between(i-1, numCells-2)
	}
	return out
})

// ends returns the outermost cells that a range may have: with probability 1 − chance they are no
// further from zero than ten times a number of that sign that is there, and lo > hi where nothing
// shows. It finds the last cell such that numbers in it or above are more than noise, adds the
// cells up to ten times as far, and does the same below.
func endsOf(prefix []float64, sd, chance float64) (lo, hi int) {
	const zero, tenfold = zeroCell + 1, 8
	least := -sd * num.NormalQuantile(chance/(2*numCells))
	lo, hi = numCells, 0
	for i := 1; i < numCells-1; i++ {
		if lo == numCells && prefix[i]-prefix[0] > least*farApart()[0][i] {
			lo = i
		}
		if prefix[numCells-2]-prefix[i-1] > least*farApart()[1][i] {
			hi = i
		}
	}
	switch {
	case lo == numCells || hi == 0:
		return numCells, 0
	case lo >= zero:
		lo = zero
	default:
		lo = max(lo-tenfold, 1)
	}
	if hi > zero {
		return lo, min(hi+tenfold, numCells-2)
	}
	return lo, zero
}

// joinTiny makes the cells far below the scale of the column one cell around zero.
func (k *sketch) joinTiny() {
	top, found := 0, false
	for _, l := range k.cells {
		if !l.fixed && l.mass > k.sd/2 && (!found || l.cell.Decade > top) {
			top, found = l.cell.Decade, true
		}
	}
	if !found {
		return
	}
	low := max(top-4, leastDecade)
	if k.whole {
		low = max(low, 0)
	}
	z := liveCell{hi: decimal(1, low), fixed: true}
	tiny := func(l liveCell) bool { return l.fixed || l.cell.Decade < low }
	at := slices.IndexFunc(k.cells, tiny)
	if at < 0 {
		return
	}
	var rest []liveCell
	for _, l := range k.cells {
		if !tiny(l) {
			rest = append(rest, l)
			continue
		}
		z.mass += l.mass
		if !l.fixed && l.cell.Negative && l.mass > k.sd/2 {
			z.lo = -z.hi
		}
	}
	k.cells, k.zero = slices.Insert(rest, at, z), z.hi
}

// Heavy returns the cells that the next round splits, none if there is nothing to split.
func (k *sketch) Heavy() []decimalCell {
	k.split = k.split[:0]
	var out []decimalCell
	for i, l := range k.cells {
		wide := !k.whole || l.cell.Decade > l.cell.Level // wider than 1
		if !l.fixed && l.cell.Level == k.level && l.mass >= max(k.total*splitShare, k.least) && wide && len(out) < mostSplit {
			k.split, out = append(k.split, i), append(out, l.cell)
		}
	}
	return out
}

// Split takes the prefix sums of all tenths of the cells of Heavy, with their deviation.
func (k *sketch) Split(prefix []float64, sd float64) {
	var out []liveCell
	next := 0
	for i, l := range k.cells {
		if next == len(k.split) || k.split[next] != i {
			out = append(out, l)
			continue
		}
		before := 0.0
		if next > 0 {
			before = prefix[10*next-1]
		}
		f := make([]float64, 10)
		for j := range f {
			f[j] = prefix[10*next+j] - before
		}
		next++
		shown := f[9]
		f = increasing(f, max(shown, 0))
		if sum := f[9]; sum > sd {
			mass := (l.mass + sum) / 2
			last := 0.0
			for j, v := range f {
				c := l.cell.tenth(j)
				t := liveCell{mass: (v - last) * (mass / sum), cell: c}
				t.lo, t.hi = c.ends()
				out, last = append(out, t), v
			}
		} else {
			out = append(out, l)
		}
	}
	k.cells, k.least = out, min(k.least, sd)
	k.level++
}

// Range cuts off ends with hardly any mass and returns the range of the rest.
func (k *sketch) Range() (lo, hi float64) {
	cum := k.cumulated()
	top := cum[len(cum)-1]
	cut := min(max(0.002*k.total, k.sd/2), 0.1*top)
	i, j := reachIn(cum, cut), reachIn(cum, top-cut)
	k.cells = k.cells[min(i, len(cum)-1) : min(j, len(cum)-1)+1]
	return k.cells[0].lo, k.cells[len(k.cells)-1].hi
}

// Constant reports whether the range has one whole number, or nothing but zero. It comes after
// Range.
func (k *sketch) Constant() bool {
	l := k.cells[0]
	if l.fixed { // the cell around zero: it may be wider than zero alone
		return len(k.cells) == 1 && l.lo == 0 && (l.hi <= decimal(1, leastDecade) || k.whole && l.hi <= 1)
	}
	return len(k.cells) == 1 && k.whole && l.cell.Decade <= l.cell.Level
}

// Total returns the noisy number of all fields with a number, with its deviation.
func (k *sketch) Total() (total, deviation float64) { return k.total, k.sd }

// Edges returns edges between about bins bins of equal mass, inside the range. A cell with more
// than a quarter of the mass is a bin of its own. Of nearly equal boundaries the one with the
// fewest digits is taken.
func (k *sketch) Edges(bins int) []float64 {
	cum := k.cumulated()
	total := cum[len(cum)-1]
	if !(total > 0) || bins < 2 {
		return nil
	}
	heavy := func(i int) bool { return k.cells[i].mass > total/4 }
	rest := total
	for i, l := range k.cells {
		if heavy(i) {
			rest -= l.mass
		}
	}
	t := max(max(rest, 0)/float64(bins), 3*k.sd)
	var cuts []int
	since := 0.0
	for i, l := range k.cells {
		if !heavy(i) {
			if since += l.mass; since >= t {
				cuts, since = append(cuts, i), 0
			}
			continue
		}
		n := len(cuts)
		switch {
		case i > 0 && since >= 2*k.sd && (n == 0 || cuts[n-1] != i-1):
			cuts = append(cuts, i-1)
		case n > 0 && since < 2*k.sd && cuts[n-1] != i-1 && !heavy(cuts[n-1]):
			cuts[n-1] = i - 1
		}
		cuts, since = append(cuts, i), 0
	}
	if n := len(cuts); n > 0 && since < 2*k.sd {
		cuts = cuts[:n-1]
	}
	var out []float64
	for _, i := range cuts {
		if i >= len(k.cells)-1 {
			continue
		}
		near := max(0.3*k.sd, 0.08*t)
		if heavy(i) {
			near = max(k.sd, near)
		}
		if v := k.round(cum, i, near); v > k.cells[0].lo && v < k.cells[len(k.cells)-1].hi {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// round returns the boundary with the fewest digits among those near that above cell i.
func (k *sketch) round(cum []float64, i int, near float64) float64 {
	type boundary struct {
		digits, far int
		v           float64
	}
	best, found := boundary{v: k.cells[i].hi}, false
	for j := range len(k.cells) - 1 {
		v := k.cells[j].hi
		if math.Abs(cum[j]-cum[i]) > near || v == k.zero {
			continue
		}
		b := boundary{decimals(v), max(i-j, j-i), v}
		if !found || cmp.Or(cmp.Compare(b.digits, best.digits), cmp.Compare(b.far, best.far), cmp.Compare(b.v, best.v)) < 0 {
			best, found = b, true
		}
	}
	if best.v == k.zero { // up to the first decade with mass
		for _, l := range k.cells[i+1:] {
			if l.mass > k.sd/2 && l.lo > 0 {
				return decimal(1, l.cell.Decade)
			}
		}
	}
	return best.v
}

func (k *sketch) cumulated() []float64 {
	out, sum := make([]float64, len(k.cells)), 0.0
	for i, l := range k.cells {
		sum += l.mass
		out[i] = sum
	}
	return out
}

// reach returns the first index at which f, which does not decrease, is at least v.
func reachIn(f []float64, v float64) int {
	i, _ := slices.BinarySearch(f, v)
	return i
}

// isotonic returns the nearest sequence that does not decrease, by pooling adjacent violators, cut
// to [0, top].
func increasing(f []float64, top float64) []float64 {
	type block struct {
		mean float64
		n    int
	}
	var blocks []block
	for _, v := range f {
		blocks = append(blocks, block{v, 1})
		for n := len(blocks); n > 1 && blocks[n-2].mean > blocks[n-1].mean; n-- {
			a, b := blocks[n-2], blocks[n-1]
			sum := a.n + b.n
			blocks = append(blocks[:n-2], block{(a.mean*float64(a.n) + b.mean*float64(b.n)) / float64(sum), sum})
		}
	}
	out := make([]float64, 0, len(f))
	for _, b := range blocks {
		for range b.n {
			out = append(out, min(max(b.mean, 0), top))
		}
	}
	return out
}

// byNumber compares spellings as labels are ordered: by number, then by text.
func byNumber(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
}
