package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
)

// one returns a Break that replaces one step.
func one[T any](step fault.Step[T], replace func(v T) T) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return fault.With(ctx, step, replace) }
}

// times multiplies.
func times(c float64) func(float64) float64 { return func(v float64) float64 { return c * v } }

// always forgets what was there.
func always[T any](x T) func(T) T { return func(T) T { return x } }

// cached returns a Break that keeps the first value of a step and gives it back
// ever after.
func cached[T any](step fault.Step[T], clone func(T) T) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		var once sync.Once
		var first T
		return fault.With(ctx, step, func(v T) T {
			once.Do(func() { first = clone(v) })
			return clone(first)
		})
	}
}

// both applies two replacements: a mistake that shows in two places.
func both(a, b func(context.Context) context.Context) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return b(a(ctx)) }
}

// naive fills dst with draws of the ziggurat of math/rand: a 32-bit integer times
// one of 128 numbers.
func naive(dst []float64, sigma float64, src rand.Source) {
	for i := range dst {
		dst[i] = sigma * lattice.draw(src)
	}
}

// linearControls are the sabotages of linear perturbation.
var linearControls = []Control{
	{Name: "noise-0.9", What: "noise of 0.9 times its scale", Case: "lop/A1/logistic", Break: one(fault.Scale, times(0.9))},
	{Name: "noise-0.95", What: "noise of 0.95 times its scale", Case: "lop/A1/logistic", Break: one(fault.Scale, times(0.95))},
	{Name: "noise-0.5", What: "noise of half its scale", Case: "lop/A1/logistic, d = 5", Break: one(fault.Scale, times(0.5))},
	{Name: "noise-0.9-held", What: "noise of 0.9 times its scale, seen through kinks and faces", Case: "lop/A7/ℓ1 in a box, d = 5", Break: one(fault.Scale, times(0.9))},
	{Name: "noise-0.9-pure", What: "noise of 0.9 times its scale under a pure claim", Case: "lop/A1/pure, d = 5", Break: one(fault.Rate, times(1/0.9))},
	{Name: "noise-0.125", What: "noise of an eighth of its scale, seen from outside", Case: "lop/A1/logistic from outside", Break: one(fault.Scale, times(0.125))},
	{Name: "variance", What: "the variance used as a standard deviation", Case: "lop/A1/logistic", Break: one(fault.Scale, func(s float64) float64 { return s * s })},
	{Name: "delta-split", What: "δ used where the formula has δ/2", Case: "lop/A1/kifer", Break: one(fault.Objective, func(b dp.Budget) dp.Budget { b.Delta *= 2; return b })},
	{Name: "output-split", What: "the whole budget spent again on the output noise", Case: "lop/A1/half for the output", Runs: 3000, Break: one(fault.Objective, always(usual))},
	{Name: "data-max", What: "noise scaled by the largest gradient of the records, not by the bound", Case: "lop/A1/huber", Runs: 3000, Break: one(fault.Lipschitz, times(0.6))},
	{Name: "relation", What: "the constant of add/remove used for replace", Case: "lop/A1/logistic", Runs: 3000, Break: one(fault.Relation, always(dp.AddRemove))},
	{Name: "relation-output", What: "the same in output perturbation", Case: "lop-output/A1/logistic", Runs: 2000, Break: one(fault.Relation, always(dp.AddRemove))},
	{Name: "no-ridge", What: "Δ = 0 in the objective", Case: "lop/A7/ℓ1 in a box", Break: one(fault.Ridge, times(0))},
	{Name: "no-clip", What: "gradients not clipped", Case: "lop-clip/A1/least squares, d = 1", Break: one(fault.Clip, times(0))},
	{Name: "clip-1", What: "gradients clipped at 1 instead of the bound", Case: "lop-clip/A1/least squares, d = 5", Break: one(fault.Clip, always(1.0))},
	{Name: "cached", What: "noise drawn once and used again", Case: "lop/A13/logistic", Break: cached(fault.Noise, func(b []float64) []float64 { return append([]float64(nil), b...) })},
	{Name: "three-steps", What: "the solver stopped after 3 steps and its certificate ignored", Case: "lop/A1/logistic, d = 5 cover", Break: both(one(fault.Iterations, always(3)), one(fault.Certified, always(true)))},
	{Name: "no-output", What: "output noise left out", Case: "lop/A1/logistic output noise", Break: one(fault.OutputScale, times(0))},
	{Name: "no-output-pure", What: "output noise left out under a pure claim", Case: "lop/A1/pure output noise", Break: one(fault.OutputRate, times(1e9))},
	{Name: "noise-0.9-joint", What: "noise of 0.9 times its scale, accounted for with the output noise", Case: "lop/A1/joint", Break: one(fault.Scale, times(0.9))},
	{Name: "no-output-joint", What: "output noise left out that the account rests on", Case: "lop/A1/joint output noise", Break: one(fault.OutputScale, times(0))},
	{Name: "ziggurat", What: "the normal generator of math/rand", Case: "lop/lattice", Break: one(fault.Sampler, always[fault.Normal](naive))},
}

// quadraticControls are the sabotages of quadratic perturbation.
var quadraticControls = []Control{
	{Name: "degrees", What: "W with m−1 degrees of freedom", Case: "qop/A3/least squares", Break: one(fault.Degrees, func(m float64) float64 { return m - 1 })},
	{Name: "degrees-5", What: "the same in five dimensions", Case: "qop/A2/least squares, d = 5", Runs: 8000, Break: one(fault.Degrees, func(m float64) float64 { return m - 1 })},
	{Name: "no-sigma2", What: "W not multiplied by σ²", Case: "qop/A3/huber, d = 5", Break: one(fault.Curvature, always(1.0))},
	{Name: "curvature-0.9", What: "curvature of 0.9 times its scale", Case: "qop/A3/least squares", Break: one(fault.Curvature, times(0.9))},
	{Name: "curvature-0.125", What: "curvature of an eighth of its scale, seen from outside", Case: "qop/A3/least squares from outside", Break: one(fault.Curvature, times(0.125))},
	{Name: "triangle", What: "the upper triangle of W counted twice", Case: "qop/A2/least squares, d = 5, m = 400", Break: one(fault.Wishart, twiceUpper)},
	{Name: "cached-w", What: "W drawn once and used again", Case: "qop/A3/least squares", Break: cached(fault.Wishart, cloneSym)},
	{Name: "data-max-qop", What: "curvature scaled by the largest one of the records, not by the bound", Case: "qop/A9/rows of 1e±150", Runs: 3000, Break: one(fault.Smoothness, times(0.25))},
	{Name: "relation-qop", What: "the constants of add/remove used for replace", Case: "qop/A3/huber", Runs: 3000, Break: one(fault.Relation, always(dp.AddRemove))},
	{Name: "output-split-qop", What: "the whole budget spent again on the output noise", Case: "qop/A3/half for the output", Runs: 3000, Break: one(fault.Objective, always(usual))},
	{Name: "no-interpolation", What: "records that do not interpolate used as they are", Case: "qop/A5/relabelled", Break: one(fault.Interpolated, always(false))},
	{Name: "curvature-0.9-general", What: "curvature of 0.9 times its scale, for Hessians of any rank", Case: "qop/A6/rank 2 as general", Break: one(fault.Curvature, times(0.9))},
	{Name: "curvature-0.9-inexact", What: "curvature of 0.9 times its scale around an anchor with an error", Case: "qop/A5/inexact anchor", Break: one(fault.Curvature, times(0.9))},
	{Name: "anchor-half", What: "half the error of the anchor hidden", Case: "qop/A5/inexact anchor output noise", Runs: 100, Break: one(fault.AnchorError, times(0.5))},
	{Name: "three-steps-qop", What: "the solver stopped after 3 steps and its certificate ignored", Case: "qop/A3/huber, d = 5 cover", Break: both(one(fault.Iterations, always(3)), one(fault.Certified, always(true)))},
	{Name: "no-output-qop", What: "output noise left out", Case: "qop/A3/least squares output noise", Break: one(fault.OutputScale, times(0))},
}

// twiceUpper doubles what lies off the diagonal.
func twiceUpper(w *mat.SymDense) *mat.SymDense {
	d := w.SymmetricDim()
	for i := range d {
		for j := i + 1; j < d; j++ {
			w.SetSym(i, j, 2*w.At(i, j))
		}
	}
	return w
}

func cloneSym(w *mat.SymDense) *mat.SymDense {
	c := mat.NewSymDense(w.SymmetricDim(), nil)
	c.CopySym(w)
	return c
}

// ziggurat is the generator of math/rand and gonum: below its tail a draw is a
// 32-bit integer times one of 128 steps, 2³⁹ values in all, whatever the source.
type ziggurat struct {
	step [128]float64
	edge [129]float64 // the right ends of the layers; edge[128] = 0
}

// lattice has the 128 layers of equal area of [MT00].
var lattice = func() (z ziggurat) {
	const r, v = 3.442619855899, 9.91256303526217e-3
	z.edge[1] = r
	z.edge[0] = v / math.Exp(-r*r/2)
	for i := 2; i < 128; i++ {
		x := z.edge[i-1]
		z.edge[i] = math.Sqrt(-2 * math.Log(v/x+math.Exp(-x*x/2)))
	}
	for i := range z.step {
		z.step[i] = float64(float32(z.edge[i] / (1 << 31)))
	}
	return z
}()

// draw returns a normal draw from the layers; those beyond the last edge are
// drawn again, which does not matter here.
func (z *ziggurat) draw(src rand.Source) float64 {
	for {
		u := src.Uint64()
		i, j := int(u&127), int32(u>>32)
		x := float64(j) * z.step[i]
		if math.Abs(x) < z.edge[i+1] {
			return x
		}
		if i == 0 {
			continue
		}
		f := func(x float64) float64 { return math.Exp(-x * x / 2) }
		if y := f(z.edge[i]) + float64(src.Uint64()>>11)*0x1p-53*(f(z.edge[i+1])-f(z.edge[i])); y < f(x) {
			return x
		}
	}
}

// has reports whether x is a value of the generator up to tol.
func (z *ziggurat) has(x, tol float64) bool {
	for _, w := range z.step {
		j := math.RoundToEven(x / w)
		if math.Abs(j) <= 1<<31 && math.Abs(x-j*w) <= tol {
			return true
		}
	}
	return false
}
