// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// public states what Calibrate needs, on the unit ball.
func public(d int, s loss.Structure) erm.Public {
	return erm.Public{Dim: d, Records: 100, Radius: 1, Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: s}}
}

// TestCalibrate checks what a plan says against the theorem, for every structure,
// relation and calibration, and that nothing costs more under AddRemove.
func TestCalibrate(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-5}
	for _, d := range []int{1, 3} {
		for _, s := range []loss.Structure{loss.LSQ, loss.GLM, loss.FixedRange, loss.General} {
			for _, calibration := range []Calibration{Sharp, Paper} {
				if calibration == Sharp && s > loss.LSQ && d > 1 && !testkit.Long() {
					continue
				}
				var replace Params
				for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
					m := Mechanism{Calibration: calibration, Relation: relation, Radius: 2}
					q := public(d, s)
					q.Constants.Rank, q.Constants.Smoothness = 2, 3
					plan, err := m.Calibrate(q, b)
					name := fmt.Sprint(d, s, calibration, relation)
					require.NoError(t, err, name)
					p := plan.Params()
					consistent(t, p, name)
					require.InEpsilon(t, 0.01, p.Output.Epsilon, 1e-9, name)
					require.Equal(t, p.Cover, p.Reach, name)
					require.InEpsilon(t, p.Curvature*2+100*3*float64(d)/2*square(p.OutputSigma), p.ExcessBound, 1e-12, name)
					if d == 1 && calibration == Sharp {
						require.Contains(t, []string{theoremLSQ, theoremGLM, theoremJoint}, p.Theorem, name)
						require.Equal(t, s == loss.LSQ, p.Theorem == theoremLSQ, name)
					}
					if calibration == Paper { // see the proof of qop.paper/2
						require.Equal(t, theoremPaper, p.Theorem, name)
						k := p.Degrees - float64(d) + 1
						require.LessOrEqual(t, generalLoss(float64(min(2, d)), k, p.Ratio, p.Threshold), p.Objective.Epsilon/2, name)
						require.LessOrEqual(t, randmat.EdelmanLogCDF(d, p.Degrees, p.Threshold), math.Log(p.Objective.Delta)+1e-9, name)
					}
					if relation == dp.Replace {
						replace = p
					} else if calibration != Paper {
						require.LessOrEqual(t, p.Curvature, replace.Curvature*1.001, name)
					}
				}
			}
		}
	}
	// The radius of the set is that of the bound where the mechanism has none, to the anchor.
	q := public(3, loss.LSQ)
	q.Radius = 0.5
	plan, err := (&Mechanism{Degrees: 9, Share: 0.25, Center: []float64{0, 3, 4}, Interpolation: Trust{}}).Calibrate(q, b)
	require.NoError(t, err)
	require.Equal(t, 5.5, plan.Params().Radius)
	require.InEpsilon(t, 0.25, plan.Params().Output.Epsilon, 1e-9)
	q.Radius, q.Constants.Lipschitz = 0, 1
	plan, err = (&Mechanism{Degrees: 9}).Calibrate(q, b)
	require.NoError(t, err)
	require.True(t, math.IsInf(plan.Params().ExcessBound, 1))
	// An ε beyond what e^ε holds is not made use of.
	plan, err = (&Mechanism{Degrees: 200}).Calibrate(q, dp.Budget{Epsilon: 400, Delta: 1e-5})
	require.NoError(t, err)
	require.Equal(t, 300., plan.Params().Objective.Epsilon)
}

// consistent checks what every plan has: σ²t ≥ L, the grid, the output noise for
// 2R + g√d, and a 256th of δ for the events of W.
func consistent(t *testing.T, p Params, at string) {
	t.Helper()
	require.GreaterOrEqual(t, p.Degrees, leastDegrees(p.Dim), at)
	l := rational(p.Constants.Smoothness)
	product := testkit.Mul(rational(p.Sigma2), rational(p.Ratio))
	require.GreaterOrEqual(t, product.Cmp(l), 0, "σ² = %v is too small, %s", p.Sigma2, at)
	require.LessOrEqual(t, product.Cmp(testkit.Mul(l, rational(1+1e-9))), 0, "σ² = %v is too large, %s", p.Sigma2, at)
	require.GreaterOrEqual(t, p.Sensitivity, (2*p.Reach+p.Grid*math.Sqrt(float64(p.Dim)))*(1-1e-15), at)
	require.LessOrEqual(t, p.Sensitivity, 2*p.Reach*1.01, at)
	s := testkit.Quo(rational(p.Sensitivity), rational(p.OutputSigma))
	eps, delta := rational(p.Output.Epsilon), rational(p.Output.Delta)
	require.LessOrEqual(t, testkit.GaussianDelta(eps, s).Cmp(delta), 0, "output σ = %v is too small, %s", p.OutputSigma,
		at)
	require.Positive(t, testkit.GaussianDelta(eps, testkit.Mul(s, rational(1+1e-6))).Cmp(delta),
		"output σ = %v is too large, %s", p.OutputSigma, at)
	require.LessOrEqual(t, p.Objective.Epsilon+p.Output.Epsilon, p.Budget.Epsilon, at)
	sum := p.Objective.Delta + p.Output.Delta + p.MinEigDelta + p.MaxEigDelta
	require.LessOrEqual(t, sum, p.Budget.Delta*(1-0x1p-8), at)
	require.GreaterOrEqual(t, sum, p.Budget.Delta*(1-0x1p-7), at)
	require.Equal(t, p.Sigma2*p.Degrees, p.Curvature, at)
}

// TestPerturbation: the bounds on σ²W hold but for an event that 2⁻⁹ of δ pays for, and there
// they leave room for the rounding of W. A reference table is computed with the laws themselves.
func TestPerturbation(t *testing.T) {
	for _, c := range []struct {
		d          int
		m, eps, at float64
	}{{1, 4, 1, 1e-6}, {3, 6, 0.1, 1e-9}, {10, 13, 1, 1e-3}, {30, 60, 4, 1e-6}} {
		k := &calibrator{plan: &Params{Dim: c.d, Constants: loss.Constants{Smoothness: 2}, Budget: dp.Budget{Epsilon: c.eps,
			Delta: c.at}}}
		per, failure := k.perturbation(0.5, c.m, false)
		require.LessOrEqual(t, (1+math.Exp(c.eps))*failure, c.at*0x1p-9*(1+1e-12))
		require.Greater(t, (1+math.Exp(c.eps))*failure, c.at*0x1p-10)
		// σ² = 4. Half of the event each, for the exact quantiles of both laws.
		law := randmat.MinEigenvalueLaw{Dim: c.d, Dof: c.m}
		least := (per.MinEig+per.QuadError)/(4*(1-0x1p-8)) + per.QuadError/4 // of W, as used
		require.LessOrEqual(t, math.Exp(law.LogCDF(least)), failure/2*(1+1e-6), "%+v", c)
		require.Greater(t, math.Exp(law.LogCDF(least*1.01)), failure/2, "%+v", c)
		require.LessOrEqual(t, num.Chi2SF(per.MaxEig/4, c.m*float64(c.d)), failure/2*(1+1e-9), "%+v", c)
		require.GreaterOrEqual(t, per.QuadError, 4*randmat.WishartError(c.d, per.MaxEig/4)*(1-1e-8))
	}
	// Where float64 proves nothing of λ_min there is no release.
	k := &calibrator{plan: &Params{Dim: 100, Constants: loss.Constants{Smoothness: 1}, Budget: dp.Budget{Epsilon: 1,
		Delta: 1e-20}}}
	per, _ := k.perturbation(0.5, 103, false)
	require.Zero(t, per.MinEig)
	_, err := (&Mechanism{Degrees: 103}).Calibrate(public(100, loss.LSQ), dp.Budget{Epsilon: 1, Delta: 1e-20})
	require.ErrorIs(t, err, dp.ErrCondition)
	require.ErrorContains(t, err, "Degrees = 103")
}

// TestClosedQuantile: λ_min falls below closedQuantile with at most the stated probability, by its
// exact law, and a plan takes it where it is within a factor of two and does not limit Cover, else
// the exact quantile.
func TestClosedQuantile(t *testing.T) {
	for _, c := range []struct {
		d       int
		m, logp float64
		used    bool
	}{{1, 300, -20, true}, {5, 700, -9, true}, {10, 400, -40, false}, {30, 150, -9, false}, {10, 13, -9, false}} {
		d := float64(c.d)
		a := closedQuantile(d, c.m, c.logp)
		exact := minQuantile(c.d, c.m, c.logp)
		require.LessOrEqual(t, a, exact, "%+v", c)
		require.LessOrEqual(t, randmat.MinEigenvalueLaw{Dim: c.d, Dof: c.m}.LogCDF(a), c.logp, "%+v", c)
		require.Equal(t, c.used, a >= exact/2, "%+v", c)
		require.InDelta(t, math.Max(math.Sqrt(c.m)-math.Sqrt(d)-math.Sqrt(-2*c.logp), 0), math.Sqrt(a), 1e-9, "%+v", c)
	}
	require.Zero(t, closedQuantile(3, 10, -100))

	q, err := public(5, loss.LSQ).Complete(dp.Replace)
	require.NoError(t, err)
	q.Gradient = 1
	at := func(cover float64) *calibrator {
		return &calibrator{plan: &Params{Dim: 5, Constants: loss.Constants{Smoothness: 2}, Budget: dp.Budget{Epsilon: 1,
			Delta: 1e-3}}, public: q, length: 1, asked: Mechanism{Cover: cover}}
	}
	free := at(0)
	cover, err := free.coverOf(0.5, 700, false)
	require.NoError(t, err)
	require.False(t, free.sharpEig)
	closed, failure := free.perturbation(0.5, 700, false)
	free.sharpEig = true
	exact, _ := free.perturbation(0.5, 700, false)
	require.Less(t, closed.MinEig, exact.MinEig)
	require.InEpsilon(t, 4*closedQuantile(5, 700, math.Log(failure/2)), closed.MinEig, 0x1p-7)
	floors := []float64{free.public.Floor(exact), free.public.Floor(closed)}
	require.Less(t, floors[0], floors[1])
	require.Greater(t, cover, floors[1])
	tight := at((floors[0] + floors[1]) / 2) // only the exact quantile allows this Cover
	got, err := tight.coverOf(0.5, 700, false)
	require.NoError(t, err)
	require.Equal(t, tight.asked.Cover, got)
	require.True(t, tight.sharpEig)
	_, err = at(floors[0]/2).coverOf(0.5, 700, false)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// TestWhatIsCalibrated: structure and rank by loss, dimension and mechanism.
func TestWhatIsCalibrated(t *testing.T) {
	for _, c := range []struct {
		m        Mechanism
		d        int
		declared loss.Structure
		rank     int
		s        loss.Structure
		rho      float64
		ok       bool
	}{
		{Mechanism{}, 5, loss.LSQ, 4, loss.LSQ, 1, true},
		{Mechanism{}, 5, loss.GLM, 4, loss.GLM, 1, true},
		{Mechanism{}, 5, loss.FixedRange, 4, loss.FixedRange, 4, true},
		{Mechanism{}, 5, loss.General, 7, loss.General, 5, true},
		{Mechanism{}, 1, loss.General, 7, loss.GLM, 1, true},
		{Mechanism{}, 1, loss.LSQ, 1, loss.LSQ, 1, true},
		{Mechanism{}, 2, loss.General, 2, loss.General, 2, true},
		{Mechanism{Calibration: Paper}, 1, loss.GLM, 1, loss.General, 1, true},
		{Mechanism{Calibration: Paper}, 5, loss.FixedRange, 2, loss.General, 2, true},
		{Mechanism{Structure: loss.GLM}, 5, loss.LSQ, 1, loss.GLM, 1, true},
		{Mechanism{Structure: loss.GLM}, 5, loss.GLM, 1, loss.GLM, 1, true},
		{Mechanism{Structure: loss.LSQ}, 5, loss.GLM, 1, 0, 0, false},
	} {
		q := public(c.d, c.declared)
		q.Constants.Rank = c.rank
		s, rho, err := c.m.structure(q)
		require.Equal(t, c.ok, err == nil, "%+v", c)
		require.Equal(t, c.s, s, "%+v", c)
		require.Equal(t, c.rho, rho, "%+v", c)
	}
}

// TestCheckDegrees: m is an integer from d+3, where 1/λ_min has a mean, to 2¹⁶.
func TestCheckDegrees(t *testing.T) {
	for _, c := range []struct {
		m    float64
		text string // "" if accepted
	}{
		{0, ""}, {6, ""}, {65536, ""}, {3, "Dim+3 = 6"}, {4, "Dim+3 = 6"}, {5, "Dim+3 = 6"}, {6.5, "want 6, 7, or 0"},
		{65537, "at most 65536"},
	} {
		err := checkDegrees(3, c.m)
		if c.text == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.ErrorContains(t, err, c.text, "%+v", c)
	}
	require.NoError(t, checkDegrees(65533, 0))
	require.ErrorIs(t, checkDegrees(65534, 0), ErrMechanism)
	// Sizes are refused before anything is computed: a law of λ_min alone takes a thousand
	// allocations.
	for _, c := range []struct {
		d    int
		m    float64
		s    loss.Structure
		text string
	}{
		{1001, 0, loss.General, "declare GLM"}, {3, 5001, loss.General, "declare GLM"}, {3, 1e300, loss.GLM, "at most 65536"},
		{1e9, 0, loss.LSQ, "at most 65533"},
	} {
		var err error
		work := testing.AllocsPerRun(1, func() {
			_, err = (&Mechanism{Degrees: c.m}).Calibrate(public(c.d, c.s), dp.Budget{Epsilon: 1, Delta: 1e-3})
		})
		require.ErrorContains(t, err, c.text, "%+v", c)
		require.Less(t, work, 50., "%+v", c)
	}
}

// TestOrder: a stronger structure never needs more curvature than a weaker one
// at the same m, and every sharp form needs less than the published constants.
func TestOrder(t *testing.T) {
	for d, b := range map[int]dp.Budget{2: {Epsilon: 0.5, Delta: 1e-3}, 10: {Epsilon: 1, Delta: 1e-5}, 20: {Epsilon: 4,
		Delta: 1e-8}} {
		if d > 2 && !testkit.Long() || d > 10 && !testkit.Deep() {
			continue
		}
		last := 0.0
		for _, m := range []Mechanism{{Structure: loss.LSQ}, {Structure: loss.GLM}, {Structure: loss.General},
			{Calibration: Paper}} {
			m.Degrees = float64(2*d + 4)
			p, err := m.Calibrate(public(d, loss.LSQ), b)
			require.NoError(t, err)
			require.Greater(t, p.Params().Sigma2, last, m)
			last = p.Params().Sigma2
		}
	}
}

// TestMonotone: less ε, less δ or a larger L never means less curvature or less output noise.
func TestMonotone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 3))
	for i := range points(180) {
		s := []loss.Structure{loss.LSQ, loss.GLM, loss.FixedRange}[i%3]
		d := 1 + rnd.IntN(6)
		q := public(d, s)
		b := dp.Budget{Epsilon: logUniform(rnd, 0.02, 20), Delta: logUniform(rnd, 1e-9, 0.1)}
		m := Mechanism{Degrees: float64(d + 6 + rnd.IntN(40)), Cover: 1e-3}
		if s == loss.GLM { // a form without a search that stops early
			m.Relation = dp.AddRemove
		}
		at := func(l float64, b dp.Budget) Params {
			q.Constants.Smoothness = l
			p, err := m.Calibrate(q, b)
			require.NoError(t, err)
			return p.Params()
		}
		base := at(1, b)
		for _, p := range []Params{
			at(1, dp.Budget{Epsilon: b.Epsilon / 1.3, Delta: b.Delta}), at(1, dp.Budget{Epsilon: b.Epsilon,
				Delta: b.Delta / 2}), at(1.5, b),
		} {
			require.GreaterOrEqual(t, p.Sigma2, base.Sigma2*(1-1e-6))
			require.GreaterOrEqual(t, p.OutputSigma, base.OutputSigma*(1-1e-9))
		}
	}
}

// TestCurvatureFallsWithEpsilon: a larger ε never means more curvature, at the m that is chosen for
// it: for every structure and relation where one bound takes over from another, and at ε = 1.4 and
// 1.5, where a certificate of Theorem G once ran out of boxes and the plan fell back to the bound
// in two steps. Theorem G and d = 5 with PRIVOPT_LONG only, all 40 ε with PRIVOPT_DEEP.
func TestCurvatureFallsWithEpsilon(t *testing.T) {
	coarse := map[loss.Structure][]int{loss.LSQ: {1, 2, 40}, loss.GLM: {14, 15, 16}, loss.FixedRange: {5, 33, 34},
		loss.General: {5, 40}}
	for s, points := range coarse {
		for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
			for _, d := range []int{2, 5, 12} {
				if testkit.Deep() {
					points = nil
					for i := range 40 {
						points = append(points, i+1)
					}
				} else if d == 12 != (s == loss.GLM) || !testkit.Long() && (s == loss.GLM || d > 2) {
					continue
				}
				last := math.Inf(1)
				for _, i := range points {
					c := &calibrator{plan: &Params{}, s: setting{dim: d, rank: 1, structure: s, relation: relation}}
					if s >= loss.FixedRange {
						c.s.rank = 2
					}
					m, best := c.sharpest(dp.Budget{Epsilon: 0.1 * float64(i), Delta: 0.01})
					require.LessOrEqual(t, m/best.t, last, "%v, %v, d = %d, ε = %v", s, relation, d, 0.1*float64(i))
					last = m / best.t
				}
			}
		}
	}
	// Where the approximate laws rank two bounds wrongly, the exact ones decide.
	c := &calibrator{plan: &Params{}, s: setting{dim: 2, rank: 2, structure: loss.FixedRange, relation: dp.AddRemove}}
	b := dp.Budget{Epsilon: 2.2, Delta: 0.05}
	degrees := c.candidates(b)
	require.Len(t, degrees, 2)
	m, best := c.sharpest(b)
	require.Equal(t, degrees[1], m)
	require.Less(t, m/best.t, 0.97*degrees[0]/c.largest(b, degrees[0]).t)
}

// TestSafeSide: δ(t) at the planned t is at most δ₁, and 1e-6 beyond it is not.
func TestSafeSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, testkit.Of(4, 12, 200)).Draw(t, "d")
		eps := math.Exp(rapid.Float64Range(-5, 3).Draw(t, "log ε"))
		logDelta := rapid.Float64Range(-60, -1).Draw(t, "log δ")
		m := float64(d + rapid.IntRange(1, testkit.Of(40, 400)).Draw(t, "k"))
		k := m - float64(d) + 1
		for s, p := range map[loss.Structure]profile{
			loss.LSQ: newLSQ(setting{dim: d, relation: dp.Replace, eps: eps}, m, false),
			loss.GLM: &glm{eps: eps, k: k, relation: dp.AddRemove},
		} {
			relation := dp.Replace
			if s == loss.GLM { // one sum, so that δ is a smooth function of t
				relation = dp.AddRemove
			}
			c := &calibrator{s: setting{dim: d, rank: 1, structure: s, relation: relation}}
			at := c.largest(dp.Budget{Epsilon: eps, Delta: math.Exp(logDelta)}, m).t
			require.LessOrEqual(t, p.logDelta(at), logDelta)
			require.Greater(t, p.logDelta(at*(1+1e-6)), logDelta)
		}
	})
}

// TestLargestMeetsDelta: for every structure δ(t) is at most δ at the t that is
// returned, and above it 1e-6 further on.
func TestLargestMeetsDelta(t *testing.T) {
	b := dp.Budget{Epsilon: 0.8, Delta: 1e-4}
	target := math.Log(1e-4)
	for _, d := range []int{1, 3} {
		for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
			m := float64(d + 6)
			at := func(s loss.Structure) (float64, float64, setting) {
				st := setting{dim: d, rank: 1, structure: s, relation: relation}
				found := (&calibrator{s: st}).largest(b, m)
				x, a := found.t, found.threshold
				st.eps = 0.8
				return x, a, st
			}
			x, a, st := at(loss.LSQ)
			require.Zero(t, a)
			p := newLSQ(st, m, false)
			require.LessOrEqual(t, p.logDelta(x), target)
			require.Greater(t, p.logDelta(x*(1+1e-6)), target)

			x, a, _ = at(loss.GLM)
			require.Zero(t, a)
			switch {
			case relation == dp.AddRemove:
				g := func(x float64) float64 { return (&glm{eps: 0.8, k: 7, relation: relation}).logDelta(x) }
				require.LessOrEqual(t, g(x), target+1e-9)
				require.Greater(t, g(x*(1+2e-5)), target) // the split is found to 1e-6 of δ
			case d == 1:
				g := parallel{0.8, 7}.logDelta
				require.LessOrEqual(t, g(x), target)
				require.Greater(t, g(x*(1+1e-6)), target)
			default: // not below what two steps prove, nor beyond the bound of one direction
				require.Greater(t, parallel{0.8, 7}.logDelta(x*1.1), target)
				require.LessOrEqual(t, parallel{0.8, 7}.logDelta(x), target)
			}

			// The closed form: F(a) = δ, or δ/2 for two losses, and the loss at a is ε.
			st.structure = loss.FixedRange
			fixed1 := st.closedForm(m, target)
			x, a = fixed1.t, fixed1.threshold
			tail := target
			if relation == dp.Replace {
				tail -= math.Ln2
			}
			chi := randmat.MinEigenvalueLaw{Dim: 1, Dof: 7}
			require.LessOrEqual(t, chi.LogCDF(a), tail+1e-12)
			require.Greater(t, chi.LogCDF(a*(1+1e-5)), tail)
			fixed := func(x float64) float64 {
				remove := math.Max(x/2, math.Log1p(x/a))
				add := math.Max(0, -3.5*math.Log1p(-x/a)-x/2)
				if relation == dp.AddRemove {
					return math.Max(remove, add)
				}
				return remove + add
			}
			require.LessOrEqual(t, fixed(x), 0.8)
			require.Greater(t, fixed(x*(1+1e-11)), 0.8)
		}
	}
	// The hockey-stick of the general case is below the closed form it sharpens, and meets δ with the
	// law itself in place of the table.
	general := &general{eps: 0.8, rho: 2, k: 5, law: newTable(2, 6, target)}
	x := num.Largest(general.logDelta, target, 0.1, 1e-7)
	general.law = exactLaw{randmat.MinEigenvalueLaw{Dim: 2, Dof: 6}}
	require.LessOrEqual(t, general.logDelta(x), target)
	require.Greater(t, general.logDelta(x*(1+5e-6)), target)
	k := &calibrator{s: setting{dim: 2, rank: 2, structure: loss.General, relation: dp.Replace}}
	require.GreaterOrEqual(t, k.largest(b, 6).t, x*(1-1e-6))
	k.s.eps = 0.8
	require.Greater(t, x, k.s.closed(5, minQuantile(2, 6, target)))
}

// exactLaw is the law of λ_min without a table.
type exactLaw struct{ randmat.MinEigenvalueLaw }

func (l exactLaw) logCDF(x float64) float64 { return l.LogCDF(x) }
func (l exactLaw) ends() (lo, hi float64)   { return 0, math.Inf(1) }

// TestExtremes: no NaN, no panic and a verdict for budgets at the ends of their ranges and large d.
func TestExtremes(t *testing.T) {
	epsilons, deltas := []float64{dp.MinEpsilon, 1, dp.MaxEpsilon}, []float64{leastDelta, 1e-6, 0.999}
	if testkit.Deep() {
		epsilons, deltas = append(epsilons, 1e-6, 200), append(deltas, 1e-30, 0.5)
	}
	released := 0
	for _, s := range []loss.Structure{loss.LSQ, loss.GLM, loss.FixedRange, loss.General} {
		for _, d := range []int{1, 2, 1000} {
			if d == 1000 && s == loss.General || (d == 1000 || s >= loss.FixedRange || s == loss.GLM && d > 1) &&
				!testkit.Deep() {
				continue // minutes
			}
			for _, eps := range epsilons {
				for _, delta := range deltas {
					plan, err := (&Mechanism{}).Calibrate(public(d, s), dp.Budget{Epsilon: eps, Delta: delta})
					at := fmt.Sprintf("%v d=%d ε=%v δ=%v", s, d, eps, delta)
					if err != nil {
						require.True(t, errors.Is(err, dp.ErrCondition) || errors.Is(err, dp.ErrBudget), "%s: %v", at, err)
						continue
					}
					released++
					p := plan.Params()
					for _, v := range []float64{p.Degrees, p.Ratio, p.Sigma2, p.Curvature, p.Cover, p.OutputSigma} {
						require.True(t, v > 0 && !math.IsInf(v, 0), "%s: %+v", at, p)
					}
				}
			}
		}
	}
	require.Positive(t, released)
}

// BenchmarkCalibrate measures calibration from scratch.
func BenchmarkCalibrate(b *testing.B) {
	for _, s := range []loss.Structure{loss.LSQ, loss.GLM, loss.FixedRange, loss.General} {
		for _, d := range []int{10, 100, 200, 1000} {
			if s == loss.General && d > 200 {
				continue
			}
			b.Run(fmt.Sprintf("structure=%v/d=%d", s, d), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := (&Mechanism{}).Calibrate(public(d, s), dp.Budget{Epsilon: 0.5, Delta: 0.01}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
