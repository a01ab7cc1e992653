package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// inToy runs f in a copy of the module of testdata.
func inToy(t *testing.T, equivalents string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "toy"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "equivalents.txt"), []byte(equivalents), 0o600))
	t.Chdir(dir)
	var out, errs bytes.Buffer
	code = run(t.Context(), []string{"-files", "toy.go", "-tests", ".", "-equivalents", "equivalents.txt", "-least", "0.97", "-v"}, &out,
		&errs)
	return code, out.String(), errs.String()
}

// TestToy: the mutants that the toy's tests cannot see survive, all others are
// killed, among them one that never ends.
func TestToy(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a module and waits for a mutant that never ends")
	}
	code, stdout, stderr := inToy(t, "# none\n")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stdout, "toy.go:18 Unseen: * → /: func Unseen(x float64)")
	require.Contains(t, stdout, "23 of 23 mutants run", stdout)
	require.Contains(t, stdout, "22 killed, 1 survived, 0 documented equivalents: 95.7 %", stdout)
	require.Contains(t, stderr, "Mix: < → >=: if x < y && n != 0 {  TestMix")
	require.Contains(t, stderr, "Mix: != → ==: if x < y && n != 0 {  TestMix")
	require.Contains(t, stderr, "Mix: third → ·15/16: ")
	require.Contains(t, stderr, "crash or timeout")
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-files", "a.go"}, {"-x"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(t.Context(), args, &out, &errs))
		require.NotEmpty(t, errs.String())
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-files", "a.go,b/c.go", "-tests", ".", "-equivalents", ""}, &out, &errs))
	require.Contains(t, errs.String(), "different folders")
	require.Equal(t, 1, run(t.Context(), []string{"-files", "a.go", "-tests", ".", "-equivalents", "none"}, &out, &errs))
}

// TestEquivalentsName: every documented equivalent still names a line.
func TestEquivalentsName(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	list, err := readEquivalents(filepath.Join("tools", "mutate", "equivalents.txt"))
	require.NoError(t, err)
	for _, e := range list {
		text, err := os.ReadFile(e.file)
		require.NoError(t, err, "%+v", e)
		require.Contains(t, string(text), e.piece, "%+v", e)
		require.NotEmpty(t, e.reason)
	}
}
