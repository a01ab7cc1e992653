// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// fixed is a number of steps of 2^-shift, see perturbation.
type fixed = int64

// maxSteps bounds Σ_j max_k |T_j[k]| + max|z| in steps. With at most 2²⁹ records and steps of at
// least 2^-maxShift every objective stays below 2⁶⁰ steps.
const (
	maxSteps = 1 << 59
	maxShift = 30
)

// perturbation is the noise that a Problem subtracts from the loss: T_j[k] where w_j = Values[k],
// and z[‖w‖²], in steps of 2^-shift.
type perturbation struct {
	shift int
	table [][]fixed // d rows of len(Values)
	norm  []fixed   // Q+1 entries, or nil: 0
}

// Noise returns the perturbation of p, for oracles of other packages:
//
//	Objective(w) = Loss(w) − 2^exponent·(Σ_j table[j][k_j] + norm[‖w‖²]),   w_j = Values[k_j]
//
// table and norm are nil where p has none. They are secret, belong to p and must not be changed.
func (p *Problem) Noise() (table [][]int64, norm []int64, exponent int) {
	if p == nil || p.noise == nil {
		return nil, nil, 0
	}
	return p.noise.table, p.noise.norm, -p.noise.shift
}

// Perturb returns p with the noise table and norm of [Problem.Noise], in steps of 2^exponent; nil
// stands for 0. The result shares the records with p and copies the noise. The exponent is 0 at
// most and, but for a [Custom] problem, −30 at least. Σ_j max_k |table[j][k]| + max|norm| is 2⁵⁹ at
// most, so that oracles can count in int64. Errors wrap [ErrProblem] and show no noise.
func (p *Problem) Perturb(table [][]int64, norm []int64, exponent int) (*Problem, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	q, values := p.space.NormSq, len(p.space.Values)
	n := newPerturbation(p.dim, values)
	n.shift, n.norm = -exponent, slices.Clone(norm)
	switch {
	case q < 0 && norm != nil:
		return nil, fmt.Errorf("%w: noise for the norm needs a bound NormSq", ErrProblem)
	case norm != nil && len(norm) != q+1:
		return nil, fmt.Errorf("%w: noise for %d norms, want NormSq + 1 = %d, or nil", ErrProblem, len(norm), q+1)
	case table != nil && len(table) != p.dim:
		return nil, fmt.Errorf("%w: noise for %d coordinates, want Dim = %d, or nil", ErrProblem, len(table), p.dim)
	case exponent > 0 || exponent < -maxShift && !p.custom:
		return nil, fmt.Errorf("%w: noise in steps of 2^%d, want an exponent in [-%d, 0]", ErrProblem, exponent, maxShift)
	}
	for j, row := range table {
		if len(row) != values {
			return nil, fmt.Errorf("%w: noise for %d values of coordinate %d, want one per value, %d",
				ErrProblem, len(row), j, values)
		}
		copy(n.table[j], row)
	}
	if !n.within(maxSteps) {
		return nil, fmt.Errorf("%w: noise beyond 2^59 steps; to forbid a value use Allowed, and raise ε if the noise is "+
			"that large", ErrProblem)
	}
	noisy := *p
	noisy.noise = n
	return &noisy, nil
}

// newPerturbation returns noise of 0.
func newPerturbation(d, values int) *perturbation {
	return &perturbation{shift: maxShift, table: grid[fixed](d, values)}
}

// grid returns rows slices of cols zeros each, in one array.
func grid[T any](rows, cols int) [][]T {
	g, flat := make([][]T, rows), make([]T, rows*cols)
	for i := range g {
		g[i] = flat[i*cols : (i+1)*cols : (i+1)*cols]
	}
	return g
}

// perturbation returns the noise of p, 0 if it has none.
func (p *Problem) perturbation() *perturbation {
	if p.noise != nil {
		return p.noise
	}
	return newPerturbation(p.dim, len(p.space.Values))
}

// weighsNorm reports whether the noise of p depends on ‖w‖².
func (p *Problem) weighsNorm() bool { return p.noise != nil && p.noise.norm != nil }

// rows returns the rows of the table, and the norm.
func (n *perturbation) rows() [][]fixed { return append(slices.Clip(n.table), n.norm) }

// within reports whether Σ_j max|T_j| + max|z| ≤ limit steps, limit < 2⁶³.
func (n *perturbation) within(limit uint64) bool {
	sum := uint64(0)
	for _, row := range n.rows() {
		most := uint64(0)
		for _, v := range row {
			most = max(most, magnitude(v))
		}
		if sum += most; sum > limit {
			return false
		}
	}
	return true
}

// wipe overwrites noise that is no longer needed.
func (n *perturbation) wipe() {
	if n == nil {
		return
	}
	for _, row := range n.rows() {
		clear(row)
	}
}

// float is the value of v steps.
func (n *perturbation) float(v fixed) float64 { return math.Ldexp(float64(v), -n.shift) }

// Objective returns the value that oracles minimize, Loss(w) minus the noise at w. It is exact in
// steps of the noise, then rounded to float64 once. Not private. It panics unless p.Contains(w).
func (p *Problem) Objective(w []int) float64 {
	if !p.Contains(w) {
		panic("objpert: point outside the space")
	}
	n := p.perturbation()
	v, sq := fixed(p.Loss(w))<<n.shift, 0
	for j, x := range w {
		k, _ := slices.BinarySearch(p.space.Values, x)
		v -= n.table[j][k]
		sq += x * x
	}
	if n.norm != nil {
		v -= n.norm[sq]
	}
	return n.float(v)
}

// better reports whether (v, w) precedes (bv, bw): the objective is smaller or, in a tie, w
// precedes bw lexicographically. This is a total order of W: every search finds the same minimum.
func better(v fixed, w []int, bv fixed, bw []int) bool {
	return cmp.Or(cmp.Compare(v, bv), slices.Compare(w, bw)) < 0
}
