// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Convergence(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// row returns the cells of a method in the table.
func row(t *testing.T, table, method string) []string {
	for _, line := range strings.Split(table, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, method+" ") {
			return strings.Fields(strings.TrimPrefix(line, method+" "))
		}
	}
	t.Fatalf("no row %q in\n%s", method, table)
	return nil
}

func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("three problems by eighteen methods: eight seconds")
	}
	dir := filepath.Join(t.TempDir(), "new")
	code, stdout, stderr := program(t, "-out", dir)
	require.Zero(t, code, stderr)
	for _, f := range figures {
		file, err := os.Open(filepath.Join(dir, "convergence-"+f.name+".png"))
		require.NoError(t, err)
		_, err = png.Decode(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	// What the pictures say.
	for _, m := range []string{"StochasticTOS, fixed step", "StochasticTOS, root", "StochasticTOS, strongly convex"} {
		require.Equal(t, []string{"—", "—"}, row(t, stdout, m)[4:], m)
	}
	for _, m := range []string{"VarianceReducedTOS, SAGA", "VarianceReducedTOS, SVRG"} {
		require.NotEqual(t, "—", row(t, stdout, m)[4], m)
	}
	adaptive := stdout[strings.Index(stdout, "adaptive"):strings.Index(stdout, "bias:")]
	require.NotEqual(t, "—", row(t, adaptive, "DavisYin, search")[4])
	require.Equal(t, "—", row(t, adaptive, "DavisYin, 1.9/L")[4])
}

func TestArguments(t *testing.T) {
	code, stdout, _ := program(t, "-h")
	require.Zero(t, code)
	require.Contains(t, stdout, "-figure")
	for _, args := range [][]string{{"-figure", "none"}, {"-nope"}, {"more"}} {
		code, _, stderr := program(t, args...)
		require.Equal(t, 2, code)
		require.NotEmpty(t, stderr)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	code, _, stderr := program(t, "-figure", "adaptive", "-out", file)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, file)
	dir := t.TempDir()
	picture := filepath.Join(dir, "convergence-bias.png")
	require.NoError(t, os.WriteFile(picture, nil, 0o600))
	code, _, stderr = program(t, "-figure", "adaptive,bias", "-out", dir)
	require.Equal(t, 2, code)
	require.Contains(t, stderr, picture+" exists: choose another name, or -force")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(
		t,
		sweep.ExitInterrupted,
		Convergence(ctx, []string{"-figure", "adaptive", "-out", t.TempDir()}, &out, &errs),
	)
	require.Contains(t, errs.String(), "canceled")
}

// The declared constants hold: ∇f and its terms by differences, and their sum.
func TestRegression(t *testing.T) {
	for _, logistic := range []bool{false, true} {
		f := newRegression(12, 5, 0.5, logistic)
		f.ridge = 0.3
		f.bound()
		x := []float64{0.3, -1, 2, 0, 0.7}
		g, sum, one := make([]float64, 5), make([]float64, 5), make([]float64, 5)
		require.InDelta(t, f.Func(x), f.FuncGrad(g, x), 1e-14)
		for i := range 12 {
			f.GradTerms(one, x, []int{i})
			floats.Add(sum, one)
		}
		require.InDeltaSlice(t, g, sum, 1e-13)
		for j := range x {
			const h = 1e-6
			up := append([]float64(nil), x...)
			up[j] += h
			down := append([]float64(nil), x...)
			down[j] -= h
			require.InDelta(t, (f.Func(up)-f.Func(down))/(2*h), g[j], 1e-8)
		}
		require.LessOrEqual(t, f.TermSmoothness(), f.Smoothness())
		require.LessOrEqual(t, f.Smoothness(), 12*f.TermSmoothness()*(1+1e-9))
	}
}
