package qop_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/bigref"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

var num = bigref.New

// points is how many random problems a test of rounding directions looks at:
// all of them if PRIVOPT_LONG is set.
func points(all int) int {
	switch {
	case os.Getenv("PRIVOPT_LONG") != "":
		return all
	case testing.Short():
		return all / 100
	}
	return all / 4
}

func logUniform(rnd *rand.Rand, lo, hi float64) float64 {
	return min(max(lo*math.Exp(rnd.Float64()*math.Log(hi/lo)), lo), hi)
}

func log1p(x *big.Float) *big.Float { return bigref.Log(bigref.Add(num(1), x)) }

// hockey returns max(A, R) of least squares for integer k in closed form: the
// integrals of Theorem A are those of shifted χ²_k densities,
//
//	A = F(y*) − e^ε F(y*−t),   y* = t/(1 − e^{−(ε+t/2)/N})
//	R = Q(y₁) − e^ε Q(y₁+t),   y₁ = t/(e^{(t/2−ε)/N} − 1), for t > 2ε
//
// with N = k/2 − 1 > 0, F the distribution function of χ²_k and Q = 1 − F.
func hockey(eps, t *big.Float, k int) *big.Float {
	n, half := num(float64(k)/2-1), bigref.Quo(t, num(2))
	f := func(x *big.Float) *big.Float { return bigref.Sub(num(1), bigref.Chi2SF(x, k)) }
	top := bigref.Quo(t, bigref.Sub(num(1), bigref.Exp(bigref.Quo(bigref.Add(eps, half), bigref.Mul(num(-1), n)))))
	add := bigref.Sub(f(top), bigref.Mul(bigref.Exp(eps), f(bigref.Sub(top, t))))
	if half.Cmp(eps) <= 0 {
		return add
	}
	from := bigref.Quo(t, bigref.Sub(bigref.Exp(bigref.Quo(bigref.Sub(half, eps), n)), num(1)))
	remove := bigref.Sub(bigref.Chi2SF(from, k), bigref.Mul(bigref.Exp(eps), bigref.Chi2SF(bigref.Add(from, t), k)))
	if remove.Cmp(add) > 0 {
		return remove
	}
	return add
}

func declared(rnd *rand.Rand, s loss.Structure, d int) qop.Public {
	return qop.Public{
		Dim: d, Records: rnd.IntN(2) * rnd.IntN(1e6), Radius: logUniform(rnd, 1e-3, 1e3),
		Budget:    dp.Budget{Epsilon: logUniform(rnd, 0.05, 10), Delta: logUniform(rnd, 1e-12, 0.2)},
		Constants: loss.Constants{Smoothness: logUniform(rnd, 1e-4, 1e4), Rank: 1, Structure: s},
	}
}

// outputNoise checks what every plan has: σ²t ≥ L and the output noise for 2R.
func outputNoise(t *testing.T, p *qop.Plan, at string) {
	t.Helper()
	l := num(p.Constants.Smoothness)
	product := bigref.Mul(num(p.Sigma2), num(p.T))
	require.GreaterOrEqual(t, product.Cmp(l), 0, "σ² = %v is too small, %s", p.Sigma2, at)
	require.LessOrEqual(t, product.Cmp(bigref.Mul(l, num(1+1e-9))), 0, "σ² = %v is too large, %s", p.Sigma2, at)
	s := bigref.Quo(bigref.Mul(num(2), num(p.Reach)), num(p.OutputSigma))
	eps, delta := num(p.Output.Epsilon), num(p.Output.Delta)
	require.LessOrEqual(t, bigref.GaussianDelta(eps, s).Cmp(delta), 0, "output σ = %v is too small, %s", p.OutputSigma, at)
	require.Positive(t, bigref.GaussianDelta(eps, bigref.Mul(s, num(1+1e-6))).Cmp(delta), "output σ = %v is too large, %s", p.OutputSigma, at)
	require.LessOrEqual(t, p.Objective.Epsilon+p.Output.Epsilon, p.Budget.Epsilon)
	require.LessOrEqual(t, p.Objective.Delta+p.Output.Delta+p.Low+p.High, p.Budget.Delta)
	require.Equal(t, p.Sigma2*p.M, p.Curvature)
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
		q := declared(rnd, loss.LSQ, d)
		m := &qop.Mechanism{Relation: rel}
		if rnd.IntN(2) == 0 {
			m.M = float64(d + 2 + rnd.IntN(40))
		}
		p, err := m.Calibrate(q)
		require.NoError(t, err)
		at := fmt.Sprintf("%+v %+v", *m, q)
		require.Equal(t, qop.TheoremLSQ, p.Theorem)
		k := int(p.M) - d + 1
		require.GreaterOrEqual(t, k, 2)
		if k > 2 {
			eps, delta := num(p.Objective.Epsilon), num(p.Objective.Delta)
			require.LessOrEqual(t, hockey(eps, num(p.T), k).Cmp(delta), 0, "t = %v is too large, %s", p.T, at)
			require.Positive(t, hockey(eps, bigref.Mul(num(p.T), num(1+1e-6)), k).Cmp(delta), "t = %v is too small, %s", p.T, at)
		}
		outputNoise(t, p, at)
	}
}

// TestThresholdIsRoundedUp: the closed forms of Theorem A, whose a is a quantile
// with a closed form in one dimension, at m = d + 1, and at rank 1.
func TestThresholdIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 10))
	for i := range points(1000) {
		structure, d := loss.General, 1+rnd.IntN(4)
		if i%2 == 0 {
			structure = loss.FixedRange
		}
		q := declared(rnd, structure, d)
		m := &qop.Mechanism{Relation: []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)], Calibration: qop.Threshold}
		if structure == loss.General {
			q.Constants.Rank = 1 + rnd.IntN(3)
			if d > 1 {
				m.M = float64(d + 1)
			}
		}
		p, err := m.Calibrate(q)
		require.NoError(t, err)
		at := fmt.Sprintf("%+v %+v", *m, q)
		a, x, eps := num(p.Threshold), num(p.T), num(p.Objective.Epsilon)
		k := p.M - float64(d) + 1
		ratio := func(x *big.Float) *big.Float { return bigref.Quo(x, a) }
		tail := func(a *big.Float) *big.Float { // P(λ_min < a)
			if structure == loss.FixedRange || d == 1 {
				return bigref.Sub(num(1), bigref.Chi2SF(a, int(k)))
			}
			return bigref.Sub(num(1), bigref.Exp(bigref.Mul(a, num(-float64(d)/2)))) // m = d + 1
		}
		budget := num(p.Objective.Delta)
		if structure == loss.FixedRange && p.Relation == dp.Replace {
			budget = num(p.Objective.Delta / 2)
		}
		require.LessOrEqual(t, tail(a).Cmp(budget), 0, "a = %v is too large, %s", p.Threshold, at)
		require.Positive(t, tail(bigref.Mul(a, num(1+3e-6))).Cmp(budget), "a = %v is too small, %s", p.Threshold, at)

		privacyLoss := func(x *big.Float) *big.Float {
			l := log1p(ratio(x))
			minus := bigref.Mul(num(-k/2), log1p(bigref.Mul(num(-1), ratio(x))))
			half := bigref.Quo(x, num(2))
			if structure == loss.General {
				s := bigref.Add(bigref.Mul(num(float64(min(q.Constants.Rank, d))), l), minus)
				if d == 1 {
					s = bigref.Add(s, half)
				}
				return s
			}
			remove, add := l, bigref.Sub(minus, half)
			if half.Cmp(l) > 0 {
				remove = half
			}
			if add.Sign() < 0 {
				add = num(0)
			}
			if p.Relation == dp.Replace {
				return bigref.Add(remove, add)
			}
			if remove.Cmp(add) > 0 {
				return remove
			}
			return add
		}
		require.LessOrEqual(t, privacyLoss(x).Cmp(eps), 0, "t = %v is too large, %s", p.T, at)
		require.Positive(t, privacyLoss(bigref.Mul(x, num(1+1e-9))).Cmp(eps), "t = %v is too small, %s", p.T, at)
		outputNoise(t, p, at)
	}
}

// TestInexactIsRoundedUp: Theorem B in one dimension, where λ_min and ‖e‖²_W are
// χ²_m variables: α, b and R are on the safe side.
func TestInexactIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 11))
	for range points(60) {
		q := declared(rnd, loss.LSQ, 1)
		m := &qop.Mechanism{Relation: dp.AddRemove, Eta: logUniform(rnd, 1e-3, 1) * q.Radius, M: float64(3 + rnd.IntN(30))}
		p, err := m.Calibrate(q)
		require.NoError(t, err)
		at := fmt.Sprintf("%+v %+v", *m, q)
		dof := int(p.M)
		f := func(x *big.Float) *big.Float { return bigref.Sub(num(1), bigref.Chi2SF(x, dof)) }
		twice := bigref.Add(num(1), bigref.Exp(num(p.Objective.Epsilon)))
		least := func(a, b *big.Float) *big.Float {
			if a.Cmp(b) < 0 {
				return a
			}
			return b
		}
		alpha, b, x := num(p.Alpha), num(p.Upper), num(p.T)
		low := least(f(bigref.Add(alpha, x)), bigref.Mul(twice, f(alpha)))
		require.LessOrEqual(t, low.Cmp(num(p.Low)), 0, "α = %v is too large, %s", p.Alpha, at)
		high := least(bigref.Chi2SF(bigref.Sub(b, x), dof), bigref.Mul(twice, bigref.Chi2SF(b, dof)))
		require.LessOrEqual(t, high.Cmp(num(p.High)), 0, "b = %v is too small, %s", p.Upper, at)
		reach := bigref.Add(num(p.Cover), bigref.Mul(num(p.Eta), bigref.Sqrt(bigref.Quo(b, alpha))))
		require.GreaterOrEqual(t, num(p.Reach).Cmp(reach), 0, "R = %v is too small, %s", p.Reach, at)
		require.LessOrEqual(t, num(p.Reach).Cmp(bigref.Mul(reach, num(1+1e-6))), 0, "R = %v is too large, %s", p.Reach, at)
		outputNoise(t, p, at)
	}
}
