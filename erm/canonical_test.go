package erm

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

// listed is a Source of records in memory, in the order they have there.
type listed struct {
	rows   [][]float64
	labels []float64
	err    error
}

func (l listed) Dims() (records, features int) { return len(l.rows), len(l.rows[0]) }

func (l listed) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		copy(rows[i*len(l.rows[0]):], l.rows[first+i])
	}
	copy(labels, l.labels[first:])
	return l.err
}

// Canonical is the order in which Data keeps records, also of records that are brought into the
// bounds, and of equal ones.
func TestCanonical(t *testing.T) {
	for _, n := range []int{1, 10, 3*Chunk + 5} {
		rows, labels := awkward(3, n, 4)
		b := loss.Bounds{Row: 2, Label: 0.5}
		order, err := Canonical(t.Context(), listed{rows: rows, labels: labels}, b)
		require.NoError(t, err)
		want, err := NewData(rows, labels, b)
		require.NoError(t, err)
		seen := make([]bool, n)
		for k, i := range order {
			require.False(t, seen[i])
			seen[i] = true
			one, err := NewData(rows[i:i+1], labels[i:i+1], b)
			require.NoError(t, err)
			require.Equal(t, want.Row(k), one.Row(0))
			require.Equal(t, want.Label(k), one.Label(0))
		}
	}
	rows, labels := awkward(3, 10, 4)
	broken := errors.New("broken")
	_, err := Canonical(t.Context(), listed{rows: rows, labels: labels, err: broken}, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, ErrSource)
	_, err = Canonical(t.Context(), nil, loss.Bounds{Row: 1, Label: 1})
	require.ErrorIs(t, err, ErrData)
	_, err = Canonical(t.Context(), listed{rows: rows, labels: labels}, loss.Bounds{})
	require.ErrorIs(t, err, ErrData)
}
