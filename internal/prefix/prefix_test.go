// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prefix

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrip(t *testing.T) {
	sentinel := New("table: invalid table")
	wrapped := Errorf("model: %w: line %d: %w", sentinel, 3, io.EOF)
	require.ErrorIs(t, wrapped, sentinel)
	require.ErrorIs(t, wrapped, io.EOF)
	require.EqualError(t, wrapped, "model: table: invalid table: line 3: EOF")
	for want, err := range map[string]error{
		"invalid table":                        sentinel,
		"invalid table: line 3: EOF":           wrapped,
		"a.csv: invalid table: line 3: EOF":    fmt.Errorf("a.csv: %w", wrapped),
		"closed; invalid table: line 3: EOF":   errors.New("closed; invalid table: line 3: EOF"),
		"gzip: invalid header":                 errors.New("gzip: invalid header"), // marked by nobody
		"no budget: invalid table: dp: line 3": Of("lop", fmt.Errorf("lop: no budget: %w: dp: line 3", sentinel)),
		"closed\nthe end: EOF": errors.Join(errors.New("closed"), fmt.Errorf("the end: %w", Of("npy",
			fmt.Errorf("npy: %w", io.EOF)))),
	} {
		require.Equal(t, want, Strip(err))
	}
	require.Panics(t, func() { New("no name") })
}
