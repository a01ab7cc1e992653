package erm

import (
	"fmt"
	"io"

	"github.com/privopt/privopt/internal/prefix"
)

// Printing must not leak: every verb and flag of fmt, for values as for
// pointers, prints dimensions and names of types only.

// String returns the dimensions, "erm.Data(300×100)".
func (d *Data) String() string {
	n, k := d.Dims()
	return fmt.Sprintf("erm.Data(%d×%d)", n, k)
}

// Format prints String for every verb.
func (d Data) Format(f fmt.State, _ rune) { io.WriteString(f, d.String()) }

// String returns the dimensions and the types of the parts.
func (p *Problem) String() string {
	if p == nil {
		return "erm.Problem(nil)"
	}
	n, d := p.Data.Dims()
	return fmt.Sprintf("erm.Problem(%d×%d, Loss %T, Reg %T, Set %T)", n, d, p.Loss, p.Reg, p.Set)
}

// Format prints String for every verb.
func (p Problem) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// String returns the dimensions, "erm.Objective(300×100)".
func (o *Objective) String() string {
	if o == nil || o.s == nil {
		return "erm.Objective(0×0)"
	}
	return fmt.Sprintf("erm.Objective(%d×%d)", o.s().data.n, o.s().data.d)
}

// Format prints String for every verb.
func (o Objective) Format(f fmt.State, _ rune) { io.WriteString(f, o.String()) }

// errSecret is what encoders get instead of a perturbation.
var errSecret = prefix.New("erm: a Perturbation is secret noise and is not encoded")

// String returns "erm.Perturbation(secret)": whoever knows the perturbation
// can remove it.
func (Perturbation) String() string { return "erm.Perturbation(secret)" }

// Format prints String for every verb.
func (q Perturbation) Format(f fmt.State, _ rune) { io.WriteString(f, q.String()) }

// MarshalText always fails, so that JSON and XML do not hold noise.
func (Perturbation) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary always fails, so that gob does not hold noise.
func (Perturbation) MarshalBinary() ([]byte, error) { return nil, errSecret }

// errTrace is what encoders get instead of a trace.
var errTrace = prefix.New("erm: a Trace is a function of the records and is not encoded; read its fields")

// String returns "erm.Trace(not private)": the difference of a printed θ̂ and the
// release would be its output noise.
func (Trace) String() string { return "erm.Trace(not private)" }

// Format prints String for every verb.
func (t Trace) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// MarshalText always fails, so that JSON and XML do not hold a trace.
func (Trace) MarshalText() ([]byte, error) { return nil, errTrace }

// MarshalBinary always fails, so that gob does not hold a trace.
func (Trace) MarshalBinary() ([]byte, error) { return nil, errTrace }
