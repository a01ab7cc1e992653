// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmat"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/randmat"
	"github.com/privopt/privopt/splitting"
)

var background = context.Background()

// measure runs f and reports the processor time of a run as cpu-ns/op.
func measure(b *testing.B, f func()) {
	f() // what is computed once is not timed
	b.ReportAllocs()
	b.ResetTimer()
	start := testkit.CPU()
	for range b.N {
		f()
	}
	b.ReportMetric(float64(testkit.CPU()-start)/float64(b.N), "cpu-ns/op")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func instance() *lasso.Instance {
	return must(lasso.Generate(lasso.Spec{N: 300, D: 100, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(1)))
}

// BenchmarkPublished is one solve of the published experiment, noise included,
// with K steps.
func BenchmarkPublished(b *testing.B) {
	in := instance()
	for _, m := range []lasso.Method{lasso.LOP, lasso.LOPClip, lasso.QOP} {
		for _, steps := range []int{1000, 3000} {
			p := lasso.Paper{Epsilon: 0.5, Delta: 0.01, Lambda: 1, Iterations: 1000}
			p.Iterations = steps
			e := must(p.Experiment(in, 2.525390773225e17)) // σ² of the published figure
			b.Run(fmt.Sprintf("method=%v/K=%d", m, steps), func(b *testing.B) {
				src := rand.NewPCG(1, 2)
				measure(b, func() { must(e.Solve(background, m, 1, src)) })
			})
		}
	}
}

// BenchmarkExact is one exact solve of the same problems, for four radii, each
// certified to a relative gap of 1e-10: the quadratic is built from the records'
// Gram matrix and the perturbation.
func BenchmarkExact(b *testing.B) {
	const d = 100
	in := instance()
	data := must(in.Data(1000))
	for _, kind := range []string{"lop", "qop"} {
		b.Run("method="+kind, func(b *testing.B) {
			type problem struct {
				p   *erm.Problem
				q   erm.Perturbation
				tol float64
			}
			var all []problem
			for _, kappa := range []float64{0.01, 1, 10, 1000} {
				p := lasso.Problem(data, 1, kappa)
				src := noise.Reproducible(2)
				var q erm.Perturbation
				if kind == "lop" {
					const ridge = 1e4
					q.Linear = make([]float64, d)
					noise.Normal(q.Linear, ridge*kappa, src)
					ones := make([]float64, d)
					floats.AddConst(ridge, ones)
					q.Quad, q.MinEig, q.MaxEig = mat.NewDiagDense(d, ones), ridge, ridge
				} else {
					const sigma2 = 1.2e3
					w := mat.NewSymDense(d, nil)
					if err := randmat.Wishart(w, 2*d, src); err != nil {
						b.Fatal(err)
					}
					w.ScaleSym(sigma2, w)
					q.Center, q.Quad, q.MinEig, q.MaxEig = in.Anchor, w, randmat.MinEig(w), randmat.MaxEig(w)
				}
				f := p.Perturb(q)
				x := must(splitting.Minimize(background, splitting.Problem{F: f, G: p.Reg, H: p.Set}, make([]float64, d),
					&splitting.Settings{Tolerance: -1})).X
				value := math.Abs(f.Func(x) + p.Reg.Func(x))
				all = append(all, problem{p, q, math.Sqrt(2 * q.MinEig * 1e-10 * value)}) // Residual²/(2μ) ≤ 1e-10·|J|
			}
			m := &splitting.CoordinateDescent{}
			x0 := make([]float64, d)
			k := 0
			measure(b, func() {
				c := all[k%len(all)]
				k++
				res := must(splitting.Solve(background, splitting.Problem{F: c.p.Perturb(c.q), G: c.p.Reg, H: c.p.Set}, x0,
					&splitting.Settings{Tolerance: c.tol}, m))
				if res.Status != splitting.Converged {
					b.Fatal(res.Status)
				}
			})
		})
	}
}

// BenchmarkTopEigenvalue is λ_max of a Wishart matrix as a step size needs it.
func BenchmarkTopEigenvalue(b *testing.B) {
	for _, d := range []int{100, 1000} {
		b.Run(fmt.Sprintf("d=%d", d), func(b *testing.B) {
			w := mat.NewSymDense(d, nil)
			if err := randmat.Wishart(w, float64(2*d), noise.Reproducible(3)); err != nil {
				b.Fatal(err)
			}
			var top float64
			measure(b, func() { top, _ = randmat.RitzMax(w) })
			var eig mat.EigenSym
			if !eig.Factorize(w, false) {
				b.Fatal("no eigenvalues")
			}
			want := eig.Values(nil)[d-1]
			b.ReportMetric(math.Abs(top-want)/want, "relerr")
		})
	}
}

// BenchmarkWishart is a draw of W_d(2d), beside gonum's.
func BenchmarkWishart(b *testing.B) {
	for _, d := range []int{100, 200, 500, 1000} {
		w := mat.NewSymDense(d, nil)
		src := noise.Reproducible(4)
		b.Run(fmt.Sprintf("by=randmat/d=%d", d), func(b *testing.B) {
			measure(b, func() {
				if err := randmat.Wishart(w, float64(2*d), src); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(fmt.Sprintf("by=distmat/d=%d", d), func(b *testing.B) {
			eye := mat.NewSymDense(d, nil)
			for i := range d {
				eye.SetSym(i, i, 1)
			}
			law, ok := distmat.NewWishart(eye, float64(2*d), rand.NewPCG(1, 2))
			if !ok {
				b.Fatal("no Wishart law")
			}
			measure(b, func() { law.RandSymTo(w) })
		})
	}
}

// BenchmarkGradient is a pass X'(Xw−y) over records of uniform numbers.
func BenchmarkGradient(b *testing.B) {
	for _, s := range [][2]int{{1000, 100}, {4000, 50}, {15682, 23}, {100000, 100}, {1000000, 50}} {
		n, d := s[0], s[1]
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("n=%d/d=%d/threads=%d", n, d, threads), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				x, y := mat.NewDense(n, d, nil), make([]float64, n)
				for i := range x.RawMatrix().Data {
					x.RawMatrix().Data[i] = r.Float64() - 0.5
				}
				for i := range y {
					y[i] = float64(i%7) - 3
				}
				w, g := make([]float64, d), make([]float64, d)
				for j := range w {
					w[j] = float64(j%5) * 0.01
				}
				data := must(erm.NewDataDense(x, y, loss.Bounds{Row: 100, Label: 5}))
				o := (&erm.Problem{Data: data, Loss: loss.Squared{}, Threads: threads}).Perturb(erm.Perturbation{})
				measure(b, func() { o.Grad(g, w) })
			})
		}
	}
}

// BenchmarkLassoBox solves a lasso in a box to a relative duality gap of 1e-6:
// 1000 Gaussian records of 500 features, 200 Gaussian coefficients, noise ½,
// λ = 220 on [−1.25, 1.25]. The minimizer has 208 nonzero coefficients, 29 of
// them at the bound. A is copied column by column before the solve.
func BenchmarkLassoBox(b *testing.B) {
	const n, d, k, lambda, kappa = 1000, 500, 200, 220, 1.25
	r := rand.New(rand.NewPCG(n, d))
	a := mat.NewDense(n, d, nil)
	for i := range a.RawMatrix().Data {
		a.RawMatrix().Data[i] = r.NormFloat64()
	}
	x, y := make([]float64, d), make([]float64, n)
	for j := range k {
		x[j] = r.NormFloat64()
	}
	mat.NewVecDense(n, y).MulVec(a, mat.NewVecDense(d, x))
	for i := range y {
		y[i] += 0.5 * r.NormFloat64()
	}
	f := must(splitting.NewLeastSquares(a, y))
	p := splitting.Problem{F: f, G: prox.L1{Weight: lambda}, H: prox.Box{Lo: -kappa, Hi: kappa}}
	m := &splitting.CoordinateDescent{}
	exact := must(splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1}, m)).X
	best := f.Func(exact) + p.G.Func(exact)
	nonzero, bound := 0, 0
	for _, v := range exact {
		if v != 0 {
			nonzero++
		}
		if math.Abs(v) == kappa {
			bound++
		}
	}
	if nonzero != 208 || bound != 29 {
		b.Fatalf("%d nonzero, %d at the bound", nonzero, bound)
	}
	solve := func() {
		res := must(
			splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1, Gap: 1e-6 * best}, m),
		)
		if res.Status != splitting.Converged {
			b.Fatal(res.Status)
		}
	}
	b.Run("part=solve", func(b *testing.B) { measure(b, solve) })
	b.Run("part=copy+solve", func(b *testing.B) {
		measure(b, func() {
			p.F = must(splitting.NewLeastSquares(a, y))
			solve()
		})
	})
	b.Run("part=lipschitz", func(b *testing.B) {
		measure(b, func() { must(splitting.NewLeastSquares(a, y)).Smoothness() })
	})
}

// zeroOne is the logistic regression on 15682 records of 23 zeros and ones that
// bench/peers.py makes too, with C = 1 and no intercept.
func zeroOne() (rows [][]float64, labels []float64) {
	const n, d = 15682, 23
	state := uint64(1)
	next := func() float64 { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11) * 0x1p-53
	}
	w, sum := make([]float64, d), 0.0
	for j := range w {
		w[j] = 4*next() - 2
		sum += w[j]
	}
	for range n {
		row, m := make([]float64, d), -0.3*sum
		for j := range row {
			if next() < 0.3 {
				row[j] = 1
				m += w[j]
			}
		}
		label := -1.0
		if next() < 1/(1+math.Exp(-m)) {
			label = 1
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	return rows, labels
}

// BenchmarkLogistic is min Σ log(1+exp(−y⟨a,θ⟩)) + ½‖θ‖² to a relative accuracy
// of 1e-6, proved by the residual: J − J* ≤ Residual²/2. Adult, with the ℓ2 and
// the ℓ1 norm, needs the data named by PRIVOPT_DATA.
func BenchmarkLogistic(b *testing.B) {
	solve := func(name string, data *erm.Data, g prox.Operator, accuracy float64) {
		p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Reg: g, Threads: 1}
		_, d := data.Dims()
		run := func(tol float64) (float64, int) {
			f := p.Perturb(erm.Perturbation{})
			res := must(
				splitting.Minimize(
					background,
					splitting.Problem{F: f, G: g},
					make([]float64, d),
					&splitting.Settings{Tolerance: tol},
				),
			)
			return f.Func(res.X) + g.Func(res.X), res.Iterations
		}
		best, _ := run(-1)
		b.Run(name, func(b *testing.B) {
			var got float64
			var iters int
			tol := math.Sqrt(2 * accuracy * best)
			measure(b, func() { got, iters = run(tol) })
			b.ReportMetric((got-best)/best, "relerr")
			b.ReportMetric(float64(iters), "iters")
			if got-best > accuracy*best {
				b.Fatal("not accurate")
			}
		})
	}
	rows, labels := zeroOne()
	solve(
		"data=zeroone/g=l2",
		must(erm.NewData(rows, labels, loss.Bounds{Row: 5, Label: 1})),
		prox.SquaredL2{Weight: 1},
		1e-6,
	)
	rows, labels, ok := people(b)
	if !ok {
		return
	}
	unit := loss.Bounds{Row: 1, Label: 1}
	ptr, col, val := compress(rows)
	sparse := must(erm.NewDataCSR(len(rows[0]), ptr, col, val, labels, unit))
	solve("data=adult/rows=sparse/g=l2", sparse, prox.SquaredL2{Weight: 1}, 1e-6)
	solve("data=adult/rows=dense/g=l2", must(erm.NewData(rows, labels, unit)), prox.SquaredL2{Weight: 1}, 1e-6)
	solve("data=adult/rows=sparse/g=l1", sparse, prox.L1{Weight: 1e-3 * float64(len(rows))}, 1e-6)
}

// people returns Adult: all 48842 records, every level of every category and
// every number as a feature, rows scaled to norm 1. It needs PRIVOPT_DATA.
func people(b testing.TB) (rows [][]float64, labels []float64, ok bool) {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" {
		return nil, nil, false
	}
	var records []adult.Record
	for _, name := range []string{"adult.data", "adult.test"} {
		f, err := os.Open(filepath.Join(dir, "adult", name))
		if err != nil {
			b.Log(err)
			return nil, nil, false
		}
		part, err := adult.Read(f)
		f.Close()
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, part...)
	}
	var all adult.Features
	for i, a := range adult.Attributes {
		if a.Levels == nil {
			all = append(all, adult.Feature{Attribute: i, Level: -1})
		}
		for k := range a.Levels {
			all = append(all, adult.Feature{Attribute: i, Level: k})
		}
	}
	rows, labels = all.Floats(records)
	for _, row := range rows {
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return rows, labels, true
}

func compress(rows [][]float64) (ptr, col []int, val []float64) {
	ptr = []int{0}
	for _, row := range rows {
		for j, v := range row {
			if v != 0 {
				col, val = append(col, j), append(val, v)
			}
		}
		ptr = append(ptr, len(val))
	}
	return ptr, col, val
}

// TestWrite writes the records of BenchmarkLogistic for bench/peers.py into the
// folder that BENCH_WRITE names: n, d, then rows and labels, little-endian
// float64.
func TestWrite(t *testing.T) {
	dir := os.Getenv("BENCH_WRITE")
	if dir == "" {
		t.Skip("bench/peers.sh names a folder")
	}
	write := func(name string, rows [][]float64, labels []float64) {
		out := []float64{float64(len(rows)), float64(len(rows[0]))}
		for _, row := range rows {
			out = append(out, row...)
		}
		var buf bytes.Buffer
		if err := binary.Write(&buf, binary.LittleEndian, append(out, labels...)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows, labels := zeroOne()
	write("zeroone.bin", rows, labels)
	if rows, labels, ok := people(t); ok {
		write("adult.bin", rows, labels)
	}
}
