// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package fault replaces one step of a mechanism by a broken one, so that an audit can show that it
// would see the mistake.
//
// A negative control is the production path with one step replaced. Fit asks for the faults of its
// context once and names each step that a control may replace beside its value:
//
//	f := fault.From(ctx)
//	nu = fault.At(f, OutputNoise, nu)   // round(ν/g)
//
// In production From returns nil and At its last argument, at the cost of one comparison. Only
// cmd/research/audit and tests call With, as a test of this package checks in every file of the
// module. Hence no caller of the public API can reach a broken step.
//
// A mechanism declares its steps beside its formulas, or here if several have them in common.
package fault

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Step names a value of type T on the production path. Two steps of one name are the same.
type Step[T any] string

// NewStep returns a step of a fit.
func NewStep[T any](name string) Step[T] { return Step[T](name) }

// Set holds the steps that a context replaces. The nil Set of production replaces none.
type Set struct {
	replace map[string]any // func(T) T for a Step[T]

	mu      *sync.Mutex
	reached map[string]bool
}

type key struct{}

// From returns the faults of ctx: nil unless a control put some there. It panics if ctx is nil.
func From(ctx context.Context) *Set {
	f, _ := ctx.Value(key{}).(*Set)
	return f
}

// At returns v, or f's replacement of it at the step.
func At[T any](f *Set, s Step[T], v T) T {
	if f == nil {
		return v
	}
	replace, ok := f.replace[string(s)].(func(T) T)
	if !ok {
		return v
	}
	f.mu.Lock()
	f.reached[string(s)] = true
	f.mu.Unlock()
	return replace(v)
}

// With returns a context in which replace(v) takes the place of every value v of the step, after
// the faults of ctx. Concurrent fits call replace. Only audits and tests may call With.
func With[T any](ctx context.Context, s Step[T], replace func(v T) T) context.Context {
	f := &Set{replace: map[string]any{}, mu: new(sync.Mutex), reached: map[string]bool{}}
	if old := From(ctx); old != nil {
		maps.Copy(f.replace, old.replace)
		f.mu, f.reached = old.mu, old.reached // a step that an inner context reaches counts for the outer one
	}
	if first, ok := f.replace[string(s)].(func(T) T); ok {
		f.replace[string(s)] = func(v T) T { return replace(first(v)) }
	} else {
		f.replace[string(s)] = replace
	}
	return context.WithValue(ctx, key{}, f)
}

// Missed returns the names of the steps that f replaces and no mechanism reached, in order: a
// control that misses one tests nothing. Contexts made from that of f count for f.
func (f *Set) Missed() (missed []string) {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.replace {
		if !f.reached[name] {
			missed = append(missed, name)
		}
	}
	slices.Sort(missed)
	return missed
}

// Names of steps whose values are the parameters of a plan, of types that packages here cannot
// import.
const (
	QuadraticParams  = "quadratic parameters"
	StochasticParams = "parameters of stochastic gradients"
	DiscreteParams   = "parameters over a finite set"
	SampParams       = "parameters of OPSamp"
	SearchTable      = "table of a search"
	TiltSlopes       = "sum of clipped slopes"
	TiltNoise        = "noise of a sum of slopes"
	TiltTaken        = "slopes taken from the risk"
)

// Steps that several packages have in common. Integers are in units of a grid.
var (
	// DiscreteNoise perturbs the objective over a finite set.
	DiscreteNoise = NewStep[[]int64]("noise over a finite set")
	// LossGap is the excess of the loss up to which the exponential mechanism accepts a point.
	LossGap = NewStep[int64]("excess of an accepted loss")
	// GridVector is the rounded sum of the gradients of a batch, or the rounded end of a phase.
	GridVector = NewStep[[]int64]("grid-vector")
	// GridNoise is the noise that is added to a GridVector.
	GridNoise = NewStep[[]int64]("grid-noise")
	// Batch lists the records of a batch of stochastic gradients, or of a permutation, in order.
	Batch = NewStep[[]int]("batch")
	// Cells are the counts of the cells of numbers of a search for a schema.
	Cells = NewStep[[]int64]("cells")
	// ColumnSensitivity is the sensitivity of the counts of one column of such a search.
	ColumnSensitivity = NewStep[float64]("sensitivity of a column")
	// Threshold is the least noisy count at which such a search shows a spelling.
	Threshold = NewStep[int]("threshold of spellings")
	// Release is a sum of rounded vectors before its noise.
	Release = NewStep[Sum]("release")
	// LineWeight is the weight of one of k lines of a person.
	LineWeight = NewStep[float64]("weight of a line")
	// LineOrder lists the lines of a person by their places in the input, those to keep first.
	LineOrder = NewStep[[]int]("order of the lines of a person")
	// PersonNorm is the norm by which the sum of a person is clamped, and that of its longest line.
	PersonNorm = NewStep[[2]float64]("norm of a person")

	// ScoreSigmas are the noise scales of the blocks of a score, in their order, ScoreNoise the
	// integers that are added to one of them, and LossClip is the largest log loss of a record.
	ScoreSigmas = NewStep[[]float64]("noise scales of a score")
	ScoreNoise  = NewStep[[]int64]("noise of a score")
	LossClip    = NewStep[float64]("clip of the log loss")
	// PersonLines is the number by which the sums of the lines of a person are divided, BendFactor
	// four times the factor of the products in their second moments.
	PersonLines = NewStep[int64]("lines of a person in a score")
	BendFactor  = NewStep[int64]("factor of second moments")

	// Stage is the first stage of the solver of a covered release that runs, counted from 0: the
	// methods of package splitting, refinement, proved descent.
	Stage = NewStep[int]("stage")
	// Iterations is the limit on the steps of one solve; 0 means the default.
	Iterations = NewStep[int]("iterations")
	// Certified reports whether the point is proved to lie within R of the minimizer, so that it may
	// be released.
	Certified = NewStep[bool]("certified")
)

// Sum is a sum of integers times 2^Exponent, and the deviation of the noise that it will get.
type Sum struct {
	Terms    []int64
	Exponent int
	Sigma    float64
	Ratio    float64 // declared sensitivity over Sigma, 0 if not stated
}
