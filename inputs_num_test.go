// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"math"
	"testing"

	"github.com/privopt/privopt/internal/num"
)

func TestEveryInputNum(t *testing.T) {
	table := map[string]row{
		"Bisect": call(func(lo, hi float64) (float64, float64) {
			return num.Bisect(func(x float64) bool { return x <= 1 }, lo, hi)
		}, 0., 2.).mayBeNaN(),
		"BisectTo": call(func(lo, hi, tol float64) (float64, float64) {
			return num.BisectTo(func(x float64) bool { return x <= 1 }, lo, hi, tol)
		}, 0., 2., 1e-9).mayBeNaN(),
		"GaussLegendre": call(num.GaussLegendre, 3),
		// of functions and widths that callers write: widths are positive
		"Panel": call(func(a, b float64) float64 {
			return num.Panel(a, b, func(float64) float64 { return 1 })
		}, 0., 1.).mayBeNaN(),
		"PanelsDown": call(func(top, mode float64) float64 {
			return num.PanelsDown(top, mode, func(s float64) float64 { return s / 2 }, func(s float64) float64 { return s })
		}, 1., 1.).mayBeNaN(),
		"PanelsUp": call(func(bottom, mode float64) float64 {
			one := func(float64) float64 { return 1 }
			return num.PanelsUp(max(bottom, -10), min(mode, 1), one, func(s float64) float64 { return math.Exp(-s) })
		}, 1., 1.).mayBeNaN(),
		// These are functions of real numbers: outside their domain they are NaN.
		"Log":       call(num.Log, 2.).mayBeNaN(),
		"LogSumExp": call(num.LogSumExp, 1., 2.).mayBeNaN(), "LogDiffExp": call(num.LogDiffExp, 2., 1.).mayBeNaN(),
		"Log1mExp":  call(num.Log1mExp, -1.).mayBeNaN(),
		"GammaLogP": call(num.GammaLogP, 2., 1.).mayBeNaN(), "GammaLogQ": call(num.GammaLogQ, 2., 1.).mayBeNaN(),
		"GammaInvLogP": call(num.GammaInvLogP, 2., -1.).mayBeNaN(), "GammaInvLogQ": call(num.GammaInvLogQ, 2.,
			-1.).mayBeNaN(),
		"Erfcx": call(num.Erfcx, 1.).mayBeNaN(), "Mills": call(num.Mills, 1.).mayBeNaN(),
		"MillsSlope": call(num.MillsSlope, 1.).mayBeNaN(),
		"NormalCDF":  call(num.NormalCDF, 1.).mayBeNaN(), "LogPhi": call(num.LogPhi, 1.).mayBeNaN(),
		"LogQ": call(num.LogQ, 1.).mayBeNaN(), "NormalQuantile": call(num.NormalQuantile, 0.5).mayBeNaN(),
		"Chi2LogPDF": call(num.Chi2LogPDF, 1., 2.).mayBeNaN(), "Chi2LogCDF": call(num.Chi2LogCDF, 1., 2.).mayBeNaN(),
		"Chi2LogSF": call(num.Chi2LogSF, 1., 2.).mayBeNaN(),
		"Chi2CDF":   call(num.Chi2CDF, 1., 2.).mayBeNaN(), "Chi2SF": call(num.Chi2SF, 1., 2.).mayBeNaN(),
		"Chi2Quantile": call(num.Chi2Quantile, -1., 2.).mayBeNaN(), "Chi2UpperQuantile": call(num.Chi2UpperQuantile, -1.,
			2.).mayBeNaN(),
	}
	table["LeastRoot"] = call(func(root, start, tol float64) float64 {
		return num.LeastRoot(func(x float64) float64 { return x - root }, start, tol)
	}, 2., 1., 1e-9).mayBeNaN()
	table["Largest"] = call(func(most, guess, tol float64) float64 {
		return num.Largest(func(x float64) float64 { return x }, most, guess, tol)
	}, 2., 1., 1e-9).mayBeNaN()
	table["LogGamma"] = call(num.LogGamma, 2.).mayBeNaN()
	table["GammaStep"] = call(num.GammaStep, 2., 1., -3.).mayBeNaN()
	table["MillsSlopes"] = call(func(x float64) float64 {
		slope := []float64{x}
		num.MillsSlopes(slope)
		return slope[0]
	}, 1.).mayBeNaN()
	piece := num.NewPiece(1, 1, -1, 1)
	table["NewPiece"] = call(func(l1, l2, lo, hi float64) float64 {
		p := num.NewPiece(l1, l2, lo, hi)
		return p.Prox(num.Pair{Hi: 0.5}, 1).Hi
	}, 1., 1., -1., 1.).mayBeNaN()
	table["Piece.Steepest"] = call(func(x, v float64) float64 {
		w, _ := piece.Steepest(num.Pair{Hi: x}, num.Pair{Hi: v})
		return w
	}, 0.5, 2.).mayBeNaN()
	table["Piece.Prox"] = call(func(x, gamma float64) float64 { return piece.Prox(num.Pair{Hi: x}, gamma).Hi }, 1.,
		1.).mayBeNaN()
	table["Pair.Compare"] = call(func(x, c float64) float64 { return num.Pair{Hi: x}.Compare(c) }, 1., 2.).mayBeNaN()
	table["Pair.Plus"] = call(func(x, y float64) float64 { return num.Pair{Hi: x}.Plus(num.Pair{Hi: y}).Hi }, 1.,
		2.).mayBeNaN()
	table["Pair.Times"] = call(func(x, c float64) float64 { return num.Pair{Hi: x}.Times(c).Hi }, 1., 2.).mayBeNaN()
	table["Secant"] = call(func(root, x, slope, tol float64) float64 {
		x, _, _ = num.Secant(func(x float64) float64 { return x - root }, x, slope, tol)
		return x
	}, 2., 1., 1., 1e-9).mayBeNaN()
	table["Narrow"] = call(func(root, lo, hi, tol float64) float64 {
		f := func(x float64) float64 { return x - root }
		return num.Narrow(f, lo, f(lo), hi, f(hi), tol)
	}, 2., 1., 3., 1e-9).mayBeNaN()
	table["Valley"] = call(func(lo, hi, tol float64) float64 {
		x, _ := num.Valley(func(x float64) float64 { return (x - 1) * (x - 1) }, lo, hi, 10, tol)
		return x
	}, 0., 3., 1e-9).mayBeNaN()
	table["Chebyshev"] = call(func(x float64) float64 { return num.Chebyshev([]float64{1, 0.5, 0.25}, x) }, 0.5).mayBeNaN()
	table["Minimize"] = call(func(lo, hi, tol float64) float64 {
		x, _ := num.Minimize(func(x float64) float64 { return (x - 1) * (x - 1) }, lo, hi, 10, tol)
		return x
	}, 0., 3., 1e-9).mayBeNaN()
	for name, f := range map[string]any{
		"TwoSum": num.TwoSum, "FastTwoSum": num.FastTwoSum, "TwoProd": num.TwoProd, "Sqrt2": num.Sqrt2,
	} {
		table[name] = call(f, 2., 1e-17).mayBeNaN()
	}
	for name, f := range map[string]any{"Add2": num.Add2, "Mul2": num.Mul2, "Div2": num.Div2} {
		table[name] = call(f, 2., 1e-17, 3., 1e-17).mayBeNaN()
	}
	for _, m := range []string{"Reset", "Len", "AddSlice", "Merge", "Pair", "AppendBinary", "UnmarshalBinary"} {
		table["ExactVector."+m] = call(exactSum, 1., 2.).mayBeNaN() // it calls all of them
	}
	everyInput(t, "internal/num", table)
}

// exactSum adds two numbers in two vectors, one of which travels as bytes.
func exactSum(x, y float64) (float64, error) {
	var v, w, merged num.ExactVector
	v.Reset(1)
	w.Reset(1)
	v.AddSlice(0, []float64{x})
	w.AddSlice(0, []float64{y})
	text, err := w.AppendBinary(nil)
	if err == nil {
		err = merged.UnmarshalBinary(text)
	}
	if err == nil {
		v.Merge(&merged)
	}
	hi, lo := v.Pair(v.Len() - 1)
	return hi + lo, err
}
