// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// extremes are the fields of hostile records.
var extremes = []string{"1e308", "-1e308", "0", "-0", "1", "-1", "?", "1e-320", "30", "-30"}

// bends change outputs such that clips, lengths, centers and scores come to the ends of their
// ranges.
var bends = []func(rnd *rand.Rand, terms []int64){
	func(*rand.Rand, []int64) {},
	func(_ *rand.Rand, terms []int64) { clear(terms) },
	func(rnd *rand.Rand, terms []int64) {
		for j := range terms {
			terms[j] += int64(rnd.NormFloat64() * math.Ldexp(1, rnd.IntN(50)))
		}
	},
	func(rnd *rand.Rand, terms []int64) {
		for j := range terms {
			terms[j] = (1 << 60) * int64(2*rnd.IntN(2)-1)
		}
	},
	func(rnd *rand.Rand, terms []int64) { // all records in one bin
		if len(terms) > 8 {
			clear(terms)
			terms[rnd.IntN(len(terms))] = 1 << 40
		}
	},
}

// TestAutomaticHostile checks the sensitivity of every single release, for neighbors that differ in
// hostile records or persons with many lines, among hostile others, whatever the outputs before.
func TestAutomaticHostile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for range testkit.Of(20, 60, 2000) {
		person := pick("", `"person": "who", "rows": 4,`, `"person": "who", "rows": 4, "weights": "rows",`)
		label := pick(`"min": -1, "max": 1`, `"min": 0, "max": 1`, `"positive": ["1"], "negative": ["0"]`)
		rel := []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)]
		ignored := `{"name": "who", "ignore": true},`
		if person != "" {
			ignored = ""
		}
		s := fmt.Sprintf(`{"schema": 1, "intercept": true, %s "records": 60, "neighbors": "%v", "missing": ["?"],
			"label": {"column": "y", %s}, "columns": [%s {"name": "x", "min": -30, "max": 30}, {"name": "z", "min": 0, "max": 5},
			{"name": "job", "levels": ["a", "b"], "other": true}]}`, person, rel, label, ignored)
		common := "who,x,z,job,y\n"
		hostile := func(who int) (text string) {
			lines := 1
			if person != "" {
				lines += rnd.IntN(8)
			}
			for range lines {
				y := strings.ReplaceAll(pick(extremes...), "?", "0.5")
				if strings.Contains(label, "positive") {
					y = pick("0", "1")
				}
				text += fmt.Sprintf("%d,%s,%s,%s,%s\n", who, pick(extremes...), pick(extremes...), pick("a", "b", "c"), y)
			}
			return text
		}
		for who := range 59 {
			if who%5 == 0 {
				common += hostile(who)
			} else {
				common += fmt.Sprintf("%d,%.3f,%.3f,a,%d\n", who, rnd.NormFloat64(), rnd.Float64(), rnd.IntN(2))
			}
		}
		texts := [2]string{common + hostile(100), common}
		if rel == dp.Replace {
			texts[1] += hostile(101)
		}
		var data [2]*erm.Data
		var pl *Plan
		for i, text := range texts {
			read := readTable(t, s, text)
			data[i] = read.Records
			if i == 0 {
				task, err := newTask(read, &Options{Relation: rel})
				require.NoError(t, err)
				pl, err = task.plan(dp.Budget{Epsilon: math.Exp(10*rnd.Float64() - 4), Delta: 1e-6})
				require.NoError(t, err)
				require.Equal(t, theoremGradients, pl.Certificate().Theorem)
			}
		}
		bend, from := bends[rnd.IntN(len(bends))], rnd.IntN(40)
		part := spent(t, pl, data, rnd.Uint64(), func(release int, terms []int64) {
			if release >= from {
				bend(rnd, terms)
			}
		})
		require.LessOrEqual(t, part/math.Pow(pl.params.Sequence.Mu, 2), 1.)
	}
}

// TestShareOfTheLastRelease: where labels lie near an end of their range, the last release has up
// to twice its share, and the steps have less. No share is left over.
func TestShareOfTheLastRelease(t *testing.T) {
	for _, c := range []struct{ label, least, most float64 }{{5, 1, 1.1}, {0.2, 1.8, 2}} {
		rnd := rand.New(rand.NewPCG(3, 4))
		text := "x,y\n"
		for range 3000 {
			text += fmt.Sprintf("%.3f,%.3f\n", rnd.Float64(), c.label+0.1*rnd.Float64())
		}
		data := readTable(t, `{"schema": 1, "intercept": true, "records": 3000, "neighbors": "add-remove", "label":
			{"column": "y", "min": 0, "max": 10}, "columns": [{"name": "x", "min": 0, "max": 1}]}`, text)
		task, err := newTask(data, &Options{Relation: dp.AddRemove})
		require.NoError(t, err)
		pl, err := task.plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
		require.NoError(t, err)
		f := pl.newGradientFit(t.Context(), data.Records, noise.Reproducible(1))
		require.NoError(t, f.run())
		require.GreaterOrEqual(t, f.finish/finishShare, c.least, "%v", c.label)
		require.LessOrEqual(t, f.finish/finishShare, c.most, "%v", c.label)
		require.InDelta(t, 0, f.left, 1e-9, "%v", c.label)
	}
}
