package erm

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
)

// Data holds n records (aᵢ, bᵢ) with d features each, every one forced by
// itself into the declared bounds ‖aᵢ‖₂ ≤ Row and |bᵢ| ≤ Label:
//
//	a row longer than Row is scaled to norm Row, a label is clamped;
//	a NaN entry or label becomes 0, and so does −0;
//	a row with infinite entries becomes Row·s/‖s‖₂, s their signs;
//	an infinite label becomes ±Label.
//
// What a record becomes depends on that record and the bounds alone, so
// neighboring inputs stay neighboring, and no value of a record is ever an
// error. The exact norm of every stored row, not merely its rounded norm, is
// at most Row.
//
// The records are kept in a canonical order, by a fixed hash of their content
// after this: the order they came in leaves no trace, and everything computed
// from Data has the same bits for any of them. Row and Label count in the
// canonical order.
//
// The records of Open stay where they are, in their order there, and are forced at every read.
//
// Data is immutable, safe for concurrent use, and prints as its dimensions.
// The zero value has no records.
type Data struct {
	// r is a function because fmt prints those as an address: even as an
	// unexported field of another struct, where fmt cannot call Format, no
	// verb prints a record.
	r func() *records
}

// canonical hides complete records in canonical order.
func canonical(r *records) *Data {
	if n := len(r.slabs); n > 0 {
		r.slabs[n-1].trim()
	}
	r.floatsOnce = r.floats()
	return &Data{func() *records { return r }}
}

// records is what Data hides.
type records struct {
	n, d   int
	sparse bool
	shift  int // log₂ of the records in a slab
	slabs  []slab
	bounds loss.Bounds
	src    *source // of records that are not in slabs, else nil

	floatsOnce int // floats()

	gramLock sync.Mutex
	gram     *mat.SymDense // Σ aᵢaᵢ', nil if not known
	xty      []float64     // Σ bᵢaᵢ
	yty      float64       // Σ bᵢ²

	topLock  sync.Mutex
	topKnown bool
	top      float64 // upper bound on λ_max(Σ aᵢaᵢ')
}

// NewData copies rows and labels and forces each record into the bounds, as
// Data describes. It returns an error wrapping ErrData if the public shape is
// wrong: no rows, no features, rows of different lengths, another number of
// labels, or invalid bounds.
func NewData(rows [][]float64, labels []float64, b loss.Bounds) (*Data, error) {
	if err := checkShape(len(rows), len(labels), b); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noRows()
	}
	n, d := len(rows), len(rows[0])
	for i, row := range rows {
		if len(row) != d {
			return nil, fmt.Errorf("%w: rows[%d] has %d features, rows[0] has %d; want one length", ErrData, i, len(row), d)
		}
	}
	if d == 0 {
		return nil, fmt.Errorf("%w: rows have no features, want at least 1", ErrData)
	}
	return canonical(newDense(n, d, 0, b, func(i int, row []float64) float64 {
		copy(row, rows[i])
		return labels[i]
	})), nil
}

// NewDataDense is NewData for the rows of the n×d matrix x.
func NewDataDense(x mat.Matrix, labels []float64, b loss.Bounds) (*Data, error) {
	if v := reflect.ValueOf(x); x == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the matrix of rows is nil", ErrData)
	}
	n, d := x.Dims()
	if err := checkShape(n, len(labels), b); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, noRows()
	}
	if d == 0 {
		return nil, fmt.Errorf("%w: rows have no features, want at least 1", ErrData)
	}
	if raw, ok := x.(mat.RawMatrixer); ok {
		m := raw.RawMatrix()
		return canonical(newDense(n, d, 0, b, func(i int, row []float64) float64 {
			copy(row, m.Data[i*m.Stride:])
			return labels[i]
		})), nil
	}
	return canonical(newDense(n, d, 1, b, func(i int, row []float64) float64 { // At may have a memory
		mat.Row(row, i, x)
		return labels[i]
	})), nil
}

// Empty returns data of no records with dim features: under dp.AddRemove the neighbor of one
// record, on which everything is defined and F = 0. It returns an error wrapping ErrData if dim or
// the bounds make no sense.
func Empty(dim int, b loss.Bounds) (*Data, error) { return NewDataCSR(dim, []int{0}, nil, nil, nil, b) }

// noRows is the error of constructors that learn the number of features from a row.
func noRows() error {
	return fmt.Errorf("%w: no records, so no number of features; want at least 1, or Empty", ErrData)
}

func checkShape(rows, labels int, b loss.Bounds) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if rows != labels {
		return fmt.Errorf("%w: %d rows and %d labels, want equally many", ErrData, rows, labels)
	}
	return nil
}

// force replaces row in place by the row inside the bounds, without −0. It returns an upper bound on
// its norm, that of normAbove, and whether it was inside.
func (r *records) force(row, scratch []float64) (norm float64, inside bool) {
	sum := squares(row)
	if side(sum, len(row), r.bounds.Row) < 0 {
		return normOf(sum, row, r.bounds.Row), true
	}
	inside = forceRow(row, scratch, r.bounds.Row)
	return normAbove(row, r.bounds.Row), inside
}

// Dims returns the number of records n and of features d, 0 and 0 for nil and
// the zero value. Under dp.AddRemove n is private.
func (d *Data) Dims() (records, features int) {
	if d == nil || d.r == nil {
		return 0, 0
	}
	return d.r().n, d.r().d
}

// Bounds returns the declared bounds, zero for nil and the zero value.
func (d *Data) Bounds() loss.Bounds {
	if d == nil || d.r == nil {
		return loss.Bounds{}
	}
	return d.r().bounds
}

// Row returns a copy of row i of the canonical order, inside its bounds. Not private: it is a record.
// It panics if i is out of range.
func (d *Data) Row(i int) []float64 {
	r := d.r()
	d.check(i)
	return slices.Clone(r.row(i, make([]float64, r.d)))
}

// Label returns label i of the canonical order, inside its bounds. Not private: it is part of a
// record. It panics if i is out of range.
func (d *Data) Label(i int) float64 {
	d.check(i)
	return d.r().label(i)
}

func (d *Data) check(i int) {
	if i < 0 || i >= d.r().n {
		panic(badIndex)
	}
}

// Map returns the data that f makes of each record by itself. f gets a copy of
// the row and the label and returns the label to use instead, which is clamped
// as in NewData. If keep is false, the record is replaced by the zero record
// (row 0, label 0), whose gradient of a loss φ(⟨a,θ⟩;b) is 0: n stays what it
// was, because under dp.Replace it is public. f must not look at other
// records. For a Source f is called at every read, from several goroutines at once,
// and must make the same of a record each time. Map of nil or the zero value is empty.
func (d *Data) Map(f func(a []float64, b float64) (label float64, keep bool)) *Data {
	if d == nil || d.r == nil {
		return &Data{}
	}
	from := d.r()
	if from.src != nil {
		return from.mapped(f)
	}
	labels := make([]float64, from.n)
	keep := make([]bool, from.n)
	row, scratch := make([]float64, from.d), make([]float64, from.d)
	for i := range from.n {
		copy(row, from.row(i, scratch))
		labels[i], keep[i] = f(row, from.label(i))
		if !keep[i] {
			labels[i] = 0
		}
	}
	if from.sparse {
		kept := func(i int, col []int32, x []float64) ([]int32, []float64, float64) {
			if keep[i] {
				c, a := from.entries(i)
				col, x = append(col, c...), append(x, a...)
			}
			return col, x, labels[i]
		}
		return canonical(newSparse(from.n, from.d, from.floatsOnce, from.bounds, kept))
	}
	return canonical(newDense(from.n, from.d, 0, from.bounds, func(i int, row []float64) float64 {
		if clear(row); keep[i] {
			copy(row, from.row(i, nil))
		}
		return labels[i]
	}))
}
