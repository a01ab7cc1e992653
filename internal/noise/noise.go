// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package noise makes the random draws that privacy rests on.
//
// A float64 is not a real number: the set of sums of two floats alone can reveal the data behind
// them, whatever the law of the noise [Mir12, Jin+22]. A release is therefore an integer statistic
// plus an integer draw. [Grid], [RadialGrid], [LaplaceGrid] and [Gap] round a real random variable
// to an integer that has exactly the probability of the reals that round to it, given a uniform
// source. [Geometric], [DiscreteLaplace] and [Below] are exact too. [Normal], [Exponential] and
// [ChiSquared] return floats within a stated distance of a real draw.
//
//	k := make([]int64, d)
//	noise.Grid(k, sigma, -30, noise.Secure())  // round(X/g), X ~ N(0, sigma²), g = 2⁻³⁰
//
// The method is a ziggurat [MT00] whose layers have exactly equal areas. As in [Kar16], floating
// point decides where its error cannot matter, and rational arithmetic decides elsewhere, so that a
// source gives the same draws on every machine (docs/theory/release.md#release.integers). The time
// that a draw takes depends on its value.
//
// All samplers read a [rand.Source] of math/rand/v2, which must be uniform and not nil. One source
// serves one goroutine. A source that repeats itself gives no noise: after many futile words a
// sampler panics, unless [Watch] guards the source. The values of a seed may change between
// versions.
//
// # Notation
//
//	U, V         uniform variables on (0,1), known to as many bits as were drawn
//	E            a standard exponential variable
//	f, t         the density e^{-t(x)} up to a factor, t(x) = x²/2 or x
//	i, wᵢ, yᵢ    a layer of a ziggurat, its width and its lower edge
//	m            the first 55 bits of U, x = U·wᵢ
//
// # References
//
//	[Bre80]   Brent. An Improved Monte Carlo Factorization Algorithm. BIT 20, 1980.
//	[CKS20]   Canonne, Kamath, Steinke. The Discrete Gaussian for Differential Privacy. NeurIPS 2020.
//	[Jin+22]  Jin, McMurtry, Rubinstein, Ohrimenko. Are We There Yet? Timing and Floating-Point
//	          Attacks on Differential Privacy Systems. S&P 2022.
//	[Kar16]   Karney. Sampling Exactly from the Normal Distribution. ACM TOMS 42, 2016.
//	[Mir12]   Mironov. On Significance of the Least Significant Bits for Differential Privacy.
//	          CCS 2012.
//	[MT00]    Marsaglia, Tsang. The Ziggurat Method for Generating Random Variables. J. Stat.
//	          Software 5, 2000.
//	[MT00b]   Marsaglia, Tsang. A Simple Method for Generating Gamma Variables. ACM Trans. Math.
//	          Softw. 26, 2000.
package noise

import (
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/privopt/privopt/internal/prefix"
)

// source is a ChaCha8 stream whose state cannot be printed or saved: whoever knows the state can
// subtract the noise.
type source struct {
	hidden
	chacha *rand.ChaCha8
}

// Source is a source of randomness that reports whether it can be relied on.
type Source interface {
	rand.Source
	// Err returns nil, or an error wrapping ErrSource if the source has repeated itself.
	Err() error
}

// Secure returns a new source: ChaCha8 under a fresh key of 32 bytes from crypto/rand. Every
// release takes a new one; a source is never stored. It formats as "[secret]" and has no encoding.
// If the operating system has no randomness, crypto/rand ends the process.
func Secure() Source {
	var key [32]byte
	crand.Read(key[:]) // never fails: see crypto/rand
	s := &source{chacha: rand.NewChaCha8(key)}
	clear(key[:])
	return s
}

// Reproducible returns the source that a seed and labels name, for experiments and tests: equal
// arguments give equal streams, different ones independent streams. It is not private: whoever
// guesses the seed can subtract the noise.
func Reproducible(seed uint64, label ...string) rand.Source {
	msg := []byte("privopt/noise reproducible stream\x00")
	msg = binary.BigEndian.AppendUint64(msg, seed)
	for _, l := range label { // lengths keep ("a","b") and ("ab") apart
		msg = binary.BigEndian.AppendUint64(msg, uint64(len(l)))
		msg = append(msg, l...)
	}
	return &source{chacha: rand.NewChaCha8(sha256.Sum256(msg))}
}

// Uint64 returns 64 uniform bits.
func (s *source) Uint64() uint64 { return s.chacha.Uint64() }

// Err returns nil: the cycle of ChaCha8 is too long to be reached.
func (s *source) Err() error { return nil }

const secret = "[secret]"

// errSaved is the error of every encoder.
var errSaved = prefix.New("noise: a source is never saved; draw a new one with noise.Secure")

// hidden gives the source that embeds it methods that print and save nothing.
type hidden struct{}

// Format writes "[secret]" for every verb of package fmt.
func (hidden) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(secret)) }

// String returns "[secret]".
func (hidden) String() string { return secret }

// MarshalText returns "[secret]", also in JSON and in structured logs.
func (hidden) MarshalText() ([]byte, error) { return []byte(secret), nil }

// MarshalBinary returns an error, also for gob.
func (hidden) MarshalBinary() ([]byte, error) { return nil, errSaved }

// ErrSource reports a source of randomness that repeats itself. Test with errors.Is.
var ErrSource = prefix.New(errStuck + "; pass a uniform one, or nil for a secure one")

const errStuck = "noise: the source of randomness repeats itself"

// Watched is a source that notices when the source it reads repeats itself. It prints as
// "[secret]".
type Watched struct {
	hidden
	src      rand.Source
	last     uint64 // the word before
	old, mem uint64 // two words in a row, seen steps words ago
	steps    uint64 // words since then
	lap      uint64 // steps after which the two words are replaced
	err      error
}

// Watch returns a source with the words of src. If src runs into a cycle, Watched finds it within
// about three times the words of the cycle and of the words before it. From then on it returns the
// words of Secure, so that every sampler ends, and Err returns an error: whoever releases something
// that rests on src must call Err after the last draw. N words of a uniform source raise a false
// alarm with probability at most N 2⁻¹²⁸.
func Watch(src rand.Source) *Watched { return &Watched{src: src} }

// Err returns nil, or ErrSource if the source has repeated itself. It reads 16 more words, so that
// a short cycle shows even after a single draw.
func (w *Watched) Err() error {
	for range 16 {
		w.Uint64()
	}
	return w.err
}

// Uint64 returns the next word.
func (w *Watched) Uint64() uint64 {
	u := w.src.Uint64()
	if u == w.mem && w.last == w.old && w.lap > 0 && w.err == nil {
		w.fail()
	}
	if w.steps++; w.steps > w.lap { // the pair to look for moves to word 2ᵏ [Bre80]
		w.old, w.mem = w.last, u
		w.steps, w.lap = 0, 2*w.lap+1
	}
	w.last = u
	return u
}

// fail draws from a secure source from here on and keeps the error.
func (w *Watched) fail() { w.src, w.err = Secure(), ErrSource }

// giveUp fails a source after a multiple of most futile tries of a draw, which a uniform source
// needs with probability below 2⁻⁶⁰⁰. It panics if the source is not watched.
func giveUp[T int | uint64](tries, most T, src rand.Source) {
	if tries%most != 0 {
		return
	}
	w, ok := src.(*Watched)
	if !ok {
		panic(errStuck)
	}
	w.fail()
}
