// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// SampleBound returns a lower bound on ε from independent outputs x and y on
// two neighboring data sets, correct with probability 1 - FalseReject. The
// first half of the runs chooses, for each direction, an event that separates
// the two: a side of a threshold, or a single repeated value, of a linear
// score, of the distance from the middle, of a coordinate or of one of the
// given scores, such as a log-likelihood ratio. The second half bounds
//
//	ε ≥ log( (P(S) - δ)/Q(S) )
//
// by Clopper–Pearson limits, half of FalseReject for each direction. Runs with
// fewer coordinates than others count as a point at infinity, so that withheld
// releases are an event too. It panics on fewer than 100 runs on either side.
func SampleBound(x, y [][]float64, delta float64, scores ...func(x []float64) float64) float64 {
	if len(x) < 100 || len(y) < 100 {
		panic("testkit: fewer than 100 runs")
	}
	out := [2][][]float64{x, y}
	train := func(i int) [][]float64 { return out[i][:len(out[i])/2] }
	test := func(i int) [][]float64 { return out[i][len(out[i])/2:] }
	all := scoresOf(train(0), train(1), scores)
	best := 0.0
	for dir := range 2 {
		e := choose(all, train(dir), train(1-dir), delta)
		best = math.Max(best, e.bound(test(dir), test(1-dir), delta, FalseReject/2))
	}
	return best
}

// event is {score in [lo, hi]}.
type event struct {
	score  func(x []float64) float64
	lo, hi float64
}

func (e event) count(x [][]float64) (k int) {
	for _, v := range x {
		if s := e.score(v); s >= e.lo && s <= e.hi {
			k++
		}
	}
	return k
}

// bound returns the lower confidence limit of log((P - δ)/Q).
func (e event) bound(p, q [][]float64, delta, alpha float64) float64 {
	lo, _ := ClopperPearson(e.count(p), len(p), alpha)
	_, hi := ClopperPearson(e.count(q), len(q), alpha)
	if !(lo > delta) {
		return 0
	}
	return math.Log((lo - delta) / hi)
}

// scoresOf returns real functions of an output, made from training runs: the
// coordinates (16 at most), the projection on the difference of the means,
// the distance from their middle, and those given.
func scoresOf(x, y [][]float64, given []func([]float64) float64) []func([]float64) float64 {
	d := 0 // a run may be withheld, all are not
	for _, v := range slices.Concat(x, y) {
		d = max(d, len(v))
	}
	center := func(s [][]float64) []float64 {
		m, n := make([]float64, d), 0.
		for _, v := range s {
			if len(v) == d && !math.IsInf(floats.Norm(v, 2), 0) && !floats.HasNaN(v) {
				floats.Add(m, v)
				n++
			}
		}
		floats.Scale(1/math.Max(n, 1), m)
		return m
	}
	a, b := center(x), center(y)
	mid, diff := make([]float64, d), make([]float64, d)
	floats.AddScaledTo(mid, a, 1, b)
	floats.Scale(0.5, mid)
	floats.SubTo(diff, a, b)
	safe := func(f func(v []float64) float64) func([]float64) float64 {
		return func(v []float64) float64 {
			if len(v) != d {
				return math.Inf(1)
			}
			if s := f(v); !math.IsNaN(s) {
				return s
			}
			return math.Inf(1)
		}
	}
	scores := []func([]float64) float64{
		safe(func(v []float64) float64 { return floats.Dot(v, diff) }),
		safe(func(v []float64) float64 { return floats.Distance(v, mid, 2) }),
	}
	for i := range min(d, 16) {
		scores = append(scores, safe(func(v []float64) float64 { return v[i] }))
	}
	for _, f := range given {
		scores = append(scores, safe(f))
	}
	return scores
}

// guide imitates event.bound by limits of 5 standard deviations, without its
// cost: it only chooses.
func guide(kp, np, kq, nq int, delta float64) float64 {
	p, q := float64(kp), float64(kq)
	lo := (p-5*math.Sqrt(p))/float64(np) - delta
	if !(lo > 0) {
		return math.Inf(-1)
	}
	return math.Log(lo * float64(nq) / (q + 5*math.Sqrt(q) + 15)) // 15: the limit of an event never seen
}

// choose returns the event that looks best on the training runs.
func choose(scores []func([]float64) float64, p, q [][]float64, delta float64) event {
	best, value := event{scores[0], math.Inf(-1), math.Inf(1)}, math.Inf(-1)
	for _, score := range scores {
		sp, sq := apply(score, p), apply(score, q)
		try := func(lo, hi float64) {
			if v := guide(within(sp, lo, hi), len(sp), within(sq, lo, hi), len(sq), delta); v > value {
				best, value = event{score, lo, hi}, v
			}
		}
		const steps = 200
		for i := range steps {
			c := sp[i*len(sp)/steps]
			try(c, math.Inf(1))
			try(math.Inf(-1), c)
			try(c, c) // an atom, if the value repeats
		}
	}
	return best
}

func apply(score func([]float64) float64, x [][]float64) []float64 {
	s := make([]float64, len(x))
	for i, v := range x {
		s[i] = score(v)
	}
	slices.Sort(s)
	return s
}

// within counts the values of the sorted s in [lo, hi].
func within(s []float64, lo, hi float64) int {
	i, _ := slices.BinarySearch(s, lo)
	j, _ := slices.BinarySearch(s, math.Nextafter(hi, math.Inf(1)))
	if math.IsInf(hi, 1) {
		j = len(s)
	}
	return j - i
}
