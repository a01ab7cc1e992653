package accounting

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/noise"
)

// Batches draws one batch after the other, independently of each other. It
// serves one goroutine. The batches themselves are secret: who knows them
// loses what sampling added to privacy.
type Batches struct {
	next func(dst []int) []int
	idx  []int
}

// Next returns the indices of a fresh batch, valid until the next call: in
// increasing order and without repetition for Poisson and Full, in any order
// for FixedSize, with repetitions for WithReplacement. A batch may be empty.
func (b *Batches) Next() []int {
	b.idx = b.next(b.idx[:0])
	return b.idx
}

const (
	errCheck   = "accounting: Batches of a sampler that fails Check"
	errRecords = "accounting: Batches for another number of records than the sampler's"
)

func must(s Sampler) {
	if s.Check() != nil {
		panic(errCheck)
	}
}

// dense is the rate from which on one coin a record is cheaper than a gap a
// batch member.
const dense = 0.2

// Batches draws with the probability q rounded down by at most 2⁻⁶³: less than q
// costs less. For small q it draws the gaps between members, the integer parts
// of exponential variables over −log(1−q), which are geometric.
func (s Poisson) Batches(records int, src rand.Source) *Batches {
	must(s)
	if s.Rate == 1 {
		return Full{s.Relation}.Batches(records, src)
	}
	b := &Batches{idx: make([]int, 0, expectedRoom(s.Rate, records))}
	if s.Rate >= dense {
		coin := uint64(math.Floor(s.Rate * 0x1p64))
		b.next = func(dst []int) []int {
			for i := range records {
				if src.Uint64() < coin {
					dst = append(dst, i)
				}
			}
			return dst
		}
		return b
	}
	scale := 1 / -math.Log1p(-s.Rate) * (1 + 0x1p-51) // gaps no shorter for rounding
	b.next = func(dst []int) []int {
		for i := -1; ; {
			gap := noise.Exponential(src) * scale
			if gap >= float64(records-1-i) {
				return dst
			}
			i += 1 + int(gap)
			dst = append(dst, i)
		}
	}
	return b
}

// expectedRoom is a capacity that batches exceed with probability below 1e-9.
func expectedRoom(q float64, records int) int {
	mean := q * float64(records)
	return min(records, int(mean+6*math.Sqrt(mean)+16))
}

// Batches draws uniform subsets by the first Size exchanges of a shuffle; from
// any order of the records these are uniform, so that the order is kept from
// one batch to the next. Memory O(Records).
func (s FixedSize) Batches(records int, src rand.Source) *Batches {
	must(s)
	if records != s.Records {
		panic(errRecords)
	}
	rnd := rand.New(src)
	order := make([]int, records)
	for i := range order {
		order[i] = i
	}
	return &Batches{next: func(dst []int) []int {
		for i := range s.Size {
			j := i + rnd.IntN(records-i)
			order[i], order[j] = order[j], order[i]
		}
		return append(dst, order[:s.Size]...)
	}}
}

// Batches draws Size independent uniform indices.
func (s WithReplacement) Batches(records int, src rand.Source) *Batches {
	must(s)
	if records != s.Records {
		panic(errRecords)
	}
	rnd := rand.New(src)
	return &Batches{next: func(dst []int) []int {
		for range s.Size {
			dst = append(dst, rnd.IntN(records))
		}
		return dst
	}}
}

// Batches returns all indices each time.
func (s Full) Batches(records int, _ rand.Source) *Batches {
	must(s)
	all := make([]int, max(records, 0))
	for i := range all {
		all[i] = i
	}
	return &Batches{next: func(dst []int) []int { return append(dst, all...) }}
}
