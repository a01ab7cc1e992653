// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"

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
// so that u = Ĥ⁻¹k removes the shrinkage, with the noisy Ĥ. The variance is estimated by
//
//	v̂ = max(u'J̃u, 0) + σ²‖u‖² + ½τ_H²(m²‖u‖² + (u'v)²),  v = θ̃ − θ_db,  m² an estimate of ‖θ̃−θ₀‖²
//
// ‖E‖ is about τ_H√(2d). Where Ĥ has an eigenvalue near that, u = Ĥ(Ĥ²+λ)⁻¹k leaves the bias
// (Ĥu−k)'θ₀ of at most B‖Ĥu−k‖, and λ is chosen for the shortest interval.
type inference struct {
	theta           []float64
	ridge, sigma    float64 // Δ, σ
	output          float64 // deviation of the noise on θ̃
	tauH, tauJ      float64
	level, radius   float64 // B, 0 for none
	hessian, scores *mat.SymDense
	basis           *mat.Dense // V, nil for the whole space
	eig             []float64  // of Ĥ, increasing
	vectors         *mat.Dense // of Ĥ, in columns
	weight          float64    // w of J̃ = J_m + w(Ĵ−J_m)
	shrunk          *mat.SymDense
	v               []float64 // θ̃ − θ_db
	m2              float64
	raised          float64 // largest relative raise of an eigenvalue of Ĥ
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
	if m.encoder != nil {
		in.reduce(constants(m.encoder))
	}
	return newInference(in)
}

// constants returns the vectors t for which the schema makes ⟨a,t⟩ the same for every row: one for
// the intercept, and one for each column in which every row has exactly one level or bin.
func constants(e *table.Encoder) [][]float64 {
	var out [][]float64
	s := e.Schema()
	for _, c := range append([]table.Column{{}}, s.Columns...) { // the intercept has no column
		indicators := c.Levels != nil || c.Bins != nil
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

	// J̃: positive-part James–Stein towards the shape of the model.
	q.shrunk, q.weight = q.scores, 1
	if d > 1 {
		scale := 0.0
		if trace := mat.Trace(hPlus); trace > 0 {
			scale = max(mat.Trace(q.scores), 0) / trace
		}
		jm, diff := mat.NewSymDense(d, nil), mat.NewSymDense(d, nil)
		jm.ScaleSym(scale, hPlus)
		diff.ScaleSym(-1, jm)
		diff.AddSym(diff, q.scores)
		norm := mat.Norm(diff, 2)
		q.weight = max(0, 1-max(float64(d*(d+1))/2-2, 0.5)*q.tauJ*q.tauJ/(norm*norm))
		q.shrunk = mat.NewSymDense(d, nil)
		q.shrunk.ScaleSym(q.weight, diff)
		q.shrunk.AddSym(q.shrunk, jm)
	}

	// v = −ΔĤ⁻¹θ̃ with eigenvalues raised to the edge. The relative raise is the share of θ₀ that only
	// the radius bounds.
	least := q.edge()
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
	for _, lambda := range lambdas {
		if i := q.at(k, constant, lambda); best == nil || i.Upper-i.Lower < best.Upper-best.Lower {
			best = i
		}
	}
	if best == nil || !(best.Upper-best.Lower < math.Inf(1)) { // not identified
		best = q.at(k, constant, q.tauH*q.tauH*float64(len(k)))
		best.Weak, best.Unidentified, best.Lower, best.Upper = true, true, 0, 0
	}
	if best.Weak {
		best.P = 1
	}
	best.Z, best.PrivacyShare, best.P = finite(best.Z), finite(best.PrivacyShare), finite(best.P)
	return best
}

// at returns the interval with u = Ĥ(Ĥ²+λ)⁻¹k.
func (q *inference) at(k []float64, constant, lambda float64) *Interval {
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
	sampling := mat.Inner(uVec, q.shrunk, uVec)
	back := make([]float64, len(k)) // (Ĥ+Δ)u
	floats.AddScaledTo(back, hu, q.ridge, u)
	curvature := q.tauH * q.tauH / 2 * (q.m2*uu + uv*uv)
	rest := q.sigma*q.sigma*uu + curvature + q.output*q.output*floats.Dot(back, back)
	variance := max(sampling, 0) + rest
	deviation := math.Sqrt(variance)
	d := float64(len(k))
	rho := q.tauJ * math.Sqrt(q.weight*q.weight+(1-q.weight*q.weight)/d) * uu / variance
	z := num.NormalQuantile((1 + q.level) / 2)
	factor := noisyQuantile(rho, rest/variance, q.level)
	middle := constant + floats.Dot(back, q.theta)
	half := factor * biasQuantile(bias/deviation, q.level) / z * deviation
	i := &Interval{
		Debiased: middle, StdErr: deviation, PrivacyErr: math.Sqrt(rest), PrivacyShare: q.sigma * q.sigma * uu / variance,
		Lower: middle - half, Upper: middle + half, Z: middle / deviation,
		// The radius matters, by the bias or by the noise of a curvature that is no larger.
		Weak: bias > 0.1*deviation || q.raised > 0 && curvature > 0.1*variance || math.IsInf(factor, 1),
	}
	i.P = math.Erfc(math.Abs(middle) / deviation * z / factor / math.Sqrt2)
	return i
}

// biasQuantile returns the level-quantile of |N(t,1)|, t ≥ 0.
func biasQuantile(t, level float64) float64 {
	good, _ := num.Bisect(func(x float64) bool { return num.NormalCDF(x-t)-num.NormalCDF(-x-t) >= level }, t+10, 0)
	return good
}

// mostRho is the largest relative noise of a variance for which there is a finite interval.
const mostRho = 1.2

// noisyQuantile returns q with E[2Φ(q√max(1+ρZ, lo)) − 1] = level, Z standard normal: the
// quantile for a deviation whose square was estimated with relative noise ρ and is at
// least the share lo of its estimate. +Inf beyond mostRho.
func noisyQuantile(rho, lo, level float64) float64 {
	if !(rho <= mostRho) {
		return math.Inf(1)
	}
	x, w := num.GaussLegendre(32)
	covered := func(q float64) float64 {
		sum := 0.0
		const reach, panels = 8, 8
		for p := range panels {
			for i := range x {
				z := -reach + 2*reach*(float64(p)+(x[i]+1)/2)/panels
				density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
				sum += w[i] * reach / panels * density * math.Erf(q*math.Sqrt(max(1+rho*z, lo))/math.Sqrt2)
			}
		}
		return sum
	}
	const most = 1e4
	if covered(most) < level {
		return math.Inf(1)
	}
	good, _ := num.Bisect(func(q float64) bool { return covered(q) >= level }, most, 0.1)
	return good
}
