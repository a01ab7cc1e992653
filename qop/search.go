// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/privopt/privopt/internal/num"
)

// leastRatio returns an integer m, least ≤ m ≤ most, that nearly minimizes the unimodal function
// cost: m − least + 2 is within 3 % of the best value. The minimum is flat, so cost(m) is within
// 0.1 % of the least cost. start is the first m to try.
func leastRatio(cost func(m float64) float64, least, start, most float64) float64 {
	shift := least - 2
	seen := map[float64]float64{}
	at := func(v float64) (float64, float64) { // v = log(m − shift)
		m := math.Min(math.Round(math.Exp(v))+shift, most)
		c, ok := seen[m]
		if !ok {
			c = cost(m)
			seen[m] = c
		}
		return c, m
	}
	const step = 0.4
	b := num.Log(math.Max(start-shift, 2))
	fb, _ := at(b)
	a, c := math.Max(b-step, math.Ln2), b+step
	fa, _ := at(a)
	fc, _ := at(c)
	for fc < fb {
		a, fa = b, fb
		b, fb = c, fc
		c += step
		fc, _ = at(c)
	}
	for fa < fb && a > math.Ln2 {
		c, fc = b, fb
		b, fb = a, fa
		a = math.Max(a-step, math.Ln2)
		fa, _ = at(a)
	}
	if fa < fb {
		b, fb = a, fa
	}
	for c-a > 0.08 {
		// Cut the larger half by the golden section.
		if v := 0.0; c-b > b-a {
			v = b + 0.382*(c-b)
			if fv, _ := at(v); fv < fb {
				a, b = b, v
				fb = fv
			} else {
				c = v
			}
		} else {
			v = b - 0.382*(b-a)
			if fv, _ := at(v); fv < fb {
				c, b = b, v
				fb = fv
			} else {
				a = v
			}
		}
	}
	best, bestCost := start, math.Inf(1)
	for m, v := range seen {
		if v < bestCost || v == bestCost && m < best {
			best, bestCost = m, v
		}
	}
	return best
}

// simplex returns the best point that gonum's method of Nelder and Mead finds for f in about evals
// evaluations, or until 15 steps gain less than 1e-4, from x and with edges of half a unit; +Inf
// and NaN are worse than every number.
func simplex(f func(x []float64) float64, x []float64, evals int) (best []float64, value float64) {
	const worse = 1e300 // stands for +Inf and NaN, which the averages of the method cannot handle
	problem := optimize.Problem{Func: func(x []float64) float64 {
		if v := f(x); v < worse {
			return v
		}
		return worse
	}}
	settings := &optimize.Settings{FuncEvaluations: evals,
		Converger: &optimize.FunctionConverge{Absolute: 1e-4, Iterations: 15}}
	result, err := optimize.Minimize(problem, x, settings, &optimize.NelderMead{SimplexSize: 0.5})
	if result == nil || err != nil && len(result.X) == 0 || result.F >= worse {
		return x, math.Inf(1)
	}
	return result.X, result.F
}
