// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// hostile returns a noisy Gram matrix and a floor: of any scale, indefinite, singular or with rows
// and columns of very different size.
func hostile(rnd *rand.Rand, d int) (*mat.SymDense, float64) {
	m := mat.NewSymDense(d, nil)
	scale := math.Pow(10, 24*rnd.Float64()-12)
	for j := range d {
		for k := j; k < d; k++ {
			v := scale * rnd.NormFloat64()
			switch rnd.IntN(6) {
			case 0:
				v = 0
			case 1:
				v *= 1e8
			}
			m.SetSym(j, k, v)
		}
	}
	return m, math.Pow(10, 16*rnd.Float64()-8)
}

// TestMappedRowsStayInBounds checks that a mapped row has norm ≤ X in float64 and a label within Y,
// whatever the map, and that a map moves no record by another one.
func TestMappedRowsStayInBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	maps := 100_000
	if testing.Short() {
		maps = 5_000
	}
	for i := range maps {
		d, bounds := 1+rnd.IntN(4), loss.Bounds{Row: math.Pow(10, 4*rnd.Float64()-2), Label: 2}
		rows, labels := make([][]float64, 2), []float64{2, -2}
		for k := range rows {
			rows[k] = make([]float64, d)
			for j := range rows[k] {
				rows[k][j] = bounds.Row * rnd.NormFloat64()
			}
		}
		data, err := erm.NewData(rows, labels, bounds)
		require.NoError(t, err)
		gram, floor := hostile(rnd, d)
		m := newMapping([]string{fullMap, diagonalMap}[i%2], gram, floor)
		floats.Scale(math.Pow(10, 6*rnd.Float64()-3), m.units)
		p, err := m.problem(&erm.Problem{Data: data, Loss: loss.Squared{}}, Penalty{}, Set{}, 2)
		require.NoError(t, err)
		err = p.Data.Each(func(a []float64, b float64) {
			sum := 0.0
			for _, v := range a {
				sum = math.FMA(v, v, sum)
			}
			if !(sum <= bounds.Row*bounds.Row*(1+1e-15)) || !(math.Abs(b) <= 2) {
				t.Fatalf("‖a‖² = %v over %v, b = %v", sum, bounds.Row*bounds.Row, b)
			}
		})
		require.NoError(t, err)
	}
}

// TestMappedLossIsWeighted checks that the residual of a mapped record at θ′ is √ω times that of
// the record at θ, √ω = min(1, X/‖diag(u)V′a‖).
func TestMappedLossIsWeighted(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 3))
	for i := range 200 {
		d := 1 + rnd.IntN(5)
		gram, floor := hostile(rnd, d)
		m := newMapping(fullMap, gram, floor)
		rows, theta, row := [][]float64{make([]float64, d)}, make([]float64, d), make([]float64, d)
		for j := range theta {
			rows[0][j], theta[j] = rnd.NormFloat64(), rnd.NormFloat64()
		}
		x := 2 * floats.Norm(rows[0], 2)
		data, err := erm.NewData(rows, []float64{0.7}, loss.Bounds{Row: x, Label: 1})
		require.NoError(t, err)
		m.row(row, rows[0])
		floats.Scale(x/floats.Norm(row, 2)*[]float64{0.5, 3}[i%2], m.units)
		root := []float64{1, 1. / 3}[i%2]
		p, err := m.problem(&erm.Problem{Data: data, Loss: loss.Squared{}}, Penalty{}, Set{}, 1)
		require.NoError(t, err)
		want := root * (0.7 - floats.Dot(rows[0], m.theta(theta)))
		require.NoError(t, p.Data.Each(func(a []float64, b float64) {
			require.InDelta(t, root*0.7, b, 1e-12)
			require.InDelta(t, want, b-floats.Dot(a, theta), 1e-9*(1+x*floats.Norm(theta, 2)))
		}))
	}
}

// TestMappedRidgeGivesNoModulus checks that the ridge of a mapped plan does not count on the
// modulus of the penalty in the units of the user. For 50 columns uniform on [0, 1] and an
// intercept, subtracting nλ = 12.84 from the least ridge of c = 0.075 would cost .87, not .075.
func TestMappedRidgeGivesNoModulus(t *testing.T) {
	const n, d = 20000, 50
	for _, weight := range []float64{6.42, 12.84} {
		pl := planFor(t, n, d, dp.Budget{Epsilon: 3, Delta: 1e-9}, Options{Loss: Loss{Name: Squares},
			Relation: dp.AddRemove, Records: n, Penalty: Penalty{Ridge: weight / n}})
		s := pl.Params().Sequence
		require.Equal(t, fullMap, s.Map)
		for _, last := range []bool{false, true} {
			_, step := pl.minimizer(last, 0.3, leastSignal, float64(pl.params.Records))
			// In the direction of the largest eigenvalue, u² = X²/(R²λ̂_max) with R²λ̂_max = 17.8 X².
			u2 := 1 / 17.8
			require.LessOrEqual(t, math.Log1p(pl.smoothness/(step.Ridge+weight*u2)), step.C)
			naive := linear.LeastRidge(pl.smoothness, weight, step.C)
			require.Greater(t, math.Log1p(pl.smoothness/(naive+weight*u2)), step.C)
		}
	}
}

// TestMappedPenalty checks that penalties and sets have the same value in mapped coordinates.
func TestMappedPenalty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 3))
	gram, floor := hostile(rnd, 4)
	for _, c := range []struct {
		kind string
		p    Penalty
		s    Set
	}{{fullMap, Penalty{Ridge: 0.3}, Set{}}, {diagonalMap, Penalty{Ridge: 0.3, Lasso: 0.1}, Set{Name: Box, Size: 2}},
		{diagonalMap, Penalty{Lasso: 0.1}, Set{Name: NonNegative}}} {
		m := newMapping(c.kind, gram, floor)
		reg, err := m.penalty(c.p, 100)
		require.NoError(t, err)
		want, err := c.p.operator(100, nil)
		require.NoError(t, err)
		for range 50 {
			x := make([]float64, 4)
			for j := range x {
				x[j] = 4 * rnd.NormFloat64() / m.units[j]
			}
			theta := m.theta(x)
			require.InEpsilon(t, want.Func(theta), reg.Func(x), 1e-9)
			if c.s.Name != "" {
				set, err := m.set(c.s)
				require.NoError(t, err)
				user, err := c.s.set()
				require.NoError(t, err)
				require.Equal(t, user.Func(theta), set.Func(x))
			}
		}
	}
	for o, want := range map[Options]string{
		{}: fullMap, {Penalty: Penalty{Ridge: 1}}: fullMap, {Penalty: Penalty{Lasso: 1}}: diagonalMap,
		{Set: Set{Name: Box}}: diagonalMap, {Set: Set{Name: NonNegative}}: diagonalMap, {Set: Set{Name: Ball}}: "",
		{Set: Set{Name: Simplex}}: "", {Penalty: Penalty{Group: 1}}: "", {Intervals: &Intervals{}}: "",
	} {
		require.Equal(t, want, o.mapKind(), "%+v", o)
	}
}

// TestWideRange checks that one range declared 10 or 100 times too wide costs little, for the
// automatic fit and for mapped minimizers.
func TestWideRange(t *testing.T) {
	if testing.Short() {
		t.Skip("four fits of 20,000 records")
	}
	rnd := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	b.WriteString("size,district,rent\n")
	for range 20000 {
		size, k := math.Round(20+100*rnd.Float64()), rnd.IntN(3)
		rent := 200 + 10*size + []float64{0, 150, -100}[k] + 150*rnd.NormFloat64()
		fmt.Fprintf(&b, "%v,%s,%.0f\n", size, []string{"center", "river", "hills"}[k], rent)
	}
	for _, c := range []struct {
		wide, want float64
		clip       float64 // 0 for the automatic fit
	}{{1, 0.8, 0}, {10, 0.79, 0}, {100, 0.79, 0}, {1, 0.8, 0.3}, {10, 0.79, 0.3}, {100, 0.75, 0.3}} {
		s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{ "schema": 1, "records": 20000,
		  "label": {"column": "rent", "min": 0, "max": 2000}, "columns": [
		  {"name": "size", "min": %v, "max": %v}, {"name": "district", "levels": ["center", "river", "hills"]} ] }`,
			20-50*(c.wide-1), 120+50*(c.wide-1))))
		require.NoError(t, err)
		data, err := table.ReadCSV(strings.NewReader(b.String()), s)
		require.NoError(t, err)
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			mean := 0.0
			seeds := testkit.Of(1, 4)
			for seed := range uint64(seeds) {
				m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 1, Delta: DefaultDelta(20000)},
					&Options{Relation: rel, Clip: c.clip, Source: noise.Reproducible(seed, "wide")})
				require.NoError(t, err)
				score, err := m.Score(data)
				require.NoError(t, err)
				mean += score.R2 / float64(seeds)
			}
			t.Logf("%v: %v times too wide, clip %v: R² %.4f", rel, c.wide, c.clip, mean)
			if rel == dp.AddRemove {
				require.GreaterOrEqual(t, mean, c.want)
			}
		}
	}
}
