// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"slices"

	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/table/parquet"
)

// holdsEncoded reports whether the columns of a Parquet file are the encoded ones of a schema, in
// any order. If the columns of the table have the same names, the kind of the file cannot be
// determined, which is an error.
func holdsEncoded(path string, t *cli.Table) (bool, error) {
	names, err := parquet.Columns(path)
	if err != nil {
		return false, cli.Usagef("--data: %w", err)
	}
	s := t.Encoder.Schema()
	declared := []string{s.Label.Column}
	for _, c := range s.Columns {
		declared = append(declared, c.Name)
	}
	have, want := slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(t.Columns()))
	switch same := slices.Equal(have, want); {
	case !same:
		return false, nil
	case slices.Equal(have, slices.Sorted(slices.Values(declared))):
		return false, cli.Usagef("--data: %s: the columns of the table and the encoded ones have the same names, so that "+
			"it may hold either: want a .npy file, which privopt pack makes of the table as CSV", path)
	}
	return true, nil
}
