// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build race

package testkit

// Race reports whether the race detector is on. Then sync.Pool drops items at random, so that code
// that takes its memory from a pool allocates.
const Race = true
