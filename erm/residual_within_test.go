package erm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
)

// The sum of many records loses what is small beside it, and the plain bound counts that.
func TestPlainGradOfManySmallRecords(t *testing.T) {
	const n = 6000
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i], labels[i] = []float64{1}, -0.6*unit
	}
	tight := 0.0
	for big := range 20 { // its place in the canonical order is anywhere
		labels[0] = -1 - float64(big)/64
		data, err := NewData(rows, labels, loss.Bounds{Row: 1, Label: 2})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		grad, _, rounding := p.Perturb(Perturbation{}).s().plainGrad([]float64{0})
		exact := bgrad(p, Perturbation{}, bigs([]float64{0}))
		e := math.Abs(bnum(bsub(exact[0], bf(grad[0]))))
		require.LessOrEqual(t, e, boundRoom*rounding)
		tight = max(tight, e/rounding)
	}
	require.Greater(t, tight, 0.05)
}

// The bound of the plain sums is no less than the exact residual, whatever the
// scales, and where it misses the target the answer is Residual.
func TestResidualWithinBoundsTheExactOne(t *testing.T) {
	cases := testkit.Of(200, 700)
	for _, l := range certified() {
		rnd := rand.New(rand.NewPCG(23, 5))
		for c := range cases {
			p, q, lambda, lo, hi := instance(rnd, l)
			o := p.Perturb(q)
			x := make([]float64, o.Dim())
			for j := range x {
				if rnd.IntN(4) > 0 {
					x[j] = min(max(rnd.NormFloat64()*math.Pow(10, 4*rnd.Float64()-2), lo), hi)
				}
			}
			exact := bdist(bgrad(p, q, bigs(x)), x, lambda, lo, hi)
			plain := o.ResidualWithin(x, math.Inf(1))
			require.True(t, bf(plain).Cmp(exact) >= 0, "%T case %d: %v below the exact %v", l, c, plain, bnum(exact))
			accurate := o.Residual(x)
			require.Equal(t, accurate, o.ResidualWithin(x, 0))
			require.Equal(t, accurate, o.ResidualWithin(x, math.NaN()))
			require.Equal(t, plain, o.ResidualWithin(x, plain))
		}
	}
}

// The bound on the rounding holds by itself, where sums cancel and nothing else
// of the certificate would cover it, and is not idle.
func TestPlainGradCoversItsError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 2))
	vec := func(n int, decades float64) []float64 {
		v := make([]float64, n)
		for j := range v {
			v[j] = rnd.NormFloat64() * math.Pow(10, decades*(2*rnd.Float64()-1))
		}
		return v
	}
	tightest := map[string]float64{}
	for c := range testkit.Of(80, 200) {
		n, d := 1+rnd.IntN(60), 1+rnd.IntN(12)
		x := vec(d, 2)
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = vec(d, 3*rnd.Float64())
			if c%3 == 0 { // the products of a prediction cancel
				rows[i][0] -= floats.Dot(rows[i], x) / x[0]
			}
			labels[i] = floats.Dot(rows[i], x) // the records interpolate
			if rnd.IntN(2) == 0 {
				labels[i] += rnd.NormFloat64()
			}
		}
		if n > 1 && rnd.IntN(2) == 0 { // the gradients cancel
			rows[0], labels[0] = rows[1], 2*floats.Dot(rows[1], x)-labels[1]
		}
		dense, sparse := twins(t, rows, labels, loss.Bounds{Row: 1e5, Label: 1e9})
		q := Perturbation{}
		if rnd.IntN(2) == 0 {
			q.Linear = vec(d, 3)
		}
		if rnd.IntN(2) == 0 { // a center next to the point
			q.Center = append([]float64(nil), x...)
			q.Center[0] += 1e-9 * rnd.NormFloat64()
		}
		switch rnd.IntN(3) {
		case 0:
			diag := vec(d, 3)
			for j := range diag {
				diag[j] = math.Abs(diag[j])
			}
			q.Quad = mat.NewDiagDense(d, diag)
		case 1:
			g := mat.NewDense(d, d, vec(d*d, 2))
			s := mat.NewSymDense(d, nil)
			s.SymOuterK(1, g)
			q.Quad = s
		}
		classes, sparseClasses := twins(t, rows, labels, loss.Bounds{Row: 1e5, Label: 1})
		for name, l := range map[string]loss.Loss{
			"squared": loss.Squared{}, "huber": loss.Huber{Delta: 0.7}, "logistic": loss.Logistic{},
			"envelope": loss.Moreau{Loss: loss.Hinge{}, Beta: 3},
		} {
			pair := []*Data{dense, sparse}
			if loss.CheckData(l, d, dense.Bounds()) != nil {
				pair = []*Data{classes, sparseClasses}
			}
			for _, data := range pair {
				p := &Problem{Data: data, Loss: l}
				grad, _, rounding := p.Perturb(q).s().plainGrad(x)
				rounding *= boundRoom
				diff := bgrad(p, q, bigs(x))
				for j, g := range grad {
					diff[j] = bsub(diff[j], bf(g))
				}
				e := bnorm(diff)
				require.True(t, bf(rounding).Cmp(e) >= 0, "%s case %d: error %v above the bound %v", name, c, bnum(e), rounding)
				tightest[name] = max(tightest[name], bnum(e)/rounding)
			}
		}
	}
	for name, r := range tightest {
		require.Greater(t, r, 0.01, "%s: the bound is within a hundredfold of some error", name)
	}
}

// Underflow, overflow and losses without a bound on their curvature.
func TestResidualWithinAtTheEnds(t *testing.T) {
	for _, scale := range []float64{1e-300, 1e-160, 1e-155, 1e155, 1e300} {
		bounds := loss.Bounds{Row: 3 * scale, Label: max(scale, 1)}
		data, err := NewData([][]float64{{scale, 2 * scale}, {-scale, scale}}, []float64{scale, 1}, bounds)
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		s := mat.NewSymDense(2, []float64{scale, scale / 2, scale / 2, scale})
		for _, x := range [][]float64{{1, -1}, {1e-170, 1e170}, {scale, scale}} {
			q := Perturbation{Quad: s, Center: []float64{1, 1}}
			exact := bnorm(bgrad(p, q, bigs(x)))
			got := p.Perturb(q).ResidualWithin(x, math.MaxFloat64)
			require.False(t, math.IsNaN(got))
			require.True(t, math.IsInf(got, 1) || bf(got).Cmp(exact) >= 0, "scale %v, x %v", scale, x)
		}
	}
	data, x, _ := random(3, 10, 3)
	for _, l := range []loss.Loss{general{smoothAbs{}}, square{}} {
		o := (&Problem{Data: data, Loss: l}).Perturb(Perturbation{})
		require.InEpsilon(t, o.Residual(x), o.ResidualWithin(x, math.Inf(1)), 1e-9)
	}
	require.Panics(t, func() { (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{}).ResidualWithin(x[:2], 1) })
	require.Equal(t, math.Inf(1), (&Problem{Data: data, Loss: square{}}).Perturb(Perturbation{}).ResidualWithin([]float64{0, math.NaN(), 0}, 1))
}
