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

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// solvable is a problem with a known status, and with its minimizer if it has one.
type solvable struct {
	splitting.Problem
	status splitting.Status
	x      []float64
}

// drawn holds the parts of a random problem in d coordinates with m rows: f = ½x'Qx − ⟨lin,x⟩ with
// condition number at most 30, a K with rows of norm about 1, and a minimizer x with multipliers y
// of some active rows.
type drawn struct {
	r      *rand.Rand
	d, m   int
	q      *mat.SymDense
	k      *mat.Dense
	x, y   []float64
	kx     []float64
	active []bool
}

func draw(r *rand.Rand) *drawn {
	p := &drawn{r: r, d: 2 + r.IntN(49)}
	p.m = 1 + r.IntN(p.d)
	a := mat.NewDense(p.d, p.d, nil)
	a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() / math.Sqrt(float64(p.d)) }, a)
	p.q = mat.NewSymDense(p.d, nil)
	p.q.SymOuterK(1, a)
	for i := range p.d {
		p.q.SetSym(i, i, p.q.At(i, i)+0.2)
	}
	p.k = mat.NewDense(p.m, p.d, nil)
	p.k.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() / math.Sqrt(float64(p.d)) }, p.k)
	p.x, p.y, p.active = make([]float64, p.d), make([]float64, p.m), make([]bool, p.m)
	for i := range p.x {
		p.x[i] = r.NormFloat64()
	}
	for i := range p.y {
		if p.active[i] = r.IntN(3) == 0; p.active[i] {
			p.y[i] = 0.1 + r.Float64()
		}
	}
	p.kx = make([]float64, p.m)
	mat.NewVecDense(p.m, p.kx).MulVec(p.k, mat.NewVecDense(p.d, p.x))
	return p
}

// smooth returns f with the minimizer x where u is the sum of the multipliers, for unit times x and
// cost times f.
func (p *drawn) smooth(t *testing.T, u []float64, unit, cost float64) splitting.Smooth {
	lin := make([]float64, p.d)
	mat.NewVecDense(p.d, lin).MulVec(p.q, mat.NewVecDense(p.d, p.x))
	floats.Add(lin, u)
	floats.Scale(cost/unit, lin)
	var q mat.SymDense
	q.ScaleSym(cost/unit/unit, p.q)
	f, err := splitting.NewQuadratic(&q, lin, 0)
	require.NoError(t, err)
	return f
}

// stretch returns c·v.
func stretch(c float64, v []float64) []float64 {
	w := make([]float64, len(v))
	floats.ScaleTo(w, c, v)
	return w
}

// kinds are the kinds of problems, in a unit of x and with a factor of f.
var kinds = map[string]func(t *testing.T, p *drawn, unit, cost float64) solvable{
	"rows": func(t *testing.T, p *drawn, unit, cost float64) solvable { // Kx ≤ u
		u := make([]float64, p.d)
		mat.NewVecDense(p.d, u).MulVec(p.k.T(), mat.NewVecDense(p.m, p.y))
		hi := make([]float64, p.m)
		for i, v := range p.kx {
			if hi[i] = v; !p.active[i] {
				hi[i] += 0.1 + p.r.Float64()
			}
		}
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost), H: prox.Bounds{Hi: stretch(unit, hi)},
			K: matrix(t, p.k)}, splitting.Converged, stretch(unit, p.x)}
	},
	"equations": func(t *testing.T, p *drawn, unit, cost float64) solvable { // Kx = b
		for i := range p.y {
			p.y[i] = p.r.NormFloat64()
		}
		u := make([]float64, p.d)
		mat.NewVecDense(p.d, u).MulVec(p.k.T(), mat.NewVecDense(p.m, p.y))
		b := stretch(unit, p.kx)
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost), H: prox.Bounds{Lo: b, Hi: b}, K: matrix(t, p.k)},
			splitting.Converged, stretch(unit, p.x)}
	},
	"twice": func(t *testing.T, p *drawn, unit, cost float64) solvable { // every row twice: degenerate
		k, u, hi := mat.NewDense(2*p.m, p.d, nil), make([]float64, p.d), make([]float64, 2*p.m)
		mat.NewVecDense(p.d, u).MulVec(p.k.T(), mat.NewVecDense(p.m, p.y))
		k.Stack(p.k, p.k)
		for i := range hi {
			if hi[i] = p.kx[i%p.m]; !p.active[i%p.m] {
				hi[i]++
			}
		}
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost), H: prox.Bounds{Hi: stretch(unit, hi)},
			K: matrix(t, k)}, splitting.Converged, stretch(unit, p.x)}
	},
	"two sets": func(t *testing.T, p *drawn, unit, cost float64) solvable { // a ball and a box
		u, r := stretch(0.3, p.x), floats.Norm(p.x, 2)
		lo, hi := make([]float64, p.d), make([]float64, p.d)
		for i, v := range p.x {
			lo[i], hi[i] = v-1, v+1
			if p.r.IntN(3) == 0 {
				hi[i] = v
				u[i] += 0.2 + p.r.Float64()
			}
		}
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost), G: prox.L2Ball{R: r * unit},
			H: prox.Bounds{Lo: stretch(unit, lo), Hi: stretch(unit, hi)}}, splitting.Converged, stretch(unit, p.x)}
	},
	"absolute rows": func(t *testing.T, p *drawn, unit, cost float64) solvable { // f + Σ|Kx − b|
		b, u := make([]float64, p.m), make([]float64, p.d)
		for i, v := range p.kx {
			if b[i] = v; p.active[i] {
				p.y[i] = 1.8*p.r.Float64() - 0.9
			} else if p.y[i] = 1; p.r.IntN(2) == 0 {
				p.y[i] = -1
			}
			if !p.active[i] {
				b[i] -= p.y[i] * (0.1 + p.r.Float64())
			}
		}
		mat.NewVecDense(p.d, u).MulVec(p.k.T(), mat.NewVecDense(p.m, p.y))
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost), K: matrix(t, p.k),
			H: prox.Translate(prox.L1{Weight: cost / unit}, stretch(unit, b))}, splitting.Converged, stretch(unit, p.x)}
	},
	"infeasible": func(t *testing.T, p *drawn, unit, cost float64) solvable { // K′x ≤ −1 and −K′x ≤ 0 for a row of K
		k, hi := mat.NewDense(2, p.d, nil), []float64{-unit, 0}
		for j := range p.d {
			k.Set(0, j, p.k.At(0, j))
			k.Set(1, j, -p.k.At(0, j))
		}
		return solvable{splitting.Problem{F: p.smooth(t, make([]float64, p.d), unit, cost), H: prox.Bounds{Hi: hi},
			K: matrix(t, k)}, splitting.Infeasible, nil}
	},
	"unbounded": func(t *testing.T, p *drawn, unit, cost float64) solvable { // f falls along an axis without curvature
		for j := range p.d {
			p.q.SetSym(0, j, 0)
		}
		u := make([]float64, p.d)
		u[0] = 1
		return solvable{splitting.Problem{F: p.smooth(t, u, unit, cost)}, splitting.Unbounded, nil}
	},
}

func matrix(t *testing.T, a mat.Matrix) splitting.Linear {
	k, err := splitting.NewMatrix(a)
	require.NoError(t, err)
	return k
}

// TestRandomProblems solves 980 random problems in 2 to 50 coordinates, in five units, by the
// method that Auto picks and by PrimalDual. The status is right, the minimizer is off by at most
// 1e-6 of its norm, and the multipliers satisfy the conditions of optimality to 1e-6.
func TestRandomProblems(t *testing.T) {
	seeds := testkit.Of(4, 28)
	for name, kind := range kinds {
		for seed := range seeds {
			for _, scale := range [][2]float64{{1, 1}, {1e-12, 1}, {1e12, 1}, {1, 1e-12}, {1, 1e12}} {
				unit, cost := scale[0], scale[1]
				p := kind(t, draw(rand.New(rand.NewPCG(uint64(seed), 77))), unit, cost)
				what := fmt.Sprintf("%s, seed %d, unit %g, cost %g", name, seed, unit, cost)
				x0 := make([]float64, dimOf(p))
				for _, m := range []splitting.Method{splitting.Auto(p.Problem, len(x0)), &splitting.PrimalDual{}} {
					if _, first := m.(*splitting.PrimalDual); first && p.status == splitting.Unbounded {
						continue // it cannot tell
					}
					what := fmt.Sprintf("%s, %T", what, m)
					res, err := splitting.Solve(background, p.Problem, x0, nil, m)
					if p.status != splitting.Converged {
						require.ErrorIs(t, err, p.status.Err(), what)
						continue
					}
					require.NoError(t, err, what)
					require.Equal(t, p.status, res.Status, "%s: %v %v after %d", what, res.Primal, res.DualResidual, res.Iterations)
					require.LessOrEqual(t, floats.Distance(res.X, p.x, 2), 1e-6*floats.Norm(p.x, 2), what)
					optimal(t, p.Problem, res, what)
				}
			}
		}
	}
}

// dimOf returns the dimension of the quadratic F.
func dimOf(p solvable) int {
	_, lin, _, _ := p.F.(splitting.Quadratizer).Quadratic()
	return len(lin)
}

// optimal requires ∇f(x) + u + Kᵀy = 0, and y ∈ ∂h, u ∈ ∂g by their proximal maps: for every γ > 0
// x = prox_{γg}(x + γu).
func optimal(t *testing.T, p splitting.Problem, res *splitting.Result, what string) {
	d := len(res.X)
	sum, part := make([]float64, d), make([]float64, d)
	p.F.Grad(sum, res.X)
	size := floats.Norm(sum, 2) + p.F.Smoothness()*floats.Norm(res.X, 2)
	if res.Dual.G != nil {
		floats.Add(sum, res.Dual.G)
		size += floats.Norm(res.Dual.G, 2)
	}
	image := res.X
	if res.Dual.H != nil {
		if copy(part, res.Dual.H); p.K != nil {
			p.K.MulVecTrans(part, res.Dual.H)
			image = make([]float64, len(res.Dual.H))
			p.K.MulVec(image, res.X)
		}
		floats.Add(sum, part)
		size += floats.Norm(part, 2)
		subgradient(t, p.H, image, res.Dual.H, size, what)
	}
	if res.Dual.G != nil && res.Dual.H != nil {
		subgradient(t, p.G, res.X, res.Dual.G, size, what)
	}
	require.LessOrEqual(t, floats.Norm(sum, 2), 1e-6*size, what)
}

// subgradient requires u ∈ ∂g(x) to 1e-6 of x and of the terms of the gradient, which have the
// given size.
func subgradient(t *testing.T, g prox.Operator, x, u []float64, size float64, what string) {
	gamma := floats.Norm(x, 2) / size
	p := make([]float64, len(x))
	floats.AddScaledTo(p, x, gamma, u)
	g.Prox(p, p, gamma)
	require.LessOrEqual(t, floats.Distance(p, x, 2), 1e-6*floats.Norm(x, 2), what)
}

// TestTotalVariationOfAnImage checks that isotropic total variation of a 64×64 image is within 1e-3
// of the minimizer after 300 steps of the method that Auto picks.
func TestTotalVariationOfAnImage(t *testing.T) {
	const side = 64
	r := rand.New(rand.NewPCG(3, 4))
	image := make([]float64, side*side)
	var edges [][2]int
	var groups [][]int
	for i := range side {
		for j := range side {
			at := i*side + j
			if (i-30)*(i-30)+(j-30)*(j-30) < 300 {
				image[at] = 1
			}
			image[at] += 0.2 * r.NormFloat64()
			var group []int
			for _, to := range []int{at + side, at + 1} {
				if to == at+side && i+1 == side || to == at+1 && j+1 == side {
					continue
				}
				group = append(group, len(edges))
				edges = append(edges, [2]int{at, to})
			}
			if group != nil {
				groups = append(groups, group)
			}
		}
	}
	k, err := splitting.NewDifferences(edges, len(image))
	require.NoError(t, err)
	f := splitting.Funcs{L: 1, Mu: 1,
		F: func(x []float64) float64 { d := floats.Distance(x, image, 2); return d * d / 2 },
		G: func(dst, x []float64) { floats.SubTo(dst, x, image) }}
	p := splitting.Problem{F: f, H: prox.GroupL2{Groups: groups, Weight: 0.3}, K: k}
	m := splitting.Auto(p, len(image))
	require.Equal(t, splitting.StronglyConvexStep, m.(*splitting.PrimalDual).Rule)
	run := func(steps int) *splitting.Result {
		res, err := splitting.Solve(background, p, image, &splitting.Settings{Tolerance: -1, Iterations: steps}, m)
		require.NoError(t, err)
		return res
	}
	best, fast := run(3000), run(300)
	require.LessOrEqual(t, floats.Distance(best.X, fast.X, 2), 1e-3*floats.Norm(best.X, 2))
	p.H = prox.Bounds{Hi: make([]float64, len(edges))}
	require.Equal(t, splitting.FixedStep, splitting.Auto(p, len(image)).(*splitting.PrimalDual).Rule)
}
