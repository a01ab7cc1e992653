// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package lasso generates instances of the ℓ1 least-squares experiment with a planted parameter and
// reruns the procedure that was published with it. The problem is
//
//	min_θ  Σᵢ ½(xᵢ'θ − yᵢ)² + λ‖θ‖₁   over the box [−κ, κ]ᵈ
//
// [Generate] draws an [Instance]; [Instance.Data] and [Problem] turn it into an [erm.Problem] for
// the private mechanisms of this module. [Paper] is the published procedure with its published
// constants, defects included. Paper is not private: it takes bounds from the labels, calibrates
// its noise for another relation, and does not certify the result of its stochastic solver.
//
// # Notation
//
//	n, d           records, parameters
//	X, y           rows and labels, Instance.X and Y; yᵢ = xᵢ'θ_true
//	ξ              Instance.Xi, the norm of every row
//	θ_true, θ_ref  Instance.Truth, Anchor
//	κ, λ           kappa, the half-width of the box, and lambda, the weight of ℓ1
//	W, m           a Wishart matrix and its degrees of freedom, Experiment.Dof
//	L, σ²          Experiment.L and sigma2: smoothness of one record, scale of W
//	Δ, ζ, s, ω     Linear: ridge, gradient bound, noise scale, step size
//
// Methods panic on a vector of another length than d.
//
// # References
//
//	[CC26]   Cortild, Cartis. Quadratic Objective Perturbation:
//	         Curvature-Based Differential Privacy. 2026.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
package lasso

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

var (
	// ErrParameter reports a parameter outside its range.
	ErrParameter = errors.New("lasso: invalid parameter")
	// ErrFile reports a file that [ReadVector] cannot read. The texts of such errors name lines,
	// columns and positions, never a value.
	ErrFile = errors.New("lasso: invalid file")
)

const badLen = "lasso: length mismatch"

// Spec states how to draw an [Instance].
type Spec struct {
	N, D        int     // records and parameters, at least 1
	Xi          float64 // ξ, the norm of every row, positive
	AnchorNoise float64 // the standard deviation of θ_ref − θ_true, at least 0
}

// Instance is one data set of the experiment. It prints as its dimensions, because a caller may
// fill it with private records.
type Instance struct {
	X      *mat.Dense // n×d, rows xᵢ
	Y      []float64  // n labels
	Truth  []float64  // θ_true, d numbers; nil if unknown
	Anchor []float64  // θ_ref, d numbers; nil if there is none
	Xi     float64    // ξ
}

// largestNorm bounds norms, so that squares and products of numbers do not overflow.
const largestNorm = 1e150

// Generate draws an instance [CC26, §5.2]: xᵢ is standard normal, rescaled to norm ξ; θ_true ~ N(0,
// I); yᵢ = xᵢ'θ_true; θ_ref = θ_true + AnchorNoise·N(0, I). Equal sources give equal instances. The
// error wraps [ErrParameter].
func Generate(s Spec, src rand.Source) (*Instance, error) {
	switch {
	case s.N < 1:
		return nil, fmt.Errorf("%w: N = %d records, want at least 1", ErrParameter, s.N)
	case s.D < 1:
		return nil, fmt.Errorf("%w: D = %d parameters, want at least 1", ErrParameter, s.D)
	case !(s.Xi > 0 && s.Xi <= largestNorm):
		return nil, fmt.Errorf("%w: Xi = %v, want a positive norm of at most %g", ErrParameter, s.Xi, largestNorm)
	case !(s.AnchorNoise >= 0 && s.AnchorNoise <= largestNorm):
		return nil, fmt.Errorf("%w: AnchorNoise = %v, want a number in [0, %g]", ErrParameter, s.AnchorNoise, largestNorm)
	case src == nil:
		return nil, fmt.Errorf("%w: the source is nil, want for example dp.Seeded(1)", ErrParameter)
	}
	in := &Instance{
		X:      mat.NewDense(s.N, s.D, nil),
		Y:      make([]float64, s.N),
		Truth:  make([]float64, s.D),
		Anchor: make([]float64, s.D),
		Xi:     s.Xi,
	}
	for i := range s.N {
		row := in.X.RawRowView(i)
		noise.Normal(row, 1, src)
		floats.Scale(s.Xi/floats.Norm(row, 2), row)
	}
	noise.Normal(in.Truth, 1, src)
	for i := range in.Y {
		in.Y[i] = floats.Dot(in.X.RawRowView(i), in.Truth)
	}
	noise.Normal(in.Anchor, 1, src)
	floats.Scale(s.AnchorNoise, in.Anchor)
	floats.Add(in.Anchor, in.Truth)
	return in, nil
}

// Dims returns n and d.
func (in *Instance) Dims() (n, d int) { return in.X.Dims() }

// Format writes the dimensions for every verb.
func (in Instance) Format(f fmt.State, _ rune) {
	n, d := 0, 0
	if in.X != nil {
		n, d = in.Dims()
	}
	fmt.Fprintf(f, "lasso.Instance(%d×%d)", n, d)
}

// Data returns the records, forced into the declared bounds ‖xᵢ‖₂ ≤ ξ and |yᵢ| ≤ labelBound. Few
// labels exceed 5ξ. The error wraps [erm.ErrData].
func (in *Instance) Data(labelBound float64) (*erm.Data, error) {
	return erm.NewDataDense(in.X, in.Y, loss.Bounds{Row: in.Xi, Label: labelBound})
}

// Problem returns Σᵢ ½(aᵢ'θ−bᵢ)² + λ‖θ‖₁ over [−κ, κ]ᵈ. Several problems may share data.
func Problem(data *erm.Data, lambda, kappa float64) *erm.Problem {
	return &erm.Problem{
		Data: data,
		Loss: loss.Squared{},
		Reg:  prox.L1{Weight: lambda},
		Set:  prox.Box{Lo: -kappa, Hi: kappa},
	}
}

// Risk returns the empirical risk of the experiment, the mean of ½(xᵢ'θ − yᵢ)². Not private.
func (in *Instance) Risk(theta []float64) float64 {
	n, d := in.Dims()
	if len(theta) != d {
		panic(badLen)
	}
	sum := 0.0
	for i, y := range in.Y {
		r := floats.Dot(in.X.RawRowView(i), theta) - y
		sum += r * r
	}
	return sum / (2 * float64(n))
}

// ReadVector reads a public vector of d numbers: a header line, then d lines of one finite number
// each. The error wraps [ErrFile].
func ReadVector(r io.Reader, d int) ([]float64, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil", ErrFile)
	}
	lines, err := csv.NewReader(r).ReadAll()
	var p *csv.ParseError
	switch {
	case errors.As(err, &p):
		return nil, fmt.Errorf("%w: line %d, column %d: %w", ErrFile, p.Line, p.Column, p.Err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	case len(lines) < 2:
		return nil, fmt.Errorf("%w: no numbers below a header line", ErrFile)
	case len(lines[0]) != 1:
		return nil, fmt.Errorf("%w: %d columns, want 1", ErrFile, len(lines[0]))
	case len(lines)-1 != d:
		return nil, fmt.Errorf("%w: %d numbers, want %d, one for each feature", ErrFile, len(lines)-1, d)
	}
	x := make([]float64, d)
	for i := range x {
		x[i], err = strconv.ParseFloat(strings.TrimSpace(lines[i+1][0]), 64)
		if err != nil || math.IsNaN(x[i]) || math.IsInf(x[i], 0) {
			return nil, fmt.Errorf("%w: number %d is not finite", ErrFile, i+1)
		}
	}
	return x, nil
}
