//go:build !unix

package bench

import (
	"testing"
	"time"
)

var start = time.Now()

// cpu returns the time since the start, where processor time is not known.
func cpu(testing.TB) time.Duration { return time.Since(start) }
