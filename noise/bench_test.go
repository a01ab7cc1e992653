package noise_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privopt/privopt/noise"
)

// sink keeps the compiler from removing a benchmark's work.
var sink float64

func BenchmarkDraw(b *testing.B) {
	src := noise.Secure()
	buf := make([]float64, 1)
	naive := rand.New(rand.NewChaCha8([32]byte{}))
	gonum := distuv.Normal{Sigma: 1, Src: rand.NewChaCha8([32]byte{})}
	gonumGamma := distuv.Gamma{Alpha: 50.5, Beta: 1, Src: rand.NewChaCha8([32]byte{})}
	for _, c := range []struct {
		law  string
		draw func() float64
	}{
		{"uniform", func() float64 { return noise.Uniform(src) }},
		{"normal", func() float64 { noise.Normal(buf, 2, src); return buf[0] }},
		{"normal-mathrand", naive.NormFloat64},
		{"normal-gonum", gonum.Rand},
		{"exponential", func() float64 { return noise.Exponential(src) }},
		{"laplace", func() float64 { return noise.Laplace(3, src) }},
		{"gamma50.5", func() float64 { return noise.Gamma(50.5, src) }},
		{"gamma50.5-gonum", gonumGamma.Rand},
		{"gamma0.5", func() float64 { return noise.Gamma(0.5, src) }},
	} {
		b.Run("law="+c.law, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = c.draw()
			}
		})
	}
}

func BenchmarkVector(b *testing.B) {
	src := noise.Secure()
	for _, d := range []int{10, 1000} {
		dst := make([]float64, d)
		for name, draw := range map[string]func(){
			"normal":    func() { noise.Normal(dst, 1, src) },
			"sphere":    func() { noise.Sphere(dst, src) },
			"gammanorm": func() { noise.GammaNorm(dst, 1, src) },
		} {
			b.Run(fmt.Sprintf("law=%s/d=%d", name, d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					draw()
				}
			})
		}
	}
}
