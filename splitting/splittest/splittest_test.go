package splittest

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

func TestMethods(t *testing.T) {
	for name, m := range map[string]splitting.Method{
		"StochasticTOS":           &splitting.StochasticTOS{},
		"StochasticTOS/strong":    &splitting.StochasticTOS{Rule: splitting.StronglyConvexStep},
		"StochasticTOS/root":      &splitting.StochasticTOS{Rule: splitting.RootStep},
		"StochasticTOS/adaptive":  &splitting.StochasticTOS{Rule: splitting.AdaptiveStep},
		"DavisYin":                &splitting.DavisYin{},
		"DavisYin/relaxed":        &splitting.DavisYin{Relaxation: 1.4},
		"DavisYin/search":         &splitting.DavisYin{Rule: splitting.LineSearch},
		"DavisYin/strong":         &splitting.DavisYin{Rule: splitting.StronglyConvexStep},
		"ForwardBackward/search":  &splitting.ForwardBackward{Rule: splitting.LineSearch},
		"ForwardBackward/both":    &splitting.ForwardBackward{Rule: splitting.LineSearch, Plain: true},
		"StochasticTOS/SVRG":      &splitting.StochasticTOS{Estimator: splitting.SVRG},
		"StochasticTOS/SAGA":      &splitting.StochasticTOS{Estimator: splitting.SAGA},
		"ProxSVRG":                &inH{splitting.StochasticTOS{Estimator: splitting.SVRG}},
		"ProxSAGA":                &inH{splitting.StochasticTOS{Estimator: splitting.SAGA}},
		"BackwardForward/SVRG":    &inG{splitting.StochasticTOS{Estimator: splitting.SVRG}},
		"BackwardForward/SAGA":    &inG{splitting.StochasticTOS{Estimator: splitting.SAGA}},
		"BackwardForward/Sampled": &inG{},
		"DouglasRachford":         &splitting.DouglasRachford{},
		"DouglasRachford/relaxed": &splitting.DouglasRachford{Relaxation: 1.7, StepSize: 0.1},
		"PrimalDual":              &splitting.PrimalDual{},
		"BackwardForward":         &backwardForward{},
		"BackwardForward/relaxed": &backwardForward{splitting.DavisYin{Relaxation: 1.4}},
		"ForwardBackward":         &splitting.ForwardBackward{},
		"ForwardBackward/plain":   &splitting.ForwardBackward{Plain: true},
		"CoordinateDescent":       &splitting.CoordinateDescent{},
		"ProxNewton":              &splitting.ProxNewton{},
		"LBFGS":                   &splitting.LBFGS{Memory: 4},
	} {
		t.Run(name, func(t *testing.T) { Check(t, m) })
	}
	for name, m := range map[string]splitting.Method{
		"PrimalDual/strong": &splitting.PrimalDual{Rule: splitting.StronglyConvexStep},
		"FrankWolfe":        &splitting.FrankWolfe{},
		"FrankWolfe/search": &splitting.FrankWolfe{Rule: splitting.LineSearch},
	} {
		t.Run(name, func(t *testing.T) { CheckSublinear(t, m) })
	}
}

// inG and inH solve a problem with G + H in the place of G or of H.
type (
	inG             struct{ splitting.StochasticTOS }
	inH             struct{ splitting.StochasticTOS }
	backwardForward struct{ splitting.DavisYin }
)

// sum returns p with G + H in the place of G.
func sum(p splitting.Problem) (splitting.Problem, error) {
	psi, ok := prox.Sum(p.G, p.H)
	if !ok {
		return p, splitting.ErrProblem
	}
	p.G, p.H = psi, nil
	return p, nil
}

func (m *inG) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := sum(p)
	return errors.Join(err, m.StochasticTOS.Init(p, x0, rnd))
}

func (m *inH) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := sum(p)
	p.G, p.H = p.H, p.G
	return errors.Join(err, m.StochasticTOS.Init(p, x0, rnd))
}

func (m *backwardForward) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	p, err := sum(p)
	return errors.Join(err, m.DavisYin.Init(p, x0, rnd))
}

// Every planted minimizer is one: −∇f(x*) is in the subdifferential of the sum
// as the operators see it, wherever they can tell.
func TestPlanted(t *testing.T) {
	seen := 0
	for _, p := range Planted() {
		sum, ok := prox.Sum(p.G, p.H)
		if !ok {
			continue
		}
		s, ok := sum.(prox.Subdifferential)
		if !ok {
			continue
		}
		g := make([]float64, dim)
		p.F.Grad(g, p.Solution)
		require.LessOrEqual(t, s.Dist(p.Solution, g), 1e-13*p.Scale, p.Name)
		seen++
	}
	require.GreaterOrEqual(t, seen, 20)
}

// broken is plain proximal gradient with one fault.
type broken struct {
	fault string
	f     splitting.Smooth
	psi   prox.Operator
	x, w  []float64
	rnd   *rand.Rand
	keep  []float64
}

func (m *broken) Init(p splitting.Problem, x0 []float64, rnd *rand.Rand) error {
	psi, ok := prox.Sum(p.G, p.H)
	if !ok || math.IsInf(p.F.Smoothness(), 1) {
		return splitting.ErrProblem
	}
	m.f, m.psi, m.rnd = p.F, psi, rnd
	m.x, m.w = append([]float64(nil), x0...), make([]float64, len(x0))
	if m.fault == "keeps x0" {
		m.x = x0
	}
	return nil
}

func (m *broken) Step(loc *splitting.Location, stats *splitting.Stats) {
	gamma := 1 / m.f.Smoothness()
	m.f.Grad(m.w, m.x)
	stats.GradTerms += records
	if m.fault == "wrong sign" {
		floats.Scale(-1, m.w)
	}
	if m.fault == "random" {
		gamma *= 1 - 0.1*m.rnd.Float64()
	}
	if m.fault == "unseeded" {
		gamma *= 1 - 0.1*rand.Float64()
	}
	if m.fault == "hides NaN" && m.w[0] != m.w[0] {
		clear(m.w)
	}
	if m.fault == "slow" {
		gamma *= 1e-3
	}
	for i := range m.w {
		m.w[i] = m.x[i] - gamma*m.w[i]
	}
	if m.fault != "no prox" {
		m.psi.Prox(m.w, m.w, gamma)
	}
	loc.Residual = floats.Distance(m.x, m.w, 2) / gamma
	copy(m.x, m.w)
	copy(loc.X, m.w)
	if m.fault == "optimistic" {
		loc.Residual *= 0.05
	}
	if m.fault == "allocates" {
		m.keep = make([]float64, len(m.x))
	}
	if m.fault == "infeasible" {
		loc.X[0] += 1e-7
	}
}

func TestCheckBites(t *testing.T) {
	bad := func(fault string) (n int) {
		for _, p := range Planted() {
			if err := check(&broken{fault: fault}, p, p.Tolerance()); err != nil && err != errNotApplicable {
				n++
			}
		}
		return n
	}
	require.Zero(t, bad(""), "the sound method passes")
	require.Zero(t, bad("random"), "and so does one that uses the seed")
	for _, fault := range []string{"wrong sign", "unseeded", "hides NaN", "slow", "no prox", "optimistic", "allocates",
		"keeps x0",
		"infeasible"} {
		require.Positive(t, bad(fault), fault)
	}
}
