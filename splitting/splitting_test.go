// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// glm is Σᵢ φ(⟨aᵢ,x⟩; bᵢ) + (ridge/2)‖x‖² for a function φ with two derivatives.
type glm struct {
	a     *mat.Dense
	b     []float64
	ridge float64
	phi   func(u, b float64) (v, d, d2 float64)
	curve float64 // sup φ″
	hess  bool
	count int // the number of calls of Hessian
}

func (f *glm) eval(x []float64, each func(row []float64, v, d, d2 float64)) {
	for i, b := range f.b {
		row := f.a.RawRowView(i)
		v, d, d2 := f.phi(floats.Dot(row, x), b)
		each(row, v, d, d2)
	}
}

func (f *glm) Func(x []float64) float64 {
	s := f.ridge / 2 * floats.Dot(x, x)
	f.eval(x, func(_ []float64, v, _, _ float64) { s += v })
	return s
}

func (f *glm) Grad(dst, x []float64) {
	floats.ScaleTo(dst, f.ridge, x)
	f.eval(x, func(row []float64, _, d, _ float64) { floats.AddScaled(dst, d, row) })
}

func (f *glm) Smoothness() float64 {
	n := mat.Norm(f.a, 2)
	return f.curve*n*n + f.ridge
}

func (f *glm) Convexity() float64 { return f.ridge }
func (f *glm) HasHessian() bool   { return f.hess }

func (f *glm) Hessian(dst *mat.SymDense, x []float64) {
	f.count++
	dst.Zero()
	f.eval(x, func(row []float64, _, _, d2 float64) {
		if d2 != 0 {
			dst.SymRankOne(dst, d2, mat.NewVecDense(len(row), row))
		}
	})
	for j := range x {
		dst.SetSym(j, j, dst.At(j, j)+f.ridge)
	}
}

func square(u, b float64) (v, d, d2 float64) { return (u - b) * (u - b) / 2, u - b, 1 }

func logistic(u, b float64) (v, d, d2 float64) {
	e := math.Exp(-math.Abs(u))
	p := 1 / (1 + e)
	if u < 0 {
		p = e / (1 + e)
	}
	if b > 0 {
		return math.Max(u, 0) + math.Log1p(e) - u, p - 1, p * (1 - p)
	}
	return math.Max(u, 0) + math.Log1p(e), p, p * (1 - p)
}

func huber(delta float64) func(u, b float64) (v, d, d2 float64) {
	return func(u, b float64) (v, d, d2 float64) {
		r := u - b
		switch {
		case r > delta:
			return delta * (r - delta/2), delta, 0
		case r < -delta:
			return delta * (-r - delta/2), -delta, 0
		}
		return r * r / 2, r, 1
	}
}

func newGLM(n, d int, ridge, curve float64, phi func(u, b float64) (v, d, d2 float64)) *glm {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	f := &glm{a: mat.NewDense(n, d, nil), b: make([]float64, n), ridge: ridge, curve: curve, phi: phi, hess: true}
	theta := make([]float64, d)
	for j := range theta {
		theta[j] = r.NormFloat64()
	}
	for i := range f.b {
		row := f.a.RawRowView(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
		f.b[i] = floats.Dot(row, theta) + r.NormFloat64()
	}
	return f
}

// primalDual is an independent reference: the primal-dual method of Condat and Vũ, which evaluates
// the maps of g and h separately and uses no sums, Hessians or restarts. A step is
//
//	x⁺ = prox_{τg}(x − τ(∇f(x) + y)),   v = 2x⁺ − x + y/σ,   y⁺ = σ(v − prox_{h/σ}(v)).
func primalDual(p splitting.Problem, d, steps int) []float64 {
	sigma := p.F.Smoothness() / 2
	tau := 1 / (p.F.Smoothness()/2 + sigma) // satisfies 1/τ − σ ≥ L_f/2
	x, y, g, old, v := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
	for range steps {
		copy(old, x)
		p.F.Grad(g, x)
		for i := range x {
			x[i] -= tau * (g[i] + y[i])
		}
		if p.G != nil {
			p.G.Prox(x, x, tau)
		}
		for i := range v {
			v[i] = (2*x[i] - old[i]) + y[i]/sigma
		}
		copy(g, v)
		if p.H != nil {
			p.H.Prox(g, g, 1/sigma)
		}
		for i := range y {
			y[i] = sigma * (v[i] - g[i])
		}
	}
	return x
}

// TestMethodsAgreeWithPrimalDual checks every method against primalDual, on every smooth function
// and every pair of operators to which the method applies.
func TestMethodsAgreeWithPrimalDual(t *testing.T) {
	const n, d = 24, 6
	inf := math.Inf(1)
	affine, err := prox.NewAffine(mat.NewDense(1, d, []float64{1, 1, 1, 1, 1, 1}), []float64{0.5})
	require.NoError(t, err)
	group := prox.GroupL2{Groups: [][]int{{0, 1}, {2, 3, 4}, {5}}, Weight: 3}
	smooth := map[string]*glm{
		"squares":  newGLM(n, d, 1, 1, square),
		"logistic": newGLM(n, d, 1, 0.25, logistic),
		"huber":    newGLM(n, d, 1, 1, huber(0.7)),
	}
	pairs := map[string]splitting.Problem{
		"none":            {},
		"l1":              {G: prox.L1{Weight: 4}},
		"0+l1":            {H: prox.L1{Weight: 4}},
		"l2norm":          {G: prox.L2Norm{Weight: 5}},
		"l1+box":          {G: prox.L1{Weight: 4}, H: prox.Box{Lo: -0.4, Hi: 0.5}},
		"l1+ball":         {G: prox.L1{Weight: 4}, H: prox.L2Ball{R: 0.8}},
		"elasticnet+pos":  {G: prox.ElasticNet{L1: 1, L2: 2}, H: prox.NonNegative{}},
		"squared+l1ball":  {G: prox.SquaredL2{Weight: 1}, H: prox.L1Ball{R: 1}},
		"squared+simplex": {G: prox.SquaredL2{Weight: 1}, H: prox.Simplex{Total: 1}},
		"l2norm+ball":     {G: prox.L2Norm{Weight: 1}, H: prox.L2Ball{R: 0.9}},
		"group":           {G: group},
		"group+box":       {G: group, H: prox.Box{Lo: -0.3, Hi: inf}},
		"l1+affine":       {G: prox.L1{Weight: 2}, H: affine},
		"l1+halfspace":    {G: prox.L1{Weight: 1}, H: prox.HalfSpace{A: []float64{1, -1, 1, 0, 2, 1}, B: 0.1}},
	}
	used := map[string]int{}
	for fname, f := range smooth {
		for pname, p := range pairs {
			p.F = f
			// The condition number is at most 100 (ridge 1), so that with linear convergence 2e4 steps reach
			// rounding.
			ref := primalDual(p, d, 20000)
			for mname, m := range deterministic {
				name := fmt.Sprintf("%s/%s/%s", mname, fname, pname)
				res, err := splitting.Solve(background, p, make([]float64, d),
					&splitting.Settings{Tolerance: 1e-10, Iterations: 20000}, m())
				if err != nil {
					require.ErrorIs(t, err, splitting.ErrProblem, name)
					continue
				}
				used[mname]++
				require.Contains(t, []splitting.Status{splitting.Converged, splitting.Stalled}, res.Status, "%s: residual %g",
					name, res.Residual)
				dist := floats.Distance(res.X, ref, 2)
				require.LessOrEqual(t, dist, 1e-8*(1+floats.Norm(ref, 2)), "%s: %v, residual %g", name, res.Status, res.Residual)
				if !math.IsInf(res.Distance, 1) {
					require.LessOrEqual(t, dist, res.Distance+1e-9, name)
				}
				value, refValue := p.F.Func(res.X), p.F.Func(ref)
				if p.G != nil {
					value += p.G.Func(res.X)
					refValue += p.G.Func(ref)
				}
				require.InDelta(t, refValue, value, 1e-8*math.Max(1, math.Abs(refValue)), name)
			}
			res, err := splitting.Minimize(background, p, make([]float64, d), &splitting.Settings{Tolerance: 1e-9})
			require.NoError(t, err)
			require.LessOrEqual(t, floats.Distance(res.X, ref, 2), 1e-8*(1+floats.Norm(ref, 2)), "Minimize/%s/%s", fname, pname)
		}
	}
	require.Equal(t, 3*len(pairs), used["DavisYin"], "DavisYin applies everywhere")
	require.GreaterOrEqual(t, used["ForwardBackward"], 3*10)
	require.GreaterOrEqual(t, used["ProxNewton"], 3*5)
}

// TestProxNewtonSteps checks that Newton's method needs about ten steps for logistic regression and
// a few for a Huberized lasso, also from a bad start.
func TestProxNewtonSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     *glm
		start float64
		steps int
	}{
		{"logistic", newGLM(300, 30, 1, 0.25, logistic), 0, 12},
		{"logistic far", newGLM(300, 30, 1e-3, 0.25, logistic), 50, 40},
		{"huber", newGLM(300, 30, 1, 1, huber(0.5)), 0, 15},
		{"huber far", newGLM(300, 30, 1e-3, 1, huber(0.5)), 1000, 60},
		{"huber flat", newGLM(300, 30, 0, 1, huber(0.5)), 1000, 60}, // there is no curvature at the start
	} {
		t.Run(c.name, func(t *testing.T) {
			p := splitting.Problem{F: c.f, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -2000, Hi: 2000}}
			x0 := make([]float64, 30)
			floats.AddConst(c.start, x0)
			res, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: 1e-8}, &splitting.ProxNewton{})
			require.NoError(t, err)
			require.Equal(t, splitting.Converged, res.Status)
			require.LessOrEqual(t, res.Iterations, c.steps)
			g := make([]float64, 30)
			c.f.Grad(g, res.X)
			sum, _ := sumOf(p.G, p.H)
			require.LessOrEqual(t, sum.(prox.Subdifferential).Dist(res.X, g), 1.01e-8)
		})
	}
}

func TestAuto(t *testing.T) {
	q, err := splitting.NewQuadratic(mat.NewSymDense(1, []float64{1}), nil, 0)
	require.NoError(t, err)
	ls, err := splitting.NewLeastSquares(mat.NewDense(2, 1, []float64{1, 2}), []float64{3, 4})
	require.NoError(t, err)
	k, err := splitting.NewMatrix(mat.NewDense(2, 1, []float64{1, 2}))
	require.NoError(t, err)
	f := newGLM(3, 1, 1, 1, square)
	without := newGLM(3, 1, 1, 1, square)
	without.hess = false
	l1, norm := prox.L1{Weight: 1}, prox.L2Norm{Weight: 1}
	group, box := prox.GroupL2{Groups: [][]int{{0}}, Weight: 1}, prox.Box{Lo: -3, Hi: 1}
	for _, c := range []struct {
		p    splitting.Problem
		dim  int
		want splitting.Method
	}{
		{splitting.Problem{F: q, G: l1, K: k}, 1, &splitting.InteriorPoint{}},
		{splitting.Problem{F: q, G: l1, H: norm, K: k}, 1, &splitting.PrimalDual{}},
		{splitting.Problem{F: ls, G: l1, H: box}, 1, &splitting.CoordinateDescent{}},
		{splitting.Problem{F: ls, G: norm}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: ls, G: group, H: box}, 1, &splitting.DavisYin{}},
		{splitting.Problem{F: notQuadratic{f}, G: l1}, 1, &splitting.ProxNewton{}},
		{splitting.Problem{F: f, G: prox.L2Ball{R: 1}, H: prox.SquaredL2{Weight: 1}}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: q}, 1, &splitting.CoordinateDescent{}},
		{splitting.Problem{F: q, G: l1, H: box}, 1, &splitting.CoordinateDescent{}},
		{splitting.Problem{F: f, H: box}, 1, &splitting.ProxNewton{}},
		{splitting.Problem{F: f, H: box}, 1e6, &splitting.ForwardBackward{}},
		{splitting.Problem{F: without, H: box}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: q, G: norm}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{G: l1}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: f, G: group, H: box}, 1, &splitting.DavisYin{}},
		{splitting.Problem{F: q, H: prox.L2Ball{R: 1}}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: f, G: l1, H: prox.L2Ball{R: 1}}, 1, &splitting.ForwardBackward{}},
		{splitting.Problem{F: f, G: prox.SquaredL2{Weight: 1}}, 2001, &splitting.LBFGS{}},
		{splitting.Problem{F: f}, 1e5, &splitting.LBFGS{}},
		{splitting.Problem{F: f, G: l1}, 1e5, &splitting.ForwardBackward{}},
	} {
		require.IsType(t, c.want, splitting.Auto(c.p, c.dim), "%T %v %v", c.p.F, c.p.G, c.p.H)
	}
}

func TestMethodsRefuse(t *testing.T) {
	q, err := splitting.NewQuadratic(mat.NewSymDense(1, []float64{1}), nil, 0)
	require.NoError(t, err)
	f := newGLM(3, 1, 1, 1, square)
	nan, svrg := math.NaN(), &splitting.StochasticTOS{SVRG: true}
	group, box := prox.GroupL2{Groups: [][]int{{0}}, Weight: 1}, prox.Box{Lo: -3, Hi: 1}
	steep := newGLM(3, 1, 1, nan, square)
	k, err := splitting.NewMatrix(mat.NewDense(1, 1, []float64{1}))
	require.NoError(t, err)
	fs, _ := experiment(3, 1, 1, false)
	none, _ := experiment(3, 1, 1, false)
	none.x.Rows = 0
	wild, _ := experiment(3, 1, 1, false)
	wild.lip = math.Inf(1)
	endless := newGLM(3, 1, 1, math.Inf(1), square)
	unknowable, _ := experiment(3, 1, 1, false)
	unknowable.lip = nan
	loose, _ := experiment(3, 1, 1, false)
	loose.ridge = 0
	flat, err := splitting.NewQuadratic(mat.NewSymDense(1, []float64{0}), nil, 0)
	require.NoError(t, err)
	hopeless := interval{2, 1}
	for name, c := range map[string]struct {
		p    splitting.Problem
		m    splitting.Method
		want error
		text string
	}{
		"DY step": {splitting.Problem{F: q}, &splitting.DavisYin{StepSize: -1}, splitting.ErrSettings,
			"DavisYin.StepSize = -1"},
		"DY long step": {splitting.Problem{F: q}, &splitting.DavisYin{StepSize: 2.1}, splitting.ErrSettings, "(0, 2/L_f)"},
		"DY NaN":       {splitting.Problem{F: q}, &splitting.DavisYin{StepSize: nan}, splitting.ErrSettings, "NaN"},
		"DY relaxation": {splitting.Problem{F: q}, &splitting.DavisYin{Relaxation: 1.6}, splitting.ErrSettings,
			"DavisYin.Relaxation = 1.6"},
		"DY L": {splitting.Problem{F: steep}, &splitting.DavisYin{}, splitting.ErrProblem, "Smoothness"},
		"DY search L": {splitting.Problem{F: steep}, &splitting.DavisYin{Rule: splitting.LineSearch}, splitting.ErrProblem,
			"Smoothness"},
		"DY search step": {splitting.Problem{F: q}, &splitting.DavisYin{Rule: splitting.LineSearch, StepSize: nan},
			splitting.ErrSettings,
			"begin the search"},
		"DY search λ": {splitting.Problem{F: q}, &splitting.DavisYin{Rule: splitting.LineSearch, Relaxation: 1.2},
			splitting.ErrSettings,
			"variable steps"},
		"DY rule": {splitting.Problem{F: q}, &splitting.DavisYin{Rule: splitting.StronglyConvexStep}, splitting.ErrSettings,
			"DavisYin.Rule = StronglyConvexStep"},
		"DY no rule": {splitting.Problem{F: q}, &splitting.DavisYin{Rule: -1}, splitting.ErrSettings, "invalid rule -1"},
		"DY K":       {splitting.Problem{F: q, K: k}, &splitting.DavisYin{}, splitting.ErrProblem, "only PrimalDual"},
		"FB K":       {splitting.Problem{F: q, K: k}, &splitting.ForwardBackward{}, splitting.ErrProblem, "only PrimalDual"},
		"TOS K":      {splitting.Problem{F: fs, K: k}, &splitting.StochasticTOS{}, splitting.ErrProblem, "only PrimalDual"},
		"CD K":       {splitting.Problem{F: q, K: k}, &splitting.CoordinateDescent{}, splitting.ErrProblem, "coordinatewise"},
		"FB rule": {splitting.Problem{F: q}, &splitting.ForwardBackward{Rule: splitting.StronglyConvexStep},
			splitting.ErrSettings,
			"ForwardBackward.Rule = StronglyConvexStep"},
		"FB step": {splitting.Problem{F: q}, &splitting.ForwardBackward{StepSize: math.Inf(1)}, splitting.ErrSettings,
			"ForwardBackward.StepSize"},
		"FB sum": {splitting.Problem{F: q, G: group, H: box}, &splitting.ForwardBackward{}, splitting.ErrProblem,
			"DavisYin"},
		"CD F":     {splitting.Problem{F: f}, &splitting.CoordinateDescent{}, splitting.ErrProblem, "Quadratic() (q"},
		"CD nil F": {splitting.Problem{}, &splitting.CoordinateDescent{}, splitting.ErrProblem, "Quadratizer"},
		"CD G": {splitting.Problem{F: q, G: group}, &splitting.CoordinateDescent{}, splitting.ErrProblem,
			"Coordinate(i int)"},
		"CD no sum": {splitting.Problem{F: q, G: group, H: box}, &splitting.CoordinateDescent{}, splitting.ErrProblem,
			"coordinatewise"},
		"CD not one": {splitting.Problem{F: notQuadratic{f}}, &splitting.CoordinateDescent{}, splitting.ErrProblem,
			"not quadratic"},
		"CD empty": {splitting.Problem{F: q, G: hopeless}, &splitting.CoordinateDescent{}, splitting.ErrProblem,
			"coordinate 0"},
		"PN F":     {splitting.Problem{F: fs}, &splitting.ProxNewton{}, splitting.ErrProblem, "Hessian(dst"},
		"PN G":     {splitting.Problem{F: f, G: group}, &splitting.ProxNewton{}, splitting.ErrProblem, "Coordinate(i int)"},
		"PN empty": {splitting.Problem{F: f, G: hopeless}, &splitting.ProxNewton{}, splitting.ErrProblem, "coordinate 0"},
		"TOS F":    {splitting.Problem{F: f}, &splitting.StochasticTOS{}, splitting.ErrProblem, "GradTerms(dst"},
		"TOS none": {splitting.Problem{F: none}, &splitting.StochasticTOS{}, splitting.ErrProblem, "no terms"},
		"TOS L":    {splitting.Problem{F: wild}, &splitting.StochasticTOS{}, splitting.ErrProblem, "StepSize"},
		"TOS step": {splitting.Problem{F: fs}, &splitting.StochasticTOS{StepSize: -2}, splitting.ErrSettings,
			"StochasticTOS.StepSize = -2"},
		"TOS NaN": {splitting.Problem{F: fs}, &splitting.StochasticTOS{StepSize: nan}, splitting.ErrSettings, "NaN"},
		"PD rule": {splitting.Problem{F: q}, &splitting.PrimalDual{Rule: splitting.LineSearch}, splitting.ErrSettings,
			"PrimalDual.Rule = LineSearch"},
		"PD L": {splitting.Problem{F: endless}, &splitting.PrimalDual{}, splitting.ErrProblem, "can search"},
		"PD mu": {splitting.Problem{F: flat}, &splitting.PrimalDual{Rule: splitting.StronglyConvexStep}, splitting.ErrProblem,
			"Convexity() > 0"},
		"PD tau": {splitting.Problem{F: q}, &splitting.PrimalDual{Tau: -1}, splitting.ErrSettings,
			"PrimalDual.Tau = -1"},
		"PD sigma": {splitting.Problem{F: q}, &splitting.PrimalDual{Sigma: math.Inf(1)}, splitting.ErrSettings,
			"PrimalDual.Sigma = +Inf"},
		"PD condition": {splitting.Problem{F: q}, &splitting.PrimalDual{Tau: 1, Sigma: 1}, splitting.ErrSettings,
			"1/Tau − Sigma"},
		"PD long tau": {splitting.Problem{F: q}, &splitting.PrimalDual{Tau: 3}, splitting.ErrSettings, "1/Tau − Sigma"},
		"CP condition": {splitting.Problem{G: box, K: k}, &splitting.PrimalDual{Tau: 2, Sigma: 1}, splitting.ErrSettings,
			"1/Tau − Sigma"},
		"VR F":     {splitting.Problem{F: f}, svrg, splitting.ErrProblem, "FiniteSum"},
		"VR none":  {splitting.Problem{F: none}, svrg, splitting.ErrProblem, "no terms"},
		"VR L":     {splitting.Problem{F: wild}, svrg, splitting.ErrProblem, "TermSmoothness"},
		"VR NaN L": {splitting.Problem{F: unknowable}, svrg, splitting.ErrProblem, "NaN"},
		"VR K":     {splitting.Problem{F: fs, K: k}, svrg, splitting.ErrProblem, "only PrimalDual"},
		"VR step": {splitting.Problem{F: fs}, &splitting.StochasticTOS{SVRG: true, StepSize: 1},
			splitting.ErrSettings,
			"StochasticTOS.StepSize = 1"},
		"VR refresh": {splitting.Problem{F: fs}, &splitting.StochasticTOS{SVRG: true, Refresh: 2}, splitting.ErrSettings,
			"StochasticTOS.Refresh = 2"},
		"VR never": {splitting.Problem{F: fs}, &splitting.StochasticTOS{SVRG: true, Refresh: -1}, splitting.ErrSettings,
			"StochasticTOS.Refresh = -1"},
		"VR NaN refresh": {splitting.Problem{F: fs}, &splitting.StochasticTOS{SVRG: true, Refresh: nan},
			splitting.ErrSettings,
			"StochasticTOS.Refresh = NaN"},
		"VR NaN": {splitting.Problem{F: fs}, &splitting.StochasticTOS{SVRG: true, StepSize: nan},
			splitting.ErrSettings,
			"StochasticTOS.StepSize = NaN"},
	} {
		res, err := splitting.Solve(background, c.p, []float64{1}, nil, c.m)
		require.ErrorIs(t, err, c.want, name)
		require.ErrorContains(t, err, c.text, name)
		require.Nil(t, res, name)
	}
	_, err = splitting.Minimize(background, splitting.Problem{F: q}, []float64{1, 2}, nil)
	require.ErrorIs(t, err, splitting.ErrProblem)
}

type notQuadratic struct{ *glm }

func (notQuadratic) Quadratic() (*mat.SymDense, []float64, float64, bool) { return nil, nil, 0, false }

// interval is the indicator of a box without a Check method, so that lo and hi may be invalid.
type interval struct{ lo, hi float64 }

func (interval) Func([]float64) float64                    { return 0 }
func (interval) Prox(dst, x []float64, _ float64)          { copy(dst, x) }
func (g interval) Coordinate(int) (l1, l2, lo, hi float64) { return 0, 0, g.lo, g.hi }

// TestCoordinateDescentDegenerate checks objectives that are flat or unbounded, and starts outside
// the domain.
func TestCoordinateDescentDegenerate(t *testing.T) {
	flat, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{0, 0, 0, 1}), []float64{3, 0}, 0)
	require.NoError(t, err)
	res, err := splitting.Minimize(background, splitting.Problem{F: flat}, []float64{0, 0}, nil)
	require.ErrorIs(t, err, splitting.ErrUnbounded)
	require.Equal(t, splitting.Unbounded, res.Status)

	res, err = splitting.Minimize(background, splitting.Problem{F: flat, H: prox.Box{Lo: -1, Hi: 2}}, []float64{0, 5}, nil)
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
	require.Equal(t, []float64{2, 0}, res.X)

	res, err = splitting.Minimize(background, splitting.Problem{F: flat, G: prox.L1{Weight: 4}}, []float64{0, 5}, nil)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0}, res.X, "the weight exceeds the slope")

	low, err := splitting.NewQuadratic(mat.NewSymDense(1, []float64{0}), []float64{-3}, 0)
	require.NoError(t, err)
	res, err = splitting.Minimize(background, splitting.Problem{F: low, H: prox.Box{Lo: -1, Hi: 2}}, []float64{0}, nil)
	require.NoError(t, err)
	require.Equal(t, []float64{-1}, res.X)

	// The matrix is singular, of rank one in many dimensions. The minimizers form a face, and any of
	// them can be certified.
	const d = 20
	q := mat.NewSymDense(d, nil)
	ones := make([]float64, d)
	floats.AddConst(1, ones)
	q.SymRankOne(q, 1, mat.NewVecDense(d, ones))
	f, err := splitting.NewQuadratic(q, ones, 0)
	require.NoError(t, err)
	res, err = splitting.Minimize(background, splitting.Problem{F: f, H: prox.Box{Lo: -1, Hi: 2}}, ones, nil)
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
	require.InDelta(t, 1, floats.Sum(res.X), 1e-9)

	// The Hilbert matrix has a condition number above 1e16, so that sweeps alone would not converge.
	hilbert := mat.NewSymDense(12, nil)
	for i := range 12 {
		for j := i; j < 12; j++ {
			hilbert.SetSym(i, j, 1/float64(i+j+1))
		}
	}
	h, err := splitting.NewQuadratic(hilbert, ones[:12], 0)
	require.NoError(t, err)
	res, err = splitting.Minimize(background, splitting.Problem{F: h, G: prox.L1{Weight: 0.1}, H: prox.Box{Lo: -1, Hi: 1}},
		make([]float64, 12), nil)
	require.NoError(t, err)
	require.Equal(t, splitting.Converged, res.Status)
}

// TestAffine checks every method on an affine F. F has no curvature to determine a step, so that
// any step is allowed.
func TestAffine(t *testing.T) {
	for name, m := range deterministic {
		f, err := splitting.NewQuadratic(mat.NewSymDense(2, nil), []float64{1, -2}, 0)
		require.NoError(t, err)
		res, err := splitting.Solve(background, splitting.Problem{F: f, G: prox.L1{Weight: 0.5}, H: prox.Box{Lo: -1, Hi: 3}},
			[]float64{0, 0},
			nil, m())
		require.NoError(t, err, name)
		require.Equal(t, splitting.Converged, res.Status, name)
		require.InDeltaSlice(t, []float64{3, -1}, res.X, 1e-9, name)
	}
	// Without any term every point is optimal.
	res, err := splitting.Minimize(background, splitting.Problem{}, []float64{4}, nil)
	require.NoError(t, err)
	require.Equal(t, []float64{4}, res.X)
	require.Zero(t, res.Residual)
}

// TestStochasticTOSFormula compares StochasticTOS with the published iteration, written out. The
// result must be the same whether the operators are coordinatewise or not.
func TestStochasticTOSFormula(t *testing.T) {
	const n, d, steps = 12, 5, 400
	f, _ := experiment(n, d, 0.1, false)
	g, h := prox.L1{Weight: 2}, prox.Box{Lo: -0.1, Hi: 0.1}
	rnd := rand.New(rand.NewPCG(8, 9))
	omega := 1 / f.Smoothness()
	x, theta, z, w := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
	for k := range steps {
		i := rnd.IntN(n)
		g.Prox(theta, x, omega)
		f.GradTerms(w, theta, []int{i})
		for j := range z {
			z[j] = 2*theta[j] - x[j] - omega*n*w[j]
		}
		h.Prox(z, z, omega)
		for j := range x {
			x[j] += math.Pow(float64(k+1), -0.502) * (z[j] - theta[j])
		}
	}
	for name, problem := range map[string]splitting.Problem{
		"coordinates": {F: f, G: g, H: h},
		"operators":   {F: f, G: struct{ prox.Operator }{g}, H: struct{ prox.Operator }{h}},
	} {
		res, err := splitting.Solve(background, problem, make([]float64, d),
			&splitting.Settings{Iterations: steps, Src: rand.NewPCG(8, 9)}, &splitting.StochasticTOS{})
		require.NoError(t, err)
		require.InDeltaSlice(t, theta, res.X, 1e-15, name)
		require.Equal(t, splitting.IterationLimit, res.Status)
		require.True(t, math.IsInf(res.Residual, 1) && math.IsInf(res.Distance, 1), "it never certifies")
		require.Equal(t, steps, res.GradTerms)
		require.Equal(t, 2*steps, res.Proxes)
	}
}
