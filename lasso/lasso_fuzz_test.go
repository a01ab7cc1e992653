// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/lasso"
)

// FuzzReadVector checks that no text makes the reader panic or return a number that is not finite.
func FuzzReadVector(f *testing.F) {
	for _, s := range []string{"", "x", "a\n1\n", "\ufeffx\r\n1\r\n2\r\n", "x\n\"2\n", "x\n1e400\n", "x\nNaN\n",
		"a\n1\n\n2\n",
		"x,y\n1,2\n", "x\n\x00\n", "x\n0x1p3\n1_0\n"} {
		f.Add(s, 1)
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, text string, d int) {
		x, err := lasso.ReadVector(strings.NewReader(text), d)
		if err != nil {
			require.ErrorIs(t, err, lasso.ErrFile)
			return
		}
		require.Len(t, x, d)
		for _, v := range x {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		}
	})
}
