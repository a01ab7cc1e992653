// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// large returns n×d logistic records, made fast.
func large(n, d int) *erm.Problem {
	rnd := rand.New(rand.NewPCG(1, 1))
	x, y := make([]float64, n*d), make([]float64, n)
	for i := range x {
		x[i] = (rnd.Float64() - 0.5) / 4
	}
	for i := range y {
		y[i] = 1 - 2*float64(i%2)
	}
	data, err := erm.NewDataDense(mat.NewDense(n, d, x), y, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		panic(err)
	}
	return &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 1}}
}

// One epoch of noisy SGD, and a plain pass over the same batches: the gradient sums alone.
func BenchmarkEpoch(b *testing.B) {
	const n, d, steps = 1000000, 50, 100
	p := large(n, d)
	m := &NoisySGD{Steps: steps, Batch: n / steps}
	pl, err := m.Plan(p, dp.Budget{Epsilon: 1, Delta: 1e-12})
	if err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("method=NoisySGD/n=%d/d=%d", n, d), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pl.Fit(context.Background(), p, noise.Reproducible(1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("method=plain/n=%d/d=%d", n, d), func(b *testing.B) {
		obj := p.Perturb(erm.Perturbation{})
		w, g := make([]float64, d), make([]float64, d)
		batches := pl.Params().Sampler.Batches(n, noise.Reproducible(1))
		var all [][]int
		for range steps {
			all = append(all, append([]int(nil), batches()...))
		}
		b.ReportAllocs()
		for b.Loop() {
			for _, batch := range all {
				obj.GradTerms(g, w, batch)
				for j := range w {
					w[j] -= 1e-6 * g[j]
				}
			}
		}
	})
}

// A whole fit of A_ProxGD and of A_ObjP by SVRG.
func BenchmarkFit(b *testing.B) {
	const n, d = 10_000, 20
	p := large(n, d)
	for name, m := range map[string]mechanism{"ProxGD": &ProxGD{}, "ObjPert/svrg": &ObjPert{SVRG: true}} {
		b.Run(fmt.Sprintf("method=%s/n=%d/d=%d", name, n, d), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Fit(b.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-9}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	budget := dp.Budget{Epsilon: 1, Delta: 1e-8}
	for _, n := range []int{1000, 30000} {
		q, _ := declared(n, 20, budget.Epsilon, budget.Delta, 1, 0.25, 1)
		for _, m := range []interface {
			Calibrate(q erm.Public, b dp.Budget) (*Plan, error)
		}{
			&NoisySGD{}, &NoisySGD{Scheme: FixedSize}, &NoisySGD{Scheme: WithReplacement},
			&NoisySGD{Relation: dp.AddRemove}, &DPSGD{},
		} {
			name := fmt.Sprintf("method=%T/n=%d", m, n)
			if s, ok := m.(*NoisySGD); ok {
				name += fmt.Sprintf("/scheme=%v/relation=%v", s.Scheme, cmp.Or(s.Relation, dp.Replace))
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Calibrate(q, budget); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
