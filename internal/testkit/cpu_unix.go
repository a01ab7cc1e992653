// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build unix

package testkit

import (
	"syscall"
	"time"
)

// CPU returns the processor time of this process; 0 where the system does not say.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
