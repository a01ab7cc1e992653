// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package audit measures the privacy of every mechanism of this module and shows that the
// measurement would see a mistake. Call [Select] and [Run] to measure, [Controls] and [Sabotage]
// to break a mechanism and see that its case notices.
//
// # Layers
//
//	white box   the noise, recovered from the released point and the records,
//	            has exactly the law that the claim asks for
//	black box   a lower bound on ε from releases on neighboring data alone
//	exact       the hockey-stick divergence of the outputs, by quadrature
//
// The white box checks the size of the noise: it sees an error of 5 % with probability 0.99. The
// black box shares no reasoning with the mechanism. Textbook noise is several times larger than one
// pair of data sets needs, so its bound is also compared with the exact ε of the pair, at δ ≥ 0.01,
// where the black box has some power. The exact layer shows whether the constants are right.
//
// # Independence
//
// A case calls the exported Fit of plans with the context it is given. Everything else is computed
// a second time in this package, on purpose: gradients, subgradients and forced records
// (records.go, convex.go), scales and accounting (reference.go), densities (law.go and the files
// of the mechanisms). Searches and special functions come from internal/num, which has tests of
// its own. The scale of the noise of a convex mechanism is that of its plan, made without
// faults; the exact layer checks that scale for d = 1 and 2, and in every dimension a white box
// refuses noise that does not hide the gradients or distances of its pair.
//
// # How a mechanism joins
//
// It adds a file with its settings and controls, and a line in the function mechanisms. A setting
// names the ways to measure it, see [setting]. A control runs a case in a context that replaces
// one step of the production path (package fault). It is caught if the verdict is [Violated].
//
// # Notation
//
//	D₀, D₁     neighboring data sets of a case; P, Q the laws of the releases
//	A1 … A13   worst-case pairs, see [Pairs]
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
)

// Pairs describes the worst-case pairs of neighboring data.
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
	"A14": "a person with lines that are opposite, nearly parallel or more than count",
}

// Layer is how a case measures, see the package comment.
type Layer string

// The layers.
const (
	WhiteBox Layer = "white box"
	BlackBox Layer = "black box"
	Exact    Layer = "exact"
)

// Tier is the amount of work of a run of the audit.
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

// mechanism lists the cases and controls of one mechanism.
type mechanism struct {
	name     string // of the package or of the variant, such as "lop" or "lop-clip"
	cases    []Case
	controls []Control
}

// mechanisms lists all mechanisms in order of their names.
var mechanisms = sync.OnceValue(func() []mechanism {
	all := slices.Concat(linearMechanisms(), quadraticMechanisms(), stochasticMechanisms(),
		discreteMechanisms(), enclosureMechanisms(), discoveryMechanisms(), scoreMechanisms(),
		intervalMechanisms(), sequenceMechanisms(), pointMechanisms())
	slices.SortFunc(all, func(a, b mechanism) int { return cmp.Compare(a.name, b.name) })
	return all
})

// Case is one measurement: mechanism × pair × layer.
type Case struct {
	Name  string // unique in its mechanism, such as "A1/logistic"
	Pair  string // a key of Pairs, or "" for none
	Layer Layer
	Least Tier // the least tier that runs the case; 0 means Quick
	// run measures. Its fits get ctx, which may carry the fault of a control. An error means that
	// nothing was measured.
	run func(ctx context.Context, e *env) (Finding, error)
}

// Control is a sabotage and the case that has to see it. Tables list the fields in this order.
type Control struct {
	Name string // unique in the module
	What string // the mistake, one line
	Case string // mechanism/case

	runs     int // if positive, the number of releases that suffice to see it
	sabotage sabotage
}

// sabotage returns a context in which steps of the production path are replaced.
type sabotage = func(ctx context.Context) context.Context

// one replaces one step.
func one[T any](step fault.Step[T], replace func(v T) T) sabotage {
	return func(ctx context.Context) context.Context { return fault.With(ctx, step, replace) }
}

// edit changes the value of one step, such as the numbers of a plan.
func edit[T any](step fault.Step[T], change func(v *T)) sabotage {
	return one(step, func(v T) T { change(&v); return v })
}

// borrowed edits the numbers of a plan after those of another setting.
func borrowed[P any, S preparer](step fault.Step[P], other S, change func(p *P, other S)) sabotage {
	prepare := sync.OnceValue(func() error {
		return other.prepare(context.Background(), &env{tier: Quick, name: "borrowed"})
	})
	return edit(step, func(p *P) {
		if err := prepare(); err != nil {
			panic(err)
		}
		change(p, other)
	})
}

// always returns the constant function x.
func always[T any](x T) func(T) T { return func(T) T { return x } }

// cached replays the first value of a step.
func cached[T any](step fault.Step[T], clone func(T) T) sabotage {
	return func(ctx context.Context) context.Context {
		var once sync.Once
		var first T
		return fault.With(ctx, step, func(v T) T {
			once.Do(func() { first = clone(v) })
			return clone(first)
		})
	}
}

// threeSteps stops the solver early and ignores its certificate.
func threeSteps(ctx context.Context) context.Context {
	return fault.With(fault.With(ctx, fault.Iterations, always(3)), fault.Certified, always(true))
}

// env is the part of a run that a case may use.
type env struct {
	tier     Tier
	seed     uint64
	name     string // mechanism/case
	releases int    // of the white box for a control; 0 means the number of the tier
	more     int    // releases from one stream in a row of scores, beyond the first
}

// source returns the stream of the case that the labels name. It depends on the seed, the case and
// the labels alone.
func (e *env) source(label ...string) rand.Source {
	return noise.Reproducible(e.seed, append([]string{"audit", e.name}, label...)...)
}

// runs returns the number of releases of one case that the tier affords for a mechanism that takes
// about a tenth of a millisecond. Of the black box it is the number for each data set. 20 000
// scores see an error of 5 % in the scale (scalePower), so that white boxes take fewer releases of
// several scores, see rows.
func (e *env) runs(l Layer) int {
	if l == BlackBox {
		return []int{10_000, 200_000, 5_000_000}[e.tier-1]
	}
	return cmp.Or(e.releases, []int{20_000, 100_000, 2_000_000}[e.tier-1])
}

// rows returns the number of rows that the white box takes of releases of k scores each: runs
// divided by the scores of a row, by 5 at most, and at least 20 000 scores.
func (e *env) rows(k int) int {
	k *= 1 + e.more
	return cmp.Or(e.releases, max(e.runs(WhiteBox)/min(k, 5), 20_000/k))
}

// few is rows for a slow mechanism: runs scores in all, in 1000 rows at least.
func (e *env) few(k int) int {
	return cmp.Or(e.releases, max(e.runs(WhiteBox)/(k*(1+e.more)), 1000))
}

// scarce is rows for a mechanism that takes a tenth of a second: 13 000 scores in all, in 100 rows
// at least.
func (e *env) scarce(k int) int {
	return cmp.Or(e.releases, max(e.runs(WhiteBox)*13/20/k, 100))
}

// Names returns the names of the mechanisms in order.
func Names() (names []string) {
	for _, m := range mechanisms() {
		names = append(names, m.name)
	}
	return names
}

// Controls returns all controls in order of their names.
func Controls() (all []Control) {
	for _, m := range mechanisms() {
		all = append(all, m.controls...)
	}
	slices.SortFunc(all, func(a, b Control) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Result is a case and its finding.
type Result struct {
	Mechanism string
	Case
	Finding
	Seconds float64
	Err     error // nothing was measured
}

// Full returns mechanism/case.
func (r Result) Full() string { return r.Mechanism + "/" + r.Case.Name }

// Select returns the cases of the named mechanisms that the tier runs, in order. Without names it
// selects all mechanisms.
func Select(names []string, tier Tier) (list []Result) {
	for _, m := range mechanisms() {
		for _, c := range m.cases {
			if c.Least <= tier && (len(names) == 0 || slices.Contains(names, m.name)) {
				list = append(list, Result{Mechanism: m.name, Case: c})
			}
		}
	}
	return list
}

// each calls do for 0, …, n−1 on all processors, and done after each call, one at a time.
// It returns ctx.Err() if it was cancelled.
func each(ctx context.Context, n int, do func(i int), done func()) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := 0; i < n && ctx.Err() == nil; i++ {
		slots <- struct{}{}
		wg.Go(func() {
			do(i)
			mu.Lock()
			done()
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
	return ctx.Err()
}

// Run runs the cases on all processors and fills them in; done is called after each. Values do not
// depend on the number of processors. It returns ctx.Err() if it was cancelled.
func Run(ctx context.Context, list []Result, tier Tier, seed uint64, done func()) error {
	return each(ctx, len(list), func(i int) { list[i].measure(ctx, tier, seed, 0) }, done)
}

// Sabotage runs the cases of the controls like [Run], each in the quick tier and in the context
// that breaks one step. Err of a result reports that its control tests nothing: its case does not
// exist, a step was never reached, or the case could not measure.
func Sabotage(ctx context.Context, list []Control, seed uint64, done func()) ([]Result, error) {
	results := make([]Result, len(list))
	return results, each(ctx, len(list), func(i int) { results[i] = list[i].run(ctx, seed) }, done)
}

func (r *Result) measure(ctx context.Context, tier Tier, seed uint64, releases int) {
	start := time.Now()
	r.Finding, r.Err = r.run(ctx, &env{tier: tier, seed: seed, name: r.Full(), releases: releases})
	if claim := (*falseClaim)(nil); errors.As(r.Err, &claim) {
		r.Finding, r.Err = Claimed(claim.cert), nil
		r.Runs, r.Reason = 1, claim.Error()
	}
	if r.Err != nil {
		r.Err = fmt.Errorf("audit: %s: %w", r.Full(), r.Err)
	}
	r.Seconds = time.Since(start).Seconds()
}

func (c Control) run(ctx context.Context, seed uint64) Result {
	list := Select(nil, Long)
	i := slices.IndexFunc(list, func(r Result) bool { return r.Full() == c.Case })
	if i < 0 {
		return Result{Err: fmt.Errorf("audit: control %s is about the case %q, which does not exist", c.Name, c.Case)}
	}
	r, broken := list[i], c.sabotage(ctx)
	r.measure(broken, Quick, seed, c.runs)
	if missed := fault.From(broken).Missed(); r.Err == nil && missed != nil {
		r.Err = fmt.Errorf("audit: control %s replaces %v, which %s never reaches", c.Name, missed, c.Case)
	}
	return r
}
