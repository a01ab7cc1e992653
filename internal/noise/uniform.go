package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Uniform draws from the uniform law on the open interval (0,1), rounded down to 53
// significant bits, to 2⁻⁶⁴ at the least: for experiments.
func Uniform(src rand.Source) float64 {
	for try := 1; ; try++ {
		if u := src.Uint64(); u != 0 {
			k := bits.LeadingZeros64(u)
			return float64(int64(u<<k>>11)) * pow2(-53-k)
		}
		giveUp(try, maxTries, src)
	}
}

// Sphere fills dst with a uniform draw from the unit sphere of ℝᵈ, d = len(dst), up to rounding.
func Sphere(dst []float64, src rand.Source) {
	Normal(dst, 1, src)
	var s float64
	for _, x := range dst {
		s += x * x
	}
	for i := range dst {
		dst[i] /= math.Sqrt(s)
	}
}
