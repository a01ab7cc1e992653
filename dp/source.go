package dp

import (
	"math/rand/v2"

	"github.com/privopt/privopt/internal/noise"
)

// Seeded returns the source of randomness that a seed and labels name, for experiments and tests:
// equal arguments give equal streams, different ones independent streams. It is not private:
// whoever guesses the seed can subtract the noise. A release takes nil as its source instead, which
// stands for a fresh one that only the operating system knows.
func Seeded(seed uint64, label ...string) rand.Source { return noise.Reproducible(seed, label...) }

// ErrSource reports a source of randomness that repeats itself. Test with errors.Is.
var ErrSource = noise.ErrSource
