// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// cells returns the law of k + round(ν/g) on the integers in [−far, far], d = 1.
func cells(o Output, k int64, far int) []float64 {
	g := o.Grid()
	mass := func(lo, hi float64) float64 { // P(lo < ν ≤ hi), to full precision in both tails
		if lo < 0 && hi <= 0 {
			lo, hi = -hi, -lo
		}
		if lo < 0 { // around 0
			return 1 - upper(o, hi) - upper(o, -lo)
		}
		return upper(o, lo) - upper(o, hi)
	}
	p := make([]float64, 2*far+1)
	for i := range p {
		at := float64(int64(i-far) - k)
		p[i] = mass(g*(at-0.5), g*(at+0.5))
	}
	return p
}

// upper returns P(ν > x) for x ≥ 0, d = 1.
func upper(o Output, x float64) float64 {
	if o.Rate > 0 {
		return math.Exp(-o.Rate*x) / 2
	}
	return math.Erfc(x/o.Sigma/math.Sqrt2) / 2
}

// compare returns Σ max(0, p − e^ε q), and the largest ln(p/q).
func compare(p, q []float64, eps float64) (delta, ratio float64) {
	for i := range p {
		delta += math.Max(0, p[i]-math.Exp(eps)*q[i])
		ratio = math.Max(ratio, math.Log(p[i]/q[i]))
	}
	return delta, ratio
}

// TestGridIsHidden: points that lie S = apart + 2R from one another, R = g, are rounded to points
// up to g farther apart. Noise for S + g hides them at the claimed budget, that for S alone does
// not.
func TestGridIsHidden(t *testing.T) {
	const cover, apart = 1., 0.5
	for _, b := range []dp.Budget{{Epsilon: 1}, {Epsilon: 0.3, Delta: 1e-4}, {Epsilon: 2, Delta: 1e-6}} {
		o, err := NewOutput(1, cover, apart, 0x1p58)
		require.NoError(t, err)
		require.Equal(t, cover, o.Grid())
		less := o
		less.Sensitivity = apart + 2*cover
		for _, c := range []struct {
			Output
			hidden bool
		}{{o, true}, {less, false}} {
			at, err := c.For(b)
			require.NoError(t, err)
			worst, most := 0.0, 0.0
			for i := range 64 {
				x := float64(i)/64 - 0.5
				k, l := at.Round([]float64{x}, mostPoint), at.Round([]float64{x + apart + 2*cover}, mostPoint)
				delta, ratio := compare(cells(at, l[0], 500), cells(at, k[0], 500), b.Epsilon)
				worst, most = math.Max(worst, delta), math.Max(most, ratio)
			}
			if b.Delta > 0 {
				require.Equal(t, c.hidden, worst <= b.Delta*(1+1e-9), "%v: δ = %v", b, worst)
			} else {
				require.Equal(t, c.hidden, most <= b.Epsilon, "%v: ε = %v", b, most)
			}
		}
	}
}

// TestRoundedDistance: ‖g(k−k′)‖ ≤ S′ for points at most S apart in any number of dimensions, and
// more than S for some.
func TestRoundedDistance(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 8))
	for _, d := range []int{1, 2, 9} {
		o, err := NewOutput(d, 1, 0.5, 0x1p58)
		require.NoError(t, err)
		x, v := make([]float64, d), make([]float64, d)
		farthest := 0.0
		for range 2000 {
			for j := range x {
				x[j], v[j] = 10*rnd.NormFloat64(), rnd.NormFloat64()
			}
			k := o.Round(x, mostPoint)
			floats.AddScaled(x, 2.5/floats.Norm(v, 2), v)
			sum := 0.0
			for j, l := range o.Round(x, mostPoint) {
				sum += float64((l - k[j]) * (l - k[j]))
			}
			farthest = math.Max(farthest, o.Grid()*math.Sqrt(sum))
		}
		require.LessOrEqual(t, farthest, o.Sensitivity, "d=%d", d)
		require.Greater(t, farthest, 2.5, "d=%d", d)
	}
}

// finite returns the law on {−K, …, K} of a release of clamp(round(b+s)), b with density ∝
// e^{−|b|·rate}, in which |b| > most and a coin of probability gamma lead to a uniform point.
func finite(s, rate, most, gamma float64, far int) []float64 {
	cdf := func(x float64) float64 { // of b, cut off at ±most
		x = math.Min(math.Max(x, -most), most)
		if x < 0 {
			return math.Exp(rate*x) / 2
		}
		return 1 - math.Exp(-rate*x)/2
	}
	p := make([]float64, 2*far+1)
	for i := range p {
		lo, hi := float64(i-far)-0.5-s, float64(i-far)+0.5-s
		if i == 0 {
			lo = math.Inf(-1)
		}
		if i == 2*far {
			hi = math.Inf(1)
		}
		p[i] = (1-gamma)*(cdf(hi)-cdf(lo)+math.Exp(-rate*most)/float64(len(p))) + gamma/float64(len(p))
	}
	return p
}

// TestCoin: on a small set Y, enumerated, the truncated noise of a pure mechanism is paid for by
// the coin at mostRadial, by none without the coin, and not at a smaller B_max.
func TestCoin(t *testing.T) {
	const far, bits = 3, 3
	for _, eps := range []float64{0.1, 0.5, 1} {
		ratio := func(most, gamma float64) float64 { // D moves the point by 1, ε = rate·1
			p, q := finite(1, eps, most, gamma, far), finite(0, eps, most, gamma, far)
			require.InDelta(t, 1, floats.Sum(p), 1e-12)
			_, forth := compare(p, q, eps)
			_, back := compare(q, p, eps)
			return math.Max(forth, back)
		}
		most := mostRadial(1, eps, eps, 2*far+1, bits)
		require.LessOrEqual(t, ratio(most, 1./8), eps, "ε=%v", eps)
		require.Greater(t, ratio(most, 0), eps*(1+1e-12), "ε=%v: nothing pays for the event", eps)
		require.Greater(t, ratio(far-0.4, 1./8), eps*(1+1e-6), "ε=%v: the event is too likely", eps)
	}
}

// TestMostRadial: η = (1+e^ε)p of the exact tail p is paid for by γ = 2⁻⁶⁴ on (2K+1)^d points.
func TestMostRadial(t *testing.T) {
	for _, d := range []int{1, 2, 10, 100} {
		for _, eps := range []float64{1e-3, 1, 10} {
			for _, rate := range []float64{1e-3, 7} {
				x := rate * MostRadial(d, eps, rate)
				sum, term := 1.0, 1.0 // P(Gamma(d) > x) = e^{−x}Σ_{k<d} x^k/k!
				for k := 1; k < d; k++ {
					term *= x / float64(k)
					sum += term
				}
				logEta := math.Log1p(math.Exp(eps)) + math.Log(sum) - x
				pays := math.Log(math.Expm1(eps)) - 64*math.Ln2 - float64(d)*math.Log(0x1p61+1)
				require.LessOrEqual(t, logEta, pays, "d=%d ε=%v", d, eps)
				require.Greater(t, logEta, pays-1.5-3*math.Log(x)*math.Sqrt(float64(d)), "d=%d ε=%v: far too large", d, eps)
			}
		}
	}
}

// The norm of a normal vector exceeds B_max, less what its float64 may be off by, with probability
// at most p, for which 2⁻⁵⁷δ pays.
func TestMostNormal(t *testing.T) {
	for _, d := range []int{1, 2, 10, 100, 10_000} {
		for _, b := range []dp.Budget{{Epsilon: 1e-6, Delta: 0.5}, {Epsilon: 1, Delta: 1e-6}, {Epsilon: 20, Delta: 1e-30}} {
			for _, sigma := range []float64{1e-9, 3} {
				most, p := MostNormal(d, b, sigma)
				x := most / sigma * (1 - 1e-10)
				require.LessOrEqual(t, num.Chi2LogSF(x*x, float64(d)), math.Log(p), "d=%d %v", d, b)
				require.LessOrEqual(t, (1+math.Exp(b.Epsilon))*p, 0x1p-57*b.Delta, "d=%d %v", d, b)
				require.Less(t, x, math.Sqrt(float64(d))+math.Sqrt(-2*math.Log(p))+1e-6, "d=%d %v: far too large", d, b)
			}
		}
	}
}

// words is a source of the given numbers, then of others.
type words struct {
	list []uint64
	rand.Source
}

func (w *words) Uint64() uint64 {
	if len(w.list) == 0 {
		return w.Source.Uint64()
	}
	v := w.list[0]
	w.list = w.list[1:]
	return v
}

// TestUniformRelease: the first word 0 or an event of the noise make a release that is Finite a
// point of Y that nothing else enters, any other word does not; other releases toss no coin.
func TestUniformRelease(t *testing.T) {
	o, err := NewOutput(3, 1e-6, 1, 10)
	require.NoError(t, err)
	o, err = o.For(dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	for _, c := range []struct {
		finite  bool
		word    uint64
		failed  bool
		uniform bool
	}{
		{true, 0, false, true}, {true, 1, false, false}, {true, 1, true, true}, {false, 0, false, false},
		{false, 0, true, false},
	} {
		o.Finite = c.finite
		added := false
		f := fault.From(fault.With(t.Context(), OutputNoise, func(v []int64) []int64 { added = true; return v }))
		src := &words{[]uint64{c.word}, noise.Reproducible(4)}
		coin := o.coin(src)
		require.Equal(t, c.uniform && !c.failed, coin, fmt.Sprint(c))
		theta := []float64{1, 2, 3}
		o.add(f, theta, coin || c.failed, src)
		require.Equal(t, c.uniform, !added, fmt.Sprint(c))
		require.Equal(t, c.uniform, floats.Norm(theta, math.Inf(1)) > 0x1p50*o.Grid(), fmt.Sprint(c))
		require.LessOrEqual(t, floats.Norm(theta, math.Inf(1)), 0x1p60*o.Grid(), fmt.Sprint(c))
	}
}

// The failures of two steps are paid for by what a part leaves of δ, and by nothing else.
func TestProvesFailure(t *testing.T) {
	const spare = 1 - 0x1p-50
	require.True(t, ProvesFailure(10, 2, dp.Budget{Epsilon: 3, Delta: 1e-9}, 1e-9*spare))
	require.False(t, ProvesFailure(10, 2, dp.Budget{Epsilon: 3, Delta: 1e-9}, 1e-9))
}
