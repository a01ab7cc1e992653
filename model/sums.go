package model

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// Limits under which sums of integers stay below 2⁶⁰: a record adds at most 2²¹√m < 2³¹.
const (
	mostSummed = 1 << 29 // records
	mostDim    = 1000    // parameters
	mostSum    = 1 << 61
)

// withNoise returns g·(k + round(τN/g)), g = 2^exponent. The sum is clamped where the
// noise may have saturated, so that it is that of unsaturated noise.
func withNoise(k []int64, tau float64, exponent int, src rand.Source) []float64 {
	draw := make([]int64, len(k))
	defer clear(draw)
	noise.Grid(draw, tau, exponent, src)
	out := make([]float64, len(k))
	for i, v := range k {
		out[i] = math.Ldexp(float64(min(max(v+draw[i], -mostSum), mostSum)), exponent)
	}
	return out
}

// edges are the public edges of histograms of |r|‖a‖, in units of Row·Label.
var edges = []float64{0.02, 0.03, 0.045, 0.065, 0.09, 0.12, 0.16, 0.22, 0.3, 0.4, 0.55, 0.75, 1}

// histogram is a noisy histogram over the edges.
type histogram []float64

// bin returns the bin of v: the first whose edge is at least v, the last for all others.
func bin(v float64) int {
	for k, e := range edges[:len(edges)-1] {
		if v <= e {
			return k
		}
	}
	return len(edges) - 1
}

// newHistogram releases the histogram of |b−⟨a,θ⟩|‖a‖, nil for θ = 0. A record counts in
// one bin, so that the sensitivity is 1, or √2 for a record that is replaced. The
// counts are multiples of the grid, a power of two below the noise.
func newHistogram(f *fault.Set, data *erm.Data, theta []float64, tau float64, src rand.Source) (histogram, error) {
	counts := make([]int64, len(edges))
	b, exponent := data.Bounds(), countGrid(tau)
	unit := b.Row * b.Label
	err := data.Each(func(a []float64, r float64) {
		if theta != nil {
			r -= floats.Dot(a, theta)
		}
		counts[bin(math.Abs(r)*floats.Norm(a, 2)/unit)] += 1 << -exponent
	})
	if err != nil {
		return nil, err
	}
	return withNoise(fault.At(f, fault.Counts, counts), tau, exponent, src), nil
}

// countGrid returns the exponent of a grid well below tau that 1 is a multiple of.
func countGrid(tau float64) int {
	_, e := math.Frexp(min(tau, 1))
	return max(min(e-20, 0), -30)
}

// cdf returns the share of records up to each edge: increasing, in [0, 1]. Of a total
// that is hardly more than noise, n stands for the number of records.
func (h histogram) cdf(n float64) []float64 {
	total := floats.Sum(h)
	if total <= 0.2*n {
		total = n
	}
	f, sum, top := make([]float64, len(h)), 0.0, 0.0
	for k, c := range h {
		sum += c
		top = max(top, min(sum/max(1, total), 1))
		f[k] = top
	}
	return f
}

// quantile returns the point where the cdf f reaches q, linear inside a bin.
func quantile(f []float64, q float64) float64 {
	k := slices.IndexFunc(f, func(v float64) bool { return v >= q })
	if k < 0 {
		k = len(f) - 1
	}
	lo, below := 0.0, 0.0
	if k > 0 {
		lo, below = edges[k-1], f[k-1]
	}
	if !(f[k] > below) {
		return edges[k]
	}
	return lo + (edges[k]-lo)*min(max((q-below)/max(1e-9, f[k]-below), 0), 1)
}

// secondMoment returns Σp̂·mid², in [0.001, 1].
func (h histogram) secondMoment() float64 {
	sum, square, lo := 0.0, 0.0, 0.0
	for k, c := range h {
		mid := (lo + edges[k]) / 2
		lo = edges[k]
		sum += max(c, 0)
		square += max(c, 0) * mid * mid
	}
	return min(max(square/max(1, sum), 1e-3), 1)
}

// moments are the two sums for standard errors, as symmetric matrices with noise.
type moments struct {
	hessian, scores       *mat.SymDense
	hessianTau, scoresTau float64 // τ: the noise has deviation τ on the diagonal, τ/√2 off it
}

// sumSensitivity returns the ℓ₂ sensitivity of the rounded sum of terms waa′ with
// 0 ≤ w‖a‖² ≤ bound, as vectors (diagonal, √2·upper triangle), and the exponent of the
// grid they are rounded to:
//
//	add or remove  bound + g√m/2
//	replace        √2·bound + g√m,  as ⟨waa′, w′zz′⟩ ≥ 0; bound + g√m in one dimension
//
// m = d(d+1)/2. The factor covers the rounding of the float64 products.
func sumSensitivity(bound, pair float64, d int) (sensitivity float64, exponent int) {
	root := math.Sqrt(float64(d*(d+1)) / 2)
	_, e := math.Frexp(bound / root)
	exponent = e - 1 - 20
	rounding := math.Ldexp(root, exponent-1)
	if pair > 1 {
		rounding *= 2
	}
	if d == 1 {
		pair = 1
	}
	return pair*bound*(1+0x1p-40) + rounding, exponent
}

// sums adds the rounded terms of all records: of each, weights returns w for the two
// matrices from a's prediction, label and norm, and bounds are the most of w‖a‖².
// What a record adds depends on it alone, and integers add up exactly.
func sums(data *erm.Data, theta []float64, l loss.Linear, bounds [2]float64, exponent [2]int) (out [2][]int64, err error) {
	_, d := data.Dims()
	for k := range out {
		out[k] = make([]int64, d*(d+1)/2)
	}
	err = data.Each(func(a []float64, b float64) {
		norm := floats.Norm(a, 2)
		_, dphi, d2phi := l.Scalar(floats.Dot(a, theta), b, norm)
		for k, w := range [2]float64{d2phi, dphi * dphi} {
			if norm == 0 || !(w > 0) {
				continue
			}
			w = math.Ldexp(min(w, bounds[k]/(norm*norm)), -exponent[k])
			addOuter(out[k], a, w)
		}
	})
	return out, err
}

// addOuter adds the rounded vector (diagonal, √2·upper triangle) of waa′, row by row.
func addOuter(dst []int64, a []float64, w float64) {
	at := 0
	for j, v := range a {
		if v == 0 {
			at += len(a) - j
			continue
		}
		wv := w * v
		dst[at] += int64(math.RoundToEven(wv * v))
		at++
		wv *= math.Sqrt2
		for _, u := range a[j+1:] {
			if u != 0 {
				dst[at] += int64(math.RoundToEven(wv * u))
			}
			at++
		}
	}
}

// releaseSum adds noise of deviation tau to a sum and returns the symmetric matrix.
func releaseSum(f *fault.Set, sum []int64, d int, tau float64, exponent int, src rand.Source) *mat.SymDense {
	values := withNoise(fault.At(f, fault.Moments, sum), tau, exponent, src)
	m, at := mat.NewSymDense(d, nil), 0
	for j := range d {
		for k := j; k < d; k++ {
			if k > j {
				values[at] /= math.Sqrt2
			}
			m.SetSym(j, k, values[at])
			at++
		}
	}
	return m
}
