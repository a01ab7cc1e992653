// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/prox/proxtest"
)

// TestCalculus runs the suite of proxtest on transforms of every operator: translation, scaling,
// blocks and conjugates. It also checks which optional interfaces the results
// implement.
func TestCalculus(t *testing.T) {
	// by is small, because the suite allows only for the rounding of x.
	by := []float64{0.25, -0.125, 0, 0.3}
	for name, g := range operators(t) {
		conj, hasConj := prox.Conjugate(g)
		_, set := g.(prox.Set)
		for kind, op := range map[string]prox.Operator{
			"translate": prox.Translate(g, by),
			"scale":     prox.Scale(g, 0.7, 1.3),
			"reflect":   prox.Scale(g, -1, 1),
			"quarter":   prox.Scale(g, -0.25, 3),
			"block":     prox.Blocks(prox.Block{Op: g, Len: 4}),
			"conjugate": conj,
		} {
			if op == nil {
				require.False(t, hasConj)
				continue
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				proxtest.Check(t, op, 4)
				_, dist := op.(prox.Subdifferential)
				_, isSet := op.(prox.Set)
				switch kind {
				case "reflect", "quarter", "block":
					require.True(t, dist)
				case "frame":
					require.False(t, dist)
				}
				if kind != "conjugate" {
					require.Equal(t, set, isSet)
				}
			})
		}
	}
}

// TestCalculusValues compares the values of transformed operators with the definitions.
func TestCalculusValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(4).Draw(t, "x")
		by := ties(4).Draw(t, "by")
		s, w := rapid.Float64Range(0.1, 3).Draw(t, "a"), rapid.Float64Range(0.1, 3).Draw(t, "w")
		if rapid.Bool().Draw(t, "sign") {
			s = -s
		}
		y, z := make([]float64, 4), make([]float64, 4)
		floats.SubTo(y, x, by)
		floats.ScaleTo(z, s, x)
		for name, g := range finiteOperators() {
			near := func(want, got float64) { require.InDelta(t, want, got, 1e-12*(1+math.Abs(want)), name) }
			near(g.Func(y), prox.Translate(g, by).Func(x))
			near(w*g.Func(z), prox.Scale(g, s, w).Func(x))
			near(g.Func(x)+g.Func(y), prox.Blocks(prox.Block{Op: g, Len: 4}, prox.Block{Op: g, Len: 4}).Func(
				append(append([]float64(nil), x...), y...)))
		}
	})
}

// finiteOperators returns operators that are finite everywhere, in 4 dimensions.
func finiteOperators() map[string]prox.Operator {
	return map[string]prox.Operator{
		"L1": prox.L1{Weight: 0.7}, "ElasticNet": prox.ElasticNet{L1: 0.7, L2: 2}, "L2Norm": prox.L2Norm{Weight: 0.7},
		"GroupL2":  prox.GroupL2{Groups: [][]int{{0, 2}, {1}, {}}, Weight: 0.7},
		"LInfNorm": prox.LInfNorm{Weight: 0.7}, "SortedL1": prox.SortedL1{Weights: []float64{1.1, 0.7, 0.7, 0.2}},
		"TotalVariation": prox.TotalVariation{Weight: 0.7}, "Huber": prox.Huber{Weight: 0.7,
			Delta: 1.2}, "Hinge": prox.Hinge{Weight: 0.7},
		"NuclearNorm": prox.NuclearNorm{Rows: 2, Cols: 2, Weight: 0.7},
	}
}

// TestMoreau checks Moreau's identity, x = prox_{γg}(x) + γ·prox_{g*/γ}(x/γ), for ProxConjugate and
// for the operator that Conjugate returns. Their values satisfy the Fenchel–Young inequality with
// equality, because u = (x−p)/γ is in ∂g(p).
func TestMoreau(t *testing.T) {
	ops := operators(t)
	rapid.Check(t, func(t *rapid.T) {
		x := ties(4).Draw(t, "x")
		gamma := rapid.Float64Range(0.1, 5).Draw(t, "gamma")
		for name, g := range ops {
			p, u := apply(g, x, gamma), make([]float64, 4)
			floats.ScaleTo(u, 1/gamma, x)
			prox.ProxConjugate(g, u, u, 1/gamma)
			for i := range x {
				require.InDelta(t, x[i], p[i]+gamma*u[i], 1e-13, name)
			}
			if conj, ok := prox.Conjugate(g); ok {
				v := make([]float64, 4)
				floats.ScaleTo(v, 1/gamma, x)
				require.InDeltaSlice(t, u, apply(conj, v, 1/gamma), 1e-12*(1+1/gamma), name)
				require.InDelta(t, floats.Dot(p, u), g.Func(p)+conj.Func(apply(conj, v, 1/gamma)), 1e-11*(1+1/gamma), name)
			}
		}
	})
}

// TestConjugateTwice checks that the conjugate of a conjugate is the original operator.
func TestConjugateTwice(t *testing.T) {
	again := 0
	for name, g := range operators(t) {
		conj, ok := prox.Conjugate(g)
		if !ok {
			continue
		}
		if back, ok := prox.Conjugate(conj); ok {
			again++
			require.Equal(t, g, back, name)
		}
	}
	require.Greater(t, again, 12)
	for _, g := range []prox.Operator{
		prox.L2Ball{R: inf}, prox.SquaredL2{}, prox.L1{Weight: -1}, prox.HalfSpace{A: []float64{1,
			0}}, prox.NuclearNorm{Rows: -1, Cols: -1},
		prox.Translate(prox.L2Ball{R: 1}, []float64{1, 2}), prox.Scale(prox.PSDCone{Order: 2}, -1, 1),
		mustSum(t, prox.ElasticNet{L1: 1, L2: 2}, prox.NonNegative{}),
	} {
		conj, ok := prox.Conjugate(g)
		require.False(t, ok, "%#v", g)
		require.Nil(t, conj)
	}
	zero, ok := prox.Conjugate(nil)
	require.True(t, ok)
	require.Equal(t, prox.Box{}, zero)
	dual, ok := prox.Conjugate(prox.TotalVariation{Weight: 1})
	require.True(t, ok)
	require.True(t, math.IsInf(dual.Func([]float64{1, 1, 1, 1}), 1), "∂g(0) sums to 0")
	require.Zero(t, dual.Func([]float64{1, -2, 2, -1}))
	require.InEpsilon(t, math.Sqrt(10), dual.(prox.Set).Radius(4), 1e-14)
	for dim, want := range map[int]float64{1: 0, 2: math.Sqrt2} {
		require.InDelta(t, want, dual.(prox.Set).Radius(dim), 1e-14)
	}
	require.True(t, math.IsInf(dual.Func([]float64{inf, 0, 0, 0}), 1))
	groups, ok := prox.Conjugate(finiteOperators()["GroupL2"])
	require.True(t, ok)
	require.InEpsilon(t, 0.7*math.Sqrt2, groups.(prox.Set).Radius(4), 1e-14)
}

func mustSum(t *testing.T, g, h prox.Operator) prox.Operator {
	sum, ok := sumOf(g, h)
	require.True(t, ok)
	return sum
}

// TestScaleForms checks that scaling a ball, box or similar operator gives an operator of the same
// type, or at least its optional methods.
func TestScaleForms(t *testing.T) {
	require.Equal(t, prox.L2Ball{R: 0.5}, prox.Scale(prox.L2Ball{R: 1}, -2, 3))
	require.Equal(t, prox.L1Ball{R: 0.5}, prox.Scale(prox.L1Ball{R: 1}, -2, 3))
	require.Equal(t, prox.SpectralBall{Rows: 2, Cols: 3, R: 0.5},
		prox.Scale(prox.SpectralBall{Rows: 2, Cols: 3, R: 1}, -2, 3))
	box := prox.Scale(prox.Box{Lo: -1, Hi: 2}, -2, 3)
	l1, l2, lo, hi := box.(prox.Coordinatewise).Coordinate(0)
	require.Equal(t, [4]float64{0, 0, -1, 0.5}, [4]float64{l1, l2, lo, hi})
	require.InEpsilon(t, 1.0, box.(prox.Set).Radius(1), 1e-14)
	l1, l2, _, _ = prox.Scale(prox.ElasticNet{L1: 1, L2: 1}, -2, 3).(prox.Coordinatewise).Coordinate(0)
	require.Equal(t, [2]float64{6, 12}, [2]float64{l1, l2})
	_, dist := prox.Scale(prox.TotalVariation{Weight: 1}, 0.7, 1).(prox.Subdifferential)
	require.True(t, dist, "a scaled seminorm must keep Dist")
	_, dist = prox.Scale(prox.Simplex{Total: 1}, 0.7, 1).(prox.Subdifferential)
	require.False(t, dist)
	tiny := prox.Scale(prox.SecondOrderCone{}, 0x1p-400, 1).(prox.Subdifferential)
	// The argument a·x underflows to the apex of the cone.
	s := prox.RoundingOf(tiny).Shift([]float64{0x1p-700, 0})
	require.GreaterOrEqual(t, s, 0x1p-700)
	require.LessOrEqual(t, s, 0x1p-699)
	require.Zero(t, prox.RoundingOf(tiny).Shift([]float64{0x1p-600, 0}))
	require.Zero(t, prox.Scale(nil, 2, 2).Func([]float64{1, 2}))
}

// TestTranslateBox checks that Dist and Shift of a translated box are exact at its faces.
func TestTranslateBox(t *testing.T) {
	by, hi := []float64{0.1, 1e8}, 0.7
	g := prox.Translate(prox.L1Box{Weight: 1, Lo: -0.5, Hi: hi}, by).(prox.Subdifferential)
	p := apply(g, []float64{5, 1e8 + 0.25}, 1)
	require.Equal(t, []float64{hi + by[0], 1e8}, p, "the bound and the kink")
	require.Zero(t, g.Dist(p, []float64{-3, 0.9}))
	require.InEpsilon(t, 2.0, g.Dist([]float64{math.Nextafter(p[0], 0), 1e8}, []float64{-3, 0.9}), 1e-15,
		"an interior point")
	require.True(t, math.IsInf(g.Dist([]float64{math.Nextafter(p[0], 2), 1e8}, []float64{-3, 0.9}), 1))
	require.Zero(t, prox.RoundingOf(g).Shift(p))

	norm := prox.Translate(prox.L2Norm{Weight: 1}, []float64{0.1, 0.2}).(prox.Subdifferential)
	require.Zero(t, norm.Dist([]float64{0.1, 0.2}, []float64{0.5, 0.5}))
	require.Zero(t, prox.RoundingOf(norm).Shift([]float64{0.1, 0.2}))
	s := prox.RoundingOf(norm).Shift([]float64{1e-20, 0.2}) // fl(1e-20 − 0.1) = −0.1
	require.InEpsilon(t, 1e-20, s, 1e-14)
	require.InEpsilon(t, 5+math.Sqrt(5), prox.Translate(prox.L2Ball{R: 5}, []float64{1, -2}).(prox.Set).Radius(2), 1e-14)
}

// TestBlocks checks that Blocks applies each operator to its own range of coordinates.
func TestBlocks(t *testing.T) {
	g := prox.Blocks(
		prox.Block{Op: prox.L1{Weight: 1}, Len: 2}, prox.Block{Op: nil, Len: 1}, prox.Block{Op: prox.Box{Lo: -1, Hi: 1},
			Len: 0},
		prox.Block{Op: prox.Box{Lo: 0, Hi: 1}, Len: 2})
	require.NoError(t, prox.Check(g, 5))
	require.Equal(t, []float64{2, 0, 7, 1, 0}, apply(g, []float64{3, -0.5, 7, 7, -7}, 1))
	c := g.(prox.Coordinatewise)
	for i, want := range [][4]float64{{1, 0, -inf, inf}, {1, 0, -inf, inf}, {0, 0, -inf, inf}, {0, 0, 0, 1},
		{0, 0, 0, 1}} {
		l1, l2, lo, hi := c.Coordinate(i)
		require.Equal(t, want, [4]float64{l1, l2, lo, hi}, i)
	}
	proxtest.Check(t, g, 5)
	sum, ok := sumOf(g, prox.Box{Lo: -1, Hi: 0.5})
	require.True(t, ok)
	require.Equal(t, []float64{0.5, 0, 0.5, 0.5, 0}, apply(sum, []float64{3, -0.5, 7, 7, -7}, 1))

	cube := prox.Blocks(prox.Block{Op: prox.Box{Lo: 0, Hi: 1}, Len: 1}, prox.Block{Op: prox.NonNegative{}, Len: 1})
	cut, ok := sumOf(cube, prox.Box{Lo: -3, Hi: 4})
	require.True(t, ok)
	proxtest.Check(t, cut, 2)
	require.InEpsilon(t, math.Sqrt(32), cut.(prox.Set).Radius(2), 1e-14)
	empty, ok := sumOf(cube, prox.Box{Lo: -3, Hi: -2})
	require.True(t, ok)
	require.ErrorIs(t, prox.Check(empty, 2), prox.ErrParameter)
	require.True(t, math.IsInf(empty.(prox.Set).Radius(2), 1))

	sets := prox.Blocks(prox.Block{Op: prox.L2Ball{R: 3}, Len: 2},
		prox.Block{Op: prox.Simplex{Total: 4}, Len: 3}).(prox.Set)
	require.InEpsilon(t, 5.0, sets.Radius(5), 1e-14)
	require.True(t, math.IsInf(sets.Radius(4), 1))
	proxtest.Check(t, sets, 5)
	_, coordinate := sets.(prox.Coordinatewise)
	require.False(t, coordinate)

	mixed := prox.Blocks(prox.Block{Op: bare{prox.L1{Weight: 1}}, Len: 2}, prox.Block{Op: prox.L2Ball{R: 1}, Len: 2})
	proxtest.Check(t, mixed, 4)
	_, dist := mixed.(prox.Subdifferential)
	require.False(t, dist)
	_, set := mixed.(prox.Set)
	require.False(t, set)
	require.PanicsWithValue(t, "prox: length mismatch", func() { mixed.Func([]float64{1}) })
}

func TestCheckCalculus(t *testing.T) {
	nan := math.NaN()
	conj, ok := prox.Conjugate(prox.SortedL1{Weights: []float64{1, 2, 3}})
	require.True(t, ok)
	for name, op := range map[string]prox.Operator{
		"translate length":  prox.Translate(prox.L2Ball{R: 1}, []float64{1}),
		"translate NaN":     prox.Translate(prox.L2Ball{R: 1}, []float64{1, nan, 0}),
		"translate Inf":     prox.Translate(prox.L1{}, []float64{1, inf, 0}),
		"translate operand": prox.Translate(prox.L1{Weight: -1}, []float64{1, 2, 3}),
		"scale zero":        prox.Scale(prox.L2Ball{R: 1}, 0, 1),
		"scale NaN":         prox.Scale(prox.L2Norm{Weight: 1}, nan, 1),
		"scale huge":        prox.Scale(prox.L1{Weight: 1}, 1e200, 1),
		"scale overflow":    prox.Scale(prox.L1{Weight: 1e300}, 1e100, 1),
		"weight zero":       prox.Scale(prox.L1{Weight: 1}, 1, 0),
		"weight negative":   prox.Scale(prox.L1{Weight: 1}, -1, -1),
		"weight NaN":        prox.Scale(prox.Simplex{Total: 1}, 1, nan),
		"scale operand":     prox.Scale(prox.TotalVariation{Weight: -1}, 1, 1),
		"block length":      prox.Blocks(prox.Block{Op: prox.L1{}, Len: 2}),
		"block negative":    prox.Blocks(prox.Block{Op: prox.L1{}, Len: 3}, prox.Block{Op: prox.L1{}, Len: -1}),
		"block operand":     prox.Blocks(prox.Block{Op: prox.L2Ball{R: -1}, Len: 3}),
		"conjugate":         conj,
	} {
		require.ErrorIs(t, prox.Check(op, 3), prox.ErrParameter, name)
		if set, ok := op.(prox.Set); ok {
			require.True(t, math.IsInf(set.Radius(3), 1), name)
		}
	}
}

// TestSplitGroups checks that SplitGroups loses no group and that the groups of each piece are
// disjoint. Windows that overlap their neighbors must give two pieces.
func TestSplitGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOf(rapid.SliceOfDistinct(rapid.IntRange(0, 7), rapid.ID[int])).Draw(t, "groups")
		x := vectors(8, 3).Draw(t, "x")
		g := prox.GroupL2{Groups: groups, Weight: 0.7}
		sum, kept, worst := 0.0, 0, 0
		for _, piece := range prox.SplitGroups(g) {
			require.NoError(t, prox.Check(piece, 8))
			require.NotEmpty(t, piece.Groups)
			sum += piece.Func(x)
			kept += len(piece.Groups)
		}
		for i := range 8 {
			n := 0
			for _, group := range groups {
				for _, j := range group {
					if i == j {
						n++
					}
				}
			}
			worst = max(worst, n)
		}
		require.Len(t, groups, kept)
		require.GreaterOrEqual(t, len(prox.SplitGroups(g)), worst)
		require.InDelta(t, g.Func(x), sum, 1e-12*(1+sum))
	})
	windows := prox.SplitGroups(prox.GroupL2{Groups: [][]int{{0, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 6, 7}, {6, 7}}, Weight: 1})
	require.Equal(t, []prox.GroupL2{
		{Groups: [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}, Weight: 1},
		{Groups: [][]int{{2, 3, 4, 5}, {6, 7}}, Weight: 1},
	}, windows)
	require.Error(t, prox.Check(prox.SplitGroups(prox.GroupL2{Groups: [][]int{{1, 1}}})[0], 2))
}
