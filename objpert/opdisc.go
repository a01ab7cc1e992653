// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
)

// OPDisc is objective perturbation over a discrete set [NRVW20, Algorithm 1], with proved
// calibrations:
//
//	w = argmin over W of L(w) − ⟨η, π(w)⟩,   π(w) = (w, √(Q − ‖w‖²))/√Q
//
// W must lie in ℤᵈ within ‖w‖² ≤ Q ([Lattice]) or in {−1,+1}ᵈ, where π(w) = w/√d. Q is declared,
// and the noise grows with it: choose a small Q. The zero value means the documented defaults.
type OPDisc struct {
	// Relation of neighboring data sets; 0 means dp.Replace. dp.AddRemove halves the shift and keeps
	// the number of records private.
	Relation dp.Relation
	// Law of η: Radial (the default), Gaussian or PaperSigma.
	Law Law
	// Sigma, if positive, replaces the least proved σ of Gaussian. The certificate states the ε that
	// is proved for it.
	Sigma float64
	// Oracle minimizes; nil means Search{}.
	Oracle Oracle
	// Range is R: the loss of one record lies in [0, R]. 0 means 1, the range of the 0/1 loss of
	// halfspaces, and is refused for a Custom problem.
	Range float64
	// Lipschitz is G: the loss of one record changes by at most G‖w − v‖₂. 0 means unknown; the
	// better of the two bounds is used.
	Lipschitz float64
	// Failure is β: the caller asserts that on every data set the search fails to prove a minimizer
	// with at most this probability. The certificate then covers withheld releases too, at the cost
	// of (1 + e^ε)β of δ. One run cannot verify β.
	Failure float64
}

// Fit releases the minimizer of p under the budget b. The error wraps an error of [OPDisc.Plan] or
// [Plan.Fit].
func (m *OPDisc) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan returns the noise for p under the budget b. It reads the dimension, the space and the kind
// of loss of p, and no record.
//
//	Radial      density ∝ exp(−ε‖η‖₂/Δ): ε pure, a δ in the budget is not used
//	Gaussian    the least σ with E(1 − exp(ε − ΔR/σ − Δ²/2σ²))₊ ≤ δ, R ~ χ_m
//	PaperSigma  σ = 7RQ√ln(1/δ)/ε, certified at the least ε for which the same holds
//
// m is d + 1, or d on {−1,+1}ᵈ, and Δ the least shift that makes up for one record. Proofs:
// docs/theory/discrete.md#objpert.radial/2 and the two theorems after it. Errors wrap
// [dp.ErrBudget], [dp.ErrRelation], [dp.ErrCondition], [ErrMechanism] or [ErrProblem].
func (m *OPDisc) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(OPDisc))
	if !(m.Sigma >= 0 && m.Sigma < 0x1p50) || m.Sigma > 0 && m.Law != Gaussian {
		return nil, fmt.Errorf("%w: Sigma = %v with Law = %v, want a positive number with Gaussian, or 0",
			ErrMechanism, m.Sigma, m.Law)
	}
	settings := Product{Relation: m.Relation, Law: m.Law, Oracle: m.Oracle, Range: m.Range, Failure: m.Failure}
	pl, b, err := start(p, b, settings, m.Lipschitz, "Radial, Gaussian or PaperSigma", Radial, Gaussian, PaperSigma)
	if err != nil {
		return nil, err
	}
	c := &pl.params
	pl.cube = c.isCube(c.Dim)
	if c.NormSq < 0 && !pl.cube {
		return nil, fmt.Errorf("objpert: %w: NormSq = %d, but OPDisc needs a ball: declare Lattice(Q), or use Product "+
			"for a box", dp.ErrCondition, c.NormSq)
	}
	c.Noises = c.Dim + 1
	if pl.cube {
		c.Noises = c.Dim
	}
	k := swing(c.Relation)
	slope := math.Inf(1)
	if c.Lipschitz > 0 {
		slope = k * c.Lipschitz
	}
	delta := radialShift(pl.cube, c.Dim, c.NormSq, k*c.Range, slope)

	// unit is the scale for a shift of size 1; noise of scale 1 stays below radius, with mean norm
	// mean. The privacy loss of Gaussian noise is at most aR + a²/2, a = Δ/σ and R ~ χ_m.
	logDelta := func(eps, a float64) float64 { return linear.LogChi(eps, a, c.Noises) }
	b.Delta *= 1 - rareShare
	x := pl.tail(b)
	n := float64(c.Noises)
	var unit, radius, mean, stated float64
	theorem := theoremRadial
	switch {
	case c.Law == Radial:
		unit, radius = 1/b.Epsilon*(1+0x1p-46), gammaTail(c.Noises, x)
		mean = n
		pl.pure()
	case c.Law == Gaussian && m.Sigma == 0:
		theorem = theoremGaussian
		unit = sigmaFor(logDelta, b, 1)
	default:
		theorem, stated = theoremSigma, m.Sigma
		if c.Law == PaperSigma {
			factor := c.Range * float64(c.NormSq)
			if pl.cube {
				factor = c.Range * float64(c.Dim) / 4
			}
			stated = paperSigma(b, factor)
		}
		x = pl.tail(provedBudget(logDelta, delta*(1+2*maxLoss)/stated, b))
	}
	if c.Law != Radial {
		radius, mean = math.Sqrt(n+2*math.Sqrt(n*x)+2*x), chiMean(c.Noises)
	}
	// |T_j| ≤ |η_j| + rounding and |z| ≤ ‖η‖ + rounding, so at most √m r + r
	reach := func(scale float64) float64 { return scale*radius*(math.Sqrt(n)+1) + n*delta }
	if err := pl.discretize(delta, reach(max(unit*delta*(1+2*maxLoss), stated))); err != nil {
		return nil, err
	}
	c.Scale = unit * c.Shift
	if stated > 0 {
		c.Scale = stated
	}
	if c.Law != Radial {
		if err := pl.prove(logDelta, b, stated > 0); err != nil {
			return nil, err
		}
	}
	c.ExcessBound = 2*c.Scale*mean + pl.norm()*math.Sqrt(n)*math.Ldexp(1, c.Exponent)
	return pl.finish(theorem, reach(c.Scale))
}

// prove sets the curve of the plan, and Proved: to the Budget or, for a stated scale, to the ε that
// logDelta proves for it.
func (pl *Plan) prove(logDelta func(eps, a float64) float64, b dp.Budget, stated bool) error {
	q := &pl.params
	a := q.Shift / q.Scale
	pl.logDelta = func(eps float64) float64 { return logDelta(eps, a) }
	q.Proved = q.Budget
	if !stated {
		return nil
	}
	if q.Failure > 0 {
		return fmt.Errorf("%w: Failure = %v with a stated scale, want Failure = 0 or a calibrated law",
			ErrMechanism, q.Failure)
	}
	eps := provedEpsilon(logDelta, a, b.Delta)
	if math.IsInf(eps, 1) {
		return fmt.Errorf("objpert: %w: nothing is proved for σ = %.6g at δ = %g", dp.ErrCondition, q.Scale, q.Budget.Delta)
	}
	q.Proved.Epsilon = eps
	return nil
}

// norm is √Q, or √d on {−1,+1}ᵈ: ‖φ(w)‖ before c is rounded.
func (pl *Plan) norm() float64 {
	if pl.cube {
		return math.Sqrt(float64(pl.params.Dim))
	}
	return math.Sqrt(float64(pl.params.NormSq))
}

// maxLoss is the largest share of the shift that rounding the features to integers may add.
const maxLoss = 1.0 / 32

// discretize rounds the features and shifts of the plan to integers in steps of g = 2^Exponent:
//
//	φ(w) = (w, c(‖w‖²)),   c(q) = √(Q−q) rounded to a multiple of 2^-b,   φ(w) = w on {−1,+1}ᵈ
//	s_w = (Λw, Λc(‖w‖²) rounded),   Λg ≥ (Δ/Q)/(1 − κ),   κ = 4√Q·2^-b + 2gQ/Δ (0 on {−1,+1}ᵈ)
//
// Proof: docs/theory/discrete.md#discrete.features. Shift is the largest ‖g s_w‖√Q, in units of η.
// The steps 2^Exponent·2^-b of tables are as fine as 2⁵⁹ steps for reach allow, and 2⁻³⁰ at least
// where the search counts records as well; reach bounds Σ_j max|T_j| + max|z|, except for rare
// draws.
func (pl *Plan) discretize(delta, reach float64) error {
	q := &pl.params
	norm := pl.norm()
	size := delta / (norm * norm) // Δ/Q
	_, e := math.Frexp(reach)     // reach < 2^e
	e = max(e-59, math.Ilogb(size)-40)
	if !q.OracleLoss {
		e = max(e, -maxShift)
	}
	if !(reach < 0x1p1000) || e > 0 {
		return errReach(q.Budget, reach)
	}
	if !pl.cube {
		q.FeatureBits = min(40, max(0, int(math.Round((math.Log2(2*delta/norm)-float64(e))/2))))
	}
	q.Exponent = e + q.FeatureBits
	g := math.Ldexp(1, q.Exponent)
	loss := 2 * g / size // of κ
	if !pl.cube {
		pl.last = roots(q.NormSq, q.FeatureBits)
		loss = pl.loss(size)
	}
	if loss > maxLoss {
		return errReach(q.Budget, reach)
	}
	lambda, last := pl.integerShift(size)
	longest := lambda * lambda * norm * norm // ‖s_w‖²
	for sq, s := range last {
		longest = max(longest, lambda*lambda*float64(sq)+s*s)
	}
	q.Shift = math.Sqrt(longest) * g * norm * (1 + 0x1p-46)
	return nil
}

// loss returns κ for size = Δ/Q.
func (pl *Plan) loss(size float64) float64 {
	if pl.cube {
		return 0
	}
	return 4*pl.norm()*math.Ldexp(1, -pl.params.FeatureBits) + 2*math.Ldexp(1, pl.params.Exponent)/size
}

// integerShift returns Λ and S(q) for size = Δ/Q.
func (pl *Plan) integerShift(size float64) (lambda float64, last []float64) {
	lambda = math.Ceil(math.Ldexp(size, -pl.params.Exponent) / (1 - pl.loss(size)) * (1 + 0x1p-40))
	last = make([]float64, len(pl.last))
	for q, c := range pl.last {
		last[q] = math.Floor(lambda*math.Ldexp(float64(c), -pl.params.FeatureBits) + 0.5)
	}
	return lambda, last
}

// roots returns √(Q−q)·2^b rounded to integers, q = 0, …, Q.
func roots(q, b int) []int64 {
	c := make([]int64, q+1)
	var n, r, up big.Int
	for i := range c {
		n.SetInt64(int64(q - i))
		n.Lsh(&n, uint(2*b))
		r.Sqrt(&n)
		// above r + ½ iff n > r² + r
		if up.Mul(&r, &r).Add(&up, &r); n.Cmp(&up) > 0 {
			r.Add(&r, big.NewInt(1))
		}
		c[i] = r.Int64()
	}
	return c
}

// chiMean is E χ_m = √2 Γ((m+1)/2)/Γ(m/2).
func chiMean(m int) float64 {
	return math.Sqrt2 * math.Exp(num.LogGamma(float64(m+1)/2)-num.LogGamma(float64(m)/2))
}

// drawFeatures draws a noise value for each feature.
func (pl *Plan) drawFeatures(src rand.Source) []int64 {
	q := &pl.params
	k := make([]int64, q.Noises)
	if q.Law == Radial {
		noise.RadialGrid(k, pl.norm()/q.Scale, q.Exponent, src)
	} else {
		noise.Grid(k, q.Scale/pl.norm(), q.Exponent, src)
	}
	return k
}

// spreadFeatures fills the tables: T_j[v] = η_j v 2^b and z[q] = η_{d+1} c(q) 2^b. Values that no
// point has get 0, because the bound on Σ_j max|T_j| holds for points.
func (pl *Plan) spreadFeatures(n *perturbation, eta []int64) {
	q := &pl.params
	for j, row := range n.table {
		for k, v := range q.Values {
			if q.allowed(j, k) && (q.NormSq < 0 || v*v <= q.NormSq) {
				row[k] = times(eta[j], int64(v)<<q.FeatureBits)
			}
		}
	}
	if pl.cube {
		return
	}
	n.norm = make([]fixed, len(pl.last))
	for i, c := range pl.last {
		n.norm[i] = times(eta[q.Dim], c)
	}
}
