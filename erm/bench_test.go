// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

func benchSizes() [][2]int { return [][2]int{{300, 100}, {1000, 100}, {15682, 23}, {100000, 100}} }

// BenchmarkGrad times the gradient pass X'(Xw−y). Compare it with the same loops in C and with the
// bandwidth of the memory.
func BenchmarkGrad(b *testing.B) {
	for _, s := range [][2]int{{300, 100}, {1000, 100}, {4000, 50}, {15682, 23}, {100000, 100}, {1000000, 50}} {
		data, x := uniform(s[0], s[1])
		g := make([]float64, s[1])
		for _, threads := range []int{1, 2} {
			o := unperturbed(&Problem{Data: data, Loss: loss.Squared{}, Threads: threads})
			b.Run(fmt.Sprintf("n=%d/d=%d/threads=%d", s[0], s[1], threads), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(8 * s[0] * s[1]))
				for b.Loop() {
					o.Grad(g, x)
				}
			})
		}
	}
}

// uniform returns uniformly distributed records, which are quick to generate.
func uniform(n, d int) (*Data, []float64) {
	rnd := rand.New(rand.NewPCG(1, 1))
	rows, labels, x := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, d)
	for i := range rows.RawMatrix().Data {
		rows.RawMatrix().Data[i] = rnd.Float64() - 0.5
	}
	for i := range labels {
		labels[i] = float64(i%7) - 3
	}
	for j := range x {
		x[j] = float64(j%5) * 0.01
	}
	data, err := NewDataDense(rows, labels, loss.Bounds{Row: 100, Label: 1})
	if err != nil {
		panic(err)
	}
	return data, x
}

func BenchmarkGradLoss(b *testing.B) {
	for _, s := range benchSizes() {
		data, x, _ := random(1, s[0], s[1])
		g := make([]float64, s[1])
		for _, l := range []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 1}} {
			o := unperturbed(&Problem{Data: data, Loss: l, Threads: 1})
			for name, f := range map[string]func(){
				"Grad":     func() { o.Grad(g, x) },
				"Func":     func() { o.Func(x) },
				"FuncGrad": func() { o.FuncGrad(g, x) },
			} {
				b.Run(fmt.Sprintf("%s/loss=%T/n=%d/d=%d/threads=1", name, l, s[0], s[1]), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						f()
					}
				})
			}
		}
	}
}

// BenchmarkGradTerms times the gradient of one term of a finite sum, which a stochastic step
// evaluates.
func BenchmarkGradTerms(b *testing.B) {
	data, x, qs := random(1, 300, 100)
	g, idx := make([]float64, 100), []int{7}
	for name, q := range map[string]Perturbation{"none": {}, "diagonal": qs[2], "dense": qs[4]} {
		o := (&Problem{Data: data, Loss: loss.Squared{}}).Perturb(q)
		b.Run("quad="+name+"/n=300/d=100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.GradTerms(g, x, idx)
			}
		})
	}
}

func BenchmarkGram(b *testing.B) {
	for _, s := range benchSizes() {
		data, _, _ := random(1, s[0], s[1])
		r := data.r()
		b.Run(fmt.Sprintf("n=%d/d=%d", s[0], s[1]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fresh := &records{n: r.n, d: r.d, shift: r.shift, slabs: r.slabs, bounds: r.bounds, floatsOnce: r.floatsOnce}
				unperturbed(&Problem{Data: &Data{func() *records { return fresh }}, Loss: loss.Squared{}}).Quadratic()
			}
		})
	}
}

// BenchmarkQuadratic times Perturb and Quadratic, the share of this package in one solve of a
// quadratic problem.
func BenchmarkQuadratic(b *testing.B) {
	data, _, qs := random(1, 300, 100)
	p := &Problem{Data: data, Loss: loss.Squared{}}
	p.Perturb(Perturbation{}).Quadratic()
	for name, q := range map[string]Perturbation{"diagonal": qs[2], "dense": qs[4]} {
		b.Run("quad="+name+"/n=300/d=100", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Perturb(q).Quadratic()
			}
		})
	}
}

func BenchmarkResidual(b *testing.B) {
	for _, s := range benchSizes() {
		data, x, qs := random(1, s[0], s[1])
		for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}} {
			p := &Problem{Data: data, Loss: l, Reg: prox.L1{Weight: 1}, Set: prox.Box{Lo: -100, Hi: 100}}
			o := p.Perturb(qs[4])
			b.Run(fmt.Sprintf("loss=%T/n=%d/d=%d", l, s[0], s[1]), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					o.Residual(x)
				}
			})
		}
	}
}

func BenchmarkHessian(b *testing.B) {
	data, x, _ := random(1, 15682, 23)
	h := mat.NewSymDense(23, nil)
	for _, l := range []loss.Loss{loss.Logistic{}, loss.Huber{Delta: 1e9}, loss.Huber{Delta: 4}} {
		o := unperturbed(&Problem{Data: data, Loss: l})
		b.Run(fmt.Sprintf("loss=%T%v/n=15682/d=23", l, l), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Hessian(h, x)
			}
		})
	}
}

func BenchmarkNewData(b *testing.B) {
	for _, s := range [][2]int{{15682, 23}, {10000, 100}} {
		data, _ := uniform(s[0], s[1])
		x, labels := mat.NewDense(s[0], s[1], nil), make([]float64, s[0])
		for i := range labels {
			x.SetRow(i, data.Row(i))
		}
		b.Run(fmt.Sprintf("n=%d/d=%d", s[0], s[1]), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewDataDense(x, labels, data.Bounds())
			}
		})
	}
}
