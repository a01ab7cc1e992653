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
	for _, s := range []string{"", "x", "x,y\n", "x,y\n1,2\n", "\ufeffx,y\r\n1,2\r\n", "x,y\n1\n", "x,y\n1,\"2\n", "x,y\n1e400,1\n",
		"x,y\nNaN,1\n", "a\n1\n2\n", "x,y\n1,2\n\n3,4\n", "x,y\n\x00,1\n", "x,y\n0x1p3,1_0\n"} {
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
