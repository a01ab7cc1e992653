// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package adult reads the Adult (Census Income) data set as a table and encodes it for the
// experiments: as integers for halfspaces over a lattice, or as numbers in [0, 1].
//
//	records, err := adult.Read(file)
//	features, err := adult.Experiment(23)
//	rows, labels := features.Integers(adult.Balanced(records))
//
// Attributes, levels and ranges stand in fields.schema.json. They come from the published
// description of the file; nothing is measured on the records.
//
// # References
//
//	[BK96]    Becker, Kohavi. Adult. UCI Machine Learning Repository,
//	          doi:10.24432/C5XW20. Licence: CC BY 4.0.
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex
//	          Optimization. ICML 2020.
package adult

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/table"
)

// Schema is the schema of the file for models: public bins, round numbers within the published
// ranges, were written by hand. Education is there as its number of years; fnlwgt, a weight of the
// census, is ignored.
//
//go:embed adult.schema.json
var Schema string

// fields is a schema with every field of the file as it stands there.
//
//go:embed fields.schema.json
var fields string

// Attributes lists the fields of the file in order, without the label: categories with all their
// levels, of which the missing value "?" is the last, and numbers in [0, Max].
var Attributes, encoder = read(fields)

func read(schema string) ([]table.Column, *table.Encoder) {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		panic(err) // of this folder
	}
	e, err := s.Encoder()
	if err != nil {
		panic(err)
	}
	return s.Columns, e
}

// attribute returns the index of an attribute. It panics on an unknown name.
func attribute(name string) int {
	i := slices.IndexFunc(Attributes, func(a table.Column) bool { return a.Name == name })
	if i < 0 {
		panic("adult: unknown attribute " + name)
	}
	return i
}

// Record is one person: a level or a number for each attribute.
type Record struct {
	Value    [14]int64
	Positive bool // income above 50K
}

// Read reads adult.data or adult.test. Numbers outside [0, Max] are clamped. Errors wrap
// table.ErrTable and name the line, but show none of its content.
func Read(r io.Reader) ([]Record, error) {
	rows, err := encoder.Rows(r, table.Options{Skip: true})
	if err != nil {
		return nil, err
	}
	coordinates := encoder.Features()
	var records []Record
	for rows.Next() {
		rec := Record{Positive: rows.Label() > 0}
		row := make([]float64, len(coordinates))
		col, val := rows.Row()
		for k, j := range col {
			row[j] = val[k]
		}
		for j, c := range coordinates {
			i := attribute(c.Column)
			switch {
			case Attributes[i].Levels == nil:
				rec.Value[i] = int64(math.Round((row[j] - c.Offset) / c.Scale))
			case row[j] != 0:
				rec.Value[i] = int64(slices.Index(Attributes[i].Levels, strings.TrimPrefix(c.Name, c.Column+"=")))
			}
		}
		records = append(records, rec)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%w: no records", table.ErrTable)
	}
	return records, nil
}

// Balanced returns all positive records and the first negative ones, as many, in their order. Not
// private: which records these are depends on the number of positive ones.
func Balanced(records []Record) []Record {
	negative := 0 // still to take
	for _, r := range records {
		if r.Positive {
			negative++
		}
	}
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		if !r.Positive {
			negative--
		}
		return !r.Positive && negative < 0
	})
}

// Feature is a coordinate of a record: an indicator of a level, or a number, of Level -1, over its
// maximum.
type Feature struct{ Attribute, Level int }

// Features is a list of features, all of them in [0, 1].
type Features []Feature

// sets are the attributes of the feature sets by the number of features.
var sets = map[int]string{
	23: "marital-status relationship race sex capital-gain capital-loss hours-per-week", // [NRVW20]
	104: "workclass education marital-status occupation relationship race sex native-country age education-num " +
		"capital-gain capital-loss hours-per-week",
}

// Experiment returns a feature set of the experiments. That of 104 has no feature for a missing
// value.
func Experiment(size int) (Features, error) {
	names, ok := sets[size]
	if !ok {
		return nil, fmt.Errorf("adult: no feature set of %d columns, want 23 or 104", size)
	}
	var f Features
	for _, name := range strings.Fields(names) {
		i := attribute(name)
		if Attributes[i].Levels == nil {
			f = append(f, Feature{i, -1})
		}
		for k, level := range Attributes[i].Levels {
			if size < 104 || level != "?" {
				f = append(f, Feature{i, k})
			}
		}
	}
	return f, nil
}

// Denominator is the least L such that every feature times L is an integer.
func (f Features) Denominator() int64 {
	l, divisor := big.NewInt(1), new(big.Int)
	for _, c := range f {
		if c.Level < 0 {
			most := big.NewInt(int64(*Attributes[c.Attribute].Max))
			l.Mul(l, most.Quo(most, divisor.GCD(nil, nil, l, most)))
		}
	}
	return l.Int64()
}

// Integers encodes records as features times Denominator, and labels as ±1.
func (f Features) Integers(records []Record) (rows [][]int64, labels []int) {
	l := float64(f.Denominator())
	shares, signs := f.Floats(records)
	for i, share := range shares {
		row := make([]int64, len(share))
		for j, v := range share {
			row[j] = int64(math.Round(v * l)) // integers below 2⁵⁰, to two roundings
		}
		rows, labels = append(rows, row), append(labels, int(signs[i]))
	}
	return rows, labels
}

// Floats encodes records as features in [0, 1], and labels as ±1.
func (f Features) Floats(records []Record) (rows [][]float64, labels []float64) {
	for _, r := range records {
		row, label := make([]float64, len(f)), -1.0
		for j, c := range f {
			switch v := r.Value[c.Attribute]; {
			case c.Level < 0:
				row[j] = float64(v) / *Attributes[c.Attribute].Max
			case v == int64(c.Level):
				row[j] = 1
			}
		}
		if r.Positive {
			label = 1
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	return rows, labels
}

// Sample is a set of encoded records with labels ±1.
type Sample struct {
	Rows   [][]float64
	Labels []float64
}

// OneHot reads the records of adult.data or adult.test without a missing value, as the 104 features
// of Experiment.
func OneHot(r io.Reader) (s Sample, err error) {
	records, err := Read(r)
	if err != nil {
		return s, err
	}
	records = slices.DeleteFunc(records, func(r Record) bool {
		for i, a := range Attributes {
			if a.Levels != nil && a.Levels[r.Value[i]] == "?" {
				return true
			}
		}
		return false
	})
	if len(records) == 0 {
		return s, fmt.Errorf("%w: no record without missing values", table.ErrTable)
	}
	features, err := Experiment(104)
	s.Rows, s.Labels = features.Floats(records)
	return s, err
}

// Accuracy is the share of the labels that are the sign of ⟨row, theta⟩, with sgn(0) = −1.
func (s Sample) Accuracy(theta []float64) float64 {
	right := 0
	for i, row := range s.Rows {
		if (floats.Dot(row, theta) > 0) == (s.Labels[i] > 0) {
			right++
		}
	}
	return float64(right) / float64(len(s.Rows))
}
