package splitting

import (
	"math"

	"github.com/privopt/privopt/prox"
)

// uniform is an operator whose proximal map, for one γ, is the same for every coordinate, u ↦
// clip(scale·soft(u, tau), lo, hi). It needs no call per coordinate, and skips the parts that do
// nothing.
type uniform struct {
	prox.Operator
	tau, scale, lo, hi float64
	shrinks, clips     bool // tau > 0 or scale < 1; lo or hi is finite
}

// uniformly returns g as a uniform for γ if every coordinate has the same map, else g.
func uniformly(g prox.Operator, n int, gamma float64) prox.Operator {
	c, ok := g.(coordinatewise)
	if !ok {
		return g
	}
	l1, l2, lo, hi := c.Coordinate(0)
	for i := 1; i < n; i++ {
		if a, b, c, d := c.Coordinate(i); a != l1 || b != l2 || c != lo || d != hi {
			return g
		}
	}
	return &uniform{g, gamma * l1, 1 / (1 + gamma*l2), lo, hi,
		l1 > 0 || l2 > 0, !math.IsInf(lo, -1) || !math.IsInf(hi, 1)}
}

// Prox stores the map of x in dst; the third argument must be the γ of uniformly.
func (u *uniform) Prox(dst, x []float64, _ float64) {
	dst = dst[:len(x)]
	if u.shrinks {
		scale, tau := u.scale, u.tau
		for i, v := range x {
			dst[i] = scale * (v - min(max(v, -tau), tau)) // soft(v, τ) = v − clip(v, −τ, τ)
		}
		x = dst
	}
	if u.clips {
		lo, hi := u.lo, u.hi
		for i, v := range x {
			dst[i] = min(max(v, lo), hi) // without branches: sampling noise makes jumps unpredictable
		}
	} else if !u.shrinks {
		copy(dst, x)
	}
}
