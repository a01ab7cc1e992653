// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/objpert"
)

// records makes n records of d small integer features over a space.
func madeRecords(t *testing.T, rnd *rand.Rand, n, d int, space objpert.Space) *objpert.Problem {
	t.Helper()
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.Int64N(5) - 2
		}
		labels[i] = 2*rnd.IntN(2) - 1
	}
	p, err := objpert.NewProblem(rows, labels, nil, space)
	require.NoError(t, err)
	return p
}

// problem makes such records with noise.
func madeProblem(t *testing.T, seed uint64, n, d int, space objpert.Space) *objpert.Problem {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	p := madeRecords(t, rnd, n, d, space)
	table := make([][]int64, d)
	for j := range table {
		table[j] = make([]int64, len(space.Values))
		for k := range table[j] {
			table[j][k] = rnd.Int64N(1<<32) - 1<<31
		}
	}
	var norm []int64
	if space.NormSq > 0 && seed%2 == 0 {
		norm = make([]int64, space.NormSq+1)
		for k := range norm {
			norm[k] = rnd.Int64N(1 << 30)
		}
	}
	p, err := p.Perturb(table, norm, -30)
	require.NoError(t, err)
	return p
}

func spaces() []objpert.Space {
	return []objpert.Space{
		objpert.Lattice(3),
		{Values: []int{-1, 0, 1}, NormSq: -1},
		{Values: []int{-1, 1}, NormSq: -1},
		{Values: []int{-2, 0, 1, 3}, NormSq: 14, Allowed: [][]bool{{true, true, true, true}, {false, true, true, false},
			{true, false, false, true}}},
	}
}

// TestCBC: CBC finds the minimizer of small problems, as far as the search of this module knows
// it.
func TestCBC(t *testing.T) {
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Skip("cbc is not installed: on Debian, coinor-cbc")
	}
	for seed := range uint64(4) {
		p := madeProblem(t, seed, 25, 3, spaces()[seed%4])
		want, err := objpert.Search{}.Solve(t.Context(), p)
		require.NoError(t, err)
		r := &race{limit: time.Minute}
		got, err := r.Solve(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, &objpert.Solution{W: want.W, Loss: p.Loss(want.W), Objective: p.Objective(want.W),
			Lower: math.Inf(-1)}, got, "seed %d", seed)
		require.True(t, r.lap.ClaimsOptimum)
		require.False(t, r.lap.Open)
		require.InDelta(t, 0, r.lap.Excess, 1e-9)
	}
}

// A mechanism never releases what a solver says; votes of its answers are.
func TestNeverReleased(t *testing.T) {
	standIn(t, "printf 'Optimal - objective value 1\n0 r0_1 1 0\n' > $out")
	p := madeRecords(t, rand.New(rand.NewPCG(1, 1)), 40, 3, spaces()[1])
	o := &race{limit: time.Minute}
	rel, err := (&objpert.Product{Oracle: o}).Fit(t.Context(), p, dp.Budget{Epsilon: 1}, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	find := func(ctx context.Context, p *objpert.Problem) ([]int, error) {
		s, err := o.Solve(ctx, p)
		if err != nil {
			return nil, err
		}
		return s.W, nil
	}
	votes := &objpert.SampleAndAggregate{Blocks: 2, Heuristic: find}
	rel, err = votes.Fit(t.Context(), p, dp.Budget{Epsilon: 1}, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, "objpert.aggregate/2", rel.Certificate.Theorem)
}

// standIn puts a script in the place of CBC, which may write its answer to $out.
func standIn(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\nfor out; do :; done\n" + body + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cbc"), []byte(text), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestAnswers: a point of the space counts, however the solver ended.
func TestAnswers(t *testing.T) {
	p := madeProblem(t, 1, 5, 2, objpert.Lattice(2))
	for body, want := range map[string][]int{
		"exit 0": nil,
		"exit 3": nil,
		"echo 'Infeasible - objective value 0' > $out; echo '0 r0_0 1 0' >> $out": nil,
		": > $out": nil,
		"echo 'Optimal - objective value x' > $out; echo '0 r0_0 what' >> $out":        nil,
		"printf 'Optimal - objective value 1\\n0 r0_2 1 0\\n1 r1_2 1 0\\n' > $out":     {1, 1}, // ‖w‖² ≤ 2
		"printf 'Optimal - objective value 1\\nr0_2 1\\nr1_2 1\\n' > $out; kill -9 $$": {1, 1},
		"kill -9 $$": nil,
	} {
		standIn(t, body)
		r := &race{limit: time.Minute}
		s, err := r.Solve(t.Context(), p)
		require.Equal(t, want == nil, r.lap.NoPoint, body)
		if want == nil {
			require.ErrorIs(t, err, errNoPoint, body)
			continue
		}
		require.NoError(t, err, body)
		require.Equal(t, want, s.W)
		require.False(t, s.Proven)
		require.GreaterOrEqual(t, r.lap.Excess, 0.0)
	}
	// a point outside the ball
	standIn(t, "printf 'Optimal - objective value 1\nr0_2 1\nr1_2 1\n' > $out")
	q := madeProblem(t, 1, 5, 2, objpert.Space{Values: []int{-1, 0, 1}, NormSq: 1})
	_, err := (&race{limit: time.Minute}).Solve(t.Context(), q)
	require.ErrorIs(t, err, errNoPoint)
	// Were the solver not killed, the test would not end.
	standIn(t, "exec sleep 3600")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = (&race{limit: time.Hour}).Solve(ctx, p)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// An LP file, as a reader sees it.
func Example_lp() {
	p, err := objpert.NewProblem([][]int64{{1, 1}, {1, 1}, {0, 1}}, []int{1, 1, -1}, nil, objpert.Lattice(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	if p, err = p.Perturb([][]int64{{0, 0, 2}, {-1, 0, 0}}, nil, -2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", newModel(p).lp())
	// Output:
	// Minimize
	//  obj: + 0 r0_0 + 0 r0_1 - 0.5 r0_2 + 0 w0 + 0.25 r1_0 + 0 r1_1
	//   + 0 r1_2 + 0 w1 + 1 e0 + 2 e1
	// Subject To
	//  c0: + 1 r0_0 + 1 r0_1 + 1 r0_2 = 1
	//  c1: - 1 r0_0 + 0 r0_1 + 1 r0_2 - 1 w0 = 0
	//  c2: + 1 r1_0 + 1 r1_1 + 1 r1_2 = 1
	//  c3: - 1 r1_0 + 0 r1_1 + 1 r1_2 - 1 w1 = 0
	//  c4: + 1 r0_0 + 0 r0_1 + 1 r0_2 + 1 r1_0 + 0 r1_1 + 1 r1_2 <= 1
	//  c5: + 1 w1 - 2 e0 <= 0
	//  c6: + 1 w0 + 1 w1 + 3 e1 >= 1
	// Bounds
	//  -1 <= w0 <= 1
	//  -1 <= w1 <= 1
	// Binary
	//  r0_0
	//  r0_1
	//  r0_2
	//  r1_0
	//  r1_1
	//  r1_2
	//  e0
	//  e1
	// End
}
