package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/perturb"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
)

// linear is a setting of linear or output perturbation, of package lop or sco: a
// mechanism and two neighboring data sets. Params.Cover and Ridge are stated.
type linear struct {
	convex
	mech func(trace func(erm.Trace)) planner[*erm.Problem, *lop.Plan]

	plan       *lop.Plan
	lop.Params            // of a plan that no fault reached
	used       lop.Params // of a fit in the context of the case
	drawn      int        // coordinates of noise that recovered has drawn
}

func (c *linear) prepare(ctx context.Context, e *Env) (err error) {
	if c.plan, err = ready(ctx, e, &c.convex, c.mech, func(r record) record { return r.forced(c.bounds) }); err != nil {
		return err
	}
	c.Params = c.plan.Params()
	c.used = lop.Params(fault.At(fault.From(ctx), perturb.Calibrated, perturb.Params(c.Params)))
	return nil
}

// shift returns G, how far a neighbor moves the gradient.
func (c *linear) shift() float64 { return sensitivity(relationOf(c.data), c.Lipschitz) }

// recovered returns the noise of the objective that has its minimizer at theta on data set i:
//
//	b = −(∇F(θ) + Δθ + s),  s ∈ ∂(r + ι_C)(θ)
//
// At a kink or on a face s is not known. Given everything else, b_j is then N(0, σ²) on the
// interval that keeps θ_j there: in the coordinates (θ_j free, s_j not free) the density of b is
// the product of its marginals times a determinant of the free block alone. So such a b_j is drawn
// from that law, and b is N(0, σ²I) again, exactly and without conditions.
func (c *linear) recovered(theta []float64, i int, src rand.Source) []float64 {
	b := c.slope(theta, i, nil)
	for j, x := range theta {
		lo, hi := c.kinks.subgradients(x)
		b[j] = -(b[j] + c.Ridge*x)
		if lo == hi {
			b[j] -= lo
			continue
		}
		b[j] = truncated(b[j]-hi, b[j]-lo, c.Sigma, src)
		c.drawn++
	}
	return b
}

// white recovers b from the released point if there are no kinks, as that lies within
// a millionth of σ of the minimizer; else from the one before output noise, which alone
// tells the coordinates that are held.
func (c *linear) white(ctx context.Context, e *Env) (Finding, error) {
	aux := e.Source("held")
	f, err := c.scores(ctx, e, e.Rows(c.dim()), func(i int, rel *dp.Release) ([]float64, error) {
		theta := rel.Theta
		if c.kinks != free {
			theta = c.trace.Theta
		}
		return standard(c.recovered(theta, i, aux), c.Sigma, c.Rate), nil
	})
	if err == nil && c.drawn > 0 { // what was drawn here says nothing of the release
		f.Power = scalePower(max(1, f.Runs*c.dim()-c.drawn), 0.05, testkit.FalseReject/float64(len(f.Tests)))
	}
	f.Reason = tooSmall(c.budget, c.shift(), c.Sigma, c.Rate)
	return f, err
}

// output recovers the output noise.
func (c *linear) output(ctx context.Context, e *Env) (Finding, error) {
	f, err := c.added(ctx, e, c.Grid, c.OutputSigma, c.OutputRate)
	hidden := 2*c.Cover + c.Grid*math.Sqrt(float64(c.dim()))
	if c.Sigma+c.Rate == 0 {
		hidden += c.shift() / (c.Ridge + c.Modulus)
		f.Reason = tooSmall(c.budget, hidden, c.OutputSigma, c.OutputRate)
	}
	if !(c.Sensitivity >= hidden) {
		f.Reason = fmt.Sprintf("the output noise is calibrated to hide %.9g, the points are %.9g apart", c.Sensitivity, hidden)
	}
	return f, err
}

// coarse makes the output noise as small as half a step of the grid and tests each cell of
// the integers, where what rounds the noise is all that there is: z is exactly
// N(0,1) for round(ν/g) of a real ν ~ N(0, σ²), whatever it is added to.
func (c *linear) coarse(ctx context.Context, e *Env) (Finding, error) {
	const ratio = 0.5 // σ/g
	ctx = fault.With(ctx, perturb.Calibrated, func(p perturb.Params) perturb.Params {
		p.OutputSigma = ratio * p.Grid
		return p
	})
	aux := e.Source("cells")
	return c.scores(ctx, e, e.Rows(1), func(_ int, rel *dp.Release) ([]float64, error) {
		// Both signs of the point, odd and even: the law does not depend on where it lies.
		return []float64{placedNormal(steps(rel.Theta[0], c.trace.Theta[0], c.Grid), ratio, aux)}, nil
	})
}

// residues tests that the integers that are released have uniform residues modulo 8.
func (c *linear) residues(ctx context.Context, e *Env) (Finding, error) {
	aux := e.Source("cells")
	return c.scores(ctx, e, e.Rows(c.dim()), func(_ int, rel *dp.Release) ([]float64, error) {
		z := make([]float64, c.dim())
		for j, x := range rel.Theta {
			u := (float64(int64(x/c.Grid)&7) + uniform(aux)) / 8
			z[j] = Normal(u, 1-u)
		}
		return z, nil
	})
}

// covered sees the noise of each release, for the minimizer that it implies.
func (c *linear) covered(ctx context.Context, e *Env) (Finding, error) {
	b := make([]float64, c.dim())
	ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		copy(b, q.Linear) // not of output perturbation
		return q
	})
	return c.within(ctx, e, c.Cover, func(theta []float64) ([]float64, float64) {
		return floats.AddScaledTo(make([]float64, len(b)), b, c.Ridge, theta), c.Ridge
	})
}

// permuted releases from the records in other orders with the noise kept: the
// certified points lie within 2R of one another.
func (c *linear) permuted(ctx context.Context, e *Env) (Finding, error) {
	shuffled := *c
	rnd := rand.New(e.Source("order"))
	f, worst := Claimed(c.cert), 0.0
	for run := range 20 * int(e.Tier) {
		for i := range shuffled.data {
			shuffled.data[i] = slices.Clone(c.data[i])
			rnd.Shuffle(len(shuffled.data[i]), func(j, k int) {
				shuffled.data[i][j], shuffled.data[i][k] = shuffled.data[i][k], shuffled.data[i][j]
			})
		}
		if err := shuffled.prepare(ctx, e); err != nil {
			return f, err
		}
		for _, set := range []*linear{c, &shuffled} {
			if _, err := set.fit[run%2](ctx, e.Source("order", fmt.Sprint(run))); err != nil {
				return f, err
			}
			f.Runs++
		}
		worst = math.Max(worst, floats.Distance(c.trace.Theta, shuffled.trace.Theta, 2))
		if 2*cover < worst {
			f.Reason = fmt.Sprintf("another order of the records moves the point by %.3g, the claim is at most %.3g", worst, 2*cover)
		}
	}
	return f, nil
}

// exact integrates the density of the release under the noise of a fit against the
// profile that the plan claims.
func (c *linear) exact(context.Context, *Env) (Finding, error) {
	d, err := divergence(c.laws())
	if err != nil {
		return Finding{}, err
	}
	return Integrate(c.cert, c.plan.Profile().Delta, d.Max), nil
}

// on returns the setting on other data.
func (c *linear) on(data [2][]record) exactly {
	other := *c
	other.data = data
	return &other
}

func (c *linear) outside(ctx context.Context, e *Env) (Finding, error) {
	c.used = c.Params // what an attacker knows
	return c.black(ctx, e, c.laws, func(x float64) float64 { return x })
}

// named is the attack on the values of the sampler: whoever knows all records but one computes, for
// each candidate data set, the noise b that a released minimizer implies. If the sampler has few
// values, the noise of the true data set is one of them and that of the other is not [Mir12].
//
// The output noise is switched off and the cover is the least that can be certified, so
// that the sampler alone is tested. The noise that ours implies is never a value of the
// ziggurat in all coordinates; against the ziggurat the attack names the data.
func (c *linear) named(ctx context.Context, e *Env) (Finding, error) {
	ctx = fault.With(ctx, release.OutputNoise, func(k []int64) []int64 { return make([]int64, len(k)) })
	f := Claimed(c.cert)
	f.Runs = 400
	const tol = 4e-13 // ten coordinates of a real number pass with probability below 1e-9
	fits := func(theta []float64, i int) bool {
		for _, b := range c.recovered(theta, i, nil) {
			if z := b / c.Sigma; math.Abs(z) < lattice.edge[1] && !lattice.has(z, tol) {
				return false
			}
		}
		return true
	}
	named, src := 0, e.Source("lattice")
	for range f.Runs {
		i, rel, err := c.turn(ctx, src)
		if err != nil {
			return f, err
		}
		if fits(rel.Theta, i) && !fits(rel.Theta, 1-i) {
			named++
		}
	}
	if named > 0 {
		f.Reason = fmt.Sprintf("the noise of %d of %d releases names the data set", named, f.Runs)
	}
	return f, nil
}

// ridged returns a Break that multiplies Δ in the objective.
func ridged(c float64) func(context.Context) context.Context {
	return one(release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		var scaled mat.SymDense
		scaled.ScaleSym(c, q.Quad)
		q.Quad = &scaled
		return q
	})
}
