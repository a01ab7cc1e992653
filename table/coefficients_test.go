// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// redundant are the columns of tables whose encoded rows have redundant coordinates. Each has the
// levels or bins of three columns a, b and c, a number x, and "%s" in the place of an intercept.
var redundant = map[string]string{
	"two columns": `{"name": "a", "levels": ["1", "2", "3"]}, {"name": "b", "min": -9, "max": 9, "bins": [0, 1]},
	  {"name": "c", "ignore": true}`,
	"a reference": `{"name": "a", "levels": ["1", "2", "3"], "reference": "2"},
	  {"name": "b", "min": -9, "max": 9, "bins": [0, 1]}, {"name": "c", "ignore": true}`,
	"interactions": `{"name": "a", "levels": ["1", "2", "3"]}, {"name": "b", "min": -9, "max": 9, "bins": [0, 1]},
	  {"name": "c", "ignore": true}, {"name": "ab", "cross": ["a", "b"]}`,
	"interactions with a reference": `{"name": "a", "levels": ["1", "2", "3"], "reference": "1"},
	  {"name": "b", "min": -9, "max": 9, "bins": [0, 1]}, {"name": "c", "levels": ["p", "q"]},
	  {"name": "ab", "cross": ["a", "b"]}, {"name": "bc", "cross": ["b", "c"]}`,
	"other and missing": `{"name": "a", "levels": ["1", "2"], "other": true, "missing": true},
	  {"name": "b", "min": -9, "max": 9, "bins": [0, 1], "missing": true},
	  {"name": "c", "levels": ["p", "q"], "other": true}`,
}

// TestCoefficientsAreIdentified: coefficients predict what θ does from encoded rows, and do not
// change where θ changes along a direction that no row has.
func TestCoefficientsAreIdentified(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for name, columns := range redundant {
		for _, intercept := range []bool{true, false} {
			name := fmt.Sprintf("%s, intercept %v", name, intercept)
			e := encoder(t, fmt.Sprintf(`{"schema": 1, "intercept": %v, "missing": ["?"],
			  "label": {"column": "y", "min": -3, "max": 9}, "columns": [
			    {"name": "x", "min": 0, "max": 2}, %s]}`, intercept, columns))
			text := "x,a,b,c,y\n"
			var fields [][4]any
			for range 300 {
				f := [4]any{2 * rnd.Float64(), 1 + rnd.IntN(3), rnd.IntN(3) - 1, []string{"p", "q"}[rnd.IntN(2)]}
				fields = append(fields, f)
				text += fmt.Sprintf("%v,%v,%v,%v,0\n", f[0], f[1], f[2], f[3])
			}
			rows, _ := dense(t, e, text)
			theta, moved := make([]float64, e.Dim()), make([]float64, e.Dim())
			for j := range theta {
				theta[j] = rnd.NormFloat64()
			}
			copy(moved, theta)
			gram := mat.NewSymDense(e.Dim(), nil)
			for _, a := range rows {
				gram.SymRankOne(gram, 1, mat.NewVecDense(len(a), a))
			}
			var eig mat.EigenSym
			require.True(t, eig.Factorize(gram, true))
			var v mat.Dense
			eig.VectorsTo(&v)
			hidden := 0
			for k, l := range eig.Values(nil) {
				if l < 1e-9 {
					hidden++
					floats.AddScaled(moved, 1000, mat.Col(nil, k, &v))
				}
			}
			if strings.Contains(name, "interactions") {
				require.GreaterOrEqual(t, hidden, 2, name)
			}
			value := map[string]float64{}
			for k, c := range e.Coefficients(theta) {
				value[c.Name] = c.Value
				if !strings.Contains(name, "other and missing") { // of which some levels have no row
					require.InDelta(t, c.Value, e.Coefficients(moved)[k].Value, 1e-9, "%s: %s", name, c.Name)
				}
			}
			for i, f := range fields {
				a, b, c := fmt.Sprintf("a=%v", f[1]), []string{"b<0", "b[0,1)", "b>=1"}[f[2].(int)+1], fmt.Sprintf("c=%v", f[3])
				if _, ok := value[a]; !ok {
					a = "a other"
				}
				got := value["(intercept)"] + value["x"]*f[0].(float64) + value[a] + value[b] + value[c] + value[a+" × "+b] +
					value[b+" × "+c]
				require.InDelta(t, e.LabelValue(floats.Dot(rows[i], theta)), got, 1e-9, "%s, row %d", name, i)
			}
		}
	}
}

// TestMissingLevels: a category without a level counts as the mean of its declared levels, alone
// and in interactions, in a table to fit, to pack and to predict for.
func TestMissingLevels(t *testing.T) {
	for _, reference := range []string{"", `, "reference": "2"`} {
		e := encoder(t, fmt.Sprintf(`{"schema": 1, "intercept": true, "missing": ["?"],
		  "label": {"column": "y", "min": 0, "max": 1}, "columns": [
		    {"name": "a", "levels": ["1", "2", "3"]%s}, {"name": "b", "min": -9, "max": 9, "bins": [0, 1]},
		    {"name": "ab", "cross": ["a", "b"]}]}`,
			reference))
		theta := make([]float64, e.Dim())
		for j := range theta {
			theta[j] = float64(j * j)
		}
		predict := func(o Options, a, b string) float64 {
			rows, err := e.Rows(strings.NewReader(fmt.Sprintf("a,b,y\n%s,%s,0\n", a, b)), o)
			require.NoError(t, err)
			require.True(t, rows.Next())
			sum := 0.0
			col, val := rows.Row()
			for k, j := range col {
				sum += theta[j] * val[k]
			}
			return sum
		}
		mean := func(f func(v string) float64, values ...string) float64 {
			sum := 0.0
			for _, v := range values {
				sum += f(v) / float64(len(values))
			}
			return sum
		}
		for _, o := range []Options{{}, {Unlabeled: true}, {Skip: true}, {Total: true}} {
			one := mean(func(a string) float64 { return predict(o, a, "0.5") }, "1", "2", "3")
			require.InDelta(t, one, predict(o, "?", "0.5"), 1e-12*math.Abs(one))
			both := mean(func(a string) float64 {
				return mean(func(b string) float64 { return predict(o, a, b) }, "-1", "0.5", "2")
			}, "1", "2", "3")
			require.InDelta(t, both, predict(o, "?", "?"), 1e-12*math.Abs(both))
		}
	}
}
