// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
)

// pair releases from either of two neighboring data sets.
type pair struct {
	fit  [2]func(ctx context.Context, src rand.Source) (*dp.Release, error)
	side int            // the data set of the last turn
	cert dp.Certificate // of a release

	trace   erm.Trace // of the last release of a convex mechanism
	repeats bool      // turn releases again after an event of the noise
}

// plan is a calibrated mechanism over problems P; planner calibrates plans L.
type plan[P any] interface {
	Fit(context.Context, P, rand.Source) (*dp.Release, error)
}

type planner[P any, L plan[P]] interface {
	Plan(P, dp.Budget) (L, error)
}

// open plans for both data sets, without faults, and returns the plan for the first.
func open[P any, L plan[P]](out *pair, mech planner[P, L], problems [2]P, b dp.Budget) (first L, err error) {
	for i, p := range problems {
		plan, err := mech.Plan(p, b)
		if err != nil {
			return first, err
		}
		out.fit[i] = func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }
		if i == 0 {
			first = plan
		}
	}
	return first, nil
}

// claim releases once and keeps the certificate, which must state at least the requested budget.
func (p *pair) claim(ctx context.Context, e *env, asked dp.Budget, rel dp.Relation) error {
	out, err := p.fit[0](ctx, e.source("claim"))
	if err != nil {
		return err
	}
	p.cert = out.Certificate
	return asFor(p.cert, asked, rel)
}

// turn releases from the data sets in turn and returns the data set. If repeats is set, it releases
// again after an event of the noise that leaves no trace. The probability of such an event is
// public, at most 2⁻⁹δ, and included in δ; two in a row are a violation. A missing trace becomes
// NaN, which no test accepts.
func (p *pair) turn(ctx context.Context, src rand.Source) (side int, rel *dp.Release, err error) {
	p.side, p.trace = 1-p.side, erm.Trace{}
	rel, err = p.fit[p.side](ctx, src)
	if err == nil && p.repeats && len(p.trace.Theta) == 0 {
		p.side = 1 - p.side
		rel, err = p.fit[p.side](ctx, src)
	}
	if err == nil && len(p.trace.Theta) == 0 {
		p.trace.Theta = slices.Repeat([]float64{math.NaN()}, len(rel.Theta))
	}
	return p.side, rel, err
}

// scores is the white box on releases from the data sets in turn: score maps a release from data
// set i to its scores.
func (p *pair) scores(
	ctx context.Context, e *env, rows int, score func(i int, rel *dp.Release) ([]float64, error),
) (Finding, error) {
	return recovered(ctx, e, p.cert, rows, func(ctx context.Context, src rand.Source) (row []float64, err error) {
		for range 1 + e.more {
			i, rel, err := p.turn(ctx, src)
			if err != nil {
				return nil, err
			}
			z, err := score(i, rel)
			if err != nil {
				return nil, err
			}
			row = append(row, z...)
		}
		return row, nil
	})
}

// residues tests that the released integers have uniform residues modulo 8.
func (p *pair) residues(ctx context.Context, e *env, dim int, grid float64) (Finding, error) {
	aux := e.source("cells")
	return p.scores(ctx, e, e.rows(dim), func(_ int, rel *dp.Release) ([]float64, error) {
		z := make([]float64, dim)
		for j, x := range rel.Theta {
			k := float64(int64(x/grid) & 7)
			z[j] = spread(k/8, 1.0/8, (7-k)/8, aux)
		}
		return z, nil
	})
}

// theta releases a point from data set i, for distinguish.
func (p *pair) theta(ctx context.Context, i int, src rand.Source) ([]float64, error) {
	rel, err := p.fit[i](ctx, src)
	if err != nil {
		return nil, err
	}
	return rel.Theta, nil
}

// preparer is a setting that plans for both its data sets and releases once for the claim.
type preparer interface {
	prepare(ctx context.Context, e *env) error
}

// kind is a way to measure prepared settings of type S.
type kind[S preparer] struct {
	name  string
	layer Layer
	run   func(c S, ctx context.Context, e *env) (Finding, error)
}

// setting is one pair of data sets and a mechanism. layers lists the kinds that measure it, by
// their names in a table of kinds: "name*" runs from the tier CI on, and "twice" is "white" with
// two releases from one stream. Cases run on copies of the setting.
type setting[T any] struct {
	name, pair, layers string
	of                 *T
}

// cases lists the cases of the settings, one for each layer.
func cases[T any, S interface {
	*T
	preparer
}](kinds map[string]kind[S], settings []setting[T]) (list []Case) {
	for _, s := range settings {
		for _, word := range strings.Fields(s.layers) {
			pair, least := s.pair, Quick
			more := 0
			word, later := strings.CutSuffix(word, "*")
			switch {
			case later:
				least = CI
			case word == "permuted":
				pair = "A10"
			case word == "twice":
				word, pair = "white", "A13"
				more = 1
			}
			kind, ok := kinds[word]
			if !ok {
				panic("audit: setting " + s.name + " asks for the layer " + word + ", which its table does not have")
			}
			list = append(list, Case{
				Name: pair + "/" + s.name + kind.name, Pair: pair, Layer: kind.layer, Least: least,
				run: func(ctx context.Context, e *env) (Finding, error) {
					copied := *s.of
					c := S(&copied)
					if err := c.prepare(ctx, e); err != nil {
						return Finding{}, err
					}
					e.more = more
					return kind.run(c, ctx, e)
				},
			})
		}
	}
	return list
}
