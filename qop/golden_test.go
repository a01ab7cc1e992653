package qop

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
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
	load(t, "qop.json", &g)
	require.NotEmpty(t, g.HockeyStick)
	return g
}

// load reads a file of testdata.
func load(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func close(t *testing.T, want number, got, relative float64, what ...any) {
	t.Helper()
	if want == 0 {
		require.Zero(t, got, what...)
		return
	}
	require.InEpsilon(t, float64(want), got, relative, what...)
}

// exactFile holds values of 40 digits; its provenance field says how they were computed.
type exactFile struct {
	Tilt []struct {
		Row                                     string
		Lambda                                  number `json:"lambda_"`
		X0, T, Eps, N, K, S, J, E, M, Mu, Delta number
		Rho                                     float64
	}
	Parallel []struct{ Eps, T, K, Delta number }
	Sticks   []struct {
		Eps, T, K, Add number
		GLMAdd         number `json:"glm_add"`
		GLMRemove      number `json:"glm_remove_first"`
	}
}

func exact(t testing.TB) (g exactFile) {
	t.Helper()
	load(t, "exact.json", &g)
	require.NotEmpty(t, g.Tilt)
	return g
}

type jointGolden struct {
	D                int
	K, Eps, Delta, T float64
	Parallel         float64 `json:"E_parallel"`
	Orthogonal       float64 `json:"E_orthogonal"`
	Angles           []struct{ Phi, E float64 }
}

func jointCases(t testing.TB) []jointGolden {
	t.Helper()
	var g struct {
		GLM []jointGolden `json:"glm"`
	}
	load(t, "qop2.json", &g)
	require.Len(t, g.GLM, 12)
	return g.GLM
}
