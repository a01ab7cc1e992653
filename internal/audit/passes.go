package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/sco"
)

// passing is a setting of output noise on passes over a permutation.
type passing struct {
	mech           planner[*erm.Problem, *sco.PassPlan]
	loss, declared loss.Linear // the loss, and the one whose constants it declares
	bounds         loss.Bounds
	budget         dp.Budget
	clip           float64 // L
	batch, passes  int
	lambda         float64 // λ of steps that shrink, after which the last iterate is released
	phases         []phase
	data           [2][]record
}

// phase is n records passed over with step η.
type phase struct {
	records int
	step    float64
}

// halves are the phases of n records: ⌊n/2^i⌋ for i ≥ 2, and the rest before
// them, with steps η/4^i.
func halves(n int, eta float64) []phase {
	list := []phase{{n, eta / 4}}
	for size := n / 4; size >= 1; size /= 2 {
		list = append(list, phase{size, list[len(list)-1].step / 4})
		list[0].records -= size
	}
	return list
}

// reach returns 2kLη/b, how far a record moves the average of its phase, or
// L/(λb⌊n/b⌋), how far it moves the end of strongly convex passes.
func (c *passing) reach(p phase) float64 {
	if c.lambda > 0 {
		return c.clip / (c.lambda * float64(c.batch*(p.records/c.batch)))
	}
	return 2 * float64(c.passes) * c.clip * p.step / float64(c.batch)
}

// passed is a setting that is ready to release from either data set.
type passed struct {
	*passing
	*followed
	cert dp.Certificate
}

// prepare plans for both data sets and releases once.
func (c *passing) prepare(ctx context.Context, e *Env) (*passed, error) {
	r := &passed{passing: c}
	var err error
	if r.followed, _, err = followPair(c.mech, c.data, c.bounds, c.loss, c.declared, c.budget); err != nil {
		return nil, err
	}
	rel, err := r.followed.release(ctx, 0, e.Source("claim"))
	if err != nil {
		return nil, err
	}
	r.cert = rel.Certificate
	return r, nil
}

// tour is what one release did in one phase.
type tour struct {
	start, mean, noise []float64
	used               map[int]bool
	first              []int // records of the first pass, in order
}

// release releases once and returns its phases. The noise of a phase is what
// follows the average of the points where gradients were taken, or the end of
// strongly convex passes.
func (r *passed) release(ctx context.Context, i int, src rand.Source) (*dp.Release, []tour, error) {
	rel, err := r.followed.release(ctx, i, src)
	if err != nil {
		return nil, nil, err
	}
	at := len(r.trail.points) - 1
	for _, p := range r.phases {
		at -= r.passes*(p.records/r.batch) + 1
	}
	if at < 0 {
		return nil, nil, fmt.Errorf("audit: %d iterates, want more", len(r.trail.points))
	}
	var list []tour
	for _, p := range r.phases {
		d := len(rel.Theta)
		steps := r.passes * (p.records / r.batch)
		t := tour{start: r.trail.points[at], mean: make([]float64, d), used: map[int]bool{}}
		for s := range steps {
			floats.AddScaled(t.mean, 1/float64(steps), r.trail.points[at+s])
			for _, j := range r.trail.batches[at+s+1] {
				t.used[j] = true
				if s < steps/r.passes {
					t.first = append(t.first, j)
				}
			}
		}
		if r.lambda > 0 {
			copy(t.mean, r.trail.points[at+steps])
		}
		at += steps + 1
		t.noise = floats.SubTo(make([]float64, d), r.trail.points[at], t.mean)
		list = append(list, t)
	}
	return rel, list, nil
}

// noisy recovers the noise of every phase, of so many releases a row.
func (c *passing) noisy(ctx context.Context, e *Env, releases int) (Finding, error) {
	r, err := c.prepare(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	one := gaussianScale(c.budget, 1)
	reason := ""
	f, err := Recover(ctx, e, r.cert, e.few(len(c.phases)*len(c.data[0][0].a)*releases),
		func(ctx context.Context, src rand.Source) ([]float64, error) {
			var row []float64
			for range releases {
				i := 1 - r.side
				rel, tours, err := r.release(ctx, i, src)
				if err != nil {
					return nil, err
				}
				for p, t := range tours {
					floats.Scale(1/(one*c.reach(c.phases[p])), t.noise)
					row = append(row, t.noise...)
				}
				if end := r.trail.points[len(r.trail.points)-1]; !floats.Equal(end, rel.Theta) {
					reason = "the released point is not the one behind the noise"
				}
			}
			return row, nil
		})
	f.Reason = reason
	return f, err
}

func (c *passing) white(ctx context.Context, e *Env) (Finding, error) { return c.noisy(ctx, e, 1) }
func (c *passing) twice(ctx context.Context, e *Env) (Finding, error) { return c.noisy(ctx, e, 2) }

// sampled tests the permutation: the last record is anywhere in it with equal
// probability, each record at most once a pass and in one phase.
func (r *passed) sampled(ctx context.Context, e *Env) (Finding, error) {
	aux, n := e.Source("placed"), len(r.data[0])
	reason := ""
	f, err := Recover(ctx, e, r.cert, e.Rows(1), func(ctx context.Context, src rand.Source) ([]float64, error) {
		_, tours, err := r.release(ctx, 0, src)
		if err != nil {
			return nil, err
		}
		var order []int
		times := map[int]int{}
		for _, t := range tours {
			order = append(order, t.first...)
			for j := range t.used {
				times[j]++
			}
			if len(t.used) != len(t.first) {
				reason = "a record is twice in a pass, or not in every one"
			}
		}
		lo, hi := float64(len(order)), float64(n) // left out
		for place, j := range order {
			if times[j] > 1 {
				reason = "a record is in two phases"
			}
			if j == n-1 {
				lo, hi = float64(place), float64(place+1)
			}
		}
		u := (lo + (hi-lo)*noise.Uniform(aux)) / float64(n)
		return []float64{Normal(u, 1-u)}, nil
	})
	f.Reason = reason
	return f, err
}

// coupled releases from both data sets with one stream: the averages of a phase
// may not be further apart than its start, or, where the record that differs is
// passed over, than that and what the noise hides. Its power is the largest share
// of this that was seen.
func (r *passed) coupled(ctx context.Context, e *Env) (Finding, error) {
	f, n, share := Finding{}, len(r.data[0]), 0.0
	for run := range 500 * int(e.Tier) {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		var tours [2][]tour
		for i := range tours {
			rel, list, err := r.release(ctx, i, e.Source("coupled", fmt.Sprint(run)))
			if err != nil {
				return f, err
			}
			if run == 0 && i == 0 {
				f = Claimed(rel.Certificate)
			}
			f.Runs++
			tours[i] = list
		}
		for p := range r.phases {
			a, b := tours[0][p], tours[1][p]
			apart, moved := floats.Distance(a.start, b.start, 2), floats.Distance(a.mean, b.mean, 2)
			allowed := apart
			if a.used[n-1] || b.used[n-1] {
				allowed += r.reach(r.phases[p])
				share = math.Max(share, (moved-apart)/r.reach(r.phases[p]))
			}
			if moved > allowed*(1+1e-9)+1e-12 {
				f.Reason = fmt.Sprintf("a record moves the average of phase %d by %.3g, the claim is %.3g", p+1, moved, allowed)
			}
		}
	}
	f.Power, f.Least = share, 0.25
	return f, nil
}
