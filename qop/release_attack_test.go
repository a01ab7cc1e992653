package qop_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
)

// records returns n rows inside the unit ball with labels in [−1, 1].
func records(n, d int, src interface{ Uint64() uint64 }) (rows [][]float64, labels []float64) {
	for range n {
		a := make([]float64, d)
		noise.Sphere(a, src)
		floats.Scale(noise.Uniform(src), a)
		rows = append(rows, a)
		labels = append(labels, 2*noise.Uniform(src)-1)
	}
	return rows, labels
}

func bits(theta []float64) string {
	var b []byte
	for _, v := range theta {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return string(b)
}

// problem has anchor-seeking least squares with ℓ1 in a box.
func problem(t *testing.T, rows [][]float64, labels []float64, l loss.Loss) *erm.Problem {
	t.Helper()
	bounds := loss.Bounds{Row: 1, Label: 3}
	if loss.CheckData(l, 3, bounds) != nil { // a loss of classes
		bounds.Label = 1
	}
	data, err := erm.NewData(rows, labels, bounds)
	require.NoError(t, err)
	return &erm.Problem{Data: data, Loss: l, Reg: prox.L1{Weight: 0.5}, Set: prox.Box{Lo: -0.4, Hi: 0.4}}
}

var anchor = []float64{0.5, -0.3, 0.2}

// TestReleaseIgnoresOrder: for every rule, 1000 orders of the records and
// GOMAXPROCS from 1 to 16 give the same released bits.
func TestReleaseIgnoresOrder(t *testing.T) {
	orders := 1000
	if testing.Short() {
		orders = 40
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name string
		loss loss.Loss
		rule qop.Interpolation
	}{
		{"relabel", loss.Squared{}, qop.Relabel{}},
		{"drop", loss.Squared{}, qop.Drop{Tolerance: 0.5}},
		{"trust", loss.Squared{}, qop.Trust{}},
		{"huber", loss.Huber{Delta: 0.3}, qop.Relabel{}},
		{"hinge", loss.SmoothedHinge{Gamma: 0.5}, qop.Relabel{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := noise.Reproducible(51, c.name)
			rows, labels := records(60, 3, src)
			copy(rows[1], rows[0]) // a tie
			copy(rows[2], rows[0])
			labels[1] = labels[0]
			m := &qop.Mechanism{Center: anchor, Interpolation: c.rule, Radius: 1}
			plan, err := m.Plan(problem(t, rows, labels, c.loss), dp.Budget{Epsilon: 1, Delta: 1e-4})
			require.NoError(t, err)
			var want string
			for k := range orders {
				runtime.GOMAXPROCS(1 + k%16)
				rel, err := plan.Fit(t.Context(), problem(t, rows, labels, c.loss), noise.Reproducible(7))
				require.NoError(t, err)
				if want == "" {
					want = bits(rel.Theta)
				}
				require.Equal(t, want, bits(rel.Theta), "order %d", k)
				for i := len(rows) - 1; i > 0; i-- {
					j := int(src.Uint64() % uint64(i+1))
					rows[i], rows[j] = rows[j], rows[i]
					labels[i], labels[j] = labels[j], labels[i]
				}
			}
		})
	}
}

// TestForeignRecordIsForced: no record, however hostile, moves the output from
// that of a record that interpolates: with r = 0 and the anchor in C the exact
// output is the anchor, and stays it (pair A5).
func TestForeignRecordIsForced(t *testing.T) {
	rows, labels := records(20, 3, noise.Reproducible(52))
	bare := fault.With(t.Context(), fault.OutputScale, func(float64) float64 { return 0 })
	hostile := []float64{0, 1, -1, 1e308, -1e308, math.Inf(1), math.NaN(), 1e-308}
	for _, rule := range []qop.Interpolation{qop.Relabel{}, qop.Drop{Tolerance: 0.1}} {
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.5}} {
			for i, v := range hostile {
				rows[0] = []float64{v, hostile[(i+3)%len(hostile)], 1}
				labels[0] = hostile[(i+5)%len(hostile)]
				p := problem(t, rows, labels, l)
				p.Reg, p.Set = nil, prox.Box{Lo: -1, Hi: 1}
				m := &qop.Mechanism{Center: anchor, Interpolation: rule}
				rel, err := m.Fit(bare, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, noise.Reproducible(1))
				require.NoError(t, err)
				// Certified to Cover, 1e-8 of the set's radius √3.
				require.True(t, floats.EqualApprox(anchor, rel.Theta, 2e-8), "%T %v: %v", rule, rows[0], rel.Theta)
			}
		}
	}
}

// TestSingularMatrixIsWithheld: a drawn matrix without a proved λ_min > 0 and a
// solver that does not arrive release nothing.
func TestSingularMatrixIsWithheld(t *testing.T) {
	rows, labels := records(20, 3, noise.Reproducible(53))
	p := problem(t, rows, labels, loss.Squared{})
	m := &qop.Mechanism{Center: anchor, Interpolation: qop.Trust{}}
	for _, scale := range []float64{0, 1e-300, 1e-200, -1, math.NaN(), math.Inf(1)} {
		ctx := fault.With(t.Context(), fault.Wishart, func(w *mat.SymDense) *mat.SymDense {
			s := mat.NewSymDense(3, nil)
			s.ScaleSym(scale, w)
			return s
		})
		rel, err := m.Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-4}, noise.Reproducible(2))
		require.Nil(t, rel, "scale %v", scale)
		require.ErrorIs(t, err, dp.ErrWithheld, "scale %v", scale)
		require.Empty(t, fault.From(ctx).Missed())
	}
}

// TestSoak: 64 goroutines fit one plan; PRIVOPT_LONG makes it last.
func TestSoak(t *testing.T) {
	rounds := 3
	if os.Getenv("PRIVOPT_LONG") != "" {
		rounds = 4000
	}
	rows, labels := records(40, 3, noise.Reproducible(54))
	p := problem(t, rows, labels, loss.Squared{})
	plan, err := (&qop.Mechanism{Center: anchor, Interpolation: qop.Relabel{}}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			first := ""
			for range rounds {
				rel, err := plan.Fit(t.Context(), p, noise.Reproducible(uint64(g)))
				if err != nil {
					t.Error(err)
					return
				}
				if b := bits(rel.Theta); first == "" {
					first = b
				} else if first != b {
					t.Errorf("goroutine %d: other bits", g)
				}
				_ = fmt.Sprint(p, plan.Public, rel.Certificate)
			}
		})
	}
	wg.Wait()
	// A goroutine that is done is counted until it is off its processor; one more runs the condition.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond, "goroutines are left")
}
