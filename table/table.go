// Package table turns tables of mixed columns into records inside declared
// bounds, as a public schema says:
//
//	schema, err := table.ReadSchema(schemaFile)
//	if err != nil {
//		return err
//	}
//	data, err := table.ReadCSV(csvFile, schema)
//	if err != nil {
//		return err
//	}
//	p := &erm.Problem{Data: data.Records, Loss: loss.Logistic{}}
//
// A Schema is written by hand or drafted by Draft from public rows; nothing is
// learned from the private ones. What a record becomes depends on that record
// and the schema alone, so neighboring tables stay neighboring.
//
// A number x of a column with the declared range [min, max] becomes
// v = (x − mid)/half in [−1, 1]; categories and binned numbers become an
// indicator of one level. Missing values become 0 or a level of their own.
// Every column is a group of coordinates of norm at most w_g, its weight, and so
// a row of the coordinates c_g·v_g has norm at most 1 without being clipped:
//
//	c_g = w_g/√(Σ_h w_h²),   ‖a‖² = Σ_g c_g²‖v_g‖² ≤ 1
//
// The c_g are rounded so that the sum of the squares of the float64 numbers is
// at most 1 in exact arithmetic; products with |v| ≤ 1 only shrink.
//
// # Lines
//
// Every line behind the header is one record, whatever it holds, so that an edit of one
// line changes one record and not their number, which is public under dp.Replace. An
// empty line or a comment is a record of zeros with the label that Label.Unknown names,
// else the negative, the first class or the middle: no loss of ⟨a,θ⟩ has a gradient
// there. A file that ends with an empty line has one such record. Options.Skip leaves
// them out for predictions and scores.
//
// A quote has to be closed in its line, unless File.Multiline says that fields hold line
// ends: then a line that opens a quote may take in lines of other records. A last line
// without a line end counts unless it is empty: neighboring files have the same number
// of line ends. A line that breaks the form (quotes, number of fields, a
// field without a meaning) is an error, see below.
//
// # Errors
//
// Errors of a schema name the place in its JSON, the value and the fix. Errors
// of a table name the line and the column and describe what stands there, but
// show no value of a field unless Options.Public says that the table is public.
// That a table has such an error is still a function of the private file: fix
// the file, and report no error where the form of the file is itself secret.
// With "other" in every column and "unknown" in the label every field has a
// meaning, and only the form of a line can be wrong.
//
// # Notation
//
//	p     features: coordinates of an encoded row, Encoder.Features
//	K     classes of a label with levels
//	d     parameters: K·p for a label with levels, else p, Encoder.Dim
//	n₀    Schema.Records, the declared public number of records
//	θ     the parameter; ⟨a,θ⟩ the prediction of an encoded row a
//
// # References
//
//	[RFC4180]  Shafranovich. Common Format and MIME Type for CSV Files. 2005.
//	[CL11]     Chang, Lin. LIBSVM: A Library for Support Vector Machines. 2011.
package table

import "github.com/privopt/privopt/internal/prefix"

// Errors of this package. Test with errors.Is.
var (
	// ErrSchema reports a schema that is not valid.
	ErrSchema = prefix.New("table: invalid schema")
	// ErrTable reports a file that is not the table that was declared.
	ErrTable = prefix.New("table: invalid table")
)
