package sco

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/certify"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// quantities returns public quantities of a smooth loss.
func quantities(n, d int, eps, delta, l, beta, m float64) Public {
	return Public{Dim: d, Records: n, Radius: m, Budget: dp.Budget{Epsilon: eps, Delta: delta},
		Constants: loss.Constants{Lipschitz: l, Smoothness: beta, Rank: 1, Structure: loss.GLM}}
}

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

// TestObjectiveDimensions: ρ and the dimension of what a neighbor changes.
func TestObjectiveDimensions(t *testing.T) {
	for _, c := range []struct {
		s         loss.Structure
		rank, d   int
		rel       dp.Relation
		rho, g    float64
		dimension int
		paired    bool
	}{
		{loss.GLM, 3, 5, dp.Replace, 1, 2, 2, true},
		{loss.LSQ, 3, 5, dp.AddRemove, 1, 1, 1, false},
		{loss.GLM, 1, 1, dp.Replace, 1, 2, 1, false},
		{loss.GLM, 1, 2, dp.Replace, 1, 2, 2, true},
		{loss.FixedRange, 2, 5, dp.Replace, 2, 2, 4, false},
		{loss.FixedRange, 1, 5, dp.Replace, 1, 2, 2, true},
		{loss.FixedRange, 3, 5, dp.Replace, 3, 2, 5, false},
		{loss.FixedRange, 7, 5, dp.AddRemove, 5, 1, 5, false},
		{loss.General, 2, 5, dp.Replace, 2, 2, 5, false},
		{loss.General, 1, 5, dp.AddRemove, 1, 1, 5, false},
	} {
		q := quantities(10, c.d, 1, 1e-6, 1, 1, 1)
		q.Constants.Structure, q.Constants.Rank = c.s, c.rank
		o, err := newObjective(q, c.rel, q.Budget)
		require.NoError(t, err)
		require.Equal(t, c.rho, o.rank, "%+v", c)
		require.Equal(t, c.g, o.g, "%+v", c)
		require.Equal(t, c.dimension, o.curve.Q, "%+v", c)
		require.Equal(t, c.paired, o.curve.Paired, "%+v", c)
	}
}

// TestObjectiveFormulas: c, the least λ, the bound, the best λ and what a plan
// makes of them.
func TestObjectiveFormulas(t *testing.T) {
	for _, q := range []Public{quantities(300, 4, 0.8, 1e-6, 1.5, 0.4, 2), quantities(20, 50, 0.1, 1e-4, 1, 30, 0.5), quantities(5000, 1, 9, 1e-3, 1, 100, 10)} {
		n, d, l, m, beta := q.n(), q.d(), q.Constants.Lipschitz, q.Radius, q.Constants.Smoothness
		q.Constants.Structure, q.Constants.Rank = loss.General, 2
		o, err := newObjective(q, dp.Replace, q.Budget)
		require.NoError(t, err)
		rho := math.Min(2, d)
		require.InEpsilon(t, rho*math.Log1p(beta/(2*n*0.3)), o.c(0.3), 1e-14)
		require.GreaterOrEqual(t, o.c(0.3), rho*math.Log1p(beta/(2*n*0.3)))
		require.InEpsilon(t, 0.6*q.Budget.Epsilon, o.c(o.leastLambda(0.6)), 1e-12)
		require.True(t, math.IsInf(o.sigma(o.leastLambda(1.001)*0.99), 1))
		require.InEpsilon(t, (d*9/(4*n*n)+l*l/n)/0.3+0.3*m*m, o.bound(0.3, 3), 1e-13)
		at := func(lambda float64) float64 { return o.bound(lambda, o.sigma(lambda)) }
		best := o.best()
		require.LessOrEqual(t, o.c(best), 0.99*q.Budget.Epsilon*(1+1e-9))
		for _, f := range []float64{1e-8, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.97, 1.03, 1.1, 2, 10, 100, 1e4, 1e8} { // none is better
			lambda := best * f
			require.GreaterOrEqual(t, at(lambda), at(best)*(1-1e-7), "λ = %v times the best", f)
		}
		pl, err := (&ObjPert{}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, 0.01, defaultShare)
		require.InEpsilon(t, 0.01*q.Budget.Epsilon, pl.Output.Epsilon, 1e-9)
		o, err = newObjective(q, dp.Replace, pl.Objective)
		require.NoError(t, err)
		require.Equal(t, o.best(), pl.Lambda)
		sigma := o.sigma(pl.Lambda)
		require.Equal(t, sigma, pl.Sigma)
		c := o.c(pl.Lambda)
		least := o.curve.LeastNoise(pl.Objective.Epsilon-c, pl.Objective.Delta) * 2 * l // never below it
		require.GreaterOrEqual(t, sigma, least)
		require.InEpsilon(t, least, sigma, 2e-9)
		require.Equal(t, c, pl.C)
		require.InEpsilon(t, 2*l/sigma, pl.S, 1e-14)
		require.InEpsilon(t, 2*n*pl.Lambda, pl.Delta, 1e-14)
		cover := math.Max(1e-8*m, 8e-12*(n*l+sigma*math.Sqrt(d)+pl.Delta*m)/pl.Delta)
		require.InEpsilon(t, cover, pl.Cover, 1e-13)
		noise, err := dp.GaussianSigma(pl.Output, 2*cover)
		require.NoError(t, err)
		require.GreaterOrEqual(t, pl.OutputSigma, noise)
		require.InEpsilon(t, noise, pl.OutputSigma, 2e-9)
		require.InEpsilon(t, o.bound(pl.Lambda, sigma)+l*(cover+pl.OutputSigma*math.Sqrt(d)), pl.Bound, 1e-12)
	}
	// Many records: rounding in their sum decides how closely a minimizer is certified.
	q := quantities(1e9, 4, 0.8, 1e-6, 1.5, 0.4, 1e-6)
	pl, err := (&ObjPert{Lambda: 1e-3}).Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, 8e-12*(1.5e9+2*pl.Sigma+pl.Delta*1e-6)/pl.Delta, pl.Cover, 1e-12)
	require.Greater(t, pl.Cover, 1e-14)
	q.Radius = 2
	for _, c := range []float64{2.01e-14, 1.99e-14} { // the least that can be certified, 1e-14·M
		pl, err := (&ObjPert{Cover: c}).Calibrate(q)
		require.Equal(t, c < 2e-14, err != nil)
		if err == nil {
			require.Equal(t, c, pl.Cover)
		}
	}
	// A radius so large that λ is to be as small as may be: c is 0.99 of ε.
	q.Radius = 1e12
	wide, err := newObjective(q, dp.Replace, q.Budget)
	require.NoError(t, err)
	require.InEpsilon(t, 0.99*q.Budget.Epsilon, wide.c(wide.best()), 2e-5)
	q.Radius = 2
	// λ at which no noise is enough, next to one at which some is.
	o, err := newObjective(q, dp.Replace, q.Budget)
	require.NoError(t, err)
	least := o.leastLambda(0.99) // of all ε; the objective has 0.99 of it
	_, err = (&ObjPert{Lambda: least * 1.001}).Calibrate(q)
	require.NoError(t, err)
	_, err = (&ObjPert{Lambda: least * 0.999}).Calibrate(q)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// TestObjectivePaper: the conditions of the published parameters at their ends,
// and the sharp curve where it needs more.
func TestObjectivePaper(t *testing.T) {
	q := quantities(10, 2, 1, 0.01, 1.5, 0.1, 0.5)
	m := &ObjPert{Calibration: Paper}
	pl, err := m.Calibrate(q)
	require.NoError(t, err)
	log := 2 * math.Ln10
	root := math.Sqrt(0.2 + 8*log/100)
	require.InEpsilon(t, 2*1.5/0.5*root, pl.Lambda, 1e-13)
	require.InEpsilon(t, math.Sqrt(10*log)*1.5, pl.PaperSigma, 1e-13)
	require.InEpsilon(t, 4*0.5*1.5*root, pl.PaperBound, 1e-13)
	require.GreaterOrEqual(t, pl.Sigma, 2*pl.PaperSigma)
	o, err := newObjective(q, dp.Replace, pl.Objective)
	require.NoError(t, err)
	require.Equal(t, math.Max(2*pl.PaperSigma, o.sigma(pl.Lambda)), pl.Sigma)
	for _, c := range []struct {
		edit func(q *Public)
		text string
	}{
		{func(q *Public) { q.Budget.Epsilon = math.Nextafter(1, 2) }, "ε ≤ 1"},
		{func(q *Public) { q.Budget.Delta = math.Nextafter(0.01, 1) }, "1/n²"},
		{func(q *Public) { q.Constants.Structure = loss.FixedRange }, "⟨a,w⟩"},
		{func(q *Public) { q.Constants.Smoothness = 10 * pl.Lambda * (1 + 1e-12) }, "at most εnλ"},
	} {
		r := q
		c.edit(&r)
		_, err := m.Calibrate(r)
		require.ErrorContains(t, err, c.text)
	}
	// At β = εnλ, c = log(1 + ε/2): below ε, and the curve needs more than the paper.
	q.Constants.Smoothness = 10 * pl.Lambda * (1 - 1e-12)
	steep, err := m.Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, math.Log1p(0.5), steep.C, 1e-9)
	require.Equal(t, math.Max(2*pl.PaperSigma, o.withSmoothness(q).sigma(pl.Lambda)), steep.Sigma)
	_, err = (&ObjPert{Calibration: Paper, Share: 0.7}).Calibrate(q) // 0.3 of ε is left, less than c
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "paper's λ")
}

// withSmoothness returns o for the smoothness of q.
func (o *objective) withSmoothness(q Public) *objective {
	p := *o
	p.q = q
	return &p
}

// TestGoldenLog: the minimum to 1e-5 in log x, at either end and inside, in few
// evaluations.
func TestGoldenLog(t *testing.T) {
	for _, at := range []float64{1e-3, 0.02, 1, 40, 1e3} {
		evals := 0
		got := goldenLog(func(x float64) float64 {
			evals++
			return math.Abs(math.Log(x / at))
		}, 1e-3, 1e3)
		require.InDelta(t, math.Log(at), math.Log(got), 1.1e-5)
		require.LessOrEqual(t, evals, 36) // log(13.8/1e-5)/log 1.618 = 29.4
		require.True(t, got >= 1e-3 && got <= 1e3)
	}
	require.Equal(t, 3., goldenLog(square, 3, 3))
}

// TestOutputFormulas: λ, the sensitivity and the bound of output perturbation.
func TestOutputFormulas(t *testing.T) {
	q := quantities(300, 4, 0.8, 1e-6, 1.5, 0.4, 2)
	unit, err := dp.GaussianSigma(q.Budget, 1)
	require.NoError(t, err)
	for rel, g := range map[dp.Relation]float64{dp.Replace: 3, dp.AddRemove: 1.5} {
		pl, err := (&Output{Relation: rel}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, math.Sqrt(1.5*(1.5+unit*2*g/2)/300)/2, pl.Lambda, 1e-13)
		require.InEpsilon(t, 600*pl.Lambda, pl.Delta, 1e-13)
		require.InEpsilon(t, 2e-8, pl.Cover, 1e-13)
		moved := g/pl.Delta + 2*pl.Cover
		require.GreaterOrEqual(t, pl.OutputSigma, unit*moved)
		require.InEpsilon(t, unit*moved, pl.OutputSigma, 2e-9)
		require.InEpsilon(t, moved/pl.OutputSigma, pl.S, 2e-9)
		require.InEpsilon(t, 1.5*1.5/(300*pl.Lambda)+4*pl.Lambda+1.5*(pl.Cover+2*pl.OutputSigma), pl.Bound, 1e-13)
		at := func(lambda float64) float64 {
			pl, err := (&Output{Relation: rel, Lambda: lambda, Cover: 1e-12}).Calibrate(q)
			require.NoError(t, err)
			require.Equal(t, lambda, pl.Lambda)
			return pl.Bound
		}
		require.Greater(t, at(1.03*pl.Lambda), at(pl.Lambda))
		require.Greater(t, at(0.97*pl.Lambda), at(pl.Lambda))
	}
	pl, err := (&Output{Relation: dp.AddRemove, Records: 1}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 1, pl.Records)
	pl, err = (&Output{Relation: dp.Replace, Records: 7}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 300, pl.Records)
	q.Radius = 0
	pl, err = (&Output{Radius: 0.5}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Radius)
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
		data, err := erm.NewData(g.X, c.y, loss.Bounds{Row: 1.1, Label: 2})
		require.NoError(t, err)
		p := c.p
		p.Data = data
		obj := p.Perturb(erm.Perturbation{Linear: g.B, Quad: mat.NewDiagDense(3, []float64{g.Delta, g.Delta, g.Delta}), MinEig: g.Delta, MaxEig: g.Delta})
		beta := p.Loss.Constants(data.Bounds(), math.Inf(1)).Smoothness
		s, err := NewSVRGSchedule(int(n), beta, lambda, 10, 1e-24, p.Set != nil || p.Reg != nil)
		require.NoError(t, err)
		for _, m := range [][]certify.Method{certify.Methods, {func(splitting.Problem, int) splitting.Method { return &svrg{schedule: s} }}} {
			res, err := certify.Minimize(context.Background(), &p, obj, make([]float64, 3), 1e-10, m...)
			require.NoError(t, err)
			require.True(t, res.Proved, name)
			require.InDeltaSlice(t, c.want, res.X, 2e-10, name) // residual over Δ
		}
	}
}

// TestObjectiveRefuses: the rejections of objective and output perturbation.
func TestObjectiveRefuses(t *testing.T) {
	good := quantities(1000, 5, 1, 1e-7, 1, 0.25, 1)
	with := func(f func(q *Public)) Public { q := good; f(&q); return q }
	kinked := with(func(q *Public) { q.Constants.Smoothness = math.Inf(1) })
	obj := func(m ObjPert) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	out := func(m Output) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	nan := math.NaN()
	for _, c := range []struct {
		want error
		text string
		f    func(q Public) error
		q    Public
	}{
		{dp.ErrCondition, "Lambda >", obj(ObjPert{Lambda: 1e-9}), good},
		{dp.ErrCondition, "Smoothness = +Inf", obj(ObjPert{}), kinked},
		{dp.ErrCondition, "Rank = 0", obj(ObjPert{}), with(func(q *Public) { q.Constants.Structure, q.Constants.Rank = loss.FixedRange, 0 })},
		{dp.ErrCondition, "invalid structure", obj(ObjPert{}), with(func(q *Public) { q.Constants.Structure = 0 })},
		{dp.ErrCondition, "ε ≤ 1", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Budget.Epsilon = 2 })},
		{dp.ErrCondition, "1/n²", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Budget.Delta = 1e-5 })},
		{dp.ErrCondition, "⟨a,w⟩", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Constants.Structure = loss.General })},
		{dp.ErrCondition, "add-remove", obj(ObjPert{Calibration: Paper, Relation: dp.AddRemove}), good},
		{ErrMechanism, "Calibration = paper-unsafe", obj(ObjPert{Calibration: PaperUnsafe}), good},
		{ErrMechanism, "Share = 1", obj(ObjPert{Share: 1}), good},
		{ErrMechanism, "Lambda = -1", obj(ObjPert{Lambda: -1}), good},
		{ErrMechanism, "Lambda = 1", obj(ObjPert{Lambda: 1, Calibration: Paper}), good},
		{ErrMechanism, "Cover", obj(ObjPert{Cover: 1e-15}), good},
		{ErrMechanism, "Cover = NaN", out(Output{Cover: nan}), good},
		{dp.ErrRelation, "Relation", out(Output{Relation: 5}), good},
	} {
		err := c.f(c.q)
		require.ErrorIs(t, err, c.want, c.text)
		require.ErrorContains(t, err, c.text)
	}
	p := problem(1, 100, 2)
	p.Loss = loss.Hinge{}
	_, err := (&Output{}).Plan(p, good.Budget)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "loss.Moreau")
}

// TestObjectiveEnds: plans whose values no sampler can hold, one step inside and one
// outside.
func TestObjectiveEnds(t *testing.T) {
	const below = largest * (1 - 0x1p-53)
	obj := func(edit func(pl *ObjPlan)) error {
		pl := &ObjPlan{Theorem: TheoremObjPert, Delta: 0.5, Cover: 0.5, OutputSigma: 0.5, Sigma: 0.5}
		edit(pl)
		return pl.valid()
	}
	for i, err := range []error{
		obj(func(pl *ObjPlan) {}),
		obj(func(pl *ObjPlan) { pl.Sigma, pl.Theorem = 0, TheoremOutput }),
		obj(func(pl *ObjPlan) { pl.Delta = below }),
		obj(func(pl *ObjPlan) { pl.Sigma = below }),
		obj(func(pl *ObjPlan) { pl.OutputSigma = below }),
	} {
		require.NoError(t, err, i)
	}
	for i, err := range []error{
		obj(func(pl *ObjPlan) { pl.Theorem = "" }),
		obj(func(pl *ObjPlan) { pl.Delta = 0 }),
		obj(func(pl *ObjPlan) { pl.Delta = largest }),
		obj(func(pl *ObjPlan) { pl.Cover = 0 }),
		obj(func(pl *ObjPlan) { pl.OutputSigma = 0 }),
		obj(func(pl *ObjPlan) { pl.OutputSigma = largest }),
		obj(func(pl *ObjPlan) { pl.Sigma = 0 }),
		obj(func(pl *ObjPlan) { pl.Sigma = largest }),
		obj(func(pl *ObjPlan) { pl.Sigma = math.NaN() }),
	} {
		require.ErrorIs(t, err, ErrMechanism, i)
	}
	for _, share := range []float64{1, -0.01} {
		_, err := (&ObjPert{Share: share}).Calibrate(quantities(1000, 5, 1, 1e-7, 1, 0.25, 1))
		require.ErrorIs(t, err, ErrMechanism)
	}
	_, err := (&ObjPert{Share: 0.97}).Calibrate(quantities(1000, 5, 1, 1e-7, 1, 0.25, 1))
	require.NoError(t, err)
	_, err = (&Output{Lambda: 5e-324, Cover: 1}).Calibrate(quantities(100, 1, 1, 1e-16, 1, 1, 1))
	require.Error(t, err)
}

// The noise of objective and output perturbation has the standard deviation of the
// plan, and that hides its sensitivity: by the exact profile of the Gaussian.
func TestObjectiveNoiseLaw(t *testing.T) {
	const runs = 3000
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	p := axis(10, 1)
	const tol = 4.9 / 77.4 // 4.9/√(2·3000): false reject 1e-6
	sd := func(fit func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)) float64 {
		return deviation(t, fit, p, runs)
	}
	out, err := (&Output{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.LessOrEqual(t, dp.GaussianDelta(1, (2/out.Delta+2*out.Cover)/out.OutputSigma), 1e-5)
	require.InEpsilon(t, out.OutputSigma, sd(out.Fit), tol)

	// The objective is linear: the minimizer is −(Σ∇ℓ + b)/Δ, of standard
	// deviation σ/Δ.
	obj, err := (&ObjPert{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.LessOrEqual(t, dp.GaussianDelta(obj.Output.Epsilon, 2*obj.Cover/obj.OutputSigma), obj.Output.Delta)
	require.InEpsilon(t, obj.Sigma/obj.Delta, sd(obj.Fit), tol)
	require.InEpsilon(t, math.Hypot(obj.Sigma/obj.Delta, obj.OutputSigma), sd(obj.Fit), tol)

}
