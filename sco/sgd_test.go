package sco

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// readGolden reads a section of testdata/golden.json, which says in
// how_computed where its values come from.
func readGolden(t *testing.T, section string, v any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NoError(t, json.Unmarshal(all[section], v))
}

// quantities returns public quantities of a smooth loss.
func quantities(n, d int, eps, delta, l, beta, m float64) Public {
	return Public{Dim: d, Records: n, Radius: m, Budget: dp.Budget{Epsilon: eps, Delta: delta},
		Constants: loss.Constants{Lipschitz: l, Smoothness: beta, Rank: 1, Structure: loss.GLM}}
}

func TestPaperGolden(t *testing.T) {
	var raw struct {
		Values []map[string]any
	}
	readGolden(t, "ansgd_paper", &raw)
	require.Len(t, raw.Values, 3)
	num := func(m map[string]any, k string) float64 { return m[k].(float64) }
	for _, v := range raw.Values {
		n, d, l, m := int(num(v, "n")), int(num(v, "d")), num(v, "L"), num(v, "M")
		q := quantities(n, d, num(v, "eps"), num(v, "delta"), l, num(v, "beta_max_smooth")*(1-1e-12), m)
		pl, err := (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, int(num(v, "T")), pl.Steps)
		require.Equal(t, accounting.WithReplacement{Size: int(num(v, "m")), Records: n}, pl.Sampler)
		require.InEpsilon(t, num(v, "sigma2_mean_gradient"), pl.Sigma*pl.Sigma, 1e-12)
		require.InEpsilon(t, num(v, "z_on_sum_over_L"), pl.Noise, 1e-12)
		require.InEpsilon(t, num(v, "eta"), pl.StepSize, 1e-12)
		require.InEpsilon(t, num(v, "risk_bound_thm32"), pl.PaperBound, 1e-12)

		q.Constants.Smoothness = num(v, "beta_max_smooth") * (1 + 1e-12)
		_, err = (&NoisySGD{Calibration: Paper}).Calibrate(q)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "Smoothness")

		pl, err = (&ProxGD{NoisySGD: NoisySGD{Calibration: Paper}}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, num(v, "beta_moreau_thm44"), pl.Smoothing, 1e-12)
	}
}

// problem returns logistic records with a planted direction.
func problem(seed uint64, n, d int) *erm.Problem {
	rnd := rand.New(rand.NewPCG(seed, 1))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64() / math.Sqrt(float64(d))
		}
		labels[i] = 1
		if rows[i][0]+0.3*rnd.NormFloat64() < 0 {
			labels[i] = -1
		}
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 2}}
}
