// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privopt/privopt/prox"
)

// falling returns the weights 1, (d−1)/d, …, 1/d.
func falling(d int) []float64 {
	w := make([]float64, d)
	for k := range w {
		w[k] = float64(d-k) / float64(d)
	}
	return w
}

func BenchmarkProx(b *testing.B) {
	for _, d := range []int{100, 1000} {
		rnd := rand.New(rand.NewPCG(1, 2))
		x, dst := make([]float64, d), make([]float64, d)
		for i := range x {
			x[i] = rnd.NormFloat64()
		}
		for name, op := range map[string]prox.Operator{
			"L1": prox.L1{Weight: 0.5}, "Box": prox.Box{Lo: -1, Hi: 1}, "L1Box": prox.L1Box{Weight: 0.5, Lo: -1, Hi: 1},
			"ElasticNet": prox.ElasticNet{L1: 0.5, L2: 1}, "L2Ball": prox.L2Ball{R: 1}, "L1Ball": prox.L1Ball{R: 3},
			"Simplex":  prox.Simplex{Total: 1},
			"LInfNorm": prox.LInfNorm{Weight: 3}, "SortedL1": prox.SortedL1{Weights: falling(d)},
			"TotalVariation": prox.TotalVariation{Weight: 0.5},
			"Huber":          prox.Huber{Weight: 1, Delta: 1}, "Hinge": prox.Hinge{Weight: 1},
			"LogBarrier":      prox.LogBarrier{Weight: 1},
			"SecondOrderCone": prox.SecondOrderCone{}, "NuclearNorm": prox.NuclearNorm{Rows: d / 10, Cols: 10, Weight: 3},
			"SpectralBall": prox.SpectralBall{Rows: d / 10, Cols: 10, R: 3},
		} {
			b.Run(fmt.Sprintf("op=%s/d=%d", name, d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					op.Prox(dst, x, 1)
				}
			})
		}
	}
}
