package noise_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/noise"
)

func words(src rand.Source, n int) []uint64 {
	w := make([]uint64, n)
	for i := range w {
		w[i] = src.Uint64()
	}
	return w
}

func TestSecureSourcesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 1000 {
		for _, w := range words(noise.Secure(), 4) {
			require.False(t, seen[w], "a word of 64 bits repeats: probability below 1e-12")
			seen[w] = true
		}
	}
}

func TestReproducibleNamesItsStream(t *testing.T) {
	name := func(seed uint64, label ...string) string {
		return fmt.Sprint(words(noise.Reproducible(seed, label...), 4))
	}
	require.Equal(t, name(1, "a", "b"), name(1, "a", "b"))
	all := []string{
		name(0), name(1), name(1, ""), name(1, "", ""), name(1, "a"), name(1, "b"),
		name(1, "a", "b"), name(1, "b", "a"), name(1, "ab"), name(1, "a\x00b"), name(2, "a", "b"),
	}
	for i := range all {
		for j := range i {
			require.NotEqual(t, all[i], all[j], "streams %d and %d", i, j)
		}
	}
	// The stream is part of the documented meaning of a seed within a version.
	require.Equal(t, words(noise.Reproducible(1, "a"), 2), words(noise.Reproducible(1, "a"), 2))
}

// TestSourceNeverPrints formats and encodes a source in every way the standard
// library offers and looks for the key in what comes out.
func TestSourceNeverPrints(t *testing.T) {
	src := noise.Secure()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%b", "%o", "%e", "%t", "%c", "%U"} {
		require.Equal(t, "[secret]", fmt.Sprintf(verb, src), verb)
	}
	require.Equal(t, "[secret]", fmt.Sprint(src))
	require.Equal(t, "[secret]\n", fmt.Sprintln(src))

	// In a field fmt shows at most the address: the same text before and after
	// the state changes.
	holder := struct{ src rand.Source }{src}
	before := fmt.Sprintf("%v %+v %#v %d %x", holder, holder, holder, holder, &holder)
	words(src, 100)
	require.Equal(t, before, fmt.Sprintf("%v %+v %#v %d %x", holder, holder, holder, holder, &holder))
	require.Less(t, len(before), 400)

	for _, v := range []any{src, struct{ Src rand.Source }{src}, map[string]rand.Source{"s": src}} {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		require.Contains(t, string(out), "[secret]")
		require.Less(t, len(out), 40)
	}

	var buf bytes.Buffer
	require.ErrorContains(t, gob.NewEncoder(&buf).Encode(src), "never saved")
	gob.Register(src)
	require.ErrorContains(t, gob.NewEncoder(&buf).Encode(struct{ Src rand.Source }{src}), "never saved")

	buf.Reset()
	slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "src", src)
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "src", src)
	require.Equal(t, 2, bytes.Count(buf.Bytes(), []byte("[secret]")))

	m, ok := src.(interface{ MarshalBinary() ([]byte, error) })
	require.True(t, ok)
	state, err := m.MarshalBinary()
	require.Error(t, err)
	require.Empty(t, state)
	_, ok = src.(interface{ UnmarshalBinary([]byte) error })
	require.False(t, ok, "a state must not be restorable")
	_, ok = src.(interface{ Seed([32]byte) })
	require.False(t, ok, "a secure source must not be reseedable")
	require.Equal(t, "[secret]", src.(fmt.Stringer).String())
	require.Equal(t, "[secret]", src.(fmt.GoStringer).GoString())
}

// TestTwoProcessesDiffer starts this test binary twice: a resumed or copied
// program must draw new noise.
func TestTwoProcessesDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	self := func() string {
		out, err := exec.Command("go", "run", "./testdata/draw").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Greater(t, len(out), 16)
		return string(out)
	}
	require.NotEqual(t, self(), self())
}

func TestPanicsOnDocumentedMisuse(t *testing.T) {
	src := noise.Reproducible(1)
	nan, inf := nan(), inf()
	const (
		scale  = "noise: scale must lie between 0 and 2^1000"
		shape  = "noise: shape must lie between 2^-900 and 2^900"
		rate   = "noise: rate must lie between 2^-900 and 2^900"
		length = "noise: length mismatch"
	)
	dst := make([]float64, 2)
	for _, bad := range []float64{-1, -1e-320, nan, inf, -inf, 0x1p1001} {
		require.PanicsWithValue(t, scale, func() { noise.Normal(dst, bad, src) })
		require.PanicsWithValue(t, scale, func() { noise.Laplace(bad, src) })
	}
	for _, bad := range []float64{0, -1, nan, inf, -inf, 1e-300, 1e300} {
		require.PanicsWithValue(t, shape, func() { noise.Gamma(bad, src) })
		require.PanicsWithValue(t, shape, func() { noise.ChiSquared(bad, src) })
		require.PanicsWithValue(t, shape, func() { noise.Dirichlet(dst, []float64{1, bad}, src) })
		require.PanicsWithValue(t, rate, func() { noise.GammaNorm(dst, bad, src) })
	}
	require.PanicsWithValue(t, length, func() { noise.Dirichlet(dst, []float64{1}, src) })
}

// constant is a broken source.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

// TestBrokenSourceDoesNotHang: a source that repeats one word gives a finite
// draw or the documented panic, in bounded time.
func TestBrokenSourceDoesNotHang(t *testing.T) {
	const stuck = "noise: the source of randomness repeats itself"
	stucks := 0
	words := []uint64{0, 1, 0x100, 0x1ff, 1 << 63, ^uint64(0), ^uint64(0x1ff), ^uint64(0xff), 0xaaaaaaaaaaaaaaaa}
	for i := range uint64(256) {
		words = append(words, ^uint64(0xff)|i)
	}
	for _, w := range words {
		for _, draw := range []func() float64{
			func() float64 { return noise.Uniform(constant(w)) },
			func() float64 { x := []float64{0}; noise.Normal(x, 1, constant(w)); return x[0] },
			func() float64 { return noise.Exponential(constant(w)) },
			func() float64 { return noise.Gamma(0.3, constant(w)) },
			func() float64 { return noise.Gamma(3, constant(w)) },
		} {
			func() {
				defer func() {
					if r := recover(); r != nil {
						require.Equal(t, stuck, r)
						stucks++
					}
				}()
				x := draw()
				require.False(t, x != x || x == 0 || x > 1e6 || x < -1e6, "%x gives %v", w, x)
			}()
		}
	}
	require.Positive(t, stucks)
}
