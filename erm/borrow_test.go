// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
)

// borrowedTable returns n records of d features, some of them outside the bounds or with −0, in a
// matrix that has the given number of columns more than features, and as a source.
func borrowedTable(n, d, more int) (*mat.Dense, *tableSource) {
	data, _, _ := random(11, n, d)
	src := fileOf(data)
	whole := mat.NewDense(n, d+more, nil)
	for i, row := range src.rows {
		switch row = slices.Clone(row); i % 700 {
		case 3:
			row[0] = 7
		case 5:
			row[0], row[d-1] = math.NaN(), 0.5
		case 7:
			row[0] = math.Inf(-1)
		case 9:
			row[0] = math.Copysign(0, -1)
		}
		if i >= 1400 && i < 2048 { // some grains have no such row
			row = slices.Clone(src.rows[i])
		}
		src.rows[i], src.labels[i] = row, 3*src.labels[i]
		copy(whole.RawRowView(i), row)
	}
	return whole.Slice(0, n, 0, d).(*mat.Dense), src
}

// TestBorrow checks that borrowed records have the bits of the same records in a source, in all
// methods, that they are what Data of a copy hold, and that nothing is written to the matrix.
func TestBorrow(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	for _, n := range []int{1, 511, 512, 513, 2600} {
		for _, more := range []int{0, 2} {
			x, src := borrowedTable(n, 3, more)
			before := slices.Clone(x.RawMatrix().Data)
			data, err := Borrow(x, src.labels, b)
			require.NoError(t, err)
			file, err := Open(src, b)
			require.NoError(t, err)
			for _, l := range []loss.Loss{loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}} {
				for _, whole := range []bool{false, true} {
					_, at, qs := random(5, 10, 3)
					var all [2][]float64
					for k, d := range []*Data{file, data} {
						o := (&Problem{Data: d, Loss: l}).Perturb(qs[4])
						o.s().whole = whole && o.HasHessian()
						all[k] = values(o, at)
						dst, sum := make([]float64, 3), make([]int64, 3)
						o.GradTerms(dst, at, []int{0, n - 1, n / 2})
						o.SumRounded(sum, make([]float64, 3), []int{0, n - 1}, -20, 1<<30)
						all[k] = append(all[k], dst...)
						for _, v := range sum {
							all[k] = append(all[k], float64(v))
						}
						require.NoError(t, o.Err())
					}
					require.Equal(t, all[0], all[1], "%d records, stride +%d, %T", n, more, l)
				}
			}
			memory, err := NewDataDense(x, src.labels, b)
			require.NoError(t, err)
			require.Equal(t, every(memory), sorted(every(data)))
			flip := func(a []float64, b float64) (float64, bool) { return -b, a[0] > 0 }
			require.Equal(t, every(memory.Map(flip)), sorted(every(data.Map(flip))))
			bits := func(v []float64) (out []uint64) {
				for _, v := range v {
					out = append(out, math.Float64bits(v))
				}
				return out
			}
			require.Equal(t, bits(before), bits(x.RawMatrix().Data))
		}
	}
}

// sorted returns rows in the canonical order.
func sorted(rows [][]float64) [][]float64 {
	n := len(rows)
	labels := make([]float64, n)
	for i, r := range rows {
		rows[i], labels[i] = r[:len(r)-1], r[len(r)-1]
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return every(data)
}

// TestBorrowedRowsChange checks that a caller who changes the matrix gets an error from every
// certificate, whatever the change, and whenever it was made.
func TestBorrowedRowsChange(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	for name, change := range map[string]func(x *mat.Dense){
		"a bit":     func(x *mat.Dense) { x.Set(1500, 1, math.Nextafter(x.At(1500, 1), 2)) },
		"forced":    func(x *mat.Dense) { x.Set(3, 1, x.At(3, 1)+1) },
		"long":      func(x *mat.Dense) { x.Set(1500, 1, 1e6) },
		"NaN":       func(x *mat.Dense) { x.Set(1500, 1, math.NaN()) },
		"exchanged": func(x *mat.Dense) { x.SetRow(1500, []float64{x.At(1500, 1), x.At(1500, 0), x.At(1500, 2)}) },
		"two":       func(x *mat.Dense) { x.Set(1500, 0, -x.At(1500, 0)); x.Set(1501, 0, -x.At(1501, 0)) },
	} {
		for _, l := range []loss.Loss{loss.Logistic{}, loss.Squared{}} {
			for passes := range 2 {
				for k, certify := range []func(o *Objective, at []float64) float64{
					func(o *Objective, at []float64) float64 { return o.ResidualWithin(at, math.Inf(1)) },
					(*Objective).Residual,
					func(o *Objective, at []float64) float64 { return o.AccurateGrad(make([]float64, 3), at) },
				} {
					x, src := borrowedTable(2600, 3, 0)
					data, err := Borrow(x, src.labels, b)
					require.NoError(t, err)
					o := (&Problem{Data: data, Loss: l}).Perturb(Perturbation{})
					o.s().whole = l == loss.Loss(loss.Logistic{})
					at := []float64{.5, .2, -.3}
					for range passes {
						certify(o, []float64{.1, .1, .1})
						require.NoError(t, o.Err())
						o.Grad(make([]float64, 3), at)
					}
					change(x)
					certify(o, at)
					require.ErrorIs(t, o.Err(), ErrSource, "%s, %T, certificate %d", name, l, k)
					require.ErrorIs(t, data.Each(func([]float64, float64) {}), ErrSource)
				}
			}
		}
	}
}

func TestBorrowRefuses(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	for _, x := range []mat.RawMatrixer{nil, (*mat.Dense)(nil), &mat.Dense{}} {
		_, err := Borrow(x, nil, b)
		require.ErrorIs(t, err, ErrData)
	}
	x := mat.NewDense(2, 1, []float64{1, 2})
	_, err := Borrow(x, []float64{1}, b)
	require.ErrorIs(t, err, ErrData)
	_, err = Borrow(x, []float64{1, 1}, loss.Bounds{})
	require.ErrorIs(t, err, ErrData)
}
