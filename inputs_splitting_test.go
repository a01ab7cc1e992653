// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func TestEveryInputSplitting(t *testing.T) {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 0, 0, 1}), []float64{1, 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.1}}
	rows, labels := mat.Matrix(mat.NewDense(3, 2, []float64{1, 0, 0, 1, 1, 1})), []float64{1, -1, 1}
	logistic, err := splitting.NewLogistic(rows, labels)
	if err != nil {
		t.Fatal(err)
	}
	x := []float64{0.3, 0.2}
	settings := &splitting.Settings{Iterations: 50}
	solve := func(m func() splitting.Method, p splitting.Problem) row {
		return call(func(p splitting.Problem, x0 []float64, s *splitting.Settings) (*splitting.Result, error) {
			if p.F == nil {
				p.F = f
			}
			if len(x0) != 2 { // documented to panic with the operator's own message
				x0 = x
			}
			return splitting.Solve(background, p, x0, s, m())
		}, p, x, settings)
	}
	table := map[string]row{
		"NewLogistic": call(splitting.NewLogistic, rows, labels), "NewHuber": call(splitting.NewHuber, rows, labels, 1.),
		"NewLogistic.Func":     call(logistic.Func, x).mayBeNaN(),
		"NewLogistic.Grad":     call(logistic.Grad, []float64{0, 0}, x).mayBeNaN(),
		"NewLogistic.FuncGrad": call(logistic.FuncGrad, []float64{0, 0}, x).mayBeNaN(),
		"NewLogistic.Hessian": call(func(x []float64) {
			logistic.Hessian(mat.NewSymDense(2, nil),
				x)
		}, x).keep(0),
		"NewLogistic.GradTerms": call(func(x []float64) []float64 {
			g := []float64{0, 0}
			logistic.GradTerms(g, x, []int{0, 2})
			return g
		}, x).mayBeNaN(),
		"NewQP": call(func(q, l, u, lo, hi []float64) (splitting.Problem, error) {
			return splitting.NewQP(mat.NewDiagDense(2, []float64{1, 1}), q, mat.NewDense(1, 2, []float64{1, 1}), l, u, lo, hi)
		}, []float64{1, 1}, []float64{0}, []float64{2}, []float64{0, 0}, []float64{5, 5}),
		"InteriorPoint.Init": solve(func() splitting.Method { return &splitting.InteriorPoint{} }, p),
		"Scaled":             call(splitting.Scaled, 2., splitting.Smooth(logistic)),
		"Plus": call(func(g splitting.Smooth) (splitting.Smooth, error) { return splitting.Plus(f, g) },
			splitting.Smooth(f)),
		"Tilted": call(splitting.Tilted, splitting.Smooth(f), []float64{1, 2}),
		"NewQuadratic": call(splitting.NewQuadratic, mat.Symmetric(mat.NewSymDense(2, []float64{1, 0, 0, 1})),
			[]float64{1, 1}, 0.),
		"NewQuadratic.Func": call(f.Func, x).mayBeNaN(),
		"NewQuadratic.Grad": call(f.Grad, []float64{0, 0}, x).mayBeNaN(),
		"NewQuadratic.Hessian": call(func(x []float64) { f.(splitting.Hessianer).Hessian(mat.NewSymDense(2, nil), x) },
			x).keep(0),
		"NewQuadratic.Quadratic":  call(func() bool { _, _, _, ok := f.Quadratic(); return ok }),
		"NewQuadratic.Smoothness": call(f.Smoothness),
		"NewQuadratic.Convexity":  call(f.(splitting.Convex).Convexity),
		"Auto":                    call(func() splitting.Method { return splitting.Auto(p, 2) }),
		"Minimize": call(func(x0 []float64, s *splitting.Settings) (*splitting.Result, error) {
			return splitting.Minimize(background, p, x0, s)
		}, x, settings).keep(0),
		"Solve":                  solve(func() splitting.Method { return &splitting.ForwardBackward{} }, p),
		"Status.Early":           call(splitting.Status.Early, splitting.Converged),
		"Status.Err":             call(func(s splitting.Status) bool { return s.Err() == nil }, splitting.Converged),
		"ForwardBackward.Init":   solve(func() splitting.Method { return &splitting.ForwardBackward{} }, p),
		"DavisYin.Init":          solve(func() splitting.Method { return &splitting.DavisYin{} }, p),
		"ProxNewton.Init":        solve(func() splitting.Method { return &splitting.ProxNewton{} }, p),
		"CoordinateDescent.Init": solve(func() splitting.Method { return &splitting.CoordinateDescent{} }, p),
	}
	for _, m := range []string{"ForwardBackward", "DavisYin", "ProxNewton", "CoordinateDescent", "InteriorPoint"} {
		table[m+".Step"], table[m+".Status"] = table[m+".Init"], table[m+".Init"] // Solve calls all three
	}
	everyInput(t, "splitting", merged(table, methodsOfSplitting(t)))
}
