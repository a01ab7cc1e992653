// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// summarized returns what an experiment says of its results.
func summarized(t *testing.T, e *sweep.Experiment) (*populationSummary, []sweep.Result) {
	t.Helper()
	results := measured(t, e)
	sum, _ := e.Summarize(results)
	return sum.(*populationSummary), results
}

// below checks that no mean is above its proved bound: a mean of few runs may exceed the
// expectation that is bounded, by 5 standard errors in one of a million cells.
func below(t *testing.T, results []sweep.Result) {
	t.Helper()
	bounds := 0
	for _, r := range results {
		for _, bound := range results {
			if bound.Method == r.Method+boundSuffix && bound.Value == r.Value {
				require.LessOrEqual(t, r.Mean-5*r.StdErr, bound.Mean, "%s at %v", r.Method, r.Value)
				bounds++
			}
		}
	}
	require.Positive(t, bounds)
}

// Every family and method, in small.
func TestFamilies(t *testing.T) {
	for _, family := range []struct {
		law     func(d int) population
		methods []string
	}{
		{nil, []string{"sgd", "objpert", "output", "onepass"}},
		{onehot, []string{"prox", "dpsgd", "onepass"}},
		{rademacher, []string{"sgd", "objpert", "svrg", "output", "dpsgd", "prox", "onepass", "zero"}},
	} {
		c := Population{"n", sweep.Sizes{D: 4, Epsilon: 1}, 1e-6, 3, 3, family.methods, family.law}
		sum, results := summarized(t, c.Over(200, 400))
		below(t, results)
		require.Contains(t, sum.Slopes, "onepass")
		for _, r := range results {
			d, ok := sweep.DetailOf[populationDetail](r)
			if _, counted := d.evaluations(); ok && r.Method != "zero" {
				require.True(t, counted, r.Method)
			}
		}
	}
	// A condition of a theorem: no smooth method takes a loss with kinks.
	c := Population{"n", sweep.Sizes{D: 4, Epsilon: 1}, 1e-6, 3, 3, []string{"objpert"}, onehot}
	_, err := c.Over(200).Run(t.Context(), &sweep.Options{Out: t.TempDir(), Quiet: true}, io.Discard, io.Discard)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// The promised rates, in both regimes, and no mean above its bound.
func TestSlopes(t *testing.T) {
	if testing.Short() {
		t.Skip("drawing the records of 30 runs takes seconds")
	}
	for i, c := range []struct {
		limits Population
		swept  string
		values []float64
		slope  float64
		slack  float64
	}{
		{PrivacyLimits, "n", []float64{500, 1000, 2000, 4000}, -1, 0.15},
		{StatisticsLimit, "n", []float64{1000, 2000, 4000, 8000}, -0.5, 0.1},
		{PrivacyLimits, "n", []float64{1000, 2000, 4000, 8000, 16000, 32000}, -1, 0.15},
		{PrivacyLimits, "d", []float64{16, 32, 64, 128}, 0.5, 0.15},
	} {
		if i > 0 && !testkit.Long() || i > 1 && !testkit.Deep() {
			break // more records
		}
		c.limits.Swept, c.limits.Methods = c.swept, []string{"sgd"}
		sum, results := summarized(t, c.limits.Over(c.values...))
		below(t, results)
		got := sum.Slopes["sgd"]
		t.Logf("%v: %.3f (%.3f to %.3f)", c.swept, got.Slope, got.Low, got.High)
		require.InDelta(t, c.slope, got.Slope, c.slack)
		require.LessOrEqual(t, got.Low, got.Slope)
		require.GreaterOrEqual(t, got.High, got.Slope)
	}
}

func TestFit(t *testing.T) {
	s := fitSlope([]float64{1, 2, 4}, [][]float64{{8, 8}, {4, 4}, {2, 2}})
	require.InDeltaSlice(t, []float64{-1, -1, -1}, []float64{s.Slope, s.Low, s.High}, 1e-12)
	s = fitSlope([]float64{1, 2}, [][]float64{{1, 4}, {1, 4}})
	require.InDelta(t, 0, s.Slope, 1e-12)
	// Each geometric mean is 1, 2 or 4: slopes −2 and 2 have probability 1/16.
	require.Equal(t, []float64{-2, 2}, []float64{math.Round(s.Low), math.Round(s.High)})
}

// The excess of each family against a mean over fresh records, and its least
// value.
func TestPopulations(t *testing.T) {
	src := rand.New(noise.Reproducible(1))
	const d, n = 4, 200000
	laws := map[string]func(d int) population{"linear": nil, "absolute": onehot, "logistic": rademacher}
	for _, family := range []string{"linear", "absolute", "logistic"} {
		p := Population{law: laws[family], Sizes: sweep.Sizes{N: 1000, D: d, Epsilon: 1}, Delta: 1e-6, Signal: 1}
		pop := p.population()
		w, best := make([]float64, d), make([]float64, d)
		noise.Normal(w, 0.3, src)
		switch family { // the minimizer
		case "linear":
			for j := range best {
				best[j] = 0.5
			}
		case "absolute":
			for j := range best {
				best[j] = 0.25
			}
		case "logistic":
			for j := range best {
				best[j] = []float64{2, -2}[j%2]
			}
		}
		require.InDelta(t, 0, pop.excess(best), 1e-15, family)
		a := make([]float64, d)
		sum, squares := 0.0, 0.0
		for range n {
			b := pop.draw(a, src)
			require.LessOrEqual(t, floats.Norm(a, 2), pop.bounds.Row*(1+1e-12))
			require.LessOrEqual(t, math.Abs(b), pop.bounds.Label)
			v := pop.loss.Func(w, a, b) - pop.loss.Func(best, a, b)
			sum += v
			squares += v * v
		}
		mean := sum / n
		se := math.Sqrt((squares/n - mean*mean) / n)
		require.InDelta(t, mean, pop.excess(w), 5*se, family) // 5 standard errors: 6e-7
		require.Positive(t, pop.excess(w))
	}
}

// The values of another implementation, 16 digits.
func TestGoldenRisk(t *testing.T) {
	pop := onehot(4) // w* = ¼ in each coordinate
	w := []float64{0, 0.3, -0.7, 1.5}
	floats.AddConst(0.25, w)
	require.InEpsilon(t, 0.37722404701574264, pop.excess(w), 1e-13)
}

func TestLinearLoss(t *testing.T) {
	a, theta, g := []float64{1, -2}, []float64{3, 4}, make([]float64, 2)
	linearLoss{}.Grad(g, theta, a, 0.5)
	require.Equal(t, []float64{-0.5, 1}, g)
	require.Equal(t, floats.Dot(g, theta), linearLoss{}.Func(theta, a, 0.5))
	phi, slope, curvature := linearLoss{}.Scalar(floats.Dot(a, theta), 0.5, 1)
	require.Equal(t, []float64{floats.Dot(g, theta), -0.5, 0}, []float64{phi, slope, curvature})
	require.Equal(t, 6.0, linearLoss{}.Constants(loss.Bounds{Row: 2, Label: 3}, 1).Lipschitz)
	require.Zero(t, linearLoss{}.Constants(loss.Bounds{}, 1))
}

// Test accuracy on Adult with every parameter fixed: 30162 records to fit, 15060 to measure,
// one-hot columns, rows within norm 1, δ = 1/n².
func TestPopulationAdult(t *testing.T) {
	if os.Getenv("PRIVOPT_DATA") == "" || testing.Short() {
		t.Skip("set PRIVOPT_DATA to the folder that holds adult/adult.data; 60 fits to 30162 records")
	}
	e, err := AdultAccuracy(30, []string{"lop"}, 0.1, 1)
	require.NoError(t, err)
	results := measured(t, e)
	require.GreaterOrEqual(t, mean(t, results, 0.1, "lop-addremove"), 0.81)
	require.GreaterOrEqual(t, mean(t, results, 1, "lop-addremove"), 0.835)
}

// Every method fits records like those of Adult.
func TestAdultMethods(t *testing.T) {
	train, err := adult.OneHot(bytes.NewReader(adultFile(500)))
	require.NoError(t, err)
	test, err := adult.OneHot(bytes.NewReader(adultFile(200)))
	require.NoError(t, err)
	in, err := newIncomes(train, test)
	require.NoError(t, err)
	in.n, in.delta = 30162, 1e-5 // the plan of the real ones
	for _, r := range measured(t, in.accuracy(2, []string{"lop", "objpert", "output", "sgd", "dpsgd"}, []float64{2})) {
		require.Greater(t, r.Mean, 0.3, r.Method)
	}
}

// onehot is absolute loss on a = ±e_j with Gaussian doubt s = ½: for t = w − w*
//
//	F(w) = (1/d) Σ_j s√(2/π) e^{−t_j²/2s²} + t_j erf(t_j/(s√2))
func onehot(d int) population {
	const s = 0.5
	target := 0.5 / math.Sqrt(float64(d)) // every coordinate of w*
	return population{
		loss:   loss.Absolute{},
		bounds: loss.Bounds{Row: 1, Label: 10}, // a label beyond has a probability below 1e-70
		radius: 1,
		draw: func(a []float64, src *rand.Rand) float64 {
			clear(a)
			sign := float64(2*src.IntN(2) - 1)
			a[src.IntN(len(a))] = sign
			var doubt [1]float64
			noise.Normal(doubt[:], s, src)
			return sign*target + doubt[0]
		},
		excess: func(w []float64) float64 {
			sum := 0.0
			for _, v := range w {
				t := v - target
				// s√(2/π)(e^{−x} − 1) + t erf(t/(s√2)): no cancellation at t = 0
				sum += s*math.Sqrt(2/math.Pi)*math.Expm1(-t*t/(2*s*s)) + t*math.Erf(t/(s*math.Sqrt2))
			}
			return sum / float64(len(w))
		},
	}
}

// rademacher is logistic loss on the 2ᵈ points {±1/√d}ᵈ, which are enumerated:
//
//	F(w) − F(w*) = 2⁻ᵈ Σ_a KL( p*(a) ‖ p(a) ),   p = 1/(1 + e^{−⟨a,w⟩})
func rademacher(d int) population {
	scale := 1 / math.Sqrt(float64(d))
	target := make([]float64, d) // alternating, of norm 4
	for j := range target {
		target[j] = 4 * scale * float64(1-2*(j%2))
	}
	return population{
		loss:   loss.Logistic{},
		bounds: loss.Bounds{Row: 1, Label: 1},
		radius: 5,
		draw: func(a []float64, src *rand.Rand) float64 {
			for j := range a {
				a[j] = scale * float64(2*src.IntN(2)-1)
			}
			if src.Float64() < 1/(1+math.Exp(-floats.Dot(a, target))) {
				return 1
			}
			return -1
		},
		excess: func(w []float64) float64 {
			a := make([]float64, d)
			sum := 0.0
			for code := range 1 << d {
				for j := range a {
					a[j] = scale * float64(2*(code>>j&1)-1)
				}
				u, best := floats.Dot(a, w), floats.Dot(a, target)
				p := 1 / (1 + math.Exp(-best))
				// E φ(u) − E φ(best) with φ(u) = log(1 + e^{−u}) under p
				sum += p*(softplus(-u)-softplus(-best)) + (1-p)*(softplus(u)-softplus(best))
			}
			return math.Ldexp(sum, -d)
		},
	}
}

// softplus is log(1 + eˣ).
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}
