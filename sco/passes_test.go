// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// TestPassFormulas: step, noise and bound of the permutation methods.
func TestPassFormulas(t *testing.T) {
	q, budget := declared(300, 4, 0.8, 1e-6, 1.5, 0.4, 2)
	q.ProxFactor, q.ProxScale = 320, 0.5
	unit, err := dp.GaussianSigma(budget, 1)
	require.NoError(t, err)
	// hides checks S′, the grid and σ of a phase, ρ = 2.
	hides := func(ph Phase, steps, batch float64) {
		const u = 0x1p-53
		e := u * (math.Max(64*(4+batch), 19*(4+batch)+320)*ph.StepSize*(1.5+0.4*2) + (16+320)*2 + 320*0.5)
		moved := ph.Sensitivity*(1+4*steps*u) + 2*steps*e + 4*u*2*(steps+1)
		require.Equal(t, math.Exp2(math.Max(math.Floor(math.Log2(moved/2))-20, -48)), ph.Grid)
		require.InEpsilon(t, moved+2*ph.Grid, ph.Hidden, 1e-11)
		require.GreaterOrEqual(t, ph.Hidden, moved+2*ph.Grid)
		require.GreaterOrEqual(t, ph.Sigma, unit*ph.Hidden)
		require.InEpsilon(t, unit*ph.Hidden, ph.Sigma, 2e-9)
		require.Equal(t, 2., ph.Reach)
	}
	for _, c := range []PermutationSGD{{}, {Passes: 3, Batch: 7}, {Batch: 7}, {Batch: 300}, {StepSize: 0.3}} {
		pl, err := c.Calibrate(q, budget)
		require.NoError(t, err)
		k, b := math.Max(1, float64(c.Passes)), math.Max(1, float64(c.Batch))
		require.Equal(t, int(k), pl.Params().Passes)
		require.Equal(t, b, pl.Params().Batch)
		steps := math.Floor(300 / b)
		v := 1.5*1.5 + 2*1.5*2*k*1.5/b*unit*2 // L² + 2Lσ√d/η
		eta := math.Min(2/math.Sqrt(steps*v), 2/0.4)
		if c.StepSize > 0 {
			eta = c.StepSize
		}
		ph := pl.Params().Phases[0]
		require.InEpsilon(t, eta, ph.StepSize, 2e-9)
		require.InEpsilon(t, 2*k*1.5*eta/b, ph.Sensitivity, 2e-9)
		hides(ph, k*steps, b)
		require.Equal(t, 300, ph.Records)
		if k > 1 {
			require.True(t, math.IsInf(pl.Params().ExcessBound, 1))
		} else {
			require.InEpsilon(t, 4/(2*ph.StepSize*steps)+ph.StepSize*1.5*1.5/2+1.5*(ph.Sigma*2+ph.Hidden-ph.Sensitivity),
				pl.Params().ExcessBound,
				1e-12)
		}
	}
	steep := q
	steep.OnSet.Smoothness = 1e4
	pl, err := (&PermutationSGD{}).Calibrate(steep, budget)
	require.NoError(t, err)
	require.InEpsilon(t, 2e-4, pl.Params().Phases[0].StepSize, 1e-12)

	for n, sizes := range map[int][]int{1: {1}, 2: {2}, 3: {3}, 4: {3, 1}, 300: {154, 75, 37, 18, 9, 4, 2, 1}} {
		for _, step := range []float64{0, 0.3} {
			q.Records = n
			pl, err := (&Phased{StepSize: step}).Calibrate(q, budget)
			require.NoError(t, err)
			require.Len(t, pl.Params().Phases, len(sizes))
			eta := pl.Params().Phases[0].StepSize * 4
			bound := 4 / (2 * pl.Params().Phases[0].StepSize * float64(sizes[0]))
			for i, ph := range pl.Params().Phases {
				require.Equal(t, sizes[i], ph.Records)
				require.InEpsilon(t, eta*math.Pow(4, -float64(i+1)), ph.StepSize, 1e-13)
				require.InEpsilon(t, 3*ph.StepSize, ph.Sensitivity, 1e-13)
				hides(ph, float64(ph.Records), 1)
				bound += ph.StepSize*1.5*1.5/2 + 1.5*(ph.Hidden-ph.Sensitivity)
				if i > 0 {
					last := pl.Params().Phases[i-1]
					bound += (4*square(last.Sigma) + square(last.Hidden-last.Sensitivity)) / (2 * ph.StepSize * float64(ph.Records))
				}
			}
			bound += 1.5 * pl.Params().Phases[len(sizes)-1].Sigma * 2
			require.InEpsilon(t, bound, pl.Params().ExcessBound, 1e-12)
			if step > 0 {
				require.InEpsilon(t, step, eta, 1e-13)
				continue
			}
			for _, f := range []float64{0.97, 1.03} { // no step is better
				other, err := (&Phased{StepSize: f * eta}).Calibrate(q, budget)
				require.NoError(t, err)
				require.Greater(t, other.Params().ExcessBound, pl.Params().ExcessBound)
			}
		}
	}
	steep.Records = 300
	phased, err := (&Phased{}).Calibrate(steep, budget)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, []float64{float64(phased.Params().Passes), phased.Params().Batch})
	require.InEpsilon(t, 2e-4, phased.Params().Phases[0].StepSize, 1e-12)
	q.Radius = 0
	phased, err = (&Phased{Radius: 0.5}).Calibrate(q, budget)
	require.NoError(t, err)
	require.Equal(t, 0.5, phased.Params().Radius)
	pl, err = (&PermutationSGD{Radius: 0.5}).Calibrate(q, budget)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Params().Radius)
}

func TestStrongRefuses(t *testing.T) {
	q, b := declared(100, 2, 1, 1e-5, 1, 1, 1)
	_, err := (&PermutationSGD{Ridge: 1, StepSize: 0.1}).Calibrate(q, b)
	require.ErrorIs(t, err, ErrMechanism)
	for _, lambda := range []float64{-1, math.NaN(), math.Inf(1), 1e300, 1e-300} {
		_, err := (&PermutationSGD{Ridge: lambda}).Calibrate(q, b)
		require.ErrorIs(t, err, ErrMechanism, "%v", lambda)
	}
}

// With equal permutations and noise, releases of neighbors are as far apart as the
// passes themselves end. Linear losses attain L/(λb⌊n/b⌋): there β = 0, so that
// every step is 1/(2λt) and the contractions are exact.
func TestStrongSensitivity(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	for _, m := range []*PermutationSGD{
		{Radius: 1, Ridge: 20 * 0.3},
		{Radius: 1, Ridge: 20 * 0.05, Passes: 4},
		{Radius: 1, Ridge: 20 * 2, Passes: 3, Batch: 4}, // two records of ten are left out
	} {
		p, q := axis(10, 1), axis(10, -1)
		plan, err := m.Plan(p, b)
		require.NoError(t, err)
		require.Equal(t, theoremPSGDStrong, plan.Params().Theorem)
		require.True(t, math.IsInf(plan.Params().ExcessBound, 1))
		batch := max(m.Batch, 1)
		want := 1 / (m.Ridge / 20 * float64(batch*(10/batch))) // L = 1
		require.InEpsilon(t, want, plan.Params().Phases[0].Sensitivity, 1e-9)
		require.LessOrEqual(t, dp.GaussianDelta(1, plan.Params().Phases[0].Hidden/plan.Params().Phases[0].Sigma), 1e-5)
		require.Greater(t, dp.GaussianDelta(1, 1.001*plan.Params().Phases[0].Sensitivity/plan.Params().Phases[0].Sigma), 1e-5)
		most := 0.0
		for seed := range uint64(20) {
			one, err := plan.Fit(ctx, p, noise.Reproducible(seed))
			require.NoError(t, err)
			two, err := plan.Fit(ctx, q, noise.Reproducible(seed))
			require.NoError(t, err)
			require.Equal(t, theoremPSGDStrong, one.Certificate.Theorem)
			most = max(most, math.Abs(one.Theta[0]-two.Theta[0]))
			require.LessOrEqual(t, most, plan.Params().Phases[0].Hidden)
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
		m := &PermutationSGD{Ridge: 60 * 0.01, Passes: 2, Batch: 1 + rnd.IntN(4)} // κ = 51
		plan, err := m.Plan(p, dp.Budget{Epsilon: 1e4, Delta: 1e-5})              // little noise: the ball is not reached
		require.NoError(t, err)
		seed := rnd.Uint64()
		one, err := plan.Fit(ctx, p, noise.Reproducible(seed))
		require.NoError(t, err)
		two, err := plan.Fit(ctx, q, noise.Reproducible(seed))
		require.NoError(t, err)
		require.LessOrEqual(t, floats.Distance(one.Theta, two.Theta, 2), plan.Params().Phases[0].Hidden)
	}
}

// Many passes with little noise end near the minimizer of the regularized loss.
func TestStrongConverges(t *testing.T) {
	p := problem(3, 400, 3)
	b := dp.Budget{Epsilon: 1e5, Delta: 1e-5}
	passes, err := (&PermutationSGD{Ridge: 800 * 0.05, Passes: 200}).Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	out, err := (&Output{Ridge: 800 * 0.05}).Fit(ctx, p, b, noise.Reproducible(2))
	require.NoError(t, err)
	// The last iterates of the two fits differ by a few times L/(λn), the effect of a record, divided
	// by the number of passes. The noise adds about 1e-4.
	require.Less(t, floats.Distance(passes.Theta, out.Theta, 2), 5e-3)
}

// TestForeignOperatorStep: a proximal map of low accuracy, such as one that is not of package prox,
// may err by its factor times all that it is applied to, the step included: each step adds at least
// that.
func TestForeignOperatorStep(t *testing.T) {
	set, err := newSetting(erm.Public{
		Dim: 3, Records: 1000, Bounds: loss.Bounds{Row: 1, Label: 1}, Radius: 1e-3, Anchor: 1e-4, ProxScale: 0.25,
		OnSet: loss.Constants{Lipschitz: 1, Smoothness: 1}, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1},
	}, dp.Replace, dp.Budget{Epsilon: 1, Delta: 1e-6}, 1)
	require.NoError(t, err)
	const steps, eta, factor = 1000, 2.0, 1 << 20
	exact := course{setting: set, l: 1, beta: 1, unit: 1, batch: 1}
	rough := exact
	rough.ProxFactor = factor
	sensitivity := 2 * eta * exact.l
	grid := func(ph Phase) float64 { return ph.Hidden - ph.Grid*math.Sqrt(3) }
	got := grid(rough.phase(1000, steps, eta, sensitivity, 0)) - grid(exact.phase(1000, steps, eta, sensitivity, 0))
	require.Greater(t, got, 0.9999*2*steps*unit*factor*(rough.Radius+eta*rough.l+rough.ProxScale))
}

// TestPassPath: without noise a pass over equal records is a path that is known: two batches of two
// records with the gradient −1, a ridge, and the average of the points where gradients are taken.
func TestPassPath(t *testing.T) {
	p := axis(4, -1) // ∇ = 1
	p.Set = nil
	p.Reg = prox.SquaredL2{Weight: 8}
	var tr erm.Trace
	m := &PermutationSGD{Radius: 1, Batch: 2, StepSize: 0.1, Trace: func(t erm.Trace) { tr = t }}
	silent := fault.With(ctx, fault.GridNoise, func(k []int64) []int64 { return make([]int64, len(k)) })
	const grid = 0.2 * 0x1p-20 // of a sensitivity of 2Lη/b = 0.1
	rel, err := m.Fit(silent, p, dp.Budget{Epsilon: 1, Delta: 1e-5}, noise.Reproducible(1))
	require.NoError(t, err)
	require.InDelta(t, -0.1/(1+8*0.1/4)/2, rel.Theta[0], grid) // points 0 and −η/(1+ημ/n)
	require.Equal(t, [2]int{2, 4}, [2]int{tr.Iterations, tr.GradTerms})
	p.Set = prox.Box{Lo: -0.01, Hi: 1}
	rel, err = m.Fit(silent, p, dp.Budget{Epsilon: 1, Delta: 1e-5}, noise.Reproducible(1))
	require.NoError(t, err)
	require.InDelta(t, -0.005, rel.Theta[0], grid)
}

// The noise of a phase has the standard deviation of the plan, and that hides the
// sensitivity of the plan at its budget: by the exact profile of the Gaussian.
func TestPassNoiseLaw(t *testing.T) {
	const runs = 3000
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	p := axis(10, 1)
	sd := func(fit func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)) float64 {
		return deviation(t, fit, p, runs)
	}
	const tol = 4.9 / 77.4 // 4.9/√(2·3000): false reject 1e-6

	// One batch of all records: the average is the start, and all else noise.
	perm, err := (&PermutationSGD{Radius: 1, Batch: 10, Passes: 1}).Plan(p, b)
	require.NoError(t, err)
	require.InEpsilon(t, perm.Params().Phases[0].Sigma, sd(perm.Fit), tol)
	for _, passes := range []int{1, 3} {
		perm, err := (&PermutationSGD{Radius: 1, Batch: 5, Passes: passes}).Plan(p, b)
		require.NoError(t, err)
		ph := perm.Params().Phases[0]
		require.InEpsilon(t, 2*float64(passes)*ph.StepSize/5, ph.Sensitivity, 1e-9) // 2kLη/b
		require.LessOrEqual(t, dp.GaussianDelta(1, ph.Hidden/ph.Sigma), 1e-5)
		require.Greater(t, ph.Hidden, ph.Sensitivity)
		require.Less(t, ph.Hidden, ph.Sensitivity*1.00001)
		require.Greater(t, dp.GaussianDelta(1, 1.001*ph.Sensitivity/ph.Sigma), 1e-5)
	}
	phased, err := (&Phased{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.Equal(t, []int{7, 2, 1}, []int{phased.Params().Phases[0].Records, phased.Params().Phases[1].Records,
		phased.Params().Phases[2].Records})
	for i, ph := range phased.Params().Phases {
		require.InEpsilon(t, 2*ph.StepSize, ph.Sensitivity, 1e-9)
		require.LessOrEqual(t, dp.GaussianDelta(1, ph.Hidden/ph.Sigma), 1e-5)
		require.Greater(t, ph.Hidden, ph.Sensitivity)
		require.Less(t, ph.Hidden, ph.Sensitivity*1.00001)
		require.Greater(t, dp.GaussianDelta(1, 1.001*ph.Sensitivity/ph.Sigma), 1e-5)
		require.InEpsilon(t, phased.Params().Phases[0].StepSize*math.Pow(4, -float64(i)), ph.StepSize, 1e-12)
	}
	// The noise of every phase is on the release, as each starts where the one before ended.
	var v float64
	for _, ph := range phased.Params().Phases {
		v += ph.Sigma * ph.Sigma
	}
	require.InDelta(t, math.Sqrt(v), sd(phased.Fit),
		tol*math.Sqrt(v)+2*phased.Params().Phases[0].StepSize) // and a permutation
}

// deviation returns the standard deviation of the first coordinate of releases.
func deviation(
	t *testing.T, fit func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error),
	p *erm.Problem, runs int,
) float64 {
	t.Helper()
	var sum, sq float64
	for i := range runs {
		rel, err := fit(ctx, p, noise.Reproducible(uint64(i)))
		require.NoError(t, err)
		sum += rel.Theta[0]
		sq += rel.Theta[0] * rel.Theta[0]
	}
	n := float64(runs)
	return math.Sqrt(sq/n - sum/n*sum/n)
}

// wide is a problem of linear losses in 20 dimensions, with one record that differs.
func wide(sign float64) *erm.Problem {
	rnd := rand.New(rand.NewPCG(3, 4))
	rows, labels := make([][]float64, 10), make([]float64, 10)
	for i := range rows {
		for range 20 {
			rows[i] = append(rows[i], rnd.NormFloat64())
		}
		labels[i] = 1
	}
	labels[3] = sign
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: tilted{}}
}

// sums tells whether float64 holds a ν with c + ν = r.
func sums(c, r float64) bool {
	nu := r - c
	for _, to := range []float64{math.Inf(1), math.Inf(-1)} {
		for v, i := nu, 0; i < 4; i++ {
			if c+v == r {
				return true
			}
			v = math.Nextafter(v, to)
		}
	}
	return false
}

// TestPassReachable: every coordinate of a release is a multiple of the public grid, and so one
// that either neighbor reaches. The controls are a grid that follows the data, and float64 noise on
// the same means, for which most releases rule out the neighbor.
func TestPassReachable(t *testing.T) {
	b := dp.Budget{Epsilon: 10, Delta: 1e-5} // noise of about the size of the means
	for _, m := range []interface {
		Plan(p *erm.Problem, b dp.Budget) (*Plan, error)
	}{&PermutationSGD{Radius: 1}, &PermutationSGD{Radius: 1, Ridge: 3, Passes: 2}, &Phased{Radius: 1}} {
		plan, err := m.Plan(wide(1), b)
		require.NoError(t, err)
		phases := plan.Params().Phases
		last := phases[len(phases)-1]
		onGrid := func(theta []float64) bool {
			for _, v := range theta {
				if v/last.Grid != math.Round(v/last.Grid) {
					return false
				}
			}
			return true
		}
		var ends [2][]float64 // of a fit with one stream
		apart, moved := 0, 0
		for seed := range uint64(100) {
			for i, sign := range []float64{1, -1} {
				seen := fault.With(ctx, fault.GridVector, func(k []int64) []int64 {
					ends[i] = nil
					for _, v := range k {
						ends[i] = append(ends[i], last.Grid*float64(v))
					}
					return k
				})
				rel, err := plan.Fit(seen, wide(sign), noise.Reproducible(seed))
				require.NoError(t, err)
				require.True(t, onGrid(rel.Theta))
			}
			nu := make([]float64, 20)
			noise.Normal(nu, last.Sigma, noise.Reproducible(seed))
			both := true
			for j, v := range nu {
				r := ends[0][j]*(1+0x1p-40) + v // float64 ends are on no grid
				require.True(t, sums(ends[0][j]*(1+0x1p-40), r))
				both = both && sums(ends[1][j]*(1+0x1p-40), r)
			}
			if !both {
				apart++
			}
			follows := fault.With(ctx, numbers, func(p Params) Params { // as if it were chosen from the records
				p.Phases[len(p.Phases)-1].Grid /= 2
				return p
			})
			rel, err := plan.Fit(follows, wide(-1), noise.Reproducible(seed))
			require.NoError(t, err)
			if !onGrid(rel.Theta) {
				moved++
			}
		}
		if len(phases) == 1 { // the noise of a last phase is far below the mean, whose spacing hides the sums
			require.Greater(t, apart, 50)
		}
		require.Greater(t, moved, 90)
	}
}

// TestPassPlanIsImmutable: changing what a plan hands out changes nothing.
func TestPassPlanIsImmutable(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	pl, err := (&Phased{}).Plan(problem(1, 100, 2), b)
	require.NoError(t, err)
	before, text := pl.Params(), pl.String()
	par := pl.Params()
	par.Phases[0].Sigma, par.Clip = 0, 0
	require.Equal(t, before, pl.Params())
	require.Equal(t, text, pl.String())
	require.Contains(t, text, "6 phases")
	require.Empty(t, pl.Certificate().Assumptions)
	require.LessOrEqual(t, pl.Profile().Delta(1), 1e-5)
	require.Greater(t, pl.Profile().Delta(1-1e-6), 1e-5)
	raw, err := json.Marshal(pl.Params())
	require.NoError(t, err)
	require.Contains(t, string(raw), `"phases":[{`)
	several, err := (&PermutationSGD{Passes: 2}).Plan(problem(1, 100, 2), b)
	require.NoError(t, err)
	raw, err = json.Marshal(several.Params())
	require.NoError(t, err)
	require.Contains(t, string(raw), `"excessBound":null`)
}

// TestStepError: the end of passes in float64 is within T·e of the end in 120 digits, and e is not
// wasteful by more than a factor of ten thousand.
func TestStepError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		p := problem(rnd.Uint64(), 200, 1+rnd.IntN(6))
		p.Loss, p.Set = loss.Huber{Delta: 0.3}, prox.Box{Lo: -0.05, Hi: 0.5}
		_, d := p.Data.Dims()
		plan, err := (&PermutationSGD{}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		ph := plan.Params().Phases[0]
		var end []int64
		var order []int
		ctx := fault.With(fault.With(ctx, fault.GridVector, func(k []int64) []int64 { end = append(end, k...); return k }),
			fault.Batch, func(o []int) []int { order = append(order, o...); return o })
		_, err = plan.Fit(ctx, p, noise.Reproducible(rnd.Uint64()))
		require.NoError(t, err)

		num := func(v float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(v) }
		w, mean := make([]*big.Float, d), make([]*big.Float, d)
		for j := range w {
			w[j], mean[j] = num(0), num(0)
		}
		lo, hi, delta := num(-0.05), num(0.5), num(0.3)
		for _, i := range order {
			a := p.Data.Row(i)
			u := num(-p.Data.Label(i))
			for j := range w {
				mean[j].Add(mean[j], w[j])
				u.Add(u, num(0).Mul(num(a[j]), w[j]))
			}
			if u.Cmp(delta) > 0 {
				u = num(0.3)
			} else if num(0).Neg(u).Cmp(delta) > 0 {
				u = num(-0.3)
			}
			for j := range w {
				w[j].Sub(w[j], num(0).Mul(num(ph.StepSize), num(0).Mul(u, num(a[j]))))
				if w[j].Cmp(hi) > 0 {
					w[j] = num(0.5)
				} else if w[j].Cmp(lo) < 0 {
					w[j] = num(-0.05)
				}
			}
		}
		off := 0.0
		for j := range mean {
			x, _ := num(0).Sub(num(0).Quo(mean[j], num(float64(len(order)))), num(ph.Grid*float64(end[j]))).Float64()
			off = math.Hypot(off, x)
		}
		require.LessOrEqual(t, off, (ph.Hidden-ph.Sensitivity)/2) // of each of two neighbors
		require.Greater(t, off, (ph.Hidden-ph.Sensitivity)/1e4)
	}
}
