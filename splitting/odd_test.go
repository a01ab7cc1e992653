package splitting_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

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

// With momentum steps beyond 1/L_f diverge, on ½x² from 4/(3L_f): they are refused. Plain
// takes them.
func TestMomentumTakesNoLongSteps(t *testing.T) {
	f := newParabola(1, 0)
	for _, step := range []float64{1 + 1e-9, 1.4, 1.9} {
		res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5}, nil, &splitting.ForwardBackward{StepSize: step})
		require.ErrorIs(t, err, splitting.ErrSettings)
		require.ErrorContains(t, err, "(0, 1/L_f]")
		require.Nil(t, res)
	}
	for _, m := range []splitting.Method{
		&splitting.ForwardBackward{StepSize: 1},
		&splitting.ForwardBackward{StepSize: 1.9, Plain: true},
		&splitting.ForwardBackward{StepSize: 1.9, Rule: splitting.LineSearch}, // shortened
	} {
		res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5}, nil, m)
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status)
		require.InDeltaSlice(t, []float64{1, 1}, res.X, 1.1e-6) // residual 1e-9 over the curvature 1e-3
	}
}

// A quadratic whose L_f is not known has coefficients that bound it.
func TestDouglasRachfordWithoutSmoothness(t *testing.T) {
	l1 := prox.L1{Weight: 1e-4}
	for _, mu := range []float64{0, 1e-3} {
		f := newParabola(math.Inf(1), mu)
		res, err := splitting.Solve(background, splitting.Problem{F: f, G: l1}, []float64{5, 5}, nil, &splitting.DouglasRachford{})
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status)
		require.InDeltaSlice(t, []float64{1 - 1e-4, 0.9}, res.X, 1.1e-6)
	}
	for _, lip := range []float64{math.NaN(), -1} {
		_, err := splitting.Solve(background, splitting.Problem{F: newParabola(lip, 0), G: l1}, []float64{5, 5}, nil,
			&splitting.DouglasRachford{})
		require.ErrorIs(t, err, splitting.ErrProblem)
		require.ErrorContains(t, err, "Smoothness")
	}
	// What is no quadratic is told so, whatever its L_f.
	f := newGLM(3, 2, 1, math.Inf(1), logistic)
	_, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5}, nil, &splitting.DouglasRachford{})
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.ErrorContains(t, err, "Quadratizer")
	_, err = splitting.Solve(background, splitting.Problem{F: notQuadratic{f}}, []float64{5, 5}, nil, &splitting.DouglasRachford{})
	require.ErrorIs(t, err, splitting.ErrProblem)
	require.ErrorContains(t, err, "not quadratic")
}

// An infinite tolerance or gap would call the first iterate converged.
func TestSolveRefusesInfinity(t *testing.T) {
	inf := math.Inf(1)
	for field, s := range map[string]*splitting.Settings{
		"Tolerance = +Inf": {Tolerance: inf}, "Gap = +Inf": {Gap: inf}, "Gap = NaN": {Gap: math.NaN()}, "Gap = -1": {Gap: -1},
	} {
		res, err := splitting.Solve(background, splitting.Problem{F: newParabola(1, 0)}, []float64{5, 5}, s, &splitting.DavisYin{})
		require.ErrorIs(t, err, splitting.ErrSettings)
		require.ErrorContains(t, err, field)
		require.Nil(t, res)
	}
	res, err := splitting.Solve(background, splitting.Problem{F: newParabola(1, 0)}, []float64{5, 5},
		&splitting.Settings{Iterations: 3, Tolerance: -inf}, &splitting.DavisYin{})
	require.NoError(t, err)
	require.Equal(t, splitting.IterationLimit, res.Status)
}

// Settings.Gap is met by any proof of the gap, also by Residual²/(2μ).
func TestSolveToAGapByConvexity(t *testing.T) {
	f := newParabola(1, 1e-3)
	const gap = 1e-4
	res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{5, 5}, &splitting.Settings{Gap: gap, Tolerance: -1},
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
	require.PanicsWithValue(t, "splitting: nil Recorder", func() { splitting.LogSpaced(2, nil) })
}

// A gradient that overflowed or is no number proves nothing, even where a proximal
// map makes a number of it.
func TestInfiniteGradientsProveNothing(t *testing.T) {
	inf, box := math.Inf(1), prox.Box{Lo: -1, Hi: 1}
	group := prox.GroupL2{Groups: [][]int{{0, 1}}, Weight: 1}
	for name, p := range map[string]splitting.Problem{
		"sum": {G: prox.L1{Weight: 1}, H: box}, "G": {G: box}, "H": {H: box}, "blind": {H: blind{box}}, "pair": {G: group, H: box},
	} {
		for _, m := range []splitting.Method{
			&splitting.DavisYin{}, &splitting.ForwardBackward{}, &splitting.ForwardBackward{Rule: splitting.LineSearch},
			&splitting.PrimalDual{}, &splitting.StochasticTOS{Estimator: splitting.SVRG}, &splitting.StochasticTOS{Estimator: splitting.SAGA},
		} {
			for _, v := range []float64{inf, -inf, math.NaN()} {
				p.F = constant{v}
				res, err := splitting.Solve(background, p, []float64{0.5, -0.5}, &splitting.Settings{Iterations: 40}, m)
				if res == nil {
					require.ErrorIs(t, err, splitting.ErrProblem) // no sum
					continue
				}
				require.NotContains(t, []splitting.Status{splitting.Converged, splitting.Stalled}, res.Status, "%s %T %v", name, m, v)
				require.True(t, math.IsInf(res.Residual, 1), "%s %T %v: %v", name, m, v, res.Residual)
			}
		}
	}
}

// constant is a function of two terms whose gradient has equal entries.
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

// blind projects NaN to a number.
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

// The gap is finite, and no NaN, wherever Residual²/(2μ) is.
func TestGapOverflowsLate(t *testing.T) {
	f := scaledConstant{constant{1e308}}
	res, err := splitting.Solve(background, splitting.Problem{F: f}, []float64{0}, &splitting.Settings{Iterations: 1},
		&splitting.DavisYin{})
	require.NoError(t, err)
	require.Equal(t, 1e308, res.Residual)
	require.InEpsilon(t, 5e307, res.Gap, 1e-15) // 1e616/(2·1e308)
}

type scaledConstant struct{ constant }

func (scaledConstant) Convexity() float64  { return 1e308 }
func (scaledConstant) Smoothness() float64 { return 1e308 }

// Every gradient is counted, those of the first guess of a search too.
func TestGradientsAreCounted(t *testing.T) {
	for name, m := range map[string]splitting.Method{
		"DavisYin": &splitting.DavisYin{Rule: splitting.LineSearch}, "ForwardBackward": &splitting.ForwardBackward{Rule: splitting.LineSearch},
		"PrimalDual": &splitting.PrimalDual{}, "DouglasRachford": &splitting.DouglasRachford{},
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

// Slow sweeps are not rounding: coordinate descent on residuals whose Gram matrix
// does not fit goes on until the residual is some roundings of its terms.
func TestColumnsSlowIsNotStalled(t *testing.T) {
	const n, d = 7, 8
	for _, seed := range []uint64{9, 24, 29, 46, 126} { // ended at residuals of 5e-8
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
		res, err := splitting.Solve(background, p, make([]float64, d), &splitting.Settings{Tolerance: -1}, &splitting.CoordinateDescent{})
		require.NoError(t, err)
		require.Equal(t, splitting.Stalled, res.Status)
		// The terms of v add up to some 500: 2⁻⁴³ of that is 6e-11.
		require.LessOrEqual(t, res.Residual, 1e-10, "seed %d", seed)
	}
}

// The norm of a matrix bounds, tightly, whatever the size of its entries.
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
