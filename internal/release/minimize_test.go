// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func problem(t *testing.T, set prox.Set) (*erm.Problem, *erm.Objective) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	rows, labels := make([][]float64, 50), make([]float64, 50)
	for i := range rows {
		rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64()}
		labels[i] = rnd.NormFloat64()
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: set}
	quad := mat.NewDiagDense(2, []float64{3, 3})
	return p, p.Perturb(erm.Perturbation{Linear: []float64{1, -2}, Quad: quad, MinEig: 3, MaxEig: 3})
}

// broken is a method that cannot be applied, lazy one that stops where it starts.
type broken struct{ lazy }
type lazy struct{}

func (broken) Init(splitting.Problem, []float64, *rand.Rand) error { return splitting.ErrProblem }
func (lazy) Init(splitting.Problem, []float64, *rand.Rand) error   { return nil }
func (lazy) Step(loc *splitting.Location, _ *splitting.Stats)      { loc.Residual = 0 }

// gram is a least-squares problem with an ℓ1 norm, for coordinate descent.
func gram(t *testing.T) (*erm.Problem, *erm.Objective) {
	t.Helper()
	p, _ := problem(t, nil)
	p.Loss, p.Reg = loss.Squared{}, prox.L1{Weight: 0.5}
	quad := mat.NewDiagDense(2, []float64{3, 3})
	return p, p.Perturb(erm.Perturbation{Linear: []float64{0.3, -2}, Quad: quad, MinEig: 3, MaxEig: 3})
}

// TestEachMethod: every method that is tried finds the same certified point, and
// memory that a solve of another problem used changes no bit of the next.
func TestEachMethod(t *testing.T) {
	coordinates := func(splitting.Problem, int) splitting.Method { return &splitting.CoordinateDescent{} }
	newton := func(splitting.Problem, int) splitting.Method { return &splitting.ProxNewton{} }
	p, obj := gram(t)
	other, otherObj := problem(t, nil)
	const goal = 1e-8
	want := solve(t.Context(), p, obj, []float64{0, 0}, goal, methods[2])
	require.LessOrEqual(t, obj.ResidualWithin(want.X, goal), goal)
	for i, m := range append([]Method{coordinates, newton}, methods...) {
		first := solve(t.Context(), p, obj, []float64{0, 0}, goal, m)
		require.LessOrEqual(t, obj.ResidualWithin(first.X, goal), goal, "method %d", i)
		require.InDeltaSlice(t, want.X, first.X, 2*goal/3, "method %d", i) // μ = 3
		solve(t.Context(), other, otherObj, []float64{1, 1}, goal, newton)
		again := solve(t.Context(), p, obj, []float64{0, 0}, goal, m)
		require.Equal(t, first.Location, again.Location, "method %d", i)
	}
}

// TestCertify: only the residual at a point certifies it, whatever its method claims, and the last
// methods certify every point.
func TestCertify(t *testing.T) {
	start := []float64{0.1, 0.2}
	kept := slices.Clone(start)
	no := func(splitting.Problem, int) splitting.Method { return broken{} }
	stop := func(splitting.Problem, int) splitting.Method { return lazy{} }
	for _, set := range []prox.Set{nil, prox.L2Ball{R: 0.2}} {
		p, obj := problem(t, set)
		to := target{Modulus: 3, Cover: 1e-8, Reach: 10}
		for _, m := range []Method{no, stop} {
			s := newSolver(t.Context(), p, obj, start, to)
			require.NoError(t, s.try(m))
			require.False(t, s.done, "a claim of the method is not a proof")
			require.Equal(t, start, s.best.x)
		}
		s := newSolver(t.Context(), p, obj, start, to)
		for _, m := range append([]Method{no, stop}, methods...) {
			require.NoError(t, s.try(m))
		}
		require.True(t, s.done)
		require.Equal(t, obj.ResidualWithin(s.best.x, 3e-8), s.best.residual)
		require.InEpsilon(t, obj.Residual(s.best.x), s.best.residual, 0.1)
		require.LessOrEqual(t, s.best.residual, 3e-8)
		require.Greater(t, s.iterations, 1)

		x, trace, err := minimize(t.Context(), p, obj, start, to, no, stop)
		require.NoError(t, err)
		require.True(t, trace.Certified)
		require.Equal(t, kept, start)
		again, _, err := minimize(t.Context(), p, obj, start, to, no, stop)
		require.NoError(t, err)
		require.Equal(t, x, again)
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = minimize(stopped, p, obj, start, to)
		require.ErrorIs(t, err, context.Canceled)
	}
}
