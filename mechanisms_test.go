// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/sco"
)

// release is a fit of a plan to its problem.
type release func(ctx context.Context, src rand.Source) (*dp.Release, error)

// planner and its plans are what all mechanisms have in common.
type planner[P any, L any] interface {
	Plan(P, dp.Budget) (L, error)
}

type fitter[P any] interface {
	Fit(context.Context, P, rand.Source) (*dp.Release, error)
}

// mechanism is a row of the table that every attack runs over.
type mechanism struct {
	name string
	rel  dp.Relation
	pure bool
	// around says that noise is added to the minimizer alone and hides how far those of
	// neighbors are apart.
	around bool
	// covered says that a release is P_C of a point of the plan's grid, near a minimizer
	// that trace is told.
	covered bool
	open    func(p *erm.Problem, b dp.Budget, trace func(erm.Trace)) (plan any, fit release, err error)
}

// shared holds plans that several tests use, by what they were made from.
var shared sync.Map

// madeFrom names what a plan for p is made from, which is public; "" if p has parts of a caller, or
// if the plan holds a trace of one test.
func madeFrom(m, p any, b dp.Budget) string {
	q, ok := p.(*erm.Problem)
	v := reflect.ValueOf(m).Elem()
	if trace := v.FieldByName("Trace"); !ok || trace.IsValid() && !trace.IsNil() {
		return ""
	}
	known, err := q.Public(v.FieldByName("Relation").Interface().(dp.Relation))
	if err != nil || len(known.Assumptions) > 0 {
		return ""
	}
	return fmt.Sprintf("%T%+v | %+v | %T%+v | %T%+v | %T%+v | %v", m, v, known, q.Loss, q.Loss, q.Reg, q.Reg, q.Set,
		q.Set, b)
}

// opened plans, or takes the plan of an earlier test for the same public quantities.
func opened[P any, L fitter[P]](m planner[P, L], p P, b dp.Budget) (any, release, error) {
	var plan L
	key := madeFrom(m, p, b)
	if old, ok := shared.Load(key); ok && key != "" {
		plan = old.(L)
	} else {
		var err error
		if plan, err = m.Plan(p, b); err != nil {
			return nil, nil, err
		}
		shared.Store(key, plan)
	}
	return plan, func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// halfspaces reads a problem as one of package objpert: features in tenths, labels by sign.
func halfspaces(p *erm.Problem, space objpert.Space) (*objpert.Problem, error) {
	n, d := p.Data.Dims()
	if n == 0 {
		return objpert.Empty(d, space)
	}
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i], labels[i] = make([]int64, d), 1
		for j, v := range p.Data.Row(i) {
			rows[i][j] = int64(math.Round(10 * v))
		}
		if p.Data.Label(i) < 0 {
			labels[i] = -1
		}
	}
	return objpert.NewProblem(rows, labels, nil, space)
}

func discrete[L fitter[*objpert.Problem]](
	m planner[*objpert.Problem, L], space objpert.Space, p *erm.Problem, b dp.Budget,
) (any, release, error) {
	q, err := halfspaces(p, space)
	if err != nil {
		return nil, nil, err
	}
	return opened(m, q, b)
}

// twofold makes every record the two lines of a person.
func twofold(p *erm.Problem) (*erm.Problem, error) {
	n, d := p.Data.Dims()
	b, err := erm.NewBuilder(d, true, p.Data.Bounds())
	if err != nil {
		return nil, err
	}
	for i := range 2 * n {
		b.Add(p.Data.Row(i/2), p.Data.Label(i/2))
		b.ID(fmt.Sprint("person ", i/2))
	}
	q := *p
	q.Data, err = b.ByPerson(context.Background(), erm.Persons{Rows: 3})
	return &q, err
}

// ternary is {−1,0,1}ᵈ.
var ternary = objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}

type tracing = func(erm.Trace)

// mechanisms is the table of all mechanisms of the module but objpert.OPSamp, which minimizes by an
// oracle of the caller: tests of objpert and the audit attack it. Cover 1e-8 keeps the steps of
// the grid of a release below 2⁵³, so that the attacks see all of their digits; 0 is the
// default.
func mechanisms(cover float64) []mechanism {
	var list []mechanism
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		add := func(name string, covered, pure bool, open func(*erm.Problem, dp.Budget, tracing) (any, release, error)) {
			around := strings.Contains(name, "Output")
			list = append(list, mechanism{fmt.Sprintf("%s, %v", name, rel), rel, pure, around, covered, open})
		}
		both := func(name string, open func(*erm.Problem, dp.Budget, tracing) (any, release, error)) {
			add(name, true, false, open)
			add(name+", pure", true, true, func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
				return open(p, dp.Budget{Epsilon: b.Epsilon}, t)
			})
		}
		both("lop", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&lop.Mechanism{Relation: rel, Radius: 1, Cover: cover, Trace: t}, p, b)
		})
		both("lop.Clip", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&lop.Mechanism{Relation: rel, Radius: 1, Clip: 0.5, Cover: cover, Trace: t}, p, b)
		})
		both("lop.Center", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			_, d := p.Data.Dims()
			center := make([]float64, d)
			center[0] = 0.7
			return opened(&lop.Mechanism{Relation: rel, Center: center, Radius: 1, Clip: 0.5, Cover: cover, Trace: t}, p, b)
		})
		both("lop of persons", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			p, err := twofold(p)
			if err != nil {
				return nil, nil, err
			}
			return opened(&lop.Mechanism{Relation: rel, Radius: 1, Cover: cover, Trace: t}, p, b)
		})
		both("lop.Output", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&lop.Output{Relation: rel, Radius: 1, Trace: t}, p, b)
		})
		both("sco.ObjPert", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&sco.ObjPert{Relation: rel, Radius: 1, Cover: cover, Trace: t}, p, b)
		})
		both("sco.Output", func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&sco.Output{Relation: rel, Radius: 1, Trace: t}, p, b)
		})
		add("qop", true, false, func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			_, d := p.Data.Dims()
			return opened(&qop.Mechanism{Relation: rel, Center: make([]float64, d), Interpolation: qop.Relabel{}, Trace: t}, p,
				b)
		})
		add("qop.Tilt", true, false, func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			_, d := p.Data.Dims()
			return opened(&qop.Mechanism{Relation: rel, Center: make([]float64, d), Interpolation: qop.Tilt{Clip: 0.5},
				Degrees: float64(d + 14), Share: 0.3, Trace: t}, p, b) // the search for these takes seconds
		})
		add("sco.NoisySGD", false, false, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return opened(&sco.NoisySGD{Relation: rel, Radius: 1, Batch: 50, Steps: 4, StepSize: 0.1}, p, b)
		})
		add("sco.ProxGD", false, false, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			sgd := sco.NoisySGD{Relation: rel, Radius: 1, Batch: 50, Steps: 4, StepSize: 0.1}
			return opened(&sco.ProxGD{NoisySGD: sgd}, p, b)
		})
		add("sco.DPSGD", false, false, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return opened(&sco.DPSGD{Relation: rel, Epochs: 1, Batch: 50, StepSize: 0.1, Clip: 0.5}, p, b)
		})
		add("objpert.Product", false, true, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return discrete(&objpert.Product{Relation: rel}, ternary, p, dp.Budget{Epsilon: b.Epsilon})
		})
		add("objpert.RSPM", false, true, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return discrete(&objpert.RSPM{Relation: rel}, ternary, p, dp.Budget{Epsilon: b.Epsilon})
		})
		add("objpert.Exponential", false, false, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return discrete(&objpert.Exponential{Relation: rel}, ternary, p, b)
		})
		add("objpert.OPDisc", false, false, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return discrete(&objpert.OPDisc{Relation: rel, Law: objpert.Gaussian}, objpert.Lattice(2), p, b)
		})
		add("objpert.SampleAndAggregate", false, true, func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) {
			return discrete(&objpert.SampleAndAggregate{Relation: rel, Blocks: 3}, ternary, p, dp.Budget{Epsilon: b.Epsilon})
		})
	}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		list = append(list, mechanism{fmt.Sprintf("model.score, %v", rel), rel, false, false, false,
			func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) { return scored(p, b, rel, false) }})
		list = append(list, mechanism{fmt.Sprintf("model.score of persons, %v", rel), rel, false, false, false,
			func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) { return scored(p, b, rel, true) }})
		list = append(list, sequences(rel)...)
		list = append(list, points(rel)...)
	}
	return append(list, mechanism{"sco.ObjPertSVRG", dp.Replace, false, false, true,
		func(p *erm.Problem, b dp.Budget, t tracing) (any, release, error) {
			return opened(&sco.ObjPert{Radius: 1, Cover: cover, Trace: t, SVRG: true}, p, b)
		}})
}

// often is the number of releases or settings of an attack.
func often() int {
	if testkit.Deep() {
		return 100_000
	}
	return testkit.Of(400, 1000)
}

// records returns n random records with labels ±1, of which the last has the given label.
func records(t testing.TB, n, d int, last float64, l loss.Loss, bounds loss.Bounds) *erm.Problem {
	rnd := rand.New(noise.Reproducible(uint64(d), "records"))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = rnd.NormFloat64()
		}
		labels[i] = float64(1 - 2*rnd.IntN(2))
	}
	if n > 0 {
		labels[n-1] = last
	}
	return made(t, rows, labels, d, l, bounds)
}

// made returns the problem of some records, which need not be in their bounds.
func made(t testing.TB, rows [][]float64, labels []float64, d int, l loss.Loss, bounds loss.Bounds) *erm.Problem {
	data, err := erm.Empty(d, bounds)
	if len(rows) > 0 {
		data, err = erm.NewData(rows, labels, bounds)
	}
	require.NoError(t, err)
	return &erm.Problem{Data: data, Loss: l, Records: max(len(rows), 1)}
}

// smooth is a loss that the mechanism admits.
func (m mechanism) smooth() loss.Loss {
	switch m.name[:3] {
	case "qop":
		return loss.Squared{}
	}
	return loss.Logistic{}
}

// number returns a field of the Params of a plan, 0 if it has none of that name.
func number(plan any, field string) float64 {
	params := reflect.ValueOf(plan).MethodByName("Params")
	if !params.IsValid() {
		return 0
	}
	v := params.Call(nil)[0].FieldByName(field)
	if !v.IsValid() {
		return 0
	}
	return v.Float()
}

// TestReachable: whoever knows the points c and c′ that the noise is added to on two
// neighbors asks of a release whether it lies at a distance from them that the noise can
// have. For steps of the grid the answers agree on every release. For sums of floats they
// name the wrong data set as often as ε allows; where floats were added, as in earlier
// versions, they name the right one and never the other. The
// residues of the steps are uniform. Stochastic gradients have the attack in package sco.
func TestReachable(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, m := range mechanisms(1e-8) {
		if !m.covered {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			for _, d := range testkit.Of([]int{1, 20}, []int{1, 5, 20}) {
				var theta [2][]float64
				var fits [2]release
				var plan any
				for i, label := range []float64{1, -1} {
					var err error
					plan, fits[i], err = m.open(records(t, 200, d, label, m.smooth(), unit), b,
						func(tr erm.Trace) { theta[i] = tr.Theta })
					require.NoError(t, err)
				}
				g, sigma := number(plan, "Grid"), number(plan, "OutputSigma")
				require.Positive(t, g)
				onGrid := func(c, r float64) bool {
					k := (r - g*math.RoundToEven(c/g)) / g
					return k == math.RoundToEven(k)
				}
				separated, right, wrong, runs := 0, 0.0, 0.0, max(20, often()/3/d)
				var odds [8]int
				nu, old := make([]float64, d), make([]float64, d)
				for seed := range runs {
					var rel [2]*dp.Release
					for i, fit := range fits {
						var err error
						rel[i], err = fit(t.Context(), noise.Reproducible(uint64(seed), "reach"))
						require.NoError(t, err)
					}
					for i, r := range rel {
						require.True(t, testkit.Reaches(theta[0], r.Theta, onGrid) && testkit.Reaches(theta[1], r.Theta, onGrid))
						own, other := testkit.Reaches(theta[i], r.Theta, testkit.Sums), testkit.Reaches(theta[1-i], r.Theta, testkit.Sums)
						if m.around && own != other {
							if own {
								right++
							} else {
								wrong++
							}
						}
						for _, x := range r.Theta {
							k := int64(x / g)
							odds[k&7]++
						}
					}
					if !m.around || m.pure {
						continue
					}
					noise.Normal(nu, sigma, noise.Reproducible(uint64(seed), "float"))
					for j, v := range nu {
						old[j] = theta[0][j] + v
					}
					require.True(t, testkit.Reaches(theta[0], old, testkit.Sums))
					if !testkit.Reaches(theta[1], old, testkit.Sums) {
						separated++
					}
				}
				require.LessOrEqual(t, right, math.E*wrong+6*math.Sqrt(1+right), "a sum of floats names the data set")
				if uniform(t, odds[:]); d == 20 && m.around && !m.pure {
					require.Greater(t, separated, runs/2, "the control: the attack works on sums of floats")
				}
			}
		})
	}
}

// uniform tests counts of residues modulo 8, 4 and 2 by χ², with a probability of 1e-7 to
// reject what is uniform.
func uniform(t *testing.T, counts []int) {
	t.Helper()
	for ; len(counts) > 1; counts = fold(counts) {
		total, square := 0.0, 0.0
		for _, c := range counts {
			total += float64(c)
			square += float64(c) * float64(c)
		}
		k := float64(len(counts))
		require.Greater(t, num.Chi2SF(square*k/total-total, k-1), 1e-7, "%v", counts)
	}
}

// fold adds up residues that are equal modulo half as much.
func fold(counts []int) []int {
	half := make([]int, len(counts)/2)
	for i, c := range counts {
		half[i%len(half)] += c
	}
	return half
}

// outcome says how a fit ended, without what the records decide.
func outcome(_ *dp.Release, err error) string {
	if err != nil {
		return err.Error()
	}
	return "released"
}

// TestTotal: on adversarial settings the error of a mechanism is the same for both
// neighbors, and no convex mechanism withholds a release.
func TestTotal(t *testing.T) {
	all, runs := mechanisms(0), testkit.Of(90, 180)
	if testkit.Deep() {
		runs = often()
	}
	rnd := rand.New(noise.Reproducible(1, "total"))
	size := func() float64 { return math.Pow(10, 12*rnd.Float64()-6) }
	released := 0
	for run := range runs {
		m := all[rnd.IntN(len(all))]
		if m.name[:3] == "obj" {
			continue
		}
		bounds := loss.Bounds{Row: size(), Label: size()}
		l := []loss.Loss{
			loss.Logistic{}, loss.Huber{Delta: size()}, loss.SmoothedHinge{Gamma: size()}, loss.Hinge{}, loss.Absolute{},
			loss.Squared{}, loss.Moreau{Loss: loss.Hinge{}, Beta: size()}, loss.Moreau{Loss: loss.Absolute{}, Beta: size()},
		}[rnd.IntN(8)]
		d, n := 1+rnd.IntN(3), 1+rnd.IntN(12)
		rows, labels := make([][]float64, n+1), make([]float64, n+1)
		for i := range rows {
			rows[i] = make([]float64, d)
			for j := range rows[i] {
				rows[i][j] = bounds.Row * rnd.NormFloat64()
			}
			labels[i] = bounds.Label * float64(1-2*rnd.IntN(2))
		}
		var p [2]*erm.Problem
		for i := range p { // the last record of one is the last but one of the other, or missing
			last := n - 1 + i
			if m.rel == dp.AddRemove {
				last = n - i
			}
			keep := append(append([][]float64(nil), rows[:n-1]...), rows[last])
			tags := append(append([]float64(nil), labels[:n-1]...), labels[last])
			if m.rel == dp.AddRemove && i == 1 {
				keep, tags = keep[:n-1], tags[:n-1]
			}
			p[i] = made(t, keep, tags, d, l, bounds)
			p[i].Records = n
		}
		b := dp.Budget{Epsilon: math.Pow(10, 2*rnd.Float64()-1), Delta: math.Pow(10, -1-7*rnd.Float64())}
		var reg prox.Operator
		var set prox.Set
		switch rnd.IntN(4) {
		case 0:
			set = prox.L2Ball{R: size()}
		case 1:
			set = prox.Box{Lo: -size(), Hi: size()}
		case 2:
			reg = prox.L1{Weight: size()}
		}
		var out [2]string
		for i := range p {
			p[i].Reg, p[i].Set = reg, set
			_, fit, err := m.open(p[i], b, nil)
			if err == nil {
				var rel *dp.Release
				rel, err = fit(t.Context(), noise.Reproducible(uint64(run), "total"))
				if err == nil {
					released++
					for _, x := range rel.Theta {
						require.False(t, math.IsNaN(x) || math.IsInf(x, 0))
					}
				}
			}
			require.NotErrorIs(t, err, dp.ErrWithheld, "%s, %T %+v, %+v", m.name, l, l, bounds)
			out[i] = outcome(nil, err)
		}
		require.Equal(t, out[0], out[1], "%s, %T %+v, %+v", m.name, l, l, bounds)
	}
	require.Greater(t, released, runs/4)
}

// TestHostileRecords: whatever stands in one record, a mechanism releases, or says of
// every data set what it says of this one.
func TestHostileRecords(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	nan, inf := math.NaN(), math.Inf(1)
	base := [][]float64{{0.5, 0.2}, {-0.3, 0.6}, {0.1, 0.1}, {0.5, 0.2}, {0, -0.9}, {0.3, 0.3}}
	labels := []float64{1, -1, 1, 1, -1, 1}
	for _, m := range mechanisms(1e-8) {
		run := func(rows [][]float64, labels []float64) string {
			p := made(t, rows, labels, 2, m.smooth(), unit)
			p.Records = 7
			_, fit, err := m.open(p, b, nil)
			if err != nil {
				return err.Error()
			}
			return outcome(fit(t.Context(), noise.Reproducible(3)))
		}
		last := func(row []float64, label float64) string {
			return run(append(base[:len(base):len(base)], row), append(labels[:len(labels):len(labels)], label))
		}
		want := last([]float64{0.4, 0.4}, 1)
		require.Equal(t, "released", want, m.name)
		for i, row := range testkit.Every(2, [][]float64{{nan, 0}, {inf, 1}, {-inf, nan}, {0, 0}, {1e308, 1e308}, {5e-324, 0},
			{0.5, 0.2}, {math.Copysign(0, -1), -1}}) {
			for k, label := range testkit.Every(6, []float64{nan, inf, -inf, 0, 1e308, -1, 5e-324}) {
				if !testkit.Long() && (i+k)%2 == 0 { // usually one label for each row: nan for {-inf, nan} and {0.5, 0.2}
					continue
				}
				require.Equal(t, want, last(row, label), "%s: %v, %v", m.name, row, label)
			}
		}
		if m.rel == dp.AddRemove {
			require.Equal(t, run(nil, nil), run(base[:1], labels[:1]), "%s: no record or one", m.name)
		}
	}
}

// stuck is a source that repeats itself.
type stuck uint64

func (s stuck) Uint64() uint64 { return uint64(s) }

// TestRepeatedSource: a source that gives no noise is an error, never a panic.
func TestRepeatedSource(t *testing.T) {
	for _, m := range mechanisms(1e-8) {
		_, fit, err := m.open(records(t, 60, 2, 1, m.smooth(), unit), dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
		require.NoError(t, err, m.name)
		for _, word := range []stuck{0, math.MaxUint64, 1, 1 << 63, 0x5555555555555555} {
			require.NotPanics(t, func() {
				_, err := fit(t.Context(), word)
				require.Error(t, err, "%s: %x", m.name, word)
				require.True(t, errors.Is(err, noise.ErrSource), "%s: %v", m.name, err)
			}, "%s: %x", m.name, word)
		}
	}
}

// forged embeds a plan and states a profile of its own.
type forged struct{ dp.Plan }

func (forged) Profile() dp.Profile { return dp.Budget{Epsilon: 1e-3}.Profile() }

// A plan that only embeds one of this module is listed where its profile is used.
func TestForeignPlanIsListed(t *testing.T) {
	for _, m := range mechanisms(1e-8) {
		plan, _, err := m.open(records(t, 60, 2, 1, m.smooth(), unit), dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
		require.NoError(t, err, m.name)
		own := plan.(dp.Plan)
		require.Empty(t, dp.Declared(own), m.name)
		for _, p := range testkit.Every(3, []dp.Plan{forged{own}, &forged{own}, struct{ dp.Plan }{own}}) {
			c, err := dp.Compose(1e-5, p, p)
			require.NoError(t, err, m.name)
			require.Contains(t, c.Assumptions, dp.DeclaredPlan, m.name)
			l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger"), ledger.Terms{Total: dp.Budget{Epsilon: 9, Delta: 0.1},
				Relation: m.rel, Persons: own.Certificate().Rows > 0})
			require.NoError(t, err)
			e, err := l.Spend(t.Context(), p, nil)
			require.NoError(t, err, m.name)
			require.Contains(t, e.Assumptions, dp.DeclaredPlan, m.name)
		}
		c, err := dp.Compose(1e-5, own)
		require.NoError(t, err, m.name)
		require.NotContains(t, c.Assumptions, dp.DeclaredPlan, m.name)
	}
}
