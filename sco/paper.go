// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
)

// Published holds the numbers of A_NSGD as they were published [BFTT19, Algorithm 1 and Theorem
// 3.2]. [NoisySGD] does not use them: Noise rests on an accountant whose conditions fail for T <
// 128 ln(1/δ), and is then short. For n = 100 it proves ε = 2.6 where 1 is claimed.
// dp.Sampler.Epsilon states what a Noise proves.
type Published struct {
	Steps   int        // T = min( n/8, ε²n²/(32 d ln(1/δ)) )
	Sampler dp.Sampler // batches of max( n√(ε/(4T)), 1 ) draws with replacement
	Noise   float64    // standard deviation of the noise of the sum of a batch, over L
	// Excess bounds the expected excess population loss, over ML: 10·max( √(d ln(1/δ))/(εn), 1/√n ).
	// Theorem 4.4, for losses with kinks, rests on it but prints 20 in the place of 10.
	Excess float64
}

// PublishedSGD returns the published numbers for n records of dimension d, one of which may be
// replaced. The paper takes ε ≤ 1 and δ ≤ 1/n². The error wraps [ErrMechanism] or an error of
// [dp.Budget.Check].
func PublishedSGD(n, d int, b dp.Budget) (p Published, err error) {
	if err := b.Check(); err != nil {
		return p, fmt.Errorf("sco: %w", err)
	}
	switch {
	case n < 1 || d < 1:
		return p, fmt.Errorf("%w: n = %d and d = %d, want at least 1 of both", ErrMechanism, n, d)
	case b.Delta == 0:
		return p, fmt.Errorf("%w: Delta = 0, but the published noise is Gaussian, want a positive number", ErrMechanism)
	}
	records, log := float64(n), -num.Log(b.Delta)
	en := b.Epsilon * records
	steps := max(1, math.Floor(min(records/8, en*en/(32*float64(d)*log))))
	batch := max(1, math.Ceil(records*math.Sqrt(b.Epsilon/(4*steps))))
	return Published{
		Steps: int(steps), Sampler: dp.Sampler{Size: int(batch), Records: n, Repeats: true},
		Noise:  math.Sqrt(8*steps*log) / en * batch,
		Excess: 10 * max(math.Sqrt(float64(d)*log)/en, 1/math.Sqrt(records)),
	}, nil
}
