package sco

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
)

// maxSteps is the largest number of steps that is chosen automatically.
const maxSteps = 1e6

// Calibrate returns the parameters for a problem with the public quantities q.
// Errors wrap ErrMechanism, dp.ErrBudget, dp.ErrRelation, or dp.ErrCondition
// where a theorem does not hold, with what would do.
func (m *NoisySGD) Calibrate(q Public) (*SGDPlan, error) { return m.calibrate(q, nil) }

// Calibrate is NoisySGD.Calibrate for the envelope. The smoothness of the loss
// itself does not matter.
func (m *ProxGD) Calibrate(q Public) (*SGDPlan, error) {
	if err := checkFields(field{"Smoothing", "the default", m.Smoothing}); err != nil {
		return nil, err
	}
	return m.calibrate(q, &m.Smoothing)
}

// check refuses fields that make no sense by themselves.
func (m *NoisySGD) check() error {
	if err := checkRelation(m.Relation); err != nil {
		return err
	}
	switch {
	case m.Scheme < Poisson || m.Scheme > WithReplacement:
		return fmt.Errorf("%w: Scheme = %d, want Poisson, FixedSize or WithReplacement", ErrMechanism, int(m.Scheme))
	case m.Calibration < Accounted || m.Calibration > PaperUnsafe:
		return fmt.Errorf("%w: Calibration = %d, want Accounted, Paper, PaperStrict or PaperUnsafe", ErrMechanism, int(m.Calibration))
	case m.Steps < 0 || m.Steps > accounting.MaxSteps:
		return fmt.Errorf("%w: Steps = %d, want a number of steps, or 0 for the best", ErrMechanism, m.Steps)
	case m.Records < 0:
		return fmt.Errorf("%w: Records = %d, want a public number of records, or 0", ErrMechanism, m.Records)
	case orReplace(m.Relation) == dp.AddRemove && (m.Scheme != Poisson || m.Calibration != Accounted):
		return fmt.Errorf("sco: %w: Scheme %v with Calibration %v is about %v neighbors, Relation = %v; use Poisson and Accounted", dp.ErrCondition, m.Scheme, m.Calibration, dp.Replace, dp.AddRemove)
	case m.Calibration != Accounted && (m.Steps > 0 || m.Batch > 0 || m.StepSize > 0 || m.Evaluations > 0):
		return fmt.Errorf("%w: Steps, Batch, StepSize and Evaluations are those of the paper for Calibration %v, want 0", ErrMechanism, m.Calibration)
	}
	return checkFields(
		field{"Radius", "the radius of Set", m.Radius},
		field{"Clip", "the constant of the loss", m.Clip},
		field{"Evaluations", "those of the paper", m.Evaluations},
		field{"Batch", "the best", m.Batch},
		field{"StepSize", "the best", m.StepSize},
	)
}

// calibrate does both mechanisms; smoothing is nil without an envelope.
func (m *NoisySGD) calibrate(q Public, smoothing *float64) (*SGDPlan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	rel := orReplace(m.Relation)
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	if rel == dp.AddRemove && m.Records > 0 {
		q.Records = m.Records
	}
	if err := q.check(rel); err != nil {
		return nil, err
	}
	l, exact, err := clipNorm(q.Constants, m.Clip)
	if err != nil {
		return nil, err
	}
	pl := &SGDPlan{Public: q, Relation: rel, Theorem: TheoremSGD, Clip: l, Certified: q.Budget, Trace: m.Trace}
	smoothness := q.Constants.Smoothness
	if smoothing != nil {
		pl.Theorem = TheoremProx
	}
	s := schedule{q: q, l: l, scheme: m.Scheme, envelope: smoothing != nil}
	if m.Calibration == Accounted {
		err = m.accounted(pl, s)
	} else {
		err = m.paper(pl, s)
	}
	if err != nil {
		return nil, err
	}
	s.scheme = schemeOf(pl.Sampler)
	s.steps, s.m, s.sigma = float64(pl.Steps), pl.Divisor, pl.Sigma
	if pl.StepSize == 0 {
		pl.StepSize = m.StepSize
	}
	if pl.StepSize == 0 {
		pl.StepSize = s.step(smoothness)
	}
	if smoothing != nil {
		if pl.Smoothing == 0 {
			pl.Smoothing = *smoothing
		}
		if pl.Smoothing == 0 {
			pl.Smoothing = s.contraction() / pl.StepSize
		}
		smoothness = pl.Smoothing
	}
	pl.Bound = math.Inf(1)
	if exact {
		pl.Bound = s.bound(pl.StepSize, smoothness)
	}
	return orNone(pl, pl.valid())
}

// clipNorm returns L, and whether the clipped gradients are those of a convex
// loss: of the loss itself, or of loss.Clipped.
func clipNorm(k loss.Constants, clip float64) (l float64, exact bool, err error) {
	if clip == 0 {
		err := known("Lipschitz", k.Lipschitz, "declare a bounded Set, or set Clip")
		return k.Lipschitz, true, err
	}
	if k.Lipschitz > 0 && k.Lipschitz <= clip {
		return k.Lipschitz, true, nil
	}
	return clip, k.Structure == loss.GLM || k.Structure == loss.LSQ, nil
}

func schemeOf(s accounting.Sampler) Scheme {
	switch s.(type) {
	case accounting.FixedSize:
		return FixedSize
	case accounting.WithReplacement:
		return WithReplacement
	}
	return Poisson
}

// paperSteps returns T = min( n/8, ε²n²/(32 d ln(1/δ)) ) as a real number.
func paperSteps(q Public) float64 {
	en := q.Budget.Epsilon * q.n()
	return min(q.n()/8, en*en/(32*q.d()*q.logDelta()))
}

// paperBatch returns m = n√(ε/(4T)) as a real number.
func paperBatch(q Public, steps float64) float64 {
	return q.n() * math.Sqrt(q.Budget.Epsilon/(4*steps))
}

// accounted chooses T and m for the least bound with at most the given
// number of gradient evaluations, from an approximation of the noise, and then
// the noise for them. The search affects utility only.
func (m *NoisySGD) accounted(pl *SGDPlan, s schedule) error {
	q := pl.Public
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
	reach := 1.0 // the least z to try: what one record in a batch changes, over L
	if pl.Relation == dp.Replace {
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
		z := approximateNoise(q, pl.Relation, c.m/q.n(), c.steps)
		if z < reach && c.m < q.n() && !math.IsInf(best, 1) && m.Steps == 0 {
			return // sampling at so little noise hardly helps, and takes long to account for
		}
		c.sigma = z * s.l / c.m
		// Without a proof of stability the same formula still ranks T.
		smoothness := q.Constants.Smoothness
		eta := c.step(smoothness)
		v := c.q.Radius*c.q.Radius/(2*eta*c.steps) + eta*c.variance()/2
		if c.scheme == Poisson && c.m < q.n() { // the Chernoff term at ηβ = 1
			v += 2 * c.l * c.q.Radius * min(1, c.steps*math.Exp(-c.m*(2*math.Ln2-1)))
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
		return fmt.Errorf("%w: the bound leaves the range of float64 for Radius = %v and L = %v: rescale the problem", ErrMechanism, q.Radius, s.l)
	}
	pl.Steps = int(s.steps)
	pl.Sampler = s.scheme.sampler(s.m, q, pl.Relation)
	pl.Divisor = pl.Sampler.Fraction() * q.n()
	z, err := accounting.Noise(fault.At(q.faults, accounted, pl.Sampler), pl.Steps, q.Budget)
	if err != nil {
		return fmt.Errorf("sco: noise for %v, %d steps: %w", pl.Sampler, pl.Steps, err)
	}
	pl.setNoise(z)
	return nil
}

// approximateNoise returns about the z for T steps at rate q: by the central
// limit theorem the losses add up to those of a Gaussian mechanism with
// s = q√(T(e^{r²/z²}−1)), r = 2 for replacement and 1 for adding or removing.
func approximateNoise(q Public, rel dp.Relation, rate, steps float64) float64 {
	s, err := dp.Calibrate(dp.GaussianCurve, q.Budget)
	if err != nil {
		return math.Inf(1)
	}
	r := 1.0
	if rel == dp.Replace {
		r = 2
	}
	x := s / (rate * math.Sqrt(steps))
	if rate == 1 {
		return r / x
	}
	return r / math.Sqrt(math.Log1p(x*x))
}

func (pl *SGDPlan) setNoise(z float64) {
	pl.Noise = z
	pl.Sigma = z * pl.Clip / pl.Divisor
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
func (m *NoisySGD) paper(pl *SGDPlan, s schedule) error {
	q := pl.Public
	eps, delta := q.Budget.Epsilon, q.Budget.Delta
	root := math.Sqrt(q.d() * q.logDelta())
	limit := s.l / q.Radius * min(math.Sqrt(q.n()/2), eps*q.n()/(2*math.Sqrt2*root))
	switch {
	case eps > 1:
		return fmt.Errorf("sco: %w: Epsilon = %v, Calibration %v is stated for ε ≤ 1; use Accounted", dp.ErrCondition, eps, m.Calibration)
	case delta > 1/(q.n()*q.n()):
		return fmt.Errorf("sco: %w: Delta = %v, Calibration %v is stated for δ ≤ 1/n² = %v; use Accounted", dp.ErrCondition, delta, m.Calibration, 1/(q.n()*q.n()))
	case s.envelope:
		pl.Smoothing = s.l / q.Radius * min(math.Sqrt(q.n())/4, eps*q.n()/(8*root))
	case !(q.Constants.Smoothness > 0) || math.IsInf(q.Constants.Smoothness, 1):
		return fmt.Errorf("sco: %w: Smoothness = %v, Calibration %v needs a smooth loss; use ProxGD", dp.ErrCondition, q.Constants.Smoothness, m.Calibration)
	case q.Constants.Smoothness > limit:
		return fmt.Errorf("sco: %w: Smoothness = %v, Calibration %v needs at most (L/M)min(√(n/2), εn/(2√(2d ln(1/δ)))) = %v; use Accounted or ProxGD", dp.ErrCondition, q.Constants.Smoothness, m.Calibration, limit)
	}
	steps := max(1, math.Floor(paperSteps(q)))
	pl.Steps = int(steps)
	batch := int(max(1, math.Ceil(paperBatch(q, steps))))
	pl.Sampler = accounting.WithReplacement{Size: batch, Records: q.Records}
	pl.Divisor = float64(batch)
	pl.StepSize = q.Radius / (s.l * math.Sqrt(steps))
	pl.PaperBound = 10 * s.l * q.Radius * rate(q)
	if s.envelope {
		pl.PaperBound = 24 * s.l * q.Radius * rate(q)
	}
	pl.PaperNoise = math.Sqrt(8*steps*q.logDelta()) / (q.n() * eps) * pl.Divisor
	pl.setNoise(pl.PaperNoise)

	comp, err := pl.Composition()
	if err != nil {
		return err
	}
	pl.PaperDelta = comp.Delta(eps)
	switch {
	case pl.PaperDelta <= delta:
	case m.Calibration == PaperUnsafe:
		pl.Certified.Epsilon = comp.Epsilon(delta)
		if err := pl.Certified.Check(); err != nil {
			return fmt.Errorf("sco: %w: the published noise z = %v gives δ = %.3g at ε = %v and no ε at δ = %v", dp.ErrCondition, pl.PaperNoise, pl.PaperDelta, eps, delta)
		}
	case m.Calibration == PaperStrict:
		return fmt.Errorf("sco: %w: the published noise z = %v for T = %d, m = %d is accounted at δ = %.3g for ε = %v, the budget is δ = %v; use Paper, which raises it, or Accounted", dp.ErrCondition, pl.PaperNoise, pl.Steps, batch, pl.PaperDelta, eps, delta)
	default:
		z, err := accounting.Noise(fault.At(q.faults, accounted, pl.Sampler), pl.Steps, q.Budget)
		if err != nil {
			return fmt.Errorf("sco: the published noise z = %v for T = %d, m = %d is accounted at δ = %.3g for ε = %v, and cannot be raised: %w", pl.PaperNoise, pl.Steps, batch, pl.PaperDelta, eps, err)
		}
		pl.setNoise(max(z, pl.PaperNoise))
	}
	return nil
}

// Calibrate returns the parameters for a problem with the public quantities q.
// Errors are those of NoisySGD.Calibrate.
func (m *DPSGD) Calibrate(q Public) (*SGDPlan, error) {
	if err := checkRelation(m.Relation); err != nil {
		return nil, err
	}
	if err := checkFields(
		field{"Epochs", "5", m.Epochs}, field{"Batch", "4√n", m.Batch}, field{"Clip", "the constant of the loss", m.Clip},
		field{"StepSize", "the default", m.StepSize}, field{"Radius", "the radius of Set", m.Radius}); err != nil {
		return nil, err
	}
	if !(m.Momentum >= 0 && m.Momentum < 1) {
		return nil, fmt.Errorf("%w: Momentum = %v, want a number in [0, 1)", ErrMechanism, m.Momentum)
	}
	rel := orReplace(m.Relation)
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	if rel == dp.AddRemove && m.Records > 0 {
		q.Records = m.Records
	}
	if q.Radius == 0 && m.StepSize > 0 {
		q.Radius = 1 // enters nothing
	}
	if err := q.check(rel); err != nil {
		return nil, err
	}
	l, _, err := clipNorm(q.Constants, m.Clip)
	if err != nil {
		return nil, err
	}
	epochs, batch := m.Epochs, m.Batch
	if epochs == 0 {
		epochs = 5
	}
	if batch == 0 {
		batch = 4 * math.Sqrt(q.n())
	}
	batch = min(max(batch, 1), q.n())
	steps := max(1, math.Ceil(epochs*q.n()/batch))
	if steps > accounting.MaxSteps {
		return nil, fmt.Errorf("%w: Epochs = %v in batches of %v are %v steps, want at most %d", ErrMechanism, epochs, batch, steps, accounting.MaxSteps)
	}
	pl := &SGDPlan{
		Public:    q,
		Relation:  rel,
		Theorem:   TheoremSGD,
		Clip:      l,
		Steps:     int(steps),
		Sampler:   Poisson.sampler(batch, q, rel),
		StepSize:  m.StepSize,
		Momentum:  m.Momentum,
		Last:      !m.Average,
		Bound:     math.Inf(1),
		Certified: q.Budget,
		Trace:     m.Trace,
	}
	pl.Divisor = pl.Sampler.Fraction() * q.n()
	z, err := accounting.Noise(fault.At(q.faults, accounted, pl.Sampler), pl.Steps, q.Budget)
	if err != nil {
		return nil, fmt.Errorf("sco: noise for %v, %d steps: %w", pl.Sampler, pl.Steps, err)
	}
	pl.setNoise(z)
	if pl.StepSize == 0 {
		s := schedule{q: q, l: l, steps: steps, m: pl.Divisor, sigma: pl.Sigma}
		pl.StepSize = s.step(q.Constants.Smoothness) * (1 - m.Momentum)
	}
	return orNone(pl, pl.valid())
}

// largest scale of noise and of steps: their products still fit.
const largest = 0x1p400

// valid refuses a plan with a value that float64 or the samplers of package
// noise cannot hold, or that no calibration made.
func (pl *SGDPlan) valid() error {
	if pl == nil || pl.Theorem == "" || pl.Sampler == nil {
		return fmt.Errorf("%w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	scale := pl.Noise * pl.Clip
	if !(pl.Clip > 1/largest && scale > 0 && scale < largest && pl.Divisor > 0 && pl.Steps > 0 && pl.StepSize > 0 && pl.StepSize*scale/pl.Divisor < largest && pl.Smoothing >= 0 && pl.Smoothing < largest) {
		return fmt.Errorf("%w: the calibration leaves the range of float64 (Noise %v, Clip %v, Divisor %v, StepSize %v, Smoothing %v): rescale the problem",
			ErrMechanism, pl.Noise, pl.Clip, pl.Divisor, pl.StepSize, pl.Smoothing)
	}
	return nil
}

// orNone returns no plan with an error: one that is not valid must not be at
// hand.
func orNone[P any](plan *P, err error) (*P, error) {
	if err != nil {
		return nil, err
	}
	return plan, nil
}
