package audit

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/noise"
)

// searches returns how many random pairs a search looks at.
func (e *Env) searches() int {
	return map[Tier]int{Quick: 5, CI: 100, Long: 5000}[e.Tier]
}

// neighbors draws a pair of neighboring data sets on the line: up to five common
// records and one that differs, half of them at the ends of their bounds.
func neighbors(rel dp.Relation, row, label float64, src rand.Source) (pair [2][]record) {
	rnd := rand.New(src)
	draw := func(bound float64) float64 {
		switch x := bound * (2*noise.Uniform(src) - 1); rnd.IntN(4) {
		case 0:
			return bound
		case 1:
			return -bound
		default:
			return x
		}
	}
	one := func() record { return record{[]float64{draw(row)}, draw(label)} }
	var base []record
	for range 1 + rnd.IntN(5) {
		base = append(base, one())
	}
	pair[0] = with(base, one())
	if pair[1] = base; rel == dp.Replace {
		pair[1] = with(base, one())
	}
	return pair
}

// worst integrates random pairs and returns the finding of the one that comes
// nearest to its claim: an exact layer for data that nobody chose.
func worst(ctx context.Context, e *Env, measure func(src rand.Source) (Finding, error)) (Finding, error) {
	src := e.Source("search")
	var found Finding
	most := math.Inf(-1)
	for range e.searches() {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		f, err := measure(src)
		if err != nil {
			return f, err
		}
		if f.Verdict() != Holds {
			return f, nil
		}
		if f.Exact > most {
			most, found = f.Exact, f
		}
	}
	return found, nil
}

// searched is the exact layer for random neighboring data.
func (c *linear) searched(ctx context.Context, e *Env) (Finding, error) {
	return worst(ctx, e, func(src rand.Source) (Finding, error) {
		random := *c
		random.data = neighbors(c.relation(), c.bounds.Row, c.bounds.Label, src)
		return random.exact(ctx, e)
	})
}

// searched is the exact layer for random neighboring data.
func (c *quadratic) searched(ctx context.Context, e *Env) (Finding, error) {
	return worst(ctx, e, func(src rand.Source) (Finding, error) {
		random := *c
		random.data = neighbors(c.relation(), c.bounds.Row, c.bounds.Label, src)
		return random.exact(ctx, e)
	})
}
