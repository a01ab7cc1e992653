//go:build unix

package bench

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time of this process.
func cpu(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
