// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// certified returns losses for every way in which Residual gets slopes: exact slopes, slopes that
// are steeper for short rows, and slopes of a type from outside the module.
func certified() []loss.Loss {
	return []loss.Loss{
		loss.Squared{}, loss.Huber{Delta: 0.7}, loss.Logistic{}, loss.SmoothedHinge{Gamma: 0.3},
		loss.Clipped{Loss: loss.Logistic{}, Threshold: 0.3}, loss.Moreau{Loss: loss.Hinge{},
			Beta: 2}, foreign{loss.Logistic{}},
	}
}

// TestResidualBoundsTheExactOne checks that Residual is at least the exact residual for the true b
// and Q, at all scales, and that it exceeds the exact residual only by the stated allowance. For
// losses with exact slopes the allowance has no term of the order of the unit roundoff u.
func TestResidualBoundsTheExactOne(t *testing.T) {
	cases := testkit.Of(300, 500)
	switch {
	case testkit.Deep():
		cases = 5000
	}
	for _, l := range certified() {
		rnd := rand.New(rand.NewPCG(17, 5))
		tight := 0
		for c := range cases {
			p, q, lambda, lo, hi := instance(rnd, l)
			// noise is the true perturbation, to which the theorems apply. q differs from it by the declared
			// errors.
			noise := q
			if c%4 == 0 && q.Linear != nil {
				q.LinearError = math.Abs(q.Linear[0]) * 1e-9
				noise.Linear = slices.Clone(q.Linear)
				noise.Linear[0] *= 1 - 0.999e-9*float64(1-2*rnd.IntN(2))
			}
			if c%5 == 0 {
				top, s := q.Quad.At(0, 0), mat.NewSymDense(q.Quad.SymmetricDim(), nil)
				s.CopySym(q.Quad)
				s.SetSym(0, 0, top*(1+0.999e-9))
				q.QuadError, noise.Quad = top*1e-9, s
			}
			o := p.Perturb(q)
			x := make([]float64, o.Dim())
			for j := range x {
				switch rnd.IntN(4) {
				case 0: // x[j] stays 0
				case 1:
					x[j] = min(hi, 3)
				default:
					x[j] = min(max(rnd.NormFloat64()*math.Pow(10, 4*rnd.Float64()-2), lo), hi)
				}
			}
			grad := bgrad(p, noise, bigs(x))
			exact := bdist(grad, x, lambda, lo, hi)
			got := o.Residual(x)
			require.False(t, math.IsNaN(got))
			require.True(t, bf(got).Cmp(exact) >= 0, "%T case %d: residual %v below the exact %v", l, c, got, bnum(exact))
			gh, gl, allowance := o.s().pairGrad(x, nil)
			for j, g := range bgrad(p, Perturbation{Linear: q.Linear, Center: q.Center, Quad: q.Quad}, bigs(x)) {
				e := math.Abs(bnum(bsub(g, badd(bf(gh[j]), bf(gl[j])))))
				require.LessOrEqual(t, e, boundRoom*allowance, "%T case %d: the error of the gradient", l, c)
				if e > allowance/1000 {
					tight++
				}
			}
			noises := q.LinearError
			if q.QuadError > 0 {
				y := slices.Clone(x)
				if q.Center != nil {
					floats.Sub(y, q.Center)
				}
				noises += q.QuadError * floats.Norm(y, 2)
			}
			size := bnum(bnorm(grad))
			require.LessOrEqual(t, got, (bnum(exact)+2.01*allowance+2*noises+2*0x1p-97*size)*(1+1e-13)+1e-320, "%T case %d", l,
				c)
			if s := o.s(); s.exact != nil {
				terms := floats.Norm(q.Linear, 2) + size
				for i := range s.data.n {
					norm := s.data.norm(i)
					w := bnum(bslope(l, bdot(p.Data.Row(i), bigs(x)), p.Data.Label(i), norm))
					terms += norm*math.Abs(w) + s.bend(norm)*norm*floats.Norm(x, 2)
				}
				for j, v := range x {
					if q.Center != nil {
						v -= q.Center[j]
					}
					terms += 4 * mat.Norm(q.Quad, 2) * math.Abs(v)
				}
				require.LessOrEqual(t, allowance, 0x1p-85*terms, "%T case %d", l, c)
			}
		}
		require.Greater(t, tight, 10, "%T: no error comes near its allowance", l)
	}
}

// TestResidualBoundsTheTrueError checks that ‖x − x*‖ ≤ Residual(x)/μ. The minimizer x* is computed
// in 400 bits by trying every pattern of active bounds and signs.
func TestResidualBoundsTheTrueError(t *testing.T) {
	const cases = 3000
	rnd := rand.New(rand.NewPCG(3, 14))
	tight := 0
	for c := range cases {
		p, q, lambda, lo, hi := instance(rnd, loss.Squared{})
		if _, d := p.Data.Dims(); d > 2 {
			continue
		}
		o := p.Perturb(q)
		star := solveExactly(p, q, lambda, lo, hi)
		require.NotNil(t, star, "case %d", c)
		x := make([]float64, len(star))
		// The distance of the point from x* ranges from a rounding to a large one.
		shift := math.Pow(10, -17*rnd.Float64())
		for j, v := range star {
			x[j] = min(max(bnum(v), lo), hi)
			if rnd.IntN(3) > 0 {
				x[j] = min(max(x[j]+shift*rnd.NormFloat64(), lo), hi)
			}
		}
		diff := make([]*big.Float, len(star))
		for j, v := range star {
			diff[j] = bsub(bf(x[j]), v)
		}
		bound := o.Residual(x) / o.Modulus()
		require.True(t, bnorm(diff).Cmp(bf(bound)) <= 0, "case %d: ‖x−x*‖ = %v above the certified %v", c, bnum(bnorm(diff)),
			bound)
		if bound <= 100*bnum(bnorm(diff)) {
			tight++
		}
	}
	require.Greater(t, tight, cases/10, "the bound is hardly ever close to the error")
}

// TestResidualCountsTheShift checks a point on a sphere. The rounded point is certified in place of
// an exact point on the sphere nearby, and where f is steep, the distance between them adds much to
// the residual.
func TestResidualCountsTheShift(t *testing.T) {
	x := []float64{0.6, 0.8}
	ball := prox.L2Ball{R: 1}
	ball.Prox(x, x, 1)
	shift := prox.RoundingOf(ball).Shift(x)
	require.Positive(t, shift)
	data, err := NewData([][]float64{{-0.8e6, 0.6e6}}, []float64{0}, loss.Bounds{Row: 2e6, Label: 1})
	require.NoError(t, err)
	o := unperturbed(&Problem{Data: data, Loss: loss.Squared{}, Set: ball})
	require.GreaterOrEqual(t, o.Residual(x), 1e12*shift)
}

// TestResidualWithoutClosedFormNeedsAPointOfC checks that nothing is certified at a point x that
// lies one rounding outside a half-space C, where r + ι_C has no closed form. The gradient of f
// balances ∂r at x, which looks like a minimizer. The true minimizer is 4e-8 away, because x can
// return to C only along a direction that is nearly parallel to its boundary.
func TestResidualWithoutClosedFormNeedsAPointOfC(t *testing.T) {
	const slope = 1e-8
	reg := prox.L1Box{Weight: 1, Lo: -1, Hi: 1}
	x := []float64{0.5, 1}
	over := 1 + slope*x[0]
	set := prox.HalfSpace{A: []float64{slope, 1}, B: over - 4*0x1p-52}
	_, known := sumOf(reg, set)
	require.False(t, known)
	require.Zero(t, set.Func(x), "within the tolerance of the set")
	require.Greater(t, over, set.B)

	data, err := NewData([][]float64{{0, 0}}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	q := Perturbation{Linear: []float64{-1.5, -10}, Quad: mat.NewDiagDense(2, []float64{1, 1})}
	o := (&Problem{Data: data, Loss: loss.Squared{}, Reg: reg, Set: set}).Perturb(q)
	// The second coordinate stays at its bound, because the multiplier 8 of the bound exceeds the
	// multiplier of the half-space. The minimizer is therefore (0.5 - (over-B)/slope, 1).
	distance := (over - set.B) / slope
	require.InDelta(t, 4*0x1p-52/slope, distance, 1e-8)
	require.GreaterOrEqual(t, o.Residual(x)/o.Modulus(), distance)
	// Inside the half-space the multiplier is 0 and the bound is exact.
	set.B = 2
	o = (&Problem{Data: data, Loss: loss.Squared{}, Reg: reg, Set: set}).Perturb(q)
	require.Less(t, o.Residual(x), 1e-10)
}

// TestResidualCountsQuadError checks QuadError. Theorems are about Q = Quad + E, so that the
// minimizer for Quad has no residual but is not the minimizer for Q. Without QuadError ≥ ‖E‖,
// neither Residual nor Residual/Modulus would be a bound for Q.
func TestResidualCountsQuadError(t *testing.T) {
	data, err := NewData([][]float64{{0, 0}}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	p := &Problem{Data: data, Loss: loss.Squared{}}
	quad := mat.NewSymDense(2, []float64{3, 1, 1, 2})
	const e = 0x1p-20
	for _, center := range [][]float64{nil, {5, -7}} {
		for _, sign := range []float64{1, -1} {
			exact := mat.NewSymDense(2, []float64{3 + sign*e, 1, 1, 2})
			q := Perturbation{Linear: []float64{-3, -1}, Center: center, Quad: quad, MinEig: 1.38, MaxEig: 3.62}
			x := []float64{1, 0} // Quad·x = −b
			if center != nil {
				floats.Add(x, center)
			}
			// The minimizer for Q is x − Q⁻¹Ex, and the gradient at x for Q is Ex.
			var move mat.VecDense
			require.NoError(t, move.SolveVec(exact, mat.NewVecDense(2, []float64{-sign * e, 0})))
			distance := mat.Norm(&move, 2)

			o := p.Perturb(q)
			require.Less(t, o.Residual(x), e/1000)
			require.Less(t, o.Residual(x)/o.Modulus(), distance/1000)
			q.QuadError = e
			o = p.Perturb(q)
			require.GreaterOrEqual(t, o.Residual(x), e)
			require.LessOrEqual(t, o.Residual(x), e*(1+1e-9))
			require.GreaterOrEqual(t, o.ResidualWithin(x, 1), e)
			require.GreaterOrEqual(t, o.ResidualPair(make([]float64, 2), make([]float64, 2), x, make([]float64, 2)), e)
			require.GreaterOrEqual(t, o.Residual(x)/o.Modulus(), distance)
		}
	}
}

func TestResidualGolden(t *testing.T) {
	var g struct {
		X      [][]float64 `json:"X"`
		YClass []float64   `json:"y_class"`
		YReg   []float64   `json:"y_reg"`
		Delta  float64     `json:"Delta"`
		B      []float64   `json:"b"`
		Logit  []float64   `json:"logistic"`
		LS     []float64   `json:"least_squares_half"`
		Huber  []float64   `json:"huberised_least_squares_C_0.5"`
		Ball   []float64   `json:"logistic_ball_radius_0.5"`
		L1     []float64   `json:"least_squares_half_l1_0.3"`
	}
	text, err := os.ReadFile("testdata/perturbed_objective_solutions.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	d := len(g.B)
	q := Perturbation{Linear: g.B, Quad: mat.NewDiagDense(d, []float64{g.Delta, g.Delta, g.Delta})}
	bounds := loss.Bounds{Row: 10, Label: 10}
	class, err := NewData(g.X, g.YClass, loss.Bounds{Row: 10, Label: 1})
	require.NoError(t, err)
	reg, err := NewData(g.X, g.YReg, bounds)
	require.NoError(t, err)
	clipped, err := loss.NewClipped(loss.Squared{}, 0.5)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		p    *Problem
		want []float64
	}{
		"logistic": {&Problem{Data: class, Loss: loss.Logistic{}}, g.Logit},
		"squared":  {&Problem{Data: reg, Loss: loss.Squared{}}, g.LS},
		"clipped":  {&Problem{Data: reg, Loss: clipped}, g.Huber},
		"ball":     {&Problem{Data: class, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 0.5}}, g.Ball},
		"l1":       {&Problem{Data: reg, Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.3}}, g.L1},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, certifiable(c.p))
			o := c.p.Perturb(q)

			// A solver finds the same point, and the certificate covers its error.
			var h prox.Operator
			if c.p.Set != nil {
				h = c.p.Set
			}
			res, err := splitting.Minimize(context.Background(), splitting.Problem{F: o, G: c.p.Reg, H: h}, make([]float64, d),
				nil)
			require.NoError(t, err)
			require.InDeltaSlice(t, c.want, res.X, 1e-8)
			// The golden digits are correct to 1e-15 each.
			require.LessOrEqual(t, floats.Distance(c.want, res.X, 2), o.Residual(res.X)/o.Modulus()+2e-15)

			x := append([]float64(nil), c.want...)
			if c.p.Set != nil {
				// The golden point has 16 digits and may lie one rounding outside the set.
				c.p.Set.Prox(x, x, 1)
			}
			// Golden digits are correct to 1e-15 and the Hessian is at most 10; on the sphere the
			// allowance is 1e-12 of a gradient of less than 10.
			require.Less(t, o.Residual(x), map[bool]float64{true: 3e-14, false: 1e-11}[c.p.Set == nil])
			// A point at a distance of 1e-6 has a large residual: residual ≥ μ·distance.
			x[0] -= math.Copysign(1e-6, x[0])
			require.GreaterOrEqual(t, o.Residual(x), g.Delta*0.99e-6)
			// Off the sphere the normal cone is {0}, so that the residual is rightly large.
			if c.p.Set == nil {
				require.Less(t, o.Residual(x), 1e-4)
			}
		})
	}
}

func TestResidualSpecialPoints(t *testing.T) {
	data, x, _ := random(1, 10, 3)
	box := &Problem{Data: data, Loss: square{}, Set: prox.Box{Lo: -0.1, Hi: 0.1}}
	o := box.Perturb(Perturbation{})
	require.Equal(t, math.Inf(1), o.Residual([]float64{0, 0, 0.2}), "outside C")
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Equal(t, math.Inf(1), o.Residual([]float64{0, v, 0}))
	}
	// An overflow must not give NaN.
	free := (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{Linear: []float64{math.MaxFloat64,
		-math.MaxFloat64, 0}})
	require.False(t, math.IsNaN(free.Residual([]float64{1e308, -1e308, 1e308})))
	undefined := (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{Linear: []float64{math.NaN(), 0, 0}})
	require.Equal(t, math.Inf(1), undefined.Residual(x))
	require.Panics(t, func() { o.Residual(x[:2]) })
	for _, q := range []Perturbation{{LinearError: -1}, {LinearError: math.NaN()}, {QuadError: -1},
		{QuadError: math.NaN()}} {
		require.PanicsWithValue(t, badError, func() { box.Perturb(q) })
	}

	// If r + ι_C has no closed form, the normal cone is taken as {0}.
	plane, err := prox.NewAffine(mat.NewDense(1, 3, []float64{1, 1, 1}), []float64{0})
	require.NoError(t, err)
	_, known := sumOf(prox.L2Norm{Weight: 1}, plane)
	if !known {
		p := &Problem{Data: data, Loss: square{}, Reg: prox.L2Norm{Weight: 1}, Set: plane}
		require.ErrorIs(t, certifiable(p), ErrProblem)
		require.ErrorContains(t, certifiable(p), "Coordinate(i int) (l1, l2, lo, hi float64)")
		alone := &Problem{Data: data, Loss: square{}, Reg: prox.L2Norm{Weight: 1}}
		require.Equal(t, alone.Perturb(Perturbation{}).Residual(make([]float64, 3)),
			p.Perturb(Perturbation{}).Residual(make([]float64, 3)))
		require.Equal(t, math.Inf(1), p.Perturb(Perturbation{}).Residual([]float64{1, 1, 1}))
	}
	for _, l := range []loss.Loss{loss.Pinball{Tau: 0.5}, loss.Absolute{}, loss.Hinge{}} {
		require.ErrorContains(t, certifiable(&Problem{Data: data, Loss: l}), "loss.Moreau")
	}
	opaque := &Problem{Data: data, Loss: square{}, Reg: onlyProx{}}
	require.ErrorIs(t, certifiable(opaque), ErrProblem)
	require.ErrorContains(t, certifiable(opaque), "Dist(x, v []float64) float64") // the method it lacks
	require.Equal(t, math.Inf(1), opaque.Perturb(Perturbation{}).Residual(x))
	require.ErrorIs(t, certifiable(nil), ErrProblem)

	// A loss that hides its linear form gets the same value.
	linear := unperturbed(&Problem{Data: data, Loss: smoothAbs{}}).Residual(x)
	hidden := unperturbed(&Problem{Data: data, Loss: general{smoothAbs{}}}).Residual(x)
	require.InEpsilon(t, linear, hidden, 1e-9)
}

// TestResidualPair checks the certificate at a double-double point x + low. It is at least the
// exact residual there and exceeds it only by the allowance, which does not depend on low.
func TestResidualPair(t *testing.T) {
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 0.7}, loss.Logistic{}} {
		rnd := rand.New(rand.NewPCG(19, 5))
		for c := range 500 {
			p, q, lambda, lo, hi := instance(rnd, l)
			o := p.Perturb(q)
			d := o.Dim()
			x, low := make([]float64, d), make([]float64, d)
			for j := range x {
				if rnd.IntN(4) > 0 {
					x[j] = min(max(rnd.NormFloat64()*math.Pow(10, 4*rnd.Float64()-2), lo), hi)
				}
				if x[j] != lo && x[j] != hi {
					low[j] = x[j] * 0x1p-54 * (2*rnd.Float64() - 1)
				}
			}
			bx := make([]*big.Float, d)
			for j := range x {
				bx[j] = badd(bf(x[j]), bf(low[j]))
			}
			want := bgrad(p, q, bx)
			exact := bdist(want, x, lambda, lo, hi)
			// bdist evaluates the term l2·x, if there is one, at x without low.
			if g, ok := sumOf(p.Reg, p.Set); ok {
				_, l2, _, _ := g.(prox.Coordinatewise).Coordinate(0)
				require.Zero(t, l2)
			}
			grad, gradLow := make([]float64, d), make([]float64, d)
			got := o.ResidualPair(grad, gradLow, x, low)
			require.True(t, bf(got).Cmp(exact) >= 0, "%T case %d: %v below the exact %v", l, c, got, bnum(exact))
			_, _, allowance := o.s().pairGrad(x, low)
			require.LessOrEqual(t, got, (bnum(exact)+2.1*allowance+0x1p-96*floats.Norm(grad, 2))*(1+1e-13), "%T case %d", l, c)
			for j := range want {
				require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(grad[j]), bf(gradLow[j])), want[j]))), allowance)
			}
		}
	}
}

// TestResidualPairSpecial checks that nothing is certified if low is not small compared with x or
// is not finite.
func TestResidualPairSpecial(t *testing.T) {
	data, x, _ := random(3, 5, 2)
	o := unperturbed(&Problem{Data: data, Loss: loss.Huber{Delta: 1}})
	g := make([]float64, 2)
	for _, low := range [][]float64{{1, 0}, {math.NaN(), 0}, {0, math.Inf(1)}} {
		require.Equal(t, math.Inf(1), o.ResidualPair(g, g, x, low))
	}
	require.Equal(t, o.Residual(x), o.ResidualPair(g, make([]float64, 2), x, make([]float64, 2)))
	ball := unperturbed(&Problem{Data: data, Loss: loss.Huber{Delta: 1}, Set: prox.L2Ball{R: 1}})
	require.PanicsWithValue(t, badPair, func() { ball.ResidualPair(g, g, x, g) })
	require.PanicsWithValue(t, badLen, func() { o.ResidualPair(g, g, x, g[:1]) })
}

// TestPlainGradOfManySmallRecords checks that the bound on the rounding of plain sums covers small
// terms that are lost when they are added to a large sum.
func TestPlainGradOfManySmallRecords(t *testing.T) {
	const n = 6000
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i], labels[i] = []float64{1}, -0.6*unit
	}
	tight := 0.0
	for big := range 20 { // the large record is at another place of the canonical order each time
		labels[0] = -1 - float64(big)/64
		data, err := NewData(rows, labels, loss.Bounds{Row: 1, Label: 2})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		grad, _, rounding := p.Perturb(Perturbation{}).s().plainGrad([]float64{0})
		exact := bgrad(p, Perturbation{}, bigs([]float64{0}))
		e := math.Abs(bnum(bsub(exact[0], bf(grad[0]))))
		require.LessOrEqual(t, e, boundRoom*rounding)
		tight = max(tight, e/rounding)
	}
	require.Greater(t, tight, 0.05)
}

// TestResidualWithinBoundsTheExactOne checks that the cheap bound from plain sums is at least the
// exact residual, at all scales. Where the cheap bound exceeds the target, ResidualWithin returns
// Residual.
func TestResidualWithinBoundsTheExactOne(t *testing.T) {
	cases := testkit.Of(200, 700)
	for _, l := range certified() {
		rnd := rand.New(rand.NewPCG(23, 5))
		for c := range cases {
			p, q, lambda, lo, hi := instance(rnd, l)
			o := p.Perturb(q)
			x := make([]float64, o.Dim())
			for j := range x {
				if rnd.IntN(4) > 0 {
					x[j] = min(max(rnd.NormFloat64()*math.Pow(10, 4*rnd.Float64()-2), lo), hi)
				}
			}
			exact := bdist(bgrad(p, q, bigs(x)), x, lambda, lo, hi)
			plain := o.ResidualWithin(x, math.Inf(1))
			require.True(t, bf(plain).Cmp(exact) >= 0, "%T case %d: %v below the exact %v", l, c, plain, bnum(exact))
			accurate := o.Residual(x)
			require.Equal(t, accurate, o.ResidualWithin(x, 0))
			require.Equal(t, accurate, o.ResidualWithin(x, math.NaN()))
			require.Equal(t, plain, o.ResidualWithin(x, plain))
		}
	}
}

// TestPlainGradCoversItsError checks the bound on the rounding of plain sums where sums cancel, so
// that no other part of the certificate would cover the error. It also checks that some errors come
// within a factor of 100 of the bound.
func TestPlainGradCoversItsError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 2))
	vec := func(n int, decades float64) []float64 {
		v := make([]float64, n)
		for j := range v {
			v[j] = rnd.NormFloat64() * math.Pow(10, decades*(2*rnd.Float64()-1))
		}
		return v
	}
	tightest := map[string]float64{}
	for c := range testkit.Of(80, 200) {
		n, d := 1+rnd.IntN(60), 1+rnd.IntN(12)
		x := vec(d, 2)
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = vec(d, 3*rnd.Float64())
			if c%3 == 0 { // the products in a prediction cancel
				rows[i][0] -= floats.Dot(rows[i], x) / x[0]
			}
			labels[i] = floats.Dot(rows[i], x) // the labels interpolate
			if rnd.IntN(2) == 0 {
				labels[i] += rnd.NormFloat64()
			}
		}
		if n > 1 && rnd.IntN(2) == 0 { // the gradients of two records cancel
			rows[0], labels[0] = rows[1], 2*floats.Dot(rows[1], x)-labels[1]
		}
		dense, sparse := twins(t, rows, labels, loss.Bounds{Row: 1e5, Label: 1e9})
		q := Perturbation{}
		if rnd.IntN(2) == 0 {
			q.Linear = vec(d, 3)
		}
		if rnd.IntN(2) == 0 { // the center is close to the point
			q.Center = append([]float64(nil), x...)
			q.Center[0] += 1e-9 * rnd.NormFloat64()
		}
		switch rnd.IntN(3) {
		case 0:
			diag := vec(d, 3)
			for j := range diag {
				diag[j] = math.Abs(diag[j])
			}
			q.Quad = mat.NewDiagDense(d, diag)
		case 1:
			g := mat.NewDense(d, d, vec(d*d, 2))
			s := mat.NewSymDense(d, nil)
			s.SymOuterK(1, g)
			q.Quad = s
		}
		classes, sparseClasses := twins(t, rows, labels, loss.Bounds{Row: 1e5, Label: 1})
		for name, l := range map[string]loss.Loss{
			"squared": loss.Squared{}, "huber": loss.Huber{Delta: 0.7}, "logistic": loss.Logistic{},
			"envelope": loss.Moreau{Loss: loss.Hinge{}, Beta: 3},
		} {
			pair := []*Data{dense, sparse}
			if loss.CheckData(l, d, dense.Bounds()) != nil {
				pair = []*Data{classes, sparseClasses}
			}
			for _, data := range pair {
				p := &Problem{Data: data, Loss: l}
				grad, _, rounding := p.Perturb(q).s().plainGrad(x)
				rounding *= boundRoom
				diff := bgrad(p, q, bigs(x))
				for j, g := range grad {
					diff[j] = bsub(diff[j], bf(g))
				}
				e := bnorm(diff)
				require.True(t, bf(rounding).Cmp(e) >= 0, "%s case %d: error %v above the bound %v", name, c, bnum(e), rounding)
				tightest[name] = max(tightest[name], bnum(e)/rounding)
			}
		}
	}
	for name, r := range tightest {
		require.Greater(t, r, 0.01, "%s: the bound is within a hundredfold of some error", name)
	}
}

// TestResidualWithinAtTheEnds checks ResidualWithin under underflow and overflow, and for losses
// without a bound on their curvature.
func TestResidualWithinAtTheEnds(t *testing.T) {
	for _, scale := range []float64{1e-300, 1e-160, 1e-155, 1e155, 1e300} {
		bounds := loss.Bounds{Row: 3 * scale, Label: max(scale, 1)}
		data, err := NewData([][]float64{{scale, 2 * scale}, {-scale, scale}}, []float64{scale, 1}, bounds)
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		s := mat.NewSymDense(2, []float64{scale, scale / 2, scale / 2, scale})
		for _, x := range [][]float64{{1, -1}, {1e-170, 1e170}, {scale, scale}} {
			q := Perturbation{Quad: s, Center: []float64{1, 1}}
			exact := bnorm(bgrad(p, q, bigs(x)))
			got := p.Perturb(q).ResidualWithin(x, math.MaxFloat64)
			require.False(t, math.IsNaN(got))
			require.True(t, math.IsInf(got, 1) || bf(got).Cmp(exact) >= 0, "scale %v, x %v", scale, x)
		}
	}
	data, x, _ := random(3, 10, 3)
	for _, l := range []loss.Loss{general{smoothAbs{}}, square{}} {
		o := unperturbed(&Problem{Data: data, Loss: l})
		require.InEpsilon(t, o.Residual(x), o.ResidualWithin(x, math.Inf(1)), 1e-9)
	}
	require.Panics(t, func() { unperturbed(&Problem{Data: data, Loss: square{}}).ResidualWithin(x[:2], 1) })
	require.Equal(t, math.Inf(1), unperturbed(&Problem{Data: data, Loss: square{}}).ResidualWithin([]float64{0,
		math.NaN(), 0}, 1))
}

// sumOf is prox.Sum with a bool in the place of the error.
func sumOf(g, h prox.Operator) (prox.Operator, bool) {
	sum, err := prox.Sum(g, h)
	return sum, err == nil
}
