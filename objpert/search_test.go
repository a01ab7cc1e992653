// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// everywhere enumerates, cellFirst prefers the search for 0/1 columns, and generic is the one for
// any data.
var everywhere = Search{Points: 1e7}

func cellFirst(workers int) Search { return Search{Points: -1, Combos: 1e6, Workers: workers} }
func generic(workers int) Search   { return Search{Points: -1, Combos: -1, Workers: workers} }

// oneHot is n records over blocks of one-hot columns with labels that follow a
// random rule, and OPDisc noise of the given scale.
func oneHot(t testing.TB, n, q int, scale float64, blocks ...int) *Problem {
	r := rand.New(rand.NewPCG(uint64(n), uint64(q)))
	d := 0
	for _, b := range blocks {
		d += b
	}
	rule := make([]float64, d)
	for j := range rule {
		rule[j] = r.NormFloat64()
	}
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		at, score := 0, 0.5*r.NormFloat64()
		for _, b := range blocks {
			j := at + min(r.IntN(b), r.IntN(b))
			rows[i][j] = 1
			score += rule[j]
			at += b
		}
		labels[i] = -1
		if score > 0 {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	eta := make([]float64, d+1)
	for j := range eta {
		eta[j] = scale * r.NormFloat64()
	}
	table, norm := sphere(p.space.Values, q, eta)
	p, err = p.perturbReal(table, norm)
	require.NoError(t, err)
	return p
}

func searches(workers int, nodes int64) map[string]Oracle {
	return map[string]Oracle{
		"CellSearch":    Search{Points: -1, Combos: 1e6, Workers: workers, Nodes: nodes},
		"GenericSearch": Search{Points: -1, Combos: -1, Workers: workers, Nodes: nodes},
		"Auto":          Search{Workers: workers, Nodes: nodes},
	}
}

// TestAgree: the two searches share no bound, and prove the same point.
func TestAgree(t *testing.T) {
	for _, scale := range []float64{1, 20, 200} {
		p := oneHot(t, 400, 9, scale, 5, 4, 3)
		a, err := cellFirst(0).Solve(context.Background(), p)
		require.NoError(t, err)
		b, err := generic(0).Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, a.W, b.W)
		require.Equal(t, a.Objective, b.Objective)
	}
}

// TestLimitedIsDeterministic: a limit on nodes does not let scheduling decide,
// for OPSamp takes what is found within it.
func TestLimitedIsDeterministic(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	for name, o := range searches(8, 40) {
		first, err := o.Solve(context.Background(), p)
		require.ErrorIs(t, err, ErrLimit, name)
		for range 20 {
			s, _ := o.Solve(context.Background(), p)
			require.Equal(t, first, s, name)
		}
	}
}

// TestStopped: whenever a search is stopped, its bracket holds.
func TestStopped(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	exact, err := cellFirst(0).Solve(context.Background(), p)
	require.NoError(t, err)
	last := map[string]float64{}
	for nodes := int64(1); nodes < 1e6; nodes *= 2 {
		for workers := 1; workers <= 2; workers++ {
			for name, o := range searches(workers, nodes) {
				s, err := o.Solve(context.Background(), p)
				if err == nil {
					require.True(t, s.Proven)
					require.Equal(t, exact.W, s.W)
					last[name] = s.Lower
					continue
				}
				require.ErrorIs(t, err, ErrLimit, name)
				if s == nil {
					continue
				}
				require.False(t, s.Proven, name)
				require.LessOrEqual(t, s.Lower, exact.Objective, name)
				require.GreaterOrEqual(t, s.Objective, exact.Objective, name)
				require.Equal(t, p.Objective(s.W), s.Objective, name)
			}
		}
	}
	require.Len(t, last, 3) // the last limits were enough
}

func TestInterrupted(t *testing.T) {
	p := oneHot(t, 4000, 23, 200, 12, 9, 8, 7, 6) // far from solved in a millisecond
	for name, o := range searches(2, 0) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s, err := o.Solve(ctx, p)
		require.Nil(t, s, name)
		require.ErrorIs(t, err, ErrInterrupted, name)
		require.ErrorIs(t, err, context.Canceled, name)

		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
		s, err = o.Solve(ctx, p) // returns because the context ends: there is no proof yet
		cancel()
		require.ErrorIs(t, err, ErrInterrupted, name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		if s != nil {
			require.False(t, s.Proven)
			require.Less(t, s.Lower, s.Objective)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Search{Points: 1e9}.Solve(ctx, oneHot(t, 10, 6, 1, 4, 4))
	require.ErrorIs(t, err, ErrInterrupted)
}

func TestLimits(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	_, err := Search{Memory: 1000}.cells(context.Background(), p)
	require.ErrorIs(t, err, ErrLimit)
	dense := denseProblem(t, 50, 5, 5)
	_, err = Search{Combos: 10}.cells(context.Background(), dense)
	require.ErrorIs(t, err, ErrLimit)
	want, err := everywhere.Solve(context.Background(), dense)
	require.NoError(t, err)
	for _, o := range []Oracle{cellFirst(0), generic(0), Search{}} {
		s, err := o.Solve(context.Background(), dense)
		require.NoError(t, err)
		require.Equal(t, want.W, s.W)
	}
	wide := problemOver(t, 3, Space{Values: interval(100), NormSq: -1}, false)
	for _, o := range []Oracle{cellFirst(0), generic(0)} {
		_, err = o.Solve(context.Background(), wide)
		require.ErrorIs(t, err, ErrLimit)
	}
}

// TestCanceled: wherever a search is canceled, what it returns is a valid
// bracket, and no goroutine stays behind.
func TestCanceled(t *testing.T) {
	cases := 150
	if testing.Short() {
		cases = 40
	}
	r := rand.New(rand.NewPCG(3, 3))
	problems := []*Problem{
		oneHot(t, 400, 9, 20, 5, 4, 3),
		oneHot(t, 300, 9, 0, 5, 4, 3),
		perturbSphere(t, denseProblem(t, 400, 5, 6), 10, "gaussian", 3),
	}
	var best []*Solution
	for _, p := range problems {
		s, err := Search{}.Solve(context.Background(), p)
		require.NoError(t, err)
		best = append(best, s)
	}
	before := runtime.NumGoroutine()
	stopped := 0
	for i := range cases {
		p, want := problems[i%3], best[i%3]
		for name, o := range searches(1+r.IntN(3), 0) {
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(math.Exp(7+10*r.Float64())), cancel) // 1 µs to 24 ms
			s, err := o.Solve(ctx, p)
			timer.Stop()
			cancel()
			if err != nil {
				require.ErrorIs(t, err, ErrInterrupted, name)
				require.ErrorIs(t, err, context.Canceled, name)
				stopped++
			}
			if s == nil {
				require.Error(t, err, name)
				continue
			}
			require.LessOrEqual(t, s.Lower, want.Objective, name)
			require.GreaterOrEqual(t, s.Objective, want.Objective, name)
			require.True(t, p.Contains(s.W), name)
			require.Equal(t, p.Objective(s.W), s.Objective, name)
			require.Equal(t, p.Loss(s.W), s.Loss, name)
			if s.Proven {
				require.NoError(t, err, name)
				require.Equal(t, want.W, s.W, name)
			}
		}
	}
	require.Positive(t, stopped)
	testkit.Until(func() bool { return runtime.NumGoroutine() <= before }) // those of canceled contexts end
}

// TestProcessors: the answer does not depend on how many processors there are.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	problems := []*Problem{oneHot(t, 400, 9, 20, 5, 4, 3), oneHot(t, 300, 4, 0, 5, 4, 3), denseProblem(t, 200, 5, 5)}
	for _, p := range problems {
		var want *Solution
		for _, procs := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(procs)
			for _, workers := range []int{0, 1, 2, 7} {
				for name, o := range searches(workers, 0) {
					s, err := o.Solve(context.Background(), p)
					require.NoError(t, err, name)
					require.True(t, s.Proven)
					s.Nodes = 0 // the effort depends on scheduling
					if want == nil {
						want = s
					}
					require.Equal(t, want, s, name)
				}
			}
		}
	}
}

// TestDeadEnds: a space whose last coordinates need the whole norm has one
// point and 3²⁴ ways to begin; no oracle tries them.
func TestDeadEnds(t *testing.T) {
	const d = 48
	space := Space{Values: interval(1), NormSq: d / 2}
	want := make([]int, d)
	row := make([]int64, d)
	for j := range d {
		row[j] = int64(j - d/3)
		space.Allowed = append(space.Allowed, []bool{j < d/2, j < d/2, true})
		want[j] = j / (d / 2)
	}
	p, err := NewProblem([][]int64{row}, []int{1}, nil, space)
	require.NoError(t, err)
	require.Equal(t, 1, size(p))
	for _, o := range []Oracle{everywhere, cellFirst(0), generic(0), Search{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, want, s.W)
		require.True(t, s.Proven)
	}
}

// TestMany: more values than a search takes are enumerated while they are few.
func TestMany(t *testing.T) {
	many := Space{Values: interval(100), NormSq: -1}
	p, err := NewProblem([][]int64{{3}, {3}}, []int{1, -1}, []int{2, 5}, many)
	require.NoError(t, err)
	s, err := Search{}.Solve(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, []int{-100}, s.W)
	require.Equal(t, 2, s.Loss)
	p, err = NewProblem([][]int64{{3, 1}}, []int{1}, nil, many)
	require.NoError(t, err)
	_, err = Search{}.Solve(context.Background(), p)
	require.ErrorIs(t, err, ErrLimit)
	// To count all points would take 5·10¹⁰ steps: counting ends with the coordinate that exceeds the
	// limit.
	wide := problemOver(t, 23, Lattice(maxNormSq), false)
	require.LessOrEqual(t, wide.space.pointsUpTo(23, 1e4), 2049*2049)
	require.Greater(t, wide.space.pointsUpTo(23, 1e4), 10_000)
	_, err = Search{}.Solve(context.Background(), wide)
	require.ErrorIs(t, err, ErrLimit)
}
