package erm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Interpolation is where the records' gradients cancel: the allowance must
// come from the size of the predictions, not of their differences.
func TestResidualUnderCancellation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const n, d = 40, 3
		truth := []float64{1e3 * rnd.NormFloat64(), 1e3, -1e3}
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64()}
			labels[i] = floats.Dot(rows[i], truth)
		}
		data, err := NewData(rows, labels, loss.Bounds{Row: 10, Label: 1e5})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		// Q is ill conditioned and the center next to the point.
		g := mat.NewDense(d, d, nil)
		g.Apply(func(i, _ int, _ float64) float64 { return rnd.NormFloat64() * math.Pow(1e4, float64(i)) }, g)
		w := mat.NewSymDense(d, nil)
		w.SymOuterK(1, g)
		center := append([]float64(nil), truth...)
		center[0] += 1e-9
		q := Perturbation{Quad: w, Center: center}
		bx := []*big.Float{bf(truth[0]), bf(truth[1]), bf(truth[2])}
		exact := bnorm(bgrad(p, q, bx))
		require.True(t, bf(p.Perturb(q).Residual(truth)).Cmp(exact) >= 0)
	}
}

// A prediction far below its terms is known to twice the precision of those only.
func TestResidualOfCancelledPredictions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	tight := 0
	for range 300 {
		d := 20 + 2*rnd.IntN(90)
		a, x := make([]float64, d), make([]float64, d)
		for j := range a[:d-3] {
			a[j], x[j] = rnd.NormFloat64(), rnd.NormFloat64()
		}
		for j := d - 3; j < d; j++ { // the rest of the sum, to 159 bits
			a[j] = 1
			x[j] = -bnum(bdot(a[:j], bigs(x[:j])))
		}
		data, err := NewData([][]float64{a}, []float64{0}, loss.Bounds{Row: 1e3, Label: 1})
		require.NoError(t, err)
		for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{Delta: 1}} {
			p := &Problem{Data: data, Loss: l}
			exact := bgrad(p, Perturbation{}, bigs(x))
			hi, lo, allowance := p.Perturb(Perturbation{}).s().pairGrad(x, nil)
			for j := range hi {
				e := math.Abs(bnum(bsub(badd(bf(hi[j]), bf(lo[j])), exact[j])))
				require.LessOrEqual(t, e, boundRoom*allowance)
				if e > 1e-6*allowance {
					tight++
				}
			}
		}
	}
	require.Greater(t, tight, 10)
}

// The distance of hi + lo to the box of subgradients keeps both words.
func TestDistanceOfPairs(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 8))
	data, err := Empty(1, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	tight := 0
	for range 3000 {
		l1, l2 := math.Abs(rnd.NormFloat64()), math.Abs(rnd.NormFloat64())*float64(rnd.IntN(2))
		g := prox.ElasticNet{L1: l1, L2: l2}
		s := (&Problem{Data: data, Loss: loss.Squared{}, Reg: g}).Perturb(Perturbation{}).s()
		x := []float64{rnd.NormFloat64() * float64(rnd.IntN(4))}
		u := badd(bmul(bf(l2), bf(x[0])), bf(math.Copysign(l1, x[0]))) // an element of ∂g(x)
		v := bmul(u, bf(-1))
		if rnd.IntN(2) == 0 {
			v = badd(v, bf(rnd.NormFloat64()*math.Pow(2, -120*rnd.Float64())))
		}
		hi := bnum(v)
		lo := bnum(bsub(v, bf(hi)))
		exact := badd(badd(bf(hi), bf(lo)), u)
		if x[0] == 0 { // ∂g(0) = [−l1, l1]
			exact = bsub(bmul(badd(bf(hi), bf(lo)), bf(float64(badd(bf(hi), bf(lo)).Sign()))), bf(l1))
		}
		want := max(bnum(exact)*float64(exact.Sign()), 0)
		if x[0] == 0 {
			want = max(bnum(exact), 0)
		}
		got := s.distance(g, x, make([]float64, len(x)), []float64{hi}, []float64{lo}) * (1 + 21*0x1p-52)
		require.GreaterOrEqual(t, got, want)
		require.LessOrEqual(t, got, want*(1+1e-13)+0x1p-96*math.Abs(hi)+1e-320)
		if got < 1e-25 {
			tight++
		}
	}
	require.Greater(t, tight, 500)
	// An operator that embeds one of package prox has its Coordinate, but perhaps another ∂g.
	odd := steepL1{prox.L1{Weight: 1}}
	o := (&Problem{Data: data, Loss: loss.Squared{}, Reg: odd}).Perturb(Perturbation{})
	require.GreaterOrEqual(t, o.Residual([]float64{3}), 2.0)
}

// steepL1 is 2‖x‖₁.
type steepL1 struct{ prox.L1 }

func (g steepL1) Dist(x, v []float64) float64 { return prox.L1{Weight: 2}.Dist(x, v) }

// The same without a perturbation, through Scalar: the whole residual is the
// rounding of the predictions, which the allowance must cover.
func TestResidualOfRoundingOnly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 2))
	for range 500 {
		truth := []float64{1e3 * rnd.NormFloat64(), 1e3 * rnd.NormFloat64()}
		n := 1 + rnd.IntN(4)
		rows, labels := make([][]float64, n), make([]float64, n)
		for i := range rows {
			rows[i] = []float64{rnd.NormFloat64(), rnd.NormFloat64()}
			labels[i] = floats.Dot(rows[i], truth)
		}
		data, err := NewData(rows, labels, loss.Bounds{Row: 10, Label: 1e5})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Huber{Delta: 1}}
		exact := bnorm(bgrad(p, Perturbation{}, []*big.Float{bf(truth[0]), bf(truth[1])}))
		require.True(t, bf(p.Perturb(Perturbation{}).Residual(truth)).Cmp(exact) >= 0)
	}
}

// Q(x−θ̃) may be far smaller than ‖Q‖‖x−θ̃‖: the certificate covers the error
// of the product all the same.
func TestResidualOfANearNullDirection(t *testing.T) {
	const d = 40
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		q := mat.NewSymDense(d, nil)
		v, x := make([]float64, d), make([]float64, d)
		for j := range v {
			v[j], x[j] = rnd.NormFloat64(), rnd.NormFloat64()
		}
		x[d-1] = -floats.Dot(v[:d-1], x[:d-1]) / v[d-1] // ⟨v,x⟩ is nearly 0
		q.SymRankOne(q, 1, mat.NewVecDense(d, v))
		data, err := NewData([][]float64{make([]float64, d)}, []float64{0}, loss.Bounds{Row: 1, Label: 1})
		require.NoError(t, err)
		p := &Problem{Data: data, Loss: loss.Squared{}}
		pert := Perturbation{Quad: q}
		bx := make([]*big.Float, d)
		for j, xj := range x {
			bx[j] = bf(xj)
		}
		require.True(t, bf(p.Perturb(pert).Residual(x)).Cmp(bnorm(bgrad(p, pert, bx))) >= 0)
	}
}

// Rows of Q that cancel to twice the precision.
func TestResidualOfACancelledQuad(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 9))
	const d = 40
	data, err := Empty(d, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	ones := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range d {
			ones.SetSym(i, j, 1)
		}
	}
	p, q := &Problem{Data: data, Loss: loss.Squared{}}, Perturbation{Quad: ones, Center: make([]float64, d)}
	for range 100 {
		x, one := make([]float64, d), slices.Repeat([]float64{1}, d)
		for j := range x {
			x[j], q.Center[j] = rnd.NormFloat64()*math.Pow(10, 16*rnd.Float64()), rnd.NormFloat64()*1e-3
		}
		clear(q.Center[d-3:])
		for j := d - 3; j < d; j++ { // the rest of the sum, to 159 bits
			x[j] = bnum(bsub(bdot(one, bigs(q.Center)), bdot(one[:j], bigs(x[:j]))))
		}
		hi, lo, allowance := p.Perturb(q).s().pairGrad(x, nil)
		for j, g := range bgrad(p, q, bigs(x)) {
			require.LessOrEqual(t, math.Abs(bnum(bsub(g, badd(bf(hi[j]), bf(lo[j]))))), boundRoom*allowance)
		}
	}
}

// The allowance counts every record: it is the sum of those of the records by
// themselves, however many parts their sum has.
func TestAllowanceCountsEveryRecord(t *testing.T) {
	const n, d = 9000, 80
	data, x, _ := random(12, n, d)
	rows, labels := [][]float64(nil), []float64(nil)
	for _, r := range every(data) {
		rows, labels = append(rows, r[:d]), append(labels, r[d])
	}
	_, sparse := twins(t, rows, labels, data.Bounds())
	for _, l := range []loss.Loss{loss.Squared{}, loss.Logistic{}, general{smoothAbs{}}} {
		for _, data := range []*Data{data, sparse} {
			s := (&Problem{Data: data, Loss: l}).Perturb(Perturbation{}).s()
			require.Greater(t, n, 3*grain)
			hi, _, got := s.pairGrad(x, nil)
			want := 0x1p-100 * floats.Norm(hi, 2)
			g, part, one := make([]float64, d), new(partial), newQuery(s.costs, askPair, x, nil, data.r())
			part.reset(&one)
			for i := range n {
				if s.glm != nil {
					want += one.pairLinear(part, data.r(), i, i+1)
				} else {
					l.Grad(g, x, data.Row(i), data.Label(i))
					want += (allowGrad + one.rounding()) * floats.Norm(g, 2)
				}
			}
			require.InEpsilon(t, want, got, 1e-9, "%T", l) // n roundings
		}
	}
}

// The allowance of an exact loss does not grow with n as the plain one does.
func TestAllowanceOfManyRecords(t *testing.T) {
	const n, d = 50_000, 4
	data, x, qs := random(31, n, d)
	p := &Problem{Data: data, Loss: loss.Logistic{}}
	_, _, exact := p.Perturb(qs[4]).s().pairGrad(x, nil)
	p.Loss = foreign{loss.Logistic{}}
	_, _, other := p.Perturb(qs[4]).s().pairGrad(x, nil)
	require.Less(t, exact, 0x1p-85*n)
	require.Greater(t, other, 1e-16*n)
}

// The allowance has what a sum of a grain may lose in the worst case, which no example comes near.
func TestAllowanceCountsTheSumsOfAGrain(t *testing.T) {
	rows, labels := make([][]float64, grain), make([]float64, grain)
	for i := range rows {
		rows[i], labels[i] = []float64{1}, 1
	}
	data, err := NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	_, _, allowance := (&Problem{Data: data, Loss: loss.Squared{}}).Perturb(Perturbation{}).s().pairGrad([]float64{0}, nil)
	require.GreaterOrEqual(t, allowance, grain*6*(grain+16)*unit*unit) // Σ‖aᵢ‖|φ′ᵢ| = grain
}
