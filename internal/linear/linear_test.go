package linear

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
)

// glm are the constants of a loss of ⟨a,θ⟩.
func glm(lipschitz, smoothness float64) loss.Constants {
	return loss.Constants{Lipschitz: lipschitz, Smoothness: smoothness, Rank: 1, Structure: loss.GLM}
}

func calibrator(t testing.TB, p Problem) *Calibrator {
	t.Helper()
	k, err := New(p)
	require.NoError(t, err)
	return k
}

func at(t testing.TB, p Problem, ridge float64) Noise {
	t.Helper()
	b, err := calibrator(t, p).At(ridge)
	require.NoError(t, err)
	return b
}

func TestNewRefuses(t *testing.T) {
	good := Problem{Dim: 5, Constants: glm(1, 1), Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	_, err := New(good)
	require.NoError(t, err)
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		change func(p *Problem)
		is     error
		text   string
	}{
		"modulus":         {func(p *Problem) { p.Modulus = -1 }, ErrProblem, "Modulus = -1"},
		"NaN modulus":     {func(p *Problem) { p.Modulus = nan }, ErrProblem, "Modulus = NaN"},
		"huge modulus":    {func(p *Problem) { p.Modulus = inf }, ErrProblem, "Modulus = +Inf"},
		"calibration":     {func(p *Problem) { p.Calibration = 3 }, ErrProblem, "Calibration = 3"},
		"budget":          {func(p *Problem) { p.Budget.Epsilon = 0 }, dp.ErrBudget, "Epsilon = 0"},
		"Lipschitz":       {func(p *Problem) { p.Constants.Lipschitz = 0 }, dp.ErrCondition, "Lipschitz = 0"},
		"infinite L":      {func(p *Problem) { p.Constants.Lipschitz = inf }, dp.ErrCondition, "Lipschitz = +Inf"},
		"NaN L":           {func(p *Problem) { p.Constants.Lipschitz = nan }, dp.ErrCondition, "Lipschitz = NaN"},
		"Smoothness":      {func(p *Problem) { p.Constants.Smoothness = inf }, dp.ErrCondition, "Smoothness = +Inf"},
		"structure":       {func(p *Problem) { p.Constants.Structure = 0 }, dp.ErrCondition, "want LSQ, GLM, FixedRange or General"},
		"rank":            {func(p *Problem) { p.Constants.Structure, p.Constants.Rank = loss.General, 0 }, dp.ErrCondition, "Rank = 0"},
		"CMS11 with δ":    {func(p *Problem) { p.Calibration = CMS11 }, dp.ErrCondition, "want Budget.Delta = 0"},
		"CMS11 of rank 2": {func(p *Problem) { p.Calibration, p.Budget.Delta, p.Constants = CMS11, 0, ranked(2) }, dp.ErrCondition, "Rank 1"},
		"Kifer in 3":      {func(p *Problem) { p.Calibration, p.Constants = Kifer, ranked(3) }, dp.ErrCondition, "at most 2 dimensions, here 3"},
		"Monotone": {func(p *Problem) { p.Monotone, p.Constants = true, ranked(2) }, dp.ErrCondition,
			"Monotone and Envelope need a loss of ⟨a,θ⟩"},
		"Envelope": {func(p *Problem) { p.Envelope, p.Constants = func(lo, hi float64) float64 { return 1 }, ranked(2) }, dp.ErrCondition,
			"Monotone and Envelope need a loss of ⟨a,θ⟩"},
	} {
		p := good
		c.change(&p)
		_, err := New(p)
		require.ErrorIs(t, err, c.is, name)
		require.ErrorContains(t, err, c.text, name)
	}
}

func ranked(rank int) loss.Constants {
	return loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: rank, Structure: loss.FixedRange}
}

func TestAtRefuses(t *testing.T) {
	p := Problem{Dim: 5, Constants: glm(1, 1), Modulus: 0.1, Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	k := calibrator(t, p)
	for _, ridge := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := k.At(ridge)
		require.ErrorIs(t, err, ErrProblem)
	}
	// c = log1p(1/(Δ+0.1)) < 1 from Δ = 1/(e−1) − 0.1 on.
	least := 1/math.Expm1(1) - 0.1
	require.InEpsilon(t, least, k.LeastRidge(1), 1e-12)
	_, err := k.At(least * (1 - 1e-12))
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "want Ridge > 0.48")
	_, err = k.At(least * (1 + 1e-9))
	require.NoError(t, err)

	p.Calibration = Kifer
	k = calibrator(t, p)
	_, err = k.At(1.8)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "= 1.9")
	_, err = k.At(1.9)
	require.NoError(t, err)
}

// The published constants and the pure ones are closed forms.
func TestClosedForms(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		g := 3.0
		if rel == dp.Replace {
			g = 6
		}
		p := Problem{Dim: 4, Constants: glm(3, 0.5), Modulus: 1, Relation: rel, Budget: dp.Budget{Epsilon: 0.8}}
		for calibration, rate := range map[Calibration]float64{
			Sharp: (0.8 - math.Log1p(0.1)) / g,
			Kifer: 0.4 / g,
			CMS11: (0.8 - 2*math.Log1p(0.1)) / g,
		} {
			p.Calibration = calibration
			b := at(t, p, 4)
			relative(t, rate, b.Rate, 2e-9)
			require.Less(t, b.Rate, rate)
			relative(t, 20/(rate*rate), b.Square(), 4e-9)
			require.Zero(t, b.Sigma+b.S)
		}
		p.Calibration, p.Budget.Delta = Kifer, 1e-6
		b := at(t, p, 4)
		relative(t, g*math.Sqrt(8*math.Log(2e6)+3.2)/0.8, b.Sigma, 2e-9)
		relative(t, g/b.Sigma, b.S, 1e-14)
		relative(t, 4*b.Sigma*b.Sigma, b.Square(), 1e-14)
		require.Equal(t, TheoremKifer, b.Theorem)
	}
}
