package accounting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
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
		b := Poisson{Rate: q}.Batches(4, noise.Reproducible(1, fmt.Sprint(q)))
		const runs = 200000
		counts := map[string]int{}
		for range runs {
			idx := b.Next()
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
		b := Poisson{Rate: rate, Relation: dp.AddRemove}.Batches(n, noise.Reproducible(2))
		for range runs {
			last := -1
			for _, i := range b.Next() {
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
	require.Empty(t, Poisson{Rate: 1e-9}.Batches(3, noise.Reproducible(3)).Next())
	require.Empty(t, Poisson{Rate: 5e-324}.Batches(3, noise.Reproducible(3)).Next())
	require.Empty(t, Poisson{Rate: 0.5}.Batches(0, noise.Reproducible(3)).Next())
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
	b := FixedSize{Size: 2, Records: 5}.Batches(5, noise.Reproducible(4))
	single, pairs := map[string]int{}, map[string]int{}
	last := ""
	for range 100000 {
		idx := slices.Clone(b.Next())
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
	require.Equal(t, []int{0, 1, 2}, sorted(FixedSize{Size: 3, Records: 3}.Batches(3, noise.Reproducible(4)).Next()))
}

func TestWithReplacementLaw(t *testing.T) {
	b := WithReplacement{Size: 3, Records: 4}.Batches(4, noise.Reproducible(5))
	counts := map[string]int{}
	for range 100000 {
		counts[fmt.Sprint(b.Next())]++
	}
	uniformCells(t, counts, 64)
}

func sorted(x []int) []int { x = slices.Clone(x); slices.Sort(x); return x }

func TestFullBatches(t *testing.T) {
	for _, s := range []Sampler{Full{}, Poisson{Rate: 1}} {
		b := s.Batches(3, noise.Reproducible(6))
		for range 2 {
			require.Equal(t, []int{0, 1, 2}, b.Next())
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
		{Poisson{}, ErrSampler, "Poisson.Rate = 0"},
		{Poisson{Rate: 1.1}, ErrSampler, "(0, 1]"},
		{Poisson{Rate: math.NaN()}, ErrSampler, "NaN"},
		{Poisson{Rate: 0.5, Relation: 9}, dp.ErrRelation, "Poisson.Relation"},
		{FixedSize{}, ErrSampler, "Records = 0"},
		{FixedSize{Size: 6, Records: 5}, ErrSampler, "FixedSize.Size = 6"},
		{WithReplacement{Size: 0, Records: 5}, ErrSampler, "Size = 0"},
		{WithReplacement{Size: 1}, ErrSampler, "Records = 0"},
		{Full{Relation: -1}, dp.ErrRelation, "Full.Relation"},
	} {
		require.ErrorIs(t, c.s.Check(), c.want)
		require.ErrorContains(t, c.s.Check(), c.text)
		require.PanicsWithValue(t, errCheck, func() { c.s.Batches(5, src) })
		_, err := Gaussian(c.s, 1)
		require.ErrorIs(t, err, c.want)
		_, err = Noise(c.s, 1, dp.Budget{Epsilon: 1, Delta: 1e-6})
		require.ErrorIs(t, err, c.want)
	}
	require.PanicsWithValue(t, errRecords, func() { FixedSize{Size: 1, Records: 4}.Batches(5, src) })
	require.PanicsWithValue(t, errRecords, func() { WithReplacement{Size: 1, Records: 4}.Batches(5, src) })

	for _, z := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-9} {
		_, err := Gaussian(Full{}, z)
		require.ErrorIs(t, err, ErrSampler)
	}
	_, err := Gaussian(nil, 1)
	require.ErrorIs(t, err, ErrSampler)
}

func TestComposeRefuses(t *testing.T) {
	a, err := Gaussian(Poisson{Rate: 0.1}, 2)
	require.NoError(t, err)
	b, err := Gaussian(Poisson{Rate: 0.1, Relation: dp.AddRemove}, 2)
	require.NoError(t, err)
	for _, c := range []struct {
		want  error
		steps []Step
	}{
		{ErrSampler, nil},
		{ErrSampler, []Step{{}}},
		{ErrSampler, []Step{a, a.Times(0)}},
		{ErrSampler, []Step{a.Times(-3)}},
		{ErrSampler, []Step{a.Times(MaxSteps).Times(2)}},
		{ErrSampler, []Step{a.Times(MaxSteps), a}},
		{dp.ErrRelation, []Step{a, b}},
	} {
		_, err := Compose(c.steps...)
		require.ErrorIs(t, err, c.want)
	}

	for _, c := range []struct {
		want  error
		steps int
		b     dp.Budget
	}{
		{dp.ErrBudget, 1, dp.Budget{}},
		{dp.ErrBudget, 1, dp.Budget{Epsilon: 1}},
		{dp.ErrBudget, 1, dp.Budget{Epsilon: math.NaN(), Delta: 1e-6}},
		{dp.ErrBudget, 1, dp.Budget{Epsilon: 1, Delta: 1}},
		{ErrSampler, 0, dp.Budget{Epsilon: 1, Delta: 1e-6}},
		{ErrSampler, MaxSteps + 1, dp.Budget{Epsilon: 1, Delta: 1e-6}},
	} {
		_, err := Noise(Poisson{Rate: 0.1}, c.steps, c.b)
		require.ErrorIs(t, err, c.want)
	}
}

// Every finite or infinite argument has an answer.
func TestBadValues(t *testing.T) {
	c := composed(t, Poisson{Rate: 0.1}, 2, 10)
	require.Equal(t, dp.Replace, c.rel)
	require.Equal(t, 1., c.Delta(math.NaN()))
	require.Equal(t, 1., c.Delta(math.Inf(-1)))
	require.Zero(t, c.Delta(math.Inf(1)))
	require.Less(t, c.Delta(1000), 1e-14)
	require.InDelta(t, 1, c.Delta(-50), 1e-12)
	for _, delta := range []float64{0, 1, -1, math.NaN()} {
		require.Equal(t, math.Inf(1), c.Epsilon(delta))
	}
	require.Zero(t, c.Epsilon(0.999999))
	require.Equal(t, math.Inf(1), c.RDP()(1))
	require.Equal(t, math.Inf(1), c.RDP()(1e6))
	require.Equal(t, math.Inf(1), c.RDP()(math.NaN()))
	require.Equal(t, 1., c.steps[0].profile().Delta(math.NaN()))
	require.Zero(t, c.steps[0].profile().Delta(math.Inf(1)))
	for _, z := range []float64{minNoise, 0.01, 1e9, maxNoise} { // from no privacy to no output
		for _, s := range []Sampler{Poisson{Rate: 0.1}, Poisson{Rate: 0.1, Relation: dp.AddRemove}, WithReplacement{Size: 1, Records: 10}} {
			d := composed(t, s, z, 10).Delta(1)
			require.True(t, d >= 0 && d <= 1, "%v, z = %v: δ = %v", s, z, d)
			if z < 0.1 {
				require.Greater(t, d, 0.6) // 1 − (1−q)^10 of the runs see the record
			}
		}
	}
}

// Between integers the Rényi curve is a chord of (α−1)RDP.
func TestRDPBetween(t *testing.T) {
	r := composed(t, Poisson{Rate: 0.1, Relation: dp.AddRemove}, 1, 1).RDP()
	require.InEpsilon(t, (1.0*r(2)+2*r(3))/2/1.5, r(2.5), 1e-12)
	require.InEpsilon(t, r(2)/2/0.5, r(1.5), 1e-12)
	// Rényi bounds are above what the loss distribution gives.
	c := composed(t, FixedSize{Size: 10, Records: 1000}, 3, 200)
	eps, _ := c.RDP().Epsilon(1e-6)
	require.Greater(t, eps, c.Epsilon(1e-6))
}

func BenchmarkBatches(b *testing.B) {
	const n = 1000000
	for _, s := range []Sampler{Poisson{Rate: 0.01}, Poisson{Rate: 0.5}, FixedSize{Size: n / 100, Records: n},
		WithReplacement{Size: n / 100, Records: n}} {
		b.Run(fmt.Sprintf("sampler=%T/q=%g/n=%d", s, s.Fraction(), n), func(b *testing.B) {
			b.ReportAllocs()
			batches := s.Batches(n, rand.NewPCG(1, 2))
			for b.Loop() {
				batches.Next()
			}
		})
	}
}
