package audit

import (
	"math"
	"math/rand/v2"
)

// ziggurat is the generator of math/rand and gonum: below its tail a draw is a
// 32-bit integer times one of 128 steps, 2³⁹ values in all, whatever the source.
type ziggurat struct {
	step [128]float64
	edge [129]float64 // the right ends of the layers; edge[128] = 0
}

// lattice has the 128 layers of equal area of [MT00].
var lattice = func() (z ziggurat) {
	const r, v = 3.442619855899, 9.91256303526217e-3
	z.edge[1] = r
	z.edge[0] = v / math.Exp(-r*r/2)
	for i := 2; i < 128; i++ {
		x := z.edge[i-1]
		z.edge[i] = math.Sqrt(-2 * math.Log(v/x+math.Exp(-x*x/2)))
	}
	for i := range z.step {
		z.step[i] = float64(float32(z.edge[i] / (1 << 31)))
	}
	return z
}()

// draw returns a normal draw from the layers; those beyond the last edge are
// drawn again, which does not matter here.
func (z *ziggurat) draw(src rand.Source) float64 {
	for {
		u := src.Uint64()
		i, j := int(u&127), int32(u>>32)
		x := float64(j) * z.step[i]
		if math.Abs(x) < z.edge[i+1] {
			return x
		}
		if i == 0 {
			continue
		}
		f := func(x float64) float64 { return math.Exp(-x * x / 2) }
		if y := f(z.edge[i]) + float64(src.Uint64()>>11)*0x1p-53*(f(z.edge[i+1])-f(z.edge[i])); y < f(x) {
			return x
		}
	}
}

// has reports whether x is a value of the generator up to tol.
func (z *ziggurat) has(x, tol float64) bool {
	for _, w := range z.step {
		j := math.RoundToEven(x / w)
		if math.Abs(j) <= 1<<31 && math.Abs(x-j*w) <= tol {
			return true
		}
	}
	return false
}
