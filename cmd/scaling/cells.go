// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

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

// scalingDetail holds the numbers of one cell that the summary shows beside its risk.
type scalingDetail struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`
	Constants   []constant      `json:"constants,omitempty"`
	OutputSigma float64         `json:"output_sigma,omitempty"` // of the covered release
	// RelativeGap is the largest bound on (J(θ̂) − min J)/max(1, |J(θ̂)|) to which the solves of the
	// cell were certified. Not private.
	RelativeGap float64 `json:"relative_gap,omitempty"`

	// PredictedExcess bounds E J(θ)/n − J(θ₀)/n, J the risk's sum plus λ‖θ‖₁, from public
	// quantities; MeasuredExcess is its mean over the runs. θ₀ is the point of the method named
	// Comparator. For lop-clip J is that of the clipped loss.
	PredictedExcess *float64 `json:"predicted_excess,omitempty"`
	MeasuredExcess  *float64 `json:"measured_excess,omitempty"`
	Comparator      string   `json:"comparator,omitempty"`
	// Outside counts the runs whose reported point lies outside the box.
	Outside int `json:"outside_box,omitempty"`
}

// constant is a constant of a calibration, named by its letter in docs/theory or in [CC26].
type constant struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// show adds constants, but for infinite ones and NaN: JSON has no such numbers.
func (d *scalingDetail) show(constants ...constant) {
	for _, k := range constants {
		if finite(k.Value) != nil {
			d.Constants = append(d.Constants, k)
		}
	}
}

// showUsed is show for a constant of which zero means that the mechanism has none.
func (d *scalingDetail) showUsed(name string, x float64) {
	if x != 0 {
		d.show(constant{name, x})
	}
}

// finite returns x for JSON, nil if x is infinite or NaN.
func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// trace records the accuracy of one solve.
func (d *scalingDetail) trace(t erm.Trace) {
	gap := t.Gap / max(1, math.Abs(t.Objective))
	if !(gap <= d.RelativeGap) {
		d.RelativeGap = min(gap, math.MaxFloat64)
	}
}

// prepare calibrates one cell. Everything that scales noise comes from the flags; Fit alone reads
// the records.
func (s *dataSource) prepare(ctx context.Context, cell sweep.Cell) (sweep.Task, error) {
	at := s.c.at(cell.Value)
	rec, err := s.at(at)
	if err != nil {
		return sweep.Task{}, err
	}
	p := lasso.Problem(rec.data, at.Lambda, at.Kappa)
	n, _ := rec.data.Dims()
	sum := p.Perturb(erm.Perturbation{}) // F(θ) = Σ ½(aᵢ'θ−bᵢ)²
	risk := func(theta []float64) float64 { return sum.Func(theta) / float64(n) }
	if s.c.Mode == paper {
		risk = rec.in.Risk
	}
	switch cell.Method {
	case "anchor":
		return sweep.Once(func(context.Context) (float64, error) { return risk(projected(p, rec.anchor)), nil }), nil
	case "nonprivate":
		return sweep.Once(func(ctx context.Context) (float64, error) {
			x, err := s.nonprivate(ctx, p, at)
			if err != nil {
				return 0, err
			}
			return risk(x), nil
		}), nil
	}
	if s.c.Mode == paper {
		return s.published(rec.in, cell.Method, at)
	}
	return s.certified(ctx, cell.Method, rec, p, sum, at)
}

// projected returns the projection of the anchor on the box.
func projected(p *erm.Problem, anchor []float64) []float64 {
	x := make([]float64, len(anchor))
	p.Set.Prox(x, anchor, 1)
	return x
}

// certified is the task of a private method with proved constants.
func (s *dataSource) certified(
	ctx context.Context, method string, rec *dataSet, p *erm.Problem, risk *erm.Objective, at scalingParams,
) (sweep.Task, error) {
	n, _ := rec.data.Dims()
	excess := risk // of the predicted excess
	var d scalingDetail
	var plan interface {
		Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)
	}
	var comparator []float64 // θ₀ of the bound on the excess
	var predicted float64
	budget := dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta}
	switch method {
	case "lop", "lop-clip", "lop-center":
		m := &lop.Mechanism{Trace: d.trace}
		if at.Calibration == paper {
			m.Calibration = lop.Kifer
		}
		if method != "lop" {
			m.Clip = at.clip()
			if method == "lop-center" {
				m.Center = projected(p, rec.anchor)
				m.Clip, m.Radius = at.near(floats.Distance(m.Center, rec.anchor, 2))
			}
			l, err := loss.NewClipped(p.Loss, m.Clip)
			if err != nil {
				return sweep.Task{}, err
			}
			clipped := *p
			clipped.Loss = l
			excess = clipped.Perturb(erm.Perturbation{})
		}
		linear, err := m.Plan(p, budget)
		if err != nil {
			return sweep.Task{}, err
		}
		q := linear.Params()
		d.showUsed("σ", q.Sigma)
		d.showUsed("rate", q.Rate) // of ‖b‖ for a pure guarantee
		d.show(constant{"Δ", q.Ridge})
		d.showUsed("clip", m.Clip)
		d.OutputSigma, predicted = q.OutputSigma, q.ExcessBound
		d.Comparator, plan = "nonprivate", linear
		if comparator, err = s.nonprivate(ctx, p, at); err != nil {
			return sweep.Task{}, err
		}
	case "qop-tilt":
		tilted, err := s.tilted(p, rec.anchor, at)
		if err != nil {
			return sweep.Task{}, err
		}
		q := tilted.Params()
		d.show(constant{"σ²m", q.Curvature}, constant{"m", q.Degrees}, constant{"σ²", q.Sigma2}, constant{"τ", q.SlopeSigma},
			constant{"clip", q.Clip})
		d.OutputSigma, predicted, plan = q.OutputSigma, q.ExcessBound, tilted.Traced(d.trace)
		comparator, d.Comparator = projected(p, rec.anchor), "anchor"
	case "qop", "qop-exact":
		if method == "qop-exact" {
			at.Eta = 0
		}
		// The projected anchor is a public point of the box; qop also has to beat it.
		shared, err := s.quadratic(p, rec.anchor, at)
		if err != nil {
			return sweep.Task{}, err
		}
		q := shared.Params()
		d.show(constant{"σ²m", q.Curvature}, constant{"m", q.Degrees}, constant{"σ²", q.Sigma2})
		comparator = projected(p, rec.anchor)
		// At distance D from θ*: σ²m(D+η)²/2 + nLdσ̃²/2 + λdσ̃, λ√d the Lipschitz constant of λ‖θ‖₁.
		reach := floats.Distance(comparator, rec.anchor, 2) + at.Eta + q.Eta
		dim, sigma := float64(q.Dim), q.OutputSigma
		predicted = q.Curvature*reach*reach/2 + float64(q.Records)*dim*q.Constants.Smoothness*sigma*sigma/2 +
			at.Lambda*dim*sigma
		d.OutputSigma, d.Comparator, plan = sigma, "anchor", shared.Traced(d.trace)
	default:
		return sweep.Task{}, fmt.Errorf("no method %q", method)
	}
	least, sum := excess.Func(comparator)+p.Reg.Func(comparator), 0.0
	var kept sweep.Fitted
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			theta, err := kept.Fit(ctx, &s.c.Options, src, func(ctx context.Context, src rand.Source) (*dp.Release, error) {
				return plan.Fit(ctx, p, src)
			})
			if err != nil {
				return 0, err
			}
			value := risk.Func(theta)
			at := value
			if excess != risk {
				at = excess.Func(theta)
			}
			sum += at + p.Reg.Func(theta) - least
			return value / float64(n), nil
		},
		Detail: func() any {
			d.Certificate = kept.Certificate
			d.PredictedExcess, d.MeasuredExcess = finite(predicted/float64(n)), finite(sum/float64(at.Runs*n))
			return d
		},
	}, nil
}

// quadratic calibrates qop, once for all boxes. An exact anchor leaves nothing to tune; for η > 0
// the calibration is tuned for D = ‖anchor‖ + η, the largest distance of θ* from the projected
// anchor that a box can bring about.
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
	return s.plans.Get(planKey{n, d, at.Epsilon, at.Eta}, func() (*qop.Plan, error) {
		unit := lasso.Problem(p.Data, at.Lambda, 1) // not the box of the cell that comes first
		return m.Plan(unit, dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta})
	})
}

// tilted calibrates qop without interpolation, once for all boxes that hold the anchor.
func (s *dataSource) tilted(p *erm.Problem, anchor []float64, at scalingParams) (*qop.Plan, error) {
	moved := floats.Distance(projected(p, anchor), anchor, 2)
	clip, distance := at.near(moved)
	m := &qop.Mechanism{
		Center: anchor, Interpolation: qop.Tilt{Clip: clip}, Radius: distance,
		Cover: 1e-8 * math.Max(1, floats.Norm(anchor, 2)),
	}
	n, d := p.Data.Dims()
	return s.tilts.Get(tiltKey{n, d, at.Epsilon, clip}, func() (*qop.Plan, error) {
		problem := p
		if moved == 0 {
			problem = lasso.Problem(p.Data, at.Lambda, 2*math.Max(1, floats.Norm(anchor, math.Inf(1)))) // not the first box
		}
		return m.Plan(problem, dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta})
	})
}

// nonprivate minimizes without a perturbation, once for all methods. Not private.
func (s *dataSource) nonprivate(ctx context.Context, p *erm.Problem, at scalingParams) ([]float64, error) {
	n, d := p.Data.Dims()
	return s.minima.Get(cellKey{n, d, at.Kappa, at.LabelNoise}, func() ([]float64, error) {
		problem := splitting.Problem{F: p.Perturb(erm.Perturbation{}), G: p.Reg, H: p.Set}
		res, err := splitting.Minimize(ctx, problem, make([]float64, d), nil)
		if err != nil {
			return nil, err
		}
		return res.X, nil
	})
}

// published is the task of a private method of -mode paper, the published procedure with its
// constants m = 2d, L = dξ², δ₁ = δ₃ = δ/2. Not private.
func (s *dataSource) published(in *lasso.Instance, method string, at scalingParams) (sweep.Task, error) {
	_, dim := in.Dims()
	q, err := lasso.Published{
		Dim: dim, Degrees: 2 * float64(dim), Rank: at.Rho, Smoothness: float64(dim) * in.Xi * in.Xi,
		Epsilon1: at.Epsilon, Delta1: at.Delta / 2, Delta3: at.Delta / 2,
	}.Constants(true)
	if err != nil {
		return sweep.Task{}, err
	}
	e, err := s.experiments.Get(publishedKey{in, at.Epsilon}, func() (*lasso.Experiment, error) {
		p := lasso.Paper{Epsilon: at.Epsilon, Delta: at.Delta, Lambda: at.Lambda, Iterations: at.Iterations,
			Clip: at.Clip}
		return p.Experiment(in, q.Sigma2)
	})
	if err != nil {
		return sweep.Task{}, err
	}
	m := map[string]lasso.Method{"lop": lasso.LOP, "lop-clip": lasso.LOPClip, "qop": lasso.QOP}[method]
	var d scalingDetail
	d.show(constant{"L", e.L()})
	if m == lasso.QOP {
		edge := math.Sqrt(e.Dof()) + math.Sqrt(e.Dof()/2) // the square root of λ_max(W) for large W, m = 2d
		d.show(constant{"α", q.Alpha}, constant{"α₁", q.Alpha1}, constant{"f₂", q.F2}, constant{"σ²", q.Sigma2},
			constant{"m", e.Dof()}, constant{"ω at λ_max = (√m+√d)²", e.Omega(edge * edge)})
	} else {
		c := e.Linear(m, at.Kappa)
		d.show(constant{"Δ", c.Ridge}, constant{"ζ", c.Zeta}, constant{"s", c.Noise}, constant{"ω", c.Omega})
	}
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			theta, err := e.Solve(ctx, m, at.Kappa, src)
			if err != nil {
				return 0, err
			}
			if floats.Norm(theta, math.Inf(1)) > at.Kappa {
				d.Outside++
			}
			return in.Risk(theta), nil
		},
		Detail: func() any { return d },
	}, nil
}
