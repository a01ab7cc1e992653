package sweep

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary stand in for a program that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SWEEP_TEST_DIR"); dir != "" {
		Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			e := newToy()
			e.hook = func(int64) { time.Sleep(10 * time.Millisecond) }
			o := seeded(dir)
			o.Workers, o.Resume, o.JSON = 2, true, os.Getenv("SWEEP_TEST_JSON") != ""
			_, err := e.Run(ctx, o, stdout, stderr)
			report(stderr, "toy", err)
			return ExitCode(err)
		})
	}
	os.Exit(m.Run())
}

func child(dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "SWEEP_TEST_DIR="+dir), env...)
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

// TestKill kills a program at arbitrary moments. A finished cell is never lost
// and never doubled, and the end is that of an uninterrupted run.
func TestKill(t *testing.T) {
	want := t.TempDir()
	_, _, err := runToy(t.Context(), newToy(), seeded(want))
	require.NoError(t, err)
	dir := t.TempDir()
	killed := 0
	for i := range 6 {
		before := kept(dir)
		cmd := child(dir)
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(20+7*i) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		if cmd.Wait() != nil {
			killed++
		}
		after := kept(dir)
		for c := range before {
			require.Contains(t, after, c)
		}
	}
	require.Positive(t, killed)
	out, err := child(dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, contents(t, want), contents(t, dir), "not even a temporary file is left")
}

func TestInterruptSignal(t *testing.T) {
	dir := t.TempDir()
	cmd := child(dir)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(kept(dir)) > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	require.Equal(t, ExitInterrupted, cmd.ProcessState.ExitCode())
	require.NotEmpty(t, kept(dir))
}

// TestClosedPipe is `program -json | head -1`.
func TestClosedPipe(t *testing.T) {
	cmd := child(t.TempDir(), "SWEEP_TEST_JSON=1")
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
