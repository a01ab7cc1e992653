package lasso

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/specfun"
)

type goldenConstants struct {
	D      int     `json:"d"`
	M      float64 `json:"m"`
	Rho    float64 `json:"rho"`
	L      num     `json:"L"`
	Eps1   num     `json:"eps1"`
	Eps2   num     `json:"eps2"`
	Delta1 num     `json:"delta1"`
	Delta2 num     `json:"delta2"`
	Delta3 num     `json:"delta3"`
	Delta4 num     `json:"delta4"`
	Tau    num     `json:"tau"`
	Eta    num     `json:"eta"`
	LogD   num     `json:"log_Dm"`
	Alpha  num     `json:"alpha"`
	F2     num     `json:"f2"`
	Beta   num     `json:"beta"`
	Code   struct {
		Alpha1      num `json:"alpha1"`
		Sigma2      num `json:"sigma2"`
		SigmaTilde2 num `json:"sigma_tilde2"`
	} `json:"paper_code"`
	Corrected struct {
		Alpha1      num `json:"alpha1"`
		Sigma2      num `json:"sigma2"`
		SigmaTilde2 num `json:"sigma_tilde2"`
	} `json:"paper_corrected"`
}

// num is a number written as a string of more digits than float64 has.
type num float64

func (n *num) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := strconv.ParseFloat(s, 64)
	*n = num(v)
	return err
}

func (g goldenConstants) formula() Formula {
	return Formula{D: g.D, M: g.M, Rho: g.Rho, L: float64(g.L), Eps1: float64(g.Eps1), Delta1: float64(g.Delta1), Delta3: float64(g.Delta3),
		Tau: float64(g.Tau), Eta: float64(g.Eta), Eps2: float64(g.Eps2), Delta2: float64(g.Delta2), Delta4: float64(g.Delta4)}
}

func readGolden(t *testing.T) (all []goldenConstants, fig2 goldenConstants) {
	text, err := os.ReadFile("testdata/published_constants.json")
	require.NoError(t, err)
	var g struct {
		Calibration []goldenConstants `json:"calibration"`
		Fig2        goldenConstants   `json:"fig2"`
	}
	require.NoError(t, json.Unmarshal(text, &g))
	return g.Calibration, g.Fig2
}

// requireClose requires relative agreement: 1e-8 is what the experiment promises, the
// formulas keep 1e-11.
func requireClose(t *testing.T, want num, got float64, msg string) {
	t.Helper()
	const rel = 1e-10
	require.LessOrEqual(t, math.Abs(got-float64(want)), rel*math.Abs(float64(want)), "%s: got %v, want %v", msg, got, want)
}

func TestConstantsGolden(t *testing.T) {
	all, fig2 := readGolden(t)
	require.NotEmpty(t, all)
	for _, g := range append(all, fig2) {
		f := g.formula()
		c, err := f.Constants()
		require.NoError(t, err)
		name := fmt.Sprintf("d=%d m=%v ε=%v", g.D, g.M, g.Eps1)
		require.InDelta(t, float64(g.LogD), c.LogD, 1e-11*(1+math.Abs(float64(g.LogD))), name)
		requireClose(t, g.Alpha, c.Alpha, name+" α")
		requireClose(t, g.F2, c.F2, name+" f₂")
		requireClose(t, g.Beta, c.Beta, name+" β")
		requireClose(t, g.Code.Alpha1, c.Published.Alpha1, name+" α₁")
		requireClose(t, g.Code.Sigma2, c.Published.Sigma2, name+" σ²")
		requireClose(t, g.Code.SigmaTilde2, c.Published.SigmaTilde*c.Published.SigmaTilde, name+" σ~²")
		requireClose(t, g.Corrected.Alpha1, c.Repaired.Alpha1, name+" repaired α₁")
		requireClose(t, g.Corrected.Sigma2, c.Repaired.Sigma2, name+" repaired σ²")
		requireClose(t, g.Corrected.SigmaTilde2, c.Repaired.SigmaTilde*c.Repaired.SigmaTilde, name+" repaired σ~²")
	}
}

// At the defaults of the figure; printed values of its description.
func TestConstantsOfTheFigure(t *testing.T) {
	c, err := Formula{D: 100, M: 200, Rho: 1, L: 2500, Eps1: 0.5, Delta1: 0.005, Delta3: 0.005}.Constants()
	require.NoError(t, err)
	require.InDelta(t, 9.956, c.Alpha, 5e-4)
	require.InDelta(t, 11.14, c.F2, 5e-3)
	require.InDelta(t, 1.9799e-14, c.Published.Alpha1, 5e-19)
	require.InDelta(t, 2.525e17, c.Published.Sigma2, 5e13)
	require.InDelta(t, 47.7915817917143206*2500, c.Repaired.Sigma2, 1e-8*2500*48)

	// For tiny p₁ the published α₁ is δ₁(1−δ₃)e^α α^(1−k/2)/D.
	k := 101.0
	want := math.Exp(math.Log(0.005*0.995) + c.Alpha + (1-k/2)*math.Log(c.Alpha) - c.LogD)
	require.InEpsilon(t, want, c.Published.Alpha1, 1e-11)
}

// Where P(k/2, α) + p₁ ≥ 1 there is no published α₁, and its term is dropped.
func TestConstantsWithoutAlpha1(t *testing.T) {
	c, err := Formula{D: 1, M: 5, Rho: 1, L: 1, Eps1: 4, Delta1: 0.5, Delta3: 0.9}.Constants()
	require.NoError(t, err)
	require.True(t, math.IsInf(c.Published.Alpha1, 1))
	require.Equal(t, 2.0/4*(c.F2+8/c.Alpha), c.Published.Sigma2)
	require.False(t, math.IsInf(c.Repaired.Alpha1, 1))

	// At d = 100, m = 318 the published program loses α₁ to rounding and keeps
	// 3.67, its first term; the equation itself has a solution, and the
	// repaired one asks for 254.
	c, err = Formula{D: 100, M: 318, Rho: 1, L: 1, Eps1: 4, Delta1: 0.02e-5, Delta3: 0.98e-5}.Constants()
	require.NoError(t, err)
	require.InDelta(t, 3.67, 2.0/4*(c.F2+8/c.Alpha), 5e-3)
	require.Greater(t, c.Published.Sigma2, 1e27)
	require.InDelta(t, 254, c.Repaired.Sigma2, 0.5)
}

// increment solves its equation, checked with the incomplete gamma function
// where the difference of two values of P has digits left.
func TestIncrement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.OneOf(rapid.Float64Range(0.5, 5), rapid.Float64Range(5, 300)).Draw(t, "a")
		x := a * rapid.Float64Range(0.05, 2).Draw(t, "x/a")
		share := rapid.Float64Range(0.01, 0.99).Draw(t, "share")
		p := share * math.Exp(specfun.GammaLogQ(a, x))
		if p == 0 {
			t.Skip("x is beyond the range of float64 tails")
		}
		h := increment(a, x, math.Log(p))
		// Q(a,x+h) = (1−share) Q(a,x); both sides good to 1e-12 relative.
		require.InDelta(t, math.Log1p(-share)+specfun.GammaLogQ(a, x), specfun.GammaLogQ(a, x+h), 1e-9)
	})
	require.True(t, math.IsInf(increment(2, 1, 0), 1))
	require.Positive(t, increment(2, 1, -600))
}

func TestFormulaErrors(t *testing.T) {
	good := Formula{D: 3, M: 6, Rho: 1, L: 1, Eps1: 1, Delta1: 0.01, Delta3: 0.01, Tau: 1, Eta: 1, Eps2: 1, Delta2: 0.01, Delta4: 0.01}
	_, err := good.Constants()
	require.NoError(t, err)
	nan, inf := math.NaN(), math.Inf(1)
	for name, change := range map[string]func(*Formula){
		"D":      func(f *Formula) { f.D = 0 },
		"M":      func(f *Formula) { f.M = 2 },
		"Rho":    func(f *Formula) { f.Rho = -1 },
		"L":      func(f *Formula) { f.L = 0 },
		"Eps1":   func(f *Formula) { f.Eps1 = nan },
		"Delta1": func(f *Formula) { f.Delta1 = 1 },
		"Delta3": func(f *Formula) { f.Delta3 = 0 },
		"Tau":    func(f *Formula) { f.Tau = inf },
		"Eta":    func(f *Formula) { f.Eta = -1 },
		"Eps2":   func(f *Formula) { f.Eps2 = 0 },
		"Delta2": func(f *Formula) { f.Delta2 = 2 },
		"Delta4": func(f *Formula) { f.Delta4 = 0 },
	} {
		f := good
		change(&f)
		_, err := f.Constants()
		require.ErrorIs(t, err, ErrParameter, name)
		require.ErrorContains(t, err, name)
	}
	f := good
	f.Tau, f.Eta, f.Delta4 = 0, 0, nan
	_, err = f.Constants()
	require.ErrorContains(t, err, "Delta4")
}
