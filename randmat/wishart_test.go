package randmat

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/noise"
)

// ksCritical is Massart's bound P(D > c) ≤ 2 exp(-2nc²) at 1e-6.
func ksCritical(n int) float64 { return math.Sqrt(math.Log(2e6) / (2 * float64(n))) }

// ks returns the Kolmogorov-Smirnov distance of x, which it sorts, from cdf.
func ks(x []float64, cdf func(float64) float64) (dist float64) {
	slices.Sort(x)
	n := float64(len(x))
	for i, v := range x {
		f := cdf(v)
		dist = max(dist, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	return dist
}

func chi2(nu float64) func(float64) float64 {
	return func(x float64) float64 { return num.Chi2CDF(x, nu) }
}

// TestWishartIsBartlett rebuilds T from the same stream and multiplies naively.
func TestWishartIsBartlett(t *testing.T) {
	for _, d := range []int{1, 2, 5, 15, 16, 17, 33, 70} {
		m := float64(d) + 1
		w := mat.NewSymDense(d, nil)
		require.NoError(t, Wishart(w, m, noise.Reproducible(1)))
		src := noise.Reproducible(1)
		f := mat.NewDense(d, d, nil)
		for i := range d {
			noise.Normal(f.RawRowView(i)[:i], 1, src)
			f.Set(i, i, math.Sqrt(noise.ChiSquared(int(m)-i, src)))
		}
		var want mat.Dense
		want.Mul(f, f.T())
		for i := range d {
			for j := range d {
				// d products of entries whose squares sum to the diagonal: 2 d u
				tol := 2 * float64(d) * 0x1p-53 * math.Sqrt(want.At(i, i)*want.At(j, j))
				require.InDelta(t, want.At(i, j), w.At(i, j), tol)
			}
		}
	}
}

// TestWishartLaw tests four statistics whose laws characterize degrees of
// freedom, scale and rotation invariance, by Kolmogorov-Smirnov with false
// rejects at 1e-6 each:
//
//	tr W ~ χ²_{md},  v'Wv/‖v‖² ~ χ²_m,  ‖v‖²/(v'W⁻¹v) ~ χ²_{m-d+1},  det W / det W₁₁ ~ χ²_{m-d+1}
func TestWishartLaw(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		d int
		m float64
	}{{1, 1}, {2, 2}, {4, 5}, {4, 9}, {20, 45}} {
		d, m := c.d, c.m
		src := noise.Reproducible(2, "law")
		w := mat.NewSymDense(d, nil)
		v := mat.NewVecDense(d, nil)
		for i := range d {
			v.SetVec(i, 1/(1+float64(i)))
		}
		vv := mat.Dot(v, v)
		trace, form, inverse := make([]float64, n), make([]float64, n), make([]float64, n)
		var chol mat.Cholesky
		var z mat.VecDense
		for i := range n {
			require.NoError(t, Wishart(w, m, src))
			trace[i] = mat.Trace(w)
			form[i] = mat.Inner(v, w, v) / vv
			if chol.Factorize(w) {
				_ = chol.SolveVecTo(&z, v) // ill-conditioned draws are part of the law
				inverse[i] = vv / mat.Dot(v, &z)
			}
		}
		require.Less(t, ks(trace, chi2(m*float64(d))), ksCritical(n), "trace %v", c)
		require.Less(t, ks(form, chi2(m)), ksCritical(n), "form %v", c)
		require.Less(t, ks(inverse, chi2(m-float64(d)+1)), ksCritical(n), "inverse %v", c)
	}
}

// TestWishartError: the bound holds for the product computed in floating point of factors whose
// entries are all off by 3u in the signs that do most harm, and is not a thousand times too large.
func TestWishartError(t *testing.T) {
	for _, d := range []int{1, 2, 17, 50} {
		m := float64(d + 3)
		w := mat.NewSymDense(d, nil)
		require.NoError(t, Wishart(w, m, noise.Reproducible(9)))
		src := noise.Reproducible(9)
		f := make([][]float64, d)
		for i := range f {
			f[i] = make([]float64, d)
			noise.Normal(f[i][:i], 1, src)
			f[i][i] = math.Sqrt(noise.ChiSquared(int(m)-i, src))
		}
		exact := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
		norm, off := 0., 0. // Frobenius
		for i := range d {
			for j := range d {
				sum, abs := exact(0), 0.
				for l := range d {
					p := exact(f[i][l])
					sum.Add(sum, p.Mul(p, exact(f[j][l])))
					abs += math.Abs(f[i][l] * f[j][l])
				}
				e, _ := sum.Sub(sum, exact(w.At(i, j))).Float64()
				e = math.Abs(e) + 2*3*0x1p-53*abs
				off += e * e
				norm += w.At(i, j) * w.At(i, j)
			}
		}
		bound := WishartError(d, mat.Trace(w))
		require.LessOrEqual(t, math.Sqrt(off)+0x1p-53*math.Sqrt(norm), bound)
		require.GreaterOrEqual(t, math.Sqrt(off), bound/1000)
	}
	for _, bad := range []float64{-1, math.NaN()} {
		require.Equal(t, math.Inf(1), WishartError(3, bad))
	}
	require.Equal(t, math.Inf(1), WishartError(0, 1))
}

func TestWishartIntoSubmatrix(t *testing.T) {
	big := mat.NewSymDense(7, nil)
	for i := range 7 {
		for j := i; j < 7; j++ {
			big.SetSym(i, j, -1)
		}
	}
	sub := big.SliceSym(2, 5).(*mat.SymDense)
	require.NoError(t, Wishart(sub, 4, noise.Reproducible(3)))
	want := mat.NewSymDense(3, nil)
	require.NoError(t, Wishart(want, 4, noise.Reproducible(3)))
	require.True(t, mat.Equal(sub, want))
	for i := range 7 {
		for j := i; j < 7; j++ {
			if i < 2 || j > 4 {
				require.Equal(t, -1., big.At(i, j))
			}
		}
	}
}

func TestWishartRefuses(t *testing.T) {
	src := noise.Reproducible(4)
	w := mat.NewSymDense(3, []float64{1, 2, 3, 2, 4, 5, 3, 5, 6})
	for _, m := range []float64{2, 1.9999, 2.0001, 5.5, 1<<16 + 1, 0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		w.Zero()
		require.ErrorIs(t, Wishart(w, m, src), ErrDegrees)
		require.True(t, math.IsNaN(w.At(0, 0)) && math.IsNaN(w.At(1, 2)), "an ignored error must not look like W = 0")
		w.Zero()
		require.ErrorIs(t, WishartBetween(w, m, 0, 1e9, src), ErrDegrees)
		require.True(t, math.IsNaN(w.At(2, 2)))
	}
	require.NoError(t, Wishart(w, 3, src))
	require.ErrorIs(t, Wishart(new(mat.SymDense), 5, src), ErrDimension)
	require.ErrorIs(t, WishartBetween(new(mat.SymDense), 5, 0, 1, src), ErrDimension)
}

// TestWishartBetweenLaw: at d = 1 the draw is a truncated χ²_m, and at d = 5 its
// spectrum lies in the window and is the conditioned one.
func TestWishartBetweenLaw(t *testing.T) {
	const n, m, alpha, beta = 20_000, 6, 2, 9
	src := noise.Reproducible(5)
	w := mat.NewSymDense(1, nil)
	x := make([]float64, n)
	for i := range x {
		require.NoError(t, WishartBetween(w, m, alpha, beta, src))
		x[i] = w.At(0, 0)
		require.True(t, alpha <= x[i] && x[i] <= beta)
	}
	lo, hi := num.Chi2CDF(alpha, m), num.Chi2CDF(beta, m)
	require.Less(t, ks(x, func(v float64) float64 { return (num.Chi2CDF(v, m) - lo) / (hi - lo) }), ksCritical(n))

	const d, dof, low, high = 5, 20, 4.5, 40.
	w = mat.NewSymDense(d, nil)
	var eig mat.EigenSym
	var conditioned, free []float64
	for range 3000 {
		require.NoError(t, WishartBetween(w, dof, low, high, src))
		require.True(t, eig.Factorize(w, false))
		v := eig.Values(nil)
		require.True(t, v[0] >= low*(1-1e-12) && v[d-1] <= high*(1+1e-12), "%v", v)
		conditioned = append(conditioned, mat.Trace(w))
	}
	for len(free) < 3000 {
		require.NoError(t, Wishart(w, dof, src))
		require.True(t, eig.Factorize(w, false))
		if v := eig.Values(nil); v[0] >= low && v[d-1] <= high {
			free = append(free, mat.Trace(w))
		}
	}
	slices.Sort(free)
	empirical := func(v float64) float64 {
		i, _ := slices.BinarySearch(free, v)
		return float64(i) / float64(len(free))
	}
	require.Less(t, ks(conditioned, empirical), 2*ksCritical(3000)) // each sample within one bound of the law
}

// TestWishartBetweenCost: at d = 1 the pair x = W, x = W + t of the window W ≥ α has a δ that is
// many times δ/P, and lies below [δ + min(F(α+t) - F(α), e^ε F(α))]/P.
func TestWishartBetweenCost(t *testing.T) {
	const m, shift, alpha = 20, 1., 6.
	for _, eps := range []float64{1, 2, 3} {
		pdf := func(x, from float64) float64 { // of W given W ≥ from, up to its probability
			if x < from || x <= 0 {
				return 0
			}
			return math.Exp(num.Chi2LogPDF(x, m))
		}
		delta := func(from float64) (worst float64) { // the larger of both orders, by the midpoint rule
			const h = 1e-3
			var forth, back float64
			for x := h / 2; x < 200; x += h {
				p, q := pdf(x, from), pdf(x-shift, from)
				forth += h * max(0, p-math.Exp(eps)*q)
				back += h * max(0, q-math.Exp(eps)*p)
			}
			return max(forth, back) / num.Chi2SF(from, m)
		}
		free, conditioned := delta(0), delta(alpha)
		below := num.Chi2CDF(alpha, m)
		jump := num.Chi2CDF(alpha+shift, m) - below
		require.Greater(t, conditioned, 2*free/(1-below), "dividing δ by P does not pay")
		require.LessOrEqual(t, conditioned, (free+min(jump, math.Exp(eps)*below))/(1-below)*(1+1e-4))
		require.GreaterOrEqual(t, conditioned, min(jump, math.Exp(eps)*below)/(1-below)/4, "the term is of the right size")
	}
}

func TestWishartBetweenRefuses(t *testing.T) {
	src := noise.Reproducible(6)
	w := mat.NewSymDense(30, nil)
	nan := math.NaN()
	for _, c := range [][2]float64{{2, 1}, {1, 1}, {nan, 1}, {0, nan}, {200, 1000}, {0, 5}, {0, -1}, {math.Inf(1), math.Inf(1)}} {
		err := WishartBetween(w, 60, c[0], c[1], src)
		require.ErrorIs(t, err, ErrWindow, "%v", c)
		require.True(t, math.IsNaN(w.At(0, 0)))
	}
	// λ_min is near 5 here: the marginal bounds cannot see it, the attempts do.
	err := WishartBetween(w, 60, 30, math.Inf(1), src)
	require.ErrorIs(t, err, ErrWindow)
	require.ErrorContains(t, err, "1000 draws")
	require.True(t, math.IsNaN(w.At(0, 0)))
	require.NoError(t, WishartBetween(w, 60, math.Inf(-1), math.Inf(1), src))
}

// TestBetweenIsRigorous: a spectrum equal to a bound up to rounding is refused,
// one inside by a relative 1e-9 is taken.
func TestBetweenIsRigorous(t *testing.T) {
	for _, d := range []int{1, 2, 20} {
		a := mat.NewSymDense(d, nil)
		for i := range d {
			a.SetSym(i, i, 3)
		}
		require.False(t, between(a, 3*(1+1e-15), 4))
		require.False(t, between(a, 2, 3*(1-1e-15)))
		require.True(t, between(a, 3*(1-1e-9), 3*(1+1e-9)))
		require.True(t, between(a, 0, math.Inf(1)))
		a.SetSym(0, 0, math.NaN())
		require.False(t, between(a, 0, math.Inf(1)))
	}
}

// TestNoLeftovers: work space goes back to the pool without the draw in it.
func TestNoLeftovers(t *testing.T) {
	w := mat.NewSymDense(9, nil)
	require.NoError(t, Wishart(w, 12, noise.Secure()))
	MaxEig(w)
	MinEig(w)
	for range 8 {
		b := take(1)
		for _, v := range (*b)[:cap(*b)] {
			require.Zero(t, v)
		}
	}
}
