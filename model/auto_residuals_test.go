// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
)

// TestTails: what exceeds x is the integral of the share beyond x.
func TestTails(t *testing.T) {
	for _, law := range tails(1.9) {
		sum, from := 0.0, 0.3
		for x := from + 5e-5; x < 2; x += 1e-4 {
			share, _ := law.beyond(x)
			sum += 1e-4 * share
		}
		_, over := law.beyond(from)
		require.InDelta(t, over, sum, 1e-6*law.share, "%+v", law)
	}
}

// TestClipKnowsTails: a twentieth of the labels at the far end of their range are seen, and the
// clip goes nearly as far; without them it does not, as noise of such a clip would exceed the
// deviation of the labels.
func TestClipKnowsTails(t *testing.T) {
	const size, m, bin = 800.0, -0.96, 0.01
	for _, rare := range []float64{0, 0.05} {
		for seed := range uint64(10) {
			r, _ := newResiduals(m, size)
			h := make([]float64, len(residualEdges))
			noise.Normal(h, bin, noise.Reproducible(seed))
			for i := range h {
				if residualEdges[i] > -0.014 && residualEdges[i] <= 0.014 {
					h[i] += (1 - rare) / 12
				}
			}
			h[0] += rare
			r.add(h, bin)
			clip := r.clip(6 / size)
			if rare > 0 {
				require.Greater(t, clip, 1.4, "%d", seed)
			} else {
				require.Less(t, clip, 0.5, "%d", seed)
			}
		}
	}
}
