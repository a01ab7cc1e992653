// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// Verdict of a case.
type Verdict string

// The verdicts.
const (
	Holds    Verdict = "holds"    // the claim was not refuted
	Violated Verdict = "VIOLATED" // the claim is refuted
	Blind    Verdict = "blind"    // the measurement had too little power to count
)

// Finding is the result of a measurement.
type Finding struct {
	Claim    dp.Budget
	Theorem  string
	Relation dp.Relation

	Runs  int     // releases, of both data sets
	Exact float64 // the exact ε of the pair at Claim.Delta, NaN if unknown
	Lower float64 // a lower bound on ε with confidence 1 − testkit.FalseReject, NaN if not measured
	Tests []Test  // of the white box; each may reject with probability testkit.FalseReject over their number
	// Power of the white box is the probability to see an error of 5 % in the scale of the noise, of
	// the black box the proved share of the exact ε, of the exact layer 1.
	Power     float64
	Least     float64 // the power below which the case is Blind
	Profile   []Point // the privacy profile, claimed and measured
	Tolerance float64 // the relative accuracy of Exact and Profile; 0 means 1e-6
	Reason    string  // why the claim is refuted, if the numbers do not show it
}

// Point is one point of a privacy profile.
type Point struct {
	Epsilon  float64 `json:"epsilon"`
	Claimed  float64 `json:"claimed"`
	Measured float64 `json:"measured"`
}

// tolerance is the relative error of the quadratures behind Exact and Profile.
const tolerance = 1e-6

// Verdict weighs the finding:
//
//	Violated   a test rejects; ε_LB or the exact ε exceeds the claim; ε_LB exceeds
//	           the exact ε; the profile exceeds the claimed one or is NaN
//	Blind      not Violated, but with less power than Least, or nothing was measured
func (f Finding) Verdict() Verdict {
	_, p := f.Worst()
	slack := 1 + max(f.Tolerance, tolerance)
	over := func(x, bound float64) bool { return x > bound*slack } // false for NaN
	bad := f.Reason != "" || p < testkit.FalseReject || over(f.Lower, f.Claim.Epsilon) ||
		over(f.Exact, f.Claim.Epsilon) || over(f.Lower, f.Exact)
	for _, x := range f.Profile {
		bad = bad || !(x.Measured <= x.Claimed*slack) // true for NaN
	}
	switch {
	case bad:
		return Violated
	case f.Least > 0 && !(f.Power >= f.Least), f.Runs == 0 && len(f.Profile) == 0:
		return Blind
	}
	return Holds
}

// Worst returns the test with the least p-value, corrected for the number of tests; "" and 1
// without tests.
func (f Finding) Worst() (name string, p float64) {
	p = 1
	for _, t := range f.Tests {
		q := t.P * float64(len(f.Tests))
		if math.IsNaN(q) {
			q = 0
		}
		if q < p {
			name, p = t.Name, q
		}
	}
	return name, p
}

// falseClaim reports a release that claims less than was asked for. The case measures the noise for
// the request, so it would not see a certificate that states a smaller claim.
type falseClaim struct {
	cert  dp.Certificate
	asked dp.Budget
}

func (e *falseClaim) Error() string {
	return fmt.Sprintf("audit: %v was asked for, the certificate says %v", e.asked, e.cert)
}

// asFor returns an error unless the certificate states the relation and at least the budget.
func asFor(cert dp.Certificate, asked dp.Budget, rel dp.Relation) error {
	if cert.Epsilon >= asked.Epsilon && cert.Delta >= asked.Delta && cert.Relation == rel {
		return nil
	}
	return &falseClaim{cert, asked}
}

// Claimed returns the finding of a release that claims c, with nothing measured.
func Claimed(c dp.Certificate) Finding {
	return Finding{
		Claim: c.Budget, Theorem: c.Theorem, Relation: c.Relation,
		Exact: math.NaN(), Lower: math.NaN(), Power: 1,
	}
}

// repeat calls release runs times with one stream and returns the results.
func repeat(
	ctx context.Context, runs int, src rand.Source, release func(ctx context.Context, src rand.Source) ([]float64, error),
) (rows [][]float64, err error) {
	rows = make([][]float64, runs)
	for i := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if rows[i], err = release(ctx, src); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// recovered is the white box: score releases once and returns numbers that are independent standard
// normal under the claim, equally many each time. They come from the released point, not from the
// plan. It fills in Runs, Tests and Power.
func recovered(
	ctx context.Context, e *env, claim dp.Certificate, runs int,
	score func(ctx context.Context, src rand.Source) ([]float64, error),
) (Finding, error) {
	f := Claimed(claim)
	f.Runs, f.Least = runs, 0.99
	z, err := repeat(ctx, runs, e.source("white"), score)
	if err != nil {
		return f, err
	}
	if len(z) == 0 || len(z[0]) == 0 {
		return f, fmt.Errorf("audit: %s: no scores", e.name)
	}
	f.Tests = scoreTests(z)
	f.Power = scalePower(runs*len(z[0]), 0.05, testkit.FalseReject/float64(len(f.Tests)))
	return f, nil
}

// distinguish is the black box: release returns the attacker's view of one release on data set i.
// exact is the exact ε of the pair at the claimed δ, NaN if unknown; scores are functions of an
// output that an informed attacker would threshold, such as the log-likelihood ratio. It fills in
// Runs, Lower, Exact and Power.
func distinguish(
	ctx context.Context, e *env, claim dp.Certificate, runs int, exact float64,
	release func(ctx context.Context, i int, src rand.Source) ([]float64, error), scores ...func(x []float64) float64,
) (Finding, error) {
	f := Claimed(claim)
	f.Runs, f.Exact = 2*runs, exact
	var out [2][][]float64
	for i := range out {
		var err error
		out[i], err = repeat(ctx, runs, e.source("black", fmt.Sprint(i)),
			func(ctx context.Context, src rand.Source) ([]float64, error) { return release(ctx, i, src) })
		if err != nil {
			return f, err
		}
	}
	f.Lower = testkit.SampleBound(out[0], out[1], claim.Delta, scores...)
	f.Power = math.NaN()
	if exact > 0 {
		f.Power = f.Lower / exact
	}
	if e.tier == Long && exact > 0 { // millions of releases prove half of it, unless the events are wrong
		f.Least = 0.5
	}
	return f, nil
}

// integrate is the exact layer: stick(ε) is the larger of the two hockey-stick divergences of the
// pair at ε, claimed the profile that the release claims. It fills in Exact and Profile.
func integrate(claim dp.Certificate, claimed dp.Curve, stick func(eps float64) float64) Finding {
	f := Claimed(claim)
	f.Exact = epsilonAt(stick, claim.Delta)
	for i := range 41 {
		eps := claim.Epsilon * float64(i) / 20
		f.Profile = append(f.Profile, Point{eps, claimed(eps), stick(eps)})
	}
	return f
}

// epsilonAt returns the least ε ≥ 0 with stick(ε) ≤ delta, to 1e-9, or +Inf beyond dp.MaxEpsilon.
// A pure claim is measured at δ = 1e-12, because a quadrature has no zero.
func epsilonAt(stick func(eps float64) float64, delta float64) float64 {
	above := func(eps float64) bool { return !(stick(eps) <= max(delta, 1e-12)) }
	if !above(0) {
		return 0
	}
	hi := 1.0
	for above(hi) {
		if hi *= 2; hi > dp.MaxEpsilon {
			return math.Inf(1)
		}
	}
	_, hi = num.BisectTo(above, 0, hi, 1e-9)
	return hi
}

// normalScore returns the standard score of a value whose distribution function is p = F(x) and
// whose upper tail is q = 1 − F(x), without loss in either tail.
func normalScore(p, q float64) float64 {
	if p < q {
		return num.NormalQuantile(p)
	}
	return -num.NormalQuantile(q)
}
