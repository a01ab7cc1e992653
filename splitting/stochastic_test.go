// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// rows is a sum that gives access to its rows.
type rows struct{ *sum }

var _ splitting.RowSum = rows{}

func (f rows) Row(i int) []float64            { return f.row(i) }
func (f rows) Slope(i int, u float64) float64 { return u - f.b[i] }
func (f rows) Rest(dst, x []float64) ([]float64, float64) {
	if f.quad == nil {
		return f.lin, f.ridge
	}
	clear(dst)
	f.perturbation(dst, x, 1)
	return dst, 0
}

// TestRowSumTakesTheSameSteps checks that a step that reads a row of the sum directly, in two
// passes, equals the step that calls GradTerms, and that it allocates nothing.
func TestRowSumTakesTheSameSteps(t *testing.T) {
	const n, d, steps = 30, 11, 200
	for _, quad := range []bool{false, true} {
		f, _ := experiment(n, d, 1, quad)
		for name, h := range map[string]prox.Operator{"symmetric": prox.Box{Lo: -0.4, Hi: 0.4},
			"not": prox.Box{Lo: -0.2, Hi: 0.5}, "none": nil,
			"a norm in the box": prox.L1Box{Weight: 3, Lo: -0.4, Hi: 0.4}, "a square": prox.SquaredL2{Weight: 2}} {
			var x [2][]float64
			for i, term := range []splitting.Smooth{f, rows{f}} {
				p := splitting.Problem{F: term, G: prox.L1{Weight: 5}, H: h}
				m := &splitting.StochasticTOS{}
				res, err := splitting.Solve(background, p, make([]float64, d),
					&splitting.Settings{Iterations: steps, Tolerance: -1, Src: rand.NewPCG(5, 6)}, m)
				require.NoError(t, err)
				require.Equal(t, steps, res.GradTerms)
				x[i] = res.X
				loc, stats := splitting.Location{X: make([]float64, d)}, splitting.Stats{}
				require.Zero(t, testing.AllocsPerRun(10, func() { m.Step(&loc, &stats) }))
			}
			// The results are 200 steps of a nonexpansive iteration on numbers below 10, with about d
			// roundings in each.
			require.InDeltaSlice(t, x[0], x[1], steps*d*10*0x1p-52, name)
			require.Positive(t, floats.Norm(x[0], 2))
		}
	}
}

// TestMethodsMemory checks that every method needs at most a fifth of the memory of the records, in
// addition to the records.
func TestMethodsMemory(t *testing.T) {
	const n, d = 4000, 50
	f, exact := experiment(n, d, 1, false)
	for name, c := range map[string]struct {
		f splitting.Smooth
		m splitting.Method
	}{
		"CoordinateDescent":  {exact, &splitting.CoordinateDescent{}},
		"ProxNewton":         {exact, &splitting.ProxNewton{}},
		"ForwardBackward":    {f, &splitting.ForwardBackward{}},
		"DavisYin":           {f, &splitting.DavisYin{}},
		"StochasticTOS":      {f, &splitting.StochasticTOS{}},
		"StochasticTOS rows": {rows{f}, &splitting.StochasticTOS{}},
	} {
		p := splitting.Problem{F: c.f, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -1, Hi: 1}}
		x0 := make([]float64, d)
		s := &splitting.Settings{Iterations: 50, Src: rand.NewPCG(1, 2)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := splitting.Solve(background, p, x0, s, c.m)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.LessOrEqual(t, float64(after.TotalAlloc-before.TotalAlloc), 0.2*8*n*d, name)
	}
}
