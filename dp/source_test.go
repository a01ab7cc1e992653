package dp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// A seed and labels name one stream.
func TestSeeded(t *testing.T) {
	a, b := dp.Seeded(1, "run", "7"), noise.Reproducible(1, "run", "7")
	first := a.Uint64()
	require.Equal(t, b.Uint64(), first)
	require.NotEqual(t, first, dp.Seeded(1, "run7").Uint64())
	require.NotEqual(t, first, dp.Seeded(2, "run", "7").Uint64())
}
