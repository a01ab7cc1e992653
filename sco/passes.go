// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/draw"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// PermutationSGD is output noise on SGD without noise [WLKCJN17]: Passes times over a random
// permutation of the records, in batches of b (records beyond the last full batch are left out),
//
//	w ← P_W(w − (η/b) Σ_{i∈B} ∇ℓ(w; zᵢ)),   release P_W(average + ν)
//
// The Gaussian ν hides 2·Passes·Lη/b and rounding, η ≤ 2/β. For one pass in T = ⌊n/b⌋ batches, σ of
// ν,
//
//	E F − F(w*) ≤ M²/(2ηT) + ηL²/2 + Lσ√d
//
// With Ridge = Δ = 2nλ > 0 every record has λ‖w‖² on top, steps are η_t = min( 1/(β+2λ), 1/(2λt) ),
// the last iterate is released, and ν hides L/(λb⌊n/b⌋) for any number of passes; no bound on the
// population loss is stated. It is a baseline: its rate is d^{1/4}/√(nε). Only dp.Replace. Proofs:
// docs/theory/population.md#sco.psgd/2 and docs/theory/population.md#sco.psgd-strong/2
type PermutationSGD struct {
	Passes   int             // k; 0 means 1
	Batch    int             // b; 0 means 1
	StepSize float64         // η ≤ 2/β; 0 means the best for one pass
	Ridge    float64         // Δ = 2nλ; 0 means none, and steps of one length
	Radius   float64         // M; 0 means the radius of the Set
	Trace    func(erm.Trace) // if not nil, called at the end of every fit. Not private
}

// Phased is SGD in phases [FKT20]: phase i takes n_i ≈ n/2^i fresh records of a random permutation
// one by one, with step η_i = η/4^i ≤ 2/β, from where the phase before it was released,
//
//	w ← P_W(w − η_i∇ℓ(w; z)),   w_i = average + N(0, σ_i²I)
//
// where the noise hides 2Lη_i and rounding. n gradients, one pass. Against ‖w₀ − w*‖ ≤ M
//
//	E F − F(w*) ≤ M²/(2η₁n₁) + Σᵢ η_iL²/2 + Σ_{i≥2} dσ²_{i−1}/(2η_in_i) + Lσ_k√d
//
// which at the best η is about 1.7·ML/√n + 16·ML√d/(sn), s = 2Lη_i/σ_i: the optimal rate. Only
// dp.Replace. Proof: docs/theory/population.md#sco.phased/2
type Phased struct {
	StepSize float64         // η; 0 means the best
	Radius   float64         // M; 0 means the radius of the Set
	Trace    func(erm.Trace) // if not nil, called at the end of every fit. Not private
}

// Fit releases the average iterate under the budget b, as NoisySGD.Fit does.
func (m *PermutationSGD) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return planAndFit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p as NoisySGD.Plan does.
func (m *PermutationSGD) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	return planFor(p, dp.Replace, b, convexity, m.Calibrate)
}

// Fit releases the last phase under the budget b, as NoisySGD.Fit does.
func (m *Phased) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return planAndFit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p as NoisySGD.Plan does.
func (m *Phased) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	return planFor(p, dp.Replace, b, convexity, m.Calibrate)
}

// course holds the quantities that the layout of phases depends on.
type course struct {
	setting
	l, beta float64
	longest float64 // the longest step that does not expand, rounded steps included
	unit    float64 // σ that hides a sensitivity of 1
	batch   float64 // b
	lambda  float64 // λ
}

// newCourse checks q and the fields that both mechanisms have.
func newCourse(q erm.Public, b dp.Budget, radius, stepSize float64) (course, error) {
	if err := cmp.Or(checkField("StepSize", "the best", stepSize),
		checkField("Radius", "the radius of Set", radius)); err != nil {
		return course{}, err
	}
	set, err := newSetting(q, dp.Replace, b, radius)
	if err != nil {
		return course{}, err
	}
	c := course{setting: set, l: set.OnSet.Lipschitz, beta: set.OnSet.Smoothness, batch: 1}
	if err := cmp.Or(
		release.CheckConstant("Lipschitz", c.l, "declare a bounded Set, or clip the loss by loss.NewClipped"),
		release.CheckConstant("Smoothness", c.beta,
			"use loss.Moreau of the loss, as the proof needs steps that do not expand"),
	); err != nil {
		return c, fmt.Errorf("sco: %w", err)
	}
	c.longest = 2 / c.beta * (1 - 0x1p-50)
	if c.unit, err = dp.GaussianSigma(b, 1+1e-9); err != nil {
		return c, fmt.Errorf("sco: %w", err)
	}
	return c, nil
}

// check refuses steps that are too long to be nonexpansive.
func (c course) check(eta float64) error {
	if eta > c.longest {
		return refuse(dp.ErrCondition, "a step of %v expands, want at most 2/β = %v", eta, c.longest)
	}
	return nil
}

const unit = 0x1p-53 // u

// phase returns a phase of n records and the given number of steps of length η: a bound on its
// iterates, the sensitivity with rounding, the grid, and the noise. from bounds the distance of its
// start from w₀. A step that is computed is within e of one that does not expand:
// docs/theory/population.md#population.rounding
func (c course) phase(n int, steps, eta, sensitivity, from float64) Phase {
	ph := Phase{Records: n, StepSize: eta, Sensitivity: sensitivity}
	switch pull := c.l + c.Slope/c.n(); {
	case !math.IsInf(c.Radius, 1):
		ph.Reach = c.Radius
	case c.lambda > 0: // ‖w − w₀‖ ← (1−2λη)‖w − w₀‖ + η(2λ‖w₀‖ + pull)
		ph.Reach = 2*c.Anchor + pull/(2*c.lambda)
	default:
		ph.Reach = c.Anchor + from + steps*eta*pull
	}
	move := max(64*(c.d()+c.batch), 19*(c.d()+c.batch)+c.ProxFactor)
	e := unit * (move*eta*(c.l+c.beta*ph.Reach) + (16+c.ProxFactor)*ph.Reach + c.ProxFactor*c.ProxScale)
	moved := sensitivity*(1+4*steps*unit) + 2*steps*e + 4*unit*ph.Reach*(steps+1)
	_, fine := math.Frexp(moved / math.Sqrt(c.d()))
	_, coarse := math.Frexp(ph.Reach)
	ph.Grid = math.Ldexp(1, max(fine-21, coarse-50)) // |mean/g| < 2⁵²
	ph.Hidden = (moved + ph.Grid*math.Sqrt(c.d())) * (1 + 0x1p-40)
	ph.Sigma = ph.Hidden * c.unit
	return ph
}

// error bounds how far rounding moves the end of a phase.
func (ph Phase) error() float64 { return ph.Hidden - ph.Sensitivity }

// Calibrate returns the plan for problems with the public quantities q, under the budget
// b. Errors wrap ErrMechanism, erm.ErrProblem, dp.ErrBudget or dp.ErrCondition.
func (m *PermutationSGD) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(PermutationSGD))
	c, err := newCourse(q, b, m.Radius, m.StepSize)
	if err != nil {
		return nil, err
	}
	if err := checkField("Ridge", "none", m.Ridge); err != nil {
		return nil, err
	}
	if m.Ridge > 0 && m.StepSize > 0 {
		return nil, refuse(ErrMechanism, "StepSize = %v has no meaning with Ridge = %v, whose steps shrink, want 0",
			m.StepSize, m.Ridge)
	}
	if m.Passes < 0 || m.Batch < 0 || m.Batch > c.Records {
		return nil, refuse(ErrMechanism, "Passes = %d, Batch = %d, want numbers ≥ 0, Batch at most n = %d", m.Passes, m.Batch,
			c.Records)
	}
	p := newParams(theoremPSGD, c.setting, c.l)
	p.Passes, p.Batch = max(m.Passes, 1), float64(max(m.Batch, 1))
	k := float64(p.Passes)
	c.batch = p.Batch
	steps := math.Floor(c.n() / c.batch) // of one pass
	var ph Phase
	if m.Ridge > 0 {
		p.Theorem, p.Ridge, c.lambda = theoremPSGDStrong, m.Ridge, m.Ridge/(2*c.n())
		ph = c.phase(c.Records, k*steps, 1/(c.beta+2*c.lambda), c.l/(c.lambda*c.batch*steps), 0)
	} else {
		// The bound is M²/(2ηT) + ηv/2 with Lσ√d = 2kL²η√d·unit/b.
		v := c.l * c.l * (1 + 4*k*math.Sqrt(c.d())/c.batch*c.unit)
		eta := m.StepSize
		if eta == 0 {
			eta = min(c.m/math.Sqrt(steps*v), c.longest)
		}
		if err := c.check(eta); err != nil {
			return nil, err
		}
		ph = c.phase(c.Records, k*steps, eta, 2*k*c.l*eta/c.batch, 0)
		if p.Passes == 1 {
			p.ExcessBound = c.m*c.m/(2*eta*steps) + eta*c.l*c.l/2 + c.l*(ph.Sigma*math.Sqrt(c.d())+ph.error())
		}
	}
	p.Phases = []Phase{ph}
	return newPassPlan(p, c.Public, m.Trace, ph.Hidden, ph.Sensitivity)
}

// Calibrate returns the plan for problems with the public quantities q, under the budget
// b. Errors wrap ErrMechanism, erm.ErrProblem, dp.ErrBudget or dp.ErrCondition.
func (m *Phased) Calibrate(q erm.Public, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(Phased))
	c, err := newCourse(q, b, m.Radius, m.StepSize)
	if err != nil {
		return nil, err
	}
	// n_i = ⌊n/2^i⌋ for i ≥ 2, and the rest in phase 1.
	sizes := []int{c.Records}
	for n := c.Records / 4; n >= 1; n /= 2 {
		sizes = append(sizes, n)
		sizes[0] -= n
	}
	// Without rounding the bound is first/η + ηv with the sums at η = 1.
	step := func(i int) float64 { return math.Pow(4, -float64(i+1)) }
	sigma := func(i int) float64 { return 2 * c.l * step(i) * c.unit }
	first := c.m * c.m / (2 * step(0) * float64(sizes[0]))
	v := 0.0
	for i, n := range sizes {
		v += step(i) * c.l * c.l / 2
		if i > 0 {
			v += c.d() * sigma(i-1) * sigma(i-1) / (2 * step(i) * float64(n))
		}
	}
	v += c.l * math.Sqrt(c.d()) * sigma(len(sizes)-1)
	eta := m.StepSize
	if eta == 0 {
		eta = min(math.Sqrt(first/v), c.longest/step(0))
	}
	if err := c.check(eta * step(0)); err != nil {
		return nil, err
	}
	p := newParams(theoremPhased, c.setting, c.l)
	p.Passes = 1
	p.ExcessBound = first / eta
	from := 0.0
	for i, n := range sizes {
		e := eta * step(i)
		if i > 0 { // the start is noisy, and rounded
			last := p.Phases[i-1]
			p.ExcessBound += (c.d()*last.Sigma*last.Sigma + last.error()*last.error()) / (2 * e * float64(n))
			from = last.next(c.Anchor, c.Dim) * (1 + 0x1p-40)
		}
		ph := c.phase(n, float64(n), e, 2*c.l*e, from)
		p.ExcessBound += e*c.l*c.l/2 + c.l*ph.error()
		p.Phases = append(p.Phases, ph)
	}
	p.ExcessBound += c.l * math.Sqrt(c.d()) * p.Phases[len(sizes)-1].Sigma
	return newPassPlan(p, c.Public, m.Trace, p.ExcessBound, first/eta+eta*v)
}

// newPassPlan refuses parameters that float64 or the samplers of package noise cannot hold, and
// plans in which rounding raises a quantity from exact to rounded by more than a hundredth.
func newPassPlan(p Params, q erm.Public, trace func(erm.Trace), rounded, exact float64) (*Plan, error) {
	if !(p.Clip > 1/largest && p.Ridge < largest) {
		return nil, refuse(ErrMechanism, "Lipschitz = %v with Ridge = %v leaves the range of float64: rescale the problem",
			p.Clip, p.Ridge)
	}
	for i, ph := range p.Phases {
		if !(ph.Sensitivity > 1/largest && ph.Sigma < largest && ph.StepSize > 0 && ph.StepSize < largest &&
			ph.Reach < largest && ph.Sigma/ph.Grid <= largestNoise) {
			return nil, refuse(ErrMechanism, "phase %d leaves the range of float64 (StepSize %v, Sigma %v, Grid %v): "+
				"rescale the problem", i+1, ph.StepSize, ph.Sigma, ph.Grid)
		}
	}
	if !(rounded <= 1.01*exact) {
		return nil, refuse(dp.ErrCondition, "rounding would raise %v to %v, want a hundredth of it at most: take fewer "+
			"or longer steps, or a smaller Set", exact, rounded)
	}
	cert := dp.Certificate{Budget: p.Budget, Relation: dp.Replace, Theorem: p.Theorem}
	return &Plan{params: p, known: q, cert: cert.With(q.Assumptions...), trace: trace}, nil
}

// convex returns l, with clipped gradients if it is a loss of ⟨a,w⟩: these are those of a convex
// loss.
func (p *Params) convex(l loss.Loss) loss.Loss {
	if lin, ok := l.(loss.Linear); ok {
		return clippedSlope{lin, p.Clip}
	}
	return l
}

// phases runs passes over a permutation.
func (f *fit) phases() error {
	order := rand.New(f.src).Perm(f.Records) // uniform for a uniform source
	d, n, size := f.Dim, float64(f.Records), int(f.Batch)
	lambda := f.Ridge / (2 * n)
	w, origin, mean, g := f.w, slices.Clone(f.w), make([]float64, d), make([]float64, d)
	nu := make([]int64, d)
	defer clear(nu)
	for i, ph := range f.Phases {
		if i > 0 {
			stayNear(w, origin, f.Phases[i-1].next(floats.Norm(origin, 2), d))
		}
		clear(mean)
		count := 0.0
		records := fault.At(f.f, fault.Batch, order[:ph.Records])
		order = order[ph.Records:]
		for range f.Passes {
			for lo := 0; lo+size <= ph.Records; lo += size {
				if lo%4096 < size && f.ctx.Err() != nil {
					return f.ctx.Err()
				}
				count++
				for j := range mean { // average of the points where gradients are taken
					mean[j] += (w[j] - mean[j]) / count
				}
				f.obj.GradTerms(g, w, records[lo:lo+size])
				eta := ph.StepSize
				if lambda > 0 {
					eta = min(eta, 1/(2*lambda*count))
					floats.Scale(1-2*lambda*eta, w)
				}
				floats.AddScaled(w, -eta/f.Batch, g)
				if f.op != nil {
					f.op.Prox(w, w, eta/n) // P_W, with (η/n)r
				}
				f.steps++
			}
		}
		if lambda > 0 {
			copy(mean, w)
		}
		law := draw.Noise{Exponent: math.Ilogb(ph.Grid), Sigma: ph.Sigma}
		law.Fill(nu, f.src)
		k, nu := fault.At(f.f, fault.GridVector, law.Round(mean, 1<<52)), fault.At(f.f, fault.GridNoise, nu)
		law.Add(w, k, nu)
		if f.set != nil {
			f.set.Prox(w, w, 1)
		}
	}
	f.evaluations = f.steps * size
	return nil
}

// next bounds how far from w₀ the phase after this one starts, anchor ≥ ‖w₀‖.
func (ph Phase) next(anchor float64, d int) float64 {
	return ph.Reach + anchor + ph.Sigma*(math.Sqrt(float64(d))+40)
}

// stayNear moves w toward origin until it is within reach of it. As w was released this is
// post-processing; noise that takes it farther away has probability below e⁻⁸⁰⁰.
func stayNear(w, origin []float64, reach float64) {
	if r := floats.Distance(w, origin, 2); r > reach {
		for j := range w {
			w[j] = origin[j] + (w[j]-origin[j])*(reach/r)
		}
	}
}
