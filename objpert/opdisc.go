package objpert

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	sample "github.com/privopt/privopt/noise"
)

// OPDisc is objective perturbation over a discrete set [NRVW20, Algorithm 1],
// with calibrations that are proved:
//
//	w = argmin over W of L(w) − ⟨η, π(w)⟩,   π(w) = (w, √(Q − ‖w‖²))/√Q
//
// W must lie in ℤᵈ within ‖w‖² ≤ Q (Lattice), or in {−1,+1}ᵈ, where π(w) = w/√d
// and the last coordinate falls away. Q is declared, and noise grows with it:
// a small Q is the way to accuracy. The fields are public; the zero value means
// the documented defaults.
type OPDisc struct {
	// Relation of neighboring data sets; 0 means dp.Replace. dp.AddRemove halves
	// the shift and keeps the number of records private, but for whether there is one.
	Relation dp.Relation
	// Law of η: Radial (the default), Gaussian or PaperSigma.
	Law Law
	// Sigma, if positive, is the σ to take with Gaussian instead of the least
	// proved one. The certificate states the ε that is proved for it.
	Sigma float64
	// Oracle minimizes; nil means Auto.
	Oracle Oracle
	// Range and Lipschitz bound the loss of one record, see Public. Range 0 means
	// 1 where the problem has rows, the 0/1 loss of halfspaces.
	Range, Lipschitz float64
	// Failure is β: the caller asserts that on every data set the search fails to
	// prove a minimizer with at most this probability. The certificate then covers
	// withheld releases too, at (1 + e^ε)β of δ. One run cannot verify β.
	Failure float64
	// Trace, if not nil, is called at the end of every search. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)
}

// Fit releases the minimizer of p under the budget b: it plans, draws η,
// minimizes and releases what is proved. The error wraps what Plan's or
// Plan.Fit's does. Fit panics if ctx is nil.
func (m *OPDisc) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(fault.From(ctx), p, b)
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p: it reads its dimension and space, and no record.
// Errors are those of Calibrate, or wrap ErrProblem.
func (m *OPDisc) Plan(p *Problem, b dp.Budget) (*Plan, error) { return m.plan(nil, p, b) }

func (m *OPDisc) plan(f *fault.Set, p *Problem, b dp.Budget) (*Plan, error) {
	q, err := public(p, b, m.Range, m.Lipschitz)
	if err != nil {
		return nil, err
	}
	return m.calibrate(f, q)
}

// Calibrate returns the noise for the public quantities q:
//
//	Radial      density ∝ exp(−ε‖η‖₂/Δ): ε pure, a δ in the budget is not used
//	Gaussian    the least σ with E(1 − exp(ε − ΔR/σ − Δ²/2σ²))₊ ≤ δ, R ~ χ_m
//	PaperSigma  σ = 7RQ√ln(1/δ)/ε, certified at the least ε for which the same holds
//
// m is d+1 (d on {−1,+1}ᵈ) and Δ the least shift that makes up for one record.
// The Gaussian loss is taken at the noise's own direction: the minimizer is a
// function of η, so ⟨η, π(w)⟩ may be as large as ‖η‖₂, and the analytic Gaussian
// mechanism, which fixes the direction first, is not valid here.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition or ErrMechanism.
func (m *OPDisc) Calibrate(q Public) (*Plan, error) { return m.calibrate(nil, q) }

func (m *OPDisc) calibrate(f *fault.Set, q Public) (*Plan, error) {
	law := m.Law
	if law == DefaultLaw {
		law = Radial
	}
	switch {
	case law != Radial && law != Gaussian && law != PaperSigma:
		return nil, fmt.Errorf("%w: Law = %v, want Radial, Gaussian or PaperSigma", ErrMechanism, law)
	case !(m.Sigma >= 0 && m.Sigma < 0x1p50) || m.Sigma > 0 && law != Gaussian:
		return nil, fmt.Errorf("%w: Sigma = %v with Law = %v, want a positive number with Gaussian, or 0", ErrMechanism, m.Sigma, law)
	}
	p, b, err := common{relation: m.Relation, oracle: m.Oracle, beta: m.Failure, trace: m.Trace, law: law}.start(q)
	if err != nil {
		return nil, err
	}
	p.cube = isCube(&q.Space, q.Dim)
	if q.NormSq < 0 && !p.cube {
		return nil, fmt.Errorf("objpert: %w: NormSq = %d, but OPDisc needs a ball: declare Lattice(Q), or use Product for a box", dp.ErrCondition, q.NormSq)
	}
	p.Noises = q.Dim + 1
	if p.cube {
		p.Noises = q.Dim
	}
	p.Noises = fault.At(f, fault.NoiseDimension, p.Noises)
	k := swing(fault.At(f, fault.Relation, p.Relation))
	p.Shift = radialShift(p.cube, q.Dim, q.NormSq, k*q.Range, k*q.slope())

	if law == Radial {
		p.Scale = p.Shift / b.Epsilon * (1 + 0x1p-50)
		p.pure()
		p.ExcessBound = 2 * p.Scale * float64(p.Noises)
		return p.finish(TheoremRadial, p.reach(p.Scale*gammaTail(p.Noises)))
	}
	if b.Delta == 0 {
		return nil, fmt.Errorf("objpert: %w: Delta = 0, but Gaussian noise gives no pure guarantee, want a number in [%g, 1), or Radial", dp.ErrBudget, dp.MinDelta)
	}
	logDelta := func(eps, a float64) float64 { return chiLogDelta(eps, a, p.Noises) }
	theorem := TheoremGaussian
	p.Proved = q.Budget
	switch {
	case law == Gaussian && m.Sigma == 0:
		p.Scale = leastSigma(logDelta, b, p.Shift, chiSigmaGuess(b, p.Shift, p.Noises))
	default:
		theorem = TheoremSigma
		p.Scale = m.Sigma
		if law == PaperSigma {
			factor := q.Range * float64(q.NormSq)
			if p.cube {
				factor = q.Range * float64(q.Dim) / 4
			}
			p.Scale = paperSigma(b, factor)
		}
		if err := p.prove(f, logDelta, b); err != nil {
			return nil, err
		}
	}
	p.ExcessBound = 2 * p.Scale * chiMean(p.Noises)
	r := math.Sqrt(2 * gammaTail((p.Noises+1)/2)) // χ²_m = 2 Gamma(m/2)
	return p.finish(theorem, p.reach(p.Scale*r))
}

// prove sets Proved to the ε that logDelta proves for the scale of the plan.
func (p *Plan) prove(f *fault.Set, logDelta func(eps, a float64) float64, b dp.Budget) error {
	if p.Failure > 0 {
		return fmt.Errorf("%w: Failure = %v with a stated scale, want Failure = 0 or a calibrated law", ErrMechanism, p.Failure)
	}
	eps := provedEpsilon(logDelta, p.Shift/p.Scale, b.Delta)
	if math.IsInf(eps, 1) {
		return fmt.Errorf("objpert: %w: nothing is proved for σ = %.6g at δ = %g", dp.ErrCondition, p.Scale, b.Delta)
	}
	p.Proved.Epsilon = fault.At(f, fault.ProvedEpsilon, eps)
	return nil
}

// reach bounds Σ_j max|T_j| + max|z| for ‖η‖₂ ≤ r: |T_j| ≤ |η_j|, so at most √m r + r.
func (p *Plan) reach(r float64) float64 { return r * (math.Sqrt(float64(p.Noises)) + 1) }

// chiMean is E χ_m = √2 Γ((m+1)/2)/Γ(m/2).
func chiMean(m int) float64 {
	a, _ := math.Lgamma(float64(m+1) / 2)
	b, _ := math.Lgamma(float64(m) / 2)
	return math.Sqrt2 * math.Exp(a-b)
}

// isCube reports whether every coordinate admits no values but −1 and +1.
func isCube(s *Space, d int) bool {
	for j := range d {
		for k, v := range s.Values {
			if s.allowed(j, k) && v != 1 && v != -1 {
				return false
			}
		}
	}
	return true
}

// drawRadial draws η and spreads it over the features:
//
//	T_j[k] = η_j Values[k]/√Q,   z[q] = η_{d+1} √(Q−q)/√Q
func (pl *Plan) drawRadial(f *fault.Set, src rand.Source) (table [][]float64, norm []float64) {
	eta := make([]float64, pl.Noises)
	defer clear(eta)
	scale := fault.At(f, fault.Scale, pl.Scale)
	if pl.Law == Radial {
		sample.GammaNorm(eta, 1/scale, src)
	} else {
		sample.Normal(eta, scale, src)
	}
	eta = fault.At(f, fault.Noise, eta)
	q := float64(pl.NormSq)
	if pl.cube {
		q = float64(pl.Dim)
	}
	root := math.Sqrt(q)
	table = pl.newTable()
	for j, row := range table[:min(pl.Dim, len(eta))] {
		for k, v := range pl.Values {
			row[k] = eta[j] * float64(v) / root
		}
	}
	if pl.cube {
		return table, nil
	}
	norm = make([]float64, pl.NormSq+1)
	if len(eta) > pl.Dim {
		for k := range norm {
			norm[k] = eta[pl.Dim] * math.Sqrt(float64(pl.NormSq-k)) / root
		}
	}
	return table, norm
}
