package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// law is the law of a release on the line: a density with jumps at breaks, and
// atoms. Both laws of a pair have the same atoms, possibly of probability 0.
type law struct {
	logDensity func(x float64) float64 // −∞ where there is none
	lo, hi     float64                 // outside lies a negligible part
	breaks     []float64
	at         []float64 // places of the atoms
	mass       []float64 // their probabilities
}

// divergence returns the divergences of two laws, whose masses must be 1: else
// the quadrature has missed a part of one.
func divergence(p, q law, err error) (*exactDivergence, error) {
	if err != nil {
		return nil, err
	}
	d := newExactDivergence(p.logDensity, q.logDensity, math.Min(p.lo, q.lo), math.Max(p.hi, q.hi),
		append(append([]float64(nil), p.breaks...), q.breaks...)...)
	d.Atoms(p.mass, q.mass)
	const none = -1e300 // δ(−∞) is the mass
	for _, mass := range []float64{d.At(none), d.Reverse(none)} {
		if !(math.Abs(mass-1) < tolerance) {
			return nil, fmt.Errorf("audit: the law of the release has mass %v, want 1", mass)
		}
	}
	return d, nil
}

// ratio is the score that an attacker who knows both laws thresholds,
// log p(x) − log q(x), at an atom that of the probabilities.
func ratio(p, q law, x float64) float64 {
	if i := slices.Index(p.at, x); i >= 0 {
		return math.Log(p.mass[i]) - math.Log(q.mass[i])
	}
	a, b := p.logDensity(x), q.logDensity(x)
	if math.IsInf(a, -1) && math.IsInf(b, -1) { // beyond the support of both
		return 0
	}
	return a - b
}

// black distinguishes releases on the two data sets, for d = 1 with the likelihood ratio of
// the exact laws of place(x) as a score.
func (c *convex) black(
	ctx context.Context, e *Env, laws func() (p, q law, err error), place func(x float64) float64,
) (Finding, error) {
	if c.dim() > 1 {
		return Distinguish(ctx, e, c.cert, e.Runs(BlackBox), math.NaN(), c.theta)
	}
	p, q, err := laws()
	d, err := divergence(p, q, err)
	if err != nil {
		return Finding{}, err
	}
	exact := EpsilonAt(d.Max, math.Max(c.cert.Delta, pureDelta))
	return Distinguish(ctx, e, c.cert, e.Runs(BlackBox), exact, c.theta, func(x []float64) float64 { return ratio(p, q, place(x[0])) })
}

func (r *linear) laws() (p, q law, err error) { return r.law1(0), r.law1(1), nil }

// law1 returns the exact law of the release for d = 1 on data set i but for output noise
// where there is noise b, by the change of variables
//
//	b(θ) = −(F′(θ) + Δθ + s),   density ν(b(θ))·(F″(θ) + Δ),   ν the density of b
//
// off the kinks, and at a kink or a face the probability that b lies where s may. For
// output perturbation it is the law of the noise around the root of b.
func (r *linear) law1(i int) law {
	hess := make([]float64, 1)
	at := func(x float64) (b, slope float64) {
		g := r.slope([]float64{x}, i, hess)
		return -(g[0] + r.Ridge*x), hess[0] + r.Ridge
	}
	root := func(reach float64) float64 { // of b
		x, _ := num.Bisect(func(x float64) bool { b, _ := at(x); return b >= 0 }, -reach, reach)
		return x
	}
	total := float64(len(r.records[i])) * r.Lipschitz
	sigma, rate := r.used.Sigma, r.used.Rate
	if sigma+rate == 0 {
		center := root(total / r.Ridge)
		n := scalar{r.used.OutputSigma, r.used.OutputRate}
		return law{
			logDensity: func(x float64) float64 { return n.logDensity(x - center) },
			lo:         center - n.width(), hi: center + n.width(), breaks: []float64{center},
		}
	}
	n := scalar{sigma, rate}
	l := law{logDensity: func(x float64) float64 {
		if x <= r.kinks.lo || x >= r.kinks.hi {
			return math.Inf(-1)
		}
		b, slope := at(x)
		return n.logDensity(b-r.kinks.weight*sign(x)) + math.Log(slope)
	}}
	for _, rec := range r.records[i] {
		// Jumps of φ″ of Huber's loss and of clipped ones lie at u = b ± k.
		for _, k := range r.jumps(rec) {
			if a := rec.a[0]; a != 0 {
				l.breaks = append(l.breaks, k/a)
			}
		}
	}
	reach := (n.width() + total + r.kinks.weight) / r.Ridge
	l.lo, l.hi = math.Max(-reach, r.kinks.lo), math.Min(reach, r.kinks.hi)
	if rate > 0 { // the density of b has a kink at b = 0
		l.breaks = append(l.breaks, root(reach))
	}
	for _, x := range r.kinks.places() {
		b, _ := at(x)
		lo, hi := r.kinks.subgradients(x)
		l.at, l.mass = append(l.at, x), append(l.mass, n.below(b-lo)-n.below(b-hi))
		l.breaks = append(l.breaks, x)
	}
	slices.Sort(l.breaks)
	return l
}

// scalar is noise on the line: N(0, σ²), or of density (a/2)exp(−a|x|) where σ = 0.
type scalar struct{ sigma, rate float64 }

func (n scalar) logDensity(x float64) float64 {
	if n.rate > 0 {
		return math.Log(n.rate/2) - n.rate*math.Abs(x)
	}
	return -x*x/(2*n.sigma*n.sigma) - math.Log(n.sigma) - math.Log(2*math.Pi)/2
}

// below returns P(N ≤ x).
func (n scalar) below(x float64) float64 {
	switch {
	case n.rate == 0:
		return num.NormalCDF(x / n.sigma)
	case x < 0:
		return math.Exp(n.rate*x) / 2
	}
	return 1 - math.Exp(-n.rate*x)/2
}

// width returns a distance from 0 that the noise exceeds with negligible probability.
func (n scalar) width() float64 {
	if n.rate > 0 {
		return 40 / n.rate
	}
	return 12 * n.sigma
}

func sign(x float64) float64 { return float64(cmp.Compare(x, 0)) }

// jumps returns the predictions at which φ″ of a record jumps.
func (r *linear) jumps(rec record) (at []float64) {
	curved := func(u float64) bool {
		_, c := derivatives(r.loss.(loss.Linear), u, rec.b, math.Abs(rec.a[0]), r.clip)
		return c > 0
	}
	const span, n = 60.0, 600
	for i := range n {
		lo, hi := rec.b-span+2*span*float64(i)/n, rec.b-span+2*span*float64(i+1)/n
		if inside := curved(lo); inside != curved(hi) {
			x, _ := num.Bisect(func(u float64) bool { return curved(u) == inside }, lo, hi)
			at = append(at, x)
		}
	}
	return at
}
