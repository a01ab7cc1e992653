package objpert

import (
	"errors"
	"fmt"
	"io"
)

// Printing must not leak: every verb and flag of fmt, for values as for
// pointers, prints what is public. How many rows are distinct is not.

// String returns the size of the space, "objpert.Problem(d = 23, Q = 4)".
func (p *Problem) String() string {
	switch {
	case p == nil:
		return "objpert.Problem(nil)"
	case p.NormSq < 0:
		return fmt.Sprintf("objpert.Problem(d = %d)", p.Dim)
	}
	return fmt.Sprintf("objpert.Problem(d = %d, Q = %d)", p.Dim, p.NormSq)
}

// Format prints String for every verb.
func (p Problem) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// errSecret is what encoders get instead of a problem.
var errSecret = errors.New("objpert: a Problem may hold secret noise and is not encoded")

// MarshalText always fails, so that JSON and XML do not hold noise.
func (Problem) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary always fails, so that gob does not hold noise.
func (Problem) MarshalBinary() ([]byte, error) { return nil, errSecret }

// errTrace is what encoders get instead of a trace.
var errTrace = errors.New("objpert: a Trace is a function of the records and is not encoded; read its fields")

// String returns "objpert.Trace(not private)": a minimizer that was not released
// is private.
func (Trace) String() string { return "objpert.Trace(not private)" }

// Format prints String for every verb.
func (t Trace) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// MarshalText always fails, so that JSON and XML do not hold a trace.
func (Trace) MarshalText() ([]byte, error) { return nil, errTrace }

// MarshalBinary always fails, so that gob does not hold a trace.
func (Trace) MarshalBinary() ([]byte, error) { return nil, errTrace }
