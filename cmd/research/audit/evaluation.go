// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// scoring is a private score of one model on either of two neighboring test sets: 1200 records in
// common, and one that goes from the lowest cell of the negatives to the same cell of the
// positives, or that is there or not. Its contributions attain the distance of every block. If rows
// is positive, the records are lines of 241 persons, of which at most rows count, and one more
// person has as many lines of that record.
type scoring struct {
	relation dp.Relation
	rows     int
}

// scorers are models of records and of persons with up to 4 lines, by the number of lines: of one
// feature in [−1, 1], with log odds at the ends that are far beyond the clip of the loss.
var scorers = map[int]func() (*model.Model, error){
	0: sync.OnceValues(func() (*model.Model, error) { return scorer(`, {"name": "who", "ignore": true}]`) }),
	4: sync.OnceValues(func() (*model.Model, error) { return scorer(`], "person": "who", "rows": 4`) }),
}

func scorer(persons string) (*model.Model, error) {
	schema, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "label": {"column": "y", "positive": ["1"],
		"negative": ["0"]}, "columns": [{"name": "x", "min": -1, "max": 1}` + persons + `}`))
	if err != nil {
		return nil, err
	}
	text := "x,y,who\n"
	for i := range 2000 {
		text += fmt.Sprintf("0.1,1,a%d\n-0.1,0,b%[1]d\n", i)
	}
	data, err := table.ReadCSV(strings.NewReader(text), schema)
	if err != nil {
		return nil, err
	}
	return model.Fit(context.Background(), data, dp.Budget{Epsilon: 1e4, Delta: 1e-3},
		&model.Options{Source: noise.Reproducible(1, "audit"), Radius: 100})
}

// records returns the records of either data set, and whose they are.
func (c scoring) records(i int) (list []record, ids []string) {
	add := func(x, y float64, id int) {
		list, ids = append(list, record{[]float64{x}, y}), append(ids, fmt.Sprint(id))
	}
	for k := range 1200 {
		add(float64(k%25)/12-1, float64(2*(k%3/2)-1), k%241) // 4 or 5 lines of a person, of both classes
	}
	for range max(1, c.rows) {
		switch {
		case i == 0:
			add(-1, 1, -1)
		case c.relation == dp.Replace:
			add(-1, -1, -1)
		}
	}
	return list, ids
}

// expected returns the sums of the three blocks, from their definitions.
func (c scoring) expected(m *model.Model, i int) [][]float64 {
	edges := []float64{.001, .003, .01, .02, .05, .1, .15, .2, .25, .3, .4, .5, .6, .7, .75, .8, .85, .9, .95, .98, .99,
		.997,
		.999}
	list, ids := c.records(i)
	units := map[string]*contribution{}
	if c.rows == 0 {
		for k := range ids { // each record is a unit
			ids[k] = fmt.Sprint(k)
		}
	}
	w := &crowd{Persons: erm.Persons{Rows: max(1, c.rows), Column: "who"}, ids: [2][]string{ids, ids}}
	kept, weights, owners := w.counted(i, list)
	total := &contribution{}
	for k, r := range kept {
		if units[owners[k]] == nil {
			units[owners[k]] = &contribution{}
		}
		u := units[owners[k]]
		p, y := m.Predict(r.a).Probabilities, 0
		if r.b > 0 {
			y = 1
		}
		cell, predicted := 0, 0
		for cell < len(edges) && p[1] >= edges[cell] {
			cell++
		}
		if p[1] >= 0.5 {
			predicted = 1
		}
		u.counts[2*y+predicted] += weights[k]
		root := 1.0 // of prefix sums: the coefficients of (1−x)^{−1/2}
		for k2 := cell; k2 < 24; k2++ {
			total.chains[24*y+k2] += weights[k] * math.Round(root*(1<<20)) / (1 << 20)
			root *= float64(2*(k2-cell)+1) / float64(2*(k2-cell)+2)
		}
		u.loss += weights[k] * math.Round(min(-math.Log(p[y]), math.Log(100))/math.Log(100)*(1<<20)) / (1 << 20)
	}
	var pairs [6]float64
	bend := 0.0
	for _, u := range units {
		at := 0
		for a, x := range u.counts {
			total.counts[a] += x
			for _, y := range u.counts[a+1:] {
				pairs[at] += 2.75 * x * y
				at++
			}
		}
		total.loss += u.loss
		bend += 2.75 * u.loss * (1 - u.loss)
	}
	if c.rows == 0 {
		return [][]float64{total.counts[:], total.chains[:], {total.loss}}
	}
	return [][]float64{append(total.counts[:], pairs[:]...), total.chains[:], {total.loss, bend}}
}

// contribution is what a record or a person adds.
type contribution struct {
	counts [4]float64
	chains [48]float64
	loss   float64
}

// scales returns the noise scales of the three blocks, from their definitions.
func (c scoring) scales(b dp.Budget) []float64 {
	unit, norm := gaussianScale(b, 1), 0.0
	root := 1.0
	for k := range 24 {
		norm += root * root
		root *= float64(2*k+1) / float64(2*k+2)
	}
	one := 1.0
	if c.relation == dp.Replace {
		one = math.Sqrt2
	}
	return []float64{unit * one / math.Sqrt(0.45), unit * one * math.Sqrt(norm/0.35), unit / math.Sqrt(0.2)}
}

// white compares released sums with those of the records.
func (c scoring) white(ctx context.Context, e *env) (Finding, error) {
	m, err := scorers[c.rows]()
	if err != nil {
		return Finding{}, err
	}
	if p := m.Predict([]float64{-1}).Probabilities[1]; p >= 0.001 {
		return Finding{}, fmt.Errorf("audit: the model is not steep: p = %v", p)
	}
	b := dp.Budget{Epsilon: 0.1, Delta: 1e-6}
	if c.rows > 0 {
		b.Epsilon = 1 // there are fewer persons
	}
	var sets [2]*score.TestSet
	var sums [2][][]float64
	scales := c.scales(b)
	for i := range sets {
		list, ids := c.records(i)
		w := &crowd{Persons: erm.Persons{Rows: c.rows, Column: "who"}, ids: [2][]string{ids, ids}}
		bounds := loss.Bounds{Row: 1, Label: 1}
		p, err := problem(list, bounds, loss.Logistic{}, free)
		if c.rows > 0 {
			p, err = w.problem(ctx, i, list, bounds, loss.Logistic{}, free)
		}
		if err != nil {
			return Finding{}, err
		}
		if sets[i], err = score.Read(ctx, m, &table.Data{Records: p.Data, Encoder: m.Encoder()}, nil); err != nil {
			return Finding{}, err
		}
		sums[i] = c.expected(m, i)
	}
	side := 0
	release := func(ctx context.Context, src rand.Source) (*score.Scores, error) {
		side = 1 - side
		o := &score.Options{Relation: c.relation, Source: src}
		if c.relation == dp.Replace {
			o.Records = sets[side].Records()
		}
		plan, err := score.NewPlan(m, b, o)
		if err != nil {
			return nil, err
		}
		return plan.Score(ctx, sets[side])
	}
	first, err := release(ctx, e.source("claim"))
	if err != nil {
		return Finding{}, err
	}
	if err := asFor(first.Certificate, b, c.relation); err != nil {
		return Finding{}, err
	}
	return recovered(ctx, e, first.Certificate, e.few(53), func(ctx context.Context, src rand.Source) ([]float64, error) {
		s, err := release(ctx, src)
		if err != nil {
			return nil, err
		}
		var z []float64
		for k, block := range s.Blocks {
			for j, v := range block.Values {
				z = append(z, (v-sums[side][k][j])/scales[k])
			}
		}
		return z, nil
	})
}

// scaledBlocks is a sabotage that multiplies the noise scales of the blocks.
func scaledBlocks(by ...float64) sabotage {
	return one(fault.ScoreSigmas, func(v []float64) []float64 {
		for i := range v {
			v[i] *= by[i]
		}
		return v
	})
}

func scoreMechanisms() []mechanism {
	half := math.Sqrt(0.5)
	return []mechanism{{
		name: "score",
		cases: []Case{
			{Name: "A1/two classes", Pair: "A1", Layer: WhiteBox, run: scoring{dp.Replace, 0}.white},
			{Name: "A2/two classes", Pair: "A2", Layer: WhiteBox, run: scoring{dp.AddRemove, 0}.white},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, run: scoring{dp.Replace, 4}.white},
			{Name: "A14/persons, one missing", Pair: "A14", Layer: WhiteBox, run: scoring{dp.AddRemove, 4}.white},
		},
		controls: []Control{
			{"score-loss", "a log loss that is not clipped", "score/A1/two classes", 0, one(fault.LossClip, always(1000.0))},
			{"score-chain", "the norm of one column for the distance of two chains", "score/A1/two classes", 0,
				scaledBlocks(1, half, 1)},
			{"score-relation", "the scales of an added record for a replaced one", "score/A1/two classes", 0,
				scaledBlocks(half, half, 1)},
			{"score-lines", "a person counts once for each of its lines", "score/A14/persons", 0,
				one(fault.PersonLines, always(int64(1)))},
			{"score-squares", "second moments at a factor of 3, beyond the root of 8", "score/A14/persons", 0,
				one(fault.BendFactor, always(int64(12)))},
		},
	}}
}
