// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
)

// envelope is the Moreau envelope of a loss that is not of ⟨a,w⟩,
//
//	ℓ_β(w) = min_v ℓ(v) + (β/2)‖v−w‖²,   ∇ℓ_β(w) = β(w − v*)
//
// solved for each record from w alone: no state passes from one record or step to the next.
type envelope struct {
	loss.Loss
	beta       float64
	smoothness float64 // of the loss; +Inf or 0 where it has kinks or is unknown
	// accuracy is ξ: the gradient is within ξ unless the search ends at its limit. Privacy does not
	// depend on it, because gradients are clipped.
	accuracy float64
}

// innerSteps is the largest number of steps of the search for one proximal point.
const innerSteps = 2000

var scratch = sync.Pool{New: func() any { return new([3][]float64) }}

// Grad stores β(w − v) in dst, for a v with ‖∇ℓ(v) + β(v−w)‖ ≤ ξ where one is found: by strong
// convexity ‖v − v*‖ ≤ ξ/β there, so that the gradient is within ξ of the one of the envelope.
//
//	smooth ℓ   gradient descent with step 1/(β_ℓ+β), linear convergence
//	else       subgradients, steps 2/(β(k+1)), average with weights k: the
//	           gradient is within 4L/√(K+1) after K steps
func (e envelope) Grad(dst, w, a []float64, b float64) {
	buf := scratch.Get().(*[3][]float64)
	defer scratch.Put(buf)
	for i := range buf {
		if cap(buf[i]) < len(w) {
			buf[i] = make([]float64, len(w))
		}
		buf[i] = buf[i][:len(w)]
	}
	v, g := buf[0], buf[1]
	mean := buf[2]
	copy(v, w)
	copy(mean, w)
	smooth := e.smoothness > 0 && !math.IsInf(e.smoothness, 1)
	for k := 1.0; k <= innerSteps; k++ {
		e.Loss.Grad(g, v, a, b)
		for j := range g {
			g[j] += e.beta * (v[j] - w[j])
		}
		if smooth || floats.Norm(g, 2) <= e.accuracy {
			copy(mean, v)
		} else {
			for j := range mean { // weights 1, …, k add up to k(k+1)/2
				mean[j] += 2 / (k + 1) * (v[j] - mean[j])
			}
		}
		if floats.Norm(g, 2) <= e.accuracy {
			break
		}
		step := 2 / (e.beta * (k + 1))
		if smooth {
			step = 1 / (e.smoothness + e.beta)
		}
		floats.AddScaled(v, -step, g)
	}
	for j := range dst {
		dst[j] = e.beta * (w[j] - mean[j])
	}
}
