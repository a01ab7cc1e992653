package lop

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// A scale of 1 and rates on both sides of it draw from their laws; nothing from
// none.
func TestDraw(t *testing.T) {
	require.Nil(t, draw(nil, 3, 0, 0, noise.Reproducible(1)))
	want := make([]float64, 3)
	for _, sigma := range []float64{0.5, 1, 2} {
		noise.Normal(want, sigma, noise.Reproducible(1))
		require.Equal(t, want, draw(nil, 3, sigma, 0, noise.Reproducible(1)))
	}
	for _, rate := range []float64{0.5, 1, 2} {
		noise.GammaNorm(want, rate, noise.Reproducible(1))
		require.Equal(t, want, draw(nil, 3, 0, rate, noise.Reproducible(1)))
	}
}

// A release is the traced point plus the noise that the source yields after b,
// projected; the trace is its formulas.
func TestReleaseIsItsFormula(t *testing.T) {
	data := records(t, 40, 3)
	for _, b := range []dp.Budget{budget, {Epsilon: 1}} {
		for _, p := range []*erm.Problem{
			{Data: data, Loss: loss.Logistic{}},
			{Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}, Set: prox.Box{Lo: -0.1, Hi: 0.1}},
		} {
			var tr Trace
			plan, err := (&Mechanism{Radius: 1, Cover: 1e-3, Trace: func(x Trace) { tr = x }}).Plan(p, b)
			require.NoError(t, err)
			rel, err := plan.Fit(ctx, p, noise.Reproducible(5))
			require.NoError(t, err)

			src := noise.Reproducible(5)
			linear, want := make([]float64, 3), make([]float64, 3)
			if b.Delta > 0 {
				noise.Normal(linear, plan.Sigma, src)
				noise.Normal(want, plan.OutputSigma, src)
			} else {
				noise.GammaNorm(linear, plan.Rate, src)
				noise.GammaNorm(want, plan.OutputRate, src)
			}
			floats.Add(want, tr.Theta)
			j := floats.Dot(linear, tr.Theta) + plan.Delta/2*floats.Dot(tr.Theta, tr.Theta)
			for i := range 40 {
				j += p.Loss.Func(tr.Theta, data.Row(i), data.Label(i))
			}
			if p.Set != nil {
				j += 0.5 * floats.Norm(tr.Theta, 1)
				for i := range want {
					want[i] = min(max(want[i], -0.1), 0.1)
				}
			}
			require.Equal(t, want, rel.Theta)
			require.InEpsilon(t, j, tr.Objective, 1e-12)
			mu := plan.Delta + plan.Ridge
			require.True(t, tr.Released)
			require.Positive(t, tr.Residual)
			require.LessOrEqual(t, tr.Distance, plan.Cover)
			require.InDelta(t, tr.Residual/mu, tr.Distance, 1e-14*tr.Distance)
			require.InDelta(t, tr.Residual*tr.Residual/(2*mu), tr.Gap, 1e-14*tr.Gap)
		}
	}
}
