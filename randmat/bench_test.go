// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmat"

	"github.com/privopt/privopt/internal/noise"
)

func BenchmarkWishart(b *testing.B) {
	for _, d := range []int{10, 50, 100, 200, 500, 1000} {
		m := float64(2 * d)
		dst := mat.NewSymDense(d, nil)
		b.Run(fmt.Sprintf("method=privopt/d=%d", d), func(b *testing.B) {
			src := noise.Secure()
			b.ReportAllocs()
			for b.Loop() {
				if err := Wishart(dst, m, src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("method=distmat/d=%d", d), func(b *testing.B) {
			scale := mat.NewSymDense(d, nil)
			for i := range d {
				scale.SetSym(i, i, 1)
			}
			w, ok := distmat.NewWishart(scale, m, rand.NewPCG(1, 2))
			if !ok {
				b.Fatal("gonum refuses")
			}
			b.ReportAllocs()
			for b.Loop() {
				w.RandSymTo(dst)
			}
		})
	}
}

func BenchmarkEig(b *testing.B) {
	for _, d := range []int{10, 100, 200, 500, 1000} {
		a := mat.NewSymDense(d, nil)
		if err := Wishart(a, float64(2*d), noise.Reproducible(1)); err != nil {
			b.Fatal(err)
		}
		for name, f := range map[string]func(){
			"MaxEig":  func() { MaxEig(a) },
			"MinEig":  func() { MinEig(a) },
			"RitzMax": func() { RitzMax(a) },
			"gonum":   func() { new(mat.EigenSym).Factorize(a, false) },
		} {
			b.Run(fmt.Sprintf("method=%s/d=%d", name, d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}

func BenchmarkMinEigenvalueCDF(b *testing.B) {
	for _, c := range []struct {
		law MinEigenvalueLaw
		x   float64
	}{{MinEigenvalueLaw{10, 20}, 0.2}, {MinEigenvalueLaw{100, 200}, 8}, {MinEigenvalueLaw{200, 400}, 40},
		{MinEigenvalueLaw{500, 1000}, 70},
		{MinEigenvalueLaw{500, 2000}, 450}} {
		b.Run(fmt.Sprintf("d=%d/m=%v", c.law.Dim, c.law.Dof), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.law.LogCDF(c.x)
			}
		})
	}
}

func BenchmarkMinEigenvalueQuantile(b *testing.B) {
	for _, d := range []int{10, 100} {
		b.Run(fmt.Sprintf("d=%d/m=%v", d, 2*d), func(b *testing.B) {
			for b.Loop() {
				MinEigenvalueLaw{d, float64(2 * d)}.Quantile(1e-6)
			}
		})
	}
}
