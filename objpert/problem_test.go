package objpert

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewProblemMerges(t *testing.T) {
	rows := [][]int64{{2, 4}, {1, 2}, {-1, -2}, {0, 0}, {3, 6}, {1, 2}}
	labels := []int{1, -1, 1, -1, 1, 1}
	p, err := NewProblem(rows, labels, []int{1, 2, 1, 1, 3, 0}, Lattice(5))
	require.NoError(t, err)
	require.Equal(t, [][]int64{{-1, -2}, {0, 0}, {1, 2}}, p.X)
	require.Equal(t, []int{1, 0, 4}, p.Pos)
	require.Equal(t, []int{0, 1, 2}, p.Neg)
	require.Equal(t, 8, p.Records())
	require.Equal(t, []int{-2, -1, 0, 1, 2}, p.Values)

	// sgn(0) = -1: (2,-1) is orthogonal to (1,2), so every row is negative
	require.Equal(t, 1+0+4, p.Loss([]int{2, -1}))
	require.Equal(t, 1+0+2, p.Loss([]int{0, 1}))
	require.Equal(t, 0+0+4, p.Loss([]int{0, -1}))
	require.Equal(t, 5.0, p.Objective([]int{2, -1}))

	require.True(t, p.Contains([]int{1, -2}))
	require.False(t, p.Contains([]int{2, 2}))
	require.False(t, p.Contains([]int{1}))
	require.False(t, p.Contains([]int{3, 0}))
	require.Panics(t, func() { p.Loss([]int{1}) })
	require.Panics(t, func() { p.Objective([]int{2, 2}) })
	require.Equal(t, 21.0, p.Points())
}

// TestScaling: dividing a row by the gcd keeps the extreme entry.
func TestPrimitive(t *testing.T) {
	row := []int64{math.MinInt64, 0}
	require.Equal(t, row, primitive(make([]int64, 2), row))
	require.Equal(t, []int64{-2, 3, 0}, primitive(make([]int64, 3), []int64{-8, 12, 0}))
	require.Equal(t, []int64{0, 0}, primitive(make([]int64, 2), []int64{0, 0}))
}

func TestRejections(t *testing.T) {
	rows, labels := [][]int64{{1, 0}, {0, 1}}, []int{1, -1}
	ok := Lattice(4)
	build := func(rows [][]int64, labels, weights []int, s Space) error {
		_, err := NewProblem(rows, labels, weights, s)
		return err
	}
	require.NoError(t, build(rows, labels, nil, ok))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"empty":       {build(nil, nil, nil, ok), "no records"},
		"labels":      {build(rows, []int{1}, nil, ok), "2 rows and 1 labels"},
		"label 0":     {build(rows, []int{1, 0}, nil, ok), "labels[1] is neither -1 nor +1"},
		"weights":     {build(rows, labels, []int{1}, ok), "1 weights"},
		"negative":    {build(rows, labels, []int{1, -1}, ok), "label flipped"},
		"many":        {build(rows, labels, []int{maxRecords, 1}, ok), "more than"},
		"ragged":      {build([][]int64{{1, 0}, {1}}, labels, nil, ok), "want one length"},
		"no columns":  {build([][]int64{{}, {}}, labels, nil, ok), "Dim = 0"},
		"Q 0":         {build(rows, labels, nil, Space{Values: interval(1)}), "NormSq = 0"},
		"Q large":     {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1 << 21}), "NormSq"},
		"no values":   {build(rows, labels, nil, Space{NormSq: 1}), "Values is empty"},
		"order":       {build(rows, labels, nil, Space{Values: []int{1, 0}, NormSq: 1}), "increasing"},
		"value":       {build(rows, labels, nil, Space{Values: []int{0, 1 << 16}, NormSq: -1}), "Values[1]"},
		"allowed":     {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{{true, true, true}}}), "Allowed has 1 rows"},
		"allowed row": {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{{true}, {true}}}), "Allowed[0] has 1"},
		"none":        {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{make([]bool, 3), make([]bool, 3)}}), "admits no value"},
		"infeasible":  {build(rows, labels, nil, Space{Values: []int{-1, 1}, NormSq: 1}), "every point has ‖w‖² ≥ 2"},
		"overflow":    {build([][]int64{{math.MaxInt64, 1}, {0, 1}}, labels, nil, ok), "too large"},
		"overflow B":  {build([][]int64{{1 << 61, 1}, {0, 1}}, labels, nil, ok), "overflow"},
		"MinInt64":    {build([][]int64{{math.MinInt64, 1}, {0, 1}}, labels, nil, ok), "too large"},
	} {
		require.ErrorIs(t, c.err, ErrProblem, name)
		require.ErrorContains(t, c.err, c.want, name)
	}

	p, err := NewProblem(rows, labels, nil, ok)
	require.NoError(t, err)
	table := func(v float64) [][]float64 { return [][]float64{{0, 0, v, 0, 0}, {0, 0, 0, 0, 0}} }
	for want, f := range map[string]func() (*Problem, error){
		"Table has 1 rows":   func() (*Problem, error) { return p.Perturb(table(0)[:1], nil) },
		"Table[1] has 2":     func() (*Problem, error) { return p.Perturb([][]float64{table(0)[0], {1, 2}}, nil) },
		"Norm has 2 entries": func() (*Problem, error) { return p.Perturb(nil, []float64{1, 2}) },
		"must be finite":     func() (*Problem, error) { return p.Perturb(table(math.NaN()), nil) },
		"to forbid a value":  func() (*Problem, error) { return p.Perturb(table(math.Inf(-1)), nil) },
		"raise ε":            func() (*Problem, error) { return p.Perturb(table(1e18), nil) },
		"the problem is nil": func() (*Problem, error) { return (*Problem)(nil).Perturb(nil, nil) },
		"Norm needs a bound": func() (*Problem, error) {
			q := *p
			q.Space = Space{Values: ok.Values, NormSq: -1}
			return q.Perturb(nil, []float64{0})
		},
		"want equally many": func() (*Problem, error) { q := Problem{Space: ok, Dim: 2, X: rows}; return &q, q.Check() },
		"X[0] has 2 features": func() (*Problem, error) {
			q := Problem{Space: ok, Dim: 3, X: rows, Pos: labels, Neg: labels}
			return &q, q.Check()
		},
		"hold a negative": func() (*Problem, error) {
			q := Problem{Space: ok, Dim: 2, X: rows, Pos: labels, Neg: labels}
			return &q, q.Check()
		},
		"invalid problem: the": func() (*Problem, error) { return nil, (*Problem)(nil).Check() },
	} {
		_, err := f()
		require.ErrorIs(t, err, ErrProblem, want)
		require.ErrorContains(t, err, want)
	}
	for _, o := range []Oracle{Enumerate{}, CellSearch{}, GenericSearch{}, Auto{}} {
		_, err := o.Solve(context.Background(), nil)
		require.ErrorIs(t, err, ErrProblem)
	}
	for _, o := range []Oracle{CellSearch{Gap: -1}, GenericSearch{Gap: math.NaN()}} {
		_, err := o.Solve(context.Background(), p)
		require.ErrorContains(t, err, "Gap")
	}
}

// TestPerturb: the noise is copied and rounded to a grid that depends on it alone.
func TestPerturb(t *testing.T) {
	p, err := NewProblem([][]int64{{1}}, []int{1}, nil, Lattice(1))
	require.NoError(t, err)
	table, norm := [][]float64{{0.1, 1. / 3, 1e-12}}, []float64{7, 1e-9}
	q, err := p.Perturb(table, norm)
	require.NoError(t, err)
	require.Nil(t, p.Table)
	require.Equal(t, 30, q.shift())
	for _, v := range append(q.Table[0], q.Norm...) {
		scaled := math.Ldexp(v, 30)
		require.Equal(t, math.Trunc(scaled), scaled)
	}
	require.InDelta(t, 0.1, q.Table[0][0], 0x1p-31)
	require.Zero(t, q.Table[0][2])
	require.Equal(t, 0.1, table[0][0])
	norm[0] = 0
	require.Equal(t, 7.0, q.Norm[0])

	// coarser where the noise is large, so that sums stay within 2^60 units
	for _, scale := range []float64{1, 1e6, 1e9, 1e15, maxNoise} {
		q, err := p.Perturb([][]float64{{scale, -scale / 2, 0}}, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, (float64(maxRecords)+scale)*math.Ldexp(1, q.shift()), float64(feasible))
	}
}

// TestLiteral: a problem need not come from NewProblem, nor have rows.
func TestLiteral(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &Problem{Space: Lattice(6), Dim: 3, Table: make([][]float64, 3)}
	for j := range p.Table {
		p.Table[j] = make([]float64, len(p.Values))
		for k := range p.Table[j] {
			p.Table[j][k] = r.NormFloat64()
		}
	}
	want, err := Enumerate{}.Solve(context.Background(), p)
	require.NoError(t, err)
	for _, o := range []Oracle{CellSearch{}, GenericSearch{}, Auto{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, want.W, s.W)
		require.Equal(t, want.Objective, s.Objective)
	}
}

func TestIntegers(t *testing.T) {
	f := []Feature{{0, 1, 1, false}, {0, 1, 99, false}, {-1, 1, 10, false}}
	rows, err := Integers([][]float64{{1, 40. / 99, -0.3}, {0, 2, math.NaN()}}, f, 4)
	require.NoError(t, err)
	require.Equal(t, [][]int64{{990, 400, -297}, {0, 990, 0}}, rows)

	_, err = Integers([][]float64{{1, 0.5, 0}}, f, 4)
	require.ErrorIs(t, err, ErrProblem)
	require.ErrorContains(t, err, "column 1 holds values that are not multiples of 1/99")
	f[1].Round = true
	rows, err = Integers([][]float64{{1, 0.5, 0}}, f, 4)
	require.NoError(t, err)
	require.Equal(t, int64(500), rows[0][1]) // 49.5 rounds away from zero

	for want, g := range map[string][]Feature{
		"Den = 0":        {{0, 1, 0, false}},
		"finite Lo ≤ Hi": {{1, 0, 1, false}},
		"Lo = -Inf":      {{math.Inf(-1), 0, 1, false}},
		"exceeds 2^62":   {{0, 1, 1<<53 - 1, false}, {0, 1, 1<<53 - 3, false}},
		"scores may":     {{0, 1e12, 1e7, false}},
	} {
		_, err := Integers(nil, g, 4)
		require.ErrorIs(t, err, ErrProblem)
		require.ErrorContains(t, err, want)
	}
	_, err = Integers(nil, f, 0)
	require.ErrorContains(t, err, "b = 0")
	_, err = Integers([][]float64{{1}}, f, 4)
	require.ErrorContains(t, err, "want one per declared feature")
}
