// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

// fuzzed returns an operator of every kind for parameters p, q and dimension d.
func fuzzed(kind byte, p, q float64, d int) prox.Operator {
	switch kind % 26 {
	case 0:
		return prox.L1{Weight: p}
	case 1:
		return prox.SquaredL2{Weight: p}
	case 2:
		return prox.ElasticNet{L1: p, L2: q}
	case 3:
		return prox.L1Box{Weight: p, Lo: -q, Hi: q}
	case 4:
		return prox.L2Norm{Weight: p}
	case 5:
		return prox.LInfNorm{Weight: p}
	case 6:
		return prox.SortedL1{Weights: descending(p, d)}
	case 7:
		return prox.TotalVariation{Weight: p}
	case 8:
		return prox.Huber{Weight: p, Delta: q}
	case 9:
		return prox.Hinge{Weight: p}
	case 10:
		return prox.LogBarrier{Weight: p}
	case 11:
		return prox.NonNegative{}
	case 12:
		return prox.Box{Lo: p, Hi: q}
	case 13:
		return prox.Box{Lo: -p, Hi: p}
	case 14:
		return prox.L1Ball{R: p}
	case 15:
		return prox.L2Ball{R: p}
	case 16:
		return prox.Simplex{Total: p}
	case 17:
		a := make([]float64, d)
		a[0], a[d-1] = 1, p
		return prox.HalfSpace{A: a, B: q}
	case 18:
		return prox.SecondOrderCone{}
	case 19:
		return prox.Translate(prox.L1{Weight: p}, descending(q, d))
	case 20:
		return prox.Scale(prox.L1{Weight: 1}, p, q)
	case 21:
		s, _ := sumOf(prox.L1{Weight: p}, prox.Box{Lo: -1, Hi: q})
		return s
	case 22:
		s, _ := prox.Conjugate(prox.L2Norm{Weight: p})
		return s
	case 23:
		return prox.NuclearNorm{Rows: 1, Cols: d, Weight: p}
	case 24:
		if d == 4 {
			return prox.PSDCone{Order: 2}
		}
		if d > 1 {
			return nil
		}
		return prox.PSDCone{Order: 1}
	default:
		return prox.SpectralBall{Rows: 1, Cols: d, R: p}
	}
}

func descending(p float64, d int) []float64 {
	w := make([]float64, d)
	for i := range w {
		w[i] = p / float64(i+1)
	}
	return w
}

// fuzzedPoints reads two vectors of d coordinates of magnitude at most 1e9. ok is false if b does
// not contain them.
func fuzzedPoints(b []byte, d int) (x, y []float64, ok bool) {
	if len(b) < 16*d {
		return nil, nil, false
	}
	v := make([]float64, 2*d)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if !(math.Abs(v[i]) <= 1e9) {
			return nil, nil, false
		}
	}
	return v[:d], v[d:], true
}

func bytesOf(x ...float64) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// FuzzProx checks the defining properties of every operator at any two points:
//
//	‖p−q‖² ≤ ⟨p−q, x−y⟩                         firmly nonexpansive
//	prox_{γg}(x) + γ prox_{g*/γ}(x/γ) = x        Moreau
//	P(P(x)) = P(x), Func(P(x)) = 0, ‖P(x)‖ ≤ Radius   for sets
//	Dist(p, (p−x)/γ) = 0                         the optimality condition
//
// Each holds up to rounding. For parameters that Check refuses, Func must not panic.
func FuzzProx(f *testing.F) {
	for kind := range byte(26) {
		f.Add(kind, 1.0, 2.0, 1.0, byte(2), bytesOf(1, -2, 0.5, 3))
		f.Add(kind, 0.5, 0.5, 0.1, byte(3), bytesOf(0, 0, 0, 1e9, -1e9, 1e-9))
		f.Add(kind, 0.0, 1e-3, 20.0, byte(1), bytesOf(5e-324, -1))
		f.Add(kind, 1.0, math.NaN(), 1.0, byte(2), bytesOf(1, 1, 1, 1))
		f.Add(kind, 1.0, 1.0, 1.0, byte(3), bytesOf(1e-307, 1e-76, 1e-76, 1e-150, 9e-308, 0, 0, 1e-310))
		f.Add(kind, math.Inf(1), -1.0, 1.0, byte(4), bytesOf(1, 1, 1, 1, -7, 0, 3, 3))
	}
	f.Fuzz(func(t *testing.T, kind byte, p, q, gamma float64, dim byte, text []byte) {
		d := 1 + int(dim)%6
		x, y, ok := fuzzedPoints(text, d)
		if !ok {
			return
		}
		g := fuzzed(kind, p, q, d)
		if g == nil {
			return
		}
		if prox.Check(g, d) != nil || !(gamma > 1e-6 && gamma < 1e6) {
			g.Func(x) // the value is unspecified, but Func must not panic
			return
		}
		// Products of coordinates with these scales would overflow.
		if !(math.Abs(p) <= 1e9 && math.Abs(q) <= 1e9) {
			return
		}
		px, py := make([]float64, d), make([]float64, d)
		g.Prox(px, x, gamma)
		g.Prox(py, y, gamma)
		require.False(t, floats.HasNaN(px) || math.IsInf(floats.Norm(px, math.Inf(1)), 0), "%#v: %v → %v", g, x, px)
		require.False(t, math.IsNaN(g.Func(x)))

		// Rounding adds a few units in the last place of the largest numbers involved, times the 20 or so
		// steps of a root search.
		size := 1 + floats.Norm(x, 2) + floats.Norm(y, 2) + floats.Norm(px, 2) + floats.Norm(py,
			2) + (math.Abs(p)+math.Abs(q))*(1+gamma)
		eps := 1e-12 * size
		var inner, dist float64
		for i := range px {
			inner += (px[i] - py[i]) * (x[i] - y[i])
			dist += (px[i] - py[i]) * (px[i] - py[i])
		}
		require.LessOrEqual(t, dist, inner+eps*size, "%#v γ = %v: %v → %v, %v → %v", g, gamma, x, px, y, py)

		if s, ok := g.(prox.Set); ok {
			again := make([]float64, d)
			s.Prox(again, px, gamma)
			require.True(t, floats.EqualApprox(px, again, eps), "%#v: P(P(%v)) = %v, P = %v", g, x, again, px)
			// The radius bounds exact points, while computed points are rounded.
			require.LessOrEqual(t, floats.Norm(px, 2), s.Radius(d)*(1+1e-14)+1e-300, "%#v", g)
			require.Zero(t, s.Func(px), "%#v at P(x) = %v", g, px)
		}
		moreau := make([]float64, d)
		scaled := make([]float64, d)
		floats.AddScaled(scaled, 1/gamma, x)
		prox.ProxConjugate(g, moreau, scaled, 1/gamma)
		floats.Scale(gamma, moreau)
		floats.Add(moreau, px)
		require.True(t, floats.EqualApprox(moreau, x, eps*(1+gamma)), "%#v γ = %v: Moreau sums to %v, want %v", g, gamma,
			moreau, x)

		if s, ok := g.(prox.Subdifferential); ok {
			v := make([]float64, d)
			for i := range v {
				v[i] = (px[i] - x[i]) / gamma
			}
			got := s.Dist(px, v)
			require.False(t, math.IsNaN(got), "%#v", g)
			if shift := prox.RoundingOf(g).Shift(px); shift == 0 {
				require.LessOrEqual(t, got, eps*(1+1/gamma), "%#v γ = %v: %v → %v", g, gamma, x, px)
			}
		}
	})
}
