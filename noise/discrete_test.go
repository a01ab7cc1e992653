package noise_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/noise"
)

// The exact samplers against their probabilities, in cells of more than five
// expected draws.
func TestDiscreteLaws(t *testing.T) {
	const n = 200_000
	src := noise.Reproducible(11, "discrete")
	for _, scale := range []uint64{1, 2, 7, 1000} {
		width := int64(max(1, scale/4))
		cells := 14 // beyond them the last cell
		geometric, laplace := make([]float64, cells+1), make([]float64, 2*cells+1)
		for range n {
			geometric[min(int64(cells), int64(noise.Geometric(scale, src))/width)]++
			k := noise.DiscreteLaplace(scale, src)
			laplace[int64(cells)+max(-int64(cells), min(int64(cells), floorDiv(k, width)))]++
		}
		tail := func(k int64) float64 { return math.Exp(-float64(k) / float64(scale)) } // P(K ≥ k)
		want := make([]float64, cells+1)
		for i := range want {
			want[i] = n * tail(int64(i)*width)
			if i < cells {
				want[i] -= n * tail(int64(i+1)*width)
			}
		}
		merge(t, fmt.Sprintf("geometric%d", scale), geometric, want)

		q := math.Exp(-1 / float64(scale))
		cdf := func(k int64) float64 { // P(K < k) of the two-sided law
			if k > 0 {
				return 1 - math.Pow(q, float64(k))/(1+q)
			}
			return math.Pow(q, float64(1-k)) / (1 + q)
		}
		want = make([]float64, 2*cells+1)
		for i := range want {
			lo, hi := 0., 1.
			if i > 0 {
				lo = cdf(int64(i-cells) * width)
			}
			if i < 2*cells {
				hi = cdf(int64(i-cells+1) * width)
			}
			want[i] = n * (hi - lo)
		}
		merge(t, fmt.Sprintf("laplace%d", scale), laplace, want)
	}
}

// merge joins cells of fewer than ten expected draws with the next one.
func merge(t *testing.T, name string, counts, want []float64) {
	var c, w []float64
	open := false
	for i := range want {
		if open {
			c[len(c)-1] += counts[i]
			w[len(w)-1] += want[i]
		} else {
			c, w = append(c, counts[i]), append(w, want[i])
		}
		open = w[len(w)-1] < 10
	}
	if open && len(w) > 1 {
		k := len(w) - 1
		c[k-1] += c[k]
		w[k-1] += w[k]
		c, w = c[:k], w[:k]
	}
	chiSquare(t, name, c, w)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func TestBelow(t *testing.T) {
	src := noise.Reproducible(12)
	for _, n := range []uint64{1, 2, 3, 10, 16} {
		counts, want := make([]float64, n), make([]float64, n)
		for range 20_000 {
			counts[noise.Below(n, src)]++
		}
		for i := range want {
			want[i] = 20_000 / float64(n)
		}
		if n > 1 {
			chiSquare(t, fmt.Sprintf("below%d", n), counts, want)
		}
	}
	require.Less(t, noise.Below(math.MaxUint64, src), uint64(math.MaxUint64))
}

func TestDiscreteMisuse(t *testing.T) {
	src := noise.Reproducible(1)
	const scale = "noise: the scale of a geometric draw must lie between 1 and 2^40"
	for _, bad := range []uint64{0, 1<<40 + 1, math.MaxUint64} {
		require.PanicsWithValue(t, scale, func() { noise.Geometric(bad, src) })
		require.PanicsWithValue(t, scale, func() { noise.DiscreteLaplace(bad, src) })
	}
	require.PanicsWithValue(t, "noise: the interval must have at least one point", func() { noise.Below(0, src) })
}

// A source that repeats one word ends every draw, by a number or by the
// documented panic.
func TestDiscreteBrokenSource(t *testing.T) {
	const stuck = "noise: the source of randomness repeats itself"
	stucks := 0
	for _, w := range []uint64{0, 1, 1 << 63, math.MaxUint64, 0xaaaaaaaaaaaaaaaa} {
		for _, draw := range []func(){
			func() { noise.Below(1<<40+1, constant(w)) },
			func() { noise.Geometric(1<<40, constant(w)) },
			func() { noise.Geometric(3, constant(w)) },
			func() { noise.DiscreteLaplace(5, constant(w)) },
		} {
			func() {
				defer func() {
					if r := recover(); r != nil {
						require.Equal(t, stuck, r)
						stucks++
					}
				}()
				draw()
			}()
		}
	}
	require.Positive(t, stucks)
}
