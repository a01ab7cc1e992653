// Package fault replaces one step of a mechanism by a broken one, so that an
// audit can show that it would see the mistake.
//
// A negative control is the production path with one step replaced: not a copy of the mechanism and
// not a changed label. Fit asks for the faults of its context once and names each step that a
// control may replace beside the value that the formula has there:
//
//	f := fault.From(ctx)
//	nu = fault.At(f, OutputNoise, nu)   // round(ν/g)
//
// In production From returns nil and At its last argument, at the cost of one comparison. Only the
// packages of this module can import fault, and of those only cmd/internal/audit and tests call
// With: a test of this package reads every file of the module to see that it stays so. Hence no
// caller of the public API can reach a broken step.
//
// # Joining
//
// A mechanism declares its steps beside its formulas, or here if several have them in
// common, names each in its Fit with one call of At, and adds the control that
// replaces it to its file in cmd/internal/audit.
//
// # References
//
// None: this package is plumbing.
package fault

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Step names a value of type T on the production path.
type Step[T any] struct {
	name string
}

// NewStep returns a step of a fit. Two steps of one name are the same.
func NewStep[T any](name string) Step[T] { return Step[T]{name} }

// String returns the name of the step.
func (s Step[T]) String() string { return s.name }

// Set holds the steps that a context replaces. The nil Set, which is all that
// production sees, replaces none.
type Set struct {
	replace map[string]any // func(T) T for a Step[T]

	mu      *sync.Mutex
	reached map[string]bool
}

type key struct{}

// From returns the faults that ctx carries: nil unless a control put some
// there. It panics if ctx is nil.
func From(ctx context.Context) *Set {
	f, _ := ctx.Value(key{}).(*Set)
	return f
}

// At returns v, or what f makes of it at the step.
func At[T any](f *Set, s Step[T], v T) T {
	if f == nil {
		return v
	}
	replace, ok := f.replace[s.name].(func(T) T)
	if !ok {
		return v
	}
	f.mu.Lock()
	f.reached[s.name] = true
	f.mu.Unlock()
	return replace(v)
}

// With returns a context in which replace(v) stands in the place of every value
// v of the step, besides the faults that ctx carries: v is what those make of it.
// replace is called by concurrent fits. Only audits and tests may call it.
func With[T any](ctx context.Context, s Step[T], replace func(v T) T) context.Context {
	f := &Set{replace: map[string]any{}, mu: new(sync.Mutex), reached: map[string]bool{}}
	if old := From(ctx); old != nil {
		maps.Copy(f.replace, old.replace)
		f.mu, f.reached = old.mu, old.reached // what an inner context reaches, the outer one did
	}
	if first, ok := f.replace[s.name].(func(T) T); ok {
		f.replace[s.name] = func(v T) T { return replace(first(v)) }
	} else {
		f.replace[s.name] = replace
	}
	return context.WithValue(ctx, key{}, f)
}

// Missed returns the names of the steps that f replaces and no mechanism reached, in order: a
// control that misses one tests nothing. A context made from that of f counts for f.
func (f *Set) Missed() []string {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var missed []string
	for name := range f.replace {
		if !f.reached[name] {
			missed = append(missed, name)
		}
	}
	slices.Sort(missed)
	return missed
}
