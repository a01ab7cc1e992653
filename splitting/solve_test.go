package splitting_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// scripted is a Method whose steps the test writes.
type scripted struct {
	init   error
	step   func(k int, loc *splitting.Location)
	status func() (splitting.Status, error)
	k      int
}

func (m *scripted) Init(splitting.Problem, []float64, *rand.Rand) error { m.k = 0; return m.init }

func (m *scripted) Step(loc *splitting.Location, stats *splitting.Stats) {
	m.k++
	m.step(m.k, loc)
}

func (m *scripted) Status() (splitting.Status, error) {
	if m.status == nil {
		return splitting.NotTerminated, nil
	}
	return m.status()
}

func residual(f func(k int) float64) func(int, *splitting.Location) {
	return func(k int, loc *splitting.Location) { loc.X[0] = float64(k); loc.Residual = f(k) }
}

var background = context.Background()

func TestSolveStops(t *testing.T) {
	x0 := []float64{7}
	down := residual(func(k int) float64 { return 1 / float64(k) })

	res, err := splitting.Solve(background, splitting.Problem{}, x0, &splitting.Settings{Tolerance: 0.1}, &scripted{step: down})
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
	require.NoError(t, res.Status.Err())
	require.False(t, res.Status.Early())
	require.Equal(t, 10, res.Iterations)
	require.Equal(t, []float64{10}, res.X)
	require.Equal(t, 0.1, res.Residual)
	require.Equal(t, []float64{7}, x0)
	require.True(t, math.IsInf(res.Distance, 1), "no strong convexity is known")

	res, err = splitting.Solve(background, splitting.Problem{}, x0, nil, &scripted{step: down})
	require.NoError(t, err)
	require.Equal(t, splitting.IterationLimit, res.Status, "default tolerance 1e-9, default limit 1e5")
	require.Equal(t, 100_000, res.Iterations)
	require.Error(t, res.Status.Err())
	require.True(t, res.Status.Early())

	res, err = splitting.Solve(background, splitting.Problem{}, x0, &splitting.Settings{Tolerance: -1, Iterations: 3},
		&scripted{step: residual(func(int) float64 { return 0 })})
	require.NoError(t, err)
	require.Equal(t, splitting.IterationLimit, res.Status)
	require.Equal(t, 3, res.Iterations)

	slow := func(k int, loc *splitting.Location) { time.Sleep(time.Millisecond) }
	res, err = splitting.Solve(background, splitting.Problem{}, x0, &splitting.Settings{Runtime: 20 * time.Millisecond}, &scripted{step: slow})
	require.NoError(t, err)
	require.Equal(t, splitting.RuntimeLimit, res.Status)
	require.GreaterOrEqual(t, res.Runtime, 20*time.Millisecond)
}

func TestSolveContext(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	m := &scripted{step: func(k int, loc *splitting.Location) {
		if k == 5 {
			cancel()
			time.Sleep(50 * time.Millisecond) // the flag is raised by another goroutine
		}
	}}
	res, err := splitting.Solve(ctx, splitting.Problem{}, []float64{1}, nil, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, splitting.Cancelled, res.Status)
	require.LessOrEqual(t, res.Iterations, 1000)
	require.Equal(t, []float64{1}, res.X)

	res, err = splitting.Solve(ctx, splitting.Problem{}, []float64{1}, nil, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, res.Iterations, "cancelled before the first step")

	deadline, stop := context.WithTimeout(background, 20*time.Millisecond)
	defer stop()
	busy := &scripted{step: func(int, *splitting.Location) {}}
	res, err = splitting.Solve(deadline, splitting.Problem{}, []float64{1}, &splitting.Settings{Iterations: math.MaxInt}, busy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

type recorder struct {
	initErr, err error
	at           int
	seen         []float64
}

func (r *recorder) Init() error { return r.initErr }

func (r *recorder) Record(loc *splitting.Location, stats *splitting.Stats) error {
	r.seen = append(r.seen, loc.X[0])
	if stats.Iterations == r.at {
		return r.err
	}
	return nil
}

func TestSolveRecorder(t *testing.T) {
	down := residual(func(k int) float64 { return 1 / float64(k) })
	boom := errors.New("boom")
	r := &recorder{at: 3, err: boom}
	res, err := splitting.Solve(background, splitting.Problem{}, []float64{0}, &splitting.Settings{Recorder: r}, &scripted{step: down})
	require.Equal(t, boom, err)
	require.Equal(t, splitting.Failure, res.Status)
	require.Equal(t, []float64{1, 2, 3}, r.seen)

	_, err = splitting.Solve(background, splitting.Problem{}, []float64{0}, &splitting.Settings{Recorder: &recorder{initErr: boom}},
		&scripted{step: down})
	require.Equal(t, boom, err)

	r = &recorder{}
	_, err = splitting.Solve(background, splitting.Problem{}, []float64{0}, &splitting.Settings{Recorder: r, Tolerance: 0.25},
		&scripted{step: down})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 3, 4}, r.seen, "the last point is recorded too")
}

func TestSolveNaN(t *testing.T) {
	for name, bad := range map[string]func(*splitting.Location){
		"X":        func(l *splitting.Location) { l.X[1] = math.NaN() },
		"X Inf":    func(l *splitting.Location) { l.X[2] = math.Inf(-1) },
		"Residual": func(l *splitting.Location) { l.Residual = math.NaN() },
	} {
		for _, at := range []int{1, 2, 16, 40} {
			for _, rec := range []splitting.Recorder{nil, &recorder{}} {
				m := &scripted{step: func(k int, loc *splitting.Location) {
					loc.X[0] = float64(k)
					if k >= at {
						bad(loc)
					}
				}}
				res, err := splitting.Solve(background, splitting.Problem{}, make([]float64, 3), &splitting.Settings{Recorder: rec, Iterations: 41}, m)
				require.ErrorIs(t, err, splitting.ErrNaN, name)
				require.Equal(t, splitting.Failure, res.Status)
				require.False(t, math.IsNaN(res.Residual))
				for _, v := range res.X {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s at %d: %v", name, at, res.X)
				}
			}
		}
	}
	// A residual that claims success does not cover a NaN.
	m := &scripted{step: func(k int, loc *splitting.Location) { loc.X[0], loc.Residual = math.NaN(), 0 }}
	res, err := splitting.Solve(background, splitting.Problem{}, []float64{3}, nil, m)
	require.ErrorIs(t, err, splitting.ErrNaN)
	require.Equal(t, []float64{3}, res.X)
	// Nor does a method that ends by itself.
	m = &scripted{step: func(k int, loc *splitting.Location) { loc.X[0] = math.NaN() },
		status: func() (splitting.Status, error) { return splitting.Stalled, nil }}
	res, err = splitting.Solve(background, splitting.Problem{}, []float64{3}, nil, m)
	require.ErrorIs(t, err, splitting.ErrNaN)
	require.Equal(t, splitting.Failure, res.Status)
	require.Equal(t, []float64{3}, res.X)
}

func TestSolveStatuser(t *testing.T) {
	down := residual(func(k int) float64 { return 1 / float64(k) })
	for _, c := range []struct {
		status splitting.Status
		err    error
		want   splitting.Status
	}{
		{splitting.Stalled, nil, splitting.Stalled},
		{splitting.Converged, nil, splitting.Stalled}, // not what the residual says
		{splitting.NotTerminated, errors.New("x"), splitting.Failure},
		{splitting.Failure, splitting.ErrProblem, splitting.Failure},
	} {
		res, err := splitting.Solve(background, splitting.Problem{}, []float64{0}, nil,
			&scripted{step: down, status: func() (splitting.Status, error) { return c.status, c.err }})
		require.Equal(t, c.err, err)
		require.Equal(t, c.want, res.Status)
		require.Equal(t, 1, res.Iterations)
	}
}

func TestSolveRefuses(t *testing.T) {
	down := residual(func(k int) float64 { return 1 / float64(k) })
	ok := &scripted{step: down}
	_, err := splitting.Solve(background, splitting.Problem{}, []float64{0}, nil, nil)
	require.ErrorIs(t, err, splitting.ErrSettings)
	var none context.Context
	_, err = splitting.Solve(none, splitting.Problem{}, []float64{0}, nil, ok)
	require.ErrorIs(t, err, splitting.ErrSettings)
	for field, s := range map[string]*splitting.Settings{
		"Iterations = -1": {Iterations: -1},
		"Tolerance = NaN": {Tolerance: math.NaN()},
		"Runtime = -1s":   {Runtime: -time.Second},
	} {
		res, err := splitting.Solve(background, splitting.Problem{}, []float64{0}, s, ok)
		require.ErrorIs(t, err, splitting.ErrSettings)
		require.ErrorContains(t, err, field)
		require.ErrorContains(t, err, "want")
		require.Nil(t, res)
	}
	_, err = splitting.Solve(background, splitting.Problem{}, nil, nil, ok)
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.Solve(background, splitting.Problem{}, []float64{1, math.NaN()}, nil, ok)
	require.ErrorIs(t, err, splitting.ErrNaN)
	require.ErrorContains(t, err, "x0[1]")
	_, err = splitting.Solve(background, splitting.Problem{G: prox.L1{Weight: -1}}, []float64{1}, nil, ok)
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.ErrorIs(t, err, prox.ErrParameter)
	require.ErrorContains(t, err, "G: ")
	_, err = splitting.Solve(background, splitting.Problem{}, []float64{1}, nil, &scripted{init: splitting.ErrProblem})
	require.ErrorIs(t, err, splitting.ErrProblem)
}

func TestStatus(t *testing.T) {
	names := map[splitting.Status]string{
		splitting.NotTerminated: "NotTerminated", splitting.Converged: "Converged",
		splitting.IterationLimit: "IterationLimit", splitting.RuntimeLimit: "RuntimeLimit",
		splitting.Cancelled: "Cancelled", splitting.Failure: "Failure", splitting.Stalled: "Stalled",
		-1: "invalid status -1", 99: "invalid status 99",
	}
	for s, name := range names {
		require.Equal(t, name, s.String())
		require.Equal(t, s.Early(), s.Err() != nil)
		require.Equal(t, s > splitting.Converged && s < 99, s.Early())
	}
}

func TestQuadratic(t *testing.T) {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 1, 1, 2}), []float64{1, 0}, 5)
	require.NoError(t, err)
	x, g := []float64{3, -1}, make([]float64, 2)
	// ½(2·9 + 2·1 − 2·3) − 3 + 5 = 9
	require.Equal(t, 9.0, f.Func(x))
	f.Grad(g, x)
	require.Equal(t, []float64{4, 1}, g)
	require.InDelta(t, 3, f.Smoothness(), 1e-14) // eigenvalues 1 and 3
	require.InDelta(t, 1, f.Convexity(), 1e-14)
	require.GreaterOrEqual(t, f.Smoothness(), 3.0)
	require.LessOrEqual(t, f.Convexity(), 1.0)
	h := mat.NewSymDense(2, nil)
	f.Hessian(h, x)
	require.True(t, mat.Equal(h, mat.NewSymDense(2, []float64{2, 1, 1, 2})))
	require.Zero(t, testing.AllocsPerRun(10, func() { f.Func(x); f.Grad(g, x) }))

	_, err = splitting.NewQuadratic(mat.NewSymDense(2, []float64{1, 0, 0, -1}), nil, 0)
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.NewQuadratic(mat.NewSymDense(1, []float64{math.NaN()}), nil, 0)
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.NewQuadratic(mat.NewSymDense(1, []float64{1}), []float64{math.Inf(1)}, 0)
	require.ErrorIs(t, err, splitting.ErrProblem)
	_, err = splitting.NewQuadratic(mat.NewSymDense(1, []float64{1}), []float64{1, 2}, 0)
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.Panics(t, func() { f.Func([]float64{1}) })
	require.Panics(t, func() { f.Grad(g, []float64{1}) })
	require.Panics(t, func() { f.Hessian(h, []float64{1}) })
}
