package lop

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
)

// Public is all that a calibration knows of a problem: declared quantities,
// never a record. Mechanism.Plan fills it from an erm.Problem.
type Public struct {
	// Dim is d, the number of parameters.
	Dim int
	// Records is n. It is public under Replace only, where it enters the
	// default of Cover and the utility of Output; ignored under AddRemove. 0
	// means not stated.
	Records int
	// Constants of one record's loss. They must hold on ℝᵈ; for the structures
	// LSQ and GLM on the constraint set is enough, because φ can be continued
	// linearly beyond it without changing the constrained minimizer.
	Constants loss.Constants
	// Ridge is μ_r ≥ 0, the modulus of strong convexity of the regularizer.
	Ridge float64
	// Radius is B ≥ ‖θ₀‖₂ for the comparator θ₀ of ExcessBound, a public
	// guess. A wrong one costs utility and never privacy. 0 means not stated.
	Radius float64
	// Budget of the whole release, output noise included.
	Budget dp.Budget
}

// check refuses constants that no noise could be scaled by.
func (q Public) check(needSmooth bool) error {
	k := q.Constants
	switch {
	case q.Dim < 1:
		return fmt.Errorf("%w: Dim = %d, want at least 1", ErrMechanism, q.Dim)
	case q.Records < 0:
		return fmt.Errorf("%w: Records = %d, want 0 (not stated) or more", ErrMechanism, q.Records)
	case !(q.Ridge >= 0) || math.IsInf(q.Ridge, 1):
		return fmt.Errorf("%w: Ridge = %v, want a finite number ≥ 0", ErrMechanism, q.Ridge)
	case !(q.Radius >= 0) || math.IsInf(q.Radius, 1):
		return fmt.Errorf("%w: Radius = %v, want 0 (not stated) or a positive finite bound on ‖θ₀‖₂", ErrMechanism, q.Radius)
	}
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("lop: %w", err)
	}
	if err := bounded("Lipschitz", k.Lipschitz, "declare a bounded Set, or use Clip with a loss of ⟨a,θ⟩"); err != nil {
		return err
	}
	if !needSmooth {
		return nil
	}
	if err := bounded("Smoothness", k.Smoothness, "use a loss with a Lipschitz gradient, such as loss.Huber, or output perturbation (lop.Output)"); err != nil {
		return err
	}
	switch k.Structure {
	case loss.LSQ, loss.GLM:
	case loss.FixedRange, loss.General:
		if k.Rank < 1 {
			return fmt.Errorf("lop: %w: the loss declares Rank = %d (unknown), want at least 1; Dim = %d always holds", dp.ErrCondition, k.Rank, q.Dim)
		}
	default:
		return fmt.Errorf("lop: %w: the loss declares %v, want LSQ, GLM, FixedRange or General", dp.ErrCondition, k.Structure)
	}
	return nil
}

// bounded returns an error wrapping dp.ErrCondition unless 0 < v < ∞.
func bounded(name string, v float64, fix string) error {
	switch {
	case math.IsInf(v, 1):
		return fmt.Errorf("lop: %w: the loss has %s = +Inf on the declared bounds, so no noise is enough: %s", dp.ErrCondition, name, fix)
	case !(v > 0): // also NaN
		return fmt.Errorf("lop: %w: the loss has %s = %v on the declared bounds, which means unknown; want a positive finite constant", dp.ErrCondition, name, v)
	}
	return nil
}

// Plan is a calibrated mechanism: how much noise, and what it costs. It is made
// of public quantities alone and may be published. Fit spends its Budget once
// per call. Only Calibrate and Plan of Mechanism or Output make valid ones;
// changing a field voids the certificate.
type Plan struct {
	Public
	Relation dp.Relation
	Theorem  string // identifier of the theorem, tabled in the package comment

	// The perturbation ⟨b,θ⟩ + (Δ/2)‖θ‖².
	Delta float64 // Δ
	Sigma float64 // standard deviation σ of every coordinate of b; 0 unless Gaussian
	Rate  float64 // a in the density ∝ exp(−a‖b‖₂) of b; 0 unless pure
	C     float64 // c = ρ log1p(β/(Δ+μ_r)), the share of the curvature in ε
	S     float64 // s = G/σ, for Output (G/μ+2R)/σ_out; 0 unless Gaussian

	// The covered release: θ̂ within Cover of the minimizer, plus noise.
	Objective, Output dp.Budget // their sum is at most Budget
	Cover             float64   // R
	OutputSigma       float64   // standard deviation of the output noise; 0 if pure
	OutputRate        float64   // rate of the output noise; 0 unless pure

	// ExcessBound bounds the expected excess empirical risk, a sum over the
	// records, against the best θ₀ with ‖θ₀‖₂ ≤ Radius:
	//
	//	E F(θ_b) − F(θ₀) ≤ E‖b‖²/(2(Δ+μ_r)) + ΔB²/2,   F = Σℓ + r
	//
	// for the exact minimizer θ_b; the output noise adds at most its expected
	// norm times the Lipschitz constant of F on C. Output states its own. It is
	// +Inf where Radius is not stated.
	ExcessBound float64

	// Trace, if not nil, is called at the end of every solve. Not private: what
	// it receives is a function of the records.
	Trace func(Trace)

	curve linear.Chi // of the exact minimizer; zero unless Gaussian
	clip  float64    // threshold of LOP-Clip, 0 without
}

// Safety margins, all far below the 1e-6 that constants may exceed their
// exact values by, and far above the rounding errors they cover.
const (
	// safeScale multiplies noise scales: closed forms and quadratures of log δ
	// are correct to 1e-12, which moves s by less than that.
	safeScale = 1 + 1e-9
	// safeC multiplies c: a few units in the last place.
	safeC = 1 + 0x1p-50
)

// cCeiling is the largest share of ε that automatic Δ leaves to c: beyond it
// the noise grows without limit.
const cCeiling = 0.99

// Calibrate returns the noise for a problem with the public quantities q.
//
// Errors wrap dp.ErrBudget, dp.ErrRelation, dp.ErrCondition where no noise
// level makes the claim true (with the least value that would do), or
// ErrMechanism.
func (m *Mechanism) Calibrate(q Public) (*Plan, error) { return m.calibrate(nil, q) }

func (m *Mechanism) calibrate(f *fault.Set, q Public) (*Plan, error) {
	k, err := m.calibrator(f, q)
	if err != nil {
		return nil, err
	}
	delta := m.Delta
	if delta == 0 {
		if delta, err = k.bestDelta(); err != nil {
			return nil, err
		}
	}
	plan, err := k.plan(delta)
	if err != nil {
		return nil, err
	}
	if err := k.cover(plan); err != nil {
		return nil, err
	}
	if m.Joint {
		k.joint(plan)
	}
	plan.ExcessBound = math.Inf(1)
	if k.q.Radius > 0 {
		plan.ExcessBound = k.excess(plan)
	}
	if err := plan.valid(); err != nil {
		return nil, err
	}
	return plan, nil
}

// A calibrator knows all that is fixed before Δ is chosen.
type calibrator struct {
	m      *Mechanism
	q      Public
	rel    dp.Relation
	budget dp.Budget // of the objective
	output dp.Budget
	g      float64    // G, the most that a neighbor changes the sum of gradients
	rank   float64    // ρ of the determinant, ≤ d
	curve  linear.Chi // all but c and s
}

// calibrator checks everything that does not depend on Δ.
func (m *Mechanism) calibrator(f *fault.Set, q Public) (*calibrator, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	if relation(m.Relation) == dp.AddRemove {
		q.Records = 0 // private
	}
	if err := q.check(true); err != nil {
		return nil, err
	}
	k := &calibrator{m: m, q: q, rel: relation(m.Relation)}
	k.budget, k.output = q.Budget.Split(share(m.Share))
	k.budget = fault.At(f, fault.Objective, k.budget)
	k.g = sensitivity(fault.At(f, fault.Relation, k.rel), fault.At(f, fault.Lipschitz, q.Constants.Lipschitz))

	// Dimension of the subspace that holds one record's gradient: ρ if it is
	// declared not to move with θ, d always.
	rho, fixed := q.Constants.Rank, q.Constants.Rank
	switch q.Constants.Structure {
	case loss.LSQ, loss.GLM:
		rho, fixed = 1, 1
	case loss.General:
		fixed = q.Dim
	}
	k.rank = float64(min(rho, q.Dim))
	two := 1
	if k.rel == dp.Replace {
		two = 2
	}
	k.curve.Q = min(two*min(fixed, q.Dim), q.Dim)
	k.curve.Paired = k.rel == dp.Replace && fixed == 1 && q.Dim > 1
	k.curve.Monotone = m.Monotone

	pure := q.Budget.Delta == 0
	switch {
	case m.Calibration == CMS11 && !pure:
		return nil, fmt.Errorf("lop: %w: Calibration CMS11 is pure, want Budget.Delta = 0, got %v", dp.ErrCondition, q.Budget.Delta)
	case m.Calibration == CMS11 && k.rank > 1:
		return nil, fmt.Errorf("lop: %w: Calibration CMS11 holds for Rank 1, the loss declares %v; use Sharp", dp.ErrCondition, k.rank)
	case m.Calibration == Kifer && !pure && k.curve.Q > 2:
		return nil, fmt.Errorf("lop: %w: Calibration Kifer holds where the gradient changes in at most 2 dimensions, here %d; use Sharp", dp.ErrCondition, k.curve.Q)
	case m.Monotone && pure:
		return nil, fmt.Errorf("lop: %w: Monotone sharpens the Gaussian curve, want Budget.Delta > 0", dp.ErrCondition)
	case m.Monotone && k.rel != dp.AddRemove:
		return nil, fmt.Errorf("lop: %w: Monotone is proved for AddRemove only, Relation = %v", dp.ErrCondition, k.rel)
	case m.Monotone && fixed != 1:
		return nil, fmt.Errorf("lop: %w: Monotone needs a loss of ⟨a,θ⟩, got structure %v", dp.ErrCondition, q.Constants.Structure)
	case m.Monotone && m.Calibration != Sharp, m.Joint && m.Calibration != Sharp:
		return nil, fmt.Errorf("lop: %w: Monotone and Joint refine Calibration Sharp, got %v", dp.ErrCondition, m.Calibration)
	case m.Joint && pure:
		return nil, fmt.Errorf("lop: %w: Joint needs Gaussian noise, want Budget.Delta > 0", dp.ErrCondition)
	}
	return k, nil
}

// sensitivity returns G = 2L for Replace and L for AddRemove.
func sensitivity(rel dp.Relation, lipschitz float64) float64 {
	if rel == dp.Replace {
		return 2 * lipschitz
	}
	return lipschitz
}

// curvature returns c for modulus μ = Δ + μ_r, the bound on the logarithm of
// the ratio of determinants:
//
//	ρ log1p(β/μ)       one-sided: det(H₀+A) ≤ det(H₀)(1+β/μ)^ρ, det ≥ det(H₀)
//	2 log1p(β/μ)       [CMS11]
func (k *calibrator) curvature(mu float64) float64 {
	rho := k.rank
	if k.m.Calibration == CMS11 {
		rho = 2
	}
	return rho * math.Log1p(k.q.Constants.Smoothness/mu) * safeC
}

// leastModulus returns the least Δ + μ_r for which c ≤ share·ε; the inverse of
// curvature. Kifer's theorem fixes it at 2ρβ/ε, which gives c ≤ ε/2.
func (k *calibrator) leastModulus(share float64) float64 {
	eps, beta := k.budget.Epsilon, k.q.Constants.Smoothness
	switch k.m.Calibration {
	case Kifer:
		return 2 * k.rank * beta / eps
	case CMS11:
		return beta / math.Expm1(share*eps/2) * safeC
	}
	return beta / math.Expm1(share*eps/k.rank) * safeC
}

// scales is the noise b at one Δ.
type scales struct{ c, s, sigma, rate float64 }

// square returns E‖b‖²: dσ² or d(d+1)/a².
func (b scales) square(dim int) float64 {
	d := float64(dim)
	if b.rate > 0 {
		return d * (d + 1) / (b.rate * b.rate)
	}
	return d * b.sigma * b.sigma
}

// scales returns the noise b for modulus μ = Δ + μ_r; c < ε is the caller's.
//
//	pure   a = (ε − c)/G,  Kifer a = ε/(2G)
//	Kifer  σ = G √(8 ln(2/δ) + 4ε)/ε            [KST12], G = 2L under Replace
//	Sharp  σ = G/s, the largest s with curve(ε; s, c) ≤ δ
func (k *calibrator) scales(mu float64) scales {
	eps, delta := k.budget.Epsilon, k.budget.Delta
	b := scales{c: k.curvature(mu)}
	switch kifer := k.m.Calibration == Kifer; {
	case delta == 0 && kifer:
		b.rate = eps / (2 * k.g) / safeScale
	case delta == 0:
		b.rate = (eps - b.c) / k.g / safeScale
	case kifer:
		b.sigma = k.g * math.Sqrt(8*(math.Ln2-specfun.Log(delta))+4*eps) / eps * safeScale
		b.s = k.g / b.sigma
	default:
		u := k.curve.LeastNoise(eps-b.c, delta)
		b.sigma = k.g * u * safeScale
		b.s = k.g / b.sigma
	}
	return b
}

// plan checks Δ and fills in the perturbation.
func (k *calibrator) plan(delta float64) (*Plan, error) {
	mu, eps := delta+k.q.Ridge, k.budget.Epsilon
	b := scales{c: k.curvature(mu)}
	least := max(0, k.leastModulus(1)-k.q.Ridge)
	if k.m.Calibration == Kifer && !(mu*(1+1e-14) >= k.leastModulus(1)) {
		return nil, fmt.Errorf("lop: %w: Delta = %v, Calibration Kifer at ε = %v needs Delta ≥ 2ρβ/ε − μ_r = %v", dp.ErrCondition, delta, eps, least)
	}
	if !(b.c < eps) {
		return nil, fmt.Errorf("lop: %w: Delta = %v gives c = %v ≥ ε = %v of the objective, so no noise is enough; want Delta > %v, or 0 for automatic", dp.ErrCondition, delta, b.c, eps, least)
	}
	b = k.scales(mu)
	p := &Plan{
		Public:    k.q,
		Relation:  k.rel,
		Theorem:   k.theorem(),
		Delta:     delta,
		Sigma:     b.sigma,
		Rate:      b.rate,
		C:         b.c,
		S:         b.s,
		Objective: k.budget,
		Output:    k.output,
		Trace:     k.m.Trace,
		clip:      k.m.Clip,
	}
	if b.sigma > 0 {
		p.curve = k.curve
		p.curve.C, p.curve.S = b.c, b.s
	}
	return p, nil
}

func (k *calibrator) theorem() string {
	pure := k.budget.Delta == 0
	switch {
	case pure && k.m.Calibration == CMS11:
		return TheoremCMS11
	case pure && k.m.Calibration == Kifer:
		return TheoremKiferPure
	case pure:
		return TheoremPure
	case k.m.Calibration == Kifer:
		return TheoremKifer
	case k.m.Monotone:
		return TheoremMonotone
	}
	return TheoremCurve
}

// defaultCover is R in units of the radius B.
const defaultCover = 1e-8

// leastCover is the least R in units of B that float64 can certify.
const leastCover = 1e-14

// cover fixes R, from public quantities and before any record is seen, and the
// output noise: two runs that each end within R of the same point differ by at
// most 2R.
func (k *calibrator) cover(p *Plan) error {
	b := scales{sigma: p.Sigma, rate: p.Rate}
	mu := p.Delta + p.Ridge
	norm := math.Sqrt(b.square(p.Dim)) // ≥ E‖b‖
	radius := p.Radius
	if radius == 0 {
		radius = norm / mu // the length scale of the noise
	}
	var err error
	if p.Cover, err = coverRadius(k.m.Cover, radius, roundingFloor(p.Public, norm+p.Delta*radius)/mu); err != nil {
		return err
	}
	if k.budget.Delta == 0 {
		p.OutputRate = k.output.Epsilon / (2 * p.Cover) / safeScale
		return nil
	}
	p.OutputSigma, err = gaussianSigma(k.output, 2*p.Cover)
	return err
}

// gaussianSigma is dp.GaussianSigma with errors of this package.
func gaussianSigma(b dp.Budget, sensitivity float64) (float64, error) {
	sigma, err := dp.GaussianSigma(b, sensitivity)
	if err != nil {
		err = fmt.Errorf("lop: output noise for %v and sensitivity %v: %w", b, sensitivity, err)
	}
	return sigma, err
}

// coverRadius returns the caller's R, checked, or the default.
func coverRadius(cover, radius, floor float64) (float64, error) {
	if cover == 0 {
		return max(defaultCover*radius, floor), nil
	}
	if cover < leastCover*radius {
		return 0, fmt.Errorf("%w: Cover = %v cannot be certified in float64, want at least %v or 0 for the default", ErrMechanism, cover, leastCover*radius)
	}
	return cover, nil
}

// roundingFloor bounds what the certificate loses to rounding, in units of μR:
// the allowance of erm.Objective.Residual is 1e-12 of the norms of the terms
// of the gradient, and it should be a small part. n enters where it is public.
func roundingFloor(q Public, rest float64) float64 {
	return 8e-12 * (float64(q.Records)*q.Constants.Lipschitz + rest)
}

// joint replaces σ by the one at which objective and output noise together
// satisfy the whole budget, where that is smaller:
//
//	E δ_G(ε − c − s²/2 − sχ_q; o) ≤ δ,  o = 2R/σ_out
//
// Under Replace the average over χ₂ often loses to the sum of the two parts
// with the sharper q = 1 curve; then nothing changes.
func (k *calibrator) joint(p *Plan) {
	o := 2 * p.Cover / p.OutputSigma
	eps, delta := k.q.Budget.Epsilon, k.q.Budget.Delta
	curve := k.curve
	curve.C = p.C
	u := linear.Least(func(s float64) float64 {
		curve.S = s
		return curve.LogJoint(eps, o)
	}, specfun.Log(delta), p.Sigma/k.g)
	if sigma := k.g * u * safeScale; sigma < p.Sigma {
		p.Sigma, p.S, p.Theorem = sigma, k.g/sigma, TheoremJoint
		p.curve.S = p.S
	}
}

// excess returns E‖b‖²/(2(Δ+μ_r)) + ΔB²/2.
func (k *calibrator) excess(p *Plan) float64 {
	b := scales{sigma: p.Sigma, rate: p.Rate}
	return b.square(p.Dim)/(2*(p.Delta+p.Ridge)) + p.Delta*p.Radius*p.Radius/2
}

// bestDelta returns the Δ with the least excess bound among those with
// c ≤ 0.99 ε, by a grid in log Δ and golden section around its best point. The
// search affects utility only: every Δ it may return is calibrated by itself.
func (k *calibrator) bestDelta() (float64, error) {
	if k.m.Calibration == Kifer {
		// σ does not depend on Δ: its optimum is E‖b‖²^{1/2}/B.
		least := max(0, k.leastModulus(1)-k.q.Ridge)
		if k.q.Radius > 0 {
			b := k.scales(math.Inf(1)) // the same at every modulus
			least = max(least, math.Sqrt(b.square(k.q.Dim))/k.q.Radius-k.q.Ridge)
		}
		if least == 0 {
			least = k.leastModulus(1)
		}
		return least, nil
	}
	if k.q.Radius == 0 {
		return 0, errRadius
	}
	bound := func(delta float64) float64 {
		b := k.scales(delta + k.q.Ridge)
		return b.square(k.q.Dim)/(2*(delta+k.q.Ridge)) + delta*k.q.Radius*k.q.Radius/2
	}
	// Δ > 2·bound(Δ₀)/B² has a larger bound than Δ₀ by its second part alone.
	// Δ₀ would be the optimum if curvature cost nothing, but has c ≤ ε/2.
	free := k.scales(math.Inf(1)) // c = 0
	start := max(k.leastModulus(0.5)-k.q.Ridge, math.Sqrt(free.square(k.q.Dim))/k.q.Radius)
	least := bound(start)
	if k.q.Ridge > 0 && k.leastModulus(cCeiling) <= k.q.Ridge { // the regularizer is enough by itself
		least = min(least, bound(0))
	}
	hi := 2 * least / (k.q.Radius * k.q.Radius)
	lo := max(k.leastModulus(cCeiling)-k.q.Ridge, 1e-9*hi)
	if !(lo > 0 && max(hi, lo) < math.MaxFloat64) { // also NaN
		return 0, fmt.Errorf("%w: no finite Delta found for %v with Radius = %v: state Delta or rescale the problem", ErrMechanism, k.q.Budget, k.q.Radius)
	}
	floor := func(delta float64) float64 { // curvature costs something
		return free.square(k.q.Dim)/(2*(delta+k.q.Ridge)) + delta*k.q.Radius*k.q.Radius/2
	}
	return minimizeLog(bound, floor, lo, max(hi, lo)), nil
}

// minimizeLog returns a point of [lo, hi] where f is least, to about 1e-4 in
// log x: f is flat there, so f is least to 1e-8. floor ≤ f is cheap.
func minimizeLog(f, floor func(float64) float64, lo, hi float64) float64 {
	const points = 24
	a, step := specfun.Log(lo), (specfun.Log(hi)-specfun.Log(lo))/points
	g := func(x float64) float64 { return f(math.Exp(x)) }
	best, at := math.Inf(1), a
	try := func(x float64) {
		if floor(math.Exp(x)) < best {
			if v := g(x); v < best {
				best, at = v, x
			}
		}
	}
	first := a // where the floor is least: what is found there excludes most others
	for i := range points + 1 {
		if x := a + float64(i)*step; floor(math.Exp(x)) < floor(math.Exp(first)) {
			first = x
		}
	}
	try(first)
	for i := range points + 1 {
		if x := a + float64(i)*step; x != first {
			try(x)
		}
	}
	l, h := max(at-step, a), min(at+step, specfun.Log(hi))
	const golden = 0.6180339887498949
	x1, x2 := h-golden*(h-l), l+golden*(h-l)
	f1, f2 := g(x1), g(x2)
	for h-l > 1e-4 {
		if f1 <= f2 {
			h, x2, f2 = x2, x1, f1
			x1 = h - golden*(h-l)
			f1 = g(x1)
		} else {
			l, x1, f1 = x1, x2, f2
			x2 = l + golden*(h-l)
			f2 = g(x2)
		}
	}
	return min(max(math.Exp((l+h)/2), lo), hi)
}

// valid refuses a plan with a value that float64 or the samplers of package
// noise cannot hold, or that no calibration made.
func (p *Plan) valid() error {
	if p == nil || p.Theorem == "" {
		return fmt.Errorf("%w: the Plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	ok := p.Delta > 0 && p.Delta < largest && p.OutputSigma+p.OutputRate > 0
	for _, v := range []float64{p.Sigma, p.Rate, p.Cover, p.OutputSigma, p.OutputRate} {
		ok = ok && (v == 0 || v > 1/largest && v < largest) // false for NaN
	}
	if !ok || p.Cover <= 0 {
		return fmt.Errorf("%w: the calibration leaves the range of float64 (Delta %v, Sigma %v, Rate %v, Cover %v, OutputSigma %v, OutputRate %v): rescale the problem",
			ErrMechanism, p.Delta, p.Sigma, p.Rate, p.Cover, p.OutputSigma, p.OutputRate)
	}
	return nil
}

// largest scale or rate of noise and the inverse of the least: squares and
// products fit, and no digit is lost to subnormal numbers.
const largest = 0x1p400
