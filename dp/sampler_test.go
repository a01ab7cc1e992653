// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// falseReject is the probability with which each statistical test here fails
// for a correct sampler; seeds are fixed.
const falseReject = 1e-6

// uniformCells requires that counts come from equal probabilities, by χ².
func uniformCells(t *testing.T, counts map[string]int, cells int) {
	t.Helper()
	require.Len(t, counts, cells)
	total := 0
	for _, c := range counts {
		total += c
	}
	var x2 float64
	for _, c := range counts {
		e := float64(total) / float64(cells)
		x2 += (float64(c) - e) * (float64(c) - e) / e
	}
	require.Greater(t, num.Chi2SF(x2, float64(cells-1)), falseReject)
}

// All 2⁴ subsets of four records occur as often as independent coins make
// them, on both ways of drawing, from two of the streams' batches in a row.
func TestPoissonLaw(t *testing.T) {
	for _, q := range []float64{0.05, 0.19, 0.2, 0.5, 0.9} {
		b := Sampler{Rate: q}.Batches(4, noise.Reproducible(1, fmt.Sprint(q)))
		const runs = 200000
		counts := map[string]int{}
		for range runs {
			idx := b()
			require.True(t, slices.IsSorted(idx))
			counts[fmt.Sprint(idx)]++
		}
		var x2 float64
		for set := range 16 {
			p, idx := 1.0, []int{}
			for i := range 4 {
				if set>>i&1 == 1 {
					p, idx = p*q, append(idx, i)
				} else {
					p *= 1 - q
				}
			}
			e := p * runs
			c := float64(counts[fmt.Sprint(idx)])
			if e < 5 { // too rare for χ²: at most 60 of a mean below 5
				require.Less(t, c, 60.)
				continue
			}
			x2 += (c - e) * (c - e) / e
		}
		require.Greater(t, num.Chi2SF(x2, 15), falseReject, "q = %v", q)
	}
}

// Small rates: the size of a batch is binomial, and every position is as
// likely as any other. Gaps a hundredth too short are seen.
func TestPoissonSparse(t *testing.T) {
	const n, q, runs = 100000, 1e-3, 10000
	draw := func(rate float64) (size int, tenths [10]int) {
		b := Sampler{Rate: rate, Relation: AddRemove}.Batches(n, noise.Reproducible(2))
		for range runs {
			last := -1
			for _, i := range b() {
				require.True(t, i > last && i < n)
				last = i
				tenths[i/(n/10)]++
				size++
			}
		}
		return size, tenths
	}
	size, tenths := draw(q)
	counts := map[string]int{}
	for i, c := range tenths {
		counts[fmt.Sprint(i)] = c
	}
	uniformCells(t, counts, 10)
	// The total is Binomial(n·runs, q): 4.9 standard deviations.
	sd := math.Sqrt(n * runs * q)
	require.InDelta(t, n*runs*q, float64(size), 4.9*sd)
	short, _ := draw(-math.Expm1(-1 / (0.99 * gapScale(q))))
	require.Greater(t, float64(short)-n*runs*q, 4.9*sd)
	require.Empty(t, Sampler{Rate: 1e-9}.Batches(3, noise.Reproducible(3))())
	require.Empty(t, Sampler{Rate: 5e-324}.Batches(3, noise.Reproducible(3))())
	require.Empty(t, Sampler{Rate: 0.5}.Batches(0, noise.Reproducible(3))())
}

// The probability 1 − e^{−1/c} that gaps give is at most q, and hardly less.
func TestGapScale(t *testing.T) {
	rnd := rand.New(noise.Reproducible(4))
	for range 2000 {
		q := dense * math.Exp2(-60*rnd.Float64())
		c := gapScale(q)
		exact := testkit.Log(testkit.Sub(testkit.New(1), testkit.New(q)))
		over, _ := testkit.Sub(testkit.New(-1), testkit.Mul(exact, testkit.New(c))).Float64() // −c·log(1−q) − 1
		require.GreaterOrEqual(t, over, 0., q)
		require.Less(t, over, 0x1p-48, q)
	}
}

func TestFixedSizeLaw(t *testing.T) {
	b := Sampler{Size: 2, Records: 5}.Batches(5, noise.Reproducible(4))
	single, pairs := map[string]int{}, map[string]int{}
	last := ""
	for range 100000 {
		idx := slices.Clone(b())
		slices.Sort(idx)
		this := fmt.Sprint(idx)
		single[this]++
		if last != "" {
			pairs[last+this]++ // batches in a row are independent
		}
		last = this
	}
	uniformCells(t, single, 10)
	uniformCells(t, pairs, 100)
	require.Equal(t, []int{0, 1, 2}, sorted(Sampler{Size: 3, Records: 3}.Batches(3, noise.Reproducible(4))()))
}

func TestWithReplacementLaw(t *testing.T) {
	b := Sampler{Size: 3, Records: 4, Repeats: true}.Batches(4, noise.Reproducible(5))
	counts := map[string]int{}
	for range 100000 {
		counts[fmt.Sprint(b())]++
	}
	uniformCells(t, counts, 64)
}

func sorted(x []int) []int { x = slices.Clone(x); slices.Sort(x); return x }

func TestFullBatches(t *testing.T) {
	for _, s := range []Sampler{{Rate: 1}, {Rate: 1}} {
		b := s.Batches(3, noise.Reproducible(6))
		for range 2 {
			require.Equal(t, []int{0, 1, 2}, b())
		}
	}
}

func TestSamplersRefuse(t *testing.T) {
	src := noise.Reproducible(7)
	for _, c := range []struct {
		s    Sampler
		want error
		text string
	}{
		{Sampler{}, ErrSampler, "Rate = 0"},
		{Sampler{Rate: 1.1}, ErrSampler, "(0, 1]"},
		{Sampler{Rate: math.NaN()}, ErrSampler, "NaN"},
		{Sampler{Rate: 0.5, Relation: 9}, ErrRelation, "Sampler.Relation"},
		{Sampler{Rate: 0.5, Size: 5, Records: 10}, ErrSampler, "a Rate alone"},
		{Sampler{Rate: 0.5, Repeats: true}, ErrSampler, "a Rate alone"},
		{Sampler{Size: 5}, ErrSampler, "Records = 0"},
		{Sampler{Size: 6, Records: 5}, ErrSampler, "Size = 6"},
		{Sampler{Size: 5, Records: 6, Relation: AddRemove}, ErrRelation, "add-remove"},
		{Sampler{Records: 5, Repeats: true}, ErrSampler, "Size = 0"},
		{Sampler{Size: 1, Repeats: true}, ErrSampler, "Records = 0"},
	} {
		require.ErrorIs(t, c.s.Check(), c.want)
		require.ErrorContains(t, c.s.Check(), c.text)
		require.PanicsWithValue(t, errCheck, func() { c.s.Batches(5, src) })
		p, err := c.s.Profile(1, 1)
		require.ErrorIs(t, err, c.want)
		require.Equal(t, 1., p.Delta(5))
		_, err = c.s.Noise(1, Budget{Epsilon: 1, Delta: 1e-6})
		require.ErrorIs(t, err, c.want)
		_, err = c.s.Epsilon(1, 1, 1e-6)
		require.ErrorIs(t, err, c.want)
	}
	require.PanicsWithValue(t, errRecords, func() { Sampler{Size: 1, Records: 4}.Batches(5, src) })
	require.PanicsWithValue(t, errRecords, func() { Sampler{Size: 1, Records: 4, Repeats: true}.Batches(5, src) })
}

// Noise, numbers of sums and budgets out of range.
func TestSumsRefuse(t *testing.T) {
	s := Sampler{Rate: 0.1}
	for _, z := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9} {
		_, err := s.Profile(z, 1)
		require.ErrorIs(t, err, ErrSampler)
	}
	for _, steps := range []int{0, -3, MaxSteps + 1} {
		_, err := s.Profile(1, steps)
		require.ErrorIs(t, err, ErrSampler)
	}
	for _, delta := range []float64{0, 1, -1, math.NaN()} {
		eps, err := s.Epsilon(1, 1, delta)
		require.ErrorIs(t, err, ErrBudget)
		require.Equal(t, math.Inf(1), eps)
	}
	for _, c := range []struct {
		want  error
		steps int
		b     Budget
	}{
		{ErrBudget, 1, Budget{}},
		{ErrBudget, 1, Budget{Epsilon: 1}},
		{ErrBudget, 1, Budget{Epsilon: math.NaN(), Delta: 1e-6}},
		{ErrBudget, 1, Budget{Epsilon: 1, Delta: 1}},
		{ErrSampler, 0, Budget{Epsilon: 1, Delta: 1e-6}},
		{ErrSampler, MaxSteps + 1, Budget{Epsilon: 1, Delta: 1e-6}},
	} {
		_, err := Sampler{Rate: 0.1}.Noise(c.steps, c.b)
		require.ErrorIs(t, err, c.want)
	}
}

// Every finite or infinite argument has an answer.
func TestBadValues(t *testing.T) {
	c := sumsOf(t, Sampler{Rate: 0.1}, 2, 10)
	require.Equal(t, 1., c.delta(math.NaN()))
	require.Equal(t, 1., c.delta(math.Inf(-1)))
	require.Zero(t, c.delta(math.Inf(1)))
	require.Less(t, c.delta(1000), 1e-14)
	require.InDelta(t, 1, c.delta(-50), 1e-12)
	require.Zero(t, c.epsilon(0.999999))
	require.Equal(t, math.Inf(1), c.rdp(1))
	require.Equal(t, math.Inf(1), c.rdp(1e6))
	require.Equal(t, math.Inf(1), c.rdp(math.NaN()))
	one := sumsOf(t, Sampler{Rate: 0.1}, 2, 1)
	require.Equal(t, 1., one.delta(math.NaN()))
	require.Zero(t, one.delta(math.Inf(1)))
	for _, z := range []float64{minNoise, 0.01, 1e9, maxNoise} { // from no privacy to no output
		for _, s := range []Sampler{{Rate: 0.1}, {Rate: 0.1, Relation: AddRemove}, {Size: 1, Records: 10, Repeats: true}} {
			d := sumsOf(t, s, z, 10).delta(1)
			require.True(t, d >= 0 && d <= 1, "%v, z = %v: δ = %v", s, z, d)
			if z < 0.1 {
				require.Greater(t, d, 0.6) // 1 − (1−q)^10 of the runs see the record
			}
		}
	}
}

// Between integers the Rényi curve is a chord of (α−1)RDP.
func TestRDPBetween(t *testing.T) {
	r := sumsOf(t, Sampler{Rate: 0.1, Relation: AddRemove}, 1, 1).rdp
	require.InEpsilon(t, (1.0*r(2)+2*r(3))/2/1.5, r(2.5), 1e-12)
	require.InEpsilon(t, r(2)/2/0.5, r(1.5), 1e-12)
	// Rényi bounds are above what the loss distribution gives.
	c := sumsOf(t, Sampler{Size: 10, Records: 1000}, 3, 200)
	eps, _ := c.rdp.Epsilon(1e-6)
	require.Greater(t, eps, c.epsilon(1e-6))
}

func BenchmarkBatches(b *testing.B) {
	const n = 1000000
	for _, s := range []Sampler{{Rate: 0.01}, {Rate: 0.5}, {Size: n / 100, Records: n},
		{Size: n / 100, Records: n, Repeats: true}} {
		b.Run(fmt.Sprintf("sampler=%v/n=%d", s, n), func(b *testing.B) {
			b.ReportAllocs()
			batches := s.Batches(n, rand.NewPCG(1, 2))
			for b.Loop() {
				batches()
			}
		})
	}
}

// The weights of copies are no less than those of the binomial law, up to the
// largest mean that is accepted.
func TestCopies(t *testing.T) {
	require.NoError(t, Sampler{Size: 200, Records: 2, Repeats: true}.Check())
	require.ErrorContains(t, Sampler{Size: 201, Records: 2, Repeats: true}.Check(), "[1, 200]")
	require.ErrorContains(t, Sampler{Size: 1 << 31, Records: 1 << 40, Repeats: true}.Check(), "2147483647")
	// Where a copy tells everything the profile at 0 is the probability of one.
	for _, c := range []Sampler{{Size: 200, Records: 2}, {Size: 100_000, Records: 1000},
		{Size: 1_000_000, Records: 10_000}} {
		q := -math.Expm1(float64(c.Size) * math.Log1p(-1/float64(c.Records)))
		got := drawn(c.Size, c.Records, minNoise)(0)
		require.GreaterOrEqual(t, got, min(1, q*(1-1e-15)))
		require.InDelta(t, q, got, 1e-10)
	}
}
