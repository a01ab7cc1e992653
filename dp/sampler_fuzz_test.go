// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp/internal/pld"
	"github.com/privopt/privopt/internal/noise"
)

// anySampler returns a sampler whose numbers may make no sense.
func anySampler(kind uint8, rate float64, size, records int) Sampler {
	rel := Relation(kind >> 2 & 3)
	switch kind & 3 {
	case 0:
		return Sampler{Rate: rate, Relation: rel}
	case 1:
		return Sampler{Size: size, Records: records, Repeats: rel > 1}
	case 2:
		return Sampler{Rate: 1, Relation: rel}
	}
	return Sampler{Rate: rate, Size: size, Records: records, Relation: rel}
}

func documented(err error) bool {
	return errors.Is(err, ErrSampler) || errors.Is(err, ErrBudget) || errors.Is(err, ErrCondition) || errors.Is(err,
		ErrRelation)
}

var hostile = []float64{0, -1, math.NaN(), math.Inf(1), 1, 0x1p-60, 5e-324, 1e6, 1e308, 1 - 0x1p-53}

// FuzzAccounting: whatever sampler, noise and numbers, the accountant refuses
// with an error of a documented kind, or its bounds are probabilities that do
// not rise with ε, no more than what all records in every batch cost, and
// consistent with one another.
func FuzzAccounting(f *testing.F) {
	for i, v := range hostile {
		f.Add(uint8(i), v, 10, 100, 1.0, 10, 1.0, 1e-5)
		f.Add(uint8(i+1), 0.1, 10, 100, v, 10, 1.0, 1e-5)
		f.Add(uint8(i+2), 0.1, i-1, 3, 0.7, i, v, 1e-9)
		f.Add(uint8(i+3), 0.01, 1, i*i, 2.0, 20, 0.5, v)
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate float64, size, records int, z float64, steps int, eps, delta float64) {
		s := anySampler(kind, rate, size, records)
		require.NotEmpty(t, fmt.Sprint(s))
		// slow on purpose
		if steps > 100 && steps < MaxSteps || z < 0.01 || s.Check() == nil && s.Fraction() > 30 || size > 1e4 {
			steps = 1
		}
		c, err := s.sums(z, steps)
		if err != nil {
			require.True(t, documented(err), "%v", err)
			return
		}
		require.NoError(t, s.Check())
		require.True(t, s.Fraction() > 0, s)
		full := sumsOf(t, Sampler{Rate: 1, Relation: s.Relation}, z, steps)
		last := 1.0
		for _, e := range []float64{0, 0.5, 1, 5} {
			d := c.delta(e)
			require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", e, d)
			// The bounds on errors differ from one ε to the next by at most their size.
			require.LessOrEqual(t, d, last*(1+1e-6)+1e-12, "δ rises at ε = %v", e)
			if !s.Repeats { // a batch may hold a record several times
				require.LessOrEqual(t, d, full.delta(e)*(1+1e-3)+1e-10, "more than without sampling at ε = %v", e)
			}
			last = d
		}
		d := c.delta(eps)
		require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", eps, d)
		e := c.epsilon(delta)
		require.True(t, e >= 0, "ε(%v) = %v", delta, e)
		if delta >= pld.MinDelta && delta < 1 && e < 100 {
			require.LessOrEqual(t, c.delta(e), delta*(1+1e-6)+1e-12, "ε = %v", e)
		}
		for _, a := range []float64{eps, 1, 1.5, 2, 64, 1e5} {
			r := c.rdp(a)
			require.True(t, r >= 0, "RDP(%v) = %v", a, r)
		}
		require.Equal(t, c.delta(1), c.profile().Delta(1))
	})
}

// FuzzNoise: the noise for a budget keeps it, or there is none.
func FuzzNoise(f *testing.F) {
	for i, v := range hostile {
		f.Add(uint8(i), 0.1, 5, 100, i, v, 1e-5)
		f.Add(uint8(i), 0.1, 5, 100, i, 1.0, v)
		f.Add(uint8(i), v, 5, 100, i, 1.0, 1e-6)
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate float64, size, records, steps int, eps, delta float64) {
		// Slow on purpose: long sums, and δ near 1 with hardly any noise, where a
		// loss has a wide law.
		if steps > 100 && steps < MaxSteps || size > 1000 || rate < 1e-6 && rate > 0 || delta > 0.5 && delta < 1 {
			return
		}
		s := anySampler(kind, rate, size, records)
		b := Budget{Epsilon: eps, Delta: delta}
		if s.Check() == nil && s.Fraction() > 30 {
			return
		}
		z, err := s.Noise(steps, b)
		if err != nil {
			require.True(t, documented(err), "%v", err)
			return
		}
		require.True(t, z > 0 && !math.IsInf(z, 1), "z = %v", z)
		c := sumsOf(t, s, z, steps)
		require.LessOrEqual(t, c.delta(eps), delta*(1+1e-9))
	})
}

// FuzzBatches: batches hold indices in range, as many as they should, and are
// equal for equal sources.
func FuzzBatches(f *testing.F) {
	for i, v := range hostile {
		f.Add(uint8(i), v, 3, 10, uint64(i))
		f.Add(uint8(i), 0.3, i, i, uint64(i))
		f.Add(uint8(i), 1e-3, 1, 5000, uint64(i))
	}
	f.Fuzz(func(t *testing.T, kind uint8, rate float64, size, records int, seed uint64) {
		s := anySampler(kind, rate, size, records)
		if s.Check() != nil || size > 1e5 || records > 1e5 || records < 0 {
			return
		}
		a, b := s.Batches(records, noise.Reproducible(seed)), s.Batches(records, noise.Reproducible(seed))
		for range 5 {
			batch := a()
			require.Equal(t, batch, b())
			seen := map[int]bool{}
			for i, j := range batch {
				require.True(t, j >= 0 && j < records, "%d of %d", j, records)
				if !s.Repeats {
					require.False(t, seen[j], "%v", batch)
				}
				require.True(t, s.Rate == 0 || i == 0 || batch[i-1] < j, "%v", batch)
				seen[j] = true
			}
			require.True(t, s.Rate > 0 && s.Rate < 1 || len(batch) == max(s.Size, int(s.Rate)*records))
		}
	})
}
