// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/privopt/privopt/internal/num"
)

// leastRatio returns an integer m, least ≤ m ≤ most, that nearly minimizes the unimodal function
// cost: m − least + 2 is within 3 % of the best value. The minimum is flat, so cost(m) is within
// 0.1 % of the least cost.
func leastRatio(cost func(m float64) float64, least, most float64) float64 {
	at := func(v float64) float64 { return math.Min(math.Round(math.Exp(v))+least-2, most) }
	v, _ := num.Minimize(func(v float64) float64 { return cost(at(v)) }, math.Ln2-0.1, num.Log(most-least+3), 0, 0.06)
	return at(v)
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
