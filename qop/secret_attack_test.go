package qop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/spy"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/qop"
)

// TestNothingPrintsNoise: fits with a trace, releases, withheld releases,
// problems, plans, sources and errors are printed in every way there is, and no
// entry of W or of the output noise is found in what they show.
func TestNothingPrintsNoise(t *testing.T) {
	var log strings.Builder
	show := func(v any) { log.WriteString(spy.Everything(v)) }
	rows, labels := records(30, 3, noise.Reproducible(61))
	p := problem(t, rows, labels, loss.Squared{})
	m := &qop.Mechanism{Center: anchor, Interpolation: qop.Trust{}, Trace: func(tr qop.Trace) { show(tr); show(&tr) }}
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	var s spy.Spy
	ctx := fault.With(fault.With(t.Context(), fault.Sampler, s.Sampler), fault.Wishart, s.Wishart)
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
	require.Equal(t, 6*6+5*3, s.Len()) // six triangles of W, five vectors ν
	value, form, found := s.Find(log.String())
	require.False(t, found, "noise value %v is printed as %q", value, form)
	require.Contains(t, log.String(), "qop.Trace(not private)")
}

// TestNothingIsKept: the matrix is erased after the fit.
func TestNothingIsKept(t *testing.T) {
	rows, labels := records(10, 3, noise.Reproducible(63))
	p := problem(t, rows, labels, loss.Squared{})
	var w *mat.SymDense
	ctx := fault.With(t.Context(), fault.Wishart, func(v *mat.SymDense) *mat.SymDense { w = v; return v })
	_, err := (&qop.Mechanism{Center: anchor, Interpolation: qop.Relabel{}}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
	for _, v := range w.RawSymmetric().Data {
		require.Zero(t, v)
	}
}

// TestTracePrintsNoPoint: θ̂ beside a release would be its output noise, so no verb,
// flag or encoder shows it, nor anything else of a trace.
func TestTracePrintsNoPoint(t *testing.T) {
	var trace qop.Trace
	rows, labels := records(10, 3, noise.Reproducible(64))
	m := &qop.Mechanism{Center: anchor, Interpolation: qop.Trust{}, Trace: func(tr qop.Trace) { trace = tr }}
	_, err := m.Fit(t.Context(), problem(t, rows, labels, loss.Squared{}), dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	require.NoError(t, err)
	var s spy.Spy
	s.See(trace.Theta...)
	s.See(trace.Objective, trace.Residual, trace.Distance, trace.Gap)
	for _, v := range []any{trace, &trace, []qop.Trace{trace}, struct{ T qop.Trace }{trace}} {
		value, form, found := s.Find(spy.Everything(v))
		require.False(t, found, "%v of a trace is printed as %q", value, form)
	}
}
