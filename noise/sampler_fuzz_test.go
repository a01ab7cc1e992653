package noise_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/noise"
)

// tape is a source under the control of an attacker: it plays words and, when
// they are spent, a ChaCha8 stream.
type tape struct {
	words []byte
	then  rand.Source
}

func (s *tape) Uint64() uint64 {
	if len(s.words) < 8 {
		return s.then.Uint64()
	}
	w := binary.LittleEndian.Uint64(s.words)
	s.words = s.words[8:]
	return w
}

// FuzzSampler: for every stream of bits and every scale in range, draws are
// finite, in the range of their law, and never panic.
func FuzzSampler(f *testing.F) {
	zero, ones := make([]byte, 200), make([]byte, 200)
	for i := range ones {
		ones[i] = 0xff
	}
	f.Add([]byte{}, 1.0, uint64(1))
	f.Add(zero, 1.0, uint64(2))
	f.Add(ones, 0x1p1000, uint64(3))
	f.Add([]byte("\x00\xff\x00\xff\x00\xff\x00\xff\x01"), 1e-320, uint64(4))
	f.Add(zero[:64], 0.0, uint64(5))
	f.Add(ones[:24], 0.5, uint64(6))
	f.Add(zero[:8], 1e10, uint64(7))
	f.Fuzz(func(t *testing.T, words []byte, scale float64, seed uint64) {
		scale = math.Abs(scale)
		if !(scale <= 0x1p400) { // also NaN; the ends of the range are in the table of bad inputs
			scale = 1
		}
		src := func() rand.Source { return &tape{words, noise.Reproducible(seed)} }
		finite := func(x float64) { require.False(t, math.IsNaN(x) || math.IsInf(x, 0), "%v", x) }

		u := noise.Uniform(src())
		require.True(t, u > 0 && u < 1, "%v", u)
		e := noise.Exponential(src())
		require.GreaterOrEqual(t, e, 0.)
		finite(e)
		finite(noise.Laplace(scale, src()))
		if scale > 1e-300 && scale < 1e15 {
			g := noise.Gamma(scale, src())
			require.GreaterOrEqual(t, g, 0.)
			finite(g)
			c := noise.ChiSquared(scale, src())
			require.GreaterOrEqual(t, c, 0.)
			finite(c)
		}
		dst := make([]float64, 1+len(words)%5)
		for _, draw := range []func(){
			func() { noise.Normal(dst, scale, src()) },
			func() { noise.GammaNorm(dst, max(scale, 0x1p-400), src()) },
			func() { noise.Sphere(dst, src()) },
		} {
			draw()
			for _, x := range dst {
				finite(x)
			}
		}
		norm := 0.
		for _, x := range dst {
			norm += x * x
		}
		require.InDelta(t, 1, norm, 1e-14*float64(len(dst)), "on the sphere")
	})
}

// FuzzReproducible: streams depend on their labels and on how these are cut.
func FuzzReproducible(f *testing.F) {
	f.Add(uint64(0), "a", "b")
	f.Add(uint64(1), "", "")
	f.Add(uint64(2), "ab", "")
	f.Fuzz(func(t *testing.T, seed uint64, a, b string) {
		x := noise.Reproducible(seed, a, b).Uint64()
		require.Equal(t, x, noise.Reproducible(seed, a, b).Uint64())
		require.NotEqual(t, x, noise.Reproducible(seed, a+b).Uint64())
		require.NotEqual(t, x, noise.Reproducible(seed+1, a, b).Uint64())
	})
}
