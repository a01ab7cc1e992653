// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build !unix

package testkit

import "time"

var start = time.Now()

// CPU returns the time since the start of this process, where processor time is not known.
func CPU() time.Duration { return time.Since(start) }
