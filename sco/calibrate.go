// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// maxSteps is the largest number of steps that is chosen automatically.
const maxSteps = 1e6

// Calibrate returns the plan for problems with the public quantities q, of which the
// constants on Set count, under the budget b. It does not need Constants of the whole
// space. Errors wrap ErrMechanism, erm.ErrProblem, dp.ErrBudget, dp.ErrRelation, or
// dp.ErrCondition where a theorem does not hold, with what would do.
func (m *NoisySGD) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(NoisySGD))
	return m.calibrate(q, b, nil, dp.Sampler.Noise)
}

// Calibrate is NoisySGD.Calibrate for the envelope. The smoothness of the loss
// itself does not matter.
func (m *ProxGD) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(ProxGD))
	if err := checkField("Smoothing", "the default", m.Smoothing); err != nil {
		return nil, err
	}
	return m.calibrate(q, b, &m.Smoothing, dp.Sampler.Noise)
}

// accountant is the type of [dp.Sampler.Noise]; tests put a quick substitute in its place.
type accountant func(s dp.Sampler, steps int, b dp.Budget) (z float64, err error)

// check refuses fields that make no sense by themselves.
func (m *NoisySGD) check() error {
	switch {
	case m.Scheme < Poisson || m.Scheme > WithReplacement:
		return refuse(ErrMechanism, "Scheme = %d, want Poisson, FixedSize or WithReplacement", int(m.Scheme))
	case m.Steps < 0 || m.Steps > dp.MaxSteps:
		return refuse(ErrMechanism, "Steps = %d, want a number of steps, or 0 for the best", m.Steps)
	case cmp.Or(m.Relation, dp.Replace) == dp.AddRemove && m.Scheme != Poisson:
		return refuse(dp.ErrCondition, "Scheme %v is about %v neighbors, Relation = %v; use Poisson", m.Scheme, dp.Replace,
			dp.AddRemove)
	}
	if err := checkField("Radius", "the radius of Set", m.Radius); err != nil {
		return err
	}
	if err := checkField("Clip", "the constant of the loss", m.Clip); err != nil {
		return err
	}
	if err := checkField("Evaluations", "those of the paper", m.Evaluations); err != nil {
		return err
	}
	if err := checkField("Batch", "the best", m.Batch); err != nil {
		return err
	}
	return checkField("StepSize", "the best", m.StepSize)
}

// calibrate plans NoisySGD, or ProxGD where smoothing is not nil.
func (m *NoisySGD) calibrate(q erm.Public, b dp.Budget, smoothing *float64, noise accountant) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	set, err := newSetting(q, m.Relation, b, m.Radius)
	if err != nil {
		return nil, err
	}
	l, exact, err := clipNorm(set.OnSet, m.Clip)
	if err != nil {
		return nil, err
	}
	p := newParams(theoremSGD, set, l)
	if smoothing != nil {
		p.Theorem = theoremProx
	}
	s := schedule{q: set, l: l, scheme: m.Scheme, envelope: smoothing != nil}
	if err := m.search(&p, s, noise); err != nil {
		return nil, err
	}
	s.steps, s.m = float64(p.Steps), p.Batch
	s.sigma = p.Sigma
	smoothness := set.OnSet.Smoothness
	p.StepSize = cmp.Or(m.StepSize, s.step(smoothness))
	if smoothing != nil {
		p.Smoothing = cmp.Or(*smoothing, s.contraction()/p.StepSize)
		smoothness = p.Smoothing
	}
	if exact {
		p.ExcessBound = s.bound(p.StepSize, smoothness)
	}
	return newSGDPlan(p, q.Assumptions, m.Trace)
}

// clipNorm returns L, and whether the clipped gradients are those of a convex
// loss: of the loss itself, or of loss.Clipped.
func clipNorm(k loss.Constants, clip float64) (l float64, exact bool, err error) {
	if clip == 0 {
		if err := release.CheckConstant("Lipschitz", k.Lipschitz, "declare a bounded Set, or set Clip"); err != nil {
			return 0, false, fmt.Errorf("sco: %w", err)
		}
		return k.Lipschitz, true, nil
	}
	if k.Lipschitz > 0 && k.Lipschitz <= clip {
		return k.Lipschitz, true, nil
	}
	return clip, k.Structure == loss.GLM || k.Structure == loss.LSQ, nil
}

// evaluations returns Tm of [BFTT19, Theorem 3.2], at least n: T = min( n/8, ε²n²/(32 d ln(1/δ)) ),
// m = n√(ε/(4T)).
func evaluations(q setting) float64 {
	en := q.budget.Epsilon * q.n()
	t := max(1, min(q.n()/8, en*en/(32*q.d()*q.logDelta())))
	return max(q.n(), t*(q.n()*math.Sqrt(q.budget.Epsilon/(4*t))))
}

// search chooses T and m for the least bound with at most the given number of gradient evaluations,
// from an approximation of the noise, and then the noise for them. It affects utility only.
func (m *NoisySGD) search(p *Params, s schedule, noise accountant) error {
	q := s.q
	budget := cmp.Or(m.Evaluations, evaluations(q))
	least := 1.0 // expected records of a batch
	if m.Batch > 0 {
		least = min(m.Batch, q.n())
	}
	best := math.Inf(1)
	reach := reach(q.rel) // the least z to try
	if m.Scheme == WithReplacement {
		reach *= 2 // its accounting is slower by far, and its noise larger
	}
	try := func(steps float64) {
		c := s
		c.steps = max(1, math.Floor(steps))
		c.m = min(max(budget/c.steps, least), q.n())
		if m.Batch > 0 {
			c.m = least
		}
		z := approximateNoise(q, c.m/q.n(), c.steps)
		if z < reach && c.m < q.n() && !math.IsInf(best, 1) && m.Steps == 0 {
			return // sampling at so little noise hardly helps, and takes long to account for
		}
		c.sigma = z * s.l / c.m
		// Without a proof of stability the same formula still ranks T.
		eta := c.step(q.OnSet.Smoothness)
		v := c.q.m*c.q.m/(2*eta*c.steps) + eta*c.variance()/2
		if c.scheme == Poisson && c.m < q.n() { // the Chernoff term at ηβ = 1
			v += 2 * c.l * c.q.m * min(1, c.steps*math.Exp(-c.m*(2*math.Ln2-1)))
		}
		if v < best {
			best, s = v, c
		}
	}
	switch {
	case m.Steps > 0:
		try(float64(m.Steps))
	case m.Batch > 0:
		try(min(budget/least, maxSteps))
	default:
		for t := 1.0; t <= max(1, min(budget, maxSteps)); t *= math.Sqrt2 {
			try(t)
		}
	}
	if math.IsInf(best, 1) {
		return refuse(ErrMechanism, "the bound leaves the range of float64 for Radius = %v and L = %v: rescale the problem",
			q.m, s.l)
	}
	p.Steps = int(s.steps)
	p.Sampler = s.scheme.sampler(s.m, q)
	return p.account(q, noise)
}

// reach bounds the change of a sum by one record, over L.
func reach(rel dp.Relation) float64 {
	if rel == dp.Replace {
		return 2
	}
	return 1
}

// account sets the noise for the sampler and the steps of p.
func (p *Params) account(q setting, noise accountant) error {
	p.Batch = p.Sampler.Fraction() * q.n()
	z, err := noise(p.Sampler, p.Steps, q.budget)
	if err != nil {
		return fmt.Errorf("sco: noise for %v, %d steps: %w", p.Sampler, p.Steps, err)
	}
	p.Noise, p.Sigma = z, z*p.Clip/p.Batch
	return nil
}

// approximateNoise returns about the z for T steps at rate q: by the central
// limit theorem the losses add up to those of a Gaussian mechanism with
// s = q√(T(e^{r²/z²}−1)), r = 2 for replacement and 1 for adding or removing.
func approximateNoise(q setting, rate, steps float64) float64 {
	s, err := dp.Calibrate(dp.GaussianCurve, q.budget)
	if err != nil {
		return math.Inf(1)
	}
	r := reach(q.rel)
	x := s / (rate * math.Sqrt(steps))
	if rate == 1 {
		return r / x
	}
	return r / math.Sqrt(math.Log1p(x*x))
}

// Calibrate returns the plan for problems with the public quantities q. Errors are
// those of NoisySGD.Calibrate.
func (m *DPSGD) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(DPSGD))
	return m.calibrate(q, b, dp.Sampler.Noise)
}

func (m *DPSGD) calibrate(q erm.Public, b dp.Budget, noise accountant) (*Plan, error) {
	if err := checkField("Epochs", "5", m.Epochs); err != nil {
		return nil, err
	}
	if err := checkField("Batch", "4√n", m.Batch); err != nil {
		return nil, err
	}
	if err := checkField("Clip", "the constant of the loss", m.Clip); err != nil {
		return nil, err
	}
	if err := checkField("StepSize", "the default", m.StepSize); err != nil {
		return nil, err
	}
	if err := checkField("Radius", "the radius of Set", m.Radius); err != nil {
		return nil, err
	}
	if !(m.Momentum >= 0 && m.Momentum < 1) {
		return nil, refuse(ErrMechanism, "Momentum = %v, want a number in [0, 1)", m.Momentum)
	}
	radius := m.Radius
	if radius == 0 && m.StepSize > 0 {
		radius = 1 // enters nothing
	}
	set, err := newSetting(q, m.Relation, b, radius)
	if err != nil {
		return nil, err
	}
	l, _, err := clipNorm(set.OnSet, m.Clip)
	if err != nil {
		return nil, err
	}
	epochs := cmp.Or(m.Epochs, 5)
	batch := min(max(cmp.Or(m.Batch, 4*math.Sqrt(set.n())), 1), set.n())
	steps := max(1, math.Ceil(epochs*set.n()/batch))
	if steps > dp.MaxSteps {
		return nil, refuse(ErrMechanism, "Epochs = %v in batches of %v are %v steps, want at most %d", epochs, batch, steps,
			dp.MaxSteps)
	}
	p := newParams(theoremSGD, set, l)
	p.Steps, p.Sampler = int(steps), Poisson.sampler(batch, set)
	p.StepSize, p.Momentum = m.StepSize, m.Momentum
	p.Last = !m.Average
	if err := p.account(set, noise); err != nil {
		return nil, err
	}
	if p.StepSize == 0 {
		s := schedule{q: set, l: l, steps: steps, m: p.Batch, sigma: p.Sigma}
		p.StepSize = s.step(set.OnSet.Smoothness) * (1 - m.Momentum)
	}
	return newSGDPlan(p, q.Assumptions, m.Trace)
}

// largest scale of noise and of steps: their products still fit.
const largest = 0x1p400

// newSGDPlan refuses parameters that float64 or the samplers of package noise cannot hold, and
// returns their plan, certified for the budget.
func newSGDPlan(p Params, assumptions []dp.Assumption, trace func(erm.Trace)) (*Plan, error) {
	scale := p.Noise * p.Clip
	if !(p.Clip > 1/largest && scale > 0 && scale < largest && p.Batch > 0 && p.Steps > 0 && p.StepSize > 0 &&
		p.StepSize*scale/p.Batch < largest && p.Smoothing >= 0 && p.Smoothing < largest) {
		return nil, refuse(ErrMechanism, "the calibration leaves the range of float64 (Noise %v, Clip %v, Batch %v, "+
			"StepSize %v, Smoothing %v): rescale the problem", p.Noise, p.Clip, p.Batch, p.StepSize, p.Smoothing)
	}
	g := newGrid(p.Clip, p.Dim)
	if !(math.Ldexp(p.scale(), -g.exponent) <= largestNoise) {
		return nil, refuse(ErrMechanism, "noise of standard deviation %v is more than 2⁵² steps of the grid 2^%d: a "+
			"budget this small needs fewer steps or larger batches", p.scale(), g.exponent)
	}
	p.Grid, p.Threshold = math.Ldexp(1, g.exponent), g.limit
	profile, err := p.Sampler.Profile(p.Noise, p.Steps) // of T noisy sums
	if err != nil {
		return nil, refuse(ErrMechanism, "%w", err)
	}
	cert := dp.Certificate{Budget: p.Budget, Relation: p.Relation, Theorem: p.Theorem}
	if !p.proves() {
		cert = cert.With(dp.LossArithmetic)
	}
	return &Plan{params: p, cert: cert.With(assumptions...), profile: profile, trace: trace}, nil
}

// scale returns σ of the noise on a sum, zL rounded up.
func (p *Params) scale() float64 { return math.Nextafter(p.Noise*p.Clip, math.Inf(1)) }

// proves reports whether the sums are certainly within the budget: those over all records are T
// Gaussian mechanisms, δ_G(ε; √T·rL/σ) ≤ δ, with r = 2 for replacement and 1 for adding or
// removing.
func (p *Params) proves() bool {
	if p.Sampler.Repeats || p.Sampler.Fraction() != 1 {
		return false
	}
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		s := c.Quo(c.Mul(c.Of(reach(p.Relation)), c.Mul(c.Sqrt(c.Of(float64(p.Steps))), c.Of(p.Clip))), c.Of(p.scale()))
		return c.GaussianDelta(c.Of(p.Budget.Epsilon), s), c.Of(p.Budget.Delta)
	})
}

// A schedule is noisy SGD up to its step size: T steps over batches of m expected records with
// noise σ per coordinate of the mean gradient.
type schedule struct {
	q        setting
	l        float64 // L, the clipping norm
	steps, m float64
	sigma    float64
	scheme   Scheme
	envelope bool
}

// variance returns V with which the bound is M²/(2ηT) + ηV/2:
//
//	V = L² + (1−q)L²/(qn)·[Poisson] + dσ² + 2L²T/n + sL²·[envelope]
//
// s = 1 for Poisson batches and ½ for others; see docs/theory/population.md#population.excess
func (s schedule) variance() float64 {
	l2 := s.l * s.l
	v := l2 + s.sigma*s.sigma*s.q.d() + 2*l2*s.steps/s.q.n()
	if s.scheme == Poisson {
		v += max(0, 1-s.m/s.q.n()) * l2 / s.m
	}
	if s.envelope {
		v += l2 / s.contraction()
	}
	return v
}

// contraction returns the largest ηβ that the scheme uses. The mean gradient of a batch of exactly
// m records is β-smooth, so that steps with η ≤ 2/β do not expand. A Poisson batch has |B|/(qn)
// times that smoothness: with η ≤ 1/β it does not expand unless |B| > 2qn.
func (s schedule) contraction() float64 {
	if s.scheme == Poisson {
		return 1
	}
	return 2
}

// step returns the step size with the least bound, at most that of contraction; smoothness is that
// of the loss, ignored for an envelope, which follows η.
func (s schedule) step(smoothness float64) float64 {
	eta := s.q.m / math.Sqrt(s.steps*s.variance())
	if !s.envelope && smoothness > 0 && !math.IsInf(smoothness, 1) {
		eta = min(eta, s.contraction()/smoothness)
	}
	return eta
}

// bound returns the bound on the excess population loss for step size η and smoothness β of the
// sampled functions, e = 2⁻²⁵L for clipping to a grid:
//
//	M²/(2ηT) + η(V − s L²)/2 + L²/(2β)·[envelope] + 2LM·P + e(M + 3ηLT + η√(TV)),
//	P(a Poisson batch expands) ≤ P = T exp(−qn(r log r − r + 1)),  r = 2/(ηβ)
//
// It is +Inf where steps expand or smoothness is unknown. Proof, and the conditions of the term of
// P: docs/theory/population.md#population.excess
func (s schedule) bound(eta, smoothness float64) float64 {
	ratio := eta * smoothness
	if !(ratio > 0 && ratio <= s.contraction()*(1+1e-12)) {
		return math.Inf(1)
	}
	m := s.q.m
	sum := m*m/(2*eta*s.steps) + eta*s.variance()/2
	if s.envelope {
		sum += s.l * s.l * (1/smoothness - eta/s.contraction()) / 2
	}
	if s.scheme == Poisson && s.m < s.q.n() {
		r := 2 / ratio
		sum += 2 * s.l * m * min(1, s.steps*math.Exp(-s.m*(r*num.Log(r)-r+1)))
	}
	return sum + gradientError*s.l*(m+eta*(3*s.l*s.steps+math.Sqrt(s.steps*s.variance())))
}
