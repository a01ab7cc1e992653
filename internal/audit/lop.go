package audit

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// The settings of linear perturbation. Δ is stated so that the reference need
// not guess it, and Cover, whose default depends on a radius.
const (
	ridge = 8.0
	cover = 1e-8
)

// base are three records that both data sets of a pair on the line share.
func base() []record {
	return []record{{[]float64{0.7}, 1}, {[]float64{-0.5}, -1}, {[]float64{0.4}, 1}}
}

// opposite is A1 on the line: the last record has the gradient +ζ or −ζ at 0.
func opposite() [2][]record {
	return [2][]record{with(base(), axis(1, 1, 1)), with(base(), axis(1, 1, -1))}
}

// present is A2 on the line: the last record is there or not.
func present() [2][]record { return [2][]record{with(base(), axis(1, 1, 1)), base()} }

// space are A1 and A2 in five dimensions.
func space(n int, rel dp.Relation) [2][]record {
	list := sample(n, 5, "space")
	if rel == dp.AddRemove {
		return [2][]record{with(list, axis(5, 1, 1)), list}
	}
	return [2][]record{with(list, axis(5, 1, 1)), with(list, axis(5, 1, -1))}
}

// logistic is the setting that most others vary.
func logistic(m lop.Mechanism, data [2][]record) *linear {
	if m.Delta == 0 {
		m.Delta = ridge
	}
	if m.Cover == 0 {
		m.Cover = cover
	}
	return &linear{mech: m, loss: loss.Logistic{}, bounds: unit, budget: usual, kinks: free, data: data}
}

// pure is the setting with δ = 0.
func pure(c *linear) *linear { c.budget = dp.Budget{Epsilon: 1}; return c }

// at is the setting with another budget.
func at(c *linear, eps, delta float64) *linear {
	c.budget = dp.Budget{Epsilon: eps, Delta: delta}
	return c
}

// curved is A3: Huber records of the largest curvature at 0, or flat ones.
func curved(m lop.Mechanism) *linear {
	c := logistic(m, [2][]record{with(base(), axis(1, 1, 0)), with(base(), axis(1, 0, 0))})
	c.loss = loss.Huber{Delta: 0.5}
	return c
}

// held is A7: least squares in a box with an ℓ1 norm, the last record pulling
// the minimizer to a face on one side and off it on the other.
func held(dim int, rel dp.Relation) *linear {
	list := sample(12, dim, "held")
	c := logistic(lop.Mechanism{Relation: rel, Delta: 30}, [2][]record{with(list, axis(dim, 1, 1)), with(list, axis(dim, 1, -1))})
	if rel == dp.AddRemove {
		c.data[1] = list
	}
	c.loss, c.kinks = loss.Squared{}, kinks{1.5, -0.25, 0.3}
	return c
}

// far is A9: rows and labels far outside their bounds and far inside.
func far() *linear {
	list := []record{
		{[]float64{1e150, -2e150, 1e150, 0, 3e149}, 1e300}, {[]float64{1e-150, 2e-150, 0, 0, 1e-150}, 1},
		{[]float64{0, 3, 4, 0, 0}, -7}, {[]float64{0.1, 0.2, 0.1, 0, 0.3}, -1},
	}
	c := logistic(lop.Mechanism{}, [2][]record{with(list, axis(5, 1e150, 1)), with(list, axis(5, 1e150, -1))})
	c.loss = loss.Huber{Delta: 0.5}
	return c
}

// clipped is LOP-Clip on least squares, whose gradients have no bound: records
// with labels far from their predictions meet the threshold 0.5.
func clipped(dim int) *linear {
	list := sample(6, dim, "clipped")
	for i := range list {
		list[i].b *= 5
	}
	c := logistic(lop.Mechanism{Clip: 0.5}, [2][]record{with(list, axis(dim, 1, 50)), with(list, axis(dim, 1, -50))})
	c.loss, c.bounds = loss.Squared{}, loss.Bounds{Row: 1, Label: 50}
	return c
}

// equal is A8: all records but one are equal.
func equal() *linear {
	var list []record
	for range 29 {
		list = append(list, record{[]float64{0.6, 0, 0, 0.8, 0}, 1})
	}
	return logistic(lop.Mechanism{}, [2][]record{with(list, axis(5, 1, 1)), with(list, axis(5, 1, -1))})
}

// add is the mechanism under AddRemove.
func add(m lop.Mechanism) lop.Mechanism { m.Relation = dp.AddRemove; return m }

// published is the mechanism with published constants.
func published(c lop.Calibration) lop.Mechanism { return lop.Mechanism{Calibration: c} }

// linearSettings are measured in the layers that letters of linearKinds name.
var linearSettings = []struct {
	name, pair string
	c          func() *linear
	layers     string // keys of linearKinds
}{
	{"logistic", "A1", func() *linear { return logistic(lop.Mechanism{}, opposite()) }, "wxbors"},
	{"logistic", "A2", func() *linear { return logistic(add(lop.Mechanism{}), present()) }, "wxBs"},
	{"monotone", "A2", func() *linear { return logistic(add(lop.Mechanism{Monotone: true}), present()) }, "wxBs"},
	{"kifer", "A1", func() *linear { return logistic(published(lop.Kifer), opposite()) }, "wx"},
	{"kifer", "A2", func() *linear { return logistic(add(published(lop.Kifer)), present()) }, "wx"},
	{"joint", "A1", func() *linear { return logistic(lop.Mechanism{Joint: true, Share: 0.2}, opposite()) }, "wxo"},
	{"joint, d = 5", "A2", func() *linear {
		return logistic(add(lop.Mechanism{Joint: true, Share: 0.2}), space(20, dp.AddRemove))
	}, "WO"},
	{"half for the output", "A1", func() *linear { return logistic(lop.Mechanism{Share: 0.5}, opposite()) }, "Wx"},
	{"pure", "A1", func() *linear { return pure(logistic(lop.Mechanism{}, opposite())) }, "wxbos"},
	{"pure", "A2", func() *linear { return pure(logistic(add(lop.Mechanism{}), present())) }, "wxs"},
	{"pure kifer", "A1", func() *linear { return pure(logistic(published(lop.Kifer), opposite())) }, "wx"},
	{"pure cms11", "A1", func() *linear { return pure(logistic(published(lop.CMS11), opposite())) }, "wx"},
	{"pure, d = 5", "A1", func() *linear { return pure(logistic(lop.Mechanism{}, space(20, dp.Replace))) }, "wo"},
	{"huber", "A3", func() *linear { return curved(lop.Mechanism{}) }, "wxB"},
	{"huber", "A1", func() *linear {
		c := curved(lop.Mechanism{})
		c.bounds.Label = 50
		c.data = [2][]record{with(base(), axis(1, 1, 50)), with(base(), axis(1, 1, -50))}
		return c
	}, "wxbs"},
	{"one record, ε = 8, δ = 0.3", "A4", func() *linear {
		return at(logistic(lop.Mechanism{}, [2][]record{{axis(1, 1, 1)}, {axis(1, 1, -1)}}), 8, 0.3)
	}, "wx"},
	{"logistic, d = 5", "A1", func() *linear { return logistic(lop.Mechanism{}, space(20, dp.Replace)) }, "wBorp"},
	{"logistic, d = 5", "A2", func() *linear { return logistic(add(lop.Mechanism{}), space(20, dp.AddRemove)) }, "wr"},
	{"ℓ1 in a box", "A7", func() *linear { return held(1, dp.Replace) }, "wxbrs"},
	{"ℓ1 in a box, d = 5", "A7", func() *linear { return held(5, dp.Replace) }, "wBr"},
	{"ℓ1 in a box, d = 8", "A7", func() *linear { return held(8, dp.AddRemove) }, "wr"},
	{"equal records", "A8", equal, "wr"},
	{"rows of 1e±150", "A9", far, "wr"},
	{"logistic", "A13", func() *linear { return logistic(lop.Mechanism{}, opposite()) }, "t"},
	{"logistic, d = 5", "A13", func() *linear { return logistic(lop.Mechanism{}, space(20, dp.Replace)) }, "t"},
}

// linearKinds are the ways to measure a setting.
var linearKinds = map[rune]struct {
	name  string
	layer Layer
	run   func(c *linear, ctx context.Context, e *Env) (Finding, error)
	least Tier
}{
	'w': {"", WhiteBox, (*linear).white, Quick},
	'x': {" exactly", Exact, (*linear).exact, Quick},
	's': {" searched", Exact, (*linear).searched, CI},
	'b': {" from outside", BlackBox, (*linear).black, Quick},
	'B': {" from outside", BlackBox, (*linear).black, CI},
	'o': {" output noise", WhiteBox, (*linear).output, Quick},
	'W': {"", WhiteBox, (*linear).white, CI},
	'O': {" output noise", WhiteBox, (*linear).output, CI},
	'r': {" cover", WhiteBox, (*linear).covered, Quick},
	'p': {" order", WhiteBox, (*linear).permuted, Quick},
	't': {"", WhiteBox, (*linear).twice, Quick},
}

func init() {
	m := Mechanism{Name: "lop", Controls: linearControls, Cases: []Case{{Name: "lattice", Layer: WhiteBox, Run: names}}}
	for _, s := range linearSettings {
		for _, k := range s.layers {
			kind := linearKinds[k]
			pair := s.pair
			if k == 'p' {
				pair = "A10"
			}
			m.Cases = append(m.Cases, Case{
				Name: fmt.Sprintf("%s/%s%s", pair, s.name, kind.name), Pair: pair, Layer: kind.layer, Least: kind.least,
				Run: func(ctx context.Context, e *Env) (Finding, error) { return kind.run(s.c(), ctx, e) },
			})
		}
	}
	Register(m)

	clip := Mechanism{Name: "lop-clip"}
	for _, dim := range []int{1, 5} {
		for _, k := range map[int]string{1: "wxbr", 5: "wbr"}[dim] {
			kind := linearKinds[k]
			clip.Cases = append(clip.Cases, Case{
				Name: fmt.Sprintf("A1/least squares, d = %d%s", dim, kind.name), Pair: "A1", Layer: kind.layer, Least: kind.least,
				Run: func(ctx context.Context, e *Env) (Finding, error) { return kind.run(clipped(dim), ctx, e) },
			})
		}
	}
	Register(clip)

	outputs := Mechanism{Name: "lop-output"}
	for _, o := range []struct {
		name, pair string
		rel        dp.Relation
		budget     dp.Budget
		data       [2][]record
	}{
		{"logistic", "A1", dp.Replace, usual, opposite()},
		{"logistic", "A2", dp.AddRemove, usual, present()},
		{"pure", "A1", dp.Replace, dp.Budget{Epsilon: 1}, opposite()},
		{"logistic, d = 5", "A1", dp.Replace, usual, space(20, dp.Replace)},
		{"pure, d = 5", "A2", dp.AddRemove, dp.Budget{Epsilon: 1}, space(20, dp.AddRemove)},
	} {
		outputs.Cases = append(outputs.Cases, Case{
			Name: o.pair + "/" + o.name, Pair: o.pair, Layer: WhiteBox,
			Run: func(ctx context.Context, e *Env) (Finding, error) {
				c := &baseline{mech: lop.Output{Relation: o.rel, Delta: ridge, Cover: cover}}
				c.linear = linear{loss: loss.Logistic{}, bounds: unit, budget: o.budget, kinks: free, data: o.data}
				return c.white(ctx, e)
			},
		})
	}
	Register(outputs)
}
