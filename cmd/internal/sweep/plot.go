// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // png
	_ "gonum.org/v1/plot/vg/vgsvg" // svg
)

// Plot words the figure: mean against value on two logarithmic axes, with
// bands of one standard deviation.
type Plot struct {
	Title, X, Y string
	// Above is a method whose mean is subtracted from the means of all others at the same value;
	// itself it is not drawn.
	Above string
	// Linear draws the means on a linear axis, with error bars of one standard
	// deviation instead of bands: for shares and accuracies.
	Linear bool
	// Legend names the methods; a method without an entry shows its own name.
	Legend map[string]string
	// Dashed lists the methods drawn as dashed lines, each with a pattern of its own:
	// baselines, and curves that would hide others.
	Dashed []string
	// Style overrides color and dashes; methods without a style are not drawn. For families of
	// curves the legend names Colors and Dashes in place of the methods.
	Style          map[string]Style
	Colors, Dashes []string
}

// Style counts in the palette of colors and in the patterns of dashes.
type Style struct{ Color, Dash int }

// dashes are line patterns in points, solid first.
var dashes = [][]vg.Length{nil, {7, 4}, {3, 3}, {9, 3, 2, 3}}

// A picture is 1200×800 pixels at the 96 dots an inch of PNG.
const plotWidth, plotHeight = 900 * vg.Length(1), 600 * vg.Length(1) // points

// Palette holds the colors of Okabe and Ito, told apart by color-blind readers
// too, darkest contrasts first.
var Palette = []color.NRGBA{
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0x00, 0x9e, 0x73, 0xff}, // green
	{0xcc, 0x79, 0xa7, 0xff}, // purple
	{0x40, 0x40, 0x40, 0xff}, // dark grey
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky
	{0x8c, 0x56, 0x4b, 0xff}, // brown
}

// curve is what is drawn of one method, in increasing order of x. Everything
// on a logarithmic axis is a base-10 logarithm on a linear one: the library's
// own logarithmic scale panics on zero and centers the axis titles wrongly.
type curve struct {
	method   string
	line     plotter.XYs // means
	low, top []float64   // low is -Inf where mean − std ≤ 0
	band     bool
}

// curves collects the drawable part of the results; a logarithmic axis has no
// place for zero or less.
func curves(methods []string, results []Result, linear bool) []curve {
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b Result) int { return cmp.Compare(a.Value, b.Value) })
	var list []curve
	for _, m := range methods {
		c := curve{method: m}
		for _, r := range results {
			if r.Method != m || !(r.Value > 0) || !(r.Mean > 0 || linear) || math.IsInf(r.Mean, 0) {
				continue
			}
			mean, low := r.Mean, r.Mean-r.Std
			top := r.Mean + r.Std
			if !linear {
				mean, low = math.Log10(mean), math.Log10(max(0, low))
				top = math.Log10(min(math.MaxFloat64, top))
			}
			c.line = append(c.line, plotter.XY{X: math.Log10(r.Value), Y: mean})
			c.low, c.top = append(c.low, low), append(c.top, top)
			c.band = c.band || r.Std > 0
		}
		list = append(list, c)
	}
	return list
}

// Slack of the axis limits in decades, so that a value such as 10^(-2-1e-16)
// does not add an empty decade.
const slack = 1e-9

// wholeDecades returns the integers around [lo, hi], at least one apart; an
// empty interval becomes [-1, 0].
func wholeDecades(lo, hi float64) (float64, float64) {
	if lo > hi {
		return -1, 0
	}
	a, b := math.Floor(lo+slack), math.Ceil(hi-slack)
	return a, max(b, a+1)
}

// handsome returns the logarithms of 1, 2 or 5 times a power of ten around
// [lo, hi], apart from one another.
func handsome(lo, hi float64) (float64, float64) {
	bottom, top := wholeDecades(lo, hi)
	a, b := bottom, top
	for _, f := range []float64{2, 5} { // each tighter than the one before
		l := math.Log10(f)
		if bottom+l <= lo+slack {
			a = bottom + l
		}
		if top-l >= hi-slack { // 5, then 2
			b = top - l
		}
	}
	if a >= b {
		return bottom, top
	}
	return a, b
}

// roomy returns an interval around [lo, hi] with a twentieth of it on each side;
// an empty interval becomes [0, 1].
func roomy(lo, hi float64) (float64, float64) {
	if lo > hi {
		return 0, 1
	}
	room := max((hi-lo)/20, 1e-6*max(1, math.Abs(lo), math.Abs(hi)))
	return lo - room, hi + room
}

// RoundTicks marks a linear axis at three to ten multiples of 1, 2 or 5 times a power of
// ten, each with a label.
type RoundTicks struct{}

// Ticks implements plot.Ticker.
func (RoundTicks) Ticks(lo, hi float64) []plot.Tick {
	unit := math.Pow(10, math.Floor(math.Log10(hi-lo)))
	step := unit
	for _, f := range []float64{0.5, 0.2} {
		if (hi-lo)/step < 3.5 {
			step = f * unit
		}
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+slack)))
	var ticks []plot.Tick
	for k := math.Ceil(lo/step - slack); k*step <= hi+slack*step; k++ {
		ticks = append(
			ticks,
			plot.Tick{Value: max(lo, min(hi, k*step)), Label: strconv.FormatFloat(k*step+0, 'f', digits, 64)},
		)
	}
	return ticks
}

// Decades marks an axis of base-10 logarithms: every power of ten has a label,
// or every k-th where there are many; 1, 2 and 5 where there are few.
type Decades struct{}

// Ticks implements plot.Ticker.
func (Decades) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Floor(lo+slack)), int(math.Ceil(hi-slack))
	every := (last-first)/10 + 1
	var ticks []plot.Tick
	for k := first; k <= last; k++ {
		for f := 1; f <= 9; f++ {
			t := plot.Tick{Value: float64(k) + math.Log10(float64(f))}
			if t.Value < lo-slack || t.Value > hi+slack {
				continue
			}
			t.Value = max(lo, min(hi, t.Value)) // the library leaves out a tick one rounding beyond
			if f == 1 && (k-first)%every == 0 || (f == 2 || f == 5) && hi-lo <= 2.5 {
				t.Label = tickLabel(f, k)
			}
			if f == 1 || every == 1 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

// pointTicks marks a logarithmic axis at the points of the curves, with labels that do not touch.
func pointTicks(at []float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	last, apart := math.Inf(-1), (at[len(at)-1]-at[0])/20
	for _, v := range at {
		t := plot.Tick{Value: v}
		if v-last >= apart {
			last, t.Label = v, letters(strconv.FormatFloat(math.Pow(10, v), 'g', 6, 64))
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// tickLabel writes f·10^k plainly between 0.001 and 100000, else like 2·10⁻⁷.
func tickLabel(f, k int) string {
	if k < -3 || k > 5 {
		return letters(strconv.Itoa(f) + "e" + strconv.Itoa(k))
	}
	x, _ := strconv.ParseFloat(strconv.Itoa(f)+"e"+strconv.Itoa(k), 64)
	return strconv.FormatFloat(x, 'f', -1, 64)
}

var (
	greek = strings.NewReplacer("epsilon", "ε", "eps", "ε", "delta", "δ", "kappa", "κ", "rho", "ρ", "eta", "η")
	named = regexp.MustCompile(`\b(epsilon|eps|delta|kappa|rho|eta)\b`)
	power = regexp.MustCompile(`\b([0-9.]+)e([+-]?)0*([0-9]+)\b`)
	raise = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸",
		"9", "⁹", "-", "⁻", "+", "")
)

// letters writes names of Greek letters as letters, and numbers such as 2e-07 as 2·10⁻⁷.
func letters(text string) string {
	text = named.ReplaceAllStringFunc(text, greek.Replace)
	return power.ReplaceAllStringFunc(text, func(x string) string {
		m := power.FindStringSubmatch(x)
		x = "10" + raise.Replace(m[2]+m[3])
		if m[1] != "1" {
			x = m[1] + "·" + x
		}
		return x
	})
}

// above subtracts the mean of the method Above.
func (p Plot) above(results []Result) []Result {
	if p.Above == "" {
		return results
	}
	least := map[float64]float64{}
	for _, r := range results {
		if r.Method == p.Above {
			least[r.Value] = r.Mean
		}
	}
	results = slices.Clone(results)
	for i := range results {
		results[i].Mean -= least[results[i].Value]
	}
	return results
}

// PNG draws the results of methods, which need not come from an experiment, as a picture: mean
// against value, with bands of one standard deviation.
func (p Plot) PNG(methods []string, results []Result) ([]byte, error) {
	return p.render("png", &Experiment{Methods: methods}, "", results)
}

// render draws the results as png or svg.
func (p Plot) render(format string, e *Experiment, notPrivate string, results []Result) ([]byte, error) {
	pl := p.layout(e, notPrivate)
	list := curves(e.Methods, p.above(results), p.Linear)
	list = slices.DeleteFunc(list, func(c curve) bool {
		_, styled := p.Style[c.method]
		return c.method == p.Above || p.Style != nil && !styled
	})
	var xs, ys plotter.Values
	for _, c := range list {
		for j, at := range c.line {
			xs, ys = append(xs, at.X), append(ys, at.Y, c.top[j])
		}
		if p.Linear {
			ys = append(ys, c.low...)
		}
	}
	pl.X.Min, pl.X.Max = plotter.Range(xs)
	if !(pl.X.Min < pl.X.Max) {
		pl.X.Min, pl.X.Max = handsome(pl.X.Min, pl.X.Max)
	}
	pl.X.Tick.Marker = Decades{}
	if at := slices.Compact(slices.Sorted(slices.Values(xs))); len(at) >= 2 && len(at) <= 12 {
		pl.X.Tick.Marker = pointTicks(at)
	}
	if p.Linear {
		pl.Y.Min, pl.Y.Max = roomy(plotter.Range(ys))
		pl.Y.Tick.Marker = RoundTicks{}
	} else {
		pl.Y.Min, pl.Y.Max = handsome(plotter.Range(ys))
		pl.Y.Tick.Marker = Decades{}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	pl.Add(grid)
	legend := p.legend(pl, list)
	for i, c := range list {
		if err := p.draw(pl, &legend, i, c); err != nil {
			return nil, fmt.Errorf("sweep: plot: %w", err)
		}
	}
	return paint(format, pl, legend)
}

// paint returns the picture of a plot with a legend in a corner.
func paint(format string, pl *plot.Plot, legend plot.Legend) ([]byte, error) {
	return Picture(format, plotWidth, plotHeight, func(all draw.Canvas) {
		inner := draw.Crop(all, vg.Points(12), vg.Points(-22), vg.Points(10), vg.Points(-8))
		pl.Draw(inner)
		corner := draw.Crop(pl.DataCanvas(inner), vg.Points(10), vg.Points(-10), vg.Points(10), vg.Points(-10))
		back := legend // Legend.Rectangle looks at the opposite side
		back.Left = !legend.Left
		corner.SetColor(color.NRGBA{0xff, 0xff, 0xff, 0xd0})
		corner.Fill(back.Rectangle(corner).Path())
		legend.Draw(corner)
	})
}

// Picture returns what paint draws on white, as png or svg, of the given size in points.
func Picture(format string, width, height vg.Length, paint func(all draw.Canvas)) ([]byte, error) {
	file, err := draw.NewFormattedCanvas(width, height, format)
	if err != nil {
		return nil, fmt.Errorf("sweep: plot: %w", err)
	}
	all := draw.New(file)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	paint(all)
	var b bytes.Buffer
	if _, err := file.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("sweep: plot: %w", err)
	}
	return b.Bytes(), nil
}

// layout returns an empty plot with texts, fonts and margins.
func (p Plot) layout(e *Experiment, notPrivate string) *plot.Plot {
	pl := plot.New()
	pl.Title.Text = p.Title
	if notPrivate != "" {
		pl.Title.Text = "NOT PRIVATE: " + notPrivate + "\n" + p.Title
	}
	pl.Title.Text = letters(pl.Title.Text)
	pl.X.Label.Text, pl.Y.Label.Text = letters(cmp.Or(p.X, e.Sweep)), letters(p.Y)
	pl.Title.TextStyle.Font = Sans(15)
	pl.X.Label.TextStyle.Font, pl.Y.Label.TextStyle.Font = Sans(14), Sans(14)
	pl.X.Tick.Label.Font, pl.Y.Tick.Label.Font = Sans(12), Sans(12)
	pl.Title.Padding = vg.Points(10)
	pl.X.Label.Padding, pl.Y.Label.Padding = vg.Points(6), vg.Points(6)
	pl.X.Padding, pl.Y.Padding = 0, 0
	return pl
}

// init registers the Go font. The font of the library moves some pairs of letters together, such
// as a space and an A, until words touch.
func init() {
	face, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the font is compiled in
	}
	font.DefaultCache.Add(font.Collection{{Font: font.Font{Typeface: "Go", Variant: "Sans"}, Face: face}})
}

// Sans is the sans-serif face at a size in points.
func Sans(size float64) font.Font {
	return font.Font{Typeface: "Go", Variant: "Sans", Size: font.Points(size)}
}

// draw adds the band, the line and the legend entry of curve c.
func (p Plot) draw(pl *plot.Plot, legend *plot.Legend, i int, c curve) error {
	name, ok := p.Legend[c.method]
	if !ok {
		name = c.method
	}
	look, ok := p.Style[c.method]
	if !ok {
		look.Color = i
		if k := slices.Index(p.Dashed, c.method); k >= 0 {
			look.Dash = 1 + k%(len(dashes)-1)
		}
	}
	ink := Palette[look.Color%len(Palette)]
	style := draw.LineStyle{Color: ink, Width: vg.Points(2), Dashes: dashes[look.Dash%len(dashes)]}
	if look.Dash > 0 {
		style.Width = vg.Points(1.5)
	}
	if len(p.Colors) > 0 {
		legend = &plot.Legend{} // not shown
	}
	if len(c.line) == 0 {
		legend.Add(letters(name)+" (no positive value)", &plotter.Line{LineStyle: style})
		return nil
	}
	if c.band && p.Linear {
		errs := make(plotter.YErrors, len(c.line))
		for j, at := range c.line {
			errs[j].Low, errs[j].High = at.Y-c.low[j], c.top[j]-at.Y
		}
		bars, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{c.line, errs})
		if err != nil {
			return err
		}
		bars.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.2)}
		pl.Add(bars)
	} else if c.band && len(c.line) > 1 {
		var ring plotter.XYs
		for j, at := range c.line {
			ring = append(ring, plotter.XY{X: at.X, Y: min(c.top[j], pl.Y.Max)})
		}
		for j, at := range slices.Backward(c.line) { // a lower end ≤ 0 is cut at the axis
			ring = append(ring, plotter.XY{X: at.X, Y: max(c.low[j], pl.Y.Min)})
		}
		band, err := plotter.NewPolygon(ring)
		if err != nil {
			return err
		}
		band.LineStyle.Width = 0
		band.Color = color.NRGBA{ink.R, ink.G, ink.B, 0x33}
		pl.Add(band)
	}
	line, dots, err := plotter.NewLinePoints(c.line)
	if err != nil {
		return err
	}
	line.LineStyle = style
	pl.Add(line)
	if len(c.line) > 2 && len(c.line) <= 30 && len(p.Colors) == 0 {
		dots.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
		pl.Add(dots)
	}
	legend.Add(letters(name), line)
	return nil
}

// legend returns the legend, without entries for single curves, for the corner that hides the
// fewest points, with more room on the vertical axis if no corner is free.
func (p Plot) legend(pl *plot.Plot, list []curve) plot.Legend {
	l := plot.NewLegend()
	l.TextStyle.Font = Sans(13)
	l.ThumbnailWidth = vg.Points(34)
	l.Padding = vg.Points(4)
	l.YPosition = draw.PosCenter
	entries := len(list)
	if len(p.Colors) > 0 {
		entries = len(p.Colors) + len(p.Dashes)
		for i, name := range p.Colors {
			style := draw.LineStyle{Color: Palette[i%len(Palette)], Width: vg.Points(2)}
			l.Add(letters(name), &plotter.Line{LineStyle: style})
		}
		for i, name := range p.Dashes {
			style := draw.LineStyle{Color: color.Gray{0x90}, Width: vg.Points(1.5), Dashes: dashes[i%len(dashes)]}
			l.Add(letters(name), &plotter.Line{LineStyle: style})
		}
	}
	height := 0.033*float64(entries) + 0.04 // of the data area
	best := math.MaxInt
	for corner := range 4 {
		top, left := corner < 2, corner%2 == 0
		hidden := 0
		for _, c := range list {
			for j, at := range c.line {
				for step := range 20 { // also between points that are far apart
					before, f := c.line[max(0, j-1)], float64(step)/20
					u := (at.X + f*(before.X-at.X) - pl.X.Min) / (pl.X.Max - pl.X.Min)
					v := (at.Y + f*(before.Y-at.Y) - pl.Y.Min) / (pl.Y.Max - pl.Y.Min)
					if (left && u < 0.45 || !left && u > 0.55) && (top && v > 1-height || !top && v < height) {
						hidden++
					}
				}
			}
		}
		if hidden < best {
			best = hidden
			l.Top, l.Left = top, left
		}
	}
	if best > 0 { // every corner is taken: make room on top
		l.Top, l.Left = true, true
		pl.Y.Max += (pl.Y.Max - pl.Y.Min) * height / (1 - min(height, 0.8))
	}
	return l
}
