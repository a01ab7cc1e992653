// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
)

func readText(r io.Reader, comma byte, begins bool) (all [][]string, err error) {
	t, err := newText(r, comma, 0, begins)
	if err != nil {
		return nil, err
	}
	for {
		fields, err := t.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		record := []string{}
		for _, f := range fields {
			record = append(record, string(f))
		}
		all = append(all, record)
	}
}

func zipped(t testing.TB, text string) []byte {
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.NoCompression)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

func TestText(t *testing.T) {
	long := strings.Repeat("z", 200000)
	for text, want := range map[string][][]string{
		"":                                {},
		"a,b\n1,2\n":                      {{"a", "b"}, {"1", "2"}},
		bom + "a,b\r\n\r\n\n1, 2 ":        {{"a", "b"}, {"1", "2"}},
		"a\n\n\"\"\nb":                    {{"a"}, {""}, {"b"}},
		"\"a,b\",\"c\"\"d\"\n":            {{"a,b", `c"d`}},
		"\"a\nb\r\nc\" , d\n1,2\n":        {{"a\nb\nc", "d"}, {"1", "2"}},
		" \"a\" ,\tb\n":                   {{"a", "b"}},
		",\n":                             {{"", ""}},
		long + "," + long + "\n\"1\",2\n": {{long, long}, {"1", "2"}},
		"\"" + long + "\n" + long + "\"":  {{long + "\n" + long}},
		"a\rb,c\r":                        {{"a\rb", "c"}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"gzip": bytes.NewReader(zipped(t, text)),
		} {
			got, err := readText(r, ',', true)
			require.NoError(t, err, "%s %.40q", name, text)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i], got[i], "%s %.40q", name, text)
			}
		}
	}
	got, err := readText(strings.NewReader("a;b,c\n"), ';', true)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a", "b,c"}}, got)
}

// TestTextTabs: a tab that delimits fields is no blank around a quoted one.
func TestTextTabs(t *testing.T) {
	for text, want := range map[string][]string{
		"\"a\"\t\tb": {"a", "", "b"}, "\t \"a\" \tb": {"", "a", "b"}, "\"a\"\t": {"a", ""}, "a\t\t\"b\"": {"a", "", "b"},
	} {
		got, err := readText(strings.NewReader(text), '\t', true)
		require.NoError(t, err, "%q", text)
		require.Equal(t, [][]string{want}, got, "%q", text)
	}
}

func TestTextErrors(t *testing.T) {
	whole := zipped(t, strings.Repeat("1,2\n", 1000))
	for _, c := range []struct{ text, want string }{
		{"a,b\n1,\"4711\n", "line 2, column 2: a quote that is not closed"},
		{"a,b\n1,4\"711\"\n", "line 2, column 2: a quote inside a field that does not begin with one"},
		{"a,b\n\"1\"4711,2\n", "line 2, column 1: text between a closing quote and the delimiter"},
		{"\n\n\"1\n2\n3\"\nx,\"4711\"4711", "line 6, column 2: text between"},
		{"\xff\xfea\x00,\x00", "the file is UTF-16, want UTF-8"},
		{string(whole[:len(whole)-20]), "cut off, want all of it: unexpected EOF"},
		{"\x1f\x8b4711", "gzip"},
		{strings.Repeat("4711", maxLine/4+100000), "line 1: longer than 64 MB"},
		{"\"" + strings.Repeat("4711\n", maxLine/5+100000), "line 1, column 1: a quote that is not closed within 64 MB"},
	} {
		_, err := readText(strings.NewReader(c.text), ',', true)
		require.ErrorIs(t, err, ErrTable)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "4711")
	}
	_, err := newText(nil, ',', 0, true)
	require.ErrorIs(t, err, ErrTable)
	_, err = readText(io.MultiReader(strings.NewReader("a,b\n"), iotest.ErrReader(io.ErrClosedPipe)), ',', true)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.ErrorIs(t, err, ErrTable)
}

func TestTextComment(t *testing.T) {
	r, err := newText(strings.NewReader("|1x3 \"\na|,b\n|\n"), ',', '|', true)
	require.NoError(t, err)
	fields, err := r.next()
	require.NoError(t, err)
	require.Equal(t, "a|", string(fields[0]))
	_, err = r.next()
	require.ErrorIs(t, err, io.EOF)
}

// form is the form of a random table, and a schema for it.
type form struct {
	s      *Schema
	head   string
	plain  [][]string // plausible fields of the columns
	zipped bool
}

// pick returns one of a list.
func pick[T any](rnd *rand.Rand, list ...T) T { return list[rnd.IntN(len(list))] }

func randomForm(rnd *rand.Rand) *form {
	names := []string{"id", "x", "k", "d", "n", "y"}
	total := rnd.IntN(3) > 0
	f := &form{plain: [][]string{{"1", "2", "3", "4", ""}, {"-3", "0.5", "7", "1000", "?"}, {"a", "b", "c", "?"},
		{"2006-01-02", "1999-12-31"}, {"3", "15", "25"}}}
	f.s = &Schema{Version: 1, Missing: []string{"?", ""}, Intercept: rnd.IntN(2) == 0, Columns: []Column{
		{Name: "id", Ignore: true},
		{Name: "x", Min: new(-5.0), Max: new(10.0), Other: total, Missing: rnd.IntN(2) == 0},
		{Name: "k", Levels: []string{"a", "b"}, Other: total},
		{Name: "n", Min: new(0.0), Max: new(30.0), Bins: []float64{10, 20}, Other: total},
		{Name: "d", Date: "2006-01-02", Min: new(-400.0), Max: new(4000.0), Other: total},
		{Name: "kn", Cross: []string{"k", "n"}},
	}}
	f.s.File = File{
		Delimiter: pick(rnd, "", ";", "\t", "|"), Comment: pick(rnd, "", "#"), Multiline: rnd.IntN(4) == 0,
		Encoding: pick(rnd, "", "", latin1, windows1252), Decimal: pick(rnd, "", "", ","),
		Thousands: pick(rnd, "", "", "'", " "),
	}
	labels := pick(rnd, []string{"0", "5", "20"}, []string{"yes", "no"}, []string{"u", "v", "w"})
	f.plain = append(f.plain, labels)
	f.s.Label = Label{Column: "y", Levels: labels, Unknown: labels[1]}
	switch labels[0] {
	case "0":
		f.s.Label = Label{Column: "y", Min: new(0.0), Max: new(10.0), Unknown: "middle"}
	case "yes":
		f.s.Label = Label{Column: "y", Positive: labels[:1], Negative: labels[1:], Unknown: "positive"}
	}
	if !total && rnd.IntN(2) == 0 {
		f.s.Label.Unknown = ""
	}
	if rnd.IntN(2) == 0 {
		f.s.Person, f.s.Rows, f.s.Weights = "id", 1+rnd.IntN(3), pick(rnd, "persons", "rows")
	}
	if f.s.File.Fields = names; rnd.IntN(2) == 0 {
		f.s.File.Fields, f.zipped = nil, rnd.IntN(2) == 0
		f.head = pick(rnd, "", bom, "\n", "sep="+f.comma()+"\n") + strings.Join(names, f.comma()) + pick(rnd, "\n", "\r\n")
	}
	return f
}

func (f *form) comma() string { return cmp.Or(f.s.File.Delimiter, ",") }

// file returns a reader of a table, compressed where its form says so.
func (f *form) file(t *testing.T, rnd *rand.Rand, table string) io.Reader {
	if f.zipped {
		table = string(zipped(t, table))
	}
	return testkit.Chunked(rnd, table)
}

// rows reads a table row by row and calls each for every record.
func (f *form) rows(r io.Reader, o Options, each func(rows *Rows)) error {
	e, err := f.s.Encoder()
	if err != nil {
		return err
	}
	rows, err := e.Rows(r, o)
	if err != nil {
		return err
	}
	for rows.Next() {
		each(rows)
	}
	return rows.Err()
}

// recordsIn counts the records of data, or its persons.
func recordsIn(data *erm.Data) (testkit.Counts, error) {
	counts := testkit.Counts{}
	_, d := data.Dims()
	add := func(dst []float64, w float64, a []float64, b float64) {
		for j, v := range append(slices.Clone(a), b) {
			dst[j] += w * v
			dst[d+1+j] += w * (v - b) * float64(j+2)
		}
	}
	err := data.EachPerson(context.Background(), 2*(d+1), math.Inf(1), add, func(v []float64) { counts[fmt.Sprint(v)]++ })
	return counts, err
}

// searched counts what a private search sees of a table.
func searched(u *Undeclared) testkit.Counts {
	counts := testkit.Counts{"units": int64(u.Records())}
	for j, name := range u.Columns() {
		for k, n := range u.Kinds(j) {
			counts[fmt.Sprint(name, " kind ", k)] += n
		}
		u.Spellings(j, func(spelling string, n int64) { counts[name+" spelling "+spelling] += n })
		cells := make([]int64, 100)
		u.Count(cells, j, func(x float64) int { // the exponent
			_, e := math.Frexp(x)
			return min(max(e, -50), 49) + 50
		})
		for k, n := range cells {
			if n != 0 {
				counts[fmt.Sprint(name, " cell ", k)] += n
			}
		}
	}
	return counts
}

// TestOneLineIsOneRecord reads random tables of hostile lines, in all forms and by all readers. A
// table has to be read as its lines are read one by one, or as the lines of each person alone: what
// a line means depends neither on its place nor on other lines. It is refused if and only if one of
// its lines is. With "multiline" all lines but one are records by themselves, and that one is any.
func TestOneLineIsOneRecord(t *testing.T) {
	n := testkit.Of(250, 2500, 10_000)
	if testing.Short() {
		n = 200
	}
	read := map[string]int{}
	for seed := range n {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		f := randomForm(rnd)
		id := func(line string) (id string, records int, err error) {
			err = f.rows(f.file(t, rnd, f.head+line), Options{Total: true}, func(r *Rows) { id = r.ID(); records++ })
			return id, records, err
		}
		var lines []string
		loose := rnd.IntN(8) // the line that need not be one record where quotes may hold line ends
		for k := range 1 + rnd.IntN(8) {
			line := testkit.Line(rnd, f.comma(), f.plain, f.s.File.Multiline)
			if _, records, err := id(line); !f.s.File.Multiline || k == loose || err == nil && records == 1 {
				lines = append(lines, line)
			}
		}
		owner := testkit.Nobody
		if f.s.Person != "" {
			owner = func(line string) string { who, _, _ := id(line); return who }
		}
		search := Discovery{File: f.s.File, Label: Label{Column: "y"}, Person: f.s.Person, Rows: f.s.Rows,
			Weights: f.s.Weights}
		for name, r := range map[string]struct {
			read  func(r io.Reader) (testkit.Counts, error)
			owner func(line string) string
		}{
			"fit": {func(r io.Reader) (testkit.Counts, error) {
				data, err := Options{Public: f.head != "" && seed%2 == 0}.ReadCSV(r, f.s)
				if err != nil {
					return nil, err
				}
				return recordsIn(data.Records)
			}, owner},
			"search": {func(r io.Reader) (testkit.Counts, error) {
				u, err := search.Read(r)
				if err != nil {
					return nil, err
				}
				return searched(u), nil
			}, owner},
			"rows": {func(r io.Reader) (testkit.Counts, error) {
				counts := testkit.Counts{}
				return counts, f.rows(r, Options{Total: seed%3 == 0, Skip: seed%2 == 0}, func(r *Rows) {
					col, val := r.Row()
					counts[fmt.Sprint(col, val, r.Label(), r.ID())]++
				})
			}, testkit.Nobody},
		} {
			kind := fmt.Sprint(name, f.head == "", f.zipped, f.s.File.Multiline, f.s.Person != "")
			read[kind] += 0
			if testkit.Additive(t, func(table string) (testkit.Counts, error) { return r.read(f.file(t, rnd, table)) }, f.head,
				lines, r.owner) {
				read[kind]++
			}
		}
		if k := len(lines); k > 0 { // without its line end, the last line could become empty, and no record
			_, err := ReadCSV(f.file(t, rnd, f.head+strings.TrimSuffix(strings.Join(lines, "")+"x", "\n")), f.s)
			require.ErrorIs(t, err, ErrTable)
		}
	}
	require.Len(t, read, 36)
	for kind, tables := range read {
		require.Greater(t, tables, n/300, kind)
	}
}

// TestFirstBytes: a table without a header line may begin with any bytes, which are those of a
// record. Where the first bytes are public, other kinds of file are recognized.
func TestFirstBytes(t *testing.T) {
	s := &Schema{Version: 1, File: File{Fields: []string{"x", "y"}},
		Label:   Label{Column: "y", Min: new(0.0), Max: new(9.0), Unknown: "middle"},
		Columns: []Column{{Name: "x", Min: new(0.0), Max: new(9.0), Other: true}}}
	search := Discovery{File: s.File, Label: Label{Column: "y"}}
	numeric := Numeric{Bounds: unit, Fields: []string{"x", "y"}}
	for start, what := range map[string]string{"\x1f\x8b": "gzip", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16",
		"PK\x03\x04": "Excel workbook", "\xd0\xcf\x11\xe0": "Excel workbook", "PAR1\x15": "Parquet file",
		"\x93NUMPY": ".npy file", "<html>": "web page", "\x28\xb5\x2f\xfd": "zstd"} {
		text := start + "4,5\n2,3\n"
		_, err := ReadCSV(strings.NewReader(text), s)
		require.NoError(t, err)
		_, err = search.Read(strings.NewReader(text))
		require.NoError(t, err)
		_, err = numeric.ReadCSV(strings.NewReader(text))
		require.ErrorContains(t, err, "line 1, column 1 (\"x\"): text")
		_, err = Options{Public: true}.ReadCSV(strings.NewReader(text), s)
		require.ErrorContains(t, err, what)
		named := *s
		named.File.Fields = nil
		_, err = ReadCSV(strings.NewReader(text), &named)
		require.ErrorContains(t, err, what)
	}
	// A byte order mark is cut off every line.
	for _, text := range []string{
		bom + "4,5\n2,3\n", "4,5\n" + bom + "2,3\n", "4,5\n" + bom + "\"2\",3\n", bom + "4,5\n" + bom + "2,3\n",
	} {
		data, err := numeric.ReadCSV(strings.NewReader(text))
		require.NoError(t, err)
		n, _ := data.Dims()
		require.Equal(t, 2, n)
	}
}

// FuzzText checks that text that encoding/csv accepts is read with the same result, except for
// blanks around fields.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a,b\n1,2\n", "\"a\"\"\n\",b\r\n", " \"a\",b\r", "a\rb\n", "\"a\" ,b", "\"\n", "a\"b",
		",\"", "\xff\xfe",
		"\"\r\n\",\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, bom) { // cut off each record
			return
		}
		got, err := readText(strings.NewReader(text), ',', false)
		in := csv.NewReader(strings.NewReader(text))
		in.FieldsPerRecord, in.TrimLeadingSpace = -1, true
		want, bad := in.ReadAll()
		if bad != nil {
			if err != nil {
				require.ErrorIs(t, err, ErrTable)
			}
			return
		}
		require.NoError(t, err, "%q", text)
		require.Len(t, got, len(want))
		for i := range want {
			for j := range want[i] {
				want[i][j] = strings.TrimSpace(want[i][j])
			}
			require.Equal(t, want[i], got[i], "%q", text)
		}
	})
}

// TestRowNumbers: the first column of a header line may have no name, as pandas and R write that of
// row numbers. It is left out everywhere but in tables of numbers.
func TestRowNumbers(t *testing.T) {
	pandas := ",age,job,y\n0,30,nurse,1\n1,40,pilot,0\n2,50,pilot,1\n"
	r := "\"\",\"age\",\"job\",\"y\"\n\"1\",30,\"nurse\",1\n\"2\",40,\"pilot\",0\n\"3\",50,\"pilot\",1\n"
	for _, text := range []string{pandas, r} {
		s, notes, err := Draft(strings.NewReader(text), Schema{})
		require.NoError(t, err)
		require.Equal(t, "age", s.Columns[0].Name)
		require.Contains(t, strings.Join(notes, "\n"), "the first column: without a name → row numbers, left out")
		data, err := ReadCSV(strings.NewReader(text), s)
		require.NoError(t, err)
		n, _ := data.Records.Dims()
		require.Equal(t, 3, n)
		u, err := Discovery{Label: Label{Column: "y"}}.Read(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, []string{"age", "job", "y"}, u.Columns())
		_, err = u.Data(u.Schema(s.Label, s.Columns))
		require.NoError(t, err)
		_, err = Numeric{Bounds: unit}.ReadCSV(strings.NewReader(text))
		require.ErrorContains(t, err, "line 1: column 1 has no name: if it numbers the rows, leave it out")
	}
	_, err := Discovery{Label: Label{Column: "y"}}.Read(strings.NewReader(",y\n1,2\n"))
	require.ErrorContains(t, err, "no column but the label")
	_, err = Discovery{Label: Label{Column: "y"}}.Read(strings.NewReader("a,,y\n1,2,3\n"))
	require.ErrorContains(t, err, "column 2 has no name")
}
