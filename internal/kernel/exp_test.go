// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddExp: the exponential is that of the standard library to a relative 2⁻⁵⁰, also at the ends
// of its range, and its bits do not depend on the build.
func TestAddExp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 4000 {
		var b, c, start [16]float64
		for k := range b {
			b[k], c[k], start[k] = 10*r.NormFloat64(), r.Float64(), r.Float64()
		}
		e, g := 100*r.NormFloat64(), 100*r.Float64()
		if i%100 == 0 {
			e *= 1e3
		}
		var seen [][18]uint64
		eachKernel(t, func(t *testing.T) {
			p, zero := start, [16]float64{}
			var bits [18]uint64
			first, last := AddExp(&p, &b, &c, e, g)
			AddExp(&zero, &b, &c, e, g)
			for k, v := range zero {
				want := math.Exp(min(max(e+b[k]-g*c[k], -708), 709))
				require.InDelta(t, 1, v/want, 0x1p-50, "x = %v", e+b[k]-g*c[k])
				require.Equal(t, start[k]+v, p[k])
				bits[k] = math.Float64bits(v)
			}
			require.Equal(t, zero[0], first)
			require.Equal(t, zero[15], last)
			seen = append(seen, bits)
		})
		for _, bits := range seen {
			require.Equal(t, seen[len(seen)-1], bits)
		}
	}
}

// TestAddExpNaN: a NaN of any argument, whatever its bits, stays one, and no other term becomes
// one.
func TestAddExpNaN(t *testing.T) { eachKernel(t, addExpNaN) }

func addExpNaN(t *testing.T) {
	for _, nan := range []float64{math.NaN(), -math.NaN(), math.Float64frombits(0xfff8 << 48), math.Inf(1) - math.Inf(1)} {
		for k := range 16 {
			for part := range 3 {
				var in [3][16]float64
				in[part][k] = nan
				first, last := AddExp(&in[0], &in[1], &in[2], 0, 1)
				for j, v := range in[0] {
					require.Equal(t, j == k, math.IsNaN(v), "part %d, %d of %d", part, j, k)
				}
				require.Equal(t, part > 0 && k == 0, math.IsNaN(first))
				require.Equal(t, part > 0 && k == 15, math.IsNaN(last))
			}
		}
		var p, zero [16]float64
		AddExp(&p, &zero, &zero, nan, 0)
		require.True(t, math.IsNaN(p[3]))
	}
}

func BenchmarkAddExp(b *testing.B) {
	var p, x, c [16]float64
	for b.Loop() {
		AddExp(&p, &x, &c, -1, 2)
	}
}
