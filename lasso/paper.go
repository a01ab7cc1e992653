// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lasso

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/randmat"
	"github.com/privopt/privopt/splitting"
)

// Method is one of the published methods. Other values, the empty one among them, are invalid.
type Method string

const (
	LOP     Method = "lop"      // linear perturbation; the noise is proportional to the gradient bound of the box
	LOPClip Method = "lop-clip" // LOP with clipped gradients
	QOP     Method = "qop"      // quadratic perturbation around the anchor
)

// clipZeta is the published ζ of [LOPClip].
const clipZeta = 10000

// maxNoise is the largest scale that noise.Normal accepts.
const maxNoise = 0x1p1000

// Paper holds the parameters of the published experiment [CC26, §5.2]. The zero value is invalid.
type Paper struct {
	Epsilon, Delta float64 // the privacy budget that was claimed; published: 0.5 and 0.01
	Lambda         float64 // λ ≥ 0; published: 1
	Iterations     int     // K ≥ 1 steps of the stochastic solver; published: 1000
	Clip           float64 // ζ > 0 of LOPClip; published: 10000, for which 0 stands
}

// Experiment is the published procedure on one instance. It is safe for concurrent use. Not
// private: nothing that its methods return is.
type Experiment struct {
	paper  Paper
	in     *Instance
	norm   []float64 // ‖xᵢ‖₂
	maxY   float64   // max y as published: of private labels, without |·|
	smooth float64   // L
	dof    float64   // m
	sigma2 float64   // σ² of QOP
}

// Experiment prepares the procedure for an instance. The instance must have an anchor and is not
// copied. sigma2 is σ² of [QOP]: the published one is at ε₁ = ε, δ₁ = δ₃ = δ/2,
// m = 2d, L = dξ² and ρ = 1. The error wraps [ErrParameter].
func (p Paper) Experiment(in *Instance, sigma2 float64) (*Experiment, error) {
	switch {
	case in == nil || in.X == nil || in.X.IsEmpty():
		return nil, fmt.Errorf("%w: the instance has no records", ErrParameter)
	case !(p.Lambda >= 0) || math.IsInf(p.Lambda, 1):
		return nil, fmt.Errorf("%w: Lambda = %v, want a finite number ≥ 0", ErrParameter, p.Lambda)
	case !(p.Epsilon > 0) || math.IsInf(p.Epsilon, 1):
		return nil, fmt.Errorf("%w: Epsilon = %v, want a positive finite number", ErrParameter, p.Epsilon)
	case !(sigma2 > 0) || math.IsInf(sigma2, 1):
		return nil, fmt.Errorf("%w: sigma2 = %v, want a positive finite number", ErrParameter, sigma2)
	case !(p.Clip >= 0) || math.IsInf(p.Clip, 1):
		return nil, fmt.Errorf("%w: Clip = %v, want a finite number ≥ 0", ErrParameter, p.Clip)
	case p.Iterations < 1:
		return nil, fmt.Errorf("%w: Iterations = %d, want at least 1", ErrParameter, p.Iterations)
	case !(p.Delta > 0 && p.Delta < 1):
		return nil, fmt.Errorf("%w: Delta = %v, want a number in (0, 1)", ErrParameter, p.Delta)
	}
	n, d := in.Dims()
	if len(in.Y) != n || len(in.Anchor) != d {
		return nil, fmt.Errorf("%w: the instance has %d labels for %d rows and an anchor of length %d for %d features, "+
			"want as many", ErrParameter, len(in.Y), n, len(in.Anchor), d)
	}
	e := &Experiment{
		paper:  p,
		in:     in,
		norm:   make([]float64, n),
		maxY:   floats.Max(in.Y),
		smooth: float64(d) * in.Xi * in.Xi,
		dof:    2 * float64(d),
		sigma2: sigma2,
	}
	for i := range n {
		e.norm[i] = floats.Norm(in.X.RawRowView(i), 2)
	}
	return e, nil
}

// L returns the published smoothness bound dξ²; the true one is ξ².
func (e *Experiment) L() float64 { return e.smooth }

// Dof returns m = 2d.
func (e *Experiment) Dof() float64 { return e.dof }

// Linear holds the published constants of [LOP] and [LOPClip].
type Linear struct {
	Ridge float64 // Δ = 2L/ε
	Zeta  float64 // ζ = (κ√d·ξ√d + max y)·ξ√d for LOP, 10000 for LOPClip
	Noise float64 // s = ζ√(8 ln(2/δ) + 4ε)/ε [KST12], half the scale that replacement needs
	Omega float64 // ω = 1/(nL + Δ)
}

// Linear returns the constants of [LOP] or [LOPClip] at κ.
func (e *Experiment) Linear(m Method, kappa float64) Linear {
	n, d := e.in.Dims()
	eps, root := e.paper.Epsilon, math.Sqrt(float64(d))
	c := Linear{Ridge: 2 * e.smooth / eps, Zeta: cmp.Or(e.paper.Clip, clipZeta)}
	if m != LOPClip {
		c.Zeta = (kappa*float64(d)*e.in.Xi + e.maxY) * e.in.Xi * root
	}
	c.Noise = c.Zeta * math.Sqrt(8*math.Log(2/e.paper.Delta)+4*eps) / eps
	c.Omega = 1 / (float64(n)*e.smooth + c.Ridge)
	return c
}

// Omega returns the step size ω = 1/(nL + σ²λ_max(W)) of [QOP].
func (e *Experiment) Omega(maxEig float64) float64 {
	n, _ := e.in.Dims()
	return 1 / (float64(n)*e.smooth + e.sigma2*maxEig)
}

// Solve draws a perturbation from src and runs the stochastic three-operator splitting of the paper
// from x = 0,
//
//	θ = prox_{ωr}(x);  z = P_box(2θ − x − ωn gᵢ(θ));  x ← x + (k+1)^−0.502 (z − θ),
//
// where i is uniform and gᵢ is the gradient of ½(xᵢ'θ−yᵢ)² plus 1/n of that of the perturbation. As
// published, it returns the θ of step K−1, before the last update of x and not projected on the
// box, and [LOPClip] replaces a gradient longer than ζ by its unit vector instead of the vector of
// norm ζ.
//
// The error wraps [ErrParameter] for an invalid method, κ or source, or is that of ctx.
func (e *Experiment) Solve(ctx context.Context, m Method, kappa float64, src rand.Source) ([]float64, error) {
	switch {
	case m != LOP && m != LOPClip && m != QOP:
		return nil, fmt.Errorf("%w: invalid method %q, want LOP, LOPClip or QOP", ErrParameter, string(m))
	case !(kappa > 0) || math.IsInf(kappa, 1):
		return nil, fmt.Errorf("%w: kappa = %v, want a positive finite half-width of the box", ErrParameter, kappa)
	case src == nil:
		return nil, fmt.Errorf("%w: the source is nil, want for example dp.Seeded(1)", ErrParameter)
	}
	_, d := e.in.Dims()
	f, omega, err := e.draw(m, kappa, src)
	if err != nil {
		return nil, err
	}
	res, err := splitting.Solve(ctx, splitting.Problem{
		F: f,
		G: prox.L1{Weight: e.paper.Lambda},
		H: prox.Box{Lo: -kappa, Hi: kappa},
	}, make([]float64, d), &splitting.Settings{
		Iterations: e.paper.Iterations,
		Tolerance:  -1, // run all K steps
		Src:        src,
	}, &splitting.StochasticTOS{StepSize: omega})
	if err != nil {
		return nil, fmt.Errorf("lasso: %w", err)
	}
	return res.X, nil
}

// draw returns the smooth part of the problem with fresh noise, and its step size.
func (e *Experiment) draw(m Method, kappa float64, src rand.Source) (f *terms, omega float64, err error) {
	n, d := e.in.Dims()
	raw := e.in.X.RawMatrix()
	f = &terms{n: n, d: d, x: raw.Data, stride: raw.Stride, y: e.in.Y, zeta: math.Inf(1)}
	if m == QOP {
		w := mat.NewSymDense(d, nil)
		if err := randmat.Wishart(w, e.dof, src); err != nil {
			return nil, 0, err
		}
		// A few digits of λ_max(W) are enough for a step size; they need no proof.
		top, residual := randmat.RitzMax(w)
		omega = e.Omega(top + residual)
		f.center = e.in.Anchor
		f.quad = scaled(e.sigma2, w)
		f.y0 = make([]float64, d)
	} else {
		c := e.Linear(m, kappa)
		if !(math.Abs(c.Noise) <= maxNoise && c.Omega > 0) { // s < 0 if max y < 0: same law, as the noise is symmetric
			return nil, 0, fmt.Errorf("%w: Epsilon = %v gives the noise scale s = %v and the step size ω = %v, want |s| ≤ "+
				"%.2g and ω > 0: take a larger Epsilon", ErrParameter, e.paper.Epsilon, c.Noise, c.Omega, maxNoise)
		}
		omega = c.Omega
		f.ridge = c.Ridge
		f.linear = make([]float64, d)
		noise.Normal(f.linear, math.Abs(c.Noise), src)
		if m == LOPClip {
			f.zeta, f.norm = c.Zeta, e.norm
		}
	}
	f.smooth = 1 / omega
	return f, omega, nil
}

// scaled returns s·w as kernel.Symv wants it.
func scaled(s float64, w *mat.SymDense) []float64 {
	d := w.SymmetricDim()
	raw := w.RawSymmetric()
	stride := kernel.GramStride(d)
	full := make([]float64, d*stride)
	for i := range d {
		for j := i; j < d; j++ {
			v := s * raw.Data[i*raw.Stride+j]
			full[i*stride+j], full[j*stride+i] = v, v
		}
	}
	return full
}
