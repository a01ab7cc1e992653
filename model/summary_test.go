// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNote: the note on intervals speaks of weak coefficients only if one of them is weak.
func TestNote(t *testing.T) {
	m := &Model{choice: &Choice{}}
	rows := []Row{{}, {Interval: &Interval{}}}
	require.NotContains(t, m.note(rows, nil), "weak")
	rows = append(rows, Row{Interval: &Interval{Weak: true}})
	require.Contains(t, m.note(rows, nil), "marked weak is not identified")
	require.NotContains(t, m.note(rows, nil), "redundant", "there is no schema")
}
