// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
)

// TestFinds: the spy finds a value in whatever form it is printed, and nothing
// where there is nothing.
func TestFinds(t *testing.T) {
	var s Spy
	x := make([]float64, 3)
	noise.Normal(x, 30, noise.Reproducible(1))
	w := mat.NewSymDense(2, []float64{2.25, 0.123456789012, 0, 7e-5})
	s.See(x...)
	s.See(w.RawSymmetric().Data...)
	require.Equal(t, 6, s.Len())
	for _, v := range []any{x, &x[0], struct{ X []float64 }{x}, map[string]float64{"a": x[2]}, w, -x[1], []any{x[0]}} {
		_, _, found := s.Find(Everything(v))
		if p, ok := v.(*float64); ok { // fmt prints an address, JSON and gob the value
			require.Equal(t, x[0], *p)
		}
		require.True(t, found, "%v", v)
	}
	_, _, found := s.Find(Everything([]float64{1, 2.5, 3e-7}))
	require.False(t, found)
	_, form, _ := s.Find("noise 0.1234567890")
	require.Equal(t, "123456789", form)
}
