package erm

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/blas"
	blasgonum "gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Messages of panics on bugs in the call.
const (
	badLen     = "erm: length mismatch"
	badProblem = "erm: Perturb of a Problem that fails Check"
	badLoss    = "erm: Hessian needs a loss.Linear"
	badHessian = "erm: Hessian dst is neither empty nor of the dimension"
)

// kernel calls the assembly kernels of gonum on plain slices, on one thread.
var kernel blasgonum.Implementation

// Objective is a perturbed problem. Its smooth part
//
//	f(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃)
//
// satisfies splitting.FiniteSum, splitting.Convex and splitting.Quadratizer;
// component i carries 1/n of the perturbation. Reg and Set of the problem are
// not in f: a solver gets them beside it. Residual measures all of J.
//
// An Objective is immutable and safe for concurrent use if its loss and
// operators are. The same arguments give the same bits, whatever GOMAXPROCS.
// It prints as its dimensions. Its values are functions of the records: none
// may leave the trust boundary.
type Objective struct{ s func() *objective } // a function, see Data

// objective is what Objective hides.
type objective struct {
	data   *records
	consts loss.Constants // on the declared bounds and the radius of Set
	loss   loss.Loss
	glm    loss.Linear // loss if it is one, else nil
	lsq    float64     // c of ℓ = (c/2)(u−b)², 0 if the loss is not one
	curve  float64     // sup φ″ if glm, else sup λ_max(∇²ℓ); +Inf if unknown
	reg    prox.Operator
	set    prox.Set

	linear, center []float64 // nil means 0
	diag           []float64 // Q if diagonal
	quad           []float64 // Q else, d×d
	minEig, maxEig float64   // bounds on the spectrum of Q as declared

	// Pools of *[]float64 of lengths d, n and blockRows·d.
	scratch, curves, blocks sync.Pool

	quadOnce  sync.Once
	quadratic *mat.SymDense
	lin       []float64
	constant  float64

	eigOnce sync.Once
	lo, hi  float64 // bounds on the spectrum of Q, computed where not declared
}

// NewUnperturbed returns the objective of p itself, whose minimizer is not
// private. It panics as Perturb does.
func NewUnperturbed(p *Problem) *Objective { return p.Perturb(Perturbation{}) }

// Perturb returns the perturbed objective. It copies what it keeps of q.
//
// It panics with a constant message if p fails Check or if the parts of q have
// other dimensions than p: these are bugs in the call.
func (p *Problem) Perturb(q Perturbation) *Objective {
	if p.Check() != nil {
		panic(badProblem)
	}
	data := p.Data.r()
	d := data.d
	if q.Linear != nil && len(q.Linear) != d || q.Center != nil && len(q.Center) != d {
		panic(badLen)
	}
	s := &objective{
		data:   data,
		loss:   p.Loss,
		reg:    p.Reg,
		set:    p.Set,
		minEig: q.MinEig,
		maxEig: q.MaxEig,
		consts: p.constants(),
	}
	s.scratch.New = buffers(d)
	s.curves.New = buffers(data.n)
	s.blocks.New = buffers(blockRows * d)
	s.linear = append(s.linear, q.Linear...)
	s.center = append(s.center, q.Center...)

	// Without a radius the constants of the curvature still hold.
	s.curve = p.Loss.Constants(data.bounds, math.Inf(1)).Smoothness
	if glm, ok := p.Loss.(loss.Linear); ok {
		s.glm = glm
		s.curve /= data.bounds.Row * data.bounds.Row
		if s.consts.Structure == loss.LSQ {
			if _, _, c := glm.Scalar(0, 0, data.bounds.Row); c > 0 && !math.IsInf(c, 1) {
				s.lsq, s.curve = c, c
			}
		}
	}
	if !(s.curve > 0) {
		s.curve = math.Inf(1) // 0 and NaN mean unknown
	}

	switch m := q.Quad.(type) {
	case nil:
	case *mat.DiagDense:
		if m.SymmetricDim() != d {
			panic(badLen)
		}
		s.diag = make([]float64, d)
		for i := range s.diag {
			s.diag[i] = m.At(i, i)
		}
	default:
		if m.SymmetricDim() != d {
			panic(badLen)
		}
		s.quad = fullSymmetric(m)
	}
	return &Objective{func() *objective { return s }}
}

// buffers returns what fills a pool of slices of length n.
func buffers(n int) func() any {
	return func() any { v := make([]float64, n); return &v }
}

// fullSymmetric returns both triangles of m, row-major.
func fullSymmetric(m mat.Symmetric) []float64 {
	d := m.SymmetricDim()
	full := make([]float64, d*d)
	if raw, ok := m.(mat.RawSymmetricer); ok {
		if u := raw.RawSymmetric(); u.Uplo == blas.Upper {
			for i := range d {
				copy(full[i*d+i:(i+1)*d], u.Data[i*u.Stride+i:i*u.Stride+d])
				for j := i + 1; j < d; j++ {
					full[j*d+i] = full[i*d+j]
				}
			}
			return full
		}
	}
	for i := range d {
		for j := range d {
			full[i*d+j] = m.At(i, j)
		}
	}
	return full
}

// Len returns the number of records, the components of f.
func (o *Objective) Len() int { return o.s().data.n }

// Dim returns d, the length of θ.
func (o *Objective) Dim() int { return o.s().data.d }

// Func returns f(x) = Σᵢ ℓ(x;aᵢ,bᵢ) + ⟨b,x⟩ + ½(x−θ̃)'Q(x−θ̃), without Reg and Set.
func (o *Objective) Func(x []float64) float64 {
	s := o.s()
	if len(x) != s.data.d {
		panic(badLen)
	}
	var hi, lo float64
	if s.glm != nil {
		s.data.predictions(x, func(i int, u float64) float64 {
			phi, _, _ := s.glm.Scalar(u, s.data.y[i], s.data.norm[i])
			hi, lo = add2(hi, lo, phi)
			return 0
		}, nil)
	} else {
		for i, b := range s.data.y {
			hi, lo = add2(hi, lo, s.loss.Func(x, s.data.row(i), b))
		}
	}
	sum := hi + lo
	if s.linear != nil {
		sum += kernel.Ddot(len(x), s.linear, 1, x, 1)
	}
	if s.diag != nil || s.quad != nil {
		y := s.get()
		qy := s.get()
		s.shift(*y, x)
		clear(*qy)
		s.addQuad(*qy, *y, 1)
		sum += kernel.Ddot(len(x), *qy, 1, *y, 1) / 2
		s.scratch.Put(y)
		s.scratch.Put(qy)
	}
	return sum
}

// Grad stores ∇f(x) = Σᵢ ∇ℓ(x;aᵢ,bᵢ) + b + Q(x−θ̃) in dst. It does not allocate.
func (o *Objective) Grad(dst, x []float64) {
	s := o.s()
	if len(x) != s.data.d || len(dst) != s.data.d {
		panic(badLen)
	}
	clear(dst)
	if s.glm != nil {
		s.data.predictions(x, func(i int, u float64) float64 {
			return s.slope(i, u)
		}, dst)
	} else {
		g := s.get()
		for i, b := range s.data.y {
			s.loss.Grad(*g, x, s.data.row(i), b)
			kernel.Daxpy(len(dst), 1, *g, 1, dst, 1)
		}
		s.scratch.Put(g)
	}
	s.addPerturbation(dst, x, 1)
}

// GradTerms stores Σ_{i∈idx} ∇fᵢ(x) in dst, where fᵢ is the cost of record i
// plus 1/n of the perturbation. It does not allocate.
func (o *Objective) GradTerms(dst, x []float64, idx []int) {
	s := o.s()
	d := s.data.d
	if len(x) != d || len(dst) != d {
		panic(badLen)
	}
	clear(dst)
	if s.glm != nil {
		for _, i := range idx {
			a := s.data.row(i)
			w := s.slope(i, kernel.Ddot(d, a, 1, x, 1))
			kernel.Daxpy(d, w, a, 1, dst, 1)
		}
	} else {
		g := s.get()
		for _, i := range idx {
			s.loss.Grad(*g, x, s.data.row(i), s.data.y[i])
			kernel.Daxpy(d, 1, *g, 1, dst, 1)
		}
		s.scratch.Put(g)
	}
	s.addPerturbation(dst, x, float64(len(idx))/float64(s.data.n))
}

// slope returns φ′(u;bᵢ).
func (s *objective) slope(i int, u float64) float64 {
	if s.lsq != 0 {
		return s.lsq * (u - s.data.y[i])
	}
	_, dphi, _ := s.glm.Scalar(u, s.data.y[i], s.data.norm[i])
	return dphi
}

// addPerturbation adds share·(b + Q(x−θ̃)) to dst.
func (s *objective) addPerturbation(dst, x []float64, share float64) {
	if s.linear != nil {
		kernel.Daxpy(len(dst), share, s.linear, 1, dst, 1)
	}
	if s.diag != nil || s.quad != nil {
		y := s.get()
		s.shift(*y, x)
		s.addQuad(dst, *y, share)
		s.scratch.Put(y)
	}
}

// addQuad adds share·Qy to dst.
func (s *objective) addQuad(dst, y []float64, share float64) {
	d := len(dst)
	if s.diag != nil {
		for j, q := range s.diag {
			dst[j] += share * q * y[j]
		}
		return
	}
	kernel.Dgemv(blas.NoTrans, d, d, share, s.quad, d, y, 1, 1, dst, 1)
}

// shift stores x−θ̃ in y.
func (s *objective) shift(y, x []float64) {
	copy(y, x)
	if s.center != nil {
		kernel.Daxpy(len(y), -1, s.center, 1, y, 1)
	}
}

func (s *objective) get() *[]float64 { return s.scratch.Get().(*[]float64) }
