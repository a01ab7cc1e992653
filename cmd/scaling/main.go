// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command scaling compares linear with quadratic objective perturbation as a box, the data or the
// budget grows. Without flags it draws the box of [CC26], where every certificate is true; -eta 0
// takes the anchor as exact, as published, and -mode paper runs the published procedure. -h
// explains the flags.
//
// # References
//
//	[CC26]  Cortild, Cartis. Quadratic Objective Perturbation: Curvature-Based
//	        Differential Privacy. 2026.
package main

import "github.com/privopt/privopt/cmd/internal/sweep"

func main() { sweep.Main(run) }
