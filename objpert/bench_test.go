// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/table"
)

// adultFields is the published schema of the file with all levels.
var adultFields = sync.OnceValues(func() (*table.Schema, error) {
	f, err := os.Open("../cmd/internal/adult/fields.schema.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return table.ReadSchema(f)
})

// adultColumns are the attributes of the problems by the number of features.
var adultColumns = map[int]string{
	23: "marital-status relationship race sex capital-gain capital-loss hours-per-week",
	28: "education marital-status sex age capital-gain hours-per-week",
	43: "education marital-status sex occupation age capital-gain hours-per-week",
	60: "education marital-status relationship race sex occupation workclass",
}

// adultProblem is the balanced training set with the given number of features over the lattice of
// squared radius q: n = 15682. A level is an indicator and a number is a share of its maximum, both
// times the least common multiple of the maxima.
func adultProblem(t testing.TB, size, q int) *Problem {
	folder := os.Getenv("PRIVOPT_DATA")
	if folder == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds adult/adult.data")
	}
	s, err := adultFields()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(folder, "adult", "adult.data"))
	require.NoError(t, err)
	one := big.NewInt(1)
	column := func(name string) int {
		return slices.IndexFunc(s.Columns, func(c table.Column) bool { return c.Name == name })
	}
	for _, name := range strings.Fields(adultColumns[size]) {
		if c := s.Columns[column(name)]; c.Levels == nil {
			most := big.NewInt(int64(*c.Max))
			common := new(big.Int).GCD(nil, nil, one, most)
			one.Mul(one, most).Div(one, common)
		}
	}
	negative := strings.Count(string(text), ">50K") // of the others, the first as many
	var rows [][]int64
	var labels []int
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) < 15 {
			continue
		}
		label := 1
		if fields[14] == "<=50K" {
			label = -1
			if negative--; negative < 0 {
				continue
			}
		}
		var row []int64
		for _, name := range strings.Fields(adultColumns[size]) {
			i := column(name)
			if c := s.Columns[i]; c.Levels == nil {
				v, err := strconv.ParseInt(fields[i], 10, 64)
				require.NoError(t, err)
				row = append(row, v*(one.Int64()/int64(*c.Max)))
				continue
			}
			for _, level := range s.Columns[i].Levels {
				row = append(row, map[bool]int64{true: one.Int64()}[fields[i] == level])
			}
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	return p
}

// benchmarkSolve solves the problems in turn, each within five seconds, and reports the nodes, the
// gap left and the share that was proven.
func benchmarkSolve(b *testing.B, o Oracle, problems ...*Problem) {
	b.ReportAllocs()
	var nodes int64
	var gap float64
	proven, i := 0, 0
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		s, err := o.Solve(ctx, problems[i%len(problems)])
		cancel()
		require.NotNil(b, s, err)
		nodes += s.Nodes
		gap += s.Objective - s.Lower
		if s.Proven {
			proven++
		}
		i++
	}
	b.ReportMetric(float64(nodes)/float64(i), "nodes/op")
	b.ReportMetric(gap/float64(i), "gap/op")
	b.ReportMetric(float64(proven)/float64(i), "proven/op")
}

// BenchmarkAdult solves the Adult experiment, n = 15682. Cases of more columns than 23 may stop
// unproven.
func BenchmarkAdult(b *testing.B) {
	for _, d := range []int{23, 28, 43, 60} {
		for _, q := range []int{4, 9, 23} {
			for _, eps := range []float64{0.1, 0.3, 1} {
				b.Run(fmt.Sprintf("oracle=CellSearch/d=%d/Q=%d/eps=%g", d, q, eps), func(b *testing.B) {
					p := perturbSphere(b, adultProblem(b, d, q), eps, "gaussian", 0)
					benchmarkSolve(b, cellFirst(1), p)
				})
			}
		}
	}
}

// BenchmarkExperiment solves the Adult experiment with d = Q = 23 for 15 seeds
// and 5 values of ε, one instance per iteration: run it with -benchtime 75x.
func BenchmarkExperiment(b *testing.B) {
	for _, law := range []string{"radial", "gaussian"} {
		b.Run("oracle=CellSearch/law="+law, func(b *testing.B) {
			p := adultProblem(b, 23, 23)
			var times []float64
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				eps := []float64{0.1, 0.3, 0.5, 0.7, 1}[i%5]
				q := perturbSphere(b, p, eps, law, uint64(i/5%15))
				start := time.Now()
				s, err := cellFirst(1).Solve(context.Background(), q)
				times = append(times, time.Since(start).Seconds())
				require.NoError(b, err)
				require.True(b, s.Proven)
			}
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "median-s")
			b.ReportMetric(times[len(times)-1], "worst-s")
		})
	}
}

// BenchmarkWorkers shows what a second core buys.
func BenchmarkWorkers(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("oracle=CellSearch/d=43/Q=23/eps=1/workers=%d", workers), func(b *testing.B) {
			p := perturbSphere(b, adultProblem(b, 43, 23), 1, "gaussian", 0)
			benchmarkSolve(b, Search{Points: -1, Combos: 1e6, Workers: workers}, p)
		})
	}
}

// BenchmarkDense solves dense Gaussian rows.
func BenchmarkDense(b *testing.B) {
	for _, c := range []struct{ n, d, q int }{
		{2000, 8, 8}, {2000, 10, 10}, {2000, 12, 12}, {2000, 15, 15}, {15682, 8, 8}, {15682, 10, 10}, {15682, 12, 12},
		{2000, 23, 4},
		{15682, 23, 3},
	} {
		for _, eps := range []float64{0.1, 1} {
			b.Run(fmt.Sprintf("oracle=GenericSearch/n=%d/d=%d/Q=%d/eps=%g", c.n, c.d, c.q, eps), func(b *testing.B) {
				p := perturbSphere(b, denseProblem(b, c.n, c.d, c.q), eps, "gaussian", 1)
				benchmarkSolve(b, generic(1), p)
			})
		}
	}
}

// One calibration, and one draw of all noise, at the size of the Adult data.
func BenchmarkMechanism(b *testing.B) {
	budget := dp.Budget{Epsilon: 1, Delta: 4e-9}
	lattice := public{Space: Lattice(23), Dim: 23, Range: 1, Budget: budget}
	table := public{Space: ternary(), Dim: 23, Range: 1, Budget: budget}
	for _, c := range []struct {
		name string
		m    any
		q    public
	}{
		{"law=radial", &OPDisc{}, lattice},
		{"law=gaussian", &OPDisc{Law: Gaussian}, lattice},
		{"law=paper-sigma", &OPDisc{Law: PaperSigma}, lattice},
		{"law=k-norm", &Product{}, table},
		{"law=one-sided", &Product{Law: OneSided}, table},
		{"law=rspm-laplace", &RSPM{}, table},
		{"law=rspm-gaussian", &RSPM{Law: Gaussian}, table},
	} {
		b.Run("step=calibrate/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := calibrate(c.m, c.q); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("step=draw/"+c.name, func(b *testing.B) {
			plan, err := calibrate(c.m, c.q)
			if err != nil {
				b.Fatal(err)
			}
			src := sample.Secure()
			b.ReportAllocs()
			for b.Loop() {
				plan.draw(nil, src)
			}
		})
	}
}

// middles minimizes Σ|w − x| − ⟨σ, w⟩ over [−1, 1], for records in increasing order.
type middles []float64

func (x middles) Minimize(_ context.Context, w, sigma []float64) (gap float64, err error) {
	w[0] = 1
	if i := int(math.Ceil((float64(len(x)) + sigma[0]) / 2)); i <= len(x) { // i records pull down, the others up
		w[0] = x[i-1]
	}
	return 1e-9, nil
}

// BenchmarkOPSamp times a fit: its minimizations, the draws of their tilts, and the noise.
func BenchmarkOPSamp(b *testing.B) {
	for _, n := range []int{400, 4000} {
		x := make(middles, n)
		for i := range x {
			x[i] = float64(i)/float64(n) - 0.5
		}
		plan, err := (&OPSamp{Dim: 1, Diameter: 2, Lipschitz: 1, Gap: 0.01, Records: n, Convex: true}).Plan(
			dp.Budget{Epsilon: 4, Delta: 1e-4})
		require.NoError(b, err)
		b.Run(fmt.Sprintf("n=%d/calls=%d", n, plan.Params().Calls), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := plan.Fit(b.Context(), x, nil)
				require.NoError(b, err)
			}
		})
	}
}

// denseProblem is n standard Gaussian rows, rounded to 1/100, labeled by a
// random halfspace with a tenth of the labels flipped.
func denseProblem(t testing.TB, n, d, q int) *Problem {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	plane := make([]float64, d)
	for j := range plane {
		plane[j] = r.NormFloat64()
	}
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		s := 0.0
		for j := range rows[i] {
			v := r.NormFloat64()
			rows[i][j] = int64(100 * v)
			s += v * plane[j]
		}
		labels[i] = -1
		if (s > 0) != (r.IntN(10) == 0) {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	return p
}
