// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Command ownmechanism is a private mechanism of one's own, built from public packages: the mean of
// salaries, of which nobody knows the number of people. Run it with: go run .
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/privopt/privopt/additive"
	"github.com/privopt/privopt/dp"
)

// Mean releases the mean of numbers. Its fields are public.
type Mean struct {
	Low, High float64 // numbers outside of this range are clamped to it
	People    float64 // about how many people there may be; more are allowed
}

// Plan calibrates the noise for b. One person more or less moves
//
//	x = (Σ uᵢ, n),   uᵢ = (vᵢ − (Low + High)/2)/((High − Low)/2) in [−1, 1]
//
// by at most √(1² + 1²) in the ℓ₂ norm. The sum of either data set is rounded once, by at most
// 2⁻⁵³·Radius where it is not clamped.
func (m Mean) Plan(b dp.Budget) (*additive.Plan, error) {
	radius := 4 * m.People
	a := additive.Mechanism{Relation: dp.AddRemove, Dim: 2, Radius: radius, L2: 1.4142136 + radius*0x1p-52}
	return a.Plan(b)
}

// Point is what noise is added to. Not private: it depends on the numbers.
func (m Mean) Point(numbers []float64) []float64 {
	sum := new(big.Float).SetPrec(1200) // of numbers in [−1, 1]: exact
	for _, v := range numbers {
		u := (v - (m.Low+m.High)/2) / ((m.High - m.Low) / 2)
		if math.IsNaN(u) { // the middle of the range, so that no record is an error
			u = 0
		}
		sum.Add(sum, big.NewFloat(min(max(u, -1), 1)))
	}
	x, _ := sum.Float64()
	return []float64{x, float64(len(numbers))}
}

// Value computes the mean from a release, which costs nothing more.
func (m Mean) Value(rel *dp.Release) float64 {
	u := rel.Theta[0] / max(rel.Theta[1], 1)
	return (m.Low+m.High)/2 + min(max(u, -1), 1)*(m.High-m.Low)/2
}

func main() {
	rnd, salaries := rand.New(rand.NewPCG(1, 2)), make([]float64, 5000)
	for i := range salaries {
		salaries[i] = 40_000 * math.Exp(rnd.NormFloat64()/2)
	}
	m := Mean{Low: 0, High: 200_000, People: 10_000}
	plan, err := m.Plan(dp.Budget{Epsilon: 0.5, Delta: 1e-6}) // before a record is read
	if err != nil {
		log.Fatal(err)
	}
	rel, err := plan.Release(context.Background(), m.Point(salaries), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mean salary: %.0f, of about %.0f people\n%v\n", m.Value(rel), rel.Theta[1], rel.Certificate)
}
