// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import "math"

// Bisect narrows a bracket of a monotone predicate until its ends are neighboring float64 numbers
// or 200 halvings are done: if ok(lo) and not ok(hi), the same holds for good and bad. The ends may
// be in either order. Between positive ends that are far apart it halves the logarithm.
func Bisect(ok func(x float64) bool, lo, hi float64) (good, bad float64) {
	return BisectTo(ok, lo, hi, 0)
}

// BisectTo is Bisect that stops once the ends differ by a relative tol at most.
func BisectTo(ok func(x float64) bool, lo, hi, tol float64) (good, bad float64) {
	good, bad = lo, hi
	for range 200 {
		mid := good + (bad-good)/2
		if good > 0 && bad > 0 && (good > 4*bad || bad > 4*good) {
			mid = math.Sqrt(good) * math.Sqrt(bad)
		}
		if mid == good || mid == bad || math.Abs(bad-good) <= tol*math.Abs(good) {
			break
		}
		if ok(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
	return good, bad
}

// LeastRoot returns an x > 0 with f(x) ≥ 0, above the least one by a relative tol at most, for an f
// that does not decrease. It looks for a bracket from start > 0 on and narrows it by Narrow. It is
// +Inf if f is negative or NaN up to the largest float64, and almost 0 if f is never negative.
func LeastRoot(f func(x float64) float64, start, tol float64) float64 {
	hi := min(start, math.MaxFloat64)
	fhi := f(hi)
	for !(fhi >= 0) {
		hi = max(1.25*hi, math.Nextafter(hi, math.Inf(1))) // the least numbers do not grow by a quarter
		if !(hi > 0 && hi < math.MaxFloat64) {             // also NaN: nothing is enough
			return math.Inf(1)
		}
		fhi = f(hi)
	}
	lo := hi / 1.25
	flo := f(lo)
	for flo >= 0 && lo > math.SmallestNonzeroFloat64 {
		hi, fhi = lo, flo
		lo /= 1.5
		flo = f(lo)
	}
	if flo >= 0 {
		return lo
	}
	return Narrow(f, lo, flo, hi, fhi, tol)
}

// Narrow returns an x in (lo, hi] with f(x) ≥ 0, above the least one by a relative tol at most, for
// f(lo) = flo < 0 ≤ fhi = f(hi). It uses regula falsi with halved weights for an end that stays,
// which takes few steps if f is nearly linear. f(x) ≥ 0 was checked for the result.
func Narrow(f func(x float64) float64, lo, flo, hi, fhi, tol float64) float64 {
	for i, side := 0, 0; hi-lo > tol*hi && i < 200; i++ {
		x := lo + (hi-lo)*(flo/(flo-fhi))
		if math.IsNaN(x) {
			x = lo + (hi-lo)/2
		}
		x = min(max(x, lo+tol/3*hi), hi-tol/3*hi) // so that the far end closes in too
		switch v := f(x); {
		case v >= 0:
			hi, fhi = x, v
			if side > 0 {
				flo /= 2
			}
			side = 1
		default:
			lo, flo = x, v
			if side < 0 {
				fhi /= 2
			}
			side = -1
		}
	}
	return hi
}

// Secant looks for a root of an increasing f by secant steps from x, the first with the given slope
// dx/df, until a step is at most tol. It returns the point after that step and dx/df there; ok is
// false if ten steps are not enough or a slope is not positive.
func Secant(f func(x float64) float64, x, slope, tol float64) (root, gain float64, ok bool) {
	last, before := math.NaN(), 0.0
	for range 10 {
		v := f(x)
		if g := (x - last) / (v - before); g > 0 { // false for NaN
			slope = g
		}
		last, before = x, v
		x -= v * slope
		if math.Abs(x-last) <= tol {
			return x, slope, true
		}
		if !(slope > 0) || math.IsInf(x, 0) || math.IsNaN(x) {
			break
		}
	}
	return x, slope, false
}

// Minimize returns the best point it finds for f on [lo, hi], and its value. It divides the
// interval into the given number of steps, takes the best of their ends, and narrows the two steps
// around it to a length of at most tol by golden section. With 0 steps it narrows the whole
// interval, which finds the minimum of a unimodal f, and does not evaluate f at lo and hi. NaN is
// worse than every number.
func Minimize(f func(x float64) float64, lo, hi float64, steps int, tol float64) (x, value float64) {
	x, value = lo, math.Inf(1)
	try := func(y float64) float64 {
		v := f(y)
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		if v < value {
			x, value = y, v
		}
		return v
	}
	a, b := lo, hi
	if steps > 0 {
		h := (hi - lo) / float64(steps)
		for i := range steps + 1 {
			try(lo + float64(i)*h)
		}
		a, b = max(lo, x-h), min(hi, x+h)
	}
	const golden = 0.6180339887498949 // (√5 − 1)/2
	left, right := b-golden*(b-a), a+golden*(b-a)
	fl, fr := try(left), try(right)
	for b-a > tol && a < left && left < right && right < b { // else float64 has no points between
		if fl <= fr {
			b, right = right, left
			fr = fl
			left = b - golden*(b-a)
			fl = try(left)
		} else {
			a, left = left, right
			fl = fr
			right = a + golden*(b-a)
			fr = try(right)
		}
	}
	return x, value
}

// Valley is Minimize in fewer evaluations of a smooth f: it narrows the two steps by parabolas
// through three points, and by golden section where they do not help, to within tol of a minimum.
//
// Source: Brent, Algorithms for Minimization without Derivatives, 1973, section 5.8.
func Valley(f func(x float64) float64, lo, hi float64, steps int, tol float64) (x, value float64) {
	const golden = 0.3819660112501051 // (3 − √5)/2
	at := func(x float64) float64 {
		if v := f(x); !math.IsNaN(v) {
			return v
		}
		return math.Inf(1)
	}
	end, least := lo, math.Inf(1)
	if steps > 0 {
		h := (hi - lo) / float64(steps)
		for i := range steps + 1 {
			y := lo + float64(i)*h
			if v := at(y); v < least {
				end, least = y, v
			}
		}
		lo, hi = max(lo, end-h), min(hi, end+h)
	}
	x = lo + golden*(hi-lo)
	value = at(x)
	second, third := x, x
	fsecond, fthird := value, value // the next best points
	step, before := 0.0, 0.0
	for range 200 {
		mid := lo + (hi-lo)/2
		if math.Abs(x-mid)+(hi-lo)/2 <= 2*tol || !(lo < mid && mid < hi) {
			break
		}
		r, q := (x-second)*(value-fthird), (x-third)*(value-fsecond)
		p := (x-third)*q - (x-second)*r
		q = 2 * (q - r)
		if q > 0 {
			p = -p
		}
		q = math.Abs(q)
		if math.Abs(p) < math.Abs(q*before/2) && p > q*(lo-x) && p < q*(hi-x) { // false for NaN
			before, step = step, p/q
			if u := x + step; u-lo < 2*tol || hi-u < 2*tol {
				step = math.Copysign(tol, mid-x)
			}
		} else {
			before = hi - x
			if x >= mid {
				before = lo - x
			}
			step = golden * before
		}
		if math.Abs(step) < tol {
			step = math.Copysign(tol, step)
		}
		u := x + step
		switch v := at(u); {
		case v <= value:
			if u < x {
				hi = x
			} else {
				lo = x
			}
			third, fthird = second, fsecond
			second, fsecond = x, value
			x, value = u, v
		default:
			if u < x {
				lo = u
			} else {
				hi = u
			}
			if v <= fsecond || second == x {
				third, fthird = second, fsecond
				second, fsecond = u, v
			} else if v <= fthird || third == x || third == second {
				third, fthird = u, v
			}
		}
	}
	if least < value {
		return end, least
	}
	return x, value
}

// Largest returns the largest x, less at most the fraction tol, at which the nondecreasing f is at
// most most. f(x) ≤ most was checked at the x returned, which makes it safe. guess > 0 starts the
// search; the result is 0 if no x > 1e-300 will do. The search is regula falsi in log x with the
// step of Illinois: about five evaluations for an f that is nearly linear in log x.
func Largest(f func(x float64) float64, most, guess, tol float64) float64 {
	at := func(u float64) float64 { return f(math.Exp(u)) - most }
	const floor = -690 // log 1e-300
	if !(guess > 0 && guess < 0x1p900) {
		guess = 1
	}
	lo := math.Max(Log(guess), floor+1)
	flo := at(lo)
	hi, fhi := lo, flo
	for step := 0.15; !(flo <= 0); step *= 2 { // also NaN
		if lo <= floor {
			return 0
		}
		hi, fhi = lo, flo
		lo = math.Max(lo-step, floor)
		flo = at(lo)
	}
	for step := 0.15; fhi <= 0; step *= 2 {
		lo, flo = hi, fhi
		if hi += step; hi > -floor {
			return math.Exp(lo)
		}
		fhi = at(hi)
	}
	side, wlo := 0, flo
	whi := fhi // weights of Illinois
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
		if v := at(u); v <= 0 {
			lo, flo = u, v
			wlo = v
			if side == -1 {
				whi /= 2
			}
			side = -1
		} else {
			hi, fhi = u, v
			whi = v
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
