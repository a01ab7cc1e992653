// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
)

// Shares divide μ² among the releases of a sequence; μ is the sensitivity of the whole plan over
// its noise.
type Shares struct {
	Labels    float64 `json:"labels,omitzero"`    // histogram of |b|‖a‖
	First     float64 `json:"first,omitzero"`     // first minimizer
	Residuals float64 `json:"residuals,omitzero"` // histogram of the residuals of the first minimizer
	Last      float64 `json:"last"`               // last minimizer
	Hessian   float64 `json:"hessian,omitzero"`   // Σ φ″aa′
	Scores    float64 `json:"scores,omitzero"`    // Σ φ′²aa′
	Output    float64 `json:"output"`             // output noise of every minimizer
	Search    float64 `json:"search,omitzero"`    // search for a schema
	Gradients float64 `json:"gradients,omitzero"` // all releases of the automatic fit, in place of the others
}

// Sequence holds the numbers of several releases that one theorem accounts for. With share w, a
// minimizer has s = G/σ = √w·μ, and a Gaussian release has a standard deviation of its sensitivity
// over √w·μ. These numbers are fixed before a record is read; clip and ridge follow from earlier
// outputs.
type Sequence struct {
	Mu      float64 `json:"mu"`
	Shares  Shares  `json:"shares"`
	TwoStep bool    `json:"twoStep"`         // histograms and a first minimizer choose the clip of the last
	C       float64 `json:"c"`               // what the curvature of the last minimizer may cost
	FirstC  float64 `json:"firstC,omitzero"` // the same of the first one
	Clip    float64 `json:"clip,omitzero"`   // of the last minimizer, unless TwoStep
}

// checkSequence returns an error unless a sequence of releases can serve the options.
func (o Options) checkSequence(q erm.Public, b dp.Budget) error {
	switch {
	case b.Delta == 0:
		return fmt.Errorf("%w: least squares and intervals need Gaussian noise: state δ > 0, or choose the loss %q or %q "+
			"without intervals", dp.ErrCondition, PseudoHuber, Quantile)
	case !q.Linear:
		return fmt.Errorf("%w: intervals are for losses of one prediction, not for %q", ErrOptions, o.Loss.Name)
	case o.Intervals != nil && (o.Penalty.Lasso > 0 || o.Penalty.Group > 0 || o.Set != Set{}):
		return fmt.Errorf("%w: intervals with a lasso, a group penalty or a set: want none of them, because intervals "+
			"are proved for smooth problems on the whole space", ErrOptions)
	case q.Records == 0:
		return fmt.Errorf("%w: least squares and intervals need the public number of records: declare \"records\" in the "+
			"schema, or Records of the options", ErrOptions)
	case q.MaxRecords > mostSummed:
		return fmt.Errorf("%w: least squares and intervals are for at most %d records; under add-remove, declare at most "+
			"a quarter of that number", ErrOptions, int64(mostSummed))
	case o.Intervals != nil && q.Dim > mostDim:
		return fmt.Errorf("%w: intervals are for at most %d parameters, got %d", ErrOptions, mostDim, q.Dim)
	}
	return nil
}

// Numbers of the automatic rule, fixed on public data.
const (
	outputShare = 0.001 // of every output noise
	labelShare  = 0.015
	firstShare  = 0.07
	residShare  = 0.025
	firstC      = 0.05 // of ε
	intervalC   = 0.1  // of ε
	mostC       = 12   // a ridge below e⁻¹²β has no effect, but adds noise: the error of a solver is divided by it
	mostNoise   = 0.12 // two steps pay up to this standard deviation of a bin over n
	defaultClip = 0.3
)

// curvatureShares are the candidates for the share of ε spent on curvature.
var curvatureShares = []float64{0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5}

// spare is the share of δ left for calibration; the rest covers events in which the noise exceeds
// its bounds.
const spare = 1 - 0x1p-50

// sequence plans several releases, or one minimizer with a fixed clip.
func (pl *Plan) sequence(q erm.Public, o Options) error {
	b, p := pl.params.Budget, &pl.params
	pl.smoothness, pl.modulus = q.Constants.Smoothness, q.Modulus
	pl.settings, pl.monotone = engine.Settings{Package: "model", Relation: p.Relation}, q.Monotone
	n, d := float64(q.Records), float64(q.Dim)
	eps := b.Epsilon
	s := &Sequence{Shares: Shares{Output: outputShare, Search: pl.search}, C: min(intervalC*eps, mostC)}
	p.Sequence = s
	if o.Intervals != nil {
		s.Shares.Hessian, s.Shares.Scores = o.Intervals.HessianShare, o.Intervals.ScoreShare
	}
	p.Decision = "One release: the minimizer of a loss with bounded slopes."
	s.Shares.Last = 1 - s.Shares.Hessian - s.Shares.Scores - s.Shares.Output - s.Shares.Search
	if o.Loss.Name == Squares {
		two := *s
		two.TwoStep, two.FirstC = true, min(firstC*eps, mostC)
		two.Shares.Labels, two.Shares.First = labelShare, firstShare
		two.Shares.Residuals = residShare
		two.Shares.Last = s.Shares.Last - labelShare - firstShare - residShare - outputShare
		if o.Intervals == nil {
			for _, at := range []*Sequence{s, &two} {
				if err := pl.curvatureCost(at, n, d); err != nil {
					return err
				}
			}
		}
		var err error
		if two.Mu, err = pl.mu(two, 0); err != nil {
			return err
		}
		t2 := pl.pair() / (math.Sqrt(residShare) * two.Mu)
		switch {
		case o.Clip > 0:
			s.Clip = o.Clip
			p.Decision = "Least squares in one step, with the stated clip."
		case t2 > mostNoise*n || two.Shares.Last <= 0:
			s.Clip = defaultClip
			p.Decision = fmt.Sprintf("Least squares in one step, with slopes clipped at %.4g of their range. For %s, "+
				"a noisy histogram (standard deviation %.3g per bin) is too noisy to choose the clip.", s.Clip, p.amount(), t2)
		default:
			*s = two
			p.Decision = fmt.Sprintf("Least squares in two steps: noisy histograms of %s (standard deviation %.3g "+
				"per bin) and a first fit choose the clip and the ridge of the final fit.", p.amount(), t2)
		}
	}
	if s.Mu == 0 {
		var err error
		if s.Mu, err = pl.mu(*s, 0); err != nil {
			return err
		}
	}
	pl.finish(q, s)
	return nil
}

// finish proves μ and fills in the certificate.
func (pl *Plan) finish(q erm.Public, s *Sequence) {
	b, p := pl.params.Budget, &pl.params
	proved := pl.prove(s)
	pl.seq = pl.composed(*s, s.Mu)
	_, failure := release.MostNormal(q.Dim, b, 1)
	pl.failure = float64(len(pl.seq.S)) * failure
	pl.cert = dp.Certificate{Budget: b, Relation: p.Relation, Theorem: p.theorem(), Rows: p.Rows, Person: q.Person}
	if !proved {
		pl.cert = pl.cert.With(dp.CalibrationArithmetic)
	}
	pl.cert = pl.cert.With(q.Assumptions...)
}

// pair returns M, the ℓ₂ sensitivity of a sum of nonnegative orthogonal terms of norm at
// most 1: 1, or √2 for a record that is replaced.
func pair(r dp.Relation) float64 {
	if r == dp.Replace {
		return math.Sqrt2
	}
	return 1
}

func (pl *Plan) pair() float64 { return pair(pl.params.Relation) }

// gradients returns G/L: 1, or 2 for a record that is replaced.
func (pl *Plan) gradients() float64 {
	if pl.params.Relation == dp.Replace {
		return 2
	}
	return 1
}

// composed returns the sequence of releases at μ.
func (pl *Plan) composed(s Sequence, mu float64) linear.Sequence {
	w := s.Shares
	q := linear.Sequence{Relation: pl.params.Relation, Monotone: pl.monotone, Persons: pl.params.Rows > 1}
	gauss := w.Labels + w.Residuals + w.Hessian + w.Scores + w.Search
	if w.Gradients > 0 {
		q.T = math.Sqrt(w.Gradients+w.Search) * mu
		return q
	}
	if s.TwoStep {
		q.C, q.S = append(q.C, s.FirstC), append(q.S, math.Sqrt(w.First)*mu)
		gauss += w.Output
	}
	q.C, q.S = append(q.C, s.C), append(q.S, math.Sqrt(w.Last)*mu)
	q.T = math.Sqrt(gauss+w.Output) * mu
	return q
}

// mu returns the largest μ that the budget allows the sequence, up to the given relative error.
func (pl *Plan) mu(s Sequence, tolerance float64) (float64, error) {
	b := pl.params.Budget
	b.Delta *= spare
	return linear.LargestShift(b, tolerance, func(mu float64) linear.Sequence { return pl.composed(s, mu) })
}

// prove reports whether interval arithmetic proves that the sequence is within the budget,
// including the events in which noise exceeds its bounds. If necessary, it first lowers μ, by a
// relative 1e-6 at most. The factor SafeScale on the noise of each release covers the rounding of
// its formula.
func (pl *Plan) prove(s *Sequence) bool {
	b := pl.params.Budget
	b.Delta *= spare
	for down := 0.0; down < 1e-6; down = max(1e-12, 4*down) {
		mu := s.Mu * (1 - down)
		if seq := pl.composed(*s, mu); seq.Proves(b) && release.ProvesFailure(pl.params.Dim, len(seq.S), pl.params.Budget,
			b.Delta) {
			s.Mu = mu
			return true
		}
	}
	return false
}

// curvatureCost sets c to the candidate fε of least risk, for public guesses of the data.
func (pl *Plan) curvatureCost(s *Sequence, n, d float64) error {
	const rho2, slope = 0.06, 0.25
	best, least := 0.0, math.Inf(1)
	for _, f := range curvatureShares {
		s.C = min(f*pl.params.Budget.Epsilon, mostC)
		mu, err := pl.mu(*s, 1e-5) // enough to choose by
		if err != nil {
			return err
		}
		sigma := slope * pl.gradients() / mu
		ridge := max(1/pl.curvature(s.C), sigma*sigma*d/(n*rho2))
		if r := risk(n, d, ridge, sigma, rho2); r < least {
			best, least = s.C, r
		}
	}
	s.C = best
	return nil
}

// curvature returns the largest β/(Δ+μ_r) that costs c at most.
func (pl *Plan) curvature(c float64) float64 {
	if pl.params.Rows > 1 {
		return c
	}
	return math.Expm1(c)
}

// leastRidge returns the least Δ ≥ 0 at which curvature costs c.
func (pl *Plan) leastRidge(beta, modulus, c float64) float64 {
	return linear.Sequence{Persons: pl.params.Rows > 1}.LeastRidge(beta, modulus, c)
}

// risk returns the excess risk of least squares with ridge Δ and noise σ, for rows with
// Σaa′ = (n/d)I and a signal of energy ρ²:
//
//	ρ²(Δ/(h+Δ))² + σ²dh/((h+Δ)²n),  h = n/d
func risk(n, d, ridge, sigma, rho2 float64) float64 {
	h := n / d
	return rho2*math.Pow(ridge/(h+ridge), 2) + sigma*sigma*d*h/(math.Pow(h+ridge, 2)*n)
}

// outcome holds everything that one run of a plan releases.
type outcome struct {
	theta   []float64
	cert    dp.Certificate
	choice  *Choice
	moments *moments
}

// run draws the noise of the plan once, for the problem p that the plan was made for.
func (pl *Plan) run(ctx context.Context, p *erm.Problem, src rand.Source) (*outcome, error) {
	if pl.single != nil {
		rel, err := pl.single.Fit(ctx, p, src)
		if err != nil {
			return nil, err
		}
		return &outcome{theta: rel.Theta, cert: rel.Certificate}, nil
	}
	direct, cert := release.Open(src, pl.cert) // for histograms and sums; minimizers certify their own
	if pl.params.Sequence.Shares.Gradients > 0 {
		out, err := pl.byGradients(ctx, p, direct, cert)
		if err == nil {
			err = direct.Err()
		}
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	if src != nil {
		src = direct // minimizers open a secure source of their own for nil
	}
	out, err := pl.steps(ctx, p, src, direct)
	if err == nil {
		err = direct.Err()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// shift returns √w·μ, the sensitivity over the noise of a share.
func (pl *Plan) shift(share float64) float64 {
	return math.Sqrt(share) * pl.params.Sequence.Mu
}

// minimizer returns the settings of the first or the last minimizer of a sequence. clip (0 for
// none) and signal, the energy ρ², are in units of the declared bounds. n is about the sum of all
// weights. The ridge is
//
//	Δ = max( β/expm1(c) − μ_r, fσ²d/(nρ²) ),  f = 1 for the first and ½ for the last
//
// and for persons of several lines c takes the place of expm1(c).
// With intervals the last minimizer has the least ridge, because intervals undo its shrinkage.
func (pl *Plan) minimizer(last bool, clip, signal, n float64) (engine.Settings, linear.Step) {
	s, b := pl.params.Sequence, pl.params.Bounds
	d := float64(pl.params.Dim)
	c, share := s.FirstC, s.Shares.First
	factor := 1.0
	if last {
		c, share = s.C, s.Shares.Last
		factor = 0.5
	}
	settings := pl.settings
	step := linear.Step{C: c, S: pl.shift(share), Output: pl.shift(s.Shares.Output),
		Ridge: pl.leastRidge(pl.smoothness, pl.modulus, c)}
	if clip > 0 {
		settings.Clip = clip * b.Row * b.Label
		if pl.params.Intervals == nil || !last {
			sigma := clip * pl.gradients() / step.S
			step.Ridge = max(step.Ridge, factor*sigma*sigma*d/(n*signal)*b.Row*b.Row)
		}
	}
	return settings, step
}

// check returns errors of a run that have a public reason, so that no budget is charged for it. It
// checks the minimizers at both ends of the range of clips, and the limit on the number of records;
// the latter error reveals only that the limit is exceeded.
func (pl *Plan) check(p *erm.Problem) error {
	if n, _ := p.Data.Dims(); int64(n) > pl.params.MaxRecords {
		return prefix.Errorf("model: %w: the table has more than %d %s, the most that the plan allows: declare a "+
			"larger \"records\" in the schema; a table may have four times the declared number",
			dp.ErrCondition, pl.params.MaxRecords, pl.params.unit())
	}
	if pl.single != nil {
		return nil
	}
	if pl.params.Sequence.Shares.Gradients > 0 {
		return pl.checkRange()
	}
	clips := []float64{pl.params.Sequence.Clip}
	if pl.params.Sequence.TwoStep {
		clips = []float64{leastClip, 1}
	}
	for _, clip := range clips {
		for _, last := range []bool{true, !pl.params.Sequence.TwoStep} {
			settings, step := pl.minimizer(last, clip, leastSignal, float64(pl.params.Records))
			if _, err := settings.PlanStep(p, pl.cert, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// Lower ends of the numbers that are chosen from noisy outputs.
const (
	leastClip   = 0.03
	leastSignal = 0.02
)

// steps runs a sequence. Minimizers draw from src, which may be nil, histograms and sums from
// direct.
func (pl *Plan) steps(ctx context.Context, p *erm.Problem, src, direct rand.Source) (*outcome, error) {
	s, w := *pl.params.Sequence, pl.params.Sequence.Shares
	n, d := float64(pl.params.Records), float64(pl.params.Dim)
	choice := &Choice{Clip: s.Clip, Signal: 0.08}
	if s.TwoStep {
		tau := func(share float64) float64 { return pl.pair() / pl.shift(share) * release.SafeScale }
		labels, err := newHistogram(ctx, p.Data, nil, tau(w.Labels), direct)
		if err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
		square := labels.secondMoment()
		if who, ok := p.Data.Persons(); ok && who.Weights == erm.LinesEqual {
			n = min(max(floats.Sum(labels), pl.fewest(tau(w.Labels))), n)
		}
		choice.FirstClip = max(0.06, quantile(labels.cdf(n, pl.fewest(tau(w.Labels))), 0.9))
		settings, step := pl.minimizer(false, choice.FirstClip, max(leastSignal, square/2), n)
		plan, err := settings.PlanStep(p, pl.cert, step)
		if err != nil {
			return nil, err
		}
		first, err := pl.minimize(ctx, plan, p, src)
		if err != nil {
			return nil, err
		}
		resid, err := newHistogram(ctx, p.Data, first.Theta, tau(w.Residuals), direct)
		if err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
		choice.choose(resid, square, n, pl.fewest(tau(w.Residuals)), d, pl.gradients()/pl.shift(w.Last))
	} else if pl.params.Loss.Name != Squares {
		choice.Signal = 0
	}
	settings, step := pl.minimizer(true, choice.Clip, choice.Signal, n)
	plan, err := settings.PlanStep(p, pl.cert, step)
	if err != nil {
		return nil, err
	}
	last, err := pl.minimize(ctx, plan, p, src)
	if err != nil {
		return nil, err
	}
	params := plan.Params()
	choice.Ridge, choice.Sigma = params.Ridge, params.Sigma
	choice.OutputSigma = params.OutputSigma
	out := &outcome{theta: last.Theta, cert: last.Certificate, choice: choice}
	if pl.params.Intervals != nil && !pl.rough.plain() {
		if out.moments, err = pl.moments(ctx, p, choice.Clip, last.Theta, params, direct); err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
		if pl.encoder != nil {
			out.moments.averageUnseen(pl.encoder, out.theta)
		}
	}
	return out, nil
}

// fewest returns the total of a histogram, with noise of deviation tau in each bin, up to which
// noise may have made it. Lines that all weigh the same may have a total far below the number of
// persons.
func (pl *Plan) fewest(tau float64) float64 {
	if pl.params.Rows > 0 {
		return 5 * tau * math.Sqrt(float64(len(edges)))
	}
	return 0.2 * float64(pl.params.Records)
}
