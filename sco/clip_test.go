// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
)

// huge is a loss that lies about its constants: gradients of norm 1e6, or NaN.
type huge struct {
	tilted
	nan bool
}

func (h huge) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if h.nan && b > 0 {
		return 0, math.NaN(), 0
	}
	return 0, 1e6 * b, 0
}

func (h huge) Grad(dst, w, a []float64, b float64) {
	_, s, _ := h.Scalar(0, b, 0)
	floats.ScaleTo(dst, s, a)
}

// general hides that a loss is one of ⟨a,w⟩.
type general struct{ loss.Loss }

// Whatever the loss does, a record moves the sum by at most its clipping norm.
func TestClipped(t *testing.T) {
	for _, l := range []loss.Loss{huge{}, huge{nan: true}, general{huge{}}, general{huge{nan: true}}} {
		p := axis(10, 1)
		p.Loss = l
		plan, err := (&NoisySGD{Radius: 1, Steps: 1, Batch: 10}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		par := plan.Params()
		clipped := par.perRecord(p.Loss)
		g := []float64{0, 0}
		for _, b := range []float64{1, -1} {
			for _, a := range [][]float64{{1, 0}, {0.6, 0.8}, {1e-9, 0}, {0, 0}} {
				clipped.Grad(g, []float64{0, 0}, a, b)
				require.LessOrEqual(t, floats.Norm(g, 2), plan.Params().Clip)
				if lin, ok := clipped.(loss.Linear); ok {
					_, s, _ := lin.Scalar(0, b, floats.Norm(a, 2))
					require.LessOrEqual(t, math.Abs(s)*floats.Norm(a, 2), plan.Params().Clip)
				}
			}
		}
		rel, err := plan.Fit(ctx, p, noise.Reproducible(1))
		require.NoError(t, err)
		require.False(t, floats.HasNaN(rel.Theta))
		require.Less(t, math.Abs(rel.Theta[0]), 10.) // (η/n)(10 + noise)
	}
	g := []float64{math.Inf(1), 1}
	clip(g, 1)
	require.Equal(t, []float64{0, 0}, g)
}

// infinite is a loss with φ′ = +Inf.
type infinite struct{ tilted }

func (infinite) Scalar(_, _, _ float64) (phi, dphi, d2phi float64) { return 0, math.Inf(1), 0 }

// squaredNorm returns ‖g‖² to 300 bits.
func squaredNorm(g []float64) *big.Float {
	sum := new(big.Float).SetPrec(300)
	for _, v := range g {
		x := new(big.Float).SetPrec(300).SetFloat64(v)
		sum.Add(sum, x.Mul(x, x))
	}
	return sum
}

// The rounded gradient has an exact norm of at most L: at every scale of the
// row, also where L/‖a‖ overflows, and of the gradient.
func TestClippedExactly(t *testing.T) {
	const limit = 0.3
	most := squaredNorm([]float64{limit})
	rnd := rand.New(noise.Reproducible(3))
	for range 3000 {
		a := make([]float64, 1+rnd.IntN(40))
		scale := math.Pow(10, 20*rnd.Float64()-10)
		for j := range a {
			a[j] = scale * rnd.NormFloat64()
		}
		norm := floats.Norm(a, 2) * (1 + 0x1p-45) // as erm rounds it up
		_, slope, _ := clippedSlope{infinite{}, limit}.Scalar(0, 1, norm)
		g := make([]float64, len(a))
		floats.ScaleTo(g, slope, a)
		require.LessOrEqual(t, squaredNorm(g).Cmp(most), 0, "slope %v, row %v", slope, a)
		require.Greater(t, floats.Norm(g, 2), limit*(1-1e-9))
		clip(a, limit)
		require.LessOrEqual(t, squaredNorm(a).Cmp(most), 0, "%v", a)
	}
	_, slope, _ := clippedSlope{infinite{}, limit}.Scalar(0, 1, 1e-310)
	require.Less(t, slope*1e-310, limit)
	require.False(t, math.IsInf(slope, 1))
}

// TestClipEnds: what is within the limit stays as it is, what is far beyond keeps
// its direction, and slopes are clipped from both sides.
func TestClipEnds(t *testing.T) {
	g := []float64{3, -4}
	clip(g, 5.001)
	require.Equal(t, []float64{3, -4}, g)
	clip(g, 5) // the exact norm of what is left is at most the limit
	require.InDeltaSlice(t, []float64{3, -4}, g, 1e-13)
	clip(g, 1)
	require.InDeltaSlice(t, []float64{0.6, -0.8}, g, 1e-14)
	require.LessOrEqual(t, floats.Norm(g, 2), 1.)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.MaxFloat64, 0x1.1p1000} {
		g = []float64{bad, bad}
		clip(g, 1)
		require.Equal(t, []float64{0, 0}, g)
	}
	g = []float64{0x1.08p1000, 0}
	clip(g, 1)
	require.Equal(t, []float64{0, 0}, g)
	g = []float64{0x1.fp998, 0}
	clip(g, 1)
	require.InDelta(t, 1, g[0], 1e-14)
	g = []float64{1e300, 0} // 1e-320 is not held to all digits
	clip(g, 1e-20)
	require.Equal(t, []float64{0, 0}, g)
	for norm, want := range map[float64]float64{0x1.1p1000: 0, 0x1.fp999: 0x1p-1000 / 0x1.fp-1} {
		_, got, _ := clippedSlope{constantSlope{slope: 1}, 1}.Scalar(0, 1, norm)
		require.InDelta(t, want, got, 1e-14*want)
	}
	// Next to the limit, where the rounding of the norm counts: the exact norm of
	// what is left is at most the limit.
	const limit = 0.3
	most := squaredNorm([]float64{limit})
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		g := make([]float64, 1+rnd.IntN(12))
		for j := range g {
			g[j] = rnd.NormFloat64()
		}
		floats.Scale(limit/floats.Norm(g, 2)*(1+float64(i%64-32)*0x1p-53), g)
		clip(g, limit)
		require.LessOrEqual(t, squaredNorm(g).Cmp(most), 0, g)
		require.Greater(t, floats.Norm(g, 2), limit*(1-1e-13))
	}
	require.Equal(t, loss.Constants{Lipschitz: 1, Smoothness: 1e-9, Rank: 1, Structure: loss.GLM},
		clippedSlope{tilted{}, 1}.Constants(loss.Bounds{Row: 1, Label: 1}, 1))
	for _, c := range []struct{ slope, want float64 }{{7, 1.5}, {-7, -1.5}, {1.2, 1.2}, {-1.2, -1.2}, {math.NaN(), 0}} {
		_, got, _ := clippedSlope{constantSlope{slope: c.slope}, 3}.Scalar(0, 1, 2)
		require.InDelta(t, c.want, got, 1e-14)
	}
}

// constantSlope is a loss with φ′ = slope.
type constantSlope struct {
	tilted
	slope float64
}

func (c constantSlope) Scalar(_, _, _ float64) (phi, dphi, d2phi float64) { return 0, c.slope, 0 }
