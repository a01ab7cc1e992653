// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/privopt/privopt/internal/num"
)

// Assumption is a fact that a proof uses and the program did not check, as a sentence that a reader
// can verify. Mechanisms add their own.
type Assumption string

// Assumptions that every package shares.
const (
	// CallerSource: the noise came from a source the caller gave.
	CallerSource Assumption = "the caller's random source is unpredictable, secret and never reused"
	// CalibrationArithmetic: the constants of the plan come from float64 arithmetic.
	CalibrationArithmetic Assumption = "the constants of the plan, computed in float64 arithmetic and tested " +
		"against 60 digits, are no smaller than the theorem asks for"
	// ChiArithmetic: noise comes from the law of χ_q.
	ChiArithmetic Assumption = "the law of χ_q, the norm of a normal vector of q ≥ 2 dimensions, computed by " +
		"quadrature in float64 and tested against 60 digits, asks for no more noise"
	// LossArithmetic: the cost is that of composed privacy loss distributions.
	LossArithmetic Assumption = "privacy loss distributions, composed by Fourier transforms in float64 with a " +
		"bound on their error and tested against 60 digits, cost no more"
	// WishartArithmetic: noise comes from the laws of the eigenvalues of Wishart matrices.
	WishartArithmetic Assumption = "the laws of the eigenvalues of Wishart matrices, computed in float64 and " +
		"tested against 60 digits, ask for no more noise"
)

// model is the premise of every theorem of this module; certificates do not repeat it.
const model = "about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen"

// Certificate states the cost of a release and the grounds of the statement, which is about the
// program and not about real numbers. All theorems of this module assume, besides Assumptions:
//
//   - the bits of the random source are uniform and secret;
//   - float64 operations round as IEEE 754 says, and integers are exact;
//   - the release alone is seen: neither its time, nor memory, nor whether a context ended the fit;
//   - data sets have at most as many records as the Params of the plan say.
//
// As JSON it has the stable names epsilon, delta, relation ("replace" or "add-remove"), rows (left
// out if 0), person (left out if empty), theorem and assumptions (a list, possibly empty).
type Certificate struct {
	Budget
	Relation Relation `json:"relation"`
	// Rows says what a neighbor differs in. 0 means one record. A positive number means one person
	// with all lines of that person, of which at most Rows count.
	Rows int `json:"rows,omitempty"`
	// Person is the name of the column of ids that says whose a line is, "" if Rows is 0 or the column
	// has no name. Certificates about persons of different columns do not add up.
	Person string `json:"person,omitempty"`
	// Theorem is a stable identifier such as "lop.joint/2". Another noise scale or statement gets
	// another number.
	Theorem     string       `json:"theorem"`
	Assumptions []Assumption `json:"assumptions"`
}

// Check returns an error unless the budget and the relation are valid and a theorem is named.
func (c Certificate) Check() error {
	if err := c.Budget.Check(); err != nil {
		return err
	}
	if err := c.Relation.Check(); err != nil {
		return err
	}
	if c.Rows < 0 {
		return fmt.Errorf("%w: Rows = %d, want the most lines of a person that count, or 0 if neighbors differ in one record",
			ErrCondition, c.Rows)
	}
	if c.Person != "" && c.Rows == 0 {
		return fmt.Errorf("%w: Person = %.40q with Rows = 0, want the most lines of a person that count, or no Person",
			ErrCondition, c.Person)
	}
	if c.Theorem == "" {
		return fmt.Errorf("%w: Theorem is empty, want the identifier of a theorem", ErrCondition)
	}
	return nil
}

// String returns the claim, the theorem, each assumption and the premise of all theorems, on a line
// each.
func (c Certificate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v-differentially private, %v neighbors", c.Budget, c.Relation)
	if c.Rows > 0 {
		fmt.Fprintf(&b, " that differ in one %s, of whom at most %d lines count", c.unit(), c.Rows)
	}
	fmt.Fprintf(&b, "\n  theorem: %s", c.Theorem)
	for _, a := range c.Assumptions {
		fmt.Fprintf(&b, "\n  assumes: %s", string(a))
	}
	b.WriteString("\n  " + model)
	return b.String()
}

// With returns a deep copy of c that also lists the assumptions a.
func (c Certificate) With(a ...Assumption) Certificate {
	c.Assumptions = union(slices.Clone(c.Assumptions), a...)
	return c
}

// MarshalJSON writes the form described at [Certificate]. An invalid relation is an error.
func (c Certificate) MarshalJSON() ([]byte, error) {
	type plain Certificate // without methods
	p := plain(c)
	if p.Assumptions == nil {
		p.Assumptions = []Assumption{}
	}
	return json.Marshal(p)
}

// Release is everything that may leave the trust boundary, and nothing else. As JSON it has the
// names theta and certificate.
type Release struct {
	Theta       []float64   `json:"theta"`
	Certificate Certificate `json:"certificate"`
}

// Basic returns the certificate of publishing all the releases c, each chosen with knowledge of the
// earlier ones and with independent noise, by basic composition: ε = Σ εᵢ, δ = Σ δᵢ, rounded up.
//
// The theorem is "dp.basic/1" (docs/theory/composition.md#dp.basic/1) with those of the parts in
// parentheses; the assumptions are the union of theirs. The error wraps ErrCondition for an empty
// list or a part without a theorem, ErrRelation for an invalid relation or a mix of two, or of
// parts about persons and about records, and ErrBudget if a part or the sum fails Budget.Check.
func Basic(c ...Certificate) (Certificate, error) {
	sum, err := add("dp.basic/1", c)
	if err != nil {
		return Certificate{}, err
	}
	if err := sum.Budget.Check(); err != nil {
		return Certificate{}, fmt.Errorf("%w (sum of %d parts)", err, len(c))
	}
	return sum, nil
}

// add checks the certificates c and composes them: the sum of their budgets, which may be out of
// range, the theorem with their theorems in parentheses, and the union of their assumptions.
func add(theorem string, c []Certificate) (sum Certificate, err error) {
	if len(c) == 0 {
		return sum, fmt.Errorf("%w: no certificates to compose, want at least one", ErrCondition)
	}
	sum.Relation = c[0].Relation
	theorems := make([]string, len(c))
	for i, part := range c {
		if err := part.Check(); err != nil {
			return sum, fmt.Errorf("%w (part %d of %d)", err, i, len(c))
		}
		if part.Relation != sum.Relation {
			return sum, fmt.Errorf("%w: part %d is about %v neighbors and part 0 about %v, want one relation", ErrRelation, i,
				part.Relation, sum.Relation)
		}
		if (part.Rows > 0) != (c[0].Rows > 0) || part.Person != c[0].Person {
			return sum, fmt.Errorf("%w: part %d is about neighbors that differ in one %s and part 0 in one %s, want one unit",
				ErrRelation, i, part.unit(), c[0].unit())
		}
		sum.Rows, sum.Person = max(sum.Rows, part.Rows), part.Person
		sum.Epsilon = addUp(sum.Epsilon, part.Epsilon)
		sum.Delta = addUp(sum.Delta, part.Delta)
		theorems[i] = part.Theorem
		sum.Assumptions = union(sum.Assumptions, part.Assumptions...)
	}
	sum.Theorem = theorem + "(" + strings.Join(theorems, ", ") + ")"
	return sum, nil
}

// unit names what a neighbor differs in.
func (c Certificate) unit() string {
	switch {
	case c.Person != "":
		return fmt.Sprintf("person by the column %.40q", c.Person)
	case c.Rows > 0:
		return "person"
	}
	return "record"
}

// union appends to a the elements of b that a does not hold yet.
func union(a []Assumption, b ...Assumption) []Assumption {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// addUp returns the least float64 that is at least a + b ≥ 0.
func addUp(a, b float64) float64 {
	s, err := num.TwoSum(a, b)
	if err > 0 {
		return math.Nextafter(s, math.Inf(1))
	}
	return s
}
