// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/table"
)

// store holds encoded rows, for persons with the number of lines first.
type store struct {
	x       [][]float64
	y       []float64
	persons int // −1 if every line is a record
}

func (s *store) Dims() (records, features int) { return len(s.x), len(s.x[0]) }

func (s *store) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		copy(rows[i*len(s.x[0]):], s.x[first+i])
		labels[i] = s.y[first+i]
	}
	return nil
}

// cluster is a Remote whose driver cannot read a record.
type cluster struct {
	*store
	passes *int
}

func (c cluster) Read(context.Context, []float64, []float64, int) error {
	return errors.New("the driver reads records")
}

func (c cluster) EncodedElsewhere() (persons int, ok bool) { return c.persons, c.persons >= 0 }

func (c cluster) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	*c.passes++
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, err
	}
	all, n := new(erm.Sums), len(c.x)
	for first := 0; first < n; first += erm.Chunk {
		worker := new(erm.Query)
		if err := worker.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		part, err := worker.Sum(ctx, c.store, first, min(erm.Chunk, n-first), 1)
		if err != nil {
			return nil, err
		}
		if err := all.Merge(part); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// storeOf returns the encoded rows of data.
func storeOf(t *testing.T, data *erm.Data) *store {
	t.Helper()
	s := &store{persons: -1}
	if _, ok := data.Persons(); !ok {
		require.NoError(t, data.Each(func(a []float64, b float64) {
			s.x, s.y = append(s.x, slices.Clone(a)), append(s.y, b)
		}))
		return s
	}
	s.persons = 0
	var of [][]float64 // the lines of a person
	err := data.EachPerson(t.Context(), 1, 1, func(_ []float64, _ float64, a []float64, b float64) {
		of, s.y = append(of, slices.Clone(a)), append(s.y, b)
	}, func([]float64) {
		for _, a := range of {
			s.x = append(s.x, slices.Insert(a, 0, float64(len(of))))
		}
		of, s.persons = nil, s.persons+1
	})
	require.NoError(t, err)
	return s
}

// TestAutomaticElsewhere checks that automatic fits over a Remote have the bits of fits of records
// in memory, and that their driver reads no record.
func TestAutomaticElsewhere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("who,x,z,job,y\n")
	for range 12_000 {
		x, z := 2*rnd.Float64()-1, rnd.Float64()/10
		job := []string{"nurse", "pilot", "other"}[rnd.IntN(3)]
		fmt.Fprintf(&text, "%d,%.3f,%.3f,%s,%v\n", rnd.IntN(5000), x, z, job, math.Copysign(1, x+rnd.NormFloat64()))
	}
	runs := 0
	for _, label := range []string{`"min": -1, "max": 1`, `"positive": ["1"], "negative": ["-1"]`} {
		for _, person := range []string{"", `"person": "who", "rows": 3,`, `"person": "who", "rows": 3, "weights": "rows",`} {
			relation := []dp.Relation{dp.Replace, dp.AddRemove}[runs%2]
			runs++
			ignored := `{"name": "who", "ignore": true}, `
			if person != "" {
				ignored = ""
			}
			s := fmt.Sprintf(`{ "schema": 1, "intercept": true, %s "records": 5000, "neighbors": "%v",
			  "label": {"column": "y", %s}, "columns": [%s{"name": "x", "min": -1, "max": 1},
			  {"name": "z", "min": -1, "max": 1}, {"name": "job", "levels": ["nurse", "pilot"], "other": true}] }`,
				person, relation, label, ignored)
			here := readTable(t, s, text.String())
			stored := storeOf(t, here.Records)
			require.Greater(t, len(stored.x), erm.Chunk)
			passes := 0
			there := cluster{stored, &passes}
			var data *erm.Data
			var err error
			if p, ok := here.Records.Persons(); ok {
				data, err = erm.OpenCanonical(t.Context(), there, here.Records.Bounds(), p)
			} else {
				data, err = erm.Open(there, here.Records.Bounds())
			}
			require.NoError(t, err)
			var outs []*outcome
			for _, d := range []*table.Data{here, {Records: data, Encoder: here.Encoder}} {
				task, err := newTask(d, &Options{Relation: relation})
				require.NoError(t, err)
				pl, err := task.plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
				require.NoError(t, err)
				require.Equal(t, theoremGradients, pl.Certificate().Theorem)
				out, err := pl.run(t.Context(), task.problem, noise.Reproducible(9))
				require.NoError(t, err)
				outs = append(outs, out)
			}
			require.Equal(t, outs[0].theta, outs[1].theta)
			require.Equal(t, outs[0].choice, outs[1].choice)
			require.Greater(t, passes, 30)
		}
	}
}

// odd is a cluster one of whose machines has other outputs, or rounds in another way.
type odd struct {
	cluster
	t           *testing.T
	here, none  *erm.Data
	same, other *int // sums of machines with other outputs: the same, or refused
}

func (o odd) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	b, err := q.MarshalBinary()
	require.NoError(o.t, err)
	var w struct{ Fold erm.Fold } // of all that is sent
	require.NoError(o.t, gob.NewDecoder(bytes.NewReader(b[:len(b)-4])).Decode(&w))
	g := *w.Fold.(*gradientSum)
	want, err := g.Sum(ctx, o.here)
	require.NoError(o.t, err)
	for k := range g.Outputs {
		if back := len(g.Outputs) - k; back > 3 && back%7 > 0 {
			continue
		}
		for _, factor := range []float64{1 + 0x1p-52, 1.1, -1} {
			there := g
			there.Outputs = slices.Clone(g.Outputs)
			there.Outputs[k] = slices.Clone(g.Outputs[k])
			floats.Scale(factor, there.Outputs[k])
			got, err := there.Sum(ctx, o.here)
			if err != nil {
				*o.other++
				continue
			}
			*o.same++
			require.Equal(o.t, want, got, "output %d of %d, times %v", k, len(g.Outputs), factor)
		}
	}
	g.Rounding++
	for _, d := range []*erm.Data{o.here, o.none} { // also without records
		_, err := g.Sum(ctx, d)
		require.ErrorContains(o.t, err, "rounds in another way")
	}
	return o.cluster.Sum(ctx, q)
}

// TestAutomaticElsewhereRounding checks that a machine that maps records by other bits, whatever
// the output that led to them, refuses: it never returns another sum.
func TestAutomaticElsewhereRounding(t *testing.T) {
	for _, label := range []string{`"min": -8, "max": 8`, `"positive": ["1"], "negative": ["0"]`} {
		rnd := rand.New(rand.NewPCG(5, 6))
		var text strings.Builder
		text.WriteString("x,z,y\n")
		for range 400 {
			x := rnd.NormFloat64()
			y := fmt.Sprint(x + 0.3*rnd.NormFloat64())
			if strings.Contains(label, "positive") {
				y = fmt.Sprint(rnd.IntN(2))
			}
			fmt.Fprintf(&text, "%.4f,%.4f,%s\n", x, rnd.Float64(), y)
		}
		here := readTable(t, fmt.Sprintf(`{"schema": 1, "intercept": true, "records": 400, "neighbors": "add-remove",
			"label": {"column": "y", %s}, "columns": [{"name": "x", "min": -500, "max": 500}, {"name": "z", "min": 0,
			"max": 1}]}`, label), text.String())
		stored := storeOf(t, here.Records)
		var passes, same, other int
		none, err := erm.Empty(len(stored.x[0]), here.Records.Bounds())
		require.NoError(t, err)
		o := odd{cluster{stored, &passes}, t, here.Records, none, &same, &other}
		data, err := erm.Open(o, here.Records.Bounds())
		require.NoError(t, err)
		task, err := newTask(&table.Data{Records: data, Encoder: here.Encoder}, nil)
		require.NoError(t, err)
		pl, err := task.plan(dp.Budget{Epsilon: 100, Delta: 1e-6})
		require.NoError(t, err)
		_, err = pl.run(t.Context(), task.problem, noise.Reproducible(9))
		require.NoError(t, err)
		require.Greater(t, passes, 30)
		require.Greater(t, other, 200)
		t.Log(passes, same, other)
	}
}
