// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// curveOnly is A3 on the line, or A2: records of the largest and of no curvature that interpolate
// at the anchor.
func curveOnly(rel dp.Relation, n int) [2][]record {
	return ended(rel, slices.Repeat([]record{{[]float64{0.3}, 0.12}}, n), axis(1, 1, 0.4), axis(1, 0, 0))
}

// anchored returns a setting of a mechanism with the anchor center, which relabels by default.
func anchored(m qop.Mechanism, center []float64, l loss.Loss, k kinks, data [2][]record) *quadratic {
	if m.Interpolation == nil {
		m.Interpolation = qop.Relabel{}
	}
	m.Center, m.Cover = center, cover
	bounds := loss.Bounds{Row: 1, Label: 10}
	return &quadratic{mech: m, convex: convex{loss: l, bounds: bounds, budget: usual, kinks: k, data: data}}
}

// pull is an ℓ1 norm and no set.
func pull(weight float64) kinks { return kinks{weight, math.Inf(-1), math.Inf(1)} }

// squares is the base of most settings: least squares around the anchor 0.4, and an ℓ1 norm.
func squares(m qop.Mechanism) *quadratic {
	if m.Degrees == 0 {
		m.Degrees = 8
	}
	return anchored(m, []float64{0.4}, loss.Squared{}, pull(0.3), curveOnly(m.Relation, 2))
}

// bent is squares with Huber's loss.
func bent(m qop.Mechanism) *quadratic {
	c := squares(m)
	c.loss = loss.Huber{Delta: 0.05}
	return c
}

// hinged is squares with a smoothed hinge. One record has margin 1 at the anchor; the other has a
// smaller one and becomes the zero record.
func hinged(m qop.Mechanism) *quadratic {
	c := squares(m)
	c.loss, c.bounds = loss.SmoothedHinge{Gamma: 0.5}, unit
	c.mech.Center = []float64{1}
	c.data = [2][]record{{axis(1, 1, 1), axis(1, 0.9, 1)}, {axis(1, 0, 1), axis(1, 0.9, 1)}}
	return c
}

// many is a setting in five dimensions. In a box, one coordinate of the anchor is near the kink at
// 0 and one is beyond a face.
func many(l loss.Loss, m qop.Mechanism, k kinks) *quadratic {
	const d = 5
	m.Degrees = 40
	center := []float64{1, 1.1, -0.9, 1.2, -1}
	if !math.IsInf(k.hi, 1) {
		center = []float64{1, 1.1, -0.9, 0.02, 2.02}
	}
	return anchored(m, center, l, k, ended(m.Relation, sample(6, d, "many"), axis(d, 1, 1), axis(d, 0, 0)))
}

// flat is a setting in the plane, with a last record along the first axis or another one.
func flat(m qop.Mechanism, l loss.Loss, other record) *quadratic {
	m.Degrees = 10
	list := []record{{[]float64{0.3, 0.1}, 1.2}, {[]float64{0, 0.2}, 0.6}}
	return anchored(m, corner, l, pull(0.02), [2][]record{with(list, axis(2, 1, 3)), with(list, other)})
}

// corner is the anchor in the plane.
var corner = []float64{3, 3}

// variant is the mechanism for a relation, a calibration and a structure.
func variant(rel dp.Relation, cal qop.Calibration, s loss.Structure) qop.Mechanism {
	return qop.Mechanism{Relation: rel, Calibration: cal, Structure: s}
}

// off is squares with an anchor at distance η from the interpolating point.
func off(m qop.Mechanism) *quadratic {
	m.Interpolation, m.Eta = qop.Trust{}, 0.03
	m.Share = 0.3
	c := squares(m)
	c.mech.Center[0] += c.mech.Eta
	return c
}

// tilted is squares around an anchor that fits no record. On one side the last record has the
// largest curvature and slope, on the other, if there is one, the opposite slope and nearly no
// curvature.
func tilted(rel dp.Relation, l loss.Loss, clip float64) *quadratic {
	c := squares(qop.Mechanism{Relation: rel, Interpolation: qop.Tilt{Clip: clip}})
	c.loss, c.data = l, ended(rel, []record{{[]float64{0.3}, 2}, {[]float64{-0.5}, 1}}, axis(1, 1, -8), axis(1, 0.1, 9))
	if _, ok := l.(loss.Logistic); ok {
		c.bounds, c.data = unit, ended(rel, []record{{[]float64{0.3}, 1}}, axis(1, 1, -1), axis(1, 1, 1))
	}
	return c
}

// squaresFor and huberFor are settings of many.
func squaresFor(k kinks) *quadratic { return many(loss.Squared{}, variant(dp.AddRemove, 0, 0), k) }
func huberFor(k kinks) *quadratic   { return many(loss.Huber{Delta: 0.05}, qop.Mechanism{}, k) }

var quadraticKinds = map[string]kind[*quadratic]{
	"white":    {"", WhiteBox, (*quadratic).white},
	"exactly":  {" exactly", Exact, (*quadratic).exact},
	"searched": {" searched", Exact, searched[quadratic]},
	"outside":  {" from outside", BlackBox, (*quadratic).outside},
	"output":   {" output noise", WhiteBox, (*quadratic).output},
	"cover":    {" cover", WhiteBox, (*quadratic).covered},
}

func quadraticMechanisms() []mechanism {
	relabelled := squares(qop.Mechanism{})
	relabelled.data = [2][]record{with(relabelled.data[0], axis(1, 1, 0.4)), with(relabelled.data[0], axis(1, 1, -9))}
	dropped := squares(qop.Mechanism{Interpolation: qop.Drop{Tolerance: 0.5}})
	dropped.data = [2][]record{with(dropped.data[0], axis(1, 1, 0.8)), with(dropped.data[0], axis(1, 1, -9))}
	boxed := squares(qop.Mechanism{})
	boxed.kinks = kinks{2, -1, 1}
	extremes := squares(qop.Mechanism{})
	extremes.data = [2][]record{with(nil, record{[]float64{1e150}, 1e300}, record{[]float64{1e-150}, 5}),
		with(nil, record{[]float64{-1e-150}, 0}, record{[]float64{1e-150}, 5})}
	fewest := squares(qop.Mechanism{Degrees: 6})
	fewest.budget, fewest.kinks.weight = dp.Budget{Epsilon: 4, Delta: 0.1}, 0.3
	fewest.mech.Cover = 10 * cover
	fewest.data = [2][]record{{{[]float64{1}, 0.4}}, {{[]float64{0}, 0}}}
	repeated := squares(qop.Mechanism{})
	repeated.data = curveOnly(dp.Replace, 29)
	large := many(loss.Squared{}, variant(dp.AddRemove, 0, 0), pull(0.3))
	large.mech.Degrees = 400
	rank2 := flat(qop.Mechanism{Interpolation: qop.Trust{}}, round{corner}, axis(2, 0, 0))
	rank1 := flat(variant(0, 0, loss.General), loss.Huber{Delta: 0.1}, axis(2, 0, 0))
	return []mechanism{{"qop", cases(quadraticKinds, []setting[quadratic]{
		{"least squares", "A3", "white exactly outside output cover searched*", squares(qop.Mechanism{})},
		{"least squares", "A2", "white exactly searched*", squares(variant(dp.AddRemove, 0, 0))},
		{"half for the output", "A3", "white* exactly", squares(qop.Mechanism{Share: 0.5})},
		{"least squares as glm", "A3", "white exactly", squares(variant(0, 0, loss.GLM))},
		{"huber", "A3", "white exactly outside* searched*", bent(qop.Mechanism{})},
		{"huber", "A2", "white exactly searched*", bent(variant(dp.AddRemove, 0, 0))},
		{"fixed range", "A3", "white exactly", flat(variant(0, 0, loss.FixedRange), loss.Huber{Delta: 0.1}, axis(2, 0, 0))},
		{"paper", "A3", "white exactly", bent(variant(0, qop.Paper, 0))},
		{"smoothed hinge", "A3", "white outside*", hinged(qop.Mechanism{})},
		{"relabelled", "A5", "white outside cover", relabelled},
		{"dropped", "A5", "white outside cover", dropped},
		{"trusted", "A5", "white", squares(qop.Mechanism{Interpolation: qop.Trust{}})},
		{"ℓ1 in a box", "A7", "white exactly outside cover searched*", boxed},
		{"rows of 1e±150", "A9", "white cover", extremes},
		{"ε = 4, δ = 0.1, m = 6", "A4", "white exactly", fewest},
		{"equal records", "A8", "white cover", repeated},
		{"least squares, d = 5", "A2", "white output cover", squaresFor(pull(0.3))},
		{"least squares, d = 5, m = 400", "A2", "white", large},
		{"huber, d = 5", "A3", "white outside* cover", huberFor(pull(0.3))},
		{"ℓ1 in a box, d = 5", "A7", "white cover", squaresFor(kinks{0.3, -2, 2})},
		{"huber, ℓ1 in a box, d = 5", "A7", "white* cover", huberFor(kinks{0.3, -2, 2})},
		{"least squares, d = 2", "A3", "exactly", flat(qop.Mechanism{}, loss.Squared{}, axis(2, 0, 0))},
		{"least squares across, d = 2", "A3", "exactly", flat(qop.Mechanism{}, loss.Squared{}, record{[]float64{0, 1}, 3})},
		{"huber, d = 2", "A3", "exactly", flat(qop.Mechanism{}, loss.Huber{Delta: 0.1}, axis(2, 0, 0))},
		{"rank 2 as general", "A6", "white exactly", rank2},
		{"rank 1 as general", "A6", "white* exactly*", rank1},
		{"inexact anchor", "A5", "white exactly* output cover", off(qop.Mechanism{})},
		{"inexact anchor", "A2", "white* exactly* output*", off(variant(dp.AddRemove, 0, 0))},
		{"tilted", "A1", "white exactly", tilted(dp.Replace, loss.Squared{}, 0.5)},
		{"tilted", "A2", "white exactly", tilted(dp.AddRemove, loss.Squared{}, 0.5)},
		{"tilted logistic", "A1", "white exactly*", tilted(dp.Replace, loss.Logistic{}, 1)},
		{"tilted logistic", "A2", "white exactly*", tilted(dp.AddRemove, loss.Logistic{}, 0.2)},
	}), quadraticControls()}}
}

// quadraticParams are the parameters by which a fit draws.
var quadraticParams = fault.NewStep[qop.Params](fault.QuadraticParams)

// drawnBy edits the numbers of the plan of a fit.
func drawnBy(change func(p *qop.Params)) sabotage { return edit(quadraticParams, change) }

// flatter multiplies σ².
func flatter(c float64) sabotage { return drawnBy(func(p *qop.Params) { p.Sigma2 *= c }) }

// fewer takes one degree of freedom.
var fewer = drawnBy(func(p *qop.Params) { p.Degrees-- })

// drawnFor draws by the numbers of another setting.
func drawnFor(other *quadratic) sabotage {
	return borrowed(quadraticParams, other, func(p *qop.Params, other *quadratic) {
		p.Sigma2, p.OutputSigma = other.Sigma2, other.OutputSigma
	})
}

// redrawnMatrix replaces the drawn matrix.
func redrawnMatrix(replace func(*mat.SymDense) *mat.SymDense) func(erm.Perturbation) erm.Perturbation {
	return func(q erm.Perturbation) erm.Perturbation {
		w := mat.NewSymDense(q.Quad.SymmetricDim(), nil)
		w.CopySym(q.Quad)
		q.Quad = replace(w)
		return q
	}
}

// quadraticControls are the sabotages of quadratic perturbation.
func quadraticControls() []Control {
	return []Control{
		{"degrees", "W with m−1 degrees of freedom", "qop/A3/least squares", 0, fewer},
		{"degrees-5", "W with m−1 degrees of freedom, in five dimensions", "qop/A2/least squares, d = 5", 8000, fewer},
		{"no-sigma2", "W not multiplied by σ²", "qop/A3/huber, d = 5", 0, drawnBy(func(p *qop.Params) { p.Sigma2 = 1 })},
		{"curvature-0.9", "curvature of 0.9 times its scale", "qop/A3/least squares", 0, flatter(0.9)},
		{"curvature-0.125", "curvature of an eighth of its scale, seen from outside", "qop/A3/least squares from outside", 0,
			flatter(0.125)},
		{"curvature-half-exactly", "half the curvature, seen by the density", "qop/A3/least squares exactly", 0,
			flatter(0.5)},
		{"triangle", "the upper triangle of W counted twice", "qop/A2/least squares, d = 5, m = 400", 0,
			one(release.Drawn, redrawnMatrix(twiceUpper))},
		{"cached-w", "W drawn once and used again", "qop/A3/least squares", 0,
			cached(release.Drawn, redrawnMatrix(func(w *mat.SymDense) *mat.SymDense { return w }))},
		{"data-max-qop", "curvature scaled by the largest one of the records, not by the bound",
			"qop/A9/rows of 1e±150", 3000,
			flatter(0.25)},
		{"relation-qop", "the constants of add/remove used for replace", "qop/A3/huber", 3000,
			drawnFor(bent(variant(dp.AddRemove, 0, 0)))},
		{"output-split-qop", "the whole budget spent again on the output noise", "qop/A3/half for the output", 3000,
			drawnFor(squares(qop.Mechanism{}))},
		{"no-interpolation", "records that do not interpolate used as they are", "qop/A5/relabelled", 0,
			one(release.Data, func(p *erm.Problem) *erm.Problem {
				c := squares(qop.Mechanism{})
				raw, err := problem(with(c.data[0], axis(1, 1, -9)), c.bounds, c.loss, c.kinks)
				if err != nil {
					panic(err)
				}
				q := *p
				q.Data = raw.Data
				return &q
			})},
		{"curvature-0.9-general", "curvature of 0.9 times its scale, for Hessians of any rank", "qop/A6/rank 2 as general", 0,
			flatter(0.9)},
		{"curvature-0.9-inexact", "curvature of 0.9 times its scale around an anchor with an error",
			"qop/A5/inexact anchor", 0,
			flatter(0.9)},
		{"anchor-half", "half the error of the anchor hidden", "qop/A5/inexact anchor output noise", 1000,
			drawnBy(func(p *qop.Params) { p.OutputSigma /= 2 })},
		{"three-steps-qop", "the solver stopped after 3 steps and its certificate ignored", "qop/A3/huber, d = 5 cover", 0,
			threeSteps},
		{"tilt-undoubled", "the clip not doubled for a replaced record", "qop/A1/tilted exactly", 0,
			drawnBy(func(p *qop.Params) { p.SlopeSigma /= 2 })},
		{"tilt-budget", "the budget of the sum of slopes spent on the curvature again", "qop/A2/tilted exactly", 0,
			flatter(0.7)},
		{"tilt-noise", "noise of 0.9 times its scale in the sum of slopes", "qop/A2/tilted", 0,
			drawnBy(func(p *qop.Params) { p.SlopeSigma *= 0.9 })},
		{"tilt-cached", "noise of the sum of slopes drawn once", "qop/A1/tilted", 0,
			cached(fault.NewStep[[]int64](fault.TiltNoise), slices.Clone[[]int64])},
		{"tilt-clip-sum", "the sum of slopes clipped, not each of them", "qop/A1/tilted", 0,
			one(fault.NewStep[[]int64](fault.TiltSlopes), func(v []int64) []int64 { return scaled(v, 10) })},
		{"tilt-clipped", "clipped slopes taken from the risk", "qop/A1/tilted", 0, tiltTaken(0.5)},
		{"tilt-anchor", "the slopes at another anchor taken from the risk", "qop/A1/tilted", 0, tiltTaken(1.2)},
		{"no-output-qop", "output noise left out", "qop/A3/least squares output noise", 0, noOutput},
	}
}

// tiltTaken multiplies the sum of slopes that is taken from the risk.
func tiltTaken(by float64) sabotage {
	return one(fault.NewStep[[]float64](fault.TiltTaken), func(v []float64) []float64 {
		return floats.ScaleTo(make([]float64, len(v)), by, v)
	})
}

// twiceUpper doubles the entries off the diagonal.
func twiceUpper(w *mat.SymDense) *mat.SymDense {
	d := w.SymmetricDim()
	for i := range d {
		for j := i + 1; j < d; j++ {
			w.SetSym(i, j, 2*w.At(i, j))
		}
	}
	return w
}
