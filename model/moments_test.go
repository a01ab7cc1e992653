// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
)

func records(t *testing.T, rows [][]float64, labels []float64) *erm.Data {
	t.Helper()
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return data
}

// term returns the contribution of one record to each of the two sums, in the units of the
// matrices.
func term(t *testing.T, row []float64, label float64, theta []float64, l loss.Linear, most [2]float64) [2][]float64 {
	t.Helper()
	var exponent [2]int
	for k := range exponent {
		_, exponent[k] = sumSensitivity(most[k], 1, len(theta))
	}
	sum, err := sums(t.Context(), records(t, [][]float64{row}, []float64{label}), theta, l, most, exponent)
	require.NoError(t, err)
	var out [2][]float64
	for k := range out {
		for _, v := range sum[k] {
			out[k] = append(out[k], math.Ldexp(float64(v), exponent[k]))
		}
	}
	return out
}

// TestSumSensitivity checks the sensitivities of the sums: the contribution of one record, and the
// change when one is replaced, never exceed them and can attain them.
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
	// Orthogonal rows of full norm, with φ″ = 1 and |φ′| equal to the threshold, attain both
	// sensitivities.
	squared := loss.Clipped{Loss: loss.Squared{}, Threshold: 0.5}
	one := term(t, []float64{1, 0}, 0.5, []float64{0, 0}, squared, [2]float64{1, 0.25})
	two := term(t, []float64{0, 1}, 0.5, []float64{0, 0}, squared, [2]float64{1, 0.25})
	for k, bound := range []float64{1, 0.25} {
		require.InEpsilon(t, bound, floats.Norm(one[k], 2), 1e-12)
		require.InEpsilon(t, math.Sqrt2*bound, floats.Distance(one[k], two[k], 2), 1e-12)
		s, e := sumSensitivity(bound, math.Sqrt2, 2)
		require.InDelta(t, math.Sqrt2*bound, s, math.Ldexp(2, e))
	}
	// If a loss has larger slopes than it declares, contributions are cut to the declared bounds.
	lie := term(t, []float64{1, 0}, 1, []float64{0, 0}, loss.Squared{}, [2]float64{0.1, 0.25})
	require.InEpsilon(t, 0.1, floats.Norm(lie[0], 2), 1e-5)
	require.InEpsilon(t, 0.25, floats.Norm(lie[1], 2), 1e-5)
}

// TestReleaseSum checks that a released matrix is the given sum plus noise with standard deviation
// τ on the diagonal and τ/√2 off the diagonal.
func TestReleaseSum(t *testing.T) {
	const runs, d, tau = 4000, 3, 2.5
	src := noise.Reproducible(5)
	sum := []int64{8, 16, -8, 0, 8, 24}
	diag, off, trace := 0.0, 0.0, 0.0
	for range runs {
		m := releaseSum(append([]int64(nil), sum...), d, tau, -10, src)
		diag += math.Pow(m.At(1, 1)-0, 2) / runs
		off += math.Pow(m.At(0, 1)-16./1024/math.Sqrt2, 2) / runs
		trace += math.Pow(mat.Trace(m)-32./1024, 2) / runs
	}
	// The mean of 4000 squares has a relative standard deviation of √(2/4000). It exceeds 4.9 of them
	// with probability 1e-6.
	slack := 4.9 * math.Sqrt(2./runs)
	require.InEpsilon(t, tau*tau, diag, slack)
	require.InEpsilon(t, tau*tau/2, off, slack)
	require.InEpsilon(t, d*tau*tau, trace, slack)
}

// TestSumsAreTheMoments checks that without noise the released matrices are the sums Σφ″aa′ and
// Σφ′²aa′ over the records.
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
	sum, err := sums(t.Context(), records(t, rows, labels), theta, loss.Logistic{}, most, exponent)
	require.NoError(t, err)
	for k := range most {
		got := releaseSum(sum[k], d, 0, exponent[k], noise.Reproducible(1))
		require.True(t, mat.EqualApprox(want[k], got, 1e-5))
	}
}
