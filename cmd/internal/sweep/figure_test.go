package sweep

import (
	"bytes"
	"encoding/csv"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An experiment with a linear axis, an added column and two more figures.
func TestColumnsAndFigures(t *testing.T) {
	e := newToy()
	e.Plot.Linear = true
	e.Columns = []Column{{"twice", func(r Result) string { return strconv.FormatFloat(2*r.Mean, 'g', -1, 64) }}}
	e.Figures = func(results []Result) []Figure {
		return []Figure{
			{Name: "again", Plot: Plot{Linear: true}, Results: results},
			{Name: "times", Values: []float64{1e-3, 2e-3, 0.5, math.Inf(1), 0, math.NaN()}},
			{Name: "none"},
		}
	}
	o := seeded(t.TempDir())
	o.Formats, o.Quiet = []string{"csv", "png", "svg"}, true
	results, err := e.Run(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{})
	require.NoError(t, err)

	text, err := os.ReadFile(filepath.Join(o.Out, "risk.csv"))
	require.NoError(t, err)
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, "twice", rows[0][len(rows[0])-1])
	for i, r := range results {
		require.Equal(t, strconv.FormatFloat(2*r.Mean, 'g', -1, 64), rows[i+1][len(rows[0])-1])
	}
	for _, name := range []string{"risk", "again", "times", "none"} {
		picture, err := os.ReadFile(filepath.Join(o.Out, name+".png"))
		require.NoError(t, err, name)
		im, err := png.Decode(bytes.NewReader(picture))
		require.NoError(t, err, name)
		require.Equal(t, 1200, im.Bounds().Dx(), name)
		svg, err := os.ReadFile(filepath.Join(o.Out, name+".svg"))
		require.NoError(t, err, name)
		require.Contains(t, string(svg), "NOT PRIVATE", name)
	}
	again, _ := os.ReadFile(filepath.Join(o.Out, "again.svg"))
	times, _ := os.ReadFile(filepath.Join(o.Out, "times.svg"))
	none, _ := os.ReadFile(filepath.Join(o.Out, "none.svg"))
	require.NotEqual(t, string(again), string(times))
	require.Greater(t, strings.Count(string(times), "<path"), strings.Count(string(none), "<path"), "bars of the histogram")
}

func TestRoomy(t *testing.T) {
	lo, hi := roomy(0.7, 0.8)
	require.InDeltaSlice(t, []float64{0.695, 0.805}, []float64{lo, hi}, 1e-12)
	lo, hi = roomy(0.5, 0.5)
	require.Less(t, lo, 0.5)
	require.Greater(t, hi, 0.5)
	lo, hi = roomy(math.Inf(1), math.Inf(-1))
	require.Equal(t, []float64{0, 1}, []float64{lo, hi})
}
