package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// The tests of this file pin down constants and branches of the calibration by
// computing them a second time, each in milliseconds.

// TestPublicEnds: the ranges of the public quantities, one step inside and one
// outside.
func TestPublicEnds(t *testing.T) {
	for _, c := range []struct {
		edit func(q *Public)
		ok   bool
	}{
		{func(*Public) {}, true},
		{func(q *Public) { q.Dim = 1 }, true}, {func(q *Public) { q.Dim = 0 }, false},
		{func(q *Public) { q.Records = 0 }, true}, {func(q *Public) { q.Records = -1 }, false},
		{func(q *Public) { q.Radius = 0 }, true}, {func(q *Public) { q.Radius = 0.5 }, true}, {func(q *Public) { q.Radius = -0.01 }, false},
		{func(q *Public) { q.Scale = 0 }, true}, {func(q *Public) { q.Scale = 0.5 }, true}, {func(q *Public) { q.Scale = -0.01 }, false},
		{func(q *Public) { q.Budget.Delta = 1e-90 }, true}, {func(q *Public) { q.Budget.Delta = 0.97e-90 }, false}, {func(q *Public) { q.Budget.Delta = 0 }, false},
		{func(q *Public) { q.Budget.Delta = 0.97 }, true},
		{func(q *Public) { q.Constants.Smoothness = 0.01 }, true}, {func(q *Public) { q.Constants.Smoothness = 0 }, false}, {func(q *Public) { q.Constants.Smoothness = -1 }, false},
		{func(q *Public) { q.Constants.Structure = loss.LSQ }, true}, {func(q *Public) { q.Constants.Structure = loss.LSQ - 1 }, false},
		{func(q *Public) { q.Constants.Structure = loss.General }, true}, {func(q *Public) { q.Constants.Structure = loss.General + 1 }, false},
		{func(q *Public) { q.Constants.Structure, q.Constants.Rank = loss.FixedRange, 1 }, true},
		{func(q *Public) { q.Constants.Structure, q.Constants.Rank = loss.FixedRange, 0 }, false},
		{func(q *Public) { q.Constants.Structure, q.Constants.Rank = loss.GLM, 0 }, true},
	} {
		q := public(3, loss.GLM, 1, 1e-5)
		c.edit(&q)
		err := q.check()
		require.Equal(t, c.ok, err == nil, "%+v: %v", q, err)
	}
	// Sizes: a Cover that cannot be certified is refused after them, so that the
	// calibration itself is never begun.
	for _, c := range []struct {
		d    int
		m    float64
		s    loss.Structure
		text string
	}{
		{1000, 0, loss.General, "Cover"}, {1001, 0, loss.General, "declare GLM"}, {3, 5000, loss.General, "Cover"}, {3, 5001, loss.General, "declare GLM"},
		{3, 65536, loss.LSQ, "Cover"}, {3, 65537, loss.LSQ, "at most 65536"}, {65535, 0, loss.GLM, "Cover"}, {65536, 0, loss.GLM, "at most 65535"},
		{3, 4.5, loss.LSQ, "want 4, 5, or 0"},
		{3, 4, loss.LSQ, "Cover"}, {3, 3.97, loss.LSQ, "at least Dim+1"}, {1001, 0, loss.GLM, "Cover"},
	} {
		_, err := (&Mechanism{M: c.m, Cover: 1e-30}).Calibrate(public(c.d, c.s, 1, 1e-5))
		require.ErrorContains(t, err, c.text, "%+v", c)
	}
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
		{Mechanism{Calibration: Threshold}, 1, loss.GLM, 1, loss.General, 1, true},
		{Mechanism{Calibration: Threshold}, 5, loss.LSQ, 1, loss.General, 1, true},
		{Mechanism{Calibration: Threshold}, 5, loss.FixedRange, 2, loss.FixedRange, 2, true},
		{Mechanism{Calibration: Threshold, Structure: loss.GLM}, 5, loss.LSQ, 1, 0, 0, false},
		{Mechanism{Calibration: Paper}, 5, loss.FixedRange, 2, loss.General, 2, true},
		{Mechanism{Structure: loss.GLM}, 5, loss.LSQ, 1, loss.GLM, 1, true},
		{Mechanism{Structure: loss.GLM}, 5, loss.GLM, 1, loss.GLM, 1, true},
		{Mechanism{Structure: loss.LSQ}, 5, loss.GLM, 1, 0, 0, false},
	} {
		q := public(c.d, c.declared, 1, 1e-5)
		q.Constants.Rank = c.rank
		s, rho, err := c.m.structure(q)
		require.Equal(t, c.ok, err == nil, "%+v", c)
		require.Equal(t, c.s, s, "%+v", c)
		require.Equal(t, c.rho, rho, "%+v", c)
	}
}

// TestCoverFormula: R_s by its length scale and by the rounding of many records.
func TestCoverFormula(t *testing.T) {
	for _, c := range []struct{ scale, radius, given, cover, length float64 }{
		{0, 0, 0, 1e-8, 1}, {0, 0.5, 0, 0.5e-8, 0.5}, {3, 0.5, 0, 3e-8, 3}, {0.5, 3, 0, 0.5e-8, 3}, {1, 1, 0, 1e-8, 1}, {2, 1, 0.25, 0.25, 0},
		{2, 0, 2.01e-14, 2.01e-14, 0}, {0, 0.25, 0.2501e-14, 0.2501e-14, 0},
	} {
		p := &Plan{Public: Public{Scale: c.scale, Radius: c.radius, Dim: 4, Records: 1e9}, Relation: dp.Replace}
		k := &calibrator{plan: p}
		require.NoError(t, k.cover(c.given))
		require.InEpsilon(t, c.cover, p.Cover, 1e-14)
		require.Equal(t, c.length, k.length)
		// A typical λ_min of W_4(30), as exp(ν − 2τ) of its approximation.
		r := newRoughLaw(4, 30)
		want := math.Max(p.Cover, 8e-12*1e9*0.7*c.length/math.Exp(r.nu-2*r.tau))
		require.InEpsilon(t, want, k.coverOf(0.7, 30), 1e-12)
		p.Relation = dp.AddRemove // n is private
		require.Equal(t, p.Cover, k.coverOf(0.7, 30))
	}
	for _, c := range []struct{ scale, given float64 }{{2, 1.99e-14}, {1, 0.99e-14}, {0, 0.97e-14}} {
		require.ErrorIs(t, (&calibrator{plan: &Plan{Public: Public{Scale: c.scale}}}).cover(c.given), ErrMechanism)
	}
	// τ and ν of Johnstone's limit for λ_min: its mean is near that of the law.
	law := randmat.MinEigenvalueLaw{Dim: 4, Dof: 30}
	r := newRoughLaw(4, 30)
	require.InDelta(t, math.Log(law.Quantile(0.5)), r.nu-r.tau*-1.27, 0.02) // the median of TW₁ is −1.27
}

// TestPlanFormulas: what follows from t, m and the budgets.
func TestPlanFormulas(t *testing.T) {
	q := public(3, loss.LSQ, 1, 1e-5)
	q.Constants.Smoothness, q.Records, q.Radius = 2, 50, 1
	m := Mechanism{M: 9, Relation: dp.AddRemove, Radius: 7}
	p, err := m.Calibrate(q)
	require.NoError(t, err)
	require.Zero(t, p.Records) // private
	require.Equal(t, 1., p.Radius)
	require.InEpsilon(t, 2/p.T, p.Sigma2, 1e-14)
	require.GreaterOrEqual(t, p.Sigma2*p.T, 2.)
	require.Equal(t, p.Sigma2*9, p.Curvature)
	require.InEpsilon(t, p.Curvature/2, p.ExcessBound, 1e-14)
	require.InEpsilon(t, 0.01, p.Output.Epsilon, 1e-9)
	require.Equal(t, p.Cover, p.Reach)
	sigma, err := dp.GaussianSigma(p.Output, 2*p.Cover)
	require.NoError(t, err)
	require.Equal(t, sigma, p.OutputSigma)
	q.Radius = 0
	p, err = m.Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 7., p.Radius)
	require.InEpsilon(t, p.Curvature/2*49, p.ExcessBound, 1e-14)
	m.Radius = 0
	p, err = m.Calibrate(q)
	require.NoError(t, err)
	require.True(t, math.IsInf(p.ExcessBound, 1))
	require.Equal(t, 1e-8, p.Cover)
	m.Relation, m.Share = dp.Replace, 0.25
	q.Radius = 0.5
	p, err = m.Calibrate(q)
	require.NoError(t, err)
	require.InEpsilon(t, 0.25, p.Output.Epsilon, 1e-9)
	require.InEpsilon(t, p.Curvature/2*0.25+50*2*3./2*p.OutputSigma*p.OutputSigma, p.ExcessBound, 1e-13)
	// An ε beyond what e^ε holds is not made use of.
	q.Budget.Epsilon = 1e4
	p, err = m.Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 300., p.Objective.Epsilon)
	// The anchor's error takes its own way.
	q = public(1, loss.LSQ, 1, 1e-3)
	p, err = (&Mechanism{M: 5, Eta: 0.5, Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 0.5, p.Eta)
	require.Positive(t, p.Alpha)
	require.Greater(t, p.Upper, 5.)
}

// TestLargestMeetsDelta: for every structure δ(t) is at most δ at the t that is
// returned, and above it 1e-6 further on.
func TestLargestMeetsDelta(t *testing.T) {
	b := dp.Budget{Epsilon: 0.8, Delta: 1e-4}
	target := math.Log(1e-4)
	for _, d := range []int{1, 3} {
		for _, relation := range []dp.Relation{dp.Replace, dp.AddRemove} {
			m := float64(d + 6)
			at := func(s loss.Structure, threshold bool) (float64, float64, setting) {
				st := setting{dim: d, rank: 1, structure: s, relation: relation, threshold: threshold}
				found := (&calibrator{s: st}).largest(b, m)
				x, a := found.t, found.threshold
				st.eps = 0.8
				return x, a, st
			}
			x, a, st := at(loss.LSQ, false)
			require.Zero(t, a)
			p := newLSQ(st, m, false)
			require.LessOrEqual(t, p.logDelta(x), target)
			require.Greater(t, p.logDelta(x*(1+1e-6)), target)

			x, a, _ = at(loss.GLM, false)
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

			// The closed forms: F(a) = δ, or δ/2 for two losses, and the loss at a is ε.
			law := randmat.MinEigenvalueLaw{Dim: d, Dof: m}
			x, a, _ = at(loss.General, true)
			require.LessOrEqual(t, law.LogCDF(a), target+1e-12)
			require.Greater(t, law.LogCDF(a*(1+1e-5)), target)
			general := func(x float64) float64 {
				l := math.Log1p(x/a) - 3.5*math.Log1p(-x/a)
				if d == 1 {
					l += x / 2
				}
				return l
			}
			require.LessOrEqual(t, general(x), 0.8)
			require.Greater(t, general(x*(1+1e-11)), 0.8)

			x, a, _ = at(loss.FixedRange, true)
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
	// The hockey-stick of the general case is below the threshold form it sharpens,
	// and meets δ with the law itself in place of the table.
	general := &general{eps: 0.8, rho: 2, k: 5, law: newTable(2, 6, target)}
	x := largest(general.logDelta, target, 0.1, 1e-7)
	general.law = exactLaw{randmat.MinEigenvalueLaw{Dim: 2, Dof: 6}}
	require.LessOrEqual(t, general.logDelta(x), target)
	require.Greater(t, general.logDelta(x*(1+5e-6)), target)
	k := &calibrator{s: setting{dim: 2, rank: 2, structure: loss.General, relation: dp.Replace}}
	require.GreaterOrEqual(t, k.largest(b, 6).t, x*(1-1e-6))
	k.s.threshold = true
	require.Greater(t, x, k.largest(b, 6).t)
}

// exactLaw is the law of λ_min without a table.
type exactLaw struct{ randmat.MinEigenvalueLaw }

func (l exactLaw) logCDF(x float64) float64 { return l.LogCDF(x) }
func (l exactLaw) ends() (lo, hi float64)   { return 0, math.Inf(1) }

// TestDegrees: σ²m of the m that is chosen is within 1 % of its least value over
// m, for every structure, by the exact calibration.
func TestDegrees(t *testing.T) {
	b := dp.Budget{Epsilon: 0.8, Delta: 1e-4}
	for _, c := range []struct {
		s         loss.Structure
		threshold bool
		rank      float64
		relation  dp.Relation
	}{
		{loss.LSQ, false, 1, dp.AddRemove}, {loss.GLM, false, 1, dp.AddRemove},
		{loss.FixedRange, true, 2, dp.Replace}, {loss.General, true, 2, dp.Replace},
	} {
		k := &calibrator{s: setting{dim: 4, rank: c.rank, structure: c.s, relation: c.relation, threshold: c.threshold}}
		m := k.degrees(b)
		require.Equal(t, math.Round(m), m)
		cost := func(m float64) float64 {
			x := k.largest(b, m).t
			return m / x
		}
		at := cost(m)
		for _, f := range []float64{0.5, 0.8, 0.9, 1.1, 1.25, 2, 4} {
			other := math.Max(5, math.Round(3+(m-3)*f))
			require.LessOrEqual(t, at, 1.01*cost(other), "%v: m = %v against %v", c.s, m, other)
		}
		k.m = 17
		require.Equal(t, 17., k.degrees(b))
	}
}

// TestPaperPlan: the repaired constants in a plan.
func TestPaperPlan(t *testing.T) {
	for d, m := range map[int]float64{1: 2, 2: 4, 5: 10} {
		for _, given := range []float64{0, 11} {
			p, err := (&Mechanism{Calibration: Paper, M: given}).Calibrate(public(d, loss.GLM, 1, 1e-4))
			require.NoError(t, err)
			if given > 0 {
				m = given
			}
			require.Equal(t, m, p.M)
			in := Published{Dim: d, M: m, Rank: 1, Smoothness: 1, Epsilon1: p.Objective.Epsilon, Delta1: p.Objective.Delta / 2, Delta3: p.Objective.Delta / 2}
			k, err := in.Constants(false)
			require.NoError(t, err)
			require.InEpsilon(t, k.Sigma2, p.Sigma2, 2e-9)
			require.GreaterOrEqual(t, p.Sigma2, k.Sigma2)
			require.InEpsilon(t, k.Alpha+k.Alpha1, p.Threshold, 1e-14)
		}
	}
}

// TestClosedForms: the sticks of least squares are differences of distribution
// functions of χ²_k and of shifted ones. Where k is not an integer the nodes meet
// a fractional power, which overstates δ by at most 2e-6 and understates it by
// less than safeLogDelta.
func TestClosedForms(t *testing.T) {
	cdf := func(x, k float64) float64 { return specfun.Chi2CDF(x, k) }
	sf := func(x, k float64) float64 { return math.Exp(specfun.Chi2LogSF(x, k)) }
	for _, k := range []float64{2.5, 3, 3.3, 4, 4.2, 7, 30} {
		n := k/2 - 1
		low, high := 1e-9, 1e-9
		if k != math.Trunc(k) {
			low, high = 0.3*safeLogDelta, 2e-6
		}
		for _, x := range []float64{0.1, 0.9, 3, 12} {
			for _, eps := range []float64{0.02, 0.3, 1} {
				top := x / (1 - math.Exp(-(eps+x/2)/n))
				want := cdf(top, k) - math.Exp(eps)*cdf(top-x, k)
				got := stickAdd(eps, x, k, n)
				require.GreaterOrEqual(t, got, want*(1-low)-1e-13, "A k=%v t=%v ε=%v", k, x, eps)
				require.LessOrEqual(t, got, want*(1+high)+1e-13, "A k=%v t=%v ε=%v", k, x, eps)
				if eps >= x/2 {
					require.Zero(t, stickRemove(eps, x, k))
					continue
				}
				from := x / math.Expm1((x/2-eps)/n)
				want = sf(from, k) - math.Exp(eps)*sf(from+x, k)
				got = stickRemove(eps, x, k)
				require.GreaterOrEqual(t, got, want*(1-low)-1e-12, "R k=%v t=%v ε=%v", k, x, eps)
				require.LessOrEqual(t, got, want*(1+high)+1e-12, "R k=%v t=%v ε=%v", k, x, eps)
			}
			require.Zero(t, stickRemove(0.505*x, x, k)) // t/2 < ε: the loss is never so large
		}
	}
	require.InEpsilon(t, -math.Expm1(0.3-1), stickRemove(0.3, 2, 2), 1e-14) // k = 2: the loss is t/2
	require.Equal(t, specfun.Chi2CDF(0.7, 2), stickAdd(0.3, 0.7, 2, 0))
	// K₀ by its integral, on both sides of its asymptotic series.
	for _, z := range []float64{0.01, 1, 30, 39.9, 40.1, 80} {
		want := simpson(0, math.Acosh(1+60/z), 4000, func(u float64) float64 { return math.Exp(-z * (math.Cosh(u) - 1)) })
		require.InDelta(t, math.Log(want)-z, logBesselK0(z), 1e-11*(1+z))
	}
}

// TestCheckDegrees: m is an integer from d+1, or d+3 where 1/λ_min needs a mean, to 2¹⁶.
func TestCheckDegrees(t *testing.T) {
	for _, c := range []struct {
		m     float64
		total bool
		text  string // "" if accepted
	}{
		{0, false, ""}, {0, true, ""}, {4, false, ""}, {5, false, ""}, {6, true, ""}, {65536, true, ""},
		{3, false, "Dim+1 = 4"}, {4, true, "Dim+3 = 6"}, {5, true, "Dim+3 = 6"}, {3, true, "Dim+3 = 6"},
		{4.5, false, "want 4, 5, or 0"}, {65537, false, "at most 65536"},
	} {
		err := checkDegrees(3, c.m, c.total)
		if c.text == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.ErrorContains(t, err, c.text, "%+v", c)
	}
	require.ErrorIs(t, checkDegrees(65536, 0, false), ErrMechanism)
	_, err := (&Mechanism{Eta: 0.1, M: 5}).Calibrate(public(3, loss.LSQ, 1, 1e-5))
	require.ErrorIs(t, err, dp.ErrCondition)
	p, err := (&Mechanism{Eta: 0.1}).Calibrate(public(1, loss.LSQ, 8, 0.1))
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.M, 4.)
}
