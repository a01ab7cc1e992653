// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
)

func vectors(n int, scale float64) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-scale, scale), rapid.Just(0.0), rapid.Just(scale)), n, n)
}

func apply(op prox.Operator, x []float64, gamma float64) []float64 {
	p := make([]float64, len(x))
	op.Prox(p, x, gamma)
	return p
}

// exactNorm returns ‖x‖₂², or ‖x‖₁ if abs is true, without rounding.
func exactNorm(x []float64, abs bool) *big.Rat {
	sum := new(big.Rat)
	for _, xi := range x {
		r := new(big.Rat).SetFloat64(xi)
		if abs {
			r.Abs(r)
		} else {
			r.Mul(r, r)
		}
		sum.Add(sum, r)
	}
	return sum
}

// TestBallsExactly checks projections onto balls in rational arithmetic: the result is in the ball,
// near the sphere if it moved, and a fixed point of the projection.
func TestBallsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(1e-3, 1e3).Draw(t, "r")
		scale := math.Pow(10, rapid.Float64Range(-4, 14).Draw(t, "log scale"))
		x := vectors(rapid.IntRange(1, 40).Draw(t, "dim"), scale).Draw(t, "x")
		for _, abs := range []bool{false, true} {
			var op prox.Set = prox.L2Ball{R: r}
			bound := new(big.Rat).SetFloat64(r)
			if abs {
				op = prox.L1Ball{R: r}
			} else {
				bound.Mul(bound, bound)
			}
			p := apply(op, x, 1)
			norm := exactNorm(p, abs)
			require.LessOrEqual(t, norm.Cmp(bound), 0, "%T: ‖p‖ > R", op)
			if !slices.Equal(p, x) {
				ratio, _ := norm.Quo(norm, bound).Float64()
				require.InDelta(t, 1, ratio, 64*0x1p-53, "%T: off the sphere", op)
			}
			require.Equal(t, p, apply(op, p, 1))
			require.Zero(t, op.Func(p))
		}
	})
}

// simplexBySort returns the projection onto the simplex, computed by sorting.
func simplexBySort(x []float64, total float64) []float64 {
	y := slices.Clone(x)
	slices.SortFunc(y, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	sum, tau := 0.0, 0.0
	for k, yk := range y {
		sum += yk
		if t := (sum - total) / float64(k+1); t < yk {
			tau = t
		}
	}
	for i, xi := range x {
		y[i] = max(xi-tau, 0)
	}
	return y
}

// TestSimplexBySort compares Newton's method for the projection onto the simplex with sorting.
func TestSimplexBySort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := vectors(rapid.IntRange(1, 60).Draw(t, "dim"), 10).Draw(t, "x")
		total := rapid.Float64Range(1e-6, 20).Draw(t, "total")
		want := simplexBySort(x, total)
		// The sums have 60 terms of at most 10.
		require.InDeltaSlice(t, want, apply(prox.Simplex{Total: total}, x, 1), 1e-12)

		abs := make([]float64, len(x))
		for i, xi := range x {
			abs[i] = math.Abs(xi)
		}
		if floats.Sum(abs) > total {
			ball := simplexBySort(abs, total)
			for i := range ball {
				ball[i] = math.Copysign(ball[i], x[i])
			}
			require.InDeltaSlice(t, ball, apply(prox.L1Ball{R: total}, x, 1), 1e-12)
		}
	})
}

// TestCoordinatewiseBySearch compares coordinatewise proximal maps with a ternary search.
func TestCoordinatewiseBySearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l1, l2 := rapid.Float64Range(0, 3).Draw(t, "l1"), rapid.Float64Range(0, 3).Draw(t, "l2")
		lo := rapid.Float64Range(-2, 1).Draw(t, "lo")
		hi := lo + rapid.Float64Range(0, 3).Draw(t, "width")
		x, gamma := rapid.Float64Range(-5, 5).Draw(t, "x"), rapid.Float64Range(0.1, 4).Draw(t, "gamma")
		g, ok := sumOf(prox.ElasticNet{L1: l1, L2: l2}, prox.Box{Lo: lo, Hi: hi})
		require.True(t, ok)
		phi := func(u float64) float64 { return l1*math.Abs(u) + l2/2*u*u + (u-x)*(u-x)/(2*gamma) }
		a, b := lo, hi
		for range 200 {
			if m, n := a+(b-a)/3, b-(b-a)/3; phi(m) < phi(n) {
				b = n
			} else {
				a = m
			}
		}
		// A search that compares values finds the minimizer only to the square root of the rounding.
		require.InDelta(t, a, apply(g, []float64{x}, gamma)[0], 1e-6)
	})
}

// TestSumsByDykstra compares closed forms for sums with the limit of Dykstra's iteration, which
// uses the map of each part.
func TestSumsByDykstra(t *testing.T) {
	pairs := [][2]prox.Operator{
		{prox.L1{Weight: 0.4}, prox.L2Ball{R: 1}},
		{prox.NonNegative{}, prox.L2Ball{R: 1}},
		{prox.L1{Weight: 0.4}, prox.L1Ball{R: 1}},
		{prox.NonNegative{}, prox.L1Ball{R: 1}},
		{prox.L1{Weight: 0.4}, prox.GroupL2{Groups: [][]int{{0, 1}, {3, 2}}, Weight: 0.3}},
		{prox.NonNegative{}, prox.GroupL2{Groups: [][]int{{0, 1}, {3, 2}}, Weight: 0.3}},
		{prox.L2Norm{Weight: 0.6}, prox.L2Ball{R: 1}},
		{prox.SquaredL2{Weight: 2}, prox.Simplex{Total: 1}},
		{prox.L1{Weight: 0.4}, prox.Simplex{Total: 1}},
		{prox.SquaredL2{Weight: 2}, prox.HalfSpace{A: []float64{1, 1, 1, 1}, B: 0.1}},
		{prox.ElasticNet{L1: 0.4, L2: 1}, prox.L2Ball{R: 1}},
		{prox.Box{Lo: -1.5, Hi: 1}, prox.L1Ball{R: 1}},
		{prox.Box{Lo: 0, Hi: 3}, prox.L2Ball{R: 1}},
		{prox.L1{Weight: 0.4}, prox.TotalVariation{Weight: 0.3}},
		{prox.L1Box{Weight: 0.1, Lo: -0.5, Hi: 0.5}, prox.TotalVariation{Weight: 0.3}},
		{prox.ElasticNet{L1: 0.2, L2: 1}, prox.TotalVariation{Weight: 0.6}},
	}
	for _, x := range [][]float64{{2, -1, 0.5, 0.3}, {0.1, 0.2, -0.1, 0}, {-1, -2, 3, 0.5}, {0.6, 0.4, 0.3, 0.2}} {
		for _, pair := range pairs {
			sum, ok := sumOf(pair[0], pair[1])
			require.True(t, ok, "%T + %T", pair[0], pair[1])
			// Dykstra's iteration converges to prox_{g+h}(x). [BC17, Thm. 30.7]
			z, y := slices.Clone(x), make([]float64, 4)
			p, q := make([]float64, 4), make([]float64, 4)
			for range 20000 {
				floats.AddTo(y, z, p)
				v := apply(pair[0], y, 1)
				floats.SubTo(p, y, v)
				floats.AddTo(y, v, q)
				z = apply(pair[1], y, 1)
				floats.SubTo(q, y, z)
			}
			require.InDeltaSlice(t, z, apply(sum, x, 1), 1e-6, "%T + %T at %v", pair[0], pair[1],
				x)
		}
	}
}

func TestAffine(t *testing.T) {
	a := mat.NewDense(2, 3, []float64{1, 1, 1, 2, 2, 2})
	g, err := prox.NewAffine(a, []float64{3, 6})
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{2, 1, 0}, apply(g, []float64{2, 1, 0}, 1), 1e-15)
	require.InDeltaSlice(t, []float64{1, 1, 1}, apply(g, []float64{1e8, 1e8, 1e8}, 1), 1e-14,
		"the projection must be feasible for x of any size")
	require.True(t, math.IsInf(g.Radius(3), 1))
	require.True(t, math.IsInf(g.Func([]float64{1, 1, 1.001}), 1))
	require.NoError(t, prox.Check(g, 3))
	require.ErrorIs(t, prox.Check(g, 2), prox.ErrParameter)

	point, err := prox.NewAffine(mat.NewDiagDense(2, []float64{2, 4}), []float64{6, 16})
	require.NoError(t, err)
	require.InEpsilon(t, 5, point.Radius(2), 1e-11)
	require.GreaterOrEqual(t, point.Radius(2), 5.0)
	require.InDeltaSlice(t, []float64{3, 4}, apply(point, []float64{-7, 1e3}, 1), 1e-14)

	all, err := prox.NewAffine(mat.NewDense(1, 2, nil), []float64{0})
	require.NoError(t, err)
	require.Equal(t, []float64{5, 6}, apply(all, []float64{5, 6}, 1))

	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		a mat.Matrix
		b []float64
	}{
		"nil":        {nil, nil},
		"lengths":    {a, []float64{3}},
		"no row":     {new(mat.Dense), nil},
		"conflict":   {a, []float64{3, 7}},
		"zero row":   {mat.NewDense(1, 2, nil), []float64{1}},
		"NaN":        {mat.NewDense(1, 2, []float64{1, nan}), []float64{1}},
		"Inf":        {mat.NewDense(1, 2, []float64{1, 1}), []float64{inf}},
		"huge and 0": {mat.NewDense(2, 2, []float64{1e300, 0, 0, 1e-300}), []float64{1, 1}},
	} {
		got, err := prox.NewAffine(c.a, c.b)
		require.ErrorIs(t, err, prox.ErrParameter, name)
		require.Nil(t, got)
	}
}

func TestCheckParameters(t *testing.T) {
	nan := math.NaN()
	for name, op := range operators(t) {
		require.NoError(t, prox.Check(op, 4), name)
	}
	require.NoError(t, prox.Check(nil, 3))
	require.NoError(t, prox.Check(bare{prox.L1{Weight: nan}}, 3), "an operator without Check has nothing to check")
	for _, op := range []prox.Operator{
		prox.L1{Weight: -1}, prox.L1{Weight: nan}, prox.L1{Weight: inf},
		prox.SquaredL2{Weight: -1}, prox.ElasticNet{L1: -1}, prox.ElasticNet{L2: nan}, prox.L2Norm{Weight: inf},
		prox.Box{Lo: 1, Hi: 0}, prox.Box{Lo: nan}, prox.Box{Hi: nan}, prox.Box{Lo: inf, Hi: inf}, prox.Box{Lo: -inf,
			Hi: -inf},
		prox.L1Box{Weight: -1}, prox.L1Box{Lo: 1},
		prox.L2Ball{R: -1}, prox.L2Ball{R: nan}, prox.L2Ball{R: 1e-300}, prox.L1Ball{R: -1},
		prox.Simplex{Total: -1}, prox.Simplex{Total: inf}, prox.Simplex{Total: nan},
		prox.HalfSpace{}, prox.HalfSpace{A: []float64{0, 0, 0}}, prox.HalfSpace{A: []float64{1, 2, nan}},
		prox.HalfSpace{A: []float64{1, 0, 0}, B: nan},
		prox.HalfSpace{A: []float64{1, 2}},
		prox.LInfNorm{Weight: -1}, prox.LInfNorm{Weight: nan}, prox.Box{Lo: 1, Hi: -1}, prox.Box{Lo: -1, Hi: nan},
		prox.SortedL1{}, prox.SortedL1{Weights: []float64{1, 2, 2}}, prox.SortedL1{Weights: []float64{1, 0, -1}},
		prox.SortedL1{Weights: []float64{nan, 1, 0}},
		prox.TotalVariation{Weight: -1}, prox.TotalVariation{Weight: inf},
		prox.Huber{Weight: -1, Delta: 1}, prox.Huber{Weight: 1}, prox.Huber{Weight: 1, Delta: nan},
		prox.NuclearNorm{Rows: 3, Cols: 1, Weight: -1}, prox.NuclearNorm{Rows: 2, Cols: 2}, prox.NuclearNorm{Rows: -1,
			Cols: -3},
		prox.NuclearNorm{Rows: 3, Cols: 1 + 1<<62},
		prox.SpectralBall{Rows: 1, Cols: 3, R: -1}, prox.SpectralBall{Rows: 1, Cols: 3, R: nan}, prox.SpectralBall{Rows: 2,
			Cols: 1, R: 1},
		prox.PSDCone{Order: 3},
		prox.Hinge{Weight: nan}, prox.LogBarrier{}, prox.LogBarrier{Weight: inf},
		prox.GroupL2{Weight: -1}, prox.GroupL2{Groups: [][]int{{3}}}, prox.GroupL2{Groups: [][]int{{-1}}},
		prox.GroupL2{Groups: [][]int{{0, 1}, {1}}},
		prox.GroupL2{Groups: [][]int{{0, 1}, {2}}, Weights: []float64{1}},
		prox.GroupL2{Groups: [][]int{{0, 1}, {2}}, Weights: []float64{1, -1}},
		prox.Bounds{Lo: []float64{1}}, prox.Bounds{Lo: []float64{0, 2, 0}, Hi: []float64{1, 1, 1}},
		prox.Bounds{Hi: []float64{0, nan, 1}}, prox.WeightedL1{}, prox.WeightedL1{Weights: []float64{1, -1, 0}},
		prox.Linear{C: []float64{1}}, prox.Linear{C: []float64{1, nan, 0}}, prox.Pinball{Tau: 2}, prox.Pinball{Tau: nan},
	} {
		err := prox.Check(op, 3)
		require.ErrorIs(t, err, prox.ErrParameter, "%#v", op)
		if set, ok := op.(prox.Set); ok {
			require.True(t, math.IsInf(set.Radius(3), 1), "an invalid set bounds nothing: %#v", op)
		}
		// A sum with an invalid part is either refused or fails Check.
		for _, with := range []prox.Operator{prox.SquaredL2{Weight: 1}, prox.L1{Weight: 1}} {
			if sum, ok := sumOf(op, with); ok {
				require.ErrorIs(t, prox.Check(sum, 3), prox.ErrParameter, "%#v", sum)
			}
		}
	}
	require.Error(t, prox.Check(prox.Simplex{Total: 1}, 0))
}

// bare hides every method of an operator except those of prox.Operator.
type bare struct{ prox.Operator }

func TestSumNil(t *testing.T) {
	zero, ok := sumOf(nil, nil)
	require.True(t, ok)
	require.Equal(t, []float64{1, -2}, apply(zero, []float64{1, -2}, 3))
	require.Zero(t, zero.Func([]float64{1, -2}))
	for name, op := range operators(t) {
		for _, pair := range [][2]prox.Operator{{op, nil}, {nil, op}} {
			sum, ok := sumOf(pair[0], pair[1])
			require.True(t, ok, name)
			require.Equal(t, op, sum, name)
		}
	}
}

// TestSumForms checks that a sum implements the optional interfaces that its parts have, such as
// Set and Coordinatewise.
func TestSumForms(t *testing.T) {
	sum := func(ops ...prox.Operator) prox.Operator {
		var s prox.Operator
		for _, op := range ops {
			var ok bool
			s, ok = sumOf(s, op)
			require.True(t, ok)
		}
		return s
	}
	require.Equal(t, prox.L1Box{Weight: 1, Lo: -1, Hi: 2}, sum(prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 2}))
	require.Equal(t, prox.Box{Lo: 0, Hi: 2}, sum(prox.NonNegative{}, prox.Box{Lo: -1, Hi: 2}))
	require.Equal(t, prox.L2Ball{R: 1}, sum(prox.L2Ball{R: 1}, prox.L2Ball{R: 2}))
	require.Equal(t, prox.L2Norm{Weight: 3}, sum(prox.L2Norm{Weight: 1}, prox.L2Norm{Weight: 2}))
	require.Equal(t, prox.L1Ball{R: 1}, sum(prox.L1Ball{R: 1}, prox.Box{Lo: -1, Hi: 1}))
	require.Equal(t, prox.Simplex{Total: 1}, sum(prox.Simplex{Total: 1}, prox.NonNegative{}))
	require.Equal(t, 1.0, sum(prox.NonNegative{}, prox.L2Ball{R: 1}).(prox.Set).Radius(3))
	require.Equal(t, 1.0, sum(prox.NonNegative{}, prox.L1Ball{R: 1}).(prox.Set).Radius(3))

	long := sum(prox.SquaredL2{Weight: 1}, prox.NonNegative{}, prox.L1{Weight: 0.1}, prox.L1Ball{R: 1},
		prox.SquaredL2{Weight: 2},
		prox.L1{Weight: 0.2})
	x := []float64{0.4, 0.3, 0.1}
	require.InEpsilon(t, 0.3*0.8+1.5*0.26, long.Func(x), 1e-15)
	require.True(t, math.IsInf(long.Func([]float64{-0.1, 0, 0}), 1))
	require.True(t, math.IsInf(long.Func([]float64{math.NaN(), 0, 0}), 1))
	_, isSet := long.(prox.Set)
	require.False(t, isSet)

	_, ok := sumOf(prox.Box{Lo: 1, Hi: 2}, prox.Box{Lo: 3, Hi: 4})
	require.False(t, ok, "empty")
	for _, pair := range [][2]prox.Operator{
		{prox.L1Ball{R: 1}, prox.L2Ball{R: 0.8}}, {prox.Box{Lo: -1, Hi: 0.5}, prox.L2Ball{R: 1}},
		{prox.Box{Lo: 0, Hi: 0.5}, prox.Simplex{Total: 1}}, {prox.Simplex{Total: 1}, prox.Simplex{Total: 2}},
		{prox.GroupL2{}, prox.Box{Lo: -1, Hi: 1}}, {bare{prox.L1{}}, prox.L1{Weight: 1}}, {perCoordinate{},
			prox.L2Ball{R: 1}},
	} {
		_, ok := sumOf(pair[0], pair[1])
		require.False(t, ok, "%T + %T", pair[0], pair[1])
	}

	// A sum of SquaredL2 and an operator of an unknown type has a closed form, but it can certify
	// minimizers only if the other operator can.
	ridge := sum(bare{prox.L1{Weight: 1}}, prox.SquaredL2{Weight: 3})
	require.Equal(t, []float64{0.25}, apply(ridge, []float64{2}, 1))
	_, certifies := ridge.(prox.Subdifferential)
	require.False(t, certifies)
	_, certifies = sum(prox.HalfSpace{A: []float64{1}}, prox.SquaredL2{Weight: 3}).(prox.Subdifferential)
	require.True(t, certifies)
	require.NoError(t, prox.Check(ridge, 1))

	// The subgradient of the square is evaluated at x′, the point that x stands for, not at x.
	const c = 1e10
	simplex := prox.Simplex{Total: 1}
	x, v := []float64{0.5, 0.5 + 8*0x1p-53}, []float64{0, 0}
	at := []float64{c * x[0], c * x[1]}
	require.Greater(t, prox.RoundingOf(simplex).Shift(x), 8*0x1p-53)
	require.GreaterOrEqual(t, sum(simplex, prox.SquaredL2{Weight: c}).(prox.Subdifferential).Dist(x, v),
		simplex.Dist(x, at)+c*prox.RoundingOf(simplex).Shift(x))
}

// perCoordinate is an ℓ1 norm whose weight for coordinate i is i.
type perCoordinate struct{}

func (perCoordinate) Func(x []float64) float64 {
	sum := 0.0
	for i, xi := range x {
		sum += float64(i) * math.Abs(xi)
	}
	return sum
}
func (perCoordinate) Prox(dst, x []float64, gamma float64) {
	for i, xi := range x {
		t := gamma * float64(i)
		dst[i] = xi - min(max(xi, -t), t)
	}
}
func (perCoordinate) Coordinate(i int) (l1, l2, lo, hi float64) {
	return float64(i), 0, math.Inf(-1), math.Inf(1)
}

// negative has a negative coefficient, which no regularizer may have.
type negative struct{ perCoordinate }

func (negative) Coordinate(int) (l1, l2, lo, hi float64) { return -9, 0, 0, 0 }

// TestSumPerCoordinate checks sums with operators whose coefficients differ between coordinates.
func TestSumPerCoordinate(t *testing.T) {
	g, ok := sumOf(perCoordinate{}, prox.Box{Lo: -1, Hi: 1})
	require.True(t, ok)
	require.Equal(t, []float64{1, 1, 0, -0.5}, apply(g, []float64{2, 2, 2, -3.5}, 1))
	require.Equal(t, 2.5, g.Func([]float64{1, 1, 0, -0.5}))
	require.Equal(t, 0.5, g.(prox.Subdifferential).Dist([]float64{1, 1, 0, -0.5}, []float64{-1, -2, 1, 3.5}))
	require.NoError(t, prox.Check(g, 4))
	l1, l2, lo, hi := g.(prox.Coordinatewise).Coordinate(3)
	require.Equal(t, [4]float64{3, 0, -1, 1}, [4]float64{l1, l2, lo, hi})
	two, ok := sumOf(perCoordinate{}, perCoordinate{})
	require.True(t, ok)
	require.Equal(t, []float64{2, 0}, apply(two, []float64{2, 2}, 1))
	bad, ok := sumOf(perCoordinate{}, negative{})
	require.True(t, ok)
	require.ErrorIs(t, prox.Check(bad, 3), prox.ErrParameter)
	_, ok = sumOf(perCoordinate{}, prox.L1{Weight: -9})
	require.False(t, ok)
}

// TestBadValues checks arguments that are NaN, infinite, huge or subnormal: nothing panics, a NaN
// argument gives a NaN point, and Func, Dist and Shift never return NaN.
func TestBadValues(t *testing.T) {
	nan := math.NaN()
	ops := operators(t)
	for name, g := range operators(t) {
		if sum, ok := sumOf(g, prox.SquaredL2{Weight: 1}); ok {
			ops[name+"+square"] = sum
		}
		if sum, ok := sumOf(g, prox.L1{Weight: 1}); ok {
			ops[name+"+L1"] = sum
		}
		for kind, op := range map[string]prox.Operator{
			"translate": prox.Translate(g, []float64{1, 2, 3, 4}), "scale": prox.Scale(g, -0.7, 2), "reflect": prox.Scale(g, -2,
				1),
			"blocks": prox.Blocks(prox.Block{Op: g, Len: 4}),
		} {
			ops[kind+" "+name] = op
		}
		if conj, ok := prox.Conjugate(g); ok {
			ops["conjugate "+name] = conj
		}
	}
	bad := [][]float64{{nan, 0, 0, 0}, {0, inf, 0, 0}, {-inf, 1, inf, 2}, {1e308, 1e308, 1e308, -1e308},
		{5e-324, 0, -5e-324, 0}}
	for name, op := range ops {
		dist := func(x, v []float64) float64 { return inf }
		if sub, ok := op.(prox.Subdifferential); ok {
			dist = sub.Dist
		}
		for _, x := range bad {
			require.False(t, math.IsNaN(op.Func(x)), "%s Func(%v)", name, x)
			require.False(t, math.IsNaN(prox.RoundingOf(op).Shift(x)), "%s Shift(%v)", name, x)
			for _, v := range append(bad, x, []float64{1, 2, 3, 4}) {
				require.False(t, math.IsNaN(dist(x, v)), "%s Dist(%v, %v)", name, x, v)
				require.False(t, math.IsNaN(dist([]float64{0, 0, 0, 0}, v)), "%s Dist(0, %v)", name, v)
			}
			p := apply(op, x, 1)
			if math.IsNaN(x[0]) {
				require.True(t, floats.HasNaN(p), "%s hides a NaN", name)
				require.True(t, math.IsInf(op.Func(x), 1), name)
				require.True(t, math.IsInf(dist(x, p), 1), name)
			}
		}
	}
	require.PanicsWithValue(t, "prox: group index out of range",
		func() { apply(prox.GroupL2{Groups: [][]int{{4}}}, []float64{1}, 1) })
}

// TestRounded checks Dist for the ball at points near its sphere. A point within rounding of the
// sphere counts as a point on it, and Shift bounds the distance; a point farther inside counts as
// interior.
func TestRounded(t *testing.T) {
	ball, v := prox.L2Ball{R: 5}, []float64{-3, -4}
	for _, c := range []struct {
		scale, dist float64
	}{
		{1, 0}, {1 - 1e-15, 0}, {1 - 1e-14, 5}, {0.5, 5}, {1 + 1e-15, 0}, {1 + 1e-14, inf},
	} {
		x := []float64{3 * c.scale, 4 * c.scale}
		switch {
		case c.dist == 0:
			require.InDelta(t, 5*math.Abs(c.scale-1), prox.RoundingOf(ball).Shift(x), 1e-14)
			require.GreaterOrEqual(t, prox.RoundingOf(ball).Shift(x), 5*math.Abs(c.scale-1))
			require.InDelta(t, 0, ball.Dist(x, v), 1e-14)
			require.Equal(t, 5.0, ball.Dist(x, []float64{3, 4}), "outward gradients are not absorbed")
		case c.dist == 5:
			require.Zero(t, prox.RoundingOf(ball).Shift(x))
			require.InEpsilon(t, 5, ball.Dist(x, v), 1e-15)
		default:
			require.True(t, math.IsInf(prox.RoundingOf(ball).Shift(x), 1))
			require.True(t, math.IsInf(ball.Dist(x, v), 1))
		}
	}
	require.Zero(t, prox.RoundingOf(prox.L1{}).Shift(v), "the faces of L1 need no shift")
}

// TestConcurrent checks that operators keep no state between calls, by calling them from several
// goroutines.
func TestConcurrent(t *testing.T) {
	x := make([]float64, 4)
	for i := range x {
		x[i] = 3 - 2*float64(i)
	}
	for name, op := range operators(t) {
		want, dist := apply(op, x, 0.5), op.(prox.Subdifferential).Dist(apply(op, x, 0.5), x)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					if p := apply(op, x, 0.5); !slices.Equal(p, want) || op.(prox.Subdifferential).Dist(p, x) != dist {
						t.Errorf("%s differs between goroutines", name)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestRadius(t *testing.T) {
	require.Equal(t, 0.0, prox.Box{}.Radius(3))
	require.Equal(t, inf, prox.Box{Lo: 0, Hi: inf}.Radius(3))
	for _, d := range []int{1, 2, 3, 1000} {
		r := prox.Box{Lo: -3, Hi: 2}.Radius(d)
		require.GreaterOrEqual(t, r*r, 9*float64(d), "rounded up")
		require.InEpsilon(t, 3*math.Sqrt(float64(d)), r, 1e-15)
	}
}

// TestDistGolden compares Dist with values that an independent program computed in high precision
// (see testdata/README.md).
func TestDistGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/certificate_distance.json")
	require.NoError(t, err)
	var cases []struct {
		Lambda, Dist string
		Box, X, Grad []string
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Len(t, cases, 3)
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return x
	}
	vector := func(s []string) (x []float64) {
		for _, si := range s {
			x = append(x, number(si))
		}
		return x
	}
	for _, c := range cases {
		sum, ok := sumOf(prox.L1{Weight: number(c.Lambda)}, prox.Box{Lo: number(c.Box[0]), Hi: number(c.Box[1])})
		require.True(t, ok)
		got := sum.(prox.Subdifferential).Dist(vector(c.X), vector(c.Grad))
		require.InEpsilon(t, number(c.Dist), got, 1e-15)
	}
}

// ownMethods embeds an operator of package prox, and so has its unexported methods, but declares
// its own Shift and Check.
type ownMethods struct{ prox.L2Ball }

func (ownMethods) Shift([]float64) float64 { return 7 }
func (ownMethods) Check(int) error         { return errors.New("mine") }

func TestOwnMethodsWin(t *testing.T) {
	op := ownMethods{prox.L2Ball{R: 1}}
	require.Equal(t, 7.0, prox.RoundingOf(op).Shift([]float64{0}))
	require.EqualError(t, prox.Check(op, 1), "mine")
	type embeds struct{ prox.L2Ball }
	require.Error(t, prox.Check(embeds{prox.L2Ball{R: -1}}, 1), "an embedded operator's own Check must be used")
	require.True(t, math.IsInf(prox.RoundingOf(embeds{prox.L2Ball{R: 1}}).Shift([]float64{2}), 1))
}
