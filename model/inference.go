// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/table"
)

// inference computes intervals from a release alone. For a quadratic loss with gradient
// sum g at the truth θ₀, noise b and Ĥ = H + E, exactly
//
//	(Ĥ+Δ)θ̃ = Ĥθ₀ − g − b + E(θ̃−θ₀)
//	u'(Ĥ+Δ)θ̃ − k'θ₀ = (Ĥu−k)'θ₀ − u'(g+b) + u'E(θ̃−θ₀)       for every u
//
// so that u = Ĥ⁻¹k removes the shrinkage. With v = θ̃ − θ_db, m² ≈ ‖θ̃−θ₀‖², the variance is about
//
//	max(u'Ĵu, 0) + κτ_J‖u‖² + σ²‖u‖² + ½τ_H²(m²‖u‖² + (u'v)²)
//
// ‖E‖ is about τ_H√(2d). Where Ĥ has an eigenvalue near that, u = Ĥ(Ĥ²+λ)⁻¹k leaves the bias
// (Ĥu−k)'θ₀ of at most B‖Ĥu−k‖, and λ is chosen for the shortest interval.
type inference struct {
	theta           []float64
	ridge, sigma    float64 // Δ, σ
	output          float64 // deviation of the noise on θ̃
	tauH, tauJ      float64
	level, radius   float64 // B, 0 for none
	fallback        float64 // B where intervals would be the whole line without one
	hessian, scores *mat.SymDense
	basis           *mat.Dense    // V, nil for the whole space
	eig             []float64     // of Ĥ, increasing
	vectors         *mat.Dense    // of Ĥ, in columns
	shape           *mat.SymDense // J_m, which chooses λ
	kappa           float64       // κ
	v               []float64     // θ̃ − θ_db
	m2              float64
	raised          float64 // largest relative raise of an eigenvalue of Ĥ
	// The identity also holds for a part of the coordinates, with the others held at θ̃: H, g and b
	// have the rows and columns of the part, and θ₀ is the minimizer over it. What hardly varies is
	// held for every k that is 0 there, so that only its own intervals are wide.
	part *inference // nil for all coordinates
	kept []int      // the coordinates of part
	few  []int      // the coordinates that hardly vary
}

// inference prepares the intervals of a model that has moments.
func (m *Model) inference() *inference {
	c := m.choice
	in := inference{
		theta: m.theta, ridge: c.Ridge +
			m.params.Penalty.Ridge*float64(m.params.Records), sigma: c.Sigma, output: c.OutputSigma,
		tauH: m.moments.hessianTau, tauJ: m.moments.scoresTau, level: m.params.Intervals.Level,
		radius:  m.params.Intervals.Radius,
		hessian: m.moments.hessian, scores: m.moments.scores,
	}
	if m.encoder == nil {
		return newInference(in)
	}
	in.fallback = reach(m.encoder)
	same := constants(m.encoder)
	if kept, means := in.occurring(m.encoder); len(kept) < len(in.theta) {
		part, theta := in, slices.Clone(in.theta)
		if i := intercept(m.encoder); i >= 0 { // it takes what others add to the score of an average row
			for j, v := range in.theta {
				if !slices.Contains(kept, j) {
					theta[i] += means[j] * v
				}
			}
		}
		part.theta, part.hessian, part.scores = pick(theta, kept), principal(in.hessian, kept), principal(in.scores, kept)
		part.reduce(restricted(same, kept))
		in.kept, in.part = kept, newInference(part)
	}
	in.reduce(same)
	return newInference(in)
}

// mostHeld bounds the weight of the records, as a share of all, whose levels are held: at most by
// this share of the error of a held coefficient do they move the others. In simulations with eight
// rare levels of sixteen, coverage of the others fell to 0.88 without the bound; with it, to 0.93
// at least.
const mostHeld = 0.1

// occurring returns the coordinates but for those that hardly vary: levels and bins that hardly
// occur, or that nearly all records have, and numbers that are nearly the same in all. They vary no
// more than noise alone explains, or too little for an interval without a radius. If they may have
// more than the share mostHeld together, it returns all coordinates. means holds the entries of an
// average row, over its intercept; they are 0 without an intercept.
func (q *inference) occurring(e *table.Encoder) (kept []int, means []float64) {
	var all []int
	held, noise := 0.0, 0.0                   // Σφ″(a_j − mean)², over the square of an entry; its variance
	half := e.LabelValue(1) - e.LabelValue(0) // of the range of the label, or 1
	means = make([]float64, len(q.theta))
	if i := intercept(e); i >= 0 && q.hessian.At(i, i) > 3*q.tauH {
		for j := range means {
			means[j] = q.hessian.At(i, j) / q.hessian.At(i, i)
		}
	}
	widths := widths(e)
	for j, f := range e.Features() {
		all = append(all, j)
		h := q.hessian.At(j, j)
		if i := intercept(e); i >= 0 {
			h -= means[j] * means[j] * q.hessian.At(i, i)
		}
		if f.Column == "" || h > max(3*q.tauH, q.edge()/2) {
			kept = append(kept, j)
			continue
		}
		q.few = append(q.few, j)
		x := f.Scale / half // the entry of the indicator, or at the end of a range
		if w, ok := widths[f.Column]; ok && !indicator(f) {
			x *= w / 2
		}
		held += h / (x * x)
		noise += math.Pow(q.tauH/(x*x), 2)
	}
	if held+math.Sqrt(noise) > mostHeld*mat.Trace(q.hessian) {
		return all, means
	}
	return kept, means
}

// intercept returns the coordinate of the intercept, -1 for none.
func intercept(e *table.Encoder) int {
	return slices.IndexFunc(e.Features(), func(f table.Feature) bool { return f.Column == "" })
}

// widths returns those of the ranges of numbers.
func widths(e *table.Encoder) map[string]float64 {
	out := map[string]float64{}
	for _, c := range e.Schema().Columns {
		if c.Min != nil && c.Bins == nil {
			out[c.Name] = *c.Max - *c.Min
		}
	}
	return out
}

// pick returns the given coordinates of x.
func pick(x []float64, kept []int) []float64 {
	out := make([]float64, len(kept))
	for i, j := range kept {
		out[i] = x[j]
	}
	return out
}

// principal returns the given rows and columns of a matrix.
func principal(m *mat.SymDense, kept []int) *mat.SymDense {
	out := mat.NewSymDense(len(kept), nil)
	for i, j := range kept {
		for k := i; k < len(kept); k++ {
			out.SetSym(i, k, m.At(j, kept[k]))
		}
	}
	return out
}

// restricted returns the given coordinates of vectors, without those of a column that has none of
// them.
func restricted(vectors [][]float64, kept []int) (out [][]float64) {
	for _, t := range vectors {
		if part := pick(t, kept); floats.Norm(part, 2) > 0 {
			out = append(out, part)
		}
	}
	return out
}

// Largest effects that intervals suppose where the data determine no better bound: of a column on a
// number, in units of half its range, and on log odds.
const (
	widestEffect  = 2.0
	widestLogOdds = 10.0
)

// reach returns a bound on the norm of θ if no column changes a prediction by more than the width
// of the range of the label, or than 10 in log odds.
func reach(e *table.Encoder) float64 {
	effect, toLabel := widestLogOdds, 1.0
	if e.Kind() == table.Range {
		effect, toLabel = widestEffect, e.LabelValue(1)-e.LabelValue(0)
	}
	widths, sum := widths(e), 0.0
	for _, f := range e.Features() {
		change := (f.Scale + f.Offset) / toLabel // of the prediction, for θ_j = 1: from 0 to the indicator
		if w, ok := widths[f.Column]; ok {
			change = f.Scale / toLabel * w
		}
		sum += effect / change * effect / change
	}
	return math.Sqrt(sum)
}

// constants returns the vectors t for which the schema makes ⟨a,t⟩ the same for every row: one for
// the intercept, and one for each column in which every row has exactly one level or bin.
func constants(e *table.Encoder) [][]float64 {
	var out [][]float64
	s := e.Schema()
	for _, c := range append([]table.Column{{}}, s.Columns...) { // the intercept has no column
		indicators := (c.Levels != nil || c.Bins != nil) && c.Reference == ""
		gaps := !c.Missing && (len(s.Missing) > 0 || c.Bins != nil && c.Other)
		if c.Ignore || c.Name != "" && (!indicators || gaps) {
			continue
		}
		t, has := make([]float64, e.Dim()), false
		for j, f := range e.Features() {
			if f.Column == c.Name {
				t[j], has = 1/(f.Scale+f.Offset), true
			}
		}
		if has {
			out = append(out, t)
		}
	}
	return out
}

// reduce rewrites the release in an orthonormal basis of the orthogonal complement of the
// differences of the given vectors. All rows are orthogonal to these differences, so data carry no
// information about θ along them. E and b have the same law in the basis. The estimates are those
// of the solution of least norm.
func (q *inference) reduce(constants [][]float64) {
	if len(constants) < 2 {
		return
	}
	d, null := len(q.theta), len(constants)-1
	gram := mat.NewSymDense(d, nil)
	for _, t := range constants[1:] {
		diff := make([]float64, d)
		floats.SubTo(diff, t, constants[0])
		floats.Scale(1/floats.Norm(diff, 2), diff)
		gram.SymRankOne(gram, 1, mat.NewVecDense(d, diff))
	}
	var eig mat.EigenSym
	if !eig.Factorize(gram, true) {
		return
	}
	var all mat.Dense
	eig.VectorsTo(&all) // eigenvalues increase: the complement comes first
	q.basis = mat.DenseCopyOf(all.Slice(0, d, 0, d-null))
	q.theta = q.project(q.theta)
	q.hessian, q.scores = q.congruent(q.hessian), q.congruent(q.scores)
}

// project returns x in the basis.
func (q *inference) project(x []float64) []float64 {
	if q.basis == nil {
		return x
	}
	_, p := q.basis.Dims()
	out := mat.NewVecDense(p, nil)
	out.MulVec(q.basis.T(), mat.NewVecDense(len(x), x))
	return out.RawVector().Data
}

// congruent returns V'AV.
func (q *inference) congruent(a *mat.SymDense) *mat.SymDense {
	var av, full mat.Dense
	av.Mul(a, q.basis)
	full.Mul(q.basis.T(), &av)
	return symmetrized(&full)
}

// symmetrized returns (A + A')/2.
func symmetrized(a *mat.Dense) *mat.SymDense {
	d, _ := a.Dims()
	out := mat.NewSymDense(d, nil)
	for j := range d {
		for k := j; k < d; k++ {
			out.SetSym(j, k, (a.At(j, k)+a.At(k, j))/2)
		}
	}
	return out
}

func newInference(in inference) *inference {
	q := &in
	d := len(q.theta)
	var eig mat.EigenSym
	if !eig.Factorize(q.hessian, true) {
		return nil
	}
	q.eig, q.vectors = eig.Values(nil), new(mat.Dense)
	eig.VectorsTo(q.vectors)
	positive := func(l float64) float64 { return max(l, 0) }
	hPlus := q.function(positive)

	// J_m: the shape of Ĥ with the trace of Ĵ.
	q.shape = mat.NewSymDense(d, nil)
	if trace := mat.Trace(hPlus); d > 1 && trace > 0 {
		q.shape.ScaleSym(max(mat.Trace(q.scores), 0)/trace, hPlus)
	}
	q.kappa = leastKappa(q.sigma*q.sigma/q.tauJ, q.level)

	// v = −ΔĤ⁻¹θ̃ with eigenvalues raised to the edge. The relative raise is the share of θ₀ that only
	// the radius bounds.
	least := q.edge()
	if q.radius == 0 && q.eig[0] <= least/2 {
		q.radius = q.fallback
	}
	q.v = q.apply(func(l float64) float64 { return -q.ridge / max(l, least) }, q.theta)
	for _, l := range q.eig {
		q.raised = max(q.raised, math.Abs(l/max(l, least)-1))
	}
	var jEig mat.EigenSym
	jPlus := mat.NewSymDense(d, nil)
	if jEig.Factorize(q.scores, true) {
		var jv mat.Dense
		jEig.VectorsTo(&jv)
		jPlus = spectral(&jv, jEig.Values(nil), positive)
	}
	for j := range d {
		jPlus.SetSym(j, j, jPlus.At(j, j)+q.sigma*q.sigma)
	}
	var t, tt mat.Dense
	a := q.function(func(l float64) float64 { return 1 / (max(l, 0) + q.ridge) })
	t.Mul(a, jPlus)
	tt.Mul(&t, a)
	norm := floats.Norm(q.theta, 2)
	q.m2 = floats.Dot(q.v, q.v)
	if q.radius > 0 {
		q.m2 = min((norm+q.radius)*(norm+q.radius), q.m2+q.radius*q.radius*q.raised*q.raised)
	}
	q.m2 += mat.Trace(&tt)
	return q
}

// edge returns approximately the norm of the noise in Ĥ.
func (q *inference) edge() float64 { return q.tauH * math.Sqrt(2*float64(len(q.theta))) }

// function returns f(Ĥ).
func (q *inference) function(f func(l float64) float64) *mat.SymDense {
	return spectral(q.vectors, q.eig, f)
}

// spectral returns V diag(f(λ)) V'.
func spectral(v *mat.Dense, values []float64, f func(l float64) float64) *mat.SymDense {
	var scaled, full mat.Dense
	scaled.Apply(func(_, j int, x float64) float64 { return x * f(values[j]) }, v)
	full.Mul(&scaled, v.T())
	return symmetrized(&full)
}

// apply returns f(Ĥ)x.
func (q *inference) apply(f func(l float64) float64, x []float64) []float64 {
	d := len(x)
	coord := mat.NewVecDense(d, nil)
	coord.MulVec(q.vectors.T(), mat.NewVecDense(d, x))
	for j, l := range q.eig {
		coord.SetVec(j, coord.AtVec(j)*f(l))
	}
	out := mat.NewVecDense(d, nil)
	out.MulVec(q.vectors, coord)
	return out.RawVector().Data
}

// interval returns the interval of constant + ⟨k,θ₀⟩, nil if the sums have no eigenvalues.
func (q *inference) interval(k []float64, constant float64) *Interval {
	if q == nil {
		return nil
	}
	if q.part != nil && floats.Norm(pick(k, q.kept), 1) == floats.Norm(k, 1) { // no share of the others
		return q.part.interval(pick(k, q.kept), constant)
	}
	k = q.project(k)
	edge, least := q.edge(), q.eig[0]
	var lambdas []float64
	if least > edge/2 {
		lambdas = append(lambdas, 0)
	}
	if least <= 2*edge && q.radius > 0 {
		for e := -3.0; e <= 2; e += 0.5 {
			lambdas = append(lambdas, q.tauH*q.tauH*float64(len(k))*math.Pow(10, e))
		}
	}
	var best *Interval
	for least, rest := math.Inf(1), lambdas; len(rest) > 0; rest = rest[1:] {
		if i, planned := q.at(k, constant, rest[0]); planned < least {
			best, least = i, planned
		}
	}
	if best == nil || !(best.Upper-best.Lower < math.Inf(1)) { // not identified
		best, _ = q.at(k, constant, q.tauH*q.tauH*float64(len(k)))
		best.Weak, best.Unidentified = true, true
		best.Lower, best.Upper = 0, 0
	}
	if best.Weak {
		best.P = 1
	}
	best.Z, best.PrivacyShare, best.P = finite(best.Z), finite(best.PrivacyShare), finite(best.P)
	return best
}

// at returns the interval with u = Ĥ(Ĥ²+λ)⁻¹k.
func (q *inference) at(k []float64, constant, lambda float64) (i *Interval, planned float64) {
	u := q.apply(func(l float64) float64 {
		if l*l+lambda == 0 {
			return 0
		}
		return l / (l*l + lambda)
	}, k)
	hu := q.apply(func(l float64) float64 { return l }, u)
	left := make([]float64, len(k)) // Ĥu − k
	floats.SubTo(left, hu, k)
	bias := q.radius * floats.Norm(left, 2)
	if lambda == 0 {
		bias = 0
	}
	uu, uv := floats.Dot(u, u), floats.Dot(u, q.v)
	uVec := mat.NewVecDense(len(u), u)
	sampling := mat.Inner(uVec, q.scores, uVec)
	back := make([]float64, len(k)) // (Ĥ+Δ)u
	floats.AddScaledTo(back, hu, q.ridge, u)
	curvature := q.tauH * q.tauH / 2 * (q.m2*uu + uv*uv)
	rest := q.sigma*q.sigma*uu + curvature + q.output*q.output*floats.Dot(back, back)
	extra := q.kappa * q.tauJ * uu
	variance := max(sampling, 0) + rest + extra
	deviation := math.Sqrt(variance)
	middle := constant + floats.Dot(back, q.theta)
	half := biasQuantile(bias/deviation, q.level) * deviation
	// The length does not choose λ: the noise of Ĵ would. The shape J_m has that noise in one number.
	planned = math.Sqrt(mat.Inner(uVec, q.shape, uVec) + rest + extra)
	i = &Interval{
		Debiased: middle, StdErr: deviation, PrivacyErr: math.Sqrt(rest), PrivacyShare: q.sigma * q.sigma * uu / variance,
		Lower: middle - half, Upper: middle + half, Z: middle / deviation,
		// The radius matters, by the bias or by the noise of a curvature that is no larger; or the noise
		// on the gradients is divided by such a curvature.
		Weak: bias > 0.1*deviation || q.raised > 0 && curvature+q.sigma*q.sigma*q.low(u) > 0.1*variance,
	}
	i.P = math.Erfc(math.Abs(middle) / deviation / math.Sqrt2)
	return i, biasQuantile(bias/planned, q.level) * planned
}

// low returns the part of ‖u‖² along eigenvectors of Ĥ whose eigenvalue is below the norm of its
// noise.
func (q *inference) low(u []float64) float64 {
	part := q.apply(func(l float64) float64 {
		if l < q.edge() {
			return 1
		}
		return 0
	}, u)
	return floats.Dot(part, u)
}

// biasQuantile returns the level-quantile of |N(t,1)|, t ≥ 0.
func biasQuantile(t, level float64) float64 {
	good, _ := num.Bisect(func(x float64) bool { return num.NormalCDF(x-t)-num.NormalCDF(-x-t) >= level }, t+10, 0)
	return good
}

// leastKappa returns the least κ for which an interval of the deviation √(r + (S+Z)₊ + κ) and the
// normal quantile holds the mean of N(0, r+S) with probability at least level, for every S ≥ 0:
//
//	E(2Φ(z√((r + (S+Z)₊ + κ)/(r+S))) − 1) ≥ level,   Φ(z) = (1+level)/2,   Z ~ N(0, 1).
//
// The noise of Ĵ, of deviation τ_J‖u‖² in u'Ĵu, costs no coverage then: proved for normal errors
// and a u that does not depend on Ĵ. Here S = u'Ju/(τ_J‖u‖²) is the variance of the sampling, in
// units of the noise of its estimate, and r that of the noise on the gradients.
func leastKappa(r, level float64) float64 {
	z := num.NormalQuantile((1 + level) / 2)
	x, w := num.GaussLegendre(32)
	holds := func(kappa float64) bool {
		for s := 0.0; s <= 40; s += 0.1 + s/50 {
			covered := 0.0
			const reach, panels = 8, 8
			for p := range panels {
				for i := range x {
					n := -reach + 2*reach*(float64(p)+(x[i]+1)/2)/panels
					density := math.Exp(-n*n/2) / math.Sqrt(2*math.Pi)
					covered += w[i] * reach / panels * density * math.Erf(z*math.Sqrt((r+max(s+n, 0)+kappa)/(r+s)/2))
				}
			}
			if covered < level {
				return false
			}
		}
		return true
	}
	good, _ := num.BisectTo(holds, 10, 0, 1e-4)
	return good
}
