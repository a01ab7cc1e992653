// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/linear"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// The scales of the table agree, and lie on the safe side by at most 5e-4.
func TestOPDiscGolden(t *testing.T) {
	c := readConstants(t)
	safe := func(want, got float64) {
		t.Helper()
		require.GreaterOrEqual(t, got, want*(1-1e-11))
		require.LessOrEqual(t, got, want*(1+5e-4)) // what integer features add
	}
	for _, g := range c.OPDisc {
		q := public{Space: Lattice(g.Q), Dim: g.D, Range: 1, Budget: dp.Budget{Epsilon: g.Eps, Delta: g.Delta}}
		p, err := calibrate(&OPDisc{}, q)
		require.NoError(t, err)
		safe(g.Shift, p.params.Shift)
		safe(g.Radial, p.params.Scale)
		safe(2*g.MeanNorm, p.params.ExcessBound)
		require.Equal(t, dp.Budget{Epsilon: g.Eps}, p.params.Proved, "pure: no δ")
		require.Equal(t, g.D+1, p.params.Noises)
		p, err = calibrate(&OPDisc{Law: Gaussian}, q)
		require.NoError(t, err)
		safe(g.Proved, p.params.Scale)
		require.Equal(t, q.Budget, p.params.Proved)
		p, err = calibrate(&OPDisc{Law: PaperSigma}, q)
		require.NoError(t, err)
		require.InEpsilon(t, g.Alg1, p.params.Scale, 1e-12)
		require.Greater(t, p.params.Proved.Epsilon, g.Eps, "not sold at the claimed ε")
		require.Contains(t, p.String(), "not proved at the budget")
		// The proved Gaussian at the shift of a set that is only separated.
		b := q.Budget
		safe(g.Proved92, sigmaFor(func(e, a float64) float64 { return linear.LogChi(e, a, g.D+1) }, b, g.ShiftAll))
	}
	for _, g := range c.More {
		q := public{Space: Lattice(g.Q), Dim: g.D, Range: 1, Budget: dp.Budget{Epsilon: g.Eps, Delta: g.Delta}}
		p, err := calibrate(&OPDisc{}, q)
		require.NoError(t, err)
		safe(g.Shift, p.params.Shift)
		safe(g.Radial, p.params.Scale)
		p, err = calibrate(&OPDisc{Law: Gaussian}, q)
		require.NoError(t, err)
		safe(g.Proved, p.params.Scale)
	}
	// The ε proved for the published σ at Q = d = 23, to the digits of the table.
	for eps, want := range map[float64]string{0.1: "0.108", 0.3: "0.331", 0.5: "0.558", 0.7: "0.787", 1: "1.134"} {
		q := public{Space: Lattice(23), Dim: 23, Range: 1, Budget: dp.Budget{Epsilon: eps, Delta: c.OPDisc[0].Delta}}
		p, err := calibrate(&OPDisc{Law: PaperSigma}, q)
		require.NoError(t, err)
		require.Equal(t, want, big.NewFloat(p.params.Proved.Epsilon).Text('f', 3))
		// Half of it, as in the published code, through a stated Sigma.
		half := map[float64]string{0.1: "0.219", 0.3: "0.672", 0.5: "1.134", 0.7: "1.601", 1: "2.311"}[eps]
		q.Budget.Epsilon = 1 // a stated scale does not depend on it
		p, err = calibrate(&OPDisc{Law: Gaussian, Sigma: p.params.Scale / 2}, q)
		require.NoError(t, err)
		require.Equal(t, theoremSigma, p.params.Theorem)
		require.Equal(t, half, big.NewFloat(p.params.Proved.Epsilon).Text('f', 3))
	}
}

// TestDiscFormulas: scale, bound and reach of OPDisc.
func TestDiscFormulas(t *testing.T) {
	budget := dp.Budget{Epsilon: 0.8, Delta: 1e-6}
	for _, c := range []struct {
		space  Space
		m      int
		shift  float64 // at R = 3
		factor float64
	}{{Lattice(6), 5, 6 * (6 + math.Sqrt(30)), 18}, {cube(), 4, 12, 3}} {
		q := public{Space: c.space, Dim: 4, Range: 3, Budget: budget}
		p, err := calibrate(&OPDisc{}, q)
		require.NoError(t, err)
		require.Equal(t, c.m, p.params.Noises)
		require.InEpsilon(t, c.shift, p.params.Shift, 5e-4)
		require.GreaterOrEqual(t, p.params.Shift, c.shift)
		require.InEpsilon(t, p.params.Shift/0.8, p.params.Scale, 1e-13)
		require.Greater(t, p.params.Scale*0.8, p.params.Shift)
		require.InEpsilon(t, 2*p.params.Scale*float64(c.m), p.params.ExcessBound, 1e-4)
		g, err := calibrate(&OPDisc{Law: Gaussian}, q)
		require.NoError(t, err)
		require.LessOrEqual(t, linear.LogChi(0.8, g.params.Shift/g.params.Scale, c.m), math.Log(1e-6))
		require.Greater(t, linear.LogChi(0.8, g.params.Shift/g.params.Scale*(1+1e-7), c.m), math.Log(1e-6))
		mean := math.Sqrt2 * math.Gamma(float64(c.m+1)/2) / math.Gamma(float64(c.m)/2)
		require.InEpsilon(t, 2*g.params.Scale*mean, g.params.ExcessBound, 1e-4)
		paper, err := calibrate(&OPDisc{Law: PaperSigma}, q)
		require.NoError(t, err)
		require.InEpsilon(t, paperSigma(budget, c.factor), paper.params.Scale, 1e-14)
		require.LessOrEqual(
			t,
			linear.LogChi(paper.params.Proved.Epsilon, paper.params.Shift/paper.params.Scale, c.m),
			math.Log(1e-6),
		)
		require.Greater(
			t,
			linear.LogChi(paper.params.Proved.Epsilon*(1-1e-7), paper.params.Shift/paper.params.Scale, c.m),
			math.Log(1e-6),
		)
		stated, err := calibrate(&OPDisc{Law: Gaussian, Sigma: 0.9 * g.params.Scale}, q)
		require.NoError(t, err)
		require.Equal(t, 0.9*g.params.Scale, stated.params.Scale)
		require.Greater(t, stated.params.Proved.Epsilon, 0.8)
	}
	q := public{Space: Lattice(6), Dim: 4, Range: 3, Budget: budget}
	for _, c := range []struct {
		m  OPDisc
		ok bool
	}{
		{OPDisc{Law: Gaussian, Sigma: 0x1p50}, false}, {OPDisc{Law: Gaussian, Sigma: 0.5}, true},
		{OPDisc{Law: Gaussian, Sigma: 40}, true}, {OPDisc{Sigma: 0.5}, false}, {OPDisc{Sigma: -0.5}, false},
		{OPDisc{Law: PaperSigma, Sigma: 40}, false}, {OPDisc{Law: KNorm}, false}, {OPDisc{Law: Laplace}, false},
		{OPDisc{Law: Gaussian, Sigma: 40, Failure: 1e-9}, false}, {OPDisc{Law: Gaussian, Failure: 1e-9}, true},
	} {
		_, err := calibrate(&c.m, q)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c.m, err)
	}
	_, err := calibrate(&OPDisc{Law: Gaussian, Sigma: math.Nextafter(0x1p50, 0)}, q)
	require.NotErrorIs(t, err, ErrMechanism) // the range of searches decides
	q.Budget.Delta = 0
	_, err = calibrate(&OPDisc{Law: Gaussian}, q)
	require.ErrorIs(t, err, dp.ErrBudget)
	require.Equal(t, []bool{true, false, false, false},
		[]bool{(&Space{Values: []int{-1, 1}}).isCube(2), (&Space{Values: []int{-1, 0, 1}}).isCube(2),
			(&Space{Values: []int{1, 2}}).isCube(2), (&Space{Values: []int{-2, 1}}).isCube(2)})
}

// TestRoots: c(q) is the integer next to 2^b√(Q−q).
func TestRoots(t *testing.T) {
	for _, q := range []int{1, 2, 3, 4, 23, 1000} {
		for _, b := range []int{0, 1, 5, 17, 40} {
			for i, c := range roots(q, b) {
				twice := big.NewInt(2 * c)
				n := new(big.Int).Lsh(big.NewInt(int64(q-i)), uint(2*b+2)) // (2·2^b√(Q−q))²
				above := new(big.Int).Add(twice, big.NewInt(1))
				require.LessOrEqual(t, n.Cmp(above.Mul(above, above)), 0)
				if c > 0 {
					below := new(big.Int).Sub(twice, big.NewInt(1))
					require.GreaterOrEqual(t, n.Cmp(below.Mul(below, below)), 0)
				}
			}
		}
	}
}

// TestIntegerShift: the integer features and shifts of small lattices satisfy the
// condition of the theorem for every pair of points, as rationals, and no shift is
// longer than Shift; with the shift of a thousandth less it fails.
func TestIntegerShift(t *testing.T) {
	type point struct {
		w  []int
		sq int
	}
	pairs := 0
	for _, c := range []struct {
		space  Space
		d      int
		lip    float64
		reach  float64 // noise that the tables must hold
		square bool
	}{
		{Lattice(1), 1, 0, 1e3, false}, {Lattice(1), 3, 0, 1e3, false}, {Lattice(2), 2, 0, 1e6, false},
		{Lattice(3), 2, 0, 1e9, false},
		{Lattice(4), 3, 0, 1e4, false}, {Lattice(5), 2, 0, 1e10, false}, {Lattice(9), 2, 0, 1e4, false},
		{Lattice(23), 2, 0, 1e5, false},
		{Lattice(4), 2, 0.3, 1e4, false},
		{cube(), 1, 0, 1e3, true}, {cube(), 4, 0, 1e7, true}, {cube(), 3, 0.2, 1e3, true},
	} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			k := swing(rel)
			slope := math.Inf(1)
			if c.lip > 0 {
				slope = k * c.lip
			}
			delta := radialShift(c.square, c.d, c.space.NormSq, k, slope)
			pl := &Plan{params: Params{Space: c.space, Dim: c.d, Range: 1}, cube: c.square}
			require.NoError(t, pl.discretize(delta, c.reach))
			size := delta / (pl.norm() * pl.norm())
			lambda, last := pl.integerShift(size)
			var points []point
			walkSpace(problemOver(t, c.d, c.space, false), func(w []int) {
				sq := 0
				for _, v := range w {
					sq += v * v
				}
				points = append(points, point{slices.Clone(w), sq})
			})
			unit := exact(math.Ldexp(1, pl.params.unit()))
			holds := func(lambda float64) bool {
				for _, w := range points {
					for _, v := range points {
						if slices.Equal(w.w, v.w) {
							continue
						}
						pairs++
						gain, apart := int64(0), 0
						for j := range w.w {
							gain += int64(lambda) * int64(w.w[j]*(w.w[j]-v.w[j])) << pl.params.FeatureBits
							apart += (w.w[j] - v.w[j]) * (w.w[j] - v.w[j])
						}
						if !c.square {
							gain += int64(last[w.sq]) * (pl.last[w.sq] - pl.last[v.sq])
						}
						need := math.Min(k, slope*math.Sqrt(float64(apart))*(1-1e-15))
						if new(big.Rat).Mul(big.NewRat(gain, 1), unit).Cmp(exact(need)) < 0 {
							return false
						}
					}
				}
				return true
			}
			require.True(t, holds(lambda), "%+v", c)
			if c.lip == 0 {
				for i := range last {
					last[i] = math.Floor(last[i] * 0.99)
				}
				require.False(t, holds(math.Floor(lambda*0.99)), "%+v", c)
				lambda, last = pl.integerShift(size)
			}
			for _, w := range points {
				long := lambda * lambda * float64(w.sq)
				if !c.square {
					long += last[w.sq] * last[w.sq]
				}
				require.LessOrEqual(t, math.Sqrt(long)*math.Ldexp(pl.norm(), pl.params.Exponent), pl.params.Shift)
			}
			require.LessOrEqual(t, pl.params.Shift, delta*(1+2*maxLoss))
		}
	}
	require.Greater(t, pairs, 5000)
}

// TestReach: what the tables may hold is refused beyond 2⁵⁹ steps, and noise of any
// size below is on a grid that holds it.
func TestReach(t *testing.T) {
	for _, q := range []public{{Space: Lattice(6), Dim: 4, Range: 1}, {Space: Lattice(23), Dim: 23, Range: 1},
		{Space: cube(), Dim: 30, Range: 1}, {Space: Lattice(4), Dim: 3, Range: 1e-9, OracleLoss: true}} {
		for eps := dp.MaxEpsilon; eps > dp.MinEpsilon; eps /= 16 {
			for _, m := range []any{&OPDisc{}, &OPDisc{Law: Gaussian}, &Product{}, &Product{Law: OneSided},
				&RSPM{}, &RSPM{Law: Gaussian}} {
				q.Budget = dp.Budget{Epsilon: eps, Delta: 1e-6}
				pl, err := calibrate(m, q)
				if err != nil {
					require.ErrorIs(t, err, dp.ErrCondition)
					if _, ok := m.(*OPDisc); ok {
						require.Less(t, eps, 1e-3, "%v", err)
					}
					continue
				}
				for i := range 20 {
					require.NotNil(t, pl.draw(nil, sample.Reproducible(uint64(i))), "%v at %v", m, eps)
				}
			}
		}
	}
}

// TestTablesAreFeatures: a draw is one integer for each feature, of every residue
// alike, and the tables are its exact multiples, which the condition of the theorem
// is about. The control: noise as floats, rounded to steps once it is spread, is
// not.
func TestTablesAreFeatures(t *testing.T) {
	for _, law := range []Law{Radial, Gaussian} {
		pl, err := calibrate(
			&OPDisc{Law: law},
			public{Space: Lattice(6), Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1, Delta: 1e-5}},
		)
		require.NoError(t, err)
		b := pl.params.FeatureBits
		features := func(n *perturbation) (eta []int64, exact bool) {
			exact = true
			for _, row := range n.table {
				k := row[3] >> b // v = 1
				eta = append(eta, k)
				for i, v := range pl.params.Values {
					exact = exact && row[i] == k*int64(v)<<b
				}
			}
			k := n.norm[6-1] >> b // c = 1
			eta = append(eta, k)
			for i, c := range pl.last {
				exact = exact && n.norm[i] == k*c
			}
			return eta, exact
		}
		src := sample.Reproducible(50, law.String())
		counts := make([]int, 8)
		spoiled := 0
		for range 5000 {
			n := pl.draw(nil, src)
			eta, exact := features(n)
			require.True(t, exact)
			for _, k := range eta {
				counts[uint64(k)%8]++
			}
			old := &perturbation{table: make([][]fixed, 3)}
			x := make([]float64, 4)
			sample.Normal(x, math.Ldexp(pl.params.Scale/math.Sqrt(6), -pl.params.unit()), src)
			for j := range old.table {
				for _, v := range pl.params.Values {
					old.table[j] = append(old.table[j], int64(math.RoundToEven(x[j]*float64(v))))
				}
			}
			for q := range pl.last {
				old.norm = append(old.norm, int64(math.RoundToEven(x[3]*math.Sqrt(float64(6-q)))))
			}
			if _, exact := features(old); !exact {
				spoiled++
			}
		}
		require.Greater(t, spoiled, 4900)
		want := []float64{.125, .125, .125, .125, .125, .125, .125, .125}
		_, p := testkit.ChiSquare(counts, want) // and so modulo 2 and 4
		require.Greater(t, p, testkit.FalseReject)
	}
}

// Noise rounded to even in the place of ⌊x+½⌋ is not shifted by an odd integer: at
// σ/g = ½ the ratio that a shift by one step costs is beyond what the density pays.
func TestTiesToEven(t *testing.T) {
	// Ties have probability 0 under a real law and half of it where it is already on
	// the grid of halves, as floats are: the law of 2η = integers, then rounded.
	half := func(round func(float64) float64) map[int]float64 {
		out := map[int]float64{}
		for k := -400; k <= 400; k++ { // e^{−|k|/8}: every ratio of neighbors in k is at most e^{1/8}
			out[int(round(float64(k)/2))] += math.Exp(-math.Abs(float64(k)) / 8)
		}
		return out
	}
	worst := func(law map[int]float64) (w float64) {
		for k := -50; k < 50; k++ {
			w = max(w, math.Abs(math.Log(law[k+1]/law[k])))
		}
		return w
	}
	floor := half(func(x float64) float64 { return math.Floor(x + 0.5) })
	require.LessOrEqual(t, worst(floor), 0.25+1e-12) // a shift by a step is one by two halves
	require.Greater(t, worst(half(math.RoundToEven)), 0.25*2)
}

// parityOracle minimizes 1[parity of w is even] (or odd) − ⟨T, w⟩ over {−1,+1}ᵈ:
// a bounded loss that is no halfspace. The best point of either parity is the
// sign vector of the noise, or that with its cheapest coordinate flipped.
type parityOracle struct{ even bool }

func (o parityOracle) Solve(_ context.Context, p *Problem) (*Solution, error) {
	w, parity := make([]int, p.dim), 0
	gain, cheapest, at := 0.0, math.Inf(1), 0
	table, _ := p.real()
	for j, row := range table {
		k := 0
		if row[1] > row[0] {
			k = 1
		}
		w[j] = p.space.Values[k]
		parity ^= k
		gain += row[k]
		if c := row[k] - row[1-k]; c < cheapest {
			cheapest, at = c, j
		}
	}
	loss := 0
	if (parity == 0) == o.even {
		if loss = 1; cheapest < 1 {
			loss, gain = 0, gain-cheapest
			w[at] = -w[at]
		}
	}
	v := float64(loss) - gain
	return &Solution{W: w, Loss: loss, Objective: v, Lower: v, Proven: true}, nil
}

// parityProbs returns P_D(A) and P_D′(A) for the event A of even parity under
// Gaussian noise: the least |η_j| decides, at s = σ/√d and with q = P(|N| > 1/2s)ᵈ
// they are q/2 and 1 − q/2.
func parityProbs(d int, sigma float64) (low, high float64) {
	s := sigma / math.Sqrt(float64(d))
	q := math.Exp(float64(d) * (math.Ln2 + num.LogQ(1/(2*s))))
	return q / 2, 1 - q/2
}

// The counterexample to the published σ: it is not sold as (ε, δ)-private at the
// claimed ε, the certificate's ε covers it, and the analytic Gaussian mechanism
// would fail as well. The proved calibrations hold at every d.
func TestParityCounterexample(t *testing.T) {
	violated := func(d int, sigma float64, b dp.Budget) bool {
		low, high := parityProbs(d, sigma)
		return high > math.Exp(b.Epsilon)*low+b.Delta
	}
	cubePlan := func(m *OPDisc, d int, b dp.Budget) *Plan {
		pl, err := calibrate(m, public{Space: cube(), Dim: d, Range: 1, Budget: b})
		require.NoError(t, err)
		return pl
	}
	for _, g := range readConstants(t).Parity {
		low, high := parityProbs(g.D, g.Sigma)
		require.InEpsilon(t, g.Low, low, 1e-9)
		require.InEpsilon(t, g.High, high, 1e-9)
		b := dp.Budget{Epsilon: g.Eps, Delta: g.Delta}
		require.InEpsilon(t, g.DeltaRequired, high-math.Exp(g.Eps)*low, 1e-9)
		if g.Variant != "alg1" {
			continue
		}
		pl := cubePlan(&OPDisc{Law: PaperSigma}, g.D, b)
		require.InEpsilon(t, g.Sigma, pl.params.Scale, 1e-12)
		require.True(t, violated(g.D, pl.params.Scale, b))
		require.Greater(t, pl.params.Proved.Epsilon, 1.3*g.Eps, "PaperSigma is not sold as private")
		require.False(t, violated(g.D, pl.params.Scale, pl.params.Proved), "what it is sold as holds")
	}
	// The first dimension where each calibration fails.
	for _, c := range []struct {
		b                dp.Budget
		paper, code, fix int
	}{
		{dp.Budget{Epsilon: 1, Delta: 1e-6}, 102, 25, 43},
		{dp.Budget{Epsilon: 1, Delta: 4.1e-9}, 143, 36, 67},
		{dp.Budget{Epsilon: 0.1, Delta: 1e-6}, 70, 18, 22},
		{dp.Budget{Epsilon: 0.1, Delta: 4.1e-9}, 98, 25, 38},
	} {
		first := func(sigma func(d int) float64) int {
			for d := 1; d < 300; d++ {
				if violated(d, sigma(d), c.b) {
					return d
				}
			}
			return 0
		}
		require.Equal(
			t,
			c.paper,
			first(func(d int) float64 { return cubePlan(&OPDisc{Law: PaperSigma}, d, c.b).params.Scale }),
		)
		require.Equal(
			t,
			c.code,
			first(func(d int) float64 { return cubePlan(&OPDisc{Law: PaperSigma}, d, c.b).params.Scale / 2 }),
		)
		require.Equal(t, c.fix, first(func(d int) float64 {
			sigma, err := dp.GaussianSigma(c.b, float64(d))
			require.NoError(t, err)
			return sigma
		}))
	}
	for _, d := range []int{1, 10, 43, 102, 200, 500, 2000} {
		for _, b := range []dp.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 0.1, Delta: 1e-6}} {
			require.False(t, violated(d, cubePlan(&OPDisc{Law: Gaussian}, d, b).params.Scale, b), "d=%d", d)
		}
	}
}

// The same through Fit: releases at d = 200 under PaperSigma have the
// probabilities of the closed form, far apart on the two data sets, and carry a
// certificate that admits it.
func TestParityThroughFit(t *testing.T) {
	const runs = 4000
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	p := problemOver(t, 200, cube(), true)
	for _, even := range []bool{true, false} {
		m := &OPDisc{Law: PaperSigma, Range: 1, Oracle: parityOracle{even}}
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		low, high := parityProbs(200, pl.params.Scale)
		want := high
		if even {
			want = low
		}
		src := sample.Reproducible(10, fmt.Sprint(even))
		k := 0
		for range runs {
			rel, err := pl.Fit(bg, p, src)
			require.NoError(t, err)
			require.Equal(t, theoremSigma, rel.Certificate.Theorem)
			require.Greater(t, rel.Certificate.Epsilon, b.Epsilon)
			parity := 0
			for _, v := range rel.Theta {
				if v > 0 {
					parity ^= 1
				}
			}
			if parity == 0 {
				k++
			}
		}
		lo, hi := testkit.ClopperPearson(k, runs, testkit.FalseReject)
		require.Less(t, lo, want)
		require.Greater(t, hi, want)
	}
}
