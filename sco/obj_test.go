package sco

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func TestAutoLambdaGolden(t *testing.T) {
	var g struct {
		Values []struct {
			N, D                              int
			Eps, L, Beta, M, Lambda, C, Sigma float64
			Delta                             float64
			Bound                             float64 `json:"population_excess_bound"`
		}
	}
	readGolden(t, "aobjp_auto_lambda", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		q := quantities(v.N, v.D, v.Eps, v.Delta, v.L, v.Beta, v.M)
		o, err := newObjective(q, dp.Replace, q.Budget) // without output noise
		require.NoError(t, err)
		lambda := o.best()
		require.InEpsilon(t, v.Lambda, lambda, 1e-3) // flat around the optimum
		require.InEpsilon(t, v.Bound, o.bound(lambda, o.sigma(lambda)), 1e-6)
		require.InEpsilon(t, v.Sigma, o.sigma(v.Lambda), 1e-6)
		require.InEpsilon(t, v.C, o.c(v.Lambda), 1e-12)

		pl, err := (&ObjPert{}).Calibrate(q)
		require.NoError(t, err)
		require.Greater(t, pl.Bound, v.Bound)
		require.InEpsilon(t, v.Bound, pl.Bound, 0.02) // 1 % of the budget and the cover
		require.Equal(t, 2*float64(v.N)*pl.Lambda, pl.Delta)
	}
}

func TestObjPertPaperGolden(t *testing.T) {
	var g struct {
		Values []struct {
			N, D      int
			Eps, L, M float64
			Delta     float64
			Lambda    float64 `json:"lambda_paper"`
			Sigma     float64 `json:"sigma_paper"`
			Ridge     float64 `json:"Delta_sum_2nlambda"`
			BetaMax   float64 `json:"beta_max_paper_eps_n_lambda"`
			Bound     float64 `json:"risk_bound_paper_corrected_4ML"`
			Refined   float64 `json:"risk_bound_refined_same_sigma"`
			RefinedAt float64 `json:"lambda_refined_same_sigma"`
		}
	}
	readGolden(t, "aobjp_paper", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		q := quantities(v.N, v.D, v.Eps, v.Delta, v.L, 1, v.M)
		pl, err := (&ObjPert{Calibration: Paper}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, v.Lambda, pl.Lambda, 1e-12)
		require.InEpsilon(t, v.Sigma, pl.PaperSigma, 1e-12)
		require.InEpsilon(t, v.Ridge, pl.Delta, 1e-12)
		require.InEpsilon(t, v.Bound, pl.PaperBound, 1e-12)
		require.InEpsilon(t, 2*v.Sigma, pl.Sigma, 1e-12)
		o, err := newObjective(q, dp.Replace, pl.Objective)
		require.NoError(t, err)
		require.LessOrEqual(t, o.sigma(pl.Lambda), pl.Sigma, "the published constant doubled satisfies the curve")
		require.InEpsilon(t, v.Refined, o.bound(v.RefinedAt, v.Sigma), 1e-12)

		q.Constants.Smoothness = v.BetaMax * (1 + 1e-9)
		_, err = (&ObjPert{Calibration: Paper}).Calibrate(q)
		require.ErrorIs(t, err, dp.ErrCondition)
	}
}

func TestSVRGGolden(t *testing.T) {
	var g struct {
		Values []struct {
			N             int
			Beta, Lambda  float64
			Unconstrained map[string]float64
			Proximal      map[string]float64
		}
	}
	readGolden(t, "svrg", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		for _, c := range []struct {
			composite bool
			want      map[string]float64
		}{{false, v.Unconstrained}, {true, v.Proximal}} {
			s, err := NewSVRGSchedule(v.N, v.Beta, v.Lambda, c.want["gap0"], c.want["target"], c.composite)
			require.NoError(t, err)
			require.InEpsilon(t, c.want["eta"], s.StepSize, 1e-12)
			require.EqualValues(t, c.want["inner"], s.Inner)
			require.InEpsilon(t, c.want["rho"], s.Factor, 1e-12)
			require.EqualValues(t, c.want["epochs_for_gap_ratio"], s.Epochs)
			require.EqualValues(t, c.want["gradient_evaluations"], s.Evaluations)
		}
	}
	_, err := NewSVRGSchedule(10, 1, 0, 1, 1, false)
	require.ErrorIs(t, err, ErrMechanism)
}

// The golden minimizers are found, by SVRG and by the default methods.
func TestSolutionsGolden(t *testing.T) {
	var g struct {
		X         [][]float64
		YClass    []float64 `json:"y_class"`
		YReg      []float64 `json:"y_reg"`
		Delta     float64
		B         []float64 `json:"b"`
		Logistic  []float64
		Squared   []float64 `json:"least_squares_half"`
		Huberized []float64 `json:"huberised_least_squares_C_0.5"`
		Ball      []float64 `json:"logistic_ball_radius_0.5"`
		SquaredL1 []float64 `json:"least_squares_half_l1_0.3"`
	}
	readGolden(t, "perturbed_objective_solutions", &g)
	huber, err := loss.NewClipped(loss.Squared{}, 0.5)
	require.NoError(t, err)
	n, lambda := float64(len(g.X)), g.Delta/(2*float64(len(g.X)))
	for name, c := range map[string]struct {
		p    erm.Problem
		y    []float64
		want []float64
	}{
		"logistic": {erm.Problem{Loss: loss.Logistic{}}, g.YClass, g.Logistic},
		"squared":  {erm.Problem{Loss: loss.Squared{}}, g.YReg, g.Squared},
		"huber":    {erm.Problem{Loss: huber}, g.YReg, g.Huberized},
		"ball":     {erm.Problem{Loss: loss.Logistic{}, Set: prox.L2Ball{R: 0.5}}, g.YClass, g.Ball},
		"l1":       {erm.Problem{Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.3}}, g.YReg, g.SquaredL1},
	} {
		bounds := loss.Bounds{Row: 1.1, Label: 2}
		if loss.CheckData(c.p.Loss, 3, bounds) != nil { // a loss of classes
			bounds.Label = 1
		}
		data, err := erm.NewData(g.X, c.y, bounds)
		require.NoError(t, err)
		p := c.p
		p.Data = data
		obj := p.Perturb(erm.Perturbation{Linear: g.B, Quad: mat.NewDiagDense(3, []float64{g.Delta, g.Delta, g.Delta}), MinEig: g.Delta, MaxEig: g.Delta})
		beta := p.Loss.Constants(data.Bounds(), math.Inf(1)).Smoothness
		s, err := NewSVRGSchedule(int(n), beta, lambda, 10, 1e-24, p.Set != nil || p.Reg != nil)
		require.NoError(t, err)
		for _, m := range [][]release.Method{release.Methods, {func(splitting.Problem, int) splitting.Method { return &svrg{schedule: s} }}} {
			res, err := release.Certify(context.Background(), &p, obj, make([]float64, 3), 1e-10, m...)
			require.NoError(t, err)
			require.True(t, res.Proved, name)
			require.InDeltaSlice(t, c.want, res.X, 2e-10, name) // residual over Δ
		}
	}
}

// SVRG at n = 1e5 reaches its certificate with far fewer gradients than
// 30 n log₂ n.
func TestSVRGEvaluations(t *testing.T) {
	if testing.Short() {
		t.Skip("1e5 records take seconds")
	}
	n, d := 100000, 10
	p := problem(3, n, d)
	var tr Trace
	m := &ObjPertSVRG{ObjPert{Trace: func(t Trace) { tr = t }}}
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	require.True(t, tr.Released)
	limit := 30 * float64(n) * math.Log2(float64(n))
	t.Logf("%d gradients, %.2g of 30 n log₂ n, distance %.2g", tr.Evaluations, float64(tr.Evaluations)/limit, tr.Distance)
	require.Less(t, float64(tr.Evaluations), limit/4)

	// Newton from the same source releases the same point, up to the output noise.
	other, err := (&ObjPert{}).Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-10}, noise.Reproducible(1))
	require.NoError(t, err)
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-10})
	require.NoError(t, err)
	require.Less(t, floats.Distance(rel.Theta, other.Theta, 2), 2*plan.Cover+1e-15)
}
