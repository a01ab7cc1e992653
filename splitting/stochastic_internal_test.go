// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemory checks that every first-order method needs at most 1.2 times the memory of the data.
func TestMemory(t *testing.T) {
	const n, d = 3000, 40
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 1, x, plus(u, v))
	for name, c := range map[string]struct {
		m    Method
		f    Smooth
		data int // the size of the data in numbers
	}{
		"DavisYin":        {&DavisYin{Rule: LineSearch}, f, n * d},
		"ForwardBackward": {&ForwardBackward{Rule: LineSearch}, f, n * d},
		"PrimalDual":      {&PrimalDual{}, f, n * d},
		"StochasticTOS":   {&StochasticTOS{}, f, n * d},
		"SVRG":            {&StochasticTOS{SVRG: true}, f, n * d},
	} {
		x0 := make([]float64, d)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, c.m.Init(Problem{F: c.f, G: g, H: h}, x0, rand.New(rand.NewPCG(1, 2))))
		runtime.ReadMemStats(&after)
		scratch := 8 * 2 * len(f.a) // toy.Grad allocates a list of its terms, once or twice
		require.LessOrEqual(t, float64(after.TotalAlloc-before.TotalAlloc)-float64(scratch), 1.2*8*float64(c.data), name)
	}
}
