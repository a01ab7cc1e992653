package sco

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
)

// Safety margins, far below the 1e-6 that constants may exceed their exact
// values by and far above the rounding they cover.
const (
	safeScale = 1 + 1e-9    // of noise scales
	safeC     = 1 + 0x1p-50 // of c
)

const (
	defaultShare = 0.01
	defaultCover = 1e-8  // R in units of M
	leastCover   = 1e-14 // what float64 can certify, in the same units
	cCeiling     = 0.99  // the largest share of ε that automatic λ leaves to c
)

// linearPredictor tells whether a loss is one of ⟨a,w⟩: it can be continued
// linearly beyond W with the same constants and the same minimizer in W.
func linearPredictor(k loss.Constants) bool {
	return k.Structure == loss.LSQ || k.Structure == loss.GLM
}

// An objective knows all that is fixed before λ is chosen.
type objective struct {
	q      Public
	budget dp.Budget // of the exact minimizer
	g      float64   // G, the most that a neighbor changes the sum of gradients
	rank   float64   // ρ of the determinant
	curve  linear.Chi
}

// newObjective sets the dimensions of the curve: the change of the gradient
// lies in the fixed subspaces of the one or two records that change, or
// anywhere if the loss does not promise any.
func newObjective(q Public, rel dp.Relation, budget dp.Budget) (*objective, error) {
	k := q.Constants
	if err := known("Lipschitz", k.Lipschitz, "declare a bounded Set, or clip the loss by loss.NewClipped"); err != nil {
		return nil, err
	}
	if err := known("Smoothness", k.Smoothness, "use a loss with a Lipschitz gradient such as loss.Moreau of it, or Output, or ProxGD"); err != nil {
		return nil, err
	}
	rho, fixed := k.Rank, k.Rank
	switch k.Structure {
	case loss.LSQ, loss.GLM:
		rho, fixed = 1, 1
	case loss.FixedRange:
	case loss.General:
		fixed = q.Dim
	default:
		return nil, fmt.Errorf("sco: %w: the loss declares %v, want LSQ, GLM, FixedRange or General", dp.ErrCondition, k.Structure)
	}
	if rho < 1 {
		return nil, fmt.Errorf("sco: %w: the loss declares Rank = %d (unknown), want at least 1; Dim = %d always holds", dp.ErrCondition, rho, q.Dim)
	}
	o := &objective{q: q, budget: budget, g: k.Lipschitz, rank: float64(min(rho, q.Dim))}
	o.curve.Q = min(fixed, q.Dim)
	if rel == dp.Replace {
		o.g *= 2
		o.curve.Q = min(2*o.curve.Q, q.Dim)
		o.curve.Paired = fixed == 1 && q.Dim > 1
	}
	return o, nil
}

// c returns ρ log1p(β/(2nλ)).
func (o *objective) c(lambda float64) float64 {
	return o.rank * math.Log1p(o.q.Constants.Smoothness/(2*o.q.n()*lambda)) * safeC
}

// leastLambda returns the λ at which c = share·ε.
func (o *objective) leastLambda(share float64) float64 {
	return o.q.Constants.Smoothness / math.Expm1(share*o.budget.Epsilon/o.rank) / (2 * o.q.n()) * safeC
}

// sigma returns the least σ at λ, +Inf where c ≥ ε.
func (o *objective) sigma(lambda float64) float64 {
	c := o.c(lambda)
	if !(c < o.budget.Epsilon) {
		return math.Inf(1)
	}
	return o.g * o.curve.LeastNoise(o.budget.Epsilon-c, o.budget.Delta) * safeScale
}

// bound returns (1/λ)(dσ²/(4n²) + L²/n) + λM².
func (o *objective) bound(lambda, sigma float64) float64 {
	n, l, m := o.q.n(), o.q.Constants.Lipschitz, o.q.Radius
	return (o.q.d()*sigma*sigma/(4*n*n)+l*l/n)/lambda + lambda*m*m
}

// best returns the λ with the least bound among those with c ≤ 0.99ε.
func (o *objective) best() float64 {
	n, l, m := o.q.n(), o.q.Constants.Lipschitz, o.q.Radius
	// If curvature cost nothing, λ = (1/M)√(dσ²/(4n²)+L²/n). The best λ has no
	// more noise than at c = ε/2 and no less than at c = 0.
	free := o.g * o.curve.LeastNoise(o.budget.Epsilon, o.budget.Delta)
	lo := math.Sqrt(o.q.d()*free*free/(4*n*n)+l*l/n) / m
	half := o.leastLambda(0.5)
	start := max(lo, half)
	hi := o.bound(start, o.sigma(start)) / (m * m) // λM² alone exceeds the bound beyond
	lo = max(min(lo, half), o.leastLambda(cCeiling))
	return goldenLog(func(x float64) float64 { return o.bound(x, o.sigma(x)) }, lo, max(hi, lo))
}

// goldenLog returns a point of [lo, hi] where the unimodal f is least, to about
// 1e-5 in log x, where f is flat.
func goldenLog(f func(x float64) float64, lo, hi float64) float64 {
	const golden = 0.6180339887498949
	a, b := specfun.Log(lo), specfun.Log(hi)
	x, y := b-golden*(b-a), a+golden*(b-a)
	fx, fy := f(math.Exp(x)), f(math.Exp(y))
	for b-a > 1e-5 {
		if fx <= fy {
			b, y, fy = y, x, fx
			x = b - golden*(b-a)
			fx = f(math.Exp(x))
		} else {
			a, x, fx = x, y, fy
			y = a + golden*(b-a)
			fy = f(math.Exp(y))
		}
	}
	return min(max(math.Exp((a+b)/2), lo), hi)
}

// Calibrate returns the noise for a problem with the public quantities q.
// Errors wrap ErrMechanism, dp.ErrBudget, dp.ErrRelation, or dp.ErrCondition
// where no noise makes the claim true, with the least value that would do.
func (m *ObjPert) Calibrate(q Public) (*ObjPlan, error) {
	if err := checkRelation(m.Relation); err != nil {
		return nil, err
	}
	switch {
	case m.Calibration != Accounted && m.Calibration != Paper:
		return nil, fmt.Errorf("%w: Calibration = %v, want Accounted or Paper", ErrMechanism, m.Calibration)
	case !(m.Share >= 0 && m.Share < 1):
		return nil, fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for %v", ErrMechanism, m.Share, defaultShare)
	case m.Calibration == Paper && m.Lambda > 0:
		return nil, fmt.Errorf("%w: Lambda = %v is the paper's for Calibration %v, want 0", ErrMechanism, m.Lambda, m.Calibration)
	case m.Calibration == Paper && orReplace(m.Relation) != dp.Replace:
		return nil, fmt.Errorf("sco: %w: Calibration %v is about %v neighbors, Relation = %v", dp.ErrCondition, m.Calibration, dp.Replace, m.Relation)
	}
	q, rel, err := q.forObjective(m.Relation, m.Records, m.Radius, m.Lambda, m.Cover)
	if err != nil {
		return nil, err
	}
	share := m.Share
	if share == 0 {
		share = defaultShare
	}
	pl := &ObjPlan{Public: q, Relation: rel, Theorem: TheoremObjPert, Lambda: m.Lambda, Trace: m.Trace}
	pl.Objective, pl.Output = q.Budget.Split(share)
	o, err := newObjective(q, fault.At(q.faults, fault.Relation, rel), fault.At(q.faults, fault.Objective, pl.Objective))
	if err != nil {
		return nil, err
	}
	if m.Calibration == Paper {
		err = pl.paper(o)
	} else {
		if pl.Lambda == 0 {
			pl.Lambda = o.best()
		}
		pl.C = o.c(pl.Lambda)
		if !(pl.C < pl.Objective.Epsilon) {
			return nil, fmt.Errorf("sco: %w: Lambda = %v gives c = %v ≥ ε = %v of the objective, so no noise is enough; want Lambda > %v, that is Δ > β/expm1(ε/ρ) = %v, or 0 for automatic",
				dp.ErrCondition, pl.Lambda, pl.C, pl.Objective.Epsilon, o.leastLambda(1), 2*q.n()*o.leastLambda(1))
		}
		pl.Sigma = o.sigma(pl.Lambda)
	}
	if err != nil {
		return nil, err
	}
	pl.C, pl.S, pl.Delta = o.c(pl.Lambda), o.g/pl.Sigma, 2*q.n()*pl.Lambda
	return orNone(pl, pl.cover(m.Cover, o.bound(pl.Lambda, pl.Sigma)))
}

// forObjective checks q and the fields that the two mechanisms share.
func (q Public) forObjective(r dp.Relation, records int, radius, lambda, cover float64) (Public, dp.Relation, error) {
	rel := orReplace(r)
	if err := checkRelation(r); err != nil {
		return q, rel, err
	}
	if err := checkFields(field{"Radius", "the radius of Set", radius}, field{"Lambda", "the best", lambda}, field{"Cover", "the default", cover}); err != nil {
		return q, rel, err
	}
	if q.Radius == 0 {
		q.Radius = radius
	}
	if rel == dp.AddRemove && records > 0 {
		q.Records = records
	}
	return q, rel, q.check(rel)
}

// paper takes the parameters of [BFTT19, Algorithm 4],
//
//	λ = (2L/M)√(2/n + 4d ln(1/δ)/(ε²n²)),  σ² = 10L² ln(1/δ)/ε²,  β ≤ εnλ
//
// with σ doubled: the constant is that of adding or removing a record and the
// relation is replacement. Where the sharp curve needs more it is taken.
func (pl *ObjPlan) paper(o *objective) error {
	q, k := pl.Public, pl.Constants
	eps, delta, n := q.Budget.Epsilon, q.Budget.Delta, q.n()
	root := math.Sqrt(2/n + 4*q.d()*q.logDelta()/(eps*eps*n*n))
	pl.Lambda = 2 * k.Lipschitz / q.Radius * root
	pl.PaperSigma = math.Sqrt(10*q.logDelta()) * k.Lipschitz / eps
	pl.PaperBound = 4 * q.Radius * k.Lipschitz * root
	switch {
	case eps > 1:
		return fmt.Errorf("sco: %w: Epsilon = %v, Calibration Paper is stated for ε ≤ 1; use Accounted", dp.ErrCondition, eps)
	case delta > 1/(n*n):
		return fmt.Errorf("sco: %w: Delta = %v, Calibration Paper is stated for δ ≤ 1/n² = %v; use Accounted", dp.ErrCondition, delta, 1/(n*n))
	case !linearPredictor(k):
		return fmt.Errorf("sco: %w: the loss is %v, Calibration Paper needs one of ⟨a,w⟩; use Accounted", dp.ErrCondition, k.Structure)
	case k.Smoothness > eps*n*pl.Lambda:
		return fmt.Errorf("sco: %w: Smoothness = %v, Calibration Paper needs at most εnλ = %v; use Accounted", dp.ErrCondition, k.Smoothness, eps*n*pl.Lambda)
	}
	pl.Sigma = max(2*pl.PaperSigma, o.sigma(pl.Lambda))
	if math.IsInf(pl.Sigma, 1) {
		return fmt.Errorf("sco: %w: c = %v ≥ ε of the objective at the paper's λ = %v; use Accounted", dp.ErrCondition, o.c(pl.Lambda), pl.Lambda)
	}
	return nil
}

// cover fixes R from public quantities, before any record is seen, and the
// output noise: two runs that end within R of one point differ by at most 2R.
func (pl *ObjPlan) cover(cover, bound float64) error {
	if err := pl.setCover(cover); err != nil {
		return err
	}
	var err error
	if pl.OutputSigma, err = dp.GaussianSigma(pl.Output, 2*pl.Cover*safeScale); err != nil {
		return fmt.Errorf("sco: output noise: %w", err)
	}
	pl.Bound = bound + pl.coverCost()
	return pl.valid()
}

// coverCost returns L(R + σ_out√d), what R and the output noise add to the loss.
func (pl *ObjPlan) coverCost() float64 {
	return pl.Constants.Lipschitz * (pl.Cover + pl.OutputSigma*math.Sqrt(pl.d()))
}

// setCover takes the caller's R, checked, or the default.
func (pl *ObjPlan) setCover(cover float64) error {
	switch {
	case cover == 0:
		// The certificate allows for rounding of 1e-12 of the norms of the terms
		// of the gradient, which should be a small part of μR.
		rest := pl.Sigma*math.Sqrt(pl.d()) + pl.Delta*pl.Radius
		floor := 8e-12 * (pl.n()*pl.Constants.Lipschitz + rest) / pl.Delta
		pl.Cover = max(defaultCover*pl.Radius, floor)
	case cover < leastCover*pl.Radius:
		return fmt.Errorf("%w: Cover = %v cannot be certified in float64, want at least %v or 0 for the default", ErrMechanism, cover, leastCover*pl.Radius)
	default:
		pl.Cover = cover
	}
	return nil
}

// Calibrate returns the noise for a problem with the public quantities q. Errors
// are those of ObjPert.Calibrate.
func (m *Output) Calibrate(q Public) (*ObjPlan, error) {
	q, rel, err := q.forObjective(m.Relation, m.Records, m.Radius, m.Lambda, m.Cover)
	if err != nil {
		return nil, err
	}
	l := q.Constants.Lipschitz
	if err := known("Lipschitz", l, "declare a bounded Set, or clip the loss by loss.NewClipped"); err != nil {
		return nil, err
	}
	sigma, err := dp.GaussianSigma(q.Budget, 1)
	if err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	g := l // of the sum of gradients
	if fault.At(q.faults, fault.Relation, rel) == dp.Replace {
		g = 2 * l
	}
	pl := &ObjPlan{Public: q, Relation: rel, Theorem: TheoremOutput, Lambda: m.Lambda, Output: q.Budget, Trace: m.Trace}
	if pl.Lambda == 0 {
		// (L² + Lσ√d·G/2)/(λn) + λM² is least here.
		pl.Lambda = math.Sqrt(l*(l+sigma*math.Sqrt(q.d())*g/2)/q.n()) / q.Radius
	}
	pl.Delta = 2 * q.n() * pl.Lambda
	if err := pl.setCover(m.Cover); err != nil {
		return nil, err
	}
	sensitivity := (g/pl.Delta + 2*pl.Cover) * safeScale
	if pl.OutputSigma, err = dp.GaussianSigma(q.Budget, sensitivity); err != nil {
		return nil, fmt.Errorf("sco: output noise: %w", err)
	}
	pl.S = sensitivity / pl.OutputSigma
	pl.Bound = l*l/(pl.Lambda*q.n()) + pl.Lambda*q.Radius*q.Radius + pl.coverCost()
	return orNone(pl, pl.valid())
}

// valid refuses a plan with a value that float64 or the samplers of package
// noise cannot hold, or that no calibration made.
func (pl *ObjPlan) valid() error {
	if pl == nil || pl.Theorem == "" {
		return fmt.Errorf("%w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	scale := max(pl.Sigma, pl.OutputSigma)
	if !(pl.Delta > 0 && pl.Delta < largest && pl.Cover > 0 && pl.OutputSigma > 0 && scale < largest && (pl.Sigma > 0 || pl.Theorem == TheoremOutput)) {
		return fmt.Errorf("%w: the calibration leaves the range of float64 (Delta %v, Sigma %v, Cover %v, OutputSigma %v): rescale the problem",
			ErrMechanism, pl.Delta, pl.Sigma, pl.Cover, pl.OutputSigma)
	}
	return nil
}
