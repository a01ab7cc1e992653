// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// TestInfeasible checks that sets without a common point are recognized, in any unit, with normals
// that prove it: sup{⟨G,x⟩ : x ∈ g} + sup{⟨H,z⟩ : z ∈ h} < 0 for Kᵀ·H = −G.
func TestInfeasible(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, unit := range []float64{1e-12, 1, 1e12} {
		for range 20 {
			const m, d = 5, 3
			a := mat.NewDense(m, d, nil)
			a.Apply(func(i, j int, _ float64) float64 { // well conditioned, because the steps find n₂ at its rate
				if i < d {
					return map[bool]float64{true: 1}[i == j]
				}
				return r.NormFloat64()
			}, a)
			k, err := splitting.NewMatrix(a)
			require.NoError(t, err)
			f, err := splitting.NewQuadratic(mat.NewDiagDense(d, []float64{1, 2, 5}), []float64{unit, -unit, 2 * unit}, 0)
			require.NoError(t, err)
			for name, p := range map[string]splitting.Problem{
				"boxes":   {G: prox.Box{Lo: unit, Hi: 2 * unit}, H: prox.L2Ball{R: unit / 2}},
				"f":       {F: f, G: prox.Box{Lo: unit, Hi: 2 * unit}, H: prox.L2Ball{R: unit / 2}},
				"Kx":      {F: f, H: prox.Translate(prox.L2Ball{R: 1e-3 * unit}, target(r, a, unit)), K: k},
				"box, Kx": {G: prox.Box{Lo: -unit, Hi: unit}, H: prox.Box{Lo: 100 * unit, Hi: math.Inf(1)}, K: k},
			} {
				for mname, method := range map[string]splitting.Method{
					"PrimalDual": &splitting.PrimalDual{}, "DavisYin": &splitting.DavisYin{},
				} {
					if p.K != nil && mname == "DavisYin" {
						continue
					}
					res, err := splitting.Solve(background, p, make([]float64, d), nil, method)
					require.ErrorIs(t, err, splitting.ErrInfeasible, "%s, %s, unit %g: %v after %d", name, mname, unit, res.Status,
						res.Iterations)
					require.Equal(t, splitting.Infeasible, res.Status)
					checkSeparates(t, p, res.Dual, d, unit)
				}
			}
		}
	}
}

// TestPrimalDualInfeasible checks that the first-order method solves no program of which an
// InteriorPoint has a certificate, and that the unit of x decides nothing.
func TestPrimalDualInfeasible(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 17))
	s := &splitting.Settings{Iterations: 500}
	found := map[float64]int{}
	for i := range testkit.Of(400, 3000) {
		q := randomQP(r)
		x0 := make([]float64, len(q.q))
		if res, _ := splitting.Solve(background, q.golden().problem(t), x0, nil, &splitting.InteriorPoint{}); res.Status !=
			splitting.Infeasible {
			continue
		}
		for _, unit := range []float64{1e-12, 1, 1e12} {
			res, err := splitting.Solve(background, q.golden().in(unit).problem(t), x0, s, &splitting.PrimalDual{})
			require.NotEqual(t, splitting.Converged, res.Status, "problem %d, unit %g", i, unit)
			if res.Status == splitting.Infeasible {
				require.ErrorIs(t, err, splitting.ErrInfeasible)
				found[unit]++
			}
		}
	}
	require.InEpsilon(t, found[1], found[1e-12], 0.1)
	require.InEpsilon(t, found[1], found[1e12], 0.1)
}

// target returns a vector that is about unit away from the range of a.
func target(r *rand.Rand, a *mat.Dense, unit float64) []float64 {
	b := make([]float64, a.RawMatrix().Rows)
	for i := range b {
		b[i] = unit * r.NormFloat64()
	}
	return b
}

// checkSeparates checks the normals with support functions, which the solver does not use.
func checkSeparates(t *testing.T, p splitting.Problem, dual splitting.Multipliers, d int, unit float64) {
	sum := make([]float64, d)
	if p.K != nil {
		p.K.MulVecTrans(sum, dual.H)
	} else {
		copy(sum, dual.H)
	}
	floats.Add(sum, dual.G)
	support := supportOf(t, p.G, dual.G) + supportOf(t, p.H, dual.H)
	require.Negative(t, support)
	require.Less(t, floats.Norm(sum, 2)*1e7*unit, -support)
}

// supportOf returns sup{⟨v,x⟩ : x ∈ set}, by projecting a far point along v.
func supportOf(t *testing.T, set prox.Operator, v []float64) float64 {
	if set == nil {
		return 0
	}
	size := floats.Norm(v, 2)
	switch set := set.(type) {
	case prox.L2Ball:
		return set.R * size
	case prox.Box:
		var s float64
		for _, vi := range v {
			if math.Abs(vi) <= 1e-12*size {
				continue
			}
			s += math.Max(set.Lo*vi, set.Hi*vi)
		}
		return s
	}
	x := make([]float64, len(v))
	floats.AddScaled(x, 1e15/size, v)
	set.Prox(x, x, 1)
	return floats.Dot(x, v)
}
