// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
)

var bg = context.Background()

// shifted adds the shift of w to the noise of a plan: what makes w win on any
// neighbor of the data where it won.
func shifted(pl *Plan, n *perturbation, w []int) *perturbation {
	q := &pl.params
	out := newPerturbation(q.Dim, len(q.Values))
	out.shift = n.shift
	steps := int64(math.Ldexp(q.Shift, -q.Exponent)) // of Product and RSPM
	var lambda float64
	var last []float64
	if pl.separator == none && q.Time == 0 {
		k := swing(q.Relation)
		lambda, last = pl.integerShift(
			radialShift(pl.cube, q.Dim, q.NormSq, k*q.Range, math.Inf(1)) / (pl.norm() * pl.norm()),
		)
	}
	sq := 0
	for _, v := range w {
		sq += v * v
	}
	for j, row := range n.table {
		copy(out.table[j], row)
		for k, v := range q.Values {
			switch {
			case q.Law == KNorm || q.Law == OneSided:
				if v == w[j] {
					out.table[j][k] += steps
				}
			case pl.separator == none: // ⟨s_w, φ(v)⟩
				out.table[j][k] += int64(lambda) * int64(w[j]*v) << q.FeatureBits
			default: // −Σ s(1 − 2bᵢ(w)) bᵢ(v) over the separators of j
				for _, fires := range separatorsOf(pl, j) {
					if fires(v) {
						if fires(w[j]) {
							out.table[j][k] += steps
						} else {
							out.table[j][k] -= steps
						}
					}
				}
			}
		}
	}
	for k, v := range n.norm {
		out.norm = append(out.norm, v+int64(last[sq])*pl.last[k])
	}
	return out
}

// separatorsOf returns the predictions on the examples that concern coordinate
// j, by their definition as halfspaces over (w_j, 1).
func separatorsOf(pl *Plan, j int) (b []func(v int) bool) {
	at := func(x, t int) func(int) bool { return func(v int) bool { return x*v-t > 0 } }
	switch pl.separator {
	case unitVectors:
		return []func(int) bool{at(1, 0)}
	case signedUnitVectors:
		return []func(int) bool{at(1, 0), at(-1, 0)}
	}
	last := 0
	for k, v := range pl.params.Values {
		if pl.params.allowed(j, k) {
			last = v
		}
	}
	for k, v := range pl.params.Values {
		if pl.params.allowed(j, k) && v != last {
			b = append(b, at(1, v))
		}
	}
	return b
}

// The heart of every proof here: where noise h makes w the minimizer on D, the
// noise h + s_w makes it the minimizer on D′, ties included. The oracles solve
// both sides.
func TestShiftLemma(t *testing.T) {
	for range 20 {
		rapid.Check(t, shiftLemma)
	}
}

func shiftLemma(t *rapid.T) {
	type mechanism any
	d := rapid.IntRange(1, 3).Draw(t, "d")
	b := dp.Budget{Epsilon: 1, Delta: 1e-3}
	c := rapid.SampledFrom([]struct {
		name  string
		m     mechanism
		space Space
	}{
		{"radial", &OPDisc{}, Lattice(5)},
		{"cube", &OPDisc{}, cube()},
		{"product", &Product{}, Space{Values: []int{-2, 0, 1}, NormSq: -1}},
		{"product in a ball", &Product{Law: OneSided}, Lattice(3)},
		{"signs", &RSPM{}, cube()},
		{"ternary", &RSPM{}, ternary()},
		{"intercept", &RSPM{}, withIntercept(d, 2)},
		{"gaussian signs", &RSPM{Law: Gaussian}, cube()},
		{"gaussian", &OPDisc{Law: Gaussian}, Lattice(2)},
	}).Draw(t, "mechanism")
	rel := rapid.SampledFrom([]dp.Relation{dp.Replace, dp.AddRemove}).Draw(t, "relation")
	var m mechanism
	switch v := c.m.(type) {
	case *OPDisc:
		m = &OPDisc{Law: v.Law, Relation: rel}
	case *Product:
		m = &Product{Law: v.Law, Relation: rel}
	case *RSPM:
		m = &RSPM{Law: v.Law, Relation: rel}
	}
	pl, err := calibrate(m, public{Space: c.space, Dim: d, Range: 1, Budget: b})
	require.NoError(t, err)

	n := rapid.IntRange(1, 5).Draw(t, "n")
	rows, labels := make([][]int64, n+1), make([]int, n+1)
	for i := range rows {
		rows[i] = make([]int64, d)
		for j := range rows[i] {
			rows[i][j] = rapid.Int64Range(-2, 2).Draw(t, "x")
		}
		labels[i] = 2*rapid.IntRange(0, 1).Draw(t, "y") - 1
	}
	// D has records 0..n−1; D′ has record n in the place of record 0, or n+1 records.
	first := 1
	if rel == dp.AddRemove {
		first = 0
	}
	p, err := NewProblem(rows[:n], labels[:n], nil, c.space)
	require.NoError(t, err)
	p1, err := NewProblem(rows[first:], labels[first:], nil, c.space)
	require.NoError(t, err)
	if rapid.Bool().Draw(t, "swap") {
		p, p1 = p1, p
	}

	// Noise with many ties on the grid: small multiples of a record, or drawn.
	noise := pl.draw(nil, sample.Reproducible(rapid.Uint64().Draw(t, "seed")))
	one := int64(1) << noise.shift
	if pl.params.Time > 0 && rapid.Bool().Draw(t, "ties") {
		for _, row := range noise.table {
			for k := range row {
				row[k] = one * int64(rapid.IntRange(-2, 2).Draw(t, "noise"))
			}
		}
		if pl.separator != none {
			for j, row := range noise.table { // the tables that separators can make
				for k := range row {
					row[k] = 0
					for i, fires := range separatorsOf(pl, j) {
						if fires(pl.params.Values[k]) {
							row[k] += one * int64((i*7+j*3+n)%5-2)
						}
					}
				}
			}
		}
	}
	oracle := rapid.SampledFrom([]Oracle{everywhere, generic(0), Search{}}).Draw(t, "oracle")
	solve := func(p *Problem, n *perturbation) []int {
		q, err := p.Perturb(n.table, n.norm, -n.shift)
		require.NoError(t, err)
		sol, err := oracle.Solve(bg, q)
		require.NoError(t, err)
		return sol.W
	}
	w := solve(p, noise)
	require.Equal(t, w, solve(p1, shifted(pl, noise, w)))
}

// TestPerturb: the noise is copied and rounded to a grid that depends on it alone.
func TestPerturb(t *testing.T) {
	p, err := NewProblem([][]int64{{1}}, []int{1}, nil, Lattice(1))
	require.NoError(t, err)
	table, norm := [][]float64{{0.1, 1. / 3, 1e-12}}, []float64{7, 1e-9}
	q, err := p.perturbReal(table, norm)
	require.NoError(t, err)
	require.Nil(t, p.noise)
	require.Equal(t, 30, q.noise.shift)
	require.InDelta(t, 0.1, q.noise.float(q.noise.table[0][0]), 0x1p-31)
	require.Zero(t, q.noise.table[0][2])
	norm[0] = 0
	require.Equal(t, int64(7)<<30, q.noise.norm[0])

	// coarser where the noise is large, so that sums stay within 2^60 steps
	for _, scale := range []float64{1, 1e6, 1e9, 1e15, 0x1p57} {
		q, rounding, err := p.tilted([]float64{scale})
		require.NoError(t, err)
		require.LessOrEqual(t, (float64(maxRecords)+scale)*math.Ldexp(1, q.noise.shift), float64(feasible))
		require.Equal(t, math.Ldexp(2, -q.noise.shift), rounding)
	}

	// What Perturb is given, Noise shows.
	steps, z := [][]int64{{-5, 0, 7}}, []int64{3, 1 << 40}
	q, err = p.Perturb(steps, z, -20)
	require.NoError(t, err)
	got, gotZ, exponent := q.Noise()
	require.Equal(t, steps, got)
	require.Equal(t, z, gotZ)
	require.Equal(t, -20, exponent)
	require.Equal(t, -math.Ldexp(7+1<<40, -20), q.Objective([]int{1})-float64(q.Loss([]int{1})))
}

// perturbReal is Perturb for a real table and norm, rounded as tilts are.
func (p *Problem) perturbReal(table [][]float64, norm []float64) (*Problem, error) {
	if p == nil {
		return p.Perturb(nil, nil, 0)
	}
	bound := floats.Norm(norm, math.Inf(1)) // of the noise
	for _, row := range table {
		bound += floats.Norm(row, math.Inf(1))
	}
	if !(bound <= 0x1p58) { // also NaN
		return nil, fmt.Errorf("%w: the noise must be finite with Σ_j max|T_j| + max|z| ≤ 2^58", ErrProblem)
	}
	_, e := math.Frexp(bound) // bound < 2^e
	shift := 59 - max(59-maxShift, e+1)
	round := func(src []float64) []int64 {
		if src == nil {
			return nil
		}
		dst := make([]int64, len(src))
		for k, v := range src {
			dst[k] = int64(math.RoundToEven(math.Ldexp(v, shift)))
		}
		return dst
	}
	var steps [][]int64
	for _, row := range table {
		steps = append(steps, round(row))
	}
	return p.Perturb(steps, round(norm), -shift)
}

// size is |W|.
func size(p *Problem) int { return p.space.pointsUpTo(p.dim, 1e6) }

// real returns the noise of p as float64, 0 where there is none.
func (p *Problem) real() (table [][]float64, norm []float64) {
	n := p.perturbation()
	row := func(src []fixed) []float64 {
		dst := make([]float64, len(src))
		for k, v := range src {
			dst[k] = math.Ldexp(float64(v), -n.shift)
		}
		return dst
	}
	for _, r := range n.table {
		table = append(table, row(r))
	}
	if n.norm != nil {
		norm = row(n.norm)
	}
	return table, norm
}
