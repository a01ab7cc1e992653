// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/noise"
)

// bracket requires that MinEig ≤ lo and hi ≤ MaxEig, each up to its documented slack. lo and hi are
// the extreme eigenvalues of a, accurate to tol.
func bracket(t require.TestingT, a *mat.SymDense, lo, hi, tol float64) {
	scale := max(math.Abs(lo), math.Abs(hi))
	low, high := MinEig(a), MaxEig(a)
	require.LessOrEqual(t, low, lo+tol*scale, "MinEig is not a lower bound")
	require.GreaterOrEqual(t, high, hi-tol*scale, "MaxEig is not an upper bound")
	require.InDelta(t, lo, low, (1e-10+tol)*scale)
	require.InDelta(t, hi, high, (1e-10+tol)*scale)
}

func symmetric(d int, f func(i, j int) float64) *mat.SymDense {
	a := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			a.SetSym(i, j, f(i, j))
		}
	}
	return a
}

// TestMarginIsNeeded checks that MinEig stays below the least eigenvalue, det/λ_max, of nearly
// singular matrices. For more than 100 of them, which have a negative eigenvalue, Cholesky's
// factorization succeeds because of rounding, so that its success alone would prove nothing.
func TestMarginIsNeeded(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	ended := 0
	for range 10_000 {
		x, y := 0.5+rnd.Float64(), 0.5+rnd.Float64()
		// Entries are rounded, so that det ≈ ±u.
		a := mat.NewSymDense(2, []float64{x * x, x * y, x * y, y * y})
		exact := func(i, j int) *big.Float { return big.NewFloat(a.At(i, j)).SetPrec(300) }
		det := exact(0, 0)
		det.Mul(det, exact(1, 1)).Sub(det, exact(0, 1).Mul(exact(0, 1), exact(0, 1)))
		d, _ := det.Float64()
		least := d / mat.Trace(a) // this has a relative error of 1e-15
		require.LessOrEqual(t, MinEig(a), least+1e-9*math.Abs(least))
		w, _ := newWork(a)
		if _, ok := w.cholesky(1, 0); ok && d < 0 {
			ended++
		}
		w.free()
	}
	require.Greater(t, ended, 100)
}

// TestCholesky: |M − R'R| ≤ γ_{d+1}|R'||R| in every entry, M = ±S + xI in rational arithmetic, and
// the factor ends where a pivot is not positive.
func TestCholesky(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 5))
	for _, d := range []int{1, 2, 8, 15, 16, 17, 33, 50} {
		a := symmetric(d, func(i, j int) float64 { return rnd.NormFloat64() })
		for _, sign := range []float64{1, -1} {
			w, _ := newWork(a)
			shift := 8 * math.Sqrt(float64(d))
			trace, ok := w.cholesky(sign, shift)
			require.True(t, ok, d)
			stride := kernel.GramStride(d)
			r := func(i, j int) float64 { return w.l[i*stride+j] }
			for i := range d {
				for j := i; j < d; j++ {
					rest := new(big.Float).SetPrec(300).SetFloat64(sign * a.At(i, j) / w.scale)
					size := 0.0
					if i == j {
						rest.SetFloat64(sign*a.At(i, i)/w.scale + shift)
					}
					for k := range i + 1 {
						p := new(big.Float).SetPrec(300).SetFloat64(r(k, i))
						rest.Sub(rest, p.Mul(p, big.NewFloat(r(k, j))))
						size += math.Abs(r(k, i) * r(k, j))
					}
					off, _ := rest.Float64()
					require.LessOrEqual(t, math.Abs(off), float64(d+1)*0x1p-53*1.001*size, "d = %d, %d, %d", d, i, j)
				}
			}
			require.InEpsilon(t, sign*mat.Trace(a)/w.scale+float64(d)*shift, trace, 1e-12)
			_, ok = w.cholesky(sign, -shift)
			require.False(t, ok)
			w.free()
		}
	}
}

// TestKnownSpectra uses matrices whose eigenvalues are known in closed form.
func TestKnownSpectra(t *testing.T) {
	for _, d := range []int{2, 3, 10, 64, 200} {
		n := float64(d + 1)
		difference := symmetric(d, func(i, j int) float64 { return map[int]float64{0: 2, 1: -1}[j-i] })
		bracket(t, difference, 4*math.Pow(math.Sin(math.Pi/(2*n)), 2), 4*math.Pow(math.Cos(math.Pi/(2*n)), 2), 1e-15)
		// The eigenvalues of the matrix min(i,j) are 1/(4 sin²((2k-1)π/(4d+2))).
		minimum := symmetric(d, func(i, j int) float64 { return float64(i + 1) })
		bracket(t, minimum, 1/(4*math.Pow(math.Sin(float64(2*d-1)*math.Pi/float64(4*d+2)), 2)),
			1/(4*math.Pow(math.Sin(math.Pi/float64(4*d+2)), 2)), 1e-14)
		ones := symmetric(d, func(i, j int) float64 { return 1 })
		bracket(t, ones, 0, float64(d), 1e-15)
		identity := symmetric(d, func(i, j int) float64 {
			if i == j {
				return -7
			}
			return 0
		})
		bracket(t, identity, -7, -7, 1e-15)
		saddle := symmetric(d, func(i, j int) float64 {
			if i == j {
				return float64(i) - float64(d)/2
			}
			return 0
		})
		bracket(t, saddle, -float64(d)/2, float64(d-1)-float64(d)/2, 1e-15)
	}
}

// TestMinEigRelative checks that for a positive definite matrix the lower bound is within a
// relative 1e-10 plus the rounding margin (d+8)·u·tr a.
func TestMinEigRelative(t *testing.T) {
	for _, d := range []int{2, 5, 50, 150} {
		for _, extra := range []float64{0, 1, float64(d)} {
			a := mat.NewSymDense(d, nil)
			require.NoError(t, Wishart(a, float64(d)+extra, noise.Reproducible(7)))
			var eig mat.EigenSym
			require.True(t, eig.Factorize(a, false))
			v := eig.Values(nil)
			low := MinEig(a)
			margin := float64(d+8) * 0x1p-53 * mat.Trace(a)
			require.LessOrEqual(t, low, v[0]+margin)
			// EigenSym has an error of the size of the margin
			require.InDelta(t, v[0], low, 1e-10*v[0]+3*margin)
			require.LessOrEqual(t, MaxEig(a), v[d-1]*(1+1e-10))
			require.GreaterOrEqual(t, MaxEig(a), v[d-1]*(1-1e-14))
			ritz, residual := RitzMax(a)
			require.InEpsilon(t, v[d-1], ritz, 1e-10)
			require.LessOrEqual(t, residual, 1e-8*ritz)
		}
	}
}

// TestBlindStart checks matrices whose extreme eigenvector is orthogonal to the start of the
// Lanczos process, which cannot find it then. RitzMax is wrong there, but MaxEig and MinEig must
// not be.
func TestBlindStart(t *testing.T) {
	for _, d := range []int{2, 3, 40} {
		s := make([]float64, d)
		start(s)
		q := make([]float64, d) // q is orthogonal to s
		n := math.Hypot(s[0], s[1])
		q[0], q[1] = -s[1]/n, s[0]/n
		for _, c := range []float64{5, -0.5} { // the matrix is I + c q q'
			a := symmetric(d, func(i, j int) float64 {
				v := c * q[i] * q[j]
				if i == j {
					v++
				}
				return v
			})
			if c > 0 {
				ritz, _ := RitzMax(a)
				require.InDelta(t, 1, ritz, 1e-6)
			}
			bracket(t, a, min(1, 1+c), max(1, 1+c), 1e-14)
		}
	}
}

func TestEigDegenerate(t *testing.T) {
	require.Zero(t, MaxEig(new(mat.SymDense)))
	require.Zero(t, MinEig(new(mat.SymDense)))
	v, r := RitzMax(new(mat.SymDense))
	require.Zero(t, v+r)
	for _, x := range []float64{0, 3, -2, 5e-324, 1e300, math.MaxFloat64} {
		a := mat.NewSymDense(1, []float64{x})
		require.Equal(t, x, MaxEig(a))
		require.Equal(t, x, MinEig(a))
	}
	for _, d := range []int{1, 2, 5} {
		zero := mat.NewSymDense(d, nil)
		require.Zero(t, MaxEig(zero))
		require.Zero(t, MinEig(zero))
		v, r := RitzMax(zero)
		require.Zero(t, v+r)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			a := mat.NewSymDense(d, nil)
			a.SetSym(0, d-1, bad)
			require.Equal(t, math.Inf(1), MaxEig(a))
			require.Equal(t, math.Inf(-1), MinEig(a))
			v, _ := RitzMax(a)
			require.Equal(t, math.Inf(1), v)
		}
	}
}

// TestEigScales checks that multiplying a matrix by a power of two multiplies the bounds by it,
// over the whole range of float64.
func TestEigScales(t *testing.T) {
	a := mat.NewSymDense(6, nil)
	require.NoError(t, Wishart(a, 9, noise.Reproducible(8)))
	low, high := MinEig(a), MaxEig(a)
	for _, e := range []int{-900, -10, 3, 900} {
		b := mat.NewSymDense(6, nil)
		b.ScaleSym(math.Ldexp(1, e), a)
		require.InEpsilon(t, math.Ldexp(low, e), MinEig(b), 1e-15)
		require.InEpsilon(t, math.Ldexp(high, e), MaxEig(b), 1e-15)
	}
	huge := symmetric(3, func(i, j int) float64 { return math.MaxFloat64 })
	require.Equal(t, math.Inf(1), MaxEig(huge), "3·MaxFloat64 overflows: +Inf is an upper bound")
	tiny := symmetric(3, func(i, j int) float64 { return 5e-324 })
	require.GreaterOrEqual(t, MaxEig(tiny), 1.5e-323)
	require.LessOrEqual(t, MinEig(tiny), 0.)
	require.Greater(t, MinEig(tiny), -1e-300)
}

// TestNearlyZeroSpectrum checks a matrix for which the largest eigenvalue of -a is 6e-11 of its
// norm, and the Lanczos process stops early because rounding gives it an invariant subspace.
func TestNearlyZeroSpectrum(t *testing.T) {
	a := mat.NewSymDense(4, []float64{
		1, 1.6940658945086007e-21, 1.0587911840678754e-22, 1.9078906916547567e-06,
		1, 0, 5.421010862427522e-20, 5.820766091346741e-11,
		1, 1, -3.552720455064079e-15, 0,
		0, 0, 0, 8.271806125530277e-25})
	var eig mat.EigenSym
	require.True(t, eig.Factorize(a, false))
	v := eig.Values(nil)
	bracket(t, a, v[0], v[3], 1e-14)
	require.Less(t, MinEig(a), 0.)
}

// TestEigProperties compares the bounds with EigenSym on arbitrary matrices.
func TestEigProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 12).Draw(t, "d")
		entry := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Float64Range(-1e-8, 1e-8), rapid.Just(0.), rapid.Just(1.))
		x := rapid.SliceOfN(entry, d*d, d*d).Draw(t, "entries")
		for i, v := range x {
			if math.Abs(v) < 1e-60 { // EigenSym of gonum v0.17 panics on a matrix this small
				x[i] = 0
			}
		}
		a := mat.NewSymDense(d, x)
		var eig mat.EigenSym
		require.True(t, eig.Factorize(a, false))
		v := eig.Values(nil)
		bracket(t, a, v[0], v[d-1], 1e-14*float64(d))
	})
}

// TestMinEigAbove checks MinEigAbove, which tries to prove that λ_min is at least a given floor. A
// floor below λ_min is returned as the bound, a floor above gives the bound of MinEig, and no bound
// exceeds λ_min.
func TestMinEigAbove(t *testing.T) {
	src := rand.NewPCG(6, 1)
	rnd := rand.New(src)
	for range 50 {
		d := 2 + rnd.IntN(30)
		w := mat.NewSymDense(d, nil)
		require.NoError(t, Wishart(w, float64(d+rnd.IntN(4)), src))
		w.ScaleSym(math.Pow(10, 40*rnd.Float64()-20), w)
		least := MinEig(w)
		for _, share := range []float64{1e-3, 0.5, 0.99} {
			got := MinEigAbove(w, share*least)
			require.LessOrEqual(t, got, share*least)
			require.GreaterOrEqual(t, got, share*least-1e-12*w.Trace())
		}
		require.InEpsilon(t, 0.5*least, MinEigAbove(w, 0.5*least), 1e-2, "the bound must be the floor, not MinEig")
		for _, floor := range []float64{1.01 * least, 1e3 * least, 0, -1, math.NaN(), math.Inf(1)} {
			require.Equal(t, least, MinEigAbove(w, floor))
		}
	}
	require.Equal(t, math.Inf(-1), MinEigAbove(mat.NewSymDense(2, []float64{1, 0, 0, math.NaN()}), 0.5))
	require.Zero(t, MinEigAbove(new(mat.SymDense), 1))
	require.Equal(t, MinEig(mat.NewSymDense(1, []float64{3})), MinEigAbove(mat.NewSymDense(1, []float64{3}), 1))
	require.Negative(t, MinEigAbove(mat.NewSymDense(2, []float64{1, 2, 2, 1}), 0.5), "indefinite")
}

// TestMinEigAboveProves checks that the bound is at least (1-2⁻⁸) min(λ_min, floor), for floors
// below and above λ_min, even where the Lanczos process misses λ_min or rounding makes it find a
// smaller value.
func TestMinEigAboveProves(t *testing.T) {
	check := func(a *mat.SymDense, least float64) {
		t.Helper()
		for _, share := range []float64{1e-3, 0.9, 1 - 0x1p-12, 1, 1 + 1e-15, 1 + 0x1p-12, 1.01, 100, math.Inf(1)} {
			got := MinEigAbove(a, share*least)
			require.LessOrEqual(t, got, least*(1+1e-12))
			if d := float64(a.SymmetricDim()); least*min(1, share) < 1024*(d+8)*0x1p-53*a.Trace() {
				continue // the documentation promises nothing for eigenvalues this small
			}
			require.GreaterOrEqual(t, got, (1-0x1p-8)*least*min(1, share), "floor %v λ_min", share)
		}
	}
	for _, d := range []int{2, 3, 40} {
		s := make([]float64, d)
		start(s)
		n := math.Hypot(s[0], s[1])
		q := make([]float64, d) // q is orthogonal to the start of the Lanczos process
		q[0], q[1] = -s[1]/n, s[0]/n
		for _, least := range []float64{0.5, 1e-4, 1e-9} {
			check(symmetric(d, func(i, j int) float64 {
				v := (least - 1) * q[i] * q[j]
				if i == j {
					v++
				}
				return v
			}), least+1e-16)
		}
		// The matrix is diagonal, so that λ_min is exact.
		for _, least := range []float64{0.5, 1e-6, 0x1p-32} {
			check(symmetric(d, func(i, j int) float64 {
				if i != j {
					return 0
				}
				return max(least, float64(i))
			}), least)
		}
	}

	// Call raise directly, with starting values that are wrong by a factor.
	a := symmetric(5, func(i, j int) float64 {
		if i != j {
			return 0
		}
		return 3 + float64(i)
	})
	w, ok := newWork(a)
	require.True(t, ok)
	defer w.free()
	for _, factor := range []float64{1e-9, 0.5, 0.99, 1, 1.01, 2} {
		got := w.raise(factor*3/w.scale, 100/w.scale, -1e-9, true) * w.scale
		require.LessOrEqual(t, got, 3.)
		require.GreaterOrEqual(t, got, 3*(1-0x1p-8), "start %v λ_min", factor)
	}
	require.Less(t, w.raise(0.5*3/w.scale, 100/w.scale, -1e-9, false)*w.scale, 2.,
		"without the check the result depends on the start")
}
