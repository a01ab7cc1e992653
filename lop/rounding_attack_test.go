package lop_test

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
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
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

// logUniform draws from [lo, hi].
func logUniform(rnd *rand.Rand, lo, hi float64) float64 {
	return min(max(lo*math.Exp(rnd.Float64()*math.Log(hi/lo)), lo), hi)
}

// public draws declared constants over many orders of magnitude.
func public(rnd *rand.Rand, delta float64) lop.Public {
	structures := []loss.Structure{loss.LSQ, loss.GLM, loss.GLM, loss.FixedRange, loss.General}
	q := lop.Public{
		Dim: 1 + rnd.IntN(6), Records: rnd.IntN(2) * rnd.IntN(1e6), Ridge: float64(rnd.IntN(2)) * logUniform(rnd, 1e-6, 1e3), Radius: logUniform(rnd, 1e-3, 1e3),
		Budget:    dp.Budget{Epsilon: logUniform(rnd, 0.01, 20), Delta: delta},
		Constants: loss.Constants{Lipschitz: logUniform(rnd, 1e-4, 1e4), Smoothness: logUniform(rnd, 1e-4, 1e4), Rank: 1 + rnd.IntN(3), Structure: structures[rnd.IntN(len(structures))]},
	}
	if q.Constants.Structure <= loss.GLM {
		q.Constants.Rank = 1
	}
	return q
}

// log1p returns log(1+x) for x > 0 in 60 digits.
func log1p(x *big.Float) *big.Float { return bigref.Log(bigref.Add(num(1), x)) }

// within fails unless want ≤ got ≤ want(1+excess), in 60 digits.
func within(t *testing.T, got float64, want *big.Float, excess float64, format string, args ...any) {
	t.Helper()
	g := num(got)
	if g.Cmp(want) < 0 || g.Cmp(bigref.Mul(want, num(1+excess))) > 0 {
		f, _ := want.Float64()
		t.Fatalf("%v, want %v rounded up by at most %v: %s", got, f, excess, fmt.Sprintf(format, args...))
	}
}

// below is within for rates, where safe is down.
func below(t *testing.T, got float64, want *big.Float, excess float64, format string, args ...any) {
	t.Helper()
	if g := num(got); g.Cmp(want) > 0 || bigref.Mul(g, num(1+excess)).Cmp(want) < 0 {
		f, _ := want.Float64()
		t.Fatalf("%v, want %v rounded down by at most %v: %s", got, f, excess, fmt.Sprintf(format, args...))
	}
}

// dims returns ρ of the determinant, q of the curve and whether q = 1 may be
// used at large r₀, from the table of the package comment.
func dims(q lop.Public, rel dp.Relation) (rank float64, chi int, paired bool) {
	rho, fixed := q.Constants.Rank, q.Constants.Rank
	if q.Constants.Structure == loss.General {
		fixed = q.Dim
	}
	rho, fixed = min(rho, q.Dim), min(fixed, q.Dim)
	if rel == dp.AddRemove {
		return float64(rho), fixed, false
	}
	return float64(rho), min(2*fixed, q.Dim), fixed == 1 && q.Dim > 1
}

// sensitivity returns G.
func sensitivity(q lop.Public, rel dp.Relation) *big.Float {
	if rel == dp.Replace {
		return bigref.Mul(num(2), num(q.Constants.Lipschitz))
	}
	return num(q.Constants.Lipschitz)
}

// curveDelta returns δ of the sharp curve at σ: the smaller of what is proved.
func curveDelta(e1, s *big.Float, chi int, paired, monotone bool) *big.Float {
	if monotone {
		return bigref.GaussianDelta(e1, s)
	}
	r0 := bigref.Sub(bigref.Quo(e1, s), bigref.Quo(s, num(2)))
	if paired && r0.Cmp(num(1.65)) >= 0 {
		chi = 1
	}
	return bigref.ChiStick(r0, s, chi)
}

// TestConstantsAreRoundedUp: at 10 000 random problems c, σ, a and the output
// noise of every calibration are on the safe side of 60-digit references and
// within 1e-6 of them.
func TestConstantsAreRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 6))
	for i := range points(8000) {
		delta := 0.0
		if i%4 != 0 {
			delta = logUniform(rnd, 1e-30, 0.3)
		}
		q := public(rnd, delta)
		rel := []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)]
		rank, chi, paired := dims(q, rel)
		m := &lop.Mechanism{Relation: rel, Share: []float64{0, 0.1, 0.5}[rnd.IntN(3)]}
		m.Monotone = delta > 0 && rel == dp.AddRemove && (q.Constants.Structure <= loss.GLM || q.Constants.Structure == loss.FixedRange && q.Constants.Rank == 1) && rnd.IntN(2) == 0
		if !m.Monotone && rnd.IntN(4) == 0 {
			m.Calibration = lop.Kifer
			if delta == 0 && rank == 1 && rnd.IntN(2) == 0 {
				m.Calibration = lop.CMS11
			}
		}
		if m.Calibration != lop.Kifer && rnd.IntN(2) == 0 { // a Δ that leaves c anywhere in (0, ε)
			rho, f := rank, (0.3+0.65*rnd.Float64())*(1-max(m.Share, 0.01))
			if m.Calibration == lop.CMS11 {
				rho = 2
			}
			m.Delta = q.Constants.Smoothness / math.Expm1(f*q.Budget.Epsilon/rho)
		}
		p, err := m.Calibrate(q)
		if m.Calibration == lop.Kifer && delta > 0 && chi > 2 {
			require.ErrorIs(t, err, dp.ErrCondition)
			continue
		}
		require.NoError(t, err)
		at := fmt.Sprintf("%+v %+v", *m, q)

		g, mu := sensitivity(q, rel), bigref.Add(num(p.Delta), num(q.Ridge))
		c := bigref.Mul(num(rank), log1p(bigref.Quo(num(q.Constants.Smoothness), mu)))
		if m.Calibration == lop.CMS11 {
			c = bigref.Mul(num(2), log1p(bigref.Quo(num(q.Constants.Smoothness), mu)))
		}
		within(t, p.C, c, 1e-12, "c, %s", at)
		eps := num(p.Objective.Epsilon)
		e1 := bigref.Sub(eps, c)
		// What the margin of c takes from ε − c, where little of ε is left.
		left, _ := e1.Float64()
		loose := 1e-6 + 1e-12*q.Budget.Epsilon/left
		switch {
		case delta == 0 && m.Calibration == lop.Kifer:
			below(t, p.Rate, bigref.Quo(eps, bigref.Mul(num(2), g)), 1e-6, "a, %s", at)
		case delta == 0:
			below(t, p.Rate, bigref.Quo(e1, g), loose, "a, %s", at)
		case m.Calibration == lop.Kifer:
			root := bigref.Sqrt(bigref.Add(bigref.Mul(num(8), bigref.Log(bigref.Quo(num(2), num(p.Objective.Delta)))), bigref.Mul(num(4), eps)))
			within(t, p.Sigma, bigref.Quo(bigref.Mul(g, root), eps), 1e-6, "σ, %s", at)
		default:
			s := bigref.Quo(g, num(p.Sigma))
			target := num(p.Objective.Delta)
			require.LessOrEqual(t, curveDelta(e1, s, chi, paired, m.Monotone).Cmp(target), 0, "σ = %v is too small, %s", p.Sigma, at)
			s = bigref.Mul(s, num(1+loose))
			require.Positive(t, curveDelta(e1, s, chi, paired, m.Monotone).Cmp(target), "σ = %v is too large, %s", p.Sigma, at)
		}
		output(t, p, bigref.Mul(num(2), num(p.Cover)), at)
	}
}

// output checks the noise that hides a difference of sens.
func output(t *testing.T, p *lop.Plan, sens *big.Float, at string) {
	t.Helper()
	if p.Budget.Delta == 0 {
		below(t, p.OutputRate, bigref.Quo(num(p.Output.Epsilon), sens), 1e-6, "output rate, %s", at)
		return
	}
	eps, delta, s := num(p.Output.Epsilon), num(p.Output.Delta), bigref.Quo(sens, num(p.OutputSigma))
	require.LessOrEqual(t, bigref.GaussianDelta(eps, s).Cmp(delta), 0, "output σ = %v is too small, %s", p.OutputSigma, at)
	require.Positive(t, bigref.GaussianDelta(eps, bigref.Mul(s, num(1+1e-6))).Cmp(delta), "output σ = %v is too large, %s", p.OutputSigma, at)
}

// TestOutputIsRoundedUp: the same for output perturbation, which hides G/μ + 2R.
func TestOutputIsRoundedUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 7))
	for i := range points(2000) {
		delta := 0.0
		if i%4 != 0 {
			delta = logUniform(rnd, 1e-30, 0.3)
		}
		q := public(rnd, delta)
		rel := []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)]
		m := &lop.Output{Relation: rel, Records: 1 + rnd.IntN(1000)}
		p, err := m.Calibrate(q)
		require.NoError(t, err)
		mu := bigref.Add(num(p.Delta), num(q.Ridge))
		sens := bigref.Add(bigref.Quo(sensitivity(q, rel), mu), bigref.Mul(num(2), num(p.Cover)))
		output(t, p, sens, fmt.Sprintf("%+v %+v", *m, q))
	}
}

// TestRDPCurveIsAccurate: the Rényi curve of a plan is c + s²/2 + log E
// e^{(α−1)sχ_q}/(α−1) + αo²/2 rounded up by less than 1e-6.
func TestRDPCurveIsAccurate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 8))
	for range points(1000) {
		q := public(rnd, 1e-6)
		rel := []dp.Relation{dp.Replace, dp.AddRemove}[rnd.IntN(2)]
		p, err := (&lop.Mechanism{Relation: rel, Cover: 0.1 * q.Radius, Share: 0.3}).Calibrate(q)
		require.NoError(t, err)
		_, chi, paired := dims(q, rel)
		if paired {
			chi = 1
		}
		alpha := 1 + logUniform(rnd, 1e-3, 1e3)
		if (alpha-1)*p.S > 30 { // what the reference can sum
			continue
		}
		am1 := bigref.Sub(num(alpha), num(1))
		s, o := bigref.Quo(sensitivity(q, rel), num(p.Sigma)), bigref.Quo(bigref.Mul(num(2), num(p.Cover)), num(p.OutputSigma))
		want := bigref.Add(num(p.C), bigref.Quo(bigref.Mul(s, s), num(2)))
		want = bigref.Add(want, bigref.Quo(bigref.Log(bigref.ChiMGF(bigref.Mul(am1, s), chi)), am1))
		want = bigref.Add(want, bigref.Mul(num(alpha/2), bigref.Mul(o, o)))
		within(t, p.RDP()(alpha), want, 1e-6, "RDP(%v) of %+v", alpha, p)
		within(t, p.RDP()(1+1e-9), num(p.RDP()(1)/(1+2e-9)), 1e-6, "RDP near 1 of %+v", p)
	}
}
