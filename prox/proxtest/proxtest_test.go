// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package proxtest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/prox/proxtest"
)

// recorder is a proxtest.T that keeps the reports of Check.
type recorder struct{ reports []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

func TestCheckPasses(t *testing.T) {
	var r recorder
	proxtest.Check(&r, prox.L1Box{Weight: 0.5, Lo: -1, Hi: 2}, 3)
	proxtest.Check(&r, foreign{prox.SquaredL2{Weight: 2}}, 3)
	require.Empty(t, r.reports)
}

// foreign has no length check of its own, and panics as gonum does.
type foreign struct{ prox.SquaredL2 }

func (foreign) Prox(dst, x []float64, gamma float64) {
	floats.ScaleTo(dst, 1/(1+gamma*2), x)
}

// TestCheckBites checks that Check finds faults. Each operator differs from a correct one in one
// way, and the report must name it.
func TestCheckBites(t *testing.T) {
	for name, c := range map[string]struct {
		op   prox.Operator
		want string
	}{
		"threshold halved":     {halved{prox.L1{Weight: 1}}, "has Φ ="},
		"step ignored":         {stepless{prox.L1{Weight: 1}}, "has Φ ="},
		"expansive":            {expansive{prox.L1{Weight: 0}}, "exceeds ⟨p−q,x−y⟩"},
		"not in place":         {reversed{prox.Box{Lo: -1, Hi: 1}}, "in place"},
		"writes x":             {writer{prox.Box{Lo: -1, Hi: 1}}, "changes x"},
		"leaves the box":       {loose{prox.Box{Lo: -1, Hi: 1}}, "want finite"},
		"set depends on γ":     {steppy{prox.Box{Lo: -1, Hi: 1}}, "depends on γ"},
		"radius too small":     {small{prox.Box{Lo: -1, Hi: 1}}, "above Radius"},
		"scaled indicator":     {scaled{prox.Box{Lo: -1, Hi: 1}}, "want 0 or +Inf"},
		"interior as boundary": {tolerant{prox.Box{Lo: -1, Hi: 1}}, "under-reports"},
		"boundary as interior": {strict{prox.Box{Lo: -1, Hi: 1}}, "(p−x)/γ) ="},
		"ignores kinks":        {doubled{prox.L1{Weight: 1}}, "over-reports"},
		"unaware of domain":    {everywhere{prox.Box{Lo: -1, Hi: 1}}, "but Dist ="},
		"large shift":          {shifted{prox.L2Ball{R: 1}}, "Shift("},
		"coefficients":         {coefficients{prox.L1{Weight: 1}}, "but Coordinate gives"},
		"allocates":            {allocating{prox.L1{Weight: 1}}, "allocations"},
		"no length check":      {lengths{prox.L1{Weight: 1}}, "does not panic"},
		"parameter":            {prox.L1{Weight: math.Inf(1)}, "want nil"},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			proxtest.Check(&r, c.op, 3)
			require.Contains(t, strings.Join(r.reports, "\n"), c.want)
		})
	}
}

type halved struct{ prox.L1 }

func (g halved) Prox(dst, x []float64, gamma float64) { g.L1.Prox(dst, x, gamma/2) }

type stepless struct{ prox.L1 }

func (g stepless) Prox(dst, x []float64, _ float64) { g.L1.Prox(dst, x, 1) }

type expansive struct{ prox.L1 }

func (g expansive) Prox(dst, x []float64, gamma float64) {
	for i, xi := range x {
		dst[i] = 1.5 * xi
	}
}

type reversed struct{ prox.Box }

func (g reversed) Prox(dst, x []float64, gamma float64) {
	copy(dst, x)
	for i := range x {
		g.Box.Prox(dst[i:i+1], x[len(x)-1-i:len(x)-i], gamma)
	}
	for i := range len(dst) / 2 {
		j := len(dst) - 1 - i
		dst[i], dst[j] = dst[j], dst[i]
	}
}

type writer struct{ prox.Box }

func (g writer) Prox(dst, x []float64, gamma float64) {
	g.Box.Prox(x, x, gamma)
	copy(dst, x)
}

type loose struct{ prox.Box }

func (g loose) Prox(dst, x []float64, gamma float64) { prox.Box{Lo: -1.1, Hi: 1.1}.Prox(dst, x, gamma) }

type steppy struct{ prox.Box }

func (g steppy) Prox(dst, x []float64, gamma float64) {
	g.Box.Prox(dst, x, gamma)
	dst[0] *= math.Exp(-gamma)
}

type small struct{ prox.Box }

func (small) Radius(int) float64 { return 1 }

type scaled struct{ prox.Box }

func (g scaled) Func(x []float64) float64 { return 1 + g.Box.Func(x) }

type tolerant struct{ prox.Box }

func (g tolerant) Dist(x, v []float64) float64 {
	y := make([]float64, len(x))
	for i, xi := range x {
		if y[i] = xi; math.Abs(xi) > 0.5 && math.Abs(xi) < 1 {
			y[i] = math.Copysign(1, xi)
		}
	}
	return g.Box.Dist(y, v)
}

type strict struct{ prox.Box }

func (g strict) Dist(x, v []float64) float64 {
	return g.Func(x) + prox.L1{}.Dist(x, v)
}

type doubled struct{ prox.L1 }

func (g doubled) Dist(x, v []float64) float64 { return 2 * g.L1.Dist(x, v) }

type everywhere struct{ prox.Box }

func (g everywhere) Dist(x, v []float64) float64 {
	y := make([]float64, len(x))
	g.Prox(y, x, 1)
	return g.Box.Dist(y, v)
}

type shifted struct{ prox.L2Ball }

func (g shifted) Shift([]float64) float64 { return 1 }

type coefficients struct{ prox.L1 }

func (coefficients) Coordinate(int) (l1, l2, lo, hi float64) { return 2, 0, -1, 1 }

type allocating struct{ prox.L1 }

var sink []float64

func (g allocating) Prox(dst, x []float64, gamma float64) {
	sink = make([]float64, len(x))
	g.L1.Prox(dst, x, gamma)
}

type lengths struct{ prox.L1 }

func (g lengths) Prox(dst, x []float64, gamma float64) {
	n := min(len(dst), len(x))
	g.L1.Prox(dst[:n], x[:n], gamma)
}
