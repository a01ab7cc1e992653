// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/research/audit"
	"github.com/privopt/privopt/dp"
)

// audited runs the command.
func audited(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runAudit(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// One mechanism in the quick tier: every claim holds, and the files say so.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	j, p := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.png")
	code, stdout, stderr := audited(t, "-mechanism", "lop-clip", "-json", j, "-png", p)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "14 cases of the quick tier with seed 1")
	require.Equal(t, 14, strings.Count(stdout, "  holds  "), stdout)
	require.Zero(t, strings.Count(stdout, string(audit.Violated)))

	text, err := os.ReadFile(j)
	require.NoError(t, err)
	var rep report
	require.NoError(t, json.Unmarshal(text, &rep))
	require.Equal(t, schemaVersion, rep.SchemaVersion)
	require.Equal(t, "quick", rep.Tier)
	require.Len(t, rep.Cases, 14)
	for _, c := range rep.Cases {
		require.Equal(t, audit.Holds, c.Verdict)
		require.Equal(t, "lop.joint/2", c.Theorem)
		require.Equal(t, dp.Budget{Epsilon: 1, Delta: 0.01}, c.Claim)
		switch c.Layer {
		case audit.Exact:
			require.NotNil(t, c.Exact)
			require.Less(t, *c.Exact, 1.0)
			require.NotEmpty(t, c.Profile)
		case audit.BlackBox:
			require.NotNil(t, c.Lower)
			require.LessOrEqual(t, *c.Lower, 1.0)
		case audit.WhiteBox:
			require.Nil(t, c.Lower)
			require.GreaterOrEqual(t, *c.Power, 0.99)
		}
	}
	require.NotContains(t, string(text), "NaN")

	f, err := os.Open(p)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	require.Greater(t, img.Bounds().Dx(), 700)

	// Equal seeds, equal findings; another seed, others.
	_, again, _ := audited(t, "-mechanism", "lop-clip", "-quiet")
	_, other, quiet := audited(t, "-mechanism", "lop-clip", "-seed", "2", "-quiet")
	require.Equal(t, stdout, again)
	require.NotEqual(t, stdout, other)
	require.Empty(t, quiet)
}

// A sabotage is caught, with an exit code of its own.
func TestSabotage(t *testing.T) {
	code, stdout, stderr := audited(t, "-sabotage", "noise-0.5")
	require.Equal(t, sweep.ExitCondition, code)
	require.Empty(t, stdout)
	require.Regexp(t, `^audit: the sabotage noise-0.5 was caught: noise of half its scale; the case `+
		`lop/A1/logistic, d = 5 saw it: the test of .* has p (<|=) .*\n$`, stderr)
	code, _, stderr = audited(t, "-sabotage", "three-steps")
	require.Equal(t, sweep.ExitCondition, code)
	require.Contains(t, stderr, "released")
	j := filepath.Join(t.TempDir(), "s.json")
	code, _, stderr = audited(t, "-quiet", "-sabotage", "three-steps", "-json", j)
	require.Equal(t, sweep.ExitCondition, code, stderr)
	text, err := os.ReadFile(j)
	require.NoError(t, err)
	var rep report
	require.NoError(t, json.Unmarshal(text, &rep))
	require.Len(t, rep.Cases, 1)
	require.Equal(t, "three-steps", rep.Cases[0].Mechanism)
	require.NotEmpty(t, rep.Cases[0].Sabotage)
	require.Equal(t, audit.Violated, rep.Cases[0].Verdict)

	code, _, stderr = audited(t, "-sabotage", "three-steps", "-json", j)
	require.Equal(t, sweep.ExitUsage, code)
	require.Contains(t, stderr, "exists: choose another name, or -force")
	code, stdout, _ = audited(t, "-sabotage", "three-steps", "-json", "-")
	require.Equal(t, sweep.ExitCondition, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &rep))
}

// TestSeen: each way in which a claim is violated has its words.
func TestSeen(t *testing.T) {
	r := audit.Result{Finding: audit.Claimed(dp.Certificate{Budget: dp.Budget{Epsilon: 1}})}
	r.Lower = 1.5
	require.Equal(t, "the releases prove ε ≥ 1.5, above the claim 1", seen(&r))
	r.Lower, r.Exact = math.NaN(), 2
	require.Equal(t, "the exact ε is 2, above the claim 1", seen(&r))
	r.Lower, r.Exact = 0.4851, 0.4
	require.Equal(t, "the releases prove ε ≥ 0.4851, and a correct mechanism has 0.4", seen(&r))
	r.Tests = []audit.Test{{Name: "norms", P: 0}}
	require.Equal(t, "the test of norms has p < 1e-16", seen(&r))
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-sabotage nothing", "want one of"},
		{"-sabotage noise-0.9 -tier ci", "no meaning"},
		{"-list -png a.png", "no meaning"},
		{"-mechanism all,lop", "want all, or a list"},
		{"-mechanism sgd", "lop-clip"},
		{"-tier slow", "quick, ci, long"},
		{"-seed -1", "whole number"},
		{"-jsn a", "did you mean -json?"},
		{"extra", "everything is a flag"},
	} {
		code, stdout, stderr := audited(t, strings.Fields(c.args)...)
		require.Equal(t, sweep.ExitUsage, code, c.args)
		require.Empty(t, stdout, c.args)
		require.Contains(t, stderr, c.want, c.args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), c.args)
	}
	code, stdout, _ := audited(t, "-h")
	require.Zero(t, code)
	require.Contains(t, stdout, "-sabotage")
	code, stdout, _ = audited(t, "-list", "-mechanism", "qop")
	require.Zero(t, code)
	require.Contains(t, stdout, "A13")
	require.Contains(t, stdout, "qop/A3/least squares")
	require.NotContains(t, stdout, "lop/A1/logistic")
	require.Contains(t, stdout, "degrees-5")
	require.NotContains(t, stdout, "ziggurat")
}

// What a run cannot do is an error with its code, never a panic.
func TestFailures(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "no", "such", "file")
	for _, flag := range []string{"-json", "-png"} {
		code, _, stderr := audited(t, flag, nowhere)
		require.Equal(t, sweep.ExitUsage, code)
		require.Contains(t, stderr, "a folder that exists")
	}
	code, _, stderr := audited(t, "-mechanism", "score", "-png", filepath.Join(t.TempDir(), "a.png"))
	require.Equal(t, sweep.ExitUsage, code)
	require.Contains(t, stderr, "none of the cases has a privacy profile")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, sweep.ExitInterrupted, runAudit(ctx, nil, &out, &errs))
	require.Empty(t, out.String())
	out.Reset()
	require.Equal(t, sweep.ExitInterrupted, runAudit(ctx, []string{"-sabotage", "noise-0.9"}, &out, &errs))

	r, w := io.Pipe()
	r.Close()
	require.Equal(t, sweep.ExitFailure, runAudit(t.Context(), []string{"-list"}, w, &errs))
}

// Findings become exit codes.
func TestJudge(t *testing.T) {
	holds := audit.Result{Mechanism: "m", Case: audit.Case{Name: "c"}, Finding: audit.Claimed(dp.Certificate{})}
	require.ErrorIs(t, judge([]audit.Result{holds}), errBlind, "nothing measured")
	holds.Runs = 100
	violated, blind, failed := holds, holds, holds
	violated.Reason = "because"
	blind.Power, blind.Finding.Least = 0.5, 0.99
	failed.Err = errors.New("boom")
	require.NoError(t, judge([]audit.Result{holds, holds}))
	require.Equal(t, sweep.ExitCondition, sweep.ExitCode(judge([]audit.Result{holds, violated, blind})))
	require.ErrorContains(t, judge([]audit.Result{holds, violated}), "1 of 2 claims are violated: m/c")
	require.ErrorIs(t, judge([]audit.Result{holds, blind}), errBlind)
	require.Equal(t, sweep.ExitFailure, sweep.ExitCode(judge([]audit.Result{blind})))
	require.ErrorContains(t, judge([]audit.Result{failed}), "boom")

	var b bytes.Buffer
	require.NoError(t, table(&b, []audit.Result{failed, violated}))
	require.Contains(t, b.String(), "not measured")
	require.Contains(t, b.String(), "m/c: because")
	require.ErrorIs(t, table(broken{}, []audit.Result{holds}), syscall.EPIPE)
	require.Nil(t, number(math.Inf(1)))
	require.Equal(t, "–", power(math.NaN()))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }
