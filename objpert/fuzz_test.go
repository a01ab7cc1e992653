package objpert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomProblem draws a small problem of any kind that an oracle may meet:
// one-hot, dense, mixed, duplicated and scaled rows, one label only, zero,
// tiny, integer and huge noise, balls, products, forbidden values.
func randomProblem(r *rand.Rand) (rows [][]int64, labels, weights []int, space Space, table [][]float64, norm []float64) {
	d := 1 + r.IntN(5)
	n := 1 + r.IntN(30)
	kind := r.IntN(5)
	for range n {
		row := make([]int64, d)
		scale := int64(1 + r.IntN(3)*r.IntN(1000))
		for j := range row {
			switch kind {
			case 0: // dense
				row[j] = int64(r.IntN(41) - 20)
			case 1: // 0/1
				row[j] = int64(r.IntN(2)) * scale
			case 2: // 0/1 and a dense column
				row[j] = int64(r.IntN(2)) * scale
				if j == d-1 {
					row[j] = int64(r.IntN(2001) - 1000)
				}
			case 3: // ternary
				row[j] = int64(r.IntN(3) - 1)
			}
		}
		if kind == 4 { // two blocks of one-hot columns
			row[r.IntN((d+1)/2)] = scale
			row[(d+1)/2-1+r.IntN(d-(d+1)/2+1)] = scale
		}
		rows = append(rows, row)
		labels = append(labels, 2*r.IntN(2)-1)
		weights = append(weights, r.IntN(4))
		if r.IntN(4) == 0 {
			rows, labels, weights = append(rows, row), append(labels, -labels[len(labels)-1]), append(weights, 1)
		}
	}
	if r.IntN(8) == 0 {
		for i := range labels {
			labels[i] = labels[0]
		}
	}
	weights[0] = 1

	b := 1 + r.IntN(3)
	space = Space{Values: interval(b), NormSq: -1}
	switch r.IntN(6) {
	case 0:
		space.Values = []int{-1, 1}
	case 1:
		space.Values = []int{-2, 0, 1, 3}
	case 2:
		space.Values = []int{0, 1}
	}
	if r.IntN(3) > 0 {
		least := 0
		if space.Values[0] == -1 && len(space.Values) == 2 {
			least = d
		}
		space.NormSq = max(1, least) + r.IntN(d*b*b+1)
	}
	if r.IntN(4) == 0 {
		for range d {
			ok := make([]bool, len(space.Values))
			for k, v := range space.Values {
				ok[k] = r.IntN(3) > 0 || v*v <= 1
			}
			space.Allowed = append(space.Allowed, ok)
		}
	}

	draw := func() float64 { return 0 }
	switch scale := []float64{1e-6, 0.3, 3, 30, 1e6, 1e12}[r.IntN(6)]; r.IntN(4) {
	case 0, 1:
		draw = func() float64 { return scale * r.NormFloat64() }
	case 2:
		draw = func() float64 { return float64(r.IntN(5) - 2) }
	}
	switch r.IntN(4) {
	case 0: // no noise at all
	case 1: // a table
		for range d {
			row := make([]float64, len(space.Values))
			for k := range row {
				row[k] = draw()
			}
			table = append(table, row)
		}
	default:
		eta := make([]float64, d+1)
		for j := range eta {
			eta[j] = draw()
		}
		q := space.NormSq
		if q < 0 {
			q = 1
		}
		table, norm = sphere(space.Values, q, eta)
		if space.NormSq < 0 {
			norm = nil
		}
	}
	return rows, labels, weights, space, table, norm
}

// TestFuzz compares every search with complete enumeration, and again after the
// records were shuffled.
func TestFuzz(t *testing.T) {
	cases := 4000
	if testing.Short() {
		cases = 1000
	}
	r := rand.New(rand.NewPCG(6, 1))
	ctx := context.Background()
	cells := 0
	for i := range cases {
		rows, labels, weights, space, table, norm := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		p, err = p.Perturb(table, norm)
		require.NoError(t, err)
		want, err := Enumerate{}.Solve(ctx, p)
		require.NoError(t, err)
		r.Shuffle(len(rows), func(i, j int) {
			rows[i], rows[j] = rows[j], rows[i]
			labels[i], labels[j] = labels[j], labels[i]
			weights[i], weights[j] = weights[j], weights[i]
		})
		shuffled, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		shuffled, err = shuffled.Perturb(table, norm)
		require.NoError(t, err)
		oracles := []Oracle{CellSearch{Workers: 1}, CellSearch{Workers: 2}, GenericSearch{Workers: 1}, GenericSearch{Workers: 2}, Auto{}}
		for _, q := range []*Problem{p, shuffled} {
			for _, o := range oracles {
				name := fmt.Sprintf("case %d, %T", i, o)
				got, err := o.Solve(ctx, q)
				require.NoError(t, err, name)
				require.True(t, got.Proven, name)
				require.Equal(t, want.Objective, got.Objective, name)
				require.Equal(t, want.W, got.W, name)
				require.Equal(t, want.Loss, got.Loss, name)
				require.Equal(t, want.Lower, got.Lower, name)
			}
		}
		if m, err := newCellModel(p, 1<<28); err == nil && len(m.cat) > 1 {
			cells++
		}
	}
	require.Greater(t, cells, cases/3) // the cell search had something to branch on
}
