// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"context"
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

// perturbedLasso returns the perturbed least-squares problem of the published experiment: n rows of
// norm 5, labels that interpolate, delta·I added to the Gram matrix, and a linear term of size
// delta·kappa.
func perturbedLasso(n, d int, delta, kappa float64) splitting.Problem {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	x := mat.NewDense(n, d, nil)
	for i := range n {
		row := x.RawRowView(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
		floats.Scale(5/floats.Norm(row, 2), row)
	}
	q := mat.NewSymDense(d, nil)
	q.SymOuterK(1, x.T())
	theta, lin := make([]float64, d), make([]float64, d)
	for j := range theta {
		theta[j] = r.NormFloat64()
	}
	mat.NewVecDense(d, lin).MulVec(q, mat.NewVecDense(d, theta))
	for j := range theta {
		lin[j] += delta * kappa * r.NormFloat64()
		q.SetSym(j, j, q.At(j, j)+delta)
	}
	f, err := splitting.NewQuadratic(q, lin, 0)
	if err != nil {
		panic(err)
	}
	return splitting.Problem{F: f, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -kappa, Hi: kappa}}
}

// fromScratch returns dist(0, ∂J(x)) and the size of its largest terms, computed without any
// results of a solver.
func fromScratch(p splitting.Problem, x []float64) (dist, size float64) {
	q, lin, _, _ := p.F.(splitting.Quadratizer).Quadratic()
	l1, box := p.G.(prox.L1).Weight, p.H.(prox.Box)
	for i, xi := range x {
		g := -lin[i]
		size = math.Max(size, math.Abs(g))
		for j, xj := range x {
			g += q.At(i, j) * xj
			size = math.Max(size, math.Abs(q.At(i, j)*xj))
		}
		a, b := -l1, l1
		if xi > 0 {
			a = l1
		} else if xi < 0 {
			b = -l1
		}
		if xi == box.Lo {
			a = math.Inf(-1)
		}
		if xi == box.Hi {
			b = math.Inf(1)
		}
		if xi < box.Lo || xi > box.Hi {
			return math.Inf(1), size
		}
		e := math.Max(math.Max(a+g, -g-b), 0)
		dist = math.Hypot(dist, e)
	}
	return dist, size
}

var deterministic = map[string]func() splitting.Method{
	"CoordinateDescent": func() splitting.Method { return &splitting.CoordinateDescent{} },
	"ProxNewton":        func() splitting.Method { return &splitting.ProxNewton{} },
	"ForwardBackward":   func() splitting.Method { return &splitting.ForwardBackward{} },
	"DavisYin":          func() splitting.Method { return &splitting.DavisYin{} },
}

// TestPerturbedLasso checks that every method solves the problems of the experiment to rounding,
// and that its residual agrees with an independent computation.
func TestPerturbedLasso(t *testing.T) {
	const d = 40
	for _, n := range []int{120, 36} { // with 36 rows the matrix is singular unless delta > 0
		for _, delta := range []float64{0, 100, 1e4} {
			for _, kappa := range []float64{0.01, 1, 1000} {
				p := perturbedLasso(n, d, delta, kappa)
				var values []float64
				for name, m := range deterministic {
					if n == 36 && delta == 0 && name == "DavisYin" {
						// DavisYin has no acceleration and needs thousands of steps for each digit.
						continue
					}
					t.Run(fmt.Sprintf("%s/n=%d/delta=%g/kappa=%g", name, n, delta, kappa), func(t *testing.T) {
						res, err := splitting.Solve(context.Background(), p, make([]float64, d),
							&splitting.Settings{Tolerance: -1, Iterations: 20000}, m())
						require.NoError(t, err)
						require.Equal(t, splitting.Stalled, res.Status, "after %d steps, residual %g", res.Iterations, res.Residual)
						dist, size := fromScratch(p, res.X)
						// Each coordinate is a sum of d products with a rounding of 2⁻⁵³·d·size. The norm adds the
						// factor √d, and 16 allows for the rounding of X itself.
						noise := 16 * 0x1p-53 * d * math.Sqrt(d) * size
						require.LessOrEqual(t, dist, res.Residual+noise)
						require.LessOrEqual(t, res.Residual, noise)
						values = append(values, p.F.Func(res.X)+p.G.Func(res.X)+p.H.Func(res.X))
					})
				}
				lo, hi := floats.Min(values), floats.Max(values)
				require.LessOrEqual(t, hi-lo, 1e-10*math.Max(1, math.Abs(lo)), "methods disagree")
			}
		}
	}
}

// TestCoordinateDescentGap checks that Minimize solves the problems of the experiment to a
// certified relative gap of 1e-10 within 60 sweeps.
func TestCoordinateDescentGap(t *testing.T) {
	for _, delta := range []float64{100, 1e4} {
		for _, kappa := range []float64{0.01, 1, 1000} {
			p := perturbedLasso(300, 100, delta, kappa)
			res, err := splitting.Minimize(context.Background(), p, make([]float64, 100), &splitting.Settings{Tolerance: -1})
			require.NoError(t, err)
			require.Less(t, res.Iterations, 60)
			dist, _ := fromScratch(p, res.X)
			mu := p.F.(splitting.Convex).Convexity()
			j := p.F.Func(res.X) + p.G.Func(res.X)
			require.LessOrEqual(t, dist*dist/(2*mu), 1e-10*math.Max(1, math.Abs(j)))
			require.LessOrEqual(t, res.Distance, 1e-8*math.Max(1, floats.Norm(res.X, 2)))
		}
	}
}
