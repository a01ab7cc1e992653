// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// tableSource is a Source in memory.
type tableSource struct {
	rows   [][]float64
	labels []float64
	reads  atomic.Int64 // the number of records that were read
	change func(first int, rows, labels []float64) error
}

func (s *tableSource) Dims() (n, d int) { return len(s.rows), len(s.rows[0]) }

func (s *tableSource) Read(_ context.Context, rows, labels []float64, first int) error {
	s.reads.Add(int64(len(labels)))
	d := len(s.rows[0])
	for k := range labels {
		copy(rows[k*d:(k+1)*d], s.rows[first+k])
		labels[k] = s.labels[first+k]
	}
	if s.change != nil {
		return s.change(first, rows, labels)
	}
	return nil
}

// fileOf returns a Source with the records of data, in their order.
func fileOf(data *Data) *tableSource {
	s := &tableSource{}
	for _, r := range every(data) {
		s.rows, s.labels = append(s.rows, r[:len(r)-1]), append(s.labels, r[len(r)-1])
	}
	return s
}

// values returns the results of all methods of an Objective at a point.
func values(o *Objective, x []float64) []float64 {
	d := len(x)
	g := make([]float64, d)
	out := []float64{o.Func(x), o.FuncGrad(g, x)}
	out = append(out, g...)
	o.Grad(g, x)
	out = append(out, g...)
	out = append(out, o.Residual(x), o.ResidualWithin(x, math.Inf(1)), o.Smoothness())
	if o.HasHessian() {
		var h mat.SymDense
		o.Hessian(&h, x)
		for i := range d {
			out = append(out, h.RawSymmetric().Data[i*d+i:(i+1)*d]...)
		}
		lo := make([]float64, d)
		out = append(out, o.ResidualPair(g, lo, x, make([]float64, d)))
		out = append(append(out, g...), lo...)
	}
	if q, lin, c, ok := o.Quadratic(); ok {
		out = append(append(append(out, q.At(0, d-1)), lin...), c)
	}
	return append(out, float64(o.Len()))
}

// TestSourceHasTheBitsOfMemory checks that records in memory, in a file and on any number of shards
// give results with the same bits.
func TestSourceHasTheBitsOfMemory(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {400, 3}, {9000, 5}, {40000, 2}, {17000, 90}} {
		n, d := size[0], size[1]
		data, x, qs := random(uint64(n), n, d)
		for i, l := range []loss.Loss{
			loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}, loss.Moreau{Loss: loss.Hinge{},
				Beta: 2}, general{smoothAbs{}},
		} {
			if (n > 9000 && i > 0 || d == 90) && !testkit.Long() {
				break
			}
			p := &Problem{Data: data, Loss: l, Reg: prox.L1{Weight: 0.5}}
			want := values(p.Perturb(qs[len(qs)-1]), x)
			check := func(src Source, name string) {
				p := *p
				var err error
				p.Data, err = Open(src, data.Bounds())
				require.NoError(t, err)
				o := p.Perturb(qs[len(qs)-1])
				got := values(o, x)
				require.NoError(t, o.Err())
				require.Equal(t, want, got, "%T %v %s", l, size, name)
			}
			file := fileOf(data)
			check(file, "file")
			if _, ok := l.(general); ok {
				continue // gob cannot encode this loss
			}
			for _, shards := range []int{1, 2, 3, 7, 1000} {
				check(sharded{tableSource: file, shards: shards, rnd: rand.New(rand.NewPCG(1, 1))}, fmt.Sprint(shards, " shards"))
			}
		}
	}
}

// TestWholePassesHaveTheSameBits checks that sums do not depend on whether a pass computes all of
// them. Only the bound on the curvature does: without a Gram matrix it is larger. It is not kept
// for another objective over the same records, whose steps, and so whose bits, would depend on it.
func TestWholePassesHaveTheSameBits(t *testing.T) {
	const smoothness = 2 + 6 + 6 + 2 // its place among the values
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 0.5}} {
		data, x, qs := random(5, 3000, 6)
		o := (&Problem{Data: data, Loss: l}).Perturb(qs[4])
		want := values(o, x)
		require.Equal(t, o.Smoothness(), want[smoothness])
		data, _, _ = random(5, 3000, 6)
		o = (&Problem{Data: data, Loss: l}).Perturb(qs[4])
		o.s().whole = true
		whole := values(o, x)
		require.Greater(t, whole[smoothness], want[smoothness])
		require.Equal(t, want, values((&Problem{Data: data, Loss: l}).Perturb(qs[4]), x))
		whole[smoothness] = want[smoothness]
		require.Equal(t, want, whole)
	}
}

// TestSourceIsForcedIntoItsBounds checks that records outside the declared bounds are clipped each
// time they are read from a source.
func TestSourceIsForcedIntoItsBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	rows := [][]float64{{3, 4}, {nan, 1}, {inf, -inf}, {0, math.Copysign(0, -1)}, {1e300, 1}, {0.1, 0.2}}
	labels := []float64{nan, 5, -inf, inf, 0.5, -7}
	b := loss.Bounds{Row: 1, Label: 2}
	memory, err := NewData(rows, labels, b)
	require.NoError(t, err)
	file, err := Open(&tableSource{rows: rows, labels: labels}, b)
	require.NoError(t, err)
	seen := map[[3]float64]int{}
	collect := func(by int) func(a []float64, b float64) {
		return func(a []float64, b float64) { seen[[3]float64{a[0], a[1], b}] += by }
	}
	require.NoError(t, file.Each(collect(1)))
	require.NoError(t, memory.Each(collect(-1)))
	for k, v := range seen {
		require.Zero(t, v, k)
	}
	for i := range rows {
		require.Equal(t, file.Row(i), file.Map(func([]float64, float64) (float64, bool) { return 1, true }).Row(i))
	}
	require.NoError(t, file.Err())
}

// TestSourceMap checks that Map has the same effect on the records of a source as on records in
// memory.
func TestSourceMap(t *testing.T) {
	data, x, _ := random(9, 700, 3)
	f := func(a []float64, b float64) (float64, bool) { a[2] = -a[2]; return a[0] - 3*b, a[1] > 0 }
	g := func(a []float64, b float64) (float64, bool) { return b/2 + 0.1, a[2] <= 0 }
	file, err := Open(sharded{tableSource: fileOf(data)}, data.Bounds())
	require.NoError(t, err)
	want := unperturbed(&Problem{Data: data.Map(f).Map(g), Loss: loss.Logistic{}})
	got := unperturbed(&Problem{Data: file.Map(f).Map(g), Loss: loss.Logistic{}})
	u, v := make([]float64, 3), make([]float64, 3)
	require.InDelta(t, want.FuncGrad(u, x), got.FuncGrad(v, x), 1e-9) // the sums run in another order
	require.NoError(t, got.Err())
	require.InDeltaSlice(t, u, v, 1e-9)
	require.InEpsilon(t, want.Residual(x), got.Residual(x), 1e-9)

	// Records that Map drops add nothing to the allowance.
	none, err := Open(fileOf(data), data.Bounds())
	require.NoError(t, err)
	none = none.Map(func([]float64, float64) (float64, bool) { return 0, false })
	o := unperturbed(&Problem{Data: none, Loss: loss.Logistic{}})
	require.Less(t, o.Residual(x), 1e-300)
}

// TestNoNegativeZero checks that −0 is stored as 0, so that records with equal numbers have equal
// bits.
func TestNoNegativeZero(t *testing.T) {
	zero := math.Copysign(0, -1)
	rows, labels, b := [][]float64{{zero, 0.5}, {zero, 3}}, []float64{zero, 1}, loss.Bounds{Row: 1, Label: 1}
	memory, err := NewData(rows, labels, b)
	require.NoError(t, err)
	file, err := Open(&tableSource{rows: rows, labels: labels}, b)
	require.NoError(t, err)
	for _, data := range []*Data{memory, file} {
		for i := range rows {
			for _, v := range append(data.Row(i), data.Label(i)) {
				require.False(t, v == 0 && math.Signbit(v))
			}
		}
	}
}

// TestSourceFails checks that every failure of a source gives an error and NaN, never a number.
func TestSourceFails(t *testing.T) {
	data, x, _ := random(7, 3*Chunk+100, 2)
	boom := errors.New("boom")
	passes := 0
	for name, spoil := range map[string]func(s *tableSource) Source{
		"error": func(s *tableSource) Source {
			s.change = func(first int, _, _ []float64) error {
				if first >= Chunk {
					return boom
				}
				return nil
			}
			return s
		},
		"a changed record": func(s *tableSource) Source {
			s.change = func(first int, rows, _ []float64) error {
				if first == 0 && passes > 0 {
					rows[1] += 1e-3
				}
				return nil
			}
			return s
		},
		"a changed label": func(s *tableSource) Source {
			s.change = func(first int, _, labels []float64) error {
				if first == 0 && passes > 0 {
					labels[5] = -labels[5] / 2
				}
				return nil
			}
			return s
		},
		"a shard lost": func(s *tableSource) Source {
			return sharded{s, 3, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte { return b[1:] }}
		},
		"all shards lost": func(s *tableSource) Source {
			return sharded{s, 3, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte { return nil }}
		},
		"a shard twice": func(s *tableSource) Source {
			return sharded{s, 3, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte { return append(b, b[0]) }}
		},
		"a shard twice for another": func(s *tableSource) Source {
			return sharded{s, 3, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte {
				if passes > 0 {
					b[1] = b[0]
				}
				return b
			}}
		},
		"cut bytes": func(s *tableSource) Source {
			return sharded{s, 2, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte { b[0] = b[0][:len(b[0])-9]; return b }}
		},
		"a flipped bit": func(s *tableSource) Source {
			return sharded{s, 2, rand.New(rand.NewPCG(1, 1)), func(b [][]byte) [][]byte { b[0][70] ^= 4; return b }}
		},
	} {
		passes = 0
		file, err := Open(spoil(fileOf(data)), data.Bounds())
		require.NoError(t, err)
		o := unperturbed(&Problem{Data: file, Loss: loss.Logistic{}})
		g := make([]float64, 2)
		o.Grad(g, x)
		passes++
		x[0]++
		o.Grad(g, x)
		require.ErrorIs(t, o.Err(), ErrSource, name)
		require.True(t, math.IsNaN(g[0]) && math.IsNaN(g[1]), name)
		require.True(t, math.IsNaN(o.Func(x)))
		require.Equal(t, math.Inf(1), o.Residual(x))
	}
}

// TestSourceFailureIsOfOneObjective checks that an Objective makes no more passes after a failure,
// and that the failure does not affect other objectives on the same data.
func TestSourceFailureIsOfOneObjective(t *testing.T) {
	data, x, _ := random(7, 2*Chunk, 2)
	src := fileOf(data)
	file, err := Open(src, data.Bounds())
	require.NoError(t, err)
	p := &Problem{Data: file, Loss: loss.Logistic{}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := p.PerturbContext(ctx, Perturbation{})
	require.Positive(t, o.Smoothness())
	require.ErrorIs(t, o.Err(), context.Canceled)

	boom := errors.New("boom")
	src.change = func(int, []float64, []float64) error { return boom }
	o = p.Perturb(Perturbation{})
	require.True(t, math.IsNaN(o.Func(x)))
	require.ErrorIs(t, o.Err(), boom)
	src.change = nil
	reads := src.reads.Load()
	x[0]++
	require.True(t, math.IsNaN(o.Func(x)))
	require.Equal(t, reads, src.reads.Load())

	o = p.Perturb(Perturbation{})
	require.InDelta(t, unperturbed(&Problem{Data: data, Loss: loss.Logistic{}}).Smoothness(), o.Smoothness(), 1e-6)
	require.NoError(t, o.Err())
}

// counting is a loss that counts the goroutines that call it at the same time.
type counting struct {
	loss.Logistic
	now, most *atomic.Int64
}

func (c counting) Scalar(u, b, norm float64) (phi, dphi, ddphi float64) {
	if now := c.now.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	defer c.now.Add(-1)
	runtime.Gosched()
	return c.Logistic.Scalar(u, b, norm)
}

// TestSourceKeepsThreads checks that with Threads = 1 the loss is called from one goroutine at a
// time, even while records are being read.
func TestSourceKeepsThreads(t *testing.T) {
	data, x, _ := random(7, 3*Chunk, 2)
	for _, threads := range []int{1, 0} {
		file, err := Open(fileOf(data), data.Bounds())
		require.NoError(t, err)
		c := counting{now: new(atomic.Int64), most: new(atomic.Int64)}
		o := unperturbed(&Problem{Data: file, Loss: c, Threads: threads})
		for range 200 {
			x[0] += 1e-3
			if o.Func(x); threads == 0 && c.most.Load() > 1 {
				break // the scheduler may take a while to run two goroutines at once
			}
		}
		require.NoError(t, o.Err())
		require.Equal(t, threads == 1, c.most.Load() == 1)
	}
}

// TestSourceTellsPairsApart checks that the cached sums of a double-double point are not used for
// another point with the same high part.
func TestSourceTellsPairsApart(t *testing.T) {
	data, x, _ := random(7, 600, 2)
	file, err := Open(fileOf(data), data.Bounds())
	require.NoError(t, err)
	kept := unperturbed(&Problem{Data: file, Loss: loss.Logistic{}})
	gradient := func(o *Objective, low []float64) []float64 {
		hi, lo := make([]float64, 2), make([]float64, 2)
		o.ResidualPair(hi, lo, x, low)
		return append(hi, lo...)
	}
	for _, low := range [][]float64{{0, 0}, {x[0] * 0x1p-55, 0}, {0, 0}, {0, -x[1] * 0x1p-55}} {
		want := gradient(unperturbed(&Problem{Data: file, Loss: loss.Logistic{}}), low)
		require.Equal(t, want, gradient(kept, low))
	}
	require.NoError(t, kept.Err())
}

// TestFingerprint checks that both sums of the fingerprint depend on every bit of every record and
// of its weight, and on the key.
func TestFingerprint(t *testing.T) {
	fingerprint := func(key uint64, x, y, weight float64) [2]uint64 {
		w := &window{rec: records{n: 2, d: 2, shift: oneSlab, slabs: []slab{
			{x: []float64{0.5, x, 0, 0}, y: []float64{1, y}, w: []float64{1, weight}},
		}}}
		return w.fingerprint(multipliersOf([2]uint64{key, 1}, 2))
	}
	seen := map[uint64]bool{}
	for _, p := range [][2]uint64{
		fingerprint(7, 0.25, 1, 1), fingerprint(8, 0.25, 1, 1), fingerprint(7, math.Nextafter(0.25, 1), 1, 1),
		fingerprint(7, 0.25, -1, 1), fingerprint(7, 0.25, math.Nextafter(1, 0), 1), fingerprint(7, 0.25, 1, 0.5),
		fingerprint(7, 0.25, 1, math.Nextafter(1, 0)),
	} {
		require.False(t, seen[p[0]] || seen[p[1]])
		seen[p[0]], seen[p[1]] = true, true
	}
}

// TestSample checks that the gradient of a sample approximates the gradient over all records, for
// data in memory and in a file.
func TestSample(t *testing.T) {
	rows, labels := make([][]float64, manyRecords+5), make([]float64, manyRecords+5)
	rnd := rand.New(rand.NewPCG(2, 3))
	for i := range rows {
		rows[i], labels[i] = []float64{1 - rnd.Float64()/4}, 1
		if rnd.IntN(3) == 0 {
			labels[i] = -1
		}
	}
	b := loss.Bounds{Row: 1, Label: 1}
	memory, err := NewData(rows, labels, b)
	require.NoError(t, err)
	file, err := Open(&tableSource{rows: rows, labels: labels}, b)
	require.NoError(t, err)
	for _, data := range []*Data{memory, file} {
		o := (&Problem{Data: data, Loss: loss.Logistic{}}).Perturb(Perturbation{Linear: []float64{1000}})
		sample, ok := o.Sample()
		require.True(t, ok)
		require.Less(t, sample.Len(), len(rows)/8+1)
		whole, part := make([]float64, 1), make([]float64, 1)
		o.Grad(whole, []float64{0})
		sample.Grad(part, []float64{0})
		// These are means of 65536 slopes of ±½; 0.1 is nine standard deviations.
		require.InEpsilon(t, whole[0], part[0], 0.1)
		require.NoError(t, o.Err())
		_, ok = sample.Sample()
		require.False(t, ok)
	}
	_, ok := unperturbed(&Problem{Data: memory, Loss: loss.Squared{}}).Sample()
	require.False(t, ok, "a quadratic loss needs one pass, so that a sample saves nothing")
}

// TestSourceStops checks that the end of the context stops a pass.
func TestSourceStops(t *testing.T) {
	data, x, _ := random(7, 2*Chunk, 2)
	ctx, cancel := context.WithCancel(context.Background())
	file, err := Open(&tableSource{rows: fileOf(data).rows, labels: fileOf(data).labels, change: func(int, []float64,
		[]float64) error {
		cancel()
		return nil
	}}, data.Bounds())
	require.NoError(t, err)
	o := (&Problem{Data: file, Loss: loss.Logistic{}, Threads: 1}).PerturbContext(ctx, Perturbation{})
	g := make([]float64, 2)
	o.Grad(g, x)
	x[0]++
	o.Grad(g, x)
	require.ErrorIs(t, o.Err(), context.Canceled)
}

// TestSourceFusesPasses checks that all that a solver computes at one point costs one pass over a
// source, and that both certificates together cost one more.
func TestSourceFusesPasses(t *testing.T) {
	data, x, _ := random(7, 2000, 2)
	for _, whole := range []bool{false, true} {
		src := fileOf(data)
		file, err := Open(src, data.Bounds())
		require.NoError(t, err)
		o := unperturbed(&Problem{Data: file, Loss: loss.Logistic{}})
		o.s().whole = whole
		g := make([]float64, 2)
		if whole { // the Hessian costs much: it is part of the pass if it is asked for first
			o.Hessian(mat.NewSymDense(2, nil), x)
		}
		o.Grad(g, x)
		o.ResidualWithin(x, math.Inf(1))
		if !whole {
			o.FuncGrad(g, x)
		}
		require.EqualValues(t, 2000, src.reads.Load())
		o.Residual(x)
		o.ResidualPair(g, make([]float64, 2), x, make([]float64, 2))
		require.EqualValues(t, 4000, src.reads.Load())
	}
}

// absurd is a source with dimensions that no file can have.
type absurd struct{ n, d int }

func (a absurd) Dims() (records, features int) { return a.n, a.d }

func (absurd) Read(context.Context, []float64, []float64, int) error {
	return errors.New("no such records")
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(nil, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, ErrData)
	_, err = Open(&tableSource{rows: [][]float64{{}}, labels: []float64{1}}, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, ErrData)
	for _, shape := range []absurd{{-1, 1}, {1<<40 + 1, 1}, {1 << 40, 1 << 21}, {1, 1 << 31}} {
		_, err = Open(shape, loss.Bounds{Row: 1, Label: 1})
		require.ErrorIs(t, err, ErrData)
	}
	_, err = Open(&tableSource{rows: [][]float64{{1}}, labels: []float64{1}}, loss.Bounds{Row: -1, Label: 1})
	require.ErrorIs(t, err, ErrData)
}
