// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/testkit"
)

// Plans are proved by intervals (package enclose). This case compares the intervals with numbers of
// 320 bits from package testkit, which shares no code with them. An interval that misses its number
// is a violation, and so is the proof of an inequality that is false by a unit in the last place.
func enclosureMechanisms() []mechanism {
	const name = "enclosure/δ_G"
	return []mechanism{{
		name:  "enclosure",
		cases: []Case{{Name: "δ_G", Layer: Exact, run: enclosures}},
		controls: []Control{
			{"enclosure-swapped", "the sides of an inequality that is to be proved are swapped", name, 0,
				edit(enclose.Sides, func(s *[2]enclose.Interval) { s[0], s[1] = s[1], s[0] })},
			{"enclosure-convergent", "one convergent of the Mills ratio too few: from the other side", name, 0,
				one(enclose.Depth, func(n int) int { return n - 1 })},
			{"enclosure-remainder", "the remainder of a series is dropped", name, 0,
				one(enclose.Remainder, always(new(big.Float)))},
		},
	}}
}

func enclosures(ctx context.Context, e *env) (Finding, error) {
	f := Claimed(dp.Certificate{Budget: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: dp.Replace, Theorem: "enclosure"})
	sigma, err := dp.GaussianSigma(f.Claim, 1)
	if err != nil {
		return f, err
	}
	f.Exact = epsilonAt(func(eps float64) float64 {
		delta, _ := testkit.GaussianDelta(testkit.New(eps), testkit.New(1/sigma)).Float64()
		return delta
	}, f.Claim.Delta)
	faults, rnd := fault.From(ctx), rand.New(e.source("enclosures"))
	// At 64 bits Mills ratios come from floats, whose error bound covers for a wrong convergent.
	short, long := enclose.New(64, faults), enclose.New(128, faults)
	holds := func(v enclose.Interval, x *big.Float, what string, args ...float64) {
		if f.Runs++; f.Reason == "" && (v.Lo.Cmp(x) > 0 || v.Hi.Cmp(x) < 0) {
			f.Reason = fmt.Sprintf("the interval of %s at %v misses its value", what, args)
		}
	}
	for run := range 400 * int(e.tier) {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		c := short
		if run%2 == 1 {
			c = long
		}
		x := 40 * rnd.Float64()
		holds(c.Exp(c.Of(x)), testkit.Exp(testkit.New(x)), "exp", x)
		holds(c.Mills(c.Of(x-3)), testkit.Mills(testkit.New(x-3)), "the Mills ratio", x-3)
		s := math.Ldexp(1+rnd.Float64(), -rnd.IntN(14))
		eps := s * (s/2 + 12*rnd.Float64())
		want := testkit.GaussianDelta(testkit.New(eps), testkit.New(s))
		v := c.GaussianDelta(c.Of(eps), c.Of(s))
		holds(v, want, "δ_G", eps, s)
		target, acc := want.Float64()
		if acc != big.Below {
			target = math.Nextafter(target, 0)
		}
		if f.Reason == "" && enclose.Proves(faults, func(c enclose.Arithmetic) (less, more enclose.Interval) {
			return c.GaussianDelta(c.Of(eps), c.Of(s)), c.Of(target)
		}) {
			f.Reason = fmt.Sprintf("δ_G(%v; %v) ≤ %v is false, and was proved", eps, s, target)
		}
		if claimed, _ := v.Hi.Float64(); len(f.Profile) < 41 {
			f.Profile = append(f.Profile, Point{eps, claimed, target})
		}
	}
	return f, nil
}
