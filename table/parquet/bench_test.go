// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
)

// BenchmarkPass reads a million records of 12 features once, in chunks. Two goroutines for each
// processor read.
func BenchmarkPass(b *testing.B) {
	type wide struct {
		A, B, C, D, E, F, G, H, I, J, K, L, Y float64
	}
	type snappy struct {
		A, B, C, D, E, F, G, H, I, J, K, L, Y float64 `parquet:",snappy"`
	}
	const n, d = 1_000_000, 12
	rnd := rand.New(rand.NewPCG(1, 2))
	all := make([]wide, n)
	packed := make([]snappy, n)
	for i := range all {
		v := &all[i]
		for _, x := range []*float64{&v.A, &v.B, &v.C, &v.D, &v.E, &v.F, &v.G, &v.H, &v.I, &v.J, &v.K, &v.L, &v.Y} {
			*x = rnd.NormFloat64()
		}
		packed[i] = snappy(*v)
	}
	large := parquet.PageBufferSize(1 << 20)
	paths := map[string]string{
		"plain": write(b, all, 1<<17, large), "no index": write(b, all, n, large), "snappy": write(b, packed, 1<<17, large),
	}
	unindexed(b, paths["no index"])
	for _, name := range []string{"plain", "no index", "snappy"} {
		b.Run("file="+name, func(b *testing.B) {
			s, err := Open(Options{Label: "Y"}, paths[name])
			require.NoError(b, err)
			defer s.Close()
			b.SetBytes(n * (d + 1) * 8)
			b.ReportAllocs()
			for b.Loop() {
				var next atomic.Int64
				var wait sync.WaitGroup
				for range 2 * runtime.GOMAXPROCS(0) {
					wait.Go(func() {
						rows, labels := make([]float64, erm.Chunk*d), make([]float64, erm.Chunk)
						for {
							first := int(next.Add(erm.Chunk)) - erm.Chunk
							if first >= n {
								return
							}
							m := min(erm.Chunk, n-first)
							if err := s.Read(b.Context(), rows[:m*d], labels[:m], first); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wait.Wait()
			}
		})
	}
}
