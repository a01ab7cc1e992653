// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestCoordinateDescentSingular checks that coordinate descent converges, on residuals and on Q,
// for least squares with fewer equations than unknowns, equal or zero columns and tiny penalties.
// Sweeps alone would need up to 1e5 rounds here, or alternate for ever between pieces (the regions
// on which J is quadratic).
func TestCoordinateDescentSingular(t *testing.T) {
	columns := map[string]func(r *rand.Rand, a *mat.Dense, i, j int) float64{
		"normal": func(r *rand.Rand, _ *mat.Dense, _, _ int) float64 { return r.NormFloat64() },
		"0/1":    func(r *rand.Rand, _ *mat.Dense, _, _ int) float64 { return float64(r.IntN(2)) },
		"equal": func(r *rand.Rand, a *mat.Dense, i, j int) float64 {
			if j < 2 {
				return r.NormFloat64()
			}
			return a.At(i, j/2)
		},
		"zero": func(r *rand.Rand, _ *mat.Dense, _, j int) float64 {
			if j%3 == 0 {
				return 0
			}
			return r.NormFloat64()
		},
	}
	penalties := map[string]splitting.Problem{
		"none":        {},
		"l1":          {G: prox.L1{Weight: 0.3}},
		"tiny l1":     {G: prox.L1{Weight: 1e-6}},
		"elastic net": {G: prox.ElasticNet{L1: 0.3, L2: 1e-4}},
		"l1+box":      {G: prox.L1{Weight: 1e-3}, H: prox.Box{Lo: -1, Hi: 1}},
		"away":        {G: prox.L1{Weight: 0.3}, H: prox.Box{Lo: 0.25, Hi: 1}}, // 0 is outside the box
		"nonnegative": {H: prox.NonNegative{}},
	}
	for shape, column := range columns {
		for penalty, p := range penalties {
			t.Run(fmt.Sprintf("%s/%s", shape, penalty), func(t *testing.T) {
				for seed := range uint64(8) {
					r := rand.New(rand.NewPCG(seed, 5))
					n, d := 2+r.IntN(25), 2+r.IntN(38)
					a, y, x0 := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, d)
					for j := range d {
						for i := range n {
							a.Set(i, j, 4*column(r, a, i, j))
						}
						x0[j] = r.NormFloat64()
					}
					for i := range y {
						y[i] = 3 * r.NormFloat64()
					}
					f, err := splitting.NewLeastSquares(a, y)
					require.NoError(t, err)
					for _, p.F = range []splitting.Smooth{f, gram{f, a, y}} {
						// The tolerance is ten decades below the gradient at 0.
						s := &splitting.Settings{Iterations: 1000, Tolerance: 1e-10 * mat.Norm(a, 2) * floats.Norm(y, 2)}
						res, err := splitting.Solve(background, p, x0, s, &splitting.CoordinateDescent{})
						require.NoError(t, err)
						require.Equal(t, splitting.Converged, res.Status, "seed %d, %T: residual %g, want %g", seed, p.F, res.Residual,
							s.Tolerance)
						psi, _ := sumOf(p.G, p.H)
						g := make([]float64, d)
						f.Grad(g, res.X)
						require.LessOrEqual(t, psi.(prox.Subdifferential).Dist(res.X, g), 1.1*s.Tolerance)
					}
				}
			})
		}
	}
}

// TestCoordinateDescentUnseen checks that a coordinate on which f does not depend becomes the
// number of least absolute value in its box.
func TestCoordinateDescentUnseen(t *testing.T) {
	q, err := splitting.NewQuadratic(mat.NewSymDense(3, []float64{0, 0, 0, 0, 1, 0, 0, 0, 0}), []float64{0.5, 1, 0}, 0)
	require.NoError(t, err)
	for _, c := range []struct {
		h    prox.Operator
		want []float64
	}{
		{nil, []float64{0, 0, 0}},
		{prox.Box{Lo: -2, Hi: 3}, []float64{0, 0, 0}},
		{prox.Box{Lo: 2, Hi: 3}, []float64{2, 2, 2}},
	} {
		res, err := splitting.Minimize(background, splitting.Problem{F: q, G: prox.L1{Weight: 1}, H: c.h},
			[]float64{5, -4, 7}, nil)
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status)
		require.Equal(t, c.want, res.X)
	}
}

// TestLeastSquaresGapRounding checks that the gap is an upper bound even where rounding would make
// the computed difference negative, and +Inf where numbers overflow, because +Inf − +Inf proves
// nothing.
func TestLeastSquaresGapRounding(t *testing.T) {
	inf := math.Inf(1)
	huge, err := splitting.NewLeastSquares(mat.NewDense(2, 1, []float64{1e200, 1e200}), []float64{1, 1})
	require.NoError(t, err)
	for _, g := range []prox.Operator{nil, prox.L1{Weight: 1}, prox.SquaredL2{Weight: 1}} {
		for _, h := range []prox.Operator{nil, prox.NonNegative{}, prox.Box{Lo: -2, Hi: inf}, prox.Box{Lo: -inf, Hi: 1e300}} {
			for _, x := range []float64{1, 1e200, math.NaN()} {
				require.Equal(t, inf, huge.Gap([]float64{x}, g, h), "%v + %v at %v", g, h, x)
			}
		}
	}

	// The minimizer of ½(ax − y)² + |x| is x* = (ay − 1)/a². At a relative distance e from x* the gap
	// is (ax*)²e²/2, which float64 cannot resolve for e = 1e-9.
	for _, a := range []float64{3, 5, 7, 11} {
		f, err := splitting.NewLeastSquares(mat.NewDense(1, 1, []float64{a}), []float64{1})
		require.NoError(t, err)
		star := (a - 1) / (a * a)
		for _, e := range []float64{1e-9, -1e-9, 1e-12, -1e-12, 1e-15, -1e-15} {
			gap := f.Gap([]float64{star * (1 + e)}, prox.L1{Weight: 1}, nil)
			require.GreaterOrEqual(t, gap, 0.9*a*a*star*star*e*e/2, "a = %v, e = %v", a, e)
			require.LessOrEqual(t, gap, 1e-8, "the gap must be at most |e|·|x*| plus rounding")
		}
	}
}

// TestCoordinateDescentGapNaN checks that the gap is +Inf, not NaN, where numbers overflow.
func TestCoordinateDescentGapNaN(t *testing.T) {
	a, y := mat.NewDense(2, 1, []float64{1e200, 1e200}), []float64{1e200, 1}
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	for _, h := range []prox.Operator{nil, prox.Box{Lo: 1, Hi: 2}} {
		p := splitting.Problem{F: gram{f, a, y}, G: prox.L1{Weight: 1}, H: h}
		for k := 1; k <= 3; k++ {
			res, _ := splitting.Solve(background, p, []float64{1}, &splitting.Settings{Iterations: k, Tolerance: -1},
				&splitting.CoordinateDescent{})
			require.True(t, math.IsInf(res.Gap, 1), "%v", res.Gap)
		}
		p.F = f // A'A is not finite
		_, err := splitting.Solve(background, p, []float64{1}, nil, &splitting.CoordinateDescent{})
		require.ErrorIs(t, err, splitting.ErrProblem)
	}
}

// lassoBox returns A and y of a problem ½‖Ax−y‖². A is an n×d Gaussian matrix and y = Ax₀ +
// ½·noise, where the first k entries of x₀ are Gaussian and the others 0. For n = 1000, d = 500, k
// = 200, λ = 220 and the box [−1.25, 1.25], the minimizer has 208 nonzero entries, 29 of them at
// the bound.
func lassoBox(n, d, k int, condition float64) (*mat.Dense, []float64) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	a := mat.NewDense(n, d, nil)
	for i := range n {
		for j := range d {
			a.Set(i, j, r.NormFloat64()*math.Pow(condition, -float64(j)/float64(d)))
		}
	}
	x := make([]float64, d)
	for j := range k {
		x[j] = r.NormFloat64()
	}
	y := make([]float64, n)
	mat.NewVecDense(n, y).MulVec(a, mat.NewVecDense(d, x))
	for i := range y {
		y[i] += 0.5 * r.NormFloat64()
	}
	return a, y
}

func leastSquares(t testing.TB, a mat.Matrix, y []float64) *splitting.LinearModel {
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	return f
}

// distOf returns dist(0, ∂J(x)) for J = ½‖Ax−y‖² + l1‖x‖₁ on [−kappa, kappa], computed without the
// package. The distance is a difference of terms of size ‖A‖_F‖y‖, which is returned as size.
func distOf(a *mat.Dense, y, x []float64, l1, kappa float64) (dist, size float64) {
	n, d := a.Dims()
	r := append([]float64(nil), y...)
	for i := range n {
		r[i] -= floats.Dot(a.RawRowView(i), x)
	}
	for j := range d {
		var g float64
		for i := range n {
			g -= a.At(i, j) * r[i]
		}
		lo, hi := -l1, l1
		switch {
		case x[j] > 0:
			lo = l1
		case x[j] < 0:
			hi = -l1
		}
		if x[j] == -kappa {
			lo = math.Inf(-1)
		}
		if x[j] == kappa {
			hi = math.Inf(1)
		}
		if math.Abs(x[j]) > kappa {
			return math.Inf(1), 0
		}
		dist = math.Hypot(dist, math.Max(0, math.Max(lo+g, -g-hi)))
	}
	return dist, mat.Norm(a, 2) * floats.Norm(y, 2)
}

// gram is ½‖Ax − y‖² as a quadratic function with Q = A'A, of which the duality gap of least
// squares is not known.
type gram struct {
	splitting.Smooth
	a *mat.Dense
	y []float64
}

func (f gram) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	_, d := f.a.Dims()
	q, lin = mat.NewSymDense(d, nil), make([]float64, d)
	q.SymOuterK(1, f.a.T())
	mat.NewVecDense(d, lin).MulVec(f.a.T(), mat.NewVecDense(len(f.y), f.y))
	return q, lin, floats.Dot(f.y, f.y) / 2, true
}

// TestColumnsReachRounding checks that coordinate descent on least squares and on Q = A'A ends at
// the same point to rounding, also with more columns than rows, and where the sizes of the columns
// differ by a factor of a thousand.
func TestColumnsReachRounding(t *testing.T) {
	for _, c := range []struct {
		n, d, k          int
		l1, kappa, scale float64
	}{
		{120, 40, 20, 30, 1.25, 1},
		{120, 40, 20, 3, math.Inf(1), 1},
		{120, 40, 20, 0, 0.5, 1},
		{60, 100, 20, 20, 0.8, 1},
		{200, 60, 30, 0.1, 5, 1000},
		{40, 1, 1, 0.1, 5, 1},
	} {
		a, y := lassoBox(c.n, c.d, c.k, c.scale)
		f := leastSquares(t, a, y)
		p := splitting.Problem{F: f, G: prox.L1{Weight: c.l1}, H: prox.Box{Lo: -c.kappa, Hi: c.kappa}}
		var points [2][]float64
		for i, smooth := range []splitting.Smooth{gram{f, a, y}, f} {
			p.F = smooth
			res, err := splitting.Solve(background, p, make([]float64, c.d),
				&splitting.Settings{Tolerance: -1, Iterations: 5000},
				&splitting.CoordinateDescent{})
			require.NoError(t, err)
			require.Equal(t, splitting.Stalled, res.Status, "%+v %T: residual %g after %d", c, smooth, res.Residual,
				res.Iterations)
			dist, size := distOf(a, y, res.X, c.l1, c.kappa)
			// An entry sums n + d products of at most this size.
			require.LessOrEqual(t, dist, 0x1p-53*float64(c.n+c.d)*size, "%+v %T", c, smooth)
			if gap := f.Gap(res.X, p.G, p.H); !math.IsInf(res.Gap, 1) {
				// The gap changes by the rounding of dist, times the width of the box or of x.
				require.InDelta(t, gap, res.Gap, 1e-10*f.Func(make([]float64, c.d)), "%+v %T", c, smooth)
			}
			points[i] = res.X
		}
		gap := math.Abs(f.Func(points[0]) + p.G.Func(points[0]) - f.Func(points[1]) - p.G.Func(points[1]))
		require.LessOrEqual(t, gap, 1e-12*f.Func(make([]float64, c.d)), "%+v", c)
	}
}

// TestGapIsABound checks that the duality gap is at least the distance to the optimal value at any
// feasible point, and about 0 at the minimizer.
func TestGapIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.IntRange(1, 12).Draw(t, "n"), rapid.IntRange(1, 8).Draw(t, "d")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		a, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range n {
			y[i] = 3 * r.NormFloat64()
			for j := range d {
				a.Set(i, j, r.NormFloat64())
			}
		}
		f, err := splitting.NewLeastSquares(a, y)
		require.NoError(t, err)
		var g, h prox.Operator = prox.L1{Weight: rapid.SampledFrom([]float64{0, 0.3, 2}).Draw(t, "l1")}, nil
		switch rapid.IntRange(0, 3).Draw(t, "set") {
		case 0:
			h = prox.Box{Lo: -0.5, Hi: 0.7}
		case 1:
			h = prox.NonNegative{}
		case 2:
			g = prox.ElasticNet{L1: 0.3, L2: 0.2}
		}
		p := splitting.Problem{F: f, G: g, H: h}
		value := func(x []float64) float64 {
			v := f.Func(x) + g.Func(x)
			if h != nil {
				v += h.Func(x)
			}
			return v
		}
		m := &splitting.CoordinateDescent{}
		res, err := splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1, Iterations: 20000},
			m)
		require.NoError(t, err)
		best := value(res.X)
		size := 1 + f.Func(make([]float64, d))
		if l1, ok := g.(prox.L1); !ok || l1.Weight > 0 || h == (prox.Box{Lo: -0.5, Hi: 0.7}) {
			// The gap is at most the residual, which is at rounding, times ‖x‖.
			require.LessOrEqual(t, f.Gap(res.X, g, h), 1e-9*size)
		}
		x := make([]float64, d)
		for range 20 {
			for j := range x {
				x[j] = 2 * r.NormFloat64()
			}
			if h != nil {
				h.Prox(x, x, 1)
			}
			gap := f.Gap(x, g, h)
			require.GreaterOrEqual(t, gap, value(x)-best-1e-12*size)
		}
		x[0] = -1e9 // this point is outside every set above
		if h != nil {
			require.True(t, math.IsInf(f.Gap(x, g, h), 1))
		}
	})
}

// TestSolveToAGap checks that Settings.Gap ends a solve as soon as the gap is proved, with
// and without the gap of least squares.
func TestSolveToAGap(t *testing.T) {
	a, y := lassoBox(200, 20, 10, 1)
	f := leastSquares(t, a, y)
	p := splitting.Problem{F: f, G: prox.L1{Weight: 20}, H: prox.Box{Lo: -1, Hi: 1}}
	exact, err := splitting.Minimize(background, p, make([]float64, 20), &splitting.Settings{Tolerance: -1})
	require.NoError(t, err)
	best := f.Func(exact.X) + p.G.Func(exact.X)
	for _, p.F = range []splitting.Smooth{gram{f, a, y}, f} {
		for _, gap := range []float64{1e2, 1e-3, 1e-8} {
			res, err := splitting.Solve(background, p, make([]float64, 20), &splitting.Settings{Tolerance: -1, Gap: gap},
				&splitting.CoordinateDescent{})
			require.NoError(t, err)
			require.Equal(t, splitting.Converged, res.Status)
			require.LessOrEqual(t, res.Gap, gap)
			// The gap is computed in two ways; the modulus of f may give a lesser one.
			want := f.Gap(res.X, p.G, p.H)
			if p.F == splitting.Smooth(f) {
				want = math.Min(want, res.Residual*res.Residual/(2*f.Convexity()))
			}
			require.InDelta(t, want, res.Gap, 1e-10*best)
			require.LessOrEqual(t, f.Func(res.X)+p.G.Func(res.X)-best, res.Gap+1e-12*best)
		}
	}
	_, err = splitting.Solve(background, p, make([]float64, 20), &splitting.Settings{Gap: -1},
		&splitting.CoordinateDescent{})
	require.ErrorIs(t, err, splitting.ErrSettings)
}

func TestColumnsUnboundedAndDegenerate(t *testing.T) {
	// Without a penalty, the coordinate of a zero column stays where it is.
	a := mat.NewDense(3, 2, []float64{1, 0, 2, 0, 3, 0})
	y := []float64{1, 2, 3}
	f := leastSquares(t, a, y)
	for _, smooth := range []splitting.Smooth{gram{f, a, y}, f} {
		res, err := splitting.Solve(background, splitting.Problem{F: smooth}, []float64{0, 5},
			&splitting.Settings{Tolerance: -1},
			&splitting.CoordinateDescent{})
		require.NoError(t, err)
		require.InDeltaSlice(t, []float64{1, 5}, res.X, 1e-14)
	}
	_, err := splitting.NewLeastSquares(mat.NewDense(1, 1, []float64{math.NaN()}), []float64{1})
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.NewLeastSquares(mat.NewDense(1, 1, []float64{1}), []float64{math.Inf(1)})
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.NewLeastSquares(a, []float64{1})
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.Panics(t, func() { f.Func([]float64{1}) })
	require.Panics(t, func() { f.Grad([]float64{1}, []float64{1, 2}) })
	require.Panics(t, func() { f.Gap([]float64{1}, nil, nil) })
	require.True(t, math.IsInf(f.Gap([]float64{1, 1}, prox.L2Ball{R: 3}, nil), 1), "not coordinatewise")
}

// TestLeastSquaresOfAnyMatrix checks a mat.Matrix without access to its rows, and a matrix with
// a number of columns that is no multiple of eight.
func TestLeastSquaresOfAnyMatrix(t *testing.T) {
	for _, d := range []int{3, 8, 19} {
		a, y := lassoBox(21, d, d, 1)
		f, g := leastSquares(t, a, y), leastSquares(t, mat.DenseCopyOf(a.T()).T(), y)
		x, u, v := make([]float64, d), make([]float64, d), make([]float64, d)
		for j := range x {
			x[j] = float64(j) - 1
		}
		f.Grad(u, x)
		g.Grad(v, x)
		require.Equal(t, u, v)
		var r mat.VecDense
		r.MulVec(a, mat.NewVecDense(d, x))
		r.SubVec(&r, mat.NewVecDense(21, y))
		require.InEpsilon(t, mat.Dot(&r, &r)/2, f.Func(x), 1e-13)
		var w mat.VecDense
		w.MulVec(a.T(), &r)
		require.InDeltaSlice(t, w.RawVector().Data, u, 1e-11)
		var svd mat.SVD
		require.True(t, svd.Factorize(a, mat.SVDNone))
		top := math.Pow(svd.Values(nil)[0], 2)
		require.GreaterOrEqual(t, f.Smoothness(), top*(1-1e-14))
		require.LessOrEqual(t, f.Smoothness(), top*(1+1e-9))
	}
}

// TestPathOnGram checks that a path over one least squares has the minimizers of single solves, and
// small gaps.
func TestPathOnGram(t *testing.T) {
	const n, d = 60, 12
	r := rand.New(rand.NewPCG(5, 6))
	a, y := mat.NewDense(n, d, nil), make([]float64, n)
	a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, a)
	for i := range y {
		y[i] = a.At(i, 0) - 2*a.At(i, 1) + r.NormFloat64()
	}
	f, err := splitting.NewLeastSquares(a, y)
	require.NoError(t, err)
	var problems []splitting.Problem
	for _, w := range []float64{100, 30, 10, 3, 1} {
		problems = append(problems, splitting.Problem{F: f, G: prox.L1{Weight: w}})
	}
	path, err := splitting.Path(background, problems, make([]float64, d), nil, nil)
	require.NoError(t, err)
	for k, p := range problems {
		alone, err := splitting.Minimize(background, p, make([]float64, d), nil)
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, path[k].Status)
		require.InDeltaSlice(t, alone.X, path[k].X, 1e-8)
		require.Less(t, path[k].Gap, 1e-6)
		require.InEpsilon(t, alone.Value, path[k].Value, 1e-12)
	}
}

// TestGapWithoutPenalty checks that a free intercept and nonnegative least squares have a small gap
// at the minimizer, and a bound elsewhere.
func TestGapWithoutPenalty(t *testing.T) {
	const n, d = 60, 6
	a, y := lassoBox(n, d, 3, 1)
	for i := range n {
		a.Set(i, 0, 1)
		y[i] += 7
	}
	f := leastSquares(t, a, y)
	for name, p := range map[string]splitting.Problem{
		"intercept": {F: f, G: prox.WeightedL1{Weights: []float64{0, 5, 5, 5, 5, 5}}},
		"NNLS":      {F: f, G: prox.NonNegative{}},
	} {
		res, err := splitting.Minimize(background, p, make([]float64, d), nil)
		require.NoError(t, err, name)
		require.Equal(t, splitting.Converged, res.Status, name)
		require.LessOrEqual(t, f.Gap(res.X, p.G, nil), 1e-12*f.Func(make([]float64, d)), name)
		x := slices.Clone(res.X)
		for k := range 20 {
			x[k%d] += 0.1
			gap := f.Gap(x, p.G, nil)
			require.GreaterOrEqual(t, gap, p.Func(x)-res.Value, name)
			require.LessOrEqual(t, gap, p.Func(x)*(1+1e-12), name)
		}
	}
}
