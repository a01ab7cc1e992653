// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLevels: the frequencies of 100,000 draws lie within six deviations of the law, for gaps from
// none to huge ones.
func TestLevels(t *testing.T) {
	for _, c := range []float64{0.3, 2.5, 400} {
		gaps, weights := []int64{0, 1, 5, 40, 1 << 29}, []uint64{3, 10, 1 << 20, 1 << 50, 1 << 61}
		total := 0.0
		var law, count [5]float64
		for i, g := range gaps {
			law[i] = float64(weights[i]) * math.Exp(-float64(g)/c)
			total += law[i]
		}
		l, src := NewLevels(gaps, weights, c), Reproducible(uint64(c*10))
		const draws = 100_000
		for range draws {
			count[l.Draw(src)]++
		}
		for i := range law {
			p := law[i] / total
			require.InDelta(t, draws*p, count[i], 6*math.Sqrt(draws*p*(1-p))+1e-9, "c = %v, %d", c, i)
		}
	}
	for _, bad := range []func(){
		func() { NewLevels(nil, nil, 1) }, func() { NewLevels([]int64{0}, []uint64{1, 2}, 1) },
		func() { NewLevels([]int64{1}, []uint64{1}, 1) }, func() { NewLevels([]int64{0}, []uint64{1}, 0) },
		func() { NewLevels([]int64{0}, []uint64{1}, math.NaN()) },
	} {
		require.Panics(t, bad)
	}
}

// given is a source of given words, then of others.
type given []uint64

func (w *given) Uint64() uint64 {
	if len(*w) == 0 {
		return 0x0123456789abcdef
	}
	u := (*w)[0]
	*w = (*w)[1:]
	return u
}

// TestLevelsUndecided: where 64 bits of U end at a boundary, further bits decide, and those drawn
// stay as they are. Of the weights 1 and 3 at gap 0 the boundary is ¼; that between e⁰ and e^{-1/2}
// is .6224…, to 400 bits of which the words keep.
func TestLevelsUndecided(t *testing.T) {
	same := NewLevels([]int64{0, 0}, []uint64{1, 3}, 1)
	for _, c := range []struct {
		words given
		want  int
	}{{given{1<<62 - 1, math.MaxUint64, 5}, 0}, {given{1 << 62, 0, 0, 1}, 1}, {given{1 << 61}, 0}} {
		require.Equal(t, c.want, same.Draw(&c.words))
	}
	l := NewLevels([]int64{0, 1}, []uint64{1, 1}, 2)
	lo, _ := l.brackets(512)
	boundary := lsh(lo[0], 512)
	boundary.Quo(boundary, lo[1]) // of U, to 500 bits
	for change := -1; change <= 1; change += 2 {
		var w given
		for i := range 6 {
			w = append(w, shift(boundary, 64*(i+1)-512).Uint64())
		}
		w[5] += uint64(change)
		left := w
		require.Equal(t, (1+change)/2, l.Draw(&left))
		require.Empty(t, left)
	}
}
