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
	"github.com/privopt/privopt/sco"
)

// passing is a setting of output noise on passes over a permutation.
type passing struct {
	followed
	mech          planner[*erm.Problem, *sco.Plan]
	declared      loss.Linear // whose constants the loss declares
	batch, passes int
	lambda        float64 // λ of steps that shrink, after which the last iterate is released
	phases        []phase
}

func (c *passing) prepare(ctx context.Context, e *Env) error {
	_, err := follow(ctx, e, &c.followed, c.mech, c.declared)
	return err
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

// tour is what one release did in one phase.
type tour struct {
	start, mean, noise []float64
	used               map[int]bool
	first              []int // records of the first pass, in order
}

// tours returns the phases of the last release. The noise of a phase is what follows the average of
// the points where gradients were taken, or the end of strongly convex passes.
func (c *passing) tours() (list []tour, err error) {
	points := c.trail.points
	at := len(points) - 1
	for _, p := range c.phases {
		at -= c.passes*(p.records/c.batch) + 1
	}
	if at < 0 {
		return nil, fmt.Errorf("audit: %d iterates, want more", len(points))
	}
	d := len(points[0])
	for _, p := range c.phases {
		steps := c.passes * (p.records / c.batch)
		t := tour{start: points[at], mean: make([]float64, d), used: map[int]bool{}}
		for s := range steps {
			floats.AddScaled(t.mean, 1/float64(steps), points[at+s])
			for _, j := range c.trail.batches[at+s+1] {
				t.used[j] = true
				if s < steps/c.passes {
					t.first = append(t.first, j)
				}
			}
		}
		if c.lambda > 0 {
			copy(t.mean, points[at+steps])
		}
		at += steps + 1
		t.noise = floats.SubTo(make([]float64, d), points[at], t.mean)
		list = append(list, t)
	}
	return list, nil
}

// white recovers the noise of every phase.
func (c *passing) white(ctx context.Context, e *Env) (Finding, error) {
	one := gaussianScale(c.budget, 1)
	reason := ""
	f, err := c.scores(ctx, e, e.few(len(c.phases)*len(c.data[0][0].a)), func(_ int, rel *dp.Release) (z []float64, err error) {
		tours, err := c.tours()
		for p, t := range tours {
			floats.Scale(1/(one*c.reach(c.phases[p])), t.noise)
			z = append(z, t.noise...)
		}
		if end := c.trail.points[len(c.trail.points)-1]; !floats.Equal(end, rel.Theta) {
			reason = "the released point is not the one behind the noise"
		}
		return z, err
	})
	f.Reason = reason
	return f, err
}

// sampled tests the permutation: the last record is anywhere in it with equal
// probability, each record at most once a pass and in one phase.
func (c *passing) sampled(ctx context.Context, e *Env) (Finding, error) {
	aux, n := e.Source("placed"), len(c.data[0])
	reason := ""
	f, err := Recover(ctx, e, c.cert, e.Rows(1), func(ctx context.Context, src rand.Source) ([]float64, error) {
		if _, err := c.fit[0](ctx, src); err != nil {
			return nil, err
		}
		tours, err := c.tours()
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
		u := (lo + (hi-lo)*uniform(aux)) / float64(n)
		return []float64{Normal(u, 1-u)}, nil
	})
	f.Reason = reason
	return f, err
}

// coupled releases from both data sets with one stream: the averages of a phase may not be further
// apart than its start, or, where the record that differs is passed over, than that and what the
// noise hides. Its power is the largest share of this that was seen.
func (c *passing) coupled(ctx context.Context, e *Env) (Finding, error) {
	f, n, share := Claimed(c.cert), len(c.data[0]), 0.0
	for run := range 500 * int(e.Tier) {
		if err := ctx.Err(); err != nil {
			return f, err
		}
		var tours [2][]tour
		for i := range tours {
			if _, err := c.fit[i](ctx, e.Source("coupled", fmt.Sprint(run))); err != nil {
				return f, err
			}
			var err error
			if tours[i], err = c.tours(); err != nil {
				return f, err
			}
			f.Runs++
		}
		for p := range c.phases {
			a, b := tours[0][p], tours[1][p]
			apart, moved := floats.Distance(a.start, b.start, 2), floats.Distance(a.mean, b.mean, 2)
			allowed := apart
			if a.used[n-1] || b.used[n-1] {
				allowed += c.reach(c.phases[p])
				share = math.Max(share, (moved-apart)/c.reach(c.phases[p]))
			}
			if moved > allowed*(1+1e-9)+1e-12 {
				f.Reason = fmt.Sprintf("a record moves the average of phase %d by %.3g, the claim is %.3g", p+1, moved, allowed)
			}
		}
	}
	f.Power, f.Least = share, 0.25
	return f, nil
}
