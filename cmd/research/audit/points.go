// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
)

// points is noise on two points of the caller, as far apart as declared. Their other coordinates
// are not a number, or to be clamped.
type points struct {
	additive.Params // of its plan; the fields of the mechanism are the setting
	pair
	profile func(eps float64) float64
	x       [2][]float64
}

// prepare plans, and releases once for the claim.
func (c *points) prepare(ctx context.Context, e *env) error {
	m := additive.Mechanism{Relation: c.Relation, Dim: c.Dim, Radius: 100, L1: c.L1, L2: c.L2}
	plan, err := m.Plan(c.Budget)
	if err != nil {
		return err
	}
	c.Params, c.profile = plan.Params(), plan.Profile().Delta
	for i := range c.x {
		x := append([]float64{0.3 + float64(i)*(c.L1+c.L2)}, math.NaN(), 1e9)[:c.Dim]
		c.x[i] = append([]float64{x[0]}, []float64{0, 100}[:c.Dim-1]...)
		c.fit[i] = func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Release(ctx, x, src) }
	}
	return c.claim(ctx, e, c.Budget, c.Relation)
}

// apart returns the largest distance of two points that are rounded to the grid.
func (c *points) apart() float64 {
	d := float64(c.Dim)
	if c.L1 > 0 && c.Budget.Delta == 0 {
		return c.L1 + c.Grid*d
	}
	return c.L1 + c.L2 + c.Grid*math.Sqrt(d)
}

// white recovers the noise, of the least scale that hides the points.
func (c *points) white(ctx context.Context, e *env) (Finding, error) {
	aux, apart := e.source("cells"), c.apart()
	f, err := c.scores(ctx, e, e.rows(c.Dim), func(i int, rel *dp.Release) ([]float64, error) {
		nu := addedTo(c.x[i], rel.Theta, c.Grid, aux)
		switch {
		case c.Budget.Delta > 0:
			return standard(nu, gaussianScale(c.Budget, apart), 0), nil
		case c.L1 > 0:
			return laplaceScores(apart/c.Budget.Epsilon, nu...), nil
		}
		return standard(nu, 0, c.Budget.Epsilon/apart), nil
	})
	if !(c.Sensitivity >= apart) {
		f.Reason = fmt.Sprintf("the noise is calibrated to hide %.9g, the points are %.9g apart", c.Sensitivity, apart)
	}
	return f, err
}

// exact integrates the laws of two points on a line. The noise is that of the plan.
func (c *points) exact(context.Context, *env) (Finding, error) {
	noise := scalar{c.OutputSigma, 0}
	if c.OutputLaplace > 0 {
		noise.rate = 1 / c.OutputLaplace
	}
	d, err := known(noise.around(0), noise.around(c.apart()), nil)
	if err != nil {
		return Finding{}, err
	}
	return integrate(c.cert, c.profile, d.max), nil
}

// outside sees releases alone.
func (c *points) outside(ctx context.Context, e *env) (Finding, error) {
	f, err := c.exact(ctx, e)
	if err != nil {
		return f, err
	}
	return distinguish(ctx, e, c.cert, e.runs(BlackBox), f.Exact, c.theta)
}

// pointMechanisms lists the laws of package additive.
func pointMechanisms() []mechanism {
	kinds := map[string]kind[*points]{
		"white": {"", WhiteBox, (*points).white},
		"residues": {" residues", WhiteBox, func(c *points, ctx context.Context, e *env) (Finding, error) {
			return c.residues(ctx, e, c.Dim, c.Grid)
		}},
		"exactly": {" exactly", Exact, (*points).exact},
		"outside": {" from outside", BlackBox, (*points).outside},
	}
	of := func(dim int, l1, l2, delta float64) *points {
		b := dp.Budget{Epsilon: 0.5, Delta: delta}
		return &points{Params: additive.Params{Relation: dp.Replace, Dim: dim, L1: l1, L2: l2, Budget: b}}
	}
	quieter := func(by float64) sabotage {
		return one(release.OutputNoise, func(nu []int64) []int64 { return scaled(nu, by) })
	}
	return []mechanism{{name: "additive", cases: cases(kinds, []setting[points]{
		{"ℓ2", "A1", "white twice residues", of(3, 0, 2, 1e-6)},
		{"ℓ1", "A1", "white", of(3, 2, 0, 1e-6)},
		{"ℓ1, pure", "A1", "white residues", of(3, 2, 0, 0)},
		{"ℓ2, pure", "A1", "white residues", of(3, 0, 2, 0)},
		{"a number", "A1", "exactly outside", of(1, 0, 2, 0.01)},
		{"a number, pure", "A1", "exactly outside", of(1, 2, 0, 0)},
	}), controls: []Control{
		{"point-noise", "noise of 0.9 times its scale", "additive/A1/ℓ2", 0, quieter(0.9)},
		{"point-noise-l1", "noise of 0.9 times its scale on a point with an ℓ1 sensitivity", "additive/A1/ℓ1", 0,
			quieter(0.9)},
		{"point-noise-pure", "pure noise of 0.9 times its scale", "additive/A1/ℓ1, pure", 0, quieter(0.9)},
		{"point-noise-radial", "radial noise of 0.9 times its scale", "additive/A1/ℓ2, pure", 0, quieter(0.9)},
		{"point-outside", "an eighth of the noise, seen from outside", "additive/A1/a number from outside", 0,
			quieter(0.125)},
		{"point-rounding", "a point on a finer grid than its noise: the rounding left out", "additive/A1/ℓ2 residues", 0,
			released(func(k, nu int64) int64 { return k + nu&^7 })},
		{"point-repeated", "the noise of the first release again", "additive/A13/ℓ2", 0,
			cached(fault.Step[[]int64](release.OutputNoise), slices.Clone[[]int64])},
	}}}
}
