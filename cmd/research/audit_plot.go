package main

import (
	"bytes"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/privopt/privopt/cmd/internal/audit"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

// Colors that color-blind readers tell apart [Okabe, Ito].
var (
	claimedInk  = color.NRGBA{0xd5, 0x5e, 0x00, 0xff} // vermilion
	measuredInk = color.NRGBA{0x00, 0x72, 0xb2, 0xff} // blue
)

const (
	tileW = 265 * vg.Length(1) // points
	tileH = 200 * vg.Length(1)
	head  = 40 * vg.Length(1) // above the tiles
	// floor is the least δ that is drawn.
	floor = 1e-8
)

// closest returns the cases that are drawn: of each mechanism the one whose measured ε is
// the largest share of its claim.
func closest(results []audit.Result) []audit.Result {
	best := map[string]int{}
	var list []audit.Result
	for _, r := range results {
		if r.Err != nil || len(r.Profile) < 2 {
			continue
		}
		i, ok := best[r.Mechanism]
		if !ok {
			best[r.Mechanism] = len(list)
			list = append(list, r)
		} else if old := list[i]; r.Exact/r.Claim.Epsilon > old.Exact/old.Claim.Epsilon {
			list[i] = r
		}
	}
	return list
}

// writePNG draws one tile for each mechanism with a privacy profile: log₁₀ δ against
// ε, claimed dashed and measured solid.
func writePNG(path string, results []audit.Result) error {
	var tiles []*plot.Plot
	for _, r := range closest(results) {
		p, err := tile(&r)
		if err != nil {
			return err
		}
		tiles = append(tiles, p)
	}
	columns := 3
	if len(tiles) < 5 { // no row with one tile
		columns = 2
	}
	rows := (len(tiles) + columns - 1) / columns
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(columns)*tileW, vg.Length(rows)*tileH+head), vgimg.UseDPI(96))
	page := draw.New(c)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	for i, p := range tiles {
		x, y := vg.Length(i%columns)*tileW, page.Max.Y-head-vg.Length(1+i/columns)*tileH
		p.Draw(draw.Canvas{Canvas: page, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x + 6, Y: y + 6}, Max: vg.Point{X: x + tileW - 8, Y: y + tileH - 6},
		}})
	}
	title := plot.New().Title.TextStyle
	title.Font = sans(14)
	page.FillText(title, vg.Point{X: page.Max.X / 2, Y: page.Max.Y - 22},
		"Privacy profiles δ(ε): claimed (dashed) and measured (solid)")
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return err
	}
	return sweep.WriteFile(path, b.Bytes())
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Points(size)}
}

// tile draws one case.
func tile(r *audit.Result) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = r.Mechanism+"\n"+r.Case.Name, "ε", "δ"
	p.Title.TextStyle.Font, p.X.Label.TextStyle.Font, p.Y.Label.TextStyle.Font = sans(10), sans(11), sans(11)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sans(9), sans(9)
	p.X.Tick.Marker, p.Y.Tick.Marker = sweep.RoundTicks{}, powers{}
	p.Y.Min, p.Y.Max = math.Log10(floor), 0
	add := func(delta func(audit.Point) float64, ink color.Color, dashes []vg.Length) error {
		var xy plotter.XYs
		for _, at := range r.Profile {
			d := delta(at)
			if d > 0 { // a logarithm has no place for 0
				xy = append(xy, plotter.XY{X: at.Epsilon, Y: math.Log10(math.Max(d, floor))})
			}
			if d < floor {
				break
			}
		}
		if len(xy) == 0 {
			return nil
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: ink, Width: vg.Points(1.5), Dashes: dashes}
		p.Add(line)
		return nil
	}
	if err := add(func(at audit.Point) float64 { return at.Measured }, measuredInk, nil); err != nil {
		return nil, err
	}
	if err := add(func(at audit.Point) float64 { return at.Claimed }, claimedInk, []vg.Length{5, 3}); err != nil {
		return nil, err
	}
	if b := r.Claim; b.Delta > 0 { // the budget of the release
		dot, err := plotter.NewScatter(plotter.XYs{{X: b.Epsilon, Y: math.Log10(b.Delta)}})
		if err != nil {
			return nil, err
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: claimedInk, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		p.Add(dot)
	}
	return p, nil
}

// powers marks an axis of base-10 logarithms.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for k := math.Ceil(lo); k <= hi; k += 2 {
		label := "1"
		if k < 0 {
			label = "1e" + strconv.Itoa(int(k))
		}
		ticks = append(ticks, plot.Tick{Value: k, Label: label})
	}
	return ticks
}
