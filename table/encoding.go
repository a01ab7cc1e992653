// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"io"
	"unicode/utf8"
)

// Encodings of text with one byte per character. The first 128 characters are those of ASCII.
const (
	latin1      = "latin-1"      // a byte is its code point
	windows1252 = "windows-1252" // Latin-1 with typographic signs from 0x80 to 0x9f
)

// typographic lists the characters of windows-1252 from 0x80 on; a byte that it does not define is
// its code point, as in the WHATWG Encoding Standard.
var typographic = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func (f File) checkEncoding() error {
	if f.Encoding != "" && f.Encoding != latin1 && f.Encoding != windows1252 {
		return bad("file.encoding", "%s, want %q or %q, or leave it out for UTF-8", quote(f.Encoding), latin1, windows1252)
	}
	return nil
}

// recoder reads text with one byte per character as UTF-8, byte by byte.
type recoder struct {
	in      io.Reader
	windows bool
	raw     [1 << 12]byte
	text    []byte // UTF-8 that has not been read
	space   []byte // of text
	err     error
}

// Read implements io.Reader.
func (r *recoder) Read(p []byte) (int, error) {
	for len(r.text) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.in.Read(r.raw[:])
		r.text = r.space[:0]
		for _, c := range r.raw[:n] {
			char := rune(c)
			if r.windows && c >= 0x80 && c < 0xa0 {
				char = typographic[c-0x80]
			}
			r.text = utf8.AppendRune(r.text, char)
		}
		r.space = r.text
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}
