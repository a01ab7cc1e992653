// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	engine "github.com/privopt/privopt/internal/lop"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// moments holds the two noisy sums for standard errors, as symmetric matrices.
type moments struct {
	hessian, scores       *mat.SymDense
	hessianTau, scoresTau float64 // τ: the noise has deviation τ on the diagonal, τ/√2 off it
}

// sumSensitivity returns the ℓ₂ sensitivity of the rounded sum of terms waa′ with
// 0 ≤ w‖a‖² ≤ bound, as vectors (diagonal, √2·upper triangle), and the exponent of the
// grid they are rounded to:
//
//	add or remove  bound + g√m/2
//	replace        √2·bound + g√m,  as ⟨waa′, w′zz′⟩ ≥ 0; bound + g√m in one dimension
//
// m = d(d+1)/2. The factor covers the rounding of the float64 products.
func sumSensitivity(bound, pair float64, d int) (sensitivity float64, exponent int) {
	root := math.Sqrt(float64(d*(d+1)) / 2)
	_, e := math.Frexp(bound / root)
	exponent = e - 1 - 20
	rounding := math.Ldexp(root, exponent-1)
	if pair > 1 {
		rounding *= 2
	}
	if d == 1 {
		pair = 1
	}
	return pair*bound*(1+0x1p-40) + rounding, exponent
}

// sums adds the rounded terms waa′ of all records for the two matrices, w = φ″ and w = φ′², with
// w‖a‖² clamped to bounds. The term of a record depends on that record alone, and integers add up
// exactly.
func sums(
	ctx context.Context, data *erm.Data, theta []float64, l loss.Linear, bounds [2]float64, exponent [2]int,
) (out [2][]int64, err error) {
	if _, persons := data.Persons(); persons {
		return personSums(ctx, data, theta, l, bounds, exponent)
	}
	_, d := data.Dims()
	for k := range out {
		out[k] = make([]int64, d*(d+1)/2)
	}
	err = data.Each(func(a []float64, b float64) {
		norm := floats.Norm(a, 2)
		_, dphi, d2phi := l.Scalar(floats.Dot(a, theta), b, norm)
		for k, w := range [2]float64{d2phi, dphi * dphi} {
			if norm == 0 || !(w > 0) {
				continue
			}
			w = math.Ldexp(min(w, bounds[k]/(norm*norm)), -exponent[k])
			addOuter(out[k], a, w)
		}
	})
	return out, err
}

// addOuter adds the rounded vector (diagonal, √2·upper triangle) of waa′, row by row.
func addOuter(dst []int64, a []float64, w float64) {
	at := 0
	for j, v := range a {
		if v == 0 {
			at += len(a) - j
			continue
		}
		wv := w * v
		dst[at] += int64(math.RoundToEven(wv * v))
		at++
		wv *= math.Sqrt2
		for _, u := range a[j+1:] {
			if u != 0 {
				dst[at] += int64(math.RoundToEven(wv * u))
			}
			at++
		}
	}
}

// releaseSum adds noise of standard deviation tau to a sum and returns the symmetric matrix.
func releaseSum(sum []int64, d int, tau float64, exponent int, src rand.Source) *mat.SymDense {
	return symmetricOf(withNoise(sum, tau, exponent, src), d)
}

// symmetricOf returns the matrix of a vector (diagonal, √2·upper triangle), row by row.
func symmetricOf(values []float64, d int) *mat.SymDense {
	m, at := mat.NewSymDense(d, nil), 0
	for j := range d {
		for k := j; k < d; k++ {
			if k > j {
				values[at] /= math.Sqrt2
			}
			m.SetSym(j, k, values[at])
			at++
		}
	}
	return m
}

// moments releases the sums of curvatures and squared gradients at θ.
func (pl *Plan) moments(
	ctx context.Context, p *erm.Problem, clip float64, theta []float64, params engine.Params, src rand.Source,
) (*moments, error) {
	l, _ := p.Loss.(loss.Linear)
	if clip > 0 {
		l = loss.Clipped{Loss: l, Threshold: clip * pl.params.Bounds.Row * pl.params.Bounds.Label}
	}
	s := pl.params.Sequence
	most := [2]float64{params.Smoothness, params.Lipschitz * params.Lipschitz}
	var sensitivity [2]float64
	var exponent [2]int
	for k, v := range most {
		sensitivity[k], exponent[k] = sumSensitivity(v, pl.pair(), pl.params.Dim)
	}
	m := &moments{
		hessianTau: sensitivity[0] / (math.Sqrt(s.Shares.Hessian) * s.Mu) * release.SafeScale,
		scoresTau:  sensitivity[1] / (math.Sqrt(s.Shares.Scores) * s.Mu) * release.SafeScale,
	}
	sum, err := sums(ctx, p.Data, theta, l, most, exponent)
	if err != nil {
		return nil, err
	}
	m.hessian = releaseSum(sum[0], pl.params.Dim, m.hessianTau, exponent[0], src)
	m.scores = releaseSum(sum[1], pl.params.Dim, m.scoresTau, exponent[1], src)
	return m, nil
}
