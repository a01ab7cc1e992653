// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// alone returns the bound for losses of ⟨a,θ⟩ of a curve.
func (k Curve) alone() alone { return k.bounds[0].(alone) }

// unit bounds: L is 1 for the losses of envelopes.
var unit = loss.Bounds{Row: 1, Label: 1}

// envelopes by the names of testdata/joint.json; nil is constant curvature.
var envelopes = map[string]loss.Envelope{
	"logistic":    loss.Logistic{},
	"logcosh":     loss.LogCosh{Delta: 1},
	"pseudohuber": loss.PseudoHuber{Delta: 1},
	"pshinge":     loss.RootHinge{Width: 1},
	"huber":       nil,
}

// problem is one of the loss of that name.
func problem(name string, rel dp.Relation, b dp.Budget) Problem {
	p := Problem{Dim: 5, Constants: glm(1, 1), Relation: rel, Budget: b}
	if l := envelopes[name]; l != nil {
		p.Constants = l.Constants(unit, math.Inf(1))
		p.Envelope = func(lo, hi float64) float64 { return l.Envelope(unit, lo, hi) }
		p.Monotone = l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).Monotone
	}
	return p
}

// decimal is a number, or a string of more digits than a float64 has.
type decimal float64

func (d *decimal) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*d = decimal(v)
	return err
}

// above requires want ≤ got ≤ want(1+2e-6).
func above(t testing.TB, want, got float64, name string) {
	t.Helper()
	require.GreaterOrEqual(t, got, want, name)
	require.LessOrEqual(t, got, want*(1+2e-6), name)
}

// Golden noise scales, δ, rates and joint curves are met on the safe side, to 2e-6; what
// theorem R improves is below them.
func TestTiedGolden(t *testing.T) {
	var g struct {
		Entries []struct {
			Name, Kind, Relation, Loss string
			Eps, O, Alpha              float64
			Small                      decimal `json:"delta"`
			Ridge                      float64 `json:"Delta"`
			Sigma, Rate                decimal
			Remove                     decimal `json:"delta_remove"`
			Add                        decimal `json:"delta_add"`
			RDPRemove                  decimal `json:"rdp_remove"`
			RDPAdd                     decimal `json:"rdp_add"`
			RDPReplace                 decimal `json:"rdp_replace"`
		}
	}
	loadJSON(t, "joint.json", &g)
	kinds := map[string]int{}
	for _, e := range g.Entries {
		rel := dp.Replace
		if e.Relation == "AddRemove" {
			rel = dp.AddRemove
		}
		kinds[e.Kind]++
		p := problem(e.Loss, rel, dp.Budget{Epsilon: e.Eps, Delta: float64(e.Small)})
		switch e.Kind {
		case "sigma":
			b := at(t, p, e.Ridge)
			if b.Theorem == TheoremRenyi {
				require.Less(t, b.Sigma, float64(e.Sigma), e.Name)
				k := calibrator(t, p).scalar(e.Ridge)
				b.Sigma = k.searchNoise(e.Eps, 0, math.Log(float64(e.Small)), 1e3, &guess{u: 1e3}, rel == dp.Replace, 1e-11) * (1 +
					2e-9)
			}
			above(t, float64(e.Sigma), b.Sigma, e.Name)
		case "pure":
			above(t, 1/float64(e.Rate), 1/at(t, p, e.Ridge).Rate, e.Name)
		case "delta", "joint":
			p.Budget.Delta = 1e-5
			k := calibrator(t, p).with(Noise{Sigma: float64(e.Sigma)}, e.Ridge).Curve
			m := k.alone()
			s := m.l / k.sigma
			remove, add := k.Profile(e.O, 0)
			if p.Envelope == nil { // without theorem R
				below := remove(e.Eps)
				remove = func(eps float64) float64 { return math.Exp(m.at(eps, s, e.O, 1, m.c)) }
				if p.Relation == dp.Replace {
					remove = func(eps float64) float64 { log, _ := m.logReplace(eps, s, e.O, nil); return math.Exp(log) }
					add = remove
				}
				require.LessOrEqual(t, below, remove(e.Eps)*(1+2e-6), e.Name)
			}
			if e.Kind == "delta" {
				above(t, float64(e.Small), max(remove(e.Eps), add(e.Eps)), e.Name)
				continue
			}
			above(t, float64(e.Remove), remove(e.Eps), e.Name)
			above(t, float64(e.Add), add(e.Eps), e.Name)
		case "rdp":
			p.Budget = dp.Budget{Epsilon: 1, Delta: 1e-5}
			k := calibrator(t, p).with(Noise{Sigma: float64(e.Sigma)}, e.Ridge).Curve
			m := k.alone()
			s := m.l / k.sigma
			above(t, float64(e.RDPRemove), m.rdpRemoving(e.Alpha, s), e.Name)
			above(t, float64(e.RDPAdd), m.rdpAdding(e.Alpha, s), e.Name)
			twice := 2 * e.Alpha / (2*e.Alpha - 1)
			above(t, float64(e.RDPReplace), min(twice*m.rdpAdding(2*e.Alpha-1, s)+m.rdpRemoving(2*e.Alpha, s),
				twice*m.rdpRemoving(2*e.Alpha-1, s)+m.rdpAdding(2*e.Alpha, s)), e.Name)
			require.LessOrEqual(t, k.RDP(e.Alpha, 0), float64(e.RDPReplace)*(1+2e-6), e.Name)
		default:
			t.Errorf("kind %q of %s is not tested", e.Kind, e.Name)
		}
	}
	require.Equal(t, map[string]int{"sigma": 24, "delta": 26, "pure": 9, "joint": 4, "rdp": 2}, kinds)
}

// What the issue promises for logistic loss at (1, 1e-5).
func TestLogisticPromises(t *testing.T) {
	for _, c := range []struct {
		rel          dp.Relation
		ridge, sigma float64
	}{
		{dp.AddRemove, 1, 3.7307},
		{dp.AddRemove, 0.25 / math.Expm1(0.5), 4.4383},
		{dp.Replace, 2, 7.4614},
		{dp.Replace, 0.25 / math.Expm1(0.5), 10.945},
	} {
		b := at(t, problem("logistic", c.rel, dp.Budget{Epsilon: 1, Delta: 1e-5}), c.ridge)
		require.LessOrEqual(t, b.Sigma, c.sigma)
		require.Greater(t, b.Sigma, c.sigma*0.999)
	}
}

// bigDelta is δ_G(ε, s) in 60 digits, for every real ε.
func bigDelta(eps, s float64) float64 {
	v, _ := testkit.GaussianDelta(testkit.New(eps), testkit.New(s)).Float64()
	return v
}

// bigRemove is the supremum over p in 60 digits at the best of 2001 points and of a
// golden section around it.
func bigRemove(k *scalar, eps, s, o float64, h func(p float64) float64) float64 {
	at := func(p float64) float64 { return dp.GaussianLogDelta(eps-math.Log1p(h(p)/k.mu), math.Hypot(s*p, o)) }
	best := 1.0
	for i := range 2001 {
		if p := float64(i) / 2000; at(p) > at(best) {
			best = p
		}
	}
	x, _ := num.Minimize(func(p float64) float64 { return -at(p) }, max(0, best-1e-3), min(1, best+1e-3), 0, 1e-10)
	if at(x) > at(best) {
		best = x
	}
	if math.Hypot(s*best, o) < 0.02*s { // δ_G is 1 − e^ε but for less than 1e-100
		return max(0, -math.Expm1(eps-math.Log1p(h(best)/k.mu)))
	}
	n := testkit.New
	kappa := testkit.Log(testkit.Add(n(1), testkit.Quo(n(h(best)), n(k.mu))))
	shift := testkit.Sqrt(testkit.Add(testkit.Mul(n(s*best), n(s*best)), testkit.Mul(n(o), n(o))))
	v, _ := testkit.GaussianDelta(testkit.Sub(n(eps), kappa), shift).Float64()
	return v
}

// shapes are the envelopes as formulas, L = 1.
var shapes = map[string]func(p float64) float64{
	"logistic":    func(p float64) float64 { return p * (1 - p) },
	"logcosh":     func(p float64) float64 { return 1 - p*p },
	"pseudohuber": func(p float64) float64 { return math.Pow(1-p*p, 1.5) },
	"pshinge":     func(p float64) float64 { return 4 * math.Pow(p*(1-p), 1.5) },
	"huber":       func(p float64) float64 { return 1 },
}

// tiedOf is the curve of the loss of that name at modulus mu.
func tiedOf(t testing.TB, name string, mu float64) *scalar {
	return calibrator(t, problem(name, dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})).scalar(mu)
}

// Removal in 60 digits: the bound is above it, by 2e-6 at most, and nothing below it
// is certified.
func TestRemovalInSixtyDigits(t *testing.T) {
	for name, h := range shapes {
		for _, mu := range []float64{0.5, 1.3, 9} {
			k := tiedOf(t, name, mu)
			for _, s := range []float64{0.03, 0.25, 1.5} {
				for _, o := range testkit.Every(2, []float64{0, 0.02, 0.7}) {
					for _, eps := range testkit.Every(2, []float64{-0.7, 0.1, 1, 2.5}) {
						if eps < 0 && s < 0.1 && o < 0.1 {
							continue // δ is 1 − e^ε there, whatever the curve
						}
						want := bigRemove(k, eps, s, o, h)
						if want < 1e-290 {
							continue
						}
						got := k.boundRemove(eps, s, o)
						if k.envelope == nil { // without theorem R
							require.LessOrEqual(t, got, k.at(eps, s, o, 1, k.c))
							got = k.at(eps, s, o, 1, k.c)
						}
						tol := 2e-6 + 1e-10/(1-want) // next to 1 the complement has the digits
						if want > 0.1 || o > 0.1 {   // flat, and certified to the next power of ten
							tol = 2e-5
						}
						if want < 1e-30 { // a bound of the logarithm is coarse there
							tol = 2e-3
						}
						require.GreaterOrEqual(t, math.Exp(got)*safeDelta, want, "%s μ = %v, s = %v, o = %v, ε = %v", name, mu, s, o, eps)
						require.LessOrEqual(t, math.Exp(got), want*(1+tol), "%s μ = %v, s = %v, o = %v, ε = %v", name, mu, s, o, eps)
						if want < 0.1 && want > 1e-30 {
							require.False(t, k.removes(eps, s, o, math.Log(want)-1e-10, patient))
							require.True(t, k.removes(eps, s, o, math.Log(want)+2e-5, patient))
						}
					}
				}
			}
		}
	}
}

// Addition in 60 digits, at ε on both sides of 0 and of s²/2.
func TestAdditionInSixtyDigits(t *testing.T) {
	n := testkit.New
	one := n(1)
	for _, s := range []float64{0.03, 0.4, 2} {
		for _, eps := range []float64{-2, -1e-3, 0, 1e-4, 0.3, 1, 4} {
			if math.Abs(eps) > 30*s {
				continue
			}
			monotone, general := bigDelta(eps, s), 2*bigDelta(eps, s)
			if eps < 0 { // 1 − e^ε(1−δ_G(0, s))
				monotone, _ = testkit.Sub(one, testkit.Mul(testkit.Exp(n(eps)),
					testkit.Sub(one, testkit.GaussianDelta(n(0), n(s))))).Float64()
			}
			if eps < s*s/2 { // 1 − e^ε erfc(s/√2)
				general, _ = testkit.Sub(one, testkit.Mul(testkit.Exp(n(eps)), testkit.Mul(n(2), testkit.NormalSF(n(s))))).Float64()
			}
			m, g := &scalar{monotone: true}, &scalar{}
			require.InEpsilon(t, monotone, math.Exp(m.logAdd(eps, s, 0)), 1e-9, "s = %v, ε = %v", s, eps)
			require.InEpsilon(t, general, math.Exp(g.logAdd(eps, s, 0)), 1e-9, "s = %v, ε = %v", s, eps)
		}
	}
}

// Addition with output noise lies above the integral over N, and is close to it where
// ε is many o above 0.
func TestAdditionWithOutputNoise(t *testing.T) {
	const panels = 400
	x, w := num.GaussLegendre(16)
	for _, s := range []float64{0.1, 0.4, 2} {
		for _, o := range []float64{0.05, 0.3, 1} {
			for _, eps := range []float64{-1, 0.05, 0.5, 3} {
				monotone, general := math.Exp(num.LogPhi(-s/2))*dp.GaussianDelta(eps, o), 0.0
				for i := range panels {
					for j := range x {
						z := 12 * (float64(i) + (x[j]+1)/2) / panels // from 0, and from −s/2
						f := w[j] / 2 * 12 / panels / math.Sqrt(2*math.Pi)
						monotone += f * math.Exp(-(z-s/2)*(z-s/2)/2) * dp.GaussianDelta(eps-s*z, o)
						general += 2 * f * math.Exp(-z*z/2) * dp.GaussianDelta(eps-s*z-s*s/2, o)
					}
				}
				if min(monotone, general) < 1e-200 {
					continue
				}
				m, g := (&scalar{monotone: true}).logAdd(eps, s, o), (&scalar{}).logAdd(eps, s, o)
				require.GreaterOrEqual(t, math.Exp(m), monotone*(1-1e-9), "s = %v, ε = %v, o = %v", s, eps, o)
				require.GreaterOrEqual(t, math.Exp(g), general*(1-1e-9), "s = %v, ε = %v, o = %v", s, eps, o)
				if eps > 8*o+s*s && o <= s {
					require.InEpsilon(t, monotone, math.Exp(m), 1e-6, "s = %v, ε = %v, o = %v", s, eps, o)
					require.InEpsilon(t, general, math.Exp(g), 1e-6, "s = %v, ε = %v, o = %v", s, eps, o)
				}
			}
		}
	}
}

// A grid of points is no certificate: a spike of the envelope between the points of
// every search is seen by the cells, and the noise of curvature and gradient apart
// is taken then.
func TestSpikeIsSeen(t *testing.T) {
	p := problem("logistic", dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})
	smooth := p.Envelope
	spiked := func(lo, hi float64) float64 {
		if lo <= 0.7503 && hi >= 0.7502 {
			return 0.25
		}
		return smooth(lo, hi)
	}
	plain := at(t, p, 0.5)
	p.Envelope = spiked
	k := calibrator(t, p).scalar(0.5)
	for _, x := range k.grid {
		require.Equal(t, smooth(x, x), spiked(x, x), "the grid does not see the spike")
	}
	b := at(t, p, 0.5)
	s := 1 / b.Sigma
	truth := dp.GaussianDelta(1-math.Log1p(0.25/0.5), 0.75025*s)
	require.LessOrEqual(t, truth, 1e-5)
	require.Greater(t, b.Sigma, 1.1*plain.Sigma)
	// The certificate at the noise of the smooth envelope fails, and passes at the truth.
	require.False(t, k.removes(1, 1/plain.Sigma, 0, math.Log(1e-5), patient))
	remove, _ := calibrator(t, p).with(Noise{Sigma: plain.Sigma}, 0.5).Curve.Profile(0, 0)
	require.GreaterOrEqual(t, remove(1), dp.GaussianDelta(1-math.Log1p(0.25/0.5), 0.75025/plain.Sigma))

	// Pure noise sees it too.
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		p.Relation, p.Budget.Delta = rel, 0
		base := 0.75025
		if rel == dp.Replace {
			base++
		}
		require.LessOrEqual(t, math.Log1p(0.25/0.5)+at(t, p, 0.5).Rate*base, 1.0)
	}

	// An envelope that takes the value at the lower end of an interval for its supremum
	// would certify what is false: the twin shows that the test above has teeth.
	h := envelopes["pshinge"]
	k = newScalar(1, 0.15, h.Constants(unit, 1).Smoothness, func(lo, hi float64) float64 {
		return h.Envelope(unit, lo,
			hi)
	}, true, 0)
	wrong := newScalar(1, 0.15, h.Constants(unit, 1).Smoothness, func(lo, hi float64) float64 {
		return h.Envelope(unit,
			lo, lo)
	}, true, 0)
	require.False(t, k.removes(1.6, 0.3, 0, math.Log(1e-3), patient))
	require.True(t, wrong.kappa(0, 1) <= 1e-9, "sup over [0, 1] is not the value at 0")
}

// A scale that is enough for removing and not for adding a record is not certified.
func TestAdditionIsCertified(t *testing.T) {
	k := tiedOf(t, "pseudohuber", 1e3)
	s := 1 / 3.8 // between the 3.731 of removal and the 3.884 of addition
	require.True(t, k.removes(1, s, 0, math.Log(1e-5), patient))
	require.False(t, k.meets(nil, 1, s, 0, math.Log(1e-5), patient))
	require.True(t, k.meets(nil, 1, 1/3.885, 0, math.Log(1e-5), patient))
}

// The modulus of the regularizer counts once, as ridge.
func TestModulusIsRidge(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, delta := range []float64{0, 1e-5} {
			p := problem("logistic", rel, dp.Budget{Epsilon: 1, Delta: delta})
			whole := at(t, p, 0.7)
			p.Modulus = 0.3
			part := at(t, p, 0.4)
			require.InEpsilon(t, whole.Sigma+whole.Rate, part.Sigma+part.Rate, 1e-12)
		}
	}
}

// The constants scale: features bounded by X have L = X and an envelope of X² times.
func TestFeatureBoundScales(t *testing.T) {
	p := problem("logistic", dp.AddRemove, dp.Budget{Epsilon: 1, Delta: 1e-5})
	one := at(t, p, 0.5)
	wide := loss.Bounds{Row: 3, Label: 1}
	p.Constants = loss.Logistic{}.Constants(wide, 1)
	p.Envelope = func(lo, hi float64) float64 { return loss.Logistic{}.Envelope(wide, lo, hi) }
	require.InEpsilon(t, 3*one.Sigma, at(t, p, 9*0.5).Sigma, 1e-6)
}
