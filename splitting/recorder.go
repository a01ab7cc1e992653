// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import "math"

// TracePoint is the record of one iteration in a [Trace].
type TracePoint struct {
	Stats
	Residual float64
	Value    float64 // Trace.Func at X, 0 if that is nil
}

// Trace is a [Recorder] that keeps the [Stats], residual and value of iterations.
//
// Not private: if f depends on private records, so does every point.
type Trace struct {
	// Func is evaluated at X, for instance Problem.Func; nil means 0.
	Func func(x []float64) float64
	// PerDecade is about the number of iterations to keep of each decade: 1, 2, 5, 10, 22, 46, 100, …
	// for 3. The last iteration need not be among them; the [Result] reports it. 0 keeps all.
	PerDecade int
	Points    []TracePoint

	next int // the next iteration to keep
}

// Init forgets the points of an earlier solve.
func (t *Trace) Init() error {
	t.Points, t.next = t.Points[:0], 1
	return nil
}

// Record adds a point.
func (t *Trace) Record(loc *Location, stats *Stats) error {
	if t.PerDecade > 0 {
		if stats.Iterations < t.next {
			return nil
		}
		t.next = spaced(stats.Iterations, math.Pow(10, 1/float64(t.PerDecade)))
	}
	p := TracePoint{Stats: *stats, Residual: loc.Residual}
	if t.Func != nil {
		p.Value = t.Func(loc.X)
	}
	t.Points = append(t.Points, p)
	return nil
}

// spaced returns the first power of ratio that rounds to more than k.
func spaced(k int, ratio float64) int {
	if float64(k)*ratio < float64(k)+1 {
		return k + 1
	}
	for p := math.Floor(math.Log(float64(k)) / math.Log(ratio)); ; p++ {
		if v := math.Round(math.Pow(ratio, p)); v > float64(k) {
			return int(math.Min(v, math.MaxInt32))
		}
	}
}
