// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

func twoRecords(t *testing.T, label float64) *Data {
	t.Helper()
	data, err := NewData([][]float64{{1, 0, 0}, {0, 0.5, 0}}, []float64{1, -1}, loss.Bounds{Row: 1, Label: label})
	require.NoError(t, err)
	return data
}

// TestPublic checks each field of Public, the description of a problem by quantities that do not
// depend on the records.
func TestPublic(t *testing.T) {
	p := Problem{Data: twoRecords(t, 2), Loss: loss.Huber{Delta: 1}, Reg: prox.ElasticNet{L1: 2, L2: 3},
		Set: prox.Box{Lo: 1, Hi: 2}}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, 3, q.Dim)
	require.Equal(t, 2, q.Records)
	require.Equal(t, int64(2), q.MaxRecords)
	require.Equal(t, loss.Bounds{Row: 1, Label: 2}, q.Bounds)
	require.Equal(t, p.Loss.Constants(q.Bounds, q.Radius), q.Constants)
	require.Equal(t, 3.0, q.Modulus)
	require.InDelta(t, 2*math.Sqrt(3), q.Radius, 1e-14)
	require.True(t, q.Linear)
	require.True(t, q.Split)
	require.InDelta(t, math.Sqrt(3), q.Anchor, 1e-13)      // p = (1,1,1)
	require.Zero(t, q.Slope)                               // the normal cone at the corner contains −∇Reg
	require.InDelta(t, 1, q.Gradient, 1e-11)               // Delta·Row
	require.InDelta(t, 2+math.Sqrt(3), q.lossRange, 1e-11) // Delta·(Row·‖p‖+Label)
	require.Empty(t, q.Assumptions)

	again, err := q.Complete(dp.Replace)
	require.NoError(t, err)
	require.Equal(t, q, again)
}

func TestPublicRecords(t *testing.T) {
	p := Problem{Data: twoRecords(t, 1), Loss: loss.Logistic{}}
	for _, c := range []struct {
		declared int
		most     int64
	}{{0, 1 << 30}, {1, 4}, {1000, 4000}, {1 << 38, 1 << 40}, {math.MaxInt, 1 << 40}} {
		p.Records = c.declared
		q, err := p.Public(dp.AddRemove)
		require.NoError(t, err)
		require.Equal(t, c.declared, q.Records)
		require.Equal(t, c.most, q.MaxRecords)
	}
	p.Records = -1
	_, err := p.Public(dp.AddRemove)
	require.ErrorIs(t, err, ErrProblem)
	_, err = p.Public(0)
	require.ErrorIs(t, err, dp.ErrRelation)

	q, err := p.Public(dp.Replace)
	require.NoError(t, err, "under Replace the declared number of records is ignored")
	require.Equal(t, int64(2), q.MaxRecords)
	q.MaxRecords = 1
	require.ErrorIs(t, q.Admit(&p), ErrProblem)
	q.MaxRecords = 2
	require.NoError(t, q.Admit(&p))
}

// TestPublicOfNoRecords checks that under AddRemove Public does not depend on the number of
// records, and is the same for none.
func TestPublicOfNoRecords(t *testing.T) {
	empty, err := Empty(3, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		want, err := (&Problem{Data: twoRecords(t, 1), Loss: loss.Logistic{}}).Public(rel)
		require.NoError(t, err)
		got, err := (&Problem{Data: empty, Loss: loss.Logistic{}}).Public(rel)
		require.NoError(t, err)
		if rel == dp.Replace {
			require.Equal(t, int64(1), got.MaxRecords)
			got.Records, got.MaxRecords = 2, 2
		}
		require.Equal(t, want, got)
	}
}

// TestPublicSmooth checks that a loss with a kink is refused with an error that names smooth
// replacements, both for a Problem and for a Public.
func TestPublicSmooth(t *testing.T) {
	for _, c := range []struct {
		l  loss.Loss
		ok bool
	}{{loss.Logistic{}, true}, {loss.Hinge{}, false}, {loss.Moreau{Loss: loss.Hinge{}, Beta: 10}, true}} {
		q, err := (&Problem{Data: twoRecords(t, 1), Loss: c.l}).Public(dp.Replace)
		if c.ok {
			require.NoError(t, err)
			require.NoError(t, q.Smooth())
			continue
		}
		require.ErrorIs(t, err, ErrProblem)
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "loss.Moreau")
		q, err = Public{Dim: 2, Records: 2, Constants: c.l.Constants(loss.Bounds{Row: 1, Label: 1},
			math.Inf(1))}.Complete(dp.Replace)
		require.NoError(t, err)
		require.ErrorIs(t, q.Smooth(), dp.ErrCondition)
		_, err = q.Cover(PublicPerturbation{MinEig: 1, MaxEig: 1}, 0, 1)
		require.ErrorContains(t, err, "loss.Moreau")
		require.ErrorContains(t, err, "loss.SmoothedHinge")
	}
}

// TestFloorGoal checks that covering rounding costs little. At ε = 1 and δ = 1e-9, noise that hides
// a displacement of 2R with 1 % of ε is about 1083R; it must be at most 12 % of the distance
// σ/(0.012n) by which the linear perturbation moves a coordinate.
func TestFloorGoal(t *testing.T) {
	// These are the constants that lop calibrates for d = 12 and B = 10.
	const sigma, delta, bmax = 12, 4.4, 176
	per := PublicPerturbation{Linear: bmax, MinEig: delta, MaxEig: delta}
	b := loss.Bounds{Row: 1, Label: 1}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, n := range []int{1e4, 1e5, 1e6, 1e7, 1e8} {
			q, err := Public{
				Dim: 12, Records: n, Bounds: b, Constants: loss.Logistic{}.Constants(b, math.Inf(1)),
				Linear: true, exact: true, Split: true, lossRange: math.Ln2, Gradient: 1,
			}.Complete(rel)
			require.NoError(t, err)
			r, err := q.Cover(per, 0, 10)
			require.NoError(t, err)
			require.Less(t, 1083*r, 0.12*sigma/(0.012*float64(n)), "%v, n = %d", rel, n)
		}
	}
}

func TestCover(t *testing.T) {
	b := loss.Bounds{Row: 1, Label: 1}
	q, err := Public{
		Dim: 2, Records: 1e6, Bounds: b, Constants: loss.Logistic{}.Constants(b, math.Inf(1)),
		Linear: true, Split: true, lossRange: 1, ProxFactor: 4,
	}.Complete(dp.Replace)
	require.NoError(t, err)
	per := PublicPerturbation{Linear: 10, MinEig: 1, MaxEig: 1}
	floor := q.Floor(per)
	require.Positive(t, floor)
	for _, c := range []struct{ stated, radius, want float64 }{
		{0, 1, floor}, {0, 1e12, 10}, {2 * floor, 1e12, 2 * floor}, {floor, 1, floor},
	} {
		r, err := q.Cover(per, c.stated, c.radius)
		require.NoError(t, err)
		require.Equal(t, c.want, r)
	}
	_, err = q.Cover(per, 0.99*floor, 1)
	require.ErrorIs(t, err, dp.ErrCondition)

	q.lossRange, q.Gradient, q.Constants.Lipschitz, q.OnSet.Lipschitz = math.Inf(1), math.Inf(1), 0, 0
	_, err = q.Cover(per, 1, 1)
	require.ErrorIs(t, err, dp.ErrCondition)
}

// hostile is a perturbed problem whose scales are drawn independently of each other.
type hostile struct {
	p   *Problem
	rel dp.Relation
	q   Public
	per PublicPerturbation
	o   *Objective
}

func newHostile(t *testing.T, rnd *rand.Rand) hostile {
	t.Helper()
	scale := func(most float64) float64 { return math.Pow(10, most*(2*rnd.Float64()-1)) }
	d, n := 2+2*rnd.IntN(3), 1+rnd.IntN(12)
	bounds := loss.Bounds{Row: scale(5), Label: scale(5)}
	losses := []loss.Loss{
		loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: scale(4)}, loss.SmoothedHinge{Gamma: scale(4)},
		loss.Multinomial{Classes: 2},
		loss.Moreau{Loss: loss.Absolute{}, Beta: scale(6)}, loss.Moreau{Loss: loss.EpsilonInsensitive{Epsilon: scale(4)},
			Beta: scale(6)},
		loss.Clipped{Loss: loss.Squared{}, Threshold: scale(4)}, loss.Clipped{Loss: smoothAbs{},
			Threshold: scale(4)}, general{smoothAbs{}},
	}
	l := losses[rnd.IntN(len(losses))]
	if loss.CheckData(l, d, bounds) != nil { // the labels of this loss are classes
		bounds.Label = 1
	}
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range d {
			rows[i][j] = rnd.NormFloat64() * bounds.Row * scale(2)
		}
		labels[i] = rnd.NormFloat64() * bounds.Label
	}
	data, err := NewData(rows, labels, bounds)
	require.NoError(t, err)
	p := &Problem{Data: data, Loss: l, Records: n}
	switch r := scale(4); rnd.IntN(6) {
	case 0:
		p.Reg = prox.L1{Weight: r}
	case 1:
		p.Reg = prox.ElasticNet{L1: r, L2: scale(4)}
	case 2:
		p.Set = prox.L2Ball{R: r}
	case 3:
		p.Set = prox.Box{Lo: r, Hi: 3 * r}
	case 4:
		p.Set = prox.Simplex{Total: r}
	}
	h := hostile{p: p, rel: dp.Relation(1 + rnd.IntN(2))}
	b, ridge := make([]float64, d), scale(8)
	for j := range b {
		b[j] = rnd.NormFloat64()
	}
	floats.Scale(scale(6), b)
	pert := Perturbation{Linear: b}
	h.per = PublicPerturbation{Linear: floats.Norm(b, 2), MinEig: ridge, MaxEig: ridge}
	if rnd.IntN(2) == 0 {
		diag := make([]float64, d)
		floats.AddConst(ridge, diag)
		pert.Quad, pert.MinEig = mat.NewDiagDense(d, diag), ridge
	} else { // Q is ridge·I + vv', around a center
		v, sym := mat.NewVecDense(d, nil), mat.NewSymDense(d, nil)
		for j := range d {
			v.SetVec(j, rnd.NormFloat64()*math.Sqrt(ridge))
			sym.SetSym(j, j, ridge)
		}
		sym.SymRankOne(sym, 1, v)
		pert.Quad, pert.MinEig = sym, ridge/2
		h.per.MinEig, h.per.MaxEig = ridge/2, 2*(ridge+mat.Dot(v, v))
		pert.Center = make([]float64, d)
		for j := range d {
			pert.Center[j] = rnd.NormFloat64() * scale(3)
		}
		h.per.Center = 2 * floats.Norm(pert.Center, 2)
	}
	if rnd.IntN(2) == 0 {
		pert.LinearError, pert.QuadError = scale(10)*1e-12*floats.Norm(b, 2), scale(3)*1e-6*ridge
	}
	h.per.LinearError, h.per.QuadError = pert.LinearError, pert.QuadError
	h.q, err = p.Public(h.rel)
	require.NoError(t, err)
	h.o = p.Perturb(pert)
	return h
}

// lost returns the amount that Residual adds for rounding and other errors at x, without the
// rounding of that sum itself.
func (h hostile) lost(x []float64) float64 {
	hi, lo, allowance := h.o.s().pairGrad(x, nil)
	total, _ := sumOf(h.p.Reg, h.p.Set)
	g, s, e := total.(prox.Subdifferential), h.o.s(), make([]float64, len(x))
	at := s.distance(g, x, make([]float64, len(x)), hi, lo)
	if floats.Add(hi, lo); h.q.Split {
		at = 0x1p-97 * floats.Norm(hi, 2)
	} else {
		at -= g.Dist(x, hi)
	}
	s.shift(e, x)
	return boundRoom*allowance + s.linearError + s.quadError*floats.Norm(e, 2) + at +
		(h.o.Smoothness()+h.o.Modulus())*prox.RoundingOf(g).Shift(x)
}

// TestAllowanceIsAbove checks that the bound of Public on rounding is at least the amount that
// Residual adds, at points of every size up to the radius.
func TestAllowanceIsAbove(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	tight, cases := 0, 10000
	if testing.Short() {
		cases = 1000
	}
	for range cases {
		h := newHostile(t, rnd)
		rho := 4 * h.q.Reach(h.per)
		x := make([]float64, h.q.Dim)
		for j := range x {
			x[j] = rnd.NormFloat64()
		}
		floats.Scale(rho/2*math.Pow(10, -6*rnd.Float64()*float64(rnd.IntN(2)))/floats.Norm(x, 2), x)
		if h.p.Set != nil {
			h.p.Set.Prox(x, x, 1)
		}
		got := h.lost(x)
		want := h.q.allowance(h.per, rho)
		require.LessOrEqual(t, got, want, "%T %T %T", h.p.Loss, h.p.Reg, h.p.Set)
		if got > want/1000 {
			tight++
		}
	}
	require.Greater(t, tight, cases/20, "too few cases come near the bound, so that it is hardly tested")
}

// TestReach checks that the norm of the minimizer is at most Reach.
func TestReach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	near := 0
	for range 200 {
		h := newHostile(t, rnd)
		g, _ := sumOf(h.p.Reg, h.p.Set)
		x, grad := make([]float64, h.q.Dim), make([]float64, h.q.Dim)
		g.Prox(x, x, 1)
		mu, gamma := h.o.Modulus(), 1/h.o.Steepness()
		require.LessOrEqual(t, floats.Norm(x, 2), h.q.Anchor)
		if mu*gamma < 1e-3 {
			continue // the plain iteration would take too long here
		}
		for last := math.Inf(1); ; {
			old := append([]float64(nil), x...)
			h.o.Grad(grad, x)
			floats.AddScaled(x, -gamma, grad)
			g.Prox(x, x, gamma)
			step := floats.Distance(old, x, 2)
			if step <= 1e-12*floats.Norm(x, 2) || step >= last {
				break
			}
			last = step
		}
		rho := h.q.Reach(h.per)
		require.LessOrEqual(t, floats.Norm(x, 2), rho*(1+1e-6), "%T %T %T", h.p.Loss, h.p.Reg, h.p.Set)
		if floats.Norm(x, 2) > rho/20 {
			near++
		}
	}
	require.Greater(t, near, 15)
}
