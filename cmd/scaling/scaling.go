// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/table"
)

// scalingErrors are the errors that a flag or a file can repair.
var scalingErrors = []error{
	erm.ErrData, erm.ErrProblem, lasso.ErrFile, lasso.ErrParameter, lop.ErrMechanism, qop.ErrMechanism, table.ErrTable,
}

// run is the command: it returns its exit code. It compares private methods for
// ℓ1-regularized least squares in a box as the half-width κ of the box, the number of records, the
// dimension or the budget grows: the diameter experiment of [CC26, §5.2], with constants that are
// proved and solutions that are certified, or as it was published.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newScaling()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, scalingErrors,
		func() (*sweep.Experiment, error) {
			if err := c.check(flags); err != nil {
				return nil, err
			}
			if c.Figure == "bound" {
				return c.boundExperiment(), nil
			}
			return c.experiment()
		})
}

// Names of modes and calibrations.
const (
	certified = "certified"
	paper     = "paper"
	sharp     = "sharp"
)

// scalingMethods are all methods. Without -methods, plain runs show those of defaultMethods, and
// runs about a declared or published anchor those of anchorMethods.
//
//	lop         linear perturbation; its noise grows with the box
//	lop-clip    the same on the Huberized loss, whose gradients are clipped
//	lop-center  the same with the ridge around the anchor, projected on the box
//	qop-tilt    quadratic perturbation around the anchor, without interpolation
//	qop-exact   quadratic perturbation as published: the anchor is taken as exact
//	qop         quadratic perturbation with the declared error of the anchor (-eta)
//	anchor      the anchor, projected on the box: no record is used
//	nonprivate  the minimizer without any noise
var (
	scalingMethods = []string{"lop", "lop-clip", "lop-center", "qop-tilt", "qop-exact", "qop", "anchor", "nonprivate"}
	defaultMethods = []string{"lop", "lop-clip", "lop-center", "qop-tilt", "qop-exact", "anchor", "nonprivate"}
	anchorMethods  = []string{"lop", "lop-clip", "qop", "anchor", "nonprivate"}
)

// scalingParams are the flags that decide the results: they identify a run.
type scalingParams struct {
	sweep.Sizes
	Xi          float64     `json:"xi,omitempty"`
	Lambda      float64     `json:"lambda"`
	Delta       float64     `json:"delta"`
	Rho         int         `json:"rho"`
	Runs        int         `json:"runs"`
	Iterations  int         `json:"iters"`
	AnchorNoise float64     `json:"anchor_noise"`
	Clip        float64     `json:"clip"`
	Eta         float64     `json:"eta"`
	EtaRule     string      `json:"eta_rule,omitempty"`
	Mode        string      `json:"mode"`
	Calibration string      `json:"calibration"`
	Figure      string      `json:"figure"`
	File        *sweep.File `json:"data,omitempty"`
	Anchor      *sweep.File `json:"anchor,omitempty"`
	BoundRow    float64     `json:"bound_row,omitempty"`
	BoundLabel  float64     `json:"bound_label,omitempty"`
	LabelColumn string      `json:"label,omitempty"`
}

type scalingConfig struct {
	sweep.Options
	scalingParams
	methods            []string
	sweep, list        string
	kappaMin, kappaMax float64
	kappas             int
	data, anchor       string

	values []float64
}

// newScaling defines the flags. The defaults are the sizes of [CC26], and a bound on the error of
// the anchor that is true, which [CC26] does not have.
func newScaling() (*scalingConfig, *sweep.Flags) {
	c := &scalingConfig{}
	f := sweep.NewFlags("scaling",
		"Empirical risk of private ℓ1 least squares in a box as the box, the data or the budget grows.")
	f.Example = "go run ./cmd/scaling -n 100 -d 10 -kappas 3 -runs 2 -out small"
	f.IntVar(&c.N, "n", 300, sweep.Between(1, 1e7), "records `N`")
	f.IntVar(&c.D, "d", 100, sweep.Between(1, 5000), "parameters `D`")
	f.FloatVar(&c.Xi, "xi", 5, sweep.Positive(1e6), "norm `XI` of every row")
	f.FloatVar(&c.Lambda, "lambda", 1, sweep.Between(0, 1e9),
		"weight `L` of the l1 norm, which is added to a sum over records")
	f.FloatVar(&c.Epsilon, "eps", 0.5, sweep.Positive(1e5), "privacy budget `E` of one release")
	f.FloatVar(&c.Delta, "delta", 0.01, sweep.Range{Max: math.Nextafter(1, 0), Example: 0.01},
		"privacy budget `D` of one release")
	f.IntVar(&c.Rho, "rho", 1, sweep.Between(1, 1e6),
		"rank `R` in the published constants; -mode certified takes the loss's own")
	f.IntVar(&c.Runs, "runs", 10, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh noise")
	f.IntVar(&c.Iterations, "iters", 1000, sweep.Between(1, 1e9),
		"steps `K` of the stochastic solver of -mode paper; -mode certified solves exactly")
	f.FloatVar(&c.kappaMin, "kappa-min", 0.01, sweep.Positive(1e9), "smallest half-width `K` of the box")
	f.FloatVar(&c.kappaMax, "kappa-max", 1000, sweep.Positive(1e9), "largest half-width `K` of the box")
	f.IntVar(&c.kappas, "kappas", 100, sweep.Between(1, 1e5), "number `N` of half-widths, log-spaced")
	f.FloatVar(&c.Kappa, "kappa", 0.5, sweep.Positive(1e9), "half-width `K` of the box in the other sweeps")
	f.FloatVar(&c.AnchorNoise, "anchor-noise", 0.1, sweep.Between(0, 1e6),
		"standard deviation `S` of the anchor's error in each coordinate")
	f.FloatVar(&c.Clip, "clip", 0, sweep.Between(0, 1e12), "gradient bound `C` of lop-clip; 0: the largest gradient "+
		"at zero, 5xi^2 or -bound-row times -bound-label")
	f.FloatVar(&c.Eta, "eta", 0, sweep.Between(0, 1e6), "declared bound `ETA` on the anchor's error, for which qop "+
		"pays in noise; 0 takes the anchor as exact, as published. Without this flag generated anchors get S(sqrt(D)+3), "+
		"which is true of them, and those of -anchor 0")
	f.FloatVar(&c.LabelNoise, "label-noise", 0, sweep.Between(0, 1e6),
		"standard deviation `S` of noise in the labels, with which no parameter fits all records")
	f.ListVar(&c.methods, "methods", defaultMethods, scalingMethods, "methods to compare, `LIST`")
	f.ChoiceVar(&c.Mode, "mode", certified, []string{certified, paper},
		"certified, or paper: the published procedure, NOT PRIVATE")
	f.ChoiceVar(&c.Calibration, "calibration", sharp, []string{sharp, paper},
		"constants of -mode certified: sharp, or paper: the published ones as far as they can be proved")
	f.ChoiceVar(&c.Figure, "figure", "risk", []string{"risk", "bound"},
		"risk, or bound: the utility bound of qop against eps, published and sharp; with -eta for tau = eta > 0")
	f.ChoiceVar(&c.sweep, "sweep", "kappa", []string{"kappa", "n", "d", "eps", "label-noise"},
		"what grows: kappa, n, d, eps or label-noise")
	f.StringVar(&c.list, "values", "", "swept values `LIST` instead of the default grid")
	f.StringVar(&c.data, "data", "", "CSV `FILE` with a header instead of generated data")
	f.StringVar(&c.LabelColumn, "label", "", "`NAME` of the label's column in -data")
	f.FloatVar(&c.BoundRow, "bound-row", 0, sweep.Positive(1e9),
		"declared bound `B` on the norm of a row of -data; longer ones are scaled")
	f.FloatVar(&c.BoundLabel, "bound-label", 0, sweep.Positive(1e9),
		"declared bound `B` on the labels of -data; larger ones are clamped")
	f.StringVar(&c.anchor, "anchor", "", "public anchor for -data: `FILE` with a header and one column")
	c.Register(f, "scaling-out")
	return c, f
}

// check refuses flags that contradict one another, and makes the grid.
func (c *scalingConfig) check(f *sweep.Flags) error {
	bound, published := c.Figure == "bound", c.Mode == paper && c.Figure != "bound"
	if plain := c.Mode == certified && c.Calibration == sharp && c.data == "" && !f.Given("eta"); !plain &&
		!f.Given("methods") {
		c.methods = anchorMethods
	}
	if c.Mode == certified && c.Calibration == sharp && !bound && c.data == "" && !f.Given("eta") {
		c.EtaRule = "anchor_noise*(sqrt(d)+3)"
	}
	kappas := []string{"kappa-min", "kappa-max", "kappas"}
	err := sweep.First(
		f.PointlessIf(bound, "with -figure bound", strings.Fields("n d xi lambda eps delta mode data anchor sweep "+
			"methods calibration anchor-noise clip rho runs iters kappa kappa-min kappa-max kappas seed")...),
		f.PointlessIf(published, "with -mode paper, which has the published constants", "calibration", "eta"),
		sweep.Refuse(published && (slices.Contains(c.methods, "lop-center") || slices.Contains(c.methods, "qop-tilt") ||
			slices.Contains(c.methods, "qop-exact")), "flag -methods = %s with -mode paper: the published methods are "+
			"lop, lop-clip, qop, anchor and nonprivate", strings.Join(c.methods, ",")),
		sweep.Refuse(published && c.Delta == 0,
			"flag -delta = 0 with -mode paper: the published constants need a number in (0, 1), for example 0.01"),
		sweep.Refuse(c.Mode != paper && c.Calibration == paper && c.Eta > 0, "flag -eta = %v with -calibration paper: "+
			"the published noise for an inexact anchor is not proved, use -calibration sharp", c.Eta),
		c.checkData(f),
		f.PointlessIf(f.Given("values"), "with -values", kappas...),
		f.PointlessIf(c.sweep != "kappa", "with -sweep "+c.sweep, kappas...),
	)
	if err == nil {
		err = c.grid()
	}
	if err != nil {
		return err
	}
	for _, v := range c.values { // the numbers of a data set that is generated in memory
		at, largest := c.at(v), 2e8
		err = sweep.First(err, sweep.Refuse(c.data == "" && float64(at.N)*float64(at.D) > largest,
			"%d records of %d parameters (flags -n, -d, -sweep, -values): want at most %g numbers in all",
			at.N, at.D, largest))
	}
	return err
}

// checkData reports a mistake in the flags about files.
func (c *scalingConfig) checkData(f *sweep.Flags) error {
	if c.data == "" {
		return f.Pointless("without -data", "label", "bound-row", "bound-label", "anchor")
	}
	const scaled = "that is known without looking at the records: noise is scaled by it"
	err := sweep.First(
		f.Pointless("with -data", "n", "d", "anchor-noise"),
		f.PointlessIf(c.Mode != paper, "with -data, whose rows -bound-row bounds", "xi"),
		sweep.Refuse(c.LabelColumn == "", "-data needs -label, the name of the label's column in the header"),
		sweep.Refuse(c.Mode != paper && !f.Given("bound-row"),
			"-data needs -bound-row, a bound on the norm of a row "+scaled),
		sweep.Refuse(c.Mode != paper && !f.Given("bound-label"), "-data needs -bound-label, a bound on the labels "+scaled),
		sweep.Refuse(c.sweep == "n" || c.sweep == "d",
			"flag -sweep = %s with -data: the size of the file is what it is, want kappa or eps", c.sweep),
	)
	for _, m := range []string{"qop", "qop-tilt", "qop-exact", "lop-center", "anchor"} {
		err = sweep.First(err, sweep.Refuse(c.anchor == "" && slices.Contains(c.methods, m), "method %s needs -anchor FILE "+
			"with -data, a public point that was not fitted to the records; or choose -methods lop,lop-clip,nonprivate", m))
	}
	return err
}

// grid sets the swept values.
func (c *scalingConfig) grid() (err error) {
	if c.Figure == "bound" {
		c.sweep = "eps"
	}
	switch {
	case c.list != "":
		c.values, err = sweep.ParseSwept(c.sweep, c.list)
	case c.sweep == "kappa":
		c.values = logSpace(c.kappaMin, c.kappaMax, c.kappas)
		err = sweep.First(
			sweep.Refuse(c.kappaMin > c.kappaMax, "flag -kappa-min = %v is larger than -kappa-max = %v: want kappa-min <= "+
				"kappa-max", c.kappaMin, c.kappaMax),
			sweep.Refuse(c.kappas > 1 && c.kappaMin == c.kappaMax, "flag -kappas = %d with -kappa-min = -kappa-max = %v: "+
				"want -kappas 1, or an interval", c.kappas, c.kappaMin))
	case c.sweep == "n":
		for _, v := range logSpace(3*float64(c.D), 300*float64(c.D), 10) {
			c.values = append(c.values, math.Round(v))
		}
	case c.sweep == "d":
		c.values = []float64{10, 20, 50, 100, 200}
	case c.sweep == "label-noise":
		c.values = []float64{0, 0.1, 0.3, 1}
	case c.Figure == "bound":
		c.values = []float64{1, 1.5, 2, 2.5, 3, 3.5, 4}
	default:
		c.values = []float64{0.1, 0.2, 0.5, 1, 2, 5}
	}
	return err
}

// at returns the parameters of the cells at one swept value.
func (c *scalingConfig) at(value float64) scalingParams {
	p := c.scalingParams
	p.Set(c.sweep, value)
	if p.EtaRule != "" {
		p.Eta = p.generatedEta()
	}
	return p
}

// generatedEta returns S(√d+3), the bound on the error of every generated anchor.
func (p scalingParams) generatedEta() float64 { return p.AnchorNoise * (math.Sqrt(float64(p.D)) + 3) }

// clip returns the gradient bound of lop-clip.
func (p scalingParams) clip() float64 {
	switch {
	case p.Clip > 0:
		return p.Clip
	case p.File != nil:
		return p.BoundRow * p.BoundLabel
	}
	return 5 * p.Xi * p.Xi
}

// near returns the gradient bound and the distance from the solution for methods around x₀, the
// anchor projected on the box, from public numbers: S√d, and two standard deviations of a slope
// there, ξ·√(ξ²(S² + ‖x₀−anchor‖²/d) + noise²).
func (p scalingParams) near(moved float64) (clip, distance float64) {
	d := float64(p.D)
	distance = max(p.AnchorNoise*math.Sqrt(d), 1e-9)
	if p.File != nil {
		return p.clip(), distance
	}
	residual := math.Sqrt(p.Xi*p.Xi*(p.AnchorNoise*p.AnchorNoise+moved*moved/d) + p.LabelNoise*p.LabelNoise)
	return max(2*p.Xi*residual, 1e-9), distance
}

// logSpace returns k log-spaced values from a to b, whose ends are exact.
func logSpace(a, b float64, k int) []float64 {
	values := make([]float64, k)
	la, lb := math.Log10(a), math.Log10(b)
	for i := range values {
		values[i] = math.Pow(10, la+(lb-la)*float64(i)/float64(max(1, k-1)))
	}
	values[k-1] = b
	values[0] = a
	return values
}

// experiment describes the sweep for which the flags ask.
func (c *scalingConfig) experiment() (*sweep.Experiment, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name: "scaling", Files: "risk", Sweep: c.sweep, Values: c.values, Methods: c.methods, Params: c.scalingParams,
		Prepare:   s.prepare,
		Summarize: func(results []sweep.Result) (any, []string) { return c.summarize(s, results) },
		Plot: sweep.Plot{
			Title: "Empirical risk of ℓ1 least squares in a box (" + c.title() + ")",
			X: map[string]string{"kappa": "kappa, half-width of the box", "n": "n, number of records",
				"d": "d, number of parameters", "eps": "epsilon of one release",
				"label-noise": "standard deviation of noise in the labels"}[c.sweep],
			Y:      "empirical risk, mean ± one standard deviation",
			Legend: c.legend(),
			Dashed: []string{"anchor", "nonprivate", "qop-exact"},
		},
	}
	if c.sweep != "kappa" && slices.Contains(c.methods, "nonprivate") {
		e.Plot.Above, e.Plot.Title = "nonprivate", "Excess risk of ℓ1 least squares in a box ("+c.title()+")"
		e.Plot.Y = "risk per record above the minimum, mean ± one standard deviation"
	}
	if c.Mode == paper {
		e.NotPrivate = "published procedure, no guarantee holds as run"
	}
	if c.data != "" {
		if e.NotPrivate != "" {
			e.NotPrivate += "; "
		}
		e.NotPrivate += "risks are measured on the records of -data"
	}
	return e, nil
}

// title describes the quantities that do not grow.
func (c *scalingConfig) title() (text string) {
	add := func(show bool, format string, x any) {
		if show {
			text += fmt.Sprintf(format, x)
		}
	}
	add(c.data == "" && c.sweep != "n", "n = %d, ", c.N)
	add(c.data == "" && c.sweep != "d", "d = %d, ", c.D)
	add(c.sweep != "kappa", "kappa = %v, ", c.Kappa)
	add(c.sweep != "eps", "eps = %v, ", c.Epsilon)
	add(c.sweep != "label-noise" && c.LabelNoise > 0, "label noise %v, ", c.LabelNoise)
	return text + fmt.Sprintf("delta = %v, %d runs", c.Delta, c.Runs)
}

// legend words the methods for the plot, with the assumption on which a curve rests.
func (c *scalingConfig) legend() map[string]string {
	l := map[string]string{
		"lop": "LOP", "lop-clip": "LOP-Clip", "qop": "QOP, anchor taken as exact",
		"lop-center": "LOP-Clip around the anchor", "qop-tilt": "QOP, tilted: no assumption about records",
		"qop-exact": "QOP as published: anchor taken as exact",
		"anchor":    "anchor (no record used)", "nonprivate": "no noise (not private)",
	}
	if c.data == "" && (c.AnchorNoise > 0 || c.LabelNoise > 0 || c.sweep == "label-noise") {
		l["qop-exact"] += ", which is false here"
	}
	eta := c.at(c.values[0]).Eta // that of the rule, if there is one
	switch {
	case c.Mode == paper:
		l["lop"], l["lop-clip"] = "LOP as published", "LOP-Clip as published"
		l["qop"] = "QOP as published"
	case eta > 0 && c.EtaRule != "" && c.sweep == "d":
		l["qop"] = "QOP, anchor within eta = " + sweep.Digits(c.AnchorNoise) + " (sqrt(d)+3)"
	case eta > 0:
		l["qop"] = "QOP, anchor within eta = " + sweep.Digits(eta)
	case c.data == "" && c.AnchorNoise > 0:
		l["qop"] = "QOP, anchor taken as exact, which is false here"
	}
	return l
}
