package main

import (
	"slices"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// style is a color and a pattern of dashes.
func style(color, dash int) sweep.Style { return sweep.Style{Color: color, Dash: dash} }

// boxed are the methods of cmd/scaling.
var boxed = []curve{
	{"lop", "LOP", style(0, 0)}, {"lop-clip", "LOP-Clip", style(1, 0)}, {"qop", "QOP", style(2, 0)},
	{"anchor", "anchor (no record used)", style(3, 1)},
}

// exactly words that QOP takes the anchor as exact.
func exactly(curves []curve) []curve {
	curves = slices.Clone(curves)
	for i := range curves {
		if curves[i].method == "qop" {
			curves[i].legend = "QOP, the anchor taken as exact"
		}
	}
	return curves
}

// against is a figure of a sweep of cmd/scaling.
func against(name, title, x string) figure {
	return figure{name: name, from: []string{name}, edit: above("nonprivate"), curves: boxed,
		plot: sweep.Plot{Title: title, X: x, Y: "risk per record above the minimum"}}
}

// figures are the pictures that are drawn from tables.
var figures = []figure{
	{name: "diameter", from: []string{"diameter"},
		plot: sweep.Plot{
			Title: "Empirical risk in a box of growing half-width (n = 300, d = 100, eps = 0.5, delta = 0.01)",
			X:     "kappa, half-width of the box", Y: "risk per record, mean ± one standard deviation",
			Colors: []string{"LOP", "LOP-Clip", "QOP", "anchor (no record used)", "no noise (not private)"},
			Dashes: []string{"our constants, exact", "published constants, repaired, exact",
				"as published, 1000 stochastic steps (not private)", "our constants, anchor taken as exact"},
		},
		curves: []curve{
			{"ours/lop", "", style(0, 0)}, {"repaired/lop", "", style(0, 1)}, {"published/lop", "", style(0, 2)},
			{"ours/lop-clip", "", style(1, 0)}, {"repaired/lop-clip", "", style(1, 1)}, {"published/lop-clip", "", style(1, 2)},
			{"ours/anchor", "", style(3, 0)}, {"ours/nonprivate", "", style(4, 0)},
			{"ours/qop", "", style(2, 0)}, {"exact/qop", "", style(2, 3)}, {"repaired/qop", "", style(2, 1)}, {"published/qop", "", style(2, 2)},
		}},
	{name: "published", from: []string{"published"}, edit: beside,
		plot: sweep.Plot{
			Title: "The published procedure on the published records (not private): 10 runs here, 10 runs of its authors' program",
			X:     "kappa, half-width of the box", Y: "risk per record, mean ± one standard deviation",
			Colors: []string{"LOP", "LOP-Clip", "QOP"}, Dashes: []string{"run again", "published"},
		},
		curves: []curve{
			{"lop", "", style(0, 0)}, {"lop-clip", "", style(1, 0)}, {"qop", "", style(2, 0)},
			{"lop, reference", "", style(4, 1)}, {"lop-clip, reference", "", style(4, 1)}, {"qop, reference", "", style(4, 1)},
		}},
	{name: "sweep-n", from: []string{"sweep-n"}, edit: overDraws,
		plot: sweep.Plot{
			Title: "Excess risk against the number of records (d = 100, kappa = 0.5, eps = 0.5, delta = 0.01, 20 runs on each of 6 draws)",
			X:     "n, number of records", Y: "risk per record above the minimum, mean ± one standard deviation over draws"},
		curves: append([]curve{{"declared/qop", "QOP, the anchor's error declared", style(2, 1)}}, exactly(boxed)...)},
	against("sweep-d", "Excess risk against the dimension, the anchor taken as exact (n = 300, kappa = 0.5, eps = 0.5, delta = 0.01, 10 runs)",
		"d, dimension"),
	against("sweep-eps", "Excess risk against the budget, the anchor taken as exact (n = 300, d = 100, kappa = 0.5, delta = 0.01, 10 runs)",
		"epsilon"),
	{name: "calibrations", from: []string{"calibrations"}, edit: relative,
		plot: sweep.Plot{
			Title: "Published noise over the noise that is proved here: below 1 the claim is not proved",
			X:     "claimed epsilon", Y: "noise / our noise at the same epsilon", Linear: true,
			Colors: []string{"LOP", "OPDisc", "SGD, n = 1000", "SGD, n = 100"}, Dashes: []string{"published", "published, repaired"},
		},
		curves: []curve{
			{"lop/published", "", style(0, 0)}, {"lop/repaired", "", style(0, 1)}, {"opdisc/published", "", style(1, 0)},
			{"sgd/published", "", style(2, 0)}, {"sgd, n = 100/published", "", style(3, 0)},
		}},
	{name: "calibrations-qop", from: []string{"calibrations"},
		plot: sweep.Plot{
			Title: "Curvature that quadratic perturbation adds (d = 100, L = 1, delta = 0.01)",
			X:     "epsilon", Y: "mean curvature per direction, over L",
		},
		curves: []curve{
			{"qop/repaired", "published, repaired", style(0, 0)}, {"qop/closed form", "ours, closed form, any loss", style(1, 0)},
			{"qop/ours, any loss", "ours, any loss", style(2, 0)},
			{"qop/ours, generalized linear", "ours, generalized linear", style(3, 0)},
			{"qop/ours", "ours, least squares", style(4, 0)},
		}},
	{name: "adult", from: []string{"adult"}, optional: []string{"adult-peers"},
		plot: sweep.Plot{
			Title: "Test accuracy of private logistic regression on Adult (n = 30162, delta = 1/n², add-remove)",
			X:     "epsilon", Y: "accuracy, mean ± one standard deviation", Linear: true,
		},
		curves: []curve{
			{"lop-addremove", "objective perturbation (ours)", style(0, 0)}, {"sgd-addremove", "noisy SGD (ours)", style(1, 0)},
			{"dpsgd-addremove", "DP-SGD (ours)", style(2, 0)},
			{"peer/CMS11", "CMS11, as in diffprivlib", style(3, 1)}, {"peer/AMP", "AMP", style(4, 2)},
			{"peer/DP-Newton", "noisy Newton", style(5, 3)},
		}},
	{name: "race", from: []string{"race"}, optional: []string{"race-peers"}, edit: lost,
		plot: sweep.Plot{
			Title: "Least squares: R² lost to privacy, mean over 13 data sets (add-remove, delta = 1/n²)",
			X:     "epsilon", Y: "mean of min(1, R² of least squares − R²)",
		},
		curves: []curve{
			{"model.Fit", "model.Fit, all defaults", style(0, 0)}, {"SSP", "SSP, ridge", style(1, 0)},
			{"AdaSSP, exact", "AdaSSP, exact composition", style(2, 0)},
			{"AdaSSP, published", "AdaSSP, as published", style(2, 1)}, {"boosted AdaSSP", "boosted AdaSSP, T = 100", style(3, 0)},
			{"DP-GD, T = 100", "DP-GD, T = 100", style(4, 0)},
			{"DP-GD, best on the test set", "DP-GD, best on the test set (not private)", style(5, 1)},
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
			return append(rows, row{Result: sweep.Result{Method: "95", Value: rows[0].Value, Mean: 0.95}},
				row{Result: sweep.Result{Method: "95", Value: rows[len(rows)-1].Value, Mean: 0.95}})
		},
		curves: []curve{
			{"interval", "intervals of model.Fit", style(0, 0)},
			{"without the variance of the noise", "without the variance of the noise", style(1, 0)},
			{"around the coefficient itself", "around the shrunk coefficient", style(2, 0)}, {"95", "what is promised", style(4, 1)},
		}},
	{name: "lowbits", from: []string{"lowbits"}, edit: named("right", "wrong"),
		plot: sweep.Plot{
			Title: "Releases whose last bits name one of two neighbors (output perturbation, eps = 1)",
			X:     "d, numbers in a release", Y: "share of releases", Linear: true,
			Colors: []string{"noise in float64, added in float64", "releases of this module"},
			Dashes: []string{"named rightly", "named wrongly"},
		},
		curves: []curve{
			{"float64 noise, added in float64, right", "", style(0, 0)}, {"float64 noise, added in float64, wrong", "", style(0, 1)},
			{"release of this module, right", "", style(1, 0)}, {"release of this module, wrong", "", style(1, 1)},
		}},
	{name: "oracle", from: []string{"oracle-seconds"}, read: solved,
		plot: sweep.Plot{Title: "Perturbed 0/1 problems solved within a time: this search beside CBC on the same problems",
			X: "seconds", Y: "share of the problems", Linear: true},
		curves: []curve{
			{"search", "this search: minimum proved", style(0, 0)}, {"solver", "CBC: claims an optimum", style(1, 0)},
		}},
	{name: "passes", from: []string{"passes-seconds"}, edit: processor,
		plot: sweep.Plot{Title: "Time of one pass of the logistic loss (d = 12, float64 rows, least of 5)",
			X: "n, number of records", Y: "processor seconds"},
		curves: []curve{
			{"memory/gradient and Hessian, in memory", "gradient and Hessian, in memory", style(0, 0)},
			{"file/gradient and Hessian, in a file", "gradient and Hessian, in a file", style(1, 0)},
			{"memory/certificate, in memory", "certificate, in memory", style(2, 0)},
			{"file/certificate, in a file", "certificate, in a file", style(3, 0)},
		}},
}
