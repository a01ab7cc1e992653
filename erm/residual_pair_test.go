package erm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// The certificate at a point of twice the precision is an upper bound on the exact residual there, and
// exceeds it by its allowance only, which the part of the point below x does not change.
func TestResidualPair(t *testing.T) {
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.7}, loss.Logistic{}} {
		rnd := rand.New(rand.NewPCG(19, 5))
		for c := range 500 {
			p, q, lambda, lo, hi := instance(rnd, l)
			o := p.Perturb(q)
			d := o.Dim()
			x, low := make([]float64, d), make([]float64, d)
			for j := range x {
				if rnd.IntN(4) > 0 {
					x[j] = min(max(rnd.NormFloat64()*math.Pow(10, 4*rnd.Float64()-2), lo), hi)
				}
				if x[j] != lo && x[j] != hi {
					low[j] = x[j] * 0x1p-54 * (2*rnd.Float64() - 1)
				}
			}
			bx := make([]*big.Float, d)
			for j := range x {
				bx[j] = badd(bf(x[j]), bf(low[j]))
			}
			want := bgrad(p, q, bx)
			exact := bdist(want, x, lambda, lo, hi)
			if g, ok := prox.Sum(p.Reg, p.Set); ok { // bdist takes l2·x, if there is one, at x
				_, l2, _, _ := g.(prox.Coordinatewise).Coordinate(0)
				require.Zero(t, l2)
			}
			grad, gradLow := make([]float64, d), make([]float64, d)
			got := o.ResidualPair(grad, gradLow, x, low)
			require.True(t, bf(got).Cmp(exact) >= 0, "%T case %d: %v below the exact %v", l, c, got, bnum(exact))
			_, _, allowance := o.s().pairGrad(x, low)
			require.LessOrEqual(t, got, (bnum(exact)+2.1*allowance+0x1p-96*floats.Norm(grad, 2))*(1+1e-13), "%T case %d", l, c)
			for j := range want {
				require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(grad[j]), bf(gradLow[j])), want[j]))), allowance)
			}
		}
	}
}

// A low part that is not below the last place, or that is no number, certifies nothing.
func TestResidualPairSpecial(t *testing.T) {
	data, x, _ := random(3, 5, 2)
	o := (&Problem{Data: data, Loss: loss.Huber{Delta: 1}}).Perturb(Perturbation{})
	g := make([]float64, 2)
	for _, low := range [][]float64{{1, 0}, {math.NaN(), 0}, {0, math.Inf(1)}} {
		require.Equal(t, math.Inf(1), o.ResidualPair(g, g, x, low))
	}
	require.Equal(t, o.Residual(x), o.ResidualPair(g, make([]float64, 2), x, make([]float64, 2)))
	ball := (&Problem{Data: data, Loss: loss.Huber{Delta: 1}, Set: prox.L2Ball{R: 1}}).Perturb(Perturbation{})
	require.PanicsWithValue(t, badPair, func() { ball.ResidualPair(g, g, x, g) })
	require.PanicsWithValue(t, badLen, func() { o.ResidualPair(g, g, x, g[:1]) })
}
