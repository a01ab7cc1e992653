package lasso_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/lasso"
)

// FuzzRead: no text makes a reader of instances panic or let a number through
// that is not finite; errors do not repeat a value.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "x", "x,y\n", "x,y\n1,2\n", "\ufeffx,y\r\n1,2\r\n", "x,y\n1\n", "x,y\n1,\"2\n", "x,y\n1e400,1\n", "x,y\nNaN,1\n", "a\n1\n2\n", "x,y\n1,2\n\n3,4\n", "x,y\n\x00,1\n", "x,y\n0x1p3,1_0\n"} {
		f.Add(s, "a\n1\n", 1.0)
		f.Add("x,y\n1,2\n", s, 5.0)
	}
	f.Fuzz(func(t *testing.T, problem, anchor string, xi float64) {
		in, err := lasso.Read(strings.NewReader(problem), strings.NewReader(anchor), xi)
		if err != nil {
			require.True(t, errors.Is(err, lasso.ErrFile) || errors.Is(err, lasso.ErrParameter), "%v", err)
			return
		}
		n, d := in.Dims()
		require.Positive(t, n)
		require.Positive(t, d)
		require.Len(t, in.Anchor, d)
		for _, v := range append(append(append([]float64{}, in.X.RawMatrix().Data...), in.Y...), in.Anchor...) {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0))
		}
		require.NotContains(t, in.String(), "e+")
		in.Risk(in.Anchor)
	})
}

// FuzzFormula: the published constants are numbers or refused.
func FuzzFormula(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 1e-320, 1e300, math.NaN(), math.Inf(1), 0.5, 1e-9} {
		f.Add(v, 0.5, 0.01, 5.0, 100)
		f.Add(200.0, v, 0.01, 5.0, 10)
		f.Add(20.0, 0.5, v, 5.0, 10)
		f.Add(20.0, 0.5, 0.01, v, 10)
	}
	f.Fuzz(func(t *testing.T, m, eps, delta, l float64, d int) {
		c, err := lasso.Formula{D: d, M: m, Rho: 1, L: l, Eps1: eps, Eps2: eps, Delta1: delta, Delta2: delta, Delta3: delta, Delta4: delta}.Constants()
		if err != nil {
			require.ErrorIs(t, err, lasso.ErrParameter)
			return
		}
		require.False(t, math.IsNaN(c.F2) || math.IsNaN(c.Alpha) || math.IsNaN(c.Beta), "%+v", c)
	})
}
