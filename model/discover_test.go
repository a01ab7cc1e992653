// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/table"
)

type goldenDiscovery struct {
	Discover []struct {
		Relation                  dp.Relation
		Columns, Keyed            int
		Epsilon, Delta, Share     string
		Mu, MuDiscovery           string
		SigmaKind, SigmaKeys      string
		Threshold                 int
		Q, ProbabilityAtThreshold string
		ProbabilityBelow          string
	}
	Profile []struct {
		Relation      dp.Relation
		Keyed         int
		S, Q, Epsilon string
		Exact, Bound  string
	}
	Sequence []struct {
		Relation              dp.Relation
		Monotone              bool
		Epsilon, Delta, Share string
		C, Mu, MuDiscovery, S string
	}
}

func readGoldenDiscovery(t *testing.T) (g goldenDiscovery) {
	raw, err := os.ReadFile("testdata/discover.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &g))
	return g
}

func float(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return v
}

// TestDiscoveryGolden compares μ, the noise and the thresholds with those of mpmath.
func TestDiscoveryGolden(t *testing.T) {
	g := readGoldenDiscovery(t)
	require.Len(t, g.Discover, 8)
	for _, row := range g.Discover {
		b := dp.Budget{Epsilon: float(t, row.Epsilon), Delta: float(t, row.Delta)}
		pl, err := newDiscovery(row.Columns, 30000, b, &Options{Relation: row.Relation})
		require.NoError(t, err)
		require.NoError(t, pl.alone())
		mu := float(t, row.Mu)
		require.LessOrEqual(t, pl.t, mu*(1+1e-15))
		require.InEpsilon(t, mu, pl.t, 1e-9)
		pl.t *= math.Sqrt(float(t, row.Share)) // as if the rest were one Gaussian release
		atLeast := func(want string, got float64) {
			require.GreaterOrEqual(t, got, float(t, want))
			require.InEpsilon(t, float(t, want), got, 1e-6)
		}
		atLeast(row.SigmaKind, pl.kindSigma(nil))
		sigma := pl.sensitivity(nil) / pl.part(1, float64(row.Columns)) * safeScale
		atLeast(row.SigmaKeys, sigma)
		q := pl.q / float64(row.Keyed)
		require.InEpsilon(t, float(t, row.Q), q, 1e-12)
		require.Equal(t, row.Threshold, threshold(sigma, q))
		passes := func(at int) float64 { return num.NormalCDF(-(float64(at) - 1.5) / sigma) }
		require.InEpsilon(t, float(t, row.ProbabilityAtThreshold), passes(row.Threshold), 1e-6)
		require.InEpsilon(t, float(t, row.ProbabilityBelow), passes(row.Threshold-1), 1e-6)
		require.Greater(t, passes(row.Threshold-1), q)
	}
	for _, row := range g.Profile {
		pl := &DiscoveryPlan{q: 1 - math.Pow(1-float(t, row.Q), float64(row.Keyed)), t: float(t, row.S)}
		if row.Keyed*len(row.Q) > 0 && pl.q < 1e-6 {
			pl.q = float64(row.Keyed) * float(t, row.Q)
		}
		pl.cert.Theorem = theoremDiscover
		got := pl.Profile().Remove(float(t, row.Epsilon))
		require.GreaterOrEqual(t, got, float(t, row.Exact))
		require.InEpsilon(t, float(t, row.Bound), got, 1e-6)
	}
}

// adultTable is Adult with a header line; the test skips without the data.
func adultTable(t testing.TB, name string) string {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" {
		t.Skip("PRIVOPT_DATA is not set")
	}
	text, err := os.ReadFile(filepath.Join(dir, "adult", name))
	require.NoError(t, err)
	return string(text)
}

const adultFields = "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex," +
	"capital-gain,capital-loss,hours-per-week,native-country,income"

func TestDiscoverAdult(t *testing.T) {
	d := table.Discovery{File: table.File{Fields: strings.Split(adultFields, ",")}, Label: table.Label{Column: "income"}}
	u, err := d.Read(strings.NewReader(strings.TrimSpace(adultTable(t, "adult.data")) + "\n"))
	require.NoError(t, err)
	s, err := Discover(context.Background(), u, dp.Budget{Epsilon: 0.3, Delta: 1e-9}, &Options{Source: dp.Seeded(1)})
	require.NoError(t, err)
	require.NoError(t, s.Check())
	for _, c := range s.Columns {
		if c.Min != nil {
			fmt.Println(c.Name, *c.Min, *c.Max, c.Bins, c.Missing)
		} else {
			fmt.Println(c.Name, len(c.Levels), c.Ignore, c.Missing)
		}
	}
	fmt.Printf("%+v\n", s.Label)
}

func TestFitAdult(t *testing.T) {
	d := table.Discovery{File: table.File{Fields: strings.Split(adultFields, ",")}, Label: table.Label{Column: "income"}}
	u, err := d.Read(strings.NewReader(strings.TrimSpace(adultTable(t, "adult.data")) + "\n"))
	require.NoError(t, err)
	for _, eps := range []float64{1, 3} {
		start := time.Now()
		o := &Options{Discover: &Discovery{Task: TwoClasses}}
		pl, err := NewFitPlan(15, 32561, dp.Budget{Epsilon: eps, Delta: DefaultDelta(32561)}, o)
		require.NoError(t, err)
		fmt.Println(pl, time.Since(start), pl.t, pl.fit.plan.params.Sequence)
		sum := 0.0
		for seed := range uint64(10) {
			o.Source = dp.Seeded(seed)
			m, s, err := FitUndeclared(context.Background(), u, dp.Budget{Epsilon: eps, Delta: DefaultDelta(32561)}, o)
			require.NoError(t, err)
			var file bytes.Buffer
			require.NoError(t, m.Save(&file))
			_, err = Load(&file)
			require.NoError(t, err)
			test := strings.ReplaceAll(adultTable(t, "adult.test"), "K.", "K")
			test = strings.TrimSpace(test[strings.Index(test, "\n")+1:])
			sc, err := m.ScoreCSV(strings.NewReader(test), table.Options{})
			require.NoError(t, err)
			sum += sc.Accuracy
			fmt.Println(eps, seed, sc.Accuracy, m.params.Dim, s.Label.Positive)
		}
		fmt.Println(eps, "mean", sum/10)
	}
}
