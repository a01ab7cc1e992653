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

// TestPrimitive: dividing a row by the gcd keeps the extreme entry.
func TestPrimitive(t *testing.T) {
	row := []int64{math.MinInt64, 0}
	for _, c := range [][2][]int64{{row, {math.MinInt64, 0}}, {{-8, 12, 0}, {-2, 3, 0}}, {{0, 0}, {0, 0}}} {
		primitive(c[0])
		require.Equal(t, c[1], c[0])
	}
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
		"empty":      {build(nil, nil, nil, ok), "take Empty"},
		"labels":     {build(rows, []int{1}, nil, ok), "2 rows and 1 labels"},
		"weights":    {build(rows, labels, []int{1}, ok), "1 weights"},
		"many":       {build(rows, labels, []int{maxRecords, 1}, ok), "more than"},
		"ragged":     {build([][]int64{{1, 0}, {1}}, labels, nil, ok), "want one length"},
		"no columns": {build([][]int64{{}, {}}, labels, nil, ok), "Dim = 0"},
		"Q 0":        {build(rows, labels, nil, Space{Values: interval(1)}), "NormSq = 0"},
		"Q large":    {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1 << 21}), "NormSq"},
		"no values":  {build(rows, labels, nil, Space{NormSq: 1}), "Values is empty"},
		"order":      {build(rows, labels, nil, Space{Values: []int{1, 0}, NormSq: 1}), "increasing"},
		"value":      {build(rows, labels, nil, Space{Values: []int{0, 1 << 16}, NormSq: -1}), "Values[1]"},
		"allowed": {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{{true, true, true}}}),
			"Allowed has 1 rows"},
		"allowed row": {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{{true}, {true}}}), "Allowed[0] has 1"},
		"none": {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{make([]bool, 3), make([]bool, 3)}}),
			"admits no value"},
		"infeasible": {build(rows, labels, nil, Space{Values: []int{-1, 1}, NormSq: 1}), "every point has ‖w‖² ≥ 2"},
	} {
		require.ErrorIs(t, c.err, ErrProblem, name)
		require.ErrorContains(t, c.err, c.want, name)
	}

	p, err := NewProblem(rows, labels, nil, ok)
	require.NoError(t, err)
	table := func(v float64) [][]float64 { return [][]float64{{0, 0, v, 0, 0}, {0, 0, 0, 0, 0}} }
	for want, f := range map[string]func() (*Problem, error){
		"for 1 coordinates": func() (*Problem, error) { return p.perturbReal(table(0)[:1], nil) },
		"for 2 values":      func() (*Problem, error) { return p.perturbReal([][]float64{table(0)[0], {1, 2}}, nil) },
		"for 2 norms":       func() (*Problem, error) { return p.perturbReal(nil, []float64{1, 2}) },
		"must be finite":    func() (*Problem, error) { return p.perturbReal(table(math.NaN()), nil) },
		"to forbid a value": func() (*Problem, error) {
			return p.Perturb([][]int64{{1 << 59, 0, 0, 0, 0}, {0, 0, 0, 0, -1}}, nil, -30)
		},
		"an exponent in":     func() (*Problem, error) { return p.Perturb(nil, nil, 1) },
		"≤ 2^58":             func() (*Problem, error) { return p.perturbReal(table(1e18), nil) },
		"the problem is nil": func() (*Problem, error) { return (*Problem)(nil).perturbReal(nil, nil) },
		"needs a bound": func() (*Problem, error) {
			q := *p
			q.Space = Space{Values: ok.Values, NormSq: -1}
			return q.perturbReal(nil, []float64{0})
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
	q, err := p.perturbReal(table, norm)
	require.NoError(t, err)
	require.Nil(t, p.noise)
	require.Equal(t, 30, q.noise.shift)
	require.InDelta(t, 0.1, q.noise.float(q.noise.table[0][0]), 0x1p-31)
	require.Zero(t, q.noise.table[0][2])
	norm[0] = 0
	require.Equal(t, int64(7)<<30, q.noise.norm[0])

	// coarser where the noise is large, so that sums stay within 2^60 steps
	for _, scale := range []float64{1, 1e6, 1e9, 1e15, 0x1p57} {
		q, rounding, err := p.tilted([][]float64{{scale, -scale / 2, 0}}, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, (float64(maxRecords)+scale)*math.Ldexp(1, q.noise.shift), float64(feasible))
		require.Equal(t, math.Ldexp(2, -q.noise.shift), rounding)
	}

	// What Perturb is given, Noise shows.
	steps, z := [][]int64{{-5, 0, 7}}, []int64{3, 1 << 40}
	q, err = p.Perturb(steps, z, -20)
	require.NoError(t, err)
	got, gotZ, exponent := q.Noise()
	require.Equal(t, steps, got)
	require.Equal(t, z, gotZ)
	require.Equal(t, -20, exponent)
	require.Equal(t, -math.Ldexp(7+1<<40, -20), q.Objective([]int{1})-float64(q.Loss([]int{1})))
}

// TestLiteral: a problem need not come from NewProblem, nor have rows.
func TestLiteral(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := &Problem{Space: Lattice(6), Dim: 3}
	table := make([][]float64, 3)
	for j := range table {
		for range p.Values {
			table[j] = append(table[j], r.NormFloat64())
		}
	}
	p, err := p.perturbReal(table, nil)
	require.NoError(t, err)
	want, err := Enumerate{}.Solve(context.Background(), p)
	require.NoError(t, err)
	for _, o := range []Oracle{CellSearch{}, GenericSearch{}, Auto{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, want.W, s.W)
		require.Equal(t, want.Objective, s.Objective)
	}
}

// TestOversizedRows: rows whose scores would leave int64 are brought into range,
// each by itself, and rows that fit are taken as they are.
func TestOversizedRows(t *testing.T) {
	big := []int64{math.MaxInt64, math.MinInt64, 3}
	fits := []int64{1<<61 - 5, 1, 0}
	rows := [][]int64{{1, 2, 3}, fits, big, {1 << 62, 1, 1}, {0, 0, math.MinInt64}}
	p, err := NewProblem(rows, []int{1, 1, 1, -1, -1}, nil, Lattice(1))
	require.NoError(t, err)
	literal := &Problem{Space: p.Space, Dim: 3, X: p.X, Pos: p.Pos, Neg: p.Neg}
	require.NoError(t, literal.Check(), "no score overflows")
	require.Contains(t, p.X, fits)
	require.Contains(t, p.X, []int64{0, 0, -1})
	alone, err := NewProblem([][]int64{big}, []int{1}, nil, Lattice(1))
	require.NoError(t, err)
	require.Contains(t, p.X, alone.X[0], "whatever the other records are")
	require.Error(t, (&Problem{Space: p.Space, Dim: 3, X: [][]int64{big}, Pos: []int{1}, Neg: []int{0}}).Check())
}

// TestEmpty: no records are a data set too, for every search.
func TestEmpty(t *testing.T) {
	_, err := Empty(0, Lattice(1))
	require.ErrorIs(t, err, ErrProblem)
	_, err = Empty(2, Space{})
	require.ErrorIs(t, err, ErrProblem)
	p, err := Empty(2, Lattice(2))
	require.NoError(t, err)
	require.Zero(t, p.Records())
	p, err = p.perturbReal([][]float64{{0, 0, 2}, {5, 0, 0}}, []float64{0, 0, 0.5})
	require.NoError(t, err)
	for _, o := range []Oracle{Enumerate{}, CellSearch{}, GenericSearch{}, Auto{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, &Solution{W: []int{1, -1}, Objective: -7.5, Lower: -7.5, Proven: true, Nodes: s.Nodes}, s)
	}
}
