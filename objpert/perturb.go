package objpert

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// fixed is a number in integer steps of 2^-shift, see perturbation.
type fixed = int64

// maxSteps bounds Σ_j max_k |T_j[k]| + max|z| in steps. With at most 2²⁹
// records and steps of at least 2⁻³⁰ every objective stays below 2⁶⁰ steps.
const (
	maxSteps = 1 << 59
	maxShift = 30
)

// perturbation is what a Problem subtracts from the loss: T_j[k] where
// w_j = Values[k], and z[‖w‖²], in steps of 2^-shift.
type perturbation struct {
	shift int
	table [][]fixed // d rows of len(Values)
	norm  []fixed   // Q+1 entries, or nil: 0
}

// Noise returns the perturbation of p, for oracles of other packages:
//
//	Objective(w) = Loss(w) − 2^exponent·(Σ_j table[j][k_j] + norm[‖w‖²]),   w_j = Values[k_j]
//
// table and norm are nil where p has none. They are secret, belong to p and must
// not be changed.
func (p *Problem) Noise() (table [][]int64, norm []int64, exponent int) {
	if p == nil || p.noise == nil {
		return nil, nil, 0
	}
	return p.noise.table, p.noise.norm, -p.noise.shift
}

// Perturb returns p with the noise table and norm in steps of 2^exponent, either
// of them nil for 0. The records are shared with p, the noise is copied. The
// exponent of a problem with rows lies in [-30, 0], that of others below 1, and
// Σ_j max_k |table[j][k]| + max|norm| ≤ 2⁵⁹, so that oracles count in int64.
// Errors wrap ErrProblem and show no noise.
func (p *Problem) Perturb(table [][]int64, norm []int64, exponent int) (*Problem, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	n := newPerturbation(p.Dim, len(p.Values))
	n.shift, n.norm = -exponent, slices.Clone(norm)
	switch {
	case p.NormSq < 0 && norm != nil:
		return nil, fmt.Errorf("%w: noise for the norm needs a bound NormSq", ErrProblem)
	case norm != nil && len(norm) != p.NormSq+1:
		return nil, fmt.Errorf("%w: noise for %d norms, want NormSq + 1 = %d, or nil", ErrProblem, len(norm), p.NormSq+1)
	case table != nil && len(table) != p.Dim:
		return nil, fmt.Errorf("%w: noise for %d coordinates, want Dim = %d, or nil", ErrProblem, len(table), p.Dim)
	case exponent > 0 || exponent < -maxShift && !p.OracleLoss:
		return nil, fmt.Errorf("%w: noise in steps of 2^%d, want an exponent in [-%d, 0]", ErrProblem, exponent, maxShift)
	}
	for j, row := range table {
		if len(row) != len(p.Values) {
			return nil, fmt.Errorf("%w: noise for %d values of coordinate %d, want one per value, %d",
				ErrProblem, len(row), j, len(p.Values))
		}
		copy(n.table[j], row)
	}
	if !n.within(maxSteps) {
		return nil, fmt.Errorf("%w: noise beyond 2^59 steps; to forbid a value use Allowed, and raise ε if the noise is that large",
			ErrProblem)
	}
	q := *p
	q.noise = n
	return &q, nil
}

// newPerturbation returns a perturbation of 0.
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
	return newPerturbation(p.Dim, len(p.Values))
}

// weighsNorm reports whether the noise of p depends on ‖w‖².
func (p *Problem) weighsNorm() bool { return p.noise != nil && p.noise.norm != nil }

// rows are those of the table, and the norm.
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

// tilted returns p with the noise of a real table and norm, rounded to steps of
// 2⁻³⁰, or of 2^-s for the largest s with Σ_j max_k |T_j[k]| + max|z| ≤ 2^(59-s)
// where that is coarser. The second result bounds by how much that moves the
// objective of one point against another's.
func (p *Problem) tilted(table [][]float64, norm []float64) (*Problem, float64, error) {
	bound := floats.Norm(norm, math.Inf(1)) // of the noise
	for _, row := range table {
		bound += floats.Norm(row, math.Inf(1))
	}
	if !(bound <= 0x1p58) { // also NaN
		return nil, 0, fmt.Errorf("%w: the noise must be finite with Σ_j max|T_j| + max|z| ≤ 2^58", ErrProblem)
	}
	_, e := math.Frexp(bound) // bound < 2^e
	shift := 59 - max(59-maxShift, e+1)
	round := func(src []float64) []int64 {
		if src == nil {
			return nil
		}
		dst := make([]int64, len(src))
		for k, v := range src {
			dst[k] = int64(math.RoundToEven(math.Ldexp(v, shift)))
		}
		return dst
	}
	var steps [][]int64
	for _, row := range table {
		steps = append(steps, round(row))
	}
	q, err := p.Perturb(steps, round(norm), -shift)
	return q, math.Ldexp(float64(len(table)+1), -shift), err
}

// float is the value of v steps.
func (n *perturbation) float(v fixed) float64 { return math.Ldexp(float64(v), -n.shift) }

// Objective is the value that oracles minimize, Loss(w) minus the noise at
// w ∈ W: exact in steps of the noise, then rounded to float64 once.
// Not private. It panics if p.Contains(w) is false.
func (p *Problem) Objective(w []int) float64 {
	if !p.Contains(w) {
		panic("objpert: point outside the space")
	}
	n := p.perturbation()
	return n.float(n.objective(p, w, p.Loss(w)))
}

// objective is loss - Σ_j T_j[w_j] - z[‖w‖²] in steps.
func (n *perturbation) objective(p *Problem, w []int, loss int) fixed {
	v, sq := fixed(loss)<<n.shift, 0
	for j, x := range w {
		k, _ := slices.BinarySearch(p.Values, x)
		v -= n.table[j][k]
		sq += x * x
	}
	if n.norm != nil {
		v -= n.norm[sq]
	}
	return v
}

// better reports whether (v, w) precedes (bv, bw): smaller objective, then
// lexicographically smaller w. It is a total order of W, so the minimum is one
// point however the search goes about it.
func better(v fixed, w []int, bv fixed, bw []int) bool {
	return cmp.Or(cmp.Compare(v, bv), slices.Compare(w, bw)) < 0
}
