// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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

// scripted is a Method whose steps and status a test defines.
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

	res, err := splitting.Solve(background, splitting.Problem{}, x0, &splitting.Settings{Tolerance: 0.1},
		&scripted{step: down})
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
	res, err = splitting.Solve(background, splitting.Problem{}, x0, &splitting.Settings{Runtime: 20 * time.Millisecond},
		&scripted{step: slow})
	require.NoError(t, err)
	require.Equal(t, splitting.RuntimeLimit, res.Status)
	require.GreaterOrEqual(t, res.Runtime, 20*time.Millisecond)
}

func TestSolveContext(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	m := &scripted{step: func(k int, loc *splitting.Location) {
		if k == 5 {
			cancel()
		}
		time.Sleep(time.Microsecond) // another goroutine sets the flag
	}}
	res, err := splitting.Solve(ctx, splitting.Problem{}, []float64{1}, &splitting.Settings{Iterations: math.MaxInt}, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, splitting.Cancelled, res.Status)
	require.GreaterOrEqual(t, res.Iterations, 5)
	require.Equal(t, []float64{1}, res.X)

	res, err = splitting.Solve(ctx, splitting.Problem{}, []float64{1}, nil, m)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, res.Iterations, "cancelled before the first step")

	deadline, stop := context.WithTimeout(background, 20*time.Millisecond)
	defer stop()
	busy := &scripted{step: func(int, *splitting.Location) {}}
	_, err = splitting.Solve(deadline, splitting.Problem{}, []float64{1}, &splitting.Settings{Iterations: math.MaxInt},
		busy)
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
	res, err := splitting.Solve(background, splitting.Problem{}, []float64{0}, &splitting.Settings{Recorder: r},
		&scripted{step: down})
	require.Equal(t, boom, err)
	require.Equal(t, splitting.Failure, res.Status)
	require.Equal(t, []float64{1, 2, 3}, r.seen)

	_, err = splitting.Solve(background, splitting.Problem{}, []float64{0},
		&splitting.Settings{Recorder: &recorder{initErr: boom}},
		&scripted{step: down})
	require.Equal(t, boom, err)

	r = &recorder{}
	_, err = splitting.Solve(background, splitting.Problem{}, []float64{0},
		&splitting.Settings{Recorder: r, Tolerance: 0.25},
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
				res, err := splitting.Solve(background, splitting.Problem{}, make([]float64, 3),
					&splitting.Settings{Recorder: rec, Iterations: 41}, m)
				require.ErrorIs(t, err, splitting.ErrNaN, name)
				require.Equal(t, splitting.Failure, res.Status)
				require.False(t, math.IsNaN(res.Residual))
				for _, v := range res.X {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s at %d: %v", name, at, res.X)
				}
			}
		}
	}
	// A residual of 0 does not hide a NaN in X.
	m := &scripted{step: func(k int, loc *splitting.Location) { loc.X[0], loc.Residual = math.NaN(), 0 }}
	res, err := splitting.Solve(background, splitting.Problem{}, []float64{3}, nil, m)
	require.ErrorIs(t, err, splitting.ErrNaN)
	require.Equal(t, []float64{3}, res.X)
	// A method that ends by itself does not hide a NaN either.
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
		{splitting.Converged, nil, splitting.Stalled}, // the residual is above the tolerance
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
	require.InDelta(t, 3, f.Smoothness(), 1e-14) // the eigenvalues are 1 and 3
	require.InDelta(t, 1, f.(splitting.Convex).Convexity(), 1e-14)
	require.GreaterOrEqual(t, f.Smoothness(), 3.0)
	require.LessOrEqual(t, f.(splitting.Convex).Convexity(), 1.0)
	h := mat.NewSymDense(2, nil)
	f.(splitting.Hessianer).Hessian(h, x)
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
	require.Panics(t, func() { f.(splitting.Hessianer).Hessian(h, []float64{1}) })
}

// parabola is ½x'Qx − ⟨lin,x⟩ with declared constants.
type parabola struct {
	q       *mat.SymDense
	lin     []float64
	lip, mu float64
}

var (
	_ splitting.Convex      = (*parabola)(nil)
	_ splitting.Quadratizer = (*parabola)(nil)
)

func (f *parabola) Smoothness() float64 { return f.lip }
func (f *parabola) Convexity() float64  { return f.mu }

func (f *parabola) Quadratic() (*mat.SymDense, []float64, float64, bool) { return f.q, f.lin, 0, true }

func (f *parabola) Grad(dst, x []float64) {
	for i := range dst {
		dst[i] = -f.lin[i]
		for j, v := range x {
			dst[i] += f.q.At(i, j) * v
		}
	}
}

func (f *parabola) Func(x []float64) (s float64) {
	g := make([]float64, len(x))
	f.Grad(g, x)
	for i, v := range x {
		s += v * (g[i] - f.lin[i]) / 2
	}
	return s
}

func newParabola(lip, mu float64) *parabola {
	return &parabola{mat.NewSymDense(2, []float64{1, 0, 0, 1e-3}), []float64{1, 1e-3}, lip, mu}
}

// TestMomentumTakesNoLongSteps checks that ForwardBackward with momentum refuses steps longer than
// 1/L_f, because it would diverge: on ½x² for steps above 4/(3L_f). Without momentum (Plain) they
// are allowed.
func TestMomentumTakesNoLongSteps(t *testing.T) {
	f := newParabola(1, 0)
	for _, step := range []float64{1 + 1e-9, 1.4, 1.9} {
		res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5}, nil,
			&splitting.ForwardBackward{StepSize: step})
		require.ErrorIs(t, err, splitting.ErrSettings)
		require.ErrorContains(t, err, "(0, 1/L_f]")
		require.Nil(t, res)
	}
	for _, m := range []splitting.Method{
		&splitting.ForwardBackward{StepSize: 1},
		&splitting.ForwardBackward{StepSize: 1.9, Plain: true},
		// The line search shortens this step.
		&splitting.ForwardBackward{StepSize: 1.9, Rule: splitting.LineSearch},
	} {
		res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5},
			&splitting.Settings{Tolerance: 1e-9}, m)
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status)
		// The tolerance is the residual 1e-9 divided by the curvature 1e-3.
		require.InDeltaSlice(t, []float64{1, 1}, res.X, 1.1e-6)
	}
}

// TestSolveRefusesInfinity checks that an infinite tolerance or gap is refused, because every
// iterate would meet it.
func TestSolveRefusesInfinity(t *testing.T) {
	inf := math.Inf(1)
	for field, s := range map[string]*splitting.Settings{
		"Tolerance = +Inf": {Tolerance: inf}, "Gap = +Inf": {Gap: inf}, "Gap = NaN": {Gap: math.NaN()}, "Gap = -1": {Gap: -1},
	} {
		res, err := splitting.Solve(background, splitting.Problem{F: newParabola(1, 0)}, []float64{5, 5}, s,
			&splitting.DavisYin{})
		require.ErrorIs(t, err, splitting.ErrSettings)
		require.ErrorContains(t, err, field)
		require.Nil(t, res)
	}
	res, err := splitting.Solve(background, splitting.Problem{F: newParabola(1, 0)}, []float64{5, 5},
		&splitting.Settings{Iterations: 3, Tolerance: -inf}, &splitting.DavisYin{})
	require.NoError(t, err)
	require.Equal(t, splitting.IterationLimit, res.Status)
}

// TestSolveToAGapByConvexity checks that any proof of the gap meets Settings.Gap, here
// Residual²/(2μ).
func TestSolveToAGapByConvexity(t *testing.T) {
	f := newParabola(1, 1e-3)
	const gap = 1e-4
	res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5},
		&splitting.Settings{Gap: gap, Tolerance: -1},
		&splitting.DavisYin{})
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
	require.LessOrEqual(t, res.Gap, gap)
	require.Greater(t, res.Residual, 1e-9)
	require.LessOrEqual(t, f.Func(res.X)-f.Func([]float64{1, 1}), gap)
}

func TestNilArguments(t *testing.T) {
	_, err := splitting.NewLeastSquares(nil, nil)
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.ErrorContains(t, err, "nil")
}

// TestInfiniteGradientsProveNothing checks that an infinite or NaN gradient certifies nothing, even
// where a proximal map turns it into a finite point.
func TestInfiniteGradientsProveNothing(t *testing.T) {
	inf, box := math.Inf(1), prox.Box{Lo: -1, Hi: 1}
	group := prox.GroupL2{Groups: [][]int{{0, 1}}, Weight: 1}
	for name, p := range map[string]splitting.Problem{
		"sum": {G: prox.L1{Weight: 1}, H: box}, "G": {G: box}, "H": {H: box}, "blind": {H: blind{box}}, "pair": {G: group,
			H: box},
	} {
		for _, m := range []splitting.Method{
			&splitting.DavisYin{}, &splitting.ForwardBackward{}, &splitting.ForwardBackward{Rule: splitting.LineSearch},
			&splitting.PrimalDual{}, &splitting.StochasticTOS{SVRG: true},
		} {
			for _, v := range []float64{inf, -inf, math.NaN()} {
				p.F = constant{v}
				res, err := splitting.Solve(background, p, []float64{0.5, -0.5}, &splitting.Settings{Iterations: 40}, m)
				if res == nil {
					require.ErrorIs(t, err, splitting.ErrProblem) // the sum has no closed form
					continue
				}
				require.NotContains(t, []splitting.Status{splitting.Converged, splitting.Stalled}, res.Status, "%s %T %v", name, m,
					v)
				require.True(t, math.IsInf(res.Residual, 1), "%s %T %v: %v", name, m, v, res.Residual)
			}
		}
	}
}

// constant is a function of two terms. All entries of its gradient are v.
type constant struct{ v float64 }

func (constant) Len() int               { return 2 }
func (constant) Func([]float64) float64 { return 0 }
func (constant) Smoothness() float64    { return 1 }
func (constant) Convexity() float64     { return 1 }

func (f constant) Grad(dst, _ []float64) {
	for i := range dst {
		dst[i] = f.v
	}
}

func (f constant) GradTerms(dst, x []float64, idx []int) { f.Grad(dst, x) }

// blind is a box whose projection turns NaN into a number.
type blind struct{ prox.Box }

func (b blind) Prox(dst, x []float64, gamma float64) {
	for i, v := range x {
		if math.IsNaN(v) {
			v = b.Lo
		}
		dst[i] = v
	}
	b.Box.Prox(dst, dst, gamma)
}

// TestGapOverflowsLate checks that the gap is finite wherever Residual²/(2μ) is, even if Residual²
// overflows.
func TestGapOverflowsLate(t *testing.T) {
	f := scaledConstant{constant{1e308}}
	res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{0}, &splitting.Settings{Iterations: 1},
		&splitting.DavisYin{})
	require.NoError(t, err)
	require.Equal(t, 1e308, res.Residual)
	require.InEpsilon(t, 5e307, res.Gap, 1e-15) // the gap is 1e616/(2·1e308)
}

type scaledConstant struct{ constant }

func (scaledConstant) Convexity() float64  { return 1e308 }
func (scaledConstant) Smoothness() float64 { return 1e308 }

// TestGradientsAreCounted checks that GradTerms includes every gradient, even those from which a
// search gets its first step.
func TestGradientsAreCounted(t *testing.T) {
	for name, m := range map[string]splitting.Method{
		"DavisYin":        &splitting.DavisYin{Rule: splitting.LineSearch},
		"ForwardBackward": &splitting.ForwardBackward{Rule: splitting.LineSearch},
		"PrimalDual":      &splitting.PrimalDual{},
	} {
		f := &counted{parabola: newParabola(1, 0)}
		res, err := splitting.Solve(background, splitting.Problem{F: f, G: prox.L1{Weight: 1e-4}}, []float64{5, 5},
			&splitting.Settings{Iterations: 7, Tolerance: -1}, m)
		require.NoError(t, err)
		require.Equal(t, f.n, res.GradTerms, name)
	}
}

type counted struct {
	*parabola
	n int
}

func (f *counted) Grad(dst, x []float64) {
	f.n++
	f.parabola.Grad(dst, x)
}

// TestColumnsSlowIsNotStalled checks that coordinate descent distinguishes slow sweeps from
// rounding. On residuals, where the Gram matrix would need too much memory, it continues until the
// residual is only a few roundings of its terms.
func TestColumnsSlowIsNotStalled(t *testing.T) {
	const n, d = 7, 8
	// An earlier version ended at residuals of 5e-8 for these seeds.
	for _, seed := range []uint64{9, 24, 29, 46, 126} {
		r := rand.New(rand.NewPCG(seed, 0))
		a, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range n {
			y[i] = 3 * r.NormFloat64()
			for j := range d {
				a.Set(i, j, r.NormFloat64())
			}
		}
		f, err := splitting.NewLeastSquares(a, y)
		require.NoError(t, err)
		p := splitting.Problem{F: f, G: prox.L1{Weight: 0.3}}
		res, err := splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1},
			&splitting.CoordinateDescent{})
		require.NoError(t, err)
		require.Equal(t, splitting.Stalled, res.Status)
		// The terms of v sum to about 500: 2⁻⁴³ times that is 6e-11.
		require.LessOrEqual(t, res.Residual, 1e-10, "seed %d", seed)
	}
}

// TestMatrixNormOfAnySize checks that Norm is a close upper bound for entries of any size.
func TestMatrixNormOfAnySize(t *testing.T) {
	for _, size := range []float64{math.SmallestNonzeroFloat64, 1e-310, 1e-200, 1e-156, 1, 1e150} {
		k, err := splitting.NewMatrix(mat.NewDense(2, 3, []float64{3 * size, 0, 0, 0, 0, -4 * size}))
		require.NoError(t, err)
		require.GreaterOrEqual(t, k.Norm(), 4*size, "%g", size)
		require.LessOrEqual(t, k.Norm(), 4*size*(1+1e-12)+2*math.SmallestNonzeroFloat64, "%g", size)
	}
	k, err := splitting.NewMatrix(mat.NewDense(1, 2, nil))
	require.NoError(t, err)
	require.Zero(t, k.Norm())
	for _, v := range []float64{1e160, math.MaxFloat64, math.Inf(1), math.NaN()} {
		_, err := splitting.NewMatrix(mat.NewDense(2, 2, []float64{v, v, v, v}))
		require.ErrorIs(t, err, splitting.ErrProblem, v)
	}
}

// silent is a quadratic whose value is NaN where its first coordinate is above 3.
type silent struct{ *parabola }

func (s silent) Func(x []float64) float64 {
	if x[0] > 3 {
		return math.NaN()
	}
	return s.parabola.Func(x)
}

func (s silent) Hessian(dst *mat.SymDense, _ []float64) {
	dst.Zero()
	dst.SetSym(0, 0, 1)
	dst.SetSym(1, 1, 1)
}

// TestNaNOfFuncEndsASolve checks that a value NaN at a finite point ends a solve at once, as
// Failure with ErrNaN, and that methods that never ask for the value say so at the end.
func TestNaNOfFuncEndsASolve(t *testing.T) {
	for name, m := range map[string]splitting.Method{
		"ForwardBackward": &splitting.ForwardBackward{Rule: splitting.LineSearch},
		"DavisYin":        &splitting.DavisYin{Rule: splitting.LineSearch},
		"LBFGS":           &splitting.LBFGS{}, "ProxNewton": &splitting.ProxNewton{}, "Plain": &splitting.ForwardBackward{},
	} {
		f := silent{newParabola(1, 1)}
		f.lin[0] = 5 // the minimizer is where the value is NaN
		res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{0, 0}, nil, m)
		require.ErrorIs(t, err, splitting.ErrNaN, name)
		require.Equal(t, splitting.Failure, res.Status, name)
		if name != "Plain" {
			require.Less(t, res.Iterations, 20, name)
		}
	}
}
