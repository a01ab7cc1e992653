package qop

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
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
	m := &Mechanism{Center: []float64{1}, Interpolation: Relabel{}, Trace: func(tr Trace) {
		require.LessOrEqual(t, tr.Distance, 1e-8)
		x := tr.Theta[0]
		found = append(found, (n*a*a*(x-1)+lambda*x)/(1-x))
	}}
	plan, err := m.Plan(p, budget)
	require.NoError(t, err)
	src := noise.Reproducible(5)
	for range draws {
		_, err := plan.Fit(context.Background(), p, src)
		require.NoError(t, err)
	}
	distance := func(dof float64) float64 {
		slices.Sort(found)
		worst := 0.0
		for i, v := range found {
			f := specfun.Chi2CDF(v/plan.Sigma2, dof)
			worst = math.Max(worst, math.Max(math.Abs(f-float64(i)/draws), math.Abs(f-float64(i+1)/draws)))
		}
		return worst
	}
	require.Less(t, distance(plan.M), 0.0427)
	require.Greater(t, distance(plan.M/2), 0.0427)
	require.Greater(t, distance(plan.M-2), 0.0427)
}

// TestFit runs every loss and rule that go together and recomputes what the
// certificate says.
func TestFit(t *testing.T) {
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.5}, loss.SmoothedHinge{Gamma: 0.5}} {
		for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 0.5}, Trust{}} {
			for _, relation := range []dp.Relation{0, dp.AddRemove} {
				p, center := planted(t, 60, 4, l)
				var trace Trace
				m := &Mechanism{Center: center, Interpolation: rule, Relation: relation, Trace: func(tr Trace) { trace = tr }}
				rel, err := m.Fit(context.Background(), p, budget, noise.Reproducible(1))
				require.NoError(t, err)
				require.True(t, trace.Released)
				require.Positive(t, trace.Iterations)
				require.Equal(t, trace.Gap, trace.Residual*trace.Distance/2)
				require.False(t, math.IsNaN(trace.Objective))
				require.Zero(t, p.Set.Func(rel.Theta))
				cert := rel.Certificate
				require.NoError(t, cert.Check())
				require.Equal(t, budget, cert.Budget)
				theorem := TheoremGLM
				switch {
				case l == loss.Loss(loss.Squared{}):
					theorem = TheoremLSQ
				case relation != dp.AddRemove:
					theorem = TheoremJoint
				}
				require.Equal(t, theorem, cert.Theorem)
				require.Equal(t, relation == dp.AddRemove, cert.Relation == dp.AddRemove)
				require.Contains(t, cert.Assumptions, dp.CallerSource)
				require.Contains(t, cert.Assumptions, dp.RealArithmetic)
				_, trusts := rule.(Trust)
				require.Equal(t, trusts, slices.Contains(cert.Assumptions, AnchorExact))

				// Equal sources, equal bits; another source, another release.
				again, err := m.Fit(context.Background(), p, budget, noise.Reproducible(1))
				require.NoError(t, err)
				require.Equal(t, rel, again)
				other, err := m.Fit(context.Background(), p, budget, nil)
				require.NoError(t, err)
				require.NotEqual(t, rel.Theta, other.Theta)
				require.NotContains(t, other.Certificate.Assumptions, dp.CallerSource)
			}
		}
	}
}

// TestFitOutputNoise: with r = 0, C = ℝᵈ and exact interpolation the minimizer is
// the anchor, so the release is the anchor plus N(0, σ̃²I). The variance of 4000
// coordinates is χ²; 1e-6 two-sided.
func TestFitOutputNoise(t *testing.T) {
	const d, draws = 4, 1000
	p, center := planted(t, 30, d, loss.Squared{})
	p.Reg, p.Set = nil, nil
	m := &Mechanism{Center: center, Interpolation: Relabel{}, Cover: 1e-3}
	plan, err := m.Plan(p, budget)
	require.NoError(t, err)
	want, err := dp.GaussianSigma(plan.Output, 2*plan.Cover)
	require.NoError(t, err)
	require.Equal(t, want, plan.OutputSigma)
	src := noise.Reproducible(3)
	sum := 0.0
	for range draws {
		rel, err := plan.Fit(context.Background(), p, src)
		require.NoError(t, err)
		for i, v := range rel.Theta {
			sum += square((v - center[i]) / plan.OutputSigma)
		}
	}
	require.Greater(t, sum, specfun.Chi2Quantile(math.Log(5e-7), d*draws))
	require.Less(t, sum, specfun.Chi2UpperQuantile(math.Log(5e-7), d*draws))
}

// TestRules checks what each rule makes of each kind of record.
func TestRules(t *testing.T) {
	data, err := erm.NewData([][]float64{{1, 0}, {0, 1}, {0.5, 0.5}, {1, 0}}, []float64{2, 0, 1.4, 0.1}, loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	center := []float64{2, 3} // predictions 2, 3 (beyond the bound on labels), 2.5 (too), 2
	type pair [2]float64      // norm and label: Data keeps an order of its own
	labels := func(rule Interpolation, l loss.Loss, center []float64) (out []pair) {
		d := rule.apply(data, l, center)
		n, _ := d.Dims()
		require.Equal(t, 4, n)
		for i := range n {
			out = append(out, pair{norm(d.Row(i)), d.Label(i)})
		}
		return out
	}
	half := math.Sqrt(0.5)
	require.ElementsMatch(t, []pair{{1, 2}, {0, 0}, {0, 0}, {1, 2}}, labels(Relabel{}, loss.Squared{}, center))
	require.ElementsMatch(t, []pair{{1, 2}, {0, 0}, {0, 0}, {0, 0}}, labels(Drop{Tolerance: 0.2}, loss.Squared{}, center))
	require.ElementsMatch(t, []pair{{1, 2}, {1, 0}, {half, 1.4}, {1, 0.1}}, labels(Trust{}, loss.Squared{}, center))
	close := []float64{1, 0.5} // predictions 1, 0.5, 0.75, 1
	require.ElementsMatch(t, []pair{{1, 1}, {1, 0.5}, {half, 0.75}, {1, 1}}, labels(Relabel{}, loss.Huber{Delta: 1}, close))
	require.ElementsMatch(t, []pair{{0, 0}, {1, 0.5}, {half, 0.75}, {0, 0}}, labels(Drop{Tolerance: 0.7}, loss.Huber{Delta: 1}, close))

	// After either rule every gradient vanishes at the anchor.
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Float64Range(-1, 1), 3, 3).Draw(t, "a")
		c := rapid.SliceOfN(rapid.Float64Range(-5, 5), 3, 3).Draw(t, "center")
		b := rapid.Float64Range(-9, 9).Draw(t, "b")
		d, err := erm.NewData([][]float64{a}, []float64{b}, loss.Bounds{Row: 1, Label: 4})
		require.NoError(t, err)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.3}, loss.SmoothedHinge{Gamma: 0.5}} {
			for _, rule := range []Interpolation{Relabel{}, Drop{Tolerance: 1}} {
				e := rule.apply(d, l, c)
				g := make([]float64, 3)
				l.Grad(g, c, e.Row(0), e.Label(0))
				require.LessOrEqual(t, norm(g), 1e-14)
			}
		}
	})
}

// TestForeignRecord is the attack that interpolation must stop: one record that
// the anchor does not fit. Under Relabel the release with the same noise does
// not see its label at all; under Trust it moves.
func TestForeignRecord(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	foreign := func(label float64) *erm.Problem {
		q := *p
		i := -1
		q.Data = p.Data.Map(func(_ []float64, b float64) (float64, bool) {
			if i++; i == 0 {
				b = label
			}
			return b, true
		})
		return &q
	}
	release := func(rule Interpolation, label float64) []float64 {
		m := &Mechanism{Center: center, Interpolation: rule}
		rel, err := m.Fit(context.Background(), foreign(label), budget, noise.Reproducible(9))
		require.NoError(t, err)
		return rel.Theta
	}
	require.Equal(t, release(Relabel{}, 20), release(Relabel{}, -20))
	require.NotEqual(t, release(Trust{}, 20), release(Trust{}, -20))
}

// stubborn is a set whose certificate never holds.
type stubborn struct{ prox.Box }

func (stubborn) Dist(_, _ []float64) float64 { return 1 }
func (stubborn) Coordinate(int) (l1, l2, lo, hi float64) {
	return 0, 0, -1, 1
}

// TestWithheld: without a certificate nothing is released, the trace says so,
// and the error names no private number.
func TestWithheld(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	p.Reg, p.Set = nil, stubborn{prox.Box{Lo: -1, Hi: 1}}
	var trace Trace
	m := &Mechanism{Center: center, Interpolation: Relabel{}, Trace: func(tr Trace) { trace = tr }}
	rel, err := m.Fit(context.Background(), p, budget, noise.Reproducible(1))
	require.Nil(t, rel)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.Contains(t, err.Error(), "Cover")
	require.False(t, trace.Released)
	require.Greater(t, trace.Distance, m.Cover)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, center = planted(t, 20, 3, loss.Squared{})
	rel, err = (&Mechanism{Center: center, Interpolation: Relabel{}}).Fit(ctx, p, budget, nil)
	require.Nil(t, rel)
	require.ErrorIs(t, err, context.Canceled)
}

// exhausted fails after a few words.
type exhausted struct{}

func (exhausted) Uint64() uint64 { return 0 }

// TestNearlySingular: a source that makes W nearly singular or singular must
// end in a release or in ErrWithheld, never in a panic or NaN.
func TestNearlySingular(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	rel, err := (&Mechanism{Center: center, Interpolation: Relabel{}, M: 4}).Fit(context.Background(), p, budget, exhausted{})
	if err != nil {
		require.ErrorIs(t, err, dp.ErrWithheld)
		require.Nil(t, rel)
		return
	}
	for _, v := range rel.Theta {
		require.False(t, math.IsNaN(v))
	}
}

func TestConcurrentFits(t *testing.T) {
	p, center := planted(t, 40, 3, loss.Huber{Delta: 1})
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(p, budget)
	require.NoError(t, err)
	center[0] = math.NaN() // the plan keeps no caller's slice
	var wg sync.WaitGroup
	out := make([]*dp.Release, 8)
	for i := range out {
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i], _ = plan.Fit(context.Background(), p, noise.Reproducible(uint64(i%2)))
		}()
	}
	wg.Wait()
	for i, r := range out {
		require.NotNil(t, r)
		require.Equal(t, out[i%2].Theta, r.Theta)
	}
}

// TestAdmit: a plan refuses problems that it was not made for.
func TestAdmit(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Huber{Delta: 1})
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(p, budget)
	require.NoError(t, err)
	fit := func(pl *Plan, p *erm.Problem) error {
		rel, err := pl.Fit(context.Background(), p, noise.Reproducible(1))
		if err != nil {
			require.Nil(t, rel)
		}
		return err
	}
	require.NoError(t, fit(plan, p))
	q := *p
	q.Loss = loss.Squared{} // least squares is a generalized linear loss
	require.NoError(t, fit(plan, &q))

	lsq, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(&q, budget)
	require.NoError(t, err)
	require.ErrorIs(t, fit(lsq, p), ErrMechanism)

	wide, err := erm.NewData([][]float64{{1, 0, 0}}, []float64{1}, loss.Bounds{Row: 2, Label: 1})
	require.NoError(t, err)
	require.ErrorIs(t, fit(plan, &erm.Problem{Data: wide, Loss: p.Loss}), ErrMechanism)
	flat, err := erm.NewData([][]float64{{1, 0}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	require.ErrorIs(t, fit(plan, &erm.Problem{Data: flat, Loss: p.Loss}), ErrMechanism)
	require.ErrorIs(t, fit(plan, &erm.Problem{}), erm.ErrProblem)
	require.ErrorIs(t, fit(&Plan{}, p), ErrMechanism)
	require.ErrorIs(t, fit(nil, p), ErrMechanism)
	classes, _ := planted(t, 20, 3, loss.Logistic{})
	smooth := *classes
	smooth.Loss = loss.Huber{Delta: 1}
	unit, err := (&Mechanism{Center: center, Interpolation: Relabel{}}).Plan(&smooth, budget)
	require.NoError(t, err)
	require.ErrorIs(t, fit(unit, classes), dp.ErrCondition)

	// In one dimension every smooth loss may take the place of another.
	line, err := erm.NewData([][]float64{{1}}, []float64{1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	one := &erm.Problem{Data: line, Loss: loss.Squared{}, Set: prox.Box{Lo: -1, Hi: 1}}
	lsq, err = (&Mechanism{Center: []float64{2}, Interpolation: Trust{}}).Plan(one, budget)
	require.NoError(t, err)
	require.ErrorIs(t, fit(lsq, &erm.Problem{Data: line, Loss: loss.Huber{Delta: 1}}), ErrMechanism)
}

// TestSingular: where W cannot be certified positive definite the trace knows
// no distance, and nothing is released.
func TestSingular(t *testing.T) {
	p, center := planted(t, 20, 3, loss.Squared{})
	var trace Trace
	plan, err := (&Mechanism{Center: center, Interpolation: Relabel{}, Trace: func(tr Trace) { trace = tr }}).Plan(p, budget)
	require.NoError(t, err)
	for _, w := range []*mat.SymDense{mat.NewSymDense(3, nil), mat.NewSymDense(3, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1e-300})} {
		theta, err := plan.minimize(context.Background(), p, w)
		require.Nil(t, theta)
		require.ErrorIs(t, err, dp.ErrWithheld)
		require.True(t, math.IsInf(trace.Distance, 1))
		require.True(t, math.IsInf(trace.Gap, 1))
		require.False(t, trace.Released)
	}
}

// TestCoverOfManyRecords: R_s grows with a public n where rounding needs it, not
// with a private one, and never where the caller fixed it.
func TestCoverOfManyRecords(t *testing.T) {
	q := public(10, loss.LSQ, 1, 1e-5)
	q.Radius = 1
	few, err := (&Mechanism{}).Calibrate(q)
	require.NoError(t, err)
	q.Records = 1e8
	many, err := (&Mechanism{}).Calibrate(q)
	require.NoError(t, err)
	require.Greater(t, many.Cover, 10*few.Cover)
	require.Equal(t, few.Sigma2, many.Sigma2)
	private, err := (&Mechanism{Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, few.Cover, private.Cover)
	fixed, err := (&Mechanism{Cover: 1e-7}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 1e-7, fixed.Cover)
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
	return loss.Constants{Lipschitz: b.Row * b.Row * (radius + norm(l.center)), Smoothness: b.Row * b.Row, Rank: len(l.center), Structure: loss.General}
}

// TestFitGeneralLoss: a loss without a Hessian is solved by a method that
// needs none, whatever the regularizer.
func TestFitGeneralLoss(t *testing.T) {
	p, center := planted(t, 20, 3, nil)
	p.Loss = bowl{center}
	for _, reg := range []prox.Operator{nil, prox.L1{Weight: 0.1}, prox.GroupL2{Groups: [][]int{{0, 1}, {2}}, Weight: 0.1}} {
		p.Reg = reg
		p.Set = nil
		rel, err := (&Mechanism{Center: center, Interpolation: Trust{}, Radius: 1}).Fit(context.Background(), p, budget, noise.Reproducible(1))
		require.NoError(t, err, "%T", reg)
		require.Equal(t, TheoremTilt, rel.Certificate.Theorem)
	}
}
