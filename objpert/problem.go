package objpert

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Errors that this package wraps. Test with errors.Is.
var (
	// ErrProblem reports a field of Problem, Space or Feature outside its range.
	ErrProblem = errors.New("objpert: invalid problem")

	// ErrLimit reports that an oracle declined or stopped at one of its own
	// limits: points, nodes or memory.
	ErrLimit = errors.New("objpert: limit of the oracle reached")

	// ErrInterrupted reports that the context ended before the optimum was
	// proven. The Solution beside it is a valid bracket.
	ErrInterrupted = errors.New("objpert: search interrupted")
)

// Problem is the perturbed empirical risk of halfspaces over a finite set,
//
//	min over w ∈ W of  Σ_g ℓ_g(⟨X_g, w⟩) - Σ_j T_j[w_j] - z[‖w‖²],
//	ℓ_g(s) = Neg_g if s > 0, else Pos_g:   sgn(0) = -1,
//
// with noise T, z that Perturb gives and Noise shows. Everything in it is exact:
// rows are integers, and so is the noise, in steps of a power of two.
//
// NewProblem, Empty and Perturb make problems; oracles also accept literals.
// Nothing in a Problem may be changed while it is in use.
type Problem struct {
	Space
	Dim      int       // d
	X        [][]int64 // distinct rows
	Pos, Neg []int     // records with label +1 and -1 per row
	// OracleLoss says that the loss is not that of halfspaces but one which the
	// caller's Oracle knows and adds itself. There are no rows, and Loss is 0.
	OracleLoss bool

	noise   *perturbation // nil: 0
	checked identity      // of the fields before noise that passed Check
	shared  *cache        // what oracles derive from them alone; only where they passed
}

// identity tells which slices a Problem holds.
type identity struct {
	values, pos, neg span[int]
	rows             span[[]int64]
	allowed          span[[]bool]
	dim, normSq      int
	oracleLoss       bool
}

func (p *Problem) identity() identity {
	return identity{spanOf(p.Values), spanOf(p.Pos), spanOf(p.Neg), spanOf(p.X), spanOf(p.Allowed), p.Dim, p.NormSq, p.OracleLoss}
}

// span is where a slice lies.
type span[T any] struct {
	first *T
	n     int
}

func spanOf[T any](s []T) span[T] {
	if len(s) == 0 {
		return span[T]{}
	}
	return span[T]{&s[0], len(s)}
}

// passed reports whether p holds the fields that NewProblem checked. A copy
// that was given others does not.
func (p *Problem) passed() bool { return p.Dim > 0 && p.checked == p.identity() }

// Limits that keep every sum inside int64.
const (
	maxValue   = 1 << 15
	maxDim     = 1 << 15
	maxNormSq  = 1 << 20
	maxRecords = 1<<29 - 1
	maxScore   = 1 << 62 // least bound that |⟨x,w⟩| must stay below
)

// NewProblem merges the records (rows[i], labels[i]), each counted weights[i]
// times (nil: once), into a Problem over space. A weight k stands for k records,
// of which neighbors differ in one. Rows that are positive multiples of each other
// are one row, divided by the greatest common divisor of its entries: no score
// changes its sign. The result does not depend on the order of the records.
//
// What a record holds is never an error, which would tell on it: each is brought
// into range by itself. Where Σ_j |x_j| max|w_j| reaches 2⁶² the features of the row
// are clamped to ±M, M the largest integer with d·M·max|w_j| < 2⁶²; positive labels count as +1 and all others as −1, and
// negative weights as 0. Errors wrap ErrProblem: they are about the space, and the
// shape and number of the records. Empty is the problem without records.
func NewProblem(rows [][]int64, labels, weights []int, space Space) (*Problem, error) {
	switch {
	case len(labels) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d labels, want equally many", ErrProblem, len(rows), len(labels))
	case weights != nil && len(weights) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d weights, want equally many, or nil for weight 1", ErrProblem, len(rows), len(weights))
	case len(rows) == 0:
		return nil, fmt.Errorf("%w: no rows to tell the number of features; without records take Empty", ErrProblem)
	}
	d := len(rows[0])
	p, err := Empty(d, space)
	if err != nil {
		return nil, err
	}
	limit := int64((maxScore - 1) / (uint64(d) * uint64(p.bound())))
	order := make([]int, len(rows))
	reduced := grid[int64](len(rows), d)
	for i, row := range rows {
		if len(row) != d {
			return nil, fmt.Errorf("%w: rows have different numbers of features, want one length", ErrProblem)
		}
		order[i] = i
		copy(reduced[i], row)
		primitive(reduced[i])
		if !scores(reduced[i], uint64(p.bound())) {
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
		last := len(p.X) - 1
		if last < 0 || !slices.Equal(p.X[last], reduced[i]) {
			p.X = append(p.X, reduced[i])
			p.Pos, p.Neg = append(p.Pos, 0), append(p.Neg, 0)
			last++
		}
		if labels[i] > 0 {
			p.Pos[last] += weight
		} else {
			p.Neg[last] += weight
		}
	}
	p.checked = p.identity()
	return p, nil
}

// Empty is the problem of dim features without a record. Errors wrap ErrProblem.
func Empty(dim int, space Space) (*Problem, error) {
	p := &Problem{Dim: dim, shared: &cache{models: make(map[cellKey]*cellModel)}}
	if dim >= 1 && dim <= maxDim {
		p.Space = space.clone()
	}
	if err := p.checkFields(); err != nil {
		return nil, err
	}
	p.checked = p.identity()
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

// Check returns an error wrapping ErrProblem unless every oracle of this
// package can solve p without overflow. Of a literal it reads the records; what
// NewProblem made passes whatever they hold. Errors show no value of a record and
// no noise.
func (p *Problem) Check() error {
	switch {
	case p == nil:
		return fmt.Errorf("%w: the problem is nil", ErrProblem)
	case p.passed():
		return nil
	}
	if err := p.checkFields(); err != nil {
		return err
	}
	if n := p.noise; n != nil && (len(n.table) != p.Dim || len(n.table[0]) != len(p.Values) || n.norm != nil && len(n.norm) != p.NormSq+1 ||
		n.shift > maxShift && !p.OracleLoss) {
		return fmt.Errorf("%w: the noise is for another space", ErrProblem)
	}
	return nil
}

func (p *Problem) checkFields() error {
	if p.Dim < 1 || p.Dim > maxDim {
		return fmt.Errorf("%w: Dim = %d, want a number of features in [1, %d]", ErrProblem, p.Dim, maxDim)
	}
	if err := p.Space.check(p.Dim); err != nil {
		return err
	}
	if p.OracleLoss && len(p.X) > 0 {
		return fmt.Errorf("%w: rows and OracleLoss, want one of them", ErrProblem)
	}
	if len(p.Pos) != len(p.X) || len(p.Neg) != len(p.X) {
		return fmt.Errorf("%w: %d rows, %d counts Pos and %d counts Neg, want equally many", ErrProblem, len(p.X), len(p.Pos), len(p.Neg))
	}
	b := uint64(p.bound())
	total := 0
	for g, row := range p.X {
		if len(row) != p.Dim {
			return fmt.Errorf("%w: X[%d] has %d features, want Dim = %d", ErrProblem, g, len(row), p.Dim)
		}
		if p.Pos[g] < 0 || p.Neg[g] < 0 || p.Pos[g] > maxRecords-total || p.Neg[g] > maxRecords-total-p.Pos[g] {
			return fmt.Errorf("%w: Pos and Neg hold a negative count or more than %d records", ErrProblem, maxRecords)
		}
		total += p.Pos[g] + p.Neg[g]
		if !scores(row, b) {
			return fmt.Errorf("%w: scores may overflow: Σ_j |x_j| max|w_j| must stay below 2^62; declare smaller denominators, or round "+
				"the features", ErrProblem)
		}
	}
	return nil
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

// Records is n, the number of records with their weights.
func (p *Problem) Records() int {
	n := 0
	for g := range p.Pos {
		n += p.Pos[g] + p.Neg[g]
	}
	return n
}

// Contains reports whether w is a point of W, which a Space that Check refuses
// has none of.
func (p *Problem) Contains(w []int) bool {
	if len(w) != p.Dim || !p.passed() && p.Space.check(p.Dim) != nil {
		return false
	}
	sq := 0
	for j, v := range w {
		k, ok := slices.BinarySearch(p.Values, v)
		if !ok || !p.allowed(j, k) {
			return false
		}
		sq += v * v
	}
	return p.NormSq < 0 || sq <= p.NormSq
}

// Loss is the number of records whose label differs from the sign of their
// score at w ∈ W, with sgn(0) = -1. Not private. It panics if len(w) ≠ Dim.
func (p *Problem) Loss(w []int) int {
	if len(w) != p.Dim {
		panic("objpert: length mismatch")
	}
	loss := 0
	for g, row := range p.X {
		var s int64 // ⟨x, w⟩
		for j, v := range row {
			s += v * int64(w[j])
		}
		if s > 0 {
			loss += p.Neg[g]
		} else {
			loss += p.Pos[g]
		}
	}
	return loss
}
