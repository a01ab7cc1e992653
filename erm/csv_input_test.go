package erm

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

// TestCSVTable: what a file may look like, and what is said of one that may not:
// the line and the column, never a field.
func TestCSVTable(t *testing.T) {
	wide := strings.Repeat("c,", 9) + "y\n"
	for _, c := range []struct {
		name, text string
		rows       int
		says       string // of the error, "" for none
	}{
		{"byte order mark", "\ufeffx,y\n1,2\n", 1, ""},
		{"CRLF", "x,y\r\n1,2\r\n", 1, ""},
		{"no newline at the end", "x,y\n1,2", 1, ""},
		{"empty lines", "x,y\n\n1,2\n\n\n3,4\n", 2, ""},
		{"quoted numbers and a quoted comma", "\"x,1\",y\n\"1\",\"2\"\n", 1, ""},
		{"quoted newline in a name", "\"x\n1\",y\n1,2\n", 1, ""},
		{"blanks", " x , y \n 1 ,\t2\n", 1, ""},
		{"huge, tiny and infinite", "x,y\n1e400,-1e400\n1e-400,Inf\n+Infinity,-inf\n", 3, ""},
		{"missing value", "x,y\nNaN,2\n", 1, ""},
		{"a lone CR", "x,y\r1,2\r", 0, "line"},
		{"ragged", "x,y\n1,2\n3\n", 0, "line 3"},
		{"too many fields", "x,y\n1,2,3\n", 0, "line 2"},
		{"empty field", "x,y\n1,\n", 0, "line 2, column 3"},
		{"word", "x,y\n1,secret\n", 0, "line 2, column 3"},
		{"decimal comma", "x;y\n1,5;2\n", 0, ""},
		{"hexadecimal", "x,y\n0x10,2\n", 0, "line 2, column 1"},
		{"digit separators", "x,y\n1_000,2\n", 0, "line 2, column 1"},
		{"NUL", "x,y\n1\x00,2\n", 0, "line 2, column 1"},
		{"unclosed quote", "x,y\n1,\"2\n3,4\n", 0, "line"},
		{"bare quote", "x,y\n1,2\"3\n", 0, "line 2"},
		{"not UTF-8", "\xff\xfe,y\n1,2\n", 0, "not UTF-8"},
		{"UTF-16", "\xff\xfex\x00,\x00y\x00\n\x001\x00,\x002\x00", 0, "erm: "},
		{"header only", "x,y\n", 0, "no records"},
		{"no header", "1,2\n3,4\n", 0, "header"},
		{"nothing", "", 0, "empty"},
		{"one column", "x\n1\n", 0, "at least one feature"},
		{"equal names", "x,x\n1,2\n", 0, "same name"},
		{"no name", "x,\n1,2\n", 0, "no name"},
		{"ten names alike", wide + "1,2\n", 0, "same name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := ReadCSV(strings.NewReader(c.text), loss.Bounds{Row: 1, Label: 1})
			if c.rows > 0 {
				require.NoError(t, err)
				n, d := data.Dims()
				require.Equal(t, c.rows, n)
				for i := range n {
					for j := range d {
						require.False(t, math.IsNaN(data.Row(i)[j]) || math.IsInf(data.Row(i)[j], 0))
					}
					require.LessOrEqual(t, math.Abs(data.Label(i)), 1.)
				}
				return
			}
			require.ErrorIs(t, err, ErrData)
			require.Nil(t, data)
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestCSVCompressed: a gzip file is no table; piped through gzip it is.
func TestCSVCompressed(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, "x,y\n1,2\n")
	require.NoError(t, w.Close())
	_, err := ReadCSV(bytes.NewReader(z.Bytes()), unitBounds)
	require.ErrorIs(t, err, ErrData)
	r, err := gzip.NewReader(&z)
	require.NoError(t, err)
	data, err := ReadCSV(r, unitBounds)
	require.NoError(t, err)
	n, _ := data.Dims()
	require.Equal(t, 1, n)
}

// TestCSVWide: a million columns are read, and one too few is an error that
// does not list them.
func TestCSVWide(t *testing.T) {
	columns := 1_000_000
	if testing.Short() {
		columns = 50_000
	}
	var text strings.Builder
	for i := range columns {
		fmt.Fprintf(&text, "c%d,", i)
	}
	text.WriteString("y\n")
	text.WriteString(strings.Repeat("1,", columns))
	text.WriteString("1\n")
	data, err := ReadCSV(strings.NewReader(text.String()), unitBounds)
	require.NoError(t, err)
	_, d := data.Dims()
	require.Equal(t, columns, d)
	_, err = ReadCSV(strings.NewReader(text.String()+"1,2\n"), unitBounds)
	require.ErrorIs(t, err, ErrData)
	require.Less(t, len(err.Error()), 300)
	_, err = CSV{Label: "z"}.Read(strings.NewReader(text.String()), unitBounds)
	require.ErrorIs(t, err, ErrData)
	require.Less(t, len(err.Error()), 1000)
}

// rows is a CSV file of n lines that is never held in memory.
type rows struct{ left int }

func (r *rows) Read(p []byte) (n int, err error) {
	const line = "0.25,-0.5,0.125,0.0625,1\n"
	for len(p)-n >= len(line) && r.left > 0 {
		n += copy(p[n:], line)
		r.left--
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestCSVStreams: the reader holds the numbers, not the text: with a gigabyte of
// lines (PRIVOPT_LONG; 25 MB otherwise) the memory at the end is below two
// copies of the records and 16 MB.
func TestCSVStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a long file")
	}
	n := 1_000_000
	if os.Getenv("PRIVOPT_LONG") != "" {
		n = 40_000_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	data, err := ReadCSV(io.MultiReader(strings.NewReader("a,b,c,d,y\n"), &rows{n}), unitBounds)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	got, _ := data.Dims()
	require.Equal(t, n, got)
	record := uint64(8 * (4 + 2)) // four features, the label, the norm
	require.Less(t, after.HeapAlloc-before.HeapAlloc, 2*record*uint64(n)+16<<20)
}
