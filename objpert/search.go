package objpert

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// engine is a branch and bound that settle turns into an Oracle.
type engine interface {
	// search explores the points of W with domain[j][k] where w_j = Values[k]
	// (nil: all) whose objective is below inc.value, until inc.done, and
	// offers what it finds. It returns a lower bound of what it left out:
	// everything cut off has at least that objective.
	search(domain [][]bool, inc *incumbent, run *run) fixed
}

// run is what the workers of one Solve share.
type run struct {
	workers int
	gap     fixed // regions within gap below the incumbent may be cut off
	limit   int64 // nodes, 0 for no limit
	nodes   atomic.Int64
	stop    atomic.Bool // the context ended or the limit was reached
	capped  atomic.Bool // the limit was reached
}

// step counts nodes and reports whether the search must end.
func (r *run) step(nodes int64) bool {
	n := r.nodes.Add(nodes)
	if r.limit > 0 && n >= r.limit {
		r.capped.Store(true)
		r.stop.Store(true)
	}
	return r.stop.Load()
}

// settle runs e to the end and breaks ties.
func settle(ctx context.Context, p *Problem, n *perturbation, e engine, r *run) (*Solution, error) {
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()

	inc := newIncumbent(unreached)
	open := e.search(nil, inc, r)
	w, v := inc.point()
	if w == nil {
		if r.stop.Load() {
			return nil, r.why(ctx)
		}
		return nil, fmt.Errorf("%w: no point meets NormSq and Allowed", ErrProblem)
	}
	lower := min(v, open)
	// With a gap, what was cut off at v was never looked at for ties.
	if open >= v && (inc.tied == v || open == v) && !r.stop.Load() {
		r.gap = 0
		w = first(p, e, r, v, w)
	}
	stopped := r.stop.Load() // once: a later stop changes nothing
	s := &Solution{
		W: w, Loss: p.Loss(w), Objective: n.float(v), Lower: n.float(lower),
		Proven: lower == v && !stopped, Nodes: r.nodes.Load(),
	}
	if stopped {
		return s, r.why(ctx)
	}
	return s, nil
}

func (r *run) why(ctx context.Context) error {
	if r.capped.Load() {
		return fmt.Errorf("%w: %d nodes", ErrLimit, r.limit)
	}
	return interrupted(ctx)
}

// first returns the least point in lexicographic order among those of
// objective v, the minimum; w is one of them. It asks coordinate by coordinate
// whether a smaller value can be completed.
func first(p *Problem, e engine, r *run, v fixed, w []int) []int {
	w = slices.Clone(w)
	domain := make([][]bool, p.Dim)
	for j := range domain {
		domain[j] = make([]bool, len(p.Values))
		for k := range domain[j] {
			domain[j][k] = true
		}
	}
	for j := range w {
		for {
			smaller := false
			for k, value := range p.Values {
				domain[j][k] = value < w[j]
				smaller = smaller || domain[j][k] && p.allowed(j, k)
			}
			if !smaller {
				break
			}
			inc := newIncumbent(v + 1)
			inc.first = true
			e.search(domain, inc, r)
			if r.step(1) {
				return w
			}
			found, _ := inc.point()
			if found == nil {
				break
			}
			w = slices.Clone(found)
		}
		for k, value := range p.Values {
			domain[j][k] = value == w[j]
		}
	}
	return w
}

// task is a subtree that a worker may take: choices are value indices in the
// order in which the engine fixes columns.
type task struct {
	bound   fixed
	choices []int8
}

// pool hands out tasks in order of their bounds. Workers that have none are
// counted, so that others share their subtrees.
type pool struct {
	mu      sync.Mutex
	wake    *sync.Cond
	tasks   []task // a binary heap
	busy    int
	hungry  atomic.Int32
	workers int
}

func newPool(workers int, tasks []task) *pool {
	p := &pool{workers: workers, tasks: tasks, busy: workers}
	p.wake = sync.NewCond(&p.mu)
	for i := len(tasks)/2 - 1; i >= 0; i-- {
		p.down(i)
	}
	return p
}

func (p *pool) less(i, j int) bool {
	a, b := &p.tasks[i], &p.tasks[j]
	if a.bound != b.bound {
		return a.bound < b.bound
	}
	return slices.Compare(a.choices, b.choices) < 0
}

func (p *pool) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(p.tasks) {
			return
		}
		if c+1 < len(p.tasks) && p.less(c+1, c) {
			c++
		}
		if !p.less(c, i) {
			return
		}
		p.tasks[i], p.tasks[c] = p.tasks[c], p.tasks[i]
		i = c
	}
}

// push adds a task.
func (p *pool) push(t task) {
	p.mu.Lock()
	p.tasks = append(p.tasks, t)
	for i := len(p.tasks) - 1; i > 0 && p.less(i, (i-1)/2); i = (i - 1) / 2 {
		p.tasks[i], p.tasks[(i-1)/2] = p.tasks[(i-1)/2], p.tasks[i]
	}
	p.mu.Unlock()
	p.wake.Signal()
}

// next returns the task of least bound, waiting for one while other workers
// are busy; false when there is none left. A worker asks when it has none.
func (p *pool) next() (task, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.hungry.Add(1)
	for len(p.tasks) == 0 {
		if p.busy == 0 {
			p.wake.Broadcast()
			return task{}, false
		}
		p.wake.Wait()
	}
	p.hungry.Add(-1)
	p.busy++
	t := p.tasks[0]
	last := len(p.tasks) - 1
	p.tasks[0] = p.tasks[last]
	p.tasks = p.tasks[:last]
	p.down(0)
	return t, true
}

// together runs f for every worker and returns the least result.
func together[W any](ws []W, f func(W) fixed) fixed {
	results := make([]fixed, len(ws))
	var group sync.WaitGroup
	for i, w := range ws[1:] {
		group.Go(func() { results[i+1] = f(w) })
	}
	results[0] = f(ws[0])
	group.Wait()
	return slices.Min(results)
}

// searcher is the part of a worker that all engines share.
type searcher struct {
	inc    *incumbent
	run    *run
	pool   *pool
	left   fixed  // least bound of what was left out
	path   []int8 // value indices chosen so far, in the order of fixing
	order  []int  // the columns in that order
	values []int
}

// prune reports whether a region of the given bound needs no search. A region
// that ties with the incumbent is searched if the incumbent may lie in it, as
// told by the choices that lead there, and is noted as a tie otherwise.
func (w *searcher) prune(bound fixed, choices []int8) bool {
	if w.run.stop.Load() {
		w.left = min(w.left, bound)
		return true
	}
	if w.inc.done.Load() {
		return true
	}
	best := w.inc.value.Load()
	switch {
	case bound > best || bound > feasible:
		return true
	case bound < best && bound >= best-w.run.gap && w.run.gap > 0:
		w.left = min(w.left, bound)
		return true
	case bound < best:
		return false
	}
	w.inc.mu.Lock()
	defer w.inc.mu.Unlock()
	if best = w.inc.value.Load(); bound == best && !w.holds(choices) {
		w.inc.tie(bound)
		return true
	}
	return bound > best
}

// holds reports whether the incumbent agrees with choices. inc.mu is held.
func (w *searcher) holds(choices []int8) bool {
	if w.inc.w == nil {
		return false
	}
	for i, k := range choices {
		if w.inc.w[w.order[i]] != w.values[k] {
			return false
		}
	}
	return true
}

// maxWorkers is the largest number of workers: each has tables of its own.
const maxWorkers = 1024

// workers is the number of goroutines for n > 0, or one per processor.
func workers(n int) int {
	if n > 0 {
		return min(n, maxWorkers)
	}
	return runtime.GOMAXPROCS(0)
}

// newRun checks what the searches named name have in common. With a gap or a limit there is
// one worker, so that the answer does not depend on scheduling.
func newRun(name string, p *Problem, n *perturbation, goroutines int, gap float64, nodes int64) (*run, error) {
	if len(p.Values) > math.MaxInt8 {
		return nil, fmt.Errorf("%w: %s takes at most %d values, got %d", ErrLimit, name, math.MaxInt8, len(p.Values))
	}
	units, err := gapUnits(gap, n)
	if err != nil {
		return nil, err
	}
	r := &run{workers: workers(goroutines), gap: units, limit: nodes}
	if gap > 0 || nodes > 0 {
		r.workers = 1
	}
	return r, nil
}

// gapUnits converts a tolerated gap to units, rounded down.
func gapUnits(gap float64, n *perturbation) (fixed, error) {
	switch {
	case !(gap >= 0): // also NaN
		return 0, fmt.Errorf("%w: Gap = %v, want a number ≥ 0, 0 for the exact minimum", ErrProblem, gap)
	case gap == 0:
		return 0, nil
	}
	return fixed(min(math.Ldexp(gap, n.shift), float64(feasible))), nil
}

// unreached stands for the value where no point was found; values of points are below 2^62.
const unreached fixed = math.MaxInt64

// incumbent is the best point found so far, shared by the workers of a search.
type incumbent struct {
	value atomic.Int64 // objective of w, or the cutoff that a point must beat
	first bool         // one point below the cutoff is enough

	mu   sync.Mutex
	w    []int // nil until a point is found
	tied fixed // least value at which a second point was seen
	done atomic.Bool
}

func newIncumbent(cutoff fixed) *incumbent {
	inc := &incumbent{tied: unreached}
	inc.value.Store(cutoff)
	return inc
}

// offer takes the point w of value v, which it copies.
func (inc *incumbent) offer(v fixed, w []int) {
	if v > inc.value.Load() {
		return
	}
	inc.mu.Lock()
	defer inc.mu.Unlock()
	switch best := inc.value.Load(); {
	case v < best:
		inc.w = append(inc.w[:0:0], w...)
		inc.value.Store(v)
		if inc.first {
			inc.done.Store(true)
		}
	case v == best && inc.w != nil && !slices.Equal(w, inc.w):
		inc.tie(v)
		if slices.Compare(w, inc.w) < 0 {
			inc.w = append(inc.w[:0:0], w...)
		}
	}
}

// tie notes that a second point of value v may exist. inc.mu is held.
func (inc *incumbent) tie(v fixed) { inc.tied = min(inc.tied, v) }

// point returns the best point, which must not be changed, and its value.
func (inc *incumbent) point() ([]int, fixed) {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	return inc.w, inc.value.Load()
}
