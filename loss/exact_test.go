// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// precision is the number of bits of the reference computations.
var precision uint = 320

func bf(x float64) *big.Float         { return new(big.Float).SetPrec(precision).SetFloat64(x) }
func badd(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Add(a, b) }
func bsub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func bmul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func bquo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Quo(a, b) }

// bexp returns e^x: the Taylor series of x/2¹⁶, squared 16 times. |x| is limited to 2000, beyond
// which the result behaves like 0 or infinity in these tests.
func bexp(x *big.Float) *big.Float {
	x = bclamp(x, -2000, 2000)
	y := new(big.Float).SetMantExp(x, -16)
	sum, term := bf(1), bf(1)
	for k := 1; k < 32; k++ {
		term = bquo(bmul(term, y), bf(float64(k)))
		sum = badd(sum, term)
	}
	for range 16 {
		sum = bmul(sum, sum)
	}
	return sum
}

func bclamp(x *big.Float, lo, hi float64) *big.Float {
	switch {
	case x.Cmp(bf(lo)) < 0:
		return bf(lo)
	case x.Cmp(bf(hi)) > 0:
		return bf(hi)
	}
	return x
}

// bsqrt returns √x.
func bsqrt(x *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sqrt(x) }
func bpseudo(r *big.Float, k float64) *big.Float {
	return bquo(bmul(r, bf(k)), bsqrt(badd(bmul(r, r), bmul(bf(k), bf(k)))))
}

// bslope returns φ′(u;b) from the formula in the documentation of the loss.
func bslope(l loss.Loss, u *big.Float, b, norm float64) *big.Float {
	y := -1.0
	if b > 0 {
		y = 1
	}
	switch l := l.(type) {
	case loss.Squared:
		return bsub(u, bf(b))
	case loss.Huber:
		return bclamp(bsub(u, bf(b)), -l.Delta, l.Delta)
	case loss.Logistic:
		return bquo(bf(-y), badd(bf(1), bexp(bmul(bf(y), u))))
	case loss.PseudoHuber:
		return bpseudo(bsub(u, bf(b)), l.Delta)
	case loss.SoftClipped:
		return bpseudo(bsub(u, bf(b)), l.Threshold/norm)
	case loss.LogCosh:
		r := bsub(u, bf(b))
		// tanh x = x − x³/3 + …, where 1 − e cancels.
		if x := bquo(r, bf(l.Delta)); bclamp(x, -0x1p-60, 0x1p-60) == x {
			return bmul(r, bsub(bf(1), bquo(bmul(x, x), bf(3))))
		}
		e := bexp(bquo(bmul(bf(-2), r), bf(l.Delta)))
		return bmul(bf(l.Delta), bquo(bsub(bf(1), e), badd(bf(1), e)))
	case loss.RootHinge:
		x := bsub(bf(1), bmul(bf(y), u))
		root := bsqrt(badd(bmul(x, x), bmul(bf(l.Width), bf(l.Width))))
		if x.Sign() < 0 { // (root+x)(root−x) = Width²
			return bmul(bf(-y/2), bquo(bmul(bf(l.Width), bf(l.Width)), bmul(root, bsub(root, x))))
		}
		return bmul(bf(-y/2), bquo(badd(root, x), root))
	case loss.SmoothedHinge:
		return bmul(bf(-y), bclamp(bquo(bsub(bf(1), bmul(bf(y), u)), bf(l.Gamma)), 0, 1))
	case loss.Clipped:
		return bclamp(bslope(l.Loss, u, b, norm), -l.Threshold/norm, l.Threshold/norm)
	case loss.Moreau:
		kappa, r := bf(norm*norm/l.Beta), bsub(u, bf(b))
		switch k := l.Loss.(type) {
		case loss.Hinge:
			return bmul(bf(-y), bclamp(bquo(bsub(bf(1), bmul(bf(y), u)), kappa), 0, 1))
		case loss.Absolute:
			return bclamp(bquo(r, kappa), -1, 1)
		case loss.Pinball:
			return bclamp(bquo(r, kappa), -k.Tau, 1-k.Tau)
		case loss.EpsilonInsensitive:
			s := float64(r.Sign())
			return bmul(bf(s), bclamp(bquo(bsub(bmul(bf(s), r), bf(k.Epsilon)), kappa), 0, 1))
		}
	}
	panic("no reference for this loss")
}

func exacts() []loss.Linear {
	return []loss.Linear{
		loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.7}, loss.SmoothedHinge{Gamma: 0.3},
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.3}, loss.Clipped{Loss: loss.Squared{}, Threshold: 2},
		loss.Moreau{Loss: loss.Hinge{}, Beta: 4}, loss.Moreau{Loss: loss.Absolute{}, Beta: 0.5},
		loss.Moreau{Loss: loss.Pinball{Tau: 0.3}, Beta: 2}, loss.Moreau{Loss: loss.EpsilonInsensitive{Epsilon: 0.6}, Beta: 3},
		loss.Clipped{Loss: loss.Moreau{Loss: loss.Hinge{}, Beta: 4}, Threshold: 0.3},
		loss.PseudoHuber{Delta: 0.7}, loss.PseudoHuber{Delta: 1e-285}, loss.SoftClipped{Threshold: 2},
		loss.LogCosh{Delta: 0.7}, loss.LogCosh{Delta: 1e-285}, loss.RootHinge{Width: 0.5}, loss.RootHinge{Width: 1e-300},
		loss.Clipped{Loss: loss.LogCosh{Delta: 3}, Threshold: 2},
	}
}

// points returns the number of points to test: 3e4, or a million if PRIVOPT_DEEP is set.
func points() int {
	switch {
	case testkit.Deep():
		return 1e6
	case testing.Short():
		return 1e4
	}
	return 3e4
}

// TestSlope2 compares slopes with references of 320 bits, for predictions of all sizes, where e^u
// is subnormal, near kinks and near labels. Exact must be within its stated error bound, that bound
// at most 2⁻⁹⁰φ′, and Scalar within 16 roundings of φ′.
func TestSlope2(t *testing.T) {
	all := exacts()
	worst := make([]float64, len(all))
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range points() {
		at := i % len(all)
		if i%3 == 0 { // every third point tests the logistic loss, which is the hardest because of its exponential
			at = 0
		}
		l := all[at]
		b := []float64{-1, 1, 0, 0.3, -1e3}[rnd.IntN(5)]
		norm := []float64{1, 0.01, 3}[rnd.IntN(3)]
		var u float64
		kind := rnd.IntN(5)
		smallest := l == loss.Linear(loss.PseudoHuber{Delta: 1e-285}) || l == loss.Linear(loss.LogCosh{Delta: 1e-285}) ||
			l == loss.Linear(loss.RootHinge{Width: 1e-300})
		if smallest && i%2 == 0 {
			b, kind = 0, 5
		}
		switch kind {
		case 0:
			u = 2000*rnd.Float64() - 1000
		case 1:
			u = math.Copysign(700+50*rnd.Float64(), rnd.Float64()-0.5)
		case 2:
			u = b + rnd.NormFloat64()*math.Pow(2, -60*rnd.Float64())
		case 3:
			u = 1 + rnd.NormFloat64()*math.Pow(2, -60*rnd.Float64())
		// The distance of the prediction from b, or 1 − margin, has the size of the loss's parameter.
		case 5:
			u = 1e-285 * math.Exp(20*(rnd.Float64()-0.5)) * (rnd.Float64() - 0.5)
		default:
			u = rnd.NormFloat64() * math.Pow(2, 80*(rnd.Float64()-0.5))
		}
		ul := (rnd.Float64() - 0.5) * (math.Nextafter(math.Abs(u), math.Inf(1)) - math.Abs(u)) * 0.999
		if u+ul != u || rnd.IntN(10) == 0 {
			ul = 0
		}
		if kind == 5 && l == loss.Linear(loss.RootHinge{Width: 1e-300}) {
			u, ul = -1, 1e-15*u
			precision = 1300
		}
		want := bslope(l, badd(bf(u), bf(ul)), b, norm)
		hi, lo, bound := loss.Exact(l)(u, ul, b, norm)
		e, _ := bsub(badd(bf(hi), bf(lo)), want).Float64()
		size, _ := want.Float64()
		e, size = math.Abs(e), math.Abs(size)
		require.LessOrEqual(t, e, bound, "%T%+v at %v%+v, %v, %v: slope %v", l, l, u, ul, b, norm, size)
		if m, ok := l.(loss.Moreau); !ok || m.Loss != (loss.EpsilonInsensitive{Epsilon: 0.6}) {
			require.LessOrEqual(t, bound, 0x1p-90*size+0x1p-1050, "%T%+v at %v%+v, %v, %v", l, l, u, ul, b, norm)
			_, s, _ := l.Scalar(u, b, norm)
			at, _ := bsub(bf(s), bslope(l, bf(u), b, norm)).Float64()
			exact, _ := bslope(l, bf(u), b, norm).Float64()
			require.LessOrEqual(t, math.Abs(at), 16*0x1p-53*math.Abs(exact)+0x1p-1074, "%T%+v.Scalar at %v, %v, %v", l, l, u, b,
				norm)
		}
		precision = 320
		if bound > 0 && size > 1e-290 {
			worst[at] = max(worst[at], e/bound)
		}
	}
	t.Log("largest error in units of its bound:", worst)
	for i, w := range worst {
		require.Greater(t, w, 1e-3, "%T: no error comes near its bound", all[i])
	}
}

// TestSlope2Ends checks predictions that overflow, and that Exact is nil for losses without a known
// accurate slope.
func TestSlope2Ends(t *testing.T) {
	for _, l := range exacts() {
		require.NotNil(t, loss.Exact(l), "%T", l)
		for _, u := range []float64{1e300, -1e300, math.MaxFloat64, -math.MaxFloat64, 5e-324, 0} {
			for _, norm := range []float64{0, 5e-324, 1e-160, 1, 1e150} {
				hi, lo, err := loss.Exact(l)(u, 0, 1, norm)
				require.False(t, math.IsNaN(hi+lo+err), "%T at %v, norm %v", l, u, norm)
			}
		}
	}
	hi, lo, _ := loss.Exact(loss.Logistic{})(math.NaN(), 0, 1, 1)
	require.True(t, math.IsNaN(hi+lo))
	for _, l := range []loss.Linear{
		loss.Clipped{}, loss.Moreau{}, loss.Clipped{Loss: loss.Hinge{}, Threshold: 1},
		loss.Clipped{Loss: opaque{loss.Squared{}}, Threshold: 1},
		loss.Moreau{Loss: loss.Logistic{}, Beta: 1}, loss.Moreau{Loss: struct{ loss.Hinge }{}, Beta: 1},
	} {
		require.Nil(t, loss.Exact(l), "%T%+v", l, l)
	}
}

func TestProved(t *testing.T) {
	for _, l := range exacts() {
		require.True(t, loss.Proved(l))
	}
	require.True(t, loss.Proved(loss.Multinomial{Classes: 3}))
	for _, l := range []loss.Loss{nil, opaque{loss.Squared{}}, unknown{}, loss.Clipped{Loss: unknown{}}, loss.Moreau{},
		struct{ loss.Hinge }{}} {
		require.False(t, loss.Proved(l), "%T", l)
	}
}

func BenchmarkSlope(b *testing.B) {
	exact, u := loss.Exact(loss.Logistic{}), make([]float64, 1024)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range u {
		u[i] = 4 * rnd.NormFloat64()
	}
	labels, w := make([]float64, len(u)), make([]float64, len(u))
	sum := 0.0
	b.Run("float64", func(b *testing.B) {
		for b.Loop() {
			copy(w, u)
			loss.Logistic{}.Slopes(w, labels, nil)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(u)), "ns/record")
	})
	b.Run("twofold", func(b *testing.B) {
		for b.Loop() {
			for _, v := range u {
				hi, lo, err := exact(v, 0, 1, 1)
				sum += hi + lo + err
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(u)), "ns/record")
	})
	require.False(b, math.IsNaN(sum))
}
