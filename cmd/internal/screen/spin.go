// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package screen

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Spin shows on w that work of unknown length goes on, and for how long. The function that it
// returns ends it and clears the line. Nothing is written to a w that is not live.
func Spin(w io.Writer, what string) (end func()) {
	if !Live(w) {
		return func() {}
	}
	return spin(w, what, 500*time.Millisecond)
}

func spin(w io.Writer, what string, every time.Duration) (end func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(gone)
		tick := time.NewTicker(every)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "\r%s, %.0f s", what, time.Since(start).Seconds())
				shown = true
			case <-done:
				if shown {
					fmt.Fprint(w, "\r\033[K")
				}
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-gone })
}
