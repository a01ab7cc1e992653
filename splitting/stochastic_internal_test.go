// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
)

// TestStochasticRulesFormula compares StochasticTOS with the published iterations for varying
// steps, written out.
func TestStochasticRulesFormula(t *testing.T) {
	const n, d, steps = 20, 9, 300
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	lip := float64(n) * f.lipOne
	for _, r := range []StepRule{RootStep, StronglyConvexStep} {
		rnd := rand.New(rand.NewPCG(8, 9))
		z, y, p, w, mean := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
		omega := 1 / (2 * lip)
		for k := range steps {
			i := rnd.IntN(n)
			if r == RootStep {
				omega = 1 / f.lip / math.Sqrt(float64(k+1))
			}
			g.Prox(y, z, omega)
			f.GradTerms(w, y, []int{i})
			if r == StronglyConvexStep { // the next step is γ′ = −ημγ² + γ√(η²μ²γ²+1) with η = ½
				c := f.ridge / 2
				next := -c*omega*omega + omega*math.Sqrt(c*c*omega*omega+1)
				for j := range z {
					z[j] = y[j] + next*(z[j]-y[j])/omega
				}
				omega = next
			}
			for j := range p {
				p[j] = 2*y[j] - z[j] - omega*n*w[j]
			}
			h.Prox(p, p, omega)
			for j := range z {
				z[j] += p[j] - y[j]
				mean[j] += (y[j] - mean[j]) / float64(k+1)
			}
		}
		want := mean
		if r == StronglyConvexStep {
			want = y
		}
		res, err := Solve(context.Background(), Problem{F: f, G: g, H: h}, make([]float64, d),
			&Settings{Iterations: steps, Src: rand.NewPCG(8, 9)}, &StochasticTOS{Rule: r})
		require.NoError(t, err)
		require.InDeltaSlice(t, want, res.X, 1e-12, r.String())
		require.True(t, math.IsInf(res.Residual, 1))
	}
}

// TestStochasticStrongRate checks the documented rate E‖θ_k−x*‖² ≤ ω_k²(S_1 + 2kσ²) of
// StronglyConvexStep. The mean of 40 runs approximates the expectation; by Chebyshev's inequality
// its error is small compared with the distance to the bound.
func TestStochasticStrongRate(t *testing.T) {
	const n, d, runs = 20, 9, 40
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	full, one := make([]float64, d), make([]float64, d)
	f.Grad(full, x)
	var sigma2 float64 // nΣ‖∇fᵢ(x*) − ∇f(x*)/n‖²
	for i := range n {
		f.GradTerms(one, x, []int{i})
		floats.AddScaled(one, -1.0/n, full)
		sigma2 += n * floats.Dot(one, one)
	}
	checks := map[int]float64{100: 0, 1000: 0, 10_000: 0}
	omegas, start := map[int]float64{}, 0.0
	for seed := range uint64(runs) {
		m := &StochasticTOS{Rule: StronglyConvexStep}
		require.NoError(t, m.Init(Problem{F: f, G: g, H: h}, make([]float64, d), rand.New(rand.NewPCG(seed, 1))))
		loc, stats := &Location{X: make([]float64, d)}, &Stats{}
		for k := 1; k <= 10_000; k++ {
			before, z := m.gamma, append([]float64(nil), m.z...)
			m.Step(loc, stats)
			dist2 := math.Pow(floats.Distance(loc.X, x, 2), 2)
			if k == 1 { // the constant S_1 belongs to the first step
				s := dist2 / (before * before)
				for j := range z {
					du := (z[j]-loc.X[j])/before - u[j]
					s += du * du
				}
				start += s / runs
			}
			if _, ok := checks[k]; ok {
				checks[k] += dist2 / runs
				omegas[k] = before
			}
		}
	}
	for k, mean := range checks {
		bound := omegas[k] * omegas[k] * (start + 2*float64(k)*sigma2)
		require.LessOrEqual(t, mean, bound, k)
		require.GreaterOrEqual(t, mean, bound/1e4, "the bound is far from the mean at step %d", k)
	}
	require.Less(t, checks[10_000], 0.2*checks[100], "the distance must fall")
}

// TestMemory checks that every first-order method needs at most 1.2 times the memory of the data.
func TestMemory(t *testing.T) {
	const n, d = 3000, 40
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 1, x, plus(u, v))
	for name, c := range map[string]struct {
		m    Method
		f    Smooth
		data int // the size of the data in numbers
	}{
		"DavisYin":        {&DavisYin{Rule: LineSearch}, f, n * d},
		"ForwardBackward": {&ForwardBackward{Rule: LineSearch}, f, n * d},
		"PrimalDual":      {&PrimalDual{}, f, n * d},
		"StochasticTOS":   {&StochasticTOS{}, f, n * d},
		"SVRG":            {&StochasticTOS{Estimator: SVRG}, f, n * d},
		"SAGA":            {&StochasticTOS{Estimator: SAGA}, f, n * d},
	} {
		x0 := make([]float64, d)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, c.m.Init(Problem{F: c.f, G: g, H: h}, x0, rand.New(rand.NewPCG(1, 2))))
		runtime.ReadMemStats(&after)
		scratch := 8 * 2 * len(f.a) // toy.Grad allocates a list of its terms, once or twice
		require.LessOrEqual(t, float64(after.TotalAlloc-before.TotalAlloc)-float64(scratch), 1.2*8*float64(c.data), name)
	}
}
