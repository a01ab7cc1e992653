// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package testkit holds parts that the tests of several packages share: the size of a test,
// reference functions to 60 digits, a spy that finds noise in printed text, tests of sampled laws,
// and lower bounds on ε from samples.
//
// Tests come in four sizes:
//
//	go test -short ./...          the least: for the race detector and other builds
//	go test ./...                 every promise once, minutes
//	PRIVOPT_LONG=1 go test ./...  every case of every table, what .ci/run runs
//	PRIVOPT_DEEP=1 go test ./...  statistics and attacks in full size, what .ci/deep runs
//
// # References
//
//	[BW18]  Balle, Wang. Improving the Gaussian Mechanism for Differential Privacy. ICML 2018.
//	[AS64]  Abramowitz, Stegun. Handbook of Mathematical Functions. 1964.
//	[CP34]  Clopper, Pearson. The Use of Confidence or Fiducial Limits Illustrated in the Case of
//	        the Binomial. Biometrika 26, 1934.
//	[Mas90] Massart. The Tight Constant in the Dvoretzky–Kiefer–Wolfowitz Inequality. Annals of
//	        Probability 18, 1990.
//	[Mir12] Mironov. On Significance of the Least Significant Bits for Differential Privacy.
//	        CCS 2012.
package testkit

import (
	"os"
	"testing"
	"time"
)

// Until waits until something is so, however long that takes on a busy machine: the limit of go
// test alone ends it.
func Until(so func() bool) {
	for !so() {
		time.Sleep(time.Millisecond)
	}
}

// Deep reports whether statistics and attacks run in full size.
func Deep() bool { return os.Getenv("PRIVOPT_DEEP") != "" && !testing.Short() }

// Long reports whether every case of every table runs. That is so where Deep holds, too.
func Long() bool { return (os.Getenv("PRIVOPT_LONG") != "" || Deep()) && !testing.Short() }

// Every returns all of a list if Long holds, and else every k-th element from the first.
func Every[T any](k int, list []T) []T {
	if Long() {
		return list
	}
	var some []T
	for i := 0; i < len(list); i += k {
		some = append(some, list[i])
	}
	return some
}

// Of returns deep, where there is one, if Deep holds, long if Long holds, and else the usual value.
func Of[T any](usual, long T, deep ...T) T {
	if Deep() && len(deep) > 0 {
		return deep[0]
	}
	if Long() {
		return long
	}
	return usual
}
