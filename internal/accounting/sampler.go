package accounting

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/pld"
)

// Sampler is a way to draw batches together with the cost of one noisy sum over such
// a batch. The set of samplers is closed: Poisson, FixedSize,
// WithReplacement, Full. All fields are public numbers.
type Sampler interface {
	// Check returns an error wrapping ErrSampler or dp.ErrRelation unless the
	// fields make sense.
	Check() error
	// Neighbors is the relation that the cost is about.
	Neighbors() dp.Relation
	// Fraction is the expected size of a batch over the number of records.
	Fraction() float64
	// Batches returns the stream of batches of records numbered 0 to
	// records−1; see Batches. It panics if the sampler fails Check or was made
	// for another number of records: these are bugs in the call.
	Batches(records int, src rand.Source) *Batches

	step(z float64) Step
}

// Poisson puts every record into the batch with probability Rate,
// independently. An empty batch is a batch. The number of records does not
// enter, so that both relations are served.
type Poisson struct {
	Rate     float64     // q in (0, 1]
	Relation dp.Relation // 0 means dp.Replace
}

// FixedSize draws Size of the Records records without replacement, uniformly.
// Its cost is about dp.Replace.
type FixedSize struct{ Size, Records int }

// WithReplacement draws Size times one of the Records records, uniformly and
// independently, so that a record may count several times. Its cost is about
// dp.Replace.
type WithReplacement struct{ Size, Records int }

// Full takes all records in every step.
type Full struct{ Relation dp.Relation } // 0 means dp.Replace

var (
	_ Sampler = Poisson{}
	_ Sampler = FixedSize{}
	_ Sampler = WithReplacement{}
	_ Sampler = Full{}
)

func orReplace(r dp.Relation) dp.Relation {
	if r == 0 {
		return dp.Replace
	}
	return r
}

// Check wants a Rate in (0, 1] and a known Relation.
func (s Poisson) Check() error {
	if !(s.Rate > 0 && s.Rate <= 1) {
		return fmt.Errorf("%w: Poisson.Rate = %v, want a probability in (0, 1]", ErrSampler, s.Rate)
	}
	return checkRelation("Poisson", s.Relation)
}

// Check wants 1 ≤ Size ≤ Records.
func (s FixedSize) Check() error { return checkSize("FixedSize", s.Size, s.Records, s.Records) }

// mostCopies is the largest expected number of copies of a record in a batch of
// WithReplacement.
const mostCopies = 100

// Check wants Records ≥ 1 and 1 ≤ Size ≤ 100·Records, at most 2³¹−1; a batch may
// be larger than the data.
func (s WithReplacement) Check() error {
	most := math.MaxInt32
	if s.Records < most/mostCopies {
		most = mostCopies * s.Records
	}
	return checkSize("WithReplacement", s.Size, s.Records, most)
}

// Check wants a known Relation.
func (s Full) Check() error { return checkRelation("Full", s.Relation) }

func checkRelation(name string, r dp.Relation) error {
	if err := orReplace(r).Check(); err != nil {
		return fmt.Errorf("accounting: %s.Relation: %w", name, err)
	}
	return nil
}

func checkSize(name string, size, records, most int) error {
	switch {
	case records < 1:
		return fmt.Errorf("%w: %s.Records = %d, want the public number of records, at least 1", ErrSampler, name, records)
	case size < 1 || size > most:
		return fmt.Errorf("%w: %s.Size = %d, want a number of records in [1, %d]", ErrSampler, name, size, most)
	}
	return nil
}

// Neighbors returns Relation, dp.Replace if it is 0.
func (s Poisson) Neighbors() dp.Relation { return orReplace(s.Relation) }

// Neighbors returns dp.Replace.
func (s FixedSize) Neighbors() dp.Relation { return dp.Replace }

// Neighbors returns dp.Replace.
func (s WithReplacement) Neighbors() dp.Relation { return dp.Replace }

// Neighbors returns Relation, dp.Replace if it is 0.
func (s Full) Neighbors() dp.Relation { return orReplace(s.Relation) }

// Fraction returns Rate.
func (s Poisson) Fraction() float64 { return s.Rate }

// Fraction returns Size/Records.
func (s FixedSize) Fraction() float64 { return float64(s.Size) / float64(s.Records) }

// Fraction returns Size/Records.
func (s WithReplacement) Fraction() float64 { return float64(s.Size) / float64(s.Records) }

// Fraction returns 1.
func (s Full) Fraction() float64 { return 1 }

// String names the sampler and its parameters.
func (s Poisson) String() string {
	return fmt.Sprintf("Poisson batches of rate %g, %v neighbors", s.Rate, s.Neighbors())
}

// String names the sampler and its parameters.
func (s FixedSize) String() string {
	return fmt.Sprintf("batches of %d of %d records without replacement", s.Size, s.Records)
}

// String names the sampler and its parameters.
func (s WithReplacement) String() string {
	return fmt.Sprintf("batches of %d draws from %d records with replacement", s.Size, s.Records)
}

// String names the sampler and its parameters.
func (s Full) String() string { return fmt.Sprintf("all records, %v neighbors", s.Neighbors()) }

// reach returns how far, in units of L, one record that is in the batch for
// certain can move the sum.
func reach(r dp.Relation) float64 {
	if r == dp.Replace {
		return 2
	}
	return 1
}

func (s Full) step(z float64) Step { return full(s.Neighbors(), z) }

// full is the step over all records: exactly a Gaussian mechanism.
func full(rel dp.Relation, z float64) Step {
	r := reach(rel) / z
	return Step{rel: rel, pair: pld.Symmetric(func(eps float64) float64 { return gauss(eps, r) }),
		rdp: dp.GaussianRDP(r), gauss: r, count: 1}
}

func (s Poisson) step(z float64) Step {
	q, rel := s.Rate, s.Neighbors()
	switch {
	case q == 1:
		return full(rel, z)
	case rel == dp.Replace:
		return Step{rel: rel, pair: pld.Symmetric(poissonReplace(q, z)), rdp: rdpReplace(q, z), count: 1}
	}
	return Step{rel: rel, pair: pld.Pair{Up: poissonRemove(q, z), Down: poissonAdd(q, z)}, rdp: rdpPoisson(q, z), count: 1}
}

func (s FixedSize) step(z float64) Step {
	if s.Size == s.Records {
		return full(dp.Replace, z)
	}
	q := s.Fraction()
	return Step{rel: dp.Replace, pair: pld.Symmetric(fixedSize(q, z)), rdp: rdpReplace(q, z), count: 1}
}

func (s WithReplacement) step(z float64) Step {
	// No Rényi bound of this scheme is used: see Composition.RDP.
	none := func(float64) float64 { return math.Inf(1) }
	return Step{rel: dp.Replace, pair: pld.Symmetric(withReplacement(s.Size, s.Records, z)), rdp: none, count: 1}
}
