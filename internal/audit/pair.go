package audit

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
)

// Fit releases once; the exported Fit of a mechanism or of its plan.
type Fit func(ctx context.Context, src rand.Source) (*dp.Release, error)

// pair releases from either of two neighboring data sets.
type pair struct {
	fit  [2]Fit
	side int // the data set of the last turn
}

// plan is a calibrated mechanism over problems P, and planner one that is not
// calibrated yet, with plans L.
type plan[P any] interface {
	Fit(context.Context, P, rand.Source) (*dp.Release, error)
}

type planner[P any, L plan[P]] interface {
	Plan(P, dp.Budget) (L, error)
}

// open plans for both data sets, outside every fault, and returns the plan for the
// first.
func open[P any, L plan[P]](mech planner[P, L], problems [2]P, b dp.Budget) (*pair, L, error) {
	var out pair
	var first L
	for i, p := range problems {
		plan, err := mech.Plan(p, b)
		if err != nil {
			return nil, first, err
		}
		out.fit[i] = func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }
		if i == 0 {
			first = plan
		}
	}
	return &out, first, nil
}

// turn releases from the data sets in turn and returns from which.
func (p *pair) turn(ctx context.Context, src rand.Source) (int, *dp.Release, error) {
	p.side = 1 - p.side
	rel, err := p.fit[p.side](ctx, src)
	return p.side, rel, err
}

// theta releases from data set i, for Distinguish.
func (p *pair) theta(ctx context.Context, i int, src rand.Source) ([]float64, error) {
	rel, err := p.fit[i](ctx, src)
	if err != nil {
		return nil, err
	}
	return rel.Theta, nil
}

// claim releases once and returns what the release claims: no less than was asked for.
func (p *pair) claim(ctx context.Context, e *Env, asked dp.Budget, rel dp.Relation) (dp.Certificate, error) {
	out, err := p.fit[0](ctx, e.Source("claim"))
	if err != nil {
		return dp.Certificate{}, err
	}
	return out.Certificate, asFor(out.Certificate, asked, rel)
}

// kind is a way to measure settings of type T.
type kind[T any] struct {
	name  string
	layer Layer
	run   func(c T, ctx context.Context, e *Env) (Finding, error)
	least Tier
}

// ready measures a setting by its plans for both data sets, which prepare makes.
func ready[C interface {
	prepare(ctx context.Context, e *Env) (R, error)
}, R any](measure func(r R, ctx context.Context, e *Env) (Finding, error)) func(C, context.Context, *Env) (Finding, error) {
	return func(c C, ctx context.Context, e *Env) (Finding, error) {
		r, err := c.prepare(ctx, e)
		if err != nil {
			return Finding{}, err
		}
		return measure(r, ctx, e)
	}
}

// setting is what is measured, in the layers that letters of a table of kinds name.
type setting[T any] struct {
	name, pair, layers string
	make               func() T
}

// cases lists settings in their layers. A kind that is about another pair than its
// setting has that at the end of its name, after a slash.
func cases[T any](kinds map[rune]kind[T], settings ...setting[T]) (list []Case) {
	for _, s := range settings {
		for _, k := range s.layers {
			kind, at := kinds[k], s.pair
			switch k {
			case 'p':
				at = "A10"
			case 't':
				at = "A13"
			}
			list = append(list, Case{
				Name: at + "/" + s.name + kind.name, Pair: at, Layer: kind.layer, Least: kind.least,
				Run: func(ctx context.Context, e *Env) (Finding, error) { return kind.run(s.make(), ctx, e) },
			})
		}
	}
	return list
}

// searched is an exact layer for data that nobody chose: it draws neighbors on the
// line, integrates each and returns the finding of the pair that comes nearest to its
// claim.
func searched(
	ctx context.Context, e *Env, rel dp.Relation, row, label float64, exact func(data [2][]record) (Finding, error),
) (Finding, error) {
	src := e.Source("search")
	var found Finding
	most := math.Inf(-1)
	for range map[Tier]int{Quick: 5, CI: 100, Long: 5000}[e.Tier] {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		f, err := exact(neighbors(rel, row, label, src))
		if err != nil || f.Verdict() != Holds {
			return f, err
		}
		if f.Exact > most {
			most, found = f.Exact, f
		}
	}
	return found, nil
}
