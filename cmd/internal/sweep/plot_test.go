// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"encoding/csv"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPlotFormats(t *testing.T) {
	e := newToy()
	results := []Result{
		{Value: 0.1, Method: "a", Mean: 2, Std: 5},                            // band reaches below zero
		{Value: 10, Method: "a", Mean: math.MaxFloat64, Std: math.MaxFloat64}, // and beyond the largest number
		{Value: 1, Method: "a", Mean: 1e-300},
		{Value: 1, Method: "b", Mean: 3},
		{Value: 0.1, Method: "zero", Mean: 0},
		{Value: -1, Method: "b", Mean: 1},
		{Value: 0, Method: "b", Mean: 1},
	}
	for _, r := range [][]Result{results, results[3:4], results[4:5], nil} {
		for format, magic := range map[string]string{"png": "\x89PNG", "svg": "<?xml"} {
			data, err := e.Plot.render(format, &e.Experiment, "a reason", r)
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(data, []byte(magic)))
			again, err := e.Plot.render(format, &e.Experiment, "a reason", r)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, again), "%s depends on the results only", format)
		}
	}
	data, err := e.Plot.render("png", &e.Experiment, "", results)
	require.NoError(t, err)
	img, err := png.DecodeConfig(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, []int{1200, 800}, []int{img.Width, img.Height})
	_, err = e.Plot.render("gif", &e.Experiment, "", results)
	require.Error(t, err)
}

// Whatever the data, an axis ends on its limits and shows at least two labels,
// and not so many that they collide.
func TestAxes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-320, 308).Draw(t, "lo")
		hi := rapid.Float64Range(lo, 308.3).Draw(t, "hi")
		for _, limits := range []func(lo, hi float64) (float64, float64){wholeDecades, handsome} {
			a, b := limits(lo, hi)
			require.Less(t, a, b)
			require.LessOrEqual(t, a, lo+slack)
			require.GreaterOrEqual(t, b, hi-slack)
			labels := 0
			for _, tick := range (Decades{}).Ticks(a, b) {
				require.True(t, tick.Value >= a && tick.Value <= b)
				if tick.Label != "" {
					labels++
				}
			}
			require.True(t, labels >= 2 && labels <= 12, "%d labels on [%v, %v]", labels, a, b)
		}
	})
}

func TestTickLabels(t *testing.T) {
	for want, fk := range map[string][2]int{"0.001": {1, -3}, "2·10⁻⁴": {2, -4}, "0.5": {5, -1}, "1": {1, 0}, "20000": {2,
		4}, "100000": {1, 5},
		"10⁶": {1, 6}, "5·10¹²": {5, 12}} {
		require.Equal(t, want, tickLabel(fk[0], fk[1]))
	}
}

// Linear axes have three to ten labels of different texts.
func TestRoundTicks(t *testing.T) {
	for _, r := range [][2]float64{{0, 1}, {-0.05, 1.05}, {0.78, 0.845}, {0, 1.98}, {-3e4, 7e4}, {0, 17}, {0.9367,
		0.9533}, {1e-9, 9e-9}} {
		ticks, seen := (RoundTicks{}).Ticks(r[0], r[1]), map[string]bool{}
		for _, tick := range ticks {
			require.True(t, tick.Value >= r[0] && tick.Value <= r[1])
			require.False(t, seen[tick.Label], "%v %v", r, tick.Label)
			seen[tick.Label] = true
			x, err := strconv.ParseFloat(tick.Label, 64)
			require.NoError(t, err)
			require.InDelta(t, x, tick.Value, 1e-6*(r[1]-r[0]))
		}
		require.True(t, len(ticks) >= 3 && len(ticks) <= 10, "%v: %d labels", r, len(ticks))
	}
}

// An experiment with a linear axis and an added column.
func TestColumnsAndAxis(t *testing.T) {
	e := newToy()
	e.Plot.Linear = true
	e.Columns = []Column{{"twice", func(r Result) string { return strconv.FormatFloat(2*r.Mean, 'g', -1, 64) }}}
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
	picture, err := os.ReadFile(filepath.Join(o.Out, "risk.png"))
	require.NoError(t, err)
	im, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	require.Equal(t, 1200, im.Bounds().Dx())
	svg, err := os.ReadFile(filepath.Join(o.Out, "risk.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "NOT PRIVATE")
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
