// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// smoothAbs is φ(u;b) = √(1+(u−b)²), a loss whose φ″ varies.
type smoothAbs struct{}

func (l smoothAbs) Func(theta, a []float64, b float64) float64 {
	phi, _, _ := l.Scalar(dotNaive(a, theta), b, 0)
	return phi
}

func (l smoothAbs) Grad(dst, theta, a []float64, b float64) {
	_, w, _ := l.Scalar(dotNaive(a, theta), b, 0)
	floats.ScaleTo(dst, w, a)
}

func (smoothAbs) Constants(b loss.Bounds, _ float64) loss.Constants {
	return loss.Constants{Lipschitz: b.Row, Smoothness: b.Row * b.Row, Rank: 1, Structure: loss.GLM}
}

func (smoothAbs) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	phi = math.Sqrt(1 + (u-b)*(u-b))
	return phi, (u - b) / phi, 1 / (phi * phi * phi)
}

// threefold is (3/2)(u−b)².
type threefold struct{ square }

func (l threefold) Func(theta, a []float64, b float64) float64 { return 3 * l.square.Func(theta, a, b) }

func (l threefold) Grad(dst, theta, a []float64, b float64) {
	l.square.Grad(dst, theta, a, b)
	floats.Scale(3, dst)
}

func (l threefold) Constants(b loss.Bounds, radius float64) loss.Constants {
	k := l.square.Constants(b, radius)
	k.Smoothness *= 3
	return k
}

func (l threefold) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	phi, dphi, d2phi = l.square.Scalar(u, b, norm)
	return 3 * phi, 3 * dphi, 3 * d2phi
}

// general hides that a loss implements loss.Linear.
type general struct{ loss.Loss }

func (g general) Constants(b loss.Bounds, r float64) loss.Constants {
	c := g.Loss.Constants(b, r)
	c.Structure = loss.General
	return c
}

// random returns data, a point and perturbations: none, linear only, with a diagonal Q and with a
// dense Q.
func random(seed uint64, n, d int) (*Data, []float64, []Perturbation) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	rows, labels := make([][]float64, n), make([]float64, n)
	vec := func() []float64 {
		v := make([]float64, d)
		for j := range v {
			v[j] = rnd.NormFloat64()
		}
		return v
	}
	for i := range rows {
		rows[i], labels[i] = vec(), rnd.NormFloat64()
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: 0.8 * math.Sqrt(float64(d)), Label: 1})
	if err != nil {
		panic(err)
	}
	diag := vec()
	for j := range diag {
		diag[j] = 0.1 + diag[j]*diag[j]
	}
	g := mat.NewDense(d, d+2, nil)
	g.Apply(func(_, _ int, _ float64) float64 { return rnd.NormFloat64() }, g)
	w := mat.NewSymDense(d, nil)
	w.SymOuterK(1, g)
	return data, vec(), []Perturbation{
		{},
		{Linear: vec()},
		{Linear: vec(), Quad: mat.NewDiagDense(d, diag)},
		{Center: vec(), Quad: w},
		{Linear: vec(), Center: vec(), Quad: w, MinEig: 0.01, MaxEig: 100},
		{Linear: vec(), Center: vec(), Quad: mat.NewDiagDense(d, diag)},
	}
}

// slow computes f and ∇f record by record from their formulas.
func slow(p *Problem, q Perturbation, x []float64) (f float64, grad []float64) {
	n, d := p.Data.Dims()
	grad = make([]float64, d)
	g := make([]float64, d)
	for i := range n {
		f += p.Loss.Func(x, p.Data.Row(i), p.Data.Label(i))
		p.Loss.Grad(g, x, p.Data.Row(i), p.Data.Label(i))
		floats.Add(grad, g)
	}
	if q.Linear != nil {
		f += floats.Dot(q.Linear, x)
		floats.Add(grad, q.Linear)
	}
	if q.Quad != nil {
		y := append([]float64(nil), x...)
		if q.Center != nil {
			floats.Sub(y, q.Center)
		}
		for i := range d {
			for j := range d {
				f += y[i] * q.Quad.At(i, j) * y[j] / 2
				grad[i] += q.Quad.At(i, j) * y[j]
			}
		}
	}
	return f, grad
}

func TestObjectiveMatchesFormula(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {3, 2}, {64, 5}, {130, 7}} {
		data, x, qs := random(uint64(size[0]), size[0], size[1])
		n, d := data.Dims()
		for _, l := range []loss.Loss{square{}, threefold{}, smoothAbs{}, general{smoothAbs{}}} {
			p := &Problem{Data: data, Loss: l}
			for _, q := range qs {
				o := p.Perturb(q)
				f, grad := slow(p, q, x)
				// Sums of at most 1e3 terms of size at most 1e2: 1e-11 is hundreds of roundings.
				require.InDelta(t, f, o.Func(x), 1e-11*(1+math.Abs(f)))
				got := make([]float64, d)
				o.Grad(got, x)
				require.InDeltaSlice(t, grad, got, 1e-11*(1+floats.Norm(grad, 2)))

				all := make([]int, n)
				sum, one := make([]float64, d), make([]float64, d)
				for i := range all {
					all[i] = i
					o.GradTerms(one, x, all[i:i+1])
					floats.Add(sum, one)
				}
				require.InDeltaSlice(t, grad, sum, 1e-11*(1+floats.Norm(grad, 2)))
				o.GradTerms(sum, x, all)
				require.InDeltaSlice(t, grad, sum, 1e-11*(1+floats.Norm(grad, 2)))
				require.Equal(t, n, o.Len())
				require.Equal(t, d, o.Dim())

				if quad, lin, c, ok := o.Quadratic(); ok {
					y := mat.NewVecDense(d, nil)
					y.MulVec(quad, mat.NewVecDense(d, x))
					require.InDelta(t, f, floats.Dot(y.RawVector().Data, x)/2-floats.Dot(lin, x)+c, 1e-11*(1+math.Abs(f)))
					floats.SubTo(got, y.RawVector().Data, lin)
					require.InDeltaSlice(t, grad, got, 1e-11*(1+floats.Norm(grad, 2)))
				} else {
					require.NotEqual(t, square{}, l)
					require.NotEqual(t, threefold{}, l)
				}
			}
		}
	}
}

// TestEmpty checks problems without records. F is then 0 and only the perturbation is left. The
// results equal those for a single record whose row is 0.
func TestEmpty(t *testing.T) {
	const d = 4
	bounds := loss.Bounds{Row: 1, Label: 1}
	none, err := Empty(d, bounds)
	require.NoError(t, err)
	n, features := none.Dims()
	require.Equal(t, [2]int{0, d}, [2]int{n, features})
	require.Equal(t, bounds, none.Bounds())
	require.Equal(t, "erm.Data(0×4)", fmt.Sprint(none))
	n, features = none.Map(func([]float64, float64) (float64, bool) { return 1, true }).Dims()
	require.Equal(t, [2]int{0, d}, [2]int{n, features})
	require.Panics(t, func() { none.Row(0) })
	for _, b := range []loss.Bounds{{}, {Row: -1, Label: 1}} {
		_, err = Empty(d, b)
		require.ErrorIs(t, err, ErrData)
	}
	_, err = Empty(0, bounds)
	require.ErrorIs(t, err, ErrData)
	zero, err := NewData([][]float64{make([]float64, d)}, []float64{0}, bounds)
	require.NoError(t, err)
	_, x, qs := random(8, 3, d)
	for _, l := range []loss.Loss{
		loss.Squared{}, loss.Logistic{}, loss.Moreau{Loss: loss.Hinge{}, Beta: 1}, loss.Multinomial{Classes: 2},
		general{smoothAbs{}}, foreign{loss.Logistic{}},
	} {
		for _, q := range qs {
			p := &Problem{Data: none, Loss: l, Reg: prox.L1{Weight: 0.1}, Set: prox.Box{Lo: -9, Hi: 9}}
			require.NoError(t, p.Check())
			require.NoError(t, certifiable(p))
			o, one := p.Perturb(q), (&Problem{Data: zero, Loss: l, Reg: p.Reg, Set: p.Set}).Perturb(q)
			require.Equal(t, o.s().perturbation(x), o.Func(x))
			g, h := make([]float64, d), make([]float64, d)
			o.Grad(g, x)
			one.Grad(h, x)
			require.Equal(t, h, g)
			require.Equal(t, o.Func(x), o.FuncGrad(h, x))
			require.Equal(t, g, h)
			o.GradTerms(h, x, nil)
			require.Equal(t, make([]float64, d), h)
			require.InEpsilon(t, one.Residual(x), o.Residual(x), 1e-12)
			require.InEpsilon(t, one.ResidualWithin(x, 1e9), o.ResidualWithin(x, 1e9), 1e-9)
			require.Equal(t, one.Modulus(), o.Modulus())
			require.LessOrEqual(t, o.Smoothness(), one.Smoothness())
			require.False(t, math.IsNaN(o.TermSmoothness()))
			if o.HasHessian() {
				var a, b mat.SymDense
				o.Hessian(&a, x)
				one.Hessian(&b, x)
				require.Equal(t, b.RawSymmetric().Data, a.RawSymmetric().Data)
			}
			if m, lin, _, ok := o.Quadratic(); ok {
				w, v, _, _ := one.Quadratic()
				require.Equal(t, w.RawSymmetric().Data, m.RawSymmetric().Data)
				require.Equal(t, v, lin)
			}
			if o.Modulus() > 0 {
				res, err := splitting.Minimize(context.Background(), splitting.Problem{F: o, G: p.Reg, H: p.Set},
					make([]float64, d), &splitting.Settings{Tolerance: 1e-9})
				require.NoError(t, err, "%T", l)
				require.Less(t, o.Residual(res.X)/o.Modulus(), 1e-7)
			}
		}
	}
}

// unperturbed returns the objective of p without a perturbation.
func unperturbed(p *Problem) *Objective { return p.Perturb(Perturbation{}) }
