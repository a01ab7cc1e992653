package sco

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/accounting"
	"github.com/privopt/privopt/dp/dptest"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

var ctx = context.Background()

// The published noise of small T is raised, refused with the accounted δ, or
// kept at the ε that the accountant finds, which is far above the claim.
func TestPaperCounterexample(t *testing.T) {
	var g struct {
		Values []struct {
			N, D, T, M int
			Eps, Z     float64
			Claimed    float64 `json:"delta_claimed"`
			Actual     float64 `json:"delta_actual_single_step"`
		}
	}
	readGolden(t, "ansgd_paper_counterexample", &g)
	require.Len(t, g.Values, 2)
	for _, v := range g.Values {
		q := quantities(v.N, v.D, v.Eps, v.Claimed, 1, 1e-3, 1)
		raised, err := (&NoisySGD{Calibration: Paper}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, v.T, raised.Steps)
		require.Equal(t, accounting.WithReplacement{Size: v.M, Records: v.N}, raised.Sampler)
		require.InEpsilon(t, v.Z, raised.PaperNoise, 1e-12)
		require.Greater(t, raised.PaperDelta, v.Actual)
		require.Greater(t, raised.Noise, 1.2*raised.PaperNoise)
		comp, err := raised.Composition()
		require.NoError(t, err)
		require.LessOrEqual(t, comp.Delta(v.Eps), v.Claimed)
		require.Equal(t, q.Budget, raised.Certified)

		_, err = (&NoisySGD{Calibration: PaperStrict}).Calibrate(q)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "accounted at δ =")

		unsafe, err := (&NoisySGD{Calibration: PaperUnsafe}).Calibrate(q)
		require.NoError(t, err)
		require.Equal(t, unsafe.PaperNoise, unsafe.Noise)
		require.Greater(t, unsafe.Certified.Epsilon, 1.3*v.Eps)
		require.Equal(t, v.Claimed, unsafe.Certified.Delta)
	}
	// Where T is large the published noise is confirmed and kept.
	q := quantities(10000, 10, 1, 1e-8, 1, 1, 1)
	kept, err := (&NoisySGD{Calibration: PaperStrict}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, kept.PaperNoise, kept.Noise)
	require.LessOrEqual(t, kept.PaperDelta, 1e-8)
}

// linear is the loss −⟨a,w⟩ b, the worst case of noisy SGD.
type linear struct{}

func (linear) Func(w, a []float64, b float64) float64 { return -b * floats.Dot(w, a) }
func (linear) Grad(dst, w, a []float64, b float64)    { floats.ScaleTo(dst, -b, a) }
func (linear) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return -b * u, -b, 0
}
func (linear) Constants(b loss.Bounds, _ float64) loss.Constants {
	return loss.Constants{Lipschitz: b.Row * b.Label, Smoothness: 1e-9, Rank: 1, Structure: loss.GLM}
}

func axis(n int, sign float64) *erm.Problem {
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = []float64{1}
		labels[i] = -1
	}
	labels[0] = sign
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: linear{}}
}

// Attacks on the worst pair prove no more than the certificate, and do prove
// more when the noise is divided by five.
func TestWorstPair(t *testing.T) {
	runs := 20000
	if testing.Short() {
		runs = 4000
	}
	b := dp.Budget{Epsilon: 1, Delta: 1e-3}
	for name, m := range map[string]*NoisySGD{
		"poisson":          {Radius: 1, Steps: 4, Batch: 5},
		"fixed":            {Radius: 1, Steps: 4, Batch: 5, Scheme: FixedSize},
		"with replacement": {Radius: 1, Steps: 4, Batch: 5, Scheme: WithReplacement},
		"one step":         {Radius: 1, Steps: 1, Batch: 10},
	} {
		d0, d1 := axis(10, 1), axis(10, -1)
		plan, err := m.Plan(d0, b)
		require.NoError(t, err)
		run := func(pl *SGDPlan) func(p *erm.Problem, src rand.Source) []float64 {
			return func(p *erm.Problem, src rand.Source) []float64 {
				rel, err := pl.Fit(ctx, p, src)
				if err != nil {
					panic(err)
				}
				return rel.Theta
			}
		}
		lower := dptest.Audit(t, run(plan), d0, d1, b, runs, 1)
		weak := *plan
		weak.Noise /= 5
		require.Greater(t, dptest.LowerBound(run(&weak), d0, d1, b.Delta, runs, 2), b.Epsilon, name)
		t.Logf("%s: z = %.3g, ε ≥ %.2g", name, plan.Noise, lower)
	}
}

// What a release is made of: exactly the noise of the plan on exactly clipped
// sums. With a full batch and one step the average is w₀ + (w₁−w₀)/2, so that
// its law is known.
func TestOneStepLaw(t *testing.T) {
	p := axis(10, 1)
	m := &NoisySGD{Radius: 1, Steps: 1, Batch: 10}
	plan, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
	require.NoError(t, err)
	require.IsType(t, accounting.Poisson{}, plan.Sampler)
	const runs = 4000
	var sum, sq float64
	for i := range runs {
		rel, err := plan.Fit(ctx, p, noise.Reproducible(uint64(i)))
		require.NoError(t, err)
		g := -2 * rel.Theta[0] / plan.StepSize // mean gradient with noise
		sum += g
		sq += g * g
	}
	// ∇ = −b, nine labels −1 and one +1: mean 0.8.
	mean := sum / runs
	sd := math.Sqrt(sq/runs - mean*mean)
	require.InDelta(t, 0.8, mean, 4.9*plan.Sigma/math.Sqrt(runs)) // false reject 1e-6
	require.InEpsilon(t, plan.Sigma, sd, 4.9/math.Sqrt(2*runs))
}

// Output noise has the standard deviation of the plan, and that hides the
// sensitivity of the plan at its budget: by the exact profile of the Gaussian.
func TestOutputNoiseLaw(t *testing.T) {
	const runs = 3000
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	p := axis(10, 1)
	sd := func(fit func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)) float64 {
		var sum, sq float64
		for i := range runs {
			rel, err := fit(ctx, p, noise.Reproducible(uint64(i)))
			require.NoError(t, err)
			sum += rel.Theta[0]
			sq += rel.Theta[0] * rel.Theta[0]
		}
		return math.Sqrt(sq/runs - sum/runs*sum/runs)
	}
	const tol = 4.9 / 77.4 // 4.9/√(2·3000): false reject 1e-6

	out, err := (&Output{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.LessOrEqual(t, dp.GaussianDelta(1, (2/out.Delta+2*out.Cover)/out.OutputSigma), 1e-5)
	require.InEpsilon(t, out.OutputSigma, sd(out.Fit), tol)

	// The objective is linear: the minimizer is −(Σ∇ℓ + b)/Δ, of standard
	// deviation σ/Δ.
	obj, err := (&ObjPert{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.LessOrEqual(t, dp.GaussianDelta(obj.Output.Epsilon, 2*obj.Cover/obj.OutputSigma), obj.Output.Delta)
	require.InEpsilon(t, obj.Sigma/obj.Delta, sd(obj.Fit), tol)
	require.InEpsilon(t, math.Hypot(obj.Sigma/obj.Delta, obj.OutputSigma), sd(obj.Fit), tol)

	// One batch of all records: the average is the start, and all else noise.
	perm, err := (&PermutationSGD{Radius: 1, Batch: 10, Passes: 1}).Plan(p, b)
	require.NoError(t, err)
	require.InEpsilon(t, perm.Phases[0].Sigma, sd(perm.Fit), tol)
	for _, passes := range []int{1, 3} {
		perm, err := (&PermutationSGD{Radius: 1, Batch: 5, Passes: passes}).Plan(p, b)
		require.NoError(t, err)
		ph := perm.Phases[0]
		require.InEpsilon(t, 2*float64(passes)*ph.StepSize/5, ph.Sensitivity, 1e-9) // 2kLη/b
		require.LessOrEqual(t, dp.GaussianDelta(1, ph.Sensitivity/ph.Sigma), 1e-5)
		require.Greater(t, dp.GaussianDelta(1, 1.001*ph.Sensitivity/ph.Sigma), 1e-5)
	}
	phased, err := (&Phased{Radius: 1}).Plan(p, b)
	require.NoError(t, err)
	require.Equal(t, []int{7, 2, 1}, []int{phased.Phases[0].Records, phased.Phases[1].Records, phased.Phases[2].Records})
	for i, ph := range phased.Phases {
		require.InEpsilon(t, 2*ph.StepSize, ph.Sensitivity, 1e-9)
		require.LessOrEqual(t, dp.GaussianDelta(1, ph.Sensitivity/ph.Sigma), 1e-5)
		require.Greater(t, dp.GaussianDelta(1, 1.001*ph.Sensitivity/ph.Sigma), 1e-5)
		require.InEpsilon(t, phased.Phases[0].StepSize*math.Pow(4, -float64(i)), ph.StepSize, 1e-12)
	}
	// The noise of every phase is on the release, as each starts where the one
	// before ended.
	var v float64
	for _, ph := range phased.Phases {
		v += ph.Sigma * ph.Sigma
	}
	require.InDelta(t, math.Sqrt(v), sd(phased.Fit), tol*math.Sqrt(v)+2*phased.Phases[0].StepSize) // and a permutation
}

// huge is a loss that lies about its constants: gradients of norm 1e6, or NaN.
type huge struct {
	linear
	nan bool
}

func (h huge) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if h.nan && b > 0 {
		return 0, math.NaN(), 0
	}
	return 0, 1e6 * b, 0
}
func (h huge) Grad(dst, w, a []float64, b float64) {
	_, s, _ := h.Scalar(0, b, 0)
	floats.ScaleTo(dst, s, a)
}

// general hides that a loss is one of ⟨a,w⟩.
type general struct{ loss.Loss }

// Whatever the loss does, a record moves the sum by at most its clipping norm.
func TestClipped(t *testing.T) {
	for _, l := range []loss.Loss{huge{}, huge{nan: true}, general{huge{}}, general{huge{nan: true}}} {
		p := axis(10, 1)
		p.Loss = l
		plan, err := (&NoisySGD{Radius: 1, Steps: 1, Batch: 10}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.NoError(t, err)
		clipped := plan.perRecord(p.Loss, plan.Clip)
		g := []float64{0, 0}
		for _, b := range []float64{1, -1} {
			for _, a := range [][]float64{{1, 0}, {0.6, 0.8}, {1e-9, 0}, {0, 0}} {
				clipped.Grad(g, []float64{0, 0}, a, b)
				require.LessOrEqual(t, floats.Norm(g, 2), plan.Clip)
				if lin, ok := clipped.(loss.Linear); ok {
					_, s, _ := lin.Scalar(0, b, floats.Norm(a, 2))
					require.LessOrEqual(t, math.Abs(s)*floats.Norm(a, 2), plan.Clip)
				}
			}
		}
		rel, err := plan.Fit(ctx, p, noise.Reproducible(1))
		require.NoError(t, err)
		require.False(t, floats.HasNaN(rel.Theta))
		require.Less(t, math.Abs(rel.Theta[0]), 10.) // (η/n)(10 + noise)
	}
	g := []float64{math.Inf(1), 1}
	clip(g, 1)
	require.Equal(t, []float64{0, 0}, g)
}

// infinite is a loss with φ′ = +Inf.
type infinite struct{ linear }

func (infinite) Scalar(_, _, _ float64) (phi, dphi, d2phi float64) { return 0, math.Inf(1), 0 }

// The rounded gradient has an exact norm of at most L: at every scale of the
// row, also where L/‖a‖ overflows, and of the gradient.
func TestClippedExactly(t *testing.T) {
	const limit, precision = 0.3, 300
	square := func(g []float64) *big.Float {
		sum := new(big.Float).SetPrec(precision)
		for _, v := range g {
			x := new(big.Float).SetPrec(precision).SetFloat64(v)
			sum.Add(sum, x.Mul(x, x))
		}
		return sum
	}
	most := square([]float64{limit})
	rnd := rand.New(noise.Reproducible(3))
	for range 3000 {
		a := make([]float64, 1+rnd.IntN(40))
		scale := math.Pow(10, 20*rnd.Float64()-10)
		for j := range a {
			a[j] = scale * rnd.NormFloat64()
		}
		norm := floats.Norm(a, 2) * (1 + 0x1p-45) // as erm rounds it up
		_, slope, _ := clippedSlope{infinite{}, limit}.Scalar(0, 1, norm)
		g := make([]float64, len(a))
		floats.ScaleTo(g, slope, a)
		require.LessOrEqual(t, square(g).Cmp(most), 0, "slope %v, row %v", slope, a)
		require.Greater(t, floats.Norm(g, 2), limit*(1-1e-9))
		clip(a, limit)
		require.LessOrEqual(t, square(a).Cmp(most), 0, "%v", a)
	}
	_, slope, _ := clippedSlope{infinite{}, limit}.Scalar(0, 1, 1e-310)
	require.Less(t, slope*1e-310, limit)
	require.False(t, math.IsInf(slope, 1))
}

// Equal sources give equal releases; certificates say what they rest on; a
// cancelled context ends the fit.
func TestReleases(t *testing.T) {
	p := problem(2, 300, 3)
	b := dp.Budget{Epsilon: 2, Delta: 1e-5}
	type mechanism interface {
		Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error)
	}
	for want, ms := range map[string][]mechanism{
		TheoremSGD:     {&NoisySGD{}, &DPSGD{Momentum: 0.5}, &NoisySGD{Relation: dp.AddRemove, Records: 280}, &DPSGD{Relation: dp.AddRemove, Records: 280, Average: true}},
		TheoremProx:    {&ProxGD{NoisySGD: NoisySGD{Scheme: FixedSize}}},
		TheoremObjPert: {&ObjPert{}, &ObjPertSVRG{}, &ObjPert{Relation: dp.AddRemove, Records: 280}},
		TheoremOutput:  {&Output{}, &Output{Relation: dp.AddRemove, Records: 280}},
		TheoremPSGD:    {&PermutationSGD{Passes: 2, Batch: 7}},
		TheoremPhased:  {&Phased{}},
	} {
		for _, m := range ms {
			one, err := m.Fit(ctx, p, b, noise.Reproducible(5))
			require.NoError(t, err, "%T", m)
			two, err := m.Fit(ctx, p, b, noise.Reproducible(5))
			require.NoError(t, err)
			require.Equal(t, one, two)
			require.Equal(t, want, one.Certificate.Theorem)
			require.Equal(t, b, one.Certificate.Budget)
			require.Contains(t, one.Certificate.Assumptions, dp.CallerSource)
			require.LessOrEqual(t, floats.Norm(one.Theta, 2), 2*(1+1e-12))
			secret, err := m.Fit(ctx, p, b, nil)
			require.NoError(t, err)
			require.NotContains(t, secret.Certificate.Assumptions, dp.CallerSource)
			require.NotEqual(t, one.Theta, secret.Theta)

			stopped, cancel := context.WithCancel(ctx)
			cancel()
			_, err = m.Fit(stopped, p, b, nil)
			require.ErrorIs(t, err, context.Canceled, "%T", m)
			_, err = m.Fit(ctx, &erm.Problem{}, b, nil)
			require.ErrorIs(t, err, erm.ErrProblem)
			_, err = m.Fit(ctx, p, dp.Budget{}, nil)
			require.Error(t, err)
		}
	}
}

// Plans refuse other problems.
func TestPlansAdmit(t *testing.T) {
	p, b := problem(2, 300, 3), dp.Budget{Epsilon: 2, Delta: 1e-5}
	sgd, err := (&NoisySGD{}).Plan(p, b)
	require.NoError(t, err)
	obj, err := (&ObjPert{}).Plan(p, b)
	require.NoError(t, err)
	out, err := (&Output{}).Plan(p, b)
	require.NoError(t, err)
	pass, err := (&Phased{}).Plan(p, b)
	require.NoError(t, err)
	steep := *p
	steep.Loss = loss.Huber{Delta: 50}
	wide := *p
	wide.Loss = loss.Multinomial{Classes: 3}
	rows := make([][]float64, 300)
	for i := range rows {
		rows[i] = make([]float64, 3)
	}
	wide.Data, err = erm.NewData(rows, make([]float64, 300), loss.Bounds{Row: p.Data.Bounds().Row, Label: 2})
	require.NoError(t, err)
	for _, c := range []struct {
		p    *erm.Problem
		text string
		sgd  bool // SGD clips, whatever the loss
	}{
		{problem(2, 300, 4), "parameters", false},
		{problem(2, 301, 3), "records", false},
		{&steep, "Lipschitz", true},
		{&wide, "Lipschitz", true},
	} {
		for _, fit := range []func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error){obj.Fit, out.Fit, pass.Fit} {
			_, err := fit(ctx, c.p, nil)
			require.ErrorIs(t, err, ErrMechanism)
			require.ErrorContains(t, err, c.text)
		}
		_, err := sgd.Fit(ctx, c.p, nil)
		require.Equal(t, c.sgd, err == nil)
	}
	for _, err := range []error{(&SGDPlan{}).admit(p), (&ObjPlan{}).admit(p), (&PassPlan{}).admit(p), (*SGDPlan)(nil).valid(), (*ObjPlan)(nil).valid(), (*PassPlan)(nil).valid()} {
		require.ErrorIs(t, err, ErrMechanism)
	}
}

// Every rejection: the field, the value and what would do.
func TestRefuse(t *testing.T) {
	good := quantities(1000, 5, 1, 1e-7, 1, 0.25, 1)
	with := func(f func(q *Public)) Public { q := good; f(&q); return q }
	nan, inf := math.NaN(), math.Inf(1)
	sgd := func(m NoisySGD) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	proxgd := func(m ProxGD) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	dpsgd := func(m DPSGD) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	obj := func(m ObjPert) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	svrg := func(m ObjPertSVRG) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	out := func(m Output) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	perm := func(m PermutationSGD) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	phased := func(m Phased) func(q Public) error {
		return func(q Public) error { _, err := m.Calibrate(q); return err }
	}
	all := []func(q Public) error{sgd(NoisySGD{}), sgd(NoisySGD{Calibration: Paper}), proxgd(ProxGD{}), dpsgd(DPSGD{}),
		obj(ObjPert{}), obj(ObjPert{Calibration: Paper}), svrg(ObjPertSVRG{}), out(Output{}), perm(PermutationSGD{}), phased(Phased{})}
	for _, c := range []struct {
		want error
		text string
		q    Public
	}{
		{dp.ErrBudget, "Epsilon", with(func(q *Public) { q.Budget.Epsilon = 0 })},
		{dp.ErrBudget, "Epsilon", with(func(q *Public) { q.Budget.Epsilon = nan })},
		{dp.ErrBudget, "Delta", with(func(q *Public) { q.Budget.Delta = 1 })},
		{dp.ErrBudget, "Delta = 0", with(func(q *Public) { q.Budget.Delta = 0 })},
		{ErrMechanism, "Dim = 0", with(func(q *Public) { q.Dim = 0 })},
		{ErrMechanism, "Records = 0", with(func(q *Public) { q.Records = 0 })},
		{ErrMechanism, "Radius = 0", with(func(q *Public) { q.Radius = 0 })},
		{ErrMechanism, "Radius = +Inf", with(func(q *Public) { q.Radius = inf })},
		{dp.ErrCondition, "Lipschitz", with(func(q *Public) { q.Constants.Lipschitz = 0 })},
		{dp.ErrCondition, "Lipschitz = +Inf", with(func(q *Public) { q.Constants.Lipschitz = inf })},
		{dp.ErrCondition, "Lipschitz", with(func(q *Public) { q.Constants.Lipschitz = nan })},
	} {
		for i, f := range all {
			err := f(c.q)
			require.ErrorIs(t, err, c.want, "mechanism %d: %s", i, c.text)
			require.ErrorContains(t, err, c.text)
			require.True(t, strings.HasPrefix(err.Error(), "sco: "), err)
		}
	}
	kinked := with(func(q *Public) { q.Constants.Smoothness = inf })
	for _, c := range []struct {
		want error
		text string
		f    func(q Public) error
		q    Public
	}{
		{dp.ErrCondition, "ε ≤ 1", sgd(NoisySGD{Calibration: Paper}), with(func(q *Public) { q.Budget.Epsilon = 1.5 })},
		{dp.ErrCondition, "1/n²", sgd(NoisySGD{Calibration: PaperStrict}), with(func(q *Public) { q.Budget.Delta = 1e-5 })},
		{dp.ErrCondition, "ProxGD", sgd(NoisySGD{Calibration: Paper}), kinked},
		{dp.ErrCondition, "Smoothness = 100", sgd(NoisySGD{Calibration: Paper}), with(func(q *Public) { q.Constants.Smoothness = 100 })},
		{dp.ErrCondition, "private: set Records", sgd(NoisySGD{Relation: dp.AddRemove}), with(func(q *Public) { q.Records = 0 })},
		{dp.ErrCondition, "add-remove", sgd(NoisySGD{Relation: dp.AddRemove, Scheme: FixedSize}), good},
		{dp.ErrCondition, "add-remove", sgd(NoisySGD{Relation: dp.AddRemove, Calibration: Paper}), good},
		{dp.ErrRelation, "Relation", sgd(NoisySGD{Relation: 7}), good},
		{ErrMechanism, "Scheme = 9", sgd(NoisySGD{Scheme: 9}), good},
		{ErrMechanism, "Calibration = -1", sgd(NoisySGD{Calibration: -1}), good},
		{ErrMechanism, "Steps = -1", sgd(NoisySGD{Steps: -1}), good},
		{ErrMechanism, "Records = -1", sgd(NoisySGD{Records: -1}), good},
		{ErrMechanism, "Batch = NaN", sgd(NoisySGD{Batch: nan}), good},
		{ErrMechanism, "StepSize = -1", sgd(NoisySGD{StepSize: -1}), good},
		{ErrMechanism, "Clip = +Inf", sgd(NoisySGD{Clip: inf}), good},
		{ErrMechanism, "want 0", sgd(NoisySGD{Calibration: Paper, Steps: 3}), good},
		{ErrMechanism, "Smoothing = -1", proxgd(ProxGD{Smoothing: -1}), good},
		{ErrMechanism, "Momentum = 1", dpsgd(DPSGD{Momentum: 1}), good},
		{ErrMechanism, "Epochs", dpsgd(DPSGD{Epochs: nan}), good},
		{ErrMechanism, "steps", dpsgd(DPSGD{Epochs: 1e30}), good},
		{dp.ErrRelation, "Relation", dpsgd(DPSGD{Relation: -1}), good},
		{dp.ErrCondition, "Lambda >", obj(ObjPert{Lambda: 1e-9}), good},
		{dp.ErrCondition, "Smoothness = +Inf", obj(ObjPert{}), kinked},
		{dp.ErrCondition, "Rank = 0", obj(ObjPert{}), with(func(q *Public) { q.Constants.Structure, q.Constants.Rank = loss.FixedRange, 0 })},
		{dp.ErrCondition, "invalid structure", obj(ObjPert{}), with(func(q *Public) { q.Constants.Structure = 0 })},
		{dp.ErrCondition, "ε ≤ 1", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Budget.Epsilon = 2 })},
		{dp.ErrCondition, "1/n²", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Budget.Delta = 1e-5 })},
		{dp.ErrCondition, "⟨a,w⟩", obj(ObjPert{Calibration: Paper}), with(func(q *Public) { q.Constants.Structure = loss.General })},
		{dp.ErrCondition, "add-remove", obj(ObjPert{Calibration: Paper, Relation: dp.AddRemove}), good},
		{ErrMechanism, "Calibration = paper-unsafe", obj(ObjPert{Calibration: PaperUnsafe}), good},
		{ErrMechanism, "Share = 1", obj(ObjPert{Share: 1}), good},
		{ErrMechanism, "Lambda = -1", obj(ObjPert{Lambda: -1}), good},
		{ErrMechanism, "Lambda = 1", obj(ObjPert{Lambda: 1, Calibration: Paper}), good},
		{ErrMechanism, "Cover", obj(ObjPert{Cover: 1e-15}), good},
		{ErrMechanism, "Cover = NaN", out(Output{Cover: nan}), good},
		{dp.ErrRelation, "Relation", out(Output{Relation: 5}), good},
		{dp.ErrCondition, "expands", perm(PermutationSGD{StepSize: 9}), good},
		{dp.ErrCondition, "expands", phased(Phased{StepSize: 40}), good},
		{dp.ErrCondition, "expands", perm(PermutationSGD{StepSize: 8 * (1 + 0x1p-50)}), good}, // 2/β = 8
		{dp.ErrCondition, "Smoothness", phased(Phased{}), kinked},
		{ErrMechanism, "Batch = 1001", perm(PermutationSGD{Batch: 1001}), good},
		{ErrMechanism, "Passes = -1", perm(PermutationSGD{Passes: -1}), good},
		{ErrMechanism, "StepSize", perm(PermutationSGD{StepSize: nan}), good},
		{ErrMechanism, "Radius", phased(Phased{Radius: -1}), good},
	} {
		err := c.f(c.q)
		require.ErrorIs(t, err, c.want, c.text)
		require.ErrorContains(t, err, c.text)
	}

	p := problem(1, 100, 2)
	_, err := (&NoisySGD{Records: 99}).Plan(p, good.Budget)
	require.ErrorIs(t, err, ErrMechanism)
	p.Loss = loss.Hinge{}
	_, err = (&Output{}).Plan(p, good.Budget)
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "loss.Moreau")
	p.Set, p.Reg = prox.Simplex{Total: 1}, prox.TotalVariation{Weight: 1}
	_, err = (&ProxGD{}).Fit(ctx, p, good.Budget, nil)
	require.ErrorIs(t, err, ErrMechanism)
	require.False(t, errors.Is(err, dp.ErrCondition))
}
