package objpert

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/spy"
)

// TestTracePrintsNothing: no verb, flag or encoder shows a number of a trace: a
// minimizer that was withheld stays so.
func TestTracePrintsNothing(t *testing.T) {
	trace := Trace{Solution: &Solution{W: []int{123456789}, Loss: 1234567890, Objective: 0.123456789}, Err: errors.New("123456789")}
	for _, v := range []any{trace, &trace, []Trace{trace}, struct{ T Trace }{trace}} {
		require.NotContains(t, spy.Everything(v), "123456789")
	}
}
