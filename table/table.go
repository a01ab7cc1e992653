// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package table turns tables of mixed columns into records inside declared bounds, as a public
// schema says:
//
//	schema, err := table.ReadSchema(schemaFile)
//	data, err := table.ReadCSV(csvFile, schema)
//	p := &erm.Problem{Data: data.Records, Loss: loss.Logistic{}}
//
// A [Schema] is written by hand, or drafted by [Draft] from public rows; nothing is learned from
// the private ones. The encoding of a record depends on that record and the schema alone, so
// neighboring tables stay neighboring.
//
// A number x of a column with the declared range [min, max] becomes v = (x − mid)/half in [−1, 1];
// categories and binned numbers become an indicator of one level, and an interaction of them
// becomes an indicator of one combination of levels. A missing number becomes 0 and a missing
// category an equal share of each level, unless they have a level of their own. Every column g is a
// group of coordinates v_g with the weight w_g, so that a row of the coordinates c_g·v_g has norm
// at most 1 without being clipped:
//
//	c_g = w_g/√(Σ_h w_h²),   ‖a‖² = Σ_g c_g²‖v_g‖² ≤ 1
//
// The c_g are rounded so that the sum of their squares is at most 1 in exact arithmetic. A label
// with K levels has parameters for each class, K·p for p features.
//
// # Lines
//
// Every line behind the header is one record, whatever its place and the other lines: an edit of
// one line changes one record and not their number, which is public under dp.Replace. Only a header
// line, or a public table, may begin as gzip. An empty line or a comment is a record of zeros with
// the label that Label.Unknown names, else the negative, the first class or the middle: no loss of
// ⟨a,θ⟩ has a gradient there. Options.Skip leaves such lines out for predictions and scores.
//
// With Schema.Person the unit of privacy is a person, who may have many lines: Records counts
// persons, and lines without an id count nowhere. Packed files and sources have no ids and are
// refused by fits.
//
// A quote has to be closed in its line, unless File.Multiline is set; then in some line, and what
// is said of a line holds for a record. The last line of a private table needs a line end: without
// one, it would be no record if it were empty.
//
// # Errors
//
// Errors of a schema name the place in its JSON, the value and the fix. Errors of a table name the
// line and the column, but show no value of a field unless Options.Public says that the table is
// public. The error is still a function of the private file: fix the file, and report no error
// where its form is secret. With "other" in every column and "unknown" in the label every field has
// a meaning, and only the form of a line (quotes, number of fields) can be wrong.
package table

import (
	"fmt"

	"github.com/privopt/privopt/internal/prefix"
)

// Errors of this package. Test with errors.Is.
var (
	// ErrSchema reports a schema that is not valid.
	ErrSchema = prefix.New("table: invalid schema")
	// ErrTable reports a file that is not the table that was declared.
	ErrTable = prefix.New("table: invalid table")
)

// wrong returns an error that wraps ErrTable.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrTable, fmt.Errorf(format, args...))
}
