package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// NuclearBall is the set of Rows×Cols matrices X, held row by row, whose
// singular values add up to at most R. With X = UΣVᵀ the projection is
// U(Σ−τ)₊Vᵀ with the root τ of Σ_k(σ_k−τ)₊ = R [CCS10; DSSC08].
//
// X stands for a matrix X′ as for [NuclearNorm]. If the sum of its singular values is within
// R(1 ± 2⁻⁴⁸·max(Rows,Cols)), X′ is scaled to the sphere.
type NuclearBall struct {
	Rows, Cols int
	R          float64
}

// on reports whether the sum of singular values stands for R.
func (g NuclearBall) on(sum float64) bool {
	return math.Abs(sum-g.R) <= edge(g.Rows, g.Cols)*g.R && g.R < inf
}

// member returns the decomposition of x in pooled scratch, the sum of the singular values, and
// whether x is a member.
func (g NuclearBall) member(x []float64) (d *svd, sum float64, ok bool) {
	d, ok = decompose(x, g.Rows, g.Cols)
	if ok {
		sum = floats.Sum(d.s)
		ok = sum <= g.R || g.on(sum)
	}
	return d, sum, ok
}

// Func returns 0 where Σσ_k ≤ R(1 + 2⁻⁴⁸·max(Rows,Cols)), +Inf elsewhere.
func (g NuclearBall) Func(x []float64) float64 {
	d, _, ok := g.member(x)
	defer svds.Put(d)
	return indicator(ok)
}

// Prox stores U(Σ−τ)₊Vᵀ in dst.
func (g NuclearBall) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	d, ok := decompose(x, g.Rows, g.Cols)
	defer svds.Put(d)
	r := g.R * (1 - edge(g.Rows, g.Cols)/4)
	switch {
	case !ok:
		fillNaN(dst)
	case floats.Sum(d.s) <= r:
		copy(dst, x)
	case r == 0:
		clear(dst)
	default:
		tau := waterline(d.s, 0, r, false)
		for k, s := range d.s {
			d.s[k] = max(s-tau, 0)
		}
		floats.Scale(r/floats.Sum(d.s), d.s) // by 1 up to rounding of the largest
		d.compose(dst)
	}
}

// Dist: on the sphere N(X′) is the cone of the subgradients of the nuclear norm at X′, and with the
// notation of NuclearNorm.Dist the nearest subgradient has the weight t ≥ 0 that minimizes ‖Y − Z −
// t·UVᵀ‖² + Σ(σ_k(Z) − t)₊². Half the derivative is r·t − ⟨Y,UVᵀ⟩ − Σ(σ_k(Z)−t)₊, see rise.
func (g NuclearBall) Dist(x, v []float64) float64 {
	sameLen(x, v)
	d, sum, ok := g.member(x)
	defer svds.Put(d)
	switch {
	case !ok || !finite(v):
		return inf
	case g.R == 0: // C = {0}: the normal cone is everything
		return 0
	case !g.on(sum):
		return number(norm2(v))
	}
	return d.subgradient(v, 0, true)
}

// shift returns a bound on ‖X′−X‖_F.
func (g NuclearBall) shift(x []float64) float64 {
	d, sum, ok := g.member(x)
	defer svds.Put(d)
	switch {
	case !ok:
		return inf
	case sum == 0 || !g.on(sum):
		return 0
	}
	r := d.rank()
	return number(d.shift(x, r) + math.Abs(floats.Sum(d.s[:r])-g.R) + 4*ulp*float64(len(d.s))*g.R)
}

// Radius returns R, the norm of a matrix of rank one, rounded up; +Inf for an invalid ball.
func (g NuclearBall) Radius(dim int) float64 {
	if g.check(dim) != nil {
		return inf
	}
	if dim == 0 {
		return 0
	}
	return g.R * (1 + edge(g.Rows, g.Cols))
}

func (g NuclearBall) check(dim int) error {
	if err := shape("NuclearBall", g.Rows, g.Cols, dim); err != nil {
		return err
	}
	return radius("NuclearBall.R", g.R)
}
