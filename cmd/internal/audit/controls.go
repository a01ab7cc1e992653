package audit

import (
	"context"
	"sync"

	"github.com/privopt/privopt/internal/fault"
)

// one returns a Break that replaces one step.
func one[T any](step fault.Step[T], replace func(v T) T) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return fault.With(ctx, step, replace) }
}

// always returns the constant function x.
func always[T any](x T) func(T) T { return func(T) T { return x } }

// cached returns a Break that replays the first value of a step.
func cached[T any](step fault.Step[T], clone func(T) T) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		var once sync.Once
		var first T
		return fault.With(ctx, step, func(v T) T {
			once.Do(func() { first = clone(v) })
			return clone(first)
		})
	}
}

// both applies two replacements: a mistake that shows in two places.
func both(a, b func(context.Context) context.Context) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context { return b(a(ctx)) }
}
