package accounting

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// A record that is in one batch of a thousand millions shows when it is there: its
// losses are on two scales, and no grid of affordable length holds both. The bound
// is that of a grid for the large ones.
func TestTwoScales(t *testing.T) {
	s := FixedSize{Size: 1, Records: 1e9}
	b := dp.Budget{Epsilon: 1, Delta: 1e-8}
	z, err := Noise(s, 1e6, b)
	require.NoError(t, err)
	c := composed(t, s, z, 1e6)
	require.LessOrEqual(t, c.Delta(1), 1e-8)
	require.LessOrEqual(t, c.Epsilon(1e-8), 1+1e-3)
	require.NotNil(t, c.wider())
	// In the first batch with it alone the record already costs this much; 0.58 is a
	// percent more than with all steps on a grid of 2.6e-3.
	one := composed(t, s, z, 1).Delta(1)
	require.Greater(t, 1e-8, 1e5*one)
	require.Less(t, z, 0.58)
	require.Greater(t, composed(t, s, 0.9*z, 1e6).Delta(1), 1e-8)
}

// Where no FFT is long enough the Chernoff bound holds; it is above what the FFT
// finds where one is.
func TestChernoffBound(t *testing.T) {
	c := composed(t, FixedSize{Size: 10, Records: 1000}, 2, 500)
	l := &c.build()[0]
	for _, eps := range []float64{0.3, 1, 3} {
		tl, ok := l.tail(eps)
		require.True(t, ok)
		d := tl.delta(eps)
		require.Greater(t, l.chernoff(eps), d)
		require.Less(t, l.chernoff(eps), 30*d)
	}
	fine := composed(t, FixedSize{Size: 1, Records: 1e9}, 0.6, 1e6)
	l = &fine.build()[0]
	_, ok := l.tail(1)
	require.False(t, ok)
	require.GreaterOrEqual(t, l.chernoff(1), l.inf())
	require.Less(t, l.chernoff(1), 2*l.inf())
}

// At order 2 the Rényi curve of Poisson batches is log1p(q²(e^{1/z²}−1)), which a
// sum near 1 does not resolve.
func TestRDPSmall(t *testing.T) {
	for _, q := range []float64{1e-9, 1e-6, 1e-3, 0.3} {
		for _, z := range []float64{0.5, 3, 300} {
			want := math.Log1p(q * q * math.Expm1(1/(z*z)))
			got := rdpPoisson(q, z)(2)
			require.GreaterOrEqual(t, got, want)
			require.InEpsilon(t, want, got, 1e-10)
		}
	}
	// Order 500 against the sum by definition, which is above 1 by 1.4e-10.
	const q, z, alpha = 1e-5, 300., 500
	sum, weight := 0.0, math.Exp(alpha*math.Log1p(-q))
	for k := 1.0; k <= 20; k++ {
		weight *= (alpha - k + 1) / k * q / (1 - q)
		sum += weight * math.Expm1(k*(k-1)/(2*z*z))
	}
	got := rdpPoisson(q, z)(alpha) * (alpha - 1)
	require.GreaterOrEqual(t, got, math.Log1p(sum)*(1-1e-12))
	require.InEpsilon(t, math.Log1p(sum), got, 1e-9)
}

// A profile or a curve that is no number counts as no privacy.
func TestGeneralBadValues(t *testing.T) {
	for _, v := range []float64{math.NaN(), -1, 2, math.Inf(1)} {
		step, err := General(dp.Replace, dp.Symmetric(func(float64) float64 { return v }, func(float64) float64 { return -math.Abs(v) }))
		require.NoError(t, err)
		for _, times := range []int{1, 5} {
			c, err := Compose(step.Times(times))
			require.NoError(t, err)
			require.Equal(t, 1., c.Delta(1))
			require.Equal(t, math.Inf(1), c.Epsilon(0.1))
			require.Equal(t, math.Inf(1), c.RDP()(2))
		}
	}
}

// The weights of copies are no less than those of the binomial law, up to the
// largest mean that is accepted.
func TestCopies(t *testing.T) {
	require.NoError(t, WithReplacement{Size: 200, Records: 2}.Check())
	require.ErrorContains(t, WithReplacement{Size: 201, Records: 2}.Check(), "[1, 200]")
	require.ErrorContains(t, WithReplacement{Size: 1 << 31, Records: 1 << 40}.Check(), "2147483647")
	// Where a copy tells everything the profile at 0 is the probability of one.
	for _, c := range []WithReplacement{{200, 2}, {100_000, 1000}, {1_000_000, 10_000}} {
		q := -math.Expm1(float64(c.Size) * math.Log1p(-1/float64(c.Records)))
		got := withReplacement(c.Size, c.Records, minNoise)(0)
		require.GreaterOrEqual(t, got, min(1, q*(1-1e-15)))
		require.InDelta(t, q, got, 1e-10)
	}
}

// A thousand different Gaussian steps: their scales add up in squares, and not to
// less for rounding.
func TestManyGaussians(t *testing.T) {
	var steps []Step
	exact := 0.0
	for i := range 1000 {
		z := 100 + float64(i)/7
		s, err := Gaussian(Full{}, z)
		require.NoError(t, err)
		steps = append(steps, s)
		exact += 4 / z / z
	}
	c, err := Compose(steps...)
	require.NoError(t, err)
	require.GreaterOrEqual(t, c.gauss, math.Sqrt(exact)*(1+500*0x1p-53))
	require.InEpsilon(t, math.Sqrt(exact), c.gauss, 1e-12)
}
