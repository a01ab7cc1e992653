// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// csr returns rows in compressed sparse row form. It stores the nonzero entries, and a zero if keep
// returns true.
func csr(rows [][]float64, keep func() bool) (ptr, col []int, val []float64) {
	ptr = []int{0}
	for _, row := range rows {
		for j, v := range row {
			if v != 0 || keep() {
				col, val = append(col, j), append(val, v)
			}
		}
		ptr = append(ptr, len(val))
	}
	return ptr, col, val
}

// twins returns the same records as dense and as sparse data.
func twins(t require.TestingT, rows [][]float64, labels []float64, b loss.Bounds) (dense, sparse *Data) {
	dense, err := NewData(rows, labels, b)
	require.NoError(t, err)
	k := 0
	ptr, col, val := csr(rows, func() bool { k++; return k%3 == 0 })
	sparse, err = NewDataCSR(len(rows[0]), ptr, col, val, labels, b)
	require.NoError(t, err)
	return dense, sparse
}

// TestSparseHoldsTheSameRecords checks that dense and sparse data of the same input have the same
// records in the same order, bit for bit, and norms that agree to the last places.
func TestSparseHoldsTheSameRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "d")
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), anyFloat()), d, d).Draw(t, "row")
			labels[i] = anyFloat().Draw(t, "label")
		}
		dense, sparse := twins(t, rows, labels, loss.Bounds{Row: 2, Label: 1})
		require.Equal(t, every(dense), every(sparse))
		for i := range n {
			require.InEpsilon(t, 1+dense.r().norm(i), 1+sparse.r().norm(i), 1e-14)
			require.False(t, above(sparse.Row(i), 2))
			require.False(t, above(sparse.Row(i), sparse.r().norm(i)))
		}
		f := func(a []float64, b float64) (float64, bool) { return b - a[0], b >= 0 }
		require.Equal(t, every(dense.Map(f)), every(sparse.Map(f)))
	})
}

// oneHot returns records of a few categories each, as one-hot columns, scaled to norm 1.
func oneHot(seed uint64, n, categories, levels int) (rows [][]float64, labels []float64) {
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range n {
		row := make([]float64, categories*levels)
		for c := range categories {
			row[c*levels+rnd.IntN(levels)] = 1 / math.Sqrt(float64(categories))
		}
		rows = append(rows, row)
		labels = append(labels, float64(2*rnd.IntN(2)-1))
	}
	return rows, labels
}

// TestSparseAgreesWithDense checks that all results for sparse data agree with those for the same
// records stored densely: sums to the rounding of their terms, certificates to a few last places.
// Sparse results have the same bits at any number of threads.
func TestSparseAgreesWithDense(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, size := range []struct{ n, categories, levels int }{{1, 1, 1}, {50, 2, 3}, {4000, 7, 5}} {
		rows, labels := oneHot(1, size.n, size.categories, size.levels)
		if size.n == 50 {
			rows[3], rows[4] = make([]float64, 6), []float64{1, 2, 3, 4, 5, 6} // empty, and full
		}
		dense, sparse := twins(t, rows, labels, loss.Bounds{Row: 1, Label: 1})
		n, d := sparse.Dims()
		_, x, qs := random(2, 1, d)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.5}, general{smoothAbs{}}} {
			for _, q := range qs {
				p := Problem{Data: dense, Loss: l, Set: prox.Box{Lo: -100, Hi: 100}}
				a := p.Perturb(q)
				p.Data = sparse
				b := p.Perturb(q)
				p.Threads = 1
				c := p.Perturb(q)
				// The sums have n + d terms of size at most 10, each rounded to 2⁻⁵².
				tol := 1e-13 * float64(n+d)
				ga, gb, gc := make([]float64, d), make([]float64, d), make([]float64, d)
				a.Grad(ga, x)
				b.Grad(gb, x)
				c.Grad(gc, x)
				require.InDeltaSlice(t, ga, gb, tol)
				require.Equal(t, gb, gc)
				require.InDelta(t, a.Func(x), b.Func(x), 10*tol)
				require.Equal(t, b.Func(x), c.FuncGrad(gc, x))
				require.Equal(t, gb, gc)
				idx := []int{0, n - 1, n / 2}
				a.GradTerms(ga, x, idx)
				b.GradTerms(gb, x, idx)
				require.InDeltaSlice(t, ga, gb, tol)
				require.InEpsilon(t, a.Residual(x), b.Residual(x), 1e-12)
				require.InEpsilon(t, a.Smoothness(), b.Smoothness(), 1e-9)
				require.Equal(t, a.Modulus(), b.Modulus())
				if b.s().glm == nil {
					continue
				}
				var ha, hb, hc mat.SymDense
				a.Hessian(&ha, x)
				b.Hessian(&hb, x)
				c.Hessian(&hc, x)
				require.True(t, mat.EqualApprox(&ha, &hb, tol))
				require.True(t, mat.Equal(&hb, &hc))
				qa, la, ca, ok := a.Quadratic()
				if qb, lb, cb, also := b.Quadratic(); ok {
					require.True(t, also)
					require.True(t, mat.EqualApprox(qa, qb, tol))
					require.InDeltaSlice(t, la, lb, tol)
					require.InDelta(t, ca, cb, tol)
				}
			}
		}
	}
}

// TestSparseResidualIsABound checks that the certificate of sparse data is at least the residual
// computed in 400 bits.
func TestSparseResidualIsABound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 5))
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}} {
		for c := range 500 {
			p, q, lambda, lo, hi := instance(rnd, l)
			rows, labels := [][]float64(nil), []float64(nil)
			for _, r := range every(p.Data) {
				rows, labels = append(rows, r[:len(r)-1]), append(labels, r[len(r)-1])
				rows[len(rows)-1][rnd.IntN(len(r)-1)] = 0
			}
			ptr, col, val := csr(rows, func() bool { return false })
			var err error
			p.Data, err = NewDataCSR(len(rows[0]), ptr, col, val, labels, p.Data.Bounds())
			require.NoError(t, err)
			o := p.Perturb(q)
			x, bx := make([]float64, o.Dim()), make([]*big.Float, o.Dim())
			for j := range x {
				x[j] = min(max(rnd.NormFloat64(), lo), hi)
				bx[j] = bf(x[j])
			}
			exact := bdist(bgrad(p, q, bx), x, lambda, lo, hi)
			require.True(t, bf(o.Residual(x)).Cmp(exact) >= 0, "%T case %d", l, c)
		}
	}
}

func TestNewDataCSRErrors(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	for text, c := range map[string]struct {
		d        int
		ptr, col []int
		val, y   []float64
	}{
		"ptr is empty":                             {2, nil, nil, nil, nil},
		"1 rows and 2 labels":                      {2, []int{0, 0}, nil, nil, []float64{1, 2}},
		"0 features":                               {0, []int{0, 0}, nil, nil, []float64{1}},
		"2147483648 features":                      {1 << 31, []int{0, 0}, nil, nil, []float64{1}},
		"1 columns and 2 values":                   {2, []int{0, 2}, []int{0}, []float64{1, 2}, []float64{1}},
		"ptr runs from 1 to 2":                     {2, []int{1, 2}, []int{0, 1}, []float64{1, 2}, []float64{1}},
		"ptr runs from 0 to 1":                     {2, []int{0, 1}, []int{0, 1}, []float64{1, 2}, []float64{1}},
		"ptr decreases after row 1":                {2, []int{0, 2, 1, 2}, []int{0, 1}, []float64{1, 2}, []float64{1, 1, 1}},
		"ptr decreases after row 0":                {2, []int{0, 9, 2}, []int{0, 1}, []float64{1, 2}, []float64{1, 1}},
		"columns of row 0 do not increase from 0 ": {2, []int{0, 2}, []int{1, 1}, []float64{1, 2}, []float64{1}},
		"columns of row 0 do not increase":         {2, []int{0, 1}, []int{-1}, []float64{1}, []float64{1}},
		"of row 1 do not increase from 0 to at mo": {2, []int{0, 0, 1}, []int{2}, []float64{4711}, []float64{1, 1}},
	} {
		_, err := NewDataCSR(c.d, c.ptr, c.col, c.val, c.y, b)
		require.ErrorIs(t, err, ErrData, text)
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "4711")
	}
	_, err := NewDataCSR(2, []int{0, 0}, nil, nil, []float64{1}, loss.Bounds{})
	require.ErrorIs(t, err, loss.ErrBounds)
	// The arrays of the caller are neither changed nor kept.
	val, col := []float64{30, 40}, []int{0, 1}
	data, err := NewDataCSR(2, []int{0, 2}, col, val, []float64{7}, b)
	require.NoError(t, err)
	require.Equal(t, []float64{30, 40}, val)
	val[0], col[0] = 9, 9
	require.InDeltaSlice(t, []float64{0.6, 0.8}, data.Row(0), 1e-15)
	require.Equal(t, 1.0, data.Label(0))
	require.Equal(t, "erm.Data(1×2)", fmt.Sprintf("%+v", data))
}

// FuzzDataCSR checks that arrays with any contents are either refused or become records inside
// their bounds, with the same bits as the records stored densely.
func FuzzDataCSR(f *testing.F) {
	f.Add(3, []byte{0, 2, 3}, []byte{0, 2, 1}, []byte{1, 2, 3}, 1.0)
	f.Add(1, []byte{0, 1}, []byte{0}, []byte{255}, 1e-300)
	f.Add(2, []byte{0, 3, 1}, []byte{1, 1, 0}, []byte{9, 9, 9}, math.MaxFloat64)
	f.Add(0, []byte{}, []byte{}, []byte{}, math.NaN())
	special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e308, 5e-324, -1}
	f.Fuzz(func(t *testing.T, d int, ptr, col, val []byte, bound float64) {
		ints := func(b []byte) (out []int) {
			for _, v := range b {
				out = append(out, int(int8(v)))
			}
			return out
		}
		var x []float64
		for _, v := range val {
			if int(v) < len(special) {
				x = append(x, special[v])
			} else {
				x = append(x, math.Ldexp(float64(v), int(v%16)-8))
			}
		}
		d %= 1000
		labels := slices.Repeat([]float64{7}, max(len(ptr)-1, 0))
		p, c := ints(ptr), ints(col)
		data, err := NewDataCSR(d, p, c, x, labels, loss.Bounds{Row: bound, Label: 1})
		if err != nil {
			require.ErrorIs(t, err, ErrData)
			require.Nil(t, data)
			return
		}
		rows := make([][]float64, len(labels))
		for i := range rows {
			rows[i] = make([]float64, d)
			for k := p[i]; k < p[i+1]; k++ {
				rows[i][c[k]] = x[k]
			}
		}
		dense, err := NewData(rows, labels, loss.Bounds{Row: bound, Label: 1})
		require.NoError(t, err)
		require.Equal(t, every(dense), every(data))
		for i := range rows {
			require.False(t, above(data.Row(i), bound))
		}
	})
}

// TestSparseManyColumns checks that columns without entries cost no time and no memory.
func TestSparseManyColumns(t *testing.T) {
	data, err := NewDataCSR(math.MaxInt32, []int{0, 1, 2}, []int{math.MaxInt32 - 1, 0}, []float64{7, 1}, []float64{1, 1},
		loss.Bounds{Row: 5, Label: 1})
	require.NoError(t, err)
	require.Equal(t, "erm.Data(2×2147483647)", fmt.Sprint(data))
	sizes := []float64{data.r().norm(0), data.r().norm(1)}
	slices.Sort(sizes)
	require.InDeltaSlice(t, []float64{1, 5}, sizes, 1e-14)
}

// TestSparseMemory checks that sparse records take 12 bytes for each entry and 24 for each record,
// apart from unused space in the last slab (block of memory).
func TestSparseMemory(t *testing.T) {
	rows, labels := oneHot(9, 20000, 5, 20)
	ptr, col, val := csr(rows, func() bool { return false })
	data, err := NewDataCSR(100, ptr, col, val, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	bytes := 0
	for _, s := range data.r().slabs {
		bytes += 8*cap(s.x) + 4*cap(s.col) + 8*(cap(s.ptr)+cap(s.y)+cap(s.norm))
	}
	require.LessOrEqual(t, float64(bytes), 1.2*(12*5+24)*20000)
}

func BenchmarkOneHot(b *testing.B) {
	rows, labels := oneHot(1, 48842, 12, 9)
	ptr, col, val := csr(rows, func() bool { return false })
	bounds := loss.Bounds{Row: 1, Label: 1}
	dense, err := NewData(rows, labels, bounds)
	require.NoError(b, err)
	sparse, err := NewDataCSR(108, ptr, col, val, labels, bounds)
	require.NoError(b, err)
	x := slices.Repeat([]float64{0.1}, 108)
	g, h := make([]float64, 108), mat.NewSymDense(108, nil)
	for name, data := range map[string]*Data{"dense": dense, "sparse": sparse} {
		o := unperturbed(&Problem{Data: data, Loss: loss.Squared{}, Threads: 1})
		l := unperturbed(&Problem{Data: data, Loss: loss.Logistic{}, Threads: 1})
		for what, f := range map[string]func(){
			"Grad":     func() { o.Grad(g, x) },
			"Hessian":  func() { l.Hessian(h, x) },
			"Residual": func() { o.Residual(x) },
		} {
			b.Run(fmt.Sprintf("%s/rows=%s/n=48842/d=108", what, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
	}
}
