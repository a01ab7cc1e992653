package qop

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

var rational = testkit.New

// points is how many random problems a test of rounding directions looks at:
// all of them if PRIVOPT_DEEP is set.
func points(all int) int {
	if testkit.Deep() {
		return all
	}
	return all / 20
}

func logUniform(rnd *rand.Rand, lo, hi float64) float64 {
	return min(max(lo*math.Exp(rnd.Float64()*math.Log(hi/lo)), lo), hi)
}

func log1p(x *big.Float) *big.Float { return testkit.Log(testkit.Add(rational(1), x)) }

// hockey returns max(A, R) of least squares for integer k in closed form: the
// integrals of Theorem A are those of shifted χ²_k densities,
//
//	A = F(y*) − e^ε F(y*−t),   y* = t/(1 − e^{−(ε+t/2)/N})
//	R = Q(y₁) − e^ε Q(y₁+t),   y₁ = t/(e^{(t/2−ε)/N} − 1), for t > 2ε
//
// with N = k/2 − 1 > 0, F the distribution function of χ²_k and Q = 1 − F.
func hockey(eps, t *big.Float, k int) *big.Float {
	n, half := rational(float64(k)/2-1), testkit.Quo(t, rational(2))
	f := func(x *big.Float) *big.Float { return testkit.Sub(rational(1), testkit.Chi2SF(x, k)) }
	top := testkit.Quo(t, testkit.Sub(rational(1), testkit.Exp(testkit.Quo(testkit.Add(eps, half), testkit.Mul(rational(-1), n)))))
	add := testkit.Sub(f(top), testkit.Mul(testkit.Exp(eps), f(testkit.Sub(top, t))))
	if half.Cmp(eps) <= 0 {
		return add
	}
	from := testkit.Quo(t, testkit.Sub(testkit.Exp(testkit.Quo(testkit.Sub(half, eps), n)), rational(1)))
	remove := testkit.Sub(testkit.Chi2SF(from, k), testkit.Mul(testkit.Exp(eps), testkit.Chi2SF(testkit.Add(from, t), k)))
	if remove.Cmp(add) > 0 {
		return remove
	}
	return add
}

func declared(rnd *rand.Rand, s loss.Structure, d int) (erm.Public, dp.Budget) {
	q := erm.Public{
		Dim: d, Records: rnd.IntN(2) * rnd.IntN(1e6), Radius: logUniform(rnd, 1e-3, 1e3),
		Constants: loss.Constants{Smoothness: logUniform(rnd, 1e-4, 1e4), Rank: 1, Structure: s},
	}
	return q, dp.Budget{Epsilon: logUniform(rnd, 0.05, 10), Delta: logUniform(rnd, 1e-12, 0.2)}
}

// TestLeastSquaresIsRoundedUp: where Theorem A is a closed form, the curvature
// meets δ in 60-digit arithmetic, and one smaller by 1e-6 does not.
func TestLeastSquaresIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 9))
	for i := range points(1000) {
		d := 1 + rnd.IntN(6)
		rel := dp.AddRemove
		if i%4 == 0 { // in one dimension replacement costs no more
			d, rel = 1, dp.Replace
		}
		q, b := declared(rnd, loss.LSQ, d)
		m := &Mechanism{Relation: rel}
		if rnd.IntN(2) == 0 {
			m.Degrees = float64(d + 3 + rnd.IntN(40))
		}
		plan, err := m.Calibrate(q, b)
		require.NoError(t, err)
		p := plan.Params()
		at := fmt.Sprintf("%+v %+v", *m, q)
		require.Equal(t, theoremLSQ, p.Theorem)
		k := int(p.Degrees) - d + 1
		eps, delta := rational(p.Objective.Epsilon), rational(p.Objective.Delta)
		require.LessOrEqual(t, hockey(eps, rational(p.Ratio), k).Cmp(delta), 0, "t = %v is too large, %s", p.Ratio, at)
		require.Positive(t, hockey(eps, testkit.Mul(rational(p.Ratio), rational(1+1e-6)), k).Cmp(delta), "t = %v is too small, %s", p.Ratio, at)
		consistent(t, p, at)
	}
}

// TestThresholdIsRoundedUp: the closed forms of Theorem A, whose a is a quantile
// with a closed form in one dimension and at rank 1.
func TestThresholdIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 10))
	for i := range points(1000) {
		structure, d := loss.General, 1
		if i%2 == 0 {
			structure, d = loss.FixedRange, 1+rnd.IntN(4)
		}
		q, b := declared(rnd, structure, d)
		m := &Mechanism{Relation: []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)], Calibration: Threshold}
		if structure == loss.General {
			q.Constants.Rank = 1 + rnd.IntN(3)
		}
		plan, err := m.Calibrate(q, b)
		require.NoError(t, err)
		p := plan.Params()
		at := fmt.Sprintf("%+v %+v", *m, q)
		a, x, eps := rational(p.Threshold), rational(p.Ratio), rational(p.Objective.Epsilon)
		k := p.Degrees - float64(d) + 1
		ratio := func(x *big.Float) *big.Float { return testkit.Quo(x, a) }
		tail := func(a *big.Float) *big.Float { // P(λ_min < a)
			return testkit.Sub(rational(1), testkit.Chi2SF(a, int(k)))
		}
		budget := rational(p.Objective.Delta)
		if structure == loss.FixedRange && p.Relation == dp.Replace {
			budget = rational(p.Objective.Delta / 2)
		}
		require.LessOrEqual(t, tail(a).Cmp(budget), 0, "a = %v is too large, %s", p.Threshold, at)
		require.Positive(t, tail(testkit.Mul(a, rational(1+3e-6))).Cmp(budget), "a = %v is too small, %s", p.Threshold, at)

		privacyLoss := func(x *big.Float) *big.Float {
			l := log1p(ratio(x))
			minus := testkit.Mul(rational(-k/2), log1p(testkit.Mul(rational(-1), ratio(x))))
			half := testkit.Quo(x, rational(2))
			if structure == loss.General {
				s := testkit.Add(testkit.Mul(rational(float64(min(q.Constants.Rank, d))), l), minus)
				if d == 1 {
					s = testkit.Add(s, half)
				}
				return s
			}
			remove, add := l, testkit.Sub(minus, half)
			if half.Cmp(l) > 0 {
				remove = half
			}
			if add.Sign() < 0 {
				add = rational(0)
			}
			if p.Relation == dp.Replace {
				return testkit.Add(remove, add)
			}
			if remove.Cmp(add) > 0 {
				return remove
			}
			return add
		}
		require.LessOrEqual(t, privacyLoss(x).Cmp(eps), 0, "t = %v is too large, %s", p.Ratio, at)
		require.Positive(t, privacyLoss(testkit.Mul(x, rational(1+1e-9))).Cmp(eps), "t = %v is too small, %s", p.Ratio, at)
		consistent(t, p, at)
	}
}
