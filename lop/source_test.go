package lop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// inOrder is a Source of records in memory, in their canonical order.
type inOrder struct {
	n, d int
	x, y []float64
}

func (s *inOrder) Dims() (records, features int) { return s.n, s.d }

func (s *inOrder) Read(_ context.Context, rows, labels []float64, first int) error {
	copy(rows, s.x[first*s.d:])
	copy(labels, s.y[first:])
	return nil
}

// inShards is a Remote of so many shards that are summed in any order.
type inShards struct {
	*inOrder
	shards int
}

func (s inShards) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	chunks, whole := (s.n+erm.Chunk-1)/erm.Chunk, new(erm.Sums)
	for _, k := range rand.Perm(s.shards) {
		lo, hi := k*chunks/s.shards*erm.Chunk, min((k+1)*chunks/s.shards*erm.Chunk, s.n)
		part, err := q.Sum(ctx, s, lo, hi-lo, 1+k%3)
		if err != nil {
			return nil, err
		}
		if err := whole.Merge(part); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// TestReleaseOfSourceHasTheBitsOfMemory: so many records that the solver starts from a sample and a pass computes gradient
// and Hessian, and fewer, in memory on one thread or three, in a source and on shards: one release.
func TestReleaseOfSourceHasTheBitsOfMemory(t *testing.T) {
	for _, n := range []int{3000, 530_000} {
		const d = 3
		rnd := rand.New(rand.NewPCG(1, 9))
		b, err := erm.NewBuilder(d, false, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		row := make([]float64, d)
		for range n {
			for j := range row {
				row[j] = rnd.Float64() - 0.4
			}
			b.Add(row, float64(2*rnd.IntN(2)-1))
		}
		data := b.Data()
		file := &inOrder{n: n, d: d}
		require.NoError(t, data.Each(func(a []float64, b float64) { file.x, file.y = append(file.x, a...), append(file.y, b) }))
		for _, p := range []erm.Problem{
			{Loss: loss.Logistic{}}, {Loss: loss.SmoothedHinge{Gamma: 0.5}, Reg: prox.L1{Weight: 10}, Set: prox.Box{Lo: -1, Hi: 1}},
			{Loss: loss.Squared{}, Set: prox.L2Ball{R: 0.5}},
		}[:map[bool]int{true: 3, false: 1}[n < 10_000 || testkit.Long()]] {
			var want []float64
			var certified erm.Trace
			fit := func(records *erm.Data, threads int, name string) {
				p := p
				p.Data, p.Threads = records, threads
				m := lop.Mechanism{Radius: 2, Relation: dp.Replace, Trace: func(tr erm.Trace) { certified = tr }}
				rel, err := m.Fit(t.Context(), &p, dp.Budget{Epsilon: 1, Delta: 1e-8}, noise.Reproducible(4))
				require.NoError(t, err, name)
				require.True(t, certified.Certified)
				if want == nil {
					want = rel.Theta
				}
				require.Equal(t, want, rel.Theta, "%v: %s, %d threads", &p, name, threads)
			}
			fit(data, 1, "memory")
			fit(data, 3, "memory")
			for _, src := range []erm.Source{file, inShards{file, 1}, inShards{file, 13}, inShards{file, 1000}} {
				records, err := erm.Open(src, data.Bounds())
				require.NoError(t, err)
				fit(records, 2, fmt.Sprintf("%T", src))
			}
		}
	}
}
