// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// readIncomes reads adult.data and adult.test.
func readIncomes() (s incomes, err error) {
	var samples [2]adult.Sample
	for i, name := range []string{"adult.data", "adult.test"} {
		if samples[i], err = readAdult(name, adult.OneHot); err != nil {
			return s, err
		}
	}
	return newIncomes(samples[0], samples[1])
}

// readAdult reads a file of Adult. PRIVOPT_DATA names the folder that holds adult/adult.data and
// adult/adult.test.
func readAdult[T any](name string, read func(io.Reader) (T, error)) (t T, err error) {
	dir, err := folder("PRIVOPT_DATA", "adult/adult.data and adult/adult.test")
	if err != nil {
		return t, err
	}
	file, err := os.Open(filepath.Join(dir, "adult", name))
	if err != nil {
		return t, err
	}
	defer file.Close()
	return read(file)
}

func newIncomes(train, test adult.Sample) (s incomes, err error) {
	s.data, err = erm.NewData(train.Rows, train.Labels, loss.Bounds{Row: 1, Label: 1})
	s.n, s.test = len(train.Rows), test
	s.delta = 1 / (float64(s.n) * float64(s.n))
	return s, err
}

// Adult fits logistic regression to Adult with every field at its default: B = 20, δ = 1/n². The
// outcome is the excess risk, as a mean over the records, over the minimum; the column accuracy is
// about adult.test.
func Adult(runs int, epsilons ...float64) (*sweep.Experiment, error) {
	in, err := readIncomes()
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

// AdultAccuracy is the test accuracy of logistic regression on Adult, for neighbors by add/remove:
// public numbers fix every parameter.
func AdultAccuracy(runs int, methods []string, epsilons ...float64) (*sweep.Experiment, error) {
	in, err := readIncomes()
	if err != nil {
		return nil, err
	}
	return in.accuracy(runs, methods, epsilons), nil
}

// added ends the names of methods whose neighbors differ by one record more.
const added = "-addremove"

func (in incomes) accuracy(runs int, methods []string, epsilons []float64) *sweep.Experiment {
	const radius = 20 // public guess at the norm of the solution
	e := &sweep.Experiment{
		Name: "population", Files: "accuracy", Sweep: "eps", Values: epsilons,
		Params:     map[string]any{"delta": in.delta, "radius": radius, "runs": runs, "records": in.n},
		NotPrivate: "accuracies are computed from the records, no noise hides them",
		Prepare: func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
			name := strings.TrimSuffix(cell.Method, added)
			p := &erm.Problem{Data: in.data, Loss: loss.Logistic{}, Records: in.n / 10000 * 10000}
			if name == "sgd" || name == "dpsgd" { // in a ball, the others without a set
				p.Set = prox.L2Ball{R: radius}
			}
			fit, _, err := calibrate(name, p, dp.Budget{Epsilon: cell.Value, Delta: in.delta},
				settings{rel: dp.AddRemove, radius: radius})
			if err != nil {
				return sweep.Task{}, err
			}
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					release, err := fit(ctx, p, src)
					if err != nil {
						return 0, err
					}
					return in.test.Accuracy(release.Theta), nil
				},
			}, nil
		},
	}
	for _, m := range methods {
		e.Methods = append(e.Methods, m+added)
	}
	return e
}
