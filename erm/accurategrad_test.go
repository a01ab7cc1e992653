// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// TestResidualUnderCancellation checks Residual where the labels interpolate, so that the gradients
// of the records cancel. The allowance for rounding must then follow the size of the predictions,
// not the size of their small differences from the labels.
func TestResidualUnderCancellation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const n, d = 40, 3
		truth := []float64{1e3 * rnd.NormFloat64(), 1e3, -1e3}
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64()}
			labels[i] = floats.Dot(rows[i], truth)
		}
		data, err := NewData(rows, labels, loss.Bounds{Row: 10, Label: 1e5})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		// Q is ill conditioned, and the center is close to the point.
		g := mat.NewDense(d, d, nil)
		g.Apply(func(i, _ int, _ float64) float64 { return rnd.NormFloat64() * math.Pow(1e4, float64(i)) }, g)
		w := mat.NewSymDense(d, nil)
		w.SymOuterK(1, g)
		center := append([]float64(nil), truth...)
		center[0] += 1e-9
		q := Perturbation{Quad: w, Center: center}
		bx := []*big.Float{bf(truth[0]), bf(truth[1]), bf(truth[2])}
		exact := bnorm(bgrad(p, q, bx))
		require.True(t, bf(p.Perturb(q).Residual(truth)).Cmp(exact) >= 0)
	}
}

// TestResidualOfCancelledPredictions checks the allowance where the terms of a prediction cancel.
// Double-double arithmetic is accurate relative to those terms, not to the small prediction.
func TestResidualOfCancelledPredictions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	tight := 0
	for range 300 {
		d := 20 + 2*rnd.IntN(90)
		a, x := make([]float64, d), make([]float64, d)
		for j := range a[:d-3] {
			a[j], x[j] = rnd.NormFloat64(), rnd.NormFloat64()
		}
		for j := d - 3; j < d; j++ { // three more terms cancel the sum of the others to 159 bits
			a[j] = 1
			x[j] = -bnum(bdot(a[:j], bigs(x[:j])))
		}
		data, err := NewData([][]float64{a}, []float64{0}, loss.Bounds{Row: 1e3, Label: 1})
		require.NoError(t, err)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 1}} {
			p := &Problem{Data: data, Loss: l}
			exact := bgrad(p, Perturbation{}, bigs(x))
			hi, lo, allowance := p.Perturb(Perturbation{}).s().pairGrad(x, nil)
			for j := range hi {
				e := math.Abs(bnum(bsub(badd(bf(hi[j]), bf(lo[j])), exact[j])))
				require.LessOrEqual(t, e, boundRoom*allowance)
				if e > 1e-6*allowance {
					tight++
				}
			}
		}
	}
	require.Greater(t, tight, 10)
}

// TestDistanceOfPairs checks that the distance from a double-double vector hi + lo to the
// subdifferential uses both hi and lo: it is compared with a distance computed in 400 bits.
func TestDistanceOfPairs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 8))
	data, err := Empty(1, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	tight := 0
	for range 3000 {
		l1, l2 := math.Abs(rnd.NormFloat64()), math.Abs(rnd.NormFloat64())*float64(rnd.IntN(2))
		g := prox.ElasticNet{L1: l1, L2: l2}
		s := unperturbed(&Problem{Data: data, Loss: loss.Squared{}, Reg: g}).s()
		x := []float64{rnd.NormFloat64() * float64(rnd.IntN(4))}
		u := badd(bmul(bf(l2), bf(x[0])), bf(math.Copysign(l1, x[0]))) // an element of ∂g(x)
		v := bmul(u, bf(-1))
		if rnd.IntN(2) == 0 {
			v = badd(v, bf(rnd.NormFloat64()*math.Pow(2, -120*rnd.Float64())))
		}
		hi := bnum(v)
		lo := bnum(bsub(v, bf(hi)))
		exact := badd(badd(bf(hi), bf(lo)), u)
		if x[0] == 0 { // ∂g(0) = [−l1, l1]
			exact = bsub(bmul(badd(bf(hi), bf(lo)), bf(float64(badd(bf(hi), bf(lo)).Sign()))), bf(l1))
		}
		want := max(bnum(exact)*float64(exact.Sign()), 0)
		if x[0] == 0 {
			want = max(bnum(exact), 0)
		}
		got := s.distance(g, x, make([]float64, len(x)), []float64{hi}, []float64{lo}) * (1 + 21*0x1p-52)
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, got, want*(1+1e-13)+0x1p-96*math.Abs(hi)+1e-320)
		if got < 1e-25 {
			tight++
		}
	}
	require.Greater(t, tight, 500)
	// odd embeds prox.L1 and so has its Coordinate method, but its subdifferential differs.
	odd := steepL1{prox.L1{Weight: 1}}
	o := unperturbed(&Problem{Data: data, Loss: loss.Squared{}, Reg: odd})
	require.GreaterOrEqual(t, o.Residual([]float64{3}), 2.0)
}

// steepL1 is 2‖x‖₁. Its Coordinate method, promoted from prox.L1, describes ‖x‖₁ instead.
type steepL1 struct{ prox.L1 }

func (g steepL1) Dist(x, v []float64) float64 { return prox.L1{Weight: 2}.Dist(x, v) }

// TestResidualOfRoundingOnly checks Residual where the labels interpolate and nothing is perturbed.
// The rounding of the predictions is then the whole residual, and the allowance must cover it.
func TestResidualOfRoundingOnly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 2))
	for range 500 {
		truth := []float64{1e3 * rnd.NormFloat64(), 1e3 * rnd.NormFloat64()}
		n := 1 + rnd.IntN(4)
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64()}
			labels[i] = floats.Dot(rows[i], truth)
		}
		data, err := NewData(rows, labels, loss.Bounds{Row: 10, Label: 1e5})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Huber{Delta: 1}}
		exact := bnorm(bgrad(p, Perturbation{}, []*big.Float{bf(truth[0]), bf(truth[1])}))
		require.True(t, bf(p.Perturb(Perturbation{}).Residual(truth)).Cmp(exact) >= 0)
	}
}

// TestResidualOfANearNullDirection checks that the certificate covers the rounding error of Q(x−θ̃)
// even where that product is far smaller than ‖Q‖‖x−θ̃‖.
func TestResidualOfANearNullDirection(t *testing.T) {
	const d = 40
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		q := mat.NewSymDense(d, nil)
		v, x := make([]float64, d), make([]float64, d)
		for j := range v {
			v[j], x[j] = rnd.NormFloat64(), rnd.NormFloat64()
		}
		x[d-1] = -floats.Dot(v[:d-1], x[:d-1]) / v[d-1] // ⟨v,x⟩ is nearly 0
		q.SymRankOne(q, 1, mat.NewVecDense(d, v))
		data, err := NewData([][]float64{make([]float64, d)}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		pert := Perturbation{Quad: q}
		bx := make([]*big.Float, d)
		for j, xj := range x {
			bx[j] = bf(xj)
		}
		require.True(t, bf(p.Perturb(pert).Residual(x)).Cmp(bnorm(bgrad(p, pert, bx))) >= 0)
	}
}

// TestResidualOfACancelledQuad checks the certificate where the rows of Q(x−θ̃) cancel even in
// double-double arithmetic.
func TestResidualOfACancelledQuad(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 9))
	const d = 40
	data, err := Empty(d, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	ones := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range d {
			ones.SetSym(i, j, 1)
		}
	}
	p, q := &Problem{Data: data, Loss: loss.Squared{}}, Perturbation{Quad: ones, Center: make([]float64, d)}
	for range 100 {
		x, one := make([]float64, d), slices.Repeat([]float64{1}, d)
		for j := range x {
			x[j], q.Center[j] = rnd.NormFloat64()*math.Pow(10, 16*rnd.Float64()), rnd.NormFloat64()*1e-3
		}
		clear(q.Center[d-3:])
		for j := d - 3; j < d; j++ { // three more terms cancel the sum of the others to 159 bits
			x[j] = bnum(bsub(bdot(one, bigs(q.Center)), bdot(one[:j], bigs(x[:j]))))
		}
		hi, lo, allowance := p.Perturb(q).s().pairGrad(x, nil)
		for j, g := range bgrad(p, q, bigs(x)) {
			require.LessOrEqual(t, math.Abs(bnum(bsub(g, badd(bf(hi[j]), bf(lo[j]))))), boundRoom*allowance)
		}
	}
}

// TestAllowanceCountsEveryRecord checks that the allowance for rounding is the sum of the
// allowances of the single records, however many partial sums the pass has.
func TestAllowanceCountsEveryRecord(t *testing.T) {
	const n, d = 9000, 80
	data, x, _ := random(12, n, d)
	rows, labels := [][]float64(nil), []float64(nil)
	for _, r := range every(data) {
		rows, labels = append(rows, r[:d]), append(labels, r[d])
	}
	_, sparse := twins(t, rows, labels, data.Bounds())
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, general{smoothAbs{}}} {
		for _, data := range []*Data{data, sparse} {
			s := unperturbed(&Problem{Data: data, Loss: l}).s()
			require.Greater(t, n, 3*grain)
			hi, _, got := s.pairGrad(x, nil)
			want := 0x1p-100 * floats.Norm(hi, 2)
			g, part, one := make([]float64, d), new(partial), newQuery(s.costs, askPair, x, nil, data.r())
			part.reset(&one)
			for i := range n {
				if s.glm != nil {
					want += one.pairLinear(part, data.r(), i, i+1)
				} else {
					l.Grad(g, x, data.Row(i), data.Label(i))
					want += (allowGrad + one.rounding()) * floats.Norm(g, 2)
				}
			}
			require.InEpsilon(t, want, got, 1e-9, "%T", l) // the two sums differ by n roundings
		}
	}
}

// TestAllowanceOfManyRecords checks that a loss with an exact slope has an allowance of about
// 2⁻⁸⁵n, while a loss known only through Scalar has one above 1e-16·n.
func TestAllowanceOfManyRecords(t *testing.T) {
	const n, d = 50_000, 4
	data, x, qs := random(31, n, d)
	p := &Problem{Data: data, Loss: loss.Logistic{}}
	_, _, exact := p.Perturb(qs[4]).s().pairGrad(x, nil)
	p.Loss = foreign{loss.Logistic{}}
	_, _, other := p.Perturb(qs[4]).s().pairGrad(x, nil)
	require.Less(t, exact, 0x1p-85*n)
	require.Greater(t, other, 1e-16*n)
}

// TestAllowanceCountsTheSumsOfAGrain checks that the allowance includes the worst-case rounding of
// a sum over one grain (a block of records that are summed one after the other). No example comes
// near the worst case, so that only the formula can be tested.
func TestAllowanceCountsTheSumsOfAGrain(t *testing.T) {
	rows, labels := make([][]float64, grain), make([]float64, grain)
	for i := range rows {
		rows[i], labels[i] = []float64{1}, 1
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	_, _, allowance := unperturbed(&Problem{Data: data, Loss: loss.Squared{}}).s().pairGrad([]float64{0}, nil)
	require.GreaterOrEqual(t, allowance, grain*6*(grain+16)*unit*unit) // Σ‖aᵢ‖|φ′ᵢ| = grain
}

// TestTwicePrecision checks the double-double sums dot2, axpy2 and add2 where terms cancel by up to
// 1e15: |error| ≤ (d+4)²u²·Σ|aⱼxⱼ|. Plain sums lose all digits there.
func TestTwicePrecision(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		d := 1 + rnd.IntN(40)
		a, x := make([]float64, d), make([]float64, d)
		for j := range a {
			a[j] = rnd.NormFloat64() * math.Pow(10, 8*rnd.Float64())
			x[j] = rnd.NormFloat64() * math.Pow(10, 8*rnd.Float64())
		}
		a[d-1] = -dotNaive(a[:d-1], x[:d-1]) / x[d-1] // the last term makes the sum nearly 0
		bx := make([]*big.Float, d)
		size := 0.0
		for j, v := range x {
			bx[j] = bf(v)
			size += math.Abs(a[j] * v)
		}
		allowed := float64((d+4)*(d+4)) * unit * unit * size
		exact := bdot(a, bx)
		// A sparse row has the same numbers, in some of the columns of a vector of twice the length.
		col, long := make([]int32, d), make([]float64, 2*d)
		for j := range col {
			col[j] = int32(2*j + rnd.IntN(2))
			long[col[j]] = x[j]
		}
		hi, lo := dot2(col, a, long)
		require.Equal(t, hi, hi+lo, "normalized")
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(hi), bf(lo)), exact))), allowed)
		h, l := make([]float64, 3), make([]float64, 3)
		for j, v := range a {
			axpy2(h, l, v, 0, []int32{1}, x[j:j+1])
		}
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(h[1]), bf(l[1])), exact))), allowed)
		require.Equal(t, []float64{0, 0, 0, 0}, []float64{h[0], h[2], l[0], l[2]})

		var s, e float64
		sum := bf(0)
		for _, v := range a {
			s, e = add2(s, e, v)
			sum = badd(sum, bf(v))
		}
		require.LessOrEqual(t, math.Abs(bnum(bsub(badd(bf(s), bf(e)), sum))), allowed)
	}
}

// precision is the number of bits of the reference arithmetic, enough to count as exact here.
const precision = 400

func bf(x float64) *big.Float         { return new(big.Float).SetPrec(precision).SetFloat64(x) }
func badd(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Add(a, b) }
func bsub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func bmul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func bquo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Quo(a, b) }
func bnum(x *big.Float) float64       { v, _ := x.Float64(); return v }

// bigs returns x as numbers of 400 bits.
func bigs(x []float64) []*big.Float {
	b := make([]*big.Float, len(x))
	for j, v := range x {
		b[j] = bf(v)
	}
	return b
}

func bnorm(v []*big.Float) *big.Float {
	s := bf(0)
	for _, x := range v {
		s = badd(s, bmul(x, x))
	}
	return new(big.Float).SetPrec(precision).Sqrt(s)
}

func bdot(a []float64, x []*big.Float) *big.Float {
	s := bf(0)
	for j, v := range a {
		s = badd(s, bmul(bf(v), x[j]))
	}
	return s
}

// bexp returns eˣ: Taylor series of x/2³², squared 32 times.
func bexp(x *big.Float) *big.Float {
	y := new(big.Float).SetMantExp(x, -32)
	sum, term := bf(1), bf(1)
	for k := 1; k < 60; k++ {
		term = bquo(bmul(term, y), bf(float64(k)))
		sum = badd(sum, term)
	}
	for range 32 {
		sum = bmul(sum, sum)
	}
	return sum
}

// bslope returns φ′(u;b) of a loss of package loss, for a row of the given norm, in 400 bits.
func bslope(l loss.Loss, u *big.Float, b, norm float64) *big.Float {
	clamp := func(x *big.Float, lo, hi float64) *big.Float {
		if x.Cmp(bf(lo)) < 0 {
			return bf(lo)
		}
		if x.Cmp(bf(hi)) > 0 {
			return bf(hi)
		}
		return x
	}
	sign := 1.0
	if b <= 0 {
		sign = -1
	}
	switch l := l.(type) {
	case loss.Squared:
		return bsub(u, bf(b))
	case loss.Huber:
		return clamp(bsub(u, bf(b)), -l.Delta, l.Delta)
	case loss.Logistic: // −s/(1+e^{su})
		return bquo(bf(-sign), badd(bf(1), bexp(clamp(bmul(bf(sign), u), -1e5, 1e5))))
	case loss.SmoothedHinge:
		return bmul(bf(-sign), clamp(bquo(bsub(bf(1), bmul(bf(sign), u)), bf(l.Gamma)), 0, 1))
	case loss.Clipped:
		return clamp(bslope(l.Loss, u, b, norm), -l.Threshold/norm, l.Threshold/norm)
	case loss.Moreau:
		if _, ok := l.Loss.(loss.Hinge); ok {
			return bslope(loss.SmoothedHinge{Gamma: norm * norm / l.Beta}, u, b, norm)
		}
	case foreign:
		return bslope(l.Linear, u, b, norm)
	}
	panic("no reference for this loss")
}

// foreign hides every method of a loss except those of loss.Linear, like a loss that a user wrote.
type foreign struct{ loss.Linear }

// bgrad returns ∇f(x), computed in 400 bits from its formula.
func bgrad(p *Problem, q Perturbation, x []*big.Float) []*big.Float {
	n, d := p.Data.Dims()
	g := make([]*big.Float, d)
	for j := range g {
		g[j] = bf(0)
		if q.Linear != nil {
			g[j] = bf(q.Linear[j])
		}
	}
	for i := range n {
		a := p.Data.Row(i)
		w := bslope(p.Loss, bdot(a, x), p.Data.Label(i), p.Data.r().norm(i))
		for j, v := range a {
			g[j] = badd(g[j], bmul(w, bf(v)))
		}
	}
	if q.Quad != nil {
		for j := range d {
			for k := range d {
				y := x[k]
				if q.Center != nil {
					y = bsub(y, bf(q.Center[k]))
				}
				g[j] = badd(g[j], bmul(bf(q.Quad.At(j, k)), y))
			}
		}
	}
	return g
}

// bdist returns dist(−g, ∂(λ‖·‖₁ + ι_[lo,hi]ᵈ)(x)), computed coordinate by coordinate.
func bdist(g []*big.Float, x []float64, lambda, lo, hi float64) *big.Float {
	out := make([]*big.Float, len(g))
	for j, v := range x {
		a, b := lambda, lambda // ∂ = [a, b]
		if v < 0 {
			a, b = -lambda, -lambda
		} else if v == 0 {
			a = -lambda
		}
		below, above := badd(g[j], bf(a)), badd(g[j], bf(b)) // g + ∂ = [below, above]
		e := bf(0)
		if below.Sign() > 0 && v != lo {
			e = below
		}
		if above.Sign() < 0 && v != hi {
			e = above
		}
		out[j] = e
	}
	return bnorm(out)
}

// solveExactly returns argmin ½x'Hx + g'x + λ‖x‖₁ over [lo, hi]ᵈ for the quadratic f of p and q, or
// nil if f is not quadratic or no minimizer is found.
func solveExactly(p *Problem, q Perturbation, lambda, lo, hi float64) []*big.Float {
	_, d := p.Data.Dims()
	zero := make([]*big.Float, d)
	for j := range zero {
		zero[j] = bf(0)
	}
	g := bgrad(p, q, zero)
	h := make([][]*big.Float, d) // columns of the Hessian
	for k := range h {
		e := append([]*big.Float(nil), zero...)
		e[k] = bf(1)
		h[k] = bgrad(p, q, e)
		for j := range h[k] {
			h[k][j] = bsub(h[k][j], g[j])
		}
	}
	const negative, positive, atZero, atLo, atHi = 0, 1, 2, 3, 4
	patterns := 1
	for range d {
		patterns *= 5
	}
pattern:
	for s := range patterns {
		kind := make([]int, d)
		a := make([][]*big.Float, d) // rows of the linear system, augmented
		for j := range d {
			kind[j] = s % 5
			s /= 5
			a[j] = make([]*big.Float, d+1)
			for k := range d {
				a[j][k] = bf(0)
			}
			switch kind[j] {
			case atZero:
				a[j][j], a[j][d] = bf(1), bf(0)
			case atLo, atHi:
				if math.IsInf(hi, 1) {
					continue pattern
				}
				a[j][j], a[j][d] = bf(1), bf(lo)
				if kind[j] == atHi {
					a[j][d] = bf(hi)
				}
			default:
				sign := lambda
				if kind[j] == negative {
					sign = -lambda
				}
				for k := range d {
					a[j][k] = h[k][j]
				}
				a[j][d] = bsub(bf(-sign), g[j])
			}
		}
		x := eliminate(a)
		grad := append([]*big.Float(nil), g...)
		for k := range d {
			for j := range d {
				grad[j] = badd(grad[j], bmul(h[k][j], x[k]))
			}
		}
		for j, k := range kind {
			sign := x[j].Sign()
			inside := math.IsInf(hi, 1) || x[j].Cmp(bf(lo)) >= 0 && x[j].Cmp(bf(hi)) <= 0
			up, down := badd(grad[j], bf(lambda)), bsub(grad[j], bf(lambda))
			ok := false
			switch k {
			case negative:
				ok = sign < 0 && inside
			case positive:
				ok = sign > 0 && inside
			case atZero:
				ok = up.Sign() >= 0 && down.Sign() <= 0
			case atLo:
				ok = down.Sign() >= 0
			case atHi:
				ok = up.Sign() <= 0
			}
			if !ok {
				continue pattern
			}
		}
		return x
	}
	return nil
}

// eliminate solves a linear system with a positive definite matrix, given as an augmented matrix.
func eliminate(a [][]*big.Float) []*big.Float {
	d := len(a)
	for j := range d {
		for i := range d {
			if i == j {
				continue
			}
			f := bquo(a[i][j], a[j][j])
			for k := j; k <= d; k++ {
				a[i][k] = bsub(a[i][k], bmul(f, a[j][k]))
			}
		}
	}
	x := make([]*big.Float, d)
	for j := range x {
		x[j] = bquo(a[j][d], a[j][j])
	}
	return x
}

// TestShortRows checks the smoothness bounds and certificates for the Moreau envelope of a kinked
// loss. Its second derivative in the prediction is β/‖a‖², so that short rows count like long ones.
func TestShortRows(t *testing.T) {
	const beta = 2
	rows, labels := [][]float64{{1.5, 0}}, []float64{1}
	for range 20 {
		rows, labels = append(rows, []float64{0, 1e-3}), append(labels, 1)
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: 2, Label: 1})
	require.NoError(t, err)
	for _, l := range []loss.Linear{
		loss.Moreau{Loss: loss.Hinge{}, Beta: beta}, loss.Clipped{Loss: loss.Moreau{Loss: loss.Hinge{}, Beta: beta},
			Threshold: 5},
		loss.Moreau{Loss: loss.Absolute{}, Beta: beta}, foreign{loss.Moreau{Loss: loss.Hinge{}, Beta: beta}},
	} {
		o := unperturbed(&Problem{Data: data, Loss: l})
		// x and y are where the short rows have curvature.
		x, y := []float64{0, 1000}, []float64{0, 1000 - 1e-4}
		g, h := make([]float64, 2), make([]float64, 2)
		o.Grad(g, x)
		o.Grad(h, y)
		require.LessOrEqual(t, floats.Distance(g, h, 2), o.Smoothness()*floats.Distance(x, y, 2)*(1+1e-6), "%T", l)
		require.InDelta(t, beta, o.TermSmoothness(), 1e-9, "%T", l)
		s := o.s()
		require.InEpsilon(t, beta/1e-3, s.bend(1e-3), 1e-9)
		for _, at := range [][]float64{x, y, {0.3, 1e6}} {
			exact := bgrad(&Problem{Data: data, Loss: loss.Moreau{Loss: loss.Hinge{}, Beta: beta}}, Perturbation{}, bigs(at))
			if _, ok := l.(foreign); ok {
				require.True(t, bf(o.Residual(at)).Cmp(bnorm(exact)) >= 0)
				require.True(t, bf(o.ResidualWithin(at, math.Inf(1))).Cmp(bnorm(exact)) >= 0)
			}
		}
	}
	// Rows so short that β/‖a‖² overflows leave the certificate finite.
	data, err = NewData([][]float64{{1e-310, 0}, {1e-200, 1e-180}}, []float64{1, 1}, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	require.Less(t, unperturbed(&Problem{Data: data, Loss: loss.Moreau{Loss: loss.Hinge{},
		Beta: beta}}).Residual([]float64{1, -1}), 1e-100)
	// A loss whose sup φ″ is the same for all rows does not use the weaker bound for short rows.
	require.False(t, unperturbed(&Problem{Data: data, Loss: loss.Logistic{}}).s().short)
	require.False(t, unperturbed(&Problem{Data: data, Loss: foreign{loss.Logistic{}}}).s().short)
}
