package audit

import (
	"context"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// curveOnly are A3 on the line: records of the largest curvature and of none,
// which interpolate at the anchor.
func curveOnly(n int) [2][]record {
	var list []record
	for range n {
		list = append(list, record{[]float64{0.3}, 0.12})
	}
	return [2][]record{with(list, record{[]float64{1}, 0.4}), with(list, record{[]float64{0}, 0})}
}

// squares is the setting that most others vary: least squares around the anchor
// 0.4, from which an ℓ1 norm pulls.
func squares(m qop.Mechanism, claim func(*quadratic, dp.Budget) float64) *quadratic {
	if m.Interpolation == nil {
		m.Interpolation = qop.Relabel{}
	}
	if m.M == 0 {
		m.M = 8
	}
	m.Center, m.Cover = []float64{0.4}, cover
	return &quadratic{
		mech: m, loss: loss.Squared{}, bounds: loss.Bounds{Row: 1, Label: 10}, budget: usual,
		kinks: kinks{0.3, math.Inf(-1), math.Inf(1)}, data: curveOnly(2), claim: claim,
	}
}

// bent is the setting with Huber's loss, a generalized linear one whose
// curvature ends.
func bent(m qop.Mechanism, claim func(*quadratic, dp.Budget) float64) *quadratic {
	c := squares(m, claim)
	c.loss = loss.Huber{Delta: 0.05}
	return c
}

// hinged is the setting with a smoothed hinge and an anchor at which one
// record has margin 1 and the other, with less, becomes the zero record.
func hinged(m qop.Mechanism, claim func(*quadratic, dp.Budget) float64) *quadratic {
	c := squares(m, claim)
	c.loss, c.bounds, c.mech.Center = loss.SmoothedHinge{Gamma: 0.5}, unit, []float64{1}
	c.data = [2][]record{{axis(1, 1, 1), axis(1, 0.9, 1)}, {axis(1, 0, 1), axis(1, 0.9, 1)}}
	return c
}

// many is a setting in d dimensions: the anchor keeps three coordinates far from
// kinks and faces, one near the kink at 0 and, in a box, one beyond the face.
func many(l loss.Loss, m qop.Mechanism, claim func(*quadratic, dp.Budget) float64, k kinks) *quadratic {
	const d = 5
	m.Interpolation, m.M, m.Cover = qop.Relabel{}, 40, cover
	m.Center = []float64{1, 1.1, -0.9, 1.2, -1}
	list := sample(6, d, "many")
	c := &quadratic{
		mech: m, loss: l, bounds: loss.Bounds{Row: 1, Label: 10}, budget: usual, kinks: k,
		data: [2][]record{with(list, axis(d, 1, 1)), with(list, axis(d, 0, 0))}, claim: claim,
	}
	if m.Relation == dp.AddRemove {
		c.data[1] = list
	}
	if !math.IsInf(k.hi, 1) {
		c.mech.Center = []float64{1, 1.1, -0.9, 0.02, 2.02}
	}
	return c
}

// flat is a setting in the plane.
func flat(m qop.Mechanism, l func(center []float64) loss.Loss, last [2][]record) *quadratic {
	m.Center, m.M, m.Cover = []float64{3, 3}, 10, cover
	if m.Interpolation == nil {
		m.Interpolation = qop.Relabel{}
	}
	list := []record{{[]float64{0.3, 0.1}, 1.2}, {[]float64{0, 0.2}, 0.6}}
	return &quadratic{
		mech: m, loss: l(m.Center), bounds: loss.Bounds{Row: 1, Label: 10}, budget: usual,
		kinks: kinks{0.02, math.Inf(-1), math.Inf(1)},
		data:  [2][]record{with(list, last[0]...), with(list, last[1]...)},
	}
}

// variant is the mechanism for a relation, a calibration and a structure.
func variant(rel dp.Relation, cal qop.Calibration, s loss.Structure) qop.Mechanism {
	return qop.Mechanism{Relation: rel, Calibration: cal, Structure: s}
}

// along returns one record with the row (x, 0).
func along(x, label float64) []record { return []record{{[]float64{x, 0}, label}} }

// quadraticSettings are measured in the layers that letters of quadraticKinds
// name. Without a claim the curvature is that of the plan.
var quadraticSettings = []struct {
	name, pair string
	c          func() *quadratic
	layers     string
}{
	{"least squares", "A3", func() *quadratic { return squares(qop.Mechanism{}, claimLSQ) }, "wxbors"},
	{"least squares", "A2", func() *quadratic {
		c := squares(variant(dp.AddRemove, 0, 0), claimLSQ)
		c.data[1] = c.data[0][:2]
		return c
	}, "wxs"},
	{"half for the output", "A3", func() *quadratic { return squares(qop.Mechanism{Share: 0.5}, claimLSQ) }, "Wx"},
	{"least squares as glm", "A3", func() *quadratic { return squares(variant(0, 0, loss.GLM), claimGLM) }, "wx"},
	{"huber", "A3", func() *quadratic { return bent(qop.Mechanism{}, claimGLM) }, "wxBs"},
	{"huber", "A2", func() *quadratic {
		c := bent(variant(dp.AddRemove, 0, 0), claimGLM)
		c.data[1] = c.data[0][:2]
		return c
	}, "wxs"},
	{"fixed range", "A3", func() *quadratic { return bent(variant(0, qop.Threshold, loss.FixedRange), claimFixed) }, "wx"},
	{"general", "A3", func() *quadratic { return bent(variant(0, qop.Threshold, loss.General), claimThreshold) }, "wx"},
	{"threshold", "A2", func() *quadratic {
		c := bent(variant(dp.AddRemove, qop.Threshold, 0), claimThreshold)
		c.data[1] = c.data[0][:2]
		return c
	}, "wx"},
	{"paper", "A3", func() *quadratic { return bent(variant(0, qop.Paper, 0), claimPaper) }, "wx"},
	{"smoothed hinge", "A3", func() *quadratic { return hinged(qop.Mechanism{}, claimGLM) }, "wB"},
	{"relabelled", "A5", func() *quadratic {
		c := squares(qop.Mechanism{}, claimLSQ)
		c.data = [2][]record{with(c.data[0], axis(1, 1, 0.4)), with(c.data[0], axis(1, 1, -9))}
		return c
	}, "wbr"},
	{"dropped", "A5", func() *quadratic {
		c := squares(qop.Mechanism{Interpolation: qop.Drop{Tolerance: 0.5}}, claimLSQ)
		c.data = [2][]record{with(c.data[0], axis(1, 1, 0.8)), with(c.data[0], axis(1, 1, -9))}
		return c
	}, "wbr"},
	{"trusted", "A5", func() *quadratic { return squares(qop.Mechanism{Interpolation: qop.Trust{}}, claimLSQ) }, "w"},
	{"ℓ1 in a box", "A7", func() *quadratic {
		c := squares(qop.Mechanism{}, claimLSQ)
		c.kinks = kinks{2, -1, 1}
		return c
	}, "wxbrs"},
	{"rows of 1e±150", "A9", func() *quadratic {
		c := squares(qop.Mechanism{}, claimLSQ)
		c.data = [2][]record{with(nil, record{[]float64{1e150}, 1e300}, record{[]float64{1e-150}, 5}), with(nil, record{[]float64{-1e-150}, 0}, record{[]float64{1e-150}, 5})}
		return c
	}, "wr"},
	{"ε = 4, δ = 0.1, m = 2", "A4", func() *quadratic {
		c := squares(qop.Mechanism{M: 2}, claimLSQ)
		c.budget, c.kinks.weight = dp.Budget{Epsilon: 4, Delta: 0.1}, 0.3
		c.data = [2][]record{{{[]float64{1}, 0.4}}, {{[]float64{0}, 0}}}
		return c
	}, "wx"},
	{"equal records", "A8", func() *quadratic {
		c := squares(qop.Mechanism{}, claimLSQ)
		c.data = curveOnly(29)
		return c
	}, "wr"},
	{"least squares, d = 5", "A2", func() *quadratic {
		return many(loss.Squared{}, variant(dp.AddRemove, 0, 0), claimLSQ, kinks{0.3, math.Inf(-1), math.Inf(1)})
	}, "wor"},
	{"least squares, d = 5, m = 400", "A2", func() *quadratic {
		c := many(loss.Squared{}, variant(dp.AddRemove, 0, 0), claimLSQ, kinks{0.3, math.Inf(-1), math.Inf(1)})
		c.mech.M = 400
		return c
	}, "w"},
	{"huber, d = 5", "A3", func() *quadratic {
		return many(loss.Huber{Delta: 0.05}, qop.Mechanism{}, claimGLM, kinks{0.3, math.Inf(-1), math.Inf(1)})
	}, "wBr"},
	{"ℓ1 in a box, d = 5", "A7", func() *quadratic {
		return many(loss.Squared{}, variant(dp.AddRemove, 0, 0), claimLSQ, kinks{0.3, -2, 2})
	}, "wr"},
	{"huber, ℓ1 in a box, d = 5", "A7", func() *quadratic {
		return many(loss.Huber{Delta: 0.05}, qop.Mechanism{}, claimGLM, kinks{0.3, -2, 2})
	}, "Wr"},
	{"least squares, d = 2", "A3", func() *quadratic {
		return flat(qop.Mechanism{}, func([]float64) loss.Loss { return loss.Squared{} }, [2][]record{along(1, 3), along(0, 0)})
	}, "x"},
	{"least squares across, d = 2", "A3", func() *quadratic {
		return flat(qop.Mechanism{}, func([]float64) loss.Loss { return loss.Squared{} }, [2][]record{along(1, 3), {{[]float64{0, 1}, 3}}})
	}, "x"},
	{"huber, d = 2", "A3", func() *quadratic {
		return flat(qop.Mechanism{}, func([]float64) loss.Loss { return loss.Huber{Delta: 0.1} }, [2][]record{along(1, 3), along(0, 0)})
	}, "x"},
	{"rank 2 as general", "A6", func() *quadratic {
		c := flat(qop.Mechanism{Interpolation: qop.Trust{}}, func(center []float64) loss.Loss { return round{center} }, [2][]record{along(1, 3), along(0, 0)})
		c.claim = claimGeneral
		return c
	}, "wx"},
	{"rank 1 as general", "A6", func() *quadratic {
		c := flat(variant(0, 0, loss.General), func([]float64) loss.Loss { return loss.Huber{Delta: 0.1} }, [2][]record{along(1, 3), along(0, 0)})
		c.claim = claimGeneral
		return c
	}, "WX"},
	{"inexact anchor", "A5", func() *quadratic { return off(qop.Mechanism{}) }, "wXor"},
	{"inexact anchor", "A2", func() *quadratic {
		c := off(variant(dp.AddRemove, 0, 0))
		c.data[1] = c.data[0][:2]
		return c
	}, "WXO"},
}

// quadraticKinds are the ways to measure a setting.
var quadraticKinds = map[rune]struct {
	name  string
	layer Layer
	run   func(c *quadratic, ctx context.Context, e *Env) (Finding, error)
	least Tier
}{
	'w': {"", WhiteBox, (*quadratic).white, Quick},
	'W': {"", WhiteBox, (*quadratic).white, CI},
	'x': {" exactly", Exact, (*quadratic).exact, Quick},
	'X': {" exactly", Exact, (*quadratic).exact, CI},
	's': {" searched", Exact, (*quadratic).searched, CI},
	'b': {" from outside", BlackBox, (*quadratic).black, Quick},
	'B': {" from outside", BlackBox, (*quadratic).black, CI},
	'o': {" output noise", WhiteBox, (*quadratic).output, Quick},
	'O': {" output noise", WhiteBox, (*quadratic).output, CI},
	'r': {" cover", WhiteBox, (*quadratic).covered, Quick},
}

func init() {
	m := Mechanism{Name: "qop", Controls: quadraticControls}
	for _, s := range quadraticSettings {
		for _, k := range s.layers {
			kind := quadraticKinds[k]
			m.Cases = append(m.Cases, Case{
				Name: fmt.Sprintf("%s/%s%s", s.pair, s.name, kind.name), Pair: s.pair, Layer: kind.layer, Least: kind.least,
				Run: func(ctx context.Context, e *Env) (Finding, error) { return kind.run(s.c(), ctx, e) },
			})
		}
	}
	Register(m)
}
