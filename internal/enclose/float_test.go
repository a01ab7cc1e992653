// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package enclose_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/testkit"
)

// ExceedsExpm1 says yes from a little above the logarithm on, and never at it or below.
func TestExceedsExpm1(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 1))
	for range 3000 {
		y := math.Exp(math.Log(1e-9) + rnd.Float64()*math.Log(7e11))
		x, _ := testkit.Sub(testkit.Exp(testkit.New(y)), testkit.New(1)).Float64()
		require.False(t, enclose.ExceedsExpm1(y, math.Nextafter(x, math.Inf(1))), "e^%v", y)
		require.True(t, enclose.ExceedsExpm1(y*(1+0x1p-44), x), "e^%v", y)
	}
	for _, y := range []float64{-1, math.NaN(), math.Inf(1), 701} {
		require.False(t, enclose.ExceedsExpm1(y, 0.1), "%v", y)
	}
	require.False(t, enclose.ExceedsExpm1(1, math.NaN()))
}
