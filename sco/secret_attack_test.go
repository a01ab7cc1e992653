package sco

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/spy"
	"github.com/privopt/privopt/noise"
)

// TestNothingPrintsNoise: fits with a trace, releases, withheld and cancelled
// ones, plans, problems and sources are printed in every way there is, and no
// value of any noise is found in what they show.
func TestNothingPrintsNoise(t *testing.T) {
	var log strings.Builder
	show := func(v any) { log.WriteString(spy.Everything(v)) }
	trace := func(tr Trace) { show(tr); show(&tr) }
	p := problem(8, 40, 5)
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	type planned func(ctx context.Context, src rand.Source) (*dp.Release, error)
	var s spy.Spy
	for name, plan := range map[string]func() (any, planned, error){
		"sgd": func() (any, planned, error) {
			pl, err := (&NoisySGD{Steps: 4, Batch: 5, Trace: trace}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"prox": func() (any, planned, error) {
			pl, err := (&ProxGD{NoisySGD: NoisySGD{Steps: 4, Batch: 5, Trace: trace}}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"dpsgd": func() (any, planned, error) {
			pl, err := (&DPSGD{Epochs: 2, Trace: trace, Momentum: 0.9}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"objpert": func() (any, planned, error) {
			pl, err := (&ObjPert{Trace: trace}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"output": func() (any, planned, error) {
			pl, err := (&Output{Trace: trace}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"permutation": func() (any, planned, error) {
			pl, err := (&PermutationSGD{Trace: trace}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
		"phased": func() (any, planned, error) {
			pl, err := (&Phased{Trace: trace}).Plan(p, b)
			return *pl, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return pl.Fit(ctx, p, src) }, err
		},
	} {
		pl, fit, err := plan()
		require.NoError(t, err, name)
		show(fmt.Sprintf("%v %+v %#v", pl, pl, pl))
		src := noise.Reproducible(63, name)
		ctx := fault.With(t.Context(), fault.Sampler, s.Sampler)
		before := s.Len()
		for range 2 {
			rel, err := fit(ctx, src)
			require.NoError(t, err, name)
			show(rel)
			show(*rel)
			show(src)
		}
		require.GreaterOrEqual(t, s.Len()-before, 10, name) // two fits of at least one draw in five dimensions
		if rel, err := fit(fault.With(ctx, fault.Certified, func(bool) bool { return false }), src); err != nil {
			require.ErrorIs(t, err, dp.ErrWithheld)
			require.Nil(t, rel, name)
			show(err)
		}
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		rel, err := fit(stopped, src)
		require.ErrorIs(t, err, context.Canceled, name)
		require.Nil(t, rel, name)
		show(err)
	}
	show(p)
	value, form, found := s.Find(log.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
	require.Contains(t, log.String(), "sco.Trace(not private)")
}

// TestNothingIsKept: the noise of gradients is erased from what the fit
// allocated for it, also when it is cancelled.
func TestNothingIsKept(t *testing.T) {
	p := problem(9, 40, 3)
	pl, err := (&NoisySGD{Steps: 3, Batch: 5}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	for _, stop := range []bool{false, true} {
		var nu []float64
		ctx, cancel := context.WithCancel(t.Context())
		ctx = fault.With(ctx, fault.Noise, func(v []float64) []float64 {
			if nu = v; stop {
				cancel()
			}
			return v
		})
		_, err = pl.Fit(ctx, p, nil)
		require.Equal(t, stop, err != nil)
		require.Equal(t, make([]float64, 3), nu)
		cancel()
	}
}

// TestTracePrintsNothing: no verb, flag or encoder shows a number of a trace.
func TestTracePrintsNothing(t *testing.T) {
	trace := Trace{Steps: 1234567891, Evaluations: 1234567892, Empty: 1234567893, Residual: 0.123456789, Distance: 9.87654321}
	var s spy.Spy
	s.See(trace.Residual, trace.Distance)
	for _, v := range []any{trace, &trace, []Trace{trace}, struct{ T Trace }{trace}} {
		text := spy.Everything(v)
		value, form, found := s.Find(text)
		require.False(t, found, "%v of a trace is printed as %q", value, form)
		require.NotContains(t, text, "123456789")
	}
}
