// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table/npy"
)

// Methods of Passes, computed at a new point.
const (
	newton        = "gradient and Hessian"
	certificateOf = "certificate"
)

// Passes measures the seconds of a gradient with its Hessian, and of a certificate, of the logistic
// loss over n records of d uniform numbers, in memory or in a file. The column cpu is the least
// processor time over the runs, added over the threads: other programs may use the machine. Run it
// with one worker, or cells disturb one another.
func Passes(runs, d int, file bool, sizes ...float64) *sweep.Experiment {
	where, records := ", in memory", dense
	if file {
		where, records = ", in a file", packed
	}
	e := &sweep.Experiment{
		Name: "passes", Sweep: "n", Values: sizes, Params: map[string]any{"runs": runs, "d": d, "file": file},
		Columns: []sweep.Column{column("least"), column("cpu")},
		Methods: []string{newton + where, certificateOf + where},
	}
	e.Prepare = func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
		rnd := rand.New(noise.Reproducible(uint64(c.Value), "passes"))
		data, err := records(int(c.Value), d, rnd)
		if err != nil {
			return sweep.Task{}, err
		}
		o := (&erm.Problem{Data: data, Loss: loss.Logistic{}, Threads: 1}).Perturb(erm.Perturbation{})
		theta, g := make([]float64, d), make([]float64, d)
		h := mat.NewSymDense(d, nil)
		for j := range theta {
			theta[j] = rnd.Float64()
		}
		pass := func() {
			theta[0] += 1e-3 // a new point: sums at the last ones are kept
			if c.Method == certificateOf+where {
				o.Residual(theta)
				return
			}
			o.Grad(g, theta)
			o.Hessian(h, theta)
		}
		pass() // the first pass also computes sums that later ones reuse
		least, cpu := math.Inf(1), math.Inf(1)
		return sweep.Task{
			Runs: runs,
			Run: func(context.Context, rand.Source) (float64, error) {
				wall, busy := time.Now(), testkit.CPU()
				pass()
				s := time.Since(wall).Seconds()
				least, cpu = min(least, s), min(cpu, (testkit.CPU()-busy).Seconds())
				return s, o.Err()
			},
			Detail: func() any { return details{"least": least, "cpu": cpu} },
		}, nil
	}
	e.Summarize = func(results []sweep.Result) (any, []string) {
		slopes := map[string]float64{}
		var lines []string
		for _, m := range e.Methods {
			slopes[m] = secondsSlope(results, m)
			lines = append(lines, fmt.Sprintf("%s: log-log slope of processor seconds in n: %.3f", m, slopes[m]))
		}
		return map[string]any{"slopes": slopes}, lines
	}
	return e
}

// record fills row with a random record and returns its label.
func record(row []float64, rnd *rand.Rand) float64 {
	for j := range row {
		row[j] = rnd.Float64() - 0.5
	}
	return float64(1 - 2*rnd.IntN(2))
}

// inside are bounds that records are in.
func inside(d int) loss.Bounds { return loss.Bounds{Row: math.Sqrt(float64(d)) / 2, Label: 1} }

// dense returns n records in memory.
func dense(n, d int, rnd *rand.Rand) (*erm.Data, error) {
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range y {
		y[i] = record(x.RawRowView(i), rnd)
	}
	return erm.NewDataDense(x, y, inside(d))
}

// packed returns n records in a file that is removed at once, where the system allows that: it
// lasts as long as it is open.
func packed(n, d int, rnd *rand.Rand) (*erm.Data, error) {
	dir, err := os.MkdirTemp("", "passes")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	columns := make([]string, d+1)
	for j := range columns {
		columns[j] = fmt.Sprint("x", j)
	}
	path, row := filepath.Join(dir, "records.npy"), make([]float64, d)
	w, err := npy.Create(path, columns, npy.Options{})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	for range n {
		label := record(row, rnd)
		if err := w.Append(row, label); err != nil {
			return nil, err
		}
	}
	if err := w.Commit(); err != nil {
		return nil, err
	}
	f, err := npy.Open(path)
	if err != nil {
		return nil, err
	}
	return erm.Open(f, inside(d))
}

// secondsSlope is the log-log slope of the processor seconds against the swept value.
func secondsSlope(results []sweep.Result, method string) float64 {
	var x, y []float64
	for _, r := range results {
		if s, ok := detail(r, "cpu"); ok && r.Method == method {
			x, y = append(x, r.Value), append(y, s)
		}
	}
	slope, _ := sweep.LogSlope(x, y)
	return slope
}
