// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build linux

package lop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table/npy"
)

// outOfCore is what the child process of TestOutOfCore says of one fit.
type outOfCore struct {
	Records int
	Seconds float64   // of the fit, without the reads beside it
	Passes  []float64 // seconds of each
	Reads   []float64 // bytes a second of reading alone, before each pass
	Bytes   int64
	Peak    int64 // of resident memory, in bytes
}

const childFile = "PRIVOPT_OUT_OF_CORE_FILE"

// TestOutOfCore fits logistic regression to a file of PRIVOPT_ROWS records of 12 features: if that
// is not set, 2·10⁶, or with PRIVOPT_LONG 10⁷, which is 1.04 GB. A process of its own has no more
// than 100 MB of memory for up to 10⁷ records, 1 GB for more, and makes at most six passes to its
// certificate: without one, a fit goes on for thousands. It prints how fast the passes are beside
// reading alone, from the disk:
//
//	PRIVOPT_ROWS=100000000 go test ./lop -run TestOutOfCore -v -timeout 1h
func TestOutOfCore(t *testing.T) {
	if testing.Short() {
		t.Skip("a file of 1 GB")
	}
	n := testkit.Of(1_200_000, 2_000_000, 10_000_000)
	if s := os.Getenv("PRIVOPT_ROWS"); s != "" {
		v, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err, "PRIVOPT_ROWS")
		n = int(v)
	}
	path := os.Getenv("PRIVOPT_NPY") // kept from one run to the next
	if path == "" {
		path = filepath.Join(t.TempDir(), "records.npy")
	}
	if _, err := os.Stat(path); err != nil {
		start := time.Now()
		generate(t, path, n)
		t.Logf("%d records written in %.1f s", n, time.Since(start).Seconds())
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOutOfCoreFit$")
	cmd.Env = append(os.Environ(), childFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, string(out))
	var r outOfCore
	require.NoError(t, json.Unmarshal(out[:slices.Index(out, '\n')], &r))
	t.Logf("%.3g records, %.2f GB: fit %.1f s, %d passes, peak memory %.0f MB",
		float64(r.Records), float64(r.Bytes)/1e9, r.Seconds, len(r.Passes), float64(r.Peak)/1e6)
	var ratios []float64
	for k, s := range r.Passes {
		rate := float64(r.Bytes) / s
		ratios = append(ratios, rate/r.Reads[k])
		t.Logf("pass %d: %6.2f s, %.2f GB/s, %.0f %% of %.2f GB/s of reading alone",
			k+1, s, rate/1e9, 100*ratios[k], r.Reads[k]/1e9)
	}
	slices.Sort(ratios)
	t.Logf("median %.0f %%", 100*ratios[len(ratios)/2])
	require.LessOrEqual(t, len(r.Passes), 6)
	most := 100_000_000.0
	if n > 10_000_000 {
		most = 1e9
	}
	require.LessOrEqual(t, float64(r.Peak), most)
}

// generate writes n records of 12 features with rows of norm about 1 and labels of a logistic
// model.
func generate(t *testing.T, path string, n int) {
	const d = 12
	columns := make([]string, d+1)
	for j := range columns {
		columns[j] = fmt.Sprint("x", j)
	}
	columns[d] = "y"
	w, err := npy.Create(path, columns, npy.Options{})
	require.NoError(t, err)
	defer w.Close()
	rnd := rand.New(rand.NewPCG(1, 14))
	row := make([]float64, d)
	for range n {
		u := 0.0
		for j := range row {
			row[j] = (2*rnd.Float64() - 1) / math.Sqrt(d) * math.Sqrt(3) * 0.8
			u += row[j] * float64(j%5-2)
		}
		y := 1.0
		if rnd.Float64() > 1/(1+math.Exp(-u)) {
			y = -1
		}
		require.NoError(t, w.Append(row, y))
	}
	require.NoError(t, w.Commit())
}

// TestOutOfCoreFit is the child process of TestOutOfCore.
func TestOutOfCoreFit(t *testing.T) {
	path := os.Getenv(childFile)
	if path == "" {
		t.Skip("the child process of TestOutOfCore")
	}
	file, err := npy.Open(path)
	require.NoError(t, err)
	defer file.Close()
	raw, err := os.Open(path)
	require.NoError(t, err)
	defer raw.Close()
	n, d := file.Dims()
	src := &timed{File: file, raw: raw, n: n, sample: min(n/8, 1<<18) / 1024 * 1024}
	data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	r := outOfCore{Records: n, Bytes: int64(n) * int64(d+1) * 8}
	m := lop.Mechanism{Radius: 10, Relation: dp.AddRemove}
	start := time.Now()
	_, err = m.Fit(
		context.Background(),
		&erm.Problem{Data: data, Loss: loss.Logistic{}, Records: n},
		dp.Budget{Epsilon: 1, Delta: 1e-9},
		nil,
	)
	require.NoError(t, err)
	src.end()
	r.Seconds = (time.Since(start) - src.aside).Seconds()
	r.Passes, r.Reads = src.passes, src.rates
	r.Peak = peak(t)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	fmt.Println(string(text))
}

// peak returns the largest resident memory of this process since it was started, in bytes. The
// resource usage that a parent sees is no such figure: it is at least the memory of the parent.
func peak(t *testing.T) (bytes int64) {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	_, err = fmt.Sscanf(after, "%d kB", &bytes)
	require.NoError(t, err)
	return bytes << 10
}

// timed is a file that notes when passes begin and, before each, empties the page cache of
// the file and reads a part of it to see how fast that is.
type timed struct {
	*npy.File
	raw       *os.File
	n, sample int

	mu            sync.Mutex
	read          int // records asked for
	begun         time.Time
	aside         time.Duration
	passes, rates []float64
}

func (s *timed) Read(ctx context.Context, rows, labels []float64, first int) error {
	s.mu.Lock()
	if at := s.read - s.sample; at >= 0 && at%s.n == 0 {
		s.begin()
	}
	s.read += len(labels)
	s.mu.Unlock()
	return s.File.Read(ctx, rows, labels, first)
}

// begin ends the pass before and begins one.
func (s *timed) begin() {
	s.close()
	start := time.Now()
	s.drop()
	s.rates = append(s.rates, s.rate())
	s.drop()
	s.aside += time.Since(start)
	s.begun = time.Now()
}

func (s *timed) close() {
	if !s.begun.IsZero() {
		s.passes = append(s.passes, time.Since(s.begun).Seconds())
	}
}

// end ends the last pass. What the solver does after it takes no time that counts.
func (s *timed) end() { s.mu.Lock(); s.close(); s.mu.Unlock() }

// drop empties the page cache of the file.
func (s *timed) drop() {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	syscall.Syscall6(syscall.SYS_FADVISE64, s.raw.Fd(), 0, 0, dontNeed, 0, 0)
}

// rate reads up to 2 GB in sequence and returns bytes a second.
func (s *timed) rate() float64 {
	buf, total := make([]byte, 4<<20), int64(0)
	start := time.Now()
	for total < 2_000_000_000 {
		k, err := s.raw.ReadAt(buf, total)
		total += int64(k)
		if err == io.EOF {
			break
		}
	}
	return float64(total) / time.Since(start).Seconds()
}
