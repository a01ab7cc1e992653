package erm

import (
	"context"
	"errors"
)

// ErrSource reports that records could not be read, or not the same in every pass. No
// release is made then; what was drawn for it is spent.
var ErrSource = errors.New("erm: the source of the records failed")

// Chunk is the number of records that are read at a time; parts of a Source are cut at its multiples.
const Chunk = 8192

// Source holds records outside of memory, such as a file. Its methods are safe for
// concurrent use.
//
// A source is not trusted with the bounds: every record is forced into them, as Data
// describes, at every read.
type Source interface {
	// Dims returns the number of records and of features, always the same.
	Dims() (records, features int)
	// Read stores the rows of records first, …, first+len(labels)−1 in rows, row-major, and
	// their labels in labels; rows has len(labels) times as many numbers as there are features.
	// A later Read of a record gives the same values or an error. The text of an error holds no
	// value of a record.
	Read(ctx context.Context, rows, labels []float64, first int) error
}
