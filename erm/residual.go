package erm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Rounding allowances of the certificate.
const (
	// allowSlope is relative to |φ′| + sup φ″·|u|, the size of what Scalar computes from a
	// prediction u that is correct to one unit in the last place. A loss.Exact stays within
	// half of it, by proof; others may lose 16 units, see ScalarAccuracy.
	allowSlope = 32 * unit
	// allowGrad is relative to ‖∇ℓ‖ of a loss that is not Linear.
	allowGrad = 1e-12
	// allowDist is relative to the vectors that Dist of an operator adds up.
	allowDist = 1e-12
	// boundRoom is the factor for the roundings of an allowance itself, its terms of
	// higher order, and γₖ − ku.
	boundRoom = 1.01
	// tiny bounds what underflow takes from one product.
	tiny = math.SmallestNonzeroFloat64
)

// Residual returns an upper bound on dist(0, ∂J(x)) for
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃) + r(θ) + ι_C(θ)
//
// and every b and Q within LinearError and QuadError of those of the Perturbation, so that if J
// is μ-strongly convex its minimizer θ* has
//
//	‖x − θ*‖₂ ≤ Residual(x)/μ   and   J(x) − J(θ*) ≤ Residual(x)²/(2μ).
//
// It is the certificate behind a release and shares no code with any solver or with Grad: it
// recomputes the gradient from the records as hi + lo, measures its distance to −∂(r+ι_C)(x)
// and adds what rounding may have taken.
//
// The allowance for rounding (docs/theory/release.md#release.residual) is a hundredth more than the sum
// below, with u = 2⁻⁵³, kᵢ the number of entries of row i, M = 512 (or more) records in one partial sum,
// eᵢ the error of a slope and D that of the distance; a curved face of the domain adds to it.
//
//	Σᵢ ‖aᵢ‖(eᵢ + sup φ″·(kᵢ+4)²u²‖aᵢ‖‖x‖ + 6(M+16)u²|φ′ᵢ|) + 2⁻¹⁰⁰‖Σᵢ∇ℓᵢ‖
//	+ 96u²(‖b‖ + ‖Q(x−θ̃)‖) + 4(d+4)²u²‖Q‖_F‖x−θ̃‖ + D(∇f)
//
// For a loss.Exact there is no term in n that matters: at most 2⁻⁸⁷·n(L + βU/Row). A loss.Linear that
// is not Exact, and any other loss, rests on ScalarAccuracy.
//
// It returns +Inf if x is outside C, not finite, or if no certificate is known:
// Certifiable tells in advance. Where r + ι_C has no closed form, only points
// of C with a gradient near −∂r have a small residual, and those on a curved
// face have +Inf: a minimizer that C holds back is not certified. It never
// returns NaN. Not private: it is a function of the records.
func (o *Objective) Residual(x []float64) float64 { return o.residual(x, nil, o.s().accurateGrad) }

// ResidualWithin returns an upper bound on dist(0, ∂J(x)), as Residual does and with the same
// consequences, but stops at the first bound that is at most target. It is for callers that only
// ask whether x is good enough: sums in plain float64, with the a-priori bound of their rounding
// [Hig02, §3.1], answer that at a tenth of the cost, unless target is within about (N+d)u times the
// size of the sums. If they do not, the bound is Residual(x). Not private.
//
// [Hig02] Higham. Accuracy and Stability of Numerical Algorithms. 2002.
func (o *Objective) ResidualWithin(x []float64, target float64) float64 {
	s := o.s()
	if s.glm != nil && !math.IsInf(s.curve, 1) {
		if r := o.residual(x, nil, s.plainGrad); r <= target {
			return r
		}
	}
	return o.Residual(x)
}

// residual returns the bound at x + low that follows from a gradient hi + lo there and the allowance
// for its error. A nil low is 0, as it has to be unless r + ι_C is prox.Separable.
func (o *Objective) residual(x, low []float64, gradient func(x []float64) (hi, lo []float64, allowance float64)) float64 {
	s := o.s()
	if len(x) != s.data.d {
		panic(badLen)
	}
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.Inf(1)
		}
	}
	g, ok := certificate(s.reg, s.set, x)
	if !ok {
		return math.Inf(1)
	}
	hi, lo, allowance := gradient(x)
	r := s.distance(g, x, low, hi, lo) + boundRoom*allowance + s.linearError
	if s.quadError > 0 {
		y := make([]float64, len(x))
		s.shift(y, x)
		r += s.quadError * (floats.Norm(y, 2) + floats.Norm(low, 2))
	}
	if shift := prox.Shift(g, x); shift > 0 {
		r += (o.Smoothness() + s.quadError + o.Modulus()) * shift
	}
	r *= 1 + float64(len(x)+20)*0x1p-52 // the rounding of norms, of this sum and of Modulus
	if !(r >= 0) {
		return math.Inf(1)
	}
	return r
}

// certificate returns the operator whose subdifferential measures r + ι_C at
// x. Where r + ι_C has no closed form, 0 ∈ N_C(x) for x ∈ C leaves
// dist(−v, ∂r(x)), an upper bound that is exact in the interior of C. Both
// parts must be about x itself: a point x′ ∈ C next to x may lie off a kink of
// r at x, and then no multiple of ‖x′−x‖ bounds the difference.
func certificate(reg prox.Operator, set prox.Set, x []float64) (prox.Subdifferential, bool) {
	g, ok := prox.Sum(reg, set)
	if !ok {
		if set.Func(x) != 0 || prox.Shift(set, x) != 0 || prox.Shift(reg, x) != 0 {
			return nil, false
		}
		g = reg
	}
	s, ok := g.(prox.Subdifferential)
	return s, ok
}

// distance returns an upper bound on dist(−(hi+lo), ∂g(x+low)), up to d+16 roundings of itself.
//
// For a sum over coordinates, ∂g is the box l2·x + [a,b], and its distance is computed in twice the
// precision, where Dist would round hi + lo: the numbers that num.Piece.Steepest adds have at most
// |v| + |l2·x| and, with l1 of the sign of x, |l2·x| + l1 ≤ |v| + distance unless x = 0 or x is at
// a bound, where the distance is 0 or a rounding of |v|. It loses 32u²|v|, and 2⁻⁹⁷|v| is added.
func (s *objective) distance(g prox.Subdifferential, x, low, hi, lo []float64) float64 {
	d := len(x)
	e, size := make([]float64, d), make([]float64, d)
	floats.AddTo(size, hi, lo)
	c, ok := prox.Separable(g)
	if !ok {
		dist := g.Dist(x, size) + allowDist*floats.Norm(size, 2)
		if c, ok := s.reg.(prox.Coordinatewise); ok {
			for j, v := range x {
				_, l2, _, _ := c.Coordinate(j)
				e[j] = l2 * v
			}
			dist += allowDist * floats.Norm(e, 2)
		}
		return dist
	}
	for j := range x {
		e[j], _ = num.NewPiece(c.Coordinate(j)).Steepest(pairAt(x, low, j), num.Pair{Hi: hi[j], Lo: lo[j]})
	}
	return floats.Norm(e, 2) + 0x1p-97*floats.Norm(size, 2) + 2*float64(d)*tiny
}

// pairAt returns coordinate j of x + low; a nil low is 0.
func pairAt(x, low []float64, j int) num.Pair {
	if low == nil {
		return num.Pair{Hi: x[j]}
	}
	return num.Pair{Hi: x[j], Lo: low[j]}
}

// accurateGrad returns ∇f(x) as hi + lo, and the allowance for what is lost all the same.
func (s *objective) accurateGrad(x []float64) (hi, lo []float64, allowance float64) {
	return s.pairGrad(x, nil)
}

// pairGrad is accurateGrad at x + low, |lowⱼ| ≤ u|xⱼ|(1+u), where a nil low is 0. Then dot products
// with low, plain ones, lose k·u·‖a‖‖low‖, less than what the allowance has for those with x.
func (s *objective) pairGrad(x, low []float64) (hi, lo []float64, allowance float64) {
	p := s.sum(askPair, x, low)
	hi, lo, allowance = slices.Clone(p.grad), slices.Clone(p.gradLow), p.allow
	s.done(p)
	allowance += 0x1p-100 * floats.Norm(hi, 2) // the rounding of exact sums
	for j, b := range s.linear {
		hi[j], lo[j] = num.Add2(hi[j], lo[j], b, 0)
	}
	allowance += 96 * unit * unit * floats.Norm(s.linear, 2)
	if s.diag != nil || s.quad != nil {
		allowance += s.addQuad2(hi, lo, x, low)
	}
	return hi, lo, allowance
}

// pairBlock is the number of records whose terms kernel.AddMulVec2 adds before it adds their sum to
// that of the grain.
const pairBlock = 32

// rounding is what a sum over g = q.grain ≥ 512 records loses, relative to the sum of the sizes of
// its terms (docs/theory/numerics.md#numerics.dot). Fewer records than g lose no more.
func (q *query) rounding() float64 { return 6 * float64(max(q.grain, grain)+16) * unit * unit }

// pairLinear adds Σ φ′(⟨aᵢ,x+low⟩;bᵢ)aᵢ over the records in [lo, hi) to p.grad + p.low and returns
// its allowance.
func (q *query) pairLinear(p *partial, r *records, lo, hi int) (allowance float64) {
	least, rounding := 0.0, q.rounding() // least in units of the smallest number
	for lo < hi {
		m := min(q.block(r, lo, hi), pairBlock)
		s, at := r.at(lo)
		w, wl, low, y, norms := p.u[:m], p.curves[:m], p.weights[:m], s.y[at:at+m], s.norm[at:at+m]
		r.mul2(w, wl, s, at, q.x)
		if q.low != nil {
			r.mul(low, s, at, q.low, q.stream)
			for i, v := range low {
				w[i], wl[i] = num.TwoSum(w[i], wl[i]+v)
			}
		}
		for i, u := range w {
			norm, ul := norms[i], wl[i]
			w[i], wl[i] = 0, 0
			if norm == 0 {
				continue
			}
			if q.short && norm < 0x1p-500 { // sup φ″ may overflow, but ‖∇ℓ‖ does not
				if c := q.loss.Constants(loss.Bounds{Row: norm, Label: q.bounds.Label}, q.normX); c.Lipschitz > 0 {
					allowance += c.Lipschitz
					continue
				}
			}
			if !(math.Abs(u) <= math.MaxFloat64) || math.IsNaN(ul) {
				return math.Inf(1)
			}
			var e, curve float64
			w[i], wl[i], e, curve = q.slope2(u, ul, y[i], norm)
			bend := q.bend(norm)
			if math.IsInf(bend, 1) {
				bend = norm * curve
			}
			_, a := r.in(s, at+i)
			k := float64(len(a) + 4)
			allowance += norm*(e+rounding*math.Abs(w[i])) + bend*(k*k*unit*unit*norm*q.normX)
			least += (bend + 4) * k
		}
		r.addMul2(p.grad, p.low, s, at, w, wl)
		lo += m
	}
	return allowance + least*tiny
}

// slope2 returns φ′(u+ul;b) as hi + lo, its error, and φ″ where sup φ″ is not known.
func (s *costs) slope2(u, ul, b, norm float64) (hi, lo, err, curve float64) {
	if s.lsq != 0 { // c(u−b)
		hi, lo, _ = loss.Squared{}.Slope2(u, ul, b, norm)
		hi, lo = num.Mul2(hi, lo, s.lsq, 0)
		return hi, lo, 16*unit*unit*math.Abs(hi) + 4*tiny, s.lsq
	}
	if s.exact != nil {
		hi, lo, err = s.exact.Slope2(u, ul, b, norm)
		return hi, lo, err, 0
	}
	_, hi, curve = s.glm.Scalar(u, b, norm)
	size := s.bend(norm) / norm
	if math.IsInf(s.curve, 1) {
		size = curve
	}
	return hi, 0, allowSlope*(math.Abs(hi)+size*math.Abs(u)) + tiny, curve
}

// pairGeneral adds Σ ∇ℓ(x;aᵢ,bᵢ) over the records in [from, to) to the gradient hi + lo and
// returns its allowance.
func (q *query) pairGeneral(p *partial, r *records, from, to int) (allowance float64) {
	for i := from; i < to; i++ {
		q.loss.Grad(p.g, q.x, r.row(i, p.scratch), r.label(i))
		kernel.AddMulVec2(p.grad, p.low, p.g, []float64{1}, []float64{0})
		allowance += (allowGrad + q.rounding()) * floats.Norm(p.g, 2)
	}
	return allowance
}

// addQuad2 adds Q(x−θ̃) to hi + lo, and returns its allowance. Its second part matters
// where Q(x−θ̃) is much smaller than ‖Q‖‖x−θ̃‖: the error of Dot2, for every row the same
// multiple of ‖qᵢ‖‖x−θ̃‖, and the rounding of d products with the errors of x−θ̃.
func (s *objective) addQuad2(hi, lo, x, low []float64) (allowance float64) {
	d := len(x)
	y, e := make([]float64, d), make([]float64, d) // x−θ̃ = y + e exactly
	copy(y, x)
	for j, c := range s.center {
		y[j], e[j] = num.TwoSum(x[j], -c)
	}
	if low != nil {
		floats.Add(e, low)
	}
	qy := make([]float64, d)
	for i := range d {
		var h, l float64
		if s.diag != nil {
			h, l = num.TwoProd(s.diag[i], y[i])
			l += s.diag[i] * e[i]
		} else {
			row := s.quad[i*d : (i+1)*d]
			h, l = kernel.Dot2(row, y)
			l += floats.Dot(row, e)
		}
		qy[i] = h + l
		hi[i], lo[i] = num.Add2(hi[i], lo[i], h, l)
	}
	size := floats.Norm(s.diag, 2) + floats.Norm(s.quad, 2) // ‖Q‖_F: one is empty
	k := float64(d + 4)
	return 96*unit*unit*floats.Norm(qy, 2) + 4*k*k*unit*size*(unit*floats.Norm(y, 2)+floats.Norm(low, 2)) + 4*k*k*tiny
}

// plainGrad returns ∇f(x) in float64, lo = 0, and a bound on its error in norm. The loss is
// a loss.Linear with a known sup φ″.
func (s *objective) plainGrad(x []float64) (grad, lo []float64, allowance float64) {
	d, dd := s.data.d, float64(s.data.d)
	p := s.sum(askGrad|askBound, x, nil)
	grad, allowance = slices.Clone(p.grad), p.allow
	s.done(p)
	terms := floats.Norm(grad, 2) + floats.Norm(s.linear, 2) // + ‖Q‖_F‖x−θ̃‖
	if s.diag != nil || s.quad != nil {
		y, qy := make([]float64, d), make([]float64, d)
		s.shift(y, x)
		s.addQuad(qy, y, 1)
		if s.quad != nil {
			terms += frobenius(s.quad) * floats.Norm(y, 2)
		} else { // every entry of Qy is one product
			terms += floats.Norm(qy, 2)
		}
		floats.Add(grad, qy)
	}
	if s.linear != nil {
		floats.Add(grad, s.linear)
	}
	return grad, make([]float64, d), allowance + (dd+4)*unit*terms + 4*dd*dd*tiny
}

// frobenius returns ‖q‖_F to a few roundings, where the squares are normal
// numbers; where they are not, it returns more.
func frobenius(q []float64) float64 {
	const least = 0x1p-1022
	return math.Sqrt(kernel.Dot(q, q) + float64(len(q))*least)
}

const badPair = "erm: pairs need a loss.Linear and an r + ι_C that is a sum over coordinates"

// ResidualPair is Residual at the point x + low, |lowⱼ| ≤ u|xⱼ|(1+u), of twice the precision of
// float64: where ∇²f is large, the nearest float64 point to a minimizer is not near enough for
// its residual to be small. It stores ∇f(x+low) as hi + lo in grad and gradLow, which are no part
// of its arguments. It panics unless Public.Split and Public.Linear hold. Not private.
func (o *Objective) ResidualPair(grad, gradLow, x, low []float64) float64 {
	s := o.s()
	g, ok := prox.Sum(s.reg, s.set)
	_, separable := prox.Separable(g)
	if !ok || !separable || s.glm == nil {
		panic(badPair)
	}
	if len(x) != s.data.d || len(low) != len(x) || len(grad) != len(x) || len(gradLow) != len(x) {
		panic(badLen)
	}
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || v+low[j] != v {
			return math.Inf(1)
		}
	}
	return o.residual(x, low, func(x []float64) ([]float64, []float64, float64) {
		hi, lo, allowance := s.pairGrad(x, low)
		copy(grad, hi)
		copy(gradLow, lo)
		return hi, lo, allowance
	})
}

// AccurateGrad stores ∇f(x), computed in twice the precision and rounded, in dst, and returns a bound
// on its error before that rounding: the gradient of Residual. Not private.
func (o *Objective) AccurateGrad(dst, x []float64) (allowance float64) {
	s := o.s()
	if len(x) != s.data.d || len(dst) != len(x) {
		panic(badLen)
	}
	hi, lo, allowance := s.accurateGrad(x)
	floats.AddTo(dst, hi, lo)
	return allowance
}
