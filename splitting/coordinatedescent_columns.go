// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// columns minimizes ½‖Ax − y‖² + ψ(x) by coordinate descent on the residual r = y − Ax, over an
// active set. A round is
//
//	look    v = A'r, the residual dist(v, ∂ψ(x)) and the duality gap; the active set becomes the
//	        coordinates that a step along their axis would move
//	sweeps  over the active set, until its share of the residual has fallen tenfold:
//	        xⱼ ← clip(soft(‖aⱼ‖²xⱼ + ⟨aⱼ,r⟩, l1)/(‖aⱼ‖² + l2), lo, hi),   r ← r − Δxⱼ·aⱼ
//	Newton  on the free coordinates, once the sweeps have cost as much as their Gram matrix, and the
//	        matrix fits in an eighth of the memory of A, or 64 KiB
type columns struct {
	penalty
	*equations
	progress

	v, r   []float64
	h      []float64 // ‖aⱼ‖²
	active []int
	now    []int // scratch of same

	dual    float64 // the duality gap at the last look
	bestGap float64
	age     int // looks since the residual last halved

	newtonSteps // waited counts coordinate steps
}

const (
	// sweepsPerLook bounds the sweeps between two looks.
	sweepsPerLook = 50
	// lookRatio is the factor by which sweeps reduce the residual before the next look, which costs
	// about as much as a sweep. With 0.03 or 0.3 solves take a fifth longer.
	lookRatio = 0.1
)

// leastChol is the number of entries that a factor of free coordinates may always have, even if A
// is small: 64 KiB, 127 coordinates.
const leastChol = 1 << 13

// patientLooks is the number of looks that may fail to halve a residual that is small beside the
// terms of v. Then rounding allows no progress.
const patientLooks = 4

func (c *columns) init(op coordinatewise, a *equations, x0 []float64) error {
	n, d := a.n, a.d
	if d != len(x0) {
		panic(badLen)
	}
	if err := c.penalty.init(op, d); err != nil {
		return err
	}
	c.equations = a
	c.progress.init(d)
	c.v, c.h, c.r, c.active = resize(c.v, d), resize(c.h, d), resize(c.r, n), resize(c.active, d)
	c.now = resize(c.now, d)
	c.newtonSteps.init(d, min(d*(d+1)/2, max(n*d/8, leastChol)))
	copy(c.x, x0)
	c.start()
	return nil
}

// start discards the results of earlier points. The first round sweeps over all coordinates once.
func (c *columns) start() {
	c.clip(c.x)
	for j := range c.h {
		a := c.column(j)
		c.h[j] = floats.Dot(a, a)
	}
	c.progress.reset()
	c.newtonSteps.reset()
	c.age, c.bestGap = 0, math.Inf(1)
	c.refresh()
	c.residual, c.dual = math.Inf(1), math.Inf(1)
	c.active = c.active[:0]
	for j := range c.x {
		c.active = append(c.active, j)
	}
}

// advance sweeps over the columns, takes a Newton step where one pays, and certifies.
func (c *columns) advance() {
	if same := c.sweeps(); same && c.pays() {
		c.factored = c.same()
		c.newton(&c.penalty, c.x, c)
	}
	c.look()
}

// gap returns the duality gap at x, NaN where a number is too large for float64.
func (c *columns) gap() float64 { return c.dual }

// look computes r, v, the residual, the gap and the active set from scratch.
func (c *columns) look() {
	c.refresh()
	c.mulTrans(c.v, c.r)
	c.dual = c.leastSquaresGap(c.x, c.v, c.y, c.r)
	floats.Scale(-1, c.v) // ∇f
	c.residual, _ = c.dist(c.x, c.v, c.pieces)
	c.activate()
	c.judge()
}

// activate collects the coordinates that are free or that a step would move.
func (c *columns) activate() {
	c.active = c.active[:0]
	for j, x := range c.x {
		if c.pieces[j] == negative || c.pieces[j] == positive || c.move(j, c.v[j]) != x {
			c.active = append(c.active, j)
		}
	}
}

// move returns the minimizer along eⱼ where ∂f/∂xⱼ = g.
func (c *columns) move(j int, g float64) float64 { return c.along(j, c.x[j], g, c.h[j]) }

// sweeps minimizes over the active set to a tenth of the residual. It reports whether every
// coordinate stayed on its piece in the last sweep.
func (c *columns) sweeps() (same bool) {
	for range sweepsPerLook {
		var moved float64 // Σ (hⱼΔxⱼ)², close to the squared residual of the active set
		same = true
		for _, j := range c.active {
			a := c.column(j)
			old := c.x[j]
			z := c.move(j, -floats.Dot(a, c.r))
			if z == old {
				continue
			}
			if math.IsInf(z, 0) {
				c.unbounded = true
				return false
			}
			if (z > 0) != (old > 0) || (z < 0) != (old < 0) || z == c.lo[j] || z == c.hi[j] {
				same = false
			}
			e := z - old
			c.x[j] = z
			floats.AddScaled(c.r, -e, a)
			e *= c.h[j] + c.l2[j]
			moved += e * e
		}
		c.waited += len(c.active)
		if !(math.Sqrt(moved) > lookRatio*c.residual) {
			return same
		}
		if same && c.pays() {
			return same
		}
	}
	return same
}

// pays reports whether the sweeps so far have cost as much as a factorization: 2n multiply-adds for
// a coordinate step, n|A|²/2 for the Gram matrix, |A|³/6 for Cholesky's method.
func (c *columns) pays() bool {
	k := len(c.active)
	if k*(k+1)/2 > len(c.chol) {
		return false
	}
	return c.factored || 2*c.n*c.waited >= k*k*c.n/2+k*k*k/6
}

// freeCoordinates appends the free coordinates of the active set to dst.
func (c *columns) freeCoordinates(dst []int) []int {
	for _, j := range c.active {
		if c.isFree(j) {
			dst = append(dst, j)
		}
	}
	return dst
}

func (c *columns) hessianRow(free []int, row []float64) {
	a := c.column(free[len(row)-1])
	for l := range row {
		row[l] = floats.Dot(a, c.column(free[l]))
	}
}

func (c *columns) gradientAlong(j int) float64 { return -floats.Dot(c.column(j), c.r) }
func (c *columns) refresh()                    { c.rest(c.r, c.x) }
func (c *columns) cost(k int) int              { return c.n*c.d + c.n*k*k/2 }

// isFree reports whether xⱼ is neither at a kink nor at a bound, and J has curvature along it.
func (c *columns) isFree(j int) bool {
	x := c.x[j]
	return c.h[j]+c.l2[j] > 0 && x != c.lo[j] && x != c.hi[j] && (x != 0 || c.l1[j] == 0)
}

// same reports whether chol is the factor of the present free coordinates.
func (c *columns) same() bool {
	c.now = c.freeCoordinates(c.now[:0])
	return c.factored && slices.Equal(c.free, c.now)
}

// judge keeps the point of the least residual, and ends the solve where rounding allows no
// progress.
func (c *columns) judge() {
	c.age++
	if c.residual < c.bestRes {
		if c.residual < 0.5*c.bestRes {
			c.age = 0
		}
		c.keep()
		c.bestGap = c.dual
	}
	if c.residual == 0 || len(c.active) == 0 || c.age >= patientLooks && c.bestRes <= 0x1p-43*c.scale() {
		c.end()
		c.dual = c.bestGap
	}
}

// terms returns ‖∇f(x)‖ + ‖A‖_F²‖x‖.
func (c *columns) terms() float64 { return norm(c.v) + floats.Sum(c.h)*norm(c.x) }

// scale returns (Σ‖aⱼ‖²)^½·(‖y‖ + Σ|xⱼ|‖aⱼ‖), the size of the terms of v. Their rounding is 2⁻⁵³ of
// it times the root of their number: 2⁻⁴³ for a million.
func (c *columns) scale() float64 {
	size := math.Sqrt(floats.Dot(c.y, c.y))
	for j, x := range c.x {
		size += math.Abs(x) * math.Sqrt(c.h[j])
	}
	return size * math.Sqrt(floats.Sum(c.h))
}
