package erm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// table is a Source in memory.
type tableSource struct {
	rows   [][]float64
	labels []float64
	reads  atomic.Int64 // records
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

// fileOf returns the records of data in their order.
func fileOf(data *Data) *tableSource {
	s := &tableSource{}
	for _, r := range every(data) {
		s.rows, s.labels = append(s.rows, r[:len(r)-1]), append(s.labels, r[len(r)-1])
	}
	return s
}

// sharded is a Remote that sums shards in a random tree, through bytes.
type sharded struct {
	*tableSource
	shards int
	rnd    *rand.Rand
	spoil  func(parts [][]byte) [][]byte
}

func (s sharded) Sum(ctx context.Context, q *Query) (*Sums, error) {
	n, _ := s.Dims()
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, err
	}
	chunks := (n + Chunk - 1) / Chunk
	var parts [][]byte
	for k := range s.shards {
		lo, hi := k*chunks/s.shards*Chunk, min((k+1)*chunks/s.shards*Chunk, n)
		var there Query
		if err := there.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		part, err := there.Sum(ctx, s.tableSource, min(lo, hi), max(hi-lo, 0), 1+s.rnd.IntN(3))
		if err != nil {
			return nil, err
		}
		text, err := part.MarshalBinary()
		if err != nil {
			return nil, err
		}
		parts = append(parts, text)
	}
	s.rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	if s.spoil != nil {
		parts = s.spoil(parts)
	}
	sums := make([]*Sums, len(parts))
	for i := range parts {
		sums[i] = new(Sums)
		if err := sums[i].UnmarshalBinary(parts[i]); err != nil {
			return nil, err
		}
	}
	for len(sums) > 1 {
		i := s.rnd.IntN(len(sums) - 1)
		if err := sums[i].Merge(sums[i+1]); err != nil {
			return nil, err
		}
		sums = slices.Delete(sums, i+1, i+2)
	}
	if len(sums) == 0 {
		return nil, nil
	}
	return sums[0], nil
}

// values returns all that an Objective says of a point.
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

// Records in memory, in a file and on any number of shards give the same bits.
func TestSourceHasTheBitsOfMemory(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {400, 3}, {9000, 5}, {40000, 2}, {17000, 90}} {
		n, d := size[0], size[1]
		data, x, qs := random(uint64(n), n, d)
		for _, l := range []loss.Loss{
			loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}, loss.Moreau{Loss: loss.Hinge{}, Beta: 2}, general{smoothAbs{}},
		} {
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
				continue // gob does not know it
			}
			for _, shards := range []int{1, 2, 3, 7, 1000} {
				check(sharded{tableSource: file, shards: shards, rnd: rand.New(rand.NewPCG(1, 1))}, fmt.Sprint(shards, " shards"))
			}
		}
	}
}

// The bits of an Objective that makes whole passes are those of one that does not.
func TestWholePassesHaveTheSameBits(t *testing.T) {
	data, x, qs := random(5, 3000, 6)
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 0.5}} {
		o := (&Problem{Data: data, Loss: l}).Perturb(qs[4])
		want := values(o, x)
		o = (&Problem{Data: data, Loss: l}).Perturb(qs[4])
		o.s().whole = true
		require.Equal(t, want, values(o, x))
	}
}

// A source that gives out other bounds than declared is forced into them at every read.
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

// Map makes of the records of a source what it makes of those in memory.
func TestSourceMap(t *testing.T) {
	data, x, _ := random(9, 700, 3)
	f := func(a []float64, b float64) (float64, bool) { a[2] = -a[2]; return a[0] - 3*b, a[1] > 0 }
	g := func(a []float64, b float64) (float64, bool) { return b/2 + 0.1, a[2] <= 0 }
	file, err := Open(sharded{tableSource: fileOf(data)}, data.Bounds())
	require.NoError(t, err)
	want := (&Problem{Data: data.Map(f).Map(g), Loss: loss.Logistic{}}).Perturb(Perturbation{})
	got := (&Problem{Data: file.Map(f).Map(g), Loss: loss.Logistic{}}).Perturb(Perturbation{})
	u, v := make([]float64, 3), make([]float64, 3)
	require.InDelta(t, want.FuncGrad(u, x), got.FuncGrad(v, x), 1e-9) // another order
	require.NoError(t, got.Err())
	require.InDeltaSlice(t, u, v, 1e-9)
}

// Whatever goes wrong with a source is an error, and no number.
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
		o := (&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{})
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

// After a failure there are no other passes, and nothing of it stays with the data.
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
	require.InDelta(t, (&Problem{Data: data, Loss: loss.Logistic{}}).Perturb(Perturbation{}).Smoothness(), o.Smoothness(), 1e-6)
	require.NoError(t, o.Err())
}

// counting is a loss that counts how many goroutines call it at a time.
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

// With Threads = 1 the loss is called from one goroutine at a time, also where records are read.
func TestSourceKeepsThreads(t *testing.T) {
	data, x, _ := random(7, 3*Chunk, 2)
	for _, threads := range []int{1, 0} {
		file, err := Open(fileOf(data), data.Bounds())
		require.NoError(t, err)
		c := counting{now: new(atomic.Int64), most: new(atomic.Int64)}
		o := (&Problem{Data: file, Loss: c, Threads: threads}).Perturb(Perturbation{})
		for range 200 {
			x[0] += 1e-3
			if o.Func(x); threads == 0 && c.most.Load() > 1 {
				break // the scheduler may be in no hurry
			}
		}
		require.NoError(t, o.Err())
		require.Equal(t, threads == 1, c.most.Load() == 1)
	}
}

// keeping is a Remote that keeps the first query, and writes it from several goroutines.
type keeping struct {
	*tableSource
	q *Query
}

func (k *keeping) Sum(ctx context.Context, q *Query) (*Sums, error) {
	if k.q == nil {
		k.q = q
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = q.MarshalBinary() })
	}
	wg.Wait()
	return q.Sum(ctx, k.tableSource, 0, len(k.rows), 1)
}

// A query stays what it was after the pass.
func TestQueryIsKept(t *testing.T) {
	data, x, _ := random(7, 700, 2)
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Squared{}} {
		k := &keeping{tableSource: fileOf(data)}
		file, err := Open(k, data.Bounds())
		require.NoError(t, err)
		o := (&Problem{Data: file, Loss: l}).Perturb(Perturbation{})
		x, g := slices.Clone(x), make([]float64, 2)
		if _, _, _, ok := o.Quadratic(); !ok {
			o.Grad(g, x)
		}
		bytes := func(q *Query) []byte {
			sums, err := q.Sum(t.Context(), k.tableSource, 0, len(k.rows), 1)
			require.NoError(t, err)
			b, err := sums.MarshalBinary()
			require.NoError(t, err)
			return b
		}
		want, err := k.q.MarshalBinary()
		require.NoError(t, err)
		sums := bytes(k.q)
		for range 3 {
			x[0]++
			o.Grad(g, x)
			NewUnperturbed(&Problem{Data: data, Loss: loss.Huber{Delta: 1}}).Grad(g, x) // takes what the pool has
		}
		got, err := k.q.MarshalBinary()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, sums, bytes(k.q))
		var read Query
		require.NoError(t, read.UnmarshalBinary(got))
		require.Equal(t, sums, bytes(&read))
	}
}

// replaying is a Remote that answers with the sums of an earlier query.
type replaying struct {
	*tableSource
	first *Sums
}

func (r *replaying) Sum(ctx context.Context, q *Query) (*Sums, error) {
	if r.first != nil {
		return r.first, nil
	}
	var err error
	r.first, err = q.Sum(ctx, r.tableSource, 0, len(r.rows), 1)
	return r.first, err
}

// Sums at another point are no answer, and do not merge: nothing but the query tells them apart.
func TestSumsOfAnotherQuery(t *testing.T) {
	data, x, _ := random(7, 20, 2)
	r := &replaying{tableSource: fileOf(data)}
	file, err := Open(r, data.Bounds())
	require.NoError(t, err)
	o, g := (&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{}), make([]float64, 2)
	o.Grad(g, x)
	require.NoError(t, o.Err())
	first := r.first
	x[0]++
	o.Grad(g, x)
	require.ErrorIs(t, o.Err(), ErrSource)

	r.first = nil
	(&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{}).Grad(g, x)
	require.ErrorContains(t, first.Merge(r.first), "different queries")
}

// A pass that is kept for a point does not answer for another point of twice the precision next to it.
func TestSourceTellsPairsApart(t *testing.T) {
	data, x, _ := random(7, 600, 2)
	file, err := Open(fileOf(data), data.Bounds())
	require.NoError(t, err)
	kept := (&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{})
	gradient := func(o *Objective, low []float64) []float64 {
		hi, lo := make([]float64, 2), make([]float64, 2)
		o.ResidualPair(hi, lo, x, low)
		return append(hi, lo...)
	}
	for _, low := range [][]float64{{0, 0}, {x[0] * 0x1p-55, 0}, {0, 0}, {0, -x[1] * 0x1p-55}} {
		want := gradient((&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{}), low)
		require.Equal(t, want, gradient(kept, low))
	}
	require.NoError(t, kept.Err())
}

// A sample is about the whole, in memory as in a file.
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
		require.InEpsilon(t, whole[0], part[0], 0.1) // the mean of 65536 slopes of ±½: nine standard deviations
		require.NoError(t, o.Err())
		_, ok = sample.Sample()
		require.False(t, ok)
	}
	_, ok := (&Problem{Data: memory, Loss: loss.Squared{}}).Perturb(Perturbation{}).Sample()
	require.False(t, ok, "one pass is enough")
}

// A context that ends stops a pass.
func TestSourceStops(t *testing.T) {
	data, x, _ := random(7, 2*Chunk, 2)
	ctx, cancel := context.WithCancel(context.Background())
	file, err := Open(&tableSource{rows: fileOf(data).rows, labels: fileOf(data).labels, change: func(int, []float64, []float64) error {
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

// What a solver asks of a point of a source costs one pass.
func TestSourceFusesPasses(t *testing.T) {
	data, x, _ := random(7, 2000, 2)
	for _, whole := range []bool{false, true} {
		src := fileOf(data)
		file, err := Open(src, data.Bounds())
		require.NoError(t, err)
		o := (&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{})
		o.s().whole = whole
		g := make([]float64, 2)
		o.Grad(g, x)
		o.ResidualWithin(x, math.Inf(1))
		if whole {
			o.Hessian(mat.NewSymDense(2, nil), x)
		} else {
			o.FuncGrad(g, x)
		}
		require.EqualValues(t, 2000, src.reads.Load())
		o.Residual(x)
		o.ResidualPair(g, make([]float64, 2), x, make([]float64, 2))
		require.EqualValues(t, 4000, src.reads.Load())
	}
}

// absurd is a source of a shape that no file has.
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

// Queries and sums do not print what they hold.
func TestQueryAndSumsPrintNothing(t *testing.T) {
	data, _, _ := random(7, 20, 2)
	var seen string
	file, err := Open(spying{fileOf(data), &seen}, data.Bounds())
	require.NoError(t, err)
	o := (&Problem{Data: file, Loss: loss.Logistic{}}).Perturb(Perturbation{})
	o.Grad(make([]float64, 2), []float64{0.123456789, 0.987654321})
	require.NoError(t, o.Err())
	require.NotEmpty(t, seen)
	require.NotContains(t, seen, "0.1234")
	require.NotContains(t, seen, "0.9876")
}

type spying struct {
	*tableSource
	seen *string
}

func (s spying) Sum(ctx context.Context, q *Query) (*Sums, error) {
	sums, err := q.Sum(ctx, s.tableSource, 0, len(s.rows), 1)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		*s.seen += fmt.Sprintf(verb, q) + fmt.Sprintf(verb, *q) + fmt.Sprintf(verb, sums) +
			fmt.Sprintf(verb, *sums) + fmt.Sprintf(verb, struct{ s Sums }{*sums})
	}
	return sums, err
}

func TestQueryRefuses(t *testing.T) {
	var q Query
	_, err := q.MarshalBinary()
	require.Error(t, err)
	require.Error(t, q.UnmarshalBinary([]byte("nothing of the kind")))
	whole, err := newCosts(loss.Logistic{}, loss.Bounds{Row: 1, Label: 1}, 1).asking()
	require.NoError(t, err)
	for _, r := range [][2]int{{Chunk, math.MaxInt}, {math.MaxInt - Chunk + 1, math.MaxInt}, {-Chunk, 1}, {0, 2}, {0, -1}, {1, 0}} {
		_, err = whole.Sum(context.Background(), &tableSource{rows: [][]float64{{1}}, labels: []float64{1}}, r[0], r[1], 0)
		require.ErrorIs(t, err, ErrSource, r)
	}
	_, err = q.Sum(context.Background(), &tableSource{rows: [][]float64{{1}}, labels: []float64{1}}, 0, 1, 0)
	require.Error(t, err)
	var s Sums
	_, err = s.MarshalBinary()
	require.Error(t, err)
	require.Error(t, s.Merge(nil))
	require.Error(t, s.UnmarshalBinary(nil))
}

// asking returns a Query for the value at 0.
func (c costs) asking() (*Query, error) {
	return (&query{costs: c, ask: askValue, x: make([]float64, c.dim), grain: grain}).sealed()
}
