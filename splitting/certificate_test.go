// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// pull is f(x) = (s/2)‖x − b‖², written as a sum of two equal terms.
type pull struct {
	s, lip float64
	b      []float64
}

func (f pull) Func(x []float64) float64 {
	d := floats.Distance(x, f.b, 2)
	return f.s / 2 * d * d
}

func (f pull) Grad(dst, x []float64) {
	for i, v := range x {
		dst[i] = f.s * (v - f.b[i])
	}
}

func (f pull) GradTerms(dst, x []float64, idx []int) {
	f.Grad(dst, x)
	floats.Scale(float64(len(idx))/2, dst)
}

func (f pull) Len() int                { return 2 }
func (f pull) Smoothness() float64     { return f.lip }
func (f pull) TermSmoothness() float64 { return f.lip / 2 }
func (f pull) Convexity() float64      { return f.s }

// TestShortSteps checks certificates where steps are so short that rounding cancels them: the
// iterate does not move and looks like a minimizer. The bounds must still hold, for scales of f
// from 1e-12 to 1e12 and steps down to 1e-20 of the right size.
func TestShortSteps(t *testing.T) {
	b := []float64{3, -2, 0.5}
	pairs := map[string]struct {
		g, h prox.Operator
		x    func(s float64, b float64) float64 // the minimizer for weight s
	}{
		"none": {nil, nil, func(_, b float64) float64 { return b }},
		"l1": {nil, prox.L1{Weight: 1}, func(w, b float64) float64 {
			return math.Copysign(math.Max(math.Abs(b)-w, 0),
				b)
		}},
		"G": {prox.L1{Weight: 1}, nil, func(w, b float64) float64 {
			return math.Copysign(math.Max(math.Abs(b)-w, 0),
				b)
		}},
		"huber": {prox.Huber{Weight: 1, Delta: 0.1}, prox.Box{Lo: -1, Hi: 1}, nil},
	}
	runs := 0
	for _, s := range []float64{1e-12, 1, 1e12} {
		for _, short := range []float64{1e-20, 1e-12, 1e-6, 1e-2, 0.9} {
			step := short / s
			tau := 0.9 * step
			for name, m := range map[string]splitting.Method{
				"DavisYin":           &splitting.DavisYin{StepSize: step},
				"DavisYin/search":    &splitting.DavisYin{StepSize: step, Rule: splitting.LineSearch},
				"ForwardBackward":    &splitting.ForwardBackward{StepSize: step},
				"ForwardBackward/ls": &splitting.ForwardBackward{StepSize: step, Rule: splitting.LineSearch},
				"PrimalDual":         &splitting.PrimalDual{Tau: tau},
				"VarianceReduced":    &splitting.StochasticTOS{SVRG: true, StepSize: step / 4},
			} {
				for pair, c := range pairs {
					for _, lip := range []float64{s, math.Inf(1)} {
						f := pull{s, lip, b}
						p := splitting.Problem{F: f}
						weight := 1.0
						want := make([]float64, len(b))
						if c.x != nil { // the weights scale with f
							if c.g != nil {
								p.G = prox.L1{Weight: weight * s}
							}
							if c.h != nil {
								p.H = prox.L1{Weight: weight * s}
							}
							for i := range want {
								want[i] = c.x(weight, b[i])
							}
						} else {
							p.G, p.H = prox.Huber{Weight: 0.5 * s, Delta: 0.1}, prox.Box{Lo: -1, Hi: 1}
							// Two coordinates end at the box, the third at a slope of 0.5·0.1.
							want[0], want[1], want[2] = 1, -1, 0.5-0.05
						}
						rec := &distances{p: p, want: want, mu: s}
						res, err := splitting.Solve(background, p, []float64{1, 1, -1},
							&splitting.Settings{Iterations: 40, Tolerance: 1e-9 * s, Recorder: rec, Src: rand.NewPCG(1, 2)}, m)
						if errors.Is(err, splitting.ErrProblem) || math.IsInf(lip, 1) && errors.Is(err, splitting.ErrSettings) {
							continue // this method needs a closed form, or an L_f
						}
						require.NoError(t, err)
						runs++
						at := fmt.Sprintf("%s, %s, scale %g, step %g of 1/L_f, L_f = %g", name, pair, s, short, lip)
						require.Empty(t, rec.bad, at)
						// A method that reports convergence must be at the minimizer.
						if res.Status == splitting.Converged {
							require.InDeltaSlice(t, want, res.X, 1e-8, at)
						}
					}
				}
			}
		}
	}
	require.Greater(t, runs, 500)
}

// distances is a Recorder that compares each certificate with the true distance to the minimizer
// and the true gap.
type distances struct {
	p    splitting.Problem
	want []float64
	mu   float64
	bad  string
}

func (*distances) Init() error { return nil }

func (d *distances) Record(loc *splitting.Location, stats *splitting.Stats) error {
	if math.IsInf(loc.Residual, 1) || d.bad != "" {
		return nil
	}
	// 1e-14 allows for some 30 roundings of points of size 3.
	if got := floats.Distance(loc.X, d.want, 2); got > loc.Residual/d.mu*(1+1e-12)+1e-14 {
		d.bad = fmt.Sprintf("step %d claims %g, is %g away", stats.Iterations, loc.Residual/d.mu, got)
	}
	// 1e-13·μ allows for the rounding of J.
	if gap := d.p.Func(loc.X) - d.p.Func(d.want); gap > loc.Residual*loc.Residual/(2*d.mu)+1e-13*d.mu {
		d.bad = fmt.Sprintf("step %d claims a gap of %g, is %g", stats.Iterations, loc.Residual*loc.Residual/(2*d.mu), gap)
	}
	return nil
}
