// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// linearModel is the mean of φ(⟨aᵢ,x⟩; bᵢ), with the rows aᵢ in one matrix.
type linearModel struct {
	a   blas64.General
	b   []float64
	t   []float64
	phi func(u, b float64) (v, d, d2 float64)
	lip float64
}

var (
	_ splitting.Smooth     = (*linearModel)(nil)
	_ splitting.FuncGrader = (*linearModel)(nil)
)

func newLinearModel(a *mat.Dense, b []float64, curve float64, phi func(u, b float64) (v, d, d2 float64)) *linearModel {
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDNone) {
		panic("svd")
	}
	top := svd.Values(nil)[0]
	n := float64(len(b))
	return &linearModel{a: a.RawMatrix(), b: b, t: make([]float64, len(b)), phi: phi,
		lip: curve * top * top / n * (1 + 1e-12)}
}

func (f *linearModel) Smoothness() float64 { return f.lip }

func (f *linearModel) Func(x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		v, _, _ := f.phi(t, f.b[i])
		s += v
	}
	return s / float64(len(f.t))
}

func (f *linearModel) Grad(dst, x []float64) { f.FuncGrad(dst, x) }

func (f *linearModel) FuncGrad(dst, x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		var v float64
		v, f.t[i], _ = f.phi(t, f.b[i])
		s += v
	}
	blas64.Gemv(blas.Trans, 1/float64(len(f.t)), f.a, vector(f.t), 0, vector(dst))
	return s / float64(len(f.t))
}

// overlapping returns logistic regression with 125 groups of ten features, each sharing two with
// the next. The example is from the library copt: the features are correlated and standardized in
// the same way, but drawn anew.
func overlapping(beta float64) (splitting.Problem, int) {
	const n, d, p = 100, 1002, 0.95
	r := rand.New(rand.NewPCG(1804, 2339))
	groups := make([][]int, 125)
	for i := range groups {
		for j := range 10 {
			groups[i] = append(groups[i], 8*i+j)
		}
	}
	truth := make([]float64, d)
	for range 10 {
		v := r.NormFloat64()
		for _, j := range groups[r.IntN(len(groups))] {
			truth[j] = v
		}
	}
	a := mat.NewDense(n, d, nil)
	for i := range n {
		row := a.RawRowView(i)
		for j := range row {
			row[j] = r.NormFloat64()
			if j > 0 {
				row[j] = p*row[j] + (1-p)*row[j-1]
			}
		}
	}
	col := make([]float64, n)
	for j := range d {
		mat.Col(col, j, a)
		mean := floats.Sum(col) / n
		floats.AddConst(-mean, col)
		floats.Scale(math.Sqrt(n)/floats.Norm(col, 2), col)
		a.SetCol(j, col)
	}
	b := make([]float64, n)
	for i := range b {
		if floats.Dot(a.RawRowView(i), truth)+r.NormFloat64() > 0 {
			b[i] = 1
		}
	}
	pieces := prox.SplitGroups(prox.GroupL2{Groups: groups, Weight: beta})
	return splitting.Problem{F: newLinearModel(a, b, 0.25, logistic), G: pieces[1], H: pieces[0]}, d
}

// boxLasso returns a lasso with standard normal rows, and a box that cuts the largest coefficients.
func boxLasso() (splitting.Problem, int) {
	const n, d = 1000, 500
	r := rand.New(rand.NewPCG(1000, 500))
	a := mat.NewDense(n, d, nil)
	truth, b := make([]float64, d), make([]float64, n)
	for j := range 50 {
		truth[j*10] = r.NormFloat64()
	}
	for i := range n {
		row := a.RawRowView(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
		b[i] = floats.Dot(row, truth) + r.NormFloat64()
	}
	return splitting.Problem{F: newLinearModel(a, b, 1, square), G: prox.L1{Weight: 0.05},
		H: prox.Box{Lo: -0.8, Hi: 0.8}}, d
}

// countdown is a Recorder that notes the first iteration whose value is at most goal.
type countdown struct {
	p     splitting.Problem
	goal  float64
	first int
}

func (c *countdown) Init() error { c.first = math.MaxInt; return nil }

func (c *countdown) Record(loc *splitting.Location, stats *splitting.Stats) error {
	if c.first == math.MaxInt && c.p.Func(loc.X) <= c.goal {
		c.first = stats.Iterations
	}
	return nil
}

// TestIterationsOfCopt compares the number of iterations to a relative accuracy of 1e-6 with
// minimize_three_split of the Python library copt 0.9.1 on the same data. At most 20 % more are
// allowed. The counts of copt come from the data of the two functions above, with line_search=True,
// step_size=10/L and h_Lipschitz=beta for the groups and fixed steps for the lasso.
func TestIterationsOfCopt(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() (splitting.Problem, int)
		m    func(lip float64) *splitting.DavisYin
		copt int
	}{
		{"lasso+box 1/L", boxLasso, func(float64) *splitting.DavisYin { return &splitting.DavisYin{} }, 65},
		{"lasso+box 1.9/L", boxLasso,
			func(lip float64) *splitting.DavisYin { return &splitting.DavisYin{StepSize: 1.9 / lip} }, 41},
		{"lasso+box search", boxLasso,
			func(float64) *splitting.DavisYin { return &splitting.DavisYin{Rule: splitting.LineSearch} }, 51},
		{"groups 1e-2", func() (splitting.Problem, int) { return overlapping(1e-2) },
			func(float64) *splitting.DavisYin { return &splitting.DavisYin{Rule: splitting.LineSearch} }, 358},
		{"groups 1e-3", func() (splitting.Problem, int) { return overlapping(1e-3) },
			func(float64) *splitting.DavisYin { return &splitting.DavisYin{Rule: splitting.LineSearch} }, 656},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, d := c.make()
			best, err := splitting.Solve(background, p, make([]float64, d),
				&splitting.Settings{Iterations: 8 * c.copt, Tolerance: -1},
				c.m(p.F.Smoothness()))
			require.NoError(t, err)
			goal := p.Func(best.X)
			goal += 1e-6 * math.Abs(goal)
			count := &countdown{p: p, goal: goal}
			_, err = splitting.Solve(background, p, make([]float64, d),
				&splitting.Settings{Iterations: 2 * c.copt, Tolerance: -1, Recorder: count},
				c.m(p.F.Smoothness()))
			require.NoError(t, err)
			t.Logf("%d iterations, copt %d", count.first, c.copt)
			require.LessOrEqual(t, float64(count.first), 1.2*float64(c.copt))
		})
	}
}
