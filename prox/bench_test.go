package prox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/privopt/privopt/prox"
)

func BenchmarkProx(b *testing.B) {
	for _, d := range []int{100, 1000} {
		rnd := rand.New(rand.NewPCG(1, 2))
		x, dst := make([]float64, d), make([]float64, d)
		for i := range x {
			x[i] = rnd.NormFloat64()
		}
		for name, op := range map[string]prox.Operator{
			"L1": prox.L1{Weight: 0.5}, "Box": prox.Box{Lo: -1, Hi: 1}, "L1Box": prox.L1Box{Weight: 0.5, Lo: -1, Hi: 1},
			"ElasticNet": prox.ElasticNet{L1: 0.5, L2: 1}, "L2Ball": prox.L2Ball{R: 1}, "L1Ball": prox.L1Ball{R: 3}, "Simplex": prox.Simplex{Total: 1},
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
