// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// descent minimizes ½x'Qx − ⟨lin,x⟩ + ψ(x) by cyclic coordinate descent, and by Newton's method
// once the sweeps stay on one piece of ψ.
type descent struct {
	penalty
	n    int
	q    []float64 // Q, full and row-major
	own  []float64 // q, unless that is of F
	lin  []float64
	size float64   // ‖lin‖
	x, g []float64 // the iterate, and Qx − lin, kept current by the sweeps

	pieces    []int8  // of x
	residual  float64 // dist(0, ∂J(x))
	unbounded bool    // a coordinate ran off to infinity
	stalling          // rounding allows no progress

	best      []float64 // the point of the least residual from scratch
	bestRes   float64
	fresh     bool    // g was computed from scratch at x
	certified float64 // residual when g was last fresh
	stale     int     // sweeps since then
	bestAge   int     // steps since the best point was found
	polished  int     // Newton steps with the full length since then, on this piece

	settled int // sweeps that stayed on the same piece

	chol     []float64 // Cholesky factor of (Q + L2)_AA, packed lower rows
	free     []int     // A
	delta    []float64
	factored bool // chol belongs to the present piece
	singular bool // a factorization failed, and the diagonal is raised since then
	blocked  int  // Newton steps since the last full one
	waited   int  // sweeps since the last factorization
}

// init allocates for n coordinates and reads ψ. The caller sets q, lin and x.
func (c *descent) init(op coordinatewise, n int) error {
	if err := c.penalty.init(op, n); err != nil {
		return err
	}
	c.n = n
	c.lin, c.g = resize(c.lin, n), resize(c.g, n)
	c.free, c.delta = resize(c.free, n), resize(c.delta, n)
	c.x, c.pieces, c.best = resize(c.x, n), resize(c.pieces, n), resize(c.best, n)
	return nil
}

// load fills q with both triangles of s, which stores its upper triangle, and where f is a function
// of this package both.
func (c *descent) load(s *mat.SymDense, f Smooth) {
	n, raw := c.n, s.RawSymmetric()
	switch f.(type) {
	case *parabola, *LinearModel, *combination, *combinedSum:
		c.q = raw.Data
		return
	}
	c.own = resize(c.own, n*n)
	c.q = c.own
	for i := range n {
		copy(c.q[i*n+i:(i+1)*n], raw.Data[i*raw.Stride+i:i*raw.Stride+n]) // below the diagonal it is unspecified
	}
	mirror(c.q, n)
}

// mirror copies the upper triangle of the n×n q to the lower one.
func mirror(q []float64, n int) {
	const block = 16 // tiles of 2 KiB, so that reads by row and writes by column both hit the cache
	for bi := 0; bi < n; bi += block {
		for bj := bi; bj < n; bj += block {
			for i := bi; i < min(bi+block, n); i++ {
				for j := max(bj, i+1); j < min(bj+block, n); j++ {
					q[j*n+i] = q[i*n+j]
				}
			}
		}
	}
}

// gap returns the duality gap at x, +Inf where the conjugate of the penalty is infinite.
func (c *descent) gap() float64 {
	for i, g := range c.g {
		c.delta[i] = -g
	}
	return c.fenchel(c.x, c.delta[:c.n])
}

// start clips x into the box and discards the results of earlier points.
func (c *descent) start() {
	c.clip(c.x)
	clear(c.pieces)
	c.unbounded, c.stalled = false, false
	c.bestRes = math.Inf(1)
	c.factored, c.singular = false, false
	c.blocked, c.waited = 0, 0
	c.settled, c.stale = 0, 0
	c.polished, c.bestAge = 0, 0
	c.size = norm(c.lin)
	c.refresh()
	c.certified = c.residual
}

// advance does one sweep, and Newton steps where they pay.
func (c *descent) advance() {
	moved := c.sweep()
	c.fresh = false
	same := c.measure()
	c.stale++
	c.waited++
	if same {
		c.settled++
	} else {
		c.settled, c.polished = 0, 0
		c.factored = false
	}
	newton, full := false, false
	if c.settled >= 1 && !math.IsInf(c.residual, 1) && (c.factored || c.waited >= c.patience()) {
		newton, full = c.newton()
	}
	// The gradient is computed from scratch after eight sweeps, when the residual has fallen to a
	// quarter, and whenever rounding could matter. In between it drifts by less than 8d roundings.
	near := c.residual <= 1e-9*c.scale()
	if newton || near || !moved || c.stale >= 8 || c.residual <= 0.25*c.certified {
		c.refresh()
		c.judge(moved, full)
	}
}

// sweep minimizes J along each coordinate in turn [W15, (11)], and reports whether x changed.
func (c *descent) sweep() bool {
	n, x := c.n, c.x
	g := c.g
	moved := false
	for j := range n {
		row := c.q[j*n : (j+1)*n : (j+1)*n]
		z := c.along(j, x[j], g[j], row[j])
		e := z - x[j]
		if e == 0 {
			continue
		}
		if math.IsInf(z, 0) {
			c.unbounded = true
			return true
		}
		moved = true
		x[j] = z
		floats.AddScaled(g, e, row) // g += e·Q eⱼ
	}
	return moved
}

// measure computes the residual from g, and reports whether x stayed on its piece.
func (c *descent) measure() (same bool) {
	c.residual, same = c.dist(c.x, c.g, c.pieces)
	return same
}

// refresh computes g and the residual from scratch.
func (c *descent) refresh() {
	gradient(c.g, c.q, c.lin, c.x)
	c.measure()
	c.fresh, c.stale = true, 0
	c.certified = c.residual
}

// judge keeps the best point, and ends the solve where rounding allows no progress: a sweep from a
// fresh gradient moves nothing; or the residual is small beside the terms whose difference it is,
// and two full Newton steps on the present piece, or fifty sweeps, have not halved it.
func (c *descent) judge(moved, full bool) {
	c.bestAge++
	if full {
		c.polished++
	}
	if c.residual < c.bestRes {
		if c.residual < 0.5*c.bestRes {
			c.polished, c.bestAge = 0, 0
		}
		c.bestRes = c.residual
		copy(c.best, c.x)
	}
	near := c.bestRes <= 1e-9*c.scale()
	switch {
	case c.residual == 0, !moved, near && c.polished >= 2, near && c.bestAge >= 50:
		c.stalled, c.residual = true, c.bestRes
		copy(c.x, c.best)
		gradient(c.g, c.q, c.lin, c.x) // for the gap of this point
	}
}

// scale returns the size of the terms whose difference the residual is.
func (c *descent) scale() float64 {
	return c.size + norm(c.g)
}

// patience returns the number of sweeps that cost as much as a factorization, so that Newton's
// steps at most double the work: |A|³/6 multiply-adds for Cholesky's method, n|A| for a sweep.
func (c *descent) patience() int {
	free := 0
	for _, p := range c.pieces {
		if p == negative || p == positive {
			free++
		}
	}
	return 3 + free*free/(6*c.n)
}

// freeCoordinates appends the coordinates A to dst. Coordinates without curvature are left out: no
// sweep moves them on a piece.
func (c *descent) freeCoordinates(dst []int) []int {
	for i, p := range c.pieces {
		if (p == negative || p == positive) && c.q[i*c.n+i]+c.l2[i] > 0 {
			dst = append(dst, i)
		}
	}
	return dst
}

// newton moves x by steps that solve for the free coordinates A on the present piece of ψ,
//
//	δ = −(Q + L2)_AA⁻¹ (∇f + ψ′)_A,   x_A ← x_A + αδ
//
// with the largest α ≤ 1 that stays on the piece. Where the matrix is singular its diagonal is
// raised, and sweeps hardly move along its kernel: then, and after several steps in a row with α <
// 1, the next step follows at once. It reports whether there was a step, and whether the last had α
// = 1.
func (c *descent) newton() (ok, full bool) {
	for work := 0; work < newtonWork; {
		if !c.factored {
			c.waited, c.free = 0, c.freeCoordinates(c.free[:0])
			c.chol = resize(c.chol, len(c.free)*(len(c.free)+1)/2)
			c.factored = raised(c.chol, len(c.free), &c.singular, func(r int, row []float64) {
				i := c.free[r]
				for s := range row {
					row[s] = c.q[i*c.n+c.free[s]]
				}
				row[r] += c.l2[i]
			})
			if !c.factored {
				return ok, false
			}
		}
		delta := c.delta[:len(c.free)]
		for k, i := range c.free {
			delta[k] = -(c.g[i] + c.slope(i, c.x[i]))
		}
		cholSolve(c.chol, delta)
		if ok = true; c.walk(c.x, c.free, delta) {
			c.blocked = 0
			return true, true
		}
		c.factored = false
		if c.blocked++; !c.singular && c.blocked < patientSteps {
			return true, false
		}
		c.refresh()
		k := len(c.free)
		work += c.n*c.n + k*k*k/6
	}
	return true, false
}

// newtonWork bounds the multiply-adds of Newton steps in a row: a tenth of a second.
const newtonWork = 1e8

// patientSteps is the number of Newton steps in a row that may end at the end of a piece before the
// method stops sweeping between them.
const patientSteps = 3
