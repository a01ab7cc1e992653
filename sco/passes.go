package sco

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// PermutationSGD is output noise on SGD without noise [WLKCJN17]: Passes times
// over a random permutation of the records, in batches of b (records beyond the last full batch are left out),
//
//	w ← P_W(w − (η/b) Σ_{i∈B} ∇ℓ(w; zᵢ)),   release P_W(average + ν)
//
// Steps with η ≤ 2/β do not expand, and a replaced record is in one batch a pass:
// neighbors end within 2·Passes·Lη/b, which the Gaussian ν hides. For one pass
// over n records in T = ⌊n/b⌋ batches every gradient is fresh, and with σ of ν
//
//	E F − F(w*) ≤ M²/(2ηT) + ηL²/2 + Lσ√d
//
// It is a baseline: its rate is d^{1/4}/√(nε). Only dp.Replace.
//
// With Lambda = λ > 0 every record has λ‖w‖² on top, as in Output, steps shrink and
// the last iterate is released [WLKCJN17, Lemma 8]: for t = 1, …, T, T = k⌊n/b⌋,
//
//	w ← P_W(w − η_t((1/b) Σ_{i∈B} ∇ℓ(w; zᵢ) + 2λw)),   η_t = min( 1/(β+2λ), 1/(2λt) )
//
// A step contracts by 1 − 2λη_t, and λ‖w‖² is the same for all records, so that a
// record moves step s by 2Lη_s/b and the end by 2Lη_s/b · Π_{t>s}(1 − 2λη_t), which is at most
// L/(λbT): with x = 2λη_t = min(2λ/(β+2λ), 1/t) that is xΠ ≤ 1/T. It is in k of the
// steps, hence neighbors end within L/(λb⌊n/b⌋), for any number of passes. No bound
// on the population loss is stated.
type PermutationSGD struct {
	Passes   int     // k; 0 means 1
	Batch    int     // b; 0 means 1
	StepSize float64 // η ≤ 2/β; 0 means the best for one pass
	Lambda   float64 // λ; 0 means none, and steps of one length
	Radius   float64 // M; 0 means what the Set gives
	// Trace, if not nil, is called at the end of every fit. Not private.
	Trace func(Trace)
}

// Phased is SGD in phases [FKT20]: phase i takes n_i ≈ n/2^i fresh records of a
// random permutation one by one, with step η_i = η/4^i, from where the phase before
// it was released,
//
//	w ← P_W(w − η_i∇ℓ(w; z)),   w_i = average + N(0, σ_i²I),   σ_i = 2Lη_i/s
//
// Steps with η_i ≤ 2/β do not expand, so that a replaced record moves the average
// of its own phase by at most 2Lη_i, and other phases not at all but through w_i:
// with s of the analytic Gaussian mechanism at the budget, all w_i together
// satisfy it. n gradients, one pass. Against ‖w₀ − w*‖ ≤ M, with the average of a
// phase as the comparator of the next,
//
//	E F − F(w*) ≤ M²/(2η₁n₁) + Σᵢ η_iL²/2 + Σ_{i≥2} dσ²_{i−1}/(2η_in_i) + Lσ_k√d
//
// which at the best η is about 1.7·ML/√n + 16·ML√d/(sn): the optimal rate. Only
// dp.Replace.
type Phased struct {
	StepSize float64 // η; 0 means the best
	Radius   float64 // M; 0 means what the Set gives
	// Trace, if not nil, is called at the end of every fit. Not private.
	Trace func(Trace)
}

// Phase is a stretch of records, passed over with one step size, whose average
// iterate is released with Gaussian noise.
type Phase struct {
	Records     int     // n_i
	StepSize    float64 // η_i, or the longest step where λ > 0
	Sensitivity float64 // 2kLη_i/b, or L/(λb⌊n/b⌋) where λ > 0
	Sigma       float64 // σ_i
}

// PassPlan is a calibrated PermutationSGD or Phased. Its exported fields are
// public.
type PassPlan struct {
	Public
	Theorem string
	Batch   int
	Passes  int
	Lambda  float64 // λ, 0 for steps of one length
	Phases  []Phase
	// Bound is on the expected excess population loss against every w ∈ W with
	// ‖w − w₀‖ ≤ M, in mean form; +Inf for several passes and where λ > 0.
	Bound float64
	// Trace, if not nil, is called at the end of every fit. Not private.
	Trace func(Trace)
}

// Fit releases the average iterate under the budget b, as NoisySGD.Fit does.
func (m *PermutationSGD) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b, fault.From(ctx))
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p as NoisySGD.Plan does.
func (m *PermutationSGD) Plan(p *erm.Problem, b dp.Budget) (*PassPlan, error) {
	return m.plan(p, b, nil)
}

func (m *PermutationSGD) plan(p *erm.Problem, b dp.Budget, f *fault.Set) (*PassPlan, error) {
	q, err := public(p, dp.Replace, 0, m.Radius, b)
	if err != nil {
		return nil, err
	}
	q.faults = f
	return m.Calibrate(q)
}

// Fit releases the last phase under the budget b, as NoisySGD.Fit does.
func (m *Phased) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	plan, err := m.plan(p, b, fault.From(ctx))
	if err != nil {
		return nil, err
	}
	return plan.Fit(ctx, p, src)
}

// Plan calibrates for p as NoisySGD.Plan does.
func (m *Phased) Plan(p *erm.Problem, b dp.Budget) (*PassPlan, error) { return m.plan(p, b, nil) }

func (m *Phased) plan(p *erm.Problem, b dp.Budget, f *fault.Set) (*PassPlan, error) {
	q, err := public(p, dp.Replace, 0, m.Radius, b)
	if err != nil {
		return nil, err
	}
	q.faults = f
	return m.Calibrate(q)
}

// smooth checks q and returns 2/β, the longest step that does not expand, and s,
// the sensitivity over σ that the budget allows.
func (q Public) smooth() (longest, s float64, err error) {
	if err := q.check(dp.Replace); err != nil {
		return 0, 0, err
	}
	if err := known("Lipschitz", q.Constants.Lipschitz, "declare a bounded Set, or clip the loss by loss.NewClipped"); err != nil {
		return 0, 0, err
	}
	if err := known("Smoothness", q.Constants.Smoothness, "the proof needs steps that do not expand; use loss.Moreau of the loss"); err != nil {
		return 0, 0, err
	}
	sigma, err := dp.GaussianSigma(q.Budget, 1+1e-9)
	if err != nil {
		return 0, 0, fmt.Errorf("sco: %w", err)
	}
	return 2 / q.Constants.Smoothness, 1 / sigma, nil
}

// longStep refuses steps that expand.
func longStep(eta, longest float64) error {
	if eta > longest {
		return fmt.Errorf("sco: %w: a step of %v expands, want at most 2/β = %v", dp.ErrCondition, eta, longest)
	}
	return nil
}

// Calibrate returns the parameters for a problem with the public quantities q.
// Errors wrap ErrMechanism, dp.ErrBudget or dp.ErrCondition.
func (m *PermutationSGD) Calibrate(q Public) (*PassPlan, error) {
	if err := checkFields(field{"StepSize", "the best", m.StepSize}, field{"Lambda", "none", m.Lambda}, field{"Radius", "the radius of Set", m.Radius}); err != nil {
		return nil, err
	}
	if m.Lambda > 0 && m.StepSize > 0 {
		return nil, fmt.Errorf("%w: StepSize = %v has no meaning with Lambda = %v, whose steps shrink, want 0", ErrMechanism, m.StepSize, m.Lambda)
	}
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	longest, s, err := q.smooth()
	if err != nil {
		return nil, err
	}
	if m.Passes < 0 || m.Batch < 0 || m.Batch > q.Records {
		return nil, fmt.Errorf("%w: Passes = %d, Batch = %d, want numbers ≥ 0, Batch at most n = %d", ErrMechanism, m.Passes, m.Batch, q.Records)
	}
	pl := &PassPlan{Public: q, Theorem: TheoremPSGD, Passes: max(m.Passes, 1), Batch: max(m.Batch, 1), Trace: m.Trace}
	k, b, l := float64(pl.Passes), float64(pl.Batch), q.Constants.Lipschitz
	steps := math.Floor(q.n() / b)
	if m.Lambda > 0 {
		pl.Theorem, pl.Lambda, pl.Bound = TheoremPSGDStrong, m.Lambda, math.Inf(1)
		sensitivity := fault.At(q.faults, fault.Sensitivity, l/(m.Lambda*b*steps))
		pl.Phases = []Phase{{Records: q.Records, StepSize: 1 / (q.Constants.Smoothness + 2*m.Lambda), Sensitivity: sensitivity, Sigma: sensitivity / s}}
		return orNone(pl, pl.valid())
	}
	// The bound is M²/(2ηT) + ηv/2 with Lσ√d = 2kL²η√d/(bs).
	v := l * l * (1 + 4*k*math.Sqrt(q.d())/(b*s))
	eta := m.StepSize
	if eta == 0 {
		eta = min(q.Radius/math.Sqrt(steps*v), longest)
	}
	if err := longStep(eta, longest); err != nil {
		return nil, err
	}
	sensitivity := fault.At(q.faults, fault.Sensitivity, 2*k*l*eta/b)
	pl.Phases = []Phase{{Records: q.Records, StepSize: eta, Sensitivity: sensitivity, Sigma: sensitivity / s}}
	pl.Bound = math.Inf(1)
	if pl.Passes == 1 {
		pl.Bound = q.Radius*q.Radius/(2*eta*steps) + eta*v/2
	}
	return orNone(pl, pl.valid())
}

// Calibrate returns the parameters for a problem with the public quantities q.
// Errors wrap ErrMechanism, dp.ErrBudget or dp.ErrCondition.
func (m *Phased) Calibrate(q Public) (*PassPlan, error) {
	if err := checkFields(field{"StepSize", "the best", m.StepSize}, field{"Radius", "the radius of Set", m.Radius}); err != nil {
		return nil, err
	}
	if q.Radius == 0 {
		q.Radius = m.Radius
	}
	longest, s, err := q.smooth()
	if err != nil {
		return nil, err
	}
	pl := &PassPlan{Public: q, Theorem: TheoremPhased, Passes: 1, Batch: 1, Trace: m.Trace}
	// n_i = ⌊n/2^i⌋ for i ≥ 2, and the rest in phase 1.
	sizes := []int{q.Records}
	for n := q.Records / 4; n >= 1; n /= 2 {
		sizes = append(sizes, n)
		sizes[0] -= n
	}
	// The bound is first/η + ηv with the sums at η = 1.
	l, d := q.Constants.Lipschitz, q.d()
	step := func(i int) float64 { return math.Pow(4, -float64(i+1)) }
	sigma := func(i int) float64 { return 2 * l * step(i) / s }
	first := q.Radius * q.Radius / (2 * step(0) * float64(sizes[0]))
	v := 0.0
	for i, n := range sizes {
		v += step(i) * l * l / 2
		if i > 0 {
			v += d * sigma(i-1) * sigma(i-1) / (2 * step(i) * float64(n))
		}
	}
	v += l * math.Sqrt(d) * sigma(len(sizes)-1)
	eta := m.StepSize
	if eta == 0 {
		eta = min(math.Sqrt(first/v), longest/step(0))
	}
	if err := longStep(eta*step(0), longest); err != nil {
		return nil, err
	}
	for i, n := range sizes {
		e := eta * step(i)
		sensitivity := fault.At(q.faults, fault.Sensitivity, 2*l*e)
		pl.Phases = append(pl.Phases, Phase{Records: n, StepSize: e, Sensitivity: sensitivity, Sigma: sensitivity / s})
	}
	pl.Bound = first/eta + eta*v
	return orNone(pl, pl.valid())
}

// valid refuses a plan with a value that float64 or the samplers of package
// noise cannot hold, or that no calibration made.
func (pl *PassPlan) valid() error {
	if pl == nil || pl.Theorem == "" || len(pl.Phases) == 0 || pl.Batch < 1 || pl.Passes < 1 || !(pl.Lambda >= 0 && pl.Lambda < largest) {
		return fmt.Errorf("%w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if !(pl.Constants.Lipschitz > 1/largest) {
		return fmt.Errorf("%w: Lipschitz = %v leaves the range of float64: rescale the problem", ErrMechanism, pl.Constants.Lipschitz)
	}
	total := 0
	for i, ph := range pl.Phases {
		if !(ph.Sigma > 0 && ph.Sigma < largest && ph.StepSize > 0 && ph.StepSize < largest && ph.Records > 0) {
			return fmt.Errorf("%w: phase %d leaves the range of float64 (StepSize %v, Sigma %v): rescale the problem", ErrMechanism, i+1, ph.StepSize, ph.Sigma)
		}
		total += ph.Records
	}
	if total > pl.Records {
		return fmt.Errorf("%w: the phases take %d of %d records", ErrMechanism, total, pl.Records)
	}
	return nil
}

// Fit runs the phases of the plan on p. p must have the dimension and the number
// of records of the plan, and a loss whose constants are no worse. The records
// are permuted at random first: neighbors then differ in one place of the
// permutation, in whatever order they are stored.
//
// Errors are those of SGDPlan.Fit.
func (pl *PassPlan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if err := pl.admit(p); err != nil {
		return nil, err
	}
	op, err := joint(p)
	if err != nil {
		return nil, err
	}
	src, assumptions := source(src)
	f := fault.From(ctx)
	l := p.Loss
	if lin, ok := l.(loss.Linear); ok { // clipped gradients of these are those of a convex loss
		l = clippedSlope{lin, fault.At(f, fault.Clip, pl.Constants.Lipschitz)}
	}
	obj := erm.NewUnperturbed(&erm.Problem{Data: p.Data, Loss: l})
	order := fault.At(f, fault.Batch, permutation(pl.Records, src))
	w := start(p.Set, pl.Dim)
	mean, g := make([]float64, pl.Dim), make([]float64, pl.Dim)
	t := Trace{Released: true}
	for _, ph := range pl.Phases {
		clear(mean)
		count := 0.0
		for range pl.Passes {
			for lo := 0; lo+pl.Batch <= ph.Records; lo += pl.Batch {
				if lo%4096 < pl.Batch && ctx.Err() != nil {
					return nil, ctx.Err()
				}
				batch := order[lo : lo+pl.Batch]
				count++
				for j := range mean { // average of the points where gradients are taken
					mean[j] += (w[j] - mean[j]) / count
				}
				obj.GradTerms(g, w, batch)
				eta := ph.StepSize
				if pl.Lambda > 0 {
					eta = min(eta, 1/(2*pl.Lambda*count))
					floats.Scale(1-2*pl.Lambda*eta, w)
				}
				floats.AddScaled(w, -eta/float64(pl.Batch), g)
				if op != nil {
					op.Prox(w, w, eta/pl.n()) // P_W, with (η/n)r
				}
				t.Steps++
				t.Evaluations += len(batch)
			}
		}
		if pl.Lambda > 0 {
			copy(mean, w)
		}
		order = order[fault.At(f, fault.Advance, ph.Records):]
		fault.At(f, fault.Sampler, noise.Normal)(g, fault.At(f, fault.Scale, ph.Sigma), src)
		floats.AddTo(w, mean, g)
		if p.Set != nil {
			p.Set.Prox(w, w, 1)
		}
	}
	clear(g)
	if pl.Trace != nil {
		pl.Trace(t)
	}
	return &dp.Release{Theta: w, Certificate: dp.Certificate{
		Budget:      pl.Budget,
		Relation:    dp.Replace,
		Theorem:     pl.Theorem,
		Assumptions: assumptions,
	}}, nil
}

// permutation returns a uniform order of n records.
func permutation(n int, src rand.Source) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	rand.New(src).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// admit refuses a problem that the plan was not made for.
func (pl *PassPlan) admit(p *erm.Problem) error {
	if err := pl.valid(); err != nil {
		return err
	}
	if err := admit(p, pl.Dim, pl.Records, dp.Replace); err != nil {
		return err
	}
	q, err := public(p, dp.Replace, 0, pl.Radius, pl.Budget)
	if err != nil {
		return err
	}
	has, want := q.Constants, pl.Constants
	switch {
	case !(has.Lipschitz > 0 && has.Lipschitz <= want.Lipschitz):
		return fmt.Errorf("%w: the problem has Lipschitz = %v, the plan is for a known one of at most %v", ErrMechanism, has.Lipschitz, want.Lipschitz)
	case !(has.Smoothness > 0 && has.Smoothness <= want.Smoothness):
		return fmt.Errorf("%w: the problem has Smoothness = %v, the plan is for a known one of at most %v", ErrMechanism, has.Smoothness, want.Smoothness)
	}
	return nil
}
