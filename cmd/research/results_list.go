// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"path/filepath"
	"strings"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/research/experiment"
)

// jobs are all experiments in the order of docs/results.md, each with what it runs, in full and
// with -small, and with the pictures of its table.
var jobs = []job{
	{name: "diameter", what: "risk of linear and quadratic perturbation as the box grows", parts: []part{
		boxes("ours", "-methods lop,lop-clip,qop,anchor,nonprivate", fewBoxes),
		boxes("exact", "-eta 0 -methods qop", fewBoxes),
		boxes("repaired", "-calibration paper", fewBoxes),
		boxes("published", "-mode paper", fewBoxes),
	},
		figures: []figure{{plot: sweep.Plot{
			Title: "Empirical risk in a box of growing half-width (n = 300, d = 100, ε = 0.5, δ = 0.01)",
			X:     "κ, half-width of the box", Y: "risk per record, mean ± one standard deviation",
		},
			curves: []curve{
				{"ours/lop", "LOP", 0, 0}, {"ours/lop-clip", "LOP-Clip", 1, 0},
				{"ours/qop", "QOP, the anchor's error declared", 2, 0}, {"exact/qop", "QOP, anchor taken as exact", 3, 0},
				{"ours/anchor", "anchor alone (public)", 4, 1}, {"ours/nonprivate", "no noise (not private)", 5, 0},
			}}, {name: "diameter-constants",
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
			}}}},
	{name: "published", what: "the published curves, run again on their records", collect: collectPublished,
		needs: []func() error{variable("PRIVOPT_DATA", "fig2/reference.csv")},
		parts: []part{boxes("", "-mode paper -methods lop,lop-clip,qop,anchor -label y -data "+
			"$PRIVOPT_DATA/fig2/problem.csv -anchor $PRIVOPT_DATA/fig2/anchor.csv", fewBoxes)},
		figures: []figure{{edit: beside,
			plot: sweep.Plot{
				Title: "The published procedure on the published records (not private): 10 runs here, 10 runs of its authors' " +
					"program",
				X: "kappa, half-width of the box", Y: "risk per record, mean ± one standard deviation",
				Colors: []string{"LOP", "LOP-Clip", "QOP"}, Dashes: []string{"run again", "published"},
			},
			curves: []curve{
				{"lop", "", 0, 0}, {"lop-clip", "", 1, 0}, {"qop", "", 2, 0},
				{"lop, reference", "", 4, 1}, {"lop-clip, reference", "", 4, 1}, {"qop, reference", "", 4, 1},
			}}}},
	{name: "sweep-n", what: "the same against the number of records, for six draws of the data",
		parts: append(draws("n", "300,3000"),
			boxes("declared", "-sweep n -methods qop,nonprivate", "-values 300,3000 -runs 2")),
		figures: []figure{{edit: overDraws,
			plot: sweep.Plot{
				Title: "Excess risk against the number of records (d = 100, kappa = 0.5, eps = 0.5, delta = 0.01, 20 runs on " +
					"each of 6 draws)",
				X: "n, number of records", Y: overDrawsAxis},
			curves: []curve{
				{"declared/qop", "QOP, the anchor's error declared", 2, 0}, boxed[0], boxed[1],
				boxed[2], boxed[3],
			}}}},
	{name: "around", what: "all methods around the anchor against the number of records, for six draws",
		parts: around(),
		figures: []figure{{edit: overDraws,
			plot: sweep.Plot{
				Title: "Excess risk against the number of records (d = 100, kappa = 10, eps = 0.5, delta = 0.01, 5 runs on " +
					"each of 6 draws)",
				X: "n, number of records", Y: overDrawsAxis},
			curves: []curve{
				{"lop-clip", "LOP-Clip", 1, 0}, {"lop-center", "LOP-Clip around the anchor", 0, 0},
				{"qop-tilt", "QOP, tilted: no assumption about records", 2, 0},
				{"qop-exact", "QOP as published: anchor taken as exact, which is false here", 3, 1},
				{"anchor", "anchor alone (public)", 4, 1},
			}}}},
	{name: "sweep-d", what: "the same against the dimension, for six draws of the data", parts: draws("d", "10,20"),
		figures: []figure{{edit: overDraws,
			plot: sweep.Plot{
				Title: "Excess risk against the dimension, anchor taken as exact (n = 300, κ = 0.5, ε = 0.5, δ = 0.01, " +
					"20 runs on each of 6 draws)",
				X: "d, dimension", Y: overDrawsAxis},
			curves: boxed}}},
	{name: "sweep-eps", what: "the same against the budget",
		parts: []part{boxes("", "-sweep eps -eta 0", "-values 0.5,2 -runs 2 -d 20")},
		figures: []figure{{plot: sweep.Plot{
			Title: "Excess risk against the budget, anchor taken as exact (n = 300, d = 100, κ = 0.5, δ = 0.01, 10 runs)",
			X:     "ε", Y: "risk per record above the minimum", Above: "nonprivate"},
			curves: append([]curve{{"nonprivate", "", 0, 0}}, boxed...)}}},
	{name: "bound", what: "utility bound of quadratic perturbation",
		parts: []part{{outside: true, small: []string{"-values", "4"},
			command: strings.Fields(scalingProgram + " -figure bound -out DIR -formats csv,json -quiet")}},
		figures: []figure{{plot: sweep.Plot{
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
			}}}},
	{name: "calibrations", what: "published, repaired and own noise of four families",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.Calibrations(pick(b, 100, 5), pick(b, []float64{0.1, 0.2, 0.5, 1}, []float64{0.5, 1})...), nil
		}),
		figures: []figure{{edit: relative,
			plot: sweep.Plot{
				Title: "Published noise, in multiples of the noise that is proved here: below 1 the claim is not proved",
				X:     "claimed epsilon", Y: "published noise / noise proved here, at the same ε", Linear: true,
			},
			curves: []curve{
				{"lop/repaired", "LOP, published and repaired", 0, 1}, {"lop/published", "LOP, published", 0, 0},
				{"opdisc/published", "OPDisc, published", 1, 0}, {"sgd/published", "SGD, published, n = 1000", 2, 0},
				{"sgd, n = 100/published", "SGD, published, n = 100", 3, 0}, {"level", "proved here", 5, 1},
			}}, {name: "calibrations-qop",
			plot: sweep.Plot{
				Title: "Curvature that quadratic perturbation adds (d = 100, L = 1, delta = 0.01)",
				X:     "epsilon", Y: "mean curvature per direction, over L",
			},
			curves: []curve{
				{"qop/repaired", "published, repaired", 0, 0},
				{"qop/ours, any loss", "ours, any loss", 2, 0},
				{"qop/ours, generalized linear", "ours, generalized linear", 3, 0},
				{"qop/ours", "ours, least squares", 4, 0},
			}}}},
	{name: "adult", what: "test accuracy on Adult", needs: []func() error{adultData},
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.AdultAccuracy(pick(b, 20, 2), pick(b, []string{"lop", "sgd", "dpsgd"}, []string{"lop"}),
				pick(b, []float64{0.05, 0.1, 0.2, 0.5, 1, 2}, []float64{1, 2})...)
		}),
		figures: []figure{{also: "adult-peers",
			plot: sweep.Plot{
				Title: "Test accuracy of private logistic regression on Adult (n = 30162, δ = 1/n², add-remove, 20 runs)",
				X:     "epsilon", Y: "accuracy, mean ± one standard deviation", Linear: true,
			},
			curves: []curve{
				{"lop-addremove", "objective perturbation (ours)", 0, 0}, {"sgd-addremove", "noisy SGD (ours)", 1, 0},
				{"dpsgd-addremove", "DP-SGD (ours)", 2, 0},
				{"peer/CMS11", "CMS11, as in diffprivlib", 3, 1}, {"peer/AMP", "AMP", 4, 2},
				{"peer/DP-Newton", "noisy Newton", 5, 3},
			}}}},
	{name: "adult-peers", what: "the same of peers", needs: []func() error{adultData, racePeers, science},
		collect: collectStdout, parts: []part{driver("", "data"), driver("2 1,2", "accuracy", "SEED")}},
	{name: "adult-risk", what: "excess risk on Adult with all defaults", needs: []func() error{adultData},
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.Adult(pick(b, 20, 2), pick(b, []float64{0.1, 0.3, 1}, []float64{1})...)
		})},
	{name: "race-peers", what: "least squares of peers on 13 data sets",
		needs:   []func() error{adultData, racePeers, science},
		collect: collectStdout, parts: []part{driver("", "data"), driver("2 1", "squares", "SEED")}},
	{name: "race", what: "automatic least squares on 13 data sets", needs: []func() error{adultData, racePeers, science},
		parts: []part{driver("", "data"), {name: "model.Fit", experiment: func(b *bench) (*sweep.Experiment, error) {
			return experiment.Race(filepath.Join(b.work, "race", "data"), uint64(10*(b.seed-1)), pick(b, 10, 2),
				pick(b, experiment.RaceSets, []string{"syn-1e3-5", "diabetes"}),
				pick(b, []float64{0.1, 0.3, 1, 3}, []float64{1})...)
		}}},
		figures: []figure{{also: "race-peers", edit: lost,
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
			}}}},
	{name: "coverage", what: "coverage of intervals of 95 %",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.Coverage(pick(b, 400, 5), 2000, pick(b, []float64{0.1, 0.2, 0.5, 1, 2, 5}, []float64{0.5, 2})...),
				nil
		}),
		figures: []figure{{plot: sweep.Plot{
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
			}}}},
	{name: "scores", what: "coverage of intervals of private scores",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.Scores(false, pick(b, 700, 5), pick(b, 300, 1), pick(b, 4_000_000, 10_000)), nil
		})},
	{name: "scores-persons", what: "the same for people with many rows",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.Scores(true, pick(b, 400, 3), 0, pick(b, 4_000_000, 10_000)), nil
		})},
	{name: "halfspace", what: "private halfspaces on Adult, each minimized exactly", needs: []func() error{adultData},
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			h := experiment.Halfspace{Q: pick(b, []int{2, 4, 23}, []int{2}), Runs: pick(b, 15, 1), Kinds: pick(b,
				strings.Fields("exponential-q4 exponential-q23 opdisc paper rspm logistic"), strings.Fields("opdisc logistic"))}
			return h.Over(pick(b, []float64{0.1, 0.3, 0.5, 0.7, 1}, []float64{1})...)
		}),
		figures: []figure{{plot: sweep.Plot{
			Title: "Training accuracy of private halfspaces (n = 15682, d = 23, 15 runs)",
			X:     "ε of one release", Y: "accuracy, mean ± one standard deviation", Linear: true,
		},
			curves: []curve{
				{"opdisc-q2", "OPDisc, integers with ‖w‖² ≤ 2", 0, 0},
				{"opdisc-q4", "OPDisc, integers with ‖w‖² ≤ 4", 1, 0},
				{"opdisc-q23", "OPDisc, integers with ‖w‖² ≤ 23", 2, 0},
				{"paper", "OPDisc, published noise, ‖w‖² ≤ 23", 3, 1}, {"logistic", "logistic regression", 4, 2},
				{"exponential-q4", "exponential mechanism, ‖w‖² ≤ 4", 5, 0}, {"rspm", "RSPM, weights −1, 0, 1", 7, 1},
				{"exponential-q23", "exponential mechanism, ‖w‖² ≤ 23", 6, 0},
			}}}},
	{name: "oracle", what: "time of the exact search beside CBC", seconds: true, collect: collectLaps,
		needs: []func() error{installed("cbc")}, parts: []part{rivals(300, 100), rivals(2000, 200)},
		figures: []figure{{read: solved,
			plot: sweep.Plot{Title: "20 perturbed 0/1 problems, share solved within a time of 10 seconds: this search, and CBC",
				X: "seconds", Y: "share of the problems", Linear: true},
			curves: []curve{
				{"search", "this search: minimum proved", 0, 0}, {"solver", "CBC: claims an optimum", 1, 0},
			}}}},
	{name: "population", what: "excess population loss where privacy limits it",
		parts: of(excess(experiment.PrivacyLimits, 30, "sgd", "objpert")),
		figures: []figure{excessLoss("n, number of records", "d = 50, eps = 0.1, delta = 1e-06, 30 runs",
			"sgd", "objpert")}},
	{name: "population-stat", what: "the same where the records limit it",
		parts: of(excess(experiment.StatisticsLimit, 30, "sgd", "objpert", "onepass")),
		figures: []figure{excessLoss("n, number of records", "d = 5, eps = 8, delta = 1e-06, 30 runs",
			"sgd", "objpert", "onepass")}},
	{name: "population-d", what: "the same against the dimension",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			p := experiment.PrivacyLimits
			p.Swept, p.Runs, p.Methods = "d", pick(b, 15, 2), []string{"sgd", "objpert"}
			return p.Over(pick(b, []float64{16, 32, 64, 128, 256}, []float64{16, 32})...), nil
		}),
		figures: []figure{excessLoss("d, number of parameters", "n = 8000, eps = 0.1, delta = 1e-06, 15 runs",
			"sgd", "objpert")}},
	{name: "audit", what: "measured privacy of every mechanism", collect: collectAudit,
		parts: []part{called(auditFiles, "-mechanism lop-clip")}},
	{name: "sabotage", what: "what every sabotage looks like", collect: collectAudit, parts: []part{sabotage()}},
	{name: "lowbits", what: "the attack on the last bits of a release",
		parts: of(func(b *bench) (*sweep.Experiment, error) {
			return experiment.LowBits(pick(b, 4000, 50), pick(b, []float64{1, 2, 5, 10, 20, 50}, []float64{1, 20})...), nil
		}),
		figures: []figure{{edit: named("right", "wrong"),
			plot: sweep.Plot{
				Title: "Releases whose last bits name one of two neighbors (output perturbation, eps = 1)",
				X:     "d, numbers in a release", Y: "share of releases", Linear: true,
				Colors: []string{"noise in float64, added in float64", "releases of this module"},
				Dashes: []string{"named rightly", "named wrongly"},
			},
			curves: []curve{
				{"float64 noise, added in float64, right", "", 0, 0}, {"float64 noise, added in float64, wrong", "", 0, 1},
				{"release of this module, right", "", 1, 0}, {"release of this module, wrong", "", 1, 1},
			}}}},
	{name: "speed", what: "ratios of times against numpy, C and scikit-learn", seconds: true, collect: collectGoals,
		parts: []part{{command: []string{"bash", "ROOT/bench/peers.sh", "9"}, outside: true}},
		needs: []func() error{variable("PRIVOPT_PEERS", "gradpass.c"), installed("bash"), installed("gcc"), science}},
	{name: "passes", what: "scaling with n: time of a pass", seconds: true,
		parts: []part{passes("memory", false), passes("file", true)},
		figures: []figure{{edit: processor,
			plot: sweep.Plot{Title: "Time of one pass of the logistic loss (d = 12, float64 rows, least of 5)",
				X: "n, number of records", Y: "processor seconds"},
			curves: []curve{
				{"memory/gradient and Hessian, in memory", "gradient and Hessian, in memory", 0, 0},
				{"file/gradient and Hessian, in a file", "gradient and Hessian, in a file", 1, 0},
				{"memory/certificate, in memory", "certificate, in memory", 2, 0},
				{"file/certificate, in a file", "certificate, in a file", 3, 0},
			}}}},
	{name: "convergence", what: "how the solvers converge", tables: convergence,
		figures: []figure{{name: "convergence-deterministic", from: "convergence-deterministic", read: curves3,
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
			}}, {name: "convergence-adaptive", from: "convergence-adaptive", read: curves3,
			plot: sweep.Plot{
				Title: "Logistic regression with 125 overlapping groups, 100 × 1002", X: "iterations",
				Y: "relative gap to the minimum",
			},
			curves: []curve{
				{"DavisYin, search", "Davis–Yin with a line search", 0, 0},
				{"DavisYin, 1.9/L", "Davis–Yin, steps 1.9/L", 1, 0}, {"DavisYin", "Davis–Yin, steps 1/L", 2, 0},
				{"PrimalDual", "primal-dual", 3, 1}, // nearly the steps of DavisYin
			}}, {name: "convergence-bias", from: "convergence-bias", read: curves3,
			plot: sweep.Plot{
				Title: "Ridge and ℓ₁ in a box, 2000 × 40: steps from samples of the records", X: "passes over the data",
				Y: "relative distance to the minimizer",
			},
			curves: []curve{
				{"StochasticTOS, fixed step", "stochastic, fixed step", 0, 0},
				{"StochasticTOS, affine set", "stochastic, fixed step, affine set for the box", 1, 0},
				{"StochasticTOS, SVRG", "variance-reduced, SVRG", 5, 0}, {"DavisYin", "Davis–Yin, steps 1/L", 6, 0},
			}}}},
	{name: "persons", what: "test loss on people with 20 rows each, and with 1 to 20",
		parts: []part{people("equal", false), people("visits", true)},
		figures: []figure{losses("persons", "equal", "20 rows"),
			losses("persons-visits", "visits", "1 to 20 rows, k with P ~ 1/k")}},
}
