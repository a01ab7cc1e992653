// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// tabled is a program of a known status.
type tabled struct {
	namedProblem
	status splitting.Status
}

// moreTabled are the programs of usualPrograms in other sizes, regressions as linear programs and
// with other losses, and programs without a minimizer.
func moreTabled(t testing.TB) (all []tabled) {
	r := rand.New(rand.NewPCG(8, 8))
	inf := math.Inf(1)
	add := func(name string, d int, p splitting.Problem, err error, status splitting.Status) {
		require.NoError(t, err, name)
		all = append(all, tabled{namedProblem{name, d, p}, status})
	}
	matrix := func(a mat.Matrix) splitting.Linear {
		k, err := splitting.NewMatrix(a)
		require.NoError(t, err)
		return k
	}
	for _, n := range []int{10, 30, 60} {
		a := gaussian(r, 2*n, n)
		l, u := around(r, a)
		p, err := splitting.NewQP(spectrum(r, n, 1e6), normals(r, n), a, l, u, nil, nil)
		add(fmt.Sprintf("kappa 1e6, %d", n), n, p, err, splitting.Converged)
		q := mat.NewVecDense(n, nil)
		q.MulVec(a.T(), mat.NewVecDense(2*n, normals(r, 2*n)))
		p, err = splitting.NewQP(nil, q.RawVector().Data, a, l, u, nil, nil)
		add(fmt.Sprintf("lp %d", n), n, p, err, splitting.Converged)
		p, err = splitting.NewQP(outer(gaussian(r, n, n/2), 0), normals(r, n), nil, nil, nil, fill(n, 0), fill(n, 2))
		add(fmt.Sprintf("box, rank %d", n/2), n, p, err, splitting.Converged)
		l, _ = around(r, a)
		p, err = splitting.NewQP(spectrum(r, n, 10), normals(r, n), a, l, fill(2*n, inf), fill(n, 0), nil)
		require.NoError(t, err)
		p.H = prox.Translate(prox.L1{Weight: 1}, l)
		add(fmt.Sprintf("absolute rows %d", n), n, p, nil, splitting.Converged)
	}
	// Least absolute deviations and a support vector machine with slacks as variables.
	rows, y := gaussian(r, 60, 10), normals(r, 60)
	k := mat.NewDense(60, 130, nil)
	q := fill(130, 1)
	lo := fill(130, 0)
	for j := range 10 {
		q[j], lo[j] = 0, -inf
	}
	for i := range 60 {
		for j := range 10 {
			k.Set(i, j, rows.At(i, j))
		}
		k.Set(i, 10+i, 1)
		k.Set(i, 70+i, -1)
	}
	p, err := splitting.NewQP(nil, q, k, y, y, lo, nil)
	add("lad, slacks", 130, p, err, splitting.Converged)
	k, q, lo = mat.NewDense(100, 111, nil), fill(111, 1), fill(111, 0)
	diag := fill(111, 0)
	for j := range 11 {
		q[j], lo[j] = 0, -inf
		if j < 10 {
			diag[j] = 1
		}
	}
	for i := range 100 {
		sign := float64(2*(i%2) - 1)
		for j := range 10 {
			k.Set(i, j, sign*(r.NormFloat64()+0.3*sign))
		}
		k.Set(i, 10, sign)
		k.Set(i, 11+i, 1)
	}
	p, err = splitting.NewQP(mat.NewDiagDense(111, diag), q, k, fill(100, 1), fill(100, inf), lo, nil)
	add("svm, slacks", 111, p, err, splitting.Converged)
	for _, tau := range []float64{0.1, 0.5} {
		add(fmt.Sprintf("quantile %v", tau), 8, splitting.Problem{K: matrix(gaussian(r, 200, 8)),
			H: prox.Translate(prox.Pinball{Tau: tau}, normals(r, 200))}, nil, splitting.Converged)
	}
	// Basis pursuit, nonnegative least squares, a simplex, model predictive control.
	a := gaussian(r, 20, 60)
	b := a.RawRowView(0)[:20]
	add("basis pursuit", 60, splitting.Problem{G: prox.L1{Weight: 1}, H: prox.Bounds{Lo: b, Hi: b}, K: matrix(a)}, nil,
		splitting.Converged)
	f, err := splitting.NewLeastSquares(gaussian(r, 80, 40), normals(r, 80))
	add("nonnegative", 40, splitting.Problem{F: f, G: prox.NonNegative{}}, err, splitting.Converged)
	p, err = splitting.NewQP(spectrum(r, 50, 100), normals(r, 50), mat.NewDense(1, 50, fill(50, 1)), []float64{1},
		[]float64{1}, fill(50, 0), nil)
	add("simplex", 50, p, err, splitting.Converged)
	p, err = control(r, 30)
	add("model predictive control", 90, p, err, splitting.Converged)

	// No feasible point: rows, bounds, equations, rows against bounds. No lower bound: linear and
	// singular objectives, and one with a free direction behind bounds.
	a = gaussian(r, 30, 50)
	opposite := mat.NewDense(31, 50, nil)
	opposite.Slice(0, 30, 0, 50).(*mat.Dense).Copy(a)
	for j := range 50 {
		opposite.Set(30, j, -a.At(0, j)-a.At(1, j))
	}
	p, err = splitting.NewQP(spectrum(r, 50, 10), normals(r, 50), opposite, fill(31, 1), fill(31, inf), nil, nil)
	add("rows exclude", 50, p, err, splitting.Infeasible)
	p, err = splitting.NewQP(nil, nil, mat.NewDense(1, 3, fill(3, 1)), []float64{4}, []float64{inf}, nil, fill(3, 1))
	add("row and bounds exclude", 3, p, err, splitting.Infeasible)
	twice := mat.NewDense(20, 30, nil)
	twice.Slice(0, 10, 0, 30).(*mat.Dense).Copy(a)
	twice.Slice(10, 20, 0, 30).(*mat.Dense).Copy(a)
	rhs := normals(r, 20)
	p, err = splitting.NewQP(spectrum(r, 30, 10), normals(r, 30), twice, rhs, rhs, nil, nil)
	add("equations exclude", 30, p, err, splitting.Infeasible)
	p, err = splitting.NewQP(nil, normals(r, 10), mat.NewDense(1, 10, fill(10, 1)), []float64{-1}, []float64{-1},
		fill(10, 0), nil)
	add("sum of nonnegatives", 10, p, err, splitting.Infeasible)
	p, err = splitting.NewQP(nil, fill(10, -1), gaussian(r, 5, 10), fill(5, 0), fill(5, 0), nil, nil)
	add("linear", 10, p, err, splitting.Unbounded)
	p, err = splitting.NewQP(outer(gaussian(r, 40, 20), 0), normals(r, 40), nil, nil, nil, nil, nil)
	add("singular", 40, p, err, splitting.Unbounded)
	p, err = splitting.NewQP(outer(gaussian(r, 20, 5), 0), fill(20, -1), mat.NewDense(1, 20, fill(20, 1)),
		[]float64{0}, []float64{inf}, fill(20, 0), nil)
	add("cone", 20, p, err, splitting.Unbounded)
	return all
}

// control is the tracking of a reference by a mass with a bounded force over a horizon: variables
// are positions, speeds and forces.
func control(r *rand.Rand, steps int) (splitting.Problem, error) {
	n := 3 * steps
	diag, q := fill(n, 0), fill(n, 0)
	lo, hi := fill(n, math.Inf(-1)), fill(n, math.Inf(1))
	k, b := mat.NewDense(2*steps, n, nil), fill(2*steps, 0)
	for t := range steps {
		diag[3*t], diag[3*t+2] = 1, 0.1
		q[3*t] = -r.NormFloat64()
		lo[3*t+2], hi[3*t+2] = -0.5, 0.5
		lo[3*t+1], hi[3*t+1] = -1, 1
		k.Set(2*t, 3*t, 1)
		k.Set(2*t+1, 3*t+1, 1)
		k.Set(2*t+1, 3*t+2, -0.3)
		if t > 0 {
			k.Set(2*t, 3*t-3, -1)
			k.Set(2*t, 3*t-2, -0.3)
			k.Set(2*t+1, 3*t-2, -1)
		}
	}
	b[0] = 1
	return splitting.NewQP(mat.NewDiagDense(n, diag), q, k, b, b, lo, hi)
}

// TestTable requires the status of 47 programs after at most twenty steps, and answers as exact as
// float64.
func TestTable(t *testing.T) {
	all := moreTabled(t)
	for _, p := range usualPrograms(t) {
		all = append(all, tabled{p, splitting.Converged})
	}
	require.GreaterOrEqual(t, len(all), 47)
	for _, p := range all {
		res, _ := splitting.Solve(background, p.p, make([]float64, p.d), nil, &splitting.InteriorPoint{})
		require.Equal(t, p.status, res.Status, p.name)
		require.LessOrEqual(t, res.Iterations, 20, p.name)
		if p.status == splitting.Converged {
			require.Less(t, max(res.Primal, res.DualResidual), 1e-13, p.name)
			plain, err := splitting.Solve(background, p.p, make([]float64, p.d), nil, &splitting.InteriorPoint{NoPolish: true})
			require.NoError(t, err, p.name)
			require.Equal(t, splitting.Converged, plain.Status, p.name)
			require.InDelta(t, res.Value, plain.Value, 1e-7*math.Abs(res.Value), p.name)
		}
	}
}
