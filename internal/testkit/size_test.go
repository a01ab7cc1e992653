// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	list := []int{0, 1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		long, deep         string
		wantLong, wantDeep bool
	}{{"", "", false, false}, {"1", "", true, false}, {"", "1", true, true}, {"1", "1", true, true}} {
		t.Setenv("PRIVOPT_LONG", c.long)
		t.Setenv("PRIVOPT_DEEP", c.deep)
		full := !testing.Short()
		require.Equal(t, c.wantLong && full, Long())
		require.Equal(t, c.wantDeep && full, Deep())
		if Long() {
			require.Equal(t, list, Every(3, list))
		} else {
			require.Equal(t, []int{0, 3, 6}, Every(3, list))
		}
	}
}
