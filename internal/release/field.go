package release

import (
	"fmt"
	"math"
)

// CheckField refuses a number of a mechanism that is neither positive and finite nor 0, which means what zero says,
// by an error that wraps kind.
func CheckField(kind error, name, zero string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 1) {
		return fmt.Errorf("%w: %s = %v, want a positive finite number, or 0 for %s", kind, name, v, zero)
	}
	return nil
}
