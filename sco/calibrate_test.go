// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// The searches of this file are tested with noise that is accounted for as that of
// full batches, which has a closed form: that the accountant is asked about the
// batches that are drawn is the business of TestWorstPair and of the audit's controls.
func full(s dp.Sampler, steps int, b dp.Budget) (z float64, err error) {
	return dp.Sampler{Rate: 1, Relation: s.Neighbors()}.Noise(steps, b)
}

// fullNoise is z of T full batches: σ of a Gaussian mechanism that moves by
// r√T, r = 2 for replacement and 1 else.
func fullNoise(t *testing.T, b dp.Budget, rel dp.Relation, steps float64) float64 {
	t.Helper()
	r := 2.
	if rel == dp.AddRemove {
		r = 1
	}
	sigma, err := dp.GaussianSigma(b, r*math.Sqrt(steps))
	require.NoError(t, err)
	return sigma
}

// TestCheckEnds: the ranges of the mechanisms' fields, one step inside and one outside.
func TestCheckEnds(t *testing.T) {
	for _, c := range []struct {
		m  NoisySGD
		ok bool
	}{
		{NoisySGD{}, true},
		{NoisySGD{Steps: dp.MaxSteps}, true},
		{NoisySGD{Steps: dp.MaxSteps + 1}, false},
		{NoisySGD{Steps: 1, Batch: 0.5, StepSize: 0.5, Evaluations: 0.5}, true},
		{NoisySGD{Steps: -1}, false},
		{NoisySGD{Scheme: Poisson - 1}, false},
		{NoisySGD{Scheme: WithReplacement}, true},
		{NoisySGD{Scheme: WithReplacement + 1}, false},
		{NoisySGD{Relation: dp.AddRemove}, true},
		{NoisySGD{Relation: dp.AddRemove, Scheme: FixedSize}, false},
		{NoisySGD{Relation: dp.AddRemove, Scheme: WithReplacement}, false},
	} {
		require.Equal(t, c.ok, c.m.check() == nil, "%+v", c.m)
	}
	q, b := declared(1000, 5, 1, 1e-7, 1, 0.25, 1)
	for _, c := range []struct {
		m  DPSGD
		ok bool
	}{
		{DPSGD{Momentum: 0.97}, true}, {DPSGD{Momentum: 1}, false}, {DPSGD{Momentum: -0.01}, false},
		{DPSGD{Batch: 1, Epochs: dp.MaxSteps / 1000.}, true},
		{DPSGD{Batch: 1, Epochs: dp.MaxSteps/1000. + 1e-3}, false},
	} {
		_, err := c.m.calibrate(q, b, full)
		require.Equal(t, c.ok, err == nil, "%+v", c.m)
	}
}

// TestEvaluations: the default of Evaluations, where either term of T decides, and n.
func TestEvaluations(t *testing.T) {
	q := declaredSetting(t, 8000, 10, 0.5, 1e-9, 1, 0.25, 1)
	log := 9 * math.Ln10
	require.InEpsilon(t, 1000*8000*math.Sqrt(0.5/4000), evaluations(q), 1e-14) // T = n/8
	q.budget.Epsilon = 0.1
	steps := 0.01 * 64e6 / (320 * log)
	require.InEpsilon(t, steps*8000*math.Sqrt(0.1/(4*steps)), evaluations(q), 1e-14)
	q.budget.Epsilon = 1e-6
	require.EqualValues(t, 8000, evaluations(q))
}

// TestApproximateNoise: the central limit, and full batches, for both relations.
func TestApproximateNoise(t *testing.T) {
	q := declaredSetting(t, 500, 7, 0.7, 1e-6, 1, 1, 1)
	s, err := dp.Calibrate(dp.GaussianCurve, q.budget)
	require.NoError(t, err)
	for rel, r := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		q.rel = rel
		require.InEpsilon(t, r*math.Sqrt(9)/s, approximateNoise(q, 1, 9), 1e-12)
		z := approximateNoise(q, 0.1, 9) // s = q√(T(e^{r²/z²} − 1))
		require.InEpsilon(t, s, 0.1*math.Sqrt(9*math.Expm1(r*r/(z*z))), 1e-12)
	}
	q.budget.Delta = 2
	require.True(t, math.IsInf(approximateNoise(q, 0.1, 9), 1))
}

// TestGivenSteps: with T and m fixed, everything else is a formula.
func TestGivenSteps(t *testing.T) {
	const n, d, radius, l = 500, 7, 3., 1.5
	for _, beta := range []float64{0.05, 1000, math.Inf(1)} {
		for _, c := range []struct {
			scheme  Scheme
			rel     dp.Relation
			sampler dp.Sampler
			m       float64
		}{
			{Poisson, dp.Replace, dp.Sampler{Rate: 20.5 / n, Relation: dp.Replace}, 20.5},
			{Poisson, dp.AddRemove, dp.Sampler{Rate: 20.5 / n, Relation: dp.AddRemove}, 20.5},
			{FixedSize, dp.Replace, dp.Sampler{Size: 21, Records: n}, 21},
			{WithReplacement, dp.Replace, dp.Sampler{Size: 21, Records: n, Repeats: true}, 21},
		} {
			q, b := declared(n, d, 1, 1e-6, l, beta, radius)
			m := NoisySGD{Steps: 30, Batch: 20.5, Scheme: c.scheme, Relation: c.rel}
			pl, err := m.calibrate(q, b, nil, full)
			require.NoError(t, err)
			require.Equal(t, 30, pl.Params().Steps)
			require.Equal(t, c.sampler, pl.Params().Sampler)
			require.InEpsilon(t, c.m, pl.Params().Batch, 1e-15)
			require.InEpsilon(t, fullNoise(t, b, c.rel, 30), pl.Params().Noise, 2e-6)
			require.InEpsilon(t, pl.Params().Noise*l/pl.Params().Batch, pl.Params().Sigma, 1e-14)
			s := schedule{q: declaredSetting(t, n, d, 1, 1e-6, l, beta, radius), l: l, steps: 30, m: pl.Params().Batch,
				sigma:  pl.Params().Sigma,
				scheme: c.scheme}
			require.InEpsilon(t, s.step(beta), pl.Params().StepSize, 1e-14)
			if math.IsInf(beta, 1) {
				require.True(t, math.IsInf(pl.Params().ExcessBound, 1))
			} else {
				require.InEpsilon(t, s.bound(pl.Params().StepSize, beta), pl.Params().ExcessBound, 1e-14)
			}
			require.Zero(t, pl.Params().Smoothing)
			require.Equal(t, theoremSGD, pl.Params().Theorem)

			m.StepSize = 0.0123
			pl, err = m.calibrate(q, b, nil, full)
			require.NoError(t, err)
			require.Equal(t, 0.0123, pl.Params().StepSize)

			s.envelope = true
			for _, given := range []float64{0, 0.7} {
				m.StepSize = 0
				prox, err := m.calibrate(q, b, &given, full)
				require.NoError(t, err)
				require.InEpsilon(t, s.step(beta), prox.Params().StepSize, 1e-14)
				if given == 0 {
					require.InEpsilon(t, s.contraction()/prox.Params().StepSize, prox.Params().Smoothing, 1e-14)
				} else {
					require.Equal(t, given, prox.Params().Smoothing)
				}
				require.InEpsilon(t, s.bound(prox.Params().StepSize, prox.Params().Smoothing), prox.Params().ExcessBound, 1e-14)
				require.Equal(t, theoremProx, prox.Params().Theorem)
			}
		}
	}
	// The Radius of the mechanism goes before that of the set.
	q, b := declared(500, 7, 1, 1e-6, 1, 0.05, 0.25)
	for given, want := range map[float64]float64{0: 0.25, 0.5: 0.5} {
		pl, err := (&NoisySGD{Steps: 3, Batch: 500, Radius: given}).Calibrate(q, b)
		require.NoError(t, err)
		require.Equal(t, want, pl.Params().Radius)
		require.Equal(t, 500, pl.Params().Records)
	}
}

// TestClipNorm: L is the clip where it is below the constant of the loss or that
// is unknown, and the gradients are still those of a convex loss of ⟨a,w⟩.
func TestClipNorm(t *testing.T) {
	for _, c := range []struct {
		lipschitz, clip float64
		s               loss.Structure
		l               float64
		exact           bool
	}{
		{0.5, 0, loss.General, 0.5, true}, {0.5, 0.5, loss.General, 0.5, true}, {0.5, 0.4, loss.General, 0.4, false},
		{0.5, 0.4, loss.GLM, 0.4, true}, {0.5, 0.4, loss.LSQ, 0.4, true}, {0, 0.4, loss.General, 0.4, false},
	} {
		l, exact, err := clipNorm(loss.Constants{Lipschitz: c.lipschitz, Structure: c.s}, c.clip)
		require.NoError(t, err)
		require.Equal(t, c.l, l)
		require.Equal(t, c.exact, exact)
	}
}

// Clipping below the constant of a loss of ⟨a,w⟩ keeps a bound, for the clipped
// loss; of another loss it does not.
func TestClipBelow(t *testing.T) {
	q, b := declared(1000, 3, 1, 1e-6, 1, 0.25, 1)
	pl, err := (&NoisySGD{Clip: 0.5, Steps: 50}).Calibrate(q, b)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Params().Clip)
	require.False(t, math.IsInf(pl.Params().ExcessBound, 1))
	q.OnSet.Structure = loss.General
	pl, err = (&NoisySGD{Clip: 0.5, Steps: 50}).Calibrate(q, b)
	require.NoError(t, err)
	require.True(t, math.IsInf(pl.Params().ExcessBound, 1))
	pl, err = (&NoisySGD{Clip: 3, Steps: 50}).Calibrate(q, b) // a clip that does nothing
	require.NoError(t, err)
	require.Equal(t, 1., pl.Params().Clip)
	q.OnSet.Smoothness = math.Inf(1)
	pl, err = (&NoisySGD{Steps: 50}).Calibrate(q, b)
	require.NoError(t, err)
	require.True(t, math.IsInf(pl.Params().ExcessBound, 1))
}

// TestSearch: the T and m chosen are the best of a plain search with formulas
// of its own over T = 1, √2, 2, … .
func TestSearch(t *testing.T) {
	for _, v := range [][7]float64{
		{6, 1, 40, 1e-2, 1, 1, 1},
		{400, 3, 1, 1e-6, 1, 0.25, 1}, {3000, 8, 0.3, 1e-8, 2, 4, 0.5}, {100, 40, 5, 1e-4, 1, 1, 2},
		{50, 1, 8, 1e-2, 1, math.Inf(1), 1}, {3, 1, 0.5, 1e-3, 1, 1, 1},
	} {
		for _, m := range []NoisySGD{
			{}, {Scheme: FixedSize}, {Scheme: WithReplacement}, {Relation: dp.AddRemove}, {Evaluations: 2000},
			{Evaluations: 0.7},
			{Batch: 7}, {Batch: 0.5}, {Steps: 13}, {Steps: 1}, {Evaluations: 0.7, Batch: 1}, {Batch: 1e9},
			{Evaluations: 1e9, Batch: 1},
		} {
			q, b := declared(int(v[0]), int(v[1]), v[2], v[3], v[4], v[5], v[6])
			requireBest(t, q, b, m)
		}
	}
	// A given number of steps and batch size is the budget, whatever else is given.
	q, b := declared(50, 2, 1, 1e-4, 1, 1, 1)
	pl, err := (&NoisySGD{Steps: 5, Batch: 3, Evaluations: 1e6}).calibrate(q, b, nil, full)
	require.NoError(t, err)
	require.InEpsilon(t, 15, float64(pl.Params().Steps)*pl.Params().Batch, 1e-12)
}

// TestSearchTies: the same for problems among which ties within a few percent are frequent.
func TestSearchTies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, rnd.Float64()) }
	for range 100 {
		q, b := declared(1+rnd.IntN(3000), 1+rnd.IntN(60), between(0.05, 40), between(1e-9, 1e-2), between(0.3, 3),
			between(0.01, 100),
			between(0.1, 10))
		requireBest(t, q, b, NoisySGD{Scheme: Scheme(rnd.IntN(3))})
	}
}

// requireBest searches by itself.
func requireBest(t *testing.T, q erm.Public, b dp.Budget, m NoisySGD) {
	t.Helper()
	n, d, l, radius := float64(q.Records), float64(q.Dim), q.OnSet.Lipschitz, q.Radius
	budget := m.Evaluations
	if budget == 0 {
		eps := b.Epsilon
		steps := math.Max(1, math.Min(n/8, eps*eps*n*n/(32*d*-math.Log(b.Delta))))
		budget = math.Max(n, steps*n*math.Sqrt(eps/(4*steps)))
	}
	least := 1.
	if m.Batch > 0 {
		least = math.Min(m.Batch, n)
	}
	reach := 1.
	if cmp.Or(m.Relation, dp.Replace) == dp.Replace {
		reach *= 2
	}
	if m.Scheme == WithReplacement {
		reach *= 2
	}
	var grid []float64
	switch {
	case m.Steps > 0:
		grid = []float64{float64(m.Steps)}
	case m.Batch > 0:
		grid = []float64{math.Max(1, math.Floor(math.Min(budget/least, 1e6)))}
	default:
		for at := 1.0; at <= budget || at == 1; at *= math.Sqrt2 {
			grid = append(grid, math.Floor(at))
		}
	}
	best, wantSteps, wantBatch := math.Inf(1), 0.0, 0.0
	unit, err := dp.Calibrate(dp.GaussianCurve, b)
	require.NoError(t, err)
	moves := 2.
	if m.Relation == dp.AddRemove {
		moves = 1
	}
	for _, steps := range grid {
		batch := math.Min(math.Max(budget/steps, least), n)
		if m.Batch > 0 {
			batch = least
		}
		z := moves * math.Sqrt(steps) / unit // see TestApproximateNoise
		if batch < n {
			z = moves / math.Sqrt(math.Log1p(square(unit*n/batch)/steps))
		}
		if z < reach && batch < n && best < math.Inf(1) && m.Steps == 0 {
			continue
		}
		v := l*l + d*square(z*l/batch) + 2*l*l*steps/n
		most := 2.
		if m.Scheme == Poisson {
			v += (1 - batch/n) * l * l / batch
			most = 1
		}
		eta := radius / math.Sqrt(steps*v)
		if beta := q.OnSet.Smoothness; !math.IsInf(beta, 1) {
			eta = math.Min(eta, most/beta)
		}
		f := radius*radius/(2*eta*steps) + eta*v/2
		if m.Scheme == Poisson && batch < n {
			f += 2 * l * radius * math.Min(1, steps*math.Exp(-batch*(2*math.Ln2-1)))
		}
		if f < best {
			best, wantSteps, wantBatch = f, steps, batch
		}
	}
	pl, err := m.calibrate(q, b, nil, full)
	require.NoError(t, err)
	require.Equal(t, int(wantSteps), pl.Params().Steps, "%+v %+v", q, m)
	if m.Scheme != Poisson {
		wantBatch = math.Ceil(wantBatch)
	}
	require.InEpsilon(t, wantBatch, pl.Params().Batch, 1e-12, "%+v %+v", q, m)
}

func square(x float64) float64 { return x * x }

// TestDPSGD: T = ⌈Epochs·n/Batch⌉, the defaults, and the default step.
func TestDPSGD(t *testing.T) {
	q, b := declared(400, 3, 1, 1e-6, 1, 0.25, 2)
	for _, c := range []struct {
		m     DPSGD
		steps int
		batch float64
	}{
		{DPSGD{}, 25, 80}, {DPSGD{Epochs: 0.3}, 2, 80}, {DPSGD{Epochs: 0.01}, 1, 80}, {DPSGD{Batch: 60, Epochs: 1}, 7, 60},
		{DPSGD{Batch: 0.5, Epochs: 1}, 400, 1}, {DPSGD{Batch: 1000}, 5, 400}, {DPSGD{Momentum: 0.75}, 25, 80},
	} {
		pl, err := c.m.calibrate(q, b, full)
		require.NoError(t, err)
		require.Equal(t, c.steps, pl.Params().Steps)
		require.InEpsilon(t, c.batch, pl.Params().Batch, 1e-14)
		require.InEpsilon(t, fullNoise(t, b, dp.Replace, float64(c.steps)), pl.Params().Noise, 2e-6)
		s := schedule{q: declaredSetting(t, 400, 3, 1, 1e-6, 1, 0.25, 2), l: 1, steps: float64(c.steps), m: pl.Params().Batch,
			sigma: pl.Params().Noise / pl.Params().Batch}
		require.InEpsilon(t, s.step(0.25)*(1-c.m.Momentum), pl.Params().StepSize, 1e-13)
		require.True(t, math.IsInf(pl.Params().ExcessBound, 1))
		require.True(t, pl.Params().Last)
	}
	pl, err := (&DPSGD{StepSize: 0.01, Average: true, Relation: dp.AddRemove, Clip: 0.5}).calibrate(q, b, full)
	require.NoError(t, err)
	require.Equal(t, 0.01, pl.Params().StepSize)
	require.Equal(t, 400, pl.Params().Records)
	require.Equal(t, 0.5, pl.Params().Clip)
	require.False(t, pl.Params().Last)
	q.Radius = 0
	pl, err = (&DPSGD{Radius: 0.5}).calibrate(q, b, full)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Params().Radius)
	_, err = (&DPSGD{StepSize: 0.01}).calibrate(q, b, full) // needs none
	require.NoError(t, err)
	_, err = (&DPSGD{}).calibrate(q, b, full)
	require.ErrorIs(t, err, ErrMechanism)
}

// TestSearchLeavesFloat64: bounds that overflow are refused as such.
func TestSearchLeavesFloat64(t *testing.T) {
	for _, m := range []NoisySGD{{}, {Steps: 3}, {Batch: 3}} {
		q, b := declared(50, 2, 1, 1e-4, 1, 1, 1e200)
		_, err := m.Calibrate(q, b)
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, "rescale")
	}
}

// TestScheduleFormulas: variance, step and bound for every scheme, with and without an envelope.
func TestScheduleFormulas(t *testing.T) {
	const n, d, l, m, radius, steps, sigma = 500., 7., 0.1, 40., 3., 60., 0.01
	q := declaredSetting(t, n, d, 1, 1e-6, l, 0.25, radius)
	for _, scheme := range []Scheme{Poisson, FixedSize, WithReplacement} {
		for _, envelope := range []bool{false, true} {
			s := schedule{q: q, l: l, steps: steps, m: m, sigma: sigma, scheme: scheme, envelope: envelope}
			v := l*l + d*sigma*sigma + 2*l*l*steps/n
			most := 2. // ηβ
			if scheme == Poisson {
				v += (1 - m/n) * l * l / m
				most = 1
			}
			if envelope {
				v += l * l / most
			}
			require.InEpsilon(t, v, s.variance(), 1e-13)
			require.Equal(t, most, s.contraction())
			eta := radius / math.Sqrt(steps*v)
			require.InEpsilon(t, eta, s.step(most/eta*0.9), 1e-13)
			require.InEpsilon(t, eta, s.step(math.Inf(1)), 1e-13)
			require.InEpsilon(t, eta, s.step(0), 1e-13)
			require.InEpsilon(t, math.Min(eta, cond(envelope, eta, most/0.9)), s.step(0.9), 1e-13)
			if envelope {
				require.InEpsilon(t, eta, s.step(100), 1e-13)
			} else {
				require.InEpsilon(t, most/100, s.step(100), 1e-13)
			}
			for _, ratio := range []float64{0.3, 0.95, most, most * (1 + 5e-13)} {
				beta := ratio / eta
				want := radius*radius/(2*eta*steps) + eta*v/2
				if envelope { // L²/(2β) in the place of the part of V
					want += l*l/(2*beta) - eta*l*l/most/2
				}
				if scheme == Poisson {
					r := 2 / ratio
					want += 2 * l * radius * steps * math.Exp(-m*(r*math.Log(r)-r+1))
				}
				want += 0x1p-25 * l * (radius + 3*l*eta*steps + eta*math.Sqrt(steps*v))
				require.InEpsilon(t, want, s.bound(eta, beta), 1e-12)
			}
			require.True(t, math.IsInf(s.bound(eta, most/eta*(1+3e-12)), 1))
			require.True(t, math.IsInf(s.bound(eta, 0), 1))
			require.True(t, math.IsInf(s.bound(eta, math.NaN()), 1))
			// One record a batch: the Chernoff bound counts for no more than 1.
			if scheme == Poisson && !envelope {
				s.m = 1
				rounding := func() float64 { return 0x1p-25 * l * (radius + 3*l*eta*steps + eta*math.Sqrt(steps*s.variance())) }
				want := radius*radius/(2*eta*steps) + eta*s.variance()/2 + 2*l*radius + rounding()
				require.InEpsilon(t, want, s.bound(eta, 1/eta), 1e-12)
				s.m = n // no batch is larger
				require.InEpsilon(t, radius*radius/(2*eta*steps)+eta*(l*l+d*sigma*sigma+2*l*l*steps/n)/2+rounding(),
					s.bound(eta, 1/eta), 1e-12)
				s.m = 2 * n
				require.InEpsilon(t, l*l+d*sigma*sigma+2*l*l*steps/n, s.variance(), 1e-12)
			}
		}
	}
}

func cond(ok bool, a, b float64) float64 {
	if ok {
		return a
	}
	return b
}

// declaredSetting is declared, checked.
func declaredSetting(t *testing.T, n, d int, eps, delta, l, beta, m float64) setting {
	t.Helper()
	q, b := declared(n, d, eps, delta, l, beta, m)
	s, err := newSetting(q, dp.Replace, b, 0)
	require.NoError(t, err)
	return s
}
