package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// TestUtility: the inexact bounds of Figure 1 decrease in δ and ε, unlike those of
// a single Nelder–Mead run, and exceed the exact ones.
func TestUtility(t *testing.T) {
	b := dp.Budget{Epsilon: 2, Delta: 1e-3}
	for _, c := range []Calibration{Sharp, Threshold, Paper} {
		if c == Sharp && !testkit.Deep() {
			continue
		}
		u := Utility{Records: 10, Dim: 12, Radius: 1, RegLipschitz: 1, Calibration: c,
			Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: loss.General}}
		exact, err := u.Bound(b)
		require.NoError(t, err)
		u.Tau, u.Eta = 1e-3, 1e-3
		last := math.Inf(1)
		for _, delta := range []float64{1e-5, 1e-3, 1e-2} {
			got, err := u.Bound(dp.Budget{Epsilon: 2, Delta: delta})
			require.NoError(t, err)
			require.Less(t, got, last, c)
			last = got
		}
		got, err := u.Bound(b)
		require.NoError(t, err)
		require.Greater(t, got, exact, c)
	}
	// Better than what the published program's optimizer finds: 817 at (2, 1e-2).
	u := Utility{Records: 10, Dim: 12, Radius: 1, RegLipschitz: 1, Tau: 1e-3, Eta: 1e-3, Calibration: Paper,
		Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: loss.General}}
	got, err := u.Bound(dp.Budget{Epsilon: 2, Delta: 1e-2})
	require.NoError(t, err)
	require.Less(t, got, 817.0)

	for _, u := range []Utility{
		{Dim: 3, Radius: -1, Constants: u.Constants},
		{Dim: 3, Eta: 1, Constants: u.Constants},
		{Dim: 70_000, Constants: u.Constants},
		{Dim: 3, Tau: math.NaN(), Constants: u.Constants},
	} {
		_, err := u.Bound(b)
		require.ErrorIs(t, err, ErrMechanism)
	}
	_, err = Utility{Dim: 0, Constants: u.Constants}.Bound(b)
	require.ErrorIs(t, err, erm.ErrProblem)
	_, err = Utility{Dim: 3, Calibration: 9, Constants: u.Constants}.Bound(b)
	require.ErrorIs(t, err, ErrMechanism)
}

// TestFigure1: the four exact columns of Figure 1 of [CC26], at most 1 % above
// the reference optima (and half a digit, where they end), and not far below:
// those of the general column were found on a coarse grid of m.
func TestFigure1(t *testing.T) {
	g := golden(t).Figure1
	u := Utility{Records: 10, Dim: 12, Radius: 1, RegLipschitz: 1}
	for i, eps := range []float64{1, 2, 3, 4} {
		for j, delta := range []float64{1e-5, 1e-4, 1e-3, 1e-2} {
			if !testkit.Deep() && i+j > 0 {
				continue
			}
			for _, c := range []struct {
				want        float64
				structure   loss.Structure
				calibration Calibration
			}{
				{g.Paper[i][j], loss.General, Paper},
				{g.General[i][j], loss.General, Sharp},
				{g.GLM[i][j], loss.GLM, Sharp},
				{g.LSQ[i][j], loss.LSQ, Sharp},
			} {
				if c.calibration == Sharp && c.structure != loss.LSQ && !testkit.Long() {
					continue // seconds
				}
				u.Constants = loss.Constants{Smoothness: 1, Rank: 1, Structure: c.structure}
				u.Calibration = c.calibration
				got, err := u.Bound(dp.Budget{Epsilon: eps, Delta: delta})
				require.NoError(t, err)
				require.LessOrEqual(t, got, 1.01*c.want+0.05, "%v ε=%v δ=%v", c, eps, delta)
				least := 0.95 // the reference has no Theorems T and G
				if c.calibration == Sharp && c.structure != loss.LSQ {
					least = 0.6
				}
				require.GreaterOrEqual(t, got, least*c.want-0.05, "%v ε=%v δ=%v", c, eps, delta)
			}
		}
	}
}
