package dp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// At order 2 the Rényi curve of Poisson batches is log1p(q²(e^{1/z²}−1)), which a
// sum near 1 does not resolve.
func TestRDPSmall(t *testing.T) {
	require.InEpsilon(t, math.Log(10*9*8/6), logBinomial(10, 3), 1e-13)
	for _, q := range []float64{1e-9, 1e-6, 1e-3, 0.3} {
		for _, z := range []float64{0.5, 3, 300} {
			want := math.Log1p(q * q * math.Expm1(1/(z*z)))
			got := rdpPoisson(q, z)(2)
			require.GreaterOrEqual(t, got, want)
			require.InEpsilon(t, want, got, 1e-10)
		}
	}
	// Order 500 against the sum by definition, which is above 1 by 1.4e-10.
	const q, z, alpha = 1e-5, 300., 500
	sum, weight := 0.0, math.Exp(alpha*math.Log1p(-q))
	for k := 1.0; k <= 20; k++ {
		weight *= (alpha - k + 1) / k * q / (1 - q)
		sum += weight * math.Expm1(k*(k-1)/(2*z*z))
	}
	got := rdpPoisson(q, z)(alpha) * (alpha - 1)
	require.GreaterOrEqual(t, got, math.Log1p(sum)*(1-1e-12))
	require.InEpsilon(t, math.Log1p(sum), got, 1e-9)
}
