// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// With manyRecords or more in at most wholeDim dimensions, a pass computes gradient and Hessian
// together, and a solver starts from a minimizer over a sample, see Sample.
const (
	manyRecords = 1 << 19
	wholeDim    = 64
)

// Objective is a perturbed problem. Its smooth part
//
//	f(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃)
//
// has the methods of splitting.FiniteSum, Convex, FuncGrader, TermSmoother, Quadratizer and
// Hessianer; component i has 1/n of the perturbation. Reg and Set of the problem are not part of f:
// a solver gets them separately. Residual is about J, which includes them.
//
// An Objective is immutable, and safe for concurrent use if its loss and operators are. It calls
// the loss from several goroutines unless Problem.Threads is 1. Equal arguments give equal bits,
// whatever GOMAXPROCS. Not private: all values are functions of the records. fmt prints it as an
// address.
type Objective struct{ s func() *objective } // a function, as in Data

// objective is the state that Objective hides.
type objective struct {
	costs
	ctx    context.Context // ends passes over records that are not in memory
	data   *records
	consts loss.Constants // on the declared bounds and the radius of Set
	reg    prox.Operator
	set    prox.Set
	weight float64 // factor of the sums over the records: 1 except in a sample

	linear, center []float64 // nil means 0
	diag           []float64 // Q if it is diagonal
	quad           []float64 // Q if it is not, d×d
	minEig, maxEig float64   // declared bounds on the spectrum of Q
	linearError    float64   // Perturbation.LinearError
	quadError      float64   // Perturbation.QuadError

	threads int  // Problem.Threads
	whole   bool // a pass computes gradient and Hessian together
	recent  recent
	failure atomic.Pointer[error]

	scratch sync.Pool // of *[]float64 of length d

	quadOnce  sync.Once
	quadratic *mat.SymDense
	lin       []float64
	constant  float64

	leastOnce, mostOnce sync.Once
	lo, hi              float64 // least() and most()
}

// Perturb is [Problem.PerturbContext] with context.Background(), and panics on the same bugs. The
// minimizer for an empty q is that of p itself: not private.
func (p *Problem) Perturb(q Perturbation) *Objective {
	return p.PerturbContext(context.Background(), q)
}

// PerturbContext returns the perturbed objective. Its passes over records that are not in memory
// end with ctx. It copies q.
//
// It panics with a constant message on a bug in the call: p fails Check, a part of q has another
// dimension than p, or an error bound of q is not a number of at least 0.
func (p *Problem) PerturbContext(ctx context.Context, q Perturbation) *Objective {
	if p.Check() != nil {
		panic(badProblem)
	}
	if !(q.LinearError >= 0 && q.QuadError >= 0) {
		panic(badError)
	}
	data := p.Data.r()
	d := data.d
	if q.Linear != nil && len(q.Linear) != d || q.Center != nil && len(q.Center) != d {
		panic(badLen)
	}
	s := &objective{
		costs:   newCosts(p.Loss, data.bounds, d),
		ctx:     ctx,
		data:    data,
		reg:     p.Reg,
		set:     p.Set,
		weight:  1,
		minEig:  q.MinEig,
		maxEig:  q.MaxEig,
		consts:  p.Loss.Constants(data.bounds, p.radius()),
		threads: p.Threads,

		linearError: q.LinearError,
		quadError:   q.QuadError,
	}
	s.whole = s.glm != nil && s.lsq == 0 && data.n >= manyRecords && d <= wholeDim && !data.sparse
	s.scratch.New = buffers(d)
	s.linear = append(s.linear, q.Linear...)
	s.center = append(s.center, q.Center...)
	if q.Quad != nil && q.Quad.SymmetricDim() != d {
		panic(badLen)
	}
	switch m := q.Quad.(type) {
	case nil:
	case *mat.DiagDense:
		s.diag = make([]float64, d)
		for i := range s.diag {
			s.diag[i] = m.At(i, i)
		}
	case *mat.SymDense:
		s.quad = make([]float64, d*d)
		raw := m.RawSymmetric()
		for i := range d {
			row := s.quad[i*d : (i+1)*d]
			copy(row[i:], raw.Data[i*raw.Stride+i:i*raw.Stride+d])
			for j := range i {
				row[j] = s.quad[j*d+i]
			}
		}
	default:
		s.quad = mat.DenseCopyOf(m).RawMatrix().Data
	}
	return &Objective{func() *objective { return s }}
}

// buffers returns a function that makes slices of length n for a pool.
func buffers(n int) func() any {
	return func() any { v := make([]float64, n); return &v }
}

// Len returns the number of components of f: that of the records, or of the lines of all persons.
func (o *Objective) Len() int { return o.s().data.n }

// Dim returns d, the length of θ.
func (o *Objective) Dim() int { return o.s().data.d }

// check panics unless all vectors have length d.
func (s *objective) check(vectors ...[]float64) {
	for _, v := range vectors {
		if len(v) != s.data.d {
			panic(badLen)
		}
	}
}

// Func returns f(x) = Σᵢ ℓ(x;aᵢ,bᵢ) + ⟨b,x⟩ + ½(x−θ̃)'Q(x−θ̃), without Reg and Set. It sums over
// the records in double-double and returns +Inf if the sum overflows.
func (o *Objective) Func(x []float64) float64 { return o.s().evaluate(askValue, nil, x) }

// Grad stores ∇f(x) = Σᵢ ∇ℓ(x;aᵢ,bᵢ) + b + Q(x−θ̃) in dst, which may be x. It does not allocate.
func (o *Objective) Grad(dst, x []float64) { o.s().evaluate(askGrad, dst, x) }

// FuncGrad stores ∇f(x) in dst, which may be x, and returns f(x), with the bits of Grad and Func.
// It costs little more than one of them and does not allocate.
func (o *Objective) FuncGrad(dst, x []float64) float64 {
	return o.s().evaluate(askValue|askGrad, dst, x)
}

// evaluate returns f(x) and stores ∇f(x) in dst, if want asks for them.
func (s *objective) evaluate(want ask, dst, x []float64) (f float64) {
	s.check(x)
	if want&askGrad != 0 {
		s.check(dst)
	}
	p := s.sum(want, x, nil)
	if want&askValue != 0 {
		f = p.value + s.perturbation(x)
	}
	if want&askGrad != 0 {
		g := s.get() // dst may be x
		copy(*g, p.grad)
		s.addPerturbation(*g, x, 1)
		copy(dst, *g)
		s.put(g)
	}
	s.done(p)
	return f
}

// perturbation returns ⟨b,x⟩ + ½(x−θ̃)'Q(x−θ̃).
func (s *objective) perturbation(x []float64) float64 {
	sum := 0.0
	if s.linear != nil {
		sum = floats.Dot(s.linear, x)
	}
	if s.diag != nil || s.quad != nil {
		y, qy := s.get(), s.get()
		s.shift(*y, x)
		clear(*qy)
		s.addQuad(*qy, *y, 1)
		sum += floats.Dot(*qy, *y) / 2
		s.put(y, qy)
	}
	return sum
}

// GradTerms stores Σ_{i∈idx} ∇fᵢ(x) in dst, where fᵢ is the loss of record i plus 1/n of the
// perturbation. It does not allocate.
func (o *Objective) GradTerms(dst, x []float64, idx []int) {
	s := o.s()
	r := s.data
	s.check(dst, x)
	s.setPerturbation(dst, x, float64(len(idx))/float64(max(r.n, 1)))
	if s.glm != nil {
		for _, i := range idx {
			slab, k := r.at(i)
			col, a := r.in(slab, k)
			r.addScaled(dst, s.slope(slab, k, r.dot(col, a, x)), col, a)
		}
		return
	}
	g, row := s.get(), s.get()
	for _, i := range idx {
		s.loss.Grad(*g, x, r.row(i, *row), r.label(i))
		kernel.AddScaled(dst, r.weight(i), *g)
	}
	s.put(g, row)
}

// slope returns wφ′(u;b) for the record at index k of slab, w its weight.
func (s *objective) slope(slab *slab, k int, u float64) float64 {
	if s.lsq != 0 {
		return s.lsq * (u - slab.y[k]) * slab.weight(k)
	}
	_, dphi, _ := s.glm.Scalar(u, slab.y[k], slab.norm[k])
	return dphi * slab.weight(k)
}

// addPerturbation adds share·(b + Q(x−θ̃)) to dst.
func (s *objective) addPerturbation(dst, x []float64, share float64) {
	if s.linear != nil {
		kernel.AddScaled(dst, share, s.linear)
	}
	if s.diag != nil || s.quad != nil {
		y := s.get()
		s.shift(*y, x)
		s.addQuad(dst, *y, share)
		s.put(y)
	}
}

// setPerturbation stores share·(b + Q(x−θ̃)) in dst, in one loop if Q is diagonal and θ̃ = 0.
func (s *objective) setPerturbation(dst, x []float64, share float64) {
	if s.diag == nil || s.linear == nil || s.center != nil {
		clear(dst)
		s.addPerturbation(dst, x, share)
		return
	}
	x, b := x[:len(dst)], s.linear[:len(dst)]
	for j, q := range s.diag[:len(dst)] {
		dst[j] = share * (b[j] + q*x[j])
	}
}

// addQuad adds share·Qy to dst. It changes y unless share is 1.
func (s *objective) addQuad(dst, y []float64, share float64) {
	if s.diag != nil {
		for j, q := range s.diag {
			dst[j] += share * q * y[j]
		}
		return
	}
	if share != 1 {
		floats.Scale(share, y)
	}
	kernel.AddMulVec(dst, s.quad, y) // Q' = Q
}

// shift stores x−θ̃ in y.
func (s *objective) shift(y, x []float64) {
	copy(y, x)
	if s.center != nil {
		kernel.AddScaled(y, -1, s.center)
	}
}

// get returns a slice of length d from the pool, put returns slices to it.
func (s *objective) get() *[]float64 { return s.scratch.Get().(*[]float64) }

func (s *objective) put(v ...*[]float64) {
	for _, p := range v {
		s.scratch.Put(p)
	}
}

const (
	maxRounded    = 1 << 51 // the largest norm that SumRounded accepts
	exactIntegers = 1 << 53 // float64 represents every integer up to this magnitude
)

// SumRounded stores the sum of rounded gradients in dst, without the perturbation:
//
//	k = Σ_{i∈idx} kᵢ,   kᵢ = round(∇ℓ(x;aᵢ,bᵢ)/g),   g = 2^exponent
//
// Every gradient must have norm at most norm·g, so the loss must clip. The bits of kᵢ are a
// function of x and record i alone: neither the rest of the batch nor the place of the record
// changes them. Sums of integers are exact modulo 2⁶⁴ in any order. It does not allocate. It panics
// unless 1 ≤ norm ≤ 2⁵¹ and |exponent| ≤ 900.
func (o *Objective) SumRounded(dst []int64, x []float64, idx []int, exponent int, norm int64) {
	s := o.s()
	r := s.data
	if s.check(x); len(dst) != r.d {
		panic(badLen)
	}
	if norm < 1 || norm > maxRounded || exponent < -900 || exponent > 900 {
		panic(badRounded)
	}
	clear(dst)
	sum, g := s.get(), s.get()
	row := s.get()
	// (v + shift) − shift is the multiple of g nearest to v.
	shift, scale := math.Ldexp(1.5, 52+exponent), math.Ldexp(1, -exponent)
	for len(idx) > 0 {
		clear(*sum)
		part := idx[:min(len(idx), int(exactIntegers/norm))] // its sum is exact in float64
		for _, i := range part {
			if s.glm != nil {
				slab, k := r.at(i) // one read, so that the slope is clipped for this very row
				col, a := r.in(slab, k)
				addRounded(*sum, s.slope(slab, k, r.dot(col, a, x)), col, a, shift)
				continue
			}
			s.loss.Grad(*g, x, r.row(i, *row), r.label(i))
			addRounded(*sum, r.weight(i), nil, *g, shift)
		}
		for j, v := range *sum {
			dst[j] += int64(v * scale)
		}
		idx = idx[len(part):]
	}
	s.put(sum, g, row)
}

// addRounded adds w·a, rounded to multiples of g, to dst; shift is that of SumRounded.
func addRounded(dst []float64, w float64, col []int32, a []float64, shift float64) {
	if col != nil {
		for k, j := range col {
			dst[j] += (float64(w*a[k]) + shift) - shift
		}
		return
	}
	dst = dst[:len(a)]
	for j, v := range a {
		dst[j] += (float64(w*v) + shift) - shift
	}
}
