// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// pairsOfTerms returns problems with the pairs of terms that users write, with and without a
// closed-form sum.
func pairsOfTerms(t *testing.T, d int) map[string]splitting.Problem {
	inf := math.Inf(1)
	ones := make([]float64, d)
	floats.AddConst(1, ones)
	affine, err := prox.NewAffine(mat.NewDense(1, d, ones), []float64{0.5})
	require.NoError(t, err)
	group := prox.GroupL2{Groups: [][]int{{0, 1}, {2, 3, 4}, {5}}, Weight: 0.7}
	split := prox.SplitGroups(prox.GroupL2{Groups: [][]int{{0, 1, 2}, {2, 3, 4}, {4, 5}}, Weight: 0.7})
	require.Len(t, split, 2)
	weights := []float64{2, 1.5, 1, 0.8, 0.5, 0.2}
	half := prox.HalfSpace{A: []float64{1, -1, 1, 0, 2, 1}, B: 0.1}
	differences, err := splitting.NewDifferences([][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, d)
	require.NoError(t, err)
	return map[string]splitting.Problem{
		"l1":                    {G: prox.L1{Weight: 0.5}},
		"l1+box":                {G: prox.L1{Weight: 0.5}, H: prox.Box{Lo: -0.4, Hi: 0.5}},
		"elastic net":           {G: prox.ElasticNet{L1: 0.3, L2: 0.2}},
		"simplex":               {H: prox.Simplex{Total: 1}},
		"l1ball":                {H: prox.L1Ball{R: 1}},
		"l1+ball":               {G: prox.L1{Weight: 0.5}, H: prox.L2Ball{R: 0.8}},
		"nuclear":               {G: prox.NuclearNorm{Rows: 2, Cols: 3, Weight: 0.5}},
		"total variation":       {G: prox.TotalVariation{Weight: 0.4}},
		"fused lasso":           {G: prox.L1{Weight: 0.2}, H: prox.TotalVariation{Weight: 0.4}},
		"group+box":             {G: group, H: prox.Box{Lo: -0.3, Hi: 0.4}},
		"group+half line":       {G: group, H: prox.Box{Lo: -inf, Hi: 0.2}},
		"box+group":             {G: prox.Box{Lo: -0.3, Hi: inf}, H: group},
		"group+simplex":         {G: group, H: prox.Simplex{Total: 1}},
		"group+ball":            {G: group, H: prox.L2Ball{R: 0.6}},
		"group+l1ball":          {G: group, H: prox.L1Ball{R: 0.6}},
		"overlapping groups":    {G: split[0], H: split[1]},
		"sorted l1+nonnegative": {G: prox.SortedL1{Weights: weights}, H: prox.NonNegative{}},
		"sorted l1+box":         {G: prox.SortedL1{Weights: weights}, H: prox.Box{Lo: -0.2, Hi: 0.2}},
		"linf+nonnegative":      {G: prox.LInfNorm{Weight: 1}, H: prox.NonNegative{}},
		"l1+affine":             {G: prox.L1{Weight: 0.5}, H: affine},
		"affine+nonnegative":    {G: affine, H: prox.NonNegative{}},
		"nonnegative+affine":    {G: prox.NonNegative{}, H: affine},
		"affine+box":            {G: affine, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"affine+ball":           {G: affine, H: prox.L2Ball{R: 0.5}},
		"l1+half space":         {G: prox.L1{Weight: 0.5}, H: half},
		"half space+box":        {G: half, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"simplex+half space":    {G: prox.Simplex{Total: 1}, H: half},
		"ball+box":              {G: prox.L2Ball{R: 0.5}, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"ball+simplex":          {G: prox.L2Ball{R: 0.7}, H: prox.Simplex{Total: 1}},
		"simplex+box":           {G: prox.Simplex{Total: 1}, H: prox.Box{Lo: 0, Hi: 0.3}},
		"l1ball+box":            {G: prox.L1Ball{R: 1}, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"nuclear+box":           {G: prox.NuclearNorm{Rows: 2, Cols: 3, Weight: 0.5}, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"nuclear+nonnegative":   {G: prox.NuclearNorm{Rows: 2, Cols: 3, Weight: 0.5}, H: prox.NonNegative{}},
		"l1+nuclear":            {G: prox.L1{Weight: 0.1}, H: prox.NuclearNorm{Rows: 2, Cols: 3, Weight: 0.5}},
		"variation+box":         {G: prox.TotalVariation{Weight: 0.4}, H: prox.Box{Lo: -0.3, Hi: 0.3}},
		"variation+ball":        {G: prox.TotalVariation{Weight: 0.4}, H: prox.L2Ball{R: 0.5}},
		"elastic net+group":     {G: prox.ElasticNet{L1: 0.3, L2: 0.2}, H: prox.LInfNorm{Weight: 0.4}},
		"group+squared":         {G: group, H: prox.ElasticNet{L2: 0.2, L1: 0.1}},
		"K l1":                  {H: prox.L1{Weight: 0.4}, K: differences},
		"l1, K l1":              {G: prox.L1{Weight: 0.2}, H: prox.L1{Weight: 0.4}, K: differences},
		"box, K l2":             {G: prox.Box{Lo: -0.3, Hi: 0.3}, H: prox.L2Norm{Weight: 0.4}, K: differences},
	}
}

// unbounded names the pairs for which no bound on the minimizer exists unless f is strongly convex.
var unbounded = map[string]bool{"K l1": true, "affine+nonnegative": true, "nonnegative+affine": true}

// TestEveryAnswerHasABound checks Gap and Distance, the bounds that every Result has. Solves that
// end after 3, 10 or 30 steps must have true bounds too, and after 20000 steps the bounds must be
// small.
func TestEveryAnswerHasABound(t *testing.T) {
	const d = 6
	smooth := map[string]splitting.Smooth{}
	for _, n := range []int{4, 20} {
		r := rand.New(rand.NewPCG(uint64(n), 7))
		a, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range n {
			for j := range d {
				a.Set(i, j, r.NormFloat64())
			}
			y[i] = 2 * r.NormFloat64()
		}
		var err error
		name := func(f string) string { return fmt.Sprintf("%s, %d equations", f, n) }
		smooth[name("least squares")], err = splitting.NewLeastSquares(a, y)
		require.NoError(t, err)
		smooth[name("logistic")], err = splitting.NewLogistic(a, y)
		require.NoError(t, err)
		smooth[name("huber")], err = splitting.NewHuber(a, y, 0.5)
		require.NoError(t, err)
	}
	smooth["nothing"] = nil
	for fname, f := range smooth {
		strong := fname == "least squares, 20 equations"
		for pname, p := range pairsOfTerms(t, d) {
			p.F = f
			best, at := math.Inf(1), []float64(nil)
			var all []*splitting.Result
			for mname, method := range map[string]func() splitting.Method{
				"Minimize":    func() splitting.Method { return splitting.Auto(p, d) },
				"DavisYin":    func() splitting.Method { return &splitting.DavisYin{} },
				"line search": func() splitting.Method { return &splitting.DavisYin{Rule: splitting.LineSearch} },
				"PrimalDual":  func() splitting.Method { return &splitting.PrimalDual{} },
			} {
				if p.K != nil && (mname == "DavisYin" || mname == "line search") {
					continue
				}
				for _, steps := range []int{3, 10, 30, 20000} {
					x0 := []float64{1, -1, 0.5, 0, 2, -0.3}
					res, err := splitting.Solve(background, p, x0, &splitting.Settings{Iterations: steps, Tolerance: 1e-9}, method())
					require.NoError(t, err, "%s, %s, %s", fname, pname, mname)
					all = append(all, res)
					if v := p.Func(res.X); v < best {
						best, at = v, res.X
					}
					if steps < 20000 || !strong && unbounded[pname] {
						continue
					}
					name := fmt.Sprintf("%s, %s, %s: %v after %d steps", fname, pname, mname, res.Status, res.Iterations)
					require.Less(t, min(res.Residual, res.Gap), 1e-5, name)
					if res.Status == splitting.Stalled || strong {
						require.Less(t, res.Gap, 1e-9, name)
					}
				}
			}
			require.True(t, at != nil || !strong && unbounded[pname], "%s, %s: no feasible point", fname, pname)
			for _, res := range all {
				if at == nil {
					continue
				}
				// The reference point differs from the minimizer by rounding.
				if !math.IsInf(p.Func(res.X), 1) {
					require.LessOrEqual(t, p.Func(res.X)-best, res.Gap+1e-12, "%s, %s after %d steps", fname, pname, res.Iterations)
				}
				require.LessOrEqual(t, floats.Distance(res.X, at, 2), res.Distance+1e-6, "%s, %s after %d steps", fname, pname,
					res.Iterations)
			}
		}
	}
}
