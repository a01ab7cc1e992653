// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	radix = 32 // bits in a digit
	mask  = 1<<radix - 1
	// offset is the exponent of the lowest bit of the lowest digit: of the smallest float64.
	offset = -1074
	// maxAdds is the number of terms after which carries are moved.
	maxAdds = 1 << 30
	// mostDigits hold every float64, the carries of 2⁶³ terms, and two to spare.
	mostDigits = 68
)

const badLen = "num: length mismatch"

// ExactVector is a vector of exact sums. Their bits depend neither on the order of the terms nor on
// the threads and machines that added them. A float64 is added as three digits of 32 bits to a row
// of 64-bit integers [Kul13], which hold 2³⁰ such terms before carries must be moved:
// docs/theory/numerics.md#numerics.exact-sums. The zero value has length 0. Infinite and NaN terms
// are added as float64 does.
type ExactVector struct {
	n       int
	first   int     // the first digit held; digit k counts 2^(32k−1074)
	width   int     // number of digits held of every sum, the last of them with its sign
	digits  []int64 // digit k of sum j is digits[j·width+k−first]
	adds    int     // upper bound on the terms since carries were moved
	carried bool    // nothing was added since then
	special []float64
}

// Reset makes v the 0 of length n. It keeps its memory.
func (v *ExactVector) Reset(n int) {
	size := n * v.width
	if cap(v.digits) < size {
		v.width, size = 0, 0
	}
	v.n, v.adds = n, 0
	v.carried, v.special = false, nil
	v.digits = v.digits[:size]
	clear(v.digits)
}

// Len returns the length.
func (v *ExactVector) Len() int { return v.n }

// AddSlice adds xs[i] to sum at+i.
func (v *ExactVector) AddSlice(at int, xs []float64) {
	if at < 0 || at+len(xs) > v.n {
		panic(badLen)
	}
	v.room()
	for i, x := range xs {
		b := math.Float64bits(x)
		e, m := int(b>>52)&0x7ff, b&(1<<52-1)
		switch {
		case e == 0x7ff:
			v.addSpecial(at+i, x)
			continue
		case e > 0:
			e, m = e-1, m|1<<52
		case m == 0:
			continue
		}
		k := e/radix - v.first
		if k < 0 || k+4 > v.width {
			v.hold(e/radix, e/radix+4) // three digits, and one for carries
			k = e/radix - v.first
		}
		s := uint(e) % radix
		lo, hi := m<<s, m>>(64-s)
		d := v.digits[(at+i)*v.width+k:]
		d = d[:3]
		if b>>63 == 0 {
			d[0] += int64(lo & mask)
			d[1] += int64(lo >> radix)
			d[2] += int64(hi)
		} else {
			d[0] -= int64(lo & mask)
			d[1] -= int64(lo >> radix)
			d[2] -= int64(hi)
		}
	}
}

func (v *ExactVector) addSpecial(j int, x float64) {
	if v.special == nil {
		v.special = make([]float64, v.n)
	}
	v.special[j] += x
}

// hold makes room for the digits from first to end.
func (v *ExactVector) hold(first, end int) {
	old := *v
	if v.width > 0 {
		first, end = min(first, v.first), max(end, v.first+v.width)
	}
	width := end - first
	v.first, v.width = first, width
	v.digits = make([]int64, v.n*width)
	if old.width == 0 {
		return
	}
	old.carry()
	v.adds, v.carried = 1, false // the old last digit has the sign
	for j := range v.n {
		to, from := v.digits[j*width:(j+1)*width], old.digits[j*old.width:(j+1)*old.width]
		copy(to[old.first-first:], from)
	}
}

// carry moves carries, so that all digits but the last, which keeps the sign, are in [0, 2³²).
func (v *ExactVector) carry() {
	for j := range v.n {
		d := v.digits[j*v.width : (j+1)*v.width]
		c := int64(0)
		for k := range len(d) - 1 {
			t := d[k] + c
			d[k], c = t&mask, t>>radix
		}
		if len(d) > 0 {
			d[len(d)-1] += c
		}
	}
	v.adds, v.carried = 1, true
}

// room makes room for one more term.
func (v *ExactVector) room() {
	if v.adds++; v.adds >= maxAdds {
		v.carry()
	}
	v.carried = false
}

// Merge adds w, which has the same length.
func (v *ExactVector) Merge(w *ExactVector) {
	if w.n != v.n {
		panic(badLen)
	}
	for j, x := range w.special {
		if x != 0 {
			v.addSpecial(j, x)
		}
	}
	if w.width == 0 {
		return
	}
	w.carry()
	if v.width == 0 || w.first < v.first || w.first+w.width > v.first+v.width {
		v.hold(w.first, w.first+w.width)
	}
	v.room()
	for j := range v.n {
		to := v.digits[j*v.width+w.first-v.first:]
		for k, t := range w.digits[j*w.width : (j+1)*w.width] {
			to[k] += t
		}
	}
}

// Pair returns sum j as hi + lo, normalized, with an error of at most 2⁻¹⁰² of it; lo is 0 if the
// sum is infinite or NaN. It moves carries.
func (v *ExactVector) Pair(j int) (hi, lo float64) {
	if v.special != nil && v.special[j] != 0 {
		return v.special[j], 0
	}
	if !v.carried {
		v.carry()
	}
	d := v.digits[j*v.width : (j+1)*v.width]
	if len(d) == 0 {
		return 0, 0
	}
	last := len(d) - 1
	flip, c := int64(0), int64(0) // for a negative sum, the digits of its opposite, ^d + 1
	sign := 1.0
	if d[last] < 0 {
		flip, c = mask, 1
		sign = -1
	}
	var digits [mostDigits]float64
	for k, t := range d[:last] {
		t = t ^ flip + c
		digits[k], c = float64(t&mask), t>>radix
	}
	top := d[last]
	if sign < 0 {
		top = ^top + c
	}
	digits[last] = float64(top) // below 2⁵³ for 2⁵² terms
	k := last
	for k > 0 && digits[k] == 0 {
		k--
	}
	// The five digits from the highest nonzero one have at least 129 bits.
	for low := max(k-4, 0); k >= low; k-- {
		hi, lo = Add2(hi, lo, math.Ldexp(digits[k], radix*(v.first+k)+offset), 0)
	}
	if math.IsInf(hi, 0) || math.IsNaN(hi) {
		return sign * math.Inf(1), 0
	}
	return sign * hi, sign * lo
}

// errFormat reports bytes that AppendBinary cannot have written.
var errFormat = errors.New("num: not the bytes of an ExactVector")

// AppendBinary appends v to b.
func (v *ExactVector) AppendBinary(b []byte) ([]byte, error) {
	if !v.carried {
		v.carry()
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(v.n))
	b = append(b, byte(v.first), byte(v.width), byte(min(len(v.special), 1)))
	for _, t := range v.digits {
		b = binary.LittleEndian.AppendUint64(b, uint64(t))
	}
	for _, x := range v.special {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (v *ExactVector) UnmarshalBinary(b []byte) error {
	const head = 7
	if len(b) < head {
		return fmt.Errorf("%w: %d bytes, want at least %d", errFormat, len(b), head)
	}
	n, first := int(binary.LittleEndian.Uint32(b)), int(b[4])
	width, special := int(b[5]), int(b[6])
	if first+width > mostDigits || special > 1 || len(b)-head != 8*n*(width+special) {
		return fmt.Errorf("%w: %d bytes for %d sums of %d digits from %d", errFormat, len(b), n, width, first)
	}
	b = b[head:]
	next := func() uint64 {
		t := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return t
	}
	*v = ExactVector{n: n, first: first, width: width, adds: 1, carried: true, digits: make([]int64, n*width)}
	for i := range v.digits {
		v.digits[i] = int64(next())
		if k := i % width; k < width-1 && uint64(v.digits[i]) > mask || v.digits[i] < -1<<52 || v.digits[i] > 1<<52 {
			return fmt.Errorf("%w: a digit is out of range", errFormat)
		}
	}
	if special > 0 {
		v.special = make([]float64, n)
		for i := range v.special {
			v.special[i] = math.Float64frombits(next())
		}
	}
	return nil
}
