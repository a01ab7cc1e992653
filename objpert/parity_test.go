package objpert

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// parityOracle minimizes 1[parity of w is even] (or odd) − ⟨T, w⟩ over {−1,+1}ᵈ:
// a bounded loss that is no halfspace. The best point of either parity is the
// sign vector of the noise, or that with its cheapest coordinate flipped.
type parityOracle struct{ even bool }

func (o parityOracle) Solve(_ context.Context, p *Problem) (*Solution, error) {
	w, parity := make([]int, p.Dim), 0
	gain, cheapest, at := 0.0, math.Inf(1), 0
	table, _ := p.real()
	for j, row := range table {
		k := 0
		if row[1] > row[0] {
			k = 1
		}
		w[j] = p.Values[k]
		parity ^= k
		gain += row[k]
		if c := row[k] - row[1-k]; c < cheapest {
			cheapest, at = c, j
		}
	}
	loss := 0
	if (parity == 0) == o.even {
		if loss = 1; cheapest < 1 {
			loss, gain = 0, gain-cheapest
			w[at] = -w[at]
		}
	}
	v := float64(loss) - gain
	return &Solution{W: w, Loss: loss, Objective: v, Lower: v, Proven: true}, nil
}

// parityProbs returns P_D(A) and P_D′(A) for the event A of even parity under
// Gaussian noise: the least |η_j| decides, at s = σ/√d and with q = P(|N| > 1/2s)ᵈ
// they are q/2 and 1 − q/2.
func parityProbs(d int, sigma float64) (low, high float64) {
	s := sigma / math.Sqrt(float64(d))
	q := math.Exp(float64(d) * (math.Ln2 + num.LogQ(1/(2*s))))
	return q / 2, 1 - q/2
}

// The counterexample to the published σ: it is not sold as (ε, δ)-private at the
// claimed ε, the certificate's ε covers it, and the analytic Gaussian mechanism
// would fail as well. The proved calibrations hold at every d.
func TestParityCounterexample(t *testing.T) {
	violated := func(d int, sigma float64, b dp.Budget) bool {
		low, high := parityProbs(d, sigma)
		return high > math.Exp(b.Epsilon)*low+b.Delta
	}
	cubePlan := func(m *OPDisc, d int, b dp.Budget) *Plan {
		pl, err := m.Calibrate(Public{Space: cube(), Dim: d, Range: 1, Budget: b})
		require.NoError(t, err)
		return pl
	}
	for _, g := range readConstants(t).Parity {
		low, high := parityProbs(g.D, g.Sigma)
		require.InEpsilon(t, g.Low, low, 1e-9)
		require.InEpsilon(t, g.High, high, 1e-9)
		b := dp.Budget{Epsilon: g.Eps, Delta: g.Delta}
		require.InEpsilon(t, g.DeltaRequired, high-math.Exp(g.Eps)*low, 1e-9)
		if g.Variant != "alg1" {
			continue
		}
		pl := cubePlan(&OPDisc{Law: PaperSigma}, g.D, b)
		require.InEpsilon(t, g.Sigma, pl.params.Scale, 1e-12)
		require.True(t, violated(g.D, pl.params.Scale, b))
		require.Greater(t, pl.params.Proved.Epsilon, 1.3*g.Eps, "PaperSigma is not sold as private")
		require.False(t, violated(g.D, pl.params.Scale, pl.params.Proved), "what it is sold as holds")
	}
	// The first dimension where each calibration fails.
	for _, c := range []struct {
		b                dp.Budget
		paper, code, fix int
	}{
		{dp.Budget{Epsilon: 1, Delta: 1e-6}, 102, 25, 43},
		{dp.Budget{Epsilon: 1, Delta: 4.1e-9}, 143, 36, 67},
		{dp.Budget{Epsilon: 0.1, Delta: 1e-6}, 70, 18, 22},
		{dp.Budget{Epsilon: 0.1, Delta: 4.1e-9}, 98, 25, 38},
	} {
		first := func(sigma func(d int) float64) int {
			for d := 1; d < 300; d++ {
				if violated(d, sigma(d), c.b) {
					return d
				}
			}
			return 0
		}
		require.Equal(t, c.paper, first(func(d int) float64 { return cubePlan(&OPDisc{Law: PaperSigma}, d, c.b).params.Scale }))
		require.Equal(t, c.code, first(func(d int) float64 { return cubePlan(&OPDisc{Law: PaperSigma}, d, c.b).params.Scale / 2 }))
		require.Equal(t, c.fix, first(func(d int) float64 {
			sigma, err := dp.GaussianSigma(c.b, float64(d))
			require.NoError(t, err)
			return sigma
		}))
	}
	for _, d := range []int{1, 10, 43, 102, 200, 500, 2000} {
		for _, b := range []dp.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 0.1, Delta: 1e-6}} {
			require.False(t, violated(d, cubePlan(&OPDisc{Law: Gaussian}, d, b).params.Scale, b), "d=%d", d)
		}
	}
}

// The same through Fit: releases at d = 200 under PaperSigma have the
// probabilities of the closed form, far apart on the two data sets, and carry a
// certificate that admits it.
func TestParityThroughFit(t *testing.T) {
	const runs = 4000
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	p := &Problem{Space: cube(), Dim: 200, OracleLoss: true}
	for _, even := range []bool{true, false} {
		m := &OPDisc{Law: PaperSigma, Range: 1, Oracle: parityOracle{even}}
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		low, high := parityProbs(200, pl.params.Scale)
		want := high
		if even {
			want = low
		}
		src := sample.Reproducible(10, fmt.Sprint(even))
		k := 0
		for range runs {
			rel, err := pl.Fit(bg, p, src)
			require.NoError(t, err)
			require.Equal(t, theoremSigma, rel.Certificate.Theorem)
			require.Greater(t, rel.Certificate.Epsilon, b.Epsilon)
			parity := 0
			for _, v := range rel.Theta {
				if v > 0 {
					parity ^= 1
				}
			}
			if parity == 0 {
				k++
			}
		}
		lo, hi := testkit.ClopperPearson(k, runs, testkit.FalseReject)
		require.Less(t, lo, want)
		require.Greater(t, hi, want)
	}
}
