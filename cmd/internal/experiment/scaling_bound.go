package experiment

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// boundKinds are the constants that Figure 1 compares, least sharp first.
var boundKinds = []struct {
	name, legend string
	calibration  qop.Calibration
	structure    loss.Structure
}{
	{"published", "published, repaired", qop.Paper, loss.General},
	{"general", "sharp, any loss", qop.Sharp, loss.General},
	{"glm", "sharp, generalized linear", qop.Sharp, loss.GLM},
	{"lsq", "sharp, least squares", qop.Sharp, loss.LSQ},
}

// deltas are the curves of the published figure.
var deltas = []float64{1e-5, 1e-4, 1e-3, 1e-2}

// boundExperiment is Figure 1 of [CC26]: the bound on the excess risk of qop, minimized over the free
// parameters, against ε, with n = 10, d = 12, D = ρ = G = L = 1. A positive -eta gives the branch for
// inexact solves, τ = η.
func (c *scalingConfig) boundExperiment() *sweep.Experiment {
	exact := "exact anchor and solve"
	if c.Eta > 0 {
		exact = fmt.Sprintf("tau = eta = %v", c.Eta)
	}
	e := &sweep.Experiment{
		Name: "scaling", Files: "bound", Sweep: "eps", Values: c.values,
		Params: map[string]any{"figure": c.Figure, "eta": c.Eta},
		Plot: sweep.Plot{
			Title: "Bound on the excess risk of quadratic perturbation (n = 10, d = 12, D = rho = G = L = 1, " + exact + ")",
			X:     "epsilon",
			Y:     "bound on the expected excess risk",
			Style: map[string]sweep.Style{},
		},
	}
	for _, delta := range deltas {
		e.Plot.Dashes = append(e.Plot.Dashes, fmt.Sprintf("delta = %g", delta))
	}
	for i, k := range boundKinds {
		e.Plot.Colors = append(e.Plot.Colors, k.legend)
		for j, delta := range deltas {
			name := fmt.Sprintf("%s/%g", k.name, delta)
			e.Methods = append(e.Methods, name)
			e.Plot.Style[name] = sweep.Style{Color: i, Dash: j}
		}
	}
	e.Prepare = func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
		style := e.Plot.Style[cell.Method]
		k := boundKinds[style.Color]
		u := qop.Utility{
			Records: 10, Dim: 12, Radius: 1, RegLipschitz: 1,
			Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: k.structure},
			Tau:       c.Eta, Eta: c.Eta, Calibration: k.calibration,
		}
		budget := dp.Budget{Epsilon: cell.Value, Delta: deltas[style.Dash]}
		return once(func(ctx context.Context) (float64, error) {
			return interruptible(ctx, func() (float64, error) { return u.Bound(budget) })
		}), nil
	}
	return e
}

// interruptible returns the result of f, or the error of the context as soon as it is cancelled: a
// bound takes up to half a minute and knows no context. Then nobody reads the result of f.
func interruptible(ctx context.Context, f func() (float64, error)) (float64, error) {
	done := make(chan struct{})
	var failure error
	var value float64
	go func() {
		defer close(done)
		value, failure = f()
	}()
	select {
	case <-done:
		return value, failure
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
