// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// TestDiscovery: the case of the search for a schema holds, and sees all of its controls.
func TestDiscovery(t *testing.T) {
	list := testkit.Every(3, Select([]string{"discover"}, Quick))
	require.NoError(t, Run(t.Context(), list, Quick, 1, func() {}))
	for _, r := range list {
		require.NoError(t, r.Err)
		require.Equal(t, Holds, r.Verdict(), "%v %s", r.Tests, r.Reason)
	}
	for _, m := range mechanisms() {
		if m.name != "discover" {
			continue
		}
		controls := testkit.Every(3, m.controls)
		results, err := Sabotage(t.Context(), controls, 1, func() {})
		require.NoError(t, err)
		for i, r := range results {
			require.NoError(t, r.Err, controls[i].Name)
			require.Equal(t, Violated, r.Verdict(), controls[i].Name)
			name, _ := r.Worst()
			t.Log(controls[i].Name, name)
		}
	}
}
