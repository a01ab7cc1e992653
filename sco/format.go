package sco

import (
	"errors"
	"fmt"
	"io"
)

// errSecret is what encoders get instead of a trace.
var errSecret = errors.New("sco: a Trace is a function of the records and is not encoded; read its fields")

// String returns "sco.Trace(not private)": sizes of batches and distances are
// functions of the records and of the sampling.
func (Trace) String() string { return "sco.Trace(not private)" }

// Format prints String for every verb.
func (t Trace) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// MarshalText always fails, so that JSON and XML do not hold a trace.
func (Trace) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary always fails, so that gob does not hold a trace.
func (Trace) MarshalBinary() ([]byte, error) { return nil, errSecret }
