package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/splitting"
)

// fitter is a calibrated mechanism.
type fitter interface {
	Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)
}

// prepare calibrates one cell of -mode certified. Everything that scales noise
// comes from the flags; the records are read by Fit alone.
func (s *dataSource) prepare(ctx context.Context, cell sweep.Cell) (sweep.Task, error) {
	at := s.c.at(cell.Value)
	rec, err := s.at(at)
	if err != nil {
		return sweep.Task{}, err
	}
	p := lasso.Problem(rec.data, at.Lambda, at.Kappa)
	n, _ := rec.data.Dims()
	risk := erm.NewUnperturbed(p) // F(θ) = Σ ½(aᵢ'θ−bᵢ)²
	excess := risk                // what the predicted excess is about
	objective := func(x []float64) float64 { return excess.Func(x) + p.Reg.Func(x) }

	anchor := rec.anchor // its projection on the box, where there is one
	if anchor != nil {
		anchor = make([]float64, len(rec.anchor))
		p.Set.Prox(anchor, rec.anchor, 1)
	}
	switch cell.Method {
	case "anchor":
		return once(func(context.Context) (float64, error) { return risk.Func(anchor) / float64(n), nil }), nil
	case "nonprivate":
		return once(func(ctx context.Context) (float64, error) {
			x, err := s.nonprivate(ctx, p, at)
			if err != nil {
				return 0, err
			}
			return risk.Func(x) / float64(n), nil
		}), nil
	}

	d := &scalingDetail{}
	var fit fitter
	var comparator float64 // J(θ₀) of the bound on the excess
	budget := dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta}
	switch cell.Method {
	case "lop", "lop-clip":
		m := &lop.Mechanism{Trace: func(t erm.Trace) { d.certify(t.Gap, t.Objective) }}
		if at.Calibration == paper {
			m.Calibration = lop.Kifer
		}
		if cell.Method == "lop-clip" {
			m.Clip = at.clip()
		}
		plan, err := m.Plan(p, budget)
		if err != nil {
			return sweep.Task{}, err
		}
		d.linear(plan.Params())
		fit = plan
		x, err := s.nonprivate(ctx, p, at)
		if err != nil {
			return sweep.Task{}, err
		}
		d.Comparator = "nonprivate"
		if cell.Method == "lop-clip" {
			d.Clip = m.Clip
			l, err := loss.NewClipped(p.Loss, m.Clip)
			if err != nil {
				return sweep.Task{}, err
			}
			clipped := *p
			clipped.Loss = l
			excess = erm.NewUnperturbed(&clipped)
		}
		comparator = objective(x)
	case "qop":
		// The projected anchor is a public point of the box; it is also what qop has to beat.
		shared, err := s.quadratic(p, rec.anchor, at)
		if err != nil {
			return sweep.Task{}, err
		}
		d.quadratic(shared.Params(), floats.Distance(anchor, rec.anchor, 2)+at.Eta, at.Lambda)
		fit = shared.Traced(func(t erm.Trace) { d.certify(t.Gap, t.Objective) })
		comparator = objective(anchor)
		d.Comparator = "anchor"
	default:
		return sweep.Task{}, fmt.Errorf("no method %q", cell.Method)
	}

	sum := 0.0
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			if s.c.Seed == nil {
				src = nil // secure noise, for which no caller has to vouch
			}
			release, err := fit.Fit(ctx, p, src)
			if err != nil {
				return 0, err
			}
			d.Certificate = &release.Certificate // a seed's assumption is in each of them
			value := risk.Func(release.Theta)
			own := value // of the loss that the bound is about
			if excess != risk {
				own = excess.Func(release.Theta)
			}
			sum += own + p.Reg.Func(release.Theta) - comparator
			return value / float64(n), nil
		},
		Detail: func() any {
			d.PredictedExcess = finite(value(d.PredictedExcess) / float64(n))
			d.MeasuredExcess = finite(sum / float64(at.Runs*n))
			return d
		},
	}, nil
}

// planKey names what the calibration of qop depends on.
type planKey struct {
	n, d    int
	epsilon float64
}

// quadratic calibrates qop, once for all boxes. An exact anchor leaves nothing
// to tune; for η > 0 the calibration is tuned for D = ‖anchor‖ + η, the largest
// distance of θ* from the projected anchor that a box can bring about.
func (s *dataSource) quadratic(p *erm.Problem, anchor []float64, at scalingParams) (*qop.Plan, error) {
	reach := floats.Norm(anchor, 2)
	m := &qop.Mechanism{
		Center:        anchor,
		Interpolation: qop.Trust{},
		Eta:           at.Eta,
		Radius:        math.Max(reach, 1e-9) + at.Eta,
		Cover:         1e-8 * math.Max(1, reach), // the default grows with the box
	}
	if at.Calibration == paper {
		m.Calibration = qop.Paper
	}
	n, d := p.Data.Dims()
	return s.plans.get(planKey{n, d, at.Epsilon}, func() (*qop.Plan, error) {
		unit := lasso.Problem(p.Data, at.Lambda, 1) // not the box of whichever cell comes first
		return m.Plan(unit, dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta})
	})
}

// once is the task of a method without noise.
func once(f func(context.Context) (float64, error)) sweep.Task {
	return sweep.Task{Runs: 1, Run: func(ctx context.Context, _ rand.Source) (float64, error) { return f(ctx) }}
}

// minimumKey names what the minimizer without a perturbation depends on.
type minimumKey struct {
	n, d  int
	kappa float64
}

// nonprivate minimizes without a perturbation, once for all methods. Not private.
func (s *dataSource) nonprivate(ctx context.Context, p *erm.Problem, at scalingParams) ([]float64, error) {
	n, d := p.Data.Dims()
	return s.minima.get(minimumKey{n, d, at.Kappa}, func() ([]float64, error) {
		res, err := splitting.Minimize(ctx, splitting.Problem{F: erm.NewUnperturbed(p), G: p.Reg, H: p.Set}, make([]float64, d), nil)
		if err != nil {
			return nil, err
		}
		return res.X, nil
	})
}
