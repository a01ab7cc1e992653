// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/prefix"
)

// ErrSampler reports a [Sampler], a noise or a number of sums outside its range. Test with
// errors.Is.
var ErrSampler = prefix.New("dp: invalid sampler")

// MaxSteps is the largest number of sums that a [Sampler] accounts for.
const MaxSteps = 1 << 40

// Sampler is a way to draw batches of records. It knows the privacy of noisy sums over its batches,
// as in stochastic gradient descent: every step draws a batch, clips the vector of each record to
// norm L, and publishes the sum of the vectors plus N(0, z²L²I), where z is called the noise. The
// fields that are set choose the way:
//
//	Sampler{Rate: q}                             each record with probability q (Poisson)
//	Sampler{Size: m, Records: n}                 m of n records, without replacement
//	Sampler{Size: m, Records: n, Repeats: true}  m independent draws of one of n records
//
// Rate 1 takes all records. Epochs over shuffled records are none of the three. All fields are
// public numbers. The proofs are in docs/theory/population.md#population.step.
type Sampler struct {
	Rate     float64  `json:"Rate,omitempty"`     // in (0, 1]; a batch may be empty
	Size     int      `json:"Size,omitempty"`     // of a batch
	Records  int      `json:"Records,omitempty"`  // the public number of records
	Repeats  bool     `json:"Repeats,omitempty"`  // a batch may hold a record several times
	Relation Relation `json:"Relation,omitempty"` // 0 means Replace; AddRemove needs a Rate
}

// mostCopies is the largest expected number of copies of a record in a batch with Repeats.
const mostCopies = 100

// Check returns an error that wraps ErrSampler or ErrRelation unless the sampler is one of two: a
// Rate in (0, 1], with no other field set but Relation; or under replace neighbors a Size from 1 to
// Records, with Repeats to 100·Records.
func (s Sampler) Check() error {
	most := s.Records
	if s.Repeats {
		most = math.MaxInt32
		if s.Records < most/mostCopies {
			most = mostCopies * s.Records
		}
	}
	sized := s.Size != 0 || s.Records != 0 || s.Repeats
	switch err := s.Neighbors().Check(); {
	case err != nil:
		return fmt.Errorf("dp: Sampler.Relation: %w", err)
	case sized && s.Rate != 0:
		return fmt.Errorf("%w: Rate = %v with Size = %d, Records = %d, Repeats = %v, want a Rate alone, or Size and "+
			"Records without one", ErrSampler, s.Rate, s.Size, s.Records, s.Repeats)
	case !sized && !(s.Rate > 0 && s.Rate <= 1):
		return fmt.Errorf("%w: Rate = %v, want a probability in (0, 1], or a Size and Records", ErrSampler, s.Rate)
	case sized && s.Records < 1:
		return fmt.Errorf("%w: Records = %d, want the public number of records, at least 1", ErrSampler, s.Records)
	case sized && (s.Size < 1 || s.Size > most):
		return fmt.Errorf("%w: Size = %d, want a number of records in [1, %d]", ErrSampler, s.Size, most)
	case sized && s.Neighbors() != Replace:
		return fmt.Errorf("%w: batches of a given Size are about %v neighbors, Relation = %v; use a Rate", ErrRelation,
			Replace, s.Relation)
	}
	return nil
}

// Neighbors returns Relation, or Replace where it is 0.
func (s Sampler) Neighbors() Relation {
	return cmp.Or(s.Relation, Replace)
}

// Fraction returns the expected size of a batch over the number of records.
func (s Sampler) Fraction() float64 {
	if s.Rate != 0 {
		return s.Rate
	}
	return float64(s.Size) / float64(s.Records)
}

// String describes the batches.
func (s Sampler) String() string {
	switch {
	case s.Repeats:
		return fmt.Sprintf("batches of %d draws from %d records with replacement", s.Size, s.Records)
	case s.Size != 0:
		return fmt.Sprintf("batches of %d of %d records without replacement", s.Size, s.Records)
	}
	return fmt.Sprintf("Poisson batches of rate %g, %v neighbors", s.Rate, s.Neighbors())
}

const (
	errCheck   = "dp: Batches of a Sampler that fails Check"
	errRecords = "dp: Batches for another number of records than that of the Sampler"
)

// dense is the Rate above which drawing one coin for each record is faster than drawing the gaps
// between the members of a batch.
const dense = 0.2

// Batches returns a function that draws a fresh batch of the records 0, …, records−1, independent
// of the earlier ones, at every call: increasing for a Rate, else in any order. The slice is valid
// until the next call. Keep batches secret: against an attacker who knows them, sampling adds no
// privacy. Batches panics if the Sampler fails Check or was made for another number of records.
//
// The probability of each record is at most Rate, and below it by at most a relative 2⁻⁴⁸. A lower
// probability costs no more privacy (docs/theory/population.md#population.batches).
func (s Sampler) Batches(records int, src rand.Source) func() []int {
	var draw func(batch []int) []int
	var batch []int
	switch rnd := rand.New(src); {
	case s.Check() != nil:
		panic(errCheck)
	case s.Size > 0 && s.Records != records:
		panic(errRecords)
	case s.Repeats:
		draw = func(batch []int) []int {
			for range s.Size {
				batch = append(batch, rnd.IntN(records))
			}
			return batch
		}
	case s.Size > 0: // the first exchanges of a shuffle, uniform from any order
		order := upTo(nil, records)
		draw = func(batch []int) []int {
			for i := range s.Size {
				j := i + rnd.IntN(records-i)
				order[i], order[j] = order[j], order[i]
			}
			return append(batch, order[:s.Size]...)
		}
	case s.Rate == 1:
		draw = func(batch []int) []int { return upTo(batch, records) }
	case s.Rate >= dense:
		coin := uint64(math.Floor(s.Rate * 0x1p64))
		draw = func(batch []int) []int {
			for i := range records {
				if src.Uint64() < coin {
					batch = append(batch, i)
				}
			}
			return batch
		}
	default: // the gaps between members are geometric
		mean := s.Rate * float64(records)
		batch = make([]int, 0, min(records, int(mean+6*math.Sqrt(mean)+16))) // exceeded with probability below 1e-9
		c := gapScale(s.Rate)
		draw = func(batch []int) []int {
			for i := -1; ; {
				gap := noise.Gap(c, src)
				if gap >= int64(records-1-i) {
					return batch
				}
				i += 1 + int(gap)
				batch = append(batch, i)
			}
		}
	}
	return func() []int {
		batch = draw(batch[:0])
		return batch
	}
}

// upTo appends 0, …, n−1.
func upTo(batch []int, n int) []int {
	for i := range n {
		batch = append(batch, i)
	}
	return batch
}

// gapScale returns c ≥ −1/log(1−q) for [noise.Gap], so that members have probability 1 − e^{−1/c} ≤
// q. Three roundings and the error of Log1p are below 2⁻⁵⁰.
func gapScale(q float64) float64 { return min(1/-math.Log1p(-q)*(1+0x1p-49), 0x1p1000) }
