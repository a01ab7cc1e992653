// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// TestMain lets the test binary stand in for a program that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SWEEP_TEST_DIR"); dir != "" {
		Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			e := newToy()
			e.hook = func(int64) { time.Sleep(10 * time.Millisecond) }
			o := seeded(dir)
			o.Workers, o.Resume = 2, true
			_, err := e.Run(ctx, o, stdout, stderr)
			report(stderr, "toy", err)
			return ExitCode(err)
		})
	}
	os.Exit(m.Run())
}

func child(dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SWEEP_TEST_DIR="+dir)
	return cmd
}

// kept returns the intact cells of a checkpoint.
func kept(dir string) map[string]bool {
	text, _ := os.ReadFile(filepath.Join(dir, checkpointName))
	cells := map[string]bool{}
	for _, line := range strings.SplitAfter(string(text), "\n") {
		var r Result
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &r) == nil && r.Method != "" {
			cells[key(r.Value, r.Method)] = true
		}
	}
	return cells
}

// TestHundredKills kills programs a hundred times, at moments spread over what a
// run takes, and resumes them: no finished cell is lost or doubled, no half file
// or temporary file stays, and each end is that of an uninterrupted run.
func TestHundredKills(t *testing.T) {
	kills := testkit.Of(12, 100)
	want := t.TempDir()
	start := time.Now()
	out, err := child(want).CombinedOutput()
	require.NoError(t, err, string(out))
	whole := time.Since(start)
	killed, finished := 0, 0
	for n := 0; killed < kills; n++ {
		dir := t.TempDir()
		for sitting := 0; ; sitting++ {
			before := kept(dir)
			cmd := child(dir)
			require.NoError(t, cmd.Start())
			// The golden ratio spreads the moments over the whole run.
			_, part := math.Modf(0.6180339887 * float64(killed+7*n+sitting))
			time.Sleep(time.Duration(part * float64(whole)))
			require.NoError(t, cmd.Process.Kill())
			done := cmd.Wait() == nil
			after := kept(dir)
			for c := range before {
				require.Contains(t, after, c, "a finished cell is lost")
			}
			if !done {
				killed++
			} else {
				whole -= whole / 10 // the machine was busier when it was measured
			}
			if done || killed >= kills || sitting > 8 {
				break
			}
		}
		out, err := child(dir).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, contents(t, want), contents(t, dir))
		finished++
	}
	require.Positive(t, finished)
}

// TestInterruptSignal interrupts a run after its first cell. A run that ends before the signal
// arrives, as on a busy machine, is repeated.
func TestInterruptSignal(t *testing.T) {
	for {
		dir := t.TempDir()
		cmd := child(dir)
		require.NoError(t, cmd.Start())
		testkit.Until(func() bool { return len(kept(dir)) > 0 })
		cmd.Process.Signal(os.Interrupt) // an error if the process has ended
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != ExitOK {
			require.Equal(t, ExitInterrupted, code)
			require.NotEmpty(t, kept(dir))
			return
		}
	}
}

// TestClosedPipe is `program | head -0`.
func TestClosedPipe(t *testing.T) {
	cmd := child(t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, out.Close())
	cmd.Wait()
	require.Equal(t, ExitFailure, cmd.ProcessState.ExitCode())
	require.NotContains(t, stderr.String(), "goroutine")
	require.NotContains(t, stderr.String(), "pipe")
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	cmd := child(t.TempDir())
	cmd.Stdout = full
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Run()
	require.Equal(t, ExitFailure, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "no space left")
}

// TestNothingIsLeft: a run leaves no goroutine and no open file behind.
func TestNothingIsLeft(t *testing.T) {
	count := func() (goroutines, files int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc/self/fd here")
		}
		return runtime.NumGoroutine(), len(entries)
	}
	_, _, err := runToy(t.Context(), newToy(), seeded(t.TempDir())) // fonts and caches are opened once
	require.NoError(t, err)
	goroutines, files := count()
	for range 5 {
		dir := t.TempDir()
		_, _, err := runToy(t.Context(), newToy(), seeded(dir))
		require.NoError(t, err)
		left, err := filepath.Glob(filepath.Join(dir, ".*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	testkit.Until(func() bool { // goroutines take a moment to end
		g, f := count()
		return g <= goroutines && f <= files
	})
}

// TestReadOnlyFolder: a folder that cannot be written to is the caller's to
// change, and nothing is left in it.
func TestReadOnlyFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("the superuser may write anywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	defer os.Chmod(dir, 0o755)
	_, stderr, err := runToy(t.Context(), newToy(), seeded(dir))
	require.Error(t, err, stderr)
	require.NotZero(t, ExitCode(err))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
