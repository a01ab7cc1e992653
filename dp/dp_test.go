// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// The tests of this file pin down constants and branches whose change no other test notices.

func TestBudgetEnds(t *testing.T) {
	for _, b := range []dp.Budget{{Epsilon: dp.MinEpsilon}, {Epsilon: dp.MaxEpsilon}, {Epsilon: 1, Delta: dp.MinDelta},
		{Epsilon: 1, Delta: math.Nextafter(1, 0)}} {
		require.NoError(t, b.Check(), "%v", b)
	}
	for _, b := range []dp.Budget{{Epsilon: 0.99 * dp.MinEpsilon}, {Epsilon: 1.01 * dp.MaxEpsilon},
		{Epsilon: 1, Delta: 0.99 * dp.MinDelta},
		{Epsilon: 1, Delta: 1}} {
		require.ErrorIs(t, b.Check(), dp.ErrBudget, "%v", b)
	}
}

func TestProfileEnds(t *testing.T) {
	step := func(at float64) dp.Curve {
		return func(eps float64) float64 {
			if eps >= at {
				return 0
			}
			return 1
		}
	}
	require.Equal(t, 0.97*dp.MaxEpsilon, step(0.97*dp.MaxEpsilon).Epsilon(0.5))
	require.Equal(t, math.Inf(1), step(1.01*dp.MaxEpsilon).Epsilon(0.5))
	require.Zero(t, step(-1).Epsilon(0.5))

	// δ + (1−δ)d with d = (e − 1)/(1 + e) at ε = 0 for ε₀ = 1.
	d := math.Expm1(1) / (1 + math.E)
	require.InDelta(t, 0.2+0.8*d, dp.Budget{Epsilon: 1, Delta: 0.2}.Profile().Delta(0), 1e-15)
}

// TestCalibrateEnds: the range of the search is what is documented.
func TestCalibrateEnds(t *testing.T) {
	upTo := func(most float64) func(s float64) dp.Curve {
		return func(s float64) dp.Curve {
			return func(float64) float64 {
				if s <= most {
					return 0
				}
				return 1
			}
		}
	}
	b := dp.Budget{Epsilon: 1, Delta: 0.5}
	for _, most := range []float64{0x1p-80, 1, 0.97 * 0x1p80} {
		s, err := dp.Calibrate(upTo(most), b)
		require.NoError(t, err)
		require.Equal(t, most, s)
	}
	s, err := dp.Calibrate(upTo(0x1p90), b)
	require.NoError(t, err)
	require.Equal(t, 0x1p80, s)
	_, err = dp.Calibrate(upTo(0.97*0x1p-80), b)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// TestRDPSearch: the orders that are looked at lie in the documented range and
// fill it, and the best one is found to eight digits of ε.
func TestRDPSearch(t *testing.T) {
	least, most := math.Inf(1), 0.
	seen := dp.RDP(func(alpha float64) float64 {
		least, most = min(least, alpha), max(most, alpha)
		return 1
	})
	seen.Epsilon(1e-6)
	require.InDelta(t, 1e-3, least-1, 2e-5)
	require.InEpsilon(t, 1e9, most, 0.01)

	for _, s := range []float64{0.05, 1, 7} {
		for _, delta := range []float64{1e-4, 1e-9, 1e-100} {
			r := dp.GaussianRDP(s)
			dense := make([]float64, 40_001)
			for i := range dense {
				dense[i] = 1 + math.Exp(-6.9+float64(i)*27.6/40_000)
			}
			want, order := r.Epsilon(delta, dense...)
			got, at := r.Epsilon(delta)
			require.InEpsilon(t, want, got, 1e-6, "s = %v, δ = %v", s, delta)
			require.LessOrEqual(t, got, want*(1+1e-11), "s = %v, δ = %v", s, delta)
			require.InEpsilon(t, order-1, at-1, 2e-3, "s = %v, δ = %v", s, delta)
			eps := want / 2
			require.LessOrEqual(t, r.Curve()(eps), r.Curve(dense...)(eps)*(1+1e-9))
		}
	}
}

func TestOrdersThatDoNotCount(t *testing.T) {
	free := dp.RDP(func(float64) float64 { return 0 })
	for _, alpha := range []float64{0.97, 1, 0, -1, math.Inf(1), math.NaN()} {
		eps, _ := free.Epsilon(1e-6, alpha)
		require.Equal(t, math.Inf(1), eps, "order %v", alpha)
		require.Equal(t, 1., free.Curve(alpha)(1), "order %v", alpha)
		if !math.IsInf(alpha, 1) {
			require.Equal(t, math.Inf(1), dp.PureRDP(1)(alpha), "order %v", alpha)
			require.Equal(t, math.Inf(1), dp.GaussianRDP(1)(alpha), "order %v", alpha)
		}
	}
	eps, _ := dp.GaussianRDP(0.1).Epsilon(0.97)
	require.False(t, math.IsInf(eps, 1), "δ just below 1")
}

// TestConversionMargins: where the terms of the conversion cancel, the result
// still is not below 60 digits: the margin for their rounding is what holds it.
func TestConversionMargins(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 20))
	n := testkit.New
	for range 400 {
		// ε of a few 1e-9 beside terms of size 1 to 10.
		alpha := 1 + math.Exp(-4*rnd.Float64())
		delta := math.Exp(-5 * rnd.Float64())
		am1 := testkit.Sub(n(alpha), n(1))
		rest := testkit.Sub(testkit.Log(testkit.Quo(am1, n(alpha))),
			testkit.Quo(testkit.Add(testkit.Log(n(delta)), testkit.Log(n(alpha))), am1))
		f, _ := rest.Float64()
		v := -f + 1e-9*rnd.Float64()
		if v <= 0 {
			continue
		}
		exact := testkit.Add(n(v), rest)
		got, _ := dp.RDP(func(float64) float64 { return v }).Epsilon(delta, alpha)
		require.GreaterOrEqual(t, n(got).Cmp(exact), 0, "α = %v, δ = %v", alpha, delta)
		require.LessOrEqual(t, n(got).Cmp(testkit.Add(exact, n(1e-13))), 0)

		// log δ = −1 or so beside α(v − ε) of size 1e6 and more.
		alpha = 1 + math.Exp(14+4*rnd.Float64())
		am1 = testkit.Sub(n(alpha), n(1))
		v = 10 * rnd.Float64()
		eps := v + (1+rnd.Float64())/alpha
		l := testkit.Mul(am1, testkit.Add(testkit.Sub(n(v), n(eps)), testkit.Log(testkit.Quo(am1, n(alpha)))))
		exact = testkit.Quo(testkit.Exp(l), n(alpha))
		d := dp.RDP(func(float64) float64 { return v }).Curve(alpha)(eps)
		require.GreaterOrEqual(t, n(d).Cmp(exact), 0, "α = %v, v = %v", alpha, v)
	}
}

// TestConversionCoversCancellation: where large terms cancel, ε and δ still are
// not below 60 digits of the formulas, and not above them by more than the margins.
func TestConversionCoversCancellation(t *testing.T) {
	n := testkit.New
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 100 {
		// v and the cost −log δ/(α−1) are about 7 each, log(1−1/α) is −13.8.
		const alpha = 1 + 0x1p-20
		delta := math.Exp(-0x1p-20 * (6.5 + rnd.Float64()))
		rest := testkit.Log(testkit.Sub(n(1), testkit.Quo(n(1), n(alpha))))
		rest = testkit.Sub(rest, testkit.Quo(testkit.Add(testkit.Log(n(delta)), testkit.Log(n(alpha))), n(alpha-1)))
		f, _ := rest.Float64()
		v := 1e-9 - f
		want := testkit.Add(n(v), rest) // about 1e-9, from terms of 7 and 14
		got, order := dp.RDP(func(float64) float64 { return v }).Epsilon(delta, alpha)
		require.Equal(t, alpha, order)
		d, _ := testkit.Sub(n(got), want).Float64()
		require.True(t, d >= 0 && d < 8*0x1p-50*14, "ε is off by %v", d)

		// v = αs²/2 is about 1e6 and rounded, ε the same but for 1/10.
		a, s2 := 1000+rnd.Float64(), 1900+100*rnd.Float64()
		exact := testkit.Quo(testkit.Mul(n(a), n(s2)), n(2))
		eps := a*s2/2 + 0.1
		l := testkit.Add(testkit.Sub(exact, n(eps)), testkit.Log(testkit.Sub(n(1), testkit.Quo(n(1), n(a)))))
		small, _ := testkit.Exp(testkit.Sub(testkit.Mul(testkit.Sub(n(a), n(1)), l), testkit.Log(n(a)))).Float64()
		d = dp.RDP(func(alpha float64) float64 { return alpha * s2 / 2 }).Curve(a)(eps)/small - 1
		require.True(t, d >= 0 && d < 8*0x1p-50*2e6*1e3, "δ is off by %v", d)
	}
}

// A seed and labels name one stream.
func TestSeeded(t *testing.T) {
	a, b := dp.Seeded(1, "run", "7"), noise.Reproducible(1, "run", "7")
	first := a.Uint64()
	require.Equal(t, b.Uint64(), first)
	require.NotEqual(t, first, dp.Seeded(1, "run7").Uint64())
	require.NotEqual(t, first, dp.Seeded(2, "run", "7").Uint64())
}

// points is how many random problems a test of rounding directions looks at:
// all of them if PRIVOPT_DEEP is set.
func points(all int) int {
	switch {
	case testkit.Deep():
		return all
	case testing.Short():
		return all / 100
	}
	return all / testkit.Of(25, 4)
}

// budget draws ε log-uniformly from [lo, hi] and δ from [1e-300, 0.9].
func budget(rnd *rand.Rand, lo, hi float64) dp.Budget {
	eps := lo * math.Exp(rnd.Float64()*math.Log(hi/lo))
	delta := math.Exp(-math.Exp(rnd.Float64() * math.Log(690)))
	if rnd.IntN(10) == 0 {
		delta = 0.9 * rnd.Float64()
	}
	return dp.Budget{Epsilon: min(max(eps, lo), hi), Delta: max(delta, dp.MinDelta)}
}

// TestGaussianSigmaIsRoundedUp: at 10 000 budgets the σ of the analytic Gaussian
// mechanism satisfies δ in 60-digit arithmetic, and a σ smaller by 1e-6 does
// not: never below the least σ, and above it by less than 1e-6.
func TestGaussianSigmaIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 1))
	for range points(6000) {
		b := budget(rnd, 1e-12, 1e4)
		sensitivity := math.Exp(20 * (rnd.Float64() - 0.5))
		sigma, err := dp.GaussianSigma(b, sensitivity)
		require.NoError(t, err)
		s := testkit.Quo(testkit.New(sensitivity), testkit.New(sigma)) // exact to 320 bits
		eps, delta := testkit.New(b.Epsilon), testkit.New(b.Delta)
		require.LessOrEqual(t, testkit.GaussianDelta(eps, s).Cmp(delta), 0, "%v: σ = %v is too small", b, sigma)
		s = testkit.Mul(s, testkit.New(1+1e-6))
		require.Positive(t, testkit.GaussianDelta(eps, s).Cmp(delta), "%v: σ = %v is too large", b, sigma)
	}
}

// TestGaussianDeltaIsAccurate: log δ agrees with 60 digits to 2e-12 relative (or
// absolute near δ = 1), on both sides of every branch, which is what the margins of
// calibrations assume.
func TestGaussianDeltaIsAccurate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 2))
	check := func(eps, s float64) {
		want := testkit.GaussianDelta(testkit.New(eps), testkit.New(s))
		f, _ := want.Float64()
		if f < 1e-300 {
			return
		}
		got := dp.GaussianLogDelta(eps, s)
		l, _ := testkit.Log(want).Float64()
		require.InDelta(t, l, got, 1e-13+2e-12*math.Abs(l), "ε = %v, s = %v", eps, s)
		require.InEpsilon(t, f, dp.GaussianDelta(eps, s), 2e-13+2e-12*math.Abs(l), "ε = %v, s = %v", eps, s)
	}
	for range points(2000) {
		s := math.Exp(16*rnd.Float64() - 12)
		check((rnd.Float64()*40-5)*s, s)
	}
	for _, s := range []float64{0.94, 0.97, 1, 1.03, 1.06, 1.5, 4} { // around the branch at s = 1
		for _, a := range []float64{-3, -0.5, -1e-3, 0, 1e-3, 0.5, 0.9, 1, 1.1, 3, 12} { // a = ε/s − s/2
			check((a+s/2)*s, s)
		}
	}
	for _, eps := range []float64{-1e-3, -0.1, -0.68, -0.7, -2, -8} { // e^ε around ½
		for _, s := range []float64{0.05, 0.5, 1.35, 1.4, 3} {
			check(eps, s)
		}
	}
}

// TestSplitAndComposeRound: parts of a budget add up to at most the whole, and
// a composition to at least its parts, over the rationals.
func TestSplitAndComposeRound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 3))
	rat := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	for range points(4000) {
		b := budget(rnd, 1e-9, 1e4)
		share := rnd.Float64()
		if share == 0 {
			continue
		}
		objective, output := b.Split(share)
		for _, p := range [][3]float64{{objective.Epsilon, output.Epsilon, b.Epsilon},
			{objective.Delta, output.Delta, b.Delta}} {
			sum := new(big.Rat).Add(rat(p[0]), rat(p[1]))
			require.LessOrEqual(t, sum.Cmp(rat(p[2])), 0, "%v split at %v", b, share)
			// Not more than two roundings are lost.
			require.GreaterOrEqual(t, sum.Cmp(new(big.Rat).Mul(rat(p[2]), rat(1-0x1p-51))), 0, "%v split at %v", b, share)
		}
		c := dp.Certificate{Budget: objective, Relation: dp.Replace, Theorem: "x"}
		e := c
		e.Budget = output
		if e.Check() != nil || c.Check() != nil {
			continue
		}
		sum, err := dp.Basic(c, e, c)
		if err != nil {
			continue // the sum is no budget
		}
		exact := new(big.Rat).Add(rat(output.Epsilon), new(big.Rat).Add(rat(objective.Epsilon), rat(objective.Epsilon)))
		require.GreaterOrEqual(t, rat(sum.Epsilon).Cmp(exact), 0)
		require.LessOrEqual(t, rat(sum.Epsilon).Cmp(new(big.Rat).Mul(exact, rat(1+0x1p-50))), 0)
	}
}

// TestRDPConversionRoundsUp: the ε that a Gaussian curve implies at one order is
// not below the formula of [CKS20] in 60 digits and above it by less than 1e-9;
// the same for δ.
func TestRDPConversionRoundsUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 4))
	n := testkit.New
	for range points(2000) {
		s, alpha := math.Exp(8*rnd.Float64()-6), 1+math.Exp(12*rnd.Float64()-4)
		b := budget(rnd, 0.01, 10)
		rdp := dp.GaussianRDP(s)(alpha)
		require.InEpsilon(t, alpha*s*s/2, rdp, 1e-15)

		am1 := testkit.Sub(n(alpha), n(1))
		// RDP + log(1 − 1/α) − (log δ + log α)/(α − 1)
		shrink := testkit.Log(testkit.Quo(am1, n(alpha)))
		eps := testkit.Sub(testkit.Add(n(rdp), shrink), testkit.Quo(testkit.Add(testkit.Log(n(b.Delta)),
			testkit.Log(n(alpha))), am1))
		want, _ := eps.Float64()
		got, _ := dp.GaussianRDP(s).Epsilon(b.Delta, alpha)
		if want > 0 {
			require.GreaterOrEqual(t, n(got).Cmp(eps), 0, "α = %v, s = %v", alpha, s)
			scale := rdp - math.Log(b.Delta)/(alpha-1)
			require.LessOrEqual(t, got, want+1e-9*want+1e-12*scale)
		}
		// e^{(α−1)(RDP − ε + log(1−1/α)) − log α}
		l := testkit.Sub(testkit.Mul(am1, testkit.Add(testkit.Sub(n(rdp), n(b.Epsilon)), shrink)), testkit.Log(n(alpha)))
		logWant, _ := l.Float64()
		delta := dp.GaussianRDP(s).Curve(alpha)(b.Epsilon)
		if logWant > -600 && logWant < -1e-9 {
			require.GreaterOrEqual(t, n(delta).Cmp(testkit.Exp(l)), 0, "α = %v, s = %v, ε = %v", alpha, s, b.Epsilon)
			require.LessOrEqual(t, math.Log(delta), logWant+1e-9+1e-14*alpha*(rdp+b.Epsilon+1))
		} else if logWant >= 0 {
			require.Equal(t, 1., delta)
		}
	}
}

// TestPureRDPIsAccurate: the curve of randomized response in 60 digits.
func TestPureRDPIsAccurate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 5))
	n := testkit.New
	cosh := func(x *big.Float) *big.Float {
		return testkit.Add(testkit.Exp(x), testkit.Exp(testkit.Mul(n(-1), x)))
	}
	for i := range points(2000) {
		eps0, alpha := math.Exp(14*rnd.Float64()-8), 1+math.Exp(14*rnd.Float64()-6)
		if i%4 == 0 { // around (α − ½)ε₀ = 300, where the form changes
			alpha = (290+20*rnd.Float64())/eps0 + 0.5
		}
		if !(alpha > 1) || alpha*eps0 > 5000 {
			continue
		}
		a := testkit.Mul(testkit.Sub(n(alpha), n(0.5)), n(eps0))
		want, _ := testkit.Quo(testkit.Log(testkit.Quo(cosh(a), cosh(testkit.Quo(n(eps0), n(2))))),
			testkit.Sub(n(alpha), n(1))).Float64()
		require.InEpsilon(t, want, dp.PureRDP(eps0)(alpha), 1e-12, "ε₀ = %v, α = %v", eps0, alpha)
	}
}
