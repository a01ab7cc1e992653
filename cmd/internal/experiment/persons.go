// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/splitting"
)

// Ways to fit people with many rows each so that neighbors differ in a person, and the fit without
// noise.
const (
	allRows  = "persons"
	oneRow   = "one random row"
	asGroups = "group privacy"
	exactFit = "nonprivate"
	rowsEach = 20 // of a made-up person
)

// Persons fits logistic regression to made-up people with 20 rows each. The guarantee is (ε, 1/n²)
// for a person who is added or removed: by all rows of persons, by one random row of each person,
// or by all rows as records at the budget that group privacy needs. The outcome is the log loss on
// 5000 other people. Columns are σ per unit of weight of a person; the number of rows of a person
// in the certificate, 0 for records; and the mean difference to persons with its standard error.
//
// All methods and all ε draw the noise of a run from one stream, not from that of package sweep: at
// a small ε, differences between methods would be lost in noise of their own.
func Persons(seed uint64, people, runs int, epsilons ...float64) (*sweep.Experiment, error) {
	train := drawPeople(noise.Reproducible(seed, "persons", "train"), people)
	test := drawPeople(noise.Reproducible(seed, "persons", "test"), 5000)
	p, err := train.problem(exactFit, nil)
	if err != nil {
		return nil, err
	}
	whole := splitting.Problem{F: p.Perturb(erm.Perturbation{})}
	best, err := splitting.Minimize(context.Background(), whole, make([]float64, len(truth)), nil)
	if err != nil {
		return nil, err
	}
	return &sweep.Experiment{
		Name: "persons", Sweep: "eps", Values: epsilons, Methods: []string{allRows, oneRow, asGroups, exactFit},
		Params:     map[string]any{"runs": runs, "people": people, "rows": rowsEach, "draw": seed},
		NotPrivate: "one fit has no noise",
		Columns:    []sweep.Column{column("sigma"), column("rows"), column("over"), column("over_stderr")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			if c.Method == exactFit {
				return once(func(context.Context) (float64, error) { return test.logLoss(best.X), nil }), nil
			}
			b := dp.Budget{Epsilon: c.Value, Delta: 1 / (float64(people) * float64(people))}
			shown, over := details{}, []float64(nil)
			var loss [2]func(ctx context.Context, run string) (float64, error)
			var err error
			for i, method := range []string{allRows, c.Method} { // the second sets the numbers shown
				if loss[i], err = train.plan(method, b, test, shown); err != nil {
					return sweep.Task{}, err
				}
			}
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, _ rand.Source) (l float64, err error) {
					run := strconv.FormatUint(seed, 10) + " " + strconv.Itoa(len(over))
					base, err := loss[0](ctx, run)
					if err == nil {
						l, err = loss[1](ctx, run)
					}
					over = append(over, l-base)
					return l, err
				},
				Detail: func() any {
					mean, std := stat.MeanStdDev(over, nil)
					shown["over"], shown["over_stderr"] = mean, std/math.Sqrt(float64(runs))
					return shown
				},
			}, nil
		},
	}, nil
}

// plan returns the log loss on test of a run of a method with budget b for a person.
func (p persons) plan(
	method string, b dp.Budget, test persons, shown details,
) (func(ctx context.Context, run string) (float64, error), error) {
	weight := 1.0
	if method == asGroups {
		b, weight = forGroups(b, rowsEach), rowsEach
	}
	// Declared numbers do not depend on the rows that are drawn: one plan is for all draws.
	first, err := p.problem(method, noise.Reproducible(0))
	if err != nil {
		return nil, err
	}
	plan, err := (&lop.Mechanism{Relation: dp.AddRemove, Radius: 10}).Plan(first, b)
	if err != nil {
		return nil, err
	}
	shown["sigma"], shown["rows"] = plan.Params().Sigma/weight, float64(plan.Certificate().Rows)
	return func(ctx context.Context, run string) (float64, error) {
		drawn, err := first, error(nil)
		if method == oneRow {
			drawn, err = p.problem(method, noise.Reproducible(0, "persons", "rows", run))
		}
		if err != nil {
			return 0, err
		}
		release, err := plan.Fit(ctx, drawn, noise.Reproducible(0, "persons", "noise", run))
		if err != nil {
			return 0, err
		}
		return test.logLoss(release.Theta), nil
	}, nil
}

// forGroups returns the budget (ε/k, δ′) of records that proves b for groups of k records:
//
//	δ = δ′·Σ_{i<k} e^{iε/k} = δ′·(e^ε − 1)/(e^{ε/k} − 1)
func forGroups(b dp.Budget, k int) dp.Budget {
	eps := b.Epsilon / float64(k)
	return dp.Budget{Epsilon: eps, Delta: b.Delta * math.Expm1(eps) / math.Expm1(b.Epsilon)}
}

// truth are the coefficients of made-up people: an intercept, two of features that a person keeps
// in all rows, and three of features that change from row to row.
var truth = []float64{-1, 3, -3, 3, -3, 3}

// persons are made-up people: the rows of one are neighbors.
type persons struct {
	rows   [][]float64
	labels []float64
}

// drawPeople draws n people. A label is 1 with the odds exp(⟨a,θ⟩ + u), where u ~ N(0,1) is the
// effect of the person, else −1; rows are [1, x]/√6 with x uniform in [−1, 1].
func drawPeople(src rand.Source, n int) (p persons) {
	rnd, scale := rand.New(src), 1/math.Sqrt(float64(len(truth)))
	for range n {
		effect, kept := rnd.NormFloat64(), []float64{1, 2*rnd.Float64() - 1, 2*rnd.Float64() - 1}
		for range rowsEach {
			row, u, label := make([]float64, len(truth)), effect, -1.0
			for j := range row {
				if row[j] = scale * (2*rnd.Float64() - 1); j < len(kept) {
					row[j] = scale * kept[j]
				}
				u += row[j] * truth[j]
			}
			if rnd.Float64() < 1/(1+math.Exp(-u)) {
				label = 1
			}
			p.rows, p.labels = append(p.rows, row), append(p.labels, label)
		}
	}
	return p
}

// problem is the regression of a method, of oneRow on a row of each person that src draws.
func (p persons) problem(method string, src rand.Source) (*erm.Problem, error) {
	b, err := erm.NewBuilder(len(truth), false, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	q := &erm.Problem{Loss: loss.Logistic{}}
	only := 0
	for i, row := range p.rows {
		if method == oneRow && i%rowsEach == 0 {
			only = i + rand.New(src).IntN(rowsEach)
		}
		if method != oneRow || i == only {
			b.Add(row, p.labels[i])
			b.ID(strconv.Itoa(i / rowsEach))
			q.Records++
		}
	}
	if method != allRows {
		q.Data = b.Data()
		return q, nil
	}
	q.Records /= rowsEach
	q.Data, err = b.ByPerson(context.Background(), erm.Persons{Rows: rowsEach})
	return q, err
}

// logLoss is the mean loss at theta, of rows as of people, who all have as many rows.
func (p persons) logLoss(theta []float64) float64 {
	sum := 0.0
	for i, row := range p.rows {
		sum += loss.Logistic{}.Func(theta, row, p.labels[i])
	}
	return sum / float64(len(p.rows))
}
