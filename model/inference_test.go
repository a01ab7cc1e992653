// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// fixed returns the inference for a random release in d dimensions whose matrix is Ĥ = H + E, where
// H is the Hessian and E the noise.
func fixed(rnd *rand.Rand, d int, tau, ridge float64) (q inference, truth, left []float64, e *mat.SymDense) {
	e = mat.NewSymDense(d, nil)
	h, j := mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)
	for range 4 * d {
		a := make([]float64, d)
		for i := range a {
			a[i] = rnd.NormFloat64()
		}
		h.SymRankOne(h, 1, mat.NewVecDense(d, a))
		j.SymRankOne(j, 0.3, mat.NewVecDense(d, a))
	}
	for i := range d {
		for k := i; k < d; k++ {
			e.SetSym(i, k, tau*rnd.NormFloat64())
		}
	}
	truth, left = make([]float64, d), make([]float64, d)
	for i := range d {
		truth[i], left[i] = rnd.NormFloat64(), rnd.NormFloat64() // θ₀ and g + b
	}
	// The release θ̃ solves (H+Δ)θ̃ = Hθ₀ − g − b.
	full := mat.NewSymDense(d, nil)
	full.CopySym(h)
	for i := range d {
		full.SetSym(i, i, full.At(i, i)+ridge)
	}
	rhs, theta := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	rhs.MulVec(h, mat.NewVecDense(d, truth))
	rhs.SubVec(rhs, mat.NewVecDense(d, left))
	var chol mat.Cholesky
	if !chol.Factorize(full) || chol.SolveVecTo(theta, rhs) != nil {
		panic("singular")
	}
	noisy := mat.NewSymDense(d, nil)
	noisy.AddSym(h, e)
	return inference{
		theta: theta.RawVector().Data, ridge: ridge, sigma: 0.5, tauH: tau, tauJ: 0.1,
		level: 0.95, radius: 5, hessian: noisy, scores: j,
	}, truth, left, e
}

// TestIdentity checks the identity on which the intervals rest. For a quadratic loss it is exact,
// for any u and any ridge Δ.
func TestIdentity(t *testing.T) {
	rnd, strong := rand.New(rand.NewPCG(5, 5)), 0
	for _, d := range []int{1, 2, 6} {
		for _, ridge := range []float64{0.01, 3, 100} {
			in, truth, left, e := fixed(rnd, d, 0.4, ridge)
			q := newInference(in)
			if q.eig[0] > q.edge() { // here v = −ΔĤ⁻¹θ̃
				hv := mat.NewVecDense(d, nil)
				hv.MulVec(in.hessian, mat.NewVecDense(d, q.v))
				for j := range d {
					require.InDelta(t, -ridge*in.theta[j], hv.AtVec(j), 1e-8)
				}
				strong++
			}
			for range 10 {
				k := make([]float64, d)
				for i := range k {
					k[i] = rnd.NormFloat64()
				}
				for _, lambda := range []float64{0, 0.3, 50} {
					i, _ := q.at(k, 0, lambda)
					// Compute u independently, from (Ĥ² + λ)u = Ĥk.
					var sq mat.Dense
					sq.Mul(in.hessian, in.hessian)
					for j := range d {
						sq.Set(j, j, sq.At(j, j)+lambda)
					}
					hk, u, hu := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
					hk.MulVec(in.hessian, mat.NewVecDense(d, k))
					require.NoError(t, u.SolveVec(&sq, hk))
					hu.MulVec(in.hessian, u)
					if lambda == 0 {
						require.InDeltaSlice(t, k, hu.RawVector().Data, 1e-8) // for λ = 0, u = Ĥ⁻¹k
					}
					off := mat.NewVecDense(d, nil) // the error θ̃ − θ₀
					floats.SubTo(off.RawVector().Data, in.theta, truth)
					want := mat.Inner(u, e, off)
					for j := range d {
						want += (hu.AtVec(j)-k[j])*truth[j] - u.AtVec(j)*left[j]
					}
					require.InDelta(t, want, i.Debiased-floats.Dot(k, truth), 1e-8*(1+math.Abs(want)))
				}
			}
		}
	}
	require.Positive(t, strong)
}

// TestNoiseOfCurvature checks that the variance of u'Ev for the noise E of the Hessian is
// ½τ²(‖v‖²‖u‖² + (u'v)²), as the formula for the standard errors assumes.
func TestNoiseOfCurvature(t *testing.T) {
	const runs, tau = 20000, 2.0
	src := noise.Reproducible(8)
	v, u := []float64{1, -2, 0.5}, []float64{0.3, 0.4, -1}
	square := 0.0
	for range runs {
		e := releaseSum(make([]int64, 6), 3, tau, -16, src)
		x := mat.Inner(mat.NewVecDense(3, u), e, mat.NewVecDense(3, v))
		square += x * x / runs
	}
	want := tau * tau / 2 * (floats.Dot(v, v)*floats.Dot(u, u) + math.Pow(floats.Dot(u, v), 2))
	require.InEpsilon(t, want, square, 4.9*math.Sqrt(2./runs))
}

// TestWeak checks that an estimate is marked as weak where Ĥ has no large eigenvalue, and gets no
// interval if no radius is declared.
func TestWeak(t *testing.T) {
	in, _, _, _ := fixed(rand.New(rand.NewPCG(6, 6)), 4, 0.1, 2)
	strong := newInference(in).interval([]float64{1, 0, 0, 0}, 0)
	require.False(t, strong.Weak)
	require.Positive(t, strong.P)
	for j := range 4 { // now the noise is as large as the matrix
		in.hessian.SetSym(j, j, in.hessian.At(j, j)-10)
	}
	in.tauH = 10
	weak := newInference(in).interval([]float64{1, 0, 0, 0}, 0)
	require.True(t, weak.Weak)
	require.Equal(t, 1., weak.P)
	require.Greater(t, weak.Upper-weak.Lower, strong.Upper-strong.Lower)
	in.radius = 0
	none := newInference(in).interval([]float64{1, 0, 0, 0}, 0)
	require.True(t, none.Weak && none.Unidentified)
	require.Zero(t, none.Upper-none.Lower)
	for i, want := range map[*Interval]string{none: "null", strong: fmt.Sprint(strong.Lower)} {
		text, err := json.Marshal(Row{Interval: i})
		require.NoError(t, err)
		var got struct{ Interval map[string]json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, string(got.Interval["lower"]))
		require.Equal(t, want == "null", string(got.Interval["upper"]) == "null")
		var again Row
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, i, again.Interval)
	}
	in, _, _, _ = fixed(rand.New(rand.NewPCG(6, 6)), 4, 0.1, 2)
	in.tauJ = 1e6 // now the variance is only noise: the interval is long, and not the whole line
	long := newInference(in).interval([]float64{1, 0, 0, 0}, 0)
	require.False(t, long.Unidentified || long.Weak)
	require.Greater(t, long.Upper-long.Lower, 30*(strong.Upper-strong.Lower))
}

// TestHardlyVaries: a level that never occurs, one that all records have, and numbers that are the
// same or nearly so have weak coefficients. The others' intervals hold the truth, and are about as
// short as without that column.
func TestHardlyVaries(t *testing.T) {
	const n = 4000
	truth := map[string]float64{"x": 1, "k=b": 1, "k=c": -1}
	runs, rnd := testkit.Of(25, 100, 1000), rand.New(rand.NewPCG(3, 4))
	rest := `{"name": "same", "ignore": true}, {"name": "near", "ignore": true}, {"name": "all", "ignore": true}`
	for column, with := range map[string]string{
		"k other": `{"name": "k", "levels": ["a", "b", "c"], "other": true, "reference": "a"}, ` + rest,
		"same":    strings.Replace(rest, `"ignore": true`, `"min": 3, "max": 9`, 1),
		"near":    strings.Replace(rest, `"near", "ignore": true`, `"near", "min": 0, "max": 1000`, 1),
		"all=on":  strings.Replace(rest, `"all", "ignore": true`, `"all", "levels": ["off", "on"], "reference": "off"`, 1),
	} {
		hits := map[string]float64{}
		for i := range runs {
			var b strings.Builder
			b.WriteString("x,k,same,near,all,y\n")
			for range n {
				x, k := 2*rnd.Float64()-1, rnd.IntN(3)
				y := 1 + x + []float64{0, 1, -1}[k] + rnd.NormFloat64()
				fmt.Fprintf(&b, "%v,%c,5,%.2f,on,%v\n", x, 'a'+k, 20+rnd.Float64(), y)
			}
			fit := func(columns string) *Model {
				if !strings.Contains(columns, `"k"`) {
					columns = `{"name": "k", "levels": ["a", "b", "c"], "reference": "a"}, ` + columns
				}
				s, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true,
				  "label": {"column": "y", "min": -8, "max": 8},
				  "columns": [{"name": "x", "min": -1, "max": 1}, ` + columns + `] }`))
				require.NoError(t, err)
				data, err := table.ReadCSV(strings.NewReader(b.String()), s)
				require.NoError(t, err)
				m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 1, Delta: 1e-7}, &Options{
					Intervals: &Intervals{}, Clip: 1, Source: noise.Reproducible(uint64(i)),
				})
				require.NoError(t, err)
				return m
			}
			m := fit(with)
			rows := m.Summary().Rows // the reference has none
			for _, r := range rows {
				if v, ok := truth[r.Name]; ok && r.Interval.Lower <= v && v <= r.Interval.Upper {
					hits[r.Name]++
				}
			}
			require.Equal(t, column, rows[4].Name)
			if i > 0 {
				continue
			}
			require.True(t, rows[4].Interval.Weak, column)
			require.Contains(t, m.Summary().Note, "hides the variation of: "+column+".")
			for j, r := range fit(rest).Summary().Rows[1:] {
				require.False(t, rows[j+1].Interval.Weak, "%s beside %s", r.Name, column)
				require.InEpsilon(t, r.Interval.StdErr, rows[j+1].Interval.StdErr, 0.4, "%s beside %s", r.Name, column)
			}
			whole, err := m.Contrast([]float64{0, 0, 1, 0, 1e-3}) // a share of the column
			require.NoError(t, err)
			part, err := m.Contrast([]float64{0, 0, 1, 0, 0})
			require.NoError(t, err)
			require.Greater(t, whole.Interval.StdErr, 1.5*part.Interval.StdErr)
		}
		for name := range truth {
			share := hits[name] / float64(runs)
			require.Greater(t, share, 0.95-4.9*math.Sqrt(0.05*0.95/float64(runs)), "%s beside %s", name, column)
		}
	}
}

// TestQuantiles compares quantiles with closed forms and with simulations.
func TestQuantiles(t *testing.T) {
	require.InDelta(t, 1.959963984540054, biasQuantile(0, 0.95), 1e-9)
	require.InDelta(t, 10+1.6448536269514722, biasQuantile(10, 0.95), 1e-9)
	for _, c := range []struct{ r, level, want float64 }{
		{0.01, 0.95, 0.557}, {0.1, 0.95, 0.532}, {0.25, 0.95, 0.495}, {0.5, 0.95, 0.444}, {1, 0.95, 0.368}, {2, 0.95, 0.275},
		{4, 0.95, 0.184}, {0.1, 0.9, 0.426}, {0.25, 0.9, 0.393}, {0.5, 0.9, 0.349}, {0.1, 0.99, 0.754}, {0.5, 0.99, 0.652},
	} {
		require.InDelta(t, c.want, leastKappa(c.r, c.level), 6e-4, "%+v", c)
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	kappa := leastKappa(0.25, 0.95)
	for _, s := range []float64{0, 0.5, 1.8, 5, 40} {
		const runs = 200000
		hits := 0
		for range runs {
			if math.Abs(rnd.NormFloat64())*math.Sqrt(0.25+s) <= 1.96*math.Sqrt(0.25+max(s+rnd.NormFloat64(), 0)+kappa) {
				hits++
			}
		}
		require.Greater(t, float64(hits)/runs, 0.95-4.9*math.Sqrt(0.05*0.95/runs), "S = %v", s)
	}
}
