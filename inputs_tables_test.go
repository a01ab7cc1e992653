// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/randmat"
)

var testRoot = os.DirFS(".")

// zeros is a source of records of nothing but zeros.
type zeros struct{}

func (zeros) Dims() (records, features int) { return 3, 2 }

func (zeros) ReadIDs(_ context.Context, ids []string, _ int) error { clear(ids); return nil }

func (zeros) Read(_ context.Context, rows, labels []float64, _ int) error {
	clear(rows) // memory that was in use before
	clear(labels)
	return nil
}

// alone is a source of persons of one line each.
type alone struct{ zeros }

func (alone) Read(_ context.Context, rows, labels []float64, _ int) error {
	for i := range labels {
		rows[2*i] = 1
	}
	return nil
}

// asking is a Remote that keeps what it was asked, and the answer.
type asking struct {
	zeros
	q   erm.Query
	sum *erm.Sums
}

func (a *asking) Sum(ctx context.Context, q *erm.Query) (sums *erm.Sums, err error) {
	a.q = *q
	a.sum, err = q.Sum(ctx, a.zeros, 0, 3, 1)
	return a.sum, err
}

// budgeted is a plan of which nothing is known but its budget.
type budgeted struct{ dp.Budget }

func (p budgeted) Certificate() dp.Certificate {
	return dp.Certificate{Budget: p.Budget, Relation: dp.Replace, Theorem: "x"}
}

func TestEveryInputDP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	c := dp.Certificate{Budget: b, Relation: dp.Replace, Theorem: "x"}
	poisson := dp.Sampler{Rate: 0.1}
	family := func(s float64) dp.Curve { return dp.GaussianCurve(s) }
	everyInput(t, "dp", map[string]row{
		"Budget.Check":   call(dp.Budget.Check, b),
		"Budget.Profile": call(func(b dp.Budget, eps float64) float64 { return b.Profile().Delta(eps) }, b, 1.),
		// of checked budgets and shares only, see TestSplitAndComposeRound
		"Budget.Split":      call(dp.Budget.Split, b, 0.01).keep(0, 1),
		"Relation.Check":    call(dp.Relation.Check, dp.Replace),
		"Certificate.Check": call(dp.Certificate.Check, c),
		"Certificate.With": call(func(c dp.Certificate, a dp.Assumption) int { return len(c.With(a).Assumptions) }, c,
			dp.CallerSource),
		"Basic":    call(dp.Basic, c, c),
		"Seeded":   call(func(label string) uint64 { return dp.Seeded(1, label).Uint64() }, "a"),
		"Declared": call(func(b dp.Budget) int { return len(dp.Declared(budgeted{b})) }, b),
		"Compose": call(func(delta float64, b dp.Budget) (dp.Certificate, error) {
			return dp.Compose(delta, budgeted{b}, budgeted{b})
		}, 1e-5, b),
		"Calibrate":         call(func(b dp.Budget) (float64, error) { return dp.Calibrate(family, b) }, b),
		"Sampler.Check":     call(dp.Sampler.Check, poisson),
		"Sampler.Neighbors": call(dp.Sampler.Neighbors, poisson),
		"Sampler.Fraction":  call(dp.Sampler.Fraction, poisson).mayBeNaN(),
		"Sampler.Profile": call(func(s dp.Sampler, noise float64, steps int, eps float64) (float64, error) {
			p, err := s.Profile(noise, steps)
			return p.Delta(eps), err
		}, poisson, 1., 2, 1.),
		"Sampler.Epsilon": call(dp.Sampler.Epsilon, poisson, 1., 2, 1e-6),
		"Sampler.Noise":   call(dp.Sampler.Noise, poisson, 2, b).slow(),
		"Sampler.Batches": call(func(s dp.Sampler, records int, src rand.Source) int {
			return len(s.Batches(records, src)())
		}, dp.Sampler{Size: 5, Records: 10}, 10, source),
		"GaussianDelta":    call(dp.GaussianDelta, 1., 1.),
		"GaussianLogDelta": call(dp.GaussianLogDelta, 1., 1.),
		"GaussianSigma":    call(dp.GaussianSigma, b, 1.),
		"GaussianCurve":    call(func(s, eps float64) float64 { return dp.GaussianCurve(s)(eps) }, 1., 1.),
		"PureCurve":        call(func(e, eps float64) float64 { return dp.PureCurve(e)(eps) }, 1., 1.),
		"RangeCurve":       call(func(e, eps float64) float64 { return dp.RangeCurve(e)(eps) }, 1., 1.),
		"Curve.Epsilon":    call(func(s, delta float64) float64 { return dp.GaussianCurve(s).Epsilon(delta) }, 1., 1e-6),
		"Profile.Epsilon": call(func(s, delta float64) float64 {
			return dp.Symmetric(dp.GaussianCurve(s),
				nil).Epsilon(delta)
		}, 1., 1e-6),
		"Profile.Delta": call(func(s, eps float64) float64 { return dp.Symmetric(dp.GaussianCurve(s), nil).Delta(eps) },
			1., 1.),
		"Symmetric": call(func(s, eps float64) float64 { return dp.Symmetric(dp.GaussianCurve(s), nil).Remove(eps) },
			1., 1.),
		"Unknown":         call(func(eps float64) float64 { return dp.Unknown().Delta(eps) }, 1.),
		"GaussianProfile": call(func(s, eps float64) float64 { return dp.GaussianProfile(s).Remove(eps) }, 1., 1.),
		"GaussianRDP":     call(func(s, a float64) float64 { return dp.GaussianRDP(s)(a) }, 1., 2.),
		"PureRDP":         call(func(s, a float64) float64 { return dp.PureRDP(s)(a) }, 1., 2.),
		"RangeRDP":        call(func(s, a float64) float64 { return dp.RangeRDP(s)(a) }, 1., 2.),
		"RDP.Epsilon": call(func(s, delta, order float64) float64 {
			eps, _ := dp.GaussianRDP(s).Epsilon(delta, order)
			return eps
		}, 1., 1e-6, 2.),
		"RDP.Curve": call(func(s, eps, order float64) float64 { return dp.GaussianRDP(s).Curve(order)(eps) }, 1., 1., 2.),
	})
}

func TestEveryInputNoise(t *testing.T) {
	src := func() rand.Source { return fixed() }
	x, k := []float64{0, 0, 0}, []int64{0, 0, 0}
	everyInput(t, "internal/noise", map[string]row{
		"Secure":       call(func() uint64 { return noise.Secure().Uint64() }),
		"Reproducible": call(func(label string) uint64 { return noise.Reproducible(1, label).Uint64() }, "a"),
		"Exponential":  call(noise.Exponential, src),
		"Normal": call(func(x []float64, s float64, r rand.Source) []float64 { noise.Normal(x, s, r); return x }, x,
			1., src).keep(0, 2),
		"Normals":    call(func(x []float64, r rand.Source) []float64 { noise.Normals(x, r); return x }, x, src).keep(0, 1),
		"ChiSquared": call(noise.ChiSquared, 20, src),
		"Grid": call(func(x []int64, s float64, e int, r rand.Source) []int64 { noise.Grid(x, s, e, r); return x }, k, 1., 2,
			src).keep(0, 3),
		"LaplaceGrid": call(func(x []int64, s float64, e int, r rand.Source) []int64 {
			noise.LaplaceGrid(x, s, e, r)
			return x
		}, k, 1., 2, src).keep(0, 3),
		"RadialGrid": call(func(x []int64, s float64, e int, r rand.Source) []int64 {
			noise.RadialGrid(x, s, e, r)
			return x
		}, k, 1., 2, src).keep(0, 3),
		"Gap": call(noise.Gap, 3., src),
		// a source has to be there
		"Watch": call(func(r rand.Source) error { return noise.Watch(r).Err() }, src).keep(0),
		// a source has to be there
		"Watched.Err":     call(func(r rand.Source) error { return noise.Watch(r).Err() }, src).keep(0),
		"Watched.Uint64":  call(func(r rand.Source) uint64 { return noise.Watch(r).Uint64() }, src),
		"Below":           call(noise.Below, uint64(3), src),
		"NewLevels":       call(noise.NewLevels, []int64{0, 2}, []uint64{3, 1}, 1.).sharing(),
		"Levels.Draw":     call(noise.NewLevels([]int64{0, 2}, []uint64{3, 1}, 1).Draw, src).keep(0), // of a source
		"Geometric":       call(noise.Geometric, uint64(3), src),
		"DiscreteLaplace": call(noise.DiscreteLaplace, uint64(3), src),
	})
}

func TestEveryInputRandmat(t *testing.T) {
	src := func() rand.Source { return fixed() }
	m := func() *mat.SymDense { return mat.NewSymDense(2, []float64{2, 1, 1, 3}) }
	law := randmat.MinEigenvalueLaw{Dim: 2, Dof: 5}
	everyInput(t, "randmat", map[string]row{
		"MinEigenvalueLaw.Check":       call(randmat.MinEigenvalueLaw.Check, law),
		"MinEigenvalueLaw.LogCDF":      call(randmat.MinEigenvalueLaw.LogCDF, law, 1.),
		"MinEigenvalueLaw.LogQuantile": call(randmat.MinEigenvalueLaw.LogQuantile, law, -1.),
		"EdelmanLogCDF":                call(randmat.EdelmanLogCDF, 2, 5., 1.),
		"MinEig":                       call(randmat.MinEig, m),
		"MinEigAbove":                  call(randmat.MinEigAbove, m, 0.1),
		"MaxEig":                       call(randmat.MaxEig, m),
		"RitzMax":                      call(randmat.RitzMax, m),
		"Wishart":                      call(randmat.Wishart, m, 5., src),
		"WishartError":                 call(randmat.WishartError, 2, 1.),
	})
}

// abilities adds rows of what l may be able to do.
func abilities(table map[string]row, name string, l loss.Loss) {
	bounds := loss.Bounds{Row: 1, Label: 1}
	if a, ok := l.(loss.Envelope); ok {
		table[name+".Envelope"] = call(a.Envelope, bounds, 0., 0.5).keep(0, 1, 2) // of checked bounds and norms
	}
	if a, ok := l.(interface {
		CheckData(dim int, bounds loss.Bounds) error
	}); ok {
		table[name+".CheckData"] = call(a.CheckData, 2, bounds)
	}
}

func TestEveryInputLoss(t *testing.T) {
	bounds := loss.Bounds{Row: 1, Label: 1}
	theta, a, g := []float64{0.5, 1}, []float64{0.6, 0.8}, []float64{0, 0}
	table := map[string]row{
		"Bounds.Check": call(loss.Bounds.Check, bounds),
		"Check":        call(loss.Check, loss.Loss(loss.Huber{Delta: 1})).keep(0),
		"NewClipped":   call(loss.NewClipped, loss.Loss(loss.Squared{}), 1.),
	}
	clipped, err := loss.NewClipped(loss.Huber{Delta: 1}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]loss.Linear{"Squared": loss.Squared{}, "Logistic": loss.Logistic{},
		"Huber":         loss.Huber{Delta: 1},
		"SmoothedHinge": loss.SmoothedHinge{Gamma: 0.5}, "Clipped": clipped,
		"Hinge": loss.Hinge{}, "Absolute": loss.Absolute{}, "Pinball": loss.Pinball{Tau: 0.3},
		"EpsilonInsensitive": loss.EpsilonInsensitive{Epsilon: 0.1}, "Moreau": loss.Moreau{Loss: loss.Hinge{}, Beta: 2},
		"PseudoHuber": loss.PseudoHuber{Delta: 1}, "LogCosh": loss.LogCosh{Delta: 1}, "RootHinge": loss.RootHinge{Width: 1},
		"SoftClipped": loss.SoftClipped{Threshold: 1}} {
		// NaN and infinite θ give NaN, which solvers see; constants never do.
		table[name+".Func"] = call(l.Func, theta, a, 1.).mayBeNaN()
		table[name+".Grad"] = call(l.Grad, g, theta, a, 1.).mayBeNaN()
		table[name+".Scalar"] = call(l.Scalar, 0.5, 1., 1.).mayBeNaN()
		table[name+".Constants"] = call(l.Constants, bounds, 1.)
		if c, ok := l.(interface{ Check() error }); ok {
			table[name+".Check"] = call(c.Check)
		}
		if c, ok := l.(loss.Clippable); ok {
			table[name+".ClipPoints"] = call(c.ClipPoints, 1., 0.5).mayBeNaN()
		}
		abilities(table, name, l)
		if i, ok := l.(loss.Interpolator); ok {
			table[name+".Interpolate"] = call(i.Interpolate, 0.5, 1.).mayBeNaN()
		}
	}
	table["Huber.Check"] = call(loss.Huber.Check, loss.Huber{Delta: 1})
	table["SmoothedHinge.Check"] = call(loss.SmoothedHinge.Check, loss.SmoothedHinge{Gamma: 1})
	table["Huber.Constants"] = call(loss.Huber.Constants, loss.Huber{Delta: 1}, bounds, 1.)
	table["SmoothedHinge.Constants"] = call(loss.SmoothedHinge.Constants, loss.SmoothedHinge{Gamma: 1}, bounds, 1.)
	for name, l := range map[string]interface {
		ProxSlope(u, b, kappa float64) (g, dg float64)
	}{"Hinge": loss.Hinge{}, "Absolute": loss.Absolute{}, "Pinball": loss.Pinball{Tau: 0.3},
		"EpsilonInsensitive": loss.EpsilonInsensitive{Epsilon: 0.1}} {
		table[name+".ProxSlope"] = call(l.ProxSlope, 0.5, 1., 1.).mayBeNaN()
	}
	multinomial := loss.Multinomial{Classes: 2}
	table["Multinomial.Func"] = call(multinomial.Func, theta, a, 1.).mayBeNaN()
	table["Multinomial.Grad"] = call(multinomial.Grad, g, theta, a, 1.).mayBeNaN()
	table["Multinomial.Constants"] = call(loss.Multinomial.Constants, multinomial, bounds, 1.)
	table["Multinomial.Check"] = call(loss.Multinomial.Check, multinomial)
	abilities(table, "Multinomial", multinomial)
	table["CheckData"] = call(loss.CheckData, loss.Loss(loss.Logistic{}), 2, bounds).keep(0)
	table["Exact"] = call(func(l loss.Loss, u, ul, b, norm float64) (hi, lo, err float64) {
		return loss.Exact(l)(u, ul, b,
			norm)
	},
		loss.Loss(loss.Logistic{}), 0.5, 0., 1., 1.).keep(0).mayBeNaN() // of finite predictions, normalized
	table["Proved"] = call(loss.Proved, loss.Loss(loss.Logistic{}))
	table["Pinball.Check"] = call(loss.Pinball.Check, loss.Pinball{Tau: 0.5})
	table["Pinball.Constants"] = call(loss.Pinball.Constants, loss.Pinball{Tau: 0.5}, bounds, 1.)
	table["EpsilonInsensitive.Check"] = call(loss.EpsilonInsensitive.Check, loss.EpsilonInsensitive{Epsilon: 1})
	table["Moreau.Check"] = call(loss.Moreau.Check, loss.Moreau{Loss: loss.Hinge{}, Beta: 1})
	// three slices of one length
	table["Logistic.Slopes"] = call(loss.Logistic.Slopes, loss.Logistic{}, []float64{1, 2}, []float64{1, -1},
		[]float64{0, 0}).keep(1, 2, 3)
	everyInput(t, "loss", table)
}

// operators are valid examples of every operator in two dimensions.
func operators(t *testing.T) map[string]prox.Operator {
	affine, err := prox.NewAffine(mat.NewDense(1, 2, []float64{1, 1}), []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]prox.Operator{
		"Bounds":     prox.Bounds{Lo: []float64{-1, 0}, Hi: []float64{1, 2}},
		"WeightedL1": prox.WeightedL1{Weights: []float64{1, 0}}, "Linear": prox.Linear{C: []float64{1, -1}},
		"Pinball": prox.Pinball{Tau: 0.3}, "Isotonic": prox.Isotonic{},
		"L1": prox.L1{Weight: 1}, "SquaredL2": prox.SquaredL2{Weight: 1}, "ElasticNet": prox.ElasticNet{L1: 1, L2: 1},
		"L1Box":  prox.L1Box{Weight: 1, Lo: -1, Hi: 1},
		"L2Norm": prox.L2Norm{Weight: 1}, "LInfNorm": prox.LInfNorm{Weight: 1}, "GroupL2": prox.GroupL2{Groups: [][]int{{0},
			{1}}, Weight: 1},
		"SortedL1":       prox.SortedL1{Weights: []float64{2, 1}},
		"TotalVariation": prox.TotalVariation{Weight: 1}, "Huber": prox.Huber{Weight: 1,
			Delta: 1}, "Hinge": prox.Hinge{Weight: 1},
		"LogBarrier":  prox.LogBarrier{Weight: 1},
		"NonNegative": prox.NonNegative{}, "Box": prox.Box{Lo: -1, Hi: 1}, "L1Ball": prox.L1Ball{R: 1},
		"L2Ball": prox.L2Ball{R: 1}, "Simplex": prox.Simplex{Total: 1},
		"HalfSpace": prox.HalfSpace{A: []float64{1, 2}, B: 1}, "Affine": affine, "SecondOrderCone": prox.SecondOrderCone{},
		"NuclearNorm": prox.NuclearNorm{Rows: 1, Cols: 2, Weight: 1}, "SpectralBall": prox.SpectralBall{Rows: 1, Cols: 2,
			R: 1},
		"PSDCone": prox.PSDCone{Order: 1}, "NuclearBall": prox.NuclearBall{Rows: 1, Cols: 2,
			R: 1},
	}
}

func TestEveryInputProx(t *testing.T) {
	op := prox.Operator(prox.L1{Weight: 1})
	group := prox.GroupL2{Groups: [][]int{{0}, {1}}, Weight: 1}
	matrix := mat.Matrix(mat.NewDense(2, 2, []float64{0, 1, 1, 0}))
	table := map[string]row{
		"Check":          call(prox.Check, op, 2),
		"RoundingOf":     call(prox.RoundingOf, op).keep(0),
		"Rounding.Shift": call(func(x []float64) float64 { return prox.RoundingOf(op).Shift(x) }, []float64{1, 2}),
		"ProxConjugate":  call(prox.ProxConjugate, op, []float64{0, 0}, []float64{1, 2}, 1.).keep(0, 3),
		"NewAffine":      call(prox.NewAffine, matrix, []float64{1, 1}),
		"SplitGroups":    call(prox.SplitGroups, group).keep(0), // of checked groups
		"NewQuadratic":   call(prox.NewQuadratic, mat.Symmetric(mat.NewSymDense(2, []float64{1, 0, 0, 2})), []float64{1, 0}),
		"Blocks": call(func(x []float64) float64 { return prox.Blocks(prox.Block{Op: op, Len: 2}).Func(x) },
			[]float64{1, 2}),
		"Conjugate": call(func(x []float64) float64 { g, _ := prox.Conjugate(op); return g.Func(x) },
			[]float64{0.5, 0.2}),
		"Scale": call(func(x []float64) float64 { return prox.Scale(op, 2, 3).Func(x) }, []float64{1, 2}),
		"Sum": call(func(x []float64) float64 { g, _ := prox.Sum(op, prox.Box{Lo: -1, Hi: 1}); return g.Func(x) },
			[]float64{1, 2}),
		"Translate": call(func(x []float64) float64 { return prox.Translate(op, []float64{1, 1}).Func(x) },
			[]float64{1, 2}),
	}
	for name, g := range operators(t) {
		x, v := []float64{0.3, 0.7}, []float64{1, -1}
		if name == "PSDCone" {
			x, v = x[:1], v[:1]
		}
		check := call(prox.Check, g, len(x))
		if reflect.TypeOf(g).Kind() == reflect.Struct { // whose fields vary, too
			in := reflect.FuncOf([]reflect.Type{reflect.TypeOf(g), reflect.TypeFor[int]()},
				[]reflect.Type{reflect.TypeFor[error]()}, false)
			check.f = reflect.MakeFunc(in, func(args []reflect.Value) []reflect.Value {
				return reflect.ValueOf(prox.Check).Call(args)
			})
			check.args[0] = g
		}
		table[name+".check"] = check
		table[name+".Func"] = call(g.Func, x)
		table[name+".Prox"] = call(func(x []float64, gamma float64) []float64 {
			g.Prox(x, x, gamma)
			return x
		}, x, 1.).mayBeNaN().keep(1) // NaN stays NaN, so that a solver sees it
		if s, ok := g.(prox.Subdifferential); ok {
			table[name+".Dist"] = call(s.Dist, x, v)
		}
		if s, ok := g.(prox.Set); ok {
			table[name+".Radius"] = call(s.Radius, 2)
		}
		table[name+".shift"] = call(func(x []float64) float64 { return prox.RoundingOf(g).Shift(x) }, x)
		if s, ok := g.(prox.Coordinatewise); ok {
			table[name+".Coordinate"] = call(s.Coordinate, 1)
		}
	}
	l1 := prox.L1{Weight: 1}
	table["Rounding.Accuracy"] = call(func(dim int) (float64, float64) {
		factor, scale, _ := prox.RoundingOf(l1).Accuracy(dim)
		return factor, scale
	}, 2)
	table["Rounding.Proved"] = call(func(g prox.Operator) bool { return prox.RoundingOf(g).Proved() }, op)
	table["Pieces"] = call(func(dim int) { prox.Pieces(l1, dim) }, 2)
	table["Separable"] = call(func() bool {
		_, ok := prox.Separable(l1)
		return ok
	})
	everyInput(t, "prox", table)
}

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
	public, err := p.Public(dp.Replace)
	require.NoError(t, err)
	per := erm.PublicPerturbation{Linear: 1, MinEig: 1, MaxEig: 1}
	remote := new(asking)
	there, err := erm.Open(remote, unit)
	require.NoError(t, err)
	far := &erm.Problem{Data: there, Loss: loss.Logistic{}}
	require.Positive(t, far.Perturb(erm.Perturbation{Linear: []float64{1, 2}}).Residual(x))
	query, err := remote.q.MarshalBinary()
	require.NoError(t, err)
	sums, err := remote.sum.MarshalBinary()
	require.NoError(t, err)
	everyInput(t, "erm", map[string]row{
		"Open": call(func(b loss.Bounds) (int, error) {
			data, err := erm.Open(zeros{}, b)
			_, d := data.Dims()
			return d, err
		}, unit),
		"Pad":      call(func(dim int) int { _, d := erm.Pad(zeros{}, dim).Dims(); return d }, 3),
		"Data.Err": call(far.Data.Err), "Data.Assumptions": call(far.Data.Assumptions),
		"Data.Each": call(far.Data.Each, func([]float64, float64) {}).keep(0),
		"Problem.PerturbContext": call(func(linear []float64) float64 {
			return far.PerturbContext(context.Background(), erm.Perturbation{Linear: linear}).Residual(x)
		}, x),
		"Objective.Err": call(o.Err), "Objective.Attainable": call(o.Attainable),
		"Objective.HessianIsFree": call(o.HessianIsFree),
		"Objective.Sample":        call(func() bool { _, ok := o.Sample(); return ok }),
		"Query.UnmarshalBinary":   call(func(b []byte) error { return new(erm.Query).UnmarshalBinary(b) }, query),
		"Query.Sum": call(func(first, count, threads int) error {
			_, err := remote.q.Sum(context.Background(), zeros{}, first, count, min(threads, 8))
			return err
		}, 0, 3, 1),
		"Sums.Merge":           call(func() error { return new(erm.Sums).Merge(remote.sum) }),
		"Sums.UnmarshalBinary": call(func(b []byte) error { return new(erm.Sums).UnmarshalBinary(b) }, sums),
		"NewData":              call(erm.NewData, rows, labels, unit),
		"Borrow":               call(erm.Borrow, mat.RawMatrixer(mat.NewDense(2, 2, []float64{1, 2, 3, 4})), labels, unit),
		"NewDataDense":         call(erm.NewDataDense, mat.Matrix(mat.NewDense(2, 2, []float64{1, 2, 3, 4})), labels, unit),
		"NewDataCSR": call(erm.NewDataCSR, 2, []int{0, 1, 3}, []int{0, 0, 1}, []float64{0.5, 0.2, -0.7}, labels,
			unit),
		"NewBuilder": call(erm.NewBuilder, 2, true, unit),
		"NewRanker":  call(erm.NewRanker, 2, unit),
		"Ranker.Record": call(func(row []float64, label float64) uint64 {
			r, err := erm.NewRanker(2, unit)
			if err != nil {
				panic(err)
			}
			return r.Record(row, label)
		}, []float64{0.5, 0.2}, 1.0),
		"Ranker.Person": call(func(id string) (uint64, bool) { return new(erm.Ranker).Person(id) }, "a"),
		"Canonical": call(func(b loss.Bounds) ([]int, error) {
			return erm.Canonical(context.Background(), zeros{},
				b)
		}, unit),
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
		"Builder.ID": call(func(id string) error {
			b, err := erm.NewBuilder(2, true, unit)
			require.NoError(t, err)
			b.Add(rows[0], 1)
			b.ID(id)
			_, err = b.ByPerson(context.Background(), erm.Persons{Rows: 1})
			return err
		}, "a"),
		"Builder.ByPerson": call(func(ctx context.Context, p erm.Persons) (*erm.Data, error) {
			b, err := erm.NewBuilder(2, true, unit)
			require.NoError(t, err)
			return b.ByPerson(ctx, p)
		}, context.Background(), erm.Persons{Rows: 3}),
		"OpenByPerson": call(func(ctx context.Context, b loss.Bounds, p erm.Persons) error {
			_, err := erm.OpenByPerson(ctx, zeros{}, b, p)
			return err
		}, context.Background(), unit, erm.Persons{Rows: 3}),
		"OpenCanonical": call(func(ctx context.Context, b loss.Bounds, p erm.Persons) error {
			_, err := erm.OpenCanonical(ctx, alone{}, b, p)
			return err
		}, context.Background(), unit, erm.Persons{Rows: 3}),
		"CanonicalByPerson": call(func(ctx context.Context, b loss.Bounds, p erm.Persons) error {
			_, _, err := erm.CanonicalByPerson(ctx, zeros{}, b, p)
			return err
		}, context.Background(), unit, erm.Persons{Rows: 3}),
		"Persons.Check":    call(erm.Persons.Check, erm.Persons{Rows: 3}),
		"Weighting.String": call(erm.Weighting.String, erm.LinesEqual),
		"Data.Persons":     call(func() bool { _, ok := p.Data.Persons(); return ok }),
		"Data.EachPerson": call(func(most float64) error {
			add := func(dst []float64, w float64, a []float64, b float64) { dst[0] += w * b }
			return p.Data.EachPerson(context.Background(), 1, most, add, func([]float64) {})
		}, 1.0),
		"Data.Fold": call(func(ctx context.Context, f erm.Fold) ([]int64, error) { return p.Data.Fold(ctx, f) },
			context.Background(), erm.Fold(adding{})),
		"Builder.Data": call(func(label float64) float64 { return built(rows[0], label).Label(0) }, 1.0),
		"Data.Dims":    call(p.Data.Dims), "Data.Bounds": call(p.Data.Bounds),
		"Data.Row": call(p.Data.Row, 1).keep(0), "Data.Label": call(p.Data.Label, 1).keep(0), // like indexing a slice
		"Data.Map": call(func(b float64) float64 {
			return p.Data.Map(func([]float64, float64) (float64, bool) { return b, true }).Label(0)
		}, 0.5),
		"Problem.Check": call((*erm.Problem).Check, p),
		"Problem.Perturb": call(func(q erm.Perturbation) float64 { return p.Perturb(q).Residual(x) },
			erm.Perturbation{Linear: []float64{1, 2}, Center: []float64{0, 0}, Quad: mat.NewDiagDense(2, []float64{1, 1}),
				MinEig: 1, MaxEig: 1}),
		"Objective.Func":           call(o.Func, x).mayBeNaN(),
		"Objective.Grad":           call(o.Grad, g, x).mayBeNaN(),
		"Objective.FuncGrad":       call(o.FuncGrad, g, x).mayBeNaN(),
		"Objective.HasHessian":     call(o.HasHessian),
		"Objective.GradTerms":      call(o.GradTerms, g, x, []int{0, 1}).keep(2), // like indexing a slice
		"Objective.Hessian":        call(func(x []float64) { o.Hessian(new(mat.SymDense), x) }, x),
		"Objective.Residual":       call(o.Residual, x),
		"Objective.ResidualWithin": call(o.ResidualWithin, x, 1e-6),
		"Objective.Smoothness":     call(o.Smoothness), "Objective.TermSmoothness": call(o.TermSmoothness),
		"Objective.Modulus":   call(o.Modulus),
		"Objective.Convexity": call(o.Convexity),
		"Objective.Dim":       call(o.Dim), "Objective.Len": call(o.Len),
		"Objective.AccurateGrad": call(o.AccurateGrad, g, x).mayBeNaN(),
		"Objective.ResidualPair": call(o.ResidualPair, g, []float64{0, 0}, x, []float64{0, 0}).keep(0, 1, 3),
		"Objective.Steepness":    call(o.Steepness),
		"Objective.SumRounded": call(func(x []float64, norm int64) {
			o.SumRounded([]int64{0, 0}, x, []int{0, 1}, -20, max(norm, 1))
		}, x, int64(1)<<20),
		"Empty":           call(erm.Empty, 2, unit),
		"LossAssumptions": call(erm.LossAssumptions, loss.Loss(loss.Logistic{})),
		"NewTrace": call(func(x []float64, r, shift, mu float64) int {
			return len(erm.NewTrace(x, r, shift, mu).Theta)
		}, x, 1., 0., 1.),
		"Problem.Public":      call((*erm.Problem).Public, p, dp.Replace).mayBeNaN(),
		"Public.Complete":     call(erm.Public.Complete, public, dp.Replace).keep(0),
		"Public.Envelope":     call(func() bool { return public.Envelope() == nil }),
		"Public.Covered":      call(erm.Public.Covered, public, public),
		"Public.SlopeAt":      call(public.SlopeAt, x),
		"Public.Smooth":       call(erm.Public.Smooth, public),
		"Public.Admit":        call(public.Admit, p),
		"Public.Reach":        call(public.Reach, per).keep(0),
		"Public.Floor":        call(public.Floor, per),
		"Public.Cover":        call(public.Cover, per, 1e-3, 1.).keep(0),
		"Public.Tilted":       call(erm.Public.Tilted, public, per).keep(0).mayBeNaN(),
		"Objective.Quadratic": call(func() bool { _, _, _, ok := square.Perturb(erm.Perturbation{}).Quadratic(); return ok }),
	})
}

func TestEveryInputLOP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	p := small(t)
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	q.Assumptions = []dp.Assumption{erm.DeclaredOperator}
	plan, err := (&lop.Mechanism{}).Plan(p, b)
	require.NoError(t, err)
	src := func() rand.Source { return fixed() }
	m := &lop.Mechanism{Share: 0.1, Center: []float64{0.1, 0.1}}
	everyInput(t, "lop", map[string]row{
		"Mechanism.Calibrate": call((*lop.Mechanism).Calibrate, m, q, b).slow(),
		"Mechanism.Plan":      call((*lop.Mechanism).Plan, m, p, b),
		"Mechanism.Fit":       call((*lop.Mechanism).Fit, &lop.Mechanism{}, background, p, b, src),
		"Output.Calibrate":    call((*lop.Output).Calibrate, &lop.Output{}, q, b),
		"Output.Plan":         call((*lop.Output).Plan, &lop.Output{}, p, b),
		"Output.Fit":          call((*lop.Output).Fit, &lop.Output{}, background, p, b, src),
		"Plan.Fit":            call(plan.Fit, background, p, src),
		"Plan.Profile":        call(func(eps float64) float64 { return plan.Profile().Delta(eps) }, 1.),
		"Plan.Params":         call(plan.Params),
		"Plan.Certificate":    call(plan.Certificate),
	})
}

func TestEveryInputAdditive(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	m := &additive.Mechanism{Dim: 2, Radius: 1, L2: 1}
	plan, err := m.Plan(b)
	require.NoError(t, err)
	everyInput(t, "additive", map[string]row{
		"Mechanism.Plan":   call((*additive.Mechanism).Plan, m, b),
		"Plan.Release":     call(plan.Release, background, []float64{1, 2}, func() rand.Source { return fixed() }),
		"Plan.Profile":     call(func(eps float64) float64 { return plan.Profile().Delta(eps) }, 1.),
		"Plan.Params":      call(plan.Params),
		"Plan.Certificate": call(plan.Certificate),
	})
}

func TestEveryInputQOP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-4}
	p := small(t)
	p.Loss = loss.Squared{}
	q, err := p.Public(dp.Replace)
	require.NoError(t, err)
	q.Assumptions = []dp.Assumption{erm.DeclaredOperator}
	m := &qop.Mechanism{Center: []float64{0.1, 0.1}, Interpolation: qop.Relabel{}, Share: 0.1}
	plan, err := m.Plan(p, b)
	if err != nil {
		t.Fatal(err)
	}
	tilted := &qop.Mechanism{Center: m.Center, Interpolation: qop.Tilt{Clip: 0.5}, Releases: 2, Cover: 1e-3}
	path, err := tilted.Plan(p, b)
	require.NoError(t, err)
	src := func() rand.Source { return fixed() }
	everyInput(t, "qop", map[string]row{
		"Mechanism.Calibrate": call((*qop.Mechanism).Calibrate, m, q, b).slow(),
		"Mechanism.Plan":      call((*qop.Mechanism).Plan, m, p, b).keep(0).slow(),
		"Mechanism.Fit":       call((*qop.Mechanism).Fit, m, background, p, b, src).keep(0).slow(),
		"Plan.Fit": call(func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error) {
			return plan.Fit(ctx, p, src)
		}, background, p, src),
		"Plan.Params":      call(func(p *qop.Plan) string { return p.Params().Theorem }, plan),
		"Plan.Certificate": call(func(p *qop.Plan) string { return p.Certificate().Theorem }, plan),
		"Plan.Profile":     call(func(eps float64) float64 { return plan.Profile().Delta(eps) }, 1.),
		"Plan.Path":        call(path.Path, background, p, []qop.Penalty{{Reg: prox.L1{Weight: 1}}}, src).keep(0),
		"Plan.Traced":      call(func(p *qop.Plan) string { return p.Traced(nil).Params().Theorem }, plan),
	})
}
