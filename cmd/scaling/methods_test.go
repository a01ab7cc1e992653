// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

// TestDefaultPicture: without flags but the swept values, the tilted perturbation assumes nothing
// about records, does not grow with the box and is not above its anchor, and only the curve that is
// called false rests on an assumption about them.
func TestDefaultPicture(t *testing.T) {
	dir, rows := solvedScaling(t, "-values", "10,1000", "-runs", "4")
	require.ElementsMatch(t, defaultMethods, slices.Collect(maps.Keys(rows)))
	tilted, anchor := rows["qop-tilt"], rows["anchor"]
	require.LessOrEqual(t, tilted[1].mean, 1.2*anchor[1].mean)
	require.InEpsilon(t, tilted[0].mean, tilted[1].mean, 0.1)
	require.LessOrEqual(t, rows["lop-center"][1].mean, 2*anchor[1].mean)
	for _, c := range scalingResults(t, dir).Cells {
		about := strings.Contains(fmt.Sprint(c.Certificate.Assumptions), "every record that could occur")
		require.Equal(t, c.Method == "qop-exact", about, c.Method)
	}
	c, flags := newScaling()
	require.NoError(t, c.check(flags))
	e, err := c.experiment()
	require.NoError(t, err)
	require.Equal(t, "QOP as published: anchor taken as exact, which is false here", e.Plot.Legend["qop-exact"])
	require.Contains(t, e.Plot.Dashed, "qop-exact")
}

// TestLabelNoise: noise in the labels changes labels alone, and its sweep is one.
func TestLabelNoise(t *testing.T) {
	p := scalingParams{Sizes: sweep.Sizes{N: 50, D: 3}, Xi: 5, AnchorNoise: 0.1, Mode: certified}
	quiet, err := generated(p, nil)
	require.NoError(t, err)
	p.LabelNoise = 0.5
	loud, err := generated(p, nil)
	require.NoError(t, err)
	require.Equal(t, quiet.anchor, loud.anchor)
	_, rows := solvedScaling(t, "-sweep", "label-noise", "-values", "0,0.5", "-n", "50", "-d", "3", "-kappa", "10",
		"-runs", "1", "-methods", "anchor,nonprivate")
	require.Greater(t, rows["nonprivate"][1].mean, rows["nonprivate"][0].mean+0.01)
}

// TestClosingLinesOfSweeps: they say what was computed, and describe curves.
func TestClosingLinesOfSweeps(t *testing.T) {
	lines := func(args ...string) string {
		code, _, stderr := callScaling(t, append([]string{"-seed", "1", "-d", "2", "-runs", "1", "-formats", "csv", "-out",
			t.TempDir()}, args...)...)
		require.Zero(t, code, stderr)
		return stderr
	}
	require.Contains(t, lines("-sweep", "eps", "-n", "9", "-values", "0.25,2", "-methods", "lop"),
		"lop at eps = 0.25: (ε = 0.25, δ = 0.01)")
	curve := lines("-n", "9", "-values", "1,10,100,1000", "-methods", "anchor,lop")
	require.Contains(t, curve, "first, largest over least: anchor ")
	fields := strings.Fields(curve[strings.Index(curve, "; lop "):])
	slope, err := strconv.ParseFloat(fields[2], 64)
	require.NoError(t, err)
	r2, err := strconv.ParseFloat(fields[3], 64)
	require.NoError(t, err)
	require.InDelta(t, 2, slope, 0.5)
	require.InDelta(t, 1, r2, 0.1)
	require.Equal(t, fields[4], fields[5], "the risk is the largest at the last kappa and the least at the first")
}
