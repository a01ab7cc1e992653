// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

var some = dp.Budget{Epsilon: 1, Delta: 1e-8}

// planFor returns the plan for a task with n made-up records of d features.
func planFor(t *testing.T, n, d int, b dp.Budget, o Options) *Plan {
	t.Helper()
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		rows[i][i%d], labels[i] = 1, float64(i%2)
	}
	task, err := newTask(&table.Data{Records: records(t, rows, labels)}, &o)
	require.NoError(t, err)
	pl, err := task.plan(b)
	require.NoError(t, err)
	return pl
}

// TestSequence checks that the releases of a sequence use the whole δ and no more, and that their
// shares of the budget sum to 1.
func TestSequence(t *testing.T) {
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, intervals := range []*Intervals{nil, {}} {
			for _, eps := range []float64{0.1, 1, 4} {
				b := dp.Budget{Epsilon: eps, Delta: 1e-7}
				pl := planFor(t, 3000, 3, b, Options{Loss: Loss{Name: Squares}, Relation: rel, Records: 3000, Intervals: intervals})
				s := pl.Params().Sequence
				w := s.Shares
				outputs := 1.0
				if s.TwoStep {
					outputs = 2
				}
				if w.Gradients > 0 {
					outputs = 0
				}
				require.InDelta(t, 1, w.Labels+w.First+w.Residuals+w.Last+w.Hessian+w.Scores+w.Gradients+
					outputs*w.Output, 1e-12)
				delta := pl.Profile().Delta(eps)
				require.LessOrEqual(t, delta, b.Delta)
				require.Greater(t, delta, b.Delta*(1-1e-6))
				require.Equal(t, b, pl.Certificate().Budget)
				implied, _ := pl.Profile().RDP.Epsilon(b.Delta)
				require.Greater(t, implied, eps*(1-1e-6))
				require.Less(t, implied, 1.3*eps)
				theorem := theoremAuto
				switch {
				case intervals != nil:
					theorem = theoremIntervals
				case w.Gradients > 0:
					theorem = theoremGradients
				}
				require.Equal(t, theorem, pl.Certificate().Theorem)
			}
		}
	}
}

// TestStepsAreThoseOfTheSequence checks that the minimizations run with the constants that the
// plan's privacy proof assumes.
func TestStepsAreThoseOfTheSequence(t *testing.T) {
	pl := planFor(t, 5000, 2, some, Options{Loss: Loss{Name: Squares}, Relation: dp.AddRemove, Records: 5000,
		Intervals: &Intervals{}})
	s := pl.params.Sequence
	require.True(t, s.TwoStep)
	require.Equal(t, []float64{s.FirstC, s.C}, pl.seq.C)
	require.InDeltaSlice(t, []float64{math.Sqrt(0.07) * s.Mu, math.Sqrt(0.638) * s.Mu}, pl.seq.S, 1e-12)
	require.InDelta(t, math.Sqrt(0.015+0.025+0.002+0.2+0.05)*s.Mu, pl.seq.T, 1e-12)
	require.Greater(t, pl.seq.T, math.Hypot(1/(1/(math.Sqrt(0.015)*s.Mu)), math.Sqrt(0.025)*s.Mu))
	// The ledger counts all of them, and the events of the noise of both minimizers.
	q := pl.Profile()
	_, failure := release.MostNormal(pl.params.Dim, some, 1)
	require.Positive(t, failure)
	require.Equal(t, 2*failure, q.Failure)
	// A ridge below the least one is refused.
	p := &erm.Problem{Data: records(t, [][]float64{{1, 0}}, []float64{1}), Loss: loss.Squared{}, Records: 5000}
	settings := pl.settings
	settings.Clip = 0.3
	least := linear.LeastRidge(pl.smoothness, 0, s.C)
	for _, ridge := range []float64{least, least * (1 - 1e-6)} {
		plan, err := settings.PlanStep(p, pl.cert, linear.Step{C: s.C, S: pl.seq.S[1], Output: 0.1, Ridge: ridge})
		if ridge < least {
			require.ErrorIs(t, err, dp.ErrCondition)
			continue
		}
		require.NoError(t, err)
		params := plan.Params()
		require.InEpsilon(t, 0.3/pl.seq.S[1], params.Sigma, 1e-6)
		require.InEpsilon(t, params.Sensitivity/0.1, params.OutputSigma, 1e-6)
	}
}

// TestDecisions checks the choices that a plan makes from public quantities.
func TestDecisions(t *testing.T) {
	squares := func(n, d int, eps float64) Sequence {
		pl := planFor(t, n, d, dp.Budget{Epsilon: eps, Delta: 1 / float64(n*n)},
			Options{Loss: Loss{Name: Squares}, Relation: dp.AddRemove, Records: n, Intervals: &Intervals{}})
		return *pl.params.Sequence
	}
	tiny, large := squares(150, 5, 0.1), squares(20000, 5, 1)
	require.False(t, tiny.TwoStep)
	require.Equal(t, 0.3, tiny.Clip)
	require.True(t, large.TwoStep)
	require.Equal(t, 0.05, large.FirstC)
	// For one coordinate and a small δ, pure noise is chosen; for many coordinates, Gaussian noise.
	one := planFor(t, 500, 1, dp.Budget{Epsilon: 1, Delta: 1e-12}, Options{Loss: Loss{Name: SVM}})
	require.Positive(t, one.Params().Release.Rate)
	require.Zero(t, one.Certificate().Delta)
	many := planFor(t, 500, 50, dp.Budget{Epsilon: 1, Delta: 1e-6}, Options{Loss: Loss{Name: SVM}})
	require.Positive(t, many.Params().Release.Sigma)
	// A plan depends on public quantities only, not on the records.
	a := planFor(t, 700, 3, some, Options{Loss: Loss{Name: Squares}})
	rows, labels := make([][]float64, 700), make([]float64, 700)
	for i := range rows {
		rows[i], labels[i] = []float64{0.1, math.Sin(float64(i)), 0}, math.Cos(float64(i))
	}
	task, err := newTask(&table.Data{Records: records(t, rows, labels)}, &Options{Loss: Loss{Name: Squares}})
	require.NoError(t, err)
	b, err := task.plan(some)
	require.NoError(t, err)
	require.Equal(t, a.Params(), b.Params())
	require.Equal(t, a.String(), b.String())
}

// TestNewPlan checks that the plan for a schema equals the one for a table with the declared number
// of records.
func TestNewPlan(t *testing.T) {
	s, data := incomes(t, 400)
	s.Records = 400
	for _, o := range []*Options{nil, {Intervals: &Intervals{}}} {
		before, err := NewPlan(s, some, o)
		require.NoError(t, err)
		m, err := Fit(t.Context(), data, some, o)
		require.NoError(t, err)
		require.Equal(t, before.Params(), m.Params())
		require.Equal(t, before.String(), m.Describe())
		require.Equal(t, before.Certificate(), m.Certificate())
		look, err := before.Outlook(t.Context(), 2, 0)
		require.NoError(t, err)
		require.Len(t, look.Coefficients, len(m.Coefficients()))
		require.Greater(t, look.Records, 1.)
	}
	stated, err := NewPlan(s, some, &Options{Records: 3}) // Options.Records applies to add-remove only
	require.NoError(t, err)
	require.Equal(t, 400, stated.Params().Records)
}

func TestEmptyPlan(t *testing.T) {
	for _, pl := range []*Plan{nil, {}} {
		require.Equal(t, "an empty plan", pl.String())
		require.Zero(t, pl.Params())
		require.Zero(t, pl.Certificate())
		require.Equal(t, 1., pl.Profile().Delta(1))
		_, err := pl.Outlook(t.Context(), 0, 0)
		require.ErrorIs(t, err, ErrOptions)
	}
}

// TestParamsAreACopy checks that changes of the returned parameters do not change the plan.
func TestParamsAreACopy(t *testing.T) {
	pl := planFor(t, 500, 2, some, Options{Loss: Loss{Name: Squares}, Intervals: &Intervals{}})
	p := pl.Params()
	p.Sequence.Mu, p.Intervals.Level = 100, 0.6
	require.NotEqual(t, p, pl.Params())
	pl.cert = pl.cert.With("something")
	pl.Certificate().Assumptions[0] = "nothing"
	require.Equal(t, []dp.Assumption{"something"}, pl.Certificate().Assumptions)
}

// TestLedgerFirst checks that a fit is entered in the ledger, and that nothing is fitted if the
// ledger has too little left or the noise has a seed.
func TestLedgerFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ledger")
	l, err := ledger.Create(path, ledger.Terms{Total: dp.Budget{Epsilon: 1.5, Delta: 1e-6}})
	require.NoError(t, err)
	_, data := incomes(t, 300)
	m, err := Fit(t.Context(), data, some, &Options{Ledger: l})
	require.NoError(t, err)
	require.Equal(t, l.Entries()[0].Hash, m.LedgerHead())
	require.Len(t, l.Entries(), 1)
	_, err = Fit(t.Context(), data, some, &Options{Ledger: l})
	require.ErrorIs(t, err, ledger.ErrOverspent)
	_, err = Fit(t.Context(), data, dp.Budget{Epsilon: 0.1, Delta: 1e-9},
		&Options{Ledger: l, Source: noise.Reproducible(1)})
	require.ErrorIs(t, err, ledger.ErrSeeded)
	require.Len(t, l.Entries(), 1)
}

// TestManyFitsOnOneLedger checks what fits chosen one after another cost on a ledger with the usual
// filters: ten of least squares at ε = 0.3 at most 1.69, and fourteen logistic ones at 0.15 at most
// 0.66, where their sums are 3.0 and 2.1.
func TestManyFitsOnOneLedger(t *testing.T) {
	for _, c := range []struct {
		n, d, fits int
		eps, most  float64
		loss       string
	}{
		{30162, 105, 10, 0.3, 1.69, Squares}, {20000, 5, 10, 0.3, 1.69, Squares}, {16152, 10, 10, 0.3, 1.69, Squares},
		{5000, 11, 10, 0.3, 1.69, Squares}, {30162, 105, 14, 0.15, 0.66, Logistic},
	} {
		for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
			label := `"min": 0, "max": 1`
			if c.loss == Logistic {
				label = `"positive": ["1"], "negative": ["0"]`
			}
			columns := `{"name": "x0", "min": 0, "max": 1}`
			for i := range c.d - 2 {
				columns += fmt.Sprintf(`, {"name": "x%d", "min": 0, "max": 1}`, i+1)
			}
			s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "intercept": true,
				"label": {"column": "y", %s}, "columns": [%s]}`, c.n, label, columns)))
			require.NoError(t, err)
			delta := DefaultDelta(c.n)
			plan := func(delta float64) *Plan {
				pl, err := NewPlan(s, dp.Budget{Epsilon: c.eps, Delta: delta}, &Options{Loss: Loss{Name: c.loss}, Relation: rel})
				require.NoError(t, err)
				require.Equal(t, c.d, pl.Params().Dim)
				return pl
			}
			terms, err := ledger.NewTerms(dp.Budget{Epsilon: c.most, Delta: delta}, rel)
			require.NoError(t, err)
			l, err := ledger.Create(filepath.Join(t.TempDir(), "l"), terms)
			require.NoError(t, err)
			for i := range c.fits {
				_, err := l.Spend(t.Context(), plan(delta), nil)
				require.NoError(t, err, "%+v %v: fit %d", c, rel, i+1)
			}
			for err = nil; err == nil && len(l.Entries()) < 100; {
				_, err = l.Spend(t.Context(), plan(delta), nil)
			}
			require.ErrorIs(t, err, ledger.ErrOverspent, "%+v %v", c, rel)
			t.Logf("%+v %v: %d fits", c, rel, len(l.Entries()))
			e := l.Entries()[0]
			require.Len(t, e.RDP, len(terms.Orders))
		}
	}
}

// TestOptionErrors checks that errors name the option, its value and the fix, and that Check finds
// them before the table is read.
func TestOptionErrors(t *testing.T) {
	s, data := incomes(t, 300)
	declared := *s
	declared.Records = 300
	for want, o := range map[string]Options{
		`Loss "logit", want one of`:                {Loss: Loss{Name: "logit"}},
		`is for a number, the label of the schema`: {Loss: Loss{Name: Squares}},
		`Order = 2`:                   {Loss: Loss{Name: Logistic, Order: 2}},
		`Set "cube"`:                  {Set: Set{Name: "cube"}},
		`Set.Size = 3 without a name`: {Set: Set{Size: 3}},
		`HessianShare = 2`:            {Intervals: &Intervals{HessianShare: 2}},
		`Clip = 1`:                    {Clip: 1},
		`Penalty.Group with`:          {Penalty: Penalty{Group: 1, Lasso: 1}},
		`intervals with a lasso, a group penalty or a set`: {Intervals: &Intervals{}, Penalty: Penalty{Lasso: 1}},
		`Level = 1`: {Intervals: &Intervals{Level: 1}},
	} {
		_, err := Fit(t.Context(), data, some, &o)
		require.ErrorIs(t, err, ErrOptions, want)
		require.ErrorContains(t, err, want)
		require.EqualError(t, Check(&declared, some, &o), err.Error(),
			"Check must find the same error before the table is read")
	}
	require.NoError(t, Check(&declared, some, nil))
	_, err := Fit(t.Context(), data, dp.Budget{}, nil)
	require.ErrorIs(t, err, dp.ErrBudget)
	require.ErrorIs(t, Check(&declared, dp.Budget{}, nil), dp.ErrBudget)
	_, err = Fit(t.Context(), nil, some, nil)
	require.ErrorIs(t, err, ErrOptions)
	_, err = Fit(t.Context(), &table.Data{Records: data.Records}, some, nil)
	require.ErrorContains(t, err, "name of a loss")
	s.Records = 0
	_, err = NewPlan(s, some, nil)
	require.ErrorContains(t, err, `declare "records"`)
	_, err = Fit(t.Context(), data, dp.Budget{Epsilon: 1}, &Options{Intervals: &Intervals{}})
	require.ErrorIs(t, err, dp.ErrCondition)
	_, err = NewPlan(nil, some, nil)
	require.ErrorIs(t, err, table.ErrSchema)
	empty, err := table.ReadCSV(strings.NewReader("age,job,income\n"), data.Encoder.Schema())
	require.NoError(t, err)
	_, err = Fit(t.Context(), empty, some, nil)
	require.ErrorContains(t, err, "no records")
}

// TestUsualRadius: the default of Radius is 20 for classes, and for a label with a range what
// moves predictions through it; a smaller set bounds both. A scaled label scales it.
func TestUsualRadius(t *testing.T) {
	schema := func(label string) *table.Schema {
		s, err := table.ReadSchema(strings.NewReader(`{"schema": 1, "records": 500, "intercept": true, "label":
			{"column": "y", ` + label + `}, "columns": [{"name": "x", "min": 0, "max": 1},
			{"name": "c", "levels": ["a", "b", "c"]}]}`))
		require.NoError(t, err)
		return s
	}
	number, classes := schema(`"min": 0, "max": 7`), schema(`"positive": ["1"], "negative": ["0"]`)
	for _, c := range []struct {
		s    *table.Schema
		o    Options
		want float64
	}{
		{number, Options{Loss: Loss{Name: Quantile}}, 1.5 * math.Sqrt(3)},
		{number, Options{Loss: Loss{Name: PseudoHuber}}, 1.5 * math.Sqrt(3)},
		{number, Options{Loss: Loss{Name: Quantile}, Radius: 5}, 5},
		{number, Options{Loss: Loss{Name: Quantile}, Set: Set{Name: Ball, Size: 2}}, 2},
		{classes, Options{Loss: Loss{Name: SVM}}, 20},
		{classes, Options{Loss: Loss{Name: SVM}, Set: Set{Name: Ball, Size: 2}}, 2},
	} {
		pl, err := NewPlan(c.s, dp.Budget{Epsilon: 1}, &c.o)
		require.NoError(t, err)
		require.InEpsilon(t, c.want, pl.Params().Release.Radius, 1e-9, "%+v", c.o)
	}
	b, err := erm.NewBuilder(4, true, loss.Bounds{Row: 10, Label: 1000})
	require.NoError(t, err)
	b.Add([]float64{1, 2, 3, 4}, 5)
	task, err := newTask(&table.Data{Records: b.Data()}, &Options{Loss: Loss{Name: Quantile}})
	require.NoError(t, err)
	pl, err := task.plan(dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	require.InEpsilon(t, 1.5*math.Sqrt(4)*1000/10, pl.Params().Release.Radius, 1e-9)
}
