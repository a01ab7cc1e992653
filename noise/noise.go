// Package noise makes the random draws that privacy rests on: full-range
// samplers over a secure source.
//
// The samplers of math/rand and of gonum return values from a small set: their
// normal generator knows about 2³⁹ numbers, whatever its source. A linear
// perturbation b can be computed from a released minimizer and a candidate data
// set, and only the true data set puts b into that set, so the release names
// its data [Mir12, Jin+22]. Here every draw is a real number with at least 58
// random significant bits, in every binade from 1 down to 2⁻⁹⁰⁰, rounded once: each
// float64 of the range can occur, with about the probability of the reals that
// round to it. Dirichlet, which goes through rounded logarithms, is excepted: it
// is for data and experiments.
//
// A float64 is still not a real number, and the time a sampler takes depends on
// what it draws. Mechanisms that rest on these draws therefore state the
// assumption that arithmetic is real. Below, Geometric and DiscreteLaplace draw
// integers and are exact: given a uniform source, every probability is the one
// of the formula, without that assumption.
//
// All samplers read a math/rand/v2 [rand.Source], which must be uniform and
// must not be nil; no sampler keeps it. One source serves one goroutine. The
// stream of values a seed yields may change between versions of this module.
//
// # Notation
//
//	σ            sigma, the standard deviation of one coordinate
//	U            a uniform variable on (0,1)
//	E            a standard exponential variable
//	s, k         a significand in [2⁶³, 2⁶⁴) and a binary exponent: U = s 2⁻⁶⁴ 2⁻ᵏ
//	hi + lo      a real number as an unevaluated sum of two float64, |lo| ≤ ulp(hi)
//
// # References
//
//	[Ber08]   Bernstein. ChaCha, a variant of Salsa20. 2008. The generator is
//	          the ChaCha8 of math/rand/v2 with a key of 32 bytes.
//	[CKS20]   Canonne, Kamath, Steinke. The Discrete Gaussian for Differential
//	          Privacy. NeurIPS 2020.
//	[Jin+22]  Jin, McMurtry, Rubinstein, Ohrimenko. Are We There Yet? Timing and
//	          Floating-Point Attacks on Differential Privacy Systems. S&P 2022.
//	[Mar64]   Marsaglia. Generating a Variable from the Tail of the Normal
//	          Distribution. Technometrics 6, 1964.
//	[Mir12]   Mironov. On Significance of the Least Significant Bits for
//	          Differential Privacy. CCS 2012.
//	[MT00a]   Marsaglia, Tsang. The Ziggurat Method for Generating Random
//	          Variables. Journal of Statistical Software 5, 2000.
//	[MT00b]   Marsaglia, Tsang. A Simple Method for Generating Gamma Variables.
//	          ACM TOMS 26, 2000.
package noise

import (
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
)

// source is a ChaCha8 stream whose state cannot be printed or saved: whoever
// knows the state can subtract the noise.
type source struct{ chacha *rand.ChaCha8 }

// Secure returns a new source: ChaCha8 under a fresh key of 32 bytes from
// crypto/rand. Every release takes a new one; a source is never stored. It
// formats as "[secret]" and cannot be decoded from or encoded to a state. If
// the operating system has no randomness, crypto/rand ends the process.
func Secure() rand.Source {
	var key [32]byte
	crand.Read(key[:]) // never fails: see crypto/rand
	s := &source{rand.NewChaCha8(key)}
	clear(key[:])
	return s
}

// Reproducible returns the source that a seed and labels name, for experiments
// and tests: equal arguments give equal streams, different ones independent
// streams. It is not private: whoever guesses the seed can subtract the noise.
func Reproducible(seed uint64, label ...string) rand.Source {
	msg := []byte("privopt/noise reproducible stream\x00")
	msg = binary.BigEndian.AppendUint64(msg, seed)
	for _, l := range label { // lengths keep ("a","b") and ("ab") apart
		msg = binary.BigEndian.AppendUint64(msg, uint64(len(l)))
		msg = append(msg, l...)
	}
	return &source{rand.NewChaCha8(sha256.Sum256(msg))}
}

// Uint64 returns 64 uniform bits.
func (s *source) Uint64() uint64 { return s.chacha.Uint64() }

const secret = "[secret]"

// errSaved is what every encoder reports.
var errSaved = errors.New("noise: a source is never saved; draw a new one with noise.Secure")

// Format writes "[secret]" for every verb of package fmt.
func (*source) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secret)) }

// String returns "[secret]".
func (*source) String() string { return secret }

// GoString returns "[secret]".
func (*source) GoString() string { return secret }

// MarshalText returns "[secret]", also in JSON and in structured logs.
func (*source) MarshalText() ([]byte, error) { return []byte(secret), nil }

// MarshalBinary reports that a source is never saved.
func (*source) MarshalBinary() ([]byte, error) { return nil, errSaved }

// GobEncode reports that a source is never saved.
func (*source) GobEncode() ([]byte, error) { return nil, errSaved }
