// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers returns finite numbers of all sizes, or of similar ones.
func numbers(rnd *rand.Rand, n int, wide bool) []float64 {
	x := make([]float64, n)
	for i := range x {
		for {
			x[i] = math.Float64frombits(rnd.Uint64())
			if !wide {
				x[i] = math.Ldexp(rnd.NormFloat64(), rnd.IntN(40))
			}
			if !math.IsNaN(x[i]) && math.Abs(x[i]) < math.MaxFloat64/1e6 {
				break
			}
		}
	}
	return x
}

func TestPairIsTheSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for k := range 400 {
		n := 1 + rnd.IntN(200)
		x := numbers(rnd, n, k%2 == 0)
		if k%5 == 0 { // all but the first cancel
			for i := 1; i+1 < n; i += 2 {
				x[i+1] = -x[i]
			}
		}
		want := new(big.Float).SetPrec(2400)
		var v ExactVector
		v.Reset(2)
		for _, y := range x {
			v.AddSlice(1, []float64{y})
			want.Add(want, new(big.Float).SetFloat64(y))
		}
		hi, lo := v.Pair(1)
		near, _ := want.Float64()
		require.InDelta(t, near, hi, 0x1p-52*math.Abs(near))
		got := new(big.Float).SetPrec(2400).SetFloat64(hi)
		got.Add(got, new(big.Float).SetFloat64(lo))
		e, _ := got.Sub(got, want).Float64()
		require.LessOrEqual(t, math.Abs(e), math.Max(0x1p-102*math.Abs(near), math.SmallestNonzeroFloat64))
		hi, lo = v.Pair(0)
		require.Zero(t, hi)
		require.Zero(t, lo)
	}
}

// Any order, any tree of merges and any writing and reading in between give the same bits.
func TestMergeIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for k := range 200 {
		const d = 3
		n := 1 + rnd.IntN(60)
		terms := make([][]float64, n)
		for i := range terms {
			terms[i] = numbers(rnd, d, k%2 == 0)
		}
		var whole ExactVector
		whole.Reset(d)
		for _, x := range terms {
			whole.AddSlice(0, x)
		}
		rnd.Shuffle(n, func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		parts := make([]ExactVector, 1+rnd.IntN(9))
		for i := range parts {
			parts[i].Reset(d)
		}
		for _, x := range terms {
			parts[rnd.IntN(len(parts))].AddSlice(0, x)
		}
		for len(parts) > 1 {
			i := rnd.IntN(len(parts) - 1)
			b, err := parts[i].AppendBinary(nil)
			require.NoError(t, err)
			var read ExactVector
			require.NoError(t, read.UnmarshalBinary(b))
			parts[i+1].Merge(&read)
			parts = append(parts[:i], parts[i+1:]...)
		}
		for j := range d {
			wantHi, wantLo := whole.Pair(j)
			hi, lo := parts[0].Pair(j)
			require.Equal(t, wantHi, hi)
			require.Equal(t, wantLo, lo)
		}
	}
}

// Carries keep the sums of many terms: 2¹⁸ of the largest mantissa, and as many opposites.
func TestManyTerms(t *testing.T) {
	var v ExactVector
	v.Reset(1)
	v.adds = maxAdds - 1000 // carries move on the way
	x := []float64{math.Nextafter(2, 1)}
	for range 1 << 18 {
		v.AddSlice(0, x)
	}
	hi, lo := v.Pair(0)
	require.Equal(t, x[0]*0x1p18, hi)
	require.Zero(t, lo)
	for range 1 << 18 {
		v.AddSlice(0, []float64{-x[0]})
	}
	hi, _ = v.Pair(0)
	require.Zero(t, hi)
}

// Digits that are nearly full, as after 2³⁰ terms, take more terms, more room and more sums.
func TestFullDigits(t *testing.T) {
	full := func(sign int64) (v ExactVector, value *big.Int) {
		v.Reset(1)
		v.AddSlice(0, []float64{0x1p200})
		value = new(big.Int)
		for k := range v.digits[:v.width-1] {
			v.digits[k] = sign * (math.MaxInt64 - 1<<34)
			value.Add(value, new(big.Int).Lsh(big.NewInt(v.digits[k]), uint(radix*k)))
		}
		v.adds = maxAdds - 2
		return v, value
	}
	for _, sign := range []int64{1, -1} {
		term := new(big.Int).Lsh(big.NewInt(sign*(1<<53-1)), 31)
		for name, more := range map[string]func(v *ExactVector, want *big.Int){
			"terms": func(*ExactVector, *big.Int) {},
			"room": func(v *ExactVector, _ *big.Int) {
				x := math.Ldexp(1, radix*(v.first+9)+offset)
				v.AddSlice(0, []float64{x})
				v.AddSlice(0, []float64{-x})
			},
			"sums": func(v *ExactVector, want *big.Int) {
				for range 4 {
					w, value := full(sign)
					v.Merge(&w)
					want.Add(want, value)
				}
			},
		} {
			v, want := full(sign)
			first := v.first
			more(&v, want)
			for range 5 {
				x, _ := new(big.Float).SetInt(term).Float64()
				v.AddSlice(0, []float64{math.Ldexp(x, radix*first+offset)})
				want.Add(want, term)
			}
			got, _ := v.Pair(0)
			near, _ := new(big.Float).SetInt(want).Float64()
			require.Equal(t, math.Ldexp(near, radix*first+offset), got, name)
		}
	}
}

func TestInfinitiesAndNaN(t *testing.T) {
	sum := func(x ...float64) float64 {
		var v, w ExactVector
		v.Reset(1)
		w.Reset(1)
		for i, y := range x {
			if i%2 == 0 {
				v.AddSlice(0, []float64{y})
			} else {
				w.AddSlice(0, []float64{y})
			}
		}
		b, err := w.AppendBinary(nil)
		require.NoError(t, err)
		require.NoError(t, w.UnmarshalBinary(b))
		v.Merge(&w)
		hi, lo := v.Pair(0)
		require.Zero(t, lo)
		return hi
	}
	inf := math.Inf(1)
	require.Equal(t, inf, sum(1, inf, 2))
	require.Equal(t, -inf, sum(-inf, -inf))
	require.True(t, math.IsNaN(sum(inf, -inf)))
	require.True(t, math.IsNaN(sum(1, math.NaN())))
	require.Equal(t, inf, sum(math.MaxFloat64, math.MaxFloat64))
	require.Equal(t, -inf, sum(-math.MaxFloat64, -math.MaxFloat64))
}

func TestResetForgets(t *testing.T) {
	var v ExactVector
	v.Reset(3)
	v.AddSlice(0, []float64{math.Inf(1), 1e300, 1})
	v.Reset(2)
	for j := range 2 {
		hi, lo := v.Pair(j)
		require.Zero(t, hi)
		require.Zero(t, lo)
	}
}

// Bytes of digits that no sum has are refused.
func TestUnmarshalBinaryRefuses(t *testing.T) {
	var v ExactVector
	v.Reset(1)
	v.AddSlice(0, []float64{1})
	good, err := v.AppendBinary(nil)
	require.NoError(t, err)
	require.NoError(t, v.UnmarshalBinary(good))
	for name, bad := range map[string][]byte{
		"a digit of 33 bits": append(append(append([]byte{}, good[:7]...), 0, 0, 0, 0, 1, 0, 0, 0), good[15:]...),
		"a large last digit": append(append([]byte{}, good[:len(good)-1]...), 0x70),
		"too many digits":    append([]byte{1, 0, 0, 0, 0, mostDigits + 1, 0}, make([]byte, 8*(mostDigits+1))...),
		"digits too high":    append([]byte{1, 0, 0, 0, mostDigits, 1, 0}, make([]byte, 8)...),
		"cut":                good[:len(good)-8],
	} {
		require.ErrorIs(t, v.UnmarshalBinary(bad), errFormat, name)
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	var v ExactVector
	v.Reset(2)
	v.AddSlice(0, []float64{1, -1e-3})
	b, err := v.AppendBinary(nil)
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var v ExactVector
		if v.UnmarshalBinary(b) != nil {
			return
		}
		for j := range v.Len() {
			v.Pair(j)
		}
		c, err := v.AppendBinary(nil)
		require.NoError(t, err)
		var w ExactVector
		require.NoError(t, w.UnmarshalBinary(c))
	})
}

func BenchmarkAddSlice(b *testing.B) {
	x := numbers(rand.New(rand.NewPCG(1, 1)), 91, false)
	var v ExactVector
	v.Reset(len(x))
	b.ReportAllocs()
	for b.Loop() {
		v.AddSlice(0, x)
	}
}

func BenchmarkPair(b *testing.B) {
	x := numbers(rand.New(rand.NewPCG(1, 1)), 91, false)
	var v ExactVector
	v.Reset(len(x))
	for range 100 {
		v.AddSlice(0, x)
	}
	for b.Loop() {
		for j := range x {
			v.Pair(j)
		}
	}
}
