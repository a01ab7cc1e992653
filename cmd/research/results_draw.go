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
	for _, f := range figures {
		if !slices.ContainsFunc(jobs, func(j job) bool { return slices.Contains(b.jobs, j.name) && f.shows(j) }) {
			continue
		}
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
	_, err := fmt.Fprintf(stdout, "figures and tables are in %s\n", b.out)
	return err
}

// shows reports whether the picture is about a table of j.
func (f figure) shows(j job) bool {
	return slices.ContainsFunc(slices.Concat(f.from, f.optional), func(table string) bool {
		return table == j.file() || j.tables != nil && strings.HasPrefix(table, j.name)
	})
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

// figures are the pictures that are drawn from tables.
var figures = []figure{
	{name: "diameter", from: []string{"diameter"},
		plot: sweep.Plot{
			Title: "Empirical risk in a box of growing half-width (n = 300, d = 100, ε = 0.5, δ = 0.01)",
			X:     "κ, half-width of the box", Y: "risk per record, mean ± one standard deviation",
		},
		curves: []curve{
			{"ours/lop", "LOP", 0, 0}, {"ours/lop-clip", "LOP-Clip", 1, 0},
			{"ours/qop", "QOP, the anchor's error declared", 2, 0}, {"exact/qop", "QOP, anchor taken as exact", 3, 0},
			{"ours/anchor", "anchor alone (public)", 4, 1}, {"ours/nonprivate", "no noise (not private)", 5, 0},
		}},
	{name: "diameter-constants", from: []string{"diameter"},
		plot: sweep.Plot{
			Title: "Risk with published constants, and with ours (n = 300, d = 100, ε = 0.5, δ = 0.01)",
			X:     "κ, half-width of the box", Y: "risk per record, mean ± one standard deviation",
			Colors: []string{"LOP", "LOP-Clip", "QOP (solid: the anchor's error declared; else taken as exact)"},
			Dashes: []string{"our constants", "published constants, repaired",
				"as published: 1000 steps, too few (not private)"},
		},
		curves: []curve{
			{"ours/lop", "", 0, 0}, {"repaired/lop", "", 0, 1}, {"published/lop", "", 0, 2},
			{"ours/lop-clip", "", 1, 0}, {"repaired/lop-clip", "", 1, 1}, {"published/lop-clip", "", 1, 2},
			{"ours/qop", "", 2, 0}, {"repaired/qop", "", 2, 1}, {"published/qop", "", 2, 2},
		}},
	{name: "published", from: []string{"published"}, edit: beside,
		plot: sweep.Plot{
			Title: "The published procedure on the published records (not private): 10 runs here, 10 runs of its authors' " +
				"program",
			X: "kappa, half-width of the box", Y: "risk per record, mean ± one standard deviation",
			Colors: []string{"LOP", "LOP-Clip", "QOP"}, Dashes: []string{"run again", "published"},
		},
		curves: []curve{
			{"lop", "", 0, 0}, {"lop-clip", "", 1, 0}, {"qop", "", 2, 0},
			{"lop, reference", "", 4, 1}, {"lop-clip, reference", "", 4, 1}, {"qop, reference", "", 4, 1},
		}},
	{name: "sweep-n", from: []string{"sweep-n"}, edit: overDraws,
		plot: sweep.Plot{
			Title: "Excess risk against the number of records (d = 100, kappa = 0.5, eps = 0.5, delta = 0.01, 20 runs on " +
				"each of 6 draws)",
			X: "n, number of records", Y: overDrawsAxis},
		curves: []curve{
			{"declared/qop", "QOP, the anchor's error declared", 2, 0}, boxed[0], boxed[1],
			boxed[2], boxed[3],
		}},
	{name: "around", from: []string{"around"}, edit: overDraws,
		plot: sweep.Plot{
			Title: "Excess risk against the number of records (d = 100, kappa = 10, eps = 0.5, delta = 0.01, 5 runs on " +
				"each of 6 draws)",
			X: "n, number of records", Y: overDrawsAxis},
		curves: []curve{
			{"lop-clip", "LOP-Clip", 1, 0}, {"lop-center", "LOP-Clip around the anchor", 0, 0},
			{"qop-tilt", "QOP, tilted: no assumption about records", 2, 0},
			{"qop-exact", "QOP as published: anchor taken as exact, which is false here", 3, 1},
			{"anchor", "anchor alone (public)", 4, 1},
		}},
	{name: "sweep-d", from: []string{"sweep-d"}, edit: overDraws,
		plot: sweep.Plot{
			Title: "Excess risk against the dimension, anchor taken as exact (n = 300, κ = 0.5, ε = 0.5, δ = 0.01, " +
				"20 runs on each of 6 draws)",
			X: "d, dimension", Y: overDrawsAxis},
		curves: boxed},
	{name: "sweep-eps", from: []string{"sweep-eps"},
		plot: sweep.Plot{
			Title: "Excess risk against the budget, anchor taken as exact (n = 300, d = 100, κ = 0.5, δ = 0.01, 10 runs)",
			X:     "ε", Y: "risk per record above the minimum", Above: "nonprivate"},
		curves: append([]curve{{"nonprivate", "", 0, 0}}, boxed...)},
	{name: "calibrations", from: []string{"calibrations"}, edit: relative,
		plot: sweep.Plot{
			Title: "Published noise, in multiples of the noise that is proved here: below 1 the claim is not proved",
			X:     "claimed epsilon", Y: "published noise / noise proved here, at the same ε", Linear: true,
		},
		curves: []curve{
			{"lop/repaired", "LOP, published and repaired", 0, 1}, {"lop/published", "LOP, published", 0, 0},
			{"opdisc/published", "OPDisc, published", 1, 0}, {"sgd/published", "SGD, published, n = 1000", 2, 0},
			{"sgd, n = 100/published", "SGD, published, n = 100", 3, 0}, {"level", "proved here", 5, 1},
		}},
	{name: "calibrations-qop", from: []string{"calibrations"},
		plot: sweep.Plot{
			Title: "Curvature that quadratic perturbation adds (d = 100, L = 1, delta = 0.01)",
			X:     "epsilon", Y: "mean curvature per direction, over L",
		},
		curves: []curve{
			{"qop/repaired", "published, repaired", 0, 0},
			{"qop/ours, any loss", "ours, any loss", 2, 0},
			{"qop/ours, generalized linear", "ours, generalized linear", 3, 0},
			{"qop/ours", "ours, least squares", 4, 0},
		}},
	{name: "adult", from: []string{"adult"}, optional: []string{"adult-peers"},
		plot: sweep.Plot{
			Title: "Test accuracy of private logistic regression on Adult (n = 30162, δ = 1/n², add-remove, 20 runs)",
			X:     "epsilon", Y: "accuracy, mean ± one standard deviation", Linear: true,
		},
		curves: []curve{
			{"lop-addremove", "objective perturbation (ours)", 0, 0}, {"sgd-addremove", "noisy SGD (ours)", 1, 0},
			{"dpsgd-addremove", "DP-SGD (ours)", 2, 0},
			{"peer/CMS11", "CMS11, as in diffprivlib", 3, 1}, {"peer/AMP", "AMP", 4, 2},
			{"peer/DP-Newton", "noisy Newton", 5, 3},
		}},
	{name: "race", from: []string{"race"}, optional: []string{"race-peers"}, edit: lost,
		plot: sweep.Plot{
			Title: "Least squares: R² lost to privacy, mean over 13 data sets (add-remove, delta = 1/n²)",
			X:     "epsilon", Y: "mean of min(1, R² of least squares − R²)",
		},
		curves: []curve{
			{"model.Fit", "model.Fit, all defaults", 0, 0}, {"SSP", "SSP, ridge", 1, 0},
			{"AdaSSP, exact", "AdaSSP, exact composition", 2, 0},
			{"AdaSSP, published", "AdaSSP, as published", 2, 1}, {"boosted AdaSSP", "boosted AdaSSP, T = 100", 3, 0},
			{"DP-GD, T = 100", "DP-GD, T = 100", 4, 0},
			{"DP-GD, best on the test set", "DP-GD, best on the test set (not private)", 5, 1},
		}},
	{name: "coverage", from: []string{"coverage"},
		plot: sweep.Plot{
			Title: "Share of intervals of 95 % that hold the truth (2000 records, 3 coefficients, 400 runs)",
			X:     "epsilon", Y: "coverage, ± one standard error", Linear: true,
		},
		edit: func(rows []row) []row {
			for i := range rows {
				rows[i].Std = rows[i].StdErr
			}
			return append(rows, level(0.95, rows)...)
		},
		curves: []curve{
			{"interval", "intervals of model.Fit", 0, 0},
			{"without the variance of the noise", "without the variance of the noise", 1, 0},
			{"around the coefficient itself", "around the shrunk coefficient", 2, 0}, {"level", "what is promised", 4, 1},
		}},
	{name: "bound", from: []string{"bound"},
		plot: sweep.Plot{
			Title: "Bound on the excess risk of quadratic perturbation (n = 10, d = 12, D = rho = G = L = 1, exact anchor " +
				"and solve)",
			X: "epsilon", Y: "bound on the expected excess risk",
			Colors: []string{"published, repaired", "ours, any loss", "ours, generalized linear", "ours, least squares"},
			Dashes: []string{"delta = 1e-05", "delta = 0.01"},
		},
		curves: []curve{
			{"published/1e-05", "", 0, 0}, {"published/0.01", "", 0, 1}, {"general/1e-05", "", 1, 0},
			{"general/0.01", "", 1, 1}, {"glm/1e-05", "", 2, 0}, {"glm/0.01", "", 2, 1}, {"lsq/1e-05", "", 3, 0},
			{"lsq/0.01", "", 3, 1},
		}},
	{name: "halfspace", from: []string{"halfspace"},
		plot: sweep.Plot{
			Title: "Training accuracy of private halfspaces (n = 15682, d = 23, 15 runs)",
			X:     "ε of one release", Y: "accuracy, mean ± one standard deviation", Linear: true,
		},
		curves: []curve{
			{"opdisc-q2", "OPDisc, integers with ‖w‖² ≤ 2", 0, 0}, {"opdisc-q4", "OPDisc, integers with ‖w‖² ≤ 4", 1, 0},
			{"opdisc-q23", "OPDisc, integers with ‖w‖² ≤ 23", 2, 0},
			{"paper", "OPDisc, published noise, ‖w‖² ≤ 23", 3, 1}, {"logistic", "logistic regression", 4, 2},
			{"exponential-q4", "exponential mechanism, ‖w‖² ≤ 4", 5, 0}, {"rspm", "RSPM, weights −1, 0, 1", 7, 1},
			{"exponential-q23", "exponential mechanism, ‖w‖² ≤ 23", 6, 0},
		}},
	excessLoss("population", "n, number of records", "d = 50, eps = 0.1, delta = 1e-06, 30 runs",
		"sgd", "objpert"),
	excessLoss("population-stat", "n, number of records", "d = 5, eps = 8, delta = 1e-06, 30 runs",
		"sgd", "objpert", "onepass"),
	excessLoss("population-d", "d, number of parameters", "n = 8000, eps = 0.1, delta = 1e-06, 15 runs",
		"sgd", "objpert"),
	{name: "convergence-deterministic", from: []string{"convergence-deterministic"}, read: curves3,
		plot: sweep.Plot{
			Title: "Lasso in a box, 400 × 200, columns of sizes 1 to 0.01", X: "iterations", Y: "relative gap to the minimum",
		},
		curves: []curve{
			{"ForwardBackward", "forward-backward, accelerated", 0, 0},
			{"ForwardBackward, search", "forward-backward, accelerated, line search", 1, 0},
			{"ForwardBackward, plain", "forward-backward", 2, 0},
			{"backward-forward, 1.9/L", "backward-forward, steps 1.9/L", 3, 0},
			{"DavisYin", "Davis–Yin, steps 1/L", 4, 1}, {"DavisYin, 1.9/L", "Davis–Yin, steps 1.9/L", 5, 2},
			{"DavisYin, search", "Davis–Yin with a line search", 6, 0}, {"PrimalDual", "primal-dual", 7, 3},
		}},
	{name: "convergence-adaptive", from: []string{"convergence-adaptive"}, read: curves3,
		plot: sweep.Plot{
			Title: "Logistic regression with 125 overlapping groups, 100 × 1002", X: "iterations",
			Y: "relative gap to the minimum",
		},
		curves: []curve{
			{"DavisYin, search", "Davis–Yin with a line search", 0, 0},
			{"DavisYin, 1.9/L", "Davis–Yin, steps 1.9/L", 1, 0}, {"DavisYin", "Davis–Yin, steps 1/L", 2, 0},
			{"PrimalDual", "primal-dual", 3, 1}, // nearly the steps of DavisYin
		}},
	{name: "convergence-bias", from: []string{"convergence-bias"}, read: curves3,
		plot: sweep.Plot{
			Title: "Ridge and ℓ₁ in a box, 2000 × 40: steps from samples of the records", X: "passes over the data",
			Y: "relative distance to the minimizer",
		},
		curves: []curve{
			{"StochasticTOS, fixed step", "stochastic, fixed step", 0, 0},
			{"StochasticTOS, affine set", "stochastic, fixed step, affine set for the box", 1, 0},
			{"StochasticTOS, SVRG", "variance-reduced, SVRG", 5, 0}, {"DavisYin", "Davis–Yin, steps 1/L", 6, 0},
		}},
	losses("persons", "equal", "20 rows"), losses("persons-visits", "visits", "1 to 20 rows, k with P ~ 1/k"),
	{name: "lowbits", from: []string{"lowbits"}, edit: named("right", "wrong"),
		plot: sweep.Plot{
			Title: "Releases whose last bits name one of two neighbors (output perturbation, eps = 1)",
			X:     "d, numbers in a release", Y: "share of releases", Linear: true,
			Colors: []string{"noise in float64, added in float64", "releases of this module"},
			Dashes: []string{"named rightly", "named wrongly"},
		},
		curves: []curve{
			{"float64 noise, added in float64, right", "", 0, 0}, {"float64 noise, added in float64, wrong", "", 0, 1},
			{"release of this module, right", "", 1, 0}, {"release of this module, wrong", "", 1, 1},
		}},
	{name: "oracle", from: []string{"oracle-seconds"}, read: solved,
		plot: sweep.Plot{Title: "20 perturbed 0/1 problems, share solved within a time of 10 seconds: this search, and CBC",
			X: "seconds", Y: "share of the problems", Linear: true},
		curves: []curve{
			{"search", "this search: minimum proved", 0, 0}, {"solver", "CBC: claims an optimum", 1, 0},
		}},
	{name: "passes", from: []string{"passes-seconds"}, edit: processor,
		plot: sweep.Plot{Title: "Time of one pass of the logistic loss (d = 12, float64 rows, least of 5)",
			X: "n, number of records", Y: "processor seconds"},
		curves: []curve{
			{"memory/gradient and Hessian, in memory", "gradient and Hessian, in memory", 0, 0},
			{"file/gradient and Hessian, in a file", "gradient and Hessian, in a file", 1, 0},
			{"memory/certificate, in memory", "certificate, in memory", 2, 0},
			{"file/certificate, in a file", "certificate, in a file", 3, 0},
		}},
}

// losses is a picture of a part of the table of persons.
func losses(name, part, rows string) figure {
	return figure{name: name, from: []string{"persons"},
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
func excessLoss(name, axis, sizes string, methods ...string) figure {
	words := map[string]string{"sgd": "noisy SGD", "objpert": "objective perturbation",
		"onepass": "one pass (not private)"}
	f := figure{name: name, from: []string{name},
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
