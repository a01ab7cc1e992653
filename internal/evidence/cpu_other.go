//go:build !unix

package evidence

import "time"

// CPU returns the time since the start, where processor time is not known.
func CPU() time.Duration { return time.Since(start) }
