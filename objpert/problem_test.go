// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
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
	require.Equal(t, [][]int64{{-1, -2}, {0, 0}, {1, 2}}, p.x)
	require.Equal(t, []int{1, 0, 4}, p.pos)
	require.Equal(t, []int{0, 1, 2}, p.neg)
	require.Equal(t, 8, p.records())
	require.Equal(t, []int{-2, -1, 0, 1, 2}, p.space.Values)

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
	require.Equal(t, 21, size(p))
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
		"allowed row": {build(rows, labels, nil, Space{Values: interval(1), NormSq: 1, Allowed: [][]bool{{true},
			{true}}}), "Allowed[0] has 1"},
		"none": {build(rows, labels, nil, Space{
			Values: interval(1), NormSq: 1, Allowed: [][]bool{make([]bool, 3), make([]bool, 3)},
		}),
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
		"the problem is nil": func() (*Problem, error) { return (&Problem{}).Perturb(nil, nil, 0) },
		"needs a bound": func() (*Problem, error) {
			q := *p
			q.space = Space{Values: ok.Values, NormSq: -1}
			return q.perturbReal(nil, []float64{0})
		},
		"invalid problem: the": func() (*Problem, error) { return nil, (*Problem)(nil).check() },
	} {
		_, err := f()
		require.ErrorIs(t, err, ErrProblem, want)
		require.ErrorContains(t, err, want)
	}
	for _, bad := range []*Problem{nil, {}} {
		_, err := Search{}.Solve(context.Background(), bad)
		require.ErrorIs(t, err, ErrProblem)
		require.False(t, bad != nil && bad.Contains(nil))
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
	for _, x := range p.x {
		require.True(t, scores(x, 1), "no score overflows")
	}
	require.Contains(t, p.x, fits)
	require.Contains(t, p.x, []int64{0, 0, -1})
	alone, err := NewProblem([][]int64{big}, []int{1}, nil, Lattice(1))
	require.NoError(t, err)
	require.Contains(t, p.x, alone.x[0], "whatever the other records are")
	require.False(t, scores(big, 1))
}

// TestEmpty: no records are a data set too, for every search.
func TestEmpty(t *testing.T) {
	_, err := Empty(0, Lattice(1))
	require.ErrorIs(t, err, ErrProblem)
	_, err = Empty(2, Space{})
	require.ErrorIs(t, err, ErrProblem)
	p, err := Empty(2, Lattice(2))
	require.NoError(t, err)
	require.Zero(t, p.records())
	p, err = p.perturbReal([][]float64{{0, 0, 2}, {5, 0, 0}}, []float64{0, 0, 0.5})
	require.NoError(t, err)
	for _, o := range []Oracle{everywhere, cellFirst(0), generic(0), Search{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, &Solution{W: []int{1, -1}, Objective: -7.5, Lower: -7.5, Proven: true, Nodes: s.Nodes}, s)
	}
}

// No way of printing or encoding a problem shows a record or noise.
func TestProblemPrintsNothing(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 40}, {0, 1}}, []int{1, -1}, nil, Lattice(2))
	require.NoError(t, err)
	p, err = p.perturbReal([][]float64{{7.5, 7.5, 7.5}, {7.5, 7.5, 7.5}}, []float64{7.5, 7.5, 7.5})
	require.NoError(t, err)
	const want = "objpert.Problem(d = 2, Q = 2)"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		require.Equal(t, want, fmt.Sprintf(verb, p))
		require.Equal(t, want, fmt.Sprintf(verb, *p))
		require.NotContains(t, fmt.Sprintf(verb, []any{p, struct{ P Problem }{*p}}), "40")
	}
	require.Equal(t, "objpert.Problem(d = 1)", problemOver(t, 1, Space{Values: []int{1}, NormSq: -1}, false).String())
	require.Equal(t, "objpert.Problem(nil)", (*Problem)(nil).String())
	_, err = json.Marshal(p)
	require.ErrorContains(t, err, "is not encoded")
	require.Error(t, gob.NewEncoder(io.Discard).Encode(p))
}

// TestHostile: no records, space or noise make an exported function panic, hang or return a point
// outside its space.
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
		space := Space{Values: interval(r.IntN(3)), NormSq: pick(6)}
		if r.IntN(4) == 0 {
			space.Values = nil
			for range r.IntN(4) {
				space.Values = append(space.Values, pick(5)-2)
			}
		}
		if r.IntN(4) == 0 {
			for range size(d) {
				row := make([]bool, size(len(space.Values)))
				for k := range row {
					row[k] = r.IntN(3) > 0
				}
				space.Allowed = append(space.Allowed, row)
			}
		}
		var rows [][]int64
		var labels, weights []int
		for range r.IntN(4) {
			row := make([]int64, size(d))
			for j := range row {
				row[j] = longs[r.IntN(1+r.IntN(len(longs)))]
			}
			rows, labels, weights = append(rows, row), append(labels, pick(3)-1), append(weights, pick(3))
		}
		if r.IntN(12) == 0 && len(labels) > 0 {
			labels = labels[1:]
		}
		var p *Problem
		var err error
		switch r.IntN(8) {
		case 0:
			p, err = Empty(pick(5), space)
		case 1:
			p, err = Custom(pick(5), space)
		default:
			p, err = NewProblem(rows, labels, weights, space)
		}
		if err != nil {
			require.ErrorIs(t, err, ErrProblem)
			require.Nil(t, p)
			continue
		}
		var table [][]float64
		var norm []float64
		if r.IntN(2) == 0 {
			for range size(p.dim) {
				table = append(table, vector(size(len(space.Values))))
			}
		}
		if r.IntN(4) == 0 && space.NormSq > 0 && space.NormSq < 100 {
			norm = vector(size(space.NormSq + 1))
		}
		if q, e := p.perturbReal(table, norm); e == nil {
			p = q
		}
		p.Contains(make([]int, d))
		p.Contains(nil)
		if p.dim > 100 || p.space.bound() > 200 {
			continue // ties take Dim searches, each of time Dim, and tables reach as far as weights
		}
		for _, o := range []Oracle{
			Search{Points: 1e4, Nodes: 300}, Search{Points: -1, Combos: 1000, Nodes: 300},
			Search{Points: -1, Combos: -1, Nodes: 300}, Search{Nodes: 300},
		} {
			s, e := o.Solve(context.Background(), p)
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

// records is the number of records with their weights.
func (p *Problem) records() int {
	n := 0
	for g := range p.pos {
		n += p.pos[g] + p.neg[g]
	}
	return n
}
