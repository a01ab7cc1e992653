// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// made returns a model of the given parameters without a fit, as Load reads it. The schema
// may be nil.
func made(t testing.TB, name string, theta []float64, b loss.Bounds, s *table.Schema, rows int) *model.Model {
	t.Helper()
	cost := dp.Budget{Epsilon: 1, Delta: 1e-6}
	defaults := map[string]float64{model.SVM: 0.5, model.PseudoHuber: 0.25, model.Quantile: 0.1}
	l := model.Loss{Name: name, Parameter: defaults[name]}
	if name == model.Quantile {
		l.Order = 0.5
	}
	release := lop.Params{Budget: cost, Relation: dp.Replace, Dim: len(theta), Rows: rows, Theorem: "lop.scalar/1"}
	file := map[string]any{
		"model": 1, "theta": theta, "description": "", "build": struct{}{}, "schema": s,
		"certificate": dp.Certificate{Budget: cost, Relation: dp.Replace, Theorem: release.Theorem, Rows: rows},
		"plan": model.Params{Loss: l, Relation: dp.Replace, Budget: cost, Dim: len(theta), MaxRecords: 1, Rows: rows,
			Bounds: b, Release: &release},
	}
	if s != nil {
		e, err := s.Encoder()
		require.NoError(t, err)
		file["coefficients"] = e.Coefficients(theta)
	}
	text, err := json.Marshal(file)
	require.NoError(t, err)
	m, err := model.Load(bytes.NewReader(text))
	require.NoError(t, err)
	return m
}

// unfitted returns a model of every kind of label without a fit: the blocks do not depend on θ.
func unfitted(t testing.TB, name string, classes int) *model.Model {
	return ofPersons(t, name, classes, 0)
}

// ofPersons is a model without a fit, of persons with up to rows lines.
func ofPersons(t testing.TB, name string, classes, rows int) *model.Model {
	theta, b := []float64{1, -1}, loss.Bounds{Row: 1, Label: 1}
	if name == model.Multinomial {
		theta, b.Label = make([]float64, 2*classes), float64(classes-1)
	}
	return made(t, name, theta, b, nil, rows)
}

// TestScoreScales compares the noise scales with testdata/score.json: never below, at most 1e-6
// above.
func TestScoreScales(t *testing.T) {
	raw, err := os.ReadFile("testdata/score.json")
	require.NoError(t, err)
	var rows []map[string]string
	require.NoError(t, json.Unmarshal(raw, &rows))
	require.Len(t, rows, 20)
	for _, row := range rows {
		value := func(key string) float64 {
			v, err := strconv.ParseFloat(row[key], 64)
			require.NoError(t, err, key)
			return v
		}
		var rel dp.Relation
		require.NoError(t, rel.UnmarshalText([]byte(row["relation"])))
		b := dp.Budget{Epsilon: value("epsilon"), Delta: value("delta")}
		two, number := unfitted(t, model.Logistic, 2), unfitted(t, model.Squares, 0)
		check := func(m *model.Model, o Options, keys ...string) {
			o.Relation, o.Records = rel, 1e7
			p, err := NewPlan(m, b, &o)
			require.NoError(t, err)
			require.GreaterOrEqual(t, p.shift, value("mu")*(1-1e-6))
			sum := 0.0
			for i, k := range p.Params().Blocks {
				want := value(keys[i])
				require.GreaterOrEqual(t, k.Sigma, want, keys[i])
				require.InEpsilon(t, want, k.Sigma, 1e-6, keys[i])
				sum += k.Sensitivity * k.Sensitivity / (k.Sigma * k.Sigma)
			}
			require.LessOrEqual(t, math.Sqrt(sum), p.shift)
			require.LessOrEqual(t, p.Profile().Delta(b.Epsilon), b.Delta*(1+1e-9)) // rounding of the check
		}
		check(two, Options{}, "sigmaConfusion", "sigmaScores", "sigmaLoss")
		check(two, Options{AccuracyOnly: true}, "sigmaOnly")
		check(two, Options{Against: two}, "sigmaPaired", "sigmaPairedLoss")
		check(number, Options{}, "sigmaErrors", "sigmaCapped", "sigmaLabel")
	}
}

// contributions returns those of records of every kind that could matter, for brute force over
// pairs.
func contributions(t *testing.T, m, against *model.Model, only bool, rel dp.Relation) map[string][][]int64 {
	var hostile []model.Prediction
	of := scoredBy(m)
	for _, v := range []float64{0, 1e-300, 0.0005, 0.002, 0.005, 0.015, 0.03, 0.07, 0.12, 0.17, 0.22, 0.27, 0.35, 0.45,
		0.5,
		0.55, 0.65, 0.72, 0.77, 0.82, 0.87, 0.92, 0.97, 0.985, 0.995, 0.998, 0.9995, 1, math.NaN()} {
		p := model.Prediction{Score: 2*v - 1}
		if of.loss == model.Logistic || of.loss == model.Multinomial {
			p.Probabilities = []float64{1 - v, v}
			for len(p.Probabilities) < of.classes() {
				p.Probabilities = append(p.Probabilities, 0)
			}
		}
		if of.loss == model.Multinomial && v >= 0.5 {
			p.Class = 1
		}
		hostile = append(hostile, p)
	}
	for _, v := range []float64{math.Inf(1), math.Inf(-1), -1e300} {
		hostile = append(hostile, model.Prediction{Score: v, Probabilities: hostile[0].Probabilities})
	}
	out := map[string][][]int64{}
	var p *Plan
	for _, a := range hostile {
		for j, b := range hostile {
			if against == nil && j > 0 {
				break
			}
			for _, label := range []float64{-1, 0, 0.3, 1, float64(of.classes() - 1), math.NaN(), math.Inf(1)} {
				set, err := newTestSet(t.Context(), m, against)
				require.NoError(t, err)
				set.add(a, b, label)
				if p == nil {
					p, err = NewPlan(m, dp.Budget{Epsilon: 50, Delta: 0.1},
						&Options{Relation: rel, Records: 1000, Against: against, AccuracyOnly: only})
					require.NoError(t, err)
				}
				for c := range sizes {
					if of.loss != model.Squares && c > 0 {
						break
					}
					d := &drawn{p: p, t: set, cap: c}
					for _, k := range p.blocks {
						out[k.Name] = append(out[k.Name], d.sums(k.Name))
					}
				}
			}
		}
	}
	return out
}

// TestScoreSensitivity: the largest distance of the contributions of two records, or of one record
// and none, is the sensitivity that the plan declares, for every block and both relations, with
// probabilities and labels of every kind.
func TestScoreSensitivity(t *testing.T) {
	two, svm := unfitted(t, model.Logistic, 2), unfitted(t, model.SVM, 2)
	five, number := unfitted(t, model.Multinomial, 5), unfitted(t, model.Squares, 0)
	for _, c := range []struct {
		m, against *model.Model
		only       bool
	}{{two, nil, false}, {two, nil, true}, {two, two, false}, {svm, nil, false}, {svm, svm, false}, {five, nil, false},
		{five, nil, true}, {number, nil, false}, {number, number, false}} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			p, err := NewPlan(c.m, dp.Budget{Epsilon: 50, Delta: 0.1},
				&Options{Relation: rel, Records: 1000, Against: c.against, AccuracyOnly: c.only})
			require.NoError(t, err)
			for name, all := range contributions(t, c.m, c.against, c.only, rel) {
				k := p.block(name)
				step := math.Ldexp(1, k.exponent)
				largest := 0.0
				seen := map[string]bool{}
				var distinct [][]int64
				for _, v := range all {
					key := ""
					for _, x := range v {
						key += strconv.FormatInt(x, 36) + ","
					}
					if !seen[key] {
						seen[key] = true
						distinct = append(distinct, v)
					}
				}
				if rel == dp.AddRemove {
					distinct = append(distinct[:len(distinct):len(distinct)], make([]int64, len(all[0])))
				}
				for i, v := range distinct {
					for _, w := range distinct[:i] {
						if rel == dp.AddRemove {
							w = distinct[len(distinct)-1]
						}
						largest = max(largest, distance(v, w)*step)
					}
				}
				if rel == dp.AddRemove {
					largest = 0
					for _, v := range distinct {
						largest = max(largest, distance(v, make([]int64, len(v)))*step)
					}
				}
				require.LessOrEqual(t, largest, k.Sensitivity, "%s, %v", name, rel)
				require.InEpsilon(t, k.Sensitivity, largest, 1e-5, "%s, %v: attained up to rounding", name, rel)
			}
		}
	}
}

func distance(v, w []int64) float64 {
	sum := 0.0
	for i := range v {
		sum += float64(v[i]-w[i]) * float64(v[i]-w[i])
	}
	return math.Sqrt(sum)
}
