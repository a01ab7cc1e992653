package objpert

import (
	"cmp"
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

// Space is the finite parameter set
//
//	W = {w ∈ Valuesᵈ : ‖w‖² ≤ NormSq, Allowed[j][k] where w_j = Values[k]}.
//
// The lattice τℤᵈ in the ball of radius D is Lattice(D²/τ²): the sign of a
// score does not depend on τ.
type Space struct {
	Values  []int    // the values of a coordinate, increasing
	NormSq  int      // Q ≥ 1, or any negative number for no bound
	Allowed [][]bool // d rows of len(Values), or nil: every value everywhere
}

// Lattice is ℤᵈ within ‖w‖² ≤ q: Values -B..B with B = ⌊√q⌋.
func Lattice(q int) Space {
	b := 0
	for (b+1)*(b+1) <= q && b < maxValue {
		b++
	}
	s := Space{NormSq: q, Values: make([]int, 2*b+1)}
	for k := range s.Values {
		s.Values[k] = k - b
	}
	return s
}

// Problem is the perturbed empirical risk of halfspaces over a finite set,
//
//	min over w ∈ W of  Σ_g ℓ_g(⟨X_g, w⟩) - Σ_j Table[j][k_j] - Norm[‖w‖²],   w_j = Values[k_j],
//	ℓ_g(s) = Neg_g if s > 0, else Pos_g:   sgn(0) = -1.
//
// Everything in it is exact: rows are integers, and Table and Norm are
// multiples of a power of two that depends on them alone (Perturb rounds them).
// OPDisc has Table[j][k] = η_j Values[k]/√Q and Norm[q] = η_{d+1} √(Q-q)/√Q.
//
// NewProblem and Perturb make problems; oracles also accept literals. A problem
// without rows has loss 0: an Oracle that knows another loss adds it itself.
// Nothing in a Problem may be changed while it is in use.
type Problem struct {
	Space
	Dim      int         // d
	X        [][]int64   // distinct rows
	Pos, Neg []int       // records with label +1 and -1 per row
	Table    [][]float64 // d rows of len(Values), or nil: 0. Secret noise
	Norm     []float64   // Q+1 entries, or nil: 0. Secret noise

	checked identity // of the fields before Table that passed Check
	shared  *cache   // what oracles derive from them alone; see derived
}

// identity tells which slices a Problem holds.
type identity struct {
	values                                          *int
	rows                                            *[]int64
	pos, neg                                        *int
	allowed                                         *[]bool
	dim, normSq, nValues, nRows, nPos, nNeg, nAllow int
}

func (p *Problem) identity() identity {
	return identity{
		head(p.Values), head(p.X), head(p.Pos), head(p.Neg), head(p.Allowed),
		p.Dim, p.NormSq, len(p.Values), len(p.X), len(p.Pos), len(p.Neg), len(p.Allowed),
	}
}

func head[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// passed reports whether p holds the fields that NewProblem checked. A copy
// that was given others does not.
func (p *Problem) passed() bool { return p.Dim > 0 && p.checked == p.identity() }

// derived is the cache of what belongs to the fields of p, or nil.
func (p *Problem) derived() *cache {
	if !p.passed() {
		return nil
	}
	return p.shared
}

// Limits that keep every sum inside int64.
const (
	maxValue   = 1 << 15
	maxDim     = 1 << 15
	maxNormSq  = 1 << 20
	maxRecords = 1<<29 - 1
	maxScore   = 1 << 62 // least bound that |⟨x,w⟩| must stay below
	maxNoise   = 1 << 58 // beyond it nothing of the loss is left
)

// NewProblem merges the records (rows[i], labels[i]), each counted weights[i]
// times (nil: once), into a Problem over space. Labels are -1 and +1. A weight k
// stands for k records, of which neighbors differ in one. Rows that
// are positive multiples of each other are one row, divided by the greatest
// common divisor of its entries: no score changes its sign. The result does not
// depend on the order of the records. Errors wrap ErrProblem.
func NewProblem(rows [][]int64, labels, weights []int, space Space) (*Problem, error) {
	switch {
	case len(rows) == 0:
		return nil, fmt.Errorf("%w: no records, want at least 1", ErrProblem)
	case len(labels) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d labels, want equally many", ErrProblem, len(rows), len(labels))
	case weights != nil && len(weights) != len(rows):
		return nil, fmt.Errorf("%w: %d rows and %d weights, want equally many, or nil for weight 1", ErrProblem, len(rows), len(weights))
	}
	d := len(rows[0])
	order := make([]int, len(rows))
	reduced := make([][]int64, len(rows))
	flat := make([]int64, len(rows)*d)
	for i, row := range rows {
		switch {
		case len(row) != d:
			return nil, fmt.Errorf("%w: rows[%d] has %d features, rows[0] has %d; want one length", ErrProblem, i, len(row), d)
		case labels[i] != 1 && labels[i] != -1:
			return nil, fmt.Errorf("%w: labels[%d] is neither -1 nor +1; map the two classes to -1 and +1", ErrProblem, i)
		case weights != nil && weights[i] < 0:
			return nil, fmt.Errorf("%w: weights[%d] is negative, want ≥ 0; a negative weight is the positive one with the label flipped, plus a constant", ErrProblem, i)
		}
		order[i] = i
		reduced[i] = primitive(flat[i*d:(i+1)*d:(i+1)*d], row)
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(reduced[a], reduced[b]) })

	p := &Problem{Space: space.clone(), Dim: d, shared: new(cache)}
	total := 0
	for _, i := range order {
		weight := 1
		if weights != nil {
			weight = weights[i]
		}
		if weight == 0 {
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
	if err := p.checkRecords(); err != nil {
		return nil, err
	}
	p.checked = p.identity()
	return p, nil
}

// primitive copies row into dst divided by the gcd of its entries.
func primitive(dst, row []int64) []int64 {
	var g uint64
	for _, v := range row {
		a := magnitude(v)
		for a != 0 {
			g, a = a, g%a
		}
	}
	copy(dst, row)
	if g > 1 && g <= math.MaxInt64 {
		for j := range dst {
			dst[j] /= int64(g)
		}
	}
	return dst
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func (s Space) clone() Space {
	c := Space{NormSq: s.NormSq, Values: slices.Clone(s.Values)}
	if s.Allowed != nil {
		c.Allowed = make([][]bool, len(s.Allowed))
		for j, row := range s.Allowed {
			c.Allowed[j] = slices.Clone(row)
		}
	}
	return c
}

// allowed reports whether coordinate j may take Values[k].
func (s *Space) allowed(j, k int) bool { return s.Allowed == nil || s.Allowed[j][k] }

// Perturb returns p with the noise table and norm, either of them nil for 0.
// The records are shared with p, the noise is copied and rounded to multiples
// of 2⁻³⁰, or of 2^-s for the largest s with Σ_j max_k |Table[j][k]| + max|Norm| ≤ 2^(59-s)
// where that is coarser. Errors wrap ErrProblem and show no noise.
func (p *Problem) Perturb(table [][]float64, norm []float64) (*Problem, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	q := *p
	q.Table, q.Norm = nil, nil
	if table != nil {
		q.Table = make([][]float64, len(table))
		for j := range table {
			q.Table[j] = slices.Clone(table[j])
		}
	}
	q.Norm = slices.Clone(norm)
	if err := q.checkNoise(); err != nil {
		return nil, err
	}
	shift := q.shift()
	for _, row := range q.Table {
		for k := range row {
			row[k] = onGrid(row[k], shift)
		}
	}
	for k := range q.Norm {
		q.Norm[k] = onGrid(q.Norm[k], shift)
	}
	return &q, nil
}

func onGrid(v float64, shift int) float64 {
	return math.Ldexp(math.RoundToEven(math.Ldexp(v, shift)), -shift)
}

// Check returns an error wrapping ErrProblem unless every oracle of this
// package can solve p without overflow. Errors show no value of a record and
// no noise.
func (p *Problem) Check() error {
	if p == nil {
		return fmt.Errorf("%w: the problem is nil", ErrProblem)
	}
	if !p.passed() {
		if err := p.checkRecords(); err != nil {
			return err
		}
	}
	return p.checkNoise()
}

func (p *Problem) checkRecords() error {
	if p.Dim < 1 || p.Dim > maxDim {
		return fmt.Errorf("%w: Dim = %d, want a number of features in [1, %d]", ErrProblem, p.Dim, maxDim)
	}
	if err := p.Space.check(p.Dim); err != nil {
		return err
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
		var sum uint64 // ‖x‖₁
		for _, v := range row {
			a := magnitude(v)
			if a > maxScore-sum {
				return fmt.Errorf("%w: the features of a row are too large: Σ_j |x_j| max|w_j| must stay below 2^62; declare smaller denominators, or round the features", ErrProblem)
			}
			sum += a
		}
		if hi, lo := bits.Mul64(sum, b); hi != 0 || lo >= maxScore {
			return fmt.Errorf("%w: scores may overflow: Σ_j |x_j| max|w_j| must stay below 2^62; declare smaller denominators, or round the features", ErrProblem)
		}
	}
	return nil
}

func (s *Space) check(d int) error {
	switch {
	case len(s.Values) == 0:
		return fmt.Errorf("%w: Values is empty, want for example Lattice(4)", ErrProblem)
	case s.NormSq == 0 || s.NormSq > maxNormSq:
		return fmt.Errorf("%w: NormSq = %d, want Q in [1, %d], or a negative number for no bound", ErrProblem, s.NormSq, maxNormSq)
	case s.Allowed != nil && len(s.Allowed) != d:
		return fmt.Errorf("%w: Allowed has %d rows, want Dim = %d, or nil", ErrProblem, len(s.Allowed), d)
	}
	for k, v := range s.Values {
		if v < -maxValue || v > maxValue {
			return fmt.Errorf("%w: Values[%d] = %d, want a number in [-%d, %[4]d]", ErrProblem, k, v, maxValue)
		}
		if k > 0 && v <= s.Values[k-1] {
			return fmt.Errorf("%w: Values[%d] = %d after %d, want increasing values", ErrProblem, k, v, s.Values[k-1])
		}
	}
	least := 0 // min ‖w‖²
	for j := range d {
		best := -1
		if s.Allowed != nil && len(s.Allowed[j]) != len(s.Values) {
			return fmt.Errorf("%w: Allowed[%d] has %d entries, want one per value, %d", ErrProblem, j, len(s.Allowed[j]), len(s.Values))
		}
		for k, v := range s.Values {
			if s.allowed(j, k) && (best < 0 || v*v < best) {
				best = v * v
			}
		}
		if best < 0 {
			return fmt.Errorf("%w: Allowed[%d] admits no value, want at least one", ErrProblem, j)
		}
		least += best
	}
	if s.NormSq > 0 && least > s.NormSq {
		return fmt.Errorf("%w: NormSq = %d, but every point has ‖w‖² ≥ %d; want a larger Q or other Values", ErrProblem, s.NormSq, least)
	}
	return nil
}

func (p *Problem) checkNoise() error {
	if p.Table != nil && len(p.Table) != p.Dim {
		return fmt.Errorf("%w: Table has %d rows, want Dim = %d, or nil", ErrProblem, len(p.Table), p.Dim)
	}
	for j, row := range p.Table {
		if len(row) != len(p.Values) {
			return fmt.Errorf("%w: Table[%d] has %d entries, want one per value, %d", ErrProblem, j, len(row), len(p.Values))
		}
	}
	switch {
	case p.Norm != nil && p.NormSq < 0:
		return fmt.Errorf("%w: Norm needs a bound NormSq", ErrProblem)
	case p.Norm != nil && len(p.Norm) != p.NormSq+1:
		return fmt.Errorf("%w: Norm has %d entries, want NormSq + 1 = %d, or nil", ErrProblem, len(p.Norm), p.NormSq+1)
	}
	if s := p.noiseBound(); !(s <= maxNoise) { // also NaN
		return fmt.Errorf("%w: Table and Norm must be finite with Σ_j max|Table[j]| + max|Norm| ≤ 2^58; to forbid a value use Allowed, and raise ε if the noise is that large", ErrProblem)
	}
	return nil
}

// noiseBound is Σ_j max_k |T_j[k]| + max|z|, NaN if any entry is.
func (p *Problem) noiseBound() float64 {
	s := 0.0
	for _, row := range p.Table {
		s += maxAbs(row)
	}
	return s + maxAbs(p.Norm)
}

func maxAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v)) // NaN stays NaN
	}
	return m
}

// shift is the s of Perturb: noise is a multiple of 2^-s, 0 ≤ s ≤ 30. It
// depends on the noise alone, never on the records or their number.
//
//	(n + Σ_j max|T_j| + max|z|) 2^s ≤ 2^60 for every admitted n.
func (p *Problem) shift() int {
	_, e := math.Frexp(p.noiseBound()) // bound < 2^e
	return 59 - max(29, e)
}

// bound is B = max |w_j|, at least 1.
func (s *Space) bound() int {
	b := max(1, -s.Values[0], s.Values[len(s.Values)-1])
	if s.NormSq > 0 {
		for b > 1 && b*b > s.NormSq {
			b--
		}
	}
	return b
}

// step is the least distance of two values, so of two points, +Inf if there is
// one value.
func (s *Space) step() float64 {
	g := math.Inf(1)
	for k := 1; k < len(s.Values); k++ {
		g = min(g, float64(s.Values[k])-float64(s.Values[k-1]))
	}
	return g
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

// Objective is the value that oracles minimize, Loss(w) minus the noise at
// w ∈ W: exact in multiples of 2^-s (see Perturb), then rounded to float64 once.
// Not private. It panics if p.Contains(w) is false.
func (p *Problem) Objective(w []int) float64 {
	if !p.Contains(w) {
		panic("objpert: point outside the space")
	}
	n := newNoise(p)
	return n.float(n.objective(p, w, p.Loss(w)))
}

// fixed is a number in integer units of 2^-s, see Perturb.
type fixed = int64

// noise is the noise of a problem in such units.
type noise struct {
	shift int
	table [][]fixed // d rows of len(Values)
	norm  []fixed   // Q+1 entries, or nil: 0
}

func newNoise(p *Problem) *noise {
	n := &noise{shift: p.shift(), table: make([][]fixed, p.Dim)}
	flat := make([]fixed, p.Dim*len(p.Values))
	for j := range n.table {
		n.table[j] = flat[j*len(p.Values) : (j+1)*len(p.Values)]
		if p.Table != nil {
			n.round(n.table[j], p.Table[j])
		}
	}
	if p.Norm != nil {
		n.norm = make([]fixed, len(p.Norm))
		n.round(n.norm, p.Norm)
	}
	return n
}

func (n *noise) round(dst []fixed, src []float64) {
	for k, v := range src {
		dst[k] = fixed(math.RoundToEven(math.Ldexp(v, n.shift)))
	}
}

func (n *noise) float(v fixed) float64 { return math.Ldexp(float64(v), -n.shift) }

// objective is loss - Σ_j T_j[w_j] - z[‖w‖²] in units.
func (n *noise) objective(p *Problem, w []int, loss int) fixed {
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
