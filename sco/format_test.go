package sco

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/spy"
)

// TestTracePrintsNothing: no verb, flag or encoder shows a number of a trace.
func TestTracePrintsNothing(t *testing.T) {
	trace := Trace{Steps: 1234567891, Evaluations: 1234567892, Empty: 1234567893, Residual: 0.123456789, Distance: 9.87654321}
	var s spy.Spy
	s.See(trace.Residual, trace.Distance)
	for _, v := range []any{trace, &trace, []Trace{trace}, struct{ T Trace }{trace}} {
		text := spy.Everything(v)
		value, form, found := s.Find(text)
		require.False(t, found, "%v of a trace is printed as %q", value, form)
		require.NotContains(t, text, "123456789")
	}
}
