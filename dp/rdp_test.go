// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/num"
)

// poisson is the curve of T steps of the Poisson-subsampled Gaussian mechanism
// at integer orders, a sum of binomial terms:
//
//	1/(α-1) log Σ_k C(α,k) (1-q)^{α-k} q^k e^{k(k-1)/(2z²)}
func poisson(q, z, steps float64) RDP {
	return func(alpha float64) float64 {
		sum := math.Inf(-1)
		la, _ := math.Lgamma(alpha + 1)
		for k := 0.0; k <= alpha; k++ {
			lk, _ := math.Lgamma(k + 1)
			lr, _ := math.Lgamma(alpha - k + 1)
			l := la - lk - lr + k*math.Log(q) + k*(k-1)/(2*z*z)
			if k < alpha { // the power 0 of 1-q is 1 also for q = 1
				l += (alpha - k) * math.Log1p(-q)
			}
			sum = num.LogSumExp(sum, l)
		}
		return steps * sum / (alpha - 1)
	}
}

func TestRDPGolden(t *testing.T) {
	var g golden
	read(t, "golden.json", &g)
	require.NotEmpty(t, g.Rdp_poisson)
	for _, c := range g.Rdp_poisson {
		require.InDelta(t, c.Rdp, poisson(c.Q, c.Z, 1)(float64(c.Alpha)),
			1e-11*(1+c.Rdp)) // Lgamma differences in the test's own sum
	}
	var orders []float64
	for a := 2; a <= 64; a++ {
		orders = append(orders, float64(a))
	}
	orders = append(orders, 72, 80, 96, 128, 160, 192, 256, 320, 384, 512)
	require.NotEmpty(t, g.Rdp_to_dp)
	for _, c := range g.Rdp_to_dp {
		r := poisson(c.Q, c.Poisson_z, c.T)
		eps, alpha := r.Epsilon(c.Delta, orders...)
		require.InEpsilon(t, c.Poisson_eps_rdp, eps, 1e-9)
		require.Equal(t, c.Poisson_alpha, alpha)
		require.InEpsilon(t, c.Delta, r.Curve(orders...)(eps), 1e-8) // the two conversions are inverse
	}
}

func TestRDPOfPure(t *testing.T) {
	for _, eps := range []float64{1e-9, 0.1, 1, 5, 500} {
		p := 1 / (1 + math.Exp(-eps)) // randomized response
		for _, a := range []float64{1.01, 1.5, 2, 10, 1000} {
			got := PureRDP(eps)(a)
			require.LessOrEqual(t, got, math.Min(eps, a*eps*eps/2)*(1+1e-13))
			if eps >= 0.1 && eps < 500 && a <= 10 { // the powers stay in range
				want := math.Log(math.Pow(p, a)*math.Pow(1-p, 1-a)+math.Pow(1-p, a)*math.Pow(p, 1-a)) / (a - 1)
				require.InEpsilon(t, want, got, 1e-11)
			}
			if eps == 1e-9 && a < 1000 {
				require.InEpsilon(t, a*eps*eps/2, got, 1e-6)
			}
		}
	}
	require.InEpsilon(t, 5, PureRDP(5)(1e12), 1e-9)
	// The two branches meet.
	a := 300/2.0 + 0.5
	require.InEpsilon(t, PureRDP(2)(a-1e-9), PureRDP(2)(a+1e-9), 1e-10)
}

// TestRDPConversionValid: the conversion never claims less than the exact
// profile of a Gaussian, and is not far above it.
func TestRDPConversionValid(t *testing.T) {
	for _, s := range []float64{0.01, 0.2, 1, 5} {
		for _, delta := range []float64{1e-10, 1e-5} {
			eps, order := GaussianRDP(s).Epsilon(delta)
			exact := GaussianCurve(s).Epsilon(delta)
			require.Greater(t, order, 1.)
			require.GreaterOrEqual(t, eps, exact)
			require.Less(t, eps, 1.35*exact+1e-9, "s = %v, δ = %v", s, delta)
			require.GreaterOrEqual(t, GaussianRDP(s).Curve()(exact), delta)
		}
	}
	// k Gaussians compose to one of √k times the ratio.
	require.InEpsilon(t, GaussianRDP(0.3*math.Sqrt(3))(7), 3*GaussianRDP(0.3)(7), 1e-14)
}

func TestRDPBadValues(t *testing.T) {
	for _, delta := range []float64{0, 1, -1, math.NaN(), 2} {
		eps, _ := GaussianRDP(1).Epsilon(delta)
		require.Equal(t, math.Inf(1), eps)
	}
	eps, _ := GaussianRDP(1).Epsilon(1e-5, 1, 0.5, math.NaN(), math.Inf(1))
	require.Equal(t, math.Inf(1), eps)
	nan := RDP(func(float64) float64 { return math.NaN() })
	eps, _ = nan.Epsilon(1e-5)
	require.Equal(t, math.Inf(1), eps)
	require.Equal(t, 1., nan.Curve()(1))
	for _, r := range []RDP{GaussianRDP(-1), GaussianRDP(math.NaN()), PureRDP(-1), PureRDP(math.NaN())} {
		require.Equal(t, math.Inf(1), r(2))
	}
	require.Equal(t, math.Inf(1), GaussianRDP(1)(1))
	require.Equal(t, math.Inf(1), PureRDP(1)(0.5))
	require.Equal(t, 5., PureRDP(5)(math.Inf(1)))
	require.Equal(t, math.Inf(1), PureRDP(math.Inf(1))(2))
	require.Zero(t, GaussianRDP(0)(math.Inf(1)))
	eps, _ = GaussianRDP(0).Epsilon(1e-5)
	require.InDelta(t, 0, eps, 1e-4) // nothing was released
}

// At order 2 the Rényi curve of Poisson batches is log1p(q²(e^{1/z²}−1)), which a
// sum near 1 does not resolve.
func TestRDPSmall(t *testing.T) {
	require.InEpsilon(t, math.Log(10*9*8/6), logBinomial(10, 3), 1e-13)
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

func TestSampledRDPGolden(t *testing.T) {
	g := readSampled(t)
	require.Len(t, g.Rdp.A, 4)
	require.Len(t, g.Rdp.B, 3)
	for _, v := range g.Rdp.A {
		c := sumsOf(t, Sampler{Rate: v.Q, Relation: AddRemove}, v.Z, 1)
		require.InEpsilon(t, v.Rdp, c.rdp(v.Alpha), 1e-10)
	}
	for _, v := range g.Rdp.B {
		n := 10000
		c := sumsOf(t, Sampler{Size: int(v.Q * float64(n)), Records: n}, v.Z, 1)
		require.InEpsilon(t, v.Rdp, c.rdp(v.Alpha), 1e-10)
		c = sumsOf(t, Sampler{Rate: v.Q}, v.Z, 1) // the same bound
		require.InEpsilon(t, v.Rdp, c.rdp(v.Alpha), 1e-10)
	}
	var golden []float64 // the orders of the golden search
	for _, a := range orders() {
		if a <= 512 {
			golden = append(golden, a)
		}
	}
	require.Len(t, g.Conversion.Values, 3)
	for _, v := range g.Conversion.Values {
		eps, _ := sumsOf(t, Sampler{Rate: v.Q, Relation: AddRemove}, v.ZPoisson, v.T).rdp.Epsilon(v.Delta, golden...)
		require.InEpsilon(t, v.Poisson, eps, 1e-9)
		n := 10000
		eps, _ = sumsOf(t, Sampler{Size: int(v.Q * float64(n)), Records: n}, v.ZFixed, v.T).rdp.Epsilon(v.Delta, golden...)
		require.InEpsilon(t, v.Fixed, eps, 1e-9)
	}
}
