// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// TestSecurityNamesTests: every test that SECURITY.md names exists, and every weak
// point from S1 to S17 has a line.
func TestSecurityNamesTests(t *testing.T) {
	text, err := fs.ReadFile(testRoot, "SECURITY.md")
	require.NoError(t, err)
	sources := map[string]string{}
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, m := range named {
		dir := m[1]
		if dir == "privopt" {
			dir = "."
		}
		if sources[dir] == "" {
			files, err := fs.Glob(testRoot, strings.TrimPrefix(dir+"/*_test.go", "./"))
			require.NoError(t, err)
			for _, f := range files {
				body, err := fs.ReadFile(testRoot, f)
				require.NoError(t, err)
				sources[dir] += string(body)
			}
		}
		require.Contains(t, sources[dir], "func "+m[2]+"(", "%s", m[0])
	}
	for i := range 17 {
		require.Contains(t, string(text), fmt.Sprintf("\n| S%d |", i+1))
	}
}

// TestNothingPrintsTables: whatever holds a table, a line of it or sums over it prints as its kind,
// as a pointer and as a value, by every verb.
func TestNothingPrintsTables(t *testing.T) {
	const text = "x,g,y\n4711471,s3cret,7\n1,aa,2\n"
	s, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "records": 2,
		"label": {"column": "y", "min": 0, "max": 9}, "columns": [{"name": "x", "min": 0, "max": 9999999},
		{"name": "g", "levels": ["aa"], "other": true}]}`))
	require.NoError(t, err)
	data, err := table.ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	undeclared, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader(text))
	require.NoError(t, err)
	rows, err := data.Encoder.Rows(strings.NewReader(text), table.Options{})
	require.NoError(t, err)
	require.True(t, rows.Next())
	m, err := model.Fit(t.Context(), data, dp.Budget{Epsilon: 9, Delta: 0.1}, nil)
	require.NoError(t, err)
	set, err := score.Read(t.Context(), m, data, nil)
	require.NoError(t, err)
	ranker, err := erm.NewRanker(1, loss.Bounds{Row: 1e9, Label: 9})
	require.NoError(t, err)
	ranker.Record([]float64{4711471}, 7)
	file, err := npy.Create(filepath.Join(t.TempDir(), "r.npy"), []string{"x", "y"}, npy.Options{})
	require.NoError(t, err)
	require.NoError(t, file.Append([]float64{4711471}, 7))
	for _, v := range []any{undeclared, rows, set, ranker, file} {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", v), "*")
		for _, v := range []any{v, reflect.ValueOf(v).Elem().Interface()} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%g", "%x", "%X"} {
				got := fmt.Sprintf(verb, v)
				require.True(t, strings.HasPrefix(got, kind) && len(got) < len(kind)+12, "%s of %T: %s", verb, v, got)
			}
		}
	}
	require.NoError(t, file.Close())
}
