package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// figure is a picture of tables in the folder.
type figure struct {
	name string
	from []string // tables
	// optional tables are drawn where they are there.
	optional []string
	read     func(path string) ([]row, error) // of a table that is not one of results
	edit     func(rows []row) []row
	plot     sweep.Plot
	curves   []curve
	render   func(dir string) ([]byte, error) // of a picture without curves
}

// row is a line of a table of results: the method is PART/METHOD where there are parts.
type row struct {
	sweep.Result
	field map[string]string
}

// curve is a method of the tables with its looks.
type curve struct {
	method, legend string
	sweep.Style
}

// draw makes the pictures of all tables that are there.
func (b *bench) draw(stdout io.Writer) error {
	for _, f := range append(figures, figure{name: "speed", render: speed}) {
		if f.render == nil {
			f.render = f.png
		}
		data, err := f.render(b.out)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = sweep.WriteFile(filepath.Join(b.out, f.name+".png"), data)
		}
		if err != nil {
			return fmt.Errorf("%s.png: %w", f.name, err)
		}
	}
	_, err := fmt.Fprintf(stdout, "figures and tables are in %s\n", b.out)
	return err
}

func (f figure) png(dir string) ([]byte, error) {
	if f.read == nil {
		f.read = results
	}
	var rows []row
	for i, name := range slices.Concat(f.from, f.optional) {
		more, err := f.read(filepath.Join(dir, name+".csv"))
		if errors.Is(err, fs.ErrNotExist) && i >= len(f.from) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	if f.edit != nil {
		rows = f.edit(rows)
	}
	p := f.plot
	p.Legend = map[string]string{}
	if len(p.Colors) > 0 {
		p.Style = map[string]sweep.Style{}
	}
	var methods []string
	var drawn []sweep.Result
	for _, c := range f.curves {
		found := false
		for _, r := range rows {
			if r.Method == c.method {
				drawn, found = append(drawn, r.Result), true
			}
		}
		if !found {
			continue
		}
		methods = append(methods, c.method)
		p.Legend[c.method] = c.legend
		if p.Style != nil {
			p.Style[c.method] = c.Style
		} else if c.Dash > 0 {
			p.Dashed = append(p.Dashed, c.method)
		}
	}
	if len(drawn) == 0 {
		return nil, fmt.Errorf("the picture %s would be empty: its tables have none of its curves", f.name)
	}
	return p.PNG(methods, drawn)
}

func results(path string) ([]row, error) {
	table, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, fields := range table[1:] {
		r := row{field: map[string]string{}}
		for k, name := range table[0] {
			r.field[name] = fields[k]
		}
		r.Method = r.field["method"]
		if part := r.field["part"]; part != "" {
			r.Method = part + "/" + r.Method
		}
		for name, x := range map[string]*float64{"value": &r.Value, "mean": &r.Mean, "std": &r.Std, "stderr": &r.StdErr} {
			if *x, err = strconv.ParseFloat(r.field[name], 64); err != nil {
				return nil, fmt.Errorf("%s: column %s: %w", path, name, err)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// above subtracts the mean of a method at the same value: risks become excess risks.
func above(method string) func(rows []row) []row {
	return func(rows []row) []row {
		least := map[float64]float64{}
		for _, r := range rows {
			if r.Method == method {
				least[r.Value] = r.Mean
			}
		}
		for i := range rows {
			rows[i].Mean -= least[rows[i].Value]
		}
		return rows
	}
}

// overDraws turns risks into excess risks over nonprivate of the same part, and the parts named "draw …"
// into their mean and standard deviation.
func overDraws(rows []row) []row {
	type at struct {
		name  string // of a part or of a method
		value float64
	}
	least := map[at]float64{}
	for _, r := range rows {
		if part, method, _ := strings.Cut(r.Method, "/"); method == "nonprivate" {
			least[at{part, r.Value}] = r.Mean
		}
	}
	var out []row
	excess, order := map[at][]float64{}, []at(nil)
	for _, r := range rows {
		part, method, _ := strings.Cut(r.Method, "/")
		r.Mean -= least[at{part, r.Value}]
		if !strings.HasPrefix(part, "draw ") {
			out = append(out, r)
			continue
		}
		key := at{method, r.Value}
		if excess[key] == nil {
			order = append(order, key)
		}
		excess[key] = append(excess[key], r.Mean)
	}
	for _, key := range order {
		mean, std := stat.MeanStdDev(excess[key], nil)
		out = append(out, row{Result: sweep.Result{Method: key.name, Value: key.value, Mean: mean, Std: std}})
	}
	return out
}

// relative divides noise by that of the method FAMILY/ours at the same value.
func relative(rows []row) []row {
	ours := map[string]float64{}
	key := func(r row) string { family, _, _ := strings.Cut(r.Method, "/"); return family + " " + r.field["value"] }
	for _, r := range rows {
		if strings.HasSuffix(r.Method, "/ours") {
			ours[key(r)] = r.Mean
		}
	}
	for i, r := range rows {
		rows[i].Mean /= ours[key(r)]
	}
	return rows
}

// lost turns R² on data sets into the mean of min(1, R² of least squares − R²): the
// method PEER/SET becomes PEER.
func lost(rows []row) []row {
	ols := map[string]float64{}
	for _, r := range rows {
		if x, err := strconv.ParseFloat(r.field["ols"], 64); err == nil {
			ols[r.field["method"]] = x
		}
	}
	type key struct {
		peer string
		eps  float64
	}
	sum, sets := map[key]*row{}, map[key]float64{}
	for _, r := range rows {
		peer, set, ok := strings.Cut(r.Method, "/")
		if !ok {
			peer, set = "model.Fit", r.Method
		}
		base, known := ols[set]
		if !known {
			continue
		}
		k := key{peer, r.Value}
		if sum[k] == nil {
			sum[k] = &row{Result: sweep.Result{Method: peer, Value: r.Value}}
		}
		sum[k].Mean += min(1, base-r.Mean)
		sum[k].Std += r.StdErr * r.StdErr
		sets[k]++
	}
	var out []row
	for k, r := range sum {
		r.Mean /= sets[k]
		if r.Std = math.Sqrt(r.Std) / sets[k]; k.peer != "model.Fit" {
			r.Std = 0 // R² far below 0 has a deviation that says nothing of a loss cut at 1
		}
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int { return strings.Compare(a.Method, b.Method) })
	return out
}

// beside shows the column reference as a method of its own: METHOD, reference.
func beside(rows []row) []row {
	for _, r := range rows {
		if x, err := strconv.ParseFloat(r.field["reference"], 64); err == nil {
			rows = append(rows, row{Result: sweep.Result{Method: r.Method + ", reference", Value: r.Value, Mean: x}})
		}
	}
	return rows
}

// named shows shares of one column as a method of its own: METHOD, COLUMN.
func named(columns ...string) func(rows []row) []row {
	return func(rows []row) (out []row) {
		for _, r := range rows {
			for _, c := range columns {
				s := r
				s.Method += ", " + c
				s.Mean, _ = strconv.ParseFloat(r.field[c], 64)
				s.Std = 0
				out = append(out, s)
			}
		}
		return out
	}
}

// processor shows the processor time in place of the mean time.
func processor(rows []row) []row {
	for i := range rows {
		rows[i].Mean, _ = strconv.ParseFloat(rows[i].field["cpu"], 64)
		rows[i].Std = 0
	}
	return rows
}

// solved reads the share of problems that were solved within a time. What was given up
// is left out, so that its curve ends below 1.
func solved(path string) ([]row, error) {
	table, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	var out []row
	for _, c := range []struct {
		method     string
		done, time int
	}{{"solver", 5, 7}, {"search", 9, 8}} {
		var times []float64
		for _, r := range table[1:] {
			t, err := strconv.ParseFloat(r[c.time], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if r[c.done] == "true" {
				times = append(times, t)
			}
		}
		slices.Sort(times)
		for i, t := range times {
			out = append(out, row{Result: sweep.Result{Method: c.method, Value: max(t, 1e-4), Mean: float64(i+1) / float64(len(table)-1)}})
		}
	}
	return out, nil
}

// speed draws every ratio of bench/peers.sh against its goal: right of 1 it is met.
func speed(dir string) ([]byte, error) {
	table, err := readCSV(filepath.Join(dir, "speed-seconds.csv"))
	if err != nil {
		return nil, err
	}
	pl := plot.New()
	pl.Title.Text = "Speed against other programs: how far each goal is met"
	pl.X.Label.Text = "measured ratio over the goal, or goal over ratio where small is good; 1: just met"
	pl.Title.TextStyle.Font, pl.X.Label.TextStyle.Font = sans(15), sans(12)
	pl.X.Tick.Label.Font, pl.Y.Tick.Label.Font = sans(11), sans(10)
	pl.Y.LineStyle.Width, pl.Y.Tick.Length = 0, 0
	var met, missed plotter.XYs
	var ticks []plot.Tick
	for i, r := range table[1:] {
		ratio, err := strconv.ParseFloat(r[2], 64)
		if err != nil {
			return nil, err
		}
		op, text, _ := strings.Cut(r[3], " ")
		goal, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		x := math.Log10(ratio / goal)
		if op == "<=" {
			x = -x
		}
		at := plotter.XY{X: x, Y: -float64(i)}
		if x >= 0 {
			met = append(met, at)
		} else {
			missed = append(missed, at)
		}
		ticks = append(ticks, plot.Tick{Value: at.Y, Label: fmt.Sprintf("%s: %s", r[1], r[2])})
		pl.X.Min, pl.X.Max = min(pl.X.Min, x-0.05, -0.35), max(pl.X.Max, x+0.05, 0.35)
	}
	pl.Y.Tick.Marker = plot.ConstantTicks(ticks)
	var marks []plot.Tick
	for _, v := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10} {
		marks = append(marks, plot.Tick{Value: math.Log10(v), Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	pl.X.Tick.Marker = plot.ConstantTicks(marks)
	pl.Y.Min, pl.Y.Max = -float64(len(table)-2)-0.5, 0.5
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xd0}, color.Gray{0xe4}
	pl.Add(grid)
	one, err := plotter.NewLine(plotter.XYs{{X: 0, Y: pl.Y.Min}, {X: 0, Y: pl.Y.Max}})
	if err != nil {
		return nil, err
	}
	one.LineStyle = draw.LineStyle{Color: color.Gray{0x40}, Width: vg.Points(1.5)}
	pl.Add(one)
	for _, g := range []struct {
		xy  plotter.XYs
		ink color.NRGBA
	}{{met, measuredInk}, {missed, claimedInk}} {
		if len(g.xy) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(g.xy)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: g.ink, Radius: vg.Points(4), Shape: draw.CircleGlyph{}}
		pl.Add(dots)
	}
	c := vgimg.NewWith(vgimg.UseWH(vg.Points(820), vg.Points(70+17*float64(len(ticks)))), vgimg.UseDPI(96))
	page := draw.New(c)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	pl.Draw(draw.Crop(page, vg.Points(10), vg.Points(-16), vg.Points(10), vg.Points(-8)))
	var out bytes.Buffer
	_, err = (vgimg.PngCanvas{Canvas: c}).WriteTo(&out)
	return out.Bytes(), err
}
