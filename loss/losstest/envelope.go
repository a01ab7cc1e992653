package losstest

import (
	"math"

	"github.com/privopt/privopt/loss"
)

// envelope tests the declared envelope h against the loss itself on a grid of row
// norms, weights w ≤ 1, labels and predictions: with g = w‖a‖|φ′|
//
//	‖a‖²φ″ ≤ h(g, g) at w = 1,   w‖a‖²φ″ ≤ h(g, L) at every w
//
// the second because a record of weight w counts as the record itself, whose
// gradient is larger. It tests too that h of an interval is at least h inside, and
// at most β.
func (c *checker) envelope(e loss.Envelope, bounds loss.Bounds) {
	c.Helper()
	k := e.Constants(bounds, math.Inf(1))
	if h := e.Envelope(bounds, 0, k.Lipschitz); !(h <= k.Smoothness) {
		c.Errorf("Envelope(%+v, 0, %v) = %v is above β = %v", bounds, k.Lipschitz, h, k.Smoothness)
	}
	var at []float64 // distances of predictions from a label or a margin
	for x := 1e-4; x < 3e3; x *= 1.25 {
		at = append(at, x, -x)
	}
	for _, t := range []float64{1, 0.999, 0.9, 0.6, 0.3, 0.1, 1e-3} {
		norm := t * bounds.Row
		for _, b := range []float64{bounds.Label, -bounds.Label, 0.3 * bounds.Label, 0} {
			for _, x := range at {
				for _, u := range []float64{x, b + x, 1 + x, -1 + x, x / norm} {
					_, dphi, d2phi := e.Scalar(u, b, norm)
					c.curvature(e, bounds, norm*math.Abs(dphi), norm*norm*d2phi, k.Lipschitz)
				}
			}
		}
	}
}

// curvature tests one record with a gradient of norm g and the curvature h.
func (c *checker) curvature(e loss.Envelope, bounds loss.Bounds, g, h, lipschitz float64) {
	c.Helper()
	point := e.Envelope(bounds, g, g)
	if h > point*(1+rounding) {
		c.Errorf("curvature %v beats Envelope(%+v, %v, %v) = %v", h, bounds, g, g, point)
	}
	for _, w := range []float64{0.9, 0.5, 0.01} {
		if wide := e.Envelope(bounds, w*g, lipschitz); w*h > wide*(1+rounding) {
			c.Errorf("curvature %v of weight %v beats Envelope(%+v, %v, %v) = %v", w*h, w, bounds, w*g, lipschitz, wide)
		}
	}
	lo, hi := g*(1-c.rnd.Float64()), g+(lipschitz-g)*c.rnd.Float64()
	cell := e.Envelope(bounds, lo, hi)
	if wider := e.Envelope(bounds, lo/2, hi); cell < point*(1-rounding) || wider < cell*(1-rounding) {
		c.Errorf("Envelope(%+v, %v, %v) = %v is below %v inside, at %v, or above %v of a wider interval", bounds, lo, hi, cell, point, g, wider)
	}
}
