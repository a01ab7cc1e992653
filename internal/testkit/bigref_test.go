// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// digits fails unless x agrees with the decimal text to its last digit but one.
func digits(t *testing.T, text string, x *big.Float) {
	t.Helper()
	want, _, err := big.ParseFloat(text, 10, Prec, big.ToNearestEven)
	require.NoError(t, err)
	d := Quo(Sub(x, want), want)
	f, _ := d.Float64()
	require.Less(t, math.Abs(f), 1e-48, "%s: got %s", text, x.Text('g', 60))
}

// Values of mpmath 1.3.0 with mp.dps = 60: exp, log, erfc, gammainc.
func TestAgainstMpmath(t *testing.T) {
	n := New
	for _, c := range golden {
		digits(t, c.text, c.f(n))
	}
}
