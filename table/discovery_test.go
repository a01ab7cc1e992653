// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func discovered(t *testing.T, d Discovery, text string) *Undeclared {
	u, err := d.Read(strings.NewReader(text))
	require.NoError(t, err)
	return u
}

func named(label string) Discovery { return Discovery{Label: Label{Column: label}} }

// TestDiscoveryTokens: what a field is depends on the field alone.
func TestDiscoveryTokens(t *testing.T) {
	for field, want := range map[string][4]int64{
		"": {1}, "?": {1}, " NA ": {1}, "NaN": {1}, "nan": {1}, "\xff": {1}, strings.Repeat("z", 257): {1},
		"7": {0, 1}, "-0": {0, 1}, "1e400": {0, 1}, "-Inf": {0, 1}, "1e300": {0, 1},
		"0.5": {0, 0, 1}, "1e-320": {0, 0, 1},
		"a": {0, 0, 0, 1}, strings.Repeat("z", 256): {0, 0, 0, 1}, "0x10": {0, 0, 0, 1}, "1,5": {0, 0, 0, 1},
	} {
		u := discovered(t, named("y"), "x,y\n\""+field+"\",1\n")
		require.Equal(t, want, u.Kinds(0), "%q", field)
	}
	u := discovered(t, named("y"), "x,y\n1,1\n\n1,1\n")
	require.Equal(t, 3, u.Records())
	require.Equal(t, [4]int64{1, 2}, u.Kinds(0), "an empty line is a record without fields")
}

// TestDiscoveryOneRecord: replacing a line by any other line of fields moves each count of a column
// by one at most, and two in all.
func TestDiscoveryOneRecord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	field := func() string {
		b := make([]byte, rnd.IntN(6))
		for i := range b {
			b[i] = "0123456789.-eE ax?\xff\x00\tN"[rnd.IntN(22)]
		}
		return string(b)
	}
	for range 500 {
		lines := []string{"x,c,y"}
		for range 6 {
			lines = append(lines, field()+","+field()+","+field())
		}
		before := discovered(t, named("y"), strings.Join(lines, "\n")+"\n")
		if lines[3] = field() + "," + field() + "," + field(); rnd.IntN(5) == 0 {
			lines[3] = ""
		}
		after := discovered(t, named("y"), strings.Join(lines, "\n")+"\n")
		require.Equal(t, before.Records(), after.Records())
		for j := range 3 {
			moved, p, q := int64(0), before.Kinds(j), after.Kinds(j)
			for k := range p {
				moved += max(p[k]-q[k], q[k]-p[k])
			}
			require.LessOrEqual(t, moved, int64(2))
			moved = after.Distinct(j) - before.Distinct(j)
			require.LessOrEqual(t, max(moved, -moved), int64(1))
			spelled := map[string]int64{}
			before.Spellings(j, func(s string, n int64) { spelled[s] += n })
			after.Spellings(j, func(s string, n int64) { spelled[s] -= n })
			moved = 0
			for _, n := range spelled {
				moved += max(n, -n)
			}
			require.LessOrEqual(t, moved, int64(2))
		}
	}
}

// TestDiscoveryHeader: a file without a header line is refused, and nothing of it is shown.
func TestDiscoveryHeader(t *testing.T) {
	const secret = "Doe,1234567,secret\nRoe,7654321,hidden\n"
	for _, d := range []Discovery{
		named("income"),
		{File: File{Fields: []string{"a", "b"}}, Label: Label{Column: "b"}},
		{File: File{Fields: []string{"a", "b", "c"}}, Label: Label{Column: "d"}},
		{},
	} {
		_, err := d.Read(strings.NewReader(secret))
		require.Error(t, err)
		for _, word := range []string{"Doe", "Roe", "123", "765", "secret", "hidden"} {
			require.NotContains(t, err.Error(), word)
		}
	}
	d := Discovery{File: File{Fields: []string{"a", "b", "c"}}, Label: Label{Column: "c"}}
	require.Equal(t, 2, discovered(t, d, secret).Records())
	for want, header := range map[string]string{
		"has no name": "y,,x", "same name": "y,x,x", "is a number": "y,x,7", "not UTF-8": "y,x,\xff",
	} {
		_, err := named("y").Read(strings.NewReader(header + "\n1,2,3\n"))
		require.ErrorContains(t, err, want)
	}
	lines := named("y")
	lines.File.Multiline = true
	_, err := lines.Read(strings.NewReader("x,y,\"z\n1,Doe\n2,\"\n3,4,5\n"))
	require.ErrorContains(t, err, "line 1: a quote in the header line is not closed in its line, want")
	require.NotContains(t, err.Error(), "Doe")
	_, err = named("y").Read(strings.NewReader("y\n1\n"))
	require.ErrorContains(t, err, "no column but the label")
	_, err = named("y").Read(strings.NewReader("x,y\n1,2\n1,2,3\n"))
	require.ErrorContains(t, err, "line 3: 3 fields, want 2")
}

// TestDiscoveryDeclared: declared columns and labels need no search, and have to be total.
func TestDiscoveryDeclared(t *testing.T) {
	lo, hi := 0.0, 9.0
	d := named("y")
	d.Declared = []Column{{Name: "x", Min: &lo, Max: &hi, Other: true}, {Name: "id", Ignore: true}}
	u := discovered(t, d, "id,x,z,y\n1,2,3,4\n")
	require.Equal(t, []string{"z", "y"}, u.Columns())
	s := u.Schema(Label{Column: "y", Min: &lo, Max: &hi, Unknown: "middle"}, []Column{{Name: "z", Ignore: true}})
	require.NoError(t, s.Check())
	require.Equal(t, []string{"id", "x", "z"}, []string{s.Columns[0].Name, s.Columns[1].Name, s.Columns[2].Name})
	_, err := u.Data(s)
	require.NoError(t, err)
	d.Label = Label{Column: "y", Min: &lo, Max: &hi, Unknown: "middle"}
	index, declared := discovered(t, d, "id,x,z,y\n1,2,3,4\n").Label()
	require.Equal(t, -1, index)
	require.Equal(t, d.Label, declared)
	d.Label.Unknown = ""
	_, err = d.Read(strings.NewReader("id,x,z,y\n"))
	require.ErrorContains(t, err, "label.unknown")
	d.Label.Unknown, d.Declared[0].Other = "middle", false
	_, err = d.Read(strings.NewReader("id,x,z,y\n"))
	require.ErrorContains(t, err, `needs "other": true`)
}
