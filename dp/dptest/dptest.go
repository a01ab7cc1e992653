// Package dptest checks privacy claims: the form of certificates and profiles,
// exact hockey-stick divergences in one dimension, black-box audits that
// bound ε from below, and tests of sampled laws.
//
// An audit can refute a claim and never prove it. Its tests fail only with
// confidence: a correct mechanism fails with probability at most FalseReject.
//
// # Notation
//
//	D₀, D₁     neighboring data sets, P and Q the laws of the outputs on them
//	S          an event, a set of outputs
//	k, n       occurrences of an event in n independent runs
//
// # References
//
//	[CP34]   Clopper, Pearson. The Use of Confidence or Fiducial Limits
//	         Illustrated in the Case of the Binomial. Biometrika 26, 1934.
//	[Mas90]  Massart. The Tight Constant in the Dvoretzky–Kiefer–Wolfowitz
//	         Inequality. Annals of Probability 18, 1990.
package dptest

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strings"

	"github.com/privopt/privopt/dp"
)

// FalseReject is the probability with which a test of this package fails on
// correct code, over the seed.
const FalseReject = 1e-6

// T is the part of *testing.T that the checks use.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

var identifier = regexp.MustCompile(`^[a-z][a-z0-9]*\.[a-z][a-z0-9-]*/[1-9][0-9]*(\(.+\))?$`)

// CheckCertificate fails t unless c is valid, names its theorem in the form
// package.name/version, lists nonempty and distinct assumptions, prints all of
// them, and survives its JSON form.
func CheckCertificate(t T, c dp.Certificate) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Errorf("dptest: invalid certificate: %v", err)
		return
	}
	if !identifier.MatchString(c.Theorem) {
		t.Errorf("dptest: Theorem = %q, want package.name/version", c.Theorem)
	}
	text := c.String()
	seen := map[dp.Assumption]bool{}
	for _, a := range c.Assumptions {
		switch {
		case strings.TrimSpace(string(a)) == "":
			t.Errorf("dptest: empty assumption")
		case seen[a]:
			t.Errorf("dptest: assumption twice: %q", a)
		case !strings.Contains(text, string(a)):
			t.Errorf("dptest: String does not show the assumption %q", a)
		}
		seen[a] = true
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Errorf("dptest: JSON: %v", err)
		return
	}
	var back dp.Certificate
	if err := json.Unmarshal(b, &back); err != nil {
		t.Errorf("dptest: JSON: %v", err)
		return
	}
	if len(c.Assumptions) == 0 {
		back.Assumptions = c.Assumptions // nil and empty are one list
	}
	if !reflect.DeepEqual(c, back) {
		t.Errorf("dptest: JSON changes the certificate %v to %v", c, back)
	}
}

// CheckProfile fails t unless p has the shape of a hockey-stick divergence on
// [-8, 8]: values in [0, 1] and at least 1 - e^ε, nonincreasing, and convex as
// a function of e^ε. tol is the absolute rounding error of p.
func CheckProfile(t T, p dp.Curve, tol float64) {
	t.Helper()
	const h, n = 1. / 16, 257
	var d, x [n]float64
	for i := range n {
		eps := -8 + h*float64(i)
		d[i], x[i] = p(eps), math.Exp(eps)
		if !(d[i] >= 0 && d[i] <= 1) {
			t.Errorf("dptest: δ(%v) = %v is not in [0, 1]", eps, d[i])
			return
		}
		if d[i] < -math.Expm1(eps)-tol {
			t.Errorf("dptest: δ(%v) = %v is below 1 - e^ε", eps, d[i])
			return
		}
		if i > 0 && d[i] > d[i-1]+tol {
			t.Errorf("dptest: δ increases to %v at ε = %v", d[i], eps)
			return
		}
		if i > 1 {
			chord := d[i-2] + (d[i]-d[i-2])*(x[i-1]-x[i-2])/(x[i]-x[i-2])
			if d[i-1] > chord+tol {
				t.Errorf("dptest: δ is not convex in e^ε at ε = %v", eps-h)
				return
			}
		}
	}
}
