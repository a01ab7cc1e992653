// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// population is a law of records whose expected loss is known exactly.
type population struct {
	loss   loss.Loss
	bounds loss.Bounds
	radius float64 // of the ball W
	// draw stores one record in a and returns its label.
	draw func(a []float64, src *rand.Rand) (b float64)
	// excess returns F(w) − min F.
	excess func(w []float64) float64
}

func (p population) problem(n, d int, src *rand.Rand) (*erm.Problem, error) {
	rows, labels := make([][]float64, n), make([]float64, n)
	flat := make([]float64, n*d)
	for i := range rows {
		rows[i] = flat[i*d : (i+1)*d : (i+1)*d]
		labels[i] = p.draw(rows[i], src)
	}
	data, err := erm.NewData(rows, labels, p.bounds)
	if err != nil {
		return nil, err
	}
	return &erm.Problem{Data: data, Loss: p.loss, Set: prox.L2Ball{R: p.radius}}, nil
}

func (p Population) population() population {
	if p.law != nil {
		return p.law(p.D)
	}
	return hard(p.D, min(1, p.Signal*p.rate()))
}

// rate is max( √(d ln(1/δ))/(εn), 1/√n ), up to a constant the least excess that
// any private method can have on the worst family [BFTT19].
func (p Population) rate() float64 {
	n, d := float64(p.N), float64(p.D)
	return max(math.Sqrt(d*math.Log(1/p.Delta))/(p.Epsilon*n), 1/math.Sqrt(n))
}

// linear is the loss −b⟨a,θ⟩.
type linearLoss struct{}

func (linearLoss) Func(theta, a []float64, b float64) float64 { return -b * floats.Dot(theta, a) }

func (linearLoss) Grad(dst, _, a []float64, b float64) { floats.ScaleTo(dst, -b, a) }

// Constants: β = 0, but a zero field would mean that it is unknown.
func (linearLoss) Constants(b loss.Bounds, _ float64) loss.Constants {
	if b.Check() != nil {
		return loss.Constants{}
	}
	return loss.Constants{Lipschitz: b.Row * b.Label, Smoothness: 1e-12, Rank: 1, Structure: loss.GLM}
}

func (linearLoss) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) { return -b * u, -b, 0 }

// hard is the linear family with ‖μ‖ = signal: z has independent signs over √d with the mean μ =
// signal·(1, …, 1)/√d, and F(w) = −⟨w, μ⟩ is least, −‖μ‖, at μ/‖μ‖.
func hard(d int, signal float64) population {
	scale := 1 / math.Sqrt(float64(d))
	return population{
		loss:   linearLoss{},
		bounds: loss.Bounds{Row: 1, Label: 1},
		radius: 1,
		draw: func(a []float64, src *rand.Rand) float64 {
			for j := range a {
				a[j] = scale
				if src.Float64() >= (1+signal)/2 {
					a[j] = -scale
				}
			}
			return 1
		},
		excess: func(w []float64) float64 { return signal - signal*scale*floats.Sum(w) },
	}
}
