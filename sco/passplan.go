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
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Phase is a stretch of records, passed over with one step size, whose average
// iterate is released with Gaussian noise: as an integer multiple of g in each
// coordinate, with integer noise of the exact law.
type Phase struct {
	Records  int     `json:"records"`  // n_i
	StepSize float64 `json:"stepSize"` // η_i, or the longest step with a Ridge
	// Sensitivity is 2kLη_i/b, or L/(λb⌊n/b⌋) with a Ridge: how far a record moves the
	// end of the phase in exact arithmetic. Hidden is this with
	// rounding; the noise hides it.
	Sensitivity float64 `json:"sensitivity"`
	Hidden      float64 `json:"hidden"`
	Sigma       float64 `json:"sigma"` // σ_i
	Grid        float64 `json:"grid"`  // g
	Reach       float64 `json:"reach"` // ρ, a bound on the norm of the iterates
}

// PassParams are the numbers of a calibrated PermutationSGD or Phased. All are public.
type PassParams struct {
	Theorem    string    `json:"theorem"`
	Budget     dp.Budget `json:"budget"`
	Dim        int       `json:"dim"`        // d
	Records    int       `json:"records"`    // n
	Radius     float64   `json:"radius"`     // M
	Lipschitz  float64   `json:"lipschitz"`  // L, at which gradients of losses of ⟨a,w⟩ are clipped
	Smoothness float64   `json:"smoothness"` // β
	Batch      int       `json:"batch"`      // b
	Passes     int       `json:"passes"`     // k
	Ridge      float64   `json:"ridge"`      // Δ = 2nλ, 0 for steps of one length
	Phases     []Phase   `json:"phases"`
	// ExcessBound is on the expected excess population loss against every w ∈ W with
	// ‖w − w₀‖ ≤ M, in mean form; +Inf for several passes and with a Ridge, null as JSON.
	ExcessBound float64 `json:"excessBound"`
}

// MarshalJSON writes the numbers under stable names.
func (p PassParams) MarshalJSON() ([]byte, error) {
	type plain PassParams // without methods
	return json.Marshal(struct {
		plain
		ExcessBound *float64 `json:"excessBound"`
	}{plain(p), proved(p.ExcessBound)})
}

func newPassParams(c course, theorem string) PassParams {
	return PassParams{
		Theorem: theorem, Budget: c.budget, Dim: c.Dim, Records: c.Records, Radius: c.m, Lipschitz: c.l, Smoothness: c.beta,
		Batch: 1, Passes: 1, ExcessBound: math.Inf(1),
	}
}

// PassPlan is a calibrated PermutationSGD or Phased. It is immutable and safe for
// concurrent use.
type PassPlan struct {
	params PassParams
	known  erm.Public // bounds that a problem must meet
	cert   dp.Certificate
	trace  func(erm.Trace)
}

// newPassPlan refuses parameters that float64 or the samplers of package noise cannot hold, and
// plans in which rounding raises a quantity from exact to rounded by more than a hundredth.
func newPassPlan(p PassParams, q erm.Public, trace func(erm.Trace), rounded, exact float64) (*PassPlan, error) {
	if !(p.Lipschitz > 1/largest && p.Ridge < largest) {
		return nil, fmt.Errorf("sco: %w: Lipschitz = %v with Ridge = %v leaves the range of float64: rescale the problem", ErrMechanism,
			p.Lipschitz, p.Ridge)
	}
	for i, ph := range p.Phases {
		if !(ph.Sensitivity > 1/largest && ph.Sigma < largest && ph.StepSize > 0 && ph.StepSize < largest && ph.Reach < largest &&
			ph.Sigma/ph.Grid <= largestNoise) {
			return nil, fmt.Errorf("sco: %w: phase %d leaves the range of float64 (StepSize %v, Sigma %v, Grid %v): rescale the problem",
				ErrMechanism, i+1, ph.StepSize, ph.Sigma, ph.Grid)
		}
	}
	if !(rounded <= 1.01*exact) {
		return nil, fmt.Errorf("sco: %w: rounding would raise %v to %v, want a hundredth of it at most: take fewer or longer steps, or a "+
			"smaller Set", dp.ErrCondition, exact, rounded)
	}
	return &PassPlan{params: p, known: q, cert: certified(p.Theorem, p.Budget, dp.Replace, q.Assumptions), trace: trace}, nil
}

func (pl *PassPlan) empty() bool { return pl == nil || len(pl.params.Phases) == 0 }

// Params returns a copy of the numbers of the plan, the zero value of an empty one.
func (pl *PassPlan) Params() PassParams {
	if pl.empty() {
		return PassParams{}
	}
	p := pl.params
	p.Phases = append([]Phase(nil), p.Phases...)
	return p
}

// Certificate returns the cost of one release, the zero value for an empty plan.
func (pl *PassPlan) Certificate() dp.Certificate {
	if pl.empty() {
		return dp.Certificate{}
	}
	return pl.cert.With()
}

// Profile returns the curve of Gaussian noise at the largest Hidden/Sigma of a phase: each record
// is in one phase only.
func (pl *PassPlan) Profile() dp.Profile {
	if pl.empty() {
		return dp.Unknown()
	}
	s := 0.0
	for _, ph := range pl.params.Phases {
		s = max(s, math.Nextafter(ph.Hidden/ph.Sigma, math.Inf(1)))
	}
	return dp.GaussianProfile(s)
}

// String describes the plan in prose.
func (pl *PassPlan) String() string {
	if pl.empty() {
		return "an empty plan of passes over a permutation"
	}
	p := pl.params
	first, last := p.Phases[0], p.Phases[len(p.Phases)-1]
	return fmt.Sprintf("SGD over a random permutation of %d records: %d phases of %d passes in batches of %d, steps of length at most %.6g "+
		"in the first and %.6g in the last, "+
		"gradients of norm at most %.6g, ridge %.6g; the end of a phase is rounded to a grid and gets Gaussian noise of standard deviation "+
		"%.6g in the first and %.6g in the last.\n%v",
		p.Records, len(p.Phases), p.Passes, p.Batch, first.StepSize, last.StepSize, p.Lipschitz, p.Ridge, first.Sigma, last.Sigma,
		pl.cert)
}

// Fit runs the phases of the plan on p. p must have the dimension and the number
// of records of the plan, and a loss whose constants are no worse. The records
// are permuted at random first: neighbors then differ in one place of the
// permutation, in whatever order they are stored.
//
// Errors are those of SGDPlan.Fit.
func (pl *PassPlan) Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
	if err := release.CheckContext(ErrMechanism, ctx); err != nil {
		return nil, fmt.Errorf("sco: %w", err)
	}
	origin, op, err := pl.admit(p)
	if err != nil {
		return nil, err
	}
	src, cert := signed(pl.cert, src, convexity(p, op))
	f := fault.From(ctx)
	par := fault.At(f, passParams, pl.Params())
	l := p.Loss
	if lin, ok := l.(loss.Linear); ok { // clipped gradients of these are those of a convex loss
		l = clippedSlope{lin, par.Lipschitz}
	}
	obj := (&erm.Problem{Data: p.Data, Loss: l}).Perturb(erm.Perturbation{})
	order := permutation(par.Records, src)
	d, n := par.Dim, float64(par.Records)
	lambda := par.Ridge / (2 * n)
	w, mean, g := append([]float64(nil), origin...), make([]float64, d), make([]float64, d)
	k, nu := make([]int64, d), make([]int64, d)
	defer clear(nu)
	steps := 0
	for i, ph := range par.Phases {
		if i > 0 {
			stayNear(w, origin, par.Phases[i-1].next(floats.Norm(origin, 2), d))
		}
		clear(mean)
		count := 0.0
		records := fault.At(f, fault.Batch, order[:ph.Records])
		order = order[ph.Records:]
		for range par.Passes {
			for lo := 0; lo+par.Batch <= ph.Records; lo += par.Batch {
				if lo%4096 < par.Batch && ctx.Err() != nil {
					return nil, ctx.Err()
				}
				batch := records[lo : lo+par.Batch]
				count++
				for j := range mean { // average of the points where gradients are taken
					mean[j] += (w[j] - mean[j]) / count
				}
				obj.GradTerms(g, w, batch)
				eta := ph.StepSize
				if lambda > 0 {
					eta = min(eta, 1/(2*lambda*count))
					floats.Scale(1-2*lambda*eta, w)
				}
				floats.AddScaled(w, -eta/float64(par.Batch), g)
				if op != nil {
					op.Prox(w, w, eta/n) // P_W, with (η/n)r
				}
				steps++
			}
		}
		if lambda > 0 {
			copy(mean, w)
		}
		toGrid(k, mean, ph.Grid)
		exponent := math.Ilogb(ph.Grid)
		noise.Grid(nu, ph.Sigma, exponent, src)
		k, nu := fault.At(f, fault.GridVector, k), fault.At(f, fault.GridNoise, nu)
		for j := range w {
			w[j] = ph.Grid * float64(max(min(k[j]+nu[j], 1<<62), -1<<62))
		}
		if p.Set != nil {
			p.Set.Prox(w, w, 1)
		}
	}
	return released(cert, src, obj, pl.trace, w, steps, steps*par.Batch)
}

// toGrid stores x/g in k, rounded, cut off at ±2⁵² and with 0 for NaN. Division by a power
// of two is exact, and cutting off does not expand.
func toGrid(k []int64, x []float64, g float64) {
	const most = 1 << 52
	for j, v := range x {
		if v = math.RoundToEven(v / g); v != v {
			v = 0
		}
		k[j] = int64(max(min(v, most), -most))
	}
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

// permutation returns a uniform order of n records.
func permutation(n int, src rand.Source) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	rand.New(src).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// admit returns w₀ and r + ι_W, and refuses a problem that the plan was not made for.
func (pl *PassPlan) admit(p *erm.Problem) ([]float64, prox.Operator, error) {
	if pl.empty() {
		return nil, nil, fmt.Errorf("sco: %w: the plan is empty, want one made by Plan or Calibrate", ErrMechanism)
	}
	if err := admit(p, pl.params.Dim, pl.params.Records, dp.Replace); err != nil {
		return nil, nil, err
	}
	has, w, op, err := known(p, dp.Replace)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range []struct {
		name      string
		has, want float64
	}{
		{"Lipschitz", has.OnSet.Lipschitz, pl.known.OnSet.Lipschitz}, {"Smoothness", has.OnSet.Smoothness, pl.known.OnSet.Smoothness},
		{"Radius", has.Radius, pl.known.Radius}, {"Anchor", has.Anchor, pl.known.Anchor}, {"Slope", has.Slope, pl.known.Slope},
		{"ProxFactor", has.ProxFactor, pl.known.ProxFactor}, {"ProxScale", has.ProxScale, pl.known.ProxScale},
	} {
		if !(c.has <= c.want) {
			return nil, nil, fmt.Errorf("sco: %w: the problem has %s = %v, the plan is for one of at most %v", ErrMechanism, c.name, c.has, c.want)
		}
	}
	if !(has.OnSet.Lipschitz > 0 && has.OnSet.Smoothness > 0) {
		return nil, nil, fmt.Errorf("sco: %w: the problem has Lipschitz = %v and Smoothness = %v, want known ones", ErrMechanism,
			has.OnSet.Lipschitz, has.OnSet.Smoothness)
	}
	return w, op, nil
}
