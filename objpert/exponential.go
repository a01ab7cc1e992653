// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
)

// Exponential is the exponential mechanism [MT07] over a finite set: it draws a point by its loss,
//
//	P(w) ∝ π(w) e^{−L(w)/c},   c = 2R/ε, or R/ε under AddRemove
//
// exactly, by integers alone. No noise perturbs the loss, and no minimizer has to be proved. On
// Adult and Lattice(4) the expected accuracy at ε = .1 is .772, that of [OPDisc] .750. The error
// grows like the logarithm of the number of points, not like Q times the dimension. Losses of
// [Custom] problems are unknown to it.
type Exponential struct {
	// Relation of neighboring data sets; 0 means dp.Replace. dp.AddRemove halves c.
	Relation dp.Relation
	// Range is R: the loss of one record lies in [0, R]. 0 means 1, the range of the 0/1 loss of
	// halfspaces.
	Range float64
	// Uniform makes π uniform on W. Otherwise half of π is uniform, and half is shared equally by the
	// squared norms: whatever the Q declared, the expected loss is then little above that of the best
	// smaller Q, which nobody has to know.
	Uniform bool
	// Points is the largest |W| whose points are all visited; 0 means 2¹⁴. Larger sets are divided by
	// the search for 0/1 columns where the columns are mostly 0/1; elsewhere, or where it takes less
	// time, up to 2²⁴ points are visited. Of more of them points of π are tried until one is accepted,
	// which takes long where ε times the number of wrong records is large. The law is the same, and
	// ctx may end each.
	Points int
}

// Fit releases a point of W under the budget b. The error wraps an error of [Exponential.Plan] or
// [Plan.Fit].
func (m *Exponential) Fit(ctx context.Context, p *Problem, b dp.Budget, src rand.Source) (*dp.Release, error) {
	return fit(ctx, m.Plan, p, b, src)
}

// Plan returns the law for p under the budget b: the least c that the following theorem allows. A δ
// in the budget lowers c. It reads the dimension and the space of p, and no record. The claim is
// docs/theory/discrete.md#objpert.exponential/1, with no assumption; [Plan.Profile] returns the
// curves of a loss of range ε, by which ten releases cost two thirds of ten times ε = .1 at δ =
// 1e-6.
// Errors are as in [OPDisc.Plan], and wrap [ErrLimit] if W has more than 2⁴⁶ points or 2²⁰ squared
// norms, or more points than can be visited and more than 127 values or squared norms too large for
// a table.
func (m *Exponential) Plan(p *Problem, b dp.Budget) (*Plan, error) {
	m = cmp.Or(m, new(Exponential))
	settings := Product{Relation: m.Relation, Range: m.Range}
	if p != nil && p.custom {
		return nil, fmt.Errorf("%w: only the caller's oracle knows the loss of a Custom problem, but Exponential has to "+
			"compute it: want a problem of NewProblem, or OPDisc or Product", ErrMechanism)
	}
	pl, b, err := start(p, b, settings, 0, "Gibbs", Gibbs)
	if err != nil {
		return nil, err
	}
	if m.Points < 0 || m.Points > maxPoints {
		return nil, fmt.Errorf("%w: Points = %d, want a number of points up to %d, or 0", ErrMechanism, m.Points, maxPoints)
	}
	q := &pl.params
	pl.law, err = newPrior(&q.Space, q.Dim, m.Uniform)
	if err != nil {
		return nil, err
	}
	pl.law.visited = uint64(cmp.Or(m.Points, 1<<14))
	pl.law.span = span(b)
	if err := pl.law.tabulate(&q.Space, q.Dim); err != nil {
		return nil, err
	}
	q.Uniform, q.Limit = m.Uniform, 0
	q.Shift = swing(q.Relation) * q.Range
	q.Scale = q.Shift / pl.law.span
	if math.FMA(q.Scale, pl.law.span, -q.Shift) < 0 { // the sign of a sum that is rounded once is right
		q.Scale = math.Nextafter(q.Scale, math.Inf(1))
	}
	q.ExcessBound = q.Scale * pl.law.logLeast() * (1 + 0x1p-40)
	q.Proved = b
	q.Theorem = theoremExponential
	return pl, nil
}

// span returns η ≥ ε, rounded down, such that a privacy loss of range η is (ε, δ)-private: ε for
// δ = 0, else ε + 2 ln(1 + √(δ(1 − e^{−ε} + δe^{−ε}))) − 2 ln(1 − δ).
func span(b dp.Budget) float64 {
	root := math.Sqrt(b.Delta * (-math.Expm1(-b.Epsilon) + b.Delta*math.Exp(-b.Epsilon)))
	return max(b.Epsilon, (b.Epsilon+2*math.Log1p(root)-2*math.Log1p(-b.Delta))*(1-0x1p-44))
}

// tabulate decides whether envelopes may serve: they need a table of squared norms and short paths.
// It is a property of the space, so that no record decides who is refused.
func (pr *prior) tabulate(s *Space, d int) error {
	top := pr.sqs[len(pr.sqs)-1]
	pr.plain = len(s.Values) > math.MaxInt8 || float64(d+1)*(float64(top)+1) > maxTable
	if pr.plain && pr.points() > max(pr.visited, fewPoints) {
		return fmt.Errorf("%w: %d points with %d values and squared norms up to %d, want at most %d points, or at most %d "+
			"values and %d squared norms", ErrLimit, pr.points(), len(s.Values), top, max(pr.visited, fewPoints),
			math.MaxInt8, maxTable/(d+1))
	}
	return nil
}

const (
	fewPoints = 1 << 24 // visited where nothing else serves
	fewVisits = 1 << 27 // of entries of rows, a fraction of a second
	maxPoints = 1 << 27 // visited, of 4 bytes each
	maxWeight = 1 << 62 // of all points together
	maxTable  = 1 << 24 // numbers in the table of squared norms of an envelope
	mostNorms = 1 << 20 // squared norms, which are counted before anything is refused
)

// prior is π of Exponential: every point of squared norm sqs[i], of which there are counts[i], has
// the weight weights[i], and all together have total. No record enters.
type prior struct {
	sqs     []int // increasing
	counts  []uint64
	weights []uint64
	total   uint64

	span    float64 // η
	visited uint64  // the largest number of points to visit one by one
	plain   bool    // no envelope is possible
}

// newPrior returns the prior on the points of s. With N points, N_q of which have the squared norm
// q, and S norms the weight of a point is 1, or D(1 + N/(S·N_q)) rounded up, D a power of two times
// the least common multiple of the S·N_q where that fits, else a power of two.
func newPrior(s *Space, d int, uniform bool) (*prior, error) {
	const most = 1 << 46 // sums over 2¹⁷ values stay in int64
	count, n := s.norms(d, most, mostNorms)
	if count == nil {
		return nil, fmt.Errorf("%w: more than %d squared norms, want values nearer to 0, or OPDisc", ErrLimit, mostNorms)
	}
	if n > most || bits.Len(uint(n))+bits.Len(uint(len(count))) > 62 {
		return nil, fmt.Errorf("%w: more than 2^46 points, want a smaller space for Exponential, or OPDisc", ErrLimit)
	}
	pr := new(prior)
	for q := range count {
		pr.sqs = append(pr.sqs, q)
	}
	slices.Sort(pr.sqs)
	common, norms := uint64(1), uint64(len(count))
	size := uint64(n)
	fine := uint64(maxWeight) / (4 * size) // weights sum to at most D(2N + N) < 4DN
	for _, q := range pr.sqs {
		c := uint64(count[q])
		pr.counts = append(pr.counts, c)
		if hi, lo := bits.Mul64(common/gcd(common, norms*c), norms*c); hi == 0 && lo <= fine {
			common = lo
			continue
		}
		common = 1 << (bits.Len64(fine) - 1)
	}
	for i, c := range pr.counts {
		w := uint64(1)
		if !uniform {
			w = common + (common*size+norms*c-1)/(norms*c)
		}
		pr.weights = append(pr.weights, w)
		pr.total += w * pr.counts[i]
	}
	return pr, nil
}

// logLeast is −ln min π.
func (pr *prior) logLeast() float64 {
	return math.Log(float64(pr.total) / float64(slices.Min(pr.weights)))
}

// point draws a point from the prior: the index of its squared norm, and its rank among the points
// of that norm.
func (pr *prior) point(src rand.Source) (norm int, rank uint64) {
	u := noise.Below(pr.total, src)
	for i, c := range pr.counts {
		if u < c*pr.weights[i] {
			return i, u / pr.weights[i]
		}
		u -= c * pr.weights[i]
	}
	panic("objpert: weights do not sum to their total")
}

// gibbs draws the release of Exponential.
func (pl *Plan) gibbs(ctx context.Context, p *Problem, src noise.Source) ([]int, error) {
	draw, n := pl.visit, pl.law.points()
	if n > pl.law.visited && !pl.law.plain && (n > fewPoints || pl.visits(p) > fewVisits) {
		draw = pl.divide
	}
	w, err := draw(ctx, p, src)
	if errors.Is(err, ErrLimit) { // columns that are not mostly 0/1, or visits are cheaper: the same law
		draw = pl.visit
		if n > max(pl.law.visited, fewPoints) {
			draw = pl.whole
		}
		w, err = draw(ctx, p, src)
	}
	if errors.Is(err, ErrInterrupted) {
		err = fmt.Errorf("objpert: %w: %w", dp.ErrWithheld, err)
	}
	return w, err
}

// accepts reports true with probability e^{−g/c}, exactly.
// Proof: docs/theory/discrete.md#discrete.gap
func (pl *Plan) accepts(ctx context.Context, g int64, src rand.Source) bool {
	return fault.At(fault.From(ctx), fault.LossGap, noise.Gap(pl.params.Scale, src)) >= g
}

// tries calls try until it returns a point, most times at most, after which there is none. Nothing
// comes between the first success and the release.
func (pl *Plan) tries(ctx context.Context, src noise.Source, most int, try func() []int) ([]int, error) {
	for i := range most {
		if w := try(); w != nil {
			return w, nil
		}
		if i&0x3f == 0x3f {
			if ctx.Err() != nil {
				return nil, interrupted(ctx)
			}
			if err := src.Err(); err != nil { // a source that repeats itself may never accept
				return nil, err
			}
		}
	}
	return nil, nil
}

// points is |W|.
func (pr *prior) points() (n uint64) {
	for _, c := range pr.counts {
		n += c
	}
	return n
}
