// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

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
	mostRows = 20 // of a made-up person
)

// Persons fits logistic regression to made-up people, each with 20 rows or, if visits is set, with
// 1 to 20, k with probability proportional to 1/k as of visits to a place. The guarantee is (ε,
// 1/n²) for a person who is added or removed: by all rows of persons, by one random row of each
// person, or by all rows as records at the budget that group privacy needs. The outcome is the log
// loss on 5000 other people of 20 rows each, of runs on each of several draws of the people, of
// five times as many below ε = 0.2, where the noise would hide small differences. Columns are σ per
// unit of weight of a person, in the mean; the number of rows of a person in the certificate, 0 for
// records; and the mean difference to persons with its standard error, that of the means of the
// draws.
//
// All methods and all ε draw the noise of a run from one stream, not from that of package sweep: at
// a small ε, differences between methods would be lost in noise of their own.
func Persons(seed uint64, visits bool, people, draws, runs int, epsilons ...float64) (*sweep.Experiment, error) {
	test := drawPeople(noise.Reproducible(seed, "persons", "test"), 5000, false)
	all := make([]*crowd, draws)
	for i := range all {
		p := drawPeople(noise.Reproducible(seed, "persons", "train", strconv.Itoa(i)), people, visits)
		all[i] = &crowd{persons: p, problems: map[string]*erm.Problem{}}
		for _, method := range []string{allRows, asGroups} {
			q, err := p.problem(method, nil)
			if err != nil {
				return nil, err
			}
			all[i].problems[method] = q
		}
		whole := splitting.Problem{F: all[i].problems[asGroups].Perturb(erm.Perturbation{})}
		best, err := splitting.Minimize(context.Background(), whole, make([]float64, len(truth)), nil)
		if err != nil {
			return nil, err
		}
		all[i].least = test.logLoss(best.X)
	}
	var mu sync.Mutex
	bases := map[float64]func() (measurement, error){} // of persons, with whom all methods are compared
	return &sweep.Experiment{
		Name: "persons", Sweep: "eps", Values: epsilons, Methods: []string{allRows, oneRow, asGroups, exactFit},
		Params:     map[string]any{"runs": runs, "draws": draws, "people": people, "visits": visits, "draw": seed},
		NotPrivate: "one fit has no noise",
		Columns:    []sweep.Column{column("sigma"), column("rows"), column("over"), column("over_stderr")},
		Prepare: func(ctx context.Context, c sweep.Cell) (sweep.Task, error) {
			b := dp.Budget{Epsilon: c.Value, Delta: 1 / (float64(people) * float64(people))}
			if err := b.Check(); err != nil {
				return sweep.Task{}, err
			}
			runs := runs
			if c.Value < 0.2 {
				runs *= 5
			}
			mu.Lock()
			if bases[c.Value] == nil {
				bases[c.Value] = sync.OnceValues(func() (measurement, error) {
					return measure(ctx, all, allRows, b, test, runs, seed)
				})
			}
			base := bases[c.Value]
			mu.Unlock()
			var own, before measurement
			at := 0
			return sweep.Task{
				Runs: draws * runs,
				Run: func(context.Context, rand.Source) (l float64, err error) {
					if at == 0 {
						if before, err = base(); err != nil {
							return 0, err
						}
						if own = before; c.Method != allRows {
							if own, err = measure(ctx, all, c.Method, b, test, runs, seed); err != nil {
								return 0, err
							}
						}
					}
					at++
					return own.losses[at-1], nil
				},
				Detail: func() any {
					if c.Method == exactFit {
						return nil
					}
					over := make([]float64, draws)
					for i, l := range own.losses {
						over[i/runs] += (l - before.losses[i]) / float64(runs)
					}
					mean, std := stat.MeanStdDev(over, nil)
					shown := details{"over": mean, "over_stderr": std / math.Sqrt(float64(draws))}
					maps.Copy(shown, own.shown)
					return shown
				},
			}, nil
		},
	}, nil
}

// crowd is one draw of the people, with its problems of all rows and the loss without noise.
type crowd struct {
	persons
	problems map[string]*erm.Problem
	least    float64
}

// measurement holds the log losses of all runs of a method, draw by draw, and numbers of its plan.
type measurement struct {
	losses []float64
	shown  details
}

// measure fits by a method with budget b for a person, and takes the losses on test.
func measure(
	ctx context.Context, all []*crowd, method string, b dp.Budget, test persons, runs int, seed uint64,
) (out measurement, err error) {
	if method == exactFit {
		for _, p := range all {
			out.losses = append(out.losses, slices.Repeat([]float64{p.least}, runs)...)
		}
		return out, nil
	}
	first, weight := all[0].problems[method], 1.0
	switch method {
	case asGroups:
		b, weight = forGroups(b, mostRows), float64(first.Records)/float64(all[0].people())
	case oneRow: // declared numbers do not depend on the rows that are drawn: one plan is for all
		if first, err = all[0].problem(method, noise.Reproducible(0)); err != nil {
			return out, err
		}
	}
	plan, err := (&lop.Mechanism{Relation: dp.AddRemove, Radius: 10}).Plan(first, b)
	if err != nil {
		return out, err
	}
	out.shown = details{"sigma": plan.Params().Sigma / weight, "rows": float64(plan.Certificate().Rows)}
	for i, p := range all {
		for run := range runs {
			label := fmt.Sprint(seed, i, run)
			drawn := p.problems[method]
			if method == oneRow {
				if drawn, err = p.problem(method, noise.Reproducible(0, "persons", "rows", label)); err != nil {
					return out, err
				}
			}
			release, err := plan.Fit(ctx, drawn, noise.Reproducible(0, "persons", "noise", label))
			if err != nil {
				return out, err
			}
			out.losses = append(out.losses, test.logLoss(release.Theta))
		}
	}
	return out, nil
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

// persons are made-up people: the rows of one are neighbors, in rows[start[i]:start[i+1]].
type persons struct {
	rows   [][]float64
	labels []float64
	start  []int
	each   float64 // rows of a person that are expected
}

func (p persons) people() int { return len(p.start) - 1 }

// drawPeople draws n people. A label is 1 with the odds exp(⟨a,θ⟩ + u), where u ~ N(0,1) is the
// effect of the person, else −1; rows are [1, x]/√6 with x uniform in [−1, 1]. A person has 20 rows
// or, if visits is set, k ≤ 20 with probability proportional to 1/k.
func drawPeople(src rand.Source, n int, visits bool) persons {
	rnd, scale := rand.New(src), 1/math.Sqrt(float64(len(truth)))
	harmonic := 0.0
	for k := range mostRows {
		harmonic += 1 / float64(k+1)
	}
	p := persons{start: []int{0}, each: mostRows}
	if visits {
		p.each = mostRows / harmonic
	}
	for range n {
		effect, kept := rnd.NormFloat64(), []float64{1, 2*rnd.Float64() - 1, 2*rnd.Float64() - 1}
		rows := mostRows
		if visits {
			left := harmonic * rnd.Float64()
			for rows = 1; rows < mostRows && left > 1/float64(rows); rows++ {
				left -= 1 / float64(rows)
			}
		}
		for range rows {
			row, u := make([]float64, len(truth)), effect
			label := -1.0
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
		p.start = append(p.start, len(p.rows))
	}
	return p
}

// problem is the regression of a method, of oneRow on a row of each person that src draws. The
// number of records that it declares is the expected one.
func (p persons) problem(method string, src rand.Source) (*erm.Problem, error) {
	b, err := erm.NewBuilder(len(truth), false, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	q := &erm.Problem{Loss: loss.Logistic{}, Records: p.people()}
	for i, start := range p.start[:p.people()] {
		end := p.start[i+1]
		if method == oneRow {
			start += rand.New(src).IntN(end - start)
			end = start + 1
		}
		for k := start; k < end; k++ {
			b.Add(p.rows[k], p.labels[k])
			b.ID(strconv.Itoa(i))
		}
	}
	switch method {
	case allRows:
		q.Data, err = b.ByPerson(context.Background(), erm.Persons{Rows: mostRows})
		return q, err
	case asGroups:
		q.Records = int(math.Round(p.each * float64(p.people())))
	}
	q.Data = b.Data()
	return q, nil
}

// logLoss is the mean loss at theta of all rows.
func (p persons) logLoss(theta []float64) float64 {
	sum := 0.0
	for i, row := range p.rows {
		sum += loss.Logistic{}.Func(theta, row, p.labels[i])
	}
	return sum / float64(len(p.rows))
}
