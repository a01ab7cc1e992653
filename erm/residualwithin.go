package erm

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
)

// ResidualWithin returns an upper bound on dist(0, ∂J(x)), as Residual does and
// with the same consequences, but stops at the first bound that is at most
// target. It is for callers that only ask whether x is good enough: sums in
// plain float64, with the a-priori bound of their rounding below, answer that
// at a tenth of the cost, unless target is within about (n+d)u times the size
// of the sums. If they do not, the bound is Residual(x).
//
// # The bound
//
// With γₖ = ku/(1−ku), a sum of k terms wᵢaᵢ computed in any order, with or
// without fused products, is off by at most γₖΣ|wᵢaᵢ|: no term meets more than
// k roundings [Hig02, §3.1]. So the prediction ûᵢ = fl⟨aᵢ,x⟩ has
//
//	|ûᵢ − uᵢ| ≤ γ_d‖aᵢ‖‖x‖ =: eᵢ
//
// and the slope ŵᵢ computed from it
//
//	|ŵᵢ − φ′(uᵢ)| ≤ sup φ″·eᵢ + 32u(|ŵᵢ| + sup φ″·|ûᵢ|),
//
// the second part as in Residual; for c(u−b) it covers the two roundings, of
// at most 3u|ŵᵢ|. Hence the sum over the records has an error of at most
//
//	Σ‖aᵢ‖(|ŵᵢ − φ′(uᵢ)| + γₙ|ŵᵢ|)
//
// in norm. What the perturbation adds is two more sums, of at most d+2 terms a
// coordinate, the first of them the gradient so far:
//
//	γ_{d+4}(‖Σᵢŵᵢaᵢ‖ + ‖b‖ + ‖Q‖_F‖x−θ̃‖).
//
// Added are 1e-12 of the terms as in Residual, a smallest number for each
// product that may underflow, and a hundredth of all that for the roundings of
// the bound itself, second-order terms and γₖ − ku. Overflow gives NaN or +Inf,
// which is no bound within any target. Not private.
//
// [Hig02] Higham. Accuracy and Stability of Numerical Algorithms. 2002.
func (o *Objective) ResidualWithin(x []float64, target float64) float64 {
	s := o.s()
	if s.glm != nil && !math.IsInf(s.curve, 1) {
		if r := o.residual(x, s.plainGrad); r <= target {
			return r
		}
	}
	return o.Residual(x)
}

// boundRoom is the factor for the roundings of the bound itself.
const boundRoom = 1.01

// plainGrad returns ∇f(x) in float64, and the allowance for its error and that
// of its distance. The loss is a loss.Linear with a known sup φ″.
func (s *objective) plainGrad(x []float64) (grad []float64, allowance float64) {
	grad, rounding, size := s.boundedGrad(x)
	return grad, rounding + allowTerm*size
}

// boundedGrad returns ∇f(x) in float64, a bound on its error in norm and the
// size ‖Σᵢ∇ℓ‖ + ‖b‖ + ‖Q(x−θ̃)‖ of its terms.
func (s *objective) boundedGrad(x []float64) (grad []float64, rounding, size float64) {
	r := s.data
	d, dd := r.d, float64(r.d)
	parts, records := r.parts(maxParts)
	sum := make([]float64, d+1)
	stream := 8*r.floatsOnce > streamBytes
	kernel.Reduce(sum, parts, s.threads, &plain{
		s: s, x: x, normX: floats.Norm(x, 2), size: records, stream: stream,
		block: min(kernel.Block(max(r.floatsOnce/r.n, 1), stream), maxBlock),
	})
	grad, rounding = sum[:d], sum[d]
	size = floats.Norm(grad, 2) + floats.Norm(s.linear, 2)
	terms := size // ‖Σᵢŵᵢaᵢ‖ + ‖b‖ + ‖Q‖_F‖x−θ̃‖
	if s.diag != nil || s.quad != nil {
		y, qy := make([]float64, d), make([]float64, d)
		s.shift(y, x)
		s.addQuad(qy, y, 1)
		norm := floats.Norm(qy, 2)
		size += norm
		if s.quad != nil { // else every entry of Qy is one product
			norm = frobenius(s.quad) * floats.Norm(y, 2)
		}
		terms += norm
		floats.Add(grad, qy)
	}
	if s.linear != nil {
		floats.Add(grad, s.linear)
	}
	rounding += (dd+4)*unit*terms + 4*dd*dd*tiny
	return grad, boundRoom * rounding, size
}

// frobenius returns ‖q‖_F to a few roundings, where the squares are normal
// numbers; where they are not, it returns more.
func frobenius(q []float64) float64 {
	const least = 0x1p-1022
	return math.Sqrt(kernel.Dot(q, q) + float64(len(q))*least)
}

// plain is the sum of ∇ℓ(x;aᵢ,bᵢ) and, in its last place, of the bound on its
// error.
type plain struct {
	s      *objective
	x      []float64
	normX  float64
	size   int // records in a part
	block  int // records at a time
	stream bool
}

// Part implements kernel.Sum.
func (p *plain) Part(dst []float64, part int) {
	s, r := p.s, p.s.data
	d, n := float64(r.d), float64(r.n)
	buf := predicted.Get().(*[maxBlock]float64)
	defer predicted.Put(buf)
	lo := part * p.size
	for hi := min(lo+p.size, r.n); lo < hi; {
		slab, k := r.at(lo)
		m := min(p.block, hi-lo, len(slab.y)-k)
		w := buf[:m]
		r.mul(w, slab, k, p.x, p.stream) // ûᵢ
		y, norm := slab.y[k:k+m], slab.norm[k:k+m]
		rounding := 0.0
		for i, u := range w {
			if s.lsq != 0 {
				w[i] = s.lsq * (u - y[i])
			} else {
				_, w[i], _ = s.glm.Scalar(u, y[i], norm[i])
			}
			size := math.Abs(w[i])
			e := d * unit * norm[i] * p.normX
			rounding += norm[i]*(s.curve*(e+allowRecord*math.Abs(u)+d*tiny)+(allowRecord+n*unit)*size+tiny) + d*tiny
		}
		dst[r.d] += rounding
		r.addMul(dst[:r.d], slab, k, w)
		lo += m
	}
}

// Join implements kernel.Sum.
func (p *plain) Join(dst, src []float64) { kernel.AddScaled(dst, 1, src) }
