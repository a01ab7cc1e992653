// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// linear is a setting of linear or output perturbation, of package lop or sco: a mechanism and two
// neighboring data sets. The mechanism states its Cover and Ridge.
type linear struct {
	convex
	mech func(trace func(erm.Trace)) planner[*erm.Problem, *lop.Plan]

	center []float64 // of the ridge; nil means 0

	plan       *lop.Plan
	lop.Params            // of a plan without faults
	used       lop.Params // of a fit in the context of the case
	drawn      int        // coordinates of noise that recovered has drawn
}

func (c *linear) prepare(ctx context.Context, e *env) (err error) {
	use := func(r record) record { return r.forced(c.bounds) }
	if c.plan, err = ready(ctx, e, &c.convex, use, c.mech); err != nil {
		return err
	}
	c.Params = c.plan.Params()
	c.used = lop.Params(fault.At(fault.From(ctx), engine.Calibrated, engine.Params(c.Params)))
	return nil
}

// shift returns G, the distance by which a neighbor moves the gradient.
func (c *linear) shift() float64 { return sensitivity(relationOf(c.data), c.Lipschitz) }

// recovered returns the noise of the objective that has its minimizer at theta on data set i:
//
//	b = −(∇F(θ) + Δθ + s),  s ∈ ∂(r + ι_C)(θ)
//
// At a kink or on a face s_j is unknown. Given everything else, b_j is then N(0, σ²) on the
// interval that keeps θ_j there: in the coordinates (θ_j free, s_j held) the density of b is the
// product of its marginals times a determinant of the free block. Drawing b_j from that law makes b
// exactly N(0, σ²I) again.
func (c *linear) recovered(theta []float64, i int, src rand.Source) []float64 {
	b := c.slope(theta, i, nil)
	for j, x := range theta {
		lo, hi := c.kinks.subgradients(x)
		b[j] = -(b[j] + c.Ridge*(x-c.at(j)))
		if lo == hi {
			b[j] -= lo
			continue
		}
		b[j] = truncated(b[j]-hi, b[j]-lo, c.Sigma, src)
		c.drawn++
	}
	return b
}

// at returns coordinate j of the center of the ridge.
func (c *linear) at(j int) float64 {
	if c.center == nil {
		return 0
	}
	return c.center[j]
}

// white recovers b from the released point, which lies within a millionth of σ of the minimizer. If
// there are kinks, it uses the point before output noise, which shows the held coordinates.
func (c *linear) white(ctx context.Context, e *env) (Finding, error) {
	aux := e.source("held")
	f, err := c.scores(ctx, e, e.rows(c.dim()), func(i int, rel *dp.Release) ([]float64, error) {
		theta := rel.Theta
		if c.kinks != free {
			theta = c.trace.Theta
		}
		return standard(c.recovered(theta, i, aux), c.Sigma, c.Rate), nil
	})
	if err == nil && c.drawn > 0 { // coordinates drawn here say nothing about the release
		known := max(1, f.Runs*c.dim()-c.drawn)
		f.Power = scalePower(known, 0.05, testkit.FalseReject/float64(len(f.Tests)))
	}
	f.Reason = tooSmall(c.budget, c.shift(), c.Sigma, c.Rate)
	return f, err
}

// output recovers the output noise.
func (c *linear) output(ctx context.Context, e *env) (Finding, error) {
	f, err := c.added(ctx, e, c.Grid, c.OutputSigma, c.OutputRate)
	hidden := 2*c.Cover + c.Grid*math.Sqrt(float64(c.dim()))
	if c.Sigma+c.Rate == 0 {
		hidden += c.shift() / (c.Ridge + c.Modulus)
		f.Reason = tooSmall(c.budget, hidden, c.OutputSigma, c.OutputRate)
	}
	if !(c.Sensitivity >= hidden) {
		f.Reason = fmt.Sprintf("the output noise is calibrated to hide %.9g, the points are %.9g apart",
			c.Sensitivity, hidden)
	}
	return f, err
}

// coarse reduces the output noise to half a step of the grid, so that its rounding decides the law
// of the integers: z is exactly N(0,1) for round(ν/g) of a real ν ~ N(0, σ²), added to any point.
func (c *linear) coarse(ctx context.Context, e *env) (Finding, error) {
	const ratio = 0.5 // σ/g
	ctx = fault.With(ctx, engine.Calibrated, func(p engine.Params) engine.Params {
		p.OutputSigma = ratio * p.Grid
		return p
	})
	aux := e.source("cells")
	return c.scores(ctx, e, e.rows(1), func(_ int, rel *dp.Release) ([]float64, error) {
		return []float64{placedNormal(steps(rel.Theta[0], c.trace.Theta[0], c.Grid), ratio, aux)}, nil
	})
}

// covered tests the cover radius with the noise of each release.
func (c *linear) covered(ctx context.Context, e *env) (Finding, error) {
	b := make([]float64, c.dim())
	ctx = fault.With(ctx, release.Drawn, func(q erm.Perturbation) erm.Perturbation {
		copy(b, q.Linear) // not of output perturbation
		return q
	})
	return c.within(ctx, e, c.Cover, func(theta []float64) ([]float64, float64) {
		v := floats.AddScaledTo(make([]float64, len(b)), b, c.Ridge, theta)
		for j := range v {
			v[j] -= c.Ridge * c.at(j)
		}
		return v, c.Ridge
	})
}

// permuted releases from the records in other orders with equal noise: the certified points must
// lie within 2R of one another.
func (c *linear) permuted(ctx context.Context, e *env) (Finding, error) {
	shuffled := *c
	rnd := rand.New(e.source("order"))
	f, worst := Claimed(c.cert), 0.0
	for run := range 20 * int(e.tier) {
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
			if _, err := set.fit[run%2](ctx, e.source("order", fmt.Sprint(run))); err != nil {
				return f, err
			}
			f.Runs++
		}
		worst = math.Max(worst, floats.Distance(c.trace.Theta, shuffled.trace.Theta, 2))
		if 2*cover < worst {
			f.Reason = fmt.Sprintf("another order of the records moves the point by %.3g, the claim is at most %.3g",
				worst, 2*cover)
		}
	}
	return f, nil
}

// exact compares the divergence of the releases, under the noise of a fit, with the profile that
// the plan claims.
func (c *linear) exact(context.Context, *env) (Finding, error) {
	p, q, err := c.laws()
	d, err := known(p, q, err)
	if err != nil {
		return Finding{}, err
	}
	return integrate(c.cert, c.plan.Profile().Delta, d.max), nil
}

func (c *linear) outside(ctx context.Context, e *env) (Finding, error) {
	c.used = c.Params // the attacker does not know of a fault
	return c.black(ctx, e, c.laws, func(x float64) float64 { return x })
}

// named attacks a sampler of few values: for each candidate data set the attacker computes the
// noise b that a released minimizer implies. The noise of the true data set consists of values of
// the sampler, that of the other does not [Mir12].
//
// There is no output noise and the cover is the least that can be certified, so that only the
// sampler is tested. The attack tries the values of the ziggurat generator.
func (c *linear) named(ctx context.Context, e *env) (Finding, error) {
	ctx = noOutput(ctx)
	f := Claimed(c.cert)
	f.Runs = 400
	const tol = 4e-13 // ten real coordinates pass with probability below 1e-9
	fits := func(theta []float64, i int) bool {
		for _, b := range c.recovered(theta, i, nil) {
			if z := b / c.Sigma; math.Abs(z) < lattice.edge[1] && !lattice.has(z, tol) {
				return false
			}
		}
		return true
	}
	named, src := 0, e.source("lattice")
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

func (c *linear) laws() (p, q law, err error) { return c.law1(0), c.law1(1), nil }

// law1 returns the exact law of the release for d = 1 on data set i. With noise b it leaves out the
// output noise and changes variables,
//
//	b(θ) = −(F′(θ) + Δθ + s),   density ν(b(θ))·(F″(θ) + Δ),   ν the density of b
//
// off the kinks. A kink or a face has the probability that b + F′ + Δθ is a value of −s. For output
// perturbation it returns the law of the noise around the minimizer.
func (c *linear) law1(i int) law {
	hess := make([]float64, 1)
	at := func(x float64) (b, slope float64) {
		g := c.slope([]float64{x}, i, hess)
		return -(g[0] + c.Ridge*(x-c.at(0))), hess[0] + c.Ridge
	}
	root := func(reach float64) float64 { // of b
		x, _ := num.Bisect(func(x float64) bool { b, _ := at(x); return b >= 0 }, -reach, reach)
		return x
	}
	total := float64(len(c.records[i])) * c.Lipschitz
	sigma, rate := c.used.Sigma, c.used.Rate
	if sigma+rate == 0 {
		center := root(total / c.Ridge)
		return scalar{c.used.OutputSigma, c.used.OutputRate}.around(center)
	}
	n := scalar{sigma, rate}
	l := law{logDensity: func(x float64) float64 {
		if x <= c.kinks.lo || x >= c.kinks.hi {
			return math.Inf(-1)
		}
		b, slope := at(x)
		return n.logDensity(b-c.kinks.weight*sign(x)) + math.Log(slope)
	}}
	for _, rec := range c.records[i] {
		for _, k := range c.jumps(rec) {
			if a := rec.a[0]; a != 0 {
				l.breaks = append(l.breaks, k/a)
			}
		}
	}
	reach := (n.width()+total+c.kinks.weight)/c.Ridge + math.Abs(c.at(0))
	l.lo, l.hi = math.Max(-reach, c.kinks.lo), math.Min(reach, c.kinks.hi)
	if rate > 0 { // the density of b has a kink at b = 0
		l.breaks = append(l.breaks, root(reach))
	}
	for _, x := range c.kinks.places() {
		b, _ := at(x)
		lo, hi := c.kinks.subgradients(x)
		l.at, l.mass = append(l.at, x), append(l.mass, n.below(b-lo)-n.below(b-hi))
		l.breaks = append(l.breaks, x)
	}
	slices.Sort(l.breaks)
	return l
}

// scalar is noise on the line: N(0, σ²), or of density (a/2)exp(−a|x|) where σ = 0.
type scalar struct{ sigma, rate float64 }

func (n scalar) logDensity(x float64) float64 {
	if n.rate > 0 {
		return math.Log(n.rate/2) - n.rate*math.Abs(x)
	}
	return -x*x/(2*n.sigma*n.sigma) - math.Log(n.sigma) - math.Log(2*math.Pi)/2
}

// below returns P(N ≤ x).
func (n scalar) below(x float64) float64 {
	switch {
	case n.rate == 0:
		return num.NormalCDF(x / n.sigma)
	case x < 0:
		return math.Exp(n.rate*x) / 2
	}
	return 1 - math.Exp(-n.rate*x)/2
}

// width returns a bound on |x| that the noise exceeds with negligible probability.
func (n scalar) width() float64 {
	if n.rate > 0 {
		return 40 / n.rate
	}
	return 12 * n.sigma
}

// around returns the law of noise that is added to x.
func (n scalar) around(x float64) law {
	return law{logDensity: func(y float64) float64 { return n.logDensity(y - x) }, lo: x - n.width(), hi: x + n.width(),
		breaks: []float64{x}}
}

func sign(x float64) float64 { return float64(cmp.Compare(x, 0)) }

// jumps returns the predictions at which φ″ of a record jumps: u = b ± k for Huber's loss and for
// clipped gradients.
func (c *linear) jumps(rec record) (at []float64) {
	curved := func(u float64) bool {
		_, curve := derivatives(c.loss.(loss.Linear), u, rec.b, math.Abs(rec.a[0]), c.clip)
		return curve > 0
	}
	const span, n = 60.0, 600
	for i := range n {
		lo, hi := rec.b-span+2*span*float64(i)/n, rec.b-span+2*span*float64(i+1)/n
		if inside := curved(lo); inside != curved(hi) {
			x, _ := num.Bisect(func(u float64) bool { return curved(u) == inside }, lo, hi)
			at = append(at, x)
		}
	}
	return at
}

// ziggurat has the values of the normal generator of math/rand and gonum: below its tail a draw is
// a 32-bit integer times one of 128 steps, 2³⁹ values in all.
type ziggurat struct {
	step [128]float64
	edge [128]float64 // the right ends of the layers
}

// lattice has the 128 layers of equal area of [MT00].
var lattice = func() (z ziggurat) {
	const r, v = 3.442619855899, 9.91256303526217e-3
	z.edge[1] = r
	z.edge[0] = v / math.Exp(-r*r/2)
	for i := 2; i < 128; i++ {
		x := z.edge[i-1]
		z.edge[i] = math.Sqrt(-2 * math.Log(v/x+math.Exp(-x*x/2)))
	}
	for i := range z.step {
		z.step[i] = float64(float32(z.edge[i] / (1 << 31)))
	}
	return z
}()

// has reports whether x is within tol of a value of the generator.
func (z *ziggurat) has(x, tol float64) bool {
	for _, w := range z.step {
		j := math.RoundToEven(x / w)
		if math.Abs(j) <= 1<<31 && math.Abs(x-j*w) <= tol {
			return true
		}
	}
	return false
}
