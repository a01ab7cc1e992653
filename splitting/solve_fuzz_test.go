// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// FuzzSolve checks that every method ends within its iterations, for any numbers in a quadratic,
// its start, its regularizers and the settings. The result is a finite point with a residual that
// is not NaN, or a documented error. Converged means that the residual met the
// tolerance, or the relative residuals their default.
func FuzzSolve(f *testing.F) {
	pack := func(v ...float64) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	}
	for kind := range byte(14) {
		f.Add(kind, kind*31, 50, 1e-9, pack(1, 2, 0.5, 1, -1, 0, 0))
		f.Add(kind, kind*17, 20, -1.0, pack(1e-320, 1e308, 0, 1, 1e150, 0, 1))
		f.Add(kind, kind*7, 3, math.NaN(), pack(math.NaN(), 1, 0, 1, 1, 0, 0))
		f.Add(kind, kind*5, 0, 0.0, pack(0, 0, 0, 0, 0, math.Inf(1), 0))
		f.Add(kind, kind*45, 0, 0.0, pack(1e5, 1, 0, 1e15, 0, 0, 0))
		f.Add(kind, kind*3, -1, math.Inf(1), pack(-1, 1, 0, 1, 1, 0, 0))
		f.Add(kind, kind, 30, 1e-3, pack(1e200, 1e-200, 1, -1e200, 1, 3, -3))
	}
	f.Fuzz(func(t *testing.T, kind, parts byte, iterations int, tolerance float64, text []byte) {
		var v [7]float64
		for i := range v {
			if len(text) >= 8*(i+1) {
				v[i] = math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))
			}
		}
		q, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{v[0], v[2], v[2], v[1]}), v[3:5], 0)
		if err != nil {
			require.ErrorIs(t, err, splitting.ErrProblem)
			return
		}
		p := splitting.Problem{F: q}
		p.G = []prox.Operator{nil, prox.L1{Weight: math.Abs(v[5])}, prox.Box{Lo: -1, Hi: 1},
			prox.L2Norm{Weight: 0.5}}[parts%4]
		p.H = []prox.Operator{nil, prox.Box{Lo: -2, Hi: math.Abs(v[6])}, prox.L1Ball{R: 1}}[parts/4%3]
		if prox.Check(p.G, 2) != nil || prox.Check(p.H, 2) != nil {
			return
		}
		methods := []splitting.Method{
			&splitting.ForwardBackward{}, &splitting.DavisYin{}, &splitting.ProxNewton{}, &splitting.CoordinateDescent{},
			&splitting.StochasticTOS{SVRG: true}, &splitting.StochasticTOS{}, splitting.Auto(p, 2),
		}
		m := methods[int(kind)%len(methods)]
		if iterations > 200 {
			iterations = 200
		}
		s := &splitting.Settings{Iterations: iterations, Tolerance: tolerance, Src: noise.Reproducible(1)}
		if iterations == 0 {
			s.Iterations = 100 // the default of 1e5 is for problems that converge
		}
		res, err := splitting.Solve(t.Context(), p, v[5:7], s, m)
		if res == nil {
			require.True(t, errors.Is(err, splitting.ErrProblem) || errors.Is(err, splitting.ErrSettings) || errors.Is(err,
				splitting.ErrNaN), "%v",
				err)
			return
		}
		if err != nil {
			require.True(t, errors.Is(err, splitting.ErrNaN) || errors.Is(err, splitting.ErrUnbounded) ||
				errors.Is(err, splitting.ErrInfeasible), "%v", err)
			require.Contains(t, []splitting.Status{splitting.Failure, splitting.Unbounded, splitting.Infeasible}, res.Status)
		}
		require.LessOrEqual(t, res.Iterations, s.Iterations)
		require.False(t, math.IsNaN(res.Residual) || math.IsNaN(res.Distance) || res.Residual < 0, "%+v", res)
		for _, x := range res.X {
			require.False(t, math.IsNaN(x) || math.IsInf(x, 0), "%+v", res)
		}
		if res.Status == splitting.Converged {
			if tolerance == 0 {
				require.LessOrEqual(t, min(res.Residual, max(res.Primal, res.DualResidual)), 1e-9)
			} else {
				require.LessOrEqual(t, res.Residual, tolerance)
			}
		}
	})
}
