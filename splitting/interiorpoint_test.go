// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// gaussian returns an m×n matrix of normal numbers.
func gaussian(r *rand.Rand, m, n int) *mat.Dense {
	a := mat.NewDense(m, n, nil)
	a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, a)
	return a
}

// outer returns aa'/n plus shift times the identity.
func outer(a *mat.Dense, shift float64) *mat.SymDense {
	n, k := a.Dims()
	s := mat.NewSymDense(n, nil)
	s.SymOuterK(1/float64(k), a)
	for i := range n {
		s.SetSym(i, i, s.At(i, i)+shift)
	}
	return s
}

// fill returns n times v.
func fill(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// normals returns n normal numbers.
func normals(r *rand.Rand, n int) []float64 { return gaussian(r, 1, n).RawRowView(0) }

// around returns bounds l ≤ Ax ≤ u of a random x, some of which are equal.
func around(r *rand.Rand, a *mat.Dense) (l, u []float64) {
	m, n := a.Dims()
	ax := mat.NewVecDense(m, nil)
	ax.MulVec(a, mat.NewVecDense(n, normals(r, n)))
	for i := range m {
		v := ax.AtVec(i)
		l, u = append(l, v-r.Float64()), append(u, v+r.Float64())
		if i%7 == 0 {
			l[i], u[i] = v, v
		}
	}
	return l, u
}

// spectrum returns a random matrix with eigenvalues between 1/cond and 1.
func spectrum(r *rand.Rand, n int, cond float64) *mat.SymDense {
	var qr mat.QR
	qr.Factorize(gaussian(r, n, n))
	var q mat.Dense
	qr.QTo(&q)
	for j := range n {
		for i := range n {
			q.Set(i, j, q.At(i, j)*math.Pow(cond, -0.5*float64(j)/float64(max(n-1, 1))))
		}
	}
	s := mat.NewSymDense(n, nil)
	s.SymOuterK(1, &q)
	return s
}

type namedProblem struct {
	name string
	d    int
	p    splitting.Problem
}

// usualPrograms are the quadratic programs that users of solvers meet.
func usualPrograms(t testing.TB) []namedProblem {
	r := rand.New(rand.NewPCG(7, 7))
	var all []namedProblem
	add := func(name string, d int, p splitting.Problem, err error) {
		require.NoError(t, err, name)
		all = append(all, namedProblem{name, d, p})
	}
	matrix := func(a mat.Matrix) splitting.Linear {
		k, err := splitting.NewMatrix(a)
		require.NoError(t, err)
		return k
	}
	random := func(name string, n, m int, p mat.Symmetric, unit, cost float64) {
		a := gaussian(r, m, n)
		q := normals(r, n)
		l, u := around(r, a)
		if p == nil { // bounded
			ax := mat.NewVecDense(n, nil)
			ax.MulVec(a.T(), mat.NewVecDense(m, normals(r, m)))
			q = ax.RawVector().Data
		}
		for i := range l {
			l[i] *= unit
			u[i] *= unit
		}
		for i := range q {
			q[i] *= unit * cost
		}
		if cost != 1 {
			s := mat.NewSymDense(n, nil)
			s.ScaleSym(cost, p)
			p = s
		}
		qp, err := splitting.NewQP(p, q, a, l, u, nil, nil)
		add(name, n, qp, err)
	}
	random("kappa 1e2", 100, 200, spectrum(r, 100, 1e2), 1, 1)
	random("kappa 1e4", 200, 300, spectrum(r, 200, 1e4), 1, 1)
	random("rank 50", 100, 300, outer(gaussian(r, 100, 50), 0), 1, 1)
	random("lp", 200, 400, nil, 1, 1)
	random("unit 1e-9", 60, 80, spectrum(r, 60, 1e2), 1e-9, 1)
	random("unit 1e9", 60, 80, spectrum(r, 60, 1e2), 1e9, 1e-9)
	random("unit 1e-12", 60, 80, spectrum(r, 60, 1e2), 1e-12, 1e12)
	random("unit 1e12", 60, 80, spectrum(r, 60, 1e2), 1e12, 1e-12)
	if testkit.Long() {
		random("kappa 1e2, large", 500, 500, spectrum(r, 500, 1e2), 1, 1)
	}
	// Rows and columns in units that differ.
	a := gaussian(r, 80, 60)
	p := spectrum(r, 60, 1e2)
	l, u := around(r, a)
	q := normals(r, 60)
	for j := range 60 {
		s := math.Pow(10, 6*r.Float64()-3)
		for i := range 80 {
			a.Set(i, j, a.At(i, j)*s)
		}
		q[j] *= s
		for i := range 60 {
			v := p.At(i, j) * s
			if i == j {
				v *= s
			}
			p.SetSym(i, j, v)
		}
	}
	for i := range 80 {
		s := math.Pow(10, 8*r.Float64()-4)
		for j := range 60 {
			a.Set(i, j, a.At(i, j)*s)
		}
		l[i] *= s
		u[i] *= s
	}
	qp, err := splitting.NewQP(p, q, a, l, u, nil, nil)
	add("scaled", 60, qp, err)

	a = gaussian(r, 200, 200)
	f, err := splitting.NewLeastSquares(a, normals(r, 200))
	add("lasso", 200, splitting.Problem{F: f, G: prox.L1{Weight: 10}}, err)

	// Support vector machine: dual, and primal with prices.
	rows := gaussian(r, 300, 10)
	signs := make([]float64, 300)
	for i := range signs {
		signs[i] = 1
		if rows.At(i, 0)+r.NormFloat64() < 0 {
			signs[i] = -1
		}
		for j := range 10 {
			rows.Set(i, j, rows.At(i, j)*signs[i])
		}
	}
	gram := mat.NewSymDense(300, nil)
	gram.SymOuterK(1, rows)
	qp, err = splitting.NewQP(gram, fill(300, -1), mat.NewDense(1, 300, signs), []float64{0}, []float64{0}, fill(300, 0),
		fill(300, 1))
	add("svm dual", 300, qp, err)
	hinge := mat.NewDense(100, 11, nil)
	hinge.Slice(0, 100, 0, 10).(*mat.Dense).Copy(rows)
	for i := range 100 {
		hinge.Set(i, 10, signs[i])
	}
	ridge, err := splitting.NewQuadratic(mat.NewDiagDense(11, append(fill(10, 1), 0)), nil, 0)
	add("svm primal", 11, splitting.Problem{F: ridge, H: prox.Hinge{Weight: 1}, K: matrix(hinge)}, err)

	// Portfolio of 200 assets with 20 factors.
	factors := gaussian(r, 200, 20)
	k := mat.NewDense(21, 220, nil)
	for i := range 20 {
		for j := range 200 {
			k.Set(i, j, factors.At(j, i))
		}
		k.Set(i, 200+i, -1)
	}
	for j := range 200 {
		k.Set(20, j, 1)
	}
	diag := fill(220, 1)
	returns := make([]float64, 220)
	free := fill(220, math.Inf(-1))
	for j := range 200 {
		diag[j], returns[j], free[j] = r.Float64()*4, -r.NormFloat64(), 0
	}
	b := make([]float64, 21)
	b[20] = 1
	qp, err = splitting.NewQP(mat.NewDiagDense(220, diag), returns, k, b, b, free, nil)
	add("portfolio", 220, qp, err)

	// Regressions with prices.
	add("lad", 10, splitting.Problem{H: prox.Translate(prox.L1{Weight: 1}, normals(r, 60)),
		K: matrix(gaussian(r, 60, 10))}, nil)
	add("quantile", 20, splitting.Problem{H: prox.Translate(prox.Pinball{Tau: 0.9}, normals(r, 500)),
		K: matrix(gaussian(r, 500, 20))}, nil)

	// Chains.
	var edges [][2]int
	for i := range 99 {
		edges = append(edges, [2]int{i, i + 1})
	}
	chain, err := splitting.NewDifferences(edges, 100)
	add("isotonic", 100, splitting.Problem{F: distanceTo(t, normals(r, 100)), H: prox.NonNegative{}, K: chain}, err)
	add("variation", 100, splitting.Problem{F: distanceTo(t, normals(r, 100)), H: prox.L1{Weight: 1}, K: chain}, err)

	// Degenerate: doubled rows, no interior, an assignment.
	a = gaussian(r, 15, 30)
	var twice mat.Dense
	twice.Stack(a, a)
	l, u = around(r, a)
	qp, err = splitting.NewQP(spectrum(r, 30, 10), normals(r, 30), &twice, append(l, l...), append(u, u...), nil, nil)
	add("doubled rows", 30, qp, err)
	a = gaussian(r, 5, 20)
	twice.Reset()
	twice.Stack(a, a)
	l, _ = around(r, a)
	inf := math.Inf(1)
	qp, err = splitting.NewQP(spectrum(r, 20, 10), normals(r, 20), &twice, append(append([]float64(nil), l...),
		fill(5, -inf)...), append(fill(5, inf), l...), nil, nil)
	add("no interior", 20, qp, err)
	a = mat.NewDense(16, 64, nil)
	for i := range 8 {
		for j := range 8 {
			a.Set(i, 8*i+j, 1)
			a.Set(8+j, 8*i+j, 1)
		}
	}
	qp, err = splitting.NewQP(nil, normals(r, 64), a, fill(16, 1), fill(16, 1), fill(64, 0), nil)
	add("assignment", 64, qp, err)
	return all
}

// distanceTo returns ½‖x − y‖².
func distanceTo(t testing.TB, y []float64) splitting.Smooth {
	f, err := splitting.NewQuadratic(mat.NewDiagDense(len(y), fill(len(y), 1)), y, 0)
	require.NoError(t, err)
	return f
}

// BenchmarkInteriorPoint solves the usual programs.
func BenchmarkInteriorPoint(b *testing.B) {
	for _, p := range usualPrograms(b) {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := splitting.Solve(background, p.p, make([]float64, p.d), nil, &splitting.InteriorPoint{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// raw is a quadratic program in plain numbers, for checks that share no code with the solver.
type raw struct {
	p, a                         *mat.Dense
	q, l, u, over, under, lo, hi []float64
}

// quadraticOf returns the problem as the golden file would hold it.
func (r raw) golden() quadraticProgram {
	list := func(v []float64) []number {
		out := make([]number, len(v))
		for i, x := range v {
			out[i] = number(x)
		}
		return out
	}
	g := quadraticProgram{Q: list(r.q), L: list(r.l), U: list(r.u), Lo: list(r.lo), Hi: list(r.hi),
		Over: list(r.over), Under: list(r.under)}
	for i := range r.q {
		g.P = append(g.P, list(r.p.RawRowView(i)))
	}
	for i := range r.l {
		g.A = append(g.A, list(r.a.RawRowView(i)))
	}
	return g
}

// randomQP draws a problem of small whole numbers, often degenerate, infeasible or unbounded.
func randomQP(r *rand.Rand) raw {
	inf := math.Inf(1)
	d, m := 1+r.IntN(6), 1+r.IntN(8)
	rank := r.IntN(d + 1)
	root := mat.NewDense(d, max(rank, 1), nil)
	whole := func(_, _ int, _ float64) float64 { return float64(r.IntN(5) - 2) }
	if rank > 0 {
		root.Apply(whole, root)
	}
	out := raw{p: mat.NewDense(d, d, nil), a: mat.NewDense(m, d, nil)}
	out.p.Mul(root, root.T())
	out.a.Apply(whole, out.a)
	some := func() float64 { return float64(r.IntN(9) - 4) }
	for j := 0; j < d; j++ {
		out.q = append(out.q, some())
		lo, hi := -inf, inf
		if r.IntN(3) == 0 {
			lo = some()
		}
		if r.IntN(3) == 0 {
			hi = math.Max(lo, math.Max(-4, lo)+float64(r.IntN(4)))
		}
		out.lo, out.hi = append(out.lo, lo), append(out.hi, hi)
	}
	for i := 0; i < m; i++ {
		l, u := -inf, inf
		over, under := inf, inf
		switch r.IntN(6) {
		case 0:
			l = some()
			u = l
		case 1:
			l = some()
			u = l + float64(r.IntN(3))
		case 2:
			u = some()
		case 3:
			l = some()
		default: // a price
			l = some()
			u = l
			over, under = float64(r.IntN(3)), float64(1+r.IntN(3))
		}
		out.l, out.u = append(out.l, l), append(out.u, u)
		out.over, out.under = append(out.over, over), append(out.under, under)
	}
	return out
}

// product returns a·v, transposed where t is true.
func product(a *mat.Dense, v []float64, t bool) []float64 {
	rows, cols := a.Dims()
	n := rows
	if t {
		n = cols
	}
	out := make([]float64, n)
	for i := 0; i < rows; i++ {
		for j := 0; j < cols; j++ {
			if t {
				out[j] += a.At(i, j) * v[i]
			} else {
				out[i] += a.At(i, j) * v[j]
			}
		}
	}
	return out
}

// optimal returns the largest violation of the optimality conditions, complementarity as the
// smaller of slack and multiplier.
func (r raw) optimal(x, y, z []float64) float64 {
	var worst float64
	see := func(v float64) { worst = math.Max(worst, v) }
	interval := func(t, l, u, over, under, y float64) {
		if !math.IsInf(over, 1) || !math.IsInf(under, 1) {
			see(y - over)
			see(-under - y)
			see(math.Min(t-u, over-y))
			see(math.Min(l-t, under+y))
		} else {
			see(t - u)
			see(l - t)
		}
		see(math.Min(math.Max(u-t, 0), y))
		see(math.Min(math.Max(t-l, 0), -y))
	}
	for i, t := range product(r.a, x, false) {
		interval(t, r.l[i], r.u[i], r.over[i], r.under[i], y[i])
	}
	for j, t := range x {
		interval(t, r.lo[j], r.hi[j], math.Inf(1), math.Inf(1), z[j])
	}
	px, ay := product(r.p, x, false), product(r.a, y, true)
	for j := range x {
		see(math.Abs(px[j] + r.q[j] + ay[j] + z[j]))
	}
	return worst
}

// infeasible returns how far (y, z) is from a proof that no point is feasible: Aᵀy + z over the
// support function, which must be negative; soft rows must have y = 0.
func (r raw) infeasible(y, z []float64) float64 {
	value := 0.0
	support := func(l, u, y float64) {
		if y > 0 {
			value += u * y
		} else if y < 0 {
			value += l * y
		}
	}
	for i, v := range y {
		if !math.IsInf(r.over[i], 1) && v != 0 {
			return math.Inf(1)
		}
		support(r.l[i], r.u[i], v)
	}
	for j, v := range z {
		support(r.lo[j], r.hi[j], v)
	}
	ay := product(r.a, y, true)
	floats.Add(ay, z)
	if !(value < 0) {
		return math.Inf(1)
	}
	return floats.Norm(ay, math.Inf(1)) / -value
}

// unbounded returns how far d is from a direction without end along which the objective falls.
func (r raw) unbounded(d []float64) float64 {
	worst := floats.Norm(product(r.p, d, false), math.Inf(1))
	slope := floats.Dot(r.q, d)
	along := func(t, l, u, over, under float64) {
		if !math.IsInf(over, 1) {
			slope += over*math.Max(t, 0) + under*math.Max(-t, 0)
			return
		}
		if !math.IsInf(u, 1) {
			worst = math.Max(worst, t)
		}
		if !math.IsInf(l, -1) {
			worst = math.Max(worst, -t)
		}
	}
	for i, t := range product(r.a, d, false) {
		along(t, r.l[i], r.u[i], r.over[i], r.under[i])
	}
	for j, t := range d {
		along(t, r.lo[j], r.hi[j], math.Inf(1), math.Inf(1))
	}
	if !(slope < 0) {
		return math.Inf(1)
	}
	return worst / -slope
}

// TestRandomPrograms solves random problems of small whole numbers, in three units of x, and checks
// every answer and every certificate independently.
func TestRandomPrograms(t *testing.T) {
	n := testkit.Of(1000, 4000, 20000)
	r := rand.New(rand.NewPCG(3, 9))
	count := map[splitting.Status]int{}
	far := 0
	for i := range n {
		q := randomQP(r)
		unit := []float64{1, 1e-12, 1e12}[i%3]
		res, err := splitting.Solve(background, q.golden().in(unit).problem(t), make([]float64, len(q.q)), nil,
			&splitting.InteriorPoint{})
		count[res.Status]++
		switch res.Status {
		case splitting.Converged:
			floats.Scale(1/unit, res.X)
			if e := q.optimal(res.X, res.Dual.H, res.Dual.G); e > 1e-6 {
				require.Less(t, e, 1e-4, "problem %d", i)
				far++
			}
			require.NoError(t, err)
		case splitting.Infeasible:
			require.Less(t, q.infeasible(res.Dual.H, res.Dual.G), 1e-6, "problem %d", i)
			require.ErrorIs(t, err, splitting.ErrInfeasible)
		case splitting.Unbounded:
			require.Less(t, q.unbounded(res.X), 1e-6, "problem %d", i)
			require.ErrorIs(t, err, splitting.ErrUnbounded)
		}
	}
	decided := count[splitting.Converged] + count[splitting.Infeasible] + count[splitting.Unbounded]
	require.Equal(t, n, decided)
	require.LessOrEqual(t, far, n/5000)
	require.Greater(t, min(count[splitting.Infeasible], count[splitting.Unbounded]), n/20)
}

// TestHardPrograms solves random programs on which steps with a corrector go round in a circle, and
// programs whose matrix has no Cholesky factor near the end.
func TestHardPrograms(t *testing.T) {
	for seed, index := range map[uint64]int{9: 1452, 10: 5345, 11: 89} {
		r := rand.New(rand.NewPCG(3, seed))
		var q raw
		for range index + 1 {
			q = randomQP(r)
		}
		res, err := splitting.Solve(background, q.golden().problem(t), make([]float64, len(q.q)), nil,
			&splitting.InteriorPoint{})
		require.NoError(t, err)
		require.Equal(t, splitting.Converged, res.Status, "seed %d", seed)
		require.Less(t, q.optimal(res.X, res.Dual.H, res.Dual.G), 1e-6, "seed %d", seed)
	}
}

// TestLinearProgramsAgree compares random linear programs with gonum's simplex method.
func TestLinearProgramsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	count := map[splitting.Status]int{}
	for i := range 300 {
		m := 1 + r.IntN(4)
		n := m + 1 + r.IntN(5)
		a, b, c := mat.NewDense(m, n, nil), make([]float64, m), make([]float64, n)
		a.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, a)
		for j := range c {
			c[j] = r.NormFloat64() + 0.7
		}
		for j := range b {
			b[j] = r.NormFloat64()
		}
		want, _, lpErr := lp.Simplex(c, a, b, 1e-12, nil)
		p, err := splitting.NewQP(nil, c, a, b, b, make([]float64, n), nil)
		require.NoError(t, err)
		res, err := splitting.Minimize(background, p, make([]float64, n), nil)
		count[res.Status]++
		switch {
		case errors.Is(lpErr, lp.ErrInfeasible):
			require.ErrorIs(t, err, splitting.ErrInfeasible, "problem %d", i)
		case errors.Is(lpErr, lp.ErrUnbounded):
			require.ErrorIs(t, err, splitting.ErrUnbounded, "problem %d", i)
		default:
			require.NoError(t, lpErr)
			require.NoError(t, err)
			require.InDelta(t, want, res.Value, 1e-9*(1+math.Abs(want)), "problem %d", i)
		}
	}
	require.Len(t, count, 3)
}
