// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

var (
	_ splitting.FiniteSum    = (*Objective)(nil)
	_ splitting.Convex       = (*Objective)(nil)
	_ splitting.FuncGrader   = (*Objective)(nil)
	_ splitting.TermSmoother = (*Objective)(nil)
	_ splitting.Quadratizer  = (*Objective)(nil)
	_ splitting.Hessianer    = (*Objective)(nil)
)

// slowHessian sums φ″ᵢ aᵢaᵢ' + Q entry by entry.
func slowHessian(p *Problem, q Perturbation, x []float64) *mat.SymDense {
	n, d := p.Data.Dims()
	h := mat.NewSymDense(d, nil)
	for i := range n {
		a := p.Data.Row(i)
		_, _, w := p.Loss.(loss.Linear).Scalar(dotNaive(a, x), p.Data.Label(i), p.Data.r().norm(i))
		for j := range d {
			for k := j; k < d; k++ {
				h.SetSym(j, k, h.At(j, k)+w*a[j]*a[k])
			}
		}
	}
	if q.Quad != nil {
		for j := range d {
			for k := j; k < d; k++ {
				h.SetSym(j, k, h.At(j, k)+q.Quad.At(j, k))
			}
		}
	}
	return h
}

func TestHessian(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {50, 4}, {200, 6}} {
		data, x, qs := random(8, size[0], size[1])
		// Huber thresholds run from one that leaves no record any curvature to one that leaves it to all.
		for _, l := range []loss.Loss{square{}, smoothAbs{}, loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 1e-9},
			loss.Huber{Delta: 0.5},
			loss.Huber{Delta: 3}, loss.Huber{Delta: 1e9}} {
			p := &Problem{Data: data, Loss: l}
			for _, q := range qs {
				o := p.Perturb(q)
				want := slowHessian(p, q, x)
				var got mat.SymDense
				o.Hessian(&got, x)
				// The entries are sums of at most 200 products below 10.
				require.True(t, mat.EqualApprox(want, &got, 1e-10), "%T %v", l, l)
				o.Hessian(&got, x)
				require.True(t, mat.EqualApprox(want, &got, 1e-10), "%T %v: dst is overwritten", l, l)
			}
		}
		if size[1] == 1 {
			continue
		}
		o := unperturbed(&Problem{Data: data, Loss: square{}})
		require.PanicsWithValue(t, badHessian, func() { o.Hessian(mat.NewSymDense(1, nil), x) })
		require.PanicsWithValue(t, badLen, func() { o.Hessian(&mat.SymDense{}, x[:1]) })
		o = unperturbed(&Problem{Data: data, Loss: general{smoothAbs{}}})
		require.PanicsWithValue(t, badLoss, func() { o.Hessian(&mat.SymDense{}, x) })
	}
}

// TestHessianIsKept: where no clip reaches a record, the Hessian is the Gram matrix that is kept,
// with the bits of a pass that asks for the Hessian.
func TestHessianIsKept(t *testing.T) {
	for _, n := range []int{1, 300, 9000} {
		data, x, _ := random(8, n, 6)
		o := unperturbed(&Problem{Data: data, Loss: loss.Huber{Delta: 1e9}})
		require.True(t, o.s().even(x))
		p := o.s().sum(askHess, x, nil)
		want := mat.NewSymDense(6, nil)
		p.hessTo(want)
		o.s().done(p)
		got := mat.NewSymDense(6, nil)
		o.Hessian(got, x)
		require.Equal(t, want, got)
		require.Positive(t, mat.Norm(got, 2))

		long := make([]float64, 6)
		floats.AddScaled(long, 1e12, x)
		require.False(t, o.s().even(long), "records beyond the clip have no curvature")
		require.False(t, unperturbed(&Problem{Data: data, Loss: loss.Logistic{}}).s().even(x))
	}
}

func eigenvalues(a *mat.SymDense) []float64 {
	var e mat.EigenSym
	e.Factorize(a, false)
	return e.Values(nil)
}

// TestSmoothnessAndConvexity checks that Smoothness is at least the largest eigenvalue of the
// Hessian, and for least squares at most twice that eigenvalue, and that Convexity is at most the
// least eigenvalue of Q.
func TestSmoothnessAndConvexity(t *testing.T) {
	data, x, qs := random(21, 60, 5)
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.3}} {
		for _, q := range qs {
			p := &Problem{Data: data, Loss: l}
			o := p.Perturb(q)
			top := eigenvalues(slowHessian(p, q, x))[4]
			require.GreaterOrEqual(t, o.Smoothness(), top*(1-1e-12))
			if _, ok := l.(loss.Squared); ok && q.MaxEig == 0 {
				// Smoothness is λ_max(A) + λ_max(B), which is at most 2λ_max(A+B) for semidefinite A and B.
				require.LessOrEqual(t, o.Smoothness(), 2*top)
			}
			least := 0.0
			if q.Quad != nil {
				least = eigenvalues(mat.NewSymDense(5, mat.DenseCopyOf(q.Quad).RawMatrix().Data))[0]
			}
			require.LessOrEqual(t, o.Convexity(), least)
			require.GreaterOrEqual(t, o.Convexity(), min(least*(1-1e-6), 0.01))
			require.Equal(t, o.Convexity(), o.Modulus())

			ridge := (&Problem{Data: data, Loss: l, Reg: prox.ElasticNet{L1: 1, L2: 3}}).Perturb(q)
			require.Equal(t, o.Convexity(), ridge.Convexity(), "the ridge belongs to Reg, not to f")
			require.Equal(t, o.Convexity()+3, ridge.Modulus())
		}
	}
	hidden := unperturbed(&Problem{Data: data, Loss: general{loss.Logistic{}}})
	require.InEpsilon(t, 60*0.25*5*0.64, hidden.Smoothness(), 1e-9) // n·Row²/4

	negative := (&Problem{Data: data, Loss: loss.Squared{}}).Perturb(Perturbation{Quad: mat.NewDiagDense(5,
		[]float64{-1, 1, 1, 1, 1})})
	require.Zero(t, negative.Convexity(), "never negative")
	unbounded := unperturbed(&Problem{Data: data, Loss: noConstants{}})
	require.Equal(t, math.Inf(1), unbounded.Smoothness())
	require.False(t, math.IsNaN(unbounded.Residual(x)))
	zero, err := NewData([][]float64{{0}}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	require.Equal(t, math.Inf(1), unperturbed(&Problem{Data: zero, Loss: noConstants{}}).Smoothness())
}

// TestTermSmoothness checks that no term of f has a larger curvature than TermSmoothness. For least
// squares whose Q is a multiple of the identity, some term attains it, and n terms together have at
// least the curvature of f.
func TestTermSmoothness(t *testing.T) {
	const n, d = 60, 5
	data, x, qs := random(21, n, d)
	_, y, _ := random(22, n, d)
	qs = append(qs, Perturbation{Quad: mat.NewDiagDense(d, []float64{3, 3, 3, 3, 3})})
	gx, gy := make([]float64, d), make([]float64, d)
	for _, l := range []loss.Loss{
		loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.3}, square{}, smoothAbs{}, general{smoothAbs{}},
		loss.Clipped{Loss: loss.Squared{}, Threshold: 0.1},
	} {
		for k, q := range qs {
			o := (&Problem{Data: data, Loss: l}).Perturb(q)
			one, most := o.TermSmoothness(), 0.0
			require.LessOrEqual(t, o.Smoothness(), n*one*(1+1e-9), "%T", l)
			for i := range n {
				for _, to := range [][]float64{y, floats.AddScaledTo(make([]float64, d), x, 1e-3, data.Row(i))} {
					o.GradTerms(gx, x, []int{i})
					o.GradTerms(gy, to, []int{i})
					slope := floats.Distance(gx, gy, 2) / floats.Distance(x, to, 2)
					// These are difference quotients with steps of 1e-3, of numbers below 100.
					require.LessOrEqual(t, slope, one*(1+1e-9)+1e-9, "%T", l)
					most = max(most, slope)
				}
			}
			if _, ok := l.(loss.Squared); ok && (q.Quad == nil || k == len(qs)-1) {
				require.InEpsilon(t, most, one, 1e-9)
			}
		}
	}
	hidden := unperturbed(&Problem{Data: data, Loss: general{loss.Logistic{}}})
	require.InEpsilon(t, 0.25*d*0.64, hidden.TermSmoothness(), 1e-9) // Row²/4
	require.Equal(t, math.Inf(1), unperturbed(&Problem{Data: data, Loss: noConstants{}}).TermSmoothness())
	odd := (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{Quad: mat.NewDiagDense(d,
		[]float64{math.NaN(), 1, 1, 1, 1})})
	require.Equal(t, math.Inf(1), odd.TermSmoothness(), "never NaN")

	// For least squares, compare exactly, at any scale, with dense and with sparse rows.
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(anyFloat(), 3, 3).Draw(t, "row")
		bound := math.Ldexp(1, rapid.IntRange(-400, 400).Draw(t, "log bound"))
		dense, sparse := twins(t, [][]float64{{0, 0, 0}, row}, []float64{0, 0}, loss.Bounds{Row: bound, Label: 1})
		for _, data := range []*Data{dense, sparse} {
			sum := bf(0)
			for i := range 2 {
				for _, v := range data.Row(i) {
					sum = badd(sum, bmul(bf(v), bf(v)))
				}
			}
			got := unperturbed(&Problem{Data: data, Loss: loss.Squared{}}).TermSmoothness()
			require.True(t, bf(got).Cmp(badd(sum, bf(-tiny))) >= 0)
		}
	})
}

// TestFuncOverflows checks that a sum that overflows is +Inf and not NaN, because a line search
// treats +Inf as a rejected step.
func TestFuncOverflows(t *testing.T) {
	data, _, _ := random(2, 5, 3)
	far := []float64{1e200, 1e200, -1e200}
	for _, l := range []loss.Loss{loss.Squared{}, square{}, general{square{}}} {
		o := unperturbed(&Problem{Data: data, Loss: l})
		require.Equal(t, math.Inf(1), o.Func(far), "%T", l)
		require.Equal(t, math.Inf(1), o.FuncGrad(make([]float64, 3), far), "%T", l)
		require.True(t, math.IsNaN(o.Func([]float64{0, math.NaN(), 0})))
	}
}

// noConstants is a loss that declares no constants.
type noConstants struct{ smoothAbs }

func (noConstants) Constants(loss.Bounds, float64) loss.Constants { return loss.Constants{} }

// TestConvexityNeedsQuad checks that without a quadratic term the modulus of strong convexity is 0,
// even if the caller declared a positive MinEig.
func TestConvexityNeedsQuad(t *testing.T) {
	data, _, _ := random(5, 4, 3)
	o := (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{MinEig: 2, MaxEig: 3})
	require.Zero(t, o.Convexity())
	require.Zero(t, o.Modulus())
	q := Perturbation{Quad: mat.NewDiagDense(3, []float64{3, 2, 4}), QuadError: 0.5}
	o = (&Problem{Data: data, Loss: square{}, Reg: prox.SquaredL2{Weight: 1}}).Perturb(q)
	require.Equal(t, []float64{1.5, 2.5}, []float64{o.Convexity(), o.Modulus()}, "the moduli are for Quad minus QuadError")
	q.QuadError = 3
	require.Zero(t, (&Problem{Data: data, Loss: square{}}).Perturb(q).Modulus())
	o = (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{Quad: mat.NewDiagDense(3,
		[]float64{math.NaN(), 1, 1})})
	require.Equal(t, math.Inf(1), o.Smoothness(), "never NaN")
	require.Equal(t, math.Inf(1), o.Residual(make([]float64, 3)))
}

func TestPerturbPanicsOnLengths(t *testing.T) {
	data, x, _ := random(2, 5, 3)
	p := &Problem{Data: data, Loss: square{}}
	for _, q := range []Perturbation{
		{Linear: x[:2]}, {Center: x[:2]}, {Quad: mat.NewDiagDense(2, nil)}, {Quad: mat.NewSymDense(2, nil)},
	} {
		require.PanicsWithValue(t, badLen, func() { p.Perturb(q) })
	}
	o := p.Perturb(Perturbation{})
	require.PanicsWithValue(t, badLen, func() { o.Func(x[:2]) })
	require.PanicsWithValue(t, badLen, func() { o.Grad(x, x[:2]) })
	require.PanicsWithValue(t, badLen, func() { o.Grad(x[:2], x) })
	require.PanicsWithValue(t, badLen, func() { o.GradTerms(x[:2], x, nil) })
}

// TestPerturbCopies checks that Perturb copies the slices and matrices of the caller.
func TestPerturbCopies(t *testing.T) {
	data, x, qs := random(2, 5, 3)
	p := &Problem{Data: data, Loss: square{}}
	for _, q := range qs[2:] {
		o := p.Perturb(q)
		before := o.Func(x)
		for _, v := range [][]float64{q.Linear, q.Center} {
			for j := range v {
				v[j] = 99
			}
		}
		switch m := q.Quad.(type) {
		case *mat.DiagDense:
			m.SetDiag(0, 99)
		case *mat.SymDense:
			m.SetSym(0, 1, 99)
		}
		require.Equal(t, before, o.Func(x))
	}
}

// TestPerturbAnySymmetric checks that a mat.Symmetric without access to its raw data gives the same
// results as a matrix with it.
func TestPerturbAnySymmetric(t *testing.T) {
	data, x, qs := random(2, 5, 3)
	p := &Problem{Data: data, Loss: square{}}
	want, got := make([]float64, 3), make([]float64, 3)
	p.Perturb(qs[3]).Grad(want, x)
	q := qs[3]
	q.Quad = plainSymmetric{q.Quad}
	p.Perturb(q).Grad(got, x)
	require.Equal(t, want, got)
}

type plainSymmetric struct{ mat.Symmetric }

// TestBitsDoNotDependOnThreads checks that results have the same bits at any GOMAXPROCS and any
// Threads, for sizes below and above the one where the kernel changes. The two kernels agree to
// rounding.
func TestBitsDoNotDependOnThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []int{300, 9000, 40000} {
		data, x, qs := random(4, n, 80)
		require.Equal(t, n > 300, n > grain)
		require.Equal(t, n > 9000, 8*data.r().floats() > streamBytes)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}} {
			var first []float64
			for k, procs := range testkit.Every(2, []int{1, 2, 3, 8, 16}) {
				runtime.GOMAXPROCS(procs)
				o := (&Problem{Data: data, Loss: l, Threads: k}).Perturb(qs[4])
				g := make([]float64, 80)
				o.Grad(g, x)
				all := append(slices.Clone(g), o.Func(x))
				require.Equal(t, o.Func(x), o.FuncGrad(g, x))
				all = append(append(all, g...), o.Residual(x), o.ResidualWithin(x, math.Inf(1)))
				if n == 9000 {
					var h mat.SymDense
					o.Hessian(&h, x)
					all = append(all, h.RawSymmetric().Data...)
				}
				if first == nil {
					first = all
				}
				require.Equal(t, first, all, "%T, %d records, %d processors", l, n, procs)
			}
			accurate, _, _ := (&Problem{Data: data, Loss: l}).Perturb(qs[4]).s().pairGrad(x, nil)
			require.InDeltaSlice(t, accurate, first[:80], 1e-8) // this sums 4e4 terms of size 10
		}
	}
}

// TestGradInPlace checks Grad and FuncGrad where dst and x are the same slice.
func TestGradInPlace(t *testing.T) {
	data, x, qs := random(4, 200, 6)
	o := (&Problem{Data: data, Loss: loss.Logistic{}}).Perturb(qs[4])
	want := make([]float64, 6)
	o.Grad(want, x)
	for _, f := range []func(dst, x []float64){o.Grad, func(dst, x []float64) { o.FuncGrad(dst, x) }} {
		got := slices.Clone(x)
		f(got, got)
		require.Equal(t, want, got)
	}
	require.PanicsWithValue(t, badLen, func() { o.FuncGrad(want, x[:2]) })
	require.PanicsWithValue(t, badIndex, func() { data.Row(200) })
	require.PanicsWithValue(t, badIndex, func() { data.Label(-1) })
}

func TestKernelsDoNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes sync.Pool forget, so that kernels allocate")
	}
	data, x, qs := random(4, 200, 20)
	g := make([]float64, 20)
	h := mat.NewSymDense(20, nil)
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.5}, general{smoothAbs{}}} {
		for _, q := range qs {
			o := (&Problem{Data: data, Loss: l}).Perturb(q)
			idx := []int{7}
			for name, f := range map[string]func(){
				"Grad":      func() { o.Grad(g, x) },
				"GradTerms": func() { o.GradTerms(g, x, idx) },
				"Func":      func() { o.Func(x) },
				"FuncGrad":  func() { o.FuncGrad(g, x) },
				"Hessian": func() {
					if o.s().glm != nil {
						o.Hessian(h, x)
					}
				},
			} {
				f()
				require.Zero(t, testing.AllocsPerRun(20, f), "%s of %T", name, l)
			}
		}
	}
}

// TestHessianOfShortRows checks that the entries of the Hessian are accurate for a loss whose
// curvature grows as rows get shorter, even if the declared bound Row is far larger than every row.
func TestHessianOfShortRows(t *testing.T) {
	rows, labels := make([][]float64, 2*grain), make([]float64, 2*grain)
	for i := range rows {
		rows[i], labels[i] = []float64{1, 0.5}, 1
	}
	var want, got mat.SymDense
	for row, h := range map[float64]*mat.SymDense{2: &want, 1e60: &got} {
		data, err := NewData(rows, labels, loss.Bounds{Row: row, Label: 1})
		require.NoError(t, err)
		unperturbed(&Problem{Data: data, Loss: loss.Moreau{Loss: loss.Hinge{}, Beta: 2}}).Hessian(h, []float64{0.8, 0.1})
	}
	require.Positive(t, want.At(0, 1))
	require.Equal(t, want, got)
}
