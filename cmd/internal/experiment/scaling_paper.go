package experiment

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/qop"
)

// published gives the cells of -mode paper: the published procedure, constants
// and all. Not private.
type publishedCells struct {
	*dataSource
	experiments memo[publishedKey, *lasso.Experiment]
}

// publishedKey names what the constants of QOP depend on.
type publishedKey struct {
	in      *lasso.Instance
	epsilon float64
}

// experiment returns the procedure at the parameters p, calibrated once.
func (s *publishedCells) experiment(in *lasso.Instance, p scalingParams) (*lasso.Experiment, error) {
	return s.experiments.get(publishedKey{in, p.Epsilon}, func() (*lasso.Experiment, error) {
		c, err := quadratic(in, p)
		if err != nil {
			return nil, err
		}
		return lasso.Paper{Epsilon: p.Epsilon, Delta: p.Delta, Lambda: p.Lambda, Iterations: p.Iterations}.Experiment(in, c.Sigma2)
	})
}

// quadratic returns the published constants of QOP: m = 2d, L = dξ², δ₁ = δ₃ = δ/2.
func quadratic(in *lasso.Instance, p scalingParams) (qop.PublishedConstants, error) {
	_, d := in.Dims()
	return qop.Published{
		Dim: d, Degrees: 2 * float64(d), Rank: p.Rho, Smoothness: float64(d) * in.Xi * in.Xi,
		Epsilon1: p.Epsilon, Delta1: p.Delta / 2, Delta3: p.Delta / 2,
	}.Constants(true)
}

// prepare sets up one cell of -mode paper.
func (s *publishedCells) prepare(ctx context.Context, cell sweep.Cell) (sweep.Task, error) {
	at := s.c.at(cell.Value)
	rec, err := s.at(at)
	if err != nil {
		return sweep.Task{}, err
	}
	in := rec.in
	switch cell.Method {
	case "anchor":
		x := make([]float64, len(in.Anchor))
		lasso.Problem(rec.data, at.Lambda, at.Kappa).Set.Prox(x, in.Anchor, 1)
		return once(func(context.Context) (float64, error) { return in.Risk(x), nil }), nil
	case "nonprivate":
		p := lasso.Problem(rec.data, at.Lambda, at.Kappa)
		return once(func(ctx context.Context) (float64, error) {
			x, err := s.nonprivate(ctx, p, at)
			if err != nil {
				return 0, err
			}
			return in.Risk(x), nil
		}), nil
	}
	e, err := s.experiment(in, at)
	if err != nil {
		return sweep.Task{}, err
	}
	method := map[string]lasso.Method{"lop": lasso.LOP, "lop-clip": lasso.LOPClip, "qop": lasso.QOP}[cell.Method]
	d := &scalingDetail{}
	c, err := quadratic(in, at)
	if err != nil {
		return sweep.Task{}, err
	}
	d.published(e, c, method, at.Kappa)
	outside := 0
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			theta, err := e.Solve(ctx, method, at.Kappa, src)
			if err != nil {
				return 0, err
			}
			if floats.Norm(theta, inf) > at.Kappa {
				outside++
			}
			return in.Risk(theta), nil
		},
		Detail: func() any {
			d.Outside = outside
			return d
		},
	}, nil
}
