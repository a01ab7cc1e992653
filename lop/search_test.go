package lop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The search stays inside its interval, skips what the floor excludes, finds a
// minimum inside and at both ends, and takes no more steps than it needs.
func TestMinimizeLog(t *testing.T) {
	const width = 24 * 0.7345 // the 20th step of golden section ends at 0.97e-4
	const lo = 3e-4
	for _, c := range []struct {
		at    float64 // log of the minimizer, from log lo
		evals int
	}{
		// 25 points, of which the floor leaves the two next to the minimum; two
		// points to start with and 20 steps, as 2·0.7345·0.618²⁰ < 1e-4.
		{12.137 * 0.7345, 2 + 2 + 20},
		// At an end one point and half of the bracket, which saves a step.
		{0, 1 + 2 + 19},
		{width, 1 + 2 + 19},
		{-1, 1 + 2 + 19},
		{width + 1, 1 + 2 + 19},
	} {
		hi := lo * math.Exp(width)
		inside := func(x float64) {
			require.GreaterOrEqual(t, x, lo*(1-1e-14))
			require.LessOrEqual(t, x, hi*(1+1e-13))
		}
		evals := 0
		f := func(x float64) float64 {
			inside(x)
			return math.Cosh(math.Log(x/lo) - c.at)
		}
		got := minimizeLog(func(x float64) float64 { evals++; return f(x) }, func(x float64) float64 { return 0.8 * f(x) }, lo, hi)
		inside(got)
		require.InDelta(t, min(max(c.at, 0), width), math.Log(got/lo), 1e-4)
		require.Equal(t, c.evals, evals, "minimum at %v", c.at)
	}
}
