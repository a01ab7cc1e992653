// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// quantile95 is the 0.975 quantile of the normal law.
const quantile95 = 1.959963984540054

// estimate is the generalized least squares estimate ĥ of counts from noisy linear functions of
// them, and its covariance V, which no record enters (docs/theory/evaluation.md#evaluation.join).
type estimate struct {
	h []float64
	v *mat.SymDense
}

// condition adds the measurement y of ⟨a, h⟩ with the given variance of its noise, 0 for a known
// sum.
func (e *estimate) condition(a []float64, y, variance float64) {
	u := mat.NewVecDense(len(e.h), nil)
	u.MulVec(e.v, mat.NewVecDense(len(a), a))
	total := floats.Dot(a, u.RawVector().Data) + variance
	floats.AddScaled(e.h, (y-floats.Dot(a, e.h))/total, u.RawVector().Data)
	e.v.SymRankOne(e.v, -1/total, u)
}

// variance returns the variance of ⟨g, ĥ⟩, g′Vg.
func (e *estimate) variance(g []float64) float64 {
	x := mat.NewVecDense(len(g), g)
	return max(mat.Inner(x, e.v, x), 0)
}

// sum returns ⟨g, ĥ⟩ and its standard deviation.
func (e *estimate) sum(g []float64) (value, deviation float64) {
	return floats.Dot(g, e.h), math.Sqrt(e.variance(g))
}

// variances returns those of the coordinates of a block, with the 1/12 of a step that rounding
// adds.
func (k Block) variance() float64 {
	step := math.Ldexp(1, k.exponent)
	return k.Sigma*k.Sigma + step*step/12
}

// block returns a block by its name.
func (p *Plan) block(name string) Block {
	for _, k := range p.blocks {
		if k.Name == name {
			return k
		}
	}
	return Block{}
}

// cells joins the blocks of a score of classes: those of counts that the plan has, and under
// replace the public number of records.
func (p *Plan) cells(values map[string][]float64) *estimate {
	var e *estimate
	conf := p.block(blockConfusion).variance()
	if p.subject.kind == table.Classes {
		e = &estimate{h: append([]float64(nil), values[blockConfusion]...)}
		e.v = mat.NewSymDense(len(e.h), nil)
		for i := range e.h {
			e.v.SetSym(i, i, conf)
		}
		right, noise := p.subject.right(), p.block(blockRight).variance()
		e.condition(right, values[blockRight][0], noise)
		if p.options.Relation == dp.AddRemove {
			wrong := p.subject.cellsOf(func(truth, said int) bool { return truth != said })
			e.condition(wrong, values[blockRight][1], noise)
		}
	} else {
		e = fromChains(values[blockCells], p.block(blockCells).variance())
		for i, y := range values[blockConfusion][:4] {
			e.condition(p.subject.cellsOf(func(truth, said int) bool { return 2*truth+said == i }), y, conf)
		}
	}
	if p.options.Relation == dp.Replace {
		e.condition(ones(len(e.h)), float64(p.options.Records), 0)
	}
	return e
}

// fromChains solves the prefix sums of the two classes for their cells.
func fromChains(y []float64, variance float64) *estimate {
	e := &estimate{v: mat.NewSymDense(2*numCells, nil)}
	inverse := make([][]float64, numCells) // columns of (2⁻²⁰R)⁻¹
	for j := range inverse {
		unit := make([]float64, numCells)
		unit[j] = release.RootOne
		inverse[j] = chains.Solve(unit)
	}
	for class := range 2 {
		scaled := append([]float64(nil), y[class*numCells:(class+1)*numCells]...)
		floats.Scale(release.RootOne, scaled)
		e.h = append(e.h, chains.Solve(scaled)...)
		for i := range numCells {
			for k := i; k < numCells; k++ {
				sum := 0.0
				for j := range inverse {
					sum += inverse[j][i] * inverse[j][k]
				}
				e.v.SetSym(class*numCells+i, class*numCells+k, variance*sum)
			}
		}
	}
	return e
}

// classesOf returns the true and the predicted class of a cell of the counts of one model.
func (s *subject) classesOf(cell int) (truth, said int) {
	if s.kind == table.Classes {
		return cell / s.classes, cell % s.classes
	}
	return cell / numCells, cell % numCells / halfCell
}

// cellsOf returns the indicator of the cells whose classes are in a set.
func (s *subject) cellsOf(in func(truth, said int) bool) []float64 {
	g := make([]float64, 2*numCells)
	if s.kind == table.Classes {
		g = make([]float64, s.classes*s.classes)
	}
	for i := range g {
		if in(s.classesOf(i)) {
			g[i] = 1
		}
	}
	return g
}

// right returns the indicator of right predictions among the cells.
func (s *subject) right() []float64 {
	return s.cellsOf(func(truth, said int) bool { return truth == said })
}

// trueClass returns the indicator of the cells of a true class.
func (s *subject) trueClass(y int) []float64 {
	return s.cellsOf(func(truth, _ int) bool { return truth == y })
}

func ones(n int) []float64 {
	g := make([]float64, n)
	floats.AddConst(1, g)
	return g
}

// accuracyNoise returns the standard deviation that noise gives n times the accuracy, in the worst
// case; for a number, n times the mean error as a share of the range.
func (p *Plan) accuracyNoise() float64 {
	replace := p.options.Relation == dp.Replace
	switch {
	case p.subject.against != nil && p.subject.kind == table.Range:
		return p.block(blockDiff).Sigma
	case p.subject.kind == table.Range:
		return p.block(blockCapped).Sigma
	case p.subject.against != nil: // at most 2 + 4d², d = 1
		worst := 6.0
		if replace {
			worst = 2
		}
		return math.Sqrt(worst * p.block(blockPairs).variance())
	case p.options.AccuracyOnly:
		return math.Sqrt(p.block(blockRight).variance())
	}
	e := p.cells(p.zeros())
	if replace {
		return math.Sqrt(e.variance(p.subject.right()))
	}
	worst := 0.0
	for _, a := range []float64{0, 1} { // a parabola in a
		g := p.subject.right()
		floats.AddConst(-a, g)
		worst = max(worst, e.variance(g))
	}
	return math.Sqrt(worst)
}

// lengths returns the number of coordinates of every block.
func (p *Plan) lengths() map[string]int {
	k, right := p.subject.classes, 1
	if p.options.Relation == dp.AddRemove {
		right = 2
	}
	out := map[string]int{blockRight: right, blockConfusion: k * k, blockCells: 2 * numCells, blockLoss: 1,
		blockErrors: len(sizes) + 1, blockCapped: 2, blockLabels: 2, blockPairs: 4, blockDiff: 2}
	if p.subject.rows > 0 {
		out[blockRight]++
		out[blockLoss]++
		out[blockPairs] += len(pairsOfFour)
		if p.subject.kind == table.Binary {
			out[blockConfusion] += len(pairsOfFour)
		}
	}
	return out
}

func (p *Plan) zeros() map[string][]float64 {
	values := map[string][]float64{}
	for _, k := range p.blocks {
		values[k.Name] = make([]float64, p.lengths()[k.Name])
	}
	return values
}

// diagonal returns the chance with which a positive is above a negative of the same cell, if the
// negatives are spread evenly over the log odds of the cell and the model is calibrated inside it:
// ½ + w/12, w the width of the cell in log odds; ½ for scores that are no probabilities.
func (s subject) diagonal() []float64 {
	d := make([]float64, numCells)
	for k := range d {
		d[k] = 0.5
		if s.probability {
			width := 1.4 // of the two cells at the ends
			if k > 0 && k < numCells-1 {
				width = logOdds(probabilities[k]) - logOdds(probabilities[k-1])
			}
			d[k] += min(width/12, 0.25)
		}
	}
	return d
}

func logOdds(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

// wins returns M: the chance that a positive of cell i is above a negative of cell k.
func (s subject) wins() *mat.Dense {
	m := mat.NewDense(numCells, numCells, nil)
	for i, d := range s.diagonal() {
		for k := range i {
			m.Set(i, k, 1)
		}
		m.Set(i, i, d)
	}
	return m
}

// auc estimates the area under the curve and the variances of sampling and noise, and the bound on
// what the cells hide (docs/theory/evaluation.md#evaluation.auc).
func (s subject) auc(e *estimate, n0, n1 float64) (value, sampling, privacy, bound float64) {
	m := s.wins()
	a0, a1 := mat.NewVecDense(numCells, nil), mat.NewVecDense(numCells, nil)
	a0.ScaleVec(1/n0, mat.NewVecDense(numCells, e.h[:numCells]))
	a1.ScaleVec(1/n1, mat.NewVecDense(numCells, e.h[numCells:]))
	value = mat.Inner(a1, m, a0)
	diagonal := s.diagonal()
	var second float64 // Σ (MV₀₀M′)∘V₁₁
	v00 := e.v.SliceSym(0, numCells)
	var mv, mvm mat.Dense
	mv.Mul(m, v00)
	mvm.Mul(&mv, m.T())
	for i := range numCells {
		for k := range numCells {
			value -= m.At(i, k) * e.v.At(numCells+i, k) / (n0 * n1)
			second += mvm.At(i, k) * e.v.At(numCells+i, numCells+k)
		}
		bound += diagonal[i] * (a0.AtVec(i)*a1.AtVec(i) - e.v.At(i, numCells+i)/(n0*n1))
	}
	bound = max(bound, 0)
	var f0, g1 mat.VecDense
	f0.MulVec(m, a0)
	g1.MulVec(m.T(), a1)
	d := make([]float64, 2*numCells)
	for k := range numCells {
		d[k], d[numCells+k] = (g1.AtVec(k)-value)/n0, (f0.AtVec(k)-value)/n1
	}
	// The noise of d adds the quadratic part twice to d′Vd.
	second = max(second, 0) / (n0 * n1 * n0 * n1)
	privacy = max(e.variance(d)-second, second)
	q0, q1 := shares(e.h[:numCells]), shares(e.h[numCells:])
	f0.MulVec(m, q0)
	g1.MulVec(m.T(), q1)
	sampling = spread(q1, &f0)/n1 + spread(q0, &g1)/n0
	return value, sampling, privacy, bound
}

// shares returns the nonnegative parts of h, divided by their sum.
func shares(h []float64) *mat.VecDense {
	q := mat.NewVecDense(len(h), nil)
	sum := 0.0
	for i, v := range h {
		q.SetVec(i, max(v, 0))
		sum += max(v, 0)
	}
	if sum > 0 {
		q.ScaleVec(1/sum, q)
	}
	return q
}

// spread returns the variance of x under the weights q.
func spread(q, x *mat.VecDense) float64 {
	mean, sum := mat.Dot(q, x), 0.0
	for i := range q.Len() {
		d := x.AtVec(i) - mean
		sum += q.AtVec(i) * d * d
	}
	return sum
}

// cellLosses returns the log loss of a record of class 0 and of class 1 in every cell, at its
// middle in log odds.
func cellLosses() []float64 {
	l := make([]float64, 2*numCells)
	for k := range numCells {
		at := 0.0
		switch k {
		case 0:
			at = logOdds(probabilities[0]) - 0.7
		case numCells - 1:
			at = logOdds(probabilities[numCells-2]) + 0.7
		default:
			at = (logOdds(probabilities[k-1]) + logOdds(probabilities[k])) / 2
		}
		p := 1 / (1 + math.Exp(-at))
		l[k], l[numCells+k] = min(logLoss(p, 0), mostLoss), min(logLoss(p, 1), mostLoss)
	}
	return l
}
