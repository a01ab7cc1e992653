// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/internal/noise"
)

// Space is the finite parameter set
//
//	W = {w ∈ Valuesᵈ : ‖w‖² ≤ NormSq, Allowed[j][k] where w_j = Values[k]}.
//
// The lattice τℤᵈ in the ball of radius D is Lattice(D²/τ²): the sign of a score does not depend on
// τ.
type Space struct {
	Values  []int    `json:"values"`            // the values of a coordinate, increasing
	NormSq  int      `json:"norm_sq"`           // Q ≥ 1, or any negative number for no bound
	Allowed [][]bool `json:"allowed,omitempty"` // d rows of len(Values), or nil: every value everywhere
}

// Lattice returns ℤᵈ within ‖w‖² ≤ q: the values −B, …, B with B = ⌊√q⌋.
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
		return fmt.Errorf("%w: NormSq = %d, want Q in [1, %d], or a negative number for no bound",
			ErrProblem, s.NormSq, maxNormSq)
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
			return fmt.Errorf("%w: Allowed[%d] has %d entries, want one per value, %d",
				ErrProblem, j, len(s.Allowed[j]), len(s.Values))
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

// sameSpace reports whether two spaces of d coordinates admit the same points.
func sameSpace(a, b *Space, d int) bool {
	if a.NormSq != b.NormSq || !slices.Equal(a.Values, b.Values) {
		return false
	}
	for j := range d {
		for k := range a.Values {
			if a.allowed(j, k) != b.allowed(j, k) {
				return false
			}
		}
	}
	return true
}

// bound is B = max |w_j|, at least 1.
func (s *Space) bound() int {
	b := max(1, -s.Values[0], s.Values[len(s.Values)-1])
	if s.NormSq > 0 {
		b = min(b, int(math.Sqrt(float64(s.NormSq)))) // exact up to maxNormSq
	}
	return b
}

// step is the least distance between two values, +Inf if there is one value.
func (s *Space) step() float64 {
	g := math.Inf(1)
	for k := 1; k < len(s.Values); k++ {
		g = min(g, float64(s.Values[k])-float64(s.Values[k-1]))
	}
	return g
}

// isCube reports whether every coordinate admits −1 and +1 at most.
func (s *Space) isCube(d int) bool {
	for j := range d {
		for k, v := range s.Values {
			if s.allowed(j, k) && v != 1 && v != -1 {
				return false
			}
		}
	}
	return true
}

// pointsUpTo returns |W|, or a number above limit that is at most |W|.
func (s *Space) pointsUpTo(d, limit int) int {
	_, total := s.norms(d, limit, math.MaxInt)
	return total
}

// norms returns the number of points of each squared norm, and their total: |W|, or a number above
// limit that is at most |W|, and then the counts mean nothing. The count is nil if prefixes have
// more than most squared norms.
func (s *Space) norms(d, limit, most int) (count map[int]int, total int) {
	// count[q] is the number of prefixes (w_1, …, w_j) with squared norm q that can be completed to a
	// point. Their total does not decrease with j.
	count, total = map[int]int{0: 1}, 1
	least := s.least(d)
	for j := 0; j < d && total <= limit; j++ {
		next := map[int]int{}
		total = 0
		for k, v := range s.Values {
			for q, c := range count {
				if s.fits(j, k, q+least[j+1]) {
					next[q+v*v] += c
					total += c
				}
			}
			if len(next) > most {
				return nil, total
			}
		}
		count = next
	}
	return count, total
}

// fits reports whether coordinate j may take Values[k] where the squared norm of the others is sq.
func (s *Space) fits(j, k, sq int) bool {
	return s.allowed(j, k) && (s.NormSq < 0 || sq+s.Values[k]*s.Values[k] <= s.NormSq)
}

// least returns, for each j ≤ d, the least squared norm of the coordinates from j on.
func (s *Space) least(d int) []int {
	least := make([]int, d+1)
	for j := d - 1; j >= 0; j-- {
		least[j] = least[j+1] + s.leastSquare(j)
	}
	return least
}

// leastSquare is the least square of a value that coordinate j admits, −1 if it admits none.
func (s *Space) leastSquare(j int) int {
	least := -1
	for k, v := range s.Values {
		if s.allowed(j, k) && (least < 0 || v*v < least) {
			least = v * v
		}
	}
	return least
}

// anyPoint draws a point of W without reading a record: each coordinate in turn uniformly from the
// values that can still be completed. Every point has a probability of at least exp(−logChoices).
func (s *Space) anyPoint(d int, src rand.Source) []int {
	least := s.least(d)
	w, sq := make([]int, d), 0
	for j := range w {
		var choices []int
		for k, v := range s.Values {
			if s.fits(j, k, sq+least[j+1]) {
				choices = append(choices, v)
			}
		}
		w[j] = choices[noise.Below(uint64(len(choices)), src)]
		sq += w[j] * w[j]
	}
	return w
}

// logChoices is Σ_j ln |V_j| ≥ ln |W|, V_j the values that coordinate j admits.
func (s *Space) logChoices(d int) float64 {
	sum := 0.0
	for _, n := range s.choices(d) {
		sum += math.Log(float64(n))
	}
	return sum
}

// choices returns |V_j| for each coordinate.
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
