// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build !amd64 || noasm || gccgo || safe || purego

package kernel

// haveRows is false, so that none of the functions below is ever called.
var haveRows, haveWide = false, false

func mulVec(_, _, _ []float64)                  { panic(badBuild) }
func addMulVec(_, _, _ []float64)               { panic(badBuild) }
func addGram(_, _, _ []float64, _, _ int)       { panic(badBuild) }
func mulRows2(_, _, _, _ *float64, _, _ int)    { panic(badBuild) }
func addRows2(_, _, _, _, _ *float64, _, _ int) { panic(badBuild) }
func sumRows(_, _, _ *float64, _, _, _ int)     { panic(badBuild) }
func sumRows8(_, _, _ *float64, _, _, _ int)    { panic(badBuild) }

func shrinkDot(_, _, _ *float64, _ int, _ float64) float64       { panic(badBuild) }
func relax(_, _, _, _ *float64, _ int, _, _, _, _, _, _ float64) { panic(badBuild) }
func addExp(_, _, _ *float64, _, _ float64) (_, _ float64)       { panic(badBuild) }

const badBuild = "kernel: built without own kernels"
