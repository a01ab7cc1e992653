package splitting

import (
	"errors"
	"fmt"
)

// Status is the reason why a solve stopped.
type Status int

// Reasons why a solve stopped; NotTerminated means that it goes on.
const (
	NotTerminated  Status = iota
	Converged             // the residual met the tolerance
	IterationLimit        // Settings.Iterations were done
	RuntimeLimit          // Settings.Runtime was spent
	Cancelled             // the context was cancelled
	Failure               // a value was NaN, or a Recorder or the method returned an error
	Stalled               // rounding allows no progress, and the residual is above the tolerance
)

// early holds the errors of the statuses that end a solve early.
var early = map[Status]error{
	IterationLimit: errors.New("splitting: maximum number of iterations reached"),
	RuntimeLimit:   errors.New("splitting: maximum runtime reached"),
	Cancelled:      errors.New("splitting: context cancelled"),
	Failure:        errors.New("splitting: termination ended in failure"),
	Stalled:        errors.New("splitting: rounding allows no further progress"),
}

// String returns the name of the constant.
func (s Status) String() string {
	return name("status", int(s), "NotTerminated", "Converged", "IterationLimit", "RuntimeLimit", "Cancelled", "Failure",
		"Stalled")
}

// name returns the name of the constant i.
func name(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("invalid %s %d", kind, i)
	}
	return names[i]
}

// Early returns whether the solve ended before the residual met the tolerance.
func (s Status) Early() bool { return s.Err() != nil }

// Err returns the error of an early ending, nil if Early returns false.
func (s Status) Err() error { return early[s] }
