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

// Values of mpmath 1.3.0 with mp.dps = 60: exp, log, erfc, gammainc, quad.
func TestAgainstMpmath(t *testing.T) {
	n := New
	for _, c := range golden {
		digits(t, c.text, c.f(n))
	}
}

func TestClosedForms(t *testing.T) {
	n := New
	// χ_2 has the closed form s e^{−r₀²/2} R(r₀+s), χ_1 is twice the Gaussian.
	for _, r0 := range []float64{0, 0.3, 2, 9, 30} {
		for _, s := range []float64{1e-6, 0.01, 0.5, 3} {
			two := Mul(n(s), Mul(Exp(Quo(Mul(n(r0), n(r0)), n(-2))), Mills(Add(n(r0), n(s)))))
			got := ChiStick(n(r0), n(s), 2)
			rel, _ := Quo(Sub(got, two), two).Float64()
			require.Less(t, math.Abs(rel), 1e-40)
			e1 := Mul(n(s), Add(n(r0), Quo(n(s), n(2))))
			one := Mul(n(2), GaussianDelta(e1, n(s)))
			rel, _ = Quo(Sub(ChiStick(n(r0), n(s), 1), one), one).Float64()
			require.Less(t, math.Abs(rel), 1e-40)
		}
	}
}
