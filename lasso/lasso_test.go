// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

func TestGenerate(t *testing.T) {
	in, err := Generate(Spec{N: 40, D: 7, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(1))
	require.NoError(t, err)
	n, d := in.Dims()
	require.Equal(t, []int{40, 7}, []int{n, d})
	for i := range n {
		require.InDelta(t, 5, floats.Norm(in.X.RawRowView(i), 2), 1e-14) // a few units in the last place
		require.InDelta(t, floats.Dot(in.X.RawRowView(i), in.Truth), in.Y[i], 1e-13)
	}
	require.InDelta(t, 0, in.Risk(in.Truth), 1e-26, "y = Xθ_true")
	zero := make([]float64, d)
	require.InEpsilon(t, floats.Dot(in.Y, in.Y)/80, in.Risk(zero), 1e-12)
	// θ_ref − θ_true has 7 coordinates of standard deviation 0.1. With probability 1 − 1e-6, its norm
	// is below 0.1·√41, where 41 is that quantile of χ²₇.
	require.Less(t, floats.Distance(in.Anchor, in.Truth, 2), 0.1*math.Sqrt(41))
	require.NotEqual(t, in.Anchor, in.Truth)

	again, err := Generate(Spec{N: 40, D: 7, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(1))
	require.NoError(t, err)
	require.Equal(t, in.Y, again.Y, "equal seeds must give equal instances")
	other, err := Generate(Spec{N: 40, D: 7, Xi: 5}, noise.Reproducible(2))
	require.NoError(t, err)
	require.NotEqual(t, in.Y, other.Y)
	require.Equal(t, other.Truth, other.Anchor, "no anchor noise")
	require.Equal(t, "lasso.Instance(40×7)", fmt.Sprintf("%+v", in))
	require.Equal(t, "lasso.Instance(0×0)", fmt.Sprint(&Instance{}))
	require.Panics(t, func() { in.Risk(zero[:3]) })
}

func TestGenerateErrors(t *testing.T) {
	src := noise.Reproducible(1)
	for name, s := range map[string]Spec{
		"N":           {D: 1, Xi: 1},
		"D":           {N: 1, Xi: 1},
		"Xi":          {N: 1, D: 1, Xi: math.NaN()},
		"AnchorNoise": {N: 1, D: 1, Xi: 1, AnchorNoise: -1},
	} {
		_, err := Generate(s, src)
		require.ErrorIs(t, err, ErrParameter)
		require.ErrorContains(t, err, name)
	}
	_, err := Generate(Spec{N: 1, D: 1, Xi: 1}, nil)
	require.ErrorIs(t, err, ErrParameter)
}

func TestProblem(t *testing.T) {
	in, err := Generate(Spec{N: 20, D: 3, Xi: 5}, noise.Reproducible(3))
	require.NoError(t, err)
	data, err := in.Data(5)
	require.NoError(t, err)
	require.Equal(t, loss.Bounds{Row: 5, Label: 5}, data.Bounds())
	// Each record is its label followed by its row.
	want, got := make([][]float64, 20), make([][]float64, 20)
	for i, y := range in.Y {
		want[i] = append([]float64{min(max(y, -5), 5)}, in.X.RawRowView(i)...)
		got[i] = append([]float64{data.Label(i)}, data.Row(i)...)
	}
	slices.SortFunc(want, slices.Compare[[]float64]) // Data stores records in another order
	slices.SortFunc(got, slices.Compare[[]float64])
	for i := range want {
		require.InDeltaSlice(t, want[i], got[i], 1e-14)
	}
	p := Problem(data, 2, 0.5)
	require.NoError(t, p.Check())
	_, err = p.Public(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, prox.L1{Weight: 2}, p.Reg)
	require.Equal(t, prox.Box{Lo: -0.5, Hi: 0.5}, p.Set)
	_, err = in.Data(0)
	require.ErrorIs(t, err, erm.ErrData)
}

func TestReadVector(t *testing.T) {
	x, err := ReadVector(strings.NewReader("theta_ref\r\n0.5\n -1 \n"), 2)
	require.NoError(t, err)
	require.Equal(t, []float64{0.5, -1}, x)
	for want, text := range map[string]string{
		"no numbers below a header": "t\n",
		"no numbers below":          "",
		"2 columns":                 "s,t\n1,2\n",
		"2 numbers, want 1":         "t\n1\n2\n",
		"line 2, column":            "t\n\"1\n",
		"line 3":                    "t\n1\n1,2\n",
		"number 1 is not":           "t\nsecret\n",
		"number 1 is":               "t\nNaN\n",
		"number 1":                  "t\n1e400\n",
	} {
		_, err := ReadVector(strings.NewReader(text), 1)
		require.ErrorIs(t, err, ErrFile, text)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err = ReadVector(nil, 1)
	require.ErrorIs(t, err, ErrFile)
	_, err = ReadVector(broken{}, 1)
	require.ErrorIs(t, err, ErrFile)
	require.ErrorIs(t, err, errBroken)
}

var errBroken = fmt.Errorf("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }
