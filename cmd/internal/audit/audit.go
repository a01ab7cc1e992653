// Package audit measures the privacy of every mechanism of this module and
// shows that the measurement would see a mistake.
//
// # Layers
//
//	white box   the noise, recovered from what was released and the records,
//	            has exactly the law that the claim asks for
//	black box   a lower bound on ε from releases on neighboring data alone
//	exact       the hockey-stick divergence of the outputs, by quadrature
//
// The white box is the gate for the size of the noise: it sees an error of 5 % with probability
// 0.99. The black box shares no reasoning with the mechanism. Textbook noise is several times larger
// than one pair of data sets needs, so the bound is also compared with the exact ε of the pair, at
// δ ≥ 0.01, where the black box has some power. The exact layer shows whether the constants are
// right, and how much slack they have.
//
// # How a mechanism joins
//
// It adds one file whose init calls Register with a Mechanism: its cases and its controls.
//
//	Register(Mechanism{
//		Name:  "lop",
//		Cases: cases(linearKinds, []setting[*linear]{{"logistic", "A1", "white exactly", logistic}}),
//		Controls: []Control{{
//			"noise-0.9", "noise of 0.9 times its scale", "lop/A1/logistic", 0, louder(0.9),
//		}},
//	})
//
// Settings are listed with the names of the ways to measure them (linearKinds, …), see cases.
//
// A case calls the exported Fit of plans with the context it is given and nothing
// else that is production code, and ends with one of
//
//	Recover      white box: scores that are independent N(0,1) under the claim
//	Distinguish  black box: releases on either data set, and the exact ε if known
//	Integrate    exact: the hockey-stick divergences of the pair
//
// The scale of the noise of a convex mechanism is that of its plan, made outside the context and
// its faults. The exact layer shows whether that scale is right: for d = 1 and 2 it compares the
// density of the releases with the claimed profile. The tests of each formula do so, too, and in
// every dimension a white box refuses noise that does not hide the gradients or distances of its
// pair. For stochastic gradients and finite sets the scale is computed here, from the budget, the
// relation and the declared bounds.
//
// A control runs a case with the same code, in a context that replaces one step
// of the production path (package fault). It is caught if the verdict of the
// case is Violated. Every control is caught in every run of the tests.
//
// # Notation
//
//	D₀, D₁     neighboring data sets of a case; P, Q the laws of the releases
//	A1 … A13   worst-case pairs, tabled at Pairs
//	z          a score, N(0,1) under the claim
//	ε_LB       Finding.Lower
//	δ(ε)       Point: claimed and measured privacy profile
//
// # References
//
//	[CP34]  Clopper, Pearson. The Use of Confidence or Fiducial Limits
//	        Illustrated in the Case of the Binomial. Biometrika 26, 1934.
//	[Mir12] Mironov. On Significance of the Least Significant Bits for
//	        Differential Privacy. CCS 2012.
//	[MT00]  Marsaglia, Tsang. The Ziggurat Method for Generating Random
//	        Variables. Journal of Statistical Software 5, 2000.
//	[Ros52] Rosenblatt. Remarks on a Multivariate Transformation. Annals of
//	        Mathematical Statistics 23, 1952: scores of a vector, one coordinate
//	        after the other.
package audit

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/privopt/privopt/internal/noise"
)

// Pairs says what the worst-case pairs of neighboring data aim at.
var Pairs = map[string]string{
	"A1":  "one record with opposite gradients of the largest norm",
	"A2":  "no record against a record at the norm bound",
	"A3":  "a record of the largest curvature against none, both without gradient",
	"A4":  "the least n of the theorem, large ε and large δ",
	"A5":  "all gradients vanish at the anchor but one",
	"A6":  "Hessians of rank ρ and ρ+1, along the weakest direction of the curvature",
	"A7":  "the minimizer on a face or a kink on one side, inside on the other",
	"A8":  "n−1 equal records",
	"A9":  "rows of norm 1e-150 and 1e150",
	"A10": "the same records in another order",
	"A11": "a canary in sampled batches, empty and partial batches",
	"A12": "two optima tied on one side, decided by the smallest score on the other",
	"A13": "two releases from one stream",
}

// Layer is how a case measures.
type Layer string

// The layers, see the package comment.
const (
	WhiteBox Layer = "white box"
	BlackBox Layer = "black box"
	Exact    Layer = "exact"
)

// Tier is how much work a run of the audit does.
type Tier int

const (
	// Quick ends in 20 seconds, all mechanisms together.
	Quick Tier = iota + 1
	// CI ends in 5 minutes on two cores.
	CI
	// Long ends in an hour and takes another seed each time.
	Long
)

// Tiers names the tiers in order.
var Tiers = []string{"quick", "ci", "long"}

// String returns the name of the tier.
func (t Tier) String() string { return Tiers[t-1] }

// Mechanism is what one file contributes.
type Mechanism struct {
	Name     string // of the package or of the variant, such as "lop" or "lop-clip"
	Cases    []Case
	Controls []Control
}

// Case is one measurement: mechanism × pair × layer.
type Case struct {
	Name  string // unique in its mechanism, such as "A1/logistic"
	Pair  string // a key of Pairs, or "" for none
	Layer Layer
	// Least is the least tier that runs the case; 0 means Quick.
	Least Tier
	// Run measures. Its fits get ctx, which may carry the fault of a control. An
	// error means that nothing was measured.
	Run func(ctx context.Context, e *Env) (Finding, error)
}

// Control is a sabotage and the case that has to see it. Tables list the fields in this order.
type Control struct {
	Name string // unique in the module
	What string // the mistake, one line
	Case string // mechanism/case
	// Runs, if positive, is how many releases are enough to see it.
	Runs int
	// Break returns a context in which one step of the production path is replaced, by fault.With.
	Break func(ctx context.Context) context.Context
}

// Env is what a case may know of the run it is part of.
type Env struct {
	Tier Tier
	Seed uint64
	name string // mechanism/case
	runs int    // releases of the white box for a control; 0: as the tier has it
	more int    // releases from one stream in a row of scores, beyond the first
}

// Source returns the stream of the case that the labels name. It depends on
// the seed, the case and the labels alone.
func (e *Env) Source(label ...string) rand.Source {
	return noise.Reproducible(e.Seed, append([]string{"audit", e.name}, label...)...)
}

// Runs returns the number of releases of one case that the tier affords for a
// mechanism that takes about a tenth of a millisecond:
//
//	tier    white box   black box, for each data set
//	quick   20 000      10 000
//	ci      100 000     200 000
//	long    2 000 000   5 000 000
//
// Slower mechanisms divide by how much slower they are. 20 000 scores see an
// error of 5 % in the scale (scalePower), so that releases of d
// coordinates may be as many times fewer, see Rows.
func (e *Env) Runs(l Layer) int {
	i := int(e.Tier) - 1
	switch {
	case l == BlackBox:
		return []int{10_000, 200_000, 5_000_000}[i]
	case e.runs > 0:
		return e.runs
	}
	return []int{20_000, 100_000, 2_000_000}[i]
}

// Rows returns how many rows the white box takes of releases of k scores each: Runs
// divided by the scores of a row, by 5 at most, and at least 20 000 scores.
func (e *Env) Rows(k int) int {
	if e.runs > 0 {
		return e.runs
	}
	k *= 1 + e.more
	return max(e.Runs(WhiteBox)/min(k, 5), 20_000/k)
}

// few returns how many rows of a slow mechanism: as many scores as Runs, and 1000 rows at least.
func (e *Env) few(k int) int {
	if e.runs > 0 {
		return e.runs
	}
	return max(e.Runs(WhiteBox)/(k*(1+e.more)), 1000)
}

// Point is one point of a privacy profile.
type Point struct {
	Epsilon  float64 `json:"epsilon"`
	Claimed  float64 `json:"claimed"`
	Measured float64 `json:"measured"`
}

// mechanisms are those registered, by name.
var mechanisms = map[string]Mechanism{}

// Register adds a mechanism. It is called by init functions and panics on a
// second one of the same name, a case without a layer or an unknown pair.
func Register(m Mechanism) {
	if _, ok := mechanisms[m.Name]; ok || m.Name == "" {
		panic("audit: mechanism " + m.Name + " registered twice or without a name")
	}
	for _, c := range m.Cases {
		if _, ok := Pairs[c.Pair]; !ok && c.Pair != "" || c.Layer == "" || c.Run == nil {
			panic("audit: case " + m.Name + "/" + c.Name + " has an unknown pair, no layer or no Run")
		}
	}
	mechanisms[m.Name] = m
}

// Names returns the names of the mechanisms in order.
func Names() []string {
	return slices.Sorted(maps.Keys(mechanisms))
}

// Controls returns all controls in order of their names.
func Controls() []Control {
	var all []Control
	for _, name := range Names() {
		all = append(all, mechanisms[name].Controls...)
	}
	slices.SortFunc(all, func(a, b Control) int { return strings.Compare(a.Name, b.Name) })
	return all
}
