// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// lowerBound returns a number that, with probability 1 − testkit.FalseReject over the runs, is at
// most every ε for which mech is (ε, δ)-private on the pair.
func lowerBound(mech func(p *erm.Problem, src rand.Source) []float64, d0, d1 *erm.Problem, delta float64, runs int,
	src rand.Source) float64 {
	var out [2][][]float64
	for i, d := range []*erm.Problem{d0, d1} {
		out[i] = make([][]float64, runs)
		for r := range out[i] {
			out[i][r] = slices.Clone(mech(d, src))
		}
	}
	return testkit.SampleBound(out[0], out[1], delta)
}

// Attacks on the worst pair prove no more than the certificate, and do prove
// more when the noise is divided by five.
func TestWorstPair(t *testing.T) {
	const runs = 20000 // half as many do not prove what a fifth of the noise costs
	b := dp.Budget{Epsilon: 1, Delta: 1e-3}
	for name, m := range map[string]*NoisySGD{
		"poisson":          {Radius: 1, Steps: 4, Batch: 5},
		"fixed":            {Radius: 1, Steps: 4, Batch: 5, Scheme: FixedSize},
		"with replacement": {Radius: 1, Steps: 4, Batch: 5, Scheme: WithReplacement},
		"one step":         {Radius: 1, Steps: 1, Batch: 10},
	} {
		d0, d1 := axis(10, 1), axis(10, -1)
		plan, err := m.Plan(d0, b)
		require.NoError(t, err)
		run := func(ctx context.Context) func(p *erm.Problem, src rand.Source) []float64 {
			return func(p *erm.Problem, src rand.Source) []float64 {
				rel, err := plan.Fit(ctx, p, src)
				if err != nil {
					panic(err)
				}
				return rel.Theta
			}
		}
		lower := lowerBound(run(ctx), d0, d1, b.Delta, runs, rand.NewPCG(1, 0x6470746573740000))
		require.LessOrEqual(t, lower, b.Epsilon, name)
		weak := fault.With(ctx, numbers, func(p Params) Params { p.Noise /= 5; return p })
		require.Greater(t, lowerBound(run(weak), d0, d1, b.Delta, runs, rand.NewPCG(2, 0x6470746573740000)),
			b.Epsilon, name)
		t.Logf("%s: z = %.3g, ε ≥ %.2g", name, plan.Params().Noise, lower)
	}
}

// What a release is made of: exactly the noise of the plan on exactly clipped sums. With a full
// batch and one step the average is w₀ + (w₁−w₀)/2, so that its law is known.
func TestOneStepLaw(t *testing.T) {
	p := axis(10, 1)
	m := &NoisySGD{Radius: 1, Steps: 1, Batch: 10}
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
	require.NoError(t, err)
	require.Positive(t, plan.Params().Sampler.Rate)
	const runs = 4000
	var sum, sq float64
	for i := range runs {
		rel, err := plan.Fit(ctx, p, noise.Reproducible(uint64(i)))
		require.NoError(t, err)
		g := -2 * rel.Theta[0] / plan.Params().StepSize // mean gradient with noise
		sum += g
		sq += g * g
	}
	// ∇ = −b, nine labels −1 and one +1: mean 0.8.
	mean := sum / runs
	sd := math.Sqrt(sq/runs - mean*mean)
	require.InDelta(t, 0.8, mean, 4.9*plan.Params().Sigma/math.Sqrt(runs)) // false reject 1e-6
	require.InEpsilon(t, plan.Params().Sigma, sd, 4.9/math.Sqrt(2*runs))
}

// A fit of a hundred times the steps holds no more memory at its end.
func TestMemory(t *testing.T) {
	p := problem(1, 500, 4)
	for _, m := range []*NoisySGD{{}, {Scheme: FixedSize}, {Scheme: WithReplacement}} {
		var live uint64
		m.Steps, m.Batch, m.Trace = 50, 50, func(erm.Trace) {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			live = stats.HeapAlloc
		}
		plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		bytes := func(steps int) uint64 {
			long := fault.With(ctx, numbers, func(p Params) Params { p.Steps = steps; return p })
			_, err = plan.Fit(long, p, noise.Reproducible(1))
			require.NoError(t, err)
			return live
		}
		few := bytes(50)
		require.Less(t, bytes(5000), few+20000) // 5000 iterates are 160 kB
	}
}

// Traces count what was done; batches may be empty, and their steps still add noise.
func TestTrace(t *testing.T) {
	p := problem(1, 100, 2)
	var tr erm.Trace
	m := &NoisySGD{Steps: 200, Batch: 1, Trace: func(t erm.Trace) { tr = t }}
	pl, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
	require.NoError(t, err)
	_, err = pl.Fit(ctx, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, 200, tr.Iterations)
	require.InDelta(t, float64(pl.Params().Steps)*pl.Params().Batch, float64(tr.GradTerms), 5*math.Sqrt(200))

	// A rate at which no batch has a record: the release is noise all the same.
	empty := fault.With(ctx, numbers, func(p Params) Params { p.Sampler = dp.Sampler{Rate: 1e-12}; return p })
	one, err := pl.Fit(empty, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.Zero(t, tr.GradTerms)
	require.Equal(t, one.Theta, tr.Theta)
	require.NotZero(t, one.Theta[0])
}

// TestNothingIsKept: the noise of gradients is erased from what the fit
// allocated for it, also when it is cancelled.
func TestNothingIsKept(t *testing.T) {
	p := problem(9, 40, 3)
	pl, err := (&NoisySGD{Steps: 3, Batch: 5}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	for _, stop := range []bool{false, true} {
		var nu []int64
		ctx, cancel := context.WithCancel(t.Context())
		ctx = fault.With(ctx, fault.GridNoise, func(v []int64) []int64 {
			if nu = v; stop {
				cancel()
			}
			return v
		})
		_, err = pl.Fit(ctx, p, nil)
		require.Equal(t, stop, err != nil)
		require.Equal(t, make([]int64, 3), nu)
		cancel()
	}
}

// TestSGDEnds: plans whose values no sampler can hold, one step inside and one outside.
func TestSGDEnds(t *testing.T) {
	const below = largest * (1 - 0x1p-53)
	try := func(edit func(p *Params)) error {
		p := Params{Theorem: theoremSGD, Relation: dp.Replace, Dim: 1, Sampler: dp.Sampler{Rate: 1}, Noise: 0.5, Clip: 0.5,
			Batch: 0.5, Steps: 1,
			StepSize: 0.5, Smoothing: 0.5}
		edit(&p)
		_, err := newSGDPlan(p, nil, nil)
		return err
	}
	for i, edit := range []func(p *Params){
		func(p *Params) {}, func(p *Params) { p.Smoothing = 0 }, func(p *Params) { p.Smoothing = below },
		func(p *Params) { p.Noise, p.Clip, p.StepSize, p.Batch = 1, below, 1e-9, 1 },
		func(p *Params) { p.Noise, p.Clip, p.StepSize, p.Batch = 1, 1, below, 1 },
		func(p *Params) { p.StepSize, p.Batch = 0x1p402, 8 }, func(p *Params) { p.Noise, p.Clip = 1, 0x1.01p-400 },
		func(p *Params) { p.Noise = 0x1p26 * (1 - 0x1p-52) }, // zL/g = 2⁵²
	} {
		require.NoError(t, try(edit), i)
	}
	for i, edit := range []func(p *Params){
		func(p *Params) { p.Noise, p.Clip = 1, 1/largest }, func(p *Params) { p.Noise = 0 },
		func(p *Params) { p.Noise, p.Clip, p.StepSize, p.Batch = 1, largest, 1e-9, 1 },
		func(p *Params) { p.Noise, p.Clip, p.StepSize = 0x1p20, 0x1p390, 0x1p-100 },
		func(p *Params) { p.Batch = 0 }, func(p *Params) { p.Steps = 0 }, func(p *Params) { p.StepSize = 0 },
		func(p *Params) { p.Noise, p.Clip, p.StepSize, p.Batch = 1, 1, largest, 1 },
		func(p *Params) { p.Smoothing = -1 }, func(p *Params) { p.Smoothing = largest },
		func(p *Params) { p.Smoothing = math.NaN() },
		func(p *Params) { p.Noise = 0x1p26 },
	} {
		require.ErrorIs(t, try(edit), ErrMechanism, i)
	}
}

// hostile are losses whose gradients are of every size and direction, or no numbers.
func hostile() []loss.Loss {
	return []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 3}, huge{}, huge{nan: true}, general{huge{}},
		general{huge{nan: true}}}
}

// scattered returns n records of d features at every scale, with labels ±1.
func scattered(rnd *rand.Rand, n, d int) (rows [][]float64, labels []float64) {
	for range n {
		a := make([]float64, d)
		scale := math.Pow(10, 6*rnd.Float64()-5)
		for j := range a {
			a[j] = scale * rnd.NormFloat64()
		}
		rows, labels = append(rows, a), append(labels, float64(2*rnd.IntN(2)-1))
	}
	return rows, labels
}

// TestRoundedGradients: a rounded gradient is the exactly rounded clipped gradient, has norm at
// most K, and its bits do not depend on the batch, on the data beside it, on where it is stored
// or on whether rows are sparse; sums are exact in any order. The control rounds sums.
func TestRoundedGradients(t *testing.T) {
	const d = 7
	rnd := rand.New(rand.NewPCG(1, 2))
	rows, labels := scattered(rnd, 40, d)
	w := make([]float64, d)
	for j := range w {
		w[j] = rnd.NormFloat64()
	}
	for _, l := range hostile() {
		par := Params{Clip: 0.37, Dim: d}
		g := newGrid(par.Clip, d)
		par.Threshold = g.limit
		clipped := par.perRecord(l)
		build := func(rows [][]float64, labels []float64, sparse bool) (*erm.Data, *erm.Objective) {
			bounds := loss.Bounds{Row: 2, Label: 1}
			data, err := erm.NewData(rows, labels, bounds)
			if sparse {
				ptr, col, val := []int{0}, []int(nil), []float64(nil)
				for _, a := range rows {
					for j, v := range a {
						col, val = append(col, j), append(val, v)
					}
					ptr = append(ptr, len(col))
				}
				data, err = erm.NewDataCSR(d, ptr, col, val, labels, bounds)
			}
			require.NoError(t, err)
			return data, (&erm.Problem{Data: data, Loss: clipped}).Perturb(erm.Perturbation{})
		}
		data, obj := build(rows, labels, false)
		one := map[string][]int64{} // by row
		total := make([]int64, d)
		for i := range rows {
			k := make([]int64, d)
			obj.SumRounded(k, w, []int{i}, g.exponent, g.norm)
			square := new(big.Int)
			v := make([]float64, d)
			clipped.Grad(v, w, data.Row(i), data.Label(i))
			for j, x := range k {
				square.Add(square, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
				require.InDelta(t, v[j]/math.Ldexp(1, g.exponent), float64(x), 0.5+1e-6) // Grad may round otherwise
				total[j] += x
			}
			most := new(big.Int).Mul(big.NewInt(g.norm), big.NewInt(g.norm))
			require.LessOrEqual(t, square.Cmp(most), 0, "%T", l)
			one[fmt.Sprint(data.Row(i), data.Label(i))] = k
		}
		sum := make([]int64, d)
		for range 300 {
			// Another data set, of some of the records and of new ones, in another order.
			more, signs := scattered(rnd, rnd.IntN(5), d)
			for _, i := range rnd.Perm(len(rows))[:1+rnd.IntN(len(rows))] {
				more, signs = append(more, rows[i]), append(signs, labels[i])
			}
			data, obj := build(more, signs, false)
			want, batch := make([]int64, d), []int(nil)
			for i := range more {
				k, ok := one[fmt.Sprint(data.Row(i), data.Label(i))]
				if !ok {
					continue
				}
				for range 1 + rnd.IntN(2) {
					batch = append(batch, i)
					for j := range want {
						want[j] += k[j]
					}
				}
			}
			rnd.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			obj.SumRounded(sum, w, batch, g.exponent, g.norm)
			require.Equal(t, want, sum, "%T", l)
		}
		// In parts of a few records the sum is the same.
		all := rnd.Perm(len(rows))
		obj.SumRounded(sum, w, all, g.exponent, g.norm)
		require.Equal(t, total, sum)
		obj.SumRounded(sum, w, all, g.exponent, 1<<51)
		require.Equal(t, total, sum)
		// Rounding the sum in the place of each gradient is seen.
		raw := make([]float64, d)
		obj.GradTerms(raw, w, all)
		differ := false
		for j := range raw {
			differ = differ || int64(math.RoundToEven(math.Ldexp(raw[j], -g.exponent))) != total[j]
		}
		require.True(t, differ, "%T: the control is blind", l)
		_, thin := build(rows, labels, true)
		thin.SumRounded(sum, w, all, g.exponent, g.norm)
		for j := range sum { // the same up to the rounding of predictions
			require.InDelta(t, total[j], sum[j], 60)
		}
	}
}

// reached tells whether w₁ = 0 − η(gN/m) in float64 for an integer N. With the sum k of the one
// data set or the other N is k plus an integer of noise: all integers are possible for both.
func reached(w, eta, g, m float64) bool {
	near := math.Round(-w / eta * m / g)
	for _, off := range []float64{0, -1, 1} {
		if 0-eta*(g*(near+off)/m) == w {
			return true
		}
	}
	return false
}

// TestSGDReachable: whatever one noisy step releases from either neighbor, the other reaches. The
// control adds float64 noise to a float64 sum: hardly any of its releases is on the grid.
func TestSGDReachable(t *testing.T) {
	m := &DPSGD{StepSize: 0.7, Batch: 10, Epochs: 1} // one step over all records, the last iterate
	p := axis(10, 1)
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
	require.NoError(t, err)
	par := plan.Params()
	require.Equal(t, 1, par.Steps)
	nu, off := make([]float64, 1), 0
	for seed := range uint64(300) {
		for _, data := range []*erm.Problem{p, axis(10, -1)} {
			rel, err := plan.Fit(ctx, data, noise.Reproducible(seed))
			require.NoError(t, err)
			require.True(t, reached(rel.Theta[0], 0.7, par.Grid, par.Batch))
		}
		noise.Normal(nu, par.Noise*par.Clip, noise.Reproducible(seed))
		if !reached(0-0.7*((8+nu[0])/par.Batch), 0.7, par.Grid, par.Batch) {
			off++
		}
	}
	require.Greater(t, off, 290)
}

// TestPlanIsImmutable: changing what a plan hands out changes nothing.
func TestPlanIsImmutable(t *testing.T) {
	p := problem(1, 100, 2)
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	pl, err := (&NoisySGD{Steps: 3, Batch: 20}).Plan(p, b)
	require.NoError(t, err)
	before, text := pl.Params(), pl.String()
	par, cert := pl.Params(), pl.Certificate()
	par.Noise, par.Budget.Epsilon, cert.Epsilon, cert.Assumptions[0] = 0, 0, 0, "none"
	require.Equal(t, before, pl.Params())
	require.Equal(t, text, pl.String())
	require.Equal(t, b, pl.Certificate().Budget)
	require.Equal(t, []dp.Assumption{dp.LossArithmetic}, pl.Certificate().Assumptions)
	require.Contains(t, text, "3 steps")
	raw, err := json.Marshal(pl.Params())
	require.NoError(t, err)
	require.Contains(t, string(raw), `"noise":`)

	// The curve is the accountant's, at the budget and elsewhere, each order by itself.
	require.LessOrEqual(t, pl.Profile().Delta(1), 1e-5)
	require.Greater(t, pl.Profile().Delta(0.9), 1e-5)
	p.Records = 100
	added, err := (&NoisySGD{Steps: 3, Batch: 20, Relation: dp.AddRemove}).Plan(p, b)
	require.NoError(t, err)
	require.Less(t, added.Profile().Add(0.5), 0.9*added.Profile().Remove(0.5))

	// A loss of the caller is an assumption, also inside of one of package loss.
	for _, l := range []loss.Loss{tilted{}, &tilted{}, loss.Moreau{Loss: tilted{}, Beta: 1}} {
		p.Loss = l
		pl, err := (&NoisySGD{Steps: 3, Batch: 20}).Plan(p, b)
		require.NoError(t, err)
		require.Contains(t, pl.Certificate().Assumptions, LossLocality)
	}
}
