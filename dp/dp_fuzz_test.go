// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// hostile are the numbers that break naive code; every fuzz target of this
// package starts from them.
var hostile = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1e-6, 1e-320, 0x1p-51, 0x1p-50, 1e-300, 1e-9, 300, 1e5,
	1e6, 1e308,
	math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}

// FuzzGaussian: whatever the budget and sensitivity, GaussianSigma reports an
// error of a known kind or a positive finite σ that satisfies the budget.
func FuzzGaussian(f *testing.F) {
	for i, eps := range hostile {
		f.Add(eps, hostile[(i+5)%len(hostile)], hostile[(i+2)%len(hostile)])
		f.Add(1.0, 1e-6, eps)
		f.Add(eps, 1e-6, 1.0)
	}
	f.Fuzz(func(t *testing.T, eps, delta, sensitivity float64) {
		b := dp.Budget{Epsilon: eps, Delta: delta}
		_ = b.String()
		sigma, err := dp.GaussianSigma(b, sensitivity)
		if err != nil {
			require.Zero(t, sigma)
			if b.Check() != nil {
				require.ErrorIs(t, err, dp.ErrBudget)
			}
			return
		}
		require.True(t, sigma > 0 && !math.IsInf(sigma, 1), "%v", sigma)
		s := sensitivity / sigma
		if s > 0 { // not if the quotient is subnormal
			require.LessOrEqual(t, dp.GaussianDelta(eps, s), delta*(1+1e-9))
		}
	})
}

// FuzzProfile: profiles stay in [0, 1] at every ε and do not increase, and the
// least ε of a profile satisfies its δ.
func FuzzProfile(f *testing.F) {
	for i, eps := range hostile {
		f.Add(eps, hostile[(i+3)%len(hostile)], hostile[(i+7)%len(hostile)], 1e-6)
	}
	f.Add(1.0, 0.5, 2.0, 1e-6)
	f.Add(83.0, 0.5, math.MaxFloat64, 1e-6) // the error term of the RDP profile overflowed
	f.Add(83.0, 0.5, math.Inf(1), 1e-6)
	f.Fuzz(func(t *testing.T, eps, s, more, delta float64) {
		for name, p := range map[string]dp.Curve{
			"gaussian": dp.GaussianCurve(s),
			"pure":     dp.PureCurve(s),
			"budget":   dp.Budget{Epsilon: s, Delta: delta}.Profile().Delta,
			"rdp":      dp.GaussianRDP(s).Curve(),
		} {
			at := p(eps)
			require.True(t, at >= 0 && at <= 1, "%s: δ(%v) = %v", name, eps, at)
			if eps <= more {
				// The two sides of ε = 0 and of s = 1 are different formulas, each
				// within 1e-12 of the truth.
				require.GreaterOrEqual(t, at*(1+1e-11)+1e-300, p(more), "%s at %v and %v", name, eps, more)
			}
			least := p.Epsilon(delta)
			require.False(t, math.IsNaN(least) || least < 0, name)
			if !math.IsInf(least, 1) {
				require.LessOrEqual(t, p(least), delta, name)
			}
		}
	})
}

// FuzzRDP: Rényi curves are never NaN or negative, nor is the ε they imply, at
// any order and also for a list of orders.
func FuzzRDP(f *testing.F) {
	for i, v := range hostile {
		f.Add(v, hostile[(i+4)%len(hostile)], 2.0)
		f.Add(0.5, 1e-6, v)
	}
	f.Fuzz(func(t *testing.T, s, delta, alpha float64) {
		for _, r := range []dp.RDP{dp.GaussianRDP(s), dp.PureRDP(s), dp.GaussianRDP(0)} {
			require.False(t, math.IsNaN(r(alpha)) || r(alpha) < 0, "%v", r(alpha))
			eps, order := r.Epsilon(delta)
			require.False(t, math.IsNaN(eps) || eps < 0, "%v", eps)
			require.True(t, math.IsInf(eps, 1) || order > 1, "%v at order %v", eps, order)
			eps, _ = r.Epsilon(delta, alpha)
			require.False(t, math.IsNaN(eps) || eps < 0, "%v", eps)
			require.False(t, math.IsNaN(r.Curve(alpha, 2)(s)))
		}
	})
}

// FuzzCertificate: any certificate prints, and those that pass Check survive
// JSON and compose with themselves to twice the budget, or not at all.
func FuzzCertificate(f *testing.F) {
	for i, v := range hostile {
		f.Add(v, hostile[(i+5)%len(hostile)], i%4, "lop.curve/1", "nothing")
	}
	f.Fuzz(func(t *testing.T, eps, delta float64, relation int, theorem, assumption string) {
		c := dp.Certificate{Budget: dp.Budget{Epsilon: eps, Delta: delta}, Relation: dp.Relation(relation), Theorem: theorem,
			Assumptions: []dp.Assumption{dp.Assumption(assumption)}}
		require.NotEmpty(t, c.String())
		sum, err := dp.Basic(c, c)
		if c.Check() != nil {
			require.Error(t, err)
			return
		}
		text, err2 := json.Marshal(dp.Release{Theta: []float64{1}, Certificate: c})
		require.NoError(t, err2)
		var back dp.Release
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, c.Budget, back.Certificate.Budget)
		require.Equal(t, c.Relation, back.Certificate.Relation)
		if err == nil {
			require.GreaterOrEqual(t, sum.Epsilon, 2*eps)
			require.GreaterOrEqual(t, sum.Delta, 2*delta)
			require.Len(t, sum.Assumptions, 1)
		}
		obj, out := c.Split(0.01)
		require.LessOrEqual(t, obj.Epsilon+out.Epsilon, eps)
		require.LessOrEqual(t, obj.Delta+out.Delta, delta)
	})
}

// FuzzRelease: no text makes the decoder of a release panic, and what it
// accepts is a relation that Check accepts.
func FuzzRelease(f *testing.F) {
	for _, s := range []string{"", "{}", "null",
		`{"theta":[1],"certificate":{"epsilon":1,"delta":0,"relation":"replace","theorem":"x","assumptions":[]}}`,
		`{"certificate":{"relation":"add-remove"}}`, `{"certificate":{"relation":"neither"}}`,
		`{"certificate":{"relation":1}}`,
		`{"theta":[1e400]}`, `{"certificate":{"epsilon":"NaN"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r dp.Release
		if json.Unmarshal(text, &r) != nil {
			return
		}
		if r.Certificate.Relation != 0 {
			require.NoError(t, r.Certificate.Relation.Check())
		}
		_ = r.Certificate.String()
	})
}
