// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

func TestFlags(t *testing.T) {
	type parsed struct {
		o    Options
		n    int
		eps  float64
		mode string
	}
	run := func(args ...string) (p parsed, code int, stdout, stderr string) {
		f := NewFlags("toy", "A toy.")
		p.o.Register(f, "toy-out")
		f.IntVar(&p.n, "n", 300, Between(1, 1e6), "records `N`")
		f.FloatVar(&p.eps, "eps", 0.5, Positive(1e5), "budget `E`")
		f.ChoiceVar(&p.mode, "mode", "fast", []string{"fast", "slow"}, "mode")
		var out, errs bytes.Buffer
		code = f.Run(args, &out, &errs, &p.o, func() error {
			if f.Given("n") {
				fmt.Fprint(&out, "n given")
			}
			return nil
		})
		return p, code, out.String(), errs.String()
	}

	p, code, stdout, stderr := run()
	require.Zero(t, code)
	require.Empty(t, stdout+stderr)
	require.Equal(t, parsed{Options{Out: "toy-out", Formats: allFormats}, 300, 0.5, "fast"}, p)

	p, code, stdout, stderr = run(
		"-n",
		"5e2",
		"-eps=2",
		"-mode",
		"slow",
		"-seed",
		"0",
		"-formats",
		"csv,png",
		"-workers",
		"3",
		"-resume",
		"-out",
		"x",
	)
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Equal(t, "n given", stdout)
	require.Zero(t, *p.o.Seed)
	require.Equal(t, 500, p.n)
	require.Equal(t, []string{"csv", "png"}, p.o.Formats)

	_, code, stdout, stderr = run("-h")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "-workers N")
	require.Contains(t, stdout, "(default 0.5)")
	_, code, stdout, stderr = run("-version")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Regexp(t, `^toy \S+ go1`, stdout)

	// Every refusal is one line with the flag, the value and what would do.
	for _, bad := range []struct {
		args string
		want []string
	}{
		{"-n 0", []string{"-n", `"0"`, "whole number in [1, 1e+06]", "for example 1"}},
		{"-n 1.5", []string{"-n", `"1.5"`, "whole number"}},
		{"-n x", []string{"-n", `"x"`, "whole number"}},
		{"-n 1e400", []string{"-n", "whole number"}},
		{"-eps 0", []string{"-eps", `"0"`, "number in (0, 100000]"}},
		{"-eps NaN", []string{"-eps", `"NaN"`, "number in"}},
		{"-eps -Inf", []string{"-eps", `"-Inf"`, "number in"}},
		{"-eps +Inf", []string{"-eps", "number in"}},
		{"-eps 1,5", []string{"-eps", `"1,5"`}},
		{"-mode medium", []string{"-mode", `"medium"`, "fast, slow"}},
		{"-formats gif", []string{"-formats", `"gif"`, "csv,json,png,svg"}},
		{"-formats csv,csv", []string{"-formats", "repetition"}},
		{"-seed -1", []string{"-seed", `"-1"`, "18446744073709551615"}},
		{"-workers -2", []string{"-workers", `"-2"`, "[0, 1024]"}},
		{"-force -resume", []string{"-force", "-resume"}},
		{"-force=maybe", []string{"-force", "maybe"}},
		{"-nope", []string{"-nope", "-h"}},
		{"-n", []string{"-n", "argument"}},
		{"stray", []string{`"stray"`, "-h"}},
	} {
		_, code, stdout, stderr := run(strings.Fields(bad.args)...)
		require.Equal(t, ExitUsage, code, bad.args)
		require.Empty(t, stdout, bad.args)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s: %s", bad.args, stderr)
		for _, w := range bad.want {
			require.Contains(t, stderr, w, bad.args)
		}
	}
	_, code, _, stderr = run("-out", "")
	require.Equal(t, ExitUsage, code)
	require.Contains(t, stderr, "-out")
	_, code, _, stderr = run("-mode", "a\nb")
	require.Equal(t, ExitUsage, code)
	require.Equal(t, 1, strings.Count(stderr, "\n"))
}

func TestParseValues(t *testing.T) {
	v, err := ParseValues("values", " 1, 2.5,1e3", Positive(1e6), false)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2.5, 1000}, v)
	for _, bad := range []string{"", "1,", "1,x", "1,NaN", "1,Inf", "0", "-1", "1e7", "1,1.0"} {
		_, err := ParseValues("values", bad, Positive(1e6), false)
		require.ErrorIs(t, err, ErrUsage, bad)
		require.Contains(t, err.Error(), "-values")
	}
	_, err = ParseValues("values", "1.5", Positive(10), true)
	require.ErrorContains(t, err, "whole number")
}

// A file is replaced only by force; standard output always.
func TestReplace(t *testing.T) {
	require.ErrorIs(t, Replace("png", os.Args[0], false), ErrUsage)
	require.ErrorContains(t, Replace("png", os.Args[0], false), "-force to replace it")
	for _, path := range []string{"", "-", "/no/such/file"} {
		require.NoError(t, Replace("png", path, false))
	}
	require.NoError(t, Replace("png", os.Args[0], true))
}

func TestReadFile(t *testing.T) {
	for _, path := range []string{"/no/such/file", t.TempDir()} {
		_, _, err := ReadFile("data", path, io.ReadAll)
		require.Equal(t, path == "/no/such/file", ExitCode(err) == ExitFailure)
		require.Contains(t, err.Error(), "-data")
		require.Contains(t, err.Error(), path)
	}
	_, info, err := ReadFile("data", os.Args[0], func(io.Reader) (int, error) { return 0, nil })
	require.NoError(t, err)
	require.Equal(t, os.Args[0], info.Path)
	require.NotEmpty(t, info.Modified)
	_, _, err = ReadFile("data", os.Args[0], func(io.Reader) (int, error) { return 0, io.ErrUnexpectedEOF })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "flag -data: ")
}

func TestExitCodes(t *testing.T) {
	for err, code := range map[error]int{
		nil:                        0,
		flag.ErrHelp:               0,
		errors.New("x"):            1,
		Usagef("x"):                2,
		dp.ErrBudget:               2,
		dp.ErrCondition:            3,
		dp.ErrWithheld:             4,
		context.Canceled:           130,
		os.ErrPermission:           1,
		Usagef("%w", flag.ErrHelp): 0,
	} {
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		require.Equal(t, code, ExitCode(err), "%v", err)
	}
}

// TestProgress: a bar on a terminal, which echoes it here, and nothing elsewhere, nor for users who
// ask for plain text.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	add, end := Progress(&b, false, "toy", 3, 0)
	add()
	end()
	require.Empty(t, b.String(), "silent without a terminal")

	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	shown := func(quiet bool) string {
		tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Skip("no terminal here")
		}
		defer tty.Close()
		add, end := Progress(tty, quiet, "toy", 3, 1)
		add()
		end()
		fmt.Fprint(tty, "the end")
		var text []byte
		for part := make([]byte, 4096); !bytes.Contains(text, []byte("the end")); {
			n, err := tty.Read(part)
			require.NoError(t, err)
			text = append(text, part[:n]...)
		}
		return string(text)
	}
	require.Contains(t, shown(false), "toy")
	require.Equal(t, "the end", shown(true))
	for _, env := range [][2]string{{"NO_COLOR", "1"}, {"TERM", "dumb"}} {
		t.Setenv(env[0], env[1])
		require.Equal(t, "the end", shown(false), env)
		os.Unsetenv(env[0])
	}
}
