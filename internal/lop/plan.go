// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// A Plan is a calibrated linear or output perturbation: lop.Plan, where its methods are documented.
type Plan struct {
	params   Params
	settings Settings
	public   erm.Public
	per      erm.PublicPerturbation
	cert     dp.Certificate
	output   release.Output
	curve    linear.Curve // of the exact minimizer; meaningless unless Gaussian
	out      float64      // ε of the output noise by itself, 0 if one curve accounts for both
	failure  float64      // probability that ‖b‖ exceeds its bound
	step     int          // exponent of the grid of b
	proved   bool         // no constant rests on the error of float64 functions
}

// Shares of the output noise: of ε and of δ; or, where one curve accounts for the minimizer and its
// output noise, of μ², the square of the ratio of sensitivity to noise that the budget allows a
// Gaussian mechanism.
const (
	defaultShare      = 0.01
	defaultJointShare = 0.001
)

// spare is the share of δ left for calibration; the rest covers events in which the noise exceeds
// its bounds.
const spare = 1 - 0x1p-50

// Identifiers of output perturbation.
const (
	theoremOutput     = "lop.output/2"      // Gaussian ν hides G/μ + 2R + g√d
	theoremOutputPure = "lop.output-pure/2" // the same, ν of density ∝ exp(−a‖ν‖)
)

// Plan calibrates for p. It reads no record.
func (s Settings) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	_, q, err := s.prepare(p)
	if err != nil {
		return nil, s.mark(err)
	}
	return s.Calibrate(q, b)
}

// Calibrate fixes the noise for a problem with the public quantities q. The error wraps
// ErrMechanism, dp.ErrBudget, dp.ErrRelation, erm.ErrProblem, or, where no noise makes the claim
// true, dp.ErrCondition with the least value that would do.
func (s Settings) Calibrate(q erm.Public, b dp.Budget) (plan *Plan, err error) {
	defer func() { err = s.mark(err) }()
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	if q, err = q.Complete(s.relation()); err != nil {
		return nil, err
	}
	if err := s.checkCenter(q.Dim); err != nil {
		return nil, err
	}
	s.Center = slices.Clone(s.Center)
	if s.Radius == 0 && !math.IsInf(q.Radius, 1) {
		s.Radius = q.Radius + s.anchor()
	}
	if s.Population {
		switch l := q.OnSet.Lipschitz; {
		case q.Records < 1:
			return nil, fmt.Errorf("%w: the bound on the population loss needs a number of records: declare it as Records "+
				"of the problem", dp.ErrCondition)
		case s.Radius == 0:
			return nil, fmt.Errorf("%w: the bound on the population loss needs a length scale: set Radius to a public "+
				"guess, or declare a bounded Set", ErrMechanism)
		default:
			s.variance = 4 * float64(q.Records) * l * l
		}
	}
	pl := s.newPlan(q, b)
	if s.Output {
		err = pl.outputPerturbation(b)
	} else {
		err = pl.objectivePerturbation(b)
	}
	if err != nil {
		return nil, err
	}
	p := &pl.params
	if s.Population {
		p.ExcessBound = p.ExcessBound / float64(q.Records)
		if !s.Output { // L(R + E‖ν‖)
			p.ExcessBound += p.Lipschitz * (pl.output.Cover + pl.output.Mean())
		}
	}
	pl.cert = dp.Certificate{Budget: b, Relation: p.Relation, Rows: p.Rows, Person: q.Person,
		Theorem: p.Theorem}.With(pl.arithmetic()...).With(q.Assumptions...)
	return pl.finish()
}

// newPlan returns a plan with the numbers that are given: those of s, of q and the budget.
func (s Settings) newPlan(q erm.Public, b dp.Budget) *Plan {
	return &Plan{settings: s, public: q, params: Params{
		Relation: s.relation(), Budget: b, Dim: q.Dim, Records: q.Records, Rows: q.Rows, MaxRecords: q.MaxRecords,
		Modulus: q.Modulus,
		Radius:  s.Radius, Clip: s.Clip, ExcessBound: math.Inf(1),
	}}
}

// objectivePerturbation fixes Δ, the law of b, R and the output noise.
func (pl *Plan) objectivePerturbation(b dp.Budget) error {
	s, q := pl.settings, pl.public
	p := &pl.params
	if err := q.Smooth(); err != nil {
		return err
	}
	whole := b
	whole.Delta *= spare
	objective, output := whole.Split(cmp.Or(s.Share, defaultShare))
	if err := release.CheckShares(b, objective); err != nil {
		return err
	}
	if err := checkLipschitz(q.Constants); err != nil {
		return err
	}
	if err := release.CheckConstant("Smoothness", q.Constants.Smoothness,
		"use a loss with a "+
			"Lipschitz gradient, such as loss.Huber or loss.Moreau of it, or output perturbation"); err != nil {
		return err
	}
	k, err := linear.New(linear.Problem{
		Dim: q.Dim, Constants: q.Constants, Modulus: q.Modulus, Relation: p.Relation, Budget: objective,
		Calibration: s.Calibration, Monotone: q.Monotone, Envelope: q.Envelope(), Classes: q.Classes,
		Rows: q.Rows,
	})
	if err != nil {
		return err
	}
	p.Lipschitz, p.Smoothness = q.Constants.Lipschitz, q.Constants.Smoothness
	ridge := s.Ridge
	if ridge == 0 {
		if ridge, err = k.Best(s.bound()); err != nil {
			return err
		}
	}
	noise, err := k.At(ridge)
	if err != nil {
		return err
	}
	noise.Sigma = max(noise.Sigma, s.LeastSigma)
	shift := 0.0
	if b.Delta > 0 && s.Calibration == linear.Sharp && s.LeastSigma == 0 {
		if shift, err = dp.Calibrate(dp.GaussianCurve, whole); err != nil {
			return err
		}
		shift *= math.Sqrt(cmp.Or(s.Share, defaultJointShare))
		if joint, less := k.Joint(noise, whole, shift); less {
			noise = joint
		} else {
			shift = 0
		}
	}
	claimed, o := objective, shift*(1+0x1p-50) // S′/σ_out is rounded
	if shift > 0 {
		claimed = whole
	}
	noise, pl.proved = k.Prove(noise, claimed, o)
	if err := pl.cover(noise, 0, pl.unnoticed(noise, shift, output), b); err != nil {
		return err
	}
	if shift > 0 {
		pl.output.Sigma = pl.output.Sensitivity / shift
	} else if err := release.CheckShares(b, output); err != nil {
		return err
	} else if pl.output, err = pl.output.For(output); err != nil {
		return err
	} else {
		pl.out = output.Epsilon
	}
	pl.output.Finite = b.Delta == 0
	pl.curve = noise.Curve
	p.Ridge, p.Sigma = ridge, noise.Sigma
	p.Rate, p.Theorem = noise.Rate, noise.Theorem
	p.Curvature, p.Shift = noise.C, noise.S
	p.ExcessBound = s.bound().At(ridge, q.Modulus, noise.Square())
	pl.proved = pl.proved && pl.provesRest(b, claimed, output, o)
	return nil
}

func checkLipschitz(k loss.Constants) error {
	return release.CheckConstant("Lipschitz", k.Lipschitz, "declare a bounded Set, or clip a loss of ⟨a,θ⟩")
}

// outputPerturbation fixes Δ, R and ν of a release without b. The minimizers on neighboring data
// sets are at most G/μ apart.
func (pl *Plan) outputPerturbation(b dp.Budget) error {
	s, q := pl.settings, pl.public
	p := &pl.params
	q.Constants = q.OnSet
	if err := checkLipschitz(q.Constants); err != nil {
		return err
	}
	if err := q.Smooth(); err != nil {
		return err
	}
	l := q.Constants.Lipschitz
	p.Lipschitz, p.Smoothness = l, q.Constants.Smoothness
	g := l
	if p.Relation == dp.Replace {
		g *= 2
	}
	n := float64(q.Records)
	unit, err := release.Output{Dim: q.Dim, Sensitivity: 1}.For(b)
	if err != nil {
		return err
	}
	// The excess risk is at most nL·E‖ν‖ + ΔB²/2 + V/(2μ), least at μ = Δ + μ_r.
	ridge, cost := s.Ridge, 2*n*l*unit.Mean()*g+s.variance
	if ridge == 0 {
		switch {
		case s.Radius == 0:
			return linear.ErrRadius
		case n == 0:
			return fmt.Errorf("%w: automatic Ridge weighs noise against the number of records: declare it as Records of the "+
				"problem, or set Ridge", ErrMechanism)
		}
		best := math.Sqrt(cost) / s.Radius
		ridge = max(best-q.Modulus, 1e-6*best)
	}
	mu := ridge + q.Modulus
	if err := pl.cover(linear.Noise{Ridge: ridge}, g/mu, g/mu*unnoticedApart, b); err != nil {
		return err
	}
	if pl.output, err = pl.output.For(b); err != nil {
		return err
	}
	p.Ridge, p.Theorem = ridge, theoremOutputPure
	if b.Delta > 0 {
		p.Shift, p.Theorem = pl.output.Shift(), theoremOutput
	}
	pl.proved = pl.output.Proves(b)
	if r := s.Radius; r > 0 && n > 0 {
		p.ExcessBound = n*l*(pl.output.Mean()+pl.output.Cover) + ridge*r*r/2 + s.variance/(2*mu)
	}
	return nil
}

// unnoticed returns a cover radius R so small that its output noise is at most 1/32 of the
// displacement that b causes: b moves the minimizer by at least ‖b‖/(nβ+μ), because no Hessian
// exceeds nβ + μ. A smaller R would only cost time.
func (pl *Plan) unnoticed(b linear.Noise, shift float64, output dp.Budget) float64 {
	q := pl.public
	n := float64(q.Records)
	if n == 0 {
		n = float64(q.MaxRecords)
	}
	stiffest := n*q.Constants.Smoothness + b.Ridge + q.Modulus
	size, unit := b.Sigma, 1/shift // of a coordinate of b, and of the output noise at R = ½
	switch {
	case b.Rate > 0:
		size, unit = 1/b.Rate, 1/output.Epsilon
	case shift == 0:
		sigma, err := dp.GaussianSigma(output, 1)
		if err != nil {
			return 0
		}
		unit = sigma
	}
	return size / stiffest / 32 / (2 * unit)
}

// unnoticedApart is, in output perturbation, R over the distance of neighbors' minimizers: R raises
// the noise by twice this share.
const unnoticedApart = 0x1p-12

// cover fixes R and the grid from public quantities, before any record is read. apart bounds the
// distance of the exact minimizers on neighboring data sets; the noise for R = easy is negligible.
func (pl *Plan) cover(noise linear.Noise, apart, easy float64, b dp.Budget) error {
	q := pl.public
	pl.per = erm.PublicPerturbation{MinEig: noise.Ridge, MaxEig: noise.Ridge, Center: pl.settings.anchor()}
	unit := noise.Sigma // the size of a coordinate of b
	switch {
	case noise.Sigma > 0:
		pl.per.Linear, pl.failure = release.MostNormal(q.Dim, b, noise.Sigma)
	case noise.Rate > 0:
		unit = float64(q.Dim) / noise.Rate
		pl.per.Linear = release.MostRadial(q.Dim, b.Epsilon, noise.Rate)
	}
	if unit > 0 {
		_, e := math.Frexp(unit)
		pl.step = e - 1 - stepBits
		pl.per.LinearError = math.Ldexp(math.Sqrt(float64(q.Dim)), pl.step-1)*(1+0x1p-40) + pl.per.Linear*0x1p-52
	}
	radius := pl.settings.Radius
	if radius == 0 { // the displacement by the noise, or the distance of minimizers
		radius = pl.per.Linear/(noise.Ridge+q.Modulus) + apart
	}
	r, err := q.Cover(pl.per, pl.settings.Cover, radius)
	if err != nil {
		return err
	}
	if pl.settings.Cover == 0 {
		r = max(r, easy)
	}
	pl.output, err = release.NewOutput(q.Dim, r, apart, q.Reach(pl.per)+r)
	return err
}

// stepBits: the grid of b is 2⁻⁴⁵ of its standard deviation. LinearError counts half a step a
// coordinate and the float64 rounding of b, which begins at 2⁵³ steps.
const stepBits = 45

// finish copies the output noise into the parameters and returns pl. It refuses a value that
// float64 or the samplers of package noise cannot hold.
func (pl *Plan) finish() (*Plan, error) {
	p, o := &pl.params, pl.output
	p.Cover, p.Grid, p.Sensitivity, p.OutputSigma, p.OutputRate = o.Cover, o.Grid(), o.Sensitivity, o.Sigma, o.Rate
	ok := p.Ridge > 0 || p.Modulus > 0
	for _, v := range []float64{p.Ridge, p.Sigma, p.Rate, p.Cover, p.OutputSigma, p.OutputRate} {
		ok = ok && (v == 0 || v > 0x1p-400 && v < 0x1p400) // false for NaN
	}
	if !ok || !(p.Cover > 0) || !(p.OutputSigma+p.OutputRate > 0) {
		return nil, fmt.Errorf("%w: the calibration leaves the range of float64 (Ridge %v, Sigma %v, Rate %v, Cover %v, "+
			"OutputSigma %v, OutputRate %v): rescale the problem", ErrMechanism, p.Ridge, p.Sigma, p.Rate, p.Cover,
			p.OutputSigma, p.OutputRate)
	}
	return pl, nil
}

// arithmetic returns the assumption of the certificate about float64 functions, if it needs one.
func (pl *Plan) arithmetic() []dp.Assumption {
	switch s := pl.public; {
	case pl.proved:
		return nil
	case !s.Linear && pl.params.Theorem != linear.TheoremSimplex:
		return []dp.Assumption{dp.ChiArithmetic}
	}
	return []dp.Assumption{dp.CalibrationArithmetic}
}

// made reports whether a calibration made pl.
func (pl *Plan) made() bool { return pl != nil && pl.cert.Theorem != "" }

// Params returns a copy of the parameters.
func (pl *Plan) Params() Params {
	if !pl.made() {
		return Params{}
	}
	return pl.params
}

// Certificate returns the certificate of one release from the secure source.
func (pl *Plan) Certificate() dp.Certificate {
	if !pl.made() {
		return dp.Certificate{}
	}
	return pl.cert.With()
}

// Profile returns the least δ proved at each ε for one release, output noise included.
func (pl *Plan) Profile() dp.Profile {
	switch {
	case !pl.made():
		return dp.Unknown()
	case pl.params.Budget.Delta == 0:
		return pl.params.Budget.Profile()
	case pl.params.Sigma == 0:
		return dp.GaussianProfile(pl.params.Shift)
	}
	o := pl.output.Shift()
	remove, add := pl.curve.Profile(o, pl.out)
	b := pl.params.Budget
	b.Delta *= spare
	whole := b.Profile().Remove
	least := func(f dp.Curve) dp.Curve {
		return func(eps float64) float64 { return min(f(eps), whole(eps)) }
	}
	return dp.Profile{
		Remove: least(remove), Add: least(add), Failure: pl.failure,
		RDP: func(alpha float64) float64 { return pl.curve.RDP(alpha, o) },
	}
}

// String describes the plan in prose that may be published.
func (pl *Plan) String() string {
	if !pl.made() {
		return "an empty plan"
	}
	p := pl.params
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differential privacy for %v neighbors", p.Budget, p.Relation)
	if p.Rows > 0 {
		fmt.Fprintf(&b, " that differ in one person, of whom at most %d lines count,", p.Rows)
	}
	fmt.Fprintf(&b, " by %s. ", p.Theorem)
	switch {
	case p.Sigma > 0:
		fmt.Fprintf(&b, "The risk is minimized with Gaussian linear noise of standard deviation %.4g a coordinate and a "+
			"ridge of %.4g; ", p.Sigma, p.Ridge)
	case p.Rate > 0:
		fmt.Fprintf(&b, "The risk is minimized with linear noise of density exp(-%.4g |b|) and a ridge of %.4g; ", p.Rate,
			p.Ridge)
	default:
		fmt.Fprintf(&b, "The risk is minimized with a ridge of %.4g and no noise; ", p.Ridge)
	}
	if p.OutputSigma > 0 {
		fmt.Fprintf(&b, "the minimizer gets noise of standard deviation %.4g a coordinate", p.OutputSigma)
	} else {
		fmt.Fprintf(&b, "the minimizer gets noise of density exp(-%.4g |v|)", p.OutputRate)
	}
	fmt.Fprintf(&b, ", in steps of %.3g.", p.Grid)
	if p.Clip > 0 {
		fmt.Fprintf(&b, " The gradient of one record is clipped at norm %.4g.", p.Clip)
	}
	if !math.IsInf(p.ExcessBound, 1) {
		where := "of norm at most"
		if pl.settings.Center != nil {
			where = "from the center at most"
		}
		fmt.Fprintf(&b, " The expected excess risk is at most %.4g against any solution %s %.4g.",
			p.ExcessBound, where, p.Radius)
	}
	return b.String()
}

// PlanStep returns the plan of one minimizer of a sequence with the certificate cert, whose Budget
// is that of the whole sequence. The caller has proved that the sequence meets the certificate:
// docs/theory/composition.md#model.auto/1. The error wraps erm.ErrProblem, dp.ErrRelation for a
// certificate about other units, or dp.ErrCondition for numbers that the sequence does not allow or
// float64 cannot represent.
func (s Settings) PlanStep(p *erm.Problem, cert dp.Certificate, step linear.Step) (plan *Plan, err error) {
	defer func() { err = s.mark(err) }()
	if err := s.check(); err != nil {
		return nil, err
	}
	_, q, err := s.prepare(p)
	if err == nil {
		q, err = q.Complete(s.relation())
	}
	if err == nil {
		err = q.Smooth()
	}
	if err != nil {
		return nil, err
	}
	if cert.Rows != q.Rows || cert.Person != q.Person {
		return nil, fmt.Errorf("%w: the certificate of a sequence has Rows = %d, Person = %.40q, the data have %d, %.40q",
			dp.ErrRelation, cert.Rows, cert.Person, q.Rows, q.Person)
	}
	g, k := q.Constants.Lipschitz, q.Constants
	if s.relation() == dp.Replace {
		g *= 2
	}
	c := math.Log1p(k.Smoothness/(step.Ridge+q.Modulus)) * linear.SafeC
	most := math.Nextafter(k.Smoothness/math.Nextafter(step.Ridge+q.Modulus, 0), math.Inf(1))
	enough := enclose.ExceedsExpm1(step.C, most)
	if q.Rows > 1 {
		c, enough = most, most <= step.C
	}
	if !q.Linear || !(c <= step.C) || !enough || !(g > 0 && g < math.Inf(1)) ||
		!(step.S > 0 && step.S < math.Inf(1) && step.Output > 0) {
		return nil, fmt.Errorf("%w: a step of a sequence needs a loss of ⟨a,θ⟩ with bounded slopes and a ridge with c ≤ "+
			"%v, got c = %v, L = %v", dp.ErrCondition, step.C, c, k.Lipschitz)
	}
	pl := s.newPlan(q, cert.Budget)
	par := &pl.params
	pl.cert, par.Theorem = cert, cert.Theorem
	par.Lipschitz, par.Smoothness = k.Lipschitz, k.Smoothness
	par.Ridge, par.Sigma = step.Ridge, g/step.S*linear.SafeScale
	par.Curvature, par.Shift = step.C, step.S
	b := linear.Noise{Ridge: step.Ridge, Sigma: par.Sigma}
	if err := pl.cover(b, 0, pl.unnoticed(b, step.Output, cert.Budget), cert.Budget); err != nil {
		return nil, err
	}
	pl.output.Sigma = pl.output.Sensitivity / step.Output * linear.SafeScale
	return pl.finish()
}

// provesRest reports whether the parts of a plan certainly add up to its budget b. The proof of the
// objective covers its share, with output noise of shift o if one curve accounts for both. The rest
// is
//
//	two curves  ε₁ + ε₂ ≤ ε, δ_G(ε₂; S′/σ_out) ≤ δ₂ or S′a_out ≤ ε₂
//	one curve   S′ ≤ oσ_out
//	δ > 0       (1+e^ε)P(‖b‖ > B) + δ₁ + δ₂ ≤ δ, with P(‖b‖ > σ(√d+t)) ≤ e^{−t²/2}
//	δ = 0       x − d − d ln(x/d) ≥ ln(2⁶⁴N(e^ε+1)/(e^ε−1)), x = aB > d, N = (2K+1)^d
//
// with N points of the grid (release.MostRadial). B is B_max less LinearError and d + 8 roundings,
// an upper bound on the error of the norm that draw computes.
func (pl *Plan) provesRest(b, objective, output dp.Budget, o float64) bool {
	p, out := pl.params, pl.output
	d := float64(pl.params.Dim)
	type interval = enclose.Interval
	if o > 0 {
		output = dp.Budget{}
		if !enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
			return c.Of(out.Sensitivity), c.Mul(c.Of(o), c.Of(out.Sigma))
		}) {
			return false
		}
	} else if !out.Proves(output) {
		return false
	}
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more interval) {
		return c.Add(c.Of(objective.Epsilon), c.Of(output.Epsilon)), c.Of(b.Epsilon)
	}, func(c enclose.Arithmetic) (less, more interval) {
		one, e := c.Of(1), c.Exp(c.Of(b.Epsilon))
		most := c.Mul(c.Of(pl.per.Linear), c.Sub(one, c.Of((d+8)*0x1p-52)))
		most = c.Sub(most, c.Of(pl.per.LinearError))
		if b.Delta == 0 {
			// At x = d the left side is 0; for smaller x Chernoff's bound is void.
			x, log2 := c.Most(c.Of(d), c.Mul(c.Of(p.Rate), most)), c.Log(c.Of(2))
			points := c.Mul(c.Of(d), c.Log(c.Of(release.Points)))
			odds := c.Log(c.Quo(c.Add(e, one), c.Sub(e, one)))
			need := c.Add(c.Add(points, c.Mul(c.Of(64), log2)), odds)
			return need, c.Sub(c.Sub(x, c.Of(d)), c.Mul(c.Of(d), c.Log(c.Quo(x, c.Of(d)))))
		}
		tail := release.Failure(c, p.Dim, b.Epsilon, c.Quo(most, c.Of(p.Sigma)))
		return c.Add(tail, c.Add(c.Of(objective.Delta), c.Of(output.Delta))), c.Of(b.Delta)
	})
}
