package sco

import (
	"cmp"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// maxSteps is the largest number of steps that is chosen automatically.
const maxSteps = 1e6

// Calibrate returns the plan for problems with the public quantities q, of which the
// constants on Set count, under the budget b. It does not need Constants of the whole
// space. Errors wrap ErrMechanism, erm.ErrProblem, dp.ErrBudget, dp.ErrRelation, or
// dp.ErrCondition where a theorem does not hold, with what would do.
func (m *NoisySGD) Calibrate(q erm.Public, b dp.Budget) (*SGDPlan, error) {
	m = cmp.Or(m, new(NoisySGD))
	return m.calibrate(q, b, nil, dp.Sampler.Noise)
}

// Calibrate is NoisySGD.Calibrate for the envelope. The smoothness of the loss
// itself does not matter.
func (m *ProxGD) Calibrate(q erm.Public, b dp.Budget) (*SGDPlan, error) {
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
		return fmt.Errorf("sco: %w: Scheme = %d, want Poisson, FixedSize or WithReplacement", ErrMechanism, int(m.Scheme))
	case m.Calibration < Accounted || m.Calibration > Paper:
		return fmt.Errorf("sco: %w: Calibration = %d, want Accounted or Paper", ErrMechanism, int(m.Calibration))
	case m.Steps < 0 || m.Steps > dp.MaxSteps:
		return fmt.Errorf("sco: %w: Steps = %d, want a number of steps, or 0 for the best", ErrMechanism, m.Steps)
	case cmp.Or(m.Relation, dp.Replace) == dp.AddRemove && (m.Scheme != Poisson || m.Calibration != Accounted):
		return fmt.Errorf("sco: %w: Scheme %v with Calibration %v is about %v neighbors, Relation = %v; use Poisson and Accounted",
			dp.ErrCondition, m.Scheme, m.Calibration, dp.Replace, dp.AddRemove)
	case m.Calibration != Accounted && (m.Steps > 0 || m.Batch > 0 || m.StepSize > 0 || m.Evaluations > 0):
		return fmt.Errorf("sco: %w: Steps, Batch, StepSize and Evaluations are those of the paper for Calibration %v, want 0", ErrMechanism,
			m.Calibration)
	}
	return cmp.Or(
		checkField("Radius", "the radius of Set", m.Radius),
		checkField("Clip", "the constant of the loss", m.Clip),
		checkField("Evaluations", "those of the paper", m.Evaluations),
		checkField("Batch", "the best", m.Batch),
		checkField("StepSize", "the best", m.StepSize),
	)
}

// calibrate plans NoisySGD, or ProxGD where smoothing is not nil.
func (m *NoisySGD) calibrate(q erm.Public, b dp.Budget, smoothing *float64, noise accountant) (*SGDPlan, error) {
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
	p := newSGDParams(set, l)
	if smoothing != nil {
		p.Theorem = theoremProx
	}
	s := schedule{q: set, l: l, scheme: m.Scheme, envelope: smoothing != nil}
	if m.Calibration == Accounted {
		err = m.accounted(&p, s, noise)
	} else {
		err = m.paper(&p, s, noise)
	}
	if err != nil {
		return nil, err
	}
	s.scheme = schemeOf(p.Sampler)
	s.steps, s.m, s.sigma = float64(p.Steps), p.Batch, p.Sigma
	smoothness := set.OnSet.Smoothness
	p.StepSize = cmp.Or(p.StepSize, m.StepSize, s.step(smoothness))
	if smoothing != nil {
		p.Smoothing = cmp.Or(p.Smoothing, *smoothing, s.contraction()/p.StepSize)
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

func schemeOf(s dp.Sampler) Scheme {
	switch {
	case s.Repeats:
		return WithReplacement
	case s.Size > 0:
		return FixedSize
	}
	return Poisson
}

// paperSteps returns T = min( n/8, ε²n²/(32 d ln(1/δ)) ) as a real number.
func paperSteps(q setting) float64 {
	en := q.budget.Epsilon * q.n()
	return min(q.n()/8, en*en/(32*q.d()*q.logDelta()))
}

// paperBatch returns m = n√(ε/(4T)) as a real number.
func paperBatch(q setting, steps float64) float64 {
	return q.n() * math.Sqrt(q.budget.Epsilon/(4*steps))
}

// accounted chooses T and m for the least bound with at most the given
// number of gradient evaluations, from an approximation of the noise, and then
// the noise for them. The search affects utility only.
func (m *NoisySGD) accounted(p *SGDParams, s schedule, noise accountant) error {
	q := s.q
	budget := m.Evaluations
	if budget == 0 {
		t := max(1, paperSteps(q))
		budget = max(q.n(), t*paperBatch(q, t))
	}
	least := 1.0 // expected records of a batch
	if m.Batch > 0 {
		least = min(m.Batch, q.n())
	}
	best := math.Inf(1)
	reach := 1.0 // the least z to try: the change of a sum by one record, over L
	if q.rel == dp.Replace {
		reach = 2
	}
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
		return fmt.Errorf("sco: %w: the bound leaves the range of float64 for Radius = %v and L = %v: rescale the problem", ErrMechanism, q.m,
			s.l)
	}
	p.Steps = int(s.steps)
	p.Sampler = s.scheme.sampler(s.m, q)
	return p.account(q, noise)
}

// account sets the noise for the sampler and the steps of p.
func (p *SGDParams) account(q setting, noise accountant) error {
	p.Batch = p.Sampler.Fraction() * q.n()
	z, err := noise(p.Sampler, p.Steps, q.budget)
	if err != nil {
		return fmt.Errorf("sco: noise for %v, %d steps: %w", p.Sampler, p.Steps, err)
	}
	p.setNoise(z)
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
	r := 1.0
	if q.rel == dp.Replace {
		r = 2
	}
	x := s / (rate * math.Sqrt(steps))
	if rate == 1 {
		return r / x
	}
	return r / math.Sqrt(math.Log1p(x*x))
}

// setNoise sets z, and σ for the batch that is set.
func (p *SGDParams) setNoise(z float64) {
	p.Noise = z
	p.Sigma = z * p.Clip / p.Batch
}

// paper takes the parameters of [BFTT19, Algorithm 1 and Theorem 3.2, for an
// envelope Theorem 4.4]:
//
//	T = min( n/8, ε²n²/(32 d ln(1/δ)) ),  m = max( n√(ε/(4T)), 1 ),  η = M/(L√T)
//	σ² = 8TL² ln(1/δ)/(n²ε²),  β ≤ (L/M) min( √(n/2), εn/(2√(2d ln(1/δ))) )
//	envelope: β = (L/M) min( √n/4, εn/(8√(d ln(1/δ))) )
//
// The published proof refers to an accountant whose conditions fail for
// T < 128 ln(1/δ), where the noise may be too small by far.
func (m *NoisySGD) paper(p *SGDParams, s schedule, noise accountant) error {
	q := s.q
	eps, delta := q.budget.Epsilon, q.budget.Delta
	root := math.Sqrt(q.d() * q.logDelta())
	limit := s.l / q.m * min(math.Sqrt(q.n()/2), eps*q.n()/(2*math.Sqrt2*root))
	switch {
	case eps > 1:
		return fmt.Errorf("sco: %w: Epsilon = %v, Calibration Paper is stated for ε ≤ 1; use Accounted", dp.ErrCondition, eps)
	case delta > 1/(q.n()*q.n()):
		return fmt.Errorf("sco: %w: Delta = %v, Calibration %v is stated for δ ≤ 1/n² = %v; use Accounted", dp.ErrCondition, delta,
			m.Calibration, 1/(q.n()*q.n()))
	case s.envelope:
		p.Smoothing = s.l / q.m * min(math.Sqrt(q.n())/4, eps*q.n()/(8*root))
	case !(q.OnSet.Smoothness > 0) || math.IsInf(q.OnSet.Smoothness, 1):
		return fmt.Errorf("sco: %w: Smoothness = %v, Calibration %v needs a smooth loss; use ProxGD", dp.ErrCondition, q.OnSet.Smoothness,
			m.Calibration)
	case q.OnSet.Smoothness > limit:
		return fmt.Errorf("sco: %w: Smoothness = %v, Calibration %v needs at most (L/M)min(√(n/2), εn/(2√(2d ln(1/δ)))) = %v; use "+
			"Accounted or ProxGD", dp.ErrCondition, q.OnSet.Smoothness, m.Calibration, limit)
	}
	steps := max(1, math.Floor(paperSteps(q)))
	p.Steps = int(steps)
	batch := int(max(1, math.Ceil(paperBatch(q, steps))))
	p.Sampler = dp.Sampler{Size: batch, Records: q.Records, Repeats: true}
	p.Batch = float64(batch)
	p.StepSize = q.m / (s.l * math.Sqrt(steps))
	p.PaperBound = 10 * s.l * q.m * rate(q)
	if s.envelope {
		p.PaperBound = 24 * s.l * q.m * rate(q)
	}
	p.PaperNoise = math.Sqrt(8*steps*q.logDelta()) / (q.n() * eps) * p.Batch
	p.setNoise(p.PaperNoise)

	profile, err := p.profile()
	if err != nil {
		return err
	}
	p.PaperDelta = profile.Delta(eps)
	if p.PaperDelta <= delta {
		return nil
	}
	z, err := noise(p.Sampler, p.Steps, q.budget)
	if err != nil {
		return fmt.Errorf("sco: the published noise z = %v for T = %d, m = %d is accounted at δ = %.3g for ε = %v, and cannot be "+
			"raised: %w", p.PaperNoise, p.Steps, batch, p.PaperDelta, eps, err)
	}
	p.setNoise(max(z, p.PaperNoise))
	return nil
}

// Calibrate returns the plan for problems with the public quantities q. Errors are
// those of NoisySGD.Calibrate.
func (m *DPSGD) Calibrate(q erm.Public, b dp.Budget) (*SGDPlan, error) {
	m = cmp.Or(m, new(DPSGD))
	return m.calibrate(q, b, dp.Sampler.Noise)
}

func (m *DPSGD) calibrate(q erm.Public, b dp.Budget, noise accountant) (*SGDPlan, error) {
	if err := cmp.Or(
		checkField("Epochs", "5", m.Epochs), checkField("Batch", "4√n", m.Batch), checkField("Clip", "the constant of the loss", m.Clip),
		checkField("StepSize", "the default", m.StepSize), checkField("Radius", "the radius of Set", m.Radius)); err != nil {
		return nil, err
	}
	if !(m.Momentum >= 0 && m.Momentum < 1) {
		return nil, fmt.Errorf("sco: %w: Momentum = %v, want a number in [0, 1)", ErrMechanism, m.Momentum)
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
		return nil, fmt.Errorf("sco: %w: Epochs = %v in batches of %v are %v steps, want at most %d", ErrMechanism, epochs, batch, steps,
			dp.MaxSteps)
	}
	p := newSGDParams(set, l)
	p.Steps, p.Sampler = int(steps), Poisson.sampler(batch, set)
	p.StepSize, p.Momentum, p.Last = m.StepSize, m.Momentum, !m.Average
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
