package qop

import (
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/privopt/privopt/internal/num"
)

// largest returns the largest t, less at most the fraction tol, at which the
// nondecreasing log δ(t) is at most logTarget; logDelta(t) ≤ logTarget holds at
// the value returned, which is what makes it safe. guess > 0 starts the search.
// It returns 0 if no t > 1e-300 will do.
//
// In log t the function is nearly linear, so regula falsi with the step of
// Illinois needs about five evaluations.
func largest(logDelta func(t float64) float64, logTarget, guess, tol float64) float64 {
	f := func(u float64) float64 { return logDelta(math.Exp(u)) - logTarget }
	const floor = -690 // log 1e-300
	lo := math.Max(num.Log(guess), floor+1)
	flo := f(lo)
	hi, fhi := lo, flo
	for step := 0.15; !(flo <= 0); step *= 2 { // also NaN
		if lo <= floor {
			return 0
		}
		hi, fhi = lo, flo
		lo = math.Max(lo-step, floor)
		flo = f(lo)
	}
	for step := 0.15; fhi <= 0; step *= 2 {
		lo, flo = hi, fhi
		if hi += step; hi > -floor {
			return math.Exp(lo)
		}
		fhi = f(hi)
	}
	side, wlo, whi := 0, flo, fhi // weights of Illinois
	for i := 0; hi-lo > tol && i < 200; i++ {
		u := lo - wlo*(hi-lo)/(whi-wlo)
		if !(u > lo && u < hi) || math.IsInf(flo, -1) || i%12 == 11 {
			u = (lo + hi) / 2
		}
		// Land on the far side of the root, within tol, once it is known that well.
		if u < lo+tol/2 {
			u = math.Min(lo+tol/2, (lo+hi)/2)
		} else if u > hi-tol/2 {
			u = math.Max(hi-tol/2, (lo+hi)/2)
		}
		if v := f(u); v <= 0 {
			lo, flo, wlo = u, v, v
			if side == -1 {
				whi /= 2
			}
			side = -1
		} else {
			hi, fhi, whi = u, v, v
			if side == 1 {
				wlo /= 2
			}
			side = 1
		}
		if fhi-flo == 0 {
			break
		}
	}
	return math.Exp(lo)
}

// leastRatio returns the integer m, least ≤ m ≤ most, that nearly minimizes cost(m), a
// unimodal function with a flat minimum: within 3 % of the minimizer of
// m − least + 2, which costs less than 0.1 % of the minimum. start is the first m
// tried.
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
		a, fa, b, fb = b, fb, c, fc
		c += step
		fc, _ = at(c)
	}
	for fa < fb && a > math.Ln2 {
		c, fc, b, fb = b, fb, a, fa
		a = math.Max(a-step, math.Ln2)
		fa, _ = at(a)
	}
	if fa < fb {
		b, fb = a, fa
	}
	for c-a > 0.08 {
		// The larger half is cut by the golden section.
		if v := 0.0; c-b > b-a {
			v = b + 0.382*(c-b)
			if fv, _ := at(v); fv < fb {
				a, b, fb = b, v, fv
			} else {
				c = v
			}
		} else {
			v = b - 0.382*(b-a)
			if fv, _ := at(v); fv < fb {
				c, b, fb = b, v, fv
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

// simplex returns the best point that about evals evaluations of gonum's method of Nelder and Mead find for f
// from x, with edges of half a unit; +Inf and NaN are worse than every number.
func simplex(f func(x []float64) float64, x []float64, evals int) (best []float64, value float64) {
	const worse = 1e300 // the method compares and averages, so that infinities are kept from it
	problem := optimize.Problem{Func: func(x []float64) float64 {
		if v := f(x); v < worse {
			return v
		}
		return worse
	}}
	settings := &optimize.Settings{FuncEvaluations: evals, Converger: optimize.NeverTerminate{}}
	result, err := optimize.Minimize(problem, x, settings, &optimize.NelderMead{SimplexSize: 0.5})
	if result == nil || err != nil && len(result.X) == 0 || result.F >= worse {
		return x, math.Inf(1)
	}
	return result.X, result.F
}
