package erm

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// key orders records: by hash, then by content.
type key struct {
	hash  uint64
	index int
}

// sort puts the records into their canonical order: by a fixed hash of their
// bits, where hashes are equal by the bits themselves. Equal records are
// indistinguishable, so the stored records are a function of the multiset of
// records, whatever the order they came in. Entries are not −0 (see add).
//
// It takes O(n) memory: the rows are moved within their place.
func (r *records) sort() {
	keys := make([]key, r.n)
	mult := multipliers(r.d)
	for i := range keys {
		keys[i] = key{hash(r.row(i), r.y[i], mult), i}
	}
	radix(keys)
	r.arrange(keys)
}

// arrange puts the records into the order of keys, which are sorted by hash.
func (r *records) arrange(keys []key) {
	for lo := 0; lo < r.n; {
		hi := lo + 1
		for hi < r.n && keys[hi].hash == keys[lo].hash {
			hi++
		}
		if hi-lo > 1 {
			slices.SortFunc(keys[lo:hi], func(a, b key) int { return r.compare(a.index, b.index) })
		}
		lo = hi
	}
	r.permute(keys)
}

// multipliers returns one pseudorandom odd number per column, the same in every
// process: the output of SplitMix64.
func multipliers(d int) []uint64 {
	m := make([]uint64, d)
	for j := range m {
		m[j] = mix(uint64(j+1)*0x9e3779b97f4a7c15) | 1
	}
	return m
}

// mix is the finalizer of SplitMix64, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hash returns a hash of a record: Σⱼ fold(aⱼ·mⱼ) over the bits aⱼ, where fold
// adds the halves of the 128-bit product, and the label. Entries 0 add nothing.
func hash(a []float64, b float64, mult []uint64) uint64 {
	mult = mult[:len(a)]
	sum := math.Float64bits(b) * 0x9fb21c651e98df25
	for j, v := range a {
		hi, lo := bits.Mul64(math.Float64bits(v), mult[j])
		sum += hi ^ lo
	}
	return mix(sum)
}

// compare orders records i and j by their bits; 0 means that they are equal.
func (r *records) compare(i, j int) int {
	if c := cmp.Compare(r.y[i], r.y[j]); c != 0 {
		return c
	}
	return slices.Compare(r.row(i), r.row(j))
}

// radix sorts keys by their hashes.
func radix(keys []key) {
	const digit = 11
	from, to := keys, make([]key, len(keys))
	if len(keys) < 1<<digit {
		slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.hash, b.hash) })
		return
	}
	for shift := 0; shift < 64; shift += digit {
		var at [1 << digit]int
		for _, k := range from {
			at[k.hash>>shift&(1<<digit-1)]++
		}
		sum := 0
		for c, v := range at {
			at[c] = sum
			sum += v
		}
		for _, k := range from {
			c := k.hash >> shift & (1<<digit - 1)
			to[at[c]] = k
			at[c]++
		}
		from, to = to, from
	}
	// 64 bits are six digits: the last swap leaves the result in keys.
}

// permute moves record keys[k].index to k for all k, along the cycles of the
// permutation. It overwrites keys.
func (r *records) permute(keys []key) {
	row := make([]float64, r.d)
	for k := range keys {
		if keys[k].index == k {
			continue
		}
		copy(row, r.row(k))
		y, norm := r.y[k], r.norm[k]
		to := k
		for from := keys[to].index; from != k; from = keys[to].index {
			copy(r.row(to), r.row(from))
			r.y[to], r.norm[to] = r.y[from], r.norm[from]
			keys[to].index = to
			to = from
		}
		copy(r.row(to), row)
		r.y[to], r.norm[to] = y, norm
		keys[to].index = to
	}
}
