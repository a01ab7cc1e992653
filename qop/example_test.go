// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop_test

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/qop"
)

// data has 3000 records of two features; the labels are about ⟨a, (1, −2)⟩.
func data() *erm.Data {
	rows, labels := make([][]float64, 3000), make([]float64, 3000)
	for i := range rows {
		x, y := float64(i%61)/61-0.5, float64(i%67)/67-0.5
		rows[i], labels[i] = []float64{x, y}, x-2*y
	}
	d, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 3})
	if err != nil {
		panic(err)
	}
	return d
}

// The public anchor (0.7, −1.6) is near the solution; the slopes of the records there, clipped,
// say where it is.
func ExampleMechanism_Fit() {
	p := &erm.Problem{Data: data(), Loss: loss.Squared{}, Reg: prox.L1{Weight: 5}, Set: prox.Box{Lo: -3, Hi: 3}}
	m := &qop.Mechanism{Center: []float64{0.7, -1.6}, Interpolation: qop.Tilt{Clip: 0.2}}
	// A real release passes nil for the source: secure noise.
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f\n", rel.Theta)
	fmt.Println(rel.Certificate)
	// Output:
	// [0.9 -1.9]
	// (ε = 1, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: qop.tilted/1
	//   assumes: the laws of the eigenvalues of Wishart matrices, computed in float64 and tested against 60 digits, ask for no more noise
	//   assumes: the caller's random source is unpredictable, secret and never reused
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}

// How much curvature, and what it costs in expected risk, without any data.
func ExampleMechanism_Calibrate() {
	q := erm.Public{Dim: 100, Constants: loss.Constants{Smoothness: 1, Rank: 1, Structure: loss.LSQ}, Radius: 1}
	b := dp.Budget{Epsilon: 0.5, Delta: 0.01}
	for _, m := range []qop.Mechanism{{}, {Structure: loss.GLM}, {Calibration: qop.Paper}} {
		plan, err := m.Calibrate(q, b)
		if err != nil {
			fmt.Println(err)
			return
		}
		p := plan.Params()
		fmt.Printf("%-15s σ²m = %.0f, excess risk ≤ %.0f\n", p.Theorem, p.Curvature, p.ExcessBound)
	}
	_, err := (&qop.Mechanism{Degrees: 100}).Calibrate(q, b)
	fmt.Println(err)
	// Output:
	// qop.lsq/2       σ²m = 65, excess risk ≤ 33
	// qop.joint/1     σ²m = 71, excess risk ≤ 35
	// qop.paper/2     σ²m = 9658, excess risk ≤ 4829
	// qop: dp: privacy condition not met: Degrees = 100 in 100 dimensions: W is so often nearly singular that no useful distance to the minimizer can be kept; want at least Dim+3 = 103, or 0 for automatic
}

// Without a rule nothing would be private, so there is no default.
func ExampleInterpolation() {
	p := &erm.Problem{Data: data(), Loss: loss.Squared{}}
	_, err := (&qop.Mechanism{Center: []float64{1, -2}}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	fmt.Println(err)
	// Output:
	// qop: invalid mechanism: Interpolation is nil, but privacy holds only if every record's gradient vanishes at the anchor; want Tilt{Clip} (the slopes at the anchor are released with noise), Relabel{} (each record gets the label that the anchor predicts), Drop{Tolerance} (records that the anchor does not fit become zero records), or Trust{} (the certificate lists the unchecked assumption)
}
