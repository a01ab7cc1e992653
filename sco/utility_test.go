package sco

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// mechanism is what all of this package have in common.
type mechanism interface {
	Fit(ctx context.Context, p *erm.Problem, b dp.Budget, src rand.Source) (*dp.Release, error)
}

// planned is a plan of any mechanism.
type planned interface {
	Fit(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)
}

// plan returns the plan of m for p and its bound.
func plan(t *testing.T, m mechanism, p *erm.Problem, b dp.Budget) (planned, float64) {
	t.Helper()
	switch m := m.(type) {
	case interface {
		Plan(p *erm.Problem, b dp.Budget) (*SGDPlan, error)
	}:
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		return pl, pl.Bound
	case interface {
		Plan(p *erm.Problem, b dp.Budget) (*ObjPlan, error)
	}:
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		return pl, pl.Bound
	case interface {
		Plan(p *erm.Problem, b dp.Budget) (*PassPlan, error)
	}:
		pl, err := m.Plan(p, b)
		require.NoError(t, err)
		return pl, pl.Bound
	}
	t.Fatalf("%T has no plan", m)
	return nil, 0
}

// The mean excess on populations whose loss is known exactly stays below every
// bound, and every mechanism does better than no data at all.
func TestBoundsHold(t *testing.T) {
	const n, d, seeds = 1000, 4, 12
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	// Linear loss −⟨w,z⟩, z of independent signs with mean 0.4, over √d.
	signs := func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64) {
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = make([]float64, d)
			for j := range rows[i] {
				rows[i][j] = 1 / math.Sqrt(d)
				if rnd.Float64() < 0.3 {
					rows[i][j] *= -1
				}
			}
			labels[i] = 1
		}
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		return &erm.Problem{Data: data, Loss: linearLoss{}, Set: prox.L2Ball{R: 1}}, func(w []float64) float64 {
			return 0.4 - 0.4*floats.Sum(w)/math.Sqrt(d) // the best is M‖E z‖ = 0.4
		}
	}
	// Absolute loss on one-hot rows ±e_j with y = ⟨x,w*⟩ + N(0, s²):
	// (1/d)Σ s√(2/π)e^{−t²/2s²} + t erf(t/(s√2)), t = w_j − w*_j.
	onehot := func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64) {
		const s, star = 0.5, 0.4
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = make([]float64, d)
			x := 1 - 2*float64(rnd.IntN(2))
			rows[i][rnd.IntN(d)] = x
			labels[i] = x*star + s*rnd.NormFloat64()
		}
		data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 10})
		require.NoError(t, err)
		risk := func(v float64) float64 {
			return s*math.Sqrt(2/math.Pi)*math.Exp(-v*v/(2*s*s)) + v*math.Erf(v/(s*math.Sqrt2))
		}
		return &erm.Problem{Data: data, Loss: loss.Absolute{}, Set: prox.L2Ball{R: 1}}, func(w []float64) float64 {
			sum := 0.0
			for _, v := range w {
				sum += (risk(v-star) - risk(0)) / d
			}
			return sum
		}
	}
	for _, c := range []struct {
		family func(rnd *rand.Rand) (*erm.Problem, func(w []float64) float64)
		m      mechanism
	}{
		{signs, &NoisySGD{}},
		{signs, &NoisySGD{Scheme: FixedSize}},
		{signs, &NoisySGD{Calibration: Paper}},
		{signs, &NoisySGD{Relation: dp.AddRemove, Records: n}},
		{signs, &ObjPert{}},
		{signs, &ObjPertSVRG{}},
		{signs, &ObjPert{Calibration: Paper}},
		{signs, &Output{}},
		{signs, &PermutationSGD{}},
		{signs, &Phased{}},
		{onehot, &ProxGD{}},
		{onehot, &ProxGD{NoisySGD: NoisySGD{Scheme: FixedSize}}},
		{onehot, &ProxGD{NoisySGD: NoisySGD{Calibration: Paper}}},
	} {
		var mean, zero, bound float64
		var pl planned
		for seed := range seeds {
			p, excess := c.family(rand.New(rand.NewPCG(uint64(seed), 7)))
			if seed == 0 {
				pl, bound = plan(t, c.m, p, b)
				zero = excess(make([]float64, d))
			}
			rel, err := pl.Fit(t.Context(), p, noise.Reproducible(uint64(seed)))
			require.NoError(t, err)
			mean += excess(rel.Theta) / seeds
		}
		t.Logf("%T: mean %.4f, bound %.4f, zero %.4f", c.m, mean, bound, zero)
		require.LessOrEqual(t, mean, bound, "%T", c.m)
		require.Less(t, mean, zero, "%T", c.m)
	}
}

// With a budget that needs hardly any noise, all methods come near the minimum.
func TestCloseToNonPrivate(t *testing.T) {
	p := problem(4, 3000, 3)
	b := dp.Budget{Epsilon: 20, Delta: 1e-3}
	obj := erm.NewUnperturbed(p)
	best := math.Inf(1)
	for _, m := range []mechanism{&ObjPert{}, &ObjPertSVRG{}, &NoisySGD{}, &NoisySGD{Scheme: FixedSize}, &ProxGD{}, &DPSGD{Epochs: 20}} {
		rel, err := m.Fit(t.Context(), p, b, noise.Reproducible(3))
		require.NoError(t, err)
		f := obj.Func(rel.Theta) / 3000
		if math.IsInf(best, 1) {
			best = f // objective perturbation without noise to speak of
		}
		require.Less(t, f, best+0.1, "%T", m) // of 0.25 that there is to gain
	}
}
