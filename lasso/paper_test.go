// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// figureSigma2 is σ² of the published figure, for d = 100 and L = dξ² = 2500.
const figureSigma2 = 101015630929013.104 * 2500

// published has the parameters of the published figure.
var published = Paper{Epsilon: 0.5, Delta: 0.01, Lambda: 1, Iterations: 1000}

func small(t testing.TB, n, d int) (*Instance, *Experiment) {
	in, err := Generate(Spec{N: n, D: d, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(5))
	require.NoError(t, err)
	e, err := published.Experiment(in, figureSigma2)
	require.NoError(t, err)
	return in, e
}

func TestLinearConstants(t *testing.T) {
	in, e := small(t, 300, 100)
	const kappa = 2.5
	c := e.Linear(LOP, kappa)
	require.Equal(t, 2500.0, e.L()) // L = dξ²
	require.Equal(t, 200.0, e.Dof())
	require.Equal(t, 10000.0, c.Ridge) // the ridge 2L/ε
	zeta := (kappa*10*5*10 + floats.Max(in.Y)) * 5 * 10
	require.InEpsilon(t, zeta, c.Zeta, 1e-14)
	require.InEpsilon(t, zeta*math.Sqrt(8*math.Log(200)+2)/0.5, c.Noise, 1e-14)
	require.InEpsilon(t, 1/(300*2500+10000.0), c.Omega, 1e-14)
	clip := e.Linear(LOPClip, kappa)
	require.Equal(t, 10000.0, clip.Zeta)
	require.InEpsilon(t, 1e4*math.Sqrt(8*math.Log(200)+2)/0.5, clip.Noise, 1e-14)
	require.Equal(t, c.Omega, clip.Omega)
	require.InEpsilon(t, 1/(300*2500+figureSigma2*3), e.Omega(3), 1e-14)
}

// TestSolveFollowsThePublishedSteps compares the solver with the formulas of the paper written out
// step by step, on the same random draws.
func TestSolveFollowsThePublishedSteps(t *testing.T) {
	const n, d, kappa, steps = 12, 4, 0.7, 50
	in, _ := small(t, n, d)
	p := published
	p.Iterations = steps
	e, err := p.Experiment(in, figureSigma2)
	require.NoError(t, err)
	for _, m := range []Method{LOP, LOPClip, QOP} {
		got, err := e.Solve(context.Background(), m, kappa, noise.Reproducible(9, string(m)))
		require.NoError(t, err)

		src := noise.Reproducible(9, string(m))
		f, omega, err := e.draw(m, kappa, src)
		require.NoError(t, err)
		var picks []int
		counter := &counting{terms: f, picks: &picks}
		res, err := splitting.Solve(context.Background(),
			splitting.Problem{F: counter, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -kappa, Hi: kappa}},
			make([]float64, d), &splitting.Settings{Iterations: steps, Tolerance: -1, Src: src},
			&splitting.StochasticTOS{StepSize: omega})
		require.NoError(t, err)
		require.Equal(t, got, res.X, "equal sources must give equal points")
		require.Len(t, picks, steps)

		x, theta := make([]float64, d), make([]float64, d)
		for k, i := range picks {
			for j := range theta {
				theta[j] = math.Copysign(max(math.Abs(x[j])-omega, 0), x[j])
			}
			r := floats.Dot(in.X.RawRowView(i), theta) - in.Y[i]
			g := make([]float64, d)
			floats.AddScaled(g, r, in.X.RawRowView(i))
			if norm := floats.Norm(g, 2); m == LOPClip && norm > 10000 {
				floats.Scale(1/norm, g)
			}
			for j := range x {
				full := n * g[j]
				if m == QOP {
					for l := range d {
						full += f.quad[j*kernel.GramStride(d)+l] * (theta[l] - in.Anchor[l])
					}
				} else {
					full += 2*float64(d)*25/0.5*theta[j] + f.linear[j]
				}
				z := min(max(2*theta[j]-x[j]-omega*full, -kappa), kappa)
				x[j] += math.Pow(float64(k+1), -0.502) * (z - theta[j])
			}
		}
		// The result of 50 steps of a nonexpansive iteration on numbers near 1.
		require.InDeltaSlice(t, theta, got, 1e-12, string(m))
	}
}

// counting records the indices of the sampled terms.
type counting struct {
	*terms
	picks *[]int
}

func (c *counting) Row(i int) []float64 {
	*c.picks = append(*c.picks, i)
	return c.terms.Row(i)
}

func TestTermsAreGradients(t *testing.T) {
	const n, d = 9, 4
	_, e := small(t, n, d)
	x := []float64{0.3, -1, 0.7, 2}
	for _, m := range []Method{LOP, LOPClip, QOP} {
		f, omega, err := e.draw(m, 1, noise.Reproducible(4))
		require.NoError(t, err)
		require.Equal(t, n, f.Len())
		require.InEpsilon(t, 1/omega, f.Smoothness(), 1e-15)
		full, sum, one := make([]float64, d), make([]float64, d), make([]float64, d)
		f.Grad(full, x)
		for i := range n {
			f.GradTerms(one, x, []int{i})
			floats.Add(sum, one)
		}
		scale := floats.Norm(full, 2)
		require.InDeltaSlice(t, full, sum, 1e-13*scale)
		f.GradTerms(sum, x, []int{0, 1, 2, 3, 4, 5, 6, 7, 8})
		require.InDeltaSlice(t, full, sum, 1e-13*scale)
		// f is quadratic, so that central differences have no error except rounding, 1e-16·|f|/h.
		for j := range x {
			const h = 0.5
			y := append([]float64(nil), x...)
			y[j] += h
			up := f.Func(y)
			y[j] -= 2 * h
			require.InDelta(t, full[j], (up-f.Func(y))/(2*h), 1e-11*math.Abs(up))
		}
	}
}

// TestClipDefect checks that clipping follows the publication. A gradient longer than ζ is scaled
// to norm 1, not to norm ζ, which would be the usual rule.
func TestClipDefect(t *testing.T) {
	f := &terms{n: 1, d: 2, stride: 2, x: []float64{3, 4}, y: []float64{0}, norm: []float64{5}, zeta: 10,
		linear: make([]float64, 2)}
	g := make([]float64, 2)
	f.GradTerms(g, []float64{0.2, 0.2}, []int{0}) // 1.4·(3, 4), norm 7 ≤ ζ
	require.InDeltaSlice(t, []float64{4.2, 5.6}, g, 1e-14)
	f.GradTerms(g, []float64{1, 1}, []int{0}) // 7·(3, 4), norm 35 > ζ
	require.InDeltaSlice(t, []float64{0.6, 0.8}, g, 1e-15)
}

func TestExperimentErrors(t *testing.T) {
	in, e := small(t, 4, 2)
	good := published
	for name, change := range map[string]func(*Paper, *Instance){
		"Lambda":     func(p *Paper, _ *Instance) { p.Lambda = -1 },
		"Iterations": func(p *Paper, _ *Instance) { p.Iterations = 0 },
		"Delta":      func(p *Paper, _ *Instance) { p.Delta = 1 },
		"Epsilon":    func(p *Paper, _ *Instance) { p.Epsilon = 0 },
		"anchor":     func(_ *Paper, in *Instance) { in.Anchor = nil },
		"labels":     func(_ *Paper, in *Instance) { in.Y = in.Y[:1] },
		"no records": func(_ *Paper, in *Instance) { in.X = &mat.Dense{} },
	} {
		p, i := good, *in
		change(&p, &i)
		_, err := p.Experiment(&i, figureSigma2)
		require.ErrorIs(t, err, ErrParameter, name)
		require.ErrorContains(t, err, name)
	}
	_, err := good.Experiment(nil, figureSigma2)
	require.ErrorIs(t, err, ErrParameter)
	for _, sigma2 := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err = good.Experiment(in, sigma2)
		require.ErrorContains(t, err, "sigma2")
	}

	ctx := context.Background()
	_, err = e.Solve(ctx, "", 1, noise.Reproducible(1))
	require.ErrorContains(t, err, `invalid method ""`)
	_, err = e.Solve(ctx, LOP, 0, noise.Reproducible(1))
	require.ErrorContains(t, err, "kappa")
	_, err = e.Solve(ctx, LOP, 1, nil)
	require.ErrorIs(t, err, ErrParameter)
	tiny := good
	tiny.Epsilon = 1e-305
	unbounded, err := tiny.Experiment(in, figureSigma2)
	require.NoError(t, err)
	for _, m := range []Method{LOP, LOPClip} {
		_, err = unbounded.Solve(ctx, m, 1, noise.Reproducible(1))
		require.ErrorIs(t, err, ErrParameter, "noise beyond the largest that can be drawn must fail")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = e.Solve(cancelled, LOP, 1, noise.Reproducible(1))
	require.ErrorIs(t, err, context.Canceled)
}

// TestNegativeZeta checks negative noise scales. The published formula for ζ uses max y without an
// absolute value, so that ζ and the scale s are negative if all labels are negative and the box is
// small. The program multiplies normal numbers by s, which gives the same law as |s|.
func TestNegativeZeta(t *testing.T) {
	in, _ := small(t, 4, 2)
	below := *in
	below.Y = []float64{-9, -8, -7, -6}
	e, err := published.Experiment(&below, figureSigma2)
	require.NoError(t, err)
	const kappa = 1e-3
	require.Negative(t, e.Linear(LOP, kappa).Noise)
	x, err := e.Solve(context.Background(), LOP, kappa, noise.Reproducible(1))
	require.NoError(t, err)
	for _, v := range x {
		require.False(t, math.IsNaN(v))
	}
}

// publishedFile opens a file of the published experiment. The files are not in this repository:
// PRIVOPT_DATA names the folder that contains fig2.
func publishedFile(t testing.TB, name string) *os.File {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds fig2/problem.csv, anchor.csv and reference.csv")
	}
	f, err := os.Open(filepath.Join(dir, "fig2", name))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// reference reads reference.csv, with means and standard deviations over 10 runs of the authors'
// program.
func reference(t testing.TB) (rows []map[string]float64) {
	text, err := csv.NewReader(publishedFile(t, "reference.csv")).ReadAll()
	require.NoError(t, err)
	for _, fields := range text[1:] {
		row := map[string]float64{}
		for j, v := range fields {
			row[strings.ReplaceAll(text[0][j], "_", "-")], err = strconv.ParseFloat(v, 64)
			require.NoError(t, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestPublishedFigure reruns the published experiment on the published data. The means over 100
// runs agree with the authors' means over 10 runs within 6 standard errors.
func TestPublishedFigure(t *testing.T) {
	lines, err := csv.NewReader(publishedFile(t, "problem.csv")).ReadAll()
	require.NoError(t, err)
	n, d := len(lines)-1, len(lines[0])-1
	in := &Instance{X: mat.NewDense(n, d, nil), Y: make([]float64, n), Xi: 5}
	for i, fields := range lines[1:] {
		row := make([]float64, d+1)
		for j, text := range fields {
			row[j], err = strconv.ParseFloat(text, 64)
			require.NoError(t, err)
		}
		in.X.SetRow(i, row[:d])
		in.Y[i] = row[d]
	}
	in.Anchor, err = ReadVector(publishedFile(t, "anchor.csv"), d)
	require.NoError(t, err)
	e, err := published.Experiment(in, figureSigma2)
	require.NoError(t, err)
	ref := reference(t)
	require.Len(t, ref, 100)
	const runs = 100
	for _, m := range []Method{LOP, LOPClip, QOP} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for _, k := range []int{0, 11, 22, 33, 44, 50, 55, 66, 77, 99} {
				row := ref[k]
				risks := make([]float64, runs)
				for r := range risks {
					theta, err := e.Solve(context.Background(), m, row["kappa"], noise.Reproducible(1, string(m), strconv.Itoa(k),
						strconv.Itoa(r)))
					require.NoError(t, err)
					risks[r] = in.Risk(theta)
				}
				mean, sd := stat.MeanStdDev(risks, nil)
				want, wantSD := row[string(m)], row[string(m)+"-sd"]
				se := math.Sqrt(wantSD*wantSD/10 + sd*sd/runs)
				t.Logf("κ = %-10.4g mean %-12.6g sd %-10.3g reference %-12.6g sd %-10.3g  z = %.2f", row["kappa"], mean, sd, want,
					wantSD,
					(mean-want)/se)
				require.LessOrEqual(t, math.Abs(mean-want), 6*se, "κ index %d", k)
			}
		})
	}
}
