// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// ranking adds up the weights of the records of two classes by their score, in cells of 2⁻¹⁰ up to
// ±32: it takes the same memory for any number of records. Scores in one cell count as equal.
type ranking struct {
	counts [2][]float64
	chance []float64 // sum of the stated probabilities, nil without them
}

const (
	rankSteps = 1 << 10
	rankMost  = 32
	rankCells = 2*rankMost*rankSteps + 1
)

func (r *ranking) add(p Prediction, class int, w float64) {
	if r.counts[0] == nil {
		r.counts = [2][]float64{make([]float64, rankCells), make([]float64, rankCells)}
		if p.Probabilities != nil {
			r.chance = make([]float64, rankCells)
		}
	}
	at := math.Round((p.Score + rankMost) * rankSteps)
	if at != at {
		at = rankMost * rankSteps
	}
	k := int(min(max(at, 0), rankCells-1))
	r.counts[class][k] += w
	if r.chance != nil {
		r.chance[k] += w * p.Probabilities[1]
	}
}

// Tenth is a tenth of the records, by their score.
type Tenth struct {
	Records     int     `json:"records"`
	Positives   float64 `json:"positives"`            // share of the second class
	Probability float64 `json:"probability,omitzero"` // mean of what the model states
}

// finish sets the area under the ROC curve, the most accurate threshold of the score and the
// tenths, from the highest scores down.
func (r *ranking) finish(s *Scores) {
	if r.counts[0] == nil {
		return
	}
	var n [2]float64
	for class, counts := range r.counts {
		n[class] = floats.Sum(counts)
	}
	wins, above := 0.0, [2]float64{}
	best := n[0] // right if all are predicted to be of the first class
	s.Threshold = math.Inf(1)
	s.Tenths = make([]Tenth, 10)
	var sums [10]float64
	for k := rankCells - 1; k >= 0; k-- {
		c := [2]float64{r.counts[0][k], r.counts[1][k]}
		both := c[0] + c[1]
		if both == 0 {
			continue
		}
		middle := above[0] + above[1] + both/2
		tenth := min(int(10*middle/(n[0]+n[1])), 9)
		t := &s.Tenths[tenth]
		sums[tenth] += both
		t.Positives += c[1]
		if r.chance != nil {
			t.Probability += r.chance[k]
		}
		wins += c[0] * (above[1] + c[1]/2)
		above[0], above[1] = above[0]+c[0], above[1]+c[1]
		if right := above[1] + n[0] - above[0]; right > best {
			best, s.Threshold = right, (float64(k)-0.5)/rankSteps-rankMost
		}
	}
	if n[0] > 0 && n[1] > 0 {
		s.AUC = wins / (n[0] * n[1])
	}
	s.Best = best / (n[0] + n[1])
	if math.IsInf(s.Threshold, 1) {
		s.Threshold = rankMost // above all scores that count
	}
	if r.chance != nil {
		s.Threshold = 1 / (1 + math.Exp(-s.Threshold))
	}
	for i := range s.Tenths {
		t := &s.Tenths[i]
		t.Records = int(math.Round(sums[i]))
		if m := sums[i]; m > 0 {
			t.Positives /= m
			t.Probability /= m
		}
	}
}
