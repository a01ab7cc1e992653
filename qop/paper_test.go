package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"

	"github.com/privopt/privopt/loss"
)

// TestGoldenPaper: the published constants, as printed and repaired, to 1e-8.
func TestGoldenPaper(t *testing.T) {
	g := golden(t)
	for _, c := range g.Calibration {
		in := Published{
			Dim: c.D, Degrees: float64(c.M), Rank: c.Rho, Smoothness: float64(c.L),
			Epsilon1: float64(c.Eps1), Epsilon2: float64(c.Eps2),
			Delta1: float64(c.Delta1), Delta2: float64(c.Delta2), Delta3: float64(c.Delta3), Delta4: float64(c.Delta4),
			Tau: float64(c.Tau), Eta: float64(c.Eta),
		}
		for printed, want := range map[bool]published{true: c.PaperCode, false: c.PaperCorrected} {
			k, err := in.Constants(printed)
			require.NoError(t, err)
			close(t, c.Alpha, k.Alpha, 1e-8)
			close(t, c.F2, k.F2, 1e-8)
			close(t, c.Beta, k.Beta, 1e-8)
			close(t, want.Alpha1, k.Alpha1, 1e-8, "α₁", printed, c.D)
			close(t, want.Sigma2, k.Sigma2, 1e-8)
			close(t, want.SigmaTilde2, square(k.OutputSigma), 1e-8)
		}
	}

	in := Published{Dim: 100, Degrees: 200, Rank: 1, Smoothness: 1, Epsilon1: 0.5, Delta1: 0.005, Delta3: 0.005}
	k, err := in.Constants(true)
	require.NoError(t, err)
	close(t, g.Figure2.Alpha, k.Alpha, 1e-8)
	close(t, g.Figure2.F2, k.F2, 1e-8)
	close(t, g.Figure2.PaperCode.Alpha1, k.Alpha1, 1e-8)
	close(t, g.Figure2.PaperCode.Sigma2, k.Sigma2, 1e-8)
	k, err = in.Constants(false)
	require.NoError(t, err)
	close(t, g.Figure2.PaperCorrected.Alpha1, k.Alpha1, 1e-8)
	close(t, g.Figure2.PaperCorrected.Sigma2, k.Sigma2, 1e-8)

	// The defect in numbers: d = 100, m = 318, ε = 4, δ = 1e-5, δ₁ = 0.02 δ. The first
	// term of the maximum is 3.67; the repaired second one needs 254.
	in = Published{Dim: 100, Degrees: 318, Rank: 1, Smoothness: 1, Epsilon1: 4, Delta1: 2e-7, Delta3: 9.8e-6}
	k, err = in.Constants(false)
	require.NoError(t, err)
	require.InDelta(t, 254, k.Sigma2, 0.5)
	require.InDelta(t, 3.67, 0.5*(k.F2+8/k.Alpha), 0.005)

	// Without a solution the published program keeps the first term. In one
	// dimension with m = 2 all is elementary: α = −2·ln(1−δ₃), and the printed
	// equation has none if e^{−α} ≤ δ₁(1−δ₃).
	in = Published{Dim: 1, Degrees: 2, Rank: 1, Smoothness: 1, Epsilon1: 1, Delta1: 0.9, Delta3: 0.6}
	k, err = in.Constants(true)
	require.NoError(t, err)
	require.InEpsilon(t, -2*math.Log(0.4), k.Alpha, 1e-12)
	require.True(t, math.IsInf(k.Alpha1, 1))
	require.InEpsilon(t, 2*(k.F2+8/k.Alpha), k.Sigma2, 1e-12)
	in.Delta1 = 0.3
	k, err = in.Constants(true)
	require.NoError(t, err)
	require.InEpsilon(t, -math.Log(math.Exp(-k.Alpha)-0.12)-k.Alpha, k.Alpha1, 1e-9)
}

func TestPublishedRefused(t *testing.T) {
	good := Published{Dim: 2, Degrees: 3, Rank: 1, Smoothness: 1, Epsilon1: 1, Epsilon2: 1, Delta1: 0.1, Delta2: 0.1, Delta3: 0.1, Delta4: 0.1,
		Tau: 1, Eta: 1}
	_, err := good.Constants(false)
	require.NoError(t, err)
	for i, edit := range []func(p *Published){
		func(p *Published) { p.Dim = 0 },
		func(p *Published) { p.Degrees = 2.9 },
		func(p *Published) { p.Rank = 0 },
		func(p *Published) { p.Tau = math.Inf(1) },
		func(p *Published) { p.Degrees = math.NaN() },
		func(p *Published) { p.Smoothness = 0 },
		func(p *Published) { p.Epsilon1 = math.Inf(1) },
		func(p *Published) { p.Delta1 = 1 },
		func(p *Published) { p.Delta3 = 0 },
		func(p *Published) { p.Delta4 = math.NaN() },
		func(p *Published) { p.Tau = -1 },
		func(p *Published) { p.Epsilon2 = 0 },
		func(p *Published) { p.Delta4 = 0 },
	} {
		p := good
		edit(&p)
		_, err := p.Constants(false)
		require.ErrorIs(t, err, ErrMechanism, i)
	}
}

// TestPaperPlan: the repaired constants in a plan.
func TestPaperPlan(t *testing.T) {
	for d, m := range map[int]float64{1: 4, 2: 5, 5: 10} {
		for _, given := range []float64{0, 11} {
			plan, err := (&Mechanism{Calibration: Paper, Degrees: given}).Calibrate(public(d, loss.GLM), dp.Budget{Epsilon: 1, Delta: 1e-4})
			require.NoError(t, err)
			p := plan.Params()
			if given > 0 {
				m = given
			}
			require.Equal(t, m, p.Degrees)
			in := Published{Dim: d, Degrees: m, Rank: 1, Smoothness: 1, Epsilon1: p.Objective.Epsilon, Delta1: p.Objective.Delta / 2,
				Delta3: p.Objective.Delta / 2}
			k, err := in.Constants(false)
			require.NoError(t, err)
			require.InEpsilon(t, k.Sigma2, p.Sigma2, 2e-9)
			require.GreaterOrEqual(t, p.Sigma2, k.Sigma2)
			require.InEpsilon(t, k.Alpha+k.Alpha1, p.Threshold, 1e-14)
		}
	}
}
