package noise

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/bigref"
)

// layersFrom returns the right edges x₁ = r, …, x₂₅₅ and f(x₂₅₆) of layers of area
// v under f with inverse g.
func layersFrom(r, v *big.Float, f, g func(*big.Float) *big.Float) (x [layers]*big.Float, last *big.Float) {
	x[0], x[1] = bigref.Quo(v, f(r)), r
	for i := 2; i < layers; i++ {
		x[i] = g(bigref.Add(f(x[i-1]), bigref.Quo(v, x[i-1])))
	}
	return x, bigref.Add(f(x[layers-1]), bigref.Quo(v, x[layers-1]))
}

// TestTables: every edge is the rounded solution of the equations beside it,
// solved for r, to f(x₂₅₆) = 1, by the secant rule with some hundred digits.
func TestTables(t *testing.T) {
	one := bigref.New(1)
	neg := func(x *big.Float) *big.Float { return bigref.Sub(bigref.New(0), x) }
	half := func(x *big.Float) *big.Float { return bigref.Quo(x, bigref.New(2)) }
	normal := func(x *big.Float) *big.Float { return bigref.Exp(neg(half(bigref.Mul(x, x)))) }
	exponential := func(x *big.Float) *big.Float { return bigref.Exp(neg(x)) }
	for _, c := range []struct {
		name  string
		table [layers]uint64
		unit  int // the table holds xᵢ·2^unit
		r     float64
		f, g  func(x *big.Float) *big.Float
		tail  func(r *big.Float) *big.Float // ∫_r^∞ f / f(r)
	}{
		{
			"normal", edge, 61, 3.65415288, normal,
			func(y *big.Float) *big.Float { return bigref.Sqrt(bigref.Mul(bigref.New(-2), bigref.Log(y))) },
			bigref.Mills,
		},
		{
			"exponential", expEdge, 59, 7.69711747, exponential,
			func(y *big.Float) *big.Float { return neg(bigref.Log(y)) },
			func(*big.Float) *big.Float { return one },
		},
	} {
		solve := func(r *big.Float) ([layers]*big.Float, *big.Float) {
			v := bigref.Mul(c.f(r), bigref.Add(r, c.tail(r)))
			x, last := layersFrom(r, v, c.f, c.g)
			return x, bigref.Sub(last, one)
		}
		r0, r1 := bigref.New(c.r), bigref.New(c.r*(1+1e-9))
		_, y0 := solve(r0)
		x, y1 := solve(r1)
		for range 12 {
			if y, _ := y1.Float64(); y < 1e-40 && y > -1e-40 {
				break
			}
			r2 := bigref.Sub(r1, bigref.Quo(bigref.Mul(y1, bigref.Sub(r1, r0)), bigref.Sub(y1, y0)))
			r0, y0, r1 = r1, y1, r2
			x, y1 = solve(r1)
		}
		left, _ := y1.Float64()
		require.InDelta(t, 0, left, 1e-40, c.name)
		for i, xi := range x {
			scaled := bigref.Add(bigref.Set(xi).SetMantExp(xi, c.unit), bigref.New(0.5))
			want, _ := scaled.Uint64()
			require.Equal(t, want, c.table[i], "%s: edge %d", c.name, i)
		}
	}
}
