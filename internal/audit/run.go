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

// Name returns mechanism/case.
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

// Run runs the cases on all processors and fills them in; done, if not nil, is
// called after each. Values do not depend on the number of processors. It
// returns ctx.Err() if it was cancelled.
func Run(ctx context.Context, list []Result, tier Tier, seed uint64, done func(r *Result)) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan *Result)
	for range min(len(list), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for r := range next {
				r.measure(ctx, tier, seed, 0)
				if done != nil {
					mu.Lock()
					done(r)
					mu.Unlock()
				}
			}
		})
	}
	for i := range list {
		if ctx.Err() == nil {
			next <- &list[i]
		}
	}
	close(next)
	wg.Wait()
	return ctx.Err()
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

// Sabotage runs the control: its case in the quick tier, in the context that
// breaks one step. The error says that the control tests nothing: its case does
// not exist, a step was never reached, or the case could not measure.
func (c Control) Sabotage(ctx context.Context, seed uint64) (Result, error) {
	for _, r := range Select(nil, Long) {
		if r.Full() != c.Case {
			continue
		}
		broken := c.Break(ctx)
		r.measure(broken, Quick, seed, c.Runs)
		if r.Err != nil {
			return r, r.Err
		}
		if missed := fault.From(broken).Missed(); missed != nil {
			return r, fmt.Errorf("audit: control %s replaces %v, which %s never reaches", c.Name, missed, c.Case)
		}
		return r, nil
	}
	return Result{}, fmt.Errorf("audit: control %s is about the case %q, which does not exist", c.Name, c.Case)
}
