// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/model"
)

// TestEstimateCells: a weak coefficient prints no number, others are printed to the second digit of
// their standard error, and the column privacy counts all noise.
func TestEstimateCells(t *testing.T) {
	i := model.Interval{Debiased: 14.123, StdErr: 0.234, PrivacyErr: 0.222, PrivacyShare: 0.001, Lower: 13.66,
		Upper: 14.58,
		Z:     60.4, P: 1e-30}
	row := model.Row{Name: "x", Estimate: 13.98765, Interval: &i}
	require.Equal(t, []string{"13.99", "14.12", "0.23", "13.66", "14.58", "60.4", "<1e-16", "90 %", ""},
		estimateCells(row, nil))
	i.Weak = true
	require.Equal(t, []string{"–", "–", "–", "–", "–", "–", "–", "–", "weak"}, estimateCells(row, nil))
	require.Equal(t, []string{"14"}, estimateCells(model.Row{Estimate: 13.98765}, nil))
	require.Equal(t, "–", estimateCells(model.Row{Interval: &model.Interval{}}, nil)[7], "no standard error, no share")
	for stdErr, want := range map[float64]string{2345: "12300", 30: "12346", 0.5: "12345.68", 1e-5: "12345.678901"} {
		require.Equal(t, want, toError(12345.678901, stdErr), stdErr)
	}
	require.Equal(t, "12300", toError(12345.67, math.NaN()))
	require.Equal(t, "0", toError(-3, 250), "no −0")
	require.Equal(t, "5600", number(5566, 2))
	require.Equal(t, "99999", number(99999), "the end of a range")
}

// TestSummaryOfLevels: every row of a summary is a column, a level that the schema declares, or the
// intercept, and --plot draws them.
func TestSummaryOfLevels(t *testing.T) {
	at := folder(t)
	for k, schema := range []string{people, strings.Replace(people, `, "other": true`, "", 1),
		strings.Replace(people, `"max": 80`, `"max": 80, "bins": [40], "missing": true`, 1),
		strings.Replace(people, `"max": 80`, `"max": 80, "missing": true`, 1)} {
		require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
		data := strings.ReplaceAll(rows(400, true), "baker", "nurse")
		require.NoError(t, os.WriteFile(at("t.csv"), []byte(data), 0o600))
		model, plot := at(fmt.Sprint(k)), at(fmt.Sprint(k, ".svg"))
		code, _, errs := call(t, "", "fit", "--schema", at("s.json"), "--data", at("t.csv"), "--epsilon", "2", "--out", model)
		require.Equal(t, 0, code, errs)
		_, out, _ := call(t, "", "summary", model, "--plot", plot)
		want := []string{"(intercept)", "age", "job=pilot", "job other"} // against nurses
		switch k {
		case 1:
			want = want[:3]
		case 2:
			want = []string{"(intercept)", "age>=40", "age missing", "job=pilot", "job other"}
		case 3:
			want = []string{"(intercept)", "age", "age missing", "job=pilot", "job other"}
		}
		var got []string
		for _, line := range strings.Split(out, "\n")[1:] {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
				got = append(got, name)
			}
		}
		require.Equal(t, want, got)
		require.Contains(t, flat(out), "Coefficients of levels are differences from "+[]string{
			"job=nurse.", "job=nurse.", "age<40, job=nurse.",
			"job=nurse, age = 50 for age missing."}[k])
		require.Contains(t, must(os.ReadFile(plot)), "<svg")
	}
}

// TestDigits: without standard errors, estimates have the digits that noise leaves, the same in
// summary and report: few at ε = 1, more at 200.
func TestDigits(t *testing.T) {
	at := folder(t)
	digits := func(epsilon string) (n int) {
		code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", epsilon,
			"--out", at(epsilon))
		require.Equal(t, 0, code, errs)
		_, out, _ := call(t, "", "summary", at(epsilon))
		require.Contains(t, flat(out), "Digits are those that noise is expected to leave")
		code, _, errs = call(t, "", "report", "--model", at(epsilon), "--out", at(epsilon+".html"))
		require.Equal(t, 0, code, errs)
		page := must(os.ReadFile(at(epsilon + ".html")))
		for _, line := range strings.Split(out, "\n") {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "job=pilot" {
				require.Contains(t, page, "<td>"+strings.Replace(f[1], "-", "−", 1)+"</td>")
				_, decimals, _ := strings.Cut(f[1], ".")
				return len(decimals)
			}
		}
		t.Fatal(out)
		return 0
	}
	few, many := digits("1"), digits("200")
	require.LessOrEqual(t, few, 2)
	require.GreaterOrEqual(t, many, 3)
}
