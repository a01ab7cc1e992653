package accounting

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/internal/noise"
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

// must panics unless s is valid and made for the number of records.
func must(s Sampler, records, want int) {
	switch {
	case s.Check() != nil:
		panic(errCheck)
	case records != want:
		panic(errRecords)
	}
}

// dense is the rate from which on one coin a record is cheaper than a gap a
// batch member.
const dense = 0.2

// Batches draws with a probability q̂ ≤ q, independently for each record. For large
// q it is q rounded down to a multiple of 2⁻⁶⁴. For small q the gaps between members
// are geometric, the integer parts of cE for exponential E, and q̂ is 1 − e^{−1/c}
// exactly, with a float64 c above −1/log(1−q) by less than 2⁻⁴⁸ of it.
//
// A smaller q̂ costs no more: a step at q̂ is a mixture of one at q and one without
// the record, whose two laws are equal. The hockey-stick divergence is jointly convex,
// so the pair of laws at q dominates, and composition keeps domination [ZDW22].
func (s Poisson) Batches(records int, src rand.Source) *Batches {
	must(s, records, records)
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
	c := gapScale(s.Rate)
	b.next = func(dst []int) []int {
		for i := -1; ; {
			gap := noise.Gap(c, src)
			if gap >= int64(records-1-i) {
				return dst
			}
			i += 1 + int(gap)
			dst = append(dst, i)
		}
	}
	return b
}

// gapScale returns c ≥ −1/log(1−q) for Gap, so that members have probability
// 1 − e^{−1/c} ≤ q. Three roundings and the error of Log1p are below 2⁻⁵⁰.
func gapScale(q float64) float64 { return min(1/-math.Log1p(-q)*(1+0x1p-49), 0x1p1000) }

// expectedRoom is a capacity that batches exceed with probability below 1e-9.
func expectedRoom(q float64, records int) int {
	mean := q * float64(records)
	return min(records, int(mean+6*math.Sqrt(mean)+16))
}

// Batches draws uniform subsets by the first Size exchanges of a shuffle; from
// any order of the records these are uniform, so that the order is kept from
// one batch to the next. Memory O(Records).
func (s FixedSize) Batches(records int, src rand.Source) *Batches {
	must(s, records, s.Records)
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
	must(s, records, s.Records)
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
	must(s, records, records)
	all := make([]int, max(records, 0))
	for i := range all {
		all[i] = i
	}
	return &Batches{next: func(dst []int) []int { return append(dst, all...) }}
}
