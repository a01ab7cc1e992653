package certify

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

// broken is a method that cannot be applied, lazy one that stops where it
// starts.
type broken struct{ lazy }
type lazy struct{}

func (broken) Init(splitting.Problem, []float64, *rand.Rand) error { return splitting.ErrProblem }
func (lazy) Init(splitting.Problem, []float64, *rand.Rand) error   { return nil }
func (lazy) Step(loc *splitting.Location, _ *splitting.Stats)      { loc.Residual = 0 }

func TestMinimize(t *testing.T) {
	ctx := context.Background()
	start := []float64{0.1, 0.2}
	kept := slices.Clone(start)
	no := func(splitting.Problem, int) splitting.Method { return broken{} }
	stop := func(splitting.Problem, int) splitting.Method { return lazy{} }
	for _, set := range []prox.Set{nil, prox.L2Ball{R: 0.2}} {
		p, obj := problem(t, set)
		res, err := Minimize(ctx, p, obj, start, 1e-8, append([]Method{no, stop}, Methods...)...)
		require.NoError(t, err)
		require.True(t, res.Proved)
		require.Equal(t, obj.ResidualWithin(res.X, 1e-8), res.Residual)
		require.InEpsilon(t, obj.Residual(res.X), res.Residual, 0.1)
		require.LessOrEqual(t, res.Residual, 1e-8)
		require.Greater(t, res.Iterations, 1)
		require.Equal(t, kept, start)

		res, err = Minimize(ctx, p, obj, start, 1e-8, stop)
		require.NoError(t, err)
		require.False(t, res.Proved, "a claim of the method is not a proof")
		_, err = Minimize(ctx, p, obj, start, 1e-8, no)
		require.ErrorIs(t, err, splitting.ErrProblem)
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		_, err = Minimize(stopped, p, obj, start, 1e-8, Methods...)
		require.ErrorIs(t, err, context.Canceled)

		again, err := Minimize(ctx, p, obj, start, 1e-8, Methods...)
		require.NoError(t, err)
		same, err := Minimize(ctx, p, obj, start, 1e-8, Methods...)
		require.NoError(t, err)
		require.Equal(t, again, same)
	}
}
