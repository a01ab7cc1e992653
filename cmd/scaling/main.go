// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command scaling compares linear with quadratic objective perturbation as a box, the data or the
// budget grows. Run it without flags for the published experiment, with -h for the others.
package main

import (
	"github.com/privopt/privopt/cmd/internal/experiment"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

func main() { sweep.Main(experiment.Scaling) }
