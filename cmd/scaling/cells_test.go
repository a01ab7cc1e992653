// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
)

// TestNoNoiseInOutput: a run with every file prints no value
// of the noise of its fits, nor does one of a file with private records.
func TestNoNoiseInOutput(t *testing.T) {
	var s testkit.Spy
	dir := t.TempDir()
	var out bytes.Buffer
	args := []string{"-n", "30", "-d", "5", "-runs", "3", "-values", "0.1,1,10", "-out", dir}
	for _, more := range [][]string{{"-seed", "5"}, {"-seed", "6", "-force"}, {"-force"}} {
		ctx := fault.With(t.Context(), release.Drawn, func(q erm.Perturbation) erm.Perturbation {
			s.See(q.Linear...)
			if w, ok := q.Quad.(*mat.SymDense); ok {
				s.See(w.RawSymmetric().Data...)
			}
			return q
		})
		code := run(fault.With(ctx, release.OutputNoise, s.Integers), append(args, more...), &out, &out)
		require.Zero(t, code, out.String())
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(entries), 5)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		if filepath.Ext(e.Name()) == ".png" { // compressed
			continue
		}
		out.Write(text)
	}
	require.Greater(t, s.Len(), 500)
	value, form, found := s.Find(out.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
}

// TestFigureKinds: a curve has a bound with an exact anchor, and a larger one without.
func TestFigureKinds(t *testing.T) {
	b := dp.Budget{Epsilon: 4, Delta: 1e-2}
	for _, k := range []boundKind{boundKinds[0], boundKinds[3]} { // the others take minutes
		exact, err := k.bound(b, 0)
		require.NoError(t, err, k.name)
		inexact, err := k.bound(b, 1e-3)
		require.NoError(t, err, k.name)
		require.Greater(t, inexact, exact, k.name)
	}
}
