package qop

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Published holds the inputs of the constants of [CC26].
type Published struct {
	Dim        int     // d
	Degrees    float64 // m ≥ d+1
	Rank       int     // ρ
	Smoothness float64 // L

	Epsilon1, Epsilon2             float64 // of the curvature and of the output noise; Epsilon2 may be 0 if Tau is
	Delta1, Delta2, Delta3, Delta4 float64 // Delta2 and Delta4 may be 0 if Tau is
	Tau, Eta                       float64 // objective gap of the solver and error of the anchor
}

// PublishedConstants are the constants of [CC26] for comparison: no release
// may rest on AsPrinted, and Sigma2 is 6 to 148 times what is needed.
type PublishedConstants struct {
	Alpha, F2, Beta float64 // Beta is 0 without Delta4
	Alpha1          float64 // +Inf where the equation has no solution
	Sigma2          float64
	OutputSigma     float64 // σ̃, 0 if Tau = 0
}

// Constants returns
//
//	α  solves P(k/2, α/2) = δ₃/(DΓ(k/2)),   k = m−d+1,   D of [Ede88]
//	α₁ solves P(k/2, (α+α₁)/2) = P(k/2, α/2) + δ₁(1−δ₃)/(DΓ(k/2))
//	f₂ = k/α + 1
//	σ² = max{ (2L/ε₁)(f₂ + 2(2ρ+2)/α), 2L/α₁ }
//	β  = (√(2 ln(2/(δ₄(1−δ₃)))) + √m + √d)²
//	σ̃  = (√(2τ/(ασ²)) + βη/α)·(2/ε₂)·√(2 ln(1.25/δ₂)), 0 if τ = 0
//
// With asPrinted, α₁ solves P(k/2, α+α₁) = P(k/2, α) + δ₁(1−δ₃)/(DΓ(k/2)), which
// misses two factors ½: α₁ then comes out smaller by up to 10¹³, or as +Inf,
// with which the second term of σ² is lost. The error wraps ErrMechanism for
// inputs without meaning.
func (p Published) Constants(asPrinted bool) (PublishedConstants, error) {
	if err := p.check(); err != nil {
		return PublishedConstants{}, err
	}
	d := float64(p.Dim)
	k := p.Degrees - d + 1
	logD := logEdelman(d, p.Degrees) + lgamma(k/2)
	var c PublishedConstants
	half := num.GammaInvLogP(k/2, math.Min(num.Log(p.Delta3)-logD, 0))
	c.Alpha = 2 * half
	logp1 := num.Log(p.Delta1) + math.Log1p(-p.Delta3) - logD
	if asPrinted {
		c.Alpha1 = gammaStep(k/2, c.Alpha, logp1)
	} else {
		c.Alpha1 = 2 * gammaStep(k/2, half, logp1)
	}
	c.F2 = k/c.Alpha + 1
	c.Sigma2 = math.Max(2*p.Smoothness/p.Epsilon1*(c.F2+2*(2*float64(p.Rank)+2)/c.Alpha), 2*p.Smoothness/c.Alpha1)
	if p.Delta4 > 0 {
		c.Beta = square(math.Sqrt(2*num.Log(2/(p.Delta4*(1-p.Delta3)))) + math.Sqrt(p.Degrees) + math.Sqrt(d))
	}
	if p.Tau > 0 {
		c.OutputSigma = (math.Sqrt(2*p.Tau/(c.Alpha*c.Sigma2)) + c.Beta*p.Eta/c.Alpha) *
			(2 / p.Epsilon2) * math.Sqrt(2*num.Log(1.25/p.Delta2))
	}
	if all := c.Sigma2 + c.Beta + c.OutputSigma; math.IsNaN(all) || math.IsInf(all, 1) {
		return PublishedConstants{}, fmt.Errorf("%w: the constants leave the range of float64 for Epsilon1 = %v, Epsilon2 = %v, Smoothness = "+
			"%v, Tau = %v and Eta = %v: rescale the problem", ErrMechanism, p.Epsilon1, p.Epsilon2, p.Smoothness, p.Tau, p.Eta)
	}
	return c, nil
}

func (p Published) check() error {
	in := func(v, lo, hi float64) bool { return v > lo && v < hi } // false for NaN
	inf := math.Inf(1)
	switch {
	case p.Dim < 1 || p.Rank < 1:
		return fmt.Errorf("%w: Dim = %d and Rank = %d, want at least 1", ErrMechanism, p.Dim, p.Rank)
	case !(p.Degrees >= float64(p.Dim)+1 && p.Degrees <= mostDegrees):
		return fmt.Errorf("%w: Degrees = %v, want at least Dim+1 = %d and at most %d", ErrMechanism, p.Degrees, p.Dim+1, mostDegrees)
	case !in(p.Smoothness, 0, inf) || !in(p.Epsilon1, 0, inf):
		return fmt.Errorf("%w: Smoothness = %v and Epsilon1 = %v, want positive finite numbers", ErrMechanism, p.Smoothness, p.Epsilon1)
	case !in(p.Delta1, dp.MinDelta, 1) || !in(p.Delta3, dp.MinDelta, 1):
		return fmt.Errorf("%w: Delta1 = %v and Delta3 = %v, want numbers in (%g, 1)", ErrMechanism, p.Delta1, p.Delta3, dp.MinDelta)
	case p.Delta4 != 0 && !in(p.Delta4, dp.MinDelta, 1):
		return fmt.Errorf("%w: Delta4 = %v, want 0 or a number in (%g, 1)", ErrMechanism, p.Delta4, dp.MinDelta)
	case !(p.Tau >= 0) || math.IsInf(p.Tau, 1) || !(p.Eta >= 0) || math.IsInf(p.Eta, 1):
		return fmt.Errorf("%w: Tau = %v and Eta = %v, want finite numbers ≥ 0", ErrMechanism, p.Tau, p.Eta)
	case p.Tau > 0 && (!in(p.Epsilon2, 0, inf) || !in(p.Delta2, dp.MinDelta, 1)):
		return fmt.Errorf("%w: Epsilon2 = %v and Delta2 = %v, want ε > 0 and δ in (%g, 1) where Tau > 0", ErrMechanism, p.Epsilon2, p.Delta2,
			dp.MinDelta)
	case p.Tau > 0 && p.Eta > 0 && p.Delta4 == 0:
		return fmt.Errorf("%w: Delta4 = 0, want a number in (0, 1) where Tau and Eta are positive", ErrMechanism)
	}
	return nil
}

// gammaStep returns s ≥ 0 with P(a, x+s) − P(a, x) = e^logp to full relative
// accuracy, without taking the difference; +Inf if the tail is too light.
func gammaStep(a, x, logp float64) float64 {
	if logp >= num.GammaLogQ(a, x) {
		return math.Inf(1)
	}
	logMass := func(s float64) float64 { // log ∫_x^{x+s} of the gamma density, in r = √y
		shift := gammaLogDensity(a, math.Min(math.Max(a-1, x), x+s))
		lo := math.Sqrt(x)
		length := math.Min(s/(math.Sqrt(x+s)+lo), 60) // √(x+s) − √x; beyond 60 lies nothing
		n := math.Ceil(length / 0.3)                  // panels of half a standard deviation
		sum := 0.0
		for i := range int(n) {
			sum += num.Panel(0, length/n, func(v float64) float64 {
				r := lo + float64(i)*length/n + v
				return 2 * r * math.Exp(gammaLogDensity(a, r*r)-shift)
			})
		}
		return num.Log(sum) + shift
	}
	guess := math.Exp(logp - gammaLogDensity(a, x))
	if !(guess > 0) || math.IsInf(guess, 1) {
		guess = x
	}
	return largest(logMass, logp, math.Min(guess, 1e3*(x+a)), 1e-13)
}

func gammaLogDensity(a, y float64) float64 { return num.Chi2LogPDF(2*y, 2*a) + math.Ln2 }

// paper calibrates with the repaired constants, δ₁ = δ₃ = half of the
// objective's δ, m = max(2d, d+3) unless the caller says otherwise.
func (c *calibrator) paper() error {
	p := c.plan
	d := p.Dim
	p.Degrees = cmp.Or(c.asked.Degrees, math.Min(math.Max(2*float64(d), leastDegrees(d)), mostDegrees))
	b := p.Objective
	k, err := Published{
		Dim: d, Degrees: p.Degrees, Rank: int(c.s.rank), Smoothness: p.Constants.Smoothness,
		Epsilon1: b.Epsilon, Delta1: b.Delta / 2, Delta3: b.Delta / 2,
	}.Constants(false)
	if err != nil {
		return err
	}
	if math.IsInf(k.Alpha1, 1) || !(k.Alpha > 0) {
		return fmt.Errorf("qop: %w: the published constants do not exist for %v with Degrees = %v; want a smaller Delta",
			dp.ErrCondition, b, p.Degrees)
	}
	p.Theorem, p.Threshold = theoremPaper, k.Alpha+k.Alpha1
	p.Ratio = p.Constants.Smoothness / k.Sigma2 / safeScale
	return nil
}
