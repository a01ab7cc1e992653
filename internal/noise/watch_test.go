package noise

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// cycle is a source that repeats its words from word start on.
type cycle struct {
	words []uint64
	start int
	at    int
}

func (c *cycle) Uint64() uint64 {
	if c.at == len(c.words) {
		c.at = c.start
	}
	c.at++
	return c.words[c.at-1]
}

func TestWatch(t *testing.T) {
	w, plain := Watch(rand.NewPCG(1, 2)), rand.NewPCG(1, 2)
	for range 1_000_000 {
		if w.Uint64() != plain.Uint64() {
			t.Fatal("the words are those of the source")
		}
	}
	require.NoError(t, w.Err())

	for _, period := range []int{1, 2, 3, 7, 1000} {
		for _, start := range []int{0, 1, 5, 2000} {
			c := &cycle{start: start}
			src := rand.NewPCG(3, 4)
			for range start + period {
				c.words = append(c.words, src.Uint64())
			}
			w := Watch(c)
			for range 3 * (start + period) {
				w.Uint64()
			}
			require.ErrorIs(t, w.Err(), ErrSource, "period %d from word %d", period, start)
			require.NotEqual(t, words(w, 8), words(w, 8), "the words of Secure follow")
		}
	}

	for _, u := range []uint64{0, 1, 1<<64 - 1} { // a single draw is enough
		w := Watch(&cycle{words: []uint64{u}})
		Grid(make([]int64, 1), 1, 0, w)
		require.ErrorIs(t, w.Err(), ErrSource)
		require.ErrorIs(t, w.Err(), ErrSource)
	}
}
