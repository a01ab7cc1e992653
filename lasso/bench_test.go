// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"context"
	"testing"

	"github.com/privopt/privopt/internal/noise"
)

// BenchmarkSolve times one solve of the published procedure at the size of the published figure,
// including its perturbation and constants.
func BenchmarkSolve(b *testing.B) {
	_, e := small(b, 300, 100)
	for _, m := range []Method{LOP, LOPClip, QOP} {
		b.Run("method="+string(m)+"/n=300/d=100/K=1000", func(b *testing.B) {
			b.ReportAllocs()
			src := noise.Reproducible(1)
			for b.Loop() {
				if _, err := e.Solve(context.Background(), m, 1, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGradTerms(b *testing.B) {
	_, e := small(b, 300, 100)
	x, dst, idx := make([]float64, 100), make([]float64, 100), []int{7}
	for _, m := range []Method{LOP, LOPClip, QOP} {
		f, _, err := e.draw(m, 1, noise.Reproducible(1))
		if err != nil {
			b.Fatal(err)
		}
		b.Run("method="+string(m)+"/d=100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.GradTerms(dst, x, idx)
			}
		})
	}
}
