package qop

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/randmat"
)

// number is a decimal string of the golden file.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	if s, err := strconv.Unquote(string(b)); err == nil {
		b = []byte(s)
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*n = number(v)
	return err
}

type published struct {
	Alpha1, Sigma2 number
	SigmaTilde2    number `json:"sigma_tilde2"`
}

type goldenFile struct {
	HockeyStick []struct {
		Eps, T    number
		K         float64
		Add       number `json:"lsq_add"`
		Remove    number `json:"lsq_remove"`
		GLMAdd    number `json:"glm_add"`
		GLMRemove number `json:"glm_remove"`
		Joint     number `json:"lsq_joint"`
	} `json:"hockey_stick"`
	Calibration []struct {
		D, Rho                                           int
		M, L, Eps1, Eps2, Delta1, Delta2, Delta3, Delta4 number
		Tau, Eta, Alpha, F2, Beta                        number
		PaperCode                                        published `json:"paper_code"`
		PaperCorrected                                   published `json:"paper_corrected"`
		Sharp                                            struct {
			Delta     number
			Threshold struct{ A, T, Sigma2 number } `json:"general_threshold"`
			OneStep   struct{ A, T number }         `json:"lsq_one_step_threshold"`
			Tight     struct{ T, Sigma2 number }    `json:"lsq_tight"`
			TwoStep   struct{ T, Sigma2 number }    `json:"lsq_two_step"`
			GLM       struct{ T, Sigma2 number }    `json:"glm_two_step"`
		} `json:"sharp_exact_release"`
		Noise struct {
			Alpha, B, R number
			Sigma       number `json:"sigma_tilde"`
		} `json:"sharp_noise"`
	}
	Figure2 struct {
		Alpha, F2, Beta number
		PaperCode       published `json:"paper_code"`
		PaperCorrected  published `json:"paper_corrected"`
		Sharp           struct {
			LSQ number `json:"lsq_tight_sigma2"`
			GLM number `json:"glm_two_step_sigma2"`
		}
	} `json:"paper_fig2_setting"`
	Figure1 struct{ Paper, General, GLM, LSQ [][]float64 } `json:"figure1_exact"`
}

func golden(t testing.TB) (g goldenFile) {
	t.Helper()
	b, err := os.ReadFile("testdata/qop.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.NotEmpty(t, g.HockeyStick)
	return g
}

func close(t *testing.T, want number, got, relative float64, what ...any) {
	t.Helper()
	if want == 0 {
		require.Zero(t, got, what...)
		return
	}
	require.InEpsilon(t, float64(want), got, relative, what...)
}

// TestHockeySticks holds the four scalar hockey-sticks to 1e-9, and the joint
// one to the accuracy of the reference: 1e-6 for k ≤ 5, 1e-5 for k = 2, else 1e-9.
func TestHockeySticks(t *testing.T) {
	for _, c := range golden(t).HockeyStick {
		eps, s, n := float64(c.Eps), float64(c.T), c.K/2-1
		close(t, c.Add, stickAdd(eps, s, c.K, n), 1e-9, "A", c)
		close(t, c.Remove, stickRemove(eps, s, c.K), 1e-9, "R", c)
		close(t, c.GLMAdd, stickAdd(eps, s, c.K, c.K/2), 1e-9, "D_a", c)
		close(t, c.GLMRemove, stickRemoveGLM(eps, s, c.K), 1e-9, "D_r", c)
		accuracy := 1e-9
		if c.K <= 5 {
			accuracy = 1e-5
		}
		close(t, c.Joint, newReplaceStick(eps, c.K, false).at(s), accuracy, "B", c)
	}
}

// TestGoldenCalibration calibrates each golden setting with its m and with the
// whole (ε₁, δ₁+δ₃) for the exact release.
func TestGoldenCalibration(t *testing.T) {
	for _, c := range golden(t).Calibration {
		b := dp.Budget{Epsilon: float64(c.Eps1), Delta: float64(c.Sharp.Delta)}
		m, d, k := float64(c.M), float64(c.D), float64(c.M)-float64(c.D)+1
		at := func(s loss.Structure, threshold bool) (float64, float64) {
			found := (&calibrator{s: setting{dim: c.D, rank: float64(c.Rho), structure: s, relation: dp.Replace, threshold: threshold}}).largest(b, m)
			return found.t, found.threshold
		}
		// The threshold form: the golden point satisfies both equations, and ours
		// lies on its safe side by at most the 1e-6 of the quantile.
		a, s := float64(c.Sharp.Threshold.A), float64(c.Sharp.Threshold.T)
		require.InDelta(t, math.Log(b.Delta), randmat.MinEigenvalueLaw{Dim: c.D, Dof: m}.LogCDF(a), 1e-8)
		close(t, c.Sharp.Threshold.T, setting{eps: b.Epsilon, rank: float64(c.Rho)}.closed(k, a), 1e-8)
		got, threshold := at(loss.General, true)
		require.LessOrEqual(t, got, s)
		if c.D > 1 { // in one dimension ours has t/2 in the loss
			require.InEpsilon(t, s, got, 1e-6)
		}
		require.InEpsilon(t, a, threshold, 1e-6)
		if c.D > 1 { // the hockey-stick needs less
			sharp, _ := at(loss.General, false)
			require.Greater(t, sharp, s)
		}
		if c.Rho > 1 {
			continue
		}

		got, _ = at(loss.LSQ, false)
		if c.D > 1 {
			close(t, c.Sharp.Tight.T, got, 1e-5, "LSQ", c.D)
		} else { // A and R alone are enough, and what the output density attains
			require.Greater(t, got, float64(c.Sharp.Tight.T)*(1-1e-5))
		}
		p := &glm{eps: b.Epsilon, k: k, relation: dp.Replace}
		twoSteps := largest(p.logDelta, math.Log(b.Delta), 0.3, fineT)
		close(t, c.Sharp.GLM.T, twoSteps, 1e-3, "GLM", c.D)
		if !testing.Short() { // joint accounting is not worse
			got, _ = at(loss.GLM, false)
			require.GreaterOrEqual(t, got, twoSteps*(1-1e-6))
		}

		// Comparisons: least squares in two steps, and its closed form
		// δ = F(a), ε = −N·log(1 − t/a).
		two := func(t float64) float64 {
			best := math.Inf(1)
			for i := range 201 {
				er := float64(i) / 200 * b.Epsilon
				r, a := stickRemove(er, t, k), stickAdd(b.Epsilon-er, t, k, k/2-1)
				best = math.Min(best, math.Min(r+math.Exp(er)*a, a+math.Exp(b.Epsilon-er)*r))
			}
			return math.Log(best)
		}
		close(t, c.Sharp.TwoStep.T, largest(two, math.Log(b.Delta), 0.3, 1e-7), 1e-3, "two steps", c.D)
		close(t, c.Sharp.OneStep.T, float64(c.Sharp.OneStep.A)*-math.Expm1(-b.Epsilon/(k/2-1)), 1e-8, "one step", d)
	}
}

// TestGoldenOutputNoise recomputes the golden sharp_noise: its α and b come from
// the shifted tails F(α+t) = δ₃/2, P(χ²_m > b−t) = δ₄.
func TestGoldenOutputNoise(t *testing.T) {
	seen := 0
	for _, c := range golden(t).Calibration {
		if c.Noise.R == 0 {
			continue
		}
		seen++
		s := float64(c.Sharp.Threshold.T)
		law := randmat.MinEigenvalueLaw{Dim: c.D, Dof: float64(c.M)}
		require.InDelta(t, math.Log(float64(c.Delta3)/2), law.LogCDF(float64(c.Noise.Alpha)+s), 1e-8)
		r := math.Sqrt(2*float64(c.Tau)*s/(float64(c.L)*float64(c.Noise.Alpha))) +
			float64(c.Eta)*math.Sqrt(float64(c.Noise.B)/float64(c.Noise.Alpha))
		close(t, c.Noise.R, r, 1e-9)
		sigma, err := gaussianSigma(dp.Budget{Epsilon: float64(c.Eps2), Delta: float64(c.Delta2)}, 2*r)
		require.NoError(t, err)
		close(t, c.Noise.Sigma, sigma, 1e-6)
	}
	require.Positive(t, seen)
}

// TestGoldenPaper: the published constants, as printed and repaired, to 1e-8.
func TestGoldenPaper(t *testing.T) {
	g := golden(t)
	for _, c := range g.Calibration {
		in := Published{
			Dim: c.D, M: float64(c.M), Rank: c.Rho, Smoothness: float64(c.L),
			Epsilon1: float64(c.Eps1), Epsilon2: float64(c.Eps2),
			Delta1: float64(c.Delta1), Delta2: float64(c.Delta2), Delta3: float64(c.Delta3), Delta4: float64(c.Delta4),
			Tau: float64(c.Tau), Eta: float64(c.Eta),
		}
		for printed, want := range map[bool]published{true: c.PaperCode, false: c.PaperCorrected} {
			k, err := in.Constants(printed)
			require.NoError(t, err)
			close(t, c.Alpha, k.Alpha, 1e-8)
			close(t, c.F2, k.F2, 1e-8)
			close(t, c.Beta, k.Beta, 1e-8)
			close(t, want.Alpha1, k.Alpha1, 1e-8, "α₁", printed, c.D)
			close(t, want.Sigma2, k.Sigma2, 1e-8)
			close(t, want.SigmaTilde2, square(k.OutputSigma), 1e-8)
		}
	}

	in := Published{Dim: 100, M: 200, Rank: 1, Smoothness: 1, Epsilon1: 0.5, Delta1: 0.005, Delta3: 0.005}
	k, err := in.Constants(true)
	require.NoError(t, err)
	close(t, g.Figure2.Alpha, k.Alpha, 1e-8)
	close(t, g.Figure2.F2, k.F2, 1e-8)
	close(t, g.Figure2.PaperCode.Alpha1, k.Alpha1, 1e-8)
	close(t, g.Figure2.PaperCode.Sigma2, k.Sigma2, 1e-8)
	k, err = in.Constants(false)
	require.NoError(t, err)
	close(t, g.Figure2.PaperCorrected.Alpha1, k.Alpha1, 1e-8)
	close(t, g.Figure2.PaperCorrected.Sigma2, k.Sigma2, 1e-8)

	// The defect in numbers: d = 100, m = 318, ε = 4, δ = 1e-5, δ₁ = 0.02 δ. The first
	// term of the maximum is 3.67; the repaired second one needs 254.
	in = Published{Dim: 100, M: 318, Rank: 1, Smoothness: 1, Epsilon1: 4, Delta1: 2e-7, Delta3: 9.8e-6}
	k, err = in.Constants(false)
	require.NoError(t, err)
	require.InDelta(t, 254, k.Sigma2, 0.5)
	require.InDelta(t, 3.67, 0.5*(k.F2+8/k.Alpha), 0.005)

	// Without a solution the published program keeps the first term. In one
	// dimension with m = 2 all is elementary: α = −2·ln(1−δ₃), and the printed
	// equation has none if e^{−α} ≤ δ₁(1−δ₃).
	in = Published{Dim: 1, M: 2, Rank: 1, Smoothness: 1, Epsilon1: 1, Delta1: 0.9, Delta3: 0.6}
	k, err = in.Constants(true)
	require.NoError(t, err)
	require.InEpsilon(t, -2*math.Log(0.4), k.Alpha, 1e-12)
	require.True(t, math.IsInf(k.Alpha1, 1))
	require.InEpsilon(t, 2*(k.F2+8/k.Alpha), k.Sigma2, 1e-12)
	in.Delta1 = 0.3
	k, err = in.Constants(true)
	require.NoError(t, err)
	require.InEpsilon(t, -math.Log(math.Exp(-k.Alpha)-0.12)-k.Alpha, k.Alpha1, 1e-9)
}

// TestPaperSettingSharp: d = 100, m = 2d, ε = 0.5, δ = 0.01.
func TestPaperSettingSharp(t *testing.T) {
	g := golden(t)
	s := setting{dim: 100, rank: 1, eps: 0.5, relation: dp.Replace}
	for p, want := range map[profile]number{newLSQ(s, 200, false): g.Figure2.Sharp.LSQ, &glm{eps: 0.5, k: 101, relation: dp.Replace}: g.Figure2.Sharp.GLM} {
		close(t, want, 1/largest(p.logDelta, math.Log(0.01)-safeLogDelta, 2, fineT), 2e-5)
	}
}

// TestTable: the mean curvature σ²m for L = 1 over (d, ε, δ) is at most 2.5 % above the reference, whose m are not the best, that of Theorem T for
// General(1) and FixedRange(5) and of Theorem G for generalized linear losses.
func TestTable(t *testing.T) {
	for _, r := range []struct {
		d                                    int
		eps, delta                           float64
		threshold, general, glm, lsq, fixed5 float64
	}{
		{10, 0.5, 1e-2, 183, 82.7, 30.3, 24.2, 0},
		{10, 1, 1e-5, 150, 101, 47.1, 43.0, 0},
		{10, 4, 1e-5, 39.2, 34.2, 0, 13.7, 0},
		{30, 0.5, 1e-2, 432, 130.6, 45.1, 37.3, 97.1},
		{30, 1, 1e-5, 291, 148.8, 63.8, 55.8, 0},
		{100, 0.5, 1e-2, 1251, 235.5, 70.7, 64.7, 125},
		{100, 1, 1e-5, 732, 258, 87.7, 85.4, 142},
		{100, 4, 1e-5, 185, 74.6, 27.8, 25.5, 41.2},
	} {
		if os.Getenv("PRIVOPT_DEEP") == "" && (testing.Short() || r.d == 100 && r.delta == 1e-5 || r.d == 30) {
			continue
		}
		at := func(want float64, s loss.Structure, rank float64, threshold bool) {
			if want == 0 {
				return
			}
			c := &calibrator{s: setting{dim: r.d, rank: rank, structure: s, relation: dp.Replace, threshold: threshold}}
			b := dp.Budget{Epsilon: r.eps, Delta: r.delta}
			m := c.degrees(b)
			got := c.largest(b, m)
			require.LessOrEqual(t, m/got.t, 1.025*want, "%v %v ρ=%v threshold=%v m=%v %s", r, s, rank, threshold, m, got.theorem)
			require.GreaterOrEqual(t, m/got.t, 0.8*want, "%v %v ρ=%v threshold=%v m=%v %s", r, s, rank, threshold, m, got.theorem)
			if r.d == 100 && r.eps == 0.5 && !threshold {
				most := map[loss.Structure]float64{loss.General: 240, loss.FixedRange: 128, loss.GLM: 72, loss.LSQ: 64.8}[s]
				require.LessOrEqual(t, m/got.t, most, "%v", s)
				t.Logf("%v: σ²m = %.2f L at m = %v by %s", s, m/got.t, m, got.theorem)
			}
		}
		at(r.threshold, loss.General, 1, true)
		at(r.general, loss.General, 1, false)
		at(r.glm, loss.GLM, 1, false)
		at(r.lsq, loss.LSQ, 1, false)
		at(r.fixed5, loss.FixedRange, 5, false)
	}
}

// TestTableRefuted: at d = 100, ε = 0.5 and σ²m = 1043 L the general hockey-stick at
// the best m is above δ = 0.01; at 1076.3 it is not. The integral is
// E(1 − e^{ε−l_G})₊ as a Stieltjes sum over the exact law, which is above or below
// the integral according to the end of each interval that is taken.
func TestTableRefuted(t *testing.T) {
	if os.Getenv("PRIVOPT_DEEP") == "" {
		t.Skip("fifty evaluations of the exact law")
	}
	sums := func(m, curvature float64) (lower, upper float64) {
		const eps = 0.5
		s, k := m/curvature, m-99
		law := randmat.MinEigenvalueLaw{Dim: 100, Dof: m}
		ratio := largestBelow(1, eps, func(v float64) float64 { return math.Log1p(v) - k/2*math.Log1p(-v) })
		top := s / ratio // a*
		const cells = 24
		last, excess := 0.0, 1.0
		for i := range cells + 1 {
			x := top * (0.55 + 0.45*float64(i)/cells)
			f := law.CDF(x)
			next := math.Max(-math.Expm1(eps-generalLoss(1, k, s, x)), 0)
			upper += (f - last) * excess
			lower += (f - last) * next
			last, excess = f, next
		}
		return lower, upper
	}
	lower, _ := sums(272, 1043) // the m that is best at 0.01, see TestTable
	require.Greater(t, lower, 0.0105)
	lower, upper := sums(272, 1076.3)
	require.Less(t, lower, 0.01)
	require.Greater(t, upper, 0.01)
}

// TestFigure1: the four exact columns of Figure 1 of [CC26], at most 1 % above
// the reference optima (and half a digit, where they end), and not far below:
// those of the general column were found on a coarse grid of m.
func TestFigure1(t *testing.T) {
	g := golden(t).Figure1
	u := Utility{Records: 10, Dim: 12, Radius: 1, RegLipschitz: 1}
	for i, eps := range []float64{1, 2, 3, 4} {
		for j, delta := range []float64{1e-5, 1e-4, 1e-3, 1e-2} {
			if os.Getenv("PRIVOPT_DEEP") == "" && i != j {
				continue
			}
			for _, c := range []struct {
				want        float64
				structure   loss.Structure
				calibration Calibration
			}{
				{g.Paper[i][j], loss.General, Paper},
				{g.General[i][j], loss.General, Sharp},
				{g.GLM[i][j], loss.GLM, Sharp},
				{g.LSQ[i][j], loss.LSQ, Sharp},
			} {
				u.Constants = loss.Constants{Smoothness: 1, Rank: 1, Structure: c.structure}
				u.Calibration = c.calibration
				got, err := u.Bound(dp.Budget{Epsilon: eps, Delta: delta})
				require.NoError(t, err)
				require.LessOrEqual(t, got, 1.01*c.want+0.05, "%v ε=%v δ=%v", c, eps, delta)
				least := 0.95 // the reference has no Theorems T and G
				if c.calibration == Sharp && c.structure != loss.LSQ {
					least = 0.6
				}
				require.GreaterOrEqual(t, got, least*c.want-0.05, "%v ε=%v δ=%v", c, eps, delta)
			}
		}
	}
}
