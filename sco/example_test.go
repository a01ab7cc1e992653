// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/sco"
)

// votes returns records whose class is the sign of their first feature, with
// one in ten wrong.
func votes(n int) *erm.Data {
	rnd := rand.New(rand.NewPCG(1, 1))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = []float64{rnd.Float64() - 0.5, rnd.Float64() - 0.5}
		labels[i] = 1
		if (rows[i][0] < 0) != (rnd.IntN(10) == 0) {
			labels[i] = -1
		}
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return data
}

// A plan shows every parameter before a record is read.
func ExampleNoisySGD() {
	p := &erm.Problem{Data: votes(10000), Loss: loss.Logistic{}, Set: prox.L2Ball{R: 3}}
	plan, err := (&sco.NoisySGD{}).Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-8})
	if err != nil {
		fmt.Println(err)
		return
	}
	params := plan.Params()
	fmt.Printf("%v\n%d steps, noise %.1f on the sum, bound %.2f\n", params.Sampler, params.Steps, params.Noise,
		params.ExcessBound)
	release, err := plan.Fit(context.Background(), p, dp.Seeded(1)) // nil in production
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(release.Theta[0] > 1)
	// Output:
	// Poisson batches of rate 0.004315837287515549, replace neighbors
	// 4096 steps, noise 3.1 on the sum, bound 0.06
	// true
}

// Support vector machines have a kink: their Moreau envelope does not.
func ExampleProxGD() {
	p := &erm.Problem{Data: votes(10000), Loss: loss.Hinge{}, Set: prox.L2Ball{R: 3}}
	release, err := (&sco.ProxGD{}).Fit(context.Background(), p, dp.Budget{Epsilon: 2, Delta: 1e-8}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(release.Theta[0] > 1, release.Certificate.Theorem)
	// Output:
	// true sco.prox/2
}

// Objective perturbation with its minimizer found by SVRG.
func ExampleObjPert_svrg() {
	p := &erm.Problem{Data: votes(10000), Loss: loss.Logistic{}, Set: prox.L2Ball{R: 3}}
	release, err := (&sco.ObjPert{SVRG: true}).Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-8},
		dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(release.Theta[0] > 1)
	fmt.Println(release.Certificate)
	// Output:
	// true
	// (ε = 1, δ = 1e-08)-differentially private, replace neighbors
	//   theorem: lop.joint/2
	//   assumes: the caller's random source is unpredictable, secret and never reused
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}
