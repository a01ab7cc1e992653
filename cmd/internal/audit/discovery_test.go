// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDiscovery: the case of the search for a schema holds, and sees all of its controls.
func TestDiscovery(t *testing.T) {
	list := Select([]string{"discover"}, Quick)
	require.NoError(t, Run(t.Context(), list, Quick, 1, func() {}))
	for _, r := range list {
		require.NoError(t, r.Err)
		require.Equal(t, Holds, r.Verdict(), "%v %s", r.Tests, r.Reason)
	}
	for _, m := range mechanisms() {
		if m.name != "discover" {
			continue
		}
		results, err := Sabotage(t.Context(), m.controls, 1, func() {})
		require.NoError(t, err)
		for i, r := range results {
			require.NoError(t, r.Err, m.controls[i].Name)
			require.Equal(t, Violated, r.Verdict(), m.controls[i].Name)
			name, _ := r.Worst()
			t.Log(m.controls[i].Name, name)
		}
	}
}
