// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// TestLogisticRace fits a private logistic regression to a million records of 50 features in
// memory, from the array to the released θ, once copied and once borrowed, and lets scikit-learn
// fit the same array without privacy by lbfgs, both on two threads, in turn:
//
//	BENCH_RACE=5 go -C cmd/research test ./experiment -run LogisticRace -v -timeout 30m
//
// BENCH_RACE is the number of rounds, PYTHON the interpreter, /usr/bin/python3 if unset. It prints
// the median of the wall time and of the processor time of both, and of the ratio of processor
// times within a round.
// Rows have norms of about 0.7, and one in some thousands is longer than the bound of 1.
func TestLogisticRace(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("BENCH_RACE"))
	if err != nil || rounds < 1 {
		t.Skip("BENCH_RACE = number of rounds runs this: minutes, and 2 GB of memory")
	}
	const n, d = 1_000_000, 50
	x, y := make([]float64, n*d), make([]float64, n)
	rnd := rand.New(rand.NewPCG(1, 50))
	for i := range y {
		m := 0.0
		for j := range d {
			v := rnd.NormFloat64() / 10
			x[i*d+j] = v
			m += v * float64(j%7-3)
		}
		if y[i] = -1; rnd.Float64() < 1/(1+math.Exp(-m)) {
			y[i] = 1
		}
	}
	peer := startPeer(t, x, y, d)
	runtime.GOMAXPROCS(2)
	rows, unit := mat.NewDense(n, d, x), loss.Bounds{Row: 1, Label: 1}
	for _, c := range []struct {
		name string
		data func() (*erm.Data, error)
	}{
		{"a copy of the rows", func() (*erm.Data, error) { return erm.NewDataDense(rows, y, unit) }},
		{"borrowed rows", func() (*erm.Data, error) { return erm.Borrow(rows, y, unit) }},
	} {
		t.Run(c.name, func(t *testing.T) { race(t, rounds, n*d, peer, c.data) })
	}
}

// race fits the records of open and lets the peer fit them, in turn.
func race(
	t *testing.T, rounds, numbers int, peer func() (wall, spent float64, theta []float64), open func() (*erm.Data, error),
) {
	var wall, spent, peerWall, peerSpent, ratios []float64
	var theta, want []float64
	for range rounds {
		seconds, cpus, w := peer()
		peerWall, peerSpent, want = append(peerWall, seconds), append(peerSpent, cpus), w

		runtime.GC()
		start, used := time.Now(), testkit.CPU()
		data := must(open())
		p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
		m := &lop.Mechanism{Radius: 10}
		theta = must(m.Fit(background, p, dp.Budget{Epsilon: 1, Delta: 1e-9}, noise.Secure())).Theta
		wall, spent = append(wall, time.Since(start).Seconds()), append(spent, (testkit.CPU()-used).Seconds())
		ratios = append(ratios, spent[len(spent)-1]/cpus)
		t.Logf("ours %.2f s, %.2f s of processors; scikit-learn %.2f s, %.2f s of processors",
			wall[len(wall)-1], spent[len(spent)-1], seconds, cpus)
	}
	diff := 0.0
	for j := range theta {
		diff = max(diff, math.Abs(theta[j]-want[j]))
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	t.Logf("medians of %d: ours %.2f s (%.2f s of processors), scikit-learn %.2f s (%.2f s), ratio %.2f; "+
		"largest difference of coefficients %.2g", rounds, median(wall), median(spent), median(peerWall), median(peerSpent),
		median(ratios), diff)
	status, _ := os.ReadFile("/proc/self/status") // empty where there is none
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") {
			t.Logf("peak memory of the process so far: %s; the array has %d kB", strings.Fields(line)[1], 8*numbers/1024)
		}
	}
	if diff > 0.1 { // the noise is 0.01, and θ up to 3
		t.Errorf("the released coefficients are %v from those of scikit-learn", diff)
	}
}

// startPeer starts bench/testdata/logistic_sklearn.py on the records, and returns a function that
// lets it fit once: wall time and processor time in seconds, and the coefficients.
func startPeer(t *testing.T, x, y []float64, d int) func() (wall, spent float64, theta []float64) {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.Command(python, "-c", "import sklearn").CombinedOutput(); err != nil {
		t.Skipf("%s has no scikit-learn: %v %s", python, err, out)
	}
	name := filepath.Join(t.TempDir(), "records")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, v := range [][]float64{x, y} {
		for _, v := range v {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], math.Float64bits(v))
			if _, err := w.Write(b[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "../../../bench/testdata/logistic_sklearn.py", name, fmt.Sprint(len(y)), fmt.Sprint(d))
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=2", "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(out)
	return func() (wall, spent float64, theta []float64) {
		if _, err := in.Write([]byte("fit\n")); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var v []float64
		for _, s := range strings.Fields(line) {
			v = append(v, must(strconv.ParseFloat(s, 64)))
		}
		return v[0], v[1], v[2:]
	}
}
