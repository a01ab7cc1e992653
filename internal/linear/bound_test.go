// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package linear

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// curves are those of all structures at some noise.
func curves(t testing.TB) map[string]Curve {
	out := map[string]Curve{}
	for name, p := range map[string]Problem{
		"GLM":        {Constants: glm(1, 1)},
		"monotone":   {Constants: glm(1, 1), Monotone: true},
		"FixedRange": {Constants: ranked(3)},
		"General":    {Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.General}},
	} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			p.Dim, p.Relation, p.Budget = 6, rel, dp.Budget{Epsilon: 1, Delta: 1e-5}
			out[name+" "+rel.String()] = at(t, p, 9).Curve
		}
	}
	return out
}

// A curve meets the budget that it was calibrated for, as a single release; its
// profiles fall from 1 to 0 and grow with the output noise.
func TestCurveMeetsItsBudget(t *testing.T) {
	for name, k := range curves(t) {
		remove, add := k.Profile(0, 0)
		require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-6), name) // what boundRemove may be above
		require.Greater(t, max(remove(1), add(1)), 0.999e-5, name)
		for _, o := range []float64{0, 1e-3, 0.1} {
			remove, add := k.Profile(o, 0)
			for _, f := range []func(float64) float64{remove, add} {
				require.Equal(t, 1., f(math.NaN()), name)
				require.Equal(t, 1., f(math.Inf(-1)), name)
				require.Zero(t, f(math.Inf(1)), name)
				last := 1.0
				for eps := -4.0; eps < 8; eps += 0.25 {
					require.LessOrEqual(t, f(eps), last*(1+1e-9), "%s at %v", name, eps)
					last = f(eps)
				}
			}
			wide, _ := k.Profile(2*o+1e-3, 0)
			require.GreaterOrEqual(t, wide(1.5)*(1+1e-9), remove(1.5), name)
		}
	}
}

// With a share of ε for the output noise the profile is the smaller of one step and
// two, in each order.
func TestProfileInTwoSteps(t *testing.T) {
	for name, k := range curves(t) {
		r, a := k.Profile(0, 0)
		for _, o := range []float64{1e-4, 0.02, 0.3} {
			r1, a1 := k.Profile(o, 0)
			for _, out := range []float64{0.01, 0.3} {
				remove, add := k.Profile(o, out)
				for _, eps := range []float64{0.2, 1, 2.5} {
					two := dp.GaussianDelta(out, o)
					require.InEpsilon(t, min(r1(eps), r(eps-out)+two), remove(eps), 1e-8, name)
					require.InEpsilon(t, min(a1(eps), a(eps-out)+two), add(eps), 1e-8, name)
				}
			}
		}
	}
}

// The Rényi curve implies δ above the profile, and is infinite where no order is.
func TestRDP(t *testing.T) {
	for name, k := range curves(t) {
		for _, o := range []float64{0, 0.05} {
			remove, add := k.Profile(o, 0)
			implied := dp.RDP(func(alpha float64) float64 { return k.RDP(alpha, o) }).Curve()
			for _, eps := range []float64{0.5, 1, 3} {
				if !strings.HasSuffix(name, dp.Replace.String()) { // there RDP takes q = 1 and the profile q = 2
					// Up to 1e-8, where both are the same Rényi bound, minimized by two searches.
					require.LessOrEqual(t, max(remove(eps), add(eps)), implied(eps)*(1+1e-8), "%s at %v", name, eps)
				}
			}
			for _, alpha := range []float64{0.5, math.NaN(), math.Inf(1)} {
				require.Equal(t, math.Inf(1), k.RDP(alpha, o))
			}
		}
	}
}

// exactStick returns E[(1 − e^{s(r₀ − χ_q)})₊] for every r₀:
//
//	P(χ_q > r₀) − e^{s r₀} E[e^{−sχ_q}; χ_q > r₀]
func exactStick(r0, s *big.Float, q int) *big.Float {
	from := r0
	if from.Sign() < 0 {
		from = testkit.New(0)
	}
	cut := testkit.Mul(testkit.Exp(testkit.Mul(s, r0)), tilted(from, testkit.Mul(testkit.New(-1), s), q))
	return testkit.Sub(testkit.Chi2SF(testkit.Mul(from, from), q), cut)
}

// exactMGF returns E e^{tχ_q}.
func exactMGF(t *big.Float, q int) *big.Float { return tilted(testkit.New(0), t, q) }

// tilted returns E[e^{tχ_q}; χ_q > from], from ≥ 0:
//
//	c·e^{t²/2} ∫_{from−t}^∞ (y+t)^{q−1} e^{−y²/2} dy
//
// where the integrals of y^j e^{−y²/2} follow the recursion of integration by
// parts and c is the constant of the density of χ_q.
func tilted(from, t *big.Float, q int) *big.Float {
	lo := testkit.Sub(from, t)
	edge := testkit.Exp(testkit.Quo(testkit.Mul(lo, lo), testkit.New(-2))) // e^{−lo²/2}
	moments := make([]*big.Float, q)                                       // ∫_{lo}^∞ y^j e^{−y²/2} dy
	moments[0] = testkit.Mul(edge, testkit.Mills(lo))
	power := edge // lo^{j−1} e^{−lo²/2}
	for j := 1; j < q; j++ {
		moments[j] = power
		if j > 1 {
			moments[j] = testkit.Add(moments[j], testkit.Mul(testkit.New(float64(j-1)), moments[j-2]))
		}
		power = testkit.Mul(power, lo)
	}
	sum, factor := testkit.New(0), testkit.New(1) // C(q−1, j) t^{q−1−j}
	for j := q - 1; j >= 0; j-- {
		sum = testkit.Add(sum, testkit.Mul(factor, moments[j]))
		factor = testkit.Quo(testkit.Mul(factor, testkit.Mul(testkit.New(float64(j)), t)), testkit.New(float64(q-j)))
	}
	return testkit.Mul(testkit.Quo(sum, gammaHalf(q)), testkit.Exp(testkit.Quo(testkit.Mul(t, t), testkit.New(2))))
}

// gammaHalf returns 2^{q/2−1} Γ(q/2): 1, 2·1, … for even q and √(π/2)·1·3⋯ for
// odd q.
func gammaHalf(q int) *big.Float {
	v := testkit.New(1)
	if q%2 == 1 {
		v = testkit.Sqrt(testkit.Quo(testkit.Pi, testkit.New(2)))
	}
	for i := q - 2; i > 0; i -= 2 {
		v = testkit.Mul(v, testkit.New(float64(i)))
	}
	return v
}

func TestExactReferences(t *testing.T) {
	n := testkit.New
	// χ_2 has the closed form s e^{−r₀²/2} R(r₀+s), χ_1 is twice the Gaussian.
	for _, r0 := range []float64{0, 0.3, 2, 9, 30} {
		for _, s := range []float64{1e-6, 0.01, 0.5, 3} {
			density := testkit.Exp(testkit.Quo(testkit.Mul(n(r0), n(r0)), n(-2)))
			two := testkit.Mul(n(s), testkit.Mul(density, testkit.Mills(testkit.Add(n(r0), n(s)))))
			got := exactStick(n(r0), n(s), 2)
			rel, _ := testkit.Quo(testkit.Sub(got, two), two).Float64()
			require.Less(t, math.Abs(rel), 1e-40)
			e1 := testkit.Mul(n(s), testkit.Add(n(r0), testkit.Quo(n(s), n(2))))
			one := testkit.Mul(n(2), testkit.GaussianDelta(e1, n(s)))
			rel, _ = testkit.Quo(testkit.Sub(exactStick(n(r0), n(s), 1), one), one).Float64()
			require.Less(t, math.Abs(rel), 1e-40)
		}
	}
	// mpmath 1.3.0 at 70 digits: quad over the density of χ_q.
	for text, got := range map[string]*big.Float{
		"0.2670292517992262674903026011759392742504908934037545902":     exactStick(n(0.5), n(0.3), 3),
		"0.01663327127962248430999002645256676966439864005270493519":    exactStick(n(2.0), n(0.05), 5),
		"0.00007924125821140430081040636745033354125317683982841900346": exactStick(n(6.0), n(1.5), 12),
		"0.307087170534224975939266806953879531854903813301415374":      exactStick(n(0.0), n(0.2), 4),
		"2.357766326267503295443086040910203808609489593510684539":      exactMGF(n(0.5), 3),
		"0.0316166702470319156322552162878169317345649772721142145":     exactMGF(n(-2.0), 5),
		"179.7912347043325027659885004390222155693454768567580224":      exactMGF(n(3.0), 1),
		"0.6994487797023532869067988625679601963962933349846465986":     exactMGF(n(-0.3), 2),
		"0.6306799370375038983006001132526023931732592263246355562":     exactStick(n(-0.7), n(0.4), 4),
	} {
		want, _, err := big.ParseFloat(text, 10, testkit.Prec, big.ToNearestEven)
		require.NoError(t, err)
		rel, _ := testkit.Quo(testkit.Sub(got, want), want).Float64()
		require.Less(t, math.Abs(rel), 1e-48, text)
	}
}
