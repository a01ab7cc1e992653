package erm

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
)

const (
	// defaultCover is R in units of the radius B, where rounding allows it.
	defaultCover = 1e-11
	// exactSlope is the error of loss.Exact, relative to |φ′| + sup φ″(|u|+|b|).
	exactSlope = 0x1p-90
)

// PublicPerturbation is what may be known of a Perturbation before it is drawn: bounds that hold
// but for an event whose probability the plan pays for.
type PublicPerturbation struct {
	Linear         float64 // B_max ≥ ‖b‖₂
	MinEig, MaxEig float64 // of Q, which is ΔI in linear perturbation: a₀ ≤ λ_min, λ_max ≤ q̄
	Center         float64 // ‖θ̃‖₂
	// CenterSlope is a bound on dist(0, ∂(F+r+ι_C)(θ̃)) where one is known, as it is if every record
	// interpolates θ̃; 0 means unknown.
	CenterSlope            float64
	LinearError, QuadError float64 // as in Perturbation
}

// Reach returns a bound ρ on the norm of the minimizer θ* of J. It is the least of
//
//	sup ‖θ‖ over C
//	‖p‖ + (C₀ + √(C₀² + 2μNH))/μ,   C₀ = B_max + q̄‖p−θ̃‖ + G_r
//	‖p‖ + (C₀ + NG)/μ
//	‖θ̃‖ + (CenterSlope + B_max)/μ
//
// with μ and q̄ that hold for the real Q, and it is at least ‖p‖. Proof: docs/theory/release.md#release.reach.
func (q Public) Reach(per PublicPerturbation) float64 {
	mu, n := per.MinEig+q.Modulus-per.QuadError, float64(q.MaxRecords)
	c0 := per.Linear + per.LinearError + (per.MaxEig+per.QuadError)*(q.Anchor+per.Center) + q.Slope
	t := min((c0+math.Sqrt(c0*c0+2*mu*n*q.LossRange))/mu, (c0+n*q.Gradient)/mu)
	rho := min(q.Radius, q.Anchor+t)
	if per.CenterSlope > 0 {
		rho = max(min(rho, per.Center+(per.CenterSlope+per.Linear+per.LinearError)/mu), q.Anchor)
	}
	return rho * (1 + 0x1p-48)
}

// Allowance returns A(ρ), a bound on what Residual adds for rounding at any point x of C with
// ‖x‖₂ ≤ ρ, whatever the records. At a pair x + low ResidualPair adds 4(d+4)²u‖Q‖‖low‖ more, but the
// gradient is within A(ρ) there too.
func (q Public) Allowance(per PublicPerturbation, rho float64) float64 {
	n, d := float64(q.MaxRecords), float64(q.Dim)
	slope, beta := q.slope(rho), q.OnSet.Smoothness // sup ‖∇ℓ‖, sup λ_max(∇²ℓ)
	far := rho + per.Center                         // ‖x−θ̃‖
	k := d + 4
	a := 96*unit*unit*(per.Linear+per.MaxEig*far) + 4*k*k*unit*unit*math.Sqrt(d)*per.MaxEig*far + 4*k*k*tiny
	switch sum := 6 * (maxGrain + 32) * unit * unit; { // the rounding of the sums of a grain, and of their exact sum
	case q.Exact:
		a += n*(exactSlope+sum)*slope + n*(exactSlope+k*k*unit*unit)*beta*(rho+q.Bounds.Label/q.Bounds.Row)
	case q.Linear:
		a += n*(allowSlope+sum)*slope + n*(allowSlope+k*k*unit*unit)*beta*rho
	default:
		a += n * (allowGrad + sum) * slope
	}
	a += n * (5*k*tiny*(1+beta/q.Bounds.Row) + slope*min(1, 0x1p-500/q.Bounds.Row) + 0x1p-530*math.Sqrt(beta)) // underflow and rows next to 0
	dist := 0x1p-97
	if !q.Split {
		dist = 2 * allowDist
	}
	a = boundRoom*a + dist*(n*slope+per.Linear+per.MaxEig*far+q.Modulus*rho)
	a += per.LinearError + per.QuadError*far
	if !q.Split {
		a += (n*beta + per.MaxEig + q.Modulus) * q.ProxFactor * unit * (rho + q.ProxScale)
	}
	return a * (1 + (d+64)*0x1p-52)
}

// slope returns a bound on ‖∇ℓ(x)‖₂ over x ∈ C with ‖x‖₂ ≤ rho.
func (q Public) slope(rho float64) float64 {
	return min(known(q.OnSet.Lipschitz), q.Gradient+q.OnSet.Smoothness*(rho+q.Anchor))
}

// Floor returns the least R for which a solver always ends within R of the minimizer of J, from
// public quantities,
//
//	4(E/μ + uρ),   E = A(4ρ) + S(4ρ),
//
// γS being the error of one step, of size γ, of the descent of internal/release, which needs it:
// docs/theory/release.md#release.floor. It is +Inf where nothing bounds the minimizer or the
// rounding: for kinked losses, operators of unknown accuracy, and losses of unknown range and slope
// without a bounded Set.
func (q Public) Floor(per PublicPerturbation) float64 {
	mu := per.MinEig + q.Modulus - per.QuadError
	rho := q.Reach(per)
	e := q.Allowance(per, 4*rho) + q.stepError(per, 4*rho)
	floor := 4 * (e/mu + unit*rho) * (1 + 0x1p-40)
	if !(mu > 0 && floor >= 0) {
		return math.Inf(1)
	}
	return floor
}

// stepError returns S: 1/γ times the error of x − γ∇f(x) and of the proximal map after it, for
// ‖x‖ ≤ rho and a gradient within the allowance, 1/γ the larger of ℓ and μ. Where g is a sum over coordinates, points and
// proximal maps have twice the precision.
func (q Public) stepError(per PublicPerturbation, rho float64) float64 {
	n := float64(q.MaxRecords)
	ell := max(n*q.OnSet.Smoothness, q.Modulus) + per.MaxEig
	size := 2*ell*rho + n*q.slope(rho) + per.Linear + per.MaxEig*per.Center // ≥ ‖x‖/γ, ‖∇f‖, ‖x−γ∇f‖/γ
	if q.Split && q.Linear {
		return 0x1p-96 * size
	}
	return (q.ProxFactor + 3) * unit * (size + ell*q.ProxScale)
}

// Cover returns the default R for a comparator of radius B, and stated itself if that is not 0: the
// larger of Floor and 1e-11·B.
func (q Public) Cover(per PublicPerturbation, stated, radius float64) (float64, error) {
	floor := q.Floor(per)
	if math.IsInf(floor, 1) {
		if err := q.Smooth(); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: nothing public bounds the minimizer or the rounding of its solver; want a bounded Set, or "+
			"a loss that declares a Range with operators that are prox.Accurate", dp.ErrCondition)
	}
	switch {
	case stated == 0:
		return max(floor, defaultCover*radius), nil
	case !(stated >= floor):
		return 0, fmt.Errorf("%w: Cover = %v, but in float64 a minimizer is sure to be reached only within %v: want at "+
			"least that, or 0 for the default",
			dp.ErrCondition, stated, floor)
	}
	return stated, nil
}
