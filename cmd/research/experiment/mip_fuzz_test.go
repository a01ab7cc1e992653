// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/objpert"
)

// fuzzProblem makes a small problem of the bytes, noise included; nil where the
// package refuses it.
func fuzzProblem(in []byte) *objpert.Problem {
	next := func() int64 {
		if len(in) == 0 {
			return 0
		}
		v := int64(int8(in[0]))
		in = in[1:]
		return v
	}
	d, n := 1+int(next()&3), 1+int(next()&7)
	space := objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}
	switch next() & 3 {
	case 0:
		space.NormSq = 1 + int(next()&15)
	case 1:
		space.Values = []int{int(-1 - next()&7), int(1 + next()&7)}
	case 2:
		for range d {
			space.Allowed = append(space.Allowed, []bool{next()&1 == 1, next()&1 == 1, next()&1 == 1})
		}
	}
	rows, labels, weights := make([][]int64, n), make([]int, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		for j := range rows[i] {
			rows[i][j] = next() << (uint(next()) & 31)
		}
		labels[i], weights[i] = int(next()&1)*2-1, int(next()&15)
	}
	p, err := objpert.NewProblem(rows, labels, weights, space)
	if err != nil {
		return nil
	}
	table := make([][]int64, d)
	for j := range table {
		for range space.Values {
			table[j] = append(table[j], next()<<(uint(next())%40))
		}
	}
	if p, err = p.Perturb(table, nil, -30); err != nil {
		return nil
	}
	return p
}

// FuzzSolution: whatever a solver writes, the parser ends in an error of the
// package or in an answer; what is made of that is a point of the space, with
// the objective that the library itself computes, and never a proof.
func FuzzSolution(f *testing.F) {
	for _, text := range []string{
		"Optimal - objective value -3.25\n      0 r0_0  1  0\n      1 r0_2 -1 0\n",
		"Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective -3\n# Columns 2\nr0_0 1\nr0_2 NaN\n" +
			"# Dual\nr0_0 9\n",
		"solution status: infeasible\nobjective value: 1e400\n",
		"# Objective value = -12\nr0_0 1e300\nr0_2 -Inf\nr1_1 1e-300\n",
		"r0_0", "\x00\r\n r0_0 \xff",
		strings.Repeat("r0_0 1 ", 20_000),
	} {
		f.Add(text, []byte{2, 3, 0, 4, 1, 1, 0, 1})
		f.Add(text, []byte{3, 2, 1, 1, 1, 200, 9, 7, 31})
	}
	f.Fuzz(func(t *testing.T, text string, in []byte) {
		p := fuzzProblem(in)
		if p == nil {
			return
		}
		m := newModel(p)
		a := m.parse(text)
		if a.value == nil {
			return
		}
		require.NotEmpty(t, a.value)
		if w, ok := m.point(a.value); ok {
			require.True(t, p.Contains(w), "%v", w)
			require.False(t, math.IsNaN(p.Objective(w)))
		}
	})
}

// FuzzModel: the model of any problem that the package accepts is written
// with finite numbers only and the same columns.
func FuzzModel(f *testing.F) {
	f.Add([]byte{2, 3, 0, 4, 1, 1, 0, 1})
	f.Add([]byte{3, 7, 1, 127, 128, 31, 100, 30, 90, 29})
	f.Add([]byte{3, 2, 2, 1, 0, 0, 1, 1, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14})
	f.Fuzz(func(t *testing.T, in []byte) {
		p := fuzzProblem(in)
		if p == nil {
			return
		}
		m := newModel(p)
		lp := m.lp()
		for _, word := range strings.Fields(lp) {
			require.NotContains(t, []string{"NaN", "Inf", "+Inf", "-Inf"}, word, lp)
		}
		constraints := lp[strings.Index(lp, "Subject To"):]
		for _, c := range m.cost {
			require.Contains(t, constraints, " "+c.name)
		}
	})
}
