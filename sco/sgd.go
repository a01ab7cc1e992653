// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// Scheme is how NoisySGD and ProxGD sample batches.
type Scheme int

const (
	// Poisson takes every record with probability q, independently: the least
	// noise under dp.Replace, and the only scheme under dp.AddRemove.
	Poisson Scheme = iota
	// FixedSize takes m of n records without replacement.
	FixedSize
	// WithReplacement takes m independent draws, as [BFTT19] does.
	WithReplacement
)

// String returns "poisson", "fixed-size", "with-replacement" or a marker.
func (s Scheme) String() string {
	if names := [...]string{"poisson", "fixed-size", "with-replacement"}; s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("invalid scheme %d", int(s))
}

// sampler returns the scheme with an expected batch of m records.
func (s Scheme) sampler(m float64, q setting) dp.Sampler {
	switch s {
	case FixedSize:
		return dp.Sampler{Size: int(math.Ceil(min(m, q.n()))), Records: q.Records}
	case WithReplacement:
		return dp.Sampler{Size: int(math.Ceil(m)), Records: q.Records, Repeats: true}
	}
	return dp.Sampler{Rate: min(1, m/q.n()), Relation: q.rel}
}

// NoisySGD is noisy mini-batch SGD [BFTT19, Algorithm 1]: from w₀, the projection of 0 on W, for
// t = 0, …, T−1
//
//	g_t     = (1/(qn)) ( Σ_{i∈B_t} clip_L ∇ℓ(w_t; z_i) + zL·N(0, I) )
//	w_{t+1} = P_W(w_t − ηg_t)
//
// and the release is the average of w₀, …, w_T. The divisor qn does not depend on the batch, and an
// empty batch is a step of noise. All iterates are accounted for. A problem's Reg enters as the
// proximal map of (η/n)r; the bounds are about problems without one. The zero value means the
// documented defaults and needs only a bounded Set or a Radius.
type NoisySGD struct {
	// Relation of neighboring data sets; 0 means dp.Replace. dp.AddRemove needs Scheme Poisson and
	// the Records of the problem.
	Relation dp.Relation
	// Scheme of sampling; the zero value is Poisson.
	Scheme Scheme
	// Radius is M ≥ ‖w₀ − w*‖, a public guess; 0 means the radius of the Set.
	Radius float64
	// Clip is L; 0 means the constant of the loss. Losses of ⟨a,w⟩ clipped below
	// their constant are optimized as loss.Clipped.
	Clip float64
	// Evaluations is the expected number of gradient evaluations Tqn to spend; 0 means that of the
	// parameters of [BFTT19], n^{3/2}√ε/2 at most.
	Evaluations float64
	// Steps, Batch and StepSize fix T, qn and η; 0 means the best.
	Steps    int
	Batch    float64
	StepSize float64
	// Trace, if not nil, is called at the end of every fit with the released point, the numbers of
	// steps and of gradients, and nothing else. Not private.
	Trace func(erm.Trace)
}

// ProxGD is NoisySGD on the Moreau envelope of the loss of each record,
//
//	ℓ_β(w; z) = min_v ℓ(v; z) + (β/2)‖v − w‖²,   ℓ_β ≤ ℓ ≤ ℓ_β + L²/(2β)
//
// which is β-smooth and L-Lipschitz, for losses with kinks. The gradient of a loss φ(⟨a,w⟩; b) is a
// multiple of a, from the proximal map of φ on the line: in closed form for a loss.Proximable, else
// by bisection. For other losses a search that reads one record and the iterate finds it to
// L/(10n). Gradients are clipped as in [NoisySGD], so that privacy does not rest on their accuracy.
type ProxGD struct {
	NoisySGD
	// Smoothing is β; 0 means 1/η for Poisson batches and 2/η for others, the largest with which
	// steps do not expand.
	Smoothing float64
}

// DPSGD is noisy SGD as practitioners run it: T = ⌈Epochs·n/Batch⌉ steps over Poisson batches,
// gradients clipped at Clip, momentum, and the last iterate. There is no bound on the loss. Choose
// the parameters without the records: a search over them costs budget that nothing here accounts
// for.
type DPSGD struct {
	Relation dp.Relation     // see NoisySGD
	Epochs   float64         // expected passes over the records; 0 means 5
	Batch    float64         // expected size of a batch; 0 means √n·4, at most n
	Clip     float64         // 0 means the constant of the loss
	StepSize float64         // η for the mean gradient; 0 means M/√(TV) as for NoisySGD
	Radius   float64         // see NoisySGD; needed without a StepSize and a bounded Set
	Momentum float64         // in [0, 1): v = Momentum·v + g, w ← P_W(w − ηv)
	Average  bool            // release the average of the iterates in place of the last
	Trace    func(erm.Trace) // if not nil, called at the end of every fit. Not private
}

// Fit releases the average iterate of p under the budget b. src feeds sampling and noise; nil means
// a secure one, anything else adds the assumption dp.CallerSource. The errors are those of Plan and
// of [Plan.Fit].
func (m *NoisySGD) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return planAndFit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p: it reads dimensions, declared bounds, loss and set, and no record. Errors
// are those of Calibrate or wrap erm.ErrProblem.
func (m *NoisySGD) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(NoisySGD))
	return planFor(p, m.Relation, b, m.Calibrate)
}

// Fit is NoisySGD.Fit for the envelope.
func (m *ProxGD) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return planAndFit(ctx, m.Plan, p, b, src)
}

// Plan is NoisySGD.Plan for the envelope.
func (m *ProxGD) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(ProxGD))
	return planFor(p, m.Relation, b, m.Calibrate)
}

// Fit releases the last iterate of p under the budget b, as NoisySGD.Fit does.
func (m *DPSGD) Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return planAndFit(ctx, m.Plan, p, b, src)
}

// Plan calibrates for p as NoisySGD.Plan does.
func (m *DPSGD) Plan(p *erm.Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(DPSGD))
	return planFor(p, m.Relation, b, m.Calibrate)
}

// batches runs noisy SGD.
func (f *fit) batches() error {
	grid := newGrid(f.Clip, f.Dim)
	law := release.Noise{Exponent: grid.exponent, Sigma: f.scale()} // N(0, z²L²I)
	list := f.Sampler.Batches(f.obj.Len(), f.src)
	d := f.Dim
	w, avg := f.w, make([]float64, d)
	v, noisy := make([]float64, d), make([]float64, d)
	sum, nu := make([]int64, d), make([]int64, d)
	defer clear(nu)
	floats.AddScaled(avg, 1/float64(f.Steps+1), w)
	for range f.Steps {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		batch := fault.At(f.f, fault.Batch, list())
		f.evaluations += len(batch)
		f.obj.SumRounded(sum, w, batch, grid.exponent, grid.norm) // Σ_{i∈B} kᵢ
		law.Fill(nu, f.src)
		sum, nu := fault.At(f.f, fault.GridVector, sum), fault.At(f.f, fault.GridNoise, nu)
		law.Add(noisy, sum, nu)
		for j := range v {
			v[j] = f.Momentum*v[j] + noisy[j]/f.Batch
			w[j] -= f.StepSize * v[j]
		}
		if f.op != nil {
			f.op.Prox(w, w, f.StepSize/float64(f.Records)) // P_W, with (η/n)r
		}
		floats.AddScaled(avg, 1/float64(f.Steps+1), w)
	}
	f.steps = f.Steps
	if !f.Last {
		f.w = avg
	}
	return nil
}

// perRecord returns a loss whose gradients are those of l, or of its envelope, clipped to
// Threshold. Only its gradients are used.
func (p *Params) perRecord(l loss.Loss) loss.Loss {
	lin, ok := l.(loss.Linear)
	if ok && p.Smoothing > 0 {
		lin = loss.Moreau{Loss: lin, Beta: p.Smoothing}
	}
	switch {
	case ok:
		return clippedSlope{lin, p.Threshold}
	case p.Smoothing > 0:
		return clippedGrad{envelope{l, p.Smoothing, p.Smoothness, p.Clip / (10 * float64(p.Records))}, p.Threshold}
	}
	return clippedGrad{l, p.Threshold}
}
