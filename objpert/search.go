package objpert

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// engine is a branch and bound that run.settle turns into an Oracle.
type engine interface {
	// search explores the points of W with domain[j][k] where w_j = Values[k]
	// (nil: all) whose objective is below inc.value, until inc.done, and
	// offers what it finds. It returns a lower bound of what it left out:
	// everything cut off has at least that objective.
	search(domain [][]bool, inc *incumbent, run *run) fixed
}

// run is one Solve: what its workers share.
type run struct {
	p       *Problem
	n       *perturbation // of p
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
func (r *run) settle(ctx context.Context, e engine) (*Solution, error) {
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
		w = r.first(e, v, w)
	}
	stopped := r.stop.Load() // once: a later stop changes nothing
	s := &Solution{
		W: w, Loss: r.p.Loss(w), Objective: r.n.float(v), Lower: r.n.float(lower),
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
func (r *run) first(e engine, v fixed, w []int) []int {
	p := r.p
	w = slices.Clone(w)
	domain := make([][]bool, p.Dim)
	for j := range domain {
		domain[j] = slices.Repeat([]bool{true}, len(p.Values))
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

func (t task) compare(u task) int {
	if t.bound != u.bound {
		return cmp.Compare(t.bound, u.bound)
	}
	return slices.Compare(t.choices, u.choices)
}

// taskHeap is a heap.Interface, the task of least bound first.
type taskHeap []task

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h taskHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *taskHeap) Push(t any)        { *h = append(*h, t.(task)) }

func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}

// pool hands out tasks in order of their bounds. Workers that have none are
// counted, so that others share their subtrees.
type pool struct {
	mu     sync.Mutex
	wake   *sync.Cond
	tasks  taskHeap
	busy   int
	hungry atomic.Int32
}

// push adds a task.
func (p *pool) push(t task) {
	p.mu.Lock()
	heap.Push(&p.tasks, t)
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
	return heap.Pop(&p.tasks).(task), true
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

// worker explores subtrees.
type worker interface {
	take(t task)
	base() *searcher
}

// explore lets the workers take the tasks, and those they share, to the end. It
// returns the least bound of what they left out.
func explore[W worker](ws []W, tasks []task) fixed {
	p := &pool{tasks: tasks, busy: len(ws)}
	p.wake = sync.NewCond(&p.mu)
	heap.Init(&p.tasks)
	return together(ws, func(w W) fixed {
		s := w.base()
		s.pool = p
		for {
			t, ok := p.next()
			if !ok {
				return s.left
			}
			w.take(t)
		}
	})
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

func (w *searcher) base() *searcher { return w }

// next chooses the child to explore at a node whose path has the given length: of
// the value indices in free the one of least bound, which it marks as done and adds
// to the path. It prunes, and gives subtrees to idle workers if share is set. It
// returns -1 after the last child.
func (w *searcher) next(length int, free []int, child []fixed, share bool) (k int, bound fixed) {
	for {
		k, bound = -1, infeasible
		for _, i := range free {
			if child[i] < bound {
				k, bound = i, child[i]
			}
		}
		if k < 0 {
			w.path = w.path[:length]
			return k, bound
		}
		child[k] = infeasible
		w.path = append(w.path[:length], int8(k))
		switch {
		case w.prune(bound, w.path):
		case share && w.pool.hungry.Load() > 0:
			w.pool.push(task{bound: bound, choices: slices.Clone(w.path)})
		default:
			return k, bound
		}
	}
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

// newRun checks p and what the searches named name have in common. With a gap or a
// limit there is one worker, so that the answer does not depend on scheduling.
func newRun(name string, p *Problem, workers int, gap float64, nodes int64) (*run, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	switch {
	case len(p.Values) > math.MaxInt8:
		return nil, fmt.Errorf("%w: %s takes at most %d values, got %d", ErrLimit, name, math.MaxInt8, len(p.Values))
	case !(gap >= 0): // also NaN
		return nil, fmt.Errorf("%w: Gap = %v, want a number ≥ 0, 0 for the exact minimum", ErrProblem, gap)
	}
	r := &run{p: p, n: p.perturbation(), workers: min(workers, maxWorkers), limit: nodes}
	r.gap = fixed(min(math.Ldexp(gap, r.n.shift), float64(feasible)))
	switch {
	case gap > 0 || nodes > 0:
		r.workers = 1
	case workers <= 0:
		r.workers = runtime.GOMAXPROCS(0)
	}
	return r, nil
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
