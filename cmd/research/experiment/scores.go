// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// A scoreLaw is a law of records or persons to score: a share of positives, normal scores sep
// apart, and log odds that are those of Bayes times a confidence.
type scoreLaw struct {
	name                       string
	positives, sep, confidence float64
	lines                      int  // most lines of a person, 0 for records
	pairs                      bool // of two models, the second of which sees the score with an error
}

var scoreLaws = []scoreLaw{
	{name: "25 %", positives: 0.25, sep: 1.6, confidence: 1},
	{name: "5 %", positives: 0.05, sep: 2.5, confidence: 1},
	{name: "50 %, overconfident", positives: 0.5, sep: 1, confidence: 1.7},
	{name: "pairs", positives: 0.25, sep: 1.6, confidence: 1, pairs: true},
	{name: "persons of 1 to 10 lines", positives: 0.25, sep: 1.6, confidence: 1, lines: 10},
	{name: "pairs, persons of 1 to 10 lines", positives: 0.25, sep: 1.6, confidence: 1, lines: 10, pairs: true},
}

// scoreSettings are numbers of records and ε, or of persons.
var (
	scoreSettings       = []scoreSetting{{1000, 1}, {3000, 0.1}, {3000, 1}, {16000, 0.1}, {16000, 0.3}, {100000, 0.1}}
	scorePersonSettings = []scoreSetting{{1000, 1}, {3000, 0.3}, {3000, 1}, {3000, 3}}
)

type scoreSetting struct {
	n   int
	eps float64
}

// Scores counts how often the intervals of private scores hold the values of the law that the
// records or persons come from, which so many lines as truth give. The swept quantity is the number
// of a setting of n and ε, the outcome the share over all metrics that are shown. Columns are, of
// each metric, the coverage, the mean standard error and its sampling part, the deviation of the
// values, and the share of runs that show it. There are fewer runs, most, of 100,000 records.
func Scores(persons bool, runs, most, truth int) *sweep.Experiment {
	settings := scoreSettings
	if persons {
		settings = scorePersonSettings
	}
	e := &sweep.Experiment{Name: "scores", Sweep: "setting",
		Params:  map[string]any{"persons": persons, "runs": runs, "of 100000": most, "truth": truth},
		Columns: []sweep.Column{column("n"), column("eps")}}
	for i := range settings {
		e.Values = append(e.Values, float64(i+1))
	}
	for _, name := range []string{"accuracy", "balanced", "AUC", "log loss"} {
		for _, what := range []string{"coverage", "se", "sampling", "sd", "shown"} {
			e.Columns = append(e.Columns, column(name+" "+what))
		}
	}
	laws := map[string]scoreLaw{}
	for _, l := range scoreLaws {
		if l.lines > 0 != persons {
			continue
		}
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			method := fmt.Sprintf("%s, %v", l.name, rel)
			laws[method] = l
			e.Methods = append(e.Methods, method)
		}
	}
	e.Prepare = func(ctx context.Context, c sweep.Cell) (sweep.Task, error) {
		l, s := laws[c.Method], settings[int(c.Value)-1]
		m, err := scoredModel(l.lines)
		if err != nil {
			return sweep.Task{}, err
		}
		want := l.truth(truth)
		o := score.Options{Relation: dp.AddRemove, Records: s.n}
		if c.Method == fmt.Sprintf("%s, %v", l.name, dp.Replace) {
			o.Relation = dp.Replace
		}
		if l.pairs {
			o.Against = m.second
		}
		shown := details{"n": float64(s.n), "eps": s.eps}
		values := map[string][]float64{}
		n := runs
		if s.n == 100000 {
			n = most
		}
		return sweep.Task{
			Runs: n,
			Run: func(ctx context.Context, src rand.Source) (float64, error) {
				rnd := rand.New(src)
				set, err := m.testSet(ctx, l, rnd, s.n)
				if err != nil {
					return 0, err
				}
				o := o
				o.Source = noise.Reproducible(rnd.Uint64(), "scores")
				plan, err := score.NewPlan(m.first, dp.Budget{Epsilon: s.eps, Delta: model.DefaultDelta(s.n)}, &o)
				if err != nil {
					return 0, err
				}
				got, err := plan.Score(ctx, set)
				if err != nil {
					return 0, err
				}
				hits, all := 0.0, 0.0
				for name, truth := range want {
					long := name
					if l.pairs {
						long += " difference"
					}
					v, ok := got.Metric(long)
					if !ok {
						continue
					}
					hit := 0.0
					if v.Interval[0] <= truth && truth <= v.Interval[1] {
						hit = 1
					}
					hits, all = hits+hit, all+1
					shown[name+" coverage"] += hit
					shown[name+" se"] += v.StdErr
					shown[name+" sampling"] += v.Sampling
					values[name] = append(values[name], v.Value)
				}
				return hits / max(all, 1), nil
			},
			Detail: func() any {
				out := details{"n": shown["n"], "eps": shown["eps"]}
				for name, v := range values {
					k := float64(len(v))
					for _, what := range []string{"coverage", "se", "sampling"} {
						out[name+" "+what] = shown[name+" "+what] / k
					}
					mean, squares := 0.0, 0.0
					for _, x := range v {
						mean += x / k
					}
					for _, x := range v {
						squares += (x - mean) * (x - mean)
					}
					out[name+" sd"], out[name+" shown"] = math.Sqrt(squares/max(k-1, 1)), k/float64(n)
				}
				return out
			},
		}, nil
	}
	return e
}

// scoreLine is a line with the log odds by two models.
type scoreLine struct{ first, second, label float64 }

// unit draws the lines of a record or a person. All lines of a person have one label, and half of
// the variance of the score is the same in all of them.
func (l scoreLaw) unit(rnd *rand.Rand, dst []scoreLine) []scoreLine {
	label, lines := -1.0, 1
	own, rest := 0.0, 1.0
	if rnd.Float64() < l.positives {
		label = 1
	}
	if l.lines > 0 {
		lines, rest = 1+rnd.IntN(l.lines), math.Sqrt(0.5)
		own = rest * rnd.NormFloat64()
	}
	odds := math.Log(l.positives / (1 - l.positives))
	for range lines {
		s := l.sep*label/2 + own + rest*rnd.NormFloat64()
		o := scoreLine{first: l.confidence * (l.sep*s + odds), label: label}
		if l.pairs {
			o.second = l.sep/1.25*(s+0.5*rnd.NormFloat64()) + odds
		}
		dst = append(dst, o)
	}
	return dst
}

// truth returns the metrics of n lines, each of a person of its own: lines of a person have the
// same law.
func (l scoreLaw) truth(n int) map[string]float64 {
	rnd := rand.New(noise.Reproducible(1, "scores", "truth", l.name))
	if l.lines > 0 {
		l.lines = 1
	}
	count, right := [2]float64{}, [2]float64{}
	better, loss := 0.0, 0.0
	scores := [2][]float64{}
	var lines []scoreLine
	for range n {
		lines = l.unit(rnd, lines[:0])
		z, y := lines[0].first, 0
		if lines[0].label > 0 {
			y = 1
		}
		correct := (z >= 0) == (y == 1)
		lost := min(math.Log1p(math.Exp(-lines[0].label*z)), math.Log(100))
		if l.pairs {
			second := (lines[0].second >= 0) == (y == 1)
			switch {
			case correct && !second:
				better++
			case second && !correct:
				better--
			}
			other := min(math.Log1p(math.Exp(-lines[0].label*lines[0].second)), math.Log(100))
			loss += min(max(lost-other, -1), 1)
			continue
		}
		loss += lost
		count[y]++
		if correct {
			right[y]++
		}
		scores[y] = append(scores[y], z)
	}
	if l.pairs {
		return map[string]float64{"accuracy": better / float64(n), "log loss": loss / float64(n)}
	}
	slices.Sort(scores[0])
	slices.Sort(scores[1])
	wins, below := 0.0, 0
	for _, z := range scores[1] {
		for below < len(scores[0]) && scores[0][below] < z {
			below++
		}
		wins += float64(below)
	}
	return map[string]float64{"accuracy": (right[0] + right[1]) / float64(n),
		"balanced": (right[0]/count[0] + right[1]/count[1]) / 2, "AUC": wins / (count[0] * count[1]),
		"log loss": loss / float64(n)}
}

// scorers are two models of two features, which are their log odds by a factor.
type scorers struct {
	first, second *model.Model
}

// scoredModel fits the models to lines that two classes separate, so that their log odds reach far
// beyond those of the laws.
func scoredModel(lines int) (scorers, error) {
	var s scorers
	for k, m := range []**model.Model{&s.first, &s.second} {
		b, err := erm.NewBuilder(2, false, loss.Bounds{Row: 1, Label: 1})
		if err != nil {
			return s, err
		}
		for i := range 4000 {
			row, label := []float64{0, 0}, float64(1-i%2*2)
			row[k] = label / 5
			b.Add(row, label)
			b.ID(strconv.Itoa(i))
		}
		var data *erm.Data
		if lines > 0 {
			data, err = b.ByPerson(context.Background(), erm.Persons{Rows: lines})
		} else {
			data = b.Data()
		}
		if err != nil {
			return s, err
		}
		*m, err = model.Fit(context.Background(), &table.Data{Records: data}, dp.Budget{Epsilon: 1e4, Delta: 1e-3},
			&model.Options{Loss: model.Loss{Name: model.Logistic}, Radius: 100, Relation: dp.AddRemove, Records: 4000,
				Source: noise.Reproducible(1, "scores", strconv.Itoa(k))})
		if err != nil {
			return s, err
		}
	}
	if min(s.first.Theta()[0], s.second.Theta()[1]) < 20 {
		return s, errors.New("experiment: a model to score is not steep")
	}
	return s, nil
}

// row returns the features with the log odds of a line.
func (s scorers) row(o scoreLine) []float64 {
	a, b := s.first.Theta(), s.second.Theta()
	det := a[0]*b[1] - a[1]*b[0]
	return []float64{(o.first*b[1] - o.second*a[1]) / det, (o.second*a[0] - o.first*b[0]) / det}
}

// testSet draws the sums of n records or persons.
func (s scorers) testSet(ctx context.Context, l scoreLaw, rnd *rand.Rand, n int) (*score.TestSet, error) {
	b, err := erm.NewBuilder(2, false, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	var lines []scoreLine
	for i := range n {
		lines = l.unit(rnd, lines[:0])
		for _, o := range lines {
			b.Add(s.row(o), o.label)
			if l.lines > 0 {
				b.ID(strconv.Itoa(i))
			}
		}
	}
	var data *erm.Data
	if l.lines > 0 {
		data, err = b.ByPerson(ctx, erm.Persons{Rows: l.lines})
	} else {
		data = b.Data()
	}
	if err != nil {
		return nil, err
	}
	var against *model.Model
	if l.pairs {
		against = s.second
	}
	return score.Read(ctx, s.first, &table.Data{Records: data}, against)
}
