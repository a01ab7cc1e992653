// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"encoding/json"
	"math"
	"math/big"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

func TestLambdaMinGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/lambda_min_cdf.json")
	require.NoError(t, err)
	var golden struct {
		Values []struct {
			D      int
			M      float64
			X, CDF string
		}
	}
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.Len(t, golden.Values, 29)
	for _, v := range golden.Values {
		x, err := strconv.ParseFloat(v.X, 64)
		require.NoError(t, err)
		want, err := strconv.ParseFloat(v.CDF, 64)
		require.NoError(t, err)
		law := MinEigenvalueLaw{v.D, v.M}
		require.InEpsilon(t, want, law.CDF(x), 1e-9, "%v at %v", law, x)
		require.InDelta(t, math.Log(want), law.LogCDF(x), 1e-9)
		if v.D > 1 { // LogCDF could return a closed form here; the chain is computed without them
			require.InEpsilon(t, want, minEigCDF(v.D, v.M, x, fine), 1e-9, "%v at %v", law, x)
		}
		require.GreaterOrEqual(t, EdelmanLogCDF(v.D, v.M, x), math.Log(want)-1e-12)
		require.GreaterOrEqual(t, davidsonSzarekLogCDF(v.D, v.M, x), math.Log(want))
	}
}

// pfaffianCDF returns F(x) for m-d odd, computed by Chiani's recursion [Chi14] in exact
// rational arithmetic: with N = (m-d-1)/2, qᵢ = N+i-1, t = x/2, gᵢ = Γ(qᵢ+1, t),
//
//	B_ii = gᵢ²/2,  B_{i+1,j} = (qᵢ+1) B_ij + t^{qᵢ+1} e⁻ᵗ gⱼ - 2^{-(qᵢ+qⱼ+2)} Γ(qᵢ+qⱼ+2, 2t),
//	A_ij = 2B_ij - gᵢ gⱼ  (bordered by g if d is odd),  1 - F(x) = Pf A(x)/Pf A(0).
//
// The exponentials are collected in a single factor e^{-dt}.
func pfaffianCDF(d, m int, x *big.Rat) float64 {
	pf := new(big.Rat).Quo(pfaffian(chiani(d, m, x)), pfaffian(chiani(d, m, new(big.Rat))))
	const prec = 2000
	e := bigExp(new(big.Rat).Mul(x, big.NewRat(-int64(d), 2)), prec)
	e.Mul(e, new(big.Float).SetPrec(prec).SetRat(pf))
	f, _ := new(big.Float).SetPrec(prec).Sub(big.NewFloat(1).SetPrec(prec), e).Float64()
	return f
}

// upperGamma returns Γ(n+1, t) eᵗ = n! Σ_{k≤n} tᵏ/k!.
func upperGamma(n int, t *big.Rat) *big.Rat {
	sum, term := big.NewRat(1, 1), big.NewRat(1, 1)
	for k := 1; k <= n; k++ {
		term = new(big.Rat).Mul(term, new(big.Rat).Mul(t, big.NewRat(1, int64(k))))
		sum = new(big.Rat).Add(sum, term)
	}
	return sum.Mul(sum, new(big.Rat).SetInt(new(big.Int).MulRange(1, int64(max(n, 1)))))
}

func chiani(d, m int, x *big.Rat) [][]*big.Rat {
	n := (m - d - 1) / 2
	t := new(big.Rat).Mul(x, big.NewRat(1, 2))
	size := d + d%2
	a := make([][]*big.Rat, size)
	for i := range a {
		a[i] = make([]*big.Rat, size)
		for j := range a[i] {
			a[i][j] = new(big.Rat)
		}
	}
	g := make([]*big.Rat, d)
	for i := range g {
		g[i] = upperGamma(n+i, t)
	}
	pow := func(k int) *big.Rat {
		p := big.NewRat(1, 1)
		for range k {
			p.Mul(p, t)
		}
		return p
	}
	for j := range d {
		b := new(big.Rat).Mul(g[j], g[j])
		b.Mul(b, big.NewRat(1, 2))
		for i := j; i+1 < d; i++ {
			q := n + i
			next := new(big.Rat).Mul(b, big.NewRat(int64(q+1), 1))
			next.Add(next, new(big.Rat).Mul(pow(q+1), g[j]))
			half := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), uint(2*n+i+j+2)))
			next.Sub(next, half.Mul(half, upperGamma(2*n+i+j+1, x)))
			b = next
			v := new(big.Rat).Mul(b, big.NewRat(2, 1))
			v.Sub(v, new(big.Rat).Mul(g[i+1], g[j]))
			a[i+1][j].Set(v)
			a[j][i+1].Neg(v)
		}
	}
	if d%2 == 1 {
		for i := range d {
			a[i][d].Set(g[i])
			a[d][i].Neg(g[i])
		}
	}
	return a
}

// pfaffian returns the Pfaffian of a, by eliminating two rows and columns at a time. It overwrites
// a.
func pfaffian(a [][]*big.Rat) *big.Rat {
	pf := big.NewRat(1, 1)
	for k := 0; k+1 < len(a); k += 2 {
		p := a[k][k+1] // without pivoting: the arithmetic is exact, and no pivot is 0 for these matrices
		pf.Mul(pf, p)
		for i := k + 2; i < len(a); i++ {
			for j := k + 2; j < len(a); j++ {
				// A_ij += (A_ik A_{k+1,j} - A_{i,k+1} A_kj)/p
				u := new(big.Rat).Mul(a[i][k], a[k+1][j])
				u.Sub(u, new(big.Rat).Mul(a[i][k+1], a[k][j]))
				a[i][j].Add(a[i][j], u.Quo(u, p))
			}
		}
	}
	return pf
}

// bigExp returns eˣ, from the Taylor series of x/2⁶⁴, squared 64 times.
func bigExp(x *big.Rat, prec uint) *big.Float {
	y := new(big.Float).SetPrec(prec).SetRat(x)
	y.SetMantExp(y, -64)
	sum, term := big.NewFloat(1).SetPrec(prec), big.NewFloat(1).SetPrec(prec)
	for k := int64(1); k < 60; k++ {
		term.Mul(term, y)
		term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(k))
		sum.Add(sum, term)
	}
	for range 64 {
		sum.Mul(sum, sum)
	}
	return sum
}

// TestLambdaMinPfaffian compares the law from the chain with exact rational arithmetic.
func TestLambdaMinPfaffian(t *testing.T) {
	// The reference itself is tested for m = d+1, where the law is exponential.
	for d := 1; d <= 6; d++ {
		require.InEpsilon(t, -math.Expm1(-float64(d)*0.15), pfaffianCDF(d, d+1, big.NewRat(3, 10)), 1e-14)
	}
	for _, c := range [][2]int{
		{2, 3}, {2, 5}, {2, 15}, {3, 4}, {3, 6}, {3, 10}, {4, 9}, {4, 25}, {5, 8}, {6, 13}, {7, 16}, {8, 15}, {9, 30},
	}[:testkit.Of(10, 13)] {
		d, m := c[0], c[1]
		// edge is the lower edge of the bulk of the spectrum.
		edge := math.Pow(math.Sqrt(float64(m))-math.Sqrt(float64(d)), 2)
		for _, s := range []float64{1e-6, 0.01, 0.1, 0.4, 1, 2} {
			x := new(big.Rat).SetFloat64(s * edge)
			f, _ := x.Float64()
			want := pfaffianCDF(d, m, x)
			if want < 1e-30 || want > 1-1e-15 {
				continue
			}
			require.InEpsilon(t, want, minEigCDF(d, float64(m), f, fine), 1e-9, "d=%d m=%d x=%v", d, m, f)
		}
	}
}

// TestLambdaMinSimulation compares the law with draws. The tolerance is Massart's bound, exceeded
// with probability 1e-6.
func TestLambdaMinSimulation(t *testing.T) {
	const n = 20_000
	for _, law := range []MinEigenvalueLaw{{5, 12}, {3, 3}, {30, 60}}[:testkit.Of(2, 3)] {
		src := noise.Reproducible(9, "lambda min")
		x := make([]float64, n)
		w := mat.NewSymDense(law.Dim, nil)
		for i := range x {
			if err := Wishart(w, law.Dof, src); err != nil {
				t.Fatal(err)
			}
			x[i] = MinEig(w)
		}
		slices.Sort(x)
		for _, q := range []float64{0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99} {
			require.InDelta(t, q, law.CDF(x[int(q*n)]), ksCritical(n)+1./n, "%v at %v", law, q)
		}
	}
}

// TestLambdaMinBrackets bounds F from both sides using only χ² probabilities. The package computes
// F from a Markov chain of pivots; here every transition of that chain is rounded up, or down, to a
// grid. The chain is stochastically monotone in g, so that the results are bounds on F.
func TestLambdaMinBrackets(t *testing.T) {
	for _, c := range []struct {
		d    int
		m, x float64
	}{{2, 4.5, 0.3}, {3, 7, 0.2}, {4, 6.25, 0.5}} {
		lower, upper := gridChain(c.d, c.m, c.x, false), gridChain(c.d, c.m, c.x, true)
		f := MinEigenvalueLaw{c.d, c.m}.CDF(c.x)
		require.Less(t, lower, f)
		require.Less(t, f, upper)
		require.Less(t, upper/lower, 1.7, "the bracket is first order in the mesh")
	}
}

// gridChain bounds F(x) on a grid of 250 points in log r and log y.
func gridChain(d int, m, x float64, up bool) (killed float64) {
	const n, low, high = 250, -10., 7.
	grid := func(k int) float64 { return x * math.Exp(low+(high-low)*float64(k)/n) }
	state := map[float64]float64{x: 1}
	// side returns the grid point that represents the cell (grid(k-1), grid(k)].
	side := func(k int) float64 {
		if up {
			return grid(k)
		}
		if k == 0 {
			return 0
		}
		return grid(k - 1)
	}
	for i := 1; i < d; i++ {
		nuA, nuB := m-float64(i)+1, float64(d-i)
		r := make([]float64, n+1)
		var over float64 // the mass with r beyond the grid
		for g, w := range state {
			if w == 0 {
				continue
			}
			killed += w * num.Chi2CDF(g, nuA)
			// r ≤ ρ if a² ≥ g (1 + 1/ρ)
			before := 0.
			for k := range r {
				p := num.Chi2SF(g*(1+x/grid(k)), nuA) // r is on the grid of y/x
				r[k] += w * (p - before)
				before = p
			}
			over += w * (num.Chi2SF(g, nuA) - before)
		}
		next := map[float64]float64{}
		if up {
			killed += over // these states count as r = ∞
		} else {
			r[n] += over // these states get a smaller r
		}
		for k, w := range r {
			rho := side(k) / x
			before := 0.
			for l := range n + 1 {
				p := 1.
				if rho > 0 {
					p = num.Chi2CDF(grid(l)/rho, nuB)
				}
				next[x+side(l)] += w * (p - before)
				before = p
			}
			if up {
				killed += w * (1 - before)
			} else {
				next[x+grid(n)] += w * (1 - before)
			}
		}
		state = next
	}
	for g, w := range state {
		killed += w * num.Chi2CDF(g, m-float64(d)+1)
	}
	return killed
}

// TestChainKeepsMass checks that at every step the killed mass and the remaining mass of the chain
// add up to 1.
func TestChainKeepsMass(t *testing.T) {
	for _, l := range []struct {
		d    int
		m, x float64
	}{{8, 9.5, 0.1}, {20, 40, 3}, {40, 41, 1e-6}, {60, 200, 40}} {
		c := newChain(l.d, l.m, l.x, 1e-12)
		for i := 1; i < l.d; i++ {
			nuA, nuB := l.m-float64(i)+1, float64(l.d-i)
			c.h = fine * min(math.Sqrt(2/nuA), math.Sqrt(2/nuB), 0.35)
			require.True(t, c.half(nuA, nuB))
			c.step(nuA-1, nuB)
			sum := c.killed
			for _, w := range c.w {
				require.False(t, math.IsNaN(w) || w < 0)
				sum += w
			}
			// A step of the quadrature loses 1e-10 at most, the tails 4e-13.
			require.InDelta(t, 1, sum, 1e-10*float64(i)+1e-11, "%v step %d", l, i)
		}
	}
}

func TestLambdaMinMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		m := float64(d) - 1 + rapid.Float64Range(0.05, 12).Draw(t, "extra")
		x := math.Exp(rapid.Float64Range(-12, 4).Draw(t, "log x"))
		law := MinEigenvalueLaw{d, m}
		f := law.LogCDF(x)
		tol := 1e-8 // the accuracy that the documentation states
		require.LessOrEqual(t, f, 0.)
		require.False(t, math.IsNaN(f))
		require.GreaterOrEqual(t, law.LogCDF(x*1.01), f-tol, "increases with x")
		require.LessOrEqual(t, MinEigenvalueLaw{d, m + 0.5}.LogCDF(x), max(f, logLeast)+tol, "decreases with m")
		require.GreaterOrEqual(t, MinEigenvalueLaw{d + 1, m + 1}.LogCDF(x), num.Chi2LogCDF(x, m-float64(d)+1)-tol,
			"λ_min ≤ 1/(W⁻¹)₁₁")
		require.LessOrEqual(t, f, max(logLeast, EdelmanLogCDF(d, m, x))+tol)
		require.LessOrEqual(t, f, max(logLeast, davidsonSzarekLogCDF(d, m, x))+tol)
		require.InEpsilon(t, math.Exp(f), law.CDF(x), 1e-12)
	})
}

func TestQuantileIsSafe(t *testing.T) {
	for _, law := range []MinEigenvalueLaw{{1, 3}, {1, 0.5}, {2, 3}, {4, 3.5}, {7, 16}, {5, 9}, {12, 40}, {30, 33},
		{30, 31}, {20, 40}, {50, 60}, {100, 500}}[:testkit.Of(8, 12)] {
		for _, p := range []float64{1e-9, 0.005, 0.9} {
			x := law.Quantile(p)
			require.Positive(t, x)
			require.LessOrEqual(t, law.CDF(x)*(1+safe), p*(1+1e-12), "%v %v", law, p)
			require.Greater(t, law.CDF(x*(1+2e-6))*(1+safe), p, "%v %v: not tight", law, p)
		}
		if law.Dim >= 20 {
			continue
		}
		last := 0.
		for _, logp := range []float64{-2000, -100, -79.9, -50, -1e-3} {
			x := law.LogQuantile(logp)
			require.GreaterOrEqual(t, x, last, "%v at %v", law, logp)
			require.LessOrEqual(t, law.LogCDF(x), logp, "%v at %v", law, logp)
			last = x
		}
	}
}

func TestLawDegenerate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, law := range []MinEigenvalueLaw{{}, {-1, 5}, {3, 2}, {3, nan}, {3, inf}, {3, -1}} {
		require.Error(t, law.Check())
		require.Equal(t, 1., law.CDF(1e-9))
		require.Zero(t, law.LogCDF(1e-9))
		require.Zero(t, law.Quantile(0.5))
		require.Zero(t, law.LogQuantile(-1))
		require.Zero(t, EdelmanLogCDF(law.Dim, law.Dof, 1e-9))
		require.Zero(t, davidsonSzarekLogCDF(law.Dim, law.Dof, 1e-9))
	}
	require.ErrorIs(t, MinEigenvalueLaw{-1, 5}.Check(), ErrDimension)
	require.ErrorIs(t, MinEigenvalueLaw{3, 2}.Check(), ErrDegrees)
	law := MinEigenvalueLaw{6, 11}
	require.NoError(t, law.Check())
	for _, f := range []func(float64) float64{
		law.LogCDF,
		func(x float64) float64 { return EdelmanLogCDF(6, 11, x) },
		func(x float64) float64 { return davidsonSzarekLogCDF(6, 11, x) },
	} {
		require.Equal(t, -inf, f(0))
		require.Equal(t, -inf, f(-1))
		require.Zero(t, f(inf))
		require.Zero(t, f(nan))
		require.InDelta(t, 0, f(1e6), 1e-9)
		require.LessOrEqual(t, f(5e-324), 0.)
	}
	require.Equal(t, 1., law.CDF(nan))
	require.Zero(t, law.CDF(0))
	require.Zero(t, law.Quantile(0))
	require.Zero(t, law.Quantile(-1))
	require.Zero(t, law.Quantile(nan))
	require.Equal(t, inf, law.Quantile(1))
	require.Equal(t, inf, law.Quantile(2))
	require.Equal(t, inf, law.LogQuantile(0))
	require.Zero(t, law.LogQuantile(-inf))
	require.Zero(t, law.LogQuantile(nan))
	require.Equal(t, 0., davidsonSzarekLogCDF(3, 2.5, 0.1), "for ⌊m⌋ < d there is no bound")
}

// TestLambdaMinLarge compares with values that a finer quadrature reproduces to 1e-11, one with
// panels of 5 instead of 7 standard deviations and tails of 1e-16 instead of 1e-13.
func TestLambdaMinLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("a second of work")
	}
	require.InEpsilon(t, 2.91094357094e-09, MinEigenvalueLaw{500, 2000}.CDF(450), 1e-9)
	require.InEpsilon(t, 4.89633827488e-11, MinEigenvalueLaw{100, 200}.CDF(8), 1e-9)
	require.InEpsilon(t, 1.12704500664e-08, MinEigenvalueLaw{500, 1000}.CDF(70), 1e-9)
}

// TestLawBeyondChain checks that for parameters too large for the chain LogCDF returns the better
// of two closed bounds.
func TestLawBeyondChain(t *testing.T) {
	for _, c := range []struct {
		d    int
		m, x float64
	}{{30, 1e14, 1e13}, {100, 1e6, 9.5e5}, {6000, 12000, 100}, {2, 1e8, 1}} {
		require.Equal(t, min(EdelmanLogCDF(c.d, c.m, c.x), davidsonSzarekLogCDF(c.d, c.m, c.x)),
			MinEigenvalueLaw{c.d, c.m}.LogCDF(c.x))
	}
	law := MinEigenvalueLaw{100, 1e6}
	require.LessOrEqual(t, law.CDF(law.Quantile(1e-6)), 1e-6)
	require.Greater(t, law.Quantile(1e-6), 9e5)
}

// TestScore checks that score increases, also across the point where its formula changes.
func TestScore(t *testing.T) {
	last := math.Inf(-1)
	for _, l := range []float64{-1e9, -1000, -600.1, -600, -599.9, -80, -5, -1, -1e-3, -1e-18, 0} {
		require.GreaterOrEqual(t, score(l), last, "at %v", l)
		last = score(l)
	}
}

// CDF and Quantile are LogCDF and LogQuantile for probabilities.
func (l MinEigenvalueLaw) CDF(x float64) float64      { return math.Exp(l.LogCDF(x)) }
func (l MinEigenvalueLaw) Quantile(p float64) float64 { return l.LogQuantile(num.Log(p)) }
