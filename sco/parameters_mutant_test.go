package sco

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// The tests of this file pin down formulas, constants and branches of the
// parameters by computing them a second time. They take milliseconds, because
// the noise is accounted for as that of full batches, which has a closed form:
// that the accountant is asked about the batches that are drawn is the business
// of TestWorstPair and of the audit's controls.

// cheap returns q with noise accounted for as that of full batches.
func cheap(q Public) Public {
	full := func(s accounting.Sampler) accounting.Sampler { return accounting.Full{Relation: s.Neighbors()} }
	q.faults = fault.From(fault.With(context.Background(), accounted, full))
	return q
}

// fullNoise is z of T full batches: σ of a Gaussian mechanism that moves by
// r√T, r = 2 for replacement and 1 else.
func fullNoise(t *testing.T, q Public, rel dp.Relation, steps float64) float64 {
	t.Helper()
	r := 2.
	if rel == dp.AddRemove {
		r = 1
	}
	sigma, err := dp.GaussianSigma(q.Budget, r*math.Sqrt(steps))
	require.NoError(t, err)
	return sigma
}

// TestCheckEnds: the ranges of the mechanisms' fields, one step inside and one
// outside.
func TestCheckEnds(t *testing.T) {
	for _, c := range []struct {
		m  NoisySGD
		ok bool
	}{
		{NoisySGD{}, true},
		{NoisySGD{Steps: accounting.MaxSteps}, true},
		{NoisySGD{Steps: accounting.MaxSteps + 1}, false},
		{NoisySGD{Steps: 1, Batch: 0.5, StepSize: 0.5, Evaluations: 0.5}, true},
		{NoisySGD{Steps: -1}, false},
		{NoisySGD{Records: -1}, false},
		{NoisySGD{Scheme: Poisson - 1}, false},
		{NoisySGD{Scheme: WithReplacement}, true},
		{NoisySGD{Scheme: WithReplacement + 1}, false},
		{NoisySGD{Calibration: Accounted - 1}, false},
		{NoisySGD{Calibration: PaperUnsafe}, true},
		{NoisySGD{Calibration: PaperUnsafe + 1}, false},
		{NoisySGD{Calibration: Paper, Steps: 1}, false},
		{NoisySGD{Calibration: Paper, Batch: 0.5}, false},
		{NoisySGD{Calibration: Paper, StepSize: 0.5}, false},
		{NoisySGD{Calibration: Paper, Evaluations: 0.5}, false},
		{NoisySGD{Calibration: Paper, Clip: 0.5, Radius: 2, Scheme: FixedSize}, true},
		{NoisySGD{Relation: dp.AddRemove}, true},
		{NoisySGD{Relation: dp.AddRemove, Scheme: FixedSize}, false},
		{NoisySGD{Relation: dp.AddRemove, Scheme: WithReplacement}, false},
		{NoisySGD{Relation: dp.AddRemove, Calibration: PaperStrict}, false},
	} {
		require.Equal(t, c.ok, c.m.check() == nil, "%+v", c.m)
	}
	q := cheap(quantities(1000, 5, 1, 1e-7, 1, 0.25, 1))
	for _, c := range []struct {
		m  DPSGD
		ok bool
	}{
		{DPSGD{Momentum: 0.97}, true}, {DPSGD{Momentum: 1}, false}, {DPSGD{Momentum: -0.01}, false},
		{DPSGD{Batch: 1, Epochs: accounting.MaxSteps / 1000.}, true}, {DPSGD{Batch: 1, Epochs: accounting.MaxSteps/1000. + 1e-3}, false},
	} {
		_, err := c.m.Calibrate(q)
		require.Equal(t, c.ok, err == nil, "%+v", c.m)
	}
	for _, c := range []struct {
		share float64
		ok    bool
	}{{0.97, true}, {1, false}, {-0.01, false}} {
		_, err := (&ObjPert{Share: c.share}).Calibrate(q)
		require.Equal(t, c.ok, err == nil, c.share)
	}
	for _, c := range []struct {
		m  PermutationSGD
		ok bool
	}{
		{PermutationSGD{Passes: 1, Batch: 1000}, true}, {PermutationSGD{Batch: 1001}, false},
		{PermutationSGD{Batch: -1}, false}, {PermutationSGD{Passes: -1}, false},
		{PermutationSGD{StepSize: 8}, true}, {PermutationSGD{StepSize: math.Nextafter(8, 9)}, false}, // 2/β
	} {
		_, err := c.m.Calibrate(q)
		require.Equal(t, c.ok, err == nil, "%+v", c.m)
	}
	for _, c := range []struct {
		step float64
		ok   bool
	}{{32, true}, {math.Nextafter(32, 33), false}} { // the first step is a quarter of it
		_, err := (&Phased{StepSize: c.step}).Calibrate(q)
		require.Equal(t, c.ok, err == nil, c.step)
	}
}

// TestPaperFormulas: T, m and the rate of the paper where either term of each
// decides, and the parameters that follow.
func TestPaperFormulas(t *testing.T) {
	q := quantities(8000, 10, 0.5, 1e-9, 1, 0.25, 1)
	log := 9 * math.Ln10
	require.InEpsilon(t, 1000, paperSteps(q), 1e-14)
	require.InEpsilon(t, 8000*math.Sqrt(0.5/600), paperBatch(q, 150), 1e-14)
	require.InEpsilon(t, 1/math.Sqrt(8000), rate(q), 1e-14)
	q.Budget.Epsilon = 0.1
	require.InEpsilon(t, 0.01*64e6/(320*log), paperSteps(q), 1e-14)
	require.InEpsilon(t, math.Sqrt(10*log)/800, rate(q), 1e-14)

	// The noise of one step is accounted for at once. Either term of the smoothness
	// that the theorems are stated for, at its end.
	for _, c := range []struct{ n, d, eps, delta, smooth, envelope float64 }{
		{12, 3, 0.5, 1e-3, 0.5 * 12 / (2 * math.Sqrt(6*3*math.Ln10)), 0.5 * 12 / (8 * math.Sqrt(9*math.Ln10))},
		{12, 1, 1, 6e-3, math.Sqrt(6), math.Sqrt(12) / 4},
	} {
		q := quantities(int(c.n), int(c.d), c.eps, c.delta, 3, 1, 2)
		if c.d == 1 { // the first term is less only for a δ near 1
			c.smooth = min(c.smooth, c.eps*c.n/(2*math.Sqrt(2*q.logDelta())))
			c.envelope = min(c.envelope, c.eps*c.n/(8*math.Sqrt(q.logDelta())))
		}
		q.Constants.Smoothness = 1.5 * c.smooth * (1 - 1e-12)
		pl, err := (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, 1, pl.Steps)
		m := math.Ceil(c.n * math.Sqrt(c.eps/4))
		require.Equal(t, accounting.WithReplacement{Size: int(m), Records: 12}, pl.Sampler)
		require.Equal(t, m, pl.Divisor)
		require.InEpsilon(t, 2./3, pl.StepSize, 1e-12) // M/(L√T)
		require.InEpsilon(t, math.Sqrt(8*q.logDelta())/(c.n*c.eps)*m, pl.PaperNoise, 1e-12)
		require.InEpsilon(t, pl.PaperNoise*3/m, pl.Sigma, 1e-12)
		require.InEpsilon(t, 60*rate(q), pl.PaperBound, 1e-12)
		comp, err := pl.Composition()
		require.NoError(t, err)
		require.Equal(t, comp.Delta(c.eps), pl.PaperDelta)
		require.Greater(t, pl.PaperDelta, c.delta)
		require.LessOrEqual(t, comp.Delta(pl.Certified.Epsilon), c.delta)
		require.Greater(t, comp.Delta(pl.Certified.Epsilon*(1-1e-6)), c.delta)
		_, err = (&NoisySGD{Calibration: PaperStrict}).Calibrate(q)
		require.ErrorIs(t, err, dp.ErrCondition)
		raised, err := (&NoisySGD{Calibration: Paper}).Calibrate(q)
		require.NoError(t, err)
		comp, err = raised.Composition()
		require.NoError(t, err)
		require.LessOrEqual(t, comp.Delta(c.eps), c.delta)
		require.Greater(t, raised.Noise, raised.PaperNoise)

		q.Constants.Smoothness = 1.5 * c.smooth * (1 + 1e-12)
		_, err = (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(q)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "needs at most")
		prox, err := (&ProxGD{NoisySGD: NoisySGD{Calibration: PaperUnsafe}}).Calibrate(q)
		require.NoError(t, err)
		require.InEpsilon(t, 1.5*c.envelope, prox.Smoothing, 1e-12)
		require.InEpsilon(t, 144*rate(q), prox.PaperBound, 1e-12)
	}
	// The other terms decide for many records.
	q = quantities(40, 1, 1, 1e-4, 3, 1, 2)
	q.Constants.Smoothness = 1e9
	_, err := (&NoisySGD{Calibration: Paper}).Calibrate(q)
	require.ErrorContains(t, err, "needs at most")
	text := err.Error()[strings.LastIndex(err.Error(), " = ")+3:]
	limit, err := strconv.ParseFloat(text[:strings.Index(text, ";")], 64)
	require.NoError(t, err)
	require.InEpsilon(t, 1.5*math.Sqrt(20), limit, 1e-12)
	many, err := (&ProxGD{NoisySGD: NoisySGD{Calibration: PaperUnsafe}}).Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, 1.5*math.Sqrt(40)/4, many.Smoothing, 1e-12)
	require.Equal(t, 5, many.Steps)
	require.InEpsilon(t, 2/(3*math.Sqrt(5)), many.StepSize, 1e-12)
	require.InEpsilon(t, math.Sqrt(8*5*q.logDelta())/40*many.Divisor, many.PaperNoise, 1e-12)

	// The ends of what the theorem is stated for: ε = 1 and δ = 1/n², where the
	// published noise of one step over many batch members is enough.
	q = quantities(10, 1, 1, 0.01, 1, 0.1, 1)
	for _, c := range []struct {
		edit func(q *Public)
		text string
	}{
		{func(q *Public) {}, ""},
		{func(q *Public) { q.Budget.Epsilon = math.Nextafter(1, 2) }, "ε ≤ 1"},
		{func(q *Public) { q.Budget.Delta = math.Nextafter(0.01, 1) }, "1/n²"},
	} {
		r := q
		c.edit(&r)
		_, err := (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(r)
		if c.text == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.text)
		}
	}
}

// TestScheduleFormulas: variance, step and bound for every scheme, with and
// without an envelope.
func TestScheduleFormulas(t *testing.T) {
	const n, d, l, m, radius, steps, sigma = 500., 7., 0.1, 40., 3., 60., 0.01
	q := quantities(n, d, 1, 1e-6, l, 0.25, radius)
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
				require.InEpsilon(t, want, s.bound(eta, beta), 1e-12)
			}
			require.True(t, math.IsInf(s.bound(eta, most/eta*(1+3e-12)), 1))
			require.True(t, math.IsInf(s.bound(eta, 0), 1))
			require.True(t, math.IsInf(s.bound(eta, math.NaN()), 1))
			// One record a batch: the Chernoff bound counts for no more than 1.
			if scheme == Poisson && !envelope {
				s.m = 1
				want := radius*radius/(2*eta*steps) + eta*s.variance()/2 + 2*l*radius
				require.InEpsilon(t, want, s.bound(eta, 1/eta), 1e-12)
				s.m = n // no batch is larger
				require.InEpsilon(t, radius*radius/(2*eta*steps)+eta*(l*l+d*sigma*sigma+2*l*l*steps/n)/2, s.bound(eta, 1/eta), 1e-12)
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

// TestApproximateNoise: the central limit, and full batches, for both relations.
func TestApproximateNoise(t *testing.T) {
	q := quantities(500, 7, 0.7, 1e-6, 1, 1, 1)
	s, err := dp.Calibrate(dp.GaussianCurve, q.Budget)
	require.NoError(t, err)
	for rel, r := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		require.InEpsilon(t, r*math.Sqrt(9)/s, approximateNoise(q, rel, 1, 9), 1e-12)
		z := approximateNoise(q, rel, 0.1, 9) // s = q√(T(e^{r²/z²} − 1))
		require.InEpsilon(t, s, 0.1*math.Sqrt(9*math.Expm1(r*r/(z*z))), 1e-12)
	}
	q.Budget.Delta = 2
	require.True(t, math.IsInf(approximateNoise(q, dp.Replace, 0.1, 9), 1))
}

// TestGivenSteps: with T and m fixed, everything else is a formula.
func TestGivenSteps(t *testing.T) {
	const n, d, radius, l = 500, 7, 3., 1.5
	for _, beta := range []float64{0.05, 1000, math.Inf(1)} {
		for _, c := range []struct {
			scheme  Scheme
			rel     dp.Relation
			sampler accounting.Sampler
			m       float64
		}{
			{Poisson, dp.Replace, accounting.Poisson{Rate: 20.5 / n, Relation: dp.Replace}, 20.5},
			{Poisson, dp.AddRemove, accounting.Poisson{Rate: 20.5 / n, Relation: dp.AddRemove}, 20.5},
			{FixedSize, dp.Replace, accounting.FixedSize{Size: 21, Records: n}, 21},
			{WithReplacement, dp.Replace, accounting.WithReplacement{Size: 21, Records: n}, 21},
		} {
			q := cheap(quantities(n, d, 1, 1e-6, l, beta, radius))
			m := NoisySGD{Steps: 30, Batch: 20.5, Scheme: c.scheme, Relation: c.rel, Records: n}
			pl, err := m.Calibrate(q)
			require.NoError(t, err)
			require.Equal(t, 30, pl.Steps)
			require.Equal(t, c.sampler, pl.Sampler)
			require.InEpsilon(t, c.m, pl.Divisor, 1e-15)
			require.InEpsilon(t, fullNoise(t, q, c.rel, 30), pl.Noise, 2e-6)
			require.InEpsilon(t, pl.Noise*l/pl.Divisor, pl.Sigma, 1e-14)
			s := schedule{q: q, l: l, steps: 30, m: pl.Divisor, sigma: pl.Sigma, scheme: c.scheme}
			require.InEpsilon(t, s.step(beta), pl.StepSize, 1e-14)
			if math.IsInf(beta, 1) {
				require.True(t, math.IsInf(pl.Bound, 1))
			} else {
				require.InEpsilon(t, s.bound(pl.StepSize, beta), pl.Bound, 1e-14)
			}
			require.Zero(t, pl.Smoothing)
			require.Equal(t, TheoremSGD, pl.Theorem)

			m.StepSize = 0.0123
			pl, err = m.Calibrate(q)
			require.NoError(t, err)
			require.Equal(t, 0.0123, pl.StepSize)

			s.envelope = true
			for _, given := range []float64{0, 0.7} {
				m.StepSize = 0
				prox, err := (&ProxGD{NoisySGD: m, Smoothing: given}).Calibrate(q)
				require.NoError(t, err)
				require.InEpsilon(t, s.step(beta), prox.StepSize, 1e-14)
				if given == 0 {
					require.InEpsilon(t, s.contraction()/prox.StepSize, prox.Smoothing, 1e-14)
				} else {
					require.Equal(t, given, prox.Smoothing)
				}
				require.InEpsilon(t, s.bound(prox.StepSize, prox.Smoothing), prox.Bound, 1e-14)
				require.Equal(t, TheoremProx, prox.Theorem)
			}
		}
	}
	// Where q has no Radius the mechanism's is taken, and n only for add/remove.
	q := cheap(quantities(500, 7, 1, 1e-6, 1, 0.05, 0))
	pl, err := (&NoisySGD{Steps: 3, Batch: 500, Radius: 0.5, Records: 1}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Radius)
	require.Equal(t, 500, pl.Records)
	pl, err = (&NoisySGD{Steps: 3, Batch: 500, Radius: 0.5, Records: 1, Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 1, pl.Records)
	q.Radius = 0.25
	pl, err = (&NoisySGD{Steps: 3, Batch: 500, Radius: 0.5, Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 500, pl.Records)
	require.Equal(t, 0.25, pl.Radius)
	// The last scheme is the plan's, not the mechanism's: the paper's batches do not
	// have the variance of a Poisson size.
	require.Equal(t, []Scheme{Poisson, FixedSize, WithReplacement},
		[]Scheme{schemeOf(accounting.Poisson{}), schemeOf(accounting.FixedSize{}), schemeOf(accounting.WithReplacement{})})
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

// TestSearch: the T and m chosen are the best of a plain search with formulas
// of its own over T = 1, √2, 2, … .
func TestSearch(t *testing.T) {
	for _, q := range []Public{
		quantities(6, 1, 40, 1e-2, 1, 1, 1),
		quantities(400, 3, 1, 1e-6, 1, 0.25, 1), quantities(3000, 8, 0.3, 1e-8, 2, 4, 0.5), quantities(100, 40, 5, 1e-4, 1, 1, 2),
		quantities(50, 1, 8, 1e-2, 1, math.Inf(1), 1), quantities(3, 1, 0.5, 1e-3, 1, 1, 1),
	} {
		for _, m := range []NoisySGD{
			{}, {Scheme: FixedSize}, {Scheme: WithReplacement}, {Relation: dp.AddRemove}, {Evaluations: 2000}, {Evaluations: 0.7},
			{Batch: 7}, {Batch: 0.5}, {Steps: 13}, {Steps: 1}, {Evaluations: 0.7, Batch: 1}, {Batch: 1e9}, {Evaluations: 1e9, Batch: 1},
		} {
			requireBest(t, q, m)
		}
	}
	// A given number of steps and batch size is the budget, whatever else is given.
	pl, err := (&NoisySGD{Steps: 5, Batch: 3, Evaluations: 1e6}).Calibrate(cheap(quantities(50, 2, 1, 1e-4, 1, 1, 1)))
	require.NoError(t, err)
	require.InEpsilon(t, 15, pl.Evaluations(), 1e-12)
}

// TestSearchTies: the same for problems among which ties within a few percent
// are frequent.
func TestSearchTies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, rnd.Float64()) }
	for range 100 {
		q := quantities(1+rnd.IntN(3000), 1+rnd.IntN(60), between(0.05, 40), between(1e-9, 1e-2), between(0.3, 3), between(0.01, 100), between(0.1, 10))
		requireBest(t, q, NoisySGD{Scheme: Scheme(rnd.IntN(3))})
	}
}

// requireBest searches by itself.
func requireBest(t *testing.T, q Public, m NoisySGD) {
	t.Helper()
	n, d, l, radius := q.n(), q.d(), q.Constants.Lipschitz, q.Radius
	budget := m.Evaluations
	if budget == 0 {
		eps := q.Budget.Epsilon
		steps := math.Max(1, math.Min(n/8, eps*eps*n*n/(32*d*q.logDelta())))
		budget = math.Max(n, steps*n*math.Sqrt(eps/(4*steps)))
	}
	least := 1.
	if m.Batch > 0 {
		least = math.Min(m.Batch, n)
	}
	reach := 1.
	if orReplace(m.Relation) == dp.Replace {
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
	unit, err := dp.Calibrate(dp.GaussianCurve, q.Budget)
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
		if beta := q.Constants.Smoothness; !math.IsInf(beta, 1) {
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
	m.Records = q.Records
	pl, err := m.Calibrate(cheap(q))
	require.NoError(t, err)
	require.Equal(t, int(wantSteps), pl.Steps, "%+v %+v", q, m)
	if m.Scheme != Poisson {
		wantBatch = math.Ceil(wantBatch)
	}
	require.InEpsilon(t, wantBatch, pl.Divisor, 1e-12, "%+v %+v", q, m)
}

func square(x float64) float64 { return x * x }

// TestDPSGD: T = ⌈Epochs·n/Batch⌉, the defaults, and the default step.
func TestDPSGD(t *testing.T) {
	q := cheap(quantities(400, 3, 1, 1e-6, 1, 0.25, 2))
	for _, c := range []struct {
		m     DPSGD
		steps int
		batch float64
	}{
		{DPSGD{}, 25, 80}, {DPSGD{Epochs: 0.3}, 2, 80}, {DPSGD{Epochs: 0.01}, 1, 80}, {DPSGD{Batch: 60, Epochs: 1}, 7, 60},
		{DPSGD{Batch: 0.5, Epochs: 1}, 400, 1}, {DPSGD{Batch: 1000}, 5, 400}, {DPSGD{Momentum: 0.75}, 25, 80},
	} {
		pl, err := c.m.Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, c.steps, pl.Steps)
		require.InEpsilon(t, c.batch, pl.Divisor, 1e-14)
		require.InEpsilon(t, fullNoise(t, q, dp.Replace, float64(c.steps)), pl.Noise, 2e-6)
		s := schedule{q: q, l: 1, steps: float64(c.steps), m: pl.Divisor, sigma: pl.Noise / pl.Divisor}
		require.InEpsilon(t, s.step(0.25)*(1-c.m.Momentum), pl.StepSize, 1e-13)
		require.True(t, math.IsInf(pl.Bound, 1))
		require.True(t, pl.Last)
	}
	pl, err := (&DPSGD{StepSize: 0.01, Average: true, Relation: dp.AddRemove, Records: 1, Clip: 0.5}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.01, pl.StepSize)
	require.Equal(t, 1, pl.Records)
	require.Equal(t, 0.5, pl.Clip)
	require.False(t, pl.Last)
	pl, err = (&DPSGD{Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 400, pl.Records)
	pl, err = (&DPSGD{Records: 1}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 400, pl.Records)
	q.Radius = 0
	pl, err = (&DPSGD{Radius: 0.5}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Radius)
	_, err = (&DPSGD{StepSize: 0.01}).Calibrate(q) // needs none
	require.NoError(t, err)
	_, err = (&DPSGD{}).Calibrate(q)
	require.ErrorIs(t, err, ErrMechanism)
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

// TestPassFormulas: step, noise and bound of the permutation methods.
func TestPassFormulas(t *testing.T) {
	q := quantities(300, 4, 0.8, 1e-6, 1.5, 0.4, 2)
	unit, err := dp.GaussianSigma(q.Budget, 1)
	require.NoError(t, err)
	for _, c := range []PermutationSGD{{}, {Passes: 3, Batch: 7}, {Batch: 7}, {Batch: 300}, {StepSize: 0.3}} {
		pl, err := c.Calibrate(q)
		require.NoError(t, err)
		k, b := math.Max(1, float64(c.Passes)), math.Max(1, float64(c.Batch))
		require.Equal(t, int(k), pl.Passes)
		require.Equal(t, int(b), pl.Batch)
		steps := math.Floor(300 / b)
		v := 1.5*1.5 + 2*1.5*2*k*1.5/b*unit*2 // L² + 2Lσ√d/η
		eta := math.Min(2/math.Sqrt(steps*v), 2/0.4)
		if c.StepSize > 0 {
			eta = c.StepSize
		}
		ph := pl.Phases[0]
		require.InEpsilon(t, eta, ph.StepSize, 2e-9)
		require.InEpsilon(t, 2*k*1.5*eta/b, ph.Sensitivity, 2e-9)
		require.GreaterOrEqual(t, ph.Sigma, unit*ph.Sensitivity)
		require.InEpsilon(t, unit*ph.Sensitivity, ph.Sigma, 2e-9)
		require.Equal(t, 300, ph.Records)
		if k > 1 {
			require.True(t, math.IsInf(pl.Bound, 1))
		} else {
			require.InEpsilon(t, 4/(2*ph.StepSize*steps)+ph.StepSize*1.5*1.5/2+1.5*ph.Sigma*2, pl.Bound, 1e-8)
		}
	}
	steep := q
	steep.Constants.Smoothness = 1e4
	pl, err := (&PermutationSGD{}).Calibrate(steep)
	require.NoError(t, err)
	require.InEpsilon(t, 2e-4, pl.Phases[0].StepSize, 1e-12)

	for n, sizes := range map[int][]int{1: {1}, 2: {2}, 3: {3}, 4: {3, 1}, 300: {154, 75, 37, 18, 9, 4, 2, 1}} {
		for _, step := range []float64{0, 0.3} {
			q.Records = n
			pl, err := (&Phased{StepSize: step}).Calibrate(q)
			require.NoError(t, err)
			require.Len(t, pl.Phases, len(sizes))
			eta := pl.Phases[0].StepSize * 4
			bound := 4 / (2 * pl.Phases[0].StepSize * float64(sizes[0]))
			for i, ph := range pl.Phases {
				require.Equal(t, sizes[i], ph.Records)
				require.InEpsilon(t, eta*math.Pow(4, -float64(i+1)), ph.StepSize, 1e-13)
				require.InEpsilon(t, 3*ph.StepSize, ph.Sensitivity, 1e-13)
				require.GreaterOrEqual(t, ph.Sigma, unit*ph.Sensitivity)
				require.InEpsilon(t, unit*ph.Sensitivity, ph.Sigma, 2e-9)
				bound += ph.StepSize * 1.5 * 1.5 / 2
				if i > 0 {
					bound += 4 * square(pl.Phases[i-1].Sigma) / (2 * ph.StepSize * float64(ph.Records))
				}
			}
			bound += 1.5 * pl.Phases[len(sizes)-1].Sigma * 2
			require.InEpsilon(t, bound, pl.Bound, 1e-12)
			if step > 0 {
				require.InEpsilon(t, step, eta, 1e-13)
				continue
			}
			for _, f := range []float64{0.97, 1.03} { // no step is better
				other, err := (&Phased{StepSize: f * eta}).Calibrate(q)
				require.NoError(t, err)
				require.Greater(t, other.Bound, pl.Bound)
			}
		}
	}
	steep.Records = 300
	phased, err := (&Phased{}).Calibrate(steep)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{phased.Passes, phased.Batch})
	require.InEpsilon(t, 2e-4, phased.Phases[0].StepSize, 1e-12)
	q.Radius = 0
	phased, err = (&Phased{Radius: 0.5}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, phased.Radius)
	pl, err = (&PermutationSGD{Radius: 0.5}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Radius)
}

// TestValidEnds: plans whose values no sampler can hold, one step inside and one
// outside.
func TestValidEnds(t *testing.T) {
	const below = largest * (1 - 0x1p-53)
	sgd := func(edit func(pl *SGDPlan)) error {
		pl := &SGDPlan{Theorem: TheoremSGD, Sampler: accounting.Full{}, Noise: 0.5, Clip: 0.5, Divisor: 0.5, Steps: 1, StepSize: 0.5, Smoothing: 0.5}
		edit(pl)
		return pl.valid()
	}
	obj := func(edit func(pl *ObjPlan)) error {
		pl := &ObjPlan{Theorem: TheoremObjPert, Delta: 0.5, Cover: 0.5, OutputSigma: 0.5, Sigma: 0.5}
		edit(pl)
		return pl.valid()
	}
	pass := func(edit func(pl *PassPlan)) error {
		pl := &PassPlan{Theorem: TheoremPSGD, Batch: 1, Passes: 1, Phases: []Phase{{Records: 1, StepSize: 0.5, Sigma: 0.5}, {Records: 2, StepSize: 0.5, Sigma: 0.5}}}
		pl.Records, pl.Constants.Lipschitz = 3, 0.5
		edit(pl)
		return pl.valid()
	}
	for i, err := range []error{
		sgd(func(pl *SGDPlan) {}), sgd(func(pl *SGDPlan) { pl.Smoothing = 0 }), sgd(func(pl *SGDPlan) { pl.Smoothing = below }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip, pl.StepSize, pl.Divisor = below, 1, 1e-9, 1 }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip, pl.StepSize, pl.Divisor = 1, 1, below, 1 }),
		sgd(func(pl *SGDPlan) { pl.StepSize, pl.Divisor = 0x1p402, 8 }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip = 1, 0x1.01p-400 }), pass(func(pl *PassPlan) { pl.Constants.Lipschitz = 0x1.01p-400 }),
		obj(func(pl *ObjPlan) {}), obj(func(pl *ObjPlan) { pl.Sigma, pl.Theorem = 0, TheoremOutput }), obj(func(pl *ObjPlan) { pl.Delta = below }),
		obj(func(pl *ObjPlan) { pl.Sigma = below }), obj(func(pl *ObjPlan) { pl.OutputSigma = below }),
		pass(func(pl *PassPlan) {}), pass(func(pl *PassPlan) { pl.Phases[1].Sigma = below }), pass(func(pl *PassPlan) { pl.Phases[1].StepSize = below }),
	} {
		require.NoError(t, err, i)
	}
	for i, err := range []error{
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip = 1, 1/largest }), pass(func(pl *PassPlan) { pl.Constants.Lipschitz = 1 / largest }),
		sgd(func(pl *SGDPlan) { pl.Theorem = "" }), sgd(func(pl *SGDPlan) { pl.Sampler = nil }), sgd(func(pl *SGDPlan) { pl.Noise = 0 }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip, pl.StepSize, pl.Divisor = largest, 1, 1e-9, 1 }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip, pl.StepSize = 0x1p300, 0x1p150, 0x1p-100 }),
		sgd(func(pl *SGDPlan) { pl.Divisor = 0 }), sgd(func(pl *SGDPlan) { pl.Steps = 0 }), sgd(func(pl *SGDPlan) { pl.StepSize = 0 }),
		sgd(func(pl *SGDPlan) { pl.Noise, pl.Clip, pl.StepSize, pl.Divisor = 1, 1, largest, 1 }),
		sgd(func(pl *SGDPlan) { pl.Smoothing = -1 }), sgd(func(pl *SGDPlan) { pl.Smoothing = largest }), sgd(func(pl *SGDPlan) { pl.Smoothing = math.NaN() }),
		obj(func(pl *ObjPlan) { pl.Theorem = "" }), obj(func(pl *ObjPlan) { pl.Delta = 0 }), obj(func(pl *ObjPlan) { pl.Delta = largest }),
		obj(func(pl *ObjPlan) { pl.Cover = 0 }), obj(func(pl *ObjPlan) { pl.OutputSigma = 0 }), obj(func(pl *ObjPlan) { pl.OutputSigma = largest }),
		obj(func(pl *ObjPlan) { pl.Sigma = 0 }), obj(func(pl *ObjPlan) { pl.Sigma = largest }), obj(func(pl *ObjPlan) { pl.Sigma = math.NaN() }),
		pass(func(pl *PassPlan) { pl.Theorem = "" }), pass(func(pl *PassPlan) { pl.Phases = nil }), pass(func(pl *PassPlan) { pl.Batch = 0 }),
		pass(func(pl *PassPlan) { pl.Passes = 0 }), pass(func(pl *PassPlan) { pl.Records = 2 }), pass(func(pl *PassPlan) { pl.Phases[1].Records = 0 }),
		pass(func(pl *PassPlan) { pl.Phases[1].Sigma = 0 }), pass(func(pl *PassPlan) { pl.Phases[1].Sigma = largest }),
		pass(func(pl *PassPlan) { pl.Phases[1].StepSize = 0 }), pass(func(pl *PassPlan) { pl.Phases[1].StepSize = largest }),
	} {
		require.ErrorIs(t, err, ErrMechanism, i)
	}
}

// TestClipEnds: what is within the limit stays as it is, what is far beyond keeps
// its direction, and slopes are clipped from both sides.
func TestClipEnds(t *testing.T) {
	g := []float64{3, -4}
	clip(g, 5.001)
	require.Equal(t, []float64{3, -4}, g)
	clip(g, 5) // the exact norm of what is left is at most the limit
	require.InDeltaSlice(t, []float64{3, -4}, g, 1e-13)
	clip(g, 1)
	require.InDeltaSlice(t, []float64{0.6, -0.8}, g, 1e-14)
	require.LessOrEqual(t, floats.Norm(g, 2), 1.)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.MaxFloat64, 0x1.1p1000} {
		g = []float64{bad, bad}
		clip(g, 1)
		require.Equal(t, []float64{0, 0}, g)
	}
	g = []float64{0x1.08p1000, 0}
	clip(g, 1)
	require.Equal(t, []float64{0, 0}, g)
	g = []float64{0x1.fp998, 0}
	clip(g, 1)
	require.InDelta(t, 1, g[0], 1e-14)
	g = []float64{1e300, 0} // 1e-320 is not held to all digits
	clip(g, 1e-20)
	require.Equal(t, []float64{0, 0}, g)
	for norm, want := range map[float64]float64{0x1.1p1000: 0, 0x1.fp999: 0x1p-1000 / 0x1.fp-1} {
		_, got, _ := clippedSlope{constantSlope{slope: 1}, 1}.Scalar(0, 1, norm)
		require.InDelta(t, want, got, 1e-14*want)
	}
	// Next to the limit, where the rounding of the norm counts: the exact norm of
	// what is left is at most the limit.
	const limit, precision = 0.3, 300
	norm2 := func(g []float64) *big.Float {
		sum := new(big.Float).SetPrec(precision)
		for _, v := range g {
			x := new(big.Float).SetPrec(precision).SetFloat64(v)
			sum.Add(sum, x.Mul(x, x))
		}
		return sum
	}
	most := norm2([]float64{limit})
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range 4000 {
		g := make([]float64, 1+rnd.IntN(12))
		for j := range g {
			g[j] = rnd.NormFloat64()
		}
		floats.Scale(limit/floats.Norm(g, 2)*(1+float64(i%64-32)*0x1p-53), g)
		clip(g, limit)
		require.LessOrEqual(t, norm2(g).Cmp(most), 0, g)
		require.Greater(t, floats.Norm(g, 2), limit*(1-1e-13))
	}
	require.Equal(t, loss.Constants{Lipschitz: 1, Smoothness: 1e-9, Rank: 1, Structure: loss.GLM}, clippedSlope{linearLoss{}, 1}.Constants(loss.Bounds{Row: 1, Label: 1}, 1))
	for _, c := range []struct{ slope, want float64 }{{7, 1.5}, {-7, -1.5}, {1.2, 1.2}, {-1.2, -1.2}, {math.NaN(), 0}} {
		_, got, _ := clippedSlope{constantSlope{slope: c.slope}, 3}.Scalar(0, 1, 2)
		require.InDelta(t, c.want, got, 1e-14)
	}
}

// constantSlope is a loss with φ′ = slope.
type constantSlope struct {
	linearLoss
	slope float64
}

func (c constantSlope) Scalar(_, _, _ float64) (phi, dphi, d2phi float64) { return 0, c.slope, 0 }

// TestSearchLeavesFloat64: bounds that overflow are refused as such.
func TestSearchLeavesFloat64(t *testing.T) {
	for _, m := range []NoisySGD{{}, {Steps: 3}, {Batch: 3}} {
		_, err := m.Calibrate(quantities(50, 2, 1, 1e-4, 1, 1, 1e200))
		require.ErrorIs(t, err, ErrMechanism)
		require.ErrorContains(t, err, "rescale")
	}
}

// TestPassPath: without noise a pass over equal records is a path that is known:
// two batches of two records with the gradient −1, a ridge, and the average of
// the points where gradients are taken.
func TestPassPath(t *testing.T) {
	p := axis(4, -1) // ∇ = 1
	p.Set = nil
	p.Reg = prox.SquaredL2{Weight: 8}
	var tr Trace
	m := &PermutationSGD{Radius: 1, Batch: 2, StepSize: 0.1, Trace: func(t Trace) { tr = t }}
	silent := fault.With(ctx, fault.Sampler, func(fault.Normal) fault.Normal {
		return func(dst []float64, _ float64, _ rand.Source) { clear(dst) }
	})
	rel, err := m.Fit(silent, p, dp.Budget{Epsilon: 1, Delta: 1e-5}, noise.Reproducible(1))
	require.NoError(t, err)
	require.InDelta(t, -0.1/(1+8*0.1/4)/2, rel.Theta[0], 1e-12) // points 0 and −η/(1+ημ/n)
	require.Equal(t, Trace{Steps: 2, Evaluations: 4, Released: true}, tr)
	p.Set = prox.Box{Lo: -0.01, Hi: 1}
	rel, err = m.Fit(silent, p, dp.Budget{Epsilon: 1, Delta: 1e-5}, noise.Reproducible(1))
	require.NoError(t, err)
	require.InDelta(t, -0.005, rel.Theta[0], 1e-12)
}

// TestBeyondAccounting: published parameters that nothing can be accounted for,
// and sensitivities that overflow.
func TestBeyondAccounting(t *testing.T) {
	q := quantities(1<<50, 1, 1, 1e-40, 1, 1, 1) // more steps than a composition takes
	_, err := (&NoisySGD{Calibration: Paper}).Calibrate(q)
	require.ErrorIs(t, err, accounting.ErrSampler)
	q = quantities(100, 1, 1, 1e-16, 1, 1, 1) // several steps, below the least δ that is resolved
	_, err = (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(q)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "no ε")
	_, err = (&NoisySGD{Calibration: Paper}).Calibrate(q)
	require.ErrorContains(t, err, "cannot be raised")
	_, err = (&Output{Lambda: 5e-324, Cover: 1}).Calibrate(q)
	require.Error(t, err)
}
