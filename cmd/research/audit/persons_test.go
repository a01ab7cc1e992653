// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// Every case of persons holds, and every sabotage of persons is seen.
func TestPersons(t *testing.T) {
	var list []Result
	for _, r := range Select(nil, Quick) {
		if r.Pair == "A14" {
			list = append(list, r)
		}
	}
	require.GreaterOrEqual(t, len(list), 5)
	list = testkit.Every(3, list)
	require.NoError(t, Run(t.Context(), list, Quick, 1, func() {}))
	for _, r := range list {
		require.NoError(t, r.Err)
		require.Equal(t, Holds, r.Verdict(), "%s: %s", r.Full(), r.Reason)
	}
	results, err := Sabotage(t.Context(), append(personControls(), intervalMechanisms()[0].controls...), 1, func() {})
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
		require.Equal(t, Violated, r.Verdict(), r.Full())
	}
}
