// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// Errors that this package wraps. Test with errors.Is.
var (
	// ErrProblem reports a field of a [Problem] or [Space] outside its range.
	ErrProblem = errors.New("objpert: invalid problem")

	// ErrLimit reports that an oracle declined a problem or stopped at a limit on points, nodes or
	// memory.
	ErrLimit = errors.New("objpert: limit of the oracle reached")

	// ErrInterrupted reports that the context ended before the optimum was proved. The [Solution]
	// returned with it is a valid bracket.
	ErrInterrupted = errors.New("objpert: search interrupted")
)

// Problem is the perturbed empirical risk of halfspaces over a finite set,
//
//	min over w ∈ W of  Σ_g ℓ_g(⟨x_g, w⟩) − Σ_j T_j[w_j] − z[‖w‖²],
//	ℓ_g(s) = neg_g if s > 0, else pos_g:   sgn(0) = −1
//
// with the noise T, z of [Problem.Perturb]. Rows are integers, and so is the noise, in steps of a
// power of two: oracles compare objectives exactly. [NewProblem], [Empty] and [Custom] make
// problems; nothing changes them.
type Problem struct {
	space    Space
	dim      int
	x        [][]int64 // distinct rows
	pos, neg []int     // records with label +1 and −1 per row
	custom   bool      // only the caller's oracle knows the loss; there are no rows

	noise  *perturbation // nil: 0
	models *sync.Map     // from cellKey to *cellModel, which do not depend on noise; nil: not kept
}

// Limits that keep every sum inside int64.
const (
	maxValue   = 1 << 15
	maxDim     = 1 << 15
	maxNormSq  = 1 << 20
	maxRecords = 1<<29 - 1
	maxScore   = 1 << 62 // least bound that |⟨x,w⟩| must stay below
)

// NewProblem merges the records (rows[i], labels[i]), each counted weights[i] times (nil: once),
// into a [Problem] over space. A weight k stands for k records; neighbors differ in one record.
// Rows that are positive multiples of each other become one row, divided by the greatest common
// divisor of its entries, which changes the sign of no score. The order of the records has no
// effect.
//
// The contents of a record never cause an error, because an error would reveal them. Each record is
// brought into range by itself: where Σ_j |x_j| max|w_j| reaches 2⁶², the features are clamped to
// ±M, the largest integer with d·M·max|w_j| < 2⁶²; positive labels count as +1 and all others as
// −1; negative weights count as 0. Errors wrap [ErrProblem] and concern the space, and the shape
// and the number of the records. For a data set without records call [Empty].
func NewProblem(rows [][]int64, labels, weights []int, space Space) (*Problem, error) {
	switch {
	case len(labels) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d labels, want equally many", ErrProblem, len(rows), len(labels))
	case weights != nil && len(weights) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d weights, want equally many, or nil for weight 1",
			ErrProblem, len(rows), len(weights))
	case len(rows) == 0:
		return nil, fmt.Errorf("%w: no rows, which show the number of features; without records take Empty", ErrProblem)
	}
	d := len(rows[0])
	p, err := Empty(d, space)
	if err != nil {
		return nil, err
	}
	limit := int64((maxScore - 1) / (uint64(d) * uint64(p.space.bound())))
	order := make([]int, len(rows))
	reduced := grid[int64](len(rows), d)
	for i, row := range rows {
		if len(row) != d {
			return nil, fmt.Errorf("%w: rows have different numbers of features, want one length", ErrProblem)
		}
		order[i] = i
		copy(reduced[i], row)
		primitive(reduced[i])
		if !scores(reduced[i], uint64(p.space.bound())) {
			for j, v := range reduced[i] {
				reduced[i][j] = min(max(v, -limit), limit)
			}
			primitive(reduced[i])
		}
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(reduced[a], reduced[b]) })

	total := 0
	for _, i := range order {
		weight := 1
		if weights != nil {
			weight = weights[i]
		}
		if weight <= 0 {
			continue
		}
		if weight > maxRecords-total {
			return nil, fmt.Errorf("%w: more than %d records", ErrProblem, maxRecords)
		}
		total += weight
		last := len(p.x) - 1
		if last < 0 || !slices.Equal(p.x[last], reduced[i]) {
			p.x = append(p.x, reduced[i])
			p.pos, p.neg = append(p.pos, 0), append(p.neg, 0)
			last++
		}
		if labels[i] > 0 {
			p.pos[last] += weight
		} else {
			p.neg[last] += weight
		}
	}
	return p, nil
}

// Empty returns the [Problem] of dim features without records, also to plan with before there are
// any. Errors wrap [ErrProblem].
func Empty(dim int, space Space) (*Problem, error) {
	if dim < 1 || dim > maxDim {
		return nil, fmt.Errorf("%w: Dim = %d, want a number of features in [1, %d]", ErrProblem, dim, maxDim)
	}
	p := &Problem{space: space.clone(), dim: dim, models: new(sync.Map)}
	if err := p.space.check(dim); err != nil {
		return nil, err
	}
	return p, nil
}

// Custom returns a [Problem] of dim parameters whose loss is not that of halfspaces: the caller's
// [Oracle] knows it and adds it itself. The problem has no rows, and its Loss is 0. Errors wrap
// [ErrProblem].
func Custom(dim int, space Space) (*Problem, error) {
	p, err := Empty(dim, space)
	if err != nil {
		return nil, err
	}
	p.custom = true
	return p, nil
}

// primitive divides row by the gcd of its entries.
func primitive(row []int64) {
	var g uint64
	for _, v := range row {
		g = gcd(g, magnitude(v))
	}
	if g > 1 && g <= math.MaxInt64 {
		for j := range row {
			row[j] /= int64(g)
		}
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// scores reports whether Σ_j |x_j| b < 2⁶².
func scores(row []int64, b uint64) bool {
	var sum uint64 // ‖x‖₁
	for _, v := range row {
		a := magnitude(v)
		if a > maxScore-sum {
			return false
		}
		sum += a
	}
	hi, lo := bits.Mul64(sum, b)
	return hi == 0 && lo < maxScore
}

// check returns an error for a problem that no constructor made.
func (p *Problem) check() error {
	if p == nil || p.dim == 0 {
		return fmt.Errorf("%w: the problem is nil or zero, want one of NewProblem, Empty or Custom", ErrProblem)
	}
	return nil
}

// Dim returns the number of parameters, 0 for a nil Problem.
func (p *Problem) Dim() int {
	if p == nil {
		return 0
	}
	return p.dim
}

// Space returns a copy of the set W.
func (p *Problem) Space() Space { return p.space.clone() }

// Rows returns the distinct rows and, for each, the numbers of records with label +1 and −1, for
// oracles of other packages. They are private, belong to p and must not be changed.
func (p *Problem) Rows() (x [][]int64, pos, neg []int) { return p.x, p.pos, p.neg }

// Contains reports whether w is a point of W.
func (p *Problem) Contains(w []int) bool {
	if p.dim == 0 || len(w) != p.dim {
		return false
	}
	sq := 0
	for j, v := range w {
		k, ok := slices.BinarySearch(p.space.Values, v)
		if !ok || !p.space.allowed(j, k) {
			return false
		}
		sq += v * v
	}
	return p.space.NormSq < 0 || sq <= p.space.NormSq
}

// Loss returns the number of records whose label differs from the sign of their score at w, with
// sgn(0) = −1. Not private: it is a function of the records. It panics if w has another length than
// [Problem.Dim].
func (p *Problem) Loss(w []int) int {
	if len(w) != p.dim {
		panic("objpert: length mismatch")
	}
	loss := 0
	for g, row := range p.x {
		var s int64 // ⟨x, w⟩
		for j, v := range row {
			s += v * int64(w[j])
		}
		if s > 0 {
			loss += p.neg[g]
		} else {
			loss += p.pos[g]
		}
	}
	return loss
}

// String returns the size of the space, such as "objpert.Problem(d = 23, Q = 4)". The number of
// distinct rows is private and not part of it.
func (p *Problem) String() string {
	switch {
	case p == nil:
		return "objpert.Problem(nil)"
	case p.space.NormSq < 0:
		return fmt.Sprintf("objpert.Problem(d = %d)", p.dim)
	}
	return fmt.Sprintf("objpert.Problem(d = %d, Q = %d)", p.dim, p.space.NormSq)
}

// Format prints String for every verb, so that no verb shows records or noise.
func (p Problem) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// MarshalText always fails, so that JSON and XML hold neither records nor noise.
func (Problem) MarshalText() ([]byte, error) {
	return nil, errors.New("objpert: a Problem may hold secret noise and is not encoded")
}
