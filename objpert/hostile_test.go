package objpert

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostile: no literal makes an exported function panic, hang or return a
// point outside its space.
func TestHostile(t *testing.T) {
	cases := 20000
	if testing.Short() {
		cases = 4000
	}
	r := rand.New(rand.NewPCG(8, 8))
	ints := []int{0, 1, -1, 2, 3, -7, 127, 128, maxValue, maxValue + 1, math.MaxInt, math.MinInt, maxNormSq, maxRecords}
	longs := []int64{0, 1, -1, 5, 1 << 40, 1<<61 - 1, math.MaxInt64, math.MinInt64}
	floats := []float64{0, 1, -0.5, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p57, 1e-300}
	pick := func(small int) int {
		if r.IntN(4) > 0 {
			return r.IntN(small)
		}
		return ints[r.IntN(len(ints))]
	}
	vector := func(n int) []float64 {
		v := make([]float64, n)
		for k := range v {
			v[k] = floats[r.IntN(len(floats)/(1+r.IntN(3)))]
		}
		return v
	}
	size := func(n int) int { // n, and rarely another
		if r.IntN(12) == 0 {
			return r.IntN(5)
		}
		return n
	}
	solved := 0
	for range cases {
		d := 1 + r.IntN(4)
		p := &Problem{Dim: size(d)}
		if r.IntN(40) == 0 {
			p.Dim = ints[r.IntN(len(ints))]
		}
		if p.Values = interval(r.IntN(3)); r.IntN(4) == 0 {
			p.Values = nil
			for range r.IntN(4) {
				p.Values = append(p.Values, pick(5)-2)
			}
		}
		p.NormSq = pick(6)
		for range r.IntN(4) {
			row := make([]int64, size(d))
			for j := range row {
				row[j] = longs[r.IntN(1+r.IntN(len(longs)))]
			}
			p.X, p.Pos, p.Neg = append(p.X, row), append(p.Pos, pick(3)), append(p.Neg, pick(3))
		}
		if r.IntN(12) == 0 && len(p.Pos) > 0 {
			p.Pos = p.Pos[1:]
		}
		if r.IntN(4) == 0 {
			for range size(d) {
				row := make([]bool, size(len(p.Values)))
				for k := range row {
					row[k] = r.IntN(3) > 0
				}
				p.Allowed = append(p.Allowed, row)
			}
		}
		var table [][]float64
		var norm []float64
		if r.IntN(2) == 0 {
			for range size(d) {
				table = append(table, vector(size(len(p.Values))))
			}
		}
		if r.IntN(4) == 0 && p.NormSq > 0 && p.NormSq < 100 {
			norm = vector(size(p.NormSq + 1))
		}
		if r.IntN(8) == 0 {
			p.OracleLoss = true
		}
		err := p.Check()
		if err == nil {
			if q, e := p.perturbReal(table, norm); e == nil {
				p = q
			}
		}
		if p.Dim < 100 { // it takes time Dim · NormSq
			p.Points()
		}
		p.Records()
		p.Contains(make([]int, d))
		p.Contains(nil)
		_, _ = NewProblem(p.X, p.Pos, p.Neg, p.Space)
		if err == nil && (p.Dim > 100 || p.bound() > 200) {
			continue // ties take Dim searches, each of time Dim, and tables reach as far as weights
		}
		for _, o := range []Oracle{Enumerate{Points: 1e4}, CellSearch{Combos: 1000, Nodes: 300}, GenericSearch{Nodes: 300}, Auto{Nodes: 300}} {
			s, e := o.Solve(context.Background(), p)
			if err != nil {
				require.ErrorIs(t, e, ErrProblem)
				require.Nil(t, s)
				continue
			}
			if e != nil {
				require.ErrorIs(t, e, ErrLimit)
			}
			if s != nil {
				solved++
				require.True(t, p.Contains(s.W))
				require.Equal(t, p.Objective(s.W), s.Objective)
				require.LessOrEqual(t, s.Lower, s.Objective)
			}
		}
	}
	require.Greater(t, solved, cases/4)
}
