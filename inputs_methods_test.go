// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/sco"
	"github.com/privopt/privopt/splitting"
	"github.com/privopt/privopt/table"
	"github.com/privopt/privopt/table/npy"
)

// methods returns a row for every exported method of the samples, with the argument of the pool
// that has the type of each parameter. A number that a method returns without checking a NaN may be
// NaN.
func methods(t *testing.T, pool []any, samples ...any) map[string]row {
	t.Helper()
	rows := map[string]row{}
	for _, sample := range samples {
		kind := reflect.TypeOf(sample)
		name := kind.Name()
		if kind.Kind() == reflect.Pointer {
			name = kind.Elem().Name()
		}
		for i := range kind.NumMethod() {
			m := kind.Method(i)
			if printing[m.Name] {
				continue
			}
			r := row{f: m.Func, args: []any{sample}, nan: m.Type.NumOut() > 0 && m.Type.Out(0).Kind() == reflect.Float64}
			for k := 1; k < m.Type.NumIn(); k++ {
				r.args = append(r.args, pooled(t, pool, m.Type.In(k), name+"."+m.Name))
			}
			rows[name+"."+m.Name] = r
		}
	}
	return rows
}

// pooled returns the first argument of the pool that fits a parameter.
func pooled(t *testing.T, pool []any, in reflect.Type, name string) any {
	t.Helper()
	for _, a := range pool {
		have := reflect.TypeOf(a)
		if have.Kind() == reflect.Func && have.NumIn() == 0 { // makes an argument anew
			have = have.Out(0)
		}
		if have == in || in.Kind() == reflect.Interface && in.NumMethod() > 0 && have.Implements(in) {
			return a
		}
	}
	t.Fatalf("%s: no argument of type %v", name, in)
	return nil
}

func merged(rows, more map[string]row) map[string]row {
	for name, r := range more {
		rows[name] = r
	}
	return rows
}

func source() rand.Source { return fixed() }

func TestEveryInputSCO(t *testing.T) {
	p := records(t, 60, 2, 1, loss.Logistic{}, unit)
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	q.Assumptions = []dp.Assumption{erm.DeclaredOperator}
	sgd := &sco.NoisySGD{Radius: 1, Batch: 5, Steps: 4}
	steps, err := sgd.Plan(p, b)
	require.NoError(t, err)
	everyInput(t, "sco", brief(merged(methods(t, []any{background, p, b, source, q},
		sgd, &sco.ProxGD{NoisySGD: *sgd}, &sco.DPSGD{Epochs: 1, Batch: 5, StepSize: 0.1,
			Clip: 0.5}, &sco.ObjPert{Radius: 1}, &sco.Output{Radius: 1}, steps, steps.Params(), sco.FixedSize),
		map[string]row{"PublishedSGD": call(sco.PublishedSGD, 100, 10, b)})))
}

// origin is a Minimizer that answers with 0.
type origin struct{}

func (origin) Minimize(_ context.Context, w, _ []float64) (gap float64, err error) {
	clear(w)
	return 0, nil
}

func TestEveryInputObjpert(t *testing.T) {
	p, err := halfspaces(records(t, 20, 2, 1, loss.Logistic{}, unit), ternary)
	require.NoError(t, err)
	b := dp.Budget{Epsilon: 1}
	samp := &objpert.OPSamp{Dim: 2, Diameter: 2, Lipschitz: 1, Records: 20, Gap: 0.01}
	plan, err := (&objpert.Product{}).Plan(p, b)
	require.NoError(t, err)
	sampled, err := samp.Plan(dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.NoError(t, err)
	point := []int{1, -1}
	ball, err := halfspaces(records(t, 20, 2, 1, loss.Logistic{}, unit), objpert.Lattice(2))
	require.NoError(t, err)
	gauss := dp.Budget{Epsilon: 1, Delta: 1e-6}
	average := methods(t, []any{background, ball, gauss, source, objpert.Minimizer(origin{})},
		&objpert.OPDisc{}, samp, sampled)
	rest := methods(t, []any{background, p, b, source, point, []float64{0.5, 0.5}},
		&objpert.Exponential{}, &objpert.Product{}, &objpert.RSPM{}, &objpert.SampleAndAggregate{Blocks: 3}, plan,
		objpert.Search{})
	everyInput(t, "objpert", brief(merged(merged(average, rest), map[string]row{
		"Empty":            call(objpert.Empty, 2, ternary),
		"Custom":           call(objpert.Custom, 2, ternary),
		"Lattice":          call(objpert.Lattice, 2),
		"NewProblem":       call(objpert.NewProblem, [][]int64{{1, 2}}, []int{1}, []int{1}, ternary),
		"Problem.Dim":      call((*objpert.Problem).Dim, p),
		"Problem.Space":    call((*objpert.Problem).Space, p).keep(0),
		"Problem.Rows":     call((*objpert.Problem).Rows, p).keep(0),
		"Problem.Contains": call((*objpert.Problem).Contains, p, point).keep(0),
		"Problem.Loss":     call((*objpert.Problem).Loss, p, point).keep(0),
		// of problems that pass Check
		"Problem.Noise": call((*objpert.Problem).Noise, p).keep(0), "Problem.Objective": call((*objpert.Problem).Objective,
			p, point).keep(0),
		"Problem.Perturb": call((*objpert.Problem).Perturb, p, [][]int64{{0, 0, 0}, {0, 0, 0}}, []int64(nil), 0).sharing(),
	})))
}

func TestEveryInputLedger(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	terms := ledger.Terms{Total: dp.Budget{Epsilon: 1000, Delta: 1e-3}, Relation: dp.Replace, Orders: []float64{2, 4}}
	created := func(terms ledger.Terms) (*ledger.Ledger, error) {
		return ledger.Create(filepath.Join(t.TempDir(), "ledger"), terms)
	}
	l, err := created(terms)
	require.NoError(t, err)
	entry, err := l.Spend(t.Context(), budgeted{b}, nil)
	require.NoError(t, err)
	require.NoError(t, l.Commit(t.Context(), entry.Hash, []byte("a model")))
	everyInput(t, "dp/ledger", brief(merged(methods(t,
		[]any{background, terms, dp.Plan(budgeted{b}), dp.Certificate{}, source, io.Writer(io.Discard),
			[]string{}, "", []byte("a model")}, l, terms),
		map[string]row{
			"Create":        call(created, terms),
			"NewTerms":      call(ledger.NewTerms, terms.Total, dp.Replace),
			"Open":          call(ledger.Open, l.Path()),
			"Ledger.Verify": call(func(l *ledger.Ledger) error { return l.Verify() }, l),
			"Ledger.Commit": call(func(l *ledger.Ledger, ctx context.Context, file []byte) error {
				if l == nil || ctx == nil {
					return l.Commit(ctx, "", file)
				}
				e, err := l.Spend(t.Context(), budgeted{b}, nil)
				return errors.Join(err, l.Commit(ctx, e.Hash, file))
			}, l, background, []byte("another model")),
			"Ledger.VerifyFile": call((*ledger.Ledger).VerifyFile, l, entry.Hash, budgeted{b}.Certificate(), []byte("a model")),
			"Ledger.Spend":      call((*ledger.Ledger).Spend, l, background, dp.Plan(budgeted{b}), nil),
		})))
}

const schemaOfPeople = `{"schema": 1, "records": 40, "label": {"column": "y", "min": 0, "max": 1}, ` +
	`"columns": [{"name": "x", "min": 0, "max": 2}, {"name": "c", "levels": ["a"], "other": true}]}`

func TestEveryInputModel(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(schemaOfPeople))
	require.NoError(t, err)
	lines := "x,c,y\n" + strings.Repeat("1,a,0.5\n0.5,b,0.25\n", 20)
	text := func() io.Reader { return strings.NewReader(lines) }
	data, err := table.ReadCSV(text(), s)
	require.NoError(t, err)
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	o := &model.Options{Loss: model.Loss{Name: model.PseudoHuber}}
	m, err := model.Fit(background, data, b, o)
	require.NoError(t, err)
	plan, err := model.NewPlan(s, b, o)
	require.NoError(t, err)
	theta := m.Theta()
	u, err := table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader("x,c,y\n" +
		strings.Repeat("1,a,0.5\n0.5,b,0.25\n", 1500)))
	require.NoError(t, err)
	found := &model.Options{Discover: &model.Discovery{Task: model.Numbers}, Relation: dp.AddRemove, Records: 3000}
	search, err := model.NewDiscoveryPlan(3, 3000, b, found)
	require.NoError(t, err)
	everyInput(t, "model", brief(merged(methods(t, []any{text, theta, []int32{0}, data, io.Writer(io.Discard),
		table.Options{},
		func(model.Prediction) error { return nil }, background, u, func() rand.Source { return fixed() },
		0.25, 2}, m, plan, model.Outlook{}, search),
		map[string]row{
			"NewDiscoveryPlan":     call(model.NewDiscoveryPlan, 3, 3000, b, found),
			"Discover":             call(model.Discover, background, u, b, found),
			"FitUndeclared":        call(model.FitUndeclared, background, u, b, found).keep(3),
			"DefaultDelta":         call(model.DefaultDelta, 100),
			"Fit":                  call(model.Fit, background, data, b, o),
			"NewPlan":              call(model.NewPlan, s, b, o).slow(),
			"Check":                call(model.Check, s, b, o),
			"Losses":               call(model.Losses),
			"Sets":                 call(model.Sets),
			"Load":                 call(model.Load, func() io.Reader { return saved(t, m) }),
			"Model.PredictEntries": call((*model.Model).PredictEntries, m, []int32{0}, []float64{1}).mayBeNaN(),
			"Model.Predict":        call((*model.Model).Predict, m, theta).mayBeNaN(),
			"Model.Contrast":       call((*model.Model).Contrast, m, theta).mayBeNaN(),
		})))
	so := &score.Options{Records: 40}
	large := dp.Budget{Epsilon: 50, Delta: 0.1} // so that 40 records are enough
	scorePlan, err := score.NewPlan(m, large, so)
	require.NoError(t, err)
	testSet, err := score.Read(background, m, data, nil)
	require.NoError(t, err)
	scores, err := scorePlan.Score(background, testSet)
	require.NoError(t, err)
	everyInput(t, "model/score", merged(methods(t, []any{io.Writer(io.Discard), background, testSet, "RMSE", 0.25},
		scorePlan, testSet, scores),
		map[string]row{
			"NewPlan":       call(score.NewPlan, m, large, so),
			"Read":          call(score.Read, background, m, data, (*model.Model)(nil)),
			"ReadCSV":       call(score.ReadCSV, background, m, text, table.Options{}, (*model.Model)(nil)),
			"Load":          call(score.Load, func() io.Reader { return saved(t, scores) }),
			"Scores.Metric": call((*score.Scores).Metric, scores, "RMSE").mayBeNaN(),
		}))
}

func saved(t *testing.T, m interface{ Save(io.Writer) error }) io.Reader {
	var b strings.Builder
	require.NoError(t, m.Save(&b))
	return strings.NewReader(b.String())
}

func TestEveryInputNPY(t *testing.T) {
	dir := t.TempDir()
	created := func(columns []string, o npy.Options) (*npy.Writer, error) {
		return npy.Create(filepath.Join(t.TempDir(), "new.npy"), columns, o)
	}
	path := filepath.Join(dir, "a.npy")
	w, err := npy.Create(path, []string{"x", "y"}, npy.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Append([]float64{1}, 2))
	require.NoError(t, w.Commit())
	file, err := npy.Open(path)
	require.NoError(t, err)
	everyInput(t, "table/npy", brief(merged(methods(t, []any{background, []float64{0}, 0}, file), map[string]row{
		"Open":   call(npy.Open, path),
		"Create": call(created, []string{"x", "y"}, npy.Options{}).sharing(),
		"Writer.Append": call(func(row []float64, label float64) error {
			w, err := created([]string{"x", "y"}, npy.Options{})
			require.NoError(t, err)
			defer w.Close()
			return w.Append(row, label)
		}, []float64{1}, 2.),
		"Writer.Close":  call((*npy.Writer).Close, w),
		"Writer.Commit": call(func() error { w, _ := created([]string{"x", "y"}, npy.Options{}); return w.Commit() }),
		"File.Close":    call(func() error { f, _ := npy.Open(path); return f.Close() }),
	})))
}

// methodsOfSplitting are called without Solve, which checks their arguments otherwise.
func methodsOfSplitting(t *testing.T) map[string]row {
	a := mat.NewDense(2, 2, []float64{1, 0, 0, 1})
	squares, err := splitting.NewLeastSquares(a, []float64{1, 1})
	require.NoError(t, err)
	matrix, err := splitting.NewMatrix(a)
	require.NoError(t, err)
	x, p := []float64{0.3, 0.2}, splitting.Problem{F: squares, G: prox.L1{Weight: 0.1}}
	settings := &splitting.Settings{Iterations: 50}
	given := []any{x, prox.Operator(prox.L1{Weight: 1}), []int{0, 1}, mat.NewSymDense(2, nil)}
	return merged(brief(methods(t, given, squares, matrix, splitting.FixedStep)),
		map[string]row{
			"NewLeastSquares": call(splitting.NewLeastSquares, mat.Matrix(a), []float64{1, 1}),
			"NewMatrix":       call(splitting.NewMatrix, mat.Matrix(a)),
			"NewDifferences":  call(splitting.NewDifferences, [][2]int{{0, 1}}, 2),
			"NewSelection":    call(splitting.NewSelection, []int{0, 1}, 2),
			"Problem.Func":    call(splitting.Problem.Func, p, x).keep(0).mayBeNaN(),
			"Minimize":        call(splitting.Minimize, background, p, x, settings),
			"Solve":           call(splitting.Solve, background, p, x, settings, splitting.Method(&splitting.ForwardBackward{})),
			"Path": call(splitting.Path, background, []splitting.Problem{p, p}, x, settings,
				splitting.Method(&splitting.ForwardBackward{})),
		})
}

// adding is the sum of all labels as an erm.Fold.
type adding struct{}

func (adding) Size() int { return 1 }

func (adding) Sum(_ context.Context, d *erm.Data) ([]int64, error) {
	sum := make([]int64, 1)
	return sum, d.Each(func(_ []float64, b float64) { sum[0] += int64(b) })
}
