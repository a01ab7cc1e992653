// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// words reads the bytes as float64 bit patterns, so that every float64 can occur.
func words(b []byte) (v []float64) {
	for ; len(b) >= 8; b = b[8:] {
		v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return v
}

func unwords(v ...float64) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

var seeds = [][]float64{
	{1, 2, 3}, {math.NaN(), 1}, {math.Inf(1), math.Inf(-1), 5}, {1e308, 1e308, -1e308}, {5e-324, 5e-324}, {0,
		math.Copysign(0, -1)},
	{1e-160, 1e-160, 1e-160}, {1, 0x1p-53}, {math.MaxFloat64}, {0.6, 0.8}, {0.6000000000000001, 0.8},
}

// FuzzClip checks that, whatever a row contains, the exact norm of the stored row is at most the
// bound, a row inside the bound is unchanged, and clipping twice equals clipping once.
func FuzzClip(f *testing.F) {
	for _, s := range seeds {
		for _, b := range []float64{1, 1e-320, 1e-3, 1e308, 5e-324, math.Pi} {
			f.Add(unwords(s...), b)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, bound float64) {
		row := words(text)
		if len(row) == 0 || len(row) > 40 || !(bound > 0) || math.IsInf(bound, 1) {
			return
		}
		in := append([]float64(nil), row...)
		scratch := make([]float64, len(row))
		forceRow(row, scratch, bound)
		require.False(t, moreThan(row, bound), "%v at bound %v became %v", in, bound, row)
		if !moreThan(in, bound) {
			require.Equal(t, in, row)
		}
		again := append([]float64(nil), row...)
		forceRow(again, scratch, bound)
		require.Equal(t, row, again)
		n := normAbove(row, bound)
		require.False(t, n > bound || math.IsNaN(n))
		if n < bound {
			require.False(t, moreThan(row, n), "norm of %v is above %v", row, n)
		}
		label := forceLabel(in[0], bound)
		require.True(t, math.Abs(label) <= bound)
		require.Equal(t, label, forceLabel(label, bound))
	})
}

// moreThan reports whether ‖row‖₂ > bound in rational arithmetic. A row with a NaN or infinite
// entry exceeds every bound.
func moreThan(row []float64, bound float64) bool {
	sum := new(big.Rat)
	for _, v := range row {
		x := new(big.Rat)
		if x.SetFloat64(v) == nil {
			return true
		}
		sum.Add(sum, x.Mul(x, x))
	}
	b := new(big.Rat)
	b.SetFloat64(bound)
	return sum.Cmp(b.Mul(b, b)) > 0
}

// FuzzData checks that no values of records and θ make a problem panic, print a value, return a NaN
// residual, or return a finite residual at a point that is not finite.
func FuzzData(f *testing.F) {
	for i, s := range seeds {
		f.Add(unwords(s...), byte(2), byte(i), 1.0, 0.5)
		f.Add(unwords(append(s, s...)...), byte(1), byte(i+1), 1e-3, 1e150)
		f.Add(unwords(append(s, 1, -1, 2, 0.5)...), byte(2), byte(i+2), 1e308, -1.0)
	}
	f.Fuzz(func(t *testing.T, text []byte, dim, kind byte, bound, theta float64) {
		v := words(text)
		d := 1 + int(dim)%4
		n := len(v) / (d + 1)
		if n > 20 {
			return
		}
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i], labels[i] = v[i*(d+1):i*(d+1)+d], v[i*(d+1)+d]
		}
		data, err := NewData(rows, labels, loss.Bounds{Row: bound, Label: bound})
		if err != nil {
			require.ErrorIs(t, err, ErrData)
			require.Nil(t, data)
			return
		}
		require.Equal(t, fmt.Sprintf("erm.Data(%d×%d)", n, d), fmt.Sprintf("%+v", data))
		p := &Problem{
			Data: data,
			Loss: []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 1}, loss.SmoothedHinge{Gamma: 0.5}}[kind%4],
			Reg:  []prox.Operator{nil, prox.L1{Weight: 0.1}, prox.SquaredL2{Weight: 1}}[kind/4%3],
			Set:  []prox.Set{nil, prox.Box{Lo: -1, Hi: 1}}[kind/12%2],
		}
		if err := certifiable(p); err != nil {
			require.ErrorIs(t, err, ErrProblem)
			return
		}
		linear := make([]float64, d)
		for i := range linear {
			linear[i] = theta
		}
		o := p.Perturb(Perturbation{Linear: linear})
		x := make([]float64, d)
		x[0] = theta
		r := o.Residual(x)
		require.False(t, math.IsNaN(r) || r < 0, "%v", r)
		if math.IsNaN(theta) || math.IsInf(theta, 0) {
			require.True(t, math.IsInf(r, 1))
		}
		o.Func(x)
		o.Grad(make([]float64, d), x)
		o.GradTerms(make([]float64, d), x, []int{0, n - 1})
		o.Quadratic()
		require.False(t, math.IsNaN(o.Smoothness()), "%v", o.Smoothness())
		zero := data.Map(func([]float64, float64) (float64, bool) { return theta, kind&1 == 0 })
		for i := range n {
			require.True(t, math.Abs(zero.Label(i)) <= bound)
			require.False(t, moreThan(zero.Row(i), bound))
		}
	})
}
