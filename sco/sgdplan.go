package sco

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/accounting"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// SGDParams are the numbers of calibrated noisy SGD. All are public.
type SGDParams struct {
	Theorem  string             `json:"theorem"`
	Budget   dp.Budget          `json:"budget"` // asked for
	Relation dp.Relation        `json:"relation"`
	Dim      int                `json:"dim"`     // d
	Records  int                `json:"records"` // n, or under dp.AddRemove the declared n₀
	Radius   float64            `json:"radius"`  // M
	Sampler  accounting.Sampler `json:"sampler"`
	Steps    int                `json:"steps"`    // T
	Batch    float64            `json:"batch"`    // qn, the expected size of a batch, by which sums are divided
	Clip     float64            `json:"clip"`     // L
	Noise    float64            `json:"noise"`    // z
	Sigma    float64            `json:"sigma"`    // zL/(qn), of the noise on a mean gradient, per coordinate
	StepSize float64            `json:"stepSize"` // η
	// Grid is g: rounded gradients and their noise are multiples of it. Threshold is the norm to
	// which a gradient is clipped before it is rounded, so that its norm is at most L after.
	Grid      float64 `json:"grid"`
	Threshold float64 `json:"threshold"`
	// Smoothing is the β of the envelope, 0 without one.
	Smoothing float64 `json:"smoothing"`
	Momentum  float64 `json:"momentum"`
	Last      bool    `json:"last"` // the release is the last iterate, not the average
	// ExcessBound is on the expected excess population loss against every w ∈ W with
	// ‖w − w₀‖ ≤ M, in mean form; +Inf where nothing is proved, null as JSON.
	ExcessBound float64 `json:"excessBound"`
	// PaperBound is the bound printed in the paper, of Calibration [Paper].
	PaperBound float64 `json:"paperBound"`
	// PaperNoise is the published z, and PaperDelta the δ that the accountant
	// finds for it at the ε of the budget; 0 for [Accounted].
	PaperNoise float64 `json:"paperNoise"`
	PaperDelta float64 `json:"paperDelta"`

	smoothness float64 // of one record's loss
}

// MarshalJSON writes the numbers under stable names.
func (p SGDParams) MarshalJSON() ([]byte, error) {
	type plain SGDParams // without methods
	return json.Marshal(struct {
		plain
		ExcessBound *float64 `json:"excessBound"`
	}{plain(p), proved(p.ExcessBound)})
}

// newSGDParams returns the parameters that do not depend on the schedule.
func newSGDParams(q setting, clip float64) SGDParams {
	return SGDParams{
		Theorem: theoremSGD, Budget: q.budget, Relation: q.rel, Dim: q.Dim, Records: q.Records, Radius: q.m,
		Clip: clip, ExcessBound: math.Inf(1), smoothness: q.OnSet.Smoothness,
	}
}

// composition returns the accounting of T noisy sums.
func (p *SGDParams) composition() (*accounting.Composition, error) {
	step, err := accounting.Gaussian(p.Sampler, p.Noise)
	if err != nil {
		return nil, fmt.Errorf("sco: %w: %w", ErrMechanism, err)
	}
	return accounting.Compose(step.Times(p.Steps))
}

// scale returns σ of the noise on a sum, zL rounded up.
func (p *SGDParams) scale() float64 { return math.Nextafter(p.Noise*p.Clip, math.Inf(1)) }

// SGDPlan is calibrated noisy SGD. It is immutable and safe for concurrent use.
type SGDPlan struct {
	params SGDParams
	cert   dp.Certificate
	comp   *accounting.Composition
	trace  func(erm.Trace)
}

// newSGDPlan refuses parameters that float64 or the samplers of package noise cannot
// hold, and returns their plan, certified for the budget.
func newSGDPlan(p SGDParams, assumptions []dp.Assumption, trace func(erm.Trace)) (*SGDPlan, error) {
	scale := p.Noise * p.Clip
	if !(p.Clip > 1/largest && scale > 0 && scale < largest && p.Batch > 0 && p.Steps > 0 && p.StepSize > 0 &&
		p.StepSize*scale/p.Batch < largest && p.Smoothing >= 0 && p.Smoothing < largest) {
		return nil, fmt.Errorf("sco: %w: the calibration leaves the range of float64 (Noise %v, Clip %v, Batch %v, StepSize %v, Smoothing %v): "+
			"rescale the problem",
			ErrMechanism, p.Noise, p.Clip, p.Batch, p.StepSize, p.Smoothing)
	}
	g := newGrid(p.Clip, p.Dim)
	if !(math.Ldexp(p.scale(), -g.exponent) <= largestNoise) {
		return nil, fmt.Errorf("sco: %w: noise of standard deviation %v is more than 2⁵² steps of the grid 2^%d: a budget this small needs "+
			"fewer steps or larger batches", ErrMechanism, p.scale(), g.exponent)
	}
	p.Grid, p.Threshold = math.Ldexp(1, g.exponent), g.limit
	comp, err := p.composition()
	if err != nil {
		return nil, err
	}
	cert := certified(p.Theorem, p.Budget, p.Relation, nil)
	if !p.proves() {
		cert = cert.With(dp.LossArithmetic)
	}
	return &SGDPlan{params: p, cert: cert.With(assumptions...), comp: comp, trace: trace}, nil
}

// proves reports whether the sums are certainly within the budget: those over all records are T
// Gaussian mechanisms, δ_G(ε; √T·rL/σ) ≤ δ, with r = 2 for replacement and 1 for adding or
// removing.
func (p *SGDParams) proves() bool {
	if _, copies := p.Sampler.(accounting.WithReplacement); copies || p.Sampler.Fraction() != 1 {
		return false
	}
	reach := 1.0
	if p.Relation == dp.Replace {
		reach = 2
	}
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		s := c.Quo(c.Mul(c.Of(reach), c.Mul(c.Sqrt(c.Of(float64(p.Steps))), c.Of(p.Clip))), c.Of(p.scale()))
		return c.GaussianDelta(c.Of(p.Budget.Epsilon), s), c.Of(p.Budget.Delta)
	})
}

// Params returns a copy of the numbers of the plan, the zero value of an empty one.
func (pl *SGDPlan) Params() SGDParams {
	if pl == nil {
		return SGDParams{}
	}
	return pl.params
}

// Certificate returns the cost of one release, the zero value for an empty plan.
func (pl *SGDPlan) Certificate() dp.Certificate {
	if pl == nil {
		return dp.Certificate{}
	}
	return pl.cert.With()
}

// Profile returns δ(ε) of all noisy sums of one release, by the accountant.
func (pl *SGDPlan) Profile() dp.Profile {
	if pl == nil || pl.comp == nil {
		return dp.Unknown()
	}
	return pl.comp.Profile()
}

// String describes the plan in prose.
func (pl *SGDPlan) String() string {
	if pl == nil || pl.comp == nil {
		return "an empty plan of noisy SGD"
	}
	p := pl.params
	what, end := "every record's gradient", "the average of the iterates"
	if p.Smoothing > 0 {
		what = fmt.Sprintf("the gradient of every record's Moreau envelope of smoothness %.6g", p.Smoothing)
	}
	if p.Last {
		end = "the last iterate"
	}
	return fmt.Sprintf("Noisy SGD: %d steps of length %.6g with momentum %.3g over %v; %s is clipped to norm %.6g and rounded to multiples "+
		"of %.6g; "+
		"the sum of a batch gets Gaussian noise of standard deviation %.6g in each of %d coordinates and is divided by %.6g; the release is "+
		"%s.\n%v",
		p.Steps, p.StepSize, p.Momentum, p.Sampler, what, p.Clip, p.Grid, p.scale(), p.Dim, p.Batch, end, pl.cert)
}

// Parameters of a fit that an audit may replace.
var (
	sgdParams  = fault.NewStep[SGDParams](fault.SGDParams)
	passParams = fault.NewStep[PassParams](fault.PassParams)
)

// Fit runs the T steps of the plan on p and releases the average of the
// iterates, or the last one. Its memory does not grow with T.
//
// p must have the dimension of the plan and, under dp.Replace, its number of
// records. Gradients are clipped to Clip whatever the loss promises, so that any
// loss and set give the guarantee. src feeds sampling and noise; nil means
// a secure source, anything else adds the assumption dp.CallerSource. Fit may be
// called concurrently. Each call spends the budget once.
//
// The error wraps ErrMechanism or erm.ErrProblem if p does not fit, or is
// ctx.Err() if ctx was cancelled, or wraps noise.ErrSource if src repeats itself.
func (pl *SGDPlan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if pl == nil || pl.comp == nil {
		return nil, fmt.Errorf("sco: %w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	if err := admit(p, pl.params.Dim, pl.params.Records, pl.params.Relation); err != nil {
		return nil, err
	}
	op, err := joint(p)
	if err != nil {
		return nil, err
	}
	src, cert := signed(pl.cert, src, locality(p))
	f := fault.From(ctx)
	par := fault.At(f, sgdParams, pl.params)
	grid := newGrid(par.Clip, par.Dim)
	obj := (&erm.Problem{Data: p.Data, Loss: par.perRecord(p.Loss)}).Perturb(erm.Perturbation{})
	batches := par.Sampler.Batches(obj.Len(), src)
	d := par.Dim
	w, avg, v := start(p.Set, d), make([]float64, d), make([]float64, d)
	sum, nu := make([]int64, d), make([]int64, d)
	defer clear(nu)
	floats.AddScaled(avg, 1/float64(par.Steps+1), w)
	evaluations := 0
	for range par.Steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch := fault.At(f, fault.Batch, batches.Next())
		evaluations += len(batch)
		obj.SumRounded(sum, w, batch, grid.exponent, grid.norm) // Σ_{i∈B} kᵢ
		noise.Grid(nu, par.scale(), grid.exponent, src)         // N(0, z²L²I), rounded to the grid
		sum, nu := fault.At(f, fault.GridVector, sum), fault.At(f, fault.GridNoise, nu)
		for j := range v {
			v[j] = par.Momentum*v[j] + par.Grid*float64(sum[j]+nu[j])/par.Batch
			w[j] -= par.StepSize * v[j]
		}
		if op != nil {
			op.Prox(w, w, par.StepSize/float64(par.Records)) // P_W, with (η/n)r
		}
		floats.AddScaled(avg, 1/float64(par.Steps+1), w)
	}
	if par.Last {
		avg = w
	}
	return released(cert, src, obj, pl.trace, avg, par.Steps, evaluations)
}

// perRecord returns a loss whose gradients are those of l, or of its envelope,
// clipped to Threshold. Only its gradients are used.
func (p *SGDParams) perRecord(l loss.Loss) loss.Loss {
	lin, ok := l.(loss.Linear)
	if ok && p.Smoothing > 0 {
		lin = loss.Moreau{Loss: lin, Beta: p.Smoothing}
	}
	switch {
	case ok:
		return clippedSlope{lin, p.Threshold}
	case p.Smoothing > 0:
		return clippedGrad{envelope{l, p.Smoothing, p.smoothness, p.Clip / (10 * float64(p.Records))}, p.Threshold}
	}
	return clippedGrad{l, p.Threshold}
}
