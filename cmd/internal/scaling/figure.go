package scaling

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// kind is a row of constants that Figure 1 compares; a structure of 0 means the published ones.
type kind struct {
	name, legend string
	structure    loss.Structure
}

// kinds go from the least sharp to the sharpest.
var kinds = []kind{
	{"published", "published, repaired", 0},
	{"general", "sharp, any loss", loss.General},
	{"glm", "sharp, generalized linear", loss.GLM},
	{"lsq", "sharp, least squares", loss.LSQ},
}

// bound returns the bound on the excess risk at the budget b: with eta = 0 for the exact minimizer,
// to which a release comes as near as the output noise allows.
func (k kind) bound(b dp.Budget, eta float64) (float64, error) {
	if k.structure == 0 {
		return publishedBound(b, eta)
	}
	const d = 12
	m := qop.Mechanism{Radius: 1, Eta: eta}
	if eta == 0 {
		m.Share = 1e-9 // nearly all of the budget for the curvature
	}
	q := erm.Public{Dim: d, Records: 10, Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: k.structure}}
	plan, err := m.Calibrate(q, b)
	if err != nil {
		return 0, err
	}
	p := plan.Params()
	if eta == 0 {
		return p.Curvature / 2, nil
	}
	return p.ExcessBound + math.Sqrt(d)*p.OutputSigma, nil
}

// deltas are the curves of the published figure.
var deltas = []float64{1e-5, 1e-4, 1e-3, 1e-2}

// figure is Figure 1 of [CC26]: the bound on the excess risk of qop, minimized
// over the free parameters, against ε, with n = 10, d = 12, D = ρ = G = L = 1.
// A positive -eta is the error of the anchor, and in the published bound also the gap τ of the solver.
func (c *config) figure() *sweep.Experiment {
	type curve struct {
		kind  int
		delta float64
	}
	curves := map[string]curve{}
	e := &sweep.Experiment{
		Name:   "scaling",
		Files:  "bound",
		Sweep:  "eps",
		Values: c.values,
		Params: map[string]any{"figure": c.Figure, "eta": c.Eta},
		Plot: sweep.Plot{
			Title: "Bound on the excess risk of quadratic perturbation (n = 10, d = 12, D = rho = G = L = 1, exact anchor and solve)",
			X:     "epsilon",
			Y:     "bound on the expected excess risk",
			Style: map[string]sweep.Style{},
		},
	}
	if c.Eta > 0 {
		e.Plot.Title = strings.Replace(e.Plot.Title, "exact anchor and solve", fmt.Sprintf("eta = %v", c.Eta), 1)
	}
	for _, delta := range deltas {
		e.Plot.Dashes = append(e.Plot.Dashes, fmt.Sprintf("delta = %g", delta))
	}
	for i, k := range kinds {
		e.Plot.Colors = append(e.Plot.Colors, k.legend)
		for j, delta := range deltas {
			name := fmt.Sprintf("%s/%g", k.name, delta)
			curves[name] = curve{i, delta}
			e.Methods = append(e.Methods, name)
			e.Plot.Style[name] = sweep.Style{Color: i, Dash: j}
		}
	}
	e.Prepare = func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
		k := kinds[curves[cell.Method].kind]
		budget := dp.Budget{Epsilon: cell.Value, Delta: curves[cell.Method].delta}
		return sweep.Task{Runs: 1, Run: func(ctx context.Context, _ rand.Source) (float64, error) {
			return interruptible(ctx, func() (float64, error) { return k.bound(budget, c.Eta) })
		}}, nil
	}
	return e
}

// interruptible returns what f returns, or the context's error as soon as it is cancelled: a bound
// takes up to half a minute and knows no context. f then ends unheard.
func interruptible(ctx context.Context, f func() (float64, error)) (float64, error) {
	done := make(chan struct{})
	var y float64
	var failure error
	go func() {
		defer close(done)
		y, failure = f()
	}()
	select {
	case <-done:
		return y, failure
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
