// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package randmat

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/num"
)

// MinEigenvalueLaw is the law of λ_min(W), W ~ W_d(m), d = Dim, m = Dof > d-1 real. Its methods
// compute F(x) = P(λ_min(W) < x) from a Markov chain of d steps [DE02] with positive terms only, so
// small probabilities keep their relative accuracy: 1e-10 in comparisons with exact arithmetic, at
// most 1e-8, in about 0.3 s at d = 500. See docs/theory/numerics.md#numerics.eigenlaw. For a law
// that Check refuses, LogCDF and LogQuantile are 0.
type MinEigenvalueLaw struct {
	Dim int
	Dof float64
}

const (
	// logLeast ends the range of the chain: below e^logLeast LogCDF returns the bound of
	// EdelmanLogCDF.
	logLeast = -80.
	// chainDim and chainDof end the range of the chain, whose time grows like d √m.
	chainDim = 5000
	chainDof = 2e4
	// chainX is the least x of the chain, whose quotients would underflow; F(chainX) bounds F below
	// it.
	chainX = 1e-290
	// safe is the relative excess of quantiles over the chain, a hundred times its error.
	safe = 1e-6
)

// Check reports whether the law exists; the error wraps ErrDimension or ErrDegrees.
func (l MinEigenvalueLaw) Check() error {
	if l.Dim < 0 {
		return fmt.Errorf("%w: dimension %d, want at least 1", ErrDimension, l.Dim)
	}
	return checkDegrees(l.Dim, l.Dof)
}

// LogCDF returns log F(x), F(x) = P(λ_min(W) < x), -Inf for x ≤ 0 and 0 for NaN. It increases with
// x and is never too small by more than its error:
//
//   - for d ≤ 5000, m ≤ 2e4, x ≥ 1e-290 and F ≥ e⁻⁸⁰, log F up to 1e-8, by the chain;
//   - for d = 1 (χ²_m) and m = d+1 (exponential) log F in closed form;
//   - else an upper bound: for larger d or m those of [Ede88] and [DS01], for smaller x
//     the least of [Ede88] and log F(1e-290), for smaller F -80 or [Ede88] below -80.
//
// Where F scales noise, multiply it by 1+1e-6.
func (l MinEigenvalueLaw) LogCDF(x float64) float64 { return l.logCDF(x, fine) }

func (l MinEigenvalueLaw) logCDF(x, panels float64) float64 {
	if logF, ok := l.trivial(x); ok {
		return logF
	}
	switch {
	case l.Dim == 1:
		return num.Chi2LogCDF(x, l.Dof)
	case l.Dof == float64(l.Dim)+1: // F = 1 - exp(-dx/2)
		return num.Log1mExp(-float64(l.Dim) * x / 2)
	}
	bound := EdelmanLogCDF(l.Dim, l.Dof, x)
	if bound <= logLeast {
		return bound
	}
	if l.Dim > chainDim || l.Dof > chainDof {
		return min(bound, davidsonSzarekLogCDF(l.Dim, l.Dof, x))
	}
	return max(logLeast, min(bound, num.Log(minEigCDF(l.Dim, l.Dof, max(x, chainX), panels))))
}

// trivial returns log F(x), or the bound 0 for an unknown law, if no computation is needed.
func (l MinEigenvalueLaw) trivial(x float64) (logF float64, ok bool) {
	switch {
	case l.Check() != nil || !(x < math.Inf(1)):
		return 0, true
	case x <= 0:
		return math.Inf(-1), true
	}
	return 0, false
}

// LogQuantile returns the p-quantile of λ_min for p = e^logp, rounded down: the result x satisfies
// (1+1e-6) F(x) ≤ p, and is the largest such number to a relative 2e-6 where the chain computes F.
// It is 0 for p = 0, NaN and results below 1e-300, and +Inf for p ≥ 1.
func (l MinEigenvalueLaw) LogQuantile(logp float64) float64 {
	switch {
	case l.Check() != nil || !(logp > math.Inf(-1)):
		return 0
	case logp >= 0:
		return math.Inf(1)
	}
	n := float64(l.Dim)
	// Start near the edge (√m - √d)² of the bulk; its relative width is the slope of log λ_min against
	// a normal score, and twice that in the tail.
	edge := math.Sqrt(l.Dof) - math.Sqrt(max(n-1, 0))
	slope := math.Cbrt(1/math.Sqrt(n)-1/math.Sqrt(l.Dof+1)) / edge
	goal := score(logp - safe)
	x, slope, ok := num.Secant(func(logx float64) float64 { return score(l.logCDF(math.Exp(logx), coarse)) - goal },
		2*num.Log(edge)+slope*(goal-1), 2*slope, 1e-4)
	const width = 2e-7
	x = math.Exp(x - width)
	if gap := goal - score(l.LogCDF(x)); ok && gap >= 0 && gap*slope < 3*width {
		return x
	}
	return num.Largest(func(x float64) float64 { return score(l.LogCDF(x)) }, goal, x, width)
}

// score maps a log probability approximately to its normal score, which is nearly linear in log x.
// It increases.
func score(logp float64) float64 {
	if logp < -600 {
		return -math.Sqrt(-2*logp - 7.4) // below the normal score at e⁻⁶⁰⁰, -34.50
	}
	return num.NormalQuantile(min(math.Exp(logp), 1-0x1p-53))
}

// logEdelman returns log C of EdelmanLogCDF.
func logEdelman(d int, m float64) float64 {
	n := float64(d)
	k := m - n + 1
	return num.Log(n) + num.LogGamma(1.5) + num.LogGamma((m+1)/2) - num.LogGamma(n/2+1) - num.LogGamma((k+1)/2)
}

// EdelmanLogCDF returns an upper bound of log F(x), at most 0 [Ede88]:
//
//	F(x) ≤ C P(k/2, x/2),  C = d Γ(3/2) Γ((m+1)/2) / (Γ(d/2+1) Γ((k+1)/2)),  k = m-d+1,
//
// P the regularized lower incomplete gamma function: the bound replaces λᵢ - λ_min by λᵢ in the
// joint density of the eigenvalues. It is sharp as x → 0 and useless in the bulk. EdelmanLogCDF is
// 0 outside the law's domain, d ≥ 1 and m > d-1, and -Inf for x ≤ 0.
func EdelmanLogCDF(d int, m, x float64) float64 {
	if logF, ok := (MinEigenvalueLaw{d, m}).trivial(x); ok {
		return logF
	}
	return min(0, logEdelman(d, m)+num.GammaLogP((m-float64(d)+1)/2, x/2))
}

// davidsonSzarekLogCDF returns an upper bound on log F(x) [DS01], F(x) ≤ exp(-(√m - √d - √x)²/2)
// for √x ≤ √m - √d, and 0 for larger x. It is proved for integers m; for a real m it holds with
// ⌊m⌋, since F decreases in m.
func davidsonSzarekLogCDF(d int, m, x float64) float64 {
	if logF, ok := (MinEigenvalueLaw{d, m}).trivial(x); ok {
		return logF
	}
	s := math.Sqrt(math.Floor(m)) - math.Sqrt(float64(d)) - math.Sqrt(x)
	if s <= 0 {
		return 0
	}
	return -s * s / 2
}
