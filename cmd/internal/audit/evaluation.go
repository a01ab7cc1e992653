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
	"github.com/privopt/privopt/table"
)

// scoring is a private score of one model on either of two neighboring test sets: 1200 records in
// common, and one that goes from the lowest cell of the negatives to the same cell of the
// positives, or that is there or not. Its contributions attain the distance of every block.
type scoring struct{ relation dp.Relation }

// scorer is a model of one feature in [−1, 1] whose log odds at the ends are far beyond the clip of
// the loss.
var scorer = sync.OnceValues(func() (*model.Model, error) {
	schema, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "label": {"column": "y", "positive": ["1"],
		"negative": ["0"]}, "columns": [{"name": "x", "min": -1, "max": 1}]}`))
	if err != nil {
		return nil, err
	}
	data, err := table.ReadCSV(strings.NewReader("x,y\n"+strings.Repeat("0.1,1\n-0.1,0\n", 2000)), schema)
	if err != nil {
		return nil, err
	}
	return model.Fit(context.Background(), data, dp.Budget{Epsilon: 1e4, Delta: 1e-3},
		&model.Options{Source: noise.Reproducible(1, "audit"), Radius: 100})
})

// scoreRecord is a record of a test set.
type scoreRecord struct{ x, y float64 }

// rows returns the records of either data set.
func (c scoring) rows(i int) []scoreRecord {
	var rows []scoreRecord
	for k := range 1200 {
		rows = append(rows, scoreRecord{float64(k%25)/12 - 1, float64(2*(k%3/2) - 1)})
	}
	switch {
	case i == 0:
		return append(rows, scoreRecord{-1, 1})
	case c.relation == dp.Replace:
		return append(rows, scoreRecord{-1, -1})
	}
	return rows
}

// expected returns the sums of the three blocks, from their definitions.
func (c scoring) expected(m *model.Model, i int) [][]float64 {
	edges := []float64{.001, .003, .01, .02, .05, .1, .15, .2, .25, .3, .4, .5, .6, .7, .75, .8, .85, .9, .95, .98, .99,
		.997,
		.999}
	counts, chains, sum := make([]float64, 4), make([]float64, 48), 0.0
	for _, r := range c.rows(i) {
		p, y := m.Predict([]float64{r.x}).Probabilities, 0
		if r.y > 0 {
			y = 1
		}
		cell, predicted := 0, 0
		for cell < len(edges) && p[1] >= edges[cell] {
			cell++
		}
		if p[1] >= 0.5 {
			predicted = 1
		}
		counts[2*y+predicted]++
		root := 1.0 // of prefix sums: the coefficients of (1−x)^{−1/2}
		for k := cell; k < 24; k++ {
			chains[24*y+k] += math.Round(root*(1<<20)) / (1 << 20)
			root *= float64(2*(k-cell)+1) / float64(2*(k-cell)+2)
		}
		sum += math.Round(min(-math.Log(p[y]), math.Log(100))/math.Log(100)*(1<<20)) / (1 << 20)
	}
	return [][]float64{counts, chains, {sum}}
}

// scales returns the noise scales of the three blocks, from their definitions.
func (c scoring) scales(b dp.Budget) []float64 {
	unit, norm, root := gaussianScale(b, 1), 0.0, 1.0
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
	m, err := scorer()
	if err != nil {
		return Finding{}, err
	}
	if p := m.Predict([]float64{-1}).Probabilities[1]; p >= 0.001 {
		return Finding{}, fmt.Errorf("audit: the model is not steep: p = %v", p)
	}
	b := dp.Budget{Epsilon: 0.1, Delta: 1e-6}
	var sets [2]*model.TestSet
	var sums [2][][]float64
	scales := c.scales(b)
	for i := range sets {
		rows, labels := [][]float64{}, []float64{}
		for _, r := range c.rows(i) {
			rows, labels = append(rows, []float64{r.x}), append(labels, r.y)
		}
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
		if err != nil {
			return Finding{}, err
		}
		if sets[i], err = m.TestSet(ctx, &table.Data{Records: data, Encoder: m.Encoder()}, nil); err != nil {
			return Finding{}, err
		}
		sums[i] = c.expected(m, i)
	}
	side := 0
	release := func(ctx context.Context, src rand.Source) (*model.PrivateScores, error) {
		side = 1 - side
		o := &model.ScoreOptions{Relation: c.relation, Source: src}
		if c.relation == dp.Replace {
			o.Records = sets[side].Records()
		}
		plan, err := model.NewScorePlan(m, b, o)
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
			{Name: "A1/two classes", Pair: "A1", Layer: WhiteBox, run: scoring{dp.Replace}.white},
			{Name: "A2/two classes", Pair: "A2", Layer: WhiteBox, run: scoring{dp.AddRemove}.white},
		},
		controls: []Control{
			{"score-loss", "a log loss that is not clipped", "score/A1/two classes", 0, one(fault.LossClip, always(1000.0))},
			{"score-chain", "the norm of one column for the distance of two chains", "score/A1/two classes", 0,
				scaledBlocks(1, half, 1)},
			{"score-relation", "the scales of an added record for a replaced one", "score/A1/two classes", 0,
				scaledBlocks(half, half, 1)},
		},
	}}
}
