// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// above reports ‖row‖₂ > bound in rational arithmetic.
func above(row []float64, bound float64) bool {
	sum, x := new(big.Rat), new(big.Rat)
	for _, v := range row {
		x.SetFloat64(v)
		sum.Add(sum, new(big.Rat).Mul(x, x))
	}
	x.SetFloat64(bound)
	return sum.Cmp(x.Mul(x, x)) > 0
}

// anyFloat draws from all of float64, with a positive probability of NaN, infinities, subnormal and
// huge values.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(-3, 3),
		rapid.Map(rapid.Uint64(), math.Float64frombits),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, 0.6, 0.8, 5, math.Inf(1), math.Inf(-1), math.NaN(),
			math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 1e300, 1e-300, 1e154, 1e-162}),
	)
}

func TestForceRowStaysInsideExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.OneOf(
			rapid.Float64Range(1e-3, 10),
			rapid.SampledFrom([]float64{1, 5, math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-1000, 0x1p1000,
				1e300, 1e-300}),
		).Draw(t, "bound")
		row := rapid.SliceOfN(anyFloat(), 1, 12).Draw(t, "row")
		in := append([]float64(nil), row...)
		forceRow(row, make([]float64, len(row)), bound)
		for _, v := range row {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		}
		require.False(t, above(row, bound), "row %v -> %v above %v", in, row, bound)

		// A clipped row is inside the bound, so that clipping again leaves it unchanged.
		again := append([]float64(nil), row...)
		forceRow(again, make([]float64, len(row)), bound)
		require.Equal(t, row, again)

		// Rows inside the bound are unchanged, except that NaN becomes 0.
		finite := true
		for i, v := range in {
			if math.IsNaN(v) {
				in[i] = 0
			}
			finite = finite && !math.IsInf(v, 0)
		}
		if finite && !above(in, bound) {
			require.Equal(t, in, row)
		}
	})
}

// TestSide checks the fast comparison of ‖row‖ with a bound. side never gives a wrong answer, and
// gives no answer (0) only where the two agree within a few roundings.
func TestSide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, d := range []int{1, 2, 3, 50, 1000} {
		row := make([]float64, d)
		for _, bound := range []float64{1, 0.3, 0x1p-440, 0x1p440, 0x1p-460, math.MaxFloat64, 5e-324} {
			for range testkit.Of(10, 40) {
				for j := range row {
					row[j] = rnd.NormFloat64()
				}
				room := float64(d+16) * 0x1p-52
				by := 2 * room * (2*rnd.Float64() - 1) // ‖row‖ is about bound·(1 + by)
				scale := bound / floats.Norm(row, 2) * (1 + by)
				if scale > 1e300 || scale < 1e-300 {
					scale, by = bound/8, math.Inf(1)
				}
				floats.Scale(scale, row)
				exact := above(row, bound)
				require.Equal(t, exact, exceeds(row, bound), "d = %d, bound %v", d, bound)
				got := side(squares(row), len(row), bound)
				require.False(t, got < 0 && exact || got > 0 && !exact, "d = %d, bound %v", d, bound)
				if math.Abs(by) > room && bound*bound > 0x1p-900 && bound*bound < 0x1p900 {
					require.NotZero(t, got, "d = %d, bound %v, %v off", d, bound, by)
				}
			}
		}
	}
}

// TestForceRowKeepsDirection checks that clipping a row to a bound keeps its direction: every entry
// is right to a few units in the last place, at any scale.
func TestForceRowKeepsDirection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 8).Draw(t, "dir")
		dir[0] = 1
		// Subnormal entries are left out, because they have too few digits to keep a direction.
		e := rapid.IntRange(0, 900).Draw(t, "e")
		row := make([]float64, len(dir))
		for j, v := range dir {
			row[j] = math.Ldexp(v, 100+e)
		}
		const bound = 5.0
		forceRow(row, make([]float64, len(row)), bound)
		var norm float64
		for _, v := range dir {
			norm += v * v
		}
		norm = math.Sqrt(norm)
		for j, v := range dir {
			// The two computations differ by at most 8 roundings.
			require.InDelta(t, v/norm*bound, row[j], 8*0x1p-53*bound)
		}
	})
}

func TestForceRecord(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct{ in, want []float64 }{
		{[]float64{3, 4}, []float64{3, 4}},
		{[]float64{6, 8}, []float64{3, 4}},
		{[]float64{nan, 4}, []float64{0, 4}},
		{[]float64{inf, 1e300, nan}, []float64{5, 0, 0}},
		{[]float64{inf, -inf, 0, 2, inf}, []float64{5 / math.Sqrt(3), -5 / math.Sqrt(3), 0, 0, 5 / math.Sqrt(3)}},
		{[]float64{3e300, -4e300}, []float64{3, -4}},
		{[]float64{3e-320, 4e-320}, []float64{3e-320, 4e-320}},
		{[]float64{0, 0}, []float64{0, 0}},
		{[]float64{5, math.SmallestNonzeroFloat64}, []float64{math.Nextafter(5, 0), 0}},
	} {
		row := append([]float64(nil), c.in...)
		forceRow(row, make([]float64, len(row)), 5)
		require.InDeltaSlice(t, c.want, row, 4e-15) // 4e-15 is a few units in the last place of 5
		require.False(t, above(row, 5))
	}
	for _, c := range []struct{ in, want float64 }{{1, 1}, {3, 2}, {-3, -2}, {inf, 2}, {-inf, -2}, {nan, 0}} {
		require.Equal(t, c.want, forceLabel(c.in, 2))
	}
}

func TestNewData(t *testing.T) {
	b := loss.Bounds{Row: 5, Label: 2}
	rows := [][]float64{{3, 4}, {30, 40}, {math.NaN(), 1}}
	labels := []float64{1, 7, math.NaN()}
	data, err := NewData(rows, labels, b)
	require.NoError(t, err)
	n, d := data.Dims()
	require.Equal(t, []int{3, 2}, []int{n, d})
	require.Equal(t, b, data.Bounds())
	require.ElementsMatch(t, [][]float64{{3, 4, 1}, {3, 4, 2}, {0, 1, 0}}, every(data))
	require.Equal(t, []float64{30, 40}, rows[1], "the caller's rows must not change")

	same, err := NewDataDense(mat.NewDense(3, 2, []float64{3, 4, 30, 40, math.NaN(), 1}), labels, b)
	require.NoError(t, err)
	require.Equal(t, every(data), every(same))
	first := data.Row(0)[0]
	data.Row(0)[0] = 99
	require.Equal(t, first, data.Row(0)[0], "Row returns a copy")
}

// every returns the records in the order of data, each as its row followed by its label.
func every(data *Data) (all [][]float64) {
	n, _ := data.Dims()
	for i := range n {
		all = append(all, append(data.Row(i), data.Label(i)))
	}
	return all
}

func TestNewDataErrors(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	one := [][]float64{{1}}
	for name, c := range map[string]struct {
		rows   [][]float64
		labels []float64
		b      loss.Bounds
		text   string
	}{
		"nil":       {nil, nil, b, "no records"},
		"empty":     {[][]float64{{}}, []float64{1}, b, "no features"},
		"nil row":   {[][]float64{{1}, nil}, []float64{1, 1}, b, "rows[1] has 0 features"},
		"ragged":    {[][]float64{{1}, {1, 2}}, []float64{1, 1}, b, "rows[1] has 2 features, rows[0] has 1"},
		"labels":    {one, []float64{1, 2}, b, "1 rows and 2 labels"},
		"no bounds": {one, []float64{1}, loss.Bounds{}, "Row = 0"},
		"NaN bound": {one, []float64{1}, loss.Bounds{Row: 1, Label: math.NaN()}, "Label = NaN"},
	} {
		_, err := NewData(c.rows, c.labels, c.b)
		require.ErrorIs(t, err, ErrData, name)
		require.ErrorContains(t, err, c.text, name)
	}
	_, err := NewDataDense(nil, nil, b)
	require.ErrorIs(t, err, ErrData)
	_, err = NewDataDense((*mat.Dense)(nil), nil, b)
	require.ErrorContains(t, err, "the matrix of rows is nil")
	_, err = NewDataDense(&mat.Dense{}, nil, b)
	require.ErrorIs(t, err, ErrData)
	_, err = NewDataDense(mat.NewDense(1, 1, nil), []float64{1, 2}, b)
	require.ErrorIs(t, err, ErrData)
	_, err = NewDataDense(columnless{}, []float64{1}, b)
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "no features")
}

// columnless is a matrix of one row and no columns.
type columnless struct{ mat.Matrix }

func (columnless) Dims() (r, c int) { return 1, 0 }

// TestNeighborsStayNeighbors checks that two inputs that differ in one record give data that differ
// in one record at most.
func TestNeighborsStayNeighbors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = rapid.SliceOfN(anyFloat(), 3, 3).Draw(t, "row")
			labels[i] = anyFloat().Draw(t, "label")
		}
		b := loss.Bounds{Row: 2, Label: 1}
		one, err := NewData(rows, labels, b)
		require.NoError(t, err)
		k := rapid.IntRange(0, n-1).Draw(t, "k")
		rows[k], labels[k] = rapid.SliceOfN(anyFloat(), 3, 3).Draw(t, "other"), anyFloat().Draw(t, "other label")
		two, err := NewData(rows, labels, b)
		require.NoError(t, err)
		left := every(two)
		for _, record := range every(one) {
			if i := slices.IndexFunc(left, func(r []float64) bool { return slices.Equal(r, record) }); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
		require.LessOrEqual(t, len(left), 1, "the data sets differ in more than one record")
		for i := range n {
			require.LessOrEqual(t, math.Abs(two.Label(i)), 3.0)
		}
	})
}

// TestNormAbove checks that the stored norm is an upper bound even where underflow makes computed
// norms lose digits.
func TestNormAbove(t *testing.T) {
	for _, scale := range []float64{1, 0x1p-1000, 0x1p-1070, math.SmallestNonzeroFloat64} {
		for d := 1; d < 40; d++ {
			row := make([]float64, d)
			for j := range row {
				row[j] = scale * float64(1+j%3)
			}
			require.False(t, above(row, normAbove(row, 1e3)), "scale %v, d = %d", scale, d)
			require.LessOrEqual(t, normAbove(row, 1e3), 3*scale*math.Sqrt(float64(d))*(1+1e-14)+4*math.SmallestNonzeroFloat64)
		}
	}
	require.Zero(t, normAbove([]float64{0, 0}, 1))
	require.Equal(t, 0.5, normAbove([]float64{0.5}, 0.5), "at most the bound")
}

func TestMap(t *testing.T) {
	data, err := NewData([][]float64{{1, 0}, {0, 1}, {0.5, 0.5}}, []float64{1, -1, 0.5}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	out := data.Map(func(a []float64, b float64) (float64, bool) {
		a[0] += 100 // a is a copy, so that the data do not change
		return 10 * b, b > 0
	})
	require.ElementsMatch(t, [][]float64{{1, 0, 1}, {0, 0, 0}, {0.5, 0.5, 1}}, every(out))
	require.ElementsMatch(t, [][]float64{{1, 0, 1}, {0, 1, -1}, {0.5, 0.5, 0.5}}, every(data))
	require.Equal(t, data.Bounds(), out.Bounds())

	var none *Data
	n, _ := none.Map(func([]float64, float64) (float64, bool) { return 0, true }).Dims()
	require.Zero(t, n)
	require.Equal(t, loss.Bounds{}, none.Bounds())
}

// TestPrintingIsPrivate checks that no verb and no flag of fmt prints a value of a record or of the
// noise, neither directly nor inside another struct, by value or by pointer.
func TestPrintingIsPrivate(t *testing.T) {
	// These numbers are too long to occur in a printed address by chance, whatever its base.
	const row, label, linear, quad = 0.72319846513, 0.61770412919, 0.45190833527, 0.33371777641
	data, err := NewData([][]float64{{row, 0.1}}, []float64{label}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &Problem{Data: data, Loss: square{}}
	noise := Perturbation{Linear: []float64{linear, 0}, Quad: mat.NewDiagDense(2, []float64{quad, quad})}
	var secrets []string
	for _, v := range []float64{row, label, linear, quad} {
		mantissa, _, _ := strings.Cut(strconv.FormatFloat(v, 'b', -1, 64), "p")
		secrets = append(secrets, mantissa,
			strconv.FormatFloat(v, 'f', 3, 64),
			strconv.FormatFloat(v, 'e', 3, 64)[:5],
			strconv.FormatFloat(v, 'f', -1, 64)[2:10],
			strconv.FormatFloat(v, 'x', -1, 64)[4:14])
	}
	for _, secret := range secrets[:5] {
		require.Contains(t, fmt.Sprintf("%g %.3e %x %b %08.3f", row, row, row, row, row), secret)
	}
	o := p.Perturb(noise)
	type inside struct {
		Data *Data
		data Data
		p    *Problem
		q    Problem
		o    *Objective
		O    Objective
	}
	type noisy struct{ N Perturbation }
	values := []any{
		noisy{noise}, &noisy{noise}, data, *data, p, *p, o, *o, noise, &noise,
		inside{data, *data, p, *p, o, *o}, &inside{data, *data, p, *p, o, *o},
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%g", "%e", "%x", "%b", "%p", "%T", "%08.3f"} {
			switch v.(type) {
			case Perturbation, noisy:
				if verb == "%p" {
					continue // fmt reports a wrong verb here and prints all exported fields
				}
			}
			text := fmt.Sprintf(verb, v)
			for _, secret := range secrets {
				require.NotContains(t, text, secret, "%s of %T", verb, v)
			}
		}
	}
	require.Equal(t, "erm.Data(1×2)", fmt.Sprint(data))
	require.Equal(t, "erm.Data(1×2)", fmt.Sprintf("%#v", *data))
	require.True(t, strings.HasPrefix(fmt.Sprintf("%+v", p), "erm.Problem(1×2, Loss erm.square"))
	require.Equal(t, "erm.Data(0×0)", fmt.Sprint(&Data{}))
	require.Equal(t, secret{}.String(), fmt.Sprint(noise))
}

// TestEncodingIsPrivate checks that encoders such as JSON get an error or no numbers.
func TestEncodingIsPrivate(t *testing.T) {
	data, _, qs := random(3, 2, 2)
	o := (&Problem{Data: data, Loss: square{}}).Perturb(qs[4])
	for _, v := range []any{data, *data, o, *o, &Problem{Data: data}} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		require.NotContains(t, string(text), ".", "no number")
	}
	_, err := json.Marshal(qs[4])
	require.ErrorIs(t, err, errSecret)
	_, err = json.Marshal(map[string]any{"q": &qs[4]})
	require.ErrorIs(t, err, errSecret)
	require.ErrorIs(t, gob.NewEncoder(io.Discard).Encode(qs[4]), errSecret)
	require.Error(t, xml.NewEncoder(io.Discard).Encode(qs[4]))
	require.Error(t, gob.NewEncoder(io.Discard).Encode(data))
}

// square is ½(u−b)².
type square struct{}

func (square) Func(theta, a []float64, b float64) float64 {
	phi, _, _ := square{}.Scalar(dotNaive(a, theta), b, 0)
	return phi
}

func (square) Grad(dst, theta, a []float64, b float64) {
	_, w, _ := square{}.Scalar(dotNaive(a, theta), b, 0)
	for j, v := range a {
		dst[j] = w * v
	}
}

func (square) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Constants{Lipschitz: math.Inf(1), Smoothness: b.Row * b.Row, Rank: 1, Structure: loss.LSQ}
}

func (square) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return (u - b) * (u - b) / 2, u - b, 1
}

func dotNaive(a, x []float64) (s float64) {
	for j, v := range a {
		s += v * x[j]
	}
	return s
}

var unitBounds = loss.Bounds{Row: 1, Label: 1}

// TestBuilder checks that a Builder makes the same data, bit by bit, as NewData or NewDataCSR, even
// if the records fill many slabs or come in several parts.
func TestBuilder(t *testing.T) {
	bounds := loss.Bounds{Row: 3, Label: 2}
	for _, size := range [][2]int{{1, 1}, {40, 3}, {700, 6}, {90000, 2}} {
		rows, labels := awkward(1, size[0], size[1])
		want, err := NewData(rows, labels, bounds)
		require.NoError(t, err)
		ptr, col, val := []int{0}, []int{}, []float64{}
		dense, err := NewBuilder(size[1], false, bounds)
		require.NoError(t, err)
		fromSparse, err := NewBuilder(size[1], false, bounds)
		require.NoError(t, err)
		sparse, err := NewBuilder(size[1], true, bounds)
		require.NoError(t, err)
		for i, row := range rows {
			dense.Add(row, labels[i])
			at := []int32{}
			from := len(val)
			for j, v := range row {
				if v != 0 {
					at, col, val = append(at, int32(j)), append(col, j), append(val, v)
				}
			}
			ptr = append(ptr, len(val))
			fromSparse.AddSparse(at, val[from:], labels[i])
			if i%2 == 0 {
				sparse.AddSparse(at, val[from:], labels[i])
			} else {
				sparse.Add(row, labels[i])
			}
		}
		csr, err := NewDataCSR(size[1], ptr, col, val, labels, bounds)
		require.NoError(t, err)
		require.Equal(t, every(want), every(dense.Data()))
		require.Equal(t, every(want), every(fromSparse.Data()))
		got := sparse.Data()
		require.True(t, got.r().sparse)
		require.Equal(t, every(csr), every(got))
	}
}

func TestBuilderShape(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		for _, d := range []int{0, -1, 1 << 31} {
			_, err := NewBuilder(d, sparse, unitBounds)
			require.ErrorIs(t, err, ErrData)
		}
		_, err := NewBuilder(1, sparse, loss.Bounds{Row: math.NaN(), Label: 1})
		require.ErrorIs(t, err, loss.ErrBounds)
		b, err := NewBuilder(3, sparse, unitBounds)
		require.NoError(t, err)
		require.PanicsWithValue(t, badLen, func() { b.Add([]float64{1}, 1) })
		require.PanicsWithValue(t, badLen, func() { b.AddSparse([]int32{0}, []float64{1, 2}, 1) })
		for _, col := range [][]int32{{-1}, {3}} {
			require.PanicsWithValue(t, badIndex, func() { b.AddSparse(col, []float64{1}, 1) })
		}
		require.PanicsWithValue(t, badIndex, func() { b.AddSparse([]int32{1, 1}, []float64{1, 2}, 1) })
		n, d := b.Data().Dims()
		require.Equal(t, []int{0, 3}, []int{n, d})
	}
}

// TestBuilderPrints checks that no verb of fmt prints a record that a Builder holds.
func TestBuilderPrints(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		b, err := NewBuilder(1, sparse, loss.Bounds{Row: 5000, Label: 5000})
		require.NoError(t, err)
		b.Add([]float64{4711}, 4711)
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			require.NotContains(t, fmt.Sprintf(verb, b), "4711")
			require.NotContains(t, fmt.Sprintf(verb, struct{ b Builder }{*b}), "4711")
		}
	}
}
