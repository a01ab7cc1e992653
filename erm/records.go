package erm

import (
	"math/bits"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
)

// slab holds up to records.slabRows consecutive records. Memory that grows slab
// by slab is never copied to grow, and a pass walks slabs as it would walk one
// array.
type slab struct {
	// Dense: the rows, row-major. Sparse: the entries that are not 0, row by
	// row; those of row k are x[ptr[k]:ptr[k+1]], in the columns col.
	x   []float64
	col []int32
	ptr []int

	y    []float64
	norm []float64 // ‖aᵢ‖₂, rounded up
}

// slabFloats numbers make a slab: 1 MiB.
const slabFloats = 1 << 17

// newRecords returns empty records of d features, of which a dense row holds
// width = d numbers and a sparse one about width.
func newRecords(d, width int, sparse bool, b loss.Bounds) *records {
	return &records{d: d, sparse: sparse, shift: bits.Len(uint(slabRows(width))) - 1, bounds: b}
}

// slabRows returns the number of records of about width numbers that make a slab, a power of 2.
func slabRows(width int) int { return 1 << (bits.Len(uint(max(slabFloats/max(width, 1), 1))) - 1) }

// slabRows returns the number of records of all slabs but the last.
func (r *records) slabRows() int { return 1 << r.shift }

// width returns how many numbers a row has, of sparse rows the mean.
func (r *records) width() int {
	if r.sparse {
		return r.floatsOnce / max(r.n, 1)
	}
	return r.d
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

// open returns the slab that the next record goes to. room is the number of
// records still to come, 0 if that is not known.
func (r *records) open(room int) *slab {
	if last := len(r.slabs) - 1; last >= 0 && len(r.slabs[last].y) < r.slabRows() {
		return &r.slabs[last]
	} else if last >= 0 {
		r.slabs[last].trim()
	}
	rows := min(room, r.slabRows())
	if room == 0 && r.n > 0 {
		rows = r.slabRows()
	}
	s := slab{y: make([]float64, 0, rows), norm: make([]float64, 0, rows)}
	if r.sparse {
		s.ptr = append(make([]int, 0, rows+1), 0)
	} else {
		s.x = make([]float64, 0, rows*r.d)
	}
	r.slabs = append(r.slabs, s)
	return &r.slabs[len(r.slabs)-1]
}

// trim gives back what slab s does not need.
func (s *slab) trim() {
	s.x, s.col, s.ptr, s.y, s.norm = fit(s.x), fit(s.col), fit(s.ptr), fit(s.y), fit(s.norm)
}

func fit[T any](s []T) []T {
	if cap(s)-len(s) > len(s)/16 {
		return append(make([]T, 0, len(s)), s...)
	}
	return s
}

// at returns the slab of record i and the place of the record in it.
func (r *records) at(i int) (*slab, int) {
	if r.src != nil {
		return r.src.at(r, i)
	}
	return &r.slabs[i>>r.shift], i & (1<<r.shift - 1)
}

func (r *records) label(i int) float64 { s, k := r.at(i); return s.y[k] }

func (r *records) norm(i int) float64 { s, k := r.at(i); return s.norm[k] }

// entries returns the numbers of row i and, if the rows are sparse, their
// columns, to be read only.
func (r *records) entries(i int) (col []int32, x []float64) {
	s, k := r.at(i)
	return r.in(s, k)
}

// in returns the entries of row k of slab s.
func (r *records) in(s *slab, k int) (col []int32, x []float64) {
	if r.sparse {
		lo, hi := s.ptr[k], s.ptr[k+1]
		return s.col[lo:hi:hi], s.x[lo:hi:hi]
	}
	lo, hi := k*r.d, (k+1)*r.d
	return nil, s.x[lo:hi:hi]
}

// row returns row i, to be read only: a dense row itself, of a sparse one its
// copy in scratch, which has length d.
func (r *records) row(i int, scratch []float64) []float64 {
	col, x := r.entries(i)
	if !r.sparse {
		return x
	}
	clear(scratch)
	for k, j := range col {
		scratch[j] = x[k]
	}
	return scratch
}

// dot returns ⟨a,x⟩ for the entries of a row.
func (r *records) dot(col []int32, a, x []float64) float64 {
	if r.sparse {
		return dotSparse(col, a, x)
	}
	return kernel.Dot(a, x)
}

// addScaled adds w·a to dst for the entries of a row.
func (r *records) addScaled(dst []float64, w float64, col []int32, a []float64) {
	if r.sparse {
		addScaledSparse(dst, w, col, a)
		return
	}
	kernel.AddScaled(dst, w, a)
}

// mul stores ⟨aᵢ,x⟩ in u for the len(u) records from k in slab s.
func (r *records) mul(u []float64, s *slab, k int, x []float64, stream bool) {
	if !r.sparse {
		kernel.MulVec(u, s.x[k*r.d:(k+len(u))*r.d], x, stream)
		return
	}
	for i := range u {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		u[i] = dotSparse(s.col[lo:hi], s.x[lo:hi], x)
	}
}

// addMul adds Σ wᵢaᵢ to dst for the len(w) records from k in slab s.
func (r *records) addMul(dst []float64, s *slab, k int, w []float64) {
	if !r.sparse {
		kernel.AddMulVec(dst, s.x[k*r.d:(k+len(w))*r.d], w)
		return
	}
	for i, v := range w {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		addScaledSparse(dst, v, s.col[lo:hi], s.x[lo:hi])
	}
}

// mul2 is mul in twice the precision, u + ul.
func (r *records) mul2(u, ul []float64, s *slab, k int, x []float64) {
	if !r.sparse {
		kernel.MulVec2(u, ul, s.x[k*r.d:(k+len(u))*r.d], x)
		return
	}
	for i := range u {
		lo, hi := s.ptr[k+i], s.ptr[k+i+1]
		u[i], ul[i] = dot2(s.col[lo:hi], s.x[lo:hi], x)
	}
}

// addMul2 adds Σ (wᵢ+wlᵢ)aᵢ to hi + lo.
func (r *records) addMul2(hi, lo []float64, s *slab, k int, w, wl []float64) {
	if !r.sparse {
		kernel.AddMulVec2(hi, lo, s.x[k*r.d:(k+len(w))*r.d], w, wl)
		return
	}
	for i, v := range w {
		from, to := s.ptr[k+i], s.ptr[k+i+1]
		axpy2(hi, lo, v, wl[i], s.col[from:to], s.x[from:to])
	}
}

func dotSparse(col []int32, a, x []float64) float64 {
	a = a[:len(col)]
	sum := 0.0
	for k, j := range col {
		sum += a[k] * x[j]
	}
	return sum
}

func addScaledSparse(dst []float64, w float64, col []int32, a []float64) {
	a = a[:len(col)]
	for k, j := range col {
		dst[j] += w * a[k]
	}
}
