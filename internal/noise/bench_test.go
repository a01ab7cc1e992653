// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privopt/privopt/internal/noise"
)

// sink keeps the compiler from removing a benchmark's work.
var sink float64

func BenchmarkDraw(b *testing.B) {
	src := noise.Secure()
	watched := noise.Watch(rand.NewChaCha8([32]byte{}))
	buf, grid := make([]float64, 1), make([]int64, 1)
	gonum := distuv.Normal{Sigma: 1, Src: rand.NewChaCha8([32]byte{})}
	for _, c := range []struct {
		law  string
		draw func()
	}{
		{"word", func() { sink = float64(src.Uint64()) }},
		{"word-watched", func() { sink = float64(watched.Uint64()) }},
		{"normal", func() { noise.Normal(buf, 2, src) }},
		{"normal-gonum", func() { sink = gonum.Rand() }},
		{"exponential", func() { sink = noise.Exponential(src) }},
		{"grid", func() { noise.Grid(grid, 2, -20, src) }},
		{"gap", func() { sink = float64(noise.Gap(100, src)) }},
		{"chisquared/n=15", func() { sink = noise.ChiSquared(15, src) }},
		{"chisquared/n=16", func() { sink = noise.ChiSquared(16, src) }},
		{"chisquared/n=2288", func() { sink = noise.ChiSquared(2288, src) }},
		{"geometric", func() { sink = float64(noise.Geometric(1000, src)) }},
	} {
		b.Run("law="+c.law, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.draw()
			}
		})
	}
}

func BenchmarkVector(b *testing.B) {
	src := noise.Secure()
	for _, d := range []int{10, 1000} {
		dst, grid := make([]float64, d), make([]int64, d)
		for _, c := range []struct {
			law  string
			draw func()
		}{
			{"normal", func() { noise.Normal(dst, 1, src) }},
			{"grid", func() { noise.Grid(grid, 1, -20, src) }},
			{"laplacegrid", func() { noise.LaplaceGrid(grid, 1, -20, src) }},
			{"radialgrid", func() { noise.RadialGrid(grid, 1, -20, src) }},
		} {
			b.Run(fmt.Sprintf("law=%s/d=%d", c.law, d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.draw()
				}
			})
		}
	}
}
