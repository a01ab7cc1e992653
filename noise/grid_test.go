package noise

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

type counter struct {
	rand.Source
	words int
}

func (c *counter) Uint64() uint64 { c.words++; return c.Source.Uint64() }

func TestGolden(t *testing.T) {
	var cases []struct {
		Law   string
		Key   uint64
		Scale float64
		Grid  int
		Words int
		Ints  []int64
	}
	b, err := os.ReadFile("testdata/exact.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &cases))
	for _, c := range cases {
		src := &counter{Source: rand.NewChaCha8([32]byte{byte(c.Key)})}
		got := make([]int64, len(c.Ints))
		if c.Law == "normal" {
			Grid(got, c.Scale, c.Grid, src)
		} else {
			for i := range got {
				got[i] = Gap(c.Scale, src)
			}
		}
		require.Equal(t, c.Ints[:5], got[:5], c)
		require.Equal(t, c.Words, src.words)
		require.Equal(t, c.Ints, got)
	}
}
