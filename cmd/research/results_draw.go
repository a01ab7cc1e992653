// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// figure is a picture of the table of its job.
type figure struct {
	name string                           // "" for that of the job
	from string                           // the table, "" for that of the job
	also string                           // a table of another job that is drawn where it is there
	read func(path string) ([]row, error) // of a table that is not one of results
	edit func(rows []row) []row
	plot sweep.Plot
	// curves in the order of the legend
	curves []curve
}

// row is a line of a table of results: the method is PART/METHOD where there are parts.
type row struct {
	sweep.Result
	field map[string]string
}

// curve is a method of the tables with its looks, which count as those of sweep.Style.
type curve struct {
	method, legend string
	color, dash    int
}

// draw makes the pictures of the tables of the jobs that are there.
func (b *bench) draw(stdout io.Writer) error {
	for _, j := range jobs {
		for _, f := range j.figures {
			if !slices.Contains(b.jobs, j.name) && !slices.Contains(b.jobs, f.also) {
				continue
			}
			f.name, f.from = cmp.Or(f.name, j.name), cmp.Or(f.from, j.file())
			data, err := f.png(b.out)
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
	}
	_, err := fmt.Fprintf(stdout, "figures and tables are in %s\n", b.out)
	return err
}

func (f figure) png(dir string) ([]byte, error) {
	if f.read == nil {
		f.read = results
	}
	rows, err := f.read(filepath.Join(dir, f.from+".csv"))
	if err != nil {
		return nil, err
	}
	if f.also != "" {
		more, err := f.read(filepath.Join(dir, f.also+".csv"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		rows = append(rows, more...)
	}
	if f.edit != nil {
		rows = f.edit(rows)
	}
	p := f.plot
	p.Legend = map[string]string{}
	p.Style = map[string]sweep.Style{}
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
		p.Style[c.method] = sweep.Style{Color: c.color, Dash: c.dash}
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

// overDraws turns risks into excess risks over nonprivate of the same part, and the parts named
// "draw …" into their mean and standard deviation.
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

// level is the method "level", with one mean from the least to the largest value of rows.
func level(mean float64, rows []row) []row {
	at := func(r row) row { return row{Result: sweep.Result{Method: "level", Value: r.Value, Mean: mean}} }
	byValue := func(a, b row) int { return cmp.Compare(a.Value, b.Value) }
	return []row{at(slices.MinFunc(rows, byValue)), at(slices.MaxFunc(rows, byValue))}
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
	return append(rows, level(1, rows)...)
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
// is left out, so that its curve stays below 1.
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
		share := 0.0
		at := func(t float64) {
			out = append(out, row{Result: sweep.Result{Method: c.method, Value: max(t, 1e-4), Mean: share}})
		}
		for i, t := range times {
			at(t)
			share = float64(i+1) / float64(len(table)-1)
			at(t)
		}
		at(10) // seconds, where the solver was stopped
	}
	return out, nil
}

// curves3 reads a table of curves: method, abscissa, ordinate.
func curves3(path string) (rows []row, err error) {
	table, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	for _, fields := range table[1:] {
		x, err := floats(fields[1:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, row{Result: sweep.Result{Method: fields[0], Value: x[0], Mean: x[1]}})
	}
	return rows, nil
}

// boxed are the methods of cmd/scaling.
var boxed = []curve{
	{"lop", "LOP", 0, 0}, {"lop-clip", "LOP-Clip", 1, 0}, {"qop", "QOP, anchor taken as exact", 3, 0},
	{"anchor", "anchor alone (public)", 4, 1},
}

const overDrawsAxis = "risk per record above the minimum, mean ± one standard deviation over draws"

// losses is a picture of a part of the table of persons.
func losses(name, part, rows string) figure {
	return figure{name: name,
		plot: sweep.Plot{
			Title: "Test log loss on 5000 other people (4000 people of " + rows +
				", delta = 1/n², add-remove, 400 runs or more)",
			X: "epsilon for a person", Y: "log loss, mean ± one standard deviation", Linear: true,
		},
		curves: []curve{
			{part + "/one random row", "one random row a person", 1, 0},
			{part + "/group privacy", "all rows as records, group privacy", 2, 0},
			{part + "/nonprivate", "no noise (not private)", 4, 1},
			{part + "/persons", "persons, all rows", 0, 1}, // dashed, and last: it lies on others
		}}
}

// excessLoss is a picture of excess population losses beside their bounds.
func excessLoss(axis, sizes string, methods ...string) figure {
	words := map[string]string{"sgd": "noisy SGD", "objpert": "objective perturbation",
		"onepass": "one pass (not private)"}
	f := figure{
		plot: sweep.Plot{
			Title: "Excess population loss, linear losses with slopes of 3 times the best possible rate, " + sizes,
			X:     axis, Y: "population loss above the minimum, mean ± one standard deviation",
			Dashes: []string{"measured", "proved bound", "published bound"},
		}}
	for i, m := range methods {
		f.plot.Colors = append(f.plot.Colors, words[m])
		f.curves = append(f.curves, curve{m, "", i, 0}, curve{m + "-bound", "", i, 1})
	}
	f.curves = append(f.curves, curve{"sgd-published", "", 0, 2})
	return f
}
