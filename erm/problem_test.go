// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

func TestCheckAndConstants(t *testing.T) {
	data, _, _ := random(2, 5, 3)
	wide, err := NewData([][]float64{{1, 0, 0}}, []float64{2}, loss.Bounds{Row: 1, Label: 2})
	require.NoError(t, err)
	for text, p := range map[string]*Problem{
		"the problem is nil": nil,
		"there is no Data":   {Loss: square{}},
		"there is no Data,":  {Data: &Data{}, Loss: square{}},
		"Label: 1":           {Data: wide, Loss: loss.Logistic{}},
		"3 features for Mul": {Data: wide, Loss: loss.Multinomial{Classes: 2}},
		"Loss is nil":        {Data: data},
		"Loss: ":             {Data: data, Loss: loss.Huber{Delta: -1}},
		"Reg: ":              {Data: data, Loss: square{}, Reg: prox.L1{Weight: math.NaN()}},
		"Set: ":              {Data: data, Loss: square{}, Set: prox.Box{Lo: 1, Hi: 0}},
		"Set has radius NaN": {Data: data, Loss: square{}, Set: oddSet{}},
	} {
		err := p.Check()
		require.ErrorIs(t, err, ErrProblem, text)
		require.ErrorContains(t, err, text)
		require.PanicsWithValue(t, badProblem, func() { p.Perturb(Perturbation{}) })
	}
	p := &Problem{Data: data, Loss: loss.Squared{}}
	c := p.Loss.Constants(data.Bounds(), p.radius())
	require.Equal(t, math.Inf(1), c.Lipschitz)
	p.Set = prox.L2Ball{R: 2}
	c = p.Loss.Constants(data.Bounds(), p.radius())
	b := data.Bounds()
	require.InEpsilon(t, b.Row*(b.Row*2+b.Label), c.Lipschitz, 1e-11)
}

type oddSet struct{ onlyProx }

func (oddSet) Radius(int) float64 { return math.NaN() }

// steeper is twice the logistic loss. It embeds loss.Logistic and so has its Slope2, which is wrong
// for the doubled loss.
type steeper struct{ loss.Logistic }

func (l steeper) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	phi, dphi, d2phi = l.Logistic.Scalar(u, b, norm)
	return 2 * phi, 2 * dphi, 2 * d2phi
}

func (l steeper) Constants(b loss.Bounds, radius float64) loss.Constants {
	c := l.Logistic.Constants(b, radius)
	c.Lipschitz, c.Smoothness = 2*c.Lipschitz, 2*c.Smoothness
	return c
}

func TestPromotedMethodsAreNotTrusted(t *testing.T) {
	data, x, _ := random(3, 10, 2)
	_, dphi, _ := steeper{}.Scalar(0, 1, 1)
	require.Equal(t, -1.0, dphi)
	twice := unperturbed(&Problem{Data: data, Loss: steeper{}}).Residual(x)
	require.InEpsilon(t, 2*unperturbed(&Problem{Data: data, Loss: loss.Logistic{}}).Residual(x), twice, 1e-9)
}

func TestLossAssumptions(t *testing.T) {
	for _, l := range certified() {
		if _, ok := l.(foreign); !ok {
			require.Empty(t, LossAssumptions(l), "%T", l)
		}
	}
	require.Equal(t, []dp.Assumption{DeclaredLoss, ScalarAccuracy}, LossAssumptions(foreign{loss.Logistic{}}))
	require.Equal(t, []dp.Assumption{DeclaredLoss}, LossAssumptions(foreign{loss.Squared{}}),
		"a quadratic is computed here")
	require.Equal(t, []dp.Assumption{DeclaredLoss, ScalarAccuracy}, LossAssumptions(steeper{}))
	require.Equal(t, []dp.Assumption{ScalarAccuracy}, LossAssumptions(loss.Multinomial{Classes: 3}))
	require.Equal(t, []dp.Assumption{ScalarAccuracy}, LossAssumptions(loss.Moreau{Loss: loss.Logistic{}, Beta: 1}))
}

// onlyProx is an operator without a subdifferential.
type onlyProx struct{}

func (onlyProx) Func([]float64) float64 { return 0 }

func (onlyProx) Prox(dst, x []float64, _ float64) { copy(dst, x) }

// certifiable returns an error that explains why Residual cannot certify the minimizer of p, or nil
// if it can.
func certifiable(p *Problem) error {
	_, err := p.certificate()
	return err
}

// instance draws a small problem whose scales vary over many decades.
func instance(rnd *rand.Rand, l loss.Loss) (p *Problem, q Perturbation, lambda, lo, hi float64) {
	n, d := 1+rnd.IntN(6), 1+rnd.IntN(3)
	scale := func(decades float64) float64 { return math.Pow(10, decades*(2*rnd.Float64()-1)) }
	vec := func(s float64) []float64 {
		v := make([]float64, d)
		for j := range v {
			v[j] = s * rnd.NormFloat64()
		}
		return v
	}
	rows, labels := make([][]float64, n), make([]float64, n)
	rowScale, labelScale := scale(2), scale(2)
	// The labels of this loss are classes.
	if loss.CheckData(l, d, loss.Bounds{Row: 1, Label: 2}) != nil {
		labelScale = 1
	}
	for i := range rows {
		rows[i], labels[i] = vec(rowScale), labelScale*rnd.NormFloat64()
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: rowScale, Label: labelScale})
	if err != nil {
		panic(err)
	}
	lambda, hi = 0, math.Inf(1)
	if rnd.IntN(2) == 0 {
		lambda = scale(2)
	}
	if rnd.IntN(2) == 0 {
		hi = scale(2)
	}
	lo = -hi
	p = &Problem{Data: data, Loss: l}
	if lambda > 0 {
		p.Reg = prox.L1{Weight: lambda}
	}
	if !math.IsInf(hi, 1) {
		p.Set = prox.Box{Lo: lo, Hi: hi}
	}
	if rnd.IntN(2) == 0 {
		q.Linear = vec(scale(3))
	}
	if rnd.IntN(2) == 0 {
		q.Center = vec(scale(2))
	}
	diag := make([]float64, d)
	for j := range diag {
		diag[j] = scale(4)
	}
	q.MinEig = floats.Min(diag)
	if rnd.IntN(2) == 0 {
		q.Quad = mat.NewDiagDense(d, diag)
	} else {
		s := mat.NewSymDense(d, nil)
		for j, v := range diag {
			s.SetSym(j, j, v)
		}
		q.Quad = s // the same matrix in full storage: λ_min is known exactly
	}
	return p, q, lambda, lo, hi
}
