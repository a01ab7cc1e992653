package erm

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
)

// outer is the sum Σ wᵢaᵢaᵢ', its upper triangle, as kernel.AddGram lays it
// out. Terms with wᵢ = 0 are skipped; the signs of w agree. A nil w means 1.
type outer struct {
	r      *records
	w      []float64
	size   int // records in a part
	stride int
	sum    []float64
}

// outers holds room for sums, blocks for scaled rows.
var (
	outers = sync.Pool{New: func() any { return new(outer) }}
	blocks sync.Pool
)

// outerRows rows are scaled and multiplied at a time.
const outerRows = 64

// add adds the sum to dst. The partial sums take at most a tenth of the memory
// of the rows, or one of them.
func (o *outer) add(dst *mat.SymDense, r *records, w []float64, threads int) {
	d := r.d
	parts, size := r.parts(max(r.floatsOnce/(10*d*kernel.GramStride(d)), 1))
	o.r, o.w, o.size, o.stride = r, w, size, kernel.GramStride(d)
	o.sum = resize(o.sum, d*o.stride)
	kernel.Reduce(o.sum, parts, threads, o)
	raw := dst.RawSymmetric()
	for i := range d {
		kernel.AddScaled(raw.Data[i*raw.Stride+i:i*raw.Stride+d], 1, o.sum[i*o.stride+i:i*o.stride+d])
	}
	o.r, o.w = nil, nil
}

// Part implements kernel.Sum.
func (o *outer) Part(dst []float64, part int) {
	r, d := o.r, o.r.d
	lo := part * o.size
	hi := min(lo+o.size, r.n)
	if r.sparse {
		for i := lo; i < hi; i++ {
			o.sparse(dst, i)
		}
		return
	}
	block, _ := blocks.Get().(*[]float64)
	if block == nil {
		block = new([]float64)
	}
	defer blocks.Put(block)
	*block = resize(*block, outerRows*o.stride)
	m, sign := 0, 1.0
	for i := lo; i < hi; i++ {
		v := 1.0
		if o.w != nil {
			v = o.w[i]
		}
		if v != 0 {
			sign = math.Copysign(1, v)
			_, a := r.entries(i)
			root, to := math.Sqrt(math.Abs(v)), (*block)[m*o.stride:][:o.stride]
			for j, x := range a {
				to[j] = root * x
			}
			clear(to[d:])
			m++
		}
		if m == outerRows || i == hi-1 {
			kernel.AddGram(dst, sign, (*block)[:m*o.stride], d)
			m = 0
		}
	}
}

// sparse adds wᵢaᵢaᵢ' to dst.
func (o *outer) sparse(dst []float64, i int) {
	v := 1.0
	if o.w != nil {
		v = o.w[i]
	}
	if v == 0 {
		return
	}
	col, a := o.r.entries(i)
	for k, j := range col {
		w, row := v*a[k], dst[int(j)*o.stride:]
		for l := k; l < len(col); l++ {
			row[col[l]] += w * a[l]
		}
	}
}

// Join implements kernel.Sum.
func (o *outer) Join(dst, src []float64) { kernel.AddScaled(dst, 1, src) }
