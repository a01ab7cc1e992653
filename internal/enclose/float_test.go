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

// Log1pAbove lies above the logarithm, and by no more than 2⁻⁴⁴ of it.
func TestLog1pAbove(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 7))
	for range 3000 {
		x := math.Exp(-700 + 1390*rnd.Float64())
		y := enclose.Log1pAbove(x)
		wide := testkit.Add(testkit.New(1), testkit.New(x))
		if x > 1e-40 { // below that 1 + x is 1 to the reference
			require.LessOrEqual(t, testkit.Log(wide).Cmp(testkit.New(y)), 0, "log1p(%v)", x)
		}
		require.LessOrEqual(t, y, math.Log1p(x)*(1+0x1p-44), "log1p(%v)", x)
		require.GreaterOrEqual(t, y, x-x*x/2)
	}
	require.Zero(t, enclose.Log1pAbove(0))
	for _, x := range []float64{-1e-300, -1, math.NaN(), math.Inf(1), 1e305} {
		require.Equal(t, math.Inf(1), enclose.Log1pAbove(x), "%v", x)
	}
}

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
