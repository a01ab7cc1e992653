// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model/score"
)

// scorable returns a folder with a model and its table, and the arguments of a private score.
func scorable(t *testing.T) (at func(string) string, score func(more ...string) []string) {
	at = folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "5",
		"--lasso", "1e-6", "--seed", "1", "--out", at("model.json")) // a plan whose bits hardly ever change
	require.Zero(t, code, errs)
	return at, func(more ...string) []string {
		return append([]string{"score", "--epsilon", "2", "--model", at("model.json"), "--data", at("people.csv")}, more...)
	}
}

// TestPrivateScoreText: the whole output of a score, from a seed.
func TestPrivateScoreText(t *testing.T) {
	_, score := scorable(t)
	code, out, errs := call(t, "", score("--seed", "7", "--threshold", "balanced")...)
	require.Zero(t, code, errs)
	require.Equal(t, `NOT PRIVATE: anyone who guesses --seed can reproduce the noise. Otherwise
(ε = 2, δ = 6.25e-06), replace neighbors, model.score/1
records   400
             value  ± 95 %  baseline  sampling  privacy
  accuracy  76.7 %     4.6    61.7 %      2.11     1.03
  balanced  74.7 %     4.9    50.0 %      2.25     1.11
  AUC        0.745   0.093     0.500     0.031    0.036
  log loss   0.485   0.133     0.666     0.043    0.053
AUC: cells can add or hide about 0.026
log loss: nats; losses above 4.6 count 4.6
  true class  predicted no  predicted yes
  no               101 ± 7         52 ± 7
  yes               41 ± 7        206 ± 7
threshold 0.5: the best for balanced accuracy of the 23 public ones, chosen from
the released cells
Standard errors suppose that the model was fitted to other records. About 95 %
of the intervals hold the true value (92 to 99 % in simulations). The best of
many models that were scored on one test set is less good than its score says.
`, out)
}

// TestPrivateScore: the parts of a private score, as JSON and as text.
func TestPrivateScore(t *testing.T) {
	at, args := scorable(t)
	code, out, errs := call(t, "", args("--json", "--plot", at("s.svg"))...)
	require.Zero(t, code, errs)
	var got struct {
		Private     bool           `json:"private"`
		Certificate dp.Certificate `json:"certificate"`
		Records     score.Metric   `json:"records"`
		Metrics     []score.Metric `json:"metrics"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.True(t, got.Private)
	require.Equal(t, "model.score/1", got.Certificate.Theorem)
	require.Equal(t, dp.Budget{Epsilon: 2, Delta: 1.0 / (400 * 400)}, got.Certificate.Budget)
	require.Equal(t, 400.0, got.Records.Value)
	require.Len(t, got.Metrics, 4)
	require.InDelta(t, 0.8, got.Metrics[0].Value, 0.2)
	svg, err := os.ReadFile(at("s.svg"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(svg), "<svg"))
	require.Equal(t, 1, strings.Count(string(svg), "<polygon"), "the band of the ROC curve")
	require.Equal(t, 3, strings.Count(string(svg), "<svg"), "two pictures on a sheet")
	require.Contains(t, string(svg), "polyline.k0 { stroke: #0b5cad; }", "the light colors of reports")
	require.NotContains(t, string(svg), "var(", "colors need no page")

	_, out, _ = call(t, "", args("--seed", "1")...)
	require.True(t, strings.HasPrefix(out, "NOT PRIVATE"), out)

	// Of a model against itself the difference is 0 within its error.
	code, out, errs = call(t, "", args("--json", "--compare", at("model.json"))...)
	require.Zero(t, code, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	for _, m := range got.Metrics {
		require.LessOrEqual(t, m.Value, 6*m.StdErr, m.Name)
		require.GreaterOrEqual(t, m.Value, -6*m.StdErr, m.Name)
	}
	for _, taken := range [][]string{args("--plot", at("s.svg")), {"summary", at("model.json"), "--plot", at("s.svg")}} {
		code, _, errs = call(t, "", taken...) // neither has --force
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "--plot: "+at("s.svg")+" exists: choose another name\n")
	}
	code, out, errs = call(t, "", args("--only", "accuracy")...)
	require.Zero(t, code, errs)
	require.NotContains(t, out, "AUC")
	code, out, errs = call(t, "", "plan", "--score", "--model", at("model.json"), "--epsilon", "2", "--records", "400")
	require.Zero(t, code, errs)
	require.Contains(t, out, "log loss")
}

// TestPrivateScoreOfAnyFields: fields and labels without a meaning are no errors.
func TestPrivateScoreOfAnyFields(t *testing.T) {
	at, score := scorable(t)
	text, err := os.ReadFile(at("people.csv"))
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	lines[1], lines[2], lines[3], lines[4] = "x,y,z", ",,", "", "NaN,nurse,?"
	require.NoError(t, os.WriteFile(at("people.csv"), []byte(strings.Join(lines, "\n")), 0o600))
	code, out, errs := call(t, "", score()...)
	require.Zero(t, code, errs)
	require.Contains(t, out, "records   400\n")
	code, _, _ = call(t, "", "score", "--model", at("model.json"), "--data", at("people.csv"))
	require.Equal(t, exitUsage, code)
}

// TestScoreOfOneLabel: where all labels are equal, a public score has no R², no baseline of the
// error and no AUC.
func TestScoreOfOneLabel(t *testing.T) {
	at := folder(t)
	number := strings.Replace(people, `"positive": ["yes"], "negative": ["no"]`, `"min": 0, "max": 100`, 1)
	for label, schema := range map[string]string{"7": number, "0.1": number, "33.3": number, "yes": people} {
		table := regexp.MustCompile(`(?m),(yes|no)$`).ReplaceAllString(rows(400, true), ","+label)
		require.NoError(t, os.WriteFile(at("t.csv"), []byte(table), 0o600))
		require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
		code, _, errs := call(t, "", "fit", "--schema", at("s.json"), "--data", at("t.csv"), "--epsilon", "2", "--force",
			"--out", at("m.json"))
		require.Zero(t, code, errs)
		_, out, _ := call(t, "", "score", "--model", at("m.json"), "--data", at("t.csv"), "--public")
		require.Regexp(t, `(?m)^(R²|AUC) +– \(all labels are equal\)$`, out, label)
		require.NotContains(t, out, "RMSE of always the mean")
	}
}
