package noise

import (
	"math/rand/v2"

	"github.com/privopt/privopt/internal/prefix"
)

// ErrSource reports a source of randomness that repeats itself. Test with errors.Is.
var ErrSource = prefix.New("noise: the source of randomness repeats itself; pass a uniform one, or nil for a secure one")

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
		w.old, w.mem, w.steps, w.lap = w.last, u, 0, 2*w.lap+1
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
