package prox_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/prox"
)

// Distances computed independently in high precision; testdata/README.md.
func TestDistGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/certificate_distance.json")
	require.NoError(t, err)
	var cases []struct {
		Lambda, Dist string
		Box, X, Grad []string
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Len(t, cases, 3)
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return x
	}
	vector := func(s []string) (x []float64) {
		for _, si := range s {
			x = append(x, number(si))
		}
		return x
	}
	for _, c := range cases {
		sum, ok := prox.Sum(prox.L1{Weight: number(c.Lambda)}, prox.Box{Lo: number(c.Box[0]), Hi: number(c.Box[1])})
		require.True(t, ok)
		got := sum.(prox.Subdifferential).Dist(vector(c.X), vector(c.Grad))
		require.InEpsilon(t, number(c.Dist), got, 1e-15)
	}
}
