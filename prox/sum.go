package prox

// Sum returns g + h as one operator if a theorem gives its proximal map in
// closed form, and reports whether it did. A nil operator is 0.
//
//	sum                                     proximal map             theorem
//	two Coordinatewise                      per coordinate           separable
//	L1, cones of NonNegative and Box kind   prox_ball ∘ prox_s       [Yu13, Thm. 4]
//	  with L2Norm, L2Ball, SquaredL2
func Sum(g, h Operator) (Operator, bool) {
	switch {
	case g == nil && h == nil:
		return whole(), true
	case g == nil:
		return h, true
	case h == nil:
		return g, true
	}
	if s, ok := g.(interface{ separable() separable }); ok {
		if t, ok := h.(interface{ separable() separable }); ok {
			return sumSeparable(s.separable(), t.separable())
		}
	}
	return nil, false
}

// sumSeparable adds coefficients and intersects intervals; an empty
// intersection has no proximal map.
func sumSeparable(g, h separable) (Operator, bool) {
	s := separable{g.l1 + h.l1, g.l2 + h.l2, max(g.lo, h.lo), min(g.hi, h.hi)}
	if !(s.lo <= s.hi) {
		return nil, false
	}
	if s.l1 == 0 && s.l2 == 0 {
		return Box{s.lo, s.hi}, true
	}
	return s, true
}
