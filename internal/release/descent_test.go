// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// instance is a perturbed problem with what is public about it.
type instance struct {
	p      *erm.Problem
	obj    *erm.Objective
	target target
	floor  float64
}

func newInstance(
	t *testing.T, rnd *rand.Rand, l loss.Loss, reg prox.Operator, set prox.Set, n int, ridge float64,
) instance {
	t.Helper()
	const d = 4
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64()
		}
		labels[i] = rnd.NormFloat64()
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: l, Reg: reg, Set: set}
	b, diag := make([]float64, d), make([]float64, d)
	for j := range b {
		b[j], diag[j] = 3*rnd.NormFloat64(), ridge
	}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	per := erm.PublicPerturbation{Linear: 2 * floats.Norm(b, 2), MinEig: ridge, MaxEig: ridge}
	obj := p.Perturb(erm.Perturbation{Linear: b, Quad: mat.NewDiagDense(d, diag), MinEig: ridge, MaxEig: ridge})
	floor := q.Floor(per)
	return instance{p, obj, target{Modulus: ridge + q.Modulus, Cover: floor, Reach: q.Reach(per)}, floor}
}

// denied refuses every certificate and starts at a stage.
func denied(ctx context.Context, stage int) context.Context {
	ctx = fault.With(ctx, fault.Stage, func(int) int { return stage })
	return fault.With(ctx, fault.Certified, func(bool) bool { return false })
}

// Every stage alone ends within R of the same point, the last one without any certificate.
func TestStages(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		name string
		l    loss.Loss
		reg  prox.Operator
		set  prox.Set
	}{
		{"smooth", loss.Logistic{}, nil, nil},
		{"l1", loss.Logistic{}, prox.L1{Weight: 2}, nil},
		{"elastic net", loss.Huber{Delta: 0.5}, prox.ElasticNet{L1: 1, L2: 0.5}, nil},
		{"box", loss.Squared{}, nil, prox.Box{Lo: -0.2, Hi: 0.3}},
		{"box off 0", loss.SmoothedHinge{Gamma: 0.5}, prox.L1{Weight: 0.5}, prox.Box{Lo: 0.5, Hi: 2}},
		{"ball", loss.Logistic{}, nil, prox.L2Ball{R: 0.3}},
		{"groups", loss.Logistic{}, prox.GroupL2{Groups: [][]int{{0, 1}, {2, 3}}, Weight: 2}, nil},
		{"simplex", loss.Logistic{}, nil, prox.Simplex{Total: 1}},
		{"classes", loss.Multinomial{Classes: 2}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newInstance(t, rnd, c.l, c.reg, c.set, 60, 2)
			require.Less(t, in.floor, 1e-8)
			start := make([]float64, 4)
			if c.set != nil {
				c.set.Prox(start, start, 1)
			}
			want, tr, err := minimize(t.Context(), in.p, in.obj, start, in.target)
			require.NoError(t, err)
			require.True(t, tr.Certified)
			require.LessOrEqual(t, tr.Distance, in.target.Cover)
			for stage, ctx := range []context.Context{
				t.Context(),
				fault.With(t.Context(), fault.Stage, func(int) int { return 1 }),
				fault.With(t.Context(), fault.Stage, func(int) int { return 2 }),
				denied(t.Context(), 2),
				denied(t.Context(), 0),
			} {
				got, tr, err := minimize(ctx, in.p, in.obj, start, in.target)
				require.NoError(t, err)
				require.Equal(t, stage < 3, tr.Certified, "stage %d", stage)
				require.LessOrEqual(t, tr.Distance, in.target.Cover)
				require.LessOrEqual(t, floats.Distance(want, got, 2), 2*in.target.Cover, "stage %d", stage)
				if c.set != nil {
					require.Zero(t, c.set.Func(got))
				}
			}
		})
	}
}

// From a start far outside, the descent begins at the anchor; where R exceeds 2ρ the anchor will
// do.
func TestDescentStart(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	in := newInstance(t, rnd, loss.Logistic{}, nil, nil, 60, 2)
	want, _, err := minimize(t.Context(), in.p, in.obj, make([]float64, 4), in.target)
	require.NoError(t, err)
	got, tr, err := minimize(denied(t.Context(), 2), in.p, in.obj, []float64{1e300, 0, 0, 1e300}, in.target)
	require.NoError(t, err)
	require.LessOrEqual(t, floats.Distance(want, got, 2), 2*in.target.Cover)
	require.Less(t, tr.Iterations, 1000)

	in.target.Cover = 2 * in.target.Reach
	got, tr, err = minimize(denied(t.Context(), 2), in.p, in.obj, []float64{1, 0, 0, 1}, in.target)
	require.NoError(t, err)
	require.Equal(t, make([]float64, 4), got)
	require.Zero(t, tr.Iterations)

	in.target.Reach = math.Inf(1)
	require.PanicsWithValue(t, badSteepness, func() {
		_, _, _ = minimize(denied(t.Context(), 2), in.p, in.obj, []float64{1, 0, 0, 1}, in.target)
	})
}

// The descent has twice the precision where it can, so that its residual may be far below what
// float64 points have.
func TestDescentPairs(t *testing.T) {
	for _, reg := range []prox.Operator{nil, prox.ElasticNet{L1: 0.5, L2: 1}} {
		in := newInstance(t, rand.New(rand.NewPCG(5, 9)), loss.Logistic{}, reg, nil, 60, 2)
		in.target.Cover = 1e-21
		x, tr, err := minimize(denied(t.Context(), 2), in.p, in.obj, make([]float64, 4), in.target)
		require.NoError(t, err)
		require.Less(t, tr.Residual, 2e-21)
		require.Greater(t, in.obj.Residual(x), 1e-17)
	}
}

// Where the regularizer is more convex than the loss is steep, the step is 1/μ: with a longer one
// the error of a step would not shrink by the factor that the proof divides by.
func TestDescentOfConvexRegularizer(t *testing.T) {
	for _, set := range []prox.Set{nil, prox.L2Ball{R: 10}} {
		in := newInstance(t, rand.New(rand.NewPCG(3, 4)), loss.Logistic{}, prox.ElasticNet{L1: 0.1, L2: 1e9}, set, 2, 1e-3)
		want, _, err := minimize(t.Context(), in.p, in.obj, make([]float64, 4), in.target)
		require.NoError(t, err)
		got, tr, err := minimize(denied(t.Context(), 2), in.p, in.obj, make([]float64, 4), in.target)
		require.NoError(t, err)
		require.LessOrEqual(t, floats.Distance(want, got, 2), 2*in.target.Cover)
		require.GreaterOrEqual(t, tr.Iterations, 30) // of a factor ½ each, from ρ to R
	}
}

// Where every record has the largest row the step is no shorter than it must be.
func TestDescentStep(t *testing.T) {
	rows, labels := make([][]float64, 50), make([]float64, 50)
	for i := range rows {
		rows[i], labels[i] = []float64{1, 0}, 0.5
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Squared{}}
	quad := mat.NewDiagDense(2, []float64{2, 2})
	obj := p.Perturb(erm.Perturbation{Linear: []float64{0, 1}, Quad: quad, MinEig: 2, MaxEig: 2})
	for _, set := range []prox.Set{nil, prox.L2Ball{R: 10}} { // the second in float64
		p.Set = set
		x, _, err := minimize(denied(t.Context(), 2), p, obj, []float64{0, 0}, target{2, 1e-9, 3})
		require.NoError(t, err)
		require.InDelta(t, 25.0/52, x[0], 1e-9)
		require.InDelta(t, -0.5, x[1], 1e-9)
	}
}

// A context that ends stops every stage.
func TestStagesCancelled(t *testing.T) {
	in := newInstance(t, rand.New(rand.NewPCG(9, 9)), loss.Logistic{}, nil, nil, 60, 2)
	for stage := range 3 {
		ctx, cancel := context.WithCancel(fault.With(t.Context(), fault.Stage, func(int) int { return stage }))
		cancel()
		in.target.Cover = 1e-13
		_, _, err := minimize(ctx, in.p, in.obj, []float64{1, 1, 1, 1}, in.target)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// Where ∇²f is so large that no float64 point has a small residual, points of twice the precision
// do: a problem of one stiff and one soft direction, with R at the default 1e-11·B.
func TestRefineStiff(t *testing.T) {
	const n, ridge = 4000, 1e-4
	rnd := rand.New(rand.NewPCG(31, 32))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		s := rnd.NormFloat64()
		rows[i], labels[i] = []float64{0.6 * s, 0.6*s + 1e-4*rnd.NormFloat64(), 0.1 * rnd.NormFloat64()}, rnd.NormFloat64()
	}
	needed := 0
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.5}} {
		for _, reg := range []prox.Operator{nil, prox.L1{Weight: 0.01}, prox.Box{Lo: -30, Hi: 20}} {
			p := &erm.Problem{Data: data, Loss: l, Reg: reg}
			obj := p.Perturb(erm.Perturbation{
				Linear: []float64{0.3, -0.2, 0.1}, Quad: mat.NewDiagDense(3, []float64{ridge, ridge, ridge}),
				MinEig: ridge, MaxEig: ridge,
			})
			q, err := p.Public(dp.Replace)
			require.NoError(t, err)
			per := erm.PublicPerturbation{Linear: 1, MinEig: ridge, MaxEig: ridge}
			r, err := q.Cover(per, 0, 10)
			require.NoError(t, err)
			x, tr, err := minimize(t.Context(), p, obj, make([]float64, 3), target{ridge, r, q.Reach(per)})
			require.NoError(t, err)
			require.True(t, tr.Certified, "%T %T: R = %v", l, reg, r)
			require.LessOrEqual(t, tr.Distance, r)
			if obj.Residual(x) > ridge*r {
				needed++
			}
		}
	}
	require.GreaterOrEqual(t, needed, 5, "float64 would have done")
}
