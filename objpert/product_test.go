// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// quotient calls visit for every table of the given numbers of choices whose
// rows have minimum 0 and gauge at most n.
func quotient(choices []int, n int64, visit func(eta [][]int64, gauge int64)) {
	eta := make([][]int64, len(choices))
	var walk func(j int, gauge int64)
	walk = func(j int, gauge int64) {
		if j == len(choices) {
			visit(eta, gauge)
			return
		}
		eta[j] = make([]int64, choices[j])
		var row func(k int, left int64)
		row = func(k int, left int64) {
			if k == choices[j] {
				if slices.Min(eta[j]) == 0 {
					walk(j+1, max(gauge, n-left))
				}
				return
			}
			for v := int64(0); v <= left; v++ {
				eta[j][k] = v
				row(k+1, left-v)
			}
		}
		row(0, n)
	}
	walk(0, 0)
}

// kNorm has P ∝ e^{−gauge/t} on tables modulo constants, in all cells with ten
// expected draws or more.
func TestKNormLaw(t *testing.T) {
	draws := testkit.Of(10_000, 50_000)
	for _, c := range []struct {
		choices []int
		t       uint64
	}{{[]int{2}, 3}, {[]int{3}, 2}, {[]int{2, 2}, 2}, {[]int{4}, 1}, {[]int{1, 3, 2}, 1}} {
		// P = e^{−gauge/t}/Z; the truncation at e^{−40} is nothing.
		limit := int64(6 * c.t)
		probs := map[string]float64{}
		z, inside := 0.0, 0.0
		byGauge := map[int64]float64{}
		quotient(c.choices, limit, func(eta [][]int64, gauge int64) {
			w := math.Exp(-float64(gauge) / float64(c.t))
			probs[fmt.Sprint(eta)] = w
			byGauge[gauge]++
		})
		// Counts of tables with gauge ≤ N, Π_j C(N+v,v) − C(N,v), give Z.
		count := func(n int64) float64 {
			p := 1.0
			for _, v := range c.choices {
				b := func(a int64) float64 { return choose(a, v) }
				p *= b(n+int64(v)) - b(n)
			}
			return p
		}
		total := 0.0
		for n := int64(0); n <= limit; n++ {
			total += byGauge[n]
			require.InDelta(t, count(n), total, 0.5, "tables of gauge ≤ %d", n)
		}
		for n := int64(0); n < int64(80*c.t); n++ {
			prev := 0.0
			if n > 0 {
				prev = count(n - 1)
			}
			z += (count(n) - prev) * math.Exp(-float64(n)/float64(c.t))
		}
		counts := map[string]int{}
		src := sample.Reproducible(3, "knorm", fmt.Sprint(c.choices))
		for range draws {
			eta := kNorm(c.choices, c.t, src)
			for _, row := range eta {
				require.Zero(t, slices.Min(row))
			}
			counts[fmt.Sprint(eta)]++
		}
		var got []int
		var want []float64
		rest, keys := draws, make([]string, 0, len(probs))
		for k := range probs {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if p := probs[k] / z; p*float64(draws) >= 10 {
				got, want = append(got, counts[k]), append(want, p)
				inside += p
				rest -= counts[k]
			}
		}
		got, want = append(got, rest), append(want, 1-inside)
		require.Greater(t, len(got), 5)
		_, p := testkit.ChiSquare(got, want)
		require.Greater(t, p, testkit.FalseReject, "choices %v", c.choices)
	}
}

func choose(n int64, k int) float64 {
	if n < int64(k) {
		return 0
	}
	c := 1.0
	for i := range k {
		c *= float64(n-int64(i)) / float64(k-i)
	}
	return c
}

// TestProductFormulas: weights, scales and bounds of Product on choices 1, 2, 4.
func TestProductFormulas(t *testing.T) {
	space := Space{Values: []int{-2, 0, 1, 3}, NormSq: -1, Allowed: [][]bool{
		{false, false, true, false}, {true, true, true, true}, {true, false, true, false},
	}}
	q := public{Space: space, Dim: 3, Range: 3, Budget: dp.Budget{Epsilon: 0.8}}
	p, err := calibrate(&Product{}, q)
	require.NoError(t, err)
	require.Equal(t, 4, p.params.Noises)
	require.Equal(t, 6., p.params.Shift)
	require.GreaterOrEqual(t, p.params.Scale, 6/0.8)
	require.InEpsilon(t, 6/0.8, p.params.Scale, 1e-6)
	h2, h4 := 1.5, 25./12
	spread := h2/2 - 0.25 + h4/4 - 1./16
	require.InEpsilon(t, p.params.Scale*5*spread+4*math.Ldexp(1, p.params.Exponent), p.params.ExcessBound, 1e-13)
	o, err := calibrate(&Product{Law: OneSided}, q)
	require.NoError(t, err)
	require.Equal(t, 6, o.params.Noises)
	require.GreaterOrEqual(t, o.params.Scale, 2*6/0.8) // two coordinates have a choice
	require.InEpsilon(t, 2*6/0.8, o.params.Scale, 1e-6)
	require.InEpsilon(t, o.params.Scale*(h2-0.5+h4-0.25)+4*math.Ldexp(1, o.params.Exponent), o.params.ExcessBound, 1e-13)
	require.InEpsilon(t, 137./60, harmonic(5), 1e-15)
	half, err := calibrate(&Product{Relation: dp.AddRemove}, q)
	require.NoError(t, err)
	require.Equal(t, 3., half.params.Shift)
	for d, ok := range map[int]bool{maxNoises / 2: true, maxNoises/2 + 1: false} {
		_, err := calibrate(&Product{}, public{Space: ternary(), Dim: d, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.Equal(t, ok, err == nil, "%v", err)
	}
}

// TestProductEnds: one coordinate with a choice, and the number of variables.
func TestProductEnds(t *testing.T) {
	q := public{Space: ternary(), Dim: 1, Range: 1, Budget: dp.Budget{Epsilon: 1}}
	many := func(choices int) public { // one coordinate
		r := q
		r.Space = Space{NormSq: -1}
		for v := range choices {
			r.Values = append(r.Values, v)
		}
		return r
	}
	for choices, ok := range map[int]bool{maxNoises + 1: true, maxNoises + 2: false} { // one variable less
		_, err := calibrate(&Product{Law: OneSided}, many(choices))
		require.Equal(t, ok, err == nil, "%v", err)
	}
	// K-norm noise is as wide as its variables are many, whatever ε allows.
	loud := many(maxNoises)
	loud.Budget.Epsilon = dp.MaxEpsilon
	wide, err := calibrate(&Product{}, loud)
	require.NoError(t, err)
	require.GreaterOrEqual(t, wide.params.Time, uint64(2*maxNoises))
	for free := range 3 {
		r := q
		r.Dim = 3
		for j := range 3 {
			r.Allowed = append(r.Allowed, []bool{true, j < free, j < free})
		}
		pl, err := calibrate(&Product{Law: OneSided}, r)
		require.NoError(t, err)
		require.InEpsilon(t, 2*math.Max(1, float64(free)), pl.params.Scale, 1e-6)
	}
	p := problemOver(t, 2, ternary(), true)
	pl, err := (&Product{Range: 3}).Plan(p, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	require.Zero(t, pl.params.Lipschitz)
	// Every value of a coordinate with a choice has noise, a single one has none.
	sums := []int64{0, 0, 0, 0, 0, 0}
	src := sample.Reproducible(4)
	for range 100 {
		i := 0
		for _, row := range oneSided([]int{2, 1, 3}, 5, src) {
			for _, v := range row {
				sums[i] += v
				i++
			}
		}
	}
	require.Zero(t, sums[2])
	for _, i := range []int{0, 1, 3, 4, 5} {
		require.Positive(t, sums[i])
	}
}

// drawn returns the tables and norms of many draws of a plan.
func drawn(pl *Plan, n int, label string) (tables [][][]float64, norms [][]float64) {
	src := sample.Reproducible(5, "drawn", label)
	for range n {
		p := &Problem{noise: pl.draw(nil, src)}
		table, norm := p.real()
		tables, norms = append(tables, table), append(norms, norm)
	}
	return tables, norms
}

// The noise that Fit passes on has the law of the theorem, scale included.
func TestDrawnLaws(t *testing.T) {
	const n = 20_000
	b := dp.Budget{Epsilon: 0.7, Delta: 1e-5}
	lattice := public{Space: Lattice(4), Dim: 3, Range: 1, Budget: b}

	// Radial: T_j[k] = η_j v_k/√Q and z[0] = η_{d+1}; ‖η‖ ~ Gamma(d+1)·Δ/ε.
	pl, err := calibrate(&OPDisc{}, lattice)
	require.NoError(t, err)
	tables, norms := drawn(pl, n, "radial")
	// From the formula of the table, not from the plan: the plan adds 1e-4, which no test of the law
	// sees.
	delta := 2 * (4 + math.Sqrt(12))
	radius, first := make([]float64, n), make([]float64, n)
	for i, table := range tables {
		sq := norms[i][0] * norms[i][0]
		for j, row := range table {
			eta := row[4] // v = 2 = √Q
			sq += eta * eta
			require.InDelta(t, -eta, row[0], 1e-12*math.Abs(eta))
			require.InDelta(t, eta/2, row[3], 1e-12*math.Abs(eta))
			require.Zero(t, row[2], "j=%d", j)
		}
		require.InDelta(t, norms[i][0]*math.Sqrt(3)/2, norms[i][1], 1e-5*math.Abs(norms[i][0]))
		require.Zero(t, norms[i][4])
		radius[i] = math.Sqrt(sq)
		first[i] = norms[i][0] / radius[i]
	}
	testkit.CheckLaw(t, radius, func(x float64) float64 { return math.Exp(num.GammaLogP(4, x*b.Epsilon/delta)) })
	// a coordinate of the sphere of ℝ⁴: P(u ≤ x) = ½ + (x√(1−x²) + asin x)/π
	testkit.CheckLaw(t, first, func(x float64) float64 { return 0.5 + (x*math.Sqrt(1-x*x)+math.Asin(x))/math.Pi })

	// Gaussian: every coordinate N(0, σ²).
	pl, err = calibrate(&OPDisc{Law: Gaussian}, lattice)
	require.NoError(t, err)
	tables, norms = drawn(pl, n, "gaussian")
	var z []float64
	for i, table := range tables {
		z = append(z, table[1][4], norms[i][0])
	}
	testkit.CheckLaw(t, z, func(x float64) float64 { return num.NormalCDF(x / pl.params.Scale) })

	// The cube: T_j[1] = η_j/√d, no norm.
	pl, err = calibrate(&OPDisc{}, public{Space: cube(), Dim: 4, Range: 1, Budget: b})
	require.NoError(t, err)
	tables, norms = drawn(pl, n, "cube")
	for i, table := range tables {
		require.Nil(t, norms[i])
		sq := 0.0
		for _, row := range table {
			require.Equal(t, -row[0], row[1])
			sq += 4 * row[1] * row[1]
		}
		radius[i] = math.Sqrt(sq)
	}
	testkit.CheckLaw(t, radius, func(x float64) float64 { return math.Exp(num.GammaLogP(4, x*b.Epsilon/4)) }) // Δ = d

	// Product, one-sided: exponential of mean 2d/ε up to a step of the grid.
	pl, err = calibrate(&Product{Law: OneSided}, public{Space: ternary(), Dim: 3, Range: 1, Budget: b})
	require.NoError(t, err)
	tables, _ = drawn(pl, n/3, "one-sided")
	z = z[:0]
	for _, table := range tables {
		for _, row := range table {
			z = append(z, row...)
		}
	}
	testkit.CheckLaw(t, z, func(x float64) float64 { return -math.Expm1(-math.Max(0, x) * b.Epsilon / 6) })

	// Product, K-norm on {−1,+1}³: the largest |T_j[1] − T_j[−1]| is gauge =
	// Gamma(3)·2/ε, and their ratios to it are uniform.
	pl, err = calibrate(&Product{}, public{Space: cube(), Dim: 3, Range: 1, Budget: b})
	require.NoError(t, err)
	tables, _ = drawn(pl, n, "k-norm")
	for i, table := range tables {
		radius[i] = 0
		for _, row := range table {
			radius[i] = math.Max(radius[i], math.Abs(row[1]-row[0]))
		}
	}
	testkit.CheckLaw(t, radius, func(x float64) float64 { return math.Exp(num.GammaLogP(3, x*b.Epsilon/2)) })

	// RSPM: Laplace of scale 2m/ε on each separator, wherever it fires.
	for _, c := range []struct {
		space Space
		d, m  int
		pick  func(table [][]float64) []float64
	}{
		{cube(), 3, 3, func(T [][]float64) []float64 { return []float64{-T[0][1], -T[2][1]} }},
		{ternary(), 3, 6, func(T [][]float64) []float64 { return []float64{-T[0][2], -T[0][0], -T[2][0]} }},
		{withIntercept(3, 2), 3, 8, func(T [][]float64) []float64 {
			return []float64{-T[0][1], T[0][1] - T[0][2], T[1][3] - T[1][4]}
		}},
	} {
		pl, err = calibrate(&RSPM{}, public{Space: c.space, Dim: c.d, Range: 1, Budget: b})
		require.NoError(t, err)
		require.Equal(t, c.m, pl.params.Noises)
		tables, _ = drawn(pl, n/2, fmt.Sprint("rspm", c.m))
		z = z[:0]
		for _, table := range tables {
			z = append(z, c.pick(table)...)
		}
		scale := 2 * float64(c.m) / b.Epsilon
		testkit.CheckLaw(t, z, func(x float64) float64 {
			if x < 0 {
				return math.Exp(x/scale) / 2
			}
			return 1 - math.Exp(-x/scale)/2
		})
	}
	pl, err = calibrate(&RSPM{Law: Gaussian}, public{Space: ternary(), Dim: 2, Range: 1, Budget: b})
	require.NoError(t, err)
	tables, _ = drawn(pl, n, "rspm gaussian")
	z = z[:0]
	for _, table := range tables {
		require.Zero(t, table[0][1])
		z = append(z, table[0][2], table[1][0])
	}
	testkit.CheckLaw(t, z, func(x float64) float64 { return num.NormalCDF(x / pl.params.Scale) })
}

// withIntercept is {−b..b}^{d−1} × {1}.
func withIntercept(d, b int) Space {
	s := Space{NormSq: -1, Values: make([]int, 2*b+1), Allowed: make([][]bool, d)}
	for k := range s.Values {
		s.Values[k] = k - b
	}
	for j := range s.Allowed {
		s.Allowed[j] = make([]bool, 2*b+1)
		for k, v := range s.Values {
			s.Allowed[j][k] = j < d-1 || v == 1
		}
	}
	return s
}
