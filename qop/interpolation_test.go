// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// TestRules checks what each rule makes of each kind of record.
func TestRules(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0}, {0, 1}, {0.5, 0.5}, {1, 0}}, []float64{2, 0, 1.4, 0.1},
		loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	center := []float64{2, 3} // predictions 2, 3 (beyond the bound on labels), 2.5 (too), 2
	type pair [2]float64      // norm and label: Data keeps an order of its own
	labels := func(rule Interpolation, l loss.Loss, center []float64) (out []pair) {
		d := rule.rule().apply(data, l, center)
		n, _ := d.Dims()
		require.Equal(t, 4, n)
		for i := range n {
			out = append(out, pair{norm(d.Row(i)), d.Label(i)})
		}
		return out
	}
	half := math.Sqrt(0.5)
	require.ElementsMatch(t, []pair{{1, 2}, {0, 0}, {0, 0}, {1, 2}}, labels(Relabel{}, loss.Squared{}, center))
	require.ElementsMatch(t, []pair{{1, 2}, {0, 0}, {0, 0}, {0, 0}}, labels(Drop{Tolerance: 0.2}, loss.Squared{}, center))
	require.ElementsMatch(t, []pair{{1, 2}, {1, 0}, {half, 1.4}, {1, 0.1}}, labels(Trust{}, loss.Squared{}, center))
	close := []float64{1, 0.5} // predictions 1, 0.5, 0.75, 1
	require.ElementsMatch(t, []pair{{1, 1}, {1, 0.5}, {half, 0.75}, {1, 1}}, labels(Relabel{}, loss.Huber{Delta: 1},
		close))
	require.ElementsMatch(t, []pair{{0, 0}, {1, 0.5}, {half, 0.75}, {0, 0}}, labels(Drop{Tolerance: 0.7},
		loss.Huber{Delta: 1}, close))

	// After either rule every gradient vanishes at the anchor.
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Float64Range(-1, 1), 3, 3).Draw(t, "a")
		c := rapid.SliceOfN(rapid.Float64Range(-5, 5), 3, 3).Draw(t, "center")
		b := rapid.Float64Range(-9, 9).Draw(t, "b")
		d, err := erm.NewData([][]float64{a}, []float64{b}, loss.Bounds{Row: 1, Label: 4})
		require.NoError(t, err)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.3}, loss.SmoothedHinge{Gamma: 0.5}} {
			for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 1}} {
				e := rule.rule().apply(d, l, c)
				g := make([]float64, 3)
				l.Grad(g, c, e.Row(0), e.Label(0))
				require.LessOrEqual(t, norm(g), 1e-14)
			}
		}
	})
}

// liar claims that every label interpolates.
type liar struct{ loss.Squared }

func (liar) Interpolate(_, b float64) (float64, bool) { return b, true }

// TestRulesCheckLosses: a loss that names a label at which its gradient does not
// vanish gets its records replaced by zero records.
func TestRulesCheckLosses(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0}, {0, 1}}, []float64{0.5, 0.25}, loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	center := []float64{0.5, 1} // fits the first record only
	for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 1}} {
		got := rule.rule().apply(data, liar{}, center)
		require.ElementsMatch(t, [][]float64{{1, 0, 0.5}, {0, 0, 0}}, records(got), "%T", rule)
		require.ElementsMatch(t, [][]float64{{1, 0, 0.5}, {0, 1, 1}},
			records(rule.rule().apply(data, loss.Squared{}, center)))
	}
}

// records returns rows and labels, in the order of Data.
func records(data *erm.Data) (all [][]float64) {
	n, _ := data.Dims()
	for i := range n {
		all = append(all, append(data.Row(i), data.Label(i)))
	}
	return all
}

// TestForeignRecord is the attack that interpolation must stop: one record that
// the anchor does not fit. Under Relabel the release with the same noise does
// not see its label at all; under Trust it moves.
func TestForeignRecord(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	p.Set = nil
	foreign := func(label float64) *erm.Problem {
		q := *p
		i := -1
		q.Data = p.Data.Map(func(_ []float64, b float64) (float64, bool) {
			if i++; i == 0 {
				b = label
			}
			return b, true
		})
		return &q
	}
	release := func(rule Interpolation, label float64) []float64 {
		m := &Mechanism{Center: center, Interpolation: rule}
		rel, err := m.Fit(t.Context(), foreign(label), budget, noise.Reproducible(9))
		require.NoError(t, err)
		return rel.Theta
	}
	require.Equal(t, release(Relabel{}, 20), release(Relabel{}, -20))
	require.NotEqual(t, release(Trust{}, 20), release(Trust{}, -20))
}

// TestHostileRecords: no record, however hostile, moves θ̂ from the anchor where the rule holds, r
// = 0 and the anchor is in C.
func TestHostileRecords(t *testing.T) {
	hostile := []float64{0, 1, -1, 1e308, -1e308, math.Inf(1), math.NaN(), 1e-308}
	center := []float64{0.5, -0.3, 0.2}
	for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 0.1}} {
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.5}} {
			var tr erm.Trace
			var plan *Plan
			for i, v := range hostile {
				data, err := erm.NewData([][]float64{{v, hostile[(i+3)%8], 1}, {1, 0, 0}}, []float64{hostile[(i+5)%8], 0.5},
					loss.Bounds{Row: 1, Label: 3})
				require.NoError(t, err)
				p := &erm.Problem{Data: data, Loss: l, Set: prox.Box{Lo: -1, Hi: 1}}
				if plan == nil {
					plan, err = (&Mechanism{Center: center, Interpolation: rule, Relation: dp.AddRemove,
						Trace: func(t erm.Trace) { tr = t }}).Plan(p,
						budget)
					require.NoError(t, err)
				}
				_, err = plan.Fit(t.Context(), p, noise.Reproducible(1))
				require.NoError(t, err)
				require.LessOrEqual(t, floats.Distance(center, tr.Theta, 2), plan.Params().Cover, "%T %T %v", rule, l, v)
			}
		}
	}
}

// TestTrust refuses losses whose gradient vanishes nowhere, also behind pointers and wrappers, and
// no other.
func TestTrust(t *testing.T) {
	for _, l := range []loss.Loss{
		loss.Logistic{}, &loss.Logistic{}, loss.RootHinge{Width: 1}, loss.Multinomial{Classes: 3},
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.5}, &loss.Clipped{Loss: loss.RootHinge{Width: 1}, Threshold: 0.5},
		loss.Moreau{Loss: loss.Logistic{}, Beta: 1}, loss.Moreau{Loss: loss.Clipped{Loss: &loss.Logistic{}, Threshold: 0.5},
			Beta: 1},
	} {
		require.ErrorIs(t, Trust{}.rule().admits(l), dp.ErrCondition, "%T", l)
	}
	for _, l := range []loss.Loss{
		loss.Squared{}, loss.Huber{Delta: 1}, loss.PseudoHuber{Delta: 1}, loss.LogCosh{Delta: 1},
		loss.SmoothedHinge{Gamma: 1},
		loss.SoftClipped{Threshold: 1},
		loss.Moreau{Loss: loss.Hinge{}, Beta: 1}, loss.Clipped{Loss: loss.Squared{}, Threshold: 1}, bowl{[]float64{1}},
		mine{loss.Squared{}},
	} {
		require.NoError(t, Trust{}.rule().admits(l), "%T", l)
	}
}
