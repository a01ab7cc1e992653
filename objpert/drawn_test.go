package objpert

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

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
	lattice := Public{Space: Lattice(4), Dim: 3, Range: 1, Budget: b}

	// Radial: T_j[k] = η_j v_k/√Q and z[0] = η_{d+1}; ‖η‖ ~ Gamma(d+1)·Δ/ε.
	pl, err := (&OPDisc{}).Calibrate(lattice)
	require.NoError(t, err)
	tables, norms := drawn(pl, n, "radial")
	delta := 2 * (4 + math.Sqrt(12)) // from the formula of the table, not from the plan: the plan adds 1e-4, which no test of the law sees
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
	pl, err = (&OPDisc{Law: Gaussian}).Calibrate(lattice)
	require.NoError(t, err)
	tables, norms = drawn(pl, n, "gaussian")
	var z []float64
	for i, table := range tables {
		z = append(z, table[1][4], norms[i][0])
	}
	testkit.CheckLaw(t, z, func(x float64) float64 { return num.NormalCDF(x / pl.params.Scale) })

	// The cube: T_j[1] = η_j/√d, no norm.
	pl, err = (&OPDisc{}).Calibrate(Public{Space: cube(), Dim: 4, Range: 1, Budget: b})
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
	pl, err = (&Product{Law: OneSided}).Calibrate(Public{Space: ternary(), Dim: 3, Range: 1, Budget: b})
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
	pl, err = (&Product{}).Calibrate(Public{Space: cube(), Dim: 3, Range: 1, Budget: b})
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
		pl, err = (&RSPM{}).Calibrate(Public{Space: c.space, Dim: c.d, Range: 1, Budget: b})
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
	pl, err = (&RSPM{Law: Gaussian}).Calibrate(Public{Space: ternary(), Dim: 2, Range: 1, Budget: b})
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
