// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// boundKind is a row of constants that Figure 1 compares; structure 0 stands for the published
// ones.
type boundKind struct {
	name, legend string
	structure    loss.Structure
}

// boundKinds go from the least sharp to the sharpest.
var boundKinds = []boundKind{
	{"published", "published, repaired", 0},
	{"general", "ours, any loss", loss.General},
	{"glm", "ours, generalized linear", loss.GLM},
	{"lsq", "ours, least squares", loss.LSQ},
}

// bound returns the bound on the excess risk at the budget b: with eta = 0 for the exact minimizer,
// to which a release comes as near as the output noise allows.
func (k boundKind) bound(b dp.Budget, eta float64) (float64, error) {
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

// boundExperiment is Figure 1 of [CC26]: the bound on the excess risk of qop, minimized over the
// free parameters, against ε, with n = 10, d = 12, D = ρ = G = L = 1. A positive -eta is the error
// of the anchor, and in the published bound also the gap τ of the solver.
func (c *scalingConfig) boundExperiment() *sweep.Experiment {
	exact := "exact anchor and solve"
	if c.Eta > 0 {
		exact = fmt.Sprintf("eta = %v", c.Eta)
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
	last := len(deltas) - 1
	e.Plot.Dashes = []string{fmt.Sprintf("delta = %g", deltas[0]), fmt.Sprintf("delta = %g", deltas[last])}
	for i, k := range boundKinds {
		e.Plot.Colors = append(e.Plot.Colors, k.legend)
		for j, delta := range deltas {
			name := fmt.Sprintf("%s/%g", k.name, delta)
			e.Methods = append(e.Methods, name)
			if j == 0 || j == last { // the table has the others
				e.Plot.Style[name] = sweep.Style{Color: i, Dash: j / last}
			}
		}
	}
	e.Prepare = func(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
		i := slices.Index(e.Methods, cell.Method)
		k := boundKinds[i/len(deltas)]
		budget := dp.Budget{Epsilon: cell.Value, Delta: deltas[i%len(deltas)]}
		return sweep.Once(func(context.Context) (float64, error) { return k.bound(budget, c.Eta) }), nil
	}
	return e
}

// publishedBound returns the bound of Figure 1 of [CC26] with the repaired constants,
//
//	nLdσ̃²/2 + G√d·σ̃ + τ + (σ²m/2)(D²+η²),
//
// for n = 10, d = 12, D = ρ = G = L = 1 and τ = η, minimized over log(m−d), the share of ε₁ and
// those of δ₁…δ₄.
func publishedBound(b dp.Budget, eta float64) (float64, error) {
	const n, d = 10.0, 12.0
	logBound := func(x []float64) float64 {
		w := [4]float64{1, math.Exp(x[1]), 0, 0}
		e1 := 1.0
		if eta > 0 {
			w[2], w[3] = math.Exp(x[3]), math.Exp(x[4])
			e1 = 1 / (1 + math.Exp(-x[2]))
		}
		sum := w[0] + w[1] + w[2] + w[3]
		in := lasso.Published{
			Dim: d, Degrees: d + 1 + math.Exp(x[0]), Rank: 1, Smoothness: 1,
			Epsilon1: e1 * b.Epsilon, Epsilon2: (1 - e1) * b.Epsilon,
			Delta1: b.Delta * w[0] / sum, Delta3: b.Delta * w[1] / sum,
			Delta2: b.Delta * w[2] / sum, Delta4: b.Delta * w[3] / sum,
			Tau: eta, Eta: eta,
		}
		c, err := in.Constants(false)
		if err != nil || math.IsInf(c.Alpha1, 1) {
			return 1e300 // the search averages values
		}
		s := c.OutputSigma
		return num.Log(n*d/2*s*s + math.Sqrt(d)*s + eta + c.Sigma2*in.Degrees/2*(1+eta*eta))
	}
	best := math.Inf(1)
	starts := [][]float64{
		{num.Log(d + 1), 0, 0, 0, 0}, {num.Log(3*d + 3), -2, 1, -1, -1}, {num.Log(6*d + 6), -4, -1, 1, 0},
	}
	for _, x := range starts {
		if eta == 0 {
			x = x[:2]
		}
		settings := &optimize.Settings{FuncEvaluations: 600, Converger: optimize.NeverTerminate{}}
		found, err := optimize.Minimize(optimize.Problem{Func: logBound}, x, settings, &optimize.NelderMead{SimplexSize: 0.5})
		if found == nil {
			return 0, err
		}
		best = math.Min(best, math.Exp(found.F))
	}
	if math.IsInf(best, 1) {
		return 0, fmt.Errorf("the published constants do not exist for %v", b)
	}
	return best, nil
}
