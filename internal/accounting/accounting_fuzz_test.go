package accounting

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/pld"
)

// anySampler returns a sampler whose numbers may make no sense.
func anySampler(kind uint8, rate float64, size, records int) Sampler {
	rel := dp.Relation(kind >> 2 & 3)
	switch kind & 3 {
	case 0:
		return Poisson{Rate: rate, Relation: rel}
	case 1:
		return FixedSize{Size: size, Records: records}
	case 2:
		return WithReplacement{Size: size, Records: records}
	}
	return Full{Relation: rel}
}

func documented(err error) bool {
	return errors.Is(err, ErrSampler) || errors.Is(err, dp.ErrBudget) || errors.Is(err, dp.ErrCondition) || errors.Is(err, dp.ErrRelation)
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
		one, err := Gaussian(s, z)
		if err != nil {
			require.True(t, documented(err), "%v", err)
			return
		}
		require.NoError(t, s.Check())
		require.True(t, s.Fraction() > 0, s)
		if steps > 100 && steps < MaxSteps || z < 0.01 || s.Fraction() > 30 || size > 1e4 { // slow on purpose
			return
		}
		c, err := Compose(one.Times(steps))
		if err != nil {
			require.True(t, documented(err), "%v", err)
			return
		}
		require.Equal(t, steps, c.total)
		require.Equal(t, s.Neighbors(), c.rel)
		all, err := Gaussian(Full{Relation: s.Neighbors()}, z)
		require.NoError(t, err)
		full, err := Compose(all.Times(steps))
		require.NoError(t, err)
		last := 1.0
		for _, e := range []float64{0, 0.5, 1, 5} {
			d := c.Delta(e)
			require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", e, d)
			// The bounds on errors differ from one ε to the next by at most their size.
			require.LessOrEqual(t, d, last*(1+1e-6)+1e-12, "δ rises at ε = %v", e)
			if _, ok := s.(WithReplacement); !ok { // a batch may hold a record several times
				require.LessOrEqual(t, d, full.Delta(e)*(1+1e-3)+1e-10, "more than without sampling at ε = %v", e)
			}
			last = d
		}
		d := c.Delta(eps)
		require.True(t, d >= 0 && d <= 1, "δ(%v) = %v", eps, d)
		e := c.Epsilon(delta)
		require.True(t, e >= 0, "ε(%v) = %v", delta, e)
		if delta >= pld.MinDelta && delta < 1 && e < 100 {
			require.LessOrEqual(t, c.Delta(e), delta*(1+1e-6)+1e-12, "ε = %v", e)
		}
		for _, a := range []float64{eps, 1, 1.5, 2, 64, 1e5} {
			r := c.RDP()(a)
			require.True(t, r >= 0, "RDP(%v) = %v", a, r)
		}
		require.Equal(t, c.Delta(1), c.Profile().Delta(1))
		require.True(t, one.profile().Delta(1) <= 1)
		two, err := Compose(one.Times(steps), one)
		require.NoError(t, err)
		require.Equal(t, steps+1, two.total)
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
		b := dp.Budget{Epsilon: eps, Delta: delta}
		if s.Check() == nil && s.Fraction() > 30 {
			return
		}
		z, err := Noise(s, steps, b)
		if err != nil {
			require.True(t, documented(err), "%v", err)
			return
		}
		require.True(t, z > 0 && !math.IsInf(z, 1), "z = %v", z)
		one, err := Gaussian(s, z)
		require.NoError(t, err)
		c, err := Compose(one.Times(steps))
		require.NoError(t, err)
		require.LessOrEqual(t, c.Delta(eps), delta*(1+1e-9))
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
			batch := a.Next()
			require.Equal(t, batch, b.Next())
			seen := map[int]bool{}
			for i, j := range batch {
				require.True(t, j >= 0 && j < records, "%d of %d", j, records)
				if _, ok := s.(WithReplacement); !ok {
					require.False(t, seen[j], "%v", batch)
				}
				switch s.(type) {
				case Poisson, Full:
					require.True(t, i == 0 || batch[i-1] < j, "%v", batch)
				}
				seen[j] = true
			}
			switch s := s.(type) {
			case FixedSize:
				require.Len(t, batch, s.Size)
			case WithReplacement:
				require.Len(t, batch, s.Size)
			case Full:
				require.Len(t, batch, records)
			case Poisson:
				require.True(t, s.Rate < 1 || len(batch) == records)
			}
		}
	})
}
