package objpert

import (
	"context"
	"errors"
)

// Auto chooses the oracle: Enumerate up to 10⁴ points, CellSearch where the
// columns are 0/1 up to a few, and GenericSearch otherwise.
type Auto struct {
	Workers int     // as in CellSearch
	Gap     float64 // as in CellSearch
	Nodes   int64   // as in CellSearch
}

var _ Oracle = Auto{}

// autoCombos is the most combinations of dense weights that Auto gives to
// CellSearch, each of which costs a pass over the rows.
const autoCombos = 1e5

// Solve implements Oracle.
func (a Auto) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Points() <= 1e4 {
		return Enumerate{}.Solve(ctx, p)
	}
	c := CellSearch{Workers: a.Workers, Gap: a.Gap, Nodes: a.Nodes, Combos: autoCombos}
	if m, err := p.shared.cells(p, c.memory()); err == nil && len(m.cat) > 0 {
		s, err := c.Solve(ctx, p)
		if s != nil || !errors.Is(err, ErrLimit) {
			return s, err
		}
	}
	return GenericSearch(a).Solve(ctx, p)
}
