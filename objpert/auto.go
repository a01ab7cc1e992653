package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Auto chooses the oracle: Enumerate up to 10⁴ points over few rows, CellSearch
// where the columns are 0/1 up to a few, and GenericSearch otherwise.
type Auto struct {
	Workers int     // as in CellSearch
	Gap     float64 // as in CellSearch
	Nodes   int64   // as in CellSearch
}

var _ Oracle = Auto{}

// autoWork is the most points × rows that Auto enumerates: about the time that
// a search needs to begin.
const autoWork = 1e6

// autoCombos is the most combinations of dense weights that Auto gives to
// CellSearch, each of which costs a pass over the rows.
const autoCombos = 1e5

// Solve implements Oracle.
func (a Auto) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	many := len(p.Values) > math.MaxInt8 // too many for a search
	switch points := p.pointsUpTo(1e4); {
	case points <= 1e4 && (many || points*float64(len(p.X)) <= autoWork):
		return Enumerate{}.Solve(ctx, p)
	case many:
		return nil, fmt.Errorf("%w: more than 10⁴ points, and searches take at most %d values, got %d", ErrLimit, math.MaxInt8, len(p.Values))
	}
	c := CellSearch{Workers: a.Workers, Gap: a.Gap, Nodes: a.Nodes, Combos: autoCombos}
	if m, err := p.derived().cells(p, c.memory()); err == nil && len(m.cat) > 0 {
		s, err := c.Solve(ctx, p)
		if s != nil || !errors.Is(err, ErrLimit) {
			return s, err
		}
	}
	return GenericSearch(a).Solve(ctx, p)
}
