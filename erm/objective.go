package erm

import (
	"context"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// From manyRecords on in up to wholeDim dimensions a pass computes gradient and Hessian
// at once, and a solver starts from a minimizer over a sample: see Sample.
const (
	manyRecords = 1 << 19
	wholeDim    = 64
)

// Messages of panics on bugs in the call.
const (
	badLen     = "erm: length mismatch"
	badIndex   = "erm: record out of range"
	badProblem = "erm: Perturb of a Problem that fails Check"
	badLoss    = "erm: Hessian needs a loss.Linear"
	badError   = "erm: Perturbation.LinearError or QuadError is not a number of at least 0"
	badHessian = "erm: Hessian dst is neither empty nor of the dimension"
)

// Objective is a perturbed problem. Its smooth part
//
//	f(θ) = Σᵢ ℓ(θ;aᵢ,bᵢ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃)
//
// satisfies splitting.FiniteSum, Convex, FuncGrader, TermSmoother, Quadratizer
// and Hessianer; component i carries 1/n of the perturbation. Reg and Set of
// the problem are not in f: a solver gets them beside it. Residual measures all
// of J.
//
// An Objective is immutable and safe for concurrent use if its loss and
// operators are; it calls the loss from several goroutines itself, unless
// Problem.Threads is 1. The same arguments give the same bits, whatever GOMAXPROCS.
// It prints as its dimensions. Its values are functions of the records: none
// may leave the trust boundary.
type Objective struct{ s func() *objective } // a function, see Data

// objective is what Objective hides.
type objective struct {
	costs
	ctx    context.Context // of passes over records that are not in memory
	data   *records
	consts loss.Constants // on the declared bounds and the radius of Set
	reg    prox.Operator
	set    prox.Set
	weight float64 // of the records, 1 but for those of Sample

	linear, center []float64 // nil means 0
	diag           []float64 // Q if diagonal
	quad           []float64 // Q else, d×d
	minEig, maxEig float64   // bounds on the spectrum of Q as declared
	linearError    float64   // of b, in norm
	quadError      float64   // of Q, in norm

	threads int  // Problem.Threads
	whole   bool // a pass computes gradient and Hessian
	recent  recent
	failure atomic.Pointer[error]

	scratch sync.Pool // of *[]float64 of length d

	quadOnce  sync.Once
	quadratic *mat.SymDense
	lin       []float64
	constant  float64

	loOnce, hiOnce sync.Once
	lo, hi         float64 // bounds on the spectrum of Q, computed where not declared
}

// NewUnperturbed returns the objective of p itself, whose minimizer is not
// private. It panics as Perturb does.
func NewUnperturbed(p *Problem) *Objective { return p.Perturb(Perturbation{}) }

// Perturb is PerturbContext without a context that ends, and panics where that does.
func (p *Problem) Perturb(q Perturbation) *Objective {
	return p.PerturbContext(context.Background(), q)
}

// PerturbContext returns the perturbed objective, whose passes over records that are not in
// memory end with ctx. It copies what it keeps of q.
//
// It panics with a constant message if p fails Check or if the parts of q have
// other dimensions than p, or bounds that are no numbers of at least 0: these are bugs in the call.
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
		consts:  p.constants(),
		threads: p.Threads,

		linearError: q.LinearError,
		quadError:   q.QuadError,
	}
	s.whole = s.glm != nil && s.lsq == 0 && data.n >= manyRecords && d <= wholeDim && !data.sparse
	s.scratch.New = buffers(d)
	s.linear = append(s.linear, q.Linear...)
	s.center = append(s.center, q.Center...)
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

// Func returns f(x) = Σᵢ ℓ(x;aᵢ,bᵢ) + ⟨b,x⟩ + ½(x−θ̃)'Q(x−θ̃), without Reg and
// Set. The sum over the records is made in twice the precision; it is +Inf where
// that overflows.
func (o *Objective) Func(x []float64) float64 {
	s := o.s()
	if len(x) != s.data.d {
		panic(badLen)
	}
	p := s.sum(askValue, x, nil)
	defer s.done(p)
	return p.value + s.perturbation(x)
}

// Grad stores ∇f(x) = Σᵢ ∇ℓ(x;aᵢ,bᵢ) + b + Q(x−θ̃) in dst, which may be x. It
// does not allocate.
func (o *Objective) Grad(dst, x []float64) {
	s := o.s()
	if len(x) != s.data.d || len(dst) != s.data.d {
		panic(badLen)
	}
	p := s.sum(askGrad, x, nil)
	s.finish(dst, x, p)
	s.done(p)
}

// finish stores the gradient that p found, with that of the perturbation at x, in dst.
func (s *objective) finish(dst, x []float64, p *pass) {
	g := s.get()
	copy(*g, p.grad)
	s.addPerturbation(*g, x, 1)
	copy(dst, *g)
	s.put(g)
}

// FuncGrad stores ∇f(x) in dst, which may be x, and returns f(x), with the bits
// of Grad and Func at little more than the cost of one of them. It does not
// allocate.
func (o *Objective) FuncGrad(dst, x []float64) float64 {
	s := o.s()
	if len(x) != s.data.d || len(dst) != s.data.d {
		panic(badLen)
	}
	p := s.sum(askValue|askGrad, x, nil)
	f := p.value + s.perturbation(x)
	s.finish(dst, x, p)
	s.done(p)
	return f
}

// perturbation returns ⟨b,x⟩ + ½(x−θ̃)'Q(x−θ̃).
func (s *objective) perturbation(x []float64) float64 {
	sum := 0.0
	if s.linear != nil {
		sum = kernel.Dot(s.linear, x)
	}
	if s.diag != nil || s.quad != nil {
		y, qy := s.get(), s.get()
		s.shift(*y, x)
		clear(*qy)
		s.addQuad(*qy, *y, 1)
		sum += kernel.Dot(*qy, *y) / 2
		s.put(y, qy)
	}
	return sum
}

// GradTerms stores Σ_{i∈idx} ∇fᵢ(x) in dst, where fᵢ is the cost of record i
// plus 1/n of the perturbation. It does not allocate.
func (o *Objective) GradTerms(dst, x []float64, idx []int) {
	s := o.s()
	r := s.data
	if len(x) != r.d || len(dst) != r.d {
		panic(badLen)
	}
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
		kernel.AddScaled(dst, 1, *g)
	}
	s.put(g, row)
}

// slope returns φ′(u;b) of record k of a slab.
func (s *objective) slope(slab *slab, k int, u float64) float64 {
	if s.lsq != 0 {
		return s.lsq * (u - slab.y[k])
	}
	_, dphi, _ := s.glm.Scalar(u, slab.y[k], slab.norm[k])
	return dphi
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

// setPerturbation stores share·(b + Q(x−θ̃)) in dst, in one loop where Q is
// diagonal.
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

// addQuad adds share·Qy to dst. It overwrites y unless share is 1.
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

func (s *objective) get() *[]float64 { return s.scratch.Get().(*[]float64) }

func (s *objective) put(v ...*[]float64) {
	for _, p := range v {
		s.scratch.Put(p)
	}
}
