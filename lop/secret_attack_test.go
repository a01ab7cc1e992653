package lop_test

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/spy"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// TestNothingPrintsNoise: fits with a trace, releases, withheld releases,
// problems, plans, sources and panics are printed in every way there is, and no
// value of b or ν is found in what they show.
func TestNothingPrintsNoise(t *testing.T) {
	var log strings.Builder
	show := func(v any) { log.WriteString(spy.Everything(v)) }
	c := sphere(30, 5, noise.Reproducible(61))
	p := c.problem(t)
	p.Reg, p.Set = prox.L1{Weight: 0.1}, prox.Box{Lo: -3, Hi: 3}
	m := &lop.Mechanism{Trace: func(tr lop.Trace) { show(tr); show(&tr) }}
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)

	var s spy.Spy
	ctx := fault.With(t.Context(), fault.Sampler, s.Sampler)
	src := noise.Reproducible(62)
	for range 5 {
		rel, err := plan.Fit(ctx, p, src)
		require.NoError(t, err)
		show(rel)
		show(*rel)
		show(plan.Public)
		show(fmt.Sprintf("%v %+v %#v", plan, plan, plan))
		show(p)
		show(src)
	}
	withheld := fault.With(ctx, fault.Certified, func(bool) bool { return false })
	rel, err := plan.Fit(withheld, p, src)
	require.ErrorIs(t, err, dp.ErrWithheld)
	require.Nil(t, rel)
	show(err)
	show(err.Error())
	show(errors.Unwrap(err))

	// A regularizer of the caller that panics in the middle of a solve.
	broken := *p
	broken.Reg, broken.Set = exploding{}, nil
	func() {
		defer func() {
			r := recover()
			require.Equal(t, "exploding", r)
			show(r)
			log.Write(debug.Stack())
		}()
		plan.Fit(ctx, &broken, src)
	}()
	require.Equal(t, 60, s.Len()) // 5 fits of b and ν, one withheld b, one lost b, each of 5
	value, form, found := s.Find(log.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
	require.Contains(t, log.String(), "lop.Trace(not private)")
}

// exploding is an operator that fails where a solver first uses it.
type exploding struct{}

func (exploding) Func([]float64) float64           { return 0 }
func (exploding) Prox(dst, x []float64, _ float64) { panic("exploding") }
func (exploding) Dist(_, v []float64) float64      { return math.Inf(1) }

var _ prox.Subdifferential = exploding{}

// TestNothingIsKept: the noise is erased from what the fit allocated for it.
func TestNothingIsKept(t *testing.T) {
	c := sphere(10, 3, noise.Reproducible(63))
	p := c.problem(t)
	plan, err := (&lop.Mechanism{Radius: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)
	var b []float64
	ctx := fault.With(t.Context(), fault.Noise, func(v []float64) []float64 { b = v; return v })
	_, err = plan.Fit(ctx, p, nil)
	require.NoError(t, err)
	require.Equal(t, make([]float64, 3), b)
}

// TestTracePrintsNoPoint: θ̂ beside a release would be its output noise, so no verb,
// flag or encoder shows it, nor anything else of a trace.
func TestTracePrintsNoPoint(t *testing.T) {
	var trace lop.Trace
	p := sphere(10, 3, noise.Reproducible(64)).problem(t)
	_, err := (&lop.Mechanism{Radius: 1, Trace: func(tr lop.Trace) { trace = tr }}).Fit(t.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
	require.NoError(t, err)
	var s spy.Spy
	s.See(trace.Theta...)
	s.See(trace.Objective, trace.Residual, trace.Distance, trace.Gap)
	for _, v := range []any{trace, &trace, []lop.Trace{trace}, struct{ T lop.Trace }{trace}} {
		value, form, found := s.Find(spy.Everything(v))
		require.False(t, found, "%v of a trace is printed as %q", value, form)
	}
}
