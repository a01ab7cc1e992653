// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/loss"
)

func TestBounds(t *testing.T) {
	require.NoError(t, loss.Bounds{Row: 1, Label: 2}.Check())
	nan, inf := math.NaN(), math.Inf(1)
	for _, b := range []loss.Bounds{{}, {0, 1}, {1, 0}, {-1, 1}, {1, -1}, {nan, 1}, {1, nan}, {inf, 1}, {1, inf}} {
		require.ErrorIs(t, b.Check(), loss.ErrBounds)
	}
}

func TestStructureString(t *testing.T) {
	for s, want := range map[loss.Structure]string{
		loss.LSQ: "LSQ", loss.GLM: "GLM", loss.FixedRange: "FixedRange", loss.General: "General",
		0: "invalid structure 0", 9: "invalid structure 9",
	} {
		require.Equal(t, want, s.String())
	}
}

// TestConstants checks that the constants are at least the values of their documented formulas, and
// at most 1e-6 larger.
func TestConstants(t *testing.T) {
	b := loss.Bounds{Row: 2, Label: 3}
	inf := math.Inf(1)
	for _, c := range []struct {
		l             loss.Loss
		radius        float64
		lipschitz, mu float64
		structure     loss.Structure
	}{
		{l: loss.Squared{}, radius: 5, lipschitz: 26, mu: 4, structure: loss.LSQ},
		{l: loss.Squared{}, radius: 0, lipschitz: 6, mu: 4, structure: loss.LSQ},
		{l: loss.Squared{}, radius: inf, lipschitz: inf, mu: 4, structure: loss.LSQ},
		{l: loss.Logistic{}, radius: inf, lipschitz: 2, mu: 1, structure: loss.GLM},
		{l: loss.Huber{Delta: 1.5}, radius: inf, lipschitz: 3, mu: 4, structure: loss.GLM},
		{l: loss.Huber{Delta: 100}, radius: 5, lipschitz: 26, mu: 4, structure: loss.GLM},
		{l: loss.SmoothedHinge{Gamma: 0.5}, radius: 1, lipschitz: 2, mu: 8, structure: loss.GLM},
		{l: loss.SmoothedHinge{Gamma: 10}, radius: 1, lipschitz: 0.6, mu: 0.4, structure: loss.GLM},
		{l: loss.Clipped{Loss: loss.Squared{}, Threshold: 7}, radius: inf, lipschitz: 7, mu: 4, structure: loss.GLM},
		{l: loss.Clipped{Loss: loss.Squared{}, Threshold: 70}, radius: 5, lipschitz: 26, mu: 4, structure: loss.GLM},
	} {
		got := c.l.Constants(b, c.radius)
		require.Equal(t, c.structure, got.Structure, "%T", c.l)
		require.Equal(t, 1, got.Rank)
		for _, p := range [][2]float64{{c.lipschitz, got.Lipschitz}, {c.mu, got.Smoothness}} {
			require.GreaterOrEqual(t, p[1], p[0], "%T", c.l)
			if !math.IsInf(p[0], 1) {
				require.LessOrEqual(t, p[1], p[0]*(1+1e-6))
			}
		}
	}
	require.Zero(t, loss.Huber{}.Constants(b, 1))
	require.Zero(t, loss.Clipped{}.Constants(b, 1))
	require.Zero(t, loss.Clipped{Loss: unknown{known: false}, Threshold: 1}.Constants(b, 1))
	c := loss.Clipped{Loss: unknown{known: true}, Threshold: 1}.Constants(b, 1)
	require.InEpsilon(t, 1, c.Lipschitz, 1e-6, "clipping makes an unknown L known")
}

// unknown is a loss that declares no constants (known is false), or all of them except its
// Lipschitz constant.
type unknown struct {
	loss.Squared
	known bool
}

func (u unknown) Constants(b loss.Bounds, radius float64) loss.Constants {
	if !u.known {
		return loss.Constants{}
	}
	c := u.Squared.Constants(b, radius)
	c.Lipschitz = 0
	return c
}

func TestCheckParameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 1}, loss.SmoothedHinge{Gamma: 1},
		unknown{}} {
		require.NoError(t, loss.Check(l))
	}
	require.NoError(t, loss.Check(bare{loss.Squared{}}), "a loss without Check has nothing to check")
	for _, l := range []loss.Loss{
		nil, loss.Huber{}, loss.Huber{Delta: -1}, loss.Huber{Delta: nan}, loss.Huber{Delta: inf},
		loss.SmoothedHinge{}, loss.SmoothedHinge{Gamma: nan},
		loss.Clipped{}, loss.Clipped{Loss: loss.Squared{}}, loss.Clipped{Loss: loss.Squared{}, Threshold: inf},
		loss.Clipped{Loss: loss.Huber{}, Threshold: 1},
	} {
		require.ErrorIs(t, loss.Check(l), loss.ErrParameter)
	}
	_, err := loss.NewClipped(nil, 1)
	require.ErrorIs(t, err, loss.ErrParameter)
	_, err = loss.NewClipped(bare{loss.Squared{}}, 1)
	require.ErrorContains(t, err, "bare", "only losses of ⟨a,θ⟩ can be clipped")
	_, err = loss.NewClipped(loss.Squared{}, 0)
	require.ErrorContains(t, err, "Threshold = 0")
}

// TestCheckData checks that bounds and dimensions that make no sense for a loss are refused, such
// as labels other than ±1 for classification.
func TestCheckData(t *testing.T) {
	class := []loss.Loss{
		loss.Logistic{}, loss.Hinge{}, loss.SmoothedHinge{Gamma: 1},
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 1}, loss.Moreau{Loss: loss.Hinge{}, Beta: 1},
	}
	for _, l := range class {
		require.NoError(t, loss.CheckData(l, 3, loss.Bounds{Row: 2, Label: 1}), "%T", l)
		for _, label := range []float64{2, 0.5, 10} {
			err := loss.CheckData(l, 3, loss.Bounds{Row: 2, Label: label})
			require.ErrorIs(t, err, loss.ErrParameter, "%T", l)
			require.ErrorContains(t, err, "Label: 1", "%T", l)
		}
	}
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 1}, loss.Clipped{Loss: loss.Squared{}, Threshold: 1},
		bare{loss.Logistic{}}} {
		require.NoError(t, loss.CheckData(l, 3, loss.Bounds{Row: 2, Label: 7}), "%T", l)
	}
	l := loss.Multinomial{Classes: 4}
	require.NoError(t, loss.CheckData(l, 12, loss.Bounds{Row: 1, Label: 3}))
	require.ErrorContains(t, loss.CheckData(l, 10, loss.Bounds{Row: 1, Label: 3}), "10 features")
	require.ErrorContains(t, loss.CheckData(l, 12, loss.Bounds{Row: 1, Label: 2}), "want at least 3")
	require.ErrorIs(t, loss.CheckData(l, 10, loss.Bounds{Row: 1, Label: 3}), loss.ErrParameter)
}

// bare hides every method of a loss except those of loss.Loss.
type bare struct{ loss.Loss }

func TestMonotone(t *testing.T) {
	for l, want := range map[loss.Loss]bool{
		loss.Logistic{}: true, loss.SmoothedHinge{Gamma: 1}: true, loss.RootHinge{Width: 1}: true, loss.Hinge{}: true,
		loss.Squared{}: false, loss.Pinball{Tau: 0.5}: false, loss.Multinomial{Classes: 2}: false,
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 1}: true,
		loss.Clipped{Loss: loss.Squared{}, Threshold: 1}:  false,
		loss.Moreau{Loss: loss.Hinge{}, Beta: 1}:          true,
		loss.Moreau{Loss: loss.Absolute{}, Beta: 1}:       false,
	} {
		require.Equal(t, want, l.Constants(loss.Bounds{Row: 1, Label: 1}, 1).Monotone, "%T", l)
	}
}

func TestInterpolate(t *testing.T) {
	hinge := loss.SmoothedHinge{Gamma: 1}
	for _, c := range []struct {
		l           loss.Interpolator
		u, b, label float64
		ok          bool
	}{
		{loss.Squared{}, 2, 1, 2, true},
		{loss.Huber{Delta: 1}, -2, 1, -2, true},
		{loss.Squared{}, math.Inf(1), 1, math.Inf(1), false},
		{hinge, 2, 0.3, 0.3, true},
		{hinge, -2, 0.3, -0.3, true},
		{hinge, 2, -0.3, 0.3, true},
		{hinge, 0.9, 0.3, 0.3, false},
		{hinge, -1, 0, 0, true},
		{hinge, 1, 0, math.SmallestNonzeroFloat64, true},
		{loss.Clipped{Loss: hinge, Threshold: 1}, -2, 0.3, -0.3, true},
		{loss.Clipped{Loss: loss.Logistic{}, Threshold: 1}, -2, 0.3, 0.3, false},
	} {
		label, ok := c.l.Interpolate(c.u, c.b)
		require.Equal(t, c.ok, ok, "%T at %v", c.l, c.u)
		require.Equal(t, c.label, label)
		if ok {
			_, dphi, _ := c.l.(loss.Linear).Scalar(c.u, label, 1)
			require.Zero(t, dphi)
		}
	}
	_, ok := loss.Huber{Delta: 1}.Interpolate(math.NaN(), 1)
	require.False(t, ok)
}

// TestLogisticTails compares the logistic loss with identities, at predictions where exp overflows.
func TestLogisticTails(t *testing.T) {
	for _, u := range []float64{800, 1e5, 1e300} {
		phi, dphi, d2phi := loss.Logistic{}.Scalar(-u, 1, 1)
		require.Equal(t, [3]float64{u, -1, 0}, [3]float64{phi, dphi, d2phi}) // log(1+eᵘ) = u + 0
		phi, dphi, d2phi = loss.Logistic{}.Scalar(u, 1, 1)
		require.Equal(t, [3]float64{0, 0, 0}, [3]float64{phi, math.Abs(dphi), d2phi})
	}
	phi, dphi, d2phi := loss.Logistic{}.Scalar(0, -1, 1)
	require.Equal(t, [3]float64{math.Ln2, 0.5, 0.25}, [3]float64{phi, dphi, d2phi})
	phi, _, _ = loss.Logistic{}.Scalar(700, 1, 1) // e⁻⁷⁰⁰ must not be rounded to 0
	require.InEpsilon(t, math.Exp(-700), phi, 1e-15)
	_, a, _ := loss.Logistic{}.Scalar(1, 0, 1)
	_, b, _ := loss.Logistic{}.Scalar(1, -1, 1)
	require.Equal(t, b, a, "labels 0, 1 must mean the same as −1, 1")
}

// Clipped squared loss is the Huber loss of threshold k = Threshold/‖a‖.
func TestClippedIsHuber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-100, 100)
		a := rapid.SliceOfN(number, 3, 3).Draw(t, "a")
		theta := rapid.SliceOfN(number, 3, 3).Draw(t, "theta")
		b, threshold := number.Draw(t, "b"), rapid.Float64Range(1e-3, 1e3).Draw(t, "threshold")
		clipped := loss.Clipped{Loss: loss.Squared{}, Threshold: threshold}
		got, want := make([]float64, 3), make([]float64, 3)
		clipped.Grad(got, theta, a, b)
		norm := floats.Norm(a, 2)
		if norm == 0 {
			loss.Squared{}.Grad(want, theta, a, b)
		} else {
			h := loss.Huber{Delta: threshold / norm}
			h.Grad(want, theta, a, b)
			// Both computations add terms of at most Δ(|u|+|b|+Δ).
			size := norm*floats.Norm(theta, 2) + math.Abs(b) + h.Delta
			require.InDelta(t, h.Func(theta, a, b), clipped.Func(theta, a, b), 1e-15*size*(1+h.Delta))
		}
		require.Equal(t, want, got)
		require.LessOrEqual(t, floats.Norm(got, 2), threshold*(1+1e-12))
	})
}

// TestClippedEdges checks Clipped where the derivative exceeds the threshold everywhere, so that
// only a line through φ(0) is left, and where a clip point is so far away that the search must
// still end.
func TestClippedEdges(t *testing.T) {
	steep := linear{slope: 3}
	phi, dphi, d2phi := loss.Clipped{Loss: steep, Threshold: 1}.Scalar(5, 0, 2)
	require.Equal(t, [3]float64{2.5, 0.5, 0}, [3]float64{phi, dphi, d2phi})
	phi, dphi, _ = loss.Clipped{Loss: linear{slope: -3}, Threshold: 1}.Scalar(5, 0, 2)
	require.Equal(t, [2]float64{-2.5, -0.5}, [2]float64{phi, dphi})

	phi, dphi, d2phi = loss.Clipped{Loss: opaque{loss.Squared{}}, Threshold: 1}.Scalar(1e200, 0, 1)
	require.InEpsilon(t, 1e200, phi, 1e-15)
	require.Equal(t, [2]float64{1, 0}, [2]float64{dphi, d2phi})

	for _, threshold := range []float64{math.SmallestNonzeroFloat64, math.MaxFloat64} {
		for _, norm := range []float64{math.SmallestNonzeroFloat64, 1, math.MaxFloat64} {
			phi, dphi, d2phi := loss.Clipped{Loss: loss.Logistic{}, Threshold: threshold}.Scalar(0.3, -1, norm)
			require.False(t, math.IsNaN(phi+dphi+d2phi))
		}
	}
	require.PanicsWithValue(t, "loss: Clipped without a loss", func() { loss.Clipped{Threshold: 1}.Scalar(1, 1, 1) })
}

// linear is φ(u) = slope·u.
type linear struct {
	loss.Squared
	slope float64
}

func (l linear) Scalar(u, _, _ float64) (phi, dphi, d2phi float64) { return l.slope * u, l.slope, 0 }
func (l linear) ClipPoints(_, k float64) (lo, hi float64) {
	if l.slope > 0 {
		return math.Inf(-1), math.Inf(-1) // φ′ exceeds the threshold everywhere
	}
	return math.Inf(1), math.Inf(1)
}

// TestSlopes checks that Slopes returns the same bits as Scalar.
func TestSlopes(t *testing.T) {
	var l loss.Batch = loss.Logistic{}
	u := []float64{0, math.Copysign(0, -1), 1e-300, 0.3, -0.7, 40, -40, 800, -800, 1e300, math.Inf(1), math.Inf(-1),
		math.NaN()}
	for _, b := range []float64{-1, 0, 1} {
		labels, got, curve := make([]float64, len(u)), append([]float64(nil), u...), make([]float64, len(u))
		for i := range labels {
			labels[i] = b
		}
		l.Slopes(got, labels, curve)
		again := append([]float64(nil), u...)
		l.Slopes(again, labels, nil)
		for i, v := range u {
			_, dphi, d2phi := l.Scalar(v, b, 1)
			for _, pair := range [][2]float64{{dphi, got[i]}, {dphi, again[i]}, {d2phi, curve[i]}} {
				require.Equal(t, math.Float64bits(pair[0]), math.Float64bits(pair[1]), "u = %v, b = %v", v, b)
			}
		}
	}
}

// The optional abilities of the losses.
var (
	_ = []loss.Interpolator{loss.Squared{}, loss.Huber{}, loss.PseudoHuber{}, loss.LogCosh{}, loss.SmoothedHinge{},
		loss.Clipped{}, loss.SoftClipped{}}
	_ = []loss.Clippable{loss.Squared{}, loss.Huber{}, loss.PseudoHuber{}, loss.LogCosh{}, loss.Logistic{},
		loss.SmoothedHinge{}, loss.RootHinge{}}
	_ = []loss.Envelope{loss.PseudoHuber{}, loss.LogCosh{}, loss.Logistic{}, loss.RootHinge{}, loss.Clipped{},
		loss.SoftClipped{}, loss.Moreau{}}
	_ = []loss.Proximable{loss.Hinge{}, loss.Absolute{}, loss.Pinball{}, loss.EpsilonInsensitive{}}
	_ = []loss.Batch{loss.Logistic{}}
)
