// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
)

// These declarations check at compile time that types implement optional interfaces. If one were
// missing, a solve would take longer or prove less, without an error.
var (
	_ = []Statuser{&CoordinateDescent{}, &DavisYin{}, &ForwardBackward{}, &LBFGS{},
		&PrimalDual{}, &ProxNewton{}, &StochasticTOS{}}
	_              = []gapper{&CoordinateDescent{}, &DavisYin{}, &PrimalDual{}, &StochasticTOS{}}
	_              = []warm{&DavisYin{}, &PrimalDual{}}
	_              = []Convex{&LinearModel{}, &parabola{}}
	_              = []Hessianer{&parabola{}, &LinearModel{}}
	_ Quadratizer  = &parabola{}
	_ FuncGrader   = &LinearModel{}
	_ TermSmoother = &LinearModel{}
)

// toy is ½‖Ax−b‖² + (ridge/2)‖x‖² plus a linear term as a FiniteSum. The linear term determines the
// minimizer.
type toy struct {
	a           [][]float64
	b           []float64
	ridge       float64
	tilt        []float64
	lip, lipOne float64
}

var (
	_ FiniteSum    = (*toy)(nil)
	_ Convex       = (*toy)(nil)
	_ TermSmoother = (*toy)(nil)
)

func (f *toy) Len() int                { return len(f.a) }
func (f *toy) Smoothness() float64     { return f.lip }
func (f *toy) TermSmoothness() float64 { return f.lipOne }
func (f *toy) Convexity() float64      { return f.ridge }

func (f *toy) Func(x []float64) float64 {
	s := f.ridge/2*floats.Dot(x, x) + floats.Dot(f.tilt, x)
	for i, a := range f.a {
		r := floats.Dot(a, x) - f.b[i]
		s += r * r / 2
	}
	return s
}

func (f *toy) Grad(dst, x []float64) {
	all := make([]int, len(f.a))
	for i := range all {
		all[i] = i
	}
	f.GradTerms(dst, x, all)
}

func (f *toy) GradTerms(dst, x []float64, idx []int) {
	clear(dst)
	for _, i := range idx {
		floats.AddScaled(dst, floats.Dot(f.a[i], x)-f.b[i], f.a[i])
	}
	share := float64(len(idx)) / float64(len(f.a))
	floats.AddScaled(dst, share*f.ridge, x)
	floats.AddScaled(dst, share, f.tilt)
}

// newToy returns an f of n terms in d dimensions with ∇f(x) = −u. The lengths of its rows differ by
// a factor of ten, so that it is ill-conditioned.
func newToy(n, d int, ridge float64, x, u []float64) *toy {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	f := &toy{b: make([]float64, n), ridge: ridge, tilt: make([]float64, d)}
	q := mat.NewSymDense(d, nil)
	for i := range f.b {
		row := make([]float64, d)
		for j := range row {
			row[j] = r.NormFloat64() * math.Pow(10, -float64(j)/float64(d))
		}
		f.a, f.b[i] = append(f.a, row), r.NormFloat64()
		f.lipOne = math.Max(f.lipOne, floats.Dot(row, row)+ridge/float64(n))
		q.SymRankOne(q, 1, mat.NewVecDense(d, row))
	}
	var eig mat.EigenSym
	if !eig.Factorize(q, false) {
		panic("eigenvalues")
	}
	f.lip = (eig.Values(nil)[d-1] + ridge) * (1 + 1e-12)
	g := make([]float64, d)
	f.Grad(g, x)
	for j := range g {
		f.tilt[j] = -u[j] - g[j]
	}
	return f
}

// plantedPair returns an ℓ1 norm g, a box h, a minimizer x, u ∈ ∂g(x), and v in the normal cone
// N_h(x).
func plantedPair(d int) (g, h prox.Operator, x, u, v []float64) {
	x, u, v = make([]float64, d), make([]float64, d), make([]float64, d)
	for j := range x {
		switch j % 3 {
		case 0:
			x[j], u[j], v[j] = 1, 2, 0.7 // at hi
		case 1:
			u[j] = 0.8 // at the kink
		default:
			x[j], u[j] = -0.4, -2
		}
	}
	return prox.L1{Weight: 2}, prox.Box{Lo: -1, Hi: 1}, x, u, v
}

func plus(u, v []float64) []float64 {
	s := make([]float64, len(u))
	floats.AddTo(s, u, v)
	return s
}

// TestFISTABound checks [BT09, Thm. 4.4] until the first restart, with a fixed step and with the
// line search: J(x_k) − J* ≤ 2‖x₀−x*‖²/(γ(k+1)²).
func TestFISTABound(t *testing.T) {
	const d = 60
	g, h, x, u, v := plantedPair(d)
	f := newToy(80, d, 0, x, plus(u, v))
	f.ridge = 0
	p := Problem{F: f, G: g, H: h}
	best := p.Func(x)
	for _, r := range []StepRule{FixedStep, LineSearch} {
		m := &ForwardBackward{Rule: r}
		x0 := make([]float64, d)
		require.NoError(t, m.Init(p, x0, nil))
		loc, stats := &Location{X: make([]float64, d)}, &Stats{}
		dist := floats.Distance(x0, x, 2)
		k := 0
		for ; k < 400; k++ {
			before := m.t
			gamma := m.gamma
			m.Step(loc, stats)
			gamma = math.Min(gamma, m.gamma)
			require.LessOrEqual(t, p.Func(loc.X)-best, 2*dist*dist/(gamma*float64(k+2)*float64(k+2))+1e-12*math.Abs(best),
				"%v, k = %d", r, k+1)
			if m.t <= before && k > 0 {
				break // the theorem does not cover a restart
			}
			if k > 0 {
				require.InEpsilon(t, before*before, m.t*m.t-m.t, 1e-12)
			}
		}
		require.Greater(t, k, 10, r)
	}
}

// TestFISTAStronglyConvexBound checks [CP16a, Thm. 4.10] with a declared μ, until the first
// restart: J(x_k) − J* ≤ min{4/(k+1)², (1+√q)(1−√q)^k}·‖x₀−x*‖²/(2γ) with q = μγ. 1/t stays above
// √q and tends to it.
func TestFISTAStronglyConvexBound(t *testing.T) {
	const d = 60
	g, h, x, u, v := plantedPair(d)
	for _, ridge := range []float64{1e-2, 1, 30} {
		f := newToy(80, d, ridge, x, plus(u, v))
		p := Problem{F: f, G: g, H: h}
		best := p.Func(x)
		m := &ForwardBackward{}
		x0 := make([]float64, d)
		require.NoError(t, m.Init(p, x0, nil))
		loc, stats := &Location{X: make([]float64, d)}, &Stats{}
		dist := floats.Distance(x0, x, 2)
		root := math.Sqrt(ridge * m.gamma)
		k := 1
		for ; k < 400; k++ {
			before := m.t
			m.Step(loc, stats)
			rate := math.Min(4/float64((k+1)*(k+1)), (1+root)*math.Pow(1-root, float64(k)))
			// 1e-13 allows for the rounding of values.
			require.LessOrEqual(t, p.Func(loc.X)-best, rate*dist*dist/(2*m.gamma)+1e-13*math.Abs(best), "ridge %v, k = %d",
				ridge, k)
			require.LessOrEqual(t, m.t*root, 1+1e-12)
			if m.t < before {
				break // the theorem does not cover a restart
			}
		}
		require.Greater(t, k, 10, ridge)
	}
	next, beta := 1.0, 0.0
	for range 1000 {
		next, beta = momentum(next, 0.01)
	}
	require.InDelta(t, 10, next, 1e-12)
	require.InDelta(t, 0.9/1.1, beta, 1e-12)
	for _, c := range [][3]float64{{1, 0, 0}, {1, 1, 0}, {5, 2, 0}, {20, 0.01, 0.9 / 1.1}, {1, math.Inf(1), 0}} {
		_, beta := momentum(c[0], c[1])
		require.InDelta(t, c[2], beta, 1e-12, c)
	}
}

// TestStagnationKeepsItsScale checks that the test for stagnation does not mistake the smallest
// residual for rounding when the iterates grow without bound.
func TestStagnationKeepsItsScale(t *testing.T) {
	s := &stagnation{}
	s.init(1, 1)
	loc := &Location{X: []float64{1}, Residual: 1}
	for range 3 * stagnationAge {
		s.norm([]float64{loc.X[0]})
		s.watch(loc)
		loc.X[0] *= 1.1
		loc.Residual = loc.X[0]
		status, err := s.Status()
		require.NoError(t, err)
		require.Equal(t, NotTerminated, status)
	}
}

// TestPlainContracts checks that plain steps of 1/L_f contract: ‖x⁺−x*‖² ≤ (1 − μ/L_f)‖x−x*‖².
func TestPlainContracts(t *testing.T) {
	const d = 9
	g, h, x, u, v := plantedPair(d)
	f := newToy(20, d, 0.5, x, plus(u, v))
	m := &ForwardBackward{Plain: true}
	x0 := make([]float64, d)
	floats.AddConst(0.5, x0)
	require.NoError(t, m.Init(Problem{F: f, G: g, H: h}, x0, nil))
	loc, stats := &Location{X: make([]float64, d)}, &Stats{}
	rate := math.Sqrt(1 - f.ridge/f.lip)
	before := floats.Distance(x0, x, 2)
	for range 2000 {
		m.Step(loc, stats)
		after := floats.Distance(m.x, x, 2)
		require.LessOrEqual(t, after, rate*before+1e-13)
		before = after
	}
}

// TestLineSearchBounds checks the line search: γ stays above 0.7/L_f, the descent condition holds,
// and without a Lipschitz constant of g the steps grow at most 10⁴-fold in total.
func TestLineSearchBounds(t *testing.T) {
	const d = 9
	g, h, x, u, v := plantedPair(d)
	f := newToy(20, d, 0.01, x, plus(u, v))
	for _, op := range []prox.Operator{g, struct{ prox.Operator }{g}} {
		m := &DavisYin{Rule: LineSearch, StepSize: 100 / f.lip}
		require.NoError(t, m.Init(Problem{F: f, G: op, H: struct{ prox.Operator }{h}}, make([]float64, d), nil))
		_, known := op.(prox.L1)
		loc, stats := &Location{X: make([]float64, d)}, &Stats{}
		product := 1.0
		for range 2000 {
			before := m.gamma
			m.Step(loc, stats)
			require.GreaterOrEqual(t, m.gamma, shrink/f.lip)
			square := math.Pow(floats.Distance(m.x, m.y, 2), 2) / (2 * m.gamma)
			fx, fy := f.Func(m.x), f.Func(m.y)
			for j := range m.line.d {
				fy += m.grad[j] * (m.x[j] - m.y[j])
			}
			require.LessOrEqual(t, fx, fy+square+1e-9*(math.Abs(fx)+math.Abs(fy)))
			product *= math.Max(1, m.gamma/before)
		}
		if !known {
			require.LessOrEqual(t, product, lengthenTotal*1.0001)
		}
		require.LessOrEqual(t, floats.Distance(m.x, x, 2), 1e-8)
	}
}

// TestVarianceReducedRate checks the documented rate of Prox-SVRG. It states E V_k ≤ ρᵏV_0, so that
// by Markov's inequality V_k ≤ 10⁶ρᵏV_0 except with probability 1e-6. The seed is fixed.
func TestVarianceReducedRate(t *testing.T) {
	const n, d = 20, 9
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	psi, ok := sumOf(g, h)
	require.True(t, ok)
	lip := float64(n) * f.lipOne
	for _, refresh := range []float64{0, f.ridge / lip, 0.25, 1} {
		m := &StochasticTOS{SVRG: true, Refresh: refresh}
		require.NoError(t, m.Init(Problem{F: f, H: psi}, make([]float64, d), rand.New(rand.NewPCG(1, 2))))
		require.InEpsilon(t, 1/(4*lip), m.gamma, 1e-12)
		q := cmp.Or(refresh, 1.0/n)
		rho := 1 - math.Min(f.ridge/(8*lip), q/2)
		start := lyapunov(m, x, x, 4/q)
		loc, stats := &Location{X: make([]float64, d)}, &Stats{}
		steps := int(math.Log(1e-14) / math.Log(rho)) // 10⁶ρᵏ is 1e-8 after these steps
		for range steps {
			m.Step(loc, stats)
		}
		require.LessOrEqual(t, lyapunov(m, x, x, 4/q), 1e6*math.Pow(rho, float64(steps))*start, "refresh %g", refresh)
	}
}

// lyapunov returns ‖z−z*‖² + wγ²σ², σ² = nΣ‖tᵢ − ∇fᵢ(x*)‖².
func lyapunov(m *StochasticTOS, x, z []float64, w float64) float64 {
	at, star := make([]float64, len(x)), make([]float64, len(x))
	var sigma float64
	for i := range m.n {
		m.sum.GradTerms(star, x, []int{i})
		m.sum.GradTerms(at, m.anchor, []int{i})
		sigma += float64(m.n) * math.Pow(floats.Distance(at, star, 2), 2)
	}
	return math.Pow(floats.Distance(m.z, z, 2), 2) + w*m.gamma*m.gamma*sigma
}

// script is a source of two numbers: one that draws the term i of n, and one that refreshes or not.
type script struct {
	i, n    uint64
	refresh bool
	second  bool
}

func (s *script) Uint64() uint64 {
	first := !s.second
	s.second = first
	switch {
	case first:
		return (s.i<<32 + 1<<31) / s.n << 32
	case s.refresh:
		return 1 << 37 // 0 of IntN(n), 2⁻¹⁶ of Float64()
	}
	return math.MaxUint64
}

// TestVarianceReducedDescent checks the documented inequalities of one step of SVRG exactly: it
// takes the step with every term, with and without a refresh, from the same state.
func TestVarianceReducedDescent(t *testing.T) {
	const n, d = 20, 9
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	psi, ok := sumOf(g, h)
	require.True(t, ok)
	lip := float64(n) * f.lipOne
	r := rand.New(rand.NewPCG(5, 6))
	zero, grad, star := make([]float64, d), make([]float64, d), make([]float64, d)
	f.Grad(star, x)
	// check compares E V with most(V, b) for V with the weight w/q, b = ⟨y−x*, ∇f(y)−∇f(x*)⟩.
	check := func(p Problem, u []float64, refresh, step, w float64, most func(v, b float64) float64) {
		q := cmp.Or(refresh, 1.0/n)
		m, src := &StochasticTOS{SVRG: true, Refresh: refresh, StepSize: step / lip}, &script{n: n}
		require.NoError(t, m.Init(p, zero, rand.New(src)))
		z, at, y := make([]float64, d), make([]float64, d), make([]float64, d)
		floats.AddScaledTo(at, x, m.gamma, u)
		near, old := math.Pow(10, -3*r.Float64()), math.Pow(10, -3*r.Float64())
		for j := range z {
			z[j] = at[j] + near*r.NormFloat64()
			y[j] = x[j] + old*r.NormFloat64()
		}
		anchor, total := slices.Clone(y), make([]float64, d)
		f.Grad(total, anchor)
		state := func() {
			copy(m.z, z)
			copy(m.anchor, anchor)
			copy(m.total, total)
		}
		state()
		start := lyapunov(m, x, at, w/q)
		operator(p.G).Prox(y, z, m.gamma)
		f.Grad(grad, y)
		var b, mean float64
		for j := range y {
			b += (y[j] - x[j]) * (grad[j] - star[j])
		}
		for i := range n {
			for _, due := range []bool{false, true} {
				if !due && q == 1 {
					continue
				}
				state()
				src.i, src.refresh = uint64(i), due
				m.Step(&Location{X: make([]float64, d)}, &Stats{})
				require.Equal(t, i, m.idx[0])
				require.Equal(t, due, slices.Equal(m.anchor, y))
				share := q
				if !due {
					share = 1 - q
				}
				mean += share / n * lyapunov(m, x, at, w/q)
			}
		}
		require.LessOrEqual(t, mean, most(start, b)+1e-12*start, "refresh %g, step %g/L", refresh, step)
	}
	for range 10 {
		for _, refresh := range []float64{0, 1e-3, 0.25, 1} {
			for _, c := range []float64{0.02, 0.25, 0.32, 0.49} { // γL
				gamma := c / lip
				a := func(v, b float64) float64 { return v - 2*gamma*(1-2*c)*b }
				check(Problem{F: f, G: g, H: h}, u, refresh, c, 2, a)
				check(Problem{F: f, H: psi}, zero, refresh, c, 2, a)
				if c < 1.0/3 {
					rate := math.Min(2*gamma*f.ridge*(1-3*c), cmp.Or(refresh, 1.0/n)/2)
					check(Problem{F: f, H: psi}, zero, refresh, c, 4, func(v, _ float64) float64 { return (1 - rate) * v })
				}
			}
		}
	}
}

// TestEstimators checks that the gradient estimates are unbiased.
func TestEstimators(t *testing.T) {
	const n, d = 20, 9
	_, _, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	want, got, y := make([]float64, d), make([]float64, d), make([]float64, d)
	e := &StochasticTOS{SVRG: true}
	require.NoError(t, e.Init(Problem{F: f}, make([]float64, d), rand.New(rand.NewPCG(1, 2))))
	r := rand.New(rand.NewPCG(3, 4))
	// These are enough steps for a history.
	for range 30 {
		for j := range y {
			y[j] = r.NormFloat64()
		}
		e.estimate(got, y, &Stats{})
		e.exact(y, &Stats{})
	}
	f.Grad(want, y)
	mean := make([]float64, d)
	seen := map[int]bool{}
	for len(seen) < n { // sample every term once, each time from the same memory
		e.estimate(got, y, &Stats{})
		if i := e.idx[0]; !seen[i] {
			seen[i] = true
			floats.AddScaled(mean, 1.0/n, got)
		}
	}
	require.InDeltaSlice(t, want, mean, 1e-10)
}

// TestBiasOfStochasticTOS checks that StochasticTOS with plain sampling stays biased with a
// constant step, because its noise passes through the projection. With variance reduction it
// converges for the same operators and a constant step.
func TestBiasOfStochasticTOS(t *testing.T) {
	const n, d = 20, 9
	g, h, x, u, v := plantedPair(d)
	f := newToy(n, d, 2, x, plus(u, v))
	p := Problem{F: f, G: g, H: h}
	solve := func(m Method, steps int) float64 {
		// The test has one seed. The mean of the last steps shows the bias without the noise of a single
		// iterate.
		tail := &tail{from: steps / 2, mean: make([]float64, d)}
		_, err := Solve(context.Background(), p, make([]float64, d),
			&Settings{Iterations: steps, Tolerance: -1, Src: rand.NewPCG(3, 4),
				Recorder: tail}, m)
		require.NoError(t, err)
		return floats.Distance(tail.mean, x, 2)
	}
	few, many := solve(&StochasticTOS{}, 20_000), solve(&StochasticTOS{}, 400_000)
	require.Greater(t, many, 0.01, "biased")
	require.Greater(t, many, 0.5*few, "more steps must not reduce the bias")
	require.Less(t, solve(&StochasticTOS{SVRG: true}, 20_000), 1e-9)
	// prox_{γh} of an affine set is affine: the noise in it averages out.
	ones := mat.NewDense(1, d, nil)
	for j := range d {
		ones.Set(0, j, 1)
		v[j] = 0.7
	}
	h, err := prox.NewAffine(ones, []float64{floats.Sum(x)})
	require.NoError(t, err)
	p = Problem{F: newToy(n, d, 2, x, plus(u, v)), G: g, H: h}
	few, many = solve(&StochasticTOS{}, 20_000), solve(&StochasticTOS{}, 400_000)
	t.Log(few, many)
	require.Less(t, many, 0.5*few, "noise in an affine map averages out")
}

// tail is a Recorder that computes the mean of X over the steps from the given one on.
type tail struct {
	from int
	n    float64
	mean []float64
}

func (t *tail) Init() error { return nil }

func (t *tail) Record(loc *Location, stats *Stats) error {
	if stats.Iterations >= t.from {
		t.n++
		for j, xj := range loc.X {
			t.mean[j] += (xj - t.mean[j]) / t.n
		}
	}
	return nil
}

// TestPrimalDualAccelerated checks that with StronglyConvexStep the distance ‖x_k − x*‖ of
// PrimalDual falls like 1/k. The theory of the fixed rule gives only 1/√k.
func TestPrimalDualAccelerated(t *testing.T) {
	const d = 60
	edges := make([][2]int, d-1)
	b := make([]float64, d)
	for j := range b {
		if j < d-1 {
			edges[j] = [2]int{j, j + 1}
		}
		b[j] = math.Sin(float64(j)*0.7) + float64(j/20)
	}
	k, err := NewDifferences(edges, d)
	require.NoError(t, err)
	x := make([]float64, d)
	prox.TotalVariation{Weight: 2}.Prox(x, b, 1) // the minimizer, computed by another algorithm
	q := mat.NewSymDense(d, nil)
	for j := range d {
		q.SetSym(j, j, 1)
	}
	f, err := NewQuadratic(q, b, 0)
	require.NoError(t, err)
	p := Problem{F: f, H: prox.L1{Weight: 2}, K: k}
	m := &PrimalDual{Rule: StronglyConvexStep}
	require.NoError(t, m.Init(p, make([]float64, d), nil))
	loc, stats := &Location{X: make([]float64, d)}, &Stats{}
	product := m.tau * m.sigma
	var scale float64
	for i := 1; i <= 20_000; i++ {
		m.Step(loc, stats)
		require.InEpsilon(t, product, m.tau*m.sigma, 1e-9)
		dist := floats.Distance(m.x, x, 2)
		if i <= 100 {
			scale = math.Max(scale, float64(i)*dist)
		}
		require.LessOrEqual(t, dist, scale/float64(i)+1e-12, i)
	}
	// The certificate is valid for K ≠ I too.
	dist := floats.Distance(loc.X, x, 2)
	require.LessOrEqual(t, dist, loc.Residual/f.(Convex).Convexity()+1e-12)
	require.Less(t, loc.Residual, 1e-4)
}

// Gap returns the duality gap of least squares + g + h at any x, or +Inf where no bound is known.
func (f *LinearModel) Gap(x []float64, g, h prox.Operator) float64 {
	psi, ok := Problem{G: g, H: h}.coordinatewise()
	var p penalty
	if !ok || p.init(psi, f.Dim()) != nil {
		return math.Inf(1)
	}
	if len(x) != f.Dim() {
		panic(badLen)
	}
	for j, v := range x {
		if !(p.lo[j] <= v && v <= p.hi[j]) {
			return math.Inf(1)
		}
	}
	if gap, _ := f.gap(&p, x); gap >= 0 {
		return gap
	}
	return math.Inf(1) // the gap is NaN because x is too large for float64
}

// sumOf is prox.Sum with a bool in the place of the error.
func sumOf(g, h prox.Operator) (prox.Operator, bool) {
	sum, err := prox.Sum(g, h)
	return sum, err == nil
}
