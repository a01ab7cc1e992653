// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// sum is Σᵢ ½(⟨aᵢ,x⟩−bᵢ)² + ⟨lin,x⟩ + ½(x−center)'quad(x−center) as a FiniteSum. quad is a dense
// matrix or, if nil, ridge times the identity.
type sum struct {
	x           blas64.General
	b           []float64
	lin, center []float64
	ridge       float64
	quad        []float64 // d×d, nil for ridge
	lip         float64
	u, v, w     []float64
}

func (f *sum) Len() int            { return f.x.Rows }
func (f *sum) Smoothness() float64 { return f.lip }
func (f *sum) Convexity() float64  { return f.ridge }

func (f *sum) row(i int) []float64 { return f.x.Data[i*f.x.Stride:][:f.x.Cols] }

func (f *sum) perturbation(dst, x []float64, share float64) {
	floats.AddScaled(dst, share, f.lin)
	if f.quad == nil {
		floats.AddScaled(dst, share*f.ridge, x)
		return
	}
	d := len(x)
	floats.SubTo(f.v, x, f.center)
	blas64.Gemv(blas.NoTrans, share, blas64.General{Rows: d, Cols: d, Stride: d, Data: f.quad}, vector(f.v), 1,
		vector(dst))
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Data: x, Inc: 1} }

func (f *sum) Func(x []float64) float64 {
	var s float64
	for i, b := range f.b {
		r := floats.Dot(f.row(i), x) - b
		s += r * r / 2
	}
	clear(f.w)
	f.perturbation(f.w, x, 1)
	if f.quad == nil {
		return s + floats.Dot(f.lin, x) + f.ridge/2*floats.Dot(x, x)
	}
	floats.Sub(f.w, f.lin)
	return s + floats.Dot(f.lin, x) + floats.Dot(f.w, f.v)/2
}

func (f *sum) Grad(dst, x []float64) {
	copy(f.u, f.b)
	blas64.Gemv(blas.NoTrans, 1, f.x, vector(x), -1, vector(f.u))
	blas64.Gemv(blas.Trans, 1, f.x, vector(f.u), 0, vector(dst))
	f.perturbation(dst, x, 1)
}

func (f *sum) GradTerms(dst, x []float64, idx []int) {
	clear(dst)
	for _, i := range idx {
		floats.AddScaled(dst, floats.Dot(f.row(i), x)-f.b[i], f.row(i))
	}
	f.perturbation(dst, x, float64(len(idx))/float64(f.x.Rows))
}

// experiment returns the perturbed least-squares problem of the published experiment, as a
// FiniteSum and as a Quadratic. The perturbation is linear if quad is false.
func experiment(n, d int, kappa float64, quad bool) (*sum, splitting.Quadratizer) {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	f := &sum{x: blas64.General{Rows: n, Cols: d, Stride: d, Data: make([]float64, n*d)}, b: make([]float64, n),
		lin: make([]float64, d), center: make([]float64, d), u: make([]float64, n), v: make([]float64, d), w: make([]float64,
			d)}
	theta := make([]float64, d)
	for j := range theta {
		theta[j] = r.NormFloat64()
		f.center[j] = theta[j] + 0.1*r.NormFloat64()
	}
	for i := range f.b {
		row := f.row(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
		floats.Scale(5/floats.Norm(row, 2), row)
		f.b[i] = floats.Dot(row, theta)
	}
	q := mat.NewSymDense(d, nil)
	q.SymOuterK(1, mat.NewDense(n, d, f.x.Data).T())
	lin := make([]float64, d)
	blas64.Gemv(blas.Trans, 1, f.x, vector(f.b), 0, vector(lin))
	if quad {
		const sigma2 = 1.2e3
		g := mat.NewDense(d, 2*d, nil)
		for i := range d {
			for j := range 2 * d {
				g.Set(i, j, r.NormFloat64())
			}
		}
		w := mat.NewSymDense(d, nil)
		w.SymOuterK(sigma2, g)
		q.AddSym(q, w)
		f.quad = make([]float64, d*d)
		for i := range d {
			for j := range d {
				f.quad[i*d+j] = w.At(i, j)
			}
		}
		blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: d, Cols: d, Stride: d, Data: f.quad}, vector(f.center), 1,
			vector(lin))
	} else {
		f.ridge = 1e4
		for j := range d {
			f.lin[j] = f.ridge * kappa * r.NormFloat64()
			lin[j] -= f.lin[j]
			q.SetSym(j, j, q.At(j, j)+f.ridge)
		}
	}
	exact, err := splitting.NewQuadratic(q, lin, 0)
	if err != nil {
		panic(err)
	}
	f.lip = exact.Smoothness()
	return f, exact
}

func start(b *testing.B, p splitting.Problem, m splitting.Method, d int) (*splitting.Location, *splitting.Stats) {
	if err := m.Init(p, make([]float64, d), rand.New(rand.NewPCG(1, 2))); err != nil {
		b.Fatal(err)
	}
	return &splitting.Location{X: make([]float64, d), Residual: math.Inf(1)}, &splitting.Stats{}
}

func BenchmarkStep(b *testing.B) {
	for _, size := range [][2]int{{300, 100}, {1000, 100}} {
		n, d := size[0], size[1]
		for _, quad := range []bool{false, true} {
			f, exact := experiment(n, d, 1, quad)
			l1, box := prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 1}
			kind := "lop"
			if quad {
				kind = "qop"
			}
			for _, c := range []struct {
				name string
				f    splitting.Smooth
				m    splitting.Method
			}{
				{"StochasticTOS", f, &splitting.StochasticTOS{}},
				{"DavisYin", f, &splitting.DavisYin{}},
				{"SVRG", f, &splitting.StochasticTOS{SVRG: true}},
				{"ForwardBackward", f, &splitting.ForwardBackward{}},
				{"CoordinateDescent", exact, &splitting.CoordinateDescent{}},
			} {
				b.Run(fmt.Sprintf("method=%s/kind=%s/n=%d/d=%d", c.name, kind, n, d), func(b *testing.B) {
					loc, stats := start(b, splitting.Problem{F: c.f, G: l1, H: box}, c.m, d)
					b.ReportAllocs()
					for b.Loop() {
						c.m.Step(loc, stats)
					}
				})
			}
		}
	}
}

// BenchmarkSolve times a whole solve of the experiment from zero. The exact methods run to a
// relative gap of 1e-10, the stochastic one for 1000 steps.
func BenchmarkSolve(b *testing.B) {
	const n, d = 300, 100
	for _, quad := range []bool{false, true} {
		kind := "lop"
		if quad {
			kind = "qop"
		}
		for _, kappa := range []float64{0.01, 1, 10, 1000} {
			f, exact := experiment(n, d, kappa, quad)
			p := splitting.Problem{F: exact, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -kappa, Hi: kappa}}
			opt, err := splitting.Minimize(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1})
			if err != nil {
				b.Fatal(err)
			}
			// tol implies Residual²/(2μ) ≤ 1e-10·max(1, |J|).
			gap := 1e-10 * math.Max(1, math.Abs(exact.Func(opt.X)+p.G.Func(opt.X)))
			tol := math.Sqrt(2 * exact.(splitting.Convex).Convexity() * gap)
			for _, c := range []struct {
				name string
				f    splitting.Smooth
				m    splitting.Method
				s    splitting.Settings
			}{
				{"CoordinateDescent", exact, &splitting.CoordinateDescent{}, splitting.Settings{Tolerance: tol}},
				{"CoordinateDescent-rounding", exact, &splitting.CoordinateDescent{}, splitting.Settings{Tolerance: -1}},
				{"ProxNewton", exact, &splitting.ProxNewton{}, splitting.Settings{Tolerance: tol}},
				{"ForwardBackward", exact, &splitting.ForwardBackward{}, splitting.Settings{Tolerance: tol}},
				{"DavisYin", exact, &splitting.DavisYin{}, splitting.Settings{Tolerance: tol}},
				{"StochasticTOS", f, &splitting.StochasticTOS{}, splitting.Settings{Iterations: 1000, Src: rand.NewPCG(1, 2)}},
			} {
				b.Run(fmt.Sprintf("method=%s/kind=%s/kappa=%g/n=%d/d=%d", c.name, kind, kappa, n, d), func(b *testing.B) {
					p := splitting.Problem{F: c.f, G: p.G, H: p.H}
					x0 := make([]float64, d)
					iters := 0
					b.ReportAllocs()
					for b.Loop() {
						res, err := splitting.Solve(background, p, x0, &c.s, c.m)
						if err != nil {
							b.Fatal(err)
						}
						iters += res.Iterations
					}
					b.ReportMetric(float64(iters)/float64(b.N), "iters/op")
				})
			}
		}
	}
}

// BenchmarkAuto times the choices of Auto. For every row of the table in the documentation of
// Minimize it runs the method that Auto picks, then others that apply, each to the same residual.
func BenchmarkAuto(b *testing.B) {
	race := func(name string, p splitting.Problem, x0 []float64, tol float64, others map[string]splitting.Method) {
		run := func(method string, m splitting.Method) {
			b.Run(fmt.Sprintf("problem=%s/method=%s", name, method), func(b *testing.B) {
				b.ReportAllocs()
				iters := 0
				for b.Loop() {
					res, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, m)
					if err != nil {
						b.Fatal(err)
					}
					if res.Status != splitting.Converged {
						b.Fatal(res.Status)
					}
					iters += res.Iterations
				}
				b.ReportMetric(float64(iters)/float64(b.N), "iters/op")
			})
		}
		pick := splitting.Auto(p, len(x0))
		run("Auto-"+strings.TrimPrefix(fmt.Sprintf("%T", pick), "*splitting."), pick)
		for method, m := range others {
			run(method, m)
		}
	}
	for _, s := range [][2]int{{1000, 500}, {4000, 50}, {15682, 23}} {
		n, d := s[0], s[1]
		a, y := lassoBox(n, d, d*2/5, 1)
		f := leastSquares(b, a, y)
		race(fmt.Sprintf("leastsquares-%dx%d", n, d), splitting.Problem{F: f, G: prox.L1{Weight: 200},
			H: prox.Box{Lo: -1.25, Hi: 1.25}},
			make([]float64, d), 1e-6*f.Smoothness(),
			map[string]splitting.Method{"ForwardBackward": &splitting.ForwardBackward{}})
	}
	_, exact := experiment(300, 100, 1, true)
	race("quadratic-100", splitting.Problem{F: exact, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -1, Hi: 1}},
		make([]float64, 100),
		1e-9*exact.Smoothness(),
		map[string]splitting.Method{"ProxNewton": &splitting.ProxNewton{}, "ForwardBackward": &splitting.ForwardBackward{}})
	for _, p := range plantedProblems() {
		var others map[string]splitting.Method
		switch p.Name {
		case "logistic/l1+box", "logistic/ball":
			others = map[string]splitting.Method{"ForwardBackward": &splitting.ForwardBackward{},
				"DavisYin": &splitting.DavisYin{}}
		case "logistic/group":
			others = map[string]splitting.Method{"DavisYin": &splitting.DavisYin{}}
		case "logistic/group+box":
		default:
			continue
		}
		race(p.Name, p.Problem, p.Start, p.tolerance(), others)
	}
}
