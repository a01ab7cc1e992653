package lop

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

func loadJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

// relative requires |got − want| ≤ tol·|want|.
func relative(t testing.TB, want, got, tol float64, msg ...any) {
	t.Helper()
	require.LessOrEqual(t, math.Abs(got-want), tol*math.Abs(want), "want %v, got %v: %s", want, got, fmt.Sprint(msg...))
}

type golden struct {
	Curve struct {
		Values []struct {
			Eps, S, C float64
			General   float64  `json:"delta_general"`
			Rayleigh  float64  `json:"delta_rayleigh"`
			Monotone  *float64 `json:"delta_monotone"`
		}
	} `json:"objpert_curve"`
	Calibration struct {
		Values []struct {
			Eps, Delta, C float64
			KiferAdd      float64 `json:"kst_sigma_add_remove"`
			KiferReplace  float64 `json:"kst_sigma_replacement_2x"`
			TightAdd      float64 `json:"tight_sigma_add_remove"`
			TightReplace  float64 `json:"tight_sigma_replacement"`
			R0            float64 `json:"replacement_x0"`
			Rayleigh      float64 `json:"rayleigh_sigma_replacement"`
			Monotone      float64 `json:"monotone_sigma_add_remove"`
		}
	} `json:"objpert_calibration_L1"`
	Chi struct {
		Values []struct {
			Eps, S, C float64
			R         int
			Delta     float64
		}
	} `json:"objpert_chi_curve"`
	RDP struct {
		Values []struct{ Alpha, S, C, RDP float64 }
	} `json:"objpert_rdp"`
	Joint struct {
		Values []struct {
			Eps, S, C, O float64
			General      float64 `json:"delta_joint_general"`
			Rayleigh     float64 `json:"delta_joint_rayleigh"`
		}
	} `json:"amp_joint_curve"`
	Auto struct {
		Values []struct {
			Eps, L, Beta, B float64
			Delta           float64 `json:"delta"`
			DeltaReg        float64 `json:"Delta"`
			D               int
			Relation        string
			C, Sigma        float64
			Bound           float64 `json:"excess_sum_bound"`
			KiferDelta      float64 `json:"kst_style_Delta"`
			KiferSigma      float64 `json:"kst_style_sigma"`
			KiferBound      float64 `json:"kst_style_bound"`
		}
	} `json:"lop_auto_delta"`
	Solutions struct {
		X          [][]float64
		YClass     []float64 `json:"y_class"`
		YReg       []float64 `json:"y_reg"`
		Delta      float64
		B          []float64 `json:"b"`
		Logistic   []float64
		Squared    []float64 `json:"least_squares_half"`
		Huberized  []float64 `json:"huberised_least_squares_C_0.5"`
		Ball       []float64 `json:"logistic_ball_radius_0.5"`
		SquaredL1  []float64 `json:"least_squares_half_l1_0.3"`
		Provenance string    `json:"how_computed"`
	} `json:"perturbed_objective_solutions"`
	AMP struct {
		Input struct {
			L, Beta, Eps1, Eps2, Eps3, Delta1, Delta2, Gamma float64
			N, R                                             int
		}
		Lambda, Sigma1 float64
		Sigma2         float64 `json:"sigma2_paper"`
		Radius         float64 `json:"radius_R"`
		Corrected      float64 `json:"sigma2_corrected"`
	} `json:"amp_paper"`
	CMS struct {
		Values []struct {
			Eps, Lambda, Curvature float64
			N                      int
			Prime                  float64 `json:"eps_prime"`
			Extra                  float64 `json:"Delta_extra"`
			Rate                   float64 `json:"rate_a_replacement_L1"`
			OneSided               float64 `json:"eps_prime_one_sided"`
		}
	} `json:"cms11_pure"`
}
