// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
)

// elsewhere is a Source of records, in the canonical order, whose Read fails after some reads.
type elsewhere struct {
	*erm.Data
	fails int64 // the read that fails, −1 for none
	reads *atomic.Int64
}

var errDisk = errors.New("the disk is gone")

func (s elsewhere) Read(_ context.Context, rows, labels []float64, first int) error {
	if s.reads.Add(1)-1 == s.fails {
		return errDisk
	}
	d := len(rows) / max(len(labels), 1)
	for k := range labels {
		copy(rows[k*d:], s.Row(first+k))
		labels[k] = s.Label(first + k)
	}
	return nil
}

// TestSources: every mechanism that takes an erm.Problem releases the same numbers from records
// that are read in every pass as from records in memory; and where a read fails, whichever it is,
// there is an error and no release.
func TestSources(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range mechanisms(0) {
		p := records(t, 700, 3, 1, m.smooth(), unit)
		run := func(fails int64) (rel *dp.Release, reads int64, err error) {
			count := new(atomic.Int64)
			data, err := erm.Open(elsewhere{p.Data, fails, count}, unit)
			require.NoError(t, err)
			q := *p
			q.Data = data
			_, fit, err := m.open(&q, b, nil)
			require.NoError(t, err, m.name)
			if data.Err() != nil {
				return nil, 0, data.Err() // a test that reads records to make a problem of integers
			}
			rel, err = fit(t.Context(), noise.Reproducible(5))
			return rel, count.Load(), err
		}
		_, fit, err := m.open(p, b, nil)
		require.NoError(t, err)
		want, err := fit(t.Context(), noise.Reproducible(5))
		require.NoError(t, err, m.name)
		got, reads, err := run(-1)
		require.NoError(t, err, m.name)
		require.Equal(t, want, got, m.name)
		require.Positive(t, reads, m.name)
		for k := range min(reads, 6) {
			rel, _, err := run(k)
			require.ErrorIs(t, err, erm.ErrSource, "%s: read %d of %d", m.name, k, reads)
			require.Nil(t, rel, fmt.Sprint(m.name, k))
		}
	}
}

// TestBorrowed: every mechanism that takes an erm.Problem releases the same numbers from a matrix
// of the caller in canonical order as from a copy. If the caller changes the matrix, a mechanism
// that certifies a minimizer gives an error and no release.
func TestBorrowed(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range mechanisms(0) {
		p := records(t, 700, 3, 1, m.smooth(), unit)
		x, labels := mat.NewDense(700, 3, nil), make([]float64, 700)
		for i := range labels {
			x.SetRow(i, p.Data.Row(i))
			labels[i] = p.Data.Label(i)
		}
		run := func(change func()) (*dp.Release, error) {
			q := *p
			var err error
			q.Data, err = erm.Borrow(x, labels, unit)
			require.NoError(t, err)
			_, fit, err := m.open(&q, b, nil)
			require.NoError(t, err, m.name)
			change()
			return fit(t.Context(), noise.Reproducible(5))
		}
		_, fit, err := m.open(p, b, nil)
		require.NoError(t, err)
		want, err := fit(t.Context(), noise.Reproducible(5))
		require.NoError(t, err, m.name)
		got, err := run(func() {})
		require.NoError(t, err, m.name)
		require.Equal(t, want, got, m.name)
		rel, err := run(func() { x.Set(600, 1, 1e6) })
		if m.covered && !reflect.DeepEqual(rel, want) { // equal: the test made a copy, as of persons
			require.ErrorIs(t, err, erm.ErrSource, m.name)
			require.Nil(t, rel, m.name)
		}
	}
}
