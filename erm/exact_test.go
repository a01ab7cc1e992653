package erm

import (
	"math"
	"math/big"

	"github.com/privopt/privopt/loss"
)

// Arithmetic of 400 bits: exact for all purposes here.
const precision = 400

func bf(x float64) *big.Float         { return new(big.Float).SetPrec(precision).SetFloat64(x) }
func badd(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Add(a, b) }
func bsub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func bmul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func bquo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Quo(a, b) }
func bnum(x *big.Float) float64       { v, _ := x.Float64(); return v }

// bigs returns x in 400 bits.
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

// bslope returns φ′(u;b) of the losses of package loss for a row of the given norm.
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

// foreign hides every ability of a loss but Linear.
type foreign struct{ loss.Linear }

// bgrad returns ∇f(x) from the formula.
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

// bdist returns dist(−g, ∂(λ‖·‖₁ + ι_[lo,hi]ᵈ)(x)) coordinate by coordinate.
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

// solveExactly returns argmin ½x'Hx + g'x + λ‖x‖₁ over [lo, hi]ᵈ for the
// quadratic f of p and q, or nil.
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

// eliminate solves a positive definite augmented system.
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
