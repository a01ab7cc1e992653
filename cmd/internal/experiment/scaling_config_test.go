package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// writeData makes a small CSV whose label is not the last column, and an anchor.
func writeData(t *testing.T) (data, anchor string) {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("a,y,b\n")
	for i := range 30 {
		fmt.Fprintf(&b, "%v,%v,%v\n", float64(i%5)/5, float64(i%7)/7-0.3, float64(i%3)/3)
	}
	data, anchor = filepath.Join(dir, "data.csv"), filepath.Join(dir, "anchor.csv")
	require.NoError(t, os.WriteFile(data, []byte(b.String()), 0o600))
	require.NoError(t, os.WriteFile(anchor, []byte("theta\n0.5\n-0.25\n"), 0o600))
	return data, anchor
}

func TestUserData(t *testing.T) {
	data, anchor := writeData(t)
	common := []string{"-data", data, "-label", "y", "-kappas", "2", "-runs", "2", "-formats", "csv,json"}
	dir := t.TempDir()
	code, stdout, stderr := callScaling(t, append(common, "-bound-row", "1", "-bound-label", "1", "-anchor", anchor, "-out", dir)...)
	require.Zero(t, code, stderr)
	const label = "NOT PRIVATE: risks are measured on the records of -data"
	require.True(t, strings.HasPrefix(stdout, label))
	require.Contains(t, stderr, "publishing all 12 releases, or the best of them, would cost (ε = 6, δ = 0.12) together")
	require.NotContains(t, stderr, "caller's random source", "nobody has to vouch for secure noise")
	s := scalingResults(t, dir)
	require.InDelta(t, 6, s.Composed.Epsilon, 1e-9)
	require.Zero(t, s.AnchorError)
	require.Equal(t, 1.0, s.Cells[2].constant("clip"), "the largest gradient at zero")
	require.Equal(t, "kappa (not private)", readRows(t, filepath.Join(dir, "risk.csv"))["lop"][0].sweep)

	code, _, stderr = callScaling(t, append(common, "-bound-row", "1", "-bound-label", "1", "-methods", "lop,nonprivate", "-sweep", "eps",
		"-values", "1,2", "-out", t.TempDir())...)
	require.Equal(t, sweep.ExitUsage, code, "-kappas has no meaning there")
	require.Contains(t, stderr, "-kappas")
	code, _, stderr = callScaling(t, "-data", data, "-label", "y", "-bound-row", "1", "-bound-label", "1", "-methods", "lop,nonprivate", "-sweep",
		"eps", "-values", "1,2", "-runs", "2", "-out", t.TempDir())
	require.Zero(t, code, stderr)
	code, _, stderr = callScaling(t, append(common, "-mode", "paper", "-methods", "lop,lop-clip,nonprivate", "-iters", "5", "-out",
		t.TempDir())...)
	require.Zero(t, code, stderr)
	code, _, stderr = callScaling(t, append(common, "-mode", "paper", "-bound-row", "1", "-bound-label", "1", "-anchor", anchor, "-iters", "5",
		"-out", t.TempDir())...)
	require.Zero(t, code, stderr)
}

func TestHelpAndVersion(t *testing.T) {
	code, stdout, stderr := callScaling(t, "-h")
	require.Zero(t, code)
	require.Empty(t, stderr)
	for _, name := range strings.Fields("n d xi lambda eps delta rho runs iters kappa-min kappa-max kappas anchor-noise clip eta kappa " +
		"methods mode sweep values seed workers out force formats data label bound-row bound-label anchor resume quiet progress json version " +
		"calibration figure") {
		require.Contains(t, stdout, "\n  -"+name, name)
	}
	code, stdout, _ = callScaling(t, "-version")
	require.Zero(t, code)
	require.Contains(t, stdout, "scaling")
}

// Every bad flag, file or budget: one line that names it, exit code 2, nothing
// on standard output and no folder made.
func TestBadFlags(t *testing.T) {
	data, anchor := writeData(t)
	bounds := "-label y -bound-row 1 -bound-label 1 "
	broken := filepath.Join(t.TempDir(), "broken.csv")
	require.NoError(t, os.WriteFile(broken, []byte("a,y,b\n1,2,3\n1,secret7,3\n"), 0o600))
	short := filepath.Join(t.TempDir(), "short.csv")
	require.NoError(t, os.WriteFile(short, []byte("theta\n0.5\n"), 0o600))
	cases := map[string][]string{
		"-kappa-min 10 -kappa-max 1":               {"-kappa-min", "10", "-kappa-max"},
		"-kappa-min 1 -kappa-max 1":                {"-kappas"},
		"-methods lop,magic":                       {"-methods", "lop,magic", "lop-clip"},
		"-methods lop,lop":                         {"-methods", "repetition"},
		"-mode private":                            {"-mode", "private", "certified"},
		"-calibration loose":                       {"-calibration", "loose", "sharp"},
		"-sweep lambda":                            {"-sweep", "lambda", "kappa, n, d, eps"},
		"-figure 3":                                {"-figure", "bound"},
		"-formats gif":                             {"-formats", "png"},
		"-values 1,two":                            {"-values", "two"},
		"-values 1,1":                              {"-values", "twice"},
		"-values 0":                                {"-values", "(0,"},
		"-values 1 -kappas 3":                      {"-kappas", "-values"},
		"-sweep n -values 2.5":                     {"-values", "2.5", "whole number"},
		"-sweep n -kappas 3":                       {"-kappas", "-sweep n"},
		"-sweep d -values 9999":                    {"-values", "9999", "5000"},
		"-n 10000000 -d 5000":                      {"-n", "-d", "2e+08"},
		"-label y":                                 {"-label", "-data"},
		"-anchor " + anchor:                        {"-anchor", "-data"},
		"-bound-row 1":                             {"-bound-row", "-data"},
		"-data " + data:                            {"-label"},
		"-data " + data + " -label y":              {"-bound-row"},
		"-data " + data + " -label y -bound-row 1": {"-bound-label"},
		"-data " + data + " " + bounds:             {"qop", "-anchor"},
		"-data " + data + " " + bounds + "-n 5":    {"-n", "-data"},
		"-data " + data + " " + bounds + "-xi 5":   {"-xi", "-bound-row"},
		"-data " + data + " " + bounds + "-sweep n -methods lop":               {"-sweep", "kappa or eps"},
		"-data /no/such/file " + bounds + "-methods lop":                       {"-data", "/no/such/file"},
		"-data /tmp " + bounds + "-methods lop":                                {"-data", "folder"},
		"-data " + broken + " " + bounds + "-methods lop":                      {"-data", "line 3"},
		"-data " + data + " -label z -bound-row 1 -bound-label 1 -methods lop": {"-data", "z"},
		"-data " + data + " " + bounds + "-anchor " + short:                    {"-anchor", "2"},
		"-data " + data + " " + bounds + "-anchor /no/such/file":               {"-anchor", "/no/such/file"},
		"-mode paper -eta 1":                                       {"-eta", "paper"},
		"-mode paper -calibration sharp":                           {"-calibration", "paper"},
		"-mode paper -clip 100":                                    {"-clip", "100", "10000"},
		"-mode paper -delta 0":                                     {"-delta", "(0, 1)"},
		"-calibration paper -eta 1":                                {"-eta", "sharp"},
		"-figure bound -n 5":                                       {"-n", "bound"},
		"-figure bound -eps 3":                                     {"-eps", "bound"},
		"-mode paper -eps 1e-303 -n 3 -d 1 -kappas 1 -methods lop": {"Epsilon", "1e-303"},
		"-delta 0 -kappas 2 -methods qop":                          {"Delta"},
		"-eps 1e-300 -kappas 2":                                    {"Epsilon", "1e-300"},
		"-delta 1e-310 -kappas 2":                                  {"Delta"},
		"-resume -force":                                           {"-resume", "-force"},
		"-seed x":                                                  {"-seed"},
		"-label":                                                   {"-label"},
		"kappa":                                                    {`"kappa"`},
	}
	for name, upper := range map[string]string{"n": "x", "d": "5001", "xi": "1e7", "lambda": "1e10", "eps": "1e6", "delta": "1", "rho": "1e7",
		"runs": "1e9", "iters": "1e10",
		"kappa-min": "1e10", "kappa-max": "1e10", "kappas": "1e6", "anchor-noise": "1e7", "clip": "1e13", "eta": "1e7", "kappa": "1e10",
		"workers": "1e6", "bound-row": "1e10", "bound-label": "1e10"} {
		for _, v := range []string{"NaN", "Inf", "-Inf", "-1", "1,5", "abc", upper} {
			cases["-"+name+" "+v] = []string{"-" + name, v, "want a ", "for example"}
		}
	}
	for _, name := range []string{"n", "d", "xi", "eps", "runs", "iters", "kappa-min", "kappa-max", "kappas", "kappa", "bound-row",
		"bound-label"} {
		cases["-"+name+" 0"] = []string{"-" + name, "0", "want a "}
	}
	for _, name := range []string{"n", "d", "runs", "iters", "kappas", "workers"} {
		cases["-"+name+" 2.5"] = []string{"-" + name, "2.5", "whole number"}
	}
	for args, want := range cases {
		out := filepath.Join(t.TempDir(), "out")
		code, stdout, stderr := callScaling(t, append([]string{"-out", out, "-quiet"}, strings.Fields(args)...)...)
		require.Equal(t, sweep.ExitUsage, code, "%s: %s", args, stderr)
		require.Empty(t, stdout, args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s: %s", args, stderr)
		require.True(t, strings.HasPrefix(stderr, "scaling: "), stderr)
		require.NotContains(t, stderr, "secret7", "a field of the data is never shown")
		for _, w := range want {
			require.Contains(t, stderr, w, args)
		}
	}
}
