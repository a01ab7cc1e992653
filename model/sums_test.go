package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

func records(t *testing.T, rows [][]float64, labels []float64) *erm.Data {
	t.Helper()
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return data
}

// term returns the vector of what one record adds, in units of the matrix.
func term(t *testing.T, row []float64, label float64, theta []float64, l loss.Linear, most [2]float64) [2][]float64 {
	t.Helper()
	var exponent [2]int
	for k := range exponent {
		_, exponent[k] = sumSensitivity(most[k], 1, len(theta))
	}
	sum, err := sums(records(t, [][]float64{row}, []float64{label}), theta, l, most, exponent)
	require.NoError(t, err)
	var out [2][]float64
	for k := range out {
		for _, v := range sum[k] {
			out[k] = append(out[k], math.Ldexp(float64(v), exponent[k]))
		}
	}
	return out
}

// What a record adds, and what replacing one changes, reaches the sensitivity and never exceeds it.
func TestSumSensitivity(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, l := range []loss.Linear{loss.Clipped{Loss: loss.Squared{}, Threshold: 0.5}, loss.Logistic{},
		loss.Moreau{Loss: loss.Pinball{Tau: 0.3}, Beta: 10}} {
		c := l.Constants(loss.Bounds{Row: 1, Label: 1}, math.Inf(1))
		most := [2]float64{c.Smoothness, c.Lipschitz * c.Lipschitz}
		for _, d := range []int{1, 2, 5} {
			theta := make([]float64, d)
			random := func() ([]float64, float64) {
				row := make([]float64, d)
				for j := range row {
					row[j] = rnd.NormFloat64()
				}
				return row, math.Copysign(1, rnd.NormFloat64()) * rnd.Float64()
			}
			for range 200 {
				for j := range theta {
					theta[j] = rnd.NormFloat64()
				}
				a, b := random()
				z, y := random()
				one, two := term(t, a, b, theta, l, most), term(t, z, y, theta, l, most)
				for k := range most {
					add, _ := sumSensitivity(most[k], 1, d)
					replace, _ := sumSensitivity(most[k], math.Sqrt2, d)
					require.LessOrEqual(t, floats.Norm(one[k], 2), add)
					require.LessOrEqual(t, floats.Distance(one[k], two[k], 2), replace)
				}
			}
		}
	}
	// Orthogonal rows of full norm, with φ″ = 1 and |φ′| = the threshold, attain both.
	squared := loss.Clipped{Loss: loss.Squared{}, Threshold: 0.5}
	one := term(t, []float64{1, 0}, 0.5, []float64{0, 0}, squared, [2]float64{1, 0.25})
	two := term(t, []float64{0, 1}, 0.5, []float64{0, 0}, squared, [2]float64{1, 0.25})
	for k, bound := range []float64{1, 0.25} {
		require.InEpsilon(t, bound, floats.Norm(one[k], 2), 1e-12)
		require.InEpsilon(t, math.Sqrt2*bound, floats.Distance(one[k], two[k], 2), 1e-12)
		s, e := sumSensitivity(bound, math.Sqrt2, 2)
		require.InDelta(t, math.Sqrt2*bound, s, math.Ldexp(2, e))
	}
	// A loss that lies about its slopes is held to its bounds.
	lie := term(t, []float64{1, 0}, 1, []float64{0, 0}, loss.Squared{}, [2]float64{0.1, 0.25})
	require.InEpsilon(t, 0.1, floats.Norm(lie[0], 2), 1e-5)
	require.InEpsilon(t, 0.25, floats.Norm(lie[1], 2), 1e-5)
}

// The matrix that is released has noise of deviation τ on its diagonal and τ/√2 off it,
// and the sum that was given.
func TestReleaseSum(t *testing.T) {
	const runs, d, tau = 4000, 3, 2.5
	src := noise.Reproducible(5)
	sum := []int64{8, 16, -8, 0, 8, 24}
	diag, off, trace := 0.0, 0.0, 0.0
	for range runs {
		m := releaseSum(nil, append([]int64(nil), sum...), d, tau, -10, src)
		diag += math.Pow(m.At(1, 1)-0, 2) / runs
		off += math.Pow(m.At(0, 1)-16./1024/math.Sqrt2, 2) / runs
		trace += math.Pow(mat.Trace(m)-32./1024, 2) / runs
	}
	// A mean of 4000 squares has a relative deviation of √(2/4000); 4.9 of them are exceeded with probability 1e-6.
	slack := 4.9 * math.Sqrt(2./runs)
	require.InEpsilon(t, tau*tau, diag, slack)
	require.InEpsilon(t, tau*tau/2, off, slack)
	require.InEpsilon(t, d*tau*tau, trace, slack)
}

// One record moves one bin by 1, whatever θ.
func TestHistogramOfOneRecord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		rows, labels := [][]float64{}, []float64{}
		for range 20 {
			rows, labels = append(rows, []float64{rnd.NormFloat64(), rnd.NormFloat64()}), append(labels, rnd.NormFloat64())
		}
		theta := []float64{rnd.NormFloat64(), rnd.NormFloat64()}
		all, err := newHistogram(nil, records(t, rows, labels), theta, 0.5, noise.Reproducible(1))
		require.NoError(t, err)
		less, err := newHistogram(nil, records(t, rows[1:], labels[1:]), theta, 0.5, noise.Reproducible(1))
		require.NoError(t, err)
		floats.Sub(all, less)
		require.Equal(t, 1., floats.Sum(all))
		require.Equal(t, 1., floats.Max(all))
		require.Zero(t, floats.Min(all))
	}
}

func TestBins(t *testing.T) {
	for v, want := range map[float64]int{0: 0, 0.02: 0, 0.0201: 1, 0.75: 11, 0.76: 12, 1: 12, 5: 12, math.Inf(1): 12} {
		require.Equal(t, want, bin(v), v)
	}
	require.Equal(t, len(edges)-1, bin(math.NaN()))
}

// Quantiles and moments of fixed histograms, from an independent program in Python.
func TestChoices(t *testing.T) {
	labels := histogram{812.3, 301, 455.5, 610.2, 720, 905.1, 1100, 1350.4, 1500, 1200, 700.9, 300.3, 45}
	resid := histogram{2512.3, 1301, 1455.5, 1610.2, 1720, 905.1, 300, 150.4, -20, 20, 10.9, -8.3, 4}
	const n, d = 10000, 20
	require.InEpsilon(t, 0.06551929983651146, labels.secondMoment(), 1e-12)
	require.InEpsilon(t, 0.40987230703381355, quantile(labels.cdf(n), 0.9), 1e-12)
	require.InEpsilon(t, 0.004762321748553467, resid.secondMoment(), 1e-12)
	for unit, clip := range map[float64]float64{3: 0.1452954185642562, 12: 0.09971039300390085, 40: 0.05901699817528623,
		900: 0.042029371350051525} {
		var c Choice
		c.choose(resid, labels.secondMoment(), n, d, unit)
		require.InEpsilon(t, clip, c.Clip, 1e-12)
		require.InEpsilon(t, 0.06075697808795799, c.Signal, 1e-12)
	}
	// Counts that are all noise choose what is public.
	empty := make(histogram, len(edges))
	for k, v := range labels {
		empty[k] = -v / 10
	}
	require.Equal(t, make([]float64, len(edges)), empty.cdf(n))
	require.Equal(t, 1., quantile(empty.cdf(n), 0.9))
	require.Equal(t, 1e-3, empty.secondMoment())
}

// Without noise the matrices are the sums Σφ″aa′ and Σφ′²aa′ of the records.
func TestSumsAreTheMoments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	const d = 4
	rows, labels := make([][]float64, 30), make([]float64, 30)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.Float64() - 0.5
		}
		labels[i] = math.Copysign(1, rnd.NormFloat64())
	}
	theta := []float64{0.3, -2, 1, 0.5}
	want := [2]*mat.SymDense{mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)}
	for i, a := range rows {
		_, slope, bend := loss.Logistic{}.Scalar(floats.Dot(a, theta), labels[i], 0)
		want[0].SymRankOne(want[0], bend, mat.NewVecDense(d, a))
		want[1].SymRankOne(want[1], slope*slope, mat.NewVecDense(d, a))
	}
	var exponent [2]int
	most := [2]float64{0.25, 1}
	for k := range most {
		_, exponent[k] = sumSensitivity(most[k], 1, d)
	}
	sum, err := sums(records(t, rows, labels), theta, loss.Logistic{}, most, exponent)
	require.NoError(t, err)
	for k := range most {
		got := releaseSum(nil, sum[k], d, 0, exponent[k], noise.Reproducible(1))
		require.True(t, mat.EqualApprox(want[k], got, 1e-5))
	}
}
