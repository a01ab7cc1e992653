// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// categories makes records of two one-hot attributes of three levels and a number, over Lattice(3).
func categories(t testing.TB, n int) *Problem {
	src := rand.New(noise.Reproducible(uint64(n)))
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, 5)
		rows[i][src.IntN(2)], rows[i][2+src.IntN(2)], rows[i][4] = 3, 3, src.Int64N(4)-1
		labels[i] = 2*src.IntN(2) - 1
		if rows[i][0] > 0 && src.IntN(5) > 0 {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, Lattice(3))
	require.NoError(t, err)
	return p
}

// hostile returns a problem over an odd space with records that a caller would not write: features
// near ±2⁶³, equal rows, labels and weights of any sign, rows of zeros; nil where no point exists.
func hostile(src *rand.Rand) *Problem {
	d, space := 1+src.IntN(4), Space{NormSq: []int{-1, 1 + src.IntN(30), 1 + src.IntN(200_000)}[src.IntN(3)]}
	for _, v := range []int{-8192, -5, -3, -2, -1, 0, 1, 2, 3, 4, 127} {
		if src.IntN(3) == 0 {
			space.Values = append(space.Values, v)
		}
	}
	for j := 0; j < d && src.IntN(2) == 0; j++ {
		space.Allowed = append(space.Allowed, make([]bool, len(space.Values)))
		for k := range space.Values {
			space.Allowed[j][k] = src.IntN(3) > 0
		}
	}
	for len(space.Allowed) > 0 && len(space.Allowed) < d {
		space.Allowed = append(space.Allowed, slices.Repeat([]bool{true}, len(space.Values)))
	}
	n := 1 + src.IntN(8)
	rows, labels, weights := make([][]int64, n), make([]int, n), make([]int, n)
	for i := range rows {
		for range d {
			x := []int64{math.MinInt64, math.MaxInt64, int64(src.Uint64()), src.Int64N(5) - 2, 1, 1, 1, 1, 0, 0, 0, 0}
			rows[i] = append(rows[i], x[src.IntN(len(x))])
		}
		labels[i], weights[i] = src.IntN(5)-2, []int{0, 1, 2, 3, math.MinInt, 1 << 24}[src.IntN(6)]
	}
	p, err := NewProblem(rows, labels, weights, space)
	if err != nil {
		return nil
	}
	return p
}

// TestEnvelopeOfHostileRecords: whatever the records are, parts are a partition with bounds that
// hold and the weights of their points, and a release is made.
func TestEnvelopeOfHostileRecords(t *testing.T) {
	src, checked := rand.New(noise.Reproducible(77)), 0
	for range testkit.Of(500, 5000, 30_000) {
		p := hostile(src)
		if p == nil || p.space.pointsUpTo(p.dim, 2000) > 2000 {
			continue
		}
		m, eps := &Exponential{Uniform: src.IntN(2) == 0, Points: 1}, math.Exp(8*src.Float64()-4)
		plan, err := m.Plan(p, dp.Budget{Epsilon: eps})
		require.NoError(t, err)
		_, err = plan.Fit(bg, p, noise.Reproducible(src.Uint64()))
		require.NoError(t, err)
		if plan.law.plain {
			continue
		}
		e, err := plan.newEnvelope(p)
		if err != nil {
			require.ErrorIs(t, err, ErrLimit)
			continue
		}
		checked++
		for _, cut := range []float64{10, -1, -4, -1e6} {
			e.build(bg, cut, src.Int64N(20))
			partition(t, plan, p, e)
		}
	}
	require.Greater(t, checked, 100)
}

// partition checks the parts of e, and returns the points.
func partition(t testing.TB, plan *Plan, p *Problem, e *envelope) (points [][]int) {
	weights := make([]uint64, len(e.parts))
	points = everyPoint(p)
	for _, w := range points {
		in, sq := 0, 0
		for _, v := range w {
			sq += v * v
		}
		for i, part := range e.parts {
			inside := true
			for j, k := range part.path {
				inside = inside && w[e.order[j]] == e.m.values[k]
			}
			if inside {
				in++
				weights[i] += plan.law.weights[slices.Index(plan.law.sqs, sq)]
				require.LessOrEqual(t, part.bound, int64(p.Loss(w)))
				if len(part.path) == p.dim {
					require.Equal(t, part.bound, int64(p.Loss(w)))
				}
			}
		}
		require.Equal(t, 1, in)
	}
	for i, part := range e.parts {
		require.Equal(t, weights[i], part.weight)
	}
	require.Equal(t, plan.law.total, e.sums[len(e.parts)])
	return points
}

// TestEnvelope: parts from one for each combination to single points are a partition with bounds
// that hold and the weights of their points, and the draw of a part has the law of these numbers.
func TestEnvelope(t *testing.T) {
	p := categories(t, 60)
	for _, uniform := range []bool{true, false} {
		for _, cut := range []float64{100, -1, -3, -6, -1000} {
			plan := exponentialPlan(t, &Exponential{Uniform: uniform}, p, 3)
			e, err := plan.newEnvelope(p)
			require.NoError(t, err)
			e.build(bg, cut, 7)
			points := partition(t, plan, p, e)
			if cut < -100 {
				require.Len(t, e.parts, len(points))
			}
		}
	}
}

// TestEnvelopeLaw: draws by subtrees have the law of the definition, whatever the parts.
func TestEnvelopeLaw(t *testing.T) {
	p, runs := categories(t, 25), testkit.Of(3000, 40_000)
	for _, uniform := range []bool{true, false} {
		law := lawOf(p, 2, uniform)
		plan := exponentialPlan(t, &Exponential{Uniform: uniform, Points: 1}, p, 2)
		for _, cut := range []float64{100, -2, -4, -1000} {
			e, err := plan.newEnvelope(p)
			require.NoError(t, err)
			e.build(bg, cut, 3)
			src, count := noise.Watch(noise.Reproducible(2)), map[string]float64{}
			for range runs {
				w, err := plan.tries(bg, src, math.MaxInt, func() []int { return e.try(bg, src) })
				require.NoError(t, err)
				count[fmt.Sprint(w)]++
			}
			sampledLaw(t, fmt.Sprint(cut), count, float64(runs), law)
		}
		small := categories(t, 8)
		law = lawOf(small, 2, uniform)
		src, count := noise.Watch(noise.Reproducible(3)), map[string]float64{}
		few := 0
		for range runs / 2 { // tries that fail are followed by the visit of all points
			w, err := plan.divide(bg, small, src)
			if errors.Is(err, ErrLimit) {
				few++
				w, err = plan.visit(bg, small, src)
			}
			require.NoError(t, err)
			count[fmt.Sprint(w)]++
		}
		require.Positive(t, few)
		require.Less(t, few, runs/2)
		sampledLaw(t, "divide", count, float64(runs/2), law)
	}
	// Without 0/1 columns all points are visited, or points of the prior are tried. No records are
	// refused.
	plan := exponentialPlan(t, &Exponential{Points: 1}, halfspaces(t, 12, 3, Lattice(3)), 2.5)
	_, err := plan.Fit(bg, halfspaces(t, 12, 3, Lattice(3)), nil)
	require.NoError(t, err)
	dense := halfspaces(t, 12, 20, Lattice(9))
	_, err = (&Exponential{}).Fit(bg, dense, dp.Budget{Epsilon: 0.5}, nil)
	require.NoError(t, err)
	dense = halfspaces(t, 12, 3, Lattice(3))
	plan, count := exponentialPlan(t, &Exponential{}, dense, 4), map[string]float64{}
	src := noise.Watch(noise.Reproducible(5))
	for range runs {
		w, err := plan.whole(bg, dense, src)
		require.NoError(t, err)
		count[fmt.Sprint(w)]++
	}
	sampledLaw(t, "whole", count, float64(runs), lawOf(dense, 4, false))
	// Values that the norm rules out are no values of the search.
	odd, err := NewProblem([][]int64{{1, 0}, {0, 1}, {1, 1}}, []int{1, -1, 1}, nil,
		Space{Values: []int{-4, -1, 0, 1, 2, 5}, NormSq: 5})
	require.NoError(t, err)
	plan = exponentialPlan(t, &Exponential{}, odd, 2)
	e, err := plan.newEnvelope(odd)
	require.NoError(t, err)
	e.build(bg, -2, 0)
	for name, draw := range map[string]func() ([]int, error){
		"divided": func() ([]int, error) { return plan.tries(bg, src, math.MaxInt, func() []int { return e.try(bg, src) }) },
		"Fit":     func() ([]int, error) { return plan.gibbs(bg, odd, src) },
	} {
		count := map[string]float64{}
		for range runs {
			w, err := draw()
			require.NoError(t, err)
			count[fmt.Sprint(w)]++
		}
		sampledLaw(t, name, count, float64(runs), lawOf(odd, 2, false))
	}
	// One 0/1 column beside dense ones does not help.
	rows, labels := make([][]int64, 30), make([]int, 30)
	for i := range rows {
		rows[i] = make([]int64, 12)
		for j := range rows[i] {
			rows[i][j] = int64((i*i+7*j*i+j)%11) - 5
		}
		rows[i][0] = int64(i % 2)
		labels[i] = i%3 - 1
	}
	p, err = NewProblem(rows, labels, nil, Lattice(9))
	require.NoError(t, err)
	_, err = plan.newEnvelope(p)
	require.ErrorIs(t, err, ErrLimit)
}

// TestExponentialRefusesByTheSpace: whether a set is visited, divided or refused follows from the
// space alone: more than 127 values or large squared norms have no table, whatever the records are.
func TestExponentialRefusesByTheSpace(t *testing.T) {
	rows := [][]int64{{1, 0}, {0, 1}, {1, 1}, {1, 1}}
	for _, last := range [][]int64{{1, 1}, {-1, -2}} {
		rows[3] = last
		p, err := NewProblem(rows, []int{1, -1, 1, 1}, []int{100, 100, 30, 1}, Lattice(6000)) // 155 values
		require.NoError(t, err)
		for seed := range uint64(5) {
			_, err := (&Exponential{}).Fit(bg, p, dp.Budget{Epsilon: 1}, noise.Reproducible(seed))
			require.NoError(t, err)
		}
	}
	for _, sign := range []int64{1, -1} { // two values far apart: 2¹⁵ points, squared norms up to 10⁹
		rows := make([][]int64, 20)
		for i := range rows {
			rows[i] = make([]int64, 15)
			rows[i][i%15] = sign
		}
		p, err := NewProblem(rows, slices.Repeat([]int{1}, 20), nil, Space{Values: []int{0, 8192}, NormSq: -1})
		require.NoError(t, err)
		_, err = (&Exponential{}).Fit(bg, p, dp.Budget{Epsilon: 1}, noise.Reproducible(1))
		require.NoError(t, err)
	}
	far := make([]int, 4096) // two columns of them have 2²³ squared norms, three a number without end
	for i := range far {
		far[i] = 7*i + i%3 - 14_000
	}
	for d, space := range map[int]Space{4: Lattice(6000), 2: {Values: far, NormSq: -1}, 3: {Values: far, NormSq: -1}} {
		p, err := Empty(d, space)
		require.NoError(t, err)
		_, err = (&Exponential{}).Plan(p, dp.Budget{Epsilon: 1})
		require.ErrorIs(t, err, ErrLimit)
	}
}

// ending is a source that ends a context after n words.
type ending struct {
	n   int
	end context.CancelFunc
	src rand.Source
}

func (e *ending) Uint64() uint64 {
	if e.n--; e.n == 0 {
		e.end()
	}
	return e.src.Uint64()
}

// TestTriesEnd: tries that hardly ever succeed end with the context, and so do partitions; what the
// error says does not depend on the records.
func TestTriesEnd(t *testing.T) {
	dense := halfspaces(t, 3000, 20, Lattice(9))
	rnd := rand.New(noise.Reproducible(9))
	rows, labels := make([][]int64, 300), make([]int, 300)
	for i := range rows {
		for range 16 {
			rows[i] = append(rows[i], rnd.Int64N(2))
		}
		labels[i] = 2*rnd.IntN(2) - 1
	}
	bits, err := NewProblem(rows, labels, nil, Lattice(6))
	require.NoError(t, err)
	for name, draw := range map[string]func(ctx context.Context, src noise.Source) ([]int, error){
		"tries": func(ctx context.Context, src noise.Source) ([]int, error) {
			return exponentialPlan(t, &Exponential{}, dense, 0.1).gibbs(ctx, dense, src)
		},
		"partitions": func(ctx context.Context, src noise.Source) ([]int, error) {
			return exponentialPlan(t, &Exponential{Points: 1}, bits, 10).divide(ctx, bits, src)
		},
	} {
		ctx, cancel := context.WithCancel(bg)
		ends := &ending{n: 1000, end: cancel, src: noise.Reproducible(4)}
		if name == "partitions" {
			ends.n = 1
		}
		_, err := draw(ctx, noise.Watch(ends))
		require.ErrorIs(t, err, ErrInterrupted, name)
		require.Equal(t, name == "tries", errors.Is(err, dp.ErrWithheld), name)
	}
}

// TestVisits: the visit of all points is chosen where it looks at few entries, and in place of an
// envelope that would take longer; a division ends where its paths fill the memory set aside.
func TestVisits(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 0, 1}, {0, 1, 0}, {2, 2, 3}}, []int{1, -1, 1}, nil, Lattice(1))
	require.NoError(t, err)
	plan := exponentialPlan(t, &Exponential{Points: 1}, p, 1)
	require.Equal(t, 7*(1+6/3.0), plan.visits(p))
	rows, labels := make([][]int64, 400), make([]int, 400) // few points, many different rows
	for i := range rows {
		rows[i], labels[i] = make([]int64, 12), 2*(i%2)-1
		for j := range rows[i] {
			rows[i][j] = int64(i * (j + 3) * (i + j) / 7 & 1)
		}
	}
	p, err = NewProblem(rows, labels, nil, Lattice(1))
	require.NoError(t, err)
	plan = exponentialPlan(t, &Exponential{Points: 1}, p, 5)
	_, err = plan.divide(bg, p, noise.Watch(noise.Reproducible(1)))
	require.ErrorIs(t, err, ErrLimit)
	_, err = plan.Fit(bg, p, noise.Reproducible(1))
	require.NoError(t, err)
	e, err := plan.newEnvelope(p)
	require.NoError(t, err)
	e.build(bg, -1000, 0)
	require.Len(t, e.parts, 25)
	e.parts, e.path = nil, nil
	e.room = 1
	e.dense(bg, 0, 0)
	require.True(t, e.full())
	require.Less(t, len(e.parts), 25)
	weight := uint64(0)
	for _, part := range e.parts {
		weight += part.weight
	}
	require.Equal(t, plan.law.total, weight)
}
