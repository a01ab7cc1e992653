package privopt_test

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/splitting"
	"github.com/privopt/privopt/table"
)

var unit = loss.Bounds{Row: 1, Label: 1}

func small(t *testing.T) *erm.Problem {
	data, err := erm.NewData([][]float64{{0.5, 0.1}, {0.2, -0.7}, {0, 0.3}}, []float64{1, -1, 0.5}, unit)
	if err != nil {
		t.Fatal(err)
	}
	return &erm.Problem{Data: data, Loss: loss.Huber{Delta: 1}, Reg: prox.L1{Weight: 0.1}, Set: prox.Box{Lo: -1, Hi: 1}}
}

func TestEveryInputERM(t *testing.T) {
	rows, labels := [][]float64{{0.5, 0.1}, {0.2, -0.7}}, []float64{1, -1}
	p := small(t)
	o := p.Perturb(erm.Perturbation{Linear: []float64{0.1, 0.2}})
	built := func(row []float64, label float64) *erm.Data {
		b, err := erm.NewBuilder(2, false, unit)
		require.NoError(t, err)
		b.Add(row, label)
		return b.Data()
	}
	x, g := []float64{0.3, 0.2}, []float64{0, 0}
	square := *p
	square.Loss = loss.Squared{}
	everyInput(t, "erm", map[string]row{
		"NewData":      call(erm.NewData, rows, labels, unit),
		"NewDataDense": call(erm.NewDataDense, mat.Matrix(mat.NewDense(2, 2, []float64{1, 2, 3, 4})), labels, unit),
		"NewDataCSR":   call(erm.NewDataCSR, 2, []int{0, 1, 3}, []int{0, 0, 1}, []float64{0.5, 0.2, -0.7}, labels, unit),
		"NewBuilder":   call(erm.NewBuilder, 2, true, unit),
		"Builder.Add": call(func(row []float64, label float64) int {
			n, _ := built(row, label).Dims()
			return n
		}, rows[0], 1.0).keep(0), // like indexing a slice
		"Builder.AddSparse": call(func(col []int32, label float64) int {
			b, err := erm.NewBuilder(2, true, unit)
			require.NoError(t, err)
			b.AddSparse(col, make([]float64, len(col)), label)
			n, _ := b.Data().Dims()
			return n
		}, []int32{0, 1}, 1.0).keep(0),
		"Builder.Data": call(func(label float64) float64 { return built(rows[0], label).Label(0) }, 1.0),
		"Data.Dims":    call(p.Data.Dims), "Data.Bounds": call(p.Data.Bounds),
		"Data.Row": call(p.Data.Row, 1).keep(0), "Data.Label": call(p.Data.Label, 1).keep(0), // like indexing a slice
		"Data.Map": call(func(b float64) float64 {
			return p.Data.Map(func([]float64, float64) (float64, bool) { return b, true }).Label(0)
		}, 0.5),
		"Problem.Check":            call((*erm.Problem).Check, p),
		"Problem.Certifiable":      call((*erm.Problem).Certifiable, p),
		"Problem.Constants":        call((*erm.Problem).Constants, p),
		"Problem.Perturb":          call(func(q erm.Perturbation) float64 { return p.Perturb(q).Residual(x) }, erm.Perturbation{Linear: []float64{1, 2}, Center: []float64{0, 0}, Quad: mat.NewDiagDense(2, []float64{1, 1}), MinEig: 1, MaxEig: 1}),
		"NewUnperturbed":           call(func() float64 { return erm.NewUnperturbed(p).Residual(x) }),
		"Objective.Func":           call(o.Func, x).mayBeNaN(),
		"Objective.Grad":           call(o.Grad, g, x).mayBeNaN(),
		"Objective.FuncGrad":       call(o.FuncGrad, g, x).mayBeNaN(),
		"Objective.HasHessian":     call(o.HasHessian),
		"Objective.GradTerms":      call(o.GradTerms, g, x, []int{0, 1}).keep(2), // like indexing a slice
		"Objective.Hessian":        call(func(x []float64) { o.Hessian(new(mat.SymDense), x) }, x),
		"Objective.Residual":       call(o.Residual, x),
		"Objective.ResidualWithin": call(o.ResidualWithin, x, 1e-6),
		"Objective.Smoothness":     call(o.Smoothness), "Objective.TermSmoothness": call(o.TermSmoothness), "Objective.Modulus": call(o.Modulus), "Objective.Convexity": call(o.Convexity),
		"Objective.Dim": call(o.Dim), "Objective.Len": call(o.Len),
		"Objective.Quadratic": call(func() bool { _, _, _, ok := square.Perturb(erm.Perturbation{}).Quadratic(); return ok }),
	})
}

func TestEveryInputSplitting(t *testing.T) {
	f, err := splitting.NewQuadratic(mat.NewSymDense(2, []float64{2, 0, 0, 1}), []float64{1, 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := splitting.Problem{F: f, G: prox.L1{Weight: 0.1}}
	x := []float64{0.3, 0.2}
	settings := &splitting.Settings{Iterations: 50}
	solve := func(m func() splitting.Method, p splitting.Problem) row {
		return call(func(p splitting.Problem, x0 []float64, s *splitting.Settings) (*splitting.Result, error) {
			if p.F == nil {
				p.F = f
			}
			if len(x0) != 2 { // documented to panic with the operator's own message
				x0 = x
			}
			return splitting.Solve(background, p, x0, s, m())
		}, p, x, settings)
	}
	table := map[string]row{
		"NewQuadratic":         call(splitting.NewQuadratic, mat.Symmetric(mat.NewSymDense(2, []float64{1, 0, 0, 1})), []float64{1, 1}, 0.),
		"Quadratic.Func":       call(f.Func, x).mayBeNaN(),
		"Quadratic.Grad":       call(f.Grad, []float64{0, 0}, x).mayBeNaN(),
		"Quadratic.Hessian":    call(func(x []float64) { f.Hessian(mat.NewSymDense(2, nil), x) }, x).keep(0),
		"Quadratic.Quadratic":  call(func() bool { _, _, _, ok := f.Quadratic(); return ok }),
		"Quadratic.Smoothness": call(f.Smoothness),
		"Quadratic.Convexity":  call(f.Convexity),
		"Auto":                 call(func() splitting.Method { return splitting.Auto(p, 2) }),
		"Minimize": call(func(x0 []float64, s *splitting.Settings) (*splitting.Result, error) {
			return splitting.Minimize(background, p, x0, s)
		}, x, settings).keep(0),
		"Solve":                  solve(func() splitting.Method { return &splitting.ForwardBackward{} }, p),
		"Status.Early":           call(splitting.Status.Early, splitting.Converged),
		"Status.Err":             call(func(s splitting.Status) bool { return s.Err() == nil }, splitting.Converged),
		"ForwardBackward.Init":   solve(func() splitting.Method { return &splitting.ForwardBackward{} }, p),
		"DavisYin.Init":          solve(func() splitting.Method { return &splitting.DavisYin{} }, p),
		"ProxNewton.Init":        solve(func() splitting.Method { return &splitting.ProxNewton{} }, p),
		"CoordinateDescent.Init": solve(func() splitting.Method { return &splitting.CoordinateDescent{} }, p),
		"BackwardForward.Init":   solve(func() splitting.Method { return &splitting.BackwardForward{} }, p),
	}
	for _, m := range []string{"ForwardBackward", "DavisYin", "ProxNewton", "CoordinateDescent", "BackwardForward"} {
		table[m+".Step"], table[m+".Status"] = table[m+".Init"], table[m+".Init"] // Solve calls all three
	}
	everyInput(t, "splitting", table)
}

func TestEveryInputLOP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	q := lop.Public{Dim: 2, Records: 3, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 1, Structure: loss.GLM}, Radius: 1, Budget: b}
	p := small(t)
	plan, err := (&lop.Mechanism{}).Plan(p, b)
	if err != nil {
		t.Fatal(err)
	}
	src := func() rand.Source { return fixed() }
	everyInput(t, "lop", map[string]row{
		"Mechanism.Calibrate": call((*lop.Mechanism).Calibrate, &lop.Mechanism{Share: 0.1}, q),
		"Mechanism.Plan":      call((*lop.Mechanism).Plan, &lop.Mechanism{Share: 0.1}, p, b),
		"Mechanism.Fit":       call((*lop.Mechanism).Fit, &lop.Mechanism{}, background, p, b, src).keep(1),
		"Output.Calibrate":    call((*lop.Output).Calibrate, &lop.Output{}, q),
		"Output.Plan":         call((*lop.Output).Plan, &lop.Output{}, p, b),
		"Output.Fit":          call((*lop.Output).Fit, &lop.Output{}, background, p, b, src).keep(1),
		"Plan.Fit":            call(func(p *erm.Problem, src rand.Source) (*dp.Release, error) { return plan.Fit(background, p, src) }, p, src),
		"Plan.Profile":        call(func(eps float64) float64 { return plan.Profile()(eps) }, 1.),
		"Plan.RDP":            call(func(a float64) float64 { return plan.RDP()(a) }, 2.),
		"AMP.Noise":           call(lop.AMP.Noise, lop.AMP{Lipschitz: 1, Smoothness: 1, Rank: 2, Records: 10, Epsilon1: 1, Epsilon2: 0.1, Epsilon3: 0.9, Delta1: 1e-6, Delta2: 1e-6, Gamma: 1e-3}),
		"CMS.Noise":           call(lop.CMS.Noise, lop.CMS{Epsilon: 1, Records: 10, Lambda: 0.1, Curvature: 0.25}),
	})
}

func TestEveryInputQOP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	q := qop.Public{Dim: 2, Records: 3, Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: loss.LSQ}, Radius: 1, Scale: 1, Budget: b}
	p := small(t)
	p.Loss = loss.Squared{}
	m := &qop.Mechanism{Center: []float64{0.1, 0.1}, Interpolation: qop.Relabel{}, Share: 0.1}
	plan, err := m.Plan(p, b)
	if err != nil {
		t.Fatal(err)
	}
	src := func() rand.Source { return fixed() }
	everyInput(t, "qop", map[string]row{
		"Mechanism.Calibrate": call((*qop.Mechanism).Calibrate, m, q),
		"Mechanism.Plan":      call((*qop.Mechanism).Plan, m, p, b).keep(0),
		"Mechanism.Fit":       call((*qop.Mechanism).Fit, m, background, p, b, src).keep(0, 1),
		"Plan.Fit": call(func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
			return plan.Fit(ctx, p, src)
		}, background, p, src).keep(0),
		"Published.Constants": call(qop.Published.Constants, qop.Published{Dim: 2, M: 5, Rank: 1, Smoothness: 1, Epsilon1: 1, Epsilon2: 0.1, Delta1: 1e-3, Delta2: 1e-3, Delta3: 1e-3, Delta4: 1e-3, Tau: 1e-3, Eta: 0.1}, false),
		"Utility.Bound":       call(qop.Utility.Bound, qop.Utility{Records: 10, Dim: 2, Radius: 1, RegLipschitz: 1, Constants: q.Constants}, b),
	})
}

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
	paper := lasso.PublishedParameters()
	e, err := paper.Experiment(in)
	if err != nil {
		t.Fatal(err)
	}
	src := func() rand.Source { return fixed() }
	problem := func() io.Reader { return strings.NewReader("x,y\n1,2\n3,4\n") }
	vector := func() io.Reader { return strings.NewReader("x\n1\n") }
	everyInput(t, "lasso", map[string]row{
		"Generate":             call(lasso.Generate, spec, src),
		"Read":                 call(lasso.Read, problem, vector, 1.),
		"ReadVector":           call(lasso.ReadVector, vector, 1),
		"Problem":              call(func(lambda, kappa float64) bool { return lasso.Problem(data, lambda, kappa).Check() == nil }, 1., 1.),
		"Instance.Data":        call(in.Data, 1.),
		"Instance.Dims":        call(in.Dims),
		"Instance.Risk":        call(in.Risk, []float64{1, 2}).mayBeNaN(),
		"Formula.Constants":    call(lasso.Formula.Constants, lasso.Formula{D: 2, M: 5, Rho: 1, L: 1, Eps1: 1, Delta1: 0.01, Delta3: 0.01, Tau: 1e-3, Eta: 0.1, Eps2: 0.1, Delta2: 0.01, Delta4: 0.01}),
		"PublishedParameters":  call(lasso.PublishedParameters),
		"Paper.Experiment":     call(func(p lasso.Paper) (bool, error) { e, err := p.Experiment(in); return e != nil, err }, paper),
		"Experiment.Dof":       call(e.Dof),
		"Experiment.L":         call(e.L),
		"Experiment.Linear":    call(e.Linear, lasso.LOP, 1.).mayBeNaN(),
		"Experiment.Omega":     call(e.Omega, 1.).mayBeNaN(),
		"Experiment.Quadratic": call(e.Quadratic),
		"Experiment.Solve":     call(e.Solve, background, lasso.LOP, 1., src).keep(0, 1),
	})
}

func TestEveryInputTable(t *testing.T) {
	const people = `{"schema": 1, "label": {"column": "y", "min": 0, "max": 1}, "columns": [{"name": "x", "min": 0, "max": 2}, {"name": "c", "levels": ["a"], "other": true}]}`
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
		"Encoder.Sparse":       call(e.Sparse),
		"Encoder.LabelText":    call(e.LabelText, 0.5),
		"Encoder.LabelValue":   call(e.LabelValue, 0.5).mayBeNaN(),
		"Encoder.Coefficients": call(e.Coefficients, []float64{1, 2, 3}).mayBeNaN(),
		"Rows.Next":            call(func() bool { return rows().Next() }),
		"Rows.Err":             call(func() error { return rows().Err() }),
		"Rows.Line":            call(func() int { return rows().Line() }),
		"Rows.Row":             call(func() []float64 { _, val := rows().Row(); return val }),
		"Rows.Label":           call(func() float64 { return rows().Label() }),
		"Rows.Labeled":         call(func() bool { return rows().Labeled() }),
		"Numeric.ReadCSV":      call(table.Numeric.ReadCSV, table.Numeric{Bounds: unit, Header: true}, numbers),
		"Numeric.ReadLIBSVM":   call(table.Numeric.ReadLIBSVM, table.Numeric{Bounds: unit}, func() io.Reader { return strings.NewReader("1 1:2\n") }, 2),
		"Drafting.Draft":       call(table.Drafting.Draft, table.Drafting{Label: "y"}, numbers),
	})
}
