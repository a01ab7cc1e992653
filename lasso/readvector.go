package lasso

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrFile reports a file that is not that ReadVector cannot read. Test with
// errors.Is. Its texts name lines, columns and places, never a value.
var ErrFile = errors.New("lasso: invalid file")

// ReadVector reads a public vector of dimension d: a header line, then d lines
// of one finite number. The error wraps ErrFile.
func ReadVector(r io.Reader, d int) ([]float64, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil", ErrFile)
	}
	lines, err := csv.NewReader(r).ReadAll()
	var p *csv.ParseError
	switch {
	case errors.As(err, &p):
		return nil, fmt.Errorf("%w: line %d, column %d: %w", ErrFile, p.Line, p.Column, p.Err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	case len(lines) < 2:
		return nil, fmt.Errorf("%w: no numbers below a header line", ErrFile)
	case len(lines[0]) != 1:
		return nil, fmt.Errorf("%w: %d columns, want 1", ErrFile, len(lines[0]))
	case len(lines)-1 != d:
		return nil, fmt.Errorf("%w: %d numbers, want %d, one for each feature", ErrFile, len(lines)-1, d)
	}
	x := make([]float64, d)
	for i := range x {
		x[i], err = strconv.ParseFloat(strings.TrimSpace(lines[i+1][0]), 64)
		if err != nil || math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return nil, fmt.Errorf("%w: number %d is not finite", ErrFile, i+1)
		}
	}
	return x, nil
}
