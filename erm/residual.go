package erm

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/prox"
)

// Rounding allowances of the certificate.
const (
	// allowTerm is relative to the norms of the three vectors that add up to
	// ∇f: the records' sum, the linear and the quadratic perturbation. What it
	// covers is a few hundred units in the last place of each.
	allowTerm = 1e-12
	// allowRecord is relative to |φ′ᵢ| + sup φ″·|uᵢ|, the size of what Scalar
	// computes from a prediction uᵢ that is correct to one unit in the last
	// place: implementations may lose 16 units.
	allowRecord = 32 * unit
	// tiny bounds what underflow takes from one product.
	tiny = math.SmallestNonzeroFloat64
)

// Residual returns an upper bound on dist(0, ∂J(x)) for
//
//	J(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃) + r(θ) + ι_C(θ),
//
// so that if J is μ-strongly convex its minimizer θ* has
//
//	‖x − θ*‖₂ ≤ Residual(x)/μ   and   J(x) − J(θ*) ≤ Residual(x)²/(2μ).
//
// It is the certificate behind a release and shares no code with any solver or
// with Grad: it recomputes the gradient from the records with sums in twice
// the precision, measures its distance to −∂(r+ι_C)(x) and adds
//
//	1e-12·(‖Σᵢ∇ℓ‖ + ‖b‖ + ‖Q(x−θ̃)‖) + 32u·Σᵢ‖aᵢ‖(|φ′ᵢ| + sup φ″·|⟨aᵢ,x⟩|)
//
// and terms of order d²u² for rounding, u = 2⁻⁵³; for a loss that is not Linear, the second part is
// 1e-12·Σᵢ‖∇ℓᵢ‖ and the gradients are taken as accurate to that. Where the
// domain has a curved face, x stands for a point x′ prox.Shift away, and
// (Smoothness + Modulus)·Shift is added: then the first inequality holds for
// μ ≤ Modulus, and the second is about J(x′).
//
// It returns +Inf if x is outside C, not finite, or if no certificate is known:
// Certifiable tells in advance. Where r + ι_C has no closed form, only points
// of C with a gradient near −∂r have a small residual, and those on a curved
// face have +Inf: a minimizer that C holds back is not certified. It never
// returns NaN. Not private: it is a function of the records.
func (o *Objective) Residual(x []float64) float64 { return o.residual(x, o.s().accurateGrad) }

// residual returns the bound that follows from a gradient and the allowance for
// its error.
func (o *Objective) residual(x []float64, gradient func(x []float64) (grad []float64, allowance float64)) float64 {
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
	grad, allowance := gradient(x)
	r := g.Dist(x, grad) + allowance
	if shift := prox.Shift(g, x); shift > 0 {
		r += (o.Smoothness() + o.Modulus()) * shift
	}
	r *= 1 + float64(len(x)+16)*0x1p-52 // the rounding of the norm itself
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
	g, ok := total(reg, set)
	if !ok {
		if set.Func(x) != 0 || prox.Shift(set, x) != 0 || prox.Shift(reg, x) != 0 {
			return nil, false
		}
		g = reg
	}
	s, ok := g.(prox.Subdifferential)
	return s, ok
}

// total returns r + ι_C if it is known in closed form; nil parts are 0.
func total(reg prox.Operator, set prox.Set) (prox.Operator, bool) {
	if set == nil { // not a nil Set inside a non-nil Operator
		return prox.Sum(reg, nil)
	}
	return prox.Sum(reg, set)
}

// accurateGrad returns ∇f(x), computed in twice the precision and rounded, and
// the allowance for what is lost all the same.
func (s *objective) accurateGrad(x []float64) (grad []float64, allowance float64) {
	hi, lo, allowance := s.pairGrad(x, nil)
	floats.Add(hi, lo)
	return hi, allowance
}

// pairGrad returns ∇f(x+low) in twice the precision, as hi + lo, and the allowance for what is
// lost all the same. A nil low is 0.
func (s *objective) pairGrad(x, low []float64) (hi, lo []float64, allowance float64) {
	d := s.data.d
	parts, size := s.data.parts(maxParts)
	sum := make([]float64, 2*d+1)
	kernel.Reduce(sum, parts, s.threads, &accurate{s, x, low, floats.Norm(x, 2), size})
	hi, lo, allowance = sum[:d], sum[d:2*d], sum[2*d]
	grad := make([]float64, d)
	floats.AddTo(grad, hi, lo)
	allowance += allowTerm * floats.Norm(grad, 2) // ‖Σᵢ∇ℓ‖

	for j, b := range s.linear {
		hi[j], lo[j] = add2(hi[j], lo[j], b)
	}
	allowance += allowTerm * floats.Norm(s.linear, 2)

	if s.diag != nil || s.quad != nil {
		allowance += s.addQuad2(hi, lo, x, low)
	}
	return hi, lo, allowance
}

// accurate is the sum of ∇ℓ(x;aᵢ,bᵢ) as hi + lo, and of its allowance.
type accurate struct {
	s     *objective
	x     []float64
	low   []float64 // nil, or what the point has below the last place of x
	normX float64
	size  int // records in a part
}

// Part implements kernel.Sum.
func (p *accurate) Part(dst []float64, part int) {
	d := len(p.x)
	lo := part * p.size
	hi := min(lo+p.size, p.s.data.n)
	if p.s.glm != nil {
		dst[2*d] = p.addGLM(dst[:d], dst[d:2*d], lo, hi)
	} else {
		dst[2*d] = p.addGeneral(dst[:d], dst[d:2*d], lo, hi)
	}
}

// Join implements kernel.Sum.
func (p *accurate) Join(dst, src []float64) {
	d := len(p.x)
	for j := range d {
		dst[j], dst[d+j] = add2(dst[j], dst[d+j], src[j])
		dst[d+j] += src[d+j]
	}
	dst[2*d] += src[2*d]
}

// addGLM adds Σ φ′(⟨aᵢ,x⟩;bᵢ)aᵢ over the records in [from, to) to hi + lo and
// returns its allowance.
func (p *accurate) addGLM(hi, lo []float64, from, to int) (allowance float64) {
	s := p.s
	d := float64(s.data.d)
	for i := from; i < to; i++ {
		slab, k := s.data.at(i)
		b, norm := slab.y[k], slab.norm[k]
		col, a := s.data.entries(i)
		var uh, ul float64 // u = uh + ul
		if s.data.sparse {
			uh, ul = dotSparse2(col, a, p.x)
		} else {
			uh, ul = dot2(a, p.x)
		}
		if p.low != nil { // Σ|aⱼlowⱼ| ≤ u‖a‖‖x‖, so that its rounding is a part of that of dot2
			for k, v := range a {
				j := k
				if col != nil {
					j = int(col[k])
				}
				ul += v * p.low[j]
			}
		}
		u := uh + ul
		var w, curve float64
		if s.lsq != 0 {
			w, curve = s.lsq*((uh-b)+ul), s.lsq // c(u−b)
		} else {
			_, w, curve = s.glm.Scalar(u, b, norm)
			if !math.IsInf(s.curve, 1) {
				curve = s.curve
			}
		}
		if s.data.sparse {
			axpySparse2(hi, lo, w, col, a)
		} else {
			axpy2(hi, lo, w, a)
		}
		// The second part is the error of dot2 and of axpy2, the last their
		// underflow.
		allowance += norm*(allowRecord*(math.Abs(w)+curve*math.Abs(u))+
			4*d*d*unit*unit*(curve*norm*p.normX+math.Abs(w))) +
			4*d*tiny*(1+curve*norm)
	}
	return allowance
}

// addGeneral adds Σ ∇ℓ(x;aᵢ,bᵢ) over the records in [from, to) to hi + lo and
// returns its allowance.
func (p *accurate) addGeneral(hi, lo []float64, from, to int) (allowance float64) {
	g, row := make([]float64, len(p.x)), make([]float64, len(p.x))
	for i := from; i < to; i++ {
		p.s.loss.Grad(g, p.x, p.s.data.row(i, row), p.s.data.label(i))
		axpy2(hi, lo, 1, g)
		allowance += allowTerm * floats.Norm(g, 2)
	}
	return allowance
}

// addQuad2 adds Q(x−θ̃) to hi + lo in twice the precision, and returns its
// allowance. Its second part matters where Q(x−θ̃) is much smaller than
// ‖Q‖‖x−θ̃‖: the error of dot2, for every row the same multiple of ‖qᵢ‖‖x−θ̃‖.
func (s *objective) addQuad2(hi, lo, x, low []float64) (allowance float64) {
	d := len(x)
	y, e := make([]float64, d), make([]float64, d) // x−θ̃ = y + e exactly
	copy(y, x)
	for j, c := range s.center {
		y[j], e[j] = twoSum(x[j], -c)
	}
	if low != nil {
		floats.Add(e, low)
	}
	qy := make([]float64, d)
	for i := range d {
		var h, l float64
		if s.diag != nil {
			h = float64(s.diag[i] * y[i])
			l = math.FMA(s.diag[i], y[i], -h) + s.diag[i]*e[i]
		} else {
			row := s.quad[i*d : (i+1)*d]
			h, l = dot2(row, y)
			l += floats.Dot(row, e)
		}
		qy[i] = h + l
		hi[i], lo[i] = add2(hi[i], lo[i], h)
		lo[i] += l
	}
	size := floats.Norm(s.diag, 2) + floats.Norm(s.quad, 2) // ‖Q‖_F: one is empty
	dd := float64(d)
	return allowTerm*floats.Norm(qy, 2) + 4*dd*dd*unit*unit*size*floats.Norm(y, 2) + 4*dd*dd*tiny
}
