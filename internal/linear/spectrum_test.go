package linear

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// general are the constants of a loss of which only a Hessian of low rank is known.
func general(rank int) loss.Constants {
	return loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: rank, Structure: loss.General}
}

// Golden noise scales of theorem R for one eigenvalue, of adding and of replacing; none where
// no order is admitted.
func TestSpectrumGolden(t *testing.T) {
	var g struct {
		Curve []struct {
			Eps, Delta, Lambda, Alpha, Sigma float64
			Relation                         string
			RDP                              decimal
			Least                            string `json:"sigma_over_L"`
		}
	}
	loadJSON(t, "renyi.json", &g)
	for _, v := range g.Curve {
		m, times := &spectrum{v.Lambda, 1, v.Relation == "replace"}, 1.0
		if v.Relation == "remove" {
			continue
		}
		if m.replace {
			times = 2
		}
		relative(t, float64(v.RDP), m.rdp(v.Alpha, times/v.Sigma), 1e-12, v)
		got := times * m.leastNoise(v.Eps, math.Log(v.Delta), 0)
		if v.Least == "+inf" {
			require.Equal(t, math.Inf(1), got)
			continue
		}
		var want decimal
		require.NoError(t, want.UnmarshalJSON([]byte(v.Least)))
		above(t, float64(want)*(1-1e-12), got, v.Relation)
		log := m.logDelta(v.Eps, times/got, 0)
		require.LessOrEqual(t, log, math.Log(v.Delta))
		require.Greater(t, log, math.Log(v.Delta)-1e-6)
	}
}

// Noise of losses without one scalar derivative, and of ten classes, against a grid of 200,000 orders of another
// program; the dimension does not count.
func TestSpectrumSavesNoise(t *testing.T) {
	for _, c := range []struct {
		constants  loss.Constants
		classes    int
		ridge      float64
		add, twice float64
	}{
		{general(1), 0, 100, 4.04884482, 8.10359886},
		{general(1), 0, 100. / 3, 4.09111328, 8.22766166},
		{general(3), 0, 100, 4.05630436, 8.13047422},
		{loss.Multinomial{Classes: 10}.Constants(unit, 1), 10, 10, 6.19454815, 12.72196495},
		{loss.Multinomial{Classes: 10}.Constants(unit, 1), 10, 100, 5.72269734, 11.44902933},
	} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			p := Problem{Dim: 100, Constants: c.constants, Classes: c.classes, Relation: rel, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
			want := c.add
			if rel == dp.Replace {
				want = c.twice
			}
			b := at(t, p, c.ridge)
			require.Equal(t, TheoremRenyi, b.Theorem)
			require.InEpsilon(t, want, b.Sigma, 2e-8)
			remove, add := b.Curve.Profile(0, 0)
			require.LessOrEqual(t, max(remove(1), add(1)), 1e-5*(1+1e-9))
			p.Dim *= 10
			require.Equal(t, b.Sigma, at(t, p, c.ridge).Sigma)

			k := calibrator(t, p)
			whole := dp.Budget{Epsilon: 1.01, Delta: 1.01e-5}
			joint := k.Joint(b, whole, 0.0085)
			require.Equal(t, TheoremRenyi, joint.Theorem)
			for _, v := range []struct {
				b Noise
				w dp.Budget
				o float64
			}{{b, p.Budget, 0}, {joint, whole, 0.0085}} {
				proved, ok := k.Prove(v.b, v.w, v.o)
				require.True(t, ok)
				require.Equal(t, v.b.Sigma, proved.Sigma)
				v.b.Sigma *= 1 - 1e-5
				_, ok = k.Prove(v.b, v.w, v.o)
				require.False(t, ok)
			}
		}
	}
}

// At large ε the best order is where ψ₊ is not convex up to λ, and the enclosure knows it.
func TestSpectrumAtLargeEpsilon(t *testing.T) {
	p := Problem{Dim: 4, Constants: general(2), Relation: dp.Replace, Budget: dp.Budget{Epsilon: 30, Delta: 1e-5}}
	k := calibrator(t, p)
	const ridge = 1 / 0.9
	m := k.spectrum(ridge)
	q := claim{ridge: ridge, sigma: 2 * m.leastNoise(30, math.Log(1e-5), 0), eps: 30, delta: 1e-5}
	kappa := m.order(func(kappa float64) float64 { return m.at(30, 2/q.sigma, 0, kappa) })
	require.Greater(t, (1+kappa)*m.lambda*m.lambda, 1.0)
	require.True(t, k.provesSpectrum(q))
	q.sigma *= 1 - 1e-5
	require.False(t, k.provesSpectrum(q))
}

// k counts the trace: 1 − 1/K for the multinomial logistic loss, attained at equal chances,
// where β = 1/2 alone would be too small. No spectrum of that trace costs more.
func TestSpectrumCountsTheTrace(t *testing.T) {
	for _, classes := range []int{2, 3, 10, 100} {
		p := Problem{Dim: 400, Constants: loss.Multinomial{Classes: classes}.Constants(unit, 1), Classes: classes, Relation: dp.AddRemove,
			Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
		m := calibrator(t, p).spectrum(10)
		trace := 1 - 1/float64(classes)
		require.GreaterOrEqual(t, m.k*m.lambda*10, trace)
		require.LessOrEqual(t, m.k*m.lambda*10, trace*(1+1e-11)) // β is rounded outward by 1e-12
		if classes > 2 {
			require.Greater(t, m.cost(8), (&spectrum{m.lambda, 1, false}).cost(8), "β in the place of the trace")
		}
		for _, kappa := range []float64{0.1, 1, 8, 18} { // the spectrum of equal chances: K−1 of 1/K
			even := float64(classes-1) * psiMinus(math.Log1p(0.1/float64(classes)), kappa)
			require.GreaterOrEqual(t, m.cost(kappa)*(1+1e-12), even)
		}
	}
	p := Problem{Dim: 4, Constants: general(7), Relation: dp.AddRemove, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
	require.Equal(t, 4.0, calibrator(t, p).spectrum(10).k) // rank and dimension
	p.Constants = glm(1, 1)
	require.Nil(t, calibrator(t, p).spectrum(10))
}

// The costs in 60 digits, of two and a half eigenvalues.
func TestSpectrumInSixtyDigits(t *testing.T) {
	n, one := testkit.New, testkit.New(1)
	for _, lambda := range []float64{1e-4, 0.02, 0.3, 0.9} {
		for _, kappa := range []float64{0.1, 0.5, 0.9, 2.5, 30} {
			if kappa*lambda >= 0.99 {
				continue
			}
			plus, minus := n(0), n(0)
			for _, share := range []float64{1, 1, 0.5} {
				x, a, k := n(lambda*share), n(1+kappa), n(kappa)
				log := testkit.Log(testkit.Add(one, x))
				plus = testkit.Add(plus, testkit.Sub(testkit.Mul(a, log), testkit.Log(testkit.Add(one, testkit.Mul(a, x)))))
				minus = testkit.Sub(minus, testkit.Add(testkit.Mul(k, log), testkit.Log(testkit.Sub(one, testkit.Mul(k, x)))))
			}
			p, _ := plus.Float64()
			q, _ := minus.Float64()
			relative(t, q, (&spectrum{lambda, 2.5, false}).cost(kappa), 1e-11)
			if (1+kappa)*lambda*lambda > 1 { // ψ₊ is not convex up to λ
				p = q
			}
			relative(t, p+q, (&spectrum{lambda, 2.5, true}).cost(kappa), 1e-11)
		}
	}
}

// Automatic Δ takes the noise of a spectrum into account.
func TestBestOfSpectrum(t *testing.T) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, radius := range []float64{0.1, 1, 30} {
			p := Problem{Dim: 50, Constants: general(2), Relation: rel, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}}
			k, b := calibrator(t, p), Bound{Radius: radius}
			ridge, err := k.Best(b)
			require.NoError(t, err)
			best := b.At(ridge, 0, at(t, p, ridge).Square())
			for x := -2.0; x <= 3; x += 0.05 {
				if other, err := k.At(ridge * math.Exp(x)); err == nil && other.C <= cCeiling {
					require.LessOrEqual(t, best, b.At(other.Ridge, 0, other.Square())*(1+1e-5), "%v, B = %v: Δ = %v", rel, radius, other.Ridge)
				}
			}
		}
	}
}
