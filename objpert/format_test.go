package objpert

import (
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// No way of printing or encoding a problem shows a record or noise.
func TestProblemPrintsNothing(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 40}, {0, 1}}, []int{1, -1}, nil, Lattice(2))
	require.NoError(t, err)
	p, err = p.perturbReal([][]float64{{7.5, 7.5, 7.5}, {7.5, 7.5, 7.5}}, []float64{7.5, 7.5, 7.5})
	require.NoError(t, err)
	const want = "objpert.Problem(d = 2, Q = 2)"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		require.Equal(t, want, fmt.Sprintf(verb, p))
		require.Equal(t, want, fmt.Sprintf(verb, *p))
		require.NotContains(t, fmt.Sprintf(verb, []any{p, struct{ P Problem }{*p}}), "40")
	}
	require.Equal(t, "objpert.Problem(d = 1)", (&Problem{Space: Space{NormSq: -1}, Dim: 1}).String())
	require.Equal(t, "objpert.Problem(nil)", (*Problem)(nil).String())
	_, err = json.Marshal(p)
	require.ErrorIs(t, err, errSecret)
	require.ErrorIs(t, gob.NewEncoder(io.Discard).Encode(p), errSecret)
}

// minimizer that was withheld stays so.
func TestTracePrintsNothing(t *testing.T) {
	trace := Trace{Solution: &Solution{W: []int{123456789}, Loss: 1234567890, Objective: 0.123456789}, Err: errors.New("123456789")}
	for _, v := range []any{trace, &trace, []Trace{trace}, struct{ T Trace }{trace}} {
		require.NotContains(t, testkit.Everything(v), "123456789")
	}
}
