package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// files are the flags of the experiment on records.
type recordFiles struct {
	Data, Test string
	radius     float64
	relations  []string
}

var relations = []string{"replace", "addremove"}

// adultMethods are the methods on records, logistic regression all of them.
var adultMethods = []string{"lop", "objpert", "output", "sgd", "dpsgd"}

func (a *recordFiles) register(f *sweep.Flags) {
	f.StringVar(&a.Data, "data", "", "adult.data, `FILE`: measure test accuracy of private logistic regression against eps instead")
	f.StringVar(&a.Test, "test", "", "adult.test, `FILE`, with -data")
	f.FloatVar(&a.radius, "radius", 20, sweep.Positive(1e6), "with -data: public guess `B` at the norm of the solution")
	f.ListVar(&a.relations, "relation", relations, relations, "with -data: neighboring relations, `LIST`")
}

// checkAdult completes the flags of the experiment on records.
func (c *populationConfig) checkAdult(f *sweep.Flags) error {
	err := f.Pointless("with -data, where -values lists the ε", "family", "regime", "sweep", "n", "d", "eps", "signal", "bounds")
	if err != nil {
		return err
	}
	if c.Test == "" {
		return sweep.Usagef("flag -data needs -test, the file with the records that accuracy is measured on")
	}
	c.sweep, c.list = "eps", cmp.Or(c.list, "0.1,0.3,1,3")
	if c.values, err = sweep.ParseValues("values", c.list, sweep.Positive(1e5), false); err != nil {
		return err
	}
	if len(c.methods) == 0 {
		c.methods = adultMethods
	}
	for _, m := range c.methods {
		if !slices.Contains(adultMethods, m) {
			return sweep.Usagef("flag -methods: %s is not for -data, want among %s", m, strings.Join(adultMethods, ", "))
		}
	}
	if !f.Given("delta") {
		c.Delta = 0 // 1/n²
	}
	return nil
}

// adultParams identify a run.
type adultParams struct {
	Data    *sweep.File `json:"data"`
	Test    *sweep.File `json:"test"`
	Delta   float64     `json:"delta"`
	Radius  float64     `json:"radius"`
	Runs    int         `json:"runs"`
	Records int         `json:"records"`
}

// adultExperiment is logistic regression on Adult: rows within norm 1 (each
// longer one scaled by itself), δ = 1/n², every parameter fixed by flags.
func (c *populationConfig) adultExperiment() (*sweep.Experiment, error) {
	train, dataInfo, err := sweep.ReadFile("data", c.Data, adult.OneHot)
	if err != nil {
		return nil, err
	}
	data, err := erm.NewData(train.Rows, train.Labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	test, testInfo, err := sweep.ReadFile("test", c.Test, adult.OneHot)
	if err != nil {
		return nil, err
	}
	n, _ := data.Dims()
	c.Delta = cmp.Or(c.Delta, 1/(float64(n)*float64(n)))
	if err := sweep.CheckBudgets("-values, -delta", c.Delta, c.values...); err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name:       "population",
		Files:      "accuracy",
		Sweep:      "eps",
		Values:     c.values,
		Params:     adultParams{dataInfo, testInfo, c.Delta, c.radius, c.Runs, n},
		NotPrivate: "accuracies are computed from the records, no noise hides them",
		Plot: sweep.Plot{
			Title:  fmt.Sprintf("Test accuracy of private logistic regression on Adult (n = %d, delta = %.3g, %d runs)", n, c.Delta, c.Runs),
			X:      "eps",
			Y:      "accuracy",
			Linear: true,
		},
		Columns: []sweep.Column{sweep.Number("fit_seconds_median", func(r sweep.Result) (float64, bool) {
			d, ok := sweep.DetailOf[populationDetail](r)
			if ok = ok && len(d.Seconds) > 0; !ok {
				return 0, false
			}
			return sweep.Median(d.Seconds), true
		})},
		Prepare: func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
			name, rel := cell.Method, dp.Replace
			if short, ok := strings.CutSuffix(name, "-addremove"); ok {
				name, rel = short, dp.AddRemove
			}
			p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Records: 30000}
			if name == "sgd" || name == "dpsgd" { // in a ball, the others without a set
				p.Set = prox.L2Ball{R: c.radius}
			}
			pl, err := calibrate(name, p, dp.Budget{Epsilon: cell.Value, Delta: c.Delta}, settings{rel: rel, radius: c.radius})
			if err != nil {
				return sweep.Task{}, err
			}
			det := &populationDetail{}
			return sweep.Task{
				Runs: c.Runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					if c.Seed == nil {
						src = nil
					}
					start := time.Now()
					release, err := pl.fit(ctx, p, src)
					if err != nil {
						return 0, err
					}
					det.Seconds = append(det.Seconds, time.Since(start).Seconds())
					det.Certificate = &release.Certificate
					return test.Accuracy(release.Theta), nil
				},
				Detail: func() any { return det },
			}, nil
		},
		Summarize: c.summarizeAdult,
	}
	for _, m := range c.methods {
		for _, r := range c.relations {
			if r == "addremove" {
				m += "-addremove"
			}
			e.Methods = append(e.Methods, m)
		}
	}
	return e, nil
}

// summarizeAdult words certificates and times.
func (c *populationConfig) summarizeAdult(results []sweep.Result) (any, []string) {
	var lines []string
	type line struct {
		Method  string  `json:"method"`
		Epsilon float64 `json:"eps"`
		Seconds float64 `json:"fit_seconds_median"`
		Theorem string  `json:"theorem"`
	}
	all := []line{}
	var certificates []dp.Certificate
	for _, r := range results {
		d, _ := sweep.DetailOf[populationDetail](r)
		if d.Certificate == nil || len(d.Seconds) == 0 {
			continue
		}
		l := line{r.Method, r.Value, sweep.Median(d.Seconds), d.Certificate.Theorem}
		all = append(all, l)
		certificates = append(certificates, slices.Repeat([]dp.Certificate{*d.Certificate}, r.Runs)...)
		lines = append(lines, fmt.Sprintf("%s at eps = %v: accuracy %.4f (±%.2g), by %s, median %.3g s a fit", r.Method, r.Value, r.Mean,
			r.StdErr, l.Theorem, l.Seconds))
	}
	if len(certificates) > 0 {
		_, cost := sweep.Cost(certificates)
		lines = append(lines, cost)
	}
	return map[string]any{"fits": all}, lines
}
