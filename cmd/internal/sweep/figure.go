package sweep

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Figure is a picture besides the plot of the experiment: Results drawn as Plot
// says, or, where Results is nil, a histogram of Values.
type Figure struct {
	Name string // of the files, without extension
	Plot Plot
	// Results of the methods of the experiment, with other means.
	Results []Result
	// Values, positive numbers, are counted in log-spaced bins.
	Values []float64
}

// bins of a histogram.
const bins = 30

func (fig Figure) render(format string, e *Experiment, notPrivate string) ([]byte, error) {
	if fig.Results != nil {
		return fig.Plot.render(format, e, notPrivate, fig.Results)
	}
	pl := plot.New()
	fig.Plot.layout(pl, e, notPrivate)
	var logs plotter.Values
	for _, v := range fig.Values {
		if v > 0 && !math.IsInf(v, 0) {
			logs = append(logs, math.Log10(v))
		}
	}
	pl.X.Min, pl.X.Max = wholeDecades(plotter.Range(logs))
	pl.Y.Min, pl.Y.Max = 0, 1
	pl.X.Tick.Marker = decades{}
	if len(logs) > 0 {
		h, err := plotter.NewHist(logs, bins)
		if err != nil {
			return nil, fmt.Errorf("sweep: plot: %w", err)
		}
		h.FillColor = palette[1]
		h.LineStyle.Color, h.LineStyle.Width = color.White, vg.Points(0.5)
		pl.Add(h)
		for _, b := range h.Bins {
			pl.Y.Max = max(pl.Y.Max, 1.05*b.Weight)
		}
	}
	return paint(format, pl, nil)
}
