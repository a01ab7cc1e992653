package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// Separator is a set of public examples e₁, …, e_m on which any two parameters
// of a space predict differently at least once.
type Separator int

const (
	// AutoSeparator takes the smallest of the others that separates the space.
	AutoSeparator Separator = iota
	// UnitVectors are e_1, …, e_d, for {−1,+1}ᵈ: m = d.
	UnitVectors
	// SignedUnitVectors are ±e_1, …, ±e_d, for {−1,0,1}ᵈ: m = 2d. As sgn(0) = −1,
	// e_j fires iff w_j = 1 and −e_j iff w_j = −1.
	SignedUnitVectors
	// Thresholds are (e_j, −t) for each admitted value t of w_j but the largest,
	// for spaces with an intercept: a coordinate that admits 1 alone. They fire
	// iff w_j > t, m = Σ_j (|V_j| − 1).
	Thresholds
)

var separatorNames = [...]string{"automatic", "unit vectors", "signed unit vectors", "thresholds"}

// String returns the name of the set or a marker of an invalid value.
func (s Separator) String() string {
	if s < 0 || int(s) >= len(separatorNames) {
		return fmt.Sprintf("invalid separator %d", int(s))
	}
	return separatorNames[s]
}

// RSPM is the report-separator-perturbed-minimum mechanism [NRW19] for
// halfspaces: it perturbs by weighted examples,
//
//	w = argmin over W of L(w) + Σᵢ ηᵢ bᵢ(w),   bᵢ(w) = 1[⟨eᵢ, w⟩ > 0]
//
// with one noise variable for each of the m separators. The set must separate
// the space: Values beyond {−1,0,1} need an intercept, because w and 2w are the
// same classifier without one. A perturbation linear in w, with d variables, does
// not separate 0 from its two neighbors in {−1,0,1}: it is UnitVectors on that
// space, and refused. Product has none of these restrictions. The fields are
// those of OPDisc.
type RSPM struct {
	Relation dp.Relation
	// Law is Laplace (the default, pure), Gaussian or PaperSigma.
	Law Law
	// Separator; the zero value takes the smallest one that separates the space.
	Separator Separator
	// Oracle minimizes; nil means Auto.
	Oracle  Oracle
	Failure float64
	// Trace, if not nil, is called at the end of every search. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)
}

// Fit releases the minimizer of p under the budget b, as OPDisc.Fit does.
func (m *RSPM) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p as OPDisc.Plan does.
func (m *RSPM) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(RSPM))
	return calibrated(m.Calibrate, p, b, 0, 0)
}

// Calibrate returns the noise for the public quantities q, s = 2R, or R under AddRemove:
//
//	Laplace     scale ms/ε: ε pure, a δ in the budget is not used
//	Gaussian    the least σ with inf over t of (2Φ(t)e^{t²/2})ᵐ e^{−t x₀} a/(a+t) ≤ δ,
//	            a = s/σ, x₀ = ε/a − ma/2
//	PaperSigma  7√(m ln(1/δ))/ε, certified at the least ε for which the same holds
//
// Proofs: docs/theory/discrete.md#objpert.rspm-laplace/2 and those after it.
//
// Errors are those of OPDisc.Calibrate, and wrap dp.ErrCondition if the space has no separator of
// the kind asked for.
func (m *RSPM) Calibrate(q Public) (*Plan, error) {
	m = cmp.Or(m, new(RSPM))
	p, b, err := common{
		relation: m.Relation, oracle: m.Oracle, beta: m.Failure, trace: m.Trace, law: m.Law,
		laws: []Law{Laplace, Gaussian, PaperSigma}, names: "Laplace, Gaussian or PaperSigma",
	}.start(q)
	if err != nil {
		return nil, err
	}
	c := &p.params
	law := c.Law
	if p.separator, c.Noises, err = separate(m.Separator, &q); err != nil {
		return nil, err
	}
	if c.Noises > maxNoises {
		return nil, fmt.Errorf("%w: %d separators, want at most %d", ErrMechanism, c.Noises, maxNoises)
	}
	c.Shift = swing(c.Relation) * q.Range
	n := float64(c.Noises)
	if law == Laplace {
		if err := p.setGrid(max(1, c.Noises), b.Epsilon); err != nil {
			return nil, err
		}
		p.pure()
		unit := math.Ldexp(1, c.Exponent)
		c.ExcessBound = c.Scale*n + unit*n // E|η| ≤ Scale + a step
		// P(|k| ≥ i) ≤ e^{1/2t}e^{-i/t}: the sum is below t·Gamma(m) but for e^{m/2t} times its tail
		return p.finish(theoremRSPMLaplace, c.Scale*gammaTail(c.Noises, p.tail(b)+n/(2*float64(c.Time))))
	}
	b.Delta *= 1 - rareShare
	logDelta := func(eps, a float64) float64 { return l1LogDelta(eps, a, c.Noises) }
	theorem := theoremRSPMGaussian
	c.Proved = q.Budget
	shift, spent := c.Shift, b
	if law == PaperSigma { // its steps are 1 at most
		spent = provedBudget(logDelta, (shift+1)/paperSigma(b, math.Sqrt(n)), b)
	}
	// ‖g‖₁ ≤ m + √(2mx) but with probability e^{-x}, and half a step of rounding each
	norm := n + math.Sqrt(2*n*p.tail(spent))
	reach := func() float64 { return c.Scale*norm + n*math.Ldexp(1, c.Exponent-1) }
	for c.Exponent = -maxShift; ; c.Exponent++ { // the finest grid that holds the noise
		g := math.Ldexp(1, c.Exponent)
		c.Shift = math.Ceil(shift/g) * g // shifts are multiples of it
		if law == Gaussian {
			c.Scale = leastSigma(logDelta, b, c.Shift, paperSigma(b, math.Sqrt(n)))
		} else {
			c.Scale = paperSigma(b, math.Sqrt(n))
		}
		if c.Exponent == 0 || reach()*(1+0x1p-20) < math.Ldexp(float64(c.Limit), c.Exponent) {
			break
		}
	}
	a := c.Shift / c.Scale
	p.logDelta = func(eps float64) float64 { return logDelta(eps, a) }
	if law == PaperSigma {
		theorem = theoremRSPMSigma
		if err := p.prove(logDelta, b); err != nil {
			return nil, err
		}
	}
	// E max over v, w of Σ ηᵢ (bᵢ(v) − bᵢ(w)) ≤ E‖η‖₁
	c.ExcessBound = c.Scale*n*math.Sqrt(2/math.Pi) + n*math.Ldexp(1, c.Exponent-1)
	return p.finish(theorem, reach())
}

// separate returns the separator to use and its size m.
func separate(s Separator, q *Public) (Separator, int, error) {
	intercept, ternary := false, true
	thresholds := 0
	for j, n := range q.choices(q.Dim) {
		for k, v := range q.Values {
			if q.allowed(j, k) {
				intercept = intercept || n == 1 && v == 1
				ternary = ternary && v >= -1 && v <= 1
			}
		}
		thresholds += n - 1
	}
	cube := isCube(&q.Space, q.Dim)
	if s == AutoSeparator {
		switch {
		case cube:
			s = UnitVectors
		case intercept:
			s = Thresholds
		default:
			s = SignedUnitVectors
		}
	}
	var (
		m         int
		separates bool
		why       string // it does not
	)
	switch s {
	case UnitVectors:
		m, separates = q.Dim, cube
		why = "(a term linear in w) separates {-1,+1}^d only: it cannot tell 0 from both its neighbors"
	case SignedUnitVectors:
		m, separates = 2*q.Dim, ternary
		why = "separates subsets of {-1,0,1}^d only: w and 2w are one classifier, so no examples tell them apart without an intercept, " +
			"a coordinate that admits 1 alone"
	case Thresholds:
		m, separates = thresholds, intercept
		why = "needs an intercept: a coordinate that admits 1 alone (Allowed)"
	default:
		return 0, 0, fmt.Errorf("%w: Separator = %v, want AutoSeparator, UnitVectors, SignedUnitVectors or Thresholds", ErrMechanism, s)
	}
	if !separates {
		return 0, 0, fmt.Errorf("objpert: %w: Separator = %v %s; Product has no such restriction", dp.ErrCondition, s, why)
	}
	return s, m, nil
}

// drawSeparators draws a noise value for each separator.
func (pl *Plan) drawSeparators(src rand.Source) []int64 {
	q := &pl.params
	eta := make([]int64, q.Noises)
	if q.Law != Laplace {
		noise.Grid(eta, q.Scale, q.Exponent, src)
		return eta
	}
	for i := range eta {
		eta[i] = noise.DiscreteLaplace(q.Time, src)
	}
	return eta
}

// spreadSeparators spreads η over the values: T_j[v] = −Σᵢ ηᵢ bᵢ over the
// separators of coordinate j that fire at w_j = v.
func (pl *Plan) spreadSeparators(n *perturbation, eta []int64) {
	q := &pl.params
	at := func(i int) int64 { return times(eta[i], -1) }
	next := 0
	for j, row := range n.table {
		sum, first := int64(0), true
		for k, v := range q.Values {
			switch {
			case pl.separator == UnitVectors && v > 0:
				row[k] = at(j)
			case pl.separator == SignedUnitVectors && v > 0:
				row[k] = at(2 * j)
			case pl.separator == SignedUnitVectors && v < 0:
				row[k] = at(2*j + 1)
			case pl.separator == Thresholds && q.allowed(j, k):
				if !first { // the threshold at the previous admitted value fires
					sum = plus(sum, at(next))
					next++
				}
				row[k], first = sum, false
			}
		}
	}
}
