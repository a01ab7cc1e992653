// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIntegers(t *testing.T) {
	f := []Feature{{0, 1, 1}, {0, 1, 99}, {-1, 1, 10}}
	rows, err := Integers([][]float64{{1, 40. / 99, -0.3}, {0, 2, math.NaN()}}, f, 4)
	require.NoError(t, err)
	require.Equal(t, [][]int64{{990, 400, -297}, {0, 990, 0}}, rows)

	rows, err = Integers([][]float64{{1, 0.5, 0}}, f, 4)
	require.NoError(t, err)
	require.Equal(t, int64(500), rows[0][1]) // 49.5 rounds away from zero

	for want, g := range map[string][]Feature{
		"Den = 0":        {{0, 1, 0}},
		"finite Lo ≤ Hi": {{1, 0, 1}},
		"Lo = -Inf":      {{math.Inf(-1), 0, 1}},
		"exceeds 2^62":   {{0, 1, 1<<53 - 1}, {0, 1, 1<<53 - 3}},
		"scores may":     {{0, 1e12, 1e7}},
	} {
		_, err := Integers(nil, g, 4)
		require.ErrorIs(t, err, ErrProblem)
		require.ErrorContains(t, err, want)
	}
	_, err = Integers(nil, f, 0)
	require.ErrorContains(t, err, "b = 0")
	_, err = Integers([][]float64{{1}}, f, 4)
	require.ErrorContains(t, err, "another number of values")
}

// TestIntegersEnds: the largest denominators, their multiples and scores that
// are taken, and the next ones that are not.
func TestIntegersEnds(t *testing.T) {
	unit := func(den int64) Feature { return Feature{Lo: 0, Hi: 1, Den: den} }
	for _, c := range []struct {
		features []Feature
		b        int
		ok       bool
	}{
		{[]Feature{unit(1)}, 1, true}, {[]Feature{unit(1)}, maxValue, true}, {[]Feature{unit(1)}, maxValue + 1, false},
		{[]Feature{unit(1)}, 0, false},
		{[]Feature{unit(1 << 53)}, 1, true}, {[]Feature{unit(1<<53 + 1)}, 1, false}, {[]Feature{unit(0)}, 1, false},
		{[]Feature{unit(1 << 31), unit(1<<31 - 1)}, 1, false}, // scores up to 2⁶³
		{[]Feature{{Hi: 1e-9, Den: 1 << 31}, {Hi: 1e-9, Den: 1<<31 - 1}}, 1, true},
		{[]Feature{{Hi: 1e-9, Den: 1 << 31}, {Hi: 1e-9, Den: 1<<31 + 1}}, 1, false}, // the multiple is over 2⁶²
		{[]Feature{{Lo: -0x1.8p61, Hi: 0x1p61, Den: 1}}, 1, true}, {[]Feature{{Lo: -0x1.8p61, Hi: 0x1p61, Den: 1}}, 2, false},
		{[]Feature{{Hi: 0x1.fp61, Den: 1}}, 1, true}, {[]Feature{{Hi: 0x1.fp61, Den: 1}, {Hi: 0x1p61, Den: 1}}, 1, false},
		{[]Feature{{Hi: 0x1p62, Den: 1}}, 1, false},
		{[]Feature{{Lo: 2, Hi: 2, Den: 1}}, 1, true}, {[]Feature{{Lo: 2, Hi: 1, Den: 1}}, 1, false},
		{[]Feature{{Lo: math.Inf(-1), Hi: 1, Den: 1}}, 1, false}, {[]Feature{{Lo: 1, Hi: math.Inf(1), Den: 1}}, 1, false},
	} {
		_, err := Integers(nil, c.features, c.b)
		require.Equal(t, c.ok, err == nil, "%+v, b = %d: %v", c.features, c.b, err)
	}
	require.Equal(
		t,
		[]int64{12, 35, 7, 1 << 62, -1},
		[]int64{lcm(4, 6), lcm(5, 7), lcm(7, 7), lcm(1<<31, 1<<62), lcm(1<<62, 3)},
	)
	rows, err := Integers([][]float64{{0.26, 0.26}}, []Feature{{Hi: 1, Den: 4}, {Hi: 1, Den: 6}}, 1)
	require.NoError(t, err)
	require.Equal(t, [][]int64{{3, 4}}, rows) // 1/4 and 2/6 in twelfths
}
