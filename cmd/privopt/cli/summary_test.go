// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/model"
)

// TestIntervalCellsPrivacy checks that the column privacy counts all noise, also where hardly any
// of it is noise on the gradients.
func TestIntervalCellsPrivacy(t *testing.T) {
	cells := intervalCells(&model.Interval{StdErr: 2, PrivacyErr: 1.9, PrivacyShare: 0.001, Weak: true})
	require.Equal(t, []string{"–", "–", "90 %", "weak"}, cells[4:])
	require.Equal(t, "–", intervalCells(&model.Interval{})[6], "no standard error, no share")
}
