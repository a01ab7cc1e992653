// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/prox/proxtest"
)

var inf = math.Inf(1)

// operators returns an operator of every exported type, all for 4 dimensions.
func operators(t testing.TB) map[string]prox.Operator {
	plane, err := prox.NewAffine(mat.NewDense(3, 4, []float64{
		1, 2, 0, -1,
		0, 1, 1, 1,
		1, 3, 1, 0, // this row is the sum of the others
	}), []float64{1, 2, 3})
	require.NoError(t, err)
	return map[string]prox.Operator{
		"L1":          prox.L1{Weight: 0.7},
		"L1/zero":     prox.L1{},
		"SquaredL2":   prox.SquaredL2{Weight: 2},
		"ElasticNet":  prox.ElasticNet{L1: 0.7, L2: 2},
		"NonNegative": prox.NonNegative{},
		"Box":         prox.Box{Lo: -1, Hi: 0.5},
		"Box/half":    prox.Box{Lo: -inf, Hi: 0.5},
		"Box/point":   prox.Box{},
		"L1Box":       prox.L1Box{Weight: 0.7, Lo: -1, Hi: 2},
		"L1Box/away":  prox.L1Box{Weight: 0.7, Lo: 0.25, Hi: 2},
		"L2Norm":      prox.L2Norm{Weight: 0.7},
		"L2Ball":      prox.L2Ball{R: 1.3},
		"L2Ball/zero": prox.L2Ball{},
		"L2Ball/big":  prox.L2Ball{R: 5e3},
		"L1Ball":      prox.L1Ball{R: 1.3},
		"L1Ball/zero": prox.L1Ball{},
		"Simplex":     prox.Simplex{Total: 1.3},
		"HalfSpace":   prox.HalfSpace{A: []float64{1, -2, 0, 0.5}, B: 0.4},
		"HalfSpace/0": prox.HalfSpace{A: []float64{1, 1, 1, 1}},
		"Affine":      plane,
		"GroupL2":     prox.GroupL2{Groups: [][]int{{0, 2}, {1}}, Weight: 0.7},

		"LInfNorm":         prox.LInfNorm{Weight: 0.7},
		"LInfNorm/zero":    prox.LInfNorm{},
		"LInfBall":         prox.Box{Lo: -0.8, Hi: 0.8},
		"SortedL1":         prox.SortedL1{Weights: []float64{1.1, 0.7, 0.7, 0.2}},
		"SortedL1/sup":     prox.SortedL1{Weights: []float64{0.7, 0, 0, 0}},
		"TotalVariation":   prox.TotalVariation{Weight: 0.7},
		"TotalVariation/0": prox.TotalVariation{},
		"Huber":            prox.Huber{Weight: 0.7, Delta: 1.2},
		"Hinge":            prox.Hinge{Weight: 0.7},
		"LogBarrier":       prox.LogBarrier{Weight: 0.7},
		"NuclearNorm":      prox.NuclearNorm{Rows: 2, Cols: 2, Weight: 0.7},
		"NuclearNorm/row":  prox.NuclearNorm{Rows: 1, Cols: 4, Weight: 0.7},
		"SpectralBall":     prox.SpectralBall{Rows: 2, Cols: 2, R: 0.8},
		"SpectralBall/col": prox.SpectralBall{Rows: 4, Cols: 1, R: 0.8},
		"SpectralBall/0":   prox.SpectralBall{Rows: 2, Cols: 2},
		"SecondOrderCone":  prox.SecondOrderCone{},
		"PSDCone":          prox.PSDCone{Order: 2},
		"NuclearBall":      prox.NuclearBall{Rows: 2, Cols: 2, R: 0.8},
		"NuclearBall/col":  prox.NuclearBall{Rows: 4, Cols: 1, R: 0.8},
		"NuclearBall/0":    prox.NuclearBall{Rows: 2, Cols: 2},
		"Bounds":           prox.Bounds{Lo: []float64{-1, 0, -inf, -0.5}, Hi: []float64{0.5, inf, 0.3, 0.25}},
		"Bounds/none":      prox.Bounds{},
		"WeightedL1":       prox.WeightedL1{Weights: []float64{0.7, 0, 2, 0.1}},
		"Linear":           prox.Linear{C: []float64{0.5, -1, 0, 0.25}},
		"Pinball":          prox.Pinball{Tau: 0.9},
		"Pinball/0":        prox.Pinball{},
		"Isotonic":         prox.Isotonic{},
		"GroupL2/weights":  prox.GroupL2{Groups: [][]int{{0, 2}, {1}}, Weight: 0.7, Weights: []float64{1, 0.5}},
		"Quadratic":        quadratic(t),
	}
}

func TestOperators(t *testing.T) {
	for name, op := range operators(t) {
		t.Run(name, func(t *testing.T) { proxtest.Check(t, op, 4) })
	}
}

// TestOperatorsLarge runs the suite on matrices that are not square and on cones and norms in other
// dimensions.
func TestOperatorsLarge(t *testing.T) {
	for name, c := range map[string]struct {
		op  prox.Operator
		dim int
	}{
		"NuclearNorm/wide":  {prox.NuclearNorm{Rows: 3, Cols: 4, Weight: 0.7}, 12},
		"NuclearNorm/tall":  {prox.NuclearNorm{Rows: 4, Cols: 3, Weight: 0.7}, 12},
		"SpectralBall/wide": {prox.SpectralBall{Rows: 3, Cols: 4, R: 1.1}, 12},
		"SpectralBall/tall": {prox.SpectralBall{Rows: 4, Cols: 3, R: 1.1}, 12},
		"PSDCone":           {prox.PSDCone{Order: 3}, 9},
		"NuclearBall/wide":  {prox.NuclearBall{Rows: 3, Cols: 4, R: 1.1}, 12},
		"NuclearBall/tall":  {prox.NuclearBall{Rows: 4, Cols: 3, R: 1.1}, 12},
		"PSDCone/1":         {prox.PSDCone{Order: 1}, 1},
		"SecondOrderCone/1": {prox.SecondOrderCone{}, 1},
		"SecondOrderCone/9": {prox.SecondOrderCone{}, 9},
		"SortedL1":          {prox.SortedL1{Weights: []float64{2, 1.5, 1, 1, 0.5, 0.5, 0.2, 0, 0}}, 9},
		"TotalVariation":    {prox.TotalVariation{Weight: 0.7}, 9},
		"TotalVariation/1":  {prox.TotalVariation{Weight: 0.7}, 1},
		"TotalVariation/2":  {prox.TotalVariation{Weight: 0.7}, 2},
		"LInfNorm":          {prox.LInfNorm{Weight: 0.7}, 9},
	} {
		t.Run(name, func(t *testing.T) { proxtest.Check(t, c.op, c.dim) })
	}
}

// TestSums tries every pair of operators. A pair has either no closed form, or one that passes the
// suite and whose Func is the sum of the two values.
func TestSums(t *testing.T) {
	found := 0
	for m, g := range operators(t) {
		for n, h := range operators(t) {
			sum, ok := sumOf(g, h)
			back, okBack := sumOf(h, g)
			require.Equal(t, ok, okBack, "%s + %s", m, n)
			if !ok {
				require.Nil(t, sum)
				continue
			}
			found++
			t.Run(fmt.Sprintf("%s+%s", m, n), func(t *testing.T) {
				proxtest.Check(t, sum, 4)
				inside := make([]float64, 4)
				sum.Prox(inside, []float64{3, -2, 0.5, 0.1}, 1)
				for _, x := range [][]float64{inside, {0.3, 0.1, 0, 0.25}, {-1, 0, 0, 0}} {
					want := g.Func(x) + h.Func(x)
					for _, s := range []prox.Operator{sum, back} {
						if got := s.Func(x); math.IsInf(want, 1) {
							require.Equal(t, want, got)
						} else {
							require.InDelta(t, want, got, 1e-14*(1+want)) // the sums have 4 terms
						}
					}
				}
				_, isSet := sum.(prox.Set)
				_, gSet := g.(prox.Set)
				_, hSet := h.(prox.Set)
				if gSet && hSet {
					require.True(t, isSet, "the intersection of two sets is a Set")
				}
				if isSet {
					require.Zero(t, sum.Func(inside), "a Set is an indicator")
				}
			})
		}
	}
	require.Greater(t, found, 100)
}

// TestNestedSums checks that a sum of sums contains every part.
func TestNestedSums(t *testing.T) {
	sum := func(g, h prox.Operator) prox.Operator {
		s, ok := sumOf(g, h)
		require.True(t, ok, "%T + %T", g, h)
		return s
	}
	square, l1, cone := prox.SquaredL2{Weight: 0.5}, prox.L1{Weight: 0.2}, prox.NonNegative{}
	for name, pair := range map[string][2]prox.Operator{
		"radial":  {sum(l1, prox.L2Ball{R: 1}), sum(cone, prox.L2Norm{Weight: 0.3})},
		"absball": {sum(l1, prox.L1Ball{R: 1}), sum(cone, prox.L1Ball{R: 0.8})},
		"ridges":  {sum(square, prox.L1Ball{R: 1}), sum(sum(l1, square), prox.L1Ball{R: 0.8})},
		"ridge":   {sum(square, prox.L1Ball{R: 1}), cone},
		"squares": {sum(square, prox.GroupL2{Groups: [][]int{{0, 1}}, Weight: 1}), square},
		"simplex": {sum(square, prox.Simplex{Total: 1}), sum(l1, cone)},
	} {
		t.Run(name, func(t *testing.T) {
			g := sum(pair[0], pair[1])
			proxtest.Check(t, g, 4)
			p := make([]float64, 4)
			g.Prox(p, []float64{0.5, 0.3, -0.2, 0.1}, 1)
			for _, x := range [][]float64{p, {0.1, 0.2, 0, 0}, {0.1, -0.2, 0, 0}, {0.9, 0.05, 0, 0}} {
				if want := pair[0].Func(x) + pair[1].Func(x); math.IsInf(want, 1) {
					require.Equal(t, want, g.Func(x))
				} else {
					require.InDelta(t, want, g.Func(x), 1e-15)
				}
			}
		})
	}
}

// sumOf is prox.Sum with a bool in the place of the error.
func sumOf(g, h prox.Operator) (prox.Operator, bool) {
	sum, err := prox.Sum(g, h)
	return sum, err == nil
}

// quadratic has a Q of rank 2.
func quadratic(t testing.TB) prox.Operator {
	q := mat.NewSymDense(4, []float64{2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	g, err := prox.NewQuadratic(q, []float64{0.5, 0, -0.25, 0})
	require.NoError(t, err)
	return g
}

// TestGolden compares proximal maps with values from exact arithmetic (fractions), and from 45
// digits for the sums with balls.
func TestGolden(t *testing.T) {
	x := []float64{3, -0.5, 1.25, -4}
	q, err := prox.NewQuadratic(mat.NewSymDense(2, []float64{2, 1, 1, 3}), []float64{1, -2})
	require.NoError(t, err)
	of := func(g, h prox.Operator) prox.Operator {
		sum, err := prox.Sum(g, h)
		require.NoError(t, err)
		return sum
	}
	group := prox.GroupL2{Groups: [][]int{{0, 1}, {2, 3}}, Weight: 1, Weights: []float64{1, 1.5}}
	ball := prox.L2Ball{R: 1}
	for name, c := range map[string]struct {
		op    prox.Operator
		x     []float64
		gamma float64
		want  []float64
	}{
		"WeightedL1": {prox.WeightedL1{Weights: []float64{1, 2, 0, 0.5}}, x, 0.5, []float64{2.5, 0, 1.25, -3.75}},
		"Bounds": {prox.Bounds{Lo: []float64{0, -1, -inf, -3}, Hi: []float64{2, inf, 1, inf}}, x, 1,
			[]float64{2, -0.5, 1, -3}},
		"Linear": {prox.Linear{C: []float64{1, 2, 0, 0.5}}, x, 0.5, []float64{2.5, -1.5, 1.25, -4.25}},
		"Pinball": {prox.Translate(prox.Pinball{Tau: 0.9}, []float64{1, 0, 1, -4.5}), x, 0.5,
			[]float64{51. / 20, -9. / 20, 1, -89. / 20}},
		"Quadratic": {q, []float64{3, -1}, 1, []float64{7. / 11, 1. / 11}},
		"Isotonic":  {prox.Isotonic{}, []float64{2, 5, 3, -1, 4}, 1, []float64{2, 7. / 3, 7. / 3, 7. / 3, 4}},
		"TotalVariation, ball": {of(prox.TotalVariation{Weight: 1}, ball), []float64{3, -1, 4, 1}, 1,
			[]float64{0.554700196225229122, 0.277350098112614561, 0.554700196225229122, 0.554700196225229122}},
		"TotalVariation, norm": {of(prox.TotalVariation{Weight: 1}, prox.L2Norm{Weight: 0.5}), []float64{3, -1, 4, 1}, 1,
			[]float64{1.722649901887385439, 0.861324950943692719, 1.722649901887385439, 1.722649901887385439}},
		"LInfNorm, ball": {of(ball, prox.LInfNorm{Weight: 1}), []float64{3, 2, -1}, 1, []float64{2. / 3, 2. / 3, -1. / 3}},
		"groups alone":   {group, []float64{3, 4, 0, -2}, 1, []float64{2.4, 3.2, 0, -0.5}},
		"GroupL2, ball": {of(group, ball), []float64{3, 4, 0, -2}, 1,
			[]float64{0.595366726028200590, 0.793822301370934120, 0, -0.124034734589208456}},
	} {
		got := apply(c.op, c.x, c.gamma)
		require.InDeltaSlice(t, c.want, got, 1e-14, name)
	}
	_, err = prox.Sum(prox.Isotonic{}, prox.TotalVariation{Weight: 1})
	require.ErrorIs(t, err, prox.ErrNoClosedForm)
}
