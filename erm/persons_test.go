// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
)

// table is a table with ids, as a source too.
type table struct {
	x [][]float64
	y []float64
	w []string
}

func (t table) Dims() (records, features int) { return len(t.x), 3 }

func (t table) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		copy(rows[3*i:], t.x[first+i])
		labels[i] = t.y[first+i]
	}
	return nil
}

func (t table) ReadIDs(_ context.Context, ids []string, first int) error {
	copy(ids, t.w[first:])
	return nil
}

// crowd returns n lines of about n/6 persons, some of whom have many.
func crowd(n int, seed uint64) table {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var t table
	for range n {
		who := fmt.Sprintf("p%d", int(float64(n)/3*rnd.Float64()*rnd.Float64()))
		if rnd.IntN(20) == 0 {
			who = " \t"
		}
		x := []float64{rnd.NormFloat64() / 2, 0, rnd.NormFloat64()}
		if rnd.IntN(3) == 0 {
			x[1] = rnd.Float64()
		}
		t.x, t.y, t.w = append(t.x, x), append(t.y, float64(1-2*rnd.IntN(2))), append(t.w, who)
	}
	return t
}

func (t table) take(order []int) (out table) {
	for _, i := range order {
		out.x, out.y, out.w = append(out.x, t.x[i]), append(out.y, t.y[i]), append(out.w, t.w[i])
	}
	return out
}

var one = loss.Bounds{Row: 1, Label: 1}

func (t table) memory(tb testing.TB, sparse bool, p Persons) *Data {
	return t.faulty(tb, tb.Context(), sparse, p)
}

func (t table) faulty(tb testing.TB, ctx context.Context, sparse bool, p Persons) *Data {
	b, err := NewBuilder(3, sparse, one)
	require.NoError(tb, err)
	for i, x := range t.x {
		b.Add(x, t.y[i])
		if t.w[i] != "" {
			b.ID(t.w[i])
		}
	}
	d, err := b.ByPerson(ctx, p)
	require.NoError(tb, err)
	return d
}

func (t table) file(tb testing.TB, p Persons) *Data {
	d, err := OpenByPerson(tb.Context(), t, one, p)
	require.NoError(tb, err)
	return d
}

// lines returns the lines of d that count, with their weights.
func lines(t testing.TB, d *Data) (out []string) {
	require.NoError(t, d.each(t.Context(), func(a []float64, b, w float64, _ int) {
		if w > 0 {
			out = append(out, fmt.Sprintf("%x %x %x", a, b, w))
		}
	}))
	return out
}

var weightings = []Weighting{PersonsEqual, LinesEqual}

// k·w ≤ 1 for the real numbers, and hardly less.
func TestWeightsOfAPerson(t *testing.T) {
	for _, weighting := range weightings {
		for rows := 1; rows <= MaxRows; rows++ {
			w := Persons{Rows: rows, Weights: weighting}.weights(nil)
			require.Zero(t, w[0])
			for k := 1; k <= rows; k++ {
				if rows != MaxRows && k != rows {
					continue
				}
				sum := new(big.Rat).SetFloat64(w[k])
				sum.Mul(sum, big.NewRat(int64(k), 1))
				require.LessOrEqual(t, sum.Cmp(big.NewRat(1, 1)), 0)
				total, _ := sum.Float64()
				want := 1.0
				if weighting == LinesEqual {
					want = float64(k) / float64(rows)
				}
				require.InDelta(t, want, total, float64(k)*0x1p-52)
				require.Equal(t, 0.0, math.Mod(w[k], 0x1p-52), "a multiple, so that sums are exact")
			}
		}
	}
	ctx := fault.With(t.Context(), fault.LineWeight, func(w float64) float64 { return w + 0x1p-52 })
	require.Greater(t, 3*Persons{Rows: 3}.weights(fault.From(ctx))[3], 1.0, "the control")
}

// The order of lines changes no bit, in memory of either kind; a file keeps the same lines.
func TestPersonsAnyOrder(t *testing.T) {
	in := crowd(2000, 1)
	for _, weighting := range weightings {
		p := Persons{Rows: 4, Weights: weighting}
		dense, sparse := lines(t, in.memory(t, false, p)), lines(t, in.memory(t, true, p))
		require.Equal(t, dense, sparse)
		sorted := slices.Sorted(slices.Values(dense))
		file := lines(t, in.file(t, p))
		require.NotEqual(t, dense, file)
		require.Equal(t, sorted, slices.Sorted(slices.Values(file)))
		for seed := range uint64(3) {
			mixed := in.take(rand.New(rand.NewPCG(seed, 2)).Perm(len(in.x)))
			require.Equal(t, dense, lines(t, mixed.memory(t, false, p)))
			require.Equal(t, dense, lines(t, mixed.memory(t, true, p)))
			require.Equal(t, sorted, slices.Sorted(slices.Values(lines(t, mixed.file(t, p)))))
		}
		back := fault.With(t.Context(), fault.LineOrder, func(order []int) []int {
			slices.Sort(order)
			return order
		})
		a := lines(t, in.faulty(t, back, false, p))
		slices.Reverse(in.x)
		slices.Reverse(in.y)
		slices.Reverse(in.w)
		require.NotEqual(t, a, lines(t, in.faulty(t, back, false, p)), "the control keeps lines by their place")
	}
}

// A line more of one person changes the lines of nobody else, wherever it stands.
func TestPersonsAlone(t *testing.T) {
	in := crowd(300, 3)
	p := Persons{Rows: 3}
	of := func(in table, but string) []string {
		var rest table
		for i, who := range in.w {
			if strings.TrimSpace(who) != but {
				rest = rest.merge(in.take([]int{i}))
			}
		}
		return slices.Sorted(slices.Values(lines(t, rest.memory(t, false, p))))
	}
	require.NotEmpty(t, of(in, "p1"))
	without := slices.Sorted(slices.Values(lines(t, in.take(others(in, "p1")).memory(t, false, p))))
	require.Equal(t, of(in, "p1"), without)
	for at := range 8 {
		more := in.take(nil)
		cut := at * len(in.x) / 8
		more = more.merge(in.take(span(0, cut)))
		more = more.merge(table{[][]float64{{0.1, 0.2, float64(at) / 10}}, []float64{1}, []string{"p1"}})
		more = more.merge(in.take(span(cut, len(in.x))))
		for _, d := range []*Data{more.memory(t, false, p), more.memory(t, true, p), more.file(t, p)} {
			all := lines(t, d)
			for _, line := range without {
				require.Contains(t, all, line)
			}
			require.LessOrEqual(t, len(all), len(without)+3)
		}
	}
}

func (t table) merge(u table) table {
	return table{append(t.x, u.x...), append(t.y, u.y...), append(t.w, u.w...)}
}

func span(lo, hi int) (out []int) {
	for i := lo; i < hi; i++ {
		out = append(out, i)
	}
	return out
}

func others(t table, but string) (out []int) {
	for i, who := range t.w {
		if strings.TrimSpace(who) != but {
			out = append(out, i)
		}
	}
	return out
}

// A person with a million lines is a person: no error, and rows are counted nowhere. See also
// TestPermuteIsLinear.
func TestPersonWithAMillionLines(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	b, err := NewBuilder(1, false, one)
	require.NoError(t, err)
	for i := range n {
		b.Add([]float64{float64(i) / float64(n)}, 1)
		b.ID("one")
	}
	b.Add([]float64{0.5}, -1)
	b.ID("two")
	b.Add([]float64{0.7}, -1)
	data, err := b.ByPerson(t.Context(), Persons{Rows: 10})
	require.NoError(t, err)
	require.Equal(t, "erm.Data(2×1)", fmt.Sprint(data))
	require.Len(t, lines(t, data), 11)
	p := Problem{Data: data, Loss: loss.Logistic{}}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, []int{2, 2, 10}, []int{q.Records, int(q.MaxRecords), q.Rows})
	require.NoError(t, q.Admit(&p))
	require.Contains(t, q.Assumptions, OneID)
}

func TestHostileIDs(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	ids := []string{"a", " a\t", "", "  ", "\x00", "\x00\x00", "\xff\xfe", " \xff\xfe ", long, long + "y", "A"}
	in := table{w: ids}
	for i := range ids {
		in.x, in.y = append(in.x, []float64{float64(i) / 20, 0, 0}), append(in.y, 1)
	}
	for _, d := range []*Data{in.memory(t, false, Persons{Rows: 5}), in.file(t, Persons{Rows: 5})} {
		n, _ := d.Dims()
		require.Equal(t, 7, n)
		all := strings.Join(lines(t, d), "\n")
		require.Equal(t, 9, strings.Count(all, "\n")+1)
		require.Equal(t, 4, strings.Count(all, fmt.Sprintf(" %x", 0.5)), "a and \\xff\\xfe have two lines each")
	}
}

func TestPersonsRefusals(t *testing.T) {
	in := crowd(10, 1)
	for _, p := range []Persons{{}, {Rows: -1}, {Rows: MaxRows + 1}, {Rows: 2, Weights: 2}, {Rows: 2, Weights: -1}} {
		b, err := NewBuilder(3, false, one)
		require.NoError(t, err)
		_, err = b.ByPerson(t.Context(), p)
		require.ErrorIs(t, err, ErrData)
		_, err = OpenByPerson(t.Context(), in, one, p)
		require.ErrorIs(t, err, ErrData)
	}
	_, err := OpenByPerson(t.Context(), nil, one, Persons{Rows: 1})
	require.ErrorIs(t, err, ErrData)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = OpenByPerson(stopped, in, one, Persons{Rows: 1})
	require.ErrorIs(t, err, context.Canceled)
	b, err := NewBuilder(3, true, one)
	require.NoError(t, err)
	none, err := b.ByPerson(t.Context(), Persons{Rows: 1})
	require.NoError(t, err)
	n, d := none.Dims()
	require.Equal(t, []int{0, 3}, []int{n, d})
	_, ok := none.Persons()
	require.True(t, ok)
	_, ok = Pad(in, 7).(Identified)
	require.True(t, ok)
}

// weighted computes sums over lines and weights by hand.
func weighted(d *Data, l loss.Loss, x []float64) (value float64, grad []float64) {
	g := make([]float64, len(x))
	grad = make([]float64, len(x))
	_ = d.each(context.Background(), func(a []float64, b, w float64, _ int) {
		value += w * l.Func(x, a, b)
		l.Grad(g, x, a, b)
		floats.AddScaled(grad, w, g)
	})
	return value, grad
}

// Every sum over records has the weights: values, gradients of all kinds, Hessians, samples of
// records, bounds.
func TestWeightedSums(t *testing.T) {
	in := crowd(1500, 5)
	x := []float64{0.3, -1.2, 0.8}
	for _, weighting := range weightings {
		p := Persons{Rows: 5, Weights: weighting}
		for name, data := range map[string]*Data{
			"dense": in.memory(t, false, p), "sparse": in.memory(t, true, p), "file": in.file(t, p),
		} {
			for _, l := range []loss.Loss{
				loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.3}, inexact{}, general{loss.Logistic{}},
			} {
				t.Run(fmt.Sprintf("%v, %s, %T", weighting, name, l), func(t *testing.T) {
					prob := Problem{Data: data, Loss: l}
					obj := prob.Perturb(Perturbation{Quad: mat.NewDiagDense(3, []float64{1, 1, 1}), MinEig: 1, MaxEig: 1})
					value, grad := weighted(data, l, x)
					floats.Add(grad, x)
					require.InEpsilon(t, value+floats.Dot(x, x)/2, obj.Func(x), 1e-12)
					got, accurate := make([]float64, 3), make([]float64, 3)
					obj.Grad(got, x)
					require.InDeltaSlice(t, grad, got, 1e-10)
					allowance := obj.AccurateGrad(accurate, x)
					require.InDeltaSlice(t, grad, accurate, 1e-10)
					require.Less(t, allowance, 1e-6)
					require.InEpsilon(t, floats.Norm(grad, 2), obj.Residual(x), 1e-9)
					require.InEpsilon(t, floats.Norm(grad, 2), obj.ResidualWithin(x, 1e9), 1e-9)
					idx := span(0, obj.Len())
					obj.GradTerms(got, x, idx)
					require.InDeltaSlice(t, grad, got, 1e-9)
					units, _ := data.Dims()
					require.LessOrEqual(t, obj.Steepness(), (float64(units)*2+1)*1.01)
					if !obj.HasHessian() {
						return
					}
					h := new(mat.SymDense)
					obj.Hessian(h, x)
					top := make([]float64, 3)
					for j := range 3 {
						at := slices.Clone(x)
						at[j] += 1e-6
						_, up := weighted(data, l, at)
						at[j] -= 2e-6
						_, down := weighted(data, l, at)
						for k := range 3 {
							want := (up[k] - down[k]) / 2e-6
							if k == j {
								want++
							}
							require.InDelta(t, want, h.At(j, k), 1e-3*float64(units))
							if _, kinked := l.(loss.Huber); !kinked {
								require.InDelta(t, want, h.At(j, k), 1e-4)
							}
							top[j] += math.Abs(h.At(j, k))
						}
					}
					var eig mat.EigenSym
					require.True(t, eig.Factorize(h, false))
					require.LessOrEqual(t, eig.Values(nil)[2], obj.Smoothness()*(1+1e-12))
					q, lin, _, ok := obj.Quadratic()
					if ok {
						qx := make([]float64, 3)
						mat.NewVecDense(3, qx).MulVec(q, mat.NewVecDense(3, x))
						floats.Sub(qx, lin)
						require.InDeltaSlice(t, grad, qx, 1e-9)
					}
				})
			}
		}
	}
}

// inexact is a loss without exact slopes.
type inexact struct{ loss.Logistic }

func (inexact) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Logistic{}.Constants(b, radius)
}

// One line a person with weight 1 has the bits of records, up to their order.
func TestOneLineAPerson(t *testing.T) {
	in := crowd(400, 9)
	for i := range in.w {
		in.w[i] = fmt.Sprint(i)
	}
	data := in.memory(t, false, Persons{Rows: 1})
	plain, err := NewData(in.x, in.y, one)
	require.NoError(t, err)
	x := []float64{1, 2, -1}
	a := (&Problem{Data: data, Loss: loss.Logistic{}}).Perturb(Perturbation{})
	b := (&Problem{Data: plain, Loss: loss.Logistic{}}).Perturb(Perturbation{})
	g, h := make([]float64, 3), make([]float64, 3)
	a.AccurateGrad(g, x)
	b.AccurateGrad(h, x)
	require.Equal(t, h, g)
	require.Equal(t, a.Steepness(), b.Steepness())
}

// EachPerson adds up the lines of a person, and clamps the sum.
func TestEachPerson(t *testing.T) {
	in := crowd(500, 11)
	p := Persons{Rows: 6}
	add := func(dst []float64, w float64, a []float64, b float64) { floats.AddScaled(dst, w*b, a) }
	sums := func(ctx context.Context, d *Data, most float64) (out []string, longest float64) {
		require.NoError(t, d.EachPerson(ctx, 3, most, add, func(v []float64) {
			longest = max(longest, floats.Norm(v, 2))
			out = append(out, fmt.Sprintf("%.10f", v))
		}))
		slices.Sort(out)
		return out, longest
	}
	memory, file := in.memory(t, true, p), in.file(t, p)
	a, longest := sums(t.Context(), memory, 1)
	b, _ := sums(t.Context(), file, 1)
	require.Equal(t, a, b)
	n, _ := memory.Dims()
	require.Len(t, a, n)
	require.LessOrEqual(t, longest, 1.0)
	_, short := sums(t.Context(), memory, 0.25)
	require.LessOrEqual(t, short, 0.25)
	require.InDelta(t, 0.25, short, 1e-9)
	broken := fault.With(t.Context(), fault.PersonNorm, func(v [2]float64) [2]float64 {
		return [2]float64{min(v[1], 0.25)}
	})
	_, long := sums(broken, memory, 0.25)
	require.Greater(t, long, 0.26, "the control")
	plain, err := NewData(in.x, in.y, one)
	require.NoError(t, err)
	c, _ := sums(t.Context(), plain, 1)
	require.Len(t, c, len(in.x), "without persons every record is one")
}

// Map keeps weights and persons.
func TestMapOfPersons(t *testing.T) {
	in := crowd(300, 13)
	p := Persons{Rows: 2}
	for _, d := range []*Data{in.memory(t, false, p), in.memory(t, true, p), in.file(t, p)} {
		same := d.Map(func(_ []float64, b float64) (float64, bool) { return b, true })
		require.Equal(t, lines(t, d), lines(t, same))
		none := d.Map(func([]float64, float64) (float64, bool) { return 1, false })
		require.Len(t, lines(t, none), len(lines(t, d)))
		for _, line := range lines(t, none) {
			require.True(t, strings.HasPrefix(line, "[0x0p+00 0x0p+00 0x0p+00] 0x0p+00"), line)
		}
		_, ok := none.Persons()
		require.True(t, ok)
	}
}

// TestByPersonMemory checks that no record is held twice while the lines of persons are put beside
// each other. A row of 7 numbers and its label are 64 bytes, and id, order, weight and norm 38. All
// allocations count, with what the test itself makes of an id.
func TestByPersonMemory(t *testing.T) {
	const n = 200_000
	b, err := NewBuilder(7, false, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	row, id := make([]float64, 7), make([]byte, 8)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		row[i%7] = float64(i) / n
		b.Add(row, 1)
		binary.LittleEndian.PutUint64(id, uint64(i%(n/3)))
		b.ID(string(id))
	}
	_, err = b.ByPerson(t.Context(), Persons{Rows: 2})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, float64(after.TotalAlloc-before.TotalAlloc)/n, 200.0)
}
