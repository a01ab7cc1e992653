package lasso

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// ErrFile reports a file that is not of the form Read describes. Test with
// errors.Is. Its texts name lines and columns, never a value.
var ErrFile = errors.New("lasso: invalid file")

// Read reads an instance of the published form. problem holds a header line,
// then n lines of d features and the label; anchor, which may be nil, holds a
// header line, then d lines of one number. xi declares ξ. All numbers must be
// finite: unlike in package table, nothing is forced into bounds. The error wraps
// ErrFile or ErrParameter.
func Read(problem, anchor io.Reader, xi float64) (*Instance, error) {
	if !(xi > 0 && xi <= largestNorm) {
		return nil, fmt.Errorf("%w: Xi = %v, want a positive norm of at most %g", ErrParameter, xi, largestNorm)
	}
	values, columns, err := table("problem", problem)
	if err != nil {
		return nil, err
	}
	if columns < 2 {
		return nil, fmt.Errorf("%w: problem: 1 column, want features and the label", ErrFile)
	}
	n, d := len(values)/columns, columns-1
	in := &Instance{X: mat.NewDense(n, d, nil), Y: make([]float64, n), Xi: xi}
	for i := range n {
		row := values[i*columns : (i+1)*columns]
		copy(in.X.RawRowView(i), row)
		in.Y[i] = row[d]
	}
	if anchor == nil {
		return in, nil
	}
	in.Anchor, err = ReadVector(anchor, d)
	return in, err
}

// ReadVector reads a public vector of dimension d: a header line, then d lines
// of one finite number. The error wraps ErrFile.
func ReadVector(r io.Reader, d int) ([]float64, error) {
	values, columns, err := table("vector", r)
	switch {
	case err != nil:
		return nil, err
	case columns != 1:
		return nil, fmt.Errorf("%w: vector: %d columns, want 1", ErrFile, columns)
	case len(values) != d:
		return nil, fmt.Errorf("%w: vector: %d numbers, want %d, one for each feature", ErrFile, len(values), d)
	}
	return values, nil
}

// table reads all numbers below a header line.
func table(name string, r io.Reader) (values []float64, columns int, err error) {
	if r == nil {
		return nil, 0, fmt.Errorf("%w: %s: the reader is nil", ErrFile, name)
	}
	in := csv.NewReader(r)
	in.ReuseRecord = true
	for line := 0; ; line++ {
		fields, err := in.Read()
		var p *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			if len(values) == 0 {
				return nil, 0, fmt.Errorf("%w: %s: no numbers below a header line", ErrFile, name)
			}
			return values, columns, nil
		case errors.As(err, &p):
			return nil, 0, fmt.Errorf("%w: %s: line %d, column %d: %w", ErrFile, name, p.Line, p.Column, p.Err)
		case err != nil:
			return nil, 0, fmt.Errorf("%w: %s: %w", ErrFile, name, err)
		case line == 0:
			columns = len(fields)
			continue
		}
		for j, field := range fields {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				at, col := in.FieldPos(j)
				return nil, 0, fmt.Errorf("%w: %s: line %d, column %d: not a finite number", ErrFile, name, at, col)
			}
			values = append(values, v)
		}
	}
}
