// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dptest_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/dptest"
)

// recorder is a dptest.T that keeps the reports of Check.
type recorder struct{ reports []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

type mechanism = func(i int, src rand.Source) (*dp.Release, error)

var points = [2][]float64{{0.1, 0.7, -0.3}, {0.2, 0.6, -0.3}}

// exact releases the points as they should be released.
func exact(t testing.TB, b dp.Budget) mechanism {
	m := additive.Mechanism{Dim: 3, Radius: 1, L1: 0.3}
	plan, err := m.Plan(b)
	require.NoError(t, err)
	return func(i int, src rand.Source) (*dp.Release, error) {
		return plan.Release(context.Background(), points[i], src)
	}
}

// float adds noise in float64, with the certificate of an exact release.
func float(t testing.TB, b dp.Budget, draw func(*rand.Rand) float64) mechanism {
	m := exact(t, b)
	return func(i int, src rand.Source) (*dp.Release, error) {
		rel, err := m(i, src)
		if err != nil {
			return nil, err
		}
		rnd := rand.New(src)
		for j, c := range points[i] {
			rel.Theta[j] = c + draw(rnd)
		}
		return rel, nil
	}
}

// mixed replaces the noise of the first coordinate of m.
func mixed(m mechanism, draw func(r *rand.Rand, c float64) float64) mechanism {
	return func(i int, src rand.Source) (*dp.Release, error) {
		rel, err := m(i, src)
		if err == nil {
			rel.Theta[0] = draw(rand.New(src), points[i][0])
		}
		return rel, err
	}
}

// TestCheckPasses: exact releases of each law pass.
func TestCheckPasses(t *testing.T) {
	for _, b := range []dp.Budget{{Epsilon: 1}, {Epsilon: 1, Delta: 1e-6}, {Epsilon: 3, Delta: 0.01}} {
		dptest.Check(t, points, exact(t, b))
	}
}

// TestCheckBites: Check finds each fault and names it.
func TestCheckBites(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	good := exact(t, b)
	changed := func(change func(i int, rel *dp.Release)) mechanism {
		return func(i int, src rand.Source) (*dp.Release, error) {
			rel, err := good(i, src)
			if err == nil {
				change(i, rel)
			}
			return rel, err
		}
	}
	for name, c := range map[string]struct {
		m    mechanism
		want string
	}{
		"normal in float64": {float(t, b, func(r *rand.Rand) float64 { return 3 * r.NormFloat64() }), "name their data set"},
		"Laplace in float64": {
			float(t, b, func(r *rand.Rand) float64 { return r.ExpFloat64() - r.ExpFloat64() }), "name their data set",
		},
		"own source": {func(i int, _ rand.Source) (*dp.Release, error) { return good(i, nil) }, "want one release"},
		"no noise": {changed(func(i int, rel *dp.Release) { copy(rel.Theta, points[i]) }),
			"want noise"},
		"one coordinate without noise": {
			changed(func(i int, rel *dp.Release) { rel.Theta[2] = points[i][2] }), "coordinate 2 is",
		},
		"noise of one coordinate in float64": {
			mixed(good, func(r *rand.Rand, c float64) float64 { return c + 3*r.NormFloat64() }), "name their data set",
		},
		"noise of float32": {float(t, b, func(r *rand.Rand) float64 {
			return float64(float32(3 * r.NormFloat64()))
		}), "name their data set"},
		"all in float32": {mixed(good, func(r *rand.Rand, c float64) float64 {
			return float64(float32(c) + float32(3*r.NormFloat64()))
		}), "name their data set"},
		"integer noise on a point that is not rounded": {mixed(good, func(r *rand.Rand, c float64) float64 {
			return c + math.Round(9*r.NormFloat64())
		}), "name their data set"},
		"data in the last bit": {changed(func(i int, rel *dp.Release) {
			rel.Theta[1] = math.Float64frombits(math.Float64bits(rel.Theta[1])&^1 | uint64(i))
		}), "digits"},
		"data in the last digit": {changed(func(i int, rel *dp.Release) {
			rel.Theta[1] = math.Ldexp(2*math.Floor(math.Ldexp(rel.Theta[1], 20))+float64(i), -21)
		}), "digits"},
		"one noise for two coordinates": {changed(func(i int, rel *dp.Release) {
			rel.Theta[1] = points[i][1] + math.Ldexp(math.Round(math.Ldexp(rel.Theta[0]-points[i][0], 20)), -20)
		}), "a plane"},
		"NaN":            {changed(func(_ int, rel *dp.Release) { rel.Theta[1] = math.NaN() }), "NaN"},
		"no theorem":     {changed(func(_ int, rel *dp.Release) { rel.Certificate.Theorem = "" }), "Theorem is empty"},
		"no assumption":  {changed(func(_ int, rel *dp.Release) { rel.Certificate.Assumptions = nil }), "CallerSource"},
		"records decide": {changed(func(i int, rel *dp.Release) { rel.Certificate.Epsilon += float64(i) }), "want one"},
		"source not heeded": {func(i int, src rand.Source) (*dp.Release, error) {
			return good(i, rand.NewPCG(src.Uint64(), 1))
		}, "dp.ErrSource"},
	} {
		var r recorder
		dptest.Check(&r, points, c.m)
		require.Contains(t, strings.Join(r.reports, "\n"), c.want, name)
	}
	var r recorder
	dptest.Check(&r, [2][]float64{{1, 2, 3}, {1, 2, 3}}, good)
	require.Contains(t, r.reports[0], "two different points")
}

// TestCheckNeedsPower: where the attack would miss floating-point noise, Check says so.
func TestCheckNeedsPower(t *testing.T) {
	m := additive.Mechanism{Dim: 1, Radius: 1e9, L1: 1}
	plan, err := m.Plan(dp.Budget{Epsilon: 1e-9})
	require.NoError(t, err)
	var r recorder
	points := [2][]float64{{1}, {2}}
	dptest.Check(&r, points, func(i int, src rand.Source) (*dp.Release, error) {
		return plan.Release(context.Background(), points[i], src)
	})
	require.Len(t, r.reports, 1)
	require.Contains(t, r.reports[0], "would not notice")
}
