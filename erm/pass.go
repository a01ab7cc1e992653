package erm

import (
	"math"
	"sync"

	"github.com/privopt/privopt/internal/kernel"
)

const (
	// streamBytes is the size of the rows above which a pass is bound by
	// memory: see kernel.Block.
	streamBytes = 24 << 20
	// partBytes of rows are worth handing to another thread: some 5 µs.
	partBytes = 128 << 10
	// maxParts bounds the memory of the partial sums.
	maxParts = 64
	// labelFloats is what a record costs beside its row, as numbers read.
	labelFloats = 16
	// maxBlock bounds the predictions held at a time.
	maxBlock = 512
)

// parts returns how many parts a sum over the records has, at most most, and
// the number of records in each but the last. It depends on the records alone,
// so that the sum has the same bits on any number of threads.
func (r *records) parts(most int) (parts, size int) {
	if r.n == 0 {
		return 0, 0
	}
	parts = min(max((r.floats()+r.n*labelFloats)*8/partBytes, 1), most, maxParts)
	size = (r.n + parts - 1) / parts
	size = (size + 3) &^ 3
	return (r.n + size - 1) / size, size
}

// floats returns the number of numbers in the rows.
func (r *records) floats() int {
	if !r.sparse {
		return r.n * r.d
	}
	sum := 0
	for i := range r.slabs {
		sum += len(r.slabs[i].x)
	}
	return sum
}

// pass is one sweep over all records, as a sum whose parts are ranges of them.
// A partial sum holds what is asked for: ∇f, then f as hi + lo.
type pass struct {
	s           *objective
	x           []float64
	grad, value bool
	curve       []float64 // if not nil, gets φ″ᵢ
	size        int       // records in a part
	block       int       // records at a time
	stream      bool
	sum         []float64
}

// sweep computes ∇f in dst, unless that is nil, and f, if value is true,
// without the perturbation. If curve is not nil, it gets φ″ᵢ.
func (s *objective) sweep(dst, x []float64, value bool, curve []float64) float64 {
	p := s.passes.Get().(*pass)
	r := s.data
	parts, size := r.parts(maxParts)
	p.s, p.x, p.grad, p.value, p.curve, p.size = s, x, dst != nil, value, curve, size
	p.stream = 8*r.floatsOnce > streamBytes
	p.block = min(kernel.Block(max(r.floatsOnce/max(r.n, 1), 1), p.stream), maxBlock)
	n := 0
	if p.grad {
		n += r.d
	}
	if value {
		n += 2
	}
	p.sum = resize(p.sum, n)
	kernel.Reduce(p.sum, parts, s.threads, p)
	f := 0.0
	if value {
		if f = p.sum[n-2] + p.sum[n-1]; math.IsNaN(f) {
			f = p.sum[n-2] // of infinite terms only this is a sum
		}
	}
	if p.grad {
		copy(dst, p.sum)
	}
	p.x, p.curve = nil, nil
	s.passes.Put(p)
	return f
}

// Part implements kernel.Sum.
func (p *pass) Part(dst []float64, part int) {
	var grad, value []float64
	if p.grad {
		grad = dst[:p.s.data.d]
	}
	if p.value {
		value = dst[len(dst)-2:]
	}
	lo := part * p.size
	hi := min(lo+p.size, p.s.data.n)
	if p.s.glm != nil {
		p.linear(grad, value, lo, hi)
	} else {
		p.general(grad, value, lo, hi)
	}
}

// Join implements kernel.Sum.
func (p *pass) Join(dst, src []float64) {
	n := len(dst)
	if p.value {
		n -= 2
		dst[n], dst[n+1] = add2(dst[n], dst[n+1], src[n])
		dst[n+1] += src[n+1]
	}
	if p.grad {
		kernel.AddScaled(dst[:n], 1, src[:n])
	}
}

// predicted holds the predictions of one block of rows.
var predicted = sync.Pool{New: func() any { return new([maxBlock]float64) }}

// linear adds Σ φ′(⟨aᵢ,x⟩;bᵢ)aᵢ and Σ φ(⟨aᵢ,x⟩;bᵢ) for i in [lo, hi).
func (p *pass) linear(grad, value []float64, lo, hi int) {
	r := p.s.data
	buf := predicted.Get().(*[maxBlock]float64)
	defer predicted.Put(buf)
	for lo < hi {
		s, k := r.at(lo)
		m := min(p.block, hi-lo, len(s.y)-k)
		u, y := buf[:m], s.y[k:k+m]
		r.mul(u, s, k, p.x, p.stream) // u = Ax
		switch {
		case value == nil && p.curve == nil && p.s.lsq != 0:
			kernel.Slope(u, y, p.s.lsq) // u = c(u−b)
		case value == nil && p.s.batch != nil:
			var curve []float64
			if p.curve != nil {
				curve = p.curve[lo : lo+m]
			}
			p.s.batch.Slopes(u, y, curve)
		default:
			norm := s.norm[k : k+m]
			for i, v := range u {
				phi, dphi, d2phi := p.s.glm.Scalar(v, y[i], norm[i])
				if u[i] = dphi; p.s.lsq != 0 {
					u[i] = p.s.lsq * (v - y[i]) // the bits of Slope
				}
				if value != nil {
					value[0], value[1] = add2(value[0], value[1], phi)
				}
				if p.curve != nil {
					p.curve[lo+i] = d2phi
				}
			}
		}
		if grad != nil {
			r.addMul(grad, s, k, u) // dst += A'u
		}
		lo += m
	}
}

// general adds Σ ∇ℓ(x;aᵢ,bᵢ) and Σ ℓ(x;aᵢ,bᵢ) for i in [lo, hi).
func (p *pass) general(grad, value []float64, lo, hi int) {
	s := p.s
	g, row := s.get(), s.get()
	defer s.put(g, row)
	for i := lo; i < hi; i++ {
		a, b := s.data.row(i, *row), s.data.label(i)
		if grad != nil {
			s.loss.Grad(*g, p.x, a, b)
			kernel.AddScaled(grad, 1, *g)
		}
		if value != nil {
			value[0], value[1] = add2(value[0], value[1], s.loss.Func(p.x, a, b))
		}
	}
}

// resize returns s with length n.
func resize(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n)
	}
	return s[:n]
}
