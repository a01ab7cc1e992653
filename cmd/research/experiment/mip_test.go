// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/objpert"
)

var bg = context.Background()

// installed skips unless the solver is there.
func installed(t *testing.T, command string) {
	t.Helper()
	if _, err := exec.LookPath(command); err != nil {
		t.Skipf("%s is not installed: on Debian, coinor-cbc", command)
	}
}

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

// empty fails unless nothing is left in the folder of models.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The real programs find the minimizer of small problems and are believed in nothing but the point.
func TestRealSolvers(t *testing.T) {
	for _, command := range []string{"cbc"} {
		t.Run(command, func(t *testing.T) {
			installed(t, command)
			dir := t.TempDir()
			for seed := range uint64(4) {
				p := madeProblem(t, seed, 25, 3, spaces()[seed%4])
				want, err := objpert.Search{}.Solve(bg, p)
				require.NoError(t, err)
				var claim mipClaim
				o := &mipSolver{command: command, dir: dir, limit: math.MaxInt64, trace: func(c mipClaim) { claim = c }}
				got, err := o.Solve(bg, p)
				require.NoError(t, err)
				require.False(t, got.Proven)
				require.Equal(t, p.Loss(got.W), got.Loss)
				require.Equal(t, p.Objective(got.W), got.Objective)
				require.Equal(t, math.Inf(-1), got.Lower)
				require.Equal(t, want.W, got.W, "seed %d", seed)
				require.Contains(t, strings.ToLower(claim.Status), "optimal")
				empty(t, dir)
			}
		})
	}
}

// A mechanism never releases what a solver says; votes of its answers are.
func TestNeverReleased(t *testing.T) {
	installed(t, "cbc")
	p := madeRecords(t, rand.New(rand.NewPCG(1, 1)), 40, 3, spaces()[1])
	o := &mipSolver{command: "cbc", dir: t.TempDir()}
	rel, err := (&objpert.Product{Oracle: o}).Fit(bg, p, dp.Budget{Epsilon: 1}, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	find := func(ctx context.Context, p *objpert.Problem) ([]int, error) {
		s, err := o.Solve(ctx, p)
		if err != nil {
			return nil, err
		}
		return s.W, nil
	}
	rel, err = (&objpert.SampleAndAggregate{Blocks: 2, Heuristic: find}).Fit(
		bg,
		p,
		dp.Budget{Epsilon: 1},
		noise.Reproducible(1),
	)
	require.NoError(t, err)
	require.Equal(t, "objpert.aggregate/2", rel.Certificate.Theorem)
	empty(t, o.dir)
}

// script writes a stand-in for a solver: what the tests of processes need is
// when it ends and what it leaves, not what it solves.
func script(t *testing.T, name, body string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	return path
}

// Folder and files are closed to others while the solver runs.
func TestModes(t *testing.T) {
	seen := filepath.Join(t.TempDir(), "modes")
	fake := script(t, "cbc-spy", `ls -la > `+seen)
	dir := t.TempDir()
	_, err := (&mipSolver{command: fake, dir: dir}).Solve(bg, madeProblem(t, 1, 5, 2, objpert.Lattice(2)))
	require.ErrorIs(t, err, errNoPoint)
	b, err := os.ReadFile(seen)
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	require.Contains(t, lines[1], "drwx------")
	require.Contains(t, string(b), "-rw-------")
	require.NotContains(t, string(b), "-rw-r")
	require.Contains(t, string(b), "model.lp")
	empty(t, dir)
}

// The folder is gone after every way to end.
func TestFolderIsRemoved(t *testing.T) {
	p := madeProblem(t, 1, 5, 2, objpert.Lattice(2))
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"no answer": {"exit 0", errNoPoint},
		"failure":   {"exit 3", errNoPoint},
		"infeasible": {"echo 'Infeasible - objective value 0' > solution.sol; echo '0 r0_0 1 0' >> solution.sol",
			errNoPoint},
		"empty answer": {": > solution.sol", errNoPoint},
		"nonsense": {"echo 'Optimal - objective value x' > solution.sol; echo '0 r0_0 what' >> solution.sol",
			errNoPoint},
		"outside":       {"printf 'Optimal - objective value 1\n0 r0_2 1 0\n1 r1_2 1 0\n' > solution.sol", nil},
		"crash":         {"kill -9 $$", errNoPoint},
		"litter inside": {"mkdir a; echo x > a/b; exit 1", errNoPoint},
	} {
		dir := t.TempDir()
		sol, err := (&mipSolver{command: script(t, "cbc-"+strings.ReplaceAll(name, " ", "-"), c.body), dir: dir}).Solve(bg, p)
		if c.want == nil { // (1, 1) is inside ‖w‖² ≤ 2
			require.NoError(t, err, name)
			require.Equal(t, []int{1, 1}, sol.W)
		} else {
			require.ErrorIs(t, err, c.want, name)
		}
		empty(t, dir)
	}
	// a limit without end
	never := &mipSolver{
		command: script(t, "cbc-never", "sleep 0.1; printf 'Optimal - objective value 1\n0 r0_2 1 0\n1 r1_2 1 0\n' > "+
			"solution.sol"),
		dir:   t.TempDir(),
		limit: math.MaxInt64,
	}
	_, err := never.Solve(bg, p)
	require.NoError(t, err)
	empty(t, never.dir)

	// a point outside the ball
	q := madeProblem(t, 1, 5, 2, objpert.Space{Values: []int{-1, 0, 1}, NormSq: 1})
	_, err = (&mipSolver{command: script(t, "cbc-outside",
		"printf 'Optimal - objective value 1\nr0_2 1\nr1_2 1\n' > solution.sol"),
		dir: t.TempDir()}).Solve(bg, q)
	require.ErrorIs(t, err, errNoPoint)

	// cancelled and expired contexts: were the solver not killed, the test would not end
	dir := t.TempDir()
	sleep := &mipSolver{command: script(t, "cbc-sleep", "exec sleep 3600"), dir: dir}
	ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
	defer cancel()
	_, err = sleep.Solve(ctx, p)
	require.ErrorIs(t, err, objpert.ErrInterrupted)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	empty(t, dir)
	_, err = sleep.Solve(ctx, p)
	require.ErrorIs(t, err, objpert.ErrInterrupted)
	empty(t, dir)
}

// A solver that ignores its limit is killed, else the test would not end, and what it wrote before
// counts.
func TestLimit(t *testing.T) {
	if !testkit.Deep() {
		t.Skip("takes 12 seconds, most of which a busy machine may need to start the program")
	}
	dir := t.TempDir()
	o := &mipSolver{command: script(t, "cbc-hang",
		"printf '# Objective value = 1\nr0_2 1\nr1_1 1\n' > solution.sol; exec sleep 3600"),
		dir: dir, limit: 10 * time.Second}
	sol, err := o.Solve(bg, madeProblem(t, 1, 5, 2, objpert.Lattice(2)))
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, sol.W)
	empty(t, dir)
}

// SIGTERM ends Solve, not the process, and leaves no file: seen from outside, by
// a second process that runs this test.
func TestSignal(t *testing.T) {
	if dir := os.Getenv("MIP_TEST_SIGNAL_DIR"); dir != "" {
		_, err := (&mipSolver{command: os.Getenv("MIP_TEST_SIGNAL_COMMAND"), dir: dir}).Solve(
			bg,
			madeProblem(t, 1, 5, 2, objpert.Lattice(2)),
		)
		if errors.Is(err, objpert.ErrInterrupted) {
			fmt.Println("interrupted in order")
		}
		return
	}
	dir := t.TempDir()
	fake := script(t, "cbc-sleep", "exec sleep 60")
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSignal$", "-test.v")
		cmd.Env = append(os.Environ(), "MIP_TEST_SIGNAL_DIR="+dir, "MIP_TEST_SIGNAL_COMMAND="+fake)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		testkit.Until(func() bool {
			m, _ := filepath.Glob(filepath.Join(dir, "privopt-mip-*", "model.lp"))
			return len(m) == 1
		})
		require.NoError(t, cmd.Process.Signal(sig))
		require.NoError(t, cmd.Wait(), out.String())
		require.Contains(t, out.String(), "interrupted in order")
		empty(t, dir)
	}
	signal.Reset()
}

func TestRefusals(t *testing.T) {
	p := madeProblem(t, 1, 5, 2, objpert.Lattice(2))
	for _, o := range []*mipSolver{{}, {command: "highs"}, {command: "cbc-not-installed"}, {command: "/nowhere/cbc"}} {
		_, err := o.Solve(bg, p)
		require.ErrorIs(t, err, errCommand)
	}
	cbc := script(t, "cbc", "exit 1")
	for _, o := range []*mipSolver{
		{command: cbc, limit: -1}, {command: cbc, dir: filepath.Join(t.TempDir(), "absent")},
	} {
		_, err := o.Solve(bg, p)
		require.Error(t, err)
		require.NotErrorIs(t, err, errNoPoint)
	}
	_, err := (&mipSolver{command: cbc}).Solve(bg, nil)
	require.ErrorIs(t, err, objpert.ErrProblem)
	require.ErrorIs(t, writeLP(&bytes.Buffer{}, nil), objpert.ErrProblem)
	require.Error(t, writeLP(broken{}, p))
	junk := filepath.Join(t.TempDir(), "not-a-program")
	require.NoError(t, os.Mkdir(junk, 0o700))
	// An executable that the system cannot run.
	bad := filepath.Join(t.TempDir(), "cbc")
	require.NoError(t, os.WriteFile(bad, []byte{0, 1, 2}, 0o700))
	_, err = (&mipSolver{command: bad, dir: t.TempDir()}).Solve(bg, p)
	require.ErrorIs(t, err, errCommand)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// writeLP writes the model of p.
func writeLP(w io.Writer, p *objpert.Problem) error {
	m, err := newModel(p)
	if err != nil {
		return err
	}
	return m.writeLP(w)
}

// An LP file, as a reader sees it.
func Example_writeLP() {
	p, err := objpert.NewProblem([][]int64{{1, 1}, {1, 1}, {0, 1}}, []int{1, 1, -1}, nil, objpert.Lattice(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	if p, err = p.Perturb([][]int64{{0, 0, 2}, {-1, 0, 0}}, nil, -2); err != nil {
		fmt.Println(err)
		return
	}
	if err := writeLP(os.Stdout, p); err != nil {
		fmt.Println(err)
	}
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
