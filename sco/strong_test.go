package sco

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// With equal permutations and noise, releases of neighbors are as far apart as the
// passes themselves end. Linear losses attain L/(λb⌊n/b⌋): there β = 0, so that
// every step is 1/(2λt) and the contractions are exact.
func TestStrongSensitivity(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	for _, m := range []*PermutationSGD{
		{Radius: 1, Lambda: 0.3},
		{Radius: 1, Lambda: 0.05, Passes: 4},
		{Radius: 1, Lambda: 2, Passes: 3, Batch: 4}, // two records of ten are left out
	} {
		p, q := axis(10, 1), axis(10, -1)
		plan, err := m.Plan(p, b)
		require.NoError(t, err)
		require.Equal(t, TheoremPSGDStrong, plan.Theorem)
		require.True(t, math.IsInf(plan.Bound, 1))
		batch := max(m.Batch, 1)
		want := 1 / (m.Lambda * float64(batch*(10/batch))) // L = 1
		require.InEpsilon(t, want, plan.Phases[0].Sensitivity, 1e-9)
		require.LessOrEqual(t, dp.GaussianDelta(1, plan.Phases[0].Sensitivity/plan.Phases[0].Sigma), 1e-5)
		require.Greater(t, dp.GaussianDelta(1, 1.001*plan.Phases[0].Sensitivity/plan.Phases[0].Sigma), 1e-5)
		most := 0.0
		for seed := range uint64(20) {
			one, err := plan.Fit(ctx, p, noise.Reproducible(seed))
			require.NoError(t, err)
			two, err := plan.Fit(ctx, q, noise.Reproducible(seed))
			require.NoError(t, err)
			require.Equal(t, TheoremPSGDStrong, one.Certificate.Theorem)
			most = max(most, math.Abs(one.Theta[0]-two.Theta[0]))
			require.LessOrEqual(t, most, want*(1+1e-9))
		}
		require.InEpsilon(t, want, most, 1e-6) // β = 1e-9
	}
	// Curved losses on a ball, many steps at the longest length: no more than that.
	rnd := rand.New(noise.Reproducible(1))
	for range 20 {
		rows, labels := make([][]float64, 30), make([]float64, 30)
		for i := range rows {
			rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64()}
			labels[i] = rnd.NormFloat64()
		}
		neighbor := func(row []float64, label float64) *erm.Problem {
			rows[7], labels[7] = row, label
			data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
			require.NoError(t, err)
			return &erm.Problem{Data: data, Loss: loss.Huber{Delta: 0.3}, Set: prox.L2Ball{R: 4}}
		}
		p, q := neighbor([]float64{5, 0, 0}, 9), neighbor([]float64{5, 0, 0}, -9)
		m := &PermutationSGD{Lambda: 0.01, Passes: 2, Batch: 1 + rnd.IntN(4)} // κ = 51
		plan, err := m.Plan(p, dp.Budget{Epsilon: 1e4, Delta: 1e-5})          // little noise: the ball is not reached
		require.NoError(t, err)
		seed := rnd.Uint64()
		one, err := plan.Fit(ctx, p, noise.Reproducible(seed))
		require.NoError(t, err)
		two, err := plan.Fit(ctx, q, noise.Reproducible(seed))
		require.NoError(t, err)
		require.LessOrEqual(t, floats.Distance(one.Theta, two.Theta, 2), plan.Phases[0].Sensitivity)
	}
}

// Many passes with little noise end near the minimizer of the regularized loss.
func TestStrongConverges(t *testing.T) {
	p := problem(3, 400, 3)
	b := dp.Budget{Epsilon: 1e5, Delta: 1e-5}
	passes, err := (&PermutationSGD{Lambda: 0.05, Passes: 200}).Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	out, err := (&Output{Lambda: 0.05}).Fit(ctx, p, b, noise.Reproducible(2))
	require.NoError(t, err)
	// A pass moves the end by L/(λn)/passes times a few records; noise is about 1e-4.
	require.Less(t, floats.Distance(passes.Theta, out.Theta, 2), 5e-3)
}

func TestStrongRefuses(t *testing.T) {
	q := quantities(100, 2, 1, 1e-5, 1, 1, 1)
	_, err := (&PermutationSGD{Lambda: 1, StepSize: 0.1}).Calibrate(q)
	require.ErrorIs(t, err, ErrMechanism)
	for _, lambda := range []float64{-1, math.NaN(), math.Inf(1), 1e300, 1e-300} {
		_, err := (&PermutationSGD{Lambda: lambda}).Calibrate(q)
		require.ErrorIs(t, err, ErrMechanism, "%v", lambda)
	}
	plan, err := (&PermutationSGD{Lambda: 1}).Calibrate(q)
	require.NoError(t, err)
	plan.Lambda = math.NaN()
	_, err = plan.Fit(ctx, problem(1, 100, 2), noise.Reproducible(1))
	require.ErrorIs(t, err, ErrMechanism)
}
