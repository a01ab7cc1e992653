package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

var (
	families         = []string{"linear", "absolute", "logistic"}
	regimes          = []string{"privacy", "statistical"}
	populationSweeps = []string{"n", "d", "eps"}
)

// params are the flags that decide the results: they identify a run.
type populationParams struct {
	Family  string  `json:"family"`
	Regime  string  `json:"regime"`
	N       int     `json:"n"`
	D       int     `json:"d"`
	Epsilon float64 `json:"eps"`
	Delta   float64 `json:"delta"`
	Signal  float64 `json:"signal"`
	Runs    int     `json:"runs"`
}

type populationConfig struct {
	sweep.Options
	populationParams
	recordFiles
	methods     []string
	sweep, list string
	bounds      bool
	values      []float64
}

// newConfig defines the flags. Those that are 0 or empty take the value of the regime.
func newPopulation() (*populationConfig, *sweep.Flags) {
	c := &populationConfig{}
	f := sweep.NewFlags("population", "Excess population loss of private stochastic convex optimization, where it is known exactly.")
	f.ChoiceVar(&c.Family, "family", "linear", families, "law of the records and their loss")
	f.ChoiceVar(&c.Regime, "regime", "privacy", regimes, "what limits the excess: privacy (n below n*) or statistical (n above); sets the "+
		"defaults of -n, -d, -eps")
	f.ChoiceVar(&c.sweep, "sweep", "n", populationSweeps, "what grows")
	f.StringVar(&c.list, "values", "", "swept values `LIST` instead of the default grid")
	f.IntVar(&c.N, "n", 0, sweep.Between(0, 1e7), "records `N`; 0: of the regime")
	f.IntVar(&c.D, "d", 0, sweep.Between(0, 5000), "parameters `D`; 0: of the regime")
	f.FloatVar(&c.Epsilon, "eps", 0, sweep.Between(0, 1e5), "privacy budget `E` of one release; 0: of the regime")
	f.FloatVar(&c.Delta, "delta", 1e-6, sweep.Range{Max: math.Nextafter(1, 0), Open: true, Example: 1e-6}, "privacy budget `D` of one release")
	f.FloatVar(&c.Signal, "signal", 3, sweep.Positive(1e6), "‖μ‖ of the linear family over the rate, `C`")
	f.IntVar(&c.Runs, "runs", 30, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh records and noise")
	f.ListVar(&c.methods, "methods", nil, append(slices.Clone(stochastic), "onepass", "zero", "lop"),
		"methods to compare, `LIST`; empty: those that fit the family; lop with -data only")
	f.BoolVar(&c.bounds, "bounds", true, "a column with the proved bound beside each method that has one")
	c.recordFiles.register(f)
	c.Register(f, "population-out")
	return c, f
}

// check completes the flags and makes the grid.
func (c *populationConfig) check(f *sweep.Flags) error {
	if c.Data != "" {
		return c.checkAdult(f)
	}
	err := f.Pointless("without -data", "test", "radius", "relation")
	if err == nil {
		err = f.Pointless("with -sweep "+c.sweep+", of which -values lists the values", c.sweep)
	}
	if err == nil && c.Family != "linear" {
		err = f.Pointless("with -family "+c.Family+", whose law is fixed", "signal")
	}
	if err != nil {
		return err
	}
	type grid struct {
		n, d   int
		eps    float64
		values map[string][]float64
	}
	g := map[string]grid{
		"privacy": {8000, 50, 0.1, map[string][]float64{
			"n": {1000, 2000, 4000, 8000, 16000, 32000}, "d": {16, 32, 64, 128, 256, 512}, "eps": {0.01, 0.02, 0.04, 0.08, 0.12, 0.16}}},
		"statistical": {4000, 5, 8, map[string][]float64{
			"n": {1000, 2000, 4000, 8000, 16000, 32000}, "d": {2, 4, 8, 16, 32}, "eps": {4, 8, 16, 32, 64}}},
	}[c.Regime]
	if c.Family == "logistic" { // enumerates 2ᵈ points
		g.d, g.values["d"] = 8, []float64{2, 4, 6, 8, 10, 12}
	}
	c.N, c.D, c.Epsilon = cmp.Or(c.N, g.n), cmp.Or(c.D, g.d), cmp.Or(c.Epsilon, g.eps)
	c.values = g.values[c.sweep]
	if c.list != "" {
		r := map[string]sweep.Range{"n": sweep.Between(2, 1e7), "d": sweep.Between(1, 5000), "eps": sweep.Positive(1e5)}[c.sweep]
		if c.values, err = sweep.ParseValues("values", c.list, r, c.sweep != "eps"); err != nil {
			return err
		}
	}
	if len(c.methods) == 0 {
		c.methods = map[string][]string{
			"linear":   {"sgd", "objpert", "output", "phased", "psgd", "onepass"},
			"absolute": {"prox", "dpsgd", "onepass"},
			"logistic": {"sgd", "objpert", "svrg", "output", "phased", "psgd", "dpsgd", "onepass"},
		}[c.Family]
	}
	if slices.Contains(c.methods, "lop") {
		return sweep.Usagef("flag -methods: lop is weighed for the empirical risk and belongs to -data; its twin for the population is objpert")
	}
	for _, v := range c.values {
		p := c.at(v)
		switch {
		case c.Family == "logistic" && p.D > 16:
			return sweep.Usagef("d = %d (flags -d, -values) with -family logistic: want at most 16, for its 2^d rows are enumerated", p.D)
		case float64(p.N)*float64(p.D) > 2e8:
			return sweep.Usagef("%d records of %d parameters (flags -n, -d, -values): want at most 2e8 numbers in all", p.N, p.D)
		case p.N < 2:
			return sweep.Usagef("flag -n = %d: want at least 2 records", p.N)
		}
		if err := sweep.CheckBudgets("-eps, -delta", p.Delta, p.Epsilon); err != nil {
			return err
		}
	}
	return nil
}

// at returns the parameters of the cells at one swept value.
func (c *populationConfig) at(value float64) populationParams {
	p := c.populationParams
	switch c.sweep {
	case "n":
		p.N = int(value)
	case "d":
		p.D = int(value)
	case "eps":
		p.Epsilon = value
	}
	return p
}

func (c *populationConfig) experiment() (*sweep.Experiment, error) {
	if c.Data != "" {
		return c.adultExperiment()
	}
	e := &sweep.Experiment{
		Name:      "population",
		Files:     "excess",
		Sweep:     c.sweep,
		Values:    c.values,
		Params:    c.populationParams,
		Prepare:   c.prepare,
		Summarize: c.summarize,
		Columns:   populationColumns,
		Plot: sweep.Plot{
			Title: fmt.Sprintf("Excess population loss, %s, %d runs", c.title(), c.Runs),
			X:     c.sweep,
			Y:     "excess loss of one record",
			Style: map[string]sweep.Style{},
		},
	}
	for i, m := range c.methods {
		e.Methods = append(e.Methods, m)
		e.Plot.Style[m] = sweep.Style{Color: i}
		e.Plot.Colors = append(e.Plot.Colors, m)
		if c.bounds && bounded[m] {
			e.Methods = append(e.Methods, m+boundSuffix)
			e.Plot.Style[m+boundSuffix] = sweep.Style{Color: i, Dash: 1}
			e.Plot.Dashes = []string{"measured", "proved bound"}
		}
	}
	return e, nil
}

// title describes what is fixed, in characters that every plot format knows.
func (c *populationConfig) title() string {
	text := c.Family + " family"
	if c.Family == "linear" {
		text += fmt.Sprintf(" with the signal at %v of the rate", c.Signal)
	}
	if c.sweep != "n" {
		text += fmt.Sprintf(", n = %d", c.N)
	}
	if c.sweep != "d" {
		text += fmt.Sprintf(", d = %d", c.D)
	}
	if c.sweep != "eps" {
		text += fmt.Sprintf(", eps = %v", c.Epsilon)
	}
	return text + fmt.Sprintf(", delta = %v", c.Delta)
}
