// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/randmat"
)

// table bounds log F from above on [lo, hi], F the distribution function of λ_min(W_d(m)). The
// normal score Φ⁻¹(F), nearly a line against log x, is interpolated by a polynomial at Chebyshev
// nodes in log x; margin is ten times the largest misfit at points between nodes.
type table struct {
	lo, hi float64
	a, b   float64   // log lo, log hi
	coef   []float64 // of the score
	margin float64
}

const (
	// leastMargin of a table covers the error of randmat.
	leastMargin = 1e-6
	// fineMisfit is the error in log F at which the number of nodes is doubled for the last time: each
	// doubling gives about twice the digits.
	fineMisfit = 1e-3
	// mostNodes of a table bounds the number of evaluations of the exact law.
	mostNodes = 129
)

// newTable tabulates the law of λ_min(W_d(m)). The table begins where F is negligible compared with
// e^logp, or is no longer known exactly, and ends in the bulk. A poor interval or too few nodes
// cost utility, never privacy.
func newTable(d int, m, logp float64) *table {
	dim := float64(d)
	law := randmat.MinEigenvalueLaw{Dim: d, Dof: m}
	logF := law.LogCDF
	bottom, top := logp-18, math.Log(bulk)
	switch {
	case logp < exactLog+20: // a proved bound, smooth up to the point where it is 1
		logF = func(x float64) float64 { return randmat.EdelmanLogCDF(d, m, x) }
		top = -2
	case bottom < exactLog:
		bottom = exactLog
	}
	t := &table{lo: roughQuantile(dim, m, bottom), hi: newRoughLaw(dim, m).top()}
	if d < 6 || logp < -15 { // where the guesses are poor
		t.lo, t.hi = quantile(logF, t.lo, bottom), quantile(logF, t.hi, top)
	}
	t.hi = math.Max(t.hi, 1.01*t.lo)
	t.a, t.b = num.Log(t.lo), num.Log(t.hi)
	t.fit(logF)
	return t
}

// fit doubles the number of intervals between nodes until the polynomial predicts the values at the
// new nodes, interpolates all of them, and sets margin.
func (t *table) fit(logF func(x float64) float64) {
	at := func(i, n int) float64 { return math.Exp(t.place(math.Cos(math.Pi * float64(i) / float64(n)))) }
	n := 8
	score := make([]float64, n+1)
	for i := range score {
		score[i] = normalScore(logF(at(i, n)))
	}
	t.interpolate(score)
	for misfit := math.Inf(1); misfit > fineMisfit && 2*n < mostNodes; {
		misfit = 0
		next := make([]float64, 2*n+1)
		for i := range next {
			if i%2 == 0 {
				next[i] = score[i/2]
				continue
			}
			x := at(i, 2*n)
			l := logF(x)
			next[i] = normalScore(l)
			misfit = math.Max(misfit, math.Abs(l-t.logCDF(x)))
		}
		n, score = 2*n, next
		t.interpolate(score)
	}
	misfit := 0.0
	for _, i := range []int{1, n/2 - 1, 2*n - 3} { // near both ends and in the middle
		x := at(2*i+1, 4*n)
		misfit = math.Max(misfit, math.Abs(logF(x)-t.logCDF(x)))
	}
	t.margin = leastMargin + 10*misfit
}

// place maps [−1, 1] to log x in the table.
func (t *table) place(u float64) float64 { return (t.a+t.b)/2 + (t.b-t.a)/2*u }

// interpolate sets the coefficients of the polynomial with given values at cos(πi/n).
func (t *table) interpolate(v []float64) {
	n := len(v) - 1
	t.coef = make([]float64, n+1)
	for j := range t.coef {
		s := (v[0] + v[n]*math.Cos(math.Pi*float64(j))) / 2
		for i := 1; i < n; i++ {
			s += v[i] * math.Cos(math.Pi*float64(i*j%(2*n))/float64(n))
		}
		t.coef[j] = 2 * s / float64(n)
	}
	t.coef[0] /= 2
	t.coef[n] /= 2
}

// normalScore returns Φ⁻¹(e^logp), for probabilities clamped to the range of float64.
func normalScore(logp float64) float64 {
	return num.NormalQuantile(math.Min(math.Max(math.Exp(logp), 0x1p-1022), 1-0x1p-53))
}

// logCDF returns a bound on log F(x): by the polynomial in [lo, hi], the bound at lo below, and 0
// above.
func (t *table) logCDF(x float64) float64 {
	if x > t.hi {
		return 0
	}
	u := (2*num.Log(math.Max(x, t.lo)) - t.a - t.b) / (t.b - t.a)
	return math.Min(num.LogPhi(num.Chebyshev(t.coef, u))+t.margin, 0)
}

// exactLog is a log probability down to which randmat computes F by its chain, not by a bound.
const exactLog = -75

// quantile returns x with log F(x) close to logp, by secant steps of the normal score against log
// x. It only places a table, for which 1 % is enough.
func quantile(logF func(x float64) float64, guess, logp float64) float64 {
	goal := normalScore(logp)
	u, last := num.Log(guess), 0.0
	flast := math.NaN()
	slope := 1.0
	for range 40 {
		f := normalScore(logF(math.Exp(u))) - goal
		if s := (f - flast) / (u - last); s > 0 && !math.IsInf(s, 1) { // false for NaN
			slope = s
		}
		step := math.Max(-4, math.Min(4, -f/slope))
		last, flast = u, f
		u += step
		if math.Abs(f) < 0.1 {
			break
		}
	}
	return math.Exp(u)
}

// ends returns the interval of the table, outside of which logCDF is a crude bound.
func (t *table) ends() (lo, hi float64) { return t.lo, t.hi }

// minLaw is log F and the interval on which it is known.
type minLaw interface {
	logCDF(x float64) float64
	ends() (lo, hi float64)
}

// roughLaw approximates the law of λ_min(W_d(m)) in a microsecond, to choose m; privacy does not
// depend on it. It is log λ_min ≈ ν − τ·TW with the Tracy–Widom variable TW, nearly a shifted gamma
// variable, whose upper tail is exp(−(2/3)s^{3/2})/(4√π s^{3/2}).
type roughLaw struct{ nu, tau float64 }

func newRoughLaw(d, m float64) roughLaw {
	a, b := math.Sqrt(m-0.5), math.Sqrt(d-0.5)
	tau := math.Cbrt(1/b-1/a) / (a - b)
	return roughLaw{2*num.Log(a-b) + tau*tau/8, tau}
}

func (r roughLaw) logCDF(x float64) float64 {
	s := (r.nu - num.Log(x)) / r.tau
	if s > 2 {
		return -2.0/3*math.Pow(s, 1.5) - num.Log(4*math.SqrtPi) - 1.5*num.Log(s)
	}
	if s < -9.8 {
		return 0
	}
	return num.GammaLogQ(46.446, (s+9.84801)/0.186054)
}

func (roughLaw) ends() (lo, hi float64) { return 0, math.Inf(1) }

// bulk is the probability at which tables end: F counts as 1 above.
const bulk = 0.98

// top approximates the quantile of bulk.
func (r roughLaw) top() float64 { return math.Exp(r.nu + 3.6*r.tau) } // P(TW₁ < −3.6) ≈ 2 %

// roughRange is a roughLaw on the interval of a table.
type roughRange struct {
	roughLaw
	lo, hi float64
}

func newRoughRange(d, m, logp float64) roughRange {
	r := newRoughLaw(d, m)
	return roughRange{r, roughQuantile(d, m, logp-18), r.top()}
}

func (r roughRange) ends() (lo, hi float64) { return r.lo, math.Max(r.hi, 1.01*r.lo) }

// roughQuantile approximates the quantile of log probability logp of λ_min(W_d(m)), to choose m and
// to place tables.
func roughQuantile(d, m, logp float64) float64 {
	if d < 1.5 {
		return num.Chi2Quantile(logp, m)
	}
	r := newRoughLaw(d, m)
	s := 1.0
	for range 50 { // a fixed point of s^{3/2} = (3/2)(−logp − log(4√π s^{3/2}))
		s = math.Pow(math.Max(1.5*(-logp-num.Log(4*math.SqrtPi*math.Pow(math.Max(s, 0.3), 1.5))), 0.1), 2.0/3)
	}
	return math.Max(math.Exp(r.nu-r.tau*s), edelmanQuantile(d, m, logp))
}

// edelmanQuantile returns a lower bound on the quantile, by F(x) ≤ D·γ(k/2, x/2). The bound is
// sharp near 0, and within 7 % in two and 16 % in five dimensions for log probabilities below −3,
// where roughQuantile alone would be too large by a factor of up to 5 for small k.
func edelmanQuantile(d, m, logp float64) float64 {
	k := m - d + 1
	return 2 * num.GammaInvLogP(k/2, math.Min(logp-logEdelman(d, m)-num.LogGamma(k/2), -1e-9))
}

// logEdelman returns log D of the bound F(x) ≤ D·γ(k/2, x/2), γ the lower incomplete gamma
// function, k = m − d + 1: docs/theory/numerics.md#numerics.eigenlaw
func logEdelman(d, m float64) float64 {
	k := m - d + 1
	return num.Log(d) + num.LogGamma(1.5) +
		num.LogGamma((m+1)/2) - num.LogGamma(d/2+1) - num.LogGamma(k/2) - num.LogGamma((k+1)/2)
}
