// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"strconv"
)

// A private search puts numbers into decimal cells, so that ranges and edges are short decimal
// numbers: docs/theory/discovery.md. Decades and cells of the first round.
const (
	leastDecade = -9 // cells of 10⁻⁹ …
	mostDecade  = 14 // … to 10¹⁵
	zeroCell    = 9 * (mostDecade - leastDecade + 1)
	// numCells counts the cells of the first round, a partition of [−∞, ∞]:
	//
	//	0         x < −10¹⁵
	//	1 … 216   [−(d+1)10ᵏ, −d10ᵏ), from −10¹⁵ up
	//	217       [−10⁻⁹, 10⁻⁹)
	//	218 … 433 [d10ᵏ, (d+1)10ᵏ), d = 1, …, 9, k = −9, …, 14
	//	434       x ≥ 10¹⁵
	numCells = 2*zeroCell + 1 + 2
)

// A decimalCell is the set of numbers of one sign whose decimals begin with Digits, of Level + 1
// digits, and whose first digit counts 10^Decade. A negative cell has its left end, as a positive
// one. Digits is 0 for a cell that is never split: the one around zero.
type decimalCell struct {
	Negative              bool
	Decade, Digits, Level int
}

// cellOf returns the cell of a number other than 0, of the given level. The digits are those of the
// shortest decimal that parses to x, so that 0.3 is in [0.3, 0.4).
func cellOf(x float64, level int) decimalCell {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], math.Abs(x), 'e', -1, 64)
	c := decimalCell{Negative: x < 0, Level: level}
	place, rest := 0, false
	n := 0
	for place < len(text) && text[place] != 'e' {
		switch digit := text[place]; {
		case digit == '.':
		case n <= level:
			c.Digits, n = 10*c.Digits+int(digit-'0'), n+1
		default:
			rest = rest || digit != '0'
		}
		place++
	}
	for ; n <= level; n++ {
		c.Digits *= 10
	}
	c.Decade, _ = strconv.Atoi(string(text[place+1:]))
	if c.Negative && !rest { // the left end of the cell before
		c.Digits--
		if first := tenTo(level); c.Digits < first {
			c.Digits, c.Decade = 10*first-1, c.Decade-1
		}
	}
	return c
}

// power returns 10ⁿ.
func tenTo(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

// cellIndex returns the cell of a number in the first round. x is not NaN.
func cellIndex(x float64) int {
	switch {
	case x < -1e15:
		return 0
	case x >= 1e15:
		return numCells - 1
	case x >= -1e-9 && x < 1e-9:
		return zeroCell + 1
	}
	c := cellOf(x, 0)
	i := 9*(c.Decade-leastDecade) + c.Digits - 1
	if c.Negative {
		return zeroCell - i
	}
	return zeroCell + 2 + i
}

// first returns the cell of index i of the first round; ok is false for the two outermost ones.
func firstIn(i int) (c decimalCell, ok bool) {
	switch {
	case i <= 0 || i >= numCells-1:
		return decimalCell{}, false
	case i == zeroCell+1:
		return decimalCell{}, true
	case i < zeroCell+1:
		i = zeroCell - i
		c.Negative = true
	default:
		i -= zeroCell + 2
	}
	c.Decade, c.Digits = leastDecade+i/9, 1+i%9
	return c, true
}

// place maps the last digit of a tenth to its place in increasing order, and back.
func (c decimalCell) place(digit int) int {
	if c.Negative {
		return 9 - digit
	}
	return digit
}

// tenth returns the tenth at a place.
func (c decimalCell) tenth(place int) decimalCell {
	c.Digits, c.Level = 10*c.Digits+c.place(place), c.Level+1
	return c
}

// ends returns the ends of the cell, as decimals.
func (c decimalCell) ends() (lo, hi float64) {
	lo, hi = decimal(c.Digits, c.Decade-c.Level), decimal(c.Digits+1, c.Decade-c.Level)
	if c.Negative {
		return -hi, -lo
	}
	return lo, hi
}

// decimal returns d·10ᵉ, correctly rounded.
func decimal(d, e int) float64 {
	v, _ := strconv.ParseFloat(strconv.Itoa(d)+"e"+strconv.Itoa(e), 64)
	return v
}

// digits counts the significant decimal digits of v.
func decimals(v float64) int {
	n := 0
	for _, c := range strconv.AppendFloat(nil, math.Abs(v), 'e', -1, 64) {
		if c == 'e' {
			break
		}
		if c != '.' {
			n++
		}
	}
	return n
}

// splitter returns a function that puts a number into the tenths of cells of one level: tenth j, in
// increasing order, of cells[i] has the index 10i+j. The index is −1 if no cell holds the number.
func splitter(cells []decimalCell) func(x float64) int {
	at := map[decimalCell]int{}
	for i, c := range cells {
		at[c] = i
	}
	return func(x float64) int {
		if len(cells) == 0 || x == 0 || math.IsInf(x, 0) {
			return -1
		}
		c := cellOf(x, cells[0].Level+1)
		digit := c.Digits % 10
		c.Digits, c.Level = c.Digits/10, c.Level-1
		if i, ok := at[c]; ok {
			return 10*i + c.place(digit)
		}
		return -1
	}
}
