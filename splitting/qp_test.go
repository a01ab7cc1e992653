// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// number is a fraction or a number of a golden file; null is missing.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = number(math.NaN())
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return fmt.Errorf("%s is no number", b)
	}
	v, _ := r.Float64()
	*n = number(v)
	return nil
}

// plain returns the numbers, with missing in the place of null.
func plain(v []number, missing float64) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, len(v))
	for i, n := range v {
		if out[i] = float64(n); math.IsNaN(out[i]) {
			out[i] = missing
		}
	}
	return out
}

// quadraticProgram is a problem with prices on rows.
type quadraticProgram struct {
	P, A                         [][]number
	Q, L, U, Lo, Hi, Over, Under []number
}

// soft returns the operator over·max(t−u, 0) + under·max(l−t, 0) of one row, or the bounds l and u.
func soft(l, u, over, under float64) prox.Operator {
	if math.IsInf(over, 1) && math.IsInf(under, 1) || over+under == 0 {
		return prox.Bounds{Lo: []float64{l}, Hi: []float64{u}}
	}
	at := l
	if math.IsInf(l, -1) {
		at, under = u, 0
	}
	if math.IsInf(u, 1) {
		over = 0
	}
	return prox.Translate(prox.Scale(prox.Pinball{Tau: over / (over + under)}, 1, over+under), []float64{at})
}

// problem returns p as a Problem.
func (p quadraticProgram) problem(t *testing.T) splitting.Problem {
	t.Helper()
	inf := math.Inf(1)
	n, m := len(p.Q), len(p.A)
	var sym mat.Symmetric
	if p.P != nil {
		s := mat.NewSymDense(n, nil)
		for i, row := range p.P {
			for j, v := range row {
				s.SetSym(i, j, float64(v))
			}
		}
		sym = s
	}
	var a mat.Matrix
	if m > 0 {
		d := mat.NewDense(m, n, nil)
		for i, row := range p.A {
			d.SetRow(i, plain(row, 0))
		}
		a = d
	}
	qp, err := splitting.NewQP(sym, plain(p.Q, 0), a, plain(p.L, -inf), plain(p.U, inf), plain(p.Lo, -inf),
		plain(p.Hi, inf))
	require.NoError(t, err)
	if p.Over == nil && p.Under == nil {
		return qp
	}
	at := func(v []number, i int, missing float64) float64 {
		if v == nil || math.IsNaN(float64(v[i])) {
			return missing
		}
		return float64(v[i])
	}
	var rows []prox.Block
	for i := range m {
		rows = append(rows, prox.Block{Op: soft(at(p.L, i, -inf), at(p.U, i, inf), at(p.Over, i, inf), at(p.Under, i, inf)),
			Len: 1})
	}
	qp.H = prox.Blocks(rows...)
	return qp
}

// golden is a problem with its exact solution or certificate.
type golden struct {
	Name, Status string
	Problem      quadraticProgram
	X, Y, Z      []number
	Value        number
	XUnique      bool     `json:"x_unique"`
	YUnique      bool     `json:"y_unique"`
	FarkasY      []number `json:"farkas_y"`
	FarkasZ      []number `json:"farkas_z"`
	Ray          []number
}

func readGolden(t *testing.T) []golden {
	t.Helper()
	text, err := os.ReadFile("testdata/constraints.json")
	require.NoError(t, err)
	var file struct{ Problems []golden }
	require.NoError(t, json.Unmarshal(text, &file))
	return file.Problems
}

// near requires got to be within tol of want, relative to the largest entry and at least 1.
func near(t *testing.T, want, got []float64, tol float64, what string) {
	t.Helper()
	require.Len(t, got, len(want), what)
	scale := math.Max(1, floats.Norm(want, math.Inf(1)))
	for i, v := range want {
		require.InDelta(t, v, got[i], tol*scale, "%s, entry %d: %v, want %v", what, i, got, want)
	}
}

// TestInteriorPointGolden compares the solver with exact solutions of textbook problems, in several
// units of x and of the objective.
func TestInteriorPointGolden(t *testing.T) {
	for _, g := range readGolden(t) {
		t.Run(g.Name, func(t *testing.T) {
			for _, unit := range []float64{1, 0x1p-40, 0x1p40} {
				checkGolden(t, g, unit)
			}
		})
	}
}

// checkGolden solves the problem with x and bounds in a unit and P over it, so that multipliers
// stay.
func checkGolden(t *testing.T, g golden, unit float64) {
	p := g.Problem.in(unit).problem(t)
	res, err := splitting.Solve(background, p, make([]float64, len(g.Problem.Q)), nil, &splitting.InteriorPoint{})
	require.Equal(t, g.Status, res.Status.String())
	require.LessOrEqual(t, res.Iterations, 20)
	if g.Status != "Converged" {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.InEpsilon(t, float64(g.Value), res.Value/unit, 1e-9)
	floats.Scale(1/unit, res.X)
	tol := 1e-12
	if g.Name == "HS268" {
		tol = 1e-11
	}
	if g.XUnique {
		near(t, plain(g.X, 0), res.X, tol, "x")
	}
	if g.YUnique && len(g.Y) > 0 {
		near(t, plain(g.Y, 0), res.Dual.H, 1e-12, "y")
	}
	if g.YUnique && p.G != nil {
		near(t, plain(g.Z, 0), res.Dual.G, 1e-12, "z")
	}
}

// in returns the problem of unit·x.
func (p quadraticProgram) in(unit float64) quadraticProgram {
	scaled := func(v []number, by float64) []number {
		out := slices.Clone(v)
		for i := range out {
			out[i] *= number(by)
		}
		return out
	}
	p.L, p.U, p.Lo, p.Hi = scaled(p.L, unit), scaled(p.U, unit), scaled(p.Lo, unit), scaled(p.Hi, unit)
	sym := make([][]number, 0, len(p.P))
	for _, row := range p.P {
		sym = append(sym, scaled(row, 1/unit))
	}
	if p.P != nil {
		p.P = sym
	}
	return p
}

// TestFarMinimizers checks programs whose minimizers are up to 1e14 away, along a direction in
// which the objective is flat: ½x₁² − x₁ with x₁ + e·x₂ ≥ 2 has the minimum −½ at x₁ = 1, x₂ ≥ 1/e.
func TestFarMinimizers(t *testing.T) {
	for _, e := range []float64{1e-4, 1e-7, 1e-9, 1e-12, 1e-14} {
		p, err := splitting.NewQP(mat.NewDiagDense(2, []float64{1, 0}), []float64{-1, 0},
			mat.NewDense(1, 2, []float64{1, e}), []float64{2}, []float64{math.Inf(1)}, nil, nil)
		require.NoError(t, err)
		res, err := splitting.Solve(background, p, make([]float64, 2), nil, &splitting.InteriorPoint{})
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status, e)
		require.InDelta(t, 1, res.X[0], 1e-9, e)
		require.GreaterOrEqual(t, res.X[1], (1-1e-9)/e)
		require.InDelta(t, -0.5, res.Value, 1e-9, e)
	}
}
