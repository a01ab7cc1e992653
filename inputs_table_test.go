// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/table"
)

func TestEveryInputLasso(t *testing.T) {
	spec := lasso.Spec{N: 6, D: 2, Xi: 1, AnchorNoise: 0.1}
	in, err := lasso.Generate(spec, fixed())
	if err != nil {
		t.Fatal(err)
	}
	data, err := in.Data(1)
	if err != nil {
		t.Fatal(err)
	}
	paper := lasso.Paper{Epsilon: 0.5, Delta: 0.01, Lambda: 1, Iterations: 1000}
	published := lasso.Published{Dim: 4, Rank: 1, Degrees: 8, Smoothness: 1, Epsilon1: 0.5, Delta1: 0.005, Delta3: 0.005}
	e, err := paper.Experiment(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	src := func() rand.Source { return fixed() }
	vector := func() io.Reader { return strings.NewReader("x\n1\n") }
	everyInput(t, "lasso", map[string]row{
		"Generate":   call(lasso.Generate, spec, src),
		"ReadVector": call(lasso.ReadVector, vector, 1),
		"Problem": call(func(lambda, kappa float64) bool { return lasso.Problem(data, lambda, kappa).Check() == nil },
			1., 1.),
		"Instance.Data": call(in.Data, 1.),
		"Instance.Dims": call(in.Dims),
		"Instance.Risk": call(in.Risk, []float64{1, 2}).mayBeNaN(),
		"Paper.Experiment": call(func(p lasso.Paper, sigma2 float64) (bool, error) {
			e, err := p.Experiment(in, sigma2)
			return e != nil, err
		}, paper, 1.),
		"Experiment.Dof":      call(e.Dof),
		"Experiment.L":        call(e.L),
		"Published.Constants": call(lasso.Published.Constants, published, true).mayBeNaN(),
		"Experiment.Linear":   call(e.Linear, lasso.LOP, 1.).mayBeNaN(),
		"Experiment.Omega":    call(e.Omega, 1.).mayBeNaN(),
		"Experiment.Solve":    call(e.Solve, background, lasso.LOP, 1., src).keep(0, 1),
	})
}

func TestEveryInputTable(t *testing.T) {
	const people = `{"schema": 1, "label": {"column": "y", "min": 0, "max": 1}, ` +
		`"columns": [{"name": "x", "min": 0, "max": 2}, {"name": "c", "levels": ["a"], "other": true}]}`
	const part = `{"schema": 1, "label": {"column": "y"}, "columns": [{"name": "x", "ignore": true}]}`
	text := func() io.Reader { return strings.NewReader("x,c,y\n1,a,0.5\n") }
	numbers := func() io.Reader { return strings.NewReader("x,y\n1,2\n3,4\n") }
	s, err := table.ReadSchema(strings.NewReader(people))
	require.NoError(t, err)
	e, err := s.Encoder()
	require.NoError(t, err)
	rows := func() *table.Rows {
		r, err := e.Rows(text(), table.Options{})
		require.NoError(t, err)
		require.True(t, r.Next())
		return r
	}
	u, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(text())
	require.NoError(t, err)
	form := &e.Forms()[0]
	everyInput(t, "table", map[string]row{
		"ReadSchema":           call(table.ReadSchema, func() io.Reader { return strings.NewReader(people) }),
		"ReadCSV":              call(table.ReadCSV, text, s),
		"Options.ReadCSV":      call(table.Options.ReadCSV, table.Options{Public: true}, text, s),
		"Schema.Check":         call((*table.Schema).Check, s),
		"Schema.Encoder":       call((*table.Schema).Encoder, s),
		"Schema.WriteTo":       call(s.WriteTo, io.Writer(io.Discard)).keep(0),
		"Encoder.Rows":         call(e.Rows, text, table.Options{}),
		"Encoder.Schema":       call(e.Schema),
		"Encoder.Features":     call(e.Features),
		"Encoder.Kind":         call(e.Kind),
		"Encoder.NumClasses":   call(e.NumClasses),
		"Encoder.Dim":          call(e.Dim),
		"Encoder.Bounds":       call(e.Bounds),
		"Encoder.Persons":      call(func() erm.Persons { p, _ := e.Persons(); return p }),
		"Encoder.LabelText":    call(e.LabelText, 0.5),
		"Encoder.LabelValue":   call(e.LabelValue, 0.5).mayBeNaN(),
		"Encoder.Forms":        call(e.Forms),
		"Form.Apply":           call(form.Apply, []float64{1, 2, 3}).mayBeNaN(),
		"Encoder.Coefficients": call(e.Coefficients, []float64{1, 2, 3}).mayBeNaN(),
		"Rows.Next":            call(func() bool { return rows().Next() }),
		"Rows.Err":             call(func() error { return rows().Err() }),
		"Rows.Row":             call(func() []float64 { _, val := rows().Row(); return val }),
		"Rows.Label":           call(func() float64 { return rows().Label() }),
		"Rows.Names":           call(func() []string { return rows().Names() }),
		"Rows.Field":           call(func(j int) string { return rows().Field(j) }, 0),
		"Rows.Outside":         call(func() int { return rows().Outside() }),
		"Rows.ID":              call(func() string { return rows().ID() }),
		"Numeric.ReadCSV":      call(table.Numeric.ReadCSV, table.Numeric{Bounds: unit}, numbers),
		"Numeric.Scan": call(func(n table.Numeric, r io.Reader) error {
			return n.Scan(r, func([]string) error { return nil }, func([]float64) error { return nil })
		}, table.Numeric{}, numbers),
		"Schema.References":      call((*table.Schema).References, s),
		"ReadDiscovery":          call(table.ReadDiscovery, func() io.Reader { return strings.NewReader(part) }),
		"Discovery.Read":         call(table.Discovery.Read, table.Discovery{Label: table.Label{Column: "y"}}, text),
		"Undeclared.Columns":     call(u.Columns),
		"Undeclared.Label":       call(u.Label),
		"Undeclared.Records":     call(u.Records),
		"Undeclared.Identifiers": call(u.Identifiers),
		"Undeclared.Persons":     call(u.Persons),
		"Undeclared.Kinds":       call(u.Kinds, 0),
		"Undeclared.Distinct":    call(u.Distinct, 0),
		"Undeclared.Spellings":   call(func(j int) { u.Spellings(j, func(string, int64) {}) }, 0),
		"Undeclared.Count": call(func(cells []int64, j int) { u.Count(cells, j, func(float64) int { return 1 }) },
			[]int64{0, 0}, 0),
		"Undeclared.Schema": call(u.Schema, table.Label{Column: "y"},
			[]table.Column{{Name: "x", Ignore: true}}).sharing().mayBeNaN(),
		"Undeclared.Data": call(u.Data, s),
		"Draft":           call(table.Draft, numbers, table.Schema{Label: table.Label{Column: "y"}}),
	})
}

// remedy reports whether an error that has no range tells what to do.
func remedy(text string) bool {
	for _, s := range []string{"use ", "rescale", "needs", "at most", "at least", "does not", "no ", "not a ", "is not",
		"is nil", "differ",
		"declare", "leave", "restore", "set ", "encountered", "permission"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
