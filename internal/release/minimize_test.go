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
	return p, p.Perturb(erm.Perturbation{Linear: []float64{1, -2}, Quad: mat.NewDiagDense(2, []float64{3, 3}), MinEig: 3, MaxEig: 3})
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
	return p, p.Perturb(erm.Perturbation{Linear: []float64{0.3, -2}, Quad: mat.NewDiagDense(2, []float64{3, 3}), MinEig: 3, MaxEig: 3})
}

// TestEachMethod: every method that is tried finds the same certified point, and
// memory that a solve of another problem used changes no bit of the next.
func TestEachMethod(t *testing.T) {
	coordinates := func(splitting.Problem, int) splitting.Method { return &splitting.CoordinateDescent{} }
	newton := func(splitting.Problem, int) splitting.Method { return &splitting.ProxNewton{} }
	p, obj := gram(t)
	other, otherObj := problem(t, nil)
	const target = 1e-8
	want, err := Certify(t.Context(), p, obj, []float64{0, 0}, target, Methods[2])
	require.NoError(t, err)
	require.True(t, want.Proved)
	for i, m := range append([]Method{coordinates, newton}, Methods...) {
		first, err := Certify(t.Context(), p, obj, []float64{0, 0}, target, m)
		require.NoError(t, err)
		require.True(t, first.Proved, "method %d", i)
		require.InDeltaSlice(t, want.X, first.X, 2*target/3, "method %d", i) // μ = 3
		_, err = Certify(t.Context(), other, otherObj, []float64{1, 1}, target, newton)
		require.NoError(t, err)
		again, err := Certify(t.Context(), p, obj, []float64{0, 0}, target, m)
		require.NoError(t, err)
		require.Equal(t, first, again, "method %d", i)
	}
}

func TestCertify(t *testing.T) {
	ctx := context.Background()
	start := []float64{0.1, 0.2}
	kept := slices.Clone(start)
	no := func(splitting.Problem, int) splitting.Method { return broken{} }
	stop := func(splitting.Problem, int) splitting.Method { return lazy{} }
	for _, set := range []prox.Set{nil, prox.L2Ball{R: 0.2}} {
		p, obj := problem(t, set)
		res, err := Certify(ctx, p, obj, start, 1e-8, append([]Method{no, stop}, Methods...)...)
		require.NoError(t, err)
		require.True(t, res.Proved)
		require.Equal(t, obj.ResidualWithin(res.X, 1e-8), res.Residual)
		require.InEpsilon(t, obj.Residual(res.X), res.Residual, 0.1)
		require.LessOrEqual(t, res.Residual, 1e-8)
		require.Greater(t, res.Iterations, 1)
		require.Equal(t, kept, start)

		res, err = Certify(ctx, p, obj, start, 1e-8, stop)
		require.NoError(t, err)
		require.False(t, res.Proved, "a claim of the method is not a proof")
		_, err = Certify(ctx, p, obj, start, 1e-8, no)
		require.ErrorIs(t, err, splitting.ErrProblem)
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		_, err = Certify(stopped, p, obj, start, 1e-8, Methods...)
		require.ErrorIs(t, err, context.Canceled)

		again, err := Certify(ctx, p, obj, start, 1e-8, Methods...)
		require.NoError(t, err)
		same, err := Certify(ctx, p, obj, start, 1e-8, Methods...)
		require.NoError(t, err)
		require.Equal(t, again, same)
	}
}
