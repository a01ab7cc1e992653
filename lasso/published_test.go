// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// decimal is a number in a string of the golden file.
type decimal float64

func (n *decimal) UnmarshalJSON(b []byte) error {
	if s, err := strconv.Unquote(string(b)); err == nil {
		b = []byte(s)
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*n = decimal(v)
	return err
}

type goldenConstants struct {
	Alpha1, Sigma2 decimal
	SigmaTilde2    decimal `json:"sigma_tilde2"`
}

type goldenFile struct {
	Calibration []struct {
		D, Rho                                           int
		M, L, Eps1, Eps2, Delta1, Delta2, Delta3, Delta4 decimal
		Tau, Eta, Alpha, F2, Beta                        decimal
		PaperCode                                        goldenConstants `json:"paper_code"`
		PaperCorrected                                   goldenConstants `json:"paper_corrected"`
	}
	Figure2 struct {
		Alpha          decimal
		PaperCode      goldenConstants `json:"paper_code"`
		PaperCorrected goldenConstants `json:"paper_corrected"`
	} `json:"paper_fig2_setting"`
}

func golden(t *testing.T) (g goldenFile) {
	t.Helper()
	b, err := os.ReadFile("../qop/testdata/qop.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.NotEmpty(t, g.Calibration)
	return g
}

// TestGoldenPaper: the published constants, as printed and repaired, to 1e-8.
func TestGoldenPaper(t *testing.T) {
	g := golden(t)
	same := func(want decimal, got float64) {
		t.Helper()
		require.InDelta(t, float64(want), got, 1e-8*math.Abs(float64(want)))
	}
	for _, c := range g.Calibration {
		in := Published{
			Dim: c.D, Degrees: float64(c.M), Rank: c.Rho, Smoothness: float64(c.L),
			Epsilon1: float64(c.Eps1), Epsilon2: float64(c.Eps2),
			Delta1: float64(c.Delta1), Delta2: float64(c.Delta2), Delta3: float64(c.Delta3), Delta4: float64(c.Delta4),
			Tau: float64(c.Tau), Eta: float64(c.Eta),
		}
		for printed, want := range map[bool]goldenConstants{true: c.PaperCode, false: c.PaperCorrected} {
			k, err := in.Constants(printed)
			require.NoError(t, err)
			same(c.Alpha, k.Alpha)
			same(c.F2, k.F2)
			same(c.Beta, k.Beta)
			same(want.Alpha1, k.Alpha1)
			same(want.Sigma2, k.Sigma2)
			same(want.SigmaTilde2, k.OutputSigma*k.OutputSigma)
		}
	}

	in := Published{Dim: 100, Degrees: 200, Rank: 1, Smoothness: 1, Epsilon1: 0.5, Delta1: 0.005, Delta3: 0.005}
	for printed, want := range map[bool]goldenConstants{true: g.Figure2.PaperCode, false: g.Figure2.PaperCorrected} {
		k, err := in.Constants(printed)
		require.NoError(t, err)
		same(g.Figure2.Alpha, k.Alpha)
		same(want.Alpha1, k.Alpha1)
		same(want.Sigma2, k.Sigma2)
	}

	// The defect in numbers: d = 100, m = 318, ε = 4, δ = 1e-5, δ₁ = 0.02 δ. The first
	// term of the maximum is 3.67; the repaired second one needs 254.
	in = Published{Dim: 100, Degrees: 318, Rank: 1, Smoothness: 1, Epsilon1: 4, Delta1: 2e-7, Delta3: 9.8e-6}
	k, err := in.Constants(false)
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
	for _, bad := range []Published{
		{},
		{Dim: 2, Degrees: math.NaN(), Rank: 1, Smoothness: 1, Epsilon1: 1, Delta1: 0.1, Delta3: 0.1},
		{Dim: 2, Degrees: 3, Rank: 1, Smoothness: math.Inf(1), Epsilon1: 1, Delta1: 0.1, Delta3: 0.1},
	} {
		_, err := bad.Constants(false)
		require.ErrorIs(t, err, ErrParameter, "%+v", bad)
	}
}
