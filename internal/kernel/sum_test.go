package kernel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// table is a sum of the rows of a table.
type table struct {
	rows  [][]float64
	calls atomic.Int64
	wait  func(i int)
}

func (s *table) Part(dst []float64, i int) {
	s.calls.Add(1)
	if s.wait != nil {
		s.wait(i)
	}
	s.Join(dst, s.rows[i])
}

func (s *table) Join(dst, src []float64) {
	for j, v := range src {
		dst[j] += v
	}
}

func randomTable(n, d int) *table {
	rnd := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	s := &table{}
	for range n {
		row := make([]float64, d)
		for j := range row {
			row[j] = rnd.NormFloat64()
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// The bits do not depend on the number of threads nor on who is late.
func TestReduceHasTheSameBits(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, parts := range []int{0, 1, 2, 3, 5, 8, 64, 100} {
		s := randomTable(parts, 9)
		want := tree(s.rows, 9)
		for procs := 1; procs <= 16; procs++ {
			runtime.GOMAXPROCS(procs)
			for _, threads := range []int{0, 1, 2, 3, 99} {
				s.calls.Store(0)
				s.wait = func(i int) {
					if (i+procs)%3 == 0 {
						runtime.Gosched()
					}
				}
				dst := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
				Reduce(dst, parts, threads, s)
				require.Equal(t, want, dst, "%d parts, %d threads of %d", parts, threads, procs)
				require.EqualValues(t, parts, s.calls.Load())
			}
		}
	}
}

// tree adds rows as documented.
func tree(rows [][]float64, d int) []float64 {
	if len(rows) == 0 {
		return make([]float64, d)
	}
	var copies [][]float64
	for _, r := range rows {
		copies = append(copies, append([]float64(nil), r...))
	}
	for w := 1; w < len(rows); w *= 2 {
		for i := 0; i+w < len(rows); i += 2 * w {
			for j := range d {
				copies[i][j] += copies[i+w][j]
			}
		}
	}
	return copies[0]
}

// No more goroutines than asked for compute parts at one time, several do where
// they may, and none is left.
func TestReduceThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	before := runtime.NumGoroutine()
	for _, threads := range []int{1, 2, 3} {
		s := randomTable(30, 2)
		var now, most atomic.Int64
		s.wait = func(int) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			now.Add(-1)
		}
		Reduce(make([]float64, 2), 30, threads, s)
		require.EqualValues(t, threads, most.Load())
	}
	for start := time.Now(); runtime.NumGoroutine() > before && time.Since(start) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// A panic of a part reaches the caller, whichever goroutine it was in, and
// leaves nothing behind.
func TestReducePanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	s := randomTable(20, 3)
	for k := range 20 {
		s.wait = func(i int) {
			time.Sleep(10 * time.Microsecond)
			if i == k || i == 7 {
				panic("part")
			}
		}
		require.PanicsWithValue(t, "part", func() { Reduce(make([]float64, 3), 20, 4, s) })
	}
	s.wait = nil
	dst := make([]float64, 3)
	Reduce(dst, 20, 4, s)
	require.Equal(t, tree(s.rows, 3), dst)
}

// A part that ends its goroutine, as a failed test does inside a loss, leaves
// nobody waiting: the caller panics or, where the part ran there, ends.
func TestReduceEndsWithItsGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := randomTable(20, 3)
	for k := range 20 {
		s.wait = func(i int) {
			time.Sleep(10 * time.Microsecond)
			if i == 7 {
				runtime.Goexit()
			}
		}
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			Reduce(make([]float64, 3), 20, 1+k%2, s)
			panic("not reached")
		}()
		select {
		case v := <-ended:
			require.Contains(t, []any{nil, badExit}, v)
		case <-time.After(20 * time.Second):
			t.Fatal("the caller waits for a part that nobody computes")
		}
	}
	s.wait = nil
	dst := make([]float64, 3)
	Reduce(dst, 20, 2, s)
	require.Equal(t, tree(s.rows, 3), dst)
}

// Goroutines and their teams are reused, and nothing is allocated, but for the
// few times that the collector took a team away.
func TestReduceDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget, so that sums allocate")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s, dst := randomTable(16, 8), make([]float64, 8)
	const runs = 2000
	var before, after runtime.MemStats
	for range 100 {
		Reduce(dst, 16, 2, s)
	}
	runtime.ReadMemStats(&before)
	for range runs {
		Reduce(dst, 16, 2, s)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(runs/20))
}

// Sums at one time do not mix.
func TestReduceConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			s := randomTable(10+k, 5)
			want := tree(s.rows, 5)
			for range 200 {
				dst := make([]float64, 5)
				Reduce(dst, 10+k, 2, s)
				if !equal(want, dst) {
					t.Errorf("sum %d", k)
				}
			}
		})
	}
	wg.Wait()
}

func equal(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
