// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Plans compare what spaces admit, not how they say it.
func TestSameSpace(t *testing.T) {
	all := [][]bool{{true, true, true}, {true, true, true}}
	some := [][]bool{{true, true, true}, {true, false, true}}
	base := Space{Values: []int{-1, 0, 1}, NormSq: 2}
	for _, c := range []struct {
		other Space
		same  bool
	}{
		{base, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: all}, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: some}, false},
		{Space{Values: base.Values, NormSq: 3}, false},
		{Space{Values: []int{-1, 0, 2}, NormSq: 2}, false},
		{Space{Values: []int{-1, 0}, NormSq: 2}, false},
	} {
		require.Equal(t, c.same, sameSpace(&base, &c.other, 2), fmt.Sprint(c.other))
		require.Equal(t, c.same, sameSpace(&c.other, &base, 2), fmt.Sprint(c.other))
	}
}
