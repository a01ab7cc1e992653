package audit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/privopt/privopt/internal/fault"
)

// Result is a case and what it found.
type Result struct {
	Mechanism string
	Case
	Finding
	Seconds float64
	Err     error // nothing was measured
}

// Full returns mechanism/case.
func (r Result) Full() string { return r.Mechanism + "/" + r.Case.Name }

// Select returns the cases of the named mechanisms that the tier runs, in
// order; no name means all mechanisms.
func Select(names []string, tier Tier) []Result {
	if len(names) == 0 {
		names = Names()
	}
	var list []Result
	for _, name := range names {
		for _, c := range mechanisms[name].Cases {
			if c.Least <= tier {
				list = append(list, Result{Mechanism: name, Case: c})
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
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				do(i)
				mu.Lock()
				done()
				mu.Unlock()
			}
		})
	}
	for i := range n {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	return ctx.Err()
}

// Run runs the cases on all processors and fills them in; done is called after each. Values do not
// depend on the number of processors. It returns ctx.Err() if it was cancelled.
func Run(ctx context.Context, list []Result, tier Tier, seed uint64, done func()) error {
	return each(ctx, len(list), func(i int) { list[i].measure(ctx, tier, seed, 0) }, done)
}

// Sabotage runs the cases of the controls as Run does, each in the quick tier and in the
// context that breaks one step. Err of a result says that its control tests nothing: its
// case does not exist, a step was never reached, or the case could not measure.
func Sabotage(ctx context.Context, list []Control, seed uint64, done func()) ([]Result, error) {
	results := make([]Result, len(list))
	return results, each(ctx, len(list), func(i int) { results[i] = list[i].sabotage(ctx, seed) }, done)
}

func (r *Result) measure(ctx context.Context, tier Tier, seed uint64, runs int) {
	start := time.Now()
	r.Finding, r.Err = r.Run(ctx, &Env{Tier: tier, Seed: seed, name: r.Full(), runs: runs})
	if claim := (*falseClaim)(nil); errors.As(r.Err, &claim) {
		r.Finding, r.Err = Claimed(claim.cert), nil
		r.Runs, r.Reason = 1, claim.Error()
	}
	if r.Err != nil {
		r.Err = fmt.Errorf("audit: %s: %w", r.Full(), r.Err)
	}
	r.Seconds = time.Since(start).Seconds()
}

func (c Control) sabotage(ctx context.Context, seed uint64) Result {
	for _, r := range Select(nil, Long) {
		if r.Full() != c.Case {
			continue
		}
		broken := c.Break(ctx)
		r.measure(broken, Quick, seed, c.Runs)
		if missed := fault.From(broken).Missed(); r.Err == nil && missed != nil {
			r.Err = fmt.Errorf("audit: control %s replaces %v, which %s never reaches", c.Name, missed, c.Case)
		}
		return r
	}
	return Result{Err: fmt.Errorf("audit: control %s is about the case %q, which does not exist", c.Name, c.Case)}
}
