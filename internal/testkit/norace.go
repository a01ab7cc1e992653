// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build !race

package testkit

// Race reports whether the race detector is on, see race.go.
const Race = false
