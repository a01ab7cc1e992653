package lop_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// bits are the exact bits of a released point.
func bits(theta []float64) string {
	var b []byte
	for _, v := range theta {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return string(b)
}

// TestReleaseIgnoresOrder: for five data sets, 1000 orders of the records and
// GOMAXPROCS from 1 to 16, the released bits are the same: the sums over records
// that a release rests on say nothing about who stood where.
func TestReleaseIgnoresOrder(t *testing.T) {
	orders := 1000
	if testing.Short() {
		orders = 40
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name string
		loss loss.Loss
		reg  prox.Operator
		set  prox.Set
		tie  bool // equal records and equal rows with other labels
	}{
		{"logistic", loss.Logistic{}, nil, nil, false},
		{"huber with l1 in a box", loss.Huber{Delta: 0.3}, prox.L1{Weight: 0.5}, prox.Box{Lo: -1, Hi: 1}, false},
		{"ties", loss.Logistic{}, prox.L1{Weight: 0.1}, nil, true},
		{"least squares", loss.Squared{}, nil, prox.L2Ball{R: 2}, false},
		{"clipped least squares", loss.Squared{}, prox.L1{Weight: 0.2}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := noise.Reproducible(42, c.name)
			data := sphere(60, 4, src)
			for i := range data.labels {
				data.labels[i] *= noise.Uniform(src)
				if c.tie && i%3 == 1 {
					copy(data.rows[i], data.rows[i-1])
				}
				if c.tie && i%6 == 1 {
					data.labels[i] = data.labels[i-1]
				}
			}
			m := &lop.Mechanism{Radius: 1}
			if c.name == "clipped least squares" {
				m.Clip = 0.5
			}
			var want string
			for k := range orders {
				runtime.GOMAXPROCS(1 + k%16)
				d, err := erm.NewData(data.rows, data.labels, loss.Bounds{Row: 1, Label: 1})
				require.NoError(t, err)
				rel, err := m.Fit(t.Context(), &erm.Problem{Data: d, Loss: c.loss, Reg: c.reg, Set: c.set}, dp.Budget{Epsilon: 1, Delta: 1e-6}, noise.Reproducible(7))
				require.NoError(t, err)
				if want == "" {
					want = bits(rel.Theta)
				}
				require.Equal(t, want, bits(rel.Theta), "order %d", k)
				for i := len(data.rows) - 1; i > 0; i-- { // the next order
					j := int(src.Uint64() % uint64(i+1))
					data.rows[i], data.rows[j] = data.rows[j], data.rows[i]
					data.labels[i], data.labels[j] = data.labels[j], data.labels[i]
				}
			}
		})
	}
}

// TestLowBitsSayNothing: the last eight bits of a released coordinate are
// uniform whatever the data, and so is the number of trailing zeros geometric:
// the precision of the output does not depend on the records. χ² with a false
// reject of 1e-6 for each of the two data sets.
func TestLowBitsSayNothing(t *testing.T) {
	releases := 20_000
	if testing.Short() {
		releases = 6_000
	}
	zero := candidate{rows: [][]float64{{0}, {0}}, labels: []float64{0, 0}} // gradients are 0: θ = −b/Δ + ν
	one := candidate{rows: [][]float64{{1}, {0x1p-3}}, labels: []float64{1, -1}}
	for i, c := range []candidate{zero, one} {
		src := noise.Reproducible(43, fmt.Sprint(i))
		m := &lop.Mechanism{Delta: 4, Radius: 1}
		plan, err := m.Plan(c.problem(t), dp.Budget{Epsilon: 1, Delta: 1e-6})
		require.NoError(t, err)
		var counts [256]float64
		p := c.problem(t)
		for range releases {
			rel, err := plan.Fit(t.Context(), p, src)
			require.NoError(t, err)
			counts[math.Float64bits(rel.Theta[0])&0xff]++
		}
		stat := 0.
		for _, n := range counts {
			e := float64(releases) / 256
			stat += (n - e) * (n - e) / e
		}
		require.Less(t, stat, distuv.ChiSquared{K: 255}.Quantile(1-1e-6), "data set %d", i)
	}
}

// TestReleasesAreIndependent: two releases from one stream use different noise
// that is not correlated, two from the secure source differ, and one stream
// replayed is the same release, which its certificate says.
func TestReleasesAreIndependent(t *testing.T) {
	c := candidate{rows: [][]float64{{0}}, labels: []float64{0}}
	plan, err := (&lop.Mechanism{Delta: 1, Radius: 1}).Plan(c.problem(t), dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)
	fit := func(seed uint64) float64 {
		rel, err := plan.Fit(t.Context(), c.problem(t), noise.Reproducible(seed))
		require.NoError(t, err)
		require.Contains(t, rel.Certificate.Assumptions, dp.CallerSource)
		return rel.Theta[0]
	}
	require.Equal(t, fit(1), fit(1))
	require.NotEqual(t, fit(1), fit(2))

	a, err := plan.Fit(t.Context(), c.problem(t), nil)
	require.NoError(t, err)
	b, err := plan.Fit(t.Context(), c.problem(t), nil)
	require.NoError(t, err)
	require.NotEqual(t, a.Theta, b.Theta)
	require.NotContains(t, a.Certificate.Assumptions, dp.CallerSource)

	// θ = −b/Δ + ν: successive releases have correlation 0 up to 5 σ (6e-7) of
	// the mean of n products of unit normals.
	const n = 5000
	src := noise.Reproducible(44)
	var sum, last float64
	for i := range n + 1 {
		rel, err := plan.Fit(t.Context(), c.problem(t), src)
		require.NoError(t, err)
		z := rel.Theta[0] / plan.Sigma
		if i > 0 {
			sum += z * last
		}
		last = z
	}
	require.Less(t, math.Abs(sum/n), 5/math.Sqrt(n))
}

// TestTwoProcesses: processes that start from one image draw different noise,
// because every release takes a fresh key from the operating system.
func TestTwoProcesses(t *testing.T) {
	const env = "LOP_TEST_RELEASE"
	c := candidate{rows: [][]float64{{0.5}}, labels: []float64{1}}
	if os.Getenv(env) != "" {
		rel, err := (&lop.Mechanism{Radius: 1}).Fit(t.Context(), c.problem(t), dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
		require.NoError(t, err)
		fmt.Printf("released %x\n", rel.Theta)
		return
	}
	seen := map[string]bool{}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestTwoProcesses$")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		line, _, _ := strings.Cut(string(out), "\n")
		require.Contains(t, line, "released")
		seen[line] = true
	}
	require.Len(t, seen, 3)
}

// TestAtoms: with ℓ1 and a box in one dimension the exact minimizer has atoms at
// the kink and at the faces, of the probabilities that the law of b gives, and
// the covered release has none at the kink: the event θ = 0 is as likely under
// neighbors as the theorem says, and is not seen at all.
func TestAtoms(t *testing.T) {
	releases := 20_000
	if testing.Short() {
		releases = 5_000
	}
	const kappa = 1.5
	data, err := erm.NewData([][]float64{{0}}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 1}, Set: prox.Box{Lo: -kappa, Hi: kappa}}
	plan, err := (&lop.Mechanism{Delta: 4}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	// A row of zeros leaves Δθ²/2 + bθ + λ|θ| over [−κ, κ].
	lambda := plan.Sigma / 2
	p.Reg = prox.L1{Weight: lambda}
	normal := distuv.Normal{Sigma: plan.Sigma}
	tail := normal.Survival(lambda + plan.Delta*kappa) // |b| beyond: a face
	kink := normal.CDF(lambda) - normal.CDF(-lambda)
	count := func(ctx context.Context, label string) (face, zero float64) {
		src := noise.Reproducible(45, label)
		for range releases {
			rel, err := plan.Fit(ctx, p, src)
			require.NoError(t, err)
			switch theta := rel.Theta[0]; {
			case theta == 0:
				zero++
			case math.Abs(theta) == kappa:
				face++
			default:
				require.Less(t, math.Abs(theta), kappa)
			}
		}
		return face, zero
	}
	face, zero := count(fault.With(t.Context(), fault.OutputScale, func(float64) float64 { return 0 }), "bare")
	// Cells: kink, faces, rest; χ² with two degrees of freedom, false reject 1e-6.
	n := float64(releases)
	stat := 0.
	for _, c := range [][2]float64{{zero, kink}, {face, 2 * tail}, {n - zero - face, 1 - kink - 2*tail}} {
		require.Greater(t, n*c[1], 5.)
		stat += (c[0] - n*c[1]) * (c[0] - n*c[1]) / (n * c[1])
	}
	require.Less(t, stat, distuv.ChiSquared{K: 2}.Quantile(1-1e-6))

	face, zero = count(t.Context(), "covered")
	require.Zero(t, zero, "the output noise leaves no atom at the kink")
	// Half of a face's atom is moved inside by ν, the other half projected back:
	// 5 σ of a binomial count (6e-7).
	require.InDelta(t, n*tail, face, 5*math.Sqrt(n*tail)+1e-6*n) // ν moves the edge by 1e-8 κ
}

// TestSoak: 64 goroutines fit one plan and print it, under the race detector in
// CI; PRIVOPT_LONG makes it last ten minutes.
func TestSoak(t *testing.T) {
	rounds := 3
	if os.Getenv("PRIVOPT_LONG") != "" {
		rounds = 4000
	}
	c := sphere(40, 5, noise.Reproducible(46))
	p := c.problem(t)
	p.Reg, p.Set = prox.L1{Weight: 0.1}, prox.Box{Lo: -1, Hi: 1}
	plan, err := (&lop.Mechanism{}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	first := make([]string, 64)
	for g := range 64 {
		wg.Go(func() {
			for r := range rounds {
				rel, err := plan.Fit(t.Context(), p, noise.Reproducible(uint64(g)))
				if err != nil {
					t.Error(err)
					return
				}
				if r == 0 {
					first[g] = bits(rel.Theta)
				} else if first[g] != bits(rel.Theta) {
					t.Errorf("goroutine %d, round %d: other bits", g, r)
				}
				_ = fmt.Sprint(p, plan.Public, rel.Certificate)
				plan.DeltaAt(1)
			}
		})
	}
	wg.Wait()
	// A goroutine that is done is counted until it is off its processor; one more runs the condition.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond, "goroutines are left")
}
