// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/loss"
)

// lined is a source whose first feature is the number of lines of a person.
type lined struct{ x, y []float64 }

func (s lined) Dims() (records, features int) { return len(s.y), len(s.x) / max(1, len(s.y)) }

func (s lined) Read(_ context.Context, rows, labels []float64, first int) error {
	copy(rows, s.x[first*len(rows)/max(1, len(labels)):])
	copy(labels, s.y[first:])
	return nil
}

// remoteLines adds up records as a worker does.
type remoteLines struct{ lined }

func (s remoteLines) Sum(ctx context.Context, q *Query) (*Sums, error) {
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, err
	}
	sent := new(Query)
	if err := sent.UnmarshalBinary(b); err != nil {
		return nil, err
	}
	n, _ := s.Dims()
	return sent.Sum(ctx, s.lined, 0, n, 1)
}

// encodedThere is a source that other machines encoded.
type encodedThere struct {
	lined
	persons int
}

func (s encodedThere) EncodedElsewhere() (persons int, ok bool) { return s.persons, true }

// TestOpenCanonicalElsewhere checks records that other machines encoded: the number of persons is
// theirs and must be possible, certificates say so, also of mapped data, and a pass of this process
// finds lines of persons that are not beside each other, or other persons than were counted.
func TestOpenCanonicalElsewhere(t *testing.T) {
	file := func(counts ...float64) (l lined) {
		for i, k := range counts {
			l.x, l.y = append(l.x, k, .1+float64(i)), append(l.y, 1)
		}
		return l
	}
	whole := func(d *Data) error {
		return d.EachPerson(t.Context(), 1, 1, func([]float64, float64, []float64, float64) {}, func([]float64) {})
	}
	good := file(2, 2, 1, 3, 3, 3)
	d, err := OpenCanonical(t.Context(), encodedThere{good, 3}, one, Persons{Rows: 3})
	require.NoError(t, err)
	want, err := OpenCanonical(t.Context(), good, one, Persons{Rows: 3})
	require.NoError(t, err)
	require.Equal(t, lines(t, want), lines(t, d))
	require.Equal(t, 3, d.records().units())
	require.Contains(t, d.Assumptions(), TrustedEncoding)
	require.Contains(t, d.Map(func(_ []float64, b float64) (float64, bool) { return b, true }).Assumptions(),
		TrustedEncoding)
	require.NotContains(t, want.Assumptions(), TrustedEncoding)
	for name, s := range map[string]encodedThere{
		"another number of persons": {good, 4}, "apart": {file(2, 1, 2), 2}, "cut off": {file(1, 3, 3), 2},
	} {
		d, err := OpenCanonical(t.Context(), s, one, Persons{Rows: 3})
		require.NoError(t, err, name)
		require.ErrorIs(t, whole(d), ErrSource, name)
	}
	for _, persons := range []int{-1, 0, 1, 7} {
		_, err := OpenCanonical(t.Context(), encodedThere{good, persons}, one, Persons{Rows: 3})
		require.ErrorIs(t, err, ErrSource, persons)
	}
	_, err = OpenCanonical(t.Context(), encodedThere{}, one, Persons{Rows: 3})
	require.ErrorIs(t, err, ErrData, "no features")
}

// TestOpenCanonical checks that records written in the order of CanonicalByPerson, by persons with
// up to three lines that count, have the lines, weights, sums and vectors of persons of memory.
func TestOpenCanonical(t *testing.T) {
	in := crowd(300, 1)
	for _, weighting := range weightings {
		p := Persons{Rows: 3, Weights: weighting}
		order, counts, err := CanonicalByPerson(t.Context(), in, one, p)
		require.NoError(t, err)
		var file lined
		for k, i := range order {
			file.x = append(append(file.x, float64(counts[k])), in.x[i]...)
			file.y = append(file.y, in.y[i])
		}
		memory := in.memory(t, false, p)
		for _, src := range []Source{file, remoteLines{file}} {
			d, err := OpenCanonical(t.Context(), src, one, p)
			require.NoError(t, err)
			has, ok := d.Persons()
			require.True(t, ok)
			require.Equal(t, p, has)
			require.Equal(t, lines(t, memory), lines(t, d))
			n, _ := memory.Dims()
			m, _ := d.Dims()
			require.Equal(t, n, m)
			require.Contains(t, d.Assumptions(), OneID)
			_, remote := src.(Remote)
			require.Equal(t, remote, len(d.Assumptions()) == 2)
			theta := []float64{.3, -.2, .7}
			var sums [2][]float64
			var persons [2][][]float64
			for k, data := range []*Data{memory, d} {
				c := (&Problem{Data: data, Loss: loss.Logistic{}}).Perturb(Perturbation{})
				sums[k] = make([]float64, 3)
				c.Grad(sums[k], theta)
				require.NoError(t, c.Err())
				require.NoError(t, data.EachPerson(t.Context(), 3, 0.5, func(dst []float64, w float64, a []float64, b float64) {
					for j := range a {
						dst[j] += w * a[j]
					}
				}, func(v []float64) { persons[k] = append(persons[k], append([]float64(nil), v...)) }))
			}
			require.Equal(t, sums[0], sums[1])
			require.Equal(t, persons[0], persons[1])
		}
	}
}

// TestOpenCanonicalErrors checks files whose first feature cannot be the number of lines of a
// person, which would give a person the weight of several.
func TestOpenCanonicalErrors(t *testing.T) {
	for name, counts := range map[string][]float64{
		"too few":  {2, 2, 2},
		"too many": {4, 4, 4, 4},
		"mixed":    {2, 1, 2},
		"zero":     {1, 0, 1},
		"negative": {-1},
		"half":     {1.5, 1.5},
		"NaN":      {math.NaN()},
		"infinite": {math.Inf(1)},
		"huge":     {1e300},
	} {
		var file lined
		for _, k := range counts {
			file.x, file.y = append(file.x, k, .5), append(file.y, 1)
		}
		_, err := OpenCanonical(t.Context(), file, one, Persons{Rows: 3})
		require.ErrorIs(t, err, ErrSource, name)
	}
	only := lined{x: []float64{1}, y: []float64{1}}
	_, err := OpenCanonical(t.Context(), only, one, Persons{Rows: 3})
	require.ErrorIs(t, err, ErrData)
	_, err = OpenCanonical(t.Context(), nil, one, Persons{Rows: 3})
	require.ErrorIs(t, err, ErrData)
	_, _, err = CanonicalByPerson(t.Context(), nil, one, Persons{Rows: 3})
	require.ErrorIs(t, err, ErrData)
	_, err = OpenCanonical(t.Context(), only, one, Persons{})
	require.ErrorIs(t, err, ErrData)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	file := lined{x: []float64{1, .5}, y: []float64{1}}
	_, err = OpenCanonical(stopped, file, one, Persons{Rows: 3})
	require.ErrorIs(t, err, context.Canceled)
}

// TestOpenCanonicalChanged checks that a file whose numbers of lines change after it was opened is
// refused, before its first pass and later, here and on workers: three lines of one person would
// have the weight of three persons.
func TestOpenCanonicalChanged(t *testing.T) {
	for _, remote := range []bool{false, true} {
		for _, passes := range []int{0, 1} {
			file := lined{x: []float64{3, .1, 3, .2, 3, .3}, y: []float64{1, 0, 1}}
			var src Source = file
			if remote {
				src = remoteLines{file}
			}
			d, err := OpenCanonical(t.Context(), src, one, Persons{Rows: 3})
			require.NoError(t, err)
			c := (&Problem{Data: d, Loss: loss.Logistic{}}).Perturb(Perturbation{})
			grad := make([]float64, 1)
			for range passes {
				c.Grad(grad, []float64{.5})
				require.NoError(t, c.Err())
			}
			for i := range file.y {
				file.x[2*i] = 1
			}
			c.Grad(grad, []float64{.4})
			require.ErrorIs(t, c.Err(), ErrSource, "remote %v, after %d passes", remote, passes)
		}
	}
}
