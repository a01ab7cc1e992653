// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

var budget = dp.Budget{Epsilon: 1, Delta: 1e-4}

// planted returns n rows of norm at most 1 with labels ⟨a, center⟩ and a
// regularized problem in a box that excludes the center.
func planted(t testing.TB, n, d int, l loss.Loss) (*erm.Problem, []float64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	center := make([]float64, d)
	for i := range center {
		center[i] = rnd.NormFloat64()
	}
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64() / math.Sqrt(float64(d))
			labels[i] += rows[i][j] * center[j]
		}
		if s := norm(rows[i]); s > 1 { // the data would shorten the row but not the label
			for j := range rows[i] {
				rows[i][j] /= s * (1 + 1e-12)
			}
			labels[i] /= s * (1 + 1e-12)
		}
	}
	bounds := loss.Bounds{Row: 1, Label: 20}
	if loss.CheckData(l, d, bounds) != nil { // a loss of classes
		bounds.Label = 1
	}
	data, err := erm.NewData(rows, labels, bounds)
	require.NoError(t, err)
	return &erm.Problem{Data: data, Loss: l, Reg: prox.L1{Weight: 0.1}, Set: prox.Box{Lo: -0.5, Hi: 0.5}}, center
}

// TestFitWhiteBox recovers the noise in one dimension: with r(θ) = (λ/2)θ² and all
// records interpolating at θ̃ = 1, the minimizer has
//
//	−(F′(θ̂) + λθ̂)/(σ²(θ̂ − θ̃)) = W ~ χ²_m.
//
// The Kolmogorov distance of 4000 draws exceeds 0.0427 with probability at most
// 2·exp(−2·4000·0.0427²) = 1e-6. Half the degrees of freedom must be seen.
func TestFitWhiteBox(t *testing.T) {
	const draws, a, lambda, n = 4000, 0.5, 2.0, 5
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i], labels[i] = []float64{a}, 7 // relabelled
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 10})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Squared{}, Reg: prox.SquaredL2{Weight: lambda}}
	var found []float64
	m := &Mechanism{Center: []float64{1}, Interpolation: Relabel{}, Trace: func(tr erm.Trace) {
		require.LessOrEqual(t, tr.Distance, 1e-8)
		x := tr.Theta[0]
		found = append(found, (n*a*a*(x-1)+lambda*x)/(1-x))
	}}
	plan, err := m.Plan(p, budget)
	require.NoError(t, err)
	par := plan.Params()
	src := noise.Reproducible(5)
	for range draws {
		_, err := plan.Fit(t.Context(), p, src)
		require.NoError(t, err)
	}
	distance := func(dof float64) float64 {
		slices.Sort(found)
		worst := 0.0
		for i, v := range found {
			f := num.Chi2CDF(v/par.Sigma2, dof)
			worst = math.Max(worst, math.Max(math.Abs(f-float64(i)/draws), math.Abs(f-float64(i+1)/draws)))
		}
		return worst
	}
	require.Less(t, distance(par.Degrees), 0.0427)
	require.Greater(t, distance(par.Degrees/2), 0.0427)
	require.Greater(t, distance(par.Degrees-2), 0.0427)
}

// TestFit: every loss and rule that go together is released on the grid, inside its set, at the
// claimed budget, from a point within R of an independent solution.
func TestFit(t *testing.T) {
	for name, l := range map[string]loss.Loss{
		"squared": loss.Squared{}, "huber": loss.Huber{Delta: 0.5}, "smoothed hinge": loss.SmoothedHinge{Gamma: 0.5},
		"general": nil,
	} {
		for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 0.5}, Trust{}} {
			for _, relation := range []dp.Relation{0, dp.AddRemove} {
				for _, kind := range []string{"ℓ1 box", "groups", "bare"} {
					p, center := planted(t, 60, 3, l)
					p.Records = 60
					m := &Mechanism{Center: center, Interpolation: rule, Relation: relation, Radius: 1}
					switch { // calibrations of other losses take seconds
					case name == "squared" && kind != "ℓ1 box" && (rule != Relabel{} || relation != 0) && !testkit.Deep():
						continue
					case name == "squared":
					case name == "smoothed hinge" && !testkit.Long(), name == "huber" && rule != (Trust{}) && !testkit.Long():
						continue
					case name == "general" && (kind != "groups" || relation != 0), name != "general" && kind != "ℓ1 box",
						rule != (Trust{}) &&
							name == "general",
						relation == 0 && rule != (Trust{}):
						continue
					}
					switch kind {
					case "groups":
						p.Reg, p.Set = prox.GroupL2{Groups: [][]int{{0, 1}, {2}}, Weight: 0.1}, nil
					case "bare":
						p.Reg, p.Set = nil, nil
					}
					if l == nil {
						p.Loss = bowl{center}
					}
					fit(t, m, p, name)
				}
			}
		}
	}
}

func fit(t *testing.T, m *Mechanism, p *erm.Problem, name string) {
	t.Helper()
	ctx := t.Context()
	var traces []erm.Trace
	m.Trace = func(tr erm.Trace) { traces = append(traces, tr) }
	plan, err := m.Plan(p, budget)
	require.NoError(t, err, name)
	par := plan.Params()
	consistent(t, par, name)

	var drawn erm.Perturbation
	var k, nu []int64
	watched := fault.With(draws(ctx, &drawn), release.Rounded, func(v []int64) []int64 { k = slices.Clone(v); return v })
	watched = fault.With(watched, release.OutputNoise, func(v []int64) []int64 { nu = slices.Clone(v); return v })
	var data *erm.Problem
	watched = fault.With(watched, release.Data, func(q *erm.Problem) *erm.Problem { data = q; return q })
	one, err := plan.Fit(watched, p, noise.Reproducible(7, name))
	require.NoError(t, err, name)
	if par.Theorem != theoremJoint { // whose calibration takes a second
		two, err := m.Fit(ctx, p, budget, noise.Reproducible(7, name))
		require.NoError(t, err)
		require.Equal(t, one, two, "equal seeds, equal results")
	}
	secure, err := plan.Fit(ctx, p, nil)
	require.NoError(t, err)
	if p.Set == nil {
		require.NotEqual(t, one.Theta, secure.Theta)
	}
	require.Equal(t, plan.Certificate(), secure.Certificate)
	require.Equal(t, append(plan.Certificate().Assumptions, dp.CallerSource), one.Certificate.Assumptions)
	require.NoError(t, one.Certificate.Check())
	require.Equal(t, budget, one.Certificate.Budget)
	require.Equal(t, par.Theorem, one.Certificate.Theorem)
	require.Equal(t, m.Interpolation == Trust{}, slices.Contains(one.Certificate.Assumptions, AnchorExact))

	// The release is P_C(g(k + ν)), k = round(θ̂/g), to the bit.
	want := make([]float64, par.Dim)
	for i := range want {
		want[i] = par.Grid * float64(k[i]+nu[i])
	}
	if p.Set != nil {
		p.Set.Prox(want, want, 1)
	}
	require.Equal(t, want, one.Theta)

	// θ̂ is within R of an independent solution of the problem that the rule made.
	tr := traces[0]
	require.LessOrEqual(t, tr.Distance, par.Cover)
	for i, v := range tr.Theta {
		require.InDelta(t, v/par.Grid, float64(k[i]), 0.5+1e-6*math.Abs(v/par.Grid))
	}
	require.LessOrEqual(t, floats.Distance(minimizer(t, data, drawn), tr.Theta, 2), 1.1e-7+par.Cover)
}

// draws copies what a fit draws, which is erased after it.
func draws(ctx context.Context, drawn *erm.Perturbation) context.Context {
	return fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		*drawn = q
		w := mat.NewSymDense(len(q.Center), nil)
		w.CopySym(q.Quad)
		drawn.Quad = w
		return q
	})
}

// minimizer returns that of the perturbed problem within 1e-7, by a method that no release uses.
func minimizer(t *testing.T, p *erm.Problem, drawn erm.Perturbation) []float64 {
	t.Helper()
	q := splitting.Problem{F: p.Perturb(drawn), G: p.Reg}
	if p.Set != nil {
		q.H = p.Set
	}
	res, err := splitting.Solve(t.Context(), q, make([]float64, len(drawn.Center)),
		&splitting.Settings{Tolerance: 1e-7 * drawn.MinEig},
		&splitting.DavisYin{})
	require.NoError(t, err)
	return res.X
}

// bowl is (‖a‖²/2)‖θ − center‖², a loss that is not a function of ⟨a,θ⟩.
type bowl struct{ center []float64 }

func (l bowl) Func(theta, a []float64, _ float64) float64 {
	s := norm(a) * floats.Distance(theta, l.center, 2)
	return s * s / 2
}

func (l bowl) Grad(dst, theta, a []float64, _ float64) {
	floats.SubTo(dst, theta, l.center)
	floats.Scale(floats.Dot(a, a), dst)
}

func (l bowl) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Constants{Lipschitz: b.Row * b.Row * (radius + norm(l.center)), Smoothness: b.Row * b.Row,
		Rank:      len(l.center),
		Structure: loss.General}
}

// TestFitOutputNoise: with r = 0, C = ℝᵈ and exact interpolation the minimizer is
// the anchor, so the release is the anchor plus N(0, σ̃²I). The variance of 4000
// coordinates is χ²; 1e-6 two-sided.
func TestFitOutputNoise(t *testing.T) {
	const d, draws = 4, 1000
	p, center := planted(t, 30, d, loss.Squared{})
	p.Reg, p.Set = nil, nil
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}, Cover: 1e-3}).Plan(p, budget)
	require.NoError(t, err)
	par := plan.Params()
	src := noise.Reproducible(3)
	sum := 0.0
	for range draws {
		rel, err := plan.Fit(t.Context(), p, src)
		require.NoError(t, err)
		for i, v := range rel.Theta {
			sum += square((v - center[i]) / par.OutputSigma)
		}
	}
	require.Greater(t, sum, num.Chi2Quantile(math.Log(5e-7), d*draws))
	require.Less(t, sum, num.Chi2UpperQuantile(math.Log(5e-7), d*draws))
}

// TestFitWithin: an anchor off by less than Eta costs output noise; the solver still comes
// within R_s, not within R = R_s + η√(b/α).
func TestFitWithin(t *testing.T) {
	p, center := planted(t, 60, 3, loss.Squared{})
	center[0] += 0.009
	var trace erm.Trace
	m := &Mechanism{Center: center, Interpolation: Trust{}, Eta: 0.01, Trace: func(tr erm.Trace) { trace = tr }}
	plan, err := m.Plan(p, budget)
	require.NoError(t, err)
	par := plan.Params()
	consistent(t, par, "η")
	require.Greater(t, par.Reach, 1e3*par.Cover)
	ctx := fault.With(t.Context(), fault.Stage, func(int) int { return 2 }) // descent alone
	rel, err := plan.Fit(ctx, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.LessOrEqual(t, trace.Distance, par.Cover)
	require.Contains(t, rel.Certificate.Assumptions, AnchorWithin)
	require.NotContains(t, rel.Certificate.Assumptions, AnchorExact)
}

// TestEvent: a matrix outside the bounds that Cover was fixed for, or next to singular, gives noise
// around P_C(θ̃) and no error, whatever the records; inside, the solver runs.
func TestEvent(t *testing.T) {
	for i, source := range []rand.Source{stuck(0), stuck(math.MaxUint64)} {
		p, center := planted(t, 20, 3, loss.Squared{})
		plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(p, budget)
		require.NoError(t, err)
		_, err = plan.Fit(t.Context(), p, source)
		require.ErrorIs(t, err, noise.ErrSource, i)
	}
	p, center := planted(t, 20, 3, loss.Squared{})
	for _, c := range []struct {
		edit func(p *Params, per *erm.PublicPerturbation)
		ok   bool
	}{
		{func(*Params, *erm.PublicPerturbation) {}, true},
		{func(_ *Params, per *erm.PublicPerturbation) { per.MinEig = per.MaxEig }, false},
		{func(_ *Params, per *erm.PublicPerturbation) { per.MaxEig = per.MinEig }, false},
		{func(p *Params, _ *erm.PublicPerturbation) { p.Sigma2 *= 1e6 }, false},
		{func(p *Params, _ *erm.PublicPerturbation) { p.Sigma2 /= 1e6 }, false},
	} {
		traces := 0
		plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}, Trace: func(erm.Trace) { traces++ }}).Plan(p,
			budget)
		require.NoError(t, err)
		c.edit(&plan.params, &plan.per)
		var k []int64
		ctx := fault.With(t.Context(), release.Rounded, func(v []int64) []int64 { k = slices.Clone(v); return v })
		_, err = plan.Fit(ctx, p, noise.Reproducible(1))
		require.NoError(t, err)
		require.Equal(t, c.ok, traces == 1)
		if !c.ok {
			want := make([]float64, 3)
			p.Set.Prox(want, center, 1)
			for i, v := range want {
				require.Equal(t, int64(math.RoundToEven(v/plan.Params().Grid)), k[i])
			}
		}
	}
}

type stuck uint64

func (s stuck) Uint64() uint64 { return uint64(s) }

// TestFitEndsEarly: cancellation ends a fit with the error of the context.
func TestFitEndsEarly(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rel, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Fit(ctx, p, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, context.Canceled)
}

// TestNothingIsWithheld: whatever the solver does, a release follows: here its methods are skipped
// and refinement or descent ends within R.
func TestNothingIsWithheld(t *testing.T) {
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.5}} {
		p, center := planted(t, 60, 3, l)
		var tr erm.Trace
		plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}, Trace: func(t erm.Trace) { tr = t }}).Plan(p,
			budget)
		require.NoError(t, err)
		for stage := range 3 {
			ctx := fault.With(t.Context(), fault.Stage, func(int) int { return stage })
			tr = erm.Trace{}
			_, err = plan.Fit(ctx, p, nil)
			require.NoError(t, err)
			require.LessOrEqual(t, tr.Distance, plan.Params().Cover, "%T %d", l, stage)
		}
	}
}

// TestConcurrentFits: one plan serves many fits at once, and keeps no slice of the caller.
func TestConcurrentFits(t *testing.T) {
	p, center := planted(t, 40, 3, loss.Squared{})
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(p, budget)
	require.NoError(t, err)
	center[0] = math.NaN() // the plan keeps no caller's slice
	var wg sync.WaitGroup
	out := make([]*dp.Release, 8)
	for i := range out {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i], _ = plan.Fit(t.Context(), p, noise.Reproducible(uint64(i%2)))
		}()
	}
	wg.Wait()
	for i, r := range out {
		require.NotNil(t, r)
		require.Equal(t, out[i%2].Theta, r.Theta)
	}
}

// TestReleaseIgnoresOrder: for every rule, orders of the records and numbers of
// processors give the same released bits.
func TestReleaseIgnoresOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.3}} {
		for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 0.5}, Trust{}} {
			p, center := planted(t, 60, 3, l)
			rows, labels := make([][]float64, 60), make([]float64, 60)
			for i := range rows {
				rows[i], labels[i] = p.Data.Row(i), p.Data.Label(i)
			}
			rows[1], rows[2], labels[1] = rows[0], rows[0], labels[0] // ties
			var want []float64
			rnd := rand.New(rand.NewPCG(51, 0))
			plan, err := (&Mechanism{Center: center, Interpolation: rule, Relation: dp.AddRemove}).Plan(p, budget)
			require.NoError(t, err)
			for k := range 12 {
				runtime.GOMAXPROCS(1 + k%4)
				q := *p
				var err error
				q.Data, err = erm.NewData(rows, labels, p.Data.Bounds())
				require.NoError(t, err)
				rel, err := plan.Fit(t.Context(), &q, noise.Reproducible(7))
				require.NoError(t, err)
				if k == 0 {
					want = rel.Theta
				}
				require.Equal(t, want, rel.Theta, "%T %T order %d", l, rule, k)
				rnd.Shuffle(60, func(i, j int) {
					rows[i], rows[j] = rows[j], rows[i]
					labels[i], labels[j] = labels[j], labels[i]
				})
			}
		}
	}
}

// TestNothingPrintsNoise: fits with a trace, releases, plans and sources are printed in every way
// there is, no entry of W or of ν is found in what they show, and W is erased.
func TestNothingPrintsNoise(t *testing.T) {
	var log strings.Builder
	show := func(v any) { log.WriteString(testkit.Everything(v)) }
	p, center := planted(t, 30, 3, loss.Squared{})
	plan, err := (&Mechanism{Center: center, Interpolation: Trust{},
		Trace: func(tr erm.Trace) { show(tr.Iterations) }}).Plan(p, budget)
	require.NoError(t, err)
	var s testkit.Spy
	var w mat.Matrix
	ctx := fault.With(t.Context(), release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		w = q.Quad
		for i := range 3 {
			for j := range i + 1 {
				s.See(w.At(i, j))
			}
		}
		return q
	})
	src := noise.Reproducible(62)
	for range 5 {
		rel, err := plan.Fit(ctx, p, src)
		require.NoError(t, err)
		show(rel)
		show(plan.Params())
		show(fmt.Sprintf("%v %+v %#v", plan, plan, plan))
		show(p)
		show(src)
	}
	require.Equal(t, 30, s.Len())
	value, form, found := s.Find(log.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
	require.True(t, mat.Equal(mat.NewSymDense(3, nil), w))
}

var _ dp.Plan = (*Plan)(nil)
