// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/privopt/privopt/dp"
)

// CheckField refuses a number of a mechanism that is neither positive and finite nor 0, which means
// what zero says, by an error that wraps kind.
func CheckField(kind error, name, zero string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 1) {
		return fmt.Errorf("%w: %s = %v, want a positive finite number, or 0 for %s", kind, name, v, zero)
	}
	return nil
}

// CheckConstant refuses a constant of a loss that is not known to be positive and finite, by an
// error that wraps dp.ErrCondition and has a fix for +Inf.
func CheckConstant(name string, v float64, fix string) error {
	switch {
	case math.IsInf(v, 1):
		return fmt.Errorf("%w: the loss has %s = +Inf on the declared bounds, so no noise is enough: %s", dp.ErrCondition,
			name, fix)
	case !(v > 0): // also NaN
		return fmt.Errorf("%w: the loss has %s = %v on the declared bounds, which means unknown; want a positive finite "+
			"constant", dp.ErrCondition, name, v)
	}
	return nil
}

// CheckShares returns an error wrapping dp.ErrBudget, which names the δ that the caller stated, if
// a share of b has a δ that is too small to compute with.
func CheckShares(b dp.Budget, shares ...dp.Budget) error {
	for _, s := range shares {
		if b.Delta > 0 && s.Delta < dp.MinDelta {
			return fmt.Errorf("%w: Delta = %v is too small to be divided between the noise of the objective and that of the "+
				"output, want 0 or a number in [%.3g, 1), for example 1e-6", dp.ErrBudget, b.Delta, dp.MinDelta/s.Delta*b.Delta)
		}
	}
	return nil
}

// CheckUnits refuses persons of up to rows lines as units of privacy, for a mechanism whose proof
// is about records. rows is erm.Public.Rows, 0 if units are records. The error wraps
// dp.ErrCondition.
func CheckUnits(mechanism string, rows int) error {
	if rows > 0 {
		return fmt.Errorf("%w: %s protects single records and has no proof for persons of up to Rows = %d lines; want "+
			"lop.Mechanism, lop.Output, sco.ObjPert or sco.Output, or data in which every person has one line and no id",
			dp.ErrCondition, mechanism, rows)
	}
	return nil
}

// CheckContext refuses a nil context by an error that wraps kind.
func CheckContext(kind error, ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: ctx is nil, want one such as context.Background()", kind)
	}
	return nil
}

// Units names the units of privacy, where rows is the most lines of a person that count, or 0.
func Units(rows int) string {
	if rows > 0 {
		return "persons"
	}
	return "records"
}

// Neighbors describes the neighbors that a certificate is about.
func Neighbors(c dp.Certificate) string {
	text := c.Relation.String() + " neighbors"
	if c.Rows > 0 {
		text += fmt.Sprintf(" that differ in all lines of one person, of which at most %d count", c.Rows)
	}
	return text
}

// IsDigest reports whether s is a SHA-256 as 64 hexadecimal digits.
func IsDigest(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
