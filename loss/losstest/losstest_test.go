// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package losstest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

// recorder is a losstest.T that keeps the reports of Check.
type recorder struct{ reports []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

// TestCheckPasses checks that correct losses pass for the structures that no loss of package loss
// has.
func TestCheckPasses(t *testing.T) {
	losstest.Check(t, twoMargins{rank: 2, structure: loss.FixedRange})
	losstest.Check(t, twoMargins{rank: 2, structure: loss.General})
	losstest.Check(t, foreign{})
}

// TestCheckBites checks that Check finds faults. Each loss differs from a correct one in one way,
// and the report must name it.
func TestCheckBites(t *testing.T) {
	for name, c := range map[string]struct {
		l    loss.Loss
		want string
	}{
		"gradient doubled":      {doubled{}, "central difference"},
		"adds to dst":           {adds{}, "instead of overwriting"},
		"writes the row":        {writes{}, "changes its arguments"},
		"no length check":       {lengths{}, "does not panic"},
		"allocates":             {allocates{}, "allocations"},
		"concave":               {concave{}, "not convex"},
		"not monotone":          {concave{}, "not monotone"},
		"L without the label":   {noLabel{}, "beats L"},
		"L without the radius":  {noRadius{}, "beats L"},
		"β halved":              {halfBeta{}, "beats β"},
		"Range halved":          {narrow{}, "beats Range"},
		"bounds not checked":    {unchecked{}, "want zero"},
		"constants shrink":      {shrinking{}, "lower the constants"},
		"no structure":          {unstructured{}, "want a structure"},
		"LSQ claimed":           {claimed{}, "not affine"},
		"GLM claimed":           {twoMargins{rank: 1, structure: loss.GLM}, "is not along a"},
		"GLM of rank 2":         {twoMargins{rank: 2, structure: loss.GLM}, "want 1"},
		"FixedRange of 1":       {twoMargins{rank: 1, structure: loss.FixedRange}, "beats Rank"},
		"General of 1":          {twoMargins{rank: 1, structure: loss.General}, "beats Rank"},
		"scalar value":          {scalar{1, 0, 0}, "has φ ="},
		"scalar slope":          {scalar{0, 1, 0}, "has φ′ ="},
		"scalar curvature":      {scalar{0, 0, 1}, "has φ″ ="},
		"NaN for huge u":        {overflowing{}, "want no NaN"},
		"interpolates nowhere":  {anchorless{}, "Interpolate("},
		"relabels needlessly":   {restless{}, "at the label itself"},
		"monotone claimed":      {oneSided{}, "Monotone, but"},
		"clip points":           {clip{1}, "ClipPoints("},
		"infinite clip points":  {clip{math.Inf(1)}, "is infinite"},
		"parameter":             {loss.Huber{Delta: -1}, "want nil"},
		"NaN inside the bounds": {undefined{}, "NaN at"},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			losstest.Check(&r, c.l)
			require.Contains(t, strings.Join(r.reports, "\n"), c.want)
		})
	}
}

type doubled struct{ loss.Huber }

func (doubled) Grad(dst, theta, a []float64, b float64) {
	loss.Huber{Delta: 1}.Grad(dst, theta, a, b)
	floats.Scale(2, dst)
}
func (doubled) Func(theta, a []float64, b float64) float64 {
	return loss.Huber{Delta: 1}.Func(theta, a, b)
}

type adds struct{ loss.Squared }

func (l adds) Grad(dst, theta, a []float64, b float64) {
	floats.AddScaled(dst, floats.Dot(theta, a)-b, a)
}

type writes struct{ loss.Squared }

func (l writes) Grad(dst, theta, a []float64, b float64) {
	l.Squared.Grad(dst, theta, a, b)
	a[0]++
}

type lengths struct{ loss.Squared }

func (l lengths) Func(theta, a []float64, b float64) float64 {
	n := min(len(theta), len(a))
	return l.Squared.Func(theta[:n], a[:n], b)
}

// foreign computes as a loss outside of this module would, whose panics are those of gonum.
type foreign struct{ loss.Squared }

func (foreign) Func(theta, a []float64, b float64) float64 {
	u := floats.Dot(theta, a)
	return (u - b) * (u - b) / 2
}

func (foreign) Grad(dst, theta, a []float64, b float64) {
	floats.ScaleTo(dst, floats.Dot(theta, a)-b, a)
}

type allocates struct{ loss.Squared }

var sink []float64

func (l allocates) Func(theta, a []float64, b float64) float64 {
	sink = make([]float64, len(a))
	return l.Squared.Func(theta, a, b)
}

type concave struct{ loss.Squared }

func (l concave) Func(theta, a []float64, b float64) float64 { return -l.Squared.Func(theta, a, b) }
func (l concave) Grad(dst, theta, a []float64, b float64) {
	l.Squared.Grad(dst, theta, a, b)
	floats.Scale(-1, dst)
}

// alter returns the constants of l, changed by f if the bounds are valid.
func alter(l loss.Loss, b loss.Bounds, radius float64, f func(*loss.Constants)) loss.Constants {
	k := l.Constants(b, radius)
	if k.Structure != 0 {
		f(&k)
	}
	return k
}

type noLabel struct{ loss.Squared }

func (l noLabel) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Squared, b, radius, func(k *loss.Constants) { k.Lipschitz = b.Row * b.Row * radius })
}

type noRadius struct{ loss.Squared }

func (l noRadius) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Squared, b, radius, func(k *loss.Constants) { k.Lipschitz = b.Row * (b.Row + b.Label) })
}

type halfBeta struct{ loss.Logistic }

func (l halfBeta) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Logistic, b, radius, func(k *loss.Constants) { k.Smoothness /= 2 })
}

type unchecked struct{ loss.Logistic }

func (l unchecked) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Constants{Lipschitz: b.Row, Smoothness: b.Row * b.Row / 4, Rank: 1, Structure: loss.GLM}
}

type shrinking struct{ loss.Logistic }

func (l shrinking) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Logistic, b, radius, func(k *loss.Constants) { k.Lipschitz *= 1 + 1/(1+radius) })
}

type unstructured struct{ loss.Logistic }

func (l unstructured) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Logistic, b, radius, func(k *loss.Constants) { k.Structure = 0 })
}

type claimed struct{ loss.Logistic }

func (l claimed) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Logistic, b, radius, func(k *loss.Constants) { k.Structure = loss.LSQ })
}

// twoMargins is log(1+e^{−⟨a,θ⟩}) + log(1+e^{−⟨a′,θ⟩}), where a′ is a in reverse order.
type twoMargins struct {
	rank      int
	structure loss.Structure
}

func (twoMargins) Func(theta, a []float64, b float64) float64 {
	l := loss.Logistic{}
	first := l.Func(theta, a, 1) // panics if the lengths differ
	reversed := 0.0
	for i := range theta {
		reversed += theta[i] * a[len(a)-1-i]
	}
	phi, _, _ := l.Scalar(reversed, 1, 0)
	return first + phi
}

func (twoMargins) Grad(dst, theta, a []float64, b float64) {
	l := loss.Logistic{}
	reversed := 0.0
	l.Grad(dst, theta, a, 1)
	for i := range theta {
		reversed += theta[i] * a[len(a)-1-i]
	}
	_, dphi, _ := l.Scalar(reversed, 1, 0)
	for i := range dst {
		dst[i] += dphi * a[len(a)-1-i]
	}
}

func (l twoMargins) Constants(b loss.Bounds, radius float64) loss.Constants {
	k := loss.Logistic{}.Constants(b, radius)
	if k.Structure == 0 {
		return k
	}
	return loss.Constants{Lipschitz: 2 * k.Lipschitz, Smoothness: 2 * k.Smoothness, Rank: l.rank, Structure: l.structure}
}

type scalar [3]float64

func (scalar) Func(theta, a []float64, b float64) float64 { return loss.Squared{}.Func(theta, a, b) }
func (scalar) Grad(dst, theta, a []float64, b float64)    { loss.Squared{}.Grad(dst, theta, a, b) }
func (scalar) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Squared{}.Constants(b, radius)
}
func (s scalar) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	phi, dphi, d2phi = loss.Squared{}.Scalar(u, b, norm)
	return phi + s[0], dphi + s[1], d2phi + s[2]
}

type overflowing struct{ loss.Logistic }

func (overflowing) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	e := math.Exp(-u)
	if b < 0 {
		e = math.Exp(u)
	}
	return math.Log(1 + e), e / (1 + e), e / ((1 + e) * (1 + e))
}

type anchorless struct{ loss.Squared }

func (anchorless) Interpolate(u, b float64) (float64, bool) { return u + 1, true }

type restless struct{ loss.SmoothedHinge }

func (restless) Check() error { return nil }
func (restless) hinge() loss.SmoothedHinge {
	return loss.SmoothedHinge{Gamma: 1}
}
func (l restless) Func(theta, a []float64, b float64) float64 { return l.hinge().Func(theta, a, b) }
func (l restless) Grad(dst, theta, a []float64, b float64)    { l.hinge().Grad(dst, theta, a, b) }
func (l restless) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	return l.hinge().Scalar(u, b, norm)
}
func (restless) Interpolate(u, b float64) (float64, bool) { return math.Copysign(9, u), true }

type oneSided struct{ loss.Squared }

func (l oneSided) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Squared, b, radius, func(k *loss.Constants) { k.Monotone = true })
}

type narrow struct{ loss.Squared }

func (l narrow) Constants(b loss.Bounds, radius float64) loss.Constants {
	return alter(l.Squared, b, radius, func(k *loss.Constants) { k.Range /= 2 })
}

type clip struct{ k float64 }

func (clip) Func(theta, a []float64, b float64) float64 { return loss.Squared{}.Func(theta, a, b) }
func (clip) Grad(dst, theta, a []float64, b float64)    { loss.Squared{}.Grad(dst, theta, a, b) }
func (clip) Constants(b loss.Bounds, radius float64) loss.Constants {
	return loss.Squared{}.Constants(b, radius)
}
func (clip) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	return loss.Squared{}.Scalar(u, b, norm)
}
func (c clip) ClipPoints(b, k float64) (lo, hi float64) { return b - c.k, b + c.k }

type undefined struct{ loss.Squared }

func (undefined) Func(theta, a []float64, b float64) float64 {
	if len(theta) != len(a) {
		panic("loss: length mismatch")
	}
	return math.NaN()
}

// TestEnvelopeBites checks that Check finds wrong envelopes (bounds on the curvature as a function
// of the gradient norm). Each one is wrong in one way: too small everywhere, too small beside a
// kink, too small over an interval although right at its ends, too small for short rows only, or
// above β.
func TestEnvelopeBites(t *testing.T) {
	for name, c := range map[string]struct {
		l    loss.Loss
		want string
	}{
		"half":            {half{}, "beats Envelope"},
		"kink forgotten":  {kinkless{loss.Huber{Delta: 0.8}}, "beats Envelope"},
		"value at the lo": {lower{loss.RootHinge{Width: 1}}, "is below"},
		"short rows":      {short{}, "beats Envelope"},
		"above β":         {above{}, "is above β"},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			losstest.Check(&r, c.l)
			require.NotEmpty(t, r.reports)
			// Every report must be about the envelope, because nothing else is wrong.
			for _, text := range r.reports {
				require.True(t, strings.Contains(text, c.want) || strings.Contains(text, "Envelope("), text)
			}
			require.Contains(t, strings.Join(r.reports, "\n"), c.want)
		})
	}
}

type half struct{ loss.Logistic }

func (l half) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return l.Logistic.Envelope(b, lo, hi) * 0.999
}

// kinkless claims that the curvature falls to 0 as the gradient approaches the threshold of the
// Huber loss. It is constant up to the threshold.
type kinkless struct{ loss.Huber }

func (l kinkless) Envelope(b loss.Bounds, lo, hi float64) float64 {
	p := lo / (b.Row * l.Delta)
	return b.Row * b.Row * max(0, 1-p)
}

// lower returns the envelope at the lower end of an interval instead of its supremum.
type lower struct{ loss.RootHinge }

func (l lower) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return l.RootHinge.Envelope(b, lo, lo)
}

// short claims too little curvature where the gradient is small, as if every row had the full norm:
// a short row can have a small gradient and a large curvature.
type short struct{ loss.Logistic }

func (l short) Envelope(b loss.Bounds, lo, hi float64) float64 {
	if lo < b.Row/4 {
		return l.Logistic.Envelope(b, lo, hi) / 2
	}
	return l.Logistic.Envelope(b, lo, hi)
}

type above struct{ loss.Logistic }

func (l above) Envelope(b loss.Bounds, lo, hi float64) float64 {
	return max(l.Logistic.Envelope(b, lo, hi), math.Nextafter(l.Constants(b, 1).Smoothness, 9e9))
}
