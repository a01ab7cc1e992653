// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
)

// NewQP returns the quadratic program
//
//	min ½x'Px + ⟨q,x⟩   l ≤ Ax ≤ u,  lo ≤ x ≤ hi
//
// for [Minimize] or [InteriorPoint]: F = ½x'Px + ⟨q,x⟩, G and H are prox.Bounds, and K is A. A nil
// P, q or A means 0, a nil bound none; bounds may be infinite, and equal ones make an equation. The
// multipliers are Dual.H of the rows and Dual.G of the bounds on x, positive where the upper bound
// is active. The error wraps ErrProblem if P is not positive semidefinite, a number is NaN, P, q or
// A is not finite, an interval is empty, or the dimensions differ; q or lo or hi tells the number
// of variables if P and A are nil.
func NewQP(p mat.Symmetric, q []float64, a mat.Matrix, l, u, lo, hi []float64) (Problem, error) {
	d := max(len(q), len(lo), len(hi))
	if a != nil {
		_, d = a.Dims()
	}
	if p != nil {
		d = p.SymmetricDim()
	} else if d > 0 {
		p = mat.NewDiagDense(d, nil)
	}
	if d == 0 {
		return Problem{}, unfit("QP: no P, q, A, lo or hi, want at least one to tell the number of variables")
	}
	var lin []float64
	if q != nil {
		lin = make([]float64, len(q))
		floats.SubTo(lin, lin, q)
	}
	f, err := NewQuadratic(p, lin, 0)
	if err != nil {
		return Problem{}, fmt.Errorf("%w (of NewQP: Q is P, lin is −q)", err)
	}
	qp := Problem{F: f}
	if lo != nil || hi != nil {
		qp.G = prox.Bounds{Lo: slices.Clone(lo), Hi: slices.Clone(hi)}
	}
	if a != nil {
		if qp.K, err = NewMatrix(a); err != nil {
			return Problem{}, err
		}
		qp.H = prox.Bounds{Lo: slices.Clone(l), Hi: slices.Clone(u)}
	} else if l != nil || u != nil {
		return Problem{}, unfit("QP: bounds on Ax without A, want A, or nil for l and u")
	}
	if err := qp.check(make([]float64, d)); err != nil {
		return qp, fmt.Errorf("%w (of NewQP: G holds lo and hi, H holds l and u)", err)
	}
	return qp, nil
}

// side is one inequality of a program: sign times its row is at most bound, and beyond it the
// objective rises by price times the excess, +Inf for a bound that must hold.
type side struct {
	row                int
	sign, bound, price float64
}

// hard reports whether the bound must hold.
func (s side) hard() bool { return math.IsInf(s.price, 1) }

// program is a convex program whose nonlinear part is piecewise linear,
//
//	min ½x'Px + ⟨q,x⟩ + Σ price·max(±⟨a,x⟩ − bound, 0)
//
// with rows a of A, which are followed by the rows of the identity.
type program struct {
	n     int
	p     blas64.General // both triangles
	q     []float64
	a     blas64.General
	ata   gramian
	sides []side
	eqs   []side // ⟨a,x⟩ = bound; sign is 1

	pMax float64 // the largest entry of P
	// x = unit·d·x̂ and multiplier y = r·ŷ/(cost·unit) lead back from the scaled program.
	d, r       []float64
	unit, cost float64
}

// newProgram returns p as a program, not scaled, with the terms of G, or of G + H where K is nil,
// and of H.
func newProgram(p Problem, n int) (*program, [2][]prox.Piece, error) {
	var terms [2][]prox.Piece
	if psi, ok := p.sum(); ok {
		p.G, p.H = psi, nil
	} else if p.K == nil && p.H != nil {
		return nil, terms, unfit("InteriorPoint: the sum of G = %T and H = %T is not known, want a K, or one of them",
			p.G, p.H)
	}
	k := p.linear(n)
	rows, _ := k.Dims()
	for i, op := range []prox.Operator{p.G, p.H} {
		var ok bool
		if terms[i], ok = prox.Pieces(op, []int{n, rows}[i]); !ok {
			return nil, terms, unfit("InteriorPoint: %c is %T, want a sum over coordinates of linear, quadratic and "+
				"absolute terms, bounds, prox.Pinball or prox.Hinge, as prox.Pieces knows them", "GH"[i], op)
		}
	}
	g := &program{n: n, q: make([]float64, n), p: square(n)}
	if p.F != nil {
		q, lin, ok := quadratic(p.F, n)
		if !ok {
			return nil, terms, unfit("InteriorPoint: F is %T, want nil or a quadratic", p.F)
		}
		floats.SubTo(g.q, g.q, lin)
		mat.NewDense(n, n, g.p.Data).Copy(q)
	}
	if p.H != nil {
		g.a = entries(k)
	}
	g.add(terms[0], g.a.Rows)
	g.add(terms[1][:g.a.Rows], 0)
	return g, terms, nil
}

// square returns an n×n matrix of zeros.
func square(n int) blas64.General {
	return blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)}
}

// entries returns the matrix of k.
func entries(k Linear) blas64.General {
	m, n := k.Dims()
	a := blas64.General{Rows: m, Cols: n, Stride: n, Data: make([]float64, m*n)}
	if k, ok := k.(*dense); ok {
		copy(a.Data, k.a.Data)
		return a
	}
	x, col := make([]float64, n), make([]float64, m)
	for j := range x {
		x[j] = 1
		k.MulVec(col, x)
		x[j] = 0
		for i, v := range col {
			a.Data[i*n+j] = v
		}
	}
	return a
}

// add adds terms of the rows from first on.
func (g *program) add(terms []prox.Piece, first int) {
	slopes, squares := make([]float64, g.a.Rows+g.n), make([]float64, g.a.Rows+g.n)
	for i, t := range terms {
		row := first + i
		squares[row] = t.Square
		switch { // of the kink
		case t.Kink <= t.Lo:
			t.Slope += t.Price
		case t.Price > 0 && t.Kink < t.Hi:
			g.sides = append(g.sides, side{row, 1, t.Kink, t.Price})
		}
		slopes[row] = t.Slope
		if t.Lo == t.Hi {
			g.eqs = append(g.eqs, side{row, 1, t.Lo, 0})
			continue
		}
		if !math.IsInf(t.Hi, 1) {
			g.sides = append(g.sides, side{row, 1, t.Hi, math.Inf(1)})
		}
		if !math.IsInf(t.Lo, -1) {
			g.sides = append(g.sides, side{row, -1, -t.Lo, math.Inf(1)})
		}
	}
	lin := make([]float64, g.n)
	g.mulTrans(lin, slopes)
	floats.Add(g.q, lin)
	if floats.Norm(squares, 1) > 0 {
		g.gram(g.p, squares)
		for i := range g.n {
			for j := range i {
				g.p.Data[j*g.n+i] = g.p.Data[i*g.n+j]
			}
		}
	}
}

// gram adds the lower triangle of A'diag(w)A to dst.
func (g *program) gram(dst blas64.General, w []float64) {
	if g.a.Rows > 0 {
		g.ata.compute(w[:g.a.Rows], g.a)
		for i := range g.n {
			for k, v := range g.ata.row(i) {
				dst.Data[(i+k)*g.n+i] += v
			}
		}
	}
	for j, v := range w[g.a.Rows:] {
		dst.Data[j*g.n+j] += v
	}
}

// mul stores the products of all rows with x in dst.
func (g *program) mul(dst, x []float64) {
	if g.a.Rows > 0 {
		gemv(blas.NoTrans, g.a, x, dst[:g.a.Rows])
	}
	copy(dst[g.a.Rows:], x)
}

// mulTrans stores the sum of the rows times w in dst.
func (g *program) mulTrans(dst, w []float64) {
	clear(dst)
	if g.a.Rows > 0 {
		gemv(blas.Trans, g.a, w[:g.a.Rows], dst)
	}
	floats.Add(dst, w[g.a.Rows:])
}

// gemv stores op(a)x in dst.
func gemv(t blas.Transpose, a blas64.General, x, dst []float64) {
	blas64.Gemv(t, 1, a, blas64.Vector{N: len(x), Data: x, Inc: 1}, 0, blas64.Vector{N: len(dst), Data: dst, Inc: 1})
}

// multiplier stores the multipliers of all rows in dst: Σ sign·z of their sides, and y.
func (g *program) multiplier(dst, z, y []float64) {
	clear(dst)
	for k, s := range g.sides {
		dst[s.row] += s.sign * z[k]
	}
	for k, e := range g.eqs {
		dst[e.row] += y[k]
	}
}

// ruizRounds is how often rows and columns are scaled at most.
const ruizRounds = 10

// equilibrate scales rows and columns of P and A to entries of about 1 [Rui01], then x to the size
// of the largest bound, or of ‖q‖/‖P‖ without one, and the objective to 1. All factors are powers
// of two, which round nothing.
func (g *program) equilibrate() {
	n, m := g.n, g.a.Rows
	g.d, g.r = ones(n), ones(m+n)
	// The objective first, because its unit decides how P weighs against A.
	first := power(floats.Norm(g.a.Data, math.Inf(1))) / power(floats.Norm(g.p.Data, math.Inf(1)))
	floats.Scale(first, g.p.Data)
	floats.Scale(first, g.q)
	for range ruizRounds {
		col, row := make([]float64, n), make([]float64, m)
		for j := range n {
			col[j] = floats.Norm(g.p.Data[j*n:][:n], math.Inf(1))
		}
		for i := range m {
			for j, v := range g.a.Data[i*n:][:n] {
				v = math.Abs(v)
				row[i], col[j] = max(row[i], v), max(col[j], v)
			}
		}
		done := true
		for _, v := range [][]float64{col, row} {
			for i := range v {
				v[i] = power(1 / math.Sqrt(v[i]))
				done = done && v[i] == 1
			}
		}
		if done {
			break
		}
		for i := range n {
			g.d[i] *= col[i]
			scaleBy(g.p.Data[i*n:][:n], col, col[i])
		}
		for i := range m {
			g.r[i] *= row[i]
			scaleBy(g.a.Data[i*n:][:n], col, row[i])
		}
	}
	for j := range n {
		g.r[m+j] = 1 / g.d[j]
		g.q[j] *= g.d[j]
	}
	var far, price float64
	for _, sides := range [][]side{g.sides, g.eqs} {
		for k, s := range sides {
			sides[k].bound *= g.r[s.row]
			sides[k].price *= first / g.r[s.row]
			far = max(far, math.Abs(sides[k].bound))
			if !s.hard() {
				price = max(price, sides[k].price)
			}
		}
	}
	top, q := floats.Norm(g.p.Data, math.Inf(1)), floats.Norm(g.q, math.Inf(1))
	if far == 0 && top > 0 {
		far = q / top
	}
	g.unit = power(far)
	if q *= g.unit; q == 0 && top == 0 {
		q = price * g.unit
	}
	g.cost = power(1 / max(q, top*g.unit*g.unit))
	floats.Scale(g.cost*g.unit*g.unit, g.p.Data)
	floats.Scale(g.cost*g.unit, g.q)
	for _, sides := range [][]side{g.sides, g.eqs} {
		for k := range sides {
			sides[k].bound /= g.unit
			sides[k].price *= g.cost * g.unit
		}
	}
	g.pMax = floats.Norm(g.p.Data, math.Inf(1))
	g.cost *= first
}

// power returns the power of two next to v, 1 for 0 and infinity.
func power(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 1) {
		return 1
	}
	_, e := math.Frexp(v * math.Sqrt2)
	return math.Ldexp(1, e-1)
}

// ones returns n ones.
func ones(n int) []float64 {
	v := make([]float64, n)
	floats.AddConst(1, v)
	return v
}

// scaleBy multiplies v by c, entry by entry, and by s.
func scaleBy(v, c []float64, s float64) {
	for i := range v {
		v[i] *= c[i] * s
	}
}

// unscaled returns x and the multipliers of the rows in the units of the problem.
func (g *program) unscaled(x, v []float64) (x1, v1 []float64) {
	x1, v1 = make([]float64, g.n), make([]float64, len(v))
	for j := range x1 {
		x1[j] = g.unit * g.d[j] * x[j]
	}
	for i := range v1 {
		v1[i] = g.r[i] / (g.cost * g.unit) * v[i]
	}
	return x1, v1
}
