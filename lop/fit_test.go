package lop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

var ctx = context.Background()

// records makes n rows in the unit ball of ℝᵈ with ±1 labels.
func records(t testing.TB, n, d int) *erm.Data {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64()
		}
		floats.Scale(1/floats.Norm(rows[i], 2), rows[i])
		labels[i] = math.Copysign(1, rows[i][0]+0.3*rnd.NormFloat64())
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return data
}

var budget = dp.Budget{Epsilon: 1, Delta: 1e-5}

// Every kind of problem is released, inside its set, at the claimed budget,
// and within R of an independent solution.
func TestFit(t *testing.T) {
	data := records(t, 60, 4)
	for name, p := range map[string]*erm.Problem{
		"logistic":          {Data: data, Loss: loss.Logistic{}},
		"logistic ℓ1":       {Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}},
		"logistic ball":     {Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 0.3}},
		"logistic ℓ1 ball":  {Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 0.5}, Set: prox.L2Ball{R: 0.3}},
		"logistic ridge":    {Data: data, Loss: loss.Logistic{}, Reg: prox.SquaredL2{Weight: 3}},
		"huber":             {Data: data, Loss: loss.Huber{Delta: 0.5}},
		"smoothed hinge":    {Data: data, Loss: loss.SmoothedHinge{Gamma: 0.5}},
		"squared box":       {Data: data, Loss: loss.Squared{}, Set: prox.Box{Lo: -0.5, Hi: 0.5}},
		"squared ℓ1 box":    {Data: data, Loss: loss.Squared{}, Reg: prox.L1{Weight: 1}, Set: prox.Box{Lo: -0.5, Hi: 0.5}},
		"squared ball":      {Data: data, Loss: loss.Squared{}, Set: prox.L2Ball{R: 1}},
		"squared simplex":   {Data: data, Loss: loss.Squared{}, Set: prox.Simplex{Total: 1}},
		"huber nonnegative": {Data: data, Loss: loss.Huber{Delta: 0.5}, Set: prox.NonNegative{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, b := range []dp.Budget{budget, {Epsilon: 2}} {
				for _, rel := range []dp.Relation{0, dp.AddRemove} {
					var traces []Trace
					trace := func(tr Trace) { traces = append(traces, tr) }
					for _, m := range []interface {
						Plan(*erm.Problem, dp.Budget) (*Plan, error)
						Fit(context.Context, *erm.Problem, dp.Budget, rand.Source) (*dp.Release, error)
					}{
						&Mechanism{Relation: rel, Radius: 1, Trace: trace},
						&Output{Relation: rel, Radius: 1, Records: 60, Trace: trace},
					} {
						rel1, err := m.Fit(ctx, p, b, noise.Reproducible(7, name))
						require.NoError(t, err)
						rel2, err := m.Fit(ctx, p, b, noise.Reproducible(7, name))
						require.NoError(t, err)
						require.Equal(t, rel1, rel2, "equal seeds, equal results")
						secure, err := m.Fit(ctx, p, b, nil)
						require.NoError(t, err)
						require.NotEqual(t, rel1.Theta, secure.Theta)
						require.Equal(t, []dp.Assumption{dp.RealArithmetic}, secure.Certificate.Assumptions)

						c := rel1.Certificate
						require.NoError(t, c.Check())
						require.Equal(t, b, c.Budget)
						require.Equal(t, relation(rel), c.Relation)
						require.Equal(t, []dp.Assumption{dp.RealArithmetic, dp.CallerSource}, c.Assumptions)
						if p.Set != nil {
							// Projected twice is projected: the point is in the set up to rounding.
							again := slices.Clone(rel1.Theta)
							p.Set.Prox(again, again, 1)
							require.InDelta(t, 0, floats.Distance(again, rel1.Theta, 2), 1e-14)
						}

						plan, err := m.Plan(p, b)
						require.NoError(t, err)
						require.Equal(t, plan.Theorem, c.Theorem)
						tr := traces[len(traces)-2]
						require.True(t, tr.Released)
						require.LessOrEqual(t, tr.Distance, plan.Cover)
						independent(t, plan, p, tr, noise.Reproducible(7, name))
					}
				}
			}
		})
	}
}

// independent solves the perturbed problem of a seeded fit again by plain
// splitting with two proximal maps and compares.
func independent(t *testing.T, plan *Plan, p *erm.Problem, tr Trace, src rand.Source) {
	t.Helper()
	b := draw(nil, plan.Dim, plan.Sigma, plan.Rate, src)
	obj := p.Perturb(erm.Perturbation{Linear: b, Quad: scalar(plan.Dim, plan.Delta)})
	q := splitting.Problem{F: obj, G: p.Reg}
	if p.Set != nil {
		q.H = p.Set
	}
	mu := plan.Delta + plan.Ridge
	res, err := splitting.Solve(ctx, q, make([]float64, plan.Dim), &splitting.Settings{Tolerance: mu * plan.Cover}, &splitting.DavisYin{})
	require.NoError(t, err)
	require.LessOrEqual(t, floats.Distance(res.X, tr.Theta, 2), 2*plan.Cover*(1+1e-6))
}

// The minimizers of a table computed with mpmath, for the drawn b replaced by
// the table's.
func TestPerturbedMinimizersGolden(t *testing.T) {
	var g golden
	loadJSON(t, "golden.json", &g)
	s := g.Solutions
	bounds := loss.Bounds{Row: 2, Label: 3}
	class, err := erm.NewData(s.X, s.YClass, loss.Bounds{Row: 2, Label: 1})
	require.NoError(t, err)
	reg, err := erm.NewData(s.X, s.YReg, bounds)
	require.NoError(t, err)
	clip, err := loss.NewClipped(loss.Squared{}, 0.5)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		p    *erm.Problem
		want []float64
	}{
		"logistic":   {&erm.Problem{Data: class, Loss: loss.Logistic{}}, s.Logistic},
		"squared":    {&erm.Problem{Data: reg, Loss: loss.Squared{}, Set: prox.L2Ball{R: 9}}, s.Squared},
		"huberized":  {&erm.Problem{Data: reg, Loss: clip}, s.Huberized},
		"ball":       {&erm.Problem{Data: class, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 0.5}}, s.Ball},
		"squared ℓ1": {&erm.Problem{Data: reg, Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.3}, Set: prox.L2Ball{R: 9}}, s.SquaredL1},
	} {
		plan, err := (&Mechanism{Delta: s.Delta, Cover: 1e-11}).Plan(c.p, dp.Budget{Epsilon: 30, Delta: 1e-5})
		require.NoError(t, err)
		got, err := plan.minimize(ctx, c.p, s.B)
		require.NoError(t, err, name)
		require.InDeltaSlice(t, c.want, got, 1e-10, name)
	}
}

// White box: on smooth unconstrained problems −∇F(θ̂)−Δθ̂ is b, hence
// N(0, σ²I) (or of the Gamma-norm law), and release minus θ̂ is the output
// noise. Kolmogorov–Smirnov distances at false-reject probability 1e-6 each:
// √(ln(2/1e-6)/(2n)) by Massart's inequality. A scale that is 5 % off is seen.
func TestWhiteBoxLaws(t *testing.T) {
	const fits, d = 4000, 3
	p := &erm.Problem{Data: records(t, 20, d), Loss: loss.Logistic{}}
	limit := math.Sqrt(math.Log(2e6) / (2 * fits * d))
	for _, b := range []dp.Budget{budget, {Epsilon: 1}} {
		var tr Trace
		plan, err := (&Mechanism{Radius: 1, Trace: func(x Trace) { tr = x }}).Plan(p, b)
		require.NoError(t, err)
		src := noise.Reproducible(1, "white box")
		obj := p.Perturb(erm.Perturbation{Quad: scalar(d, plan.Delta)})
		var drawn, out []float64
		for range fits {
			rel, err := plan.Fit(ctx, p, src)
			require.NoError(t, err)
			grad := make([]float64, d)
			obj.Grad(grad, tr.Theta)
			diff := make([]float64, d)
			floats.SubTo(diff, rel.Theta, tr.Theta)
			if b.Delta == 0 { // ‖b‖ ~ Gamma(d): 2a‖b‖ ~ χ²_{2d}
				drawn = append(drawn, specfun.Chi2CDF(2*plan.Rate*floats.Norm(grad, 2), 2*d))
				out = append(out, specfun.Chi2CDF(2*plan.OutputRate*floats.Norm(diff, 2), 2*d))
				continue
			}
			for i := range grad {
				drawn = append(drawn, specfun.NormalCDF(grad[i]/plan.Sigma))
				out = append(out, specfun.NormalCDF(diff[i]/plan.OutputSigma))
			}
		}
		limit := limit
		if b.Delta == 0 {
			limit *= math.Sqrt(d)
		}
		require.Less(t, uniformDistance(drawn), limit)
		require.Less(t, uniformDistance(out), limit)
		for i, u := range drawn { // the test has power: 10 % more noise fails
			if b.Delta > 0 {
				drawn[i] = specfun.NormalCDF(specfun.NormalQuantile(u) * 1.1)
			}
		}
		if b.Delta > 0 {
			require.Greater(t, uniformDistance(drawn), limit)
		}
	}
}

// uniformDistance is the Kolmogorov–Smirnov distance of u to the uniform law.
func uniformDistance(u []float64) (dist float64) {
	u = slices.Sorted(slices.Values(u))
	n := float64(len(u))
	for i, v := range u {
		dist = max(dist, v-float64(i)/n, float64(i+1)/n-v)
	}
	return dist
}

func TestWithheld(t *testing.T) {
	p := &erm.Problem{Data: records(t, 20_000, 2), Loss: loss.Logistic{}}
	var tr Trace
	// The step from one float64 vector to the next changes the gradient by more than μR, R = 1e-14·B.
	m := &Mechanism{Delta: 1, Radius: 1, Cover: 1e-14, Trace: func(x Trace) { tr = x }}
	rel, err := m.Fit(ctx, p, dp.Budget{Epsilon: 3, Delta: 1e-5}, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.False(t, tr.Released)
	require.Greater(t, tr.Distance, 1e-14)

	// Methods that stop at once: the others go on from there.
	old := methods
	defer func() { methods = old }()
	methods = append([]release.Method{
		func(splitting.Problem, int) splitting.Method { return &lazy{} },
	}, old...)
	rel, err = (&Mechanism{Radius: 1}).Fit(ctx, p, budget, nil)
	require.NoError(t, err)
	require.NotNil(t, rel)
	methods = methods[:1]
	rel, err = (&Mechanism{Radius: 1}).Fit(ctx, p, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)

	// No method that is tried applies: a fact about the problem's form.
	methods = []release.Method{func(splitting.Problem, int) splitting.Method { return &unfit{} }}
	rel, err = (&Mechanism{Radius: 1, Trace: func(Trace) { t.Fatal("nothing was solved") }}).Fit(ctx, p, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.NotErrorIs(t, err, dp.ErrWithheld)
	require.ErrorContains(t, err, "lop: ")
}

// unfit applies to no problem.
type unfit struct{ lazy }

func (*unfit) Init(splitting.Problem, []float64, *rand.Rand) error { return splitting.ErrProblem }

// lazy claims to have converged where it starts.
type lazy struct{}

func (*lazy) Init(splitting.Problem, []float64, *rand.Rand) error { return nil }
func (*lazy) Step(loc *splitting.Location, _ *splitting.Stats)    { loc.Residual = 0 }

func TestCancellation(t *testing.T) {
	p := &erm.Problem{Data: records(t, 50, 2), Loss: loss.Logistic{}}
	stopped, stop := context.WithCancel(ctx)
	stop()
	rel, err := (&Mechanism{Radius: 1}).Fit(stopped, p, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, context.Canceled)
}

// rootNorm is ‖θ‖, not of the form φ(⟨a,θ⟩).
type rootNorm struct{ structure loss.Structure }

func (rootNorm) Func(theta, _ []float64, _ float64) float64 {
	return math.Sqrt(1 + floats.Dot(theta, theta))
}

func (rootNorm) Grad(dst, theta, _ []float64, _ float64) {
	floats.ScaleTo(dst, 1/math.Sqrt(1+floats.Dot(theta, theta)), theta)
}

func (l rootNorm) Constants(_ loss.Bounds, radius float64) loss.Constants {
	k := loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 2, Structure: l.structure}
	if math.IsInf(radius, 1) {
		k.Lipschitz = 3
	}
	return k
}

func TestRefusedFits(t *testing.T) {
	data := records(t, 30, 2)
	good := func() *erm.Problem { return &erm.Problem{Data: data, Loss: loss.Logistic{}} }
	for i, c := range []struct {
		m      Mechanism
		p      *erm.Problem
		is     error
		naming string
	}{
		{p: nil, is: erm.ErrProblem, naming: "nil"},
		{p: &erm.Problem{Data: data}, is: erm.ErrProblem, naming: "Loss"},
		{p: &erm.Problem{Loss: loss.Logistic{}}, is: erm.ErrProblem, naming: "Data"},
		{p: good(), is: ErrMechanism, naming: "Radius"},
		{m: Mechanism{Radius: 1}, p: &erm.Problem{Data: data, Loss: loss.Squared{}}, is: dp.ErrCondition, naming: "Clip"},
		{m: Mechanism{Radius: 1, Clip: 1}, p: &erm.Problem{Data: data, Loss: rootNorm{loss.General}}, is: dp.ErrCondition, naming: "Clip"},
		{m: Mechanism{Radius: 1, Monotone: true, Relation: dp.AddRemove}, p: &erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}}, is: dp.ErrCondition, naming: "Monotone"},
		{m: Mechanism{Radius: 1, Monotone: true}, p: good(), is: dp.ErrCondition, naming: "AddRemove"},
		{m: Mechanism{Radius: 1, Share: 2}, p: good(), is: ErrMechanism, naming: "Share"},
		{m: Mechanism{Radius: -1}, p: good(), is: ErrMechanism, naming: "Radius"},
		{m: Mechanism{Radius: 1}, p: &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.Box{Lo: 1, Hi: 0}}, is: erm.ErrProblem, naming: "Set"},
	} {
		rel, err := c.m.Fit(ctx, c.p, budget, nil)
		require.Nil(t, rel, "%d", i)
		require.ErrorIs(t, err, c.is, "%d", i)
		require.ErrorContains(t, err, c.naming, "%d", i)
	}
	rel, err := (&Mechanism{Radius: 1, Monotone: true, Relation: dp.AddRemove}).Fit(ctx, good(), budget, nil)
	require.NoError(t, err)
	require.Equal(t, TheoremMonotone, rel.Certificate.Theorem)
	_, err = (&Output{Records: -1}).Fit(ctx, good(), budget, nil)
	require.ErrorIs(t, err, ErrMechanism)
	_, err = (&Output{Radius: 1}).Fit(ctx, nil, budget, nil)
	require.ErrorIs(t, err, erm.ErrProblem)
	for _, plan := range []*Plan{nil, {}} {
		_, err = plan.Fit(ctx, good(), nil)
		require.ErrorIs(t, err, ErrMechanism)
	}
}

// The constants of a loss that is not of ⟨a,θ⟩ must hold on all of ℝᵈ; on the
// set alone only for output perturbation.
func TestConstantsOnTheWholeSpace(t *testing.T) {
	p := &erm.Problem{Data: records(t, 10, 3), Loss: rootNorm{loss.General}, Set: prox.L2Ball{R: 1}}
	plan, err := (&Mechanism{}).Plan(p, budget)
	require.NoError(t, err)
	require.Equal(t, 3.0, plan.Constants.Lipschitz)
	out, err := (&Output{}).Plan(p, budget)
	require.NoError(t, err)
	require.Equal(t, 1.0, out.Constants.Lipschitz)
	for _, pl := range []*Plan{plan, out} {
		_, err := pl.Fit(ctx, p, nil)
		require.NoError(t, err)
	}
}

// A plan fits only problems that it covers.
func TestPlanIsBoundToItsConstants(t *testing.T) {
	p := &erm.Problem{Data: records(t, 20, 3), Loss: loss.Logistic{}, Reg: prox.SquaredL2{Weight: 1}}
	plan, err := (&Mechanism{Radius: 1}).Plan(p, budget)
	require.NoError(t, err)
	require.Equal(t, 1.0, plan.Ridge)
	wide, err := erm.NewData([][]float64{{1, 2, 3}}, []float64{1}, loss.Bounds{Row: 2, Label: 1})
	require.NoError(t, err)
	for naming, q := range map[string]*erm.Problem{
		"Lipschitz":  {Data: wide, Loss: loss.Logistic{}, Reg: p.Reg},
		"parameters": {Data: records(t, 20, 2), Loss: loss.Logistic{}, Reg: p.Reg},
		"Ridge":      {Data: p.Data, Loss: loss.Logistic{}},
		"Smoothness": {Data: p.Data, Loss: loss.SmoothedHinge{Gamma: 0.1}, Reg: p.Reg},
		"General":    {Data: p.Data, Loss: rootGentle{}, Reg: p.Reg},
		"Loss":       {Data: p.Data},
	} {
		_, err := plan.Fit(ctx, q, nil)
		require.ErrorContains(t, err, naming)
	}
	_, err = plan.Fit(ctx, p, nil)
	require.NoError(t, err)

	// 0 means unknown, not small.
	for _, k := range []loss.Constants{{Smoothness: 1, Rank: 2, Structure: loss.General}, {Lipschitz: 1, Rank: 2, Structure: loss.General}} {
		p := &erm.Problem{Data: p.Data, Loss: rootNorm{loss.General}}
		plan, err := (&Mechanism{Radius: 1}).Plan(p, budget)
		require.NoError(t, err)
		_, err = plan.Fit(ctx, &erm.Problem{Data: p.Data, Loss: rootStates{constants: k}}, nil)
		require.ErrorContains(t, err, "known")
	}

	// A plan that relies on a fixed sign of φ′ asks every loss for it.
	mono, err := (&Mechanism{Relation: dp.AddRemove, Radius: 1, Monotone: true}).Plan(&erm.Problem{Data: p.Data, Loss: loss.SmoothedHinge{Gamma: 1}}, budget)
	require.NoError(t, err)
	_, err = mono.Fit(ctx, &erm.Problem{Data: p.Data, Loss: loss.Huber{Delta: 1}}, nil)
	require.ErrorContains(t, err, "Monotone")
}

// rootGentle has the constants of the logistic loss but no structure.
type rootGentle struct{ rootNorm }

func (rootGentle) Constants(loss.Bounds, float64) loss.Constants {
	return loss.Constants{Lipschitz: 1, Smoothness: 0.25, Rank: 2, Structure: loss.General}
}

// rootStates has any constants.
type rootStates struct {
	rootNorm
	constants loss.Constants
}

func (l rootStates) Constants(loss.Bounds, float64) loss.Constants { return l.constants }

// LOP-Clip: least squares on an unbounded domain with noise for the threshold.
func TestClip(t *testing.T) {
	p := &erm.Problem{Data: records(t, 100, 3), Loss: loss.Squared{}}
	plan, err := (&Mechanism{Radius: 1, Clip: 0.5}).Plan(p, budget)
	require.NoError(t, err)
	require.InDelta(t, 0.5, plan.Constants.Lipschitz, 1e-11)
	require.Equal(t, loss.GLM, plan.Constants.Structure)
	rel, err := plan.Fit(ctx, p, nil)
	require.NoError(t, err)
	require.Len(t, rel.Theta, 3)
	wide, err := (&Mechanism{Radius: 1, Clip: 5, Delta: plan.Delta}).Plan(p, budget)
	require.NoError(t, err)
	require.Greater(t, wide.Sigma, 9*plan.Sigma)
}

// Under Replace, R grows with n so that rounding cannot prevent a release.
func TestCoverFollowsThePublicSize(t *testing.T) {
	q := Public{Dim: 5, Constants: glm(1, 1), Radius: 1, Records: 100, Budget: budget}
	small, err := (&Mechanism{}).Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, 1e-8, small.Cover, 1e-14)
	q.Records = 1e8
	large, err := (&Mechanism{}).Calibrate(q)
	require.NoError(t, err)
	require.Greater(t, large.Cover, 1e-6)
	private, err := (&Mechanism{Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, 1e-8, private.Cover, 1e-14)
}

func BenchmarkFit(b *testing.B) {
	const n, d = 300, 100
	for _, p := range []*erm.Problem{
		{Data: records(b, n, d), Loss: loss.Squared{}, Reg: prox.L1{Weight: 1}, Set: prox.Box{Lo: -1, Hi: 1}},
		{Data: records(b, n, d), Loss: loss.Logistic{}, Set: prox.Box{Lo: -1, Hi: 1}},
	} {
		b.Run(fmt.Sprintf("loss=%T/n=%d/d=%d", p.Loss, n, d), func(b *testing.B) {
			plan, err := (&Mechanism{}).Plan(p, dp.Budget{Epsilon: 0.5, Delta: 0.01})
			require.NoError(b, err)
			src := noise.Reproducible(1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := plan.Fit(ctx, p, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
