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
// Plan.Fit's does.
func (m *OPDisc) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p: it reads its dimension and space, and no record.
// Errors are those of Calibrate, or wrap ErrProblem.
func (m *OPDisc) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(OPDisc))
	return calibrated(m.Calibrate, p, b, m.Range, m.Lipschitz)
}

// Calibrate returns the noise for the public quantities q:
//
//	Radial      density ∝ exp(−ε‖η‖₂/Δ): ε pure, a δ in the budget is not used
//	Gaussian    the least σ with E(1 − exp(ε − ΔR/σ − Δ²/2σ²))₊ ≤ δ, R ~ χ_m
//	PaperSigma  σ = 7RQ√ln(1/δ)/ε, certified at the least ε for which the same holds
//
// m is d+1 (d on {−1,+1}ᵈ) and Δ the least shift that makes up for one record. Proofs:
// docs/theory/discrete.md#objpert.radial/2 and those after it.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition or ErrMechanism.
func (m *OPDisc) Calibrate(q Public) (*Plan, error) {
	m = cmp.Or(m, new(OPDisc))
	if !(m.Sigma >= 0 && m.Sigma < 0x1p50) || m.Sigma > 0 && m.Law != Gaussian {
		return nil, fmt.Errorf("%w: Sigma = %v with Law = %v, want a positive number with Gaussian, or 0", ErrMechanism, m.Sigma, m.Law)
	}
	p, b, err := common{
		relation: m.Relation, oracle: m.Oracle, beta: m.Failure, trace: m.Trace, law: m.Law,
		laws: []Law{Radial, Gaussian, PaperSigma}, names: "Radial, Gaussian or PaperSigma",
	}.start(q)
	if err != nil {
		return nil, err
	}
	c := &p.params
	law := c.Law
	p.cube = isCube(&q.Space, q.Dim)
	if q.NormSq < 0 && !p.cube {
		return nil, fmt.Errorf("objpert: %w: NormSq = %d, but OPDisc needs a ball: declare Lattice(Q), or use Product for a box",
			dp.ErrCondition, q.NormSq)
	}
	c.Noises = q.Dim + 1
	if p.cube {
		c.Noises = q.Dim
	}
	k := swing(c.Relation)
	delta := radialShift(p.cube, q.Dim, q.NormSq, k*q.Range, k*q.slope())

	// The scale for a shift of size 1, and the radius that noise of scale 1 stays below.
	// The privacy loss is at most aR + a²/2, a = Δ/σ and R the norm of a standard normal vector.
	logDelta := func(eps, a float64) float64 { return linear.LogChi(eps, a, c.Noises) }
	b.Delta *= 1 - rareShare
	x := p.tail(b)
	n := float64(c.Noises)
	var unit, radius, mean, stated float64
	theorem := theoremRadial
	switch {
	case law == Radial:
		unit, radius, mean = 1/b.Epsilon*(1+0x1p-46), gammaTail(c.Noises, x), n
		p.pure()
	case law == Gaussian && m.Sigma == 0:
		theorem = theoremGaussian
		unit = leastSigma(logDelta, b, 1, chiSigmaGuess(b, 1, c.Noises))
	default:
		theorem, stated = theoremSigma, m.Sigma
		if law == PaperSigma {
			factor := q.Range * float64(q.NormSq)
			if p.cube {
				factor = q.Range * float64(q.Dim) / 4
			}
			stated = paperSigma(b, factor)
		}
		x = p.tail(provedBudget(logDelta, delta*(1+2*maxLoss)/stated, b))
	}
	if law != Radial {
		radius, mean = math.Sqrt(n+2*math.Sqrt(n*x)+2*x), chiMean(c.Noises)
		c.Proved = q.Budget
	}
	// |T_j| ≤ |η_j| + rounding and |z| ≤ ‖η‖ + rounding, so at most √m r + r
	reach := func(scale float64) float64 { return scale*radius*(math.Sqrt(n)+1) + n*delta }
	if err := p.discretize(delta, reach(max(unit*delta*(1+2*maxLoss), stated))); err != nil {
		return nil, err
	}
	c.Scale = unit * c.Shift
	if stated > 0 {
		c.Scale = stated
	}
	if law != Radial {
		a := c.Shift / c.Scale
		p.logDelta = func(eps float64) float64 { return logDelta(eps, a) }
	}
	if stated > 0 {
		if err := p.prove(logDelta, b); err != nil {
			return nil, err
		}
	}
	c.ExcessBound = 2*c.Scale*mean + p.norm()*math.Sqrt(n)*math.Ldexp(1, c.Exponent)
	return p.finish(theorem, reach(c.Scale))
}

// prove sets Proved to the ε that logDelta proves for the scale of the plan.
func (pl *Plan) prove(logDelta func(eps, a float64) float64, b dp.Budget) error {
	q := &pl.params
	if q.Failure > 0 {
		return fmt.Errorf("%w: Failure = %v with a stated scale, want Failure = 0 or a calibrated law", ErrMechanism, q.Failure)
	}
	eps := provedEpsilon(logDelta, q.Shift/q.Scale, b.Delta)
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

// discretize makes the features and shifts of the plan integers:
//
//	φ(w) = (w, c(‖w‖²)),   c(q) = √(Q−q) rounded to a multiple of 2^-b,   φ(w) = w on {−1,+1}ᵈ
//	s_w = (Λw, Λc(‖w‖²) rounded),   Λg ≥ (Δ/Q)/(1 − κ),   κ = 4√Q·2^-b + 2gQ/Δ (0 on {−1,+1}ᵈ)
//
// in steps of g = 2^Exponent, which satisfy condition (S):
// docs/theory/discrete.md#discrete.features
// Shift is the largest ‖g s_w‖, times √Q because η is in
// units of φ/√Q.
//
// The steps 2^Exponent·2^-b of tables are as fine as reach, a bound on their sum but for rare
// draws, allows in 2⁵⁹ steps, and no finer than 2⁻³⁰ where the search counts records as well.
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
	a, _ := math.Lgamma(float64(m+1) / 2)
	b, _ := math.Lgamma(float64(m) / 2)
	return math.Sqrt2 * math.Exp(a-b)
}

// drawFeatures draws the noise of the features.
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

// spreadFeatures spreads it over the tables: T_j[v] = k_j v 2^b and z[q] = k_{d+1} c(q) 2^b.
// Values that no point has get 0: the bound on Σ_j max|T_j| is about points.
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
