// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// engine is a branch and bound that settle turns into a solution. It explores the points of W with
// domain[j][k] where w_j = Values[k] (nil: all) whose objective is below inc.value, until inc.done,
// and offers the points it finds. It returns a lower bound on the objective of the regions that it
// left out.
type engine func(domain [][]bool, inc *incumbent, run *run) fixed

// run is the state that the workers of one search share.
type run struct {
	p       *Problem
	n       *perturbation // of p
	workers int
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

// settle runs the search to the end and breaks ties.
func (r *run) settle(ctx context.Context, search engine) (*Solution, error) {
	defer context.AfterFunc(ctx, func() { r.stop.Store(true) })()

	inc := newIncumbent(unreached)
	open := search(nil, inc, r)
	w, v := inc.w, inc.value.Load()
	if w == nil {
		if r.stop.Load() {
			return nil, r.why(ctx)
		}
		return nil, fmt.Errorf("%w: no point meets NormSq and Allowed", ErrProblem)
	}
	lower := min(v, open)
	if open >= v && (inc.tied == v || open == v) && !r.stop.Load() {
		w = r.first(search, v, w)
	}
	stopped := r.stop.Load() // read once: a later stop changes nothing
	s := &Solution{
		W: w, Loss: r.p.Loss(w), Objective: r.n.float(v), Lower: r.n.float(lower),
		Proven: lower == v && !stopped, Nodes: r.nodes.Load(),
	}
	if stopped {
		return s, r.why(ctx)
	}
	return s, nil
}

// why returns the error of a search that was stopped.
func (r *run) why(ctx context.Context) error {
	if r.capped.Load() {
		return fmt.Errorf("%w: %d nodes", ErrLimit, r.limit)
	}
	return interrupted(ctx)
}

// first returns the least point in lexicographic order among the minimizers, of which w is one and
// v the objective. For each coordinate in turn it searches for a minimizer with a smaller value.
func (r *run) first(search engine, v fixed, w []int) []int {
	d, s := r.p.dim, &r.p.space
	w = slices.Clone(w)
	domain := make([][]bool, d)
	for j := range domain {
		domain[j] = slices.Repeat([]bool{true}, len(s.Values))
	}
	for j := range w {
		for {
			smaller := false
			for k, value := range s.Values {
				domain[j][k] = value < w[j]
				smaller = smaller || domain[j][k] && s.allowed(j, k)
			}
			if !smaller {
				break
			}
			inc := newIncumbent(v + 1)
			inc.first = true
			search(domain, inc, r)
			if r.step(1) {
				return w
			}
			if inc.w == nil {
				break
			}
			w = slices.Clone(inc.w)
		}
		for k, value := range s.Values {
			domain[j][k] = value == w[j]
		}
	}
	return w
}

// task is a subtree that a worker may take: choices are value indices in the order in which the
// engine fixes columns.
type task struct {
	bound   fixed
	choices []int8
}

// compare orders tasks by decreasing bound, so that the most promising one is the last.
func (t task) compare(u task) int {
	return cmp.Or(cmp.Compare(u.bound, t.bound), slices.Compare(u.choices, t.choices))
}

// pool hands out tasks in increasing order of their bounds and counts the workers that wait, so
// that others share their subtrees.
type pool struct {
	mu     sync.Mutex
	wake   *sync.Cond
	tasks  []task // sorted
	busy   int
	hungry atomic.Int32
}

// push adds a task.
func (p *pool) push(t task) {
	p.mu.Lock()
	at, _ := slices.BinarySearchFunc(p.tasks, t, task.compare)
	p.tasks = slices.Insert(p.tasks, at, t)
	p.mu.Unlock()
	p.wake.Signal()
}

// next returns the task of least bound to a worker that has none. It waits for one while other
// workers are busy, and returns false when no task is left.
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
	last := len(p.tasks) - 1
	t := p.tasks[last]
	p.tasks = p.tasks[:last]
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

// worker explores subtrees.
type worker interface {
	take(t task)
	base() *searcher
}

// explore lets the workers take the tasks and their subtrees until none is left. It returns the
// least bound of the regions that they left out.
func explore[W worker](ws []W, tasks []task) fixed {
	slices.SortFunc(tasks, task.compare)
	p := &pool{tasks: tasks, busy: len(ws)}
	p.wake = sync.NewCond(&p.mu)
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
	left   fixed  // least bound of the regions left out
	path   []int8 // value indices chosen so far, in the order of fixing
	order  []int  // the columns in the order of fixing
	values []int
}

func (w *searcher) base() *searcher { return w }

// next returns the child to explore at a node whose path has the given length: the value index in
// free with the least bound. It marks the child as done and appends it to the path. Children that
// need no search are skipped; if share is set, idle workers get children. It returns −1 after the
// last child.
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

// prune reports whether the region that choices lead to, of the given bound, needs no search. A
// region that ties with the incumbent is searched if the incumbent lies in it; otherwise prune
// records the tie.
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
	case bound < best:
		return false
	}
	w.inc.mu.Lock()
	defer w.inc.mu.Unlock()
	if best = w.inc.value.Load(); bound == best && !w.holds(choices) {
		w.inc.tied = min(w.inc.tied, bound)
		return true
	}
	return bound > best
}

// holds reports whether the incumbent lies in the region of choices. inc.mu is held.
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

// newRun returns the run of one search. Each worker has tables of its own: there are 1024 at most.
func (s Search) newRun(p *Problem) *run {
	r := &run{p: p, n: p.perturbation(), workers: min(s.Workers, 1024), limit: s.Nodes}
	switch {
	case s.Nodes > 0:
		r.workers = 1
	case s.Workers <= 0:
		r.workers = runtime.GOMAXPROCS(0)
	}
	return r
}

// unreached is the value before a point is found; values of points are below 2⁶².
const unreached fixed = math.MaxInt64

// incumbent is the best point found so far, shared by the workers of a search.
type incumbent struct {
	value atomic.Int64 // objective of w, or the cutoff that a point must beat
	first bool         // the first point below the cutoff ends the search

	mu   sync.Mutex
	w    []int // nil until a point is found
	tied fixed // least value at which a second point may exist
	done atomic.Bool
}

func newIncumbent(cutoff fixed) *incumbent {
	inc := &incumbent{tied: unreached}
	inc.value.Store(cutoff)
	return inc
}

// offer records a copy of the point w of value v if it is the best, or precedes the best in a tie.
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
		inc.tied = min(inc.tied, v)
		if slices.Compare(w, inc.w) < 0 {
			inc.w = append(inc.w[:0:0], w...)
		}
	}
}
