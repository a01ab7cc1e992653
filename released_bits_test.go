// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/table"
)

// TestReleasedBits compares releases of every mechanism under a fixed source with
// testdata/releases.txt, which holds their theorem and their bits. A change of a noise scale, of
// a sampler or of a solver shows there. `go test . -run TestReleasedBits -update` writes the
// file; CHANGELOG.md then says which mechanisms changed and why. Without PRIVOPT_LONG quadratic
// perturbation has squared loss only: calibrations for other losses take long.
func TestReleasedBits(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors fuse multiplications and additions: their last digits differ")
	}
	const file = "testdata/releases.txt"
	var lines, skipped []string
	note := func(name string, c dp.Certificate, theta []float64) {
		lines = append(lines, fmt.Sprintf("%s | %s | %x", name, c.Theorem, theta))
	}
	losses := []loss.Loss{
		loss.Logistic{}, loss.Squared{}, loss.Huber{Delta: 0.5}, loss.PseudoHuber{Delta: 0.5}, loss.SmoothedHinge{Gamma: 0.5},
	}
	for _, m := range mechanisms(0) {
		for i, l := range losses {
			// halfspaces and models have losses of their own, sums have none
			own := m.name[:3] == "obj" || m.name[:5] == "model" || m.name[:3] == "add"
			if own && l != loss.Loss(loss.Logistic{}) {
				continue
			}
			for _, b := range []dp.Budget{{Epsilon: 0.3, Delta: 1e-5}, {Epsilon: 2, Delta: 1e-9}} {
				name := fmt.Sprintf("%s | %T | %v", m.name, l, b)
				if m.name[:3] == "qop" && l != loss.Loss(loss.Squared{}) && !testkit.Long() && !*update {
					skipped = append(skipped, name+" | ")
					continue
				}
				p := records(t, 60, 3, 1, l, unit)
				if i == 2 {
					p.Reg, p.Set = prox.L1{Weight: 0.5}, prox.Box{Lo: -0.7, Hi: 0.9}
				}
				_, fit, err := m.open(p, b, nil)
				if err != nil {
					require.ErrorIs(t, err, dp.ErrCondition) // not for this loss
					continue
				}
				rel, err := fit(t.Context(), noise.Reproducible(7, name))
				require.NoError(t, err, name)
				note(name, rel.Certificate, rel.Theta)
			}
		}
	}
	for task, label := range map[string]string{
		"two classes":   `{"column": "y", "positive": ["2"], "negative": ["5"], "unknown": "negative"}`,
		"three classes": `{"column": "y", "levels": ["2", "5", "8"]}`,
		"a number":      `{"column": "y", "min": 0, "max": 10, "unknown": "middle"}`,
	} {
		schema, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "records": 90, "intercept": true,
			"label": ` + label + `,
			"columns": [{"name": "x", "min": 0, "max": 10}, {"name": "k", "levels": ["p", "q"]}]}`))
		require.NoError(t, err)
		data, err := table.ReadCSV(strings.NewReader("x,y,k\n"+strings.Repeat("1,2,p\n4,5,q\n9,8,p\n", 30)), schema)
		require.NoError(t, err)
		for _, b := range []dp.Budget{{Epsilon: 0.3, Delta: 1e-5}, {Epsilon: 2, Delta: 1e-9}} {
			name := fmt.Sprintf("model.Fit, %s | %v", task, b)
			m, err := model.Fit(t.Context(), data, b, &model.Options{Source: noise.Reproducible(7, name)})
			require.NoError(t, err, name)
			note(name, m.Certificate(), m.Theta())
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, line := range strings.Split(string(want), "\n") {
		later := slices.ContainsFunc(skipped, func(name string) bool { return strings.HasPrefix(line, name) })
		if !slices.Contains(lines, line) && line != "" && !later {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range lines {
		if !strings.Contains(string(want), line+"\n") {
			t.Errorf("new: %s", line)
		}
	}
}
