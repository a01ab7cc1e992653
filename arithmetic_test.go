// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/sco"
	"github.com/privopt/privopt/table"
)

// arithmetic returns what a certificate assumes of the constants of its plan.
func arithmetic(c dp.Certificate) (list []dp.Assumption) {
	for _, a := range []dp.Assumption{
		dp.CalibrationArithmetic, dp.ChiArithmetic, dp.LossArithmetic, dp.WishartArithmetic,
	} {
		if slices.Contains(c.Assumptions, a) {
			list = append(list, a)
		}
	}
	return list
}

// smoothLosses are all losses of ⟨a,θ⟩ with a minimizer that can be certified.
var smoothLosses = map[string]loss.Loss{
	"logistic": loss.Logistic{}, "squared": loss.Clipped{Loss: loss.Squared{},
		Threshold: 1}, "huber": loss.Huber{Delta: 0.5},
	"pseudo-Huber": loss.PseudoHuber{Delta: 0.5}, "log-cosh": loss.LogCosh{Delta: 0.5},
	"smoothed hinge": loss.SmoothedHinge{},
	"root hinge":     loss.RootHinge{Width: 0.5}, "soft clipped": loss.SoftClipped{Threshold: 0.5},
	"hinge": loss.Moreau{Loss: loss.Hinge{}, Beta: 4}, "pinball": loss.Moreau{Loss: loss.Pinball{Tau: 0.3}, Beta: 4},
}

// No plan of one of these mechanisms rests on the error of a function in float64, whatever the
// loss, the relation and the budget: their last inequality is proved. Others name the law that they
// compute.
func TestArithmeticIsProved(t *testing.T) {
	data, err := erm.NewData(slices.Repeat([][]float64{{0.6, -0.3, 0.1}}, 60), make([]float64, 60),
		loss.Bounds{Row: 1.3, Label: 1})
	require.NoError(t, err)
	// Mechanisms that are not in the table, by the start of their names, have nothing to assume.
	want := map[string]dp.Assumption{
		"qop": dp.WishartArithmetic, "sco.NoisySGD": dp.LossArithmetic, "sco.ProxGD": dp.LossArithmetic,
		"sco.DPSGD": dp.LossArithmetic,
	}
	tilted := []dp.Assumption{dp.WishartArithmetic} // some plans; others rest on a proof
	proved := 0
	for i, name := range slices.Sorted(maps.Keys(smoothLosses)) {
		l := smoothLosses[name]
		for k, m := range mechanisms(0) {
			if !testkit.Long() && (i+k)%3 > 0 && name != "huber" { // usually three losses or four for each mechanism
				continue
			}
			family, _, _ := strings.Cut(m.name, ",")
			named, ok := want[family]
			budgets := []dp.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 0.03, Delta: 1e-12}, {Epsilon: 5, Delta: 0.01}}
			if ok && name != "huber" || strings.HasPrefix(m.name, "objpert") { // the loss does not enter
				continue
			}
			for _, b := range budgets[:testkit.Of(1, 3)] {
				p := &erm.Problem{Data: data, Loss: l, Records: 60, Reg: prox.SquaredL2{Weight: 1e-3}}
				plan, _, err := m.open(p, b, nil)
				if err != nil {
					continue
				}
				got := arithmetic(plan.(dp.Plan).Certificate())
				if ok {
					require.Equal(t, []dp.Assumption{named}, got, "%s, %s, %v", m.name, name, b)
					continue
				}
				if family == "qop.Tilt" && len(got) > 0 {
					require.Equal(t, tilted, got, "%s, %s, %v", m.name, name, b)
					continue
				}
				require.Empty(t, got, "%s, %s, %v", m.name, name, b)
				proved++
			}
		}
	}
	require.Greater(t, proved, testkit.Of(133, 400))
}

// What is left is named: the law of χ_q for losses whose gradients span more than a line, float64
// arithmetic for several classes; with pure noise, and with noise around the minimizer, neither
// enters.
func TestArithmeticIsNamed(t *testing.T) {
	rows := slices.Repeat([][]float64{{0.6, -0.3, 0.1}}, 60)
	data, err := erm.NewData(rows, make([]float64, 60), loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	budget, pure := dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Budget{Epsilon: 1}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		q := erm.Public{Dim: 6, Records: 60, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 3,
			Structure: loss.General}}
		several := loss.Multinomial{Classes: 3}
		classes, err := (&erm.Problem{Data: wide(t, 60, 9, 2), Loss: several, Records: 60}).Public(rel)
		require.NoError(t, err)
		for _, c := range []struct {
			public erm.Public
			budget dp.Budget
			want   []dp.Assumption
		}{
			{q, budget, nil}, {q, pure, nil},
			{classes, budget, []dp.Assumption{dp.CalibrationArithmetic}}, {classes, pure, nil},
		} {
			pl, err := (&lop.Mechanism{Relation: rel, Radius: 1}).Calibrate(c.public, c.budget)
			require.NoError(t, err)
			require.Equal(t, c.want, arithmetic(pl.Certificate()), "%v, %v", rel, c.budget)
			around, err := (&lop.Output{Relation: rel, Radius: 1}).Calibrate(c.public, c.budget)
			require.NoError(t, err)
			require.Empty(t, arithmetic(around.Certificate()))
		}
		persons := classes // the theorem of several classes is about records
		persons.Rows = 3
		pl, err := (&lop.Mechanism{Relation: rel, Radius: 1, Ridge: 4}).Calibrate(persons, budget)
		require.NoError(t, err)
		require.Equal(t, []dp.Assumption{dp.ChiArithmetic}, arithmetic(pl.Certificate()), rel)
		full, err := (&sco.NoisySGD{Relation: rel, Radius: 1, Batch: 60, Steps: 5}).Plan(
			&erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}, Records: 60}, budget)
		require.NoError(t, err)
		require.Empty(t, arithmetic(full.Certificate()))
	}
}

// wide returns n records of 0 in d dimensions.
func wide(t *testing.T, n, d int, label float64) *erm.Data {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
	}
	data, err := erm.NewData(rows, make([]float64, n), loss.Bounds{Row: 1, Label: label})
	require.NoError(t, err)
	return data
}

// The same for what a table's fit plans: one release, automatic least squares, intervals.
func TestArithmeticOfModels(t *testing.T) {
	data := wide(t, 4000, 3, 1)
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, o := range []model.Options{
			{Loss: model.Loss{Name: model.Logistic}}, {Loss: model.Loss{Name: model.Squares}},
			{Loss: model.Loss{Name: model.Squares}, Intervals: &model.Intervals{}},
			{Loss: model.Loss{Name: model.Logistic}, Intervals: &model.Intervals{}},
			{Loss: model.Loss{Name: model.PseudoHuber}},
		} {
			o.Relation, o.Records = rel, 4000
			m, err := model.Fit(t.Context(), &table.Data{Records: data}, dp.Budget{Epsilon: 1, Delta: 1e-7}, &o)
			require.NoError(t, err)
			require.Empty(t, arithmetic(m.Certificate()), "%v, %v", rel, o)
		}
	}
}
