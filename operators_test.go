// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/sco"
)

// A liar is an operator of package prox but for one exported method, which is false.
type liar struct {
	of    prox.Operator
	about string
}

func (l liar) Func(x []float64) float64 {
	if l.about == "Func" {
		return 0
	}
	return l.of.Func(x)
}

// Prox is a hard threshold, the proximal map of a function that is not convex.
func (l liar) Prox(dst, x []float64, gamma float64) {
	if l.about != "Prox" {
		l.of.Prox(dst, x, gamma)
		return
	}
	for i, v := range x {
		if dst[i] = v; math.Abs(v) < 0.5 {
			dst[i] = 0
		}
	}
}

func (l liar) Dist(x, v []float64) float64 {
	if l.about == "Dist" {
		return 0
	}
	if g, ok := l.of.(prox.Subdifferential); ok {
		return g.Dist(x, v)
	}
	return math.Inf(1)
}

func (l liar) Check(dim int) error {
	if l.about == "Check" {
		return nil
	}
	return prox.Check(l.of, dim)
}

func (l liar) Accuracy(int) (factor, scale float64) {
	if l.about == "Accuracy" {
		return 0, 0
	}
	return 1e4, 1
}

// What only some operators have.
type (
	shifted struct{ l liar }
	bounded struct{ l liar }
	sliced  struct{ l liar }
)

func (s shifted) Shift(x []float64) float64 {
	if s.l.about == "Shift" {
		return 0
	}
	return prox.RoundingOf(s.l.of).Shift(x)
}

func (b bounded) Radius(dim int) float64 {
	if b.l.about == "Radius" {
		return 1e-6
	}
	return b.l.of.(prox.Set).Radius(dim)
}

func (s sliced) Coordinate(i int) (l1, l2, lo, hi float64) {
	if s.l.about == "Coordinate" {
		return 0, 1e6, -1, 1
	}
	return s.l.of.(prox.Coordinatewise).Coordinate(i)
}

var methodsOfOperators = strings.Fields("nothing Func Prox Dist Check Accuracy Shift Radius Coordinate")

// One level below a liar these give an outer struct their unexported methods alone.
type (
	inL2Norm          struct{ prox.L2Norm }
	inLInfNorm        struct{ prox.LInfNorm }
	inGroupL2         struct{ prox.GroupL2 }
	inSortedL1        struct{ prox.SortedL1 }
	inTotalVariation  struct{ prox.TotalVariation }
	inHuber           struct{ prox.Huber }
	inHinge           struct{ prox.Hinge }
	inLogBarrier      struct{ prox.LogBarrier }
	inL1              struct{ prox.L1 }
	inSquaredL2       struct{ prox.SquaredL2 }
	inElasticNet      struct{ prox.ElasticNet }
	inL1Box           struct{ prox.L1Box }
	inNonNegative     struct{ prox.NonNegative }
	inBox             struct{ prox.Box }
	inL1Ball          struct{ prox.L1Ball }
	inL2Ball          struct{ prox.L2Ball }
	inSimplex         struct{ prox.Simplex }
	inNuclearBall     struct{ prox.NuclearBall }
	inHalfSpace       struct{ prox.HalfSpace }
	inAffine          struct{ prox.Set }
	inSpectralBall    struct{ prox.SpectralBall }
	inSecondOrderCone struct{ prox.SecondOrderCone }
	inPSDCone         struct{ prox.PSDCone }
	inNuclearNorm     struct{ prox.NuclearNorm }
	inBounds          struct{ prox.Bounds }
	inWeightedL1      struct{ prox.WeightedL1 }
	inLinear          struct{ prox.Linear }
	inPinball         struct{ prox.Pinball }
	inIsotonic        struct{ prox.Isotonic }
)

// foreigners are, for every operator, a struct that embeds it and declares its exported methods
// anew.
var foreigners = map[string]func(l liar) prox.Operator{
	"L2Norm": func(l liar) prox.Operator {
		return struct {
			liar
			inL2Norm
		}{l, inL2Norm{l.of.(prox.L2Norm)}}
	},
	"LInfNorm": func(l liar) prox.Operator {
		return struct {
			liar
			inLInfNorm
		}{l, inLInfNorm{l.of.(prox.LInfNorm)}}
	},
	"GroupL2": func(l liar) prox.Operator {
		return struct {
			liar
			inGroupL2
		}{l, inGroupL2{l.of.(prox.GroupL2)}}
	},
	"SortedL1": func(l liar) prox.Operator {
		return struct {
			liar
			inSortedL1
		}{l, inSortedL1{l.of.(prox.SortedL1)}}
	},
	"TotalVariation": func(l liar) prox.Operator {
		return struct {
			liar
			inTotalVariation
		}{l, inTotalVariation{l.of.(prox.TotalVariation)}}
	},
	"Huber": func(l liar) prox.Operator {
		return struct {
			liar
			inHuber
		}{l, inHuber{l.of.(prox.Huber)}}
	},
	"Hinge": func(l liar) prox.Operator {
		return struct {
			liar
			inHinge
		}{l, inHinge{l.of.(prox.Hinge)}}
	},
	"LogBarrier": func(l liar) prox.Operator {
		return struct {
			liar
			inLogBarrier
		}{l, inLogBarrier{l.of.(prox.LogBarrier)}}
	},
	"L1": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			inL1
		}{l, sliced{l}, inL1{l.of.(prox.L1)}}
	},
	"SquaredL2": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			inSquaredL2
		}{l, sliced{l}, inSquaredL2{l.of.(prox.SquaredL2)}}
	},
	"ElasticNet": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			inElasticNet
		}{l, sliced{l}, inElasticNet{l.of.(prox.ElasticNet)}}
	},
	"L1Box": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			inL1Box
		}{l, sliced{l}, inL1Box{l.of.(prox.L1Box)}}
	},
	"NonNegative": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			bounded
			inNonNegative
		}{l, sliced{l}, bounded{l}, inNonNegative{l.of.(prox.NonNegative)}}
	},
	"Box": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			bounded
			inBox
		}{l, sliced{l}, bounded{l}, inBox{l.of.(prox.Box)}}
	},
	"Bounds": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			bounded
			inBounds
		}{l, sliced{l}, bounded{l}, inBounds{l.of.(prox.Bounds)}}
	},
	"WeightedL1": func(l liar) prox.Operator {
		return struct {
			liar
			sliced
			inWeightedL1
		}{l, sliced{l}, inWeightedL1{l.of.(prox.WeightedL1)}}
	},
	"Linear": func(l liar) prox.Operator {
		return struct {
			liar
			inLinear
		}{l, inLinear{l.of.(prox.Linear)}}
	},
	"Pinball": func(l liar) prox.Operator {
		return struct {
			liar
			inPinball
		}{l, inPinball{l.of.(prox.Pinball)}}
	},
	"Isotonic": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			inIsotonic
		}{l, bounded{l}, inIsotonic{l.of.(prox.Isotonic)}}
	},
	"L1Ball": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inL1Ball
		}{l, bounded{l}, shifted{l}, inL1Ball{l.of.(prox.L1Ball)}}
	},
	"L2Ball": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inL2Ball
		}{l, bounded{l}, shifted{l}, inL2Ball{l.of.(prox.L2Ball)}}
	},
	"Simplex": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inSimplex
		}{l, bounded{l}, shifted{l}, inSimplex{l.of.(prox.Simplex)}}
	},
	"HalfSpace": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inHalfSpace
		}{l, bounded{l}, shifted{l}, inHalfSpace{l.of.(prox.HalfSpace)}}
	},
	"Affine": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inAffine
		}{l, bounded{l}, shifted{l}, inAffine{l.of.(prox.Set)}}
	},
	"SpectralBall": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inSpectralBall
		}{l, bounded{l}, shifted{l}, inSpectralBall{l.of.(prox.SpectralBall)}}
	},
	"SecondOrderCone": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inSecondOrderCone
		}{l, bounded{l}, shifted{l}, inSecondOrderCone{l.of.(prox.SecondOrderCone)}}
	},
	"PSDCone": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inPSDCone
		}{l, bounded{l}, shifted{l}, inPSDCone{l.of.(prox.PSDCone)}}
	},
	"NuclearBall": func(l liar) prox.Operator {
		return struct {
			liar
			bounded
			shifted
			inNuclearBall
		}{l, bounded{l}, shifted{l}, inNuclearBall{l.of.(prox.NuclearBall)}}
	},
	"NuclearNorm": func(l liar) prox.Operator {
		return struct {
			liar
			shifted
			inNuclearNorm
		}{l, shifted{l}, inNuclearNorm{l.of.(prox.NuclearNorm)}}
	},
}

// A foreign operator that forwards to another one, with the type of that one as a parameter.
type forward[T prox.Operator] struct{ Of T }

func (f forward[T]) Func(x []float64) float64             { return f.Of.Func(x) }
func (f forward[T]) Prox(dst, x []float64, gamma float64) { f.Of.Prox(dst, x, gamma) }
func (f forward[T]) Radius(int) float64                   { return 1e-6 }
func (f forward[T]) Dist(x, v []float64) float64 {
	return prox.Operator(f.Of).(prox.Subdifferential).Dist(x, v)
}

// disguised are further operators that are not of package prox, or hold one that is not.
func disguised(t *testing.T) map[string]prox.Operator {
	lying := struct{ prox.L1 }{prox.L1{Weight: 1}}
	box := prox.Box{Lo: -1, Hi: 1}
	sum, err := prox.Sum(prox.L1{Weight: 1}, prox.SquaredL2{Weight: 1})
	require.NoError(t, err)
	ridge, err := prox.Sum(lying, prox.SquaredL2{Weight: 1})
	require.NoError(t, err)
	slices, err := prox.Sum(lying, box)
	require.NoError(t, err)
	return map[string]prox.Operator{
		"pointer embedded":     struct{ *prox.L1 }{&prox.L1{Weight: 1}},
		"pointer":              &prox.L1{Weight: 1},
		"interface embedded":   struct{ prox.Operator }{box},
		"set embedded":         struct{ prox.Set }{box},
		"sum embedded":         struct{ prox.Operator }{sum},
		"generic":              forward[prox.Box]{box},
		"generic of interface": forward[prox.Operator]{box},
		"Translate":            prox.Translate(lying, []float64{1, 1}),
		"Scale":                prox.Scale(lying, 2, 3),
		"Scale of Translate":   prox.Scale(prox.Translate(lying, []float64{1, 1}), 2, 3),
		"Blocks":               prox.Blocks(prox.Block{Op: prox.L1{Weight: 1}, Len: 1}, prox.Block{Op: lying, Len: 1}),
		"sum of squares":       ridge,
		"sum of coordinates":   slices,
		"a set in Translate":   prox.Translate(struct{ prox.Box }{box}, []float64{1, 1}),
		"a ball in Scale":      prox.Scale(struct{ prox.L2Ball }{prox.L2Ball{R: 1}}, 2, 1),
		"a norm in Scale":      prox.Scale(struct{ prox.L2Norm }{prox.L2Norm{Weight: 1}}, 2, 1),
	}
}

// settings puts g in each place of p where it can stand.
func settings(p *erm.Problem, g prox.Operator) (list []*erm.Problem) {
	add := func(reg prox.Operator, set prox.Set) {
		q := *p
		q.Reg, q.Set = reg, set
		list = append(list, &q)
	}
	add(g, nil)
	add(g, prox.Box{Lo: -1, Hi: 1})
	if set, ok := g.(prox.Set); ok {
		add(nil, set)
		add(prox.L1{Weight: 1}, set)
	}
	return list
}

// opener opens problems by m.
func opener[L fitter[*erm.Problem]](
	m planner[*erm.Problem, L],
) func(*erm.Problem, dp.Budget, tracing) (any, release, error) {
	return func(p *erm.Problem, b dp.Budget, _ tracing) (any, release, error) { return opened(m, p, b) }
}

// optimizers are the mechanisms that minimize over an erm.Problem. Package model makes its problems
// itself, of losses and penalties with names.
func optimizers() (list []mechanism) {
	for _, m := range mechanisms(0) {
		if !strings.HasPrefix(m.name, "objpert") && !strings.HasPrefix(m.name, "model.") &&
			!strings.HasPrefix(m.name, "additive") {
			list = append(list, m)
		}
	}
	open := opener(&sco.ProxGD{NoisySGD: sco.NoisySGD{Radius: 1, Batch: 5, Steps: 4}})
	return append(list, mechanism{name: "sco.ProxGD", rel: dp.Replace, open: open})
}

// checked checks that a plan for p is refused with a reason, or that its certificate lists what
// the caller's operators declare. It reports whether there is a plan.
func checked(t *testing.T, m mechanism, p *erm.Problem, about string) bool {
	t.Helper()
	plan, _, err := m.open(p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
	if err != nil {
		require.True(t, strings.Contains(err.Error(), "want") || remedy(err.Error()), "%s: %s: %v", m.name, about, err)
		return false
	}
	require.Contains(t, plan.(dp.Plan).Certificate().Assumptions, erm.DeclaredOperator, "%s: %s", m.name, about)
	return true
}

// Public quantities of a problem rest on DeclaredOperator as soon as its regularizer or its set is
// not of package prox, whatever it embeds and whichever of its methods is false.
func TestForeignOperatorsOfProblem(t *testing.T) {
	p := records(t, 20, 2, 1, loss.Huber{Delta: 1}, unit)
	for name, g := range operators(t) {
		if name == "PSDCone" {
			continue // of one dimension here
		}
		for _, about := range methodsOfOperators {
			for _, q := range settings(p, foreigners[name](liar{g, about})) {
				if public, err := q.Public(dp.Replace); err == nil {
					require.Contains(t, public.Assumptions, erm.DeclaredOperator, "%s, %s", name, about)
				} else {
					require.ErrorIs(t, err, erm.ErrProblem, "%s, %s", name, about)
				}
				require.False(t, prox.RoundingOf(q.Reg).Proved() && prox.RoundingOf(q.Set).Proved(), name)
			}
		}
		if _, _, proved := prox.RoundingOf(g).Accuracy(2); proved {
			for _, q := range settings(p, g) {
				if public, err := q.Public(dp.Replace); err == nil {
					require.Empty(t, public.Assumptions, name)
				}
			}
		}
		require.True(t, prox.RoundingOf(g).Proved(), name)
	}
	for name, g := range disguised(t) {
		require.False(t, prox.RoundingOf(g).Proved(), name)
		for _, q := range settings(p, g) {
			if public, err := q.Public(dp.Replace); err == nil {
				require.Contains(t, public.Assumptions, erm.DeclaredOperator, name)
			}
		}
	}
}

// Every mechanism refuses operators that are not of package prox, or lists what they declare.
func TestForeignOperatorsOfMechanisms(t *testing.T) {
	for k, m := range optimizers() {
		p := records(t, 60, 2, 1, m.smooth(), unit)
		planned, seen := 0, k // usually each setting for some mechanisms
		try := func(about string, g prox.Operator) {
			for _, q := range settings(p, g) {
				if seen++; (testkit.Long() || seen%5 == 0) && checked(t, m, q, about) {
					planned++
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(foreigners)) {
			few := name == "L1" || name == "Box" || name == "L2Ball"
			about := methodsOfOperators
			if !testkit.Long() || !few {
				about = []string{"nothing"}
			}
			if name == "PSDCone" || !testkit.Long() && !few {
				about = nil // one is of one dimension here
			}
			for _, about := range about {
				try(name+", "+about, foreigners[name](liar{operators(t)[name], about}))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(disguised(t))) {
			try(name, disguised(t)[name])
		}
		require.Positive(t, planned, m.name)
		own := *p
		own.Reg, own.Set = prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 1}
		plan, fit, err := m.open(&own, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
		require.NoError(t, err, m.name)
		require.NotContains(t, plan.(dp.Plan).Certificate().Assumptions, erm.DeclaredOperator, m.name)
		rel, err := fit(t.Context(), noise.Reproducible(1))
		require.NoError(t, err, m.name)
		require.NotContains(t, rel.Certificate.Assumptions, erm.DeclaredOperator, m.name)
	}
}

// steepLasso is an ℓ1 norm that claims a square of weight 10⁶ and a box.
type steepLasso struct{ prox.L1 }

func (steepLasso) Coordinate(int) (l1, l2, lo, hi float64) { return 0, 1e6, -1, 1 }

// tinyBox and tinyBall claim a radius of 10⁻⁶.
type tinyBox struct{ prox.Box }
type tinyBall struct{ prox.L2Ball }

func (tinyBox) Radius(int) float64  { return 1e-6 }
func (tinyBall) Radius(int) float64 { return 1e-6 }

// hardThreshold is no convex function, and honest about its proximal map and its subgradients.
type hardThreshold struct{}

func (hardThreshold) Func([]float64) float64               { return 0 }
func (hardThreshold) Prox(dst, x []float64, gamma float64) { liar{about: "Prox"}.Prox(dst, x, gamma) }
func (hardThreshold) Dist(_, v []float64) float64          { return math.Hypot(v[0], v[1]) }

// What a foreign operator declares scales the noise of these plans, and each release says so.
func TestForeignOperatorsSign(t *testing.T) {
	squares, logistic := records(t, 60, 2, 1, loss.Squared{}, unit), records(t, 60, 2, 1, loss.Logistic{}, unit)
	with := func(p *erm.Problem, reg prox.Operator, set prox.Set) *erm.Problem {
		q := *p
		q.Reg, q.Set = reg, set
		return &q
	}
	l1, box := prox.L1{Weight: 1}, prox.Box{Lo: -1, Hi: 1}
	ball := tinyBall{prox.L2Ball{R: 1}}
	relabel := &qop.Mechanism{Center: []float64{0, 0}, Interpolation: qop.Relabel{}}
	for name, c := range map[string]struct {
		p    *erm.Problem
		open func(*erm.Problem, dp.Budget, tracing) (any, release, error)
	}{
		"steep, lop":          {with(logistic, steepLasso{l1}, box), opener(&lop.Mechanism{Ridge: 1e-3})},
		"box, lop":            {with(squares, l1, tinyBox{box}), opener(&lop.Mechanism{})},
		"ball, lop":           {with(squares, nil, ball), opener(&lop.Mechanism{})},
		"box, lop.Output":     {with(squares, l1, tinyBox{box}), opener(&lop.Output{})},
		"threshold, qop":      {with(squares, hardThreshold{}, nil), opener(relabel)},
		"threshold, NoisySGD": {with(logistic, hardThreshold{}, nil), opener(&sco.NoisySGD{Radius: 1, Batch: 50, Steps: 4})},
	} {
		plan, fit, err := c.open(c.p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil)
		require.NoError(t, err, name)
		require.Contains(t, plan.(dp.Plan).Certificate().Assumptions, erm.DeclaredOperator, name)
		if rel, err := fit(t.Context(), noise.Reproducible(1)); err == nil {
			require.Contains(t, rel.Certificate.Assumptions, erm.DeclaredOperator, name)
		} else {
			require.NotErrorIs(t, err, dp.ErrWithheld, name)
		}
	}
}

// flat is a loss that claims a slope of at most 10⁻⁶, with all methods of the loss that it embeds.
type flat[L loss.Linear] struct{ loss.Linear }

func (f flat[L]) Constants(b loss.Bounds, radius float64) loss.Constants {
	c := f.Linear.Constants(b, radius)
	c.Lipschitz = 1e-6
	return c
}

// A loss that embeds one of package loss is listed by every mechanism, also inside of another loss.
func TestForeignLosses(t *testing.T) {
	type logistic struct{ loss.Logistic }
	type squared struct{ loss.Squared }
	for k, m := range optimizers() {
		for i, l := range []loss.Loss{
			logistic{}, squared{}, &loss.Logistic{}, &loss.Squared{}, flat[loss.Logistic]{loss.Logistic{}},
			flat[loss.Squared]{loss.Squared{}},
			loss.Clipped{Loss: squared{}, Threshold: 1}, loss.Moreau{Loss: loss.Clipped{Loss: logistic{}, Threshold: 1},
				Beta: 1},
		} {
			p := records(t, 60, 2, 1, l, unit)
			p.Set = prox.L2Ball{R: 1}
			if !testkit.Long() && (i+k)%4 > 0 {
				continue // usually two losses for each mechanism
			}
			if plan, _, err := m.open(p, dp.Budget{Epsilon: 1, Delta: 1e-4}, nil); err == nil {
				own := []dp.Assumption{erm.DeclaredLoss, sco.LossLocality} // noisy SGD clips: it needs the second alone
				require.True(t, slices.ContainsFunc(own, func(a dp.Assumption) bool {
					return slices.Contains(plan.(dp.Plan).Certificate().Assumptions, a)
				}), "%s: %T: %v", m.name, l, plan.(dp.Plan).Certificate())
			}
		}
	}
}
