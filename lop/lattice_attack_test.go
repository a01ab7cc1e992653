package lop_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// naiveSteps are the 128 steps of math/rand/v2's normal generator: its values
// below the tail are j·w_i, |j| ≤ 2³¹, w_i a float32.
var naiveSteps = func() (w [128]float64) {
	const r, v = 3.442619855899, 9.91256303526217e-3
	x := r
	w[0], w[127] = float64(float32(v/math.Exp(-r*r/2)/(1<<31))), float64(float32(r/(1<<31)))
	for i := 126; i > 0; i-- {
		x = math.Sqrt(-2 * math.Log(v/x+math.Exp(-x*x/2)))
		w[i] = float64(float32(x / (1 << 31)))
	}
	return w
}()

// onNaiveLattice reports whether z is a value of that generator up to tol.
func onNaiveLattice(z, tol float64) bool {
	for _, w := range naiveSteps {
		j := math.RoundToEven(z / w)
		if math.Abs(j) <= 1<<31 && math.Abs(z-j*w) <= tol {
			return true
		}
	}
	return false
}

// candidate is a data set that the attacker thinks possible.
type candidate struct {
	rows   [][]float64
	labels []float64
}

// implied returns b = −∇Σℓ(θ) − Δθ, the noise that a candidate implies for a
// logistic loss.
func (c candidate) implied(theta []float64, delta float64) []float64 {
	b := make([]float64, len(theta))
	for j, v := range theta {
		b[j] = -delta * v
	}
	for i, a := range c.rows {
		u := 0.
		for j, v := range a {
			u += v * theta[j]
		}
		w := c.labels[i] / (1 + math.Exp(c.labels[i]*u))
		for j, v := range a {
			b[j] += w * v
		}
	}
	return b
}

func (c candidate) problem(t *testing.T) *erm.Problem {
	t.Helper()
	data, err := erm.NewData(c.rows, c.labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	return &erm.Problem{Data: data, Loss: loss.Logistic{}}
}

// sphere returns n unit rows in d dimensions with random classes.
func sphere(n, d int, src rand.Source) (c candidate) {
	for range n {
		a := make([]float64, d)
		noise.Sphere(a, src)
		for j := range a { // inside the bound, so that the attacker knows the rows
			a[j] *= 1 - 0x1p-40
		}
		c.rows = append(c.rows, a)
		c.labels = append(c.labels, math.Copysign(1, noise.Uniform(src)-0.5))
	}
	return c
}

// TestLatticeAttack is the attack that breaks objective perturbation with
// math/rand's normal numbers, on the production path with the output step
// switched off and the solver driven to the limit of rounding: the attacker
// knows all records but one label, computes the noise that each label implies,
// and looks for the one that the generator can make. It names the data of every
// release if the sampler is NormFloat64, and of none if it is ours. With the
// output step on, it fails even against NormFloat64.
func TestLatticeAttack(t *testing.T) {
	releases := 400
	if testing.Short() {
		releases = 60
	}
	src := noise.Reproducible(41, "lop lattice")
	right := sphere(200, 10, src)
	wrong := candidate{right.rows, append([]float64{-right.labels[0]}, right.labels[1:]...)}
	m := &lop.Mechanism{Delta: 5, Radius: 1, Cover: 1e-14}
	plan, err := m.Plan(right.problem(t), dp.Budget{Epsilon: 0.5, Delta: 1e-6})
	require.NoError(t, err)

	// R = 1e-14 is beyond what rounding can certify: release all the same.
	certain := fault.With(t.Context(), fault.Certified, func(bool) bool { return true })
	attack := func(ctx context.Context) (identified, mistaken int) {
		fits := func(c candidate, theta []float64) bool {
			for _, v := range c.implied(theta, plan.Delta) {
				v /= plan.Sigma
				if math.Abs(v) < 3.44 && !onNaiveLattice(v, 4e-14) { // beyond, the generator's values are no lattice
					return false
				}
			}
			return true
		}
		data := [2]candidate{right, wrong}
		problems := [2]*erm.Problem{right.problem(t), wrong.problem(t)}
		for range releases {
			truth := int(src.Uint64() & 1)
			rel, err := plan.Fit(ctx, problems[truth], src)
			require.NoError(t, err)
			switch hit, other := fits(data[truth], rel.Theta), fits(data[1-truth], rel.Theta); {
			case hit && !other:
				identified++
			case other && !hit:
				mistaken++
			}
		}
		require.Empty(t, fault.From(ctx).Missed())
		return identified, mistaken
	}
	naive := rand.New(rand.NewChaCha8([32]byte{41}))
	ziggurat := func(ctx context.Context) context.Context {
		return fault.With(ctx, fault.Sampler, func(fault.Normal) fault.Normal {
			return func(dst []float64, sigma float64, _ rand.Source) {
				for i := range dst {
					dst[i] = sigma * naive.NormFloat64()
				}
			}
		})
	}
	bare := fault.With(certain, fault.OutputScale, func(float64) float64 { return 0 })

	identified, mistaken := attack(ziggurat(bare))
	require.GreaterOrEqual(t, identified, releases*39/40, "the attack must succeed against the naive sampler")
	require.Zero(t, mistaken)

	// A real number is that near the lattice with probability below 0.01 in each
	// of ten coordinates: no hit is due to chance.
	identified, mistaken = attack(bare)
	require.Equal(t, [2]int{0, 0}, [2]int{identified, mistaken}, "our sampler")

	// The output noise replaced by the naive generator too: still no hit.
	identified, mistaken = attack(ziggurat(certain))
	require.Equal(t, [2]int{0, 0}, [2]int{identified, mistaken}, "covered release")
}
