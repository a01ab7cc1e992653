package qop

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// Public is all that a calibration knows of a problem: declared quantities,
// never a record. Mechanism.Plan fills it from an erm.Problem.
type Public struct {
	// Dim is d, the number of parameters.
	Dim int
	// Records is n. It is public under dp.Replace only, where it enters the
	// default of Cover and the weight of the output noise in ExcessBound;
	// ignored under dp.AddRemove. 0 means not stated.
	Records int
	// Constants of one record's loss on ℝᵈ: Smoothness is L, and Structure and
	// Rank decide which case of Theorem A applies. Lipschitz is not used.
	Constants loss.Constants
	// Radius is D ≥ ‖θ₀ − θ*‖₂ for the comparator θ₀ of ExcessBound, a public
	// guess. A wrong one costs utility and never privacy. 0 means not stated.
	Radius float64
	// Scale is a length that Cover is relative to, for example the radius of the
	// Set; 0 means Radius, or 1 if that is not stated.
	Scale float64
	// Budget of the whole release, output noise included.
	Budget dp.Budget
}

// mostEpsilon is the largest ε₁ that is made use of: e^ε is to stay finite.
const mostEpsilon = 300

// leastDelta is the least δ of a Budget: the tails of smaller ones are not
// computed to full accuracy.
const leastDelta = 1e-90

// check refuses quantities that no noise could be scaled by.
func (q Public) check() error {
	k := q.Constants
	switch {
	case q.Dim < 1:
		return fmt.Errorf("%w: Dim = %d, want at least 1", ErrMechanism, q.Dim)
	case q.Records < 0:
		return fmt.Errorf("%w: Records = %d, want 0 (not stated) or more", ErrMechanism, q.Records)
	case !(q.Radius >= 0) || math.IsInf(q.Radius, 1):
		return fmt.Errorf("%w: Radius = %v, want 0 (not stated) or a positive finite bound on ‖θ₀−θ*‖₂", ErrMechanism, q.Radius)
	case !(q.Scale >= 0) || math.IsInf(q.Scale, 1):
		return fmt.Errorf("%w: Scale = %v, want 0 (Radius) or a positive finite length", ErrMechanism, q.Scale)
	}
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("qop: %w", err)
	}
	switch {
	case q.Budget.Delta == 0:
		return fmt.Errorf("qop: %w: Delta = 0, but a random matrix can be nearly singular, so there is no pure guarantee; the least Delta is %g", dp.ErrBudget, leastDelta)
	case q.Budget.Delta < leastDelta:
		return fmt.Errorf("qop: %w: Delta = %v, want at least %g", dp.ErrBudget, q.Budget.Delta, leastDelta)
	case math.IsInf(k.Smoothness, 1):
		return fmt.Errorf("qop: %w: the loss has Smoothness = +Inf on the declared bounds, so no curvature is enough: use a loss with a Lipschitz gradient, such as loss.Huber", dp.ErrCondition)
	case !(k.Smoothness > 0):
		return fmt.Errorf("qop: %w: the loss has Smoothness = %v on the declared bounds, which means unknown; want a positive finite constant", dp.ErrCondition, k.Smoothness)
	case k.Structure < loss.LSQ || k.Structure > loss.General:
		return fmt.Errorf("qop: %w: the loss declares %v, want LSQ, GLM, FixedRange or General; General with Rank = Dim = %d always holds", dp.ErrCondition, k.Structure, q.Dim)
	case k.Structure >= loss.FixedRange && k.Rank < 1:
		return fmt.Errorf("qop: %w: the loss declares Rank = %d (unknown), want at least 1; General with Rank = Dim = %d always holds", dp.ErrCondition, k.Rank, q.Dim)
	}
	return nil
}

// Plan is a calibrated mechanism: how much curvature, and what it costs. It is
// made of public quantities alone and may be published. Fit spends its Budget
// once per call. Only Calibrate and Plan of Mechanism make valid ones; changing
// a field voids the certificate.
type Plan struct {
	Public
	Relation    dp.Relation
	Calibration Calibration
	Structure   loss.Structure // case of Theorem A, the loss's or a weaker one
	Theorem     string         // identifier, tabled in the package comment

	// The perturbation (σ²/2)(θ−θ̃)'W(θ−θ̃), W ~ W_d(m).
	M         float64 // m, degrees of freedom
	T         float64 // t = L/σ²
	Sigma2    float64 // σ²
	Curvature float64 // σ²m, the mean curvature added per direction
	Threshold float64 // a, where the closed form is used, else 0

	// The covered release: θ̂ within Cover of the minimizer, plus noise.
	Objective, Output dp.Budget // (ε₁, δ₁) and (ε₂, δ₂)
	Cover             float64   // R_s
	Reach             float64   // R = R_s + η√(b/α), R_s if η = 0
	OutputSigma       float64   // σ̃, standard deviation of the output noise

	// The anchor's error, all 0 if η = 0.
	Eta          float64 // η
	Alpha, Upper float64 // α and b of Theorem B
	Low, High    float64 // their shares of δ; δ₁ + δ₂ + Low + High ≤ δ

	// ExcessBound bounds the expected excess empirical risk, a sum over the
	// records, against the best θ₀ with ‖θ₀−θ*‖₂ ≤ Radius:
	//
	//	σ²m(D+η)²/2 + nLdσ̃²/2   (exact anchor and solve: σ²mD²/2)
	//
	// A G-Lipschitz regularizer adds at most G√d·σ̃. The term with n is left out
	// where Records is not stated. +Inf where Radius is not stated.
	ExcessBound float64

	// Trace, if not nil, is called at the end of every solve. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)

	center []float64
	rule   Interpolation
}

// Safety margins, below the 1e-6 that constants may exceed their exact values
// by and above the errors they cover.
const (
	// safeLogDelta is subtracted from log δ: quadratures are exact to 1e-9, tables have a margin
	// of their own. It moves t by less than 5e-7, since δ grows at least like t.
	safeLogDelta = 2e-7
	// fineT is the relative width of the last bracket of t.
	fineT = 1e-7
	// coarseT is enough to compare one m with another.
	coarseT = 1e-3
	// safeScale multiplies other noise scales.
	safeScale = 1 + 1e-9
)

// Calibrate returns the noise for a problem with the public quantities q.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition where no noise
// level makes the claim true (with the least value that would do), or
// ErrMechanism.
func (m *Mechanism) Calibrate(q Public) (*Plan, error) { return m.calibrate(nil, q) }

func (m *Mechanism) calibrate(f *fault.Set, q Public) (*Plan, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	if relation(m.Relation) == dp.AddRemove {
		q.Records = 0 // private
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	structure, rank, err := m.structure(q)
	if err != nil {
		return nil, err
	}
	if err := checkDegrees(q.Dim, m.M, m.Eta > 0); err != nil {
		return nil, err
	}
	if structure == loss.General && m.Calibration != Paper && (q.Dim > mostDim || m.M > mostExact) {
		return nil, fmt.Errorf("qop: %w: structure General with M = %v and Dim = %d: the law of λ_min is computed for at most %d degrees of freedom in %d dimensions; declare GLM or LSQ where that holds, or take a smaller M", dp.ErrCondition, m.M, q.Dim, mostExact, mostDim)
	}
	p := &Plan{
		Public: q, Relation: relation(m.Relation), Calibration: m.Calibration,
		Structure: structure, Eta: fault.At(f, fault.AnchorError, m.Eta), Trace: m.Trace,
	}
	p.Constants.Rank = int(rank)
	c := &calibrator{fault: f, plan: p, m: m.M, share: m.Share, s: setting{
		dim: q.Dim, rank: rank, structure: structure, relation: fault.At(f, fault.Relation, p.Relation),
		threshold: m.Calibration == Threshold,
	}}
	if err := c.cover(m.Cover); err != nil {
		return nil, err
	}
	if m.Eta > 0 {
		err = c.inexact()
	} else {
		err = c.exact()
	}
	if err != nil {
		return nil, err
	}
	if err := p.finish(f); err != nil {
		return nil, err
	}
	return p, nil
}

// Sizes: of W, whose diagonal is drawn as sums of m squares, and of the exact law of λ_min, which is
// computed in seconds.
const (
	mostDegrees = 1 << 16
	mostExact   = 5000
	mostDim     = 1000
)

// leastDegrees returns the least m: d+1, or d+3 where Cover and the anchor's error count by 1/λ_min, whose mean
// is infinite for less (total).
func leastDegrees(dim int, total bool) float64 {
	if total {
		return float64(dim) + 3
	}
	return float64(dim) + 1
}

// checkDegrees refuses an m ≠ 0 that is no integer between leastDegrees and 2¹⁶, and a dimension with no such m.
func checkDegrees(dim int, m float64, total bool) error {
	least := leastDegrees(dim, total)
	switch {
	case least > mostDegrees:
		return fmt.Errorf("%w: Dim = %d, want at most %d", ErrMechanism, dim, mostDegrees-(int(least)-dim))
	case m == 0:
		return nil
	case m < least && total && m > float64(dim):
		return fmt.Errorf("qop: %w: M = %v degrees of freedom in %d dimensions: W is so often nearly singular that no useful distance to the minimizer can be kept; want at least Dim+3 = %v, or 0 for automatic", dp.ErrCondition, m, dim, least)
	case m < least:
		return fmt.Errorf("qop: %w: M = %v degrees of freedom in %d dimensions, want at least Dim+%d = %v, or 0 for automatic", dp.ErrCondition, m, dim, int(least)-dim, least)
	case m != math.Trunc(m):
		return fmt.Errorf("%w: M = %v is no integer; want %v, %v, or 0 for automatic", ErrMechanism, m, math.Floor(m), math.Ceil(m))
	case m > mostDegrees:
		return fmt.Errorf("%w: M = %v, want at most %d", ErrMechanism, m, mostDegrees)
	}
	return nil
}

// structure returns the case of Theorem A and ρ: what the loss declares, or
// the weaker one that the mechanism asks for.
func (m *Mechanism) structure(q Public) (loss.Structure, float64, error) {
	s, rank := q.Constants.Structure, 1
	if s >= loss.FixedRange {
		rank = min(q.Constants.Rank, q.Dim)
	}
	want := m.Structure
	if m.Calibration != Sharp && want == 0 && s != loss.FixedRange {
		want = loss.General
	}
	if m.Calibration == Paper {
		want = loss.General
	}
	switch {
	case want != 0 && want < s:
		return 0, 0, fmt.Errorf("qop: %w: Structure = %v, but the loss declares %v only; want %v or a weaker one", dp.ErrCondition, want, s, s)
	case want != 0:
		s = want
	}
	if q.Dim == 1 && s > loss.GLM && m.Calibration == Sharp { // in ℝ every loss is φ(θ)
		s = loss.GLM
	}
	if m.Calibration == Threshold && s < loss.FixedRange {
		return 0, 0, fmt.Errorf("%w: Calibration = threshold has no form for %v; leave Structure 0 or set FixedRange or General", ErrMechanism, s)
	}
	return s, float64(rank), nil
}

// cover checks the caller's R_s and sets it, or what the default starts from.
func (c *calibrator) cover(r float64) error {
	p := c.plan
	scale := p.Scale
	if scale == 0 {
		scale = p.Radius
	}
	if scale == 0 {
		scale = 1
	}
	if r != 0 && r < leastCover*scale {
		return fmt.Errorf("%w: Cover = %v cannot be certified in float64, want at least %v or 0 for the default", ErrMechanism, r, leastCover*scale)
	}
	if p.Cover = r; r == 0 {
		p.Cover = defaultCover * scale
		c.length = math.Max(scale, p.Radius)
	}
	return nil
}

// coverOf returns R_s: the caller's, or 1e-8 of the length scale and no less than
// eight times what the certificate allows for rounding in a sum over n records,
//
//	1e-12·nL·length/μ,   μ = σ²λ_min(W) of a typical W
func (c *calibrator) coverOf(t, m float64) float64 {
	p := c.plan
	if c.length == 0 || p.Relation == dp.AddRemove {
		return p.Cover
	}
	law := newRoughLaw(float64(p.Dim), m)
	return math.Max(p.Cover, 8e-12*float64(p.Records)*t*c.length*math.Exp(2*law.tau-law.nu))
}

const (
	defaultCover = 1e-8
	leastCover   = 1e-14
)

// finish fills what follows from T, M, Reach and the budgets, and checks that
// all of it can be computed with.
func (p *Plan) finish(f *fault.Set) error {
	p.Sigma2 = fault.At(f, fault.Smoothness, p.Constants.Smoothness) / p.T * (1 + 0x1p-50)
	p.Curvature = p.Sigma2 * p.M
	for _, v := range []float64{p.M, p.T, p.Sigma2, p.Curvature, p.Cover, p.Reach, p.OutputSigma} {
		if !(v > 1/extreme && v < extreme) { // also NaN
			return fmt.Errorf("%w: the calibration leaves the range of float64 (T %v, Sigma2 %v, Curvature %v, Cover %v, Reach %v, OutputSigma %v): rescale the problem",
				ErrMechanism, p.T, p.Sigma2, p.Curvature, p.Cover, p.Reach, p.OutputSigma)
		}
	}
	p.ExcessBound = math.Inf(1)
	if p.Radius > 0 {
		p.ExcessBound = p.Curvature / 2 * square(p.Radius+p.Eta)
		if p.Records > 0 { // 0·σ̃² is no number where σ̃² overflows
			p.ExcessBound += float64(p.Records) * p.Constants.Smoothness * float64(p.Dim) / 2 * square(p.OutputSigma)
		}
	}
	return nil
}

// extreme scale of a plan and the inverse of the least: squares and products fit,
// and no digit is lost to subnormal numbers.
const extreme = 0x1p400

func square(x float64) float64 { return x * x }

// A calibrator carries what is fixed before m and the budgets are.
type calibrator struct {
	fault *fault.Set // nil in production
	plan  *Plan
	s     setting
	m     float64 // the caller's, 0 for automatic
	share float64 // the caller's, 0 for automatic

	last   float64 // t/(ε√k/3) of the last rough calibration
	length float64 // of the default R_s; 0 where the caller fixed it

	// The setting of Utility.
	gap       float64 // τ of a solver that is stopped by its gap, else 0
	lipschitz float64 // G
}

// exact calibrates for η = 0: δ₁ and δ₂ by the share of the output noise.
func (c *calibrator) exact() error {
	p := c.plan
	p.Objective, p.Output = p.Budget.Split(share(c.share))
	p.Objective = fault.At(c.fault, fault.Objective, p.Objective)
	p.Objective.Epsilon = math.Min(p.Objective.Epsilon, mostEpsilon)
	if p.Calibration == Paper {
		if err := c.paper(); err != nil {
			return err
		}
	} else {
		p.M = c.degrees(p.Objective)
		best := c.largest(p.Objective, p.M)
		p.T, p.Threshold, p.Theorem = best.t, best.threshold, best.theorem
	}
	if !(p.T > 0) {
		return fmt.Errorf("qop: %w: no σ² was found for %v with M = %v; a larger Delta or M needs less", dp.ErrCondition, p.Objective, p.M)
	}
	p.Cover = c.coverOf(p.T, p.M)
	p.Reach = p.Cover
	var err error
	p.OutputSigma, err = gaussianSigma(p.Output, 2*p.Reach)
	return err
}

func gaussianSigma(b dp.Budget, sensitivity float64) (float64, error) {
	sigma, err := dp.GaussianSigma(b, sensitivity)
	if err != nil {
		err = fmt.Errorf("qop: output noise for %v and sensitivity %v: %w", b, sensitivity, err)
	}
	return sigma, err
}

// degrees returns the caller's m, or the integer that nearly minimizes the
// mean curvature σ²m = Lm/t(m), over the bounds that the structure allows.
func (c *calibrator) degrees(b dp.Budget) float64 {
	if c.m != 0 {
		return c.m
	}
	s := c.s
	s.eps = b.Epsilon
	d := float64(s.dim)
	logDelta := specfun.Log(b.Delta)
	best, least := 0.0, math.Inf(1)
	for _, rough := range s.rough() {
		guess := 0.0
		at := func(m float64) float64 {
			if guess == 0 {
				guess = s.eps * math.Sqrt(m-d+1) / 3
			}
			t := rough.t(m, logDelta, guess, coarseT)
			if t > 0 {
				guess = t
			}
			return m / t
		}
		m := leastRatio(at, leastDegrees(s.dim, c.plan != nil && c.plan.Eta > 0), math.Min(rough.start, s.most()), s.most())
		if cost := at(m); cost < least || best == 0 {
			best, least = m, cost
		}
	}
	return best
}

// most returns the largest m that a calibration chooses.
func (s setting) most() float64 {
	if s.structure == loss.General {
		return mostExact
	}
	return mostDegrees
}

// A roughBound is a bound of Theorem A with approximate laws and coarse searches, which chooses m and splits of
// the budget: the largest t for m and log δ, from a guess and to a relative accuracy.
type roughBound struct {
	t     func(m, logDelta, guess, tol float64) float64
	start float64 // an m near which it is best
}

// rough returns the bounds that hold for s.
func (s setting) rough() []roughBound {
	d := float64(s.dim)
	from := func(p func(m, logDelta float64) profile, start float64) roughBound {
		return roughBound{func(m, logDelta, guess, tol float64) float64 {
			return largest(p(m, logDelta).logDelta, logDelta, guess, tol)
		}, start}
	}
	closed := roughBound{func(m, logDelta, _, _ float64) float64 {
		k := m - d + 1
		if s.structure == loss.FixedRange {
			return s.closed(k, roughQuantile(s.rank, k-1+s.rank, s.logTail(logDelta)))
		}
		return s.closed(k, roughQuantile(d, m, logDelta))
	}, 3 * d}
	tilted := from(func(m, logDelta float64) profile {
		q, dof := s.tiltedLaw(m)
		return newTilt(s, m, logDelta, newRoughRange(float64(q), dof, logDelta), true)
	}, 5*d)
	switch {
	case s.structure == loss.LSQ:
		return []roughBound{from(func(m, _ float64) profile { return newLSQ(s, m, true) }, 2*d+2)}
	case s.structure == loss.GLM:
		return []roughBound{from(func(m, _ float64) profile {
			return &glm{eps: s.eps, k: m - d + 1, relation: s.relation, rough: true}
		}, 2*d+2)}
	case s.threshold:
		return []roughBound{closed}
	case s.structure == loss.FixedRange:
		return []roughBound{closed, tilted}
	}
	return []roughBound{from(func(m, _ float64) profile {
		return &general{eps: s.eps, rho: s.rank, k: m - d + 1, law: newRoughLaw(d, m)}
	}, 3*d), tilted}
}

// roughLargest returns the largest t of the bounds that hold for s.
func (s setting) roughLargest(m, logDelta, guess, tol float64) (t float64) {
	for _, b := range s.rough() {
		t = math.Max(t, b.t(m, logDelta, guess, tol))
	}
	return t
}

// logTail returns the logarithm of the probability that λ_min < a may have in
// the closed form: δ, or δ/2 for two losses under a union bound.
func (s setting) logTail(logDelta float64) float64 {
	if s.structure == loss.FixedRange && s.relation == dp.Replace {
		return logDelta - math.Ln2
	}
	return logDelta
}

// closed returns the largest t of the threshold form at a:
//
//	General      ε = ρ·log(1+t/a) − (k/2)·log(1−t/a), plus t/2 in one dimension
//	FixedRange   ε = sum of the two losses at a, their maximum for add/remove
func (s setting) closed(k, a float64) float64 {
	return largestBelow(a, s.eps, func(t float64) float64 {
		if s.structure != loss.FixedRange {
			l := generalLoss(s.rank, k, t, a)
			if s.dim == 1 { // W moves by a number: the trace counts
				l += t / 2
			}
			return l
		}
		remove, add := fixedLosses(s.rank, k, t, a)
		if s.relation == dp.AddRemove {
			return math.Max(remove, add)
		}
		return remove + add
	})
}

// proved is a curvature that a theorem allows.
type proved struct {
	t         float64
	threshold float64 // a of the closed form, else 0
	theorem   string
}

// better returns p or q, whichever has the larger t. Each is valid alone, and which one it is
// depends on public quantities only.
func (p proved) better(q proved) proved {
	if q.t > p.t {
		return q
	}
	return p
}

// largest returns the largest t that is proved for b and m, rounded down.
func (c *calibrator) largest(b dp.Budget, m float64) proved {
	s := c.s
	s.eps = b.Epsilon
	d := float64(s.dim)
	k := m - d + 1
	logDelta := specfun.Log(b.Delta)
	guess := s.eps * math.Sqrt(k) / 3
	root := func(theorem string, p profile, guess float64) proved {
		return proved{t: largest(p.logDelta, logDelta-safeLogDelta, guess, fineT), theorem: theorem}
	}
	switch {
	case s.structure == loss.LSQ:
		guess = largest(newLSQ(s, m, true).logDelta, logDelta, guess, coarseT)
		return root(TheoremLSQ, newLSQ(s, m, false), guess)
	case s.structure == loss.GLM:
		p := &glm{eps: s.eps, k: k, relation: s.relation}
		guess = s.roughLargest(m, logDelta, guess, coarseT)
		best := root(TheoremGLM, p, guess)
		if s.relation == dp.Replace {
			best = best.better(proved{t: s.joint(k, logDelta-safeLogDelta, best.t, mostBoxes), theorem: TheoremJoint})
		}
		return best
	case s.threshold || s.structure == loss.FixedRange:
		best := s.closedForm(m, logDelta)
		if q, dof := s.tiltedLaw(m); !s.threshold && q <= mostDim && dof <= mostExact {
			best = best.better(root(TheoremTilt, newTilt(s, m, logDelta, newTable(q, dof, logDelta), false), best.t))
		}
		return best
	}
	law := newTable(s.dim, m, logDelta)
	best := root(TheoremGeneral, &general{eps: s.eps, rho: s.rank, k: k, law: law}, s.closed(k, roughQuantile(d, m, logDelta)))
	return best.better(root(TheoremTilt, newTilt(s, m, logDelta, law, false), best.t))
}

// closedForm is the threshold form of Theorem A.
func (s setting) closedForm(m, logDelta float64) proved {
	dim, dof, theorem := s.dim, m, TheoremThreshold
	if s.structure == loss.FixedRange {
		dim, dof, theorem = int(s.rank), m-float64(s.dim)+s.rank, TheoremFixed
	}
	a := minQuantile(dim, dof, s.logTail(logDelta))
	return proved{s.closed(m-float64(s.dim)+1, a) * (1 - 1e-12), a, theorem}
}

// minQuantile returns the quantile of log probability logp of λ_min(W_d(m)),
// rounded down.
func minQuantile(d int, m, logp float64) float64 {
	return randmat.MinEigenvalueLaw{Dim: d, Dof: m}.LogQuantile(logp)
}
