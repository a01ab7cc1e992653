package objpert

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ablated is CellSearch, or GenericSearch if dense, with one worker, without
// some of its ideas.
type ablated struct {
	without ablation
	dense   bool
}

func (o ablated) Solve(ctx context.Context, p *Problem) (*Solution, error) {
	n, r := newNoise(p), &run{workers: 1}
	if o.dense {
		return settle(ctx, p, n, &genericEngine{p: p, m: newGenericModel(p, n, o.without), n: n, without: o.without}, r)
	}
	m, err := newCellModelWithout(o.without, p, 1<<32)
	if err != nil {
		return nil, err
	}
	e := &cellEngine{p: p, m: m, n: n}
	if err := e.combine(1e6); err != nil {
		return nil, err
	}
	return settle(ctx, p, n, e, r)
}

var ablations = []struct {
	name    string
	without ablation
	dense   bool // an idea of GenericSearch, else of CellSearch
}{
	{"nothing", ablation{}, false},
	{"merge", ablation{merge: true}, false},
	{"order", ablation{order: true}, false},
	{"round", ablation{round: true}, false},
	{"polish", ablation{polish: true}, false},
	{"all", ablation{merge: true, order: true, round: true, polish: true}, false},
	{"nothing", ablation{}, true},
	{"start", ablation{start: true}, true},
	{"columns", ablation{columns: true}, true},
	{"giveUp", ablation{giveUp: true}, true},
	{"all", ablation{start: true, columns: true, giveUp: true}, true},
}

// TestAblation: ideas change the effort and nothing else.
func TestAblation(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	for range 150 {
		rows, labels, weights, space, table, norm := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		p, err = p.Perturb(table, norm)
		require.NoError(t, err)
		want, err := Enumerate{}.Solve(context.Background(), p)
		require.NoError(t, err)
		for _, a := range ablations {
			got, err := ablated{a.without, a.dense}.Solve(context.Background(), p)
			require.NoError(t, err)
			require.True(t, got.Proven)
			require.Equal(t, want.W, got.W, a.name)
			require.Equal(t, want.Objective, got.Objective, a.name)
		}
	}
}

// BenchmarkAblation shows what each idea of the searches buys, by leaving it
// out, on Adult and on dense Gaussian rows, with one worker, a minute at most:
//
//	PRIVOPT_DATA=… go test ./objpert -run xxx -bench Ablation -benchtime 5x
func BenchmarkAblation(b *testing.B) {
	for _, c := range []struct{ d, q int }{{23, 23}, {43, 9}, {60, 4}} {
		for _, a := range ablations {
			if a.dense {
				continue
			}
			b.Run(benchName("oracle=CellSearch", c.d, c.q)+"/without="+a.name, func(b *testing.B) {
				p := adultProblem(b, c.d, c.q)
				var problems []*Problem
				for seed := range uint64(5) {
					problems = append(problems, perturbSphere(b, p, 1, "gaussian", seed))
				}
				benchmarkSolve(b, ablated{a.without, false}, time.Minute, problems...)
			})
		}
	}
	for _, c := range []struct {
		d   int
		eps float64
	}{{8, 1}, {10, 1}, {15, 0.1}} {
		for _, a := range ablations {
			if !a.dense {
				continue
			}
			b.Run(fmt.Sprintf("oracle=GenericSearch/n=2000/d=%d/Q=%[1]d/eps=%g/without=%s", c.d, c.eps, a.name), func(b *testing.B) {
				p := denseProblem(b, 2000, c.d, c.d)
				var problems []*Problem
				for seed := range uint64(5) {
					problems = append(problems, perturbSphere(b, p, c.eps, "gaussian", seed))
				}
				benchmarkSolve(b, ablated{a.without, true}, time.Minute, problems...)
			})
		}
	}
}
