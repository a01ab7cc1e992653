// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
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
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f\n", rel.Theta)
	fmt.Println(rel.Certificate)
	// Output:
	// [10.9 0.1]
	// (ε = 1, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: lop.joint/2
	//   assumes: the caller's random source is unpredictable, secret and never reused
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}

// How much noise, and what it costs in expected risk, without any data.
func ExampleMechanism_Calibrate() {
	q := erm.Public{
		Dim: 20, Records: 10000, Bounds: loss.Bounds{Row: 1, Label: 1},
		Constants: loss.Constants{Lipschitz: 1, Smoothness: 0.25, Rank: 1, Structure: loss.GLM},
	}
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for _, c := range []lop.Calibration{lop.Sharp, lop.Kifer} { // the best proved, and the published one
		plan, err := (&lop.Mechanism{Calibration: c, Radius: 1}).Calibrate(q, b)
		if err != nil {
			fmt.Println(err)
			return
		}
		p := plan.Params()
		fmt.Printf("%s: σ = %.2f, Δ = %.1f, excess risk ≤ %.1f\n", p.Theorem, p.Sigma, p.Ridge, p.ExcessBound)
	}
	plan, err := (&lop.Mechanism{Ridge: 0.1}).Calibrate(q, b)
	fmt.Println(plan, err)
	// Output:
	// lop.joint/2: σ = 8.64, Δ = 39.3, excess risk ≤ 38.7
	// lop.kifer/2: σ = 22.14, Δ = 99.0, excess risk ≤ 99.0
	// an empty plan lop: dp: privacy condition not met: Ridge = 0.1 gives c = 1.2527629684953692 ≥ ε = 0.9899999999999999 of the objective, so no noise is enough; want Ridge > 0.1478210171844061, or 0 for automatic
}

// The least noise at some ridges: from Δ = 1/ε on, 2/ε under replacement, logistic
// losses need no more than the Gaussian mechanism. Losses that declare no envelope do.
func ExampleMechanism_Plan_noise() {
	rows := make([][]float64, 10000)
	for i := range rows {
		rows[i] = make([]float64, 12)
	}
	data, err := erm.NewData(rows, make([]float64, len(rows)), loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 1}, loss.PseudoHuber{Delta: 1}} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			fmt.Printf("%T, %v:", l, rel)
			for _, ridge := range []float64{1, 2, 4} {
				p := &erm.Problem{Data: data, Loss: l, Records: len(rows)}
				plan, err := (&lop.Mechanism{Relation: rel, Ridge: ridge}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-5})
				if err != nil {
					fmt.Println(err)
					return
				}
				fmt.Printf(" %.2f", plan.Params().Sigma)
			}
			fmt.Println()
		}
	}
	// Output:
	// loss.Logistic, replace: 7.78 7.46 7.46
	// loss.Logistic, add-remove: 3.73 3.73 3.73
	// loss.Huber, replace: 20.66 11.71 9.38
	// loss.Huber, add-remove: 9.71 5.70 4.65
	// loss.PseudoHuber, replace: 12.70 7.79 7.61
	// loss.PseudoHuber, add-remove: 3.89 3.89 3.89
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
	fmt.Printf("L = %.2f, σ = %.2f, %s\n", plan.Params().Lipschitz, plan.Params().Sigma, plan.Certificate().Theorem)
	// Output:
	// lop: dp: privacy condition not met: the loss has Lipschitz = +Inf on the declared bounds, so no noise is enough: declare a bounded Set, or clip a loss of ⟨a,θ⟩
	// L = 1.00, σ = 10.96, lop.joint/2
}

// What a public center is for: an earlier private model is the anchor of the next fit, which needs
// a fraction of the first budget to improve on it. One ledger holds the cost of both.
func ExampleMechanism_center() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "anchor")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	account, err := ledger.Create(filepath.Join(dir, "records.ledger"), ledger.Terms{
		Total: dp.Budget{Epsilon: 1, Delta: 1e-5}, Relation: dp.Replace,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := &erm.Problem{Data: data(), Loss: loss.Logistic{}}
	fit := func(m *lop.Mechanism, eps float64, seed uint64) (theta []float64) {
		plan, err := m.Plan(p, dp.Budget{Epsilon: eps, Delta: 1e-6})
		if err == nil {
			_, err = account.Spend(ctx, plan, nil) // before any noise is drawn
		}
		var rel *dp.Release
		if err == nil {
			rel, err = plan.Fit(ctx, p, dp.Seeded(seed)) // nil in earnest
		}
		if err != nil {
			fmt.Println(err)
			return nil
		}
		return rel.Theta
	}
	first := fit(&lop.Mechanism{Radius: 5}, 0.6, 1)
	second := fit(&lop.Mechanism{Radius: 2, Center: first}, 0.3, 2) // within 2 of the first, by a public guess
	fmt.Printf("%.1f, then %.1f\n", first, second)
	fmt.Println(len(account.Entries()), "fits in the ledger")
	// Output:
	// [9.2 0.2], then [9.5 0.6]
	// 2 fits in the ledger
}

func ExampleOutput() {
	p := &erm.Problem{Data: data(), Loss: loss.Logistic{}}
	plan, err := (&lop.Output{Radius: 5}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-6})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("Δ = %.0f, output noise %.3f per coordinate\n", plan.Params().Ridge, plan.Params().OutputSigma)
	// Output:
	// Δ = 44, output noise 0.193 per coordinate
}
