package dp_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// points is how many random problems a test of rounding directions looks at:
// all of them if PRIVOPT_DEEP is set.
func points(all int) int {
	switch {
	case testkit.Deep():
		return all
	case testing.Short():
		return all / 100
	}
	return all / testkit.Of(10, 4)
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
		for _, p := range [][3]float64{{objective.Epsilon, output.Epsilon, b.Epsilon}, {objective.Delta, output.Delta, b.Delta}} {
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
		eps := testkit.Sub(testkit.Add(n(rdp), shrink), testkit.Quo(testkit.Add(testkit.Log(n(b.Delta)), testkit.Log(n(alpha))), am1))
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
		want, _ := testkit.Quo(testkit.Log(testkit.Quo(cosh(a), cosh(testkit.Quo(n(eps0), n(2))))), testkit.Sub(n(alpha), n(1))).Float64()
		require.InEpsilon(t, want, dp.PureRDP(eps0)(alpha), 1e-12, "ε₀ = %v, α = %v", eps0, alpha)
	}
}
