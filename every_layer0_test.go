package privopt_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/randmat"
)

var testRoot = os.DirFS(".")

func TestEveryInputDP(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	c := dp.Certificate{Budget: b, Relation: dp.Replace, Theorem: "x"}
	family := func(s float64) dp.Curve { return dp.GaussianCurve(s) }
	everyInput(t, "dp", map[string]row{
		"Budget.Check":      call(dp.Budget.Check, b),
		"Budget.Profile":    call(func(b dp.Budget, eps float64) float64 { return b.Profile().Delta(eps) }, b, 1.),
		"Budget.Split":      call(dp.Budget.Split, b, 0.01).keep(0, 1), // of checked budgets and shares only, see TestSplitAndComposeRound
		"Relation.Check":    call(dp.Relation.Check, dp.Replace),
		"Certificate.Check": call(dp.Certificate.Check, c),
		"Compose":           call(dp.Basic, c, c),
		"Calibrate":         call(func(b dp.Budget) (float64, error) { return dp.Calibrate(family, b) }, b),
		"GaussianDelta":     call(dp.GaussianDelta, 1., 1.),
		"GaussianLogDelta":  call(dp.GaussianLogDelta, 1., 1.),
		"GaussianSigma":     call(dp.GaussianSigma, b, 1.),
		"GaussianCurve":     call(func(s, eps float64) float64 { return dp.GaussianCurve(s)(eps) }, 1., 1.),
		"PureCurve":         call(func(e, eps float64) float64 { return dp.PureCurve(e)(eps) }, 1., 1.),
		"Profile.Epsilon":   call(func(s, delta float64) float64 { return dp.GaussianCurve(s).Epsilon(delta) }, 1., 1e-6),
		"GaussianRDP":       call(func(s, a float64) float64 { return dp.GaussianRDP(s)(a) }, 1., 2.),
		"PureRDP":           call(func(s, a float64) float64 { return dp.PureRDP(s)(a) }, 1., 2.),
		"ComposeRDP":        call(func(s, a float64) float64 { return dp.ComposeRDP(dp.PureRDP(s), dp.GaussianRDP(s))(a) }, 1., 2.),
		"RDP.Epsilon": call(func(s, delta, order float64) float64 {
			eps, _ := dp.GaussianRDP(s).Epsilon(delta, order)
			return eps
		}, 1., 1e-6, 2.),
		"RDP.Profile": call(func(s, eps, order float64) float64 { return dp.GaussianRDP(s).Curve(order)(eps) }, 1., 1., 2.),
	})
}

func TestEveryInputNoise(t *testing.T) {
	src := func() rand.Source { return fixed() }
	x, k := []float64{0, 0, 0}, []int64{0, 0, 0}
	everyInput(t, "noise", map[string]row{
		"Secure":          call(func() uint64 { return noise.Secure().Uint64() }),
		"Reproducible":    call(func(label string) uint64 { return noise.Reproducible(1, label).Uint64() }, "a"),
		"Uniform":         call(noise.Uniform, src),
		"Exponential":     call(noise.Exponential, src),
		"Normal":          call(func(x []float64, s float64, r rand.Source) []float64 { noise.Normal(x, s, r); return x }, x, 1., src).keep(0, 2),
		"Laplace":         call(noise.Laplace, 1., src),
		"ChiSquared":      call(noise.ChiSquared, 2, src),
		"Sphere":          call(func(x []float64, r rand.Source) []float64 { noise.Sphere(x, r); return x }, x, src),
		"GammaNorm":       call(func(x []float64, a float64, r rand.Source) []float64 { noise.GammaNorm(x, a, r); return x }, x, 1., src),
		"Grid":            call(func(x []int64, s float64, e int, r rand.Source) []int64 { noise.Grid(x, s, e, r); return x }, k, 1., 2, src).keep(0, 3),
		"LaplaceGrid":     call(func(x []int64, s float64, e int, r rand.Source) []int64 { noise.LaplaceGrid(x, s, e, r); return x }, k, 1., 2, src).keep(0, 3),
		"RadialGrid":      call(func(x []int64, s float64, e int, r rand.Source) []int64 { noise.RadialGrid(x, s, e, r); return x }, k, 1., 2, src).keep(0, 3),
		"Gap":             call(noise.Gap, 3., src),
		"Watch":           call(func(r rand.Source) error { return noise.Watch(r).Err() }, src),
		"Below":           call(noise.Below, uint64(3), src),
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
		"MinEigenvalueLaw.CDF":         call(randmat.MinEigenvalueLaw.CDF, law, 1.),
		"MinEigenvalueLaw.LogCDF":      call(randmat.MinEigenvalueLaw.LogCDF, law, 1.),
		"MinEigenvalueLaw.Quantile":    call(randmat.MinEigenvalueLaw.Quantile, law, 0.5),
		"MinEigenvalueLaw.LogQuantile": call(randmat.MinEigenvalueLaw.LogQuantile, law, -1.),
		"EdelmanLogCDF":                call(randmat.EdelmanLogCDF, 2, 5., 1.),
		"DavidsonSzarekLogCDF":         call(randmat.DavidsonSzarekLogCDF, 2, 5., 1.),
		"MinEig":                       call(randmat.MinEig, m),
		"MinEigAbove":                  call(randmat.MinEigAbove, m, 0.1),
		"MaxEig":                       call(randmat.MaxEig, m),
		"RitzMax":                      call(randmat.RitzMax, m),
		"Wishart":                      call(randmat.Wishart, m, 5., src),
		"WishartError":                 call(randmat.WishartError, 2, 1.),
		"WishartBetween":               call(randmat.WishartBetween, m, 5., 0.01, 50., src).keep(2, 3), // a window that is seldom hit takes long
	})
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
	for name, l := range map[string]loss.Linear{"Squared": loss.Squared{}, "Logistic": loss.Logistic{}, "Huber": loss.Huber{Delta: 1}, "SmoothedHinge": loss.SmoothedHinge{Gamma: 0.5}, "Clipped": clipped,
		"Hinge": loss.Hinge{}, "Absolute": loss.Absolute{}, "Pinball": loss.Pinball{Tau: 0.3}, "EpsilonInsensitive": loss.EpsilonInsensitive{Epsilon: 0.1}, "Moreau": loss.Moreau{Loss: loss.Hinge{}, Beta: 2}} {
		// NaN and infinite θ give NaN, which solvers see; constants never do.
		table[name+".Func"] = call(l.Func, theta, a, 1.).mayBeNaN()
		table[name+".Grad"] = call(l.Grad, g, theta, a, 1.).mayBeNaN()
		table[name+".Scalar"] = call(l.Scalar, 0.5, 1., 1.).mayBeNaN()
		table[name+".Constants"] = call(l.Constants, bounds, 1.)
		table[name+".Check"] = call(l.(loss.Checker).Check)
		if m, ok := l.(loss.Monotone); ok {
			table[name+".Monotone"] = call(m.Monotone)
		}
		if c, ok := l.(loss.Clippable); ok {
			table[name+".ClipPoints"] = call(c.ClipPoints, 1., 0.5).mayBeNaN()
		}
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
	}{"Hinge": loss.Hinge{}, "Absolute": loss.Absolute{}, "Pinball": loss.Pinball{Tau: 0.3}, "EpsilonInsensitive": loss.EpsilonInsensitive{Epsilon: 0.1}} {
		table[name+".ProxSlope"] = call(l.ProxSlope, 0.5, 1., 1.).mayBeNaN()
	}
	multinomial := loss.Multinomial{Classes: 2}
	table["Multinomial.Func"] = call(multinomial.Func, theta, a, 1.).mayBeNaN()
	table["Multinomial.Grad"] = call(multinomial.Grad, g, theta, a, 1.).mayBeNaN()
	table["Multinomial.Constants"] = call(loss.Multinomial.Constants, multinomial, bounds, 1.)
	table["Multinomial.Check"] = call(loss.Multinomial.Check, multinomial)
	table["Pinball.Check"] = call(loss.Pinball.Check, loss.Pinball{Tau: 0.5})
	table["Pinball.Constants"] = call(loss.Pinball.Constants, loss.Pinball{Tau: 0.5}, bounds, 1.)
	table["EpsilonInsensitive.Check"] = call(loss.EpsilonInsensitive.Check, loss.EpsilonInsensitive{Epsilon: 1})
	table["Moreau.Check"] = call(loss.Moreau.Check, loss.Moreau{Loss: loss.Hinge{}, Beta: 1})
	table["Logistic.Slopes"] = call(loss.Logistic.Slopes, loss.Logistic{}, []float64{1, 2}, []float64{1, -1}, []float64{0, 0}).keep(1, 2, 3) // three slices of one length
	everyInput(t, "loss", table)
}

// operators are valid examples of every operator in two dimensions.
func operators(t *testing.T) map[string]prox.Operator {
	affine, err := prox.NewAffine(mat.NewDense(1, 2, []float64{1, 1}), []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]prox.Operator{
		"L1": prox.L1{Weight: 1}, "SquaredL2": prox.SquaredL2{Weight: 1}, "ElasticNet": prox.ElasticNet{L1: 1, L2: 1}, "L1Box": prox.L1Box{Weight: 1, Lo: -1, Hi: 1},
		"L2Norm": prox.L2Norm{Weight: 1}, "LInfNorm": prox.LInfNorm{Weight: 1}, "GroupL2": prox.GroupL2{Groups: [][]int{{0}, {1}}, Weight: 1}, "SortedL1": prox.SortedL1{Weights: []float64{2, 1}},
		"TotalVariation": prox.TotalVariation{Weight: 1}, "Huber": prox.Huber{Weight: 1, Delta: 1}, "Hinge": prox.Hinge{Weight: 1}, "LogBarrier": prox.LogBarrier{Weight: 1},
		"NonNegative": prox.NonNegative{}, "Box": prox.Box{Lo: -1, Hi: 1}, "LInfBall": prox.LInfBall{R: 1}, "L1Ball": prox.L1Ball{R: 1}, "L2Ball": prox.L2Ball{R: 1}, "Simplex": prox.Simplex{Total: 1},
		"HalfSpace": prox.HalfSpace{A: []float64{1, 2}, B: 1}, "Affine": affine, "SecondOrderCone": prox.SecondOrderCone{},
		"NuclearNorm": prox.NuclearNorm{Rows: 1, Cols: 2, Weight: 1}, "SpectralBall": prox.SpectralBall{Rows: 1, Cols: 2, R: 1}, "PSDCone": prox.PSDCone{Order: 1},
	}
}

func TestEveryInputProx(t *testing.T) {
	op := prox.Operator(prox.L1{Weight: 1})
	group := prox.GroupL2{Groups: [][]int{{0}, {1}}, Weight: 1}
	matrix := mat.Matrix(mat.NewDense(2, 2, []float64{0, 1, 1, 0}))
	table := map[string]row{
		"Check":         call(prox.Check, op, 2),
		"Shift":         call(prox.Shift, op, []float64{1, 2}).keep(0),
		"Lipschitz":     call(prox.Lipschitz, op, 2),
		"ProxConjugate": call(prox.ProxConjugate, op, []float64{0, 0}, []float64{1, 2}, 1.).keep(0, 3),
		"NewAffine":     call(prox.NewAffine, matrix, []float64{1, 1}),
		"SplitGroups":   call(prox.SplitGroups, group).keep(0), // of checked groups
		"Blocks":        call(func(x []float64) float64 { return prox.Blocks(prox.Block{Op: op, Len: 2}).Func(x) }, []float64{1, 2}),
		"Conjugate":     call(func(x []float64) float64 { g, _ := prox.Conjugate(op); return g.Func(x) }, []float64{0.5, 0.2}),
		"Scale":         call(func(x []float64) float64 { return prox.Scale(op, 2, 3).Func(x) }, []float64{1, 2}),
		"Sum":           call(func(x []float64) float64 { g, _ := prox.Sum(op, prox.Box{Lo: -1, Hi: 1}); return g.Func(x) }, []float64{1, 2}),
		"TightFrame":    call(prox.TightFrame, op, matrix).keep(0),
		"Translate":     call(func(x []float64) float64 { return prox.Translate(op, []float64{1, 1}).Func(x) }, []float64{1, 2}),
		"Affine.Dim":    call(operators(t)["Affine"].(*prox.Affine).Dim),
		"Affine.Rank":   call(operators(t)["Affine"].(*prox.Affine).Rank),
		// Parameters of every operator with fields, through Check.
		"L1.Check": call(prox.L1.Check, prox.L1{Weight: 1}, 2), "SquaredL2.Check": call(prox.SquaredL2.Check, prox.SquaredL2{Weight: 1}, 2),
		"ElasticNet.Check": call(prox.ElasticNet.Check, prox.ElasticNet{L1: 1, L2: 1}, 2), "L1Box.Check": call(prox.L1Box.Check, prox.L1Box{Weight: 1, Lo: -1, Hi: 1}, 2),
		"L2Norm.Check": call(prox.L2Norm.Check, prox.L2Norm{Weight: 1}, 2), "LInfNorm.Check": call(prox.LInfNorm.Check, prox.LInfNorm{Weight: 1}, 2),
		"GroupL2.Check": call(prox.GroupL2.Check, group, 2), "SortedL1.Check": call(prox.SortedL1.Check, prox.SortedL1{Weights: []float64{2, 1}}, 2),
		"TotalVariation.Check": call(prox.TotalVariation.Check, prox.TotalVariation{Weight: 1}, 2), "Huber.Check": call(prox.Huber.Check, prox.Huber{Weight: 1, Delta: 1}, 2),
		"Hinge.Check": call(prox.Hinge.Check, prox.Hinge{Weight: 1}, 2), "LogBarrier.Check": call(prox.LogBarrier.Check, prox.LogBarrier{Weight: 1}, 2),
		"Box.Check": call(prox.Box.Check, prox.Box{Lo: -1, Hi: 1}, 2), "LInfBall.Check": call(prox.LInfBall.Check, prox.LInfBall{R: 1}, 2),
		"L1Ball.Check": call(prox.L1Ball.Check, prox.L1Ball{R: 1}, 2), "L2Ball.Check": call(prox.L2Ball.Check, prox.L2Ball{R: 1}, 2),
		"Simplex.Check": call(prox.Simplex.Check, prox.Simplex{Total: 1}, 2), "HalfSpace.Check": call(prox.HalfSpace.Check, prox.HalfSpace{A: []float64{1, 2}, B: 1}, 2),
		"NuclearNorm.Check": call(prox.NuclearNorm.Check, prox.NuclearNorm{Rows: 1, Cols: 2, Weight: 1}, 2), "SpectralBall.Check": call(prox.SpectralBall.Check, prox.SpectralBall{Rows: 1, Cols: 2, R: 1}, 2),
		"PSDCone.Check": call(prox.PSDCone.Check, prox.PSDCone{Order: 1}, 1),
	}
	for name, g := range operators(t) {
		x, v := []float64{0.3, 0.7}, []float64{1, -1}
		if name == "PSDCone" {
			x, v = x[:1], v[:1]
		}
		if _, ok := table[name+".Check"]; !ok {
			table[name+".Check"] = call(g.(prox.Checker).Check, len(x))
		}
		table[name+".Func"] = call(g.Func, x)
		table[name+".Prox"] = call(func(x []float64, gamma float64) []float64 {
			g.Prox(x, x, gamma)
			return x
		}, x, 1.).mayBeNaN().keep(1) // NaN stays NaN, so that a solver sees it
		table[name+".Dist"] = call(g.(prox.Subdifferential).Dist, x, v)
		if s, ok := g.(prox.Set); ok {
			table[name+".Radius"] = call(s.Radius, 2)
		}
		if s, ok := g.(prox.Rounded); ok {
			table[name+".Shift"] = call(s.Shift, x)
		}
		if s, ok := g.(prox.Coordinatewise); ok {
			table[name+".Coordinate"] = call(s.Coordinate, 1)
		}
	}
	everyInput(t, "prox", table)
}

func TestEveryInputSpecfun(t *testing.T) {
	table := map[string]row{
		"Bisect": call(func(lo, hi float64) (float64, float64) {
			return specfun.Bisect(func(x float64) bool { return x <= 1 }, lo, hi)
		}, 0., 2.).mayBeNaN(),
		"GaussLegendre": call(specfun.GaussLegendre, 3),
		// These are functions of real numbers: outside their domain they are NaN.
		"Log":       call(specfun.Log, 2.).mayBeNaN(),
		"LogSumExp": call(specfun.LogSumExp, 1., 2.).mayBeNaN(), "LogDiffExp": call(specfun.LogDiffExp, 2., 1.).mayBeNaN(), "Log1mExp": call(specfun.Log1mExp, -1.).mayBeNaN(),
		"GammaLogP": call(specfun.GammaLogP, 2., 1.).mayBeNaN(), "GammaLogQ": call(specfun.GammaLogQ, 2., 1.).mayBeNaN(),
		"GammaInvLogP": call(specfun.GammaInvLogP, 2., -1.).mayBeNaN(), "GammaInvLogQ": call(specfun.GammaInvLogQ, 2., -1.).mayBeNaN(),
		"Erfcx": call(specfun.Erfcx, 1.).mayBeNaN(), "Mills": call(specfun.Mills, 1.).mayBeNaN(), "MillsSlope": call(specfun.MillsSlope, 1.).mayBeNaN(),
		"NormalCDF": call(specfun.NormalCDF, 1.).mayBeNaN(), "LogPhi": call(specfun.LogPhi, 1.).mayBeNaN(), "LogQ": call(specfun.LogQ, 1.).mayBeNaN(), "NormalQuantile": call(specfun.NormalQuantile, 0.5).mayBeNaN(),
		"Chi2LogPDF": call(specfun.Chi2LogPDF, 1., 2.).mayBeNaN(), "Chi2LogCDF": call(specfun.Chi2LogCDF, 1., 2.).mayBeNaN(), "Chi2LogSF": call(specfun.Chi2LogSF, 1., 2.).mayBeNaN(),
		"Chi2CDF": call(specfun.Chi2CDF, 1., 2.).mayBeNaN(), "Chi2SF": call(specfun.Chi2SF, 1., 2.).mayBeNaN(), "Chi2Quantile": call(specfun.Chi2Quantile, -1., 2.).mayBeNaN(), "Chi2UpperQuantile": call(specfun.Chi2UpperQuantile, -1., 2.).mayBeNaN(),
	}
	everyInput(t, "internal/specfun", table)
}
