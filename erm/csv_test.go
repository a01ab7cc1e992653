package erm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
)

var unitBounds = loss.Bounds{Row: 1, Label: 1}

func TestReadCSV(t *testing.T) {
	for name, text := range map[string]string{
		"plain":       "x1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n",
		"CRLF":        "x1,x2,y\r\n0.6,0.8,1\r\n0,-1,-0.5\r\n",
		"BOM":         "\ufeffx1,x2,y\n0.6,0.8,1\n0,-1,-0.5\n",
		"quoted":      "\"x1\",\"x2\",\"y\"\n\"0.6\",0.8,1\n0,\"-1\",-0.5\n",
		"no last EOL": "x1,x2,y\n0.6,0.8,1\n0,-1,-0.5",
		"empty lines": "x1,x2,y\n\n0.6,0.8,1\n\n\n0,-1,-0.5\n",
		"blanks":      " x1 , x2, y \n 0.6,0.8 ,1\n0,\t-1,-0.5\n",
		"exponents":   "x1,x2,y\n6e-1,.8,+1\n-0,-1.,-5E-1\n",
	} {
		// In exact arithmetic the norm of the float64 row (0.6, 0.8) exceeds 1.
		data, err := ReadCSV(strings.NewReader(text), loss.Bounds{Row: 2, Label: 1})
		require.NoError(t, err, name)
		require.ElementsMatch(t, [][]float64{{0.6, 0.8, 1}, {0, -1, -0.5}}, every(data), name)
	}
	data, err := CSV{Label: "x1", Comma: ';'}.Read(strings.NewReader("x1;\"x;2\";y\n1;0.6;0.8\n"), unitBounds)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{0.6, 0.8, 1}, every(data)[0], 1e-15)
}

// Values never make an error; each record is mapped by itself.
func TestReadCSVMapsValues(t *testing.T) {
	data, err := ReadCSV(strings.NewReader("a,b,y\n1e400,3,1e400\nNaN,0.5,nan\n-Inf,inf,-Infinity\n3,4,-7\n1e-400,0,0\n"), unitBounds)
	require.NoError(t, err)
	root := math.Sqrt(0.5)
	want := [][]float64{{1, 0, 1}, {0, 0.5, 0}, {-root, root, -1}, {0.6, 0.8, -1}, {0, 0, 0}}
	for _, record := range every(data) {
		at := slices.IndexFunc(want, func(w []float64) bool { return floats.EqualApprox(w, record, 1e-15) })
		require.GreaterOrEqual(t, at, 0, "%v", record)
		want = slices.Delete(want, at, at+1)
		require.False(t, above(record[:2], 1))
	}
	require.Empty(t, want)
}

func TestReadCSVErrors(t *testing.T) {
	const secret = "4711"
	for text, file := range map[string]string{
		"the file is empty":                                 "",
		"no records":                                        "x,y\n",
		"line 1: 1 column":                                  "x\n1\n",
		"column 2 has no name":                              "x,,y\n1,2,3\n",
		"columns 1 and 3 have the same name":                "x,y,x\n1,2,3\n",
		"all names are numbers":                             "1,4711\n1,2\n",
		"column 1 is not UTF-8":                             "\xff\xfex,y\n1,2\n",
		"line 3: wrong number of fields":                    "x,y\n1,2\n4711\n",
		"line 2: wrong number of fields":                    "x,y\n1,2,4711\n",
		`line 3, column 3: field "y" is not a number`:       "x,y\n1,2\n3,4711a\n",
		`line 2, column 1: field "x" is not a number`:       "x,y\n,4711\n",
		`line 2, column 3: field "y" is not a num`:          "x,y\n1, 0x4711p1\n",
		`line 2, column 3: field "y" is not a number`:       "x,y\n1,4_711\n",
		`line 2, column 1: field "x" is not `:               "x,y\n\"4,711\",1\n",
		`line 4, column 1: field "x" is not a number`:       "x,y\n\"1\n\",2\n,4711\x00\n",
		`line 2, column 9: extraneous or missing " in quot`: "x,y\n1,\"4711\n",
		`line 2, column 4: bare " in non-quoted`:            "x,y\n1,4\"711\n",
		"no column is named \"z\"; the columns are":         "x,y\n1,2\n",
		"is the header line missing?":                       "4711,y\n1,2\n",
		"field is not a number":                             "4711,secret,y\n1,2,z\n",
	} {
		c := CSV{}
		if strings.Contains(text, "header line missing") || strings.Contains(text, "named") {
			c.Label = "z"
		}
		_, err := c.Read(strings.NewReader(file), unitBounds)
		require.ErrorIs(t, err, ErrData, text)
		require.NotContains(t, err.Error(), secret, text)
		require.NotContains(t, err.Error(), "secret", text)
		if text == "line 3: wrong number of fields" || text == "line 2: wrong number of fields" {
			require.ErrorContains(t, err, text[:6])
			require.ErrorContains(t, err, text[8:])
			continue
		}
		require.ErrorContains(t, err, text)
	}
	_, err := ReadCSV(nil, unitBounds)
	require.ErrorIs(t, err, ErrData)
	_, err = ReadCSV(strings.NewReader("x,y\n1,2\n"), loss.Bounds{Row: -1, Label: 1})
	require.ErrorIs(t, err, loss.ErrBounds)
	_, err = CSV{Comma: '"'}.Read(strings.NewReader("x,y\n1,2\n"), unitBounds)
	require.ErrorIs(t, err, ErrData)
	_, err = ReadCSV(io.MultiReader(strings.NewReader("x,y\n1,2\n"), failing{}), unitBounds)
	require.ErrorIs(t, err, errFailing)
	require.ErrorIs(t, err, ErrData)

	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("feature%d", i)
	}
	names[0] = strings.Repeat("é", 300)
	_, err = CSV{Label: "none"}.Read(strings.NewReader(strings.Join(names, ",")+"\n"), unitBounds)
	require.ErrorContains(t, err, "and 80 more")
	require.Less(t, len(err.Error()), 500)
}

var errFailing = errors.New("disk on fire")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// Lines without quotes leave nothing behind but their numbers, no string and no
// slice.
func TestReadCSVStreams(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("a,b,c,y\n")
	const n = 20000
	for i := range n {
		fmt.Fprintf(&text, "%d.00000000000000000001,0.5,1e-5,%d\n", i%7, i%3)
	}
	got := testing.AllocsPerRun(1, func() {
		data, err := ReadCSV(bytes.NewReader(text.Bytes()), loss.Bounds{Row: 10, Label: 10})
		require.NoError(t, err)
		rows, cols := data.Dims()
		require.Equal(t, []int{n, 3}, []int{rows, cols})
	})
	// Slabs, growing slices and set-up.
	require.Less(t, got, 300.0)
}

// lines makes a table of d features and the label, and watches the heap.
type lines struct {
	d, left int
	rnd     *rand.Rand
	buf     []byte // what is left of a line
	line    [4096]byte
	read    int
	peak    uint64
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.buf) == 0 {
		if l.left == 0 {
			return 0, io.EOF
		}
		l.buf = l.line[:0]
		for j := range l.d + 1 {
			if j > 0 {
				l.buf = append(l.buf, ',')
			}
			l.buf = strconv.AppendFloat(l.buf, l.rnd.Float64()-0.5, 'g', 6, 64)
		}
		l.buf = append(l.buf, '\n')
		if l.left--; l.left%1000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			l.peak = max(l.peak, m.HeapAlloc)
		}
	}
	n := copy(p, l.buf)
	l.buf, l.read = l.buf[n:], l.read+n
	return n, nil
}

// Reading takes at most 1.2 times the memory of the numbers, with the garbage
// that it makes, and 4 MiB. With PRIVOPT_LONG the file has 200 MB.
func TestReadCSVMemory(t *testing.T) {
	const d = 50
	n := 20000
	if os.Getenv("PRIVOPT_LONG") != "" {
		n = 450000
	}
	names := make([]string, d+1)
	for j := range names {
		names[j] = fmt.Sprint("c", j)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l := &lines{d: d, left: n, rnd: rand.New(rand.NewPCG(1, 1))}
	data, err := ReadCSV(io.MultiReader(strings.NewReader(strings.Join(names, ",")+"\n"), l), loss.Bounds{Row: 10, Label: 1})
	require.NoError(t, err)
	rows, _ := data.Dims()
	require.Equal(t, n, rows)
	peak := l.peak - m.HeapAlloc
	t.Logf("%d MB read, %.1f MB of numbers, %.1f MB at most", l.read>>20, float64(8*n*(d+1))/1e6, float64(peak)/1e6)
	require.LessOrEqual(t, float64(peak), 1.2*float64(8*n*(d+1))+4<<20)
}

// Both ways to read a line agree in what they read and what they refuse, also
// where one hands over to the other, and for lines longer than any buffer.
func TestReadCSVPlainAndQuoted(t *testing.T) {
	long := strings.Repeat(" ", 10000)
	for _, text := range []string{
		"x,y\n1,2\n\"3\",4\n5,6\n", "x,y\n1,2\n\n\r\n3,\"4\"\n\n5,a\n", "x,y\n1,2\r", "x,y\n1,2\r\n3,4\r\r\n", "x,y\n1\r,2\n",
		"\n\nx,y\n1,2\n3\n", "x,y\n1,2\n3,4,5\n", "x,y\n1,2\n\"3\n\",4\n5\n", "\"x\nz\",y\n1,2\nb,3\n", "x,y\n1,\"2\n", "x,y\n\r\n",
		"x,y\n" + long + "1," + long + "2\n3,4" + long + "\n", "x,y\n" + long + "1," + long + "z\n", "x,y\n" + long + "\"1\"," + long + "2\n3,q", "x,y\n ,1\n",
		"x,y\n\u00a01\u00a0,2\n", "x,y\n\r,1\n", "x,y\n1,2\n\"3\",4\n5,\"6\n7\n",
	} {
		sameCSV(t, CSV{}, text, loss.Bounds{Row: 9, Label: 9})
	}
}

// sameCSV reads text in both ways.
func sameCSV(t *testing.T, c CSV, text string, b loss.Bounds) {
	fast, err := c.read(strings.NewReader(text), b, true)
	slow, also := c.read(strings.NewReader(text), b, false)
	if also != nil {
		require.EqualError(t, err, also.Error(), "%q", text)
		return
	}
	require.NoError(t, err, "%q", text)
	require.Equal(t, every(slow), every(fast), "%q", text)
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{
		"", "x", "x,y\n", "x,y\n1,2\n", "\ufeffx,y\r\n1,2\r\n", "x,y\n\"1\",2\n", "x,y\n1,NaN\n", "x,y\n1e400,-Inf\n",
		"x,y\n1,2\n3\n", "x,y\n1,\"2\n", "x,x\n1,2\n", "1,2\n3,4\n", "x;y\n1;2\n", "x,y\n1\r2\n", "x,y\n\x00,1\n", "x,y\n0x1p-2,1_0\n",
		"a,b,c\n1e308,1e308,1\n", "a,b,c\n5e-324,5e-324,1\n", ",\n1,2\n", "\xff,y\n1,2\n",
	} {
		f.Add(s, "", 1.0)
		f.Add(s, "y", 5.0)
	}
	f.Fuzz(func(t *testing.T, text, label string, bound float64) {
		b := loss.Bounds{Row: bound, Label: bound}
		sameCSV(t, CSV{Label: label}, text, b)
		data, err := CSV{Label: label}.Read(strings.NewReader(text), b)
		if err != nil {
			require.Nil(t, data)
			require.ErrorIs(t, err, ErrData)
			require.True(t, strings.HasPrefix(err.Error(), "erm: "))
			return
		}
		n, d := data.Dims()
		require.Positive(t, n)
		require.Positive(t, d)
		for i := range n {
			require.False(t, above(data.Row(i), bound))
			require.LessOrEqual(t, math.Abs(data.Label(i)), bound)
		}
	})
}
