// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/testkit"
)

// made runs the command run.
func made(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runSome(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// remade runs the command results, as if there were some jobs only.
func remade(t *testing.T, jobs []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = (&bench{jobs: jobs}).command("results", "", resultsHelp, t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// tables returns the CSV files of a folder that hold no times.
func tables(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	require.NoError(t, err)
	all := map[string]string{}
	for _, path := range found {
		if name := filepath.Base(path); !strings.Contains(name, "seconds") {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all[name] = string(text)
		}
	}
	return all
}

// TestResults: every job that has what it needs works in small, and a second run into another
// folder gives the same tables: of quick jobs unless PRIVOPT_DEEP is set. The jobs of many seconds
// run with PRIVOPT_LONG only.
func TestResults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the commands and runs every job twice")
	}
	t.Setenv("PRIVOPT_PEERS", "") // minutes of Python
	first, second := t.TempDir(), t.TempDir()
	all := names()
	if !testkit.Long() {
		all = slices.DeleteFunc(all, func(name string) bool {
			return slices.Contains([]string{
				"diameter", "sweep-n", "bound", "calibrations", "scores", "population-stat", "population-d",
			}, name)
		})
	}
	code, stdout, stderr := remade(t, all, "-small", "-out", first)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "speed              kept as shipped: PRIVOPT_PEERS is not set")
	for _, j := range jobs {
		if !slices.Contains(all, j.name) {
			continue
		}
		if len(j.missing()) > 0 {
			require.Contains(t, stdout, j.name+strings.Repeat(" ", max(0, 18-len(j.name)))+" kept as shipped")
			continue
		}
		require.Contains(t, stdout, j.name+strings.Repeat(" ", max(0, 18-len(j.name)))+" made in")
	}
	pictures, err := filepath.Glob(filepath.Join(first, "*.png"))
	require.NoError(t, err)
	require.Greater(t, len(pictures), testkit.Of(9, 14))
	for _, path := range pictures {
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = png.Decode(f)
		require.NoError(t, err, path)
		require.NoError(t, f.Close())
	}

	again := names()
	if !testkit.Deep() {
		again = strings.Fields(testkit.Of("", "diameter sweep-n calibrations population ") + "sweep-d sweep-eps lowbits")
	}
	code, _, stderr = made(t, append(again, "-small", "-out", second)...)
	require.Zero(t, code, stderr)
	whole := tables(t, first)
	for name, table := range tables(t, second) {
		require.Equal(t, whole[name], table, name)
	}
	require.Greater(t, len(whole), testkit.Of(8, 15))
	require.Greater(t, len(tables(t, second)), testkit.Of(2, 5))
	old := tables(t, second) // another seed is another run
	code, stdout, _ = made(t, "lowbits", "sweep-d", "-small", "-out", second, "-seed", "2")
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(stdout, "made in"))
	require.NotEqual(t, old["sweep-d.csv"], tables(t, second)["sweep-d.csv"])
}

func TestResultsUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"lowbits -small", "-small needs -out"},
		{"lowbit -small", "did you mean lowbits?"},
		{"lowbits -seed 0", "want a whole number"},
		{"-seed 1 lowbits", "everything is a flag"},
	} {
		code, stdout, stderr := made(t, strings.Fields(c.args)...)
		require.Equal(t, sweep.ExitUsage, code, c.args)
		require.Empty(t, stdout, c.args)
		require.Contains(t, stderr, c.want, c.args)
	}
	code, stdout, _ := made(t)
	require.Zero(t, code)
	for _, j := range jobs {
		require.Contains(t, strings.Join(strings.Fields(stdout), " "), j.what)
	}
}

// TestShipped: docs/results.md shows every picture and table of docs/results, and no
// other; every job has its command there.
func TestShipped(t *testing.T) {
	text, err := os.ReadFile("../../docs/results.md")
	require.NoError(t, err)
	entries, err := os.ReadDir("../../docs/results")
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			require.Contains(t, string(text), "results/"+e.Name(), "a file that docs/results.md does not show")
		}
	}
	for _, word := range strings.FieldsFunc(string(text), func(r rune) bool {
		return strings.ContainsRune(" ()`,;\n",
			r)
	}) {
		if strings.HasPrefix(word, "results/") {
			_, err := os.Stat(filepath.Join("../../docs", word))
			require.NoError(t, err, word)
		}
	}
	for _, j := range jobs {
		command := `go -C cmd/research run \. run ([a-z-]+ )*` + j.name + `\b`
		require.Regexp(t, command, string(text), "docs/results.md has no command for the job")
	}
}

// TestLostRows: the reading of a race with two peers.
func TestLostRows(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"race.csv": "sweep,value,method,runs,mean,std,stderr,ols\neps,1,a,2,0.5,0.1,0.1,0.75\neps,1,b,2,-9,0.1,0.1,0.5\n",
		"peer.csv": "part,sweep,value,method,runs,mean,std,stderr\nP,eps,1,a,2,0.25,0,0\nP,eps,1,b,2,0.5,0,0\n" +
			"P,eps,1,c,2,0.5,0,0\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var rows []row
	for _, name := range []string{"race.csv", "peer.csv"} {
		more, err := results(filepath.Join(dir, name))
		require.NoError(t, err)
		rows = append(rows, more...)
	}
	got := lost(rows)
	require.Len(t, got, 2)
	require.Equal(t, "P", got[0].Method)
	require.InDelta(t, (0.5+0)/2, got[0].Mean, 1e-12)
	require.Equal(t, "model.Fit", got[1].Method)
	require.InDelta(t, (0.25+1)/2, got[1].Mean, 1e-12)
}
