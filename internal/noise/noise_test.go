package noise

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// falseReject is the probability that a test of a true hypothesis fails, if the
// seed were random; seeds are fixed, so a passing test stays passing.
const falseReject = 1e-6

// ks fails unless x, which it sorts, passes the Kolmogorov-Smirnov test against cdf, with
// Massart's bound P(D > c) ≤ 2 exp(-2 n c²).
func ks(t *testing.T, name string, x []float64, cdf func(float64) float64) {
	t.Helper()
	require.Less(t, distance(x, cdf), math.Sqrt(math.Log(2/falseReject)/(2*float64(len(x)))), name)
}

// distance returns the Kolmogorov-Smirnov distance of x, which it sorts, from cdf.
func distance(x []float64, cdf func(float64) float64) float64 {
	slices.Sort(x)
	n, d := float64(len(x)), 0.
	for i, v := range x {
		f := cdf(v)
		d = max(d, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	return d
}

// chiSquare fails if counts do not fit the expected ones, cells of fewer than ten
// of which it joins with the next.
func chiSquare(t *testing.T, name string, counts, expected []float64) {
	t.Helper()
	var stat, c, e float64
	cells := 0
	for i := range counts {
		c, e = c+counts[i], e+expected[i]
		if e >= 10 {
			stat += (c - e) * (c - e) / e
			cells++
			c, e = 0, 0
		}
	}
	if e > 0 { // what is left makes the last cell
		stat += (c - e) * (c - e) / max(e, 10)
	}
	require.Greater(t, cells, 1, name)
	require.Less(t, stat, distuv.ChiSquared{K: float64(cells)}.Quantile(1-falseReject), name)
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

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
		for _, w := range words(Secure(), 4) {
			require.False(t, seen[w], "a word of 64 bits repeats: probability below 1e-12")
			seen[w] = true
		}
	}
}

func TestReproducibleNamesItsStream(t *testing.T) {
	name := func(seed uint64, label ...string) string {
		return fmt.Sprint(words(Reproducible(seed, label...), 4))
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
	require.Equal(t, words(Reproducible(1, "a"), 2), words(Reproducible(1, "a"), 2))
}

// TestSourceNeverPrints formats and encodes a source in every way the standard
// library offers and looks for the key in what comes out.
func TestSourceNeverPrints(t *testing.T) {
	for _, src := range []rand.Source{Secure(), Watch(Secure())} {
		prints(t, src)
	}
}

func prints(t *testing.T, src rand.Source) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%b", "%o", "%e", "%t", "%c", "%U"} {
		require.Equal(t, "[secret]", fmt.Sprintf(verb, src), verb)
	}
	require.Equal(t, "[secret]", fmt.Sprint(src))
	require.Equal(t, "[secret]\n", fmt.Sprintln(src))

	// In a field fmt shows at most the address: the same text before and after the state changes.
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
	require.Equal(t, "[secret]", fmt.Sprintf("%#v", src))
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

// FuzzReproducible: streams depend on their labels and on how these are cut.
func FuzzReproducible(f *testing.F) {
	f.Add(uint64(0), "a", "b")
	f.Add(uint64(1), "", "")
	f.Add(uint64(2), "ab", "")
	f.Fuzz(func(t *testing.T, seed uint64, a, b string) {
		x := Reproducible(seed, a, b).Uint64()
		require.Equal(t, x, Reproducible(seed, a, b).Uint64())
		require.NotEqual(t, x, Reproducible(seed, a+b).Uint64())
		require.NotEqual(t, x, Reproducible(seed+1, a, b).Uint64())
	})
}
