// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
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
	switch p.Family {
	case "absolute":
		return onehot(p.D)
	case "logistic":
		return rademacher(p.D)
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

// onehot is absolute loss on a = ±e_j with Gaussian doubt s = ½: for t = w − w*
//
//	F(w) = (1/d) Σ_j s√(2/π) e^{−t_j²/2s²} + t_j erf(t_j/(s√2))
func onehot(d int) population {
	const s = 0.5
	target := 0.5 / math.Sqrt(float64(d)) // every coordinate of w*
	return population{
		loss:   loss.Absolute{},
		bounds: loss.Bounds{Row: 1, Label: 10}, // a label beyond has a probability below 1e-70
		radius: 1,
		draw: func(a []float64, src *rand.Rand) float64 {
			clear(a)
			sign := float64(2*src.IntN(2) - 1)
			a[src.IntN(len(a))] = sign
			var doubt [1]float64
			noise.Normal(doubt[:], s, src)
			return sign*target + doubt[0]
		},
		excess: func(w []float64) float64 {
			sum := 0.0
			for _, v := range w {
				t := v - target
				// s√(2/π)(e^{−x} − 1) + t erf(t/(s√2)): no cancellation at t = 0
				sum += s*math.Sqrt(2/math.Pi)*math.Expm1(-t*t/(2*s*s)) + t*math.Erf(t/(s*math.Sqrt2))
			}
			return sum / float64(len(w))
		},
	}
}

// rademacher is logistic loss on the 2ᵈ points {±1/√d}ᵈ, which are enumerated:
//
//	F(w) − F(w*) = 2⁻ᵈ Σ_a KL( p*(a) ‖ p(a) ),   p = 1/(1 + e^{−⟨a,w⟩})
func rademacher(d int) population {
	scale := 1 / math.Sqrt(float64(d))
	target := make([]float64, d) // alternating, of norm 4
	for j := range target {
		target[j] = 4 * scale * float64(1-2*(j%2))
	}
	return population{
		loss:   loss.Logistic{},
		bounds: loss.Bounds{Row: 1, Label: 1},
		radius: 5,
		draw: func(a []float64, src *rand.Rand) float64 {
			for j := range a {
				a[j] = scale * float64(2*src.IntN(2)-1)
			}
			if src.Float64() < 1/(1+math.Exp(-floats.Dot(a, target))) {
				return 1
			}
			return -1
		},
		excess: func(w []float64) float64 {
			a := make([]float64, d)
			sum := 0.0
			for code := range 1 << d {
				for j := range a {
					a[j] = scale * float64(2*(code>>j&1)-1)
				}
				u, best := floats.Dot(a, w), floats.Dot(a, target)
				p := 1 / (1 + math.Exp(-best))
				// E φ(u) − E φ(best) with φ(u) = log(1 + e^{−u}) under p
				sum += p*(softplus(-u)-softplus(-best)) + (1-p)*(softplus(u)-softplus(best))
			}
			return math.Ldexp(sum, -d)
		},
	}
}

// softplus is log(1 + eˣ).
func softplus(x float64) float64 {
	if x > 0 {
		return x + math.Log1p(math.Exp(-x))
	}
	return math.Log1p(math.Exp(x))
}
