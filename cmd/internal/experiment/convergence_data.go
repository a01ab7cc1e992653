package experiment

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/splitting"
)

// regression is f(x) = Σᵢ (1/n)φ(⟨aᵢ,x⟩; bᵢ) + (ridge/2)‖x‖², φ(t;b) = ½(t−b)² or
// log(1+e^t) − bt, each term with its share of the square.
type regression struct {
	a        blas64.General
	b, t     []float64
	logistic bool
	ridge    float64
	lip, one float64
}

var (
	_ splitting.FiniteSum    = (*regression)(nil)
	_ splitting.TermSmoother = (*regression)(nil)
	_ splitting.Convex       = (*regression)(nil)
	_ splitting.FuncGrader   = (*regression)(nil)
)

// newRegression draws rows of standard normals, decay 1 and more of them shrunk
// so that column j has size 10^(−2·decay·j/d), and labels of a sparse truth.
func newRegression(n, d int, decay float64, logistic bool) *regression {
	src := noise.Reproducible(5, "convergence")
	normal := func() float64 {
		var x [1]float64
		noise.Normal(x[:], 1, src)
		return x[0]
	}
	f := &regression{a: blas64.General{Rows: n, Cols: d, Stride: d, Data: make([]float64, n*d)}, b: make([]float64, n), t: make([]float64, n),
		logistic: logistic}
	truth := make([]float64, d)
	for j := range truth {
		if j/10%10 == 3 || !logistic && j%4 == 0 {
			truth[j] = normal()
		}
	}
	for i := range n {
		row := f.row(i)
		for j := range row {
			row[j] = normal()
			if !logistic {
				row[j] *= math.Pow(10, -2*decay*float64(j)/float64(d))
			} else if j > 0 { // neighbors are correlated
				row[j] = decay*row[j] + (1-decay)*row[j-1]
			}
		}
		f.b[i] = floats.Dot(row, truth) + normal()
		if logistic {
			f.b[i] = math.Max(math.Copysign(1, f.b[i]), 0)
		}
	}
	f.bound()
	return f
}

// bound computes the Lipschitz constants of ∇f and of its terms.
func (f *regression) bound() {
	n, curve := float64(f.a.Rows), 1.0
	if f.logistic {
		curve = 0.25
	}
	f.one = 0
	for i := range f.b {
		f.one = math.Max(f.one, (curve*floats.Dot(f.row(i), f.row(i))+f.ridge)/n)
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(f.a.Rows, f.a.Cols, f.a.Data), mat.SVDNone) {
		panic("convergence: singular values not found")
	}
	top := svd.Values(nil)[0] * (1 + 1e-12)
	f.lip = curve*top*top/n + f.ridge
}

func (f *regression) row(i int) []float64 { return f.a.Data[i*f.a.Stride:][:f.a.Cols] }

func (f *regression) Len() int                { return f.a.Rows }
func (f *regression) Smoothness() float64     { return f.lip }
func (f *regression) TermSmoothness() float64 { return f.one }
func (f *regression) Convexity() float64      { return f.ridge }

// phi returns φ and φ′.
func (f *regression) phi(t, b float64) (v, d float64) {
	if !f.logistic {
		return (t - b) * (t - b) / 2, t - b
	}
	return math.Max(t, 0) + math.Log1p(math.Exp(-math.Abs(t))) - b*t, 1/(1+math.Exp(-t)) - b
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Data: x, Inc: 1} }

// Func implements Smooth.
func (f *regression) Func(x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		v, _ := f.phi(t, f.b[i])
		s += v
	}
	return s/float64(f.a.Rows) + f.ridge/2*floats.Dot(x, x)
}

// Grad implements Smooth.
func (f *regression) Grad(dst, x []float64) { f.FuncGrad(dst, x) }

// FuncGrad implements FuncGrader.
func (f *regression) FuncGrad(dst, x []float64) (s float64) {
	blas64.Gemv(blas.NoTrans, 1, f.a, vector(x), 0, vector(f.t))
	for i, t := range f.t {
		var v float64
		v, f.t[i] = f.phi(t, f.b[i])
		s += v
	}
	copy(dst, x)
	blas64.Gemv(blas.Trans, 1/float64(f.a.Rows), f.a, vector(f.t), f.ridge, vector(dst))
	return s/float64(f.a.Rows) + f.ridge/2*floats.Dot(x, x)
}

// GradTerms implements FiniteSum.
func (f *regression) GradTerms(dst, x []float64, idx []int) {
	n := float64(f.a.Rows)
	floats.ScaleTo(dst, f.ridge*float64(len(idx))/n, x)
	for _, i := range idx {
		_, d := f.phi(floats.Dot(f.row(i), x), f.b[i])
		floats.AddScaled(dst, d/n, f.row(i))
	}
}
