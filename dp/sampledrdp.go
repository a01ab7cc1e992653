package dp

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// largestOrder is the largest order at which sums over α terms are computed.
const largestOrder = 1024

// orders returns the Rényi orders that conversions search.
func orders() []float64 {
	var a []float64
	for i := 2; i <= 64; i++ {
		a = append(a, float64(i))
	}
	return append(a, 72, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, largestOrder)
}

// betweenIntegers returns the curve with (α−1)RDP(α) = logMoment(α) at integer α, 0 at α = 1, and
// chords between them, which bound it: (α−1)RDP(α) is convex
// (docs/theory/population.md#population.renyi).
func betweenIntegers(logMoment func(alpha int) float64) RDP {
	return func(alpha float64) float64 {
		if !(alpha > 1 && alpha <= largestOrder) {
			return math.Inf(1)
		}
		a := int(math.Ceil(alpha))
		m := logMoment(a)
		if t := float64(a) - alpha; t > 0 {
			low := 0.0
			if a > 2 {
				low = logMoment(a - 1)
			}
			m = (1-t)*m + t*low
		}
		return m / (alpha - 1) * (1 + 1e-11)
	}
}

// rdpPoisson is the curve of Poisson batches under AddRemove [MTZ19]:
//
//	1/(α−1) log Σ_k C(α,k) (1−q)^{α−k} q^k e^{k(k−1)/(2z²)}
func rdpPoisson(q, z float64) RDP {
	return betweenIntegers(func(alpha int) float64 {
		// The weights of k = 0, …, α add up to 1, so that the sum is
		// 1 + Σ_{k≥2} C(α,k) (1−q)^{α−k} q^k (e^{k(k−1)/(2z²)} − 1),
		// which loses no digits where it is near 1.
		a, sum := float64(alpha), math.Inf(-1)
		for k := 2.0; k <= a; k++ {
			x := k * (k - 1) / (2 * z * z)
			sum = num.LogSumExp(sum, raised(logBinomial(a, k), (a-k)*math.Log1p(-q), k*num.Log(q), x, num.Log(-math.Expm1(-x))))
		}
		return num.LogSumExp(0, sum)
	})
}

// rdpReplace is a bound for Poisson batches and for subsets under Replace [WBK19, Theorem 9]: it
// needs only that the laws without the record and with either version of it are Gaussians at most
// 2L apart.
//
//	1/(α−1) log[ 1 + q² C(α,2) min{4(e^{e(2)}−1), 2e^{e(2)}} + Σ_{j≥3} 2q^j C(α,j) e^{(j−1)e(j)} ],   e(j) = 2j/z²
func rdpReplace(q, z float64) RDP {
	e := func(j float64) float64 { return 2 * j / (z * z) }
	return betweenIntegers(func(alpha int) float64 {
		a := float64(alpha)
		// min{4(e^{e(2)}−1), 2e^{e(2)}}, the first where e^{e(2)} < 2
		two := math.Ln2 + e(2)
		if e(2) < math.Ln2 {
			two = num.Log(4 * math.Expm1(e(2)))
		}
		sum := raised(2*num.Log(q), logBinomial(a, 2), two)
		for j := 3.0; j <= a; j++ {
			sum = num.LogSumExp(sum, raised(math.Ln2, j*num.Log(q), logBinomial(a, j), (j-1)*e(j)))
		}
		return num.LogSumExp(0, sum)
	})
}

// raised returns the sum of x plus a bound on its rounding, for summands correct
// to eight units in the last place.
func raised(x ...float64) float64 {
	var sum, size float64
	for _, v := range x {
		sum += v
		size += math.Abs(v)
	}
	return sum + 0x1p-49*size
}

// logBinomial returns log C(a, k), rounded up.
func logBinomial(a, k float64) float64 {
	x, _ := math.Lgamma(a + 1)
	y, _ := math.Lgamma(k + 1)
	z, _ := math.Lgamma(a - k + 1)
	return raised(x, -y, -z)
}
