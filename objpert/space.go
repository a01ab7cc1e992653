package objpert

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/internal/noise"
)

// Space is the finite parameter set
//
//	W = {w ∈ Valuesᵈ : ‖w‖² ≤ NormSq, Allowed[j][k] where w_j = Values[k]}.
//
// The lattice τℤᵈ in the ball of radius D is Lattice(D²/τ²): the sign of a
// score does not depend on τ.
type Space struct {
	Values  []int    `json:"values"`            // the values of a coordinate, increasing
	NormSq  int      `json:"norm_sq"`           // Q ≥ 1, or any negative number for no bound
	Allowed [][]bool `json:"allowed,omitempty"` // d rows of len(Values), or nil: every value everywhere
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

func (s Space) clone() Space {
	s.Values, s.Allowed = slices.Clone(s.Values), slices.Clone(s.Allowed)
	for j, row := range s.Allowed {
		s.Allowed[j] = slices.Clone(row)
	}
	return s
}

// allowed reports whether coordinate j may take Values[k].
func (s *Space) allowed(j, k int) bool { return len(s.Allowed) == 0 || s.Allowed[j][k] }

func (s *Space) check(d int) error {
	switch {
	case len(s.Values) == 0:
		return fmt.Errorf("%w: Values is empty, want for example Lattice(4)", ErrProblem)
	case s.NormSq == 0 || s.NormSq > maxNormSq:
		return fmt.Errorf("%w: NormSq = %d, want Q in [1, %d], or a negative number for no bound", ErrProblem, s.NormSq, maxNormSq)
	case len(s.Allowed) > 0 && len(s.Allowed) != d:
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
		if len(s.Allowed) > 0 && len(s.Allowed[j]) != len(s.Values) {
			return fmt.Errorf("%w: Allowed[%d] has %d entries, want one per value, %d", ErrProblem, j, len(s.Allowed[j]), len(s.Values))
		}
		sq := s.leastSquare(j)
		if sq < 0 {
			return fmt.Errorf("%w: Allowed[%d] admits no value, want at least one", ErrProblem, j)
		}
		least += sq
	}
	if s.NormSq > 0 && least > s.NormSq {
		return fmt.Errorf("%w: NormSq = %d, but every point has ‖w‖² ≥ %d; want a larger Q or other Values",
			ErrProblem, s.NormSq, least)
	}
	return nil
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

// isCube reports whether every coordinate admits no values but −1 and +1.
func isCube(s *Space, d int) bool {
	for j := range d {
		for k, v := range s.Values {
			if s.allowed(j, k) && v != 1 && v != -1 {
				return false
			}
		}
	}
	return true
}

// Points is |W|, rounded to float64 and +Inf where it exceeds its range; 0 for
// a Space that Check refuses. Time O(d |Values| Q).
func (p *Problem) Points() float64 { return p.pointsUpTo(math.Inf(1)) }

// pointsUpTo is |W| or a number between limit and |W|.
func (p *Problem) pointsUpTo(limit float64) float64 {
	if p.Dim < 1 || p.Dim > maxDim || p.check(p.Dim) != nil {
		return 0
	}
	// count[q] = points of the first coordinates with squared norm q that the
	// others can complete: there are no more of them than points
	count, next := map[int]float64{0: 1}, map[int]float64{}
	least := p.least()
	total := 1.0
	for j := range p.Dim {
		clear(next)
		total = 0
		for k, v := range p.Values {
			sq := v * v
			if p.NormSq < 0 {
				sq = 0
			}
			if !p.allowed(j, k) || p.NormSq > 0 && sq+least[j+1] > p.NormSq {
				continue
			}
			for q, c := range count {
				if p.NormSq < 0 || q+sq+least[j+1] <= p.NormSq {
					next[q+sq] += c
				}
			}
		}
		for _, q := range slices.Sorted(maps.Keys(next)) { // one order of rounding
			total += next[q]
		}
		if total > limit {
			break
		}
		count, next = next, count
	}
	return total
}

// least[j] is the least squared norm of the coordinates j.. of a point.
func (p *Problem) least() []int {
	least := make([]int, p.Dim+1)
	for j := p.Dim - 1; j >= 0; j-- {
		least[j] = least[j+1] + p.leastSquare(j)
	}
	return least
}

// leastSquare is the least square of the values that coordinate j admits, -1 if
// there are none.
func (s *Space) leastSquare(j int) int {
	least := -1
	for k, v := range s.Values {
		if s.allowed(j, k) && (least < 0 || v*v < least) {
			least = v * v
		}
	}
	return least
}

// anyPoint draws a point of W from a law that reads nothing but the space: each
// coordinate in turn uniformly from the values that can still be completed. No
// point has a smaller probability than exp(-logChoices).
func (s *Space) anyPoint(d int, src rand.Source) []int {
	p := Problem{Space: *s, Dim: d}
	least := p.least()
	w, sq := make([]int, d), 0
	for j := range w {
		var choices []int
		for k, v := range s.Values {
			if s.allowed(j, k) && (s.NormSq < 0 || sq+v*v+least[j+1] <= s.NormSq) {
				choices = append(choices, v)
			}
		}
		w[j] = choices[noise.Below(uint64(len(choices)), src)]
		sq += w[j] * w[j]
	}
	return w
}

// logChoices is Σ_j ln |V_j|, no less than ln |W|.
func (s *Space) logChoices(d int) float64 {
	sum := 0.0
	for _, n := range s.choices(d) {
		sum += math.Log(float64(n))
	}
	return sum
}

// choices returns the number of admitted values of each coordinate.
func (s *Space) choices(d int) []int {
	n := make([]int, d)
	for j := range n {
		for k := range s.Values {
			if s.allowed(j, k) {
				n[j]++
			}
		}
	}
	return n
}
