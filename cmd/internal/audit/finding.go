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
	Holds    Verdict = "holds"    // nothing speaks against the claim
	Violated Verdict = "VIOLATED" // the claim is refuted
	Blind    Verdict = "blind"    // the measurement had too little power to count
)

// Finding is what a case measured.
type Finding struct {
	Claim    dp.Budget
	Theorem  string
	Relation dp.Relation

	Runs int // releases, of both data sets
	// Exact is the exact ε of the pair at Claim.Delta, NaN where it is not known.
	Exact float64
	// Lower is a lower bound on ε at Claim.Delta that is correct with
	// probability 1 − testkit.FalseReject, NaN where it was not measured.
	Lower float64
	// Tests are the tests of the white box. Each may reject with probability
	// testkit.FalseReject over their number.
	Tests []Test
	// Power of the white box is the probability to see an error of 5 % in the scale of the noise; of
	// the black box the share of the exact ε that it proved; of the exact layer 1.
	Power float64
	// Least is the power below which the case is Blind.
	Least float64
	// Profile is the privacy profile, measured against claimed.
	Profile []Point
	// Tolerance is the relative accuracy of Exact and Profile; 0 means 1e-6.
	Tolerance float64
	// Reason says why the claim is refuted where the numbers do not.
	Reason string
}

// tolerance is the relative error of the quadratures behind Exact and Profile.
const tolerance = 1e-6

// Verdict weighs the finding:
//
//	Violated   a test rejects; ε_LB or the exact ε exceeds the claim; ε_LB
//	           exceeds the exact ε; the profile exceeds the claimed one or is no
//	           number
//	Blind      none of that, with less power than asked for, or nothing measured
func (f Finding) Verdict() Verdict {
	_, p := f.Worst()
	over := func(x, bound float64) bool { return x > bound*(1+max(f.Tolerance, tolerance)) } // false for NaN
	bad := f.Reason != "" || p < testkit.FalseReject || over(f.Lower, f.Claim.Epsilon) ||
		over(f.Exact, f.Claim.Epsilon) || over(f.Lower, f.Exact)
	for _, x := range f.Profile {
		bad = bad || !(x.Measured <= x.Claimed*(1+max(f.Tolerance, tolerance))) // true for NaN
	}
	measured := f.Runs > 0 || len(f.Profile) > 0
	switch {
	case bad:
		return Violated
	case f.Least > 0 && !(f.Power >= f.Least), !measured:
		return Blind
	}
	return Holds
}

// Worst returns the test with the least p-value, corrected for their number;
// "" and 1 without tests.
func (f Finding) Worst() (name string, p float64) {
	p = 1
	for _, t := range f.Tests {
		q := t.P * float64(len(f.Tests))
		if math.IsNaN(q) { // nothing that has a law
			q = 0
		}
		if q < p {
			name, p = t.Name, q
		}
	}
	return name, p
}

// falseClaim is the error of a release that claims less than its noise was asked
// to be for: the case measures the noise for what was asked, so it would not see
// a certificate that says otherwise.
type falseClaim struct {
	cert  dp.Certificate
	asked dp.Budget
}

func (e *falseClaim) Error() string {
	return fmt.Sprintf("audit: %v was asked for, the certificate says %v", e.asked, e.cert)
}

// asFor returns an error unless the certificate states the relation and no less than the budget.
func asFor(cert dp.Certificate, asked dp.Budget, rel dp.Relation) error {
	if cert.Epsilon >= asked.Epsilon && cert.Delta >= asked.Delta && cert.Relation == rel {
		return nil
	}
	return &falseClaim{cert, asked}
}

// Claimed returns the finding of a release that claims c, with nothing measured.
func Claimed(c dp.Certificate) Finding {
	return Finding{Claim: c.Budget, Theorem: c.Theorem, Relation: c.Relation, Exact: math.NaN(), Lower: math.NaN(), Power: 1}
}

// Recover is the white box: score releases once and returns numbers that are independent standard
// normal under the claim, equally many each time. They come from the point that was released, not
// from the plan. It fills in Runs, Tests and Power.
func Recover(
	ctx context.Context, e *Env, claim dp.Certificate, runs int, score func(ctx context.Context, src rand.Source) ([]float64, error),
) (Finding, error) {
	f := Claimed(claim)
	f.Runs, f.Least = runs, 0.99
	src := e.Source("white")
	z := make([][]float64, runs)
	for i := range z {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		var err error
		if z[i], err = score(ctx, src); err != nil {
			return f, err
		}
	}
	if len(z) == 0 || len(z[0]) == 0 {
		return f, fmt.Errorf("audit: %s: no scores", e.name)
	}
	f.Tests = scoreTests(z)
	f.Power = scalePower(runs*len(z[0]), 0.05, testkit.FalseReject/float64(len(f.Tests)))
	return f, nil
}

// Distinguish is the black box: release(ctx, i, src) returns what the attacker sees of one release
// on data set i. exact is the exact ε of the pair at the claimed δ, NaN if unknown; scores are
// functions of an output that an informed attacker would threshold, such as the log-likelihood
// ratio. It fills in Runs, Lower, Exact and Power.
func Distinguish(
	ctx context.Context, e *Env, claim dp.Certificate, runs int, exact float64,
	release func(ctx context.Context, data int, src rand.Source) ([]float64, error), scores ...func(x []float64) float64,
) (Finding, error) {
	f := Claimed(claim)
	f.Runs, f.Exact = 2*runs, exact
	var out [2][][]float64
	for i := range out {
		src := e.Source("black", fmt.Sprint(i))
		out[i] = make([][]float64, runs)
		for r := range out[i] {
			if err := ctx.Err(); err != nil {
				return f, err
			}
			var err error
			if out[i][r], err = release(ctx, i, src); err != nil {
				return f, err
			}
		}
	}
	f.Lower = testkit.SampleBound(out[0], out[1], claim.Delta, scores...)
	f.Power = math.NaN()
	if exact > 0 {
		f.Power = f.Lower / exact
	}
	if e.Tier == Long && exact > 0 { // with millions of releases half of it is proved, or the events are the wrong ones
		f.Least = 0.5
	}
	return f, nil
}

// Integrate is the exact layer: stick(ε) is the larger of the two hockey-stick divergences of the
// pair at ε, claimed the profile that the release claims. It fills in Exact and Profile.
func Integrate(claim dp.Certificate, claimed dp.Curve, stick func(eps float64) float64) Finding {
	f := Claimed(claim)
	f.Exact = EpsilonAt(stick, math.Max(claim.Delta, pureDelta))
	for i := range 41 {
		eps := claim.Epsilon * float64(i) / 20
		f.Profile = append(f.Profile, Point{eps, claimed(eps), stick(eps)})
	}
	return f
}

// pureDelta is the δ at which the exact ε of a pure claim is measured: a quadrature has no zero.
const pureDelta = 1e-12

// EpsilonAt returns the least ε ≥ 0 with stick(ε) ≤ delta, to 1e-9, or +Inf beyond dp.MaxEpsilon.
func EpsilonAt(stick func(eps float64) float64, delta float64) float64 {
	if stick(0) <= delta {
		return 0
	}
	hi := 1.0
	for !(stick(hi) <= delta) {
		if hi *= 2; hi > dp.MaxEpsilon {
			return math.Inf(1)
		}
	}
	lo := 0.0
	for hi-lo > 1e-9*hi {
		if mid := (lo + hi) / 2; stick(mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// Normal returns the standard score of a value whose distribution function is
// p = F(x) and whose upper tail is q = 1 − F(x), without loss in either tail.
func Normal(p, q float64) float64 {
	if p < q {
		return num.NormalQuantile(p)
	}
	return -num.NormalQuantile(q)
}
