package lop_test

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
)

// data has 2000 records of one feature and an intercept; the label is the sign
// of the feature.
func data() *erm.Data {
	rows, labels := make([][]float64, 2000), make([]float64, 2000)
	for i := range rows {
		x := float64(i-1000)/2000 + 0.00025
		rows[i], labels[i] = []float64{x, 0.5}, -1
		if x > 0 {
			labels[i] = 1
		}
	}
	d, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return d
}

func ExampleMechanism_Fit() {
	p := &erm.Problem{Data: data(), Loss: loss.Logistic{}}
	m := &lop.Mechanism{Radius: 5} // a public guess at ‖θ‖
	// A real release passes nil for the source: secure noise.
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, noise.Reproducible(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f\n", rel.Theta)
	fmt.Println(rel.Certificate)
	// Output:
	// [10.2 -0.1]
	// (ε = 1, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: lop.curve/1
	//   assumes: rounding of the floating-point noise reveals nothing that real arithmetic would hide
	//   assumes: the caller's random source is unpredictable, secret and never reused
}

// How much noise, and what it costs in expected risk, without any data.
func ExampleMechanism_Calibrate() {
	q := lop.Public{
		Dim:       20,
		Constants: loss.Constants{Lipschitz: 1, Smoothness: 0.25, Rank: 1, Structure: loss.GLM},
		Radius:    1,
		Budget:    dp.Budget{Epsilon: 1, Delta: 1e-6},
	}
	for _, c := range []lop.Calibration{lop.Sharp, lop.Kifer} {
		plan, err := (&lop.Mechanism{Calibration: c}).Calibrate(q)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: σ = %.2f, Δ = %.1f, excess risk ≤ %.1f\n", c, plan.Sigma, plan.Delta, plan.ExcessBound)
	}
	plan, err := (&lop.Mechanism{Delta: 0.1}).Calibrate(q)
	fmt.Println(plan, err)
	// Output:
	// sharp: σ = 8.87, Δ = 39.9, excess risk ≤ 39.7
	// kifer: σ = 22.14, Δ = 99.0, excess risk ≤ 99.0
	// <nil> lop: dp: privacy condition not met: Delta = 0.1 gives c = 1.2527629684953692 ≥ ε = 0.9899999999999999 of the objective, so no noise is enough; want Delta > 0.1478210171844061, or 0 for automatic
}

// Least squares has no bound on its gradient without a bounded set. Clipping
// gives it one.
func ExampleMechanism_Plan_clip() {
	p := &erm.Problem{Data: data(), Loss: loss.Squared{}, Reg: prox.L1{Weight: 1}}
	_, err := (&lop.Mechanism{Radius: 5}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	fmt.Println(err)
	plan, err := (&lop.Mechanism{Radius: 5, Clip: 1}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("L = %.2f, σ = %.2f, %s\n", plan.Constants.Lipschitz, plan.Sigma, plan.Theorem)
	// Output:
	// lop: dp: privacy condition not met: the loss has Lipschitz = +Inf on the declared bounds, so no noise is enough: declare a bounded Set, or use Clip with a loss of ⟨a,θ⟩
	// L = 1.00, σ = 11.26, lop.curve/1
}

func ExampleOutput() {
	p := &erm.Problem{Data: data(), Loss: loss.Logistic{}}
	plan, err := (&lop.Output{Radius: 5}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("Δ = %.0f, output noise %.3f per coordinate\n", plan.Delta, plan.OutputSigma)
	// Output:
	// Δ = 44, output noise 0.193 per coordinate
}
