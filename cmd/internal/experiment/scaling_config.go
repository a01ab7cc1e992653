package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// Names of modes, calibrations, methods and sweeps.
const (
	certified = "certified"
	paper     = "paper"
	sharp     = "sharp"
)

var (
	modes          = []string{certified, paper}
	calibrations   = []string{sharp, paper}
	scalingMethods = []string{"lop", "lop-clip", "qop", "anchor", "nonprivate"}
	scalingSweeps  = []string{"kappa", "n", "d", "eps"}
	scalingFigures = []string{"risk", "bound"}
)

// largest bounds n·d, the numbers of a data set that is generated in memory.
const largest = 2e8

// params are the flags that decide the results: they identify a run.
type scalingParams struct {
	N           int         `json:"n,omitempty"`
	D           int         `json:"d,omitempty"`
	Xi          float64     `json:"xi,omitempty"`
	Lambda      float64     `json:"lambda"`
	Epsilon     float64     `json:"eps"`
	Delta       float64     `json:"delta"`
	Rho         int         `json:"rho"`
	Runs        int         `json:"runs"`
	Iterations  int         `json:"iters"`
	AnchorNoise float64     `json:"anchor_noise"`
	Clip        float64     `json:"clip"`
	Eta         float64     `json:"eta"`
	EtaRule     string      `json:"eta_rule,omitempty"`
	Kappa       float64     `json:"kappa"`
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

// newConfig defines the flags, with the paper's defaults.
func newScaling() (*scalingConfig, *sweep.Flags) {
	c := &scalingConfig{}
	f := sweep.NewFlags("scaling", "Empirical risk of private l1 least squares in a box as the box, the data or the budget grows.")
	f.IntVar(&c.N, "n", 300, sweep.Between(1, 1e7), "records `N`")
	f.IntVar(&c.D, "d", 100, sweep.Between(1, 5000), "parameters `D`")
	f.FloatVar(&c.Xi, "xi", 5, sweep.Positive(1e6), "norm `XI` of every row")
	f.FloatVar(&c.Lambda, "lambda", 1, sweep.Between(0, 1e9), "weight `L` of the l1 norm, which is added to a sum over records")
	f.FloatVar(&c.Epsilon, "eps", 0.5, sweep.Positive(1e5), "privacy budget `E` of one release")
	f.FloatVar(&c.Delta, "delta", 0.01, sweep.Range{Max: math.Nextafter(1, 0), Example: 0.01}, "privacy budget `D` of one release")
	f.IntVar(&c.Rho, "rho", 1, sweep.Between(1, 1e6), "rank `R` in the published constants; -mode certified takes the loss's own")
	f.IntVar(&c.Runs, "runs", 10, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh noise")
	f.IntVar(&c.Iterations, "iters", 1000, sweep.Between(1, 1e9),
		"steps `K` of the stochastic solver of -mode paper; -mode certified solves exactly")
	f.FloatVar(&c.kappaMin, "kappa-min", 0.01, sweep.Positive(1e9), "smallest half-width `K` of the box")
	f.FloatVar(&c.kappaMax, "kappa-max", 1000, sweep.Positive(1e9), "largest half-width `K` of the box")
	f.IntVar(&c.kappas, "kappas", 100, sweep.Between(1, 1e5), "number `N` of half-widths, log-spaced")
	f.FloatVar(&c.Kappa, "kappa", 0.5, sweep.Positive(1e9), "half-width `K` of the box in the other sweeps")
	f.FloatVar(&c.AnchorNoise, "anchor-noise", 0.1, sweep.Between(0, 1e6), "standard deviation `S` of the anchor's error in each coordinate")
	f.FloatVar(&c.Clip, "clip", 0, sweep.Between(0, 1e12), "gradient bound `C` of lop-clip; 0: the largest gradient at zero, 5xi^2 or "+
		"-bound-row times -bound-label")
	f.FloatVar(&c.Eta, "eta", 0, sweep.Between(0, 1e6), "declared bound `ETA` on the anchor's error, for which qop pays in "+
		"noise; 0 takes the anchor as exact, as published. Without this flag generated anchors get S(sqrt(D)+3), "+
		"which is true of them, and those of -anchor 0")
	f.ListVar(&c.methods, "methods", scalingMethods, scalingMethods, "methods to compare, `LIST`")
	f.ChoiceVar(&c.Mode, "mode", certified, modes, "certified, or paper: the published procedure, NOT PRIVATE")
	f.ChoiceVar(&c.Calibration, "calibration", sharp, calibrations, "constants of -mode certified: sharp, or paper: the published ones as "+
		"far as they can be proved")
	f.ChoiceVar(&c.Figure, "figure", "risk", scalingFigures, "risk, or bound: the utility bound of qop against eps, published and sharp; with -eta "+
		"for tau = eta > 0")
	f.ChoiceVar(&c.sweep, "sweep", "kappa", scalingSweeps, "what grows: kappa, n, d or eps")
	f.StringVar(&c.list, "values", "", "swept values `LIST` instead of the default grid")
	f.StringVar(&c.data, "data", "", "CSV `FILE` with a header instead of generated data")
	f.StringVar(&c.LabelColumn, "label", "", "`NAME` of the label's column in -data")
	f.FloatVar(&c.BoundRow, "bound-row", 0, sweep.Positive(1e9), "declared bound `B` on the norm of a row of -data; longer ones are scaled")
	f.FloatVar(&c.BoundLabel, "bound-label", 0, sweep.Positive(1e9), "declared bound `B` on the labels of -data; larger ones are clamped")
	f.StringVar(&c.anchor, "anchor", "", "public anchor for -data: `FILE` with a header and one column")
	c.Register(f, "scaling-out")
	return c, f
}

// check reports flags that contradict one another, and makes the grid.
func (c *scalingConfig) check(f *sweep.Flags) error {
	var err error
	switch {
	case c.Figure == "bound":
		err = f.Pointless("with -figure bound", "n", "d", "xi", "lambda", "eps", "delta", "mode", "data", "anchor", "sweep", "methods",
			"calibration", "anchor-noise", "clip", "rho", "runs", "iters", "kappa", "kappa-min", "kappa-max", "kappas", "seed")
	case c.Mode == paper:
		err = f.Pointless("with -mode paper, which has the published constants", "calibration", "eta")
		if err == nil && c.Clip != 0 && c.Clip != 10000 {
			err = sweep.Usagef("flag -clip = %v with -mode paper: the published procedure has 10000, use that, 0 or -mode certified", c.Clip)
		}
		if err == nil && c.Delta == 0 {
			err = sweep.Usagef("flag -delta = 0 with -mode paper: the published constants need a number in (0, 1), for example 0.01")
		}
	case c.Calibration == paper && c.Eta > 0:
		err = sweep.Usagef("flag -eta = %v with -calibration paper: the published noise for an inexact anchor is not proved, use -calibration "+
			"sharp", c.Eta)
	}
	if err == nil {
		err = c.checkData(f)
	}
	if c.Mode == certified && c.Calibration == sharp && c.Figure == "risk" && c.data == "" && !f.Given("eta") {
		c.EtaRule = "anchor_noise*(sqrt(d)+3)"
	}
	if err == nil && f.Given("values") {
		err = f.Pointless("with -values", "kappa-min", "kappa-max", "kappas")
	}
	if err == nil && c.sweep != "kappa" {
		err = f.Pointless("with -sweep "+c.sweep, "kappa-min", "kappa-max", "kappas")
	}
	if err == nil {
		err = c.grid()
	}
	if err != nil {
		return err
	}
	return c.size()
}

// checkData reports what is wrong with the flags about files.
func (c *scalingConfig) checkData(f *sweep.Flags) error {
	if c.data == "" {
		return f.Pointless("without -data", "label", "bound-row", "bound-label", "anchor")
	}
	if err := f.Pointless("with -data", "n", "d", "anchor-noise"); err != nil {
		return err
	}
	if c.Mode != paper {
		if err := f.Pointless("with -data, whose rows -bound-row bounds", "xi"); err != nil {
			return err
		}
	}
	switch {
	case c.LabelColumn == "":
		return sweep.Usagef("-data needs -label, the name of the label's column in the header")
	case c.Mode != paper && !f.Given("bound-row"):
		return sweep.Usagef("-data needs -bound-row, a bound on the norm of a row that is known without looking at the records: noise is " +
			"scaled by it")
	case c.Mode != paper && !f.Given("bound-label"):
		return sweep.Usagef("-data needs -bound-label, a bound on the labels that is known without looking at the records: noise is scaled by it")
	case c.sweep == "n" || c.sweep == "d":
		return sweep.Usagef("flag -sweep = %s with -data: the size of the file is what it is, want kappa or eps", c.sweep)
	}
	for _, m := range []string{"qop", "anchor"} {
		if c.anchor == "" && slices.Contains(c.methods, m) {
			return sweep.Usagef("method %s needs -anchor FILE with -data, a public point that was not fitted to the records; or choose -methods "+
				"lop,lop-clip,nonprivate", m)
		}
	}
	return nil
}

// grid sets the swept values.
func (c *scalingConfig) grid() error {
	if c.Figure == "bound" {
		c.sweep = "eps"
	}
	if c.list != "" {
		var err error
		c.values, err = sweep.ParseValues("values", c.list, sweep.Swept[c.sweep].Range, sweep.Swept[c.sweep].Whole)
		return err
	}
	switch c.sweep {
	case "kappa":
		if c.kappaMin > c.kappaMax {
			return sweep.Usagef("flag -kappa-min = %v is larger than -kappa-max = %v: want kappa-min <= kappa-max", c.kappaMin, c.kappaMax)
		}
		if c.kappas > 1 && c.kappaMin == c.kappaMax {
			return sweep.Usagef("flag -kappas = %d with -kappa-min = -kappa-max = %v: want -kappas 1, or an interval", c.kappas, c.kappaMin)
		}
		c.values = logSpace(c.kappaMin, c.kappaMax, c.kappas)
	case "n":
		for _, v := range logSpace(3*float64(c.D), 300*float64(c.D), 10) {
			c.values = append(c.values, math.Round(v))
		}
	case "d":
		c.values = []float64{10, 20, 50, 100, 200}
	case "eps":
		c.values = []float64{0.1, 0.2, 0.5, 1, 2, 5}
		if c.Figure == "bound" {
			c.values = []float64{1, 1.5, 2, 2.5, 3, 3.5, 4}
		}
	}
	return nil
}

// size refuses data that would not fit into memory.
func (c *scalingConfig) size() error {
	for _, v := range c.values {
		if at := c.at(v); c.data == "" && float64(at.N)*float64(at.D) > largest {
			return sweep.Usagef("%d records of %d parameters (flags -n, -d, -sweep, -values): want at most %g numbers in all", at.N, at.D,
				float64(largest))
		}
	}
	return nil
}

// at returns the parameters of the cells at one swept value.
func (c *scalingConfig) at(value float64) scalingParams {
	p := c.scalingParams
	switch c.sweep {
	case "kappa":
		p.Kappa = value
	case "n":
		p.N = int(value)
	case "d":
		p.D = int(value)
	case "eps":
		p.Epsilon = value
	}
	if p.EtaRule != "" {
		p.Eta = p.generatedEta()
	}
	return p
}

// generatedEta returns S(√d+3), the bound on the error of every anchor that generate makes.
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

// logSpace returns k log-spaced values from a to b, whose ends are exact.
func logSpace(a, b float64, k int) []float64 {
	values := make([]float64, k)
	la, lb := math.Log10(a), math.Log10(b)
	for i := range values {
		values[i] = math.Pow(10, la+(lb-la)*float64(i)/float64(max(1, k-1)))
	}
	values[0] = a
	if k > 1 {
		values[k-1] = b
	}
	return values
}

func (c *scalingConfig) title() string {
	size := fmt.Sprintf("n = %d, d = %d, ", c.N, c.D)
	if c.data != "" {
		size = ""
	}
	at := ""
	switch c.sweep {
	case "n":
		size = fmt.Sprintf("d = %d, ", c.D)
	case "d":
		size = fmt.Sprintf("n = %d, ", c.N)
	}
	if c.sweep != "kappa" {
		at = fmt.Sprintf("kappa = %v, ", c.Kappa)
	}
	budget := fmt.Sprintf("eps = %v, ", c.Epsilon)
	if c.sweep == "eps" {
		budget = ""
	}
	return fmt.Sprintf("Empirical risk of l1 least squares in a box (%s%s%sdelta = %v, %d runs)", size, at, budget, c.Delta, c.Runs)
}
