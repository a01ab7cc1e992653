// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFitText: a fit says on two lines what it released and what is next, and with -v why.
func TestFitText(t *testing.T) {
	at := folder(t)
	t.Chdir(at(""))
	fit := func(more ...string) string {
		code, out, errs := call(t, "", append([]string{"fit", "--schema", "people.json", "--data", "people.csv", "--epsilon",
			"2", "--delta", "0.00123456", "--force", "--out", "m.json"}, more...)...)
		require.Zero(t, code, errs)
		return out
	}
	require.Regexp(t, `^m\.json: logistic model with \d parameters; cost ε = 2, δ = (0|0\.00124)\n`+
		`next: privopt explain m\.json; privopt predict --model m\.json --data FILE\n$`, fit())
	require.Contains(t, fit("-v"), "  plan     ")
	require.Contains(t, fit("--verbose"), "  privacy  ")
	require.Equal(t, "<1e-16", pValue(0))
	require.Equal(t, "0.05", pValue(0.05))
}
