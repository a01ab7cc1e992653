// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
)

const header = "age,hours,education,id,income\n"

func TestReadCSV(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(people))
	require.NoError(t, err)
	record := "30,40,HS-grad,secret,>50K\n"
	for name, r := range map[string]io.Reader{
		"plain":       strings.NewReader(header + record),
		"BOM, CRLF":   strings.NewReader(bom + strings.ReplaceAll(header+record, "\n", "\r\n")),
		"BOM in gzip": bytes.NewReader(zipped(t, bom+header+record)),
		// Ignored columns may be absent.
		"other order": strings.NewReader("income,education,hours,age\n>50K,HS-grad,40,30\n"),
		"quotes, blanks": strings.NewReader("\"age\", hours ,education,id,income\n \"30\" ,40, " +
			"\"HS-grad\",\"a,\"\"b\",>50K\n"),
		"one byte a time": iotest.OneByteReader(strings.NewReader(header + record)),
	} {
		data, err := ReadCSV(r, s)
		require.NoError(t, err, name)
		n, d := data.Records.Dims()
		require.Equal(t, []int{1, 10}, []int{n, d}, name)
		require.Equal(t, 1.0, data.Records.Label(0))
		require.Equal(t, []float64{0.5, 0, 0, 0.5, 0, (40 - 50) / 49. / 2, 0, 0.5, 0, 0}, data.Records.Row(0), name)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			require.NotContains(t, fmt.Sprintf(verb, data), "-0.10")
		}
		require.Equal(t, "table.Data(1×10)", fmt.Sprint(data))
	}
	data, err := ReadCSV(strings.NewReader(header), s)
	require.NoError(t, err)
	n, d := data.Records.Dims()
	require.Equal(t, []int{0, 10}, []int{n, d}) // a table may have no records
}

// TestReadCSVErrors checks that every error names the place and the fix, and that no error shows
// the contents of a field unless the table is public.
func TestReadCSVErrors(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(people))
	require.NoError(t, err)
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty, want a header line"},
		{"4711,4711,4711,x,4711\n", `line 1: none of its 5 fields is a column of the schema; ` +
			`want a header line with the names of the columns, separated by ',', or "file": {"fields": […]}`},
		{strings.ReplaceAll(header, ",", ";"), `but they would be with "file": {"delimiter": ";"} in the schema`},
		{strings.ReplaceAll(header, ",", "\t"), `{"delimiter": "\t"}`},
		{strings.Replace(header, "age", "Age", 1),
			`the file has no column "age", which the schema declares; names are case-sensitive`},
		{"age,id\n", `the file has no column "hours", "education", "income"`},
		{"age,age," + header, `line 1: columns 1 and 2 are both named "age", want different names`},
		{"4711," + header, `line 1: column 1 is not in the schema: declare it, with "ignore": true to leave it out`},
		{header + "1,2,HS-grad,x,>50K\n4711\n", "line 3: 1 field, want 5"},
		{header + "1,2,HS-grad,4711,2,>50K\n", "line 2: 6 fields, want 5; quote fields that contain ','"},
		{header + "4711x,2,HS-grad,x,>50K\n",
			`line 2, column 1 ("age"): text, want a number, or a spelling listed in "missing"`},
		{header + "0x4711,2,HS-grad,x,>50K\n", `column 1 ("age"): text, want a number`},
		{header + "1_4711,2,HS-grad,x,>50K\n", `column 1 ("age"): text, want a number`},
		{header + "1\x004711,2,HS-grad,x,>50K\n", `column 1 ("age"): text, want a number`},
		{header + "1,\xff4711,HS-grad,x,>50K\n", `column 2 ("hours"): text that is not UTF-8, want a number`},
		{header + "1,2,HS-grad,x,4711\n", `line 2, column 5 ("income", the label): a number, ` +
			`want one of the 3 declared spellings, or "unknown" in the label of the schema`},
		{header + "1,2,HS-grad,x,NaN\n", `("income", the label): NaN, want`},
		{header + "1,2,HS-grad,x,?\n", `("income", the label): a missing value, want`},
		{header + "1,2,HS-grad,x,\n", `("income", the label): an empty field, want`},
		{header + "\"4711,2,HS-grad,x,?\n", "line 2, column 1: a quote that is not closed"},
	} {
		data, err := ReadCSV(strings.NewReader(c.text), s)
		require.ErrorIs(t, err, ErrTable, c.want)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "4711")
		require.Nil(t, data)
	}
	strict := *s
	strict.Columns = slices.Clone(s.Columns)
	strict.Columns[2].Other = false
	_, err = ReadCSV(strings.NewReader(header+"1,2,4711,x,>50K\n"), &strict)
	require.ErrorContains(t, err, `line 2, column 3 ("education"): a number, `+
		`want one of the 2 declared levels, or "other": true in the schema`)
	_, err = Options{Public: true}.ReadCSV(strings.NewReader(header+"1,2,4711,x,>50K\n"), &strict)
	require.ErrorContains(t, err, `"4711", want one of`)
	_, err = Options{Public: true}.ReadCSV(strings.NewReader("zip,"+header), s)
	require.ErrorContains(t, err, `column 1 "zip" is not in the schema`)
	_, err = Options{Unlabeled: true}.ReadCSV(strings.NewReader(header), s)
	require.ErrorIs(t, err, ErrTable)
	_, err = ReadCSV(nil, s)
	require.ErrorIs(t, err, ErrTable)
	_, err = ReadCSV(strings.NewReader(header), &Schema{})
	require.ErrorIs(t, err, ErrSchema)
}

// TestReadCSVFields reads a file without a header line. The schema names its columns.
func TestReadCSVFields(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(strings.Replace(people, `"intercept": true`,
		`"file": {"fields": ["id", "age", "hours", "income", "education"], "delimiter": ";", "comment": "#"}`, 1)))
	require.NoError(t, err)
	data, err := ReadCSV(strings.NewReader("# made up\nx;30;40;>50K;HS-grad\n"), s)
	require.NoError(t, err)
	n, d := data.Records.Dims()
	require.Equal(t, []int{2, 9}, []int{n, d}, "the comment line must count as a record")
	s.File.Fields = s.File.Fields[:4]
	_, err = ReadCSV(strings.NewReader("x;30;40;>50K\n"), s)
	require.ErrorContains(t, err, `no column "education"`)
}

// TestMultiline checks that fields with line breaks are read where the schema allows them, and that
// Draft declares them.
func TestMultiline(t *testing.T) {
	text := header + "30,40,\"HS-\ngrad\",x,>50K\n"
	s, err := ReadSchema(strings.NewReader(people))
	require.NoError(t, err)
	_, err = ReadCSV(strings.NewReader(text), s)
	require.ErrorIs(t, err, ErrTable)
	require.ErrorContains(t, err,
		`line 2, column 3: a quote that is not closed in its line, want "file": {"multiline": true}`)
	s.File.Multiline = true
	data, err := ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	n, _ := data.Records.Dims()
	require.Equal(t, 1, n)
	// An open quote takes in no other record: the table is refused, also if quotes stand behind it.
	s.File.Comment = "#"
	for _, behind := range []string{
		"", "1,2,\"a\",b,>50K\n", "1,2,\",\",b,>50K\n", "1,2,\"\n\",b,>50K\n", "1,\"\"\"\",a,b,>50K\n", "# \"\n",
	} {
		_, err = ReadCSV(strings.NewReader(text+"30,40,a,b,\">50K\n"+behind), s)
		require.ErrorIs(t, err, ErrTable, behind)
	}
	for text, want := range map[string]bool{"a,y\n\"1\n\",2\n2,3\n": true, "a,y\n\"1\",2\n2,3\n": false} {
		drafted, _, err := Draft(strings.NewReader(text), Schema{})
		require.NoError(t, err)
		require.Equal(t, want, drafted.File.Multiline)
	}
}

// TestRowsSkip checks that Options.Skip omits empty lines, for rows that are looked at one by one.
func TestRowsSkip(t *testing.T) {
	e := encoder(t, people)
	for skip, want := range map[bool]int{true: 1, false: 3} {
		rows, err := e.Rows(strings.NewReader(header+"\n30,40,HS-grad,1,>50K\n\n"), Options{Skip: skip})
		require.NoError(t, err)
		n := 0
		for rows.Next() {
			n++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, want, n)
	}
	_, err := Options{Skip: true}.ReadCSV(strings.NewReader(header), e.Schema())
	require.ErrorIs(t, err, ErrTable)
}

// TestRowsUnlabeled checks that rows for predictions need no label.
func TestRowsUnlabeled(t *testing.T) {
	e := encoder(t, people)
	for text, labeled := range map[string]bool{"age,hours,education\n30,?,HS-grad\n": false,
		"age,hours,education,income\n30,?,HS-grad,?\n": true} {
		_, err := e.Rows(strings.NewReader("age,hours,education\n"), Options{})
		require.ErrorContains(t, err, `no column "income"`)
		rows, err := e.Rows(strings.NewReader(text), Options{Unlabeled: true})
		require.NoError(t, err)
		require.Equal(t, labeled, rows.label >= 0)
		more, err := e.Rows(strings.NewReader("note,"+strings.ReplaceAll(text, "\n30", "\nx,30")), Options{Unlabeled: true})
		require.NoError(t, err, "a column that is not in the schema is left out")
		require.True(t, more.Next())
		require.Equal(t, "x", more.Field(0))
		require.True(t, rows.Next())
		require.Equal(t, 2, rows.text.line)
		col, val := rows.Row()
		require.Equal(t, []int32{0, 3, 7}, col)
		require.Equal(t, []float64{0.5, 0.5, 0.5}, val)
		require.Zero(t, rows.Label())
		require.False(t, rows.Next())
		require.False(t, rows.Next())
		require.NoError(t, rows.Err())
	}
}

// TestReadCSVSparse checks that a table is stored as sparse rows if most coordinates are indicators
// of levels, and that these rows equal the dense ones.
func TestReadCSVSparse(t *testing.T) {
	levels := make([]string, 40)
	for k := range levels {
		levels[k] = fmt.Sprint("l", k)
	}
	s := &Schema{Version: 1, Label: Label{Column: "y", Min: new(0.0), Max: new(1.0)},
		Columns: []Column{{Name: "c", Levels: levels}, {Name: "x", Min: new(0.0), Max: new(1.0)}}}
	e, err := s.Encoder()
	require.NoError(t, err)
	require.True(t, e.sparse())
	text := "c,x,y\n"
	for k := range 100 {
		text += fmt.Sprintf("l%d,%v,%v\n", k*7%40, float64(k%5)/4, float64(k%3)/2)
	}
	data, err := ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	want, labels := dense(t, e, text)
	for i := range want {
		want[i] = append(want[i], labels[i])
	}
	var got [][]float64
	for i := range 100 {
		got = append(got, append(data.Records.Row(i), data.Records.Label(i)))
	}
	require.ElementsMatch(t, want, got)
}

// repeated is a reader of a header and n copies of a line, which never holds them all in memory.
type repeated struct {
	head, line string
	left       int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.head != "" {
		n = copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	for len(p)-n >= len(r.line) && r.left > 0 {
		n += copy(p[n:], r.line)
		r.left--
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestRowsMemory checks that Rows needs little memory for a file of 16 MB, or a gigabyte if
// PRIVOPT_DEEP is set.
func TestRowsMemory(t *testing.T) {
	line := "30,40,\"HS-grad\",123456789,>50K\n"
	n := 1 << 19
	if testkit.Deep() {
		n = 1 << 25
	}
	e := encoder(t, people)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, err := e.Rows(&repeated{header, line, n}, Options{})
	require.NoError(t, err)
	got := 0
	for rows.Next() {
		got++
	}
	require.NoError(t, rows.Err())
	runtime.ReadMemStats(&after)
	require.Equal(t, n, got)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// TestReadCSVMemory checks that ReadCSV needs little memory besides the records.
func TestReadCSVMemory(t *testing.T) {
	const n = 200_000
	s := encoder(t, regression).Schema()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	data, err := ReadCSV(&repeated{"area,rooms,city,price\n", "20.5,3,A,250.75\n", n}, s)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	records := uint64(8 * n * (data.Encoder.Dim() + 2)) // each record also has a label and a norm
	require.Less(t, after.TotalAlloc-before.TotalAlloc, 2*records+8<<20)
}

// FuzzReadCSV checks that any text is refused with ErrTable, or gives records that lie within the
// bounds.
func FuzzReadCSV(f *testing.F) {
	for _, s := range []string{"", header, header + "30,40,HS-grad,1,>50K\n", bom + header + "NaN,Inf,?,,<=50K\r\n",
		"area,rooms,city,price\n1e400,-1,A,x\n", header + "1,2\n", "age,age\n"} {
		f.Add(s)
	}
	schemas := []*Schema{encoder(f, people).Schema(), encoder(f, regression).Schema()}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range schemas {
			data, err := ReadCSV(strings.NewReader(text), s)
			if err != nil {
				require.ErrorIs(t, err, ErrTable)
				require.Nil(t, data)
				continue
			}
			n, _ := data.Records.Dims()
			for i := range n {
				sum := 0.0
				for _, v := range data.Records.Row(i) {
					sum += v * v
				}
				require.LessOrEqual(t, sum, 1+1e-15)
				require.LessOrEqual(t, data.Records.Label(i)*data.Records.Label(i), 1.0)
			}
		}
	})
}

func BenchmarkRows(b *testing.B) {
	for name, line := range map[string]string{"plain": "30,40,HS-grad,123456789,>50K\n",
		"quoted": "30,40,\"HS-grad\",123456789,>50K\n"} {
		b.Run(name, func(b *testing.B) {
			e := encoder(b, people)
			text := []byte(header + strings.Repeat(line, 100000))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				rows, err := e.Rows(bytes.NewReader(text), Options{})
				if err != nil {
					b.Fatal(err)
				}
				for rows.Next() {
				}
				if rows.Err() != nil {
					b.Fatal(rows.Err())
				}
			}
			b.ReportMetric(100000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// TestTotalRows: with Total no field is an error, and Outside counts labels beyond their range.
func TestTotalRows(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(`{"schema": 1, "label": {"column": "y", "min": 0, "max": 1},
		"columns": [{"name": "x", "min": 0, "max": 2}, {"name": "c", "levels": ["a"]}]}`))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	const text = "x,c,y\n2,a,0.5\nz,a,q\n2,b,\n1e999,a,7\nNaN,\xff,-3\n"
	rows, err := e.Rows(strings.NewReader(text), Options{Total: true, Skip: true})
	require.NoError(t, err)
	var labels []float64
	var entries []int
	for rows.Next() {
		col, _ := rows.Row()
		labels, entries = append(labels, rows.Label()), append(entries, len(col))
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []int{2, 1, 2, 2, 1}, entries) // an unknown level counts as a share of each
	require.Equal(t, "[0 NaN NaN 1 -1]", fmt.Sprint(labels))
	require.Equal(t, 2, rows.Outside())
	_, err = Options{Total: true}.ReadCSV(strings.NewReader(text), s)
	require.ErrorIs(t, err, ErrTable)
}

const visits = `{ "schema": 1, "label": {"column": "y", "min": -1, "max": 1}, "missing": ["?"],
  "person": "who", "rows": 2,
  "columns": [{"name": "x", "min": 0, "max": 10}] }`

func read(t *testing.T, schema, text string) *Data {
	s, err := ReadSchema(strings.NewReader(schema))
	require.NoError(t, err)
	d, err := ReadCSV(strings.NewReader(text), s)
	require.NoError(t, err)
	return d
}

func content(t *testing.T, d *Data) (lines []string) {
	require.NoError(t, d.Records.EachPerson(t.Context(), 2, 10, func(dst []float64, w float64, a []float64, b float64) {
		dst[0], dst[1] = dst[0]+w*a[0], dst[1]+w*b
	}, func(v []float64) { lines = append(lines, fmt.Sprintf("%.9f", v)) }))
	return lines
}

func TestPersons(t *testing.T) {
	text := "who,x,y\nann,1,1\nbob,2,-1\n ann ,3,1\n?,9,1\n,8,1\n\nann,5,-1\nbob,2,-1\n"
	d := read(t, visits, text)
	require.Equal(t, "table.Data(2×1)", d.String(), "persons, not lines")
	p, ok := d.Records.Persons()
	require.True(t, ok)
	require.Equal(t, erm.Persons{Rows: 2, Column: "who"}, p)
	p, ok = d.Encoder.Persons()
	require.True(t, ok)
	require.Equal(t, erm.Persons{Rows: 2, Column: "who"}, p)
	got := content(t, d)
	require.Contains(t, got, fmt.Sprintf("%.9f", []float64{-0.6, -1}), "two equal lines of bob, x = 2")
	mixed := read(t, visits, "who,x,y\nbob,2,-1\nann,5,-1\n,8,1\nann,3,1\nann,1,1\nbob,2,-1\n")
	require.Equal(t, got, content(t, mixed), "the order of lines and lines without an id change nothing")
	more := read(t, visits, text+strings.Repeat("bob,7,1\n", 100))
	require.Equal(t, "table.Data(2×1)", more.String())
	var kept int
	for _, line := range content(t, more) {
		for _, old := range got {
			if line == old {
				kept++
			}
		}
	}
	require.GreaterOrEqual(t, kept, 1, "nothing changes for ann")

	rows := read(t, strings.Replace(visits, `"rows": 2`, `"rows": 4, "weights": "rows"`, 1), text)
	require.Contains(t, content(t, rows), fmt.Sprintf("%.9f", []float64{-0.3, -0.5}), "bob has two lines of weight 1/4")
	ignored := strings.Replace(visits, `"columns": [`, `"columns": [{"name": "who", "ignore": true}, `, 1)
	require.Equal(t, got, content(t, read(t, ignored, text)))
	fields := strings.Replace(visits, `"columns"`, `"file": {"fields": ["who", "x", "y"]}, "columns"`, 1)
	require.Equal(t, got, content(t, read(t, fields, strings.TrimPrefix(text, "who,x,y\n"))))

	s, err := ReadSchema(strings.NewReader(visits))
	require.NoError(t, err)
	_, err = ReadCSV(strings.NewReader("x,y\n1,1\n"), s)
	require.ErrorContains(t, err, `the file has no column "who"`)
	rowsOf, err := d.Encoder.Rows(strings.NewReader("x\n1\n"), Options{Unlabeled: true})
	require.NoError(t, err, "a prediction needs no id")
	require.True(t, rowsOf.Next())
}
