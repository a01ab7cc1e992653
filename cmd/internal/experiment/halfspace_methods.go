package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
)

// data are the records, and what methods share.
type halfspaceData struct {
	c           *halfspaceConfig
	train, test integers
	denominator float64
	smooth      *erm.Data

	mu       sync.Mutex
	problems map[string]*objpert.Problem

	once     sync.Once
	exact    *objpert.Solution // without noise
	exactErr error
}

// detail is what a cell keeps besides its mean. Not private, but for the plan and the certificate.
type halfspaceDetail struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`
	Claimed     dp.Budget       `json:"claimed,omitzero"`
	Noises      int             `json:"noises,omitempty"`
	Scale       float64         `json:"scale,omitempty"`
	Test        []float64       `json:"test,omitempty"`    // held-out accuracy of each run
	Seconds     []float64       `json:"seconds,omitempty"` // of each fit
	Nodes       []int64         `json:"nodes,omitempty"`
	Unproven    int             `json:"unproven,omitempty"`
	Laps        []Lap           `json:"laps,omitempty"` // of -oracle cmd:NAME
}

// fitter is a calibrated mechanism.
type fitFunc func(ctx context.Context, src rand.Source) (*dp.Release, error)

// ternary and signs are the values of product spaces.
var (
	ternary = objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}
	signs   = objpert.Space{Values: []int{-1, 1}, NormSq: -1}
)

// prepare calibrates a cell. Everything that scales noise is a flag or public;
// the records are read by Fit alone.
func (d *halfspaceData) prepare(cell sweep.Cell) (sweep.Task, error) {
	m := d.c.method(cell.Method)
	b := dp.Budget{Epsilon: cell.Value, Delta: d.c.Delta}
	det := &halfspaceDetail{}
	var last *objpert.Solution
	var against *race
	var fit fitFunc
	var err error
	switch m.kind {
	case "nonprivate":
		return d.nonprivate(m, det)
	case "logistic":
		fit, err = d.logistic(b, det)
	default:
		oracle := d.c.oracle()
		if d.c.external() {
			against = d.c.race()
			oracle = against
		}
		fit, err = d.discrete(m, b, oracle, det, &last)
	}
	if err != nil {
		return sweep.Task{}, err
	}
	return sweep.Task{
		Runs: d.c.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			if d.c.Seed == nil {
				src = nil // secure noise, for which no caller has to vouch
			}
			if m.kind != "logistic" && against == nil {
				bounded, cancel := d.c.bounded(ctx)
				defer cancel()
				ctx = bounded
			}
			last = nil
			start := time.Now()
			rel, err := fit(ctx, src)
			det.Seconds = append(det.Seconds, time.Since(start).Seconds())
			var w []float64
			switch {
			case err == nil:
				w = rel.Theta
				det.Certificate = &rel.Certificate
			case against != nil && errors.Is(err, dp.ErrWithheld) && (last != nil || against.lap.NoPoint):
				// No release: the label of the experiment says so.
				w = make([]float64, len(d.train.row[0]))
				if last != nil {
					w = toFloats(last.W)
				}
				det.Unproven++
				det.Laps = append(det.Laps, against.lap)
			default:
				return 0, err
			}
			if last != nil {
				det.Nodes = append(det.Nodes, last.Nodes)
			}
			return d.measure(det, w), nil
		},
		Detail: func() any { return det },
	}, nil
}

// measure returns the training accuracy and keeps the held-out one.
func (d *halfspaceData) measure(det *halfspaceDetail, w []float64) float64 {
	if len(d.test.row) > 0 {
		det.Test = append(det.Test, d.test.accuracy(w))
	}
	return d.train.accuracy(w)
}

// discrete calibrates a mechanism over integer weights.
func (d *halfspaceData) discrete(m halfspaceMethod, b dp.Budget, oracle objpert.Oracle, det *halfspaceDetail, last **objpert.Solution) (fitFunc, error) {
	space := ternary
	switch {
	case m.q > 0:
		space = objpert.Lattice(m.q)
	case m.kind == "cube":
		space = signs
	}
	p, err := d.problem(space)
	if err != nil {
		return nil, err
	}
	trace := func(t objpert.Trace) { *last = t.Solution }
	var plan *objpert.Plan
	switch m.kind {
	case "opdisc":
		plan, err = (&objpert.OPDisc{Oracle: oracle, Trace: trace}).Plan(p, b)
	case "gaussian":
		plan, err = (&objpert.OPDisc{Law: objpert.Gaussian, Oracle: oracle, Trace: trace}).Plan(p, b)
	case "paper":
		plan, err = (&objpert.OPDisc{Law: objpert.PaperSigma, Oracle: oracle, Trace: trace}).Plan(p, b)
	case "product", "cube":
		plan, err = (&objpert.Product{Oracle: oracle, Trace: trace}).Plan(p, b)
	case "rspm":
		plan, err = (&objpert.RSPM{Oracle: oracle, Trace: trace}).Plan(p, b)
	case "rspm-paper":
		plan, err = (&objpert.RSPM{Law: objpert.PaperSigma, Oracle: oracle, Trace: trace}).Plan(p, b)
	default:
		return nil, fmt.Errorf("no method %q", m.kind)
	}
	if err != nil {
		return nil, err
	}
	det.Claimed, det.Noises, det.Scale = b, plan.Params().Noises, plan.Params().Scale
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// problem merges the records over a space, once.
func (d *halfspaceData) problem(space objpert.Space) (*objpert.Problem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := fmt.Sprint(space.Values, space.NormSq)
	if p, ok := d.problems[key]; ok {
		return p, nil
	}
	p, err := objpert.NewProblem(d.train.row, d.train.label, nil, space)
	if err != nil {
		return nil, err
	}
	d.problems[key] = p
	return p, nil
}

// logistic calibrates logistic regression by linear objective perturbation.
func (d *halfspaceData) logistic(b dp.Budget, det *halfspaceDetail) (fitFunc, error) {
	p := &erm.Problem{Data: d.smooth, Loss: loss.Logistic{}}
	plan, err := (&lop.Mechanism{Radius: d.c.Radius}).Plan(p, b)
	if err != nil {
		return nil, err
	}
	det.Claimed, det.Scale = plan.Certificate().Budget, plan.Params().Sigma
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// nonprivate minimizes the 0/1 loss without noise, once for all ε.
func (d *halfspaceData) nonprivate(m halfspaceMethod, det *halfspaceDetail) (sweep.Task, error) {
	p, err := d.problem(objpert.Lattice(m.q))
	if err != nil {
		return sweep.Task{}, err
	}
	return sweep.Task{Runs: 1, Run: func(ctx context.Context, _ rand.Source) (float64, error) {
		d.once.Do(func() {
			ctx, cancel := d.c.bounded(ctx)
			defer cancel()
			d.exact, d.exactErr = d.c.oracle().Solve(ctx, p)
		})
		if d.exactErr != nil {
			return 0, fmt.Errorf("nonprivate: %w: the minimizer was not proven: %w", dp.ErrWithheld, d.exactErr)
		}
		return d.measure(det, toFloats(d.exact.W)), nil
	}, Detail: func() any { return det }}, nil
}

func toFloats(w []int) []float64 {
	x := make([]float64, len(w))
	for j, v := range w {
		x[j] = float64(v)
	}
	return x
}
