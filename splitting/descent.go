package splitting

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// descent minimizes ½x'Qx − ⟨lin,x⟩ + ψ(x) by cyclic coordinate descent, and
// by Newton's method on the piece of ψ once the sweeps stay on it.
type descent struct {
	penalty
	n    int
	q    []float64 // Q, full and row-major
	lin  []float64
	size float64   // ‖lin‖
	g    []float64 // Qx − lin, kept current by the sweeps
	progress

	fresh     bool    // g was computed from scratch at x
	certified float64 // residual when g was last fresh
	stale     int     // sweeps since then
	bestAge   int     // steps since the best point was found
	polished  int     // Newton steps with the full length since then, on this piece

	chol     []float64 // Cholesky factor of Q_AA, packed lower rows
	active   []int     // A
	step     []float64
	factored bool // chol belongs to the present piece
	singular bool // a factorization broke down: the diagonal is raised since
	blocked  int  // Newton steps since one was full
	waited   int  // sweeps since the last factorization
	settled  int  // sweeps that stayed on the same piece
}

// init allocates for n coordinates, reads ψ and leaves q, lin and x to the
// caller.
func (c *descent) init(op coordinatewise, n int) error {
	if err := c.penalty.init(op, n); err != nil {
		return err
	}
	c.n = n
	c.q, c.chol = resize(c.q, n*n), resize(c.chol, n*(n+1)/2)
	c.lin, c.g, c.step, c.active = resize(c.lin, n), resize(c.g, n), resize(c.step, n), resize(c.active, n)
	c.progress.init(n)
	return nil
}

// load fills q with both triangles of the symmetric s, whose upper one is
// stored.
func (c *descent) load(s *mat.SymDense) {
	n, raw := c.n, s.RawSymmetric()
	for i := range n {
		copy(c.q[i*n+i:(i+1)*n], raw.Data[i*raw.Stride+i:i*raw.Stride+n]) // what lies below the diagonal is unspecified
	}
	mirror(c.q, n)
}

// mirror copies the upper triangle of the n×n q to the lower one.
func mirror(q []float64, n int) {
	const block = 16 // 2 KiB a tile: reads by row, writes by column, both in cache
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

// gap returns the duality gap at x, +Inf where a conjugate of the penalty is.
func (c *descent) gap() float64 {
	if !c.fresh {
		return math.Inf(1)
	}
	for i, g := range c.g {
		c.step[i] = -g
	}
	return c.fenchel(c.x, c.step[:c.n])
}

// start clips x into the box and discards the residual and the gradient of earlier points.
func (c *descent) start() {
	c.clip(c.x)
	c.reset()
	c.factored, c.singular = false, false
	c.waited, c.settled, c.stale, c.polished, c.bestAge, c.blocked = 0, 0, 0, 0, 0, 0
	c.size = norm(c.lin)
	c.refresh()
	c.certified = c.residual
}

// advance does one sweep, and a Newton step where one pays.
func (c *descent) advance() {
	moved := c.sweep()
	c.fresh = false
	same := c.measure()
	c.stale++
	c.waited++
	if same {
		c.settled++
	} else {
		c.settled, c.polished, c.factored = 0, 0, false
	}
	newton, full := false, false
	if c.settled >= 1 && !math.IsInf(c.residual, 1) && (c.factored || c.waited >= c.patience()) {
		newton, full = c.newton()
	}
	// The gradient is computed from scratch when it has served eight sweeps,
	// when the residual has fallen to a quarter, and whenever rounding could
	// matter: in between it drifts by less than 8d roundings.
	near := c.residual <= 1e-9*c.scale()
	if newton || near || !moved || c.stale >= 8 || c.residual <= 0.25*c.certified {
		c.refresh()
		c.judge(moved, full)
	}
}

// sweep minimizes J along each coordinate in turn [W15, (11)]. It reports
// whether x changed.
func (c *descent) sweep() bool {
	n, x, g := c.n, c.x, c.g
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

// measure computes the residual from g; it reports whether x stayed on its
// piece.
func (c *descent) measure() (same bool) {
	c.residual, same = c.dist(c.x, c.g, c.pieces)
	return same
}

// refresh computes g and the residual from scratch.
func (c *descent) refresh() {
	gradient(c.g, c.q, c.lin, c.x)
	c.measure()
	c.fresh, c.stale, c.certified = true, 0, c.residual
}

// judge keeps the best point, and decides that rounding allows no progress: if
// a sweep from a fresh gradient moves nothing, or two full Newton steps on the
// present piece, or fifty sweeps where the piece is singular, have not halved
// a residual that is small beside the terms it is a difference of.
func (c *descent) judge(moved, full bool) {
	c.bestAge++
	if full {
		c.polished++
	}
	if c.residual < c.bestRes {
		if c.residual < 0.5*c.bestRes {
			c.polished, c.bestAge = 0, 0
		}
		c.keep()
	}
	near := c.bestRes <= 1e-9*c.scale()
	switch {
	case c.residual == 0, !moved, near && c.polished >= 2, near && c.bestAge >= 50:
		c.end()
		gradient(c.g, c.q, c.lin, c.x) // the gap is of this point
	}
}

// scale returns the size of the terms whose difference is the residual.
func (c *descent) scale() float64 {
	return c.size + norm(c.g)
}

// patience returns how many sweeps must pass before a factorization: their
// cost, so that Newton's steps at most double the work.
//
//	Cholesky |A|³/6 multiply-adds, a sweep n|A|
func (c *descent) patience() int {
	free := 0
	for _, p := range c.pieces {
		if p == negative || p == positive {
			free++
		}
	}
	return 3 + free*free/(6*c.n)
}

// newton solves for the free coordinates A on the present piece,
//
//	δ = −(Q_AA + L2_AA)⁻¹ (g + ψ′)_A,   x_A ← x_A + αδ,
//
// with the largest α ≤ 1 that stays on it. It reports whether it could, and
// whether α = 1.
//
// Where the matrix H is singular it is H + τ·diag(H), and the step that of the proximal point
// method: an error along an eigenvector of the scaled H shrinks by τ/(λ+τ), and where J falls along
// the kernel, δ is long and ends the piece. Sweeps hardly move there, or to and fro between pieces;
// so then, and where steps keep ending at the end of a piece, the next one is done at once on the
// piece that begins, which has a coordinate less.
func (c *descent) newton() (ok, full bool) {
	for work := 0; work < newtonWork; {
		if !c.factored {
			if c.waited = 0; !c.factor() {
				return ok, false
			}
			c.factored = true
		}
		step := c.step[:len(c.active)]
		for k, i := range c.active {
			step[k] = -(c.g[i] + c.slope(i, c.x[i]))
		}
		cholSolve(c.chol, step)
		if ok = true; c.walk(c.x, c.active, step) {
			c.blocked = 0
			return true, true
		}
		c.factored = false
		if c.blocked++; !c.singular && c.blocked < patientSteps {
			return true, false
		}
		c.refresh()
		k := len(c.active)
		work += c.n*c.n + k*k*k/6
	}
	return true, false
}

// newtonWork bounds the multiply-adds of the Newton steps in a row, a tenth of
// a second.
const newtonWork = 1e8

// patientSteps is how many Newton steps in a row may end at the end of a piece
// before sweeps are no longer done between them.
const patientSteps = 3

// factor computes Q_AA + L2_AA = LL', with its diagonal raised if it is
// numerically singular. Coordinates without curvature are left out: no sweep
// moves them on a piece.
func (c *descent) factor() bool {
	c.active = c.active[:0]
	for i, p := range c.pieces {
		if (p == negative || p == positive) && c.q[i*c.n+i]+c.l2[i] > 0 {
			c.active = append(c.active, i)
		}
	}
	return raised(c.chol, len(c.active), &c.singular, func(r int, row []float64) {
		i := c.active[r]
		for s, j := range c.active[:r+1] {
			row[s] = c.q[i*c.n+j]
		}
		row[r] += c.l2[i]
	})
}

// raise is the τ by which diagonals of singular matrices are raised: far above
// the rounding error of Cholesky's method, n·2⁻⁵², and of the gradient, which
// moves the solution by some 2⁻⁵³/τ of it along the kernel, and far below all
// that is asked of a residual.
const raise = 0x1p-40

// raised computes the Cholesky factor of the n×n matrix whose packed lower rows
// are told by fill, its diagonal times 1 + τ if that is numerically singular,
// and at once if singular. It reports failure if that does not help.
func raised(a []float64, n int, singular *bool, fill func(r int, row []float64)) bool {
	try := func(tau float64) bool {
		for r := range n {
			row := a[r*(r+1)/2:][:r+1]
			fill(r, row)
			row[r] *= 1 + tau
		}
		return cholesky(a, n)
	}
	if !*singular && try(0) {
		return true
	}
	*singular = true
	tau := math.Max(raise, 8*float64(n)*0x1p-52)
	return try(tau) || try(1e3*tau)
}

// cholesky replaces the packed lower rows of a symmetric n×n matrix by its
// Cholesky factor. It reports failure where a pivot falls below its rounding
// error.
func cholesky(a []float64, n int) bool {
	for i := range n {
		ri := a[i*(i+1)/2:][:i+1]
		diag := ri[i]
		for j := range i {
			rj := a[j*(j+1)/2:][:j+1]
			ri[j] = (ri[j] - floats.Dot(ri[:j], rj[:j])) / rj[j]
		}
		pivot := diag - floats.Dot(ri[:i], ri[:i])
		if !(pivot > float64(n)*0x1p-52*diag) {
			return false
		}
		ri[i] = math.Sqrt(pivot)
	}
	return true
}

// cholSolve replaces b by (LL')⁻¹b.
func cholSolve(l, b []float64) {
	for i := range b {
		row := l[i*(i+1)/2:][:i+1]
		b[i] = (b[i] - floats.Dot(row[:i], b[:i])) / row[i]
	}
	for i := len(b) - 1; i >= 0; i-- {
		row := l[i*(i+1)/2:][:i+1]
		b[i] /= row[i]
		floats.AddScaled(b[:i], -b[i], row[:i])
	}
}

// resize returns a slice of length n, reusing s where it is large enough. Its
// content is unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return make([]T, n)
}
