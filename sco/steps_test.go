package sco

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// The envelope of a loss that hides its form, by the inner solver, agrees with
// that of the loss of ⟨a,w⟩, to the accuracy that is asked for.
func TestEnvelopeTwoWays(t *testing.T) {
	w, a := []float64{0.4, -0.2, 1}, []float64{0.6, 0.1, -0.5}
	got, want := make([]float64, 3), make([]float64, 3)
	for _, l := range []loss.Linear{loss.Logistic{}, loss.Huber{Delta: 0.3}, loss.SmoothedHinge{Gamma: 0.5}} {
		for _, beta := range []float64{0.1, 1, 20} {
			for _, b := range []float64{-1, 0.7} {
				e := envelope{general{l}, beta, l.Constants(loss.Bounds{Row: 1, Label: 1}, 10).Smoothness, 1e-9}
				e.Grad(got, w, a, b)
				loss.Moreau{Loss: l, Beta: beta}.Grad(want, w, a, b)
				require.InDeltaSlice(t, want, got, 1e-8)
			}
		}
	}
	// With a kink the subgradient method is within 4L/√(K+1) of it.
	e := envelope{general{loss.Absolute{}}, 2, math.Inf(1), 1e-9}
	e.Grad(got, w, a, 0.1)
	loss.Moreau{Loss: loss.Absolute{}, Beta: 2}.Grad(want, w, a, 0.1)
	require.Less(t, floats.Distance(got, want, 2), 4*floats.Norm(a, 2)/math.Sqrt(innerSteps+1))
}

// ProxGD serves losses of any form.
func TestProxGDGeneral(t *testing.T) {
	p := problem(6, 60, 2)
	p.Loss = loss.Multinomial{Classes: 2}
	m := &ProxGD{NoisySGD: NoisySGD{Steps: 20, Batch: 20}}
	rel, err := m.Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, noise.Reproducible(1))
	require.NoError(t, err)
	require.False(t, floats.HasNaN(rel.Theta))
}

// A fit of a hundred times the steps takes no more memory.
func TestMemory(t *testing.T) {
	p := problem(1, 500, 4)
	for _, m := range []*NoisySGD{{}, {Scheme: FixedSize}, {Scheme: WithReplacement}} {
		m.Steps, m.Batch = 50, 50
		plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		bytes := func(steps int) uint64 {
			pl := *plan
			pl.Steps = steps
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = pl.Fit(ctx, p, noise.Reproducible(1))
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		few := bytes(50)
		require.Less(t, bytes(5000), 2*few+4096) // buffers of batches may grow once
	}
}

// Traces count what was done; batches may be empty, and their steps still add
// noise.
func TestTrace(t *testing.T) {
	p := problem(1, 100, 2)
	var tr Trace
	m := &NoisySGD{Steps: 200, Batch: 1, Trace: func(t Trace) { tr = t }}
	pl, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
	require.NoError(t, err)
	_, err = pl.Fit(ctx, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, 200, tr.Steps)
	require.InDelta(t, pl.Evaluations(), float64(tr.Evaluations), 5*math.Sqrt(200))
	require.InDelta(t, 200/math.E, float64(tr.Empty), 40) // 5 standard deviations and more

	// A rate at which no batch has a record: the release is noise all the same.
	empty := *pl
	empty.Sampler = accounting.Poisson{Rate: 1e-12}
	one, err := empty.Fit(ctx, p, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, 200, tr.Empty)
	require.NotZero(t, one.Theta[0])
}

// A regularizer enters as its proximal map; its weight does not enter privacy.
func TestRegularizer(t *testing.T) {
	p := problem(1, 2000, 3)
	b := dp.Budget{Epsilon: 5, Delta: 1e-5}
	m := &NoisySGD{Steps: 100, Batch: 200}
	plain, err := m.Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	p.Reg = prox.SquaredL2{Weight: 1000}
	shrunk, err := m.Fit(ctx, p, b, noise.Reproducible(1))
	require.NoError(t, err)
	require.Less(t, floats.Norm(shrunk.Theta, 2), 0.7*floats.Norm(plain.Theta, 2))
	for _, other := range []mechanism{&Phased{}, &ObjPert{}, &Output{}} {
		_, err := other.Fit(ctx, p, b, noise.Reproducible(1))
		require.NoError(t, err)
	}
}

// Sets without 0 start at the projection of 0, at most twice the radius away.
func TestStart(t *testing.T) {
	p := problem(1, 50, 2)
	p.Set = prox.Box{Lo: 1, Hi: 2}
	pl, err := (&NoisySGD{Steps: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	require.InEpsilon(t, 2*math.Sqrt(8), pl.Radius, 1e-12)
	require.Equal(t, []float64{1, 1}, start(p.Set, 2))
	p.Set = nil // a Radius is needed, and enough
	_, err = (&NoisySGD{Steps: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.ErrorIs(t, err, ErrMechanism)
	rel, err := (&NoisySGD{Steps: 1, Radius: 2}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
	require.Len(t, rel.Theta, 2)
	_, err = (&DPSGD{StepSize: 0.1}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
}

// Clipping below the constant of a loss of ⟨a,w⟩ keeps a bound, for the clipped
// loss; of another loss it does not.
func TestClipBelow(t *testing.T) {
	q := quantities(1000, 3, 1, 1e-6, 1, 0.25, 1)
	pl, err := (&NoisySGD{Clip: 0.5, Steps: 50}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, pl.Clip)
	require.False(t, math.IsInf(pl.Bound, 1))
	q.Constants.Structure = loss.General
	pl, err = (&NoisySGD{Clip: 0.5, Steps: 50}).Calibrate(q)
	require.NoError(t, err)
	require.True(t, math.IsInf(pl.Bound, 1))
	pl, err = (&NoisySGD{Clip: 3, Steps: 50}).Calibrate(q) // a clip that does nothing
	require.NoError(t, err)
	require.Equal(t, 1., pl.Clip)
	q.Constants.Smoothness = math.Inf(1)
	pl, err = (&NoisySGD{Steps: 50}).Calibrate(q)
	require.NoError(t, err)
	require.True(t, math.IsInf(pl.Bound, 1))
}

// More budget, fewer noise; more records, smaller bounds.
func TestMonotone(t *testing.T) {
	at := func(n int, eps float64) []float64 {
		q := quantities(n, 5, eps, 1e-8, 1, 0.25, 1)
		var bounds []float64
		for _, c := range []interface {
			Calibrate(q Public) (*ObjPlan, error)
		}{&ObjPert{}, &Output{}} {
			pl, err := c.Calibrate(q)
			require.NoError(t, err)
			bounds = append(bounds, pl.Bound)
		}
		ph, err := (&Phased{}).Calibrate(q)
		require.NoError(t, err)
		perm, err := (&PermutationSGD{}).Calibrate(q)
		require.NoError(t, err)
		sgd, err := (&NoisySGD{}).Calibrate(q)
		require.NoError(t, err)
		return append(bounds, ph.Bound, perm.Bound, sgd.Bound)
	}
	base, more, private := at(2000, 1), at(4000, 1), at(2000, 0.3)
	for i := range base {
		require.Less(t, more[i], base[i], i)
		require.Greater(t, private[i], base[i], i)
	}
}

// The bound at the chosen step is the least around, and formats are stable.
func TestScheduleAndNames(t *testing.T) {
	q := quantities(1000, 5, 1, 1e-6, 1, 0.25, 1)
	for _, scheme := range []Scheme{Poisson, FixedSize} {
		s := schedule{q: q, l: 1, steps: 100, m: 100, sigma: 0.05, scheme: scheme}
		eta := s.step(0.25)
		for _, f := range []float64{0.8, 1.25} {
			require.Greater(t, s.bound(f*eta, 0.25), s.bound(eta, 0.25))
		}
		require.True(t, math.IsInf(s.bound(9, 0.25), 1))
	}
	require.Equal(t, "poisson fixed-size with-replacement invalid scheme 4", Poisson.String()+" "+FixedSize.String()+" "+WithReplacement.String()+" "+Scheme(4).String())
	require.Equal(t, "accounted paper paper-strict paper-unsafe invalid calibration 9", Accounted.String()+" "+Paper.String()+" "+PaperStrict.String()+" "+PaperUnsafe.String()+" "+Calibration(9).String())
}
