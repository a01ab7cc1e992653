// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// incomes are the complete records of Adult with rows within norm 1, each longer one scaled by
// itself.
type incomes struct {
	data  *erm.Data
	n     int
	delta float64 // 1/n²
	test  adult.Sample
}

func newIncomes(train, test adult.Sample) (s incomes, err error) {
	s.data, err = erm.NewData(train.Rows, train.Labels, loss.Bounds{Row: 1, Label: 1})
	s.n, s.test = len(train.Rows), test
	s.delta = 1 / (float64(s.n) * float64(s.n))
	return s, err
}

// Adult fits logistic regression to Adult with every field at its default: B = 20, δ = 1/n². The
// outcome is the excess risk, as a mean over the records, over the minimum; the column accuracy is
// about adult.test. PRIVOPT_DATA names the folder that holds adult/adult.data and adult/adult.test.
func Adult(runs int, epsilons ...float64) (*sweep.Experiment, error) {
	dir, err := folder("PRIVOPT_DATA", "adult/adult.data and adult/adult.test")
	if err != nil {
		return nil, err
	}
	var samples []adult.Sample
	for _, name := range []string{"adult.data", "adult.test"} {
		file, err := os.Open(filepath.Join(dir, "adult", name))
		if err != nil {
			return nil, fmt.Errorf("evidence: %w", err)
		}
		s, err := adult.OneHot(file)
		file.Close()
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	in, err := newIncomes(samples[0], samples[1])
	if err != nil {
		return nil, err
	}
	_, d := in.data.Dims()
	p := &erm.Problem{Data: in.data, Loss: loss.Logistic{}}
	risk := func(theta []float64) float64 { return p.Perturb(erm.Perturbation{}).Func(theta) / float64(in.n) }
	// The ridge makes the minimizer unique; it raises the minimum by less than 1e-7.
	ridge := splitting.Problem{F: p.Perturb(erm.Perturbation{}), G: prox.SquaredL2{Weight: 1e-6}}
	best, err := splitting.Minimize(context.Background(), ridge, make([]float64, d), nil)
	if err != nil {
		return nil, err
	}
	least := risk(best.X)
	relations := map[string]dp.Relation{dp.Replace.String(): dp.Replace, dp.AddRemove.String(): dp.AddRemove}
	return &sweep.Experiment{
		Name: "adult", Sweep: "eps", Values: epsilons, Methods: []string{dp.Replace.String(), dp.AddRemove.String()},
		Params:     map[string]any{"runs": runs, "n": in.n, "d": d},
		NotPrivate: "risks and accuracies are computed from the records",
		Columns:    []sweep.Column{column("accuracy"), column("accuracy_stderr")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			m := &lop.Mechanism{Relation: relations[c.Method], Radius: 20}
			plan, err := m.Plan(p, dp.Budget{Epsilon: c.Value, Delta: in.delta})
			if err != nil {
				return sweep.Task{}, err
			}
			sum, square := 0.0, 0.0
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					release, err := plan.Fit(ctx, p, src)
					if err != nil {
						return 0, err
					}
					a := in.test.Accuracy(release.Theta)
					sum, square = sum+a, square+a*a
					return risk(release.Theta) - least, nil
				},
				Detail: func() any {
					k := float64(runs)
					se := math.Sqrt(max(0, square/k-sum*sum/(k*k)) / max(1, k-1))
					return details{"accuracy": sum / k, "accuracy_stderr": se}
				},
			}, nil
		},
	}, nil
}

// adultFlags are the flags of the command population with -data.
type adultFlags struct {
	Data, Test string
	radius     float64
	relations  []string
}

func (a *adultFlags) register(f *sweep.Flags) {
	relations := []string{"replace", "addremove"}
	f.StringVar(&a.Data, "data", "",
		"adult.data, `FILE`: measure test accuracy of private logistic regression against eps instead")
	f.StringVar(&a.Test, "test", "", "adult.test, `FILE`, with -data")
	f.FloatVar(&a.radius, "radius", 20, sweep.Positive(1e6),
		"with -data: public guess `B` at the norm of the solution")
	f.ListVar(&a.relations, "relation", relations, relations, "with -data: neighboring relations, `LIST`")
}

// adultMethods are the methods on records, all of them logistic regression.
var adultMethods = []string{"lop", "objpert", "output", "sgd", "dpsgd"}

// adultExperiment is the test accuracy of logistic regression on Adult: flags fix every parameter.
func (c *populationConfig) adultExperiment(f *sweep.Flags) (*sweep.Experiment, error) {
	if len(c.methods) == 0 {
		c.methods = adultMethods
	}
	err := cmp.Or(
		f.Pointless("with -data, where -values lists the ε", "family", "regime", "sweep", "n", "d", "eps", "signal",
			"bounds"),
		sweep.Refuse(c.Test == "", "flag -data needs -test, the file with the records that accuracy is measured on"))
	for _, m := range c.methods {
		err = cmp.Or(err, sweep.Refuse(!slices.Contains(adultMethods, m),
			"flag -methods: %s is not for -data, want among %s", m, strings.Join(adultMethods, ", ")))
	}
	if err == nil {
		c.values, err = parseSwept("eps", cmp.Or(c.list, "0.1,0.3,1,3"))
	}
	if err != nil {
		return nil, err
	}
	train, dataInfo, err := sweep.ReadFile("data", c.Data, adult.OneHot)
	if err != nil {
		return nil, err
	}
	test, testInfo, err := sweep.ReadFile("test", c.Test, adult.OneHot)
	if err != nil {
		return nil, err
	}
	in, err := newIncomes(train, test)
	if err != nil {
		return nil, err
	}
	if !f.Given("delta") {
		c.Delta = in.delta
	}
	if err := sweep.CheckBudgets("-values, -delta", c.Delta, c.values...); err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name: "population", Files: "accuracy", Sweep: "eps", Values: c.values,
		Params: map[string]any{"data": dataInfo, "test": testInfo, "delta": c.Delta, "radius": c.radius, "runs": c.Runs,
			"records": in.n},
		NotPrivate: "accuracies are computed from the records, no noise hides them",
		Plot: sweep.Plot{
			Title: fmt.Sprintf("Test accuracy of private logistic regression on Adult (n = %d, delta = %.3g, %d runs)",
				in.n, c.Delta, c.Runs),
			X: "eps", Y: "accuracy", Linear: true,
		},
		Columns: []sweep.Column{secondsColumn},
		Prepare: func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
			name, added := strings.CutSuffix(cell.Method, "-addremove")
			s := settings{rel: dp.Replace, radius: c.radius}
			if added {
				s.rel = dp.AddRemove
			}
			p := &erm.Problem{Data: in.data, Loss: loss.Logistic{}, Records: 30000}
			if name == "sgd" || name == "dpsgd" { // in a ball, the others without a set
				p.Set = prox.L2Ball{R: c.radius}
			}
			fit, _, err := calibrate(name, p, dp.Budget{Epsilon: cell.Value, Delta: c.Delta}, s)
			if err != nil {
				return sweep.Task{}, err
			}
			var det fitted
			return sweep.Task{
				Runs: c.Runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					theta, err := det.fit(ctx, &c.Options, src, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
						return fit(ctx, p, src)
					})
					if err != nil {
						return 0, err
					}
					return in.test.Accuracy(theta), nil
				},
				Detail: func() any { return det },
			}, nil
		},
		Summarize: summarizeAdult,
	}
	for _, m := range c.methods {
		for _, r := range c.relations {
			e.Methods = append(e.Methods, m+map[string]string{"addremove": "-addremove"}[r])
		}
	}
	return e, nil
}

// summarizeAdult words certificates and times.
func summarizeAdult(results []sweep.Result) (any, []string) {
	var lines []string
	var certificates []dp.Certificate
	fits := []map[string]any{}
	for _, r := range results {
		d, _ := sweep.DetailOf[fitted](r)
		if d.Certificate == nil {
			continue
		}
		theorem, seconds := d.Certificate.Theorem, sweep.Median(d.Seconds)
		fits = append(fits, map[string]any{"method": r.Method, "eps": r.Value, "fit_seconds_median": seconds,
			"theorem": theorem})
		certificates = append(certificates, releases(d.Certificate, r.Runs)...)
		lines = append(lines, fmt.Sprintf("%s at eps = %v: accuracy %.4f (±%.2g), by %s, median %.3g s a fit", r.Method,
			r.Value, r.Mean, r.StdErr, theorem, seconds))
	}
	if len(certificates) > 0 {
		_, total := cost(certificates)
		lines = append(lines, total)
	}
	return map[string]any{"fits": fits}, lines
}
