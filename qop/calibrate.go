// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// mostEpsilon is the largest ε₁ that is used, so that e^ε stays finite.
const mostEpsilon = 300

// leastDelta is the least δ of a Budget: smaller tails are not computed to full accuracy.
const leastDelta = 1e-90

// checkPublic refuses public quantities and budgets for which there is no noise scale.
func checkPublic(q erm.Public, b dp.Budget) error {
	k := q.Constants
	if err := b.Check(); err != nil {
		return fmt.Errorf("qop: %w", err)
	}
	if err := units(q); err != nil {
		return fmt.Errorf("qop: %w", err)
	}
	switch {
	case b.Delta == 0:
		return fmt.Errorf("qop: %w: Delta = 0, but a random matrix can be nearly singular, so there is no pure "+
			"guarantee; the least Delta is %g", dp.ErrBudget, leastDelta)
	case b.Delta < leastDelta:
		return fmt.Errorf("qop: %w: Delta = %v, want at least %g", dp.ErrBudget, b.Delta, leastDelta)
	}
	err := release.CheckConstant("Smoothness", k.Smoothness, "use a loss with a Lipschitz gradient, such as loss.Huber")
	if err != nil {
		return fmt.Errorf("qop: %w", err)
	}
	switch {
	case k.Structure < loss.LSQ || k.Structure > loss.General:
		return fmt.Errorf("qop: %w: the loss declares %v, want LSQ, GLM, FixedRange or General; General with Rank = Dim "+
			"= %d always holds", dp.ErrCondition, k.Structure, q.Dim)
	case k.Structure >= loss.FixedRange && k.Rank < 1:
		return fmt.Errorf("qop: %w: the loss declares Rank = %d (unknown), want at least 1; General with Rank = Dim = %d "+
			"always holds", dp.ErrCondition, k.Rank, q.Dim)
	}
	return nil
}

// Safety margins. They exceed the errors that they cover and raise constants by less than 1e-6.
const (
	// safeLogDelta is subtracted from log δ for the error of quadratures, 1e-9; tables add their own
	// margin. It lowers t by less than 5e-7, since δ grows at least like t.
	safeLogDelta = 2e-7
	// fineT is the relative width of the last bracket of t.
	fineT = 1e-7
	// coarseT is the relative accuracy of t in comparisons of one m with another.
	coarseT = 1e-3
	// safeScale multiplies other noise scales, for the rounding of closed forms.
	safeScale = 1 + 1e-9
)

// calibrate fixes the noise for a problem with the public quantities q, whose constants hold on ℝᵈ.
func (m *Mechanism) calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	rel := cmp.Or(m.Relation, dp.Replace)
	q, err := q.Complete(rel)
	if err != nil {
		return nil, fmt.Errorf("qop: %w", err)
	}
	s, err := m.setting(q, b)
	if err != nil {
		return nil, err
	}
	if s.structure == loss.General && m.Calibration != Paper && (q.Dim > mostDim || m.Degrees > mostExact) {
		return nil,
			fmt.Errorf("qop: %w: structure General with Degrees = %v and Dim = %d: the law of λ_min is computed for at most "+
				"%d degrees of freedom in %d dimensions; declare GLM or LSQ where that holds, or take smaller Degrees",
				dp.ErrCondition, m.Degrees, q.Dim, mostExact, mostDim)
	}
	pl := &Plan{center: slices.Clone(m.Center), rule: m.Interpolation, trace: m.Trace}
	pl.params = Params{
		Dim: q.Dim, Records: q.Records, MaxRecords: q.MaxRecords, Constants: q.Constants, Radius: m.Radius, Budget: b,
		Relation: rel, Calibration: m.Calibration, Structure: s.structure, Eta: m.Eta,
	}
	p := &pl.params
	p.Constants.Rank = int(s.rank)
	anchor := norm(m.Center)
	if m.clip() == 0 {
		q = interpolated(q, anchor, m.Eta)
	}
	pl.public = q
	scale := math.Max(1, anchor)
	if r := q.Radius; r > 0 && !math.IsInf(r, 1) {
		scale = r
		if p.Radius == 0 {
			p.Radius = r + anchor
		}
	}
	c := &calibrator{plan: p, asked: *m, public: q, per: pl.around(anchor), length: scale, s: s}
	p.Budget.Delta *= 1 - eventShare
	switch {
	case m.clip() > 0:
		err = c.tilted()
	case m.Eta > 0:
		err = c.inexact()
	default:
		err = c.exact()
	}
	p.Budget = b
	if err != nil {
		return nil, err
	}
	p.Sigma2 = p.Constants.Smoothness / p.Ratio * (1 + 0x1p-50)
	pl.per, pl.failure = c.perturbation(p.Ratio, p.Degrees, false)
	// The solver comes within R_s; the anchor's error moves the minimizer by R − R_s at most.
	if pl.output, err = release.NewOutput(q.Dim, p.Cover, 2*(p.Reach-p.Cover), q.Reach(pl.per)+p.Cover); err == nil {
		if p.Clip > 0 {
			pl.output.Sigma = pl.output.Sensitivity / c.shift * safeScale
		} else {
			pl.output, err = pl.output.For(p.Output)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("qop: output noise: %w", err)
	}
	p.Grid, p.Sensitivity, p.OutputSigma = pl.output.Grid(), pl.output.Sensitivity, pl.output.Sigma
	if err := p.finish(); err != nil {
		return nil, err
	}
	pl.cert = dp.Certificate{Budget: b, Relation: rel, Theorem: p.Theorem,
		Assumptions: append([]dp.Assumption{dp.WishartArithmetic}, q.Assumptions...)}
	if pl.rule != nil {
		pl.cert.Assumptions = append(pl.cert.Assumptions, pl.rule.rule().assumptions(p.Eta)...)
	}
	pl.tabulate(s)
	return pl, nil
}

// interpolated fills in a bound on the gradient of one record at P_C(0) where the loss declares
// none: the gradient vanishes within η of the anchor, up to the rounding of a label.
func interpolated(q erm.Public, anchor, eta float64) erm.Public {
	if math.IsInf(q.Gradient, 1) {
		q.Gradient = q.Constants.Smoothness * (q.Anchor + anchor + eta) * (1 + 0x1p-20)
	}
	return q
}

// around returns the public bounds on the perturbation that do not depend on σ² and m, for an
// anchor of the given norm. The theorems are about exact labels, but Relabel and Drop compute
// labels from fl⟨a,θ̃⟩, so gradients are off by at most β·γ_d‖θ̃‖ each, γ_d = du/(1−du). At the
// anchor they are at most β(η + γ_d‖θ̃‖).
func (pl *Plan) around(anchor float64) erm.PublicPerturbation {
	q := pl.public
	n, d := float64(q.MaxRecords), float64(q.Dim)
	per := erm.PublicPerturbation{Center: anchor * (1 + d*0x1p-52), CenterSlope: pl.slope(q)}
	if pl.rule == nil || pl.rule.rule().clip == 0 {
		per.LinearError = n * q.Constants.Smoothness * d * 0x1p-53 * (1 + 0x1p-20) * per.Center
	}
	return per
}

// slope bounds the slope of a risk with the public quantities q at the anchor; +Inf without an
// anchor.
func (pl *Plan) slope(q erm.Public) float64 {
	if len(pl.center) != q.Dim {
		return math.Inf(1)
	}
	return math.Max(float64(q.MaxRecords)*q.Constants.Smoothness*pl.params.Eta+q.SlopeAt(pl.center),
		math.SmallestNonzeroFloat64)
}

// eventShare is the share of δ for matrices outside the bounds that Cover was fixed for.
const eventShare = 0x1p-8

// perturbation adds to c.per the bounds λ_min(W) ≥ a₀ and tr W ≤ b₀, tr W ~ χ²_{dm}, which hold
// outside an event of probability at most failure, (1+e^ε)·failure ≤ 2⁻⁹δ. The matrix as computed
// then has σ²λ_min ≥ σ²a₀ − E, E = QuadError. If σ²a₀ − E is at least 1024(d+8)u of the trace,
// randmat.MinEigAbove proves a bound of at least 255/256 of it, and MinEig leaves room for
// subtracting E again; else MinEig is 0, for which there is no Cover. As a₀ decides only how
// accurate a solve must be, it is closedQuantile unless that is less than half of the quantile or
// limits Cover. rough uses an approximate law.
func (c *calibrator) perturbation(t, m float64, rough bool) (per erm.PublicPerturbation, failure float64) {
	p := c.plan
	each := num.Log(p.Budget.Delta) - 10*math.Ln2 - num.LogSumExp(0, p.Budget.Epsilon)
	sigma2 := p.Constants.Smoothness / t * (1 + 0x1p-50)
	a0, usual := closedQuantile(float64(p.Dim), m, each), roughQuantile(float64(p.Dim), m, each)
	switch {
	case rough:
		a0 = math.Max(a0, usual)
	case a0 < usual/2 || c.sharpEig:
		a0 = minQuantile(p.Dim, m, each)
	}
	b0 := num.Chi2UpperQuantile(each, m*float64(p.Dim)) * safeScale
	per = c.per
	per.MaxEig = sigma2 * b0 * safeScale
	per.QuadError = sigma2 * randmat.WishartError(p.Dim, b0) * safeScale
	if least := sigma2*a0/safeScale - per.QuadError; least >= 1024*float64(p.Dim+8)*0x1p-53*per.MaxEig {
		per.MinEig = math.Max((1-0x1p-8)*least/safeScale-per.QuadError, 0)
	}
	return per, 2 * math.Exp(each)
}

// mostDegrees limits m to the degrees that noise.ChiSquared draws. mostExact and
// mostDim are the m and d up to which the exact law of λ_min takes seconds at most.
const (
	mostDegrees = 1 << 16
	mostExact   = 5000
	mostDim     = 1000
)

// leastDegrees returns the least m, d+3: for smaller m, 1/λ_min has no mean, and a release that is
// never withheld cannot be within a useful distance of the minimizer.
func leastDegrees(dim int) float64 { return float64(dim) + 3 }

// checkDegrees refuses an m ≠ 0 that is not an integer between leastDegrees and 2¹⁶, and a
// dimension without such an m.
func checkDegrees(dim int, m float64) error {
	least := leastDegrees(dim)
	switch {
	case least > mostDegrees:
		return fmt.Errorf("%w: Dim = %d, want at most %d", ErrMechanism, dim, mostDegrees-3)
	case m == 0:
		return nil
	case m < least:
		return fmt.Errorf("qop: %w: Degrees = %v in %d dimensions: W is so often nearly singular that no useful distance "+
			"to the minimizer can be kept; want at least Dim+3 = %v, or 0 for automatic", dp.ErrCondition, m, dim, least)
	case m != math.Trunc(m):
		return fmt.Errorf("%w: Degrees = %v is no integer; want %v, %v, or 0 for automatic",
			ErrMechanism, m, math.Floor(m), math.Ceil(m))
	case m > mostDegrees:
		return fmt.Errorf("%w: Degrees = %v, want at most %d", ErrMechanism, m, mostDegrees)
	}
	return nil
}

// setting checks q, b and Degrees, and returns the setting of Theorem A.
func (m *Mechanism) setting(q erm.Public, b dp.Budget) (s setting, err error) {
	if err := checkPublic(q, b); err != nil {
		return s, err
	}
	if err := checkDegrees(q.Dim, m.Degrees); err != nil {
		return s, err
	}
	s = setting{dim: q.Dim, relation: cmp.Or(m.Relation, dp.Replace)}
	s.structure, s.rank, err = m.structure(q)
	return s, err
}

// structure returns the case of Theorem A, which is the structure of the loss or a weaker one that
// the mechanism asks for, and ρ.
func (m *Mechanism) structure(q erm.Public) (loss.Structure, float64, error) {
	s, rank := q.Constants.Structure, 1
	if s >= loss.FixedRange {
		rank = min(q.Constants.Rank, q.Dim)
	}
	want := m.Structure
	if m.Calibration == Paper {
		want = loss.General
	}
	switch {
	case want != 0 && want < s:
		return 0, 0, fmt.Errorf("qop: %w: Structure = %v, but the loss declares %v only; want %v or a weaker one",
			dp.ErrCondition, want, s, s)
	case want != 0:
		s = want
	}
	if q.Dim == 1 && s > loss.GLM && m.Calibration == Sharp { // in ℝ every loss is φ(θ)
		s = loss.GLM
	}
	return s, float64(rank), nil
}

// coverOf returns R_s: the caller's, or the default of erm.Public.Cover; +Inf with an error if
// neither exists.
func (c *calibrator) coverOf(t, m float64, rough bool) (float64, error) {
	per, _ := c.perturbation(t, m, rough)
	r, err := c.public.Cover(per, c.asked.Cover, c.length)
	switch limited := per.MinEig == 0 || err != nil || r <= c.public.Floor(per); {
	case limited && !rough && !c.sharpEig:
		c.sharpEig = true
		return c.coverOf(t, m, rough)
	case per.MinEig == 0:
		return math.Inf(1),
			fmt.Errorf("qop: %w: with Degrees = %v W is so often nearly singular that float64 cannot bound its least "+
				"eigenvalue; want larger Degrees, or 0 for automatic", dp.ErrCondition, m)
	case err != nil:
		return math.Inf(1), fmt.Errorf("qop: %w", err)
	}
	return r, nil
}

// finish fills in Curvature and ExcessBound, and refuses numbers whose products could overflow.
func (p *Params) finish() error {
	p.Curvature = p.Sigma2 * p.Degrees
	for _, v := range []float64{p.Degrees, p.Ratio, p.Sigma2, p.Curvature, p.Cover, p.Reach, p.OutputSigma} {
		if !(v > 1/extreme && v < extreme) { // also NaN
			return fmt.Errorf("%w: the calibration leaves the range of float64 (Ratio %v, Sigma2 %v, Curvature %v, Cover "+
				"%v, Reach %v, OutputSigma %v): rescale the problem",
				ErrMechanism, p.Ratio, p.Sigma2, p.Curvature, p.Cover, p.Reach, p.OutputSigma)
		}
	}
	p.ExcessBound = math.Inf(1)
	if p.Radius > 0 && p.Clip == 0 { // nothing public bounds the bias of clipped slopes
		p.ExcessBound = p.Curvature / 2 * square(p.Radius+p.Eta)
		if p.Records > 0 { // 0·σ̃² is NaN if σ̃² overflows
			p.ExcessBound += float64(p.Records) * p.Constants.Smoothness * float64(p.Dim) / 2 * square(p.OutputSigma)
		}
	}
	return nil
}

// extreme and 1/extreme bound the numbers of a plan, so that their squares and products neither
// overflow nor become subnormal.
const extreme = 0x1p400

func square(x float64) float64 { return x * x }

// calibrator holds the quantities that do not depend on m and on the split of the budget.
type calibrator struct {
	plan  *Params
	s     setting
	asked Mechanism

	last float64 // t/(ε√k/3) of the last rough calibration

	public erm.Public
	per    erm.PublicPerturbation // see around
	length float64                // of the default R_s
	// sharpEig takes the exact quantile of λ_min where the one in closed form would limit R_s.
	sharpEig bool

	shift float64 // of one output noise of tilted
}

// exact calibrates for η = 0: δ₁ and δ₂ by the share of the output noise.
func (c *calibrator) exact() error {
	p := c.plan
	p.Objective, p.Output = p.Budget.Split(cmp.Or(c.asked.Share, defaultShare))
	if err := release.CheckShares(p.Budget, p.Objective, p.Output); err != nil {
		return err
	}
	p.Objective.Epsilon = math.Min(p.Objective.Epsilon, mostEpsilon)
	if p.Calibration == Paper {
		if err := c.paper(); err != nil {
			return err
		}
	} else {
		var best proved
		p.Degrees, best = c.sharpest(p.Objective)
		p.Ratio, p.Threshold = best.t, best.threshold
		p.Theorem = best.theorem
	}
	if !(p.Ratio > 0) {
		return fmt.Errorf("qop: %w: no σ² was found for %v with Degrees = %v; a larger Delta or Degrees needs less",
			dp.ErrCondition, p.Objective, p.Degrees)
	}
	var err error
	p.Cover, err = c.coverOf(p.Ratio, p.Degrees, false)
	p.Reach = p.Cover
	return err
}

// candidates returns the caller's m, or for every bound that the structure allows the integer that
// nearly minimizes the mean curvature σ²m = Lm/t(m), if its approximate curvature is within
// nearlyBest of the least. The best one comes first.
func (c *calibrator) candidates(b dp.Budget) (degrees []float64) {
	if c.asked.Degrees != 0 {
		return []float64{c.asked.Degrees}
	}
	s := c.s
	s.eps = b.Epsilon
	d := float64(s.dim)
	logDelta := num.Log(b.Delta)
	least := math.Inf(1)
	for _, rough := range s.rough() {
		scale := 1.0 / 3
		at := func(m float64) float64 {
			usual := s.eps * math.Sqrt(m-d+1)
			t := rough(m, logDelta, usual*scale, coarseT)
			if t > 0 {
				scale = t / usual
			}
			return m / t
		}
		m := leastRatio(at, leastDegrees(s.dim), s.most())
		switch cost := at(m); {
		case degrees == nil || cost*nearlyBest < least:
			degrees, least = []float64{m}, cost
		case cost < least:
			degrees, least = append([]float64{m}, degrees...), cost
		case cost < least*nearlyBest:
			degrees = append(degrees, m)
		}
	}
	return degrees
}

const (
	// nearlyBest is the ratio of approximate curvatures up to which the exact ones decide between two
	// bounds: the approximate laws err by a few percent in few dimensions.
	nearlyBest = 1.1
	// mostEdelman is the largest ρ for which edelmanQuantile is the better approximation.
	mostEdelman = 8
)

// sharpest returns the m of the candidates with the least mean curvature, and its t.
func (c *calibrator) sharpest(b dp.Budget) (m float64, best proved) {
	for _, candidate := range c.candidates(b) {
		if p := c.largest(b, candidate); m == 0 || candidate*best.t < m*p.t {
			m, best = candidate, p
		}
	}
	return m, best
}

// most returns the largest m that an automatic calibration may choose.
func (s setting) most() float64 {
	if s.structure == loss.General {
		return mostExact
	}
	return mostDegrees
}

// roughBound is a bound of Theorem A with approximate laws and coarse searches, to choose m and the
// split of the budget: the largest t for m and log δ, from a guess and to a relative
// accuracy.
type roughBound func(m, logDelta, guess, tol float64) (t float64)

// rough returns the bounds that hold for s.
func (s setting) rough() []roughBound {
	d := float64(s.dim)
	from := func(p func(m, logDelta float64) profile) roughBound {
		return func(m, logDelta, guess, tol float64) float64 {
			return num.Largest(p(m, logDelta).logDelta, logDelta, guess, tol)
		}
	}
	closed := func(m, logDelta, _, _ float64) float64 {
		k, quantile := m-d+1, roughQuantile
		if s.rank <= mostEdelman {
			quantile = edelmanQuantile
		}
		return s.closed(k, quantile(s.rank, k-1+s.rank, s.logTail(logDelta)))
	}
	tilted := from(func(m, logDelta float64) profile {
		q, dof := s.tiltedLaw(m)
		return newTilt(s, m, logDelta, newRoughRange(float64(q), dof, logDelta), true)
	})
	switch {
	case s.structure == loss.LSQ:
		return []roughBound{from(func(m, _ float64) profile { return newLSQ(s, m, true) })}
	case s.structure == loss.GLM:
		return []roughBound{from(func(m, _ float64) profile {
			return &glm{eps: s.eps, k: m - d + 1, relation: s.relation, rough: true}
		})}
	case s.structure == loss.FixedRange:
		return []roughBound{closed, tilted}
	}
	return []roughBound{from(func(m, _ float64) profile {
		return &general{eps: s.eps, rho: s.rank, k: m - d + 1, law: newRoughLaw(d, m)}
	}), tilted}
}

// roughLargest returns the largest t of the bounds that hold for s.
func (s setting) roughLargest(m, logDelta, guess, tol float64) (t float64) {
	for _, b := range s.rough() {
		t = math.Max(t, b(m, logDelta, guess, tol))
	}
	return t
}

// proved is t = L/σ², the largest that a theorem allows.
type proved struct {
	t         float64
	threshold float64 // a of the closed form, else 0
	theorem   string
}

// better returns p or q, the one with the larger t. Both are valid, and the choice depends on
// public quantities only.
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
	logDelta := num.Log(b.Delta)
	guess := s.eps * math.Sqrt(k) / 3
	root := func(theorem string, p profile, guess float64) proved {
		return proved{t: num.Largest(p.logDelta, logDelta-safeLogDelta, guess, fineT), theorem: theorem}
	}
	switch {
	case s.structure == loss.LSQ:
		guess = num.Largest(newLSQ(s, m, true).logDelta, logDelta, guess, coarseT)
		return root(theoremLSQ, newLSQ(s, m, false), guess)
	case s.structure == loss.GLM:
		p := &glm{eps: s.eps, k: k, relation: s.relation}
		guess = s.roughLargest(m, logDelta, guess, coarseT)
		best := root(theoremGLM, p, guess)
		if s.relation == dp.Replace {
			t := s.joint(k, logDelta-safeLogDelta, best.t, mostBoxes)
			best = best.better(proved{t: t, theorem: theoremJoint})
		}
		return best
	case s.structure == loss.FixedRange:
		best := s.closedForm(m, logDelta)
		if q, dof := s.tiltedLaw(m); q <= mostDim && dof <= mostExact {
			p := newTilt(s, m, logDelta, newTable(q, dof, logDelta), false)
			best = best.better(root(theoremTilt, p, best.t))
		}
		return best
	}
	law := newTable(s.dim, m, logDelta)
	best := root(theoremGeneral, &general{eps: s.eps, rho: s.rank, k: k, law: law}, s.closed(k, roughQuantile(d, m,
		logDelta)))
	return best.better(root(theoremTilt, newTilt(s, m, logDelta, law, false), best.t))
}

// closedQuantile returns a number a with log P(λ_min(W_d(m)) < a) ≤ logp for m ≤ 2¹⁶, 0 if the
// bound gives none: (√m − √d − √(−2 logp))² for integers m, less the roundings.
// Proof: docs/theory/numerics.md#numerics.eigenlaw
func closedQuantile(d, m, logp float64) float64 {
	root := math.Sqrt(math.Floor(m)) - math.Sqrt(d) - math.Sqrt(-2*logp) - 0x1p-40
	return square(math.Max(root, 0)) * (1 - 0x1p-49)
}

// minQuantile returns the quantile of log probability logp of λ_min(W_d(m)), rounded down.
func minQuantile(d int, m, logp float64) float64 {
	return randmat.MinEigenvalueLaw{Dim: d, Dof: m}.LogQuantile(logp)
}
