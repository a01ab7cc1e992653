// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// planted is a strongly convex problem whose minimizer is known without a solver: choose x* and u ∈
// ∂(g+h)(x*), and add a linear term to a strongly convex f so that ∇f(x*) = −u.
type planted struct {
	splitting.Problem
	Name     string
	Start    []float64
	Solution []float64 // the minimizer
	Mu       float64   // modulus of strong convexity of F
	Scale    float64   // size of the terms of ∇f, from which rounding follows
	// Certifiable reports that G + H has a closed form, so that every deterministic method can prove a
	// small residual.
	Certifiable bool

	sum *plantedSum // F
}

// tolerance returns the residual that certifies a relative distance of 1e-8 to the minimizer. Where
// only a gap can be proved, it certifies 1e-6, because such a residual is the square root of a
// difference of values.
func (p planted) tolerance() float64 {
	size := p.Mu * (1 + floats.Norm(p.Solution, 2))
	if !p.Certifiable {
		return 1e-6 * size
	}
	return 1e-8 * size
}

// gapTolerance returns the residual that certifies a relative gap of 1e-8.
func (p planted) gapTolerance() float64 {
	return math.Sqrt(2 * p.Mu * 1e-8 * math.Max(1, math.Abs(p.Func(p.Solution))))
}

const plantedTerms, plantedDim = 30, 8

// plantedProblems returns new copies of the problems that conforms uses.
func plantedProblems() []planted {
	rnd := rand.New(rand.NewPCG(20, 26))
	inf := math.Inf(1)
	var all []planted
	add := func(name string, g, h prox.Operator, solution, u []float64) {
		for _, kind := range []string{"squares", "logistic", "unknown"} {
			f := newPlantedSum(rnd, kind, solution, u)
			p := planted{
				Problem:  splitting.Problem{F: f, G: g, H: h},
				Name:     kind + "/" + name,
				Start:    make([]float64, plantedDim),
				Solution: solution,
				Mu:       plantedRidge,
				Scale:    f.Smoothness() * (1 + floats.Norm(solution, 2)),
				sum:      f,
			}
			switch kind {
			case "squares":
				p.F = plantedSquares{f}
			case "unknown":
				p.F = plantedUnknown{f}
			}
			for i := range p.Start {
				p.Start[i] = 3 * rnd.NormFloat64()
			}
			_, p.Certifiable = sumOf(g, h)
			all = append(all, p)
		}
	}
	// half takes values in (0, ½].
	half := func(i int) float64 { return 0.5 * float64(i+1) / plantedDim }

	// Each u below is in ∂(g+h)(x*), and in its interior where ∂(g+h)(x*) is an interval.
	x, u := zeros()
	for i := range x {
		x[i] = rnd.NormFloat64()
	}
	add("ridge", nil, nil, x, u)
	add("l2squared", prox.SquaredL2{Weight: 2}, nil, x, times(2, x))

	x, u = zeros()
	for i := range x {
		switch i % 4 {
		case 0:
			x[i], u[i] = 1, 2+half(i) // at hi
		case 1:
			x[i], u[i] = -1, -2-half(i) // at lo
		case 2:
			x[i], u[i] = 0, 4*(half(i)-0.25) // at the kink
		case 3:
			x[i], u[i] = 0.3, 2
		}
	}
	add("l1+box", prox.L1{Weight: 2}, prox.Box{Lo: -1, Hi: 1}, x, u)
	add("l1box", prox.L1Box{Weight: 2, Lo: -1, Hi: 1}, nil, x, u)
	add("0+l1box", nil, prox.L1Box{Weight: 2, Lo: -1, Hi: 1}, x, u)

	x, u = zeros()
	for i := range x {
		if i%2 == 0 {
			x[i] = half(i)
		} else {
			u[i] = -half(i)
		}
	}
	add("nonnegative", nil, prox.NonNegative{}, x, u)

	x, u = zeros()
	x[0], x[3] = 0.7, -0.2
	for i := range u {
		u[i] = math.Copysign(0.5, x[i]) + x[i]
		if x[i] == 0 {
			u[i] = half(i) / 2
		}
	}
	add("elasticnet", prox.ElasticNet{L1: 0.5, L2: 1}, nil, x, u)

	x, _ = zeros()
	for i := range x {
		x[i] = rnd.NormFloat64()
	}
	floats.Scale(1.5/floats.Norm(x, 2), x)
	add("ball", nil, prox.L2Ball{R: 1.5}, x, times(2, x))
	add("norm", prox.L2Norm{Weight: 2}, nil, x, times(2/1.5, x))
	add("norm+ball", prox.L2Norm{Weight: 2}, prox.L2Ball{R: 1.5}, x, times(2/1.5+1, x))

	// For the simplex, the normal cone at x is {c·1 − v : v ≥ 0, ⟨v,x⟩ = 0}.
	x, u = zeros()
	for i := range x {
		u[i] = 0.3
		if i%2 == 0 {
			x[i] = 2 / float64(plantedDim)
		} else {
			u[i] -= half(i)
		}
	}
	add("simplex", nil, prox.Simplex{Total: 1}, x, u)

	// The groups are {0,1,2}, {3,4,5} and {6,7}. x* is zero on the middle one.
	groups := prox.GroupL2{Groups: [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7}}, Weight: 1}
	x, u = zeros()
	copy(x, []float64{0.3, 0, -0.4, 0, 0, 0, 0.6, 0.8})
	copy(u, []float64{0.6, 0, -0.8, 0.5, -0.5, 0.1, 0.6, 0.8})
	add("group", groups, nil, x, u)

	// No closed form is known for these sums. x₇ = 0.8 is at the bound of the box.
	v := times(1, u)
	v[7] += 0.7
	add("group+box", groups, prox.Box{Lo: -inf, Hi: 0.8}, x, v)
	return all
}

func zeros() (x, u []float64) { return make([]float64, plantedDim), make([]float64, plantedDim) }

func times(c float64, x []float64) []float64 {
	return floats.ScaleTo(make([]float64, len(x)), c, x)
}

// plantedRidge is the modulus of strong convexity of every planted f.
const plantedRidge = 1.0

// plantedSum is f(x) = Σᵢ φ(⟨aᵢ,x⟩; bᵢ) + (plantedRidge/2)‖x‖² + ⟨tilt,x⟩ with
// φ(t;b) = ½(t−b)² or log(1+e^t) − bt, as a FiniteSum with a Hessian.
type plantedSum struct {
	a          [][]float64
	b          []float64
	tilt       []float64
	squared    bool
	smoothness float64
	nan        bool // whether gradients are NaN
}

var (
	_ splitting.FiniteSum    = (*plantedSum)(nil)
	_ splitting.TermSmoother = (*plantedSum)(nil)
	_ splitting.Convex       = (*plantedSum)(nil)
	_ splitting.Hessianer    = (*plantedSum)(nil)
)

// newPlantedSum returns a function f with ∇f(x) = −u.
func newPlantedSum(rnd *rand.Rand, kind string, x, u []float64) *plantedSum {
	f := &plantedSum{squared: kind == "squares", tilt: make([]float64, plantedDim)}
	for range plantedTerms {
		row := make([]float64, plantedDim)
		for j := range row {
			row[j] = rnd.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
		f.a, f.b = append(f.a, row), append(f.b, float64(rnd.IntN(2)))
		f.smoothness++ // ‖aᵢ‖² = 1
	}
	if !f.squared {
		f.smoothness /= 4
	}
	f.smoothness += plantedRidge
	g := make([]float64, plantedDim)
	f.Grad(g, x)
	for i := range g {
		f.tilt[i] = -u[i] - g[i]
	}
	return f
}

// phi returns φ(t;b) and its first two derivatives.
func (f *plantedSum) phi(t, b float64) (v, d, d2 float64) {
	if f.squared {
		return (t - b) * (t - b) / 2, t - b, 1
	}
	e := math.Exp(-math.Abs(t))
	p := 1 / (1 + e)
	if t < 0 {
		p = e / (1 + e)
	}
	return math.Max(t, 0) + math.Log1p(e) - b*t, p - b, p * (1 - p)
}

func (f *plantedSum) Len() int            { return len(f.a) }
func (f *plantedSum) Smoothness() float64 { return f.smoothness }
func (f *plantedSum) Convexity() float64  { return plantedRidge }

func (f *plantedSum) TermSmoothness() float64 {
	curve := 1.0 // ‖aᵢ‖² = 1
	if !f.squared {
		curve = 0.25
	}
	return curve + plantedRidge/float64(len(f.a))
}

func (f *plantedSum) Func(x []float64) float64 {
	s := plantedRidge/2*floats.Dot(x, x) + floats.Dot(f.tilt, x)
	for i, a := range f.a {
		v, _, _ := f.phi(floats.Dot(a, x), f.b[i])
		s += v
	}
	return s
}

func (f *plantedSum) Grad(dst, x []float64) {
	clear(dst)
	for i, a := range f.a {
		_, d, _ := f.phi(floats.Dot(a, x), f.b[i])
		floats.AddScaled(dst, d, a)
	}
	f.perturb(dst, x, 1)
}

func (f *plantedSum) GradTerms(dst, x []float64, idx []int) {
	clear(dst)
	for _, i := range idx {
		_, d, _ := f.phi(floats.Dot(f.a[i], x), f.b[i])
		floats.AddScaled(dst, d, f.a[i])
	}
	f.perturb(dst, x, float64(len(idx))/float64(len(f.a)))
}

func (f *plantedSum) perturb(dst, x []float64, share float64) {
	floats.AddScaled(dst, share*plantedRidge, x)
	floats.AddScaled(dst, share, f.tilt)
	if f.nan {
		dst[0] = math.NaN()
	}
}

func (f *plantedSum) Hessian(dst *mat.SymDense, x []float64) {
	dst.Zero()
	for i, a := range f.a {
		_, _, d2 := f.phi(floats.Dot(a, x), f.b[i])
		for j := range a {
			for k := j; k < len(a); k++ {
				dst.SetSym(j, k, dst.At(j, k)+d2*a[j]*a[k])
			}
		}
	}
	for j := range x {
		dst.SetSym(j, j, dst.At(j, j)+plantedRidge)
	}
}

// plantedSquares is a plantedSum of squares that implements Quadratizer.
type plantedSquares struct{ *plantedSum }

var _ splitting.Quadratizer = plantedSquares{}

func (f plantedSquares) Quadratic() (q *mat.SymDense, lin []float64, c float64, ok bool) {
	q = mat.NewSymDense(plantedDim, nil)
	origin := make([]float64, plantedDim)
	f.Hessian(q, origin)
	lin = make([]float64, plantedDim)
	f.Grad(lin, origin)
	floats.Scale(-1, lin)
	return q, lin, f.Func(origin), true
}

// plantedUnknown is a plantedSum whose Smoothness is unknown.
type plantedUnknown struct{ *plantedSum }

func (plantedUnknown) Smoothness() float64     { return math.Inf(1) }
func (plantedUnknown) TermSmoothness() float64 { return math.Inf(1) }

// sumOf is prox.Sum with a bool in the place of the error.
func sumOf(g, h prox.Operator) (prox.Operator, bool) {
	sum, err := prox.Sum(g, h)
	return sum, err == nil
}
